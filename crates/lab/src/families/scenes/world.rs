//! The scenes of an experiment.

use super::settings::SceneSettings;
use crate::{Experiment, LabError};
use mnemora_models::ModelName;
use mnemora_worlds::{
    Mnist, Split, Stream,
    scenes::{
        Ask, Narratives, Part, Patterns, Prism, Readings, SceneBatch, Scenes, Showing, readings,
        scene_batch,
    },
};
use std::sync::Arc;

/// Scenes, and how many of their views are shown.
#[derive(Clone)]
pub struct World {
    /// The scenes.
    pub scenes: Arc<dyn Scenes>,
    showing: Showing,
}

/// A world in the list of tasks.
pub struct Entry {
    /// The name of its task.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    open: fn(&SceneSettings) -> Result<Arc<dyn Scenes>, mnemora_worlds::Error>,
}

/// All worlds.
pub const WORLDS: [Entry; 5] = [
    Entry {
        name: "patterns",
        about: "which of some random patterns? a toy whose best bound is known",
        open: |settings| Ok(Arc::new(Patterns::new(settings.patterns, settings.size)?)),
    },
    Entry {
        name: "prism",
        about: "an upright prism with a digit on each face, seen from around",
        open: |settings| {
            Ok(Arc::new(Prism::new(
                &Mnist::bundled()?,
                settings.size,
                settings.views,
            )?))
        },
    },
    Entry {
        name: "colour-reaction",
        about: "a shape moves to another, which then changes its colour (cgqn, section 4.1)",
        open: |settings| Ok(Arc::new(Narratives::colour_reaction(settings.size)?)),
    },
    Entry {
        name: "travelling-salesman",
        about: "a shape visits four others in random order (cgqn, section 4.1)",
        open: |settings| Ok(Arc::new(Narratives::travelling_salesman(settings.size)?)),
    },
    Entry {
        name: "dag-chase",
        about: "each of four shapes chases another (cgqn, section 4.1)",
        open: |settings| Ok(Arc::new(Narratives::dag_chase(settings.size)?)),
    },
];

impl World {
    /// The world of an experiment.
    pub fn new(experiment: &Experiment, settings: &SceneSettings) -> Result<Self, LabError> {
        let name = experiment.task.name.as_str();
        let entry = WORLDS.iter().find(|entry| entry.name == name);
        let entry = entry
            .ok_or_else(|| LabError::Configuration(format!("the task {name} has no scenes")))?;
        let showing = Showing {
            anywhere: settings.anywhere,
            context_least: settings.context_least,
            context_most: settings.context_most,
            targets_least: match settings.targets_least {
                0 => settings.targets,
                least => least,
            },
            targets: settings.targets,
        };
        let world = Self {
            scenes: (entry.open)(settings)?,
            showing,
        };
        let model = experiment.model.name;
        if model.needs_stories() && !world.scenes.ordered() {
            return Err(LabError::Configuration(format!(
                "model.name is '{}', which needs stories, but the task {name} tells none; choose travelling-salesman, \
                 dag-chase or colour-reaction",
                model.as_str()
            )));
        }
        if model.needs_stories() && showing.context_most == 0 {
            return Err(LabError::Configuration(format!(
                "scenes.context_most is 0, it must be at least 1 for the model {}: a story needs a first frame",
                model.as_str()
            )));
        }
        world.checked().map_err(LabError::Configuration)
    }

    /// With another number of targets in evaluations and pictures.
    pub fn asking(&self, targets: usize) -> Result<Self, LabError> {
        let showing = Showing {
            targets_least: targets.min(self.showing.targets_least),
            targets,
            ..self.showing
        };
        let world = Self {
            showing,
            ..self.clone()
        };
        world.checked().map_err(LabError::Configuration)
    }

    /// What a model learns from.
    pub fn learned_from(model: ModelName) -> Ask {
        match model.needs_stories() {
            true => Ask::Story,
            false => Ask::Training,
        }
    }

    /// Views of a context at most.
    pub fn context_most(&self) -> usize {
        self.showing.context_most
    }

    /// Whether contexts and targets of a batch are the first frames of stories and others.
    pub fn begins(&self, batch: &SceneBatch) -> bool {
        let moments = self.scenes.moments();
        let mut times = batch.context_queries.iter().enumerate();
        moments > 0
            && times.all(|(place, time)| {
                let number = (place % batch.context + 1) as f32;
                (time * moments as f32 - number).abs() < 0.5
            })
    }

    /// What is asked of held-out scenes, besides any views.
    pub fn hidden(&self) -> Option<Ask> {
        self.scenes.hides().then_some(Ask::Hidden)
    }

    /// The same with a context that tells, if there are views that do.
    pub fn told(&self) -> Option<Ask> {
        let shown = self
            .showing
            .context_most
            .min(self.scenes.most(Ask::Told)[0]);
        (self.scenes.hides() && shown > 0).then_some(Ask::Told)
    }

    /// The parts of stories that are shown: all if contexts are drawn from anywhere.
    pub fn parts(&self) -> &'static [Part] {
        match self.scenes.ordered() && self.showing.anywhere {
            true => &Part::ALL,
            false => &[],
        }
    }

    /// Whether every scene has as many views as are to be shown and asked for.
    fn checked(self) -> Result<Self, String> {
        let parts = self.parts().iter().map(|part| Ask::Part(*part));
        for ask in [Ask::Any].into_iter().chain(self.hidden()).chain(parts) {
            let [context, targets] = self.scenes.most(ask);
            let shown = match ask {
                Ask::Hidden => 0,
                _ => self.showing.context_most,
            };
            for (key, value, most) in [
                ("context_most", shown, context),
                ("targets", self.showing.targets, targets),
            ] {
                if value > most {
                    return Err(format!(
                        "scenes.{key} is {value}, it must be at most {most} for {}",
                        self.scenes.name()
                    ));
                }
            }
        }
        Ok(self)
    }

    /// See [`scene_batch`].
    pub fn batch(
        &self,
        split: Split,
        ask: Ask,
        stream: &Stream,
        index: u64,
        count: usize,
    ) -> SceneBatch {
        let of = (split, stream);
        scene_batch(self.scenes.as_ref(), self.showing, ask, of, index, count)
    }

    /// See [`readings`].
    pub fn readings(&self, split: Split, stream: &Stream, batch: &SceneBatch) -> Vec<Readings> {
        readings(self.scenes.as_ref(), (split, stream), batch)
    }
}
