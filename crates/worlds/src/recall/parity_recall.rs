//! Parity recall: watch l digits, then see for each of the first k whether it was even or odd.
//!
//! Gemici et al. 2017, section 5.2 and Algorithm 2. The paper uses k = 5 and l of 15, 20 and 50.
//! Its section 5.2 and the samples of figure 23 show a 1 for an even digit and a 0 for an odd one;
//! so does this task. The caption of figure 22 says the opposite.

use std::sync::Arc;

use rand::RngExt;

use super::sequence::{Sequence, assemble, recall_layout};
use super::{FrameTask, ImageSet, LENGTH, RECALL};
use crate::settings::{check_length, check_recall};
use crate::{Batch, DataSet, Error, Layout, Split, Stream, Task};

/// The task in the table of tasks.
pub(super) const TASK: FrameTask = FrameTask {
    name: "parity-recall",
    about: "watch digits, then see whether the first of them were even or odd",
    images: ImageSet::Digits,
    sizes: &[LENGTH, RECALL],
    laid_out: |sizes| layout(sizes.get(LENGTH), sizes.get(RECALL)),
    opened: |data, sizes| {
        let task = ParityRecall::new(data, sizes.get(LENGTH), sizes.get(RECALL))?;
        Ok(Arc::new(task))
    },
};

fn layout(length: usize, recall: usize) -> Layout {
    recall_layout(TASK.name, length, recall)
}

/// The digit that reports on a digit with this label.
fn report(label: u16) -> u16 {
    u16::from(label.is_multiple_of(2))
}

/// Sequences of `l` random digits followed by `k` ones and zeros: frame `l + j` is a random image of
/// a 1 if digit `j` is even, and of a 0 if it is odd.
///
/// The past determines which digit each frame of the recall interval `l..l + k` shows, but not its
/// handwriting: those frames are predictable and have no source.
#[derive(Clone, Debug)]
pub struct ParityRecall {
    data: Arc<DataSet>,
    layout: Layout,
    length: usize,
    recall: usize,
}

impl ParityRecall {
    /// The task `parity-recall` with `length` = l digits to watch (`task.length`) and `recall` = k
    /// to report on (`task.recall`).
    ///
    /// # Errors
    /// `length` is not in `1..=100_000`, `recall` is not in `1..=length`, or a split of the data has
    /// no image of class 0 or 1.
    pub fn new(data: Arc<DataSet>, length: usize, recall: usize) -> Result<ParityRecall, Error> {
        check_length(length)?;
        check_recall(recall, length)?;
        for split in [Split::Train, Split::Test] {
            for class in [0, 1] {
                if data.split(split).instances(class).is_empty() {
                    return Err(Error::MissingClass {
                        task: "parity-recall",
                        data: data.name(),
                        split,
                        class,
                    });
                }
            }
        }
        Ok(ParityRecall {
            data,
            layout: layout(length, recall),
            length,
            recall,
        })
    }
}

impl Task for ParityRecall {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> Batch {
        let images = self.data.split(split);
        let time = self.time();
        assemble(images, stream, index, batch, time, |generator| {
            let mut sequence = Sequence::watched(images, self.length, time, generator);
            for step in 0..self.recall {
                let label = images.labels()[sequence.instance(step)];
                let reports = images.instances(report(label));
                sequence.show_predictable(reports[generator.random_range(0..reports.len())]);
            }
            sequence
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DIGITS, assert_sound, lengths, split};
    use proptest::prelude::*;

    fn task(length: usize, recall: usize) -> ParityRecall {
        ParityRecall::new(DIGITS.clone(), length, recall).expect("settings are in range")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn batches_are_sound((l, k) in lengths(), split in split(), seed: u64, index: u64) {
            assert_sound(&task(l, k), &DIGITS, split, seed, index);
        }

        #[test]
        fn ones_report_even_digits_and_zeros_odd_ones((l, k) in lengths(), split in split(), seed: u64) {
            let task = task(l, k);
            let batch = task.batch(split, &Stream::new(seed, "data"), 0, 3);
            for labels in batch.labels.chunks(l + k) {
                for step in 0..k {
                    let even = [0, 2, 4, 6, 8].contains(&labels[step]);
                    prop_assert_eq!(labels[l + step], if even { 1 } else { 0 });
                }
            }
        }

        #[test]
        fn masks_are_the_recall_interval((l, k) in lengths(), seed: u64) {
            let task = task(l, k);
            prop_assert_eq!((task.prompt(), task.recall_interval()), (l, Some(l..l + k)));
            let batch = task.batch(Split::Train, &Stream::new(seed, "data"), 0, 2);
            let predictable: Vec<bool> = (0..2).flat_map(|_| (0..l + k).map(|step| step >= l)).collect();
            prop_assert_eq!(batch.predictable, predictable);
            prop_assert!(batch.sources.iter().all(Option::is_none));
        }
    }

    #[test]
    fn reports_are_in_many_hands() {
        let batch = task(200, 200).batch(Split::Train, &Stream::new(3, "data"), 0, 1);
        let mut reports: Vec<Vec<u32>> = (200..400)
            .filter_map(|step| batch.frame_at(0, step))
            .map(|frame| frame.iter().map(|intensity| intensity.to_bits()).collect())
            .collect();
        reports.sort();
        reports.dedup();
        assert!(reports.len() > 150, "{} different images", reports.len());
    }

    #[test]
    fn golden_labels() {
        let batch = task(6, 3).batch(Split::Train, &Stream::new(1, "data"), 0, 2);
        assert_eq!(
            batch.labels,
            [0, 4, 2, 6, 4, 3, 1, 1, 1, 0, 1, 2, 4, 7, 6, 1, 0, 1]
        );
    }

    #[test]
    fn impossible_settings_name_their_key() {
        let message = |length, recall| {
            ParityRecall::new(DIGITS.clone(), length, recall)
                .expect_err("out of range")
                .to_string()
        };
        assert_eq!(
            message(0, 1),
            "task.length = 0: the images to watch must be from 1 to 100000"
        );
        assert_eq!(
            message(5, 6),
            "task.recall = 6: the images to recall must be from 1 to task.length = 5"
        );
    }

    #[test]
    fn zeros_and_ones_are_needed() {
        let data = crate::testing::constant_images(&[0, 1, 2], &[0, 2]);
        let error = ParityRecall::new(data, 5, 2).expect_err("the test split has no 1");
        assert_eq!(
            error.to_string(),
            "parity-recall: the test split of mnist has no image of class 1, which the task needs for its answers"
        );
    }
}
