//! The travelling salesman: a shape visits four others (cgqn, section 4.1).

use super::{
    Scene, Scenes, check_side,
    narratives::{Shape, between, draw, frame_shape, placed},
    of_split,
};
use crate::{Error, FrameShape, Split, Stream};
use rand::seq::SliceRandom;

/// Shapes that are visited.
const STOPS: usize = 4;
/// Frames of the way to a stop; the last is at the stop.
const LEG: usize = 5;
const FRAMES: usize = STOPS * LEG;
/// Frames from which a context is drawn.
const SHOWN: usize = 6;

/// The orders of the last three of four stops.
const ORDERS: [[usize; STOPS - 1]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// Stories of 20 frames with five shapes: the last visits the others one after the other, in straight lines of five
/// frames each. After the first visit, frame 5, the order of the others is hidden: its completions are the six orders.
/// Frame 6, from which training draws contexts too, already tells the second stop.
#[derive(Clone, Debug)]
pub struct TravellingSalesman {
    side: usize,
}

impl TravellingSalesman {
    /// Stories in frames of `side` rows and columns.
    ///
    /// # Errors
    /// If the side is out of range.
    pub fn new(side: usize) -> Result<Self, Error> {
        check_side(side)?;
        Ok(Self { side })
    }
}

impl Scenes for TravellingSalesman {
    fn name(&self) -> &'static str {
        "travelling-salesman"
    }

    fn frame(&self) -> FrameShape {
        frame_shape(self.side)
    }

    /// The time, from `1 / 20` to 1.
    fn query_width(&self) -> usize {
        1
    }

    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_> {
        let mut generator = stream.at(of_split(split, index));
        let shapes = placed(STOPS + 1, &mut generator);
        let mut stops: Vec<usize> = (0..STOPS).collect();
        stops.shuffle(&mut generator);
        // The last three in ascending order, so that their order is that of `ORDERS`.
        let mut last: Vec<usize> = stops[1..].to_vec();
        last.sort_unstable();
        let order = ORDERS.iter().position(|order| {
            let of = order.map(|place| last[place]);
            of[..] == stops[1..]
        });
        Box::new(Journey {
            side: self.side,
            shapes,
            first: stops[0],
            last,
            order: order.expect("all orders are listed"),
        })
    }
}

struct Journey {
    side: usize,
    /// The stops, then the one who visits them.
    shapes: Vec<Shape>,
    first: usize,
    last: Vec<usize>,
    order: usize,
}

impl Journey {
    /// The stops in order.
    fn stops(&self, completion: usize) -> [usize; STOPS] {
        let [second, third, fourth] = ORDERS[completion].map(|place| self.last[place]);
        [self.first, second, third, fourth]
    }
}

impl Scene for Journey {
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
        ORDERS.len()
    }

    fn truth(&self) -> usize {
        self.order
    }

    fn render(&self, view: usize, completion: usize, frame: &mut [f32]) {
        let stops = self.stops(completion);
        let (leg, step) = (view / LEG, view % LEG);
        let from = match leg.checked_sub(1) {
            None => self.shapes[STOPS].at,
            Some(before) => self.shapes[stops[before]].at,
        };
        let to = self.shapes[stops[leg]].at;
        let mut shapes = self.shapes.clone();
        shapes[STOPS].at = between(from, to, (step + 1) as f32 / LEG as f32);
        draw(&shapes, self.side, frame);
    }

    fn reveals(&self, view: usize) -> bool {
        view >= LEG
    }

    fn tells(&self, view: usize) -> bool {
        view >= LEG
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Showing, testing::holds};
    use super::*;

    const SHOWING: Showing = Showing {
        context_least: 1,
        context_most: 6,
        targets: 4,
    };

    #[test]
    fn journeys_are_scenes() {
        for side in [16, 32, 64] {
            holds(&TravellingSalesman::new(side).unwrap(), SHOWING);
        }
    }

    #[test]
    fn each_stop_is_visited_once() {
        let stream = Stream::new(1, "journeys");
        let journey = Journey {
            side: 16,
            shapes: placed(5, &mut stream.at(0)),
            first: 2,
            last: vec![0, 1, 3],
            order: 3,
        };
        assert_eq!(journey.stops(journey.order), [2, 1, 3, 0]);
        for completion in 0..ORDERS.len() {
            let mut stops = journey.stops(completion);
            stops.sort_unstable();
            assert_eq!(stops, [0, 1, 2, 3]);
        }
    }
}
