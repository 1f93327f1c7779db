//! Filtering: the maps of a dynamical latent-variable model, and the pass over a sequence.
//!
//! Rows of stacked tensors are time-major: row `t * batch + b` is step `t` of sequence `b`.

use crate::distributions::{DiagonalGaussian, Likelihood};
use burn::tensor::Tensor;
use mnemora_memory::{Attention, Bundle, TensorMapper};

/// The maps that every dynamical latent-variable model is made of. Strategies, bounds and
/// generation are written once against them.
///
/// Only what depends on the previous step is asked for one step at a time; `encode`, `prior` and
/// `decode` take the rows of any number of steps in one call.
pub trait FilteringModel {
    /// What is carried from step to step.
    type State: Bundle;
    /// What `x_t` alone says.
    type Features: Bundle;
    /// What conditions step `t`; carries the not yet updated state along.
    type Context;
    /// What `p(x_t | ..)` is read from.
    type Emission: Bundle;

    /// Size of `z`.
    fn latent_size(&self) -> usize;

    /// State before the first step.
    fn initial_state(&self, batch: usize) -> Self::State;

    /// Features of all frames `[batch, time, pixels]`, one value a step.
    fn encode(&self, observations: Tensor<3>) -> Vec<Self::Features>;

    /// Whether what frames say depends on those that follow: then frames belong to whole sequences of one
    /// length, and there is no filtering of frames as they come.
    fn sees_ahead(&self) -> bool {
        false
    }

    /// Context of the next step from its condition `[batch, condition]` and the state.
    fn predict(&self, condition: Option<Tensor<2>>, state: Self::State) -> Self::Context;

    /// What of the context the prior reads, `[batch, prior_input]`.
    fn prior_input(&self, context: &Self::Context) -> Tensor<2>;

    /// `p(z_t | z_<t, x_<t)` for stacked prior inputs `[rows, prior_input]`.
    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian;

    /// The model's own `q(z_t | z_<t, x_<=t)`, `[batch, latent]`. A posterior with a recurrence of its
    /// own leaves its next state in the context, for [`update`](Self::update).
    fn posterior(&self, features: &Self::Features, context: &mut Self::Context)
    -> DiagonalGaussian;

    /// The cheap, possibly recurrent, part of `p(x_t | ..)`.
    fn emit(&self, z: Tensor<2>, context: &Self::Context) -> Self::Emission;

    /// The rest of `p(x_t | ..)`, for emissions of any number of steps, their rows
    /// [one after the other](Bundle::concatenate).
    fn decode(&self, emissions: Self::Emission) -> Likelihood;

    /// State after step `t`; `emission` is what [`emit`](Self::emit) made of `z`.
    fn update(
        &self,
        features: &Self::Features,
        z: Tensor<2>,
        emission: &Self::Emission,
        context: Self::Context,
    ) -> Self::State;

    /// The same state where the frames that follow are the model's own, not observed ones; only a model
    /// that treats them differently has to say something here.
    fn imagine(&self, state: Self::State) -> Self::State {
        state
    }

    /// The same state where the frames that follow are observed again: undoes [`imagine`](Self::imagine).
    fn observe(&self, state: Self::State) -> Self::State {
        state
    }

    /// Attention of the memory at this step, for looking at.
    fn attention<'a>(&self, context: &'a Self::Context) -> &'a [Attention];

    /// The whole time loop in one go, for a model whose context needs no latents; `None`: step by
    /// step. `given` are beliefs and their samples, as rows of all steps, in place of its own. Only a
    /// model whose [`attention`](Self::attention) is empty may have it.
    fn at_once(
        &self,
        _inputs: &[Inputs<Self::Features>],
        _given: Option<(&DiagonalGaussian, &Tensor<2>)>,
        _state: &Self::State,
    ) -> Option<(Steps<Self::Emission>, Self::State)> {
        None
    }
}

/// What a filtering pass gives. Rows are time-major.
#[derive(Clone, Debug)]
pub struct Filtered<S> {
    /// `log p(x_t | z_t, ..)` in nats, `[time, batch]`.
    pub reconstruction: Tensor<2>,
    /// `KL(q_t || p_t)` in nats, `[time, batch]`.
    pub kl: Tensor<2>,
    /// The samples `z_t ~ q_t`, `[time * batch, latent]`.
    pub latents: Tensor<2>,
    /// The filtering posteriors.
    pub posteriors: DiagonalGaussian,
    /// The predictions made before each frame was seen.
    pub priors: DiagonalGaussian,
    /// The likelihoods of the frames.
    pub likelihood: Likelihood,
    /// Attention of each step.
    pub attention: Vec<Vec<Attention>>,
    /// State after the last step.
    pub state: S,
}

impl<S> Filtered<S> {
    /// The single-sample bound of each sequence in nats, reconstruction less `kl_weight` times KL:
    /// `[batch]`.
    ///
    /// gtmm, equations 5 and 6, with `kl_weight` 1.
    pub fn bound(&self, kl_weight: f64) -> Tensor<1> {
        (self.reconstruction.clone() - self.kl.clone().mul_scalar(kl_weight))
            .sum_dim(0)
            .squeeze_dim(0)
    }
}

/// The same frames `[batch, time, pixels]`, but in memory step after step, so that their rows can be
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
/// - `observations`: `[batch, time, pixels]`, in `[0, 1]`
/// - `conditions`: `[batch, time, condition]`
/// - `noise`: standard normal, `[time, batch, latent]`
/// - `state`: where to start, the initial state if `None`
///
/// # Panics
/// If there is no step (`time` 0), or shapes do not fit the model.
pub fn filter<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    noise: Tensor<3>,
    state: Option<M::State>,
) -> Filtered<M::State> {
    let batch = observations.dims()[0];
    let observations = time_major(observations);
    let features = model.encode(observations.clone());
    let inputs = Inputs::of_steps(features, conditions, noise);
    let state = state.unwrap_or_else(|| model.initial_state(batch));
    let (steps, attention, state) = pass(model, inputs, state);
    score(
        model,
        observations,
        Bundle::concatenate(steps),
        attention,
        state,
    )
}

/// What a step of the time loop is given.
#[derive(Clone, Debug)]
pub struct Inputs<F> {
    /// What `x_t` alone says.
    pub features: F,
    /// `[batch, condition]`
    pub condition: Option<Tensor<2>>,
    /// Standard normal, `[batch, latent]`; where latents are given, these.
    pub noise: Tensor<2>,
}

impl<F> Inputs<F> {
    /// One value a step, from features of each, `[batch, time, condition]` and
    /// `[time, batch, latent]`.
    ///
    /// # Panics
    /// If one has more or fewer steps.
    pub(crate) fn of_steps(
        features: Vec<F>,
        conditions: Option<Tensor<3>>,
        noise: Tensor<3>,
    ) -> Vec<Self> {
        let time = features.len();
        assert_eq!(noise.dims()[0], time, "noise of each step");
        let noise = noise.chunk(time, 0);
        let rest = steps(conditions, time).into_iter().zip(noise);
        let all = features.into_iter().zip(rest);
        all.map(|(features, (condition, noise))| Self {
            features,
            condition,
            noise: noise.squeeze_dim(0),
        })
        .collect()
    }
}

impl<F: Bundle> Bundle for Inputs<F> {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            features: self.features.map_tensors(mapper),
            condition: self.condition.map_tensors(mapper),
            noise: self.noise.map_tensors(mapper),
        }
    }
}

/// What the time loop gives for the calls after it: one step, or more as rows.
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

impl<E: Bundle> Bundle for Steps<E> {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            prior_input: self.prior_input.map_tensors(mapper),
            posterior: self.posterior.map_tensors(mapper),
            latent: self.latent.map_tensors(mapper),
            emission: self.emission.map_tensors(mapper),
        }
    }
}

/// What the time loop gives for the calls after it, one value a step; attention of each step; the state
/// after the last.
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

/// The time loop: only what depends on the step before. `belief` gives the posterior of a step and its
/// sample.
pub(crate) fn run<M: FilteringModel>(
    model: &M,
    inputs: Vec<Inputs<M::Features>>,
    mut state: M::State,
    belief: impl Fn(usize, &M::Features, &mut M::Context, Tensor<2>) -> (DiagonalGaussian, Tensor<2>),
) -> Passed<M> {
    let mut steps = Vec::with_capacity(inputs.len());
    let mut attention = Vec::with_capacity(inputs.len());
    for (t, input) in inputs.into_iter().enumerate() {
        let mut context = model.predict(input.condition, state);
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

/// Priors and likelihoods of all steps at once.
pub(crate) fn score<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    steps: Steps<M::Emission>,
    attention: Vec<Vec<Attention>>,
    state: M::State,
) -> Filtered<M::State> {
    let [batch, time, pixels] = observations.dims();
    let priors = model.prior(steps.prior_input);
    let posteriors = steps.posterior;
    let likelihood = model.decode(steps.emission);
    let frames = observations.swap_dims(0, 1).reshape([time * batch, pixels]);
    Filtered {
        reconstruction: likelihood.log_probability(frames).reshape([time, batch]),
        kl: posteriors.clone().kl(priors.clone()).reshape([time, batch]),
        latents: steps.latent,
        posteriors,
        priors,
        likelihood,
        attention,
        state,
    }
}

/// The condition of each step, `[batch, condition]`, from `[batch, time, condition]`.
///
/// # Panics
/// If there are conditions of more or fewer steps.
pub(crate) fn steps(conditions: Option<Tensor<3>>, time: usize) -> Vec<Option<Tensor<2>>> {
    match conditions {
        None => vec![None; time],
        Some(conditions) => {
            assert_eq!(conditions.dims()[1], time, "a condition of each step");
            let each = conditions.chunk(time, 1).into_iter();
            each.map(|condition| Some(condition.squeeze_dim(1)))
                .collect()
        }
    }
}
