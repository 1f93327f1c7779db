//! One learner for all supervised tasks of a recurrent core: copying, classifying, executing programs.

use crate::{
    Experiment, LabError,
    experiment::{
        family::Found,
        gallery::{Drawn, Gallery, Shown},
    },
    pictures::Figures,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mnemora_figures::picture::Image;
use mnemora_memory::Initializer;
use mnemora_training::{
    Error, Learner, Measures, Purpose, Row, Snapshot, StepFailure,
    arrays::{collect, restore},
    curriculum::Stages,
    learner::BATCHES_AHEAD,
    memory_use::{Parts, Planned, in_words},
    optimiser::ParameterGradients,
    updates::Updates,
};
use mnemora_worlds::{Prefetch, Stream};
use std::{hint::black_box, marker::PhantomData, path::Path, sync::Arc};

/// A task whose answers are right or wrong, and the model that answers.
pub trait SupervisedTask: Send + Sync + Sized + 'static {
    /// The model.
    type Model: Module;
    /// A batch on the host.
    type Batch: Send;

    /// Its data in words.
    const DATA: &'static str;

    /// The task of an experiment.
    fn new(experiment: &Experiment) -> Result<Self, LabError>;

    /// A model with parameters from `init`.
    fn model(experiment: &Experiment, init: &mut Initializer) -> Result<Self::Model, LabError>;

    /// Trainable numbers, starting with the whole model.
    fn parts(model: &Self::Model) -> Parts;

    /// What training it takes.
    fn planned(experiment: &Experiment) -> Result<Planned, LabError>;

    /// See [`Found::training_picture`].
    fn training_picture(experiment: &Experiment) -> Result<Image, LabError>;

    /// The stages of its curriculum, if it has one.
    fn stages(&self, _experiment: &Experiment) -> Option<Stages> {
        None
    }

    /// Training batch `index` (from 1) of a stage.
    fn batch(
        &self,
        stream: &Stream,
        index: u64,
        size: usize,
        stage: usize,
    ) -> Result<Self::Batch, LabError>;

    /// The loss and measurements of a batch.
    fn learn(&self, model: &Self::Model, batch: Self::Batch, device: &Device) -> Learned;

    /// Scores the model on held-out sequences.
    fn evaluate(
        &self,
        experiment: &Experiment,
        model: &Self::Model,
        purpose: Purpose,
    ) -> Result<Measures, LabError>;

    /// See [`Gallery::draw`].
    fn draw(
        &self,
        experiment: &Experiment,
        model: &Self::Model,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError>;

    /// See [`Gallery::figures`].
    fn figures(&self, model: &Self::Model, shown: &Shown) -> Result<Figures, LabError>;
}

/// An experiment of a task whose sequences are made, not read.
pub fn made<T: SupervisedTask>() -> Box<dyn Found> {
    Box::new(Made::<T>(PhantomData))
}

struct Made<T>(PhantomData<T>);

impl<T: SupervisedTask> Found for Made<T> {
    fn words(&self) -> String {
        T::DATA.into()
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        T::planned(experiment)
    }

    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError> {
        let picture = T::training_picture(experiment)?;
        Ok(Drawn::picture(picture, experiment.time()))
    }

    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError> {
        Ok(Box::new(Supervised::<T>::new(experiment, device)?))
    }
}

/// The result of a batch.
pub struct Learned {
    /// The loss, `[1]`.
    pub loss: Tensor<1>,
    /// Mean log likelihood of the answers of a sequence in nats, `[1]`.
    pub log_likelihood: Tensor<1>,
    /// Another measurement: its name in words, its key, and its mean, `[1]`. A curriculum depends on it.
    pub measured: (&'static str, &'static str, Tensor<1>),
}

/// A model that learns to answer.
pub struct Supervised<T: SupervisedTask> {
    experiment: Experiment,
    task: Arc<T>,
    /// Training batches, by stage.
    batches: Prefetch<Result<T::Batch, LabError>, usize>,
    /// On an autodiff device for training.
    model: T::Model,
    /// The state of the curriculum.
    stages: Option<Stages>,
    /// The stage of the last batch, if there is a curriculum.
    admitted: Option<usize>,
    /// The key of the other measurement.
    measured: &'static str,
    updates: Updates,
    device: Device,
}

impl<T: SupervisedTask> Supervised<T> {
    /// A fresh learner with its model on `device`, initialised from the experiment's seed.
    pub fn new(experiment: &Experiment, device: &Device) -> Result<Self, LabError> {
        let task = Arc::new(T::new(experiment)?);
        let mut init = experiment.initializer(device);
        let (data, size) = (
            Stream::new(experiment.seed, "data"),
            experiment.training.batch,
        );
        let made = task.clone();
        let name = experiment.task.name.as_str();
        Ok(Self {
            batches: Prefetch::new(name, BATCHES_AHEAD, move |stage, index| {
                made.batch(&data, index, size, *stage)
            }),
            model: T::model(experiment, &mut init)?,
            stages: task.stages(experiment),
            task,
            admitted: None,
            measured: "",
            updates: Updates::new(&experiment.training, device),
            device: device.clone(),
            experiment: experiment.clone(),
        })
    }

    /// The stage of training; 1 without a curriculum.
    fn stage(&self) -> usize {
        self.stages.as_ref().map_or(1, Stages::stage)
    }
}

impl<T: SupervisedTask> Learner for Supervised<T> {
    fn sizes(&self) -> Vec<(String, usize)> {
        in_words(T::parts(&self.model))
    }

    /// A curriculum needs the measurements of each update, so with one no check is deferred.
    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let batch = self.batches.batch(step - 1, self.stage())??;
        let Learned {
            loss,
            log_likelihood,
            measured: (name, key, measured),
        } = self.task.learn(&self.model, batch, &self.device);
        let terms = Tensor::cat(vec![log_likelihood.inner(), measured.inner()], 0);
        let gradients = ParameterGradients::of(&self.model, loss.backward());
        self.measured = key;
        let names = ["log likelihood", name];
        self.updates
            .make(&mut self.model, step, gradients, &names, terms)?;
        if let Some(stages) = &mut self.stages
            && let Some(made) = self.updates.last()?
        {
            self.admitted = Some(stages.stage());
            stages.observe(made.terms[1]);
        }
        Ok(())
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        let (key, admitted) = (self.measured, self.admitted);
        self.updates.measured(|terms| {
            Measures::new()
                .with("bound", terms[0])
                .with(key, terms[1])
                .with_some("admitted", admitted)
        })
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let model = self.model.valid();
        let measures = self.task.evaluate(&self.experiment, &model, purpose)?;
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            model: collect(&self.model),
            optimiser: self.updates.optimiser.collect(),
            ..Snapshot::default()
        };
        if let Some(stages) = &self.stages {
            stages.save(&mut snapshot.counters);
        }
        snapshot
    }

    fn restore(&mut self, from: Snapshot, path: &Path) -> Result<(), Error> {
        if !from.optimiser.is_empty() {
            if let Some(stages) = &mut self.stages {
                stages.restore(&from, path)?;
            }
            self.updates.restore(from.optimiser, path)?;
        }
        self.model = restore(self.model.clone(), from.model, path)?;
        Ok(())
    }
}

impl<T: SupervisedTask> Gallery for Supervised<T> {
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        T::planned(experiment)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        black_box(self.batches.make(step - 1, &self.stage())?);
        Ok(())
    }

    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        let model = self.model.valid();
        self.task
            .draw(&self.experiment, &model, sequences, seed, steps)
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        self.task.figures(&self.model.valid(), shown)
    }
}

#[cfg(test)]
pub mod testing {
    //! Shared by the tests of these tasks.

    use super::*;
    use crate::load_experiment;

    /// A learner of a shipped experiment with some settings changed.
    pub fn learner<T: SupervisedTask>(name: &str, settings: &[&str]) -> Supervised<T> {
        let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
        let experiment = load_experiment(name, &settings).unwrap();
        Supervised::new(&experiment, &Device::default().autodiff()).unwrap()
    }

    /// The measurements of a model before and after some updates.
    pub fn learns<T: SupervisedTask>(
        name: &str,
        settings: &[&str],
        updates: u64,
    ) -> (Measures, Measures) {
        let mut learner = learner::<T>(name, settings);
        let evaluated = |learner: &Supervised<T>, step| {
            let row = learner.evaluate(Purpose::Final, step).unwrap();
            assert_eq!(row.step, step);
            row.measures
        };
        let before = evaluated(&learner, 0);
        for step in 1..=updates {
            learner.update(step).unwrap();
        }
        let after = evaluated(&learner, updates);
        (before, after)
    }

    /// Makes `count` updates, starting with `first`, and returns the stage of each.
    pub fn stages<T: SupervisedTask>(
        learner: &mut Supervised<T>,
        first: u64,
        count: u64,
    ) -> Vec<u64> {
        let stage = |step| {
            learner.update(step).unwrap();
            let row = learner.measured().unwrap().unwrap();
            row.measures.count("admitted").unwrap()
        };
        (first..first + count).map(stage).collect()
    }

    /// A learner restored from the snapshot of another continues like that one; returns the stages it went through.
    pub fn goes_on_with_the_curriculum<T: SupervisedTask>(
        name: &str,
        settings: &[&str],
        [before, after]: [u64; 2],
    ) -> Vec<u64> {
        let mut whole = learner::<T>(name, settings);
        stages(&mut whole, 1, before);
        let mut parted = learner::<T>(name, settings);
        parted.restore(whole.snapshot(), Path::new("test")).unwrap();
        assert_eq!(whole.stages, parted.stages);
        let first = before + 1;
        let found = stages(&mut whole, first, after);
        assert_eq!(found, stages(&mut parted, first, after));
        assert_eq!(whole.measured().unwrap(), parted.measured().unwrap());
        assert_eq!(whole.snapshot(), parted.snapshot());
        found
    }

    /// A parameter that is NaN stops the training before it changes anything.
    pub fn named_when_not_finite<T: SupervisedTask>(
        name: &str,
        settings: &[&str],
        parameter: &str,
    ) {
        let mut learner = learner::<T>(name, settings);
        let mut snapshot = learner.snapshot();
        snapshot.model.get_mut(parameter).unwrap().values[0] = f32::NAN;
        learner.restore(snapshot, Path::new("test")).unwrap();
        let before = format!("{:?}", learner.snapshot());
        let Err(StepFailure::NonFinite { what, .. }) = learner.update(1) else {
            panic!("a NaN was trained on");
        };
        assert_eq!(what, "the log likelihood");
        assert_eq!(format!("{:?}", learner.snapshot()), before);
    }
}
