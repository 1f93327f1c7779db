//! Attention of rows to each other from their normalised projections, forward and backward in one pass each over
//! the rows of a sequence.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    memory::norm::{added_up, gradient_of_row, moments, normalise},
    raw,
    simd::{
        Loop,
        chunks::{in_pairs, zeros},
        lanes::{add_scaled, dot},
        math, run,
    },
    slice,
};
use crate::relation::Relation;
use rayon::prelude::*;
use std::ops::Range;

/// Sequences whose gradients of scale and shift are summed separately; the number of threads does not change any
/// sum.
const BLOCK: usize = 8;
/// With fewer projections a second thread costs more than it saves.
const SERIAL: usize = 1 << 14;

impl Relation {
    fn head(&self) -> usize {
        2 * self.key + self.value
    }

    fn width(&self) -> usize {
        self.heads * self.head()
    }

    /// Ranges of a head's query, key and value in a projected row.
    #[inline(always)]
    fn query(&self, head: usize) -> Range<usize> {
        head * self.head()..head * self.head() + self.key
    }

    #[inline(always)]
    fn key(&self, head: usize) -> Range<usize> {
        let start = head * self.head() + self.key;
        start..start + self.key
    }

    #[inline(always)]
    fn value(&self, head: usize) -> Range<usize> {
        let start = head * self.head() + 2 * self.key;
        start..start + self.value
    }

    fn reads(&self) -> usize {
        self.queries * self.heads * self.value
    }

    fn weights(&self) -> usize {
        self.heads * self.queries * self.rows
    }

    fn scale(&self) -> f32 {
        1.0 / (self.key as f32).sqrt()
    }
}

/// Output buffers of a block of sequences.
struct Outputs<'a> {
    moments: &'a mut [f32],
    weights: &'a mut [f32],
    read: &'a mut [f32],
}

/// The forward pass for some sequences.
struct Forward<'a> {
    sizes: Relation,
    projected: &'a [f32],
    affine: [&'a [f32]; 2],
    epsilon: f32,
    moments: &'a mut [f32],
    weights: &'a mut [f32],
    read: &'a mut [f32],
}

impl Loop for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let sizes = self.sizes;
        let (rows, width) = (sizes.rows, sizes.width());
        let mut normal = vec![0.0; rows * width];
        let sequences = self.projected.chunks_exact(rows * width);
        let sequences = sequences.zip(self.moments.chunks_exact_mut(2 * rows));
        let outputs = self.weights.chunks_exact_mut(sizes.weights());
        let outputs = outputs.zip(self.read.chunks_exact_mut(sizes.reads()));
        for ((projected, found), (weights, read)) in sequences.zip(outputs) {
            let all = projected.chunks_exact(width);
            let all = all.zip(normal.chunks_exact_mut(width));
            for ((x, normal), found) in all.zip(found.as_chunks_mut::<2>().0) {
                *found = moments(x, self.epsilon);
                normalise(x, *found, self.affine, normal);
            }
            attend(sizes, &normal, weights, read);
        }
    }
}

/// Weights `[heads, queries, rows]` and reads `[queries, heads * value]` of one sequence.
#[inline(always)]
fn attend(sizes: Relation, normal: &[f32], weights: &mut [f32], read: &mut [f32]) {
    let width = sizes.width();
    let (scale, value) = (sizes.scale(), sizes.value);
    for (index, weights) in weights.chunks_exact_mut(sizes.rows).enumerate() {
        let (head, query) = (index / sizes.queries, index % sizes.queries);
        let asked = &normal[query * width..][sizes.query(head)];
        let mut top = f32::NEG_INFINITY;
        for (weight, row) in weights.iter_mut().zip(normal.chunks_exact(width)) {
            *weight = dot(asked, &row[sizes.key(head)]) * scale;
            top = if *weight > top { *weight } else { top };
        }
        let mut all = 0.0;
        for weight in weights.iter_mut() {
            *weight = math::exp(*weight - top);
            all += *weight;
        }
        let read = &mut read[(query * sizes.heads + head) * value..][..value];
        for (weight, row) in weights.iter_mut().zip(normal.chunks_exact(width)) {
            *weight /= all;
            add_scaled(read, *weight, &row[sizes.value(head)]);
        }
    }
}

/// Gradients of some sequences' projections, and their contribution to those of scale and shift.
struct Gradient<'a> {
    sizes: Relation,
    projected: &'a [f32],
    affine: [&'a [f32]; 2],
    moments: &'a [f32],
    weights: &'a [f32],
    to_weights: Option<&'a [f32]>,
    to_read: Option<&'a [f32]>,
    output: &'a mut [f32],
    sums: &'a mut [f32],
}

impl Loop for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let sizes = self.sizes;
        let (rows, width) = (sizes.rows, sizes.width());
        let mut normal = vec![0.0; rows * width];
        let mut scratch = vec![0.0; rows];
        let (to_gamma, to_beta) = self.sums.split_at_mut(width);
        let sequences = self.projected.chunks_exact(rows * width);
        let sequences = sequences.zip(self.output.chunks_exact_mut(rows * width));
        for (index, (projected, output)) in sequences.enumerate() {
            let found = &self.moments[2 * index * rows..][..2 * rows];
            let found = found.as_chunks::<2>().0;
            let all = projected.chunks_exact(width);
            for ((x, normal), found) in all.zip(normal.chunks_exact_mut(width)).zip(found) {
                normalise(x, *found, self.affine, normal);
            }
            through_attention(
                sizes,
                &normal,
                &self.weights[index * sizes.weights()..][..sizes.weights()],
                [
                    self.to_weights
                        .map(|all| &all[index * sizes.weights()..][..sizes.weights()]),
                    self.to_read
                        .map(|all| &all[index * sizes.reads()..][..sizes.reads()]),
                ],
                &mut scratch,
                output,
            );
            let all = projected.chunks_exact(width);
            for ((x, output), found) in all.zip(output.chunks_exact_mut(width)).zip(found) {
                gradient_of_row(
                    x,
                    *found,
                    self.affine[0],
                    output,
                    [&mut *to_gamma, &mut *to_beta],
                );
            }
        }
    }
}

/// The gradient of one sequence's normalised projections; `output` is initially zero.
#[inline(always)]
fn through_attention(
    sizes: Relation,
    normal: &[f32],
    weights: &[f32],
    [to_weights, to_read]: [Option<&[f32]>; 2],
    to_scores: &mut [f32],
    output: &mut [f32],
) {
    let (rows, width, value) = (sizes.rows, sizes.width(), sizes.value);
    for (index, weights) in weights.chunks_exact(rows).enumerate() {
        let (head, query) = (index / sizes.queries, index % sizes.queries);
        match to_weights {
            Some(given) => to_scores.copy_from_slice(&given[index * rows..][..rows]),
            None => to_scores.fill(0.0),
        }
        if let Some(to_read) = to_read {
            let to_read = &to_read[(query * sizes.heads + head) * value..][..value];
            let all = normal.chunks_exact(width);
            let all = all.zip(output.chunks_exact_mut(width));
            for ((row, out), (to_score, weight)) in all.zip(to_scores.iter_mut().zip(weights)) {
                *to_score += dot(to_read, &row[sizes.value(head)]);
                add_scaled(&mut out[sizes.value(head)], *weight, to_read);
            }
        }
        let mean = dot(weights, to_scores);
        let asked = &normal[query * width..][sizes.query(head)];
        for row in 0..rows {
            let to_score = weights[row] * (to_scores[row] - mean) * sizes.scale();
            let key = &normal[row * width..][sizes.key(head)];
            add_scaled(
                &mut output[query * width..][sizes.query(head)],
                to_score,
                key,
            );
            add_scaled(&mut output[row * width..][sizes.key(head)], to_score, asked);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Saved {
    sizes: Relation,
    projected: Raw,
    gamma: Raw,
    beta: Raw,
    moments: Vec<f32>,
    weights: Raw,
}

fn forward_of(all: [&Raw; 3], sizes: Relation, epsilon: f32) -> ([Raw; 2], Saved) {
    let [projected, gamma, beta] = all.map(contiguous);
    let [count, width] = projected.layout().shape().dims();
    assert_eq!(
        width,
        sizes.width(),
        "width of the queries, keys and values of all heads"
    );
    assert!(
        sizes.rows > 0 && count.is_multiple_of(sizes.rows),
        "the number of rows must be a multiple of the rows per sequence"
    );
    assert!(
        sizes.queries <= sizes.rows,
        "there are more queries than rows"
    );
    assert!(slice(&gamma).len() == width && slice(&beta).len() == width);
    let batch = count / sizes.rows;
    let mut found = vec![0.0; 2 * count];
    let mut weights = zeros(batch * sizes.weights());
    let mut read = zeros(batch * sizes.reads());
    let size = sizes.rows * width;
    let work = |(index, outputs): (usize, Outputs)| {
        let count = outputs.moments.len() / 2 * width;
        run(Forward {
            sizes,
            projected: &slice(&projected)[index * BLOCK * size..][..count],
            affine: [slice(&gamma), slice(&beta)],
            epsilon,
            moments: outputs.moments,
            weights: outputs.weights,
            read: outputs.read,
        });
    };
    let blocks = found
        .chunks_mut(BLOCK * 2 * sizes.rows)
        .zip(weights.chunks_mut(BLOCK * sizes.weights()))
        .zip(read.chunks_mut(BLOCK * sizes.reads()))
        .map(|((moments, weights), read)| Outputs {
            moments,
            weights,
            read,
        });
    match count * width < SERIAL {
        true => blocks.enumerate().for_each(work),
        false => {
            let blocks: Vec<Outputs> = blocks.collect();
            blocks.into_par_iter().enumerate().for_each(work);
        }
    }
    let weights = raw(weights, [batch, sizes.heads, sizes.queries, sizes.rows]);
    let read = raw(read, [batch * sizes.queries, sizes.heads * sizes.value]);
    let outputs = [read, weights.clone()];
    let saved = Saved {
        sizes,
        projected,
        gamma,
        beta,
        moments: found,
        weights,
    };
    (outputs, saved)
}

/// Gradients of projections, scale and shift, from those of reads and weights.
fn gradients(saved: &Saved, [to_read, to_weights]: [Option<Raw>; 2]) -> [Vec<f32>; 3] {
    let sizes = saved.sizes;
    let projected = slice(&saved.projected);
    let size = sizes.rows * sizes.width();
    let batch = projected.len() / size;
    let mut output = zeros(projected.len());
    let mut sums = vec![0.0; batch.div_ceil(BLOCK) * 2 * sizes.width()];
    let weights = slice(&saved.weights);
    let (to_read, to_weights) = (to_read.as_ref().map(slice), to_weights.as_ref().map(slice));
    let work = |index: usize, output: &mut [f32], sums: &mut [f32]| {
        let (first, count) = (index * BLOCK, output.len() / size);
        let part = |all, each: usize| -> &[f32] {
            let all: &[f32] = all;
            &all[first * each..][..count * each]
        };
        run(Gradient {
            sizes,
            projected: part(projected, size),
            affine: [slice(&saved.gamma), slice(&saved.beta)],
            moments: part(&saved.moments, 2 * sizes.rows),
            weights: part(weights, sizes.weights()),
            to_weights: to_weights.map(|all| part(all, sizes.weights())),
            to_read: to_read.map(|all| part(all, sizes.reads())),
            output,
            sums,
        });
    };
    let threads = output.len() >= SERIAL;
    let outputs = (&mut output[..], BLOCK * size);
    in_pairs(threads, outputs, (&mut sums, 2 * sizes.width()), work);
    let [to_gamma, to_beta] = added_up(&sums, sizes.width());
    [output, to_gamma, to_beta]
}

/// See [`crate::relation::relate`]. Inputs: projections, scale and shift; outputs: reads and weights.
pub(crate) struct Relate {
    pub(crate) sizes: Relation,
    pub(crate) epsilon: f32,
}

impl Fused<3> for Relate {
    type Outputs = [Raw; 2];
    type Saved = Saved;

    fn forward(self, inputs: [Raw; 3]) -> ([Raw; 2], Saved) {
        forward_of(inputs.each_ref(), self.sizes, self.epsilon)
    }

    fn backward(saved: Saved, outer: [Option<Raw>; 2], _: [bool; 3]) -> [Option<Raw>; 3] {
        let shape: [usize; 2] = saved.projected.layout().shape().dims();
        let [to_projected, to_gamma, to_beta] = gradients(&saved, outer);
        [
            Some(raw(to_projected, shape)),
            Some(raw(to_gamma, [shape[1]])),
            Some(raw(to_beta, [shape[1]])),
        ]
    }
}
