//! The travelling salesman: a shape visits four others (cgqn, section 4.1).

use super::narratives::{Kind, Shape, Story, between, placed};
use rand::seq::SliceRandom;

/// Shapes that are visited.
const STOPS: usize = 4;
/// Frames of the way to a stop; the last is at the stop.
const LEG: usize = 5;

/// The orders of the last three of four stops.
const ORDERS: [[usize; STOPS - 1]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// See [`Narratives::travelling_salesman`](super::Narratives::travelling_salesman).
pub(super) const JOURNEY: Kind = Kind {
    name: "travelling-salesman",
    frames: STOPS * LEG,
    shown: LEG + 1,
    reveals: Some(LEG),
    // Between the second stop and the third, or the third and the last, both ends of the way can be seen.
    tells: |frame| frame >= 2 * LEG && (frame + 1) % LEG != 0,
    story: |generator| {
        let shapes = placed(STOPS + 1, generator);
        let mut stops: Vec<usize> = (0..STOPS).collect();
        stops.shuffle(generator);
        // The last three in ascending order, so that their order is that of `ORDERS`.
        let mut last: Vec<usize> = stops[1..].to_vec();
        last.sort_unstable();
        let order = ORDERS.iter().position(|order| {
            let of = order.map(|place| last[place]);
            of[..] == stops[1..]
        });
        Box::new(Journey {
            shapes,
            first: stops[0],
            last,
            order: order.expect("all orders are listed"),
        })
    },
};

struct Journey {
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

impl Story for Journey {
    fn completions(&self) -> usize {
        ORDERS.len()
    }

    fn truth(&self) -> usize {
        self.order
    }

    fn shapes(&self, frame: usize, completion: usize) -> Vec<Shape> {
        let stops = self.stops(completion);
        let (leg, step) = (frame / LEG, frame % LEG);
        let from = match leg.checked_sub(1) {
            None => self.shapes[STOPS].at,
            Some(before) => self.shapes[stops[before]].at,
        };
        let to = self.shapes[stops[leg]].at;
        let mut shapes = self.shapes.clone();
        shapes[STOPS].at = between(from, to, (step + 1) as f32 / LEG as f32);
        shapes
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Narratives, Showing, testing::holds};
    use super::*;
    use crate::Stream;

    const SHOWING: Showing = Showing {
        anywhere: false,
        context_least: 1,
        context_most: 6,
        targets_least: 4,
        targets: 4,
        hiding: 0.0,
        revealing: false,
    };

    #[test]
    fn journeys_are_scenes() {
        for side in [16, 32, 64] {
            holds(&Narratives::travelling_salesman(side).unwrap(), SHOWING);
        }
    }

    /// The order of the stops can be read off a frame if it looks otherwise for each other order.
    #[test]
    fn frames_tell_the_order_if_each_other_order_looks_otherwise() {
        let shapes = placed(5, &mut Stream::new(1, "journeys").at(0));
        let journey = Journey {
            shapes,
            first: 2,
            last: vec![0, 1, 3],
            order: 3,
        };
        for frame in 0..JOURNEY.frames {
            let at = |order| journey.shapes(frame, order)[STOPS].at;
            let alike = (0..ORDERS.len()).filter(|order| at(*order) == at(journey.order));
            let alike = alike.count();
            assert_eq!((JOURNEY.tells)(frame), alike == 1, "frame {frame}");
            let reveals = frame >= LEG;
            assert_eq!(reveals, alike < ORDERS.len(), "frame {frame}");
        }
    }

    #[test]
    fn each_stop_is_visited_once() {
        let stream = Stream::new(1, "journeys");
        let journey = Journey {
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
