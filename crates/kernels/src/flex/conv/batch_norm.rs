//! Batch norm over images with the statistics of the batch, followed by a ReLU, which may be leaky.

use crate::flex::{
    Raw, contiguous, exact,
    graph::fused::Fused,
    raw,
    simd::{
        Loop,
        chunks::{by_groups, grouped},
        run, run_vectors,
    },
    slice,
};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::sync::{Arc, OnceLock};

/// Partial sums of a plane, in a fixed order for every instruction set.
const LANES: usize = 16;

/// `sum x_i` and `sum (x_i - mean)^2` of a plane, with its own mean.
struct Moments<'a>(&'a [f32]);

impl Loop for Moments<'_> {
    type Output = [f32; 2];

    #[inline(always)]
    fn run(self) -> [f32; 2] {
        let total = sum(self.0, |x| x);
        let mean = total / self.0.len() as f32;
        [total, sum(self.0, |x| (x - mean) * (x - mean))]
    }
}

#[inline(always)]
fn sum(plane: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (lanes, rest) = plane.as_chunks::<LANES>();
    for chunk in lanes {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += f(*x);
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum += f(*x);
    }
    sums.iter().sum()
}

/// `y = scale x + shift` for a plane, and `slope y` where `y` is negative.
struct Normalise<'a> {
    x: &'a [f32],
    scale: f32,
    shift: f32,
    slope: f32,
    output: &'a mut [f32],
}

impl Loop for Normalise<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (output, x) in self.output.iter_mut().zip(self.x) {
            let y = x * self.scale + self.shift;
            // NaN passes through.
            *output = if y < 0.0 { leaked(y, self.slope) } else { y };
        }
    }
}

/// The part of a number that a closed ReLU lets through; zero for slope 0, whatever the number.
#[inline(always)]
fn leaked(number: f32, slope: f32) -> f32 {
    if slope == 0.0 { 0.0 } else { slope * number }
}

/// How a channel was normalised.
#[derive(Clone, Copy)]
struct Channel {
    mean: f32,
    /// `1 / sqrt(variance + epsilon)`
    inverse: f32,
    gamma: f32,
    beta: f32,
    /// Slope below zero.
    slope: f32,
}

/// `sum g` and `sum g xhat` of a plane. Here `g` is the gradient where the output is positive or NaN, and
/// `slope` times the gradient elsewhere. If the ReLU closed for NaN, the NaN would not reach the gradients of
/// scale and shift.
struct GradientSums<'a> {
    x: &'a [f32],
    gradient: &'a [f32],
    channel: Channel,
}

impl WithSimd for GradientSums<'_> {
    type Output = [f32; 2];

    // Explicit vectors, because the compiler turns a plain loop into conditional scalar loads.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f32; 2] {
        let c = self.channel;
        let zero = simd.splat_f32s(0.0);
        let [mean, inverse, gamma, beta, slope] =
            [c.mean, c.inverse, c.gamma, c.beta, c.slope].map(|value| simd.splat_f32s(value));
        let (x, x_rest) = S::as_simd_f32s(self.x);
        let (gradient, gradient_rest) = S::as_simd_f32s(self.gradient);
        let (mut sums, mut products) = (zero, zero);
        for (x, gradient) in x.iter().zip(gradient) {
            let xhat = simd.mul_f32s(simd.sub_f32s(*x, mean), inverse);
            let y = simd.add_f32s(simd.mul_f32s(xhat, gamma), beta);
            let closed = simd.less_than_or_equal_f32s(y, zero);
            let leaked = match c.slope == 0.0 {
                true => zero,
                false => simd.mul_f32s(*gradient, slope),
            };
            let g = simd.select_f32s(closed, leaked, *gradient);
            sums = simd.add_f32s(sums, g);
            products = simd.mul_add_f32s(g, xhat, products);
        }
        let mut totals = [sums, products].map(|vector| simd.reduce_sum_f32s(vector));
        for (x, gradient) in x_rest.iter().zip(gradient_rest) {
            let xhat = (x - c.mean) * c.inverse;
            let closed = xhat * c.gamma + c.beta <= 0.0;
            let g = if closed {
                leaked(*gradient, c.slope)
            } else {
                *gradient
            };
            totals[0] += g;
            totals[1] += g * xhat;
        }
        totals
    }
}

/// `gamma / sigma (g - mean(g) - xhat mean(g xhat))` of a plane.
struct GradientInput<'a> {
    x: &'a [f32],
    channel: Channel,
    /// Means of `g` and `g xhat` over the channel.
    means: [f32; 2],
    /// Before the pass `g`, afterwards the result.
    gradient: &'a mut [f32],
}

impl Loop for GradientInput<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let c = self.channel;
        let factor = c.gamma * c.inverse;
        for (gradient, x) in self.gradient.iter_mut().zip(self.x) {
            let xhat = (x - c.mean) * c.inverse;
            let closed = xhat * c.gamma + c.beta <= 0.0;
            let g = if closed {
                leaked(*gradient, c.slope)
            } else {
                *gradient
            };
            *gradient = factor * (g - self.means[0] - xhat * self.means[1]);
        }
    }
}

fn sizes(x: &Raw) -> [usize; 3] {
    let [images, channels, height, width] = x.layout().shape().dims();
    [images, channels, height * width]
}

/// Means and (biased) variances of the channels, `[2 * channels]`. Batch norm stores them here for its caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found(Arc<OnceLock<Vec<f32>>>);

impl Found {
    pub(crate) fn moments(&self) -> &[f32] {
        self.0.get().expect("batch norm was run")
    }
}

/// Mean and variance of the planes of a channel.
fn moments<'a>(planes: impl Iterator<Item = &'a [f32]>) -> [f32; 2] {
    // Sum, sum of squared deviations from the mean, and count of each plane.
    let planes: Vec<[f64; 3]> = planes
        .map(|plane| {
            let [sum, squares] = run(Moments(plane));
            [sum.into(), squares.into(), plane.len() as f64]
        })
        .collect();
    let count: f64 = planes.iter().map(|plane| plane[2]).sum();
    let mean = planes.iter().map(|plane| plane[0]).sum::<f64>() / count;
    // Converts squared deviations from the plane's own mean to deviations from the mean of all planes.
    let squares = planes.iter().map(|[sum, squares, count]| {
        let offset = sum / count - mean;
        squares + count * offset * offset
    });
    let variance = squares.sum::<f64>() / count;
    [mean as f32, variance as f32]
}

/// The planes of a channel in `[images, channels, pixels]`.
fn planes(
    values: &[f32],
    [channels, pixels]: [usize; 2],
    channel: usize,
) -> impl Iterator<Item = &[f32]> {
    let planes = values.chunks_exact(pixels);
    planes.skip(channel).step_by(channels)
}

fn channel_of(
    index: usize,
    gamma: &[f32],
    beta: &[f32],
    [mean, variance]: [f32; 2],
    [epsilon, slope]: [f32; 2],
) -> Channel {
    Channel {
        mean,
        inverse: 1.0 / (variance + epsilon).sqrt(),
        gamma: gamma[index],
        beta: beta[index],
        slope,
    }
}

/// `y = gamma (x - mean) / sqrt(variance + epsilon) + beta`, and `slope y` where `y` is negative; `numbers` are
/// `epsilon` and `slope`. Moments and output of a channel are computed one after the other, while the channel is
/// in the cache.
fn forward([x, gamma, beta]: &[Raw; 3], numbers: [f32; 2], found: &Found) -> Raw {
    let [images, channels, pixels] = sizes(x);
    let [_, _, height, width] = x.layout().shape().dims();
    let (x, gamma, beta) = (slice(x), slice(gamma), slice(beta));
    assert_eq!(
        [gamma.len(), beta.len()],
        [channels; 2],
        "shapes of scale and shift"
    );
    let all: Vec<OnceLock<[f32; 2]>> = vec![OnceLock::new(); channels];
    let output = by_groups(x.len(), pixels, channels, |index, outputs| {
        let inputs = || planes(x, [channels, pixels], index);
        let moments = *all[index].get_or_init(|| moments(inputs()));
        let c = channel_of(index, gamma, beta, moments, numbers);
        let scale = c.gamma * c.inverse;
        let shift = c.beta - c.mean * scale;
        for (output, x) in outputs.zip(inputs()) {
            run(Normalise {
                x,
                scale,
                shift,
                slope: c.slope,
                output,
            });
        }
    });
    let moment = |which: usize| {
        let all = all.iter().map(OnceLock::get);
        all.map(move |moments| moments.map_or(f32::NAN, |moments| moments[which]))
    };
    let _ = found.0.set(moment(0).chain(moment(1)).collect());
    raw(output, [images, channels, height, width])
}

/// See [`crate::batch_norm::batch_norm_leaky_relu`]: images, scale and shift.
pub(crate) struct BatchNorm {
    /// Epsilon, and the slope below zero.
    pub(crate) numbers: [f32; 2],
    /// Receives the moments of the channels.
    pub(crate) found: Found,
}

impl Fused<3> for BatchNorm {
    type Outputs = Raw;
    type Saved = ([Raw; 3], [f32; 2], Found);

    fn forward(self, inputs: [Raw; 3]) -> (Raw, Self::Saved) {
        let Self { numbers, found } = self;
        let inputs = inputs.each_ref().map(contiguous);
        let output = forward(&inputs, numbers, &found);
        (output, (inputs, numbers, found))
    }

    /// The gradient also passes through the moments, because they depend on the images.
    fn backward(
        ([x, gamma, beta], numbers, found): Self::Saved,
        outer: Raw,
        [to_x, ..]: [bool; 3],
    ) -> [Option<Raw>; 3] {
        // In place if nothing else holds the gradient.
        let mut outer = exact(outer);
        let [images, channels, pixels] = sizes(&x);
        let count = (images * pixels) as f64;
        let (x, gamma, beta) = (slice(&x), slice(&gamma), slice(&beta));
        let (means, variances) = found.moments().split_at(channels);
        // Sums and gradient of a channel are computed one after the other, while the channel is in the cache.
        let sums: Vec<[f64; 2]> = grouped(outer.storage_mut::<f32>(), pixels, channels)
            .into_par_iter()
            .enumerate()
            .map(|(index, mut gradients)| {
                let moments = [means[index], variances[index]];
                let channel = channel_of(index, gamma, beta, moments, numbers);
                let inputs = || planes(x, [channels, pixels], index);
                let sums = inputs()
                    .zip(&gradients)
                    .fold([0.0; 2], |total, (x, gradient)| {
                        let sums = run_vectors(GradientSums {
                            x,
                            gradient,
                            channel,
                        });
                        [0, 1].map(|i| total[i] + f64::from(sums[i]))
                    });
                if to_x {
                    let means = sums.map(|sum| (sum / count) as f32);
                    for (gradient, x) in gradients.iter_mut().zip(inputs()) {
                        run(GradientInput {
                            x,
                            channel,
                            means,
                            gradient,
                        });
                    }
                }
                sums
            })
            .collect();
        let column = |which: usize| {
            let column = sums.iter().map(|sum| sum[which] as f32).collect();
            Some(raw(column, [channels]))
        };
        [Some(outer), column(1), column(0)]
    }
}
