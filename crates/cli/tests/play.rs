//! `mnemora play`: environments in a terminal and by lines, and an agent that acts on threads.

mod common;

use common::{assert_says, in_terminal, mnemora, refuse, run_with_input, succeed, with_settings};
use std::{fs, process::Command};
use tempfile::tempdir;

fn play(words: &[&str]) -> Command {
    let mut command = mnemora(["play"]);
    command.args(words);
    command
}

#[test]
fn keys_play_in_a_terminal() {
    let keys = ["u", "\x1b[B", "l", "\x1b[C", "x", "q"];
    let Some(shown) = in_terminal(&play(&["mini-pacman", "--seed", "3"]), &keys) else {
        return;
    };
    for step in [
        "step 1: up",
        "step 2: down",
        "step 3: left",
        "step 4: right",
    ] {
        assert!(shown.contains(step), "{step} is not shown");
    }
    assert!(!shown.contains("step 5"), "x is no action");
    assert!(shown.contains('▀'));
}

#[test]
fn each_letter_of_a_line_is_a_step() {
    let command = play(&["t-maze", "--set", "corridor=2"]);
    let ended = run_with_input(command, b"ff\nl\n");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[3].contains("the episode is over"), "{lines:?}");
    assert_says(
        &ended.stderr,
        &["each letter of a line is a step", "f forward"],
    );
}

/// The agent that comes with the program plays an episode, and is as good as its card says.
#[test]
fn the_shipped_agent_opens_the_boxes() {
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../pretrained/boxworld-small"
    );
    let played = succeed(play(&[shipped])).stdout;
    assert_says(&played, &["the episode is over", "solved 1.00"]);
    let evaluation = succeed(mnemora(["eval", "--json", shipped])).json();
    let solved = evaluation["outcome"].as_f64().expect("a number");
    assert!(solved > 0.9, "{evaluation}");
}

/// Settings with which a training takes a fraction of a second.
const TINY: [&str; 7] = [
    "training.batch=3",
    "training.log_every=2",
    "training.checkpoint_every=10",
    "agents.unroll=4",
    "agents.model.head=4",
    "memory.lstm.hidden=4",
    "evaluation.batch=2",
];

fn apart(words: &[&str], settings: &[&str]) -> Command {
    let mut command = mnemora(words);
    command.arg("--set").arg("agents.mode=asynchronous");
    with_settings(command, settings)
}

/// Unrolls made, learned from and left, as the end of a training says.
fn ledger(said: &str) -> [u64; 3] {
    let line = said.lines().find_map(|line| line.strip_prefix("unrolls: "));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let numbers: Vec<u64> = line
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn actors_on_threads_lose_no_unroll() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let out = run.to_str().expect("a plain path");
    let train = |steps: &str, settings: &[&str]| {
        let settings = [&TINY, settings, &[steps]].concat();
        apart(&["train", "t-maze-small", "--out", out], &settings)
    };
    let ended = succeed(train("training.steps=30", &["agents.actors=3"]));
    let [made, learned, left] = ledger(&ended.stderr);
    assert_eq!(learned, 30);
    assert_eq!(made, learned + left, "{}", ended.stderr);
    let rows = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let last: serde_json::Value =
        serde_json::from_str(rows.lines().last().expect("a row")).expect("JSON");
    assert_eq!(last["frames"], 30 * 4 * 3);
    // An actor that was not given a core may have begun its unroll before all updates.
    assert!(last["lag"].as_u64().is_some_and(|lag| lag < 30), "{last}");

    let resumed = succeed(with_settings(
        mnemora(["resume", out]),
        &["training.steps=40"],
    ));
    assert_eq!(ledger(&resumed.stderr)[1], 10);
    assert_says(
        &resumed.stderr,
        &["3 actors on threads", "does not resume bit for bit"],
    );
    let refused = refuse(train("training.steps=1", &["agents.actors=0"]));
    assert_says(&refused, &["agents.actors is 0", "from 1"]);

    // The policy that acted is an older one than the one that learns, so that even a first update is clipped.
    let clipped = ["agents.objective=ppo", "agents.clip=0.1"];
    let other = folder.path().join("other");
    let words = [
        "train",
        "t-maze-small",
        "--out",
        other.to_str().expect("a plain path"),
    ];
    let settings = [&TINY, &clipped[..], &["training.steps=2"]].concat();
    succeed(apart(&words, &settings));
    let together = with_settings(mnemora(["train", "t-maze-small", "--dry-run"]), &clipped);
    assert_says(&refuse(together), &["agents.clip", "agents.passes above 1"]);
}

/// Who wants an agent in another environment is told a command that works and keeps the agent's sizes.
#[test]
fn another_environment_needs_a_run_of_its_own() {
    let folder = tempdir().expect("a temporary folder is made");
    let [run, other] = ["run", "other"].map(|name| folder.path().join(name));
    let training = mnemora(["train", "t-maze-small", "--out"]);
    let settings = [&TINY[..], &["training.steps=1"]].concat();
    let out = |mut command: Command| {
        command.arg(&run);
        command
    };
    succeed(with_settings(out(training), &settings));
    let corridor = ["agents.environment.t-maze.corridor=9"];
    let evaluation = out(mnemora(["eval"]));
    let refused = refuse(with_settings(evaluation, &corridor));
    let watching = refuse(with_settings(out(mnemora(["play"])), &corridor));
    for (said, value) in [(refused, "VALUE"), (watching, "NAME.KEY=VALUE")] {
        let (_, command) = said.split_once("mnemora ").expect(&said);
        let command = command.trim().replace(
            value,
            match value {
                "VALUE" => "9",
                _ => "t-maze.corridor=9",
            },
        );
        let mut suggested = mnemora(command.split(' '));
        suggested.arg("--out").arg(&other);
        succeed(suggested);
        let text = fs::read_to_string(other.join("experiment.toml")).expect("a configuration");
        for line in ["hidden = 4", "corridor = 9", "steps = 0"] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
        fs::remove_dir_all(&other).expect("the run is removed");
    }
}

/// Each bad setting of an agent or its environment gives one line that names the key.
#[test]
fn bad_settings_of_agents_are_refused() {
    for (settings, said) in [
        (
            &["agents.unroll=0"][..],
            "agents.unroll is 0, it must be from 1 to 10000",
        ),
        (
            &[
                "agents.model.torso.kernels=[7, 3]",
                "agents.model.torso.strides=[2, 1]",
            ],
            "agents.model.torso.kernels has 7, but the picture has 5 rows or columns there",
        ),
        (
            &["agents.model.torso.kernels=[0, 3]"],
            "agents.model.torso.kernels is 0",
        ),
        (
            &["agents.model.torso.channels=[16]"],
            "agents.model.torso.channels is [16]: invalid length 1, expected an array of length 2",
        ),
        (
            &["agents.environment.box-world.viewport=4"],
            "agents.environment.box-world.viewport = 4: the side of the view must be odd",
        ),
        (
            &[
                "agents.environment.box-world.solution_least=9",
                "agents.environment.box-world.solution_most=9",
                "agents.environment.box-world.distractors_least=5",
                "agents.environment.box-world.distractors_most=5",
            ],
            "agents.environment.box-world.distractors_least = 5 these are more than 13 locks and distractors",
        ),
    ] {
        let train = mnemora(["train", "boxworld-small", "--dry-run"]);
        let refused = refuse(with_settings(train, settings));
        assert_says(&refused, &[said]);
    }
}
