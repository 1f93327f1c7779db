//! Sizes of a memory, and how its arrays are split by sequence and into blocks of rows.

use crate::dnc::interface_size;
use crate::flex::simd::lanes::add_scaled;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) reads: usize,
    pub(super) slots: usize,
    pub(super) width: usize,
}

impl Sizes {
    /// Links that are processed together. Their number is fixed, so how threads share them does not change any
    /// sum.
    const BLOCK: usize = 1 << 17;

    pub(super) fn interface(self) -> usize {
        interface_size(self.reads, self.width)
    }

    /// Lengths of the interface's parts; see [`crate::dnc::fused_step`].
    pub(super) fn parts(self) -> [usize; 10] {
        let (reads, width) = (self.reads, self.width);
        [
            reads * width,
            reads,
            width,
            1,
            width,
            width,
            reads,
            1,
            1,
            3 * reads,
        ]
    }

    /// Rows of links in a block.
    pub(super) fn rows(self) -> usize {
        (Self::BLOCK / self.slots).clamp(1, self.slots)
    }

    pub(super) fn blocks(self) -> usize {
        self.slots.div_ceil(self.rows())
    }

    /// Lengths, for one sequence, of the values that [`write`](Write) saves for the backward pass: activated
    /// interface, the part of usage left by the reads, slots in the order of usage, product of usage before each
    /// slot, cosines and weights of the write key, norms of the key and of the rows.
    pub(super) fn written(self) -> [usize; 8] {
        let slots = self.slots;
        [
            self.interface(),
            slots,
            slots,
            slots,
            slots,
            slots,
            1,
            slots,
        ]
    }

    /// The same for [`Read`]: backward reads `[reads, slots]`, cosines and weights of the read keys, norms of
    /// the keys and of the rows.
    pub(super) fn found(self) -> [usize; 5] {
        let weights = self.reads * self.slots;
        [weights, weights, weights, self.reads, self.slots]
    }

    /// Multiplications for the links.
    pub(super) fn link_cost(self) -> usize {
        self.batch * self.slots * self.slots * (2 * self.reads + 2)
    }

    /// Multiplications for the rest.
    pub(super) fn row_cost(self) -> usize {
        self.batch * self.slots * self.width * (2 * self.reads + 4)
    }
}

/// Splits an array into consecutive parts.
#[inline(always)]
pub(super) fn cut<const K: usize>(mut whole: &[f32], sizes: [usize; K]) -> [&[f32]; K] {
    sizes.map(|size| {
        let (part, rest) = whole.split_at(size);
        whole = rest;
        part
    })
}

#[inline(always)]
pub(super) fn cut_mut<const K: usize>(mut whole: &mut [f32], sizes: [usize; K]) -> [&mut [f32]; K] {
    sizes.map(|size| {
        let (part, rest) = std::mem::take(&mut whole).split_at_mut(size);
        whole = rest;
        part
    })
}

/// Splits each array into one share for each of `count` sequences.
pub(super) fn shares<const K: usize>(
    arrays: [&mut Vec<f32>; K],
    count: usize,
) -> Vec<[&mut [f32]; K]> {
    let mut rests = arrays.map(Vec::as_mut_slice);
    let sizes = rests.each_ref().map(|array| array.len() / count.max(1));
    let share = |_| {
        std::array::from_fn(|index| {
            let (share, rest) = std::mem::take(&mut rests[index]).split_at_mut(sizes[index]);
            rests[index] = rest;
            share
        })
    };
    (0..count).map(share).collect()
}

/// Splits arrays into the blocks of rows of each sequence. Array `i` holds `[slots, widths[i]]` for each
/// sequence. A block gets its rows of each array and its own share of `partial`.
pub(super) fn blocks<'a, const K: usize>(
    arrays: [&'a mut Vec<f32>; K],
    widths: [usize; K],
    partial: &'a mut [f32],
    sizes: Sizes,
) -> Vec<([&'a mut [f32]; K], &'a mut [f32])> {
    let count = sizes.batch * sizes.blocks();
    let mut rests = arrays.map(Vec::as_mut_slice);
    let share = partial.len() / count.max(1);
    let partials = partial.chunks_exact_mut(share);
    let block = |(block, partial)| {
        let first = block % sizes.blocks() * sizes.rows();
        let rows = sizes.rows().min(sizes.slots - first);
        let parts = std::array::from_fn(|index| {
            let rest = std::mem::take(&mut rests[index]);
            let (part, rest) = rest.split_at_mut(rows * widths[index]);
            rests[index] = rest;
            part
        });
        (parts, partial)
    };
    partials.enumerate().map(block).collect()
}

/// The share of one sequence.
pub(super) fn of(all: &[f32], index: usize, batch: usize) -> &[f32] {
    let share = all.len() / batch;
    &all[index * share..][..share]
}

/// The memory of a sequence before the step.
#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    pub(super) interface: &'a [f32],
    pub(super) rows: &'a [f32],
    pub(super) usage: &'a [f32],
    pub(super) precedence: &'a [f32],
    pub(super) links: &'a [f32],
    pub(super) read_weights: &'a [f32],
    pub(super) write_weights: &'a [f32],
}

/// Gradients of a sequence's outputs; `None` for an output on which nothing depends.
#[derive(Clone, Copy)]
pub(super) struct Outer<'a> {
    pub(super) rows: Option<&'a [f32]>,
    pub(super) usage: Option<&'a [f32]>,
    pub(super) precedence: Option<&'a [f32]>,
    pub(super) links: Option<&'a [f32]>,
    pub(super) read_weights: Option<&'a [f32]>,
    pub(super) write_weights: Option<&'a [f32]>,
    pub(super) allocation: Option<&'a [f32]>,
    pub(super) vectors: Option<&'a [f32]>,
}

#[inline(always)]
pub(super) fn add(target: &mut [f32], values: Option<&[f32]>) {
    if let Some(values) = values {
        add_scaled(target, 1.0, values);
    }
}
