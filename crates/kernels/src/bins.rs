//! Numbers that were measured in bins, under Gaussians.

use crate::gaussian::HALF_LOG_TWO_PI;
use burn::tensor::Tensor;

/// `log P(x - bin / 2 < X < x + bin / 2)` for `X ~ N(mean, exp(log_std)^2)`, summed over the last axis, in
/// nats: what a number that was measured in bins of a width tells.
///
/// Where the bin is narrow beside the standard deviation, the density times the width with the next
/// term of its expansion; elsewhere the difference of the tails, in logarithms.
///
/// # Shapes
/// `x`, `mean`, `log_std`: `[rows, size]`; returns `[rows]`.
pub fn log_probability(x: Tensor<2>, mean: Tensor<2>, log_std: Tensor<2>, bin: f64) -> Tensor<1> {
    /// Width in standard deviations up to which the expansion is good to 1e-7.
    const NARROW: f64 = 0.05;
    let inverse = log_std.clone().neg().exp();
    let z = (x - mean).abs() * inverse.clone();
    let width = inverse * bin;
    let narrow = width.clone().lower_elem(NARROW);

    let squares = z.clone().square();
    let bend = (squares.clone() - 1.0) * width.clone().square() / 24.0;
    // Where it is not used, far out, the term may be anything.
    let bend = bend.clamp(-0.5, 0.5).log1p();
    let density = squares * -0.5 - log_std + bend + (bin.ln() - HALF_LOG_TWO_PI);

    // The bin lies at `z` of the upper half; its lower edge may reach into the other.
    let half = width.mask_fill(narrow.clone(), NARROW) * 0.5;
    let (low, high) = (z.clone() - half.clone(), z + half);
    let inside = low.clone().lower_elem(0.0);
    let high_tail = log_upper_tail(high);
    let low_tail = log_upper_tail(low.clone().clamp_min(0.0));
    // Far out rounding may leave nothing between the edges.
    let between = (high_tail.clone() - low_tail.clone()).clamp_max(-1e-6);
    let beyond = low_tail + between.exp().neg().log1p();
    let across = (high_tail.exp() + log_upper_tail(low.neg().clamp_min(0.0)).exp())
        .neg()
        .log1p();
    let tails = beyond.mask_where(inside, across);

    let terms = tails.mask_where(narrow, density);
    terms.sum_dim(1).squeeze_dim(1)
}

/// `log P(X > u)` of a standard normal number for `u >= 0`, to a relative 1e-7 of the probability: the
/// rational Chebyshev fit of the complementary error function (Press et al., Numerical Recipes, 6.2).
fn log_upper_tail(u: Tensor<2>) -> Tensor<2> {
    const FIT: [f64; 10] = [
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

    /// Logarithm of the upper tail of a standard normal number by a continued fraction, or near zero by a
    /// series.
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

    fn definition(x: f64, mean: f64, log_std: f64, bin: f64) -> f64 {
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

    /// Numbers of the supplement to the paper: bins at the mean and three deviations off.
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
