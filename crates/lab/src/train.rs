//! Training a run from its start or from a checkpoint to its end.

use crate::{
    Experiment, LabError,
    checkpoint::{self, Checkpoint, HeldOut, State},
    device::device_words,
    evaluate::{CHECKPOINT_EVALUATION, EVALUATION, Evaluation},
    learner::{Learner, StepFailure},
    open::{prepare, report_damage, use_threads},
    present,
    progress::Progress,
    run::{
        EVALUATION_FILE, Metrics, MetricsWriter, Origin, Run, kernels_word, read_experiment,
        write_json,
    },
    tensorboard::EventWriter,
};
use burn::tensor::Device;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

/// Autodiff walks the tape of a whole sequence recursively.
const STACK: usize = 512 << 20;

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
    use_threads(&experiment);
    let device = surroundings.device.clone().autodiff();
    let (words, learner) = prepare(&mut experiment, data, &device)?;
    let run = Run::create(directory)?;
    let origin = Origin {
        command: surroundings.command.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: surroundings.commit.clone(),
        machine: crate::machine::describe(),
        device: device_words(&surroundings.device),
        threads: rayon::current_num_threads(),
        kernels: kernels_word(),
        parameters: learner.parameters().first().map_or(0, |(_, count)| *count),
        data: words,
    };
    run.describe(&experiment, &origin)?;
    if !surroundings.quiet {
        for note in learner.notes() {
            eprintln!("mnemora: {note}");
        }
    }
    let state = State::start(&experiment);
    let metrics = run.metrics(|_| true)?;
    on_large_stack(|| go_on(&run, &experiment, learner, state, metrics, surroundings))
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
    use_threads(&experiment);
    let device = surroundings.device.clone().autodiff();
    let (_, mut learner) = prepare(&mut experiment, data, &device)?;
    let run = Run::open(directory)?;
    let state = match checkpoint::load_latest(directory) {
        Ok((found, problems)) => {
            let step = found.state.step;
            found.state.check(directory, &experiment)?;
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
            found.state
        }
        // Stopped before its first checkpoint: from the start again.
        Err(LabError::NoCheckpoint { .. }) if checkpoint::steps(directory).is_empty() => {
            State::start(&experiment)
        }
        Err(error) => return Err(error),
    };
    let words = device_words(&surroundings.device);
    if !state.device.is_empty() && state.device != words {
        eprintln!(
            "mnemora: made on {}, now on {words}: numbers will not be bit for bit those of one \
             device",
            state.device
        );
    }
    if experiment.training.steps < state.step {
        return Err(LabError::Configuration(format!(
            "training.steps is {}, it must be at least {}: so many updates are made already",
            experiment.training.steps, state.step
        )));
    }
    let threads = rayon::current_num_threads();
    if state.step > 0 && state.threads != threads {
        eprintln!(
            "mnemora: made with {} threads, goes on with {threads}: numbers will not be bit for \
             bit those of one process",
            state.threads
        );
    }
    // The row of a last step that is not the last any more goes, if no other rule logged it.
    let old = &before.training;
    let extra = (experiment.training.steps > old.steps
        && old.steps != 1
        && !old.steps.is_multiple_of(old.log_every))
    .then_some(old.steps);
    let metrics = run.metrics(|row| row.step <= state.step && Some(row.step) != extra)?;
    run.write_experiment(&experiment)?;
    on_large_stack(|| go_on(&run, &experiment, learner, state, metrics, surroundings))
}

/// Runs `work` on a thread of a pool of its own, as large as the global one, whose stacks hold the backward
/// pass of long sequences. On a thread of the pool, parallel operations neither hand their work to
/// another thread nor wait for it.
pub(crate) fn on_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .thread_name(|index| format!("training {index}"))
        .num_threads(rayon::current_num_threads())
        .stack_size(STACK)
        .build()
        .map_err(|_| LabError::Thread("training threads"))?;
    pool.install(|| {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(LabError::Thread("training thread")))
    })
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
    run: &Run,
    experiment: &Experiment,
    learner: Box<dyn Learner>,
    state: State,
    metrics: MetricsWriter,
    surroundings: &Surroundings,
) -> Result<Outcome, LabError> {
    make_steps(run, experiment, learner, state, metrics, surroundings).map_err(
        |error| match error {
            LabError::Write { path, source, .. } => {
                let hint = match checkpoint::steps(run.directory()).last() {
                    Some(step) => format!("; checkpoint step-{step} is intact"),
                    None => "; there is no checkpoint yet".to_owned(),
                };
                LabError::Write { path, source, hint }
            }
            other => other,
        },
    )
}

fn make_steps(
    run: &Run,
    experiment: &Experiment,
    mut learner: Box<dyn Learner>,
    mut state: State,
    mut metrics: MetricsWriter,
    surroundings: &Surroundings,
) -> Result<Outcome, LabError> {
    let settings = &experiment.training;
    let directory = run.directory();
    let start = state.step;
    (surroundings.all_saved)(false);
    state.threads = rayon::current_num_threads();
    state.device = device_words(&surroundings.device);
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
                let checkpoint =
                    checkpoint::save_failed(directory, &snapshot(learner.as_ref(), &state))?;
                return Err(LabError::NonFinite {
                    step,
                    what,
                    checkpoint,
                });
            }
        };
        state.step = step;
        state.elapsed_seconds = elapsed_before + clock.elapsed().as_secs_f64();
        if let Some(row) = &row {
            if logged {
                metrics.write(row)?;
                log_events(&mut events, row).map_err(|error| LabError::write(directory, error))?;
            }
            progress.step(row);
        }
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
        if due || signal.is_some() {
            metrics.sync()?;
            events
                .flush()
                .map_err(|error| LabError::write(directory, error))?;
            let checkpoint = checkpoint::save(directory, &snapshot(learner.as_ref(), &state))?;
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
    if !evaluation.bound.is_finite() {
        return Err(LabError::NonFinite {
            step: state.step,
            what: "the held-out bound".into(),
            checkpoint: checkpoint::directory(directory, state.step),
        });
    }
    write_json(&directory.join(EVALUATION_FILE), &evaluation)?;
    let generated =
        present::write_report(directory, experiment, learner.as_ref(), &evaluation, &state)?;
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

fn snapshot(learner: &dyn Learner, state: &State) -> Checkpoint {
    Checkpoint {
        state: state.clone(),
        weights: learner.weights(),
        optimizer: learner.optimizer(),
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
