//! Convolutions and transposed convolutions of images.

use burn::tensor::{
    Tensor,
    module::{conv_transpose2d, conv2d as burn_conv2d},
    ops::{ConvOptions, ConvTransposeOptions},
};

/// A convolution with bias.
///
/// `y[n, o, i, j] = b[o] + sum_{c, k, l} w[o, c, k, l] x[n, c, s i + k - p, s j + l - p]`
///
/// # Shapes
/// - `input`: `[images, channels, height, width]`
/// - `weight`: `[outputs, channels, rows, columns]`, `bias`: `[outputs]`
/// - returns `[images, outputs, (height + 2 p - rows) / s + 1, ...]`
///
/// # Panics
/// If channels do not agree or the kernel is larger than the padded image.
pub fn conv2d(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&input.device()) {
        return fused(input, weight, bias, stride, padding, None);
    }
    plain(input, weight, bias, stride, padding, None)
}

/// A transposed convolution with bias: each `x[n, c, i, j]` adds `w[c, o, k, l] x` to `y[n, o, s i + k - p, s j
/// + l - p]`.
///
/// # Shapes
/// - `input`: `[images, channels, height, width]`
/// - `weight`: `[channels, outputs, rows, columns]`, `bias`: `[outputs]`
/// - returns `[images, outputs, (height - 1) s + rows + added - 2 p, ...]`
///
/// # Panics
/// If channels do not agree.
pub fn transposed_conv2d(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
    added: usize,
) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&input.device()) {
        return fused(input, weight, bias, stride, padding, Some(added));
    }
    plain(input, weight, bias, stride, padding, Some(added))
}

/// A convolution with bias that keeps the size of its images, of stride 1. The kernel is square. For an even kernel the
/// padding has one more row at the bottom and one more column at the right.
///
/// `y[n, o, i, j] = b[o] + sum_{c, k, l} w[o, c, k, l] x[n, c, i + k - p, j + l - p]`, `p = (size - 1) / 2` rounded down
///
/// # Shapes
/// - `input`: `[images, channels, height, width]`
/// - `weight`: `[outputs, channels, size, size]`, `bias`: `[outputs]`
/// - returns `[images, outputs, height, width]`
///
/// # Panics
/// If channels do not agree or the kernel is not square.
pub fn conv2d_same(input: Tensor<4>, weight: Tensor<4>, bias: Tensor<1>) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&input.device()) {
        return fused_same(input, weight, bias);
    }
    plain_same(input, weight, bias)
}

/// Several convolutions of one input that keep its size ([`conv2d_same`]), with their outputs concatenated along channels.
///
/// # Shapes
/// - `input`: `[images, channels, height, width]`
/// - each of `kernels`: weight `[outputs, channels, k, k]` and bias `[outputs]`
/// - returns `[images, sum of outputs, height, width]`
///
/// # Panics
/// If no kernel is given, one of them is not square, or their channels differ from those of the images.
pub fn conv2d_bank(input: Tensor<4>, kernels: Vec<(Tensor<4>, Tensor<1>)>) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&input.device()) {
        return fused_bank(input, kernels);
    }
    plain_bank(input, kernels)
}

#[cfg(feature = "flex")]
fn fused_same(input: Tensor<4>, weight: Tensor<4>, bias: Tensor<1>) -> Tensor<4> {
    let options = keeping_size([&weight]);
    crate::flex::conv(input, weight.flatten::<1>(0, 3), bias, options)
}

#[cfg(feature = "flex")]
fn fused_bank(input: Tensor<4>, kernels: Vec<(Tensor<4>, Tensor<1>)>) -> Tensor<4> {
    let options = keeping_size(kernels.iter().map(|(weight, _)| weight));
    let (weights, biases): (Vec<_>, Vec<_>) = kernels
        .into_iter()
        .map(|(weight, bias)| (weight.flatten::<1>(0, 3), bias))
        .unzip();
    crate::flex::conv(
        input,
        Tensor::cat(weights, 0),
        Tensor::cat(biases, 0),
        options,
    )
}

fn plain_bank(input: Tensor<4>, kernels: Vec<(Tensor<4>, Tensor<1>)>) -> Tensor<4> {
    let outputs = kernels
        .into_iter()
        .map(|(weight, bias)| plain_same(input.clone(), weight, bias));
    Tensor::cat(outputs.collect(), 1)
}

pub(crate) fn plain_same(input: Tensor<4>, weight: Tensor<4>, bias: Tensor<1>) -> Tensor<4> {
    let ([_, _, height, width], size) = (input.dims(), side(&weight));
    let padded = plain(input, weight, bias, 1, size / 2, None);
    // With equal padding on all sides, an even kernel gives one row and one column too many at the start.
    match size.is_multiple_of(2) {
        true => padded.narrow(2, 1, height).narrow(3, 1, width),
        false => padded,
    }
}

/// Rows and columns of a square kernel.
fn side(weight: &Tensor<4>) -> usize {
    let [_, _, rows, columns] = weight.dims();
    assert!(rows == columns, "{rows}x{columns} kernel");
    rows
}

/// One or several convolutions that keep the size.
#[cfg(feature = "flex")]
pub(crate) fn keeping_size<'a>(
    weights: impl IntoIterator<Item = &'a Tensor<4>>,
) -> crate::flex::Options {
    let kernels = weights.into_iter().map(|weight| {
        let before = (side(weight) - 1) / 2;
        kernel(weight, before)
    });
    crate::flex::Options {
        kernels: kernels.collect(),
        stride: 1,
        kind: crate::flex::Kind::Same,
    }
}

#[cfg(feature = "flex")]
fn kernel(weight: &Tensor<4>, padding: usize) -> crate::flex::Kernel {
    let [channels, _, rows, columns] = weight.dims();
    crate::flex::Kernel {
        channels,
        size: [rows, columns],
        padding,
    }
}

#[cfg(feature = "flex")]
fn fused(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
    transposed: Option<usize>,
) -> Tensor<4> {
    use crate::flex::Kind;
    let options = crate::flex::Options {
        kernels: vec![kernel(&weight, padding)],
        stride,
        kind: transposed.map_or(Kind::Padded, |added| Kind::Transposed { added }),
    };
    crate::flex::conv(input, weight.flatten::<1>(0, 3), bias, options)
}

fn plain(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
    transposed: Option<usize>,
) -> Tensor<4> {
    let [stride, padding, dilation] = [[stride; 2], [padding; 2], [1; 2]];
    match transposed {
        None => {
            let options = ConvOptions::new(stride, padding, dilation, 1);
            burn_conv2d(input, weight, Some(bias), options)
        }
        Some(added) => {
            let options = ConvTransposeOptions::new(stride, padding, [added; 2], dilation, 1);
            conv_transpose2d(input, weight, Some(bias), options)
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests;
