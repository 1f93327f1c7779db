//! Several runs beside each other; runs that differ in their seed and in nothing else are replicas of one model.

use crate::{
    Evaluation, Experiment, LabError, MemoryName,
    checkpoint::{self, HeldOut},
    config::TaskKind,
    curves::{
        accuracy_chart, bit_error_chart, bound_chart, character_accuracy_chart, free_energy_chart,
        kl_per_step_chart, last_kl_chart, perplexity_chart,
    },
    device::light_device,
    open::{Which, open},
    present::{decimals, write_png},
    run::{EVALUATION_FILE, EXPERIMENT_FILE, Metrics, read_experiment, read_json, read_metrics},
    say::one_line,
};
use mnemora_figures::chart::{self, Layout, Series};
use serde::Serialize;
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

/// Runs of one task, grouped into models.
pub struct Comparison {
    /// Steps at which memory is put to the test.
    recall: Option<Range<usize>>,
    models: Vec<Replicas>,
    rows: Vec<ModelRow>,
}

/// Runs that differ only in their seed.
struct Replicas {
    label: String,
    /// The first one's folder.
    folder: String,
    experiment: Experiment,
    metrics: Vec<Vec<Metrics>>,
    evaluations: Vec<Evaluation>,
    /// Of tasks whose training batches are not like what is held out: other lengths, another curriculum.
    held_out: Vec<Vec<HeldOut>>,
    seeds: Vec<u64>,
}

/// A model's numbers: means over replicas with standard errors.
#[derive(Clone, Debug, Serialize)]
pub struct ModelRow {
    /// Memory, with the experiment's name where several are compared.
    pub model: String,
    /// Seeds of the replicas.
    pub seeds: Vec<u64>,
    /// Updates.
    pub steps: u64,
    /// Bound in nats per sequence.
    pub bound: Estimate,
    /// `exp` of the mean nats of a held-out word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<Estimate>,
    /// Free energy of recorded sequences in nats per step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_energy: Option<Estimate>,
    /// Mean over recordings of each one's nats per step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_energy_of_recordings: Option<Estimate>,
    /// KL of recorded sequences in nats per step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl_per_step: Option<Estimate>,
    /// Share of the bits to be answered that are wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_error: Option<Estimate>,
    /// Share of the sequences whose class was named, or of the characters that were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Estimate>,
    /// Share of the answers that were written without a mistake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_accuracy: Option<Estimate>,
    /// KL of the last frame in nats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl_last: Option<Estimate>,
    /// Mean KL of the frames that nothing predicts, nats per frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl_unpredictable: Option<Estimate>,
    /// Mean KL of the frames that the past predicts over that of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl_ratio: Option<Estimate>,
    /// Share of generated frames whose nearest seen frame is the remembered one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated_nearest: Option<Estimate>,
    /// Mean squared error of generated pixels to the remembered frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_remembered: Option<Estimate>,
    /// The same to the other frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_others: Option<Estimate>,
    /// Share of generated frames in which a classifier reads the right digit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated_digits: Option<Estimate>,
    /// Share of returns at which a map made up from actions alone shows what it showed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map_coherence: Option<Estimate>,
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
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let stderr = (values.len() > 1).then(|| {
            let squares: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
            (squares / (count - 1.0) / count).sqrt()
        });
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

/// A run itself, or the runs below a folder in order of their names; those that are not begun or
/// not far enough to have a checkpoint are passed over.
fn runs_below(path: &Path) -> Result<Vec<PathBuf>, LabError> {
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
        return Err(LabError::NoRun(path.to_owned()));
    }
    found.sort();
    Ok(found)
}

/// Reads runs, or all runs below a folder, and groups them. All must be of one task with equal
/// lengths.
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
                "{} is named twice; a run counts once",
                run.display()
            )));
        }
        seen.push(path);
        let experiment = read_experiment(run, &[])?;
        let metrics = read_metrics(run)?;
        let evaluation = evaluation_of(run)?;
        let held_out = match experiment.task.name.kind() {
            TaskKind::Frames => Vec::new(),
            _ => checkpoint::latest_state(run)?.0.held_out,
        };
        let same = |replicas: &&mut Replicas| {
            let seedless = |e: &Experiment| Experiment {
                seed: 0,
                ..e.clone()
            };
            // The same seed again is no other sample: a model of its own.
            !replicas.seeds.contains(&experiment.seed)
                && seedless(&replicas.experiment) == seedless(&experiment)
        };
        match models.iter_mut().find(same) {
            Some(replicas) => {
                replicas.seeds.push(experiment.seed);
                replicas.metrics.push(metrics);
                replicas.evaluations.push(evaluation);
                replicas.held_out.push(held_out);
            }
            None => models.push(Replicas {
                label: String::new(),
                folder: run
                    .file_name()
                    .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
                seeds: vec![experiment.seed],
                experiment,
                metrics: vec![metrics],
                evaluations: vec![evaluation],
                held_out: vec![held_out],
            }),
        }
    }
    // The order of the memories, whatever the order of the arguments, so that colours stay.
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
    if let Some(other) = models.iter().find(|m| m.experiment.task != first.task) {
        return Err(LabError::Configuration(format!(
            "runs of different tasks cannot be compared, name the runs of one: {}, {}",
            first.task.words(),
            other.experiment.task.words(),
        )));
    }
    let data = |m: &Replicas| m.experiment.data.fingerprint.clone();
    if let Some(other) = models.iter().find(|m| data(m) != first.data.fingerprint) {
        return Err(LabError::Configuration(format!(
            "{} and {} are of different data, so that their numbers cannot be compared",
            first.label(),
            other.experiment.label(),
        )));
    }
    // Names of experiments and folders may come from elsewhere.
    let labels: Vec<String> = models.iter().map(|m| one_line(label(m, &models))).collect();
    for (model, label) in models.iter_mut().zip(labels) {
        model.label = label;
    }
    let rows = models.iter().map(row).collect();
    Ok(Comparison {
        recall: first.task.recall_interval(),
        models,
        rows,
    })
}

/// The evaluation after training if it is of the newest checkpoint; one of that checkpoint for a
/// run still going or prolonged.
fn evaluation_of(run: &Path) -> Result<Evaluation, LabError> {
    let path = run.join(EVALUATION_FILE);
    if path.exists() {
        let evaluation: Evaluation = read_json(&path)?;
        if checkpoint::steps(run).last() == Some(&evaluation.step) {
            return Ok(evaluation);
        }
    }
    open(run, Which::Last, &[], None, &light_device()?)?.evaluate()
}

/// The memory's name, with the experiment's where that differs, and the folder's where both repeat, or a
/// number where that does, too.
fn label(model: &Replicas, all: &[Replicas]) -> String {
    let name = model.experiment.label();
    let several = all
        .iter()
        .any(|m| m.experiment.name != model.experiment.name);
    let base = match several {
        true => format!("{} {name}", model.experiment.name),
        false => name.clone(),
    };
    let alike: Vec<&Replicas> = all
        .iter()
        .filter(|m| m.experiment.name == model.experiment.name && m.experiment.label() == name)
        .collect();
    let same_folder = alike.iter().filter(|m| m.folder == model.folder).count();
    match alike.iter().position(|m| std::ptr::eq(*m, model)) {
        Some(_) if alike.len() > 1 && same_folder == 1 => format!("{base} ({})", model.folder),
        Some(place) if alike.len() > 1 => format!("{base} ({})", place + 1),
        _ => base,
    }
}

fn row(model: &Replicas) -> ModelRow {
    let of = |f: &dyn Fn(&Evaluation) -> f64| {
        Estimate::of(&model.evaluations.iter().map(f).collect::<Vec<_>>())
    };
    let all = |f: &dyn Fn(&Evaluation) -> Option<f64>| {
        Estimate::of_all(model.evaluations.iter().map(f).collect())
    };
    ModelRow {
        model: model.label.clone(),
        seeds: model.seeds.clone(),
        steps: model.evaluations.iter().map(|e| e.step).max().unwrap_or(0),
        bound: of(&|e| e.bound),
        perplexity: all(&|e| e.perplexity),
        free_energy: all(&|e| Some(e.recordings.as_ref()?.free_energy)),
        free_energy_of_recordings: all(&|e| Some(e.recordings.as_ref()?.free_energy_of_recordings)),
        kl_per_step: all(&|e| Some(e.recordings.as_ref()?.kl)),
        bit_error: all(&|e| e.bit_error),
        accuracy: all(&|e| e.accuracy),
        answer_accuracy: all(&|e| e.answer_accuracy),
        kl_last: all(&|e| e.kl_last),
        kl_unpredictable: all(&|e| e.kl_unpredictable),
        kl_ratio: all(&|e| e.kl_ratio),
        generated_nearest: all(&|e| e.generated_recall.map(|r| r.nearest)),
        error_remembered: all(&|e| e.generated_recall.map(|r| r.error_remembered)),
        error_others: all(&|e| e.generated_recall.map(|r| r.error_others)),
        generated_digits: all(&|e| e.generated_digits.map(|d| d.accuracy)),
        map_coherence: all(&|e| e.map_coherence),
    }
}

/// A number of a model.
type Column = fn(&ModelRow) -> Option<Estimate>;

/// A value of one logged step.
type Value = fn(&Metrics) -> Option<f32>;

/// A value of one evaluation at a checkpoint.
type HeldOutValue = fn(&HeldOut) -> Option<f64>;

impl Comparison {
    /// One row a model.
    pub fn rows(&self) -> &[ModelRow] {
        &self.rows
    }

    /// The rows as a Markdown table; numbers that no row has are left out.
    pub fn table(&self) -> String {
        let columns: [(&str, usize, Column); 15] = [
            ("perplexity", 2, |row| row.perplexity),
            ("free energy a step", 3, |row| row.free_energy),
            ("of recordings", 3, |row| row.free_energy_of_recordings),
            ("KL a step", 3, |row| row.kl_per_step),
            ("bound", 1, |row| {
                row.perplexity.is_none().then_some(row.bound)
            }),
            ("bit error", 4, |row| row.bit_error),
            ("accuracy", 4, |row| row.accuracy),
            ("whole answers", 4, |row| row.answer_accuracy),
            ("last KL", 2, |row| row.kl_last),
            ("KL unpredictable", 2, |row| row.kl_unpredictable),
            ("KL ratio", 3, |row| row.kl_ratio),
            ("generated nearest", 3, |row| row.generated_nearest),
            ("error remembered", 4, |row| row.error_remembered),
            ("right digit", 3, |row| row.generated_digits),
            ("map coherence", 3, |row| row.map_coherence),
        ];
        let present = columns
            .into_iter()
            .filter(|(_, _, value)| self.rows.iter().any(|row| value(row).is_some()));
        let present: Vec<_> = present.collect();
        let mut text = String::from("| model | seeds | updates |");
        for (name, _, _) in &present {
            text.push_str(&format!(" {name} |"));
        }
        text.push_str(&format!("\n|{}\n", " --- |".repeat(3 + present.len())));
        for row in &self.rows {
            let seeds: Vec<String> = row.seeds.iter().map(u64::to_string).collect();
            let seeds = seeds.join(", ");
            text.push_str(&format!("| {} | {seeds} | {} |", row.model, row.steps));
            for (_, digits, value) in &present {
                let value = value(row).map_or("-".to_owned(), |estimate| estimate.text(*digits));
                text.push_str(&format!(" {value} |"));
            }
            text.push('\n');
        }
        text
    }

    /// Draws bound, last-frame KL and KL per step of all models into one picture; for the copy task
    /// bit error and bound of held-out strings, for classes and programs accuracy and bound, for texts perplexity, for recordings the free energy of those held out.
    /// Bands are standard errors over replicas.
    pub fn draw(&self, out: &Path) -> Result<(), LabError> {
        let over_training = |value: Value| -> Vec<Series> {
            self.models
                .iter()
                .map(|model| replica_series(&model.label, &training_curves(model, value)))
                .collect()
        };
        let held_out = |value: HeldOutValue| -> Vec<Series> {
            let curve = |rows: &Vec<HeldOut>| -> Vec<(f64, f64)> {
                let points = rows.iter();
                points
                    .filter_map(|row| Some((row.step as f64, value(row)?)))
                    .collect()
            };
            self.models
                .iter()
                .map(|model| {
                    let curves: Vec<_> = model.held_out.iter().map(curve).collect();
                    replica_series(&model.label, &curves)
                })
                .collect()
        };
        let per_step = || {
            self.models
                .iter()
                .map(|model| {
                    let curves: Vec<Vec<(f64, f64)>> = model
                        .evaluations
                        .iter()
                        .map(|e| {
                            (1..)
                                .map(f64::from)
                                .zip(e.kl_per_step.iter().copied())
                                .collect()
                        })
                        .collect();
                    replica_series(&model.label, &curves)
                })
                .collect()
        };
        let task = self.models.first().map(|model| &model.experiment.task);
        let charts = match task.map(|task| task.name.kind()) {
            Some(TaskKind::Copy) => vec![
                bit_error_chart(held_out(|row| row.bit_error)),
                bound_chart(held_out(|row| Some(row.bound))),
            ],
            Some(TaskKind::Recordings) => {
                vec![free_energy_chart(held_out(|row| row.free_energy))]
            }
            Some(TaskKind::Words) => {
                vec![perplexity_chart(held_out(|row| Some((-row.bound).exp())))]
            }
            Some(TaskKind::Classes) => {
                let chance = task.map_or(0.0, |task| 1.0 / task.vectors as f64);
                vec![
                    accuracy_chart(held_out(|row| row.accuracy), chance),
                    bound_chart(held_out(|row| Some(row.bound))),
                ]
            }
            Some(TaskKind::Programs) => vec![
                character_accuracy_chart(held_out(|row| row.accuracy)),
                bound_chart(held_out(|row| Some(row.bound))),
            ],
            _ => vec![
                kl_per_step_chart(per_step(), self.recall.clone()),
                last_kl_chart(over_training(|row| row.kl_last)),
                bound_chart(over_training(|row| Some(row.bound))),
            ],
        };
        let layout = Layout {
            columns: 1,
            ..Layout::default()
        };
        write_png(out, &chart::png(&charts, &layout, 2)?)
    }
}

/// Curves of the replicas, each smoothed over 1% of its rows so that models can be told apart.
fn training_curves(model: &Replicas, value: Value) -> Vec<Vec<(f64, f64)>> {
    // One width for all, so that the replicas' points are of the same updates.
    let longest = model.metrics.iter().map(Vec::len).max().unwrap_or(0);
    let width = (longest / 100).max(1);
    model
        .metrics
        .iter()
        .map(|rows| {
            rows.chunks(width)
                .filter_map(|chunk| {
                    let values: Option<Vec<f32>> = chunk.iter().map(value).collect();
                    let sum: f64 = values?.into_iter().map(f64::from).sum();
                    Some((chunk.last()?.step as f64, sum / chunk.len() as f64))
                })
                .collect()
        })
        .collect()
}

/// Mean of curves over the points that all have, with a band of one standard error.
fn replica_series(label: &str, curves: &[Vec<(f64, f64)>]) -> Series {
    let length = curves.iter().map(Vec::len).min().unwrap_or(0);
    let mut points = Vec::with_capacity(length);
    let mut band = Vec::with_capacity(length);
    for index in 0..length {
        let values: Vec<f64> = curves
            .iter()
            .filter_map(|c| Some(c.get(index)?.1))
            .collect();
        let estimate = Estimate::of(&values);
        let x = curves
            .first()
            .and_then(|c| c.get(index))
            .map_or(0.0, |p| p.0);
        let stderr = estimate.stderr.unwrap_or(0.0);
        points.push((x, estimate.value));
        band.push((estimate.value - stderr, estimate.value + stderr));
    }
    Series {
        label: label.to_owned(),
        points,
        band: (curves.len() > 1).then_some(band),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::write_json;

    /// Two finished runs whose images lie nowhere any more.
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
            std::fs::create_dir_all(checkpoint::directory(&run, 3)).unwrap();
            std::fs::write(run.join(EXPERIMENT_FILE), experiment.to_toml().unwrap()).unwrap();
            let evaluation = Evaluation {
                step: 3,
                bound: -(seed as f64),
                ..Evaluation::default()
            };
            write_json(&run.join(EVALUATION_FILE), &evaluation).unwrap();
            run
        });
        let found = compare(&runs).unwrap();
        assert_eq!(found.recall, Some(5..7));
        assert_eq!(found.rows().len(), 1);
        assert_eq!(found.rows()[0].bound.value, -1.5);
    }
}
