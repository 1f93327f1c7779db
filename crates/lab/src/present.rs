//! Pictures and report of a run.

use crate::{
    Evaluation, Experiment, LabError, ParticleScore, RecordingScore, TextScore, Trained,
    checkpoint::State,
    config::{MemoryName, ModelName, TaskKind},
    copy,
    curves::{
        bound_chart, free_energy_chart, held_out_series, kl_per_step_chart, kl_per_step_series,
        last_kl_chart, training_series,
    },
    evaluate::generation,
    language,
    learner::{Drawn, Learner, Shown},
    memory_use::{check_drawing, check_pictures},
    nth_farthest,
    open::resolve_task,
    programs,
    recordings::{self, Source, training_picture},
    run::{EVALUATION_FILE, REPORT_FILE, read_json, read_metrics, read_origin, write_atomically},
    strategy::AtWork,
    trainer::{BatchTensors, Model},
    weights::host,
};
use mnemora_figures::{
    FigureError,
    chart::{self, Chart, Layout},
    number,
    page::{Content, Figure, Number, Page, html},
    picture::{
        Group, HeatMap, Image, MapOverlay, MapRow, Row, Sequence, Sheet, heat_map, map_overlay,
        sheet,
    },
};
use mnemora_memory::Attention;
use mnemora_worlds::{Batch, Images, Split, Stream, Task};
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Pixels that a pixel of a frame takes in pictures.
const SCALE: usize = 2;

/// Held-out numbers as a table's rows.
pub fn numbers(evaluation: &Evaluation) -> Vec<Number> {
    let row = |name: &str, value: String, unit: &str, meaning: &str| Number {
        name: name.into(),
        value,
        unit: unit.into(),
        meaning: meaning.into(),
    };
    let of_what = match evaluation.bit_error.or(evaluation.accuracy) {
        None => "reconstruction less KL",
        Some(_) => "log likelihood of the answers",
    };
    if let (Some(perplexity), Some(text)) = (evaluation.perplexity, &evaluation.text) {
        return text_numbers(evaluation, perplexity, text);
    }
    let mut rows = Vec::new();
    if let Some(recordings) = &evaluation.recordings {
        rows.extend(recording_numbers(recordings, &evaluation.energy_by_round));
    }
    rows.push(row(
        "bound",
        plus_minus(evaluation.bound, evaluation.bound_stderr),
        "nats per sequence",
        &format!(
            "{of_what}, mean of {} held-out sequences, higher is better{}",
            evaluation.sequences,
            spread(evaluation.bound_stderr, "sequences")
        ),
    ));
    if let Some(particles) = &evaluation.particles {
        let steps = evaluation.kl_per_step.len().max(1) as f64;
        rows.push(row(
            "free energy",
            digits(-evaluation.bound / steps),
            "nats per step",
            "minus the bound, to be compared with the next two, which are lower",
        ));
        rows.extend(particle_numbers(particles));
    }
    if let Some(error) = evaluation.bit_error {
        rows.push(row(
            "bit error",
            format!("{:.3}", 100.0 * error),
            "% of bits",
            "of the answers, each read at a probability of 1/2; 50 is chance",
        ));
    }
    if let (Some(accuracy), Some(answers)) = (evaluation.accuracy, evaluation.answer_accuracy) {
        rows.push(row(
            "accuracy",
            format!("{:.2}", 100.0 * accuracy),
            "% of characters",
            "of answers and their ends, each the most probable in its place, of the hardest programs",
        ));
        rows.push(row(
            "whole answers",
            format!("{:.2}", 100.0 * answers),
            "% of programs",
            "whose answer has no wrong character",
        ));
    } else if let Some(accuracy) = evaluation.accuracy {
        let by_n = &evaluation.accuracy_by_n;
        rows.push(row(
            "accuracy",
            format!("{:.2}", 100.0 * accuracy),
            "% of sequences",
            &format!(
                "whose class is the most probable; {:.1} is chance",
                100.0 / by_n.len().max(1) as f64
            ),
        ));
        let percent =
            |share: &Option<f64>| share.map_or("-".into(), |s| format!("{:.0}", 100.0 * s));
        rows.push(row(
            "accuracy by n",
            by_n.iter().map(percent).collect::<Vec<String>>().join(" "),
            "% of sequences",
            "of those that ask for n = 1, 2, ..",
        ));
    }
    if let Some(reconstruction) = evaluation.reconstruction {
        rows.push(row(
            "reconstruction",
            digits(reconstruction),
            "nats per sequence",
            "log likelihood of the frames given the latents",
        ));
    }
    if let Some(kl) = evaluation.kl {
        rows.push(row(
            "KL",
            digits(kl),
            "nats per sequence",
            "what the frames said that the predictions had not",
        ));
    }
    if let Some(kl) = evaluation.kl_last {
        rows.push(row(
            "KL of the last frame",
            format!("{kl:.2}"),
            "nats",
            "near zero if memory predicts it",
        ));
    }
    if let (Some(unpredictable), Some(predictable), Some(ratio)) = (
        evaluation.kl_unpredictable,
        evaluation.kl_predictable,
        evaluation.kl_ratio,
    ) {
        rows.push(row(
            "KL unpredictable",
            format!("{unpredictable:.2}"),
            "nats per frame",
            "mean over the frames that nothing predicts",
        ));
        rows.push(row(
            "KL predictable",
            format!("{predictable:.2}"),
            "nats per frame",
            "mean over the frames that the past predicts",
        ));
        rows.push(row(
            "KL ratio",
            format!("{ratio:.3}"),
            "",
            "the second over the first: about 1 without memory",
        ));
    }
    if let Some(recall) = evaluation.generated_recall {
        rows.push(row(
            "generated recall",
            format!("{:.1}", 100.0 * recall.nearest),
            "% of frames",
            "to which the remembered frame is the nearest of all seen",
        ));
        rows.push(row(
            "error to the remembered",
            format!("{:.4}", recall.error_remembered),
            "mean square",
            "of a generated pixel, intensities in [0, 1]",
        ));
        rows.push(row(
            "error to the others",
            format!("{:.4}", recall.error_others),
            "mean square",
            "the same to the other frames seen",
        ));
    }
    if let Some(digits) = evaluation.generated_digits {
        rows.push(row(
            "right digit",
            format!("{:.1}", 100.0 * digits.accuracy),
            "% of frames",
            &format!(
                "generated, as a classifier reads them; of the true frames it reads {:.1}% right",
                100.0 * digits.accuracy_of_truth
            ),
        ));
    }
    if let Some(coherence) = evaluation.map_coherence {
        rows.push(row(
            "map coherence",
            format!("{:.1}", 100.0 * coherence),
            "% of returns",
            "on maps made up from actions alone: a cell shows what it showed at the last visit",
        ));
    }
    rows
}

/// Decimals with which a number has about five digits.
pub(crate) fn decimals(value: f64) -> usize {
    match value.abs().log10().floor() {
        magnitude if magnitude > 0.0 => (4.0 - magnitude).max(0.0) as usize,
        _ => 4,
    }
}

/// A number with about five digits.
pub(crate) fn digits(value: f64) -> String {
    format!("{value:.0$}", decimals(value))
}

/// A mean with its standard error, where there is more than one value.
fn plus_minus(mean: f64, stderr: f64) -> String {
    if stderr > 0.0 {
        // Of a small error at least a digit.
        let least = (-stderr.log10().floor()).clamp(0.0, 4.0) as usize;
        let decimals = decimals(mean).max(least);
        return format!("{mean:.decimals$} ± {stderr:.decimals$}");
    }
    digits(mean)
}

/// What the second number of [`plus_minus`] is, where there is one.
fn spread(stderr: f64, over: &str) -> String {
    match stderr > 0.0 {
        true => format!("; ± standard error over {over}"),
        false => String::new(),
    }
}

/// The rows of recorded sequences.
fn recording_numbers(score: &RecordingScore, rounds: &[f64]) -> Vec<Number> {
    let row = |name: &str, value: String, unit: &str, meaning: String| Number {
        name: name.into(),
        value,
        unit: unit.into(),
        meaning,
    };
    let mut rows = vec![
        row(
            "free energy",
            plus_minus(score.free_energy, score.free_energy_stderr),
            "nats per step",
            format!(
                "over {} steps of the {} part, lower is better{}",
                score.steps,
                score.part,
                spread(score.free_energy_stderr, "recordings")
            ),
        ),
        row(
            "of recordings",
            digits(score.free_energy_of_recordings),
            "nats per step",
            "mean over recordings of each one's free energy a step".into(),
        ),
        row(
            "KL a step",
            digits(score.kl),
            "nats per step",
            "what an observation said that the prediction had not".into(),
        ),
    ];
    for (round, energy) in rounds.iter().enumerate() {
        rows.push(row(
            &format!("round {round}"),
            digits(*energy),
            "nats per step",
            match round {
                0 => "free energy where the belief is the prior".into(),
                _ => "free energy after so many rounds of inference".into(),
            },
        ));
    }
    rows.extend(score.particles.iter().flat_map(particle_numbers));
    rows
}

/// The rows of bounds by particles.
fn particle_numbers(score: &ParticleScore) -> [Number; 3] {
    let particles = score.particles;
    let row = |name: &str, value: f64, unit: &str, meaning: String| Number {
        name: name.into(),
        value: digits(value),
        unit: unit.into(),
        meaning,
    };
    [
        row(
            "importance-weighted",
            score.importance_weighted,
            "nats per step",
            format!("minus the bound of {particles} weighted samples of whole sequences"),
        ),
        row(
            "particle filter",
            score.particle_filter,
            "nats per step",
            format!(
                "minus the bound of {particles} particles, resampled when the effective sample size falls \
                 below half"
            ),
        ),
        row(
            "effective particles",
            score.effective_particles,
            "particles",
            format!(
                "mean; resampled after {:.1}% of steps",
                100.0 * score.resampled
            ),
        ),
    ]
}

/// The rows of a text.
fn text_numbers(evaluation: &Evaluation, perplexity: f64, score: &TextScore) -> Vec<Number> {
    let row = |name: String, value: String, unit: &str, meaning: String| Number {
        name,
        value,
        unit: unit.into(),
        meaning,
    };
    let pass = match score.streams {
        1 => "in one pass".to_owned(),
        streams => format!("in {streams} streams side by side"),
    };
    let words = match score.placeholders {
        true => "words (trained or scored on PLACEHOLDER words, so that it means nothing)",
        false => "words",
    };
    let mut rows = vec![
        row(
            "perplexity".into(),
            digits(perplexity),
            "",
            format!(
                "over {} {words} of the {} part, {pass}; {:.1}% of them are <unk>; lower is better",
                score.words,
                score.part,
                100.0 * score.unknown
            ),
        ),
        row(
            "bound".into(),
            plus_minus(evaluation.bound, evaluation.bound_stderr),
            "nats per word",
            format!(
                "log likelihood, higher is better{}",
                spread(evaluation.bound_stderr, "windows")
            ),
        ),
    ];
    for bucket in &score.by_frequency {
        rows.push(row(
            format!("perplexity {}", bucket.count),
            digits(bucket.perplexity),
            "",
            format!(
                "of the {} words that the training part has so often",
                bucket.words
            ),
        ));
    }
    for unroll in &score.by_unroll {
        rows.push(row(
            format!("unroll {}", unroll.length),
            digits(unroll.perplexity),
            "",
            format!(
                "perplexity of the first {} words with the state begun anew at every so many, {:+.2} above \
                 that without a break",
                score.unroll_words.unwrap_or(0),
                unroll.increase
            ),
        ));
    }
    rows
}

/// Draws training sequences of an experiment's task.
pub fn write_training_sequences(
    mut experiment: Experiment,
    data: Option<&Path>,
    out: &Path,
) -> Result<(), LabError> {
    let of_step = match experiment.task.name.kind() {
        TaskKind::Frames => Images::SIZE,
        TaskKind::Copy => 2 * experiment.task.bits + 3,
        TaskKind::Classes => experiment.task.dimensions + 2 * experiment.task.vectors,
        TaskKind::Programs | TaskKind::Words => 1,
        TaskKind::Recordings => recordings::expected_numbers(&experiment),
    };
    check_pictures(&experiment, of_step)?;
    match experiment.task.name.kind() {
        TaskKind::Copy => return write_picture(&copy::training_picture(&experiment)?, out),
        TaskKind::Classes => {
            return write_picture(&nth_farthest::training_picture(&experiment)?, out);
        }
        TaskKind::Programs => return write_picture(&programs::training_picture(&experiment)?, out),
        TaskKind::Recordings => {
            let source = Source::find(&mut experiment, data)?;
            let drawn = training_picture(&experiment, &source)?;
            write_picture(&drawn.picture, out)?;
            return write_beside(out, &drawn.files);
        }
        TaskKind::Words => {
            let text = language::find(&mut experiment, data)?;
            return write_picture(&language::training_picture(&experiment, &text)?, out);
        }
        TaskKind::Frames => {}
    }
    let task = resolve_task(&mut experiment, data)?;
    let stream = Stream::new(experiment.seed, "data");
    let batch = task.batch(Split::Train, &stream, 0, experiment.evaluation.pictures);
    let groups = (0..batch.batch)
        .map(|row| Group {
            rows: vec![Row {
                label: format!("{}", row + 1),
                frames: frames_of(&batch, row),
                first_step: 0,
            }],
            marked: predictable(&batch, row),
        })
        .collect();
    let picture = sheet(&Sheet {
        title: format!("{}: training sequences", experiment.name),
        groups,
        mark_caption: "the past predicts it".into(),
        scale: SCALE,
        wrap: wrap(batch.time),
        first_number: 1,
    })?;
    write_picture(&picture, out)
}

/// Draws generated sequences under the truth. With `steps` the model generates so many frames after
/// the prompt instead of those it was trained on; gives what there is to say about that.
pub fn write_generated(
    trained: &Trained,
    sequences: usize,
    seed: u64,
    steps: Option<usize>,
    out: &Path,
) -> Result<Option<String>, LabError> {
    let experiment = &trained.experiment;
    let Drawn {
        picture,
        time,
        files,
    } = trained.ask(|learner| {
        check_drawing(learner, experiment, sequences, steps)?;
        learner.draw(experiment, sequences, seed, steps)
    })?;
    write_picture(&picture, out)?;
    write_beside(out, &files)?;
    let trained_time = experiment.time();
    Ok((time > trained_time).then(|| {
        let memory = experiment.model.memory;
        if experiment.model.name != ModelName::Gtmm {
            return format!(
                "generated up to step {time}; the model was trained on windows of {trained_time} steps"
            );
        }
        let slots = match memory {
            MemoryName::Introspection => Some(experiment.memory.introspection.slots),
            MemoryName::Hybrid => Some(experiment.memory.hybrid.slots),
            _ => None,
        };
        // 0 stands for as many as in training.
        let dropped = match slots.map(|slots| slots.max(trained_time)) {
            Some(slots) if slots < time => {
                format!(" and, having {slots} slots, drops its oldest latents beyond")
            }
            _ => String::new(),
        };
        format!(
            "generated up to step {time}; the {} was trained on sequences of {trained_time} steps{dropped}",
            memory.as_str()
        )
    }))
}

/// Writes a run's report again. Numbers come from the run's evaluation if it is of this
/// checkpoint, and are measured otherwise.
pub fn rewrite_report(run: &Path, trained: &Trained) -> Result<PathBuf, LabError> {
    let evaluation = match read_json::<Evaluation>(&run.join(EVALUATION_FILE)) {
        Ok(evaluation) if evaluation.step == trained.state.step => evaluation,
        _ => trained.evaluate()?,
    };
    let (experiment, state) = (&trained.experiment, &trained.state);
    trained
        .ask(|learner| write_report(run, experiment, learner, &evaluation, state, &|| Ok(())))?;
    Ok(run.join(REPORT_FILE))
}

/// What a report shows of a model.
pub struct Figures {
    /// Sequences that it made, for the event file.
    pub generated: Image,
    /// The same for the report, and further pictures.
    pub pictures: Vec<Figure>,
    /// Curves but for the bound's.
    pub charts: Vec<Figure>,
    /// Where its memory was read and written.
    pub memory: Vec<Figure>,
}

/// Draws the pictures of a temporal VAE's run.
pub(crate) fn frame_figures(
    model: &AtWork<Model>,
    task: &dyn Task,
    shown: &Shown,
) -> Result<Figures, LabError> {
    let Shown {
        experiment,
        evaluation,
        metrics,
        samples,
        ..
    } = shown;
    let generated = generated_picture(model, task, experiment.evaluation.pictures, 1)?;
    let mut pictures = vec![drawn(
        &generated,
        &samples.join("generated.png"),
        format!(
            "The model sees the first {} frames of a held-out sequence, then generates the rest. \
             Truth above, generated frames below.",
            task.prompt()
        ),
    )?];
    if let Some(picture) = map_picture(model, task, experiment.task.grid)? {
        let caption = format!(
            "A walk over a held-out map. 'After {0}': the first {0} frames were seen, the rest \
             generated. 'Made up': all frames generated from the actions alone; a coherent map \
             turns yellow and white.",
            task.prompt()
        );
        pictures.push(drawn(&picture, &samples.join("map.png"), caption)?);
    }
    let mut memory = Vec::new();
    if let Some(picture) = attention_picture(model, task)? {
        let caption = attention_caption(experiment.model.memory).into();
        memory.push(drawn(&picture, &samples.join("attention.png"), caption)?);
    }
    let kl_per_step = vec![kl_per_step_series("held-out", &evaluation.kl_per_step)];
    let charts = vec![
        charted(
            last_kl_chart(vec![training_series(metrics, |row| row.kl_last)]),
            "KL of the last frame over training: it falls when the memory becomes useful.",
        )?,
        charted(
            kl_per_step_chart(kl_per_step, task.recall_interval()),
            "KL of each frame after training, mean over held-out sequences.",
        )?,
    ];
    Ok(Figures {
        generated,
        pictures,
        charts,
        memory,
    })
}

/// Writes a picture's file, in a folder that is there, and makes a figure of it.
pub(crate) fn drawn(picture: &Image, path: &Path, caption: String) -> Result<Figure, LabError> {
    let png = picture.png_bytes()?;
    write_atomically(path, &png)?;
    Ok(Figure {
        title: String::new(),
        caption,
        content: Content::Png(png),
    })
}

/// Makes a figure of a chart.
pub(crate) fn charted(chart: Chart, caption: &str) -> Result<Figure, LabError> {
    Ok(Figure {
        title: String::new(),
        caption: caption.into(),
        content: Content::Svg(chart::svg(&[chart], &Layout::default())?),
    })
}

/// Draws the pictures of a run and writes its report; gives the picture of generated sequences. `check` fails if
/// nothing may be written to the run any more.
pub(crate) fn write_report(
    run: &Path,
    experiment: &Experiment,
    learner: &dyn Learner,
    evaluation: &Evaluation,
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
    let Figures {
        generated,
        pictures,
        charts: further,
        memory,
    } = learner.figures(&Shown {
        experiment,
        evaluation,
        metrics: &metrics,
        held_out: &state.held_out,
        samples: &samples,
    })?;
    let mut charts = Vec::new();
    if evaluation.recordings.is_some() {
        // Windows and recordings have other lengths: only what a step costs can be compared.
        let training = training_series(&metrics, |row| row.free_energy);
        let held_out = held_out_series("held-out", &state.held_out, |row| row.free_energy);
        charts.push(charted(
            free_energy_chart(vec![training, held_out]),
            "Free energy over training, lower is better; held-out recordings are of the validation part if \
             there is one.",
        )?);
    } else if evaluation.perplexity.is_none() {
        // Of texts the perplexity says the same.
        let training = training_series(&metrics, |row| Some(row.bound));
        let held_out = held_out_series("held-out", &state.held_out, |row| Some(row.bound));
        charts.push(charted(
            bound_chart(vec![training, held_out]),
            "Bound over training.",
        )?);
    }
    charts.extend(further);

    let origin = read_origin(run)?;
    let machine = origin.machine_and_device();
    let command = origin.commands();
    let seconds = state.elapsed_seconds;
    let page = Page {
        title: format!("{} · {}", experiment.name, experiment.label()),
        subtitle: experiment.description.clone(),
        numbers: numbers(evaluation),
        pictures,
        charts,
        memory,
        facts: vec![
            ("updates".into(), evaluation.step.to_string()),
            ("training time".into(), format!("{seconds:.0} s")),
            (
                "held-out sequences".into(),
                evaluation.sequences.to_string(),
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
    Ok(generated)
}

/// Draws held-out sequences and how the model goes on with them after a prompt.
pub(crate) fn generated_picture(
    model: &AtWork<Model>,
    task: &dyn Task,
    sequences: usize,
    seed: u64,
) -> Result<Image, LabError> {
    let stream = Stream::new(seed, "pictures");
    let batch = task.batch(Split::Test, &stream, 0, sequences);
    let samples = Stream::new(seed, "picture samples");
    let generated = generation(model, &batch, task.prompt(), &samples, 0);
    let frames = host(generated.frames.into_data());
    let length = frames.len() / sequences;
    let groups = frames
        .chunks(length)
        .enumerate()
        .map(|(row, frames)| Group {
            rows: vec![
                Row {
                    label: "truth".into(),
                    frames: frames_of(&batch, row),
                    first_step: 0,
                },
                Row {
                    label: "generated".into(),
                    frames: Sequence {
                        frames,
                        steps: batch.time - task.prompt(),
                        ..frames_of(&batch, row)
                    },
                    first_step: task.prompt(),
                },
            ],
            marked: predictable(&batch, row),
        })
        .collect();
    Ok(sheet(&Sheet {
        title: String::new(),
        groups,
        mark_caption: "the past predicts it".into(),
        scale: SCALE,
        wrap: wrap(batch.time),
        first_number: 1,
    })?)
}

fn attention_caption(memory: MemoryName) -> &'static str {
    match memory {
        MemoryName::Introspection | MemoryName::Hybrid => {
            "Read weights of each head over the slots on one held-out sequence, one column a step. \
             Slot i holds the latent of step i."
        }
        MemoryName::Rmc => {
            "What each head takes from the slots and, in the last row, from the input, averaged over \
             the slots that take it, on one held-out sequence, one column a step."
        }
        _ => {
            "Weights of each head over the slots on one held-out sequence, one column a step. At \
             step t the memory takes in the latent of step t - 1, then reads."
        }
    }
}

/// Weights `[slots, time]` of each head on one held-out sequence; `None` for a memory without
/// heads.
fn attention_picture(model: &AtWork<Model>, task: &dyn Task) -> Result<Option<Image>, LabError> {
    let batch = task.batch(Split::Test, &Stream::new(1, "pictures"), 0, 1);
    let marked = predictable(&batch, 0);
    let tensors = BatchTensors::new(batch, &model.model().device());
    let samples = Stream::new(1, "picture samples");
    let (filtered, _) = model.filter(tensors.observations, tensors.conditions, &samples, 1);
    attention_maps(filtered.attention, &marked)
}

/// Rows of a picture of weights at most.
const MOST_ROWS: usize = 128;

/// Weights `[slots, time]` of each head from the attention of each step of one sequence; `None`
/// without heads.
pub(crate) fn attention_maps(
    attention: Vec<Vec<Attention>>,
    marked: &[usize],
) -> Result<Option<Image>, LabError> {
    let time = attention.len();
    let slots = attention
        .iter()
        .flatten()
        .map(|attention| attention.weights().dims()[2])
        .max();
    let Some(slots) = slots else { return Ok(None) };
    // By what they do and by head; zero where a slot was not filled yet.
    let mut heads: BTreeMap<(&str, usize), Vec<f32>> = BTreeMap::new();
    for (step, attention) in attention.into_iter().enumerate() {
        for attention in attention {
            let weights = attention.weights();
            let filled = weights.dims()[2];
            let weights = host(weights.into_data());
            for (head, weights) in weights.chunks(filled).enumerate() {
                let values = heads
                    .entry((attention.name, head))
                    .or_insert_with(|| vec![0.0; slots * time]);
                for (slot, weight) in weights.iter().enumerate() {
                    values[slot * time + step] = *weight;
                }
            }
        }
    }
    // Beyond so many slots a row stands for several, with the largest of their weights.
    let share = slots.div_ceil(MOST_ROWS);
    let rows = slots.div_ceil(share);
    let mut images = Vec::new();
    for ((name, head), values) in &heads {
        let mut shown = vec![0.0_f32; rows * time];
        for (slot, weights) in values.chunks(time).enumerate() {
            let row = &mut shown[slot / share * time..][..time];
            for (shown, weight) in row.iter_mut().zip(weights) {
                *shown = shown.max(*weight);
            }
        }
        images.push(heat_map(&HeatMap {
            title: format!("{name}, head {}", head + 1),
            values: &shown,
            rows,
            columns: time,
            row_axis: match share {
                1 => "slot".into(),
                share => format!("slot / {share}"),
            },
            column_axis: "step".into(),
            first_number: 1,
            first_row: 1,
            falling: None,
            range: Some((0.0, 1.0)),
            cell: match rows.max(time) {
                0..=30 => 18,
                31..=60 => 10,
                _ => 5,
            },
            marked: marked.to_vec(),
        })?);
    }
    Ok(Some(grid(&images, 3)?))
}

/// A walk over a map and the maps that were seen and generated on it; `None` for a task without a
/// map.
fn map_picture(
    model: &AtWork<Model>,
    task: &dyn Task,
    grid: usize,
) -> Result<Option<Image>, LabError> {
    let batch = task.batch(Split::Test, &Stream::new(1, "pictures"), 0, 1);
    let Some(cells) = &batch.cells else {
        return Ok(None);
    };
    let samples = Stream::new(1, "picture samples");
    let after = |prompt: usize| {
        let generated = generation(model, &batch, prompt, &samples, 2);
        let seen = prompt * batch.frame.size();
        let mut frames = batch.frames.get(..seen).unwrap_or_default().to_vec();
        frames.extend(host(generated.frames.into_data()));
        frames
    };
    let (prompt, time) = (task.prompt(), batch.time);
    let (after_prompt, made_up) = (after(prompt), after(0));
    let row = |label: String, frames| MapRow { label, frames };
    // Every five steps, fewer on walks and maps that would make a picture of any size.
    let most = if grid <= 8 { 10 } else { 3 };
    let between = time.div_ceil(most).next_multiple_of(5);
    let mut checkpoints: Vec<usize> = (1..time).filter(|step| step % between == 0).collect();
    checkpoints.push(time);
    let picture = map_overlay(&MapOverlay {
        title: String::new(),
        grid,
        cells,
        rows: vec![
            row("truth".into(), &batch.frames),
            row(format!("after {prompt}"), &after_prompt),
            row("made up".into(), &made_up),
        ],
        height: batch.frame.height,
        width: batch.frame.width,
        scale: 1,
        checkpoints,
    })?;
    Ok(Some(picture))
}

/// Pictures of one size in rows of `columns`.
pub(crate) fn grid(images: &[Image], columns: usize) -> Result<Image, FigureError> {
    let width = images.iter().map(Image::width).max().unwrap_or(1);
    let rows: Vec<Image> = images
        .chunks(columns)
        .map(|row| {
            let height = row.iter().map(Image::height).max().unwrap_or(1);
            let mut canvas = Image::new(width * columns.min(images.len()), height, [255; 3])?;
            for (place, image) in row.iter().enumerate() {
                canvas.blit(image, place * width, 0);
            }
            Ok(canvas)
        })
        .collect::<Result<_, FigureError>>()?;
    Image::stack(&rows, 12)
}

fn frames_of(batch: &Batch, row: usize) -> Sequence<'_> {
    let length = batch.time * batch.frame.size();
    Sequence {
        frames: batch
            .frames
            .get(row * length..(row + 1) * length)
            .unwrap_or_default(),
        steps: batch.time,
        channels: batch.frame.channels,
        height: batch.frame.height,
        width: batch.frame.width,
    }
}

/// The steps of a sequence that its past predicts.
fn predictable(batch: &Batch, row: usize) -> Vec<usize> {
    let steps = batch
        .predictable
        .get(row * batch.time..(row + 1) * batch.time);
    let steps = steps.unwrap_or_default().iter().enumerate();
    steps.filter_map(|(step, p)| p.then_some(step)).collect()
}

/// Frames in a line of a picture; long sequences go over several.
fn wrap(time: usize) -> Option<usize> {
    (time > 30).then_some(28)
}

/// Writes files whose names begin as that of `picture`.
pub(crate) fn write_beside(picture: &Path, files: &[(String, Vec<u8>)]) -> Result<(), LabError> {
    let stem = picture.with_extension("");
    for (ending, bytes) in files {
        let mut path = stem.clone().into_os_string();
        path.push(ending);
        write_atomically(Path::new(&path), bytes)?;
    }
    Ok(())
}

fn write_picture(picture: &Image, path: &Path) -> Result<(), LabError> {
    write_png(path, &picture.png_bytes()?)
}

/// Writes a picture's file, and the folder it is to lie in.
/// Refuses a name that is not one of a PNG file.
pub fn check_png_name(path: &Path) -> Result<(), LabError> {
    match path.extension().is_some_and(|extension| extension != "png") {
        false => Ok(()),
        true => Err(LabError::Configuration(format!(
            "{}: pictures are PNG files, name one that ends in .png",
            path.display()
        ))),
    }
}

pub(crate) fn write_png(path: &Path, png: &[u8]) -> Result<(), LabError> {
    check_png_name(path)?;
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        std::fs::create_dir_all(parent).map_err(|error| LabError::write(path, error))?;
    }
    write_atomically(path, png)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_five_digits() {
        for (value, text) in [
            (-784.2345, "-784.23"),
            (-12_345.678, "-12346"),
            (1_234_567.0, "1234567"),
            (6.123_456, "6.1235"),
            (0.012_34, "0.0123"),
            (0.0, "0.0000"),
        ] {
            assert_eq!(digits(value), text);
        }
        assert_eq!(plus_minus(-12_345.678, 45.1234), "-12346 ± 45");
        assert_eq!(plus_minus(-12_345.678, 0.0312), "-12345.68 ± 0.03");
        assert_eq!(plus_minus(6.8312, 0.0345), "6.8312 ± 0.0345");
    }

    /// One recording has no standard error, and no evaluation goes without the number of its sequences.
    #[test]
    fn one_sequence_has_no_standard_error() {
        let bound = |sequences, bound_stderr| {
            let evaluation = Evaluation {
                sequences,
                bound: -784.2,
                bound_stderr,
                ..Evaluation::default()
            };
            let row = numbers(&evaluation).remove(0);
            (row.value, row.meaning)
        };
        let (value, meaning) = bound(1, 0.0);
        assert_eq!(value, "-784.20");
        assert!(!meaning.contains('±'), "{meaning}");
        let (value, meaning) = bound(1024, 1.5);
        assert_eq!(value, "-784.20 ± 1.50");
        assert!(meaning.contains("1024 held-out sequences"), "{meaning}");
        assert!(meaning.contains("± standard error"), "{meaning}");
    }
}
