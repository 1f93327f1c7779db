//! The workflows that the README describes, each with a tiny model.

mod common;

use common::{
    TINY_TIME, assert_png, assert_says, mnemora, read_json, resume, rows_logged, run, succeed,
    train, train_copy, write_digits,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::tempdir;

fn command_on(run: &Path, words: &[&str]) -> Command {
    let mut command = mnemora(words);
    command.arg(run);
    command
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[track_caller]
fn assert_close(a: f64, b: f64) {
    let scale = a.abs().max(b.abs()).max(1.0);
    assert!((a - b).abs() < 1e-5 * scale, "{a} against {b}");
}

#[test]
fn help_of_every_command() {
    let all = succeed(mnemora(["--help"])).stdout;
    for name in [
        "list", "show", "train", "resume", "eval", "generate", "walk", "query", "report",
        "compare", "bench",
    ] {
        assert_says(&all, &[name]);
        let help = succeed(mnemora([name, "--help"])).stdout;
        assert_says(&help, &[&format!("Usage: mnemora {name}")]);
    }
    assert_says(&all, &["Exit status", "130", "143"]);
    let version = succeed(mnemora(["--version"])).stdout;
    assert_says(&version, &["mnemora", env!("CARGO_PKG_VERSION")]);
}

#[test]
fn list() {
    let all = succeed(mnemora(["list", "--json"])).json();
    let experiments = all["experiments"].as_array().expect("a list");
    let text = succeed(mnemora(["list"])).stdout;
    for name in [
        "perfect-recall",
        "perfect-recall-20",
        "perfect-recall-50",
        "perfect-recall-small",
    ] {
        let row = experiments.iter().find(|row| row["name"] == name);
        let row = row.unwrap_or_else(|| panic!("{name} is not in {all}"));
        assert_eq!(row["task"], "perfect-recall");
        let description = row["description"].as_str().expect("a text");
        let updates = row["updates"].as_u64().expect("a count") / 1000;
        assert_says(
            &text,
            &[name, description, &format!("({updates},000 updates")],
        );
        assert_eq!(row["needs_data"], false);
    }
    let kth = experiments.iter().find(|row| row["name"] == "kth");
    assert_eq!(kth.expect("an experiment")["needs_data"], true);
    assert_says(&text, &["; needs data)\n", "(needs data)\n"]);
    for memory in ["introspection", "vrnn"] {
        let memories = all["memories"].as_array().expect("a list");
        assert!(memories.iter().any(|name| name == memory), "{all}");
        assert_says(&text, &[memory]);
    }
}

/// Parameters of an experiment's model as counted by `--dry-run`, which must not make a run.
fn parameters(experiment: &str, memory: &str, settings: &[&str]) -> f64 {
    let folder = tempdir().expect("a temporary folder is made");
    let command = mnemora([
        "train",
        experiment,
        "--memory",
        memory,
        "--dry-run",
        "--json",
    ]);
    let mut command = common::with_settings(command, settings);
    command.current_dir(folder.path());
    let plan = succeed(command).json();
    assert_eq!(plan["experiment"]["model"]["memory"], memory);
    assert!(common::files_below(folder.path()).is_empty());
    let counts = plan["parameters"].as_object().expect("counts by part");
    let parts: f64 = counts
        .iter()
        .filter(|(name, _)| *name != "model")
        .map(|(_, count)| number(count))
        .sum();
    assert_eq!(number(&counts["model"]), parts, "{counts:?}");
    parts
}

/// gtmm, Table 1.
#[test]
fn dry_run_counts_the_parameters_of_the_paper() {
    for (memory, table) in [("introspection", 1_863_107.0), ("vrnn", 1_884_177.0)] {
        let settings = ["task.length=20", "task.recall=5"];
        let ratio = parameters("perfect-recall", memory, &settings) / table;
        assert!((0.95..=1.05).contains(&ratio), "{memory}: {ratio}");
    }
}

#[test]
fn small_models_are_of_one_size() {
    let count = |memory| parameters("perfect-recall-small", memory, &[]);
    let ratio = count("vrnn") / count("introspection");
    assert!((0.95..=1.05).contains(&ratio), "{ratio}");
}

#[test]
fn dry_run_for_people() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let mut command = train(&run, &[]);
    command.arg("--dry-run");
    let text = succeed(command).stdout;
    assert_says(
        &text,
        &["parameters", "memory", "steps = 12", "fingerprint"],
    );
    assert!(!run.exists());
}

#[test]
fn show_draws_sequences() {
    let folder = tempdir().expect("a temporary folder is made");
    for experiment in ["perfect-recall", "perfect-recall-small"] {
        let picture = folder.path().join("new").join(format!("{experiment}.png"));
        let mut command = mnemora(["show", experiment, "--out"]);
        command.arg(&picture);
        let shown = succeed(command);
        assert_eq!(shown.stdout.trim_end(), picture.display().to_string());
        assert_png(&picture);
    }
}

#[test]
fn metrics_of_a_training() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &["training.steps=10", "training.log_every=4"]));
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    let steps: Vec<f64> = rows.iter().map(|row| number(&row["step"])).collect();
    assert_eq!(steps, [1.0, 4.0, 8.0, 10.0], "first, every fourth, last");
    for row in &rows {
        let [bound, reconstruction, kl, kl_last] =
            ["bound", "reconstruction", "kl", "kl_last"].map(|name| number(&row[name]));
        assert_close(bound, reconstruction - kl);
        assert!(reconstruction < 0.0, "784 pixels per frame are not certain");
        assert!(0.0 <= kl_last && kl_last < kl, "{kl_last} of {kl}");
        // Sequences of 5 frames of 784 pixels: about log 2 per pixel before anything is learned.
        let pixel = -reconstruction / (784.0 * TINY_TIME as f64);
        assert!((0.2..1.0).contains(&pixel), "{pixel} nats per pixel");
    }
}

#[test]
fn evaluation_after_training_and_again() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let mut command = train(&run, &[]);
    command.arg("--json");
    let trained = succeed(command).json();
    let again = succeed(command_on(&run, &["eval", "--json"])).json();
    assert_eq!(trained, again, "the model is what it was when saved");

    assert_eq!(again["step"], 12);
    assert_eq!(again["sequences"], 8);
    let kl: Vec<f64> = again["kl_per_step"]
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect();
    assert_eq!(kl.len(), TINY_TIME);
    assert!(kl.iter().all(|kl| *kl > 0.0), "{kl:?}");
    assert_close(number(&again["kl"]), kl.iter().sum());
    assert_close(number(&again["kl_last"]), kl[TINY_TIME - 1]);
    assert_close(number(&again["kl_ratio"]), mean(&kl[3..]) / mean(&kl[..3]));
    assert_close(
        number(&again["bound"]),
        number(&again["reconstruction"]) - number(&again["kl"]),
    );
    let recall = &again["generated_recall"];
    assert_eq!(recall["frames"], 8 * 2);
    assert!((0.0..=1.0).contains(&number(&recall["nearest"])));

    let more = ["eval", "--json", "--set", "evaluation.batches=3"];
    let more = succeed(command_on(&run, &more)).json();
    assert_eq!(more["sequences"], 12);
    assert_ne!(more["bound"], again["bound"]);

    // The run's own seed is 1. Another seed gives other sequences and noise, the same ones each time.
    let seeded = |seed: &str| {
        let command = command_on(&run, &["eval", "--json", "--seed", seed]);
        succeed(command).json()
    };
    let (own, other) = (seeded("1"), seeded("2"));
    assert_eq!(own["bound"], again["bound"]);
    assert_eq!((&own["seed"], again.get("seed")), (&1.into(), None));
    assert_ne!(other["bound"], again["bound"]);
    assert_eq!(other["sequences"], again["sequences"]);
    assert_eq!(other, seeded("2"));
    let text = succeed(command_on(&run, &["eval"])).stdout;
    let bound = format!("{:.1}", number(&again["bound"]));
    assert_says(&text, &["bound", &bound, "KL ratio", "nats"]);
}

#[test]
fn report_stands_alone() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &["training.steps=6"]));
    let report = run.join("report.html");
    let html = fs::read_to_string(&report).expect("a report");
    for name in ["src=\"", "href=\"", "url("] {
        for target in html.split(name).skip(1) {
            let inside = target.starts_with("data:") || target.starts_with('#');
            assert!(
                inside,
                "{name}{}",
                target.chars().take(60).collect::<String>()
            );
        }
    }
    assert!(!html.contains("<script src") && !html.contains("@import"));
    assert_says(
        &html,
        &[
            "mnemora train perfect-recall-small",
            &format!("--out {}", run.display()),
            "--set training.steps=6",
            "data:image/png;base64,",
            "<svg",
            "steps = 6",
        ],
    );

    fs::remove_file(&report).expect("the report goes");
    let said = succeed(command_on(&run, &["report"])).stdout;
    assert_eq!(said.trim_end(), report.display().to_string());
    let again = fs::read_to_string(&report).expect("a report");
    assert!(again == html, "the report has changed");
}

/// The command in a report can be run again, even if one of its arguments contains a space.
#[test]
fn report_quotes_the_command() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("my run");
    succeed(train(&run, &["training.steps=1"]));
    let html = fs::read_to_string(run.join("report.html")).expect("a report");
    let path = run.display();
    let quoted = [
        format!("'{path}'"),
        format!("&#39;{path}&#39;"),
        format!("&#x27;{path}&#x27;"),
        format!("&apos;{path}&apos;"),
        format!("\"{path}\""),
        format!("&quot;{path}&quot;"),
    ];
    assert!(
        quoted.iter().any(|path| html.contains(path)),
        "{path} is not quoted"
    );
}

#[test]
fn generate_draws_sequences() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &["training.steps=2"]));
    let said = succeed(command_on(&run, &["generate"])).stdout;
    let default = run.join("samples/generated.png");
    assert_eq!(said.trim_end(), default.display().to_string());
    assert_png(&default);

    let draw = |name: &str, seed: &str| {
        let picture = folder.path().join("new").join(name);
        let mut command = command_on(&run, &["generate", "--sequences", "2", "--seed", seed]);
        command.arg("--out").arg(&picture);
        succeed(command);
        assert_png(&picture);
        fs::read(picture).expect("a picture")
    };
    let one = draw("one.png", "7");
    assert!(one == draw("same.png", "7"), "a seed fixes the picture");
    assert!(
        one != draw("other.png", "8"),
        "another seed gives another picture"
    );
}

#[test]
fn event_file_holds_the_curves() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &["training.steps=3"]));
    let entries = fs::read_dir(&run).expect("the run").flatten();
    let events: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("events.out.tfevents."))
        .collect();
    assert_eq!(events.len(), 1, "{events:?}");
    let bytes = fs::read(&events[0]).expect("an event file");
    let times = |text: &[u8]| bytes.windows(text.len()).filter(|w| *w == text).count();
    assert_eq!(times(b"brain.Event:2"), 1, "first record");
    assert_eq!(times(b"kl_last"), 3, "one per logged step");
}

#[test]
fn a_seed_fixes_a_training() {
    let folder = tempdir().expect("a temporary folder is made");
    let metrics = |name: &str, seed: &str| {
        let run = folder.path().join(name);
        let mut command = train(&run, &["training.steps=4"]);
        command.args(["--seed", seed]);
        succeed(command);
        fs::read_to_string(run.join("metrics.jsonl")).expect("metrics")
    };
    let one = metrics("one", "5");
    assert_eq!(one, metrics("same", "5"));
    assert_ne!(one, metrics("other", "6"));
}

#[test]
fn default_run_directory() {
    let folder = tempdir().expect("a temporary folder is made");
    let tiny = folder.path().join("tiny.toml");
    fs::write(&tiny, common::TINY.join("\n")).expect("a file is written");
    let train = |settings: &[&str]| {
        let command = mnemora(["train", "tiny.toml", "--memory", "vrnn", "--seed", "3"]);
        let mut command = common::with_settings(command, settings);
        command.current_dir(folder.path());
        succeed(command);
    };
    train(&[]);
    train(&["training.learning_rate=0.01"]);
    let rows = |name: &str| rows_logged(&folder.path().join("runs").join(name));
    assert_eq!(rows("tiny-vrnn-seed3"), 12);
    assert_eq!(rows("tiny-vrnn-learning_rate=0.01-seed3"), 12);
}

fn fingerprint(run: &Path) -> String {
    let text = fs::read_to_string(run.join("experiment.toml")).expect("the experiment");
    let line = text.lines().find(|line| line.starts_with("fingerprint"));
    line.expect("the data are written down").to_owned()
}

#[test]
fn digits_of_ones_own() {
    let folder = tempdir().expect("a temporary folder is made");
    let digits = folder.path().join("digits");
    write_digits(&digits, 0);
    let train_on = |name: &str, variable: Option<&Path>, argument: Option<&Path>| {
        let run = folder.path().join(name);
        let mut command = train(&run, &["training.steps=2"]);
        if let Some(path) = variable {
            command.env("MNEMORA_DATA", path);
        }
        if let Some(path) = argument {
            command.arg("--data").arg(path);
        }
        succeed(command);
        run
    };
    let bundled = train_on("bundled", None, None);
    let by_variable = train_on("variable", Some(&digits), None);
    let by_argument = train_on("argument", None, Some(&digits));
    assert_ne!(fingerprint(&bundled), fingerprint(&by_variable));
    assert_eq!(fingerprint(&by_argument), fingerprint(&by_variable));
    let metrics = |run: &Path| fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    assert_ne!(metrics(&bundled), metrics(&by_variable));
    assert_eq!(metrics(&by_argument), metrics(&by_variable));

    // The run remembers its folder.
    succeed(resume(&by_variable, &["training.steps=3"]));
    succeed(command_on(&by_variable, &["eval"]));
    // A variable set later does not change the data of a run.
    let mut command = resume(&bundled, &["training.steps=3"]);
    command.env("MNEMORA_DATA", &digits);
    let ended = run(command);
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert_says(
        &ended.stderr,
        &["MNEMORA_DATA", &digits.display().to_string()],
    );
}

#[test]
fn experiment_of_ones_own() {
    let folder = tempdir().expect("a temporary folder is made");
    let text = "seed = 9\n[task]\nlength = 2\nrecall = 1\n[training]\nsteps = 50\n";
    fs::write(folder.path().join("mine.toml"), text).expect("a file is written");
    let mut command = mnemora(["train", "mine.toml", "--dry-run", "--json"]);
    command.args(["--set", "training.steps=7"]);
    command.current_dir(folder.path());
    let experiment = succeed(command).json()["experiment"].take();
    assert_eq!(experiment["name"], "mine");
    assert_eq!(experiment["seed"], 9);
    assert_eq!(experiment["task"]["length"], 2);
    assert_eq!(experiment["training"]["steps"], 7, "--set takes precedence");
}

#[test]
fn compare_averages_replicas() {
    let folder = tempdir().expect("a temporary folder is made");
    let memories = ["introspection", "vrnn"];
    let mut compare = mnemora(["compare"]);
    let mut bounds = Vec::new();
    for memory in memories {
        bounds.push(["1", "2"].map(|seed| {
            let run = folder.path().join(format!("{memory}-{seed}"));
            let memory = format!("model.memory={memory}");
            let mut command = train(&run, &["training.steps=6", &memory]);
            command.args(["--seed", seed]);
            succeed(command);
            compare.arg(&run);
            number(&read_json(&run.join("evaluation.json"))["bound"])
        }));
    }
    let words: Vec<_> = compare.get_args().map(ToOwned::to_owned).collect();
    let picture = folder.path().join("new/compare.png");
    let compare = |more: &[&str]| {
        let mut command = mnemora(&words);
        command.arg("--out").arg(&picture).args(more);
        let said = succeed(command);
        assert_png(&picture);
        said.stdout
    };

    let lines = compare(&["--json"]);
    let rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    assert_eq!(rows.len(), 2, "{lines}");
    let table = compare(&[]);
    for (memory, [one, two]) in memories.into_iter().zip(bounds) {
        let row = rows.iter().find(|row| row["model"] == memory);
        let row = row.unwrap_or_else(|| panic!("{memory} is not in {lines}"));
        assert_eq!(row["seeds"], serde_json::json!([1, 2]));
        assert_eq!(row["steps"], 6);
        assert_close(number(&row["bound"]["value"]), (one + two) / 2.0);
        assert_close(number(&row["bound"]["stderr"]), (one - two).abs() / 2.0);
        for name in ["kl_last", "kl_ratio", "generated_nearest"] {
            number(&row[name]["stderr"]);
        }
        let estimate = format!("{:.1} ± {:.1}", (one + two) / 2.0, (one - two).abs() / 2.0);
        assert_says(&table, &[memory, &estimate]);
    }
}

/// From training to comparison on the copy task, which reports other quantities.
#[test]
fn copy_task() {
    let folder = tempdir().expect("a temporary folder is made");
    let mut compare = mnemora(["compare"]);
    for memory in ["lstm", "dnc", "rmc"] {
        let run = folder.path().join(memory);
        let mut command = train_copy(&run, &[&format!("model.memory={memory}")]);
        command.arg("--json");
        let trained = succeed(command).json();
        let again = succeed(command_on(&run, &["eval", "--json"])).json();
        assert_eq!(trained, again, "the model is what it was when saved");
        assert_eq!(again["sequences"], 8);
        let keys: Vec<&String> = again.as_object().expect("an object").keys().collect();
        assert_eq!(
            keys,
            ["bit_error", "bound", "bound_stderr", "sequences", "step"]
        );
        // Four vectors of three bits, hardly better than guessing.
        assert_close_within(number(&again["bound"]), -12.0 * 2.0_f64.ln(), 2.0);
        assert_close_within(number(&again["bit_error"]), 0.5, 0.25);

        let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
        let row: Value = serde_json::from_str(text.lines().next().expect("a row")).expect("JSON");
        assert!(
            row.get("kl").is_none() && row.get("reconstruction").is_none(),
            "{row}"
        );
        number(&row["bit_error"]);
        let text = succeed(command_on(&run, &["eval"])).stdout;
        assert_says(&text, &["bound", "bit error", "nats"]);
        assert!(!text.contains("KL"), "{text}");

        let html = fs::read_to_string(run.join("report.html")).expect("a report");
        assert_says(
            &html,
            &[
                "Bit error",
                "Bound",
                "<svg",
                "Memory over time",
                "data:image/png",
            ][..match memory {
                "lstm" => 3,
                _ => 5,
            }],
        );
        assert_eq!(run.join("samples/attention.png").exists(), memory != "lstm");
        succeed(command_on(&run, &["generate", "--sequences", "2"]));
        assert_png(&run.join("samples/generated.png"));
        compare.arg(&run);
    }
    let picture = folder.path().join("compare.png");
    compare.arg("--out").arg(&picture);
    let table = succeed(compare).stdout;
    assert_png(&picture);
    assert_says(
        &table,
        &[
            "| model | seeds | updates | parameters | bound | bit error |",
            "| dnc | 1 | 12 |",
        ],
    );

    let picture = folder.path().join("show.png");
    let mut show = mnemora(["show", "copy", "--out"]);
    show.arg(&picture);
    succeed(show);
    assert_png(&picture);
    parameters("copy", "lru", &[]);
}

#[track_caller]
fn assert_close_within(a: f64, b: f64, distance: f64) {
    assert!((a - b).abs() < distance, "{a} against {b}");
}
