//! Stochastic video generation (SVG, Denton and Fergus 2018), as variational filtering uses it (Marino
//! et al. 2018).
//!
//! ```text
//! h_t, skips_t = encoder(x_t)
//! z_t ~ N(LSTM_psi(h_{t-1}))                 learned prior (LP); fixed prior (FP): N(0, I)
//! q(z_t) = N(LSTM_phi(h_t))
//! g_t = tanh(linear(LSTM_theta([h_{t-1}; z_t])))
//! x_t ~ N(decoder(g_t, skips))
//! ```
//!
//! The skips are the encoder's maps at each resolution, which the decoder also reads.
//!
//! The encoder runs on all frames before the time loop, the decoder on all steps after it; only the
//! LSTMs are inside. Choices where the sources are silent or differ:
//!
//! - Before the first frame `h` and the skips are zeros, and the first frame is predicted and scored like every
//!   other. [`Svg::after`] starts after a given frame that is not scored, as in the original.
//! - The encoder gets frames minus 1/2, as in Marino et al.; the decoder's sigmoid is the mean.
//! - The maps give log standard deviations, as in all generative models of this crate, not log variances.
//! - Batch norm takes its statistics over all frames of a call, that is, over batch and time; the original
//!   calls its networks once per step. If beliefs are improved by gradients, the search for them uses the
//!   running statistics without changing them; the pass from which the model learns uses the statistics of all
//!   frames, as always.

use crate::{
    DiagonalGaussian, FilteringModel, Footprint, ImageShape, Likelihood, LikelihoodConfig,
    ModelError, Recorded,
    visual::{DcganDecoder, DcganEncoder, VggDecoder, VggEncoder, WEIGHT_STD},
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};
use mnemora_kernels::split::split_rows;
use mnemora_memory::{Attention, Count, Initializer, Lstm, LstmState, LstmWeights, RecurrentCore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Networks for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SvgNetwork {
    /// Strided convolutions (DCGAN).
    Dcgan,
    /// Convolutions and pooling (VGG).
    Vgg,
}

/// Prior of `z_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SvgPrior {
    /// An LSTM over the frames before (SVG-LP).
    Learned,
    /// `N(0, I)` (SVG-FP).
    Fixed,
}

/// The frame whose maps the decoder gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SvgSkips {
    /// The last observed frame before `x_t`: `x_{t-1}`, or, while frames are generated, the last frame before
    /// them. As in the original.
    Observed,
    /// `x_{t-1}`, observed or generated; the original's `last_frame_skip`.
    Previous,
    /// The first frame of the sequence.
    First,
    /// None: zeros instead of maps, with the same parameters.
    Off,
}

/// Sizes and choices of an [`Svg`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SvgConfig {
    /// Shape of a frame: square, with a side of 8, 16, 32, ..; each doubling of 4 is a level of the networks.
    #[serde(skip)]
    pub frame: ImageShape,
    /// Networks for frames: `dcgan` or `vgg`.
    pub network: SvgNetwork,
    /// Channels of the finest level; each coarser level has twice as many, up to eight times as many.
    pub width: usize,
    /// Size of `h` and `g`.
    pub features: usize,
    /// Size of `z`.
    #[serde(skip)]
    pub latent: usize,
    /// Units of each layer of the LSTMs.
    pub hidden: usize,
    /// Layers of `LSTM_theta`.
    pub predictor_layers: usize,
    /// Layers of `LSTM_phi`; the setting `latent_layers` also sets those of `LSTM_psi`.
    #[serde(rename = "latent_layers")]
    pub posterior_layers: usize,
    /// Layers of `LSTM_psi`.
    #[serde(skip)]
    pub prior_layers: usize,
    /// Whether each LSTM is preceded by a linear map to `hidden` numbers.
    pub embedding: bool,
    /// Prior of `z_t`: `learned` or `fixed`.
    pub prior: SvgPrior,
    /// The frame whose maps the decoder gets: `observed`, `previous`, `first` or `off`.
    pub skips: SvgSkips,
    /// Likelihood of frames.
    #[serde(skip)]
    pub likelihood: LikelihoodConfig,
}

impl Default for SvgConfig {
    fn default() -> Self {
        Self {
            frame: ImageShape {
                channels: 0,
                height: 0,
                width: 0,
            },
            network: SvgNetwork::Dcgan,
            width: 64,
            features: 128,
            latent: 0,
            hidden: 256,
            predictor_layers: 2,
            posterior_layers: 1,
            prior_layers: 1,
            embedding: true,
            prior: SvgPrior::Learned,
            skips: SvgSkips::Observed,
            likelihood: LikelihoodConfig::Bernoulli,
        }
    }
}

impl SvgConfig {
    /// This configuration with the sizes and the likelihood of the data filled in.
    pub fn fit(&self, data: &Recorded) -> Self {
        Self {
            frame: data.frame,
            latent: data.latent,
            prior_layers: self.posterior_layers,
            likelihood: data.likelihood.clone(),
            ..self.clone()
        }
    }

    /// The sizes of Denton and Fergus 2018 for the KTH actions, with a learned prior; pixels are bins of
    /// width 1/256 under Gaussians, as in Marino et al. 2018.
    pub fn original(frame: ImageShape, network: SvgNetwork) -> Self {
        Self {
            frame,
            network,
            width: 64,
            features: 128,
            latent: 24,
            hidden: 256,
            predictor_layers: 2,
            posterior_layers: 1,
            prior_layers: 1,
            embedding: true,
            prior: SvgPrior::Learned,
            skips: SvgSkips::Observed,
            likelihood: LikelihoodConfig::Normal {
                bin: 1.0 / 256.0,
                squashed: true,
            },
        }
    }

    /// The sizes of Marino et al. 2018: VGG, 512 latents, no linear maps before the LSTMs. Their code multiplies the
    /// skips by zero, which their text does not mention; here the decoder gets those of the first frame.
    pub fn filtering(frame: ImageShape) -> Self {
        Self {
            latent: 512,
            embedding: false,
            skips: SvgSkips::First,
            ..Self::original(frame, SvgNetwork::Vgg)
        }
    }

    /// Channels of each level, from fine to coarse.
    fn channels(&self) -> Result<Vec<usize>, ModelError> {
        let ImageShape { height, width, .. } = self.frame;
        if height != width || height < 8 || !height.is_power_of_two() {
            return Err(ModelError::FrameSide { height, width });
        }
        let levels = (height / 4).ilog2();
        Ok((0..levels)
            .map(|level| self.width << level.min(3))
            .collect())
    }

    /// Builds the model; refuses sizes of zero, and frames that do not fit the networks.
    pub fn init(&self, init: &mut Initializer) -> Result<Svg, ModelError> {
        ModelError::require_positive(&[
            ("channels", self.frame.channels),
            ("width", self.width),
            ("features", self.features),
            ("latent", self.latent),
            ("hidden", self.hidden),
            ("predictor_layers", self.predictor_layers),
            ("posterior_layers", self.posterior_layers),
            ("prior_layers", self.prior_layers),
        ])?;
        self.likelihood.check()?;
        let channels = self.channels()?;
        let (frame, features, latent) = (self.frame.channels, self.features, self.latent);
        let outputs = self.likelihood.outputs(frame);
        let (encoder, decoder) = match self.network {
            SvgNetwork::Dcgan => (
                SvgEncoder::Dcgan(DcganEncoder::new(frame, &channels, features, init)),
                SvgDecoder::Dcgan(DcganDecoder::new(outputs, &channels, features, init)),
            ),
            SvgNetwork::Vgg => (
                SvgEncoder::Vgg(VggEncoder::new(frame, &channels, features, init)),
                SvgDecoder::Vgg(VggDecoder::new(outputs, &channels, features, init)),
            ),
        };
        let mut recurrent =
            |inputs, outputs, layers| Recurrent::new(self, [inputs, outputs], layers, init);
        let predictor = recurrent(features + latent, features, self.predictor_layers);
        let posterior = recurrent(features, 2 * latent, self.posterior_layers);
        let prior = (self.prior == SvgPrior::Learned)
            .then(|| recurrent(features, 2 * latent, self.prior_layers));
        Ok(Svg {
            encoder,
            decoder,
            predictor,
            posterior,
            prior,
            frame_channels: frame,
            side: self.frame.height,
            features,
            latent,
            channels,
            skips: self.skips,
            likelihood: self.likelihood.clone(),
            finest: match self.network {
                SvgNetwork::Dcgan => self.frame.height / 2,
                SvgNetwork::Vgg => self.frame.height,
            },
        })
    }
}

/// Frames to features and skips.
// There is one value per model, so the size of the largest variant does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
pub enum SvgEncoder {
    /// Strided convolutions.
    Dcgan(DcganEncoder),
    /// Convolutions and pooling.
    Vgg(VggEncoder),
}

/// Features and skips to outputs.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
pub enum SvgDecoder {
    /// Transposed convolutions of stride 2.
    Dcgan(DcganDecoder),
    /// Convolutions and repeated pixels.
    Vgg(VggDecoder),
}

impl SvgEncoder {
    /// From frames `[rows, channels, side, side]` to features `[rows, features]` and the maps of each level,
    /// from fine to coarse.
    pub fn forward(&self, frames: Tensor<4>) -> (Tensor<2>, Vec<Tensor<4>>) {
        match self {
            Self::Dcgan(encoder) => encoder.forward(frames),
            Self::Vgg(encoder) => encoder.forward(frames),
        }
    }
}

impl SvgDecoder {
    /// From features `[rows, features]` and the encoder's skips to `[rows, outputs, side, side]`.
    pub fn forward(&self, features: Tensor<2>, skips: Vec<Tensor<4>>) -> Tensor<4> {
        match self {
            Self::Dcgan(decoder) => decoder.forward(features, skips),
            Self::Vgg(decoder) => decoder.forward(features, skips),
        }
    }
}

/// Stacked LSTMs, with linear maps before and after them.
#[derive(Module, Debug)]
pub struct Recurrent {
    /// From the input to as many numbers as the LSTMs have units, if any.
    pub embedding: Option<Linear>,
    /// From the lowest to the highest.
    pub layers: Vec<Lstm>,
    /// From the highest hidden state.
    pub output: Linear,
}

impl Recurrent {
    fn new(
        config: &SvgConfig,
        [inputs, outputs]: [usize; 2],
        layers: usize,
        init: &mut Initializer,
    ) -> Self {
        let hidden = config.hidden;
        let embedding = config.embedding.then(|| linear(inputs, hidden, init));
        let first = if config.embedding { hidden } else { inputs };
        let layers = (0..layers)
            .map(|layer| Lstm::new(if layer == 0 { first } else { hidden }, hidden, init));
        Self {
            embedding,
            layers: layers.collect(),
            output: linear(hidden, outputs, init),
        }
    }

    fn initial_state(&self, batch: usize, device: &Device) -> Vec<LstmState> {
        let layers = self.layers.iter();
        layers
            .map(|lstm| lstm.initial_state(batch, device))
            .collect()
    }

    /// Numbers that the graph keeps per step and sequence.
    fn kept(&self) -> Count {
        let embedding = self.embedding.as_ref();
        let embedding = embedding.map_or(0, |map| map.weight.dims().iter().sum());
        let layers: Count = self.layers.iter().map(Lstm::kept).sum();
        let [hidden, outputs] = self.output.weight.dims();
        layers + embedding + hidden + 2 * outputs
    }

    /// The weights of each layer for the steps of one pass.
    fn prepare(&self) -> Vec<LstmWeights> {
        self.layers.iter().map(Lstm::prepare).collect()
    }

    /// State of each layer after `input`, `[batch, inputs]`.
    fn step(
        &self,
        prepared: &[LstmWeights],
        input: Tensor<2>,
        states: Vec<LstmState>,
    ) -> Vec<LstmState> {
        let mut input = match &self.embedding {
            None => input,
            Some(embedding) => embedding.forward(input),
        };
        let mut next = Vec::with_capacity(states.len());
        for ((lstm, weights), state) in self.layers.iter().zip(prepared).zip(states) {
            let (_, state) = lstm.step(weights, input, state);
            input = state.hidden.clone();
            next.push(state);
        }
        next
    }
}

/// The hidden state of the highest layer, `[batch, hidden]`.
fn uppermost(states: &[LstmState]) -> Tensor<2> {
    let state = states.last().expect("there is at least one layer");
    state.hidden.clone()
}

fn linear(inputs: usize, outputs: usize, init: &mut Initializer) -> Linear {
    Linear {
        weight: init.normal([inputs, outputs], WEIGHT_STD),
        bias: Some(init.constant([outputs], 0.0)),
    }
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Svg {
    /// Frames to `h` and skips.
    pub encoder: SvgEncoder,
    /// `g` and skips to the likelihood's parameters.
    pub decoder: SvgDecoder,
    /// `LSTM_theta`, from `[h_{t-1}; z_t]` to `g_t` before its tanh.
    pub predictor: Recurrent,
    /// `LSTM_phi`, from `h_t` to mean and log standard deviation.
    pub posterior: Recurrent,
    /// `LSTM_psi`, from `h_{t-1}`, if the prior is learned.
    pub prior: Option<Recurrent>,
    frame_channels: usize,
    side: usize,
    features: usize,
    latent: usize,
    /// Side of the finest skips.
    finest: usize,
    #[module(skip)]
    channels: Vec<usize>,
    #[module(skip)]
    skips: SvgSkips,
    #[module(skip)]
    likelihood: LikelihoodConfig,
}

/// The features of a frame for an [`Svg`].
#[derive(Clone, Debug)]
pub struct SvgFeatures {
    /// `h`, `[batch, features]`
    pub h: Tensor<2>,
    /// Maps of each level, from fine to coarse, `[batch, channels, side, side]`.
    pub skips: Vec<Tensor<4>>,
}

/// Weights of the LSTMs of an [`Svg`], layer by layer, prepared for the steps of one pass.
#[derive(Debug)]
pub struct SvgWeights {
    predictor: Vec<LstmWeights>,
    posterior: Vec<LstmWeights>,
    /// Empty if the prior is fixed.
    prior: Vec<LstmWeights>,
}

/// The context of a step.
#[derive(Clone, Debug)]
pub struct SvgContext {
    state: SvgState,
    weights: Arc<SvgWeights>,
}

/// The state that an [`Svg`] carries from step to step.
#[derive(Clone, Debug)]
pub struct SvgState {
    predictor: Vec<LstmState>,
    posterior: Vec<LstmState>,
    /// Empty if the prior is fixed.
    prior: Vec<LstmState>,
    /// `h_{t-1}`, and the skips that the decoder gets.
    given: SvgFeatures,
    /// Whether the skips stay unchanged.
    skips_stay: bool,
}

/// The state of `LSTM_theta`, from which the decoder's input `g_t` is computed, and the skips.
#[derive(Clone, Debug)]
pub struct SvgEmission {
    /// `LSTM_theta` after the step.
    predictor: Vec<LstmState>,
    skips: Vec<Tensor<4>>,
}

mnemora_memory::bundle!(SvgFeatures { h, skips });

mnemora_memory::bundle!(SvgState { predictor, posterior, prior, given; skips_stay });

mnemora_memory::bundle!(SvgEmission { predictor, skips });

impl Svg {
    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.predictor.output.weight.device()
    }

    /// State after a given first frame `[batch, pixels]`, so that the second frame is the first one to be
    /// predicted: for a bound on `p(x_2, .. | x_1)`.
    ///
    /// In training mode, batch norm uses the statistics of the first frames only.
    pub fn after(&self, frame: Tensor<2>) -> SvgState {
        let state = self.initial_state(frame.dims()[0]);
        let features = self.encode(frame.unsqueeze_dim(1)).remove(0);
        SvgState {
            given: self.given(features, &state),
            skips_stay: state.skips_stay || self.skips == SvgSkips::First,
            ..state
        }
    }

    /// The features of a frame that the next step gets.
    fn given(&self, features: SvgFeatures, state: &SvgState) -> SvgFeatures {
        match state.skips_stay {
            true => SvgFeatures {
                skips: state.given.skips.clone(),
                ..features
            },
            false => features,
        }
    }
}

impl Svg {
    /// Memory that learning needs. The skips count twice: they are copied into the order in which the decoder
    /// reads them.
    pub fn footprint(&self, _numbers: usize) -> Footprint {
        let numbers = Count::product(&[self.frame_channels, self.side, self.side]);
        let pixels = self.frame_channels * self.side * self.side;
        let skips: Count = self
            .channels
            .iter()
            .enumerate()
            .map(|(level, channels)| {
                let side = self.finest >> level;
                Count::product(&[*channels, side, side])
            })
            .sum();
        let encoder = match &self.encoder {
            SvgEncoder::Dcgan(encoder) => encoder.kept(self.side),
            SvgEncoder::Vgg(encoder) => encoder.kept(self.side),
        };
        let drawn = match &self.decoder {
            SvgDecoder::Dcgan(decoder) => decoder.kept(self.side),
            SvgDecoder::Vgg(decoder) => decoder.kept(self.side),
        };
        let decoder = skips + drawn + 3 * self.features + self.likelihood.kept(pixels);
        let recurrent = [
            Some(&self.predictor),
            Some(&self.posterior),
            self.prior.as_ref(),
        ];
        let recurrent = recurrent.into_iter().flatten().map(Recurrent::kept);
        let outside = numbers * 3 + encoder + decoder + 10 * self.latent;
        let inside = recurrent.sum::<Count>() + 2 * self.features + 6 * self.latent;
        Footprint {
            decoder,
            // Only two of the many maps exist at a time, besides the skips.
            passing: outside.divided_by(5),
            ..Footprint::of(outside, inside)
        }
    }
}

impl FilteringModel for Svg {
    type State = SvgState;
    type Prepared = Arc<SvgWeights>;
    type Features = SvgFeatures;
    type Context = SvgContext;
    type Emission = SvgEmission;
    type Prior = DiagonalGaussian;

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn initial_state(&self, batch: usize) -> SvgState {
        let device = self.device();
        let prior = self.prior.as_ref();
        let skips = self.channels.iter().enumerate().map(|(level, channels)| {
            let side = self.finest >> level;
            Tensor::zeros([batch, *channels, side, side], &device)
        });
        SvgState {
            predictor: self.predictor.initial_state(batch, &device),
            posterior: self.posterior.initial_state(batch, &device),
            prior: prior.map_or_else(Vec::new, |prior| prior.initial_state(batch, &device)),
            given: SvgFeatures {
                h: Tensor::zeros([batch, self.features], &device),
                skips: skips.collect(),
            },
            skips_stay: self.skips == SvgSkips::Off,
        }
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<SvgFeatures> {
        let [batch, time, _] = observations.dims();
        let frames = observations.swap_dims(0, 1).sub_scalar(0.5).reshape([
            time * batch,
            self.frame_channels,
            self.side,
            self.side,
        ]);
        let (h, skips) = self.encoder.forward(frames);
        let mut levels: Vec<_> = skips
            .into_iter()
            .map(|maps| split_rows(maps, time).into_iter())
            .collect();
        let steps = split_rows(h, time).into_iter().map(|h| SvgFeatures {
            h,
            skips: levels.iter_mut().filter_map(Iterator::next).collect(),
        });
        steps.collect()
    }

    fn prepare(&self) -> Arc<SvgWeights> {
        let prior = self.prior.as_ref();
        Arc::new(SvgWeights {
            predictor: self.predictor.prepare(),
            posterior: self.posterior.prepare(),
            prior: prior.map_or_else(Vec::new, Recurrent::prepare),
        })
    }

    fn predict(
        &self,
        prepared: &Arc<SvgWeights>,
        _: Option<Tensor<2>>,
        _: Option<Tensor<2>>,
        mut state: SvgState,
    ) -> SvgContext {
        if let Some(prior) = &self.prior {
            state.prior = prior.step(&prepared.prior, state.given.h.clone(), state.prior);
        }
        SvgContext {
            state,
            weights: prepared.clone(),
        }
    }

    /// With a fixed prior this carries only the batch size.
    fn prior_input(&self, context: &SvgContext) -> Tensor<2> {
        match &self.prior {
            None => context.state.given.h.clone(),
            Some(_) => uppermost(&context.state.prior),
        }
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        match &self.prior {
            None => {
                let zeros = Tensor::zeros([input.dims()[0], self.latent], &input.device());
                DiagonalGaussian {
                    mean: zeros.clone(),
                    log_std: zeros,
                }
            }
            Some(prior) => DiagonalGaussian::from_parameters(prior.output.forward(input)),
        }
    }

    fn posterior(&self, features: &SvgFeatures, context: &mut SvgContext) -> DiagonalGaussian {
        let states = std::mem::take(&mut context.state.posterior);
        context.state.posterior =
            self.posterior
                .step(&context.weights.posterior, features.h.clone(), states);
        let output = &self.posterior.output;
        DiagonalGaussian::from_parameters(output.forward(uppermost(&context.state.posterior)))
    }

    fn emit(&self, z: Tensor<2>, context: &SvgContext) -> SvgEmission {
        let input = Tensor::cat(vec![context.state.given.h.clone(), z], 1);
        SvgEmission {
            predictor: self.predictor.step(
                &context.weights.predictor,
                input,
                context.state.predictor.clone(),
            ),
            skips: context.state.given.skips.clone(),
        }
    }

    fn decode(&self, emissions: SvgEmission) -> Likelihood {
        let output = &self.predictor.output;
        let g = output.forward(uppermost(&emissions.predictor)).tanh();
        let output = self.decoder.forward(g, emissions.skips).flatten(1, 3);
        Likelihood::from_output(&self.likelihood, output)
    }

    fn update(
        &self,
        features: &SvgFeatures,
        _: Tensor<2>,
        emission: &SvgEmission,
        context: SvgContext,
    ) -> SvgState {
        let state = context.state;
        SvgState {
            predictor: emission.predictor.clone(),
            given: self.given(features.clone(), &state),
            skips_stay: state.skips_stay || self.skips == SvgSkips::First,
            ..state
        }
    }

    fn reuses_predictions(&self) -> bool {
        false
    }

    fn imagine(&self, state: SvgState) -> SvgState {
        SvgState {
            skips_stay: state.skips_stay || self.skips == SvgSkips::Observed,
            ..state
        }
    }

    fn observe(&self, state: SvgState) -> SvgState {
        SvgState {
            skips_stay: state.skips_stay && self.skips != SvgSkips::Observed,
            ..state
        }
    }

    fn attention<'a>(&self, _: &'a SvgContext) -> &'a [Attention] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Generated, InferenceNoise, check::values, filter, filter_by_segments, filter_given,
        generate, infer, inference::GradientSteps, unobserved_step,
    };
    use burn::module::{ModuleMapper, ModuleVisitor, Param};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
    use std::collections::HashMap;

    const BATCH: usize = 2;
    const LATENT: usize = 3;

    fn config(network: SvgNetwork, channels: usize, side: usize) -> SvgConfig {
        let frame = ImageShape {
            channels,
            height: side,
            width: side,
        };
        SvgConfig {
            width: 2,
            features: 5,
            latent: LATENT,
            hidden: 6,
            ..SvgConfig::original(frame, network)
        }
    }

    /// Makes kernels twenty times as large.
    struct Widen;

    impl ModuleMapper for Widen {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            match D {
                4 => Param::from_tensor((param.val() * 20.0).detach()),
                _ => param,
            }
        }
    }

    /// With larger weights than at the start of training, so that every part has an effect.
    fn build(config: &SvgConfig, device: &Device) -> Svg {
        let stream = ChaCha8Rng::seed_from_u64(3);
        let mut init = Initializer::new(stream, device.clone());
        let mut model = config.init(&mut init).unwrap().map(&mut Widen);
        let stacks = [&mut model.predictor, &mut model.posterior].into_iter();
        for stack in stacks.chain(&mut model.prior) {
            for linear in stack.embedding.iter_mut().chain([&mut stack.output]) {
                linear.weight = init.normal(linear.weight.dims(), 0.5);
            }
        }
        model
    }

    /// Pseudo-random numbers in [0, 1).
    fn numbers<const D: usize>(shape: [usize; D], seed: f32, device: &Device) -> Tensor<D> {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count)
            .map(|i| ((i as f32 + seed) * 12.9898).sin() * 437.5)
            .map(|u| u - u.floor())
            .collect();
        Tensor::<1>::from_floats(values.as_slice(), device).reshape(shape)
    }

    fn noise(time: usize, device: &Device) -> Tensor<3> {
        (numbers([time, BATCH, LATENT], 0.5, device) - 0.5) * 3.0
    }

    fn largest_difference<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
        (a - b).abs().max().into_scalar()
    }

    /// A generated frame leaves the skips as they are; the next observed frame replaces them.
    #[test]
    fn a_step_without_an_observation_is_taken_back() {
        let device = Device::default();
        let config = config(SvgNetwork::Dcgan, 1, 64);
        let model = build(&config, &device).valid();
        let frames = numbers([BATCH, 2, 64 * 64], 0.0, &device);
        let first = frames.clone().narrow(1, 0, 1);
        let second = frames.narrow(1, 1, 1);
        let seen = filter(&model, first.clone(), None, noise(1, &device), None).state;
        let (_, gone_on) = unobserved_step(&model, &model.prepare(), seen.clone(), None);
        let skips = |state: &SvgState| values(state.given.skips[0].clone());
        assert_eq!(skips(&gone_on), skips(&seen));
        assert_ne!(
            values(gone_on.given.h.clone()),
            values(seen.given.h.clone())
        );
        let observed = filter(
            &model,
            second.clone(),
            None,
            noise(1, &device),
            Some(gone_on),
        );
        let own = model.encode(second).remove(0);
        assert_eq!(skips(&observed.state), values(own.skips[0].clone()));
    }

    #[test]
    fn shapes_are_those_of_the_frames() {
        let device = Device::default();
        for (network, channels, side) in [
            (SvgNetwork::Dcgan, 1, 8),
            (SvgNetwork::Dcgan, 3, 32),
            (SvgNetwork::Vgg, 3, 8),
            (SvgNetwork::Vgg, 1, 32),
        ] {
            let model = build(&config(network, channels, side), &device);
            let frames = numbers([BATCH, 4, channels * side * side], 1.0, &device);
            let filtered = filter(&model, frames, None, noise(4, &device), None);
            let mean = filtered.likelihood.mean();
            assert_eq!(mean.dims(), [4 * BATCH, channels * side * side]);
            assert_eq!(filtered.kl.dims(), [4, BATCH]);
            assert_eq!(filtered.latents.dims(), [4 * BATCH, LATENT]);
        }
    }

    /// The counts of the original in its sizes, except that each gate has one bias where the original has two, and
    /// each pixel has a second output.
    #[test]
    fn parameters_are_those_of_the_original() {
        for (network, visual) in [
            (SvgNetwork::Dcgan, 10_365_954),
            (SvgNetwork::Vgg, 20_510_530),
        ] {
            let frame = ImageShape {
                channels: 1,
                height: 64,
                width: 64,
            };
            let stream = ChaCha8Rng::seed_from_u64(0);
            let mut init = Initializer::new(stream, Device::default());
            let model = SvgConfig::original(frame, network).init(&mut init).unwrap();
            let statistics = match network {
                SvgNetwork::Dcgan => 2 * (64 + 128 + 256 + 512 + 128 + 512 + 256 + 128 + 64),
                SvgNetwork::Vgg => {
                    let encoder = 2 * 64 + 2 * 128 + 3 * 256 + 3 * 512 + 128;
                    let decoder = 512 + (512 + 512 + 256) + (256 + 256 + 128) + (128 + 64) + 64;
                    2 * (encoder + decoder)
                }
            };
            let linear = |inputs: usize, outputs: usize| inputs * outputs + outputs;
            let lstm = 2 * 256 * 1024 + 1024;
            let recurrent = linear(128 + 24, 256)
                + 2 * lstm
                + linear(256, 128)
                + 2 * (linear(128, 256) + lstm + linear(256, 48));
            assert_eq!(
                model.num_params() - statistics - recurrent,
                visual,
                "{network:?}"
            );
        }
    }

    #[test]
    fn frames_that_do_not_halve_to_four_pixels_are_refused() {
        for [height, width] in [[64, 32], [4, 4], [28, 28]] {
            let mut config = config(SvgNetwork::Dcgan, 1, 8);
            (config.frame.height, config.frame.width) = (height, width);
            let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(0), Device::default());
            let error = config.init(&mut init).unwrap_err();
            assert_eq!(error, ModelError::FrameSide { height, width });
        }
    }

    /// With running statistics, the result of a step does not depend on the other frames of the call.
    #[test]
    fn a_sequence_goes_on_from_its_state() {
        let device = Device::default();
        for skips in [
            SvgSkips::Observed,
            SvgSkips::Previous,
            SvgSkips::First,
            SvgSkips::Off,
        ] {
            let config = SvgConfig {
                skips,
                embedding: skips != SvgSkips::Off,
                ..config(SvgNetwork::Vgg, 1, 8)
            };
            let model = build(&config, &device);
            let frames: Tensor<3> = numbers([BATCH, 5, 64], 1.0, &device);
            let noise = noise(5, &device);
            let whole = filter(&model, frames.clone(), None, noise.clone(), None);
            let part = |start: usize, length: usize, state| {
                let frames = frames.clone().narrow(1, start, length);
                let noise = noise.clone().narrow(0, start, length);
                filter(&model, frames, None, noise, state)
            };
            let first = part(0, 2, None);
            let second = part(2, 3, Some(first.state));
            let halves = Tensor::cat(vec![first.reconstruction, second.reconstruction], 0);
            assert!(largest_difference(whole.reconstruction, halves) < 1e-3);
            let halves = Tensor::cat(vec![first.kl, second.kl], 0);
            assert!(largest_difference(whole.kl, halves) < 1e-5);
        }
    }

    #[test]
    fn a_first_frame_may_be_given() {
        let device = Device::default();
        let model = build(&config(SvgNetwork::Dcgan, 1, 8), &device);
        let frames: Tensor<3> = numbers([BATCH, 3, 64], 1.0, &device);
        let scored = |first: Tensor<2>| {
            let rest = frames.clone().narrow(1, 1, 2);
            let state = model.after(first);
            filter(&model, rest, None, noise(2, &device), Some(state)).reconstruction
        };
        let first = frames.clone().narrow(1, 0, 1).squeeze_dim::<2>(1);
        let other = scored(first.clone() * 0.5);
        let found = scored(first);
        assert_eq!(found.dims(), [2, BATCH]);
        assert!(largest_difference(found, other) > 1e-4);
    }

    fn generated(skips: SvgSkips, device: &Device) -> Generated {
        let config = SvgConfig {
            skips,
            ..config(SvgNetwork::Dcgan, 3, 16)
        };
        let model = build(&config, device);
        let frames = numbers([BATCH, 3, 3 * 256], 1.0, device);
        let state = filter(&model, frames, None, noise(3, device), None).state;
        generate(&model, state, None, noise(4, device), |_, likelihood| {
            likelihood.mean()
        })
    }

    /// The first generated frame follows an observed one, later ones do not.
    #[test]
    fn skips_are_of_the_last_observed_frame_where_frames_are_generated() {
        let device = Device::default();
        let [observed, previous] =
            [SvgSkips::Observed, SvgSkips::Previous].map(|skips| generated(skips, &device).frames);
        assert_eq!(observed.dims(), [BATCH, 4, 3 * 256]);
        let frame = |of: &Tensor<3>, t: usize| of.clone().narrow(1, t, 1);
        let difference = |t| largest_difference(frame(&observed, t), frame(&previous, t));
        assert_eq!(difference(0), 0.0);
        assert!(difference(1) > 1e-6, "{}", difference(1));
    }

    #[test]
    fn a_fixed_prior_is_standard_normal() {
        let device = Device::default();
        let config = SvgConfig {
            prior: SvgPrior::Fixed,
            ..config(SvgNetwork::Dcgan, 1, 8)
        };
        let model = build(&config, &device);
        let frames = numbers([BATCH, 3, 64], 1.0, &device);
        let filtered = filter(&model, frames, None, noise(3, &device), None);
        let zeros = vec![0.0; 3 * BATCH * LATENT];
        assert_eq!(values(filtered.priors.mean), zeros);
        assert_eq!(values(filtered.priors.log_std), zeros);
        assert!(model.prior.is_none());
    }

    #[test]
    fn gradient_steps_lower_the_free_energy() {
        let device = Device::default().autodiff();
        let learner = build(&config(SvgNetwork::Dcgan, 1, 8), &device);
        let model = learner.clone().freeze();
        let frames: Tensor<3> = numbers([BATCH, 3, 64], 1.0, &device);
        let noise = InferenceNoise {
            inner: vec![noise(3, &device).unsqueeze_dim(0)],
            step: noise(3, &device).neg(),
        };
        let mut improver = GradientSteps::new(20, 0.05);
        let found = infer(
            &model,
            &mut improver,
            frames.clone(),
            None,
            noise,
            1.0,
            None,
        );
        let energy = |of: &Tensor<2>| of.clone().sum().into_scalar::<f32>();
        let first = energy(&found.energies[0]);
        let last = energy(found.energies.last().unwrap());
        assert!(last < first, "{first} nats before, {last} after");

        // Everything except the posterior learns from the beliefs found.
        let given = filter_given(&learner, frames, None, &found, None);
        let gradients = given.bound(1.0).mean().backward();
        let learns = |of: &Recurrent| of.output.weight.val().grad(&gradients).is_some();
        assert!(learns(&learner.predictor));
        assert!(learner.prior.as_ref().is_some_and(learns));
        assert!(!learns(&learner.posterior));
    }

    /// Gradients of all parameters by name.
    struct Read<'a>(
        &'a burn::tensor::Gradients,
        Vec<String>,
        HashMap<String, Tensor<1>>,
    );

    impl ModuleVisitor for Read<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.1.push(name.to_owned());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.1.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad(self.0) {
                let gradient = gradient.flatten::<1>(0, D - 1);
                let name = self.1.join(".");
                let sum = match self.2.remove(&name) {
                    Some(sum) => sum + gradient,
                    None => gradient,
                };
                self.2.insert(name, sum);
            }
        }
    }

    #[test]
    fn segments_give_the_same_gradients() {
        let device = Device::default().autodiff();
        let model = build(&config(SvgNetwork::Dcgan, 1, 8), &device);
        let frames: Tensor<3> = numbers([BATCH, 5, 64], 1.0, &device);
        let noise = noise(5, &device);
        let read = |gradients: &burn::tensor::Gradients, sum| {
            let mut read = Read(gradients, Vec::new(), sum);
            model.visit(&mut read);
            read.2
        };
        let whole = filter(&model, frames.clone(), None, noise.clone(), None);
        let gradients = whole.bound(1.0).mean().neg().backward();
        let whole = read(&gradients, HashMap::new());
        let mut sum = HashMap::new();
        filter_by_segments(&model, frames, None, noise, 2, 1.0, |gradients| {
            sum = read(&gradients, std::mem::take(&mut sum));
        });
        assert_eq!(whole.len(), sum.len());
        for (name, expected) in whole {
            let scale = expected.clone().abs().max().into_scalar::<f32>();
            let difference = largest_difference(expected, sum[&name].clone());
            assert!(difference < 1e-3 * scale.max(1.0), "{name}: {difference}");
        }
    }

    type Choose = fn(&mut Svg) -> &mut Param<Tensor<4>>;

    fn encoder(model: &mut Svg) -> &mut VggEncoder {
        match &mut model.encoder {
            SvgEncoder::Vgg(encoder) => encoder,
            SvgEncoder::Dcgan(_) => unreachable!("the test builds a VGG"),
        }
    }

    fn decoder(model: &mut Svg) -> &mut VggDecoder {
        match &mut model.decoder {
            SvgDecoder::Vgg(decoder) => decoder,
            SvgDecoder::Dcgan(_) => unreachable!("the test builds a VGG"),
        }
    }

    #[test]
    fn gradients_of_the_vgg_networks_are_those_of_finite_differences() {
        const STEP: f32 = 2e-3;
        let device = Device::default().autodiff();
        let config = SvgConfig {
            likelihood: LikelihoodConfig::Gaussian { std: 1.0 },
            ..config(SvgNetwork::Vgg, 1, 16)
        };
        let mut model = build(&config, &device);
        let frames: Tensor<3> = numbers([BATCH, 3, 256], 1.0, &device);
        let noise = noise(3, &device);
        let bound = |model: &Svg| {
            let filtered = filter(model, frames.clone(), None, noise.clone(), None);
            filtered.bound(1.0).mean()
        };
        let chosen: [Choose; 6] = [
            |model| &mut encoder(model).levels[0].blocks[0].convolution.weight,
            |model| &mut encoder(model).levels[1].blocks[1].convolution.weight,
            |model| &mut encoder(model).top.convolution.weight,
            |model| &mut decoder(model).top.convolution.weight,
            |model| &mut decoder(model).levels[0].blocks[0].convolution.weight,
            |model| &mut decoder(model).output.weight,
        ];
        for (which, choose) in chosen.into_iter().enumerate() {
            let gradients = bound(&model).backward();
            let weight = choose(&mut model).val();
            let gradient = values(weight.grad(&gradients).unwrap());
            let (shape, weight) = (weight.dims(), values(weight));
            // The largest gradients, where rounding matters least.
            let mut largest: Vec<usize> = (0..weight.len()).collect();
            largest.sort_by(|&a, &b| gradient[b].abs().total_cmp(&gradient[a].abs()));
            for &index in &largest[..3] {
                let mut at = |offset: f32| {
                    let mut moved = weight.clone();
                    moved[index] += offset;
                    let moved = Tensor::<1>::from_floats(moved.as_slice(), &device).reshape(shape);
                    *choose(&mut model) = Param::from_tensor(moved.detach());
                    f64::from(bound(&model).into_scalar::<f32>())
                };
                let expected = (at(STEP) - at(-STEP)) / f64::from(2.0 * STEP);
                at(0.0);
                let found = f64::from(gradient[index]);
                assert!(
                    (found - expected).abs() < 0.05 * expected.abs().max(0.5),
                    "weight {index} of {which}: {found}, by differences {expected}"
                );
            }
        }
    }
}
