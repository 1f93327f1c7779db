//! Acting: many environments, one policy.

use super::unroll::{Unroll, check_actions, observed, row, take, truths};
use burn::tensor::{Device, activation::log_softmax};
use mnemora_memory::{AnyCoreState, Attention, Bundle};
use mnemora_models::{Agent, AgentPrepared};
use mnemora_training::{
    Error,
    arrays::{Arrays, host},
    carried,
};
use mnemora_worlds::{Environment, Finished, Spec, Stream, Vectorised};
use std::path::Path;
use std::time::{Duration, Instant};

/// How an action is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Sampled from the policy.
    Sampled,
    /// The most probable one.
    Greedy,
    /// Each with the same probability, whatever the policy.
    Random,
}

/// Environments, and an agent in the middle of their episodes.
pub struct Actor {
    /// The environments.
    pub environments: Vectorised<Box<dyn Environment>>,
    spec: Spec,
    state: AnyCoreState,
    /// The last action of each environment; `None` at the first step of an episode.
    last_actions: Vec<Option<usize>>,
    draws: Stream,
    /// Steps made in each environment.
    pub steps: u64,
    /// Time spent in the environments.
    pub in_environments: Duration,
    device: Device,
}

/// What an agent did in one step of all environments.
pub struct Acts {
    /// The numbers of the actions, `[batch]`.
    pub actions: Vec<usize>,
    /// The log probabilities of these actions in nats, `[batch]`.
    pub log_probabilities: Vec<f32>,
    /// The weights of the core's heads.
    pub attention: Vec<Attention>,
}

/// One of `count` actions with the same probability, by a number from 0 to 1.
pub(super) fn at_random(uniform: f64, count: usize) -> usize {
    ((uniform * count as f64) as usize).min(count - 1)
}

/// An action: chosen by `uniform`, a number from 0 to 1, or the most probable one.
fn choose(log_policy: &[f32], choice: Choice, uniform: f64) -> usize {
    let last = log_policy.len() - 1;
    match choice {
        Choice::Random => at_random(uniform, log_policy.len()),
        Choice::Greedy => {
            let mut best = 0;
            for (action, log) in log_policy.iter().enumerate() {
                if *log > log_policy[best] {
                    best = action;
                }
            }
            best
        }
        Choice::Sampled => {
            let mut below = 0.0;
            for (action, log) in log_policy.iter().enumerate() {
                below += f64::from(*log).exp();
                if uniform < below {
                    return action;
                }
            }
            last
        }
    }
}

impl Actor {
    /// At the first observations of the first episodes. The agent is off the autodiff device.
    pub fn new(
        environments: Vectorised<Box<dyn Environment>>,
        agent: &Agent,
        draws: Stream,
    ) -> Self {
        let count = environments.count();
        Self {
            spec: environments.spec(),
            state: agent.initial_state(count),
            last_actions: vec![None; count],
            draws,
            steps: 0,
            in_environments: Duration::ZERO,
            device: agent.device(),
            environments,
        }
    }

    /// What the environments show and accept.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    fn last_rewards(&self) -> Vec<f32> {
        let rewards = self.environments.rewards().iter();
        let pairs = rewards.zip(&self.last_actions);
        pairs
            .map(|(reward, action)| action.map_or(0.0, |_| *reward))
            .collect()
    }

    fn last_numbers(&self) -> Vec<f32> {
        let actions = self.last_actions.iter();
        actions
            .map(|action| action.map_or(-1.0, |action| action as f32))
            .collect()
    }

    /// One step in all environments.
    ///
    /// # Errors
    /// An environment cannot begin its next episode, or panicked.
    pub fn step(
        &mut self,
        agent: &Agent,
        prepared: &AgentPrepared,
        choice: Choice,
    ) -> Result<Acts, mnemora_worlds::Error> {
        let count = self.environments.count();
        let frames = self.environments.observations().to_vec();
        let seen = observed(
            &self.spec,
            frames,
            &self.last_numbers(),
            self.last_rewards(),
            &self.device,
        );
        let firsts: Vec<f32> = self.firsts();
        if firsts.contains(&1.0) {
            let rows = truths(&firsts, [count], &self.device);
            let initial = agent.initial_state(count);
            self.state = self.state.clone().replace(&rows, initial);
        }
        let acted = agent.act(prepared, seen, self.state.clone());
        self.state = acted.state;
        let all = host(log_softmax(acted.logits, 1).into_data());
        let uniform = match choice {
            Choice::Sampled | Choice::Random => self.draws.uniform_values(self.steps, count),
            Choice::Greedy => vec![0.0; count],
        };
        let width = self.spec.actions.len();
        let (mut actions, mut logs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (policy, uniform) in all.chunks(width).zip(uniform) {
            let action = choose(policy, choice, uniform);
            actions.push(action);
            logs.push(policy[action]);
        }
        let clock = Instant::now();
        self.environments.step(&actions)?;
        self.in_environments += clock.elapsed();
        self.steps += 1;
        for ((last, action), first) in self
            .last_actions
            .iter_mut()
            .zip(&actions)
            .zip(self.environments.firsts())
        {
            *last = (!first).then_some(*action);
        }
        Ok(Acts {
            actions,
            log_probabilities: logs,
            attention: acted.attention,
        })
    }

    fn firsts(&self) -> Vec<f32> {
        let firsts = self.environments.firsts().iter();
        firsts.map(|first| f32::from(u8::from(*first))).collect()
    }

    /// An unroll of `time` steps.
    ///
    /// # Errors
    /// Those of [`step`](Self::step).
    pub fn unroll(&mut self, agent: &Agent, time: usize) -> Result<Unroll, mnemora_worlds::Error> {
        let batch = self.environments.count();
        let prepared = agent.prepare();
        let mut unroll = Unroll {
            batch,
            frames: Vec::with_capacity((time + 1) * batch * self.spec.frame.size()),
            last_actions: Vec::new(),
            last_rewards: Vec::new(),
            firsts: Vec::new(),
            actions: Vec::new(),
            log_probabilities: Vec::new(),
            rewards: Vec::new(),
            lasts: Vec::new(),
            start: self.state.clone(),
        };
        for t in 0..=time {
            unroll
                .frames
                .extend_from_slice(self.environments.observations());
            unroll.last_actions.extend(self.last_numbers());
            unroll.last_rewards.extend(self.last_rewards());
            unroll.firsts.extend(self.firsts());
            if t == time {
                break;
            }
            let acts = self.step(agent, &prepared, Choice::Sampled)?;
            unroll.actions.extend(acts.actions);
            unroll.log_probabilities.extend(acts.log_probabilities);
            unroll.rewards.extend(self.environments.rewards());
            let lasts = self.environments.lasts().iter();
            unroll
                .lasts
                .extend(lasts.map(|last| f32::from(u8::from(*last))));
        }
        Ok(unroll)
    }

    /// The episodes that ended since the last call.
    pub fn finished(&mut self) -> Vec<Finished> {
        self.environments.take_finished()
    }

    /// For a checkpoint.
    pub fn save(&self) -> Arrays {
        let mut arrays = carried::save(self.state.clone(), "actor.state.");
        let bytes = self.environments.save();
        let bytes = bytes.into_iter().map(f32::from).collect();
        arrays.insert("actor.environments".into(), row(bytes));
        arrays.insert("actor.last_actions".into(), row(self.last_numbers()));
        arrays
    }

    /// Goes on from what [`save`](Self::save) gave, and a number of steps.
    ///
    /// # Errors
    /// A part is missing or damaged. `path` is the file that it comes from.
    pub fn restore(&mut self, arrays: &mut Arrays, steps: u64, path: &Path) -> Result<(), Error> {
        let wrong = |problem: String| Error::WrongWeights {
            path: path.to_owned(),
            problem,
        };
        let count = self.environments.count();
        let bytes = take(arrays, "actor.environments", None, path)?;
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte as u8).collect();
        let restored = self.environments.restore(&bytes);
        restored.map_err(|error| wrong(error.to_string()))?;
        let last = take(arrays, "actor.last_actions", Some(count), path)?;
        check_actions(&self.spec, last.iter(), true, path)?;
        self.last_actions = last
            .into_iter()
            .map(|action| (action >= 0.0).then_some(action as usize))
            .collect();
        self.state = carried::load(self.state.clone(), arrays, "actor.state.", path)?;
        self.steps = steps;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_chosen_by_the_policy_or_at_random() {
        let policy = [0.1_f32, 0.7, 0.2].map(f32::ln);
        let chosen = |choice, uniforms: [f64; 4]| uniforms.map(|u| choose(&policy, choice, u));
        assert_eq!(
            chosen(Choice::Sampled, [0.05, 0.15, 0.75, 0.85]),
            [0, 1, 1, 2]
        );
        assert_eq!(
            chosen(Choice::Random, [0.05, 0.35, 0.65, 0.95]),
            [0, 1, 1, 2]
        );
        assert_eq!(
            chosen(Choice::Random, [0.3, 0.34, 0.7, 0.999_999_9]),
            [0, 1, 2, 2]
        );
        assert_eq!(chosen(Choice::Greedy, [0.05, 0.15, 0.75, 0.85]), [1; 4]);
        assert_eq!(choose(&policy, Choice::Sampled, 1.0), 2);
    }
}
