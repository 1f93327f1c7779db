//! A run that was stopped, killed or damaged and then resumed ends bit for bit like one that was never
//! interrupted.

mod common;

use common::{
    Ended, assert_same_files, assert_same_training, assert_says, checkpoint_file, checkpoint_steps,
    files_below, held_out_bounds, mnemora, read_json, refuse, resume, rows_logged, run, succeed,
    train, train_copy, with_settings,
};
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::{Read, Write, read_to_string},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::tempdir;

/// Longer than any of these trainings takes, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A training that runs in the background; killed when dropped.
struct Living(Child);

impl Drop for Living {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Living {
    fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("the program starts"))
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().expect("it is our child").is_none()
    }

    /// Waits until `there` holds or the process has ended.
    fn wait_until(&mut self, there: impl Fn() -> bool) {
        let begun = Instant::now();
        while !there() && self.lives() {
            assert!(begun.elapsed() < PATIENCE, "waited for too long");
            sleep(Duration::from_micros(500));
        }
    }

    /// Sends SIGKILL. Returns whether the process was still alive.
    fn kill(mut self) -> bool {
        self.0.kill().expect("a child can be killed");
        self.end().status.is_none()
    }

    /// Sends a signal by name and waits for the end.
    fn signal(mut self, name: &str) -> Ended {
        // Every shell has `kill`, but not every machine has it as a program.
        let command = format!("kill -s {name} {}", self.0.id());
        let sent = Command::new("sh").args(["-c", &command]).status();
        assert!(sent.expect("there is a shell").success());
        self.end()
    }

    fn end(&mut self) -> Ended {
        let text = |pipe: Option<Box<dyn Read>>| {
            read_to_string(pipe.expect("its output is piped")).expect("it says text")
        };
        let stdout = text(self.0.stdout.take().map(|pipe| Box::new(pipe) as _));
        let stderr = text(self.0.stderr.take().map(|pipe| Box::new(pipe) as _));
        let status = self.0.wait().expect("it is our child").code();
        Ended {
            status,
            stdout,
            stderr,
        }
    }
}

/// When to kill: after this many more rows of metrics than at the last kill, and then this many
/// milliseconds.
type Moment = (usize, u64);

/// A training in a new directory with some settings.
type Training = fn(&Path, &[&str]) -> Command;

/// Trains once without a stop and once with a SIGKILL at each of `moments`, and compares. Kills
/// that wait for rows must hit a running training.
fn killed_at(train: Training, moments: &[Moment], settings: &[&str]) {
    let folder = tempdir().expect("a temporary folder is made");
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    succeed(train(&whole, settings));

    let mut rows = 0;
    for (more, milliseconds) in moments {
        // A kill before the run had a configuration leaves nothing to resume.
        let mut living = Living::start(match killed.join("experiment.toml").exists() {
            true => resume(&killed, &[]),
            false => train(&killed, settings),
        });
        if *more > 0 {
            living.wait_until(|| rows_logged(&killed) >= rows + more);
        }
        sleep(Duration::from_millis(*milliseconds));
        let met = living.kill();
        assert!(met, "ended before it was killed at row {rows} + {more}");
        rows = rows_logged(&killed);
    }
    assert!(rows > 0, "no kill came after training had begun");
    assert!(
        rows < rows_logged(&whole),
        "the last kill came after the last step"
    );
    succeed(resume(&killed, &[]));
    assert_same_training(&whole, &killed);
    let held_out = |run: &Path| {
        let last = checkpoint_steps(run).pop().expect("a checkpoint");
        read_json(&checkpoint_file(run, last, "state.json"))["held_out"].clone()
    };
    let rows = held_out(&whole);
    assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()));
    assert_eq!(rows, held_out(&killed));
}

/// During the start, a step, an evaluation, a save, and twice between two checkpoints.
const MOMENTS: [Moment; 9] = [
    (0, 15),
    (3, 0),
    (7, 1),
    (0, 60),
    (9, 3),
    (3, 7),
    (8, 0),
    (6, 12),
    (11, 2),
];

#[test]
fn introspection_killed_again_and_again() {
    killed_at(
        train,
        &MOMENTS,
        &["training.steps=120", "training.checkpoint_every=5"],
    );
}

#[test]
fn vrnn_killed_again_and_again() {
    let settings = [
        "training.steps=120",
        "training.checkpoint_every=5",
        "model.memory=vrnn",
    ];
    killed_at(train, &MOMENTS, &settings);
}

/// The copy task has its own way to draw batches and save moments.
#[test]
fn copy_killed_again_and_again() {
    let settings = ["training.steps=120", "training.checkpoint_every=5"];
    killed_at(train_copy, &MOMENTS, &settings);
}

/// Environments in the middle of their episodes, the states of the memory, last actions and rewards, and an unroll that is
/// learned from a second time are part of a checkpoint.
#[test]
fn agents_killed_again_and_again() {
    let tiny = [
        "training.steps=120",
        "training.checkpoint_every=5",
        "training.log_every=1",
        "training.batch=3",
        "training.threads=1",
        "training.keep=2",
        "agents.unroll=7",
        "agents.model.head=4",
        "evaluation.batches=1",
        "evaluation.batch=2",
        "evaluation.checkpoint_batches=1",
        "evaluation.pictures=1",
    ];
    let boxes: Training = |out, settings| {
        let mut command = mnemora(["train", "boxworld-small", "--memory", "rmc", "--out"]);
        command.arg(out);
        with_settings(command, settings)
    };
    let rmc = [
        "agents.environment.box-world.length=30",
        "agents.model.torso.channels=[3, 4]",
        "memory.rmc.slots=2",
        "memory.rmc.heads=1",
        "memory.rmc.head_size=3",
    ];
    killed_at(boxes, &MOMENTS, &[&tiny[..], &rmc].concat());
    let symbols: Training = |out, settings| {
        let mut command = mnemora([
            "train",
            "repeat-previous-small",
            "--memory",
            "lstm",
            "--out",
        ]);
        command.arg(out);
        with_settings(command, settings)
    };
    let ppo = [
        "agents.objective=ppo",
        "agents.passes=2",
        "agents.model.torso.units=4",
        "memory.lstm.hidden=4",
    ];
    killed_at(symbols, &MOMENTS, &[&tiny[..], &ppo].concat());
}

/// The running statistics of batch normalisation are part of a checkpoint.
#[test]
fn inception_killed_again_and_again() {
    let settings = [
        "training.steps=16",
        "training.checkpoint_every=2",
        "model.visual=inception",
        "task.length=2",
        "task.recall=1",
        "evaluation.batches=1",
        "evaluation.batch=2",
    ];
    killed_at(train, &[(1, 0), (3, 0)], &settings);
}

/// A folder left by a kill in the first moments of a training must not be a dead end: neither one of an
/// earlier version, nor one that was not yet in its final place.
#[test]
fn killed_before_it_had_a_configuration() {
    for left in [
        &[][..],
        &[".lock"],
        &[".lock", "origin.json", "experiment.toml"],
    ] {
        let folder = tempdir().expect("a temporary folder is made");
        let unfinished = folder.path().join(".run.unfinished");
        fs::create_dir(&unfinished).expect("a folder is made");
        for name in left {
            fs::write(unfinished.join(name), "half").expect("a file is written");
        }
        succeed(train(&folder.path().join("run"), &["training.steps=1"]));
        assert_eq!(names_in(folder.path()), ["run"]);
    }
    for left in [&[".lock"][..], &[".lock", "origin.json"]] {
        let folder = tempdir().expect("a temporary folder is made");
        let run = folder.path().join("run");
        fs::create_dir(&run).expect("a folder is made");
        for name in left {
            fs::write(run.join(name), "").expect("a file is written");
        }
        succeed(train(&run, &["training.steps=1"]));
    }
}

/// A run that was continued and then stopped is compared by its newest checkpoint, not by its old evaluation.
#[test]
fn compare_after_a_stop_in_the_prolongation() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &["training.steps=4"]));
    let mut living = Living::start(resume(&run, &["training.steps=100000"]));
    living.wait_until(|| checkpoint_steps(&run).last().is_some_and(|step| *step >= 8));
    living.signal("INT");
    let newest = checkpoint_steps(&run).pop().expect("a checkpoint");
    let mut compare = mnemora(["compare", "--json", "--out"]);
    compare.arg(folder.path().join("compare.png")).arg(&run);
    assert_eq!(succeed(compare).json()["steps"], newest);
}

/// Logged rows stay, even if other steps are logged from now on.
#[test]
fn another_log_every_keeps_old_rows() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &["training.steps=7", "training.log_every=2"]));
    succeed(resume(&run, &["training.steps=12", "training.log_every=5"]));
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let steps: Vec<u64> = text
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).expect("a row");
            row["step"].as_u64().expect("a step")
        })
        .collect();
    // Step 7 was logged only because it was the last.
    assert_eq!(steps, [1, 2, 4, 6, 10, 12]);
}

/// A write of metrics that was only half done when the power failed.
#[test]
fn half_a_row_of_metrics() {
    let folder = tempdir().expect("a temporary folder is made");
    let (whole, torn) = (folder.path().join("whole"), folder.path().join("torn"));
    succeed(train(&whole, &[]));
    succeed(train(&torn, &["training.steps=8"]));
    let metrics = fs::OpenOptions::new()
        .append(true)
        .open(torn.join("metrics.jsonl"));
    metrics
        .and_then(|mut file| file.write_all(b"{\"step\":9,\"bou"))
        .expect("the metrics can be written");
    succeed(resume(&torn, &["training.steps=12"]));
    assert_same_training(&whole, &torn);
}

#[test]
fn signals_save_and_say_where() {
    let folder = tempdir().expect("a temporary folder is made");
    let settings = ["training.steps=120", "training.checkpoint_every=50"];
    let whole = folder.path().join("whole");
    succeed(train(&whole, &settings));

    for (name, status) in [("INT", 130), ("TERM", 143)] {
        let run = folder.path().join(name);
        let mut living = Living::start(train(&run, &settings));
        living.wait_until(|| rows_logged(&run) >= 7);
        let stopped = living.signal(name);
        assert_eq!(stopped.status, Some(status), "{}", stopped.stderr);
        assert_eq!(stopped.stdout, "");

        let made = checkpoint_steps(&run).pop().expect("it saved");
        assert!((7..120).contains(&made), "stopped after {made} updates");
        assert_eq!(rows_logged(&run) as u64, made);
        let saved = run.join("checkpoints").join(format!("step-{made}"));
        assert_says(
            &stopped.stderr,
            &[
                &format!("saved {}", saved.display()),
                &format!("mnemora resume {}", run.display()),
            ],
        );
        let page = fs::read_to_string(run.join("report.html")).expect("a page");
        assert_says(
            &page,
            &[
                &format!("Stopped after {made} of 120 updates"),
                "Gradient norm",
            ],
        );
        assert!(!page.contains("location.reload()"));
        succeed(resume(&run, &[]));
        assert_same_training(&whole, &run);
        assert_eq!(held_out_bounds(&whole), held_out_bounds(&run));
    }
}

/// While a run trains, its page can be opened and reloads itself; what it shows of speed and memory is in a file of its
/// own, and so are the evaluations at checkpoints.
#[test]
fn a_page_shows_a_run_that_trains() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let settings = ["training.steps=100000", "training.checkpoint_every=2"];
    let mut living = Living::start(train(&run, &settings));
    living.wait_until(|| checkpoint_steps(&run).last() >= Some(&6));
    let page = fs::read_to_string(run.join("report.html")).expect("a page");
    assert_says(
        &page,
        &[
            "In training:",
            "of 100000 updates",
            "location.reload()",
            "updates per second",
        ],
    );
    living.signal("INT");
    let rows = |name: &str| {
        let text = fs::read_to_string(run.join(name)).expect(name);
        let rows = text
            .lines()
            .map(|row| serde_json::from_str(row).expect("JSON"));
        rows.collect::<Vec<serde_json::Value>>()
    };
    let steps = |rows: &[serde_json::Value]| {
        rows.iter()
            .map(|row| row["step"].as_u64())
            .collect::<Vec<_>>()
    };
    let machine = rows("machine.jsonl");
    assert_eq!(steps(&machine), steps(&rows("metrics.jsonl")));
    for row in &machine {
        assert!(row["updates_per_second"].as_f64() > Some(0.0), "{row}");
        assert!(row["memory_mib"].as_f64() > Some(1.0), "{row}");
    }
    let held_out = rows("held_out.jsonl");
    assert!(
        held_out.len() >= 3 && held_out[0]["bound"].is_f64(),
        "{held_out:?}"
    );
    assert!(run.join("samples/step-2.png").exists());
    assert!(run.join("samples/step-4.png").exists());
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry.expect("an entry")))
        .collect();
    names.sort();
    names
}

/// Asserts that resuming a run is refused and leaves it unchanged. Returns the message.
#[track_caller]
fn refuse_to_resume(command: Command, run: &Path) -> String {
    let before = files_below(run);
    let message = refuse(command);
    assert_same_files(&before, &files_below(run));
    message
}

/// The old process must neither write into the new run nor keep it from its place.
#[test]
fn run_made_anew_under_a_living_process() {
    let folder = tempdir().expect("a temporary folder is made");
    let (whole, run) = (folder.path().join("whole"), folder.path().join("run"));
    succeed(train(&whole, &["training.steps=40"]));
    let endless = ["training.steps=1000000", "training.learning_rate=0.01"];
    let mut old = Living::start(train(&run, &endless));
    old.wait_until(|| checkpoint_steps(&run).len() >= 2);
    let begun = Instant::now();
    // It may still write a checkpoint in between.
    while run.exists() {
        let _ = fs::remove_dir_all(&run);
        assert!(begun.elapsed() < PATIENCE, "the folder stays");
    }
    succeed(train(&run, &["training.steps=20"]));
    let old = old.end();
    assert_eq!(old.status, Some(1), "{}", old.stderr);
    assert_eq!(old.complaints().len(), 1, "{}", old.stderr);
    assert_says(
        old.complaints()[0],
        &[&run.display().to_string(), "removed"],
    );
    succeed(resume(&run, &["training.steps=40"]));
    assert_same_training(&whole, &run);
    assert_eq!(names_in(folder.path()), ["run", "whole"]);
}

#[test]
fn run_moved_under_a_living_process() {
    let folder = tempdir().expect("a temporary folder is made");
    let (run, moved) = (folder.path().join("run"), folder.path().join("moved"));
    let mut old = Living::start(train(&run, &["training.steps=1000000"]));
    old.wait_until(|| checkpoint_steps(&run).len() >= 2);
    fs::rename(&run, &moved).expect("a folder can be moved");
    let old = old.end();
    assert_eq!(old.status, Some(1), "{}", old.stderr);
    assert_says(&old.stderr, &["moved"]);
    let steps = checkpoint_steps(&moved).pop().expect("a checkpoint") + 2;
    succeed(resume(&moved, &[&format!("training.steps={steps}")]));
    assert_eq!(names_in(folder.path()), ["moved"]);
}

#[test]
fn checkpoints_that_were_removed() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &[]));
    fs::remove_dir_all(run.join("checkpoints")).expect("the folder goes");
    let says = ["lost its checkpoints", "12", "--out"];
    let message = refuse_to_resume(resume(&run, &[]), &run);
    assert_says(&message, &says);
    // An earlier version did not write down that it had saved.
    forget(&run.join("origin.json"), &["saved"]);
    let message = refuse_to_resume(resume(&run, &["training.steps=16"]), &run);
    assert_says(&message, &says);
}

/// Same model, same seed, another rate.
#[test]
fn checkpoint_of_a_sister_run() {
    let folder = tempdir().expect("a temporary folder is made");
    let (run, sister) = (folder.path().join("run"), folder.path().join("sister"));
    succeed(train(&run, &["training.steps=8"]));
    let other = ["training.steps=12", "training.learning_rate=0.01"];
    succeed(train(&sister, &other));
    let [from, to] = [&sister, &run].map(|run| run.join("checkpoints/step-12"));
    fs::create_dir(&to).expect("a folder is made");
    for name in names_in(&from) {
        fs::copy(from.join(&name), to.join(&name)).expect("a file is copied");
    }
    let says = ["step-12", "another run", "identity"];
    let message = refuse_to_resume(resume(&run, &["training.steps=16"]), &run);
    assert_says(&message, &says);
    let mut eval = mnemora(["eval"]);
    eval.arg(&run);
    assert_says(&refuse(eval), &says);
    fs::remove_dir_all(&to).expect("the folder goes");
    succeed(resume(&run, &["training.steps=9"]));
}

#[test]
fn experiment_that_was_edited() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &[]));
    let path = run.join("experiment.toml");
    let text = fs::read_to_string(&path).expect("the experiment");
    for (from, to) in [
        ("learning_rate = 0.001", "learning_rate = 0.002"),
        ("steps = 12", "steps = 16"),
        ("checkpoint_batches = 1", "checkpoint_batches = 2"),
    ] {
        assert!(text.contains(from), "{from} is not in {text}");
        fs::write(&path, text.replacen(from, to, 1)).expect("a file is written");
        let message = refuse_to_resume(resume(&run, &[]), &run);
        assert_says(&message, &["experiment.toml", "edited", "--set"]);
    }
    // A comment changes nothing.
    fs::write(&path, format!("# my first run\n{text}")).expect("a file is written");
    succeed(resume(&run, &["training.steps=13"]));
    succeed(resume(&run, &[]));
}

/// Other kernels, another number of threads: refused, or recorded.
#[test]
fn resumed_differently() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(train(&run, &[]));
    let differently = |words: &[&str]| {
        let mut command = resume(&run, &["training.steps=16"]);
        command.args(words);
        command
    };
    let mut kernels = differently(&[]);
    kernels.env("MNEMORA_KERNELS", "plain");
    let mut threads = differently(&[]);
    threads.env("RAYON_NUM_THREADS", "2");
    for (command, says) in [
        (
            kernels,
            ["MNEMORA_KERNELS was fused, is plain", "bit for bit"],
        ),
        (threads, ["threads was 1, is 2", "--continue-differently"]),
        (
            resume(&run, &["training.threads=2"]),
            ["threads was 1, is 2", "--continue-differently"],
        ),
    ] {
        assert_says(&refuse_to_resume(command, &run), &says);
    }
    let mut command = differently(&["--continue-differently"]);
    command
        .env("MNEMORA_KERNELS", "plain")
        .env("RAYON_NUM_THREADS", "2");
    let resumed = succeed(command);
    assert_eq!(resumed.complaints().len(), 1, "{}", resumed.stderr);
    assert_says(
        resumed.complaints()[0],
        &["was fused, is plain", "not be bit for bit"],
    );
    let origin = read_json(&run.join("origin.json"));
    let change = &origin["changes"][0];
    assert_eq!(change["after_step"], 12);
    assert_says(&change["command"].to_string(), &["training.steps=16"]);
    assert_says(
        &change["differently"].to_string(),
        &["plain", "threads was 1"],
    );

    // The run now has these kernels and threads.
    assert_says(
        &refuse_to_resume(differently(&[]), &run),
        &["was plain, is fused"],
    );
    let mut command = resume(&run, &["training.steps=18"]);
    command
        .env("MNEMORA_KERNELS", "plain")
        .env("RAYON_NUM_THREADS", "2");
    assert_eq!(succeed(command).complaints(), Vec::<&str>::new());
    let changes = &read_json(&run.join("origin.json"))["changes"];
    assert_eq!(
        changes[1]["differently"],
        serde_json::Value::Null,
        "only longer"
    );
}

/// Takes keys out of a JSON file.
fn forget(path: &Path, keys: &[&str]) {
    let mut value = read_json(path);
    for key in keys {
        value.as_object_mut().expect("an object").remove(*key);
    }
    fs::write(path, value.to_string()).expect("a file is written");
}

/// A run written by an earlier version can be resumed, and is identified from then on.
#[test]
fn run_of_an_earlier_version() {
    let folder = tempdir().expect("a temporary folder is made");
    let (whole, run) = (folder.path().join("whole"), folder.path().join("run"));
    succeed(train(&whole, &["training.steps=16"]));
    succeed(train(&run, &[]));
    let keys = [
        "identity",
        "experiment_sha256",
        "saved",
        "threads",
        "kernels",
    ];
    forget(&run.join("origin.json"), &keys);
    for step in checkpoint_steps(&run) {
        forget(
            &checkpoint_file(&run, step, "state.json"),
            &["identity", "kernels"],
        );
        let names = ["weights.safetensors", "optimizer.safetensors", "state.json"];
        let sums = names.map(|name| {
            let bytes = fs::read(checkpoint_file(&run, step, name)).expect("the file is there");
            let sum = Sha256::digest(bytes);
            let digits: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}  {name}\n")
        });
        let path = checkpoint_file(&run, step, "SHA256SUMS");
        fs::write(path, sums.concat()).expect("a file is written");
    }
    let resumed = succeed(resume(&run, &["training.steps=16"]));
    assert_eq!(resumed.complaints().len(), 1, "{}", resumed.stderr);
    assert_says(resumed.complaints()[0], &["identities", "step-12"]);
    assert_same_training(&whole, &run);
    let identity = &read_json(&run.join("origin.json"))["identity"];
    assert_eq!(identity.as_str().expect("a text").len(), 32);
    let state = read_json(&checkpoint_file(&run, 16, "state.json"));
    assert_eq!(&state["identity"], identity);
    assert_eq!(succeed(resume(&run, &[])).complaints(), Vec::<&str>::new());
}

fn damage_last_byte(path: &Path) {
    let mut bytes = fs::read(path).expect("the file is there");
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(path, bytes).expect("a file is written");
}

fn cut_in_half(path: &Path) {
    let bytes = fs::read(path).expect("the file is there");
    fs::write(path, &bytes[..bytes.len() / 2]).expect("a file is written");
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("the file goes");
}

/// Spoils one file of the newest checkpoint of a finished run of 12 updates, with one after 8.
fn damaged_newest_checkpoint(name: &str, damage: fn(&Path)) {
    let folder = tempdir().expect("a temporary folder is made");
    let (whole, run) = (folder.path().join("whole"), folder.path().join("run"));
    succeed(train(&whole, &[]));
    succeed(train(&run, &[]));
    let path = checkpoint_file(&run, 12, name);
    damage(&path);

    let mut eval = mnemora(["eval", "--json"]);
    eval.arg(&run);
    let looked = succeed(eval);
    assert_eq!(looked.json()["step"], 8, "the checkpoint before");
    let resumed = succeed(resume(&run, &[]));
    for ended in [&looked, &resumed] {
        let complaints = ended.complaints();
        assert_eq!(complaints.len(), 1, "{}", ended.stderr);
        assert_says(complaints[0], &[&path.display().to_string(), "step-8"]);
    }
    assert_same_training(&whole, &run);
}

#[test]
fn newest_checkpoint_altered() {
    damaged_newest_checkpoint("weights.safetensors", damage_last_byte);
}

#[test]
fn newest_checkpoint_cut() {
    damaged_newest_checkpoint("optimizer.safetensors", cut_in_half);
}

#[test]
fn newest_checkpoint_without_sums() {
    damaged_newest_checkpoint("SHA256SUMS", remove);
}

#[test]
fn second_process_on_a_run_is_refused() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let path = run.display().to_string();
    let mut first = Living::start(train(&run, &["training.steps=1000000"]));
    first.wait_until(|| checkpoint_steps(&run).len() >= 2);

    let message = refuse(resume(&run, &["training.steps=1000001"]));
    assert_says(&message, &[&path, "in use by another process"]);
    let message = refuse(train(&run, &[]));
    assert_says(&message, &[&path, "exists"]);
    let experiment = fs::read_to_string(run.join("experiment.toml")).expect("the experiment");
    assert_says(&experiment, &["steps = 1000000\n"]);
    let mut eval = mnemora(["eval"]);
    eval.arg(&run);
    succeed(eval);

    // Nor does anybody get in by removing the lock.
    #[cfg(target_os = "linux")]
    {
        remove(&run.join(".lock"));
        let message = refuse(resume(&run, &["training.steps=1000001"]));
        assert_says(&message, &[&path, "in use by another process"]);
        let steps = checkpoint_steps(&run);
        first.wait_until(|| checkpoint_steps(&run) > steps);
    }
    assert!(first.lives(), "the first one continues undisturbed");
    assert!(first.kill());
    let steps = checkpoint_steps(&run).pop().expect("a checkpoint") + 2;
    succeed(resume(&run, &[&format!("training.steps={steps}")]));
    assert_eq!(rows_logged(&run) as u64, steps);
}

/// Rows of both runs must agree, although the last step of the shorter one was logged out of turn.
#[test]
fn prolonged_run_is_as_one_that_was_longer_from_the_start() {
    let folder = tempdir().expect("a temporary folder is made");
    let (whole, prolonged) = (folder.path().join("whole"), folder.path().join("prolonged"));
    succeed(train(
        &whole,
        &["training.steps=12", "training.log_every=3"],
    ));
    succeed(train(
        &prolonged,
        &["training.steps=8", "training.log_every=3"],
    ));
    succeed(resume(&prolonged, &["training.steps=12"]));
    assert_same_training(&whole, &prolonged);
    assert_eq!(rows_logged(&whole), 5, "steps 1, 3, 6, 9, 12");
    let experiment = |run: &PathBuf| fs::read_to_string(run.join("experiment.toml")).expect("it");
    assert_eq!(experiment(&whole), experiment(&prolonged));
}

/// A training that ends in front of a closed gate has failed, however often it is asked.
#[test]
fn a_training_that_did_not_come_to_its_end_stays_unfinished() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("run");
    let mut training = mnemora(["train", "image-navigation-small", "--out"]);
    training.arg(&path);
    let settings = [
        "training.steps=3",
        "training.batch=1",
        "navigation.stages.frames=1",
        "navigation.memorise=12",
        "navigation.foresee=2",
        "navigation.stages.short_memorise=8",
        "evaluation.batches=1",
        "evaluation.batch=1",
    ];
    for command in [
        with_settings(training, &settings),
        resume(&path, &[]),
        resume(&path, &[]),
    ] {
        let ended = run(command);
        assert_eq!(ended.status, Some(1), "{}", ended.stderr);
        assert_says(
            &ended.stderr,
            &["after step 3", "before the gate opened", "step-3"],
        );
    }
    assert!(!path.join("evaluation.json").exists());
}

#[test]
fn resume_of_a_finished_run_changes_nothing() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let trained = succeed(train(&run, &[]));
    let lasting = || {
        let mut files = files_below(&run);
        // A report contains its command, and an event file its time.
        files.retain(|path, _| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name != "report.html" && !name.contains("tfevents")
        });
        files
    };
    let before = lasting();
    assert!(before.len() > 8, "{:?}", before.keys());
    let resumed = succeed(resume(&run, &[]));
    assert_same_files(&before, &lasting());
    assert_eq!(trained.stdout, resumed.stdout, "the same evaluation");
    assert_eq!(resumed.complaints(), Vec::<&str>::new());
}

/// A learning rate that destroys what was learned makes an early checkpoint the best one.
#[test]
fn newest_checkpoints_and_the_best_are_kept() {
    for keep in [1, 3] {
        let folder = tempdir().expect("a temporary folder is made");
        let run = folder.path().join("run");
        let settings = [
            "training.steps=20",
            "training.checkpoint_every=2",
            "training.learning_rate=0.03",
            &format!("training.keep={keep}"),
        ];
        succeed(train(&run, &settings));
        let spoil = ["training.steps=32", "training.learning_rate=0.5"];
        succeed(resume(&run, &spoil));

        let bounds = held_out_bounds(&run);
        assert_eq!(bounds.len(), 16);
        let best = bounds.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let best = best.expect("there are bounds").0;
        let newest: Vec<u64> = (1..=16).map(|i| 2 * i).skip(16 - keep).collect();
        assert!(!newest.contains(&best), "the test wants an early best");
        assert_eq!(checkpoint_steps(&run), [vec![best], newest].concat());

        let mut eval = mnemora(["eval", "--json", "--checkpoint", "best"]);
        eval.arg(&run);
        assert_eq!(succeed(eval).json()["step"], best);
    }
}

/// The checkpoint before a failed step can be evaluated, even if its held-out bound is not a
/// number, and a resumed run fails at the same step.
#[test]
fn numbers_that_are_not_finite() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let settings = [
        "training.learning_rate=100",
        "training.checkpoint_every=1",
        "training.clip=0",
    ];
    let failed = common::run(train(&run, &settings));
    assert_eq!(failed.status, Some(1), "{}", failed.stderr);
    assert_eq!(failed.stdout, "");
    let complaints = failed.complaints();
    assert_eq!(complaints.len(), 1, "{}", failed.stderr);
    let made = checkpoint_steps(&run).pop().expect("a checkpoint");
    let kept = run.join(format!("checkpoints/failed-after-step-{made}"));
    assert_says(
        complaints[0],
        &[
            &format!("step {}", made + 1),
            "not finite",
            &kept.display().to_string(),
        ],
    );
    assert!(kept.join("weights.safetensors").is_file());

    let mut eval = mnemora(["eval", "--json"]);
    eval.arg(&run);
    let looked = common::run(eval);
    assert_eq!(looked.json()["step"], made);
    let finite = looked.json()["bound"].is_number();
    assert_eq!(looked.status, Some(i32::from(!finite)), "{}", looked.stderr);
    assert_eq!(
        looked.complaints().len(),
        usize::from(!finite),
        "{}",
        looked.stderr
    );
    let again = common::run(resume(&run, &[]));
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert_eq!(again.complaints(), complaints);
}

/// A rate that is finite when it is read, but not when it is used.
#[test]
fn parameters_that_are_not_finite_are_not_saved() {
    let folder = tempdir().expect("a temporary folder is made");
    for (name, every) in [("at-once", "1"), ("later", "4")] {
        let run = folder.path().join(name);
        let every = format!("training.checkpoint_every={every}");
        let settings = ["training.learning_rate=1e308", "model.memory=lstm", &every];
        let failed = common::run(train_copy(&run, &settings));
        assert_eq!(failed.status, Some(1), "{}", failed.stderr);
        assert_eq!(failed.complaints().len(), 1, "{}", failed.stderr);
        let says = ["step 1: the parameter '", "not finite", "no checkpoint yet"];
        assert_says(failed.complaints()[0], &says);
        assert!(!run.join("checkpoints").exists());
    }
}
