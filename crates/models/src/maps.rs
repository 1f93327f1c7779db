//! Prior and posterior maps to diagonal Gaussians.

use crate::distributions::DiagonalGaussian;
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Tensor, activation},
};
use mnemora_memory::Initializer;

/// The prior map `f_z` of gtmm, equation 7: linear, or with one hidden layer of ReLU units.
#[derive(Module, Debug)]
pub struct PriorMap {
    /// Hidden layer, if any.
    pub hidden: Option<Linear>,
    /// To mean and log standard deviation.
    pub output: Linear,
}

impl PriorMap {
    /// A map from a context to a Gaussian over latents, with `hidden` units, or linear if it is 0.
    pub fn new(context: usize, hidden: usize, latent: usize, init: &mut Initializer) -> Self {
        let layer = (hidden > 0).then(|| init.linear(context, hidden));
        let inputs = if hidden > 0 { hidden } else { context };
        Self {
            hidden: layer,
            output: init.linear(inputs, 2 * latent),
        }
    }

    /// From `psi` `[rows, context]` to a Gaussian for each row.
    pub fn forward(&self, psi: Tensor<2>) -> DiagonalGaussian {
        let input = match &self.hidden {
            None => psi,
            Some(hidden) => activation::relu(hidden.forward(psi)),
        };
        DiagonalGaussian::from_parameters(self.output.forward(input))
    }
}

/// The posterior map `f_q` of gtmm, equation 8, after the visual stem.
///
/// The features' part of its first layer does not depend on the past, so it is computed for all
/// steps before the time loop ([`project`](Self::project)); the context's part is added inside the loop
/// ([`join`](Self::join)).
#[derive(Module, Debug)]
pub struct PosteriorMap {
    /// The features' part of the hidden layer; `None` if the map is linear: then the features themselves are the
    /// Gaussian's parameters, to which the context's part is added.
    pub features: Option<Linear>,
    /// The context's part of the first layer, without bias.
    pub context: Linear,
    /// From the hidden layer, if any, to mean and log standard deviation.
    pub output: Option<Linear>,
}

impl PosteriorMap {
    /// A map from features and context to a Gaussian, with `hidden` units, or linear if it is 0; a linear map needs
    /// `2 * latent` features.
    pub fn new(
        features: usize,
        context: usize,
        hidden: usize,
        latent: usize,
        init: &mut Initializer,
    ) -> Self {
        match hidden {
            0 => Self {
                features: None,
                context: init.linear_without_bias(context, 2 * latent),
                output: None,
            },
            hidden => Self {
                features: Some(init.linear(features, hidden)),
                context: init.linear_without_bias(context, hidden),
                output: Some(init.linear(hidden, 2 * latent)),
            },
        }
    }

    /// What the features `[rows, features]` contribute to the first layer.
    pub fn project(&self, features: Tensor<2>) -> Tensor<2> {
        match &self.features {
            None => features,
            Some(layer) => layer.forward(features),
        }
    }

    /// The posterior, from projected features `[rows, width]` and `psi` `[rows, context]`.
    pub fn join(&self, projected: Tensor<2>, psi: Tensor<2>) -> DiagonalGaussian {
        let first = projected + self.context.forward(psi);
        DiagonalGaussian::from_parameters(match &self.output {
            None => first,
            Some(output) => output.forward(activation::relu(first)),
        })
    }
}
