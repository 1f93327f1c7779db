//! Recorded sequences of different lengths: music, speech, clips, a user's own. Moving digits are
//! synthetic, but come in the same batches.

pub(crate) mod corpus;
mod moving_digits;
pub(crate) mod own;
pub(crate) mod parts;
pub(crate) mod piano_roll;
pub(crate) mod speech;
pub(crate) mod video;

pub use self::corpus::{
    Corpus, Draw, Part, Parts, Recording, Scale, SequenceBatch, Values, Window,
};
pub use self::moving_digits::MovingDigits;
pub use self::own::Own;
pub use self::piano_roll::{MidiSettings, Music, PianoRolls, Roll};
pub use self::speech::{SaSentences, Speech, SpeechSet};
pub use self::video::{KthSplit, Video};
