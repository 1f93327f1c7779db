//! The table `[navigation]` of an experiment.

use mnemora_models::GtmSmConfig;
use mnemora_worlds::{ImageWalkSettings, labyrinth::WalksConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Walks, the model, and the stages of its training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NavigationSettings {
    /// Steps that are memorised before a prediction.
    pub memorise: usize,
    /// Steps predicted in training.
    pub predict: usize,
    /// Steps predicted on held-out walks.
    pub foresee: usize,
    /// Weight of the regression of displacements (gtm-sm, section 4.2.2), 0 for none.
    pub regression: f64,
    /// Factor of the learning rate for the transition.
    pub faster: f64,
    /// The world of image navigation.
    pub image: ImageWalkSettings,
    /// The world of the labyrinth's tasks.
    pub labyrinth: WalksConfig,
    /// The model.
    pub model: GtmSmConfig,
    /// The stages of a training.
    pub stages: StageSettings,
}

/// The stages of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StageSettings {
    /// Updates on frames alone, before the first walk.
    pub frames: u64,
    /// Frames in such an update.
    pub frame_batch: usize,
    /// Steps memorised in a short walk.
    pub short_memorise: usize,
    /// Steps predicted in a short walk.
    pub short_predict: usize,
    /// Whether short walks without walls in the model come first, until a gate opens that looks at the actions.
    pub gate: bool,
    /// Whether walls are also left out of the walks until the gate opens: an action that a wall would stop is then
    /// recorded as `stay`.
    pub gate_without_walls: bool,
    /// Updates between two checks of the gate.
    pub gate_every: u64,
    /// Checks in a row that must be passed.
    pub gate_checks: u64,
    /// What opposite actions may leave of a step.
    pub gate_opposite: f64,
    /// The least sine between two axes.
    pub gate_angle: f64,
    /// The least ratio of the steps of two axes.
    pub gate_ratio: f64,
    /// Updates after which a closed gate leads to another draw of `A`.
    pub redraw_after: u64,
    /// Draws of `A` after the first, at most.
    pub redraws: u64,
    /// Updates on short walks with all of the model.
    pub short: u64,
    /// Updates in which the walks grow to their full length.
    pub grow: u64,
}

impl NavigationSettings {
    /// Checks ranges. The error names the key.
    pub fn check(&self) -> Result<(), String> {
        let stages = &self.stages;
        for (key, size) in [
            ("memorise", self.memorise),
            ("predict", self.predict),
            ("foresee", self.foresee),
            ("stages.frame_batch", stages.frame_batch),
            ("stages.short_memorise", stages.short_memorise),
            ("stages.short_predict", stages.short_predict),
        ] {
            if !(1..=LONGEST).contains(&size) {
                return Err(format!(
                    "navigation.{key} is {size}, it must be from 1 to {LONGEST}"
                ));
            }
        }
        for (key, count) in [
            ("gate_every", stages.gate_every),
            ("gate_checks", stages.gate_checks),
            ("redraw_after", stages.redraw_after),
        ] {
            if count == 0 {
                return Err(format!(
                    "navigation.stages.{key} is 0, it must be at least 1"
                ));
            }
        }
        for (key, value) in [
            ("faster", self.faster),
            ("model.pixel_std", self.model.pixel_std),
            ("model.delta", self.model.delta),
            ("model.transition.scale", self.model.transition.scale),
            ("model.transition.noise", self.model.transition.noise),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!(
                    "navigation.{key} is {value}, it must be a positive number"
                ));
            }
        }
        for (key, value) in [
            ("regression", self.regression),
            ("stages.gate_opposite", stages.gate_opposite),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!(
                    "navigation.{key} is {value}, it must be a number of at least 0"
                ));
            }
        }
        for (key, value) in [
            ("gate_angle", stages.gate_angle),
            ("gate_ratio", stages.gate_ratio),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(format!(
                    "navigation.stages.{key} is {value}, it must be from 0 to 1"
                ));
            }
        }
        Ok(())
    }
}

impl NavigationSettings {
    /// Checks that settings of a model with places go together. The error names the key.
    pub fn check_places(&self) -> Result<(), String> {
        let neighbours = self.model.neighbours;
        for (key, size) in [
            ("memorise", self.memorise),
            ("stages.short_memorise", self.stages.short_memorise),
        ] {
            if neighbours > size {
                return Err(format!(
                    "navigation.model.neighbours is {neighbours}, it must be at most navigation.{key}, which is {size}"
                ));
            }
        }
        let landmarks = self.model.landmarks;
        if landmarks >= self.stages.short_memorise.min(self.memorise) {
            return Err(format!(
                "navigation.model.landmarks is {landmarks}, it must be less than the steps memorised: \
                 navigation.memorise, which is {}, and navigation.stages.short_memorise, which is {}",
                self.memorise, self.stages.short_memorise
            ));
        }
        Ok(())
    }
}

/// Most steps of a walk, and most frames of an update.
const LONGEST: usize = 100_000;

impl Default for NavigationSettings {
    fn default() -> Self {
        Self {
            memorise: 256,
            predict: 32,
            foresee: 256,
            regression: 0.0,
            faster: 5.0,
            image: ImageWalkSettings::default(),
            labyrinth: WalksConfig::default(),
            model: GtmSmConfig::default(),
            stages: StageSettings::default(),
        }
    }
}

impl Default for StageSettings {
    fn default() -> Self {
        Self {
            frames: 1500,
            frame_batch: 256,
            short_memorise: 24,
            short_predict: 8,
            gate: true,
            gate_without_walls: false,
            gate_every: 50,
            gate_checks: 3,
            gate_opposite: 0.15,
            gate_angle: 0.25,
            gate_ratio: 0.25,
            redraw_after: 800,
            redraws: 10,
            short: 1000,
            grow: 2000,
        }
    }
}
