//! The map from above, for figures.

use super::map::{Cell, Map, Side};
use super::textures::Texel;

/// A picture of a map from above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Pixel columns.
    pub width: usize,
    /// Pixel rows.
    pub height: usize,
    /// `[height, width, 3]`: red, green and blue.
    pub pixels: Vec<u8>,
}

/// The colour of the inside of walls.
const STONE: Texel = [0.16, 0.16, 0.18, 1.0];
/// Thickness of the wall's colour at its faces, in cells.
const FACE: f32 = 0.2;

impl Map {
    /// The map from above, with `pixels_per_cell` pixels along each cell: floors, walls with the mean colours of their
    /// faces, and the objects that are present as discs.
    ///
    /// The pixel of a place (x, y) is in column `x * pixels_per_cell` and row `y * pixels_per_cell`.
    pub fn plan(&self, pixels_per_cell: usize) -> Plan {
        let (width, height) = (
            self.width() * pixels_per_cell,
            self.height() * pixels_per_cell,
        );
        let place = |pixel: usize| (pixel as f32 + 0.5) / pixels_per_cell as f32;
        let mut pixels = Vec::with_capacity(width * height * 3);
        for row in 0..height {
            for column in 0..width {
                let [red, green, blue, _] = self.seen_from_above([place(column), place(row)]);
                pixels.extend([red, green, blue].map(|value| (value * 255.0).round() as u8));
            }
        }
        Plan {
            width,
            height,
            pixels,
        }
    }

    /// The colour of a place from above.
    fn seen_from_above(&self, place: [f32; 2]) -> Texel {
        let [x, y] = place;
        let mut present = self.objects.iter().filter(|object| object.present);
        let object = present.find(|object| {
            let [away_x, away_y] = [object.place[0] - x, object.place[1] - y];
            away_x.hypot(away_y) <= object.radius
        });
        if let Some(object) = object {
            let [red, green, blue, opacity] = self.textures[usize::from(object.texture)].mean();
            return [red / opacity, green / opacity, blue / opacity, 1.0];
        }
        let index = self.index(place);
        if !self.is_wall(index) {
            return self.floor.at(0, x, y);
        }
        // The face of the nearest side that borders a floor, if it is near.
        let (cell_x, cell_y) = (x as isize, y as isize);
        let faces = Side::ALL.into_iter().filter(|side| {
            let [step_x, step_y] = side.step();
            self.cell(cell_x + step_x, cell_y + step_y) != Cell::Wall
        });
        let depth = |side: &Side| match side {
            Side::West => x.fract(),
            Side::East => 1.0 - x.fract(),
            Side::North => y.fract(),
            Side::South => 1.0 - y.fract(),
        };
        let nearest = faces.min_by(|first, second| depth(first).total_cmp(&depth(second)));
        match nearest {
            Some(side) if depth(&side) < FACE => self.face(index, side).mean(),
            _ => STONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use crate::navigation::labyrinth::MapConfig;

    #[test]
    fn walls_floors_and_objects_are_told_apart() {
        let config = MapConfig {
            objects: 1,
            ..MapConfig::default()
        };
        let mut map = Map::new(&config, &mut Stream::new(3, "test").at(0)).expect("in range");
        let plan = map.plan(10);
        assert_eq!(
            (plan.width, plan.height),
            (10 * map.width(), 10 * map.height())
        );
        assert_eq!(plan.pixels.len(), plan.width * plan.height * 3);
        let pixel = |plan: &Plan, [x, y]: [f32; 2]| {
            let start = ((y * 10.0) as usize * plan.width + (x * 10.0) as usize) * 3;
            [0, 1, 2].map(|channel| plan.pixels[start + channel])
        };
        let stone = [STONE[0], STONE[1], STONE[2]].map(|value| (value * 255.0).round() as u8);
        assert_eq!(pixel(&plan, [0.5, 0.5]), stone);
        assert_ne!(pixel(&plan, [0.95, 1.5]), stone);
        let object = map.objects[0].place;
        let with = pixel(&plan, object);
        map.objects[0].present = false;
        assert_ne!(pixel(&map.plan(10), object), with);
        assert!(map.plan(0).pixels.is_empty());
    }
}
