//! Measured numbers as evidence: rows of a file in `results/`. Each row has the command, commit, machine, data and
//! budget needed to measure it again.

mod command;
mod join;
mod tables;

use crate::{
    Experiment, LabError, MemoryName,
    compare::{Estimate, runs_below},
    open::read_experiment,
};
use join::{joined, refuse_losses, refuse_other_settings};
use mnemora_training::{
    Error, Quantity, Row,
    checkpoint::{State, state_file},
    disk,
    measures::{Claim, Measures, Place, Value, filled},
    run::{EVALUATION_FILE, EXPERIMENT_FILE, Origin, read_json, read_origin, write_atomically},
    say::note,
    settings::StrategyName,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, ser::Formatter};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};
use toml::Table;

/// A run as evidence.
struct Evidence {
    experiment: Experiment,
    /// All settings except the seed and those filled in from the data.
    settings: Table,
    evaluation: Row,
    /// The evaluations at checkpoints.
    held_out: Vec<Row>,
    origin: Origin,
    seconds: f64,
}

/// Everything that a measured number depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Conditions {
    setting: String,
    model: String,
    seeds: Vec<u64>,
    command: String,
    commit: String,
    machine: String,
    parameters: usize,
    data: String,
    budget: Budget,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Budget {
    steps: u64,
    seconds: Vec<u64>,
    threads: usize,
    held_out_sequences: Option<u64>,
}

/// A measured number with its conditions.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Claimed {
    claim: String,
    #[serde(flatten)]
    conditions: Conditions,
    value: f64,
    stderr: Option<f64>,
    unit: String,
    replicas: Vec<f64>,
    /// Updates, mean and standard error at the checkpoints that measured the number, often on fewer sequences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    curve: Vec<(u64, f64, Option<f64>)>,
}

/// What becomes of the rows that an evidence file has for the setting and model of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldRows {
    /// The runs measure the same again and take their place. Updates and the settings of their commands must be alike.
    Renew,
    /// The runs take their place, whatever they measure.
    Replace,
    /// They are replicas of other seeds, and each row becomes one of all seeds. Data, updates, parameters, held-out
    /// sequences, the settings of their commands and the numbers measured must be alike.
    Join,
}

/// Adds the numbers of runs, or of all runs below folders, to the file `target`, and returns the numbers of the file as
/// Markdown tables.
///
/// Runs that differ only in their seed are replicas: each number gets one row, with the mean over replicas and its
/// standard error. What becomes of rows of the same setting and model, [`OldRows`] says; others stay. Runs without an
/// evaluation are left out, with a note.
///
/// # Errors
/// If numbers of different data would be compared: one setting has different fingerprints in this file or another one
/// of its folder; or if rows can be neither renewed nor joined, or runs with different settings would have one name. Nothing
/// is written then. Also if a file cannot be read or written.
pub fn claim(paths: &[PathBuf], target: &Path, with: OldRows) -> Result<String, LabError> {
    let runs: Vec<Vec<PathBuf>> = paths
        .iter()
        .map(|path| runs_below(path))
        .collect::<Result<_, _>>()?;
    let mut groups: Vec<Vec<Evidence>> = Vec::new();
    for run in runs.concat() {
        if !run.join(EXPERIMENT_FILE).exists() {
            return Err(Error::NoRun(run).into());
        }
        if !run.join(EVALUATION_FILE).exists() {
            note(format_args!(
                "mnemora: {} is not evaluated yet and left out",
                run.display()
            ));
            continue;
        }
        let evidence = evidence(&run)?;
        let replicas = |group: &&mut Vec<Evidence>| group[0].settings == evidence.settings;
        match groups.iter_mut().find(replicas) {
            Some(group) => group.push(evidence),
            None => groups.push(vec![evidence]),
        }
    }
    let mut fresh = Vec::new();
    let mut named = BTreeSet::new();
    for mut group in groups {
        group.sort_by_key(|run| run.experiment.seed);
        let Conditions { setting, model, .. } = conditions(&group);
        let name = format!("{setting}, {model}");
        if !named.insert(name.clone()) {
            return Err(LabError::Configuration(format!(
                "{name}: runs of this name have different settings; name them in commands of their own, each with another file"
            )));
        }
        fresh.extend(claimed(&group));
    }
    let mut rows = match target.exists() {
        true => read_rows(target)?,
        false => Vec::new(),
    };
    match with {
        OldRows::Renew => refuse_other_settings(target, &rows, &fresh)?,
        OldRows::Replace => {}
        OldRows::Join => {
            for row in &mut fresh {
                if let Some(old) = alike(&rows, row)? {
                    *row = joined(&old, row)?;
                }
            }
            refuse_losses(&rows, &fresh)?;
        }
    }

    let of_model = |row: &Map<String, Json>| {
        let text = |key| {
            row.get(key)
                .and_then(Json::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        (text("setting"), text("model"))
    };
    let fresh: Vec<Line> = fresh.iter().map(line).collect::<Result<_, _>>()?;
    let replaced: BTreeSet<(String, String)> = fresh.iter().map(|(_, row)| of_model(row)).collect();
    rows.retain(|(_, row)| !replaced.contains(&of_model(row)));
    rows.extend(fresh);
    refuse_other_data(target, &rows)?;
    let lines: String = rows.iter().map(|(line, _)| format!("{line}\n")).collect();
    write_atomically(target, lines.as_bytes())?;
    let rows: Vec<Map<String, Json>> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(tables::tables(&rows))
}

fn evidence(run: &Path) -> Result<Evidence, LabError> {
    let experiment = read_experiment(run, &[])?;
    let evaluation: Row = read_json(&run.join(EVALUATION_FILE))?;
    let state: State = read_json(&state_file(run, evaluation.step))?;
    let mut alike = experiment.clone();
    alike.seed = 0;
    alike.data.step = Default::default();
    Ok(Evidence {
        settings: alike.resolved()?,
        origin: read_origin(run)?,
        seconds: state.elapsed_seconds,
        held_out: state.held_out,
        experiment,
        evaluation,
    })
}

/// A line of the file, and its parsed content.
type Line = (String, Map<String, Json>);

/// The row of the same number, setting and model.
fn alike(rows: &[Line], fresh: &Claimed) -> Result<Option<Claimed>, LabError> {
    let of = &fresh.conditions;
    let own = [
        ("claim", &fresh.claim),
        ("setting", &of.setting),
        ("model", &of.model),
    ];
    let is_own = |(_, row): &&Line| {
        let is = |(key, own): (&str, &String)| row.get(key).and_then(Json::as_str) == Some(own);
        own.into_iter().all(is)
    };
    let old = rows.iter().find(is_own).map(|(line, _)| line);
    old.map(|line| serde_json::from_str(line).map_err(|error| unreadable(line, &error)))
        .transpose()
}

/// The rows of replicas, ordered by seed.
fn claimed(replicas: &[Evidence]) -> Vec<Claimed> {
    let first = &replicas[0];
    let conditions = conditions(replicas);
    let mut rows = Vec::new();
    for (quantity, claim) in claims(first.experiment.family().quantities()) {
        for (name, _) in values(quantity, claim, &first.evaluation) {
            let of_name = |row: &Row| {
                let mut values = values(quantity, claim, row).into_iter();
                let own = values.find(|(own, _)| *own == name);
                own.map(|(_, value)| value)
            };
            let evaluations = replicas.iter().map(|run| of_name(&run.evaluation));
            let Some(values) = evaluations.collect::<Option<Vec<f64>>>() else {
                continue;
            };
            let at = |row: &Row| {
                let of_run =
                    |run: &Evidence| of_name(run.held_out.iter().find(|own| own.step == row.step)?);
                let values: Option<Vec<f64>> = replicas.iter().map(of_run).collect();
                let Estimate { value, stderr } = Estimate::of(&values?);
                Some((row.step, value, stderr))
            };
            let Estimate { value, stderr } = Estimate::of(&values);
            rows.push(Claimed {
                conditions: conditions.clone(),
                value,
                stderr,
                unit: claim.unit.to_owned(),
                replicas: values,
                curve: first.held_out.iter().filter_map(at).collect(),
                claim: name,
            });
        }
    }
    rows
}

fn claims(quantities: &[Quantity]) -> impl Iterator<Item = (&Quantity, &'static Claim)> {
    let of = |quantity: &'_ Quantity| quantity.claims.iter();
    quantities
        .iter()
        .flat_map(move |quantity| of(quantity).map(move |claim| (quantity, claim)))
}

/// The names and values under which an evaluation shows a quantity: none if it was not measured, one for each row of a
/// small table.
fn values(quantity: &Quantity, claim: &Claim, evaluation: &Row) -> Vec<(String, f64)> {
    let named = |value: f64| (claim.name.to_owned(), value);
    match evaluation.measures.get(quantity.path) {
        None => Vec::new(),
        Some(Value::Series(values)) => {
            let value = match claim.place {
                Place::First => values.first(),
                Place::Last => values.last(),
            };
            value.copied().flatten().map(named).into_iter().collect()
        }
        Some(Value::Records(records)) => {
            let of_record = |record: &Measures| {
                let value = record.number(quantity.key)?;
                Some((filled(claim.name, record), value))
            };
            records.iter().filter_map(of_record).collect()
        }
        Some(value) => value.number().map(named).into_iter().collect(),
    }
}

fn conditions(replicas: &[Evidence]) -> Conditions {
    let first = &replicas[0];
    let (experiment, origin) = (&first.experiment, &first.origin);
    let seeds: Vec<u64> = replicas.iter().map(|run| run.experiment.seed).collect();
    let commits: BTreeSet<&str> = replicas
        .iter()
        .map(|run| run.origin.commit.as_str())
        .collect();
    let commits: Vec<&str> = commits.into_iter().collect();
    let mut data = without_folders(&origin.data);
    // What is made on the fly has none.
    if let Some(fingerprint) = experiment.data.fingerprint.get(..12) {
        data += &format!(", sha256 {fingerprint}");
    }
    Conditions {
        setting: experiment.family().setting(experiment),
        model: label(experiment, &origin.command),
        command: format!(
            "{}, seeds {seeds:?}",
            command::of_replicas(replicas.iter().map(|run| &run.origin))
        ),
        seeds,
        commit: commits.join(", "),
        machine: origin.machine.clone(),
        parameters: origin.parameters,
        data,
        budget: Budget {
            steps: first.evaluation.step,
            seconds: replicas
                .iter()
                .map(|run| run.seconds.round_ties_even() as u64)
                .collect(),
            threads: match origin.threads {
                0 => experiment.training.threads,
                threads => threads,
            },
            held_out_sequences: first.evaluation.measures.count("sequences"),
        },
    }
}

/// The model's [label](Experiment::label) and what it leaves out: which slots are read, what an inference network
/// observes and how it treats means, and settings of the command for a rate or a size.
fn label(experiment: &Experiment, command: &str) -> String {
    let mut label = experiment.label();
    let nearest = experiment.memory.lru.nearest;
    if experiment.model.memory == MemoryName::Lru && label.starts_with("lru") && nearest > 0 {
        label = label.replacen("lru", &format!("lru-nearest{nearest}"), 1);
    }
    let filtering = &experiment.filtering;
    if filtering.strategy == StrategyName::Iterative {
        for (chosen, name) in [
            (filtering.observe, "observe"),
            (filtering.normalise_mean, "normalised"),
        ] {
            if chosen {
                label.push_str(&format!("-{name}"));
            }
        }
    }
    for (key, name) in [
        ("training.learning_rate=", "rate"),
        ("training.schedule=", "schedule"),
        ("filtering.hidden=", "units"),
        ("memory.rmc.head_size=", "head"),
        ("memory.rmc.output_gate=", "output-gate"),
        ("memory.conv_lstm.channels=", "channels"),
        ("memory.lstm.hidden=", "hidden"),
        ("agents.objective=", "objective"),
        ("navigation.model.transition.noise=", "noise"),
    ] {
        if let Some((_, rest)) = command.split_once(key) {
            let value = rest.split_whitespace().next().unwrap_or_default();
            label.push_str(&format!("-{name}-{value}"));
        }
    }
    label
}

/// Cuts each word of a text to what follows its last slash.
fn without_folders(text: &str) -> String {
    let words = text.split(' ');
    let words: Vec<&str> = words
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .collect();
    words.join(" ")
}

/// JSON with a space after each colon and comma, as in the files of `results/`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

fn line(row: &Claimed) -> Result<Line, LabError> {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    row.serialize(&mut serializer)
        .map_err(|error| unreadable(&row.claim, &error))?;
    let line = String::from_utf8_lossy(&bytes).into_owned();
    let said = serde_json::from_str(&line).map_err(|error| unreadable(&line, &error))?;
    Ok((line, said))
}

fn unreadable(what: &str, error: &serde_json::Error) -> LabError {
    LabError::Configuration(format!("{what}: {error}"))
}

fn read_rows(path: &Path) -> Result<Vec<Line>, LabError> {
    let text = disk::read_text(path).map_err(|error| LabError::read(path, error))?;
    let lines = text.lines().enumerate();
    let row = |(place, line): (usize, &str)| {
        let said = serde_json::from_str(line).map_err(|error| {
            unreadable(&format!("{}: line {}", path.display(), place + 1), &error)
        })?;
        Ok((line.to_owned(), said))
    };
    lines.map(row).collect()
}

/// Returns an error if numbers of different data would be compared.
fn refuse_other_data(target: &Path, rows: &[Line]) -> Result<(), LabError> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |row: &Map<String, Json>| {
        let text = |key| row.get(key).and_then(Json::as_str);
        if let (Some(setting), Some(data)) = (text("setting"), text("data")) {
            // What is made on the fly has no fingerprint; its words count.
            let known = match data.split_once(", sha256 ") {
                Some((words, "")) => words,
                Some((_, fingerprint)) => fingerprint,
                None => data,
            };
            let all = found.entry(setting.to_owned()).or_default();
            all.insert(known.to_owned());
        }
    };
    rows.iter().for_each(|(_, row)| add(row));
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).map_err(|error| LabError::read(folder, error))?;
    for entry in entries {
        let path = entry.map_err(|error| LabError::read(folder, error))?.path();
        let other = path.extension().is_some_and(|ending| ending == "jsonl");
        if other && path.file_name() != target.file_name() {
            let rows = read_rows(&path).map_err(|error| {
                LabError::Configuration(format!(
                    "{error}; evidence files of one folder must have numbers of the same data: give {} a folder without \
                     this file",
                    target.display()
                ))
            })?;
            rows.iter().for_each(|(_, row)| add(row));
        }
    }
    match found.iter().find(|(_, data)| data.len() > 1) {
        None => Ok(()),
        Some((setting, data)) => {
            let data: Vec<&str> = data.iter().map(String::as_str).collect();
            Err(LabError::Configuration(format!(
                "{setting}: numbers of different data ({}) cannot be compared; nothing was written",
                data.join(", ")
            )))
        }
    }
}
