//! DAG chase: each of four shapes chases another, but the first, which goes to a goal of its own (cgqn, section 4.1).

use super::{
    Scene, Scenes, check_side,
    narratives::{Shape, between, distance, draw, frame_shape, place, placed},
    of_split,
};
use crate::{Error, FrameShape, Split, Stream};
use rand::RngExt;

/// Shapes of a story.
const SHAPES: usize = 4;
const FRAMES: usize = 20;
/// Frames from which a context is drawn.
const SHOWN: usize = 6;
/// Pixels of a frame of 64 that a shape moves between two frames.
const SPEEDS: std::ops::Range<f32> = 1.5..3.0;

/// Stories of 20 frames. Nothing that is hidden can be read off one frame, so these scenes hide nothing.
#[derive(Clone, Debug)]
pub struct DagChase {
    side: usize,
}

impl DagChase {
    /// Stories in frames of `side` rows and columns.
    ///
    /// # Errors
    /// If the side is out of range.
    pub fn new(side: usize) -> Result<Self, Error> {
        check_side(side)?;
        Ok(Self { side })
    }
}

impl Scenes for DagChase {
    fn name(&self) -> &'static str {
        "dag-chase"
    }

    fn frame(&self) -> FrameShape {
        frame_shape(self.side)
    }

    /// The time, from `1 / 20` to 1.
    fn query_width(&self) -> usize {
        1
    }

    fn hides(&self) -> bool {
        false
    }

    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_> {
        let mut generator = stream.at(of_split(split, index));
        let shapes = placed(SHAPES, &mut generator);
        let goal = place(shapes[0].radius, &mut generator);
        let speeds = [(); SHAPES].map(|()| generator.random_range(SPEEDS));
        // Shape 0 has no quarry; each other shape chases an earlier one.
        let quarries = [1, 2, 3].map(|shape| generator.random_range(0..shape));
        Box::new(Chase {
            side: self.side,
            frames: chase(shapes, goal, speeds, quarries),
        })
    }
}

/// All frames of a chase. A shape that can reach what it goes to in one step stops there.
fn chase(
    mut shapes: Vec<Shape>,
    goal: [f32; 2],
    speeds: [f32; SHAPES],
    quarries: [usize; SHAPES - 1],
) -> Vec<Vec<Shape>> {
    let mut frames = vec![shapes.clone()];
    while frames.len() < FRAMES {
        let before: Vec<[f32; 2]> = shapes.iter().map(|shape| shape.at).collect();
        for (shape, speed) in speeds.into_iter().enumerate() {
            let to = match shape.checked_sub(1) {
                None => goal,
                Some(chaser) => before[quarries[chaser]],
            };
            let way = distance(before[shape], to);
            let share = if way > speed { speed / way } else { 1.0 };
            shapes[shape].at = between(before[shape], to, share);
        }
        frames.push(shapes.clone());
    }
    frames
}

struct Chase {
    side: usize,
    frames: Vec<Vec<Shape>>,
}

impl Scene for Chase {
    fn views(&self) -> usize {
        FRAMES
    }

    fn context_views(&self) -> usize {
        SHOWN
    }

    fn query(&self, view: usize, query: &mut [f32]) {
        query[0] = (view + 1) as f32 / FRAMES as f32;
    }

    fn completions(&self) -> usize {
        0
    }

    fn truth(&self) -> usize {
        0
    }

    fn render(&self, view: usize, _: usize, frame: &mut [f32]) {
        draw(&self.frames[view], self.side, frame);
    }

    fn reveals(&self, _: usize) -> bool {
        false
    }

    fn tells(&self, _: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Showing, testing::holds};
    use super::*;

    #[test]
    fn chases_are_scenes() {
        let showing = Showing {
            context_least: 1,
            context_most: 6,
            targets: 4,
        };
        holds(&DagChase::new(32).unwrap(), showing);
    }

    #[test]
    fn shapes_move_at_their_speeds_towards_what_they_chase() {
        let shapes = placed(SHAPES, &mut Stream::new(1, "chase").at(0));
        let speeds = [1.5, 2.0, 2.5, 3.0];
        let frames = chase(shapes, [32.0, 32.0], speeds, [0, 0, 2]);
        assert_eq!(frames.len(), FRAMES);
        for pair in frames.windows(2) {
            for (shape, quarry) in [(1, 0), (2, 0), (3, 2)] {
                let moved = distance(pair[0][shape].at, pair[1][shape].at);
                let before = distance(pair[0][shape].at, pair[0][quarry].at);
                let left = distance(pair[1][shape].at, pair[0][quarry].at);
                assert!((moved - speeds[shape].min(before)).abs() < 1e-4);
                assert!((before - moved - left).abs() < 1e-4);
            }
        }
    }
}
