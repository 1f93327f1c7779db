//! The interface of a task, which turns a random stream into batches of sequences.

use std::fmt;
use std::ops::Range;

use crate::Stream;

/// The part of a data set that sequences are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Images for training.
    Train,
    /// Images kept for evaluation.
    Test,
}

impl fmt::Display for Split {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Split::Train => "train",
            Split::Test => "test",
        })
    }
}

/// The dimensions of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameShape {
    /// 1 for grey frames, 3 for colour.
    pub channels: usize,
    /// Pixel rows.
    pub height: usize,
    /// Pixel columns.
    pub width: usize,
}

impl FrameShape {
    /// Values in a frame: `channels * height * width`.
    pub fn size(&self) -> usize {
        self.channels * self.height * self.width
    }
}

/// Conditions: what a model gets at each step besides the frame, such as an action or a position.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// `[batch, time, width]` row-major.
    pub values: Vec<f32>,
    /// Values per step.
    pub width: usize,
}

/// One batch of sequences, all of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// `[batch, time, channels, height, width]` row-major, intensities in [0, 1].
    pub frames: Vec<f32>,
    /// Number of sequences.
    pub batch: usize,
    /// Frames per sequence.
    pub time: usize,
    /// The dimensions of each frame.
    pub frame: FrameShape,
    /// Present if and only if [`Task::condition_width`] is not 0.
    pub conditions: Option<Conditions>,
    /// `[batch, time]`: class of each frame within the task's data set (0 to 9 for digits,
    /// 0 to 1622 for the characters of Omniglot).
    pub labels: Vec<u16>,
    /// `[batch, time]`: whether the past determines the frame, or at least its class.
    pub predictable: Vec<bool>,
    /// `[batch, time]`: the time index of the earlier frame that a predictable frame repeats pixel
    /// for pixel; `None` for all others.
    pub sources: Vec<Option<usize>>,
    /// `[batch, time]`: where on a map each frame was seen, `row * grid + column`; `None` for tasks
    /// without a map.
    pub cells: Option<Vec<u16>>,
}

impl Batch {
    /// The frame at step `time` (from 0) of sequence `row`, `[channels, height, width]` row-major;
    /// `None` outside the batch.
    pub fn frame_at(&self, row: usize, time: usize) -> Option<&[f32]> {
        if row >= self.batch || time >= self.time {
            return None;
        }
        let size = self.frame.size();
        self.frames
            .get((row * self.time + time) * size..)?
            .get(..size)
    }
}

/// The common properties of all sequences of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The name that experiments and the command line use, e.g. `perfect-recall`.
    pub name: &'static str,
    /// The dimensions of every frame.
    pub frame: FrameShape,
    /// Condition values per step, 0 for a task without conditions.
    pub condition_width: usize,
    /// Frames shown before a model generates the rest by itself; l in the recall tasks.
    pub prompt: usize,
    /// Frames in every sequence.
    pub time: usize,
    /// The steps (from 0) at which memory of earlier frames is tested; `None` if they differ from sequence to
    /// sequence.
    pub recall_interval: Option<Range<usize>>,
}

/// A source of sequences to learn from and be tested on.
///
/// Batch `index` is a pure function of the arguments of [`Task::batch`], so batches can be made
/// ahead, on any thread, and made again after a restart.
pub trait Task: Send + Sync {
    /// The common properties of all its sequences.
    fn layout(&self) -> &Layout;

    /// The name that experiments and the command line use, e.g. `perfect-recall`.
    fn name(&self) -> &'static str {
        self.layout().name
    }

    /// Frames in every sequence.
    fn time(&self) -> usize {
        self.layout().time
    }

    /// The dimensions of every frame.
    fn frame(&self) -> FrameShape {
        self.layout().frame
    }

    /// Condition values per step, 0 for a task without conditions.
    fn condition_width(&self) -> usize {
        self.layout().condition_width
    }

    /// Frames shown before a model generates the rest by itself.
    fn prompt(&self) -> usize {
        self.layout().prompt
    }

    /// The steps (from 0) at which memory of earlier frames is tested; `None` if they differ from sequence
    /// to sequence.
    fn recall_interval(&self) -> Option<Range<usize>> {
        self.layout().recall_interval.clone()
    }

    /// Batch `index` of `batch` sequences.
    ///
    /// Row `r` is made only from draw [`sequence_number`]`(index, batch, r)` of `stream`. It does
    /// not depend on the other rows: another batch size divides the same sequences into different
    /// batches.
    ///
    /// The batch must fit in memory: `batch * time * frame` values.
    fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> Batch;
}

/// The sequence number of row `row` in batch `index`: `index * batch + row`.
///
/// Past 2^64 sequences the numbers start again.
pub fn sequence_number(index: u64, batch: usize, row: usize) -> u64 {
    index.wrapping_mul(batch as u64).wrapping_add(row as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_where_the_shape_says() {
        let frame = FrameShape {
            channels: 2,
            height: 1,
            width: 2,
        };
        let batch = Batch {
            frames: (0..2 * 3 * 4).map(|value| value as f32).collect(),
            batch: 2,
            time: 3,
            frame,
            conditions: None,
            labels: vec![0; 6],
            predictable: vec![false; 6],
            sources: vec![None; 6],
            cells: None,
        };
        assert_eq!(batch.frame_at(1, 2), Some(&[20.0, 21.0, 22.0, 23.0][..]));
        assert_eq!(batch.frame_at(0, 3), None);
        assert_eq!(batch.frame_at(2, 0), None);
    }

    #[test]
    fn sequences_are_numbered_through_all_batches() {
        let regrouped = |batch: usize| {
            (0..12 / batch as u64).flat_map(move |index| {
                (0..batch).map(move |row| sequence_number(index, batch, row))
            })
        };
        assert!(regrouped(4).eq(0..12));
        assert!(regrouped(3).eq(0..12));
        assert_eq!(sequence_number(u64::MAX, 2, 1), u64::MAX);
    }
}
