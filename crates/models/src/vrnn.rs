//! The variational recurrent network (Chung et al. 2015), with feature networks for observations and
//! latents. The baseline of the same name in gtmm is
//! [`LstmMemory`](mnemora_memory::LstmMemory) in a [`Gtmm`](crate::Gtmm).
//!
//! ```text
//! z_t ~ N(prior(h_{t-1}))
//! x_t ~ decoder([Z(z_t); h_{t-1}])
//! q(z_t) = N(posterior([X(x_t); h_{t-1}]))
//! h_t = LSTM(h_{t-1}, [X(x_t); Z(z_t)])
//! ```

use crate::{
    DiagonalGaussian, FilteringModel, Footprint, Likelihood, LikelihoodConfig, ModelError,
    Recorded,
    mlp::{Activation, Head, Mlp},
};
use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use mnemora_kernels::split::split_rows;
use mnemora_memory::{Attention, Count, Initializer, Lstm, LstmState, LstmWeights, RecurrentCore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes and choices of a [`Vrnn`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VrnnConfig {
    /// Numbers of an observation.
    #[serde(skip)]
    pub observation: usize,
    /// Size of `z`.
    #[serde(skip)]
    pub latent: usize,
    /// Size of `h`.
    pub hidden: usize,
    /// Hidden layers of each network.
    pub layers: usize,
    /// Units of the layers of `X` and of the decoder.
    pub observation_units: usize,
    /// Units of the layers of `Z`, prior and posterior.
    pub latent_units: usize,
    /// Likelihood of observations.
    #[serde(skip)]
    pub likelihood: LikelihoodConfig,
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Vrnn {
    /// `X`
    pub observations: Mlp,
    /// `Z`
    pub latents: Mlp,
    /// From `h_{t-1}` to mean and log standard deviation.
    pub prior: Head,
    /// From `[X(x_t); h_{t-1}]` to mean and log standard deviation.
    pub posterior: Head,
    /// From `[Z(z_t); h_{t-1}]` to the likelihood's parameters.
    pub decoder: Head,
    /// The recurrence.
    pub lstm: Lstm,
    /// `h_0` and the LSTM's first cell, concatenated.
    pub first_state: Param<Tensor<1>>,
    latent: usize,
    #[module(skip)]
    likelihood: LikelihoodConfig,
}

impl Default for VrnnConfig {
    fn default() -> Self {
        Self {
            observation: 0,
            latent: 0,
            hidden: 256,
            layers: 2,
            observation_units: 256,
            latent_units: 256,
            likelihood: LikelihoodConfig::Bernoulli,
        }
    }
}

impl VrnnConfig {
    /// This configuration with the sizes and the likelihood of the data filled in.
    pub fn fit(&self, data: &Recorded) -> Self {
        Self {
            observation: data.frame.size(),
            latent: data.latent,
            likelihood: data.likelihood.clone(),
            ..self.clone()
        }
    }

    /// Builds the model; refuses sizes of zero and an invalid likelihood.
    pub fn init(&self, init: &mut Initializer) -> Result<Vrnn, ModelError> {
        ModelError::require_positive(&[
            ("observation", self.observation),
            ("latent", self.latent),
            ("hidden", self.hidden),
            ("layers", self.layers),
            ("observation_units", self.observation_units),
            ("latent_units", self.latent_units),
        ])?;
        self.likelihood.check()?;
        let (seen, own) = (self.observation_units, self.latent_units);
        let (latent, hidden, layers) = (self.latent, self.hidden, self.layers);
        let relu = Activation::Relu;
        let outputs = self.likelihood.outputs(self.observation);
        Ok(Vrnn {
            observations: Mlp::new(self.observation, layers, seen, relu, init),
            latents: Mlp::new(latent, layers, own, relu, init),
            prior: Head::new([hidden, 2 * latent], layers, own, relu, init),
            posterior: Head::new([seen + hidden, 2 * latent], layers, own, relu, init),
            decoder: Head::new([own + hidden, outputs], layers, seen, relu, init),
            lstm: Lstm::new(seen + own, hidden, init),
            first_state: init.constant([2 * hidden], 0.0),
            latent,
            likelihood: self.likelihood.clone(),
        })
    }
}

impl Vrnn {
    /// Memory that learning needs, for observations of `numbers` numbers.
    pub fn footprint(&self, numbers: usize) -> Footprint {
        let hidden = self.lstm.hidden_size();
        let seen = self.observations.kept();
        let emission = self.latents.kept() + hidden;
        let decoder = emission + self.decoder.kept() + self.likelihood.kept(numbers);
        let prior = self.prior.kept() + hidden + 10 * self.latent;
        let posterior = self.posterior.kept() + self.posterior.inputs() + 4 * self.latent;
        let step = self.lstm.kept() + self.lstm.input_size() + hidden;
        let outside = Count::from(3 * numbers) + seen * 2 + prior + decoder;
        Footprint {
            decoder,
            ..Footprint::of(outside, posterior + self.latents.kept() + emission + step)
        }
    }
}

/// The context of a step.
#[derive(Clone, Debug)]
pub struct VrnnContext {
    /// `h_{t-1}` and the LSTM's cell.
    state: LstmState,
    weights: LstmWeights,
}

impl FilteringModel for Vrnn {
    type State = LstmState;
    type Prepared = LstmWeights;
    /// `X(x_t)`
    type Features = Tensor<2>;
    type Context = VrnnContext;
    type Emission = Tensor<2>;
    type Prior = DiagonalGaussian;

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn initial_state(&self, batch: usize) -> LstmState {
        let hidden = self.lstm.hidden_size();
        let first = self.first_state.val().unsqueeze_dim::<2>(0);
        let part = |index: usize| {
            let part = first.clone().narrow(1, index * hidden, hidden);
            part.expand([batch, hidden])
        };
        LstmState {
            hidden: part(0),
            cell: part(1),
        }
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<Tensor<2>> {
        let [batch, time, numbers] = observations.dims();
        let rows = observations
            .swap_dims(0, 1)
            .reshape([time * batch, numbers]);
        split_rows(self.observations.forward(rows), time)
    }

    fn prepare(&self) -> LstmWeights {
        self.lstm.prepare()
    }

    fn predict(
        &self,
        prepared: &LstmWeights,
        _: Option<Tensor<2>>,
        _: Option<Tensor<2>>,
        state: LstmState,
    ) -> VrnnContext {
        VrnnContext {
            state,
            weights: prepared.clone(),
        }
    }

    fn prior_input(&self, context: &VrnnContext) -> Tensor<2> {
        context.state.hidden.clone()
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        DiagonalGaussian::from_parameters(self.prior.forward(input))
    }

    fn posterior(&self, features: &Tensor<2>, context: &mut VrnnContext) -> DiagonalGaussian {
        let input = Tensor::cat(vec![features.clone(), context.state.hidden.clone()], 1);
        DiagonalGaussian::from_parameters(self.posterior.forward(input))
    }

    /// `[Z(z_t); h_{t-1}]`
    fn emit(&self, z: Tensor<2>, context: &VrnnContext) -> Tensor<2> {
        Tensor::cat(
            vec![self.latents.forward(z), context.state.hidden.clone()],
            1,
        )
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        Likelihood::from_output(&self.likelihood, self.decoder.forward(emissions))
    }

    fn update(
        &self,
        features: &Tensor<2>,
        _: Tensor<2>,
        emission: &Tensor<2>,
        context: VrnnContext,
    ) -> LstmState {
        let hidden = self.lstm.hidden_size();
        let units = emission.dims()[1] - hidden;
        let latent = emission.clone().narrow(1, 0, units);
        let input = Tensor::cat(vec![features.clone(), latent], 1);
        self.lstm.step(&context.weights, input, context.state).1
    }

    fn attention<'a>(&self, _: &'a VrnnContext) -> &'a [Attention] {
        &[]
    }
}
