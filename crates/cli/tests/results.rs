//! The measured numbers in `results/`: the rows of a table use the same data set, and the command of a row is enough
//! to find that data set again.

mod common;

use common::{mnemora, succeed};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Files with results of trainings; `speed.jsonl` holds times, which belong to no data.
const FILES: [&str; 7] = [
    "agents.jsonl",
    "avf.jsonl",
    "cgqn.jsonl",
    "gtm-sm.jsonl",
    "gtmm.jsonl",
    "own.jsonl",
    "rmc.jsonl",
];

/// A folder next to the crates, if this checkout has it.
fn folder(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    if !path.is_dir() {
        eprintln!("skipped: there is no folder {}", path.display());
    }
    path.is_dir().then_some(path)
}

fn rows() -> Option<Vec<Value>> {
    let results = folder("results")?;
    let read = |name: &str| {
        let text = fs::read_to_string(results.join(name)).expect("a file of results");
        let lines = text.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{name}: {error}"))
        });
        lines.collect::<Vec<_>>()
    };
    Some(FILES.into_iter().flat_map(read).collect())
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key]
        .as_str()
        .unwrap_or_else(|| panic!("no text '{key}' in {row}"))
}

/// The beginning of the data's SHA-256; empty if the program generates the data.
fn fingerprint(row: &Value) -> &str {
    let data = text(row, "data");
    let generated = data.starts_with("random ") || data.ends_with(" made on the fly");
    match data.split_once(", sha256 ") {
        Some((_, fingerprint)) if !fingerprint.is_empty() => fingerprint,
        None if generated => "",
        _ => panic!("no fingerprint in {row}"),
    }
}

/// The words of a row's command after `mnemora train`, without the seeds.
fn words(row: &Value) -> Vec<&str> {
    let command = text(row, "command");
    let command = command.split(", seeds [").next().unwrap_or(command);
    let command = command.split(" --seed N").next().unwrap_or(command);
    let words = command.strip_prefix("mnemora train ");
    let words = words.unwrap_or_else(|| panic!("not a training: {command}"));
    words.split(' ').collect()
}

#[test]
fn every_row_says_how_it_came_about() {
    let Some(rows) = rows() else { return };
    assert!(rows.len() > 500, "{} rows", rows.len());
    for row in &rows {
        for key in ["claim", "setting", "model", "command", "commit", "machine"] {
            assert!(!text(row, key).is_empty(), "{key} in {row}");
        }
        assert!(row["value"].is_number(), "{row}");
        let seeds = row["seeds"].as_array().expect("seeds").len();
        let replicas = row["replicas"].as_array().expect("replicas").len();
        assert_eq!(seeds, replicas, "{row}");
        let budget = &row["budget"];
        for key in ["steps", "threads"] {
            assert!(budget[key].is_u64(), "budget.{key} in {row}");
        }
    }
}

/// Numbers of different data are not comparable, whichever file they are in. Generated data have no
/// fingerprint, so the words count as well.
#[test]
fn rows_of_one_table_are_of_one_data_set() {
    let Some(rows) = rows() else { return };
    let mut found: BTreeMap<&str, (&str, &Value)> = BTreeMap::new();
    for row in &rows {
        let (first, other) = *found
            .entry(text(row, "setting"))
            .or_insert((text(row, "data"), row));
        assert_eq!(
            first,
            text(row, "data"),
            "{} and {} have different data:\n{other}\n{row}",
            text(other, "model"),
            text(row, "model"),
        );
    }
}

/// A data folder with this name, anywhere below `top`.
fn named(top: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(top).ok()?.flatten();
    let folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    let here = folders.iter().find(|path| path.ends_with(name)).cloned();
    here.or_else(|| folders.iter().find_map(|path| named(path, name)))
}

#[test]
fn the_command_of_a_row_finds_the_data_of_the_row() {
    let Some(rows) = rows() else { return };
    // The parts of a command that decide the data: the experiment, its task, and the location of the data.
    let mut decided: BTreeMap<Vec<&str>, (&str, &Value)> = BTreeMap::new();
    for row in &rows {
        let words = words(row);
        let mut key = vec![words[0]];
        for pair in words.windows(2) {
            let task = pair[1].starts_with("task.") && !pair[1].starts_with("task.programs.");
            if pair[0] == "--data" || pair[0] == "--set" && task {
                key.extend(pair);
            }
        }
        decided.entry(key).or_insert((fingerprint(row), row));
    }
    assert!(decided.len() >= 20, "{} commands", decided.len());
    let mut skipped = Vec::new();
    for (words, (fingerprint, row)) in decided {
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if let Some(place) = words.iter().position(|word| *word == "--data") {
            let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
            let Some(found) = named(&shared, &words[place + 1]) else {
                skipped.push(words[place + 1].clone());
                continue;
            };
            words[place + 1] = found.display().to_string();
        }
        let command = ["train"]
            .into_iter()
            .chain(words.iter().map(String::as_str));
        let mut command = mnemora(command.chain(["--dry-run", "--json"]));
        // Tables lie in the repository.
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        let plan = succeed(command).json();
        // An experiment without data has no such key.
        let found = plan["experiment"]["data"]["fingerprint"]
            .as_str()
            .unwrap_or_default();
        let found = &found[..found.len().min(12)];
        assert_eq!(found, fingerprint, "`{}`: {row}", words.join(" "));
    }
    if !skipped.is_empty() {
        eprintln!("skipped: there are no data folders {skipped:?}");
    }
}
