//! The training loop: updates from a saved state to the last, checkpoints on the way, an evaluation at the end.

use crate::{
    Error, Learner, Purpose, Quantity, Row, StepFailure,
    checkpoint::{self, Checkpoint, State},
    device::device_words,
    machine::resident_memory,
    measures::Measures,
    progress::Progress,
    run::{EVALUATION_FILE, RowWriter, Run, kernels_word, write_json},
    say::note,
    settings::TrainingSettings,
    tensorboard::EventWriter,
};
use burn::tensor::Device;
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

/// What a training needs from its caller, and what it reports back.
pub struct RunContext<'a> {
    /// Returns the number of a signal that asked to stop, if there was one.
    pub interrupted: &'a (dyn Fn() -> Option<i32> + Sync),
    /// Called with `true` when all updates are saved, so that stopping loses nothing but evaluation and report; called
    /// with `false` when training begins.
    pub all_saved: &'a (dyn Fn(bool) + Sync),
    /// Write nothing to standard error.
    pub quiet: bool,
    /// The exact command for the report, preceded by the environment variables that affect the numbers.
    pub command: String,
    /// The commit the program was built from.
    pub commit: String,
    /// The device that holds the tensors.
    pub device: Device,
    /// Allow a resumed run to continue with another device, number of threads or other kernels, so that its numbers may
    /// differ from those of an uninterrupted run.
    pub continue_differently: bool,
}

/// How a training ended.
#[derive(Debug)]
pub enum Outcome {
    /// All updates were made; this is the evaluation after them.
    Finished(Box<Row>),
    /// A signal stopped the training after this checkpoint was written.
    Interrupted {
        /// The signal.
        signal: i32,
        /// The checkpoint from which to resume.
        checkpoint: PathBuf,
    },
}

/// What writing a report leaves for the event file: a picture.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// A PNG file's bytes.
    pub png: Vec<u8>,
    /// Its width and height in pixels.
    pub size: (usize, usize),
}

/// A run that is not finished, after the start or a checkpoint.
pub struct Standing<'a, L: ?Sized> {
    /// What learns.
    pub learner: &'a L,
    /// Its run.
    pub run: &'a Run,
    /// Its state.
    pub state: &'a State,
    /// The evaluation at the last checkpoint that this process made.
    pub evaluation: Option<&'a Row>,
    /// What comes next.
    pub phase: Phase,
}

/// What a training does after a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// More updates.
    Updates,
    /// All updates are made: the evaluation.
    Evaluation,
    /// Nothing: a signal stopped it.
    Stopped,
}

/// A run that is ready to train.
pub struct Begun {
    /// Locked, so that no other process writes to it.
    pub run: Run,
    /// The state of its last checkpoint, or the initial state.
    pub state: State,
    /// Its metrics file, truncated to that state.
    pub metrics: RowWriter,
}

/// Makes the remaining updates of a run, then evaluates. `progress` is called at the start and after each checkpoint.
/// `finish` gets the learner, the run, its state and the evaluation, which is on disk by then; it writes the report and
/// the pictures.
///
/// # Errors
/// If a number is not finite (the error names it), if a file cannot be written (the error names the intact checkpoint),
/// or if `finish` fails.
pub fn train<L: Learner + ?Sized, E: From<Error>>(
    begun: Begun,
    settings: &TrainingSettings,
    quantities: &'static [Quantity],
    learner: &mut L,
    context: &RunContext,
    mut progress: impl FnMut(Standing<L>),
    finish: impl FnOnce(&L, &Run, &State, &Row) -> Result<Finished, E>,
) -> Result<Outcome, E> {
    let Begun {
        mut run,
        state,
        metrics,
    } = begun;
    let machine = run.machine(|step| step <= state.step);
    let machine = machine.map_err(|error| intact(&run, error))?;
    let mut training = Training {
        settings,
        quantities,
        learner,
        state,
        metrics,
        machine,
        context,
    };
    let begun = run.check().and_then(|()| training.events(run.directory()));
    let mut events = begun.map_err(|error| intact(&run, error))?;
    let stopped = training.make_updates(&mut run, &mut events, &mut progress);
    match stopped.map_err(|error| intact(&run, error))? {
        Some(outcome) => Ok(outcome),
        None => training.finish(&run, &mut events, finish),
    }
}

/// Adds to a write error which checkpoint is intact.
fn intact(run: &Run, error: Error) -> Error {
    let directory = run.directory();
    match error {
        // The folder is gone: no checkpoint to name.
        Error::Write { .. } if run.check().is_err() => Error::RunTaken(directory.to_owned()),
        // It is going: what this process made is no longer there.
        Error::Write { path, source, .. } | Error::Read { path, source }
            if path.starts_with(directory) && source.kind() == ErrorKind::NotFound =>
        {
            Error::RunTaken(directory.to_owned())
        }
        Error::Write { path, source, .. } => {
            let hint = match checkpoint::steps(directory).last() {
                Some(step) => format!("; checkpoint step-{step} is intact"),
                None => "; there is no checkpoint yet".to_owned(),
            };
            Error::Write { path, source, hint }
        }
        other => other,
    }
}

fn wall_time() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

struct Training<'a, L: ?Sized> {
    settings: &'a TrainingSettings,
    quantities: &'static [Quantity],
    learner: &'a mut L,
    state: State,
    metrics: RowWriter,
    machine: RowWriter,
    context: &'a RunContext<'a>,
}

impl<L: Learner + ?Sized> Training<'_, L> {
    fn is_logged(&self, step: u64) -> bool {
        let settings = self.settings;
        step == 1 || step.is_multiple_of(settings.log_every) || step == settings.steps
    }

    fn events(&self, directory: &Path) -> Result<EventWriter, Error> {
        let step = self.state.step;
        EventWriter::create(directory, step + u64::from(step > 0), wall_time())
            .map_err(|error| Error::write(directory, error))
    }

    /// Makes the remaining updates. Returns the outcome if a signal stopped them.
    fn make_updates(
        &mut self,
        run: &mut Run,
        events: &mut EventWriter,
        report: &mut dyn FnMut(Standing<L>),
    ) -> Result<Option<Outcome>, Error> {
        let (settings, context) = (self.settings, self.context);
        let directory = &run.directory().to_owned();
        (context.all_saved)(false);
        self.state.threads = rayon::current_num_threads();
        self.state.device = device_words(&context.device);
        self.state.kernels = kernels_word();
        let progress = Progress::new(
            self.state.step,
            settings.steps,
            self.quantities,
            context.quiet,
        );
        let elapsed_before = self.state.elapsed_seconds;
        let mut evaluation = None;
        if self.state.step < settings.steps && !self.exhausted() {
            self.report(run, None, Phase::Updates, report);
        }
        let clock = Instant::now();
        let mut pace = Pace::starting(self.state.step);

        while self.state.step < settings.steps && !self.exhausted() {
            let step = self.state.step + 1;
            let made = self.learner.update(step);
            let signal = (context.interrupted)();
            let due = step.is_multiple_of(settings.checkpoint_every) || step == settings.steps;
            let saved = due || signal.is_some();
            let logged = self.is_logged(step);
            let looked = made.and_then(|()| match self.learner.deferred() {
                true if !(logged || saved) => Ok(None),
                _ => self.learner.measured(),
            });
            let row = match looked {
                Ok(row) => row,
                Err(StepFailure::Batch(error)) => return Err(error),
                Err(StepFailure::GivenUp(why)) => {
                    // The update was made.
                    self.state.step = step;
                    let checkpoint = self.finite_checkpoint(directory)?;
                    run.check()?;
                    let checkpoint = checkpoint::save(directory, &checkpoint)?;
                    run.record_saved()?;
                    return Err(Error::GivenUp {
                        step: self.state.step,
                        why,
                        checkpoint,
                    });
                }
                Err(StepFailure::NonFinite { step, what }) => {
                    // Updates queued after this one were not applied.
                    self.state.step = step - 1;
                    let before = self.finite_checkpoint(directory)?;
                    run.check()?;
                    return Err(Error::NonFinite {
                        step,
                        what,
                        checkpoint: Some(checkpoint::save_failed(directory, &before)?),
                    });
                }
            };
            self.state.step = step;
            self.state.elapsed_seconds = elapsed_before + clock.elapsed().as_secs_f64();
            if let Some(row) = &row {
                if logged {
                    run.check()?;
                    self.metrics.write(row)?;
                    let speed = pace.measured(step, self.state.elapsed_seconds);
                    self.machine.write(&speed)?;
                    log_events(events, "", row)
                        .and_then(|()| log_events(events, "machine/", &speed))
                        .map_err(|error| Error::write(directory, error))?;
                }
                progress.step(row);
            }
            if !saved {
                continue;
            }
            let saving = Instant::now();
            // Before the evaluation, which is useless if a parameter is not finite. Only one copy of the parameters
            // exists at a time.
            self.finite_checkpoint(directory)?;
            if due {
                let row = self.learner.evaluate(Purpose::Checkpoint, step)?;
                progress.checkpoint(&row);
                // An evaluation that is not finite cannot be among the best; the check in the next update names the
                // cause.
                if row.non_finite(self.quantities).is_none() {
                    let tracked = row.tracked(self.quantities);
                    log_events(events, "held_out/", &tracked)
                        .map_err(|error| Error::write(directory, error))?;
                    self.state.held_out.push(tracked);
                }
                evaluation = Some(row);
            }
            run.check()?;
            self.metrics.sync()?;
            events
                .flush()
                .map_err(|error| Error::write(directory, error))?;
            let checkpoint = Checkpoint::of(self.learner, &self.state);
            let checkpoint = checkpoint::save(directory, &checkpoint)?;
            run.record_saved()?;
            run.write_held_out(&self.state.held_out)?;
            run.check()?;
            let best = self.state.best_step(self.quantities);
            checkpoint::prune(directory, self.state.step, best, settings.keep);
            // A signal may also have come during the evaluation.
            if let Some(signal) = (context.interrupted)() {
                progress.finish();
                self.report(run, evaluation.as_ref(), Phase::Stopped, report);
                return Ok(Some(Outcome::Interrupted { signal, checkpoint }));
            }
            if step < settings.steps && !self.exhausted() {
                self.report(run, evaluation.as_ref(), Phase::Updates, report);
            }
            pace.pause(saving.elapsed());
        }
        progress.finish();
        (context.all_saved)(true);
        self.report(run, evaluation.as_ref(), Phase::Evaluation, report);
        Ok(None)
    }

    fn report(
        &self,
        run: &Run,
        evaluation: Option<&Row>,
        phase: Phase,
        report: &mut dyn FnMut(Standing<L>),
    ) {
        report(Standing {
            learner: self.learner,
            run,
            state: &self.state,
            evaluation,
            phase,
        });
    }

    /// Whether so many checkpoints were no better than one before that the training ends.
    fn exhausted(&self) -> bool {
        let (patience, state) = (self.settings.patience, &self.state);
        let Some(best) = state.best_step(self.quantities).filter(|_| patience > 0) else {
            return false;
        };
        let since = state.held_out.iter().filter(|row| row.step > best);
        since.count() as u64 >= patience
    }

    /// With patience, the best checkpoint takes the place of the last.
    fn take_best(&mut self, directory: &Path) -> Result<u64, Error> {
        let last = self.state.step;
        let best = self.state.best_step(self.quantities).unwrap_or(last);
        if self.settings.patience == 0 || best == last {
            return Ok(last);
        }
        let found = checkpoint::load(directory, best)?;
        let path = checkpoint::weights_file(directory, best);
        self.learner.restore(found.snapshot, &path)?;
        Ok(best)
    }

    /// Evaluates after the last update and calls `finish`.
    fn finish<E: From<Error>>(
        mut self,
        run: &Run,
        events: &mut EventWriter,
        finish: impl FnOnce(&L, &Run, &State, &Row) -> Result<Finished, E>,
    ) -> Result<Outcome, E> {
        let directory = run.directory();
        if let Some(why) = self.learner.unfinished() {
            let step = self.state.step;
            return Err(E::from(Error::GivenUp {
                step,
                why,
                checkpoint: checkpoint::directory(directory, step),
            }));
        }
        let step = self.take_best(directory)?;
        if !self.context.quiet {
            note(format_args!("evaluating the model of step {step}"));
        }
        let evaluation = self.learner.evaluate(Purpose::Final, step)?;
        if let Some((what, _)) = evaluation.non_finite(self.quantities) {
            return Err(E::from(Error::NonFinite {
                step,
                what: format!("the held-out {what}"),
                checkpoint: Some(checkpoint::directory(directory, step)),
            }));
        }
        run.check()?;
        write_json(&directory.join(EVALUATION_FILE), &evaluation)
            .map_err(|error| intact(run, error))?;
        let finished = finish(self.learner, run, &self.state, &evaluation)?;
        if !finished.png.is_empty() {
            events
                .image_png("generated", step, &finished.png, finished.size, wall_time())
                .and_then(|()| events.flush())
                .map_err(|error| intact(run, Error::write(directory, error)))?;
        }
        Ok(Outcome::Finished(Box::new(evaluation)))
    }

    /// The checkpoint of the current state. Updates along finite gradients can still make parameters infinite or NaN;
    /// that is an error, which names the previous checkpoint.
    fn finite_checkpoint(&self, run: &Path) -> Result<Checkpoint, Error> {
        let checkpoint = Checkpoint::of(self.learner, &self.state);
        match checkpoint.non_finite() {
            None => Ok(checkpoint),
            Some(what) => Err(Error::NonFinite {
                step: self.state.step,
                what,
                checkpoint: checkpoint::steps(run)
                    .into_iter()
                    .rfind(|step| *step < self.state.step)
                    .map(|step| checkpoint::directory(run, step)),
            }),
        }
    }
}

/// How fast updates are made. The time of evaluations and checkpoints does not count.
struct Pace {
    since: Instant,
    paused: Duration,
    step: u64,
}

impl Pace {
    fn starting(step: u64) -> Self {
        Self {
            since: Instant::now(),
            paused: Duration::ZERO,
            step,
        }
    }

    fn pause(&mut self, duration: Duration) {
        self.paused += duration;
    }

    /// The machine's row of a step: the pace since the last one, and the memory.
    fn measured(&mut self, step: u64, elapsed_seconds: f64) -> Row {
        let seconds = self.since.elapsed().saturating_sub(self.paused);
        let updates = step.saturating_sub(self.step) as f64;
        *self = Self::starting(step);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Row {
            step,
            measures: Measures::new()
                .with("elapsed_seconds", elapsed_seconds)
                .with(
                    "updates_per_second",
                    updates / seconds.as_secs_f64().max(1e-9),
                )
                .with_some("memory_mib", resident_memory().map(mib)),
        }
    }
}

/// Logs the numbers of a row, with `group` before their names.
fn log_events(events: &mut EventWriter, group: &str, row: &Row) -> std::io::Result<()> {
    let now = wall_time();
    for (tag, value) in row.measures.iter() {
        if let Some(value) = value.number() {
            events.scalar(&format!("{group}{tag}"), row.step, value as f32, now)?;
        }
    }
    Ok(())
}
