//! The experiments that come with mnemora, and those in users' files.

use super::{Experiment, family::families, keys::short_key, shipped::Shipped};
use crate::LabError;
use mnemora_training::{
    disk::{self, digest},
    say::obeyed,
};
use std::path::Path;
use toml::Value;

/// The longest name of an experiment, in bytes.
const LONGEST_NAME: usize = 100;

/// The experiments that come with mnemora, family by family.
pub fn shipped() -> Vec<Shipped> {
    let families = families().into_iter();
    families
        .flat_map(|family| family.presets())
        .copied()
        .collect()
}

/// Loads an experiment by name or from a TOML file.
pub fn load_experiment(name: &str, overrides: &[String]) -> Result<Experiment, LabError> {
    let all = shipped();
    if let Some(shipped) = all.iter().find(|shipped| shipped.name == name) {
        return shipped.experiment(overrides);
    }
    if is_table(name) {
        return of_table(Path::new(name), overrides);
    }
    if !name.ends_with(".toml") {
        let nearest = all
            .iter()
            .map(|shipped| shipped.name)
            .max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)))
            .unwrap_or_default();
        return Err(LabError::UnknownExperiment {
            name: name.to_owned(),
            hint: format!(
                "did you mean '{nearest}'? `mnemora list` shows all; a file of your own ends in .toml, a table in .csv or \
                 .parquet"
            ),
        });
    }
    let text = disk::read_text(Path::new(name)).map_err(|error| LabError::read(name, error))?;
    let mut experiment = Experiment::parse(&text, name, overrides)?;
    if experiment.name.is_empty() {
        experiment.name = Path::new(name)
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    }
    check_name(&experiment.name)?;
    Ok(experiment)
}

/// Whether an experiment's name is that of a file with a table.
pub fn is_table(name: &str) -> bool {
    let lower = name.to_lowercase();
    [".csv", ".parquet"]
        .iter()
        .any(|ending| lower.ends_with(ending))
}

/// The experiment of a user's own table: `own-small` on this file, under the file's name.
fn of_table(file: &Path, overrides: &[String]) -> Result<Experiment, LabError> {
    let directory = file
        .canonicalize()
        .map_err(|error| LabError::read(file, error))?;
    let mut experiment = load_experiment("own-small", overrides)?;
    if experiment.data.directory.is_empty() {
        experiment.data.directory = directory.display().to_string();
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if experiment.name == "own-small" && check_name(&stem).is_ok() && !stem.is_empty() {
        experiment.name = stem.into_owned();
    }
    Ok(experiment)
}

/// Checks that a name can be part of a folder's: unless a folder is given, a run is written to
/// `runs/NAME-MEMORY-seedN`.
fn check_name(name: &str) -> Result<(), LabError> {
    let problem = match name {
        _ if name.chars().any(|c| matches!(c, '/' | '\\')) => "it must not contain / or \\",
        _ if name.chars().any(obeyed) => "it must not contain control characters",
        _ if name.starts_with(['.', '-']) => "it must not begin with a dot or a dash",
        _ if name.len() > LONGEST_NAME => "it must have at most 100 bytes",
        _ => return Ok(()),
    };
    Err(LabError::Configuration(format!(
        "name is '{name}', {problem}: it is part of the run's folder name"
    )))
}

/// Longest list of changes in a run's name, in characters; a digest replaces the rest.
const LONGEST_CHANGES: usize = 100;

/// Keys that say what an experiment is called and where its data are, and nothing of what is learned.
pub(crate) const BOOKKEEPING: [&str; 5] = [
    "name",
    "description",
    "data.directory",
    "data.max_bytes",
    "data.max_unpacked_bytes",
];

/// Other keys that appear elsewhere in a run's name, or that change nothing of what is learned except for how long.
const NOT_IN_NAMES: [&str; 6] = [
    "seed",
    "training.steps",
    "training.log_every",
    "training.checkpoint_every",
    "training.keep",
    "training.threads",
];

/// The name of a run, unless a folder is given: the name of the experiment, its model, and each key that `overrides`
/// (`key=value`) changed from the experiment `name`. Left out are keys that only change how long to train and what to
/// log and measure.
pub fn run_name(
    name: &str,
    experiment: &Experiment,
    overrides: &[String],
) -> Result<String, LabError> {
    let keys = overrides.iter().map(|text| {
        let key = text.split('=').next().unwrap_or_default();
        key.trim()
    });
    let keys: Vec<&str> = keys.collect();
    // A file may only be valid with the overrides.
    let base = load_experiment(name, &[]).unwrap_or_default();
    let mut changes = String::new();
    for change in base.differences(experiment)? {
        let key = change.key.as_str();
        if !keys.contains(&key) || experiment.label_says(key) {
            continue;
        }
        if BOOKKEEPING.contains(&key) || NOT_IN_NAMES.contains(&key) {
            continue;
        }
        // Measurements do not change what is learned.
        if key.starts_with("evaluation.") {
            continue;
        }
        let value = match change.after {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        let value = value.replace(|c| !plain(c), "_");
        changes.push_str(&format!("-{}={value}", short_key(key)));
    }
    if changes.len() > LONGEST_CHANGES {
        let digest = digest(changes.as_bytes());
        changes = format!("{}-{}", &changes[..LONGEST_CHANGES], &digest[..8]);
    }
    check_name(&experiment.name)?;
    Ok(format!(
        "{}-{}{changes}",
        experiment.name,
        experiment.label()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_for_what_was_set() {
        let name = |experiment: &str, overrides: &[&str]| {
            let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
            let changed = load_experiment(experiment, &overrides).unwrap();
            run_name(experiment, &changed, &overrides).unwrap()
        };
        let execute = |overrides: &[&str]| name("learning-to-execute-small", overrides);
        assert_eq!(execute(&[]), "learning-to-execute-small-rmc");
        // A value that is not new changes nothing, and the seed has its own place.
        let same = ["task.programs.family=addition", "seed=7"];
        assert_eq!(execute(&same), execute(&[]));
        assert_eq!(
            execute(&["task.programs.family=control"]),
            "learning-to-execute-small-rmc-family=control"
        );
        assert_eq!(
            execute(&["model.memory=dnc", "training.batch=4", "training.steps=9"]),
            "learning-to-execute-small-dnc-training.batch=4"
        );
        // The order of overrides does not matter, and no two sizes share a name.
        let one = ["memory.rmc.heads=1", "model.head_layers=2"];
        let other = ["model.head_layers=2", "memory.rmc.heads=1"];
        assert_eq!(execute(&one), execute(&other));
        let music = |overrides: &[&str]| name("jsb-chorales", overrides);
        let network = music(&["model.name=vrnn"]);
        let memory = music(&["model.name=gtmm", "model.memory=vrnn"]);
        assert_eq!(network, "jsb-chorales-vrnn");
        assert_ne!(network, memory);
        assert_eq!(
            music(&["filtering.strategy=iterative", "filtering.hidden=8"]),
            "jsb-chorales-srnn-avf1-filtering.hidden=8"
        );
        assert_eq!(
            music(&["network.srnn.hidden=8"]),
            "jsb-chorales-srnn-srnn.hidden=8"
        );
        // No name is too long for a file system or contains a path.
        let long = format!("language.fingerprint={}", "/a b".repeat(100));
        let long = name("books-small", &[&long]);
        assert!(long.len() < 150, "{long}");
        assert!(!long.contains(['/', ' ']), "{long}");
    }
    use crate::plan;

    /// Gtmm, Table 1, and the hybrid model: sequences of 25 steps.
    #[test]
    fn paper_presets_have_the_parameters_of_table_1() {
        let table = [
            ("vrnn", 1_884_177),
            ("introspection", 1_863_107),
            ("ntm", 1_869_381),
            ("lru", 1_866_282),
            ("dnc", 1_859_336),
            ("hybrid", 1_866_000),
        ];
        for (memory, expected) in table {
            let memory_set = [format!("model.memory={memory}")];
            for name in ["perfect-recall-20", "dynamic-dependency"] {
                let experiment = load_experiment(name, &memory_set).unwrap();
                let found = plan(experiment, None).unwrap().parameters[0].1;
                let off = (found as f64 / f64::from(expected) - 1.0).abs();
                assert!(
                    off < 0.002,
                    "{name} {memory}: {found}, Table 1 has {expected}"
                );
            }
        }
    }

    #[test]
    fn every_shipped_experiment_is_valid_and_complete() {
        for shipped in shipped() {
            let experiment = shipped.experiment(&[]).unwrap();
            assert!(!experiment.description.is_empty(), "{}", shipped.name);
        }
    }
}
