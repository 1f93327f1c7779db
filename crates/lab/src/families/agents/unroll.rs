//! What happened in many environments over a number of steps, and its part of a checkpoint.

use burn::tensor::{Bool, Device, Tensor, TensorData};
use mnemora_memory::AnyCoreState;
use mnemora_models::Observed;
use mnemora_training::{
    Error,
    arrays::{Array, Arrays},
    carried,
};
use mnemora_worlds::Spec;
use std::path::Path;

/// What happened in an unroll, `[time, batch]`; observations have one step more.
#[derive(Clone, Debug)]
pub struct Unroll {
    /// Environments.
    pub batch: usize,
    /// `[time + 1, batch, frame]`
    pub(super) frames: Vec<f32>,
    /// The number of the last action, -1 at the first step of an episode, `[time + 1, batch]`.
    pub(super) last_actions: Vec<f32>,
    /// `[time + 1, batch]`
    pub(super) last_rewards: Vec<f32>,
    /// 1 at the first step of an episode, `[time + 1, batch]`.
    pub(super) firsts: Vec<f32>,
    /// The actions.
    pub actions: Vec<usize>,
    /// Their log probabilities.
    pub log_probabilities: Vec<f32>,
    /// Their rewards.
    pub rewards: Vec<f32>,
    /// 1 where the action ended the episode.
    pub(super) lasts: Vec<f32>,
    /// State of the core before the first observation, off the autodiff device.
    pub start: AnyCoreState,
}

/// One step of all environments as an agent observes it.
pub(super) fn observed(
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
pub(super) fn truths<const D: usize>(
    values: &[f32],
    shape: [usize; D],
    device: &Device,
) -> Tensor<D, Bool> {
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
    ///
    /// # Errors
    /// A part is missing or damaged. `path` is the file that it comes from.
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
        check_actions(spec, actions.iter(), false, path)?;
        check_actions(spec, last_actions.iter(), true, path)?;
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
pub(super) fn row(values: Vec<f32>) -> Array {
    Array {
        shape: vec![values.len()],
        values,
    }
}

/// Takes an array out of a checkpoint's; it must have `size` numbers, if that is known.
pub(super) fn take(
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

/// Every action of a checkpoint must be one of the environment's, or -1 for none if there need not be one.
pub(super) fn check_actions<'a>(
    spec: &Spec,
    mut actions: impl Iterator<Item = &'a f32>,
    may_be_none: bool,
    path: &Path,
) -> Result<(), Error> {
    let count = spec.actions.len();
    let is_one = |action: f32| {
        let one = action.fract() == 0.0 && (0.0..count as f32).contains(&action);
        one || may_be_none && action == -1.0
    };
    match actions.find(|action| !is_one(**action)) {
        None => Ok(()),
        Some(action) => Err(Error::WrongWeights {
            path: path.to_owned(),
            problem: format!("its carried state has the action {action} of {count}"),
        }),
    }
}
