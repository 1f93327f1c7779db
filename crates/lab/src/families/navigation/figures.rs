//! Pictures of walks: what was foreseen, where the model believes to be, what it stored where.

use super::{
    evaluate::{BLOCK, Foreseen, Foresees, held_out},
    fit::AffineFit,
    settings::NavigationSettings,
    walks::Lesson,
    world::World,
};
use crate::{
    Experiment, LabError,
    curves::{
        bound_figure, held_out_series, kl_per_step_chart, kl_per_step_series, last_kl_chart,
        series_by_block, training_series,
    },
    experiment::family::{Drawn, Shown},
    pictures::{Figures, chart_figure, grid, save_figure},
};
use mnemora_figures::{
    chart::{Chart, Series},
    picture::{Colour, Group, Image, Row, Sequence, Sheet, sheet},
};
use mnemora_worlds::{FrameShape, Split, Stream, Walks};

/// Frames shown of either end of a prediction.
const SHOWN: usize = 20;
/// Steps of the path on a map.
const PATH: usize = 64;
/// Screen pixels of a pixel on a map.
const ZOOM: usize = 10;
const TRUTH: Colour = [213, 94, 0];
const BELIEF: Colour = [0, 114, 178];

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

/// Draws a walk over a picture twice: what was seen where, and what the model stored where it believed to be; each with
/// the last steps of the path.
fn map_picture(
    settings: &NavigationSettings,
    world: &World,
    foreseen: &Foreseen,
) -> Result<Option<Image>, LabError> {
    let walks = &foreseen.walks;
    let (World::Images { .. }, Some(located)) = (world, &foreseen.located) else {
        return Ok(None);
    };
    let (width, time) = (located.width, walks.time);
    let truth: Vec<[f32; 2]> = walks.places[..time * walks.place_width]
        .chunks(walks.place_width)
        .map(|place| [place[0], place[1]])
        .collect();
    let believed = &located.places[..time * width];
    let Some(fit) = AffineFit::of(believed, width, &truth) else {
        return Ok(None);
    };
    let truth: Vec<[f64; 2]> = truth.iter().map(|point| point.map(f64::from)).collect();
    let believed: Vec<[f64; 2]> = believed
        .chunks(width)
        .map(|place| fit.point(place))
        .collect();
    let panels = [
        (&truth, &walks.frames, TRUTH),
        (&believed, &foreseen.decoded, BELIEF),
    ]
    .map(|(points, frames, colour)| panel(settings, walks, points, frames, colour));
    let [one, other] = panels;
    Ok(Some(grid(&[one?, other?], 2)?))
}

/// The frames of the memorised steps at these points, and the path of the last steps.
fn panel(
    settings: &NavigationSettings,
    walks: &Walks,
    points: &[[f64; 2]],
    frames: &[f32],
    colour: Colour,
) -> Result<Image, LabError> {
    let stride = settings.image.stride as f64 * ZOOM as f64;
    let side = settings.image.picture * ZOOM;
    let margin = ZOOM;
    let mut image = Image::new(side + 2 * margin, side + 2 * margin, [255; 3])?;
    let pixels = walks.frame.size();
    let corner =
        |point: &[f64; 2]| point.map(|x| (margin as f64 + x * stride).round().max(0.0) as usize);
    for (step, point) in points.iter().enumerate().take(settings.memorise) {
        let [left, top] = corner(point);
        let frame = &frames[walks.seen[step] as usize * pixels..][..pixels];
        draw_frame(&mut image, walks.frame, frame, [left, top], ZOOM);
    }
    let middle = |point: &[f64; 2]| {
        let [left, top] = corner(point);
        let half = walks.frame.width * ZOOM / 2;
        [left + half, top + half]
    };
    let shown = &points[points.len().saturating_sub(PATH)..];
    for pair in shown.windows(2) {
        let [from, to] = [middle(&pair[0]), middle(&pair[1])];
        for part in 0..=32 {
            let share = part as f64 / 32.0;
            let at = [0, 1].map(|axis| {
                (from[axis] as f64 + share * (to[axis] as f64 - from[axis] as f64)) as usize
            });
            image.fill(
                at[0].saturating_sub(1),
                at[1].saturating_sub(1),
                3,
                3,
                colour,
            );
        }
    }
    for point in shown {
        let [x, y] = middle(point);
        image.fill(x.saturating_sub(4), y.saturating_sub(4), 9, 9, [255; 3]);
        image.fill(x.saturating_sub(3), y.saturating_sub(3), 7, 7, colour);
    }
    Ok(image)
}

/// Draws a frame, `[channels, height, width]`, with its corner at a pixel of a picture; each of its pixels is `zoom` pixels
/// wide.
pub fn draw_frame(
    image: &mut Image,
    shape: FrameShape,
    frame: &[f32],
    [left, top]: [usize; 2],
    zoom: usize,
) {
    let plane = shape.height * shape.width;
    for pixel in 0..plane {
        let value = |channel: usize| {
            let index = (channel % shape.channels) * plane + pixel;
            (frame[index].clamp(0.0, 1.0) * 255.0).round() as u8
        };
        let (x, y) = (pixel % shape.width, pixel / shape.width);
        let colour = [value(0), value(1), value(2)];
        image.fill(left + x * zoom, top + y * zoom, zoom, zoom, colour);
    }
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
    if let Some(map) = map_picture(settings, world, &foreseen)? {
        pictures.push(save_figure(
            &map,
            &samples.join("map.png"),
            format!(
                "Left: what was seen where on a held-out walk, and its last {PATH} steps. Right: what the model \
                 stored where it believed to be, and where it believes to go, after the affine map that fits best."
            ),
        )?);
    }
    let of =
        |label: &str, key: &str| series_by_block(label, evaluation.measures.series(key), BLOCK);
    let mut charts = vec![
        bound_figure(metrics, held_out)?,
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
        )?,
    ];
    match &foreseen.located {
        Some(_) => charts.push(chart_figure(
            place_chart(vec![held_out_series("held-out", held_out, "place_r2")]),
            "A plateau near 0.5 means that both axes lie on one line.",
        )?),
        None => {
            let per_step = evaluation.measures.series("kl_per_step");
            let foreseen = settings.memorise..settings.memorise + settings.foresee;
            charts.push(chart_figure(
                last_kl_chart(vec![training_series(metrics, "kl_last")]),
                "KL of the last frame over training: it falls when the memory becomes useful.",
            )?);
            charts.push(chart_figure(
                kl_per_step_chart(
                    vec![kl_per_step_series("held-out", per_step)],
                    Some(foreseen),
                ),
                "KL of each frame after training, mean over held-out walks that the model sees.",
            )?);
        }
    }
    Ok(Figures {
        generated,
        pictures,
        charts,
        memory: Vec::new(),
    })
}
