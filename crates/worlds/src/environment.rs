//! Environments: worlds that an agent acts in, one step at a time.

use crate::{Error, FrameShape};

/// What an environment shows and accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The dimensions of every observation.
    pub frame: FrameShape,
    /// The names of the actions, in the order of their numbers.
    pub actions: &'static [&'static str],
}

/// What a step brings besides the observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The reward of the action that led here; 0 at the first step of an episode.
    pub reward: f32,
    /// Whether this is the first step of an episode.
    pub first: bool,
    /// Whether this is the last step of an episode: what it is about has come to its end, or its time is up; the two are not
    /// told apart. The next call must be [`Environment::reset`].
    pub last: bool,
}

/// A world that an agent acts in.
///
/// An episode is a function of its seed and of the actions, and of nothing else. The state at any step can be saved,
/// and an environment with the same settings continues from it as if it had not been interrupted.
pub trait Environment: Send {
    /// What it shows and accepts.
    fn spec(&self) -> Spec;

    /// Begins the episode of this seed and writes its first observation, `[channels, height, width]`, in [0, 1].
    ///
    /// # Errors
    /// `observation` is not as large as a frame, or no level can be made with these settings.
    fn reset(&mut self, seed: u64, observation: &mut [f32]) -> Result<Step, Error>;

    /// Does action number `action` and writes the observation that follows.
    ///
    /// # Errors
    /// There is no such action, no episode has begun, the episode is over, or `observation` does not have the size of
    /// a frame. Nothing changes then.
    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<Step, Error>;

    /// The outcome of the episode so far, for evaluation: a name and a value, such as `("solved", 1.0)`. `None` before
    /// the first episode, and if the rewards say everything.
    fn score(&self) -> Option<(&'static str, f64)> {
        None
    }

    /// The whole state, in the middle of an episode or before the first.
    fn save(&self) -> Vec<u8>;

    /// Continues from a state that [`Environment::save`] gave under the same settings.
    ///
    /// # Errors
    /// The bytes are not such a state. Nothing changes then.
    fn restore(&mut self, saved: &[u8]) -> Result<(), Error>;
}

impl<E: Environment + ?Sized> Environment for Box<E> {
    fn spec(&self) -> Spec {
        (**self).spec()
    }

    fn reset(&mut self, seed: u64, observation: &mut [f32]) -> Result<Step, Error> {
        (**self).reset(seed, observation)
    }

    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<Step, Error> {
        (**self).step(action, observation)
    }

    fn score(&self) -> Option<(&'static str, f64)> {
        (**self).score()
    }

    fn save(&self) -> Vec<u8> {
        (**self).save()
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), Error> {
        (**self).restore(saved)
    }
}
