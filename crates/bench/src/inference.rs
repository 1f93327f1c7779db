//! Cost of variational filtering as a function of sequence length.

use crate::{
    BenchError,
    benchmark::median,
    draws::initializer,
    sequences::{INFERENCE, LEARNING_RATE, MUSIC, MUSIC_SIZES, Sizes, inference_noise, notes},
};
use burn::{module::Module, tensor::Device};
use mnemora_lab::find_device;
use mnemora_models::infer;
use mnemora_training::{amortize::Amortizer, threads::Threads};
use serde::Serialize;
use std::time::Instant;

/// Steps of a sequence.
const TIMES: [usize; 5] = [20, 50, 100, 200, 500];

/// Variational filtering of sequences of one length.
#[derive(Clone, Debug, Serialize)]
pub struct InferenceRow {
    /// `infer/srnn-music/TIME-steps`
    pub work: String,
    /// Steps of the sequences.
    pub time: usize,
    /// Median wall time in milliseconds.
    pub ours_ms: f64,
    /// Median wall time per step of the sequence, in milliseconds.
    pub ms_per_time_step: f64,
    /// Number of measurements.
    pub repetitions: usize,
    /// Processor threads.
    pub threads: usize,
}

/// Times inference alone for the SRNN for piano rolls, batch 16, on sequences of 20 to 500 steps. The inference
/// network is used once per time step and learns from all steps at the end. The lengths are measured in turn.
pub fn bench_inference(repetitions: usize) -> Result<Vec<InferenceRow>, BenchError> {
    let times = Threads::default_count()?.run(|| all(repetitions))?;
    let rows = TIMES.into_iter().zip(times).map(|(time, times)| {
        let milliseconds = median(times);
        InferenceRow {
            work: format!("infer/srnn-music/{time}-steps"),
            time,
            ours_ms: milliseconds,
            ms_per_time_step: milliseconds / time as f64,
            repetitions,
            threads: rayon::current_num_threads(),
        }
    });
    Ok(rows.collect())
}

/// Times for each length, in milliseconds.
fn all(repetitions: usize) -> Result<[Vec<f64>; TIMES.len()], BenchError> {
    let device = find_device(None)?.autodiff();
    let mut times = [(); TIMES.len()].map(|()| Vec::with_capacity(repetitions));
    // One more than is counted, to warm up.
    for repetition in 0..=repetitions {
        for (time, times) in TIMES.into_iter().zip(&mut times) {
            let milliseconds = once(time, &device)?;
            if repetition > 0 {
                times.push(milliseconds);
            }
        }
    }
    Ok(times)
}

/// Milliseconds of one pass with an untrained model and network.
fn once(time: usize, device: &Device) -> Result<f64, BenchError> {
    let sizes = Sizes {
        time,
        ..MUSIC_SIZES
    };
    let mut init = initializer(device);
    let model = MUSIC.init(&mut init)?.freeze();
    let mut amortizer = Amortizer::new(INFERENCE.init(&mut init)?, 1, LEARNING_RATE);
    amortizer.online = false;
    let x = notes([sizes.batch, time, sizes.observation], device);
    let noise = inference_noise(sizes, MUSIC.latent, device);
    let clock = Instant::now();
    let inferred = infer(&model, &mut amortizer, x, None, noise, 1.0, None);
    amortizer.finish();
    let _: f32 = inferred.latents.sum().into_scalar();
    let milliseconds = clock.elapsed().as_secs_f64() * 1e3;
    match amortizer.failure() {
        None => Ok(milliseconds),
        Some(what) => Err(BenchError::NonFinite(what.to_owned())),
    }
}

/// The rows as a Markdown table.
pub fn inference_table(rows: &[InferenceRow]) -> String {
    let mut text = String::from("| steps | ms | ms per step |\n| --- | --- | --- |\n");
    for row in rows {
        text.push_str(&format!(
            "| {} | {:.1} | {:.2} |\n",
            row.time, row.ours_ms, row.ms_per_time_step
        ));
    }
    text
}
