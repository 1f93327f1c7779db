//! Every family meets the contract of [`check_family`].

use mnemora_lab::{Family, check_family, families, load_experiment, set_range_checks};

/// For each family by name: an experiment, and settings that make it small.
const SMALL: &[(&str, &str, &[&str])] = &[
    (
        "frames",
        "perfect-recall-small",
        &[
            "task.length=3",
            "task.recall=2",
            "training.batch=2",
            "model.latent=2",
            "model.visual_hidden=3",
            "model.visual_features=3",
            "model.prior_hidden=3",
            "model.posterior_hidden=3",
            "memory.introspection.hidden=4",
            "memory.introspection.attention=3",
            "memory.introspection.reads=2",
            "filtering.strategy=iterative",
            "filtering.hidden=3",
        ],
    ),
    (
        "recordings",
        "jsb-chorales-small",
        &[
            "training.batch=3",
            "task.window=6",
            "model.latent=3",
            "network.srnn.hidden=4",
            "network.srnn.units=4",
            "filtering.hidden=4",
        ],
    ),
    (
        "copying",
        "copy",
        &[
            "training.batch=4",
            "task.bits=3",
            "task.longest=4",
            "model.memory=dnc",
            "memory.dnc.hidden=4",
            "memory.dnc.reads=2",
            "memory.dnc.width=3",
        ],
    ),
    (
        "classes",
        "nth-farthest-small",
        &[
            "training.batch=8",
            "model.head_layers=1",
            "model.head_hidden=4",
            "task.vectors=3",
            "task.admit_at=0.02",
            "model.memory=rmc",
            "memory.rmc.slots=2",
            "memory.rmc.heads=2",
            "memory.rmc.head_size=3",
        ],
    ),
    (
        "programs",
        "learning-to-execute-small",
        &[
            "training.batch=8",
            "model.head_layers=1",
            "model.head_hidden=4",
            "task.programs.nesting=1",
            "task.programs.curriculum=naive",
            "model.memory=lstm",
            "memory.lstm.hidden=4",
        ],
    ),
    (
        "texts",
        "books-small",
        &[
            "training.batch=3",
            "task.window=6",
            "language.least_count=2000",
            "language.embedding=4",
            "language.samples=8",
            "model.memory=lstm",
            "memory.lstm.hidden=4",
        ],
    ),
];

/// Settings for every experiment.
const SHORT: [&str; 6] = [
    "training.threads=1",
    "evaluation.batches=2",
    "evaluation.batch=2",
    "evaluation.checkpoint_batches=1",
    "evaluation.pictures=1",
    "training.schedule=constant",
];

fn holds(family: &str) {
    // A NaN must be noticed by the update, as in the program, and not by a check that only tests have.
    set_range_checks(false);
    let (_, experiment, settings) = SMALL
        .iter()
        .find(|(name, ..)| *name == family)
        .expect("a small experiment");
    let settings = SHORT.iter().chain(*settings);
    let settings: Vec<String> = settings.map(|setting| setting.to_string()).collect();
    let experiment = load_experiment(experiment, &settings).expect("the settings are right");
    assert_eq!(experiment.family().name(), family);
    let folder = tempfile::tempdir().expect("a temporary folder is made");
    check_family(&experiment, folder.path()).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn every_family_is_checked() {
    let names: Vec<&str> = families().into_iter().map(Family::name).collect();
    let checked: Vec<&str> = SMALL.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, checked);
}

#[test]
fn frames_hold_to_the_contract() {
    holds("frames");
}

#[test]
fn recordings_hold_to_the_contract() {
    holds("recordings");
}

#[test]
fn copying_holds_to_the_contract() {
    holds("copying");
}

#[test]
fn classes_hold_to_the_contract() {
    holds("classes");
}

#[test]
fn programs_hold_to_the_contract() {
    holds("programs");
}

#[test]
fn texts_hold_to_the_contract() {
    holds("texts");
}
