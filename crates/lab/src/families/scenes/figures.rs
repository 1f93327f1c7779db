//! Pictures of scenes: what was seen, what is true, and what a model answers.

use super::{
    answers::{answers, reported},
    batch::{context, normal, targets},
    settings::SceneSettings,
    world::World,
};
use crate::{
    Experiment, LabError,
    curves::{bound_figure, held_out_series, training_series},
    experiment::gallery::{Drawn, Shown},
    pictures::{Figures, chart_figure, save_animation, save_figure},
};
use mnemora_figures::{
    animation::gif,
    chart::{Chart, Series},
    picture::{Group, Image, Row, Sequence, Sheet, sheet},
};
use mnemora_models::AnyScenes;
use mnemora_training::arrays::host;
use mnemora_worlds::{
    Split, Stream,
    scenes::{Ask, SceneBatch},
};

/// Samples that are drawn of each scene.
const SAMPLES: usize = 3;
/// Hundredths of a second for which a view is shown in a GIF.
const SHOWN: u16 = 20;
/// Frames in a line.
const WRAP: usize = 12;

/// A row of frames, numbered after `first_step` others.
fn row<'a>(batch: &SceneBatch, label: &str, frames: &'a [f32], first_step: usize) -> Row<'a> {
    Row {
        label: label.into(),
        frames: Sequence {
            frames,
            steps: frames.len() / batch.frame.size(),
            channels: batch.frame.channels,
            height: batch.frame.height,
            width: batch.frame.width,
        },
        first_step,
    }
}

fn drawn(title: String, batch: &SceneBatch, groups: Vec<Vec<Row>>) -> Result<Image, LabError> {
    let group = |rows| Group {
        rows,
        marked: Vec::new(),
        names: Vec::new(),
    };
    Ok(sheet(&Sheet {
        title,
        groups: groups.into_iter().map(group).collect(),
        mark_caption: String::new(),
        scale: (96 / batch.frame.height.max(1)).clamp(1, 8),
        wrap: Some(WRAP),
        first_number: 1,
    })?)
}

/// The views of one scene.
fn of_scene<'a>(all: &'a [f32], batch: &SceneBatch, scene: usize, each: usize) -> &'a [f32] {
    let size = each * batch.frame.size();
    &all[scene * size..][..size]
}

/// How many numbers come before those of the targets: the frames of a story go on after its context.
fn numbered_after(ask: Ask, batch: &SceneBatch) -> usize {
    match ask {
        Ask::Story => batch.context,
        _ => 0,
    }
}

/// Draws the first scenes of the training data.
pub fn training_picture(experiment: &Experiment, world: &World) -> Result<Drawn, LabError> {
    let stream = Stream::new(experiment.seed, "data");
    let count = experiment.evaluation.pictures;
    let ask = World::learned_from(experiment.model.name);
    let batch = world.batch(Split::Train, ask, &stream, 0, count);
    let groups = (0..batch.scenes).map(|scene| {
        let seen = of_scene(&batch.context_frames, &batch, scene, batch.context);
        let asked = of_scene(&batch.target_frames, &batch, scene, batch.targets);
        let mut rows = vec![row(&batch, "asked for", asked, numbered_after(ask, &batch))];
        if batch.context > 0 {
            rows.insert(0, row(&batch, "context", seen, 0));
        }
        rows
    });
    let title = format!("{}: training scenes", experiment.name);
    let picture = drawn(title, &batch, groups.collect())?;
    Ok(Drawn::picture(picture, batch.context + batch.targets))
}

/// Draws held-out scenes and samples of the model: whole stories if it learns from them, otherwise, where something is
/// hidden, views that show it.
pub fn answered(
    world: &World,
    model: &AnyScenes,
    scenes: usize,
    seed: u64,
) -> Result<Drawn, LabError> {
    let ask = match model.tells_stories() {
        true => Ask::Story,
        false => world.hidden().unwrap_or(Ask::Any),
    };
    answered_to(world, model, ask, scenes, seed)
}

fn answered_to(
    world: &World,
    model: &AnyScenes,
    ask: Ask,
    scenes: usize,
    seed: u64,
) -> Result<Drawn, LabError> {
    let device = model.device();
    let stream = Stream::new(seed, "pictures");
    let batch = world.batch(Split::Test, ask, &stream, 0, scenes);
    let (seen, asked) = (context(&batch, &device), targets(&batch, &device));
    let noise = Stream::new(seed, "picture samples");
    let shape = [scenes, model.noise_size(batch.targets)];
    let known = model.know(seen.as_ref(), scenes);
    let found = model.bound(&known, &asked, normal(&noise, 0, shape, &device));
    let reconstructed = host(found.frames.clamp(0.0, 1.0).into_data());
    let samples: Vec<Vec<f32>> = (1..=SAMPLES as u64)
        .map(|draw| {
            let noise = normal(&noise, draw, shape, &device);
            let frames = model.sample(&known, asked.queries.clone(), noise);
            host(frames.clamp(0.0, 1.0).into_data())
        })
        .collect();
    let first_step = numbered_after(ask, &batch);
    let groups = (0..scenes).map(|scene| {
        let asked = |all| of_scene(all, &batch, scene, batch.targets);
        let mut rows = vec![
            row(&batch, "truth", asked(&batch.target_frames), first_step),
            row(
                &batch,
                if model.has_posterior() {
                    "seen by the posterior"
                } else {
                    "predicted"
                },
                asked(&reconstructed),
                first_step,
            ),
        ];
        if batch.context > 0 {
            let seen = of_scene(&batch.context_frames, &batch, scene, batch.context);
            rows.insert(0, row(&batch, "context", seen, 0));
        }
        for (sample, frames) in samples.iter().enumerate() {
            let label = format!("sample {}", sample + 1);
            rows.push(row(&batch, &label, asked(frames), first_step));
        }
        rows
    });
    let title = format!(
        "Held-out scenes, {} views seen and {} asked for",
        batch.context, batch.targets
    );
    let picture = drawn(title, &batch, groups.collect())?;
    Ok(Drawn::picture(picture, batch.context + batch.targets))
}

/// A share of samples or targets over training.
pub fn share_chart(title: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: title.into(),
        x_label: "update".into(),
        y_label: "share".into(),
        y_range: Some((0.0, 1.0)),
        series,
        ..Chart::default()
    }
}

/// The pictures and charts of a report.
pub fn figures(
    world: &World,
    settings: &SceneSettings,
    model: &AnyScenes,
    shown: &Shown,
) -> Result<Figures, LabError> {
    let count = shown.experiment.evaluation.pictures;
    let generated = answered(world, model, count, 1)?.picture;
    let mut pictures = vec![save_figure(
        &generated,
        &shown.samples.join("generated.png"),
        "Held-out scenes: what is seen, what is true, what the model makes of the targets (a posterior sees them), and samples. \
         A consistent model's samples show one scene each."
            .into(),
    )?];
    if world.scenes.ordered() && !model.tells_stories() {
        let stories = answered_to(world, model, Ask::Story, count, 1)?.picture;
        pictures.push(save_figure(
            &stories,
            &shown.samples.join("stories.png"),
            "Held-out stories: the first frames are seen, and all that follow are asked for."
                .into(),
        )?);
    }
    let question = reported(world, settings, (model.tells_stories(), SAMPLES));
    let asked = answers(world, settings, model, &question)?;
    pictures.push(save_figure(
        &asked.sheet(&[])?,
        &shown.samples.join("query.png"),
        format!(
            "One scene from all sides or at all times: what is seen, what is true, and samples. {}",
            asked.words().unwrap_or_default()
        ),
    )?);
    if world.scenes.around() {
        pictures.push(save_animation(
            gif(&asked.film(&[])?, SHOWN)?,
            &shown.samples.join("query.gif"),
            "The same, around the scene. A consistent model draws one scene for each sample."
                .into(),
        )?);
    }
    let held_out = |label: &str, key| held_out_series(label, shown.held_out, key);
    let kl = Chart {
        title: "KL".into(),
        x_label: "update".into(),
        y_label: "nats per scene".into(),
        series: vec![training_series(shown.metrics, "kl")],
        ..Chart::default()
    };
    let error = Chart {
        title: "Error of reconstructions".into(),
        x_label: "update".into(),
        y_label: "mean squared error".into(),
        series: vec![
            training_series(shown.metrics, "reconstruction_error"),
            held_out("held-out", "reconstruction_error"),
        ],
        ..Chart::default()
    };
    let mut charts = vec![
        bound_figure("nats per scene", shown.metrics, shown.held_out),
        chart_figure(
            error,
            "Error of all targets, also of those that the posterior does not see.",
        ),
        chart_figure(kl, "KL of the posterior from the prior."),
    ];
    if world.scenes.hides() {
        let shares = vec![
            held_out("samples coherent", "alike"),
            held_out("reconstructions read right", "read_right"),
        ];
        charts.push(chart_figure(
            share_chart("What is read off the answers", shares),
            "Samples all of whose targets show the same, and reconstructions that show what is true.",
        ));
    }
    Ok(Figures {
        generated,
        pictures,
        charts,
        memory: Vec::new(),
    })
}
