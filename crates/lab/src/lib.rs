//! Experiments: training, evaluation, pictures, reports and comparisons.
//!
//! | file | contents |
//! | --- | --- |
//! | `lib.rs` | the list of all families, [`FAMILIES`] |
//! | `experiment/family.rs` | the interface of a family: start here |
//! | `experiment/gallery.rs` | the interface of its learners |
//! | `experiment.rs`, `experiment/` | experiments: settings, overrides, checks, the presets |
//! | `families/` | the families that come with mnemora, one folder or file each |
//! | `open.rs`, `memory_use.rs` | opening an experiment or a run; the check of free memory |
//! | `trained.rs` | a run that was opened, and what can be asked of its model |
//! | `kept.rs` | the copy of its data that a run keeps |
//! | `train.rs`, `replicas.rs` | training a run from its start or a checkpoint; the same under several seeds |
//! | `answered.rs` | what models answer to a question about a scene |
//! | `present.rs`, `pictures.rs`, `curves.rs` | pictures, charts and reports |
//! | `compare.rs`, `claims.rs`, `export.rs` | comparing runs; numbers as evidence; sharing a run |
//! | `contract.rs` | the contract that all families are tested against |

mod answered;
mod claims;
pub mod compare;
mod contract;
mod curves;
mod error;
pub mod experiment;
mod export;
pub mod families;
mod kept;
mod memory_use;
mod numeric;
mod open;
pub mod pictures;
pub mod present;
mod replicas;
mod train;
mod trained;

pub use answered::{Answered, Place};
pub use burn::tensor::Device;
pub use claims::{OldRows, claim};
pub use contract::{Broken, check_family};
pub use error::LabError;
pub use experiment::family::{Family, Found, TaskEntry, add_families, families};
pub use experiment::gallery::{FilteredSequence, Gallery, Question, Walker};
pub use experiment::{
    CurriculumName, DataSettings, DecoderInputName, Experiment, Kind, LanguageSettings,
    LikelihoodName, ModelSettings, ProgramSettings, StepSettings, TaskName, TaskSettings,
    VisualName,
};
pub use experiment::{
    explain::{Choice, Key, keys},
    presets::{is_table, load_experiment, run_name, shipped},
    shipped::Shipped,
};
pub use export::export;
pub use families::agents::Game;
pub use families::tables::{
    Adaptation, Adapted, Ask, Expected, Fields, FilteredRow, Forecast, NextRow, RefusedRow, RowAsk,
    RowFilter, Value, filtered as filtered_charts, going_on,
};
pub use mnemora_figures::{animation::gif, picture::Image};
pub use mnemora_kernels::KERNELS_VARIABLE;
pub use mnemora_memory::{CHECKS_VARIABLE, MemoryName, MemorySettings, set_range_checks};
pub use mnemora_models::{ModelName, NetworkSettings};
pub use mnemora_training::{
    Error as TrainingError, Learner, Measures, Outcome, Purpose, Quantity, Row, RunContext,
    device::{DEVICE_VARIABLE, DeviceName, device_words, find_device},
    memory_use::{MemoryLimit, MemoryUse, limit_memory},
    online::{
        FilterState, FilteredStep, Numbers, Observed, OnlineFilter, load_filter_state,
        save_filter_state,
    },
    run::{Change, Origin, REPORT_FILE, check_target, read_metrics, read_origin},
    say::{note, one_line, printable},
    settings::{EvaluationSettings, FilteringSettings, Schedule, StrategyName, TrainingSettings},
    shell::quoted,
    threads::THREADS_VARIABLE,
};
pub use mnemora_worlds::series::fields_of_line;
pub use mnemora_worlds::{DATA_VARIABLE, npy};
pub use open::{Plan, Which, open, open_to_filter, open_to_judge, plan, prepare, read_experiment};
pub use replicas::{ReplicasOutcome, replica, train_replicas};
pub use train::{FirstWeights, first_checkpoint, resume, train, train_from};
pub use trained::Trained;

use families::{
    agents::Agents, classes::NthFarthest, copying::Copy, frames::FRAMES, navigation::Navigating,
    programs::Programs, recordings::Recordings, scenes::AskedScenes, tables::Tables, texts::Words,
};

/// The families that come with mnemora: the only list that a new family must be added to.
pub static FAMILIES: &[&dyn Family] = &[
    &FRAMES,
    &Recordings,
    &Tables,
    &Copy,
    &NthFarthest,
    &Programs,
    &Words,
    &Navigating,
    &AskedScenes,
    &Agents,
];
