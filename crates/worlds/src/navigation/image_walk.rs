//! Image navigation: a small window walks over a picture (Fraccaro et al. 2018, gtm-sm, section 4.1 and appendix D.1).

use super::{Navigation, Pictures, Walks};
use crate::settings::check;
use crate::{Error, FrameShape, Split, Stream, sequence_number};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// The actions, in the order of their numbers.
pub const IMAGE_ACTIONS: [&str; 5] = ["up", "down", "left", "right", "stay"];
/// The action that changes nothing.
const STAY: usize = 4;

/// What is recorded where the border of the picture or an obstacle stops a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WallActions {
    /// The action that was attempted.
    Attempted,
    /// `stay`: to the model there are no walls.
    None,
}

/// Where walks start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// In the middle of the picture.
    Middle,
    /// Anywhere.
    Anywhere,
}

/// Settings of [`ImageNavigation`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageWalkSettings {
    /// Rows and columns of a picture.
    pub picture: usize,
    /// Rows and columns of the window.
    pub crop: usize,
    /// Pixels of a step.
    pub stride: usize,
    /// What is recorded at a wall.
    pub walls: WallActions,
    /// How often a drawn direction is repeated, on average; drawn anew each time, and with 0 the window stays once.
    pub repeats: f64,
    /// Cells that cannot be entered, elsewhere in each walk.
    pub obstacles: usize,
    /// Where walks start.
    pub start: Start,
}

impl Default for ImageWalkSettings {
    fn default() -> Self {
        Self {
            picture: 32,
            crop: 8,
            stride: 3,
            walls: WallActions::Attempted,
            repeats: 2.0,
            obstacles: 0,
            start: Start::Middle,
        }
    }
}

impl ImageWalkSettings {
    /// Cells along a side.
    ///
    /// # Errors
    /// If a size or a number is out of its range, if the window is larger than the picture, or if the obstacles leave
    /// no cell free.
    pub fn check(&self) -> Result<usize, Error> {
        check("navigation.image.picture", self.picture, 2..=1024, || {
            "the rows and columns of a picture must be from 2 to 1024".to_owned()
        })?;
        check("navigation.image.crop", self.crop, 1..=self.picture, || {
            format!(
                "the window must fit into the picture of {0}x{0} pixels",
                self.picture
            )
        })?;
        check(
            "navigation.image.stride",
            self.stride,
            1..=self.picture,
            || format!("the pixels of a step must be from 1 to {}", self.picture),
        )?;
        let side = (self.picture - self.crop) / self.stride + 1;
        check(
            "navigation.image.obstacles",
            self.obstacles,
            0..=side * side - 1,
            || format!("one of the {side}x{side} cells at least must stay free"),
        )?;
        if !(self.repeats.is_finite() && self.repeats > 0.0) {
            return Err(Error::Number {
                key: "navigation.image.repeats",
                value: self.repeats,
                wanted: "a positive number".to_owned(),
            });
        }
        Ok(side)
    }
}

/// The cells over which a window walks, as (column, row).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    side: usize,
    /// `[side, side]`: whether the cell can be entered.
    free: Vec<bool>,
}

impl Grid {
    /// A grid without obstacles.
    pub fn open(side: usize) -> Self {
        Self {
            side,
            free: vec![true; side * side],
        }
    }

    /// Cells along a side.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Whether a cell can be entered; `false` outside the grid.
    pub fn is_free(&self, [x, y]: [usize; 2]) -> bool {
        x < self.side && y < self.side && self.free[y * self.side + x]
    }

    /// The cell to which an action leads, and whether it was stopped.
    pub fn step(&self, [x, y]: [usize; 2], action: usize) -> ([usize; 2], bool) {
        let next = match action {
            0 => [x, y.wrapping_sub(1)],
            1 => [x, y + 1],
            2 => [x.wrapping_sub(1), y],
            3 => [x + 1, y],
            _ => return ([x, y], false),
        };
        match self.is_free(next) {
            true => (next, false),
            false => ([x, y], true),
        }
    }

    /// Closes cells at random, but none that would cut others off from `start`; fewer than `count` if there are no
    /// more of these.
    fn close(&mut self, start: [usize; 2], count: usize, generator: &mut ChaCha8Rng) {
        let mut cells: Vec<usize> = (0..self.free.len()).collect();
        for place in (1..cells.len()).rev() {
            cells.swap(place, generator.random_range(0..=place));
        }
        let mut closed = 0;
        for cell in cells {
            if closed == count {
                break;
            }
            if cell == start[1] * self.side + start[0] {
                continue;
            }
            self.free[cell] = false;
            match self.is_connected(start) {
                true => closed += 1,
                false => self.free[cell] = true,
            }
        }
    }

    /// Whether each free cell can be reached from `start`.
    fn is_connected(&self, start: [usize; 2]) -> bool {
        let mut reached = vec![false; self.free.len()];
        let mut open = vec![start];
        reached[start[1] * self.side + start[0]] = true;
        while let Some(cell) = open.pop() {
            for action in 0..STAY {
                let (next, stopped) = self.step(cell, action);
                let index = next[1] * self.side + next[0];
                if !stopped && !reached[index] {
                    reached[index] = true;
                    open.push(next);
                }
            }
        }
        reached == self.free
    }
}

/// The window of `crop` x `crop` pixels at a cell of a picture `[side, side, 3]`, as `[3, crop, crop]` in [0, 1].
///
/// # Panics
/// If the window leaves the picture.
pub fn window(
    picture: &[u8],
    side: usize,
    crop: usize,
    stride: usize,
    [x, y]: [usize; 2],
) -> Vec<f32> {
    let (left, top) = (x * stride, y * stride);
    assert!(
        left + crop <= side && top + crop <= side,
        "the window leaves the picture"
    );
    let pixel = |channel: usize, row: usize, column: usize| {
        f32::from(picture[((top + row) * side + left + column) * 3 + channel]) / 255.0
    };
    let places = (0..crop).flat_map(|row| (0..crop).map(move |column| (row, column)));
    (0..3)
        .flat_map(|channel| {
            places
                .clone()
                .map(move |(row, column)| (channel, row, column))
        })
        .map(|(channel, row, column)| pixel(channel, row, column))
        .collect()
}

/// Walks of a window over pictures.
///
/// A walk draws a direction that does not lead straight into a wall, and from a Poisson distribution how often it is
/// repeated. A wall stops the window, which then stays until the repetitions are over. With `walls = "none"` what is
/// stopped is recorded as `stay`.
#[derive(Clone, Debug)]
pub struct ImageNavigation {
    pictures: Arc<Pictures>,
    settings: ImageWalkSettings,
    side: usize,
    repeats: Poisson<f64>,
}

/// A walk in the making.
#[derive(Clone, Debug)]
pub struct ImageWalk {
    /// The picture, by its number in its split.
    pub picture: usize,
    /// Where it may go.
    pub grid: Grid,
    /// Where it is, (column, row).
    pub cell: [usize; 2],
    generator: ChaCha8Rng,
    /// The direction being repeated, and how often it still is.
    plan: (usize, usize),
}

/// A step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageStep {
    /// The recorded action.
    pub action: usize,
    /// The cell before it.
    pub from: [usize; 2],
    /// The cell after it.
    pub to: [usize; 2],
    /// Whether a wall stopped the step.
    pub blocked: bool,
}

impl ImageNavigation {
    /// Walks over `pictures`, whose side is that of the settings.
    ///
    /// # Errors
    /// See [`ImageWalkSettings::check`]; and if the pictures have another side.
    pub fn new(pictures: Arc<Pictures>, settings: ImageWalkSettings) -> Result<Self, Error> {
        let side = settings.check()?;
        check(
            "navigation.image.picture",
            settings.picture,
            pictures.side()..=pictures.side(),
            || format!("the pictures have {0}x{0} pixels", pictures.side()),
        )?;
        let repeats = Poisson::new(settings.repeats).map_err(|_| Error::Number {
            key: "navigation.image.repeats",
            value: settings.repeats,
            wanted: "a positive number, not too large".to_owned(),
        })?;
        Ok(Self {
            pictures,
            settings,
            side,
            repeats,
        })
    }

    /// Cells along a side.
    pub fn side(&self) -> usize {
        self.side
    }

    /// The settings.
    pub fn settings(&self) -> &ImageWalkSettings {
        &self.settings
    }

    /// Walk `number` of a split before its first step.
    pub fn begin(&self, split: Split, stream: &Stream, number: u64) -> ImageWalk {
        let mut generator = stream.at(number);
        let picture = generator.random_range(0..self.pictures.len(split));
        let mut grid = Grid::open(self.side);
        let cell = match self.settings.start {
            Start::Middle => [self.side / 2; 2],
            Start::Anywhere => [0, 1].map(|_| generator.random_range(0..self.side)),
        };
        grid.close(cell, self.settings.obstacles, &mut generator);
        ImageWalk {
            picture,
            grid,
            cell,
            generator,
            plan: (STAY, 0),
        }
    }

    /// The next step of a walk.
    pub fn explore(&self, walk: &mut ImageWalk) -> ImageStep {
        if walk.plan.1 == 0 {
            let possible = |action: &usize| !walk.grid.step(walk.cell, *action).1;
            let directions: Vec<usize> = (0..STAY).filter(possible).collect();
            let repeats = self.repeats.sample(&mut walk.generator) as usize;
            walk.plan = match repeats {
                0 => (STAY, 1),
                _ if directions.is_empty() => (STAY, repeats),
                _ => (
                    directions[walk.generator.random_range(0..directions.len())],
                    repeats,
                ),
            };
        }
        walk.plan.1 -= 1;
        let attempted = walk.plan.0;
        let (to, blocked) = walk.grid.step(walk.cell, attempted);
        let action = match (blocked, self.settings.walls) {
            (true, WallActions::None) => STAY,
            _ => attempted,
        };
        let from = std::mem::replace(&mut walk.cell, to);
        ImageStep {
            action,
            from,
            to,
            blocked,
        }
    }

    /// What is seen at a cell of a picture.
    pub fn frame_at(&self, split: Split, picture: usize, cell: [usize; 2]) -> Vec<f32> {
        let ImageWalkSettings {
            picture: side,
            crop,
            stride,
            ..
        } = self.settings;
        window(
            self.pictures.picture(split, picture),
            side,
            crop,
            stride,
            cell,
        )
    }
}

impl Navigation for ImageNavigation {
    fn name(&self) -> &'static str {
        "image-navigation"
    }

    fn frame(&self) -> FrameShape {
        FrameShape {
            channels: 3,
            height: self.settings.crop,
            width: self.settings.crop,
        }
    }

    fn actions(&self) -> &'static [&'static str] {
        &IMAGE_ACTIONS
    }

    fn place_width(&self) -> usize {
        2
    }

    fn walks(&self, split: Split, stream: &Stream, index: u64, batch: usize, time: usize) -> Walks {
        let steps = batch * time;
        let mut walks = Walks {
            batch,
            time,
            frame: self.frame(),
            frames: Vec::new(),
            seen: Vec::with_capacity(steps),
            actions_count: IMAGE_ACTIONS.len(),
            actions: Vec::with_capacity(steps),
            places: Vec::with_capacity(2 * steps),
            place_width: 2,
            displacements: Vec::with_capacity(2 * steps),
            blocked: Vec::with_capacity(steps),
            scenes: Vec::with_capacity(batch),
        };
        let mut known = 0;
        for row in 0..batch {
            let mut walk = self.begin(split, stream, sequence_number(index, batch, row));
            walks.scenes.push(walk.picture as u32);
            let mut frames: HashMap<[usize; 2], u32> = HashMap::new();
            for step in 0..time {
                let (action, from, blocked) = match step {
                    0 => (None, walk.cell, false),
                    _ => {
                        let made = self.explore(&mut walk);
                        (Some(made.action as u8), made.from, made.blocked)
                    }
                };
                let cell = walk.cell;
                let frame = *frames.entry(cell).or_insert_with(|| {
                    walks
                        .frames
                        .extend(self.frame_at(split, walk.picture, cell));
                    known += 1;
                    known - 1
                });
                walks.seen.push(frame);
                walks.actions.push(action);
                walks.places.extend(cell.map(|x| x as f32));
                let moved = [0, 1].map(|axis| cell[axis] as f32 - from[axis] as f32);
                walks.displacements.extend(moved);
                walks.blocked.push(blocked);
            }
        }
        walks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::split;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::sync::LazyLock;

    static PICTURES: LazyLock<Arc<Pictures>> =
        LazyLock::new(|| Arc::new(Pictures::bundled(32).expect("they fit")));

    fn navigation(settings: ImageWalkSettings) -> ImageNavigation {
        ImageNavigation::new(PICTURES.clone(), settings).expect("settings are in range")
    }

    fn settings() -> impl Strategy<Value = ImageWalkSettings> {
        (
            any::<bool>(),
            any::<bool>(),
            0_usize..30,
            1_usize..5,
            4_usize..12,
        )
            .prop_map(
                |(attempted, middle, obstacles, stride, crop)| ImageWalkSettings {
                    crop,
                    stride,
                    walls: if attempted {
                        WallActions::Attempted
                    } else {
                        WallActions::None
                    },
                    start: if middle {
                        Start::Middle
                    } else {
                        Start::Anywhere
                    },
                    obstacles: obstacles.min(((32 - crop) / stride + 1).pow(2) - 1),
                    ..ImageWalkSettings::default()
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Frames are the windows at the true places; places follow from the actions; what is blocked stays.
        #[test]
        fn walks_are_sound(settings in settings(), split in split(), seed: u64, index: u64) {
            let world = navigation(settings.clone());
            let stream = Stream::new(seed, "data");
            let (batch, time) = (3, 40);
            let walks = world.walks(split, &stream, index, batch, time);
            prop_assert_eq!(walks.seen.len(), batch * time);
            prop_assert_eq!(walks.frames.len(), walks.distinct() * walks.frame.size());
            let mut shown = HashSet::new();
            for row in 0..batch {
                let mut before = [0.0; 2];
                for step in 0..time {
                    let at = row * time + step;
                    let place = [walks.places[2 * at], walks.places[2 * at + 1]];
                    let moved = [walks.displacements[2 * at], walks.displacements[2 * at + 1]];
                    let cell = place.map(|x| x as usize);
                    prop_assert!(cell.iter().all(|x| *x < world.side()));
                    let frame = walks.seen[at] as usize;
                    shown.insert((row, cell, frame));
                    let size = walks.frame.size();
                    let expected = world.frame_at(split, walks.scenes[row] as usize, cell);
                    prop_assert_eq!(&walks.frames[frame * size..][..size], expected.as_slice());
                    match walks.actions[at] {
                        None => {
                            prop_assert_eq!(step, 0);
                            prop_assert_eq!(moved, [0.0; 2]);
                        }
                        Some(action) => {
                            prop_assert_eq!([place[0] - before[0], place[1] - before[1]], moved);
                            let wanted = match action {
                                0 => [0.0, -1.0],
                                1 => [0.0, 1.0],
                                2 => [-1.0, 0.0],
                                3 => [1.0, 0.0],
                                _ => [0.0, 0.0],
                            };
                            match walks.blocked[at] {
                                true => prop_assert_eq!(moved, [0.0; 2]),
                                false => prop_assert_eq!(moved, wanted),
                            }
                            if settings.walls == WallActions::None {
                                prop_assert_eq!(moved, wanted);
                            }
                        }
                    }
                    before = place;
                }
            }
            // A frame for each cell of each walk, and no two the same.
            let cells: HashSet<_> = shown.iter().map(|(row, cell, _)| (*row, *cell)).collect();
            let frames: HashSet<_> = shown.iter().map(|(_, _, frame)| *frame).collect();
            prop_assert_eq!((cells.len(), frames.len()), (shown.len(), walks.distinct()));
        }

        #[test]
        fn a_batch_is_a_function_of_its_arguments(seed: u64, index in 0_u64..1000) {
            let world = navigation(ImageWalkSettings { obstacles: 6, ..ImageWalkSettings::default() });
            let stream = Stream::new(seed, "data");
            let walks = |index, batch| world.walks(Split::Train, &stream, index, batch, 20);
            let whole = walks(index, 4);
            prop_assert_eq!(&whole, &walks(index, 4));
            let halves = [walks(2 * index, 2), walks(2 * index + 1, 2)];
            prop_assert_eq!(&whole.places, &halves.each_ref().map(|half| half.places.clone()).concat());
            prop_assert_eq!(
                whole.all_frames(),
                halves.each_ref().map(Walks::all_frames).concat()
            );
            let ones: f32 = whole.conditions().iter().sum();
            prop_assert_eq!(ones, 4.0 * 19.0);
        }

        #[test]
        fn obstacles_cut_nothing_off(seed: u64, obstacles in 1_usize..60) {
            let world = navigation(ImageWalkSettings { obstacles, ..ImageWalkSettings::default() });
            let walk = world.begin(Split::Train, &Stream::new(seed, "data"), 0);
            let closed = walk.grid.free.iter().filter(|free| !**free).count();
            prop_assert!(walk.grid.is_connected(walk.cell));
            prop_assert!(closed <= obstacles);
            // So few obstacles always find a place.
            prop_assert!(obstacles > 20 || closed == obstacles);
        }
    }

    /// In 256 steps, 9 to 10% of the steps are stopped and 65 to 72 of the 81 cells are seen, as in the prototype whose
    /// numbers the experiments started from.
    #[test]
    fn walks_see_most_of_the_picture() {
        let world = navigation(ImageWalkSettings::default());
        let (batch, time) = (400, 256);
        let walks = world.walks(Split::Train, &Stream::new(1, "data"), 0, batch, time);
        let blocked = walks.blocked.iter().filter(|blocked| **blocked).count();
        let blocked = blocked as f64 / (batch * time) as f64;
        let seen = walks.distinct() as f64 / batch as f64;
        assert!((0.08..0.11).contains(&blocked), "{blocked}");
        assert!((64.0..73.0).contains(&seen), "{seen}");
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refused = |settings: ImageWalkSettings| {
            ImageNavigation::new(PICTURES.clone(), settings)
                .unwrap_err()
                .to_string()
        };
        let base = ImageWalkSettings::default;
        let message = refused(ImageWalkSettings { crop: 33, ..base() });
        assert!(
            message.contains("crop") && message.contains("32x32"),
            "{message}"
        );
        let message = refused(ImageWalkSettings {
            obstacles: 81,
            ..base()
        });
        assert!(
            message.contains("obstacles") && message.contains("9x9"),
            "{message}"
        );
        let message = refused(ImageWalkSettings {
            repeats: f64::NAN,
            ..base()
        });
        assert!(message.contains("repeats"), "{message}");
        let message = refused(ImageWalkSettings {
            stride: 0,
            ..base()
        });
        assert!(message.contains("stride"), "{message}");
        let message = refused(ImageWalkSettings {
            picture: 64,
            ..base()
        });
        assert!(message.contains("the pictures have 32x32"), "{message}");
    }
}
