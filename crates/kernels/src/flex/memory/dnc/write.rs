//! Computes where to write, and writes everything except the links.

use super::sizes::{Before, Outer, Sizes, add, cut, cut_mut};
use super::{
    allocation::{allocate, allocate_backward},
    interface::{activate, deactivate},
};
use crate::flex::{
    memory::content,
    simd::{
        Loop,
        lanes::{add_scaled, dot, total},
    },
};

/// Computes where to write, and writes everything except the links.
pub(super) struct Write<'a> {
    pub(super) sizes: Sizes,
    pub(super) before: Before<'a>,
    pub(super) rows: &'a mut [f32],
    pub(super) usage: &'a mut [f32],
    pub(super) precedence: &'a mut [f32],
    pub(super) write_weights: &'a mut [f32],
    pub(super) allocation: &'a mut [f32],
    pub(super) saved: &'a mut [f32],
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

/// The backward step of [`Write`].
pub(super) struct WriteBackward<'a> {
    pub(super) sizes: Sizes,
    pub(super) before: Before<'a>,
    pub(super) usage: &'a [f32],
    pub(super) write_weights: &'a [f32],
    pub(super) allocation: &'a [f32],
    pub(super) saved: &'a [f32],
    /// Rows after the write.
    pub(super) rows: &'a [f32],
    /// Contribution of each block of links, `[blocks, 2 + reads, slots]`.
    pub(super) partial: &'a [f32],
    pub(super) outer: Outer<'a>,
    /// At first the gradient of the activated interface, which already contains the part from the reads.
    pub(super) interface_out: &'a mut [f32],
    pub(super) rows_out: &'a mut [f32],
    pub(super) usage_out: &'a mut [f32],
    pub(super) precedence_out: &'a mut [f32],
    pub(super) read_weights_out: &'a mut [f32],
    /// `[4, slots]`
    pub(super) scratch: &'a mut [f32],
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
