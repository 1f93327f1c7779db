//! Pictures and report of a run.

use crate::{
    Experiment, LabError, Trained,
    experiment::family::{Drawn, Gallery, Shown},
    memory_use::{check_drawing, check_pictures},
    pictures::{numbers, write_beside, write_picture},
};
use mnemora_figures::{
    number,
    page::{Page, html},
    picture::Image,
};
use mnemora_training::{
    Row,
    checkpoint::State,
    run::{EVALUATION_FILE, REPORT_FILE, read_json, read_metrics, read_origin, write_atomically},
};
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Draws training sequences of an experiment's task.
pub fn write_training_sequences(
    mut experiment: Experiment,
    data: Option<&Path>,
    out: &Path,
) -> Result<(), LabError> {
    let family = experiment.family();
    check_pictures(&experiment, family.numbers(&experiment))?;
    let found = family.find(&mut experiment, data)?;
    let drawn = found.training_picture(&experiment)?;
    write_picture(&drawn.picture, out)?;
    write_beside(out, &drawn.files)
}

/// Draws the true sequences and, below them, what the model generates. With `steps`, the model generates this many
/// frames after the prompt instead of the number it was trained with; the note returned says so.
pub fn write_generated(
    trained: &Trained,
    sequences: usize,
    seed: u64,
    steps: Option<usize>,
    out: &Path,
) -> Result<Option<String>, LabError> {
    let experiment = &trained.experiment;
    let (drawn, stored) = trained.ask(|learner| {
        check_drawing(learner, experiment, sequences, steps)?;
        Ok((learner.draw(sequences, seed, steps)?, learner.stored()))
    })?;
    let Drawn {
        picture,
        time,
        files,
    } = drawn;
    write_picture(&picture, out)?;
    write_beside(out, &files)?;
    let (trained_time, model) = (experiment.time(), experiment.label());
    Ok((time > trained_time).then(|| {
        let dropped = match stored {
            Some(slots) if slots < time => {
                format!(" and, with {slots} slots, drops its oldest latents beyond")
            }
            _ => String::new(),
        };
        format!(
            "generated up to step {time}; the {model} was trained on sequences of {trained_time} steps{dropped}"
        )
    }))
}

/// Writes a run's report again. Uses the run's evaluation if it is of this checkpoint, and evaluates otherwise.
pub fn rewrite_report(run: &Path, trained: &Trained) -> Result<PathBuf, LabError> {
    let evaluation = match read_json::<Row>(&run.join(EVALUATION_FILE)) {
        Ok(evaluation) if evaluation.step == trained.state.step => evaluation,
        _ => trained.evaluate()?,
    };
    let (experiment, state) = (&trained.experiment, &trained.state);
    trained
        .ask(|learner| write_report(run, experiment, learner, &evaluation, state, &|| Ok(())))?;
    Ok(run.join(REPORT_FILE))
}

/// Draws the pictures of a run and writes its report; returns the picture of generated sequences. `check` fails if the
/// run must no longer be written to.
pub(crate) fn write_report(
    run: &Path,
    experiment: &Experiment,
    learner: &dyn Gallery,
    evaluation: &Row,
    state: &State,
    check: &dyn Fn() -> Result<(), LabError>,
) -> Result<Image, LabError> {
    let metrics = read_metrics(run)?;
    let samples = run.join("samples");
    check()?;
    match std::fs::create_dir(&samples) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(LabError::write(&samples, error));
        }
        _ => {}
    }
    let figures = learner.figures(&Shown {
        experiment,
        evaluation,
        metrics: &metrics,
        held_out: &state.held_out,
        samples: &samples,
    })?;
    let origin = read_origin(run)?;
    let machine = origin.machine_and_device();
    let command = origin.commands();
    let seconds = state.elapsed_seconds;
    let page = Page {
        title: format!("{} · {}", experiment.name, experiment.label()),
        subtitle: experiment.description.clone(),
        numbers: numbers(experiment.family().quantities(), evaluation),
        pictures: figures.pictures,
        charts: figures.charts,
        memory: figures.memory,
        facts: vec![
            ("updates".into(), evaluation.step.to_string()),
            ("training time".into(), format!("{seconds:.0} s")),
            (
                "held-out sequences".into(),
                evaluation
                    .measures
                    .count("sequences")
                    .unwrap_or(0)
                    .to_string(),
            ),
            ("parameters".into(), number(origin.parameters as f64, 0)),
            ("seed".into(), experiment.seed.to_string()),
            ("data".into(), origin.data),
            (
                "mnemora".into(),
                format!("{}, commit {}", origin.version, origin.commit),
            ),
            ("machine".into(), machine),
        ],
        command,
        configuration: experiment.to_toml()?,
    };
    check()?;
    write_atomically(&run.join(REPORT_FILE), html(&page).as_bytes())?;
    Ok(figures.generated)
}
