//! What of a number is modelled, found out from the training and validation parts.

use super::baselines::{Baseline, filled};
use crate::experiment::Form;
use mnemora_worlds::{
    Part,
    series::{Series, SeriesData},
};

impl Form {
    /// What it adds to a column's likelihood, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Level => "",
            Self::Change => "changes, ",
            Self::Growth => "changes of the logarithm, ",
        }
    }

    /// The modelled numbers of a column; NaN where that or the step before was not observed.
    pub fn of(self, values: &[f64]) -> Vec<f64> {
        let before = std::iter::once(&f64::NAN).chain(values);
        let pairs = values.iter().zip(before);
        pairs.map(|(now, before)| self.at(*now, *before)).collect()
    }

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
/// A column whose validation part is outside the range of its training part in more than this share of steps is not modelled
/// by its level: no network knows what lies there.
const OUTSIDE: f64 = 0.1;

/// The form in which autoregressions foresee a column best on the validation part, some steps ahead from each of its steps.
pub fn best_form(data: &SeriesData, column: usize) -> Form {
    let width = data.width();
    let mut errors = [0.0; 3];
    let forms = [Form::Level, Form::Change, Form::Growth];
    let (mut outside, mut validated) = (0, 0);
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
        let range = known.iter().fold([f64::MAX, f64::MIN], |[low, high], y| {
            [low.min(*y), high.max(*y)]
        });
        let leaves = |y: &&f64| !(range[0]..=range[1]).contains(*y);
        outside += all[valid.clone()].iter().filter(leaves).count();
        validated += valid.len();
        let unit = known
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).abs())
            .sum::<f64>();
        let unit = (unit / train.len() as f64).max(f64::MIN_POSITIVE);
        for (form, error) in forms.into_iter().zip(&mut errors) {
            // The first change is not known; it stands for none.
            let mut shown = form.of(&all);
            if form != Form::Level {
                shown[0] = 0.0;
            }
            let model = match shown.iter().all(|value| value.is_finite()) {
                true => Baseline::autoregression(&shown[train.clone()]),
                false => None,
            };
            let Some(model) = model else {
                *error = f64::INFINITY;
                continue;
            };
            for origin in valid.clone() {
                let mut now = all[origin - 1];
                let ahead = AHEAD.min(valid.end - origin);
                let foreseen = model.forecast(&shown[..origin], ahead);
                for (foreseen, truth) in foreseen.iter().zip(&all[origin..]) {
                    now = form.undo(foreseen.mean, now);
                    *error += (now - truth).abs() / unit;
                }
            }
        }
    }
    if outside as f64 > OUTSIDE * validated as f64 {
        errors[0] = f64::INFINITY;
    }
    let best = forms
        .into_iter()
        .zip(errors)
        .min_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        Some((form, error)) if error.is_finite() => form,
        // Nothing could be compared.
        _ if errors[0].is_infinite() => Form::Change,
        _ => Form::Level,
    }
}

/// Whether the sequences of a column differ so much that each is scaled by itself.
pub fn differ(data: &SeriesData, column: usize, form: Form) -> bool {
    const FACTOR: f64 = 3.0;
    let width = data.width();
    let scales = data.series.iter().filter_map(|series| {
        let shown = form.of(&of_column(series, width, column));
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
