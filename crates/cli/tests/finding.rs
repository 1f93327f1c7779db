//! Finding one's way: what keys mean, completions, manual pages.

mod common;

use common::{assert_says, mnemora, refuse, succeed};
use std::fs;
use tempfile::tempdir;

#[test]
fn keys_are_explained() {
    let text = succeed(mnemora(["keys", "training.schedule"])).stdout;
    assert_says(
        &text,
        &[
            "training.schedule = \"constant\"",
            "How the learning rate changes.",
            "- cosine: Half a cosine",
        ],
    );
    // Those of an experiment, with its values.
    let own = succeed(mnemora(["keys", "--of", "own-small", "training"])).stdout;
    assert_says(&own, &["training.patience = 20"]);
    assert!(!own.contains("training.segment"), "{own}");
    let box_world = succeed(mnemora([
        "keys",
        "--of",
        "boxworld-small",
        "agents",
        "--json",
    ]));
    let keys: Vec<serde_json::Value> = box_world
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let named = |name: &str| keys.iter().find(|key| key["key"] == name);
    let viewport = named("agents.environment.box-world.viewport").expect("it is read");
    assert_eq!(viewport["value"], 5);
    assert!(named("agents.environment.t-maze.corridor").is_none());

    for (words, parts) in [
        (
            ["keys", "trainin.batch"],
            ["no key 'trainin.batch'", "'training.batch'"],
        ),
        (["keys", "--of=own-smal"], ["own-smal", "'own-small'"]),
    ] {
        assert_says(&refuse(mnemora(words)), &parts);
    }
}

#[test]
fn completions_and_manual_pages_know_all_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = succeed(mnemora(["completions", shell])).stdout;
        assert_says(&script, &["forecast", "checkpoint"]);
    }
    let folder = tempdir().unwrap();
    let pages = folder.path().join("man1");
    let mut command = mnemora(["man", "--out"]);
    command.arg(&pages);
    succeed(command);
    let page = fs::read_to_string(pages.join("mnemora-forecast.1")).unwrap();
    assert_says(&page, &["quantiles", "Steps to forecast"]);
    assert!(pages.join("mnemora.1").is_file());
}
