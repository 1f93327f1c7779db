//! Experiments as configuration: the TOML file, defaults, overrides, validation.

mod build;
pub(crate) mod data;
pub mod explain;
pub mod family;
pub mod gallery;
pub(crate) mod keys;
mod language;
pub(crate) mod presets;
mod programs;
mod reads;
mod settings;
pub(crate) mod shipped;
pub(crate) mod validate;

pub use language::LanguageSettings;
pub use programs::{CurriculumName, ProgramSettings};
pub use settings::{
    ColumnLikelihoodName, ColumnSettings, DataSettings, DecoderInputName, Form, Kind,
    LikelihoodName, ModelSettings, StepSettings, TaskName, TaskSettings, VisualName,
};

use crate::LabError;
use family::{Family, families};
use keys::{apply_override, flatten, merge};
use mnemora_memory::{MemoryName, MemorySettings};
use mnemora_models::{ModelName, NetworkSettings};
use mnemora_training::{
    memory_use::Sizes,
    settings::{EvaluationSettings, FilteringSettings, StrategyName, TrainingSettings},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// An experiment with every setting resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Experiment {
    /// Name of the experiment.
    pub name: String,
    /// One line that says what the experiment shows.
    pub description: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// The task: what sequences look like.
    pub task: TaskSettings,
    /// The generative model.
    pub model: ModelSettings,
    /// Sizes of each memory; `model.memory` chooses one.
    pub memory: MemorySettings,
    /// Sizes of each model without a memory from `memory`; `model.name` chooses one.
    pub network: NetworkSettings,
    /// How beliefs about latents are inferred.
    pub filtering: FilteringSettings,
    /// Training settings.
    pub training: TrainingSettings,
    /// Evaluation settings.
    pub evaluation: EvaluationSettings,
    /// Where the data come from.
    pub data: DataSettings,
    /// Language models and their vocabularies.
    pub language: LanguageSettings,
    /// Tables of individual families: see [`Family::own_settings`].
    #[serde(flatten)]
    #[schemars(skip)]
    pub own: BTreeMap<String, Table>,
}

impl Default for Experiment {
    fn default() -> Self {
        let own = families()
            .into_iter()
            .filter_map(|family| family.own_settings());
        Self {
            name: String::new(),
            description: String::new(),
            seed: 0,
            task: TaskSettings::default(),
            model: ModelSettings::default(),
            memory: MemorySettings::default(),
            network: NetworkSettings::default(),
            filtering: FilteringSettings::default(),
            training: TrainingSettings::default(),
            evaluation: EvaluationSettings::default(),
            data: DataSettings::default(),
            language: LanguageSettings::default(),
            own: own.map(|(name, table)| (name.to_owned(), table)).collect(),
        }
    }
}

/// A key in which two experiments differ.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// With its tables, such as `training.batch`.
    pub key: String,
    /// Its value in one experiment.
    pub before: Value,
    /// Its value in the other.
    pub after: Value,
}

impl Experiment {
    /// Parses an experiment and its overrides (`key=value`); missing keys get their defaults.
    pub fn parse(text: &str, origin: &str, overrides: &[String]) -> Result<Self, LabError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let message = error.message().replace('\n', " ");
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            LabError::Configuration(format!("{origin}: line {line}: {message}"))
        })?;
        let mut resolved = Self::template()?;
        merge(&mut resolved, table, "")
            .map_err(|problem| LabError::Configuration(format!("{origin}: {problem}")))?;
        for text in overrides {
            apply_override(&mut resolved, text).map_err(LabError::Configuration)?;
        }
        let experiment: Self =
            Value::Table(resolved)
                .try_into()
                .map_err(|error: toml::de::Error| {
                    let message = error.message().replace('\n', " ");
                    LabError::Configuration(format!("{origin}: {message}"))
                })?;
        experiment.validate().map_err(|problem| {
            // A problem of `--set` is not a problem of the file.
            let said = |text: &String| {
                let key = text.split('=').next().unwrap_or_default().trim();
                problem.starts_with(&format!("{key} "))
            };
            LabError::Configuration(match overrides.iter().any(said) {
                true => problem,
                false => format!("{origin}: {problem}"),
            })
        })?;
        Ok(experiment)
    }

    /// The keys in which `other` differs, with both values, except keys that neither reads.
    pub(crate) fn differences(&self, other: &Self) -> Result<Vec<Difference>, LabError> {
        let flat = |experiment: &Self| -> Result<_, LabError> {
            let mut values = Vec::new();
            flatten(&experiment.table()?, "", &mut values);
            Ok(values)
        };
        let pairs = flat(self)?.into_iter().zip(flat(other)?);
        let differ = |((key, before), (_, after)): &((String, Value), (String, Value))| {
            before != after && (self.keeps(key) || other.keeps(key))
        };
        let difference = |((key, before), (_, after))| Difference { key, before, after };
        Ok(pairs.filter(differ).map(difference).collect())
    }

    /// In words what it has otherwise than the experiment that comes under its name, of the keys that `counts` accepts:
    /// `, key value` for each.
    pub(crate) fn changes(&self, counts: impl Fn(&str) -> bool) -> String {
        let shipped = presets::shipped();
        let shipped = shipped.iter().find(|shipped| shipped.name == self.name);
        let shipped = shipped.and_then(|shipped| shipped.experiment(&[]).ok());
        let differences = shipped.and_then(|shipped| shipped.differences(self).ok());
        let counted = differences.unwrap_or_default().into_iter();
        let words = counted
            .filter(|difference| counts(&difference.key))
            .map(|difference| {
                let key = difference.key.rsplit('.').next().unwrap_or_default();
                format!(", {key} {}", difference.after)
            });
        words.collect()
    }

    /// The first key that `other` has changed but may not change.
    pub(crate) fn first_change(
        &self,
        other: &Self,
        may_change: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, LabError> {
        let differences = self.differences(other)?.into_iter();
        let mut keys = differences.map(|difference| difference.key);
        Ok(keys.find(|key| !may_change(key)))
    }

    /// All keys of all families, with their values.
    fn table(&self) -> Result<Table, LabError> {
        Table::try_from(self).map_err(|error| LabError::Configuration(error.to_string()))
    }

    /// The keys that the experiment's task and model read, and those that a run fills in, with their values.
    pub fn resolved(&self) -> Result<Table, LabError> {
        let mut table = self.table()?;
        self.keep(&mut table, "");
        Ok(table)
    }

    fn keep(&self, table: &mut Table, path: &str) {
        table.retain(|key, value| {
            let name = match path {
                "" => key.to_owned(),
                path => format!("{path}.{key}"),
            };
            match value {
                Value::Table(inner) => {
                    self.keep(inner, &name);
                    !inner.is_empty()
                }
                _ => self.keeps(&name),
            }
        });
    }

    /// The experiment as TOML: see [`resolved`](Self::resolved).
    pub fn to_toml(&self) -> Result<String, LabError> {
        let text = toml::to_string(&self.resolved()?);
        text.map_err(|error| LabError::Configuration(error.to_string()))
    }

    /// As [`to_toml`](Self::to_toml), but with the keys of all families, as earlier versions wrote it.
    pub(crate) fn to_complete_toml(&self) -> Result<String, LabError> {
        toml::to_string(self).map_err(|error| LabError::Configuration(error.to_string()))
    }

    pub(crate) fn template() -> Result<Table, LabError> {
        Self::default().table()
    }

    /// The family of its task.
    pub fn family(&self) -> &'static dyn Family {
        self.task.name.family()
    }

    /// The settings of the family's own table, as the type that the family uses.
    ///
    /// # Errors
    /// If the family has no such table, or a value does not fit the type.
    pub fn own_settings<T: serde::de::DeserializeOwned>(&self) -> Result<T, LabError> {
        let (name, defaults) = self.family().own_settings().unwrap_or_default();
        let table = self.own.get(name).cloned().unwrap_or_default();
        table.clone().try_into().map_err(|error: toml::de::Error| {
            let at = match keys::misfit::<T>(&defaults, &table) {
                Some((key, value)) => format!("{name}.{key} is {value}"),
                None => format!("[{name}]"),
            };
            let message = error.message().replace('\n', " ");
            LabError::Configuration(format!("{at}: {message}"))
        })
    }

    /// The settings that decide how much is computed at a time.
    pub fn sizes(&self) -> Sizes<'_> {
        Sizes {
            training: &self.training,
            evaluation: &self.evaluation,
        }
    }

    /// The task and its sizes, in words.
    pub(crate) fn words(&self) -> String {
        self.family().words(self)
    }

    /// Steps of a training sequence; of the longest one if lengths differ.
    pub fn time(&self) -> usize {
        self.family().time(self)
    }

    /// The model in a word: its memory or its name, and the inference strategy unless it is direct.
    pub fn label(&self) -> String {
        let base = match self.model.name {
            ModelName::Gtmm if !self.chooses_memory() => self.family().label(),
            ModelName::Gtmm => self.model.memory.as_str(),
            ModelName::Srnn if self.network.srnn.smoothing => "srnn-smoothing",
            other => other.as_str(),
        };
        let rounds = self.filtering.iterations;
        match self.filtering.strategy {
            StrategyName::Direct => base.to_owned(),
            StrategyName::Iterative if self.filtering.online => {
                format!("{base}-avf{rounds}-online")
            }
            StrategyName::Iterative => format!("{base}-avf{rounds}"),
            StrategyName::Gradient => format!("{base}-gradient{rounds}"),
        }
    }

    /// Whether [`label`](Self::label) shows the value of a key.
    pub(crate) fn label_says(&self, key: &str) -> bool {
        match key {
            "model.memory" | "filtering.strategy" | "network.srnn.smoothing" => true,
            // The only name shared by a model and a memory.
            "model.name" => {
                self.model.name != ModelName::Gtmm || self.model.memory != MemoryName::Vrnn
            }
            "filtering.iterations" => self.filtering.strategy != StrategyName::Direct,
            "filtering.online" => self.filtering.strategy == StrategyName::Iterative,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_memory::{GateStyle, RmcConfig};

    fn problem(overrides: &[&str]) -> String {
        let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
        Experiment::parse("", "test", &overrides)
            .expect_err("must be refused")
            .to_string()
    }

    /// The name of a setting tells what decides the task, not how it is learned.
    #[test]
    fn settings_name_what_differs_from_the_preset() {
        let setting = |name: &str, overrides: &[&str]| {
            let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
            let experiment = crate::load_experiment(name, &overrides).unwrap();
            experiment.family().setting(&experiment)
        };
        let levels = "agents.environment.mini-pacman.levels=1";
        for (name, overrides, expected) in [
            ("mini-pacman-small", &[][..], "mini-pacman-small"),
            (
                "mini-pacman-small",
                &[levels, "agents.unroll=3"],
                "mini-pacman-small, levels 1",
            ),
            (
                "patterns",
                &["scenes.context_most=1", "scenes.model.steps=2"],
                "patterns, context_most 1",
            ),
        ] {
            assert_eq!(setting(name, overrides), expected);
        }
    }

    #[test]
    fn overrides_reach_nested_keys_and_keep_types() {
        let overrides = [
            "training.steps=7".to_string(),
            "training.learning_rate=1".to_string(),
            "model.memory=vrnn".to_string(),
            "memory.introspection.reads = 2".to_string(),
        ];
        let experiment = Experiment::parse("seed = 3", "test", &overrides).unwrap();
        assert_eq!(experiment.seed, 3);
        assert_eq!(experiment.training.steps, 7);
        assert_eq!(experiment.training.learning_rate, 1.0);
        assert_eq!(experiment.model.memory, MemoryName::Vrnn);
        assert_eq!(experiment.memory.introspection.reads, 2);
    }

    /// The temporal VAE where a task can have it, otherwise the first of its models.
    fn usual_model(task: TaskName) -> &'static str {
        let models = task.family().models();
        let usual = models.iter().find(|name| **name == ModelName::Gtmm);
        usual.unwrap_or(&models[0]).as_str()
    }

    #[test]
    fn every_task_has_its_memories() {
        let with_actions = [
            "mnist-map",
            "image-navigation",
            "rotation",
            "walking",
            "rooms",
        ];
        for task in TaskName::all() {
            for memory in MemoryName::ALL {
                let overrides = [
                    format!("task.name={}", task.as_str()),
                    format!("model.name={}", usual_model(task)),
                    format!("model.memory={}", memory.as_str()),
                ];
                let parsed = Experiment::parse("", "test", &overrides);
                // A family without memories does not look at the key.
                let memories = task.family().memories();
                let actions = with_actions.contains(&task.as_str()) || !memory.needs_actions();
                assert_eq!(
                    parsed.is_ok(),
                    memories.is_empty() || memories.contains(memory) && actions,
                    "{overrides:?}"
                );
            }
        }
        let message = problem(&["task.name=copy", "model.memory=vrnn"]);
        assert!(message.starts_with("model.memory is 'vrnn'"), "{message}");
        assert!(message.contains("lstm, ntm, lru, dnc"), "{message}");
        let message = problem(&["task.name=perfect-recall", "model.memory=spatial"]);
        assert!(
            message.contains("memory spatial needs actions"),
            "{message}"
        );
        for setting in ["task.name=perfect-recall", "task.name=jsb-chorales"] {
            let message = problem(&[setting, "model.memory=lstm"]);
            assert!(message.contains("hybrid, ntm, lru, dnc, rmc"), "{message}");
        }
        let message = problem(&["task.name=mnist-map", "model.memory=lstm"]);
        assert!(message.contains("hybrid, spatial, ntm"), "{message}");
    }

    #[test]
    fn toml_round_trip_is_complete() {
        for task in TaskName::all() {
            let mut overrides = vec![
                format!("task.name={}", task.as_str()),
                format!("model.name={}", usual_model(task)),
            ];
            if let Some(memory) = task.family().memories().first() {
                overrides.push(format!("model.memory={}", memory.as_str()));
            }
            let experiment = Experiment::parse("", "test", &overrides).unwrap();
            let text = experiment.to_toml().unwrap();
            let again = Experiment::parse(&text, "test", &[]).unwrap();
            assert_eq!(again, experiment);
            let complete = experiment.to_complete_toml().unwrap();
            let again = Experiment::parse(&complete, "test", &[]).unwrap();
            assert_eq!(again, experiment);
            assert!(text.len() < complete.len());
        }
    }

    /// Only the keys that a task reads are written.
    #[test]
    fn a_written_experiment_holds_the_keys_of_its_task() {
        let overrides = ["task.name=copy", "model.memory=dnc"].map(str::to_owned);
        let text = Experiment::parse("", "test", &overrides).unwrap();
        let text = text.to_toml().unwrap();
        for there in ["[task]", "bits", "[memory.dnc]", "steps"] {
            assert!(text.contains(there), "{there}: {text}");
        }
        for away in [
            "memory.ntm",
            "network",
            "vectors",
            "language",
            "visual",
            "fingerprint",
        ] {
            assert!(!text.contains(away), "{away}: {text}");
        }
    }

    #[test]
    fn misspelt_keys_name_the_nearest() {
        assert!(problem(&["training.step=3"]).contains("'training.steps'"));
        assert!(problem(&["trainig.batch=3"]).contains("'training.batch'"));
        assert!(problem(&["batch=3"]).contains("batch'"));
        assert!(
            Experiment::parse("[training]\nlearningrate = 1", "x.toml", &[])
                .unwrap_err()
                .to_string()
                .starts_with("x.toml: unknown key 'training.learningrate', did you mean 'training.learning_rate'?")
        );
    }

    #[test]
    fn settings_of_the_rmc_are_checked() {
        let zero = |field| problem(&[&format!("memory.rmc.{field}=0")]);
        for field in ["slots", "heads", "head_size", "blocks", "mlp_layers"] {
            let expected = format!("memory.rmc.{field} is 0, it must be at least 1");
            assert!(zero(field).contains(&expected), "{}", zero(field));
        }
        assert!(problem(&["memory.rmc.heads=-2"]).contains("at least 0"));
        assert!(problem(&["memory.rmc.slots=99999999"]).contains("at most"));
        let message = problem(&["memory.rmc.gates=row"]);
        assert!(message.contains("one of unit, memory, none"), "{message}");
        assert!(problem(&["memory.rmc.output_gate=1"]).contains("true or false"));
        let both = [
            "model.memory=rmc",
            "memory.rmc.gates=none",
            "memory.rmc.output_gate=true",
        ];
        assert!(problem(&both).contains("memory.rmc.output_gate is true"));
        let none = ["model.memory=rmc", "memory.rmc.input_bias=nan"];
        assert!(
            problem(&none).contains("memory.rmc.input_bias is NaN, it must be a finite number")
        );

        let overrides = [
            "model.memory=rmc",
            "memory.rmc.gates=memory",
            "memory.rmc.key_size=5",
            "memory.rmc.output_gate=true",
            "memory.rmc.forget_bias=3",
        ];
        let overrides = overrides.map(str::to_owned);
        let experiment = Experiment::parse("", "test", &overrides).unwrap();
        let rmc = experiment.memory.rmc.fit(11, 3).unwrap();
        let expected = RmcConfig {
            key_size: 5,
            gates: GateStyle::Memory,
            output_gate: true,
            forget_bias: 3.0,
            ..RmcConfig::new(11, 4, 4, 32)
        };
        assert_eq!(rmc, expected);
        let default = Experiment::parse("", "test", &overrides[..1]).unwrap();
        let default = default.memory.rmc.fit(11, 3).unwrap();
        assert_eq!(default, RmcConfig::new(11, 4, 4, 32));
    }

    #[test]
    fn wrong_types_and_ranges_are_refused() {
        assert!(problem(&["training.steps=many"]).contains("whole number"));
        assert!(problem(&["training.steps=1.5"]).contains("whole number"));
        assert!(problem(&["training.batch=0"]).contains("at least 1"));
        assert!(problem(&["training.batch=-1"]).contains("at least 0"));
        assert!(problem(&["training.learning_rate=-0.1"]).contains("positive"));
        assert!(problem(&["training.segment=11"]).contains("a sequence has 11 steps"));
        let copy = ["task.name=copy", "model.memory=lstm", "training.segment=5"];
        assert!(problem(&copy).contains("must be 0 for the task copy"));
        let farthest = |setting| problem(&["task.name=nth-farthest", "model.memory=rmc", setting]);
        assert!(farthest("training.segment=5").contains("must be 0 for the task nth-farthest"));
        assert!(
            farthest("filtering.strategy=gradient").contains("direct for the task nth-farthest")
        );
        assert!(farthest("task.vectors=0").contains("task.vectors is 0"));
        assert!(farthest("task.dimensions=0").contains("task.dimensions is 0"));
        assert!(farthest("task.admit_at=1").contains("between 0 and 1"));
        assert!(farthest("task.curriculum=1").contains("true or false"));
        assert!(farthest("model.head_hidden=0").contains("model.head_hidden is 0"));
        assert!(problem(&["training.learning_rate=nan"]).contains("positive"));
        assert!(
            problem(&["model.memory=dns"])
                .contains("one of vrnn, introspection, hybrid, spatial, lstm, ntm, lru, dnc")
        );
        assert!(problem(&["training"]).contains("key=value"));
        assert!(problem(&["training=3"]).contains("is a table"));
        assert!(problem(&["training.steps.more=3"]).contains("unknown key"));
    }
}
