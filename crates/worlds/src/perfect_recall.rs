//! Perfect recall: watch l digits, then see the first k of them again.
//!
//! Gemici et al. 2017, section 5.1 and Algorithm 1. The paper uses k = 5 and l of 15, 20 and 50.

use std::ops::Range;
use std::sync::Arc;

use rand::RngExt;

use crate::{Batch, Error, FrameShape, Mnist, Split, Stream, Task, sequence_number};

/// Longest prompt accepted: far beyond what a model can be trained through, well within what memory
/// can hold.
const LONGEST: usize = 100_000;

/// Sequences of `l` random digits followed by the first `k` of them, pixel for pixel.
///
/// The digits are drawn uniformly with replacement from the split. A model that remembers the first
/// `k` frames needs no information from the frames of the recall interval `l..l + k`: their KL
/// divergence can fall to zero.
#[derive(Clone, Debug)]
pub struct PerfectRecall {
    data: Arc<Mnist>,
    length: usize,
    recall: usize,
}

impl PerfectRecall {
    /// The task with `length` = l digits to watch (`task.length`) and `recall` = k to see again
    /// (`task.recall`).
    ///
    /// # Errors
    /// `length` is not in `1..=100_000` or `recall` is not in `1..=length`.
    pub fn new(data: Arc<Mnist>, length: usize, recall: usize) -> Result<PerfectRecall, Error> {
        if !(1..=LONGEST).contains(&length) {
            let wanted = format!("the digits to watch must be from 1 to {LONGEST}");
            return Err(Error::Setting {
                key: "task.length",
                value: length,
                wanted,
            });
        }
        if !(1..=length).contains(&recall) {
            let wanted = format!("the digits to recall must be from 1 to task.length = {length}");
            return Err(Error::Setting {
                key: "task.recall",
                value: recall,
                wanted,
            });
        }
        Ok(PerfectRecall {
            data,
            length,
            recall,
        })
    }
}

impl Task for PerfectRecall {
    fn name(&self) -> &'static str {
        "perfect-recall"
    }

    fn time(&self) -> usize {
        self.length + self.recall
    }

    fn frame(&self) -> FrameShape {
        FrameShape {
            channels: 1,
            height: Mnist::ROWS,
            width: Mnist::COLUMNS,
        }
    }

    fn condition_width(&self) -> usize {
        0
    }

    fn prompt(&self) -> usize {
        self.length
    }

    fn recall_interval(&self) -> Option<Range<usize>> {
        Some(self.length..self.time())
    }

    fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> Batch {
        let digits = self.data.split(split);
        let time = self.time();
        let steps = batch * time;
        let mut frames = Vec::with_capacity(steps * self.frame().size());
        let mut labels = Vec::with_capacity(steps);
        let mut sources = Vec::with_capacity(steps);
        for row in 0..batch {
            let mut generator = stream.at(sequence_number(index, batch, row));
            let instances: Vec<usize> = (0..self.length)
                .map(|_| generator.random_range(0..digits.len()))
                .collect();
            for &instance in instances.iter().chain(instances.iter().take(self.recall)) {
                let digit = digits
                    .digit(instance)
                    .expect("instances are drawn below the number of digits");
                frames.extend(digit.image.iter().map(|&pixel| f32::from(pixel) / 255.0));
                labels.push(u16::from(digit.label));
            }
            sources.extend((0..time).map(|step| step.checked_sub(self.length)));
        }
        let predictable = sources.iter().map(Option::is_some).collect();
        Batch {
            frames,
            batch,
            time,
            frame: self.frame(),
            conditions: None,
            labels,
            predictable,
            sources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::sync::LazyLock;

    static DIGITS: LazyLock<Arc<Mnist>> =
        LazyLock::new(|| Arc::new(Mnist::bundled().expect("the bundled digits are sound")));

    fn task(length: usize, recall: usize) -> PerfectRecall {
        PerfectRecall::new(DIGITS.clone(), length, recall).expect("settings are in range")
    }

    /// l and k with 1 <= k <= l.
    fn lengths() -> impl Strategy<Value = (usize, usize)> {
        (1usize..12).prop_flat_map(|length| (Just(length), 1..=length))
    }

    fn split() -> impl Strategy<Value = Split> {
        prop_oneof![Just(Split::Train), Just(Split::Test)]
    }

    /// The label of every image of a split, by its pixels.
    fn labels_by_image(split: Split) -> HashMap<&'static [u8], u8> {
        let digits = DIGITS.split(split);
        (0..digits.len())
            .filter_map(|index| digits.digit(index))
            .map(|digit| (digit.image, digit.label))
            .collect()
    }

    fn pixels(frame: &[f32]) -> Vec<u8> {
        frame
            .iter()
            .map(|intensity| (intensity * 255.0).round() as u8)
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn recall_frames_repeat_the_first(
            (l, k) in lengths(),
            split in split(),
            seed: u64,
            index: u64,
        ) {
            let batch = task(l, k).batch(split, &Stream::new(seed, "data"), index, 3);
            for row in 0..3 {
                let labels = &batch.labels[row * (l + k)..(row + 1) * (l + k)];
                prop_assert_eq!(&labels[l..], &labels[..k]);
                for step in 0..k {
                    prop_assert_eq!(batch.frame_at(row, l + step), batch.frame_at(row, step));
                }
            }
        }

        #[test]
        fn masks_are_the_recall_interval((l, k) in lengths(), seed: u64) {
            let task = task(l, k);
            let batch = task.batch(Split::Train, &Stream::new(seed, "data"), 0, 2);
            let interval = task.recall_interval().expect("a recall task has an interval");
            prop_assert_eq!(&interval, &(l..l + k));
            prop_assert_eq!(task.prompt(), l);
            for row in 0..2 {
                for step in 0..l + k {
                    let position = row * (l + k) + step;
                    let recalled = interval.contains(&step);
                    prop_assert_eq!(batch.predictable[position], recalled);
                    prop_assert_eq!(batch.sources[position], recalled.then(|| step - l));
                }
            }
        }

        #[test]
        fn dimensions_and_intensities_are_as_stated(
            (l, k) in lengths(),
            rows in 0usize..4,
            seed: u64,
        ) {
            let task = task(l, k);
            let batch = task.batch(Split::Test, &Stream::new(seed, "data"), 0, rows);
            prop_assert_eq!((batch.batch, batch.time), (rows, task.time()));
            prop_assert_eq!(batch.frame, task.frame());
            prop_assert_eq!(batch.frames.len(), rows * (l + k) * 784);
            prop_assert_eq!(batch.labels.len(), rows * (l + k));
            prop_assert_eq!(batch.predictable.len(), rows * (l + k));
            prop_assert_eq!(batch.sources.len(), rows * (l + k));
            prop_assert_eq!((task.condition_width(), &batch.conditions), (0, &None));
            prop_assert!(batch.frames.iter().all(|intensity| (0.0..=1.0).contains(intensity)));
        }

        #[test]
        fn batch_is_a_function_of_seed_and_index(
            (l, k) in lengths(),
            split in split(),
            seed: u64,
            index: u64,
        ) {
            let make = |seed, index| task(l, k).batch(split, &Stream::new(seed, "data"), index, 2);
            prop_assert_eq!(make(seed, index), make(seed, index));
        }

        #[test]
        fn other_seeds_and_indices_give_other_batches(split in split(), seed: u64, index: u64) {
            let make = |seed, index| task(11, 1).batch(split, &Stream::new(seed, "data"), index, 2);
            prop_assert_ne!(make(seed, index), make(seed, index.wrapping_add(1)));
            prop_assert_ne!(make(seed, index), make(seed.wrapping_add(1), index));
        }

        #[test]
        fn batch_size_only_regroups_sequences(seed: u64, index in 0u64..1000) {
            let stream = Stream::new(seed, "data");
            let make = |index, size| task(3, 2).batch(Split::Train, &stream, index, size);
            let (first, second) = (make(2 * index, 2), make(2 * index + 1, 2));
            prop_assert_eq!(make(index, 4).frames, [first.frames, second.frames].concat());
        }
    }

    #[test]
    fn splits_never_mix_and_labels_are_right() {
        for (own, other) in [(Split::Train, Split::Test), (Split::Test, Split::Train)] {
            let (own_labels, other_labels) = (labels_by_image(own), labels_by_image(other));
            let batch = task(20, 5).batch(own, &Stream::new(5, "data"), 0, 40);
            for (row, step) in (0..40).flat_map(|row| (0..25).map(move |step| (row, step))) {
                let image = pixels(batch.frame_at(row, step).expect("inside the batch"));
                let label = own_labels
                    .get(image.as_slice())
                    .map(|&label| u16::from(label));
                assert_eq!(label, Some(batch.labels[row * 25 + step]));
                assert!(!other_labels.contains_key(image.as_slice()));
            }
        }
    }

    #[test]
    fn digits_are_drawn_uniformly_with_replacement() {
        let digits = DIGITS.split(Split::Test);
        let drawn = 20_000;
        let batch = task(drawn, 1).batch(Split::Test, &Stream::new(2, "data"), 0, 1);
        for class in 0..10u16 {
            let share = |labels: &[u16]| {
                labels.iter().filter(|&&label| label == class).count() as f64 / labels.len() as f64
            };
            let present: Vec<u16> = digits
                .labels()
                .iter()
                .map(|&label| u16::from(label))
                .collect();
            assert!(
                (share(&batch.labels) - share(&present)).abs() < 0.01,
                "class {class}"
            );
        }
    }

    /// Pins which digits a seed selects: a change makes all published numbers incomparable.
    #[test]
    fn golden_labels() {
        let batch = task(6, 2).batch(Split::Train, &Stream::new(1, "data"), 0, 2);
        assert_eq!(
            batch.labels,
            [0, 4, 2, 6, 4, 3, 0, 4, 0, 1, 2, 4, 7, 6, 0, 1]
        );
    }

    #[test]
    fn impossible_settings_name_their_key() {
        let message = |length, recall| {
            PerfectRecall::new(DIGITS.clone(), length, recall)
                .expect_err("out of range")
                .to_string()
        };
        assert_eq!(
            message(0, 1),
            "task.length = 0: the digits to watch must be from 1 to 100000"
        );
        assert_eq!(
            message(usize::MAX, 1),
            format!(
                "task.length = {}: the digits to watch must be from 1 to 100000",
                usize::MAX
            )
        );
        assert_eq!(
            message(5, 0),
            "task.recall = 0: the digits to recall must be from 1 to task.length = 5"
        );
        assert_eq!(
            message(5, 6),
            "task.recall = 6: the digits to recall must be from 1 to task.length = 5"
        );
    }
}
