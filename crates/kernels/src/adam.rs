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
    /// Learning rate divided by the bias correction of the first moment.
    pub rate: f64,
    /// Bias correction of the square root of the second moment.
    pub correction: f64,
}

/// The squared norm of a gradient, `[1]`; not on an autodiff device.
pub fn sum_of_squares(x: Tensor<1>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&x.device()) {
        return crate::flex::sum_of_squares(x);
    }
    x.powi_scalar(2).sum()
}

/// Updates a parameter and its moments from a gradient; all have one length and are not on an autodiff device.
/// Returns the value, the first and the second moment.
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
        return crate::flex::adam(value, gradient, first, second, scalars).into();
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

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::check::{Way, arranged, assert_close, numbers, values, wide};
    use burn::tensor::Device;

    const RATES: Rates = Rates {
        scale: 0.3,
        rate: 1e-2,
        correction: 1.7,
    };

    /// Value, gradient and moments. The second moment is not negative.
    fn state(count: usize) -> Vec<Vec<f32>> {
        let mut state: Vec<_> = (0..4).map(|seed| numbers(count, seed)).collect();
        state[3].iter_mut().for_each(|v| *v = v.abs());
        state
    }

    fn kernel(state: &[Vec<f32>], way: Way) -> Vec<Vec<f32>> {
        let device = Device::default();
        let tensors: Vec<Tensor<1>> = state
            .iter()
            .map(|values| {
                let flat = Tensor::from_floats(values.as_slice(), &device);
                arranged(flat, [values.len()], way)
            })
            .collect();
        let [value, gradient, first, second]: [_; 4] = tensors.clone().try_into().unwrap();
        let scalars = [RATES.scale, RATES.rate, RATES.correction].map(|s| s as f32);
        let found: [Tensor<1>; 3] =
            crate::flex::adam(value, gradient, first, second, scalars).into();
        // This test still holds the arguments, so they must not change.
        for (tensor, expected) in tensors.into_iter().zip(state) {
            assert_eq!(format!("{:?}", values(tensor)), format!("{expected:?}"));
        }
        found.map(values).to_vec()
    }

    fn definition(state: &[Vec<f32>]) -> Vec<Vec<f64>> {
        let state = wide(state);
        let of = |which: usize| {
            let update = |i: usize| {
                let gradient = RATES.scale * state[1][i];
                let first = 0.9 * state[2][i] + 0.1 * gradient;
                let second = 0.999 * state[3][i] + 0.001 * gradient * gradient;
                let step = RATES.rate * first / (RATES.correction * second.sqrt() + 1e-8);
                [state[0][i] - step, first, second][which]
            };
            (0..state[0].len()).map(update).collect()
        };
        (0..3).map(of).collect()
    }

    #[test]
    fn one_pass_is_the_update() {
        for count in [1, 2, 7, 16, 17, 37, 64, 1009] {
            for way in [Way::Straight, Way::Turned] {
                let state = state(count);
                let name = format!("{count}, {way:?}");
                assert_close(&kernel(&state, way), &definition(&state), 1e-6, &name);
            }
        }
    }

    #[test]
    fn it_is_the_plain_update_even_of_what_is_no_number() {
        let device = Device::default();
        for bad in [0.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for which in 0..4 {
                let mut state = state(19);
                state[which][3] = bad;
                state[which][18] = bad;
                let tensor = |i: usize| Tensor::from_floats(state[i].as_slice(), &device);
                let expected = plain(tensor(0), tensor(1), tensor(2), tensor(3), RATES);
                let found = kernel(&state, Way::Straight);
                for (found, expected) in found.iter().zip(expected.map(values)) {
                    for (found, expected) in found.iter().zip(expected) {
                        assert!(
                            (found - expected).abs() < 1e-6
                                || *found == expected
                                || found.is_nan() && expected.is_nan(),
                            "{bad} in {which}: {found} {expected}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn squares_are_summed() {
        let device = Device::default();
        for count in [1, 15, 16, 37, 70_001, 200_000] {
            let x = numbers(count, 5);
            let expected: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
            for way in [Way::Straight, Way::Turned] {
                let tensor = Tensor::from_floats(x.as_slice(), &device);
                let found = sum_of_squares(arranged(tensor, [count], way));
                let found = f64::from(values(found)[0]);
                assert!(
                    (found - expected).abs() <= 1e-5 * expected,
                    "{count}: {found} {expected}"
                );
            }
        }
        let mut bad = numbers(100, 5);
        bad[37] = f32::NAN;
        let found = sum_of_squares(Tensor::from_floats(bad.as_slice(), &device));
        assert!(values(found)[0].is_nan());
    }
}
