//! The contract that every family must meet. Mnemora tests its own families with it, and programs can test theirs.

use crate::{
    Experiment, LabError,
    compare::compare,
    experiment::{gallery::Shown, keys::flatten},
    open::{Which, open, prepare},
    present::{rewrite_report, write_generated, write_training_sequences},
    train::{resume, train},
};
use mnemora_training::{
    Error, Learner, Outcome, Purpose, Row, RunContext, Snapshot, StepFailure,
    arrays::Arrays,
    checkpoint,
    device::light_device,
    run::{METRICS_FILE, read_metrics},
};
use std::{collections::BTreeMap, fs, path::Path};

/// The description of a clause that a family breaks.
pub type Broken = String;

/// Checks a family with one of its small experiments; runs and pictures are left in `folder`.
///
/// - A misspelt key is refused with the right one, and a written experiment is read back unchanged.
/// - Two updates change the model, and a learner restored between them makes the second one bit for bit the same.
/// - A parameter that is not finite stops the update with the name of a term or of a parameter; the model and the
///   optimiser stay as they were.
/// - The first quantity, which decides the best checkpoint, is measured and finite, and the same after restoring.
/// - Each value of an evaluation is covered by a quantity or listed in [`Family::extras`](crate::Family::extras).
/// - It draws training sequences, generated sequences and the figures of a report.
/// - A run that is stopped after an update and resumed equals an uninterrupted one: metrics and weights, bit for bit.
///
/// # Errors
/// The description of what is broken.
pub fn check_family(experiment: &Experiment, folder: &Path) -> Result<(), Broken> {
    let name = experiment.family().name();
    let within = |clause: &str, result: Result<(), Broken>| {
        result.map_err(|problem| format!("{name}, {clause}: {problem}"))
    };
    within("settings", settings(experiment))?;
    within("updates", updates(experiment))?;
    within("what is not finite", not_finite(experiment))?;
    within("figures", figures(experiment, folder))?;
    within("runs", runs(experiment, folder))
}

fn said(error: impl Into<LabError>) -> Broken {
    error.into().to_string()
}

fn failed(failure: StepFailure) -> Broken {
    match failure {
        StepFailure::NonFinite { step, what } => format!("update {step}: {what} is not finite"),
        StepFailure::Batch(error) => error.to_string(),
        StepFailure::GivenUp(why) => why,
    }
}

fn require(holds: bool, otherwise: impl Into<String>) -> Result<(), Broken> {
    holds.then_some(()).ok_or_else(|| otherwise.into())
}

fn settings(experiment: &Experiment) -> Result<(), Broken> {
    let text = experiment.to_toml().map_err(said)?;
    let again = Experiment::parse(&text, "again", &[]).map_err(said)?;
    require(
        again.to_toml().map_err(said)? == text,
        "a written experiment is read back differently",
    )?;
    let mut values = Vec::new();
    flatten(&experiment.resolved().map_err(said)?, "", &mut values);
    let task = experiment.task.name.as_str();
    require(
        values.iter().any(|(key, _)| key == "task.name"),
        "the task is not written",
    )?;
    for (key, value) in values {
        let unknown = format!("{key}x={value}");
        let refused = Experiment::parse(&text, "again", std::slice::from_ref(&unknown));
        match refused {
            Ok(_) => return Err(format!("the unknown key of {unknown} is accepted")),
            Err(error) => {
                let message = error.to_string();
                let right = format!("unknown key '{key}x', did you mean '{key}'?");
                require(
                    message.contains(&right),
                    format!("{unknown} is refused with: {message}"),
                )?;
            }
        }
        // Keys that a run fills in are not settings.
        if experiment.reads(&key) {
            let kept = experiment.refuse_unread(&[format!("{key}={value}")]);
            require(kept.is_ok(), format!("{task} reads {key}, but refuses it"))?;
        }
    }
    Ok(())
}

/// A fresh learner for training.
fn learner(experiment: &Experiment) -> Result<Box<dyn crate::Gallery>, Broken> {
    let device = light_device().map_err(said)?.autodiff();
    let (_, learner) = prepare(&mut experiment.clone(), None, &device).map_err(said)?;
    Ok(learner)
}

/// Makes an update and waits for its measurements.
fn update(learner: &mut dyn Learner, step: u64) -> Result<Row, Broken> {
    learner.update(step).map_err(failed)?;
    let measured = learner.measured().map_err(failed)?;
    let measured = measured.ok_or_else(|| format!("update {step} measures nothing"))?;
    require(
        measured.step == step,
        format!(
            "the measurements of update {step} say update {}",
            measured.step
        ),
    )?;
    Ok(measured)
}

fn restored(experiment: &Experiment, from: Snapshot) -> Result<Box<dyn crate::Gallery>, Broken> {
    let mut learner = learner(experiment)?;
    learner
        .restore(from, Path::new("the snapshot"))
        .map_err(said)?;
    Ok(learner)
}

/// Numbers as bits, so that NaN equals itself.
fn bits(arrays: &Arrays) -> BTreeMap<&String, Vec<u32>> {
    let values = arrays.iter().map(|(name, array)| {
        let values = array.values.iter().map(|value| match value.is_nan() {
            true => f32::NAN.to_bits(),
            false => value.to_bits(),
        });
        (name, values.collect())
    });
    values.collect()
}

fn same(one: &Snapshot, other: &Snapshot) -> bool {
    bits(&one.model) == bits(&other.model)
        && bits(&one.optimiser) == bits(&other.optimiser)
        && bits(&one.carried) == bits(&other.carried)
        && one.counters == other.counters
        && one.vocabulary == other.vocabulary
}

fn updates(experiment: &Experiment) -> Result<(), Broken> {
    let quantities = experiment.family().quantities();
    let mut whole = learner(experiment)?;
    let parameters = whole.sizes().first().map_or(0, |(_, count)| *count);
    require(parameters > 0, "the model has no parameters")?;
    let before = whole.snapshot();
    let first = update(whole.as_mut(), 1)?;
    let between = whole.snapshot();
    require(
        bits(&before.model) != bits(&between.model),
        "an update changes nothing",
    )?;
    for (key, value) in first.measures.iter() {
        let finite = value.number().is_none_or(f64::is_finite);
        require(finite, format!("{key} of a batch is not finite"))?;
    }
    let second = update(whole.as_mut(), 2)?;

    let mut parted = restored(experiment, between)?;
    let again = update(parted.as_mut(), 2)?;
    require(
        again.measures == second.measures,
        "after restoring, an update measures something different",
    )?;
    require(
        same(&whole.snapshot(), &parted.snapshot()),
        "after restoring, an update leads to a different model or optimiser",
    )?;

    for purpose in [Purpose::Checkpoint, Purpose::Final] {
        let scored = whole.evaluate(purpose, 2).map_err(said)?;
        let first = quantities.first().ok_or("it measures no quantity")?;
        let number = scored.measures.number(first.path);
        let finite = number.is_some_and(f64::is_finite);
        require(finite, format!("{} is {number:?}", first.key))?;
        described(experiment, &scored)?;
        let again = parted.evaluate(purpose, 2).map_err(said)?;
        require(
            again == scored,
            "after restoring, an evaluation gives different numbers",
        )?;
    }
    Ok(())
}

/// Every value of an evaluation is covered by a quantity or by the family's list of further values.
fn described(experiment: &Experiment, evaluation: &Row) -> Result<(), Broken> {
    let family = experiment.family();
    let covered = |path: &str| {
        family
            .quantities()
            .iter()
            .any(|quantity| quantity.covers(path))
            || family.extras().iter().any(|(extra, _)| *extra == path)
    };
    let unknown: Vec<&str> = evaluation
        .measures
        .iter()
        .map(|(path, _)| path)
        .filter(|path| !covered(path))
        .collect();
    require(
        unknown.is_empty(),
        format!(
            "an evaluation has values that nothing describes: {}",
            unknown.join(", ")
        ),
    )
}

/// Number of the model's arrays that are tested with a NaN, one at a time.
const BROKEN_ARRAYS: usize = 6;

/// Puts a NaN into some of the model's arrays, one at a time. It may go unnoticed in a part of the model that the batch
/// does not reach, but not in most of them.
fn not_finite(experiment: &Experiment) -> Result<(), Broken> {
    let sound = learner(experiment)?.snapshot();
    let every = sound.model.len().div_ceil(BROKEN_ARRAYS).max(1);
    let names: Vec<&String> = sound.model.keys().step_by(every).collect();
    let mut named = 0;
    for name in &names {
        let mut broken = sound.clone();
        let array = broken.model.get_mut(*name).ok_or("an array is missing")?;
        array.values.fill(f32::NAN);
        // Running statistics follow each batch, whether or not the update is made.
        let statistics = |name: &String| name.contains("running");
        let mut learner = restored(experiment, broken)?;
        let before = learner.snapshot();
        let failure = match learner.update(1) {
            Ok(()) => learner.measured().err(),
            Err(failure) => Some(failure),
        };
        match failure {
            None => continue,
            Some(failure @ (StepFailure::Batch(_) | StepFailure::GivenUp(_))) => {
                return Err(failed(failure));
            }
            Some(StepFailure::NonFinite { what, .. }) => {
                require(
                    names_something(&what, &sound.model),
                    format!("the error for a NaN in {name} names '{what}'"),
                )?;
                named += 1;
            }
        }
        let after = learner.snapshot();
        require(
            bits(&before.optimiser) == bits(&after.optimiser),
            format!("the optimiser changed at a NaN in {name}"),
        )?;
        let (before, after) = (bits(&before.model), bits(&after.model));
        let learned = before
            .iter()
            .find(|(name, values)| !statistics(name) && after.get(*name) != Some(values));
        if let Some((changed, _)) = learned {
            return Err(format!("{changed} learned from a NaN in {name}"));
        }
    }
    require(
        2 * named >= names.len(),
        format!("of {} arrays with a NaN, {named} were noticed", names.len()),
    )
}

/// Whether the words of an error name a term of the loss, or one of the model's parameters in quotes.
fn names_something(what: &str, model: &Arrays) -> bool {
    match what.split('\'').nth(1) {
        Some(parameter) => model.contains_key(parameter),
        None => what
            .strip_prefix("the ")
            .is_some_and(|term| !term.is_empty() && term != "norm of the gradient"),
    }
}

fn figures(experiment: &Experiment, folder: &Path) -> Result<(), Broken> {
    let pictures = folder.join("pictures");
    fs::create_dir_all(&pictures).map_err(|error| error.to_string())?;
    let training = pictures.join("training.png");
    write_training_sequences(experiment.clone(), None, &training).map_err(said)?;
    let mut learner = learner(experiment)?;
    let metrics = [update(learner.as_mut(), 1)?];
    let evaluation = learner.evaluate(Purpose::Final, 1).map_err(said)?;
    let held_out = [learner.evaluate(Purpose::Checkpoint, 1).map_err(said)?];
    let drawn = learner.draw(1, 1, None).map_err(said)?;
    require(drawn.time > 0, "the generated sequences have no steps")?;
    let shown = Shown {
        experiment,
        evaluation: &evaluation,
        metrics: &metrics,
        machine: &[],
        held_out: &held_out,
        samples: &pictures,
    };
    let figures = learner.figures(&shown).map_err(said)?;
    require(!figures.charts.is_empty(), "a report has no charts")?;
    let generated = figures.generated;
    require(
        generated.width() > 1 && generated.height() > 1,
        "a report has no picture of generated sequences",
    )
}

fn runs(experiment: &Experiment, folder: &Path) -> Result<(), Broken> {
    let context = RunContext {
        interrupted: &|| None,
        all_saved: &|_| (),
        quiet: true,
        command: "check_family".into(),
        commit: "unknown".into(),
        device: light_device().map_err(said)?,
        continue_differently: false,
    };
    let mut two = experiment.clone();
    two.training.steps = 2;
    (two.training.log_every, two.training.checkpoint_every) = (1, 1);
    let one = Experiment {
        training: mnemora_training::settings::TrainingSettings {
            steps: 1,
            ..two.training.clone()
        },
        ..two.clone()
    };
    let (whole, parted) = (folder.join("whole"), folder.join("parted"));
    let finished = train(two, &whole, None, &context).map_err(said)?;
    let Outcome::Finished(evaluation) = finished else {
        return Err("an uninterrupted run does not end".into());
    };
    require(
        evaluation.step == 2,
        "a run of two updates ends at another step",
    )?;
    train(one, &parted, None, &context).map_err(said)?;
    let overrides = ["training.steps=2".to_owned()];
    resume(&parted, &overrides, None, &context).map_err(said)?;

    let file = |run: &Path| fs::read(run.join(METRICS_FILE)).map_err(|error| error.to_string());
    require(
        file(&whole)? == file(&parted)?,
        "a run that was stopped and resumed has different metrics",
    )?;
    require(
        read_metrics(&whole).map_err(said)?.len() == 2,
        "two updates do not give two rows of metrics",
    )?;
    let last =
        |run: &Path| -> Result<Snapshot, Error> { Ok(checkpoint::load_latest(run)?.0.snapshot) };
    require(
        same(&last(&whole).map_err(said)?, &last(&parted).map_err(said)?),
        "a run that was stopped and resumed has different weights",
    )?;

    let device = light_device().map_err(said)?;
    let trained = open(&whole, Which::Last, &[], None, &device).map_err(said)?;
    let again = trained.evaluate().map_err(said)?;
    require(
        again.measures == evaluation.measures,
        "an evaluation of the run differs from the one after training",
    )?;
    let numbers = trained.numbers(&again);
    require(!numbers.is_empty(), "an evaluation has no numbers to show")?;
    write_generated(&trained, 1, 1, None, &folder.join("generated.png")).map_err(said)?;
    rewrite_report(&whole, &trained).map_err(said)?;
    let comparison = compare(&[whole, parted]).map_err(said)?;
    require(comparison.rows().len() == 2, "two runs are not compared")?;
    comparison.write(&folder.join("compared.png")).map_err(said)
}
