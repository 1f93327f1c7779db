//! Helpers for the tests of the command line: tiny experiments, running the program to its end, runs
//! on disk, made-up digits.

// Each test file is a separate program and uses only part of this module.
#![allow(dead_code)]

use flate2::{Compression, write::GzEncoder};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

/// Settings with which a training of `perfect-recall-small` takes a fraction of a second.
pub const TINY: [&str; 21] = [
    "training.steps=12",
    "training.log_every=1",
    "training.checkpoint_every=4",
    "training.batch=2",
    "model.latent=4",
    "model.visual_hidden=8",
    "model.visual_features=8",
    "model.prior_hidden=8",
    "model.posterior_hidden=8",
    "memory.introspection.hidden=8",
    "memory.introspection.attention=8",
    "memory.introspection.reads=2",
    "memory.vrnn.hidden=8",
    "evaluation.batches=2",
    "evaluation.batch=4",
    "evaluation.checkpoint_batches=1",
    "evaluation.pictures=1",
    "task.length=3",
    "task.recall=2",
    "training.threads=1",
    "training.keep=2",
];

/// Settings with which a training of `copy` takes a fraction of a second.
pub const TINY_COPY: [&str; 21] = [
    "training.steps=12",
    "training.log_every=1",
    "training.checkpoint_every=4",
    "training.batch=2",
    "task.bits=3",
    "task.longest=4",
    "memory.lstm.hidden=6",
    "memory.ntm.hidden=6",
    "memory.ntm.width=4",
    "memory.ntm.slots=0",
    "memory.dnc.hidden=6",
    "memory.dnc.width=4",
    "memory.dnc.slots=0",
    "memory.rmc.heads=2",
    "memory.rmc.head_size=4",
    "evaluation.batches=2",
    "evaluation.batch=4",
    "evaluation.checkpoint_batches=1",
    "evaluation.pictures=1",
    "training.threads=1",
    "training.keep=2",
];

/// Frames in a sequence of [`TINY`].
pub const TINY_TIME: usize = 5;

/// The program with these arguments, independent of the data, device and threads set in the environment.
/// Its memories check ranges.
pub fn mnemora<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mnemora"));
    command
        .args(words)
        .env("MNEMORA_CHECKS", "ranges")
        .env_remove("MNEMORA_DATA")
        .env_remove("BURN_DEVICE")
        .env_remove("RAYON_NUM_THREADS");
    command
}

/// A command with `--set` for each of `settings`; the last setting of a key counts.
pub fn with_settings(mut command: Command, settings: &[&str]) -> Command {
    for setting in settings {
        command.args(["--set", setting]);
    }
    command
}

/// A command with `settings`, after those settings of `tiny` that the experiment then reads.
pub fn with_tiny(command: Command, experiment: &str, tiny: &[&str], settings: &[&str]) -> Command {
    let all = tiny.iter().chain(settings).map(|s| s.to_string());
    let read = match mnemora_lab::load_experiment(experiment, &all.collect::<Vec<_>>()) {
        // The command is refused anyway.
        Err(_) => tiny.to_vec(),
        Ok(experiment) => {
            let reads = |setting: &&&str| experiment.refuse_unread(&[setting.to_string()]).is_ok();
            tiny.iter().filter(reads).copied().collect()
        }
    };
    with_settings(with_settings(command, &read), settings)
}

/// A tiny training in the new directory `out`, with `settings` on top of [`TINY`].
pub fn train(out: &Path, settings: &[&str]) -> Command {
    let mut command = mnemora(["train", "perfect-recall-small", "--out"]);
    command.arg(out);
    with_tiny(command, "perfect-recall-small", &TINY, settings)
}

/// A tiny training of the copy task in the new directory `out`, with `settings` on top of
/// [`TINY_COPY`].
pub fn train_copy(out: &Path, settings: &[&str]) -> Command {
    let mut command = mnemora(["train", "copy", "--out"]);
    command.arg(out);
    with_tiny(command, "copy", &TINY_COPY, settings)
}

/// `mnemora resume RUN`.
pub fn resume(run: &Path, settings: &[&str]) -> Command {
    let mut command = mnemora(["resume"]);
    command.arg(run);
    with_settings(command, settings)
}

/// A command that ended: its exit status (`None` after a signal that it did not catch) and its
/// output.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("standard output is text"),
            stderr: String::from_utf8(output.stderr).expect("standard error is text"),
        }
    }
}

impl Ended {
    /// The lines of standard error in which the program reports a problem.
    pub fn complaints(&self) -> Vec<&str> {
        let lines = self.stderr.lines();
        lines.filter(|line| line.starts_with("mnemora: ")).collect()
    }

    /// Standard output as one JSON value.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// Runs a command to its end.
pub fn run(mut command: Command) -> Ended {
    command.output().expect("the program starts").into()
}

/// Runs a command to its end with `input` on its standard input.
pub fn run_with_input(mut command: Command, input: &[u8]) -> Ended {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // What it prints must be read meanwhile, or both sides wait for the other.
    thread::scope(|scope| {
        let writer = scope.spawn(move || stdin.write_all(input));
        let ended = child.wait_with_output().expect("it ends");
        writer.join().unwrap().expect("it reads");
        ended.into()
    })
}

/// Runs a command that must end with status 0.
#[track_caller]
pub fn succeed(command: Command) -> Ended {
    let words = format!("{command:?}");
    let ended = run(command);
    assert_eq!(ended.status, Some(0), "{words}\n{}", ended.stderr);
    ended
}

/// Runs a command that must be refused as bad input: status 2, nothing on standard output and one
/// line on standard error, which is returned without the program's name.
#[track_caller]
pub fn refuse(command: Command) -> String {
    let words = format!("{command:?}");
    let ended = run(command);
    assert_eq!(ended.status, Some(2), "{words}\n{}", ended.stderr);
    assert_eq!(ended.stdout, "", "{words}");
    let line = ended.stderr.strip_suffix('\n').unwrap_or(&ended.stderr);
    assert!(!line.contains('\n'), "more than one line: {line}");
    line.strip_prefix("mnemora: ")
        .unwrap_or_else(|| panic!("does not start with the program's name: {line:?}"))
        .to_owned()
}

/// All of `parts` must occur in `message`.
#[track_caller]
pub fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(
            message.contains(part),
            "should say {part:?}, says: {message}"
        );
    }
}

/// Every file below `folder` with its contents, without the empty lock file of a run.
pub fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("the folder can be listed");
        for path in entries.map(|entry| entry.expect("the folder can be listed").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name() != Some(OsStr::new(".lock")) {
                let bytes = fs::read(&path).expect("the file can be read");
                files.insert(path, bytes);
            }
        }
    }
    files
}

/// Asserts the same files with the same contents; names a file that differs.
#[track_caller]
pub fn assert_same_files(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) {
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(before), names(after));
    for (path, bytes) in before {
        assert!(after[path] == *bytes, "{} changed", path.display());
    }
}

/// Steps of the checkpoints of a run, oldest first.
pub fn checkpoint_steps(run: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(run.join("checkpoints")) else {
        return Vec::new();
    };
    let mut steps: Vec<u64> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            name.to_str()?.strip_prefix("step-")?.parse().ok()
        })
        .collect();
    steps.sort_unstable();
    steps
}

/// A file of the checkpoint after `step` updates.
pub fn checkpoint_file(run: &Path, step: u64, name: &str) -> PathBuf {
    run.join("checkpoints")
        .join(format!("step-{step}"))
        .join(name)
}

/// A JSON file.
pub fn read_json(path: &Path) -> serde_json::Value {
    let text = fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Edits the configuration of a run as if an earlier version had made the run, which kept no checksum of it.
pub fn edit_unseen(run: &Path, from: &str, to: &str) {
    let file = run.join("experiment.toml");
    let text = fs::read_to_string(&file).expect("the experiment");
    assert!(text.contains(from), "{from} is not in {text}");
    fs::write(&file, text.replacen(from, to, 1)).expect("a file is written");
    let file = run.join("origin.json");
    let mut origin = read_json(&file);
    origin["experiment_sha256"] = serde_json::json!([]);
    fs::write(&file, origin.to_string()).expect("a file is written");
}

/// Number of complete rows in a run's metrics so far.
pub fn rows_logged(run: &Path) -> usize {
    let bytes = fs::read(run.join("metrics.jsonl")).unwrap_or_default();
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Asserts that two runs logged the same metrics and ended with the same weights, moments, held-out bounds
/// and evaluation, bit for bit.
#[track_caller]
pub fn assert_same_training(one: &Path, other: &Path) {
    let metrics = |run: &Path| fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    assert_eq!(metrics(one), metrics(other), "metrics.jsonl");
    let last = |run: &Path| checkpoint_steps(run).pop().expect("a checkpoint");
    assert_eq!(last(one), last(other), "last checkpoint");
    for name in ["weights.safetensors", "optimizer.safetensors"] {
        let bytes = |run: &Path| fs::read(checkpoint_file(run, last(run), name)).expect(name);
        assert!(bytes(one) == bytes(other), "{name} differ");
    }
    let evaluation = |run: &Path| read_json(&run.join("evaluation.json"));
    assert_eq!(evaluation(one), evaluation(other));
}

/// Held-out bounds by step, as the last checkpoint of a run lists them.
pub fn held_out_bounds(run: &Path) -> Vec<(u64, f64)> {
    let last = checkpoint_steps(run).pop().expect("a checkpoint");
    let state = read_json(&checkpoint_file(run, last, "state.json"));
    let rows = state["held_out"].as_array().expect("a list").iter();
    rows.map(|row| {
        let step = row["step"].as_u64().expect("a step");
        (step, row["bound"].as_f64().expect("a bound"))
    })
    .collect()
}

/// Asserts that a file is a PNG, by its signature and its last chunk.
#[track_caller]
pub fn assert_png(path: &Path) {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "signature");
    assert!(bytes.ends_with(b"IEND\xae\x42\x60\x82"), "last chunk");
    assert!(bytes.len() > 500, "{} bytes", bytes.len());
}

/// An idx file of `count` images of 28 x 28 pixels; they depend on `seed`.
pub fn idx_images(count: u32, seed: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0x0803, count, 28, 28] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend((0..count * 784).map(|i| (i.wrapping_mul(i / 784 + seed + 1) % 256) as u8));
    bytes
}

/// An idx file of `count` labels.
pub fn idx_labels(count: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0x0801, count] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend((0..count).map(|i| (i % 10) as u8));
    bytes
}

/// Writes a file compressed by gzip.
pub fn write_gz(path: &Path, bytes: &[u8]) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes bytes");
    fs::write(path, encoder.finish().expect("memory takes bytes")).expect("a file is written");
}

/// Writes a set of 30 training and 20 test digits in the format of MNIST.
pub fn write_digits(folder: &Path, seed: u32) {
    fs::create_dir_all(folder).expect("a folder is made");
    for (part, count) in [("train", 30), ("t10k", 20)] {
        let images = idx_images(count, seed);
        write_gz(
            &folder.join(format!("{part}-images-idx3-ubyte.gz")),
            &images,
        );
        let labels = idx_labels(count);
        write_gz(
            &folder.join(format!("{part}-labels-idx1-ubyte.gz")),
            &labels,
        );
    }
}

/// Runs a command in a terminal of its own of 40 lines, with a key every 0.7 seconds, of which the last must end it.
/// Returns what it showed, after the terminal was put back; `None`, with a line, where no terminal can be made.
pub fn in_terminal(command: &Command, keys: &[&str]) -> Option<String> {
    let found = Command::new("script").arg("--version").output();
    let usable = found.is_ok_and(|found| {
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        text.contains("util-linux")
    });
    if !usable {
        eprintln!("skipped: there is no program `script` of util-linux, which makes a terminal");
        return None;
    }
    let words: Vec<String> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let line = format!("stty rows 40 cols 100; {}", words.join(" "));
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm-256color")
        .env_remove("MNEMORA_DATA")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a terminal is made");
    let mut typed = child.stdin.take().expect("it is piped");
    for key in keys {
        thread::sleep(Duration::from_millis(700));
        typed.write_all(key.as_bytes()).expect("it reads keys");
        typed.flush().expect("they arrive");
    }
    let ended = child.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{shown}");
    let [entered, left] = ["\x1b[?1049h", "\x1b[?1049l"].map(|sequence| shown.find(sequence));
    assert!(
        entered.is_some() && left > entered,
        "the terminal is put back"
    );
    Some(shown)
}
