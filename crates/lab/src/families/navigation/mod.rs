//! Navigation: a model with a spatial memory walks through a world, memorises what it sees, and foresees what it will
//! see (Fraccaro et al. 2018, gtm-sm).

mod evaluate;
mod figures;
mod fit;
mod imagination;
mod labyrinth_walker;
mod learner;
mod maps;
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
        family::{Drawn, Family, Found, Gallery, TaskEntry},
        shipped::{Shipped, presets},
    },
};
use burn::tensor::Device;
use learner::Navigator;
use mnemora_figures::chart::Chart;
use mnemora_models::{ModelName, Start};
use mnemora_training::{
    Quantity,
    measures::{Better, Claim, Format},
    memory_use::Planned,
};
use mnemora_worlds::{
    IMAGE_ACTIONS, Pictures, WallActions,
    labyrinth::{ACTIONS, LabyrinthTask},
};
use std::{
    path::Path,
    sync::{Arc, LazyLock},
};
use temporal::TemporalLearner;
use toml::Table;
use world::World;

/// The family.
pub struct Navigating;

const MSE: &str = "mean squared error of a pixel";

/// Its measurements.
static QUANTITIES: [Quantity; 20] = [
    Quantity::new("bound", "bound", "nats per foreseen frame")
        .meaning("mean over {sequences} held-out walks, higher is better")
        .spread("bound_stderr", "walks")
        .better(Better::Higher)
        .column("bound", 1)
        .tracked()
        .finite()
        .progress("bound", Format::Digits)
        .checkpoint("bound", Format::Digits)
        .claims(&[Claim::new("bound", "nats per foreseen frame", 2)]),
    Quantity::new("kl", "KL", "nats per foreseen frame")
        .meaning("KL of what is seen from what was expected")
        .better(Better::Lower)
        .tracked()
        .finite()
        .progress("KL", Format::Digits)
        .claims(&[Claim::new("KL", "nats per foreseen frame", 2)]),
    Quantity::new("place_r2", "places known", "R²")
        .meaning(
            "share of the variance of the true place that an affine map of the model's place explains; a plateau near \
             0.5 means that both axes lie on one line",
        )
        .better(Better::Higher)
        .format(Format::Decimals(5))
        .column("R²", 5)
        .tracked()
        .checkpoint("R²", Format::Decimals(4))
        .claims(&[Claim::new("R² of the place", "share of variance", 5)]),
    Quantity::new("place_error", "place error, last 64 steps", "cells")
        .meaning("distance from the true place (for a rotation: radians), in the first 64 steps {place_error_first}")
        .better(Better::Lower)
        .column("place error", 4)
        .tracked()
        .claims(&[Claim::new("place error, last 64 steps", "cells", 4)]),
    Quantity::new("memorised_error", "place error, last memorised step", "cells")
        .meaning("the model saw all frames up to this step; with landmarks they correct its place")
        .better(Better::Lower)
        .tracked()
        .claims(&[Claim::new("place error, last memorised step", "cells", 4)]),
    Quantity::new("foreseen_error", "place error, last foreseen step", "cells")
        .meaning("after all steps from the actions alone")
        .better(Better::Lower)
        .claims(&[Claim::new("place error, last foreseen step", "cells", 4)]),
    Quantity::new("stop_recognised", "stops recognised", "% of stopped moves")
        .meaning("memorised steps whose move a wall or an obstacle stopped, and in which the model believed to move by less than half a cell")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .claims(&[Claim::new("stops recognised", "share of stopped moves", 4)]),
    Quantity::new("place_kl", "KL of places", "nats per foreseen frame")
        .meaning("of the place after the frame is seen from that of the transition; part of the bound with landmarks")
        .better(Better::Lower)
        .claims(&[Claim::new("KL of places", "nats per foreseen frame", 3)]),
    Quantity::new("turn", "turns", "per true turn")
        .meaning("of the model's heading; 1 if a whole turn leads back to the same place, 1/2 if only two do")
        .format(Format::Decimals(4))
        .tracked()
        .claims(&[Claim::new("turns of the model per true turn", "ratio", 4)]),
    Quantity::new("nearest_right", "nearest entry right", "% of steps to places seen")
        .meaning("the stored entry nearest to the model's place is of the true place; {seen%}% of the steps lead to places seen")
        .format(Format::Percent(2))
        .better(Better::Higher)
        .column("nearest", 4)
        .tracked()
        .checkpoint("nearest", Format::Percent(1))
        .claims(&[Claim::new("nearest entry right", "share of steps to places seen", 4)]),
    Quantity::new("best_seen", "foreseen, places seen", MSE)
        .meaning("the mean of the component of largest weight, decoded; the VAE itself has {own_seen}")
        .better(Better::Lower)
        .claims(&[Claim::new("error of the foreseen frame, places seen", "mse", 5)]),
    Quantity::new("best_ratio", "foreseen against the VAE", "ratio")
        .meaning("error of foreseen frames at places seen, divided by the VAE's own")
        .better(Better::Lower)
        .format(Format::Decimals(3))
        .column("/VAE", 3)
        .tracked()
        .claims(&[Claim::new("foreseen / VAE, places seen", "ratio", 3)]),
    Quantity::new("flatness", "last block against the first", "ratio")
        .meaning("error of foreseen frames at places seen in the last 32 steps, divided by that in the first 32")
        .better(Better::Lower)
        .format(Format::Decimals(3))
        .column("flat", 3)
        .tracked()
        .claims(&[Claim::new("error of the last block / of the first", "ratio", 3)]),
    Quantity::new("best", "foreseen", MSE)
        .meaning(
            "over all steps; with the VAE's frame of the place seen that is truly nearest {oracle}, with the last memorised \
             frame {copied}",
        )
        .better(Better::Lower)
        .column("foreseen", 5)
        .tracked()
        .claims(&[Claim::new("error of the foreseen frame", "mse", 5)]),
    Quantity::new("oracle_ratio", "foreseen against the oracle", "ratio")
        .meaning("error of foreseen frames divided by that of the VAE's frame of the place seen that is truly nearest")
        .better(Better::Lower)
        .format(Format::Decimals(3))
        .claims(&[Claim::new("foreseen / oracle", "ratio", 3)]),
    Quantity::new("sampled", "sampled", MSE)
        .meaning("a frame decoded from a sample of the prior; at places seen {sampled_seen}")
        .better(Better::Lower)
        .column("sampled", 5)
        .tracked()
        .claims(&[Claim::new("error of the sampled frame", "mse", 5)]),
    Quantity::new("sampled_ratio", "sampled against the mean of memory", "ratio")
        .meaning("error of sampled frames divided by that of the mean of all memorised frames, {average}")
        .better(Better::Lower)
        .format(Format::Decimals(3))
        .claims(&[Claim::new("sampled / mean of memory", "ratio", 3)]),
    Quantity::new("whole_bound", "bound of whole walks", "nats per walk")
        .meaning("for a model without places: reconstruction minus KL of all steps")
        .better(Better::Higher)
        .claims(&[Claim::new("bound of whole walks", "nats per walk", 1)]),
    Quantity::new("kl_last", "KL of the last frame", "nats")
        .meaning("for a model without places: near zero if memory predicts it")
        .format(Format::Decimals(2))
        .better(Better::Lower)
        .column("last KL", 2)
        .progress("last KL", Format::Decimals(2))
        .claims(&[Claim::new("KL of the last frame", "nats", 2)]),
    Quantity::new("own", "VAE itself", MSE)
        .meaning("frames that the VAE sees, decoded again")
        .better(Better::Lower)
        .claims(&[Claim::new("error of the VAE itself", "mse", 5)]),
];

impl Navigating {
    fn settings(experiment: &Experiment) -> NavigationSettings {
        experiment.own_settings().unwrap_or_default()
    }
}

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

    fn has_data(&self) -> bool {
        true
    }

    fn own_settings(&self) -> Option<(&'static str, Table)> {
        // It is asked for with each key of an experiment.
        static TABLE: LazyLock<Option<Table>> =
            LazyLock::new(|| Table::try_from(NavigationSettings::default()).ok());
        Some(("navigation", TABLE.clone()?))
    }

    fn model_of(&self, key: &str) -> Option<ModelName> {
        const OF_PLACES: [&str; 4] = [
            "navigation.model.",
            "navigation.stages.",
            "navigation.regression",
            "navigation.faster",
        ];
        let of_places = OF_PLACES.iter().any(|start| key.starts_with(start));
        of_places.then_some(ModelName::GtmSm)
    }

    fn choices(&self, key: &str) -> Option<Vec<&'static str>> {
        match key.strip_prefix("navigation.")? {
            "image.walls" => Some(vec!["attempted", "none"]),
            "image.start" => Some(vec!["middle", "anywhere"]),
            "model.visual" => Some(vec!["dense", "pathways"]),
            "model.prior" => Some(vec!["mixture", "mlp"]),
            "model.transition.kind" => Some(vec!["linear", "walls", "rotation", "momentum"]),
            "model.transition.start" => Some(vec!["random", "opposites"]),
            _ => None,
        }
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
        for (key, value) in [
            ("evaluation.particles", experiment.evaluation.particles),
            ("training.segment", experiment.training.segment),
        ] {
            if value > 0 {
                return Err(format!("{key} is {value}, it must be 0 for walks"));
            }
        }
        Ok(())
    }

    fn time(&self, experiment: &Experiment) -> usize {
        let settings = Self::settings(experiment);
        settings.memorise + settings.predict.max(settings.foresee)
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        let settings = Self::settings(experiment);
        format!(
            "navigation.memorise {} and navigation.foresee {}",
            settings.memorise,
            settings.predict.max(settings.foresee)
        )
    }

    fn words(&self, experiment: &Experiment) -> String {
        let settings = Self::settings(experiment);
        format!(
            "{}, {} steps memorised and {} foreseen",
            experiment.task.name.as_str(),
            settings.memorise,
            settings.foresee
        )
    }

    /// Names what makes the task another one: walls, obstacles, the first `A`, other pictures.
    fn setting(&self, experiment: &Experiment) -> String {
        let settings = Self::settings(experiment);
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
        } = Self::settings(experiment);
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
        let charts = vec![
            figures::place_chart(curves.held_out("place_r2")),
            kl_per_step_chart(curves.per_step("kl_per_step"), None),
            last_kl_chart(curves.training("kl_last")),
            bound_chart(curves.held_out("bound")),
        ];
        let drawn = |chart: &Chart| chart.series.iter().any(|series| !series.points.is_empty());
        charts.into_iter().filter(drawn).collect()
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
