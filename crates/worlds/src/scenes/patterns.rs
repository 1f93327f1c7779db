//! Patterns that are rolled: a toy whose best bound is known.

use super::{Ask, Scene, Scenes, check_side, of_split};
use crate::{Error, FrameShape, Split, Stream, settings::check};
use rand::RngExt;
use std::f32::consts::TAU;

/// Scenes of one of some random patterns each; a view is the pattern, rolled to the right by any number of pixels. A pattern
/// has 4x4 blocks of one colour each, whose channels have one of two values, drawn by a coin.
///
/// Nothing is known without a context, so a model that draws one latent for a scene cannot pay less than `log patterns`
/// nats, and one that draws a latent for every target not less than that for each.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// `[patterns, channels, side, side]`
    patterns: Vec<f32>,
    count: usize,
    side: usize,
}

/// Colour channels of a pattern.
const CHANNELS: usize = 3;
/// Blocks along each side of a pattern.
const BLOCKS: usize = 4;
/// The two values of a block's colour channels: patterns are far apart even where the variance of a pixel is as high as 0.8.
const VALUES: [f32; 2] = [0.1, 0.9];

impl Patterns {
    /// `count` patterns with `side` rows and columns, always the same.
    ///
    /// # Errors
    /// If `count` is not from 2 to 10,000 or `side` is not from 8 to 256.
    pub fn new(count: usize, side: usize) -> Result<Self, Error> {
        check("scenes.patterns", count, 2..=10_000, || {
            "it must be from 2 to 10000".into()
        })?;
        check_side(side)?;
        let of_pattern = CHANNELS * BLOCKS * BLOCKS;
        let coins = Stream::new(0, "patterns").uniform_values(0, count * of_pattern);
        let mut patterns = Vec::with_capacity(count * CHANNELS * side * side);
        for plane in coins.chunks(BLOCKS * BLOCKS) {
            let block = |pixel: usize| pixel * BLOCKS / side;
            for row in 0..side {
                let values = (0..side).map(|column| plane[block(row) * BLOCKS + block(column)]);
                patterns.extend(values.map(|coin| VALUES[usize::from(coin >= 0.5)]));
            }
        }
        Ok(Self {
            patterns,
            count,
            side,
        })
    }
}

impl Scenes for Patterns {
    fn name(&self) -> &'static str {
        "patterns"
    }

    fn frame(&self) -> FrameShape {
        FrameShape {
            channels: CHANNELS,
            height: self.side,
            width: self.side,
        }
    }

    /// Cosine and sine of the angle of the roll.
    fn query_width(&self) -> usize {
        2
    }

    /// Every view tells everything, so none may be shown where it is to be hidden.
    fn most(&self, ask: Ask) -> [usize; 2] {
        match ask {
            Ask::Hidden => [0, self.side],
            _ => [self.side, self.side],
        }
    }

    fn around(&self) -> bool {
        true
    }

    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_> {
        let mut generator = stream.at(of_split(split, index));
        Box::new(Rolled {
            of: self,
            pattern: generator.random_range(0..self.count),
        })
    }
}

/// A pattern.
struct Rolled<'a> {
    of: &'a Patterns,
    pattern: usize,
}

impl Scene for Rolled<'_> {
    fn views(&self) -> usize {
        self.of.side
    }

    fn query(&self, view: usize, query: &mut [f32]) {
        let angle = TAU * view as f32 / self.of.side as f32;
        query.copy_from_slice(&[angle.cos(), angle.sin()]);
    }

    fn completions(&self) -> usize {
        self.of.count
    }

    fn truth(&self) -> usize {
        self.pattern
    }

    fn render(&self, view: usize, completion: usize, frame: &mut [f32]) {
        let side = self.of.side;
        let pattern = &self.of.patterns[completion * frame.len()..][..frame.len()];
        for (line, pattern) in frame.chunks_mut(side).zip(pattern.chunks(side)) {
            for (column, value) in line.iter_mut().enumerate() {
                *value = pattern[(column + side - view) % side];
            }
        }
    }

    fn reveals(&self, _: usize) -> bool {
        true
    }

    fn tells(&self, _: usize) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Showing, testing::holds};
    use super::*;

    #[test]
    fn patterns_are_scenes() {
        let showing = Showing {
            anywhere: false,
            context_least: 0,
            context_most: 0,
            targets_least: 1,
            targets: 3,
            hiding: 0.0,
            revealing: false,
        };
        holds(&Patterns::new(16, 8).unwrap(), showing);
    }

    /// A roll moves the first pixel, and what leaves at the right comes in at the left.
    #[test]
    fn a_view_is_a_roll() {
        let patterns = Patterns::new(2, 8).unwrap();
        let scene = patterns.scene(Split::Train, &Stream::new(1, "scenes"), 0);
        let mut frames = [vec![0.0; 192], vec![0.0; 192]];
        scene.render(0, 0, &mut frames[0]);
        scene.render(2, 0, &mut frames[1]);
        assert_eq!(frames[0][0], frames[1][2]);
        assert_eq!(frames[0][7], frames[1][1]);
    }
}
