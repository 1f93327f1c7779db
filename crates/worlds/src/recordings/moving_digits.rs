//! Moving digits: two digits of MNIST that fly over a square of 64 x 64 pixels and bounce off its
//! edges into a new random direction (Denton, Fergus 2018: stochastic moving MNIST).
//!
//! A digit keeps its speed. At a bounce it gets a new random direction, uniform over those that lead
//! away from the edge. The motion after a bounce cannot be predicted from the past; all other motion can.

use std::f32::consts::{PI, TAU};
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::settings::{check, check_length};
use crate::{
    DataSet, Error, FrameShape, Images, SequenceBatch, Split, Stream, Window, sequence_number,
};

/// An unlimited source of sequences of moving digits.
#[derive(Clone, Debug)]
pub struct MovingDigits {
    data: Arc<DataSet>,
    digits: usize,
    length: usize,
    speed: f32,
}

impl MovingDigits {
    /// Pixel rows and columns of a frame.
    pub const SIDE: usize = 64;
    /// One frame.
    pub const FRAME: FrameShape = FrameShape {
        channels: 1,
        height: MovingDigits::SIDE,
        width: MovingDigits::SIDE,
    };
    /// Pixels that a digit moves per step.
    pub const SPEED: f32 = 3.5;

    /// Sequences of `length` frames with `digits` digits of `data`.
    ///
    /// # Errors
    /// A length or number is out of range.
    pub fn new(data: Arc<DataSet>, digits: usize, length: usize) -> Result<MovingDigits, Error> {
        check("task.digits", digits, 1..=16, || {
            "the digits that move must be from 1 to 16".to_owned()
        })?;
        check_length(length)?;
        Ok(MovingDigits {
            data,
            digits,
            length,
            speed: MovingDigits::SPEED,
        })
    }

    /// Batch `index` of `batch` sequences with digits of a split; row `r` is made only from draw
    /// [`sequence_number`]`(index, batch, r)` of `stream`, and [`Window::recording`] is 0.
    ///
    /// Where digits overlap, the brighter pixel wins.
    pub fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> SequenceBatch {
        let size = MovingDigits::FRAME.size();
        let mut values = vec![0.0; batch * self.length * size];
        for (row, frames) in values.chunks_exact_mut(self.length * size).enumerate() {
            let mut generator = stream.at(sequence_number(index, batch, row));
            self.fill(frames, self.data.split(split), &mut generator);
        }
        let window = Window {
            recording: 0,
            start: 0,
        };
        SequenceBatch {
            values,
            batch,
            time: self.length,
            frame: MovingDigits::FRAME,
            lengths: vec![self.length; batch],
            windows: vec![window; batch],
        }
    }

    fn fill(&self, frames: &mut [f32], images: &Images, generator: &mut ChaCha8Rng) {
        for _ in 0..self.digits {
            let digit = images.image(images.draw(generator));
            let digit = digit.expect("drawn from those that there are");
            let mut flight = Flight::new(self.speed, generator);
            for frame in frames.chunks_exact_mut(MovingDigits::FRAME.size()) {
                let [top, left] = flight.place.map(|place| place.round() as usize);
                for (row, pixels) in digit.chunks_exact(Images::COLUMNS).enumerate() {
                    let start = (top + row) * MovingDigits::SIDE + left;
                    for (seen, &pixel) in frame[start..].iter_mut().zip(pixels) {
                        *seen = seen.max(f32::from(pixel) / 255.0);
                    }
                }
                flight.advance(generator);
            }
        }
    }
}

/// Largest position of a digit's first row or column.
const FARTHEST: f32 = (MovingDigits::SIDE - Images::ROWS) as f32;

/// Position and velocity of a digit.
struct Flight {
    /// Row and column of its first pixel, each in `0..=FARTHEST`.
    place: [f32; 2],
    /// Rows and columns per step.
    velocity: [f32; 2],
    speed: f32,
}

impl Flight {
    fn new(speed: f32, generator: &mut ChaCha8Rng) -> Flight {
        let place = [0, 1].map(|_| generator.random_range(0.0..=FARTHEST));
        let direction = generator.random_range(0.0..TAU);
        Flight {
            place,
            velocity: [speed * direction.sin(), speed * direction.cos()],
            speed,
        }
    }

    fn advance(&mut self, generator: &mut ChaCha8Rng) {
        for axis in [0, 1] {
            self.place[axis] += self.velocity[axis];
        }
        for axis in [0, 1] {
            let inside = self.place[axis].clamp(0.0, FARTHEST);
            if inside == self.place[axis] {
                continue;
            }
            let away = if self.place[axis] < 0.0 { 1.0 } else { -1.0 };
            self.place[axis] = inside;
            // A half circle; in a corner, the quarter that leads away from both edges.
            let angle = generator.random_range(-PI / 2.0..PI / 2.0);
            self.velocity[axis] = away * self.speed * angle.cos();
            self.velocity[1 - axis] = self.speed * angle.sin();
            let other = self.place[1 - axis];
            if other <= 0.0 {
                self.velocity[1 - axis] = self.velocity[1 - axis].abs();
            } else if other >= FARTHEST {
                self.velocity[1 - axis] = -self.velocity[1 - axis].abs();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{DIGITS, constant_images, split};

    /// First row and column of a frame that contain ink.
    fn corner(frame: &[f32]) -> [usize; 2] {
        let inked: Vec<usize> = (0..frame.len())
            .filter(|&place| frame[place] > 0.0)
            .collect();
        let side = MovingDigits::SIDE;
        [
            inked.iter().map(|place| place / side).min().unwrap(),
            inked.iter().map(|place| place % side).min().unwrap(),
        ]
    }

    proptest! {
        #[test]
        fn a_sequence_is_a_function_of_seed_and_number(split in split(), index in 0u64..100) {
            let task = MovingDigits::new(DIGITS.clone(), 2, 7).unwrap();
            let stream = Stream::new(4, "data");
            let batch = task.batch(split, &stream, index, 2);
            let singles = [0, 1].map(|row| task.batch(split, &stream, 2 * index + row, 1).values);
            prop_assert_eq!(&batch.values, &singles.concat());
            prop_assert_eq!(batch.values.len(), 2 * 7 * 64 * 64);
            prop_assert!(batch.values.iter().all(|value| (0.0..=1.0).contains(value)));
        }

        /// The whole digit is visible, it moves at its speed, and only an edge changes its direction.
        #[test]
        fn a_digit_flies_straight_until_it_bounces(index in 0u64..200) {
            // One label: image 0 of `constant_images` is black, image 1 is not.
            let data = constant_images(&[0, 1], &[0, 1]);
            let task = MovingDigits::new(data, 1, 60).unwrap();
            let batch = task.batch(Split::Train, &Stream::new(4, "data"), index, 1);
            prop_assume!(batch.values.iter().any(|&value| value > 0.0));
            let places: Vec<[f32; 2]> = (0..60)
                .map(|step| {
                    let frame = batch.frame_at(0, step).unwrap();
                    assert_eq!(frame.iter().filter(|&&value| value > 0.0).count(), 28 * 28);
                    corner(frame).map(|place| place as f32)
                })
                .collect();
            for step in places.windows(3) {
                let moves = [0, 1].map(|at| [0, 1].map(|axis: usize| step[at + 1][axis] - step[at][axis]));
                let edge = step.iter().any(|place| place.iter().any(|at| !(1.0..=FARTHEST - 1.0).contains(at)));
                if !edge {
                    let length = moves[0][0].hypot(moves[0][1]);
                    prop_assert!((length - MovingDigits::SPEED).abs() < 1.5, "{}", length);
                    for axis in [0, 1] {
                        prop_assert!((moves[0][axis] - moves[1][axis]).abs() <= 2.0);
                    }
                }
            }
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for (digits, length) in [(0, 5), (17, 5), (2, 0)] {
            assert!(MovingDigits::new(DIGITS.clone(), digits, length).is_err());
        }
    }
}
