//! How sequences of each kind of recording are shown: notes as maps, numbers as curves, sound as waves, frames as they
//! are; and files to listen to.

use super::Source;
use crate::{LabError, experiment::Kind, pictures::charts_image};
use burn::tensor::Tensor;
use mnemora_figures::{
    FigureError,
    chart::{Chart, Series, Shaded},
    picture::{
        Align, Bars, Group, HeatMap, Image, Row, Sequence, Sheet, Text, bars, heat_map, sheet,
    },
};
use mnemora_models::Likelihood;
use mnemora_worlds::{FrameShape, MidiSettings, Roll, Scale, Sound};
use std::collections::BTreeMap;

/// Width and height of a wave, in pixels.
const WAVE: [usize; 2] = [900, 110];
const INK: [u8; 3] = [0, 90, 160];

/// A named sequence `[steps, numbers]`, and the step of its picture at which it starts.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) values: Vec<f32>,
    pub(super) first_step: usize,
    /// Lower and upper ends of a band around the values, each `[steps, numbers]`.
    pub(super) band: Option<[Vec<f32>; 2]>,
}

impl Line {
    /// A sequence that begins at step `first_step`.
    pub(super) fn new(label: impl Into<String>, values: Vec<f32>, first_step: usize) -> Self {
        Self {
            label: label.into(),
            values,
            first_step,
            band: None,
        }
    }
}

/// The most numbers of a step that get a chart.
const MOST_CHARTS: usize = 6;

/// The first step of any line.
pub(super) fn first_step(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.first_step).min().unwrap_or(0)
}

/// The common layout of the heat maps of several lines.
pub(super) struct MapLayout {
    pub(super) first: usize,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// The highest note shown, counted from the lowest of all.
    pub(super) high: usize,
    pub(super) cell: usize,
}

/// How to show the sequences of a source.
pub(super) struct Look {
    pub(super) kind: Kind,
    pub(super) frame: FrameShape,
    pub(super) scale: Scale,
    pub(super) midi: MidiSettings,
}

impl Look {
    pub(super) fn new(source: &Source) -> Self {
        Self {
            kind: source.kind(),
            frame: source.frame(),
            scale: source.scale(),
            midi: source.midi(),
        }
    }

    /// Draws lines one below the other, of numbers in one chart for each; `marked` steps are framed or shaded.
    pub(super) fn picture(
        &self,
        title: &str,
        lines: &[Line],
        marked: &[usize],
    ) -> Result<Image, FigureError> {
        match self.kind {
            Kind::Pixels => self.frames(title, lines, marked),
            Kind::Sound => self.waves(lines),
            Kind::Notes => self.maps(lines, marked),
            Kind::Numbers => charts_image(&self.charts(title, lines, marked)),
        }
    }

    /// A chart of each number, or of the first ones. Marked steps, which follow one another, were not shown to the model.
    pub(super) fn charts(&self, title: &str, lines: &[Line], marked: &[usize]) -> Vec<Chart> {
        let width = self.frame.size();
        let ends = marked.iter().min().zip(marked.iter().max());
        let shaded = ends.map(|(first, last)| Shaded {
            from: *first as f64 + 0.5,
            to: *last as f64 + 1.5,
            caption: "not shown to the model".into(),
        });
        let chart = |number: usize| {
            let of = |values: &[f32]| -> Vec<f64> {
                let own = values.iter().skip(number).step_by(width);
                own.map(|value| f64::from(*value)).collect()
            };
            let series = lines.iter().map(|line| Series {
                label: line.label.clone(),
                points: (line.first_step + 1..)
                    .map(|step| step as f64)
                    .zip(of(&line.values))
                    .collect(),
                band: line
                    .band
                    .as_ref()
                    .map(|[low, high]| of(low).into_iter().zip(of(high)).collect()),
            });
            let name = match width {
                1 => String::new(),
                _ => format!("number {}", number + 1),
            };
            let parts = [title, &name];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            Chart {
                title: parts.join(", "),
                x_label: "step".into(),
                y_label: "value".into(),
                series: series.collect(),
                shaded: shaded.clone(),
                ..Chart::default()
            }
        };
        (0..width.min(MOST_CHARTS)).map(chart).collect()
    }

    pub(super) fn frames(
        &self,
        title: &str,
        lines: &[Line],
        marked: &[usize],
    ) -> Result<Image, FigureError> {
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
                names: Vec::new(),
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

    /// The step after the last one of any line.
    pub(super) fn end(&self, lines: &[Line]) -> usize {
        let end = |line: &Line| line.first_step + line.values.len() / self.frame.size();
        lines.iter().map(end).max().unwrap_or(0)
    }

    /// The surprise at each step of the lines, to be placed below their picture.
    pub(super) fn surprise(&self, lines: &[Line], values: &[f32]) -> Result<Image, FigureError> {
        let [left, pitch] = match self.kind {
            Kind::Numbers => {
                return charts_image(&[Chart {
                    title: "Surprise".into(),
                    x_label: "step".into(),
                    y_label: "nats".into(),
                    series: vec![Series {
                        points: (first_step(lines) + 1..)
                            .map(|step| step as f64)
                            .zip(values.iter().map(|value| f64::from(*value)))
                            .collect(),
                        ..Series::default()
                    }],
                    ..Chart::default()
                }]);
            }
            Kind::Notes => {
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

    /// The common layout of these lines' heat maps: one column per step, notes upwards. Notes that never sound are left
    /// out at both ends.
    pub(super) fn map_layout(&self, lines: &[Line]) -> MapLayout {
        let width = self.frame.size();
        let first = first_step(lines);
        let columns = (self.end(lines) - first).max(1);
        let sounding = |number: &usize| {
            lines.iter().any(|line| {
                let column = line.values.iter().skip(*number).step_by(width);
                column.into_iter().any(|value| *value > 0.2)
            })
        };
        let low = (0..width).find(sounding).unwrap_or(0);
        let high = (0..width).rev().find(sounding).unwrap_or(width - 1);
        let rows = high + 1 - low;
        MapLayout {
            first,
            columns,
            rows,
            high,
            cell: (900 / columns).clamp(3, 14).min((420 / rows).max(3)),
        }
    }

    /// The heat map of a line; `values` are `[rows, columns]`, or `None` if only the layout is needed.
    pub(super) fn map<'a>(
        &self,
        maps: &MapLayout,
        line: &Line,
        values: &'a [f32],
        marked: &[usize],
    ) -> HeatMap<'a> {
        HeatMap {
            title: line.label.clone(),
            values,
            rows: maps.rows,
            columns: maps.columns,
            row_axis: "note".into(),
            column_axis: "step".into(),
            first_number: maps.first + 1,
            first_row: 1,
            falling: Some(maps.high + LOWEST_NOTE),
            range: Some((0.0, 1.0)),
            cell: maps.cell,
            marked: marked
                .iter()
                .filter(|step| **step >= line.first_step)
                .map(|step| step - maps.first)
                .collect(),
        }
    }

    pub(super) fn maps(&self, lines: &[Line], marked: &[usize]) -> Result<Image, FigureError> {
        let width = self.frame.size();
        let maps = self.map_layout(lines);
        let MapLayout { rows, columns, .. } = maps;
        let images = lines.iter().map(|line| {
            // Grey where the value is unknown.
            let mut values = vec![f32::NAN; rows * columns];
            for (step, numbers) in line.values.chunks(width).enumerate() {
                let column = line.first_step - maps.first + step;
                for row in 0..rows {
                    values[row * columns + column] = numbers[maps.high - row];
                }
            }
            heat_map(&self.map(&maps, line, &values, marked))
        });
        let images: Vec<Image> = images.collect::<Result<_, _>>()?;
        Image::stack(&images, 10)
    }

    /// Draws the smallest and largest sample of each column.
    pub(super) fn waves(&self, lines: &[Line]) -> Result<Image, FigureError> {
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

    /// The line as sound: the extension of the file's name, and its bytes; `None` if there is nothing to hear.
    pub(super) fn sound(
        &self,
        name: &str,
        values: &[f32],
    ) -> Result<Option<(String, Vec<u8>)>, LabError> {
        Ok(match self.kind {
            Kind::Notes => Roll::from_values(values)
                .map(|roll| roll.to_midi(self.midi))
                .transpose()?
                .map(|bytes| (format!("-{name}.mid"), bytes)),
            Kind::Sound => self
                .played(values)
                .map(|bytes| (format!("-{name}.wav"), bytes)),
            Kind::Pixels | Kind::Numbers => None,
        })
    }

    /// The line as a WAV file that a browser plays, notes as plain tones; `None` if there is nothing to hear.
    pub(super) fn played(&self, values: &[f32]) -> Option<Vec<u8>> {
        match self.kind {
            Kind::Notes => Some(tones(&Roll::from_values(values)?)),
            Kind::Sound => {
                let samples: Vec<i16> = values.iter().map(|x| self.scale.undo(*x)).collect();
                Some(Sound::wav_bytes(RATE, &samples))
            }
            Kind::Pixels | Kind::Numbers => None,
        }
    }

    /// The next observation when a model generates: a random draw, except for pixels, where the noise would hide the
    /// picture, so the mean is used.
    pub(super) fn observe(&self, likelihood: &Likelihood, noise: Tensor<2>) -> Tensor<2> {
        match self.kind {
            Kind::Pixels => likelihood.mean(),
            Kind::Notes | Kind::Sound | Kind::Numbers => likelihood.sample(noise),
        }
    }
}

/// Samples per second of played notes.
const TONE_RATE: u32 = 8_000;
/// Samples of a step, a quarter of a second.
const TONE_STEP: usize = 2_000;
/// The most steps that are played.
const TONE_STEPS: usize = 60;

/// Notes as tones that fade. A note that sounds in several steps is struck once.
fn tones(roll: &Roll) -> Vec<u8> {
    let steps = roll.steps().len().min(TONE_STEPS);
    let mut sound = vec![0.0_f64; steps * TONE_STEP];
    // For each note the sample at which it was struck.
    let mut struck: BTreeMap<u8, usize> = BTreeMap::new();
    for step in 0..steps {
        let first = step * TONE_STEP;
        let notes: Vec<u8> = roll.midi_notes(step).collect();
        struck.retain(|note, _| notes.contains(note));
        for note in notes {
            let begun = *struck.entry(note).or_insert(first);
            let frequency = 440.0 * 2.0_f64.powf((f64::from(note) - 69.0) / 12.0);
            let seconds = |samples: usize| samples as f64 / f64::from(TONE_RATE);
            for (place, sample) in sound.iter_mut().enumerate().skip(first).take(TONE_STEP) {
                let since = seconds(place - begun);
                let turn = std::f64::consts::TAU * frequency * since;
                let tone = turn.sin() + 0.3 * (2.0 * turn).sin();
                *sample += 0.16 * tone * (since * 100.0).min(1.0) * (-2.0 * since).exp();
            }
        }
    }
    let samples = sound
        .iter()
        .map(|x| (x.clamp(-1.0, 1.0) * f64::from(i16::MAX)) as i16);
    Sound::wav_bytes(TONE_RATE, &samples.collect::<Vec<i16>>())
}

/// The MIDI note of the first of the 88 keys.
const LOWEST_NOTE: usize = 21;
/// Samples per second.
const RATE: u32 = 16_000;

pub(super) fn range_of<'a>(values: impl IntoIterator<Item = &'a f32>) -> Option<(f32, f32)> {
    let known = values.into_iter().filter(|value| !value.is_nan());
    known.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((*value, *value));
        Some((low.min(*value), high.max(*value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_notes_are_struck_once() {
        let song = |steps: &[&[i64]]| {
            let steps: Vec<Vec<i64>> = steps.iter().map(|notes| notes.to_vec()).collect();
            Roll::from_midi_notes(&steps).unwrap()
        };
        let loud = |wav: &[u8], step: usize| {
            let from = 44 + 2 * step * TONE_STEP;
            let samples = wav[from..from + 2 * TONE_STEP].chunks_exact(2);
            let loudness =
                samples.map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]]).unsigned_abs());
            loudness.max().unwrap()
        };
        let held = tones(&song(&[&[60], &[60], &[]]));
        let again = tones(&song(&[&[60], &[], &[60]]));
        assert_eq!(held.len(), 44 + 2 * 3 * TONE_STEP);
        assert!(loud(&held, 1) < loud(&held, 0) && loud(&held, 2) == 0);
        assert_eq!((loud(&again, 1), loud(&again, 2)), (0, loud(&again, 0)));
    }
}
