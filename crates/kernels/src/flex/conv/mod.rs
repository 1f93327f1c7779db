//! Convolutions and transposed convolutions with all their gradients.
//!
//! Both connect a fine image (the input of a convolution, the output of a transposed one) with a coarse one by
//! weights `[coarse channels, fine channels, rows, columns]`:
//!
//! - [`gather`]: fine to coarse: a convolution, or the gradient of a transposed convolution with respect to its
//!   input;
//! - [`spread`]: coarse to fine: a transposed convolution, or the gradient of a convolution with respect to its
//!   input;
//! - [`weight_gradient`]: the gradient of the weights, for both.
//!
//! A bank of convolutions reads one fine image with kernels of several sizes and writes their coarse channels
//! one after the other.

pub(crate) mod batch_norm;
mod correlate;
mod direct;
mod field;
mod fourier;
mod geometry;
mod lowered;
mod points;
mod spectral;
pub(crate) mod steps;
mod tiled;
mod winograd;

pub(crate) use geometry::Kernel;

use crate::flex::{Raw, contiguous, graph::fused::Fused, raw, simd::run_vectors, slice};
use geometry::Geometry;
use lowered::Lowered;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use tiled::Tiled;
use winograd::Winograd;

/// Computes coarse images from fine ones: `[images, fine]` to `[images, coarse]`.
fn gather(shape: &Geometry, fine: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    if let Some(tiled) = Tiled::new(shape) {
        return tiled.gather(fine, &tiled.points_of_weights(weights, false), bias);
    }
    if let Some(spectral) = shape.spectral(false) {
        return spectral.outputs(&shape.table(&spectral, weights, false), fine, bias);
    }
    if let Some(winograd) = Winograd::new(shape) {
        return winograd.gather(fine, weights, bias);
    }
    if let Some(lowered) = Lowered::new(shape) {
        return lowered.gather(fine, weights, bias);
    }
    direct::gather(shape, fine, weights, bias)
}

/// Computes fine images from coarse ones: `[images, coarse]` to `[images, fine]`.
fn spread(shape: &Geometry, coarse: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    if let Some(tiled) = Tiled::new(shape) {
        return tiled.spread(coarse, &tiled.points_of_weights(weights, true), bias);
    }
    if let Some(spectral) = shape.spectral(true) {
        return spectral.outputs(&shape.table(&spectral, weights, true), coarse, bias);
    }
    if let Some(winograd) = Winograd::new(shape) {
        return winograd.spread(coarse, weights, bias);
    }
    if let Some(lowered) = Lowered::new(shape) {
        return lowered.spread(coarse, weights, bias);
    }
    direct::spread(shape, coarse, weights, bias)
}

/// Gradients of the weights and, where it comes with them, of a convolution's bias.
fn weight_gradient(shape: &Geometry, fine: &[f32], coarse: &[f32]) -> (Vec<f32>, Option<Vec<f32>>) {
    if let Some(tiled) = Tiled::new(shape) {
        return (tiled.weight_gradient(fine, coarse), None);
    }
    if let Some(spectral) = shape.spectral(false) {
        let table = spectral.gradient(fine, coarse);
        return (shape.weights_of(&spectral, &table), None);
    }
    if let Some(winograd) = Winograd::new(shape) {
        return (winograd.weight_gradient(fine, coarse), None);
    }
    if let Some(lowered) = Lowered::new(shape) {
        return (lowered.weight_gradient(fine, coarse), None);
    }
    let [weights, bias] = direct::weight_gradient(shape, fine, coarse);
    (weights, Some(bias))
}

/// Sums over all images and pixels for each channel, image by image.
fn bias_gradient(gradient: &[f32], channels: usize, pixels: usize) -> Vec<f32> {
    let images: Vec<Vec<f32>> = gradient
        .par_chunks_exact(channels * pixels)
        .map(|image| run_vectors(PlaneSums { image, pixels }))
        .collect();
    let mut sums = vec![0.0; channels];
    for image in images {
        for (sum, plane) in sums.iter_mut().zip(image) {
            *sum += plane;
        }
    }
    sums
}

/// The sum of each plane of an image.
struct PlaneSums<'a> {
    image: &'a [f32],
    pixels: usize,
}

impl WithSimd for PlaneSums<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let mut planes = Vec::with_capacity(self.image.len() / self.pixels);
        for plane in self.image.chunks_exact(self.pixels) {
            let (vectors, rest) = S::as_simd_f32s(plane);
            // Four sums, so that additions need not wait for each other.
            let mut sums = [simd.splat_f32s(0.0); 4];
            for chunk in vectors.chunks(sums.len()) {
                for (sum, vector) in sums.iter_mut().zip(chunk) {
                    *sum = simd.add_f32s(*sum, *vector);
                }
            }
            let mut total = 0.0;
            for sum in &sums[..vectors.len().min(sums.len())] {
                total += simd.reduce_sum_f32s(*sum);
            }
            for value in rest {
                total += value;
            }
            planes.push(total);
        }
        planes
    }
}

/// What a convolution makes of the size of its images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// `(size + 2 * padding - kernel) / stride + 1`
    Padded,
    /// The same size. The stride is 1, and `padding` is that above and on the left.
    Same,
    /// A transposed convolution: `(size - 1) * stride + kernel + added - 2 * padding`.
    Transposed { added: usize },
}

/// Kernels, stride, and what becomes of the size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// If there are several, they keep the size.
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) stride: usize,
    pub(crate) kind: Kind,
}

impl Options {
    fn is_transposed(&self) -> bool {
        matches!(self.kind, Kind::Transposed { .. })
    }

    fn geometry(&self, input: &Raw, weight: &Raw) -> Geometry {
        let [images, channels, height, width] = input.layout().shape().dims();
        let [weights] = weight.layout().shape().dims();
        let coarse: usize = self.kernels.iter().map(|k| k.channels).sum();
        let per_channel: usize = self.kernels.iter().map(|k| k.channels * k.taps()).sum();
        let fine = weights / per_channel;
        assert_eq!(
            weights,
            fine * per_channel,
            "number of weights of the kernels"
        );
        let taken = if self.is_transposed() { coarse } else { fine };
        assert_eq!(channels, taken, "channels of image and weight");
        let (kernel, stride) = (&self.kernels[0], self.stride);
        let [rows, columns] = kernel.size;
        let (fine, coarse) = match self.kind {
            Kind::Same => ([fine, height, width], [coarse, height, width]),
            Kind::Padded => {
                let out = |size: usize, kernel_size: usize| {
                    let padded = size + 2 * kernel.padding;
                    assert!(padded >= kernel_size, "the kernel is larger than the image");
                    (padded - kernel_size) / stride + 1
                };
                let coarse = [coarse, out(height, rows), out(width, columns)];
                ([fine, height, width], coarse)
            }
            Kind::Transposed { added } => {
                let out = |size: usize, kernel_size: usize| {
                    (size - 1) * stride + kernel_size + added - 2 * kernel.padding
                };
                let fine = [fine, out(height, rows), out(width, columns)];
                (fine, [coarse, height, width])
            }
        };
        Geometry {
            images,
            fine,
            coarse,
            kernels: self.kernels.clone(),
            stride,
        }
    }
}

/// See [`crate::conv`]. Inputs: image, the weights of all kernels one after the other, bias.
impl Fused<3> for Options {
    type Outputs = Raw;
    /// Image, weights and the options.
    type Saved = (Raw, Raw, Options);

    fn forward(self, inputs: [Raw; 3]) -> (Raw, Self::Saved) {
        let [input, weight, bias] = inputs.each_ref().map(contiguous);
        let shape = self.geometry(&input, &weight);
        let (image, weights, bias) = (slice(&input), slice(&weight), Some(slice(&bias)));
        let (values, [channels, height, width]) = match self.is_transposed() {
            false => (gather(&shape, image, weights, bias), shape.coarse),
            true => (spread(&shape, image, weights, bias), shape.fine),
        };
        let output = raw(values, [shape.images, channels, height, width]);
        (output, (input, weight, self))
    }

    fn backward(
        (input, weight, options): Self::Saved,
        outer: Raw,
        wanted: [bool; 3],
    ) -> [Option<Raw>; 3] {
        let outer = contiguous(&outer);
        let shape = options.geometry(&input, &weight);
        let input_shape: [usize; 4] = input.layout().shape().dims();
        let [_, channels, height, width] = outer.layout().shape().dims();
        let (input, weight, outer) = (slice(&input), slice(&weight), slice(&outer));
        let [to_input, to_weight, to_bias] = wanted;
        let to_input = to_input.then(|| {
            let gradient = match options.is_transposed() {
                false => spread(&shape, outer, weight, None),
                true => gather(&shape, outer, weight, None),
            };
            raw(gradient, input_shape)
        });
        if !to_weight && !to_bias {
            return [to_input, None, None];
        }
        let (to_weight, of_bias) = match options.is_transposed() {
            false => weight_gradient(&shape, input, outer),
            true => (weight_gradient(&shape, outer, input).0, None),
        };
        let to_bias = to_bias.then(|| {
            let sums = of_bias.unwrap_or_else(|| bias_gradient(outer, channels, height * width));
            raw(sums, [channels])
        });
        let count = to_weight.len();
        [to_input, Some(raw(to_weight, [count])), to_bias]
    }
}
