//! Links between the slots, and reads along the links.

use super::sizes::{Sizes, add, cut_mut};
use crate::flex::simd::{
    Loop,
    lanes::{add_scaled, dot},
};

/// Some rows of the links, and the reads along them.
pub(super) struct Links<'a> {
    pub(super) sizes: Sizes,
    /// Index of the first row.
    pub(super) first: usize,
    /// The rows before the step.
    pub(super) old: &'a [f32],
    pub(super) precedence: &'a [f32],
    pub(super) write_weights: &'a [f32],
    pub(super) read_weights: &'a [f32],
    pub(super) new: &'a mut [f32],
    /// Forward reads of these rows, `[rows, reads]`.
    pub(super) forward: &'a mut [f32],
    /// Contribution of these rows, `[reads, slots]`, initially zero.
    pub(super) backward: &'a mut [f32],
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

/// The backward step of [`Links`].
pub(super) struct LinksBackward<'a> {
    pub(super) sizes: Sizes,
    pub(super) first: usize,
    pub(super) old: &'a [f32],
    pub(super) new: &'a [f32],
    pub(super) precedence: &'a [f32],
    pub(super) write_weights: &'a [f32],
    pub(super) read_weights: &'a [f32],
    /// Gradients of the reads along the links, `[reads, slots]`.
    pub(super) backward: &'a [f32],
    pub(super) forward: &'a [f32],
    pub(super) outer: Option<&'a [f32]>,
    pub(super) old_out: &'a mut [f32],
    /// Contribution of these rows, initially zero: gradients of the write weights, the precedence and the read
    /// weights; `[2 + reads, slots]`.
    pub(super) partial: &'a mut [f32],
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
