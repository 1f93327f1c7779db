//! Perfect recall: watch l images, then see the first k of them again. One-shot recall: the same,
//! tested on characters that training never shows.
//!
//! Gemici et al. 2017, sections 5.1 and 5.3, Algorithm 1. The paper uses digits with k = 5 and l of
//! 15, 20 and 50 for perfect recall, Omniglot with k = 5 and l = 20 for one-shot recall.

use std::sync::Arc;

use super::sequence::{Sequence, assemble, recall_layout};
use super::{FrameTask, ImageSet, LENGTH, RECALL};
use crate::settings::{check_length, check_recall};
use crate::{Batch, DataSet, Error, Layout, Split, Stream, Task};

/// The name of the task.
const NAME: &str = "perfect-recall";
/// The name of the same task with new characters.
const ONE_SHOT_NAME: &str = "one-shot-recall";

/// The task in the table of tasks.
pub(super) const TASK: FrameTask = FrameTask {
    name: NAME,
    about: "watch digits, then see the first of them again",
    images: ImageSet::Digits,
    sizes: &[LENGTH, RECALL],
    laid_out: |sizes| recall_layout(NAME, sizes.get(LENGTH), sizes.get(RECALL)),
    opened: |data, sizes| {
        let task = PerfectRecall::new(data, sizes.get(LENGTH), sizes.get(RECALL))?;
        Ok(Arc::new(task))
    },
};

/// The task in the table of tasks.
pub(super) const ONE_SHOT: FrameTask = FrameTask {
    name: ONE_SHOT_NAME,
    about: "watch characters never seen in training, then see the first of them again",
    images: ImageSet::Characters,
    sizes: &[LENGTH, RECALL],
    laid_out: |sizes| recall_layout(ONE_SHOT_NAME, sizes.get(LENGTH), sizes.get(RECALL)),
    opened: |data, sizes| {
        let task = PerfectRecall::one_shot(data, sizes.get(LENGTH), sizes.get(RECALL))?;
        Ok(Arc::new(task))
    },
};

/// Sequences of `l` random images followed by the first `k` of them, pixel for pixel.
///
/// The images are drawn uniformly with replacement from the split. A model that remembers the first
/// `k` frames needs no information from the frames of the recall interval `l..l + k`: their KL
/// divergence can fall to zero.
#[derive(Clone, Debug)]
pub struct PerfectRecall {
    data: Arc<DataSet>,
    layout: Layout,
    length: usize,
    recall: usize,
}

impl PerfectRecall {
    /// The task `perfect-recall` with `length` = l images to watch (`task.length`) and `recall` = k
    /// to see again (`task.recall`).
    ///
    /// # Errors
    /// `length` is not in `1..=100_000` or `recall` is not in `1..=length`.
    pub fn new(data: Arc<DataSet>, length: usize, recall: usize) -> Result<PerfectRecall, Error> {
        PerfectRecall::named(NAME, data, length, recall)
    }

    /// The task `one-shot-recall`: sequences made in the same way from data whose splits have different
    /// classes, so that every image in a test sequence is of a class that was never trained on.
    ///
    /// # Errors
    /// As [`PerfectRecall::new`]; or both splits of the data contain the same class.
    pub fn one_shot(
        data: Arc<DataSet>,
        length: usize,
        recall: usize,
    ) -> Result<PerfectRecall, Error> {
        let trained = |class: &&u16| !data.split(Split::Train).instances(**class).is_empty();
        if let Some(&class) = data.split(Split::Test).labels().iter().find(trained) {
            return Err(Error::SharedClass {
                task: ONE_SHOT_NAME,
                data: data.name(),
                class,
            });
        }
        PerfectRecall::named(ONE_SHOT_NAME, data, length, recall)
    }

    fn named(
        name: &'static str,
        data: Arc<DataSet>,
        length: usize,
        recall: usize,
    ) -> Result<PerfectRecall, Error> {
        check_length(length)?;
        check_recall(recall, length)?;
        Ok(PerfectRecall {
            data,
            layout: recall_layout(name, length, recall),
            length,
            recall,
        })
    }
}

impl Task for PerfectRecall {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> Batch {
        let images = self.data.split(split);
        let time = self.time();
        assemble(images, stream, index, batch, time, |generator| {
            let mut sequence = Sequence::watched(images, self.length, time, generator);
            for step in 0..self.recall {
                sequence.repeat(step);
            }
            sequence
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        DIGITS, assert_sound, constant_images, labels_by_image, lengths, pixels, split,
    };
    use proptest::prelude::*;

    fn task(length: usize, recall: usize) -> PerfectRecall {
        PerfectRecall::new(DIGITS.clone(), length, recall).expect("settings are in range")
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
        fn batches_are_sound((l, k) in lengths(), split in split(), seed: u64, index: u64) {
            assert_sound(&task(l, k), &DIGITS, split, seed, index);
        }

        #[test]
        fn other_seeds_and_indices_give_other_batches(split in split(), seed: u64, index: u64) {
            let make = |seed, index| task(11, 1).batch(split, &Stream::new(seed, "data"), index, 2);
            prop_assert_ne!(make(seed, index), make(seed, index.wrapping_add(1)));
            prop_assert_ne!(make(seed, index), make(seed.wrapping_add(1), index));
        }
    }

    #[test]
    fn splits_never_mix_and_labels_are_right() {
        for (own, other) in [(Split::Train, Split::Test), (Split::Test, Split::Train)] {
            let (own_labels, other_labels) = (
                labels_by_image(DIGITS.split(own)),
                labels_by_image(DIGITS.split(other)),
            );
            let batch = task(20, 5).batch(own, &Stream::new(5, "data"), 0, 40);
            for (row, step) in (0..40).flat_map(|row| (0..25).map(move |step| (row, step))) {
                let image = pixels(batch.frame_at(row, step).expect("inside the batch"));
                let label = own_labels.get(image.as_slice());
                assert_eq!(label, Some(&batch.labels[row * 25 + step]));
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
            assert!(
                (share(&batch.labels) - share(digits.labels())).abs() < 0.01,
                "class {class}"
            );
        }
    }

    /// Fixes the digits that a seed selects: a change would make all published numbers incomparable.
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
            "task.length = 0: the images to watch must be from 1 to 100000"
        );
        assert_eq!(
            message(usize::MAX, 1),
            format!(
                "task.length = {}: the images to watch must be from 1 to 100000",
                usize::MAX
            )
        );
        assert_eq!(
            message(5, 0),
            "task.recall = 0: the images to recall must be from 1 to task.length = 5"
        );
        assert_eq!(
            message(5, 6),
            "task.recall = 6: the images to recall must be from 1 to task.length = 5"
        );
    }

    #[test]
    fn one_shot_recall_is_perfect_recall_of_classes_never_trained_on() {
        let data = constant_images(&[0, 2, 4, 4], &[1, 3, 5]);
        let one_shot = PerfectRecall::one_shot(data.clone(), 4, 2).expect("no class is shared");
        assert_eq!(one_shot.name(), "one-shot-recall");
        let perfect = PerfectRecall::new(data, 4, 2).expect("settings are in range");
        assert_eq!(perfect.name(), "perfect-recall");
        let stream = Stream::new(3, "data");
        for split in [Split::Train, Split::Test] {
            let batch = one_shot.batch(split, &stream, 2, 5);
            assert_eq!(batch, perfect.batch(split, &stream, 2, 5));
        }

        let data = constant_images(&[0, 2, 5], &[1, 5]);
        let error = PerfectRecall::one_shot(data, 4, 2).expect_err("class 5 is shared");
        assert_eq!(
            error.to_string(),
            "one-shot-recall tests on classes that are not trained on, but both splits of mnist \
            contain class 5"
        );
    }
}
