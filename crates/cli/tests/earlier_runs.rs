//! Runs made by an earlier version can be continued, evaluated, drawn and compared with the same numbers, keys and
//! files as in that version. `fixtures/runs/make.sh` made them, each with 4 updates; the checkpoint after 2 was kept.

mod common;

use common::{assert_png, mnemora, read_json, succeed};
use serde_json::{Deserializer, Map, Value};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::{TempDir, tempdir};

/// Tolerance for machines that round differently: `RELATIVE` times the number, plus `ABSOLUTE`. A standard error
/// comes from differences, so it may also be off by `ABSOLUTE` times the number that it belongs to.
const RELATIVE: f64 = 1e-4;
const ABSOLUTE: f64 = 1e-6;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/runs")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder is made");
    for entry in fs::read_dir(from).expect("the folder can be listed") {
        let path = entry.expect("the folder can be listed").path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        match path.is_dir() {
            true => copy_folder(&path, &target),
            false => drop(fs::copy(&path, &target).expect("the file is copied")),
        }
    }
}

/// The run of the earlier version after 2 of the 4 updates, in a new folder below `runs`.
fn half_way(runs: &TempDir, name: &str) -> PathBuf {
    let (stored, run) = (fixtures().join(name), runs.path().join(name));
    fs::create_dir(&run).expect("a folder is made");
    copy_folder(&stored.join("checkpoints"), &run.join("checkpoints"));
    for file in ["experiment.toml", "origin.json"] {
        fs::copy(stored.join(file), run.join(file)).expect("the file is copied");
    }
    let rows = fs::read_to_string(stored.join("metrics.jsonl")).expect("metrics");
    let before: Vec<&str> = rows.lines().take(2).collect();
    fs::write(run.join("metrics.jsonl"), before.join("\n") + "\n").expect("metrics are written");
    run
}

fn on(run: &Path, command: &str, more: &[&str]) -> Command {
    let mut words = mnemora([command]);
    words.arg(run).args(more);
    if command != "compare" {
        words.args(["--device", "cpu"]);
    }
    words
}

/// The JSON values in a text, one after another.
fn values(text: &str) -> Value {
    let values = Deserializer::from_str(text).into_iter();
    Value::Array(values.map(|value| value.expect("JSON")).collect())
}

fn stored(name: &str, file: &str) -> Value {
    values(&fs::read_to_string(fixtures().join(name).join(file)).expect(file))
}

/// Asserts the same keys, types and texts, and the same numbers except for rounding.
#[track_caller]
fn assert_same(place: &str, earlier: &Value, now: &Value) {
    match (earlier, now) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = |map: &Map<String, Value>| {
                let mut keys: Vec<String> = map.keys().cloned().collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(one), keys(other), "keys of {place}");
            for (key, value) in one {
                let place = format!("{place}.{key}");
                let number = key.strip_suffix("_stderr").and_then(|key| one.get(key));
                match (number.and_then(Value::as_f64), value.as_f64()) {
                    (Some(number), Some(_)) => {
                        let more = ABSOLUTE * number.abs();
                        assert_near(&place, value, &other[key], more);
                    }
                    _ => assert_same(&place, value, &other[key]),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len(), "length of {place}");
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                assert_same(&format!("{place}[{index}]"), one, other);
            }
        }
        (Value::Number(one), Value::Number(number)) if one.is_f64() && number.is_f64() => {
            assert_near(place, earlier, now, 0.0);
        }
        // Integers, texts, booleans; or values of different types.
        _ => assert_eq!(earlier, now, "{place}"),
    }
}

/// Asserts that two numbers differ only by rounding and by at most `more`.
#[track_caller]
fn assert_near(place: &str, earlier: &Value, now: &Value, more: f64) {
    let number = |value: &Value| {
        let number = value.as_f64();
        number.unwrap_or_else(|| panic!("{place}: {value} is not a number"))
    };
    let (one, other) = (number(earlier), number(now));
    let allowed = RELATIVE * one.abs().max(other.abs()) + ABSOLUTE + more;
    assert!(
        (one - other).abs() <= allowed,
        "{place}: {one} before, {other} now"
    );
}

/// The state of a checkpoint without times.
fn without_time(mut state: Value) -> Value {
    let seconds = state["elapsed_seconds"].take();
    assert!(seconds.is_f64(), "{seconds}");
    state
}

/// The rows of a comparison without the number of parameters, which earlier versions did not tell.
fn without_parameters(mut rows: Value) -> Value {
    for row in rows.as_array_mut().expect("a row a model") {
        let parameters = row.as_object_mut().and_then(|row| row.remove("parameters"));
        assert!(parameters.is_some_and(|count| count.as_u64() > Some(0)));
    }
    rows
}

/// The names of a run's files, except the lock and TensorBoard's events, whose name contains the time.
fn files_of(run: &Path) -> Vec<String> {
    let files = common::files_below(run).into_keys().map(|path| {
        let name = path.strip_prefix(run).expect("it lies in the run");
        format!("./{}", name.display()).replace('\\', "/")
    });
    let mut files: Vec<String> = files
        .filter(|name| !name.starts_with("./events."))
        .collect();
    files.sort();
    files
}

/// Resumes, evaluates, reports, generates and compares one run.
fn goes_on_as_before(name: &str) {
    let runs = tempdir().expect("a temporary folder is made");
    let run = half_way(&runs, name);
    let same = |file: &str, now: &str| {
        assert_same(
            &format!("{name}: {file}"),
            &stored(name, file),
            &values(now),
        )
    };

    same(
        "evaluation-2.json",
        &succeed(on(&run, "eval", &["--json"])).stdout,
    );
    let origin = read_json(&run.join("origin.json"));
    let resumed = succeed(on(&run, "resume", &["--json"])).stdout;
    same("evaluation.json", &resumed);
    for file in ["metrics.jsonl", "evaluation.json"] {
        same(file, &fs::read_to_string(run.join(file)).expect(file));
    }
    let mut state = read_json(&common::checkpoint_file(&run, 4, "state.json"));
    let before = stored(name, "state.json")[0].take();
    // Earlier versions stored them with the optimiser's arrays, like the state carried from
    // window to window.
    let counters = state.as_object_mut().expect("a state").remove("counters");
    assert!(
        counters.is_none_or(|counters| counters.as_object().is_some_and(|map| !map.is_empty()))
    );
    assert_same(
        &format!("{name}: state.json"),
        &without_time(before),
        &without_time(state),
    );
    // Nothing else has changed, but the experiment may be written in another order.
    let mut after = read_json(&run.join("origin.json"));
    after["experiment_sha256"] = origin["experiment_sha256"].clone();
    assert_eq!(origin, after, "{name}: origin.json");
    let sizes = |step| {
        let file = |name| common::checkpoint_file(&run, step, name);
        ["weights.safetensors", "optimizer.safetensors"]
            .map(|name| file(name).metadata().expect(name).len())
    };
    assert!(sizes(4).iter().all(|size| *size > 500), "{name}");

    same(
        "evaluation.json",
        &succeed(on(&run, "eval", &["--json"])).stdout,
    );
    let checkpoint = ["--checkpoint", "2", "--json"];
    same(
        "evaluation-2.json",
        &succeed(on(&run, "eval", &checkpoint)).stdout,
    );

    fs::remove_dir_all(run.join("samples")).expect("the samples are removed");
    fs::remove_file(run.join("report.html")).expect("the report is removed");
    succeed(on(&run, "report", &[]));
    succeed(on(&run, "generate", &[]));
    let files = fs::read_to_string(fixtures().join(name).join("files.txt")).expect("a list");
    let mut now = files_of(&run);
    let carried = "./checkpoints/step-4/carried.safetensors";
    if name == "words-lstm" || name == "words-rmc" {
        let place = now.iter().position(|file| file == carried);
        now.remove(place.expect("the state that is carried from window to window"));
    }
    // Earlier versions did not write them.
    for file in ["./held_out.jsonl", "./machine.jsonl"] {
        let place = now.iter().position(|name| name == file);
        now.remove(place.expect(file));
    }
    now.retain(|file| file != "./samples/film.gif");
    assert_eq!(now, files.lines().collect::<Vec<_>>(), "{name}");
    for file in files.lines().filter(|file| file.ends_with(".png")) {
        assert_png(&run.join(file));
    }
    let report = fs::read_to_string(run.join("report.html")).expect("a report");
    assert!(report.contains("</html>"), "{name}: {} bytes", report.len());

    let picture = runs.path().join("compare.png");
    let out = picture.to_str().expect("a path is text");
    let compared = succeed(on(&run, "compare", &["--json", "--out", out]));
    let compared = without_parameters(values(&compared.stdout));
    assert_same(
        &format!("{name}: compare.json"),
        &stored(name, "compare.json"),
        &compared,
    );
    assert_png(&picture);

    if fixtures().join(name).join("filter.jsonl").exists() {
        let filtered = succeed(on(&run, "filter", &["--recording", "1"])).stdout;
        let first: Vec<&str> = filtered.lines().take(2).collect();
        same("filter.jsonl", &first.join("\n"));
    }
}

macro_rules! earlier_runs {
    ($($test:ident: $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                goes_on_as_before($name);
            }
        )*
    };
}

earlier_runs! {
    clips_svg: "clips-svg",
    copy_lstm: "copy-lstm",
    frames_dnc: "frames-dnc",
    frames_hybrid: "frames-hybrid",
    frames_introspection: "frames-introspection",
    frames_lru: "frames-lru",
    frames_ntm: "frames-ntm",
    frames_rmc: "frames-rmc",
    frames_vrnn: "frames-vrnn",
    music_srnn: "music-srnn",
    music_srnn_direct: "music-srnn-direct",
    music_vrnn: "music-vrnn",
    nth_farthest_rmc: "nth-farthest-rmc",
    programs_ent_net: "programs-ent-net",
    programs_rmc: "programs-rmc",
    speech_srnn: "speech-srnn",
    words_lstm: "words-lstm",
    words_rmc: "words-rmc",
    words_stacked_lstm: "words-stacked-lstm",
}

#[test]
fn every_stored_run_is_tested() {
    let entries = fs::read_dir(fixtures()).expect("the folder can be listed");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let mut names: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    names.sort();
    let names: Vec<_> = names.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, NAMES);
}

/// Several models in one table have the same numbers as each model alone.
#[test]
fn earlier_runs_are_compared_with_one_another() {
    let runs = tempdir().expect("a temporary folder is made");
    for group in [
        ["frames-dnc", "frames-introspection", "frames-vrnn"],
        ["music-srnn", "music-srnn-direct", "music-vrnn"],
    ] {
        let mut command = mnemora(["compare", "--json", "--out"]);
        command.arg(runs.path().join("compare.png"));
        for name in group {
            let run = half_way(&runs, name);
            succeed(on(&run, "resume", &[]));
            command.arg(run);
        }
        let rows = without_parameters(values(&succeed(command).stdout));
        let rows = rows.as_array().expect("a row a model");
        assert_eq!(rows.len(), group.len());
        for name in group {
            let alone = stored(name, "compare.json")[0].take();
            let row = rows.iter().find(|row| row["model"] == alone["model"]);
            assert_same(name, &alone, row.expect("its model is in the table"));
        }
    }
}
