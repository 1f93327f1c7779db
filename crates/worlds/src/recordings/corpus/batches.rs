//! Batches of a corpus: whole recordings of different lengths, with a mask. Windows of one length are cut in
//! `windows.rs`.

use rand::RngExt;

use super::{Corpus, Part, Recording, Values};
use crate::{Error, FrameShape, Stream};

/// Sequences for a model, the shorter ones padded with zeros at their end.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceBatch {
    /// `[batch, time, channels, height, width]` row-major; 0 from the end of a sequence on.
    pub values: Vec<f32>,
    /// Number of sequences.
    pub batch: usize,
    /// Steps of the longest sequence.
    pub time: usize,
    /// The dimensions of each step.
    pub frame: FrameShape,
    /// `[batch]`: steps of each sequence, at least 1, at most `time`.
    pub lengths: Vec<usize>,
    /// `[batch]`: the place from which each sequence was cut.
    pub windows: Vec<Window>,
}

impl SequenceBatch {
    /// `[batch, time]`: 1 within a sequence, 0 in its padding.
    pub fn mask(&self) -> Vec<f32> {
        let rows = self.lengths.iter();
        rows.flat_map(|&length| (0..self.time).map(move |step| f32::from(step < length)))
            .collect()
    }

    /// The values at step `time` (from 0) of sequence `row`; `None` outside of the sequence.
    pub fn frame_at(&self, row: usize, time: usize) -> Option<&[f32]> {
        if time >= *self.lengths.get(row)? {
            return None;
        }
        let size = self.frame.size();
        self.values
            .get((row * self.time + time) * size..)?
            .get(..size)
    }
}

/// A piece of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Number of the recording within the part, from 0.
    pub recording: usize,
    /// The step at which it begins, or the sample if the recording is sound.
    pub start: usize,
}

impl Corpus {
    /// The whole recordings with numbers `rows` of a part, padded to the longest of them.
    ///
    /// # Errors
    /// A number is out of range.
    pub fn whole(&self, part: Part, rows: &[usize]) -> Result<SequenceBatch, Error> {
        let recordings = self.recordings(part);
        let windows = rows.iter().map(|&recording| {
            let Some(found) = recordings.get(recording) else {
                return Err(Error::Setting {
                    key: "recording",
                    value: recording,
                    wanted: format!(
                        "the {part} part of {} has {}, counted from 0",
                        self.name(),
                        recordings.len()
                    ),
                });
            };
            let start = 0;
            Ok((Window { recording, start }, self.steps(found)))
        });
        Ok(self.assemble(part, windows.collect::<Result<_, _>>()?))
    }

    /// The recordings of a part with at least `steps` steps.
    pub fn at_least(&self, part: Part, steps: usize) -> Vec<usize> {
        let recordings = self.recordings(part).iter().enumerate();
        recordings
            .filter(|(_, recording)| self.steps(recording) >= steps.max(1))
            .map(|(number, _)| number)
            .collect()
    }

    pub(super) fn empty(&self, part: Part) -> Error {
        Error::EmptyPart {
            data: self.name().to_owned(),
            part,
        }
    }

    /// Windows with these steps as a model sees them, each within its recording.
    pub(super) fn assemble(&self, part: Part, windows: Vec<(Window, usize)>) -> SequenceBatch {
        let frame = self.frame();
        let time = windows.iter().map(|&(_, steps)| steps).max().unwrap_or(0);
        let mut values = Vec::with_capacity(windows.len() * time * frame.size());
        for &(window, steps) in &windows {
            let recording = &self.recordings(part)[window.recording];
            self.extend(&mut values, recording, window.start, steps);
            values.resize(values.len() + (time - steps) * frame.size(), 0.0);
        }
        SequenceBatch {
            values,
            batch: windows.len(),
            time,
            frame,
            lengths: windows.iter().map(|&(_, steps)| steps).collect(),
            windows: windows.into_iter().map(|(window, _)| window).collect(),
        }
    }

    /// `steps` steps of the recording as a model sees them; they must lie within it.
    fn extend(&self, values: &mut Vec<f32>, recording: &Recording, start: usize, steps: usize) {
        let frame = self.frame();
        let size = frame.size();
        match &recording.values {
            Values::Notes(chords) => {
                let chords = &chords[start..start + steps];
                let notes = |&chord: &u128| (0..size).map(move |note| (chord >> note & 1) as f32);
                values.extend(chords.iter().flat_map(notes));
            }
            Values::Samples(samples) => {
                let samples = &samples[start..start + steps * size];
                values.extend(samples.iter().map(|&sample| self.scale().apply(sample)));
            }
            Values::Pixels(pixels) => {
                let intensity = |pixel: u8| f32::from(pixel) / 255.0;
                for image in pixels[start * size..(start + steps) * size].chunks(size) {
                    for channel in 0..frame.channels {
                        let channel = image[channel..].iter().step_by(frame.channels);
                        values.extend(channel.map(|&pixel| intensity(pixel)));
                    }
                }
            }
            Values::Numbers(numbers) => {
                values.extend(&numbers[start * size..(start + steps) * size]);
            }
        }
    }
}

/// A random order of `0..count`. Orders are drawn from the end of the stream, which sequence
/// numbers do not reach.
pub(super) fn shuffled(stream: &Stream, epoch: u64, count: usize) -> Vec<usize> {
    let mut generator = stream.at(u64::MAX - epoch);
    let mut order: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        order.swap(place, generator.random_range(0..=place));
    }
    order
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recordings::corpus::Parts;
    use crate::{FrameShape, Origin};

    /// Recordings of these lengths, with values that encode recording and place.
    pub(crate) fn numbered(lengths: &[usize]) -> Corpus {
        let recording = |(row, &length): (usize, &usize)| Recording {
            name: row.to_string(),
            values: Values::Numbers(
                (0..length)
                    .flat_map(|step| [row as f32, step as f32])
                    .collect(),
            ),
        };
        let train = lengths.iter().enumerate().map(recording).collect();
        let frame = FrameShape {
            channels: 1,
            height: 1,
            width: 2,
        };
        let parts = Parts {
            train,
            ..Parts::default()
        };
        Corpus::new("numbered", frame, parts, Origin::Bundled, Vec::new())
    }

    proptest! {
        #[test]
        fn whole_recordings_have_a_mask_and_zeros_behind(
            lengths in prop::collection::vec(1usize..30, 1..12),
        ) {
            let corpus = numbered(&lengths);
            let rows: Vec<usize> = (0..lengths.len()).rev().collect();
            let drawn = corpus.whole(Part::Train, &rows).unwrap();
            prop_assert_eq!(drawn.time, *lengths.iter().max().unwrap());
            let mask = drawn.mask();
            for (row, window) in drawn.windows.iter().enumerate() {
                prop_assert_eq!(window.recording, rows[row]);
                let length = lengths[window.recording];
                prop_assert_eq!(drawn.lengths[row], length);
                let sum: f32 = mask[row * drawn.time..(row + 1) * drawn.time].iter().sum();
                prop_assert_eq!(sum, length as f32);
                let padding = &drawn.values[(row * drawn.time + length) * 2..(row + 1) * drawn.time * 2];
                prop_assert!(padding.iter().all(|&value| value == 0.0));
            }
        }
    }

    #[test]
    fn colours_come_first_in_a_frame() {
        let frame = FrameShape {
            channels: 3,
            height: 1,
            width: 2,
        };
        let recording = Recording {
            name: String::new(),
            values: Values::Pixels(vec![255, 0, 51, 255, 0, 51]),
        };
        let parts = Parts {
            train: vec![recording],
            ..Parts::default()
        };
        let corpus = Corpus::new("colours", frame, parts, Origin::Bundled, Vec::new());
        let whole = corpus.whole(Part::Train, &[0]).unwrap();
        assert_eq!(whole.values, [1.0, 1.0, 0.0, 0.0, 0.2, 0.2]);
    }
}
