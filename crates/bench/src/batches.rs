//! Compares the time to make a batch of each task with the time of the update that uses it.

use crate::training::DrawnTraining;
use crate::{BenchError, benchmark::median};
use mnemora_lab::{find_device, load_experiment};
use mnemora_training::threads::Threads;
use serde::Serialize;
use std::time::Instant;

/// Small experiments of all tasks, with a setting to change. If there is a curriculum, it is at its first stage.
const EXPERIMENTS: [(&str, Option<&str>); 18] = [
    ("perfect-recall-small", None),
    ("parity-recall-small", None),
    ("one-shot-recall-small", None),
    ("dynamic-dependency-small", None),
    ("similarity-cued-recall-small", None),
    ("mnist-map-small", None),
    ("copy", None),
    ("nth-farthest-small", None),
    ("learning-to-execute-small", Some("addition")),
    ("learning-to-execute-small", Some("control")),
    ("learning-to-execute-small", Some("full-program")),
    ("memorization-small", Some("copy")),
    ("memorization-small", Some("reverse")),
    ("memorization-small", Some("double")),
    ("books-small", None),
    ("jsb-chorales-small", None),
    ("speech-small", None),
    ("video-small", None),
];
/// Batches drawn per measurement.
const DRAWS: u64 = 16;

/// Times of batches and updates of one experiment.
#[derive(Clone, Debug, Serialize)]
pub struct BatchRow {
    /// `batch/EXPERIMENT`; for programs, also their family.
    pub work: String,
    /// Sequences per batch.
    pub sequences: usize,
    /// Median wall time of a batch in milliseconds.
    pub batch_ms: f64,
    /// Median wall time of an update, including its batch, in milliseconds.
    pub update_ms: f64,
    /// How many times faster batches are made than used.
    pub times_faster: f64,
    /// Number of measurements of each.
    pub repetitions: usize,
    /// Processor threads.
    pub threads: usize,
}

/// Times batches and updates of a small experiment of each task.
pub fn bench_batches(repetitions: usize) -> Result<Vec<BatchRow>, BenchError> {
    Threads::default_count()?.run(|| {
        let rows = EXPERIMENTS.into_iter();
        rows.map(|(name, family)| measure(name, family, repetitions))
            .collect()
    })
}

fn measure(name: &str, family: Option<&str>, repetitions: usize) -> Result<BatchRow, BenchError> {
    let set: Vec<String> = family
        .map(|family| format!("task.programs.family={family}"))
        .into_iter()
        .collect();
    let experiment = load_experiment(name, &set)?;
    let device = find_device(None)?.autodiff();
    let mut training = DrawnTraining::new(experiment, &device)?;
    let (mut batches, mut updates) = (Vec::new(), Vec::new());
    // One more than is counted, to warm up.
    for repetition in 0..=repetitions as u64 {
        let clock = Instant::now();
        for draw in 1..=DRAWS {
            training.draw_batch(repetition * DRAWS + draw)?;
        }
        let batch = 1e3 * clock.elapsed().as_secs_f64() / DRAWS as f64;
        let clock = Instant::now();
        training.update(repetition + 1)?;
        if repetition > 0 {
            batches.push(batch);
            updates.push(1e3 * clock.elapsed().as_secs_f64());
        }
    }
    let (batch_ms, update_ms) = (median(batches), median(updates));
    Ok(BatchRow {
        work: match family {
            Some(family) => format!("batch/{name}/{family}"),
            None => format!("batch/{name}"),
        },
        sequences: training.sequences(),
        batch_ms,
        update_ms,
        times_faster: update_ms / batch_ms,
        repetitions,
        threads: rayon::current_num_threads(),
    })
}

/// The rows as a table.
pub fn batch_table(rows: &[BatchRow]) -> String {
    let mut text = String::from(
        "| batches of | sequences | ms per batch | ms per update | times faster |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        text.push_str(&format!(
            "| {} | {} | {:.3} | {:.1} | {:.0} |\n",
            row.work.trim_start_matches("batch/"),
            row.sequences,
            row.batch_ms,
            row.update_ms,
            row.times_faster
        ));
    }
    text
}
