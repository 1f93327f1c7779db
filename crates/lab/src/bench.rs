//! Timing beside PyTorch: kernels, LSTM, convolution blocks, training steps, the machine's limits;
//! a memory's step by its slots, a training step and variational filtering by the length of
//! sequences.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `works.rs`, `sequences.rs`, `relational.rs`, `language.rs` | what is timed |
//! | `work.rs` | a piece of work, and the clock |
//! | `peer.rs` | PyTorch as a child process |
//! | `limits.rs`, `count.rs` | what the machine can do, what a work costs at least |
//! | `table.rs`, `progress.rs` | what is printed |
//! | `slots.rs` | a memory's step by its slots |
//! | `length.rs` | a training step by the length of sequences |
//! | `inference.rs` | variational filtering by the same |
//! | `batches.rs` | the tasks' batches beside the updates that use them up |

mod batches;
mod count;
mod inference;
mod language;
mod length;
mod limits;
mod peer;
mod progress;
mod relational;
mod sequences;
mod slots;
mod table;
mod work;
mod works;

pub use batches::{BatchRow, batch_table, bench_batches};
pub use inference::{InferenceRow, bench_inference, inference_table};
pub use length::{
    LengthGrowth, LengthRow, bench_length, draw_length, length_growth, length_table, one_length,
};
pub use slots::{SlotRow, bench_slots, slot_table};
pub use table::{BenchRow, Setting, geometric_mean, table};

use crate::{LabError, device::find_device, threads::Threads};
use limits::Limits;
use peer::{Answer, Peer, Request};
use progress::Progress;
use std::collections::BTreeMap;
use table::Measured;
use work::{Work, median};

/// Repetitions before the clock starts, in the first round of a work and in the others.
const WARM_UP: [usize; 2] = [2, 1];
/// A load above this means that others use the processor.
const BUSY_LOAD: f64 = 0.5;

/// What to time, and how.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// A Python interpreter that has PyTorch; `None` measures mnemora alone.
    pub peer: Option<String>,
    /// Rounds; in each, one side is measured after the other.
    pub rounds: usize,
    /// Repetitions a side and round.
    pub steps: usize,
    /// Processor threads of both sides, unless `RAYON_NUM_THREADS` is set.
    pub threads: usize,
    /// Only works whose name contains this.
    pub only: Option<String>,
    /// Whether to measure the peer under `torch.compile` too.
    pub compiled: bool,
    /// Commit that the program was built from.
    pub commit: String,
}

/// Times works beside a peer, in alternating rounds.
///
/// A side's time is the median over rounds of each round's median. Of several forms of the same
/// mathematics in the peer, the one counts that is fastest so.
pub fn bench(options: &BenchOptions) -> Result<Vec<BenchRow>, LabError> {
    Threads::so_many(options.threads)?.run(|| measure_all(options))
}

fn measure_all(options: &BenchOptions) -> Result<Vec<BenchRow>, LabError> {
    let chosen = choose(works::works(), options.only.as_deref())?;
    let threads = rayon::current_num_threads();
    let mut peer = match &options.peer {
        Some(python) => Some(Peer::start(python, threads)?),
        None => None,
    };
    let load = load();
    if let Some(load) = load.filter(|load| *load > BUSY_LOAD) {
        crate::say::note(format_args!(
            "mnemora: the machine is busy (load {load:.1}): these times will mean little"
        ));
    }
    let setting = Setting::new(options, threads, peer.as_ref().map(|p| &p.greeting), load);
    let limit_works = limits::works();
    let progress = Progress::new((limit_works.len() + chosen.len()) * options.rounds);
    let mut measure = |work: &Work| measure(work, peer.as_mut(), options, threads, &progress);

    let measured: Vec<Measured> = limit_works
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
    for work in &chosen {
        rows.push(row(measure(work)?));
    }
    Ok(rows)
}

/// The works whose names contain a text.
fn choose(works: Vec<Work>, only: Option<&str>) -> Result<Vec<Work>, LabError> {
    let Some(text) = only else {
        return Ok(works);
    };
    let names: Vec<String> = works.iter().map(|work| work.name.clone()).collect();
    let chosen: Vec<Work> = works
        .into_iter()
        .filter(|work| work.name.contains(text))
        .collect();
    match chosen.is_empty() {
        true => Err(LabError::Configuration(format!(
            "--only {text}: no work has this in its name; there are {}",
            names.join(", ")
        ))),
        false => Ok(chosen),
    }
}

/// The larger of both sides' rates.
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

/// Both sides of a work, round by round.
fn measure(
    work: &Work,
    peer: Option<&mut Peer>,
    options: &BenchOptions,
    threads: usize,
    progress: &Progress,
) -> Result<Measured, LabError> {
    progress.round(&work.name);
    let device = find_device(None)?.autodiff();
    let mut prepared = (work.prepare)(&device)?;
    let mut peer = peer.filter(|peer| peer.knows(&work.name));
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
                work: &work.name,
                repetitions: options.steps,
                warm_up,
                threads,
                compiled: options.compiled,
            })?;
            same_model(&work.name, prepared.parameters, &answer)?;
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
        work: work.name.clone(),
        cost: prepared.cost,
        ours_ms: median(ours.clone()),
        ours_rounds_ms: ours,
        peer_ms: peer_rounds_ms.clone().map(median),
        peer_form,
        peer_forms_ms,
        peer_rounds_ms: peer_rounds_ms.unwrap_or_default(),
        peer_compiled_ms: (!compiled.is_empty()).then(|| median(compiled)),
    })
}

/// Refuses a peer whose model is not ours.
fn same_model(work: &str, ours: Option<usize>, answer: &Answer) -> Result<(), LabError> {
    match (ours, answer.parameters) {
        (Some(ours), Some(theirs)) if ours != theirs => Err(LabError::PeerStopped {
            work: work.to_owned(),
            problem: format!("its model has {theirs} parameters, ours {ours}"),
        }),
        _ => Ok(()),
    }
}

/// Processes that ran or wanted to run during the last minute, where the system says so.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
