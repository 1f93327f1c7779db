//! Dynamic dependency: each digit names the place of the next one.
//!
//! Gemici et al. 2017, section 5.4 and Algorithm 3. The paper uses l = 20 and k = 5.

use std::sync::Arc;

use super::sequence::{Sequence, assemble, recall_layout};
use super::{FrameTask, ImageSet, LENGTH, RECALL};
use crate::settings::{LONGEST, check, check_recall};
use crate::{Batch, DataSet, Error, Layout, Split, Stream, Task};

/// The task in the table of tasks.
pub(super) const TASK: FrameTask = FrameTask {
    name: "dynamic-dependency",
    about: "watch digits, then see frames, each of which names the place of the next",
    images: ImageSet::Digits,
    sizes: &[LENGTH, RECALL],
    laid_out: |sizes| layout(sizes.get(LENGTH), sizes.get(RECALL)),
    opened: |data, sizes| {
        let task = DynamicDependency::new(data, sizes.get(LENGTH), sizes.get(RECALL))?;
        Ok(Arc::new(task))
    },
};

fn layout(length: usize, recall: usize) -> Layout {
    recall_layout(TASK.name, length, recall)
}

/// Sequences of `l` random digits followed by `k` copies: frame `l + j` is frame `d` again, where
/// `d`, counted from 0, is the digit that frame `l + j - 1` shows.
///
/// So only the frames at 0 to 9 are ever copied. A model that recognises digits and remembers frames by
/// their place can predict all `k`.
#[derive(Clone, Debug)]
pub struct DynamicDependency {
    data: Arc<DataSet>,
    layout: Layout,
    length: usize,
}

impl DynamicDependency {
    /// The task `dynamic-dependency` with `length` = l digits to watch (`task.length`) and `recall`
    /// = k to look up (`task.recall`).
    ///
    /// # Errors
    /// `length` is not in `10..=100_000` (for digits; every class must be the place of a watched
    /// image) or `recall` is not in `1..=length`.
    pub fn new(
        data: Arc<DataSet>,
        length: usize,
        recall: usize,
    ) -> Result<DynamicDependency, Error> {
        let classes = data.classes();
        check("task.length", length, classes..=LONGEST, || {
            format!(
                "the images to watch must be from {classes} to {LONGEST}, so that each of the \
                 {classes} labels of {} is the place of one",
                data.name()
            )
        })?;
        check_recall(recall, length)?;
        Ok(DynamicDependency {
            data,
            layout: layout(length, recall),
            length,
        })
    }
}

impl Task for DynamicDependency {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> Batch {
        let images = self.data.split(split);
        let time = self.time();
        assemble(images, stream, index, batch, time, |generator| {
            let mut sequence = Sequence::watched(images, self.length, time, generator);
            for step in self.length..time {
                let address = images.labels()[sequence.instance(step - 1)];
                sequence.repeat(usize::from(address));
            }
            sequence
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DIGITS, assert_sound, split};
    use proptest::prelude::*;

    fn task(length: usize, recall: usize) -> DynamicDependency {
        DynamicDependency::new(DIGITS.clone(), length, recall).expect("settings are in range")
    }

    /// l and k with 10 <= l and 1 <= k <= l.
    fn lengths() -> impl Strategy<Value = (usize, usize)> {
        (10usize..20).prop_flat_map(|length| (Just(length), 1..=length))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn batches_are_sound((l, k) in lengths(), split in split(), seed: u64, index: u64) {
            assert_sound(&task(l, k), &DIGITS, split, seed, index);
        }

        #[test]
        fn every_digit_is_the_address_of_the_next(
            (l, k) in lengths(),
            split in split(),
            seed: u64,
        ) {
            let task = task(l, k);
            prop_assert_eq!((task.prompt(), task.recall_interval()), (l, Some(l..l + k)));
            let batch = task.batch(split, &Stream::new(seed, "data"), 0, 3);
            for row in 0..3 {
                for step in 0..l + k {
                    let position = row * (l + k) + step;
                    let address = (step >= l).then(|| usize::from(batch.labels[position - 1]));
                    prop_assert_eq!(batch.sources[position], address);
                    prop_assert_eq!(batch.predictable[position], step >= l);
                    if let Some(address) = address {
                        prop_assert!(address < 10);
                        prop_assert_eq!(batch.frame_at(row, step), batch.frame_at(row, address));
                    }
                }
            }
        }
    }

    #[test]
    fn golden_labels() {
        let batch = task(10, 4).batch(Split::Train, &Stream::new(1, "data"), 0, 2);
        assert_eq!(
            batch.labels,
            [
                0, 4, 2, 6, 4, 3, 2, 6, 3, 6, 2, 2, 2, 2, 0, 1, 2, 4, 7, 6, 4, 6, 8, 8, 8, 8, 8, 8
            ]
        );
    }

    #[test]
    fn impossible_settings_name_their_key() {
        let message = |length, recall| {
            DynamicDependency::new(DIGITS.clone(), length, recall)
                .expect_err("out of range")
                .to_string()
        };
        assert_eq!(
            message(9, 1),
            "task.length = 9: the images to watch must be from 10 to 100000, so that each of the 10 \
             labels of mnist is the place of one"
        );
        assert_eq!(
            message(10, 0),
            "task.recall = 0: the images to recall must be from 1 to task.length = 10"
        );
    }
}
