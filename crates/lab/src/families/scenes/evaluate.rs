//! How well a model of scenes answers, and whether its answers agree.

use super::{
    learner::{context, normal, targets},
    quantities::of_part,
    settings::SceneSettings,
    stories::Stories,
    world::World,
};
use crate::{
    Experiment,
    families::supervised::{batches, data_stream},
};
use burn::tensor::Tensor;
use mnemora_models::{AnyScenes, Known, Views};
use mnemora_training::{
    Measures, Purpose,
    arrays::host,
    measures::{mean_and_stderr, mean_squared_error},
};
use mnemora_worlds::{
    Split, Stream,
    scenes::{Ask, Part, Readings, SceneBatch, nearest, read},
};

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
    let mut noise = Noise {
        stream: Stream::new(purpose.seed(experiment.seed), &name),
        index: 0,
    };
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
            answers.add(model, &known, &any, samples, &mut noise, |_, _| {});
        }
        if let Some(ask) = world.hidden() {
            let batch = batch(ask);
            let can = model.takes(batch.context) && (!whole || world.begins(&batch));
            if can {
                let readings = world.readings(Split::Test, &data, &batch);
                scores.hidden(model, &batch, &readings, samples, &mut noise);
            }
        }
        if world.scenes.ordered() {
            scores
                .stories
                .add(model, &batch(Ask::Story), samples, &mut noise);
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
            answers.add(model, &known, &batch, samples, &mut noise, |_, _| {});
        }
    }
    scores.measures(settings)
}

/// Samples of a scene in an evaluation at a checkpoint.
const SHORT: usize = 5;

/// Errors of samples, and of answers that need no model.
#[derive(Default)]
struct Answers {
    best: Mean,
    mean: Mean,
    nearest: Mean,
    average: Mean,
}

impl Answers {
    /// Answers about a batch of scenes of which `known` is [known](AnyScenes::know); `look` gets each sample of each scene.
    fn add(
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
                    self.nearest.add(mean_squared_error(frame, truth));
                }
                self.average.add(mean_squared_error(&average, truth));
            }
        }
    }
}

/// What is read off samples.
#[derive(Default)]
struct Read {
    alike: Mean,
    same_kind: Mean,
    valid: Mean,
    /// How often each completion was read.
    completions: Vec<u64>,
}

impl Read {
    /// Reads the targets of a sample of one scene.
    fn add(&mut self, readings: &Readings, frames: &[f32], size: usize) {
        let errors: Vec<Vec<f32>> = frames
            .chunks(size)
            .enumerate()
            .map(|(target, frame)| readings.errors(target, frame))
            .collect();
        let (found, alike) = read(&errors);
        self.alike.add(f64::from(u8::from(alike)));
        if let Some(kinds) = &readings.kinds {
            let mut of_targets = errors.iter().map(|errors| kinds[nearest(errors)]);
            let same = of_targets.all(|kind| kind == kinds[found]);
            self.same_kind.add(f64::from(u8::from(same)));
        }
        let valid = found < readings.completions;
        self.valid.add(f64::from(u8::from(valid)));
        if self.completions.len() < readings.completions {
            self.completions.resize(readings.completions, 0);
        }
        if valid {
            self.completions[found] += 1;
        }
    }
}

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
        noise: &mut Noise,
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
        answers.add(model, &known, batch, samples, noise, |scene, frames| {
            read.add(&readings[scene], frames, size);
        });
        if let Some(Views { queries, each, .. }) = &seen
            && !model.tells_stories()
        {
            let drawn = noise.next(model, batch, *each);
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

    fn measures(self, settings: &SceneSettings) -> Measures {
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
            .measures(measures.with("samples", settings.samples))
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
        let total: u64 = read.iter().sum();
        let shares = read.iter().map(|count| *count as f64 / total as f64);
        let entropy: f64 = shares
            .filter(|share| *share > 0.0)
            .map(|share| share * share.recip().ln())
            .sum();
        let (one, all) = (self.kl_one.get(), self.kl_all.get());
        let ratio = one.zip(all).map(|(one, all)| all / one);
        measures
            .with("completions", read.len())
            .with("entropy_most", (read.len() as f64).ln())
            .with("entropy", entropy)
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

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::{
        Mnist,
        scenes::{Dice, Scenes, Showing, readings, scene_batch},
    };

    /// A sample that shows another image of the same digit in each view is of one kind but not coherent; one that shows two
    /// digits is neither.
    #[test]
    fn images_of_one_digit_are_of_one_kind() {
        let dice = Dice::new(&Mnist::bundled().unwrap(), 16).unwrap();
        let dice = dice.seen_from(16).unwrap().still(true);
        let showing = Showing {
            anywhere: false,
            context_least: 4,
            context_most: 4,
            targets_least: 2,
            targets: 2,
            hiding: 0.0,
            revealing: false,
        };
        let stream = Stream::new(1, "dice");
        let of = (Split::Test, &stream);
        let batch = scene_batch(&dice, showing, Ask::Hidden, of, 0, 1);
        let readings = &readings(&dice, of, &batch)[0];
        let size = batch.frame.size();
        let scene = dice.scene(Split::Test, &stream, batch.number(0));
        let found = |images: [usize; 2]| {
            let mut frames = vec![0.0; 2 * size];
            for ((frame, view), image) in
                frames.chunks_mut(size).zip(&batch.target_views).zip(images)
            {
                scene.render(*view, image, frame);
            }
            let mut read = Read::default();
            read.add(readings, &frames, size);
            [read.alike.get(), read.same_kind.get()]
        };
        assert_eq!(found([31, 31]), [Some(1.0), Some(1.0)]);
        assert_eq!(found([31, 34]), [Some(0.0), Some(1.0)]);
        assert_eq!(found([31, 54]), [Some(0.0), Some(0.0)]);
    }
}
