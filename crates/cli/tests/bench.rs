//! `mnemora bench`: its output, and its messages when there is no peer or the peer dies.

mod common;

use common::{assert_says, mnemora, refuse, run, succeed};
use serde_json::Value;
use std::process::Command;

/// A single short benchmark, measured once.
const SHORT: [&str; 7] = [
    "bench",
    "--rounds",
    "1",
    "--steps",
    "1",
    "--only",
    "lstm-step/128",
];

fn short(more: &[&str]) -> Command {
    mnemora(SHORT.iter().chain(more))
}

#[test]
fn without_a_peer_each_row_has_our_time_and_its_share_of_the_limit() {
    let ended = succeed(short(&["--peer", "none", "--threads", "1", "--json"]));
    let rows: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a JSON object"))
        .collect();
    let works: Vec<&str> = rows.iter().filter_map(|row| row["work"].as_str()).collect();
    assert_eq!(
        works,
        [
            "limit/matrix-product-1024",
            "limit/triad-384-mib",
            "lstm-step/128"
        ]
    );
    for row in &rows {
        assert!(row["ours_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{row}");
        assert!(
            row["share_of_limit"]
                .as_f64()
                .is_some_and(|share| share > 0.0)
        );
        for absent in ["peer_ms", "ratio", "torch", "peer_threads"] {
            assert!(row[absent].is_null(), "{absent}: {row}");
        }
        assert_eq!(row["rounds"], 1);
        assert_eq!(row["threads"], 1);
        for text in ["mnemora", "commit", "machine"] {
            assert!(row[text].is_string(), "{text}: {row}");
        }
    }
}

#[test]
fn batches_of_every_task_are_timed_beside_their_updates() {
    let ended = succeed(mnemora(["bench", "--batches", "--steps", "1", "--json"]));
    let rows: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a JSON object"))
        .collect();
    assert_eq!(rows.len(), 18);
    for row in &rows {
        for time in ["batch_ms", "update_ms", "times_faster"] {
            assert!(row[time].as_f64().is_some_and(|ms| ms > 0.0), "{row}");
        }
    }
}

#[test]
fn a_missing_interpreter_is_refused_before_anything_is_measured() {
    let message = refuse(short(&["--peer", "no-such-python"]));
    assert_says(&message, &["no-such-python", "--peer none"]);
}

#[test]
fn a_name_that_no_work_has_is_refused_with_those_there_are() {
    let message = refuse(mnemora(["bench", "--peer", "none", "--only", "lstm/512"]));
    assert_says(&message, &["lstm/512", "lstm-step/512"]);
}

/// A shell script that replaces Python.
#[cfg(unix)]
fn stand_in(folder: &std::path::Path, script: &str) -> String {
    let path = folder.join("python");
    let path = path.to_str().expect("the path is text");
    // Written by a separate process: a file that this process has just written may still be open for
    // writing in a process that another test is starting, and then it cannot be run.
    let written = Command::new("sh")
        .args(["-c", "printf '%s' \"$1\" > \"$2\" && chmod +x \"$2\"", "sh"])
        .args([&format!("#!/bin/sh\n{script}\n"), path])
        .status();
    assert!(written.expect("there is a shell").success());
    path.to_owned()
}

/// The first message of a peer, which has one benchmark.
#[cfg(unix)]
const GREETING: &str =
    r#"echo '{"torch": "2.0", "python": "3.0", "works": ["lstm-step/128"]}'; read request"#;

#[cfg(unix)]
#[test]
fn a_peer_that_cannot_import_torch_is_refused_in_its_words() {
    let folder = tempfile::tempdir().expect("a folder is made");
    let script = r#"echo '{"error": "ModuleNotFoundError: No module named torch"}'"#;
    let python = stand_in(folder.path(), script);
    let message = refuse(short(&["--peer", &python]));
    assert_says(&message, &["No module named torch", "--peer none"]);
}

#[cfg(unix)]
#[test]
fn a_peer_that_dies_is_named_with_the_work_and_its_last_words() {
    let folder = tempfile::tempdir().expect("a folder is made");
    let script = format!("{GREETING}; echo 'out of memory' >&2");
    let python = stand_in(folder.path(), &script);
    let ended = run(short(&["--peer", &python]));
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let complaints = ended.complaints();
    let last = complaints.last().expect("it says what is wrong");
    assert_says(last, &["PyTorch", "lstm-step/128", "out of memory"]);
}

#[cfg(unix)]
#[test]
fn the_fastest_form_of_the_peer_counts() {
    let folder = tempfile::tempdir().expect("a folder is made");
    let answer =
        r#"{"times_ms": {"slow": [3e9], "fast": [1e9]}, "compiled_ms": [], "parameters": null}"#;
    let python = stand_in(folder.path(), &format!("{GREETING}; echo '{answer}'"));
    let ended = succeed(short(&["--peer", &python, "--json"]));
    let row = ended.stdout.lines().last().expect("there are rows");
    let row: Value = serde_json::from_str(row).expect("each line is a JSON object");
    assert_eq!(row["peer_form"], "fast");
    assert_eq!(row["peer_ms"], 1e9);
    assert_eq!(row["torch"], "2.0");
    let (ours, ratio) = (row["ours_ms"].as_f64(), row["ratio"].as_f64());
    assert_eq!(ratio, ours.map(|ours| ours / 1e9));
}
