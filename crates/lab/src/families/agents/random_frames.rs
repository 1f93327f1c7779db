//! Frames of agents that act at random, by which an agent's input is standardised.

use super::{actor::at_random, environments::environments, settings::AgentSettings};
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
        let actions: Vec<usize> = uniform.map(|u| at_random(u, count)).collect();
        all.step(&actions)?;
    }
    let frame = spec.frame;
    let rows = frames.len() / frame.size();
    let shape = [rows, frame.channels, frame.height, frame.width];
    Ok(Tensor::from_data(TensorData::new(frames, shape), device))
}

#[cfg(test)]
mod tests {
    use crate::{families::agents::AgentLearner, load_experiment};
    use mnemora_models::Agent;
    use mnemora_training::{Learner, arrays::host, device::light_device};

    fn standard(agent: &Agent) -> [Vec<f32>; 2] {
        let standard = agent.torso.standard.as_ref().expect("it standardises");
        [&standard.mean, &standard.deviation].map(|number| host(number.val().into_data()))
    }

    /// BoxWorld's floor is 0.8 in all colours, and keys are seldom held at random. Training changes nothing of it.
    #[test]
    fn an_agent_is_standardised_by_what_it_sees_at_random() {
        let settings = ["training.batch=2", "agents.unroll=2"].map(str::to_owned);
        let experiment = load_experiment("boxworld-small", &settings).unwrap();
        let device = light_device().unwrap().autodiff();
        let mut learner = AgentLearner::new(&experiment, &device).unwrap();
        let measured = standard(&learner.policy());
        let [mean, deviation] = &measured;
        assert_eq!(mean.len(), 6);
        assert!(
            mean[..3].iter().all(|mean| (0.4..0.8).contains(mean)),
            "{mean:?}"
        );
        assert!(
            mean[3..].iter().all(|mean| (0.0..0.2).contains(mean)),
            "{mean:?}"
        );
        assert!(
            deviation.iter().all(|x| (0.02..0.5).contains(x)),
            "{deviation:?}"
        );
        learner.update(1).unwrap();
        learner.update(2).unwrap();
        assert_eq!(standard(&learner.policy()), measured);
        let again = AgentLearner::new(&experiment, &device).unwrap();
        assert_eq!(standard(&again.policy()), measured);
    }
}
