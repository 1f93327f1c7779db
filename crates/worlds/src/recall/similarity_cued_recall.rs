//! Similarity-cued recall: watch l images, see one of them again, then those that followed it.
//!
//! Gemici et al. 2017, section 5.5 and Algorithm 4. The paper uses l = 20 and k = 5.

use std::sync::Arc;

use rand::RngExt;

use super::sequence::{Sequence, assemble, recall_layout};
use super::{FrameTask, ImageSet, LENGTH, RECALL};
use crate::settings::{LONGEST, check};
use crate::{Batch, DataSet, Error, Layout, Split, Stream, Task};

/// The task in the table of tasks.
pub(super) const TASK: FrameTask = FrameTask {
    name: "similarity-cued-recall",
    about: "watch digits, see one of them again as a cue, then those that followed it",
    images: ImageSet::Digits,
    sizes: &[LENGTH, RECALL],
    laid_out: |sizes| layout(sizes.get(LENGTH), sizes.get(RECALL)),
    opened: |data, sizes| {
        let task = SimilarityCuedRecall::new(data, sizes.get(LENGTH), sizes.get(RECALL))?;
        Ok(Arc::new(task))
    },
};

/// The cue is part of the prompt, and the first of the `recall` frames.
fn layout(length: usize, recall: usize) -> Layout {
    recall_layout(
        TASK.name,
        length.saturating_add(1),
        recall.saturating_sub(1),
    )
}

/// Sequences of `l` random images followed by `k` neighbours among them, frames `r..r + k`.
///
/// The start is uniform over the paper's range, `1 <= r <= l - k` counted from 1; counted from 0, as
/// here, that is `0..l - k`. So the last image watched is never seen again.
///
/// Frame `l` is the cue: it repeats frame `r`, but `r` cannot be known beforehand, so the cue
/// is not predictable and has no source. The `k - 1` frames after it are predictable. (If the image of the
/// cue happens to be watched twice, two continuations are possible; this case is not treated
/// specially.)
#[derive(Clone, Debug)]
pub struct SimilarityCuedRecall {
    data: Arc<DataSet>,
    layout: Layout,
    length: usize,
    recall: usize,
}

impl SimilarityCuedRecall {
    /// The task `similarity-cued-recall` with `length` = l images to watch (`task.length`) and
    /// `recall` = k to see again, including the cue (`task.recall`).
    ///
    /// # Errors
    /// `length` is not in `3..=100_000` or `recall` is not in `2..length`.
    pub fn new(
        data: Arc<DataSet>,
        length: usize,
        recall: usize,
    ) -> Result<SimilarityCuedRecall, Error> {
        check("task.length", length, 3..=LONGEST, || {
            format!("the images to watch must be from 3 to {LONGEST}")
        })?;
        let most = length - 1;
        check("task.recall", recall, 2..=most, || {
            format!("the cue and the images to recall must be from 2 to task.length - 1 = {most}")
        })?;
        Ok(SimilarityCuedRecall {
            data,
            layout: layout(length, recall),
            length,
            recall,
        })
    }
}

impl Task for SimilarityCuedRecall {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> Batch {
        let images = self.data.split(split);
        let time = self.time();
        assemble(images, stream, index, batch, time, |generator| {
            let mut sequence = Sequence::watched(images, self.length, time, generator);
            let start = generator.random_range(0..self.length - self.recall);
            sequence.show(sequence.instance(start));
            for step in start + 1..start + self.recall {
                sequence.repeat(step);
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

    fn task(length: usize, recall: usize) -> SimilarityCuedRecall {
        SimilarityCuedRecall::new(DIGITS.clone(), length, recall).expect("settings are in range")
    }

    /// l and k with 2 <= k < l.
    fn lengths() -> impl Strategy<Value = (usize, usize)> {
        (3usize..14).prop_flat_map(|length| (Just(length), 2..length))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn batches_are_sound((l, k) in lengths(), split in split(), seed: u64, index: u64) {
            assert_sound(&task(l, k), &DIGITS, split, seed, index);
        }

        #[test]
        fn a_run_of_frames_is_seen_again((l, k) in lengths(), split in split(), seed: u64) {
            let task = task(l, k);
            prop_assert_eq!((task.prompt(), task.recall_interval()), (l + 1, Some(l + 1..l + k)));
            let batch = task.batch(split, &Stream::new(seed, "data"), 0, 3);
            for row in 0..3 {
                let sources = &batch.sources[row * (l + k)..(row + 1) * (l + k)];
                prop_assert!(sources[..=l].iter().all(Option::is_none));
                let start = sources[l + 1].expect("the frame after the cue is recalled") - 1;
                prop_assert!(start < l - k);
                for step in 0..k {
                    prop_assert_eq!(
                        batch.frame_at(row, l + step),
                        batch.frame_at(row, start + step)
                    );
                    let source = (step > 0).then_some(start + step);
                    prop_assert_eq!(sources[l + step], source);
                }
                for (step, source) in sources.iter().enumerate() {
                    let position = row * (l + k) + step;
                    prop_assert_eq!(batch.predictable[position], source.is_some());
                }
            }
        }
    }

    #[test]
    fn starts_are_uniform_over_the_range_of_the_paper() {
        let (l, k, rows) = (7, 3, 2000);
        let batch = task(l, k).batch(Split::Train, &Stream::new(4, "data"), 0, rows);
        let mut counts = [0; 4];
        for row in 0..rows {
            let source = batch.sources[row * (l + k) + l + 1].expect("recalled");
            counts[source - 1] += 1;
        }
        assert!(
            counts.iter().all(|count| (430..570).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn golden_labels() {
        let batch = task(6, 3).batch(Split::Train, &Stream::new(1, "data"), 0, 2);
        assert_eq!(
            batch.labels,
            [0, 4, 2, 6, 4, 3, 0, 4, 2, 0, 1, 2, 4, 7, 6, 1, 2, 4]
        );
    }

    #[test]
    fn impossible_settings_name_their_key() {
        let message = |length, recall| {
            SimilarityCuedRecall::new(DIGITS.clone(), length, recall)
                .expect_err("out of range")
                .to_string()
        };
        assert_eq!(
            message(2, 2),
            "task.length = 2: the images to watch must be from 3 to 100000"
        );
        for recall in [1, 5] {
            assert_eq!(
                message(5, recall),
                format!(
                    "task.recall = {recall}: the cue and the images to recall must be from 2 to \
                     task.length - 1 = 4"
                )
            );
        }
    }
}
