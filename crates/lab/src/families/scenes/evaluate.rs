//! How well a model of scenes answers, and whether its answers agree.

use super::{
    batch::{context, targets},
    coherence::Read,
    quantities::of_part,
    samples::{Answers, Mean, Noise, errors},
    settings::SceneSettings,
    stories::Stories,
    world::World,
};
use crate::{
    Experiment,
    families::held_out::{batches, data_stream},
};
use mnemora_models::{AnyScenes, Known, Views};
use mnemora_training::{Measures, Purpose, arrays::host, measures::mean_and_stderr};
use mnemora_worlds::{
    Split, Stream,
    scenes::{Ask, Part, Readings, SceneBatch, nearest},
};

/// Scores the model on held-out scenes.
pub fn evaluate(
    experiment: &Experiment,
    settings: &SceneSettings,
    world: &World,
    model: &AnyScenes,
    purpose: Purpose,
) -> Measures {
    let data = data_stream(experiment, purpose);
    let name = format!("{} noise", purpose.stream());
    let seed = purpose.seed(experiment.seed);
    let noise_of = |name: &str| Noise::new(Stream::new(seed, name));
    // The number of samples changes no noise of the bounds.
    let (mut noise, mut of_samples) = (noise_of(&name), noise_of(&format!("{name} of samples")));
    let mut scores = Scores::new(settings, world, model.tells_stories());
    let samples = match purpose.is_short() {
        // Without noise all samples are the same.
        _ if model.noise_size(1) == 0 => 1,
        true => settings.samples.min(SHORT),
        false => settings.samples,
    };
    let whole = model.tells_stories();
    for index in 0..batches(experiment, purpose) {
        let batch = |ask| {
            let size = experiment.evaluation.batch;
            world.batch(Split::Test, ask, &data, index, size)
        };
        let any = batch(if whole { Ask::Story } else { Ask::Any });
        scores.any(model, &any, &mut noise);
        // A world without questions of its own is asked for any views.
        if world.hidden().is_none() && !world.scenes.ordered() {
            let seen = context(&any, &model.device());
            let known = model.know(seen.as_ref(), any.scenes);
            let answers = &mut scores.answers;
            answers.add(model, &known, &any, samples, &mut of_samples, |_, _| {});
        }
        if let Some(ask) = world.hidden() {
            let batch = batch(ask);
            // A predictor of stories is judged after as many frames as it was trained with.
            let long = !model.tells_stories() || batch.context == world.context_most();
            let can = long && model.takes(batch.context) && (!whole || world.begins(&batch));
            if can {
                let readings = world.readings(Split::Test, &data, &batch);
                let noise = [&mut noise, &mut of_samples];
                scores.hidden(model, &batch, &readings, samples, noise);
            }
        }
        // A story is continued from its first frames.
        if world.scenes.ordered() && world.context_most() > 0 {
            let batch = batch(Ask::Story);
            scores.stories.add(model, &batch, samples, &mut of_samples);
        }
        if whole {
            continue;
        }
        if let Some(ask) = world.told() {
            scores.told(model, &batch(ask), &mut noise);
        }
        for (part, answers) in &mut scores.parts {
            let batch = batch(Ask::Part(*part));
            let seen = context(&batch, &model.device());
            let known = model.know(seen.as_ref(), batch.scenes);
            answers.add(model, &known, &batch, samples, &mut of_samples, |_, _| {});
        }
    }
    scores.measures(samples)
}

/// Samples of a scene in an evaluation at a checkpoint.
const SHORT: usize = 5;

/// Everything that is averaged over scenes.
#[derive(Default)]
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
    kl_told: Mean,
    right: Mean,
    right_kind: Mean,
    read: Read,
    answers: Answers,
    /// The error of a completion drawn at random, as a frame.
    guess: Mean,
    context: Mean,
    parts: Vec<(Part, Answers)>,
    stories: Stories,
}

impl Scores {
    fn new(settings: &SceneSettings, world: &World, whole: bool) -> Self {
        Self {
            variances: settings.test_variance.clone(),
            bounds: vec![Vec::new(); settings.test_variance.len()],
            hidden_bounds: vec![Vec::new(); settings.test_variance.len()],
            targets: match whole {
                true => world.scenes.moments() - settings.context_most,
                false => settings.targets,
            },
            parts: world
                .parts()
                .iter()
                .map(|part| (*part, Answers::default()))
                .collect(),
            ..Self::default()
        }
    }

    /// Any views are asked for, as in training.
    fn any(&mut self, model: &AnyScenes, batch: &SceneBatch, noise: &mut Noise) {
        let device = model.device();
        let (seen, asked) = (context(batch, &device), targets(batch, &device));
        let known = model.know(seen.as_ref(), batch.scenes);
        let found = model.bound(&known, &asked, noise.next(model, batch, batch.targets));
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
        model: &AnyScenes,
        batch: &SceneBatch,
        readings: &[Readings],
        samples: usize,
        [noise, of_samples]: [&mut Noise; 2],
    ) {
        let device = model.device();
        let (seen, asked) = (context(batch, &device), targets(batch, &device));
        let size = batch.frame.size();
        let known = model.know(seen.as_ref(), batch.scenes);
        if !model.tells_stories() {
            self.hidden_bound(model, (batch, &known, &asked), readings, noise);
        }
        for (row, truth) in batch.target_frames.chunks(size).enumerate() {
            let readings = &readings[row / batch.targets];
            let apart = readings.errors(row % batch.targets, truth);
            for error in &apart[..readings.completions] {
                self.guess.add(f64::from(*error) / size as f64);
            }
        }
        let (answers, read) = (&mut self.answers, &mut self.read);
        answers.add(
            model,
            &known,
            batch,
            samples,
            of_samples,
            |scene, frames| {
                read.add(&readings[scene], frames, size);
            },
        );
        if let Some(Views { queries, each, .. }) = &seen
            && !model.tells_stories()
        {
            let drawn = of_samples.next(model, batch, *each);
            let frames = model.sample(&known, queries.clone(), drawn);
            let frames = host(frames.into_data());
            for error in errors(&frames, &batch.context_frames, size) {
                self.context.add(error);
            }
        }
    }

    /// The bound of views that tell what the context hides, and what is read off their reconstructions.
    fn hidden_bound(
        &mut self,
        model: &AnyScenes,
        (batch, known, asked): (&SceneBatch, &Known, &Views),
        readings: &[Readings],
        noise: &mut Noise,
    ) {
        let (each, size) = (batch.targets, batch.frame.size());
        let found = model.bound(known, asked, noise.next(model, batch, each));
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
            let (found, truth) = (nearest(&errors), batch.truth[scene] as usize);
            let right = errors[truth] <= errors[found];
            self.right.add(f64::from(u8::from(right)));
            if let Some(kinds) = &readings[scene].kinds {
                let right = kinds[truth] == kinds[found];
                self.right_kind.add(f64::from(u8::from(right)));
            }
        }
        let first = asked.first(1);
        let one = model.bound(known, &first, noise.next(model, batch, 1));
        for kl in host(one.kl.into_data()) {
            self.kl_one.add(kl);
        }
    }

    /// The context tells what the targets tell.
    fn told(&mut self, model: &AnyScenes, batch: &SceneBatch, noise: &mut Noise) {
        let device = model.device();
        let (seen, asked) = (context(batch, &device), targets(batch, &device));
        let known = model.know(seen.as_ref(), batch.scenes);
        let found = model.bound(&known, &asked, noise.next(model, batch, batch.targets));
        for kl in host(found.kl.into_data()) {
            self.kl_told.add(kl);
        }
    }

    fn measures(self, samples: usize) -> Measures {
        let (bound, bound_stderr) = mean_and_stderr(&self.bounds[0]);
        let mut measures = Measures::new()
            .with("sequences", self.bounds[0].len())
            .with("targets", self.targets)
            .with("bound", bound)
            .with("bound_stderr", bound_stderr)
            .with_some("kl", self.kl.get())
            .with_some("reconstruction_error", self.reconstruction.get());
        let by_variance = |key: &'static str, bounds: &[Vec<f64>]| -> Vec<Measures> {
            let pairs = self.variances.iter().zip(bounds);
            pairs
                .map(|(variance, bounds)| {
                    Measures::new()
                        .with("variance", *variance)
                        .with(key, mean_and_stderr(bounds).0)
                })
                .collect()
        };
        measures.add("by_variance", by_variance("bound_at", &self.bounds));
        for (part, answers) in &self.parts {
            let [sample, nearest] = of_part(*part);
            if let Some((mean, copied)) = answers.mean.get().zip(answers.nearest.get()) {
                measures.add(sample, mean);
                measures.add(nearest, copied);
            }
        }
        let measures = self
            .stories
            .measures(measures.with("samples", samples))
            .with_some("min_mse", self.answers.best.get())
            .with_some("mean_mse", self.answers.mean.get())
            .with_some("nearest_mse", self.answers.nearest.get())
            .with_some("average_mse", self.answers.average.get())
            .with_some("guess_mse", self.guess.get());
        if self.read.completions.is_empty() {
            return measures;
        }
        let measures = match self.hidden_bounds[0].is_empty() {
            true => measures,
            false => measures
                .with("hidden_bound", mean_and_stderr(&self.hidden_bounds[0]).0)
                .with(
                    "hidden_by_variance",
                    by_variance("hidden_bound_at", &self.hidden_bounds),
                ),
        };
        let read = &self.read.completions;
        let (one, all) = (self.kl_one.get(), self.kl_all.get());
        let ratio = one.zip(all).map(|(one, all)| all / one);
        measures
            .with("completions", read.len())
            .with("entropy_most", (read.len() as f64).ln())
            .with_some("entropy", self.read.entropy())
            .with_some("kl_one", one)
            .with_some("kl_all", all)
            .with_some("kl_told", self.kl_told.get())
            .with_some("kl_ratio", ratio.filter(|ratio| ratio.is_finite()))
            .with_some("read_right", self.right.get())
            .with_some("alike", self.read.alike.get())
            .with_some("right_kind", self.right_kind.get())
            .with_some("same_kind", self.read.same_kind.get())
            .with_some("valid", self.read.valid.get())
            .with_some("context_mse", self.context.get())
    }
}
