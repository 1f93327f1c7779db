//! What a trained model is worth on held-out sequences.

use crate::{
    Experiment,
    trainer::{BatchTensors, Model, noise},
    weights::host,
};
use burn::tensor::{Device, Tensor};
use mnemora_models::{FilteringModel, filter, generate};
use mnemora_worlds::{Batch, Split, Stream, Task};
use serde::{Deserialize, Serialize};

/// Held-out numbers of a model. Nats, per sequence unless a step is named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Updates the model has had.
    pub step: u64,
    /// Sequences that were scored.
    pub sequences: usize,
    /// Reconstruction less KL.
    pub bound: f64,
    /// Standard error of the bound over sequences.
    pub bound_stderr: f64,
    /// `log p(x | z)`.
    pub reconstruction: f64,
    /// KL.
    pub kl: f64,
    /// KL of the last frame.
    pub kl_last: f64,
    /// KL of each step.
    pub kl_per_step: Vec<f64>,
    /// Mean KL of the steps before the recall interval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl_before_recall: Option<f64>,
    /// Mean KL of the steps of the recall interval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl_recall: Option<f64>,
    /// The second over the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recall_kl_ratio: Option<f64>,
    /// How well generated frames repeat the remembered ones.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generated_recall: Option<GeneratedRecall>,
}

/// Frames generated for the recall interval after the frames before it were seen, against those.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratedRecall {
    /// Frames generated.
    pub frames: usize,
    /// Share of frames to which the remembered frame is the nearest of all seen.
    pub nearest: f64,
    /// Mean squared error of a pixel to the remembered frame.
    pub error_remembered: f64,
    /// The same to the other frames seen.
    pub error_others: f64,
}

/// The stream of the evaluation after training, and of `eval`.
pub const EVALUATION: &str = "evaluation";
/// The stream of the short evaluations at checkpoints: other sequences, so that choosing the best
/// checkpoint by them does not flatter it.
pub const CHECKPOINT_EVALUATION: &str = "checkpoint evaluation";

/// Streams of an evaluation: other draws than training's.
struct Streams {
    data: Stream,
    noise: Stream,
    generation: Stream,
}

impl Streams {
    fn new(seed: u64, purpose: &str) -> Self {
        Self {
            data: Stream::new(seed, &format!("{purpose} data")),
            noise: Stream::new(seed, &format!("{purpose} noise")),
            generation: Stream::new(seed, &format!("{purpose} generation")),
        }
    }
}

/// Scores `batches` held-out batches of the stream `purpose`. The model must be out of training
/// mode (`valid`).
pub fn evaluate(
    experiment: &Experiment,
    model: &Model,
    task: &dyn Task,
    step: u64,
    batches: u64,
    purpose: &str,
) -> Evaluation {
    let streams = Streams::new(experiment.seed, purpose);
    let device = model.device();
    let size = experiment.evaluation.batch;
    let time = task.time();
    let mut reconstruction = vec![0.0; time];
    let mut kl_per_step = vec![0.0; time];
    let mut bounds = Vec::new();
    let mut recall = RecallScore::default();
    for index in 0..batches {
        let batch = task.batch(Split::Test, &streams.data, index, size);
        let tensors = BatchTensors::new(batch.clone(), &device);
        let shape = [time, size, model.latent_size()];
        let filtered = filter(
            model,
            tensors.observations,
            tensors.conditions,
            noise(&streams.noise, index, shape, &device),
            None,
        );
        bounds.extend(
            host(filtered.bound(1.0).into_data())
                .into_iter()
                .map(f64::from),
        );
        add_rows(&mut reconstruction, filtered.reconstruction);
        add_rows(&mut kl_per_step, filtered.kl);
        if task.recall_interval().is_some() {
            let frames = generate_after_prompt(model, task, &batch, &streams.generation, index);
            recall.add(task, &batch, &frames);
        }
    }
    let sequences = bounds.len();
    let count = sequences as f64;
    for sum in reconstruction.iter_mut().chain(&mut kl_per_step) {
        *sum /= count;
    }
    let bound = bounds.iter().sum::<f64>() / count;
    let spread = bounds.iter().map(|b| (b - bound).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let interval = task.recall_interval();
    let mean = |range: std::ops::Range<usize>| {
        let values = kl_per_step.get(range)?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    };
    let kl_before_recall = interval.clone().and_then(|range| mean(0..range.start));
    let kl_recall = interval.and_then(mean);
    Evaluation {
        step,
        sequences,
        bound,
        bound_stderr: (spread / count).sqrt(),
        reconstruction: reconstruction.iter().sum(),
        kl: kl_per_step.iter().sum(),
        kl_last: kl_per_step.last().copied().unwrap_or(f64::NAN),
        kl_before_recall,
        kl_recall,
        recall_kl_ratio: kl_recall.zip(kl_before_recall).map(|(r, b)| r / b),
        generated_recall: recall.finish(),
        kl_per_step,
    }
}

/// Adds the sum over the batch of `[time, batch]` to one number a step.
fn add_rows(sums: &mut [f64], values: Tensor<2>) {
    let batch = values.dims()[1];
    let values = host(values.into_data());
    for (sum, row) in sums.iter_mut().zip(values.chunks(batch)) {
        *sum += row.iter().map(|v| f64::from(*v)).sum::<f64>();
    }
}

/// Shows the model the frames before `task.prompt()`, then lets it generate the rest:
/// `[batch, time - prompt, pixels]`.
pub fn generate_after_prompt(
    model: &Model,
    task: &dyn Task,
    batch: &Batch,
    stream: &Stream,
    index: u64,
) -> Vec<f32> {
    let device = model.device();
    let generated = generation(model, task, batch, stream, index, &device);
    host(generated.frames.into_data())
}

/// As [`generate_after_prompt`], with the attention of the generated steps.
pub(crate) fn generation(
    model: &Model,
    task: &dyn Task,
    batch: &Batch,
    stream: &Stream,
    index: u64,
    device: &Device,
) -> mnemora_models::Generated {
    let (rows, time, prompt) = (batch.batch, batch.time, task.prompt());
    let tensors = BatchTensors::new(batch.clone(), device);
    let shape = [time, rows, model.latent_size()];
    let noise = noise(stream, index, shape, device);
    let latent = shape[2];
    let split = |conditions: &Option<Tensor<3>>, range: std::ops::Range<usize>| {
        conditions.clone().map(|c| {
            let width = c.dims()[2];
            c.slice([0..rows, range, 0..width])
        })
    };
    let pixels = batch.frame.size();
    let seen = filter(
        model,
        tensors.observations.slice([0..rows, 0..prompt, 0..pixels]),
        split(&tensors.conditions, 0..prompt),
        noise.clone().slice([0..prompt, 0..rows, 0..latent]),
        None,
    );
    generate(
        model,
        seen.state,
        split(&tensors.conditions, prompt..time),
        noise.slice([prompt..time, 0..rows, 0..latent]),
    )
}

#[derive(Default)]
struct RecallScore {
    frames: usize,
    nearest: usize,
    remembered: f64,
    others: f64,
    other_frames: usize,
}

impl RecallScore {
    /// Compares generated frames `[batch, recall, pixels]` with the frames of the prompt.
    fn add(&mut self, task: &dyn Task, batch: &Batch, generated: &[f32]) {
        let (prompt, pixels) = (task.prompt(), batch.frame.size());
        let steps = batch.time - prompt;
        for (position, frame) in generated.chunks(pixels).enumerate() {
            let (row, step) = (position / steps, prompt + position % steps);
            let Some(Some(source)) = batch.sources.get(row * batch.time + step) else {
                continue;
            };
            let errors: Vec<f64> = (0..prompt)
                .filter_map(|seen| Some(mean_squared_error(frame, batch.frame_at(row, seen)?)))
                .collect();
            let Some(remembered) = errors.get(*source) else {
                continue;
            };
            self.frames += 1;
            self.remembered += remembered;
            self.nearest += usize::from(errors.iter().all(|error| remembered <= error));
            self.others += errors.iter().sum::<f64>() - remembered;
            self.other_frames += errors.len() - 1;
        }
    }

    fn finish(self) -> Option<GeneratedRecall> {
        (self.frames > 0).then(|| GeneratedRecall {
            frames: self.frames,
            nearest: self.nearest as f64 / self.frames as f64,
            error_remembered: self.remembered / self.frames as f64,
            error_others: self.others / self.other_frames.max(1) as f64,
        })
    }
}

fn mean_squared_error(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    sum / a.len() as f64
}
