//! A random state below the latents: `s_t = A s_{t-1} + N(0, S)`, `s_0 = 0`,
//! `z_t ~ N(s_t, Q)`, `x_t = z_t + N(0, R)`.
//!
//! The state is driven by the noise of the transition. `x_t = s_t + N(0, Q + R)`, so the exact likelihood
//! is that of a Kalman filter for `s`.

use crate::{
    X, conditions, log_normal, mean_and_error,
    model::{inner, normal, tensor, values},
    observations,
};
use burn::tensor::{Device, Tensor};
use mnemora_memory::Attention;
use mnemora_models::{
    DiagonalGaussian, FilteringModel, InferenceNoise, Likelihood, Resampling, decoded_at, expected,
    filter, filter_given, follow, foresee, generate, infer, inference::GradientSteps, online_step,
    particle_bound, unobserved_step,
};

const A: f64 = 0.9;
const S: f64 = 0.3;
const Q: f64 = 0.2;
const R: f64 = 0.5;

struct Wandering;

fn gaussian(mean: Tensor<2>, variance: f64) -> DiagonalGaussian {
    DiagonalGaussian {
        log_std: mean.zeros_like() + 0.5 * variance.ln(),
        mean,
    }
}

impl FilteringModel for Wandering {
    /// `s_{t-1}`
    type State = Tensor<2>;
    type Prepared = ();
    type Features = Tensor<2>;
    /// `s_t`
    type Context = Tensor<2>;
    type Emission = Tensor<2>;
    type Prior = DiagonalGaussian;

    fn latent_size(&self) -> usize {
        1
    }

    fn transition_noise(&self) -> usize {
        1
    }

    fn initial_state(&self, batch: usize) -> Tensor<2> {
        Tensor::zeros([batch, 1], &Device::default())
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<Tensor<2>> {
        let time = observations.dims()[1];
        let frames = observations.chunk(time, 1).into_iter();
        frames.map(|frame| frame.squeeze_dim(1)).collect()
    }

    fn prepare(&self) {}

    fn predict(
        &self,
        _: &(),
        _: Option<Tensor<2>>,
        noise: Option<Tensor<2>>,
        state: Tensor<2>,
    ) -> Tensor<2> {
        let course = state * A;
        match noise {
            None => course,
            Some(noise) => course + noise * S.sqrt(),
        }
    }

    fn prior_input(&self, context: &Tensor<2>) -> Tensor<2> {
        context.clone()
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        gaussian(input, Q)
    }

    /// The exact posterior given the state.
    fn posterior(&self, features: &Tensor<2>, context: &mut Tensor<2>) -> DiagonalGaussian {
        let mean = (context.clone() * R + features.clone() * Q) / (Q + R);
        gaussian(mean, Q * R / (Q + R))
    }

    fn emit(&self, z: Tensor<2>, _: &Tensor<2>) -> Tensor<2> {
        z
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        Likelihood::Gaussian {
            mean: emissions,
            std: R.sqrt(),
        }
    }

    fn update(&self, _: &Tensor<2>, _: Tensor<2>, _: &Tensor<2>, context: Tensor<2>) -> Tensor<2> {
        context
    }

    fn attention<'a>(&self, _: &'a Tensor<2>) -> &'a [Attention] {
        &[]
    }
}

fn noise(batch: usize, seed: u64, device: &Device) -> Tensor<3> {
    tensor(
        normal(X.len() * batch * 2, seed),
        [X.len(), batch, 2],
        device,
    )
}

/// Variance of `s_t`, before anything is observed, for t = 1, 2, ..
fn variances() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(S), |variance| Some(A * A * variance + S))
}

/// `log p(x)`
fn kalman() -> f64 {
    let (mut mean, mut variance, mut log) = (0.0, S, 0.0);
    for x in X.map(f64::from) {
        log += log_normal(x, mean, variance + Q + R);
        let gain = variance / (variance + Q + R);
        mean = A * (mean + gain * (x - mean));
        variance = A * A * (1.0 - gain) * variance + S;
    }
    log
}

/// With the exact posterior of `z`, the bound given a path of the state is `sum_t log N(x_t; s_t, Q + R)`, and the
/// state is drawn from its own distribution.
#[test]
fn the_bound_is_a_mean_over_courses_of_the_state() {
    let device = Device::default();
    let batch = 100_000;
    let filtered = filter(
        &Wandering,
        observations(batch, 1, &device),
        None,
        noise(batch, 3, &device),
        None,
    );
    let steps = X.into_iter().zip(variances());
    let expected: f64 = steps
        .map(|(x, variance)| log_normal(f64::from(x), 0.0, Q + R) - 0.5 * variance / (Q + R))
        .sum();
    let [bound, error] = mean_and_error(&values(filtered.bound(1.0)));
    assert!(
        (bound - expected).abs() < 4.0 * error,
        "{bound} +- {error}, not {expected}"
    );
    assert!(kalman() - expected > 20.0 * error);
}

#[test]
fn particles_converge_to_the_likelihood() {
    let (device, runs, particles) = (Device::default(), 100, 2000);
    for resampling in [Resampling::Never, Resampling::Below(0.5)] {
        let found = particle_bound(
            &Wandering,
            observations(runs, 1, &device),
            None,
            noise(runs * particles, 7, &device),
            resampling,
            |_, features, context, _| Wandering.posterior(features, context),
            |t| {
                (0..runs)
                    .map(|run| ((run * 37 + t * 11) % 101) as f64 / 101.0)
                    .collect()
            },
        );
        let bound = found.bound.iter().sum::<f64>() / runs as f64;
        assert!((bound - kalman()).abs() < 0.02, "{bound} {}", kalman());
    }
}

/// Beliefs are scored along the path of the state on which they were found, and so are the one-step-ahead
/// predictions.
#[test]
fn a_pass_can_be_gone_again() {
    let (device, batch) = (Device::default().autodiff(), 7);
    let x = observations(batch, 1, &device);
    let found = infer(
        &Wandering,
        &mut GradientSteps::new(0, 0.1),
        x.clone(),
        None,
        InferenceNoise {
            inner: vec![inner(X.len(), batch, 1, &device)],
            step: noise(batch, 5, &device),
        },
        1.0,
        None,
    );
    // No rounds: every belief is the prior of its step.
    let given = filter_given(&Wandering, x.clone(), None, &found, None);
    assert!(values(given.kl.clone()).iter().all(|kl| kl.abs() < 1e-6));
    assert_eq!(
        values(given.priors.mean.clone()),
        values(found.posteriors.mean)
    );

    let transition = given.transition_noise;
    let latents = given.latents;
    let made = expected(
        &Wandering,
        x.clone(),
        None,
        latents.clone(),
        transition.clone(),
    );
    assert_eq!(values(made.mean()), values(given.priors.mean));
    let made = decoded_at(
        &Wandering,
        x,
        None,
        latents.clone(),
        transition,
        latents.clone(),
    );
    assert_eq!(values(made.mean()), values(latents));
}

#[test]
fn one_step_at_a_time_is_the_pass() {
    let (device, batch) = (Device::default(), 3);
    let (x, noise) = (observations(batch, 1, &device), noise(batch, 9, &device));
    let filtered = filter(&Wandering, x.clone(), None, noise.clone(), None);
    let mut state = Wandering.initial_state(batch);
    for t in 0..X.len() {
        let step = online_step(
            &Wandering,
            &(),
            state,
            x.clone().narrow(1, t, 1).squeeze_dim(1),
            None,
            noise.clone().narrow(0, t, 1).squeeze_dim(0),
            |features, context, _| Wandering.posterior(features, context),
        );
        let surprise = values(step.scored.unwrap().surprise());
        let expected = filtered.kl.clone() - filtered.reconstruction.clone();
        assert_eq!(surprise, values(expected.narrow(0, t, 1)));
        state = step.state;
    }
    assert_eq!(values(state.clone()), values(filtered.state));
    assert_eq!(
        values(state),
        values(follow(&Wandering, x, None, noise, None))
    );
}

/// Predictions follow the mean of the state; generated sequences have its variance.
#[test]
fn expectations_take_the_mean_course_and_samples_do_not() {
    let (device, batch, time) = (Device::default(), 100_000, 3);
    let state = tensor(vec![2.0], [1, 1], &device);
    let next = foresee(&Wandering, &(), state.clone(), None)
        .observation(&Wandering)
        .mean();
    assert!((f64::from(values(next)[0]) - 2.0 * A).abs() < 1e-6);
    let (prior, state) = unobserved_step(&Wandering, &(), state, None);
    assert_eq!(values(prior.mean), values(state));

    assert_eq!(Wandering.generation_noise(), 2);
    let made = generate(
        &Wandering,
        Wandering.initial_state(batch),
        None,
        tensor(normal(time * batch * 2, 31), [time, batch, 2], &device),
        |_, likelihood| likelihood.mean(),
    );
    for (t, variance) in (0..time).zip(variances()) {
        let z = values(made.frames.clone().narrow(1, t, 1));
        let squares: Vec<f32> = z.iter().map(|z| z * z).collect();
        let [found, error] = mean_and_error(&squares);
        assert!(
            (found - (variance + Q)).abs() < 4.0 * error,
            "step {t}: {found} +- {error}, not {}",
            variance + Q
        );
    }
}

#[test]
#[should_panic(expected = "noise of each step")]
fn noise_of_the_latents_alone_is_refused() {
    let device = Device::default();
    let short = Tensor::zeros([X.len(), 1, 1], &device);
    filter(&Wandering, observations(1, 1, &device), None, short, None);
}

/// The same with conditions, which have no effect here.
#[test]
fn a_condition_and_the_noise_are_told_apart() {
    let (device, batch) = (Device::default(), 2);
    let pass = |conditions| {
        let x = observations(batch, 1, &device);
        values(filter(&Wandering, x, conditions, noise(batch, 2, &device), None).bound(1.0))
    };
    assert_eq!(pass(None), pass(Some(conditions(batch, &device))));
}
