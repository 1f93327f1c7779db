//! Filtering: the maps of a dynamical latent-variable model, and the filtering pass over a sequence.
//!
//! Rows of stacked tensors are time-major: row `t * batch + b` is step `t` of sequence `b`.

use crate::distributions::{DiagonalGaussian, Distribution, KlFrom, Likelihood};
use burn::tensor::Tensor;
use mnemora_memory::{Attention, Bundle};
use std::fmt::Debug;

/// The maps of a dynamical latent-variable model. Training, inference, bounds and generation all call them in this
/// order:
///
/// ```text
/// features = encode(x)                                 all frames, one call
/// for each step t:
///     context   = predict(c_t, noise, state)           what the model knows before it sees x_t
///     q(z_t)    = posterior(features_t, context)       a sample of it is z_t
///     emission  = emit(z_t, context)
///     state     = update(features_t, z_t, emission, context)
/// prior      = prior(prior_input of all contexts)      all scored steps, one call
/// likelihood = decode(all emissions)                   all scored steps, one call
/// ```
///
/// Generation samples `z_t` from the prior, so it calls `prior` and `decode` inside the loop, and `encode` for each
/// generated frame.
///
/// # A stochastic transition
/// The state may itself be random, `s_t = f(s_{t-1}, .., e_t)` with standard normal `e_t`
/// ([`transition_noise`](Self::transition_noise) numbers). Model and posterior draw it from the same
/// distribution, so it adds no KL divergence. Prior, posterior and likelihood are then densities given the
/// sampled states, and the KL divergence is over `z` only:
///
/// `log p(x) >= E_{s ~ p} E_{z ~ q} [ sum_t log p(x_t | z_t, s_t) - KL(q(z_t | ..) || p(z_t | s_t, ..)) ]`
///
/// # Steps that are not scored
/// A model may begin with a phase in which it only memorises ([`scored_from`](Self::scored_from)). At these
/// steps every strategy uses the model's own posterior, [`prior`](Self::prior) and
/// [`decode`](Self::decode) are not called, and nothing is added to the bound. It is then a bound on
/// `log p(x_t, t scored | the rest)`.
pub trait FilteringModel {
    /// The state carried from step to step. It holds no parameters.
    type State: Bundle;
    /// Parameters in the layout that the kernels take, packed once for all steps of a pass; `()` for a model that
    /// uses its parameters directly.
    type Prepared: Clone + Debug + Send;
    /// Features of step `t`, computed from observations only; from `x_t` alone unless the model
    /// [sees ahead](Self::sees_ahead).
    type Features: Bundle;
    /// The context of step `t`; it also holds the state before the update and the prepared parameters
    /// that the step needs.
    type Context: Send;
    /// The part of `p(x_t | ..)` that is computed inside the time loop; see [`emit`](Self::emit).
    type Emission: Bundle;
    /// `p(z_t | z_<t, x_<t)`. The posteriors are diagonal Gaussians.
    type Prior: Distribution + KlFrom<DiagonalGaussian> + Send;

    /// Size of `z`.
    fn latent_size(&self) -> usize;

    /// Number of standard normal numbers that the transition of one step needs, for each sequence; 0 for a
    /// deterministic transition.
    fn transition_noise(&self) -> usize {
        0
    }

    /// Number of standard normal numbers of a filtering step, for each sequence: those of the sample of `z_t`,
    /// then those of the transition.
    fn noise_size(&self) -> usize {
        self.latent_size() + self.transition_noise()
    }

    /// Number of standard normal numbers of a generated step: those of a sample of the prior, then those of
    /// the transition.
    fn generation_noise(&self) -> usize {
        Self::Prior::noise_size(self.latent_size()) + self.transition_noise()
    }

    /// Number of steps after `state` that are not scored, because the model only memorises them; 0 if all are
    /// scored.
    fn scored_from(&self, _state: &Self::State) -> usize {
        0
    }

    /// State before the first step.
    fn initial_state(&self, batch: usize) -> Self::State;

    /// Prepares the parameters for the steps of one pass.
    ///
    /// Call it once per pass, not once per step. A backward pass through tracked parameters uses it up, so
    /// call it again afterwards.
    fn prepare(&self) -> Self::Prepared;

    /// Features of all frames `[batch, time, pixels]`, one value per step.
    fn encode(&self, observations: Tensor<3>) -> Vec<Self::Features>;

    /// Whether the features of a frame depend on later frames. If so, all sequences must be complete and of one
    /// length, and frames cannot be filtered online.
    fn sees_ahead(&self) -> bool {
        false
    }

    /// Context of the next step from its condition `[batch, condition]`, the noise of the transition
    /// `[batch, transition_noise]`, and the state. Without noise, a stochastic transition takes its mean,
    /// as if all noise were 0. A model with a deterministic transition never gets noise.
    fn predict(
        &self,
        prepared: &Self::Prepared,
        condition: Option<Tensor<2>>,
        noise: Option<Tensor<2>>,
        state: Self::State,
    ) -> Self::Context;

    /// The part of the context that the prior reads, `[batch, prior_input]`.
    fn prior_input(&self, context: &Self::Context) -> Tensor<2>;

    /// `p(z_t | z_<t, x_<t)` for stacked prior inputs `[rows, prior_input]`.
    fn prior(&self, input: Tensor<2>) -> Self::Prior;

    /// The model's own `q(z_t | z_<t, x_<=t)`, `[batch, latent]`. A recurrent posterior leaves its next state
    /// in the context, for [`update`](Self::update).
    fn posterior(&self, features: &Self::Features, context: &mut Self::Context)
    -> DiagonalGaussian;

    /// The cheap, possibly recurrent part of `p(x_t | ..)`.
    fn emit(&self, z: Tensor<2>, context: &Self::Context) -> Self::Emission;

    /// The rest of `p(x_t | ..)`, for the emissions of any number of steps, with their rows
    /// [one after the other](Bundle::concatenate).
    fn decode(&self, emissions: Self::Emission) -> Likelihood;

    /// State after step `t`; `emission` is the result of [`emit`](Self::emit) for `z`.
    fn update(
        &self,
        features: &Self::Features,
        z: Tensor<2>,
        emission: &Self::Emission,
        context: Self::Context,
    ) -> Self::State;

    /// Whether [`predict`](Self::predict) and [`prior`](Self::prior) give the same for an observed and a generated frame,
    /// so that a prediction can be reused when the observation arrives: not with a stochastic transition, and not if
    /// [`imagine`](Self::imagine) changes the state.
    fn reuses_predictions(&self) -> bool {
        self.transition_noise() == 0
    }

    /// Marks in the state that the following frames are generated, not observed. Only a model that treats them
    /// differently needs to implement this, and then says so in
    /// [`reuses_predictions`](Self::reuses_predictions).
    fn imagine(&self, state: Self::State) -> Self::State {
        state
    }

    /// Marks in the state that the following frames are observed again: undoes [`imagine`](Self::imagine).
    fn observe(&self, state: Self::State) -> Self::State {
        state
    }

    /// Number of latents that the memory holds before it drops the oldest; `None` for a model without such a store.
    fn stored(&self) -> Option<usize> {
        None
    }

    /// Attention of the memory at this step, for inspection.
    fn attention<'a>(&self, context: &'a Self::Context) -> &'a [Attention];

    /// The whole time loop in one call, for a model whose context does not depend on latents; `None` runs the loop
    /// step by step. `given` holds beliefs and their samples, as rows of all steps, to use instead of the model's
    /// own. Only a model whose [`attention`](Self::attention) is empty may implement this.
    fn at_once(
        &self,
        _inputs: &[Inputs<Self::Features>],
        _given: Option<(&DiagonalGaussian, &Tensor<2>)>,
        _state: &Self::State,
    ) -> Option<(Steps<Self::Emission>, Self::State)> {
        None
    }
}

/// The result of a filtering pass, for a state `S` and priors `P`. Rows are time-major.
#[derive(Clone, Debug)]
pub struct Filtered<S, P> {
    /// `log p(x_t | z_t, ..)` in nats, `[time, batch]`; 0 at steps that are not scored.
    pub reconstruction: Tensor<2>,
    /// `KL(q_t || p_t)` in nats, `[time, batch]`: see [`KlFrom::kl_from`]; estimated from the sample if there is
    /// no closed form; 0 at steps that are not scored.
    pub kl: Tensor<2>,
    /// The samples `z_t ~ q_t`, `[time * batch, latent]`.
    pub latents: Tensor<2>,
    /// The filtering posteriors, rows of all steps.
    pub posteriors: DiagonalGaussian,
    /// The priors, predicted before each frame is seen; only rows of the scored steps.
    pub priors: P,
    /// The likelihoods of the frames; only rows of the scored steps.
    pub likelihood: Likelihood,
    /// The noise of the transitions, `[time, batch, transition_noise]`; `None` for a deterministic
    /// transition.
    pub transition_noise: Option<Tensor<3>>,
    /// Attention of each step.
    pub attention: Vec<Vec<Attention>>,
    /// State after the last step.
    pub state: S,
}

/// [`Filtered`] for a model.
pub(crate) type FilteredBy<M> =
    Filtered<<M as FilteringModel>::State, <M as FilteringModel>::Prior>;

impl<S, P> Filtered<S, P> {
    /// The single-sample bound of each sequence in nats, reconstruction minus `kl_weight` times KL:
    /// `[batch]`.
    ///
    /// gtmm, equations 5 and 6, with `kl_weight` 1.
    pub fn bound(&self, kl_weight: f64) -> Tensor<1> {
        (self.reconstruction.clone() - self.kl.clone().mul_scalar(kl_weight))
            .sum_dim(0)
            .squeeze_dim(0)
    }
}

/// The same frames `[batch, time, pixels]`, but stored step after step, so that their rows can be
/// stacked without another copy.
pub(crate) fn time_major(observations: Tensor<3>) -> Tensor<3> {
    let [batch, time, pixels] = observations.dims();
    let rows = observations.swap_dims(0, 1).reshape([time * batch, pixels]);
    rows.reshape([time, batch, pixels]).swap_dims(0, 1)
}

/// The frames of each step, `[batch, pixels]`, from `[batch, time, pixels]`.
pub(crate) fn frames_of_steps(observations: Tensor<3>) -> Vec<Tensor<2>> {
    let time = observations.dims()[1];
    let frames = observations.chunk(time, 1).into_iter();
    frames.map(|frame| frame.squeeze_dim(1)).collect()
}

/// Direct filtering: the model's own posterior at every step, one sample each.
///
/// # Shapes
/// - `observations`: `[batch, time, pixels]`; in `[0, 1]` if the likelihood is of pixels
/// - `conditions`: `[batch, time, condition]`
/// - `noise`: standard normal, `[time, batch, noise_size]`
/// - `state`: the state to start from; the initial state if `None`
///
/// # Panics
/// If no step is scored, or shapes do not fit the model.
pub fn filter<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    noise: Tensor<3>,
    state: Option<M::State>,
) -> Filtered<M::State, M::Prior> {
    let batch = observations.dims()[0];
    let observations = time_major(observations);
    let features = model.encode(observations.clone());
    let noise = StepNoise::of(model, noise);
    let inputs = Inputs::of_steps(features, conditions, noise.clone());
    let state = state.unwrap_or_else(|| model.initial_state(batch));
    let unscored = model.scored_from(&state);
    let (steps, attention, state) = pass(model, inputs, state);
    let steps = Bundle::concatenate(steps);
    Filtered {
        transition_noise: noise.transition,
        ..score(model, observations, unscored, steps, attention, state)
    }
}

/// Only the time loop of [`filter`]: the state after a sequence. No step needs to be scored. Use it to show a
/// prompt to a model that memorises before it generates.
///
/// # Shapes
/// As for [`filter`].
///
/// # Panics
/// If `time` is 0, or shapes do not fit the model.
pub fn follow<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    noise: Tensor<3>,
    state: Option<M::State>,
) -> M::State {
    let batch = observations.dims()[0];
    let features = model.encode(time_major(observations));
    let inputs = Inputs::of_steps(features, conditions, StepNoise::of(model, noise));
    let state = state.unwrap_or_else(|| model.initial_state(batch));
    let (_, _, state) = pass(model, inputs, state);
    state
}

/// The noise for the steps of a pass, standard normal.
#[derive(Clone, Debug)]
pub(crate) struct StepNoise {
    /// `[time, batch, latent]`; the latents themselves if they are given.
    pub(crate) latent: Tensor<3>,
    /// `[time, batch, transition_noise]`
    pub(crate) transition: Option<Tensor<3>>,
}

impl StepNoise {
    /// Splits `[time, batch, noise_size]`.
    ///
    /// # Panics
    /// If the model needs more or fewer numbers per step.
    pub(crate) fn of<M: FilteringModel>(model: &M, noise: Tensor<3>) -> Self {
        Self::split(model, model.latent_size(), noise)
    }

    /// Splits the numbers of each step: the first `latent` are for the latent, the others for the transition.
    ///
    /// # Panics
    /// As [`of`](Self::of).
    pub(crate) fn split<M: FilteringModel>(model: &M, latent: usize, noise: Tensor<3>) -> Self {
        let transition = model.transition_noise();
        let numbers = noise.dims()[2];
        assert_eq!(numbers, latent + transition, "noise of each step");
        if transition == 0 {
            return Self {
                latent: noise,
                transition: None,
            };
        }
        Self {
            latent: noise.clone().narrow(2, 0, latent),
            transition: Some(noise.narrow(2, latent, transition)),
        }
    }

    /// The noise of each step, `[batch, latent]` and `[batch, transition_noise]`.
    pub(crate) fn steps(self) -> impl Iterator<Item = (Tensor<2>, Option<Tensor<2>>)> {
        let time = self.latent.dims()[0];
        let of_steps = |noise: Tensor<3>| {
            let each = noise.chunk(time, 0).into_iter();
            each.map(|noise| noise.squeeze_dim::<2>(0))
        };
        let transition = match self.transition {
            None => vec![None; time],
            Some(noise) => of_steps(noise).map(Some).collect(),
        };
        of_steps(self.latent).zip(transition)
    }
}

/// The inputs of a step of the time loop.
#[derive(Clone, Debug)]
pub struct Inputs<F> {
    /// See [`FilteringModel::Features`].
    pub features: F,
    /// `[batch, condition]`
    pub condition: Option<Tensor<2>>,
    /// Standard normal, `[batch, latent]`; the latents themselves if they are given.
    pub noise: Tensor<2>,
    /// Standard normal, `[batch, transition_noise]`; `None` for a deterministic transition.
    pub transition: Option<Tensor<2>>,
}

impl<F> Inputs<F> {
    /// One value per step, from the features of each step, conditions `[batch, time, condition]` and noise.
    ///
    /// # Panics
    /// If the numbers of steps differ.
    pub(crate) fn of_steps(
        features: Vec<F>,
        conditions: Option<Tensor<3>>,
        noise: StepNoise,
    ) -> Vec<Self> {
        let time = features.len();
        assert_eq!(noise.latent.dims()[0], time, "noise of each step");
        let rest = steps(conditions, time).into_iter().zip(noise.steps());
        let all = features.into_iter().zip(rest);
        all.map(|(features, (condition, (noise, transition)))| Self {
            features,
            condition,
            noise,
            transition,
        })
        .collect()
    }
}

mnemora_memory::bundle!(Inputs<F> { features, condition, noise, transition });

/// The result of the time loop for the calls after it: one step, or several steps as rows.
#[derive(Clone, Debug)]
pub struct Steps<E> {
    /// See [`FilteringModel::prior_input`].
    pub prior_input: Tensor<2>,
    /// The beliefs.
    pub posterior: DiagonalGaussian,
    /// `[rows, latent]`
    pub latent: Tensor<2>,
    /// See [`FilteringModel::emit`].
    pub emission: E,
}

mnemora_memory::bundle!(Steps<E> { prior_input, posterior, latent, emission });

/// The result of the time loop for the calls after it, one value per step; the attention of each step; the state
/// after the last step.
pub(crate) type Passed<M> = (
    Vec<Steps<<M as FilteringModel>::Emission>>,
    Vec<Vec<Attention>>,
    <M as FilteringModel>::State,
);

/// The time loop with the model's own posterior, one sample each.
pub(crate) fn pass<M: FilteringModel>(
    model: &M,
    inputs: Vec<Inputs<M::Features>>,
    state: M::State,
) -> Passed<M> {
    if let Some((steps, state)) = model.at_once(&inputs, None, &state) {
        return (vec![steps], vec![Vec::new(); inputs.len()], state);
    }
    run(model, inputs, state, |_, features, context, noise| {
        let posterior = model.posterior(features, context);
        let latent = posterior.sample(noise);
        (posterior, latent)
    })
}

/// The time loop, which computes only what depends on the step before. `belief` gives the posterior of a step and
/// its sample.
pub(crate) fn run<M: FilteringModel>(
    model: &M,
    inputs: Vec<Inputs<M::Features>>,
    mut state: M::State,
    belief: impl Fn(usize, &M::Features, &mut M::Context, Tensor<2>) -> (DiagonalGaussian, Tensor<2>),
) -> Passed<M> {
    let prepared = model.prepare();
    let mut steps = Vec::with_capacity(inputs.len());
    let mut attention = Vec::with_capacity(inputs.len());
    for (t, input) in inputs.into_iter().enumerate() {
        let mut context = model.predict(&prepared, input.condition, input.transition, state);
        let (posterior, latent) = belief(t, &input.features, &mut context, input.noise);
        let emission = model.emit(latent.clone(), &context);
        steps.push(Steps {
            prior_input: model.prior_input(&context),
            emission: emission.clone(),
            posterior,
            latent: latent.clone(),
        });
        attention.push(model.attention(&context).to_vec());
        state = model.update(&input.features, latent, &emission, context);
    }
    (steps, attention, state)
}

/// Priors and likelihoods of all scored steps at once; the first `unscored` steps are not scored.
///
/// # Panics
/// If no step is scored.
pub(crate) fn score<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    unscored: usize,
    steps: Steps<M::Emission>,
    attention: Vec<Vec<Attention>>,
    state: M::State,
) -> FilteredBy<M> {
    let [batch, time, pixels] = observations.dims();
    assert!(unscored < time, "no step of {time} is scored");
    let frames = observations.swap_dims(0, 1).reshape([time * batch, pixels]);
    let (posteriors, latents) = (steps.posterior.clone(), steps.latent.clone());
    let (steps, frames) = match unscored {
        0 => (steps, frames),
        _ => {
            let rows = unscored * batch..time * batch;
            (steps.rows(rows.clone()), frames.rows(rows))
        }
    };
    let of_all_steps = |scored: Tensor<1>| {
        let scored = scored.reshape([time - unscored, batch]);
        match unscored {
            0 => scored,
            _ => Tensor::cat(
                vec![Tensor::zeros([unscored, batch], &scored.device()), scored],
                0,
            ),
        }
    };
    let priors = model.prior(steps.prior_input);
    let likelihood = model.decode(steps.emission);
    Filtered {
        reconstruction: of_all_steps(likelihood.log_probability(frames)),
        kl: of_all_steps(priors.kl_from(&steps.posterior, &steps.latent)),
        latents,
        posteriors,
        priors,
        likelihood,
        transition_noise: None,
        attention,
        state,
    }
}

/// The condition of each step, `[batch, condition]`, from `[batch, time, condition]`.
///
/// # Panics
/// If the number of conditions is not `time`.
pub(crate) fn steps(conditions: Option<Tensor<3>>, time: usize) -> Vec<Option<Tensor<2>>> {
    match conditions {
        None => vec![None; time],
        Some(conditions) => {
            assert_eq!(conditions.dims()[1], time, "a condition for each step");
            let each = conditions.chunk(time, 1).into_iter();
            each.map(|condition| Some(condition.squeeze_dim(1)))
                .collect()
        }
    }
}
