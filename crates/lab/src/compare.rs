//! Comparison of several runs. Runs that differ only in their seed are replicas of one model.

mod tables;

use crate::{
    Experiment, LabError, MemoryName,
    curves::{Curves, Logged},
    open::{Which, open, read_experiment},
    pictures::write_in_new_folder,
};
use mnemora_figures::chart::{self, Chart, Layout};
use mnemora_training::{
    Error, Quantity, Row, checkpoint,
    device::light_device,
    measures::{Comparison as Compared, decimals, mean_and_stderr},
    run::{EVALUATION_FILE, EXPERIMENT_FILE, read_json, read_machine, read_metrics, read_origin},
    say::one_line,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use toml::Table;

/// Runs of one task, grouped into models.
pub struct Comparison {
    quantities: &'static [Quantity],
    models: Vec<Replicas>,
    rows: Vec<ModelRow>,
}

/// Runs that differ only in their seed.
struct Replicas {
    label: String,
    /// The folder of the first run.
    folder: String,
    experiment: Experiment,
    /// All settings except the seed.
    settings: Table,
    metrics: Vec<Vec<Row>>,
    /// The machine's rows.
    machine: Vec<Vec<Row>>,
    evaluations: Vec<Row>,
    /// The evaluations at checkpoints.
    held_out: Vec<Vec<Row>>,
    seeds: Vec<u64>,
    parameters: usize,
}

/// A model's numbers: means over replicas with standard errors, under the keys of its family's quantities.
#[derive(Clone, Debug, Serialize)]
pub struct ModelRow {
    /// Memory; with the experiment's name if several experiments are compared.
    pub model: String,
    /// Seeds of the replicas.
    pub seeds: Vec<u64>,
    /// Number of updates.
    pub steps: u64,
    /// Number of trained parameters.
    pub parameters: usize,
    /// The numbers by key.
    #[serde(flatten)]
    pub numbers: Numbers,
}

/// Estimates by key, in the order of a family's quantities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers(Vec<(&'static str, Estimate)>);

impl Numbers {
    /// The estimate of a key.
    pub fn get(&self, key: &str) -> Option<Estimate> {
        let mut all = self.0.iter();
        all.find(|(own, _)| *own == key).map(|(_, value)| *value)
    }
}

impl Serialize for Numbers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// A mean over replicas.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Its standard error; absent for a single replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<f64>,
}

impl Estimate {
    pub(crate) fn of(values: &[f64]) -> Self {
        let (value, stderr) = mean_and_stderr(values);
        let stderr = (values.len() > 1).then_some(stderr);
        Self { value, stderr }
    }

    fn of_all(values: Vec<Option<f64>>) -> Option<Self> {
        let values: Option<Vec<f64>> = values.into_iter().collect();
        values.filter(|v| !v.is_empty()).map(|v| Self::of(&v))
    }

    fn text(&self, digits: usize) -> String {
        let digits = digits.min(decimals(self.value));
        match self.stderr {
            None => format!("{:.digits$}", self.value),
            Some(stderr) => format!("{:.digits$} ± {stderr:.digits$}", self.value),
        }
    }
}

/// A run itself, or the runs below a folder in order of their names. Runs without a checkpoint are skipped.
pub(crate) fn runs_below(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    if path.join(EXPERIMENT_FILE).exists() || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| LabError::read(&folder, error))?;
        for entry in entries {
            let entry = entry
                .map_err(|error| LabError::read(&folder, error))?
                .path();
            if entry.join(EXPERIMENT_FILE).exists() {
                if !checkpoint::steps(&entry).is_empty() {
                    found.push(entry);
                }
            } else if entry.is_dir() && !entry.is_symlink() {
                folders.push(entry);
            }
        }
    }
    if found.is_empty() {
        return Err(Error::NoRun(path.to_owned()).into());
    }
    found.sort();
    Ok(found)
}

/// Reads runs, or all runs below a folder, and groups them. All must be of the same task with the same lengths.
///
/// # Errors
/// If there is no run, if a run is named twice, cannot be read or cannot be evaluated, or if the runs are of different
/// tasks or data.
pub fn compare(paths: &[PathBuf]) -> Result<Comparison, LabError> {
    let mut models: Vec<Replicas> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    let runs: Vec<PathBuf> = paths
        .iter()
        .map(|path| runs_below(path))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    for run in &runs {
        let path = run.canonicalize().unwrap_or_else(|_| run.clone());
        if seen.contains(&path) {
            return Err(LabError::Configuration(format!(
                "{} was given twice; name each run once",
                run.display()
            )));
        }
        seen.push(path);
        let experiment = read_experiment(run, &[])?;
        let metrics = read_metrics(run)?;
        let machine = read_machine(run)?;
        let evaluation = evaluation_of(run)?;
        let held_out = checkpoint::latest_state(run)?.0.held_out;
        let seedless = Experiment {
            seed: 0,
            ..experiment.clone()
        };
        let settings = seedless.resolved()?;
        // The same seed again is not another sample, so it becomes a separate model.
        let same = |replicas: &&mut Replicas| {
            !replicas.seeds.contains(&experiment.seed) && replicas.settings == settings
        };
        match models.iter_mut().find(same) {
            Some(replicas) => {
                replicas.seeds.push(experiment.seed);
                replicas.metrics.push(metrics);
                replicas.machine.push(machine);
                replicas.evaluations.push(evaluation);
                replicas.held_out.push(held_out);
            }
            None => models.push(Replicas {
                label: String::new(),
                folder: run
                    .file_name()
                    .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
                seeds: vec![experiment.seed],
                settings,
                experiment,
                metrics: vec![metrics],
                machine: vec![machine],
                evaluations: vec![evaluation],
                held_out: vec![held_out],
                parameters: read_origin(run)?.parameters,
            }),
        }
    }
    // In the fixed order of the memories, so that colours do not depend on the order of the arguments.
    models.sort_by_key(|m| {
        let place = MemoryName::ALL
            .iter()
            .position(|name| *name == m.experiment.model.memory);
        (m.experiment.name.clone(), place, m.experiment.label())
    });
    let first = models.first().map(|m| m.experiment.clone());
    let Some(first) = first else {
        return Err(LabError::Configuration("no run was named".into()));
    };
    let task = |m: &Replicas| m.settings.get("task").cloned();
    let first_task = models.first().and_then(task);
    if let Some(other) = models.iter().find(|m| task(m) != first_task) {
        return Err(LabError::Configuration(format!(
            "runs of different tasks cannot be compared; name runs of one task: {}, {}",
            first.words(),
            other.experiment.words(),
        )));
    }
    let data = |m: &Replicas| m.experiment.data.fingerprint.clone();
    if let Some(other) = models.iter().find(|m| data(m) != first.data.fingerprint) {
        return Err(LabError::Configuration(format!(
            "{} ({}) and {} ({}) use different data, so their numbers cannot be compared",
            one_line(&models[0].folder),
            first.label(),
            one_line(&other.folder),
            other.experiment.label(),
        )));
    }
    // Names of experiments and folders may come from other people.
    let labels: Vec<String> = models.iter().map(|m| one_line(label(m, &models))).collect();
    for (model, label) in models.iter_mut().zip(labels) {
        model.label = label;
    }
    let rows = models.iter().map(row).collect();
    Ok(Comparison {
        quantities: first.family().quantities(),
        models,
        rows,
    })
}

/// The evaluation after training if it is of the newest checkpoint; otherwise, for a run still in training or
/// prolonged, the evaluation at that checkpoint.
fn evaluation_of(run: &Path) -> Result<Row, LabError> {
    let path = run.join(EVALUATION_FILE);
    if path.exists() {
        let evaluation: Row = read_json(&path)?;
        if checkpoint::steps(run).last() == Some(&evaluation.step) {
            return Ok(evaluation);
        }
    }
    open(run, Which::Usual, &[], None, &light_device()?)?.evaluate()
}

/// The memory's name; with the experiment's name if experiments differ, with what differs from it in the setting if settings
/// do, with the folder's name if all repeat, and with a number if that repeats, too.
fn label(model: &Replicas, all: &[Replicas]) -> String {
    let name = model.experiment.label();
    let several = all
        .iter()
        .any(|m| m.experiment.name != model.experiment.name);
    let mut base = match several {
        true => format!("{} {name}", model.experiment.name),
        false => name.clone(),
    };
    let setting = |m: &Replicas| m.experiment.family().setting(&m.experiment);
    let own = setting(model);
    if all.iter().any(|m| setting(m) != own) {
        base += own.strip_prefix(&model.experiment.name).unwrap_or_default();
    }
    let alike: Vec<&Replicas> = all
        .iter()
        .filter(|m| setting(m) == own && m.experiment.label() == name)
        .collect();
    let same_folder = alike.iter().filter(|m| m.folder == model.folder).count();
    match alike.iter().position(|m| std::ptr::eq(*m, model)) {
        Some(_) if alike.len() > 1 && same_folder == 1 => format!("{base} ({})", model.folder),
        Some(place) if alike.len() > 1 => format!("{base} ({})", place + 1),
        _ => base,
    }
}

fn row(model: &Replicas) -> ModelRow {
    let quantities = model.experiment.family().quantities().iter();
    let compared = quantities.filter(|quantity| quantity.comparison != Compared::Left);
    let number = |quantity: &Quantity| {
        let of = |row: &Row| row.measures.number(quantity.path);
        let estimate = Estimate::of_all(model.evaluations.iter().map(of).collect())?;
        Some((quantity.key, estimate))
    };
    let steps = model.evaluations.iter().map(|row| row.step);
    ModelRow {
        model: model.label.clone(),
        seeds: model.seeds.clone(),
        steps: steps.max().unwrap_or(0),
        parameters: model.parameters,
        numbers: Numbers(compared.filter_map(number).collect()),
    }
}

impl Comparison {
    /// One row per model.
    pub fn rows(&self) -> &[ModelRow] {
        &self.rows
    }

    /// Writes the comparison, by the ending of the name: `.png` and `.svg` the family's charts, `.csv` all numbers, `.tex`
    /// the table.
    ///
    /// # Errors
    /// If the name has another ending, or the file cannot be written.
    pub fn write(&self, out: &Path) -> Result<(), LabError> {
        let bytes = match ending(out)? {
            Ending::Png => chart::png(&self.charts()?, &LAYOUT, 2)?,
            Ending::Svg => (chart::svg(&self.charts()?, &LAYOUT)? + "\n").into_bytes(),
            Ending::Csv => self.csv().into_bytes(),
            Ending::Tex => self.latex().into_bytes(),
        };
        write_in_new_folder(out, &bytes)
    }

    /// The family's charts for comparisons, without those of numbers that no run measured. Bands are standard errors over
    /// replicas.
    fn charts(&self) -> Result<Vec<Chart>, LabError> {
        let Some(first) = self.models.first() else {
            return Err(LabError::Configuration("no run was named".into()));
        };
        let logged = self.models.iter().map(|model| Logged {
            label: &model.label,
            metrics: &model.metrics,
            machine: &model.machine,
            evaluations: &model.evaluations,
            held_out: &model.held_out,
        });
        let curves = Curves(logged.collect());
        let experiment = &first.experiment;
        let charts = experiment.family().compared(experiment, &curves);
        let (drawn, empty): (Vec<_>, Vec<_>) = charts.into_iter().partition(Chart::has_points);
        // Without any curve, the charts say that there are no values.
        Ok(if drawn.is_empty() { empty } else { drawn })
    }
}

/// Charts one below the other.
const LAYOUT: Layout = Layout {
    columns: 1,
    width: 720,
    height: 340,
};

/// The files that a comparison can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Png,
    Svg,
    Csv,
    Tex,
}

/// Checks that a comparison can be written to files of these names.
///
/// # Errors
/// If a name has another ending than `.png`, `.svg`, `.csv` and `.tex`.
pub fn check_names(out: &[PathBuf]) -> Result<(), LabError> {
    out.iter().try_for_each(|out| ending(out).map(|_| ()))
}

fn ending(out: &Path) -> Result<Ending, LabError> {
    match out.extension().and_then(|ending| ending.to_str()) {
        Some("png") => Ok(Ending::Png),
        Some("svg") => Ok(Ending::Svg),
        Some("csv") => Ok(Ending::Csv),
        Some("tex") => Ok(Ending::Tex),
        _ => Err(LabError::Configuration(format!(
            "{}: a comparison is written as .png or .svg (curves), .csv (all numbers) or .tex (the table); the name must \
             have one of these endings",
            out.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_training::{
        Measures, Snapshot,
        run::{ORIGIN_FILE, Origin, write_json},
    };

    /// Two finished runs whose images are no longer on disk.
    #[test]
    fn numbers_are_compared_without_the_images() {
        let folder = tempfile::tempdir().unwrap();
        let runs = [1, 2].map(|seed| {
            let run = folder.path().join(seed.to_string());
            let mut experiment = Experiment {
                seed,
                ..Experiment::default()
            };
            (experiment.task.length, experiment.task.recall) = (5, 2);
            experiment.data.directory = "/nowhere/digits".into();
            experiment.data.fingerprint = "of other images".into();
            std::fs::create_dir_all(&run).unwrap();
            let state = checkpoint::State {
                step: 3,
                ..checkpoint::State::default()
            };
            let snapshot = Snapshot::default();
            checkpoint::save(&run, &checkpoint::Checkpoint { state, snapshot }).unwrap();
            std::fs::write(run.join(EXPERIMENT_FILE), experiment.to_toml().unwrap()).unwrap();
            let evaluation = Row {
                step: 3,
                measures: Measures::new().with("bound", -(seed as f64)),
            };
            write_json(&run.join(EVALUATION_FILE), &evaluation).unwrap();
            let origin = Origin {
                parameters: 7,
                ..Origin::default()
            };
            write_json(&run.join(ORIGIN_FILE), &origin).unwrap();
            run
        });
        let found = compare(&runs).unwrap();
        assert_eq!(found.rows().len(), 1);
        assert_eq!(found.rows()[0].numbers.get("bound").unwrap().value, -1.5);
        assert_eq!(found.rows()[0].parameters, 7);
        assert_eq!(
            found.csv().lines().collect::<Vec<_>>(),
            [
                "model,seeds,updates,parameters,bound,\"bound, standard error\"",
                "introspection,1 2,3,7,-1.5,0.5"
            ]
        );
        assert!(found.write(Path::new("numbers.ods")).is_err());
    }
}
