//! The environments of an experiment.

use super::settings::{AgentSettings, with_keys};
use crate::{Experiment, LabError};
use mnemora_worlds::{Environment, Stream, Vectorised};

/// One environment of an experiment.
pub(super) fn environment(
    experiment: &Experiment,
    settings: &AgentSettings,
) -> Result<Box<dyn Environment>, LabError> {
    let environment = settings.environment(experiment.task.name.as_str());
    environment.map_err(LabError::Configuration)
}

/// A number of environments of an experiment.
pub(super) fn environments(
    experiment: &Experiment,
    settings: &AgentSettings,
    count: usize,
    seed: u64,
) -> Result<Vectorised<Box<dyn Environment>>, LabError> {
    let all = (0..count).map(|_| environment(experiment, settings));
    let all = Vectorised::new(all.collect::<Result<_, _>>()?, seed);
    let task = experiment.task.name.as_str();
    all.map_err(|error| LabError::Configuration(with_keys(&error, task)))
}

/// A seed for environments, drawn from a stream.
pub(super) fn environment_seed(stream: &Stream) -> u64 {
    const EXACT: f64 = (1_u64 << 53) as f64;
    (stream.uniform(0) * EXACT) as u64
}
