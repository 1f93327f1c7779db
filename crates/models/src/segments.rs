//! Filtering in segments: the gradient of a long sequence, with the graph of a short one.
//!
//! A graph keeps the intermediate results of every step of the time loop. Here the loop first runs without a
//! graph and keeps only the state at the start of each segment and the result of each step. The graph of a
//! segment is rebuilt when the backward pass reaches it (Chen et al. 2016, section 3; the encoder before the
//! loop, and prior and decoder after it, are not split).

use crate::{
    Filtered, FilteringModel,
    filtering::{Inputs, StepNoise, pass, score, time_major},
};
use burn::{
    module::Module,
    tensor::{Gradients, Tensor},
};
use mnemora_memory::Bundle;

/// [`filter`](crate::filter) from the initial state, and the gradient of minus the mean bound,
/// `filtered.bound(kl_weight).mean().neg()`, with a graph of at most `segment` steps of the time
/// loop.
///
/// `accumulate` is called with the results of several backward passes: the gradient of a parameter is the sum
/// over them. Up to rounding, it equals the gradient of one pass over the whole sequence; the time loop is
/// computed twice. The returned value has no attention, and its graph is used up.
///
/// # Shapes
/// As for [`filter`](crate::filter); the model and all tensors on an autodiff device.
///
/// # Panics
/// If no step is scored, `segment` is 0, or shapes do not fit the model.
pub fn filter_by_segments<M: FilteringModel + Module>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    noise: Tensor<3>,
    segment: usize,
    kl_weight: f64,
    mut accumulate: impl FnMut(Gradients),
) -> Filtered<M::State, M::Prior> {
    let batch = observations.dims()[0];
    let observations = time_major(observations);
    let noise = StepNoise::of(model, noise);
    let features = model.encode(observations.clone());
    let inputs = Inputs::of_steps(features, conditions, noise.clone());
    let segments: Vec<_> = inputs.chunks(segment).collect();

    let plain = model.valid();
    let mut state = plain.initial_state(batch);
    let unscored = plain.scored_from(&state);
    let mut starts = Vec::with_capacity(segments.len());
    let mut outputs = Vec::with_capacity(segments.len());
    for inputs in &segments {
        starts.push(state.clone());
        let (steps, _, next) = pass(&plain, inputs.to_vec().inner(), state);
        outputs.push(Bundle::concatenate(steps).leaf());
        state = next;
    }

    // Outside the loop: from the bound to the results of the loop.
    let steps = Bundle::concatenate(outputs.clone());
    let filtered = score(model, observations, unscored, steps, Vec::new(), state);
    let gradients = filtered.bound(kl_weight).mean().neg().backward();
    let outputs: Vec<_> = outputs.iter().map(|of| of.gradients(&gradients)).collect();
    accumulate(gradients);

    // The loop, the last segment first: from its results and the state after it to its features
    // and the state before it.
    let mut to_features = Vec::with_capacity(segments.len());
    let mut to_state = None;
    let backwards = segments.into_iter().zip(starts).zip(outputs).enumerate();
    for (index, ((inputs, start), to_outputs)) in backwards.rev() {
        // The initial state may depend on parameters.
        let start = match index {
            0 => model.initial_state(batch),
            _ => start.leaf(),
        };
        let features: Vec<_> = inputs.iter().map(|step| step.features.clone()).collect();
        let leaves = features.clone().leaf();
        let inputs = inputs.iter().cloned().zip(leaves.clone());
        let inputs = inputs.map(|(step, features)| Inputs { features, ..step });
        let (steps, _, end) = pass(model, inputs.collect(), start.clone());
        let from = [
            Bundle::concatenate(steps).dot(to_outputs),
            to_state.take().and_then(|gradients| end.dot(gradients)),
        ];
        let Some(from) = from.into_iter().flatten().reduce(|a, b| a + b) else {
            continue;
        };
        let gradients = from.backward();
        to_state = Some(start.gradients(&gradients));
        to_features.extend(features.dot(leaves.gradients(&gradients)));
        accumulate(gradients);
    }

    // Before the loop.
    if !to_features.is_empty() {
        accumulate(Tensor::cat(to_features, 0).sum().backward());
    }
    Filtered {
        transition_noise: noise.transition,
        ..filtered
    }
}
