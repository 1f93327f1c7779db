//! An affine map and its nonlinearity as one operation.
//!
//! A general matrix product packs the matrix at every call. For a few rows, as in one step of a batch, that is
//! most of the work. For those the matrix is read once, without packing.

use super::few_rows::{Ahead, Back, by_columns};
use crate::flex::{
    Raw, contiguous,
    dense::{
        product::{self, Matrix},
        tensor_product::matrix_product,
    },
    exact,
    graph::fused::Fused,
    raw,
    simd::{Loop, chunks::for_rows, run, run_vectors},
    slice,
};
use crate::linear::Activation;
use rayon::prelude::*;

/// Up to this many rows the matrix is not packed.
const FEW: usize = 32;
#[inline(always)]
fn activate(activation: Activation, u: f32) -> f32 {
    match activation {
        Activation::Identity => u,
        // `max` would discard NaN.
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

/// Adds the bias and applies the nonlinearity, in place.
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

/// The gradient of `u` from the gradient of `activation(u)`, whose value is `output`.
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

/// `x weight`; the bias is added later.
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
        run_vectors(Ahead {
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
pub(crate) fn to_input(gradient: &Raw, weight: &Raw) -> Raw {
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
            run_vectors(Back {
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
pub(crate) fn to_weight(x: &[f32], gradient: &[f32], [inputs, width]: [usize; 2]) -> Vec<f32> {
    let rows = gradient.len() / width.max(1);
    let x = Matrix::new(x, [rows, inputs]).turned();
    product::numbers(x, Matrix::new(gradient, [rows, width]))
}

/// Sums of some columns, starting at `first`.
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
pub(crate) fn column_sums(rows: &[f32], width: usize) -> Vec<f32> {
    /// With fewer numbers a second thread costs more than it saves.
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
pub(crate) fn affine(x: &Raw, weight: &Raw, bias: &Raw, activation: Activation) -> Raw {
    let [_, inputs] = x.layout().shape().dims();
    let [of, width] = weight.layout().shape().dims();
    let [biases] = bias.layout().shape().dims();
    assert_eq!([of, biases], [inputs, width], "shapes of weight and bias");
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

/// Values that the backward pass needs.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    x: Raw,
    weight: Raw,
    output: Raw,
    activation: Activation,
}

/// The gradient before the nonlinearity, whose result was `output`.
pub(crate) fn before_activation(outer: Raw, output: &Raw, activation: Activation) -> Raw {
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

/// See [`crate::linear::linear`].
pub(crate) struct Linear {
    pub(crate) activation: Activation,
}

impl Fused<3> for Linear {
    type Outputs = Raw;
    type Saved = Saved;

    fn forward(self, inputs: [Raw; 3]) -> (Raw, Saved) {
        let [x, weight, bias] = inputs.each_ref().map(contiguous);
        let output = affine(&x, &weight, &bias, self.activation);
        let saved = Saved {
            x,
            weight,
            output: output.clone(),
            activation: self.activation,
        };
        (output, saved)
    }

    fn backward(saved: Saved, outer: Raw, wanted: [bool; 3]) -> [Option<Raw>; 3] {
        let outer = before_activation(outer, &saved.output, saved.activation);
        let shape @ [_, width] = saved.weight.layout().shape().dims();
        let [to_x, to_weights, to_bias] = wanted;
        let to_bias = to_bias.then(|| raw(column_sums(slice(&outer), width), [width]));
        let to_x = to_x.then(|| to_input(&outer, &saved.weight));
        let to_weights = to_weights.then(|| {
            let gradient = to_weight(slice(&saved.x), slice(&outer), shape);
            raw(gradient, shape)
        });
        [to_x, to_weights, to_bias]
    }
}
