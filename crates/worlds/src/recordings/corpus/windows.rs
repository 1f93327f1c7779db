//! Windows of one length for training, cut from recordings at random.

use rand::RngExt;

use super::batches::shuffled;
use super::{Corpus, Part, Recording, SequenceBatch, Values, Window};
use crate::{Error, Stream, sequence_number};

/// How recordings are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Draw {
    /// Every recording once, in random order, then all again: an epoch visits each recording once,
    /// however long it is.
    #[default]
    EachRecording,
    /// Every window with equal probability: a recording that is twice as long is drawn about twice
    /// as often.
    ByLength,
}

impl Corpus {
    /// Batch `index` of `batch` windows of `steps` steps, for training. A window begins at a random step, or
    /// at a random sample if the recording is sound. Recordings with fewer steps are left out.
    ///
    /// Row `r` depends only on sequence number `index * batch + r` of `stream`: another batch size divides
    /// the same windows into different batches.
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

    /// A line for the user if windows of `steps` leave out shorter recordings.
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

    /// The recordings with at least `steps` steps, each with the number of places where a window can
    /// begin.
    fn candidates(&self, part: Part, steps: usize) -> Result<Vec<(usize, usize)>, Error> {
        crate::settings::check("steps", steps, 1..=usize::MAX, || {
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
}

/// Random orders of `count` recordings, one per epoch.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recordings::corpus::Parts;
    use crate::recordings::corpus::batches::tests::numbered;
    use crate::{FrameShape, Origin};

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
        let error = corpus.whole(Part::Train, &[2]).unwrap_err().to_string();
        assert_eq!(
            error,
            "recording = 2: the train part of numbered has 2, counted from 0"
        );
    }
}
