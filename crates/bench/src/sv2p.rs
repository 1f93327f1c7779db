//! SV2P at the sizes of its release: a training step.

use crate::{
    BenchError,
    benchmark::{Benchmark, Prepared},
    cost::Cost,
    draws::{initializer, numbers},
};
use burn::tensor::{Device, Tensor};
use mnemora_lab::load_experiment;
use mnemora_models::{AnyScenes, CdnaConfig, ImageShape, Learning, Sv2pConfig, Views};
use mnemora_training::{arrays::parameter_count, optimiser::ParameterGradients, updates::Updates};
use mnemora_worlds::Stream;

/// The frames of the travelling salesman.
const FRAME: ImageShape = ImageShape {
    channels: 3,
    height: 64,
    width: 64,
};
/// Frames of a story: the context, and the targets that follow.
const CONTEXT: usize = 6;
const TARGETS: usize = 14;
const MOMENTS: usize = CONTEXT + TARGETS;
/// Stories in a batch. The paper has 16, with which a step takes PyTorch more than 30 s on one core.
const BATCH: usize = 4;

pub(super) fn benchmark() -> Benchmark {
    Benchmark {
        name: "train-step/sv2p".into(),
        prepare: Box::new(training_step),
    }
}

/// Pixels of a frame, and of maps with a half, a quarter and an eighth of its rows.
fn pixels() -> [usize; 4] {
    [1, 2, 4, 8].map(|by| FRAME.height / by * (FRAME.width / by))
}

/// Channels of the input and of the state of each LSTM, and the pixels of its maps.
fn lstms(config: &CdnaConfig) -> [[usize; 3]; 7] {
    let w = config.width;
    let [_, fine, middle, coarse] = pixels();
    [
        [w, w, fine],
        [w, w, fine],
        [w, 2 * w, middle],
        [2 * w, 2 * w, middle],
        [2 * w, 4 * w, coarse],
        [4 * w, 2 * w, middle],
        [3 * w, w, fine],
    ]
}

/// The first layer of the predictor. Its input is data while true frames are fed.
fn first(config: &CdnaConfig) -> Cost {
    let [_, fine, ..] = pixels();
    Cost::convolution(FRAME.channels, config.width, 5, fine)
}

/// The other layers that every frame passes, with the LSTMs' convolutions of their inputs.
fn layers(config: &CdnaConfig) -> Cost {
    let w = config.width;
    let [_, _, middle, coarse] = pixels();
    let inputs = lstms(config).map(|[inputs, hidden, pixels]| {
        Cost::convolution(inputs, 4 * hidden, config.kernel, pixels)
    });
    let down = [
        Cost::convolution(w, w, 3, middle),
        Cost::convolution(2 * w, 2 * w, 3, coarse),
    ];
    // The latent is one channel more.
    let bottom = Cost::convolution(2 * w + 1, 2 * w, 1, coarse);
    let up = [
        Cost::convolution(4 * w, 4 * w, 3, coarse),
        Cost::convolution(3 * w, 3 * w, 3, middle),
    ];
    inputs.into_iter().chain(down).chain(up).sum::<Cost>() + bottom
}

/// The LSTMs' convolutions of their states. At the first step these are zero.
fn states(config: &CdnaConfig) -> Cost {
    let of = |[_, hidden, pixels]: [usize; 3]| {
        Cost::convolution(hidden, 4 * hidden, config.kernel, pixels)
    };
    lstms(config).into_iter().map(of).sum()
}

/// What only a prediction in the loss needs: the finest maps, masks, the generated frame and kernels, and from masks and
/// kernels one kernel for each pixel.
fn drawing(config: &CdnaConfig) -> Cost {
    let (w, places) = (2 * config.width, config.size * config.size);
    let [all, fine, _, coarse] = pixels();
    Cost::convolution(w, w, 3, fine)
        + Cost::convolution(w, config.kernels + 1 + FRAME.channels, 1, all)
        + Cost::product(1, 2 * w * coarse, config.kernels * places)
        // The last kernel is not used.
        + Cost::product(places, config.kernels - 1, all)
}

/// The frame before, moved by each pixel's kernel.
fn movement(config: &CdnaConfig) -> Cost {
    let [all, ..] = pixels();
    Cost::convolution(FRAME.channels, 1, config.size, all)
}

/// The posterior of a story: its first layer, whose input is data, and the others, with one output each for mean and log
/// variance.
fn tower() -> [Cost; 2] {
    let [_, fine, middle, coarse] = pixels();
    let others = Cost::convolution(32, 64, 3, middle)
        + Cost::convolution(64, 64, 3, middle)
        + Cost::convolution(64, 2, 3, coarse);
    let inputs = MOMENTS * FRAME.channels;
    [Cost::convolution(inputs, 32, 3, fine), others]
}

/// A lower bound on the operations of a training step for one story.
fn story(config: &CdnaConfig) -> Cost {
    let (steps, predicted) = ((MOMENTS - 1) as f64, (TARGETS - 1) as f64);
    let [tower_first, tower_others] = tower();
    // Only what follows the first target is predicted from a prediction.
    let from_data = first(config) * CONTEXT as f64 + movement(config) + tower_first;
    let learned = first(config) * predicted
        + layers(config) * steps
        + states(config) * (steps - 1.0)
        + drawing(config) * TARGETS as f64
        + movement(config) * predicted
        + tower_others;
    from_data.with_backward_to_weights() + learned.with_backward()
}

fn views(each: usize, device: &Device) -> Views {
    let rows = BATCH * each;
    let ImageShape {
        channels,
        height,
        width,
    } = FRAME;
    Views {
        frames: numbers([rows, channels, height, width], device).clamp(0.0, 1.0),
        queries: Tensor::zeros([rows, 1], device),
        each,
    }
}

/// A training step (forward, backward, clipping, Adam) on a batch of stories, at the end of training: latents come from the
/// posterior, the KL has its whole weight, and the model is given its own predictions after the context.
fn training_step(device: &Device) -> Result<Prepared, BenchError> {
    let experiment = load_experiment("travelling-salesman", &[])?;
    let config = Sv2pConfig::default();
    let mut init = initializer(device);
    let mut model = AnyScenes::Video(config.init(FRAME, MOMENTS, &mut init)?);
    let parameters = parameter_count(&model);
    let (context, targets) = (views(CONTEXT, device), views(TARGETS, device));
    let learning = Learning {
        update: config.full_from,
        variance: 1.0,
        noise: numbers([BATCH, model.noise_size(TARGETS)], device),
        choices: Stream::new(1, "choices").uniform_values(0, model.choices(BATCH, TARGETS)),
    };
    let mut updates = Updates::new(&experiment.training, device);
    let mut step = 0;
    let cost = story(&config.predictor) * BATCH as f64
        + Cost::array(6 * parameters + BATCH * MOMENTS * FRAME.size());
    Ok(Prepared::of_model(cost, parameters, move || {
        step += 1;
        let known = model.know(Some(&context), BATCH);
        let loss = model.learn(&known, &targets, learning.clone()).loss;
        let terms = loss.clone().inner();
        let gradients = ParameterGradients::of(&model, loss.backward());
        Ok(updates.make(&mut model, step, gradients, &["loss"], terms)?)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twice(multiplications: usize) -> f64 {
        2.0 * multiplications as f64
    }

    /// Multiplications of each network for one frame or story, by hand.
    #[test]
    fn networks_are_counted_by_hand() {
        let config = CdnaConfig::default();
        assert_eq!(first(&config).flops, twice(25 * 3 * 32 * 1024));
        // For each channel of an LSTM's input or state: places of the kernel, four gates, pixels.
        let (fine, middle, coarse) = (25 * 128 * 1024, 25 * 256 * 256, 25 * 512 * 64);
        let of_inputs = fine * (32 + 32 + 96) + middle * (32 + 64 + 128) + coarse * 64;
        let down = 9 * 32 * 32 * 256 + 9 * 64 * 64 * 64;
        let up = 9 * 128 * 128 * 64 + 9 * 96 * 96 * 256;
        let all_layers = of_inputs + down + 65 * 64 * 64 + up;
        assert_eq!(layers(&config).flops, twice(all_layers));
        let of_states = fine * 3 * 32 + middle * 3 * 64 + coarse * 128;
        assert_eq!(states(&config).flops, twice(of_states));
        let shown = 64 * (11 + 3) * 4096;
        let kernels = 8 * 8 * 128 * 250 + 25 * 9 * 4096;
        let drawn = 9 * 64 * 64 * 1024 + shown + kernels;
        assert_eq!(drawing(&config).flops, twice(drawn));
        assert_eq!(movement(&config).flops, twice(25 * 3 * 4096));
        let [first, others] = tower();
        assert_eq!(first.flops, twice(9 * 60 * 32 * 1024));
        let of_tower = 9 * (32 * 64 + 64 * 64) * 256 + 9 * 64 * 2 * 64;
        assert_eq!(others.flops, twice(of_tower));
    }

    /// Forward and backward through 19 predictions, 14 of them in the loss and 13 made from a prediction.
    #[test]
    fn a_step_passes_all_frames() {
        let config = CdnaConfig::default();
        let [tower_first, tower_others] = tower().map(|cost| cost.flops);
        let [first, layers, states, drawing, movement] =
            [first, layers, states, drawing, movement].map(|of| of(&config).flops);
        let expected = first * (2 * 6 + 3 * 13) as f64
            + layers * (3 * 19) as f64
            + states * (3 * 18) as f64
            + drawing * (3 * 14) as f64
            + movement * (2 + 3 * 13) as f64
            + 2.0 * tower_first
            + 3.0 * tower_others;
        assert_eq!(story(&config).flops, expected);
    }

    /// At the end of training no story is given true frames after the context, and the KL has its whole weight.
    #[test]
    fn the_update_is_one_at_the_end_of_training() {
        let config = Sv2pConfig::default();
        assert_eq!(config.predictor.given_true(BATCH, config.full_from), 0);
        assert_eq!(config.weight(config.full_from), config.kl_weight);
    }
}
