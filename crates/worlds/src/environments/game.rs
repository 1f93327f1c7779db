//! What all small environments have in common: they check what they are given, and save an episode with a fingerprint
//! of the settings and a checksum.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::sealed::{DAMAGED, Fingerprint, sealed};
use crate::{Environment, Error, Spec, Step};

/// The rules of an environment: how an episode begins, and what an action does to it.
pub trait Rules: Send {
    /// All that changes within an episode, its random generator included.
    type Episode: Clone + Send + Serialize + DeserializeOwned;

    /// The settings, which decide what a saved episode means.
    type Config: Serialize;

    /// Name and version of the rules, for saved states. A change of the rules needs a new version.
    const VERSION: &'static str;

    /// The settings.
    fn config(&self) -> &Self::Config;

    /// What the environment shows and accepts.
    fn spec(&self) -> Spec;

    /// The episode of this seed.
    ///
    /// # Errors
    /// There is no level with these settings.
    fn begin(&self, seed: u64) -> Result<Self::Episode, Error>;

    /// Does an action in an episode that is not over, and returns its reward.
    fn act(&self, episode: &mut Self::Episode, action: usize) -> f32;

    /// Whether the episode is over.
    fn is_over(&self, episode: &Self::Episode) -> bool;

    /// Writes what the agent sees.
    fn draw(&self, episode: &Self::Episode, observation: &mut [f32]);

    /// The outcome, see [`Environment::score`].
    fn score(&self, episode: &Self::Episode) -> (&'static str, f64);

    /// Whether an episode that was read from bytes can be acted in.
    fn is_sound(&self, episode: &Self::Episode) -> bool;
}

/// An environment with these rules.
#[derive(Clone, Debug)]
pub struct Game<R: Rules> {
    pub(super) rules: R,
    pub(super) episode: Option<R::Episode>,
}

impl<R: Rules> Game<R> {
    pub(super) fn of(rules: R) -> Game<R> {
        Game {
            rules,
            episode: None,
        }
    }

    fn check_observation(&self, observation: &[f32]) -> Result<(), Error> {
        let wanted = self.rules.spec().frame.size();
        let found = observation.len();
        if found != wanted {
            return Err(Error::ObservationSize { found, wanted });
        }
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(R::VERSION, self.rules.config())
    }
}

impl<R: Rules> Environment for Game<R> {
    fn spec(&self) -> Spec {
        self.rules.spec()
    }

    fn reset(&mut self, seed: u64, observation: &mut [f32]) -> Result<Step, Error> {
        self.check_observation(observation)?;
        let episode = self.rules.begin(seed)?;
        self.rules.draw(&episode, observation);
        let last = self.rules.is_over(&episode);
        self.episode = Some(episode);
        Ok(Step {
            reward: 0.0,
            first: true,
            last,
        })
    }

    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<Step, Error> {
        self.check_observation(observation)?;
        let count = self.rules.spec().actions.len();
        if action >= count {
            return Err(Error::NoAction { action, count });
        }
        let running = self
            .episode
            .as_mut()
            .filter(|episode| !self.rules.is_over(episode));
        let episode = running.ok_or(Error::NoEpisode)?;
        let reward = self.rules.act(episode, action);
        self.rules.draw(episode, observation);
        Ok(Step {
            reward,
            first: false,
            last: self.rules.is_over(episode),
        })
    }

    fn score(&self) -> Option<(&'static str, f64)> {
        Some(self.rules.score(self.episode.as_ref()?))
    }

    /// The fingerprint of rules and settings, and the episode as JSON; sealed.
    fn save(&self) -> Vec<u8> {
        let mut saved = self.fingerprint().begun();
        serde_json::to_writer(&mut saved, &self.episode).expect("an episode can be written");
        sealed(saved)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), Error> {
        let episode = self.fingerprint().opened(saved)?;
        let episode: Option<R::Episode> = serde_json::from_slice(episode).map_err(|_| DAMAGED)?;
        if episode
            .as_ref()
            .is_some_and(|episode| !self.rules.is_sound(episode))
        {
            return Err(DAMAGED);
        }
        self.episode = episode;
        Ok(())
    }
}
