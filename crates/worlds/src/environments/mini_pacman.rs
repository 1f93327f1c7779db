//! Mini-Pacman: eat the food of a maze, level after level, and keep away from the ghosts (Weber et al. 2017,
//! "Imagination-augmented agents", appendix; RMC, section 4.2).
//!
//! The rules are those of the code that an author of that paper published (S. Racanière, `PillEater`), where the text
//! and the code differ; `docs/decisions.md` names two details that differ from both.

mod ghost;
mod maze;

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::ghost::Ghost;
use self::maze::{
    FLOOR, FOOD, FREE, FREE_PLACES, FULL, HEIGHT, WALL, WIDTH, free_place, is_free, neighbour,
};
use super::game::{Game, Rules};
use super::random::Random;
use super::window::{Colour, Place, Window, check_viewport};
use crate::settings::{LONGEST, check};
use crate::{Error, Spec};

const PALETTE: [Colour; 3] = [[0.0; 3], [1.0; 3], [0.0, 0.0, 1.0]];
const PACMAN: Colour = [0.0, 1.0, 0.0];
const PILL: Colour = [0.0, 1.0, 1.0];

const PILLS: usize = 2;
/// Steps in which ghosts can be eaten, from that of the pill on.
const POWER: u8 = 20;
/// Steps of a level in [`PacmanMode::Avoid`].
const AVOID_STEPS: u32 = 128;

const ACTIONS: [&str; 5] = ["stay", "right", "up", "left", "down"];

/// What is rewarded, and what ends a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PacmanMode {
    /// Food 1, pill 2, ghost 5. A level ends when all food is eaten.
    #[default]
    Regular,
    /// Step 0.1, food -0.1, pill -5, ghost -10, death -20. A level ends after 128 steps, or when all food is eaten.
    Avoid,
    /// Pill 1, ghost 10, death -20. A level ends when all ghosts are eaten.
    Hunt,
    /// Food -0.1, ghost 10, death -20. A level ends when all ghosts are eaten.
    Ambush,
    /// Food -0.1, pill 10. A level ends when both pills are eaten.
    Rush,
}

#[derive(Clone, Copy, Debug)]
struct Rewards {
    step: f32,
    food: f32,
    pill: f32,
    ghost: f32,
    death: f32,
}

impl PacmanMode {
    fn rewards(self) -> Rewards {
        let [step, food, pill, ghost, death] = match self {
            PacmanMode::Regular => [0.0, 1.0, 2.0, 5.0, 0.0],
            PacmanMode::Avoid => [0.1, -0.1, -5.0, -10.0, -20.0],
            PacmanMode::Hunt => [0.0, 0.0, 1.0, 10.0, -20.0],
            PacmanMode::Ambush => [0.0, -0.1, 0.0, 10.0, -20.0],
            PacmanMode::Rush => [0.0, -0.1, 10.0, 0.0, 0.0],
        };
        Rewards {
            step,
            food,
            pill,
            ghost,
            death,
        }
    }
}

/// Settings of [`MiniPacman`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MiniPacmanConfig {
    /// What is rewarded, and what ends a level.
    pub mode: PacmanMode,
    /// Side of the square around Pacman that the agent sees, odd; 0 for the whole map.
    pub viewport: usize,
    /// The level that an episode begins with, from 1.
    pub level: usize,
    /// Levels of an episode, at most; 0 if it goes on as long as Pacman lives.
    pub levels: usize,
    /// Most steps of an episode.
    pub length: usize,
}

impl Default for MiniPacmanConfig {
    fn default() -> MiniPacmanConfig {
        MiniPacmanConfig {
            mode: PacmanMode::Regular,
            viewport: 5,
            level: 1,
            levels: 0,
            length: 3000,
        }
    }
}

impl MiniPacmanConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        check_viewport(self.viewport, 2 * WIDTH - 1)?;
        check("environment.level", self.level, 1..=100, || {
            "an episode begins with a level from 1 to 100".to_owned()
        })?;
        check("environment.levels", self.levels, 0..=100, || {
            "an episode has from 1 to 100 levels, or 0 for no end".to_owned()
        })?;
        check("environment.length", self.length, 1..=LONGEST, || {
            format!("an episode has from 1 to {LONGEST} steps")
        })
    }
}

/// Mini-Pacman in a maze of 15 x 19 cells.
///
/// Observations are `[3, height, width]`: Pacman green, ghosts red, the more yellow the longer they can still be
/// eaten, pills cyan, food blue, walls white. Cells outside the map look like walls.
///
/// A step: the power of a pill shrinks; Pacman moves and eats; then each ghost moves with the probability of its speed,
/// half of it while it can be eaten. A ghost that meets Pacman before or after its move kills him and ends the episode,
/// or is eaten. No other ghost moves after one was eaten. Pacman and a ghost that swap places do not meet.
///
/// Level `n` has `1 + (n - 1) / 2` ghosts of speed `0.5 + 0.1 (n - 1)`. A level that ends is replaced at once, within
/// the step. Both pills may be in the same cell; each takes its own step to eat.
///
/// ```
/// use mnemora_worlds::{Environment, MiniPacman, MiniPacmanConfig};
///
/// let mut pacman = MiniPacman::new(MiniPacmanConfig::default())?;
/// let mut observation = vec![0.0; pacman.spec().frame.size()];
/// pacman.reset(7, &mut observation)?;
/// let step = pacman.step(1, &mut observation)?;
/// assert!(step.reward >= 0.0 && pacman.level() == Some(1));
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
pub type MiniPacman = Game<PacmanRules>;

impl MiniPacman {
    /// Mini-Pacman with these settings.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn new(config: MiniPacmanConfig) -> Result<MiniPacman, Error> {
        config.check()?;
        Ok(Game::of(PacmanRules { config }))
    }

    /// The level of the episode, from 1; `None` before the first episode.
    pub fn level(&self) -> Option<usize> {
        Some(self.episode.as_ref()?.level as usize)
    }
}

/// The rules of [`MiniPacman`].
#[derive(Clone, Debug)]
pub struct PacmanRules {
    config: MiniPacmanConfig,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    random: Random,
    steps: u32,
    dead: bool,
    level: u32,
    /// Steps of this level.
    level_steps: u32,
    ground: [[u8; WIDTH]; HEIGHT],
    food: usize,
    pills: Vec<Place>,
    pacman: Place,
    power: u8,
    ghosts: Vec<Ghost>,
}

fn ghosts_of(level: u32) -> usize {
    1 + (level as usize - 1) / 2
}

fn speed_of(level: u32) -> f64 {
    0.5 + 0.1 * f64::from(level - 1)
}

impl Episode {
    fn new(seed: u64, level: u32) -> Episode {
        let mut episode = Episode {
            random: Random::of_episode(seed, "mini-pacman episode"),
            steps: 0,
            dead: false,
            level,
            level_steps: 0,
            ground: FULL,
            food: FREE,
            pills: Vec::with_capacity(PILLS),
            pacman: FREE_PLACES[0],
            power: 0,
            ghosts: Vec::new(),
        };
        episode.begin_level(level);
        episode
    }

    fn begin_level(&mut self, level: u32) {
        let random = &mut self.random;
        self.level = level;
        self.level_steps = 0;
        self.ground = FULL;
        self.food = FREE;
        self.pills.clear();
        self.pills.extend((0..PILLS).map(|_| free_place(random)));
        self.pacman = free_place(random);
        self.power = 0;
        self.ghosts.clear();
        let pacman = self.pacman;
        let ghosts = (0..ghosts_of(level)).map(|_| Ghost::away_from(pacman, random));
        self.ghosts.extend(ghosts);
    }

    fn step(&mut self, action: usize, mode: PacmanMode) -> f32 {
        let rewards = mode.rewards();
        self.steps += 1;
        self.level_steps += 1;
        self.power = self.power.saturating_sub(1);
        let mut reward = rewards.step + self.move_pacman(action, mode, rewards);
        reward += self.move_ghosts(mode, rewards);
        if mode == PacmanMode::Avoid && self.level_steps == AVOID_STEPS && !self.dead {
            self.begin_level(self.level + 1);
        }
        reward
    }

    fn move_pacman(&mut self, action: usize, mode: PacmanMode, rewards: Rewards) -> f32 {
        let mut reward = 0.0;
        if let Some(direction) = action.checked_sub(1) {
            let next = neighbour(self.pacman, direction);
            if is_free(next) {
                self.pacman = next;
            }
        }
        let [row, column] = self.pacman.map(usize::from);
        if self.ground[row][column] == FOOD {
            self.ground[row][column] = FLOOR;
            self.food -= 1;
            reward += rewards.food;
            if self.food == 0 && matches!(mode, PacmanMode::Regular | PacmanMode::Avoid) {
                self.begin_level(self.level + 1);
            }
        }
        let pill = self.pills.iter().position(|pill| *pill == self.pacman);
        if let Some(pill) = pill {
            self.pills.remove(pill);
            self.power = POWER;
            reward += rewards.pill;
            if self.pills.is_empty() && mode == PacmanMode::Rush {
                self.begin_level(self.level + 1);
            }
        }
        reward
    }

    fn move_ghosts(&mut self, mode: PacmanMode, rewards: Rewards) -> f32 {
        let edible = self.power > 0;
        let speed = speed_of(self.level) * if edible { 0.5 } else { 1.0 };
        for number in 0..self.ghosts.len() {
            let ghost = &mut self.ghosts[number];
            let mut meets = ghost.place == self.pacman;
            if !meets && self.random.random::<f64>() < speed {
                ghost.step(self.pacman, edible, &mut self.random);
                meets = ghost.place == self.pacman;
            }
            if meets && !edible {
                self.dead = true;
                return rewards.death;
            }
            if meets {
                self.ghosts.remove(number);
                if self.ghosts.is_empty() && matches!(mode, PacmanMode::Hunt | PacmanMode::Ambush) {
                    self.begin_level(self.level + 1);
                }
                return rewards.ghost;
            }
        }
        0.0
    }
}

impl Rules for PacmanRules {
    type Episode = Episode;
    type Config = MiniPacmanConfig;
    const VERSION: &'static str = "mnemora mini-pacman 1";

    fn config(&self) -> &MiniPacmanConfig {
        &self.config
    }

    fn spec(&self) -> Spec {
        Spec {
            frame: Window::frame(self.config.viewport, [HEIGHT, WIDTH], 3),
            actions: &ACTIONS,
        }
    }

    fn begin(&self, seed: u64) -> Result<Episode, Error> {
        Ok(Episode::new(seed, self.config.level as u32))
    }

    fn act(&self, episode: &mut Episode, action: usize) -> f32 {
        episode.step(action, self.config.mode)
    }

    fn is_over(&self, episode: &Episode) -> bool {
        let MiniPacmanConfig {
            level,
            levels,
            length,
            ..
        } = self.config;
        let through = levels > 0 && episode.level as usize >= level + levels;
        episode.dead || through || episode.steps as usize >= length
    }

    fn draw(&self, episode: &Episode, observation: &mut [f32]) {
        let window = Window::new(self.config.viewport, self.spec().frame, episode.pacman);
        window.paint(&episode.ground, &PALETTE, WALL, observation);
        for pill in &episode.pills {
            window.dot(*pill, PILL, observation);
        }
        let edibility = f32::from(episode.power) / f32::from(POWER);
        for ghost in &episode.ghosts {
            window.dot(ghost.place, [1.0, edibility, 0.0], observation);
        }
        window.dot(episode.pacman, PACMAN, observation);
    }

    fn score(&self, episode: &Episode) -> (&'static str, f64) {
        ("level", f64::from(episode.level))
    }

    fn is_sound(&self, episode: &Episode) -> bool {
        let cells = episode.ground.iter().flatten().zip(FULL.iter().flatten());
        let eaten = |(cell, full): (&u8, &u8)| cell == full || (*cell, *full) == (FLOOR, FOOD);
        let food = episode.ground.iter().flatten();
        episode.level > 0
            && episode.level_steps <= episode.steps
            && episode.steps as usize <= self.config.length
            && cells.into_iter().all(eaten)
            && food.filter(|cell| **cell == FOOD).count() == episode.food
            && episode.power <= POWER
            && episode.pills.len() <= PILLS
            && episode.pills.iter().all(|pill| is_free(*pill))
            && is_free(episode.pacman)
            && episode.ghosts.len() <= ghosts_of(episode.level)
            && episode
                .ghosts
                .iter()
                .all(|ghost| is_free(ghost.place) && ghost.heading < 4)
    }
}

#[cfg(test)]
mod tests;
