//! Batches of a corpus: windows of one length for training, whole recordings of unequal length with
//! a mask, and buckets of recordings that are about equally long.
//!
//! Batch `index` is a pure function of the corpus, the part, the stream and `index`.

use rand::RngExt;

use super::{Corpus, Part, Recording, Values};
use crate::{Error, FrameShape, Stream, sequence_number};

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
    /// `[batch]`: where each sequence was cut.
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
    /// Which recording of the part, from 0.
    pub recording: usize,
    /// Where it begins: at this step or, in a recording of sound, at this sample.
    pub start: usize,
}

/// How recordings are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Draw {
    /// Every recording once, in random order, then every one again: an epoch visits each once,
    /// however long it is.
    #[default]
    EachRecording,
    /// Every window with equal probability: a recording of twice the length is drawn about twice
    /// as often.
    ByLength,
}

impl Corpus {
    /// Batch `index` of `batch` windows of `steps` steps, for training. Where a window begins is
    /// random, in sound to the sample. Recordings with fewer steps are left out.
    ///
    /// Row `r` depends on sequence number `index * batch + r` of `stream` alone, so that another
    /// batch size cuts the same windows into other batches.
    ///
    /// # Errors
    /// No recording of the part has `steps` steps, or `steps` is 0.
    pub fn window_batch(
        &self,
        part: Part,
        stream: &Stream,
        index: u64,
        batch: usize,
        steps: usize,
        draw: Draw,
    ) -> Result<SequenceBatch, Error> {
        let candidates = self.candidates(part, steps)?;
        let mut order = Order::new(stream, candidates.len());
        let starts = |candidate: usize| {
            let recording = candidates.get(candidate).map(|&(_, starts)| starts);
            recording.expect("below the number of candidates")
        };
        let total: usize = candidates.iter().map(|&(_, starts)| starts).sum();
        let windows = (0..batch).map(|row| {
            let number = sequence_number(index, batch, row);
            let mut generator = stream.at(number);
            let (candidate, start) = match draw {
                Draw::EachRecording => {
                    let candidate = order.at(number);
                    (candidate, generator.random_range(0..starts(candidate)))
                }
                Draw::ByLength => {
                    let mut place = generator.random_range(0..total);
                    let mut candidate = 0;
                    while place >= starts(candidate) {
                        place -= starts(candidate);
                        candidate += 1;
                    }
                    (candidate, place)
                }
            };
            let (recording, _) = candidates[candidate];
            Window { recording, start }
        });
        Ok(self.assemble(part, windows.map(|window| (window, steps)).collect()))
    }

    /// Whole recordings of a part, `rows` by their numbers, padded to the longest of them.
    ///
    /// # Errors
    /// A number beyond the part.
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

    /// The recordings with at least `shortest` steps in groups of at most `batch`, each of about
    /// equal length: shortest first. For evaluation, with [`Corpus::whole`].
    pub fn buckets(&self, part: Part, batch: usize, shortest: usize) -> Vec<Vec<usize>> {
        let mut rows = self.at_least(part, shortest);
        rows.sort_by_key(|&row| self.steps(&self.recordings(part)[row]));
        rows.chunks(batch.max(1)).map(<[usize]>::to_vec).collect()
    }

    /// Batch `index` of at most `batch` whole recordings of about equal length, for training on
    /// unequal ones. An epoch visits every recording once: they are shuffled, sorted by length, cut
    /// into buckets, and the buckets are shuffled.
    ///
    /// # Errors
    /// The part is empty.
    pub fn bucket_batch(
        &self,
        part: Part,
        stream: &Stream,
        index: u64,
        batch: usize,
    ) -> Result<SequenceBatch, Error> {
        let rows = self.at_least(part, 1);
        if rows.is_empty() {
            return Err(self.empty(part));
        }
        let batch = batch.max(1);
        let count = rows.len().div_ceil(batch) as u64;
        let (epoch, place) = (index / count, index % count);
        let mut members = shuffled(stream, 2 * epoch, rows.len());
        members.sort_by_key(|&member| self.steps(&self.recordings(part)[rows[member]]));
        let bucket = shuffled(stream, 2 * epoch + 1, count as usize)[place as usize];
        let chosen: Vec<usize> = members
            .chunks(batch)
            .nth(bucket)
            .expect("as many chunks as were counted")
            .iter()
            .map(|&member| rows[member])
            .collect();
        self.whole(part, &chosen)
    }

    /// The recordings of a part with at least `steps` steps.
    pub fn at_least(&self, part: Part, steps: usize) -> Vec<usize> {
        let recordings = self.recordings(part).iter().enumerate();
        recordings
            .filter(|(_, recording)| self.steps(recording) >= steps.max(1))
            .map(|(number, _)| number)
            .collect()
    }

    /// A line for the user where windows of `steps` leave out recordings that are shorter.
    pub fn left_out(&self, part: Part, steps: usize) -> Option<String> {
        let recordings = self.recordings(part);
        let short = |recording: &&Recording| self.steps(recording) < steps;
        let first = recordings.iter().find(short)?;
        Some(format!(
            "{}: {} of {} recordings of the {part} part are shorter than {steps} steps and left out (first {}, {})",
            self.name(),
            recordings.iter().filter(short).count(),
            recordings.len(),
            first.name,
            self.steps(first)
        ))
    }

    fn empty(&self, part: Part) -> Error {
        Error::EmptyPart {
            data: self.name().to_owned(),
            part,
        }
    }

    /// The recordings that hold a window of `steps`, each with the number of places where one can
    /// begin.
    fn candidates(&self, part: Part, steps: usize) -> Result<Vec<(usize, usize)>, Error> {
        crate::sequence::check("steps", steps, 1..=usize::MAX, || {
            "a window needs at least 1 step".to_owned()
        })?;
        let rows = self.at_least(part, steps);
        if rows.is_empty() {
            let recordings = self.recordings(part).iter();
            let longest = recordings.map(|recording| self.steps(recording)).max();
            return Err(match longest {
                None => self.empty(part),
                Some(longest) => Error::ShortRecordings {
                    data: self.name().to_owned(),
                    part,
                    steps,
                    longest,
                },
            });
        }
        let starts = |row: usize| {
            let recording = &self.recordings(part)[row];
            match &recording.values {
                Values::Samples(samples) => samples.len() - steps * self.frame().size() + 1,
                _ => self.steps(recording) - steps + 1,
            }
        };
        Ok(rows.into_iter().map(|row| (row, starts(row))).collect())
    }

    fn assemble(&self, part: Part, windows: Vec<(Window, usize)>) -> SequenceBatch {
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

    /// What a model sees of `steps` steps that lie within the recording.
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

/// Random orders of `count` recordings, one an epoch.
struct Order<'a> {
    stream: &'a Stream,
    count: usize,
    epoch: Option<(u64, Vec<usize>)>,
}

impl Order<'_> {
    fn new(stream: &Stream, count: usize) -> Order<'_> {
        Order {
            stream,
            count,
            epoch: None,
        }
    }

    fn at(&mut self, number: u64) -> usize {
        let count = self.count as u64;
        let (epoch, place) = (number / count, (number % count) as usize);
        match &self.epoch {
            Some((known, order)) if *known == epoch => order[place],
            _ => {
                let order = shuffled(self.stream, epoch, self.count);
                let found = order[place];
                self.epoch = Some((epoch, order));
                found
            }
        }
    }
}

/// A random order of `0..count`. Orders are drawn from the end of the stream, where no sequence
/// number reaches.
fn shuffled(stream: &Stream, epoch: u64, count: usize) -> Vec<usize> {
    let mut generator = stream.at(u64::MAX - epoch);
    let mut order: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        order.swap(place, generator.random_range(0..=place));
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::corpus::Parts;
    use crate::{FrameShape, Origin};

    /// Recordings of these lengths, in which every step names its recording and place.
    fn numbered(lengths: &[usize]) -> Corpus {
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

    fn windows(corpus: &Corpus, index: u64, batch: usize, steps: usize, draw: Draw) -> Vec<Window> {
        let stream = Stream::new(3, "data");
        let batch = corpus
            .window_batch(Part::Train, &stream, index, batch, steps, draw)
            .expect("some recording is long enough");
        for (row, window) in batch.windows.iter().enumerate() {
            for step in 0..steps {
                let wanted = [window.recording as f32, (window.start + step) as f32];
                assert_eq!(batch.frame_at(row, step), Some(&wanted[..]));
            }
            assert_eq!(batch.frame_at(row, steps), None);
        }
        assert!(batch.mask().iter().all(|&weight| weight == 1.0));
        batch.windows
    }

    proptest! {
        #[test]
        fn a_window_is_a_function_of_seed_and_number(
            lengths in prop::collection::vec(1usize..30, 1..8),
            steps in 1usize..10,
            index in 0u64..50,
        ) {
            prop_assume!(lengths.iter().any(|&length| length >= steps));
            let corpus = numbered(&lengths);
            for draw in [Draw::EachRecording, Draw::ByLength] {
                let batch = windows(&corpus, index, 3, steps, draw);
                let singles = (0..3).flat_map(|row| windows(&corpus, 3 * index + row, 1, steps, draw));
                prop_assert!(batch.iter().copied().eq(singles));
                for window in batch {
                    prop_assert!(window.start + steps <= lengths[window.recording]);
                }
            }
        }

        #[test]
        fn an_epoch_visits_each_long_enough_recording_once(
            lengths in prop::collection::vec(1usize..30, 1..8),
            epoch in 0u64..20,
        ) {
            let corpus = numbered(&lengths);
            let long = corpus.at_least(Part::Train, 10);
            prop_assume!(!long.is_empty());
            let count = long.len();
            let mut visited: Vec<usize> = windows(&corpus, epoch, count, 10, Draw::EachRecording)
                .iter()
                .map(|window| window.recording)
                .collect();
            visited.sort();
            prop_assert_eq!(visited, long);
        }

        #[test]
        fn buckets_hold_every_recording_once_with_its_mask(
            lengths in prop::collection::vec(1usize..30, 1..12),
            batch in 1usize..5,
            epoch in 0u64..9,
        ) {
            let corpus = numbered(&lengths);
            let stream = Stream::new(5, "data");
            let count = lengths.len().div_ceil(batch) as u64;
            let mut visited = Vec::new();
            for index in 0..count {
                let index = epoch * count + index;
                let drawn = corpus.bucket_batch(Part::Train, &stream, index, batch).unwrap();
                prop_assert_eq!(&drawn, &corpus.bucket_batch(Part::Train, &stream, index, batch).unwrap());
                prop_assert_eq!(drawn.time, *drawn.lengths.iter().max().unwrap());
                let mask = drawn.mask();
                for (row, window) in drawn.windows.iter().enumerate() {
                    let length = lengths[window.recording];
                    prop_assert_eq!(drawn.lengths[row], length);
                    let sum: f32 = mask[row * drawn.time..(row + 1) * drawn.time].iter().sum();
                    prop_assert_eq!(sum, length as f32);
                    let padding = &drawn.values[(row * drawn.time + length) * 2..(row + 1) * drawn.time * 2];
                    prop_assert!(padding.iter().all(|&value| value == 0.0));
                    visited.push(window.recording);
                }
            }
            visited.sort();
            prop_assert!(visited.into_iter().eq(0..lengths.len()));

            let buckets = corpus.buckets(Part::Train, batch, 1);
            let sorted: Vec<usize> = buckets.concat().iter().map(|&row| lengths[row]).collect();
            prop_assert!(sorted.is_sorted());
            prop_assert_eq!(sorted.len(), lengths.len());
        }
    }

    #[test]
    fn long_recordings_are_drawn_more_often_by_length() {
        let corpus = numbered(&[10, 91]);
        let drawn = windows(&corpus, 0, 2000, 2, Draw::ByLength);
        let long = drawn.iter().filter(|window| window.recording == 1).count();
        assert!((1750..1850).contains(&long), "{long}");
    }

    #[test]
    fn sound_is_cut_at_any_sample_and_an_incomplete_frame_dropped() {
        let frame = FrameShape {
            channels: 1,
            height: 1,
            width: 4,
        };
        let samples: Vec<i16> = (0..11).map(|sample| sample * 100).collect();
        let recording = Recording {
            name: "ramp".to_owned(),
            values: Values::Samples(samples.clone()),
        };
        let parts = Parts {
            train: vec![recording.clone()],
            test: vec![recording],
            ..Parts::default()
        };
        let corpus = Corpus::new("ramp", frame, parts, Origin::Bundled, Vec::new());
        let whole = corpus.whole(Part::Test, &[0]).unwrap();
        assert_eq!((whole.time, whole.values.len()), (2, 8));
        assert_eq!(whole.values[7], corpus.scale().apply(700));
        let stream = Stream::new(1, "data");
        let mut starts = std::collections::BTreeSet::new();
        for index in 0..200 {
            let batch = corpus
                .window_batch(Part::Train, &stream, index, 1, 2, Draw::EachRecording)
                .unwrap();
            let start = batch.windows[0].start;
            assert_eq!(batch.values[0], corpus.scale().apply(samples[start]));
            starts.insert(start);
        }
        assert!(starts.into_iter().eq(0..=3));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let corpus = numbered(&[3, 5]);
        let stream = Stream::new(1, "data");
        let window = |part, steps| {
            corpus
                .window_batch(part, &stream, 0, 1, steps, Draw::EachRecording)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            window(Part::Train, 6),
            "numbered: windows of 6 steps, but the longest recording of the train part has 5; use shorter windows"
        );
        assert_eq!(
            window(Part::Test, 1),
            "numbered: the test part holds no recordings"
        );
        assert!(window(Part::Train, 0).starts_with("steps = 0: "));
        assert_eq!(
            corpus.left_out(Part::Train, 4).unwrap(),
            "numbered: 1 of 2 recordings of the train part are shorter than 4 steps and left out (first 0, 3)"
        );
        assert_eq!(corpus.left_out(Part::Train, 3), None);
        assert!(corpus.bucket_batch(Part::Valid, &stream, 0, 2).is_err());
        let error = corpus.whole(Part::Train, &[2]).unwrap_err().to_string();
        assert_eq!(
            error,
            "recording = 2: the train part of numbered has 2, counted from 0"
        );
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
