//! The stochastic recurrent network (Fraccaro et al. 2016), as variational filtering uses it (Marino
//! et al. 2018): a deterministic layer that sees observations only, and a stochastic one above it.
//!
//! ```text
//! d_t = LSTM(d_{t-1}, x_{t-1})
//! z_t ~ N(prior([d_t; z_{t-1}]))
//! x_t ~ decoder([d_t; z_t])
//! q(z_t) = N(posterior([x_t; d_t]))
//! ```
//!
//! In its original, smoothing form, the posterior also sees the observations after a step:
//!
//! ```text
//! a_t = LSTM(a_{t+1}, [d_t; x_t])
//! q(z_t) = N(posterior([a_t; z_{t-1}])), its mean added to that of the prior
//! ```

use crate::{
    DiagonalGaussian, Distribution, FilteringModel, Footprint, Likelihood, LikelihoodConfig,
    ModelError, Recorded,
    filtering::{Inputs, Steps, frames_of_steps},
    mlp::{Activation, Head},
};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use mnemora_memory::{Attention, Count, Initializer, Lstm, LstmState, LstmWeights, RecurrentCore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bound of the last layer's initial weights in prior and posterior of the smoothing form; the original's value
/// for piano rolls.
const SMALL: f64 = 0.05;

/// Sizes and choices of an [`Srnn`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SrnnConfig {
    /// Numbers of an observation.
    #[serde(skip)]
    pub observation: usize,
    /// Size of `z`.
    #[serde(skip)]
    pub latent: usize,
    /// Size of `d`.
    pub hidden: usize,
    /// Units of each hidden layer of prior, posterior and decoder.
    pub units: usize,
    /// Hidden layers of prior and posterior.
    pub layers: usize,
    /// Hidden layers of the decoder.
    pub decoder_layers: usize,
    /// Whether the posterior sees the observations after a step.
    pub smoothing: bool,
    /// Likelihood of observations.
    #[serde(skip)]
    pub likelihood: LikelihoodConfig,
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Srnn {
    /// The deterministic layer.
    pub lstm: Lstm,
    /// From `[d_t; z_{t-1}]` to mean and log standard deviation.
    pub prior: Head,
    /// Runs from the end to the beginning, on `[d_t; x_t]`; only in the smoothing form.
    pub backward: Option<Lstm>,
    /// From `[x_t; d_t]`, or `[a_t; z_{t-1}]` in the smoothing form, to mean and log standard deviation.
    pub posterior: Head,
    /// From `[d_t; z_t]` to the parameters of the likelihood.
    pub decoder: Head,
    /// `z_0`
    pub first_latent: Param<Tensor<1>>,
    latent: usize,
    #[module(skip)]
    likelihood: LikelihoodConfig,
}

/// The state that an [`Srnn`] carries from step to step, each `[batch, ..]`.
#[derive(Clone, Debug)]
pub struct SrnnState {
    /// `d_{t-1}`
    pub lstm: LstmState,
    /// `z_{t-1}`
    pub latent: Tensor<2>,
    /// `x_{t-1}`, zeros before the first step.
    pub observation: Tensor<2>,
}

/// The features of a step, computed from observations.
#[derive(Clone, Debug)]
pub struct SrnnFeatures {
    /// `x_t`
    pub observation: Tensor<2>,
    /// `a_t`, `[batch, hidden]`.
    pub ahead: Option<Tensor<2>>,
}

/// The context of a step.
#[derive(Clone, Debug)]
pub struct SrnnContext {
    lstm: LstmState,
    latent: Tensor<2>,
}

mnemora_memory::bundle!(SrnnState {
    lstm,
    latent,
    observation
});

mnemora_memory::bundle!(SrnnFeatures { observation, ahead });

impl Default for SrnnConfig {
    fn default() -> Self {
        Self {
            observation: 0,
            latent: 0,
            hidden: 300,
            units: 500,
            layers: 1,
            decoder_layers: 2,
            smoothing: false,
            likelihood: LikelihoodConfig::Bernoulli,
        }
    }
}

impl SrnnConfig {
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
    pub fn init(&self, init: &mut Initializer) -> Result<Srnn, ModelError> {
        ModelError::require_positive(&[
            ("observation", self.observation),
            ("latent", self.latent),
            ("hidden", self.hidden),
            ("units", self.units),
        ])?;
        self.likelihood.check()?;
        let activation = Activation::ClippedLeakyRelu;
        let (latent, hidden, units) = (self.latent, self.hidden, self.units);
        let mut head =
            |inputs, outputs, layers| Head::new([inputs, outputs], layers, units, activation, init);
        let mut prior = head(hidden + latent, 2 * latent, self.layers);
        let seen = match self.smoothing {
            true => hidden + latent,
            false => self.observation + hidden,
        };
        let mut posterior = head(seen, 2 * latent, self.layers);
        let outputs = self.likelihood.outputs(self.observation);
        let decoder = head(hidden + latent, outputs, self.decoder_layers);
        if self.smoothing {
            // Both read the last latent, so large weights would make the spread grow from step to step.
            for head in [&mut prior, &mut posterior] {
                let shape = head.output.weight.dims();
                head.output.weight = init.uniform(shape, SMALL);
            }
        }
        Ok(Srnn {
            lstm: Lstm::new(self.observation, hidden, init),
            backward: self
                .smoothing
                .then(|| Lstm::new(hidden + self.observation, hidden, init)),
            prior,
            posterior,
            decoder,
            first_latent: init.constant([latent], 0.0),
            latent,
            likelihood: self.likelihood.clone(),
        })
    }
}

impl Srnn {
    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.first_latent.device()
    }

    /// `d_t` of all steps, `[time * batch, hidden]`, and the state after the last step; a state contains the
    /// observation before it.
    fn deterministic<'a>(
        &self,
        observations: impl Iterator<Item = &'a Tensor<2>>,
        state: &'a SrnnState,
    ) -> (Tensor<2>, LstmState) {
        let mut before: Vec<Tensor<2>> = std::iter::once(&state.observation)
            .chain(observations)
            .cloned()
            .collect();
        // The last observation belongs to the step after these.
        before.pop();
        self.lstm
            .steps(Tensor::cat(before, 0), None, state.lstm.clone())
    }
}

impl Srnn {
    /// Memory that learning needs, for observations of `numbers` numbers. Only a smoothing posterior, which needs
    /// the previous latent, is inside the time loop; everything else sees all steps at once.
    pub fn footprint(&self, numbers: usize) -> Footprint {
        let latent = self.latent;
        let head = |head: &Head| head.kept() + head.inputs();
        let decoder = head(&self.decoder) + self.likelihood.kept(numbers);
        let deterministic = self.lstm.kept() + numbers + self.lstm.hidden_size();
        let ahead = self.backward.as_ref();
        let ahead = ahead.map_or(Count::NONE, |lstm| {
            lstm.kept() + 2 * lstm.input_size() + lstm.hidden_size() + deterministic
        });
        let prior = head(&self.prior) + 8 * latent;
        let posterior = head(&self.posterior) + 6 * latent;
        let seen = Count::from(3 * numbers) + ahead;
        let outside = seen + deterministic + prior + decoder;
        let (outside, inside) = match self.backward {
            None => (outside + posterior, Count::NONE),
            Some(_) => (
                outside,
                posterior + prior + self.lstm.kept() + numbers + 3 * latent,
            ),
        };
        Footprint {
            decoder,
            ..Footprint::of(outside, inside)
        }
    }
}

impl FilteringModel for Srnn {
    type State = SrnnState;
    /// The weights of the deterministic layer.
    type Prepared = LstmWeights;
    type Features = SrnnFeatures;
    type Context = SrnnContext;
    type Emission = Tensor<2>;
    type Prior = DiagonalGaussian;

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

    /// A smoothing model takes the frames as a complete sequence.
    fn encode(&self, observations: Tensor<3>) -> Vec<SrnnFeatures> {
        let [batch, time, _] = observations.dims();
        let frames = frames_of_steps(observations);
        let ahead = match &self.backward {
            None => vec![None; time],
            Some(backward) => {
                let (hidden, _) = self.deterministic(frames.iter(), &self.initial_state(batch));
                let steps = hidden.chunk(time, 0).into_iter().zip(&frames).rev();
                let seen = steps.map(|(hidden, frame)| Tensor::cat(vec![hidden, frame.clone()], 1));
                let seen = Tensor::cat(seen.collect(), 0);
                let (ahead, _) =
                    backward.steps(seen, None, backward.initial_state(batch, &self.device()));
                ahead.chunk(time, 0).into_iter().rev().map(Some).collect()
            }
        };
        let steps = frames.into_iter().zip(ahead);
        steps
            .map(|(observation, ahead)| SrnnFeatures { observation, ahead })
            .collect()
    }

    fn sees_ahead(&self) -> bool {
        self.backward.is_some()
    }

    fn prepare(&self) -> LstmWeights {
        self.lstm.prepare()
    }

    fn predict(
        &self,
        prepared: &LstmWeights,
        _: Option<Tensor<2>>,
        _: Option<Tensor<2>>,
        state: SrnnState,
    ) -> SrnnContext {
        let (_, lstm) = self.lstm.step(prepared, state.observation, state.lstm);
        SrnnContext {
            lstm,
            latent: state.latent,
        }
    }

    fn prior_input(&self, context: &SrnnContext) -> Tensor<2> {
        Tensor::cat(vec![context.lstm.hidden.clone(), context.latent.clone()], 1)
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        DiagonalGaussian::from_parameters(self.prior.forward(input))
    }

    fn posterior(&self, features: &SrnnFeatures, context: &mut SrnnContext) -> DiagonalGaussian {
        let Some(ahead) = &features.ahead else {
            let input = vec![features.observation.clone(), context.lstm.hidden.clone()];
            let parameters = self.posterior.forward(Tensor::cat(input, 1));
            return DiagonalGaussian::from_parameters(parameters);
        };
        let input = Tensor::cat(vec![ahead.clone(), context.latent.clone()], 1);
        let above = DiagonalGaussian::from_parameters(self.posterior.forward(input));
        DiagonalGaussian {
            mean: self.prior(self.prior_input(context)).mean + above.mean,
            ..above
        }
    }

    fn emit(&self, z: Tensor<2>, context: &SrnnContext) -> Tensor<2> {
        Tensor::cat(vec![context.lstm.hidden.clone(), z], 1)
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        Likelihood::from_output(&self.likelihood, self.decoder.forward(emissions))
    }

    fn update(
        &self,
        features: &SrnnFeatures,
        z: Tensor<2>,
        _: &Tensor<2>,
        context: SrnnContext,
    ) -> SrnnState {
        SrnnState {
            lstm: context.lstm,
            latent: z,
            observation: features.observation.clone(),
        }
    }

    fn attention<'a>(&self, _: &'a SrnnContext) -> &'a [Attention] {
        &[]
    }

    /// Only the deterministic layer goes step by step; everything else is computed for all steps at once, unless
    /// the posterior needs the previous latent.
    fn at_once(
        &self,
        inputs: &[Inputs<SrnnFeatures>],
        given: Option<(&DiagonalGaussian, &Tensor<2>)>,
        state: &SrnnState,
    ) -> Option<(Steps<Tensor<2>>, SrnnState)> {
        if given.is_none() && self.backward.is_some() {
            return None;
        }
        let rows = |parts: &dyn Fn(&Inputs<SrnnFeatures>) -> Tensor<2>| {
            Tensor::cat(inputs.iter().map(parts).collect(), 0)
        };
        let last = inputs.last()?;
        let observations = inputs.iter().map(|input| &input.features.observation);
        let (hidden, lstm) = self.deterministic(observations, state);
        let (posterior, latent) = match given {
            Some((posterior, latent)) => (posterior.clone(), latent.clone()),
            None => {
                let seen = rows(&|input| input.features.observation.clone());
                let input = vec![seen, hidden.clone()];
                let parameters = self.posterior.forward(Tensor::cat(input, 1));
                let posterior = DiagonalGaussian::from_parameters(parameters);
                let latent = posterior.sample(rows(&|input| input.noise.clone()));
                (posterior, latent)
            }
        };
        let (batch, count) = (state.latent.dims()[0], latent.dims()[0]);
        let last_latent = latent.clone().narrow(0, count - batch, batch);
        let before = match count == batch {
            true => state.latent.clone(),
            false => {
                let rest = latent.clone().narrow(0, 0, count - batch);
                Tensor::cat(vec![state.latent.clone(), rest], 0)
            }
        };
        let steps = Steps {
            prior_input: Tensor::cat(vec![hidden.clone(), before], 1),
            posterior,
            emission: Tensor::cat(vec![hidden, latent.clone()], 1),
            latent,
        };
        let state = SrnnState {
            lstm,
            latent: last_latent,
            observation: last.features.observation.clone(),
        };
        Some((steps, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filtering::{pass, run};
    use burn::tensor::TensorData;
    use mnemora_memory::{Bundle, TensorMapper};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const BATCH: usize = 3;

    fn numbers(shape: [usize; 2], seed: u32, device: &Device) -> Tensor<2> {
        let values = (0..shape[0] * shape[1]).map(|i| ((i as f32 + 1.0) * seed as f32).sin());
        Tensor::from_data(TensorData::new(values.collect::<Vec<f32>>(), shape), device)
    }

    /// All numbers in a bundle.
    struct Numbers(Vec<f32>);

    impl TensorMapper for Numbers {
        fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
            self.0
                .extend(tensor.clone().into_data().try_into_vec::<f32>().unwrap());
            tensor
        }
    }

    fn all(bundle: impl Bundle) -> Vec<f32> {
        let mut numbers = Numbers(Vec::new());
        bundle.map_tensors(&mut numbers);
        numbers.0
    }

    /// Gradients match the golden vectors.
    #[test]
    fn at_once_is_step_by_step() {
        let device = Device::default();
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
        let config = SrnnConfig {
            observation: 5,
            latent: 4,
            hidden: 7,
            units: 6,
            layers: 1,
            decoder_layers: 2,
            smoothing: false,
            likelihood: LikelihoodConfig::Bernoulli,
        };
        let model = config.init(&mut init).unwrap();
        let inputs = |time: u32, seed: u32| -> Vec<Inputs<SrnnFeatures>> {
            let step = |t: u32| Inputs {
                features: SrnnFeatures {
                    observation: numbers([BATCH, 5], seed + t, &device),
                    ahead: None,
                },
                condition: None,
                noise: numbers([BATCH, 4], seed + 50 + t, &device),
                transition: None,
            };
            (0..time).map(step).collect()
        };
        let (_, _, later) = pass(&model, inputs(2, 1), model.initial_state(BATCH));
        for state in [model.initial_state(BATCH), later] {
            for time in [1, 4] {
                let inputs = inputs(time, 10);
                let found = model.at_once(&inputs, None, &state).unwrap();
                let own = |_: usize, x: &SrnnFeatures, context: &mut SrnnContext, noise| {
                    let posterior = model.posterior(x, context);
                    let latent = posterior.sample(noise);
                    (posterior, latent)
                };
                let (steps, _, end) = run(&model, inputs.clone(), state.clone(), own);
                let expected = Steps::concatenate(steps);
                let given = Some((&expected.posterior, &expected.latent));
                let again = model.at_once(&inputs, given, &state).unwrap();
                let end = all(end);
                let expected = all(expected.clone());
                for (steps, state) in [found, again] {
                    let pairs = [(all(steps), &expected), (all(state), &end)];
                    for (found, expected) in pairs {
                        assert_eq!(found.len(), expected.len());
                        for (found, expected) in found.iter().zip(expected) {
                            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
                        }
                    }
                }
            }
        }
    }
}
