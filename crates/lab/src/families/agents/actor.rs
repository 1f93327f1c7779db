//! Acting: many environments, one policy, and what happened.

use burn::tensor::{Bool, Device, Tensor, TensorData, activation::log_softmax};
use mnemora_memory::{AnyCoreState, Attention, Bundle};
use mnemora_models::{Agent, AgentPrepared, Observed};
use mnemora_training::{
    Error,
    arrays::{Array, Arrays, host},
    carried,
};
use mnemora_worlds::{Environment, Finished, Spec, Stream, Vectorised};
use std::path::Path;

/// How an action is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Drawn from the policy.
    Drawn,
    /// The most probable one.
    Greedy,
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
    device: Device,
}

/// What an agent did in one step of all environments.
pub struct Acts {
    /// By number.
    pub actions: Vec<usize>,
    /// Of these actions.
    pub log_probabilities: Vec<f32>,
    /// The weights of the core's heads.
    pub attention: Vec<Attention>,
}

/// What happened in an unroll, `[time, batch]`; observations have one step more.
#[derive(Clone, Debug)]
pub struct Unroll {
    /// Environments.
    pub batch: usize,
    /// `[time + 1, batch, frame]`
    frames: Vec<f32>,
    /// The number of the last action, -1 at the first step of an episode, `[time + 1, batch]`.
    last_actions: Vec<f32>,
    /// `[time + 1, batch]`
    last_rewards: Vec<f32>,
    /// 1 at the first step of an episode, `[time + 1, batch]`.
    firsts: Vec<f32>,
    /// The actions.
    pub actions: Vec<usize>,
    /// Their log probabilities.
    pub log_probabilities: Vec<f32>,
    /// Their rewards.
    pub rewards: Vec<f32>,
    /// 1 where the action ended the episode.
    lasts: Vec<f32>,
    /// Before the first observation, off the autodiff device.
    pub start: AnyCoreState,
}

/// One step of all environments as an agent observes it.
fn observed(
    spec: &Spec,
    frames: Vec<f32>,
    last_actions: &[f32],
    last_rewards: Vec<f32>,
    device: &Device,
) -> Observed {
    let rows = last_actions.len();
    let actions = spec.actions.len();
    let frame = spec.frame;
    let mut one_hot = vec![0.0; rows * actions];
    for (row, action) in last_actions.iter().enumerate().filter(|(_, a)| **a >= 0.0) {
        one_hot[row * actions + *action as usize] = 1.0;
    }
    let shape = [rows, frame.channels, frame.height, frame.width];
    Observed {
        frames: Tensor::from_data(TensorData::new(frames, shape), device),
        actions: Tensor::from_data(TensorData::new(one_hot, [rows, actions]), device),
        rewards: Tensor::from_data(TensorData::new(last_rewards, [rows, 1]), device),
    }
}

/// Truth values of 0 and 1.
fn truths<const D: usize>(values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D, Bool> {
    let values: Vec<bool> = values.iter().map(|value| *value > 0.5).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

impl Unroll {
    /// The observations on a device.
    pub fn observed(&self, spec: &Spec, device: &Device) -> Observed {
        observed(
            spec,
            self.frames.clone(),
            &self.last_actions,
            self.last_rewards.clone(),
            device,
        )
    }

    /// Where episodes begin, `[time + 1, batch]`.
    pub fn resets(&self, device: &Device) -> Tensor<2, Bool> {
        let shape = [self.firsts.len() / self.batch, self.batch];
        truths(&self.firsts, shape, device)
    }

    /// `discount`, or 0 where an action ended the episode.
    pub fn discounts(&self, discount: f64) -> Vec<f32> {
        let lasts = self.lasts.iter();
        lasts.map(|last| discount as f32 * (1.0 - last)).collect()
    }

    /// For a checkpoint.
    pub fn save(&self) -> Arrays {
        let mut arrays = carried::save(self.start.clone(), "unroll.start.");
        let actions: Vec<f32> = self.actions.iter().map(|action| *action as f32).collect();
        for (name, values) in [
            ("frames", &self.frames),
            ("last_actions", &self.last_actions),
            ("last_rewards", &self.last_rewards),
            ("firsts", &self.firsts),
            ("actions", &actions),
            ("log_probabilities", &self.log_probabilities),
            ("rewards", &self.rewards),
            ("lasts", &self.lasts),
        ] {
            arrays.insert(format!("unroll.{name}"), row(values.clone()));
        }
        arrays
    }

    /// What [`save`](Self::save) gave, taken out of `arrays`; `None` if there was no unroll.
    pub fn load(
        arrays: &mut Arrays,
        [time, batch]: [usize; 2],
        spec: &Spec,
        like: AnyCoreState,
        path: &Path,
    ) -> Result<Option<Self>, Error> {
        if !arrays.contains_key("unroll.frames") {
            return Ok(None);
        }
        let mut part = |name: &str, size| take(arrays, &format!("unroll.{name}"), Some(size), path);
        let (steps, observations) = (time * batch, (time + 1) * batch);
        let frames = part("frames", observations * spec.frame.size())?;
        let last_actions = part("last_actions", observations)?;
        let last_rewards = part("last_rewards", observations)?;
        let firsts = part("firsts", observations)?;
        let actions = part("actions", steps)?;
        let log_probabilities = part("log_probabilities", steps)?;
        let rewards = part("rewards", steps)?;
        let lasts = part("lasts", steps)?;
        check_actions(spec, actions.iter().chain(&last_actions), path)?;
        Ok(Some(Self {
            batch,
            frames,
            last_actions,
            last_rewards,
            firsts,
            actions: actions.into_iter().map(|action| action as usize).collect(),
            log_probabilities,
            rewards,
            lasts,
            start: carried::load(like, arrays, "unroll.start.", path)?,
        }))
    }
}

/// Numbers as an array of one dimension.
fn row(values: Vec<f32>) -> Array {
    Array {
        shape: vec![values.len()],
        values,
    }
}

/// Takes an array out of a checkpoint's; it must have `size` numbers, if that is known.
fn take(
    arrays: &mut Arrays,
    name: &str,
    size: Option<usize>,
    path: &Path,
) -> Result<Vec<f32>, Error> {
    let found = arrays.remove(name).map(|array| array.values);
    let found = found.filter(|values| size.is_none_or(|size| values.len() == size));
    found.ok_or_else(|| Error::WrongWeights {
        path: path.to_owned(),
        problem: match size {
            Some(size) => format!("its carried state has no '{name}' of {size} numbers"),
            None => format!("its carried state has no '{name}'"),
        },
    })
}

/// Every action of a checkpoint must be one of the environment's, or -1 for none.
fn check_actions<'a>(
    spec: &Spec,
    mut actions: impl Iterator<Item = &'a f32>,
    path: &Path,
) -> Result<(), Error> {
    let count = spec.actions.len();
    match actions.find(|action| !(-1.0..count as f32).contains(*action)) {
        None => Ok(()),
        Some(action) => Err(Error::WrongWeights {
            path: path.to_owned(),
            problem: format!("its carried state has the action {action} of {count}"),
        }),
    }
}

/// An action: drawn by `uniform`, a number from 0 to 1, or the most probable one.
fn choose(log_policy: &[f32], choice: Choice, uniform: f64) -> usize {
    let last = log_policy.len() - 1;
    match choice {
        Choice::Greedy => {
            let mut best = 0;
            for (action, log) in log_policy.iter().enumerate() {
                if *log > log_policy[best] {
                    best = action;
                }
            }
            best
        }
        Choice::Drawn => {
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
            Choice::Drawn => self.draws.uniform_values(self.steps, count),
            Choice::Greedy => vec![0.0; count],
        };
        let width = self.spec.actions.len();
        let (mut actions, mut logs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (policy, uniform) in all.chunks(width).zip(uniform) {
            let action = choose(policy, choice, uniform);
            actions.push(action);
            logs.push(policy[action]);
        }
        self.environments.step(&actions)?;
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
            let acts = self.step(agent, &prepared, Choice::Drawn)?;
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
        check_actions(&self.spec, last.iter(), path)?;
        self.last_actions = last
            .into_iter()
            .map(|action| (action >= 0.0).then_some(action as usize))
            .collect();
        self.state = carried::load(self.state.clone(), arrays, "actor.state.", path)?;
        self.steps = steps;
        Ok(())
    }
}
