//! Tests of [`Sssm`].

use super::{nets::finer, *};
use crate::check::{numbers, values};
use burn::{module::Param, tensor::Device};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const MOMENTS: usize = 5;
const SEEN: usize = 2;
const FRAME: ImageShape = ImageShape {
    channels: 2,
    height: 8,
    width: 8,
};

fn apart<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
    (a - b).abs().max().into_scalar()
}

fn config() -> SssmConfig {
    SssmConfig {
        width: 3,
        latent: 2,
        grid: 2,
        beta: 0.5,
        smoothing: true,
    }
}

fn build(config: &SssmConfig, device: &Device) -> Sssm {
    let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
    config.init(FRAME, [SEEN, MOMENTS], &mut init).unwrap()
}

fn views(scenes: usize, each: usize, phase: f32, device: &Device) -> Views {
    Views {
        frames: numbers([scenes * each, 2, 8, 8], phase, device),
        queries: Tensor::zeros([scenes * each, 1], device),
        each,
    }
}

fn times(scenes: usize, numbers: &[usize]) -> Tensor<2> {
    let of_scene = numbers.iter().map(|number| *number as f32 / MOMENTS as f32);
    let all: Vec<f32> = (0..scenes).flat_map(|_| of_scene.clone()).collect();
    Tensor::<1>::from_floats(all.as_slice(), &Device::default())
        .reshape([scenes * numbers.len(), 1])
}

#[test]
fn the_same_noise_gives_the_same_story_whatever_is_asked() {
    let device = Device::default();
    let model = build(&config(), &device);
    let context = views(2, SEEN, 0.0, &device);
    let beginning = Beginning::of(Some(&context));
    let state = model.begin(&beginning);
    let noise = |phase| numbers([2, model.noise_size()], phase, &device);
    let sample = |asked: &[usize], phase| {
        model.sample(&beginning, state.clone(), times(2, asked), noise(phase))
    };
    let all = sample(&[1, 2, 3, 4, 5], 0.1);
    let some = sample(&[4], 0.1);
    assert!(apart(all.clone().narrow(0, 3, 1), some.clone().narrow(0, 0, 1)) < 1e-6);
    assert!(apart(all.clone().narrow(0, 8, 1), some.clone().narrow(0, 1, 1)) < 1e-6);
    assert!(apart(some, sample(&[4], 0.9)) > 0.0);
    // Frames of the context are the true ones.
    let first = context.frames.narrow(0, 0, 2);
    assert_eq!(apart(all.narrow(0, 0, 2), first), 0.0);
}

/// Posterior and prior with the same weights and no evidence are the same, so that the KL is zero.
#[test]
fn what_tells_nothing_costs_nothing() {
    let device = Device::default();
    let mut model = build(&config(), &device);
    model.posterior.state = model.prior.state.clone();
    model.posterior.belief = model.prior.belief.clone();
    let given = model.posterior.given.as_mut().unwrap();
    given.weight = Param::from_tensor(given.weight.val().zeros_like());
    given.bias = Param::from_tensor(given.bias.val().zeros_like());
    let (context, targets) = (views(2, SEEN, 0.0, &device), views(2, 3, 0.5, &device));
    let beginning = Beginning::of(Some(&context));
    let state = model.begin(&beginning);
    let noise = numbers([2, model.noise_size()], 0.2, &device);
    let found = model.bound(state.clone(), &targets, noise.clone());
    assert!(values(found.kl).iter().all(|kl| kl.abs() < 1e-5));
    // Then the reconstruction is a sample.
    let drawn = model.sample(&beginning, state, times(2, &[3, 4, 5]), noise);
    assert!(apart(drawn, found.frames) < 1e-5);
}

/// A filtering posterior does not see frames to come; a smoothing one does.
#[test]
fn only_a_smoothing_posterior_sees_what_comes() {
    let device = Device::default();
    for smoothing in [false, true] {
        let model = build(
            &SssmConfig {
                smoothing,
                ..config()
            },
            &device,
        );
        let targets = numbers([3, 2, 8, 8], 0.5, &device);
        let other = numbers([1, 2, 8, 8], 0.9, &device);
        let changed = Tensor::cat(vec![targets.clone().narrow(0, 0, 2), other], 0);
        let [one, other] = [targets, changed].map(|frames| model.evidence(frames, 1));
        let first = apart(one.clone().narrow(0, 0, 2), other.clone().narrow(0, 0, 2));
        assert_eq!(first > 0.0, smoothing);
        let last = apart(one.narrow(0, 2, 1), other.narrow(0, 2, 1));
        assert!(last > 0.0);
    }
}

#[test]
fn channels_become_pixels() {
    let counted: Vec<f32> = (0..8).map(|i| i as f32).collect();
    let maps = Tensor::<1>::from_floats(counted.as_slice(), &Device::default());
    let squares = finer(maps.reshape([1, 8, 1, 1]));
    assert_eq!(squares.dims(), [1, 2, 2, 2]);
    // Places in a square first, then channels.
    assert_eq!(values(squares), [0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0]);
}

/// The loss weighs the KL by beta, and its derivatives are those of differences.
#[test]
fn the_loss_and_its_gradients() {
    let device = Device::default().autodiff();
    let model = build(&config(), &device);
    let (context, targets) = (views(2, SEEN, 0.0, &device), views(2, 3, 0.5, &device));
    let beginning = Beginning::of(Some(&context));
    let learn = |model: &Sssm| {
        let learning = Learning {
            update: 1,
            variance: 4.0,
            noise: numbers([2, model.noise_size()], 0.2, &device),
            choices: Vec::new(),
        };
        model.learn(model.begin(&beginning), &targets, learning)
    };
    let learned = learn(&model);
    let error: f32 = learned.bound.squared_error.clone().sum().into_scalar();
    let kl: f32 = learned.bound.kl.clone().sum().into_scalar();
    let loss: f32 = learned.loss.clone().into_scalar();
    let expected = error / 2.0 / 8.0 + 0.5 * kl / 2.0;
    assert!(
        (loss - expected).abs() < 1e-4 * expected,
        "{loss} {expected}"
    );
    let gradients = learned.loss.backward();
    type Part = fn(&mut Sssm) -> &mut Param<Tensor<4>>;
    let parts: [(&str, Part); 4] = [
        ("reader", |model| &mut model.reader.layers[0].weight),
        ("backward", |model| {
            &mut model.backward.as_mut().unwrap().weight
        }),
        ("transition", |model| &mut model.transition.second.weight),
        ("beginning", |model| &mut model.beginning[0].weight),
    ];
    for (name, part) in parts {
        let mut whole = model.clone();
        let param = part(&mut whole);
        let gradient = param.val().grad(&gradients).unwrap();
        let length: f32 = gradient.clone().square().sum().sqrt().into_scalar();
        // Along the gradient the derivative is its length.
        let along = values(gradient.div_scalar(length));
        let moved = |by: f32| {
            let mut model = model.clone();
            let param = part(&mut model);
            let value = param.val();
            let along = Tensor::<1>::from_floats(along.as_slice(), &device);
            let shifted = value.clone() + along.reshape(value.dims()).mul_scalar(by);
            *param = Param::from_tensor(shifted.detach());
            f64::from(learn(&model).loss.into_scalar::<f32>())
        };
        // ReLUs and the largest numbers have kinks: a long step may cross one, a short one has rounding errors.
        let differences = [8e-3, 4e-3, 2e-3, 1e-3, 5e-4]
            .map(|step| (moved(step) - moved(-step)) / (2.0 * f64::from(step)));
        let length = f64::from(length);
        let close = |found: &f64| (length - found).abs() < 0.02 * length;
        assert!(
            differences.iter().any(close),
            "{name}: {length} {differences:?}"
        );
    }
}

#[test]
fn parameters_at_the_sizes_of_the_defaults() {
    let frame = ImageShape {
        channels: 3,
        height: 64,
        width: 64,
    };
    // `[inputs, outputs]` of convolutions with 3x3 kernels.
    let layers = [
        // e
        [3, 64],
        [64, 64],
        [64, 64],
        // s_m of six frames
        [6 * 64, 64],
        [64, 64],
        [64, 64],
        // b, four gates of input and state
        [64 + 64, 256],
        // g
        [64 + 8, 64],
        [2 * 64, 64],
        [64, 64],
        // p
        [64, 64],
        [64, 16],
        // q
        [64, 64],
        [2 * 64, 64],
        [64, 16],
        // dec
        [64, 256],
        [64, 256],
        [64, 256],
        [64, 3],
    ];
    let expected = layers.iter();
    let expected: usize = expected.map(|[a, b]| 9 * a * b + b).sum();
    assert_eq!(expected, 1_429_155);
    let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
    let model = SssmConfig::default().init(frame, [6, 20], &mut init);
    assert_eq!(model.unwrap().num_params(), expected);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let refused = |config: SssmConfig, frame| {
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let found = config.init(frame, [SEEN, MOMENTS], &mut init);
        found.unwrap_err().to_string()
    };
    let beta = SssmConfig {
        beta: -1.0,
        ..config()
    };
    assert_eq!(
        refused(beta, FRAME),
        "model.beta is -1, it must be a number of at least 0"
    );
    let odd = ImageShape {
        height: 12,
        width: 12,
        ..FRAME
    };
    assert_eq!(
        refused(config(), odd),
        "frames are 12x12 pixels, but with coarsest maps of 2x2 (grid) they must be square, with one of these sides: 4, 8, 16, 32, 64, 128, 256"
    );
}
