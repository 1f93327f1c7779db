//! Estimates of the memory that an experiment needs: experiments that need too much are refused, and estimates are
//! close to the memory actually used.

mod common;

use common::{
    TINY, assert_says, mnemora, refuse, succeed, train, train_copy, with_settings, with_tiny,
};
use tempfile::tempdir;

/// `mnemora train PRESET --dry-run --json`, with settings: the bytes of each part.
fn estimated(preset: &str, settings: &[&str]) -> serde_json::Value {
    let command = mnemora(["train", preset, "--dry-run", "--json", "--ram", "none"]);
    succeed(with_tiny(command, preset, settings, &[])).json()["memory"].clone()
}

/// A setting that is too large is refused in one line that names the largest key, before anything is allocated.
#[test]
fn what_takes_too_much_names_the_key() {
    let folder = tempdir().expect("a temporary folder is made");
    let out = folder.path().join("run");
    let cases: [(&str, &[&str], &str); 9] = [
        (
            "perfect-recall-small",
            &["model.memory=dnc", "memory.dnc.slots=65536"],
            "memory.dnc.slots is 65536",
        ),
        (
            "mnist-map-small",
            &["model.visual_hidden=65536", "memory.hybrid.hidden=65536"],
            "memory.hybrid.hidden is 65536",
        ),
        (
            "perfect-recall-small",
            &["training.batch=65536"],
            "training.batch is 65536",
        ),
        (
            "copy",
            &["task.longest=65536", "memory.ntm.slots=65536"],
            "is 65536, which takes most of it",
        ),
        (
            "nth-farthest-small",
            &[
                "memory.rmc.heads=65536",
                "memory.rmc.head_size=65536",
                "memory.rmc.slots=65536",
            ],
            "is 65536, which takes most of it",
        ),
        (
            "learning-to-execute-small",
            &["model.head_hidden=65536", "model.head_layers=1024"],
            "model.head_hidden is 65536",
        ),
        (
            "jsb-chorales",
            &["network.srnn.units=65536", "network.srnn.layers=1000"],
            "network.srnn.units is 65536",
        ),
        ("video-small", &["task.side=65536"], "task.side is 65536"),
        (
            "books-small",
            &["language.embedding=16777216"],
            "language.embedding is 16777216",
        ),
    ];
    for (preset, settings, key) in cases {
        let mut command = mnemora(["train", preset, "--out"]);
        command.arg(&out);
        let message = refuse(with_settings(command, settings));
        assert_says(&message, &["of memory, but", "GB", key, "--ram none"]);
        assert!(!out.exists(), "{preset}");
    }
    // Nor are very many steps, or pictures of them, drawn.
    let picture = folder.path().join("show.png");
    let mut show = mnemora(["show", "perfect-recall-small", "--out"]);
    show.arg(&picture);
    let lengths = [
        "task.length=65536",
        "task.recall=65536",
        "evaluation.pictures=65536",
    ];
    assert_says(
        &refuse(with_settings(show, &lengths)),
        &["of memory, but", "--ram none"],
    );
    assert!(!picture.exists());
}

/// Sizes whose products overflow a machine word are still added up.
#[test]
fn absurd_sizes_do_not_overflow() {
    let settings = [
        "model.memory=rmc",
        "memory.rmc.heads=65536",
        "memory.rmc.head_size=65536",
        "memory.rmc.slots=65536",
        "memory.rmc.blocks=100",
        "memory.rmc.mlp_layers=100",
        "task.length=65536",
        "task.recall=65536",
        "training.batch=65536",
        "evaluation.batch=65536",
        "model.latent=65536",
    ];
    let memory = estimated("perfect-recall", &settings);
    assert_eq!(memory["total"], u64::MAX, "{memory}");
}

#[test]
fn a_limit_can_be_said() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let small = |words: &[&str]| {
        let mut command = train(&run, &[]);
        command.args(words);
        command
    };
    let message = refuse(small(&["--ram", "1MB"]));
    assert_says(&message, &["1.00 MB are allowed by --ram"]);
    let wrong = common::run(small(&["--ram", "much"]));
    assert_eq!(wrong.status, Some(2));
    assert_says(&wrong.stderr, &["--ram", "8GB"]);
    assert!(!run.exists());

    succeed(small(&["--ram", "none"]));
    let on = |words: &[&str]| {
        let mut command = mnemora([words[0]]);
        command.arg(&run).args(&words[1..]);
        command
    };
    succeed(on(&["eval", "--ram", "2GB"]));
    let large = ["eval", "--ram", "100MB", "--set", "evaluation.batch=65536"];
    assert_says(
        &refuse(on(&large)),
        &["evaluation.batch is 65536", "100 MB"],
    );
    let mut resume = on(&["resume", "--ram", "1MB"]);
    resume.args(["--set", "training.steps=13"]);
    assert_says(&refuse(resume), &["1.00 MB are allowed by --ram"]);

    let copy = folder.path().join("copy");
    succeed(train_copy(&copy, &["model.memory=lstm"]));
    let mut long = mnemora(["generate", "--ram", "100MB", "--steps", "10000"]);
    long.args(["--sequences", "64"]).arg(&copy);
    let message = refuse(long);
    assert_says(
        &message,
        &["64 sequences of 20002 steps", "100 MB", "--ram none"],
    );
}

#[test]
fn a_dry_run_says_what_would_be_taken() {
    let words = ["train", "perfect-recall-small", "--dry-run", "--ram", "3GB"];
    let said = succeed(with_tiny(
        mnemora(words),
        "perfect-recall-small",
        &TINY,
        &[],
    ))
    .stdout;
    for part in [
        "parameters",
        "moments",
        "gradients",
        "activations",
        "batches",
        "data",
    ] {
        let line = said
            .lines()
            .find(|line| line.starts_with(&format!("  {part} ")));
        let line = line.unwrap_or_else(|| panic!("{part}: {said}"));
        assert!(line.ends_with('B'), "{line}");
    }
    assert_says(
        &said,
        &["evaluation", "checkpoint", "; 3.00 GB are allowed by --ram"],
    );
    let memory = estimated("perfect-recall-small", &TINY);
    let bytes = |part: &str| memory[part].as_u64().expect("bytes");
    assert_eq!(bytes("moments"), 2 * bytes("parameters"));
    let always = bytes("parameters") + bytes("moments") + bytes("batches") + bytes("data");
    let update = bytes("gradients") + bytes("activations");
    let phases = [update, bytes("evaluation"), bytes("checkpoint")];
    let largest = phases.into_iter().max().expect("three");
    let others = phases.iter().sum::<u64>() - largest;
    assert_eq!(bytes("total"), always + largest + others / 2);
}

/// A training that is as short as possible.
#[cfg(target_os = "linux")]
const SHORT: [&str; 5] = [
    "training.log_every=1",
    "training.threads=1",
    "evaluation.batches=1",
    "evaluation.checkpoint_batches=1",
    "evaluation.pictures=1",
];

/// Peak resident memory of a complete training.
#[cfg(target_os = "linux")]
fn measured(preset: &str, settings: &[&str]) -> u64 {
    use std::{
        fs,
        process::{Command, Stdio},
        thread,
        time::Duration,
    };
    let folder = tempdir().expect("a temporary folder is made");
    let mut command = mnemora(["train", preset, "--ram", "none", "--out"]);
    command.arg(folder.path().join("run"));
    let mut command: Command = with_settings(with_settings(command, &SHORT), settings);
    let mut process = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let status = format!("/proc/{}/status", process.id());
    let mut largest = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        largest = largest.max(kib.unwrap_or(0) * 1024);
        if let Some(ended) = process.try_wait().expect("it can be waited for") {
            assert!(ended.success(), "{preset} {settings:?}");
            return largest;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// For a preset of each family, the estimate is within a factor of two of the memory used beyond what the program
/// needs for a tiny model.
#[cfg(target_os = "linux")]
#[test]
fn estimates_are_near_what_is_taken() {
    const TINY_FRAMES: &[&str] = &[
        "training.steps=2",
        "model.memory=introspection",
        "model.latent=2",
        "model.visual_hidden=2",
        "model.visual_features=2",
        "model.prior_hidden=2",
        "model.posterior_hidden=2",
        "memory.introspection.hidden=2",
        "memory.introspection.attention=2",
        "training.batch=1",
        "evaluation.batch=1",
        "task.length=2",
        "task.recall=1",
    ];
    const TINY_COPY: &[&str] = &[
        "training.steps=2",
        "model.memory=lstm",
        "memory.lstm.hidden=2",
        "task.longest=2",
        "training.batch=1",
        "evaluation.batch=1",
    ];
    const TINY_ANSWERS: &[&str] = &[
        "training.steps=2",
        "model.memory=lstm",
        "memory.lstm.hidden=2",
        "model.head_hidden=2",
        "training.batch=1",
        "evaluation.batch=1",
    ];
    const TINY_SRNN: &[&str] = &[
        "training.steps=2",
        "network.srnn.hidden=2",
        "network.srnn.units=2",
        "model.latent=2",
        "task.window=2",
        "training.batch=1",
        "evaluation.batch=1",
    ];
    const TINY_SVG: &[&str] = &[
        "training.steps=2",
        "network.svg.width=1",
        "network.svg.hidden=2",
        "network.svg.features=2",
        "model.latent=2",
        "task.window=2",
        "training.batch=1",
        "evaluation.batch=1",
    ];
    const TINY_WORDS: &[&str] = &[
        "training.steps=2",
        "memory.rmc.heads=1",
        "memory.rmc.head_size=2",
        "language.embedding=2",
        "language.samples=2",
        "training.batch=1",
        "evaluation.batch=1",
        "evaluation.unroll_words=0",
    ];
    let two = "training.steps=2";
    let cases: [(&str, &[&str], &[&str]); 11] = [
        ("perfect-recall-small", &[two], TINY_FRAMES),
        (
            "perfect-recall-small",
            &[two, "model.memory=dnc"],
            TINY_FRAMES,
        ),
        ("mnist-map-small", &[two], TINY_FRAMES),
        ("jsb-chorales", &[two], TINY_SRNN),
        ("speech-small", &[two], TINY_SRNN),
        ("video-small", &[two], TINY_SVG),
        // Strings have all lengths; among this many, some are about the longest.
        ("copy", &["training.steps=12"], TINY_COPY),
        ("nth-farthest-small", &[two], TINY_ANSWERS),
        (
            "nth-farthest-small",
            &[two, "model.memory=lstm"],
            TINY_ANSWERS,
        ),
        ("learning-to-execute-small", &[two], TINY_ANSWERS),
        (
            "books-small",
            &[two, "evaluation.unroll_words=0"],
            TINY_WORDS,
        ),
    ];
    let mut wrong = Vec::new();
    for (preset, settings, tiny) in cases {
        let settings = [&SHORT[..], settings].concat();
        let said = estimated(preset, &settings);
        let base = measured(preset, tiny);
        let peak = measured(preset, &settings);
        // The memory of the tiny model's data is part of both.
        let data = said["data"].as_u64().expect("bytes");
        let said = said["total"].as_u64().expect("bytes") - data;
        let taken = peak.saturating_sub(base);
        let ratio = said as f64 / taken.max(1) as f64;
        println!("{preset} {settings:?}: said {said}, taken {taken} over {base}: {ratio:.2}");
        if !(0.5..2.0).contains(&ratio) {
            wrong.push(format!(
                "{preset} {settings:?}: {said} of {taken} bytes, {ratio:.2}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
