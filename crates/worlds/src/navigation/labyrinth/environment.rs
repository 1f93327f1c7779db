//! The labyrinth as an environment: find the goals.
//!
//! Each episode has a map of its own. The agent begins at rest at a random place. A goal that it walks into gives the
//! reward 1 and is gone. The episode is over when no goal is left, or after a number of steps.

use std::f32::consts::TAU;

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::{ACTIONS, Action, Agent, AgentConfig};
use super::map::{Map, MapConfig};
use super::renderer::Renderer;
use super::view::ViewConfig;
use super::walker::Walker;
use crate::environments::sealed::{DAMAGED, Fingerprint, sealed};
use crate::settings::{LONGEST, check};
use crate::{Environment, Error, Spec, Step, Stream};

/// Settings of a [`Labyrinth`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabyrinthConfig {
    /// The maps. Without goals, every reward is 0.
    pub map: MapConfig,
    /// The frames.
    pub view: ViewConfig,
    /// How the agent moves.
    pub agent: AgentConfig,
    /// Most actions of an episode.
    pub length: usize,
}

impl Default for LabyrinthConfig {
    fn default() -> LabyrinthConfig {
        LabyrinthConfig {
            map: MapConfig {
                goals: 2,
                ..MapConfig::default()
            },
            view: ViewConfig::default(),
            agent: AgentConfig::default(),
            length: 900,
        }
    }
}

impl LabyrinthConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        self.map.check()?;
        self.view.check()?;
        self.agent.check()?;
        check("task.length", self.length, 1..=LONGEST, || {
            format!("an episode must have from 1 to {LONGEST} actions")
        })
    }
}

/// A labyrinth to act in.
///
/// ```
/// use mnemora_worlds::labyrinth::{Labyrinth, LabyrinthConfig};
/// use mnemora_worlds::Environment;
///
/// let mut labyrinth = Labyrinth::new(LabyrinthConfig::default())?;
/// let mut observation = vec![0.0; labyrinth.spec().frame.size()];
/// let mut step = labyrinth.reset(7, &mut observation)?;
/// while !step.last {
///     step = labyrinth.step(0, &mut observation)?;
/// }
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Labyrinth {
    config: LabyrinthConfig,
    renderer: Renderer,
    episode: Option<Episode>,
}

#[derive(Clone, Debug, PartialEq)]
struct Episode {
    seed: u64,
    map: Map,
    agent: Agent,
    /// Actions done.
    steps: usize,
}

impl Episode {
    fn new(seed: u64, config: &LabyrinthConfig) -> Episode {
        let mut generator = Stream::new(seed, "labyrinth episode").at(0);
        let map = Map::generate(&config.map, &mut generator);
        let start = Walker::start(&map, &config.agent, &mut generator);
        let agent = Agent::new(start, generator.random_range(0.0..TAU));
        Episode {
            seed,
            map,
            agent,
            steps: 0,
        }
    }

    /// Takes the goals that the agent touches away; their number.
    fn collect(&mut self, radius: f32) -> usize {
        let [x, y] = self.agent.position();
        let mut collected = 0;
        for object in self.map.objects.iter_mut().filter(|object| object.goal) {
            let [away_x, away_y] = [object.place[0] - x, object.place[1] - y];
            if object.present && away_x.hypot(away_y) < radius + object.radius {
                object.present = false;
                collected += 1;
            }
        }
        collected
    }

    fn is_over(&self, config: &LabyrinthConfig) -> bool {
        let mut goals = self
            .map
            .objects
            .iter()
            .filter(|object| object.goal)
            .peekable();
        let found_all = goals.peek().is_some() && goals.all(|goal| !goal.present);
        self.steps >= config.length || found_all
    }
}

impl Labyrinth {
    /// A labyrinth in which no episode has begun.
    ///
    /// # Errors
    /// A value of `config` is out of its range.
    pub fn new(config: LabyrinthConfig) -> Result<Labyrinth, Error> {
        config.check()?;
        let renderer = Renderer::prepared(&config.view);
        Ok(Labyrinth {
            config,
            renderer,
            episode: None,
        })
    }

    /// The map of the episode and the agent in it; `None` before the first episode.
    pub fn scene(&self) -> Option<(&Map, &Agent)> {
        let episode = self.episode.as_ref()?;
        Some((&episode.map, &episode.agent))
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(VERSION, &self.config)
    }

    fn check_observation(&self, observation: &[f32]) -> Result<(), Error> {
        let wanted = self.spec().frame.size();
        if observation.len() != wanted {
            let found = observation.len();
            return Err(Error::ObservationSize { found, wanted });
        }
        Ok(())
    }
}

/// Names the layout of saved states and the way that maps are generated.
const VERSION: &str = "mnemora labyrinth 2";

impl Environment for Labyrinth {
    fn spec(&self) -> Spec {
        Spec {
            frame: self.renderer.frame(),
            actions: &ACTIONS,
        }
    }

    fn reset(&mut self, seed: u64, observation: &mut [f32]) -> Result<Step, Error> {
        self.check_observation(observation)?;
        let mut episode = Episode::new(seed, &self.config);
        // A goal that the agent begins on is not worth a reward.
        episode.collect(self.config.agent.radius);
        self.renderer
            .render(&episode.map, episode.agent.place, observation)?;
        let last = episode.is_over(&self.config);
        self.episode = Some(episode);
        Ok(Step {
            reward: 0.0,
            first: true,
            last,
        })
    }

    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<Step, Error> {
        self.check_observation(observation)?;
        let count = Action::ALL.len();
        let action = *Action::ALL
            .get(action)
            .ok_or(Error::NoAction { action, count })?;
        let running = self
            .episode
            .as_mut()
            .filter(|episode| !episode.is_over(&self.config));
        let episode = running.ok_or(Error::NoEpisode)?;
        episode.agent.step(action, &self.config.agent, &episode.map);
        episode.steps += 1;
        let reward = episode.collect(self.config.agent.radius) as f32;
        self.renderer
            .render(&episode.map, episode.agent.place, observation)?;
        Ok(Step {
            reward,
            first: false,
            last: episode.is_over(&self.config),
        })
    }

    /// The number of goals found.
    fn score(&self) -> Option<(&'static str, f64)> {
        let objects = &self.episode.as_ref()?.map.objects;
        let found = objects
            .iter()
            .filter(|object| object.goal && !object.present);
        Some(("goals", found.count() as f64))
    }

    /// The fingerprint of the settings; then, within an episode, seed, steps, place, velocity, and for each object one
    /// byte that says whether it is present; all numbers in little-endian order; sealed.
    fn save(&self) -> Vec<u8> {
        let mut saved = self.fingerprint().begun();
        if let Some(episode) = &self.episode {
            saved.extend(episode.seed.to_le_bytes());
            saved.extend((episode.steps as u64).to_le_bytes());
            for value in [episode.agent.place, episode.agent.velocity].concat() {
                saved.extend(value.to_le_bytes());
            }
            saved.extend(
                episode
                    .map
                    .objects
                    .iter()
                    .map(|object| u8::from(object.present)),
            );
        }
        sealed(saved)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), Error> {
        let mut rest = self.fingerprint().opened(saved)?;
        if rest.is_empty() {
            self.episode = None;
            return Ok(());
        }
        let mut episode = Episode::new(u64::from_le_bytes(next(&mut rest)?), &self.config);
        let steps = u64::from_le_bytes(next(&mut rest)?);
        episode.steps = usize::try_from(steps).unwrap_or(usize::MAX);
        for values in [&mut episode.agent.place, &mut episode.agent.velocity] {
            for value in values {
                *value = f32::from_le_bytes(next(&mut rest)?);
            }
        }
        for object in &mut episode.map.objects {
            object.present = next::<1>(&mut rest)? == [1];
        }
        let agent = &episode.agent;
        let numbers = [agent.place, agent.velocity].concat();
        let inside = |value: f32, cells: usize| (0.0..cells as f32).contains(&value);
        let sound = rest.is_empty()
            && steps <= self.config.length as u64
            && numbers.iter().all(|value| value.is_finite())
            && inside(agent.place[0], episode.map.width())
            && inside(agent.place[1], episode.map.height())
            && !episode.map.is_wall(episode.map.index(agent.position()));
        if !sound {
            return Err(DAMAGED);
        }
        self.episode = Some(episode);
        Ok(())
    }
}

/// The next bytes of a saved state.
fn next<const COUNT: usize>(rest: &mut &[u8]) -> Result<[u8; COUNT], Error> {
    let (bytes, after) = rest.split_first_chunk().ok_or(DAMAGED)?;
    *rest = after;
    Ok(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labyrinth(goals: usize, length: usize) -> Labyrinth {
        let config = LabyrinthConfig {
            map: MapConfig {
                goals,
                ..MapConfig::default()
            },
            length,
            ..LabyrinthConfig::default()
        };
        Labyrinth::new(config).expect("in range")
    }

    fn frame(labyrinth: &Labyrinth) -> Vec<f32> {
        vec![f32::NAN; labyrinth.spec().frame.size()]
    }

    /// The steps and observations of these actions, up to the end of the episode.
    fn act(labyrinth: &mut Labyrinth, actions: &[usize]) -> Vec<(Step, Vec<f32>)> {
        let mut seen = Vec::new();
        for &action in actions {
            let mut observation = frame(labyrinth);
            let step = labyrinth
                .step(action, &mut observation)
                .expect("the episode runs");
            seen.push((step, observation));
            if step.last {
                break;
            }
        }
        seen
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_restored_state_goes_on_as_the_original(
            seed: u64,
            before in prop::collection::vec(0usize..8, 0..120),
            after in prop::collection::vec(0usize..8, 1..60),
        ) {
            let mut original = labyrinth(6, 1000);
            let mut observation = frame(&original);
            let first = original.reset(seed, &mut observation).expect("a buffer of the right size");
            let last = act(&mut original, &before).last().map_or(first.last, |(step, _)| step.last);
            let saved = original.save();
            let mut restored = labyrinth(6, 1000);
            restored.restore(&saved).expect("was just saved");
            prop_assert_eq!(&restored.episode, &original.episode);
            prop_assert_eq!(restored.save(), saved);
            if last {
                let error = restored.step(0, &mut observation).expect_err("over");
                prop_assert!(matches!(error, Error::NoEpisode));
            } else {
                prop_assert_eq!(act(&mut original, &after), act(&mut restored, &after));
            }
        }

        #[test]
        fn other_numbers_are_refused_or_are_sound(seed: u64, place in 0usize..100, value: u8) {
            let mut original = labyrinth(2, 50);
            let mut observation = frame(&original);
            original.reset(seed, &mut observation).expect("a buffer of the right size");
            let saved = original.save();
            let mut changed = saved[..saved.len() - 4].to_vec();
            let position = place % changed.len();
            changed[position] = value;
            let changed = sealed(changed);
            let mut restored = labyrinth(2, 50);
            if restored.restore(&changed).is_ok() {
                // Another state, but one to act in or one that is over.
                let step = restored.step(0, &mut observation);
                prop_assert!(matches!(step, Ok(_) | Err(Error::NoEpisode)));
            }
        }
    }

    #[test]
    fn goals_give_one_reward_each_and_end_the_episode() {
        let mut labyrinth = labyrinth(2, 100);
        let mut observation = frame(&labyrinth);
        let step = (0..).find_map(|seed| {
            let step = labyrinth
                .reset(seed, &mut observation)
                .expect("a buffer of the right size");
            let (map, _) = labyrinth.scene().expect("has begun");
            let present = map
                .objects
                .iter()
                .filter(|object| object.goal && object.present);
            (present.count() == 2).then_some(step)
        });
        let step = step.expect("some seed begins away from both goals");
        assert_eq!(
            step,
            Step {
                reward: 0.0,
                first: true,
                last: false
            }
        );
        for (number, last) in [false, true].into_iter().enumerate() {
            let episode = labyrinth.episode.as_mut().expect("has begun");
            let goals: Vec<[f32; 2]> = episode
                .map
                .objects
                .iter()
                .filter(|object| object.goal)
                .map(|object| object.place)
                .collect();
            // Beside the goal, one step away.
            episode.agent = Agent::new(goals[number], 0.0);
            let step = labyrinth
                .step(4, &mut observation)
                .expect("the episode runs");
            assert_eq!(
                step,
                Step {
                    reward: 1.0,
                    first: false,
                    last
                }
            );
            assert_eq!(labyrinth.score(), Some(("goals", number as f64 + 1.0)));
        }
        let error = labyrinth.step(4, &mut observation).expect_err("over");
        assert_eq!(
            error.to_string(),
            "no episode is running: call reset before the next step"
        );
    }

    #[test]
    fn an_episode_ends_after_its_length() {
        let mut labyrinth = labyrinth(0, 30);
        let mut observation = frame(&labyrinth);
        labyrinth
            .reset(1, &mut observation)
            .expect("a buffer of the right size");
        let seen = act(&mut labyrinth, &[5; 100]);
        assert_eq!(seen.len(), 30);
        assert!(
            seen.iter()
                .all(|(step, _)| step.reward == 0.0 && !step.first)
        );
        // It turned: what it sees changed.
        assert_ne!(seen[0].1, seen[9].1);
    }

    #[test]
    fn wrong_use_is_refused() {
        let mut labyrinth = labyrinth(1, 10);
        let mut observation = frame(&labyrinth);
        let message = |result: Result<Step, Error>| result.expect_err("wrong use").to_string();
        assert_eq!(
            message(labyrinth.step(0, &mut observation)),
            "no episode is running: call reset before the next step"
        );
        assert_eq!(
            message(labyrinth.reset(0, &mut observation[1..])),
            "the buffer has 3071 values, but an observation has 3072"
        );
        labyrinth
            .reset(0, &mut observation)
            .expect("a buffer of the right size");
        assert_eq!(
            message(labyrinth.step(8, &mut observation)),
            "action 8 does not exist: the environment has 8 actions, numbered from 0"
        );
        let saved = labyrinth.save();
        let mut other = Labyrinth::new(LabyrinthConfig::default()).expect("in range");
        assert_eq!(
            other
                .restore(&saved)
                .expect_err("other settings")
                .to_string(),
            "not a saved state of this environment: its settings, or the version of the program, are others"
        );
        assert_eq!(
            labyrinth
                .restore(&saved[..20])
                .expect_err("cut off")
                .to_string(),
            "not a saved state of this environment: it is damaged"
        );
    }

    #[test]
    fn unknown_settings_are_refused() {
        let parsed = |text: &str| serde_json::from_str::<LabyrinthConfig>(text);
        assert_eq!(
            parsed("{}").expect("all defaults"),
            LabyrinthConfig::default()
        );
        assert_eq!(
            parsed(r#"{"view":{"width":64}}"#)
                .expect("known")
                .view
                .width,
            64
        );
        assert!(parsed(r#"{"view":{"breadth":64}}"#).is_err());
        assert!(parsed(r#"{"steps":64}"#).is_err());
    }
}
