//! Procedural textures: square pictures, each with smaller copies of itself (a mip map), so that a distant wall shows
//! the mean of its pattern and does not flicker.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Red, green, blue and opacity, each in [0, 1]; the colours are multiplied by the opacity.
pub(super) type Texel = [f32; 4];

/// A square picture with smaller copies of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Texture {
    /// All levels, the largest first; each column by column, from top to bottom.
    texels: Vec<Texel>,
}

impl Texture {
    /// Texels of a side of level 0. Each further level has half as many.
    pub const SIDE: usize = 32;
    const LEVELS: usize = 6;
    /// The position of each level's first texel.
    const STARTS: [usize; Texture::LEVELS] = {
        let mut starts = [0; Texture::LEVELS];
        let mut level = 1;
        while level < Texture::LEVELS {
            let side = Texture::SIDE >> (level - 1);
            starts[level] = starts[level - 1] + side * side;
            level += 1;
        }
        starts
    };

    /// The picture whose texel in this column and row is `colour(column, row)`, and its smaller copies.
    pub fn paint(mut colour: impl FnMut(usize, usize) -> Texel) -> Texture {
        let side = Texture::SIDE;
        let mut texels = Vec::with_capacity(side * side * 4 / 3 + 1);
        for column in 0..side {
            texels.extend((0..side).map(|row| colour(column, row)));
        }
        for level in 1..Texture::LEVELS {
            let (start, larger) = (Texture::STARTS[level - 1], side >> (level - 1));
            for column in 0..larger / 2 {
                for row in 0..larger / 2 {
                    let first = start + 2 * column * larger + 2 * row;
                    let four = [0, 1, larger, larger + 1].map(|offset| texels[first + offset]);
                    texels.push(mean(four));
                }
            }
        }
        Texture { texels }
    }

    /// The level whose texels are about as large as pixels, where the whole picture covers `pixels` pixels.
    pub fn level(pixels: f32) -> usize {
        // Rounded on a logarithmic scale: factors of 2^(1/2) and above go to the next level.
        let texels_per_pixel = Texture::SIDE as f32 * std::f32::consts::SQRT_2 / pixels;
        ((texels_per_pixel as u32).max(1).ilog2() as usize).min(Texture::LEVELS - 1)
    }

    /// The column at `across` (0 at the left, 1 at the right) of a level, from top to bottom.
    pub fn column(&self, level: usize, across: f32) -> &[Texel] {
        let side = Texture::SIDE >> level;
        let column = ((across * side as f32) as usize).min(side - 1);
        let start = Texture::STARTS[level] + column * side;
        &self.texels[start..start + side]
    }

    /// The mean of all texels.
    pub fn mean(&self) -> Texel {
        self.texels[Texture::STARTS[Texture::LEVELS - 1]]
    }
}

/// The whole part of a small number, 0 below 0. Through `i32`, which processors convert to quickly.
#[inline]
pub(super) fn whole(value: f32) -> usize {
    (value as i32).max(0) as usize
}

/// The lesser of two numbers. `f32::min` costs more, since it knows what to do where one is not a number.
#[inline]
pub(super) fn least(first: f32, second: f32) -> f32 {
    if first < second { first } else { second }
}

/// The whole part of a number, at least 0 and at most `most`, which is less than 2^23. A conversion to an integer,
/// which also covers numbers out of its range, is one number at a time; this is done on several at once.
#[inline]
pub(super) fn clamped(value: f32, most: f32) -> u32 {
    /// From here to twice of it, numbers are whole and follow each other bit by bit.
    const WHOLE: f32 = 8_388_608.0;
    let value = least(if value > 0.0 { value } else { 0.0 }, most);
    let nearest = value + WHOLE;
    let rounded_up = nearest - WHOLE > value;
    nearest.to_bits() - WHOLE.to_bits() - u32::from(rounded_up)
}

/// The mean of four texels.
pub(super) fn mean(four: [Texel; 4]) -> Texel {
    std::array::from_fn(|channel| four.iter().map(|texel| texel[channel]).sum::<f32>() / 4.0)
}

/// The opaque colour with this hue (0 red, 1/3 green, 2/3 blue, 1 red again), saturation and value.
pub(super) fn colour(hue: f32, saturation: f32, value: f32) -> Texel {
    let channel = |shift: f32| {
        let place = (hue + shift).rem_euclid(1.0) * 6.0;
        let pure = ((place - 3.0).abs() - 1.0).clamp(0.0, 1.0);
        value * (1.0 - saturation * (1.0 - pure))
    };
    [channel(0.0), channel(2.0 / 3.0), channel(1.0 / 3.0), 1.0]
}

/// `share` of the second colour, the rest of the first.
#[inline]
pub(super) fn mix(first: Texel, second: Texel, share: f32) -> Texel {
    std::array::from_fn(|channel| first[channel] + share * (second[channel] - first[channel]))
}

/// A colour at this brightness; the opacity is kept.
#[inline]
pub(super) fn shade([red, green, blue, opacity]: Texel, light: f32) -> Texel {
    [red * light, green * light, blue * light, opacity]
}

/// Smooth random heights in [0, 1] on a square that continues itself on all sides.
pub(super) struct Noise {
    knots: [[f32; Noise::KNOTS]; Noise::KNOTS],
}

impl Noise {
    const KNOTS: usize = 8;

    pub fn new(generator: &mut ChaCha8Rng) -> Noise {
        let knots = std::array::from_fn(|_| std::array::from_fn(|_| generator.random()));
        Noise { knots }
    }

    /// The height at a point; the square has side 1.
    pub fn at(&self, x: f32, y: f32) -> f32 {
        let split = |value: f32| {
            let scaled = value.rem_euclid(1.0) * Noise::KNOTS as f32;
            let knot = scaled as usize % Noise::KNOTS;
            let rest = scaled.fract();
            (knot, rest * rest * (3.0 - 2.0 * rest))
        };
        let ((column, right), (row, down)) = (split(x), split(y));
        let next = |knot: usize| (knot + 1) % Noise::KNOTS;
        let line = |row: usize| {
            let knots = &self.knots[row];
            knots[column] + right * (knots[next(column)] - knots[column])
        };
        line(row) + down * (line(next(row)) - line(row))
    }
}

/// A wall of one hue: bricks, stripes, checks or noise.
pub(super) fn wall(hue: f32, generator: &mut ChaCha8Rng) -> Texture {
    let main = colour(
        hue,
        generator.random_range(0.65..0.95),
        generator.random_range(0.65..0.95),
    );
    let beside = hue + generator.random_range(-0.06..0.06);
    let other = if generator.random() {
        colour(beside, 0.35, 0.95)
    } else {
        colour(beside, 0.8, 0.3)
    };
    let noise = Noise::new(generator);
    let side = Texture::SIDE as f32;
    let grain = |column: usize, row: usize| noise.at(column as f32 / side, row as f32 / side);
    match generator.random_range(0..5) {
        0 => Texture::paint(|column, row| {
            let shift = if (row / 8) % 2 == 0 { 0 } else { 8 };
            let joint = row % 8 == 0 || (column + shift) % 16 == 0;
            let brick = shade(
                main,
                0.8 + 0.2 * grain(column / 16 * 16 + shift, row / 8 * 8),
            );
            if joint { other } else { brick }
        }),
        1 => Texture::paint(|column, _| if column % 16 < 8 { main } else { other }),
        2 => Texture::paint(|_, row| if row % 16 < 8 { main } else { other }),
        3 => Texture::paint(|column, row| {
            let even = (column / 16 + row / 16) % 2 == 0;
            if even { main } else { other }
        }),
        _ => Texture::paint(|column, row| mix(main, other, grain(column, row))),
    }
}

/// A wall with a framed picture on it.
pub(super) fn picture(wall: &Texture, generator: &mut ChaCha8Rng) -> Texture {
    let hue: f32 = generator.random();
    let ground = colour(hue, 0.7, 0.9);
    let shape = colour(
        hue + generator.random_range(0.35..0.65),
        0.9,
        generator.random_range(0.5..1.0),
    );
    let frame = if generator.random() {
        [0.08, 0.06, 0.05, 1.0]
    } else {
        [0.95, 0.93, 0.85, 1.0]
    };
    let motif = generator.random_range(0..4);
    let centre: [f32; 2] = std::array::from_fn(|_| generator.random_range(-0.25..0.25));
    let size = generator.random_range(0.3..0.5);
    let (left, right, top, bottom) = (4, 28, 3, 21);
    Texture::paint(|column, row| {
        if !(left..right).contains(&column) || !(top..bottom).contains(&row) {
            let side = Texture::SIDE as f32;
            return wall.column(0, (column as f32 + 0.5) / side)[row];
        }
        let edge = |value: usize, low: usize, high: usize| value < low + 2 || value + 2 >= high;
        if edge(column, left, right) || edge(row, top, bottom) {
            return frame;
        }
        // From -1/2 to 1/2 over the picture.
        let x = (column - left) as f32 / (right - left - 1) as f32 - 0.5 - centre[0];
        let y = (row - top) as f32 / (bottom - top - 1) as f32 - 0.5 - centre[1];
        let inside = match motif {
            0 => x * x + y * y < size * size,
            1 => (x + y).abs() < 0.6 * size,
            2 => x < 0.0,
            _ => y > x.abs() - size,
        };
        if inside { shape } else { ground }
    })
}

/// A round column as seen from the side: one hue with light bands.
pub(super) fn column(hue: f32) -> Texture {
    let (main, band) = (colour(hue, 0.85, 0.9), colour(hue + 0.5, 0.25, 1.0));
    Texture::paint(|column, row| {
        let x = (column as f32 + 0.5) / Texture::SIDE as f32 * 2.0 - 1.0;
        let light = 0.35 + 0.65 * (1.0 - x * x).sqrt();
        let banded = !(4..28).contains(&row) || (12..18).contains(&row);
        shade(if banded { band } else { main }, light)
    })
}

/// A shaded ball, transparent around it.
pub(super) fn ball(hue: f32) -> Texture {
    let main = colour(hue, 0.85, 0.95);
    Texture::paint(|column, row| {
        let place = |index: usize| (index as f32 + 0.5) / Texture::SIDE as f32 * 2.0 - 1.0;
        let (x, y) = (place(column), place(row));
        let height = 1.0 - x * x - y * y;
        if height < 0.0 {
            return [0.0; 4];
        }
        // Light from the upper left, in front.
        let light = (-0.45 * x - 0.6 * y + 0.66 * height.sqrt()).max(0.0);
        let body = shade(main, 0.3 + 0.7 * light);
        mix(body, [1.0; 4], light.powi(12) * 0.8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn colours_are_those_of_the_wheel() {
        assert_eq!(colour(0.0, 1.0, 1.0), [1.0, 0.0, 0.0, 1.0]);
        assert_eq!(colour(1.0 / 3.0, 1.0, 0.5), [0.0, 0.5, 0.0, 1.0]);
        assert_eq!(colour(0.5, 0.0, 0.25), [0.25, 0.25, 0.25, 1.0]);
    }

    #[test]
    fn clamped_numbers_are_whole_parts() {
        for value in [
            -3.0,
            -0.0,
            0.0,
            0.49,
            0.5,
            0.999_999_9,
            1.0,
            1.5,
            2.5,
            30.999_998,
        ] {
            assert_eq!(clamped(value, 31.0) as usize, whole(value), "{value}");
        }
        assert_eq!(clamped(32.0, 31.0), 31);
        assert_eq!(clamped(1e9, 31.0), 31);
        for number in 0..8_000 {
            let value = number as f32 * 1.01;
            assert_eq!(clamped(value, 8_000_000.0), value as u32);
            assert_eq!(clamped(value * 990.0, 8_000_000.0), (value * 990.0) as u32);
        }
    }

    #[test]
    fn smaller_copies_have_the_same_mean() {
        let texture = wall(0.3, &mut Stream::new(1, "test").at(0));
        for level in 0..Texture::LEVELS {
            let side = Texture::SIDE >> level;
            let mut sum = 0.0;
            for column in 0..side {
                let texels = texture.column(level, (column as f32 + 0.5) / side as f32);
                assert_eq!(texels.len(), side);
                sum += texels.iter().map(|texel| texel[0]).sum::<f32>();
            }
            let mean = sum / (side * side) as f32;
            assert!((mean - texture.mean()[0]).abs() < 1e-4, "level {level}");
        }
    }

    #[test]
    fn a_level_has_texels_of_about_one_pixel() {
        assert_eq!(Texture::level(1000.0), 0);
        assert_eq!(Texture::level(32.0), 0);
        assert_eq!(Texture::level(16.0), 1);
        assert_eq!(Texture::level(4.0), 3);
        assert_eq!(Texture::level(0.01), Texture::LEVELS - 1);
    }

    #[test]
    fn noise_continues_at_its_edges() {
        let noise = Noise::new(&mut Stream::new(2, "test").at(0));
        for place in [0.0, 0.3, 0.77] {
            assert!((noise.at(place, 0.0) - noise.at(place, 1.0)).abs() < 1e-5);
            assert!((noise.at(0.0, place) - noise.at(0.99999, place)).abs() < 1e-3);
        }
    }
}
