//! Sequences sampled from a model.

use crate::{FilteringModel, Likelihood, filtering::steps};
use burn::tensor::Tensor;
use mnemora_memory::Attention;

/// What generation gives.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Frames as `observe` gave them, `[batch, time, pixels]`.
    pub frames: Tensor<3>,
    /// Attention of each step.
    pub attention: Vec<Vec<Attention>>,
}

/// Samples `time` further steps from a state: `z_t` from the prior, then what `observe(t, ..)` makes of
/// the likelihood: its [mean](Likelihood::mean), or a [sample](Likelihood::sample).
///
/// Each frame is encoded again, since a core may read the features of frames (the VRNN
/// does). Call it on a model out of training mode, so that batch norm uses its running statistics.
///
/// # Shapes
/// - `state`: after a prompt (see [`filter`](crate::filter)), or the initial state
/// - `conditions`: `[batch, time, condition]`, of the generated steps
/// - `noise`: standard normal, `[time, batch, latent]`
///
/// # Panics
/// If there is no step (`time` 0), or shapes do not fit the model.
pub fn generate<M: FilteringModel>(
    model: &M,
    state: M::State,
    conditions: Option<Tensor<3>>,
    noise: Tensor<3>,
    mut observe: impl FnMut(usize, Likelihood) -> Tensor<2>,
) -> Generated {
    let [time, _, _] = noise.dims();
    let mut state = model.imagine(state);
    let mut frames = Vec::with_capacity(time);
    let mut attention = Vec::with_capacity(time);
    let inputs = steps(conditions, time)
        .into_iter()
        .zip(noise.chunk(time, 0));
    for (t, (condition, noise)) in inputs.enumerate() {
        let context = model.predict(condition, state);
        let prior = model.prior(model.prior_input(&context));
        let z = prior.sample(noise.squeeze_dim(0));
        let emission = model.emit(z.clone(), &context);
        let frame = observe(t, model.decode(emission.clone()));
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
