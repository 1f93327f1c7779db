//! Pictures of recorded sequences, what a model expects of them and makes of them, and files to listen
//! to.

use super::{Source, upload};
use crate::{
    Experiment, LabError,
    config::Kind,
    learner::{Drawn, FilteredSequence, Shown},
    present::{Figures, charted, drawn, write_beside},
    strategy::AtWork,
    trainer::noise,
    weights::host,
};
use burn::{module::Module, tensor::Tensor};
use mnemora_figures::{
    FigureError,
    chart::{Chart, Series},
    picture::{
        Align, Bars, Group, HeatMap, Image, Row, Sequence, Sheet, Text, bars, heat_map, sheet,
    },
};
use mnemora_models::{FilteringModel, Likelihood, decoded_at, expected, generate};
use mnemora_worlds::{FrameShape, MidiSettings, Part, Roll, Scale, Sound, Stream};

/// Steps of a picture of expectations at most.
const MOST_STEPS: usize = 120;
/// Numbers of a step that get a chart of their own.
const CHARTS: usize = 3;
/// Pixels that a wave is wide and high.
const WAVE: [usize; 2] = [900, 110];
const INK: [u8; 3] = [0, 90, 160];

/// One sequence `[steps, numbers]` under a name; it begins at a step of its picture.
struct Line {
    label: String,
    values: Vec<f32>,
    first_step: usize,
}

/// The first step that a line has.
fn first_step(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.first_step).min().unwrap_or(0)
}

/// What heat maps of several lines have in common.
struct MapLayout {
    first: usize,
    columns: usize,
    rows: usize,
    /// The highest note that is shown, counted from the lowest of all.
    high: usize,
    range: Option<(f32, f32)>,
    cell: usize,
}

/// How sequences of a source are shown.
struct Look {
    kind: Kind,
    frame: FrameShape,
    scale: Scale,
    midi: MidiSettings,
}

impl Look {
    fn new(source: &Source) -> Self {
        Self {
            kind: source.kind(),
            frame: source.frame(),
            scale: source.scale(),
            midi: source.midi(),
        }
    }

    /// Lines one below the other; `marked` steps are framed in pictures of frames and in heat maps.
    fn picture(&self, title: &str, lines: &[Line], marked: &[usize]) -> Result<Image, FigureError> {
        match self.kind {
            Kind::Pixels => self.frames(title, lines, marked),
            Kind::Sound => self.waves(lines),
            Kind::Notes | Kind::Numbers => self.maps(lines, marked),
        }
    }

    fn frames(&self, title: &str, lines: &[Line], marked: &[usize]) -> Result<Image, FigureError> {
        let origin = first_step(lines);
        let rows = lines.iter().map(|line| Row {
            label: line.label.clone(),
            frames: Sequence {
                frames: &line.values,
                steps: line.values.len() / self.frame.size(),
                channels: self.frame.channels,
                height: self.frame.height,
                width: self.frame.width,
            },
            first_step: line.first_step - origin,
        });
        let steps = self.end(lines) - origin;
        sheet(&Sheet {
            title: title.to_owned(),
            groups: vec![Group {
                rows: rows.collect(),
                marked: marked.iter().map(|step| step - origin).collect(),
            }],
            mark_caption: if marked.is_empty() {
                ""
            } else {
                "not shown to the model"
            }
            .into(),
            scale: if self.frame.height > 32 { 1 } else { 2 },
            wrap: (steps > 20).then_some(15),
            first_number: origin + 1,
        })
    }

    /// The step after the last that a line has.
    fn end(&self, lines: &[Line]) -> usize {
        let end = |line: &Line| line.first_step + line.values.len() / self.frame.size();
        lines.iter().map(end).max().unwrap_or(0)
    }

    /// The surprise of the steps of lines, drawn to be put below their picture.
    fn surprise(&self, lines: &[Line], values: &[f32]) -> Result<Image, FigureError> {
        let [left, pitch] = match self.kind {
            Kind::Notes | Kind::Numbers => {
                let maps = self.map_layout(lines);
                let left = self.map(&maps, &lines[0], &[], &[]).left();
                [left as f64, maps.cell as f64]
            }
            Kind::Sound => [0.0, WAVE[0] as f64 / values.len() as f64],
            Kind::Pixels => [16.0, (WAVE[0] - 32) as f64 / values.len() as f64],
        };
        bars(&Bars {
            title: "surprise, nats".into(),
            values,
            axis: "step".into(),
            first_number: first_step(lines) + 1,
            left,
            pitch,
        })
    }

    /// What heat maps of these lines have in common: a column a step, notes or numbers upwards; notes that
    /// never sound are left out at both ends.
    fn map_layout(&self, lines: &[Line]) -> MapLayout {
        let width = self.frame.size();
        let first = first_step(lines);
        let columns = (self.end(lines) - first).max(1);
        let sounding = |number: &usize| {
            lines.iter().any(|line| {
                let column = line.values.iter().skip(*number).step_by(width);
                column.into_iter().any(|value| *value > 0.2)
            })
        };
        let (low, high) = match self.kind {
            Kind::Notes => (
                (0..width).find(sounding).unwrap_or(0),
                (0..width).rev().find(sounding).unwrap_or(width - 1),
            ),
            _ => (0, width - 1),
        };
        let rows = high + 1 - low;
        let range = match self.kind {
            Kind::Notes => Some((0.0, 1.0)),
            _ => range_of(lines.iter().flat_map(|line| &line.values)),
        };
        MapLayout {
            first,
            columns,
            rows,
            high,
            range,
            cell: (900 / columns).clamp(3, 14).min((420 / rows).max(3)),
        }
    }

    /// The heat map of a line; `values` are `[rows, columns]`, or not there where only places are asked for.
    fn map<'a>(
        &self,
        maps: &MapLayout,
        line: &Line,
        values: &'a [f32],
        marked: &[usize],
    ) -> HeatMap<'a> {
        let notes = self.kind == Kind::Notes;
        HeatMap {
            title: line.label.clone(),
            values,
            rows: maps.rows,
            columns: maps.columns,
            row_axis: if notes { "note" } else { "number" }.into(),
            column_axis: "step".into(),
            first_number: maps.first + 1,
            first_row: 1,
            falling: notes.then_some(maps.high + LOWEST_NOTE),
            range: maps.range,
            cell: maps.cell,
            marked: marked
                .iter()
                .filter(|step| **step >= line.first_step)
                .map(|step| step - maps.first)
                .collect(),
        }
    }

    fn maps(&self, lines: &[Line], marked: &[usize]) -> Result<Image, FigureError> {
        let width = self.frame.size();
        let maps = self.map_layout(lines);
        let MapLayout { rows, columns, .. } = maps;
        let images = lines.iter().map(|line| {
            // Grey where nothing is known.
            let mut values = vec![f32::NAN; rows * columns];
            for (step, numbers) in line.values.chunks(width).enumerate() {
                let column = line.first_step - maps.first + step;
                for row in 0..rows {
                    let number = match self.kind {
                        Kind::Notes => maps.high - row,
                        _ => row,
                    };
                    values[row * columns + column] = numbers[number];
                }
            }
            heat_map(&self.map(&maps, line, &values, marked))
        });
        let images: Vec<Image> = images.collect::<Result<_, _>>()?;
        Image::stack(&images, 10)
    }

    /// The least and the largest sample of each column.
    fn waves(&self, lines: &[Line]) -> Result<Image, FigureError> {
        let all = range_of(lines.iter().flat_map(|line| &line.values));
        let reach = all.map_or(1.0, |(low, high)| low.abs().max(high.abs()));
        let numbers = self.frame.size();
        let origin = first_step(lines);
        let end = ((self.end(lines) - origin) * numbers).max(1);
        let [width, height] = WAVE;
        let label = Text {
            size: 14.0,
            colour: [34, 34, 34],
            bold: false,
            align: Align::Left,
        };
        let images = lines.iter().map(|line| {
            let mut image = Image::new(width, height + 24, [255; 3])?;
            image.text(&line.label, (4.0, 12.0), label)?;
            let middle = 24 + height / 2;
            image.fill(0, middle, width, 1, [200; 3]);
            let begin = (line.first_step - origin) * numbers;
            for column in 0..width {
                let from = (column * end / width).saturating_sub(begin);
                let to = ((column + 1) * end / width).saturating_sub(begin);
                let (from, to) = (from.min(line.values.len()), to.min(line.values.len()));
                let Some((low, high)) = range_of(&line.values[from..to.max(from)]) else {
                    continue;
                };
                let place = |value: f32| {
                    let offset = value / reach * (height / 2) as f32;
                    (middle as f32 - offset).clamp(24.0, (24 + height - 1) as f32) as usize
                };
                let (top, bottom) = (place(high), place(low));
                image.fill(column, top, 1, bottom - top + 1, INK);
            }
            Ok(image)
        });
        let images: Vec<Image> = images.collect::<Result<_, FigureError>>()?;
        Image::stack(&images, 6)
    }

    /// What a file with the line's sound ends in, and its bytes; `None` where there is nothing to hear.
    fn sound(&self, name: &str, values: &[f32]) -> Result<Option<(String, Vec<u8>)>, LabError> {
        Ok(match self.kind {
            Kind::Notes => Roll::from_values(values)
                .map(|roll| roll.to_midi(self.midi))
                .transpose()?
                .map(|bytes| (format!("-{name}.mid"), bytes)),
            Kind::Sound => {
                let samples: Vec<i16> = values.iter().map(|x| self.scale.undo(*x)).collect();
                Some((format!("-{name}.wav"), Sound::wav_bytes(RATE, &samples)))
            }
            Kind::Pixels | Kind::Numbers => None,
        })
    }

    /// What a model's next observation is taken to be when it goes on by itself: a draw, but for pixels,
    /// whose noise hides what they show.
    fn observe(&self, likelihood: &Likelihood, noise: Tensor<2>) -> Tensor<2> {
        match self.kind {
            Kind::Pixels => likelihood.mean(),
            Kind::Notes | Kind::Sound | Kind::Numbers => likelihood.sample(noise),
        }
    }
}

/// The MIDI note of the first of 88.
const LOWEST_NOTE: usize = 21;
/// Samples a second.
const RATE: u32 = 16_000;

fn range_of<'a>(values: impl IntoIterator<Item = &'a f32>) -> Option<(f32, f32)> {
    let known = values.into_iter().filter(|value| !value.is_nan());
    known.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((*value, *value));
        Some((low.min(*value), high.max(*value)))
    })
}

/// The rows of `[time * batch, numbers]` that are sequence `row`'s first `steps`.
fn of_row(values: &[f32], row: usize, batch: usize, numbers: usize, steps: usize) -> Vec<f32> {
    let rows = values.chunks(numbers).skip(row).step_by(batch);
    rows.take(steps).flatten().copied().collect()
}

/// Windows of training batches as a model sees them.
pub(crate) fn training_picture(
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
        .map(|(row, values)| Line {
            label: format!("window {}", row + 1),
            values: values.to_vec(),
            first_step: 0,
        })
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

/// The first steps of some held-out recordings, long enough for a prompt and what follows it.
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

/// Recordings, what the model goes on with after their first half, and both as sound.
pub(super) fn generated<M: FilteringModel + Module>(
    experiment: &Experiment,
    at_work: &AtWork<M>,
    source: &Source,
    sequences: usize,
    seed: u64,
    steps: usize,
) -> Result<Drawn, LabError> {
    let window = experiment.task.window;
    let look = Look::new(source);
    let (part, rows) = held_out(source, window, sequences, seed, 2)?;
    let model = at_work.model();
    let device = model.devices().remove(0);
    let numbers = source.frame().size();
    let samples = Stream::new(seed, "picture samples");
    let (mut images, mut files) = (Vec::new(), Vec::new());
    let mut longest = 0;
    for (index, row) in rows.iter().enumerate() {
        let batch = source.whole(part, &[*row], window)?;
        let prompt = (batch.time / 2).clamp(1, window.max(1));
        let time = prompt + steps;
        longest = longest.max(time);
        let observations = upload(&batch, &device);
        let seen = observations.slice([0..1, 0..prompt, 0..numbers]);
        let draw = 4 * index as u64;
        let (seen, _) = at_work.filter(seen, None, &samples, draw);
        let shape = [steps, 1, model.latent_size()];
        let latents = noise(&samples, draw + 1, shape, &device);
        let observed = noise(&samples, draw + 2, [steps, 1, numbers], &device);
        let made = generate(model, seen.state, None, latents, |t, likelihood| {
            look.observe(&likelihood, observed.clone().narrow(0, t, 1).squeeze_dim(0))
        });
        let made = host(made.frames.into_data());
        let shown = time.min(batch.time) * numbers;
        let mut both = batch.values[..prompt * numbers].to_vec();
        both.extend(&made);
        let number = index + 1;
        files.extend(look.sound(&format!("{number}-truth"), &batch.values[..shown])?);
        files.extend(look.sound(&format!("{number}-generated"), &both)?);
        let lines = [
            Line {
                label: format!("recording {number}"),
                values: batch.values[..shown].to_vec(),
                first_step: 0,
            },
            Line {
                label: format!("seen up to step {prompt}, then generated"),
                values: both,
                first_step: 0,
            },
        ];
        let marked: Vec<usize> = (prompt..time).collect();
        images.push(look.picture("", &lines, &marked)?);
    }
    Ok(Drawn {
        picture: Image::stack(&images, 24)?,
        time: longest,
        files,
    })
}

/// What was expected of a held-out recording step by step, and what was believed once it was seen.
fn expectations<M: FilteringModel + Module>(
    experiment: &Experiment,
    at_work: &AtWork<M>,
    source: &Source,
) -> Result<(Vec<Line>, Vec<f64>), LabError> {
    let window = experiment.task.window;
    let (part, rows) = held_out(source, window, 1, 0, 2)?;
    let batch = source.whole(part, &rows, window)?;
    let numbers = source.frame().size();
    let steps = batch.time.min(match source.kind() {
        Kind::Pixels => 20,
        _ => MOST_STEPS,
    });
    let model = at_work.model();
    let device = model.devices().remove(0);
    let observations = upload(&batch, &device).slice([0..1, 0..steps, 0..numbers]);
    let samples = Stream::new(1, "picture samples");
    let (filtered, rounds) = at_work.filter_by_round(observations.clone(), None, &samples, 0);
    let surprise = filtered.kl.clone() - filtered.reconstruction.clone();
    let surprise = host(surprise.into_data())
        .into_iter()
        .map(f64::from)
        .collect();
    let latents = filtered.latents.clone();
    let expected = expected(model, observations.clone(), None, latents.clone());
    let line = |label: &str, values: Vec<f32>| Line {
        label: label.into(),
        values,
        first_step: 0,
    };
    let means = |likelihood: &Likelihood| {
        of_row(&host(likelihood.mean().into_data()), 0, 1, numbers, steps)
    };
    let mut lines = vec![
        line("recording", batch.values[..steps * numbers].to_vec()),
        line(
            match model.sees_ahead() {
                true => "expected, from latents that have seen all steps",
                false => "expected, before each step was seen",
            },
            means(&expected),
        ),
    ];
    // What becomes of the prediction from round to round, the last of them aside.
    let count = rounds.len();
    for (round, believed) in (1..count)
        .zip(rounds)
        .filter(|(round, _)| round.is_power_of_two())
    {
        let made = decoded_at(model, observations.clone(), None, latents.clone(), believed);
        let label = format!("after round {round} of {count}");
        lines.push(line(&label, means(&made)));
    }
    lines.push(line("reconstructed, after it", means(&filtered.likelihood)));
    Ok((lines, surprise))
}

/// What came to a filter, what it had expected, and its surprise; the last steps if there are many.
pub(super) fn filtered(source: &Source, sequence: &FilteredSequence) -> Result<Image, LabError> {
    let look = Look::new(source);
    let numbers = source.frame().size();
    let steps = sequence.beliefs.len();
    if steps == 0 {
        return Err(LabError::Configuration(
            "no observation came: there is nothing to draw".into(),
        ));
    }
    // A filter may have gone on from a state.
    let before = sequence.beliefs[0].t as usize - 1;
    let first = steps.saturating_sub(MOST_STEPS);
    let which = match first {
        0 => String::new(),
        _ => format!(" (the last {MOST_STEPS} of {steps} steps)"),
    };
    let mut lines = vec![Line {
        label: format!("what came{which}"),
        values: sequence.observations[first * numbers..].to_vec(),
        first_step: before + first,
    }];
    // What is expected of a step was said at the one before, of the first one nothing.
    let said = &sequence.beliefs[first.saturating_sub(1)..steps - 1];
    if !said.is_empty() {
        let predictions = said
            .iter()
            .filter_map(|belief| belief.prediction.as_deref());
        lines.push(Line {
            label: "what was expected of each step before it came".into(),
            values: predictions.flatten().copied().collect(),
            first_step: before + first.max(1),
        });
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
    at_work: &AtWork<M>,
    source: &Source,
    shown: &Shown,
) -> Result<Figures, LabError> {
    let experiment = shown.experiment;
    let samples = shown.samples;
    let look = Look::new(source);
    let (lines, surprise) = expectations(experiment, at_work, source)?;
    let mut pictures = vec![drawn(
        &look.picture("", &lines, &[])?,
        &samples.join("expected.png"),
        "A held-out recording; what the model expected of each step before it saw it, at the mean of \
         its prior; where several rounds improved its belief, what it made of the means in between; \
         and the reconstruction once it had."
            .into(),
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
    write_beside(&samples.join("expected.png"), &files)?;
    let count = experiment.evaluation.pictures.min(3);
    let made = generated(
        experiment,
        at_work,
        source,
        count,
        1,
        experiment.task.window,
    )?;
    let path = samples.join("generated.png");
    let heard = match made.files.is_empty() {
        true => "",
        false => " The files beside the picture let you hear both.",
    };
    pictures.push(drawn(
        &made.picture,
        &path,
        format!("Held-out recordings, and how the model goes on after it has seen their beginning.{heard}"),
    )?);
    write_beside(&path, &made.files)?;
    let steps = |values: &[f64]| -> Vec<(f64, f64)> {
        (1..).map(f64::from).zip(values.iter().copied()).collect()
    };
    let series = |label: &str, points| Series {
        label: label.into(),
        points,
        band: None,
    };
    let mut charts = vec![charted(
        Chart {
            title: "Surprise".into(),
            x_label: "step".into(),
            y_label: "nats".into(),
            series: vec![series("free energy", steps(&surprise))],
            ..Chart::default()
        },
        "Free energy of each step of the recording above.",
    )?];
    let rounds = &shown.evaluation.energy_by_round;
    if rounds.len() > 1 {
        let points = (0..).map(f64::from).zip(rounds.iter().copied()).collect();
        charts.push(charted(
            Chart {
                title: "Free energy by round of inference".into(),
                x_label: "round".into(),
                y_label: "nats per step".into(),
                series: vec![series("held-out", points)],
                ..Chart::default()
            },
            "Mean free energy of a step where the belief is the prior (round 0), and after each round.",
        )?);
    }
    if source.kind() == Kind::Numbers {
        let width = source.frame().size();
        for number in 0..width.min(CHARTS) {
            let of = |line: &Line| {
                let values = line.values.iter().skip(number).step_by(width);
                let values: Vec<f64> = values.map(|v| f64::from(*v)).collect();
                series(&line.label, steps(&values))
            };
            charts.push(charted(
                Chart {
                    title: format!("Number {}", number + 1),
                    x_label: "step".into(),
                    y_label: "value".into(),
                    series: lines.iter().map(of).collect(),
                    ..Chart::default()
                },
                "The same recording as a curve.",
            )?);
        }
    }
    Ok(Figures {
        generated: made.picture,
        pictures,
        charts,
        memory: Vec::new(),
    })
}
