//! What lies around and below the rooms: the sky line and the floors.

use std::f32::consts::TAU;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::textures::{Noise, Texel, clamped, colour, mean, mix, shade, whole};

/// The sky as seen all around: a panorama that is infinitely far away, so it depends on the heading alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sky {
    /// `[AZIMUTHS, ELEVATIONS]`, each column from the horizon upwards.
    texels: Vec<Texel>,
}

impl Sky {
    const AZIMUTHS: usize = 256;
    /// Texels of a column. They divide the tangent of the elevation, from 0 to 1, into equal parts.
    pub const ELEVATIONS: usize = 32;

    /// A sky with hills whose colours change all around, towers on the horizon, and a glow in one direction.
    pub fn new(generator: &mut ChaCha8Rng) -> Sky {
        let hue: f32 = generator.random();
        let zenith = colour(generator.random_range(0.5..0.72), 0.7, 0.85);
        let horizon = colour(generator.random_range(0.0..0.2), 0.25, 1.0);
        let glow_at: f32 = generator.random();
        let glow = colour(generator.random_range(0.03..0.14), 0.75, 1.0);
        let waves: [[f32; 3]; 4] = std::array::from_fn(|wave| {
            let height = generator.random_range(0.02..0.09) / (1.0 + 0.5 * wave as f32);
            [(wave * 2 + 1) as f32, generator.random(), height]
        });
        let towers: Vec<Tower> = (0..generator.random_range(4..9))
            .map(|_| Tower::new(generator))
            .collect();

        let mut texels = Vec::with_capacity(Sky::AZIMUTHS * Sky::ELEVATIONS);
        for azimuth in 0..Sky::AZIMUTHS {
            let turn = (azimuth as f32 + 0.5) / Sky::AZIMUTHS as f32;
            let hills: f32 = waves
                .iter()
                .map(|[count, phase, height]| height * (TAU * (count * turn + phase)).sin())
                .sum();
            let hills = (0.26 + hills).max(0.08);
            let hill = colour(hue + turn, 0.6, 0.55);
            let glow_share = (1.0 - 5.0 * distance(turn, glow_at)).max(0.0);
            for elevation in 0..Sky::ELEVATIONS {
                let low = elevation as f32 / Sky::ELEVATIONS as f32;
                // The share of this texel that lies below a height.
                let below = |height: f32| ((height - low) * Sky::ELEVATIONS as f32).clamp(0.0, 1.0);
                let air = mix(horizon, zenith, (1.6 * low).min(1.0));
                let air = mix(air, glow, glow_share * (1.0 - low));
                let mut texel = mix(air, shade(hill, 0.7 + 0.9 * low), below(hills));
                for tower in &towers {
                    if distance(turn, tower.turn) < tower.half_width {
                        texel = mix(texel, tower.colour, below(tower.height));
                    }
                }
                texels.push(texel);
            }
        }
        Sky { texels }
    }

    /// The column in the direction `turn`, from -1 to 2 full turns from the direction of x, from the horizon upwards.
    pub fn column(&self, turn: f32) -> &[Texel] {
        let azimuth = whole((turn + 1.0) * Sky::AZIMUTHS as f32) % Sky::AZIMUTHS;
        &self.texels[azimuth * Sky::ELEVATIONS..][..Sky::ELEVATIONS]
    }
}

/// A tower on the horizon.
struct Tower {
    /// Direction, in full turns.
    turn: f32,
    half_width: f32,
    /// Tangent of the elevation of its top.
    height: f32,
    colour: Texel,
}

impl Tower {
    fn new(generator: &mut ChaCha8Rng) -> Tower {
        Tower {
            turn: generator.random(),
            half_width: generator.random_range(0.008..0.025),
            height: generator.random_range(0.35..0.55),
            colour: colour(
                generator.random(),
                generator.random_range(0.5..0.9),
                generator.random_range(0.25..0.95),
            ),
        }
    }
}

/// The distance of two directions, in full turns: at most a half.
fn distance(first: f32, second: f32) -> f32 {
    let apart = (first - second).abs().fract();
    apart.min(1.0 - apart)
}

/// The floor of the whole map, painted once, with smaller copies of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Floor {
    levels: Vec<Level>,
    /// All levels, the largest first; each `[height, width]`.
    pub texels: Vec<Texel>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    per_cell: f32,
    width: usize,
    height: usize,
    /// The position of its first texel.
    start: usize,
}

/// What is the same for the floor of some rows of pixels in a whole frame: each row's level.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloorRows<const LANES: usize> {
    per_cell: [f32; LANES],
    /// The last column of the level, and its last row.
    last: [[f32; LANES]; 2],
    width: [u32; LANES],
    start: [u32; LANES],
}

impl<const LANES: usize> FloorRows<LANES> {
    /// For each row, where the texel of a point of the map lies among those of the floor; the point is in cells. For a
    /// point outside the map it is the nearest texel.
    #[inline]
    pub fn places(&self, x: [f32; LANES], y: [f32; LANES]) -> [u32; LANES] {
        let mut places = self.start;
        for (lane, place) in places.iter_mut().enumerate() {
            let column = clamped(x[lane] * self.per_cell[lane], self.last[0][lane]);
            let row = clamped(y[lane] * self.per_cell[lane], self.last[1][lane]);
            *place += row * self.width[lane] + column;
        }
        places
    }
}

impl Floor {
    /// Texels along a cell at level 0. Each further level has half as many.
    const PER_CELL: usize = 8;
    const LEVELS: usize = 4;

    /// The floor of a map of `width` x `height` cells, where `pattern` gives the pattern of a cell.
    pub fn new<'a>(
        width: usize,
        height: usize,
        pattern: impl Fn(usize, usize) -> Option<&'a FloorPattern>,
    ) -> Floor {
        let per_cell = Floor::PER_CELL;
        let mut texels = Vec::with_capacity(width * height * per_cell * per_cell);
        for row in 0..height * per_cell {
            for column in 0..width * per_cell {
                let cell = pattern(column / per_cell, row / per_cell);
                texels.push(cell.map_or([0.0, 0.0, 0.0, 1.0], |pattern| pattern.at(column, row)));
            }
        }
        let mut levels = vec![Level {
            per_cell: per_cell as f32,
            width: width * per_cell,
            height: height * per_cell,
            start: 0,
        }];
        for larger in 0..Floor::LEVELS - 1 {
            levels.push(levels[larger].halved(&mut texels));
        }
        Floor { levels, texels }
    }

    /// The level whose texels are about as large as pixels, where a cell covers `pixels` pixels.
    pub fn level(pixels: f32) -> usize {
        let texels_per_pixel = Floor::PER_CELL as f32 * std::f32::consts::SQRT_2 / pixels;
        ((texels_per_pixel as u32).max(1).ilog2() as usize).min(Floor::LEVELS - 1)
    }

    /// What is the same in a frame for rows of pixels that are drawn from these levels.
    pub fn rows<const LANES: usize>(&self, levels: [usize; LANES]) -> FloorRows<LANES> {
        let levels = levels.map(|level| self.levels[level]);
        FloorRows {
            per_cell: levels.map(|level| level.per_cell),
            last: [
                levels.map(|level| (level.width - 1) as f32),
                levels.map(|level| (level.height - 1) as f32),
            ],
            width: levels.map(|level| level.width as u32),
            start: levels.map(|level| level.start as u32),
        }
    }

    /// The colour at a place, in cells; places outside the map give the colour of its edge.
    pub fn at(&self, level: usize, x: f32, y: f32) -> Texel {
        let [place] = self.rows([level]).places([x], [y]);
        self.texels[place as usize]
    }
}

impl Level {
    /// The next level, whose texels it adds: each the mean of four of this level.
    fn halved(self, texels: &mut Vec<Texel>) -> Level {
        let smaller = Level {
            per_cell: self.per_cell / 2.0,
            width: self.width / 2,
            height: self.height / 2,
            start: texels.len(),
        };
        for index in 0..smaller.height * smaller.width {
            let (row, column) = (index / smaller.width, index % smaller.width);
            let first = self.start + row * 2 * self.width + column * 2;
            texels.push(mean(
                [0, 1, self.width, self.width + 1].map(|offset| texels[first + offset]),
            ));
        }
        smaller
    }
}

/// The pattern of the floor of a room or of the corridors.
pub(super) struct FloorPattern {
    first: Texel,
    second: Texel,
    kind: usize,
    noise: Noise,
}

impl FloorPattern {
    /// A floor of one hue; a dull one for corridors.
    pub fn new(hue: f32, saturation: f32, generator: &mut ChaCha8Rng) -> FloorPattern {
        let value = generator.random_range(0.5..0.75);
        FloorPattern {
            first: colour(hue, saturation, value),
            second: colour(hue + 0.05, saturation, value * 0.62),
            kind: generator.random_range(0..3),
            noise: Noise::new(generator),
        }
    }

    /// The colour of a texel of the map's floor.
    fn at(&self, column: usize, row: usize) -> Texel {
        let half = Floor::PER_CELL / 2;
        let share = match self.kind {
            0 => ((column / half + row / half) % 2) as f32,
            1 => {
                let joint = |texel: usize| texel.is_multiple_of(Floor::PER_CELL);
                f32::from(joint(column) || joint(row))
            }
            _ => self.noise.at(column as f32 / 32.0, row as f32 / 32.0),
        };
        mix(self.first, self.second, share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn the_sky_continues_after_a_full_turn() {
        let sky = Sky::new(&mut Stream::new(1, "test").at(0));
        for turn in [0.0, 0.251, 0.999] {
            assert_eq!(sky.column(turn), sky.column(turn + 1.0));
            assert_eq!(sky.column(turn), sky.column(turn - 1.0));
        }
        assert_ne!(sky.column(0.1), sky.column(0.6));
        let texels = sky.texels.iter().flatten();
        assert!(texels.clone().all(|value| (0.0..=1.0).contains(value)));
    }

    #[test]
    fn smaller_floors_are_means() {
        let pattern = FloorPattern::new(0.2, 0.5, &mut Stream::new(1, "test").at(0));
        let floor = Floor::new(3, 2, |x, _| (x == 1).then_some(&pattern));
        assert_eq!(floor.at(0, 0.5, 0.5), [0.0, 0.0, 0.0, 1.0]);
        let mean = |level: usize| {
            let level = floor.levels[level];
            let texels = &floor.texels[level.start..][..level.height * level.width];
            texels.iter().map(|texel| texel[1]).sum::<f32>() / texels.len() as f32
        };
        assert!(mean(0) > 0.05);
        for level in 1..Floor::LEVELS {
            assert!((mean(level) - mean(0)).abs() < 1e-4);
        }
        assert_eq!(floor.at(0, 1e9, 1e9), floor.at(0, 2.99, 1.99));
        assert_eq!(floor.at(0, -1.0, -1.0), floor.at(0, 0.0, 0.0));
    }
}
