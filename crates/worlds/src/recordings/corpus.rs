//! Recordings for training and evaluation: songs, utterances, clips, a user's own sequences, all
//! in one form that batches are cut from.
//!
//! A [`Corpus`] stores recordings compactly: chords as bits, samples in 16 bits,
//! pixels in 8. They are converted to numbers for a model when a batch is made.
//!
//! ```
//! use mnemora_worlds::{Draw, Part, PianoRolls, Stream};
//!
//! let songs = PianoRolls::bundled()?;
//! // To train: batch 0 of 16 windows of 25 steps.
//! let stream = Stream::new(1, "data");
//! let windows = songs.window_batch(Part::Train, &stream, 0, 16, 25, Draw::EachRecording)?;
//! assert_eq!(windows.values.len(), 16 * 25 * 88);
//! // To evaluate: whole songs, the shorter ones of a batch padded.
//! let batch = songs.whole(Part::Test, &[0, 1, 2])?;
//! assert_eq!(batch.mask().len(), 3 * batch.time);
//! # Ok::<(), mnemora_worlds::Error>(())
//! ```

mod batches;
mod windows;

use std::fmt;

use sha2::{Digest, Sha256};

pub use self::batches::{SequenceBatch, Window};
pub use self::windows::Draw;
use crate::images::hexadecimal;
use crate::{Error, FrameShape, Origin};

/// The part of a corpus that a recording belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Recordings for training.
    Train,
    /// Recordings for choosing settings and when to stop.
    Valid,
    /// Recordings kept for evaluation.
    Test,
}

impl Part {
    /// All parts, in the order in which they are listed.
    pub const ALL: [Part; 3] = [Part::Train, Part::Valid, Part::Test];

    /// The part that a folder or an index calls `name`.
    pub fn named(name: &str) -> Option<Part> {
        match name.to_ascii_lowercase().as_str() {
            "train" | "training" => Some(Part::Train),
            "valid" | "validation" | "val" | "dev" => Some(Part::Valid),
            "test" | "testing" => Some(Part::Test),
            _ => None,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Part::Train => "train",
            Part::Valid => "valid",
            Part::Test => "test",
        })
    }
}

/// One value for each part: recordings, or their sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<T> {
    /// For [`Part::Train`].
    pub train: T,
    /// For [`Part::Valid`].
    pub valid: T,
    /// For [`Part::Test`].
    pub test: T,
}

impl<T> Parts<T> {
    /// The value for `part`.
    pub fn get(&self, part: Part) -> &T {
        match part {
            Part::Train => &self.train,
            Part::Valid => &self.valid,
            Part::Test => &self.test,
        }
    }

    pub(crate) fn get_mut(&mut self, part: Part) -> &mut T {
        match part {
            Part::Train => &mut self.train,
            Part::Valid => &mut self.valid,
            Part::Test => &mut self.test,
        }
    }

    /// Applies a function to each part, until one fails.
    pub(crate) fn try_map<U>(
        self,
        mut map: impl FnMut(T) -> Result<U, Error>,
    ) -> Result<Parts<U>, Error> {
        Ok(Parts {
            train: map(self.train)?,
            valid: map(self.valid)?,
            test: map(self.test)?,
        })
    }
}

impl<T> Default for Parts<Vec<T>> {
    fn default() -> Parts<Vec<T>> {
        Parts {
            train: Vec::new(),
            valid: Vec::new(),
            test: Vec::new(),
        }
    }
}

/// The values of a recording, step after step.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// `[steps]`: the notes that sound; bit `n` is MIDI note `21 + n`. A model sees 0 and 1.
    Notes(Vec<u128>),
    /// Sound samples; full scale is 32768. A model sees frames of [`Corpus::frame`] samples,
    /// normalised by [`Corpus::scale`]; an incomplete frame at the end is dropped.
    Samples(Vec<i16>),
    /// `[steps, height, width, channels]`: intensities. A model sees `[channels, height, width]`,
    /// divided by 255.
    Pixels(Vec<u8>),
    /// `[steps, width]`: numbers that a model sees as they are.
    Numbers(Vec<f32>),
}

impl Values {
    /// Size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Values::Notes(chords) => size_of_val(chords.as_slice()),
            Values::Samples(samples) => size_of_val(samples.as_slice()),
            Values::Pixels(pixels) => pixels.len(),
            Values::Numbers(numbers) => size_of_val(numbers.as_slice()),
        }
    }
}

/// One song, utterance, clip or sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Its source: a file, or a file and a place in it.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// Mean and standard deviation of the training samples, by which samples are normalised for a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Mean, with samples in [-1, 1].
    pub mean: f32,
    /// Standard deviation, with samples in [-1, 1].
    pub deviation: f32,
}

impl Scale {
    /// For data that a model sees unchanged.
    pub const IDENTITY: Scale = Scale {
        mean: 0.0,
        deviation: 1.0,
    };

    /// The width of one of the 2^16 steps of a sample, as a model sees it. A likelihood is integrated over this
    /// width to give a probability.
    pub fn bin_width(&self) -> f32 {
        1.0 / (FULL_SCALE * self.deviation)
    }

    /// A sample as a model sees it.
    pub fn apply(&self, sample: i16) -> f32 {
        (f32::from(sample) / FULL_SCALE - self.mean) / self.deviation
    }

    /// The sample of a model's value, clipped at full scale.
    pub fn undo(&self, value: f32) -> i16 {
        // `as` clips values outside to the nearest end, and turns NaN into 0.
        ((value * self.deviation + self.mean) * FULL_SCALE).round() as i16
    }
}

/// The value of a sample at full scale.
const FULL_SCALE: f32 = 32768.0;

/// Recordings of one kind in three parts. A part may be empty; see [`Error::EmptyPart`].
#[derive(Clone, Debug)]
pub struct Corpus {
    name: String,
    frame: FrameShape,
    scale: Scale,
    parts: Parts<Vec<Recording>>,
    origin: Origin,
    notes: Vec<String>,
}

impl Corpus {
    /// A corpus of recordings whose values all fill complete steps of `frame`. Samples get the scale of the
    /// training part.
    pub(crate) fn new(
        name: impl Into<String>,
        frame: FrameShape,
        parts: Parts<Vec<Recording>>,
        origin: Origin,
        notes: Vec<String>,
    ) -> Corpus {
        let scale = sample_scale(&parts.train);
        Corpus {
            name: name.into(),
            frame,
            scale,
            parts,
            origin,
            notes,
        }
    }

    /// Name of the data, e.g. `jsb-chorales`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dimensions of a step as a model sees it: 1 x 1 x 88 notes, 1 x 1 x 200 samples,
    /// 1 x 64 x 64 pixels.
    pub fn frame(&self) -> FrameShape {
        self.frame
    }

    /// The scale of sound samples; [`Scale::IDENTITY`] for all other data.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The recordings of a part.
    pub fn recordings(&self, part: Part) -> &[Recording] {
        self.parts.get(part)
    }

    /// The source of the recordings.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Conversions made while reading, one line each, for the user.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(crate) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// Number of complete steps of a recording.
    pub fn steps(&self, recording: &Recording) -> usize {
        match &recording.values {
            Values::Notes(chords) => chords.len(),
            Values::Samples(samples) => samples.len() / self.frame.size(),
            Values::Pixels(pixels) => pixels.len() / self.frame.size(),
            Values::Numbers(numbers) => numbers.len() / self.frame.size(),
        }
    }

    /// Number of complete steps of all recordings of a part.
    pub fn total_steps(&self, part: Part) -> usize {
        let recordings = self.recordings(part).iter();
        recordings.map(|recording| self.steps(recording)).sum()
    }

    /// SHA-256 over a prefix, the shape of a step, and all values of all parts and
    /// recordings, 64 hexadecimal characters: equal for equal data, however compressed.
    /// `data/README.md` of this crate says byte by byte what is hashed.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new_with_prefix(b"mnemora corpus 1");
        let FrameShape {
            channels,
            height,
            width,
        } = self.frame;
        for dimension in [channels, height, width] {
            hash.update((dimension as u64).to_le_bytes());
        }
        for part in Part::ALL {
            hash.update((self.recordings(part).len() as u64).to_le_bytes());
            for recording in self.recordings(part) {
                hash_values(&mut hash, &recording.values);
            }
        }
        hexadecimal(hash)
    }
}

/// Hashes the kind, the number of values and the values.
fn hash_values(hash: &mut Sha256, values: &Values) {
    let mut start = |kind: u8, count: usize| {
        hash.update([kind]);
        hash.update((count as u64).to_le_bytes());
    };
    match values {
        Values::Notes(chords) => {
            start(0, chords.len());
            for chord in chords {
                hash.update(chord.to_le_bytes());
            }
        }
        Values::Samples(samples) => {
            start(1, samples.len());
            for sample in samples {
                hash.update(sample.to_le_bytes());
            }
        }
        Values::Pixels(pixels) => {
            start(2, pixels.len());
            hash.update(pixels);
        }
        Values::Numbers(numbers) => {
            start(3, numbers.len());
            for number in numbers {
                hash.update(number.to_le_bytes());
            }
        }
    }
}

/// Mean and standard deviation of all samples together; the identity if there are none, or all are
/// equal.
fn sample_scale(recordings: &[Recording]) -> Scale {
    let samples = || {
        recordings
            .iter()
            .flat_map(|recording| match &recording.values {
                Values::Samples(samples) => samples.as_slice(),
                _ => &[],
            })
    };
    // Integer sums are exact: 2^32 samples of 2^30 stay below 2^63.
    let (mut count, mut sum, mut squares) = (0u64, 0i64, 0u128);
    for &sample in samples() {
        count += 1;
        sum += i64::from(sample);
        squares += (i64::from(sample) * i64::from(sample)) as u128;
    }
    if count == 0 {
        return Scale::IDENTITY;
    }
    let mean = sum as f64 / count as f64;
    let variance = squares as f64 / count as f64 - mean * mean;
    if variance <= 0.0 {
        return Scale::IDENTITY;
    }
    let full_scale = f64::from(FULL_SCALE);
    Scale {
        mean: (mean / full_scale) as f32,
        deviation: (variance.sqrt() / full_scale) as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[i16]) -> Recording {
        Recording {
            name: String::new(),
            values: Values::Samples(values.to_vec()),
        }
    }

    #[test]
    fn scale_is_that_of_the_joined_training_samples() {
        let scale = sample_scale(&[samples(&[16384, -16384]), samples(&[16384, -16384, 0, 0])]);
        assert_eq!(scale.mean, 0.0);
        assert!((scale.deviation - 0.5 * (2.0f32 / 3.0).sqrt()).abs() < 1e-6);
        assert_eq!(scale.apply(0), 0.0);
        for sample in [i16::MIN, -1, 0, 1, 1234, i16::MAX] {
            assert_eq!(scale.undo(scale.apply(sample)), sample);
        }
        assert_eq!(scale.undo(1e9), i16::MAX);
        assert!((scale.bin_width() * scale.deviation - 1.0 / 32768.0).abs() < 1e-9);
        assert_eq!(sample_scale(&[samples(&[5, 5, 5])]), Scale::IDENTITY);
        assert_eq!(sample_scale(&[]), Scale::IDENTITY);
    }

    #[test]
    fn parts_are_known_by_their_usual_names() {
        assert_eq!(Part::named("TRAIN"), Some(Part::Train));
        assert_eq!(Part::named("val"), Some(Part::Valid));
        assert_eq!(Part::named("dr1"), None);
        for part in Part::ALL {
            assert_eq!(Part::named(&part.to_string()), Some(part));
        }
    }
}
