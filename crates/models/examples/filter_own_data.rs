//! Using your own data: train a small model, filter online one step at a time, and forecast.
//!
//! `cargo run --release --example filter_own_data`
//!
//! A ring of 16 sensors observes a wave. Its phase jumps at every step, but the phases repeat after
//! four steps: a model that remembers the first four frames can predict the rest.

use std::f32::consts::TAU;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Distribution, Gradients, Tensor};
use mnemora_memory::{AnyMemory, Initializer, IntrospectionConfig, MemoryConfig};
use mnemora_models::{
    Distribution as _, FilteringModel, Gtmm, GtmmConfig, ImageShape, KlFrom as _, LikelihoodConfig,
    ModelError, VisualConfig, filter, generate,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// The model, and the state that it carries from step to step.
type Model = Gtmm<AnyMemory>;
type State = <Model as FilteringModel>::State;

const SENSORS: usize = 16;
const PERIOD: usize = 4;
const SEEN: usize = 8;
const FORECAST: usize = 4;
const TIME: usize = SEEN + FORECAST;
const LATENT: usize = 2;
const UPDATES: usize = 1000;
const BATCH: usize = 32;
const RATE: f64 = 5e-3;

fn main() -> Result<(), ModelError> {
    let device = Device::default();
    // Training records operations for its gradients; filtering does not.
    let recording = device.clone().autodiff();
    recording.seed(1);
    let model = train(model(&recording)?, &recording).valid();

    let frames = sequences(1, &device);
    let state = watch(&model, frames.clone().narrow(1, 0, SEEN));
    forecast(&model, state, frames.narrow(1, SEEN, FORECAST));
    Ok(())
}

/// A small GTMM. To change the memory, name another one here.
fn model(device: &Device) -> Result<Model, ModelError> {
    let memory = MemoryConfig::Introspection(IntrospectionConfig {
        latent: LATENT,
        condition: 0,
        hidden: 32,
        attention: 32,
        reads: PERIOD,
        slots: TIME,
    });
    GtmmConfig {
        frame: ImageShape {
            channels: 1,
            height: 1,
            width: SENSORS,
        },
        visual: VisualConfig::Dense {
            hidden: 64,
            features: 32,
        },
        prior_hidden: 32,
        posterior_hidden: 32,
        likelihood: LikelihoodConfig::Gaussian { std: 0.1 },
    }
    .init(
        &memory,
        &mut Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone()),
    )
}

fn train(mut model: Model, device: &Device) -> Model {
    for update in 0..UPDATES {
        let frames = sequences(BATCH, device);
        let noise = normal([TIME, BATCH, LATENT], device);
        // The free energy: KL minus reconstruction. It falls as the model learns; the KL of the
        // repeated frames falls once the model has learned to look them up.
        let filtered = filter(&model, frames, None, noise, None);
        let loss = filtered.bound(1.0).mean().neg();
        if update % 100 == 0 || update == UPDATES - 1 {
            let kl = filtered.kl.mean_dim(1);
            let repeated = kl.clone().narrow(0, PERIOD, TIME - PERIOD);
            println!(
                "update {update:>4}: free energy {:>7.1} nats a sequence; KL {:.1} nats of a new frame, \
                 {:.1} of a repeated one",
                loss.clone().into_scalar::<f32>(),
                kl.narrow(0, 0, PERIOD).mean().into_scalar::<f32>(),
                repeated.mean().into_scalar::<f32>(),
            );
        }
        let remaining = 1.0 - update as f64 / UPDATES as f64;
        let gradients = loss.backward();
        model = model.map(&mut SignDescent {
            rate: RATE * remaining,
            gradients,
        });
    }
    model
}

/// Filters one sequence `[1, time, SENSORS]` one frame at a time, as it would arrive from a sensor.
fn watch(model: &Model, frames: Tensor<3>) -> State {
    let [_, time, _] = frames.dims();
    let device = frames.device();
    let prepared = model.prepare();
    let mut state = model.initial_state(1);
    println!("\nstep  surprise (nats)  prediction error");
    for (t, frame) in (1..).zip(frames.chunk(time, 1)) {
        // Before the frame is seen: the prior, and the frame expected under its mean.
        let mut context = model.predict(&prepared, None, None, state);
        let prior = model.prior(model.prior_input(&context));
        let expected = model
            .decode(model.emit(prior.mean.clone(), &context))
            .mean();

        // The frame arrives: its features, the posterior, a sample of it.
        let seen: Tensor<2> = frame.clone().squeeze_dim(1);
        let features = model.encode(frame).remove(0);
        let posterior = model.posterior(&features, &mut context);
        let z = posterior.sample(normal([1, LATENT], &device));

        // Free energy of the step: the KL divergence of the posterior from the prior, minus the log likelihood.
        // The latter is a log density here, so the free energy may be negative.
        let emission = model.emit(z.clone(), &context);
        let likelihood = model.decode(emission.clone());
        let surprise = prior.kl_from(&posterior, &z) - likelihood.log_probability(seen.clone());
        let error = (expected - seen).powi_scalar(2).mean().sqrt();
        println!(
            "{t:>4}  {:>15.1}  {:>16.3}",
            surprise.into_scalar::<f32>(),
            error.into_scalar::<f32>()
        );

        state = model.update(&features, z, &emission, context);
    }
    state
}

/// Forecasts from a state without observations: samples from the prior, step after step.
fn forecast(model: &Model, state: State, came: Tensor<3>) {
    let forecast = generate(
        model,
        state,
        None,
        normal([FORECAST, 1, LATENT], &came.device()),
        |_, likelihood| likelihood.mean(),
    )
    .frames;
    println!("\nstep  observed            forecast");
    for ((t, came), forecast) in (SEEN + 1..).zip(lines(came)).zip(lines(forecast)) {
        println!("{t:>4}  {came}  {forecast}");
    }
}

/// Noisy waves `[batch, TIME, SENSORS]` in `[0, 1]`; the phases of the first `PERIOD` steps repeat.
fn sequences(batch: usize, device: &Device) -> Tensor<3> {
    let phases = Tensor::<3>::random([batch, PERIOD, 1], Distribution::Uniform(0.0, 1.0), device)
        .repeat_dim(1, TIME.div_ceil(PERIOD))
        .narrow(1, 0, TIME);
    let angles: [f32; SENSORS] = std::array::from_fn(|i| i as f32 / SENSORS as f32 * TAU);
    let angles = Tensor::<3>::from_floats([[angles]], device);
    let waves = (phases * TAU + angles).sin() * 0.4 + 0.5;
    (waves + normal([batch, TIME, SENSORS], device) * 0.05).clamp(0.0, 1.0)
}

fn normal<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Sign gradient descent: every parameter moves by `rate` against the sign of its gradient. This is enough for a
/// small model and needs no state; `mnemora-lab` trains with Adam.
struct SignDescent {
    rate: f64,
    gradients: Gradients,
}

impl ModuleMapper for SignDescent {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match param.val().grad_remove(&mut self.gradients) {
            None => param,
            Some(gradient) => param.map(|value| {
                let moved = value.inner() - gradient.sign() * self.rate;
                Tensor::from_inner(moved).require_grad()
            }),
        }
    }
}

/// Each frame of the first sequence as a line of shades.
fn lines(frames: Tensor<3>) -> Vec<String> {
    let values: Vec<f32> = frames.into_data().iter::<f32>().collect();
    values
        .chunks(SENSORS)
        .map(|frame| frame.iter().map(|&v| shade(v)).collect())
        .collect()
}

fn shade(value: f32) -> char {
    const SHADES: &[u8] = b" .:-=+*#%@";
    SHADES[((value * SHADES.len() as f32) as usize).min(SHADES.len() - 1)].into()
}
