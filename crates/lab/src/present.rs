//! Pictures and report of a run.

use crate::{
    Experiment, LabError, Trained,
    curves::{Curves, Logged, training_figures},
    experiment::gallery::{Drawn, Gallery, Shown},
    memory_use::{check_drawing, check_pictures},
    open::find,
    pictures::{chart_figure, numbers, write_beside, write_picture},
};
use mnemora_figures::{
    chart::Chart,
    number,
    page::{Content, Figure, Page, Progress, html},
    picture::Image,
};
use mnemora_training::{
    Phase, Row, Standing,
    checkpoint::State,
    disk,
    run::{
        EVALUATION_FILE, REPORT_FILE, Run, read_json, read_machine, read_metrics, read_origin,
        write_atomically,
    },
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
    let found = find(&mut experiment, data)?;
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
    let longer = time > trained_time && experiment.family().has_trained_length();
    Ok(longer.then(|| {
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
    let (metrics, machine) = (read_metrics(run)?, read_machine(run)?);
    check()?;
    let samples = samples_folder(run)?;
    let figures = learner.figures(&Shown {
        experiment,
        evaluation,
        metrics: &metrics,
        machine: &machine,
        held_out: &state.held_out,
        samples: &samples,
    })?;
    let counted = evaluation.measures.count("sequences").unwrap_or(0);
    let mut page = page(
        run,
        experiment,
        state,
        evaluation.step,
        [&metrics, &machine],
    )?;
    page.facts
        .insert(2, ("held-out sequences".into(), counted.to_string()));
    page.numbers = numbers(experiment.family().quantities(), evaluation);
    page.pictures = figures.pictures;
    page.charts = figures.charts;
    page.memory = figures.memory;
    check()?;
    write_atomically(&run.join(REPORT_FILE), html(&page)?.as_bytes())?;
    Ok(figures.generated)
}

/// Writes the page of a run that is not finished: the evaluation at its last checkpoint, curves, and samples of some
/// checkpoints.
pub(crate) fn write_progress(
    experiment: &Experiment,
    standing: &Standing<dyn Gallery>,
) -> Result<(), LabError> {
    // Samples that cannot be drawn do not keep the page from being written.
    let sampled = match standing.phase {
        Phase::Evaluation => Ok(()),
        Phase::Updates | Phase::Stopped => write_sample(experiment, standing),
    };
    let &Standing {
        run,
        state,
        evaluation,
        phase,
        ..
    } = standing;
    // On a thread of its own, whose memory does not lie between that of updates when it ends.
    let page = || write_progress_page(experiment, run, state, evaluation, phase);
    let written = std::thread::scope(|scope| scope.spawn(page).join());
    written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    sampled
}

fn write_progress_page(
    experiment: &Experiment,
    held: &Run,
    state: &State,
    evaluation: Option<&Row>,
    phase: Phase,
) -> Result<(), LabError> {
    let run = held.directory();
    let (metrics, machine) = (read_metrics(run)?, read_machine(run)?);
    let mut page = page(run, experiment, state, state.step, [&metrics, &machine])?;
    let (made, all) = (state.step, experiment.training.steps);
    page.progress = Some(Progress {
        words: match phase {
            Phase::Updates => {
                format!("In training: {made} of {all} updates are made. This page reloads itself.")
            }
            Phase::Evaluation => {
                format!(
                    "{made} updates are made; the evaluation is running. This page reloads itself."
                )
            }
            Phase::Stopped => format!(
                "Stopped after {made} of {all} updates; `mnemora resume` continues from there."
            ),
        },
        running: phase != Phase::Stopped,
    });
    if let Some(evaluation) = evaluation {
        page.numbers = numbers(experiment.family().quantities(), evaluation);
    }
    let label = experiment.label();
    let curves = Curves(vec![Logged {
        label: &label,
        metrics: std::slice::from_ref(&metrics),
        machine: std::slice::from_ref(&machine),
        evaluations: &[],
        held_out: std::slice::from_ref(&state.held_out),
    }]);
    let charts = experiment.family().compared(experiment, &curves);
    let charts = charts.into_iter().filter(Chart::has_points);
    page.charts = charts.map(|chart| chart_figure(chart, "")).collect();
    held.check()?;
    Ok(write_atomically(
        &run.join(REPORT_FILE),
        html(&page)?.as_bytes(),
    )?)
}

/// The parts of a page that do not depend on the model: samples of earlier checkpoints, curves of the training, and facts.
fn page(
    run: &Path,
    experiment: &Experiment,
    state: &State,
    step: u64,
    [metrics, machine]: [&[Row]; 2],
) -> Result<Page, LabError> {
    let origin = read_origin(run)?;
    let command = origin.commands();
    let seconds = state.elapsed_seconds;
    Ok(Page {
        title: format!("{} · {}", experiment.name, experiment.label()),
        subtitle: experiment.description.clone(),
        samples: samples(run, step)?,
        training: training_figures(metrics, machine),
        facts: vec![
            ("updates".into(), step.to_string()),
            ("training time".into(), format!("{seconds:.0} s")),
            ("parameters".into(), number(origin.parameters as f64, 0)),
            ("seed".into(), experiment.seed.to_string()),
            ("data".into(), origin.data.clone()),
            (
                "mnemora".into(),
                format!("{}, commit {}", origin.version, origin.commit),
            ),
            ("machine".into(), origin.machine_and_device()),
        ],
        command,
        configuration: experiment.to_toml()?,
        ..Page::default()
    })
}

/// The run's folder for pictures.
fn samples_folder(run: &Path) -> Result<PathBuf, LabError> {
    let samples = run.join(SAMPLES);
    match std::fs::create_dir(&samples) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(LabError::write(&samples, error))
        }
        _ => Ok(samples),
    }
}

const SAMPLES: &str = "samples";
/// The name of a picture of a checkpoint's samples, before the number of updates.
const SAMPLE: &str = "step-";
/// The most sequences in such a picture.
const SAMPLED: usize = 2;

/// Draws what the model generates after the 1st, 2nd, 4th, 8th, .. checkpoint, so that a long training costs few pictures.
fn write_sample(experiment: &Experiment, standing: &Standing<dyn Gallery>) -> Result<(), LabError> {
    let every = experiment.training.checkpoint_every;
    let step = standing.state.step;
    let due = step.is_multiple_of(every) && (step / every).is_power_of_two();
    // Without an evaluation this process has made no checkpoint yet.
    if standing.evaluation.is_none() || !due {
        return Ok(());
    }
    let path = samples_folder(standing.run.directory())?.join(format!("{SAMPLE}{step}.png"));
    let count = experiment.evaluation.pictures.clamp(1, SAMPLED);
    check_drawing(standing.learner, experiment, count, None)?;
    let drawn = standing.learner.draw(count, 1, None)?;
    standing.run.check()?;
    // Makes no folder: a run that has just been removed must not come back.
    Ok(write_atomically(&path, &drawn.picture.png_bytes()?)?)
}

/// The samples of checkpoints before `step`, in their order.
fn samples(run: &Path, step: u64) -> Result<Vec<Figure>, LabError> {
    let folder = run.join(SAMPLES);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| LabError::read(&folder, error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| LabError::read(&folder, error))?
            .path();
        let name = path.file_name().and_then(|name| name.to_str());
        let steps = name
            .and_then(|name| name.strip_prefix(SAMPLE)?.strip_suffix(".png"))
            .and_then(|steps| steps.parse::<u64>().ok());
        found.extend(steps.filter(|own| *own <= step).map(|steps| (steps, path)));
    }
    found.sort();
    found
        .into_iter()
        .map(|(steps, path)| {
            Ok(Figure {
                title: match steps {
                    1 => "After the first update".into(),
                    _ => format!("After {} updates", number(steps as f64, 0)),
                },
                caption: String::new(),
                content: Content::Png(
                    disk::read(&path).map_err(|error| LabError::read(&path, error))?,
                ),
            })
        })
        .collect()
}
