//! Errors of samples, and of answers that need no model.

use super::batch::{normal, targets};
use burn::tensor::Tensor;
use mnemora_models::{AnyScenes, Known};
use mnemora_training::{arrays::host, measures::mean_squared_error};
use mnemora_worlds::{Stream, scenes::SceneBatch};

/// The mean of what was added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    /// Adds a number.
    pub fn add(&mut self, value: impl Into<f64>) {
        self.sum += value.into();
        self.count += 1;
    }

    /// The mean; `None` of nothing.
    pub fn get(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Noise of one purpose, a new draw with each call.
pub struct Noise {
    stream: Stream,
    index: u64,
}

impl Noise {
    /// Of a stream of random numbers.
    pub fn new(stream: Stream) -> Self {
        Self { stream, index: 0 }
    }

    /// For samples of `each` queries of each scene of a batch.
    pub fn next(&mut self, model: &AnyScenes, batch: &SceneBatch, each: usize) -> Tensor<2> {
        self.index += 1;
        let shape = [batch.scenes, model.noise_size(each)];
        normal(&self.stream, self.index, shape, &model.device())
    }
}

/// Mean squared error of each frame of `size` numbers.
pub fn errors<'a>(
    found: &'a [f32],
    truth: &'a [f32],
    size: usize,
) -> impl Iterator<Item = f64> + 'a {
    let frames = found.chunks(size).zip(truth.chunks(size));
    frames.map(|(found, truth)| mean_squared_error(found, truth))
}

/// Errors of samples, and of answers that need no model.
#[derive(Default)]
pub struct Answers {
    /// The smallest error of the samples of a scene.
    pub best: Mean,
    /// The error of a sample.
    pub mean: Mean,
    /// Of the view of the context whose query is nearest.
    pub nearest: Mean,
    /// Of the mean of the context.
    pub average: Mean,
}

impl Answers {
    /// Adds answers about a batch of scenes of which `known` is [known](AnyScenes::know); `look` gets each sample of each scene.
    pub fn add(
        &mut self,
        model: &AnyScenes,
        known: &Known,
        batch: &SceneBatch,
        samples: usize,
        noise: &mut Noise,
        mut look: impl FnMut(usize, &[f32]),
    ) {
        self.rivals(batch);
        let (each, size) = (batch.targets, batch.frame.size());
        let queries = targets(batch, &model.device()).queries;
        let mut all = vec![Vec::new(); batch.scenes];
        for _ in 0..samples {
            let drawn = noise.next(model, batch, each);
            let frames = host(model.sample(known, queries.clone(), drawn).into_data());
            let errors: Vec<f64> = errors(&frames, &batch.target_frames, size).collect();
            for (scene, frames) in frames.chunks(each * size).enumerate() {
                look(scene, frames);
                let own = &errors[scene * each..][..each];
                all[scene].push(own.iter().sum::<f64>() / each as f64);
            }
        }
        for errors in all {
            self.best
                .add(errors.iter().copied().fold(f64::INFINITY, f64::min));
            for error in errors {
                self.mean.add(error);
            }
        }
    }

    /// Answers that need no model: the nearest view of the context, and the mean of its frames.
    fn rivals(&mut self, batch: &SceneBatch) {
        if batch.context == 0 {
            return;
        }
        let (size, width) = (batch.frame.size(), batch.query_width);
        for scene in 0..batch.scenes {
            let start = scene * batch.context;
            let frames = &batch.context_frames[start * size..][..batch.context * size];
            let queries = &batch.context_queries[start * width..][..batch.context * width];
            let average = mean_frame(frames, size);
            for target in 0..batch.targets {
                let row = scene * batch.targets + target;
                let truth = &batch.target_frames[row * size..][..size];
                let query = &batch.target_queries[row * width..][..width];
                let apart = |other: &[f32]| -> f32 {
                    other
                        .iter()
                        .zip(query)
                        .map(|(a, b)| (a - b) * (a - b))
                        .sum()
                };
                let nearest = queries
                    .chunks(width)
                    .zip(frames.chunks(size))
                    .min_by(|(a, _), (b, _)| apart(a).total_cmp(&apart(b)));
                if let Some((_, frame)) = nearest {
                    self.nearest.add(mean_squared_error(frame, truth));
                }
                self.average.add(mean_squared_error(&average, truth));
            }
        }
    }
}

/// The mean of frames of `size` numbers.
pub fn mean_frame(frames: &[f32], size: usize) -> Vec<f32> {
    let count = (frames.len() / size) as f32;
    let mut mean = vec![0.0; size];
    for frame in frames.chunks(size) {
        for (sum, value) in mean.iter_mut().zip(frame) {
            *sum += value / count;
        }
    }
    mean
}
