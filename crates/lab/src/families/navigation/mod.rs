//! Navigation: a model with a spatial memory walks through a world, memorises what it sees, and foresees what it will
//! see (Fraccaro et al. 2018, gtm-sm). Temporal VAEs without places learn the same walks.
//!
//! | file | contents |
//! | --- | --- |
//! | `settings.rs` | the table `[navigation]` of an experiment |
//! | `world.rs`, `walks.rs` | what is walked through; a batch on a device |
//! | `learner.rs`, `stages.rs` | the learner of GTM-SM, and the stages of its training |
//! | `temporal.rs` | the learner of temporal VAEs |
//! | `evaluate.rs`, `places.rs`, `errors.rs`, `fit.rs` | what is foreseen; how well places and frames are known |
//! | `quantities.rs` | the numbers that are measured |
//! | `figures.rs`, `maps.rs` | the pictures of a run |
//! | `imagination.rs`, `walker.rs`, `labyrinth_walker.rs` | walking on in a remembered picture or room |

mod errors;
mod evaluate;
mod figures;
mod fit;
mod imagination;
mod labyrinth_walker;
mod learner;
mod maps;
mod places;
mod quantities;
mod settings;
mod stages;
mod temporal;
mod walker;
mod walks;
mod world;

pub use settings::{NavigationSettings, StageSettings};

use crate::{
    Experiment, LabError, LikelihoodName, MemoryName,
    curves::{Curves, bound_chart, kl_per_step_chart, last_kl_chart},
    experiment::{
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Gallery},
        shipped::{Shipped, presets},
    },
    families::own::Own,
};
use burn::tensor::Device;
use learner::Navigator;
use mnemora_figures::chart::Chart;
use mnemora_models::{ModelName, Start};
use mnemora_training::{Quantity, memory_use::Planned};
use mnemora_worlds::{
    IMAGE_ACTIONS, Pictures, WallActions,
    labyrinth::{ACTIONS, LabyrinthTask},
};
use quantities::QUANTITIES;
use std::{path::Path, sync::Arc};
use temporal::TemporalLearner;
use toml::Table;
use world::World;

/// The family.
pub struct Navigating;

/// Its settings.
static OWN: Own<NavigationSettings> = Own::new("navigation");

impl Family for Navigating {
    fn name(&self) -> &'static str {
        "navigation"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        vec![
            TaskEntry::new(
                IMAGES,
                "walk over a picture, memorise it, and foresee it (gtm-sm, section 4.1)",
            ),
            TaskEntry::new(
                "rotation",
                "turn on the spot in a room, seen by a ray caster (gtm-sm, section 4.2.1)",
            ),
            TaskEntry::new(
                "walking",
                "walk through a room, seen by a ray caster (gtm-sm, section 4.2.2)",
            ),
            TaskEntry::new("rooms", "walk through several rooms (gtm-sm, appendix C)"),
            TaskEntry::new(
                "accelerating-rotation",
                "turn on the spot from rest, two turns (gtmm, section 5.7)",
            ),
        ]
    }

    fn presets(&self) -> &'static [Shipped] {
        presets![
            "image-navigation-small",
            "image-navigation",
            "obstacles",
            "rotation",
            "walking",
            "rooms",
            "accelerating-rotation-small",
            "accelerating-rotation"
        ]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn extras(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "best_by_block",
                "error of the mean of the component of largest weight, decoded, by 32 steps",
            ),
            (
                "sampled_by_block",
                "error of a decoded sample of the prior, by 32 steps",
            ),
            (
                "own_by_block",
                "error of frames that the VAE sees, decoded again, by 32 steps",
            ),
            (
                "oracle_by_block",
                "error of the VAE's frame of the place seen that is truly nearest, by 32 steps",
            ),
            (
                "kl_per_step",
                "KL of each step in nats, of a model without places that sees the frames",
            ),
            (
                "copied_by_block",
                "error of the last memorised frame, by 32 steps",
            ),
            (
                "average_by_block",
                "error of the mean of all memorised frames, by 32 steps",
            ),
        ]
    }

    fn models(&self) -> &'static [ModelName] {
        &[ModelName::GtmSm, ModelName::Gtmm]
    }

    fn memories(&self) -> &'static [MemoryName] {
        MemoryName::OF_LATENTS
    }

    fn has_latents(&self) -> bool {
        true
    }

    /// The actions, for models without places; none if there is only one (gtmm, section 5.7).
    fn conditions(&self, experiment: &Experiment) -> usize {
        match LabyrinthTask::named(experiment.task.name.as_str()) {
            Some(LabyrinthTask::AcceleratingRotation) => 0,
            Some(_) => ACTIONS.len(),
            None => IMAGE_ACTIONS.len(),
        }
    }

    fn has_data(&self, experiment: &Experiment) -> bool {
        is_over_pictures(experiment)
    }

    fn own_settings(&self) -> Option<(&'static str, Table)> {
        OWN.table()
    }

    fn own_schema(&self) -> Option<serde_json::Value> {
        Some(OWN.schema())
    }

    fn models_of(&self, key: &str) -> &'static [ModelName] {
        const OF_PLACES: [&str; 4] = [
            "navigation.model.",
            "navigation.stages.",
            "navigation.regression",
            "navigation.faster",
        ];
        let of_places = OF_PLACES.iter().any(|start| key.starts_with(start));
        match of_places {
            true => &[ModelName::GtmSm],
            false => &[],
        }
    }

    /// The settings of pictures are read by walks over them alone, those of rooms by all other walks.
    fn tasks_of(&self, key: &str) -> Vec<&'static str> {
        let of_pictures = key.starts_with("navigation.image.");
        if !of_pictures && !key.starts_with("navigation.labyrinth.") {
            return Vec::new();
        }
        let tasks = self.tasks().into_iter().map(|task| task.name);
        tasks
            .filter(|task| (*task == IMAGES) == of_pictures)
            .collect()
    }

    fn check(&self, experiment: &Experiment) -> Result<(), String> {
        let settings: NavigationSettings = experiment
            .own_settings()
            .map_err(|error| error.to_string())?;
        settings.check()?;
        let task = experiment.task.name.as_str();
        match experiment.model.name {
            ModelName::Gtmm => {}
            _ if task == LabyrinthTask::AcceleratingRotation.name() => {
                return Err(format!(
                    "model.name is '{}', for the task {task} it must be gtmm: it is about memories without places",
                    experiment.model.name.as_str()
                ));
            }
            _ => return settings.check_places(),
        }
        if experiment.model.likelihood == LikelihoodName::Normal {
            return Err(format!(
                "model.likelihood is 'normal', for the task {task} it must be bernoulli or gaussian"
            ));
        }
        let particles = experiment.evaluation.particles;
        if particles > 0 {
            return Err(format!(
                "evaluation.particles is {particles}, it must be 0 for walks"
            ));
        }
        Ok(())
    }

    fn time(&self, experiment: &Experiment) -> usize {
        let settings = OWN.of(experiment);
        settings.memorise + settings.predict.max(settings.foresee)
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        let settings = OWN.of(experiment);
        format!(
            "navigation.memorise {} and navigation.foresee {}",
            settings.memorise,
            settings.predict.max(settings.foresee)
        )
    }

    fn words(&self, experiment: &Experiment) -> String {
        let settings = OWN.of(experiment);
        format!(
            "{}, {} steps memorised and {} foreseen",
            experiment.task.name.as_str(),
            settings.memorise,
            settings.foresee
        )
    }

    /// Names what makes the task another one: walls, obstacles, the first `A`, other pictures.
    fn setting(&self, experiment: &Experiment) -> String {
        let settings = OWN.of(experiment);
        let mut words = vec![experiment.name.clone()];
        if is_over_pictures(experiment) {
            match settings.image.walls {
                WallActions::Attempted => {}
                WallActions::None => words.push("no walls".into()),
            }
            match settings.image.obstacles {
                0 => {}
                count => words.push(format!("{count} obstacles")),
            }
            let folder = Path::new(&experiment.data.directory).file_name();
            words.extend(folder.map(|name| name.to_string_lossy().into_owned()));
        }
        if experiment.model.name == ModelName::GtmSm && settings.model.landmarks > 0 {
            words.push("landmarks".into());
        }
        if experiment.model.name == ModelName::GtmSm
            && settings.model.transition.start == Start::Random
        {
            words.push("A random at first".into());
        }
        words.join(", ")
    }

    fn numbers(&self, experiment: &Experiment) -> usize {
        let NavigationSettings {
            image, labyrinth, ..
        } = OWN.of(experiment);
        match is_over_pictures(experiment) {
            true => 3 * image.crop * image.crop,
            false => 3 * labyrinth.view.width * labyrinth.view.height,
        }
    }

    fn lengthen(&self, experiment: &mut Experiment, steps: usize) {
        if let Some(table) = experiment.own.get_mut("navigation") {
            table.insert("foresee".into(), (steps as i64).into());
        }
    }

    fn find(
        &'static self,
        experiment: &mut Experiment,
        data: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        let pictures = match is_over_pictures(experiment) {
            true => Some(world::find_pictures(experiment, data)?),
            false => None,
        };
        Ok(Box::new(FoundWorld { pictures }))
    }

    fn compared(&self, _: &Experiment, curves: &Curves) -> Vec<Chart> {
        vec![
            figures::place_chart(curves.held_out("place_r2")),
            kl_per_step_chart(curves.per_step("kl_per_step"), None),
            last_kl_chart(curves.training("kl_last")),
            bound_chart("nats per foreseen frame", curves.held_out("bound")),
        ]
    }
}

/// The task over pictures; all others are of the labyrinth.
const IMAGES: &str = "image-navigation";

fn is_over_pictures(experiment: &Experiment) -> bool {
    experiment.task.name.as_str() == IMAGES
}

struct FoundWorld {
    /// For walks over pictures.
    pictures: Option<Arc<Pictures>>,
}

impl FoundWorld {
    fn world(&self, experiment: &Experiment) -> Result<(NavigationSettings, World), LabError> {
        let settings: NavigationSettings = experiment.own_settings()?;
        let name = experiment.task.name.as_str();
        let world = match (&self.pictures, LabyrinthTask::named(name)) {
            (Some(pictures), _) => World::of_pictures(&settings, pictures.clone())?,
            (None, Some(task)) => World::of_labyrinth(&settings, task)?,
            (None, None) => {
                let problem = format!("the task {name} has no world");
                return Err(LabError::Configuration(problem));
            }
        };
        Ok((settings, world))
    }
}

impl Found for FoundWorld {
    fn words(&self) -> String {
        match &self.pictures {
            Some(pictures) => format!("pictures: {}", pictures.origin()),
            None => "rooms made on the fly".into(),
        }
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        let (_, world) = self.world(experiment)?;
        match experiment.model.name {
            ModelName::Gtmm => temporal::planned(experiment, &world),
            _ => learner::planned(experiment, &world),
        }
    }

    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError> {
        let (settings, world) = self.world(experiment)?;
        figures::training_picture(experiment, &settings, &world)
    }

    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError> {
        let (_, world) = self.world(experiment)?;
        let world = Arc::new(world);
        Ok(match experiment.model.name {
            ModelName::Gtmm => Box::new(TemporalLearner::new(experiment, world, device)?),
            _ => Box::new(Navigator::new(experiment, world, device)?),
        })
    }
}
