//! Variational filtering on a linear-Gaussian model, where all it should find is known in closed form.
//!
//! `z_1 ~ N(0, P1)`, `z_t = A z_{t-1} + N(0, Q)`, `x_t = C z_t + N(0, R)`.

use burn::tensor::{Device, Tensor, TensorData};
use mnemora_memory::Attention;
use mnemora_models::{
    DiagonalGaussian, FilteringModel, Improver, InferenceNoise, Likelihood, Resampling, infer,
    inference::{Belief, GradientSteps},
    particle_bound,
};

/// The model with given parameters, all matrices diagonal.
struct LinearGaussian {
    latent: usize,
    /// Diagonals of `A` and `C`.
    transition: f64,
    emission: f64,
    /// `Q`, `R`, `P1`
    variances: [f64; 3],
    device: Device,
}

impl LinearGaussian {
    /// The scalar example of the derivations.
    fn example(latent: usize, device: &Device) -> Self {
        Self {
            latent,
            transition: 0.9,
            emission: 1.0,
            variances: [0.2, 0.5, 1.0],
            device: device.clone(),
        }
    }
}

impl FilteringModel for LinearGaussian {
    /// `z_{t-1}`
    type State = Option<Tensor<2>>;
    /// `x_t`
    type Features = Tensor<2>;
    /// Prior mean and, twice, the log of its standard deviation.
    type Context = Tensor<2>;

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn initial_state(&self, _: usize) -> Self::State {
        None
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<Tensor<2>> {
        let time = observations.dims()[1];
        let frames = observations.chunk(time, 1).into_iter();
        frames.map(|frame| frame.squeeze_dim(1)).collect()
    }

    fn predict(&self, condition: Option<Tensor<2>>, state: Self::State) -> Tensor<2> {
        // The condition carries nothing but the batch.
        let batch = condition.expect("the tests give one").dims()[0];
        let [q, _, p1] = self.variances;
        let (mean, variance) = match state {
            None => (Tensor::zeros([batch, self.latent], &self.device), p1),
            Some(z) => (z * self.transition, q),
        };
        let log_std = mean.zeros_like() + 0.5 * variance.ln();
        Tensor::cat(vec![mean, log_std], 1)
    }

    fn prior_input(&self, context: &Tensor<2>) -> Tensor<2> {
        context.clone()
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        DiagonalGaussian::from_parameters(input)
    }

    /// The exact posterior of one step.
    fn posterior(&self, features: &Tensor<2>, context: &Tensor<2>) -> DiagonalGaussian {
        let prior = self.prior(context.clone());
        let r = self.variances[1];
        let precision = prior.log_std.clone().mul_scalar(-2.0).exp();
        let sum = precision.clone() + self.emission * self.emission / r;
        let mean = (precision * prior.mean + features.clone() * (self.emission / r)) / sum.clone();
        DiagonalGaussian {
            mean,
            log_std: sum.log().mul_scalar(-0.5),
        }
    }

    fn emit(&self, z: Tensor<2>, _: &Tensor<2>) -> Tensor<2> {
        z * self.emission
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        Likelihood::Gaussian {
            mean: emissions,
            std: self.variances[1].sqrt(),
        }
    }

    fn update(&self, _: &Tensor<2>, z: Tensor<2>, _: &Tensor<2>, _: Tensor<2>) -> Self::State {
        Some(z)
    }

    fn attention<'a>(&self, _: &'a Tensor<2>) -> &'a [Attention] {
        &[]
    }
}

/// The observations of the example.
const X: [f32; 5] = [0.5, -0.3, 1.2, 0.4, -0.8];
const KALMAN: f64 = -6.486_588;
/// The optimal conditional filter: free energy a step, final mean and variance.
const FILTER: [f64; 5] = [1.205_004, 1.190_601, 1.742_724, 0.890_557, 1.828_215];
const FINAL: [f64; 2] = [0.020_747, 0.246_099];

/// So many sequences, all of them the example's in every dimension.
fn observations(batch: usize, latent: usize, device: &Device) -> Tensor<3> {
    let steps = X.iter().flat_map(|x| std::iter::repeat_n(*x, latent));
    let one: Vec<f32> = steps.collect();
    let values = one.repeat(batch);
    Tensor::from_data(TensorData::new(values, [batch, X.len(), latent]), device)
}

fn conditions(batch: usize, device: &Device) -> Tensor<3> {
    Tensor::zeros([batch, X.len(), 1], device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// Standard normal numbers from equidistributed ones, by Box and Muller.
fn normal(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let numbers = (0..count).map(|_| {
        let (u, v) = (uniform(), uniform());
        ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    });
    numbers.collect()
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Samples whose mean is zero and whose covariance is one, so that expectations of squares are exact:
/// `+-sqrt(latent)` along each axis.
fn inner(batch: usize, latent: usize, device: &Device) -> Tensor<4> {
    let samples = 2 * latent;
    let mut values = Vec::new();
    for sample in 0..samples {
        let size = (latent as f32).sqrt() * if sample % 2 == 0 { 1.0 } else { -1.0 };
        let row: Vec<f32> = (0..latent)
            .map(|axis| if axis == sample / 2 { size } else { 0.0 })
            .collect();
        values.extend(row.repeat(X.len() * batch));
    }
    tensor(values, [samples, X.len(), batch, latent], device)
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|x| f64::from(*x)).sum::<f64>() / values.len() as f64
}

#[test]
fn gradient_steps_reach_the_optimal_filter() {
    let device = Device::default().autodiff();
    let batch = 20_000;
    let model = LinearGaussian::example(1, &device);
    let noise = InferenceNoise {
        inner: inner(batch, 1, &device),
        latent: tensor(normal(X.len() * batch, 7), [X.len(), batch, 1], &device),
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
    // Free energies of a step, averaged over the samples that led there.
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
        inner: inner(batch, latent, &device),
        latent: tensor(normal(count, 3), [X.len(), batch, latent], &device),
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
        let context = model.predict(Some(Tensor::zeros([batch, 1], &device)), state);
        let exact = model.posterior(&features, &context);
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

/// Goes along each axis of the belief in turn and back, and keeps what it is told.
struct Probe {
    width: usize,
    gradients: Vec<[Vec<f32>; 2]>,
    round: usize,
}

const STEP: f64 = 1e-2;

impl Improver for Probe {
    fn rounds(&self) -> usize {
        // To either side of where it begins, for every number of the belief.
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
        // From where the last round left it: forth, across to the other side, and so on.
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
        inner: tensor(normal(2 * count, 5), [2, X.len(), batch, latent], &device),
        latent: tensor(normal(count, 6), [X.len(), batch, latent], &device),
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

/// One particle is the plain bound.
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
