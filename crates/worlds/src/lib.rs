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
//! | `perfect_recall.rs` | the shortest whole task: watch images, see the first few again; the same in one shot |
//! | `parity_recall.rs` | see whether the first few digits were even or odd |
//! | `dynamic_dependency.rs` | each digit names the place of the next one |
//! | `similarity_cued_recall.rs` | see one image again, then those that followed it |
//! | `mnist_map.rs` | walk over a map of digits, told which way |
//! | `sequence.rs` | what those five share |
//! | `copy.rs` | the copy task, with targets: a batch of its own kind |
//! | `nth_farthest.rs` | which vector is the n-th farthest from vector m? |
//! | `programs.rs` | learning to execute: programs, what they print, curricula |
//! | `programs/language.rs` | the interpreter that says what a program prints |
//! | `programs/generate.rs` | how programs are drawn |
//! | `programs/alphabet.rs` | the numbers of characters |
//! | `images.rs` | labelled images in two splits: what tasks draw from |
//! | `mnist.rs` | the digits: a bundled subset, or a folder with the original files |
//! | `omniglot.rs` | the characters: bundled, or a folder with the original archives |
//! | `omniglot/originals.rs` | how the original characters are read and reduced |
//! | `idx.rs` | the file format those digits come in |
//! | `corpus.rs` | recordings of unequal length in three parts: songs, speech, clips, a user's own |
//! | `corpus/windows.rs` | windows for training, cut from recordings |
//! | `corpus/batches.rs` | whole recordings with masks |
//! | `piano_roll.rs` | polyphonic music: the standard sets, and a folder of MIDI files |
//! | `speech.rs` | utterances at 16 kHz: LibriSpeech, spoken digits, TIMIT, a folder of recordings |
//! | `audio.rs` | WAV and NIST SPHERE files, change of the sampling rate |
//! | `video.rs` | clips: arrays, folders of pictures, video files, the KTH actions |
//! | `moving_digits.rs` | digits that bounce around, made without end |
//! | `text.rs` | words for language models: WikiText, books, a user's own |
//! | `text/words.rs` | texts cut into words |
//! | `text/vocabulary.rs` | the words that a model knows, and how frequent they are |
//! | `text/batches.rs` | windows of contiguous streams, and one pass over a part |
//! | `own.rs` | a user's own sequences: arrays, tables, folders of pictures |
//! | `picture.rs` | PNG and JPEG files, crop and reduction |
//! | `npy.rs` | arrays of NumPy |
//! | `files.rs` | how a user's files are opened: regular ones, each once, and no more than a bound |
//! | `folder.rs` | the order of files in a folder, and which part each belongs to |
//! | `table.rs` | tables in CSV |
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

mod audio;
mod copy;
mod corpus;
mod dynamic_dependency;
mod error;
mod files;
mod folder;
pub mod idx;
mod images;
mod mnist;
mod mnist_map;
mod moving_digits;
pub mod npy;
mod nth_farthest;
mod omniglot;
mod own;
mod parity_recall;
mod perfect_recall;
mod piano_roll;
mod picture;
mod prefetch;
mod programs;
mod sequence;
mod similarity_cued_recall;
mod speech;
mod stream;
mod table;
mod task;
#[cfg(test)]
mod testing;
mod text;
mod video;

pub use audio::{Encoding, Sound};
pub use copy::{CopyBatch, CopyTask};
pub use corpus::{Corpus, Draw, Part, Parts, Recording, Scale, SequenceBatch, Values, Window};
pub use dynamic_dependency::DynamicDependency;
pub use error::Error;
pub use files::{Limits, read_regular};
pub use images::{DATA_VARIABLE, DataSet, Images, Origin};
pub use mnist::Mnist;
pub use mnist_map::MnistMap;
pub use moving_digits::MovingDigits;
pub use nth_farthest::{NthFarthest, NthFarthestBatch};
pub use omniglot::Omniglot;
pub use own::Own;
pub use parity_recall::ParityRecall;
pub use perfect_recall::PerfectRecall;
pub use piano_roll::{MidiSettings, Music, PianoRolls, Roll};
pub use picture::{Fit, FrameSettings};
pub use prefetch::Prefetch;
pub use programs::{
    Alphabet, Correct, Curriculum, Hardness, ProgramBatch, ProgramKind, Programs, evaluate_program,
};
pub use similarity_cued_recall::SimilarityCuedRecall;
pub use speech::{SaSentences, Speech, SpeechSet};
pub use stream::Stream;
pub use task::{Batch, Conditions, FrameShape, Split, Task, sequence_number};
pub use text::{Frequency, Text, TextBatch, TextSet, TextSettings, Vocabulary, WordStyle};
pub use video::{KthSplit, Video};
