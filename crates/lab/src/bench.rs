//! Timing: a training step at paper size, by the length of sequences, a memory's step by its slots.

mod length;
mod slots;

pub use length::{
    LengthGrowth, LengthRow, bench_length, draw_length, length_growth, length_table, one_length,
};
pub use slots::bench_slots;

use crate::{
    LabError,
    adam::Adam,
    experiments::load_experiment,
    learner::StepFailure,
    train::on_large_stack,
    trainer::{Trainer, model, task},
};
use burn::tensor::Device;
use mnemora_worlds::{Mnist, Split, Stream};
use serde::Serialize;
use std::{sync::Arc, time::Instant};

/// Steps before the clock starts.
const WARM_UP: u64 = 2;

/// A timed piece of work.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// What was done.
    pub work: String,
    /// Median wall time in milliseconds.
    pub ours_ms: f64,
    /// Times the work was done.
    pub repetitions: usize,
    /// Processor threads.
    pub threads: usize,
}

/// Times one training step (forward, backward, clipping, Adam) of the paper-size Introspective
/// GTMM and of its VRNN on perfect recall, l = 15, k = 5, batch 10.
pub fn bench(steps: usize) -> Result<Vec<BenchRow>, LabError> {
    ["introspection", "vrnn"]
        .into_iter()
        .map(|memory| on_large_stack(|| training_step(memory, steps)))
        .collect()
}

fn training_step(memory: &str, steps: usize) -> Result<BenchRow, LabError> {
    let experiment = load_experiment("perfect-recall", &[format!("model.memory={memory}")])?;
    let device = Device::default().autodiff();
    let task = task(&experiment, Arc::new(Mnist::bundled()?))?;
    let model = model(&experiment, task.as_ref(), &device)?;
    let mut trainer = Trainer::new(&experiment, model, Adam::default(), device);
    let data = Stream::new(experiment.seed, "data");
    let mut times = Vec::with_capacity(steps);
    for step in 1..=WARM_UP + steps as u64 {
        let batch = task.batch(Split::Train, &data, step, experiment.training.batch);
        let clock = Instant::now();
        if let Err(StepFailure::NonFinite(what)) = trainer.step(&experiment, step, batch) {
            return Err(LabError::Configuration(format!(
                "the benchmark's {what} is not finite"
            )));
        }
        if step > WARM_UP {
            times.push(clock.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(BenchRow {
        work: format!("train-step/{memory}-paper"),
        ours_ms: median(times),
        repetitions: steps,
        threads: rayon::current_num_threads(),
    })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The rows as a Markdown table.
pub fn table(rows: &[BenchRow]) -> String {
    let mut text = String::from("| work | ms | threads |\n| --- | --- | --- |\n");
    for row in rows {
        text.push_str(&format!(
            "| {} | {:.2} | {} |\n",
            row.work, row.ours_ms, row.threads
        ));
    }
    text
}
