//! Benchmarks that compare mnemora with PyTorch: kernels, LSTM, convolution blocks, training steps.
//!
//! Other measurements concern mnemora alone: one step of each memory as a function of its slots, training steps
//! and variational filtering as functions of sequence length, and batches compared with the updates that use
//! them. `mnemora bench` calls this crate. The README explains the numbers.
//!
//! | file | contents |
//! | --- | --- |
//! | `benchmark.rs` | a single benchmark, and how it is timed |
//! | `benchmarks.rs` | all benchmarks; groups of them are in `kernels.rs`, `sequences.rs`, `relational.rs`, `language.rs`, `navigation.rs`, `scenes.rs` and `sv2p.rs` |
//! | `peer.rs`, `pytorch/` | PyTorch as a child process, and its scripts |
//! | `limits.rs`, `cost.rs`, `count.rs` | limits of the machine; lower bounds on the cost of a benchmark |
//! | `draws.rs` | numbers and parameters that benchmarks draw |
//! | `table.rs`, `progress.rs` | printed output |
//! | `slots.rs` | one step of each memory, by number of slots |
//! | `length.rs`, `inference.rs` | training steps and variational filtering, by sequence length |
//! | `batches.rs` | batches of every task compared with the updates that use them |
//! | `training.rs` | trainings whose parts are timed |

mod agents;
mod batches;
mod benchmark;
mod benchmarks;
pub mod cost;
mod count;
mod draws;
mod error;
mod inference;
pub mod kernels;
mod language;
mod length;
mod limits;
mod navigation;
mod own;
mod peer;
mod progress;
mod relational;
mod scenes;
mod sequences;
mod slots;
mod sv2p;
mod table;
mod training;

pub use batches::{BatchRow, batch_table, bench_batches};
pub use error::BenchError;
pub use inference::{InferenceRow, bench_inference, inference_table};
pub use length::{
    LengthGrowth, LengthRow, bench_length, draw_length, length_growth, length_table, one_length,
};
pub use slots::{SlotRow, bench_slots, slot_table};
pub use table::{BenchRow, Setting, geometric_mean, table};

use benchmark::{Benchmark, median};
use limits::Limits;
use mnemora_lab::{find_device, note};
use mnemora_training::threads::Threads;
use peer::{Answer, Peer, Request};
use progress::Progress;
use std::collections::BTreeMap;
use table::Measured;

/// Repetitions before the clock starts, in the first round of a benchmark and in later rounds.
const WARM_UP: [usize; 2] = [2, 1];
/// A load above this means that other programs use the processor.
const BUSY_LOAD: f64 = 0.5;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// A Python interpreter that has PyTorch; `None` measures mnemora alone.
    pub peer: Option<String>,
    /// Number of rounds; in each, the two sides are measured one after the other.
    pub rounds: usize,
    /// Repetitions per side and round.
    pub steps: usize,
    /// Processor threads of both sides, unless `RAYON_NUM_THREADS` is set.
    pub threads: usize,
    /// Only benchmarks whose name contains this.
    pub only: Option<String>,
    /// Whether to measure the peer also under `torch.compile`.
    pub compiled: bool,
    /// Commit that the program was built from.
    pub commit: String,
}

/// Times benchmarks against a peer, in alternating rounds.
///
/// A side's time is the median over rounds of each round's median. If the peer has several forms of the same
/// mathematics, the one whose time is shortest counts.
pub fn bench(options: &BenchOptions) -> Result<Vec<BenchRow>, BenchError> {
    Threads::so_many(options.threads)?.run(|| measure_all(options))
}

fn measure_all(options: &BenchOptions) -> Result<Vec<BenchRow>, BenchError> {
    let chosen = choose(benchmarks::benchmarks(), options.only.as_deref())?;
    let threads = rayon::current_num_threads();
    let mut peer = match &options.peer {
        Some(python) => Some(Peer::start(python, threads)?),
        None => None,
    };
    let load = load();
    if let Some(load) = load.filter(|load| *load > BUSY_LOAD) {
        note(format_args!(
            "mnemora: the machine is busy (load {load:.1}): the times are not reliable"
        ));
    }
    let setting = Setting::new(options, threads, peer.as_ref().map(|p| &p.greeting), load);
    let limit_benchmarks = limits::benchmarks();
    let progress = Progress::new((limit_benchmarks.len() + chosen.len()) * options.rounds);
    let mut measure =
        |benchmark: &Benchmark| measure(benchmark, peer.as_mut(), options, threads, &progress);

    let measured: Vec<Measured> = limit_benchmarks
        .iter()
        .map(&mut measure)
        .collect::<Result<_, _>>()?;
    let limits = limits_of(&measured);
    let row = |measured: Measured| {
        let row = BenchRow::new(measured, &limits, &setting);
        progress.row(&row);
        row
    };
    let mut rows: Vec<BenchRow> = measured.into_iter().map(row).collect();
    for benchmark in &chosen {
        rows.push(row(measure(benchmark)?));
    }
    Ok(rows)
}

/// The benchmarks whose names contain a text.
fn choose(benchmarks: Vec<Benchmark>, only: Option<&str>) -> Result<Vec<Benchmark>, BenchError> {
    let Some(text) = only else {
        return Ok(benchmarks);
    };
    let names: Vec<String> = benchmarks
        .iter()
        .map(|benchmark| benchmark.name.clone())
        .collect();
    let chosen: Vec<Benchmark> = benchmarks
        .into_iter()
        .filter(|benchmark| benchmark.name.contains(text))
        .collect();
    match chosen.is_empty() {
        true => Err(BenchError::NoBenchmark {
            text: text.to_owned(),
            names,
        }),
        false => Ok(chosen),
    }
}

/// The better of both sides' rates.
fn limits_of(measured: &[Measured]) -> Limits {
    let rate = |name: &str, amount: fn(&Measured) -> f64| {
        let found = measured.iter().filter(|measured| measured.work == name);
        let rates = found.map(|m| 1e3 * amount(m) / m.ours_ms.min(m.peer_ms.unwrap_or(m.ours_ms)));
        rates.fold(0.0, f64::max)
    };
    Limits {
        flops: rate(limits::PRODUCT, |measured| measured.cost.flops),
        bytes: rate(limits::TRIAD, |measured| measured.cost.bytes),
    }
}

/// Measures both sides of a benchmark, round by round.
fn measure(
    benchmark: &Benchmark,
    peer: Option<&mut Peer>,
    options: &BenchOptions,
    threads: usize,
    progress: &Progress,
) -> Result<Measured, BenchError> {
    progress.round(&benchmark.name);
    let device = find_device(None)?.autodiff();
    let mut prepared = (benchmark.prepare)(&device)?;
    let mut peer = peer.filter(|peer| peer.knows(&benchmark.name));
    let mut ours = Vec::with_capacity(options.rounds);
    let mut forms = BTreeMap::<String, Vec<f64>>::new();
    let mut compiled = Vec::new();
    for round in 0..options.rounds {
        let warm_up = WARM_UP[round.min(1)];
        ours.push(median(prepared.milliseconds(
            &device,
            options.steps,
            warm_up,
        )?));
        if let Some(peer) = &mut peer {
            let answer = peer.measure(&Request {
                work: &benchmark.name,
                repetitions: options.steps,
                warm_up,
                threads,
                compiled: options.compiled,
            })?;
            same_model(&benchmark.name, prepared.parameters, &answer)?;
            for (form, times) in answer.times_ms {
                forms.entry(form).or_default().push(median(times));
            }
            if !answer.compiled_ms.is_empty() {
                compiled.push(median(answer.compiled_ms));
            }
        }
        progress.done();
    }
    let peer_forms_ms = forms
        .iter()
        .map(|(form, rounds)| (form.clone(), median(rounds.clone())))
        .collect();
    let fastest = forms
        .into_iter()
        .min_by(|(_, a), (_, b)| median(a.clone()).total_cmp(&median(b.clone())));
    let (peer_form, peer_rounds_ms) = fastest.unzip();
    Ok(Measured {
        work: benchmark.name.clone(),
        cost: prepared.cost,
        ours_ms: median(ours.clone()),
        ours_rounds_ms: ours,
        peer_ms: peer_rounds_ms.clone().map(median),
        peer_form,
        peer_forms_ms,
        peer_rounds_ms: peer_rounds_ms.unwrap_or_default(),
        peer_compiled_ms: (!compiled.is_empty()).then(|| median(compiled)),
        shares: prepared.spent.shares(),
    })
}

/// Returns an error if the peer's model has another number of parameters.
fn same_model(benchmark: &str, ours: Option<usize>, answer: &Answer) -> Result<(), BenchError> {
    match (ours, answer.parameters) {
        (Some(ours), Some(theirs)) if ours != theirs => Err(BenchError::PeerStopped {
            benchmark: benchmark.to_owned(),
            problem: format!("its model has {theirs} parameters, ours {ours}"),
        }),
        _ => Ok(()),
    }
}

/// Average number of processes that ran or wanted to run during the last minute; `None` if the system does not
/// report it.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
