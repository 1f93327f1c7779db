//! Frames of agents that act at random, by which an agent's input is standardised.

use super::{learner::environments, settings::AgentSettings};
use crate::{Experiment, LabError};
use burn::tensor::{Device, Tensor, TensorData};
use mnemora_worlds::Stream;

/// Environments.
const ENVIRONMENTS: usize = 32;
/// Steps in each.
const STEPS: u64 = 256;
/// One frame of each environment is taken at every this many steps.
const EVERY: u64 = 8;

/// `[rows, channels, height, width]`: what agents see that take each action with the same probability. It depends on the
/// experiment's environment and seed alone.
pub(super) fn random_frames(
    experiment: &Experiment,
    settings: &AgentSettings,
    device: &Device,
) -> Result<Tensor<4>, LabError> {
    let mut all = environments(experiment, settings, ENVIRONMENTS, experiment.seed)?;
    let spec = all.spec();
    let draws = Stream::new(experiment.seed, "random actions");
    let mut frames = Vec::new();
    for step in 0..STEPS {
        if step.is_multiple_of(EVERY) {
            frames.extend_from_slice(all.observations());
        }
        let uniform = draws.uniform_values(step, ENVIRONMENTS).into_iter();
        let count = spec.actions.len();
        let actions: Vec<usize> = uniform.map(|u| (u * count as f64) as usize).collect();
        all.step(&actions)?;
    }
    let frame = spec.frame;
    let rows = frames.len() / frame.size();
    let shape = [rows, frame.channels, frame.height, frame.width];
    Ok(Tensor::from_data(TensorData::new(frames, shape), device))
}
