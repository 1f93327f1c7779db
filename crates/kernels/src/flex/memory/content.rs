//! Cosine similarity and content weights, forward and backward in one pass each.

use crate::content::NORM_EPSILON;
use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{
        Loop,
        chunks::each,
        lanes::{add_scaled, dot},
        math, run,
    },
    slice,
};

#[inline(always)]
fn norm(row: &[f32]) -> f32 {
    (dot(row, row) + NORM_EPSILON as f32).sqrt()
}

/// One sequence: keys `[heads, width]` against rows `[slots, width]`.
pub(crate) struct Similarity<'a> {
    pub(crate) keys: &'a [f32],
    pub(crate) memory: &'a [f32],
    pub(crate) width: usize,
    /// The strength of each head; `None` to leave out strengths and softmax.
    pub(crate) strengths: Option<&'a [f32]>,
    /// `[heads, slots]`
    pub(crate) cosines: &'a mut [f32],
    /// `[heads, slots]`, used only with strengths.
    pub(crate) weights: &'a mut [f32],
    pub(crate) key_norms: &'a mut [f32],
    pub(crate) row_norms: &'a mut [f32],
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
pub(crate) struct Gradient<'a> {
    pub(crate) keys: &'a [f32],
    pub(crate) memory: &'a [f32],
    pub(crate) width: usize,
    pub(crate) strengths: Option<&'a [f32]>,
    pub(crate) cosines: &'a [f32],
    pub(crate) weights: &'a [f32],
    pub(crate) key_norms: &'a [f32],
    pub(crate) row_norms: &'a [f32],
    /// Gradient of the weights, or of the cosines without strengths; `[heads, slots]`.
    pub(crate) gradient: &'a [f32],
    /// Scratch space for the gradient of a head's cosines.
    pub(crate) scratch: &'a mut [f32],
    pub(crate) keys_out: &'a mut [f32],
    pub(crate) strengths_out: &'a mut [f32],
    pub(crate) memory_out: &'a mut [f32],
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

/// Output buffers of one sequence's forward pass.
struct Outputs<'a> {
    cosines: &'a mut [f32],
    weights: &'a mut [f32],
    key_norms: &'a mut [f32],
    row_norms: &'a mut [f32],
}

/// Output buffers of one sequence's backward pass.
struct GradientOutputs<'a> {
    keys: &'a mut [f32],
    strengths: &'a mut [f32],
    memory: &'a mut [f32],
}

/// Values that the backward pass needs.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
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
        "shapes of keys and memory"
    );
    [batch, heads, slots, width]
}

/// Weights with strengths, otherwise cosines; `[batch, heads, slots]`.
fn forward(keys: &Raw, strengths: Option<&Raw>, memory: &Raw) -> (Raw, Saved) {
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
        "shape of the strengths"
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
fn gradients(saved: &Saved, outer: &Raw) -> [Raw; 3] {
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
    [
        raw(keys_out, [batch, heads, width]),
        raw(strengths_out, [batch, heads]),
        raw(memory_out, [batch, slots, width]),
    ]
}

/// See [`crate::content::cosine_similarity`].
pub(crate) struct Cosine;

impl Fused<2> for Cosine {
    type Outputs = Raw;
    type Saved = Saved;

    fn forward(self, [keys, memory]: [Raw; 2]) -> (Raw, Saved) {
        forward(&keys, None, &memory)
    }

    fn backward(saved: Saved, outer: Raw, _: [bool; 2]) -> [Option<Raw>; 2] {
        let [to_keys, _, to_memory] = gradients(&saved, &outer);
        [Some(to_keys), Some(to_memory)]
    }
}

/// See [`crate::content::content_weights`].
pub(crate) struct ContentWeights;

impl Fused<3> for ContentWeights {
    type Outputs = Raw;
    type Saved = Saved;

    fn forward(self, [keys, strengths, memory]: [Raw; 3]) -> (Raw, Saved) {
        forward(&keys, Some(&strengths), &memory)
    }

    fn backward(saved: Saved, outer: Raw, _: [bool; 3]) -> [Option<Raw>; 3] {
        gradients(&saved, &outer).map(Some)
    }
}
