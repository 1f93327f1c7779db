//! Settings of training, evaluation and inference, as written in an experiment's TOML.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the learning rate changes from its first to its final value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Constant.
    Constant,
    /// Linear over all steps.
    Linear,
    /// Half a cosine over all steps.
    Cosine,
    /// Exponential: the same factor at each step.
    Exponential,
}

/// How parameters follow their gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimiserName {
    /// Adam, with 0.9, 0.999 and 1e-8.
    Adam,
    /// RMSProp, with the numbers of `training.rmsprop`.
    Rmsprop,
}

/// The numbers of RMSProp. The defaults are those of IMPALA's published code, whose loss is a sum. The losses here are means:
/// for a mean over N steps, `begin / N^2` and `epsilon / N^2` do what `begin` and `epsilon` do for the sum. IMPALA's are 1 and 0.1;
/// the defaults are those for N = 1,280, 40 steps of 32 environments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RmsProp {
    /// Of the mean of squared gradients.
    pub decay: f64,
    /// That mean before the first update.
    pub begin: f64,
    /// Added to that mean, before its root is taken.
    pub epsilon: f64,
    /// The part of the last change that is made again.
    pub momentum: f64,
}

impl Default for RmsProp {
    fn default() -> Self {
        Self {
            decay: 0.99,
            begin: 1.0 / (1_280.0 * 1_280.0),
            epsilon: 0.1 / (1_280.0 * 1_280.0),
            momentum: 0.0,
        }
    }
}

/// Settings of the training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrainingSettings {
    /// Number of updates.
    pub steps: u64,
    /// Sequences in a batch.
    pub batch: usize,
    /// The optimiser: `adam` or `rmsprop`.
    pub optimiser: OptimiserName,
    /// The numbers of RMSProp; `adam` does not use them.
    pub rmsprop: RmsProp,
    /// The learning rate at the first step.
    pub learning_rate: f64,
    /// How the learning rate changes.
    pub schedule: Schedule,
    /// Learning rate at the last step, for schedules that change it.
    pub final_learning_rate: f64,
    /// Largest global norm of the gradient, 0 for no clipping. An inference network (`filtering.strategy`) is not clipped; it
    /// learns by Adam without weight decay.
    pub clip: f64,
    /// The share of the learning rate by which each parameter shrinks in an update, 0 for none.
    pub weight_decay: f64,
    /// Steps over which the weight of the KL rises from 0 to 1, 0 for none.
    pub kl_warmup: u64,
    /// Steps of a sequence whose graph is in memory at a time, 0 for all. With fewer, the time loop is computed twice;
    /// the gradients are the same. The square root of a sequence's length takes the least memory. The tasks `copy`,
    /// `nth-farthest` and `programs` take whole sequences only.
    pub segment: usize,
    /// Steps between rows of metrics.jsonl.
    pub log_every: u64,
    /// Steps between checkpoints.
    pub checkpoint_every: u64,
    /// Checkpoints without a better one after which the training ends; the best one is then evaluated. 0 for never: all
    /// updates are made, and the model after them is evaluated.
    pub patience: u64,
    /// Checkpoints kept in addition to the best one.
    pub keep: usize,
    /// Processor threads for tensor operations, 0 for one per core. Small models are faster on one. The variable
    /// `RAYON_NUM_THREADS` takes precedence.
    pub threads: usize,
}

/// Settings of the evaluation on held-out sequences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvaluationSettings {
    /// Batches of the evaluation after training; for a text, the most windows.
    pub batches: u64,
    /// Sequences in one of them. For a text, the number of streams read in parallel; published perplexities use 1, a
    /// single pass.
    pub batch: usize,
    /// Batches of the short evaluation at each checkpoint, which decides the best one.
    pub checkpoint_batches: u64,
    /// Sequences drawn in pictures.
    pub pictures: usize,
    /// Particles of the importance-weighted and the particle filter's bound, 0 for neither; for models with latents.
    pub particles: usize,
    /// Held-out words used after training to compare lengths of the past, 0 for none; for texts.
    pub unroll_words: usize,
}

impl TrainingSettings {
    /// The learning rate in update `step` (from 1).
    pub fn rate(&self, step: u64) -> f64 {
        let (first, last) = (self.learning_rate, self.final_learning_rate);
        let done = (step - 1) as f64 / (self.steps.max(2) - 1) as f64;
        match self.schedule {
            Schedule::Constant => first,
            Schedule::Exponential => first * (last / first).powf(done),
            Schedule::Linear => first + (last - first) * done,
            Schedule::Cosine => {
                last + (first - last) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
            }
        }
    }

    /// The weight of the KL in update `step` (from 1).
    pub fn kl_weight(&self, step: u64) -> f64 {
        match self.kl_warmup {
            0 => 1.0,
            warmup => (step as f64 / warmup as f64).min(1.0),
        }
    }
}

impl Default for TrainingSettings {
    fn default() -> Self {
        Self {
            steps: 10_000,
            batch: 16,
            optimiser: OptimiserName::Adam,
            rmsprop: RmsProp::default(),
            learning_rate: 1e-3,
            schedule: Schedule::Constant,
            final_learning_rate: 1e-4,
            clip: 10.0,
            weight_decay: 0.0,
            kl_warmup: 0,
            segment: 0,
            log_every: 50,
            checkpoint_every: 1_000,
            patience: 0,
            keep: 2,
            threads: 0,
        }
    }
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self {
            batches: 32,
            batch: 32,
            checkpoint_batches: 4,
            pictures: 6,
            particles: 0,
            unroll_words: 20_000,
        }
    }
}

/// The inference strategies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyName {
    /// The model's own posterior network, trained with it.
    Direct,
    /// Amortized variational filtering: a network that improves beliefs by their gradients (avf).
    Iterative,
    /// Gradient steps on each belief, without a network (avf, Algorithm 1).
    Gradient,
}

impl StrategyName {
    /// All strategies.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Iterative, Self::Gradient];

    /// The name used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Iterative => "iterative",
            Self::Gradient => "gradient",
        }
    }
}

/// How beliefs about latents are inferred, in training and afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilteringSettings {
    /// The strategy: `direct`, `iterative` or `gradient`. `direct` uses no other key of this table.
    pub strategy: StrategyName,
    /// Rounds of improvement of a belief at each time step.
    pub iterations: usize,
    /// Samples of a belief used to estimate its free energy.
    pub samples: usize,
    /// Step size of `gradient`.
    pub rate: f64,
    /// Units of each of the two layers of the `iterative` network.
    pub hidden: usize,
    /// Whether the `iterative` network also gets the observation, in addition to belief and gradient.
    pub observe: bool,
    /// Whether new means are normalised.
    pub normalise_mean: bool,
    /// Whether the `iterative` network learns after each time step of a batch, as in the release of avf; otherwise once
    /// per batch, as the model does.
    pub online: bool,
}

impl Default for FilteringSettings {
    fn default() -> Self {
        Self {
            strategy: StrategyName::Direct,
            iterations: 1,
            samples: 1,
            rate: 0.05,
            hidden: 1024,
            observe: false,
            normalise_mean: false,
            online: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_start_and_end_where_they_say() {
        let mut settings = TrainingSettings {
            steps: 101,
            final_learning_rate: 1e-4,
            ..TrainingSettings::default()
        };
        for (schedule, middle, last) in [
            (Schedule::Constant, 1e-3, 1e-3),
            (Schedule::Linear, 5.5e-4, 1e-4),
            (Schedule::Cosine, 5.5e-4, 1e-4),
        ] {
            settings.schedule = schedule;
            for (step, expected) in [(1, 1e-3), (51, middle), (101, last)] {
                assert!((settings.rate(step) - expected).abs() < 1e-12);
            }
        }
    }
}
