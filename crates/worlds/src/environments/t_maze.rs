//! The T-maze: remember a sign from the beginning of a corridor to its end (Bakker 2001).

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::game::{Game, Rules};
use super::random::Random;
use crate::settings::{LONGEST, check, check_fraction};
use crate::{Error, FrameShape, Spec};

const ACTIONS: [&str; 3] = ["forward", "left", "right"];
const FORWARD: usize = 0;
const RIGHT: usize = 2;

/// Settings of [`TMaze`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TMazeConfig {
    /// Steps from the start to the junction, at most.
    pub corridor: usize,
    /// Steps from the start to the junction, at least; 0 for always as many as `corridor`.
    pub corridor_least: usize,
    /// What a step in the corridor costs that does not lead forward.
    pub penalty: f32,
    /// Most steps of an episode.
    pub length: usize,
}

impl Default for TMazeConfig {
    fn default() -> TMazeConfig {
        TMazeConfig {
            corridor: 10,
            corridor_least: 0,
            penalty: 0.0,
            length: 100,
        }
    }
}

impl TMazeConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        check("environment.length", self.length, 2..=LONGEST, || {
            format!("an episode has from 2 to {LONGEST} steps")
        })?;
        let longest = self.length - 1;
        check("environment.corridor", self.corridor, 1..=longest, || {
            format!("the corridor must have from 1 to environment.length - 1 = {longest} steps")
        })?;
        let most = self.corridor;
        check(
            "environment.corridor_least",
            self.corridor_least,
            0..=most,
            || format!("it must be from 0 to environment.corridor = {most}"),
        )?;
        check_fraction(
            "environment.penalty",
            self.penalty,
            0.0..=1.0,
            "a penalty must be from 0 to 1",
        )
    }
}

/// A T-maze with two cues.
///
/// Observations are `[4, 1, 1]`, one-hot: cue left, cue right, corridor, junction. The first observation of an episode
/// shows the cue and nothing else; no later one does. All cells of the corridor look alike.
///
/// Going forward leads along the corridor to the junction and does nothing there. Going left or right does nothing in
/// the corridor, except that it costs `penalty` (as in the mazes of Ni et al. 2023, where it shortens the search). At the
/// junction it ends the episode, with reward 1 if it is the side of the cue, otherwise -1.
///
/// An agent without memory decides alike at every junction, and the cue is left or right with probability 1/2. So it is right
/// half of the time at best. To see its last action and reward does not help it: who comes to the junction went forward, for
/// nothing, and what is decided later ends the episode.
///
/// ```
/// use mnemora_worlds::{Environment, TMaze, TMazeConfig};
///
/// let mut maze = TMaze::new(TMazeConfig { corridor: 3, ..TMazeConfig::default() })?;
/// let mut observation = vec![0.0; maze.spec().frame.size()];
/// maze.reset(7, &mut observation)?;
/// let side = if observation[0] == 1.0 { 1 } else { 2 };
/// for _ in 0..3 {
///     maze.step(0, &mut observation)?;
/// }
/// assert_eq!(maze.step(side, &mut observation)?.reward, 1.0);
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
pub type TMaze = Game<TMazeRules>;

impl TMaze {
    /// A T-maze with these settings.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn new(config: TMazeConfig) -> Result<TMaze, Error> {
        config.check()?;
        Ok(Game::of(TMazeRules { config }))
    }
}

/// The rules of [`TMaze`].
#[derive(Clone, Debug)]
pub struct TMazeRules {
    config: TMazeConfig,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    /// Whether the reward is at the right.
    cue_right: bool,
    /// Steps from the start to the junction.
    corridor: usize,
    /// Steps walked along the corridor.
    place: usize,
    steps: usize,
    /// Whether the decision was right.
    decided: Option<bool>,
}

impl Rules for TMazeRules {
    type Episode = Episode;
    type Config = TMazeConfig;
    const VERSION: &'static str = "mnemora t-maze 1";

    fn config(&self) -> &TMazeConfig {
        &self.config
    }

    fn spec(&self) -> Spec {
        Spec {
            frame: FrameShape {
                channels: 4,
                height: 1,
                width: 1,
            },
            actions: &ACTIONS,
        }
    }

    fn begin(&self, seed: u64) -> Result<Episode, Error> {
        let mut random = Random::of_episode(seed, "t-maze episode");
        let cue_right = random.random();
        let most = self.config.corridor;
        Ok(Episode {
            cue_right,
            corridor: match self.config.corridor_least {
                0 => most,
                least => random.random_range(least..=most),
            },
            place: 0,
            steps: 0,
            decided: None,
        })
    }

    fn act(&self, episode: &mut Episode, action: usize) -> f32 {
        episode.steps += 1;
        let at_junction = episode.place == episode.corridor;
        match (action, at_junction) {
            (FORWARD, false) => episode.place += 1,
            (FORWARD, true) => (),
            (_, false) => return -self.config.penalty,
            (side, true) => {
                let right = (side == RIGHT) == episode.cue_right;
                episode.decided = Some(right);
                return if right { 1.0 } else { -1.0 };
            }
        }
        0.0
    }

    fn is_over(&self, episode: &Episode) -> bool {
        episode.decided.is_some() || episode.steps >= self.config.length
    }

    fn draw(&self, episode: &Episode, observation: &mut [f32]) {
        observation.fill(0.0);
        let shown = if episode.steps == 0 {
            usize::from(episode.cue_right)
        } else if episode.place < episode.corridor {
            2
        } else {
            3
        };
        observation[shown] = 1.0;
    }

    fn score(&self, episode: &Episode) -> (&'static str, f64) {
        ("right", f64::from(episode.decided == Some(true)))
    }

    fn is_sound(&self, episode: &Episode) -> bool {
        episode.place <= episode.corridor
            && (1..=self.config.corridor).contains(&episode.corridor)
            && episode.place <= episode.steps
            && episode.steps <= self.config.length
            && (episode.decided.is_none() || episode.place == episode.corridor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use proptest::prelude::*;

    fn maze(corridor: usize, length: usize) -> TMaze {
        let config = TMazeConfig {
            corridor,
            length,
            ..TMazeConfig::default()
        };
        TMaze::new(config).expect("in range")
    }

    /// Seeds of both cues.
    fn both() -> [u64; 2] {
        let mut maze = maze(1, 2);
        let mut seen = [0.0; 4];
        [0, 1].map(|cue| {
            let seed = (0..).find(|seed| {
                maze.reset(*seed, &mut seen).expect("a buffer of four");
                seen[cue] == 1.0
            });
            seed.expect("both cues occur")
        })
    }

    proptest! {
        #[test]
        fn nothing_but_the_first_observation_depends_on_the_cue(
            corridor in 1usize..8,
            actions in prop::collection::vec(0usize..3, 1..30),
        ) {
            let mut mazes = [maze(corridor, 40), maze(corridor, 40)];
            let mut seen = [[0.0; 4]; 2];
            for ((maze, seed), seen) in mazes.iter_mut().zip(both()).zip(&mut seen) {
                maze.reset(seed, seen).expect("a buffer of four");
            }
            prop_assert_eq!(seen, [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]);
            let mut place = 0;
            for action in actions {
                let at_junction = place == corridor;
                let steps = [0, 1].map(|cue| mazes[cue].step(action, &mut seen[cue]).expect("runs"));
                prop_assert_eq!(seen[0], seen[1]);
                place += usize::from(action == FORWARD && !at_junction);
                let expected = if place == corridor { [0.0, 0.0, 0.0, 1.0] } else { [0.0, 0.0, 1.0, 0.0] };
                prop_assert_eq!(seen[0], expected);
                let decision = at_junction && action != FORWARD;
                let reward = match (decision, action) {
                    (false, _) => [0.0, 0.0],
                    (true, RIGHT) => [-1.0, 1.0],
                    (true, _) => [1.0, -1.0],
                };
                prop_assert_eq!(steps.map(|step| step.reward), reward);
                prop_assert_eq!(steps.map(|step| step.last), [decision; 2]);
                if decision {
                    break;
                }
            }
        }
    }

    /// Also of what it did last, and what that was worth.
    #[test]
    fn the_junction_looks_alike_for_both_cues() {
        let mut arrived = 0;
        // All policies of a cue and of what is in sight in the corridor after going forward, left or right.
        for policy in 0..3usize.pow(5) {
            let choice = |place: u32| policy / 3usize.pow(place) % 3;
            let before = both().map(|seed| {
                let config = TMazeConfig {
                    corridor: 3,
                    length: 20,
                    penalty: 0.25,
                    ..TMazeConfig::default()
                };
                let mut maze = TMaze::new(config).expect("in range");
                let mut seen = [0.0; 4];
                maze.reset(seed, &mut seen).expect("a buffer of four");
                let mut action = choice(u32::from(seen[1] == 1.0));
                loop {
                    let step = maze.step(action, &mut seen).expect("runs");
                    if seen[3] == 1.0 || step.last {
                        return (seen[3] == 1.0).then_some((action, step.reward));
                    }
                    action = choice(2 + action as u32);
                }
            });
            for seen in before.into_iter().flatten() {
                assert_eq!(seen, (FORWARD, 0.0));
                arrived += 1;
            }
        }
        assert!(arrived > 0, "no policy comes to the junction");
    }

    #[test]
    fn no_agent_without_memory_is_right_for_both_cues() {
        let mut best = 0;
        for policy in 0..81 {
            let action_at = |seen: &[f32]| {
                let shown = seen
                    .iter()
                    .position(|value| *value == 1.0)
                    .expect("one-hot");
                policy / 3usize.pow(shown as u32) % 3
            };
            let right = both().map(|seed| {
                let mut maze = maze(3, 20);
                let mut seen = [0.0; 4];
                let mut step = maze.reset(seed, &mut seen).expect("a buffer of four");
                while !step.last {
                    step = maze.step(action_at(&seen), &mut seen).expect("runs");
                }
                maze.score().expect("has begun").1 as usize
            });
            best = best.max(right[0] + right[1]);
        }
        assert_eq!(best, 1);
    }

    #[test]
    fn an_undecided_episode_ends_without_reward() {
        let mut maze = maze(2, 5);
        let mut seen = [0.0; 4];
        maze.reset(3, &mut seen).expect("a buffer of four");
        for number in 1..=5 {
            let step = maze.step(FORWARD, &mut seen).expect("runs");
            assert_eq!((step.reward, step.last), (0.0, number == 5));
        }
        assert_eq!(maze.score(), Some(("right", 0.0)));
        assert!(matches!(maze.step(1, &mut seen), Err(Error::NoEpisode)));
    }

    #[test]
    fn corridors_have_all_lengths_and_standing_still_costs() {
        let config = TMazeConfig {
            corridor: 4,
            corridor_least: 2,
            penalty: 0.25,
            length: 20,
        };
        let mut maze = TMaze::new(config).expect("in range");
        let mut seen = [0.0; 4];
        let mut lengths = [0; 5];
        for seed in 0..200 {
            maze.reset(seed, &mut seen).expect("a buffer of four");
            let still = maze.step(RIGHT, &mut seen).expect("runs");
            assert_eq!((still.reward, still.last), (-0.25, false));
            let mut length = 0;
            while seen[3] == 0.0 {
                assert_eq!(maze.step(FORWARD, &mut seen).expect("runs").reward, 0.0);
                length += 1;
            }
            lengths[length] += 1;
        }
        assert_eq!(lengths[..2], [0, 0]);
        assert!(lengths[2..].iter().all(|count| *count > 40), "{lengths:?}");
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let message = |corridor, length| {
            let config = TMazeConfig {
                corridor,
                length,
                ..TMazeConfig::default()
            };
            TMaze::new(config).expect_err("out of range").to_string()
        };
        assert_eq!(
            message(5, 5),
            "environment.corridor = 5: the corridor must have from 1 to environment.length - 1 = 4 steps"
        );
        assert_eq!(
            message(1, 1),
            "environment.length = 1: an episode has from 2 to 100000 steps"
        );
    }
}
