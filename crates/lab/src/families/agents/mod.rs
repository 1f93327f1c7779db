//! Agents: a torso, a memory and two heads learn to act in environments (Santoro et al. 2018, rmc, section 4.2).
//!
//! | file | contents |
//! | --- | --- |
//! | `settings.rs` | the table `[agents]` of an experiment |
//! | `environments.rs` | the environments of an experiment |
//! | `actor.rs`, `unroll.rs` | many environments, one policy; what happened in them |
//! | `fleet.rs` | actors on threads of their own |
//! | `learner.rs`, `recent.rs` | the learner; the last episodes of a training |
//! | `random_frames.rs` | what its input is standardised by |
//! | `evaluate.rs`, `quantities.rs` | what is measured |
//! | `figures.rs` | the pictures of a run |
//! | `play.rs` | episodes step by step, by a person or by an agent |

mod actor;
mod environments;
mod evaluate;
mod figures;
mod fleet;
mod learner;
mod play;
mod quantities;
mod random_frames;
mod recent;
mod settings;
mod unroll;

pub use actor::{Actor, Acts, Choice};
pub use learner::AgentLearner;
pub use play::Game;
pub use settings::{AgentSettings, Mode, ObjectiveName};
pub use unroll::Unroll;

use crate::{
    Experiment, LabError, MemoryName,
    curves::Curves,
    experiment::{
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Gallery},
        shipped::{Shipped, presets},
        validate::check_sizes,
    },
    families::own::Own,
};
use burn::tensor::Device;
use mnemora_figures::chart::Chart;
use mnemora_models::AgentConfig;
use mnemora_training::{Quantity, memory_use::Planned, run::EXPERIMENT_FILE};
use mnemora_worlds::ENVIRONMENTS;
use quantities::QUANTITIES;
use std::path::Path;
use toml::Table;

/// The family.
pub struct Agents;

/// Its settings.
static OWN: Own<AgentSettings> = Own::new("agents");

/// What the keys of environments begin with; a task's name follows.
const ENVIRONMENT_KEYS: &str = "agents.environment.";

impl Family for Agents {
    fn name(&self) -> &'static str {
        "agents"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        let kinds = ENVIRONMENTS.iter();
        kinds
            .map(|kind| TaskEntry::new(kind.name, kind.about))
            .collect()
    }

    fn presets(&self) -> &'static [Shipped] {
        presets![
            "t-maze-small",
            "repeat-previous-small",
            "boxworld-small",
            "boxworld-viewport",
            "mini-pacman-small",
            "mini-pacman-full-small",
            "mini-pacman-viewport",
            "mini-pacman"
        ]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn extras(&self) -> &'static [(&'static str, &'static str)] {
        &[("outcome_name", "what the environment counts")]
    }

    fn memories(&self) -> &'static [MemoryName] {
        MemoryName::OF_AGENTS
    }

    fn own_settings(&self) -> Option<(&'static str, Table)> {
        OWN.table()
    }

    fn own_schema(&self) -> Option<serde_json::Value> {
        let mut schema = OWN.schema();
        // Those of an environment bring their definitions along.
        let mut tables = serde_json::Map::new();
        for kind in ENVIRONMENTS {
            // A name may be that of another definition.
            let text = (kind.schema)().to_string();
            let text = text.replace("#/$defs/", &format!("#/$defs/{} ", kind.name));
            let mut own: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let definitions = own.as_object_mut().and_then(|own| own.remove("$defs"));
            if let (
                Some(serde_json::Value::Object(ours)),
                Some(serde_json::Value::Object(theirs)),
            ) = (schema.get_mut("$defs"), definitions)
            {
                let named = theirs.into_iter();
                ours.extend(named.map(|(name, of)| (format!("{} {name}", kind.name), of)));
            }
            tables.insert(kind.name.to_owned(), own);
        }
        schema["properties"]["environment"] = serde_json::json!({ "properties": tables });
        Some(schema)
    }

    /// `agents.environment.NAME.` is read by the task NAME alone.
    fn tasks_of(&self, key: &str) -> Vec<&'static str> {
        let Some(rest) = key.strip_prefix(ENVIRONMENT_KEYS) else {
            return Vec::new();
        };
        let names = ENVIRONMENTS.iter().map(|kind| kind.name);
        names
            .filter(|name| rest.starts_with(&format!("{name}.")))
            .collect()
    }

    fn unread(&self, experiment: &Experiment, key: &str) -> Option<&'static str> {
        let settings = OWN.of(experiment);
        let task = experiment.task.name.as_str();
        let is_row = || {
            let environment = settings.environment(task);
            environment.is_ok_and(|environment| environment.spec().frame.height == 1)
        };
        match key.strip_prefix("agents.")? {
            "clip" | "lambda" if settings.objective != ObjectiveName::Ppo => {
                Some("agents.objective=ppo")
            }
            // Where the policy that acted is the one that learns, their ratio is 1 in the first update from an unroll.
            "clip" => (settings.passes == 1 && settings.mode == Mode::Synchronous)
                .then_some("agents.passes above 1"),
            "actors" => (settings.mode != Mode::Asynchronous).then_some("agents.mode=asynchronous"),
            "model.pixels" if experiment.model.memory != MemoryName::Rmc => {
                Some("model.memory=rmc")
            }
            "model.pixels" => is_row().then_some("observations that are pictures"),
            "model.torso.units" => (!is_row()).then_some("observations of a single row"),
            key if key.starts_with("model.torso.") => {
                is_row().then_some("observations that are pictures")
            }
            _ => None,
        }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), String> {
        let settings: AgentSettings = experiment
            .own_settings()
            .map_err(|error| error.to_string())?;
        let particles = experiment.evaluation.particles;
        if particles > 0 {
            return Err(format!(
                "evaluation.particles is {particles}, it must be 0 for agents"
            ));
        }
        check_sizes("agents.model", &settings.model, &AgentConfig::default())?;
        settings.check(experiment.task.name.as_str())
    }

    fn time(&self, experiment: &Experiment) -> usize {
        OWN.of(experiment).unroll + 1
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        let unroll = OWN.of(experiment).unroll;
        format!("agents.unroll {unroll}, and the observation after it")
    }

    /// The state goes on from one unroll to the next.
    fn has_trained_length(&self) -> bool {
        false
    }

    fn words(&self, experiment: &Experiment) -> String {
        let settings = OWN.of(experiment);
        let (unroll, batch) = (settings.unroll, experiment.training.batch);
        let mut words = format!(
            "{}, unrolls of {unroll} steps in {batch} environments",
            experiment.task.name.as_str()
        );
        if settings.mode == Mode::Asynchronous {
            let actors = settings.actors;
            words += &format!(" of each of {actors} actors on threads");
        }
        words
    }

    /// Also shows what its environment has otherwise than that of the experiment that comes under this name.
    fn setting(&self, experiment: &Experiment) -> String {
        let of_environment = |key: &str| key.starts_with(ENVIRONMENT_KEYS);
        format!("{}{}", experiment.name, experiment.changes(of_environment))
    }

    /// How to try the agent in another environment.
    fn hint_of_change(&self, key: &str, run: &Path) -> Option<String> {
        key.starts_with(ENVIRONMENT_KEYS).then(|| {
            format!(
                "; to try the agent in another environment, make a run with its weights: mnemora train {} --weights {} \
                 --set training.steps=0 --set {key}=VALUE",
                run.join(EXPERIMENT_FILE).display(),
                run.display()
            )
        })
    }

    fn numbers(&self, experiment: &Experiment) -> usize {
        let settings = OWN.of(experiment);
        let environment = settings.environment(experiment.task.name.as_str());
        environment.map_or(1, |environment| environment.spec().frame.size())
    }

    fn find(
        &'static self,
        _: &mut Experiment,
        _: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        Ok(Box::new(Generated))
    }

    fn compared(&self, _: &Experiment, curves: &Curves) -> Vec<Chart> {
        let (unit, by_time) = curves.held_out_by_time("return");
        vec![
            figures::return_chart(curves.held_out("return")),
            figures::outcome_chart(curves.held_out("outcome")),
            figures::return_by_steps(curves.held_out_by("return", "frames")),
            figures::return_by_time(unit, by_time),
        ]
    }
}

struct Generated;

impl Found for Generated {
    fn words(&self) -> String {
        "episodes made on the fly".into()
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        learner::planned(experiment)
    }

    /// Episodes of an agent that acts at random.
    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError> {
        let device = mnemora_training::device::light_device()?;
        let learner = AgentLearner::new(experiment, &device)?;
        let (count, seed) = (experiment.evaluation.pictures, experiment.seed);
        learner.episodes(count, seed, None, Choice::Random)
    }

    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError> {
        Ok(Box::new(AgentLearner::new(experiment, device)?))
    }
}
