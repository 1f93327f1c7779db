//! The copy task: read a string of random bit vectors, then write it out. It is supervised, so its batches
//! have targets instead of frames to predict.
//!
//! Graves et al. 2014, section 4.1, with 8 bits and lengths up to 20.

use rand::RngExt;

use crate::settings::{LONGEST, check};
use crate::{Error, Stream};

/// Random strings of bit vectors to be copied.
///
/// A string of length `n` takes `2 n + 2` steps:
///
/// | step | input | target |
/// | --- | --- | --- |
/// | 0 | start flag | |
/// | 1 to n | bit vectors 1 to n | |
/// | n + 1 | end flag | |
/// | n + 2 to 2 n + 1 | zeros | bit vectors 1 to n |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyTask {
    bits: usize,
    longest: usize,
}

/// One batch of strings of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyBatch {
    /// `[time, batch, width]` row-major, each value 0 or 1: first the bits, then the start flag,
    /// then the end flag.
    pub inputs: Vec<f32>,
    /// `[time, batch, bits]` row-major: the bits to write, 0 outside the mask.
    pub targets: Vec<f32>,
    /// `[time, batch]` row-major: 1 where the output is compared with the target, otherwise 0.
    pub mask: Vec<f32>,
    /// Steps: twice the length of the strings, plus two.
    pub time: usize,
    /// Number of strings.
    pub batch: usize,
    /// Values of an input: `bits + 2`.
    pub width: usize,
    /// Values of a target.
    pub bits: usize,
}

impl CopyTask {
    /// Strings of vectors of `bits` bits (`task.bits`), from 1 to `longest` vectors long
    /// (`task.longest`).
    ///
    /// # Errors
    /// `bits` is not in `1..=1024` or `longest` is not in `1..=100_000`.
    pub fn new(bits: usize, longest: usize) -> Result<CopyTask, Error> {
        check("task.bits", bits, 1..=1024, || {
            "the bits of a vector must be from 1 to 1024".to_owned()
        })?;
        check("task.longest", longest, 1..=LONGEST, || {
            format!("the vectors of the longest string must be from 1 to {LONGEST}")
        })?;
        Ok(CopyTask { bits, longest })
    }

    /// Batch `index` of `batch` strings, made only from draw `index` of `stream`.
    ///
    /// All strings have the same length: `length` if given, even beyond the longest; otherwise one
    /// drawn uniformly from 1 to the longest. Giving the length that would be drawn has no effect.
    ///
    /// The batch must fit in memory: `batch * time * width` values.
    pub fn batch(
        &self,
        stream: &Stream,
        index: u64,
        batch: usize,
        length: Option<usize>,
    ) -> CopyBatch {
        let mut generator = stream.at(index);
        let drawn = generator.random_range(1..=self.longest);
        let length = length.unwrap_or(drawn);
        let (bits, width, time) = (self.bits, self.bits + 2, 2 * length + 2);
        let mut inputs = vec![0.0; time * batch * width];
        let mut targets = vec![0.0; time * batch * bits];
        let mut mask = vec![0.0; time * batch];
        for row in 0..batch {
            inputs[row * width + bits] = 1.0;
            inputs[((length + 1) * batch + row) * width + bits + 1] = 1.0;
            for vector in 0..length {
                let (read, write) = (
                    (1 + vector) * batch + row,
                    (length + 2 + vector) * batch + row,
                );
                mask[write] = 1.0;
                for bit in 0..bits {
                    let value = f32::from(u8::from(generator.random::<bool>()));
                    inputs[read * width + bit] = value;
                    targets[write * bits + bit] = value;
                }
            }
        }
        CopyBatch {
            inputs,
            targets,
            mask,
            time,
            batch,
            width,
            bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn make(bits: usize, seed: u64, index: u64, batch: usize, length: Option<usize>) -> CopyBatch {
        let task = CopyTask::new(bits, 6).expect("settings are in range");
        task.batch(&Stream::new(seed, "data"), index, batch, length)
    }

    /// The input of one row at one step.
    fn input(batch: &CopyBatch, step: usize, row: usize) -> &[f32] {
        &batch.inputs[(step * batch.batch + row) * batch.width..][..batch.width]
    }

    fn target(batch: &CopyBatch, step: usize, row: usize) -> &[f32] {
        &batch.targets[(step * batch.batch + row) * batch.bits..][..batch.bits]
    }

    proptest! {
        #[test]
        fn strings_are_read_and_then_written(
            bits in 1usize..9,
            rows in 0usize..4,
            seed: u64,
            index: u64,
            length in proptest::option::of(0usize..9),
        ) {
            let batch = make(bits, seed, index, rows, length);
            let n = batch.time / 2 - 1;
            prop_assert_eq!(batch.time, 2 * n + 2);
            prop_assert!(length.map_or((1..=6).contains(&n), |length| length == n));
            prop_assert_eq!((batch.batch, batch.width, batch.bits), (rows, bits + 2, bits));
            prop_assert_eq!(batch.inputs.len(), batch.time * rows * (bits + 2));
            prop_assert_eq!(batch.targets.len(), batch.time * rows * bits);
            prop_assert_eq!(batch.mask.len(), batch.time * rows);
            let zeros = vec![0.0; bits];
            for row in 0..rows {
                for step in 0..batch.time {
                    let (shown, flags) = input(&batch, step, row).split_at(bits);
                    prop_assert!(shown.iter().all(|&value| value == 0.0 || value == 1.0));
                    let flag = |on: bool| f32::from(u8::from(on));
                    prop_assert_eq!(flags, [flag(step == 0), flag(step == n + 1)]);
                    if !(1..=n).contains(&step) {
                        prop_assert_eq!(shown, &zeros[..]);
                    }
                    let writes = step >= n + 2;
                    prop_assert_eq!(batch.mask[step * rows + row], flag(writes));
                    let wanted = if writes {
                        &input(&batch, step - n - 1, row)[..bits]
                    } else {
                        &zeros[..]
                    };
                    prop_assert_eq!(target(&batch, step, row), wanted);
                }
            }
        }

        #[test]
        fn batch_is_a_function_of_seed_and_index(seed: u64, index: u64) {
            let batch = make(8, seed, index, 3, None);
            prop_assert_eq!(&batch, &make(8, seed, index, 3, None));
            prop_assert_eq!(&batch, &make(8, seed, index, 3, Some(batch.time / 2 - 1)));
            let long = make(8, seed, index, 3, Some(6));
            prop_assert_ne!(&long, &make(8, seed, index.wrapping_add(1), 3, Some(6)));
            prop_assert_ne!(&long, &make(8, seed.wrapping_add(1), index, 3, Some(6)));
        }
    }

    #[test]
    fn lengths_and_bits_are_uniform() {
        let mut lengths = [0; 6];
        let mut ones = 0.0;
        for index in 0..3000 {
            lengths[make(1, 8, index, 1, None).time / 2 - 2] += 1;
            ones += make(1, 8, index, 1, Some(1)).targets.iter().sum::<f32>();
        }
        assert!(
            lengths.iter().all(|count| (420..580).contains(count)),
            "{lengths:?}"
        );
        assert!((1400.0..1600.0).contains(&ones), "{ones} ones");
    }

    #[test]
    fn golden_bits() {
        let batch = make(4, 1, 0, 1, None);
        let written = batch.targets.chunks(4).skip(batch.time / 2 + 1);
        assert!(written.eq([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]]));
    }

    #[test]
    fn impossible_settings_name_their_key() {
        let message = |bits, longest| {
            CopyTask::new(bits, longest)
                .expect_err("out of range")
                .to_string()
        };
        assert_eq!(
            message(0, 1),
            "task.bits = 0: the bits of a vector must be from 1 to 1024"
        );
        assert_eq!(
            message(8, 0),
            "task.longest = 0: the vectors of the longest string must be from 1 to 100000"
        );
    }
}
