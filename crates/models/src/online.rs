//! Filtering one step at a time, as observations come, and what a model expects of the next one.

use crate::{
    DiagonalGaussian, FilteringModel, Likelihood,
    filtering::{Inputs, time_major},
};
use burn::tensor::Tensor;
use mnemora_memory::Bundle;

/// What one observation gave.
#[derive(Clone, Debug)]
pub struct OnlineStep<S> {
    /// What was expected of `z_t` before, `[batch, latent]`.
    pub prior: DiagonalGaussian,
    /// The belief about `z_t`, `[batch, latent]`.
    pub posterior: DiagonalGaussian,
    /// `log p(x_t | z_t, ..)` in nats, `[batch]`, for one sample.
    pub reconstruction: Tensor<1>,
    /// `KL(q_t || p_t)` in nats, `[batch]`.
    pub kl: Tensor<1>,
    /// State after the step.
    pub state: S,
}

impl<S> OnlineStep<S> {
    /// Free energy of the step in nats, `[batch]`: how surprising the observation was.
    pub fn surprise(&self) -> Tensor<1> {
        self.kl.clone() - self.reconstruction.clone()
    }
}

/// One step of filtering. `belief` says what is believed about `z_t`, from the observation's features,
/// the context and the observation: [`FilteringModel::posterior`] for direct filtering.
///
/// # Shapes
/// - `x`: `[batch, pixels]`
/// - `condition`: `[batch, condition]`
/// - `noise`: standard normal, `[batch, latent]`
///
/// # Panics
/// If shapes do not fit the model.
pub fn online_step<M: FilteringModel>(
    model: &M,
    state: M::State,
    x: Tensor<2>,
    condition: Option<Tensor<2>>,
    noise: Tensor<2>,
    belief: impl FnOnce(&M::Features, &mut M::Context, &Tensor<2>) -> DiagonalGaussian,
) -> OnlineStep<M::State> {
    let features = model.encode(x.clone().unsqueeze_dim::<3>(1)).remove(0);
    let mut context = model.predict(condition, state);
    let prior = model.prior(model.prior_input(&context));
    let posterior = belief(&features, &mut context, &x);
    let z = posterior.sample(noise);
    let emission = model.emit(z.clone(), &context);
    let reconstruction = model.decode(emission.clone()).log_probability(x);
    OnlineStep {
        kl: posterior.clone().kl(prior.clone()),
        prior,
        posterior,
        reconstruction,
        state: model.update(&features, z, &emission, context),
    }
}

/// A step at which nothing was observed: what was expected of `z_t`, and the state after it. The model goes on
/// with its own prediction, the mean of what it [expects](expect_next), in place of an observation.
///
/// # Shapes
/// `condition`: `[batch, condition]`
///
/// # Panics
/// If shapes do not fit the model.
pub fn unobserved_step<M: FilteringModel>(
    model: &M,
    state: M::State,
    condition: Option<Tensor<2>>,
) -> (DiagonalGaussian, M::State) {
    let context = model.predict(condition, model.imagine(state));
    let prior = model.prior(model.prior_input(&context));
    let z = prior.mean.clone();
    let emission = model.emit(z.clone(), &context);
    let x = model.decode(emission.clone()).mean();
    let features = model.encode(x.unsqueeze_dim::<3>(1)).remove(0);
    let state = model.update(&features, z, &emission, context);
    (prior, model.observe(state))
}

/// What the model expects of the next observation: its likelihood where `z` is the mean of the prior.
///
/// # Shapes
/// `condition`: `[batch, condition]`, of the next step.
pub fn expect_next<M: FilteringModel>(
    model: &M,
    state: M::State,
    condition: Option<Tensor<2>>,
) -> Likelihood {
    let context = model.predict(condition, model.imagine(state));
    let prior = model.prior(model.prior_input(&context));
    model.decode(model.emit(prior.mean, &context))
}

/// What the model expected of each observation of a sequence before it saw it, given the latents that
/// filtering found for the observations before; rows are time-major.
///
/// # Shapes
/// - `observations`: `[batch, time, pixels]`
/// - `conditions`: `[batch, time, condition]`
/// - `latents`: `[time * batch, latent]`, as [`Filtered::latents`](crate::Filtered::latents)
///
/// # Panics
/// If there is no step (`time` 0), or shapes do not fit the model.
pub fn expected<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    latents: Tensor<2>,
) -> Likelihood {
    along(model, observations, conditions, latents, |_, context| {
        model.prior(model.prior_input(context)).mean
    })
}

/// The same where each `z_t` is the one in `others` in place of the prior's mean: what a model makes of a belief
/// about one step while those before stay as filtering found them.
///
/// # Shapes
/// As for [`expected`]; `others` as `latents`.
///
/// # Panics
/// As [`expected`].
pub fn decoded_at<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    latents: Tensor<2>,
    others: Tensor<2>,
) -> Likelihood {
    let batch = observations.dims()[0];
    along(model, observations, conditions, latents, |t, _| {
        others.clone().narrow(0, t * batch, batch)
    })
}

/// Likelihoods at the latents that `z` gives for step and context.
fn along<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    latents: Tensor<2>,
    z: impl Fn(usize, &M::Context) -> Tensor<2>,
) -> Likelihood {
    let [batch, time, _] = observations.dims();
    let latents = latents.reshape([time, batch, model.latent_size()]);
    let features = model.encode(time_major(observations));
    let mut state = model.initial_state(batch);
    let mut emissions = Vec::with_capacity(time);
    let inputs = Inputs::of_steps(features, conditions, latents);
    for (t, input) in inputs.into_iter().enumerate() {
        let context = model.predict(input.condition, state);
        emissions.push(model.emit(z(t, &context), &context));
        let z = input.noise;
        let emission = model.emit(z.clone(), &context);
        state = model.update(&input.features, z, &emission, context);
    }
    model.decode(M::Emission::concatenate(emissions))
}
