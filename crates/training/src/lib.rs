//! The machinery to train any model: updates, checkpoints, the training loop, measured numbers, devices and threads.
//!
//! A [`Learner`] is a model with its optimiser and its data. [`train()`] drives it: it makes updates, evaluates at
//! checkpoints, saves [`Snapshot`]s and writes the measured numbers. Nothing here depends on an experiment, a task or a
//! picture; those live in `mnemora-lab`.
//!
//! | module | contents |
//! | --- | --- |
//! | [`learner`] | the interface of a trainable model |
//! | [`updates`], [`optimiser`] | one update: gradients, clipping, the check that all numbers are finite |
//! | [`train`](mod@train) | the loop from a saved state to the last update |
//! | [`run`], [`checkpoint`], [`arrays`], [`carried`], [`disk`] | files on disk |
//! | [`measures`] | measured numbers and their meaning |
//! | [`strategy`], [`amortize`], [`particles`], [`online`] | inference of latents, for whole sequences and one observation at a time |
//! | [`curriculum`], [`settings`] | the stages of a curriculum; the settings of a training |
//! | [`device`], [`threads`], [`machine`], [`memory_use`] | devices, threads and memory |
//! | [`progress`], [`say`], [`shell`], [`tensorboard`] | output for people and for TensorBoard |

pub mod amortize;
pub mod arrays;
pub mod carried;
pub mod checkpoint;
pub mod curriculum;
pub mod device;
pub mod disk;
mod error;
pub mod learner;
pub mod machine;
pub mod measures;
pub mod memory_use;
pub mod online;
pub mod optimiser;
pub mod particles;
pub mod progress;
pub mod run;
pub mod say;
pub mod settings;
pub mod shell;
pub mod strategy;
pub mod tensorboard;
pub mod threads;
pub mod train;
pub mod updates;

pub use error::Error;
pub use learner::{Learner, Purpose, Snapshot, StepFailure};
pub use measures::{Measures, Quantity, Row};
pub use train::{Begun, Finished, Outcome, Phase, RunContext, Standing, train};
