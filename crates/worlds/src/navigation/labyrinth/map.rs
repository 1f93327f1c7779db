//! The map of a labyrinth: rooms and corridors on a grid of unit cells, with what is on their walls and floors.
//!
//! Rooms are rectangles, each in a slot of its own. They are joined one to the next by corridors one cell wide. Each
//! side of a room has a wall texture of its own, some cells of it have a picture, and objects stand in the rooms.
//! All of it is a function of the random numbers of one generator.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scenery::{Floor, FloorPattern, Sky};
use super::textures::{self, Texture};
use crate::Error;
use crate::settings::{check, check_fraction};

/// Sizes and contents of a map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MapConfig {
    /// Number of rooms, from 1 to 16. Corridors join them.
    pub rooms: usize,
    /// Shortest side of a room in cells, from 3 to `largest`.
    pub smallest: usize,
    /// Longest side of a room in cells, at most 16.
    pub largest: usize,
    /// Fraction of the wall cells of rooms that have a picture.
    pub pictures: f32,
    /// Columns and balls in each room, at most 8. They are obstacles. A room may be too small for all.
    pub objects: usize,
    /// Goals in the whole map, at most 32: balls that an agent walks into for a reward. A map may be too small for
    /// all.
    pub goals: usize,
}

impl Default for MapConfig {
    fn default() -> MapConfig {
        MapConfig {
            rooms: 1,
            smallest: 4,
            largest: 5,
            pictures: 0.25,
            objects: 2,
            goals: 0,
        }
    }
}

impl MapConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        check("task.map.rooms", self.rooms, 1..=16, || {
            "a map has from 1 to 16 rooms".to_owned()
        })?;
        check("task.map.largest", self.largest, 3..=16, || {
            "the longest side of a room must be from 3 to 16 cells".to_owned()
        })?;
        let largest = self.largest;
        check("task.map.smallest", self.smallest, 3..=largest, || {
            format!(
                "the shortest side of a room must be from 3 to task.map.largest = {largest} cells"
            )
        })?;
        check_fraction(
            "task.map.pictures",
            self.pictures,
            0.0..=1.0,
            "the fraction of wall cells with a picture must be from 0 to 1",
        )?;
        check("task.map.objects", self.objects, 0..=8, || {
            "a room has at most 8 objects".to_owned()
        })?;
        check("task.map.goals", self.goals, 0..=32, || {
            "a map has at most 32 goals".to_owned()
        })
    }
}

/// What a cell of the grid is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Solid up to the height of a wall.
    Wall,
    /// Floor of the room with this number.
    Room(u8),
    /// Floor between rooms.
    Corridor,
}

/// A side of a cell, as a neighbour in that direction sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    West,
    East,
    North,
    South,
}

impl Side {
    pub const ALL: [Side; 4] = [Side::West, Side::East, Side::North, Side::South];

    /// The step from a cell to its neighbour on this side; y points down, to the south.
    pub fn step(self) -> [isize; 2] {
        match self {
            Side::West => [-1, 0],
            Side::East => [1, 0],
            Side::North => [0, -1],
            Side::South => [0, 1],
        }
    }
}

/// Something that stands in a room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Its centre (x, y) in cells.
    pub place: [f32; 2],
    /// Half of its width, in cells.
    pub radius: f32,
    /// Its height in cells; a wall has height 1.
    pub height: f32,
    /// Whether it gives a reward and is then gone. All other objects are obstacles.
    pub goal: bool,
    /// Whether it is there.
    pub present: bool,
    pub(super) texture: u16,
}

/// The map of a labyrinth.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    width: usize,
    height: usize,
    /// `[height, width]`
    cells: Vec<Cell>,
    /// `[height, width, 4]`: the texture of each side of a wall cell, an index into `textures`.
    faces: Vec<u16>,
    pub(super) textures: Vec<Texture>,
    pub(super) floor: Floor,
    pub(super) sky: Sky,
    /// The objects, obstacles first, then goals.
    pub objects: Vec<Object>,
}

/// A rectangle of cells.
#[derive(Clone, Copy)]
struct Room {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Room {
    fn centre(&self) -> [usize; 2] {
        [self.left + self.width / 2, self.top + self.height / 2]
    }
}

impl Map {
    /// A map made of the random numbers of `generator`.
    ///
    /// # Errors
    /// A value of `config` is out of its range.
    pub fn new(config: &MapConfig, generator: &mut ChaCha8Rng) -> Result<Map, Error> {
        config.check()?;
        Ok(Map::generate(config, generator))
    }

    /// The same for settings that were checked.
    pub(super) fn generate(config: &MapConfig, generator: &mut ChaCha8Rng) -> Map {
        let mut map = Map::dig(config, generator);
        map.paint_walls(config, generator);
        map.place_objects(config, generator);
        map
    }

    /// Rooms, corridors, floors and sky, with walls that have no texture yet.
    fn dig(config: &MapConfig, generator: &mut ChaCha8Rng) -> Map {
        // Slots in rows, with walls two cells thick between rooms; one room alone fills its slot.
        let side = |least| if config.rooms == 1 { 0 } else { least };
        let slot = config.largest + side(2);
        let columns = (1..).find(|side| side * side >= config.rooms);
        let columns = columns.expect("some square is large enough");
        let mut rooms = Vec::with_capacity(config.rooms);
        for number in 0..config.rooms {
            let (row, place) = (number / columns, number % columns);
            // Rows alternate in direction, so that the next room is always in a slot beside this one.
            let column = if row % 2 == 0 {
                place
            } else {
                columns - 1 - place
            };
            let [width, height] =
                [0, 1].map(|_| generator.random_range(config.smallest..=config.largest));
            let mut at = |slot_number: usize, side: usize| {
                let free = if config.rooms == 1 {
                    0
                } else {
                    config.largest - side
                };
                1 + slot_number * slot + generator.random_range(0..=free)
            };
            let (left, top) = (at(column, width), at(row, height));
            rooms.push(Room {
                left,
                top,
                width,
                height,
            });
        }
        let extent = |end: fn(&Room) -> usize| rooms.iter().map(end).max().unwrap_or(0) + 1;
        let width = extent(|room| room.left + room.width);
        let height = extent(|room| room.top + room.height);

        let mut cells = vec![Cell::Wall; width * height];
        for (number, room) in rooms.iter().enumerate() {
            for y in room.top..room.top + room.height {
                cells[y * width + room.left..][..room.width].fill(Cell::Room(number as u8));
            }
        }
        for pair in rooms.windows(2) {
            join(&mut cells, width, pair[0].centre(), pair[1].centre());
        }

        let first_hue: f32 = generator.random();
        let patterns: Vec<FloorPattern> = (0..rooms.len())
            .map(|number| {
                let hue = first_hue + number as f32 * GOLDEN;
                FloorPattern::new(hue, 0.55, generator)
            })
            .collect();
        let corridor = FloorPattern::new(generator.random(), 0.1, generator);
        let floor = Floor::new(width, height, |x, y| match cells[y * width + x] {
            Cell::Wall => None,
            Cell::Room(number) => patterns.get(usize::from(number)),
            Cell::Corridor => Some(&corridor),
        });
        Map {
            width,
            height,
            faces: vec![0; cells.len() * 4],
            cells,
            textures: Vec::new(),
            floor,
            sky: Sky::new(generator),
            objects: Vec::new(),
        }
    }

    /// A texture for each side of each room and for the corridors, and pictures on some cells.
    fn paint_walls(&mut self, config: &MapConfig, generator: &mut ChaCha8Rng) {
        let first_hue: f32 = generator.random();
        self.textures = (0..config.rooms * 4)
            .map(|number| {
                // The four sides of a room are a quarter of the colour wheel apart, in an order that looks random.
                let hue = (number % 4) as f32 / 4.0 + (number / 4) as f32 * GOLDEN;
                let hue = first_hue + hue + generator.random_range(-0.04..0.04);
                textures::wall(hue, generator)
            })
            .collect();
        let corridor = self.textures.len() as u16;
        self.textures
            .push(textures::wall(generator.random(), generator));
        for index in 0..self.cells.len() {
            if self.cells[index] != Cell::Wall {
                continue;
            }
            for (number, side) in Side::ALL.into_iter().enumerate() {
                let face = index * 4 + number;
                match self.neighbour(index, side) {
                    Some(Cell::Room(room)) => {
                        let wall = usize::from(room) * 4 + number;
                        self.faces[face] = wall as u16;
                        if generator.random::<f32>() < config.pictures {
                            let picture = textures::picture(&self.textures[wall], generator);
                            self.faces[face] = self.textures.len() as u16;
                            self.textures.push(picture);
                        }
                    }
                    _ => self.faces[face] = corridor,
                }
            }
        }
    }

    /// Obstacles in cells of rooms that have neither a corridor nor another obstacle around them, so that every other
    /// cell can be reached; then goals in cells of rooms without an object.
    fn place_objects(&mut self, config: &MapConfig, generator: &mut ChaCha8Rng) {
        let first_hue: f32 = generator.random();
        for room in 0..config.rooms {
            for _ in 0..config.objects {
                let hue = first_hue + self.objects.len() as f32 * GOLDEN;
                let cells = self.cells_for_obstacles(room as u8);
                self.add_object(&cells, hue, false, generator);
            }
        }
        for _ in 0..config.goals {
            let mut cells = self.walkable();
            cells.retain(|&index| {
                let taken = |object: &Object| self.index(object.place) == index;
                matches!(self.cells[index], Cell::Room(_)) && !self.objects.iter().any(taken)
            });
            self.add_object(&cells, GOAL_HUE, true, generator);
        }
    }

    /// Adds an object in one of these cells, if there is one.
    fn add_object(&mut self, cells: &[usize], hue: f32, goal: bool, generator: &mut ChaCha8Rng) {
        if cells.is_empty() {
            return;
        }
        let centre = self.centre(cells[generator.random_range(0..cells.len())]);
        let tall = !goal && generator.random();
        self.objects.push(Object {
            place: centre.map(|middle| middle + generator.random_range(-0.1..0.1)),
            radius: if tall { 0.18 } else { 0.25 },
            height: if tall { 0.9 } else { 0.5 },
            goal,
            present: true,
            texture: self.textures.len() as u16,
        });
        self.textures.push(if tall {
            textures::column(hue)
        } else {
            textures::ball(hue)
        });
    }

    /// Cells of a room without a corridor or an object in or around them.
    fn cells_for_obstacles(&self, room: u8) -> Vec<usize> {
        let free_around = |index: usize| {
            let [x, y] = self.position(index);
            let corridor = (y - 1..=y + 1).any(|row| {
                let cells = &self.cells[row * self.width..][x - 1..=x + 1];
                cells.contains(&Cell::Corridor)
            });
            let object = self.objects.iter().any(|object| {
                let [column, row] = object.place.map(|value| value as usize);
                column.abs_diff(x) <= 1 && row.abs_diff(y) <= 1
            });
            !corridor && !object
        };
        let cells = (0..self.cells.len()).filter(|&index| self.cells[index] == Cell::Room(room));
        cells.filter(|&index| free_around(index)).collect()
    }

    /// Cells from west to east.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Cells from north to south.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The cell in this column and row; [`Cell::Wall`] outside the map.
    pub fn cell(&self, x: isize, y: isize) -> Cell {
        match (usize::try_from(x), usize::try_from(y)) {
            (Ok(x), Ok(y)) if x < self.width && y < self.height => self.cells[y * self.width + x],
            _ => Cell::Wall,
        }
    }

    /// The cell with this index.
    pub(super) fn cell_at(&self, index: usize) -> Cell {
        self.cells[index]
    }

    /// The cells that are floor and have no obstacle, as indices `row * width + column`, in ascending order.
    pub fn walkable(&self) -> Vec<usize> {
        let obstacle = |index: usize| {
            let mut obstacles = self.objects.iter().filter(|object| object.is_obstacle());
            obstacles.any(|object| self.index(object.place) == index)
        };
        let floor = (0..self.cells.len()).filter(|&index| self.cells[index] != Cell::Wall);
        floor.filter(|&index| !obstacle(index)).collect()
    }

    /// The index of the cell that a place of the map lies in.
    pub fn index(&self, [x, y]: [f32; 2]) -> usize {
        y as usize * self.width + x as usize
    }

    /// The centre of the cell with this index.
    pub fn centre(&self, index: usize) -> [f32; 2] {
        self.position(index).map(|value| value as f32 + 0.5)
    }

    fn position(&self, index: usize) -> [usize; 2] {
        [index % self.width, index / self.width]
    }

    fn neighbour(&self, index: usize, side: Side) -> Option<Cell> {
        let [x, y] = self.position(index);
        let [dx, dy] = side.step();
        let (x, y) = (x.checked_add_signed(dx)?, y.checked_add_signed(dy)?);
        (x < self.width && y < self.height).then(|| self.cells[y * self.width + x])
    }

    /// Whether the cell with this index is a wall.
    #[inline]
    pub(super) fn is_wall(&self, index: usize) -> bool {
        self.cells[index] == Cell::Wall
    }

    /// The texture on a side of a wall cell.
    #[inline]
    pub(super) fn face(&self, index: usize, side: Side) -> &Texture {
        &self.textures[usize::from(self.faces[index * 4 + side as usize])]
    }
}

impl Object {
    /// Whether it stands in the way.
    pub fn is_obstacle(&self) -> bool {
        self.present && !self.goal
    }
}

/// Steps of this size around the colour wheel give hues that stay apart.
const GOLDEN: f32 = 0.618_034;
/// Goals are all of one colour, so that they can be told from obstacles.
const GOAL_HUE: f32 = 0.14;

/// Digs a corridor from one place to the other: first along x, then along y. Rooms in its way stay rooms.
fn join(cells: &mut [Cell], width: usize, [x, y]: [usize; 2], [to_x, to_y]: [usize; 2]) {
    let along_x = (x.min(to_x)..=x.max(to_x)).map(|column| y * width + column);
    let along_y = (y.min(to_y)..=y.max(to_y)).map(|row| row * width + to_x);
    for index in along_x.chain(along_y) {
        if cells[index] == Cell::Wall {
            cells[index] = Cell::Corridor;
        }
    }
}

#[cfg(test)]
impl Map {
    /// A single room without objects and pictures.
    pub(super) fn room() -> Self {
        let config = MapConfig {
            smallest: 5,
            largest: 5,
            objects: 0,
            pictures: 0.0,
            ..MapConfig::default()
        };
        Self::new(&config, &mut crate::Stream::new(5, "test").at(0)).expect("in range")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use proptest::prelude::*;

    fn config() -> impl Strategy<Value = MapConfig> {
        (1usize..=7, 3usize..=5, 0usize..=3, 0usize..=8, 0usize..=32).prop_map(
            |(rooms, smallest, more, objects, goals)| MapConfig {
                rooms,
                smallest,
                largest: smallest + more,
                pictures: 0.3,
                objects,
                goals,
            },
        )
    }

    /// The cells that can be reached from the first walkable cell, by steps between walkable neighbours.
    fn reached(map: &Map) -> Vec<usize> {
        let walkable = map.walkable();
        let mut found = vec![walkable[0]];
        let mut next = 0;
        while let Some(&index) = found.get(next) {
            let (x, y) = (index % map.width(), index / map.width());
            for [dx, dy] in Side::ALL.map(Side::step) {
                let index = (y as isize + dy) as usize * map.width() + (x as isize + dx) as usize;
                if walkable.contains(&index) && !found.contains(&index) {
                    found.push(index);
                }
            }
            next += 1;
        }
        found.sort_unstable();
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_walkable_cell_can_be_reached(config in config(), seed: u64) {
            let map = Map::new(&config, &mut Stream::new(seed, "test").at(0)).expect("in range");
            prop_assert_eq!(reached(&map), map.walkable());
        }

        #[test]
        fn maps_are_closed_and_as_asked_for(config in config(), seed: u64) {
            let map = Map::new(&config, &mut Stream::new(seed, "test").at(0)).expect("in range");
            for x in 0..map.width() as isize {
                for y in 0..map.height() as isize {
                    let edge = x == 0 || y == 0 || x + 1 == map.width() as isize || y + 1 == map.height() as isize;
                    prop_assert!(!edge || map.cell(x, y) == Cell::Wall);
                }
            }
            let room_cells = |number| map.cells.iter().filter(|cell| **cell == Cell::Room(number)).count();
            for number in 0..config.rooms as u8 {
                let sides = config.smallest..=config.largest;
                let areas = sides.clone().flat_map(|width| sides.clone().map(move |height| width * height));
                prop_assert!(areas.clone().any(|area| area == room_cells(number)));
            }
            prop_assert_eq!(room_cells(config.rooms as u8), 0);
            let goals = map.objects.iter().filter(|object| object.goal).count();
            prop_assert!(goals <= config.goals);
            prop_assert_eq!(goals == 0, config.goals == 0);
            prop_assert!(map.objects.len() - goals <= config.objects * config.rooms);
            let again = Map::new(&config, &mut Stream::new(seed, "test").at(0)).expect("in range");
            prop_assert_eq!(map, again);
        }
    }

    #[test]
    fn the_four_walls_of_a_room_look_different() {
        let map = Map::generate(&MapConfig::default(), &mut Stream::new(4, "test").at(0));
        let colours: Vec<_> = map.textures[..4].iter().map(Texture::mean).collect();
        for (number, first) in colours.iter().enumerate() {
            for second in &colours[..number] {
                let squares = (0..3).map(|channel| (first[channel] - second[channel]).powi(2));
                assert!(squares.sum::<f32>().sqrt() > 0.15, "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refused = |change: fn(&mut MapConfig)| {
            let mut config = MapConfig::default();
            change(&mut config);
            config.check().expect_err("out of range").to_string()
        };
        assert_eq!(
            refused(|config| config.smallest = 7),
            "task.map.smallest = 7: the shortest side of a room must be from 3 to task.map.largest = 5 cells"
        );
        assert_eq!(
            refused(|config| config.pictures = f32::NAN),
            "task.map.pictures = NaN: the fraction of wall cells with a picture must be from 0 to 1"
        );
        assert!(refused(|config| config.rooms = 0).starts_with("task.map.rooms = 0"));
    }
}
