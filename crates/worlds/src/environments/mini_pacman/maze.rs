//! The maze of Mini-Pacman.

use rand::RngExt;

use crate::environments::random::Random;
use crate::environments::window::Place;

pub(super) const HEIGHT: usize = 15;
pub(super) const WIDTH: usize = 19;
pub(super) const MAZE: [&[u8; WIDTH]; HEIGHT] = [
    b"1111111111111111111",
    b"1000100000000010001",
    b"1010101111111010101",
    b"1000000000000000001",
    b"1010101111111010101",
    b"1010000000000000101",
    b"1011110111110111101",
    b"1000000111110000001",
    b"1011110111110111101",
    b"1010000000000000101",
    b"1010101111111010101",
    b"1000000000000000001",
    b"1010101111111010101",
    b"1000100000000010001",
    b"1111111111111111111",
];

/// Cells without a wall.
pub(super) const FREE: usize = 138;

/// Places without a wall, row by row.
pub(super) const FREE_PLACES: [Place; FREE] = {
    let mut places = [[0; 2]; FREE];
    let (mut count, mut cell) = (0, 0);
    while cell < HEIGHT * WIDTH {
        let (row, column) = (cell / WIDTH, cell % WIDTH);
        if MAZE[row][column] == b'0' {
            places[count] = [row as u8, column as u8];
            count += 1;
        }
        cell += 1;
    }
    assert!(count == FREE);
    places
};

pub(super) const FLOOR: u8 = 0;
pub(super) const WALL: u8 = 1;
pub(super) const FOOD: u8 = 2;

/// A maze full of food.
pub(super) const FULL: [[u8; WIDTH]; HEIGHT] = {
    let mut ground = [[WALL; WIDTH]; HEIGHT];
    let mut number = 0;
    while number < FREE {
        let [row, column] = FREE_PLACES[number];
        ground[row as usize][column as usize] = FOOD;
        number += 1;
    }
    ground
};

/// Rows and columns of the directions right, up, left and down. Direction `d` is action `d + 1`, and its reverse is
/// direction `(d + 2) % 4`.
pub(super) const DIRECTIONS: [[i8; 2]; 4] = [[0, 1], [-1, 0], [0, -1], [1, 0]];

pub(super) fn free_place(random: &mut Random) -> Place {
    FREE_PLACES[random.random_range(0..FREE as u32) as usize]
}

pub(super) fn is_free([row, column]: Place) -> bool {
    let cell = FULL
        .get(usize::from(row))
        .and_then(|cells| cells.get(usize::from(column)));
    cell == Some(&FOOD)
}

/// The place next to a free one. Walls surround the maze, so it is inside the map.
pub(super) fn neighbour(place: Place, direction: usize) -> Place {
    let [rows, columns] = DIRECTIONS[direction];
    [
        place[0].wrapping_add_signed(rows),
        place[1].wrapping_add_signed(columns),
    ]
}
