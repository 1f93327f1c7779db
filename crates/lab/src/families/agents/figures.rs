//! Pictures of agents: episodes, the attention of the memory over them, and curves.

use super::{
    actor::{Actor, Choice},
    environments::{environment_seed, environments},
    settings::AgentSettings,
};
use crate::{
    Experiment, LabError,
    curves::{held_out_series, over, over_time, training_series},
    experiment::gallery::{Drawn, Shown},
    pictures::{Figures, attention_maps, chart_figure, save_animation, save_figure},
};
use mnemora_figures::{
    animation::gif,
    chart::{Chart, Series},
    picture::{Group, Image, Row, Sequence, Sheet, frame, sheet},
};
use mnemora_memory::{Attention, RecurrentCore};
use mnemora_models::Agent;
use mnemora_training::arrays::host;
use mnemora_worlds::{Spec, Stream};

/// Frames in a line.
const WRAP: usize = 16;
/// The most steps of an episode in a picture, unless a number is asked for.
const STEPS: usize = 64;
/// The most steps of an episode in a GIF.
const FILM: usize = 300;
/// Hundredths of a second for which a step is shown in a GIF.
const SHOWN: u16 = 15;
/// The grey of a 0 and of a 1 in a column of numbers.
const LIGHT: f32 = 0.9;
const DARK: f32 = 0.15;
/// About the height of a frame in a GIF, in pixels.
const TALL: usize = 190;

/// An episode, or its beginning.
struct Episode {
    /// `[steps, frame]`
    frames: Vec<f32>,
    steps: usize,
    /// Of the memory's heads at each step.
    attention: Vec<Vec<Attention>>,
    total: f64,
    /// Whether it was played to its end.
    ended: bool,
}

/// The first `most` steps of an episode.
fn played(
    experiment: &Experiment,
    settings: &AgentSettings,
    agent: &Agent,
    seed: u64,
    most: usize,
    choice: Choice,
) -> Result<(Spec, Episode), LabError> {
    let stream = |what| Stream::new(seed, what);
    let seed = environment_seed(&stream("drawn episodes"));
    let environments = environments(experiment, settings, 1, seed)?;
    let mut actor = Actor::new(environments, agent, stream("drawn actions"));
    let spec = *actor.spec();
    let prepared = agent.prepare();
    let mut episode = Episode {
        frames: Vec::new(),
        steps: 0,
        attention: Vec::new(),
        total: 0.0,
        ended: false,
    };
    while episode.steps < most && !episode.ended {
        let seen = actor.environments.observations();
        episode.frames.extend_from_slice(seen);
        episode.steps += 1;
        let acts = actor.step(agent, &prepared, choice)?;
        episode.attention.push(acts.attention);
        episode.total += f64::from(actor.environments.rewards()[0]);
        episode.ended = actor.environments.lasts()[0];
    }
    Ok((spec, episode))
}

/// Frames that can be drawn: of a picture its first three channels or its only one, of anything else a column of numbers,
/// dark where they are large, since the ground is white.
pub fn drawable(spec: &Spec, frames: &[f32]) -> (Vec<f32>, [usize; 3]) {
    let frame = spec.frame;
    let (pixels, size) = (frame.height * frame.width, frame.size());
    if frame.height == 1 {
        let dark = |number: &f32| LIGHT - (LIGHT - DARK) * number;
        return (
            frames.iter().map(dark).collect(),
            [1, frame.channels, frame.width],
        );
    }
    let channels = if frame.channels >= 3 { 3 } else { 1 };
    let shown = frames
        .chunks(size)
        .flat_map(|frame| &frame[..channels * pixels]);
    let shown = shown.copied().collect();
    (shown, [channels, frame.height, frame.width])
}

/// Episodes below each other, step by step.
pub fn drawn(
    experiment: &Experiment,
    settings: &AgentSettings,
    agent: &Agent,
    episodes: usize,
    seed: u64,
    steps: Option<usize>,
    choice: Choice,
) -> Result<Drawn, LabError> {
    let most = steps.unwrap_or(STEPS);
    let mut shown = Vec::new();
    let mut longest = 0;
    for number in 0..episodes as u64 {
        let seed = seed.wrapping_add(number);
        let (spec, episode) = played(experiment, settings, agent, seed, most, choice)?;
        longest = longest.max(episode.steps);
        let label = match episode.ended {
            true => format!("return {:.2} in {} steps", episode.total, episode.steps),
            false => format!(
                "the first {} steps, {:.2} so far",
                episode.steps, episode.total
            ),
        };
        let (frames, shape) = drawable(&spec, &episode.frames);
        shown.push((label, frames, episode.steps, shape));
    }
    let groups = shown.iter().map(|(label, frames, steps, shape)| Group {
        rows: vec![Row {
            label: label.clone(),
            frames: Sequence {
                frames,
                steps: *steps,
                channels: shape[0],
                height: shape[1],
                width: shape[2],
            },
            first_step: 0,
        }],
        marked: Vec::new(),
        names: Vec::new(),
    });
    let height = shown.first().map_or(1, |(_, _, _, shape)| shape[1]);
    let picture = sheet(&Sheet {
        title: match choice {
            Choice::Random => format!("{}: an agent that acts at random", experiment.name),
            _ => format!("{}: episodes as the agent sees them", experiment.name),
        },
        groups: groups.collect(),
        mark_caption: String::new(),
        scale: (48 / height).clamp(1, 12),
        wrap: Some(WRAP),
        first_number: 1,
    })?;
    Ok(Drawn::picture(picture, longest))
}

/// Weights of a memory's heads at each step as small pictures, `[time, 1, heads, slots]`, black for 1, each weight of
/// `size` pixels on a side; `None` if no head has weights at every step, or they would be wider than `widest`.
fn weights_of(
    attention: &[Vec<Attention>],
    size: usize,
    widest: usize,
) -> Option<(Vec<f32>, [usize; 2])> {
    let mut all = Vec::new();
    let mut shape = None;
    for step in attention {
        let weights = step.first()?.weights();
        let [_, heads, slots] = weights.dims();
        let here = [heads * size, slots * size];
        if here[1] > widest || *shape.get_or_insert(here) != here {
            return None;
        }
        let weights = host(weights.into_data());
        for row in weights.chunks(slots) {
            let wide = row
                .iter()
                .flat_map(|weight| std::iter::repeat_n(1.0 - weight, size));
            let wide: Vec<f32> = wide.collect();
            all.extend(std::iter::repeat_n(wide, size).flatten());
        }
    }
    Some((all, shape?))
}

/// What heads attend to where each pixel is attended to by itself, as small pictures, `[time, 1, heads * (height + 1),
/// width]`: for each head the pixels, and below them a row of the slots; black for the largest weight of a head.
fn weights_of_pixels(
    attention: &[Vec<Attention>],
    [height, width]: [usize; 2],
) -> Option<(Vec<f32>, [usize; 2])> {
    let mut all = Vec::new();
    let mut heads = 0;
    for step in attention {
        let weights = step.first()?.weights();
        let [_, of, attended] = weights.dims();
        heads = of;
        let slots = attended.checked_sub(height * width)?;
        if slots > width {
            return None;
        }
        for row in host(weights.into_data()).chunks(attended) {
            let (of_slots, of_pixels) = row.split_at(slots);
            let most = row.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
            let mut shown = of_pixels.to_vec();
            shown.extend_from_slice(of_slots);
            shown.resize((height + 1) * width, 0.0);
            all.extend(shown.into_iter().map(|weight| 1.0 - weight / most));
        }
    }
    Some((all, [heads * (height + 1), width]))
}

/// An episode with the attention of the memory below each frame; `None` for a core without heads, or with more slots than
/// fit there.
fn attended(
    experiment: &Experiment,
    agent: &Agent,
    spec: &Spec,
    episode: &Episode,
) -> Result<Option<Image>, LabError> {
    let (frames, [channels, height, width]) = drawable(spec, &episode.frames);
    let steps = episode.steps.min(STEPS);
    let size = (height / 4).max(1);
    let widest = 4 * width.max(height);
    let attention = &episode.attention[..steps];
    let found = match agent.pixels() {
        Some(pixels) => weights_of_pixels(attention, pixels),
        None => weights_of(attention, size, widest),
    };
    let Some((weights, [rows, columns])) = found else {
        return Ok(None);
    };
    let row = |label: &str, frames, channels, height, width| Row {
        label: label.into(),
        frames: Sequence {
            frames,
            steps,
            channels,
            height,
            width,
        },
        first_step: 0,
    };
    let picture = sheet(&Sheet {
        title: format!(
            "{}: what it sees, and where its memory looks",
            experiment.name
        ),
        groups: vec![Group {
            rows: vec![
                row(
                    "sees",
                    &frames[..steps * channels * height * width],
                    channels,
                    height,
                    width,
                ),
                row("attention", &weights, 1, rows, columns),
            ],
            marked: Vec::new(),
            names: Vec::new(),
        }],
        mark_caption: String::new(),
        scale: (48 / height).clamp(1, 12),
        wrap: Some(WRAP),
        first_number: 1,
    })?;
    Ok(Some(picture))
}

/// An episode as a film.
fn film(spec: &Spec, episode: &Episode) -> Result<Vec<Image>, LabError> {
    let (frames, [channels, height, width]) = drawable(spec, &episode.frames);
    let scale = (TALL / height.max(1)).clamp(1, 40);
    let images = frames
        .chunks(channels * height * width)
        .map(|values| frame(values, channels, height, width, scale));
    Ok(images.collect::<Result<_, _>>()?)
}

/// Curves of the return.
pub fn return_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Return".into(),
        x_label: "update".into(),
        y_label: "reward per episode".into(),
        series,
        ..Chart::default()
    }
}

/// Curves of the return over the steps of all environments.
pub fn return_by_steps(series: Vec<Series>) -> Chart {
    Chart {
        title: "Return by steps".into(),
        x_label: "step of the environments".into(),
        ..return_chart(series)
    }
}

/// Curves of the return over the time since the start, in a unit.
pub fn return_by_time(unit: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: "Return by time".into(),
        x_label: unit.into(),
        ..return_chart(series)
    }
}

/// Curves of what the environment counts.
pub fn outcome_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Outcome".into(),
        y_label: String::new(),
        ..return_chart(series)
    }
}

/// The pictures and charts of a report.
pub fn figures(
    settings: &AgentSettings,
    agent: &Agent,
    shown: &Shown,
) -> Result<Figures, LabError> {
    let experiment = shown.experiment;
    let count = experiment.evaluation.pictures;
    let generated = drawn(experiment, settings, agent, count, 1, None, Choice::Sampled)?.picture;
    let mut pictures = vec![save_figure(
        &generated,
        &shown.samples.join("generated.png"),
        "Held-out episodes as the agent sees them, actions drawn from its policy.".into(),
    )?];
    let (spec, episode) = played(experiment, settings, agent, 1, FILM, Choice::Sampled)?;
    if spec.frame.height > 1 {
        let names = spec.actions.join(", ");
        pictures.push(save_animation(
            gif(&film(&spec, &episode)?, SHOWN)?,
            &shown.samples.join("episode.gif"),
            format!(
                "The first of these episodes: {} steps, return {:.2}. The agent chooses among {names}.",
                episode.steps, episode.total
            ),
        )?);
    }
    let mut memory = Vec::new();
    if let Some(picture) = attended(experiment, agent, &spec, &episode)? {
        memory.push(save_figure(
            &picture,
            &shown.samples.join("attended.png"),
            match agent.pixels() {
                Some(_) => {
                    "The first steps of that episode, and below each what the memory attends to: for each head the \
                     pixels that it sees, and below them a row of the memory's slots, dark where the weight is large."
                }
                None => {
                    "The first steps of that episode, and below each what the memory attends to: a row for each head, a \
                     column for each slot, dark where the weight is large. In an RMC the last column is what it sees."
                }
            }
            .into(),
        )?);
    }
    let steps = episode.attention.into_iter().take(STEPS).collect();
    if let Some(picture) = attention_maps(steps, &[])? {
        memory.push(save_figure(
            &picture,
            &shown.samples.join("attention.png"),
            agent.core.attention_words().into(),
        )?);
    }
    let both = |key| {
        vec![
            training_series(shown.metrics, key),
            held_out_series("held-out", shown.held_out, key),
        ]
    };
    let line = |title: &str, unit: &str, key| Chart {
        title: title.into(),
        y_label: unit.into(),
        ..return_chart(vec![training_series(shown.metrics, key)])
    };
    let mut charts = vec![chart_figure(
        return_chart(both("return")),
        "Return over training: of the last hundred training episodes, and of held-out ones.",
    )];
    if shown.evaluation.measures.number("outcome").is_some() {
        let name = shown.evaluation.measures.text("outcome_name");
        let caption = format!(
            "What the environment counts: {}.",
            name.unwrap_or("outcome")
        );
        charts.push(chart_figure(outcome_chart(both("outcome")), &caption));
    }
    let by_steps = both("return")
        .into_iter()
        .map(|series| over(series, shown.metrics, "frames"));
    let (unit, by_time) = over_time(both("return"), shown.machine);
    for (chart, caption) in [
        (
            return_by_steps(by_steps.collect()),
            "The return over the steps that all environments made until then.",
        ),
        (
            return_by_time(unit, by_time),
            "The return over the time since the start, with evaluations and checkpoints.",
        ),
        (
            line("Entropy of the policy", "nats", "entropy"),
            "How undecided the policy is.",
        ),
        (
            line("Error of the values", "squared reward", "value_error"),
            "Mean squared difference of the values from their targets.",
        ),
    ] {
        // Earlier versions kept no times.
        if chart.has_points() {
            charts.push(chart_figure(chart, caption));
        }
    }
    Ok(Figures {
        generated,
        pictures,
        charts,
        memory,
    })
}
