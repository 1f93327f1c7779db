//! Experiments: configuration, training, evaluation, checkpoints, pictures, reports.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `config.rs`, `keys.rs`, `experiments.rs` | what an experiment is; how keys are set; the ones that come with mnemora |
//! | `train.rs` | a training from start or checkpoint to report: start here |
//! | `replicas.rs` | the same under several seeds |
//! | `open.rs`, `device.rs`, `threads.rs` | data, task and model of an experiment or a run; the device and the threads they are on |
//! | `memory_use.rs` | how much memory all this takes, and whether there is as much |
//! | `learner.rs`, `adam.rs` | what a training drives; one update and its optimiser |
//! | `trainer.rs` | temporal VAEs on tasks of frames |
//! | `recordings.rs` | models of recorded sequences: music, sound, clips, a user's own |
//! | `strategy.rs`, `amortize.rs` | how beliefs are found; how an inference network learns |
//! | `online.rs` | a trained model as a filter, one observation at a time |
//! | `copy.rs`, `nth_farthest.rs`, `programs.rs`, `language.rs` | recurrent cores on the copy task, on the N-th farthest task, executing programs, on texts |
//! | `curriculum.rs` | how training goes on to harder stages |
//! | `run.rs`, `checkpoint.rs`, `weights.rs`, `export.rs`, `disk.rs` | what lies on disk, what is given away |
//! | `say.rs`, `progress.rs` | what is said on standard error |
//! | `evaluate.rs`, `particles.rs`, `digit_classifier.rs`, `compare.rs` | held-out numbers of one run, of several |
//! | `present.rs`, `curves.rs`, `tensorboard.rs` | what is looked at; drawn by `mnemora-figures` |
//! | `bench.rs` | timing |

mod adam;
mod amortize;
pub mod bench;
pub mod checkpoint;
pub mod compare;
mod config;
mod copy;
mod curriculum;
mod curves;
mod device;
mod digit_classifier;
mod disk;
mod error;
mod evaluate;
mod experiments;
mod export;
mod keys;
mod language;
mod learner;
mod machine;
mod memory_use;
mod nth_farthest;
mod online;
mod open;
mod particles;
pub mod present;
mod programs;
mod progress;
mod recordings;
mod replicas;
mod run;
mod say;
mod shell;
mod strategy;
pub mod tensorboard;
mod threads;
mod train;
mod trainer;
mod weights;

pub use amortize::Amortizer;
pub use burn::tensor::Device;
pub use config::{
    CurriculumName, DataSettings, DecoderInputName, DncControllerName, DncSettings, EntNetSettings,
    EvaluationSettings, Experiment, FamilyName, FilteringSettings, GateName, HybridSettings,
    IntrospectionSettings, Kind, LanguageSettings, LikelihoodName, LruSettings, LstmSettings,
    MemoryName, MemorySettings, ModelName, ModelSettings, NetworkSettings, NtmSettings,
    ProgramSettings, RmcSettings, Schedule, SrnnNetworkSettings, StackedLstmSettings, StepSettings,
    StrategyName, SvgNetworkName, SvgNetworkSettings, SvgPriorName, SvgSkipsName, TaskImages,
    TaskKind, TaskName, TaskSettings, TrainingSettings, VisualName, VrnnNetworkSettings,
    VrnnSettings, WordStyleName,
};
pub use device::{DEVICE_VARIABLE, DeviceName, device_words, find_device};
pub use digit_classifier::{DigitClassifier, DigitTraining, box_blur};
pub use error::LabError;
pub use evaluate::{EVALUATION, Evaluation, GeneratedDigits, GeneratedRecall, RecordingScore};
pub use experiments::{Shipped, load_experiment, run_name, shipped};
pub use export::export;
pub use language::{FrequencyScore, TextScore, UnrollScore};
pub use learner::FilteredSequence;
pub use memory_use::{MemoryLimit, MemoryUse, limit_memory};
pub use mnemora_kernels::KERNELS_VARIABLE;
pub use mnemora_memory::{CHECKS_VARIABLE, set_range_checks};
pub use mnemora_worlds::{DATA_VARIABLE, npy};
pub use online::{Belief, Numbers, Observed, OnlineFilter, load_filter_state, save_filter_state};
pub use open::{Plan, Trained, Which, open, open_to_filter, plan};
pub use particles::ParticleScore;
pub use replicas::{ReplicasOutcome, replica, train_replicas};
pub use run::{Change, Metrics, Origin, check_target, read_experiment, read_metrics, read_origin};
pub use say::{note, one_line, printable};
pub use shell::quoted;
pub use threads::THREADS_VARIABLE;
pub use train::{Outcome, Surroundings, resume, train};
