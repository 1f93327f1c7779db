//! Colour reaction: a shape moves to another, which then changes its colour (cgqn, section 4.1).

use super::narratives::{COLOURS, Kind, Shape, Story, between, distance, placed};
use rand::RngExt;

/// Frames before the change.
const BEFORE: usize = 6;

/// See [`Narratives::colour_reaction`](super::Narratives::colour_reaction).
pub(super) const REACTION: Kind = Kind {
    name: "colour-reaction",
    frames: 2 * BEFORE,
    shown: BEFORE,
    reveals: Some(BEFORE),
    tells: |frame| frame >= BEFORE,
    story: |generator| {
        let count = generator.random_range(2..=3);
        Box::new(Reaction {
            shapes: placed(count, generator),
            change: generator.random_range(0..COLOURS - 1),
        })
    },
};

struct Reaction {
    /// The one that moves, the one that changes, and others.
    shapes: Vec<Shape>,
    /// The completion that is true: by how many colours, less one, the new one follows the old one.
    change: usize,
}

impl Story for Reaction {
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

    fn shapes(&self, frame: usize, completion: usize) -> Vec<Shape> {
        let mut shapes = self.shapes.clone();
        let (mover, met) = (self.shapes[0], self.shapes[1]);
        let apart = distance(mover.at, met.at);
        let way = 1.0 - (mover.radius + met.radius) / apart;
        let share = frame.min(BEFORE - 1) as f32 / (BEFORE - 1) as f32;
        shapes[0].at = between(mover.at, met.at, way * share);
        if frame >= BEFORE {
            shapes[1].colour = (met.colour + 1 + completion) % COLOURS;
        }
        shapes
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Narratives, Scenes, Showing, testing::holds};
    use super::*;
    use crate::{Split, Stream};

    #[test]
    fn stories_are_scenes() {
        for side in [16, 32, 64] {
            let showing = Showing {
                anywhere: false,
                context_least: 1,
                context_most: 6,
                targets_least: 4,
                targets: 4,
                hiding: 0.0,
                revealing: false,
            };
            holds(&Narratives::colour_reaction(side).unwrap(), showing);
        }
    }

    #[test]
    fn the_old_colour_is_no_completion() {
        let stories = Narratives::colour_reaction(16).unwrap();
        let scene = stories.scene(Split::Train, &Stream::new(1, "stories"), 0);
        let mut frames = [vec![0.0; 768], vec![0.0; 768]];
        scene.render(BEFORE - 1, 0, &mut frames[0]);
        scene.render(BEFORE, scene.completions(), &mut frames[1]);
        assert_eq!(frames[0], frames[1]);
    }
}
