//! Training a run, from its start or a checkpoint, up to its report.

use crate::{
    Experiment, LabError,
    experiment::{gallery::Gallery, presets::BOOKKEEPING},
    kept::keep,
    open::{Which, prepare, prepare_run, read_experiment, report_damage, threads_of, to_look_at},
    present,
};
use mnemora_training::{
    Begun, Error, Finished, Outcome, RunContext,
    checkpoint::{self, Checkpoint, State},
    device::device_words,
    run::{Change, Origin, Run, kernels_word, new_identity, read_metrics},
    say::note,
    shell::quoted,
};
use std::{io::ErrorKind, path::Path};

/// Trains an experiment in a new directory.
///
/// # Errors
/// If the directory is taken, `training.steps` is 0, the data cannot be read, training takes more memory than there
/// is, a file cannot be written, or an update fails.
pub fn train(
    experiment: Experiment,
    directory: &Path,
    data: Option<&Path>,
    context: &RunContext,
) -> Result<Outcome, LabError> {
    train_from(experiment, directory, data, None, context)
}

/// The first weights of a training.
#[derive(Clone, Copy, Debug)]
pub struct FirstWeights<'a> {
    /// The run that has them.
    pub run: &'a Path,
    /// The checkpoint.
    pub which: Which,
}

/// As [`train`], but starts with the weights of a run, whose model must be the same. They become the checkpoint of step 0; an
/// experiment with `training.steps` 0 evaluates them as they are.
///
/// # Errors
/// As [`train`]; also if the weights cannot be read, or are of another model.
pub fn train_from(
    mut experiment: Experiment,
    directory: &Path,
    data: Option<&Path>,
    weights: Option<FirstWeights>,
    context: &RunContext,
) -> Result<Outcome, LabError> {
    if experiment.training.steps == 0 && weights.is_none() {
        return Err(LabError::Configuration(
            "training.steps is 0, it must be at least 1 unless --weights or --from names a run"
                .into(),
        ));
    }
    let threads = threads_of(&experiment)?;
    let device = context.device.clone().autodiff();
    let (words, mut learner) = threads.run(|| prepare(&mut experiment, data, &device))?;
    let first = weights.map(|weights| first_weights(weights, &experiment, learner.as_mut()));
    let origin = Origin {
        weights: first.transpose()?,
        command: context.command.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: context.commit.clone(),
        machine: mnemora_training::machine::describe(),
        device: device_words(&context.device),
        threads: threads.count(),
        kernels: kernels_word(),
        parameters: learner.sizes().first().map_or(0, |(_, count)| *count),
        data: words,
        identity: new_identity()?,
        ..Origin::default()
    };
    let mut run = Run::create(directory, &experiment.to_toml()?, origin)
        .map_err(|error| taken(error, &experiment))?;
    if let Some(file) = learner.kept_data() {
        keep(&run, file)?;
    }
    if !context.quiet {
        for line in learner.notes() {
            note(format_args!("mnemora: {line}"));
        }
    }
    let state = State::start(experiment.label(), experiment.seed, &run.origin().identity);
    if weights.is_some() {
        // A run that has lost it cannot start again by itself.
        run.record_saved()?;
        let (back, start) = threads.run(|| {
            let start = Checkpoint::of(learner.as_ref(), &state);
            Ok::<_, LabError>((learner, start))
        })?;
        learner = back;
        checkpoint::save(run.directory(), &start)?;
    }
    let metrics = run.metrics(|_| true)?;
    let begun = Begun {
        run,
        state,
        metrics,
    };
    threads.run(|| go_on(begun, &experiment, learner, context))
}

/// The checkpoint of another run whose weights a training begins with.
///
/// # Errors
/// If there is none, or its model is another.
pub fn first_checkpoint(
    FirstWeights { run, which }: FirstWeights,
    experiment: &Experiment,
) -> Result<Checkpoint, LabError> {
    if !run.is_dir() {
        return Err(Error::NoRun(run.to_owned()).into());
    }
    let found = to_look_at(
        run,
        which.settled(experiment),
        experiment.family().quantities(),
    )?;
    match found.state.memory == experiment.label() {
        true => Ok(found),
        false => Err(LabError::Configuration(format!(
            "{}: its model is {}, not {}",
            run.display(),
            found.state.memory,
            experiment.label()
        ))),
    }
}

/// Loads the weights of another run into a learner, and says which they are.
fn first_weights(
    weights: FirstWeights,
    experiment: &Experiment,
    learner: &mut dyn Gallery,
) -> Result<String, LabError> {
    let run = weights.run;
    let found = first_checkpoint(weights, experiment)?;
    let step = found.state.step;
    found.check_vocabulary(run, learner.vocabulary().as_deref())?;
    let path = checkpoint::weights_file(run, step);
    learner.restore(found.snapshot, &path)?;
    Ok(format!(
        "{} (run {}, SHA-256 {})",
        path.display(),
        found.state.identity,
        checkpoint::weights_sha256(run, step)?
    ))
}

/// If the run already exists: it can be resumed instead only if it is of the same experiment.
fn taken(error: Error, experiment: &Experiment) -> LabError {
    let Error::RunExists(directory) = &error else {
        return error.into();
    };
    let differences = read_experiment(directory, &[])
        .and_then(|found| found.differences(experiment))
        .map(|changes| {
            let told = changes.into_iter();
            let told = told.filter(|change| !BOOKKEEPING.contains(&change.key.as_str()));
            told.collect::<Vec<_>>()
        });
    match differences.as_deref() {
        Ok([change]) if change.key == "training.steps" => LabError::Configuration(format!(
            "{0} already exists, with training.steps={1}; continue to {2} with `mnemora resume {0} --set \
             training.steps={2}` or choose another --out",
            directory.display(),
            change.before,
            change.after
        )),
        Ok([change, ..]) => LabError::Configuration(format!(
            "{} already holds another experiment ({} is {}, not {}); choose another --out",
            directory.display(),
            change.key,
            change.before,
            change.after
        )),
        _ => error.into(),
    }
}

/// Continues a run from its newest intact checkpoint. `overrides` may change keys that are not fixed during a training:
/// those of `training` (except `training.batch`) and `evaluation`.
///
/// # Errors
/// If this is not a run or another process is using it, an override is not allowed, the data are not those of the run,
/// its checkpoints are lost, damaged or without the optimiser's state, or device, kernels or threads differ from before
/// and `context.continue_differently` is not set. Also as [`train`].
pub fn resume(
    directory: &Path,
    overrides: &[String],
    data: Option<&Path>,
    context: &RunContext,
) -> Result<Outcome, LabError> {
    let before = read_experiment(directory, &[])?;
    let mut experiment = read_experiment(directory, overrides)?;
    let may_change = |key: &str| {
        key.starts_with("evaluation.") || key.starts_with("training.") && key != "training.batch"
    };
    if let Some(key) = before.first_change(&experiment, may_change)? {
        return Err(LabError::Configuration(format!(
            "{key} cannot change in a run; --set may change keys of training, except \
             training.batch, and keys of evaluation"
        )));
    }
    experiment.refuse_unread(overrides)?;
    let threads = threads_of(&experiment)?;
    let device = context.device.clone().autodiff();
    let mut learner = threads.run(|| prepare_run(directory, &mut experiment, data, &device))?;
    let mut run = Run::open(directory)?;
    let mut state = match checkpoint::load_latest(directory) {
        Ok((found, problems)) => {
            let step = found.state.step;
            found
                .state
                .check(directory, &experiment.label(), experiment.seed)?;
            found.check_vocabulary(directory, learner.vocabulary().as_deref())?;
            if step > 0 && found.snapshot.optimiser.is_empty() {
                return Err(LabError::Configuration(format!(
                    "{} was exported without the optimiser's state: it can be looked at, not \
                     trained on",
                    directory.display()
                )));
            }
            report_damage(&problems, step);
            let weights = checkpoint::weights_file(directory, step);
            let identified = found.state.check_identity(directory, run.origin());
            learner.restore(found.snapshot, &weights)?;
            identified?;
            found.state
        }
        // Stopped before its first checkpoint: start again.
        Err(Error::NoCheckpoint { .. }) if checkpoint::steps(directory).is_empty() => {
            refuse_lost_checkpoints(&run, &before)?;
            State::start(experiment.label(), experiment.seed, &run.origin().identity)
        }
        Err(error) => return Err(error.into()),
    };
    let differently = differences(run.origin(), &state, context, threads.count());
    if !differently.is_empty() && !context.continue_differently {
        return Err(LabError::Configuration(format!(
            "{} would not continue bit for bit: {}; restore the old value, or continue anyway with \
             `mnemora resume {} --continue-differently`",
            directory.display(),
            differently.join(", "),
            quoted(&directory.display().to_string())
        )));
    }
    if experiment.training.steps < state.step {
        return Err(LabError::Configuration(format!(
            "training.steps is {}, it must be at least {}: that many updates are already made",
            experiment.training.steps, state.step
        )));
    }
    // Drop the row of the previous last step, unless it would be logged anyway.
    let old = &before.training;
    let extra = (experiment.training.steps > old.steps
        && old.steps != 1
        && !old.steps.is_multiple_of(old.log_every))
    .then_some(old.steps);
    let metrics = run.metrics(|step| step <= state.step && Some(step) != extra)?;
    if run.origin().identity.is_empty() || state.step > 0 && state.identity.is_empty() {
        note(format_args!(
            "mnemora: {} was made by a version without run identities; assuming that its checkpoint step-{} is its own",
            directory.display(),
            state.step
        ));
    }
    if !differently.is_empty() {
        note(format_args!(
            "mnemora: continues differently ({}): numbers will not be bit for bit those of an uninterrupted run",
            differently.join(", ")
        ));
    }
    // The location of the data is not a setting.
    let other_settings = before.first_change(&experiment, |key| key.starts_with("data."))?;
    let change = (other_settings.is_some() || !differently.is_empty()).then(|| Change {
        after_step: state.step,
        command: context.command.clone(),
        differently,
    });
    run.record(&experiment.to_toml()?, change)?;
    state.identity.clone_from(&run.origin().identity);
    let begun = Begun {
        run,
        state,
        metrics,
    };
    threads.run(|| go_on(begun, &experiment, learner, context))
}

/// Returns an error if a run has lost its checkpoints: it would start again and overwrite what it logged.
fn refuse_lost_checkpoints(run: &Run, experiment: &Experiment) -> Result<(), LabError> {
    let settings = &experiment.training;
    let first = settings.checkpoint_every.min(settings.steps);
    let logged = read_metrics(run.directory())?
        .last()
        .map_or(0, |row| row.step);
    // Runs of earlier versions do not record whether they saved anything. The row of a step is written before its
    // checkpoint.
    if !run.origin().saved && logged <= first {
        return Ok(());
    }
    Err(LabError::Configuration(format!(
        "{} has lost its checkpoints (its metrics reach step {logged}) and cannot continue: put them back, or train it \
         again under another --out",
        run.directory().display()
    )))
}

/// Changes of device, kernels and number of threads, which would change the numbers of a resumed run. Compares with the
/// checkpoint or, if there is none, with the run's origin, as far as earlier versions recorded them.
fn differences(
    origin: &Origin,
    state: &State,
    context: &RunContext,
    threads_now: usize,
) -> Vec<String> {
    let (device, kernels, threads) = match state.step {
        0 => (&origin.device, &origin.kernels, origin.threads),
        _ => (&state.device, &state.kernels, state.threads),
    };
    let mut found = Vec::new();
    for (what, before, now) in [
        ("the device", device, device_words(&context.device)),
        ("MNEMORA_KERNELS", kernels, kernels_word()),
    ] {
        if !before.is_empty() && *before != now {
            found.push(format!("{what} was {before}, is {now}"));
        }
    }
    if threads > 0 && threads != threads_now {
        found.push(format!(
            "the number of threads was {threads}, is {threads_now}"
        ));
    }
    found
}

/// Makes the remaining updates, then evaluates and writes the report.
fn go_on(
    begun: Begun,
    experiment: &Experiment,
    mut learner: Box<dyn Gallery>,
    context: &RunContext,
) -> Result<Outcome, LabError> {
    let mut said = false;
    mnemora_training::train(
        begun,
        &experiment.training,
        experiment.family().quantities(),
        learner.as_mut(),
        context,
        // A page that cannot be written is no reason to stop a training; the report after it is.
        |standing| {
            if let Err(error) = present::write_progress(experiment, &standing)
                && !gone(&error, standing.run)
                && !context.quiet
                && !std::mem::replace(&mut said, true)
            {
                note(format_args!(
                    "mnemora: the report during training is incomplete: {error}"
                ));
            }
        },
        |learner, run, state, evaluation| {
            let check = || Ok(run.check()?);
            let generated = present::write_report(
                run.directory(),
                experiment,
                learner,
                evaluation,
                state,
                &check,
            )?;
            Ok(Finished {
                size: (generated.width(), generated.height()),
                png: generated.png_bytes()?,
            })
        },
    )
}

/// Whether a run is no longer ours, or is just being removed. The next write of the training says so.
fn gone(error: &LabError, run: &Run) -> bool {
    let missing = match error {
        LabError::Training(Error::Read { source, .. } | Error::Write { source, .. }) => {
            source.kind() == ErrorKind::NotFound
        }
        _ => false,
    };
    missing || run.check().is_err()
}
