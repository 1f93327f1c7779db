//! Distributions over latents, mainly diagonal Gaussians, and likelihoods of frames.

use crate::{Columns, ColumnsLikelihood, ModelError};
use burn::tensor::{Tensor, activation};
use mnemora_kernels::{bernoulli, bins, gaussian, split::halves};
use mnemora_memory::{Bundle, Count};
use std::ops::Range;

/// Smallest log standard deviation: a standard deviation of `1e-4`.
pub const LOG_STD_MIN: f64 = -9.210_340_371_976_182;
/// Largest log standard deviation, so that exponentials stay finite.
pub const LOG_STD_MAX: f64 = 5.0;

/// `0.5 * ln(2 pi)`
pub(crate) const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_7;

/// A distribution over latents `z`, one for each row of the batch.
pub trait Distribution: Bundle {
    /// Number of standard normal numbers needed for a sample of `latent` numbers.
    fn noise_size(latent: usize) -> usize {
        latent
    }

    /// One sample per row, `[rows, latent]`, from standard normal `noise`,
    /// `[rows, noise_size(latent)]`.
    fn sample(&self, noise: Tensor<2>) -> Tensor<2>;

    /// `log p(z)` in nats, `[rows]`, for `z` `[rows, latent]`.
    fn log_density(&self, z: Tensor<2>) -> Tensor<1>;

    /// `E[z]`, `[rows, latent]`.
    fn mean(&self) -> Tensor<2>;

    /// The diagonal Gaussian with the same means and variances.
    fn gaussian(&self) -> DiagonalGaussian;
}

/// A distribution `p` for which `KL(q || p)` can be computed or estimated.
pub trait KlFrom<Q> {
    /// Whether the divergence has a closed form, so that `z` is not used.
    const CLOSED_FORM: bool;

    /// `KL(q || self)` in nats, `[rows]`: the closed form if there is one, otherwise an unbiased estimate from one
    /// sample `z ~ q`.
    ///
    /// # Shapes
    /// - `z`: `[rows, latent]`
    fn kl_from(&self, q: &Q, z: &Tensor<2>) -> Tensor<1>;
}

/// `N(mean, diag(exp(log_std))^2)` for each row.
#[derive(Clone, Debug)]
pub struct DiagonalGaussian {
    /// `[rows, latent]`
    pub mean: Tensor<2>,
    /// `[rows, latent]`, within [`LOG_STD_MIN`] and [`LOG_STD_MAX`].
    pub log_std: Tensor<2>,
}

impl DiagonalGaussian {
    /// From the output of a map, `[rows, 2 * latent]`: mean, then log standard deviation (gtmm, B.1).
    pub fn from_parameters(parameters: Tensor<2>) -> Self {
        let (mean, log_std) = halves(parameters, [LOG_STD_MIN, LOG_STD_MAX]);
        Self { mean, log_std }
    }

    /// `KL(self || prior)` of each latent dimension in nats, `[rows, latent]`. Its sum over dimensions is
    /// [`KlFrom::kl_from`].
    pub fn kl_by_dimension(&self, prior: &Self) -> Tensor<2> {
        let log_ratio = self.log_std.clone() - prior.log_std.clone();
        let distance = (self.mean.clone() - prior.mean.clone()) * prior.log_std.clone().neg().exp();
        let squares = log_ratio.clone().mul_scalar(2.0).exp() + distance.square();
        squares.mul_scalar(0.5) - log_ratio - 0.5
    }

    /// `H(q)` in nats, `[rows]`.
    pub fn entropy(&self) -> Tensor<1> {
        let latent = self.log_std.dims()[1] as f64;
        let constant = latent * (0.5 + HALF_LOG_TWO_PI);
        let sum = self.log_std.clone().sum_dim(1);
        sum.squeeze_dim::<1>(1).add_scalar(constant)
    }
}

impl Distribution for DiagonalGaussian {
    /// `z = mean + std * noise`
    fn sample(&self, noise: Tensor<2>) -> Tensor<2> {
        gaussian::sample(self.mean.clone(), self.log_std.clone(), noise)
    }

    fn log_density(&self, z: Tensor<2>) -> Tensor<1> {
        let latent = z.dims()[1] as f64;
        let standard = (z - self.mean.clone()) * self.log_std.clone().neg().exp();
        let terms = standard.square().mul_scalar(-0.5) - self.log_std.clone();
        terms
            .sum_dim(1)
            .sub_scalar(HALF_LOG_TWO_PI * latent)
            .squeeze_dim(1)
    }

    fn mean(&self) -> Tensor<2> {
        self.mean.clone()
    }

    fn gaussian(&self) -> DiagonalGaussian {
        self.clone()
    }
}

impl KlFrom<DiagonalGaussian> for DiagonalGaussian {
    const CLOSED_FORM: bool = true;

    fn kl_from(&self, q: &DiagonalGaussian, _: &Tensor<2>) -> Tensor<1> {
        gaussian::kl_divergence(
            q.mean.clone(),
            q.log_std.clone(),
            self.mean.clone(),
            self.log_std.clone(),
        )
    }
}

mnemora_memory::bundle!(DiagonalGaussian { mean, log_std });

/// The likelihood that a model uses for its frames.
#[derive(Clone, Debug, PartialEq)]
pub enum LikelihoodConfig {
    /// Independent Bernoulli pixels; intensities in `[0, 1]` are soft targets.
    Bernoulli,
    /// Independent Gaussian pixels around the decoder's sigmoid, all with the same standard deviation.
    Gaussian {
        /// Standard deviation on the scale of intensities in `[0, 1]`.
        std: f64,
    },
    /// Independent Gaussians; the decoder also gives their standard deviations.
    Normal {
        /// Width of the bins to which the numbers were rounded: the density is integrated over a bin. With 0
        /// the density itself is used.
        bin: f64,
        /// Whether the decoder's sigmoid is the mean, for intensities in `[0, 1]`.
        squashed: bool,
    },
    /// The columns of a table, each of its own kind.
    Columns(Columns),
}

impl LikelihoodConfig {
    /// Numbers that a decoder gives for an observation of `numbers`.
    pub fn outputs(&self, numbers: usize) -> usize {
        match self {
            Self::Bernoulli | Self::Gaussian { .. } => numbers,
            Self::Normal { .. } => 2 * numbers,
            Self::Columns(columns) => columns.outputs(),
        }
    }

    /// Refuses a standard deviation that is not a positive number, and an invalid width of bins.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        match *self {
            Self::Gaussian { std } if !(std.is_finite() && std > 0.0) => {
                Err(ModelError::NotPositive {
                    key: "model.likelihood_std",
                    value: std,
                })
            }
            Self::Normal { bin, .. } if !(bin.is_finite() && bin >= 0.0) => {
                Err(ModelError::LikelihoodBin { bin })
            }
            _ => Ok(()),
        }
    }
}

impl LikelihoodConfig {
    /// Numbers kept for the likelihood of one observation of `numbers`: the decoder's output with its gradient,
    /// the parts it is split into, and the observation.
    pub(crate) fn kept(&self, numbers: usize) -> Count {
        let each = match self {
            Self::Bernoulli => 3,
            Self::Gaussian { .. } => 6,
            Self::Normal { .. } => 8,
            // Student's and counts have logarithms of the gamma function, of some twenty operations.
            Self::Columns(_) => 60,
        };
        Count::product(&[each, numbers])
    }
}

/// Uniform numbers in `[0, 1]` from standard normal ones, by the normal distribution function.
pub(crate) fn uniform(noise: Tensor<2>) -> Tensor<2> {
    (noise / std::f64::consts::SQRT_2).erf() * 0.5 + 0.5
}

/// Bounds of the log standard deviation of an observed number: the variance is at least `exp(-10)`.
const OBSERVED_LOG_STD: [f64; 2] = [-5.0, 5.0];

/// `p(x_t | ..)` of each row.
// There are only a few values per call, so the size of the largest variant does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Likelihood {
    /// Pixels are Bernoulli.
    Bernoulli {
        /// `[rows, pixels]`
        logits: Tensor<2>,
    },
    /// Pixels are Gaussian.
    Gaussian {
        /// `[rows, pixels]`
        mean: Tensor<2>,
        /// The same for all pixels.
        std: f64,
    },
    /// Numbers are Gaussian, or bins of Gaussians.
    Normal {
        /// `[rows, numbers]`
        mean: Tensor<2>,
        /// `[rows, numbers]`
        log_std: Tensor<2>,
        /// See [`LikelihoodConfig::Normal`].
        bin: f64,
    },
    /// The columns of a table.
    Columns(ColumnsLikelihood),
}

impl Likelihood {
    /// From a decoder's output `[rows, parameters * pixels]`: logits or means of all pixels, then their log
    /// standard deviations.
    pub fn from_output(config: &LikelihoodConfig, output: Tensor<2>) -> Self {
        match *config {
            LikelihoodConfig::Columns(ref columns) => Self::Columns(ColumnsLikelihood {
                columns: columns.clone(),
                output,
            }),
            LikelihoodConfig::Bernoulli => Self::Bernoulli { logits: output },
            LikelihoodConfig::Gaussian { std } => Self::Gaussian {
                mean: activation::sigmoid(output),
                std,
            },
            LikelihoodConfig::Normal { bin, squashed } => {
                let (mean, log_std) = halves(output, OBSERVED_LOG_STD);
                Self::Normal {
                    mean: if squashed {
                        activation::sigmoid(mean)
                    } else {
                        mean
                    },
                    log_std,
                    bin,
                }
            }
        }
    }

    /// `log p(x)` in nats, `[rows]`, for `x` `[rows, pixels]`.
    pub fn log_probability(&self, x: Tensor<2>) -> Tensor<1> {
        match self {
            Self::Columns(columns) => columns.log_probability(x),
            Self::Bernoulli { logits } => bernoulli::log_likelihood(x, logits.clone()),
            Self::Gaussian { mean, std } => gaussian::log_density(x, mean.clone(), *std),
            Self::Normal { mean, log_std, bin } => {
                let (mean, log_std) = (mean.clone(), log_std.clone());
                match *bin > 0.0 {
                    true => bins::log_probability(x, mean, log_std, *bin),
                    false => gaussian::log_probability(x, mean, log_std),
                }
            }
        }
    }

    /// The likelihoods of the rows within `range`.
    pub fn rows(&self, range: Range<usize>) -> Self {
        let pick = |tensor: &Tensor<2>| tensor.clone().rows(range.clone());
        match self {
            Self::Columns(of) => Self::Columns(ColumnsLikelihood {
                columns: of.columns.clone(),
                output: pick(&of.output),
            }),
            Self::Bernoulli { logits } => Self::Bernoulli {
                logits: pick(logits),
            },
            Self::Gaussian { mean, std } => Self::Gaussian {
                mean: pick(mean),
                std: *std,
            },
            Self::Normal { mean, log_std, bin } => Self::Normal {
                mean: pick(mean),
                log_std: pick(log_std),
                bin: *bin,
            },
        }
    }

    /// A sample from standard normal `noise`, `[rows, pixels]`.
    pub fn sample(&self, noise: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Columns(columns) => columns.sample(noise),
            Self::Bernoulli { logits } => uniform(noise)
                .lower(activation::sigmoid(logits.clone()))
                .float(),
            Self::Gaussian { mean, std } => mean.clone() + noise * *std,
            Self::Normal { mean, log_std, .. } => {
                gaussian::sample(mean.clone(), log_std.clone(), noise)
            }
        }
    }

    /// Expected frame, `[rows, pixels]`.
    pub fn mean(&self) -> Tensor<2> {
        match self {
            Self::Columns(columns) => columns.mean(),
            Self::Bernoulli { logits } => activation::sigmoid(logits.clone()),
            Self::Gaussian { mean, .. } | Self::Normal { mean, .. } => mean.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn dimensions_add_up_to_the_divergence() {
        let device = Device::default();
        let gaussian = |numbers: [[f32; 6]; 2]| {
            DiagonalGaussian::from_parameters(Tensor::from_data(numbers, &device))
        };
        let q = gaussian([[0.3, -1.0, 2.0, -0.5, 0.1, 0.7], [0.0; 6]]);
        let p = gaussian([[0.1, 0.4, 1.0, 0.2, -0.3, 0.6], [0.0; 6]]);
        let each = q.kl_by_dimension(&p);
        let sum = each.clone().sum_dim(1).squeeze_dim::<1>(1);
        let whole = p.kl_from(&q, &q.mean);
        let numbers = |tensor: Tensor<1>| tensor.into_data().try_to_vec::<f32>().unwrap();
        for (one, other) in numbers(sum).into_iter().zip(numbers(whole)) {
            assert!((one - other).abs() < 1e-5, "{one} {other}");
        }
        assert!(
            numbers(each.narrow(0, 1, 1).squeeze_dim(0))
                .iter()
                .all(|kl| kl.abs() < 1e-6)
        );
    }
}
