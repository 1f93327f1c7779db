//! Batch norm with a ReLU, leaky or not, over images, with the statistics of the batch.

use super::{
    Loop, Raw,
    chunks::{by_groups, grouped},
    contiguous, exact, raw, run, simd, slice,
};
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
use std::sync::{Arc, OnceLock};

/// Partial sums of a plane, in a fixed order whatever the instruction set.
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

/// `y = scale x + shift` of a plane, `slope y` where it is negative.
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

/// What of a number goes through where the ReLU is closed; nothing at slope 0, whatever the number.
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
    /// Below zero.
    slope: f32,
}

/// `sum g` and `sum g xhat` of a plane, where `g` is the gradient where the output is positive, or no
/// number, and `slope` times it elsewhere: a ReLU that is closed for NaN would hide it from the gradients of scale and shift.
struct GradientSums<'a> {
    x: &'a [f32],
    gradient: &'a [f32],
    channel: Channel,
}

impl WithSimd for GradientSums<'_> {
    type Output = [f32; 2];

    // Vectors by name: from a plain loop the compiler makes conditional loads of single numbers.
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
    /// `g` before, the result afterwards.
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

/// Means and variances (of the sample, not the estimate) of channels, side by side: `[2 * channels]`; what
/// batch norm found, for those who asked for its output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found(Arc<OnceLock<Vec<f32>>>);

impl Found {
    pub(super) fn moments(&self) -> &[f32] {
        self.0.get().expect("batch norm was run")
    }
}

/// Mean and variance of the planes of a channel.
fn moments<'a>(planes: impl Iterator<Item = &'a [f32]>) -> [f32; 2] {
    // Sum, squares about the mean and count of each plane.
    let planes: Vec<[f64; 3]> = planes
        .map(|plane| {
            let [sum, squares] = run(Moments(plane));
            [sum.into(), squares.into(), plane.len() as f64]
        })
        .collect();
    let count: f64 = planes.iter().map(|plane| plane[2]).sum();
    let mean = planes.iter().map(|plane| plane[0]).sum::<f64>() / count;
    // Squares about the plane's own mean become squares about the mean of all.
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

/// `y = gamma (x - mean) / sqrt(variance + epsilon) + beta`, `slope y` where it is negative; `numbers` are
/// `epsilon` and `slope`. A channel's moments and output are made one
/// after the other, while it is in the cache.
pub(super) fn forward(x: &Raw, gamma: &Raw, beta: &Raw, numbers: [f32; 2], found: &Found) -> Raw {
    let [x, gamma, beta] = [x, gamma, beta].map(contiguous);
    let [images, channels, pixels] = sizes(&x);
    let [_, _, height, width] = x.layout().shape().dims();
    let (x, gamma, beta) = (slice(&x), slice(&gamma), slice(&beta));
    assert_eq!(
        [gamma.len(), beta.len()],
        [channels; 2],
        "scales and shifts"
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

/// Through the moments too: they are those of `x`.
pub(super) fn tracked<C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<Flex, C>>,
    gamma: FloatTensor<Autodiff<Flex, C>>,
    beta: FloatTensor<Autodiff<Flex, C>>,
    numbers: [f32; 2],
    found: Found,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct BatchNorm;

    impl Backward<Flex, 3> for BatchNorm {
        type State = ([Raw; 3], [f32; 2], Found);

        fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
            let ([x, gamma, beta], numbers, found) = ops.state;
            // In place where nothing else holds the gradient.
            let mut outer = exact(grads.consume::<Flex>(&ops.node));
            let [images, channels, pixels] = sizes(&x);
            let count = (images * pixels) as f64;
            let (x, gamma, beta) = (slice(&x), slice(&gamma), slice(&beta));
            let (means, variances) = found.moments().split_at(channels);
            let [to_x, to_gamma, to_beta] = ops.parents;
            let further = to_x.is_some();
            // A channel's sums and gradient are made one after the other, while it is in the cache.
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
                            let sums = simd(GradientSums {
                                x,
                                gradient,
                                channel,
                            });
                            [0, 1].map(|i| total[i] + f64::from(sums[i]))
                        });
                    if further {
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
            if let Some(node) = to_x {
                grads.register::<Flex>(node.id, outer);
            }
            let column = |which: usize| sums.iter().map(|sum| sum[which] as f32).collect();
            if let Some(node) = to_gamma {
                grads.register::<Flex>(node.id, raw(column(1), [channels]));
            }
            if let Some(node) = to_beta {
                grads.register::<Flex>(node.id, raw(column(0), [channels]));
            }
        }
    }

    let (x, x_guard) = x.into_parts();
    let (gamma, gamma_guard) = gamma.into_parts();
    let (beta, beta_guard) = beta.into_parts();
    let saved = [x, gamma, beta].map(|tensor| contiguous(&tensor));
    let [x, gamma, beta] = &saved;
    let output = forward(x, gamma, beta, numbers, &found);
    let guards = [x_guard, gamma_guard, beta_guard];
    match BatchNorm.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((saved, numbers, found), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
