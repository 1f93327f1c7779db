use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::environments::sealed::DAMAGED;
use crate::environments::{ENVIRONMENTS, TMaze, TMazeConfig};
use crate::{EnvironmentKind, FrameShape};

const COUNT: usize = 3;

fn vectorised(kind: &EnvironmentKind, seed: u64) -> Vectorised<Box<dyn Environment>> {
    let environments =
        (0..COUNT).map(|_| (kind.build)(&json!({})).expect("the defaults are in range"));
    Vectorised::new(environments.collect(), seed).expect("can begin")
}

fn mazes(corridor: usize, count: usize) -> Vectorised<TMaze> {
    let config = TMazeConfig {
        corridor,
        length: 5,
        ..TMazeConfig::default()
    };
    let mazes = (0..count).map(|_| TMaze::new(config.clone()).expect("in range"));
    Vectorised::new(mazes.collect(), 7).expect("can begin")
}

/// All that can be seen of it.
type Seen = (Vec<f32>, Vec<f32>, Vec<bool>, Vec<bool>, Vec<Finished>);

fn seen<E: Environment>(vectorised: &Vectorised<E>) -> Seen {
    (
        vectorised.observations().to_vec(),
        vectorised.rewards().to_vec(),
        vectorised.firsts().to_vec(),
        vectorised.lasts().to_vec(),
        vectorised.finished.clone(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_agrees_with_single_environments(seed: u64, kind in 0..ENVIRONMENTS.len(), actions in prop::collection::vec(any::<usize>(), 200)) {
        let kind = &ENVIRONMENTS[kind];
        let mut together = vectorised(kind, seed);
        let (size, choices) = (together.spec().frame.size(), together.spec().actions.len());
        let mut singles: Vec<_> = (0..COUNT).map(|_| (kind.build)(&json!({})).expect("in range")).collect();
        let mut episodes = [0; COUNT];
        let mut totals = [0.0; COUNT];
        let mut lengths = [0; COUNT];
        let mut buffers = vec![vec![0.0; size]; COUNT];
        let begin = |single: &mut Box<dyn Environment>, index, episode: &mut u64, buffer: &mut [f32]| {
            while single.reset(episode_seed(seed, index, *episode), buffer).expect("can begin").last {
                *episode += 1;
            }
        };
        for index in 0..COUNT {
            begin(&mut singles[index], index, &mut episodes[index], &mut buffers[index]);
        }
        prop_assert_eq!(together.observations(), buffers.concat());
        prop_assert_eq!(together.firsts(), [true; COUNT]);
        for number in actions {
            let actions = [0, 1, 2].map(|index| number.rotate_left(index) % choices);
            together.step(&actions).expect("runs");
            let mut finished = together.take_finished().into_iter();
            for index in 0..COUNT {
                let step = singles[index].step(actions[index], &mut buffers[index]).expect("runs");
                totals[index] += f64::from(step.reward);
                lengths[index] += 1;
                prop_assert_eq!(together.rewards()[index], step.reward);
                prop_assert_eq!(together.lasts()[index], step.last);
                prop_assert_eq!(together.firsts()[index], step.last);
                if step.last {
                    let expected = Finished {
                        index,
                        seed: episode_seed(seed, index, episodes[index]),
                        total: totals[index],
                        length: lengths[index],
                        score: singles[index].score(),
                    };
                    prop_assert_eq!(finished.next(), Some(expected));
                    prop_assert_eq!(&together.ends()[index * size..][..size], &buffers[index]);
                    episodes[index] += 1;
                    begin(&mut singles[index], index, &mut episodes[index], &mut buffers[index]);
                    (totals[index], lengths[index]) = (0.0, 0);
                }
            }
            prop_assert_eq!(finished.next(), None);
            prop_assert_eq!(together.observations(), buffers.concat());
        }
    }

    #[test]
    fn a_restored_state_goes_on_as_the_original(
        seed: u64,
        kind in 0..ENVIRONMENTS.len(),
        before in prop::collection::vec(any::<usize>(), 0..150),
        after in prop::collection::vec(any::<usize>(), 1..100),
    ) {
        let kind = &ENVIRONMENTS[kind];
        let mut original = vectorised(kind, seed);
        let choices = original.spec().actions.len();
        let chosen = |number: usize| [0, 1, 2].map(|index| number.rotate_left(index) % choices);
        for number in before {
            original.step(&chosen(number)).expect("runs");
        }
        let saved = original.save();
        let mut restored = vectorised(kind, seed.wrapping_add(1));
        restored.step(&chosen(1)).expect("runs");
        restored.restore(&saved).expect("was just saved");
        prop_assert_eq!(restored.save(), saved);
        prop_assert_eq!(seen(&restored), seen(&original));
        for number in after {
            for both in [&mut original, &mut restored] {
                both.step(&chosen(number)).expect("runs");
            }
            prop_assert_eq!(seen(&restored), seen(&original));
        }
    }
}

#[test]
fn damaged_states_are_refused_and_change_nothing() {
    let mut mazes = mazes(3, 2);
    for action in [0, 0, 0, 1, 0] {
        mazes.step(&[action, action]).expect("runs");
    }
    let (saved, before) = (mazes.save(), seen(&mazes));
    for position in 0..saved.len() {
        let mut changed = saved.clone();
        changed[position] ^= 4;
        mazes.restore(&changed).expect_err("damaged");
        mazes.restore(&saved[..position]).expect_err("cut off");
    }
    // Sound bytes around the damaged state of the second maze.
    let inner = mazes.environments[1].save();
    let place = saved
        .windows(inner.len())
        .rposition(|bytes| bytes == inner)
        .expect("is in there");
    let mut changed = saved.clone();
    changed[place + inner.len() - 1] ^= 4;
    let end = changed.len() - 4;
    let checksum = crc32c::crc32c(&changed[..end]).to_le_bytes();
    changed[end..].copy_from_slice(&checksum);
    let error = mazes.restore(&changed).expect_err("damaged");
    assert_eq!(
        error.to_string(),
        "not a saved state of this environment: it is damaged"
    );
    assert_eq!((mazes.save(), seen(&mazes)), (saved.clone(), before));
    let error = self::mazes(3, 3).restore(&saved).expect_err("three mazes");
    assert_eq!(
        error.to_string(),
        "not a saved state of this environment: it has another number of environments"
    );
    let error = self::mazes(2, 2)
        .restore(&saved)
        .expect_err("other settings");
    assert_eq!(
        error.to_string(),
        "not a saved state of this environment: its settings, or the version of the program, are others"
    );
}

#[test]
fn wrong_actions_change_nothing() {
    let mut mazes = mazes(3, 2);
    mazes.step(&[0, 0]).expect("runs");
    let before = mazes.save();
    let mut message = |actions: &[usize]| {
        let error = mazes.step(actions).expect_err("wrong");
        assert_eq!(mazes.save(), before);
        error.to_string()
    };
    assert_eq!(
        message(&[0]),
        "1 actions for 2 environments: each environment needs one"
    );
    assert_eq!(
        message(&[0, 3]),
        "action 3 does not exist: the environment has 3 actions, numbered from 0"
    );
    mazes.step(&[0, 0]).expect("still runs");
}

#[test]
fn seeds_differ_between_environments_and_episodes() {
    let mut seeds: Vec<u64> = (0..4)
        .flat_map(|run| {
            (0..8)
                .flat_map(move |index| (0..8).map(move |episode| episode_seed(run, index, episode)))
        })
        .collect();
    assert_eq!(episode_seed(3, 2, 1), episode_seed(3, 2, 1));
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 4 * 8 * 8);
}

#[test]
fn nothing_is_lost_until_it_is_taken() {
    let mut mazes = mazes(1, 2);
    for _ in 0..3 {
        mazes.step(&[0, 0]).expect("runs");
        mazes.step(&[1, 2]).expect("runs");
        assert_eq!(mazes.lasts(), [true, true]);
    }
    let finished = mazes.take_finished();
    let indices: Vec<usize> = finished.iter().map(|episode| episode.index).collect();
    assert_eq!(indices, [0, 1, 0, 1, 0, 1]);
    assert!(mazes.take_finished().is_empty());
    mazes.step(&[0, 0]).expect("runs");
    mazes.reset().expect("can begin");
    assert!(mazes.take_finished().is_empty());
    assert_eq!(
        (mazes.firsts(), mazes.lasts()),
        (&[true; 2][..], &[false; 2][..])
    );
    assert_eq!(mazes.running[0].episode, 4);
}

/// Panics when `harm` was done `limit` times.
struct Fragile {
    limit: usize,
    done: usize,
    seed: u64,
}

impl Environment for Fragile {
    fn spec(&self) -> Spec {
        Spec {
            frame: FrameShape {
                channels: 1,
                height: 1,
                width: 1,
            },
            actions: &["nothing", "harm"],
        }
    }

    fn reset(&mut self, seed: u64, observation: &mut [f32]) -> Result<Step, Error> {
        (self.done, self.seed) = (0, seed);
        observation[0] = 0.0;
        Ok(Step {
            reward: 0.0,
            first: true,
            last: false,
        })
    }

    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<Step, Error> {
        self.done += action;
        assert!(self.done < self.limit, "harmed\n{} times", self.done);
        observation[0] = 1.0;
        Ok(Step {
            reward: 1.0,
            first: false,
            last: false,
        })
    }

    fn save(&self) -> Vec<u8> {
        [(self.done as u64).to_le_bytes(), self.seed.to_le_bytes()].concat()
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), Error> {
        let [done, seed] =
            [0, 8].map(|at| saved[at..].first_chunk().copied().map(u64::from_le_bytes));
        let (done, seed) = (done.ok_or(DAMAGED)? as usize, seed.ok_or(DAMAGED)?);
        if done >= self.limit {
            return Err(DAMAGED);
        }
        (self.done, self.seed) = (done, seed);
        Ok(())
    }
}

fn fragile(limit: usize) -> Fragile {
    Fragile {
        limit,
        done: 0,
        seed: 0,
    }
}

/// The panicked environment has no sound state to go back to; the others have.
#[test]
fn a_refused_state_after_a_panic_lets_no_step_through() {
    let mut both = Vectorised::new(vec![fragile(9), fragile(2)], 5).expect("can begin");
    let saved = both.save();
    both.step(&[1, 1]).expect("harmed once");
    both.step(&[1, 1]).expect_err("harmed twice");
    let mut other = Vectorised::new(vec![fragile(9), fragile(9)], 5).expect("can begin");
    for _ in 0..5 {
        other.step(&[1, 1]).expect("runs");
    }
    both.restore(&other.save()).expect_err("five of two");
    assert_eq!(both.environments[0].done, 2, "as before");
    assert!(matches!(both.step(&[0, 0]), Err(Error::NoEpisode)));
    both.restore(&saved).expect("was saved");
    both.step(&[1, 1]).expect("runs");
}

#[test]
fn a_panic_becomes_an_error_to_replay() {
    let mut both = Vectorised::new(vec![fragile(9), fragile(2)], 5).expect("can begin");
    both.step(&[0, 1]).expect("harmed once");
    let saved = both.save();
    both.step(&[1, 0]).expect("harmed once");
    let error = both.step(&[0, 1]).expect_err("harmed twice");
    let seed = episode_seed(5, 1, 0);
    assert_eq!(
        error.to_string(),
        format!(
            "environment 1 panicked (harmed 2 times); to replay: reset it with seed {seed}, then do the actions [1 0 1]"
        )
    );
    let Error::EnvironmentPanicked {
        index: 1,
        seed: named,
        actions,
        ..
    } = error
    else {
        panic!("another error: {error}");
    };
    assert_eq!(named, seed);
    let mut again = fragile(2);
    let mut observation = [0.0];
    again.reset(named, &mut observation).expect("can begin");
    let (last, before) = actions.split_last().expect("three actions");
    for action in before {
        again
            .step(usize::from(*action), &mut observation)
            .expect("runs");
    }
    let last = usize::from(*last);
    assert!(catch_unwind(AssertUnwindSafe(|| again.step(last, &mut observation))).is_err());

    // It refuses to go on, until it begins again or continues from a saved state.
    assert!(matches!(both.step(&[0, 0]), Err(Error::NoEpisode)));
    both.restore(&saved).expect("was saved");
    both.step(&[0, 0]).expect("runs");
    both.step(&[0, 1]).expect_err("harmed twice");
    both.reset().expect("can begin");
    assert_eq!(both.running[1].seed, episode_seed(5, 1, 1));
    both.step(&[0, 1]).expect("runs");
}

#[test]
fn environments_of_one_kind_are_needed() {
    let message = |environments: Vec<Box<dyn Environment>>| {
        let error = Vectorised::new(environments, 1).err().expect("unusable");
        error.to_string()
    };
    assert_eq!(message(Vec::new()), "at least one environment is needed");
    let build = |name| {
        let kind = EnvironmentKind::named(name).expect("is in the table");
        (kind.build)(&json!({})).expect("in range")
    };
    assert_eq!(
        message(vec![build("t-maze"), build("box-world")]),
        "all environments must have the same observations and actions"
    );
}
