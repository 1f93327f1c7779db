//! An affine map and its nonlinearity as one operation.
//!
//! A general matrix product packs the matrix at every call. For a few rows, as of one step of a batch, that
//! is most of the work: there the matrix is read as it lies, once.

use super::{
    Loop, Raw, contiguous, exact, for_rows, matrix_product,
    product::{self, Matrix},
    raw, run, simd, slice,
};
use crate::linear::Activation;
use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

/// Up to so many rows the matrix is not packed.
const FEW: usize = 32;
/// Rows, rows of the matrix, and vectors of a row that are worked on together.
const TILE: usize = 4;
/// Rows of the matrix that one piece of it has.
const DEPTH: usize = 32;
/// Columns that a thread takes come in so many.
const COLUMNS: usize = 256;
/// Multiplications under which a second thread costs more than it saves.
const SERIAL: usize = 1 << 21;

#[inline(always)]
fn activate(activation: Activation, u: f32) -> f32 {
    match activation {
        Activation::Identity => u,
        // `max` would swallow NaN.
        Activation::Relu => {
            if u < 0.0 {
                0.0
            } else {
                u
            }
        }
        Activation::ClippedLeakyRelu => {
            let u = if u < 0.0 { u * (1.0 / 3.0) } else { u };
            u.clamp(-3.0, 3.0)
        }
    }
}

/// Bias and nonlinearity, in place.
struct Finish<'a> {
    bias: &'a [f32],
    activation: Activation,
    rows: &'a mut [f32],
}

impl Loop for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for row in self.rows.chunks_exact_mut(self.bias.len()) {
            match self.activation {
                Activation::Identity => finish(row, self.bias, Activation::Identity),
                Activation::Relu => finish(row, self.bias, Activation::Relu),
                Activation::ClippedLeakyRelu => {
                    finish(row, self.bias, Activation::ClippedLeakyRelu);
                }
            }
        }
    }
}

#[inline(always)]
fn finish(row: &mut [f32], bias: &[f32], activation: Activation) {
    for (u, bias) in row.iter_mut().zip(bias) {
        *u = activate(activation, *u + bias);
    }
}

/// The gradient of `u` from that of `activation(u)`, which is `output`.
struct Slope<'a> {
    output: &'a [f32],
    activation: Activation,
    gradient: &'a mut [f32],
}

impl Loop for Slope<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let both = self.gradient.iter_mut().zip(self.output);
        match self.activation {
            Activation::Identity => {}
            Activation::Relu => {
                for (gradient, output) in both {
                    *gradient = if *output <= 0.0 { 0.0 } else { *gradient };
                }
            }
            Activation::ClippedLeakyRelu => {
                for (gradient, output) in both {
                    let slope = if *output < 0.0 { 1.0 / 3.0 } else { 1.0 };
                    *gradient *= if output.abs() >= 3.0 { 0.0 } else { slope };
                }
            }
        }
    }
}

/// Columns of `rows`, which start as they are, plus `x` times the same columns of the matrix.
struct Ahead<'a, 'b> {
    /// `[rows, inputs]`
    x: &'a [f32],
    inputs: usize,
    /// `[inputs, width]`
    weight: &'a [f32],
    width: usize,
    first: usize,
    rows: &'a mut [&'b mut [f32]],
}

impl WithSimd for Ahead<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for input in (0..self.inputs).step_by(DEPTH) {
            let depth = DEPTH.min(self.inputs - input);
            // A tile's sums and its factors stay in registers.
            match S::REGISTER_COUNT > 16 {
                true => self.across::<S, TILE>(simd, [input, depth]),
                false => self.across::<S, 2>(simd, [input, depth]),
            }
        }
    }
}

impl Ahead<'_, '_> {
    /// All columns for some inputs, `V` vectors at a time: their piece of the matrix stays in the nearest cache for
    /// all rows.
    #[inline(always)]
    fn across<S: Simd, const V: usize>(&mut self, simd: S, inputs: [usize; 2]) {
        let columns = self.rows.first().map_or(0, |row| row.len());
        let wide = V * S::F32_LANES;
        let mut column = 0;
        while column + wide <= columns {
            self.down::<S, V>(simd, inputs, column);
            column += wide;
        }
        let vectors = (columns - column) / S::F32_LANES;
        match vectors {
            3 => self.down::<S, 3>(simd, inputs, column),
            2 => self.down::<S, 2>(simd, inputs, column),
            1 => self.down::<S, 1>(simd, inputs, column),
            _ => {}
        }
        column += vectors * S::F32_LANES;
        if column < columns {
            self.down_rest(simd, inputs, column);
        }
    }

    /// `V` vectors of all rows.
    #[inline(always)]
    fn down<S: Simd, const V: usize>(&mut self, simd: S, inputs: [usize; 2], column: usize) {
        let count = self.rows.len();
        let mut row = 0;
        while row + TILE <= count {
            self.tile::<S, TILE, V>(simd, inputs, row, column);
            row += TILE;
        }
        while row < count {
            self.tile::<S, 1, V>(simd, inputs, row, column);
            row += 1;
        }
    }

    /// The columns of all rows that fill no vector.
    #[inline(always)]
    fn down_rest<S: Simd>(&mut self, simd: S, inputs: [usize; 2], column: usize) {
        let count = self.rows.len();
        let mut row = 0;
        while row + TILE <= count {
            self.rest::<S, TILE>(simd, inputs, row, column);
            row += TILE;
        }
        while row < count {
            self.rest::<S, 1>(simd, inputs, row, column);
            row += 1;
        }
    }

    /// The columns of `R` rows that fill no vector.
    #[inline(always)]
    fn rest<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        [input, depth]: [usize; 2],
        row: usize,
        column: usize,
    ) {
        let mut factors: [&[f32]; R] = [&[]; R];
        let mut sums = [simd.splat_f32s(0.0); R];
        for r in 0..R {
            factors[r] = &self.x[(row + r) * self.inputs + input..][..depth];
            sums[r] = simd.partial_load_f32s(&self.rows[row + r][column..]);
        }
        let count = self.rows[row].len() - column;
        let weights = self.weight[input * self.width..].chunks_exact(self.width);
        for (k, weights) in weights.take(depth).enumerate() {
            let weights = simd.partial_load_f32s(&weights[self.first + column..][..count]);
            for (sum, factors) in sums.iter_mut().zip(factors) {
                *sum = simd.mul_add_f32s(simd.splat_f32s(factors[k]), weights, *sum);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            simd.partial_store_f32s(&mut self.rows[row + r][column..], sum);
        }
    }

    /// `V` vectors of `R` rows.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        [input, depth]: [usize; 2],
        row: usize,
        column: usize,
    ) {
        let count = V * S::F32_LANES;
        let mut factors: [&[f32]; R] = [&[]; R];
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        for r in 0..R {
            factors[r] = &self.x[(row + r) * self.inputs + input..][..depth];
            let before = S::as_simd_f32s(&self.rows[row + r][column..][..count]).0;
            sums[r].copy_from_slice(before);
        }
        let weights = self.weight[input * self.width..].chunks_exact(self.width);
        for (k, weights) in weights.take(depth).enumerate() {
            let weights = &weights[self.first + column..][..count];
            let weights = S::as_simd_f32s(weights).0;
            for (sums, factors) in sums.iter_mut().zip(factors) {
                let factor = simd.splat_f32s(factors[k]);
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = simd.mul_add_f32s(factor, *weight, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let after = &mut self.rows[row + r][column..][..count];
            S::as_mut_simd_f32s(after).0.copy_from_slice(sums);
        }
    }
}

/// `gradient` times the transpose of the matrix, from its row `first` on.
struct Back<'a, 'b> {
    /// `[rows, width]`
    gradient: &'a [f32],
    weight: &'a [f32],
    width: usize,
    first: usize,
    rows: &'a mut [&'b mut [f32]],
}

impl WithSimd for Back<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.rows.first().map_or(0, |row| row.len());
        let width = self.width;
        let mut column = 0;
        while column < columns {
            let together = if column + TILE <= columns { TILE } else { 1 };
            let weight = &self.weight[(self.first + column) * width..];
            let mut row = 0;
            while row < self.rows.len() {
                let rows = if row + TILE <= self.rows.len() {
                    TILE
                } else {
                    1
                };
                let both = [&self.gradient[row * width..], weight];
                let out = &mut self.rows[row..row + rows];
                match (rows, together) {
                    (TILE, TILE) => dot::<S, TILE, TILE>(simd, both, width, out, column),
                    (TILE, _) => dot::<S, TILE, 1>(simd, both, width, out, column),
                    (_, TILE) => dot::<S, 1, TILE>(simd, both, width, out, column),
                    _ => dot::<S, 1, 1>(simd, both, width, out, column),
                }
                row += rows;
            }
            column += together;
        }
    }
}

/// Products of `R` rows with `K` rows of the matrix.
#[inline(always)]
fn dot<S: Simd, const R: usize, const K: usize>(
    simd: S,
    [gradient, weight]: [&[f32]; 2],
    width: usize,
    rows: &mut [&mut [f32]],
    column: usize,
) {
    let zero = simd.splat_f32s(0.0);
    let mut left: [&[S::f32s]; R] = [&[]; R];
    let mut right: [&[S::f32s]; K] = [&[]; K];
    // What fills no vector is one with zeros behind.
    let (mut left_rest, mut right_rest) = ([zero; R], [zero; K]);
    for r in 0..R {
        let (vectors, rest) = S::as_simd_f32s(&gradient[r * width..][..width]);
        left[r] = vectors;
        left_rest[r] = simd.partial_load_f32s(rest);
    }
    for k in 0..K {
        let (vectors, rest) = S::as_simd_f32s(&weight[k * width..][..width]);
        right[k] = vectors;
        right_rest[k] = simd.partial_load_f32s(rest);
    }
    let mut sums = [[zero; K]; R];
    for r in 0..R {
        for k in 0..K {
            sums[r][k] = simd.mul_f32s(left_rest[r], right_rest[k]);
        }
    }
    for j in 0..width / S::F32_LANES {
        for r in 0..R {
            for k in 0..K {
                sums[r][k] = simd.mul_add_f32s(left[r][j], right[k][j], sums[r][k]);
            }
        }
    }
    for (r, row) in rows.iter_mut().enumerate() {
        for k in 0..K {
            row[column + k] = simd.reduce_sum_f32s(sums[r][k]);
        }
    }
}

/// Rows `[rows, width]` filled by `work`, which gets the first of some columns and these columns of each row.
fn by_columns(
    output: &mut [f32],
    width: usize,
    cost: usize,
    work: impl Fn(usize, &mut [&mut [f32]]) + Sync,
) {
    let threads = match cost < SERIAL {
        true => 1,
        false => rayon::current_num_threads(),
    };
    // Whole tiles of columns: how they are shared out changes no result.
    let share = width.div_ceil(threads).next_multiple_of(COLUMNS);
    let share = if threads == 1 { width } else { share };
    let mut shares: Vec<Vec<&mut [f32]>> = (0..width.div_ceil(share)).map(|_| Vec::new()).collect();
    for row in output.chunks_exact_mut(width) {
        for (part, share) in row.chunks_mut(share).zip(&mut shares) {
            share.push(part);
        }
    }
    if let [rows] = &mut shares[..] {
        return work(0, rows);
    }
    let shares = shares.into_par_iter().enumerate();
    shares.for_each(|(index, mut rows)| work(index * share, &mut rows));
}

/// `x weight`, to which the bias is still to be added.
fn times(x: &Raw, weight: &Raw) -> Raw {
    let [rows, inputs] = x.layout().shape().dims();
    let [_, width] = weight.layout().shape().dims();
    let (x, weight) = (slice(x), slice(weight));
    if rows > FEW {
        let x = Matrix::new(x, [rows, inputs]);
        return matrix_product(x, Matrix::new(weight, [inputs, width]));
    }
    let mut output = vec![0.0; rows * width];
    by_columns(&mut output, width, x.len() * width, |first, rows| {
        simd(Ahead {
            x,
            inputs,
            weight,
            width,
            first,
            rows,
        });
    });
    raw(output, [rows, width])
}

/// `gradient` times the transpose of the matrix.
pub(super) fn to_input(gradient: &Raw, weight: &Raw) -> Raw {
    let [rows, width] = gradient.layout().shape().dims();
    let [inputs, _] = weight.layout().shape().dims();
    let (gradient, weight) = (slice(gradient), slice(weight));
    if rows > FEW {
        let transposed = Matrix::new(weight, [inputs, width]).turned();
        return matrix_product(Matrix::new(gradient, [rows, width]), transposed);
    }
    let mut output = vec![0.0; rows * inputs];
    by_columns(
        &mut output,
        inputs,
        gradient.len() * inputs,
        |first, rows| {
            simd(Back {
                gradient,
                weight,
                width,
                first,
                rows,
            });
        },
    );
    raw(output, [rows, inputs])
}

/// The gradient of a matrix `[inputs, width]` from inputs `[rows, inputs]` and gradients `[rows, width]`.
pub(super) fn to_weight(x: &[f32], gradient: &[f32], [inputs, width]: [usize; 2]) -> Vec<f32> {
    let rows = gradient.len() / width.max(1);
    let x = Matrix::new(x, [rows, inputs]).turned();
    product::numbers(x, Matrix::new(gradient, [rows, width]))
}

/// Sums of some columns, from `first` on.
struct Columns<'a> {
    rows: &'a [f32],
    width: usize,
    first: usize,
    output: &'a mut [f32],
}

impl Loop for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let count = self.output.len();
        for row in self.rows.chunks_exact(self.width) {
            for (sum, value) in self.output.iter_mut().zip(&row[self.first..][..count]) {
                *sum += value;
            }
        }
    }
}

/// Sums of all columns of `[rows, width]`.
pub(super) fn column_sums(rows: &[f32], width: usize) -> Vec<f32> {
    /// Numbers under which a second thread costs more than it saves.
    const SERIAL: usize = 1 << 18;
    let mut sums = vec![0.0; width];
    let share = match rows.len() < SERIAL {
        true => width,
        false => width.div_ceil(rayon::current_num_threads()),
    };
    let shares = sums.par_chunks_mut(share.max(1)).enumerate();
    shares.for_each(|(index, output)| {
        run(Columns {
            rows,
            width,
            first: index * share,
            output,
        });
    });
    sums
}

/// `activation(x weight + bias)`, of contiguous tensors.
pub(super) fn affine(x: &Raw, weight: &Raw, bias: &Raw, activation: Activation) -> Raw {
    let [_, inputs] = x.layout().shape().dims();
    let [of, width] = weight.layout().shape().dims();
    let [biases] = bias.layout().shape().dims();
    assert_eq!([of, biases], [inputs, width], "weight and bias");
    let mut output = times(x, weight);
    let bias = slice(bias);
    for_rows(output.storage_mut(), width, width, |_, rows| {
        run(Finish {
            bias,
            activation,
            rows,
        });
    });
    output
}

pub(super) fn forward(x: &Raw, weight: &Raw, bias: &Raw, activation: Activation) -> Raw {
    let [x, weight, bias] = [x, weight, bias].map(contiguous);
    affine(&x, &weight, &bias, activation)
}

/// What the gradient needs.
#[derive(Clone, Debug)]
struct Saved {
    x: Raw,
    weight: Raw,
    output: Raw,
    activation: Activation,
}

/// The gradient before the nonlinearity, of which `output` came out.
pub(super) fn before_activation(outer: Raw, output: &Raw, activation: Activation) -> Raw {
    let outer = contiguous(&outer);
    if activation == Activation::Identity {
        return outer;
    }
    let mut outer = exact(outer);
    let [_, width] = outer.layout().shape().dims();
    let output = slice(output);
    for_rows(outer.storage_mut(), width, width, |first, gradient| {
        run(Slope {
            output: &output[first * width..][..gradient.len()],
            activation,
            gradient,
        });
    });
    outer
}

pub(super) fn tracked<C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<Flex, C>>,
    weight: FloatTensor<Autodiff<Flex, C>>,
    bias: FloatTensor<Autodiff<Flex, C>>,
    activation: Activation,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Affine;

    impl Backward<Flex, 3> for Affine {
        type State = Saved;

        fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
            let saved = ops.state;
            let outer = grads.consume::<Flex>(&ops.node);
            let outer = before_activation(outer, &saved.output, saved.activation);
            let shape @ [_, width] = saved.weight.layout().shape().dims();
            let [to_x, to_weight_node, to_bias] = ops.parents;
            if let Some(node) = to_bias {
                let sums = column_sums(slice(&outer), width);
                grads.register::<Flex>(node.id, raw(sums, [width]));
            }
            if let Some(node) = to_x {
                grads.register::<Flex>(node.id, to_input(&outer, &saved.weight));
            }
            if let Some(node) = to_weight_node {
                let gradient = to_weight(slice(&saved.x), slice(&outer), shape);
                grads.register::<Flex>(node.id, raw(gradient, shape));
            }
        }
    }

    let (x, x_guard) = x.into_parts();
    let (weight, weight_guard) = weight.into_parts();
    let (bias, bias_guard) = bias.into_parts();
    let [x, weight, bias] = [&x, &weight, &bias].map(contiguous);
    let output = affine(&x, &weight, &bias, activation);
    let guards = [x_guard, weight_guard, bias_guard];
    match Affine.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let saved = Saved {
                x,
                weight,
                output: output.clone(),
                activation,
            };
            prep.finish(saved, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
