//! Learning to execute: from training to comparison, stopping and resuming bit for bit, refused settings.

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

/// Settings with which a training takes a fraction of a second.
const TINY: [&str; 30] = [
    "training.steps=12",
    "training.log_every=1",
    "training.checkpoint_every=4",
    "training.batch=8",
    "task.programs.literal_length=2",
    "task.programs.nesting=1",
    "task.programs.curriculum=mix",
    "task.admit_at=0.004",
    "model.head_layers=1",
    "model.head_hidden=8",
    "memory.lstm.hidden=6",
    "memory.stacked_lstm.hidden=4",
    "memory.ntm.hidden=6",
    "memory.ntm.width=4",
    "memory.ntm.slots=4",
    "memory.lru.hidden=6",
    "memory.lru.width=4",
    "memory.lru.slots=6",
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
    let mut command = mnemora(["train", "learning-to-execute-small", "--out"]);
    command.arg(out);
    let memory = format!("model.memory={memory}");
    let settings = [&[memory.as_str()], settings].concat();
    with_tiny(command, "learning-to-execute-small", &TINY, &settings)
}

fn on(words: &[&str], run: &Path) -> Command {
    let mut command = mnemora(words);
    command.arg(run);
    command
}

fn metrics(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let rows = text.lines().map(serde_json::from_str);
    rows.map(|row| row.expect("JSON")).collect()
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
                "answer_accuracy",
                "bound",
                "bound_stderr",
                "sequences",
                "step"
            ]
        );
        for row in metrics(&run) {
            let accuracy = row["accuracy"].as_f64().expect("a number");
            assert!((0.0..=1.0).contains(&accuracy), "{row}");
            assert!(row.get("admitted").is_none(), "{row}");
        }
        let text = succeed(on(&["eval"], &run)).stdout;
        assert_says(
            &text,
            &["% of characters", "whole answers", "log likelihood"],
        );
        let html = fs::read_to_string(run.join("report.html")).expect("a report");
        assert_says(&html, &["Held-out programs", "Accuracy", "Bound"]);
        let heads = ["ntm", "lru", "dnc", "rmc", "ent-net"].contains(&memory);
        assert_eq!(
            run.join("samples/attention.png").exists(),
            heads,
            "{memory}"
        );
        succeed(on(&["generate", "--sequences", "2"], &run));
        assert_png(&run.join("samples/generated.png"));
        let message = refuse(on(&["generate", "--steps", "2"], &run));
        assert_says(&message, &["--steps 2", "programs"]);
        compare.arg(&run);
    }
    let out = |ending: &str| folder.path().join(format!("compare.{ending}"));
    for ending in ["png", "svg", "csv", "tex"] {
        compare.arg("--out").arg(out(ending));
    }
    let table = succeed(compare).stdout;
    assert_png(&out("png"));
    assert_says(
        &table,
        &[
            "| model | seeds | updates | parameters | accuracy | bound | whole answers |",
            "| stacked-lstm | 1 | 12 |",
        ],
    );
    let written = |ending: &str| fs::read_to_string(out(ending)).expect("a text");
    assert!(written("svg").starts_with("<svg"));
    let names = "model,seeds,updates,parameters,accuracy,\"accuracy, standard error\",bound,";
    let csv = written("csv");
    assert!(csv.starts_with(names), "{csv}");
    assert_says(&csv, &["\nstacked-lstm,1,12,"]);
    let tex = written("tex");
    assert_says(
        &tex,
        &[
            "\\begin{tabular}{llrr",
            "stacked-lstm & 1 & 12 &",
            "\\end{tabular}",
        ],
    );
}

#[test]
fn every_family_is_shown_and_learned() {
    let folder = tempdir().expect("a temporary folder is made");
    for family in [
        "addition",
        "control",
        "full-program",
        "original",
        "copy",
        "reverse",
        "double",
    ] {
        let run = folder.path().join(family);
        let setting = format!("task.programs.family={family}");
        succeed(train(&run, "rmc", &[&setting]));
        let picture = folder.path().join(format!("{family}.png"));
        let mut show = mnemora(["show", "memorization-small", "--set", &setting, "--out"]);
        show.arg(&picture);
        succeed(show);
        assert_png(&picture);
    }
    let mut compare = mnemora(["compare"]);
    compare.args([folder.path().join("copy"), folder.path().join("control")]);
    assert_says(
        &refuse(compare),
        &["different tasks", "copy of up to 2 digits", "nesting 1"],
    );
}

/// The decoder's input changes what is learned, and on held-out programs the targets are never its input.
#[test]
fn decoders_differ_by_what_they_read() {
    let folder = tempdir().expect("a temporary folder is made");
    let mut norms = Vec::new();
    for input in ["probabilities", "symbol", "nothing", "truth"] {
        let run = folder.path().join(input);
        let setting = format!("model.decoder_input={input}");
        succeed(train(&run, "lstm", &[&setting]));
        let norm = metrics(&run)[0]["gradient_norm"].clone();
        assert!(!norms.contains(&norm), "{input}: {norm} {norms:?}");
        norms.push(norm);
    }
}

/// The stage of a curriculum, and the accuracy that decides on it, survive a stop.
#[test]
fn a_stop_changes_neither_weights_nor_curriculum() {
    let folder = tempdir().expect("a temporary folder is made");
    for (memory, curriculum) in [("rmc", "naive"), ("dnc", "combined")] {
        let whole = folder.path().join(format!("{memory}-whole"));
        let parted = folder.path().join(format!("{memory}-parted"));
        let curriculum = format!("task.programs.curriculum={curriculum}");
        let nesting = "task.programs.nesting=2";
        // High enough that guesses soon reach the accuracy for the next stage.
        let rate = "training.learning_rate=0.02";
        succeed(train(&whole, memory, &[&curriculum, nesting, rate]));
        for (steps, first) in [(2, true), (5, false), (12, false)] {
            let steps = format!("training.steps={steps}");
            succeed(match first {
                true => train(&parted, memory, &[&curriculum, nesting, rate, &steps]),
                false => resume(&parted, &[&steps]),
            });
        }
        assert_same_training(&whole, &parted);
        let rows = metrics(&whole);
        let stages: Vec<u64> = rows
            .iter()
            .filter_map(|row| row["admitted"].as_u64())
            .collect();
        assert_eq!((stages.len(), stages[0]), (12, 1), "{memory}");
        assert!(stages.is_sorted() && stages[11] > 1, "{memory}: {stages:?}");
        let state = checkpoint_file(&whole, 12, "state.json");
        let state = fs::read_to_string(state).expect("a checkpoint's state");
        assert_says(&state, &["counters", "curriculum"]);
        let html = fs::read_to_string(whole.join("report.html")).expect("a report");
        assert_says(&html, &["Curriculum", "stage"]);
    }
}

#[test]
fn what_makes_no_program_is_refused() {
    let folder = tempdir().expect("a temporary folder is made");
    let out = folder.path().join("run");
    for (setting, wanted) in [
        ("task.programs.nesting=0", "from 1 to 10"),
        ("task.programs.nesting=11", "from 1 to 10"),
        ("task.programs.literal_length=0", "from 1 to 12"),
        ("task.programs.literal_length=13", "from 1 to 12"),
        ("task.programs.modulus_digits=19", "from 1 to 18"),
        (
            "task.programs.curriculum=hard",
            "one of baseline, naive, mix, combined",
        ),
        (
            "task.programs.family=sums",
            "one of original, addition, control",
        ),
        ("task.programs.depth=2", "task.programs."),
        (
            "model.decoder_input=teacher",
            "one of probabilities, symbol",
        ),
        ("task.window=7", "programs does not use"),
        ("task.vectors=4", "programs does not use"),
        ("task.curriculum=true", "programs does not use"),
        ("task.admit_at=1", "between 0 and 1"),
        ("memory.dnc.layers=0", "at least 1"),
        ("memory.dnc.controller=gru", "one of lstm, feed-forward"),
        ("training.segment=2", "programs"),
        ("filtering.strategy=gradient", "programs"),
    ] {
        let message = refuse(train(&out, "rmc", &[setting]));
        let key = setting.split_once('=').expect("key=value").0;
        assert_says(&message, &[key, wanted]);
        assert!(!out.exists(), "{setting}");
    }
    for (family, setting, wanted) in [
        ("copy", "task.programs.nesting=2", "must be 1 for copy"),
        (
            "reverse",
            "task.programs.modulus_digits=3",
            "must be 0 for reverse",
        ),
        (
            "original",
            "task.programs.modulus_digits=3",
            "must be 0 for original",
        ),
        (
            "double",
            "task.programs.literal_length=10001",
            "from 1 to 10000",
        ),
    ] {
        let family = format!("task.programs.family={family}");
        let message = refuse(train(&out, "rmc", &[&family, setting]));
        assert_says(&message, &[wanted]);
        assert!(!out.exists(), "{setting}");
    }
    let message = refuse(train(&out, "vrnn", &[]));
    assert_says(&message, &["model.memory", "'vrnn'", "stacked-lstm"]);
    for setting in ["task.programs.nesting=2", "model.decoder_input=truth"] {
        let mut other = mnemora(["train", "nth-farthest-small", "--set", setting, "--out"]);
        other.arg(&out);
        let key = setting.split_once('=').expect("key=value").0;
        assert_says(&refuse(other), &[key, "nth-farthest"]);
    }
    succeed(train(&out, "lstm", &[]));
    let message = refuse(resume(&out, &["task.programs.curriculum=naive"]));
    assert_says(&message, &["task.programs.curriculum", "training"]);
    let filter = refuse(on(&["filter"], &out));
    assert_says(&filter, &["programs", "do not filter"]);
}
