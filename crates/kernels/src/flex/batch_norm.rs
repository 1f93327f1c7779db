//! Batch norm with ReLU over images, with the statistics of the batch.

use super::{Loop, Raw, chunks::by_chunks, contiguous, exact, raw, run, slice};
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
            let open = xhat * c.gamma + c.beta > 0.0;
            let g = if open { *gradient } else { 0.0 };
            *gradient = factor * (g - self.means[0] - xhat * self.means[1]);
        }
    }
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
    // Sums and squares of every plane, [images][channels].
    let planes: Vec<[f32; 2]> = values
        .par_chunks_exact(pixels)
        .map(|plane| run(Moments(plane)))
        .collect();
    let moments: Vec<[f32; 2]> = (0..channels)
        .map(|channel| {
            let planes = || {
                let planes = planes[channel..].iter().step_by(channels);
                planes.map(|plane| plane.map(f64::from))
            };
            let total: f64 = planes().map(|[sum, _]| sum).sum();
            let mean = total / (images * pixels) as f64;
            // Squares about the plane's own mean become squares about the mean of all.
            let squares = planes().map(|[sum, squares]| {
                let offset = sum / pixels as f64 - mean;
                squares + pixels as f64 * offset * offset
            });
            let variance = squares.sum::<f64>() / (images * pixels) as f64;
            [mean as f32, variance as f32]
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
    let size = channels * pixels;
    let output = by_chunks(
        images * size,
        size,
        || (),
        |(), image, output| {
            let x = &x[image * size..][..size];
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
        },
    );
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
            let constants = channels_of(slice(&gamma), slice(&beta), slice(&moments), epsilon);
            let (x, gradient) = (slice(&x), slice(&outer));
            // Sums of every plane, [images][channels].
            let planes: Vec<[f32; 2]> = x
                .par_chunks_exact(pixels)
                .zip(gradient.par_chunks_exact(pixels))
                .enumerate()
                .map(|(index, (x, gradient))| {
                    let channel = constants[index % channels];
                    run(GradientSums {
                        x,
                        gradient,
                        channel,
                    })
                })
                .collect();
            let sums: Vec<[f64; 2]> = (0..channels)
                .map(|channel| {
                    let planes = planes[channel..].iter().step_by(channels);
                    planes.fold([0.0; 2], |total, plane| {
                        [0, 1].map(|i| total[i] + f64::from(plane[i]))
                    })
                })
                .collect();
            let [to_x, to_gamma, to_beta] = ops.parents;
            if let Some(node) = to_x {
                let count = (images * pixels) as f64;
                // In place where nothing else holds the gradient.
                let mut outer = exact(outer);
                outer
                    .storage_mut::<f32>()
                    .par_chunks_exact_mut(pixels)
                    .zip(x.par_chunks_exact(pixels))
                    .enumerate()
                    .for_each(|(index, (gradient, x))| {
                        let (channel, sums) = (index % channels, &sums[index % channels]);
                        run(GradientInput {
                            x,
                            channel: constants[channel],
                            means: sums.map(|sum| (sum / count) as f32),
                            gradient,
                        });
                    });
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
