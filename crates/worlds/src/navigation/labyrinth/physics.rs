//! Where a disc can be among walls and obstacles, and where it ends when it runs into them.

use super::map::{Cell, Map};

/// Whether a disc at this place touches no wall and no obstacle.
pub fn is_free(map: &Map, place: [f32; 2], radius: f32) -> bool {
    nearest_overlap(map, place, radius).is_none()
}

/// Where a disc ends that moves from a free place by `step`, and whether something was in its way.
///
/// The disc is pushed out of what it runs into, at right angles to the surface, so it slides along walls and around
/// obstacles. In a corner too narrow for that it stays where it was.
pub fn slide(map: &Map, from: [f32; 2], step: [f32; 2], radius: f32) -> ([f32; 2], bool) {
    // In parts that are shorter than the radius, so that nothing is jumped over.
    let parts = (step[0].hypot(step[1]) / (0.5 * radius)).ceil().max(1.0);
    let mut place = from;
    let mut touched = false;
    for _ in 0..parts as usize {
        let aim = [place[0] + step[0] / parts, place[1] + step[1] / parts];
        let (next, pushed) = pushed_out(map, aim, radius);
        place = next.unwrap_or(place);
        touched |= pushed;
    }
    (place, touched)
}

/// The free place that a disc is pushed to from `place`, if there is one, and whether it was pushed.
fn pushed_out(map: &Map, mut place: [f32; 2], radius: f32) -> (Option<[f32; 2]>, bool) {
    /// Two walls and two obstacles can be met at the same time.
    const PUSHES: usize = 4;
    /// Ends a little outside, so that rounding does not count as an overlap.
    const OUTSIDE: f32 = 1e-5;
    for push in 0..=PUSHES {
        let Some(overlap) = nearest_overlap(map, place, radius) else {
            return (Some(place), push > 0);
        };
        if overlap.distance <= 0.0 {
            break;
        }
        let scale = (overlap.reach + OUTSIDE) / overlap.distance;
        place = [
            overlap.point[0] + scale * (place[0] - overlap.point[0]),
            overlap.point[1] + scale * (place[1] - overlap.point[1]),
        ];
    }
    (None, true)
}

/// The point of a solid thing that lies deepest inside a disc.
struct Overlap {
    point: [f32; 2],
    /// From the point to the disc's centre.
    distance: f32,
    /// The distance at which they would only touch.
    reach: f32,
}

/// The deepest overlap of a disc with walls and obstacles.
fn nearest_overlap(map: &Map, place: [f32; 2], radius: f32) -> Option<Overlap> {
    let mut deepest: Option<Overlap> = None;
    let mut consider = |point: [f32; 2], reach: f32| {
        let distance = (place[0] - point[0]).hypot(place[1] - point[1]);
        let depth = reach - distance;
        let before = deepest
            .as_ref()
            .map_or(0.0, |overlap| overlap.reach - overlap.distance);
        if depth > before {
            deepest = Some(Overlap {
                point,
                distance,
                reach,
            });
        }
    };
    let range =
        |middle: f32| (middle - radius).floor() as isize..=(middle + radius).floor() as isize;
    for y in range(place[1]) {
        for x in range(place[0]) {
            if map.cell(x, y) == Cell::Wall {
                let nearest = |value: f32, low: isize| value.clamp(low as f32, low as f32 + 1.0);
                consider([nearest(place[0], x), nearest(place[1], y)], radius);
            }
        }
    }
    for object in map.objects.iter().filter(|object| object.is_obstacle()) {
        consider(object.place, radius + object.radius);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use crate::navigation::labyrinth::MapConfig;
    use proptest::prelude::*;

    fn room(objects: usize) -> Map {
        let config = MapConfig {
            smallest: 5,
            largest: 5,
            objects,
            ..MapConfig::default()
        };
        Map::new(&config, &mut Stream::new(5, "test").at(0)).expect("in range")
    }

    #[test]
    fn a_disc_slides_along_a_wall() {
        let map = room(0);
        let (place, touched) = slide(&map, [3.0, 1.25], [0.1, -0.1], 0.2);
        assert!(touched);
        assert!((place[0] - 3.1).abs() < 1e-4, "{place:?}");
        assert!((place[1] - 1.2).abs() < 1e-4, "{place:?}");
        let (place, touched) = slide(&map, [3.0, 1.5], [0.1, -0.1], 0.2);
        assert!(!touched);
        assert!((place[0] - 3.1).abs() + (place[1] - 1.4).abs() < 1e-5);
    }

    #[test]
    fn a_disc_slides_around_an_obstacle() {
        let mut map = room(1);
        map.objects[0].place = [3.0, 3.0];
        map.objects[0].radius = 0.25;
        let (place, touched) = slide(&map, [2.5, 2.95], [0.2, 0.0], 0.2);
        assert!(touched);
        assert!(place[1] < 2.95 && place[0] > 2.5, "{place:?}");
        assert!((place[0] - 3.0).hypot(place[1] - 3.0) >= 0.45);
        map.objects[0].present = false;
        let (place, touched) = slide(&map, [2.5, 3.0], [0.2, 0.0], 0.2);
        assert!(!touched);
        assert!((place[0] - 2.7).abs() + (place[1] - 3.0).abs() < 1e-5);
    }

    #[test]
    fn a_corner_stops_a_disc() {
        let map = room(0);
        let (place, touched) = slide(&map, [1.3, 1.3], [-0.9, -0.9], 0.2);
        assert!(touched);
        assert!(
            (place[0] - 1.2).abs() < 1e-3 && (place[1] - 1.2).abs() < 1e-3,
            "{place:?}"
        );
    }

    proptest! {
        /// However a disc is pushed about, it is never inside a wall or an obstacle.
        #[test]
        fn a_disc_stays_outside(
            seed: u64,
            radius in 0.1f32..0.4,
            steps in prop::collection::vec((-0.6f32..0.6, -0.6f32..0.6), 1..60),
        ) {
            let config = MapConfig { rooms: 2, objects: 3, ..MapConfig::default() };
            let map = Map::new(&config, &mut Stream::new(seed, "test").at(0)).expect("in range");
            let mut place = map.centre(map.walkable()[0]);
            for (x, y) in steps {
                let before = place;
                let (after, touched) = slide(&map, place, [x, y], radius);
                prop_assert!(is_free(&map, after, radius));
                if !touched {
                    prop_assert!((after[0] - before[0] - x).abs() < 1e-4);
                    prop_assert!((after[1] - before[1] - y).abs() < 1e-4);
                }
                place = after;
            }
        }
    }
}
