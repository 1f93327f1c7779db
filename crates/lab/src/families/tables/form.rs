//! What of a number is modelled, found out from the training and validation parts.

use super::baselines::{Baseline, RIDGE, filled};
use crate::{experiment::Form, numeric::least_squares};
use mnemora_worlds::{
    Part,
    series::{Clock, Series, SeriesData},
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

/// Steps ahead for which forms of a column are compared, the most steps from which that is done, and the most steps to fit.
const AHEAD: usize = 8;
const ORIGINS: usize = 1_000;
const LONGEST: usize = 20_000;
/// The share of later steps that may leave the range of the first half of the training part, beside those that noise leaves
/// there. A column with more is not modelled by its level: no network knows what lies outside. Most trends and random walks
/// have more.
const OUTSIDE: f64 = 0.25;
/// Values that a range must be of.
const ENOUGH: usize = 10;
/// Changes over a season are modelled where their error is below this share of the error of all other forms: they cost the
/// first season, and a network learns sharper cycles than the waves that the other forms are compared with.
const CLEARLY: f64 = 0.5;
/// Changes that are smaller than this share of the deviation of the level are rounding.
const STILL: f64 = 1e-6;

/// Steps of the cycles of a clock, the longest first, each a multiple of the shorter ones: a year of days has 364.
pub fn cycles_of(clock: &Clock, most: usize) -> Vec<usize> {
    let mut cycles = clock.cycles(most);
    let mut shorter = 1;
    for cycle in cycles.iter_mut().rev() {
        let times = (*cycle as f64 / shorter as f64).round() as usize;
        shorter *= times.max(1);
        *cycle = shorter;
    }
    cycles
}

/// Cycles of which the training part of each sequence holds two.
fn seasons(data: &SeriesData) -> Vec<usize> {
    let trained = data.series.iter().filter_map(|series| {
        let steps = series.part(Part::Train, data.width()).len();
        (steps > 0).then(|| cycles_of(&series.clock, steps / 2))
    });
    let both = |one: Vec<usize>, other: Vec<usize>| {
        let one = one.into_iter();
        one.filter(|cycle| other.contains(cycle)).collect()
    };
    trained.reduce(both).unwrap_or_default()
}

/// The form by which autoregressions forecast a column best on the validation part. They know the calendar's cycles, as the
/// model does.
pub fn best_form(data: &SeriesData, column: usize, cycles: &[f64]) -> Modelled {
    let over = |lag: usize| {
        let forms = [Form::Change, Form::Growth].into_iter();
        forms.map(move |form| Modelled { form, lag })
    };
    let level = Modelled {
        form: Form::Level,
        lag: 1,
    };
    let plain: Vec<Modelled> = std::iter::once(level).chain(over(1)).collect();
    let seasonal: Vec<Modelled> = seasons(data).into_iter().flat_map(over).collect();
    let mut of_plain = errors(data, column, cycles, &plain);
    if leaves_early_range(data, column) {
        of_plain[0] = f64::INFINITY;
    }
    let (best, error) = least(&plain, &of_plain);
    let of_seasonal = errors(data, column, cycles, &seasonal);
    match least(&seasonal, &of_seasonal) {
        (Some(seasonal), with) if with < CLEARLY * error => seasonal,
        _ => match (best, of_plain[0].is_finite()) {
            (Some(best), _) => best,
            // Nothing could be compared.
            (None, false) if moves(data, column, plain[1]) => plain[1],
            (None, _) => level,
        },
    }
}

/// The season over which autoregressions forecast changes of this form best; `None` if there is none.
pub fn best_season(
    data: &SeriesData,
    column: usize,
    cycles: &[f64],
    form: Form,
) -> Option<Modelled> {
    let lags = seasons(data).into_iter();
    let seasonal: Vec<Modelled> = lags.map(|lag| Modelled { form, lag }).collect();
    let (best, _) = least(&seasonal, &errors(data, column, cycles, &seasonal));
    best.or(seasonal.first().copied())
}

/// The one with the least error, and that error; `None` if none is finite.
fn least(forms: &[Modelled], errors: &[f64]) -> (Option<Modelled>, f64) {
    let pairs = forms.iter().copied().zip(errors.iter().copied());
    let best = pairs
        .filter(|(_, error)| error.is_finite())
        .min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or((None, f64::INFINITY), |(form, error)| (Some(form), error))
}

/// Whether a column's later steps lie outside the range of the first half of its training part. A value of as many of the same
/// kind is outside the range of `n` others in a share of `2 / (n + 1)`.
fn leaves_early_range(data: &SeriesData, column: usize) -> bool {
    let width = data.width();
    let (mut outside, mut later) = (0.0, 0.0);
    for series in &data.series {
        let all = of_column(series, width, column);
        let observed = |steps: Range<usize>| all[steps].iter().filter(|value| !value.is_nan());
        let train = series.part(Part::Train, width);
        let trained = observed(train.clone()).count();
        let (early, rest) = (
            trained / 2,
            observed(train.start..series.part(Part::Valid, width).end),
        );
        if early < ENOUGH {
            continue;
        }
        let range = observed(train)
            .take(early)
            .fold([f64::MAX, f64::MIN], |[low, high], y| {
                [low.min(*y), high.max(*y)]
            });
        let rest = rest.skip(early);
        later += rest.clone().count() as f64;
        outside += rest
            .clone()
            .filter(|y| !(range[0]..=range[1]).contains(*y))
            .count() as f64;
        outside -= rest.count() as f64 * 2.0 / (early + 1) as f64;
    }
    outside > OUTSIDE * later
}

/// Whether what is modelled of a column moves in the training part.
fn moves(data: &SeriesData, column: usize, modelled: Modelled) -> bool {
    let width = data.width();
    let deviation = |of: &dyn Fn(&[f64]) -> Vec<f64>| {
        let trained = data.series.iter().flat_map(|series| {
            of(&of_column(series, width, column))[series.part(Part::Train, width)].to_vec()
        });
        mean_and_std(trained.collect::<Vec<f64>>().into_iter()).1
    };
    let level = deviation(&|values| values.to_vec());
    let unit = match modelled.form {
        Form::Growth => 1.0,
        _ => level,
    };
    deviation(&|values| modelled.of(values)) > STILL * unit
}

/// For each form the absolute errors of an autoregression, some steps ahead from steps of the validation part, in mean changes
/// of each sequence; infinite for a form that cannot be modelled.
fn errors(data: &SeriesData, column: usize, cycles: &[f64], forms: &[Modelled]) -> Vec<f64> {
    let width = data.width();
    let mut errors: Vec<f64> = forms
        .iter()
        .map(
            |form| match form.form == Form::Level || moves(data, column, *form) {
                true => 0.0,
                false => f64::INFINITY,
            },
        )
        .collect();
    for series in &data.series {
        let Some(all) = filled(&of_column(series, width, column)) else {
            continue;
        };
        let parts = [Part::Train, Part::Valid].map(|part| series.part(part, width));
        if parts[0].len() < 4 || parts[1].is_empty() {
            continue;
        }
        let changes = all[parts[0].clone()].windows(2);
        let unit = changes.map(|pair| (pair[1] - pair[0]).abs()).sum::<f64>();
        let unit = (unit / parts[0].len() as f64).max(f64::MIN_POSITIVE);
        for (form, error) in forms.iter().zip(&mut errors) {
            if error.is_finite() {
                let own = form.error(series, &all, cycles, parts.clone());
                *error += own.map_or(f64::INFINITY, |own| own / unit);
            }
        }
    }
    errors
}

impl Modelled {
    /// The sum of the absolute errors in one sequence, whose gaps are filled; `None` if nothing can be fitted.
    fn error(
        self,
        series: &Series,
        all: &[f64],
        cycles: &[f64],
        [train, valid]: [Range<usize>; 2],
    ) -> Option<f64> {
        // The first changes are not known.
        let first = match self.form {
            Form::Level => 0,
            _ => self.lag,
        };
        let shown = self.of(all);
        if !shown[first..].iter().all(|value| value.is_finite()) {
            return None;
        }
        let last = train.end.saturating_sub(LONGEST);
        let known = train.start.max(first).max(last)..train.end;
        let calendar = by_calendar(series, cycles, &shown, known.clone())?;
        let rest: Vec<f64> = shown.iter().zip(&calendar).map(|(a, b)| a - b).collect();
        let model = Baseline::autoregression(&rest[known])?;
        let mut error = 0.0;
        for origin in valid.clone().step_by(valid.len().div_ceil(ORIGINS)) {
            let foreseen = model.forecast(&rest[first..origin], AHEAD.min(valid.end - origin));
            let mut path: Vec<f64> = Vec::new();
            for (step, foreseen) in (origin..).zip(foreseen) {
                let before = step - self.lag;
                let before = match before.checked_sub(origin) {
                    Some(ahead) => path[ahead],
                    None => all[before],
                };
                let now = self.form.undo(foreseen.mean + calendar[step], before);
                error += (now - all[step]).abs();
                path.push(now);
            }
        }
        Some(error)
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
    use mnemora_worlds::{
        Limits, Stream,
        series::{Division, TableSettings},
    };

    /// What is found of a column by the hour, whose mean is `level` and whose noise is an autoregression.
    fn found(level: impl Fn(usize) -> f64, weight: f64) -> Modelled {
        found_of(level, weight, 0.2)
    }

    fn found_of(level: impl Fn(usize) -> f64, weight: f64, deviation: f64) -> Modelled {
        let noise = Stream::new(4, "noise").standard_normal(0, 12 * 168);
        let mut rest = 0.0;
        let rows = noise.iter().enumerate().map(|(t, e)| {
            rest = weight * rest + deviation * f64::from(*e);
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
    fn where_nothing_is_validated_a_column_is_modelled_by_its_level() {
        let mut text = String::from("series,time,y\n");
        for name in ["a", "b", "c", "d", "e"] {
            for hour in 0..60 * 24 {
                // April and May.
                let (month, day) = (4 + hour / 720, 1 + hour / 24 % 30);
                let level = f64::from(hour * 7919 % 24 * 31 % 17) + f64::from(hour % 101) / 1e3;
                text += &format!(
                    "{name},2024-0{month}-{day:02} {:02}:00,{level}\n",
                    hour % 24
                );
            }
        }
        let file = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
        std::fs::write(&file, text).unwrap();
        let settings = TableSettings {
            division: Division::Sequence,
            ..TableSettings::default()
        };
        let data = SeriesData::open(file.path(), &settings, Limits::default()).unwrap();
        assert!(!seasons(&data).is_empty());
        assert_eq!(best_form(&data, 0, &[]).form, Form::Level);
    }

    #[test]
    fn long_cycles_are_multiples_of_short_ones() {
        let file = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
        let rows = (0..48).map(|hour| {
            format!(
                "2023-01-0{} {:02}:00,{}\n",
                1 + hour / 24,
                hour % 24,
                hour % 7
            )
        });
        std::fs::write(&file, format!("time,y\n{}", rows.collect::<String>())).unwrap();
        let settings = TableSettings::default();
        let data = SeriesData::open(file.path(), &settings, Limits::default()).unwrap();
        let cycles = |most| cycles_of(&data.series[0].clock, most);
        assert_eq!(cycles(100_000), [52 * 168, 168, 24]);
        assert_eq!(cycles(100), [24]);
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
        // A season without noise is not modelled by its changes: there are none.
        let exact = |t: usize| f64::from((t % 24 > 9) as u8);
        assert_eq!(found_of(exact, 0.9, 0.0), named(Form::Level, 1));
    }
}
