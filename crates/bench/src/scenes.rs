//! The consistent GQN at the sizes of Kumar et al. 2018, appendix B: a training step, and samples of a sequence.

use crate::{
    BenchError,
    benchmark::{Benchmark, Prepared},
    cost::Cost,
    draws::{initializer, numbers},
};
use burn::{module::Module, tensor::Device};
use mnemora_lab::load_experiment;
use mnemora_models::{Cgqn, CgqnConfig, ImageShape, Latents, Views};
use mnemora_training::{arrays::parameter_count, optimiser::ParameterGradients, updates::Updates};
use std::hint::black_box;

/// The frames of both worlds.
const FRAME: ImageShape = ImageShape {
    channels: 3,
    height: 64,
    width: 64,
};
/// Pixels of a representation and of the renderer's canvas, and of the LSTMs' maps.
const CANVAS: usize = 16 * 16;
const GRID: usize = 8 * 8;
/// Scenes in a batch.
const BATCH: usize = 16;
/// Samples of a sequence.
const SAMPLES: usize = 30;
const VARIANCE: f64 = 0.5;

/// A world of the paper, with the sizes of its model.
#[derive(Clone, Copy)]
struct World {
    name: &'static str,
    query: usize,
    steps: usize,
    hidden: usize,
    context: usize,
    targets: usize,
    /// Views that are drawn in a sample of a sequence.
    asked: usize,
}

/// Travelling salesman, and MNIST dice.
const WORLDS: [World; 2] = [
    World {
        name: "narratives",
        query: 1,
        steps: 4,
        hidden: 64,
        context: 6,
        targets: 4,
        asked: 20,
    },
    World {
        name: "dice",
        query: 7,
        steps: 6,
        hidden: 128,
        context: 4,
        targets: 3,
        asked: 3,
    },
];

pub(super) fn benchmarks() -> Vec<Benchmark> {
    let of = |kind: &str, prepare: fn(World, &Device) -> Result<Prepared, BenchError>| {
        WORLDS.map(|world| Benchmark {
            name: format!("{kind}/cgqn-{}", world.name),
            prepare: Box::new(move |device| prepare(world, device)),
        })
    };
    [of("train-step", training_step), of("samples", samples)]
        .into_iter()
        .flatten()
        .collect()
}

impl World {
    fn config(self) -> CgqnConfig {
        CgqnConfig {
            steps: self.steps,
            hidden: self.hidden,
            decoded: self.hidden,
            ..CgqnConfig::default()
        }
    }

    fn model(self, device: &Device) -> Result<Cgqn, BenchError> {
        let mut init = initializer(device);
        let config = self.config();
        Ok(config.init(Latents::Consistent, FRAME, self.query, &mut init)?)
    }

    /// The first layer, whose input is data, and the others.
    fn representation(self) -> [Cost; 2] {
        let [first, second, third, top] = self.config().representation;
        let others = Cost::convolution(first, second, 2, CANVAS)
            + Cost::convolution(second, third, 3, CANVAS)
            + Cost::convolution(third, top, 3, CANVAS);
        let inputs = FRAME.channels + self.query;
        [Cost::convolution(inputs, first, 2, 4 * CANVAS), others]
    }

    /// A convolutional LSTM, with `given` channels once and `inputs` channels at each step.
    fn lstm(self, given: usize, inputs: usize) -> Cost {
        let CgqnConfig {
            steps,
            hidden,
            kernel,
            ..
        } = self.config();
        let of = |channels| Cost::convolution(channels, 4 * hidden, kernel, GRID);
        of(given) + of(hidden + inputs) * steps as f64
    }

    /// The prior or posterior of a scene, which reads `representations` and has `inputs` besides its latent.
    fn belief(self, representations: usize, inputs: usize) -> Cost {
        let CgqnConfig {
            steps,
            latent,
            hidden,
            encoded,
            representation: [.., top],
            ..
        } = self.config();
        Cost::convolution(representations * top, encoded, 2, GRID)
            + self.lstm(encoded, latent + inputs)
            + Cost::convolution(hidden, 2 * latent, 5, GRID) * steps as f64
    }

    fn prior(self) -> Cost {
        self.belief(1, 0)
    }

    fn posterior(self) -> Cost {
        self.belief(2, self.hidden)
    }

    /// The renderer of one frame.
    fn renderer(self) -> Cost {
        let CgqnConfig {
            steps,
            latent,
            hidden,
            canvas,
            decoded,
            ..
        } = self.config();
        let of_step = Cost::convolution(canvas, decoded, 2, GRID)
            + Cost::convolution(hidden, canvas, 2, GRID);
        self.lstm(self.query, latent + decoded)
            + of_step * steps as f64
            + Cost::convolution(canvas, FRAME.channels, 4, CANVAS)
    }

    fn views(self, scenes: usize, each: usize, device: &Device) -> Views {
        let rows = scenes * each;
        let ImageShape {
            channels,
            height,
            width,
        } = FRAME;
        Views {
            frames: numbers([rows, channels, height, width], device).clamp(0.0, 1.0),
            queries: numbers([rows, self.query], device),
            each,
        }
    }
}

/// A training step (forward, backward, clipping, Adam) on a batch of scenes.
fn training_step(world: World, device: &Device) -> Result<Prepared, BenchError> {
    let experiment = load_experiment("travelling-salesman", &[])?;
    let mut model = world.model(device)?;
    let parameters = parameter_count(&model);
    let context = world.views(BATCH, world.context, device);
    let targets = world.views(BATCH, world.targets, device);
    let noise = numbers([BATCH, model.noise_size(world.targets)], device);
    let mut updates = Updates::new(&experiment.training, device);
    let mut step = 0;
    let views = BATCH * (world.context + world.targets);
    let [first, others] = world.representation();
    let learned = others * views as f64
        + (world.prior() + world.posterior()) * BATCH as f64
        + world.renderer() * (BATCH * world.targets) as f64;
    let cost = first.with_backward_to_weights() * views as f64
        + learned.with_backward()
        + Cost::array(6 * parameters + views * FRAME.size());
    Ok(Prepared::of_model(cost, parameters, move || {
        step += 1;
        let known = model.represent(Some(&context), BATCH);
        let found = model.bound(&known, &targets, noise.clone());
        let bound = found.without_constant(VARIANCE).mean();
        let terms = bound.clone().inner();
        let gradients = ParameterGradients::of(&model, bound.neg().backward());
        Ok(updates.make(&mut model, step, gradients, &["bound"], terms)?)
    }))
}

/// Samples of one sequence: each is a scene, of which all views are drawn.
fn samples(world: World, device: &Device) -> Result<Prepared, BenchError> {
    // Only parameters that are trained are counted.
    let parameters = parameter_count(&world.model(device)?);
    let device = &device.clone().inner();
    let model = world.model(device)?.no_grad();
    let context = world.views(1, world.context, device);
    let queries = world.views(1, world.asked, device).queries;
    let noise = numbers([SAMPLES, model.noise_size(world.asked)], device);
    let frames = SAMPLES * world.asked;
    let represented: Cost = world.representation().into_iter().sum();
    let cost = represented * world.context as f64
        + world.prior() * SAMPLES as f64
        + world.renderer() * frames as f64
        + Cost::array(parameters + (world.context + frames) * FRAME.size());
    Ok(Prepared::of_model(cost, parameters, move || {
        let known = model.represent(Some(&context), 1).repeated(SAMPLES);
        let queries = queries.clone().repeat_dim(0, SAMPLES);
        black_box(model.sample(&known, queries, noise.clone()).into_data());
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplications of each network at the sizes of the travelling salesman, by hand.
    #[test]
    fn networks_are_counted_by_hand() {
        let world = WORLDS[0];
        let twice = |multiplications: usize| 2.0 * multiplications as f64;
        let [first, others] = world.representation();
        assert_eq!(first.flops, twice(4 * 4 * 8 * 1024));
        assert_eq!(
            others.flops,
            twice((4 * 8 * 16 + 9 * 16 * 32 + 9 * 32 * 32) * 256)
        );
        let prior = 4 * 32 * 128 + 25 * 256 * (128 + 4 * 67) + 4 * 25 * 64 * 6;
        assert_eq!(world.prior().flops, twice(64 * prior));
        let posterior = 4 * 64 * 128 + 25 * 256 * (128 + 4 * 131) + 4 * 25 * 64 * 6;
        assert_eq!(world.posterior().flops, twice(64 * posterior));
        let step = 4 * 128 * 64 + 25 * 256 * 131 + 4 * 64 * 128;
        let renderer = 64 * (25 * 256 + 4 * step) + 256 * 16 * 128 * 3;
        assert_eq!(world.renderer().flops, twice(renderer));
    }
}
