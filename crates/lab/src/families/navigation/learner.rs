//! The learner of GTM-SM on walks.

use super::{
    evaluate::evaluate,
    figures,
    labyrinth_walker::LabyrinthWalker,
    settings::NavigationSettings,
    stages::{Actions, Advice, Progress, Stage},
    walker::ImageWalker,
    walks::{Lesson, upload},
    world::World,
};
use crate::{
    Experiment, LabError,
    experiment::gallery::{Drawn, Gallery, Shown, Walker},
    families::image_shape,
    pictures::Figures,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_memory::{Count, Initializer};
use mnemora_models::{ElboNoise, FilteringModel, GtmSm, GtmSmConfig, Transition, WalkedWorld};
use mnemora_training::{
    Error, Learner, Measures, Purpose, Row, Snapshot, StepFailure,
    arrays::{collect, parameters_of, restore},
    device::outline,
    memory_use::{Parts, Planned, Work, in_words},
    online::{Numbers, Observed, Online, OnlineFilter},
    optimiser::ParameterGradients,
    strategy::Inference,
    updates::Updates,
};
use mnemora_worlds::{ImageNavigation, Pictures, Prefetch, Scale, Split, Stream, Walks};
use std::{hint::black_box, path::Path, sync::Arc};

/// Batches of walks made ahead of training.
const AHEAD: usize = 2;

/// A GTM-SM that learns to walk.
pub struct Navigator {
    experiment: Experiment,
    settings: NavigationSettings,
    world: Arc<World>,
    actions: Actions,
    batches: Prefetch<Walks, Lesson>,
    progress: Progress,
    /// On an autodiff device for training.
    model: GtmSm,
    updates: Updates,
    /// Noise of latents and transitions.
    noise: Stream,
    device: Device,
}

/// A fresh model of a world.
fn model_of(
    settings: &NavigationSettings,
    world: &World,
    init: &mut Initializer,
) -> Result<GtmSm, LabError> {
    let walked = world.walked();
    let actions = Actions::of(walked.actions());
    let config: &GtmSmConfig = &settings.model;
    let model = config.init(
        &WalkedWorld {
            frame: image_shape(walked.frame()),
            actions: walked.actions().len(),
            place: walked.place_width(),
            opposites: &actions.opposites,
            memorise: settings.memorise,
        },
        init,
    );
    model.map_err(|error| {
        let error = error.to_string();
        let named = match error.strip_prefix("model.") {
            Some(rest) => format!("navigation.model.{rest}"),
            None => format!("navigation.model: {error}"),
        };
        LabError::Configuration(named)
    })
}

/// Trainable numbers, starting with the whole model.
fn parts(model: &GtmSm) -> Parts {
    let mut parts = vec![
        ("model".into(), parameters_of(model)),
        ("encoder".into(), parameters_of(&model.encoder)),
        ("decoder".into(), parameters_of(&model.decoder)),
        ("transition".into(), parameters_of(&model.transition)),
    ];
    if let Some(landmarks) = &model.landmarks {
        parts.push(("landmarks".into(), parameters_of(landmarks)));
    }
    if let Some(prior) = &model.prior {
        parts.push(("prior".into(), parameters_of(prior)));
    }
    parts
}

/// The parts of the model, and how much memory its training takes.
pub(super) fn planned(experiment: &Experiment, world: &World) -> Result<Planned, LabError> {
    let settings: NavigationSettings = experiment.own_settings()?;
    let model = model_of(&settings, world, &mut outline()?)?;
    let walked = world.walked();
    let (pixels, latent) = (walked.frame().size(), settings.model.latent);
    let place = walked.place_width();
    let steps = |predict: usize, batch: usize| {
        // Frames: pixels, codes, and the layers between; a prediction: entries, prior, decoder, likelihood.
        let memorised = Count::from(2 * pixels) + model.encoder.kept() + 6 * latent;
        let entries = settings.model.neighbours * (6 * latent + 12);
        let predicted = memorised + model.decoder.kept() + 4 * pixels + entries;
        let roll = Count::from(16 * place + 4 * settings.model.transition.wall_hidden);
        let all = settings.memorise + predict;
        (memorised * settings.memorise + predicted * predict + roll * all) * batch
    };
    let (training, evaluation) = (&experiment.training, &experiment.evaluation);
    let work = Work {
        learning: steps(settings.predict, training.batch),
        looking: steps(settings.foresee, evaluation.batch),
        batches: Count::product(&[
            pixels + walked.actions().len() + 8,
            settings.memorise + settings.predict,
            training.batch,
        ]) * (AHEAD + 2),
        data: world.bytes(),
    };
    Ok(Planned::new(parts(&model), work))
}

impl Navigator {
    /// A fresh learner with its model on `device`, initialised from the experiment's seed.
    pub fn new(
        experiment: &Experiment,
        world: Arc<World>,
        device: &Device,
    ) -> Result<Self, LabError> {
        let settings: NavigationSettings = experiment.own_settings()?;
        let seed = experiment.seed;
        let model = model_of(&settings, &world, &mut experiment.initializer(device))?;
        let (data, size) = (Stream::new(seed, "data"), experiment.training.batch);
        let made = world.clone();
        Ok(Self {
            batches: Prefetch::new(
                experiment.task.name.as_str(),
                AHEAD,
                move |lesson, index| made.walks(Split::Train, &data, index, size, *lesson),
            ),
            actions: Actions::of(world.walked().actions()),
            progress: Progress::new(settings.stages.clone()),
            updates: Updates::new(&experiment.training, device),
            noise: Stream::new(seed, "noise"),
            experiment: experiment.clone(),
            settings,
            world,
            model,
            device: device.clone(),
        })
    }

    /// What the next update is about.
    fn lesson(&self) -> Lesson {
        let full = [self.settings.memorise, self.settings.predict];
        let [memorise, predict] = self.progress.lengths(full);
        let before = matches!(self.progress.stage(), Stage::Frames | Stage::Actions);
        Lesson {
            memorise,
            predict,
            without_walls: self.settings.stages.gate_without_walls && before,
        }
    }

    /// Standard normal numbers of an update.
    fn normal<const D: usize>(&self, name: &str, step: u64, shape: [usize; D]) -> Tensor<D> {
        let stream = Stream::new(self.experiment.seed, &format!("noise of {name}"));
        let values = stream.standard_normal(step, shape.iter().product());
        Tensor::from_data(TensorData::new(values, shape), &self.device)
    }

    /// The loss of single frames, with its terms: the bound's parts per frame.
    fn frames_loss(&self, walks: &Walks, step: u64) -> (Tensor<1>, Vec<Tensor<1>>) {
        let all = walks.distinct();
        let count = self.settings.stages.frame_batch.min(all);
        let chosen = self.noise.choose(step, all, count);
        let pixels = walks.frame.size();
        let mut frames = Vec::with_capacity(count * pixels);
        for frame in chosen {
            frames.extend_from_slice(&walks.frames[frame * pixels..][..pixels]);
        }
        let frames = Tensor::from_data(TensorData::new(frames, [count, pixels]), &self.device);
        let noise = self.normal("frames", step, [count, self.model.latent_size()]);
        let (reconstruction, kl) = self.model.vae(frames, noise);
        let (reconstruction, kl) = (reconstruction.mean(), kl.mean());
        let bound = reconstruction.clone() - kl.clone();
        (bound.clone().neg(), vec![bound, kl])
    }

    /// The loss of walks, with its terms: the bound's parts per predicted frame.
    fn walks_loss(&self, walks: &Walks, step: u64) -> (Tensor<1>, Vec<Tensor<1>>) {
        let predicted = walks.time - self.model.memorise;
        let (latent, place) = (self.model.latent_size(), self.model.transition.place_size());
        let noise = ElboNoise {
            latent: self.normal("latents", step, [walks.batch * predicted, latent]),
            place: Some(self.normal("places", step, [walks.batch, walks.time, place])),
        };
        let elbo = self.model.elbo(&upload(walks, &self.device), noise);
        let (reconstruction, kl) = (elbo.reconstruction.mean(), elbo.kl.mean());
        let mut bound = reconstruction - kl.clone();
        if let Some(kl) = elbo.place_kl {
            bound = bound - kl.mean();
        }
        let mut loss = bound.clone().neg();
        if self.settings.regression > 0.0 {
            let shape = [walks.batch, walks.time, place];
            let truth = TensorData::new(walks.displacements.clone(), shape);
            let truth = Tensor::from_data(truth, &self.device);
            let apart = elbo.prediction.rolled.displacements - truth;
            let squares = apart.square().sum_dim(2).mean();
            loss = loss + squares.mul_scalar(self.settings.regression);
        }
        (loss, vec![bound, kl])
    }
}

/// How much faster than the rest of the model the transition learns in update `step`. An `A` that was drawn again learns
/// at the rate at which the first one began: late draws would otherwise hardly move before the next.
fn faster(experiment: &Experiment, progress: &Progress, faster: f64, step: u64) -> f64 {
    let rate = |step| experiment.training.rate(step);
    match progress.redrawn() {
        true => faster * rate(1) / rate(step),
        false => faster,
    }
}

/// The first `A` of another draw.
fn redrawn(
    settings: &NavigationSettings,
    world: &World,
    seed: u64,
    draw: u64,
    device: &Device,
) -> Result<Transition, LabError> {
    let parameters = Stream::new(seed, "redraws").at(draw);
    let mut init = Initializer::new(parameters, device.clone());
    Ok(model_of(settings, world, &mut init)?.transition)
}

impl Learner for Navigator {
    fn sizes(&self) -> Vec<(String, usize)> {
        in_words(parts(&self.model))
    }

    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let lesson = self.lesson();
        let walks = self.batches.batch(step - 1, lesson)?;
        let stage = self.progress.stage();
        self.model.memorise = lesson.memorise;
        self.model.transition.open = stage == Stage::Actions;
        let (loss, terms) = match stage {
            Stage::Frames => self.frames_loss(&walks, step),
            _ => self.walks_loss(&walks, step),
        };
        let terms = Tensor::cat(terms.into_iter().map(Tensor::inner).collect(), 0);
        let gradients = ParameterGradients::of(&self.model, loss.backward());
        let names = ["bound", "KL"];
        let factor = faster(&self.experiment, &self.progress, self.settings.faster, step);
        self.updates
            .optimiser
            .set_factors(&[("transition.", factor)]);
        self.updates
            .make(&mut self.model, step, gradients, &names, terms)?;
        match self.progress.made(&self.model.transition, &self.actions) {
            Advice::GoOn => Ok(()),
            Advice::GiveUp(why) => Err(StepFailure::GivenUp(why)),
            Advice::Redraw(draw) => {
                let seed = self.experiment.seed;
                let drawn = redrawn(&self.settings, &self.world, seed, draw, &self.device);
                let drawn = drawn.map_err(Error::from)?;
                self.model.transition.moves = drawn.moves;
                self.updates.optimiser.forget("transition.moves");
                Ok(())
            }
        }
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        let stage = self.progress.number();
        self.updates.measured(|terms| {
            Measures::new()
                .with("bound", terms[0])
                .with("kl", terms[1])
                .with("stage", stage)
        })
    }

    /// A model that is only looked at, with no updates to make, may have any actions.
    fn unfinished(&self) -> Option<String> {
        let (progress, steps) = (&self.progress, self.experiment.training.steps);
        (steps > 0).then(|| progress.unopened(&self.model.transition, &self.actions))?
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let measures = evaluate(
            &self.experiment,
            &self.settings,
            &self.world,
            &self.complete(),
            purpose,
        )?;
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            model: collect(&self.model),
            optimiser: self.updates.optimiser.collect(),
            ..Snapshot::default()
        };
        self.progress.save(&mut snapshot.counters);
        snapshot
    }

    fn restore(&mut self, from: Snapshot, path: &Path) -> Result<(), Error> {
        self.progress.restore(&from, path)?;
        self.updates.restore(from.optimiser, path)?;
        self.model = restore(self.model.clone(), from.model, path)?;
        Ok(())
    }
}

impl Navigator {
    /// The model without gradients, with all of its memory. Walls count only from the stage on in which they are
    /// learned.
    fn complete(&self) -> GtmSm {
        let mut model = self.model.valid();
        model.memorise = self.settings.memorise;
        model.transition.open = matches!(self.progress.stage(), Stage::Frames | Stage::Actions);
        model
    }
}

impl Gallery for Navigator {
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        planned(experiment, &self.world)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        black_box(self.batches.make(step - 1, &self.lesson()));
        Ok(())
    }

    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        let mut settings = self.settings.clone();
        settings.foresee = steps.unwrap_or(settings.foresee);
        figures::generated(&settings, &self.world, &self.complete(), sequences, seed)
    }

    fn stored(&self) -> Option<usize> {
        Some(self.settings.memorise)
    }

    fn walker(
        &self,
        seed: u64,
        picture: Option<&Path>,
    ) -> Option<Result<Box<dyn Walker>, LabError>> {
        let walker = || -> Result<Box<dyn Walker>, LabError> {
            let images = match (self.world.as_ref(), picture) {
                (World::Images { walked, .. }, _) => walked,
                (World::Labyrinth(walks), None) => {
                    let (walks, count) = (walks.clone(), self.settings.memorise);
                    let walker = LabyrinthWalker::new(walks, self.complete(), count, seed)?;
                    return Ok(Box::new(walker));
                }
                (World::Labyrinth(_), Some(file)) => {
                    return Err(LabError::Configuration(format!(
                        "--image {}: the model walks through rooms, not over pictures",
                        file.display()
                    )));
                }
            };
            let world = match picture {
                None => images.clone(),
                Some(file) => {
                    let side = self.settings.image.picture;
                    let limits = self.experiment.data.limits();
                    let pictures = Pictures::single(file, side, limits)?;
                    ImageNavigation::new(Arc::new(pictures), self.settings.image.clone())?
                }
            };
            let walker = ImageWalker::new(&self.settings, world, self.complete(), seed)?;
            Ok(Box::new(walker))
        };
        Some(walker())
    }

    /// Conditions are actions, one-hot. While the model memorises, nothing is predicted and nothing surprises it.
    fn online(&self, seed: u64) -> Option<Box<dyn OnlineFilter>> {
        let walked = self.world.walked();
        let observed = Observed {
            frame: walked.frame(),
            numbers: Numbers::Pixels,
            scale: Scale::IDENTITY,
            conditions: walked.actions().len(),
        };
        Some(Box::new(Online::new(
            Inference::direct(self.complete()),
            observed,
            &self.snapshot().model,
            seed,
        )))
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        figures::figures(&self.settings, &self.world, &self.complete(), shown)
    }
}
