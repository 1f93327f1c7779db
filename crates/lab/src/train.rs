//! Training a run from its start or from a checkpoint to its end.

use crate::{
    Experiment, LabError,
    checkpoint::{self, Checkpoint, HeldOut, State},
    device::device_words,
    evaluate::{CHECKPOINT_EVALUATION, EVALUATION, Evaluation},
    learner::{Learner, StepFailure},
    open::{prepare, report_damage},
    present,
    progress::Progress,
    run::{
        Change, EVALUATION_FILE, Metrics, MetricsWriter, Origin, Run, kernels_word, new_identity,
        read_experiment, read_metrics, write_json,
    },
    say::note,
    shell::quoted,
    tensorboard::EventWriter,
    threads::Threads,
};
use burn::tensor::Device;
use std::{
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

/// What the surroundings of a training say and hear.
pub struct Surroundings<'a> {
    /// The number of a signal that asks to stop, once there is one.
    pub interrupted: &'a (dyn Fn() -> Option<i32> + Sync),
    /// Told when all updates are saved and only evaluation and report are left, so that to stop loses
    /// nothing, and when a training begins, where that is not so.
    pub all_saved: &'a (dyn Fn(bool) + Sync),
    /// Whether to say nothing on standard error.
    pub quiet: bool,
    /// The exact command, for the report, after the environment variables that decide the numbers.
    pub command: String,
    /// Commit that the program was built from.
    pub commit: String,
    /// What tensors are on.
    pub device: Device,
    /// Whether a resumed run may go on with another device, number of threads or other kernels, and so not bit for
    /// bit as one that was never stopped.
    pub continue_differently: bool,
}

/// How a training ended.
#[derive(Debug)]
pub enum Outcome {
    /// All steps were made.
    Finished(Box<Evaluation>),
    /// A signal stopped it after this checkpoint was written.
    Interrupted {
        /// The signal.
        signal: i32,
        /// Where training goes on from.
        checkpoint: PathBuf,
    },
}

/// Trains an experiment in a new directory.
pub fn train(
    mut experiment: Experiment,
    directory: &Path,
    data: Option<&Path>,
    surroundings: &Surroundings,
) -> Result<Outcome, LabError> {
    let threads = Threads::of(&experiment)?;
    let device = surroundings.device.clone().autodiff();
    let (words, learner) = threads.run(|| prepare(&mut experiment, data, &device))?;
    let origin = Origin {
        command: surroundings.command.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: surroundings.commit.clone(),
        machine: crate::machine::describe(),
        device: device_words(&surroundings.device),
        threads: threads.count(),
        kernels: kernels_word(),
        parameters: learner.parameters().first().map_or(0, |(_, count)| *count),
        data: words,
        identity: new_identity()?,
        ..Origin::default()
    };
    let run =
        Run::create(directory, &experiment, origin).map_err(|error| taken(error, &experiment))?;
    if !surroundings.quiet {
        for line in learner.notes() {
            note(format_args!("mnemora: {line}"));
        }
    }
    let state = State::start(&experiment, &run.origin().identity);
    let metrics = run.metrics(|_| true)?;
    threads.run(|| go_on(run, &experiment, learner, state, metrics, surroundings))
}

/// A run that exists already can be resumed in place of the new one only if it is of the same experiment.
fn taken(error: LabError, experiment: &Experiment) -> LabError {
    let LabError::RunExists(directory) = &error else {
        return error;
    };
    let no_part = [
        "name",
        "description",
        "data.directory",
        "data.max_bytes",
        "data.max_unpacked_bytes",
    ];
    let differences = read_experiment(directory, &[])
        .and_then(|found| found.changes(experiment))
        .map(|changes| {
            let told = changes.into_iter();
            let told = told.filter(|change| !no_part.contains(&change.key.as_str()));
            told.collect::<Vec<_>>()
        });
    match differences.as_deref() {
        Ok([change]) if change.key == "training.steps" => LabError::Configuration(format!(
            "{0} exists already, with {1} of training.steps; go on to {2} with `mnemora resume {0} --set \
             training.steps={2}` or choose another --out",
            directory.display(),
            change.before,
            change.after
        )),
        Ok([change, ..]) => LabError::Configuration(format!(
            "{} holds another experiment already, whose {} is {}, not {}; choose another --out",
            directory.display(),
            change.key,
            change.before,
            change.after
        )),
        _ => error,
    }
}

/// Goes on with a run from its newest whole checkpoint. `overrides` may change what a training
/// can change in the middle: keys of `training` and `evaluation`.
pub fn resume(
    directory: &Path,
    overrides: &[String],
    data: Option<&Path>,
    surroundings: &Surroundings,
) -> Result<Outcome, LabError> {
    let before = read_experiment(directory, &[])?;
    let mut experiment = read_experiment(directory, overrides)?;
    let may_change = |key: &str| {
        key.starts_with("evaluation.") || key.starts_with("training.") && key != "training.batch"
    };
    if let Some(key) = before.first_change(&experiment, may_change)? {
        return Err(LabError::Configuration(format!(
            "{key} cannot change in a run; --set may change keys of training, but for \
             training.batch, and of evaluation"
        )));
    }
    experiment.refuse_unread(overrides)?;
    let threads = Threads::of(&experiment)?;
    let device = surroundings.device.clone().autodiff();
    let (_, mut learner) = threads.run(|| prepare(&mut experiment, data, &device))?;
    let mut run = Run::open(directory)?;
    let mut state = match checkpoint::load_latest(directory) {
        Ok((found, problems)) => {
            let step = found.state.step;
            found.state.check(directory, &experiment)?;
            found.check_vocabulary(directory, learner.as_ref())?;
            if step > 0 && found.optimizer.is_empty() {
                return Err(LabError::Configuration(format!(
                    "{} was exported without the optimiser's state: it can be looked at, not \
                     trained on",
                    directory.display()
                )));
            }
            report_damage(&problems, step);
            let weights = checkpoint::weights_file(directory, step);
            learner.restore(found.weights, Some(found.optimizer), &weights)?;
            found.state.check_identity(directory, run.origin())?;
            found.state
        }
        // Stopped before its first checkpoint: from the start again.
        Err(LabError::NoCheckpoint { .. }) if checkpoint::steps(directory).is_empty() => {
            refuse_lost_checkpoints(&run, &before)?;
            State::start(&experiment, &run.origin().identity)
        }
        Err(error) => return Err(error),
    };
    run.check_unedited(&before)?;
    let differently = differences(run.origin(), &state, surroundings, threads.count());
    if !differently.is_empty() && !surroundings.continue_differently {
        return Err(LabError::Configuration(format!(
            "{} would not go on bit for bit: {}; set it as it was, or go on all the same with \
             `mnemora resume {} --continue-differently`",
            directory.display(),
            differently.join(", "),
            quoted(&directory.display().to_string())
        )));
    }
    if experiment.training.steps < state.step {
        return Err(LabError::Configuration(format!(
            "training.steps is {}, it must be at least {}: so many updates are made already",
            experiment.training.steps, state.step
        )));
    }
    // The row of a last step that is not the last any more goes, if no other rule logged it.
    let old = &before.training;
    let extra = (experiment.training.steps > old.steps
        && old.steps != 1
        && !old.steps.is_multiple_of(old.log_every))
    .then_some(old.steps);
    let metrics = run.metrics(|row| row.step <= state.step && Some(row.step) != extra)?;
    if run.origin().identity.is_empty() || state.step > 0 && state.identity.is_empty() {
        note(format_args!(
            "mnemora: {} is of a version that gave runs no identity, its checkpoint step-{} is taken for its own",
            directory.display(),
            state.step
        ));
    }
    if !differently.is_empty() {
        note(format_args!(
            "mnemora: goes on differently ({}): numbers will not be bit for bit those of a run that was never stopped",
            differently.join(", ")
        ));
    }
    // Where the data lie is no setting.
    let other_settings = before.first_change(&experiment, |key| key.starts_with("data."))?;
    let change = (other_settings.is_some() || !differently.is_empty()).then(|| Change {
        after_step: state.step,
        command: surroundings.command.clone(),
        differently,
    });
    run.record(&experiment, change)?;
    state.identity.clone_from(&run.origin().identity);
    threads.run(|| go_on(run, &experiment, learner, state, metrics, surroundings))
}

/// Refuses a run without a checkpoint that has had one: it would begin from the start, over what it logged.
fn refuse_lost_checkpoints(run: &Run, experiment: &Experiment) -> Result<(), LabError> {
    let settings = &experiment.training;
    let first = settings.checkpoint_every.min(settings.steps);
    let logged = read_metrics(run.directory())?
        .last()
        .map_or(0, |row| row.step);
    // Runs of earlier versions do not say whether they saved anything. The row of a step comes before its checkpoint.
    if !run.origin().saved && logged <= first {
        return Ok(());
    }
    Err(LabError::Configuration(format!(
        "{} has lost its checkpoints (its metrics reach step {logged}) and cannot go on: put them back, or train it \
         anew under another --out",
        run.directory().display()
    )))
}

/// On what else than before a run would go on: a device, kernels, a number of threads that give other numbers.
/// A checkpoint says it, or where there is none the run's origin, as far as earlier versions wrote it down.
fn differences(
    origin: &Origin,
    state: &State,
    surroundings: &Surroundings,
    threads_now: usize,
) -> Vec<String> {
    let (device, kernels, threads) = match state.step {
        0 => (&origin.device, &origin.kernels, origin.threads),
        _ => (&state.device, &state.kernels, state.threads),
    };
    let mut found = Vec::new();
    for (what, before, now) in [
        ("the device", device, device_words(&surroundings.device)),
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

fn is_logged(step: u64, experiment: &Experiment) -> bool {
    let settings = &experiment.training;
    step == 1 || step.is_multiple_of(settings.log_every) || step == settings.steps
}

fn wall_time() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// The steps from `state.step` to the last, then evaluation and report. A file that cannot be
/// written is an error that says which checkpoint is intact.
fn go_on(
    mut run: Run,
    experiment: &Experiment,
    learner: Box<dyn Learner>,
    state: State,
    metrics: MetricsWriter,
    surroundings: &Surroundings,
) -> Result<Outcome, LabError> {
    make_steps(&mut run, experiment, learner, state, metrics, surroundings).map_err(|error| {
        match error {
            // Nothing can be written to a folder that is gone.
            LabError::Write { .. } if run.check().is_err() => {
                LabError::RunTaken(run.directory().to_owned())
            }
            LabError::Write { path, source, .. } => {
                let hint = match checkpoint::steps(run.directory()).last() {
                    Some(step) => format!("; checkpoint step-{step} is intact"),
                    None => "; there is no checkpoint yet".to_owned(),
                };
                LabError::Write { path, source, hint }
            }
            other => other,
        }
    })
}

fn make_steps(
    run: &mut Run,
    experiment: &Experiment,
    mut learner: Box<dyn Learner>,
    mut state: State,
    mut metrics: MetricsWriter,
    surroundings: &Surroundings,
) -> Result<Outcome, LabError> {
    let settings = &experiment.training;
    let directory = &run.directory().to_owned();
    let start = state.step;
    (surroundings.all_saved)(false);
    state.threads = rayon::current_num_threads();
    state.device = device_words(&surroundings.device);
    state.kernels = kernels_word();
    run.check()?;
    let mut events = EventWriter::create(directory, start + u64::from(start > 0), wall_time())
        .map_err(|error| LabError::write(directory, error))?;
    let progress = Progress::new(start, settings.steps, surroundings.quiet);
    let clock = Instant::now();
    let elapsed_before = state.elapsed_seconds;

    while state.step < settings.steps {
        let step = state.step + 1;
        let made = learner.step(experiment, step);
        let signal = (surroundings.interrupted)();
        let due = step.is_multiple_of(settings.checkpoint_every) || step == settings.steps;
        let logged = is_logged(step, experiment);
        let looked = made.and_then(|()| match learner.deferred() {
            true if !(logged || due || signal.is_some()) => Ok(None),
            _ => learner.metrics(),
        });
        let row = match looked {
            Ok(row) => row,
            Err(StepFailure::Batch(error)) => return Err(error),
            Err(StepFailure::NonFinite { step, what }) => {
                // Later updates, if any were asked for, were not made.
                state.step = step - 1;
                let before = finite_snapshot(directory, learner.as_ref(), &state)?;
                run.check()?;
                return Err(LabError::NonFinite {
                    step,
                    what,
                    checkpoint: Some(checkpoint::save_failed(directory, &before)?),
                });
            }
        };
        state.step = step;
        state.elapsed_seconds = elapsed_before + clock.elapsed().as_secs_f64();
        if let Some(row) = &row {
            if logged {
                run.check()?;
                metrics.write(row)?;
                log_events(&mut events, row).map_err(|error| LabError::write(directory, error))?;
            }
            progress.step(row);
        }
        // Before the evaluation, of which nothing comes if a parameter is not finite.
        let snapshot = match due || signal.is_some() {
            true => Some(finite_snapshot(directory, learner.as_ref(), &state)?),
            false => None,
        };
        if due {
            let held_out = learner.evaluate(
                experiment,
                step,
                experiment.evaluation.checkpoint_batches,
                CHECKPOINT_EVALUATION,
            )?;
            progress.checkpoint(step, &held_out);
            // One that is no number has no place among the best; the next step's guard names it.
            if held_out.bound.is_finite() {
                state.held_out.push(HeldOut {
                    step,
                    bound: held_out.bound,
                    bit_error: held_out.bit_error,
                    accuracy: held_out.accuracy,
                    free_energy: held_out.recordings.as_ref().map(|r| r.free_energy),
                });
            }
        }
        if let Some(mut snapshot) = snapshot {
            snapshot.state.clone_from(&state);
            run.check()?;
            metrics.sync()?;
            events
                .flush()
                .map_err(|error| LabError::write(directory, error))?;
            let checkpoint = checkpoint::save(directory, &snapshot)?;
            run.record_saved()?;
            run.check()?;
            checkpoint::prune(directory, &state, settings.keep);
            // One may have come during the evaluation, too.
            if let Some(signal) = (surroundings.interrupted)() {
                progress.finish();
                return Ok(Outcome::Interrupted { signal, checkpoint });
            }
        }
    }
    progress.finish();
    (surroundings.all_saved)(true);

    let evaluation = learner.evaluate(
        experiment,
        state.step,
        experiment.evaluation.batches,
        EVALUATION,
    )?;
    if let Some((what, _)) = evaluation.non_finite() {
        return Err(LabError::NonFinite {
            step: state.step,
            what: what.to_owned(),
            checkpoint: Some(checkpoint::directory(directory, state.step)),
        });
    }
    run.check()?;
    write_json(&directory.join(EVALUATION_FILE), &evaluation)?;
    let generated = present::write_report(
        directory,
        experiment,
        learner.as_ref(),
        &evaluation,
        &state,
        &|| run.check(),
    )?;
    let size = (generated.width(), generated.height());
    events
        .image_png(
            "generated",
            state.step,
            &generated.png_bytes()?,
            size,
            wall_time(),
        )
        .and_then(|()| events.flush())
        .map_err(|error| LabError::write(directory, error))?;
    Ok(Outcome::Finished(Box::new(evaluation)))
}

/// What a checkpoint of `state` holds. Updates along finite gradients can leave parameters that are not finite:
/// such a state is of no use, and the error names the checkpoint before it.
fn finite_snapshot(
    run: &Path,
    learner: &dyn Learner,
    state: &State,
) -> Result<Checkpoint, LabError> {
    let snapshot = Checkpoint::of(learner, state);
    match snapshot.non_finite() {
        None => Ok(snapshot),
        Some(what) => Err(LabError::NonFinite {
            step: state.step,
            what,
            checkpoint: checkpoint::steps(run)
                .into_iter()
                .rfind(|step| *step < state.step)
                .map(|step| checkpoint::directory(run, step)),
        }),
    }
}

fn log_events(events: &mut EventWriter, row: &Metrics) -> std::io::Result<()> {
    let now = wall_time();
    for (tag, value) in [
        ("bound", Some(row.bound)),
        ("reconstruction", row.reconstruction),
        ("kl", row.kl),
        ("kl_last", row.kl_last),
        ("bit_error", row.bit_error),
        ("accuracy", row.accuracy),
        ("admitted", row.admitted.map(|n| n as f32)),
        ("free_energy", row.free_energy),
        ("perplexity", row.perplexity),
        ("gradient_norm", Some(row.gradient_norm)),
        ("learning_rate", Some(row.learning_rate as f32)),
    ] {
        if let Some(value) = value {
            events.scalar(tag, row.step, value, now)?;
        }
    }
    Ok(())
}
