//! Large outputs computed by several threads.

#![allow(unsafe_code)]

use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Numbers that one thread copies or fills at a time.
const PIECE: usize = 1 << 15;

/// `count` numbers, computed in chunks of `size` by `work`. It gets the value that `init` made for its thread,
/// the index of a chunk, and the chunk filled with zeros. The thread that works on a chunk writes its zeros just
/// before, so that they are still in its cache.
pub(crate) fn by_chunks<T>(
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
    // SAFETY: there is room for `count` numbers, and the chunks cover them and were all filled.
    unsafe { output.set_len(count) };
    output
}

/// Zeros, written by several threads.
pub(crate) fn zeros(count: usize) -> Vec<f32> {
    match count <= PIECE {
        true => vec![0.0; count],
        false => by_chunks(count, PIECE, || (), |(), _, _| ()),
    }
}

/// A copy, made by several threads.
pub(crate) fn copied(values: &[f32]) -> Vec<f32> {
    let copy = |(): &mut (), index: usize, chunk: &mut [f32]| {
        chunk.copy_from_slice(&values[index * PIECE..][..chunk.len()]);
    };
    match values.len() <= PIECE {
        true => values.to_vec(),
        false => by_chunks(values.len(), PIECE, || (), copy),
    }
}

/// Works on two outputs in chunks of given sizes: `work` gets an index and the chunk with that index of each
/// output.
pub(crate) fn in_pairs(
    several_threads: bool,
    (a, size_a): (&mut [f32], usize),
    (b, size_b): (&mut [f32], usize),
    work: impl Fn(usize, &mut [f32], &mut [f32]) + Send + Sync,
) {
    let work = |(index, (a, b)): (usize, (&mut [f32], &mut [f32]))| work(index, a, b);
    match several_threads {
        false => a
            .chunks_mut(size_a)
            .zip(b.chunks_mut(size_b))
            .enumerate()
            .for_each(work),
        true => a
            .par_chunks_mut(size_a)
            .zip(b.par_chunks_mut(size_b))
            .enumerate()
            .for_each(work),
    }
}

/// `count` numbers in chunks of `size`; each call of `work` computes `together` of them. It gets the index of
/// the first and an iterator over the chunks, each filled with zeros.
pub(crate) fn by_blocks(
    count: usize,
    size: usize,
    together: usize,
    work: impl Fn(usize, &mut dyn Iterator<Item = &mut [f32]>) + Send + Sync,
) -> Vec<f32> {
    let mut output = Vec::with_capacity(count);
    output.spare_capacity_mut()[..count]
        .par_chunks_mut(size * together)
        .enumerate()
        .for_each(|(index, block)| {
            in_zeros(block.chunks_mut(size), |chunks| {
                work(index * together, chunks)
            });
        });
    // SAFETY: there is room for `count` numbers, and the blocks cover them and all of their chunks were filled.
    unsafe { output.set_len(count) };
    output
}

/// `count` numbers in chunks of `size`, where chunk `i` belongs to group `i % groups`. Each call of `work`
/// computes the chunks of one group, which it gets as in [`by_blocks`].
pub(crate) fn by_groups(
    count: usize,
    size: usize,
    groups: usize,
    work: impl Fn(usize, &mut dyn Iterator<Item = &mut [f32]>) + Send + Sync,
) -> Vec<f32> {
    let mut output = Vec::with_capacity(count);
    grouped(&mut output.spare_capacity_mut()[..count], size, groups)
        .into_par_iter()
        .enumerate()
        .for_each(|(group, chunks)| in_zeros(chunks.into_iter(), |chunks| work(group, chunks)));
    // SAFETY: there is room for `count` numbers; every chunk belongs to a group, and all were filled.
    unsafe { output.set_len(count) };
    output
}

/// Passes chunks to `work`. Each chunk is filled with zeros when `work` asks for it, so that they are still in
/// the cache. Chunks that it does not ask for are filled with zeros afterwards.
fn in_zeros<'a>(
    chunks: impl Iterator<Item = &'a mut [MaybeUninit<f32>]>,
    work: impl FnOnce(&mut dyn Iterator<Item = &'a mut [f32]>),
) {
    let mut chunks = chunks.map(|chunk| {
        chunk.fill(MaybeUninit::new(0.0));
        // SAFETY: all of the chunk was just written.
        unsafe { chunk.assume_init_mut() }
    });
    work(&mut chunks);
    chunks.for_each(drop);
}

/// The chunks of each group: chunk `i` belongs to group `i % groups`.
pub(crate) fn grouped<T>(values: &mut [T], size: usize, groups: usize) -> Vec<Vec<&mut [T]>> {
    let mut all: Vec<Vec<&mut [T]>> = (0..groups).map(|_| Vec::new()).collect();
    for (index, chunk) in values.chunks_mut(size).enumerate() {
        all[index % groups].push(chunk);
    }
    all
}

/// Runs `work` on equal shares of rows, in parallel if there is enough to do. Each row is computed
/// independently, so how rows are shared out does not change the result.
pub(crate) fn for_rows(
    output: &mut [f32],
    width: usize,
    cost: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    /// With fewer elements a second thread costs more than it saves.
    const SERIAL: usize = 1 << 16;
    let rows = output.len() / width.max(1);
    let threads = rayon::current_num_threads();
    if threads == 1 || rows * cost < SERIAL {
        return work(0, output);
    }
    let share = rows.div_ceil(threads);
    output
        .par_chunks_mut(share * width)
        .enumerate()
        .for_each(|(index, rows)| work(index * share, rows));
}

/// Works on sequences one by one, in parallel if there is enough to do. Each is computed independently, so the
/// number of threads does not change the result.
pub(crate) fn each<T: Send>(sequences: Vec<T>, cost: usize, work: impl Fn(usize, T) + Sync) {
    /// With fewer multiplications a second thread costs more than it saves.
    const SERIAL: usize = 1 << 17;
    let pair = |(index, sequence)| work(index, sequence);
    match cost < SERIAL {
        true => sequences.into_iter().enumerate().for_each(pair),
        false => sequences.into_par_iter().enumerate().for_each(pair),
    }
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
                // A chunk with an odd index keeps its zeros.
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

    #[test]
    fn copies_and_zeros_are_whole() {
        for count in [0, 1, PIECE, 3 * PIECE + 7] {
            let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
            assert_eq!(copied(&values), values);
            assert_eq!(zeros(count), vec![0.0; count]);
        }
    }

    #[test]
    fn every_number_of_a_block_is_made() {
        for (count, size, together) in [(0, 3, 2), (1, 1, 4), (9, 3, 2), (1000, 7, 5)] {
            let made = by_blocks(count, size, together, |first, chunks| {
                // The last chunk of a block is not asked for.
                for (index, chunk) in chunks.enumerate().take(together - 1) {
                    assert!(chunk.iter().all(|x| *x == 0.0));
                    chunk.fill((first + index) as f32 + 1.0);
                }
            });
            let expected = (0..count).map(|i| match (i / size + 1) % together {
                0 => 0.0,
                _ => (i / size) as f32 + 1.0,
            });
            assert_eq!(made, expected.collect::<Vec<f32>>());
        }
    }

    #[test]
    fn every_number_of_a_group_is_made() {
        for (count, size, groups) in [(0, 3, 2), (1, 1, 1), (12, 3, 2), (12, 2, 4), (3, 1, 5)] {
            let made = by_groups(count, size, groups, |group, chunks| {
                for (index, chunk) in chunks.enumerate() {
                    assert!(chunk.iter().all(|x| *x == 0.0));
                    chunk.fill((group + groups * index) as f32);
                }
            });
            let expected: Vec<f32> = (0..count).map(|i| (i / size) as f32).collect();
            assert_eq!(made, expected);
        }
    }
}
