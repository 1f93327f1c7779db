//! Log probability of binned (quantised) numbers under Gaussians.

use crate::gaussian::HALF_LOG_TWO_PI;
use burn::tensor::Tensor;

/// Largest bin width, in standard deviations, for which the expansion is accurate to 1e-7.
pub(crate) const NARROW: f64 = 0.05;

/// Coefficients of the complementary error function, highest power first (Press et al., Numerical Recipes, 6.2).
pub(crate) const FIT: [f64; 10] = [
    0.170_872_77,
    -0.822_152_23,
    1.488_515_87,
    -1.135_203_98,
    0.278_868_07,
    -0.186_288_06,
    0.096_784_18,
    0.374_091_96,
    1.000_023_68,
    -1.265_512_23,
];

/// `log P(x - bin / 2 < X < x + bin / 2)` for `X ~ N(mean, exp(log_std)^2)`, summed over the last axis, in nats:
/// the log probability of a number measured with resolution `bin`.
///
/// If the bin is narrow compared to the standard deviation, this is the density times the width with the next
/// term of its expansion. Otherwise it is the difference of the two tails, computed in logarithms.
///
/// # Shapes
/// `x`, `mean`, `log_std`: `[rows, size]`; returns `[rows]`. No gradient flows to `x`, which is data.
pub fn log_probability(x: Tensor<2>, mean: Tensor<2>, log_std: Tensor<2>, bin: f64) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&mean.device()) {
        return crate::flex::bins(x, mean, log_std, bin as f32);
    }
    plain(x, mean, log_std, bin)
}

fn plain(x: Tensor<2>, mean: Tensor<2>, log_std: Tensor<2>, bin: f64) -> Tensor<1> {
    let inverse = log_std.clone().neg().exp();
    let z = (x - mean).abs() * inverse.clone();
    let width = inverse * bin;
    let narrow = width.clone().lower_elem(NARROW);

    let squares = z.clone().square();
    let bend = (squares.clone() - 1.0) * width.clone().square() / 24.0;
    // Far out in the tails this term is not used and may be arbitrary.
    let bend = bend.clamp(-0.5, 0.5).log1p();
    let density = squares * -0.5 - log_std + bend + (bin.ln() - HALF_LOG_TWO_PI);

    // By symmetry the bin is centred at `z >= 0`; its lower edge may be negative.
    let half = width.mask_fill(narrow.clone(), NARROW) * 0.5;
    let (low, high) = (z.clone() - half.clone(), z + half);
    let inside = low.clone().lower_elem(0.0);
    let high_tail = log_upper_tail(high);
    let low_tail = log_upper_tail(low.clone().clamp_min(0.0));
    // Far out, rounding may make both edges equal.
    let between = (high_tail.clone() - low_tail.clone()).clamp_max(-1e-6);
    let beyond = low_tail + between.exp().neg().log1p();
    let across = (high_tail.exp() + log_upper_tail(low.neg().clamp_min(0.0)).exp())
        .neg()
        .log1p();
    let tails = beyond.mask_where(inside, across);

    let terms = tails.mask_where(narrow, density);
    terms.sum_dim(1).squeeze_dim(1)
}

/// `log P(X > u)` of a standard normal variable for `u >= 0`, accurate to a relative 1e-7 of the probability:
/// the rational Chebyshev [fit](FIT) of the complementary error function.
fn log_upper_tail(u: Tensor<2>) -> Tensor<2> {
    let t = (u.clone() * (0.5 * std::f64::consts::FRAC_1_SQRT_2) + 1.0).recip();
    let fit = FIT[1..]
        .iter()
        .fold(t.full_like(FIT[0]), |sum, coefficient| {
            sum * t.clone() + *coefficient
        });
    t.log() - u.square() * 0.5 + fit - std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// Logarithm of the upper tail of a standard normal variable, by a continued fraction, or by a series near
    /// zero.
    fn log_tail(u: f64) -> f64 {
        let log_density = -0.5 * u * u - HALF_LOG_TWO_PI;
        if u.abs() < 3.0 {
            let (mut term, mut sum) = (u, u);
            for n in 1..200 {
                term *= u * u / f64::from(2 * n + 1);
                sum += term;
            }
            return (0.5 - log_density.exp() * sum).ln();
        }
        let fraction = (1..200)
            .rev()
            .fold(0.0, |rest, n| f64::from(n) / (u + rest));
        log_density - (u + fraction).ln()
    }

    pub(super) fn definition(x: f64, mean: f64, log_std: f64, bin: f64) -> f64 {
        let std = log_std.exp();
        let z = (x - mean).abs() / std;
        let (low, high) = (z - bin / std / 2.0, z + bin / std / 2.0);
        if bin / std < 1e-4 {
            return -0.5 * z * z - log_std - HALF_LOG_TWO_PI + bin.ln();
        }
        match low < 0.0 {
            true => (1.0 - log_tail(high).exp() - log_tail(-low).exp()).ln(),
            false => log_tail(low) + (-(log_tail(high) - log_tail(low)).exp()).ln_1p(),
        }
    }

    #[test]
    fn bins_have_the_probability_of_the_definition() {
        let device = Device::default();
        for bin in [0.001_819_074_2, 1.0 / 256.0, 0.3] {
            for log_std in [-5.0, -4.0, -2.0, -1.0, 0.0, 1.5] {
                for x in [0.0, 1e-3, 0.01, -0.1, 0.5, 2.0, -6.0] {
                    let of = |value: f64| Tensor::<2>::from_floats([[value]], &device);
                    let found = log_probability(of(x), of(0.0), of(log_std), bin);
                    let found: f64 = found.into_scalar::<f32>().into();
                    let expected = definition(x, 0.0, log_std, bin);
                    let error = (found - expected).abs() / expected.abs().max(1.0);
                    assert!(
                        error < 2e-5,
                        "bin {bin}, {x}, {log_std}: {found} {expected}"
                    );
                }
            }
        }
    }

    /// Numbers from the supplement to the paper: bins at the mean and three standard deviations away.
    #[test]
    fn bins_have_known_probabilities() {
        const BIN: f64 = 0.001_819_074_2;
        let device = Device::default();
        for (low, expected) in [(0.0, -7.228_367), (3.0, -11.731_094)] {
            let of = |value: f64| Tensor::<2>::from_floats([[value]], &device);
            let found = log_probability(of(low + BIN / 2.0), of(0.0), of(0.0), BIN);
            let found: f64 = found.into_scalar::<f32>().into();
            assert!((found - expected).abs() < 2e-5, "{found} {expected}");
        }
    }

    #[test]
    fn gradients_of_bins_are_differences() {
        const STEP: f64 = 1e-4;
        let device = Device::default().autodiff();
        for (bin, x, log_std) in [
            (0.002, 0.7, 0.1),
            (0.3, 0.05, -1.0),
            (0.3, 1.5, -1.0),
            (0.3, 3.0, -1.0),
        ] {
            let of = |value: f64| Tensor::<2>::from_floats([[value]], &device).require_grad();
            let (mean, spread) = (of(0.0), of(log_std));
            let x_tensor = Tensor::<2>::from_floats([[x]], &device);
            let gradients = log_probability(x_tensor, mean.clone(), spread.clone(), bin).backward();
            let slope = |at: &dyn Fn(f64) -> f64| (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let expected = [
                slope(&|step| definition(x, step, log_std, bin)),
                slope(&|step| definition(x, 0.0, log_std + step, bin)),
            ];
            for (leaf, expected) in [mean, spread].into_iter().zip(expected) {
                let found: f64 = leaf.grad(&gradients).unwrap().into_scalar::<f32>().into();
                let error = (found - expected).abs() / expected.abs().max(1.0);
                assert!(
                    error < 1e-3,
                    "bin {bin}, {x}, {log_std}: {found} {expected}"
                );
            }
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod kernel {
    use super::*;
    use crate::check::{
        Way, arranged, assert_close, assert_same, assert_spreads, differences, gradients, numbers,
    };

    type Shape = [usize; 2];

    /// Means, and log standard deviations between `low` and `high`.
    fn inputs([rows, size]: Shape, low: f32, high: f32) -> Vec<Vec<f32>> {
        let between = |x: f32| low + (high - low) * 0.5 * (x + 1.0);
        let log_stds = numbers(rows * size, 2).into_iter().map(between).collect();
        vec![numbers(rows * size, 1), log_stds]
    }

    fn of(
        shape: Shape,
        bin: f64,
        f: impl Fn(Tensor<2>, Tensor<2>, Tensor<2>, f64) -> Tensor<1>,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<1> {
        move |inputs, way| {
            let [mean, log_std]: [_; 2] = inputs.try_into().unwrap();
            let x = numbers(shape.iter().product(), 9);
            let x = Tensor::from_floats(x.as_slice(), &mean.device());
            let [x, mean, log_std] = [x, mean, log_std].map(|flat| arranged(flat, shape, way));
            f(x, mean, log_std, bin)
        }
    }

    fn fused(x: Tensor<2>, mean: Tensor<2>, log_std: Tensor<2>, bin: f64) -> Tensor<1> {
        crate::flex::bins(x, mean, log_std, bin as f32)
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        for shape in [
            [1, 1],
            [7, 1],
            [1, 17],
            [3, 16],
            [5, 37],
            [31, 101],
            [130, 200],
        ] {
            // Narrow bins, a mixture, and wide bins. For wide ones the composition's gradients lose digits.
            for (bin, low, high, tolerance) in [
                (0.001_819_074_2, -3.0, 2.0, 2e-5),
                (0.01, -2.5, -0.5, 5e-3),
                (0.3, -0.5, 1.0, 5e-3),
            ] {
                let name = format!("{shape:?}, bin {bin}");
                let (kernel, plain) = (of(shape, bin, fused), of(shape, bin, plain));
                assert_same(&inputs(shape, low, high), tolerance, &name, kernel, plain);
            }
        }
    }

    #[test]
    fn the_kernel_agrees_with_the_definition() {
        // Also at the bounds of a decoder: bins of a quarter of a standard deviation, numbers 300 of them away.
        for shape in [[1, 1], [7, 1], [1, 17], [3, 16], [5, 37]] {
            for (bin, low, high) in [
                (0.001_819_074_2, -3.0, 2.0),
                (0.001_819_074_2, -5.0, -4.0),
                (0.01, -2.5, -0.5),
                (0.3, -0.5, 1.0),
                (1.0, -1.0, 0.0),
            ] {
                let name = format!("{shape:?}, bin {bin}, from {low}");
                let inputs = inputs(shape, low, high);
                let kernel = of(shape, bin, fused);
                let found = gradients(&inputs, &[], Way::Straight, kernel);
                let numbers = numbers(shape.iter().product(), 9);
                let expected = differences(&inputs, |all| {
                    let terms = all[0].iter().zip(&all[1]).zip(&numbers);
                    let terms = terms.map(|((mean, log_std), x)| {
                        super::tests::definition(f64::from(*x), *mean, *log_std, bin)
                    });
                    let terms: Vec<f64> = terms.collect();
                    terms.chunks(shape[1]).map(|row| row.iter().sum()).collect()
                });
                assert_close(&found, &expected, 2e-4, &name);
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for (shape, bin) in [([1, 1], 0.002), ([3, 16], 0.002), ([2, 37], 0.3)] {
            let name = format!("{shape:?}");
            let (kernel, plain) = (of(shape, bin, fused), of(shape, bin, plain));
            let inputs = inputs(shape, -1.0, 1.0);
            assert_spreads(&inputs, &[f32::NAN], &name, kernel, plain);
        }
    }
}
