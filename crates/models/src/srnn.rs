//! The stochastic recurrent network (Fraccaro et al. 2016), as variational filtering uses it (Marino
//! et al. 2018): a deterministic layer that sees observations only, and a stochastic one above it.
//!
//! ```text
//! d_t = LSTM(d_{t-1}, x_{t-1})
//! z_t ~ N(prior([d_t; z_{t-1}]))
//! x_t ~ decoder([d_t; z_t])
//! q(z_t) = N(posterior([x_t; d_t]))
//! ```

use crate::{
    DiagonalGaussian, FilteringModel, Likelihood, LikelihoodConfig, ModelError,
    filtering::frames_of_steps,
    mlp::{Activation, Head},
};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use mnemora_memory::{Attention, Bundle, Initializer, Lstm, LstmState, TensorMapper};

/// Sizes and choices of an [`Srnn`].
#[derive(Clone, Debug, PartialEq)]
pub struct SrnnConfig {
    /// Numbers of an observation.
    pub observation: usize,
    /// Size of `z`.
    pub latent: usize,
    /// Size of `d`.
    pub hidden: usize,
    /// Units of each hidden layer of prior, posterior and decoder.
    pub units: usize,
    /// Hidden layers of prior and posterior.
    pub layers: usize,
    /// Hidden layers of the decoder.
    pub decoder_layers: usize,
    /// Likelihood of observations.
    pub likelihood: LikelihoodConfig,
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Srnn {
    /// The deterministic layer.
    pub lstm: Lstm,
    /// Onto mean and log standard deviation, from `[d_t; z_{t-1}]`.
    pub prior: Head,
    /// The same from `[x_t; d_t]`.
    pub posterior: Head,
    /// From `[d_t; z_t]` onto the likelihood's parameters.
    pub decoder: Head,
    /// `z_0`
    pub first_latent: Param<Tensor<1>>,
    latent: usize,
    #[module(skip)]
    likelihood: LikelihoodConfig,
}

/// What an [`Srnn`] carries from step to step, each `[batch, ..]`.
#[derive(Clone, Debug)]
pub struct SrnnState {
    /// `d_{t-1}`
    pub lstm: LstmState,
    /// `z_{t-1}`
    pub latent: Tensor<2>,
    /// `x_{t-1}`, zeros before the first step.
    pub observation: Tensor<2>,
}

/// What conditions a step.
#[derive(Clone, Debug)]
pub struct SrnnContext {
    lstm: LstmState,
    latent: Tensor<2>,
}

impl Bundle for SrnnState {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            lstm: self.lstm.map_tensors(mapper),
            latent: self.latent.map_tensors(mapper),
            observation: self.observation.map_tensors(mapper),
        }
    }
}

impl SrnnConfig {
    /// Builds the model; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<Srnn, ModelError> {
        ModelError::require_positive(&[
            ("observation", self.observation),
            ("latent", self.latent),
            ("hidden", self.hidden),
            ("units", self.units),
        ])?;
        let activation = Activation::ClippedLeakyRelu;
        let (latent, hidden, units) = (self.latent, self.hidden, self.units);
        let mut head =
            |inputs, outputs, layers| Head::new([inputs, outputs], layers, units, activation, init);
        let prior = head(hidden + latent, 2 * latent, self.layers);
        let posterior = head(self.observation + hidden, 2 * latent, self.layers);
        let outputs = self.likelihood.parameters() * self.observation;
        let decoder = head(hidden + latent, outputs, self.decoder_layers);
        Ok(Srnn {
            lstm: Lstm::new(self.observation, hidden, init),
            prior,
            posterior,
            decoder,
            first_latent: init.parameter(vec![0.0; latent], [latent]),
            latent,
            likelihood: self.likelihood,
        })
    }
}

impl Srnn {
    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.first_latent.device()
    }
}

impl FilteringModel for Srnn {
    type State = SrnnState;
    /// `x_t`
    type Features = Tensor<2>;
    type Context = SrnnContext;
    type Emission = Tensor<2>;

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn initial_state(&self, batch: usize) -> SrnnState {
        let device = self.device();
        let first = self.first_latent.val().unsqueeze_dim::<2>(0);
        SrnnState {
            lstm: self.lstm.initial_state(batch, &device),
            latent: first.expand([batch, self.latent]),
            observation: Tensor::zeros([batch, self.lstm.input_size()], &device),
        }
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<Tensor<2>> {
        frames_of_steps(observations)
    }

    fn predict(&self, _: Option<Tensor<2>>, state: SrnnState) -> SrnnContext {
        SrnnContext {
            lstm: self.lstm.step(state.observation, state.lstm),
            latent: state.latent,
        }
    }

    fn prior_input(&self, context: &SrnnContext) -> Tensor<2> {
        Tensor::cat(vec![context.lstm.hidden.clone(), context.latent.clone()], 1)
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        DiagonalGaussian::from_parameters(self.prior.forward(input))
    }

    fn posterior(&self, features: &Tensor<2>, context: &mut SrnnContext) -> DiagonalGaussian {
        let input = Tensor::cat(vec![features.clone(), context.lstm.hidden.clone()], 1);
        DiagonalGaussian::from_parameters(self.posterior.forward(input))
    }

    fn emit(&self, z: Tensor<2>, context: &SrnnContext) -> Tensor<2> {
        Tensor::cat(vec![context.lstm.hidden.clone(), z], 1)
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        Likelihood::from_output(self.likelihood, self.decoder.forward(emissions))
    }

    fn update(
        &self,
        features: &Tensor<2>,
        z: Tensor<2>,
        _: &Tensor<2>,
        context: SrnnContext,
    ) -> SrnnState {
        SrnnState {
            lstm: context.lstm,
            latent: z,
            observation: features.clone(),
        }
    }

    fn attention<'a>(&self, _: &'a SrnnContext) -> &'a [Attention] {
        &[]
    }
}
