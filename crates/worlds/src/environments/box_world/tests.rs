use std::collections::{HashMap, HashSet, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::{Environment, Step};

fn world(config: BoxWorldConfig) -> BoxWorld {
    BoxWorld::new(config).expect("in range")
}

fn begun(config: BoxWorldConfig, seed: u64) -> BoxWorld {
    let mut world = world(config);
    let mut seen = vec![0.0; world.spec().frame.size()];
    world.reset(seed, &mut seen).expect("the boxes fit");
    world
}

fn act(world: &mut BoxWorld, action: usize) -> Step {
    let mut seen = vec![0.0; world.spec().frame.size()];
    world.step(action, &mut seen).expect("runs")
}

/// The actions of a shortest way to an ending, without the ending by a distractor if `distractors` is false. `None` if
/// there is no way.
fn search(start: &Episode, wanted: End, distractors: bool) -> Option<Vec<usize>> {
    let key = |episode: &Episode| (episode.cells, episode.agent, episode.held);
    let mut seen = HashSet::from([key(start)]);
    let mut edge = VecDeque::from([(start.clone(), Vec::new())]);
    while let Some((episode, actions)) = edge.pop_front() {
        for action in 0..4 {
            let mut next = episode.clone();
            next.step(action);
            let mut way = actions.clone();
            way.push(action);
            if next.end == Some(wanted) {
                return Some(way);
            }
            if next.end == Some(End::Distractor) {
                if distractors {
                    continue;
                }
                next.end = None;
            }
            if seen.insert(key(&next)) {
                edge.push_back((next, way));
            }
        }
    }
    None
}

/// Lock and content of all boxes, and contents without a lock.
fn boxes(episode: &Episode) -> (Vec<(u8, u8)>, Vec<u8>) {
    let (mut locked, mut loose) = (Vec::new(), Vec::new());
    for row in episode.cells {
        for pair in row.windows(2) {
            match pair {
                [content @ GEM..LOCKS, lock @ LOCKS..=u8::MAX] => locked.push((*lock, *content)),
                [content @ GEM..LOCKS, _] => loose.push(*content),
                _ => (),
            }
        }
    }
    (locked, loose)
}

/// Settings with these numbers of locks and distractors.
fn sized(solution: [usize; 2], distractors: [usize; 2]) -> BoxWorldConfig {
    let [solution_least, solution_most] = solution;
    let [distractors_least, distractors_most] = distractors;
    BoxWorldConfig {
        solution_least,
        solution_most,
        distractors_least,
        distractors_most,
        ..BoxWorldConfig::default()
    }
}

/// Both ends of a range within this one.
fn ends(least: usize, most: usize) -> impl Strategy<Value = [usize; 2]> {
    (least..=most).prop_flat_map(move |most| (least..=most).prop_map(move |least| [least, most]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_level_can_be_solved_for_its_full_worth(seed: u64, solution in ends(1, 8), distractors in ends(0, 5)) {
        let config = sized(solution, distractors);
        // Each of the locks is one walk through the room and back.
        let length = config.length.max(26 * (solution[1] + 1));
        let mut world = begun(BoxWorldConfig { length, ..config }, seed);
        let episode = world.episode.clone().expect("has begun");
        let way = search(&episode, End::Gem, true);
        prop_assert!(way.is_some());
        let way = way.unwrap_or_default();
        prop_assert!(way.len() <= length, "{} steps", way.len());
        // The numbers of locks that the paper has leave time.
        prop_assert!(solution[1] > 5 || way.len() <= 120, "{} steps", way.len());
        let (locked, _) = boxes(&episode);
        let path = locked.iter().filter(|(lock, _)| *lock < DISTRACTORS).count();
        let steps: Vec<Step> = way.iter().map(|action| act(&mut world, *action)).collect();
        let total: f32 = steps.iter().map(|step| step.reward).sum();
        prop_assert_eq!(total, path as f32 + 10.0);
        prop_assert!(steps.iter().rev().skip(1).all(|step| !step.last));
        prop_assert!(steps.last().is_some_and(|step| step.last));
        prop_assert_eq!(world.solved(), Some(true));
        prop_assert_eq!(world.score(), Some(("solved", 1.0)));
    }

    /// A distractor can be opened at some point, and even if the episode went on, the gem would be out of reach.
    #[test]
    fn every_distractor_strands(seed: u64, solution in ends(1, 8), distractors in ends(1, 5)) {
        let world = begun(sized(solution, distractors), seed);
        let episode = world.episode.clone().expect("has begun");
        let (locked, _) = boxes(&episode);
        let places = (0..SIDE * SIDE).filter(|cell| episode.cells[cell / SIDE][cell % SIDE] >= DISTRACTORS);
        let mut count = 0;
        for place in places {
            // Only this distractor: the others would end the search, too.
            let mut alone = episode.clone();
            for other in (0..SIDE * SIDE).filter(|other| *other != place) {
                let (row, column) = (other / SIDE, other % SIDE);
                if episode.cells[row][column] >= DISTRACTORS {
                    alone.cells[row][column - 1..=column].fill(BORDER);
                }
            }
            let way = search(&alone, End::Distractor, false);
            prop_assert!(way.is_some(), "cannot be opened");
            let mut stranded = episode.clone();
            for action in way.unwrap_or_default() {
                prop_assert_eq!(stranded.end, None);
                stranded.step(action);
            }
            prop_assert_eq!(stranded.end.take(), Some(End::Distractor));
            prop_assert_eq!(search(&stranded, End::Gem, false), None);
            count += 1;
        }
        prop_assert_eq!(count, locked.iter().filter(|(lock, _)| *lock >= DISTRACTORS).count());
        prop_assert!(count >= 1);
    }
}

proptest! {
    #[test]
    fn the_locks_of_a_level_make_one_path(seed: u64, solution in ends(1, 6), distractors in ends(0, 6)) {
        let world = begun(sized(solution, distractors), seed);
        let episode = world.episode.as_ref().expect("has begun");
        prop_assert!(world.rules.is_sound(episode));
        let (locked, loose) = boxes(episode);
        prop_assert_eq!(loose.len(), 1);
        let (path, stray): (Vec<_>, Vec<_>) = locked.into_iter().partition(|(lock, _)| *lock < DISTRACTORS);
        prop_assert!((solution[0]..=solution[1]).contains(&path.len()));
        prop_assert!((distractors[0]..=distractors[1]).contains(&stray.len()));
        let by_lock: HashMap<u8, u8> = path.iter().map(|(lock, content)| (lock - LOCKS, *content)).collect();
        prop_assert_eq!(by_lock.len(), path.len(), "two locks of a colour");
        let mut content = loose[0];
        let mut opened = HashSet::new();
        while content != GEM {
            let lock = content - KEYS;
            prop_assert!(opened.insert(lock), "a circle");
            prop_assert!(by_lock.contains_key(&lock), "a key of the path without a lock");
            content = by_lock[&lock];
        }
        prop_assert_eq!(opened.len(), path.len());
        for (lock, key) in stray {
            prop_assert!(by_lock.contains_key(&(lock - DISTRACTORS)));
            prop_assert!((KEYS..LOCKS).contains(&key));
            prop_assert!(!by_lock.contains_key(&(key - KEYS)), "the key of a distractor opens a lock");
        }
    }

    #[test]
    fn boxes_touch_nothing(seed: u64) {
        let world = begun(BoxWorldConfig::default(), seed);
        let episode = world.episode.as_ref().expect("has begun");
        let code = |row: usize, column: usize| episode.cells[row][column];
        for (row, column) in (1..=GRID).flat_map(|row| (1..=GRID).map(move |column| (row, column))) {
            if !(GEM..LOCKS).contains(&code(row, column)) {
                continue;
            }
            prop_assert!((2..=11).contains(&row) && (2..=9).contains(&column));
            // A loose key has nothing on its right.
            let locked = code(row, column + 1) >= LOCKS;
            let right = column + usize::from(locked);
            let around = (row - 1..=row + 1).flat_map(|y| (column - 1..=right + 1).map(move |x| (y, x)));
            for (y, x) in around {
                let own = y == row && (column..=right).contains(&x);
                prop_assert!(own || code(y, x) == BACKGROUND);
            }
        }
        prop_assert_eq!(cell(&episode.cells, episode.agent), BACKGROUND);
    }

    /// The square view is a part of the whole map, with border around it.
    #[test]
    fn a_viewport_is_a_part_of_the_map(seed: u64, actions in prop::collection::vec(0usize..4, 1..150)) {
        let config = |viewport, key_planes| BoxWorldConfig { viewport, key_planes, ..BoxWorldConfig::default() };
        let mut worlds = [world(config(5, true)), world(config(0, false))];
        let mut seen = [vec![0.0; 6 * 25], vec![0.0; 3 * SIDE * SIDE]];
        for (world, seen) in worlds.iter_mut().zip(&mut seen) {
            world.reset(seed, seen).expect("the boxes fit");
        }
        for action in actions {
            let [part, whole] = &seen;
            let episode = worlds[0].episode.as_ref().expect("has begun");
            let [top, left] = episode.agent.map(|middle| usize::from(middle) as isize - 2);
            for (cell, value) in part[..75].iter().enumerate() {
                let (channel, y, x) = (cell / 25, top + (cell / 5 % 5) as isize, left + (cell % 5) as isize);
                let inside = (0..14).contains(&y) && (0..14).contains(&x);
                let expected = if inside { whole[channel * 196 + y as usize * 14 + x as usize] } else { 0.0 };
                prop_assert_eq!(*value, expected);
            }
            for channel in 0..3 {
                prop_assert_eq!(part[channel * 25 + 12], 0.5);
                // The held key: in the planes, and in the corner of the border.
                let planes = &part[75 + channel * 25..][..25];
                prop_assert!(planes.iter().all(|value| *value == whole[channel * 196]));
                prop_assert_eq!(whole[channel * 196] > 0.0, episode.held.is_some());
            }
            let steps = [0, 1].map(|number| worlds[number].step(action, &mut seen[number]).expect("runs"));
            prop_assert_eq!(steps[0], steps[1]);
            if steps[0].last {
                break;
            }
        }
    }
}

/// A level with one row of things to the right of the agent at (5, 1).
fn row(codes: &[u8], held: Option<u8>) -> BoxWorld {
    let mut world = begun(BoxWorldConfig::default(), 1);
    let mut cells = EMPTY;
    cells[5][2..2 + codes.len()].copy_from_slice(codes);
    world.episode = Some(Episode {
        cells,
        agent: [5, 1],
        held,
        steps: 0,
        end: None,
    });
    world
}

const RIGHT: usize = 3;

#[test]
fn what_an_action_does() {
    let key = |colour| KEYS + colour;
    let lock = |colour| LOCKS + colour;
    let distractor = |colour| DISTRACTORS + colour;
    // Things at the right, held key; then reward, end, whether the agent moved, and the key held afterwards.
    type Case<'a> = (&'a [u8], Option<u8>, f32, bool, bool, Option<u8>);
    let cases: [Case; 12] = [
        (&[BACKGROUND], None, 0.0, false, true, None),
        (&[BORDER], None, 0.0, false, false, None),
        (&[key(3)], None, 0.0, false, true, Some(3)),
        (&[key(3)], Some(4), 0.0, false, true, Some(3)),
        (&[key(3), lock(4)], Some(4), 0.0, false, false, Some(4)),
        (
            &[key(3), distractor(4)],
            Some(4),
            0.0,
            false,
            false,
            Some(4),
        ),
        (&[lock(3)], None, 0.0, false, false, None),
        (&[lock(3)], Some(4), 0.0, false, false, Some(4)),
        (&[lock(3)], Some(3), 1.0, false, true, None),
        (&[distractor(3)], Some(3), -1.0, true, true, None),
        (&[GEM], Some(3), 10.0, true, true, Some(3)),
        (&[GEM, lock(3)], Some(3), 0.0, false, false, Some(3)),
    ];
    for (number, (codes, held, reward, last, moved, holds)) in cases.into_iter().enumerate() {
        let mut world = row(codes, held);
        let step = act(&mut world, RIGHT);
        assert_eq!((step.reward, step.last), (reward, last), "case {number}");
        let episode = world.episode.as_ref().expect("has begun");
        assert_eq!(
            episode.agent,
            if moved { [5, 2] } else { [5, 1] },
            "case {number}"
        );
        assert_eq!(episode.held, holds, "case {number}");
        let left = if moved { BACKGROUND } else { codes[0] };
        assert_eq!(cell(&episode.cells, [5, 2]), left, "case {number}");
        assert_eq!(world.solved(), Some(last && reward > 0.0));
    }
}

#[test]
fn the_border_blocks_and_actions_have_their_directions() {
    let mut world = row(&[], None);
    let mut go = |action| {
        act(&mut world, action);
        world.episode.as_ref().expect("has begun").agent
    };
    assert_eq!(
        [go(2), go(0), go(3), go(1), go(2)],
        [[5, 1], [4, 1], [4, 2], [5, 2], [5, 1]]
    );
}

#[test]
fn an_episode_has_120_steps() {
    let mut world = row(&[], None);
    for number in 1..=120 {
        let step = act(&mut world, 2);
        assert_eq!((step.reward, step.last), (0.0, number == 120));
    }
    assert_eq!(world.score(), Some(("solved", 0.0)));
}

#[test]
fn numbers_of_locks_and_distractors_are_uniform() {
    let world = world(BoxWorldConfig::default());
    let (mut locks, mut distractors) = ([0; 5], [0; 6]);
    for seed in 0..6000 {
        let (locked, _) = boxes(&world.rules.begin(seed).expect("the boxes fit"));
        let path = locked
            .iter()
            .filter(|(lock, _)| *lock < DISTRACTORS)
            .count();
        locks[path - 1] += 1;
        distractors[locked.len() - path] += 1;
    }
    // 1200 and 1000 expected, standard deviations 31 and 29.
    assert!(
        locks.iter().all(|count| (1050..1350).contains(count)),
        "{locks:?}"
    );
    assert!(
        distractors.iter().all(|count| (850..1150).contains(count)),
        "{distractors:?}"
    );
}

#[test]
fn colours_are_those_of_the_original() {
    let original = [
        [700, 350, 350],
        [700, 454, 350],
        [700, 559, 350],
        [700, 664, 350],
        [629, 700, 350],
        [524, 700, 350],
        [420, 700, 350],
        [350, 700, 384],
        [350, 700, 490],
        [350, 700, 595],
        [350, 700, 700],
        [350, 594, 700],
        [350, 490, 700],
        [350, 384, 700],
        [419, 350, 700],
        [524, 350, 700],
        [630, 350, 700],
        [700, 350, 665],
        [700, 350, 559],
        [700, 350, 455],
    ];
    for (number, colour) in original.into_iter().enumerate() {
        let ours = hue(number);
        for (value, thousandths) in ours.into_iter().zip(colour) {
            assert!(
                (value - thousandths as f32 / 1000.0).abs() < 2e-3,
                "{number}: {ours:?}"
            );
        }
    }
}

#[test]
fn impossible_settings_are_refused() {
    let message = |config: BoxWorldConfig| {
        let error = BoxWorld::new(config).expect_err("out of range");
        error.to_string()
    };
    let config = BoxWorldConfig::default;
    assert_eq!(
        message(BoxWorldConfig {
            solution_most: 19,
            ..config()
        }),
        "environment.solution_most = 19: the path must have from 1 to 18 locks"
    );
    assert_eq!(
        message(BoxWorldConfig {
            solution_least: 6,
            ..config()
        }),
        "environment.solution_least = 6: it must be from 1 to environment.solution_most = 5"
    );
    assert_eq!(
        message(BoxWorldConfig {
            distractors_least: 6,
            ..config()
        }),
        "environment.distractors_least = 6: it must be from 0 to environment.distractors_most = 5"
    );
    assert_eq!(
        message(BoxWorldConfig {
            viewport: 6,
            ..config()
        }),
        "environment.viewport = 6: the side of the view must be odd, from 1 to 27, or 0 for the whole map"
    );
    assert_eq!(
        message(BoxWorldConfig {
            solution_least: 9,
            solution_most: 9,
            distractors_least: 5,
            ..config()
        }),
        "environment.solution_least = 9: with environment.distractors_least = 5 these are more than 13 locks and \
         distractors, which hardly ever fit into the grid"
    );
}

/// With as many boxes as are allowed every episode begins; with many more none does.
#[test]
fn crowded_levels_fit() {
    // Also if hardly any of the numbers between which they are drawn fit.
    for (locks, distractors) in [
        ([8, 8], [5, 5]),
        ([13, 13], [0, 0]),
        ([1, 1], [12, 12]),
        ([13, 18], [0, 20]),
        ([1, 18], [12, 20]),
    ] {
        let mut crowded = world(BoxWorldConfig {
            solution_least: locks[0],
            solution_most: locks[1],
            distractors_least: distractors[0],
            distractors_most: distractors[1],
            ..BoxWorldConfig::default()
        });
        let mut seen = vec![0.0; 150];
        for seed in 0..100 {
            crowded.reset(seed, &mut seen).expect("a level fits");
        }
    }
    let rules = BoxWorldRules {
        config: BoxWorldConfig {
            solution_least: 18,
            solution_most: 18,
            ..BoxWorldConfig::default()
        },
        palette: palette(),
    };
    assert_eq!(
        rules.begin(7).expect_err("too many boxes").to_string(),
        "episode with seed 7: no level fits: 200 in a row had more boxes than the grid of 12 x 12 holds; it needs fewer \
         locks or distractors"
    );
}
