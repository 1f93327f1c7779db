//! Variational filtering: beliefs improved at each step by gradients (Marino et al. 2018, avf).
//!
//! A belief is the approximate posterior of one step. At each step the belief `q(z_t) = N(m, exp(l))` starts at the
//! prior, with `l` within [`LOG_VARIANCE`], and is improved by gradients of the step's free energy
//!
//! `F_t(m, l) = -(1/S) sum_s log p(x_t | z_s, ..) + kl_weight KL(q || p(z_t | ..))`
//!
//! with `S` samples `z_s = m + exp(l / 2) e_s` and standard normal `e_s` (avf, equation 9, where `kl_weight` is 1). If the prior is not a Gaussian, the belief starts at the Gaussian with its moments. If the
//! divergence has no closed form, it is a mean over the same samples `z_s`.
//!
//! A model learns from sequences in two passes. [`infer`] finds all beliefs with a frozen model, with one small
//! graph at a time, so that the cost of a step does not depend on the length of the sequence. [`filter_given`]
//! then builds the single graph from which the model learns.

use crate::{
    DiagonalGaussian, Distribution, Filtered, FilteringModel, KlFrom,
    filtering::{Inputs, StepNoise, run, score, time_major},
};
use burn::tensor::Tensor;
use mnemora_memory::Bundle;

/// Bounds of a belief's log-variance.
pub const LOG_VARIANCE: [f64; 2] = [-15.0, 5.0];

/// A diagonal Gaussian by mean and log-variance, both `[batch, latent]`; or a gradient with respect to these.
#[derive(Clone, Debug)]
pub struct Belief {
    /// `m`
    pub mean: Tensor<2>,
    /// `l`
    pub log_variance: Tensor<2>,
}

impl Belief {
    /// The first belief: the prior, or the Gaussian with its moments. Its log-variance is kept within
    /// [`LOG_VARIANCE`] like that of every later belief; a prior may be narrower or wider.
    fn first(prior: &impl Distribution) -> Self {
        let prior = prior.gaussian();
        let log_variance = prior.log_std.mul_scalar(2.0);
        Self {
            mean: prior.mean.detach(),
            log_variance: log_variance
                .clamp(LOG_VARIANCE[0], LOG_VARIANCE[1])
                .detach(),
        }
    }

    fn gaussian(&self) -> DiagonalGaussian {
        DiagonalGaussian {
            mean: self.mean.clone(),
            log_std: self.log_variance.clone().mul_scalar(0.5),
        }
    }
}

mnemora_memory::bundle!(Belief { mean, log_variance });

/// An algorithm that improves a belief.
pub trait Improver {
    /// Number of rounds at each step.
    fn rounds(&self) -> usize;

    /// Called when a new time step begins.
    fn begin(&mut self) {}

    /// A better belief, from the current one and the gradient of each sequence's free energy with respect to it;
    /// `x` is the observation `[batch, pixels]`. All are constants.
    fn improve(&mut self, belief: &Belief, gradient: &Belief, x: &Tensor<2>) -> Belief;

    /// Whether [`learn`](Self::learn) is called with the gradient after each round.
    fn learns(&self) -> bool {
        false
    }

    /// Receives the gradient of each sequence's free energy with respect to the last result of
    /// [`improve`](Self::improve); a constant.
    fn learn(&mut self, _gradient: &Belief) {}

    /// Called when a time step ends.
    fn end(&mut self) {}
}

/// Gradient descent on each belief with Adam: filtering without amortization (avf, Algorithm 1).
#[derive(Clone, Debug)]
pub struct GradientSteps {
    /// Steps of the optimiser at each time step.
    pub iterations: usize,
    /// Learning rate.
    pub rate: f64,
    moments: Option<[Belief; 2]>,
    done: i32,
}

impl GradientSteps {
    /// `iterations` steps with learning rate `rate`.
    pub fn new(iterations: usize, rate: f64) -> Self {
        Self {
            iterations,
            rate,
            moments: None,
            done: 0,
        }
    }
}

impl Improver for GradientSteps {
    fn rounds(&self) -> usize {
        self.iterations
    }

    fn begin(&mut self) {
        self.moments = None;
        self.done = 0;
    }

    fn improve(&mut self, belief: &Belief, gradient: &Belief, _: &Tensor<2>) -> Belief {
        const DECAY: [f64; 2] = [0.9, 0.999];
        const EPSILON: f64 = 1e-8;
        let [first, second] = self.moments.take().unwrap_or_else(|| {
            let zeros = Belief {
                mean: belief.mean.zeros_like(),
                log_variance: belief.log_variance.zeros_like(),
            };
            [zeros.clone(), zeros]
        });
        self.done += 1;
        let corrections = DECAY.map(|decay| 1.0 - decay.powi(self.done));
        let step =
            |value: &Tensor<2>, gradient: &Tensor<2>, first: Tensor<2>, second: Tensor<2>| {
                let first = first * DECAY[0] + gradient.clone() * (1.0 - DECAY[0]);
                let second = second * DECAY[1] + gradient.clone().square() * (1.0 - DECAY[1]);
                let direction = first.clone().div_scalar(corrections[0])
                    / (second.clone().div_scalar(corrections[1]).sqrt() + EPSILON);
                (value.clone() - direction * self.rate, first, second)
            };
        let (mean, first_mean, second_mean) =
            step(&belief.mean, &gradient.mean, first.mean, second.mean);
        let (log_variance, first_log, second_log) = step(
            &belief.log_variance,
            &gradient.log_variance,
            first.log_variance,
            second.log_variance,
        );
        let pair = |mean, log_variance| Belief { mean, log_variance };
        self.moments = Some([pair(first_mean, first_log), pair(second_mean, second_log)]);
        pair(mean, log_variance.clamp(LOG_VARIANCE[0], LOG_VARIANCE[1]))
    }
}

/// The result of inference; rows are time-major, nothing is on a graph.
#[derive(Clone, Debug)]
pub struct Inferred<S> {
    /// The filtering posteriors, `[time * batch, latent]`.
    pub posteriors: DiagonalGaussian,
    /// A sample of each, `[time * batch, latent]`.
    pub latents: Tensor<2>,
    /// The noise of the transitions, `[time, batch, transition_noise]`; `None` for a deterministic
    /// transition.
    pub transition_noise: Option<Tensor<3>>,
    /// Free energies before the first round and after each, in nats, each `[time, batch]`; 0 at steps
    /// that are not scored.
    pub energies: Vec<Tensor<2>>,
    /// State after the last step.
    pub state: S,
}

/// Standard normal noise for [`infer`].
#[derive(Clone, Debug)]
pub struct InferenceNoise {
    /// `inner[r]` is the noise of the samples in the free energy before round `r` (from 0); the one after the last round
    /// is for the free energy after all rounds. Each is `[samples, time, batch, latent]`. If there are fewer, the last one
    /// is used again. Give a network that learns one per round: the gradient of a round depends on that round's noise,
    /// and the network could fit the noise if it were used again.
    pub inner: Vec<Tensor<4>>,
    /// Noise for the latents passed to the next step and for the transitions, as in
    /// [`filter`](crate::filter), `[time, batch, noise_size]`. It must be independent of the inner noise, to which
    /// the belief was fitted.
    pub step: Tensor<3>,
}

/// Infers the beliefs of a sequence, one step after the other.
///
/// `model` is on an autodiff device, but frozen ([`Module::freeze`](burn::module::Module::freeze)): no parameter
/// is tracked, and batch norm uses its running statistics without changing them.
///
/// # Shapes
/// - `observations`: `[batch, time, pixels]`; in `[0, 1]` if the likelihood is of pixels
/// - `conditions`: `[batch, time, condition]`
/// - `state`: the state to start from; the initial state if `None`
///
/// # Panics
/// If `time` is 0, there is no inner noise, or shapes do not fit the model.
pub fn infer<M: FilteringModel>(
    model: &M,
    improver: &mut (impl Improver + ?Sized),
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    noise: InferenceNoise,
    kl_weight: f64,
    state: Option<M::State>,
) -> Inferred<M::State> {
    let [batch, time, pixels] = observations.dims();
    let observations = time_major(observations);
    let features = model.encode(observations.clone());
    let frames = observations.swap_dims(0, 1).reshape([time * batch, pixels]);
    let mut state = state.unwrap_or_else(|| model.initial_state(batch));
    let prepared = model.prepare();
    let step_noise = StepNoise::of(model, noise.step);
    let inputs = Inputs::of_steps(features, conditions, step_noise.clone());
    let unscored = model.scored_from(&state);
    let mut beliefs = Vec::with_capacity(time);
    let mut latents = Vec::with_capacity(time);
    let mut energies = vec![Vec::with_capacity(time); improver.rounds() + 1];
    for (t, input) in inputs.into_iter().enumerate() {
        let x = frames.clone().narrow(0, t * batch, batch);
        let drawn = |round: usize| {
            let inner = noise.inner[round.min(noise.inner.len() - 1)].clone();
            inner.narrow(1, t, 1).squeeze_dim::<3>(1)
        };
        let mut context = model.predict(&prepared, input.condition, input.transition, state);
        let (q, found) = match t < unscored {
            // Memorised steps use the model's own belief; they have no free energy to improve it by.
            true => {
                let q = model.posterior(&input.features, &mut context).detach();
                (q, vec![Tensor::zeros([batch], &x.device()); energies.len()])
            }
            false => {
                let found = infer_step(model, improver, &context, &x, drawn, kl_weight);
                (found.posterior, found.energies)
            }
        };
        for (energies, energy) in energies.iter_mut().zip(found) {
            energies.push(energy.unsqueeze_dim::<2>(0));
        }
        let z = q.sample(input.noise);
        beliefs.push(q);
        latents.push(z.clone());
        let emission = model.emit(z.clone(), &context);
        state = model.update(&input.features, z, &emission, context);
    }
    Inferred {
        posteriors: DiagonalGaussian::concatenate(beliefs),
        latents: Tensor::cat(latents, 0),
        transition_noise: step_noise.transition,
        energies: energies
            .into_iter()
            .map(|steps| Tensor::cat(steps, 0))
            .collect(),
        state,
    }
}

/// The result of inference at one step; nothing is on a graph.
#[derive(Clone, Debug)]
pub struct InferredStep<P> {
    /// `p(z_t | ..)`, `[batch, latent]`.
    pub prior: P,
    /// The belief after the last round, `[batch, latent]`.
    pub posterior: DiagonalGaussian,
    /// Free energies before the first round and after each, in nats, each `[batch]`.
    pub energies: Vec<Tensor<1>>,
}

/// The belief of one step, starting at the prior.
///
/// # Shapes
/// - `context`: of the step, of `batch` rows
/// - `x`: `[batch, pixels]`
/// - `noise(round)`: standard normal, `[samples, batch, latent]`, for the free energy before round
///   `round` (from 0) and, last, after all rounds
///
/// # Panics
/// As [`infer`].
pub fn infer_step<M: FilteringModel>(
    model: &M,
    improver: &mut (impl Improver + ?Sized),
    context: &M::Context,
    x: &Tensor<2>,
    noise: impl Fn(usize) -> Tensor<3>,
    kl_weight: f64,
) -> InferredStep<M::Prior> {
    let prior = model.prior(model.prior_input(context));
    let energy = |belief: &Belief, round: usize| {
        let q = belief.gaussian();
        let noise = noise(round);
        let samples = noise.dims()[0];
        let mut latents = Vec::with_capacity(samples);
        let terms = (0..samples).map(|sample| {
            let noise = noise.clone().narrow(0, sample, 1).squeeze_dim::<2>(0);
            let z = q.sample(noise);
            latents.push(z.clone());
            model
                .decode(model.emit(z, context))
                .log_probability(x.clone())
        });
        let reconstruction = terms.reduce(|a, b| a + b).expect("a sample at least");
        if M::Prior::CLOSED_FORM {
            // The closed form is the same for every sample.
            latents.truncate(1);
        }
        let divergences = latents.iter().map(|z| prior.kl_from(&q, z));
        let kl = divergences.reduce(|a, b| a + b).expect("a sample at least");
        kl.mul_scalar(kl_weight / latents.len() as f64) - reconstruction.div_scalar(samples as f64)
    };
    improver.begin();
    let mut belief = Belief::first(&prior);
    let mut energies = Vec::with_capacity(improver.rounds() + 1);
    for round in 0..=improver.rounds() {
        // Zeros are added to the belief; their gradient is the belief's.
        let zeros = Belief {
            mean: belief.mean.zeros_like().require_grad(),
            log_variance: belief.log_variance.zeros_like().require_grad(),
        };
        let moved = Belief {
            mean: belief.mean.clone() + zeros.mean.clone(),
            log_variance: belief.log_variance.clone() + zeros.log_variance.clone(),
        };
        let energy = energy(&moved, round);
        energies.push(energy.clone().detach());
        if round == improver.rounds() && !improver.learns() {
            break;
        }
        let gradients = energy.sum().backward();
        let of = |leaf: &Tensor<2>| {
            let gradient = leaf.grad(&gradients).map(Tensor::from_inner);
            gradient.unwrap_or_else(|| leaf.zeros_like())
        };
        let gradient = Belief {
            mean: of(&zeros.mean),
            log_variance: of(&zeros.log_variance),
        };
        if round > 0 {
            improver.learn(&gradient);
        }
        if round < improver.rounds() {
            belief = improver.improve(&belief, &gradient, x).detach();
        }
    }
    improver.end();
    InferredStep {
        prior,
        posterior: belief.gaussian(),
        energies,
    }
}

/// The filtering pass for given beliefs and samples, which are constants. The model's prior, likelihood and
/// recurrence learn from its bound; its own posterior does not.
///
/// # Shapes
/// As for [`infer`]; `model` may track its parameters.
pub fn filter_given<M: FilteringModel, S>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    inferred: &Inferred<S>,
    state: Option<M::State>,
) -> Filtered<M::State, M::Prior> {
    let [batch, time, _] = observations.dims();
    let observations = time_major(observations);
    let features = model.encode(observations.clone());
    let latent = model.latent_size();
    let latents = inferred.latents.clone().reshape([time, batch, latent]);
    let noise = StepNoise {
        latent: latents,
        transition: inferred.transition_noise.clone(),
    };
    let inputs = Inputs::of_steps(features, conditions, noise);
    let state = state.unwrap_or_else(|| model.initial_state(batch));
    let unscored = model.scored_from(&state);
    let given = Some((&inferred.posteriors, &inferred.latents));
    let (steps, attention, state) = match model.at_once(&inputs, given, &state) {
        Some((steps, state)) => (steps, vec![Vec::new(); time], state),
        None => {
            let (steps, attention, state) = run(model, inputs, state, |t, _, _, latent| {
                let rows = t * batch..(t + 1) * batch;
                (inferred.posteriors.clone().rows(rows), latent)
            });
            (Bundle::concatenate(steps), attention, state)
        }
    };
    Filtered {
        transition_noise: inferred.transition_noise.clone(),
        ..score(model, observations, unscored, steps, attention, state)
    }
}
