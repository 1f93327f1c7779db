//! One step of a DNC's memory, forward and backward. Sequences are processed one by one, and links by blocks of
//! rows.
//!
//! A step is [`write`], then [`links`], then [`read`]; the backward pass runs them in reverse order.

mod allocation;
mod interface;
mod links;
mod read;
mod sizes;
mod write;

use links::{Links, LinksBackward};
use read::{Read, ReadBackward};
use sizes::{Before, Outer, Sizes, blocks, of, shares};
use write::{Write, WriteBackward};

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{chunks::each, run},
    slice,
};

/// Values that the backward pass needs.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    sizes: Sizes,
    /// Interface, rows, usage, precedence, links, read weights and write weights before the step.
    before: [Raw; 7],
    /// Rows after the step.
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
    assert!(reads > 0 && slots > 0 && width > 0, "the memory is empty");
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

/// One step. Outputs are rows, usage, precedence, links, read weights, write weights, allocation and read
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

/// See [`crate::dnc::fused_step`]. Inputs: interface, rows, usage, precedence, links, read weights and write
/// weights. Outputs: all of these except the interface, then allocation and read vectors.
pub(crate) struct DncStep;

impl Fused<7> for DncStep {
    type Outputs = [Raw; 8];
    type Saved = Saved;

    /// No gradient passes through the previous write weights.
    const DATA: &'static [usize] = &[6];

    fn forward(self, inputs: [Raw; 7]) -> ([Raw; 8], Saved) {
        step(inputs.each_ref())
    }

    fn backward(saved: Saved, outer: [Option<Raw>; 8], _: [bool; 7]) -> [Option<Raw>; 7] {
        let [interface, rows, usage, precedence, links, read_weights] =
            gradients(&saved, &outer).map(Some);
        [
            interface,
            rows,
            usage,
            precedence,
            links,
            read_weights,
            None,
        ]
    }
}
