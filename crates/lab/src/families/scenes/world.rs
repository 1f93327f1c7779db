//! The scenes of an experiment.

use super::settings::SceneSettings;
use crate::{Experiment, LabError};
use mnemora_worlds::{
    Mnist, Split, Stream,
    scenes::{
        Ask, ColourReaction, DagChase, Patterns, Prism, Readings, SceneBatch, Scenes, Showing,
        TravellingSalesman, readings, scene_batch,
    },
};

/// Scenes, and how many of their views are shown.
pub struct World {
    /// The scenes.
    pub scenes: Box<dyn Scenes>,
    showing: Showing,
}

/// A world in the list of tasks.
pub struct Entry {
    /// The name of its task.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    open: fn(&SceneSettings) -> Result<Box<dyn Scenes>, mnemora_worlds::Error>,
}

/// All worlds.
pub const WORLDS: [Entry; 5] = [
    Entry {
        name: "patterns",
        about: "which of some random patterns? a toy whose best bound is known",
        open: |settings| Ok(Box::new(Patterns::new(settings.patterns, settings.size)?)),
    },
    Entry {
        name: "prism",
        about: "an upright prism with a digit on each face, seen from around",
        open: |settings| Ok(Box::new(Prism::new(&Mnist::bundled()?, settings.size)?)),
    },
    Entry {
        name: "colour-reaction",
        about: "a shape moves to another, which then changes its colour (cgqn, section 4.1)",
        open: |settings| Ok(Box::new(ColourReaction::new(settings.size)?)),
    },
    Entry {
        name: "travelling-salesman",
        about: "a shape visits four others in random order (cgqn, section 4.1)",
        open: |settings| Ok(Box::new(TravellingSalesman::new(settings.size)?)),
    },
    Entry {
        name: "dag-chase",
        about: "each of four shapes chases another (cgqn, section 4.1)",
        open: |settings| Ok(Box::new(DagChase::new(settings.size)?)),
    },
];

impl World {
    /// The world of an experiment.
    pub fn new(experiment: &Experiment, settings: &SceneSettings) -> Result<Self, LabError> {
        let name = experiment.task.name.as_str();
        let entry = WORLDS.iter().find(|entry| entry.name == name);
        let entry = entry
            .ok_or_else(|| LabError::Configuration(format!("the task {name} has no scenes")))?;
        Ok(Self {
            scenes: (entry.open)(settings)?,
            showing: Showing {
                context_least: settings.context_least,
                context_most: settings.context_most,
                targets: settings.targets,
            },
        })
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
