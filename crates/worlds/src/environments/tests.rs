//! What holds for all environments of the table.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::Step;

fn build(kind: &EnvironmentKind) -> Box<dyn Environment> {
    (kind.build)(&json!({})).expect("the defaults are in range")
}

fn buffer(environment: &dyn Environment) -> Vec<f32> {
    vec![f32::NAN; environment.spec().frame.size()]
}

/// Steps and observations of these actions, up to the end of the episode.
fn act(environment: &mut dyn Environment, actions: &[usize]) -> Vec<(Step, Vec<f32>)> {
    let count = environment.spec().actions.len();
    let mut seen = Vec::new();
    for action in actions {
        let mut observation = buffer(environment);
        let step = environment
            .step(action % count, &mut observation)
            .expect("the episode runs");
        seen.push((step, observation));
        if step.last {
            break;
        }
    }
    seen
}

fn begin(environment: &mut dyn Environment, seed: u64) -> (Step, Vec<f32>) {
    let mut observation = buffer(environment);
    let step = environment
        .reset(seed, &mut observation)
        .expect("a buffer of the right size");
    (step, observation)
}

fn message<T>(result: Result<T, Error>) -> String {
    let text = result.err().expect("wrong use").to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn an_episode_is_a_function_of_seed_and_actions(seed: u64, actions in prop::collection::vec(any::<usize>(), 1..300)) {
        for kind in ENVIRONMENTS {
            let (mut one, mut other) = (build(kind), build(kind));
            // What an environment did before does not matter.
            begin(&mut other, !seed);
            other.step(0, &mut buffer(&other)).expect("the episode runs");
            let first = begin(&mut one, seed);
            prop_assert_eq!(&first, &begin(&mut other, seed), "{}", kind.name);
            prop_assert_eq!((first.0.reward, first.0.first), (0.0, true));
            if first.0.last {
                continue;
            }
            let seen = act(&mut one, &actions);
            prop_assert_eq!(&seen, &act(&mut other, &actions), "{}", kind.name);
            prop_assert_eq!(one.score(), other.score());
            for (step, observation) in seen.iter().chain([&first]) {
                prop_assert!(step.reward.is_finite());
                prop_assert!(observation.iter().all(|value| (0.0..=1.0).contains(value)), "{}", kind.name);
            }
            prop_assert!(seen.iter().all(|(step, _)| !step.first));
        }
    }

    #[test]
    fn a_restored_state_goes_on_as_the_original(
        seed: u64,
        before in prop::collection::vec(any::<usize>(), 0..200),
        after in prop::collection::vec(any::<usize>(), 1..100),
    ) {
        for kind in ENVIRONMENTS {
            let mut original = build(kind);
            let first = begin(&mut original, seed).0.last;
            let seen = if first { Vec::new() } else { act(&mut original, &before) };
            let over = seen.last().map_or(first, |(step, _)| step.last);
            let saved = original.save();
            let mut restored = build(kind);
            restored.restore(&saved).expect("was just saved");
            prop_assert_eq!(restored.save(), saved);
            prop_assert_eq!(restored.score(), original.score());
            if over {
                let mut observation = buffer(&restored);
                prop_assert!(matches!(restored.step(0, &mut observation), Err(Error::NoEpisode)));
            } else {
                prop_assert_eq!(act(&mut original, &after), act(&mut restored, &after), "{}", kind.name);
            }
        }
    }
}

#[test]
fn damaged_states_are_refused() {
    for kind in ENVIRONMENTS {
        let mut original = build(kind);
        begin(&mut original, 3);
        let saved = original.save();
        let mut restored = build(kind);
        begin(&mut restored, 4);
        let before = restored.save();
        for position in 0..saved.len() {
            let mut changed = saved.clone();
            changed[position] ^= 1;
            message(restored.restore(&changed));
            message(restored.restore(&saved[..position]));
        }
        assert_eq!(restored.save(), before, "{}", kind.name);
    }
}

/// Bytes with a right checksum, but numbers out of range: refused, or an episode that can be acted in. The states of the
/// labyrinth are not text; it has a test of its own.
#[test]
fn no_saved_state_makes_a_step_panic() {
    for kind in ENVIRONMENTS.iter().filter(|kind| kind.name != "labyrinth") {
        let mut environment = build(kind);
        begin(&mut environment, 3);
        let saved = environment.save();
        let content = &saved[..saved.len() - 4];
        let mut refused = 0;
        let digits = (8..content.len()).filter(|place| content[*place].is_ascii_digit());
        for place in digits {
            for replacement in ["0", "9", "77", "255", "4000000000"] {
                let mut changed = content[..place].to_vec();
                changed.extend(replacement.as_bytes());
                changed.extend(&content[place + 1..]);
                changed.extend(crc32c::crc32c(&changed).to_le_bytes());
                let mut restored = build(kind);
                match restored.restore(&changed) {
                    Ok(()) => {
                        for action in 0..restored.spec().actions.len().min(5) {
                            let mut observation = buffer(&restored);
                            let step = restored.step(action, &mut observation);
                            assert!(matches!(step, Ok(_) | Err(Error::NoEpisode)));
                        }
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(matches!(error, Error::SavedState { .. }));
                    }
                }
            }
        }
        assert!(refused > 0, "{}", kind.name);
    }
}

#[test]
fn wrong_use_is_refused_in_one_line() {
    for kind in ENVIRONMENTS {
        let mut environment = build(kind);
        let spec = environment.spec();
        let mut observation = buffer(&environment);
        assert!(!spec.actions.is_empty() && spec.frame.size() > 0);
        assert_eq!(environment.score(), None);
        let no_episode = "no episode is running: call reset before the next step";
        assert_eq!(message(environment.step(0, &mut observation)), no_episode);
        let short = &mut observation[1..];
        assert_eq!(
            message(environment.reset(1, short)),
            format!(
                "the buffer has {} values, but an observation has {}",
                spec.frame.size() - 1,
                spec.frame.size()
            )
        );
        begin(&mut environment, 1);
        let before = environment.save();
        let count = spec.actions.len();
        assert_eq!(
            message(environment.step(count, &mut observation)),
            format!(
                "action {count} does not exist: the environment has {count} actions, numbered from 0"
            )
        );
        message(environment.step(0, &mut observation[1..]));
        assert_eq!(environment.save(), before, "{}", kind.name);
        // The state before the first episode is a state, too.
        let fresh = build(kind).save();
        environment.restore(&fresh).expect("was just saved");
        assert_eq!(message(environment.step(0, &mut observation)), no_episode);
    }
}

#[test]
fn states_of_other_settings_are_refused() {
    for (name, settings) in [
        ("mini-pacman", json!({ "level": 2 })),
        ("box-world", json!({ "viewport": 7 })),
        ("t-maze", json!({ "corridor": 4 })),
        ("repeat-previous", json!({ "back": 4 })),
        ("concentration", json!({ "faces": 3 })),
        ("labyrinth", json!({ "length": 90 })),
    ] {
        let kind = EnvironmentKind::named(name).expect("is in the table");
        let mut environment = build(kind);
        begin(&mut environment, 1);
        let mut other = (kind.build)(&settings).expect("in range");
        assert_eq!(
            message(other.restore(&environment.save())),
            "not a saved state of this environment: its settings, or the version of the program, are others"
        );
    }
}

#[test]
fn every_episode_ends_and_has_a_score() {
    for kind in ENVIRONMENTS {
        let mut environment = build(kind);
        let mut step = begin(&mut environment, 1).0;
        let mut observation = buffer(&environment);
        let count = environment.spec().actions.len();
        let mut steps = 0;
        while !step.last {
            step = environment
                .step(steps % count, &mut observation)
                .expect("the episode runs");
            steps += 1;
            assert!(steps <= 3000, "{}", kind.name);
        }
        let (name, value) = environment.score().expect("has begun");
        assert!(!name.is_empty() && value.is_finite());
        assert_eq!(
            message(environment.step(0, &mut observation)),
            "no episode is running: call reset before the next step"
        );
    }
}

#[test]
fn settings_are_read_by_name() {
    for kind in ENVIRONMENTS {
        let all = (kind.defaults)();
        let spec = (kind.build)(&all)
            .expect("the defaults are in range")
            .spec();
        assert_eq!(spec, build(kind).spec());
        let unknown = message((kind.build)(&json!({ "colour": 3 })).map(drop));
        assert!(
            unknown.starts_with("environment: unknown field `colour`, expected "),
            "{unknown}"
        );
        assert_eq!(
            message((kind.build)(&json!([])).map(drop)),
            "environment: settings are an object, not []"
        );
        assert!(EnvironmentKind::named(kind.name).is_some_and(|found| found.name == kind.name));
    }
    assert!(EnvironmentKind::named("chess").is_none());
    let labyrinth = EnvironmentKind::named("labyrinth").expect("is in the table");
    let settings = json!({ "map": { "rooms": 0 } });
    assert_eq!(
        message((labyrinth.build)(&settings).map(drop)),
        "environment.map.rooms = 0: a map has from 1 to 16 rooms"
    );
}
