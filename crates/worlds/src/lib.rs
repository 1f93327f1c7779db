//! Data sets and tasks for generative temporal models, as plain arrays.
//!
//! Nothing in this crate knows a tensor framework: a task turns a data set and a random stream into
//! a [`Batch`] of sequences, and whoever trains or evaluates a model makes tensors of it.
//!
//! Where to look:
//!
//! | file | what it holds |
//! | --- | --- |
//! | `task.rs` | the [`Task`] trait and the [`Batch`] it yields: start here |
//! | `perfect_recall.rs` | the shortest whole task: watch digits, see the first few again |
//! | `mnist.rs` | the digits: a bundled subset, or a folder with the original files |
//! | `idx.rs` | the file format those digits come in |
//! | `stream.rs` | named random streams, by which batch `i` is always the same batch `i` |
//! | `prefetch.rs` | batches made ahead on a second thread |
//! | `error.rs` | everything that can go wrong, one line each |
//!
//! ```
//! use std::sync::Arc;
//! use mnemora_worlds::{Mnist, PerfectRecall, Split, Stream, Task};
//!
//! let digits = Arc::new(Mnist::bundled()?);
//! let task = PerfectRecall::new(digits, 20, 5)?;
//! let batch = task.batch(Split::Train, &Stream::new(1, "data"), 0, 8);
//! assert_eq!(batch.frames.len(), 8 * 25 * 28 * 28);
//! # Ok::<(), mnemora_worlds::Error>(())
//! ```

mod error;
pub mod idx;
mod mnist;
mod perfect_recall;
mod prefetch;
mod stream;
mod task;

pub use error::Error;
pub use mnist::{DATA_VARIABLE, Digit, Digits, Mnist, Origin};
pub use perfect_recall::PerfectRecall;
pub use prefetch::Prefetch;
pub use stream::Stream;
pub use task::{Batch, Conditions, FrameShape, Split, Task, sequence_number};
