//! Temporal VAEs around a memory, on sequences of images composed to test the memory (Gemici et al. 2017).
//!
//! | file | contents |
//! | --- | --- |
//! | `training.rs` | the model and its parts |
//! | `learner.rs` | the [learner](mnemora_training::Learner) around them |
//! | `evaluate.rs`, `digit_classifier.rs` | the evaluation of a trained model |
//! | `figures.rs` | its pictures |

pub mod digit_classifier;
mod evaluate;
mod figures;
mod learner;
mod training;

pub use super::trainer::{BatchTensors, Trainer};
pub use evaluate::Rounds;
pub use learner::FrameLearner;
pub use training::{Model, parts};

use crate::{
    Experiment, LabError, MemoryName,
    curves::{Curves, bound_chart, kl_per_step_chart, last_kl_chart},
    experiment::{
        LikelihoodName,
        data::found_in,
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Gallery},
        shipped::{Shipped, presets},
    },
    families::image_shape,
};
use burn::tensor::Device;
use mnemora_figures::chart::Chart;
use mnemora_memory::{AnyMemory, Initializer, Memory, Place};
use mnemora_training::{
    Quantity,
    measures::{Better, Claim, Format},
    memory_use::Planned,
};
use mnemora_worlds::{DataSet, FRAME_TASKS, FrameTask, Images, Layout, Sizes, Task};
use std::{ops::Range, path::Path, sync::Arc};
use toml::{Table, Value};

/// A family of temporal VAEs around memories `M` on tasks of frames. [`FRAMES`] is that of mnemora; a program with its
/// own memory or task makes another one.
pub struct Frames<M> {
    /// Its name, in the plural.
    pub name: &'static str,
    /// Its tasks.
    pub tasks: &'static [FrameTask],
    /// The experiments that come with it.
    pub presets: &'static [Shipped],
    /// The choices of `model.memory`; empty for a family with one memory, whose experiments do not read that key.
    pub memories: &'static [MemoryName],
    /// Makes the memory of an experiment, for the sizes of the model around it.
    pub memory: fn(&Experiment, &Place, &mut Initializer) -> Result<M, LabError>,
    /// Its own settings and the name of their table: those of its memory, and sizes of its tasks that are not in
    /// `task`.
    pub settings: fn() -> Option<(&'static str, Table)>,
}

/// The temporal VAEs of mnemora.
pub static FRAMES: Frames<AnyMemory> = Frames {
    name: "frames",
    tasks: FRAME_TASKS,
    presets: presets![
        "perfect-recall",
        "perfect-recall-20",
        "perfect-recall-50",
        "perfect-recall-small",
        "parity-recall",
        "parity-recall-20",
        "parity-recall-50",
        "parity-recall-small",
        "one-shot-recall",
        "one-shot-recall-small",
        "dynamic-dependency",
        "dynamic-dependency-small",
        "similarity-cued-recall",
        "similarity-cued-recall-small",
        "mnist-map",
        "mnist-map-small",
    ],
    memories: MemoryName::OF_LATENTS,
    memory: |experiment, place, init| {
        Ok(experiment
            .memory_config(place)?
            .init(init)
            .map_err(mnemora_models::ModelError::from)?)
    },
    settings: || None,
};

/// The measurements of a temporal VAE on frames.
pub const QUANTITIES: [Quantity; 17] = [
    Quantity::new("bound", "bound", "nats per sequence")
        .meaning("reconstruction minus KL, mean over {sequences} held-out sequences, higher is better")
        .spread("bound_stderr", "sequences")
        .better(Better::Higher)
        .column(1)
        .tracked()
        .finite()
        .progress("bound", Format::Digits)
        .checkpoint("bound", Format::Digits)
        .claims(&[Claim::new("bound", "nats per sequence", 1)]),
    Quantity::new("free_energy", "free energy", "nats per step")
        .meaning("minus the bound; the next two are tighter and therefore lower")
        .better(Better::Lower),
    Quantity::new("importance_weighted", "importance-weighted", "nats per step")
        .meaning("minus the bound of {particles} weighted samples of whole sequences")
        .better(Better::Lower),
    Quantity::new("particle_filter", "particle filter", "nats per step")
        .meaning(
            "minus the bound of {particles} particles, resampled when the effective sample size falls below half",
        )
        .better(Better::Lower),
    Quantity::new("effective_particles", "effective particles", "particles")
        .meaning("mean; resampled after {resampled%}% of steps"),
    Quantity::new("reconstruction", "reconstruction", "nats per sequence")
        .meaning("log likelihood of the frames given the latents"),
    Quantity::new("kl", "KL", "nats per sequence")
        .meaning("information in the frames that the prior did not predict"),
    Quantity::new("kl_last", "KL of the last frame", "nats")
        .meaning("near zero if memory predicts it")
        .format(Format::Decimals(2))
        .better(Better::Lower)
        .column(2)
        .progress("last KL", Format::Decimals(2))
        .claims(&[Claim::new("KL of the last frame", "nats", 2)]),
    Quantity::new("kl_unpredictable", "KL unpredictable", "nats per frame")
        .meaning("mean over frames that nothing predicts")
        .format(Format::Decimals(2))
        .column(2)
        .claims(&[Claim::new("KL unpredictable", "nats per frame", 2)]),
    Quantity::new("kl_predictable", "KL predictable", "nats per frame")
        .meaning("mean over frames that the past predicts")
        .format(Format::Decimals(2))
        .better(Better::Lower)
        .claims(&[Claim::new("KL predictable", "nats per frame", 2)]),
    Quantity::new("kl_ratio", "KL ratio", "")
        .meaning("predictable / unpredictable; about 1 without memory")
        .format(Format::Decimals(3))
        .better(Better::Lower)
        .column(3)
        .checkpoint("KL ratio", Format::Decimals(3))
        .claims(&[Claim::new("KL ratio", "", 3)]),
    Quantity::new("generated_nearest", "generated recall", "% of frames")
        .at("generated_recall.nearest")
        .meaning("generated frames whose nearest seen frame is the one to be recalled")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .column(3)
        .claims(&[Claim::new("generated nearest", "share of frames", 3)]),
    Quantity::new("error_remembered", "error to the remembered", "mean square")
        .at("generated_recall.error_remembered")
        .meaning("mean squared error of a generated pixel, with intensities from 0 to 1")
        .format(Format::Decimals(4))
        .better(Better::Lower)
        .column(4)
        .claims(&[Claim::new("error to the remembered", "mean square", 4)]),
    Quantity::new("error_others", "error to the others", "mean square")
        .at("generated_recall.error_others")
        .meaning("the same error to the other frames seen")
        .format(Format::Decimals(4))
        .compared(),
    Quantity::new("generated_digits", "right digit", "% of frames")
        .at("generated_digits.accuracy")
        .meaning(
            "generated frames that show the right digit, according to a classifier; of the true frames it reads \
             {generated_digits.accuracy_of_truth%}% right",
        )
        .format(Format::Percent(1))
        .better(Better::Higher)
        .column(3)
        .claims(&[Claim::new("right digit", "share of frames", 3)]),
    Quantity::new("map_coherence", "map coherence", "% of returns")
        .meaning("on maps generated from actions alone: returns to a cell that show what it showed at the last visit")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .column(3)
        .claims(&[Claim::new("map coherence", "share of returns", 3)]),
    Quantity::new("energy_by_round", "round {place}", "nats per step")
        .meaning("free energy after this many rounds of inference; in round 0 the belief is the prior")
        .format(Format::Rows)
        .claims(&[Claim::new("at the prior", "nats per step", 3).first(), Claim::new("after the last round", "nats per step", 3)]),
];

impl<M: Memory + 'static> Frames<M> {
    /// The row of an experiment's task.
    fn row(&self, experiment: &Experiment) -> Result<&'static FrameTask, LabError> {
        let name = experiment.task.name.as_str();
        let row = self.tasks.iter().find(|task| task.name == name);
        row.ok_or_else(|| {
            LabError::Configuration(format!(
                "the task {name} does not compose sequences of images"
            ))
        })
    }

    /// The sizes of an experiment's task: keys of `task`, or of the family's own settings.
    fn sizes(&self, experiment: &Experiment, task: &FrameTask) -> Sizes {
        let shared = Table::try_from(&experiment.task).unwrap_or_default();
        let own = (self.settings)().and_then(|(name, _)| experiment.own.get(name));
        let mut sizes = Sizes::default();
        for size in task.sizes {
            let own = own.and_then(|own| own.get(size.key));
            let value = own.or(shared.get(size.key)).and_then(Value::as_integer);
            if let Some(value) = value.and_then(|value| usize::try_from(value).ok()) {
                sizes = sizes.with(size.key, value);
            }
        }
        sizes
    }

    /// The task's sizes with their keys: `length 8 and recall 3`.
    fn sizes_in_words(&self, experiment: &Experiment, prefix: &str) -> String {
        let Ok(task) = self.row(experiment) else {
            return String::new();
        };
        let sizes = self.sizes(experiment, task);
        let words = task.sizes.iter();
        let words = words.map(|size| format!("{prefix}{} {}", size.key, sizes.get(*size)));
        words.collect::<Vec<_>>().join(" and ")
    }

    /// What all sequences of an experiment's task have in common, as far as it is known without data.
    fn layout(&self, experiment: &Experiment) -> Option<Layout> {
        let task = self.row(experiment).ok()?;
        Some(task.layout(&self.sizes(experiment, task)))
    }

    /// The task of an experiment over given images.
    ///
    /// # Errors
    /// If the task is not one of the family, or a size is out of range.
    pub fn task(
        &self,
        experiment: &Experiment,
        data: Arc<DataSet>,
    ) -> Result<Arc<dyn Task>, LabError> {
        let task = self.row(experiment)?;
        Ok(task.open(data, &self.sizes(experiment, task))?)
    }

    /// A model with fresh parameters, initialised from the experiment's seed.
    ///
    /// # Errors
    /// If the sizes do not fit together.
    pub fn model(
        &self,
        experiment: &Experiment,
        task: &dyn Task,
        device: &Device,
    ) -> Result<Model<M>, LabError> {
        self.model_of(experiment, task, &mut experiment.initializer(device))
    }

    /// A model with parameters from `init`.
    fn model_of(
        &self,
        experiment: &Experiment,
        task: &dyn Task,
        init: &mut Initializer,
    ) -> Result<Model<M>, LabError> {
        let frame = image_shape(task.frame());
        let config = experiment.model_config(frame, experiment.likelihood_config(0.0, true));
        let place = experiment.place(task.condition_width());
        let memory = (self.memory)(experiment, &place, init)?;
        Ok(config.init_with(memory, init)?)
    }

    /// Finds the images of an experiment and records their identity.
    ///
    /// # Errors
    /// If there are none, or they are not those of the run.
    pub fn find_images(
        &self,
        experiment: &mut Experiment,
        data: Option<&Path>,
    ) -> Result<Arc<DataSet>, LabError> {
        let path = experiment.data.path(data);
        let images = self.row(experiment)?.images;
        let settings = &mut experiment.data;
        let found = images.find(path.as_deref(), settings.limits())?;
        settings.check(found.fingerprint(), found.origin(), path.as_deref())?;
        settings.record(found_in(found.origin()), found.fingerprint().to_owned());
        Ok(Arc::new(found))
    }
}

impl<M: Memory + 'static> Family for Frames<M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        let entry = |task: &FrameTask| {
            let keys = task.sizes.iter().map(|size| size.key);
            TaskEntry::new(task.name, task.about).reads(keys)
        };
        self.tasks.iter().map(entry).collect()
    }

    fn presets(&self) -> &'static [Shipped] {
        self.presets
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn extras(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("kl_per_step", "KL of each step, in nats per frame"),
            (
                "generated_recall.frames",
                "generated frames that should repeat a frame of the prompt",
            ),
            (
                "generated_digits.frames",
                "generated frames whose digit is determined by the frames seen",
            ),
        ]
    }

    fn memories(&self) -> &'static [MemoryName] {
        self.memories
    }

    fn conditions(&self, experiment: &Experiment) -> usize {
        let layout = self.layout(experiment);
        layout.map_or(0, |layout| layout.condition_width)
    }

    fn has_latents(&self) -> bool {
        true
    }

    fn has_data(&self, _: &Experiment) -> bool {
        true
    }

    fn has_segments(&self) -> bool {
        true
    }

    fn own_settings(&self) -> Option<(&'static str, Table)> {
        (self.settings)()
    }

    fn check(&self, experiment: &Experiment) -> Result<(), String> {
        match experiment.model.likelihood {
            LikelihoodName::Normal => Err(format!(
                "model.likelihood is 'normal', for the task {} it must be bernoulli or gaussian",
                experiment.task.name.as_str()
            )),
            LikelihoodName::Bernoulli | LikelihoodName::Gaussian => Ok(()),
        }
    }

    fn time(&self, experiment: &Experiment) -> usize {
        self.layout(experiment).map_or(0, |layout| layout.time)
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        self.sizes_in_words(experiment, "task.")
    }

    fn words(&self, experiment: &Experiment) -> String {
        format!(
            "{} with {}",
            experiment.task.name.as_str(),
            self.sizes_in_words(experiment, "")
        )
    }

    fn numbers(&self, _: &Experiment) -> usize {
        Images::SIZE
    }

    fn lengthen(&self, experiment: &mut Experiment, steps: usize) {
        experiment.task.recall = steps;
    }

    fn recall_interval(&self, experiment: &Experiment) -> Option<Range<usize>> {
        self.layout(experiment)?.recall_interval
    }

    fn find(
        &'static self,
        experiment: &mut Experiment,
        data: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        Ok(Box::new(FoundImages {
            family: self,
            images: self.find_images(experiment, data)?,
        }))
    }

    fn compared(&self, experiment: &Experiment, curves: &Curves) -> Vec<Chart> {
        vec![
            kl_per_step_chart(
                curves.per_step("kl_per_step"),
                self.recall_interval(experiment),
            ),
            last_kl_chart(curves.training("kl_last")),
            bound_chart("nats per sequence", curves.training("bound")),
        ]
    }
}

struct FoundImages<M: 'static> {
    family: &'static Frames<M>,
    images: Arc<DataSet>,
}

impl<M: Memory + 'static> Found for FoundImages<M> {
    fn words(&self) -> String {
        format!("{}: {}", self.images.name(), self.images.origin())
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        let task = self.family.task(experiment, self.images.clone())?;
        learner::planned(self.family, experiment, task.as_ref(), &self.images)
    }

    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError> {
        let task = self.family.task(experiment, self.images.clone())?;
        figures::training_picture(experiment, task.as_ref())
    }

    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError> {
        let learner = FrameLearner::new(self.family, experiment, self.images, device)?;
        Ok(Box::new(learner))
    }
}
