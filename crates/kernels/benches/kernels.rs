//! The kernels one by one: `cargo bench --workspace --bench kernels`, with `-- conv` those whose
//! name contains it.

use burn::tensor::Device;
use divan::{Bencher, counter::BytesCount};
use mnemora_kernels::works::works;

// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn names() -> Vec<&'static str> {
    works().iter().map(|work| work.name).collect()
}

#[divan::bench(args = names(), sample_count = 20, sample_size = 1)]
fn kernel(bencher: Bencher, name: &str) {
    let works = works();
    let work = works.iter().find(|work| work.name == name);
    let work = work.expect("names are those of works");
    let mut step = (work.prepare)(&Device::default().autodiff());
    step();
    bencher
        .counter(BytesCount::new(work.cost.bytes as u64))
        .bench_local(&mut step);
}
