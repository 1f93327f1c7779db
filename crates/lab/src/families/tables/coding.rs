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
    /// Numbers of the calendar.
    pub calendar: usize,
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
    // A column that is constant in the training part has no deviation to divide by.
    let std = match variance > 0.0 {
        true => variance.sqrt(),
        false => 1.0,
    };
    (mean, std)
}

/// The changes of a column from the value before; NaN where either was not observed.
fn changes(values: &[f64]) -> Vec<f64> {
    std::iter::once(f64::NAN)
        .chain(values.windows(2).map(|pair| pair[1] - pair[0]))
        .collect()
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

/// Whether autoregressions foresee a column better by its changes: the error on the validation part, eight steps ahead from
/// each of its steps.
fn better_as_change(data: &SeriesData, column: usize) -> bool {
    const AHEAD: usize = 8;
    let width = data.width();
    let (mut level, mut change) = (0.0, 0.0);
    for series in &data.series {
        let Some(all) = filled(&of_column(series, width, column)) else {
            continue;
        };
        let (train, valid) = (series.part(Part::Train, width), series.part(Part::Valid, width));
        let moves: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let known = train.end;
        if known < 4 || valid.is_empty() {
            continue;
        }
        let models = (
            Baseline::autoregression(&all[..known]),
            Baseline::autoregression(&moves[..known - 1]),
        );
        let (Some(of_level), Some(of_change)) = models else {
            continue;
        };
        for origin in valid.clone() {
            let ahead = AHEAD.min(valid.end - origin);
            let levels = of_level.forecast(&all[..origin], ahead);
            let steps = of_change.forecast(&moves[..origin - 1], ahead);
            let mut now = all[origin - 1];
            for (step, (one, other)) in levels.iter().zip(&steps).enumerate() {
                now += other.mean;
                let truth = all[origin + step];
                level += (one.mean - truth).abs();
                change += (now - truth).abs();
            }
        }
    }
    change < level
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
        // Columns of one likelihood are computed together.
        modelled.sort_by_key(|column| column.likelihood.clone());
        let seasons = |series: &Series| match series.clock.steps() {
            0 => 0,
            _ => series.clock.seasons(0, series.clock.pace()).len(),
        };
        let calendar = match settings.calendar {
            true => data.series.iter().map(seasons).max().unwrap_or(0),
            false => 0,
        };
        Ok(Self {
            modelled,
            known,
            calendar,
        })
    }

    /// The coding that a run keeps.
    pub fn from_run(columns: &[Coded], calendar: usize) -> Self {
        let (known, modelled) = columns.iter().cloned().partition(|column| column.known);
        Self {
            modelled,
            known,
            calendar,
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
        self.known.iter().map(Coded::numbers).sum::<usize>() + self.calendar
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
    fn translated(&self, data: &SeriesData, coded: &Coded, place: usize) -> Result<Vec<f64>, LabError> {
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
            let column = of_column(series, width, place);
            let shown = match coded.change {
                true => changes(&column),
                false => column,
            };
            for (t, value) in shown.iter().enumerate() {
                if value.is_nan() {
                    continue;
                }
                let row = &mut all[(t + 1) * observation..][..observation];
                coded.code(*value, &names, &mut row[first..]);
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
                coded.code(value, &names, &mut told[first..]);
            }
            first += coded.numbers();
        }
        let clock = &series.clock;
        if self.calendar > 0 && step < clock.steps() {
            let seasons = clock.seasons(step, clock.pace());
            for (place, season) in seasons.iter().enumerate().take(self.calendar) {
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
    let change = !known
        && column.kind == ColumnKind::Number
        && match settings.change {
            ChangeName::Level => false,
            ChangeName::Change => true,
            ChangeName::Auto => better_as_change(data, place),
        };
    let of_training: Vec<f64> = data
        .series
        .iter()
        .flat_map(|series| {
            let all = of_column(series, width, place);
            let train = series.part(Part::Train, width);
            match change {
                true => changes(&all)[train].to_vec(),
                false => all[train].to_vec(),
            }
        })
        .collect();
    let (mean, deviation) = match column.kind {
        ColumnKind::Number => mean_and_std(of_training.into_iter()),
        ColumnKind::Count => mean_and_std(of_training.into_iter().map(f64::ln_1p)),
        ColumnKind::Binary | ColumnKind::Category(_) => (0.0, 1.0),
    };
    Coded {
        name: column.name.clone(),
        likelihood: likelihood.to_owned(),
        known,
        change,
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

    /// Whether a forecast of it is judged as a number.
    pub fn is_numeric(&self) -> bool {
        !matches!(self.kind_of(), ColumnLikelihood::Categorical(_))
    }

    /// Writes a value, or its change; `names` are the model's numbers of the table's categories.
    fn code(&self, value: f64, names: &[f64], into: &mut [f32]) {
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
                into[0] = ((value - self.mean) / self.deviation) as f32;
            }
        }
    }

    /// The value of an observation's numbers; `before` is the value of the step before, for changes.
    pub fn decode(&self, numbers: &[f32], before: f64) -> f64 {
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
                let value = number * self.deviation + self.mean;
                if self.change { before + value } else { value }
            }
        }
    }
}
