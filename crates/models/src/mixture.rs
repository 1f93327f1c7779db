//! Mixtures of diagonal Gaussians, for priors with several distinct possibilities.

use crate::distributions::{
    DiagonalGaussian, Distribution, HALF_LOG_TWO_PI, KlFrom, LOG_STD_MAX, LOG_STD_MIN, uniform,
};
use burn::tensor::{Int, Tensor};

/// `sum_k w_k N(mean_k, diag(exp(log_std_k))^2)` for each row.
///
/// A component with log weight minus infinity and any finite mean has no effect.
#[derive(Clone, Debug)]
pub struct MixtureOfGaussians {
    /// `log w_k`, `[rows, components]`; the weights of a row sum to one.
    pub log_weights: Tensor<2>,
    /// `[rows, components, latent]`
    pub means: Tensor<3>,
    /// `[rows, components, latent]`, within [`LOG_STD_MIN`] and [`LOG_STD_MAX`].
    pub log_stds: Tensor<3>,
}

mnemora_memory::bundle!(MixtureOfGaussians {
    log_weights,
    means,
    log_stds
});

impl MixtureOfGaussians {
    /// Component `index` (from 0) of each row.
    ///
    /// # Panics
    /// If there are not that many.
    pub fn component(&self, index: usize) -> DiagonalGaussian {
        let of = |all: &Tensor<3>| all.clone().narrow(1, index, 1).squeeze_dim(1);
        DiagonalGaussian {
            mean: of(&self.means),
            log_std: of(&self.log_stds),
        }
    }

    /// `w_k`, `[rows, components, 1]`.
    fn weights(&self) -> Tensor<3> {
        self.log_weights.clone().exp().unsqueeze_dim(2)
    }

    /// The component that each row takes, one-hot `[rows, components, 1]`, for uniform numbers
    /// `[rows, 1]`: `k` where `w_1 + .. + w_{k-1} <= u < w_1 + .. + w_k`; above the last bound, the last component
    /// that has a weight.
    fn choose(&self, uniform: Tensor<2>) -> Tensor<3> {
        let [rows, components] = self.log_weights.dims();
        let reached = self.log_weights.clone().detach().exp().cumsum(1);
        let total = reached.clone().narrow(1, components - 1, 1);
        let passed = reached
            .clone()
            .lower_equal(uniform.expand([rows, components]))
            .bool_and(reached.lower(total.expand([rows, components])))
            .int()
            .sum_dim(1);
        let index = Tensor::<1, Int>::arange(0..components as i64, &passed.device());
        let index = index.unsqueeze_dim::<2>(0).expand([rows, components]);
        index
            .equal(passed.expand([rows, components]))
            .float()
            .unsqueeze_dim(2)
    }
}

impl Distribution for MixtureOfGaussians {
    /// One number more than `latent`, which selects the component.
    fn noise_size(latent: usize) -> usize {
        latent + 1
    }

    /// The last column of the noise selects the component, the others are for its Gaussian. Gradients flow to the
    /// means and standard deviations of the selected component, but not to the weights.
    fn sample(&self, noise: Tensor<2>) -> Tensor<2> {
        let latent = self.means.dims()[2];
        let chosen = self.choose(uniform(noise.clone().narrow(1, latent, 1)));
        let of = |all: &Tensor<3>| (all.clone() * chosen.clone()).sum_dim(1).squeeze_dim(1);
        let component = DiagonalGaussian {
            mean: of(&self.means),
            log_std: of(&self.log_stds),
        };
        component.sample(noise.narrow(1, 0, latent))
    }

    /// `log sum_k exp(log w_k + log N_k(z))`
    fn log_density(&self, z: Tensor<2>) -> Tensor<1> {
        let latent = z.dims()[1] as f64;
        let distance = z.unsqueeze_dim::<3>(1) - self.means.clone();
        let standard = distance * self.log_stds.clone().neg().exp();
        let terms = standard.square().mul_scalar(-0.5) - self.log_stds.clone();
        let each = terms.sum_dim(2).squeeze_dim::<2>(2) + self.log_weights.clone();
        let largest = each.clone().detach().max_dim(1);
        let sum = (each - largest.clone()).exp().sum_dim(1).log() + largest;
        sum.sub_scalar(HALF_LOG_TWO_PI * latent).squeeze_dim(1)
    }

    fn mean(&self) -> Tensor<2> {
        (self.weights() * self.means.clone())
            .sum_dim(1)
            .squeeze_dim(1)
    }

    /// Its variance is `sum_k w_k (std_k^2 + (mean_k - mean)^2)` in each dimension.
    fn gaussian(&self) -> DiagonalGaussian {
        let mean = self.mean();
        let distance = self.means.clone() - mean.clone().unsqueeze_dim::<3>(1);
        let own = self.log_stds.clone().mul_scalar(2.0).exp();
        let variance = (self.weights() * (own + distance.square())).sum_dim(1);
        let log_std = variance.squeeze_dim::<2>(1).log().mul_scalar(0.5);
        DiagonalGaussian {
            mean,
            log_std: log_std.clamp(LOG_STD_MIN, LOG_STD_MAX),
        }
    }
}

impl KlFrom<DiagonalGaussian> for MixtureOfGaussians {
    const CLOSED_FORM: bool = false;

    /// `-H(q) - log p(z)`, with the exact entropy of `q`; the closed form for a single component.
    fn kl_from(&self, q: &DiagonalGaussian, z: &Tensor<2>) -> Tensor<1> {
        match self.log_weights.dims()[1] {
            1 => self.component(0).kl_from(q, z),
            _ => (q.entropy() + self.log_density(z.clone())).neg(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;
    use burn::tensor::{Device, TensorData};

    fn tensor<const D: usize>(values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
    }

    fn mean(values: &[f32]) -> f64 {
        values.iter().map(|x| f64::from(*x)).sum::<f64>() / values.len() as f64
    }

    const COUNT: usize = 100_000;

    /// Standard normal quantiles at the midpoints of intervals of equal probability, by bisection of the
    /// distribution function.
    fn shares() -> Vec<f32> {
        let device = Device::default();
        let wanted: Vec<f32> = (0..COUNT)
            .map(|place| (place as f32 + 0.5) / COUNT as f32)
            .collect();
        let wanted = tensor(&wanted, [COUNT, 1], &device);
        let mut low = wanted.clone() * 0.0 - 6.0;
        let mut high = wanted.clone() * 0.0 + 6.0;
        for _ in 0..40 {
            let middle = (low.clone() + high.clone()) * 0.5;
            let below = uniform(middle.clone()).lower(wanted.clone());
            low = low.mask_where(below.clone(), middle.clone());
            high = high.mask_where(below.bool_not(), middle);
        }
        values(low)
    }

    /// `0.7 N(0, 0.6^2) + 0.3 N(1.5, 0.4^2)` in each row.
    fn example(rows: usize, device: &Device) -> MixtureOfGaussians {
        let each = |pair: [f32; 2]| pair.repeat(rows);
        MixtureOfGaussians {
            log_weights: tensor(&each([0.7, 0.3].map(f32::ln)), [rows, 2], device),
            means: tensor(&each([0.0, 1.5]), [rows, 2, 1], device),
            log_stds: tensor(&each([0.6, 0.4].map(f32::ln)), [rows, 2, 1], device),
        }
    }

    /// Two rows, three components and two dimensions, compared with the definition.
    #[test]
    fn the_density_is_that_of_its_components() {
        let device = Device::default();
        let weights = [[0.2, 0.5, 0.3], [0.0, 0.9, 0.1]];
        let number = |i: usize| ((i * 7 + 3) as f64).sin();
        let means: Vec<f64> = (0..12).map(number).collect();
        let log_stds: Vec<f64> = (12..24).map(|i| 0.5 * number(i)).collect();
        let z = [[0.3, -0.4], [1.0, 0.2]];
        let single = |all: &[f64]| all.iter().map(|x| *x as f32).collect::<Vec<_>>();
        let logs = weights.iter().flatten().map(|w: &f64| w.ln() as f32);
        let mixture = MixtureOfGaussians {
            log_weights: tensor(&logs.collect::<Vec<_>>(), [2, 3], &device),
            means: tensor(&single(&means), [2, 3, 2], &device),
            log_stds: tensor(&single(&log_stds), [2, 3, 2], &device),
        };
        let found = mixture.log_density(tensor(&single(&z.concat()), [2, 2], &device));
        for (row, found) in values(found).into_iter().enumerate() {
            let density = |k: usize, d: usize| {
                let place = (row * 3 + k) * 2 + d;
                let std = log_stds[place].exp();
                let standard = (z[row][d] - means[place]) / std;
                (-0.5 * standard * standard).exp() / (std * std::f64::consts::TAU.sqrt())
            };
            let sum: f64 = (0..3)
                .map(|k| weights[row][k] * density(k, 0) * density(k, 1))
                .sum();
            assert!(
                (f64::from(found) - sum.ln()).abs() < 1e-5,
                "row {row}: {found}"
            );
        }
    }

    /// Mean and variance of the samples are those of the mixture, and components are chosen according to their
    /// weights.
    #[test]
    fn samples_have_the_shares_and_moments_of_the_mixture() {
        let device = Device::default();
        let mixture = example(COUNT, &device);
        let own = shares();
        // A stride that is coprime to the number of quantiles, so that the two columns are independent.
        let choice = (0..COUNT).map(|place| own[place * 38_197 % COUNT]);
        let noise: Vec<f32> = own
            .iter()
            .copied()
            .zip(choice)
            .flat_map(|(a, b)| [a, b])
            .collect();
        assert_eq!(MixtureOfGaussians::noise_size(1), 2);
        let drawn = values(mixture.sample(tensor(&noise, [COUNT, 2], &device)));
        let expected = 0.3 * 1.5;
        let variance = 0.7 * (0.36 + expected * expected) + 0.3 * (0.16 + 1.05 * 1.05);
        assert!((mean(&drawn) - expected).abs() < 2e-3, "{}", mean(&drawn));
        let squares: Vec<f32> = drawn
            .iter()
            .map(|z| (z - expected as f32).powi(2))
            .collect();
        assert!(
            (mean(&squares) - variance).abs() < 4e-3,
            "{}",
            mean(&squares)
        );

        let matched = mixture.gaussian();
        let [mean, std] = [matched.mean, matched.log_std.exp()].map(|of| f64::from(values(of)[0]));
        assert!((mean - expected).abs() < 1e-6, "{mean}");
        assert!((std * std - variance).abs() < 1e-6, "{std}");
        assert!((f64::from(values(mixture.mean())[0]) - expected).abs() < 1e-6);

        // If the noise of the component is zero, a sample is a mean.
        let chosen = |noise: f32| {
            let noise = tensor(&[0.0, noise], [1, 2], &device);
            values(example(1, &device).sample(noise))[0]
        };
        // The probability of a number below 0.5244 is 0.7.
        assert_eq!([-9.0, 0.52, 0.53, 9.0].map(chosen), [0.0, 0.0, 1.5, 1.5]);
    }

    /// `KL(N(0.3, 0.5^2) || example) = 0.314089`, by quadrature.
    #[test]
    fn the_divergence_at_samples_has_the_right_mean() {
        let device = Device::default();
        let q = DiagonalGaussian {
            mean: Tensor::full([COUNT, 1], 0.3, &device),
            log_std: Tensor::full([COUNT, 1], 0.5_f64.ln(), &device),
        };
        let z = q.sample(tensor(&shares(), [COUNT, 1], &device));
        let found = mean(&values(example(COUNT, &device).kl_from(&q, &z)));
        assert!((found - 0.314_089).abs() < 1e-4, "{found}");
    }

    /// A mixture of one component is its Gaussian.
    #[test]
    fn a_single_component_is_a_gaussian() {
        let device = Device::default();
        let gaussian = DiagonalGaussian {
            mean: tensor(&[0.3, -1.0, 2.0, 0.1], [2, 2], &device),
            log_std: tensor(&[-0.5, 0.2, 0.0, -1.0], [2, 2], &device),
        };
        let mixture = MixtureOfGaussians {
            log_weights: Tensor::zeros([2, 1], &device),
            means: gaussian.mean.clone().unsqueeze_dim(1),
            log_stds: gaussian.log_std.clone().unsqueeze_dim(1),
        };
        let noise = tensor(&[0.4, -0.7, 1.5, 2.0], [2, 2], &device);
        let z = gaussian.sample(noise.clone());
        let with_choice = Tensor::cat(vec![noise, Tensor::ones([2, 1], &device)], 1);
        assert_eq!(values(mixture.sample(with_choice)), values(z.clone()));
        let pairs = [
            (mixture.log_density(z.clone()), gaussian.log_density(z)),
            (
                mixture.gaussian().mean.flatten(0, 1),
                gaussian.mean.flatten(0, 1),
            ),
            (
                mixture.gaussian().log_std.flatten(0, 1),
                gaussian.log_std.flatten(0, 1),
            ),
        ];
        for (found, expected) in pairs {
            for (found, expected) in values(found).into_iter().zip(values(expected)) {
                assert!((found - expected).abs() < 1e-6, "{found} {expected}");
            }
        }
    }

    /// It affects neither values nor gradients.
    #[test]
    fn a_component_of_no_weight_has_no_share() {
        let device = Device::default().autodiff();
        let log_weights = [0.0, f32::NEG_INFINITY];
        let means = tensor(&[1.0, 50.0], [1, 2, 1], &device).require_grad();
        let mixture = MixtureOfGaussians {
            log_weights: tensor(&log_weights, [1, 2], &device),
            means: means.clone(),
            log_stds: Tensor::zeros([1, 2, 1], &device),
        };
        assert_eq!(values(mixture.mean()), [1.0]);
        let log_density = mixture.log_density(tensor(&[2.0], [1, 1], &device));
        let expected = -0.5 - HALF_LOG_TWO_PI;
        assert!((f64::from(values(log_density.clone())[0]) - expected).abs() < 1e-6);
        let gradients = log_density.sum().backward();
        assert_eq!(values(means.grad(&gradients).unwrap()), [1.0, 0.0]);
        let drawn = mixture.sample(tensor(&[0.0, 9.0], [1, 2], &device));
        assert_eq!(values(drawn), [1.0]);
    }
}
