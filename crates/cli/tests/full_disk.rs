//! On a full disk, a run stops with status 1 and leaves its last good checkpoint unchanged.
//!
//! A limit on the size of files simulates the full disk: the system refuses the same writes, at
//! the same places.

#![cfg(target_os = "linux")]

mod common;

use common::{
    Ended, assert_same_files, assert_same_training, assert_says, checkpoint_file, files_below,
    mnemora, resume, run, succeed, train,
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::tempdir;

/// Runs a command that cannot write files larger than `bytes`.
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

/// Continues a run of `before` updates up to `steps`, with the limit that `limit` derives from it. It must stop with
/// status 1, one message that contains `parts` and the intact checkpoint, and all checkpoints
/// unchanged; without the limit it must then end as if nothing had happened.
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
    let mut complaints = ended.complaints();
    // There may be no room for the page either, which is no reason to stop.
    complaints.retain(|line| !line.contains("the report during training is incomplete"));
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

/// Rows are written between checkpoints, and the limit cuts one in two. There are enough rows to make the file
/// larger than the experiment's, which is written first.
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

/// Runs a command to its end with standard output or error going to a full disk, or to a pipe that nobody reads.
fn run_with(mut command: Command, out: Option<Stdio>, err: Option<Stdio>) -> Ended {
    command.stdout(out.unwrap_or(Stdio::piped()));
    command.stderr(err.unwrap_or(Stdio::piped()));
    let child = command.spawn().expect("the program starts");
    Ended::from(child.wait_with_output().expect("it ends"))
}

fn full_disk() -> Option<Stdio> {
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    Some(full.expect("Linux has /dev/full").into())
}

fn closed_pipe() -> Option<Stdio> {
    let (_, writer) = std::io::pipe().expect("a pipe is made");
    Some(writer.into())
}

/// A message that cannot be written does not stop a training.
#[test]
fn no_room_for_messages() {
    let folder = tempdir().expect("a temporary folder is made");
    let whole = folder.path().join("whole");
    let said = succeed(train(&whole, &[]));
    assert!(!said.stderr.is_empty());
    for (name, nowhere) in [("full", full_disk()), ("closed", closed_pipe())] {
        let run = folder.path().join(name);
        let ended = run_with(train(&run, &[]), None, nowhere);
        assert_eq!(ended.status, Some(0), "{name}");
        assert_eq!(ended.stdout, said.stdout);
        assert_same_training(&whole, &run);
    }
    // Nor does it change the exit status of an error.
    for nowhere in [full_disk(), closed_pipe()] {
        let ended = run_with(train(&whole, &[]), None, nowhere);
        assert_eq!(ended.status, Some(2));
    }
}

/// The run is complete before its results are printed. It is no error if the reader closes its end.
#[test]
fn no_room_for_the_results_of_a_training() {
    let folder = tempdir().expect("a temporary folder is made");
    let whole = folder.path().join("whole");
    succeed(train(&whole, &[]));
    for (name, nowhere, status) in [("full", full_disk(), 1), ("closed", closed_pipe(), 0)] {
        let run = folder.path().join(name);
        let ended = run_with(train(&run, &[]), nowhere, None);
        assert_eq!(ended.status, Some(status), "{}", ended.stderr);
        assert_eq!(
            ended.complaints().len(),
            status as usize,
            "{}",
            ended.stderr
        );
        assert_same_training(&whole, &run);
    }
    let run = folder.path().join("neither");
    let ended = run_with(train(&run, &[]), full_disk(), full_disk());
    assert_eq!(ended.status, Some(1));
    assert_same_training(&whole, &run);
}

/// An export without room leaves nothing behind, not even next to its place, and the remains of a killed one do not
/// get in the way.
#[test]
fn no_room_for_an_export() {
    let folder = tempdir().expect("a temporary folder is made");
    let (run, given) = (folder.path().join("run"), folder.path().join("given"));
    succeed(train(&run, &[]));
    let export = || {
        let mut command = mnemora(["export"]);
        command.arg(&run).arg("--out").arg(&given);
        command
    };
    let names = || fs::read_dir(folder.path()).expect("a folder").count();
    let before = files_below(folder.path());
    let weights = checkpoint_file(&run, 12, "weights.safetensors");
    let limit = weights.metadata().expect("the file is there").len() - 512;
    let ended = run_with_file_limit(export(), limit);
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert_says(&ended.stderr, &["weights.safetensors", "File too large"]);
    assert_same_files(&before, &files_below(folder.path()));
    assert_eq!(names(), 1, "half an export was left");

    let killed = folder.path().join(".given.unfinished/checkpoints");
    fs::create_dir_all(&killed).expect("a folder is made");
    fs::write(folder.path().join(".given.unfinished/.lock"), "").expect("a file is written");
    succeed(export());
    assert_eq!(names(), 2);
}

#[test]
fn no_room_for_results() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full");
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["train", "perfect-recall-small", "--dry-run"],
        &["--help"],
        &["train", "--help"],
        &["--version"],
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
