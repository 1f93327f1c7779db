//! Cosine similarity and content weights, forward and backward in one pass each.

use super::{Loop, Raw, contiguous, math, raw, run, slice};
use crate::content::NORM_EPSILON;
use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};
use rayon::prelude::*;

pub(super) const LANES: usize = 16;

/// The sum of lanes by halves, which takes few steps where one after the other takes many.
#[inline(always)]
pub(super) fn total(mut sums: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += a * b;
    }
    total(sums)
}

/// `target += factor * row`
#[inline(always)]
pub(super) fn add_scaled(target: &mut [f32], factor: f32, row: &[f32]) {
    for (target, value) in target.iter_mut().zip(row) {
        *target += factor * value;
    }
}

#[inline(always)]
fn norm(row: &[f32]) -> f32 {
    (dot(row, row) + NORM_EPSILON as f32).sqrt()
}

/// One sequence: keys `[heads, width]` against rows `[slots, width]`.
pub(super) struct Similarity<'a> {
    pub(super) keys: &'a [f32],
    pub(super) memory: &'a [f32],
    pub(super) width: usize,
    /// For each head its strength; `None` to leave out strengths and softmax.
    pub(super) strengths: Option<&'a [f32]>,
    /// `[heads, slots]`
    pub(super) cosines: &'a mut [f32],
    /// `[heads, slots]`, with strengths.
    pub(super) weights: &'a mut [f32],
    pub(super) key_norms: &'a mut [f32],
    pub(super) row_norms: &'a mut [f32],
}

impl Loop for Similarity<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let slots = self.row_norms.len();
        for (norms, row) in self
            .row_norms
            .iter_mut()
            .zip(self.memory.chunks_exact(self.width))
        {
            *norms = norm(row);
        }
        let heads = self.keys.chunks_exact(self.width).enumerate();
        for ((head, key), cosines) in heads.zip(self.cosines.chunks_exact_mut(slots)) {
            let key_norm = norm(key);
            self.key_norms[head] = key_norm;
            let rows = self.memory.chunks_exact(self.width).zip(&*self.row_norms);
            for (cosine, (row, row_norm)) in cosines.iter_mut().zip(rows) {
                *cosine = dot(key, row) / (key_norm * row_norm);
            }
            let Some(strengths) = self.strengths else {
                continue;
            };
            let strength = strengths[head];
            let weights = &mut self.weights[head * slots..(head + 1) * slots];
            let largest = cosines
                .iter()
                .fold(f32::NEG_INFINITY, |m, c| if *c > m { *c } else { m });
            let top = strength * largest;
            for (weight, cosine) in weights.iter_mut().zip(&*cosines) {
                *weight = math::exp(strength * cosine - top);
            }
            let total: f32 = weights.iter().sum();
            for weight in weights {
                *weight /= total;
            }
        }
    }
}

/// Gradients of one sequence.
pub(super) struct Gradient<'a> {
    pub(super) keys: &'a [f32],
    pub(super) memory: &'a [f32],
    pub(super) width: usize,
    pub(super) strengths: Option<&'a [f32]>,
    pub(super) cosines: &'a [f32],
    pub(super) weights: &'a [f32],
    pub(super) key_norms: &'a [f32],
    pub(super) row_norms: &'a [f32],
    /// Of the weights, or of the cosines without strengths; `[heads, slots]`.
    pub(super) gradient: &'a [f32],
    /// Space for the gradient of a head's cosines.
    pub(super) scratch: &'a mut [f32],
    pub(super) keys_out: &'a mut [f32],
    pub(super) strengths_out: &'a mut [f32],
    pub(super) memory_out: &'a mut [f32],
}

impl Loop for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (width, slots) = (self.width, self.row_norms.len());
        let keys = self.keys.chunks_exact(width);
        let keys = keys.zip(self.keys_out.chunks_exact_mut(width));
        for (head, (key, key_out)) in keys.enumerate() {
            let range = head * slots..(head + 1) * slots;
            let cosines = &self.cosines[range.clone()];
            let gradient = &self.gradient[range.clone()];
            match self.strengths {
                None => self.scratch.copy_from_slice(gradient),
                Some(strengths) => {
                    let weights = &self.weights[range];
                    let mean = dot(weights, gradient);
                    let products = self.scratch.iter_mut().zip(weights.iter().zip(gradient));
                    for (product, (weight, gradient)) in products {
                        *product = weight * (gradient - mean);
                    }
                    self.strengths_out[head] = dot(self.scratch, cosines);
                    for product in &mut *self.scratch {
                        *product *= strengths[head];
                    }
                }
            }
            // cos = k . m / (|k| |m|)
            let key_norm = self.key_norms[head];
            let along = dot(self.scratch, cosines) / (key_norm * key_norm);
            let rows = self.memory.chunks_exact(width);
            let rows = rows.zip(self.memory_out.chunks_exact_mut(width));
            for (slot, (row, row_out)) in rows.enumerate() {
                let row_norm = self.row_norms[slot];
                let factor = self.scratch[slot] / (key_norm * row_norm);
                add_scaled(key_out, factor, row);
                add_scaled(row_out, factor, key);
                let along = self.scratch[slot] * cosines[slot] / (row_norm * row_norm);
                add_scaled(row_out, -along, row);
            }
            add_scaled(key_out, -along, key);
        }
    }
}

/// Works on sequences one by one, in parallel where there is enough to do. Each is worked on alone,
/// so the number of threads changes no result.
pub(super) fn each<T: Send>(sequences: Vec<T>, cost: usize, work: impl Fn(usize, T) + Sync) {
    /// Multiplications under which a second thread costs more than it saves.
    const SERIAL: usize = 1 << 17;
    let pair = |(index, sequence)| work(index, sequence);
    match cost < SERIAL {
        true => sequences.into_iter().enumerate().for_each(pair),
        false => sequences.into_par_iter().enumerate().for_each(pair),
    }
}

/// Where one sequence's forward pass writes.
struct Outputs<'a> {
    cosines: &'a mut [f32],
    weights: &'a mut [f32],
    key_norms: &'a mut [f32],
    row_norms: &'a mut [f32],
}

/// Where one sequence's backward pass writes.
struct GradientOutputs<'a> {
    keys: &'a mut [f32],
    strengths: &'a mut [f32],
    memory: &'a mut [f32],
}

/// What the gradient needs of the forward pass.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    keys: Raw,
    memory: Raw,
    strengths: Option<Raw>,
    cosines: Raw,
    weights: Option<Raw>,
    key_norms: Raw,
    row_norms: Raw,
}

fn sizes(keys: &Raw, memory: &Raw) -> [usize; 4] {
    let [batch, heads, width] = keys.layout().shape().dims();
    let [rows, slots, row_width] = memory.layout().shape().dims();
    assert_eq!(
        [batch, width],
        [rows, row_width],
        "keys and rows of a memory"
    );
    [batch, heads, slots, width]
}

/// Weights with strengths, cosines without; `[batch, heads, slots]`.
pub(super) fn forward(keys: &Raw, strengths: Option<&Raw>, memory: &Raw) -> (Raw, Saved) {
    let (keys, memory) = (contiguous(keys), contiguous(memory));
    let strengths = strengths.map(contiguous);
    let [batch, heads, slots, width] = sizes(&keys, &memory);
    let mut cosines = vec![0.0; batch * heads * slots];
    let mut weights = vec![0.0; strengths.as_ref().map_or(batch, |_| batch * heads * slots)];
    let mut key_norms = vec![0.0; batch * heads];
    let mut row_norms = vec![0.0; batch * slots];
    let given = strengths.as_ref().map(slice);
    assert!(
        given.is_none_or(|given| given.len() == batch * heads),
        "strengths of keys"
    );
    let share = weights.len() / batch.max(1);
    let outputs = cosines
        .chunks_exact_mut(heads * slots)
        .zip(weights.chunks_exact_mut(share))
        .zip(key_norms.chunks_exact_mut(heads))
        .zip(row_norms.chunks_exact_mut(slots))
        .map(|(((cosines, weights), key_norms), row_norms)| Outputs {
            cosines,
            weights,
            key_norms,
            row_norms,
        });
    let cost = batch * heads * slots * width;
    each(outputs.collect(), cost, |index, outputs| {
        run(Similarity {
            keys: &slice(&keys)[index * heads * width..][..heads * width],
            memory: &slice(&memory)[index * slots * width..][..slots * width],
            width,
            strengths: given.map(|given| &given[index * heads..][..heads]),
            cosines: outputs.cosines,
            weights: outputs.weights,
            key_norms: outputs.key_norms,
            row_norms: outputs.row_norms,
        });
    });
    let cosines = raw(cosines, [batch, heads, slots]);
    let weights = strengths
        .is_some()
        .then(|| raw(weights, [batch, heads, slots]));
    let output = weights.as_ref().unwrap_or(&cosines).clone();
    let saved = Saved {
        keys,
        memory,
        strengths,
        cosines,
        weights,
        key_norms: raw(key_norms, [batch, heads]),
        row_norms: raw(row_norms, [batch, slots]),
    };
    (output, saved)
}

/// Gradients of keys, strengths and memory.
fn gradients(saved: &Saved, outer: &Raw) -> [Vec<f32>; 3] {
    let outer = contiguous(outer);
    let [batch, heads, slots, width] = sizes(&saved.keys, &saved.memory);
    let mut keys_out = vec![0.0; batch * heads * width];
    let mut strengths_out = vec![0.0; batch * heads];
    let mut memory_out = vec![0.0; batch * slots * width];
    let outputs = keys_out
        .chunks_exact_mut(heads * width)
        .zip(strengths_out.chunks_exact_mut(heads))
        .zip(memory_out.chunks_exact_mut(slots * width))
        .map(|((keys, strengths), memory)| GradientOutputs {
            keys,
            strengths,
            memory,
        });
    let cost = batch * heads * slots * width;
    each(outputs.collect(), cost, |index, outputs| {
        let matrix = index * heads * slots..(index + 1) * heads * slots;
        let cosines = &slice(&saved.cosines)[matrix.clone()];
        run(Gradient {
            keys: &slice(&saved.keys)[index * heads * width..][..heads * width],
            memory: &slice(&saved.memory)[index * slots * width..][..slots * width],
            width,
            strengths: saved
                .strengths
                .as_ref()
                .map(|strengths| &slice(strengths)[index * heads..][..heads]),
            cosines,
            weights: saved
                .weights
                .as_ref()
                .map_or(cosines, |weights| &slice(weights)[matrix.clone()]),
            key_norms: &slice(&saved.key_norms)[index * heads..][..heads],
            row_norms: &slice(&saved.row_norms)[index * slots..][..slots],
            gradient: &slice(&outer)[matrix],
            scratch: &mut vec![0.0; slots],
            keys_out: outputs.keys,
            strengths_out: outputs.strengths,
            memory_out: outputs.memory,
        });
    });
    [keys_out, strengths_out, memory_out]
}

pub(super) fn tracked_cosine<C: CheckpointStrategy>(
    keys: FloatTensor<Autodiff<Flex, C>>,
    memory: FloatTensor<Autodiff<Flex, C>>,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Cosine;

    impl Backward<Flex, 2> for Cosine {
        type State = Saved;

        fn backward(self, ops: Ops<Saved, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
            let outer = grads.consume::<Flex>(&ops.node);
            let [batch, heads, slots, width] = sizes(&ops.state.keys, &ops.state.memory);
            let [keys, _, memory] = gradients(&ops.state, &outer);
            let [to_keys, to_memory] = ops.parents;
            if let Some(node) = to_keys {
                grads.register::<Flex>(node.id, raw(keys, [batch, heads, width]));
            }
            if let Some(node) = to_memory {
                grads.register::<Flex>(node.id, raw(memory, [batch, slots, width]));
            }
        }
    }

    let (keys, keys_guard) = keys.into_parts();
    let (memory, memory_guard) = memory.into_parts();
    let (output, saved) = forward(&keys, None, &memory);
    match Cosine
        .prepare::<C>([keys_guard, memory_guard])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish(saved, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

pub(super) fn tracked_weights<C: CheckpointStrategy>(
    keys: FloatTensor<Autodiff<Flex, C>>,
    strengths: FloatTensor<Autodiff<Flex, C>>,
    memory: FloatTensor<Autodiff<Flex, C>>,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Content;

    impl Backward<Flex, 3> for Content {
        type State = Saved;

        fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
            let outer = grads.consume::<Flex>(&ops.node);
            let [batch, heads, slots, width] = sizes(&ops.state.keys, &ops.state.memory);
            let [keys, strengths, memory] = gradients(&ops.state, &outer);
            let [to_keys, to_strengths, to_memory] = ops.parents;
            if let Some(node) = to_keys {
                grads.register::<Flex>(node.id, raw(keys, [batch, heads, width]));
            }
            if let Some(node) = to_strengths {
                grads.register::<Flex>(node.id, raw(strengths, [batch, heads]));
            }
            if let Some(node) = to_memory {
                grads.register::<Flex>(node.id, raw(memory, [batch, slots, width]));
            }
        }
    }

    let (keys, keys_guard) = keys.into_parts();
    let (strengths, strengths_guard) = strengths.into_parts();
    let (memory, memory_guard) = memory.into_parts();
    let (output, saved) = forward(&keys, Some(&strengths), &memory);
    let guards = [keys_guard, strengths_guard, memory_guard];
    match Content.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(saved, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
