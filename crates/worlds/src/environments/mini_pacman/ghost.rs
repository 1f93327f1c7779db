//! How the ghosts of Mini-Pacman move.

use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::maze::{DIRECTIONS, free_place, is_free, neighbour};
use crate::environments::random::Random;
use crate::environments::window::Place;

/// A ghost begins outside the square that reaches this far from Pacman.
const SAFE_DISTANCE: u8 = 5;
/// How often a ghost goes astray at a crossing.
pub(super) const STOCHASTICITY: f64 = 0.05;

/// Where a ghost is and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ghost {
    pub(super) place: Place,
    /// An index into [`DIRECTIONS`].
    pub(super) heading: usize,
}

/// Where a ghost turns to.
///
/// `open` says which directions have no wall, `offset` is the way to Pacman in rows and columns. With one open
/// direction it takes that one. With two it keeps its heading, or turns the corner. At a crossing it never turns back:
/// it takes the direction with the largest dot product with the way to Pacman, or the smallest while it can be eaten;
/// the first of equals. A ghost that cannot be eaten takes a random one with probability 0.05.
pub(super) fn turn(
    open: [bool; 4],
    heading: usize,
    offset: [i32; 2],
    edible: bool,
    random: &mut Random,
) -> usize {
    let reverse = (heading + 2) % 4;
    let count = open.iter().filter(|open| **open).count();
    let first = |wanted: &dyn Fn(usize) -> bool| {
        (0..4).find(|direction| open[*direction] && wanted(*direction))
    };
    match count {
        0 => heading,
        1 => first(&|_| true).unwrap_or(heading),
        2 if open[heading] => heading,
        2 => first(&|direction| direction != reverse).unwrap_or(heading),
        _ => {
            let mut directions = [0; 4];
            let mut count = 0;
            for direction in (0..4).filter(|direction| open[*direction] && *direction != reverse) {
                directions[count] = direction;
                count += 1;
            }
            if !edible && random.random_bool(STOCHASTICITY) {
                return directions[random.random_range(0..count as u32) as usize];
            }
            let sign = if edible { 1 } else { -1 };
            let product = |direction: &usize| {
                let [rows, columns] = DIRECTIONS[*direction].map(i32::from);
                sign * (rows * offset[0] + columns * offset[1])
            };
            let best = directions[..count].iter().min_by_key(|way| product(way));
            *best.expect("a crossing has at least two directions besides the reverse")
        }
    }
}

impl Ghost {
    /// A ghost in a random place that is not near Pacman, with a random heading.
    pub(super) fn away_from(pacman: Place, random: &mut Random) -> Ghost {
        loop {
            let place = free_place(random);
            let near = |axis: usize| place[axis].abs_diff(pacman[axis]) <= SAFE_DISTANCE;
            if !(near(0) && near(1)) {
                let heading = random.random_range(0..4u32) as usize;
                return Ghost { place, heading };
            }
        }
    }

    pub(super) fn step(&mut self, pacman: Place, edible: bool, random: &mut Random) {
        let open = std::array::from_fn(|direction| is_free(neighbour(self.place, direction)));
        let offset = [0, 1].map(|axis| i32::from(pacman[axis]) - i32::from(self.place[axis]));
        self.heading = turn(open, self.heading, offset, edible, random);
        if open[self.heading] {
            self.place = neighbour(self.place, self.heading);
        }
    }
}
