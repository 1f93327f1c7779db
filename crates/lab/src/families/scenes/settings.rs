//! The table `[scenes]` of an experiment.

use mnemora_models::{CdnaConfig, CgqnConfig, GqnConfig, SssmConfig, Sv2pConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is shown, what is asked, and the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SceneSettings {
    /// Rows and columns of a frame, for worlds that can be drawn at any size.
    pub size: usize,
    /// Patterns to choose from, for the task `patterns`.
    pub patterns: usize,
    /// Angles from which a prism or a die is seen, for the tasks `prism` and `mnist-dice`.
    pub views: usize,
    /// Whether dice differ in nothing but their digits: of one size and colour, unturned in the middle of one room, for the
    /// task `mnist-dice`.
    pub still: bool,
    /// Images of each digit that are on dice, for the task `mnist-dice`.
    pub images: usize,
    /// Whether contexts of stories are drawn from all frames, not only from the first ones.
    pub anywhere: bool,
    /// Views in a context, at least.
    pub context_least: usize,
    /// Views in a context, at most.
    pub context_most: usize,
    /// Queries of a scene in training, at least; 0 for always as many as `targets`.
    pub targets_least: usize,
    /// Queries of a scene in training at most, and in an evaluation. If fewer views tell what is hidden, an evaluation of what
    /// is hidden asks for those.
    pub targets: usize,
    /// The share of the batches in training whose context reveals nothing of what is hidden in a scene; the contexts of the
    /// others are drawn from all views, in stories from the first ones unless `anywhere` is true.
    pub hiding: f64,
    /// Whether the queries of such a batch are those of views that reveal some of it. The last of several is that of any view,
    /// and if too few views reveal something, the others are those of any views, too. If false, all are those of any views.
    pub revealing: bool,
    /// The variance of a pixel during training: pairs of an update and a variance, with straight lines between.
    pub variance: Vec<[f64; 2]>,
    /// Variances at which held-out scenes are scored; the first is that of the bound.
    pub test_variance: Vec<f64>,
    /// Samples of each held-out scene.
    pub samples: usize,
    /// The consistent GQN, the GQN with its networks, and those without latents.
    pub model: CgqnConfig,
    /// The GQN in its original form.
    pub gqn: GqnConfig,
    /// The stochastic state-space model.
    pub sssm: SssmConfig,
    /// SV2P.
    pub sv2p: Sv2pConfig,
    /// CDNA.
    pub cdna: CdnaConfig,
}

impl Default for SceneSettings {
    /// The travelling salesman (cgqn, appendix B).
    fn default() -> Self {
        Self {
            size: 64,
            patterns: 16,
            views: 144,
            still: false,
            images: 10,
            anywhere: false,
            context_least: 1,
            context_most: 6,
            targets_least: 0,
            targets: 4,
            hiding: 0.0,
            revealing: false,
            variance: vec![[0.0, 2.0], [100_000.0, 0.5]],
            test_variance: vec![0.5],
            samples: 30,
            model: CgqnConfig::default(),
            gqn: GqnConfig::default(),
            sssm: SssmConfig::default(),
            sv2p: Sv2pConfig::default(),
            cdna: CdnaConfig::default(),
        }
    }
}

/// The most views of a scene in a batch, and the most samples.
const MOST: usize = 1000;

impl SceneSettings {
    /// Checks ranges. The error names the key.
    pub fn check(&self) -> Result<(), String> {
        for (key, least, value) in [
            ("context_least", 0, self.context_least),
            ("targets_least", 0, self.targets_least),
            ("context_most", self.context_least, self.context_most),
            ("targets", self.targets_least.max(1), self.targets),
            ("samples", 1, self.samples),
            ("test_variance, its length", 1, self.test_variance.len()),
            ("variance, its length", 1, self.variance.len()),
        ] {
            if !(least..=MOST).contains(&value) {
                return Err(format!(
                    "scenes.{key} is {value}, it must be from {least} to {MOST}"
                ));
            }
        }
        if !(0.0..=1.0).contains(&self.hiding) {
            return Err(format!(
                "scenes.hiding is {}, it must be from 0 to 1",
                self.hiding
            ));
        }
        if self.revealing && self.hiding == 0.0 {
            return Err(
                "scenes.revealing is true, it must be false unless scenes.hiding is more than 0"
                    .into(),
            );
        }
        let positive = |value: f64| value.is_finite() && value > 0.0;
        for [update, variance] in &self.variance {
            if !(update.is_finite() && *update >= 0.0) {
                return Err(format!(
                    "scenes.variance has the update {update}, it must be a number of at least 0"
                ));
            }
            if !positive(*variance) {
                return Err(format!(
                    "scenes.variance has the variance {variance}, it must be a positive number"
                ));
            }
        }
        if let Some(pair) = self
            .variance
            .windows(2)
            .find(|pair| pair[0][0] > pair[1][0])
        {
            return Err(format!(
                "scenes.variance has the update {} before {}, updates must not fall",
                pair[0][0], pair[1][0]
            ));
        }
        match self.test_variance.iter().find(|value| !positive(**value)) {
            None => Ok(()),
            Some(value) => Err(format!(
                "scenes.test_variance has {value}, it must be a positive number"
            )),
        }
    }

    /// The variance of a pixel in update `step`.
    pub fn variance_at(&self, step: u64) -> f64 {
        let step = step as f64;
        let mut before: Option<[f64; 2]> = None;
        for point in &self.variance {
            let [update, variance] = *point;
            if step < update {
                let Some([start, first]) = before else {
                    return variance;
                };
                return first + (variance - first) * (step - start) / (update - start);
            }
            before = Some(*point);
        }
        before.map_or(f64::NAN, |[_, variance]| variance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variance_follows_straight_lines() {
        let settings = SceneSettings {
            variance: vec![[10.0, 2.0], [20.0, 1.0], [20.0, 0.5], [40.0, 0.1]],
            ..SceneSettings::default()
        };
        for (step, variance) in [
            (1, 2.0),
            (10, 2.0),
            (15, 1.5),
            (20, 0.5),
            (30, 0.3),
            (40, 0.1),
            (1000, 0.1),
        ] {
            let found = settings.variance_at(step);
            assert!((found - variance).abs() < 1e-12, "{step}: {found}");
        }
        assert_eq!(settings.check(), Ok(()));
    }

    #[test]
    fn a_share_that_is_none_is_refused() {
        for hiding in [-0.1, 1.5, f64::NAN] {
            let settings = SceneSettings {
                hiding,
                ..SceneSettings::default()
            };
            let problem = settings.check().unwrap_err();
            assert_eq!(
                problem,
                format!("scenes.hiding is {hiding}, it must be from 0 to 1")
            );
        }
    }

    #[test]
    fn nothing_is_revealed_of_what_is_not_hidden() {
        let settings = SceneSettings {
            revealing: true,
            ..SceneSettings::default()
        };
        assert_eq!(
            settings.check().unwrap_err(),
            "scenes.revealing is true, it must be false unless scenes.hiding is more than 0"
        );
        let hiding = SceneSettings {
            hiding: 0.5,
            ..settings
        };
        assert_eq!(hiding.check(), Ok(()));
    }

    #[test]
    fn a_variance_that_is_no_positive_number_is_refused() {
        for variance in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let settings = SceneSettings {
                variance: vec![[0.0, variance]],
                ..SceneSettings::default()
            };
            let problem = settings.check().unwrap_err();
            assert!(
                problem.contains(&format!("the variance {variance}")),
                "{problem}"
            );
        }
    }
}
