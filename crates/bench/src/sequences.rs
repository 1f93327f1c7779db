//! Training steps of the stochastic recurrent networks at the sizes of Marino et al. 2018 (avf), appendix B,
//! with their own posteriors and with variational filtering.

use crate::{
    BenchError,
    benchmark::{Benchmark, Prepared},
    cost::Cost,
    draws::{initializer, numbers},
};
use burn::{
    module::Module,
    tensor::{Device, Gradients, Tensor},
};
use mnemora_models::{
    FilteringModel, ImageShape, InferenceNoise, IterativeConfig, LikelihoodConfig, Srnn,
    SrnnConfig, Svg, SvgConfig, SvgNetwork, VrnnConfig, filter, filter_given, infer,
};
use mnemora_training::{
    amortize::Amortizer,
    arrays::parameter_count,
    optimiser::{Optimiser, ParameterGradients, take},
};

/// Resolution of 16-bit sound divided by the standard deviation of speech.
const BIN: f64 = 0.001_819_074_2;
const SPEECH: LikelihoodConfig = LikelihoodConfig::Normal {
    bin: BIN,
    squashed: false,
};

/// Learning rate of the generative model and of the inference network.
pub(super) const LEARNING_RATE: f64 = 1e-4;

/// Sequences per batch, steps per sequence, and numbers per observation.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) time: usize,
    pub(super) observation: usize,
}

impl Sizes {
    fn rows(self) -> usize {
        self.batch * self.time
    }
}

pub(super) const MUSIC_SIZES: Sizes = Sizes {
    batch: 16,
    time: 25,
    observation: 88,
};

const SPEECH_SIZES: Sizes = Sizes {
    batch: 64,
    time: 40,
    observation: 200,
};

/// The SRNN for piano rolls.
pub(super) const MUSIC: SrnnConfig = SrnnConfig {
    observation: MUSIC_SIZES.observation,
    latent: 100,
    hidden: 300,
    units: 500,
    layers: 1,
    decoder_layers: 2,
    smoothing: false,
    likelihood: LikelihoodConfig::Bernoulli,
};

const SRNN_SPEECH: SrnnConfig = SrnnConfig {
    observation: SPEECH_SIZES.observation,
    latent: 256,
    hidden: 1024,
    units: 512,
    layers: 2,
    decoder_layers: 2,
    smoothing: false,
    likelihood: SPEECH,
};

const VRNN_SPEECH: VrnnConfig = VrnnConfig {
    observation: SPEECH_SIZES.observation,
    latent: 200,
    hidden: 2000,
    layers: 4,
    observation_units: 600,
    latent_units: 500,
    likelihood: SPEECH,
};

const VIDEO_SIZES: Sizes = Sizes {
    batch: 10,
    time: 20,
    observation: VIDEO_FRAME.height * VIDEO_FRAME.width,
};

const VIDEO_FRAME: ImageShape = ImageShape {
    channels: 1,
    height: 64,
    width: 64,
};

/// The inference network for piano rolls.
pub(super) const INFERENCE: IterativeConfig = IterativeConfig {
    latent: MUSIC.latent,
    hidden: 1024,
    observation: 0,
    normalise_mean: false,
};

pub(super) fn benchmarks() -> Vec<Benchmark> {
    vec![
        Benchmark {
            name: "train-step/vrnn-speech".into(),
            prepare: Box::new(|device| {
                let model = VRNN_SPEECH.init(&mut initializer(device))?;
                let cost = training_step(
                    SPEECH_SIZES,
                    parameter_count(&model),
                    VRNN_SPEECH.observation_units,
                );
                Ok(direct(model, SPEECH_SIZES, numbers, cost, device))
            }),
        },
        Benchmark {
            name: "train-step/srnn-speech".into(),
            prepare: Box::new(|device| {
                let model = SRNN_SPEECH.init(&mut initializer(device))?;
                let cost = srnn_step(&SRNN_SPEECH, SPEECH_SIZES, &model);
                Ok(direct(model, SPEECH_SIZES, numbers, cost, device))
            }),
        },
        Benchmark {
            name: "train-step/srnn-music".into(),
            prepare: Box::new(|device| {
                let model = MUSIC.init(&mut initializer(device))?;
                let cost = srnn_step(&MUSIC, MUSIC_SIZES, &model);
                Ok(direct(model, MUSIC_SIZES, notes, cost, device))
            }),
        },
        Benchmark {
            name: "train-step/svg-dcgan".into(),
            prepare: Box::new(|device| {
                let config = SvgConfig::original(VIDEO_FRAME, SvgNetwork::Dcgan);
                let model = config.init(&mut initializer(device))?;
                let cost = svg_step(&config, VIDEO_SIZES, &model);
                Ok(direct(model, VIDEO_SIZES, pixels, cost, device))
            }),
        },
        Benchmark {
            name: "avf-step/srnn-music".into(),
            prepare: Box::new(|device| {
                let model = MUSIC.init(&mut initializer(device))?;
                variational(model, MUSIC_SIZES, device)
            }),
        },
    ]
}

/// Each note sounds with a probability of about one in eight.
pub(super) fn notes<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    numbers(shape, device).greater_elem(1.15).float()
}

/// Black or white with equal probability.
fn pixels<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    numbers(shape, device).clamp(0.0, 1.0)
}

/// Every parameter counts one multiplication and one addition per row. `fed` units read observations, which need
/// no gradient. Adam reads and writes each parameter and its two moments.
pub(super) fn training_step(sizes: Sizes, parameters: usize, fed: usize) -> Cost {
    let data = sizes.observation * fed;
    Cost::product(sizes.rows(), parameters - data, 1).with_backward()
        + Cost::product(sizes.rows(), data, 1).with_backward_to_weights()
        + Cost::array(6 * parameters + sizes.rows() * sizes.observation)
}

fn srnn_step(config: &SrnnConfig, sizes: Sizes, model: &Srnn) -> Cost {
    let fed = 4 * config.hidden + config.units;
    training_step(sizes, parameter_count(model), fed)
}

/// 4x4 convolutions between the levels, where the first one of the encoder reads data. The parameters of the
/// LSTMs and of their maps are counted as in [`training_step`].
fn svg_step(config: &SvgConfig, sizes: Sizes, model: &Svg) -> Cost {
    let stacks = [
        Some(&model.predictor),
        Some(&model.posterior),
        model.prior.as_ref(),
    ];
    let recurrent: usize = stacks.into_iter().flatten().map(parameter_count).sum();
    let side = config.frame.height;
    let channels: Vec<usize> = (0..(side / 4).ilog2())
        .map(|level| config.width << level.min(3))
        .collect();
    let pixels = |level: usize| (side >> (level + 1)).pow(2);
    let first = Cost::convolution(config.frame.channels, channels[0], 4, pixels(0));
    let mut both = Cost::default();
    for (level, pair) in channels.windows(2).enumerate() {
        // Down, and up again from twice as many channels, at the places of the coarser level.
        both = both
            + Cost::convolution(pair[0], pair[1], 4, pixels(level + 1))
            + Cost::convolution(2 * pair[1], pair[0], 4, pixels(level + 1));
    }
    let top = Cost::convolution(channels[channels.len() - 1], 2 * config.features, 4, 1);
    let outputs = config.likelihood.outputs(config.frame.channels);
    let last = Cost::convolution(2 * channels[0], outputs, 4, pixels(0));
    let frames = first.with_backward_to_weights() + (both + top + last).with_backward();
    frames * sizes.rows() as f64
        + Cost::product(sizes.rows(), recurrent, 1).with_backward()
        + Cost::array(6 * parameter_count(model) + sizes.rows() * sizes.observation)
}

/// A training step on the bound with the model's own posterior. Sequences and noise are made beforehand.
pub(super) fn direct<M: FilteringModel + Module + 'static>(
    model: M,
    sizes: Sizes,
    observations: fn([usize; 3], &Device) -> Tensor<3>,
    cost: Cost,
    device: &Device,
) -> Prepared {
    let Sizes { batch, time, .. } = sizes;
    let x = observations([batch, time, sizes.observation], device);
    let noise = numbers([time, batch, model.noise_size()], device);
    let parameters = parameter_count(&model);
    let mut learned = Learned::new(model);
    Prepared::of_model(cost, parameters, move || {
        learned.step(|model| {
            let filtered = filter(model, x.clone(), None, noise.clone(), None);
            filtered.bound(1.0).mean().neg().backward()
        });
        Ok(())
    })
}

/// A model and its optimiser.
struct Learned<M> {
    model: M,
    optimiser: Optimiser,
    updates: u64,
}

impl<M: Module> Learned<M> {
    fn new(model: M) -> Self {
        Self {
            model,
            optimiser: Optimiser::default(),
            updates: 0,
        }
    }

    fn step(&mut self, gradients: impl FnOnce(&M) -> Gradients) {
        let gradients = ParameterGradients::of(&self.model, gradients(&self.model));
        self.updates += 1;
        let before = take(&mut self.model);
        self.model = self
            .optimiser
            .step(before, gradients, 1.0, LEARNING_RATE, self.updates);
    }
}

/// A training step by variational filtering with one iteration: a network infers the beliefs and then learns
/// from all of them, followed by the model's own update.
fn variational(model: Srnn, sizes: Sizes, device: &Device) -> Result<Prepared, BenchError> {
    let Sizes { batch, time, .. } = sizes;
    let x = notes([batch, time, sizes.observation], device);
    let net = INFERENCE.init(&mut initializer(device))?;
    let (own, nets) = (parameter_count(&model), parameter_count(&net));
    let cost = variational_step(sizes, &model, nets);
    let mut amortizer = Amortizer::new(net, 1, LEARNING_RATE);
    amortizer.online = false;
    let noise = inference_noise(sizes, model.latent_size(), device);
    let mut learned = Learned::new(model);
    Ok(Prepared::of_model(cost, own + nets, move || {
        learned.step(|model| {
            let fixed = model.clone().freeze();
            let noise = noise.clone();
            let inferred = infer(&fixed, &mut amortizer, x.clone(), None, noise, 1.0, None);
            amortizer.finish();
            let filtered = filter_given(model, x.clone(), None, &inferred, None);
            filtered.bound(1.0).mean().neg().backward()
        });
        match amortizer.failure() {
            None => Ok(()),
            Some(what) => Err(BenchError::NonFinite(what.to_owned())),
        }
    }))
}

/// Noise for one iteration.
pub(super) fn inference_noise(sizes: Sizes, latent: usize, device: &Device) -> InferenceNoise {
    let shape = [1, sizes.time, sizes.batch, latent];
    let all = numbers([3, sizes.time, sizes.batch, latent], device);
    let inner = all.split(1, 0);
    InferenceNoise {
        inner: inner[..2]
            .iter()
            .map(|one| one.clone().reshape(shape))
            .collect(),
        step: inner[2].clone().squeeze_dim(0),
    }
}

/// Inference: the LSTM and the prior forward, the decoder forward and backward to its inputs for two beliefs,
/// and the network forward and backward. Then the model forward and backward.
fn variational_step(sizes: Sizes, model: &Srnn, nets: usize) -> Cost {
    let rows = sizes.rows();
    let decoder = parameter_count(&model.decoder);
    let ahead = parameter_count(&model.lstm) + parameter_count(&model.prior);
    let inference = Cost::product(rows, ahead + 4 * decoder, 1)
        + Cost::product(rows, nets, 1).with_backward_to_weights();
    let fed = sizes.observation * 4 * model.lstm.hidden_size();
    let learning = Cost::product(rows, ahead - fed + decoder, 1).with_backward()
        + Cost::product(rows, fed, 1).with_backward_to_weights();
    let both = parameter_count(model) + nets;
    inference + learning + Cost::array(6 * both + rows * sizes.observation)
}
