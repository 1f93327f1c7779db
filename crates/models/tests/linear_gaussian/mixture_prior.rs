//! A prior that is a mixture: a switch adds one of two offsets to the transition,
//! `z_t = A z_{t-1} + b_k + N(0, Q)` with probability `w_k`.
//!
//! The exact likelihood is a sum over all paths of the switch, with a Kalman filter for each. The exact posterior
//! comes from integrals over a grid, which are feasible with one latent.

use crate::{
    X, conditions, log_normal, log_sum_exp, mean_and_error,
    model::{LinearGaussian, normal, tensor, values},
    observations,
};
use burn::tensor::{Device, Tensor};
use mnemora_memory::Attention;
use mnemora_models::{
    DiagonalGaussian, Distribution, FilteringModel, InferenceNoise, Likelihood, MixtureOfGaussians,
    Resampling, filter, filter_given, generate, infer, inference::GradientSteps, particle_bound,
};

const WEIGHTS: [f64; 2] = [0.3, 0.7];
const OFFSETS: [f64; 2] = [-1.2, 0.8];

/// The linear-Gaussian example with a switch.
struct Switching(LinearGaussian);

impl Switching {
    fn new(device: &Device) -> Self {
        Self(LinearGaussian::example(1, device))
    }

    /// A component for each offset.
    fn components(&self, gaussian: &DiagonalGaussian) -> MixtureOfGaussians {
        let rows = gaussian.mean.dims()[0];
        let device = gaussian.mean.device();
        let stacked = |of: &dyn Fn(f64) -> Tensor<2>| {
            Tensor::cat(OFFSETS.map(|b| of(b).unsqueeze_dim::<3>(1)).to_vec(), 1)
        };
        let log_weights = WEIGHTS.map(|w| w.ln() as f32).repeat(rows);
        MixtureOfGaussians {
            log_weights: tensor(log_weights, [rows, 2], &device),
            means: stacked(&|offset| gaussian.mean.clone() + offset),
            log_stds: stacked(&|_| gaussian.log_std.clone()),
        }
    }
}

impl FilteringModel for Switching {
    type State = Option<Tensor<2>>;
    type Prepared = ();
    type Features = Tensor<2>;
    type Context = Tensor<2>;
    type Emission = Tensor<2>;
    type Prior = MixtureOfGaussians;

    fn latent_size(&self) -> usize {
        1
    }

    fn initial_state(&self, batch: usize) -> Self::State {
        self.0.initial_state(batch)
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<Tensor<2>> {
        self.0.encode(observations)
    }

    fn prepare(&self) {}

    fn predict(
        &self,
        prepared: &(),
        condition: Option<Tensor<2>>,
        noise: Option<Tensor<2>>,
        state: Self::State,
    ) -> Tensor<2> {
        self.0.predict(prepared, condition, noise, state)
    }

    fn prior_input(&self, context: &Tensor<2>) -> Tensor<2> {
        context.clone()
    }

    fn prior(&self, input: Tensor<2>) -> MixtureOfGaussians {
        self.components(&self.0.prior(input))
    }

    /// The exact posterior of one step is a mixture, too; this is the Gaussian with its moments.
    fn posterior(&self, features: &Tensor<2>, context: &mut Tensor<2>) -> DiagonalGaussian {
        let prior = self.prior(context.clone());
        let r = self.0.variances[1];
        let x = features.clone().unsqueeze_dim::<3>(1);
        let own = prior.log_stds.clone().mul_scalar(2.0).exp();
        let sum = own.clone() + r;
        let distance = x - prior.means.clone();
        let evidence = (distance.clone().square() / sum.clone() + sum.clone().log()) * -0.5;
        let joint = prior.log_weights + evidence.squeeze_dim::<2>(2);
        let exact = MixtureOfGaussians {
            log_weights: burn::tensor::activation::log_softmax(joint, 1),
            means: prior.means + distance * own.clone() / sum.clone(),
            log_stds: (own * r / sum).log() * 0.5,
        };
        exact.gaussian()
    }

    fn emit(&self, z: Tensor<2>, context: &Tensor<2>) -> Tensor<2> {
        self.0.emit(z, context)
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        self.0.decode(emissions)
    }

    fn update(
        &self,
        features: &Tensor<2>,
        z: Tensor<2>,
        emission: &Tensor<2>,
        context: Tensor<2>,
    ) -> Self::State {
        self.0.update(features, z, emission, context)
    }

    fn attention<'a>(&self, _: &'a Tensor<2>) -> &'a [Attention] {
        &[]
    }
}

/// The example's numbers: `A`, `Q`, `R`, `P1`.
const NUMBERS: [f64; 4] = [0.9, 0.2, 0.5, 1.0];

/// Log weight, mean and variance of each component of `p(z_t | z_{t-1})`.
fn prior(before: Option<f64>) -> [[f64; 3]; 2] {
    let [a, q, _, p1] = NUMBERS;
    let (mean, variance) = before.map_or((0.0, p1), |z| (a * z, q));
    [0, 1].map(|k| [WEIGHTS[k].ln(), mean + OFFSETS[k], variance])
}

fn log_prior(z: f64, before: Option<f64>) -> f64 {
    let each = prior(before).map(|[log, mean, variance]| log + log_normal(z, mean, variance));
    log_sum_exp(&each)
}

/// Mean and variance of the posterior of one step.
fn posterior(x: f64, before: Option<f64>) -> [f64; 2] {
    let r = NUMBERS[2];
    let joint = prior(before).map(|[log, mean, variance]| {
        let gain = variance / (variance + r);
        let evidence = log_normal(x, mean, variance + r);
        [log + evidence, mean + gain * (x - mean), gain * r]
    });
    let total = log_sum_exp(&joint.map(|[log, ..]| log));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        let terms = joint.map(|[log, mean, variance]| (log - total).exp() * of(mean, variance));
        terms.iter().sum()
    };
    let mean = sum(&|mean, _| mean);
    [mean, sum(&|own, variance| variance + (own - mean).powi(2))]
}

/// `log p(x)`: a Kalman filter for each of the 32 paths of the switch.
fn exact() -> f64 {
    let [a, q, r, p1] = NUMBERS;
    let courses: Vec<f64> = (0..1 << X.len())
        .map(|course| {
            let (mut mean, mut variance, mut log) = (0.0, p1, 0.0);
            for (t, x) in X.into_iter().enumerate() {
                let x = f64::from(x);
                let k = (course >> t) & 1;
                mean += OFFSETS[k];
                log += WEIGHTS[k].ln() + log_normal(x, mean, variance + r);
                let gain = variance / (variance + r);
                mean = a * (mean + gain * (x - mean));
                variance = a * a * gain * r + q;
            }
            log
        })
        .collect();
    log_sum_exp(&courses)
}

const STEP: f64 = 0.02;

fn grid() -> impl Iterator<Item = f64> + Clone {
    (-400..=400).map(|place| f64::from(place) * STEP)
}

/// Results of integrals over the grid for the example.
struct Integrals {
    /// `log p(x)`
    likelihood: f64,
    /// `KL(q(z_1, .., z_T) || p(z_1, .., z_T | x))`
    gap: f64,
    /// `E KL(q(z_t) || p(z_t | z_{t-1}))` of each step.
    kl: Vec<f64>,
}

/// `ahead[t](z)` is `p(x_t, .., x_T | z_{t-1} = z)`; from it the exact posterior
/// `p(z_t | z_{t-1}, x_t, .., x_T) = p(z_t | z_{t-1}) p(x_t | z_t) ahead[t+1](z_t) / ahead[t](z_{t-1})`.
fn integrals() -> Integrals {
    let r = NUMBERS[2];
    let time = X.len();
    let before = |t: usize| -> Vec<Option<f64>> {
        match t {
            0 => vec![None],
            _ => grid().map(Some).collect(),
        }
    };
    let log_joint = |t: usize, z: f64, before: Option<f64>| {
        log_prior(z, before) + log_normal(f64::from(X[t]), z, r)
    };
    let mut ahead = vec![vec![1.0_f64; grid().count()]];
    for t in (0..time).rev() {
        let later = &ahead[0];
        let sums = before(t).into_iter().map(|before| {
            let terms = grid().zip(later);
            let terms = terms.map(|(z, later)| log_joint(t, z, before).exp() * later);
            terms.sum::<f64>() * STEP
        });
        let sums = sums.collect();
        ahead.insert(0, sums);
    }

    // Weights of the grid points: the distribution of z_{t-1} under q.
    let mut reached = vec![1.0];
    let (mut gap, mut kl) = (0.0, Vec::new());
    for t in 0..time {
        let mut next = vec![0.0; grid().count()];
        let mut of_step = 0.0;
        for ((before, weight), now) in before(t).into_iter().zip(&reached).zip(&ahead[t]) {
            let [mean, variance] = posterior(f64::from(X[t]), before);
            for ((z, later), next) in grid().zip(&ahead[t + 1]).zip(&mut next) {
                let log_q = log_normal(z, mean, variance);
                let share = weight * log_q.exp() * STEP;
                // A point without weight adds nothing, but its logarithm would be infinite.
                if share > 0.0 {
                    let exact = log_joint(t, z, before) + later.ln() - now.ln();
                    gap += share * (log_q - exact);
                    of_step += share * (log_q - log_prior(z, before));
                    *next += share;
                }
            }
        }
        kl.push(of_step);
        reached = next;
    }
    Integrals {
        likelihood: ahead[0][0].ln(),
        gap,
        kl,
    }
}

/// Both ways to the exact numbers agree, and the sampled bound and its KL divergence agree with them.
#[test]
fn the_bound_is_below_the_likelihood_by_the_divergence_from_the_posterior() {
    let Integrals {
        likelihood,
        gap,
        kl,
    } = integrals();
    assert!(
        (likelihood - exact()).abs() < 1e-6,
        "{likelihood} {}",
        exact()
    );

    let device = Device::default();
    let batch = 100_000;
    let filtered = filter(
        &Switching::new(&device),
        observations(batch, 1, &device),
        Some(conditions(batch, &device)),
        tensor(normal(X.len() * batch, 5), [X.len(), batch, 1], &device),
        None,
    );
    let [bound, error] = mean_and_error(&values(filtered.bound(1.0)));
    // Far larger than the error, so that neither another bound nor the likelihood itself would pass.
    assert!(gap > 20.0 * error, "{gap} {error}");
    assert!(
        (bound - (likelihood - gap)).abs() < 4.0 * error,
        "{bound} +- {error}, not {likelihood} - {gap}"
    );
    for (t, expected) in kl.into_iter().enumerate() {
        let of_step = values(filtered.kl.clone().narrow(0, t, 1));
        let [mean, error] = mean_and_error(&of_step);
        assert!(error < 0.01);
        assert!(
            (mean - expected).abs() < 4.0 * error,
            "step {t}: {mean} +- {error}, not {expected}"
        );
    }
}

#[test]
fn particles_converge_to_the_likelihood() {
    let device = Device::default();
    let model = Switching::new(&device);
    let runs = 100;
    let bound = |particles: usize, resampling| {
        let rows = runs * particles;
        let found = particle_bound(
            &model,
            observations(runs, 1, &device),
            Some(conditions(runs, &device)),
            tensor(normal(X.len() * rows, 17), [X.len(), rows, 1], &device),
            resampling,
            |_, features, context, _| model.posterior(features, context),
            |t| {
                (0..runs)
                    .map(|run| ((run * 37 + t * 11) % 101) as f64 / 101.0)
                    .collect()
            },
        );
        found.bound.iter().sum::<f64>() / runs as f64
    };
    let exact = exact();
    for resampling in [Resampling::Never, Resampling::Below(0.5)] {
        let [few, many] = [4, 2000].map(|particles| bound(particles, resampling));
        assert!((many - exact).abs() < 0.02, "{many} {exact}");
        assert!(few < exact - 0.05, "{few} {exact}");
    }
}

/// `F(m, s)` of the first step, up to integrals on the grid.
fn free_energy(mean: f64, log_variance: f64) -> f64 {
    let variance = log_variance.exp();
    let terms = grid().map(|z| {
        let log_q = log_normal(z, mean, variance);
        let log_joint = log_prior(z, None) + log_normal(z, f64::from(X[0]), NUMBERS[2]);
        log_q.exp() * (log_q - log_joint) * STEP
    });
    terms.sum()
}

/// The belief starts at the prior's moments and moves to the optimum, although the divergence is only estimated
/// from samples.
#[test]
fn gradient_steps_reach_the_best_gaussian() {
    let device = Device::default().autodiff();
    // So many that the mean over them is an integral: the entropy is exact, and no error of the sample cancels.
    let samples = 400;
    let model = Switching::new(&device);
    let x = observations(1, 1, &device).narrow(1, 0, 1);
    let condition = conditions(1, &device).narrow(1, 0, 1);
    // Quantiles of the standard normal at the midpoints of equal probabilities.
    let mut drawn = normal(200_000, 23);
    drawn.sort_by(f32::total_cmp);
    let inner: Vec<f32> = drawn.chunks(500).map(|share| share[250]).collect();
    let noise = InferenceNoise {
        inner: vec![tensor(inner, [samples, 1, 1, 1], &device)],
        step: Tensor::zeros([1, 1, 1], &device),
    };
    let find = |rounds| {
        infer(
            &model,
            &mut GradientSteps::new(rounds, 0.03),
            x.clone(),
            Some(condition.clone()),
            noise.clone(),
            1.0,
            None,
        )
    };
    let belief = |of: &DiagonalGaussian| {
        let [mean, log_std] =
            [&of.mean, &of.log_std].map(|part| f64::from(values(part.clone())[0]));
        [mean, 2.0 * log_std]
    };
    let first = belief(&find(0).posteriors);
    let offset: f64 = WEIGHTS.iter().zip(OFFSETS).map(|(w, b)| w * b).sum();
    let spread: f64 = WEIGHTS
        .iter()
        .zip(OFFSETS)
        .map(|(w, b)| w * (b - offset).powi(2))
        .sum();
    let expected = [offset, (NUMBERS[3] + spread).ln()];
    for (found, expected) in first.into_iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }

    let found = find(150);
    let [mean, log_variance] = belief(&found.posteriors);
    let energy = free_energy(mean, log_variance);
    // No step in any direction is better, and the reported energies are right.
    for (m, l) in [(0.05, 0.0), (-0.05, 0.0), (0.0, 0.1), (0.0, -0.1)] {
        let other = free_energy(mean + m, log_variance + l);
        assert!(other > energy, "{energy} {other}");
    }
    let told = f64::from(values(found.energies.last().unwrap().clone())[0]);
    assert!((told - energy).abs() < 5e-3, "{told} {energy}");
    assert!(energy < free_energy(first[0], first[1]) - 0.1);

    // The model learns from the bound at the one sample, with the exact entropy of the belief.
    let given = filter_given(&model, x.clone(), Some(condition.clone()), &found, None);
    let z = f64::from(values(found.latents.clone())[0]);
    let entropy = 0.5 * ((std::f64::consts::TAU * std::f64::consts::E).ln() + log_variance);
    let expected = log_prior(z, None) + log_normal(f64::from(X[0]), z, NUMBERS[2]) + entropy;
    let bound = f64::from(values(given.bound(1.0))[0]);
    assert!((bound - expected).abs() < 1e-4, "{bound} {expected}");
}

/// A generated latent needs one more random number than it has dimensions, to select the component.
#[test]
fn generated_latents_are_drawn_from_the_mixture() {
    let device = Device::default();
    let model = Switching::new(&device);
    let (batch, time) = (100_000, 2);
    assert_eq!(model.generation_noise(), 2);
    let made = generate(
        &model,
        None,
        Some(conditions(batch, &device).narrow(1, 0, time)),
        tensor(normal(time * batch * 2, 29), [time, batch, 2], &device),
        |_, likelihood| likelihood.mean(),
    );
    let [a, q, _, p1] = NUMBERS;
    let offset: f64 = WEIGHTS.iter().zip(OFFSETS).map(|(w, b)| w * b).sum();
    let spread: f64 = WEIGHTS
        .iter()
        .zip(OFFSETS)
        .map(|(w, b)| w * (b - offset).powi(2))
        .sum();
    let (mut mean, mut variance) = (0.0, p1 - q);
    for t in 0..time {
        (mean, variance) = match t {
            0 => (offset, p1 + spread),
            _ => (a * mean + offset, a * a * variance + q + spread),
        };
        let z = values(made.frames.clone().narrow(1, t, 1));
        let [found, error] = mean_and_error(&z);
        assert!(
            (found - mean).abs() < 4.0 * error,
            "{found} +- {error}, not {mean}"
        );
        let squares: Vec<f32> = z
            .iter()
            .map(|z| (f64::from(*z) - mean).powi(2) as f32)
            .collect();
        let [found, error] = mean_and_error(&squares);
        assert!(
            (found - variance).abs() < 4.0 * error,
            "{found} +- {error}, not {variance}"
        );
    }
    // The component: the fraction of the first latents above a point.
    let z = values(made.frames.narrow(1, 0, 1));
    let above: Vec<f32> = z.iter().map(|z| f32::from(*z > 0.8)).collect();
    let [found, error] = mean_and_error(&above);
    let grid = grid().map(|z| z + 0.5 * STEP).filter(|z| *z > 0.8);
    let expected: f64 = grid.map(|z| log_prior(z, None).exp() * STEP).sum();
    assert!(
        (found - expected).abs() < 4.0 * error,
        "{found} +- {error}, not {expected}"
    );
}
