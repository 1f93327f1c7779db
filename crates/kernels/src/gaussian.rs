//! Diagonal Gaussians.

use burn::tensor::Tensor;

/// `0.5 * ln(2 pi)`
pub const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_7;

/// `KL(q || p)` of two diagonal Gaussians, summed over the last axis, in nats.
///
/// `sum_i [ log s_p - log s_q + (s_q^2 + (m_q - m_p)^2) / (2 s_p^2) - 1/2 ]`
///
/// # Shapes
/// All arguments `[rows, latent]`; returns `[rows]`.
pub fn kl_divergence(
    mean_q: Tensor<2>,
    log_std_q: Tensor<2>,
    mean_p: Tensor<2>,
    log_std_p: Tensor<2>,
) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&mean_q.device()) {
        return crate::flex::kl(mean_q, log_std_q, mean_p, log_std_p);
    }
    plain_kl(mean_q, log_std_q, mean_p, log_std_p)
}

fn plain_kl(
    mean_q: Tensor<2>,
    log_std_q: Tensor<2>,
    mean_p: Tensor<2>,
    log_std_p: Tensor<2>,
) -> Tensor<1> {
    let log_ratio = log_std_q - log_std_p.clone();
    let distance = (mean_q - mean_p) * log_std_p.neg().exp();
    let terms = (log_ratio.clone().mul_scalar(2.0).exp() + distance.powi_scalar(2)).mul_scalar(0.5)
        - log_ratio;
    let latent = terms.dims()[1] as f64;
    terms.sum_dim(1).sub_scalar(0.5 * latent).squeeze_dim(1)
}

/// `mean + exp(log_std) * noise`, a sample if the noise is standard normal.
///
/// # Shapes
/// All `[rows, latent]`. No gradient flows to `noise`, which is data.
///
/// Kingma and Welling 2014, section 2.4.
pub fn sample(mean: Tensor<2>, log_std: Tensor<2>, noise: Tensor<2>) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&mean.device()) {
        return crate::flex::sample(mean, log_std, noise);
    }
    plain_sample(mean, log_std, noise)
}

fn plain_sample(mean: Tensor<2>, log_std: Tensor<2>, noise: Tensor<2>) -> Tensor<2> {
    mean + log_std.exp() * noise
}

/// `log N(x; mean, exp(log_std)^2)`, summed over the last axis, in nats.
///
/// # Shapes
/// `x`, `mean`, `log_std`: `[rows, size]`; returns `[rows]`. No gradient flows to `x`, which is data.
pub fn log_probability(x: Tensor<2>, mean: Tensor<2>, log_std: Tensor<2>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&mean.device()) {
        return crate::flex::density(x, mean, log_std);
    }
    plain_density(x, mean, log_std)
}

fn plain_density(x: Tensor<2>, mean: Tensor<2>, log_std: Tensor<2>) -> Tensor<1> {
    let size = x.dims()[1] as f64;
    let z = (x - mean) * log_std.clone().neg().exp();
    let terms = z.square().mul_scalar(-0.5) - log_std;
    let sum: Tensor<1> = terms.sum_dim(1).squeeze_dim(1);
    sum.sub_scalar(size * HALF_LOG_TWO_PI)
}

/// `log N(x; mean, std^2)` with one standard deviation for all elements, summed over the last
/// axis, in nats.
///
/// # Shapes
/// `x`, `mean`: `[rows, size]`; returns `[rows]`.
pub fn log_density(x: Tensor<2>, mean: Tensor<2>, std: f64) -> Tensor<1> {
    let size = x.dims()[1] as f64;
    let squares = (x - mean).powi_scalar(2).sum_dim(1).squeeze_dim::<1>(1);
    squares
        .mul_scalar(-0.5 / (std * std))
        .sub_scalar(size * (std.ln() + HALF_LOG_TWO_PI))
}

#[cfg(all(test, feature = "flex"))]
mod kernel {
    use super::*;
    use crate::check::{
        Way, arranged, assert_close, assert_same, assert_spreads, differences, gradients, numbers,
    };

    type Shape = [usize; 2];

    fn inputs([rows, latent]: Shape, count: u32) -> Vec<Vec<f32>> {
        (1..=count)
            .map(|seed| numbers(rows * latent, seed))
            .collect()
    }

    fn divergence(
        shape: Shape,
        f: fn(Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>) -> Tensor<1>,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<1> {
        move |inputs, way| {
            let four = inputs.into_iter().map(|flat| arranged(flat, shape, way));
            let [mean_q, log_std_q, mean_p, log_std_p]: [_; 4] =
                four.collect::<Vec<_>>().try_into().unwrap();
            f(mean_q, log_std_q, mean_p, log_std_p)
        }
    }

    /// A sample drawn with its own noise.
    fn drawn(
        shape: Shape,
        f: fn(Tensor<2>, Tensor<2>, Tensor<2>) -> Tensor<2>,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |inputs, way| {
            let [mean, log_std]: [_; 2] = inputs.try_into().unwrap();
            let noise = numbers(shape.iter().product(), 9);
            let noise = Tensor::from_floats(noise.as_slice(), &mean.device());
            let [mean, log_std, noise] =
                [mean, log_std, noise].map(|flat| arranged(flat, shape, way));
            f(mean, log_std, noise)
        }
    }

    /// The density of numbers that are data.
    fn scored(
        shape: Shape,
        f: fn(Tensor<2>, Tensor<2>, Tensor<2>) -> Tensor<1>,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<1> {
        move |inputs, way| {
            let [mean, log_std]: [_; 2] = inputs.try_into().unwrap();
            let x = numbers(shape.iter().product(), 8);
            let x = Tensor::from_floats(x.as_slice(), &mean.device());
            let [x, mean, log_std] = [x, mean, log_std].map(|flat| arranged(flat, shape, way));
            f(x, mean, log_std)
        }
    }

    fn scored_definition(all: &[Vec<f64>], size: usize) -> Vec<f64> {
        let x = numbers(all[0].len(), 8);
        let term = |i: usize| {
            let z = (f64::from(x[i]) - all[0][i]) / all[1][i].exp();
            -0.5 * z * z - all[1][i] - HALF_LOG_TWO_PI
        };
        let rows = 0..all[0].len() / size;
        rows.map(|row| (row * size..(row + 1) * size).map(term).sum())
            .collect()
    }

    fn divergence_definition(all: &[Vec<f64>], latent: usize) -> Vec<f64> {
        let term = |i: usize| {
            let (std_q, std_p) = (all[1][i].exp(), all[3][i].exp());
            let distance = all[0][i] - all[2][i];
            all[3][i] - all[1][i] + (std_q * std_q + distance * distance) / (2.0 * std_p * std_p)
                - 0.5
        };
        let terms: Vec<f64> = (0..all[0].len()).map(term).collect();
        terms.chunks(latent).map(|row| row.iter().sum()).collect()
    }

    fn drawn_definition(all: &[Vec<f64>]) -> Vec<f64> {
        let noise = numbers(all[0].len(), 9);
        let pairs = all[0].iter().zip(&all[1]).zip(noise);
        let drawn = pairs.map(|((mean, log_std), noise)| mean + log_std.exp() * f64::from(noise));
        drawn.collect()
    }

    #[test]
    fn kernels_agree_with_the_plain_compositions() {
        for shape in [
            [1, 1],
            [7, 1],
            [1, 17],
            [3, 16],
            [5, 37],
            [301, 101],
            [600, 32],
        ] {
            let name = format!("{shape:?}");
            let kernel = divergence(shape, crate::flex::kl);
            let plain = divergence(shape, plain_kl);
            assert_same(&inputs(shape, 4), 5e-6, &name, kernel, plain);
            let kernel = drawn(shape, crate::flex::sample);
            let plain = drawn(shape, plain_sample);
            assert_same(&inputs(shape, 2), 3e-6, &name, kernel, plain);
            let kernel = scored(shape, crate::flex::density);
            let plain = scored(shape, plain_density);
            assert_same(&inputs(shape, 2), 5e-6, &name, kernel, plain);
        }
    }

    #[test]
    fn kernels_agree_with_the_definitions() {
        for shape in [[1, 1], [7, 1], [1, 17], [3, 16], [5, 37]] {
            let name = format!("{shape:?}");
            let kernel = divergence(shape, crate::flex::kl);
            let found = gradients(&inputs(shape, 4), &[], Way::Straight, kernel);
            let expected = differences(&inputs(shape, 4), |all| {
                divergence_definition(all, shape[1])
            });
            assert_close(&found, &expected, 3e-6, &name);
            let kernel = drawn(shape, crate::flex::sample);
            let found = gradients(&inputs(shape, 2), &[], Way::Straight, kernel);
            let expected = differences(&inputs(shape, 2), drawn_definition);
            assert_close(&found, &expected, 3e-6, &name);
            let kernel = scored(shape, crate::flex::density);
            let found = gradients(&inputs(shape, 2), &[], Way::Straight, kernel);
            let expected = differences(&inputs(shape, 2), |all| scored_definition(all, shape[1]));
            assert_close(&found, &expected, 3e-6, &name);
        }
    }

    /// Infinities are handled separately: a standard deviation is at least 1e-38, not 0.
    #[test]
    fn what_is_no_number_stays_none() {
        for shape in [[1, 1], [3, 16], [2, 37]] {
            let name = format!("{shape:?}");
            let kernel = divergence(shape, crate::flex::kl);
            let plain = divergence(shape, plain_kl);
            assert_spreads(&inputs(shape, 4), &[f32::NAN], &name, kernel, plain);
            let kernel = drawn(shape, crate::flex::sample);
            let plain = drawn(shape, plain_sample);
            assert_spreads(&inputs(shape, 2), &[f32::NAN], &name, kernel, plain);
            let kernel = scored(shape, crate::flex::density);
            let plain = scored(shape, plain_density);
            assert_spreads(&inputs(shape, 2), &[f32::NAN], &name, kernel, plain);
        }
    }
}
