//! Pictures of a temporal VAE on frames: generated sequences, attention of the memory, the map it walks over.

use super::{evaluate::generation, training::Model};
use crate::{
    Experiment, LabError,
    curves::{
        bound_figure, kl_per_step_chart, kl_per_step_series, last_kl_chart, training_series,
        units_figure,
    },
    experiment::gallery::{Drawn, Shown},
    families::trainer::BatchTensors,
    pictures::{Figures, attention_maps, chart_figure, save_figure},
};
use mnemora_figures::{
    page::Figure,
    picture::{Group, Image, MapOverlay, MapRow, Row, Sequence, Sheet, map_overlay, sheet},
};
use mnemora_memory::Memory;
use mnemora_models::Distribution;
use mnemora_training::{arrays::host, strategy::Inference};
use mnemora_worlds::{Batch, Split, Stream, Task};

/// Size of a frame's pixel in pictures.
const SCALE: usize = 2;

/// Draws the first sequences of the training data.
pub(super) fn training_picture(
    experiment: &Experiment,
    task: &dyn Task,
) -> Result<Drawn, LabError> {
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
            names: Vec::new(),
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
    Ok(Drawn::picture(picture, batch.time))
}

/// Draws the pictures of a temporal VAE's run.
pub(super) fn frame_figures<M: Memory>(
    model: &Inference<Model<M>>,
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
    let mut pictures = vec![save_figure(
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
        pictures.push(save_figure(&picture, &samples.join("map.png"), caption)?);
    }
    let mut memory = Vec::new();
    if let Some(picture) = attention_picture(model, task)? {
        let caption = model.model().memory.attention_words().into();
        memory.push(save_figure(
            &picture,
            &samples.join("attention.png"),
            caption,
        )?);
    }
    let kl_per_step = vec![kl_per_step_series(
        "held-out",
        evaluation.measures.series("kl_per_step"),
    )];
    let charts = vec![
        bound_figure("nats per sequence", shown.metrics, shown.held_out),
        chart_figure(
            last_kl_chart(vec![training_series(metrics, "kl_last")]),
            "KL of the last frame over training: it falls when the memory becomes useful.",
        ),
        chart_figure(
            kl_per_step_chart(kl_per_step, task.recall_interval()),
            "KL of each frame after training, mean over held-out sequences.",
        ),
        units(model, task, experiment.evaluation.pictures),
    ];
    Ok(Figures {
        generated,
        pictures,
        charts,
        memory,
    })
}

/// Draws held-out sequences and how the model continues them after a prompt.
pub(super) fn generated_picture<M: Memory>(
    model: &Inference<Model<M>>,
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
            names: Vec::new(),
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

/// Weights `[slots, time]` of each head on one held-out sequence; `None` for a memory without heads.
fn attention_picture<M: Memory>(
    model: &Inference<Model<M>>,
    task: &dyn Task,
) -> Result<Option<Image>, LabError> {
    let batch = task.batch(Split::Test, &Stream::new(1, "pictures"), 0, 1);
    let marked = predictable(&batch, 0);
    let tensors = BatchTensors::new(batch, &model.model().device());
    let samples = Stream::new(1, "picture samples");
    let (filtered, _) = model.filter(tensors.observations, tensors.conditions, &samples, 1);
    attention_maps(filtered.attention, &marked)
}

/// Which latent dimensions the model uses on held-out sequences.
fn units<M: Memory>(model: &Inference<Model<M>>, task: &dyn Task, sequences: usize) -> Figure {
    let batch = task.batch(Split::Test, &Stream::new(1, "pictures"), 0, sequences);
    let tensors = BatchTensors::new(batch, &model.model().device());
    let samples = Stream::new(1, "picture samples");
    let (filtered, _) = model.filter(tensors.observations, tensors.conditions, &samples, 3);
    units_figure(&filtered.posteriors, &filtered.priors.gaussian())
}

/// A walk over a map, with the maps seen and generated on it; `None` for a task without a map.
fn map_picture<M: Memory>(
    model: &Inference<Model<M>>,
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
    // A row every five steps; fewer for large walks and maps, to limit the picture's size.
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

/// Frames per line of a picture; long sequences take several lines.
fn wrap(time: usize) -> Option<usize> {
    (time > 30).then_some(28)
}
