//! DAG chase: the first of four shapes moves to a goal, each other chases an earlier one (cgqn, section 4.1).

use super::narratives::{Kind, Shape, Story, between, distance, place, placed};
use rand::RngExt;

/// Shapes of a story.
const SHAPES: usize = 4;
const FRAMES: usize = 20;
/// Pixels of a frame of 64 that a shape moves between two frames.
const SPEEDS: std::ops::Range<f32> = 1.5..3.0;

/// See [`Narratives::dag_chase`](super::Narratives::dag_chase).
pub(super) const CHASE: Kind = Kind {
    name: "dag-chase",
    frames: FRAMES,
    shown: 6,
    reveals: None,
    tells: |_| false,
    story: |generator| {
        let shapes = placed(SHAPES, generator);
        let goal = place(shapes[0].radius, generator);
        let speeds = [(); SHAPES].map(|()| generator.random_range(SPEEDS));
        // Shape 0 has no quarry; each other shape chases an earlier one.
        let quarries = [1, 2, 3].map(|shape| generator.random_range(0..shape));
        Box::new(Chase(chase(shapes, goal, speeds, quarries)))
    },
};

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

/// All frames of a chase.
struct Chase(Vec<Vec<Shape>>);

impl Story for Chase {
    fn shapes(&self, frame: usize, _: usize) -> Vec<Shape> {
        self.0[frame].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Narratives, Showing, testing::holds};
    use super::*;
    use crate::Stream;

    #[test]
    fn chases_are_scenes() {
        let showing = Showing {
            anywhere: false,
            context_least: 1,
            context_most: 6,
            targets_least: 4,
            targets: 4,
            hiding: 0.0,
            revealing: false,
        };
        holds(&Narratives::dag_chase(32).unwrap(), showing);
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
