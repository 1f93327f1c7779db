//! Data sets and tasks for generative temporal models, as plain arrays.
//!
//! This crate does not depend on a tensor framework: a task turns a data set and a random stream into
//! a [`Batch`] of sequences, and the code that trains or evaluates a model makes tensors from it.
//!
//! Where to look:
//!
//! | file or folder | what it holds |
//! | --- | --- |
//! | `task.rs` | the [`Task`] trait and the [`Batch`] it makes: start here |
//! | `recall/perfect_recall.rs` | the shortest complete task: watch images, then see the first few again |
//! | `recall/` | all tasks of frames, listed in one table: [`FRAME_TASKS`] |
//! | `algorithmic/` | supervised tasks: copy, the N-th farthest, learning to execute programs |
//! | `images/` | labelled images that the tasks of frames draw from: MNIST, Omniglot |
//! | `navigation/` | walks of an agent: what it sees, what it does, where it truly is; windows that walk over pictures, and a [`labyrinth`] of rooms |
//! | `recordings/` | sequences of different lengths: music, speech, clips, a user's own; windows and whole recordings; `parts.rs` divides them |
//! | `series/` | tables of measurements over time, with gaps and columns of several kinds |
//! | `scenes/` | scenes that are asked what they look like from another view |
//! | `text/` | words for language models: WikiText, books, a user's own texts |
//! | `environment.rs` | [`Environment`]: a world to act in, one step at a time |
//! | `environments/` | Mini-Pacman, BoxWorld and games of memory, listed in one table: [`ENVIRONMENTS`]; many at once: [`Vectorised`] |
//! | `formats/` | WAV, SPHERE, NumPy, IDX, PNG, JPEG, CSV, TFRecord |
//! | `files.rs`, `folder.rs` | how a user's files are opened and ordered |
//! | `stream.rs` | named random streams: batch `i` is always the same |
//! | `prefetch.rs` | batches made ahead on a second thread |
//! | `settings.rs`, `error.rs` | ranges of settings, and all errors, one line each |
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

mod algorithmic;
mod environment;
mod environments;
mod error;
mod files;
mod folder;
mod formats;
mod images;
mod navigation;
mod prefetch;
mod recall;
mod recordings;
pub mod scenes;
pub mod series;
mod settings;
mod stream;
mod task;
#[cfg(test)]
mod testing;
mod text;

pub use algorithmic::{
    Alphabet, CopyBatch, CopyTask, Correct, Curriculum, Hardness, NthFarthest, NthFarthestBatch,
    ProgramBatch, ProgramKind, Programs, evaluate_program,
};
pub use environment::{Environment, Spec, Step};
pub use environments::{
    BoxWorld, BoxWorldConfig, Concentration, ConcentrationConfig, ENVIRONMENTS, EnvironmentKind,
    Finished, MiniPacman, MiniPacmanConfig, PacmanMode, RepeatPrevious, RepeatPreviousConfig,
    TMaze, TMazeConfig, Vectorised, episode_seed,
};
pub use error::Error;
pub use files::{Limits, read_regular};
pub use formats::{Encoding, Fit, FrameSettings, Sound, idx, npy, tfrecord};
pub use images::{DATA_VARIABLE, DataSet, Images, Mnist, Omniglot, Origin};
pub use navigation::{
    Grid, IMAGE_ACTIONS, ImageNavigation, ImageStep, ImageWalk, ImageWalkSettings, Navigation,
    Pictures, Start, Walks, WallActions, labyrinth,
};
pub use prefetch::Prefetch;
pub use recall::{
    DynamicDependency, FRAME_TASKS, FrameTask, ImageSet, LENGTH, MnistMap, Opened, ParityRecall,
    PerfectRecall, RECALL, Sequence, SimilarityCuedRecall, Size, Sizes, assemble, recall_layout,
};
pub use recordings::{
    Corpus, Draw, KthSplit, MidiSettings, MovingDigits, Music, Own, Part, Parts, PianoRolls,
    Recording, Roll, SaSentences, Scale, SequenceBatch, Speech, SpeechSet, Values, Video, Window,
};
pub use stream::Stream;
pub use task::{Batch, Conditions, FrameShape, Layout, Split, Task, sequence_number};
pub use text::{Frequency, Text, TextBatch, TextSet, TextSettings, Vocabulary, WordStyle};
