//! Pictures of recorded sequences, of a model's predictions and of generated sequences, and sound files.

use super::{
    Source,
    look::{Line, Look},
    upload,
};
use crate::{
    Experiment, LabError,
    curves::{free_energy_chart, held_out_series, training_series, units_figure},
    experiment::{
        Kind,
        gallery::{Drawn, FilteredSequence, Shown},
    },
    numeric::quantile,
    pictures::{Figures, chart_figure, grid, save_animation, save_figure, write_beside},
};
use burn::{module::Module, tensor::Tensor};
use mnemora_figures::{
    animation::gif,
    chart::{Chart, Series},
    page::{Content, Figure},
    picture::{Image, frame},
};
use mnemora_models::{Distribution, FilteringModel, Likelihood, decoded_at, expected, generate};
use mnemora_training::{
    arrays::host,
    strategy::{Inference, noise},
};
use mnemora_worlds::{Part, Stream};

/// The most steps in a picture of predictions.
const MOST_STEPS: usize = 120;
/// Hundredths of a second for which a frame is shown in a GIF.
const SHOWN: u16 = 15;
/// Continuations of a recording of numbers.
const CONTINUATIONS: usize = 64;
/// The part of the continuations, or of the predicted probability, that a band covers.
const BAND: f64 = 0.8;
/// The quantile of a standard normal number at the upper end of that band.
const BAND_END: f64 = 1.281_551_565_544_6;

/// The first `steps` rows of sequence `row` in `[time * batch, numbers]`.
fn of_row(values: &[f32], row: usize, batch: usize, numbers: usize, steps: usize) -> Vec<f32> {
    let rows = values.chunks(numbers).skip(row).step_by(batch);
    rows.take(steps).flatten().copied().collect()
}

/// Draws windows of training batches as a model sees them.
pub(super) fn training_picture(
    experiment: &Experiment,
    source: &Source,
) -> Result<Drawn, LabError> {
    let stream = Stream::new(experiment.seed, "data");
    let window = experiment.task.window;
    let batch = source.windows(&stream, 0, experiment.evaluation.pictures, window)?;
    let look = Look::new(source);
    let length = window * batch.frame.size();
    let lines: Vec<Line> = batch
        .values
        .chunks(length)
        .enumerate()
        .map(|(row, values)| Line::new(format!("window {}", row + 1), values.to_vec(), 0))
        .collect();
    let mut files = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        files.extend(look.sound(&format!("{}", index + 1), &line.values)?);
    }
    let title = format!("{}: training windows", experiment.name);
    Ok(Drawn {
        picture: look.picture(&title, &lines, &[])?,
        time: window,
        files,
    })
}

/// The first steps of some held-out recordings, enough for a prompt and its continuation.
fn held_out(
    source: &Source,
    window: usize,
    count: usize,
    seed: u64,
    steps: usize,
) -> Result<(Part, Vec<usize>), LabError> {
    let part = match source.has(Part::Test) {
        true => Part::Test,
        false => Part::Valid,
    };
    let mut rows: Vec<usize> = (0..source.count(part))
        .filter(|row| source.steps(part, *row, window) >= steps.min(2))
        .collect();
    if rows.is_empty() {
        return Err(LabError::Configuration(format!(
            "{} has no held-out recordings to draw",
            source.words()
        )));
    }
    let start = seed as usize % rows.len();
    rows.rotate_left(start);
    rows.truncate(count);
    Ok((part, rows))
}

/// A recording and the model's continuation of its first half.
struct Continued {
    lines: Vec<Line>,
    /// The steps that were generated.
    marked: Vec<usize>,
    /// The recording, and its beginning with the continuation.
    heard: [Vec<f32>; 2],
}

/// Continues held-out recordings. Of numbers the continuation is the median of many, with a band.
fn continued<M: FilteringModel + Module>(
    experiment: &Experiment,
    inference: &Inference<M>,
    source: &Source,
    sequences: usize,
    seed: u64,
    steps: usize,
) -> Result<Vec<Continued>, LabError> {
    let window = experiment.task.window;
    let look = Look::new(source);
    let (part, rows) = held_out(source, window, sequences, seed, 2)?;
    let model = inference.model();
    let device = model.devices().remove(0);
    let numbers = source.frame().size();
    let samples = Stream::new(seed, "picture samples");
    let mut all = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let batch = source.whole(part, &[*row], window)?;
        let prompt = (batch.time / 2).clamp(1, window.max(1));
        let time = prompt + steps;
        let many = match source.kind() {
            Kind::Numbers => CONTINUATIONS,
            _ => 1,
        };
        let seen = upload(&batch, &device).slice([0..1, 0..prompt, 0..numbers]);
        let draw = 4 * index as u64;
        let (seen, _) = inference.filter(seen.repeat_dim(0, many), None, &samples, draw);
        let shape = [steps, many, model.generation_noise()];
        let latents = noise(&samples, draw + 1, shape, &device);
        let observed = noise(&samples, draw + 2, [steps, many, numbers], &device);
        let made = generate(model, seen.state, None, latents, |t, likelihood| {
            look.observe(&likelihood, observed.clone().narrow(0, t, 1).squeeze_dim(0))
        });
        let made = host(made.frames.into_data());
        let shown = time.min(batch.time) * numbers;
        let truth = batch.values[..shown].to_vec();
        let number = index + 1;
        let mut lines = vec![Line::new(format!("recording {number}"), truth.clone(), 0)];
        let mut both = batch.values[..prompt * numbers].to_vec();
        both.extend(&made[..steps * numbers]);
        lines.push(match many {
            1 => Line::new(
                format!("seen up to step {prompt}, then generated"),
                both.clone(),
                0,
            ),
            _ => fan(&made, steps * numbers, prompt),
        });
        all.push(Continued {
            lines,
            marked: (prompt..time).collect(),
            heard: [truth, both],
        });
    }
    Ok(all)
}

/// The median and a band of continuations, each of `length` numbers.
fn fan(made: &[f32], length: usize, first_step: usize) -> Line {
    let mut columns = [const { Vec::new() }; 3];
    for place in 0..length {
        let own = made.iter().skip(place).step_by(length);
        let mut own: Vec<f64> = own.map(|value| f64::from(*value)).collect();
        own.sort_by(f64::total_cmp);
        let shares = [(1.0 - BAND) / 2.0, 0.5, (1.0 + BAND) / 2.0];
        for (column, share) in columns.iter_mut().zip(shares) {
            column.push(quantile(&own, share) as f32);
        }
    }
    let [low, median, high] = columns;
    Line {
        band: Some([low, high]),
        ..Line::new(
            format!("generated: median, band of {:.0}%", 100.0 * BAND),
            median,
            first_step,
        )
    }
}

/// A recording of frames beside its beginning with what was generated.
fn film(source: &Source, one: &Continued) -> Result<Vec<Image>, LabError> {
    let shape = source.frame();
    let [truth, both] = one
        .heard
        .each_ref()
        .map(|values| values.chunks(shape.size()));
    let beside = truth.zip(both).map(|(truth, both)| {
        let drawn = |values| frame(values, shape.channels, shape.height, shape.width, 1);
        grid(&[drawn(truth)?, drawn(both)?], 2)
    });
    Ok(beside.collect::<Result<_, _>>()?)
}

/// Recordings, the model's continuation of their first halves, and both as sound.
pub(super) fn generated<M: FilteringModel + Module>(
    experiment: &Experiment,
    inference: &Inference<M>,
    source: &Source,
    sequences: usize,
    seed: u64,
    steps: usize,
) -> Result<Drawn, LabError> {
    let all = continued(experiment, inference, source, sequences, seed, steps)?;
    drawn(&Look::new(source), &all)
}

fn drawn(look: &Look, all: &[Continued]) -> Result<Drawn, LabError> {
    let (mut images, mut files) = (Vec::new(), Vec::new());
    for (number, one) in (1..).zip(all) {
        images.push(look.picture("", &one.lines, &one.marked)?);
        for (name, values) in ["truth", "generated"].into_iter().zip(&one.heard) {
            files.extend(look.sound(&format!("{number}-{name}"), values)?);
        }
    }
    let ends = all.iter().filter_map(|one| one.marked.last());
    Ok(Drawn {
        picture: Image::stack(&images, 24)?,
        time: ends.max().map_or(0, |last| last + 1),
        files,
    })
}

/// One-step-ahead predictions of a held-out recording, and its reconstruction; the free energy of each step; and which
/// latent dimensions the model uses.
fn expectations<M: FilteringModel + Module>(
    experiment: &Experiment,
    inference: &Inference<M>,
    source: &Source,
) -> Result<(Vec<Line>, Vec<f64>, Figure), LabError> {
    let window = experiment.task.window;
    let (part, rows) = held_out(source, window, 1, 0, 2)?;
    let batch = source.whole(part, &rows, window)?;
    let numbers = source.frame().size();
    let steps = batch.time.min(match source.kind() {
        Kind::Pixels => 20,
        _ => MOST_STEPS,
    });
    let model = inference.model();
    let device = model.devices().remove(0);
    let observations = upload(&batch, &device).slice([0..1, 0..steps, 0..numbers]);
    let samples = Stream::new(1, "picture samples");
    let (filtered, rounds) = inference.filter_by_round(observations.clone(), None, &samples, 0);
    let surprise = filtered.kl.clone() - filtered.reconstruction.clone();
    let surprise = host(surprise.into_data())
        .into_iter()
        .map(f64::from)
        .collect();
    let latents = filtered.latents.clone();
    let transition = filtered.transition_noise.clone();
    let expected = expected(
        model,
        observations.clone(),
        None,
        latents.clone(),
        transition.clone(),
    );
    let line = |label: &str, values: Vec<f32>| Line::new(label, values, 0);
    let means = |likelihood: &Likelihood| {
        of_row(&host(likelihood.mean().into_data()), 0, 1, numbers, steps)
    };
    let mut lines = vec![
        line("recording", batch.values[..steps * numbers].to_vec()),
        line(
            match model.sees_ahead() {
                true => "predicted from latents that have seen all steps",
                false => "predicted one step ahead",
            },
            means(&expected),
        ),
    ];
    if source.kind() == Kind::Numbers
        && let Some(deviations) = deviations(&expected)
    {
        let deviations = of_row(&host(deviations.into_data()), 0, 1, numbers, steps);
        let predicted = &mut lines[1];
        let end = |sign: f32| {
            let both = predicted.values.iter().zip(&deviations);
            both.map(|(mean, deviation)| mean + sign * BAND_END as f32 * deviation)
                .collect()
        };
        predicted.band = Some([end(-1.0), end(1.0)]);
        predicted.label += &format!(", band of {:.0}%", 100.0 * BAND);
    }
    // The prediction after some of the rounds before the last.
    let count = rounds.len();
    for (round, believed) in (1..count)
        .zip(rounds)
        .filter(|(round, _)| round.is_power_of_two())
    {
        let made = decoded_at(
            model,
            observations.clone(),
            None,
            latents.clone(),
            transition.clone(),
            believed,
        );
        let label = format!("after round {round} of {count}");
        lines.push(line(&label, means(&made)));
    }
    lines.push(line("reconstructed", means(&filtered.likelihood)));
    let units = units_figure(&filtered.posteriors, &filtered.priors.gaussian());
    Ok((lines, surprise, units))
}

/// The standard deviation of each number, `[rows, numbers]`; `None` where it is not a Gaussian's.
fn deviations(likelihood: &Likelihood) -> Option<Tensor<2>> {
    match likelihood {
        Likelihood::Gaussian { mean, std } => Some(mean.ones_like() * *std),
        Likelihood::Normal { log_std, .. } => Some(log_std.clone().exp()),
        Likelihood::Bernoulli { .. } | Likelihood::Columns(_) => None,
    }
}

/// The observations of a filter, its predictions, and the surprise; only the last steps if there are many.
pub(super) fn filtered(source: &Source, sequence: &FilteredSequence) -> Result<Image, LabError> {
    let look = Look::new(source);
    let numbers = source.frame().size();
    let steps = sequence.beliefs.len();
    if steps == 0 {
        return Err(LabError::Configuration(
            "there was no observation: there is nothing to draw".into(),
        ));
    }
    // The filter may have continued from a saved state.
    let before = sequence.beliefs[0].t as usize - 1;
    let first = steps.saturating_sub(MOST_STEPS);
    let which = match first {
        0 => String::new(),
        _ => format!(" (the last {MOST_STEPS} of {steps} steps)"),
    };
    let mut lines = vec![Line::new(
        format!("observed{which}"),
        sequence.observations[first * numbers..].to_vec(),
        before + first,
    )];
    // The prediction of a step was made at the previous one; the first step has none.
    let said = &sequence.beliefs[first.saturating_sub(1)..steps - 1];
    if !said.is_empty() {
        let predictions = said
            .iter()
            .filter_map(|belief| belief.prediction.as_deref());
        lines.push(Line::new(
            "predicted one step ahead",
            predictions.flatten().copied().collect(),
            before + first.max(1),
        ));
    }
    let surprises = sequence.beliefs[first..].iter();
    let surprises: Vec<f32> = surprises
        .map(|belief| belief.surprise.unwrap_or(f32::NAN))
        .collect();
    let pictures = [
        look.picture("", &lines, &[])?,
        look.surprise(&lines, &surprises)?,
    ];
    Ok(Image::stack(&pictures, 12)?)
}

/// Pictures, sounds and curves of a run.
pub(super) fn figures<M: FilteringModel + Module>(
    inference: &Inference<M>,
    source: &Source,
    shown: &Shown,
) -> Result<Figures, LabError> {
    let experiment = shown.experiment;
    let samples = shown.samples;
    let look = Look::new(source);
    let numbers = source.kind() == Kind::Numbers;
    let (lines, surprise, units) = expectations(experiment, inference, source)?;
    let expected = "A held-out recording; the prediction of each step before it was seen, at the mean of its prior; with \
        iterative inference, also the prediction after some of the rounds; and the reconstruction.";
    let path = samples.join("expected.png");
    let mut pictures = vec![save_figure(
        &look.picture("", &lines, &[])?,
        &path,
        expected.into(),
    )?];
    let mut files = Vec::new();
    let heard = [lines.first(), lines.get(1), lines.last()];
    for (line, name) in heard
        .into_iter()
        .flatten()
        .zip(["truth", "expected", "reconstructed"])
    {
        files.extend(look.sound(name, &line.values)?);
    }
    write_beside(&path, &files)?;
    if source.kind() == Kind::Sound {
        let named = heard.into_iter().flatten();
        let named = named.map(|line| (line.label.clone(), line.values.as_slice()));
        pictures.extend(sounds(&look, named, "The same, to be heard."));
    }
    let count = experiment.evaluation.pictures.min(3);
    let window = experiment.task.window;
    let all = continued(experiment, inference, source, count, 1, window)?;
    let made = drawn(&look, &all)?;
    let continuation = "Held-out recordings, and how the model continues after their beginning.";
    let path = samples.join("generated.png");
    pictures.push(save_figure(&made.picture, &path, continuation.into())?);
    write_beside(&path, &made.files)?;
    let named = (1..).zip(&all).flat_map(|(number, one)| {
        let names = [
            format!("recording {number}"),
            format!("recording {number}, continued by the model"),
        ];
        names.into_iter().zip(one.heard.iter().map(Vec::as_slice))
    });
    pictures.extend(sounds(
        &look,
        named,
        "The same recordings, and their beginnings with what the model generates. Notes are played as plain tones.",
    ));
    if let Some(first) = all.first().filter(|_| source.kind() == Kind::Pixels) {
        pictures.push(save_animation(
            gif(&film(source, first)?, SHOWN)?,
            &samples.join("film.gif"),
            "Left: the first of these recordings; right: its beginning, then what the model generates.".into(),
        )?);
    }
    if numbers {
        // The page draws curves itself.
        pictures.clear();
        let width = source.frame().size();
        let mut show = |charts: Vec<Chart>, caption: &str| {
            let shown = charts.len();
            let left_out = match shown < width {
                true => format!(" The first {shown} of {width} numbers."),
                false => String::new(),
            };
            // One caption for all numbers.
            let caption = format!("{caption}{left_out}");
            let captions = std::iter::once(caption.as_str()).chain(std::iter::repeat(""));
            let figures = charts.into_iter().zip(captions);
            pictures.extend(figures.map(|(chart, caption)| chart_figure(chart, caption)));
        };
        show(look.charts("One step ahead", &lines, &[]), expected);
        for (number, one) in (1..).zip(&all) {
            let title = format!("Continuation of recording {number}");
            show(look.charts(&title, &one.lines, &one.marked), continuation);
        }
    }
    let steps = |values: &[f64]| -> Vec<(f64, f64)> {
        (1..).map(f64::from).zip(values.iter().copied()).collect()
    };
    let series = |label: &str, points| Series {
        label: label.into(),
        points,
        band: None,
    };
    let mut charts = vec![
        // Windows and recordings differ in length: only costs per step can be compared.
        chart_figure(
            free_energy_chart(vec![
                training_series(shown.metrics, "free_energy"),
                held_out_series("held-out", shown.held_out, "free_energy"),
            ]),
            "Free energy over training, lower is better; held-out recordings are of the validation part if \
             there is one.",
        ),
        chart_figure(
            Chart {
                title: "Surprise".into(),
                x_label: "step".into(),
                y_label: "nats".into(),
                series: vec![series("free energy", steps(&surprise))],
                ..Chart::default()
            },
            "Free energy of each step of the recording above.",
        ),
        units,
    ];
    let rounds = shown.evaluation.measures.series("energy_by_round");
    if rounds.len() > 1 {
        let points = (0..).map(f64::from).zip(rounds);
        let points = points.filter_map(|(round, energy)| Some((round, (*energy)?)));
        let points = points.collect();
        charts.push(chart_figure(
            Chart {
                title: "Free energy by round of inference".into(),
                x_label: "round".into(),
                y_label: "nats per step".into(),
                series: vec![series("held-out", points)],
                ..Chart::default()
            },
            "Mean free energy per step when the belief is the prior (round 0), and after each round.",
        ));
    }
    Ok(Figures {
        generated: made.picture,
        pictures,
        charts,
        memory: Vec::new(),
    })
}

/// Named sequences to be heard; `None` for what makes no sound.
fn sounds<'a>(
    look: &Look,
    named: impl Iterator<Item = (String, &'a [f32])>,
    caption: &str,
) -> Option<Figure> {
    let played = named.filter_map(|(name, values)| Some((name, look.played(values)?)));
    let played: Vec<_> = played.collect();
    (!played.is_empty()).then(|| Figure {
        title: String::new(),
        caption: caption.into(),
        content: Content::Sounds(played),
    })
}
