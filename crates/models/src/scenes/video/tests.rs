//! Tests of [`Video`].

use super::*;
use crate::check::{numbers, values};
use burn::{module::Param, tensor::Device};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const MOMENTS: usize = 5;
const SEEN: usize = 2;

fn apart<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
    (a - b).abs().max().into_scalar()
}

fn config() -> Sv2pConfig {
    Sv2pConfig {
        predictor: CdnaConfig {
            width: 2,
            kernel: 3,
            grid: 2,
            kernels: 3,
            size: 3,
            sampling: 5.0,
        },
        noise_until: 2,
        free_until: 4,
        full_from: 8,
        kl_weight: 0.5,
        softened: false,
    }
}

fn shape(side: usize) -> ImageShape {
    ImageShape {
        channels: 2,
        height: side,
        width: side,
    }
}

fn initializer(device: &Device) -> Initializer {
    Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone())
}

fn sv2p(side: usize, device: &Device) -> Video {
    let init = &mut initializer(device);
    config().init(shape(side), MOMENTS, init).unwrap()
}

fn cdna(side: usize, device: &Device) -> Video {
    let init = &mut initializer(device);
    config().predictor.init(shape(side), MOMENTS, init).unwrap()
}

/// Context and targets of stories.
fn stories(scenes: usize, side: usize, device: &Device) -> (Beginning, Views) {
    let views = |each: usize, phase| Views {
        frames: numbers([scenes * each, 2, side, side], phase, device) * 0.5 + 0.5,
        queries: Tensor::zeros([scenes * each, 1], device),
        each,
    };
    let context = views(SEEN, 0.0);
    (Beginning::of(Some(&context)), views(MOMENTS - SEEN, 0.5))
}

fn times(scenes: usize, numbers: &[usize]) -> Tensor<2> {
    let of_scene = numbers.iter().map(|number| *number as f32 / MOMENTS as f32);
    let all: Vec<f32> = (0..scenes).flat_map(|_| of_scene.clone()).collect();
    Tensor::<1>::from_floats(all.as_slice(), &Device::default())
        .reshape([scenes * numbers.len(), 1])
}

fn learning(update: u64, scenes: usize, model: &Video, device: &Device) -> Learning {
    let count = model.choices(scenes, MOMENTS - SEEN);
    Learning {
        update,
        variance: 1.0,
        noise: numbers([scenes, model.noise_size()], 0.2, device),
        choices: (0..count).map(|i| (0.37 * i as f64).fract()).collect(),
    }
}

#[test]
fn the_same_noise_gives_the_same_story_whatever_is_asked() {
    let device = Device::default();
    for side in [8, 16] {
        let model = sv2p(side, &device);
        let (beginning, _) = stories(2, side, &device);
        let noise = |phase| numbers([2, model.noise_size()], phase, &device);
        let all = model.sample(&beginning, times(2, &[3, 4, 5]), noise(0.1));
        let some = model.sample(&beginning, times(2, &[4]), noise(0.1));
        let fourth = |frames: &Tensor<4>, scene: usize| frames.clone().narrow(0, scene, 1);
        assert!(apart(fourth(&all, 1), fourth(&some, 0)) < 1e-6);
        assert!(apart(fourth(&all, 4), fourth(&some, 1)) < 1e-6);
        let other = model.sample(&beginning, times(2, &[4]), noise(0.9));
        assert!(apart(some, other) > 0.0);
    }
}

#[test]
fn without_a_latent_there_is_one_continuation() {
    let device = Device::default();
    let model = cdna(8, &device);
    assert_eq!(model.noise_size(), 0);
    let (beginning, targets) = stories(2, 8, &device);
    let nothing = Tensor::zeros([2, 0], &device);
    let found = model.bound(&beginning, &targets, nothing.clone());
    assert_eq!(values(found.kl), [0.0, 0.0]);
    let drawn = model.sample(&beginning, times(2, &[3, 4, 5]), nothing);
    assert!(apart(drawn, found.frames) < 1e-6);
}

/// Frames that all stories are given go through the layers in one call; the loop gives the same.
#[test]
fn true_frames_in_one_call_and_one_by_one() {
    let device = Device::default();
    let model = sv2p(16, &device);
    let (beginning, targets) = stories(3, 16, &device);
    let truth = by_time(targets.frames.clone(), 3);
    let latent = model.latent(numbers([3, model.noise_size()], 0.2, &device));
    let choices: Vec<f64> = (0..6).map(|i| (0.37 * i as f64).fract()).collect();
    let predict = |count| {
        let fed = Fed::Partly {
            truth: &truth,
            count,
            choices: &choices,
        };
        model.predict(&beginning, latent.as_ref(), MOMENTS, &fed)
    };
    let together = predict(3);
    let mut pass = model.predictor.begin();
    let all = Tensor::cat(vec![beginning.frames.clone(), truth.clone()], 0);
    let steps = (0..MOMENTS - 1).map(|moment| {
        let frames = all.clone().narrow(0, 3 * moment, 3);
        model
            .predictor
            .advance(&mut pass, frames, latent.as_ref(), 1)
    });
    assert!(apart(together.clone(), Tensor::cat(steps.collect(), 0)) < 1e-5);
    let own = model.predict(&beginning, latent.as_ref(), MOMENTS, &Fed::Predictions);
    assert_eq!(apart(predict(0), own.clone()), 0.0);
    assert!(apart(together.clone(), own.clone()) > 1e-4);
    // Of some stories: row by row one or the other. Choices of frame 3 are 0, 0.37, 0.74.
    let [partly, together, own] = [predict(1), together, own].map(|frames| {
        let fourth = frames.narrow(0, 2 * 3, 3);
        (0..3)
            .map(|row| fourth.clone().narrow(0, row, 1))
            .collect::<Vec<_>>()
    });
    for (row, found) in partly.into_iter().enumerate() {
        let expected = if row == 0 { &together } else { &own };
        assert!(apart(found, expected[row].clone()) < 1e-5, "{row}");
    }
}

#[test]
fn fewer_and_fewer_stories_are_given_true_frames() {
    let config = CdnaConfig::default();
    let counts: Vec<usize> = [1, 2000, 5000, 6000, 8000, 12_000]
        .map(|update| config.given_true(16, update))
        .into();
    // 16 * 900 / (900 + exp(update / 900)), rounded.
    assert_eq!(counts, [16, 16, 12, 9, 2, 0]);
    let never = CdnaConfig {
        sampling: 0.0,
        ..config
    };
    assert_eq!(never.given_true(16, 1_000_000), 16);
    let chosen = smallest(&[0.5, 0.1, 0.9, 0.3], 2, &Device::default());
    assert_eq!(values(chosen), [0.0, 1.0, 0.0, 1.0]);
}

#[test]
fn the_weight_of_the_kl_follows_the_stages() {
    let weights = [1, 4, 5, 6, 8, 100].map(|update| config().weight(update));
    assert_eq!(weights, [0.0, 0.0, 0.125, 0.25, 0.5, 0.5]);
}

/// `1/2 sum (std^2 + mean^2 - 1 - log std^2)`
#[test]
fn the_kl_is_that_from_a_standard_normal() {
    let device = Device::default();
    let model = sv2p(8, &device);
    let (beginning, targets) = stories(2, 8, &device);
    let posterior = model.posterior(&beginning, &targets).unwrap();
    let (mean, log_std) = (values(posterior.mean), values(posterior.log_std));
    let size = model.noise_size();
    let expected = (0..2).map(|row| {
        let terms = (row * size..(row + 1) * size).map(|place| {
            let (m, s) = (f64::from(mean[place]), f64::from(log_std[place]));
            0.5 * ((2.0 * s).exp() + m * m - 1.0 - 2.0 * s)
        });
        terms.sum::<f64>()
    });
    let noise = numbers([2, size], 0.2, &device);
    let found = values(model.bound(&beginning, &targets, noise).kl);
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-4 * expected);
    }
}

/// A ReLU whose input is negative leaves the log variance at its floor, without a gradient; a softplus does not.
#[test]
fn a_softened_log_variance_goes_on_learning() {
    let device = Device::default().autodiff();
    let (beginning, targets) = stories(2, 8, &device);
    for softened in [false, true] {
        let config = Sv2pConfig {
            softened,
            ..config()
        };
        let mut model = config
            .init(shape(8), MOMENTS, &mut initializer(&device))
            .unwrap();
        let tower = model.tower.as_mut().unwrap();
        let lowered = tower.log_variance.bias.val().sub_scalar(20.0).detach();
        tower.log_variance.bias = Param::from_tensor(lowered);
        let learned = model.learn(&beginning, &targets, learning(9, 2, &model, &device));
        let log_std = model.posterior(&beginning, &targets).unwrap().log_std;
        let floor: f32 = (log_std + 2.5).abs().max().into_scalar();
        assert!(floor < 1e-3, "{floor}");
        let gradients = learned.loss.backward();
        let bias = &model.tower.as_ref().unwrap().log_variance.bias;
        let gradient = bias.val().grad(&gradients).unwrap();
        let size: f32 = gradient.abs().into_scalar();
        assert_eq!(size > 0.0, softened);
    }
}

#[test]
fn the_stages_of_training() {
    let device = Device::default().autodiff();
    let model = sv2p(8, &device);
    let (beginning, targets) = stories(2, 8, &device);
    let tower = model.tower.as_ref().unwrap();
    let learn = |update| {
        let learned = model.learn(&beginning, &targets, learning(update, 2, &model, &device));
        let numbers = 2.0 * (MOMENTS - SEEN) as f32 * 128.0;
        let error: f32 = learned
            .bound
            .squared_error
            .clone()
            .sum()
            .into_scalar::<f32>()
            / numbers;
        let kl: f32 = learned.bound.kl.clone().mean().into_scalar();
        let loss: f32 = learned.loss.clone().into_scalar();
        let gradients = learned.loss.backward();
        let of_mean = tower.mean.weight.val().grad(&gradients);
        (loss, error, kl, of_mean.is_some())
    };
    let (loss, error, kl, tower_learns) = learn(2);
    assert!((loss - error).abs() < 1e-6 && kl == 0.0 && !tower_learns);
    let (loss, error, kl, tower_learns) = learn(4);
    assert!((loss - error).abs() < 1e-6 && kl > 0.0 && tower_learns);
    let (loss, error, kl, _) = learn(6);
    assert!((loss - error - 0.25 * kl).abs() < 1e-4);
}

/// The derivative of the loss along a direction of some weights, against differences.
#[test]
fn gradients_are_those_of_differences() {
    let device = Device::default().autodiff();
    let model = sv2p(8, &device);
    let (beginning, targets) = stories(3, 8, &device);
    // Some stories are given true frames, and the KL has a weight.
    let update = 9;
    assert_eq!(config().predictor.given_true(3, update), 1);
    let learn =
        |model: &Video| model.learn(&beginning, &targets, learning(update, 3, model, &device));
    // The sums in double precision: a change of the loss is smaller than the last digit of its sum in single.
    let loss = |model: &Video| {
        let mean = |all: Vec<f32>, count: f64| {
            all.iter().map(|value| f64::from(*value)).sum::<f64>() / count
        };
        let SceneBound {
            squared_error, kl, ..
        } = learn(model).bound;
        let numbers = (3 * (MOMENTS - SEEN) * 128) as f64;
        let error = mean(squared_error.into_data().try_to_vec().unwrap(), numbers);
        error + 0.5 * mean(kl.into_data().try_to_vec().unwrap(), 3.0)
    };
    let learned = learn(&model);
    let single = f64::from(learned.loss.clone().into_scalar::<f32>());
    assert!((single - loss(&model)).abs() < 1e-5);
    let gradients = learned.loss.backward();
    for name in ["lstm", "kernels", "tower"] {
        let moved = |by: f32| {
            let mut model = model.clone();
            fn shift<const D: usize>(param: &mut Param<Tensor<D>>, by: f32) {
                let value = param.val();
                let along = numbers(value.dims(), 0.8, &value.device());
                *param = Param::from_tensor((value + along.mul_scalar(by)).detach());
            }
            match name {
                "lstm" => shift(&mut model.predictor.lstms[3].lstm.weight, by),
                "kernels" => shift(&mut model.predictor.movement.kernels.weight, by),
                _ => shift(&mut model.tower.as_mut().unwrap().layers[0].weight, by),
            }
            loss(&model)
        };
        // Short enough to cross no kink of a ReLU.
        let step = 5e-4;
        let differences = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
        fn along<const D: usize>(
            param: &Param<Tensor<D>>,
            gradients: &burn::tensor::Gradients,
        ) -> f32 {
            let gradient = param.val().grad(gradients).unwrap();
            let along = numbers(gradient.dims(), 0.8, &gradient.device());
            (gradient * along).sum().into_scalar()
        }
        let found = f64::from(match name {
            "lstm" => along(&model.predictor.lstms[3].lstm.weight, &gradients),
            "kernels" => along(&model.predictor.movement.kernels.weight, &gradients),
            _ => along(&model.tower.as_ref().unwrap().layers[0].weight, &gradients),
        });
        let scale = differences.abs().max(1e-3);
        assert!(
            (found - differences).abs() < 0.05 * scale,
            "{name}: {found} {differences}"
        );
    }
}

/// Layers as section 3.1 and the releases give them: `[inputs, outputs, kernel]`.
fn convolutions(layers: &[[usize; 3]]) -> usize {
    let layers = layers.iter();
    layers
        .map(|[inputs, outputs, k]| inputs * outputs * k * k + outputs)
        .sum()
}

#[test]
fn parameters_at_the_sizes_of_the_releases() {
    let frame = |side| ImageShape {
        channels: 3,
        height: side,
        width: side,
    };
    // Gates of the LSTMs, on input and state.
    let lstms = convolutions(&[
        [32 + 32, 128, 5],
        [32 + 32, 128, 5],
        [32 + 64, 256, 5],
        [64 + 64, 256, 5],
        [64 + 128, 512, 5],
        [128 + 64, 256, 5],
        [96 + 32, 128, 5],
    ]);
    // Scale and shift of each norm's channels.
    let norms = 2 * (32 + 32 + 32 + 64 + 64 + 128 + 64 + 32);
    let common = lstms
        + norms
        + convolutions(&[
            [3, 32, 5],
            [32, 32, 3],
            [64, 64, 3],
            [128, 128, 3],
            [96, 96, 3],
        ])
        + convolutions(&[[64, 11, 1], [64, 3, 1]])
        + (8 * 8 * 128 + 1) * 250;
    let last_up = convolutions(&[[64, 64, 3]]) + 2 * 64;
    let tower = convolutions(&[
        [60, 32, 3],
        [32, 64, 3],
        [64, 64, 3],
        [64, 1, 3],
        [64, 1, 3],
    ]) + 2 * (32 + 64 + 64);
    let (with, without) = (convolutions(&[[65, 64, 1]]), convolutions(&[[64, 64, 1]]));
    let init = &mut initializer(&Device::default());
    for (side, last_up) in [(64, last_up), (32, 0)] {
        let cdna = CdnaConfig::default().init(frame(side), 20, init).unwrap();
        assert_eq!(cdna.num_params(), common + without + last_up);
        let sv2p = Sv2pConfig::default().init(frame(side), 20, init).unwrap();
        assert_eq!(sv2p.num_params(), common + with + last_up + tower);
    }
    assert_eq!(common + with + last_up + tower, 8_385_642);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let init = &mut initializer(&Device::default());
    let mut refused = |change: fn(&mut Sv2pConfig), side| {
        let mut config = config();
        change(&mut config);
        let found = config.init(shape(side), MOMENTS, init);
        found.unwrap_err().to_string()
    };
    assert_eq!(
        refused(|_| (), 24),
        "frames are 24x24 pixels, but with coarsest maps of 2x2 (grid) they must be square, with one of these sides: 8, 16"
    );
    assert_eq!(
        refused(|config| config.kl_weight = -1.0, 8),
        "model.kl_weight is -1, it must be a number of at least 0"
    );
    assert_eq!(
        refused(|config| config.free_until = 1, 8),
        "model.free_until is 1, it must be at least 2, as model.noise_until is"
    );
    assert_eq!(
        refused(|config| config.predictor.size = 4, 8),
        "model.size is 4, it must be odd"
    );
    assert_eq!(
        refused(|config| config.predictor.sampling = f64::NAN, 8),
        "model.sampling is NaN, it must be a number of at least 0"
    );
}
