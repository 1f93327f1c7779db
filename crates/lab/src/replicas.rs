//! Replicas: one experiment under several seeds, in one directory, by one process or by several.

use crate::{
    Evaluation, Experiment, LabError, Outcome, Surroundings, checkpoint,
    open::plan,
    run::{EVALUATION_FILE, EXPERIMENT_FILE, read_experiment, read_json},
    say::note,
    train::{resume, train},
};
use std::path::{Path, PathBuf};

/// How a call to [`train_replicas`] ended.
#[derive(Debug)]
pub enum ReplicasOutcome {
    /// All replicas are trained; their runs.
    Finished(Vec<PathBuf>),
    /// This process has nothing left to do, others still train these runs.
    Elsewhere(Vec<PathBuf>),
    /// A signal stopped the replica in training after a checkpoint.
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

/// Where the replica of a seed lies.
pub fn replica(directory: &Path, seed: u64) -> PathBuf {
    directory.join(format!("seed{seed}"))
}

/// Trains `count` replicas of an experiment, with its seed and the ones after it, each in a run
/// of its own below `directory`.
///
/// Called again it goes on where it stopped: trained replicas stay, a begun one is resumed. Several
/// processes may be given the same directory; each takes the next replica that no other has.
///
/// # Errors
/// Those of a training, a number that is not finite after the other replicas are trained; and if the
/// directory holds a replica of another experiment or of other data.
pub fn train_replicas(
    experiment: &Experiment,
    directory: &Path,
    count: u64,
    data: Option<&Path>,
    surroundings: &Surroundings,
) -> Result<ReplicasOutcome, LabError> {
    if directory.join(EXPERIMENT_FILE).exists() {
        return Err(LabError::Configuration(format!(
            "{} is a run itself; name a folder for the replicas",
            directory.display()
        )));
    }
    // Seeds are written as signed numbers.
    let last = experiment.seed.checked_add(count.saturating_sub(1));
    if last.is_none_or(|last| i64::try_from(last).is_err()) {
        return Err(LabError::Configuration(format!(
            "seed is {}, and {count} replicas take the seeds from there on: it must be at most {}",
            experiment.seed,
            i64::MAX as u64 - count.saturating_sub(1)
        )));
    }
    // With the fingerprint of the data, so that replicas on other data are told apart.
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
            Begun::Partly => resume(&run, &[], data, surroundings),
            Begun::Not => train(experiment, &run, data, surroundings),
        };
        match outcome {
            Ok(Outcome::Finished(_)) => runs.push(run),
            Ok(Outcome::Interrupted { signal, .. }) => {
                return Ok(ReplicasOutcome::Interrupted { signal });
            }
            // Another process was quicker.
            Err(LabError::RunLocked(_) | LabError::RunExists(_)) => elsewhere.push(run),
            // One seed that diverges does not keep the others from training.
            Err(error @ LabError::NonFinite { .. }) => {
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

/// How far a replica is.
enum Begun {
    Not,
    Partly,
    Trained,
}

/// How far the run of a replica is; refuses one of another experiment.
fn begun(experiment: &Experiment, run: &Path) -> Result<Begun, LabError> {
    let found = match read_experiment(run, &[]) {
        Err(LabError::NoRun(_)) => return Ok(Begun::Not),
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
    let evaluation: Evaluation = read_json(&evaluated)?;
    let whole = evaluation.step == experiment.training.steps
        && checkpoint::steps(run).last() == Some(&evaluation.step);
    Ok(if whole { Begun::Trained } else { Begun::Partly })
}
