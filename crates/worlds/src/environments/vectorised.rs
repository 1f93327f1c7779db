//! Many environments of one kind, stepped together.

mod saved;

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::Rng;

use crate::{Environment, Error, Spec, Step, Stream};

/// The seed of episode number `episode` of environment number `index` in a run with this seed.
pub fn episode_seed(seed: u64, index: usize, episode: u64) -> u64 {
    stream(seed, index).at(episode).next_u64()
}

fn stream(seed: u64, index: usize) -> Stream {
    Stream::new(seed, &format!("environment {index}"))
}

/// An episode that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Number of the environment, from 0.
    pub index: usize,
    /// The seed of the episode.
    pub seed: u64,
    /// Sum of the rewards.
    pub total: f64,
    /// Number of actions.
    pub length: u64,
    /// The outcome, see [`Environment::score`].
    pub score: Option<(&'static str, f64)>,
}

/// The running episode of one environment.
#[derive(Clone, Debug)]
struct Running {
    stream: Stream,
    /// Number of the episode.
    episode: u64,
    seed: u64,
    total: f64,
    actions: Vec<u16>,
}

impl Running {
    /// Before the first episode.
    fn new(seed: u64, index: usize) -> Running {
        Running {
            stream: stream(seed, index),
            episode: 0,
            seed: 0,
            total: 0.0,
            actions: Vec::with_capacity(USUAL_LENGTH),
        }
    }
}

/// Space for the actions of an episode. A longer episode needs more, once.
const USUAL_LENGTH: usize = 4096;

/// How many episodes in a row may be over before the first action.
const EMPTY_EPISODES: usize = 1000;

/// N environments of one kind.
///
/// An environment whose episode ended is reset at once, with the seed [`episode_seed`] of its next episode. So after
/// each [`Vectorised::step`]:
/// - `rewards()[i]` and `lasts()[i]` belong to the action that was just done;
/// - `observations()[i]` is what environment `i` shows now. If `lasts()[i]`, it is the first observation of the next
///   episode, and `firsts()[i]` says so.
///
/// What ended episodes scored is kept until [`Vectorised::take_finished`]. Episodes that are over before the first
/// action are skipped.
///
/// ```
/// use mnemora_worlds::{TMaze, TMazeConfig, Vectorised};
///
/// let mazes = (0..8).map(|_| TMaze::new(TMazeConfig::default()));
/// let mut mazes = Vectorised::new(mazes.collect::<Result<Vec<_>, _>>()?, 1)?;
/// assert_eq!(mazes.observations().len(), 8 * 4);
/// for _ in 0..10 {
///     mazes.step(&[0; 8])?;
/// }
/// mazes.step(&[1; 8])?;
/// let finished = mazes.take_finished();
/// assert_eq!(finished.len(), 8);
/// assert!(finished.iter().all(|episode| episode.length == 11 && episode.total.abs() == 1.0));
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
#[derive(Debug)]
pub struct Vectorised<E> {
    environments: Vec<E>,
    seed: u64,
    running: Vec<Running>,
    spec: Spec,
    observations: Vec<f32>,
    rewards: Vec<f32>,
    firsts: Vec<bool>,
    lasts: Vec<bool>,
    ends: Vec<f32>,
    finished: Vec<Finished>,
    /// Whether an environment failed in the middle of a step.
    failed: bool,
}

impl<E: Environment> Vectorised<E> {
    /// Begins the first episodes of these environments.
    ///
    /// # Errors
    /// There are no environments, they are of different kinds, or one cannot begin.
    pub fn new(environments: Vec<E>, seed: u64) -> Result<Vectorised<E>, Error> {
        let unusable = |problem: &str| Error::EnvironmentSettings {
            problem: problem.to_owned(),
        };
        let first = environments.first();
        let spec = first
            .ok_or_else(|| unusable("at least one environment is needed"))?
            .spec();
        if environments.iter().any(|other| other.spec() != spec) {
            return Err(unusable(
                "all environments must have the same observations and actions",
            ));
        }
        if spec.actions.len() > usize::from(u16::MAX) {
            return Err(unusable("an environment has at most 65535 actions"));
        }
        let count = environments.len();
        let running = (0..count).map(|index| Running::new(seed, index));
        let mut vectorised = Vectorised {
            seed,
            running: running.collect(),
            spec,
            observations: vec![0.0; count * spec.frame.size()],
            rewards: vec![0.0; count],
            firsts: vec![true; count],
            lasts: vec![false; count],
            ends: vec![0.0; count * spec.frame.size()],
            finished: Vec::with_capacity(count),
            failed: false,
            environments,
        };
        for index in 0..count {
            vectorised.begin(index, 0)?;
        }
        Ok(vectorised)
    }

    /// Number of environments.
    pub fn count(&self) -> usize {
        self.environments.len()
    }

    /// What each environment shows and accepts.
    pub fn spec(&self) -> Spec {
        self.spec
    }

    /// `[count, channels, height, width]`: what the next actions are chosen from.
    pub fn observations(&self) -> &[f32] {
        &self.observations
    }

    /// `[count]`: the rewards of the last actions.
    pub fn rewards(&self) -> &[f32] {
        &self.rewards
    }

    /// `[count]`: whether an episode begins with the observation.
    pub fn firsts(&self) -> &[bool] {
        &self.firsts
    }

    /// `[count]`: whether the last action ended an episode.
    pub fn lasts(&self) -> &[bool] {
        &self.lasts
    }

    /// `[count, channels, height, width]`: the last observation of the last episode that ended in each environment; zeros
    /// before. It is not part of a [saved state](Vectorised::save).
    pub fn ends(&self) -> &[f32] {
        &self.ends
    }

    /// The environments.
    pub fn environments(&self) -> &[E] {
        &self.environments
    }

    /// The episodes that ended since the last call, in the order in which they ended.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        mem::take(&mut self.finished)
    }

    /// Does one action in each environment.
    ///
    /// # Errors
    /// There is not one action for each environment, or an environment does not have it; nothing changes then. Or an
    /// environment panicked, or cannot begin its next episode; then the others may have done their actions, and every
    /// further step is refused until [`Vectorised::reset`] or [`Vectorised::restore`].
    pub fn step(&mut self, actions: &[usize]) -> Result<(), Error> {
        let (found, wanted) = (actions.len(), self.count());
        if found != wanted {
            return Err(Error::ActionCount { found, wanted });
        }
        let count = self.spec.actions.len();
        if let Some(action) = actions.iter().copied().find(|action| *action >= count) {
            return Err(Error::NoAction { action, count });
        }
        if self.failed {
            return Err(Error::NoEpisode);
        }
        self.failed = true;
        for (index, action) in actions.iter().enumerate() {
            self.act(index, *action)?;
        }
        self.failed = false;
        Ok(())
    }

    /// Gives up all running episodes and begins the next ones.
    ///
    /// # Errors
    /// An environment cannot begin.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.failed = true;
        for index in 0..self.count() {
            self.begin(index, self.running[index].episode + 1)?;
            (self.rewards[index], self.lasts[index]) = (0.0, false);
        }
        self.failed = false;
        Ok(())
    }

    fn act(&mut self, index: usize, action: usize) -> Result<(), Error> {
        self.running[index].actions.push(action as u16);
        let step = self.guarded(index, |environment, observation| {
            environment.step(action, observation)
        })?;
        let running = &mut self.running[index];
        running.total += f64::from(step.reward);
        self.rewards[index] = step.reward;
        (self.firsts[index], self.lasts[index]) = (false, step.last);
        if !step.last {
            return Ok(());
        }
        self.finished.push(Finished {
            index,
            seed: running.seed,
            total: running.total,
            length: running.actions.len() as u64,
            score: self.environments[index].score(),
        });
        let next = running.episode + 1;
        let size = self.spec.frame.size();
        let frame = index * size..(index + 1) * size;
        self.ends[frame.clone()].copy_from_slice(&self.observations[frame]);
        self.begin(index, next)
    }

    /// Begins an episode, or a later one if this is over before the first action.
    fn begin(&mut self, index: usize, episode: u64) -> Result<(), Error> {
        for episode in (episode..).take(EMPTY_EPISODES) {
            let running = &mut self.running[index];
            running.actions.clear();
            running.total = 0.0;
            running.episode = episode;
            running.seed = running.stream.at(episode).next_u64();
            let seed = running.seed;
            let step = self.guarded(index, |environment, observation| {
                environment.reset(seed, observation)
            })?;
            if !step.last {
                self.firsts[index] = true;
                return Ok(());
            }
        }
        Err(Error::NoLevel {
            seed: self.running[index].seed,
            problem: format!(
                "the last of {EMPTY_EPISODES} episodes that were over before the first action"
            ),
        })
    }

    /// Calls an environment; a panic becomes an error from which the episode can be replayed.
    fn guarded(
        &mut self,
        index: usize,
        call: impl FnOnce(&mut E, &mut [f32]) -> Result<Step, Error>,
    ) -> Result<Step, Error> {
        let environment = &mut self.environments[index];
        let size = self.spec.frame.size();
        let observation = &mut self.observations[index * size..][..size];
        // After a panic, the environment is only saved, reset or restored.
        catch_unwind(AssertUnwindSafe(|| call(environment, observation))).unwrap_or_else(|panic| {
            let running = &self.running[index];
            Err(Error::EnvironmentPanicked {
                index,
                seed: running.seed,
                actions: running.actions.clone(),
                message: message(panic.as_ref()),
            })
        })
    }
}

/// The text of a panic, in one line.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").replace('\n', " ")
}

#[cfg(test)]
mod tests;
