//! A disk that is full: the run stops with status 1 and its last good checkpoint as it was.
//!
//! A limit on the size of files stands for the full disk: the system refuses the same writes, at
//! the same places, without a disk of our own.

#![cfg(target_os = "linux")]

mod common;

use common::{
    Ended, assert_same_files, assert_same_training, assert_says, checkpoint_file, files_below,
    mnemora, resume, run, succeed, train,
};
use std::{fs, path::Path, process::Command};
use tempfile::tempdir;

/// Runs a command that can write no file beyond `bytes`.
fn run_with_file_limit(command: Command, bytes: u64) -> Ended {
    let mut limited = Command::new("sh");
    limited
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f \"$0\" && exec \"$@\"",
            &(bytes / 512).to_string(),
        ])
        .arg(command.get_program())
        .args(command.get_args())
        .env("MNEMORA_CHECKS", "ranges")
        .env_remove("MNEMORA_DATA")
        .env_remove("RAYON_NUM_THREADS");
    run(limited)
}

/// Prolongs a run of `before` updates, to `steps`, under the limit that `limit` derives from it. It must stop with
/// status 1, one complaint that says `parts` and the intact checkpoint, and all checkpoints as
/// they were; without the limit it must then end as if nothing had been.
fn stops_and_goes_on(limit: impl Fn(&Path) -> u64, [before, steps]: [u64; 2], parts: &[&str]) {
    let folder = tempdir().expect("a temporary folder is made");
    let (whole, stopped) = (folder.path().join("whole"), folder.path().join("stopped"));
    let all = format!("training.steps={steps}");
    let every = ["training.checkpoint_every=4", &all];
    succeed(train(&whole, &every));
    let intact = format!("step-{before} is intact");
    let before = format!("training.steps={before}");
    succeed(train(&stopped, &[every[0], &before]));

    let checkpoints = stopped.join("checkpoints");
    let before = files_below(&checkpoints);
    let names = || {
        let entries = fs::read_dir(&checkpoints).expect("there are checkpoints");
        entries.map(|entry| entry.expect("an entry").file_name())
    };
    let entries = names().count();
    let ended = run_with_file_limit(resume(&stopped, &[&all]), limit(&stopped));
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let complaints = ended.complaints();
    assert_eq!(complaints.len(), 1, "{}", ended.stderr);
    assert_says(complaints[0], parts);
    assert_says(complaints[0], &["File too large", &intact]);
    assert_same_files(&before, &files_below(&checkpoints));
    assert_eq!(names().count(), entries, "half a checkpoint was left");

    succeed(resume(&stopped, &[]));
    assert_same_training(&whole, &stopped);
}

fn size(run: &Path, name: &str) -> u64 {
    let path = checkpoint_file(run, 8, name);
    path.metadata().expect("the file is there").len()
}

#[test]
fn no_room_for_the_weights() {
    let limit = |run: &Path| size(run, "weights.safetensors") - 512;
    stops_and_goes_on(limit, [8, 12], &["checkpoints", "weights.safetensors"]);
}

#[test]
fn no_room_for_the_moments() {
    let limit = |run: &Path| {
        let (weights, moments) = (
            size(run, "weights.safetensors"),
            size(run, "optimizer.safetensors"),
        );
        assert!(weights + 2048 < moments, "{weights} and {moments} bytes");
        weights + 1024
    };
    stops_and_goes_on(limit, [8, 12], &["checkpoints", "optimizer.safetensors"]);
}

/// Rows come between checkpoints, and the limit cuts one in two. There are as many as make the file larger
/// than the experiment's, which is written before.
#[test]
fn no_room_for_metrics() {
    let limit = |run: &Path| {
        let path = run.join("metrics.jsonl");
        let size = path.metadata().expect("the metrics").len();
        let experiment = run.join("experiment.toml");
        assert!(size > experiment.metadata().expect("the experiment").len() + 64);
        (size / 512 + 1) * 512
    };
    stops_and_goes_on(limit, [40, 44], &["metrics.jsonl"]);
}

#[test]
fn no_room_for_results() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full");
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["train", "perfect-recall-small", "--dry-run"],
    ] {
        let mut command = mnemora(words);
        command.stdout(full().expect("Linux has /dev/full"));
        let output = command.stderr(std::process::Stdio::piped()).spawn();
        let output = output.and_then(|child| child.wait_with_output());
        let ended = Ended::from(output.expect("the program runs"));
        assert_eq!(ended.status, Some(1), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert_says(&ended.stderr, &["mnemora: ", "standard output", "No space"]);
    }
}
