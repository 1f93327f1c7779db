//! One step of a DNC's memory, forward and backward, sequence by sequence; the links by rows.

use super::{
    Loop, Raw,
    content::{self, add_scaled, dot, each, total},
    contiguous, math,
    parts::Parts,
    raw, run, slice,
};
use crate::dnc::{USAGE_FLOOR, interface_size};
use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};

const FLOOR: f32 = USAGE_FLOOR as f32;
const ABOVE_FLOOR: f32 = (1.0 - USAGE_FLOOR) as f32;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sizes {
    batch: usize,
    reads: usize,
    slots: usize,
    width: usize,
}

impl Sizes {
    /// Links that are worked on together: their number depends on nothing else, so that how threads share
    /// them changes no sum.
    const BLOCK: usize = 1 << 17;

    fn interface(self) -> usize {
        interface_size(self.reads, self.width)
    }

    /// Lengths of the interface's parts, see [`crate::dnc::dnc_step`].
    fn parts(self) -> [usize; 10] {
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

    /// Rows of links of a block.
    fn rows(self) -> usize {
        (Self::BLOCK / self.slots).clamp(1, self.slots)
    }

    fn blocks(self) -> usize {
        self.slots.div_ceil(self.rows())
    }

    /// Lengths, for one sequence, of what [`write`](Write) leaves for the backward pass: activated interface, what
    /// reads left of usage, slots in the order of usage, products of usage before each, cosines and
    /// weights of the write key, norms of the key and the rows.
    fn written(self) -> [usize; 8] {
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

    /// The same of [`Read`]: reads backward `[reads, slots]`, cosines and weights of the read keys,
    /// norms of keys and rows.
    fn found(self) -> [usize; 5] {
        let weights = self.reads * self.slots;
        [weights, weights, weights, self.reads, self.slots]
    }

    /// Multiplications of the links.
    fn link_cost(self) -> usize {
        self.batch * self.slots * self.slots * (2 * self.reads + 2)
    }

    /// Of all else.
    fn row_cost(self) -> usize {
        self.batch * self.slots * self.width * (2 * self.reads + 4)
    }
}

/// Consecutive parts.
#[inline(always)]
fn cut<const K: usize>(mut whole: &[f32], sizes: [usize; K]) -> [&[f32]; K] {
    sizes.map(|size| {
        let (part, rest) = whole.split_at(size);
        whole = rest;
        part
    })
}

#[inline(always)]
fn cut_mut<const K: usize>(mut whole: &mut [f32], sizes: [usize; K]) -> [&mut [f32]; K] {
    sizes.map(|size| {
        let (part, rest) = std::mem::take(&mut whole).split_at_mut(size);
        whole = rest;
        part
    })
}

/// Of each array the share of each of `count` sequences.
fn shares<const K: usize>(arrays: [&mut Vec<f32>; K], count: usize) -> Vec<[&mut [f32]; K]> {
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

/// For each sequence its blocks of rows: of each array, `[slots, widths[i]]` for a sequence, the rows of
/// the block, and the block's own share of `partial`.
fn blocks<'a, const K: usize>(
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
fn of(all: &[f32], index: usize, batch: usize) -> &[f32] {
    let share = all.len() / batch;
    &all[index * share..][..share]
}

/// Activations of the interface.
#[inline(always)]
fn activate(sizes: Sizes, interface: &[f32], output: &mut [f32]) {
    output.copy_from_slice(interface);
    let [
        _,
        read_strengths,
        _,
        write_strength,
        erase,
        _,
        free_gates,
        allocation_gate,
        write_gate,
        modes,
    ] = cut_mut(output, sizes.parts());
    for strength in read_strengths.iter_mut().chain(write_strength) {
        *strength = 1.0 + math::softplus(*strength);
    }
    for gate in erase.iter_mut() {
        *gate = math::sigmoid(*gate);
    }
    for gate in free_gates
        .iter_mut()
        .chain(allocation_gate)
        .chain(write_gate)
    {
        *gate = math::sigmoid(*gate);
    }
    for modes in modes.as_chunks_mut::<3>().0 {
        let top = modes[0].max(modes[1]).max(modes[2]);
        for mode in modes.iter_mut() {
            *mode = math::exp(*mode - top);
        }
        let total = modes[0] + modes[1] + modes[2];
        for mode in modes {
            *mode /= total;
        }
    }
}

/// Turns gradients of the activated interface into those of the interface.
#[inline(always)]
fn deactivate(sizes: Sizes, interface: &[f32], activated: &[f32], gradient: &mut [f32]) {
    let (raw, activated) = (cut(interface, sizes.parts()), cut(activated, sizes.parts()));
    let gradient = cut_mut(gradient, sizes.parts());
    for (index, gradient) in gradient.into_iter().enumerate() {
        match index {
            // Strengths.
            1 | 3 => {
                for (gradient, raw) in gradient.iter_mut().zip(raw[index]) {
                    *gradient *= math::sigmoid(*raw);
                }
            }
            // Gates.
            4 | 6 | 7 | 8 => {
                for (gradient, gate) in gradient.iter_mut().zip(activated[index]) {
                    *gradient *= gate * (1.0 - gate);
                }
            }
            // Modes.
            9 => {
                let modes = activated[index].as_chunks::<3>().0;
                for (gradient, mode) in gradient.as_chunks_mut::<3>().0.iter_mut().zip(modes) {
                    let mean =
                        gradient[0] * mode[0] + gradient[1] * mode[1] + gradient[2] * mode[2];
                    for (gradient, mode) in gradient.iter_mut().zip(mode) {
                        *gradient = mode * (*gradient - mean);
                    }
                }
            }
            // Keys and what is written are as they come.
            _ => {}
        }
    }
}

/// Slots in the order of usage (as numbers), the products of usage before each, and the allocation.
fn allocate(usage: &[f32], order: &mut [f32], products: &mut [f32], allocation: &mut [f32]) {
    let floored = |usage: f32| usage * ABOVE_FLOOR + FLOOR;
    let mut slots: Vec<u32> = (0..usage.len() as u32).collect();
    // Adding zero makes the negative zero equal to it.
    let key = |slot: &u32| usage[*slot as usize] + 0.0;
    slots.sort_unstable_by(|a, b| key(a).total_cmp(&key(b)).then(a.cmp(b)));
    // A usage without a logarithm spoils all.
    let sound = |usage: &f32| floored(*usage) > 0.0 && usage.is_finite();
    let mut product = match usage.iter().all(sound) {
        true => 1.0,
        false => f32::NAN,
    };
    for (place, slot) in order.iter_mut().zip(slots) {
        *place = slot as f32;
        let slot = slot as usize;
        let used = floored(usage[slot]);
        products[slot] = product;
        allocation[slot] = (1.0 - used) * product;
        product *= used;
    }
}

/// Adds the gradient of usage, from that of the allocation.
fn allocate_backward(
    usage: &[f32],
    order: &[f32],
    products: &[f32],
    gradient: &[f32],
    usage_out: &mut [f32],
) {
    let floored = |slot: usize| usage[slot] * ABOVE_FLOOR + FLOOR;
    let share = |slot: usize| gradient[slot] * (1.0 - floored(slot)) * products[slot];
    // Zero, or NaN where any share is.
    let mut later = 0.0 * (0..usage.len()).map(share).sum::<f32>();
    for slot in order.iter().rev().map(|slot| *slot as usize) {
        usage_out[slot] += ABOVE_FLOOR * (later / floored(slot) - gradient[slot] * products[slot]);
        later += share(slot);
    }
}

/// What a sequence had before the step.
#[derive(Clone, Copy)]
struct Before<'a> {
    interface: &'a [f32],
    rows: &'a [f32],
    usage: &'a [f32],
    precedence: &'a [f32],
    links: &'a [f32],
    read_weights: &'a [f32],
    write_weights: &'a [f32],
}

/// Where to write, and the write, but for the links.
struct Write<'a> {
    sizes: Sizes,
    before: Before<'a>,
    rows: &'a mut [f32],
    usage: &'a mut [f32],
    precedence: &'a mut [f32],
    write_weights: &'a mut [f32],
    allocation: &'a mut [f32],
    saved: &'a mut [f32],
}

impl Loop for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { sizes, before, .. } = self;
        let (slots, width) = (sizes.slots, sizes.width);
        let [
            activated,
            retention,
            order,
            products,
            cosines,
            content,
            key_norm,
            row_norms,
        ] = cut_mut(self.saved, sizes.written());
        activate(sizes, before.interface, activated);
        let [
            _,
            _,
            write_key,
            write_strength,
            erase,
            write,
            free_gates,
            allocation_gate,
            write_gate,
            _,
        ] = cut(activated, sizes.parts());

        retention.fill(1.0);
        for (gate, weights) in free_gates
            .iter()
            .zip(before.read_weights.chunks_exact(slots))
        {
            for (kept, weight) in retention.iter_mut().zip(weights) {
                *kept *= 1.0 - gate * weight;
            }
        }
        let old = before.usage.iter().zip(before.write_weights);
        for (usage, ((old, written), kept)) in self.usage.iter_mut().zip(old.zip(&*retention)) {
            *usage = (old + written - old * written) * kept;
        }
        allocate(self.usage, order, products, self.allocation);
        content::Similarity {
            keys: write_key,
            memory: before.rows,
            width,
            strengths: Some(write_strength),
            cosines,
            weights: content,
            key_norms: key_norm,
            row_norms,
        }
        .run();

        let (allocation_gate, write_gate) = (allocation_gate[0], write_gate[0]);
        let found = self.allocation.iter().zip(&*content);
        for (weight, (free, content)) in self.write_weights.iter_mut().zip(found) {
            *weight = (content + allocation_gate * (free - content)) * write_gate;
        }
        let rows = self.rows.chunks_exact_mut(width);
        let rows = rows.zip(before.rows.chunks_exact(width));
        for ((row, old), weight) in rows.zip(&*self.write_weights) {
            let values = erase[..width].iter().zip(&write[..width]);
            for ((new, old), (erase, write)) in row.iter_mut().zip(old).zip(values) {
                *new = old - old * (weight * erase) + weight * write;
            }
        }
        let unwritten = 1.0 - self.write_weights.iter().sum::<f32>();
        let old = before.precedence.iter().zip(&*self.write_weights);
        for (new, (old, weight)) in self.precedence.iter_mut().zip(old) {
            *new = old * unwritten + weight;
        }
    }
}

/// Some rows of the links, and the reads along them.
struct Links<'a> {
    sizes: Sizes,
    /// The first of the rows.
    first: usize,
    /// The rows as they were.
    old: &'a [f32],
    precedence: &'a [f32],
    write_weights: &'a [f32],
    read_weights: &'a [f32],
    new: &'a mut [f32],
    /// Of the rows, `[rows, reads]`.
    forward: &'a mut [f32],
    /// What the rows add, `[reads, slots]`, in zeros.
    backward: &'a mut [f32],
}

impl Loop for Links<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sizes { reads, slots, .. } = self.sizes;
        let (write_weights, precedence) = (&self.write_weights[..slots], &self.precedence[..slots]);
        let rows = self.old.chunks_exact(slots);
        let rows = rows.zip(self.new.chunks_exact_mut(slots));
        let rows = rows.zip(self.forward.chunks_exact_mut(reads));
        for (i, ((old, new), forward)) in (self.first..).zip(rows) {
            let weight = write_weights[i];
            for j in 0..slots {
                new[j] = old[j] * (1.0 - (weight + write_weights[j])) + weight * precedence[j];
            }
            new[i] *= 0.0;
            let heads = self.read_weights.chunks_exact(slots);
            let heads = heads.zip(self.backward.chunks_exact_mut(slots));
            for (forward, (weights, backward)) in forward.iter_mut().zip(heads) {
                *forward = dot(weights, new);
                add_scaled(backward, weights[i], new);
            }
        }
    }
}

/// Where to read, and the read.
struct Read<'a> {
    sizes: Sizes,
    activated: &'a [f32],
    rows: &'a [f32],
    /// `[slots, reads]`
    forward: &'a [f32],
    /// Of each block of rows, `[blocks, reads, slots]`.
    backward: &'a [f32],
    read_weights: &'a mut [f32],
    vectors: &'a mut [f32],
    saved: &'a mut [f32],
}

impl Loop for Read<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sizes {
            reads,
            slots,
            width,
            ..
        } = self.sizes;
        let [read_keys, strengths, .., modes] = cut(self.activated, self.sizes.parts());
        let [backward, cosines, content, key_norms, row_norms] =
            cut_mut(self.saved, self.sizes.found());
        backward.fill(0.0);
        for part in self.backward.chunks_exact(reads * slots) {
            add_scaled(backward, 1.0, part);
        }
        content::Similarity {
            keys: read_keys,
            memory: self.rows,
            width,
            strengths: Some(strengths),
            cosines,
            weights: content,
            key_norms,
            row_norms,
        }
        .run();
        for (r, mode) in modes.as_chunks::<3>().0.iter().enumerate() {
            let head = r * slots..(r + 1) * slots;
            let weights = &mut self.read_weights[head.clone()];
            let (backward, content) = (&backward[head.clone()], &content[head]);
            let vector = &mut self.vectors[r * width..(r + 1) * width];
            let rows = self.rows.chunks_exact(width);
            let forward = self.forward.chunks_exact(reads);
            for (n, (row, forward)) in rows.zip(forward).enumerate() {
                weights[n] = backward[n] * mode[0] + content[n] * mode[1] + forward[r] * mode[2];
                add_scaled(vector, weights[n], row);
            }
        }
    }
}

/// What the gradient needs of the forward pass.
#[derive(Clone, Debug)]
struct Saved {
    sizes: Sizes,
    /// Interface, rows, usage, precedence, links, read weights, write weights before the step.
    before: [Raw; 7],
    /// After it.
    rows: Raw,
    usage: Raw,
    links: Raw,
    read_weights: Raw,
    write_weights: Raw,
    allocation: Raw,
    /// `[batch, slots, reads]`
    forward: Vec<f32>,
    /// [`Sizes::written`]
    written: Vec<f32>,
    /// [`Sizes::found`]
    found: Vec<f32>,
}

impl Saved {
    fn before(&self, index: usize) -> Before<'_> {
        let [
            interface,
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
        ] = self
            .before
            .each_ref()
            .map(|tensor| of(slice(tensor), index, self.sizes.batch));
        Before {
            interface,
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
        }
    }
}

fn sizes(before: &[Raw; 7]) -> Sizes {
    let [batch, slots, width] = before[1].layout().shape().dims();
    let [_, reads, _] = before[5].layout().shape().dims();
    let sizes = Sizes {
        batch,
        reads,
        slots,
        width,
    };
    assert!(reads > 0 && slots > 0 && width > 0, "an empty memory");
    let counts = before.each_ref().map(|tensor| slice(tensor).len());
    let expected = [
        sizes.interface(),
        slots * width,
        slots,
        slots,
        slots * slots,
        reads * slots,
        slots,
    ];
    assert_eq!(
        counts,
        expected.map(|count| batch * count),
        "sizes of a memory"
    );
    sizes
}

/// A step; its outputs are rows, usage, precedence, links, read weights, write weights, allocation, read
/// vectors.
fn step(before: [&Raw; 7]) -> ([Raw; 8], Saved) {
    let before = before.map(contiguous);
    let sizes = sizes(&before);
    let Sizes {
        batch,
        reads,
        slots,
        width,
    } = sizes;
    let zeros = |count: usize| vec![0.0_f32; batch * count];
    let (mut rows, mut links) = (zeros(slots * width), zeros(slots * slots));
    let [mut usage, mut precedence, mut write_weights, mut allocation] =
        [(); 4].map(|()| zeros(slots));
    let (mut read_weights, mut vectors) = (zeros(reads * slots), zeros(reads * width));
    let mut written = zeros(sizes.written().iter().sum());
    let mut found = zeros(sizes.found().iter().sum());
    let (mut forward, mut backward) = (zeros(slots * reads), zeros(sizes.blocks() * reads * slots));

    let old = before.each_ref().map(slice);
    let old = |index: usize| {
        let [
            interface,
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
        ] = old.map(|all| of(all, index, batch));
        Before {
            interface,
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
        }
    };
    let outputs = shares(
        [
            &mut rows,
            &mut usage,
            &mut precedence,
            &mut write_weights,
            &mut allocation,
            &mut written,
        ],
        batch,
    );
    each(outputs, sizes.row_cost(), |index, outputs| {
        let [rows, usage, precedence, write_weights, allocation, saved] = outputs;
        run(Write {
            sizes,
            before: old(index),
            rows,
            usage,
            precedence,
            write_weights,
            allocation,
            saved,
        });
    });
    let outputs = blocks(
        [&mut links, &mut forward],
        [slots, reads],
        &mut backward,
        sizes,
    );
    each(outputs, sizes.link_cost(), |index, outputs| {
        let ([new, forward], backward) = outputs;
        let (sequence, block) = (index / sizes.blocks(), index % sizes.blocks());
        let first = block * sizes.rows();
        let before = old(sequence);
        run(Links {
            sizes,
            first,
            old: &before.links[first * slots..],
            precedence: before.precedence,
            write_weights: of(&write_weights, sequence, batch),
            read_weights: before.read_weights,
            new,
            forward,
            backward,
        });
    });
    let outputs = shares([&mut read_weights, &mut vectors, &mut found], batch);
    each(outputs, sizes.row_cost(), |index, outputs| {
        let [read_weights, vectors, saved] = outputs;
        run(Read {
            sizes,
            activated: &of(&written, index, batch)[..sizes.interface()],
            rows: of(&rows, index, batch),
            forward: of(&forward, index, batch),
            backward: of(&backward, index, batch),
            read_weights,
            vectors,
            saved,
        });
    });

    let rows = raw(rows, [batch, slots, width]);
    let usage = raw(usage, [batch, slots]);
    let precedence = raw(precedence, [batch, slots]);
    let links = raw(links, [batch, slots, slots]);
    let read_weights = raw(read_weights, [batch, reads, slots]);
    let write_weights = raw(write_weights, [batch, slots]);
    let allocation = raw(allocation, [batch, slots]);
    let saved = Saved {
        sizes,
        before,
        rows: rows.clone(),
        usage: usage.clone(),
        links: links.clone(),
        read_weights: read_weights.clone(),
        write_weights: write_weights.clone(),
        allocation: allocation.clone(),
        forward,
        written,
        found,
    };
    let outputs = [
        rows,
        usage,
        precedence,
        links,
        read_weights,
        write_weights,
        allocation,
        raw(vectors, [batch, reads * width]),
    ];
    (outputs, saved)
}

pub(super) fn forward(before: [&Raw; 7], parts: &Parts) -> Raw {
    parts.put(step(before).0)
}

/// Gradients of a sequence's outputs; `None` where nothing depends on them.
#[derive(Clone, Copy)]
struct Outer<'a> {
    rows: Option<&'a [f32]>,
    usage: Option<&'a [f32]>,
    precedence: Option<&'a [f32]>,
    links: Option<&'a [f32]>,
    read_weights: Option<&'a [f32]>,
    write_weights: Option<&'a [f32]>,
    allocation: Option<&'a [f32]>,
    vectors: Option<&'a [f32]>,
}

#[inline(always)]
fn add(target: &mut [f32], values: Option<&[f32]>) {
    if let Some(values) = values {
        add_scaled(target, 1.0, values);
    }
}

/// The backward step of [`Read`]. Gradients of the outputs of the parts before it start as zeros.
struct ReadBackward<'a> {
    sizes: Sizes,
    activated: &'a [f32],
    rows: &'a [f32],
    read_weights: &'a [f32],
    forward: &'a [f32],
    saved: &'a [f32],
    outer: Outer<'a>,
    /// Of the activated interface.
    interface_out: &'a mut [f32],
    /// Of the rows after the write.
    rows_out: &'a mut [f32],
    /// `[reads, slots]` both.
    backward_out: &'a mut [f32],
    forward_out: &'a mut [f32],
    /// `[reads + 1, slots]`
    scratch: &'a mut [f32],
}

impl Loop for ReadBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sizes {
            reads,
            slots,
            width,
            ..
        } = self.sizes;
        let [read_keys, strengths, .., modes] = cut(self.activated, self.sizes.parts());
        let [keys_out, strengths_out, .., modes_out] =
            cut_mut(self.interface_out, self.sizes.parts());
        let [backward, cosines, content, key_norms, row_norms] =
            cut(self.saved, self.sizes.found());
        let [content_out, scratch] = cut_mut(self.scratch, [reads * slots, slots]);
        add(self.rows_out, self.outer.rows);
        let heads = modes.as_chunks::<3>().0.iter();
        let heads = heads.zip(modes_out.as_chunks_mut::<3>().0);
        for (r, (mode, mode_out)) in heads.enumerate() {
            let head = r * slots..(r + 1) * slots;
            let weights = &self.read_weights[head.clone()];
            let gradient = &mut content_out[head.clone()];
            gradient.fill(0.0);
            add(
                gradient,
                self.outer.read_weights.map(|all| &all[head.clone()]),
            );
            if let Some(vectors) = self.outer.vectors {
                let vector = &vectors[r * width..(r + 1) * width];
                let rows = self.rows.chunks_exact(width);
                let rows = rows.zip(self.rows_out.chunks_exact_mut(width));
                for (n, (row, row_out)) in rows.enumerate() {
                    gradient[n] += dot(vector, row);
                    add_scaled(row_out, weights[n], vector);
                }
            }
            let forward = self.forward.iter().skip(r).step_by(reads);
            mode_out[0] = dot(gradient, &backward[head.clone()]);
            mode_out[1] = dot(gradient, &content[head.clone()]);
            mode_out[2] = gradient.iter().zip(forward).map(|(g, f)| g * f).sum();
            let outputs = self.backward_out[head.clone()].iter_mut();
            let outputs = outputs.zip(&mut self.forward_out[head]);
            for (gradient, (backward, forward)) in gradient.iter_mut().zip(outputs) {
                *backward = mode[0] * *gradient;
                *forward = mode[2] * *gradient;
                *gradient *= mode[1];
            }
        }
        content::Gradient {
            keys: read_keys,
            memory: self.rows,
            width,
            strengths: Some(strengths),
            cosines,
            weights: content,
            key_norms,
            row_norms,
            gradient: content_out,
            scratch,
            keys_out,
            strengths_out,
            memory_out: self.rows_out,
        }
        .run();
    }
}

/// The backward step of [`Links`].
struct LinksBackward<'a> {
    sizes: Sizes,
    first: usize,
    old: &'a [f32],
    new: &'a [f32],
    precedence: &'a [f32],
    write_weights: &'a [f32],
    read_weights: &'a [f32],
    /// Gradients of the reads along the links, `[reads, slots]`.
    backward: &'a [f32],
    forward: &'a [f32],
    outer: Option<&'a [f32]>,
    old_out: &'a mut [f32],
    /// What the rows add, in zeros: gradients of write weights and precedence, then of read weights;
    /// `[2 + reads, slots]`.
    partial: &'a mut [f32],
}

impl Loop for LinksBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let slots = self.sizes.slots;
        let [writes_out, precedence_out, reads_out] =
            cut_mut(self.partial, [slots, slots, self.sizes.reads * slots]);
        let (write_weights, precedence) = (&self.write_weights[..slots], &self.precedence[..slots]);
        let rows = self.old.chunks_exact(slots);
        let rows = rows.zip(self.new.chunks_exact(slots));
        let rows = rows.zip(self.old_out.chunks_exact_mut(slots));
        for (index, ((old, new), gradient)) in rows.enumerate() {
            let i = self.first + index;
            add(
                gradient,
                self.outer.map(|all| &all[index * slots..][..slots]),
            );
            let heads = self.read_weights.chunks_exact(slots);
            let outer = self.backward.chunks_exact(slots);
            let outer = outer.zip(self.forward.chunks_exact(slots));
            let heads = heads.zip(outer).zip(reads_out.chunks_exact_mut(slots));
            for ((weights, (backward, forward)), out) in heads {
                let (weight, forward) = (weights[i], forward[i]);
                let (weights, backward) = (&weights[..slots], &backward[..slots]);
                for j in 0..slots {
                    gradient[j] += forward * weights[j] + weight * backward[j];
                    out[j] += forward * new[j];
                }
                out[i] += dot(backward, new);
            }
            gradient[i] *= 0.0;
            let weight = write_weights[i];
            let (writes, precedences) = (&mut writes_out[..slots], &mut precedence_out[..slots]);
            for j in 0..slots {
                writes[j] -= gradient[j] * old[j];
                precedences[j] += gradient[j] * weight;
            }
            writes[i] += dot(gradient, precedence) - dot(gradient, old);
            for j in 0..slots {
                gradient[j] *= 1.0 - (weight + write_weights[j]);
            }
        }
    }
}

/// The backward step of [`Write`].
struct WriteBackward<'a> {
    sizes: Sizes,
    before: Before<'a>,
    usage: &'a [f32],
    write_weights: &'a [f32],
    allocation: &'a [f32],
    saved: &'a [f32],
    /// Of the rows after the write.
    rows: &'a [f32],
    /// Of each block of links, `[blocks, 2 + reads, slots]`.
    partial: &'a [f32],
    outer: Outer<'a>,
    /// Comes as that of the activated interface, of which the part of the reads is there.
    interface_out: &'a mut [f32],
    rows_out: &'a mut [f32],
    usage_out: &'a mut [f32],
    precedence_out: &'a mut [f32],
    read_weights_out: &'a mut [f32],
    /// `[4, slots]`
    scratch: &'a mut [f32],
}

impl Loop for WriteBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            sizes,
            before,
            outer,
            ..
        } = self;
        let Sizes {
            reads,
            slots,
            width,
            ..
        } = sizes;
        let [
            activated,
            retention,
            order,
            products,
            cosines,
            content,
            key_norm,
            row_norms,
        ] = cut(self.saved, sizes.written());
        let [
            _,
            _,
            write_key,
            write_strength,
            erase,
            write,
            free_gates,
            allocation_gate,
            write_gate,
            _,
        ] = cut(activated, sizes.parts());
        let [
            _,
            _,
            key_out,
            strength_out,
            erase_out,
            write_out,
            free_out,
            allocation_gate_out,
            write_gate_out,
            _,
        ] = cut_mut(self.interface_out, sizes.parts());
        let [weights_out, content_out, free, scratch] = cut_mut(self.scratch, [slots; 4]);
        weights_out.fill(0.0);
        add(weights_out, outer.write_weights);
        for partial in self.partial.chunks_exact((2 + reads) * slots) {
            let [weights, precedence, reads] = cut(partial, [slots, slots, reads * slots]);
            add_scaled(weights_out, 1.0, weights);
            add_scaled(self.precedence_out, 1.0, precedence);
            add_scaled(self.read_weights_out, 1.0, reads);
        }
        // p = (1 - sum w) p + w
        if let Some(gradient) = outer.precedence {
            let unwritten = 1.0 - self.write_weights.iter().sum::<f32>();
            add_scaled(self.precedence_out, unwritten, gradient);
            let along = dot(gradient, before.precedence);
            for (out, gradient) in weights_out.iter_mut().zip(gradient) {
                *out += gradient - along;
            }
        }
        // M = M - M w e + w v
        let rows = before.rows.chunks_exact(width);
        let rows = rows.zip(self.rows.chunks_exact(width));
        let rows = rows.zip(self.rows_out.chunks_exact_mut(width));
        let (erase, write) = (&erase[..width], &write[..width]);
        let (erase_out, write_out) = (&mut erase_out[..width], &mut write_out[..width]);
        for (n, ((old, gradient), old_out)) in rows.enumerate() {
            let weight = self.write_weights[n];
            weights_out[n] += dot(gradient, write);
            for k in 0..width {
                let product = gradient[k] * old[k];
                old_out[k] = product * erase[k];
                erase_out[k] -= product * weight;
                write_out[k] += gradient[k] * weight;
            }
            weights_out[n] -= sum(old_out);
            for k in 0..width {
                old_out[k] = gradient[k] - gradient[k] * (weight * erase[k]);
            }
        }
        // w = g^w (c + g^a (a - c))
        let (allocation_gate, write_gate) = (allocation_gate[0], write_gate[0]);
        let mut to_gates = [0.0; 2];
        let found = self.allocation.iter().zip(content);
        let outputs = free.iter_mut().zip(&mut *content_out);
        for ((gradient, (a, c)), (free, content)) in weights_out.iter().zip(found).zip(outputs) {
            to_gates[0] += gradient * write_gate * (a - c);
            to_gates[1] += gradient * (c + allocation_gate * (a - c));
            *free = gradient * write_gate * allocation_gate;
            *content = gradient * write_gate - *free;
        }
        allocation_gate_out[0] = to_gates[0];
        write_gate_out[0] = to_gates[1];
        content::Gradient {
            keys: write_key,
            memory: before.rows,
            width,
            strengths: Some(write_strength),
            cosines,
            weights: content,
            key_norms: key_norm,
            row_norms,
            gradient: content_out,
            scratch,
            keys_out: key_out,
            strengths_out: strength_out,
            memory_out: self.rows_out,
        }
        .run();
        add(free, outer.allocation);

        let usage_out = &mut *self.usage_out;
        add(usage_out, outer.usage);
        allocate_backward(self.usage, order, products, free, usage_out);
        // u = (u + w - u w) prod (1 - f w^r)
        let kept_out = content_out;
        for n in 0..slots {
            let (old, written) = (before.usage[n], before.write_weights[n]);
            kept_out[n] = usage_out[n] * (old + written - old * written);
            usage_out[n] = usage_out[n] * retention[n] * (1.0 - written);
        }
        let kept = |r: usize, n: usize| 1.0 - free_gates[r] * before.read_weights[r * slots + n];
        for r in 0..reads {
            let others = &mut *scratch;
            others.copy_from_slice(kept_out);
            for other in (0..reads).filter(|other| *other != r) {
                for (n, others) in others.iter_mut().enumerate() {
                    *others *= kept(other, n);
                }
            }
            let head = r * slots..(r + 1) * slots;
            free_out[r] = -dot(others, &before.read_weights[head.clone()]);
            add_scaled(&mut self.read_weights_out[head], -free_gates[r], others);
        }
        deactivate(sizes, before.interface, activated, self.interface_out);
    }
}

#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (lanes, rest) = values.as_chunks::<16>();
    for values in lanes {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += value;
    }
    total(sums)
}

/// Gradients of interface, rows, usage, precedence, links and read weights.
fn gradients(saved: &Saved, outer: &[Option<Raw>; 8]) -> [Raw; 6] {
    let sizes = saved.sizes;
    let Sizes {
        batch,
        reads,
        slots,
        width,
    } = sizes;
    let zeros = |count: usize| vec![0.0_f32; batch * count];
    let mut interface_out = zeros(sizes.interface());
    let (mut rows, mut rows_out) = (zeros(slots * width), zeros(slots * width));
    let [mut usage_out, mut precedence_out] = [(); 2].map(|()| zeros(slots));
    let mut links_out = zeros(slots * slots);
    let [mut backward, mut forward, mut read_weights_out] = [(); 3].map(|()| zeros(reads * slots));
    let mut partial = zeros(sizes.blocks() * (2 + reads) * slots);
    let mut scratch = zeros((reads + 4) * slots);

    let outer = outer
        .each_ref()
        .map(|gradient| gradient.as_ref().map(slice));
    let outer = |index: usize| {
        let [
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
            allocation,
            vectors,
        ] = outer.map(|gradient| gradient.map(|all| of(all, index, batch)));
        Outer {
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
            allocation,
            vectors,
        }
    };
    let outputs = shares(
        [
            &mut interface_out,
            &mut rows,
            &mut backward,
            &mut forward,
            &mut scratch,
        ],
        batch,
    );
    each(outputs, sizes.row_cost(), |index, outputs| {
        let [interface_out, rows_out, backward_out, forward_out, scratch] = outputs;
        run(ReadBackward {
            sizes,
            activated: &of(&saved.written, index, batch)[..sizes.interface()],
            rows: of(slice(&saved.rows), index, batch),
            read_weights: of(slice(&saved.read_weights), index, batch),
            forward: of(&saved.forward, index, batch),
            saved: of(&saved.found, index, batch),
            outer: outer(index),
            interface_out,
            rows_out,
            backward_out,
            forward_out,
            scratch: &mut scratch[..(reads + 1) * slots],
        });
    });
    let outputs = blocks([&mut links_out], [slots], &mut partial, sizes);
    each(outputs, 2 * sizes.link_cost(), |index, outputs| {
        let ([old_out], partial) = outputs;
        let (sequence, block) = (index / sizes.blocks(), index % sizes.blocks());
        let first = block * sizes.rows();
        let before = saved.before(sequence);
        run(LinksBackward {
            sizes,
            first,
            old: &before.links[first * slots..],
            new: &of(slice(&saved.links), sequence, batch)[first * slots..],
            precedence: before.precedence,
            write_weights: of(slice(&saved.write_weights), sequence, batch),
            read_weights: before.read_weights,
            backward: of(&backward, sequence, batch),
            forward: of(&forward, sequence, batch),
            outer: outer(sequence).links.map(|all| &all[first * slots..]),
            old_out,
            partial,
        });
    });
    let outputs = shares(
        [
            &mut interface_out,
            &mut rows_out,
            &mut usage_out,
            &mut precedence_out,
            &mut read_weights_out,
            &mut scratch,
        ],
        batch,
    );
    each(outputs, 2 * sizes.row_cost(), |index, outputs| {
        let [
            interface_out,
            rows_out,
            usage_out,
            precedence_out,
            read_weights_out,
            scratch,
        ] = outputs;
        run(WriteBackward {
            sizes,
            before: saved.before(index),
            usage: of(slice(&saved.usage), index, batch),
            write_weights: of(slice(&saved.write_weights), index, batch),
            allocation: of(slice(&saved.allocation), index, batch),
            saved: of(&saved.written, index, batch),
            rows: of(&rows, index, batch),
            partial: of(&partial, index, batch),
            outer: outer(index),
            interface_out,
            rows_out,
            usage_out,
            precedence_out,
            read_weights_out,
            scratch: &mut scratch[..4 * slots],
        });
    });
    [
        raw(interface_out, [batch, sizes.interface()]),
        raw(rows_out, [batch, slots, width]),
        raw(usage_out, [batch, slots]),
        raw(precedence_out, [batch, slots]),
        raw(links_out, [batch, slots, slots]),
        raw(read_weights_out, [batch, reads, slots]),
    ]
}

pub(super) fn tracked<C: CheckpointStrategy>(
    before: [FloatTensor<Autodiff<Flex, C>>; 7],
    parts: Parts,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Step;

    impl Backward<Flex, 6> for Step {
        type State = (Saved, Parts);

        fn backward(self, ops: Ops<Self::State, 6>, grads: &mut Gradients, _: &mut Checkpointer) {
            let (saved, parts) = ops.state;
            // What each part registered says only that there was one.
            let _ = grads.consume::<Flex>(&ops.node);
            let found = gradients(&saved, &parts.gradients());
            for (parent, gradient) in ops.parents.into_iter().zip(found) {
                if let Some(node) = parent {
                    grads.register::<Flex>(node.id, gradient);
                }
            }
        }
    }

    let before = before.map(|tensor| tensor.into_parts());
    let (outputs, saved) = step(before.each_ref().map(|(tensor, _)| tensor));
    // No gradient for the last, the write weights.
    let [a, b, c, d, e, f, _] = before.map(|(_, guard)| guard);
    let output = parts.put(outputs);
    match Step
        .prepare::<C>([a, b, c, d, e, f])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish((saved, parts), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
