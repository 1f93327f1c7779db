//! Layer norm of a sum, and layer norm functions for other kernels.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{
        Loop,
        chunks::{copied, in_pairs, zeros},
        lanes::{LANES, total},
        run,
    },
    slice,
};

/// Rows whose gradients of scale and shift are summed separately; the number of threads does not change any sum.
const BLOCK: usize = 64;
/// With fewer elements a second thread costs more than it saves.
const SERIAL: usize = 1 << 15;

#[inline(always)]
fn sum(values: impl Fn(usize) -> f32, count: usize) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let whole = count / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += values(start + lane);
        }
    }
    for (place, sum) in (whole..count).zip(&mut sums) {
        *sum += values(place);
    }
    total(sums)
}

/// Mean and inverse standard deviation of a row.
#[inline(always)]
pub(crate) fn moments(x: &[f32], epsilon: f32) -> [f32; 2] {
    let count = x.len() as f32;
    let mean = sum(|place| x[place], x.len()) / count;
    let variance = sum(|place| (x[place] - mean) * (x[place] - mean), x.len()) / count;
    [mean, 1.0 / (variance + epsilon).sqrt()]
}

/// The row, normalised, scaled and shifted.
#[inline(always)]
pub(crate) fn normalise(
    x: &[f32],
    [mean, scale]: [f32; 2],
    [gamma, beta]: [&[f32]; 2],
    out: &mut [f32],
) {
    let both = gamma.iter().zip(beta);
    for ((out, x), (gamma, beta)) in out.iter_mut().zip(x).zip(both) {
        *out = (x - mean) * scale * gamma + beta;
    }
}

/// Replaces the gradient of a row's normalised output with that of its input; adds the gradients of scale and
/// shift to `sums`.
#[inline(always)]
pub(crate) fn gradient_of_row(
    x: &[f32],
    [mean, scale]: [f32; 2],
    gamma: &[f32],
    gradient: &mut [f32],
    [to_gamma, to_beta]: [&mut [f32]; 2],
) {
    let size = x.len();
    let (gamma, gradient) = (&gamma[..size], &mut gradient[..size]);
    let (to_gamma, to_beta) = (&mut to_gamma[..size], &mut to_beta[..size]);
    for j in 0..size {
        to_gamma[j] += gradient[j] * (x[j] - mean) * scale;
        to_beta[j] += gradient[j];
        gradient[j] *= gamma[j];
    }
    let count = size as f32;
    let level = sum(|j| gradient[j], size) / count;
    let along = sum(|j| gradient[j] * (x[j] - mean), size) * scale / count;
    for j in 0..size {
        let normal = (x[j] - mean) * scale;
        gradient[j] = scale * (gradient[j] - level - normal * along);
    }
}

/// `LN(a + b)`, and the moments of the rows of `a + b`.
struct Forward<'a> {
    terms: [&'a [f32]; 2],
    affine: [&'a [f32]; 2],
    epsilon: f32,
    moments: &'a mut [f32],
    output: &'a mut [f32],
}

impl Loop for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.affine[0].len();
        let terms = self.terms.map(|term| term.chunks_exact(size));
        let [a, b] = terms;
        let rows = self.output.chunks_exact_mut(size);
        let rows = rows.zip(self.moments.as_chunks_mut::<2>().0);
        for ((output, found), (a, b)) in rows.zip(a.zip(b)) {
            for ((output, a), b) in output.iter_mut().zip(a).zip(b) {
                *output = a + b;
            }
            let of_row = moments(output, self.epsilon);
            *found = of_row;
            for ((x, gamma), beta) in output.iter_mut().zip(self.affine[0]).zip(self.affine[1]) {
                *x = (*x - of_row[0]) * of_row[1] * gamma + beta;
            }
        }
    }
}

/// Gradients of a block of rows. Before the call `output` holds the gradient of the result.
struct Gradient<'a> {
    terms: [&'a [f32]; 2],
    gamma: &'a [f32],
    moments: &'a [f32],
    output: &'a mut [f32],
    /// Gradients of scale, then of shift.
    sums: &'a mut [f32],
}

impl Loop for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.gamma.len();
        let mut x = vec![0.0; size];
        let [a, b] = self.terms.map(|term| term.chunks_exact(size));
        let rows = self.output.chunks_exact_mut(size);
        let rows = rows.zip(self.moments.as_chunks::<2>().0);
        let (to_gamma, to_beta) = self.sums.split_at_mut(size);
        for ((gradient, moments), (a, b)) in rows.zip(a.zip(b)) {
            for ((x, a), b) in x.iter_mut().zip(a).zip(b) {
                *x = a + b;
            }
            gradient_of_row(
                &x,
                *moments,
                self.gamma,
                gradient,
                [&mut *to_gamma, &mut *to_beta],
            );
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Saved {
    terms: [Raw; 2],
    gamma: Raw,
    moments: Vec<f32>,
}

fn forward_of(all: [&Raw; 4], epsilon: f32) -> (Raw, Saved) {
    let [a, b, gamma, beta] = all.map(contiguous);
    let [rows, size] = a.layout().shape().dims();
    assert_eq!(
        b.layout().shape().dims(),
        [rows, size],
        "shapes of the two terms"
    );
    assert!(slice(&gamma).len() == size && slice(&beta).len() == size);
    let mut output = zeros(rows * size);
    let mut found = vec![0.0; 2 * rows];
    let work = |index: usize, output: &mut [f32], moments: &mut [f32]| {
        let first = index * BLOCK * size;
        run(Forward {
            terms: [&a, &b].map(|term| &slice(term)[first..][..output.len()]),
            affine: [slice(&gamma), slice(&beta)],
            epsilon,
            moments,
            output,
        });
    };
    let outputs = (&mut output[..], BLOCK * size);
    let threads = rows * size >= SERIAL;
    in_pairs(threads, outputs, (&mut found, 2 * BLOCK), work);
    let saved = Saved {
        terms: [a, b],
        gamma,
        moments: found,
    };
    (raw(output, [rows, size]), saved)
}

/// Gradients of the sum, of scale and of shift.
fn gradients(saved: &Saved, outer: &Raw) -> [Vec<f32>; 3] {
    let outer = contiguous(outer);
    let gamma = slice(&saved.gamma);
    let size = gamma.len();
    let mut output = copied(slice(&outer));
    let blocks = output.len().div_ceil(BLOCK * size);
    let mut sums = vec![0.0; blocks * 2 * size];
    let work = |index: usize, output: &mut [f32], sums: &mut [f32]| {
        let first = index * BLOCK * size;
        let rows = output.len() / size;
        run(Gradient {
            terms: saved
                .terms
                .each_ref()
                .map(|term| &slice(term)[first..][..output.len()]),
            gamma,
            moments: &saved.moments[2 * index * BLOCK..][..2 * rows],
            output,
            sums,
        });
    };
    let threads = output.len() >= SERIAL;
    let outputs = (&mut output[..], BLOCK * size);
    in_pairs(threads, outputs, (&mut sums, 2 * size), work);
    let [to_gamma, to_beta] = added_up(&sums, size);
    [output, to_gamma, to_beta]
}

/// Adds up the gradients of scale and shift of all blocks.
pub(crate) fn added_up(sums: &[f32], size: usize) -> [Vec<f32>; 2] {
    let mut all = vec![0.0; 2 * size];
    for block in sums.chunks_exact(2 * size) {
        for (sum, value) in all.iter_mut().zip(block) {
            *sum += value;
        }
    }
    let to_beta = all.split_off(size);
    [all, to_beta]
}

/// See [`crate::relation::normalised_sum`]. Inputs: two terms, scale and shift.
pub(crate) struct NormalisedSum {
    pub(crate) epsilon: f32,
}

impl Fused<4> for NormalisedSum {
    type Outputs = Raw;
    type Saved = Saved;

    fn forward(self, inputs: [Raw; 4]) -> (Raw, Saved) {
        forward_of(inputs.each_ref(), self.epsilon)
    }

    fn backward(saved: Saved, outer: Raw, _: [bool; 4]) -> [Option<Raw>; 4] {
        let shape: [usize; 2] = saved.terms[0].layout().shape().dims();
        let [to_sum, to_gamma, to_beta] = gradients(&saved, &outer);
        let to_sum = raw(to_sum, shape);
        [
            Some(to_sum.clone()),
            Some(to_sum),
            Some(raw(to_gamma, [shape[1]])),
            Some(raw(to_beta, [shape[1]])),
        ]
    }
}
