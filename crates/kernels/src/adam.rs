//! The arithmetic of Adam (Kingma and Ba 2014, Algorithm 1).

use burn::tensor::Tensor;

/// Decay of the first moment.
pub const BETA_1: f64 = 0.9;
/// Decay of the second moment.
pub const BETA_2: f64 = 0.999;
/// The epsilon of the paper.
pub const EPSILON: f64 = 1e-8;

/// Scalars of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Factor of the gradient.
    pub scale: f64,
    /// Learning rate over the bias correction of the first moment.
    pub rate: f64,
    /// Bias correction of the square root of the second moment.
    pub correction: f64,
}

/// Updates a parameter and its moments by a gradient; all of one length, not on an autodiff
/// device. Returns value, first and second moment.
///
/// `m' = b1 m + (1 - b1) s g`, `v' = b2 v + (1 - b2) (s g)^2`,
/// `value' = value - rate m' / (correction sqrt(v') + eps)`
pub fn step(
    value: Tensor<1>,
    gradient: Tensor<1>,
    first: Tensor<1>,
    second: Tensor<1>,
    rates: Rates,
) -> [Tensor<1>; 3] {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&value.device()) {
        let scalars = [rates.scale, rates.rate, rates.correction].map(|s| s as f32);
        return crate::flex::adam(value, gradient, first, second, scalars);
    }
    plain(value, gradient, first, second, rates)
}

fn plain(
    value: Tensor<1>,
    gradient: Tensor<1>,
    first: Tensor<1>,
    second: Tensor<1>,
    rates: Rates,
) -> [Tensor<1>; 3] {
    let gradient = gradient.mul_scalar(rates.scale);
    let first = first.mul_scalar(BETA_1) + gradient.clone().mul_scalar(1.0 - BETA_1);
    let second = second.mul_scalar(BETA_2) + gradient.powi_scalar(2).mul_scalar(1.0 - BETA_2);
    let denominator = second
        .clone()
        .sqrt()
        .mul_scalar(rates.correction)
        .add_scalar(EPSILON);
    let value = value - first.clone().mul_scalar(rates.rate) / denominator;
    [value, first, second]
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn one_pass_is_the_plain_update() {
        let device = Device::default();
        let tensor = |seed: f32| {
            let values: Vec<f32> = (0..37).map(|i| ((i as f32 + seed) * 1.7).sin()).collect();
            Tensor::<1>::from_floats(values.as_slice(), &device)
        };
        let arguments = [tensor(0.0), tensor(1.0), tensor(2.0), tensor(3.0).abs()];
        let rates = Rates {
            scale: 0.3,
            rate: 1e-2,
            correction: 1.7,
        };
        let [value, gradient, first, second] = arguments;
        let expected = plain(
            value.clone(),
            gradient.clone(),
            first.clone(),
            second.clone(),
            rates,
        );
        let found = step(value, gradient, first, second, rates);
        for (expected, found) in expected.into_iter().zip(found) {
            let error: f32 = (expected - found).abs().max().into_scalar();
            assert!(error < 1e-6, "{error}");
        }
    }
}
