//! The learner of walks for temporal VAEs around a memory: they have no places, and learn from all steps.

use super::{
    evaluate::{Foreseen, Foresees, evaluate},
    figures,
    settings::NavigationSettings,
    walks::Lesson,
    world::World,
};
use crate::{
    Experiment, LabError,
    experiment::gallery::{Drawn, Gallery, Shown},
    families::{
        frames::{Model, parts},
        image_shape,
        trainer::{BatchTensors, Trainer},
    },
    pictures::Figures,
};
use burn::tensor::{Device, Tensor, TensorData};
use mnemora_memory::{Count, Initializer};
use mnemora_models::{FilteringModel, generate};
use mnemora_training::{
    Error, Learner, Purpose, Row, Snapshot, StepFailure,
    arrays::host,
    device::outline,
    memory_use::{Planned, Work, in_words},
    online::{Numbers, Observed, OnlineFilter},
    strategy::{Inference, noise},
};
use mnemora_worlds::{Prefetch, Scale, Split, Stream, Walks};
use std::{hint::black_box, path::Path, sync::Arc};

/// Batches of walks made ahead of training.
const AHEAD: usize = 2;

/// A temporal VAE that learns to foresee walks.
pub struct TemporalLearner {
    experiment: Experiment,
    settings: NavigationSettings,
    world: Arc<World>,
    /// Numbers of a condition.
    conditions: usize,
    batches: Prefetch<Walks>,
    trainer: Trainer,
}

fn conditions(experiment: &Experiment) -> usize {
    experiment.family().conditions(experiment)
}

/// A fresh model of a world.
fn model_of(
    experiment: &Experiment,
    world: &World,
    init: &mut Initializer,
) -> Result<Model, LabError> {
    let frame = image_shape(world.walked().frame());
    let config = experiment.model_config(frame, experiment.likelihood_config(0.0, true));
    let memory = experiment.memory_config(&experiment.place(conditions(experiment)))?;
    Ok(config.init(&memory, init)?)
}

/// The parts of the model, and how much memory its training takes.
pub(super) fn planned(experiment: &Experiment, world: &World) -> Result<Planned, LabError> {
    let settings: NavigationSettings = experiment.own_settings()?;
    let model = model_of(experiment, world, &mut outline()?)?;
    let pixels = world.walked().frame().size();
    let time = settings.memorise + settings.predict;
    let longest = settings.memorise + settings.foresee;
    let footprint = model.footprint(pixels, time);
    let sizes = [model.latent_size(), pixels, time];
    let ([learning, looking], inference) =
        experiment
            .sizes()
            .filtered(&experiment.filtering, &footprint, sizes, longest)?;
    let work = Work {
        learning,
        // Generated frames, what the model makes of those it sees, and the true ones.
        looking: looking + Count::product(&[6, pixels, longest, experiment.evaluation.batch]),
        batches: Count::product(&[
            pixels + world.walked().actions().len() + 8,
            time,
            experiment.training.batch,
            AHEAD + 2,
        ]),
        data: world.bytes(),
    };
    Ok(Planned::new(parts(&model, inference), work))
}

/// Walks on a device, for a model that takes conditions of `conditions` numbers: their actions.
fn tensors(walks: &Walks, conditions: usize, device: &Device) -> BatchTensors {
    let [batch, time] = [walks.batch, walks.time];
    let frames = TensorData::new(walks.all_frames(), [batch, time, walks.frame.size()]);
    BatchTensors {
        observations: Tensor::from_data(frames, device),
        conditions: (conditions > 0).then(|| {
            let values = TensorData::new(walks.conditions(), [batch, time, conditions]);
            Tensor::from_data(values, device)
        }),
    }
}

impl TemporalLearner {
    /// A fresh learner with its model on `device`, initialised from the experiment's seed.
    pub fn new(
        experiment: &Experiment,
        world: Arc<World>,
        device: &Device,
    ) -> Result<Self, LabError> {
        let settings: NavigationSettings = experiment.own_settings()?;
        let seed = experiment.seed;
        let mut init = experiment.initializer(device);
        let model = model_of(experiment, &world, &mut init)?;
        let pixels = world.walked().frame().size();
        let lesson = Lesson {
            memorise: settings.memorise,
            predict: settings.predict,
            without_walls: false,
        };
        let (data, size) = (Stream::new(seed, "data"), experiment.training.batch);
        let made = world.clone();
        Ok(Self {
            batches: Prefetch::new(experiment.task.name.as_str(), AHEAD, move |(), index| {
                made.walks(Split::Train, &data, index, size, lesson)
            }),
            trainer: Trainer::new(experiment, model, pixels, device.clone())?,
            conditions: conditions(experiment),
            experiment: experiment.clone(),
            settings,
            world,
        })
    }

    fn foreseer(&self) -> Foreseer {
        Foreseer {
            conditions: self.conditions,
            inference: self.trainer.inference(),
        }
    }
}

/// A trained model.
struct Foreseer {
    inference: Inference<Model>,
    /// Numbers of a condition.
    conditions: usize,
}

impl Foresees for Foreseer {
    /// `best` are the frames that follow if each latent is the mean of its prior.
    fn foresee(&self, walks: Walks, memorise: usize, stream: &Stream, index: u64) -> Foreseen {
        let model = self.inference.model();
        let device = model.device();
        let (batch, time) = (walks.batch, walks.time);
        let seen = tensors(&walks, self.conditions, &device);
        let part = |all: &Tensor<3>, range: std::ops::Range<usize>| {
            let width = all.dims()[2];
            all.clone().slice([0..batch, range, 0..width])
        };

        // The steps of the memorised part use the same draws in both passes.
        let (before, _) = self.inference.filter(
            part(&seen.observations, 0..memorise),
            seen.conditions.as_ref().map(|all| part(all, 0..memorise)),
            stream,
            index,
        );
        let ahead = |noise: Tensor<3>| {
            let conditions = seen
                .conditions
                .as_ref()
                .map(|all| part(all, memorise..time));
            let frames = generate(
                model,
                before.state.clone(),
                conditions,
                noise,
                |_, likelihood| likelihood.mean(),
            );
            host(frames.frames.into_data())
        };
        let numbers = model.generation_noise();
        let drawn = noise(stream, index, [time, batch, numbers], &device);
        let drawn = drawn.slice([memorise..time, 0..batch, 0..numbers]);
        let (best, sampled) = (ahead(drawn.zeros_like()), ahead(drawn));

        let (filtered, _) =
            self.inference
                .filter(seen.observations, seen.conditions, stream, index);
        let decoded = host(filtered.likelihood.mean().into_data());
        let reconstruction = host(filtered.reconstruction.clone().into_data());
        let kl = host(filtered.kl.clone().into_data());
        let of = |values: &[f32], row: usize| -> f64 {
            let steps = (memorise..time).map(|step| f64::from(values[step * batch + row]));
            steps.sum()
        };
        let bounds = (0..batch).map(|row| {
            let kl = of(&kl, row);
            [of(&reconstruction, row) - kl, kl]
        });
        Foreseen {
            located: None,
            sampled,
            best,
            decoded,
            shown: (0..batch * time)
                .map(|place| place % time * batch + place / time)
                .collect(),
            bounds: bounds.collect(),
            place_kl: None,
            kl,
            whole: host(filtered.bound(1.0).into_data())
                .into_iter()
                .map(f64::from)
                .collect(),
            walks,
        }
    }
}

impl Learner for TemporalLearner {
    fn sizes(&self) -> Vec<(String, usize)> {
        in_words(self.trainer.parts())
    }

    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let walks = self.batches.batch(step - 1, ())?;
        let batch = tensors(&walks, self.conditions, &self.trainer.device);
        self.trainer.update(step, batch)
    }

    fn deferred(&self) -> bool {
        self.trainer.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        self.trainer.measured()
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let measures = evaluate(
            &self.experiment,
            &self.settings,
            &self.world,
            &self.foreseer(),
            purpose,
        )?;
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        self.trainer.snapshot()
    }

    fn restore(&mut self, from: Snapshot, path: &Path) -> Result<(), Error> {
        self.trainer.restore(from, path)
    }
}

impl Gallery for TemporalLearner {
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        planned(experiment, &self.world)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        black_box(self.batches.make(step - 1, &()));
        Ok(())
    }

    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        let mut settings = self.settings.clone();
        settings.foresee = steps.unwrap_or(settings.foresee);
        figures::generated(&settings, &self.world, &self.foreseer(), sequences, seed)
    }

    fn stored(&self) -> Option<usize> {
        self.trainer.model.stored()
    }

    /// Conditions are actions, one-hot.
    fn online(&self, seed: u64) -> Option<Box<dyn OnlineFilter>> {
        let observed = Observed {
            frame: self.world.walked().frame(),
            numbers: Numbers::Pixels,
            scale: Scale::IDENTITY,
            conditions: self.conditions,
        };
        Some(self.trainer.online(observed, seed))
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        figures::figures(&self.settings, &self.world, &self.foreseer(), shown)
    }
}
