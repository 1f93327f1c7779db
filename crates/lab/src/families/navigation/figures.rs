//! Pictures of walks: what was foreseen, where the model believes to be, what it stored where.

use super::{
    errors::BLOCK,
    evaluate::{Foreseen, Foresees, held_out},
    maps,
    settings::NavigationSettings,
    walks::Lesson,
    world::{Compared, World},
};
use crate::{
    Experiment, LabError,
    curves::{
        bound_figure, held_out_series, kl_per_step_chart, kl_per_step_series, last_kl_chart,
        series_by_block, training_series,
    },
    experiment::gallery::{Drawn, Shown},
    pictures::{Figures, chart_figure, save_animation, save_figure},
};
use mnemora_figures::{
    chart::{Chart, Series},
    picture::{Group, Image, Row, Sequence, Sheet, sheet},
};
use mnemora_worlds::{Split, Stream, Walks};

/// Frames shown of either end of a prediction.
const SHOWN: usize = 20;

/// Screen pixels of a pixel of a frame.
fn scale(walks: &Walks) -> usize {
    (64 / walks.frame.height.max(1)).clamp(1, 6)
}

/// Frames of some steps of a walk, `[steps, pixels]`.
fn frames_of(walks: &Walks, row: usize, steps: std::ops::Range<usize>) -> Vec<f32> {
    let pixels = walks.frame.size();
    let seen = &walks.seen[row * walks.time..][steps];
    let frame = |index: &u32| {
        walks.frames[*index as usize * pixels..][..pixels]
            .iter()
            .copied()
    };
    seen.iter().flat_map(frame).collect()
}

fn sequence<'a>(walks: &Walks, frames: &'a [f32]) -> Sequence<'a> {
    Sequence {
        frames,
        steps: frames.len() / walks.frame.size(),
        channels: walks.frame.channels,
        height: walks.frame.height,
        width: walks.frame.width,
    }
}

/// Draws the first walks of the training data.
pub fn training_picture(
    experiment: &Experiment,
    settings: &NavigationSettings,
    world: &World,
) -> Result<Drawn, LabError> {
    let stream = Stream::new(experiment.seed, "data");
    let lesson = Lesson {
        memorise: settings.memorise,
        predict: settings.predict,
        without_walls: false,
    };
    let walks = world.walks(
        Split::Train,
        &stream,
        0,
        experiment.evaluation.pictures,
        lesson,
    );
    let shown = walks.time.min(3 * SHOWN);
    let frames: Vec<Vec<f32>> = (0..walks.batch)
        .map(|row| frames_of(&walks, row, 0..shown))
        .collect();
    let rows = frames.iter().enumerate().map(|(row, frames)| Group {
        rows: vec![Row {
            label: format!("{}", row + 1),
            frames: sequence(&walks, frames),
            first_step: 0,
        }],
        marked: (0..shown)
            .filter(|step| walks.blocked[row * walks.time + step])
            .collect(),
        names: Vec::new(),
    });
    let picture = sheet(&Sheet {
        title: format!(
            "{}: training walks, the first {shown} steps",
            experiment.name
        ),
        groups: rows.collect(),
        mark_caption: "a wall stopped the step".into(),
        scale: scale(&walks),
        wrap: Some(SHOWN),
        first_number: 1,
    })?;
    Ok(Drawn::picture(picture, walks.time))
}

fn pictured(
    settings: &NavigationSettings,
    world: &World,
    model: &dyn Foresees,
    walks: usize,
    seed: u64,
) -> Foreseen {
    let streams = ["pictures", "picture samples"].map(|name| Stream::new(seed, name));
    let [data, noise] = &streams;
    held_out(settings, world, model, [data, noise], 0, walks)
}

/// Draws held-out walks and what the model foresees of them: the first and the last steps.
pub fn generated(
    settings: &NavigationSettings,
    world: &World,
    model: &dyn Foresees,
    walks: usize,
    seed: u64,
) -> Result<Drawn, LabError> {
    let foreseen = pictured(settings, world, model, walks, seed);
    let picture = foreseen_picture(settings, &foreseen)?;
    Ok(Drawn::picture(
        picture,
        settings.memorise + settings.foresee,
    ))
}

fn foreseen_picture(settings: &NavigationSettings, foreseen: &Foreseen) -> Result<Image, LabError> {
    let walks = &foreseen.walks;
    let (memorised, predicted) = (settings.memorise, settings.foresee);
    let pixels = walks.frame.size();
    let shown = SHOWN.min(predicted);
    let starts = match predicted > 2 * shown {
        true => vec![0, predicted - shown],
        false => vec![0],
    };
    let of = |all: &[f32], row: usize, start: usize| {
        all[(row * predicted + start) * pixels..][..shown * pixels].to_vec()
    };
    let sheets = starts.into_iter().map(|start| {
        let first = memorised + start;
        let frames: Vec<[Vec<f32>; 3]> = (0..walks.batch)
            .map(|row| {
                [
                    frames_of(walks, row, first..first + shown),
                    of(&foreseen.best, row, start),
                    of(&foreseen.sampled, row, start),
                ]
            })
            .collect();
        let groups = frames.iter().map(|frames| Group {
            rows: ["truth", "foreseen", "sampled"]
                .into_iter()
                .zip(frames)
                .map(|(label, frames)| Row {
                    label: label.into(),
                    frames: sequence(walks, frames),
                    first_step: 0,
                })
                .collect(),
            marked: Vec::new(),
            names: Vec::new(),
        });
        sheet(&Sheet {
            title: format!(
                "From the actions alone, {} steps after the last memorised one",
                start + 1
            ),
            groups: groups.collect(),
            mark_caption: String::new(),
            scale: scale(walks),
            wrap: None,
            first_number: first + 1,
        })
    });
    let sheets: Vec<Image> = sheets.collect::<Result<_, _>>()?;
    Ok(Image::stack(&sheets, 12)?)
}

/// The errors of predicted frames against the steps since memorisation.
pub fn error_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Error of foreseen frames".into(),
        x_label: "steps since the last memorised frame".into(),
        y_label: "mean squared error of a pixel".into(),
        series,
        ..Chart::default()
    }
}

/// How much of the true place the model's place explains, over training.
pub fn place_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Places that the model knows".into(),
        x_label: "update".into(),
        y_label: "R² of the true place".into(),
        series,
        ..Chart::default()
    }
}

/// Draws the pictures of a run.
pub fn figures(
    settings: &NavigationSettings,
    world: &World,
    model: &dyn Foresees,
    shown: &Shown,
) -> Result<Figures, LabError> {
    let Shown {
        experiment,
        evaluation,
        metrics,
        held_out,
        samples,
        ..
    } = shown;
    let foreseen = pictured(settings, world, model, experiment.evaluation.pictures, 1);
    let generated = foreseen_picture(settings, &foreseen)?;
    let mut pictures = vec![save_figure(
        &generated,
        &samples.join("generated.png"),
        format!(
            "Held-out walks. The model memorises {} steps, then gets actions only. 'Foreseen': the mean of the \
             nearest stored entry, decoded; 'sampled': a sample of the prior. The first and the last steps of {}.",
            settings.memorise, settings.foresee
        ),
    )?];
    let labyrinth = match world {
        World::Labyrinth(walks) if world.compared() == Compared::Point => Some(walks),
        _ => None,
    };
    let map = match (world, labyrinth) {
        (World::Images { .. }, _) => maps::of_picture(settings, &foreseen)?.map(|map| {
            let caption = format!(
                "Left: what was seen where on a held-out walk, and its last {} steps. Right: what the model \
                 stored where it believed to be, and where it believes to go, after the affine map that fits best.",
                maps::PATH
            );
            (map, caption)
        }),
        (_, Some(walks)) => {
            let map = maps::of_labyrinth(walks, settings.memorise, &foreseen)?;
            let caption = format!(
                "Held-out walks from above. Grey: the {} memorised steps. Then {} steps from the actions alone: the \
                 true way (orange) and where the model believes to be (blue), after the affine map that fits best.",
                settings.memorise, settings.foresee
            );
            map.map(|map| (map, caption))
        }
        _ => None,
    };
    if let Some((map, caption)) = map {
        pictures.push(save_figure(&map, &samples.join("map.png"), caption)?);
    }
    pictures.push(save_animation(
        maps::animation(labyrinth, settings.memorise, &foreseen)?,
        &samples.join("foreseen.gif"),
        "The first foreseen steps of the first walk: the true frame, the foreseen one, a sample; from above where the agent \
         is (orange) and where the model believes it to be (blue)."
            .into(),
    )?);
    let of =
        |label: &str, key: &str| series_by_block(label, evaluation.measures.series(key), BLOCK);
    let mut charts = vec![
        bound_figure("nats per foreseen frame", metrics, held_out),
        chart_figure(
            error_chart(vec![
                of("foreseen", "best_by_block"),
                of("sampled", "sampled_by_block"),
                of("VAE itself", "own_by_block"),
                of("nearest place seen", "oracle_by_block"),
                of("mean of memory", "average_by_block"),
                of("last frame copied", "copied_by_block"),
            ]),
            "Errors of held-out frames: flat if nothing is forgotten. 'VAE itself' sees the frame; 'nearest place \
             seen' is the VAE's frame of the memorised place that is truly nearest.",
        ),
    ];
    match &foreseen.located {
        Some(_) => charts.push(chart_figure(
            place_chart(vec![held_out_series("held-out", held_out, "place_r2")]),
            "A plateau near 0.5 means that both axes lie on one line.",
        )),
        None => {
            let per_step = evaluation.measures.series("kl_per_step");
            let foreseen = settings.memorise..settings.memorise + settings.foresee;
            charts.push(chart_figure(
                last_kl_chart(vec![training_series(metrics, "kl_last")]),
                "KL of the last frame over training: it falls when the memory becomes useful.",
            ));
            charts.push(chart_figure(
                kl_per_step_chart(
                    vec![kl_per_step_series("held-out", per_step)],
                    Some(foreseen),
                ),
                "KL of each frame after training, mean over held-out walks that the model sees.",
            ));
        }
    }
    Ok(Figures {
        generated,
        pictures,
        charts,
        memory: Vec::new(),
    })
}
