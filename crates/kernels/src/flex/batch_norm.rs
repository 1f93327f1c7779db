//! Batch norm with ReLU over images, with the statistics of the batch.

use super::{Loop, Raw, contiguous, raw, run, slice};
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

/// Partial sums of a plane, in a fixed order whatever the instruction set.
const LANES: usize = 16;

/// `sum f(x_i)` of a plane.
struct Sum<'a, F>(&'a [f32], F);

impl<F: Fn(f32) -> f32> Loop for Sum<'_, F> {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        let mut sums = [0.0_f32; LANES];
        let (lanes, rest) = self.0.as_chunks::<LANES>();
        for chunk in lanes {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum += (self.1)(*x);
            }
        }
        for (sum, x) in sums.iter_mut().zip(rest) {
            *sum += (self.1)(*x);
        }
        sums.iter().sum()
    }
}

/// `relu(scale x + shift)` of a plane.
struct Normalise<'a> {
    x: &'a [f32],
    scale: f32,
    shift: f32,
    output: &'a mut [f32],
}

impl Loop for Normalise<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (output, x) in self.output.iter_mut().zip(self.x) {
            let y = x * self.scale + self.shift;
            // NaN passes through.
            *output = if y < 0.0 { 0.0 } else { y };
        }
    }
}

/// How a channel was normalised.
#[derive(Clone, Copy)]
struct Channel {
    mean: f32,
    /// `1 / sqrt(variance + epsilon)`
    inverse: f32,
    gamma: f32,
    beta: f32,
}

/// `sum g` and `sum g xhat` of a plane, where `g` is the gradient where the output is positive.
struct GradientSums<'a> {
    x: &'a [f32],
    gradient: &'a [f32],
    channel: Channel,
}

impl Loop for GradientSums<'_> {
    type Output = [f32; 2];

    #[inline(always)]
    fn run(self) -> [f32; 2] {
        let mut sums = [[0.0_f32; LANES]; 2];
        let c = self.channel;
        let mut add = |lane: usize, x: f32, gradient: f32| {
            let xhat = (x - c.mean) * c.inverse;
            let open = xhat * c.gamma + c.beta > 0.0;
            let g = if open { gradient } else { 0.0 };
            sums[0][lane] += g;
            sums[1][lane] += g * xhat;
        };
        let (x, x_rest) = self.x.as_chunks::<LANES>();
        let (gradient, gradient_rest) = self.gradient.as_chunks::<LANES>();
        for (x, gradient) in x.iter().zip(gradient) {
            for lane in 0..LANES {
                add(lane, x[lane], gradient[lane]);
            }
        }
        for (lane, (x, gradient)) in x_rest.iter().zip(gradient_rest).enumerate() {
            add(lane, *x, *gradient);
        }
        sums.map(|sums| sums.iter().sum())
    }
}

/// `gamma / sigma (g - mean(g) - xhat mean(g xhat))` of a plane.
struct GradientInput<'a> {
    x: &'a [f32],
    gradient: &'a [f32],
    channel: Channel,
    /// Means of `g` and `g xhat` over the channel.
    means: [f32; 2],
    output: &'a mut [f32],
}

impl Loop for GradientInput<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let c = self.channel;
        let factor = c.gamma * c.inverse;
        let inputs = self.x.iter().zip(self.gradient);
        for (output, (x, gradient)) in self.output.iter_mut().zip(inputs) {
            let xhat = (x - c.mean) * c.inverse;
            let open = xhat * c.gamma + c.beta > 0.0;
            let g = if open { *gradient } else { 0.0 };
            *output = factor * (g - self.means[0] - xhat * self.means[1]);
        }
    }
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

fn sizes(x: &Raw) -> [usize; 3] {
    let [images, channels, height, width] = x.layout().shape().dims();
    [images, channels, height * width]
}

/// Mean and variance (of the sample, not the estimate) of each channel, side by side: `[2 * channels]`.
pub(super) fn moments(x: &Raw) -> Raw {
    let x = contiguous(x);
    let [images, channels, pixels] = sizes(&x);
    let values = slice(&x);
    let count = (images * pixels) as f64;
    let moments: Vec<[f32; 2]> = (0..channels)
        .into_par_iter()
        .map(|channel| {
            let all = || planes(values, [channels, pixels], channel);
            let total: f64 = all().map(|x| f64::from(run(Sum(x, |x| x)))).sum();
            let mean = (total / count) as f32;
            let squares = |plane| f64::from(run(Sum(plane, |x| (x - mean) * (x - mean))));
            let total: f64 = all().map(squares).sum();
            [mean, (total / count) as f32]
        })
        .collect();
    let means = moments.iter().map(|m| m[0]);
    let variances = moments.iter().map(|m| m[1]);
    raw(means.chain(variances).collect(), [2 * channels])
}

fn channels_of(gamma: &[f32], beta: &[f32], moments: &[f32], epsilon: f32) -> Vec<Channel> {
    assert_eq!([beta.len(), moments.len()], [gamma.len(), 2 * gamma.len()]);
    let (means, variances) = moments.split_at(gamma.len());
    (0..gamma.len())
        .map(|c| Channel {
            mean: means[c],
            inverse: 1.0 / (variances[c] + epsilon).sqrt(),
            gamma: gamma[c],
            beta: beta[c],
        })
        .collect()
}

/// `relu(gamma (x - mean) / sqrt(variance + epsilon) + beta)`, moments as [`moments`] gives them.
pub(super) fn forward(x: &Raw, gamma: &Raw, beta: &Raw, moments: &Raw, epsilon: f32) -> Raw {
    let [x, gamma, beta, moments] = [x, gamma, beta, moments].map(contiguous);
    let [images, channels, pixels] = sizes(&x);
    let [_, _, height, width] = x.layout().shape().dims();
    let constants = channels_of(slice(&gamma), slice(&beta), slice(&moments), epsilon);
    assert_eq!(constants.len(), channels, "channels of images and scales");
    let x = slice(&x);
    let mut output = vec![0.0; images * channels * pixels];
    output
        .par_chunks_mut(channels * pixels)
        .zip(x.par_chunks(channels * pixels))
        .for_each(|(output, x)| {
            let planes = output.chunks_exact_mut(pixels).zip(x.chunks_exact(pixels));
            for ((output, x), c) in planes.zip(&constants) {
                let scale = c.gamma * c.inverse;
                let shift = c.beta - c.mean * scale;
                run(Normalise {
                    x,
                    scale,
                    shift,
                    output,
                });
            }
        });
    raw(output, [images, channels, height, width])
}

/// Through the moments too: they are those of `x`.
pub(super) fn tracked<C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<Flex, C>>,
    gamma: FloatTensor<Autodiff<Flex, C>>,
    beta: FloatTensor<Autodiff<Flex, C>>,
    moments: FloatTensor<Autodiff<Flex, C>>,
    epsilon: f32,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct BatchNorm;

    impl Backward<Flex, 3> for BatchNorm {
        type State = ([Raw; 4], f32);

        fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
            let ([x, gamma, beta, moments], epsilon) = ops.state;
            let outer = contiguous(&grads.consume::<Flex>(&ops.node));
            let [images, channels, pixels] = sizes(&x);
            let shape: [usize; 4] = x.layout().shape().dims();
            let constants = channels_of(slice(&gamma), slice(&beta), slice(&moments), epsilon);
            let (x, gradient) = (slice(&x), slice(&outer));
            let sums: Vec<[f64; 2]> = constants
                .par_iter()
                .enumerate()
                .map(|(index, channel)| {
                    let size = [channels, pixels];
                    let pairs = planes(x, size, index).zip(planes(gradient, size, index));
                    pairs.fold([0.0; 2], |total, (x, gradient)| {
                        let channel = *channel;
                        let sums = run(GradientSums {
                            x,
                            gradient,
                            channel,
                        });
                        [0, 1].map(|i| total[i] + f64::from(sums[i]))
                    })
                })
                .collect();
            let [to_x, to_gamma, to_beta] = ops.parents;
            if let Some(node) = to_x {
                let count = (images * pixels) as f64;
                let mut output = vec![0.0; x.len()];
                output
                    .par_chunks_mut(channels * pixels)
                    .zip(x.par_chunks(channels * pixels))
                    .zip(gradient.par_chunks(channels * pixels))
                    .for_each(|((output, x), gradient)| {
                        let planes = output.chunks_exact_mut(pixels);
                        let planes = planes.zip(x.chunks_exact(pixels));
                        let planes = planes.zip(gradient.chunks_exact(pixels));
                        for (((output, x), gradient), (c, sums)) in
                            planes.zip(constants.iter().zip(&sums))
                        {
                            run(GradientInput {
                                x,
                                gradient,
                                channel: *c,
                                means: sums.map(|sum| (sum / count) as f32),
                                output,
                            });
                        }
                    });
                grads.register::<Flex>(node.id, raw(output, shape));
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
    let moments = moments.into_primitive();
    let saved = [x, gamma, beta, moments].map(|tensor| contiguous(&tensor));
    let [x, gamma, beta, moments] = &saved;
    let output = forward(x, gamma, beta, moments, epsilon);
    let guards = [x_guard, gamma_guard, beta_guard];
    match BatchNorm.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((saved, epsilon), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
