//! Readers of experiments, of the files of a run, and of the input of a filter.

use crate::{
    data,
    harness::{Reader, Seed, Target},
};
use mnemora_lab::{
    Device, Experiment, LabError, RunContext, Which, compare::compare, find_device,
    load_experiment, load_filter_state, open, open_to_filter, read_origin, save_filter_state,
    shipped, train,
};
use mnemora_training::checkpoint;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

/// A learner and its run take some hundred megabytes; started programs reserve more than they use.
const MEGABYTES: usize = 6144;

macro_rules! reader {
    ($prepare:ident) => {
        Reader {
            name: stringify!($prepare),
            megabytes: MEGABYTES,
            prepare: $prepare,
        }
    };
}

pub const READERS: [Reader; 11] = [
    reader!(experiment_toml),
    reader!(overrides),
    reader!(weights),
    reader!(checkpoint_state),
    reader!(checkpoint_sums),
    reader!(metrics),
    reader!(evaluation),
    reader!(origin),
    reader!(filter_lines),
    reader!(filter_array),
    reader!(filter_state),
];

/// The run's only checkpoint.
const STEP: u64 = 4;

fn target<T>(
    seeds: impl IntoIterator<Item = Seed>,
    file: PathBuf,
    mut read: impl FnMut(&Path) -> Result<T, LabError> + 'static,
) -> Target {
    Target {
        seeds: seeds.into_iter().collect(),
        file,
        read: Box::new(move |path| {
            let read = read(path).map(|_| ());
            read.map_err(|error| error.to_string())
        }),
    }
}

fn plain(bytes: impl Into<Vec<u8>>) -> Seed {
    Seed::Plain(bytes.into())
}

/// A target whose seed is the file itself.
fn of_file<T>(file: PathBuf, read: impl FnMut(&Path) -> Result<T, LabError> + 'static) -> Target {
    let bytes = fs::read(&file).expect("the run has the file");
    target([plain(bytes)], file, read)
}

/// A tiny model of sequences of two numbers.
fn run_in(folder: &Path) -> PathBuf {
    let table = folder.join("data.csv");
    let mut text = "sequence,x,y\n".to_owned();
    for row in 0..72 {
        text += &format!(
            "{},{},{}\n",
            row / 12,
            f64::from(row % 5) / 4.0,
            f64::from(row % 3) / 2.0
        );
    }
    fs::write(&table, text).expect("a file is written");
    let settings = [
        "task.name=own",
        "task.window=6",
        "model.name=vrnn",
        "model.likelihood=normal",
        "model.latent=2",
        "network.vrnn.hidden=4",
        "network.vrnn.observation_units=4",
        "network.vrnn.latent_units=4",
        "training.steps=4",
        "training.log_every=1",
        "training.checkpoint_every=4",
        "training.batch=2",
        "training.threads=1",
        "evaluation.batches=1",
        "evaluation.batch=2",
        "evaluation.pictures=1",
    ];
    let experiment = load_experiment("jsb-chorales", &settings.map(String::from));
    let experiment = experiment.expect("the settings are in range");
    let run = folder.join("run");
    let context = RunContext {
        interrupted: &|| None,
        all_saved: &|_| (),
        quiet: true,
        continue_differently: false,
        command: "mnemora train".into(),
        commit: "unknown".into(),
        device: device(),
    };
    train(experiment, &run, Some(&table), &context).expect("it trains");
    run
}

fn device() -> Device {
    find_device(Some(mnemora_lab::DeviceName::Cpu)).expect("it is built in")
}

fn experiment_toml(folder: &Path) -> Target {
    let mut seeds = vec![plain(
        "name = \"mine\"\nseed = 3\n[task]\nname = \"copy\"\nbits = 4\n[model]\nmemory = \"dnc\"\n[memory.dnc]\nslots = 9\n",
    )];
    for name in ["perfect-recall-small", "jsb-chorales"] {
        let experiment = load_experiment(name, &[]).expect("it comes with the program");
        seeds.push(plain(
            toml::to_string(&experiment).expect("it can be written"),
        ));
    }
    assert!(!shipped().is_empty());
    target(seeds, folder.join("x.toml"), |path| {
        load_experiment(&path.display().to_string(), &[])
    })
}

/// Each line is one `--set`.
fn overrides(folder: &Path) -> Target {
    let seeds = [
        "task.length=4\nmodel.memory=dnc\ntraining.learning_rate=1e-4\n",
        "task.name=\"own\"\nmodel.likelihood=normal\ndata.max_bytes=1000\ntask.colour=true\n",
    ];
    target(seeds.map(plain), folder.join("overrides.txt"), |path| {
        let bytes = fs::read(path).expect("it was written");
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Experiment::parse("", "experiment", &lines)
    })
}

/// Updates the checkpoint's checksums, without which every change of its files would be refused.
fn sum_up(checkpoint: &Path) {
    let mut sums = String::new();
    for name in ["weights.safetensors", "optimizer.safetensors", "state.json"] {
        let bytes = fs::read(checkpoint.join(name)).expect("the checkpoint has the file");
        let digest: String = Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        sums += &format!("{digest}  {name}\n");
    }
    fs::write(checkpoint.join("SHA256SUMS"), sums).expect("a file is written");
}

fn of_checkpoint(folder: &Path, name: &str) -> Target {
    let run = run_in(folder);
    let checkpoint = checkpoint::directory(&run, STEP);
    of_file(checkpoint.join(name), move |_| {
        sum_up(&checkpoint);
        open_to_filter(&run, Which::Last, None, &device())
    })
}

fn weights(folder: &Path) -> Target {
    of_checkpoint(folder, "weights.safetensors")
}

fn checkpoint_state(folder: &Path) -> Target {
    of_checkpoint(folder, "state.json")
}

fn checkpoint_sums(folder: &Path) -> Target {
    let run = run_in(folder);
    let file = checkpoint::directory(&run, STEP).join("SHA256SUMS");
    of_file(file, move |_| Ok(checkpoint::load_latest(&run)?))
}

fn compared(folder: &Path, name: &str) -> Target {
    let run = run_in(folder);
    let picture = folder.join("compare.png");
    of_file(run.join(name), move |_| {
        let comparison = compare(std::slice::from_ref(&run))?;
        assert!(!comparison.table().is_empty());
        comparison.write(&picture)
    })
}

fn metrics(folder: &Path) -> Target {
    compared(folder, "metrics.jsonl")
}

fn evaluation(folder: &Path) -> Target {
    compared(folder, "evaluation.json")
}

fn origin(folder: &Path) -> Target {
    let run = run_in(folder);
    of_file(run.join("origin.json"), move |_| Ok(read_origin(&run)?))
}

/// Runs `mnemora filter` with the file as its standard input.
fn filtered(folder: &Path, seeds: Vec<Seed>) -> Target {
    let run = run_in(folder);
    let read = move |path: &Path| {
        let ended = Command::new(env!("CARGO_BIN_EXE_mnemora"))
            .arg("filter")
            .arg(&run)
            .env_remove("BURN_DEVICE")
            .stdin(File::open(path).expect("it was written"))
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        for line in String::from_utf8_lossy(&ended.stdout).lines() {
            let record: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
            assert!(record["t"].as_u64().is_some(), "{line}");
        }
        match ended.status.code() {
            Some(0) => Ok(()),
            Some(2) => Err(said.trim().to_owned()),
            status => panic!("ended with {status:?}: {said}"),
        }
    };
    Target {
        seeds,
        file: folder.join("input"),
        read: Box::new(read),
    }
}

fn filter_lines(folder: &Path) -> Target {
    let seeds = [
        "{\"x\": [0.5, 1]}\n{\"x\": [-1e3, 0.25]}\n\n{\"x\": [1, 2, 3]}\n",
        "\u{feff}{\"x\": [0, 0], \"c\": null}\r\n{\"c\": [1], \"x\": [0, 0]}\n{\"x\": [null, 1]}\n{\"y\": 1}",
    ];
    filtered(folder, seeds.map(plain).into())
}

fn filter_array(folder: &Path) -> Target {
    let seeds = [
        data::array("<f4", false, "3, 2", &[0; 24]),
        data::array(">f8", true, "2, 2", &[0; 32]),
        data::array("|u1", false, "2, 2", &[1, 0, 1, 0]),
    ];
    filtered(folder, seeds.map(plain).into())
}

/// The content of a state file: a line with the model and the checksum of the rest, then the rest.
fn state_with_sum(inside: &[u8]) -> Vec<u8> {
    let end = inside
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let (head, state) = inside.split_at(end);
    let sum: String = Sha256::digest(state)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let head = String::from_utf8_lossy(head);
    let head = head
        .trim_end()
        .rsplit_once(' ')
        .map_or("", |(head, _)| head);
    [format!("{head} {sum}\n").as_bytes(), state].concat()
}

fn filter_state(folder: &Path) -> Target {
    let run = run_in(folder);
    let file = folder.join("filter.state");
    let trained = open(&run, Which::Last, &[], None, &device()).expect("the run can be opened");
    let mut filter = trained.online(1).expect("the model filters");
    filter
        .step(&[0.5, 0.25], None)
        .expect("two numbers are an observation");
    save_filter_state(filter.as_ref(), &file).expect("a file is written");
    let bytes = fs::read(&file).expect("it was written");
    let seeds = [plain(bytes.clone()), Seed::Within(bytes, state_with_sum)];
    target(seeds, file, move |path| {
        load_filter_state(filter.as_mut(), path)?;
        // An accepted state must also be usable.
        filter
            .step(&[0.5, 0.25], None)
            .map_err(LabError::Configuration)
    })
}
