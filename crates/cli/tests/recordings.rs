//! Recorded sequences from training to online filtering: music that comes with the program, a user's
//! own numbers, and errors in them.

mod common;

use common::{
    Ended, assert_png, assert_same_training, assert_says, edit_unseen, mnemora, read_json, refuse,
    resume, run, succeed, train, with_tiny,
};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};
use tempfile::tempdir;

/// Settings with which a training on music takes a second.
const TINY: [&str; 16] = [
    "training.steps=6",
    "training.log_every=1",
    "training.checkpoint_every=3",
    "training.batch=3",
    "training.keep=2",
    "task.window=6",
    "model.latent=4",
    "network.srnn.hidden=8",
    "network.srnn.units=8",
    "network.vrnn.hidden=8",
    "network.vrnn.observation_units=8",
    "network.vrnn.latent_units=8",
    "filtering.hidden=8",
    "evaluation.batches=1",
    "evaluation.batch=4",
    "evaluation.pictures=1",
];

fn train_music(out: &Path, settings: &[&str]) -> Command {
    let mut command = mnemora(["train", "jsb-chorales", "--out"]);
    command.arg(out);
    with_tiny(command, "jsb-chorales", &TINY, settings)
}

/// `mnemora filter RUN` with these lines of input.
fn filter(run: &Path, more: &[&str], input: &[u8]) -> Ended {
    let mut command = mnemora(["filter"]);
    command.arg(run).args(more);
    common::run_with_input(command, input)
}

fn lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// A chord of two notes as a line.
fn chord(step: usize) -> String {
    let x: Vec<u8> = (0..88)
        .map(|note| u8::from(note == 30 + step % 5 || note == 50))
        .collect();
    format!("{}\n", json!({ "x": x }))
}

#[test]
fn every_strategy_trains_and_is_scored_on_whole_songs() {
    let folder = tempdir().unwrap();
    for (settings, rounds) in [
        (&["filtering.strategy=direct"][..], 0),
        (
            &["filtering.strategy=iterative", "filtering.iterations=2"],
            3,
        ),
        (&["filtering.strategy=gradient", "model.name=vrnn"], 2),
        (
            &[
                "filtering.strategy=iterative",
                "filtering.observe=true",
                "model.name=gtmm",
                "model.memory=introspection",
                "model.visual_hidden=8",
                "model.visual_features=8",
            ],
            2,
        ),
    ] {
        let out = folder.path().join(settings.join("+"));
        let mut command = train_music(&out, settings);
        command.arg("--json");
        let found = succeed(command).json();
        let score = &found["recordings"];
        assert_eq!(score["part"], "test", "{settings:?}");
        let per_step = score["free_energy"].as_f64().unwrap();
        // At most the cost of 88 fair coins, and that only before learning.
        assert!((1.0..75.0).contains(&per_step), "{settings:?} {per_step}");
        let total = -found["bound"].as_f64().unwrap() * found["sequences"].as_f64().unwrap();
        let steps = score["steps"].as_f64().unwrap();
        assert!((total / steps - per_step).abs() < 1e-6, "{settings:?}");
        let listed = found["energy_by_round"].as_array();
        assert_eq!(listed.map_or(0, Vec::len), rounds, "{settings:?}");
        for picture in ["expected.png", "generated.png"] {
            assert_png(&out.join("samples").join(picture));
        }
        let song = fs::read(out.join("samples/generated-1-generated.mid")).unwrap();
        assert!(song.starts_with(b"MThd"), "{settings:?}");
    }
}

/// The network that learns to infer is part of a checkpoint, with its optimiser.
#[test]
fn a_run_with_an_inference_network_resumes_bit_for_bit() {
    let folder = tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let iterative = "filtering.strategy=iterative";
    let constant = "training.schedule=constant";
    succeed(train_music(&whole, &[iterative, constant]));
    succeed(train_music(
        &parts,
        &[iterative, constant, "training.steps=3"],
    ));
    succeed(resume(&parts, &["training.steps=6"]));
    assert_same_training(&whole, &parts);
    // A model with another strategy is another model.
    edit_unseen(&parts, "strategy = \"iterative\"", "strategy = \"direct\"");
    let message = refuse(resume(&parts, &[]));
    assert_says(&message, &["srnn-avf1", "srnn"]);
}

#[test]
fn a_model_without_a_memory_has_no_choice_of_one() {
    let message = refuse(mnemora(["train", "jsb-chorales", "--memory", "dnc"]));
    assert_says(
        &message,
        &["--memory dnc", "srnn", "model.name=gtmm", "model.latent"],
    );
}

#[test]
fn frames_of_a_recall_task_are_filtered_by_inference_too() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("run");
    let mut command = train(
        &out,
        &["filtering.strategy=iterative", "filtering.hidden=8"],
    );
    command.arg("--json");
    let found = succeed(command).json();
    assert_eq!(found["energy_by_round"].as_array().map(Vec::len), Some(2));
    assert!(found["kl_ratio"].as_f64().is_some());
}

#[test]
fn particles_give_bounds_in_order() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("run");
    succeed(train_music(&out, &[]));
    let mut command = mnemora(["eval", "--json", "--set", "evaluation.particles=30"]);
    command.arg(&out);
    let score = succeed(command).json()["recordings"].clone();
    let of = |name: &str| {
        score[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {score}"))
    };
    assert_eq!(of("particles"), 30.0);
    assert!(of("importance_weighted") < of("free_energy"), "{score}");
    assert!((1.0..=30.0).contains(&of("effective_particles")), "{score}");
}

/// Temporal VAEs on tasks of frames have the same bounds, with the same names.
#[test]
fn particles_give_bounds_of_frames() {
    let folder = tempdir().unwrap();
    for settings in [
        &["task.name=mnist-map", "task.grid=2"][..],
        &["filtering.strategy=iterative", "filtering.hidden=8"],
    ] {
        let out = folder.path().join(settings[0]);
        succeed(train(&out, settings));
        let eval = |more: &[&str]| {
            let mut command = mnemora(["eval"]);
            command.arg(&out).args(more);
            succeed(command)
        };
        let particles = ["--set", "evaluation.particles=30"];
        let score = eval(&[&particles[..], &["--json"]].concat()).json();
        let of = |name: &str| {
            score[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name}: {score}"))
        };
        let steps = score["kl_per_step"].as_array().unwrap().len() as f64;
        assert_eq!(of("particles"), 30.0);
        assert!(of("importance_weighted") < -of("bound") / steps, "{score}");
        assert!(of("particle_filter") < -of("bound") / steps, "{score}");
        assert!((1.0..=30.0).contains(&of("effective_particles")), "{score}");
        assert!((0.0..1.0).contains(&of("resampled")), "{score}");
        let table = eval(&particles).stdout;
        assert_says(
            &table,
            &["importance-weighted", "particle filter", "free energy"],
        );
        // Nothing else changes, and bounds that were not requested are not reported.
        let plain = eval(&["--json"]).json();
        assert_eq!(plain["bound"], score["bound"]);
        assert!(plain.get("particles").is_none(), "{plain}");
    }
}

#[test]
fn the_online_filter_answers_bad_lines_and_goes_on() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("run");
    succeed(train_music(&out, &[]));
    let good: String = (0..6).map(chord).collect();
    let whole = lines(&filter(&out, &[], good.as_bytes()));
    assert_eq!(whole.len(), 6);
    for (step, line) in whole.iter().enumerate() {
        assert_eq!(line["t"], step + 1);
        assert_eq!(line["mean"].as_array().unwrap().len(), 4);
        assert!(
            line["std"]
                .as_array()
                .unwrap()
                .iter()
                .all(|s| s.as_f64() > Some(0.0))
        );
        assert_eq!(line["prediction"].as_array().unwrap().len(), 88);
        assert!(line["surprise"].as_f64().is_some());
    }
    // Lines that are not observations have no effect on later ones.
    let bad = [
        "garbage",
        "{\"x\": [1, 2], \"y\": 3}",
        "[]",
        "{}",
        "{\"x\": 3}",
        "\u{0}\u{1}",
    ];
    let mut input = String::new();
    for (step, bad) in (0..6).zip(bad) {
        input += &format!("{bad}\n{}", chord(step));
    }
    let ended = filter(&out, &[], input.as_bytes());
    assert_eq!(ended.status, Some(0));
    let (errors, beliefs) = parted(&ended);
    assert_eq!(beliefs, whole);
    assert_eq!(errors.len(), 6);
    for error in errors {
        assert_eq!(error["advanced"], false, "{error}");
    }
    assert!(ended.stderr.contains("6 refused"), "{}", ended.stderr);
}

/// Records with an error, and records without.
fn parted(ended: &Ended) -> (Vec<Value>, Vec<Value>) {
    let answers = lines(ended).into_iter();
    answers.partition(|line| line["error"].is_string())
}

#[test]
fn a_saved_state_goes_on_where_it_was() {
    let folder = tempdir().unwrap();
    for (name, settings) in [
        ("srnn", &["filtering.strategy=iterative"][..]),
        (
            "gtmm",
            &[
                "model.name=gtmm",
                "model.memory=dnc",
                "model.visual_hidden=8",
                "model.visual_features=8",
                "memory.dnc.hidden=8",
            ],
        ),
        (
            "lru",
            &[
                "model.name=gtmm",
                "model.memory=lru",
                "memory.lru.nearest=3",
                "model.visual_hidden=8",
                "model.visual_features=8",
                "memory.lru.hidden=8",
            ],
        ),
        (
            "introspection",
            &[
                "model.name=gtmm",
                "model.memory=introspection",
                "model.visual_hidden=8",
                "model.visual_features=8",
            ],
        ),
    ] {
        let out = folder.path().join(name);
        succeed(train_music(&out, settings));
        let input: Vec<String> = (0..8).map(chord).collect();
        let whole = lines(&filter(&out, &[], input.concat().as_bytes()));
        for cut in [1, 4] {
            let state = folder.path().join(format!("{name}-{cut}.state"));
            let state = state.to_str().unwrap();
            let mut parts = lines(&filter(
                &out,
                &["--state", state],
                input[..cut].concat().as_bytes(),
            ));
            let second = filter(&out, &["--state", state], input[cut..].concat().as_bytes());
            assert!(
                second.stderr.contains(&format!("after step {cut}")),
                "{second:?}"
            );
            parts.extend(lines(&second));
            assert_eq!(parts, whole, "{name} cut at {cut}");
        }
        let state_name = format!("{name}-4.state");
        let state = folder.path().join(&state_name);
        // A state with any damaged byte is refused.
        let whole = fs::read(&state).unwrap();
        let damaged = folder.path().join("damaged.state");
        for place in (0..whole.len()).step_by(whole.len() / 20) {
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << (place % 8);
            fs::write(&damaged, bytes).unwrap();
            let refused = filter(&out, &["--state", damaged.to_str().unwrap()], b"");
            assert_eq!(refused.status, Some(2), "{name} {place} {refused:?}");
            assert!(refused.stdout.is_empty(), "{name} {place} {refused:?}");
        }
        let other = folder.path().join("srnn");
        if name != "srnn" {
            let refused = filter(&other, &["--state", state.to_str().unwrap()], b"");
            assert_eq!(refused.status, Some(2), "{refused:?}");
            assert_says(&refused.stderr, &[&state_name, "other parameters"]);
        }
    }
}

/// An array `[steps, width]` of numbers, as written by NumPy.
fn npy(values: &[f32], width: usize) -> Vec<u8> {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    npy_of(&bytes, "<f4", width)
}

/// The same for numbers of another type.
fn npy_of(values: &[u8], descr: &str, width: usize) -> Vec<u8> {
    let size: usize = descr[2..].parse().unwrap();
    let steps = values.len() / size / width;
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({steps}, {width}), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

#[test]
fn arrays_are_filtered_as_lines_are() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("run");
    succeed(train_music(&out, &[]));
    let text: String = (0..5).map(chord).collect();
    let values: Vec<f32> = text
        .lines()
        .flat_map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let x = line["x"].as_array().unwrap().clone();
            x.into_iter().map(|x| x.as_f64().unwrap() as f32)
        })
        .collect();
    let of_lines = filter(&out, &[], text.as_bytes());
    let of_array = filter(&out, &[], &npy(&values, 88));
    assert_eq!(of_lines.stdout, of_array.stdout);
    let refused = filter(&out, &[], &npy(&values, 44));
    assert_eq!(refused.status, Some(2));
    assert_says(&refused.stderr, &["[10, 44]", "[steps, 88]"]);
    // Bytes of notes are not intensities.
    let as_bytes: Vec<u8> = values.iter().map(|value| *value as u8).collect();
    let of_bytes = filter(&out, &[], &npy_of(&as_bytes, "|u1", 88));
    assert_eq!(of_lines.stdout, of_bytes.stdout);
    // Data after the end of an array are not silently dropped.
    let two = [npy(&values, 88), npy(&values, 88)].concat();
    let refused = filter(&out, &[], &two);
    assert_eq!(refused.status, Some(2));
    assert_says(&refused.stderr, &["after the end"]);
}

/// An invalid observation is still a step: the filter advances with the model's own prediction.
#[test]
fn a_refused_observation_advances_time() {
    let folder = tempdir().unwrap();
    for (name, settings) in [
        ("srnn", &["filtering.strategy=iterative"][..]),
        (
            "introspection",
            &[
                "model.name=gtmm",
                "model.memory=introspection",
                "model.visual_hidden=8",
                "model.visual_features=8",
            ],
        ),
    ] {
        let out = folder.path().join(name);
        succeed(train_music(&out, settings));
        let first = lines(&filter(&out, &[], chord(0).as_bytes()));
        let mut after = None;
        for (bad, says) in [
            (chord(7).replacen('0', "0.5", 1), "number 1"),
            (chord(7).replacen('0', "-1", 1), "0 or 1"),
            (chord(7).replacen('0', "1e39", 1), "out of range"),
            (chord(7).replacen('0', "1e400", 1), "out of range"),
            (chord(7).replacen('0', "null", 1), "null"),
            (chord(7).replacen('0', "\"C\"", 1), "string"),
            ("{\"x\": [1, 2]}\n".into(), "takes 88"),
            (chord(7).replace('}', ",\"c\":[1]}"), "no condition"),
        ] {
            let input = [chord(0), bad.clone(), chord(2)].concat();
            let answers = lines(&filter(&out, &[], input.as_bytes()));
            assert_eq!(answers[0], first[0], "{bad}");
            let refused = &answers[1];
            assert_says(refused["error"].as_str().unwrap(), &[says]);
            assert_eq!(refused["advanced"], true, "{bad}");
            assert_eq!(refused["t"], 2, "{bad}");
            assert_eq!(answers[2]["t"], 3, "{bad}");
            assert_eq!(refused["prediction"].as_array().unwrap().len(), 88);
            assert!(refused["surprise"].is_null(), "{bad}");
            // Whatever was wrong, the step is the same.
            let made = (refused["mean"].clone(), answers[2].clone());
            assert_eq!(after.get_or_insert_with(|| made.clone()), &made, "{bad}");
        }
        // It differs from taking no step.
        let two = [chord(0), chord(2)].concat();
        let two = lines(&filter(&out, &[], two.as_bytes()));
        assert_ne!(two[1]["mean"], after.unwrap().1["mean"], "{name}");
        // Pictures show a gap, and a saved state includes the step.
        let png = folder.path().join("gap.png");
        let state = folder.path().join(format!("{name}.state"));
        let more = [
            "--draw",
            png.to_str().unwrap(),
            "--state",
            state.to_str().unwrap(),
        ];
        let input = [chord(0), chord(7).replacen('0', "9", 1), chord(2)].concat();
        let begun = filter(&out, &more, input.as_bytes());
        assert_eq!(begun.status, Some(0), "{begun:?}");
        assert_png(&png);
        let on = filter(&out, &more[2..], chord(3).as_bytes());
        assert_eq!(lines(&on)[0]["t"], 4, "{on:?}");
    }
    // The next step depends on its condition: without one there is no step.
    let out = folder.path().join("map");
    let map = ["task.name=mnist-map", "task.grid=2"];
    succeed(train(&out, &map));
    let pixels = vec![0.0; 784];
    let condition = [1, 0, 0, 0];
    let record = |x: Value| format!("{}\n", json!({ "x": x, "c": condition }));
    let input = [
        record(json!(pixels)),
        format!("{}\n", json!({ "x": pixels })),
        record(json!([3])),
        record(json!([null])),
    ];
    let answers = lines(&filter(&out, &[], input.concat().as_bytes()));
    let told = |name: &str| answers.iter().map(|a| a[name].clone()).collect::<Vec<_>>();
    assert_eq!(told("t"), [json!(1), json!(2), json!(2), json!(3)]);
    assert_eq!(
        told("advanced"),
        [Value::Null, json!(false), json!(true), json!(true)]
    );
}

/// A single sequence cannot be divided into parts; this is reported before any training.
#[test]
fn one_sequence_is_refused_before_training() {
    let folder = tempdir().unwrap();
    let rows: String = (0..40).map(|t| format!("one,{}\n", t % 3)).collect();
    let data = folder.path().join("one.csv");
    fs::write(&data, format!("sequence,a\n{rows}")).unwrap();
    let out = folder.path().join("run");
    let mut command = mnemora(["train", "jsb-chorales", "--data"]);
    command.arg(&data).arg("--out").arg(&out);
    let own = ["task.name=own", "model.likelihood=normal"];
    let message = refuse(with_tiny(command, "jsb-chorales", &TINY, &own));
    assert_says(
        &message,
        &["one.csv", "1 to train on", "at least 2 sequences"],
    );
    assert!(!out.exists());
}

#[test]
fn a_stop_in_the_last_evaluation_loses_nothing() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("run");
    let particles = "evaluation.particles=20000";
    let mut child = train_music(&out, &[particles]).spawn().unwrap();
    let last = out.join("checkpoints/step-6");
    let begun = std::time::Instant::now();
    while !last.exists() {
        assert!(begun.elapsed().as_secs() < 120, "no checkpoint");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    // Every shell has `kill`, but not every machine has it as a program.
    let kill = format!("kill -s INT {}", child.id());
    let sent = std::process::Command::new("sh")
        .args(["-c", &kill])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!out.join("evaluation.json").exists());
    succeed(resume(&out, &["evaluation.particles=0"]));
    assert_eq!(read_json(&out.join("evaluation.json"))["step"], 6);
}

fn table(folder: &Path, name: &str, value: impl Fn(usize, usize) -> String) -> String {
    let mut text = String::from("sequence,a,b\n");
    for sequence in 0..20 {
        for step in 0..12 {
            text += &format!("{sequence},{},{}\n", value(sequence, step), step % 3);
        }
    }
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_users_own_table_is_shown_trained_on_and_filtered() {
    let folder = tempdir().unwrap();
    let data = table(folder.path(), "waves.csv", |s, t| {
        format!("{}", ((s + t) as f64 * 0.7).sin() * 3.0)
    });
    let experiment = folder.path().join("mine.toml");
    fs::write(
        &experiment,
        "[task]\nname = \"own\"\n[model]\nname = \"srnn\"\nlikelihood = \"normal\"\n",
    )
    .unwrap();
    let experiment = experiment.to_str().unwrap();
    let out = folder.path().join("run");
    let command = mnemora([
        "train",
        experiment,
        "--data",
        &data,
        "--out",
        out.to_str().unwrap(),
    ]);
    succeed(with_tiny(command, experiment, &TINY, &[]));
    let png = folder.path().join("show.png");
    let command = mnemora([
        "show",
        experiment,
        "--data",
        &data,
        "--out",
        png.to_str().unwrap(),
    ]);
    succeed(with_tiny(command, experiment, &TINY, &[]));
    assert_png(&png);
    // The run remembers the location of its data.
    let mut command = mnemora(["eval", "--json"]);
    command.arg(&out);
    assert_eq!(
        succeed(command).json(),
        read_json(&out.join("evaluation.json"))
    );
    let beliefs = lines(&filter(&out, &[], b"{\"x\":[0.1,2]}\n"));
    assert_eq!(beliefs[0]["prediction"].as_array().unwrap().len(), 2);
    // Filtering does not need the data.
    let hidden = folder.path().join("hidden.csv");
    fs::rename(&data, &hidden).unwrap();
    assert_eq!(lines(&filter(&out, &[], b"{\"x\":[0.1,2]}\n")), beliefs);
    fs::rename(&hidden, &data).unwrap();
    // The variable can also name the data.
    let mut command = mnemora(["train", experiment, "--dry-run"]);
    command.env("MNEMORA_DATA", &data);
    succeed(with_tiny(command, experiment, &TINY, &[]));
    // Another table is another run.
    let other = table(folder.path(), "other.csv", |s, t| format!("{}", s * t));
    let mut command = mnemora(["eval", "--data", &other]);
    command.arg(&out);
    assert_says(&refuse(command), &["not the ones the run was made with"]);
    // Nor can they be compared.
    let second = folder.path().join("second");
    let mut command = mnemora(["train", experiment, "--data", &other, "--out"]);
    command.arg(&second);
    succeed(with_tiny(command, experiment, &TINY, &[]));
    let mut command = mnemora(["compare"]);
    command.args([&out, &second]);
    assert_says(&refuse(command), &["different data"]);

    for (name, value, says) in [("nan.csv", "nan", "finite"), ("text.csv", "high", "high")] {
        let bad = table(folder.path(), name, |_, _| value.into());
        let message = refuse(mnemora(["train", experiment, "--data", &bad]));
        assert_says(&message, &[name, says]);
    }
    let message = refuse(mnemora(["train", experiment]));
    assert_says(&message, &["task own", "--data"]);
    let message = refuse(mnemora([
        "train",
        experiment,
        "--data",
        &data,
        "--set",
        "model.likelihood=bernoulli",
    ]));
    assert_says(&message, &["model.likelihood", "normal"]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (setting, says) in [
        ("model.name=svn", &["model.name", "srnn"][..]),
        ("model.likelihood=gaussian", &["bernoulli", "notes"]),
        ("filtering.strategy=magic", &["direct, iterative, gradient"]),
        (
            "filtering.iterations=0",
            &["filtering.iterations", "at least 1"],
        ),
        (
            "network.srnn.hidden=0",
            &["network.srnn.hidden", "at least 1"],
        ),
        ("task.window=5000", &["windows of 5000", "longest"]),
        ("training.segment=5", &["training.segment", "task.window"]),
    ] {
        let folder = tempdir().unwrap();
        let command = train_music(&folder.path().join("run"), &[setting]);
        assert_says(&refuse(command), says);
    }
    let message = refuse(mnemora([
        "train",
        "perfect-recall-small",
        "--set",
        "model.name=srnn",
    ]));
    assert_says(&message, &["model.name", "srnn is for recordings"]);
    for (setting, key) in [
        ("task.side=32", "task.side"),
        ("task.colour=true", "task.colour"),
    ] {
        let message = refuse(mnemora(["train", "video-small", "--set", setting]));
        assert_says(&message, &[key, "64x64 grey", "--data"]);
    }
    for (setting, key) in [
        ("task.side=32", "task.side"),
        ("task.colour=true", "task.colour"),
    ] {
        let digits = ["--set", "task.name=moving-digits", "--set", setting];
        let message = refuse(mnemora([&["train", "video-small"][..], &digits].concat()));
        assert_says(&message, &[key, "moving-digits"]);
    }
    let message = refuse(mnemora(["train", "nottingham"]));
    assert_says(&message, &["nottingham", "--data"]);
    let folder = tempdir().unwrap();
    let out = folder.path().join("copy");
    succeed(common::train_copy(&out, &["model.memory=lstm"]));
    let ended = filter(&out, &[], b"");
    assert_eq!(ended.status, Some(2));
    assert_says(&ended.stderr, &["copy", "do not filter"]);
    let missing = run(mnemora(["filter", "no-such-run"]));
    assert_eq!(missing.status, Some(2), "{missing:?}");
}
