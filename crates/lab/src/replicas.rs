//! Replicas: one experiment under several seeds in one directory, trained by one or more processes.

use crate::{
    Experiment, LabError,
    open::{plan, read_experiment},
    train::{resume, train},
};
use mnemora_training::{
    Error, Outcome, Row, RunContext, checkpoint,
    run::{EVALUATION_FILE, EXPERIMENT_FILE, read_json},
    say::note,
};
use std::path::{Path, PathBuf};

/// How a call to [`train_replicas`] ended.
#[derive(Debug)]
pub enum ReplicasOutcome {
    /// All replicas are trained; these are their runs.
    Finished(Vec<PathBuf>),
    /// This process has nothing left to do; others are still training these runs.
    Elsewhere(Vec<PathBuf>),
    /// A signal stopped the replica in training, after this checkpoint was written.
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

/// The run of the replica with a seed.
pub fn replica(directory: &Path, seed: u64) -> PathBuf {
    directory.join(format!("seed{seed}"))
}

/// Trains `count` replicas of an experiment, with its seed and the following ones, each in its own run below
/// `directory`.
///
/// A second call continues: trained replicas stay, an unfinished one is resumed. Several processes may use the same
/// directory; each takes the next replica that no other process has.
///
/// # Errors
/// The errors of a training. A number that is not finite is reported after the other replicas are trained. Also if the
/// directory holds a replica of another experiment or of other data.
pub fn train_replicas(
    experiment: &Experiment,
    directory: &Path,
    count: u64,
    data: Option<&Path>,
    context: &RunContext,
) -> Result<ReplicasOutcome, LabError> {
    if directory.join(EXPERIMENT_FILE).exists() {
        return Err(LabError::Configuration(format!(
            "{} is itself a run; name a folder for the replicas",
            directory.display()
        )));
    }
    // Seeds are written as signed numbers.
    let last = experiment.seed.checked_add(count.saturating_sub(1));
    if last.is_none_or(|last| i64::try_from(last).is_err()) {
        return Err(LabError::Configuration(format!(
            "seed is {}, but for {count} replicas with consecutive seeds it must be at most {}",
            experiment.seed,
            i64::MAX as u64 - count.saturating_sub(1)
        )));
    }
    // Includes the fingerprint of the data, so that replicas on other data differ.
    let experiment = plan(experiment.clone(), data)?.experiment;
    let mut runs = Vec::new();
    let mut elsewhere = Vec::new();
    let mut failed = None;
    for seed in experiment.seed..experiment.seed.saturating_add(count) {
        let run = replica(directory, seed);
        let experiment = Experiment {
            seed,
            ..experiment.clone()
        };
        let outcome = match begun(&experiment, &run)? {
            Begun::Trained => {
                runs.push(run);
                continue;
            }
            Begun::Partly => resume(&run, &[], data, context),
            Begun::Not => train(experiment, &run, data, context),
        };
        match outcome {
            Ok(Outcome::Finished(_)) => runs.push(run),
            Ok(Outcome::Interrupted { signal, .. }) => {
                return Ok(ReplicasOutcome::Interrupted { signal });
            }
            // Another process was faster.
            Err(LabError::Training(Error::RunLocked(_) | Error::RunExists(_))) => {
                elsewhere.push(run)
            }
            // A seed that diverges does not stop the training of the others.
            Err(error @ LabError::Training(Error::NonFinite { .. })) => {
                note(format_args!("mnemora: {}: {error}", run.display()));
                failed = failed.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(match elsewhere.is_empty() {
        true => ReplicasOutcome::Finished(runs),
        false => ReplicasOutcome::Elsewhere(elsewhere),
    })
}

/// The progress of a replica.
enum Begun {
    Not,
    Partly,
    Trained,
}

/// The progress of a replica's run; an error if it is of another experiment.
fn begun(experiment: &Experiment, run: &Path) -> Result<Begun, LabError> {
    let found = match read_experiment(run, &[]) {
        Err(LabError::Training(Error::NoRun(_))) => return Ok(Begun::Not),
        found => found?,
    };
    let may_change = |key: &str| key == "data.directory";
    if let Some(key) = found.first_change(experiment, may_change)? {
        return Err(LabError::Configuration(format!(
            "{} holds a replica with another {key}; choose another --out",
            run.display()
        )));
    }
    let evaluated = run.join(EVALUATION_FILE);
    if !evaluated.exists() {
        return Ok(Begun::Partly);
    }
    let evaluation: Row = read_json(&evaluated)?;
    let whole = evaluation.step == experiment.training.steps
        && checkpoint::steps(run).last() == Some(&evaluation.step);
    Ok(if whole { Begun::Trained } else { Begun::Partly })
}
