//! Computes where to read, and reads.

use super::sizes::{Outer, Sizes, add, cut, cut_mut};
use crate::flex::{
    memory::content,
    simd::{
        Loop,
        lanes::{add_scaled, dot},
    },
};

/// Computes where to read, and reads.
pub(super) struct Read<'a> {
    pub(super) sizes: Sizes,
    pub(super) activated: &'a [f32],
    pub(super) rows: &'a [f32],
    /// `[slots, reads]`
    pub(super) forward: &'a [f32],
    /// Contribution of each block of rows, `[blocks, reads, slots]`.
    pub(super) backward: &'a [f32],
    pub(super) read_weights: &'a mut [f32],
    pub(super) vectors: &'a mut [f32],
    pub(super) saved: &'a mut [f32],
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

/// The backward step of [`Read`]. Gradients of the earlier parts' outputs are initially zero.
pub(super) struct ReadBackward<'a> {
    pub(super) sizes: Sizes,
    pub(super) activated: &'a [f32],
    pub(super) rows: &'a [f32],
    pub(super) read_weights: &'a [f32],
    pub(super) forward: &'a [f32],
    pub(super) saved: &'a [f32],
    pub(super) outer: Outer<'a>,
    /// Gradient of the activated interface.
    pub(super) interface_out: &'a mut [f32],
    /// Gradient of the rows after the write.
    pub(super) rows_out: &'a mut [f32],
    /// Gradients of the backward and the forward reads, each `[reads, slots]`.
    pub(super) backward_out: &'a mut [f32],
    pub(super) forward_out: &'a mut [f32],
    /// `[reads + 1, slots]`
    pub(super) scratch: &'a mut [f32],
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
