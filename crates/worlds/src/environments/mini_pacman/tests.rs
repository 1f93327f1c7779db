use std::collections::HashSet;

use proptest::prelude::*;

use super::ghost::{STOCHASTICITY, turn};
use super::maze::{DIRECTIONS, MAZE};
use super::*;
use crate::{Environment, Step};

const RIGHT: usize = 0;
const UP: usize = 1;
const LEFT: usize = 2;
const DOWN: usize = 3;

const MODES: [PacmanMode; 5] = [
    PacmanMode::Regular,
    PacmanMode::Avoid,
    PacmanMode::Hunt,
    PacmanMode::Ambush,
    PacmanMode::Rush,
];

fn pacman(config: MiniPacmanConfig) -> MiniPacman {
    MiniPacman::new(config).expect("in range")
}

fn random() -> Random {
    Random::of_episode(1, "test")
}

/// Pacman is in the upper left corner, in a row of three empty cells. The only ghost is far away.
fn corner(mode: PacmanMode) -> (MiniPacman, Vec<f32>) {
    let config = MiniPacmanConfig {
        mode,
        ..MiniPacmanConfig::default()
    };
    let mut game = pacman(config);
    let mut seen = vec![0.0; game.spec().frame.size()];
    game.reset(1, &mut seen)
        .expect("a buffer of the right size");
    let episode = game.episode.as_mut().expect("has begun");
    episode.pacman = [1, 1];
    episode.pills = vec![[13, 1], [13, 2]];
    episode.ghosts = vec![Ghost {
        place: [13, 17],
        heading: UP,
    }];
    for column in 1..4 {
        episode.ground[1][column] = FLOOR;
    }
    episode.food = FREE - 3;
    (game, seen)
}

fn act(game: &mut MiniPacman, action: usize) -> Step {
    let mut seen = vec![0.0; game.spec().frame.size()];
    game.step(action, &mut seen).expect("runs")
}

fn episode(game: &mut MiniPacman) -> &mut Episode {
    game.episode.as_mut().expect("has begun")
}

#[test]
fn the_maze_has_138_free_cells_in_one_piece() {
    let free: HashSet<Place> = FREE_PLACES.into_iter().collect();
    assert_eq!(free.len(), 138);
    let zeros = MAZE
        .iter()
        .flat_map(|row| row.iter())
        .filter(|cell| **cell == b'0');
    assert_eq!(zeros.count(), 138);
    let mut reached = HashSet::from([[1, 1]]);
    let mut edge = vec![[1, 1]];
    while let Some(place) = edge.pop() {
        for direction in 0..4 {
            let next = neighbour(place, direction);
            if is_free(next) && reached.insert(next) {
                edge.push(next);
            }
        }
    }
    assert_eq!(reached, free);
}

#[test]
fn a_ghost_with_one_way_takes_it() {
    let open = [false, false, false, true];
    for heading in 0..4 {
        for edible in [false, true] {
            assert_eq!(turn(open, heading, [-5, 0], edible, &mut random()), DOWN);
        }
    }
}

#[test]
fn a_ghost_with_two_ways_goes_on_or_turns_the_corner() {
    for edible in [false, true] {
        // Pacman is behind it; it does not turn back.
        let corridor = [true, false, true, false];
        let go = |open, heading| turn(open, heading, [0, -5], edible, &mut random());
        assert_eq!(go(corridor, RIGHT), RIGHT);
        assert_eq!(go(corridor, LEFT), LEFT);
        // A corner of right and up: it comes from the right or from above.
        let corner = [true, true, false, false];
        assert_eq!(go(corner, LEFT), UP);
        assert_eq!(go(corner, DOWN), RIGHT);
    }
}

#[test]
fn a_hunted_ghost_never_errs_and_a_hunter_does_so_in_one_of_twenty() {
    let fork = [true, true, true, false];
    let mut random = random();
    let mut count = |edible| {
        let mut counts = [0; 4];
        for _ in 0..100_000 {
            // It comes from the right; Pacman is above.
            counts[turn(fork, LEFT, [-5, 0], edible, &mut random)] += 1;
        }
        counts
    };
    assert_eq!(count(true), [0, 0, 100_000, 0]);
    let [right, up, left, down] = count(false);
    assert_eq!((right, down), (0, 0));
    // The wrong one of two is taken with probability 0.05 / 2: 2500, standard deviation 49.
    assert!((2250..2750).contains(&left), "{up} {left}");
}

proptest! {
    #[test]
    fn at_crossings_the_dot_product_with_the_unit_vector_decides(
        closed in prop::option::of(0usize..4),
        heading in 0usize..4,
        rows in -13i32..14,
        columns in -17i32..18,
        edible: bool,
        seed: u64,
    ) {
        prop_assume!((rows, columns) != (0, 0));
        let open: [bool; 4] = std::array::from_fn(|direction| Some(direction) != closed);
        let norm = f64::from(rows * rows + columns * columns).sqrt();
        let unit = [f64::from(rows) / norm, f64::from(columns) / norm];
        let product = |direction: usize| {
            let [rows, columns] = DIRECTIONS[direction].map(f64::from);
            unit[0] * rows + unit[1] * columns
        };
        let back = (heading + 2) % 4;
        let ways: Vec<usize> = (0..4).filter(|way| open[*way] && *way != back).collect();
        let taken = turn(open, heading, [rows, columns], edible, &mut Random::of_episode(seed, "test"));
        prop_assert!(ways.contains(&taken));
        let best = |better: fn(f64, f64) -> bool| {
            let mut best = ways[0];
            for way in &ways[1..] {
                if better(product(*way), product(best)) {
                    best = *way;
                }
            }
            best
        };
        if edible {
            prop_assert_eq!(taken, best(|new, old| new < old));
        } else {
            let mut random = Random::of_episode(seed, "test");
            if !random.random_bool(STOCHASTICITY) {
                prop_assert_eq!(taken, best(|new, old| new > old));
            }
        }
    }

    #[test]
    fn a_level_begins_as_the_rules_say(seed: u64, level in 1usize..12) {
        let mut game = pacman(MiniPacmanConfig { level, ..MiniPacmanConfig::default() });
        let mut seen = vec![0.0; game.spec().frame.size()];
        game.reset(seed, &mut seen).expect("a buffer of the right size");
        prop_assert_eq!(game.level(), Some(level));
        let expected = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6][level - 1];
        let episode = game.episode.as_ref().expect("has begun");
        prop_assert_eq!(episode.ghosts.len(), expected);
        prop_assert!((speed_of(level as u32) - [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5][level - 1]).abs() < 1e-9);
        prop_assert_eq!((episode.food, episode.pills.len(), episode.power), (138, 2, 0));
        for ghost in &episode.ghosts {
            prop_assert!(is_free(ghost.place));
            let far = (0..2).any(|axis| ghost.place[axis].abs_diff(episode.pacman[axis]) > 5);
            prop_assert!(far, "{:?} near {:?}", ghost.place, episode.pacman);
        }
        prop_assert!(game.rules.is_sound(episode));
    }

    /// The square view is a part of the whole map, with walls around it; and states stay sound.
    #[test]
    fn a_viewport_is_a_part_of_the_map(
        seed: u64,
        half in 0usize..10,
        mode in 0usize..5,
        level in 1usize..9,
        actions in prop::collection::vec(0usize..5, 1..200),
    ) {
        let side = 2 * half + 1;
        let config = |viewport| MiniPacmanConfig { mode: MODES[mode], viewport, level, ..MiniPacmanConfig::default() };
        let mut games = [pacman(config(side)), pacman(config(0))];
        let mut seen = [vec![0.0; 3 * side * side], vec![0.0; 3 * HEIGHT * WIDTH]];
        for (game, seen) in games.iter_mut().zip(&mut seen) {
            game.reset(seed, seen).expect("a buffer of the right size");
        }
        for action in actions {
            let [part, whole] = &seen;
            let [game, _] = &games;
            let episode = game.episode.as_ref().expect("has begun");
            prop_assert!(game.rules.is_sound(episode));
            let [top, left] = episode.pacman.map(|middle| usize::from(middle) as isize - half as isize);
            for (channel, row, column) in (0..3 * side * side).map(|cell| (cell / side / side, cell / side % side, cell % side)) {
                let (y, x) = (top + row as isize, left + column as isize);
                let inside = (0..HEIGHT as isize).contains(&y) && (0..WIDTH as isize).contains(&x);
                let expected = if inside { whole[(channel * HEIGHT + y as usize) * WIDTH + x as usize] } else { 1.0 };
                prop_assert_eq!(part[(channel * side + row) * side + column], expected);
            }
            let steps = [0, 1].map(|number| games[number].step(action, &mut seen[number]).expect("runs"));
            prop_assert_eq!(steps[0], steps[1]);
            if steps[0].last {
                break;
            }
        }
    }
}

#[test]
fn a_pill_lasts_20_steps() {
    let (mut game, _) = corner(PacmanMode::Regular);
    let state = episode(&mut game);
    state.ghosts.clear();
    state.pills = vec![[1, 2]];
    let mut powers = Vec::new();
    act(&mut game, 1);
    powers.push(episode(&mut game).power);
    for _ in 0..21 {
        act(&mut game, 0);
        powers.push(episode(&mut game).power);
    }
    let expected: Vec<u8> = (0..=20).rev().chain([0]).collect();
    assert_eq!(powers, expected);
    assert_eq!(powers.iter().filter(|power| **power > 0).count(), 20);
}

#[test]
fn each_mode_rewards_what_it_says() {
    // In the order of the modes: step, food, pill, ghost, death.
    let expected: [[f32; 5]; 5] = [
        [0.0, 1.0, 2.0, 5.0, 0.0],
        [0.1, -0.1, -5.0, -10.0, -20.0],
        [0.0, 0.0, 1.0, 10.0, -20.0],
        [0.0, -0.1, 0.0, 10.0, -20.0],
        [0.0, -0.1, 10.0, 0.0, 0.0],
    ];
    for (mode, [step, food, pill, ghost, death]) in MODES.into_iter().zip(expected) {
        let reward = |change: &dyn Fn(&mut Episode)| {
            let (mut game, _) = corner(mode);
            change(episode(&mut game));
            let done = act(&mut game, 1);
            (done.reward, done.last)
        };
        let meet = |power: u8| {
            reward(&move |episode: &mut Episode| {
                episode.power = power;
                let far = Ghost {
                    place: [13, 17],
                    heading: UP,
                };
                episode.ghosts = vec![
                    Ghost {
                        place: [1, 2],
                        heading: LEFT,
                    },
                    far,
                ];
            })
        };
        assert_eq!(reward(&|_| ()), (step, false), "{mode:?}");
        let with_food = reward(&|episode| {
            episode.ground[1][2] = FOOD;
            episode.food += 1;
        });
        assert_eq!(with_food, (step + food, false), "{mode:?}");
        let with_pill = reward(&|episode| episode.pills[0] = [1, 2]);
        assert_eq!(with_pill, (step + pill, false), "{mode:?}");
        assert_eq!(meet(9), (step + ghost, false), "{mode:?}");
        // The power ends before Pacman moves.
        assert_eq!(meet(1), (step + death, true), "{mode:?}");
    }
}

#[test]
fn a_level_ends_as_its_mode_says() {
    for mode in MODES {
        let level = |change: &dyn Fn(&mut Episode)| {
            let (mut game, _) = corner(mode);
            change(episode(&mut game));
            act(&mut game, 1);
            game.level()
        };
        let ended = |yes: bool| Some(if yes { 2 } else { 1 });
        use PacmanMode::*;
        let food = level(&|episode| {
            episode.ground = FULL;
            for cell in episode
                .ground
                .iter_mut()
                .flatten()
                .filter(|cell| **cell == FOOD)
            {
                *cell = FLOOR;
            }
            episode.ground[1][2] = FOOD;
            episode.food = 1;
        });
        assert_eq!(food, ended(matches!(mode, Regular | Avoid)), "{mode:?}");
        let pills = level(&|episode| episode.pills = vec![[1, 2]]);
        assert_eq!(pills, ended(mode == Rush), "{mode:?}");
        let ghosts = level(&|episode| {
            episode.power = 5;
            episode.ghosts[0].place = [1, 2];
        });
        assert_eq!(ghosts, ended(matches!(mode, Hunt | Ambush)), "{mode:?}");
        let steps = level(&|episode| {
            (episode.steps, episode.level_steps) = (127, 127);
        });
        assert_eq!(steps, ended(mode == Avoid), "{mode:?}");
    }
}

#[test]
fn only_one_ghost_is_eaten_in_a_step() {
    let (mut game, _) = corner(PacmanMode::Regular);
    let state = episode(&mut game);
    state.power = 9;
    state.ghosts = vec![
        Ghost {
            place: [1, 2],
            heading: LEFT
        };
        3
    ];
    for (left, action) in [(2, 1), (1, 0), (0, 0)] {
        assert_eq!(act(&mut game, action).reward, 5.0);
        assert_eq!(episode(&mut game).ghosts.len(), left);
    }
    assert_eq!(act(&mut game, 0).reward, 0.0);
}

#[test]
fn ghosts_move_at_their_speed_and_at_half_of_it_while_edible() {
    for (level, power, expected) in [
        (1, 0, 0.5),
        (1, 20, 0.25),
        (4, 0, 0.8),
        (4, 20, 0.4),
        (6, 0, 1.0),
    ] {
        let mut moved = 0;
        const TRIALS: u64 = 10_000;
        for seed in 0..TRIALS {
            let mut episode = Episode::new(seed, level);
            episode.power = power;
            episode.pills = Vec::new();
            let before = episode.ghosts[0];
            episode.step(0, PacmanMode::Regular);
            moved += usize::from(episode.ghosts[0].place != before.place);
        }
        let share = moved as f64 / TRIALS as f64;
        // At most 0.005 of standard deviation.
        assert!((share - expected).abs() < 0.02, "level {level}: {share}");
    }
}

#[test]
fn walls_stop_pacman() {
    let (mut game, _) = corner(PacmanMode::Regular);
    for (action, place) in [
        (0, [1, 1]),
        (2, [1, 1]),
        (3, [1, 1]),
        (1, [1, 2]),
        (1, [1, 3]),
        (1, [1, 3]),
        (4, [2, 3]),
        (4, [3, 3]),
    ] {
        act(&mut game, action);
        assert_eq!(episode(&mut game).pacman, place);
    }
}

#[test]
fn colours_and_their_priority() {
    let config = MiniPacmanConfig {
        viewport: 0,
        ..MiniPacmanConfig::default()
    };
    let mut game = pacman(config);
    let mut seen = vec![0.0; 3 * HEIGHT * WIDTH];
    game.reset(1, &mut seen)
        .expect("a buffer of the right size");
    let state = episode(&mut game);
    state.pacman = [1, 1];
    state.ground[1][1] = FLOOR;
    state.ground[1][2] = FLOOR;
    state.food = FREE - 2;
    state.pills = vec![[1, 1], [3, 3]];
    let ghost = |place| Ghost { place, heading: UP };
    state.ghosts = vec![ghost([1, 1]), ghost([3, 3]), ghost([13, 17])];
    state.pills.push([5, 5]);
    state.power = 5;
    let state = state.clone();
    game.rules.draw(&state, &mut seen);
    let colour = |place: [usize; 2]| {
        [0, 1, 2].map(|channel| seen[(channel * HEIGHT + place[0]) * WIDTH + place[1]])
    };
    assert_eq!(colour([1, 1]), [0.0, 1.0, 0.0]);
    assert_eq!(colour([3, 3]), [1.0, 0.25, 0.0]);
    assert_eq!(colour([13, 17]), [1.0, 0.25, 0.0]);
    assert_eq!(colour([5, 5]), [0.0, 1.0, 1.0]);
    assert_eq!(colour([3, 4]), [0.0, 0.0, 1.0]);
    assert_eq!(colour([0, 0]), [1.0, 1.0, 1.0]);
    assert_eq!(colour([1, 2]), [0.0, 0.0, 0.0]);
}

#[test]
fn an_episode_ends_after_3000_steps() {
    let (mut game, _) = corner(PacmanMode::Hunt);
    episode(&mut game).ghosts.clear();
    episode(&mut game).steps = 2998;
    assert!(!act(&mut game, 0).last);
    assert!(act(&mut game, 0).last);
    let mut seen = vec![0.0; 75];
    assert!(matches!(game.step(0, &mut seen), Err(Error::NoEpisode)));
}

/// With one level an episode ends with its last food, and otherwise goes on.
#[test]
fn an_episode_ends_after_its_levels() {
    for levels in [0, 1, 2] {
        let config = MiniPacmanConfig {
            levels,
            ..MiniPacmanConfig::default()
        };
        let mut game = pacman(config);
        let mut seen = vec![0.0; 75];
        game.reset(1, &mut seen).expect("begins");
        let episode = episode(&mut game);
        episode.ghosts.clear();
        episode.pacman = [1, 1];
        episode.food = 1;
        episode.ground[1][2] = FOOD;
        assert_eq!(act(&mut game, 1).last, levels == 1);
        assert_eq!(game.level(), Some(2));
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let message = |config: MiniPacmanConfig| {
        let error = MiniPacman::new(config).expect_err("out of range");
        error.to_string()
    };
    let viewport = MiniPacmanConfig {
        viewport: 4,
        ..MiniPacmanConfig::default()
    };
    assert_eq!(
        message(viewport),
        "environment.viewport = 4: the side of the view must be odd, from 1 to 37, or 0 for the whole map"
    );
    let level = MiniPacmanConfig {
        level: 0,
        ..MiniPacmanConfig::default()
    };
    assert_eq!(
        message(level),
        "environment.level = 0: an episode begins with a level from 1 to 100"
    );
}
