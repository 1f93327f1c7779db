//! Large outputs, made by several threads.

#![allow(unsafe_code)]

use rayon::prelude::*;
use std::mem::MaybeUninit;

/// `count` numbers, made in chunks of `size` by `work`, which gets the index of a chunk and the chunk
/// in zeros, and what `init` made for its thread. Zeros are written by the thread that works on them, a chunk
/// at a time, so that they are still in its cache then.
pub(super) fn by_chunks<T>(
    count: usize,
    size: usize,
    init: impl Fn() -> T + Send + Sync,
    work: impl Fn(&mut T, usize, &mut [f32]) + Send + Sync,
) -> Vec<f32> {
    let mut output = Vec::with_capacity(count);
    output.spare_capacity_mut()[..count]
        .par_chunks_mut(size)
        .enumerate()
        .for_each_init(init, |own, (index, chunk)| {
            chunk.fill(MaybeUninit::new(0.0));
            // SAFETY: all of the chunk was just written.
            work(own, index, unsafe { chunk.assume_init_mut() });
        });
    // SAFETY: there is room for `count` numbers, and the chunks, all of which were filled, cover them.
    unsafe { output.set_len(count) };
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_made() {
        for (count, size) in [(0, 3), (1, 1), (7, 3), (9, 3), (5, 8), (1000, 7)] {
            let made = by_chunks(count, size, Vec::new, |seen, index, chunk| {
                seen.push(index);
                assert!(chunk.iter().all(|x| *x == 0.0));
                // An odd chunk keeps its zeros.
                if index % 2 == 0 {
                    chunk.fill(index as f32 + 1.0);
                }
            });
            let expected = (0..count).map(|i| match i / size % 2 {
                0 => (i / size) as f32 + 1.0,
                _ => 0.0,
            });
            assert_eq!(made, expected.collect::<Vec<f32>>());
        }
    }
}
