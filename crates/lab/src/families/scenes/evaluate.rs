//! How well a model of scenes answers, and whether its answers agree.

use super::{
    learner::{context, normal, targets},
    settings::SceneSettings,
    world::World,
};
use crate::{
    Experiment,
    families::supervised::{batches, data_stream},
};
use burn::tensor::Tensor;
use mnemora_models::{Cgqn, Views};
use mnemora_training::{Measures, Purpose, arrays::host, measures::mean_and_stderr};
use mnemora_worlds::{
    Split, Stream,
    scenes::{Ask, Readings, SceneBatch, read},
};

/// The mean of what was added.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: impl Into<f64>) {
        self.sum += value.into();
        self.count += 1;
    }

    fn get(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Noise of one purpose, a new draw with each call.
struct Noise {
    stream: Stream,
    index: u64,
}

impl Noise {
    fn next(&mut self, model: &Cgqn, batch: &SceneBatch, each: usize) -> Tensor<2> {
        self.index += 1;
        let shape = [batch.scenes, model.noise_size(each)];
        normal(&self.stream, self.index, shape, &model.device())
    }
}

/// Mean squared error of each frame of `size` numbers.
fn errors<'a>(found: &'a [f32], truth: &'a [f32], size: usize) -> impl Iterator<Item = f64> + 'a {
    found
        .chunks(size)
        .zip(truth.chunks(size))
        .map(move |(a, b)| {
            let squares = a.iter().zip(b).map(|(a, b)| f64::from((a - b) * (a - b)));
            squares.sum::<f64>() / size as f64
        })
}

/// Scores the model on held-out scenes.
pub fn evaluate(
    experiment: &Experiment,
    settings: &SceneSettings,
    world: &World,
    model: &Cgqn,
    purpose: Purpose,
) -> Measures {
    let data = data_stream(experiment, purpose);
    let name = format!("{} noise", purpose.stream());
    let mut noise = Noise {
        stream: Stream::new(purpose.seed(experiment.seed), &name),
        index: 0,
    };
    let mut scores = Scores::new(settings);
    let size = experiment.evaluation.batch;
    for index in 0..batches(experiment, purpose) {
        let batch = world.batch(Split::Test, Ask::Training, &data, index, size);
        scores.any(model, &batch, &mut noise);
        if world.scenes.hides() {
            let batch = world.batch(Split::Test, Ask::Hidden, &data, index, size);
            let readings = world.readings(Split::Test, &data, &batch);
            let samples = match purpose.is_short() {
                true => settings.samples.min(SHORT),
                false => settings.samples,
            };
            scores.hidden(model, &batch, &readings, samples, &mut noise);
        }
    }
    scores.measures(settings)
}

/// Samples of a scene in an evaluation at a checkpoint.
const SHORT: usize = 5;

/// Everything that is averaged over scenes.
struct Scores {
    variances: Vec<f64>,
    /// By variance.
    bounds: Vec<Vec<f64>>,
    hidden_bounds: Vec<Vec<f64>>,
    targets: usize,
    kl: Mean,
    reconstruction: Mean,
    kl_one: Mean,
    kl_all: Mean,
    right: Mean,
    alike: Mean,
    valid: Mean,
    /// How often each completion was read off a sample.
    read: Vec<u64>,
    best: Mean,
    mean: Mean,
    nearest: Mean,
    average: Mean,
    context: Mean,
}

impl Scores {
    fn new(settings: &SceneSettings) -> Self {
        let none = Mean::default();
        Self {
            variances: settings.test_variance.clone(),
            bounds: vec![Vec::new(); settings.test_variance.len()],
            hidden_bounds: vec![Vec::new(); settings.test_variance.len()],
            targets: settings.targets,
            kl: none,
            reconstruction: none,
            kl_one: none,
            kl_all: none,
            right: none,
            alike: none,
            valid: none,
            read: Vec::new(),
            best: none,
            mean: none,
            nearest: none,
            average: none,
            context: none,
        }
    }

    /// Any views are asked for, as in training.
    fn any(&mut self, model: &Cgqn, batch: &SceneBatch, noise: &mut Noise) {
        let device = model.device();
        let (seen, asked) = (context(batch, &device), targets(batch, &device));
        let found = model.bound(
            seen.as_ref(),
            &asked,
            noise.next(model, batch, batch.targets),
        );
        for (variance, bounds) in self.variances.iter().zip(&mut self.bounds) {
            let bound = host(found.without_constant(*variance).into_data());
            bounds.extend(bound.into_iter().map(f64::from));
        }
        for kl in host(found.kl.into_data()) {
            self.kl.add(kl);
        }
        let frames = host(found.frames.into_data());
        for error in errors(&frames, &batch.target_frames, batch.frame.size()) {
            self.reconstruction.add(error);
        }
    }

    /// Views are asked for that tell what the context hides.
    fn hidden(
        &mut self,
        model: &Cgqn,
        batch: &SceneBatch,
        readings: &[Readings],
        samples: usize,
        noise: &mut Noise,
    ) {
        let device = model.device();
        let (seen, asked) = (context(batch, &device), targets(batch, &device));
        let (each, size) = (batch.targets, batch.frame.size());
        let found = model.bound(seen.as_ref(), &asked, noise.next(model, batch, each));
        for (variance, bounds) in self.variances.iter().zip(&mut self.hidden_bounds) {
            let bound = host(found.without_constant(*variance).into_data());
            bounds.extend(bound.into_iter().map(f64::from));
        }
        for kl in host(found.kl.into_data()) {
            self.kl_all.add(kl);
        }
        let frames = host(found.frames.into_data());
        for (row, frame) in frames.chunks(size).enumerate() {
            let (scene, target) = (row / each, row % each);
            let errors = readings[scene].errors(target, frame);
            let least = errors.iter().copied().fold(f32::INFINITY, f32::min);
            let right = errors[batch.truth[scene] as usize] <= least;
            self.right.add(f64::from(u8::from(right)));
        }
        let first = asked.first(1);
        let one = model.bound(seen.as_ref(), &first, noise.next(model, batch, 1));
        for kl in host(one.kl.into_data()) {
            self.kl_one.add(kl);
        }
        self.rivals(batch);
        let mut all = vec![Vec::new(); batch.scenes];
        for _ in 0..samples {
            let drawn = noise.next(model, batch, each);
            let frames = model.sample(seen.as_ref(), asked.queries.clone(), each, drawn);
            let frames = host(frames.into_data());
            let errors = errors(&frames, &batch.target_frames, size).collect::<Vec<_>>();
            for (scene, frames) in frames.chunks(each * size).enumerate() {
                self.read(&readings[scene], frames, size);
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
        if let Some(Views { queries, each, .. }) = &seen {
            let drawn = noise.next(model, batch, *each);
            let frames = model.sample(seen.as_ref(), queries.clone(), *each, drawn);
            let frames = host(frames.into_data());
            for error in errors(&frames, &batch.context_frames, size) {
                self.context.add(error);
            }
        }
    }

    /// Reads the targets of a sample of one scene.
    fn read(&mut self, readings: &Readings, frames: &[f32], size: usize) {
        let errors: Vec<Vec<f32>> = frames
            .chunks(size)
            .enumerate()
            .map(|(target, frame)| readings.errors(target, frame))
            .collect();
        let (nearest, alike) = read(&errors);
        self.alike.add(f64::from(u8::from(alike)));
        let valid = nearest < readings.completions;
        self.valid.add(f64::from(u8::from(valid)));
        if self.read.len() < readings.completions {
            self.read.resize(readings.completions, 0);
        }
        if valid {
            self.read[nearest] += 1;
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
            let mut average = vec![0.0; size];
            for frame in frames.chunks(size) {
                for (sum, value) in average.iter_mut().zip(frame) {
                    *sum += value / batch.context as f32;
                }
            }
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
                    self.nearest.add(errors(frame, truth, size).sum::<f64>());
                }
                self.average.add(errors(&average, truth, size).sum::<f64>());
            }
        }
    }

    fn measures(self, settings: &SceneSettings) -> Measures {
        let (bound, bound_stderr) = mean_and_stderr(&self.bounds[0]);
        let mut measures = Measures::new()
            .with("sequences", self.bounds[0].len())
            .with("targets", self.targets)
            .with("bound", bound)
            .with("bound_stderr", bound_stderr)
            .with_some("kl", self.kl.get())
            .with_some("reconstruction_error", self.reconstruction.get());
        let by_variance = |bounds: &[Vec<f64>]| -> Vec<Measures> {
            let pairs = self.variances.iter().zip(bounds);
            pairs
                .map(|(variance, bounds)| {
                    let (bound, stderr) = mean_and_stderr(bounds);
                    Measures::new()
                        .with("variance", *variance)
                        .with("bound", bound)
                        .with("bound_stderr", stderr)
                })
                .collect()
        };
        measures.add("by_variance", by_variance(&self.bounds));
        if self.hidden_bounds[0].is_empty() {
            return measures;
        }
        let (hidden_bound, _) = mean_and_stderr(&self.hidden_bounds[0]);
        measures.add("hidden_bound", hidden_bound);
        measures.add("hidden_by_variance", by_variance(&self.hidden_bounds));
        let total: u64 = self.read.iter().sum();
        let shares = self.read.iter().map(|count| *count as f64 / total as f64);
        let entropy: f64 = shares
            .filter(|share| *share > 0.0)
            .map(|share| share * share.recip().ln())
            .sum();
        let (one, all) = (self.kl_one.get(), self.kl_all.get());
        let ratio = one.zip(all).map(|(one, all)| all / one);
        measures
            .with("samples", settings.samples)
            .with("completions", self.read.len())
            .with("entropy_most", (self.read.len() as f64).ln())
            .with("entropy", entropy)
            .with_some("kl_one", one)
            .with_some("kl_all", all)
            .with_some("kl_ratio", ratio.filter(|ratio| ratio.is_finite()))
            .with_some("read_right", self.right.get())
            .with_some("alike", self.alike.get())
            .with_some("valid", self.valid.get())
            .with_some("min_mse", self.best.get())
            .with_some("mean_mse", self.mean.get())
            .with_some("nearest_mse", self.nearest.get())
            .with_some("average_mse", self.average.get())
            .with_some("context_mse", self.context.get())
    }
}
