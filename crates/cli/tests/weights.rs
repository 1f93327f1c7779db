//! Training from the weights of another run: `train --weights`.

mod common;

use common::{
    assert_same_training, assert_says, checkpoint_file, checkpoint_steps, read_json, refuse,
    resume, succeed, train,
};
use std::{fs, path::Path, process::Command};
use tempfile::tempdir;

fn from(weights: &Path, out: &Path, settings: &[&str]) -> Command {
    let mut command = train(out, settings);
    command.arg("--weights").arg(weights);
    command
}

fn evaluation(run: &Path) -> serde_json::Value {
    let all = read_json(&run.join("evaluation.json"));
    all["bound"].clone()
}

/// Weights that are not trained on are those of the other run: they make the same evaluation, on its task and on another.
#[test]
fn weights_of_another_run_are_evaluated_as_they_are() {
    let folder = tempdir().unwrap();
    let [first, same, longer] = ["first", "same", "longer"].map(|name| folder.path().join(name));
    succeed(train(&first, &[]));
    succeed(from(&first, &same, &["training.steps=0"]));
    assert_eq!(evaluation(&same), evaluation(&first));
    assert_eq!(checkpoint_steps(&same), [0]);
    let weights = |run: &Path, step| fs::read(checkpoint_file(run, step, "weights.safetensors"));
    assert_eq!(weights(&same, 0).unwrap(), weights(&first, 12).unwrap());
    let origin = read_json(&same.join("origin.json"));
    let words = origin["weights"].as_str().unwrap();
    assert_says(words, &["step-12", "SHA-256"]);

    // A memory whose size does not depend on the task.
    let other = folder.path().join("other");
    succeed(train(&other, &["model.memory=vrnn"]));
    let settings = ["model.memory=vrnn", "training.steps=0", "task.recall=3"];
    succeed(from(&other, &longer, &settings));
    assert_ne!(evaluation(&longer), evaluation(&other));
}

/// A stopped training from weights goes on as if it had never stopped, without the other run.
#[test]
fn training_goes_on_from_weights_of_another_run() {
    let folder = tempdir().unwrap();
    let [first, whole, parted, fresh] =
        ["first", "whole", "parted", "fresh"].map(|name| folder.path().join(name));
    succeed(train(&first, &["seed=5"]));
    succeed(from(&first, &whole, &["training.schedule=constant"]));
    succeed(from(
        &first,
        &parted,
        &["training.schedule=constant", "training.steps=0"],
    ));
    fs::remove_dir_all(&first).unwrap();
    succeed(resume(&parted, &["training.steps=12"]));
    assert_same_training(&whole, &parted);
    succeed(train(&fresh, &["training.schedule=constant"]));
    assert_ne!(evaluation(&fresh), evaluation(&whole));

    // Without them it does not start from others.
    fs::remove_dir_all(parted.join("checkpoints")).unwrap();
    let message = refuse(resume(&parted, &["training.steps=13"]));
    assert_says(&message, &["lost its checkpoints"]);
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let folder = tempdir().unwrap();
    let [first, out] = ["first", "out"].map(|name| folder.path().join(name));
    succeed(train(&first, &[]));
    let message = refuse(from(&first, &out, &["model.memory=vrnn"]));
    assert_says(&message, &["introspection", "vrnn"]);
    let message = refuse(from(&first, &out, &["model.latent=5"]));
    assert_says(&message, &["weights.safetensors"]);
    refuse(from(&folder.path().join("none"), &out, &[]));
    assert!(!out.exists(), "a refused training leaves no run");
}
