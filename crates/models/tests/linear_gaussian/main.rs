//! Variational filtering on a linear-Gaussian model, where the right results are known in closed form.
//!
//! `z_1 ~ N(0, P1)`, `z_t = A z_{t-1} + N(0, Q)`, `x_t = C z_t + N(0, R)`.

mod mixture_prior;
mod model;
mod stochastic_transition;
mod unscored_steps;

use burn::tensor::{Device, Tensor, TensorData};
use mnemora_models::{
    FilteringModel, Improver, InferenceNoise, Resampling, infer,
    inference::{Belief, GradientSteps, LOG_VARIANCE},
    particle_bound,
};
use model::{LinearGaussian, inner, normal, tensor, values};

/// The observations of the example.
const X: [f32; 5] = [0.5, -0.3, 1.2, 0.4, -0.8];
const KALMAN: f64 = -6.486_588;
/// The optimal conditional filter: free energy per step, final mean and variance.
const FILTER: [f64; 5] = [1.205_004, 1.190_601, 1.742_724, 0.890_557, 1.828_215];
const FINAL: [f64; 2] = [0.020_747, 0.246_099];

/// `batch` sequences, all equal to the example in every dimension.
fn observations(batch: usize, latent: usize, device: &Device) -> Tensor<3> {
    let steps = X.iter().flat_map(|x| std::iter::repeat_n(*x, latent));
    let one: Vec<f32> = steps.collect();
    let values = one.repeat(batch);
    Tensor::from_data(TensorData::new(values, [batch, X.len(), latent]), device)
}

fn conditions(batch: usize, device: &Device) -> Tensor<3> {
    Tensor::zeros([batch, X.len(), 1], device)
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|x| f64::from(*x)).sum::<f64>() / values.len() as f64
}

/// Mean and its standard error.
fn mean_and_error(values: &[f32]) -> [f64; 2] {
    let mean = mean(values);
    let squares = values.iter().map(|x| (f64::from(*x) - mean).powi(2));
    let count = values.len() as f64;
    [mean, (squares.sum::<f64>() / (count - 1.0) / count).sqrt()]
}

/// `log N(x; mean, variance)`
fn log_normal(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((std::f64::consts::TAU * variance).ln() + (x - mean).powi(2) / variance)
}

/// `log sum_k exp(l_k)`
fn log_sum_exp(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|log| (log - largest).exp()).sum();
    largest + sum.ln()
}

#[test]
fn gradient_steps_reach_the_optimal_filter() {
    let device = Device::default().autodiff();
    let batch = 20_000;
    let model = LinearGaussian::example(1, &device);
    let noise = InferenceNoise {
        inner: vec![inner(X.len(), batch, 1, &device)],
        step: tensor(normal(X.len() * batch, 7), [X.len(), batch, 1], &device),
    };
    let found = infer(
        &model,
        &mut GradientSteps::new(300, 0.05),
        observations(batch, 1, &device),
        Some(conditions(batch, &device)),
        noise,
        1.0,
        None,
    );
    // Free energies of a step, averaged over the samples of the steps before.
    let last = found.energies.last().unwrap();
    for (t, expected) in FILTER.into_iter().enumerate() {
        let energy = mean(&values(last.clone().narrow(0, t, 1)));
        assert!(
            (energy - expected).abs() < 1e-2,
            "step {t}: {energy} {expected}"
        );
    }
    let total: f64 = (0..X.len())
        .map(|t| mean(&values(last.clone().narrow(0, t, 1))))
        .sum();
    assert!(
        (total / FILTER.iter().sum::<f64>() - 1.0).abs() < 1e-2,
        "{total}"
    );
    let rows = |of: &Tensor<2>| values(of.clone().narrow(0, (X.len() - 1) * batch, batch));
    let belief = mean(&rows(&found.posteriors.mean));
    assert!((belief - FINAL[0]).abs() < 1e-2, "{belief}");
    let last = rows(&found.latents);
    let squares: Vec<f32> = last.iter().map(|z| (z - belief as f32).powi(2)).collect();
    assert!(
        (mean(&squares) - FINAL[1]).abs() < 1e-2,
        "{}",
        mean(&squares)
    );
}

/// At each step the optimum is the exact posterior of that step.
#[test]
fn every_belief_is_the_exact_posterior_given_the_sample_before() {
    let device = Device::default().autodiff();
    let (batch, latent) = (3, 4);
    let model = LinearGaussian::example(latent, &device);
    let count = X.len() * batch * latent;
    let noise = InferenceNoise {
        inner: vec![inner(X.len(), batch, latent, &device)],
        step: tensor(normal(count, 3), [X.len(), batch, latent], &device),
    };
    let found = infer(
        &model,
        &mut GradientSteps::new(600, 0.03),
        observations(batch, latent, &device),
        Some(conditions(batch, &device)),
        noise,
        1.0,
        None,
    );
    let features = model.encode(observations(batch, latent, &device));
    let mut state = None;
    for (t, features) in features.into_iter().enumerate() {
        let rows = |of: &Tensor<2>| of.clone().narrow(0, t * batch, batch);
        let mut context = model.predict(&(), Some(Tensor::zeros([batch, 1], &device)), None, state);
        let exact = model.posterior(&features, &mut context);
        for (found, exact) in [
            (&found.posteriors.mean, exact.mean),
            (&found.posteriors.log_std, exact.log_std),
        ] {
            for (found, exact) in values(rows(found)).into_iter().zip(values(exact)) {
                assert!((found - exact).abs() < 5e-3, "step {t}: {found} {exact}");
            }
        }
        state = Some(rows(&found.latents));
    }
}

/// The first belief is within the bounds, like every later one, whatever the prior.
#[test]
fn a_first_belief_is_within_its_bounds() {
    let device = Device::default().autodiff();
    let mut model = LinearGaussian::example(1, &device);
    // A wide first step, narrow ones after it.
    model.variances = [1e-8, 0.5, 3e3];
    let noise = InferenceNoise {
        inner: vec![inner(X.len(), 2, 1, &device)],
        step: tensor(normal(X.len() * 2, 7), [X.len(), 2, 1], &device),
    };
    let found = infer(
        &model,
        &mut GradientSteps::new(0, 0.05),
        observations(2, 1, &device),
        Some(conditions(2, &device)),
        noise,
        1.0,
        None,
    );
    let log_variances = found.posteriors.log_std.mul_scalar(2.0);
    let [narrowest, widest] = LOG_VARIANCE.map(|bound| bound as f32);
    let expected = [[widest; 2].as_slice(), &[narrowest; 8]].concat();
    assert_eq!(values(log_variances), expected);
}

/// Moves along each axis of the belief in turn and back, and records the gradients.
struct Probe {
    width: usize,
    gradients: Vec<[Vec<f32>; 2]>,
    round: usize,
}

const STEP: f64 = 1e-2;

impl Improver for Probe {
    fn rounds(&self) -> usize {
        // To both sides of the start, for every number of the belief.
        4 * self.width
    }

    fn begin(&mut self) {
        self.round = 0;
    }

    fn improve(&mut self, belief: &Belief, gradient: &Belief, _: &Tensor<2>) -> Belief {
        if self.round == 0 {
            let of = [&gradient.mean, &gradient.log_variance];
            self.gradients.push(of.map(|part| values(part.clone())));
        }
        // Relative to the last round: forward, across to the other side, and so on.
        let axis = |round: usize| {
            (
                round / 2,
                if round.is_multiple_of(2) { STEP } else { -STEP },
            )
        };
        let device = belief.mean.device();
        let batch = belief.mean.dims()[0];
        let mut moved = vec![0.0; 2 * self.width];
        let (index, size) = axis(self.round);
        moved[index] += size;
        if self.round > 0 {
            let (index, size) = axis(self.round - 1);
            moved[index] -= size;
        }
        self.round += 1;
        let part = |range: std::ops::Range<usize>| {
            let row: Vec<f32> = moved[range].iter().map(|x| *x as f32).collect();
            tensor(row.repeat(batch), [batch, self.width], &device)
        };
        Belief {
            mean: belief.mean.clone() + part(0..self.width),
            log_variance: belief.log_variance.clone() + part(self.width..2 * self.width),
        }
    }
}

#[test]
fn gradients_of_a_belief_are_differences_of_its_free_energy() {
    let device = Device::default().autodiff();
    let (batch, latent) = (2, 3);
    let model = LinearGaussian::example(latent, &device);
    let count = X.len() * batch * latent;
    let noise = InferenceNoise {
        inner: vec![tensor(
            normal(2 * count, 5),
            [2, X.len(), batch, latent],
            &device,
        )],
        step: tensor(normal(count, 6), [X.len(), batch, latent], &device),
    };
    let mut probe = Probe {
        width: latent,
        gradients: Vec::new(),
        round: 0,
    };
    let found = infer(
        &model,
        &mut probe,
        observations(batch, latent, &device),
        Some(conditions(batch, &device)),
        noise,
        0.7,
        None,
    );
    let energies: Vec<Vec<f32>> = found.energies.into_iter().map(values).collect();
    for (t, gradients) in probe.gradients.iter().enumerate() {
        for (row, number) in (0..batch).flat_map(|row| (0..2 * latent).map(move |n| (row, n))) {
            let at = |round: usize| f64::from(energies[1 + round][t * batch + row]);
            let slope = (at(2 * number) - at(2 * number + 1)) / (2.0 * STEP);
            let gradient = gradients[number / latent][row * latent + number % latent];
            assert!(
                (f64::from(gradient) - slope).abs() < 2e-3,
                "step {t}, number {number}: {gradient} {slope}"
            );
        }
    }
}

#[test]
fn a_thousand_particles_find_the_likelihood() {
    let device = Device::default();
    let (runs, particles) = (100, 1000);
    let model = LinearGaussian::example(1, &device);
    let rows = runs * particles;
    let bound = |resampling| {
        let noise = tensor(normal(X.len() * rows, 11), [X.len(), rows, 1], &device);
        let uniform =
            |t: usize| (0..runs).map(move |run| ((run * 37 + t * 11) % 101) as f64 / 101.0);
        let found = particle_bound(
            &model,
            observations(runs, 1, &device),
            Some(conditions(runs, &device)),
            noise,
            resampling,
            |_, features, context, _| model.posterior(features, context),
            |t| uniform(t).collect(),
        );
        (found.bound.iter().sum::<f64>() / runs as f64, found)
    };
    let (mean, found) = bound(Resampling::Below(1.0));
    assert!((mean - KALMAN).abs() < 0.02, "{mean}");
    // After the first step all weights are equal, up to rounding: the proposal is the exact posterior.
    let often = X.len() - 2..X.len();
    assert!(found.resampled.iter().all(|times| often.contains(times)));
    let (mean, found) = bound(Resampling::Never);
    assert!((mean - KALMAN).abs() < 0.02, "{mean}");
    assert!(found.resampled.iter().all(|times| *times == 0));
    for sizes in found.effective {
        assert!(
            sizes
                .iter()
                .all(|size| (1.0..=particles as f64 + 1e-6).contains(size))
        );
    }
}

/// One particle gives the plain bound.
#[test]
fn one_particle_never_beats_many() {
    let device = Device::default();
    let model = LinearGaussian::example(1, &device);
    let runs = 4000;
    let bound = |particles: usize| {
        let rows = runs * particles;
        let noise = tensor(normal(X.len() * rows, 13), [X.len(), rows, 1], &device);
        let observations = observations(runs, 1, &device);
        let conditions = Some(conditions(runs, &device));
        let found = particle_bound(
            &model,
            observations,
            conditions,
            noise,
            Resampling::Never,
            |_, features, context, _| model.posterior(features, context),
            |_| Vec::new(),
        );
        found.bound.iter().sum::<f64>() / runs as f64
    };
    let [one, four, many] = [1, 4, 64].map(bound);
    let filter: f64 = FILTER.iter().sum();
    assert!((one + filter).abs() < 0.03, "{one} {filter}");
    assert!(
        one < four && four < many && many < KALMAN + 0.02,
        "{one} {four} {many}"
    );
}
