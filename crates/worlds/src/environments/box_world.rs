//! BoxWorld: open boxes in the right order to reach the gem (Zambaldi et al. 2018; RMC, section 4.2 and A.3).
//!
//! Levels and rules are those of the code that the authors published (pycolab, `box_world.py`).

use rand::RngExt;
use rand::seq::SliceRandom;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::game::{Game, Rules};
use super::random::Random;
use super::window::{Colour, Place, Window, check_viewport};
use crate::settings::{LONGEST, check};
use crate::{Error, Spec};

/// Side of the grid without its border.
const GRID: usize = 12;
const SIDE: usize = GRID + 2;
const COLOURS: usize = 20;

// Codes of cells. A key, a lock on the path and the lock of a distractor have one code per colour.
const BACKGROUND: u8 = 0;
const BORDER: u8 = 1;
const GEM: u8 = 2;
const KEYS: u8 = 3;
const LOCKS: u8 = KEYS + COLOURS as u8;
const DISTRACTORS: u8 = LOCKS + COLOURS as u8;
const CODES: u8 = DISTRACTORS + COLOURS as u8;

const AGENT: Colour = [0.5; 3];

const ACTIONS: [&str; 4] = ["up", "down", "left", "right"];
const MOVES: [[i8; 2]; 4] = [[-1, 0], [1, 0], [0, -1], [0, 1]];

/// Failed placements after which a level is restarted, and levels after which the next have the least numbers of locks and
/// distractors, or if they have them, the generator gives up.
const TRIES: usize = 200;

/// The most that the least numbers of locks and distractors may be together: such a level fits after a few restarts.
const CROWDED: usize = 13;

/// Settings of [`BoxWorld`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BoxWorldConfig {
    /// Least number of locks on the path to the gem.
    pub solution_least: usize,
    /// Largest number of locks on the path to the gem. The number is uniform between the two, but if the boxes of a level do
    /// not fit into the grid, its numbers of locks and distractors are drawn again: large ones are rarer. After 200 levels that
    /// do not fit, the numbers are the least.
    pub solution_most: usize,
    /// Least number of distractors.
    pub distractors_least: usize,
    /// Largest number of distractors. As for locks, the number is uniform between the two where the boxes fit.
    pub distractors_most: usize,
    /// Side of the square around the agent that it sees, odd; 0 for the whole map of 14 x 14.
    pub viewport: usize,
    /// Whether three more planes are filled with the colour of the held key.
    pub key_planes: bool,
    /// Most steps of an episode.
    pub length: usize,
}

impl Default for BoxWorldConfig {
    fn default() -> BoxWorldConfig {
        BoxWorldConfig {
            solution_least: 1,
            solution_most: 5,
            distractors_least: 0,
            distractors_most: 5,
            viewport: 5,
            key_planes: true,
            length: 120,
        }
    }
}

impl BoxWorldConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        // The keys of distractors need a colour that no lock has.
        let most = COLOURS - 2;
        check(
            "environment.solution_most",
            self.solution_most,
            1..=most,
            || format!("the path must have from 1 to {most} locks"),
        )?;
        let most = self.solution_most;
        check(
            "environment.solution_least",
            self.solution_least,
            1..=most,
            || format!("it must be from 1 to environment.solution_most = {most}"),
        )?;
        check(
            "environment.distractors_most",
            self.distractors_most,
            0..=COLOURS,
            || format!("a level has at most {COLOURS} distractors"),
        )?;
        let most = self.distractors_most;
        check(
            "environment.distractors_least",
            self.distractors_least,
            0..=most,
            || format!("it must be from 0 to environment.distractors_most = {most}"),
        )?;
        let most = CROWDED.saturating_sub(self.distractors_least);
        check(
            "environment.solution_least",
            self.solution_least,
            1..=most,
            || {
                let distractors = self.distractors_least;
                format!(
                    "with environment.distractors_least = {distractors} these are more than {CROWDED} locks and \
                     distractors, which hardly ever fit into the grid"
                )
            },
        )?;
        check_viewport(self.viewport, 2 * SIDE - 1)?;
        check("environment.length", self.length, 1..=LONGEST, || {
            format!("an episode has from 1 to {LONGEST} steps")
        })
    }
}

/// BoxWorld on a grid of 12 x 12 cells within a border.
///
/// A box is a lock with its content at its left: a key or the gem. A lock opens to the key of its colour and uses it
/// up. The agent holds one key; a key that it picks up replaces the one it holds. A loose key begins the path of K
/// boxes to the gem. A distractor is a box with a lock of a colour of the path; its key opens nothing, so that the
/// agent that opens it has lost the key it needs.
///
/// Opening a lock of the path is worth 1, opening a distractor -1 and ends the episode, the gem is worth 10 and ends
/// it. So a solved level is worth K + 10.
///
/// Observations are `[6, side, side]`: red, green and blue of the cells around the agent, and of the held key. Or
/// `[3, side, side]` without `key_planes`. The held key is also drawn in the upper left corner of the border. Cells
/// outside the map look like the border.
///
/// ```
/// use mnemora_worlds::{BoxWorld, BoxWorldConfig, Environment};
///
/// let mut world = BoxWorld::new(BoxWorldConfig::default())?;
/// let mut observation = vec![0.0; world.spec().frame.size()];
/// let mut step = world.reset(7, &mut observation)?;
/// while !step.last {
///     step = world.step(3, &mut observation)?;
/// }
/// assert_eq!(world.solved(), Some(false));
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
pub type BoxWorld = Game<BoxWorldRules>;

impl BoxWorld {
    /// BoxWorld with these settings.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn new(config: BoxWorldConfig) -> Result<BoxWorld, Error> {
        config.check()?;
        Ok(Game::of(BoxWorldRules {
            config,
            palette: palette(),
        }))
    }

    /// Whether the agent has the gem; `None` before the first episode.
    pub fn solved(&self) -> Option<bool> {
        Some(self.episode.as_ref()?.end == Some(End::Gem))
    }
}

/// The rules of [`BoxWorld`].
#[derive(Clone, Debug)]
pub struct BoxWorldRules {
    config: BoxWorldConfig,
    /// The colour of each code.
    palette: Vec<Colour>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum End {
    Gem,
    Distractor,
}

/// A box, as codes of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chest {
    /// `None` for a loose key.
    lock: Option<u8>,
    content: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    cells: [[u8; SIDE]; SIDE],
    agent: Place,
    /// The colour of the held key.
    held: Option<u8>,
    steps: u32,
    end: Option<End>,
}

/// Twenty hues, equally spaced, between 0.35 and 0.7.
fn hue(number: usize) -> Colour {
    let sector = number as f32 * 6.0 / COLOURS as f32;
    [0.0, 4.0, 2.0].map(|shift| {
        let distance = ((sector + shift) % 6.0 - 3.0).abs() - 1.0;
        0.35 + 0.35 * distance.clamp(0.0, 1.0)
    })
}

fn palette() -> Vec<Colour> {
    let mut palette = vec![[0.8; 3], [0.0; 3], [1.0; 3]];
    palette.extend((0..3 * COLOURS).map(|code| hue(code % COLOURS)));
    palette
}

/// An empty grid within its border.
const EMPTY: [[u8; SIDE]; SIDE] = {
    let mut cells = [[BORDER; SIDE]; SIDE];
    let mut cell = 0;
    while cell < GRID * GRID {
        cells[1 + cell / GRID][1 + cell % GRID] = BACKGROUND;
        cell += 1;
    }
    cells
};

/// What a level consists of. Colours are numbered in the random order of `colours`.
struct Problem {
    solution: usize,
    distractors: usize,
    colours: [u8; COLOURS],
}

impl Problem {
    fn draw(config: &BoxWorldConfig, random: &mut Random) -> Problem {
        let mut between =
            |least: usize, most: usize| random.random_range(least as u32..=most as u32) as usize;
        let solution = between(config.solution_least, config.solution_most);
        let distractors = between(config.distractors_least, config.distractors_most);
        let mut colours = std::array::from_fn(|colour| colour as u8);
        colours.shuffle(random);
        Problem {
            solution,
            distractors,
            colours,
        }
    }

    /// Box `number` of the path: 0 is a loose key; the others have lock `number - 1`, and key `number` or the gem.
    fn on_path(&self, number: usize) -> Chest {
        Chest {
            lock: number.checked_sub(1).map(|lock| LOCKS + self.colours[lock]),
            content: match number {
                last if last == self.solution => GEM,
                _ => KEYS + self.colours[number],
            },
        }
    }

    /// A random lock of the path, and a key that no lock has. As in the original, the last colour is never used.
    fn distractor(&self, random: &mut Random) -> Chest {
        let mut between = |start: usize, end: usize| {
            self.colours[random.random_range(start as u32..end as u32) as usize]
        };
        Chest {
            lock: Some(DISTRACTORS + between(0, self.solution)),
            content: KEYS + between(self.solution, COLOURS - 1),
        }
    }
}

impl Episode {
    /// A level, or `None` if more than 200 placements failed.
    fn generate(config: &BoxWorldConfig, random: &mut Random) -> Option<Episode> {
        let problem = Problem::draw(config, random);
        let mut cells = EMPTY;
        let mut tries = TRIES;
        for number in 0..=problem.solution {
            place(problem.on_path(number), &mut cells, &mut tries, random)?;
        }
        for _ in 0..problem.distractors {
            place(problem.distractor(random), &mut cells, &mut tries, random)?;
        }
        let agent = loop {
            let agent = [
                random.random_range(2..GRID as u8),
                random.random_range(1..GRID as u8),
            ];
            if cell(&cells, agent) == BACKGROUND {
                break agent;
            }
            tries = tries.checked_sub(1)?;
        };
        Some(Episode {
            cells,
            agent,
            held: None,
            steps: 0,
            end: None,
        })
    }

    fn step(&mut self, action: usize) -> f32 {
        self.steps += 1;
        let [rows, columns] = MOVES[action];
        let next = [
            self.agent[0].wrapping_add_signed(rows),
            self.agent[1].wrapping_add_signed(columns),
        ];
        let code = cell(&self.cells, next);
        let mut reward = 0.0;
        match code {
            BACKGROUND => (),
            BORDER => return 0.0,
            GEM | KEYS..LOCKS => {
                if cell(&self.cells, [next[0], next[1] + 1]) >= LOCKS {
                    return 0.0;
                }
                if code == GEM {
                    self.end = Some(End::Gem);
                    reward = 10.0;
                } else {
                    self.held = Some(code - KEYS);
                }
            }
            _ => {
                if self.held != Some((code - LOCKS) % COLOURS as u8) {
                    return 0.0;
                }
                self.held = None;
                reward = 1.0;
                if code >= DISTRACTORS {
                    self.end = Some(End::Distractor);
                    reward = -1.0;
                }
            }
        }
        self.cells[usize::from(next[0])][usize::from(next[1])] = BACKGROUND;
        self.agent = next;
        reward
    }
}

fn cell(cells: &[[u8; SIDE]; SIDE], [row, column]: Place) -> u8 {
    cells[usize::from(row)][usize::from(column)]
}

/// Places a box where it touches neither another box nor the border at its left. `None` after too many tries.
fn place(
    chest: Chest,
    cells: &mut [[u8; SIDE]; SIDE],
    tries: &mut usize,
    random: &mut Random,
) -> Option<()> {
    loop {
        let column = random.random_range(1..=GRID - 3);
        let row = random.random_range(2..=GRID - 1);
        let around = &cells[row - 1..=row + 1];
        let blocks = around.iter().map(|cells| &cells[column - 1..=column + 2]);
        if blocks.flatten().all(|cell| *cell == BACKGROUND) {
            cells[row][column] = chest.content;
            if let Some(lock) = chest.lock {
                cells[row][column + 1] = lock;
            }
            return Some(());
        }
        *tries = tries.checked_sub(1)?;
    }
}

impl Rules for BoxWorldRules {
    type Episode = Episode;
    type Config = BoxWorldConfig;
    const VERSION: &'static str = "mnemora box-world 1";

    fn config(&self) -> &BoxWorldConfig {
        &self.config
    }

    fn spec(&self) -> Spec {
        let channels = if self.config.key_planes { 6 } else { 3 };
        Spec {
            frame: Window::frame(self.config.viewport, [SIDE; 2], channels),
            actions: &ACTIONS,
        }
    }

    fn begin(&self, seed: u64) -> Result<Episode, Error> {
        let mut random = Random::of_episode(seed, "box-world episode");
        let least = BoxWorldConfig {
            solution_most: self.config.solution_least,
            distractors_most: self.config.distractors_least,
            ..self.config.clone()
        };
        [&self.config, &least]
            .into_iter()
            .flat_map(|config| std::iter::repeat_n(config, TRIES))
            .find_map(|config| Episode::generate(config, &mut random))
            .ok_or_else(|| Error::NoLevel {
                seed,
                problem: format!(
                    "no level fits: {TRIES} in a row had more boxes than the grid of {GRID} x {GRID} holds; it needs \
                     fewer locks or distractors"
                ),
            })
    }

    fn act(&self, episode: &mut Episode, action: usize) -> f32 {
        episode.step(action)
    }

    fn is_over(&self, episode: &Episode) -> bool {
        episode.end.is_some() || episode.steps as usize >= self.config.length
    }

    fn draw(&self, episode: &Episode, observation: &mut [f32]) {
        let frame = self.spec().frame;
        let window = Window::new(self.config.viewport, frame, episode.agent);
        let size = frame.height * frame.width;
        let (view, planes) = observation.split_at_mut(3 * size);
        window.paint(&episode.cells, &self.palette, BORDER, view);
        window.dot(episode.agent, AGENT, view);
        let held = episode.held.map(|key| usize::from(KEYS + key));
        let colour = self.palette[held.unwrap_or(usize::from(BORDER))];
        window.dot([0, 0], colour, view);
        for (plane, value) in planes.chunks_exact_mut(size).zip(colour) {
            plane.fill(value);
        }
    }

    fn score(&self, episode: &Episode) -> (&'static str, f64) {
        ("solved", f64::from(episode.end == Some(End::Gem)))
    }

    fn is_sound(&self, episode: &Episode) -> bool {
        let cells = episode.cells.iter().flatten().zip(EMPTY.iter().flatten());
        let mut border = cells.map(|(cell, empty)| (*cell == BORDER) == (*empty == BORDER));
        let inside = |axis: usize| (1..=GRID).contains(&usize::from(episode.agent[axis]));
        border.all(|sound| sound)
            && episode.cells.iter().flatten().all(|cell| *cell < CODES)
            && inside(0)
            && inside(1)
            && episode.held.is_none_or(|key| usize::from(key) < COLOURS)
            && episode.steps as usize <= self.config.length
    }
}

#[cfg(test)]
mod tests;
