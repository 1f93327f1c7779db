//! An inference network that learns to filter a linear-Gaussian model.

#[path = "../../models/tests/linear_gaussian/model.rs"]
mod model;

use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use mnemora_memory::Initializer;
use mnemora_models::{
    Amortized, Improver, InferenceNoise, Inferred, IterativeConfig, IterativeNet, infer,
};
use mnemora_training::amortize::Amortizer;
use mnemora_worlds::Stream;
use model::{LinearGaussian, inner, normal, tensor, values};

const TIME: usize = 8;
const LATENT: usize = 4;

/// Sequences of the model, `[batch, time, latent]`.
fn sequences(model: &LinearGaussian, batch: usize, seed: u64) -> Vec<f32> {
    let [q, r, p1] = model.variances;
    let noise = normal(2 * batch * TIME * model.latent, seed);
    let mut noise = noise.into_iter().map(f64::from);
    let mut draw = |variance: f64| variance.sqrt() * noise.next().unwrap();
    let mut x = Vec::new();
    for _ in 0..batch {
        let mut z = vec![0.0; model.latent];
        for t in 0..TIME {
            for z in &mut z {
                *z = model.transition * *z + draw(if t == 0 { p1 } else { q });
                x.push((model.emission * *z + draw(r)) as f32);
            }
        }
    }
    x
}

fn pass(
    model: &LinearGaussian,
    improver: &mut impl Improver,
    x: Vec<f32>,
    batch: usize,
    inner: Vec<Tensor<4>>,
    seed: u64,
) -> Inferred<Option<Tensor<2>>> {
    let device = &model.device;
    let noise = InferenceNoise {
        inner,
        step: tensor(
            normal(TIME * batch * model.latent, seed),
            [TIME, batch, model.latent],
            device,
        ),
    };
    let conditions = Tensor::zeros([batch, TIME, 1], device);
    infer(
        model,
        improver,
        tensor(x, [batch, TIME, model.latent], device),
        Some(conditions),
        noise,
        1.0,
        None,
    )
}

/// The least free energy of each sequence, given the samples along it.
fn optimum(model: &LinearGaussian, x: &[f32], latents: &[f32], batch: usize) -> f64 {
    let [q, r, p1] = model.variances;
    let mut total = 0.0;
    for n in 0..batch {
        for (t, i) in (0..TIME).flat_map(|t| (0..model.latent).map(move |i| (t, i))) {
            let (mean, variance) = match t {
                0 => (0.0, p1),
                _ => {
                    let before = latents[((t - 1) * batch + n) * model.latent + i];
                    (model.transition * f64::from(before), q)
                }
            };
            let c = model.emission;
            let (mean, variance) = (c * mean, c * c * variance + r);
            let x = f64::from(x[(n * TIME + t) * model.latent + i]);
            total +=
                0.5 * ((std::f64::consts::TAU * variance).ln() + (x - mean).powi(2) / variance);
        }
    }
    total / batch as f64
}

/// Trains a network, from samples or from exact expectations; the learning rate drops after two thirds of the updates.
/// Returns mean exact free energies of other sequences: at the prior, after the network's round, and at the optimum.
fn learned(config: &IterativeConfig, updates: u64, samples: bool) -> [f64; 3] {
    const BATCH: usize = 64;
    let device = Device::default().autodiff();
    let latent = config.latent;
    let model = LinearGaussian::example(latent, &device);
    let mut init = Initializer::new(Stream::new(1, "parameters").at(0), device.clone());
    let net = config.init(&mut init).unwrap();
    let mut amortizer = Amortizer::new(net, 1, 2e-3);
    let exact = vec![inner(TIME, BATCH, latent, &device)];
    for update in 0..updates {
        let x = sequences(&model, BATCH, 4 * update + 1);
        let count = TIME * BATCH * latent;
        let inner = match samples {
            // The new belief gets other noise than the one it was made from.
            true => [4 * update + 2, 4 * update + 4]
                .map(|seed| tensor(normal(count, seed), [1, TIME, BATCH, latent], &device))
                .into(),
            false => exact.clone(),
        };
        pass(&model, &mut amortizer, x, BATCH, inner, 4 * update + 3);
        assert_eq!(amortizer.failure(), None);
        if update == updates * 2 / 3 {
            amortizer.learning_rate = 3e-4;
        }
    }
    // The network is frozen.
    amortizer.learning_rate = 0.0;
    let x = sequences(&model, BATCH, 1_000_001);
    let found = pass(&model, &mut amortizer, x.clone(), BATCH, exact, 1_000_003);
    let energies: Vec<f64> = found
        .energies
        .iter()
        .map(|of| values(of.clone()).into_iter().map(f64::from).sum::<f64>() / BATCH as f64)
        .collect();
    let optimum = optimum(&model, &x, &values(found.latents.clone()), BATCH);
    [energies[0], energies[1], optimum]
}

#[test]
fn it_comes_within_a_percent_of_the_optimal_filter() {
    let config = IterativeConfig {
        latent: LATENT,
        hidden: 64,
        observation: LATENT,
        normalise_mean: false,
    };
    let [prior, found, optimum] = learned(&config, 1500, true);
    assert!(prior > 1.1 * optimum, "prior {prior}, optimum {optimum}");
    assert!(found < 1.01 * optimum, "{found}, optimum {optimum}");
    // No belief beats the optimum.
    assert!(found > optimum - 1e-3, "{found}, optimum {optimum}");
}

/// The network sees the observation only through the gradient, and the gradient of a single latent cannot be
/// normalised.
#[test]
fn it_filters_a_single_latent_by_its_gradient() {
    let config = IterativeConfig {
        latent: 1,
        hidden: 32,
        observation: 0,
        normalise_mean: false,
    };
    let [prior, found, optimum] = learned(&config, 600, false);
    assert!(prior > 1.1 * optimum, "prior {prior}, optimum {optimum}");
    assert!(found < 1.02 * optimum, "{found}, optimum {optimum}");
    assert!(found > optimum - 1e-3, "{found}, optimum {optimum}");
}

#[test]
fn it_learns_once_a_window_if_it_is_to() {
    let device = Device::default().autodiff();
    let model = LinearGaussian::example(LATENT, &device);
    let config = IterativeConfig {
        latent: LATENT,
        hidden: 8,
        observation: 0,
        normalise_mean: false,
    };
    let mut init = Initializer::new(Stream::new(1, "parameters").at(0), device.clone());
    let net = config.init(&mut init).unwrap();
    let x = sequences(&model, 4, 1);
    let inner = vec![inner(TIME, 4, LATENT, &device)];
    let found = |online: bool| {
        let mut amortizer = Amortizer::new(net.clone(), 2, 1e-3);
        amortizer.online = online;
        pass(&model, &mut amortizer, x.clone(), 4, inner.clone(), 3);
        amortizer
    };
    let online = found(true);
    assert_eq!(online.updates, TIME as u64);
    let mut later = found(false);
    assert_eq!(later.updates, 0);
    let before = values(later.net.heads.weight.val());
    assert_eq!(before, values(net.heads.weight.val()), "not yet");
    later.finish();
    assert_eq!(later.updates, 1);
    // Adam's first step is the learning rate along the sign of the gradient.
    let moved = values(later.net.heads.weight.val());
    let furthest = before
        .iter()
        .zip(&moved)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!((furthest - 1e-3).abs() < 1e-5, "{furthest}");
    later.finish();
    assert_eq!(later.updates, 1, "there was nothing to learn from");
}

#[test]
fn its_gradient_is_that_of_the_mean_free_energy() {
    const BATCH: usize = 4;
    const STEP: f64 = 2e-2;
    let device = Device::default().autodiff();
    let mut model = LinearGaussian::example(LATENT, &device);
    // No latent affects later steps, so each free energy depends on the network through its own step only.
    model.transition = 0.0;
    let config = IterativeConfig {
        latent: LATENT,
        hidden: 8,
        observation: LATENT,
        normalise_mean: true,
    };
    let mut init = Initializer::new(Stream::new(1, "parameters").at(0), device.clone());
    let net = config.init(&mut init).unwrap();
    let x = sequences(&model, BATCH, 1);
    let noise = [2, 3].map(|seed| {
        let numbers = normal(TIME * BATCH * LATENT, seed);
        tensor(numbers, [1, TIME, BATCH, LATENT], &device)
    });
    let mut amortizer = Amortizer::new(net.clone(), 1, 1e-3);
    amortizer.online = false;
    pass(&model, &mut amortizer, x.clone(), BATCH, noise.to_vec(), 4);
    amortizer.finish();
    let moments = amortizer.optimiser.collect();
    let energy = |net: IterativeNet| {
        let mut amortized = Amortized {
            net: &net.freeze(),
            iterations: 1,
        };
        let found = pass(&model, &mut amortized, x.clone(), BATCH, noise.to_vec(), 4);
        let energies = values(found.energies[1].clone());
        energies.into_iter().map(f64::from).sum::<f64>() / (TIME * BATCH) as f64
    };
    let weights = ["first.weight", "second.weight", "heads.weight"];
    for (layer, name) in weights.into_iter().enumerate() {
        // Adam's first moment after one update is a tenth of the gradient.
        let moment = &moments[&format!("{name}.first")].values;
        let found: Vec<f64> = moment.iter().map(|m| 10.0 * f64::from(*m)).collect();
        let largest = found.iter().map(|g| g.abs()).fold(0.0, f64::max);
        for index in (0..found.len()).step_by(found.len() / 9) {
            let moved = |by: f64| {
                let mut net = net.clone();
                let linear = [&mut net.first, &mut net.second, &mut net.heads];
                let weight = &mut linear.into_iter().nth(layer).unwrap().weight;
                let shape = weight.dims();
                let mut numbers = values(weight.val());
                numbers[index] += by as f32;
                *weight = Param::from_tensor(tensor(numbers, shape, &device));
                energy(net)
            };
            let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            assert!(
                (found[index] - expected).abs() < 0.01 * largest,
                "{name}[{index}]: {} {expected}, largest {largest}",
                found[index]
            );
        }
    }
}
