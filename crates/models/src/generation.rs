//! Sequences sampled from a model.

use crate::{
    Distribution, FilteringModel, Likelihood,
    filtering::{StepNoise, steps},
};
use burn::tensor::Tensor;
use mnemora_memory::Attention;

/// Generated sequences.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The frames that `choose` returned, `[batch, time, pixels]`.
    pub frames: Tensor<3>,
    /// Attention of each step.
    pub attention: Vec<Vec<Attention>>,
}

/// Samples `time` further steps from a state: `z_t` from the prior, then a frame that `choose(t, ..)` picks from
/// the likelihood: its [mean](Likelihood::mean), or a [sample](Likelihood::sample).
///
/// Each generated frame is encoded, because the next step may read its features. Call it on a model that is not in training mode, so that batch norm uses its running statistics.
///
/// # Shapes
/// - `state`: after a prompt (see [`filter`](crate::filter)), or the initial state
/// - `conditions`: `[batch, time, condition]`, for the generated steps
/// - `noise`: standard normal, `[time, batch, generation_noise]`
///
/// # Panics
/// If `time` is 0, the model still memorises after `state`, or shapes do not fit the model.
pub fn generate<M: FilteringModel>(
    model: &M,
    state: M::State,
    conditions: Option<Tensor<3>>,
    noise: Tensor<3>,
    mut choose: impl FnMut(usize, Likelihood) -> Tensor<2>,
) -> Generated {
    let [time, _, _] = noise.dims();
    assert_eq!(
        model.scored_from(&state),
        0,
        "the model still memorises after this state"
    );
    let numbers = M::Prior::noise_size(model.latent_size());
    let noise = StepNoise::split(model, numbers, noise);
    let prepared = model.prepare();
    let mut state = model.imagine(state);
    let mut frames = Vec::with_capacity(time);
    let mut attention = Vec::with_capacity(time);
    let inputs = steps(conditions, time).into_iter().zip(noise.steps());
    for (t, (condition, (noise, transition))) in inputs.enumerate() {
        let context = model.predict(&prepared, condition, transition, state);
        let prior = model.prior(model.prior_input(&context));
        let z = prior.sample(noise);
        let emission = model.emit(z.clone(), &context);
        let frame = choose(t, model.decode(emission.clone()));
        let frame = frame.unsqueeze_dim::<3>(1);
        attention.push(model.attention(&context).to_vec());
        let features = model.encode(frame.clone());
        state = model.update(&features[0], z, &emission, context);
        frames.push(frame);
    }
    Generated {
        frames: Tensor::cat(frames, 1),
        attention,
    }
}
