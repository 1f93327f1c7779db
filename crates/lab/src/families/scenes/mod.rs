//! Scenes: a model sees a few views of a scene and answers what it looks like from others (Kumar et al. 2018, cgqn).
//!
//! | file | contents |
//! | --- | --- |
//! | `settings.rs` | the table `[scenes]` of an experiment |
//! | `world.rs` | the list of worlds |
//! | `batch.rs` | batches on a device |
//! | `learner.rs` | the learner |
//! | `evaluate.rs`, `quantities.rs` | what is measured |
//! | `samples.rs`, `coherence.rs`, `stories.rs` | of samples: errors, what is read off them, how they continue stories |
//! | `query.rs`, `answers.rs` | questions about one scene, and answers to them |
//! | `figures.rs` | the pictures of a run |

mod answers;
mod batch;
mod coherence;
mod evaluate;
mod figures;
mod learner;
mod quantities;
mod query;
mod samples;
mod settings;
mod stories;
mod world;

pub use settings::SceneSettings;

use crate::{
    Experiment, LabError, MemoryName,
    curves::{Curves, bound_chart},
    experiment::{
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Gallery},
        shipped::{Shipped, presets},
    },
    families::own::Own,
};
use burn::tensor::Device;
use learner::SceneLearner;
use mnemora_figures::chart::Chart;
use mnemora_models::ModelName;
use mnemora_training::{Quantity, memory_use::Planned};
use mnemora_worlds::scenes::Views;
use quantities::QUANTITIES;
use std::{path::Path, sync::Arc};
use toml::Table;
use world::{WORLDS, World, find_views, is_read};

/// The family.
pub struct AskedScenes;

/// Its settings.
static OWN: Own<SceneSettings> = Own::new("scenes");

impl Family for AskedScenes {
    fn name(&self) -> &'static str {
        "scenes"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        let entries = WORLDS.iter();
        entries
            .map(|world| TaskEntry {
                needs_data: world.needs_data,
                ..TaskEntry::new(world.name, world.about)
            })
            .collect()
    }

    fn presets(&self) -> &'static [Shipped] {
        presets![
            "patterns",
            "prism",
            "mnist-dice-small",
            "mnist-dice",
            "colour-reaction-small",
            "colour-reaction",
            "travelling-salesman-small",
            "travelling-salesman",
            "dag-chase",
            "own-views-small",
            "gqn-rooms"
        ]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn measured_by(&self) -> &'static [&'static str] {
        &["scenes.test_variance", "scenes.samples"]
    }

    fn models(&self) -> &'static [ModelName] {
        ModelName::OF_SCENES
    }

    fn memories(&self) -> &'static [MemoryName] {
        &[]
    }

    fn has_data(&self, experiment: &Experiment) -> bool {
        is_read(experiment)
    }

    fn own_settings(&self) -> Option<(&'static str, Table)> {
        OWN.table()
    }

    fn own_schema(&self) -> Option<serde_json::Value> {
        Some(OWN.schema())
    }

    fn models_of(&self, key: &str) -> &'static [ModelName] {
        const OF_VIEWS: [&str; 6] = [
            "anywhere",
            "context_least",
            "hiding",
            "revealing",
            "targets",
            "targets_least",
        ];
        let key = key.strip_prefix("scenes.").unwrap_or(key);
        match key.split_once('.') {
            Some(("model", "posterior_targets" | "posterior_least")) => &[ModelName::Cgqn],
            Some(("model", "posterior_relative")) => &[ModelName::Cgqn, ModelName::Gqn],
            Some(("model", _)) => &[ModelName::Cgqn, ModelName::Gqn, ModelName::Deterministic],
            Some(("gqn", _)) => &[ModelName::GqnOriginal],
            Some(("sssm", _)) => &[ModelName::Sssm],
            Some(("sv2p", _)) => &[ModelName::Sv2p],
            Some(("cdna", _)) => &[ModelName::Cdna],
            _ if OF_VIEWS.contains(&key) => &[
                ModelName::Cgqn,
                ModelName::Gqn,
                ModelName::Deterministic,
                ModelName::GqnOriginal,
            ],
            _ => &[],
        }
    }

    fn tasks_of(&self, key: &str) -> Vec<&'static str> {
        match key.strip_prefix("scenes.").unwrap_or(key) {
            "patterns" => vec!["patterns"],
            "views" => vec!["prism", "mnist-dice"],
            "still" | "images" => vec!["mnist-dice"],
            "anywhere" => vec!["colour-reaction", "travelling-salesman", "dag-chase"],
            _ => Vec::new(),
        }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), String> {
        let settings: SceneSettings = experiment
            .own_settings()
            .map_err(|error| error.to_string())?;
        let particles = experiment.evaluation.particles;
        if particles > 0 {
            return Err(format!(
                "evaluation.particles is {particles}, it must be 0 for scenes"
            ));
        }
        settings.check()?;
        let (model, targets) = (&settings.model, settings.targets);
        if experiment.model.name == ModelName::Cgqn && model.posterior_least > targets {
            return Err(format!(
                "scenes.model.posterior_least is {}, it must be at most {targets}, as scenes.targets is",
                model.posterior_least
            ));
        }
        Ok(())
    }

    fn time(&self, experiment: &Experiment) -> usize {
        let settings = OWN.of(experiment);
        if experiment.model.name.needs_stories()
            && let Ok(world) = World::new(experiment, &settings, None)
        {
            return world.scenes.moments();
        }
        settings.context_most + settings.targets
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        if experiment.model.name.needs_stories() {
            return format!("the stories of {}", experiment.task.name.as_str());
        }
        let settings = OWN.of(experiment);
        format!(
            "scenes.context_most {} and scenes.targets {}",
            settings.context_most, settings.targets
        )
    }

    fn words(&self, experiment: &Experiment) -> String {
        let settings = OWN.of(experiment);
        if experiment.model.name.needs_stories() {
            return format!(
                "{}, the first {} frames seen and all others asked for",
                experiment.task.name.as_str(),
                settings.context_most
            );
        }
        format!(
            "{}, {} to {} views seen and {} asked for",
            experiment.task.name.as_str(),
            settings.context_least,
            settings.context_most,
            settings.targets
        )
    }

    /// Names the folder of pictures that were read, and what is seen and asked for otherwise than in the experiment that comes
    /// under this name, as far as the model reads it.
    fn setting(&self, experiment: &Experiment) -> String {
        let folder = Path::new(&experiment.data.directory).file_name();
        let folder = folder.filter(|_| is_read(experiment));
        let folder = folder.map(|folder| format!(", {}", folder.to_string_lossy()));
        let of_scenes = |key: &str| {
            const SEEN: [&str; 13] = [
                "scenes.size",
                "scenes.anywhere",
                "scenes.context_least",
                "scenes.context_most",
                "scenes.targets_least",
                "scenes.targets",
                "scenes.hiding",
                "scenes.revealing",
                "scenes.views",
                "scenes.still",
                "scenes.images",
                "scenes.patterns",
                "scenes.test_variance",
            ];
            let (tasks, models) = (self.tasks_of(key), self.models_of(key));
            let reads = (tasks.is_empty() || tasks.contains(&experiment.task.name.as_str()))
                && (models.is_empty() || models.contains(&experiment.model.name));
            SEEN.contains(&key) && reads
        };
        let changes = experiment.changes(of_scenes);
        format!("{}{}{changes}", experiment.name, folder.unwrap_or_default())
    }

    fn numbers(&self, experiment: &Experiment) -> usize {
        let size = OWN.of(experiment).size;
        3 * size * size
    }

    fn lengthen(&self, experiment: &mut Experiment, steps: usize) {
        if let Some(table) = experiment.own.get_mut("scenes") {
            table.insert("targets_least".into(), 0.into());
            table.insert("targets".into(), (steps as i64).into());
        }
    }

    fn find(
        &'static self,
        experiment: &mut Experiment,
        data: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        let views = find_views(experiment, data)?;
        Ok(Box::new(FoundScenes { views }))
    }

    fn compared(&self, _: &Experiment, curves: &Curves) -> Vec<Chart> {
        vec![
            bound_chart("nats per scene", curves.held_out("bound")),
            figures::share_chart("Samples coherent", curves.held_out("alike")),
        ]
    }
}

struct FoundScenes {
    /// Pictures that were read; none if scenes are made.
    views: Option<Arc<Views>>,
}

impl FoundScenes {
    fn world(&self, experiment: &Experiment) -> Result<World, LabError> {
        let settings: SceneSettings = experiment.own_settings()?;
        World::new(experiment, &settings, self.views.as_ref())
    }
}

impl Found for FoundScenes {
    fn words(&self) -> String {
        match &self.views {
            Some(views) => views.to_string(),
            None => "scenes made on the fly".into(),
        }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), LabError> {
        self.world(experiment).map(|_| ())
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        learner::planned(experiment, &self.world(experiment)?)
    }

    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError> {
        figures::training_picture(experiment, &self.world(experiment)?)
    }

    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError> {
        let world = Arc::new(self.world(experiment)?);
        Ok(Box::new(SceneLearner::new(experiment, world, device)?))
    }
}
