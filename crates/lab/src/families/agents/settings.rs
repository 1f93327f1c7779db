//! The table `[agents]` of an experiment.

use crate::experiment::keys::flatten;
use mnemora_models::{AgentConfig, Costs, Objective};
use mnemora_worlds::{ENVIRONMENTS, Environment, EnvironmentKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Table;

/// What the policy learns from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveName {
    /// The policy gradient with V-trace.
    VTrace,
    /// PPO's clipped objective with generalised advantages.
    Ppo,
}

/// Whether an agent acts and learns in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The agent acts and learns in turn; an interrupted run resumes bit for bit.
    Synchronous,
    /// Actors on threads of their own act while the agent learns: faster with many cores, and no two runs are equal.
    Asynchronous,
}

/// How an agent acts and learns, its sizes, and the settings of its environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// Steps of an unroll. Each of the `training.batch` environments makes this many steps before an update.
    pub unroll: usize,
    /// `synchronous`, it acts and learns in turn and resumes bit for bit; or `asynchronous`, with actors on threads.
    pub mode: Mode,
    /// Actors of `asynchronous`, a thread each, with `training.batch` environments of its own.
    pub actors: usize,
    /// Updates from each unroll.
    pub passes: u64,
    /// What the policy learns from.
    pub objective: ObjectiveName,
    /// PPO: the largest difference of the ratio of the policies' probabilities from 1 that is rewarded.
    pub clip: f64,
    /// PPO: the decay of the generalised advantage estimate (GAE).
    pub lambda: f64,
    /// The discount of a step. A step that ends an episode has none, whether the episode came to its end or ran out of time.
    pub discount: f64,
    /// Weights of the values and of the entropy.
    pub costs: Costs,
    /// Torso and heads.
    pub model: AgentConfig,
    /// The settings of each environment; `task.name` chooses one.
    #[schemars(skip)]
    pub environment: BTreeMap<String, Table>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        let tables = ENVIRONMENTS.iter().filter_map(|kind| {
            let table = Table::try_from((kind.defaults)()).ok()?;
            Some((kind.name.to_owned(), table))
        });
        Self {
            unroll: 40,
            mode: Mode::Synchronous,
            actors: 2,
            passes: 1,
            objective: ObjectiveName::VTrace,
            clip: 0.2,
            lambda: 0.95,
            discount: 0.99,
            costs: Costs::default(),
            model: AgentConfig::default(),
            environment: tables.collect(),
        }
    }
}

/// The most steps of an unroll, and updates from it.
const MOST: usize = 10_000;
/// The most actors.
const MOST_ACTORS: usize = 1_000;

impl AgentSettings {
    /// Checks ranges, and that the environment can be built. The error names the key.
    pub fn check(&self, task: &str) -> Result<(), String> {
        for (key, value) in [("unroll", self.unroll as u64), ("passes", self.passes)] {
            if !(1..=MOST as u64).contains(&value) {
                return Err(format!(
                    "agents.{key} is {value}, it must be from 1 to {MOST}"
                ));
            }
        }
        if !(1..=MOST_ACTORS).contains(&self.actors) {
            return Err(format!(
                "agents.actors is {}, it must be from 1 to {MOST_ACTORS}",
                self.actors
            ));
        }
        let (clip, lambda, discount) = (self.clip, self.lambda, self.discount);
        for (key, value, inside, range) in [
            (
                "clip",
                clip,
                clip > 0.0 && clip < 1.0,
                "above 0 and below 1",
            ),
            (
                "lambda",
                lambda,
                (0.0..=1.0).contains(&lambda),
                "from 0 to 1",
            ),
            (
                "discount",
                discount,
                discount > 0.0 && discount <= 1.0,
                "above 0 and at most 1",
            ),
        ] {
            if !inside {
                return Err(format!("agents.{key} is {value}, it must be {range}"));
            }
        }
        for (key, value) in [("value", self.costs.value), ("entropy", self.costs.entropy)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!(
                    "agents.costs.{key} is {value}, it must be a number of at least 0"
                ));
            }
        }
        self.environment(task).map(|_| ())
    }

    /// Unrolls in memory at once: the one being learned from, and two for each actor, one being made and one in the queue.
    pub fn waiting(&self) -> usize {
        match self.mode {
            Mode::Synchronous => 1,
            Mode::Asynchronous => 1 + 2 * self.actors,
        }
    }

    /// What the policy learns from, with its numbers.
    pub fn objective(&self) -> Objective {
        match self.objective {
            ObjectiveName::VTrace => Objective::VTrace,
            ObjectiveName::Ppo => Objective::Ppo {
                clip: self.clip,
                lambda: self.lambda,
            },
        }
    }

    /// An environment of a task.
    ///
    /// # Errors
    /// A setting does not fit. The text names the key.
    pub fn environment(&self, task: &str) -> Result<Box<dyn Environment>, String> {
        let kind = EnvironmentKind::named(task)
            .ok_or_else(|| format!("there is no environment {task}"))?;
        let settings = self.environment.get(task).cloned().unwrap_or_default();
        // JSON has no such numbers.
        let mut values = Vec::new();
        flatten(
            &settings,
            &format!("agents.environment.{task}"),
            &mut values,
        );
        for (key, value) in values {
            if let Some(value) = value.as_float().filter(|value| !value.is_finite()) {
                return Err(format!("{key} is {value}, it must be a finite number"));
            }
        }
        let settings = serde_json::to_value(settings).map_err(|error| error.to_string())?;
        (kind.build)(&settings).map_err(|error| with_keys(&error, task))
    }
}

/// An error of an environment, with the keys that an experiment has for its settings.
pub fn with_keys(error: &mnemora_worlds::Error, task: &str) -> String {
    let key = format!("agents.environment.{task}.");
    error.to_string().replace("environment.", &key)
}
