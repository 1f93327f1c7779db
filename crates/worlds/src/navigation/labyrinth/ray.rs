//! A ray, and the wall that it meets.

use super::map::{Map, Side};
use super::textures::whole;
use super::view::NEAREST;

/// Where a ray meets a wall.
pub(super) struct Hit {
    /// Distance along the viewing direction.
    pub(super) distance: f32,
    pub(super) cell: usize,
    pub(super) side: Side,
    /// Place on the side, from 0 at the viewer's left to 1.
    pub(super) across: f32,
}

/// Follows a ray from cell to cell until it meets a wall (a digital differential analyser).
///
/// `direction` has the component 1 along the viewing direction. The map is closed, so there is always a wall.
pub(super) fn cast(map: &Map, from: [f32; 2], direction: [f32; 2]) -> Hit {
    // A ray along an axis would never reach the next line of the other axis: at an infinite distance.
    let direction = direction.map(|value| if value.abs() < 1e-9 { 1e-9 } else { value });
    let [x, y] = from;
    let (column, row) = (x as isize, y as isize);
    let [per_column, per_row] = direction.map(|value| 1.0 / value.abs());
    // Distances to the next line between cells, along each axis.
    let [inside_x, inside_y] = [x - column as f32, y - row as f32];
    let left = |inside: f32, rising: bool| if rising { 1.0 - inside } else { inside };
    let mut next_x = left(inside_x, direction[0] > 0.0) * per_column;
    let mut next_y = left(inside_y, direction[1] > 0.0) * per_row;
    let width = map.width() as isize;
    let step_x = if direction[0] > 0.0 { 1 } else { -1 };
    let step_y = if direction[1] > 0.0 { width } else { -width };
    let mut index = row * width + column;
    loop {
        let (axis, distance);
        if next_y < next_x {
            (axis, distance) = (1, next_y);
            index += step_y;
            next_y += per_row;
        } else {
            (axis, distance) = (0, next_x);
            index += step_x;
            next_x += per_column;
        }
        if map.is_wall(index as usize) {
            let other = 1 - axis;
            let along = from[other] + distance * direction[other];
            let along = along - whole(along) as f32;
            let (side, mirrored) = match (axis, direction[axis] > 0.0) {
                (0, true) => (Side::West, false),
                (0, false) => (Side::East, true),
                (_, true) => (Side::North, true),
                (_, false) => (Side::South, false),
            };
            return Hit {
                distance: distance.max(NEAREST),
                cell: index as usize,
                side,
                across: if mirrored { 1.0 - along } else { along },
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rays_meet_the_walls_of_a_room() {
        // The floor of the room is [1, 6] x [1, 6].
        let map = Map::room();
        let hit = cast(&map, [2.5, 3.25], [1.0, 0.0]);
        assert!((hit.distance - 3.5).abs() < 1e-5 && hit.side == Side::West);
        assert!((hit.across - 0.25).abs() < 1e-5);
        let hit = cast(&map, [2.5, 3.25], [-1.0, 0.0]);
        assert!((hit.distance - 1.5).abs() < 1e-5 && hit.side == Side::East);
        assert!((hit.across - 0.75).abs() < 1e-5);
        let hit = cast(&map, [2.5, 3.25], [0.5, -1.0]);
        assert!((hit.distance - 2.25).abs() < 1e-5 && hit.side == Side::South);
        assert!((hit.across - 0.625).abs() < 1e-5);
        let hit = cast(&map, [2.5, 3.25], [-1.0, 1.0]);
        assert!((hit.distance - 1.5).abs() < 1e-5 && hit.side == Side::East);
    }
}
