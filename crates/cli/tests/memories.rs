//! Every memory on every task, replicas, and refused settings.

mod common;

use common::{
    assert_same_files, assert_says, edit_unseen, files_below, mnemora, refuse, resume, succeed,
    with_tiny,
};
use std::{fs, path::Path, process::Command};
use tempfile::tempdir;

const MEMORIES: [&str; 8] = [
    "vrnn",
    "introspection",
    "ntm",
    "lru",
    "dnc",
    "hybrid",
    "spatial",
    "rmc",
];

/// The task for memories that need actions.
const MAP: [&str; 3] = ["task.name=mnist-map", "task.recall=3", "task.grid=2"];

/// Sizes that make every memory tiny; five slots hold a sequence of the tiny tasks.
const SIZES: [&str; 19] = [
    "memory.ntm.hidden=6",
    "memory.ntm.reads=2",
    "memory.ntm.width=4",
    "memory.lru.hidden=6",
    "memory.lru.reads=2",
    "memory.lru.width=4",
    "memory.dnc.hidden=6",
    "memory.dnc.reads=2",
    "memory.dnc.width=4",
    "memory.hybrid.hidden=6",
    "memory.hybrid.attention=6",
    "memory.hybrid.key=4",
    "memory.hybrid.reads=2",
    "memory.spatial.neighbours=3",
    "memory.rmc.heads=2",
    "memory.rmc.head_size=4",
    "training.steps=4",
    "training.checkpoint_every=2",
    "evaluation.batches=1",
];

/// The tasks, each with a length and a recall that it accepts.
const TASKS: [(&str, usize, usize); 6] = [
    ("perfect-recall", 3, 2),
    ("parity-recall", 3, 2),
    ("one-shot-recall", 3, 2),
    ("dynamic-dependency", 10, 2),
    ("similarity-cued-recall", 4, 3),
    ("mnist-map", 3, 3),
];

fn tiny(out: &Path, memory: &str, settings: &[&str]) -> Command {
    let mut command = mnemora(["train", "perfect-recall-small", "--out"]);
    command.arg(out);
    let tiny = [&common::TINY[..], &SIZES].concat();
    let memory = format!("model.memory={memory}");
    let settings = [settings, &[memory.as_str()]].concat();
    with_tiny(command, "perfect-recall-small", &tiny, &settings)
}

/// Weights that overflow make attention NaN, which range checks report before the update's own check
/// does. The value that cargo sets for tests does not switch them on in the program.
#[test]
fn the_program_checks_ranges_only_where_it_is_asked_to() {
    let folder = tempdir().expect("a temporary folder is made");
    for (asked, noticed) in [
        (Some("ranges"), true),
        (Some("tests"), false),
        (None, false),
    ] {
        let run = folder.path().join(asked.unwrap_or("no"));
        let overflow = ["training.learning_rate=1e38", "training.clip=0"];
        let mut command = tiny(&run, "introspection", &overflow);
        match asked {
            Some(value) => command.env("MNEMORA_CHECKS", value),
            None => command.env_remove("MNEMORA_CHECKS"),
        };
        let ended = common::run(command);
        let named = "introspection: read weights out of range";
        assert_eq!(ended.stderr.contains(named), noticed, "{}", ended.stderr);
        assert_ne!(ended.status, Some(0), "{}", ended.stderr);
    }
}

#[test]
fn every_memory_trains_on_every_task() {
    let folder = tempdir().expect("a temporary folder is made");
    for (task, length, recall) in TASKS {
        let (length, recall) = (
            format!("task.length={length}"),
            format!("task.recall={recall}"),
        );
        let name = format!("task.name={task}");
        for memory in MEMORIES {
            if memory == "spatial" && task != "mnist-map" {
                continue;
            }
            let run = folder.path().join(format!("{task}-{memory}"));
            let mut settings = vec![name.as_str(), &length, &recall];
            if task == "mnist-map" {
                settings.push("task.grid=2");
            }
            let mut command = tiny(&run, memory, &settings);
            command.arg("--json");
            let evaluation = succeed(command).json();
            assert!(
                evaluation["bound"].as_f64().is_some(),
                "{task} {memory}: {evaluation}"
            );
            assert!(evaluation["kl_ratio"].as_f64().is_some());
            let digits = evaluation.get("generated_digits").is_some();
            assert_eq!(digits, task != "one-shot-recall", "{task}");
            let map = evaluation.get("map_coherence").is_some();
            assert_eq!(map, task == "mnist-map", "{task}");
            assert_eq!(run.join("samples/map.png").exists(), map);
            assert_eq!(
                run.join("samples/attention.png").exists(),
                memory != "vrnn",
                "{memory}"
            );
        }
    }
}

#[test]
fn every_memory_goes_on_bit_for_bit() {
    let folder = tempdir().expect("a temporary folder is made");
    for memory in MEMORIES {
        let task = match memory {
            "spatial" => &MAP[..],
            _ => &[],
        };
        let whole = folder.path().join(format!("{memory}-whole"));
        succeed(tiny(&whole, memory, task));
        let parted = folder.path().join(format!("{memory}-parted"));
        let half = [task, &["training.steps=2"]].concat();
        succeed(tiny(&parted, memory, &half));
        succeed(resume(&parted, &["training.steps=4"]));
        for file in ["weights.safetensors", "optimizer.safetensors"] {
            let read = |run: &Path| {
                fs::read(run.join("checkpoints/step-4").join(file)).expect("a checkpoint's file")
            };
            assert!(read(&whole) == read(&parted), "{memory}: {file} differs");
        }
        let evaluation = |run: &Path| fs::read_to_string(run.join("evaluation.json")).unwrap();
        assert_eq!(evaluation(&whole), evaluation(&parted), "{memory}");
    }
}

fn replicas(folder: &Path, settings: &[&str]) -> Command {
    let mut command = tiny(&folder.join("all"), "hybrid", settings);
    command.args(["--replicas", "3"]);
    command
}

#[test]
fn replicas_are_averaged_and_not_trained_twice() {
    let folder = tempdir().expect("a temporary folder is made");
    let all = folder.path().join("all");
    let first = succeed(replicas(folder.path(), &[]));
    assert_says(&first.stdout, &["| hybrid | 1, 2, 3 | 4 |", "±"]);
    assert!(all.join("compare.png").exists());
    let before = files_below(&all);
    let again = succeed(replicas(folder.path(), &[]));
    assert_eq!(first.stdout, again.stdout);
    assert_same_files(&before, &files_below(&all));

    // A replica that was stopped half-way is resumed.
    let stopped = all.join("seed2");
    fs::remove_dir_all(stopped.join("checkpoints/step-4")).expect("a checkpoint goes");
    fs::remove_file(stopped.join("evaluation.json")).expect("an evaluation goes");
    let resumed = succeed(replicas(folder.path(), &[]));
    assert_eq!(first.stdout, resumed.stdout);

    let message = refuse(replicas(folder.path(), &["model.latent=6"]));
    assert_says(&message, &["seed1", "model.latent", "--out"]);
}

#[test]
fn processes_share_the_replicas_of_a_directory() {
    let folder = tempdir().expect("a temporary folder is made");
    let spawn = || {
        let mut command = replicas(folder.path(), &["training.steps=40"]);
        let command = command.stdout(std::process::Stdio::null());
        let command = command.stderr(std::process::Stdio::null());
        command.spawn().expect("the program starts")
    };
    let mut both = [spawn(), spawn()];
    for process in &mut both {
        let status = process.wait().expect("the program ends");
        assert!(status.success(), "{status}");
    }
    let table = succeed(replicas(folder.path(), &["training.steps=40"])).stdout;
    assert_says(&table, &["| hybrid | 1, 2, 3 | 40 |"]);
}

#[test]
fn what_a_memory_cannot_hold_is_refused_with_the_sizes() {
    let folder = tempdir().expect("a temporary folder is made");
    let out = folder.path().join("run");
    for (memory, task, steps) in [
        ("introspection", &[][..], "5 steps"),
        ("hybrid", &[], "5 steps"),
        ("spatial", &MAP, "6 steps"),
    ] {
        let slots = format!("memory.{memory}.slots=4");
        let message = refuse(tiny(&out, memory, &[task, &[slots.as_str()]].concat()));
        assert_says(&message, &[&format!("memory.{memory}.slots"), "4", steps]);
    }
    let message = refuse(tiny(&out, "spatial", &[]));
    assert_says(&message, &["memory spatial needs actions", "mnist-map"]);
    for (setting, says) in [
        ("neighbours=7", "the dictionary holds at most 6 entries"),
        ("place=0", "at least 1"),
        ("delta=0", "a positive number"),
        ("step=-1", "a positive number"),
    ] {
        let setting = format!("memory.spatial.{setting}");
        let message = refuse(tiny(&out, "spatial", &[&MAP[..], &[&setting]].concat()));
        let key = setting.split('=').next().unwrap_or_default();
        assert_says(&message, &[key, says]);
    }
    let message = refuse(tiny(&out, "lru", &["memory.lru.slots=1"]));
    assert_says(
        &message,
        &["memory.lru.slots", "1", "memory.lru.reads", "2"],
    );
    let message = refuse(tiny(&out, "dnc", &["memory.dnc.width=0"]));
    assert_says(&message, &["memory.dnc.width", "at least 1"]);
    let message = refuse(tiny(&out, "rmc", &["memory.rmc.heads=0"]));
    assert_says(&message, &["memory.rmc.heads", "at least 1"]);
    let message = refuse(tiny(&out, "ntm", &["task.name=dynamic-dependency"]));
    assert_says(&message, &["task.length", "10"]);
    let message = refuse(tiny(&out, "ntm", &["task.name=mnist-map", "task.grid=1"]));
    assert_says(&message, &["task.grid", "2"]);
    assert!(!out.exists());
}

#[test]
fn an_exported_run_can_be_looked_at_but_not_trained_on() {
    let folder = tempdir().expect("a temporary folder is made");
    let (run, given) = (folder.path().join("run"), folder.path().join("given"));
    succeed(tiny(&run, "hybrid", &[]));
    let export = || {
        let mut command = mnemora(["export"]);
        command.arg(&run).arg("--out").arg(&given);
        command
    };
    succeed(export());
    let on = |words: &[&str], run: &Path| {
        let mut command = mnemora(words);
        command.arg(run);
        command
    };
    let evaluation = |run: &Path| succeed(on(&["eval", "--json"], run)).json();
    assert_eq!(evaluation(&run), evaluation(&given));
    succeed(on(&["generate"], &given));
    succeed(on(&["report"], &given));
    let card = fs::read_to_string(given.join("README.md")).expect("a card");
    assert_says(&card, &["hybrid", "4 updates", "bundled subset", "bound"]);
    let optimizer = given.join("checkpoints/step-4/optimizer.safetensors");
    assert!(fs::metadata(optimizer).expect("a file").len() < 100);
    assert_says(&refuse(on(&["resume"], &given)), &["exported", "optimiser"]);
    assert_says(&refuse(export()), &["given", "exists"]);
}

#[test]
fn generation_beyond_the_trained_length_says_so() {
    let folder = tempdir().expect("a temporary folder is made");
    for (memory, says) in [
        ("introspection", "drops its oldest"),
        ("ntm", "sequences of 6 steps"),
    ] {
        let run = folder.path().join(memory);
        succeed(tiny(&run, memory, &MAP));
        let generate = |steps: &str| {
            let mut command = mnemora(["generate", "--sequences", "2", "--steps", steps]);
            command.arg(&run);
            command
        };
        let beyond = succeed(generate("9")).stderr;
        assert_says(&beyond, &["up to step 12", memory, says]);
        let within = succeed(generate("2")).stderr;
        assert!(!within.contains("trained on"), "{within}");
    }
    let run = folder.path().join("recall");
    succeed(tiny(&run, "hybrid", &[]));
    let mut command = mnemora(["generate", "--steps", "4"]);
    command.arg(&run);
    assert_says(&refuse(command), &["--steps 4", "task.recall 4", "3"]);
}

/// The place and the dictionary are the state of the online filter: saved after any step, they go on where they were.
#[test]
fn the_filter_of_a_walk_goes_on_from_a_saved_place() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(tiny(&run, "spatial", &MAP));
    let moves = [None, Some(0), Some(2), Some(1), Some(3), Some(3)];
    let lines: Vec<String> = moves
        .iter()
        .enumerate()
        .map(|(step, taken)| {
            let x: Vec<f32> = (0..784)
                .map(|pixel| f32::from(u8::from(pixel % 7 == step)))
                .collect();
            let c: Vec<u8> = (0..4)
                .map(|action| u8::from(Some(action) == *taken))
                .collect();
            format!("{}\n", serde_json::json!({ "x": x, "c": c }))
        })
        .collect();
    let answers = |more: &[&str], lines: &[String]| {
        let mut command = mnemora(["filter"]);
        command.arg(&run).args(more);
        let said = common::run_with_input(command, lines.concat().as_bytes());
        assert_eq!(said.status, Some(0), "{}", said.stderr);
        said.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = answers(&[], &lines);
    assert_eq!(whole.len(), moves.len());
    for cut in [1, 2, 4] {
        let state = folder.path().join(format!("{cut}.state"));
        let state = ["--state", state.to_str().expect("a plain path")];
        let mut parts = answers(&state, &lines[..cut]);
        parts.extend(answers(&state, &lines[cut..]));
        assert_eq!(parts, whole, "cut at {cut}");
    }
    // Another way to the same frames leads to another place, and to other beliefs.
    let mut astray = lines.clone();
    astray[4] = astray[4].replace("[0,0,0,1]", "[0,0,1,0]");
    assert_ne!(astray, lines);
    let astray = answers(&[], &astray);
    assert_eq!(astray[..3], whole[..3]);
    assert_ne!(astray[4], whole[4]);
}

#[test]
fn compare_takes_a_folder_of_runs() {
    let folder = tempdir().expect("a temporary folder is made");
    for memory in ["lru", "vrnn"] {
        for seed in ["1", "2"] {
            let run = folder.path().join("runs").join(memory).join(seed);
            succeed(tiny(&run, memory, &[&format!("seed={seed}")]));
        }
    }
    let compare = |below: &str| {
        let mut command = mnemora(["compare"]);
        command.arg(folder.path().join(below));
        command.arg("--out").arg(folder.path().join("c.png"));
        command
    };
    let table = succeed(compare("runs")).stdout;
    assert_says(&table, &["| vrnn | 1, 2 |", "| lru | 1, 2 |", "KL ratio"]);
    // A second run with the same seed is not another sample of the model.
    let again = folder.path().join("runs/vrnn/again");
    succeed(tiny(&again, "vrnn", &["seed=1"]));
    let table = succeed(compare("runs")).stdout;
    assert_says(
        &table,
        &["vrnn (1) | 1, 2 |", "vrnn (again) | 1 |", "| lru | 1, 2 |"],
    );
    fs::create_dir(folder.path().join("empty")).expect("a folder is made");
    assert_says(&refuse(compare("empty")), &["empty", "not a run"]);
    let other = folder.path().join("runs/other");
    succeed(tiny(&other, "lru", &["task.name=parity-recall"]));
    assert_says(
        &refuse(compare("runs")),
        &["parity-recall", "perfect-recall"],
    );
}

#[test]
fn weights_of_another_memory_name_both() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    succeed(tiny(&run, "lru", &[]));
    edit_unseen(&run, "memory = \"lru\"", "memory = \"dnc\"");
    for command in ["eval", "resume", "generate", "report"] {
        let mut words = mnemora([command]);
        words.arg(&run);
        let message = refuse(words);
        assert_says(&message, &["lru", "dnc", "checkpoints"]);
    }
}

/// The pretrained models can generate, and are as good as their cards say.
#[test]
fn shipped_models_generate_what_they_remember() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pretrained");
    for name in ["mnist-map-small-hybrid", "perfect-recall-small-hybrid"] {
        let folder = tempdir().expect("a temporary folder is made");
        let run = folder.path().join(name);
        let given = shipped.join(name);
        for (file, bytes) in files_below(&given) {
            let target = run.join(file.strip_prefix(&given).expect("it is below"));
            fs::create_dir_all(target.parent().expect("it is in a folder")).expect("a folder");
            fs::write(target, bytes).expect("a file is written");
        }
        let mut generate = mnemora(["generate"]);
        generate.arg(&run);
        succeed(generate);
        assert!(run.join("samples/generated.png").exists());
        let mut eval = mnemora(["eval", "--json", "--set", "evaluation.batches=4"]);
        eval.arg(&run);
        let evaluation = succeed(eval).json();
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        assert!(number(&evaluation["kl_ratio"]) < 0.25, "{evaluation}");
        assert!(number(&evaluation["generated_recall"]["nearest"]) > 0.97);
        assert!(number(&evaluation["generated_digits"]["accuracy"]) > 0.85);
    }
}

#[test]
fn the_list_names_every_task_and_memory() {
    let list = succeed(mnemora(["list"])).stdout;
    assert_says(&list, &MEMORIES);
    for (task, _, _) in TASKS {
        assert_says(&list, &[task, &format!("{task}-small")]);
    }
}
