//! Families: kinds of tasks that can be learned. [`FAMILIES`] lists those that come with mnemora.
//!
//! A [`Family`] declares its tasks and measurements, and opens its experiments. [`Found`] is an experiment with its
//! data; it makes a [`Gallery`], which is a [`Learner`](crate::Learner) that can also be looked at. Training,
//! evaluation, reports and comparisons are written once, for these three traits.

use super::{
    Experiment,
    gallery::{Drawn, Gallery},
    shipped::Shipped,
};
use crate::{FAMILIES, LabError, MemoryName, ModelName, curves::Curves};
use burn::tensor::Device;
use mnemora_figures::chart::Chart;
use mnemora_training::{Quantity, memory_use::Planned};
use std::{
    ops::Range,
    path::Path,
    sync::{PoisonError, RwLock},
};
use toml::Table;

/// The families that a program has added.
static ADDED: RwLock<Vec<&'static dyn Family>> = RwLock::new(Vec::new());

/// Adds a program's own families. Must be called before any experiment is read.
///
/// # Panics
/// If the name of a task, an experiment or a table of settings is already taken.
pub fn add_families(own: &[&'static dyn Family]) {
    for family in own {
        let known = families();
        let tasks = || known.iter().flat_map(|family| family.tasks());
        for task in family.tasks() {
            assert!(
                tasks().all(|other| other.name != task.name),
                "there is already a task '{}'",
                task.name
            );
        }
        let presets = || known.iter().flat_map(|family| family.presets());
        for preset in family.presets() {
            assert!(
                presets().all(|other| other.name != preset.name),
                "there is already an experiment '{}'",
                preset.name
            );
        }
        if let Some((table, _)) = family.own_settings() {
            let template = Experiment::template().expect("default settings can be written");
            assert!(
                !template.contains_key(table),
                "there is already a table of settings '{table}'"
            );
        }
        let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
        added.push(*family);
    }
}

/// All families, with those that a program has added last.
pub fn families() -> Vec<&'static dyn Family> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    FAMILIES.iter().chain(added.iter()).copied().collect()
}

/// The family of a task; `None` if there is no such task.
pub fn family_of(task: &str) -> Option<&'static dyn Family> {
    let has = |family: &&dyn Family| family.tasks().iter().any(|entry| entry.name == task);
    families().into_iter().find(has)
}

/// A task in the list of a family.
#[derive(Clone, Debug)]
pub struct TaskEntry {
    /// Its name in an experiment.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// The keys of the table `task` that it reads, and tables in it.
    pub keys: Vec<&'static str>,
    /// Whether training needs data that do not come with the program.
    pub needs_data: bool,
}

impl TaskEntry {
    /// A task with a name and a description.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            keys: Vec::new(),
            needs_data: false,
        }
    }

    /// Says that it needs data which do not come with the program.
    #[must_use]
    pub const fn needs_data(mut self) -> Self {
        self.needs_data = true;
        self
    }

    /// Adds keys that it reads.
    #[must_use]
    pub fn reads(mut self, keys: impl IntoIterator<Item = &'static str>) -> Self {
        self.keys.extend(keys);
        self
    }
}

/// A kind of task that can be learned.
pub trait Family: Sync {
    /// Its name, in the plural.
    fn name(&self) -> &'static str;

    /// Its tasks.
    fn tasks(&self) -> Vec<TaskEntry>;

    /// The experiments that come with it.
    fn presets(&self) -> &'static [Shipped];

    /// What it measures. The best checkpoint is chosen by the first quantity, then by the bound.
    fn quantities(&self) -> &'static [Quantity];

    /// Values of its evaluations that none of its quantities [covers](Quantity::covers): their paths in
    /// `evaluation.json`, each with its meaning. Values that only some experiments measure are listed too.
    fn extras(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Keys of its own table that only decide what is measured. `eval` may change them.
    fn measured_by(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its model in a word, if it has only one, for names of runs and in comparisons.
    fn label(&self) -> &'static str {
        self.name()
    }

    /// The models that can be trained on its tasks.
    fn models(&self) -> &'static [ModelName] {
        &[ModelName::Gtmm]
    }

    /// The memories that can be trained on its tasks, for models that have one; empty if `model.memory` is not used.
    fn memories(&self) -> &'static [MemoryName];

    /// Width of the condition that comes with each observation; 0 for none.
    fn conditions(&self, _experiment: &Experiment) -> usize {
        0
    }

    /// Whether its models have latents, inferred as `filtering.strategy` says.
    fn has_latents(&self) -> bool {
        false
    }

    /// Whether `model.likelihood` is the likelihood of its models with latents.
    fn chooses_likelihood(&self) -> bool {
        true
    }

    /// Whether long sequences can be trained in segments (`training.segment`).
    fn has_segments(&self) -> bool {
        false
    }

    /// Whether an experiment's task reads data, from files or from the program itself.
    fn has_data(&self, _experiment: &Experiment) -> bool {
        false
    }

    /// Its own table of settings with defaults, and the table's name in an experiment's TOML. It does not include the
    /// tables shared by all families (`training`, `evaluation`, `memory`, ...).
    fn own_settings(&self) -> Option<(&'static str, Table)> {
        None
    }

    /// The models that read a key of [`own_settings`](Self::own_settings), if not all of its models do; empty if all do.
    fn models_of(&self, _key: &str) -> &'static [ModelName] {
        &[]
    }

    /// The tasks that read a key of [`own_settings`](Self::own_settings), if not all of its tasks do; empty if all do.
    fn tasks_of(&self, _key: &str) -> Vec<&'static str> {
        Vec::new()
    }

    /// What an experiment of this family must have to read a key of [`own_settings`](Self::own_settings), if it does not
    /// read it: a setting, in words.
    fn unread(&self, _experiment: &Experiment, _key: &str) -> Option<&'static str> {
        None
    }

    /// What the keys of [`own_settings`](Self::own_settings) mean and which names they may have: a JSON schema, whose
    /// `description` is a doc comment. `schemars::schema_for!(Settings).to_value()` makes it.
    fn own_schema(&self) -> Option<serde_json::Value> {
        None
    }

    /// Checks that settings go together. The error names the key, its value, and what is allowed.
    fn check(&self, _experiment: &Experiment) -> Result<(), String> {
        Ok(())
    }

    /// Steps of a training sequence; of the longest one if lengths differ.
    fn time(&self, experiment: &Experiment) -> usize;

    /// The keys that determine [`time`](Self::time), with their values.
    fn time_words(&self, experiment: &Experiment) -> String;

    /// The task and its sizes, in words.
    fn words(&self, experiment: &Experiment) -> String;

    /// The name of an experiment's setting in evidence: its name, and other differences between its tasks.
    fn setting(&self, experiment: &Experiment) -> String {
        experiment.name.clone()
    }

    /// Numbers per step, as far as they are known before the data are read.
    fn numbers(&self, experiment: &Experiment) -> usize;

    /// Whether a model may do worse on sequences that are longer than those of its training. Who asks for them is told.
    fn has_trained_length(&self) -> bool {
        true
    }

    /// Changes an experiment so that its sequences have this many steps when they are drawn.
    fn lengthen(&self, _experiment: &mut Experiment, _steps: usize) {}

    /// The steps (from 0) that test the memory, if they are the same in every sequence.
    fn recall_interval(&self, _experiment: &Experiment) -> Option<Range<usize>> {
        None
    }

    /// Whether an evaluation is random, so that another seed gives other numbers.
    fn evaluation_draws(&self) -> bool {
        true
    }

    /// Advice for whoever opens the run in the folder `run` with another value of `key`, which cannot change after
    /// training: the end of the error's sentence, from a semicolon on.
    fn hint_of_change(&self, _key: &str, _run: &Path) -> Option<String> {
        None
    }

    /// Whether its models judge other data than those of their run.
    fn judges_other_data(&self) -> bool {
        false
    }

    /// What training takes, as far as it is known before the data are read, if that may be much.
    fn planned_before_reading(
        &self,
        _experiment: &Experiment,
    ) -> Option<Result<Planned, LabError>> {
        None
    }

    /// Finds the data of an experiment and records their identity in it.
    fn find(
        &'static self,
        experiment: &mut Experiment,
        data: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError>;

    /// As [`find`](Self::find), without the data but with the run's description of a step: enough to filter.
    fn described(&self, _experiment: &Experiment) -> Option<Box<dyn Found>> {
        None
    }

    /// The charts of a comparison of runs of one task. `experiment` is that of the first run.
    fn compared(&self, experiment: &Experiment, curves: &Curves) -> Vec<Chart>;
}

/// An experiment with its data.
pub trait Found: Send {
    /// The data in words.
    fn words(&self) -> String;

    /// What training takes, for this experiment or one that differs from it in a size.
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError>;

    /// Returns an error if a model cannot be trained on the data.
    fn check(&self, _experiment: &Experiment) -> Result<(), LabError> {
        Ok(())
    }

    /// Training sequences as a picture.
    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError>;

    /// A fresh learner with its model on `device`, an autodiff device for training.
    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::frames::{FRAMES, Frames};
    use mnemora_memory::AnyMemory;

    #[test]
    #[should_panic(expected = "there is already a table of settings 'training'")]
    fn a_table_of_settings_belongs_to_one_family() {
        static OTHER: Frames<AnyMemory> = Frames {
            name: "others",
            tasks: &[],
            presets: &[],
            memories: &[],
            memory: |experiment, place, init| (FRAMES.memory)(experiment, place, init),
            settings: || Some(("training", Table::new())),
        };
        add_families(&[&OTHER]);
    }
}
