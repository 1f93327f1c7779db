//! An upright prism with a digit on each face, which a camera circles.

use super::{Ask, Scene, Scenes, check_side, of_split};
use crate::{DataSet, Error, FrameShape, Images, Split, Stream, settings::check};
use rand::RngExt;
use std::f32::consts::{PI, TAU};

/// Faces of a prism.
const FACES: usize = 5;
/// Digits on the faces.
const DIGITS: usize = 10;
/// Half of a face's height. The prism's corners are at distance 1 from its axis, as are the frame's sides.
const HALF_HEIGHT: f32 = 0.75;
/// Rays along each side of a pixel.
const RAYS: usize = 3;
/// A view tells what is on a face if it is seen at no more than this angle.
const TELLS: f32 = 35.0 / 180.0 * PI;

/// Prisms of five faces, each with one of ten digits, always the same image of each. Orthographic, grey, with the light at
/// the camera. The hidden face is one of the five, its completions are the ten digits.
#[derive(Clone, Debug)]
pub struct Prism {
    /// `[10, rows, columns]`, ink in [0, 1].
    digits: Vec<f32>,
    side: usize,
    views: usize,
}

impl Prism {
    /// Prisms with the first image of each digit of a data set, in frames of `side` rows and columns, seen from `views`
    /// angles.
    ///
    /// # Errors
    /// If the data set has no image of some digit, or a number is out of range.
    pub fn new(digits: &DataSet, side: usize, views: usize) -> Result<Self, Error> {
        check_side(side)?;
        check("scenes.views", views, FACES..=10_000, || {
            format!("it must be from {FACES} to 10000")
        })?;
        let images = digits.split(Split::Train);
        let mut all = Vec::with_capacity(DIGITS * Images::SIZE);
        for digit in 0..DIGITS as u16 {
            let first = (0..images.len()).find(|index| images.label(*index) == Some(digit));
            let image = first.and_then(|index| images.image(index));
            let image = image.ok_or_else(|| Error::MissingClass {
                task: "prism",
                data: digits.name(),
                split: Split::Train,
                class: digit,
            })?;
            all.extend(image.iter().map(|ink| f32::from(*ink) / 255.0));
        }
        Ok(Self {
            digits: all,
            side,
            views,
        })
    }
}

impl Scenes for Prism {
    fn name(&self) -> &'static str {
        "prism"
    }

    fn frame(&self) -> FrameShape {
        FrameShape {
            channels: 1,
            height: self.side,
            width: self.side,
        }
    }

    /// Cosine and sine of the camera's angle.
    fn query_width(&self) -> usize {
        2
    }

    /// Of all faces, since a face's normal may lie between two views.
    fn most(&self, ask: Ask) -> [usize; 2] {
        let least = |holds: fn(f32) -> bool| {
            let seen = |view, face| holds(apart(self.angle(view), face));
            let views = |face| (0..self.views).filter(|view| seen(*view, face)).count();
            (0..FACES).map(views).min().unwrap_or(0)
        };
        let tells = || least(|apart| apart <= TELLS);
        match ask {
            Ask::Hidden => [least(|apart| apart >= PI / 2.0), tells()],
            Ask::Told => [tells(); 2],
            _ => [self.views; 2],
        }
    }

    fn around(&self) -> bool {
        true
    }

    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_> {
        let mut generator = stream.at(of_split(split, index));
        Box::new(Faces {
            of: self,
            digits: [(); FACES].map(|()| generator.random_range(0..DIGITS)),
            hidden: generator.random_range(0..FACES),
        })
    }
}

/// A prism.
struct Faces<'a> {
    of: &'a Prism,
    digits: [usize; FACES],
    hidden: usize,
}

impl Prism {
    /// The camera's angle.
    fn angle(&self, view: usize) -> f32 {
        TAU * view as f32 / self.views as f32
    }
}

/// The angle of a face's normal.
fn normal(face: usize) -> f32 {
    TAU * face as f32 / FACES as f32
}

/// The angle between the camera and the normal of a face, from 0 to pi.
fn apart(angle: f32, face: usize) -> f32 {
    let apart = (angle - normal(face)).rem_euclid(TAU);
    apart.min(TAU - apart)
}

impl Faces<'_> {
    /// The light that a ray at (x, y) meets, y upwards: 0 beside the prism.
    fn light(&self, view: usize, digits: &[usize; FACES], x: f32, y: f32) -> f32 {
        if y.abs() > HALF_HEIGHT {
            return 0.0;
        }
        let half_width = (PI / FACES as f32).sin();
        for (face, digit) in digits.iter().enumerate() {
            // The face's middle is at `apothem sin(turn)` in the frame; along it one goes by `cos(turn)`.
            let turn = normal(face) - self.of.angle(view);
            let facing = turn.cos();
            if facing <= 1e-3 {
                continue;
            }
            let apothem = (PI / FACES as f32).cos();
            let along = (x - apothem * turn.sin()) / facing;
            if along.abs() > half_width {
                continue;
            }
            let column = (along / half_width + 1.0) / 2.0;
            let row = (1.0 - y / HALF_HEIGHT) / 2.0;
            let ink = self.ink(*digit, row, column);
            return (0.35 + 0.65 * ink) * (0.4 + 0.6 * facing);
        }
        0.0
    }

    /// Ink of a digit at a place from 0 to 1.
    fn ink(&self, digit: usize, row: f32, column: f32) -> f32 {
        let at = |place: f32, count: usize| ((place * count as f32) as usize).min(count - 1);
        let (row, column) = (at(row, Images::ROWS), at(column, Images::COLUMNS));
        self.of.digits[digit * Images::SIZE + row * Images::COLUMNS + column]
    }
}

impl Scene for Faces<'_> {
    fn views(&self) -> usize {
        self.of.views
    }

    fn query(&self, view: usize, query: &mut [f32]) {
        let angle = self.of.angle(view);
        query.copy_from_slice(&[angle.cos(), angle.sin()]);
    }

    fn completions(&self) -> usize {
        DIGITS
    }

    fn truth(&self) -> usize {
        self.digits[self.hidden]
    }

    fn render(&self, view: usize, completion: usize, frame: &mut [f32]) {
        let mut digits = self.digits;
        digits[self.hidden] = completion;
        let side = self.of.side;
        let fine = (side * RAYS) as f32;
        let place =
            |pixel: usize, ray: usize| 2.0 * ((pixel * RAYS + ray) as f32 + 0.5) / fine - 1.0;
        for (row, line) in frame.chunks_mut(side).enumerate() {
            for (column, value) in line.iter_mut().enumerate() {
                let rays = (0..RAYS * RAYS).map(|ray| {
                    let x = place(column, ray % RAYS);
                    self.light(view, &digits, x, -place(row, ray / RAYS))
                });
                *value = rays.sum::<f32>() / (RAYS * RAYS) as f32;
            }
        }
    }

    fn reveals(&self, view: usize) -> bool {
        apart(self.of.angle(view), self.hidden) < PI / 2.0
    }

    fn tells(&self, view: usize) -> bool {
        apart(self.of.angle(view), self.hidden) <= TELLS
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Showing, testing::holds};
    use super::*;
    use crate::Mnist;

    #[test]
    fn prisms_are_scenes() {
        for (side, views) in [(16, 20), (16, 144), (32, 144)] {
            let showing = Showing {
                anywhere: false,
                context_least: 1,
                context_most: 4,
                targets_least: 1,
                targets: 3,
                hiding: 0.0,
                revealing: false,
            };
            holds(
                &Prism::new(&Mnist::bundled().unwrap(), side, views).unwrap(),
                showing,
            );
        }
    }

    /// Seen along the normal of a face, its digit is in the middle and upright.
    #[test]
    fn a_face_that_is_looked_at_shows_its_digit() {
        let prism = Prism::new(&Mnist::bundled().unwrap(), 32, 144).unwrap();
        let faces = Faces {
            of: &prism,
            digits: [7, 1, 2, 3, 4],
            hidden: 1,
        };
        let half_width = (PI / FACES as f32).sin();
        for (row, column) in [(0.2, 0.3), (0.5, 0.5), (0.8, 0.6)] {
            let x = (2.0 * column - 1.0) * half_width;
            let y = (1.0 - 2.0 * row) * HALF_HEIGHT;
            let found = faces.light(0, &faces.digits, x, y);
            let ink = faces.ink(7, row, column);
            assert!((found - (0.35 + 0.65 * ink)).abs() < 1e-5);
        }
    }
}
