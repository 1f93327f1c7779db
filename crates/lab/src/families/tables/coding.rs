//! How the columns of a table stand in an observation of a model, and back.
//!
//! Statistics are those of the training part, computed and undone in 64 bits. With each step the model is also told what is
//! known of the step that follows: columns that are known in advance, and its place in the calendar. So that the first step
//! is told of, too, a sequence begins with one in which nothing is observed.

use super::{
    baselines::{Baseline, filled},
    settings::{ChangeName, CountLikelihood, NumberLikelihood, OwnTable},
};
use crate::{LabError, experiment::ColumnSettings};
use mnemora_models::{ColumnLikelihood, Columns, CountScale};
use mnemora_worlds::{
    Part,
    series::{ColumnKind, Series, SeriesData},
};

/// A column, and how it is coded. A run keeps it.
pub type Coded = ColumnSettings;

/// All columns of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Coding {
    /// Those that are modelled, in the order of the observation.
    pub modelled: Vec<Coded>,
    /// Those that are known in advance.
    pub known: Vec<Coded>,
    /// Cycles of the calendar that a model is told of, in days.
    pub calendar: Vec<f64>,
}

/// A sequence as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Frames {
    /// `[steps + 1, observation]`: the first has no values.
    pub values: Vec<f32>,
    /// Steps of the table.
    pub steps: usize,
}

fn mean_and_std(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let observed = values.filter(|value| value.is_finite());
    let count = observed.clone().count();
    if count == 0 {
        return (0.0, 1.0);
    }
    let mean = observed.clone().sum::<f64>() / count as f64;
    let variance = observed.map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64;
    (mean, variance.sqrt())
}

/// What of a number is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The number itself.
    Level,
    /// Its change from the step before.
    Change,
    /// The change of its logarithm.
    Growth,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Level => "level",
            Self::Change => "change",
            Self::Growth => "growth",
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "change" => Self::Change,
            "growth" => Self::Growth,
            _ => Self::Level,
        }
    }

    /// The modelled numbers of a column; NaN where that or the step before was not observed.
    fn of(self, values: &[f64]) -> Vec<f64> {
        let between = |change: fn(f64, f64) -> f64| {
            let changes = values.windows(2).map(|pair| change(pair[0], pair[1]));
            std::iter::once(f64::NAN).chain(changes).collect()
        };
        match self {
            Self::Level => values.to_vec(),
            Self::Change => between(|before, now| now - before),
            Self::Growth => between(|before, now| (now / before).ln()),
        }
    }

    /// The number, from what is modelled and the number before.
    fn undo(self, value: f64, before: f64) -> f64 {
        match self {
            Self::Level => value,
            Self::Change => before + value,
            Self::Growth => before * value.exp(),
        }
    }
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
fn best_form(data: &SeriesData, column: usize) -> Form {
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
fn differ(data: &SeriesData, column: usize, form: Form) -> bool {
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

impl Coding {
    /// The coding of a table's columns, from its training part.
    ///
    /// # Errors
    /// A setting names a column that does not exist, or all columns are known in advance.
    pub fn of(data: &SeriesData, settings: &OwnTable) -> Result<Self, LabError> {
        let names: Vec<&str> = data.columns.iter().map(|c| c.name.as_str()).collect();
        for (key, list) in [
            ("table.known", &settings.known),
            ("table.other_likelihood", &settings.other_likelihood),
        ] {
            if let Some(name) = list.iter().find(|name| !names.contains(&name.as_str())) {
                return Err(LabError::Configuration(format!(
                    "{key} has '{name}', but the columns are {}",
                    names.join(", ")
                )));
            }
        }
        let (mut modelled, mut known) = (Vec::new(), Vec::new());
        for (place, column) in data.columns.iter().enumerate() {
            let in_advance = settings.known.contains(&column.name);
            let coded = coded(data, place, settings, in_advance);
            match in_advance {
                true => known.push(coded),
                false => modelled.push(coded),
            }
        }
        if modelled.is_empty() {
            return Err(LabError::Configuration(
                "table.known has all columns; at least one must be modelled".into(),
            ));
        }
        if let Some(still) = modelled.iter().find(|column| column.deviation == 0.0) {
            return Err(LabError::Configuration(format!(
                "column {0} does not change in the training part, so nothing can be learned of it; leave it out with \
                 table.leave_out=[\"{0}\"]",
                still.name
            )));
        }
        // Columns of one likelihood are computed together.
        modelled.sort_by_key(|column| column.likelihood.clone());
        let longest = data
            .series
            .iter()
            .max_by_key(|series| series.part(Part::Train, data.width()).len());
        let calendar = match longest.filter(|_| settings.calendar) {
            Some(series) => series
                .clock
                .calendar(series.part(Part::Train, data.width()).len()),
            None => Vec::new(),
        };
        Ok(Self {
            modelled,
            known,
            calendar,
        })
    }

    /// The coding that a run keeps.
    pub fn from_run(columns: &[Coded], calendar: &[f64]) -> Self {
        let (known, modelled) = columns.iter().cloned().partition(|column| column.known);
        Self {
            modelled,
            known,
            calendar: calendar.to_vec(),
        }
    }

    /// All columns, for a run.
    pub fn columns(&self) -> Vec<Coded> {
        self.modelled.iter().chain(&self.known).cloned().collect()
    }

    /// The likelihood of an observation.
    pub fn likelihood(&self) -> Columns {
        Columns {
            columns: self.modelled.iter().map(Coded::kind_of).collect(),
            extras: self.extras(),
        }
    }

    /// Numbers that tell of the step that follows.
    pub fn extras(&self) -> usize {
        self.known.iter().map(Coded::numbers).sum::<usize>() + 2 * self.calendar.len()
    }

    /// Numbers of an observation.
    pub fn observation(&self) -> usize {
        self.likelihood().observation()
    }

    /// The places of the columns in a table's rows.
    ///
    /// # Errors
    /// The table lacks a column, or one holds something else.
    fn places(&self, data: &SeriesData, columns: &[Coded]) -> Result<Vec<usize>, LabError> {
        columns
            .iter()
            .map(|coded| {
                let place = data.columns.iter().position(|c| c.name == coded.name);
                let place = place.ok_or_else(|| {
                    LabError::Configuration(format!(
                        "{} has no column {}, which the model was trained with",
                        data.name, coded.name
                    ))
                })?;
                Ok(place)
            })
            .collect()
    }

    /// The coded values of a column's name: of this table's categories, the numbers of the model's.
    fn translated(
        &self,
        data: &SeriesData,
        coded: &Coded,
        place: usize,
    ) -> Result<Vec<f64>, LabError> {
        let ColumnKind::Category(names) = &data.columns[place].kind else {
            return Ok(Vec::new());
        };
        names
            .iter()
            .map(|name| {
                let known = coded.names.iter().position(|other| other == name);
                known.map(|place| place as f64).ok_or_else(|| {
                    LabError::Configuration(format!(
                        "column {}: '{name}' was never seen in training; the categories are {}",
                        coded.name,
                        coded.names.join(", ")
                    ))
                })
            })
            .collect()
    }

    /// A sequence as the model sees it. Its clock may go on beyond its values.
    ///
    /// # Errors
    /// The table does not fit the model.
    pub fn frames(&self, data: &SeriesData, series: &Series) -> Result<Frames, LabError> {
        let width = data.width();
        let steps = series.steps(width);
        let observation = self.observation();
        let likelihood = self.likelihood();
        let (values, count) = (likelihood.values(), self.modelled.len());
        let mut all = vec![0.0; (steps + 1) * observation];
        let places = self.places(data, &self.modelled)?;
        let mut first = 0;
        for (which, (coded, place)) in self.modelled.iter().zip(places).enumerate() {
            let names = self.translated(data, coded, place)?;
            let shown = coded.form().of(&of_column(series, width, place));
            let scale = coded.scale(&shown, series.part(Part::Train, width));
            for (t, value) in shown.iter().enumerate() {
                if !value.is_finite() {
                    continue;
                }
                let row = &mut all[(t + 1) * observation..][..observation];
                coded.code(*value, scale, &names, &mut row[first..]);
                row[values + which] = 1.0;
            }
            first += coded.numbers();
        }
        let start = values + count;
        for t in 0..=steps {
            let told = self.told(data, series, t)?;
            all[t * observation + start..][..told.len()].copy_from_slice(&told);
        }
        Ok(Frames { values: all, steps })
    }

    /// What is known in advance of step `step`; zeros of what is not.
    ///
    /// # Errors
    /// The table does not fit the model.
    pub fn told(
        &self,
        data: &SeriesData,
        series: &Series,
        step: usize,
    ) -> Result<Vec<f32>, LabError> {
        let mut told = vec![0.0; self.extras()];
        let width = data.width();
        let places = self.places(data, &self.known)?;
        let mut first = 0;
        for (coded, place) in self.known.iter().zip(places) {
            let names = self.translated(data, coded, place)?;
            let value = series.values.get(step * width + place).copied();
            if let Some(value) = value.filter(|value| !value.is_nan()) {
                let scale = [coded.mean, coded.deviation];
                coded.code(value, scale, &names, &mut told[first..]);
            }
            first += coded.numbers();
        }
        let clock = &series.clock;
        if step < clock.steps() {
            let seasons = clock.seasons(step, &self.calendar);
            for (place, season) in seasons.iter().enumerate() {
                told[first + place] = *season as f32;
            }
        }
        Ok(told)
    }
}

/// How a column is coded.
fn coded(data: &SeriesData, place: usize, settings: &OwnTable, known: bool) -> Coded {
    let column = &data.columns[place];
    let width = data.width();
    let other = settings.other_likelihood.contains(&column.name);
    let (likelihood, names) = match &column.kind {
        ColumnKind::Number => {
            let student = (settings.number_likelihood == NumberLikelihood::StudentT) != other;
            (if student { "student-t" } else { "normal" }, Vec::new())
        }
        ColumnKind::Count => {
            let wide = (settings.count_likelihood == CountLikelihood::NegativeBinomial) != other;
            let name = if wide { "negative-binomial" } else { "poisson" };
            (name, Vec::new())
        }
        ColumnKind::Binary => ("bernoulli", Vec::new()),
        ColumnKind::Category(names) => ("categorical", names.clone()),
    };
    let number = column.kind == ColumnKind::Number && !known;
    let form = match settings.change {
        _ if !number => Form::Level,
        ChangeName::Level => Form::Level,
        ChangeName::Change => Form::Change,
        ChangeName::Growth => Form::Growth,
        ChangeName::Auto => best_form(data, place),
    };
    let of_training: Vec<f64> = data
        .series
        .iter()
        .flat_map(|series| {
            let shown = form.of(&of_column(series, width, place));
            shown[series.part(Part::Train, width)].to_vec()
        })
        .collect();
    let (mean, deviation) = match column.kind {
        ColumnKind::Number => mean_and_std(of_training.into_iter()),
        ColumnKind::Count => mean_and_std(of_training.into_iter().map(f64::ln_1p)),
        ColumnKind::Binary | ColumnKind::Category(_) => (0.0, 1.0),
    };
    // What is known in advance may change later only.
    let deviation = match known && deviation == 0.0 {
        true => 1.0,
        false => deviation,
    };
    Coded {
        name: column.name.clone(),
        likelihood: likelihood.to_owned(),
        known,
        form: form.name().to_owned(),
        by_sequence: number && differ(data, place, form),
        mean,
        deviation,
        names,
    }
}

impl Coded {
    /// Its likelihood.
    pub fn kind_of(&self) -> ColumnLikelihood {
        let scale = CountScale {
            mean: self.mean,
            deviation: self.deviation,
        };
        match self.likelihood.as_str() {
            "normal" => ColumnLikelihood::Normal,
            "poisson" => ColumnLikelihood::Poisson(scale),
            "negative-binomial" => ColumnLikelihood::NegativeBinomial(scale),
            "bernoulli" => ColumnLikelihood::Bernoulli,
            "categorical" => ColumnLikelihood::Categorical(self.names.len()),
            _ => ColumnLikelihood::StudentT,
        }
    }

    /// Numbers in an observation.
    pub fn numbers(&self) -> usize {
        self.kind_of().values()
    }

    /// Whether it holds numbers, not counts or truth values.
    pub fn is_number(&self) -> bool {
        matches!(
            self.kind_of(),
            ColumnLikelihood::Normal | ColumnLikelihood::StudentT
        )
    }

    /// Whether a forecast of it is judged as a number.
    pub fn is_numeric(&self) -> bool {
        !matches!(self.kind_of(), ColumnLikelihood::Categorical(_))
    }

    /// What of its numbers is modelled.
    fn form(&self) -> Form {
        Form::named(&self.form)
    }

    /// Mean and deviation by which a sequence's modelled numbers are coded: the column's, or those of the sequence's own
    /// training part; of all of it, if it has none.
    pub(super) fn scale(&self, shown: &[f64], train: std::ops::Range<usize>) -> [f64; 2] {
        if !self.by_sequence {
            return [self.mean, self.deviation];
        }
        let own = if train.is_empty() {
            shown
        } else {
            &shown[train]
        };
        // A sequence that does not move there has no deviation of its own.
        match mean_and_std(own.iter().copied()) {
            (mean, 0.0) => [mean, self.deviation],
            (mean, deviation) => [mean, deviation],
        }
    }

    /// The same for the modelled numbers of a sequence's column.
    pub fn scale_of(&self, column: &[f64], train: std::ops::Range<usize>) -> [f64; 2] {
        self.scale(&self.form().of(column), train)
    }

    /// Writes a modelled number; `names` are the model's numbers of the table's categories.
    fn code(&self, value: f64, [mean, deviation]: [f64; 2], names: &[f64], into: &mut [f32]) {
        match self.kind_of() {
            ColumnLikelihood::Categorical(_) => {
                let name = names.get(value as usize).copied().unwrap_or(value);
                into[name as usize] = 1.0;
            }
            ColumnLikelihood::Bernoulli => into[0] = value as f32,
            ColumnLikelihood::Poisson(scale) | ColumnLikelihood::NegativeBinomial(scale) => {
                into[0] = scale.apply(value) as f32;
            }
            ColumnLikelihood::Normal | ColumnLikelihood::StudentT => {
                into[0] = ((value - mean) / deviation) as f32;
            }
        }
    }

    /// The value of an observation's numbers under the [`scale`](Self::scale_of) of its sequence; `before` is the value of
    /// the step before.
    pub fn decode(&self, numbers: &[f32], [mean, deviation]: [f64; 2], before: f64) -> f64 {
        let number = f64::from(numbers[0]);
        match self.kind_of() {
            ColumnLikelihood::Categorical(_) => {
                let best = numbers.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                best.map_or(0.0, |(place, _)| place as f64)
            }
            ColumnLikelihood::Bernoulli => number,
            ColumnLikelihood::Poisson(scale) | ColumnLikelihood::NegativeBinomial(scale) => {
                scale.undo(number).round()
            }
            ColumnLikelihood::Normal | ColumnLikelihood::StudentT => {
                self.form().undo(number * deviation + mean, before)
            }
        }
    }
}
