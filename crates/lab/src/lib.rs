//! Experiments: configuration, training, evaluation, checkpoints, pictures, reports.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `config.rs`, `keys.rs`, `experiments.rs` | what an experiment is; how keys are set; the ones that come with mnemora |
//! | `train.rs` | a training from start or checkpoint to report: start here |
//! | `open.rs` | data, task, model and threads of an experiment or a run |
//! | `trainer.rs`, `adam.rs` | one training step and its optimiser |
//! | `run.rs`, `checkpoint.rs`, `weights.rs` | what lies on disk |
//! | `evaluate.rs`, `compare.rs` | held-out numbers of one run, of several |
//! | `present.rs`, `curves.rs`, `report.rs`, `chart.rs`, `picture.rs`, `tensorboard.rs` | what is looked at |
//! | `bench.rs` | timing |

mod adam;
pub mod bench;
pub mod chart;
pub mod checkpoint;
pub mod compare;
mod config;
mod curves;
mod digit_classifier;
mod error;
mod evaluate;
mod experiments;
mod keys;
mod machine;
mod open;
pub mod picture;
pub mod present;
mod progress;
pub mod report;
mod run;
pub mod tensorboard;
mod train;
mod trainer;
mod weights;

pub use config::{
    DataSettings, EvaluationSettings, Experiment, IntrospectionSettings, LikelihoodName,
    MemoryName, MemorySettings, ModelSettings, Schedule, TaskSettings, TrainingSettings,
    VisualName, VrnnSettings,
};
pub use digit_classifier::{DigitClassifier, DigitTraining, box_blur};
pub use error::LabError;
pub use evaluate::{EVALUATION, Evaluation, GeneratedRecall, evaluate};
pub use experiments::{Shipped, load_experiment, shipped};
pub use open::{Plan, Trained, Which, open, plan};
pub use run::{Metrics, Origin, read_experiment, read_metrics, read_origin};
pub use train::{Outcome, Surroundings, resume, train};
