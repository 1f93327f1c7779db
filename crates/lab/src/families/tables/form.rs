//! What of a number is modelled, found out from the training and validation parts.

use super::{
    baselines::{Baseline, RIDGE, filled},
    past::Past,
};
use crate::{experiment::Form, numeric::least_squares};
use mnemora_worlds::{
    Part,
    series::{Series, SeriesData},
};
use std::ops::Range;

/// A form, and the steps over which changes are measured: 1, or a season.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modelled {
    /// The form.
    pub form: Form,
    /// Steps from the number that a change is measured from.
    pub lag: usize,
}

impl Modelled {
    /// What it adds to a column's likelihood, in words.
    pub fn words(self) -> String {
        let what = match self.form {
            Form::Level => return String::new(),
            Form::Change => "changes",
            Form::Growth => "changes of the logarithm",
        };
        match self.lag {
            1 => format!("{what}, "),
            steps => format!("{what} over {steps} steps, "),
        }
    }

    /// The modelled numbers of a column; NaN where that or the number before was not observed.
    pub fn of(self, values: &[f64]) -> Vec<f64> {
        let before = std::iter::repeat_n(&f64::NAN, self.lag).chain(values);
        let pairs = values.iter().zip(before);
        pairs
            .map(|(now, before)| self.form.at(*now, *before))
            .collect()
    }
}

impl Form {
    /// The modelled number of a step; infinite for growth from 0, to it or through it.
    pub fn at(self, now: f64, before: f64) -> f64 {
        match self {
            Self::Level => now,
            Self::Change => now - before,
            Self::Growth => match (now / before).ln() {
                // From 0, or through it.
                growth if growth.is_nan() && !now.is_nan() && !before.is_nan() => f64::INFINITY,
                growth => growth,
            },
        }
    }

    /// The number, from what is modelled and the number before.
    pub fn undo(self, value: f64, before: f64) -> f64 {
        match self {
            Self::Level => value,
            Self::Change => before + value,
            Self::Growth => before * value.exp(),
        }
    }
}

/// Mean and standard deviation of the finite values; 0 and 1 if there are none.
pub fn mean_and_std(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let observed = values.filter(|value| value.is_finite());
    let count = observed.clone().count();
    if count == 0 {
        return (0.0, 1.0);
    }
    let mean = observed.clone().sum::<f64>() / count as f64;
    let variance = observed.map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64;
    (mean, variance.sqrt())
}

/// The values of a column of a sequence.
pub fn of_column(series: &Series, width: usize, column: usize) -> Vec<f64> {
    series
        .values
        .iter()
        .skip(column)
        .step_by(width)
        .copied()
        .collect()
}

/// Steps ahead for which forms of a column are compared.
const AHEAD: usize = 8;
/// A column that leaves the range of the first half of its training part in more than this share of the steps after it is not
/// modelled by its level: no network knows what lies there.
const OUTSIDE: f64 = 0.25;
/// Changes over a season are modelled where their error is at most this share of the error of all other forms.
const CLEARLY: f64 = 0.5;

/// Steps of the cycles of the calendar of which the training part of each sequence holds two, the longest first.
pub fn seasons(data: &SeriesData) -> Vec<usize> {
    let trained = |series: &&Series| series.part(Part::Train, data.width()).len();
    let all = data.series.iter();
    let shortest = all.filter(|series| trained(series) > 0).min_by_key(trained);
    shortest.map_or(Vec::new(), |series| {
        series.clock.cycles(trained(&series) / 2)
    })
}

/// What of a column autoregressions foresee best on the validation part, some steps ahead from each of its steps, when they
/// know the calendar's cycles as the model does.
pub fn best_form(data: &SeriesData, column: usize, cycles: &[f64]) -> Modelled {
    let width = data.width();
    let changes = [Form::Change, Form::Growth];
    let level = Modelled {
        form: Form::Level,
        lag: 1,
    };
    let lags = std::iter::once(1).chain(seasons(data));
    let lagged = lags.flat_map(|lag| changes.map(|form| Modelled { form, lag }));
    let forms: Vec<Modelled> = std::iter::once(level).chain(lagged).collect();
    let mut errors = vec![0.0; forms.len()];
    let (mut outside, mut later) = (0, 0);
    for series in &data.series {
        let Some(all) = filled(&of_column(series, width, column)) else {
            continue;
        };
        let (train, valid) = (
            series.part(Part::Train, width),
            series.part(Part::Valid, width),
        );
        if train.len() < 4 || valid.is_empty() {
            continue;
        }
        let known = &all[train.clone()];
        let half = train.start + train.len() / 2;
        let early = &all[train.start..half];
        let range = early.iter().fold([f64::MAX, f64::MIN], |[low, high], y| {
            [low.min(*y), high.max(*y)]
        });
        let leaves = |y: &&f64| !(range[0]..=range[1]).contains(*y);
        outside += all[half..valid.end].iter().filter(leaves).count();
        later += valid.end - half;
        let unit = known
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).abs())
            .sum::<f64>();
        let unit = (unit / train.len() as f64).max(f64::MIN_POSITIVE);
        for (modelled, error) in forms.iter().zip(&mut errors) {
            let Modelled { form, lag } = *modelled;
            // The first changes are not known.
            let first = match form {
                Form::Level => 0,
                _ => lag,
            };
            let shown = modelled.of(&all);
            let known = train.start.max(first)..train.end;
            let finite = shown[first..].iter().all(|value| value.is_finite());
            let calendar = finite.then(|| by_calendar(series, cycles, &shown, known.clone()));
            let Some(calendar) = calendar.flatten() else {
                *error = f64::INFINITY;
                continue;
            };
            let rest: Vec<f64> = shown.iter().zip(&calendar).map(|(a, b)| a - b).collect();
            let model = Baseline::autoregression(&rest[known]);
            let Some(model) = model else {
                *error = f64::INFINITY;
                continue;
            };
            for origin in valid.clone() {
                let ahead = AHEAD.min(valid.end - origin);
                let foreseen = model.forecast(&rest[first..origin], ahead);
                let mut path = Past::after(&all[origin - lag..origin], lag);
                for (step, foreseen) in (origin..).zip(foreseen) {
                    let now = form.undo(foreseen.mean + calendar[step], path.base());
                    *error += (now - all[step]).abs() / unit;
                    path.push(now);
                }
            }
        }
    }
    if outside as f64 > OUTSIDE * later as f64 {
        errors[0] = f64::INFINITY;
    }
    // The last steps are nearer than a season ago, and a network learns sharper cycles than these.
    let plain = errors[..1 + changes.len()].iter();
    let least = plain.copied().fold(f64::INFINITY, f64::min);
    for error in &mut errors[1 + changes.len()..] {
        if *error > CLEARLY * least {
            *error = f64::INFINITY;
        }
    }
    let level_is_out = errors[0].is_infinite();
    let pairs = forms.iter().zip(errors);
    let best = { pairs }.min_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        Some((modelled, error)) if error.is_finite() => *modelled,
        // Nothing could be compared.
        _ if level_is_out => forms[1],
        _ => level,
    }
}

/// What cycles of the calendar explain of all steps of a sequence, by least squares on the steps `known`.
fn by_calendar(
    series: &Series,
    cycles: &[f64],
    shown: &[f64],
    known: Range<usize>,
) -> Option<Vec<f64>> {
    let row = |t: usize| [vec![1.0], series.clock.seasons(t, cycles)].concat();
    let rows = known.map(|t| (row(t), shown[t]));
    let weights = least_squares(rows, RIDGE)?;
    let explained = |t: usize| row(t).iter().zip(&weights).map(|(a, w)| a * w).sum();
    Some((0..shown.len()).map(explained).collect())
}

/// Whether the sequences of a column differ so much that each is scaled by itself.
pub fn differ(data: &SeriesData, column: usize, modelled: Modelled) -> bool {
    const FACTOR: f64 = 3.0;
    let width = data.width();
    let scales = data.series.iter().filter_map(|series| {
        let shown = modelled.of(&of_column(series, width, column));
        let train = series.part(Part::Train, width);
        let observed = shown[train].iter().filter(|value| value.is_finite());
        (observed.clone().count() > 2).then(|| mean_and_std(observed.copied()))
    });
    let scales: Vec<(f64, f64)> = scales.collect();
    let stds = scales.iter().map(|(_, std)| *std);
    let [least, most] = stds
        .filter(|std| *std > 0.0)
        .fold([f64::MAX, f64::MIN], |[least, most], std| {
            [least.min(std), most.max(std)]
        });
    // Means that lie further apart than a sequence itself moves.
    let (_, apart) = mean_and_std(scales.iter().map(|(mean, _)| *mean));
    scales.len() > 1 && (most > FACTOR * least || apart > FACTOR * most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::{Limits, Stream, series::TableSettings};

    /// What is found of a column by the hour, whose mean is `level` and whose noise is an autoregression.
    fn found(level: impl Fn(usize) -> f64, weight: f64) -> Modelled {
        let noise = Stream::new(4, "noise").standard_normal(0, 12 * 168);
        let mut rest = 0.0;
        let rows = noise.iter().enumerate().map(|(t, e)| {
            rest = weight * rest + 0.2 * f64::from(*e);
            let (day, hour) = (t / 24, t % 24);
            let month = [31, 59, 90].iter().position(|end| day < *end).unwrap();
            let date = format!("2023-{:02}-{:02}", month + 1, day + 1 - [0, 31, 59][month]);
            format!("{date} {hour:02}:00,{}\n", level(t) + rest)
        });
        let text = format!("time,y\n{}", rows.collect::<String>());
        let settings = TableSettings::default();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("y.csv");
        std::fs::write(&file, text).unwrap();
        let data = SeriesData::open(&file, &settings, Limits::default()).unwrap();
        let cycles = data.series[0].clock.calendar(9 * 168);
        best_form(&data, 0, &cycles)
    }

    #[test]
    fn the_form_is_found_from_the_data() {
        let named = |form, lag| Modelled { form, lag };
        let day = |t: usize| (std::f64::consts::TAU * (t % 24) as f64 / 24.0).sin();
        assert_eq!(found(|_| 9.0, 0.9), named(Form::Level, 1));
        // Cycles that the calendar tells of need no season.
        assert_eq!(found(day, 0.9), named(Form::Level, 1));
        assert_eq!(found(|t| 0.05 * t as f64, 0.5), named(Form::Change, 1));
        // Each hour of the week has a level of its own.
        let own = Stream::new(5, "hours").standard_normal(0, 168);
        let sharp = |t: usize| 3.0 * f64::from(own[t % 168]);
        assert_eq!(found(sharp, 0.9), named(Form::Change, 168));
    }
}
