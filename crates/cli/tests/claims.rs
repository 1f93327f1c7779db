//! `mnemora compare --claims`: the numbers of runs as rows of an evidence file.

mod common;

use common::{assert_says, mnemora, refuse, run, succeed, with_settings};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::{TempDir, tempdir};

/// A finished run of an earlier version, copied into `runs` under another name, with the given seed and bound.
fn finished(runs: &TempDir, fixture: &str, name: &str, seed: u64, bound: f64) -> PathBuf {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/runs")
        .join(fixture);
    let run = runs.path().join(name);
    let checkpoint = run.join("checkpoints/step-4");
    fs::create_dir_all(&checkpoint).expect("folders are made");
    let read = |file: &str| fs::read_to_string(stored.join(file)).expect(file);
    let write = |file: &str, text: String| fs::write(run.join(file), text).expect(file);
    let experiment = read("experiment.toml");
    let lines = experiment
        .lines()
        .map(|line| match line.starts_with("seed = ") {
            true => format!("seed = {seed}\n"),
            false => format!("{line}\n"),
        });
    write("experiment.toml", lines.collect());
    let mut evaluation: Value = serde_json::from_str(&read("evaluation.json")).expect("JSON");
    evaluation["bound"] = bound.into();
    write("evaluation.json", evaluation.to_string());
    let mut origin: Value = serde_json::from_str(&read("origin.json")).expect("JSON");
    // The seed was changed.
    origin["experiment_sha256"] = Value::Array(Vec::new());
    write("origin.json", origin.to_string());
    write("checkpoints/step-4/state.json", read("state.json"));
    run
}

/// Changes a JSON file of a run.
fn changed(run: &Path, file: &str, change: impl Fn(&mut Value)) {
    let path = run.join(file);
    let text = fs::read_to_string(&path).expect(file);
    let mut json: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut json);
    fs::write(&path, json.to_string()).expect(file);
}

fn claim(target: &Path, runs: &[&Path]) -> std::process::Command {
    let mut words = mnemora(["compare", "--claims"]);
    words.arg(target).args(runs);
    words
}

fn rows(target: &Path) -> Vec<Value> {
    let text = fs::read_to_string(target).expect("rows");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn row<'a>(rows: &'a [Value], model: &str, claim: &str) -> &'a Value {
    let mut rows = rows.iter();
    let found = rows.find(|row| row["model"] == model && row["claim"] == claim);
    found.unwrap_or_else(|| panic!("no {claim} of {model}"))
}

#[test]
fn replicas_are_one_row_and_other_rows_stay() {
    let runs = tempdir().expect("a temporary folder is made");
    let one = finished(&runs, "frames-dnc", "one", 1, -100.0);
    let two = finished(&runs, "frames-dnc", "two", 2, -104.0);
    let unfinished = finished(&runs, "frames-dnc", "three", 3, -1.0);
    fs::remove_file(unfinished.join("evaluation.json")).expect("the evaluation is removed");
    let target = runs.path().join("gtmm.jsonl");
    let old =
        "{\"claim\": \"bound\", \"setting\": \"older\",  \"model\": \"dnc\", \"value\": 1.50}";
    fs::write(&target, format!("{old}\n")).expect("a row is written");

    let said = succeed(claim(&target, &[&two, &one, &unfinished]));
    assert_says(&said.stderr, &["three", "not evaluated yet"]);
    assert_says(
        &said.stdout,
        &[
            "### perfect-recall-small",
            "| dnc |",
            "1, 2",
            "-102.0 ± 2.0",
        ],
    );
    let text = fs::read_to_string(&target).expect("rows");
    assert_eq!(text.lines().next(), Some(old), "an old row is unchanged");
    let found = rows(&target);
    let bound = row(&found[1..], "dnc", "bound");
    assert_eq!(bound["value"], -102.0);
    assert_eq!(bound["stderr"], 2.0);
    assert_eq!(bound["replicas"], serde_json::json!([-100.0, -104.0]));
    assert_eq!(bound["seeds"], serde_json::json!([1, 2]));
    let curve = serde_json::json!([[2, -2811.7686157226562, 0.0], [4, -2806.555908203125, 0.0]]);
    assert_eq!(bound["curve"], curve);
    assert_eq!(bound["unit"], "nats per sequence");
    let command = bound["command"].as_str().expect("a command");
    assert!(command.ends_with(", seeds [1, 2]"), "{command}");
    assert!(!command.contains("--out"), "{command}");
    for (key, is_there) in [
        ("commit", bound["commit"].is_string()),
        ("machine", bound["machine"].is_string()),
        ("parameters", bound["parameters"].is_u64()),
        (
            "data",
            bound["data"]
                .as_str()
                .is_some_and(|data| data.contains("sha256 20523a6a7b8d")),
        ),
        ("steps", bound["budget"]["steps"] == 4),
        (
            "seconds",
            bound["budget"]["seconds"]
                .as_array()
                .is_some_and(|all| all.len() == 2),
        ),
        ("threads", bound["budget"]["threads"] == 1),
        ("sequences", bound["budget"]["held_out_sequences"] == 4),
    ] {
        assert!(is_there, "{key}: {bound}");
    }
    // Keys stand in one order, with a space after each colon and comma.
    let line = text.lines().nth(1).expect("a row");
    assert!(
        line.starts_with(
            "{\"claim\": \"bound\", \"setting\": \"perfect-recall-small\", \"model\": "
        ),
        "{line}"
    );

    // A second measurement replaces the rows instead of duplicating them.
    let before = text.lines().count();
    succeed(claim(&target, &[&one]));
    let found = rows(&target);
    assert_eq!(found.len(), before);
    let bound = row(&found[1..], "dnc", "bound");
    assert_eq!(
        (bound["value"].as_f64(), &bound["stderr"]),
        (Some(-100.0), &Value::Null)
    );
}

#[test]
fn rows_of_other_settings_are_replaced_only_if_that_is_said() {
    let runs = tempdir().expect("a temporary folder is made");
    let one = finished(&runs, "frames-dnc", "one", 1, -100.0);
    let target = runs.path().join("gtmm.jsonl");
    succeed(claim(&target, &[&one]));
    let before = fs::read_to_string(&target).expect("rows");

    let clipped = finished(&runs, "frames-dnc", "clipped", 2, -90.0);
    changed(&clipped, "origin.json", |origin| {
        let command = origin["command"].as_str().expect("a command").to_owned();
        origin["command"] = format!("{command} --set training.clip=0.5").into();
    });
    let message = refuse(claim(&target, &[&clipped]));
    assert_says(
        &message,
        &[
            "perfect-recall-small, dnc",
            "training.clip not set, the runs have 0.5",
            "--replace",
        ],
    );
    let longer = finished(&runs, "frames-dnc", "longer", 2, -90.0);
    changed(&longer, "evaluation.json", |evaluation| {
        evaluation["step"] = 5.into();
    });
    let [four, five] = ["step-4", "step-5"].map(|step| longer.join("checkpoints").join(step));
    fs::rename(four, five).expect("the checkpoint is renamed");
    let message = refuse(claim(&target, &[&longer]));
    assert_says(&message, &["4 updates, the runs have 5", "--replace"]);
    assert_eq!(fs::read_to_string(&target).expect("rows"), before);

    let mut replacing = claim(&target, &[&clipped]);
    replacing.arg("--replace");
    succeed(replacing);
    let found = rows(&target);
    assert_eq!(row(&found, "dnc", "bound")["value"], -90.0);
    assert_eq!(found.len(), before.lines().count());
}

#[test]
fn seeds_that_are_measured_later_join_the_rows() {
    let runs = tempdir().expect("a temporary folder is made");
    let all = [(1, -100.0), (2, -104.0), (3, -99.0)];
    let [one, two, three] =
        all.map(|(seed, bound)| finished(&runs, "frames-dnc", &format!("run-{seed}"), seed, bound));
    let targets = ["together", "later"].map(|name| {
        let folder = runs.path().join(name);
        fs::create_dir(&folder).expect("a folder is made");
        folder.join("gtmm.jsonl")
    });
    let [together, later] = &targets;
    let joining = |runs: &[&Path]| {
        let mut words = claim(later, runs);
        words.arg("--join");
        words
    };
    succeed(claim(together, &[&one, &two, &three]));
    succeed(claim(later, &[&two]));
    // Those of a setting that the file does not have are added.
    succeed(joining(&[&three, &one]));
    let [together, joined] =
        [together, later].map(|target| fs::read_to_string(target).expect("rows"));
    assert_eq!(joined, together);

    // Nothing is joined twice, nor with another budget.
    let message = refuse(joining(&[&one]));
    assert_says(
        &message,
        &[
            "perfect-recall-small, dnc",
            "seed 1 is there already",
            "nothing was written",
        ],
    );
    let longer = finished(&runs, "frames-dnc", "longer", 4, -100.0);
    changed(&longer, "evaluation.json", |evaluation| {
        evaluation["sequences"] = 8.into();
    });
    let message = refuse(joining(&[&longer]));
    assert_says(
        &message,
        &["held-out sequences differ, 4 and 8", "nothing was written"],
    );
    // Nor with other data, nor if a number would be lost.
    let other = finished(&runs, "frames-dnc", "other", 5, -100.0);
    changed(&other, "origin.json", |origin| {
        origin["data"] = "digits of another kind".into();
    });
    let message = refuse(joining(&[&other]));
    assert_says(
        &message,
        &[
            "data differ",
            "digits of another kind",
            "nothing was written",
        ],
    );
    let otherwise = finished(&runs, "frames-dnc", "otherwise", 7, -100.0);
    changed(&otherwise, "origin.json", |origin| {
        let command = origin["command"].as_str().expect("a command").to_owned();
        origin["command"] = format!("{command} --set training.clip=0.5").into();
    });
    let message = refuse(joining(&[&otherwise]));
    assert_says(
        &message,
        &[
            "training.clip differs, not set and 0.5",
            "nothing was written",
        ],
    );
    let poorer = finished(&runs, "frames-dnc", "poorer", 6, -100.0);
    changed(&poorer, "evaluation.json", |evaluation| {
        evaluation
            .as_object_mut()
            .expect("measures")
            .remove("kl_unpredictable");
    });
    let message = refuse(joining(&[&poorer]));
    assert_says(
        &message,
        &["the runs have no 'KL unpredictable'", "nothing was written"],
    );
    assert_eq!(fs::read_to_string(later).expect("rows"), joined);
    let mut alone = mnemora(["compare", "--join"]);
    alone.arg(&one);
    let ended = run(alone);
    assert_eq!(ended.status, Some(2));
    assert_says(&ended.stderr, &["--claims"]);
}

#[test]
fn models_and_settings_have_names_of_their_own() {
    let runs = tempdir().expect("a temporary folder is made");
    let fixtures = [
        "frames-introspection",
        "music-srnn",
        "programs-rmc",
        "copy-lstm",
        "words-lstm",
    ];
    let found = fixtures.map(|fixture| finished(&runs, fixture, fixture, 1, -1.0));
    let target = runs.path().join("all.jsonl");
    let paths: Vec<&Path> = found.iter().map(PathBuf::as_path).collect();
    succeed(claim(&target, &paths));
    let rows = rows(&target);
    let of = |setting: &str, model: &str, claim: &str| {
        rows.iter()
            .any(|row| row["setting"] == setting && row["model"] == model && row["claim"] == claim)
    };
    for (setting, model, claim) in [
        (
            "perfect-recall-small",
            "introspection-avf1-units-3",
            "KL ratio",
        ),
        (
            "perfect-recall-small",
            "introspection-avf1-units-3",
            "at the prior",
        ),
        (
            "jsb-chorales-small",
            "srnn-avf1-observe-units-4",
            "free energy",
        ),
        (
            "jsb-chorales-small",
            "srnn-avf1-observe-units-4",
            "particle filter",
        ),
        (
            "learning-to-execute-small, addition, nesting 1",
            "rmc-rate-0.05-head-3",
            "accuracy",
        ),
        ("copy", "lstm-hidden-4", "bit error"),
        ("books-small", "lstm-hidden-4", "perplexity"),
    ] {
        let all: Vec<String> = rows
            .iter()
            .map(|row| format!("{} {} {}", row["setting"], row["model"], row["claim"]))
            .collect();
        assert!(
            of(setting, model, claim),
            "{setting} {model} {claim} is not in {all:#?}"
        );
    }
}

#[test]
fn other_settings_under_one_name_are_refused() {
    let runs = tempdir().expect("a temporary folder is made");
    let one = finished(&runs, "frames-dnc", "one", 1, -100.0);
    let other = finished(&runs, "frames-dnc", "other", 1, -100.0);
    let path = other.join("experiment.toml");
    let text = fs::read_to_string(&path).expect("a configuration");
    let changed = text.replacen("log_every = ", "log_every = 1", 1);
    assert_ne!(changed, text);
    fs::write(&path, changed).expect("the configuration is written");
    let target = runs.path().join("gtmm.jsonl");
    let message = refuse(claim(&target, &[&one, &other]));
    assert_says(
        &message,
        &["perfect-recall-small, dnc", "different settings"],
    );
    assert!(!target.exists());
}

/// A bound at several variances has a row and a column for each; the first is the bound.
#[test]
fn numbers_of_a_small_table_have_rows_of_their_own() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("patterns");
    let mut training = mnemora(["train", "patterns", "--out"]);
    training.arg(&run);
    let tiny = [
        "training.steps=1",
        "training.batch=2",
        "evaluation.batches=1",
        "evaluation.batch=2",
        "scenes.samples=2",
        "scenes.test_variance=[0.8, 0.25]",
    ];
    succeed(with_settings(training, &tiny));
    let target = folder.path().join("scenes.jsonl");
    let said = succeed(claim(&target, &[&run]));
    let rows = rows(&target);
    let value = |claim: &str| row(&rows, "cgqn", claim)["value"].as_f64().expect(claim);
    for (all, at) in [
        ("bound", "bound at a variance of"),
        (
            "bound of what is hidden",
            "bound of what is hidden at a variance of",
        ),
    ] {
        assert_eq!(value(&format!("{at} 0.8")), value(all));
        assert!(value(&format!("{at} 0.25")) < value(all));
        assert_says(&said.stdout, &[&format!("{at} 0.8 | {at} 0.25")]);
    }
}

#[test]
fn numbers_of_other_data_are_refused() {
    let runs = tempdir().expect("a temporary folder is made");
    let run = finished(&runs, "frames-dnc", "one", 1, -100.0);
    let target = runs.path().join("gtmm.jsonl");
    let other = "{\"setting\": \"perfect-recall-small\", \"data\": \"mnist: images, sha256 123456789abc\"}\n";
    fs::write(runs.path().join("other.jsonl"), other).expect("a row is written");
    let message = refuse(claim(&target, &[&run]));
    assert_says(
        &message,
        &[
            "perfect-recall-small",
            "different data",
            "123456789abc",
            "nothing was written",
        ],
    );
    assert!(!target.exists());
    let message = refuse(claim(
        &runs.path().join("other.jsonl"),
        &[&runs.path().join("nowhere")],
    ));
    assert_says(&message, &["nowhere"]);
    fs::write(runs.path().join("other.jsonl"), "no row\n").expect("a line is written");
    let message = refuse(claim(&target, &[&run]));
    assert_says(&message, &["other.jsonl", "line 1", "of one folder"]);
}
