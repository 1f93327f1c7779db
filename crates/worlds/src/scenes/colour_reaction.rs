//! Colour reaction: a shape moves to another, which then changes its colour (cgqn, section 4.1).

use super::{
    Scene, Scenes, check_side,
    narratives::{COLOURS, Shape, between, distance, draw, frame_shape, placed},
    of_split,
};
use crate::{Error, FrameShape, Split, Stream};
use rand::RngExt;

/// Frames of a story, and those before the change.
const FRAMES: usize = 12;
const BEFORE: usize = 6;

/// Stories of 12 frames with two or three shapes. In frames 1 to 6 the first moves to the second and stops when they
/// touch; in frames 7 to 12 the second has another colour, which is hidden from those who saw only the first half: its
/// completions are the eleven other colours. What a model may wrongly draw is the old one.
#[derive(Clone, Debug)]
pub struct ColourReaction {
    side: usize,
}

impl ColourReaction {
    /// Stories in frames of `side` rows and columns.
    ///
    /// # Errors
    /// If the side is out of range.
    pub fn new(side: usize) -> Result<Self, Error> {
        check_side(side)?;
        Ok(Self { side })
    }
}

impl Scenes for ColourReaction {
    fn name(&self) -> &'static str {
        "colour-reaction"
    }

    fn frame(&self) -> FrameShape {
        frame_shape(self.side)
    }

    /// The time, from `1 / 12` to 1.
    fn query_width(&self) -> usize {
        1
    }

    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_> {
        let mut generator = stream.at(of_split(split, index));
        let count = generator.random_range(2..=3);
        Box::new(Story {
            side: self.side,
            shapes: placed(count, &mut generator),
            change: generator.random_range(0..COLOURS - 1),
        })
    }
}

struct Story {
    side: usize,
    shapes: Vec<Shape>,
    /// The completion that is true.
    change: usize,
}

impl Scene for Story {
    fn views(&self) -> usize {
        FRAMES
    }

    fn context_views(&self) -> usize {
        BEFORE
    }

    fn query(&self, view: usize, query: &mut [f32]) {
        query[0] = (view + 1) as f32 / FRAMES as f32;
    }

    fn completions(&self) -> usize {
        COLOURS - 1
    }

    fn truth(&self) -> usize {
        self.change
    }

    /// The last is the old colour.
    fn renderings(&self) -> usize {
        COLOURS
    }

    fn render(&self, view: usize, completion: usize, frame: &mut [f32]) {
        let mut shapes = self.shapes.clone();
        let (mover, met) = (self.shapes[0], self.shapes[1]);
        let apart = distance(mover.at, met.at);
        let way = 1.0 - (mover.radius + met.radius) / apart;
        let share = view.min(BEFORE - 1) as f32 / (BEFORE - 1) as f32;
        shapes[0].at = between(mover.at, met.at, way * share);
        if view >= BEFORE {
            shapes[1].colour = (met.colour + 1 + completion) % COLOURS;
        }
        draw(&shapes, self.side, frame);
    }

    fn reveals(&self, view: usize) -> bool {
        view >= BEFORE
    }

    fn tells(&self, view: usize) -> bool {
        view >= BEFORE
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Showing, testing::holds};
    use super::*;

    #[test]
    fn stories_are_scenes() {
        for side in [16, 32, 64] {
            let showing = Showing {
                context_least: 1,
                context_most: 6,
                targets: 4,
            };
            holds(&ColourReaction::new(side).unwrap(), showing);
        }
    }

    #[test]
    fn the_old_colour_is_no_completion() {
        let stories = ColourReaction::new(16).unwrap();
        let scene = stories.scene(Split::Train, &Stream::new(1, "stories"), 0);
        let mut frames = [vec![0.0; 768], vec![0.0; 768]];
        scene.render(BEFORE - 1, 0, &mut frames[0]);
        scene.render(BEFORE, scene.completions(), &mut frames[1]);
        assert_eq!(frames[0], frames[1]);
    }
}
