//! Filtering one step at a time, as observations arrive, and one-step-ahead prediction.
//!
//! `prepared` is the result of [`FilteringModel::prepare`], made once for all steps: the model does not learn
//! meanwhile. Predictions draw no samples: `z` is the mean of the prior, and a stochastic
//! transition takes its mean.

use crate::{
    DiagonalGaussian, Distribution, FilteringModel, KlFrom, Likelihood,
    filtering::{Inputs, StepNoise, time_major},
};
use burn::tensor::Tensor;
use mnemora_memory::Bundle;

/// The result of filtering one observation, for a state `S` and a prior `P`.
#[derive(Clone, Debug)]
pub struct OnlineStep<S, P> {
    /// The belief about `z_t`, `[batch, latent]`.
    pub posterior: DiagonalGaussian,
    /// The free energy and its parts; `None` for a step that is not scored.
    pub scored: Option<ScoredStep<P>>,
    /// State after the step.
    pub state: S,
}

/// The prior of a scored step and the parts of its free energy.
#[derive(Clone, Debug)]
pub struct ScoredStep<P> {
    /// The prior of `z_t`, before the observation, `[batch, latent]`.
    pub prior: P,
    /// Of the observation, at one sample of `z_t`.
    pub likelihood: Likelihood,
    /// `log p(x_t | z_t, ..)` in nats, `[batch]`, for that sample.
    pub reconstruction: Tensor<1>,
    /// `KL(q_t || p_t)` in nats, `[batch]`.
    pub kl: Tensor<1>,
}

impl<P: KlFrom<DiagonalGaussian>> ScoredStep<P> {
    fn new(
        prior: P,
        likelihood: Likelihood,
        x: Tensor<2>,
        posterior: &DiagonalGaussian,
        z: &Tensor<2>,
    ) -> Self {
        Self {
            reconstruction: likelihood.log_probability(x),
            likelihood,
            kl: prior.kl_from(posterior, z),
            prior,
        }
    }
}

impl<P> ScoredStep<P> {
    /// Free energy of the step in nats, `[batch]`: how surprising the observation was.
    pub fn surprise(&self) -> Tensor<1> {
        self.kl.clone() - self.reconstruction.clone()
    }
}

/// One step of filtering. `belief` gives the posterior of `z_t` from the observation's features, the
/// context and the observation: [`FilteringModel::posterior`] for direct filtering. It is not called for a
/// step that is not scored.
///
/// # Shapes
/// - `x`: `[batch, pixels]`
/// - `condition`: `[batch, condition]`
/// - `noise`: standard normal, `[batch, noise_size]`
///
/// # Panics
/// If shapes do not fit the model.
pub fn online_step<M: FilteringModel>(
    model: &M,
    prepared: &M::Prepared,
    state: M::State,
    x: Tensor<2>,
    condition: Option<Tensor<2>>,
    noise: Tensor<2>,
    belief: impl FnOnce(&M::Features, &mut M::Context, &Tensor<2>) -> DiagonalGaussian,
) -> OnlineStep<M::State, M::Prior> {
    let mut noise = StepNoise::of(model, noise.unsqueeze_dim(0)).steps();
    let (noise, transition) = noise.next().expect("the noise of one step");
    let scored = model.scored_from(&state) == 0;
    let context = model.predict(prepared, condition, transition, state);
    let prior = scored.then(|| model.prior(model.prior_input(&context)));
    observed(model, context, prior, x, noise, belief)
}

/// [`online_step`] from what [`foresee`] has computed, and what can be foreseen after it with the prediction of the next
/// observation. Nothing is computed twice, and the decoder is called once for both steps, so that its weights are read once.
///
/// # Shapes
/// As for [`online_step`]; `noise`: `[batch, latent]`.
///
/// # Panics
/// If what was foreseen does not serve for observations (see [`FilteringModel::reuses_predictions`]), if the next step
/// needs a condition, or if shapes do not fit the model.
pub fn step_and_foresee<M: FilteringModel>(
    model: &M,
    prepared: &M::Prepared,
    foreseen: ForeseenBy<M>,
    x: Tensor<2>,
    noise: Tensor<2>,
    belief: impl FnOnce(&M::Features, &mut M::Context, &Tensor<2>) -> DiagonalGaussian,
) -> (OnlineStep<M::State, M::Prior>, ForeseenBy<M>, Likelihood) {
    assert!(
        model.reuses_predictions(),
        "the predictions of this model cannot be reused for observations"
    );
    let batch = x.dims()[0];
    let Foreseen { context, prior } = foreseen;
    let believed = believe(model, context, &x, noise, belief);
    let next = foresee(model, prepared, believed.state.clone(), None);
    let emissions = vec![believed.emission, next.emission(model)];
    let decoded = model.decode(M::Emission::concatenate(emissions));
    let likelihood = decoded.rows(0..batch);
    let step = OnlineStep {
        scored: Some(ScoredStep::new(
            prior,
            likelihood,
            x,
            &believed.posterior,
            &believed.latent,
        )),
        posterior: believed.posterior,
        state: believed.state,
    };
    (step, next, decoded.rows(batch..2 * batch))
}

/// The part of a step that begins when the observation is there; without a prior it is not scored.
fn observed<M: FilteringModel>(
    model: &M,
    context: M::Context,
    prior: Option<M::Prior>,
    x: Tensor<2>,
    noise: Tensor<2>,
    belief: impl FnOnce(&M::Features, &mut M::Context, &Tensor<2>) -> DiagonalGaussian,
) -> OnlineStep<M::State, M::Prior> {
    let believed = match prior {
        Some(_) => believe(model, context, &x, noise, belief),
        None => believe(model, context, &x, noise, |features, context, _| {
            model.posterior(features, context)
        }),
    };
    let scored = prior.map(|prior| {
        let likelihood = model.decode(believed.emission);
        ScoredStep::new(prior, likelihood, x, &believed.posterior, &believed.latent)
    });
    OnlineStep {
        posterior: believed.posterior,
        scored,
        state: believed.state,
    }
}

/// The belief about a step, with a sample of it, and what follows from the sample.
struct Believed<M: FilteringModel> {
    posterior: DiagonalGaussian,
    latent: Tensor<2>,
    emission: M::Emission,
    state: M::State,
}

fn believe<M: FilteringModel>(
    model: &M,
    mut context: M::Context,
    x: &Tensor<2>,
    noise: Tensor<2>,
    belief: impl FnOnce(&M::Features, &mut M::Context, &Tensor<2>) -> DiagonalGaussian,
) -> Believed<M> {
    let features = model.encode(x.clone().unsqueeze_dim::<3>(1)).remove(0);
    let posterior = belief(&features, &mut context, x);
    let latent = posterior.sample(noise);
    let emission = model.emit(latent.clone(), &context);
    Believed {
        state: model.update(&features, latent.clone(), &emission, context),
        posterior,
        latent,
        emission,
    }
}

/// A step without an observation: returns the prior of `z_t` and the state after the step. The model
/// continues as if the mean of its own [prediction](Foreseen::observation) had been observed.
///
/// # Shapes
/// `condition`: `[batch, condition]`
///
/// # Panics
/// If the model still memorises after `state`, so that it cannot predict yet, or shapes do not fit the model.
pub fn unobserved_step<M: FilteringModel>(
    model: &M,
    prepared: &M::Prepared,
    state: M::State,
    condition: Option<Tensor<2>>,
) -> (M::Prior, M::State) {
    let Foreseen { context, prior } = foresee(model, prepared, state, condition);
    let z = prior.mean();
    let emission = model.emit(z.clone(), &context);
    let x = model.decode(emission.clone()).mean();
    let features = model.encode(x.unsqueeze_dim::<3>(1)).remove(0);
    let state = model.update(&features, z, &emission, context);
    (prior, model.observe(state))
}

/// Prior `P` and context `C` of a step, computed before its observation.
#[derive(Clone, Debug)]
pub struct Foreseen<C, P> {
    context: C,
    prior: P,
}

/// [`Foreseen`] by a model.
pub type ForeseenBy<M> = Foreseen<<M as FilteringModel>::Context, <M as FilteringModel>::Prior>;

impl<C, P: Distribution> Foreseen<C, P> {
    /// The prediction of the observation: its likelihood with `z` at the mean of the prior.
    pub fn observation<M: FilteringModel<Context = C, Prior = P>>(&self, model: &M) -> Likelihood {
        model.decode(self.emission(model))
    }

    fn emission<M: FilteringModel<Context = C, Prior = P>>(&self, model: &M) -> M::Emission {
        model.emit(self.prior.mean(), &self.context)
    }
}

/// Prior and context of the step after `state`, as if it will not be observed.
///
/// # Shapes
/// `condition`: `[batch, condition]`, for that step.
///
/// # Panics
/// As [`unobserved_step`].
pub fn foresee<M: FilteringModel>(
    model: &M,
    prepared: &M::Prepared,
    state: M::State,
    condition: Option<Tensor<2>>,
) -> ForeseenBy<M> {
    assert_eq!(
        model.scored_from(&state),
        0,
        "the model still memorises after this state"
    );
    let context = model.predict(prepared, condition, None, model.imagine(state));
    let prior = model.prior(model.prior_input(&context));
    Foreseen { context, prior }
}

/// The one-step-ahead prediction of each observation of a sequence, given the latents that filtering found for
/// the earlier observations; rows of the scored steps, time-major.
///
/// # Shapes
/// - `observations`: `[batch, time, pixels]`
/// - `conditions`: `[batch, time, condition]`
/// - `latents`: `[time * batch, latent]`, as [`Filtered::latents`](crate::Filtered::latents)
/// - `transition`: from the same pass, as
///   [`Filtered::transition_noise`](crate::Filtered::transition_noise)
///
/// # Panics
/// If no step is scored, or shapes do not fit the model.
pub fn expected<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    latents: Tensor<2>,
    transition: Option<Tensor<3>>,
) -> Likelihood {
    let noise = (latents, transition);
    along(model, observations, conditions, noise, |_, context| {
        model.prior(model.prior_input(context)).mean()
    })
}

/// Like [`expected`], but each `z_t` is taken from `others` instead of the prior's mean: the likelihood under
/// another belief about one step, while the earlier latents stay as filtering found them.
///
/// # Shapes
/// As for [`expected`]; `others` has the shape of `latents`.
///
/// # Panics
/// As [`expected`].
pub fn decoded_at<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    latents: Tensor<2>,
    transition: Option<Tensor<3>>,
    others: Tensor<2>,
) -> Likelihood {
    let batch = observations.dims()[0];
    let noise = (latents, transition);
    along(model, observations, conditions, noise, |t, _| {
        others.clone().narrow(0, t * batch, batch)
    })
}

/// Likelihoods of the scored steps at the latents that `z` gives for a step and its context.
fn along<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    (latents, transition): (Tensor<2>, Option<Tensor<3>>),
    z: impl Fn(usize, &M::Context) -> Tensor<2>,
) -> Likelihood {
    let [batch, time, _] = observations.dims();
    let noise = StepNoise {
        latent: latents.reshape([time, batch, model.latent_size()]),
        transition,
    };
    let features = model.encode(time_major(observations));
    let prepared = model.prepare();
    let mut state = model.initial_state(batch);
    let unscored = model.scored_from(&state);
    let mut emissions = Vec::with_capacity(time);
    let inputs = Inputs::of_steps(features, conditions, noise);
    for (t, input) in inputs.into_iter().enumerate() {
        let context = model.predict(&prepared, input.condition, input.transition, state);
        if t >= unscored {
            emissions.push(model.emit(z(t, &context), &context));
        }
        let z = input.noise;
        let emission = model.emit(z.clone(), &context);
        state = model.update(&input.features, z, &emission, context);
    }
    model.decode(M::Emission::concatenate(emissions))
}
