//! Models at the sizes of users' own data: training steps, a filter's step, samples of a forecast.

use crate::{
    BenchError,
    benchmark::{Benchmark, Prepared},
    cost::Cost,
    draws::{initializer, numbers},
    sequences::{MUSIC, Sizes, direct, notes, training_step},
};
use burn::tensor::{Device, Tensor};
use mnemora_models::{
    ColumnLikelihood, Columns, FilteringModel, LikelihoodConfig, Srnn, SrnnConfig, VrnnConfig,
    generate,
};
use mnemora_training::{
    arrays::{collect, parameter_count},
    online::{Numbers, Observed, Online, OnlineFilter},
    strategy::{Inference, noise},
};
use mnemora_worlds::{FrameShape, Scale, Stream};
use std::hint::black_box;

/// Many numbers at each step, such as the bins of a spectrum.
const SPECTRUM: Sizes = Sizes {
    batch: 128,
    time: 50,
    observation: 513,
};
const DENSITY: LikelihoodConfig = LikelihoodConfig::Normal {
    bin: 0.0,
    squashed: false,
};
const SRNN_SPECTRUM: SrnnConfig = SrnnConfig {
    observation: SPECTRUM.observation,
    latent: 16,
    hidden: 128,
    units: 256,
    layers: 1,
    decoder_layers: 1,
    smoothing: false,
    likelihood: DENSITY,
};
const VRNN_SPECTRUM: VrnnConfig = VrnnConfig {
    observation: SPECTRUM.observation,
    latent: 16,
    hidden: 128,
    layers: 1,
    observation_units: 256,
    latent_units: 128,
    likelihood: DENSITY,
};

/// Columns of a table of numbers.
const COLUMNS: usize = 8;
/// The batches of `own-small`, with the step before a window.
const TABLE: Sizes = Sizes {
    batch: 16,
    time: 65,
    observation: 2 * COLUMNS,
};
/// Samples and steps of a forecast.
const FORECAST: [usize; 2] = [1000, 24];

fn table_likelihood() -> LikelihoodConfig {
    LikelihoodConfig::Columns(Columns {
        columns: [ColumnLikelihood::StudentT; COLUMNS].into(),
        extras: 0,
    })
}

/// The model of `own-small`.
fn srnn_table() -> SrnnConfig {
    SrnnConfig {
        observation: TABLE.observation,
        latent: 4,
        hidden: 32,
        units: 32,
        layers: 1,
        decoder_layers: 1,
        smoothing: false,
        likelihood: table_likelihood(),
    }
}

fn vrnn_table() -> VrnnConfig {
    VrnnConfig {
        observation: TABLE.observation,
        latent: 4,
        hidden: 32,
        layers: 1,
        observation_units: 32,
        latent_units: 32,
        likelihood: table_likelihood(),
    }
}

/// Numbers, of which all were observed.
fn observed_rows(shape: [usize; 3], device: &Device) -> Tensor<3> {
    let [batch, time, _] = shape;
    let values = numbers([batch, time, COLUMNS], device);
    Tensor::cat(vec![values.clone(), values.ones_like()], 2)
}

pub(super) fn benchmarks() -> Vec<Benchmark> {
    let srnn = |name: &str, config: SrnnConfig, sizes: Sizes, x| Benchmark {
        name: name.into(),
        prepare: Box::new(move |device| {
            let model = config.init(&mut initializer(device))?;
            let fed = 4 * config.hidden + config.units;
            let cost = training_step(sizes, parameter_count(&model), fed);
            Ok(direct(model, sizes, x, cost, device))
        }),
    };
    let vrnn = |name: &str, config: VrnnConfig, sizes: Sizes, x| Benchmark {
        name: name.into(),
        prepare: Box::new(move |device| {
            let model = config.init(&mut initializer(device))?;
            let cost = training_step(sizes, parameter_count(&model), config.observation_units);
            Ok(direct(model, sizes, x, cost, device))
        }),
    };
    vec![
        srnn("train-step/srnn-spectrum", SRNN_SPECTRUM, SPECTRUM, numbers),
        vrnn("train-step/vrnn-spectrum", VRNN_SPECTRUM, SPECTRUM, numbers),
        srnn("train-step/srnn-table", srnn_table(), TABLE, observed_rows),
        vrnn("train-step/vrnn-table", vrnn_table(), TABLE, observed_rows),
        filter_step("filter/srnn-music", MUSIC, notes, false),
        weights_pass("weights-pass/srnn-music", MUSIC),
        filter_step("filter/srnn-table", srnn_table(), observed_rows, true),
        forecast(),
    ]
}

/// One observation, or row of a table, by an online filter; of the music model with its prediction of the next one.
fn filter_step(
    name: &str,
    config: SrnnConfig,
    x: fn([usize; 3], &Device) -> Tensor<3>,
    rows: bool,
) -> Benchmark {
    const STEPS: usize = 64;
    Benchmark {
        name: name.into(),
        prepare: Box::new(move |device| {
            let device = device.clone().inner();
            let model = config.init(&mut initializer(&device))?;
            let (parameters, weights) = (parameter_count(&model), collect(&model));
            let size = config.observation;
            let all = x([1, STEPS, size], &device).into_data();
            let all: Vec<f32> = all.iter().collect();
            let observed = Observed {
                frame: FrameShape {
                    channels: 1,
                    height: 1,
                    width: size,
                },
                numbers: Numbers::Any,
                scale: Scale {
                    mean: 0.0,
                    deviation: 1.0,
                },
                conditions: 0,
            };
            let mut online = Online::new(Inference::direct(model), observed, &weights, 1);
            let mut step = 0;
            let cost = Cost::product(1, parameters, 1);
            Ok(Prepared::of_model(cost, parameters, move || {
                let row = &all[step % STEPS * size..][..size];
                step += 1;
                let done = match rows {
                    true => online.pass(row).map(drop),
                    false => online.step(row, None).map(drop),
                };
                done.map_err(BenchError::NonFinite)
            }))
        }),
    }
}

/// All weights of a model, read and added up once.
fn weights_pass(name: &str, config: SrnnConfig) -> Benchmark {
    const LANES: usize = 32;
    Benchmark {
        name: name.into(),
        prepare: Box::new(move |device| {
            let model: Srnn = config.init(&mut initializer(device))?;
            let count = parameter_count(&model);
            let weights: Vec<f32> = collect(&model)
                .into_values()
                .flat_map(|a| a.values)
                .collect();
            let cost = Cost::array(weights.len());
            Ok(Prepared::of_model(cost, count, move || {
                let mut sums = [0.0_f32; LANES];
                for chunk in black_box(&weights).chunks_exact(LANES) {
                    for (sum, weight) in sums.iter_mut().zip(chunk) {
                        *sum += weight;
                    }
                }
                black_box(sums);
                Ok(())
            }))
        }),
    }
}

/// Samples of the steps after a row.
fn forecast() -> Benchmark {
    Benchmark {
        name: "forecast/srnn-table".into(),
        prepare: Box::new(|device| {
            let device = device.clone().inner();
            let config = srnn_table();
            let model = config.init(&mut initializer(&device))?;
            let parameters = parameter_count(&model);
            let [samples, steps] = FORECAST;
            let cost = Cost::product(samples * steps, parameters, 1);
            let draws = Stream::new(1, "benchmark");
            Ok(Prepared::of_model(cost, parameters, move || {
                let shape = [steps, samples, model.generation_noise()];
                let latents = noise(&draws, 0, shape, &device);
                let observed = noise(&draws, 1, [steps, samples, TABLE.observation], &device);
                let state = model.initial_state(samples);
                let generated = generate(&model, state, None, latents, |step, likelihood| {
                    likelihood.sample(observed.clone().narrow(0, step, 1).squeeze_dim::<2>(0))
                });
                black_box(generated.frames.into_data());
                Ok(())
            }))
        }),
    }
}
