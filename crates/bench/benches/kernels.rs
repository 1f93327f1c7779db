//! Times the kernels one by one: `cargo bench --workspace --bench kernels`. With `-- conv` only those whose
//! names contain it.

use burn::tensor::Device;
use divan::{Bencher, counter::BytesCount};
use mnemora_bench::kernels::benchmarks;

// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn names() -> Vec<&'static str> {
    benchmarks()
        .iter()
        .map(|benchmark| benchmark.name)
        .collect()
}

#[divan::bench(args = names(), sample_count = 20, sample_size = 1)]
fn kernel(bencher: Bencher, name: &str) {
    let benchmarks = benchmarks();
    let benchmark = benchmarks.iter().find(|benchmark| benchmark.name == name);
    let benchmark = benchmark.expect("every name belongs to a benchmark");
    let mut step = (benchmark.prepare)(&Device::default().autodiff());
    step();
    bencher
        .counter(BytesCount::new(benchmark.cost.bytes as u64))
        .bench_local(&mut step);
}
