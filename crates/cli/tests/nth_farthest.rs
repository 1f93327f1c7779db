//! The N-th farthest task: from training to comparison, stopping and resuming bit for bit, refused settings.

mod common;

use common::{
    assert_png, assert_same_training, assert_says, checkpoint_file, mnemora, refuse, resume,
    succeed, with_tiny,
};
use serde_json::Value;
use std::{fs, path::Path, process::Command};
use tempfile::tempdir;

const MEMORIES: [&str; 7] = [
    "lstm",
    "stacked-lstm",
    "ntm",
    "lru",
    "dnc",
    "rmc",
    "ent-net",
];

/// Settings with which a training takes a fraction of a second. Guessing is enough to admit the next
/// n.
const TINY: [&str; 29] = [
    "training.steps=12",
    "training.log_every=1",
    "training.checkpoint_every=4",
    "training.batch=8",
    "task.vectors=3",
    "task.dimensions=2",
    "task.admit_at=0.05",
    "model.head_layers=1",
    "model.head_hidden=8",
    "memory.lstm.hidden=6",
    "memory.stacked_lstm.hidden=4",
    "memory.ntm.hidden=6",
    "memory.ntm.width=4",
    "memory.ntm.slots=0",
    "memory.lru.hidden=6",
    "memory.lru.width=4",
    "memory.lru.slots=0",
    "memory.dnc.hidden=6",
    "memory.dnc.width=4",
    "memory.dnc.slots=0",
    "memory.rmc.heads=2",
    "memory.rmc.head_size=4",
    "memory.ent_net.width=4",
    "evaluation.batches=2",
    "evaluation.batch=16",
    "evaluation.checkpoint_batches=1",
    "evaluation.pictures=2",
    "training.threads=1",
    "training.keep=2",
];

fn train(out: &Path, memory: &str, settings: &[&str]) -> Command {
    let mut command = mnemora(["train", "nth-farthest-small", "--out"]);
    command.arg(out);
    let memory = format!("model.memory={memory}");
    let settings = [&[memory.as_str()], settings].concat();
    with_tiny(command, "nth-farthest-small", &TINY, &settings)
}

fn on(words: &[&str], run: &Path) -> Command {
    let mut command = mnemora(words);
    command.arg(run);
    command
}

/// The largest n admitted, by step.
fn admitted(run: &Path) -> Vec<u64> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let rows = text.lines().map(|row| -> Value {
        let row: Value = serde_json::from_str(row).expect("JSON");
        assert!(
            row["accuracy"].is_number() && row.get("kl").is_none(),
            "{row}"
        );
        row["admitted"].clone()
    });
    rows.map(|n| n.as_u64().expect("a number")).collect()
}

#[test]
fn every_core_trains_and_is_compared() {
    let folder = tempdir().expect("a temporary folder is made");
    let mut compare = mnemora(["compare"]);
    for memory in MEMORIES {
        let run = folder.path().join(memory);
        let mut command = train(&run, memory, &[]);
        command.arg("--json");
        let trained = succeed(command).json();
        let again = succeed(on(&["eval", "--json"], &run)).json();
        assert_eq!(trained, again, "the model is what it was when saved");
        assert_eq!(again["sequences"], 32);
        let keys: Vec<&String> = again.as_object().expect("an object").keys().collect();
        assert_eq!(
            keys,
            [
                "accuracy",
                "accuracy_by_n",
                "bound",
                "bound_stderr",
                "sequences",
                "step"
            ]
        );
        assert_eq!(again["accuracy_by_n"].as_array().expect("a list").len(), 3);
        let bound = again["bound"].as_f64().expect("a number");
        assert!((bound + 3.0_f64.ln()).abs() < 0.5, "{memory}: {bound}");

        let admitted = admitted(&run);
        assert_eq!((admitted[0], admitted.is_sorted()), (1, true), "{memory}");
        let text = succeed(on(&["eval"], &run)).stdout;
        assert_says(
            &text,
            &["accuracy by n", "33.3 is chance", "log likelihood"],
        );
        let html = fs::read_to_string(run.join("report.html")).expect("a report");
        assert_says(&html, &["Accuracy by n", "Curriculum", "chance", "Bound"]);
        let heads = ["ntm", "lru", "dnc", "rmc", "ent-net"].contains(&memory);
        assert_eq!(
            run.join("samples/attention.png").exists(),
            heads,
            "{memory}"
        );
        succeed(on(&["generate", "--sequences", "2"], &run));
        assert_png(&run.join("samples/generated.png"));
        let message = refuse(on(&["generate", "--steps", "2"], &run));
        assert_says(&message, &["--steps 2", "nth-farthest"]);
        compare.arg(&run);
    }
    let picture = folder.path().join("compare.png");
    compare.arg("--out").arg(&picture);
    let table = succeed(compare).stdout;
    assert_png(&picture);
    assert_says(
        &table,
        &[
            "| model | seeds | updates | parameters | accuracy | bound |",
            "| stacked-lstm | 1 | 12 |",
        ],
    );

    let picture = folder.path().join("show.png");
    let mut show = mnemora(["show", "nth-farthest", "--out"]);
    show.arg(&picture);
    succeed(show);
    assert_png(&picture);
}

/// The stage of a curriculum, and the accuracy that decides on it, survive a stop.
#[test]
fn a_stop_changes_neither_weights_nor_curriculum() {
    let folder = tempdir().expect("a temporary folder is made");
    for memory in ["rmc", "lstm"] {
        let whole = folder.path().join(format!("{memory}-whole"));
        let parted = folder.path().join(format!("{memory}-parted"));
        succeed(train(&whole, memory, &[]));
        for (steps, first) in [(2, true), (5, false), (12, false)] {
            let setting = format!("training.steps={steps}");
            succeed(match first {
                true => train(&parted, memory, &[&setting]),
                false => resume(&parted, &[&setting]),
            });
        }
        assert_same_training(&whole, &parted);
        let admitted = admitted(&whole);
        assert_eq!(
            (admitted[0], admitted[11]),
            (1, 3),
            "{memory}: {admitted:?}"
        );
        let state = checkpoint_file(&whole, 12, "state.json");
        let state = fs::read_to_string(state).expect("a checkpoint's state");
        assert_says(&state, &["counters", "curriculum"]);
    }
}

#[test]
fn without_a_curriculum_every_n_is_asked_for() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, "rmc", &["task.curriculum=false"]));
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    assert!(
        text.contains("accuracy") && !text.contains("admitted"),
        "{text}"
    );
    let html = fs::read_to_string(run.join("report.html")).expect("a report");
    assert!(!html.contains("Curriculum"));
    let message = refuse(resume(&run, &["task.curriculum=true"]));
    assert_says(&message, &["task.curriculum", "training"]);
}

#[test]
fn what_makes_no_question_is_refused() {
    let folder = tempdir().expect("a temporary folder is made");
    let out = folder.path().join("run");
    for (setting, wanted) in [
        ("task.vectors=0", "at least 1"),
        ("task.vectors=1", "from 2 to 1024"),
        ("task.dimensions=0", "at least 1"),
        ("task.dimensions=5000", "from 1 to 1024"),
        ("task.admit_at=0", "between 0 and 1"),
        ("task.admit_at=nan", "between 0 and 1"),
        ("task.curriculum=maybe", "true or false"),
        ("model.head_hidden=0", "at least 1"),
        ("memory.ent_net.cells=0", "at least 1"),
        ("training.segment=2", "nth-farthest"),
    ] {
        let message = refuse(train(&out, "rmc", &[setting]));
        let key = setting.split_once('=').expect("key=value").0;
        assert_says(&message, &[key, wanted]);
        assert!(!out.exists(), "{setting}");
    }
    let message = refuse(train(&out, "vrnn", &[]));
    assert_says(&message, &["model.memory", "'vrnn'", "stacked-lstm"]);
    let other = folder.path().join("other");
    succeed(train(&out, "rmc", &[]));
    succeed(train(&other, "rmc", &["task.vectors=4"]));
    let mut compare = mnemora(["compare"]);
    compare.args([&out, &other]);
    assert_says(
        &refuse(compare),
        &["different tasks", "3 vectors", "4 vectors of 2 dimensions"],
    );
    let filter = refuse(on(&["filter"], &out));
    assert_says(
        &filter,
        &["nth-farthest", "the family classes do not filter"],
    );
}
