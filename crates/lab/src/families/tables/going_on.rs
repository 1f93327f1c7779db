//! Training that goes on with another table, from the weights of a run.

use crate::{Experiment, LabError, open::read_experiment};
use std::path::Path;

/// The learning rate of a model that goes on with other data, relative to that of its run: there may be few, and what it has
/// learned should last.
const SLOWER: f64 = 0.1;

/// The experiment of a run, to go on with the table `file`: the same model of the same columns.
///
/// # Errors
/// The run is not of a table, or `overrides` change more than the training, the evaluation and how the file is read.
pub fn going_on(run: &Path, file: &Path, overrides: &[String]) -> Result<Experiment, LabError> {
    let before = read_experiment(run, &[])?;
    if !before.family().judges_other_data() {
        return Err(LabError::Configuration(format!(
            "--from {}: its task is {}, and only models of tables go on with a file; start another experiment with its \
             weights by --weights",
            run.display(),
            before.task.name.as_str()
        )));
    }
    let settings = &before.training;
    let defaults = [
        "table.window=0".to_owned(),
        "table.horizon=0".to_owned(),
        format!(
            "training.learning_rate={:e}",
            SLOWER * settings.learning_rate
        ),
        format!(
            "training.final_learning_rate={:e}",
            SLOWER * settings.final_learning_rate
        ),
    ];
    let overrides: Vec<String> = defaults.iter().chain(overrides).cloned().collect();
    let mut experiment = read_experiment(run, &overrides)?;
    let may_change = |key: &str| {
        const READING: [&str; 10] = [
            "seed",
            "table.window",
            "table.horizon",
            "table.origins",
            "table.samples",
            "table.dropped",
            "table.division",
            "table.time",
            "table.sequence",
            "table.leave_out",
        ];
        key.starts_with("training.") || key.starts_with("evaluation.") || READING.contains(&key)
    };
    if let Some(key) = before.first_change(&experiment, may_change)? {
        return Err(LabError::Configuration(format!(
            "{key} cannot change with --from: the weights belong to the run's model and to how it sees the columns"
        )));
    }
    experiment.refuse_unread(&overrides)?;
    let absolute = file
        .canonicalize()
        .map_err(|error| LabError::read(file, error))?;
    experiment.data.directory = absolute.display().to_string();
    experiment.data.fingerprint.clear();
    Ok(experiment)
}
