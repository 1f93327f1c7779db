//! The inference network of amortized variational filtering (Marino et al. 2018, avf): it learns to improve
//! a belief from the belief and its gradient.

use crate::{
    ModelError,
    inference::{Belief, Improver, LOG_VARIANCE},
    mlp::apply,
};
use burn::{module::Module, nn::Linear, tensor::Tensor};
use mnemora_kernels::{
    highway::{Units, highway_at, highway_packed},
    linear::Activation::Identity,
};
use mnemora_memory::{Count, Initializer};

/// Keeps the normalisation of constant vectors finite.
const SPREAD_FLOOR: f64 = 1e-7;

/// Sizes of an [`IterativeNet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterativeConfig {
    /// Size of `z`.
    pub latent: usize,
    /// Units of both layers; 1,024 in the paper.
    pub hidden: usize,
    /// Pixels of the observation if the network also sees it, otherwise 0.
    pub observation: usize,
    /// Whether new means are normalised; needs at least two latents.
    pub normalise_mean: bool,
}

/// `f_phi`: two highway layers of ELU units on the normalised belief and its gradient, and a gated
/// update of mean and log-variance.
///
/// `h1 = g1 A e + (1 - g1) elu(W1 e)`, `h2 = g2 h1 + (1 - g2) elu(W2 h1)`,
/// `m' = u m + (1 - u) M h2`, where the gates `g1`, `g2` and `u` are the `sigmoid` of a linear map of their layer's
/// input; likewise for `l'`, with separate heads (avf, section 4.1; output gates from Marino et al. 2018, iterative
/// amortized inference). The input `e` is the gradients of `m` and `l`, then `m` and `l`, each normalised over the
/// latents (with one latent, each is replaced by its `asinh`), then `x` as it is if the network sees it.
#[derive(Module, Debug)]
pub struct IterativeNet {
    /// `A`, `W1` and the gate `g1`, side by side.
    pub first: Linear,
    /// `W2` and the gate `g2`, side by side.
    pub second: Linear,
    /// `M`, its gate, then both for the log-variance, side by side.
    pub heads: Linear,
    latent: usize,
    observes: bool,
    normalise_mean: bool,
}

impl IterativeConfig {
    /// Builds the network; refuses sizes of zero, and to normalise means of one latent.
    pub fn init(&self, init: &mut Initializer) -> Result<IterativeNet, ModelError> {
        ModelError::require_positive(&[("latent", self.latent), ("hidden", self.hidden)])?;
        if self.normalise_mean && self.latent == 1 {
            return Err(ModelError::NormalisedNumber);
        }
        let (latent, hidden) = (self.latent, self.hidden);
        let inputs = 4 * latent + self.observation;
        Ok(IterativeNet {
            first: init.xavier(inputs, hidden, 3),
            second: init.xavier(hidden, hidden, 2),
            heads: init.xavier(hidden, latent, 4),
            latent,
            observes: self.observation > 0,
            normalise_mean: self.normalise_mean,
        })
    }
}

impl IterativeNet {
    /// Numbers kept per belief while the network learns.
    pub fn kept(&self) -> Count {
        let [inputs, first] = self.first.weight.dims();
        let [hidden, second] = self.second.weight.dims();
        let heads = self.heads.weight.shape()[1];
        Count::from(2 * inputs + first + 2 * hidden + second) + 3 * heads + 20 * self.latent
    }

    /// A better belief from a belief and its gradient; `x`, `[batch, pixels]`, is read only if the network
    /// was built with observations.
    pub fn forward(&self, belief: &Belief, gradient: &Belief, x: &Tensor<2>) -> Belief {
        let parts = [
            &gradient.mean,
            &gradient.log_variance,
            &belief.mean,
            &belief.log_variance,
        ];
        let mut e: Vec<Tensor<2>> = parts.map(|part| scaled(part.clone())).into();
        if self.observes {
            e.push(x.clone());
        }
        let h = highway_packed(apply(&self.first, Tensor::cat(e, 1), Identity));
        let second = apply(&self.second, h.clone(), Identity);
        let h = highway_at(second, h, 0, Units::Elu);
        let heads = apply(&self.heads, h, Identity);
        let head = |first: usize, before: &Tensor<2>| {
            highway_at(heads.clone(), before.clone(), first, Units::Linear)
        };
        let mean = head(0, &belief.mean);
        let log_variance = head(2 * self.latent, &belief.log_variance);
        Belief {
            mean: if self.normalise_mean {
                normalised(mean)
            } else {
                mean
            },
            log_variance: log_variance.clamp(LOG_VARIANCE[0], LOG_VARIANCE[1]),
        }
    }
}

/// Each row as the network reads it: normalised, or `asinh` of it if the row is a single number, which
/// normalisation would turn into 0. `asinh` keeps small numbers and takes the logarithm of large ones.
fn scaled(u: Tensor<2>) -> Tensor<2> {
    match u.dims()[1] {
        1 => u.asinh(),
        _ => normalised(u),
    }
}

/// Each row minus its mean, divided by its sample standard deviation (with the count minus one).
fn normalised(u: Tensor<2>) -> Tensor<2> {
    let count = u.dims()[1];
    let centred = u.clone() - u.mean_dim(1);
    let variance = centred.clone().square().sum_dim(1) / (count - 1) as f64;
    // The square root has no finite gradient at zero.
    centred / ((variance + SPREAD_FLOOR * SPREAD_FLOOR).sqrt() + SPREAD_FLOOR)
}

/// An [`IterativeNet`] used as an improver, without learning.
#[derive(Clone, Debug)]
pub struct Amortized<'a> {
    /// The network; on the model's autodiff device, its parameters not tracked.
    pub net: &'a IterativeNet,
    /// Number of rounds at each step.
    pub iterations: usize,
}

impl Improver for Amortized<'_> {
    fn rounds(&self) -> usize {
        self.iterations
    }

    fn improve(&mut self, belief: &Belief, gradient: &Belief, x: &Tensor<2>) -> Belief {
        self.net.forward(belief, gradient, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn net(latent: usize, normalise_mean: bool) -> Result<IterativeNet, ModelError> {
        let config = IterativeConfig {
            latent,
            hidden: 8,
            observation: 0,
            normalise_mean,
        };
        let stream = ChaCha8Rng::seed_from_u64(1);
        config.init(&mut Initializer::new(stream, Device::default()))
    }

    /// The layer norm of a single number is always 0.
    #[test]
    fn a_single_latent_is_seen() {
        let device = Device::default();
        let net = net(1, false).unwrap();
        let one = |number: f32| Tensor::<2>::from_floats([[number]], &device);
        let pair = |[mean, log_variance]: [f32; 2]| Belief {
            mean: one(mean),
            log_variance: one(log_variance),
        };
        let numbers = |belief: [f32; 2], gradient: [f32; 2]| {
            let found = net.forward(&pair(belief), &pair(gradient), &one(0.0));
            [found.mean, found.log_variance].map(|part| part.into_scalar::<f32>())
        };
        let all = [[0.5, -1.0], [2.0, -3.0]];
        for part in 0..4 {
            // A new mean contains the old one, whatever the network sees.
            let looked_at = usize::from(part == 0);
            // Large gradients are distinguished, too.
            let mut found = [0.0, 0.5, 1e3, 1e5].map(|step| {
                let mut moved = all;
                moved[part / 2][part % 2] += step;
                numbers(moved[0], moved[1])[looked_at]
            });
            assert!(found.iter().all(|number| number.is_finite()), "{found:?}");
            found.sort_by(f32::total_cmp);
            assert!(found.is_sorted_by(|a, b| a < b), "part {part}: {found:?}");
        }
    }

    #[test]
    fn means_of_a_single_latent_are_not_normalised() {
        assert_eq!(net(1, true).unwrap_err(), ModelError::NormalisedNumber);
        assert!(net(2, true).is_ok());
    }
}
