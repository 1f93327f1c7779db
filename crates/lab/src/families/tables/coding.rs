//! How the columns of a table stand in an observation of a model, and back.
//!
//! Statistics are those of the training part, computed and undone in 64 bits. With each step the model is also told what is
//! known of the step that follows: columns that are known in advance, and its place in the calendar. So that the first step
//! is told of, too, a sequence begins with one in which nothing is observed.

use super::{
    form::{Modelled, best_form, best_season, differ, mean_and_std, of_column},
    settings::{ChangeName, CountLikelihood, NumberLikelihood, OwnTable},
};
use crate::{
    LabError,
    experiment::{ColumnLikelihoodName, ColumnSettings, Form},
};
use mnemora_models::{ColumnLikelihood, Columns, CountScale};
use mnemora_worlds::{
    Part,
    series::{ColumnKind, Division, Series, SeriesData},
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
        let trained = data.steps(Part::Train);
        if trained < 2 {
            let whole = match settings.division {
                Division::Sequence => {
                    "; table.division is sequence, so whole sequences train or judge"
                }
                _ => "",
            };
            return Err(LabError::Configuration(format!(
                "{} has too few rows: {trained} to train on{whole}",
                data.name
            )));
        }
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
        let (mut modelled, mut known) = (Vec::new(), Vec::new());
        for (place, column) in data.columns.iter().enumerate() {
            let fixed = is_fixed(data, place);
            let in_advance = fixed || settings.known.contains(&column.name);
            let coded = Coded {
                fixed,
                ..coded(data, place, settings, &calendar, in_advance)?
            };
            match in_advance {
                true => known.push(coded),
                false => modelled.push(coded),
            }
        }
        if modelled.is_empty() {
            return Err(LabError::Configuration(
                "all columns are known in advance (table.known) or stand still in each sequence; at least one must be \
                 modelled"
                    .into(),
            ));
        }
        let silent = modelled.iter().find(|coded| {
            let place = names.iter().position(|name| *name == coded.name);
            let observed = |series: &Series| {
                let column = of_column(series, data.width(), place.unwrap_or(0));
                let train = series.part(Part::Train, data.width());
                column[train].iter().any(|value| !value.is_nan())
            };
            !data.series.iter().any(observed)
        });
        if let Some(silent) = silent {
            return Err(LabError::Configuration(format!(
                "column {0} has no value in the training part, so nothing can be learned of it; leave it out with \
                 table.leave_out=[\"{0}\"]",
                silent.name
            )));
        }
        if let Some(still) = modelled.iter().find(|column| column.deviation == 0.0) {
            return Err(LabError::Configuration(format!(
                "column {0} does not change in the training part, so nothing can be learned of it; leave it out with \
                 table.leave_out=[\"{0}\"]",
                still.name
            )));
        }
        // Columns of one likelihood are computed together.
        modelled.sort_by_key(|column| column.likelihood);
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

    /// Where a table has the columns.
    ///
    /// # Errors
    /// It lacks one, or has a category that was never seen in training.
    pub fn places(&self, data: &SeriesData) -> Result<Places, LabError> {
        let of = |columns: &[Coded]| {
            let places = columns.iter().map(|coded| Place::of(data, coded));
            places.collect::<Result<Vec<_>, _>>()
        };
        Ok(Places {
            modelled: of(&self.modelled)?,
            known: of(&self.known)?,
        })
    }

    /// Means and deviations by which the modelled columns of a sequence are coded.
    pub fn scales(&self, data: &SeriesData, places: &Places, series: &Series) -> Vec<[f64; 2]> {
        let train = series.part(Part::Train, data.width());
        let columns = self.modelled.iter().zip(&places.modelled);
        columns
            .map(|(coded, place)| coded.scale(&place.column(data, series), train.clone()))
            .collect()
    }

    /// A sequence as the model sees it. Its clock may go on beyond its values.
    pub fn frames(&self, data: &SeriesData, places: &Places, series: &Series) -> Frames {
        let steps = series.steps(data.width());
        let size = self.observation();
        let scales = self.scales(data, places, series);
        let mut all = vec![0.0; (steps + 1) * size];
        let columns: Vec<Vec<f64>> = self
            .modelled
            .iter()
            .zip(&places.modelled)
            .map(|(coded, place)| coded.shown().of(&place.column(data, series)))
            .collect();
        let mut shown = vec![0.0; columns.len()];
        for (t, row) in all.chunks_mut(size).enumerate() {
            if t > 0 {
                for (shown, column) in shown.iter_mut().zip(&columns) {
                    *shown = column[t - 1];
                }
                self.observe(&shown, &scales, row);
            }
            let told = self.told_of(data, places, series, t);
            row[size - told.len()..].copy_from_slice(&told);
        }
        Frames { values: all, steps }
    }

    /// Writes what is modelled of a step into a row of an observation; of numbers that are not finite nothing.
    pub fn observe(&self, shown: &[f64], scales: &[[f64; 2]], row: &mut [f32]) {
        let values: usize = self.modelled.iter().map(Coded::numbers).sum();
        let mut first = 0;
        for (which, coded) in self.modelled.iter().enumerate() {
            if shown[which].is_finite() {
                coded.code(shown[which], scales[which], &mut row[first..]);
                row[values + which] = 1.0;
            }
            first += coded.numbers();
        }
    }

    /// What the model is told of a step: the values of the columns that are known in advance, NaN for those that are not,
    /// and its place in the calendar.
    pub fn told(&self, known: &[f64], seasons: &[f64]) -> Vec<f32> {
        let mut told = vec![0.0; self.extras()];
        let mut first = 0;
        for (coded, value) in self.known.iter().zip(known) {
            if value.is_finite() {
                let scale = [coded.mean, coded.deviation];
                coded.code(*value, scale, &mut told[first..]);
            }
            first += coded.numbers();
        }
        for (told, season) in told[first..].iter_mut().zip(seasons) {
            *told = *season as f32;
        }
        told
    }

    /// The same of step `step` of a sequence; zeros beyond its end.
    pub fn told_of(
        &self,
        data: &SeriesData,
        places: &Places,
        series: &Series,
        step: usize,
    ) -> Vec<f32> {
        let rows = || series.values.chunks(data.width());
        let row = rows().nth(step);
        let known = self.known.iter().zip(&places.known);
        let known = known.map(|(coded, place)| match coded.fixed {
            true => rows()
                .map(|row| place.value(row))
                .find(|value| !value.is_nan())
                .unwrap_or(f64::NAN),
            false => row.map_or(f64::NAN, |row| place.value(row)),
        });
        let seasons = match step < series.clock.steps() {
            true => series.clock.seasons(step, &self.calendar),
            false => Vec::new(),
        };
        self.told(&known.collect::<Vec<_>>(), &seasons)
    }
}

/// Where a table has a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    column: usize,
    /// The model's numbers of the table's categories.
    names: Vec<f64>,
}

impl Place {
    fn of(data: &SeriesData, coded: &Coded) -> Result<Self, LabError> {
        let column = data.columns.iter().position(|c| c.name == coded.name);
        let column = column.ok_or_else(|| {
            LabError::Configuration(format!(
                "{} has no column {}, which the model was trained with",
                data.name, coded.name
            ))
        })?;
        let categorical = coded.likelihood == ColumnLikelihoodName::Categorical;
        let names = match &data.columns[column].kind {
            kind if categorical != matches!(kind, ColumnKind::Category(_)) => {
                return Err(LabError::Configuration(format!(
                    "{}: column {} holds {}, and the model was trained with {}",
                    data.name,
                    coded.name,
                    kind.name(),
                    coded.likelihood.as_str()
                )));
            }
            ColumnKind::Category(names) => {
                let numbers = names.iter().map(|name| coded.category(name));
                let numbers = numbers.collect::<Result<_, _>>();
                numbers.map_err(LabError::Configuration)?
            }
            _ => Vec::new(),
        };
        Ok(Self { column, names })
    }

    /// The value of a table's row.
    pub fn value(&self, row: &[f64]) -> f64 {
        let value = row[self.column];
        match self.names.is_empty() || value.is_nan() {
            true => value,
            false => self.names[value as usize],
        }
    }

    /// The values of a sequence.
    pub fn column(&self, data: &SeriesData, series: &Series) -> Vec<f64> {
        let rows = series.values.chunks(data.width());
        rows.map(|row| self.value(row)).collect()
    }
}

/// Where a table has a model's columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// Those that are modelled.
    pub modelled: Vec<Place>,
    /// Those that are known in advance.
    pub known: Vec<Place>,
}

/// Whether a column has one value in each of several sequences: what kind of sequence it is.
fn is_fixed(data: &SeriesData, place: usize) -> bool {
    let stands = |series: &Series| {
        let column = of_column(series, data.width(), place);
        let mut observed = column.iter().filter(|value| !value.is_nan());
        let first = observed.next();
        first.is_some() && observed.all(|value| Some(value) == first)
    };
    let long = data.series.iter().any(|s| s.steps(data.width()) > 2);
    data.series.len() > 1 && long && data.series.iter().all(stands)
}

/// Mean and deviation of what is modelled of a column, over the training parts; of counts of the logarithm of one more.
fn statistics(data: &SeriesData, place: usize, modelled: Modelled) -> (f64, f64) {
    let width = data.width();
    let of_training: Vec<f64> = data
        .series
        .iter()
        .flat_map(|series| {
            let shown = modelled.of(&of_column(series, width, place));
            shown[series.part(Part::Train, width)].to_vec()
        })
        .collect();
    match data.columns[place].kind {
        ColumnKind::Number => mean_and_std(of_training.into_iter()),
        ColumnKind::Count => mean_and_std(of_training.into_iter().map(f64::ln_1p)),
        ColumnKind::Binary | ColumnKind::Category(_) => (0.0, 1.0),
    }
}

/// Deviations from the mean beyond which squares leave the range of 32 bits.
const FARTHEST: f64 = 1e6;

/// A number in words, however large.
pub fn number_words(value: f64) -> String {
    match value.abs() < 1e15 {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// Values of a training part from which statistics are fitted anew; with fewer those of the run stay.
const ENOUGH: usize = 30;

/// How a column is coded.
fn coded(
    data: &SeriesData,
    place: usize,
    settings: &OwnTable,
    calendar: &[f64],
    known: bool,
) -> Result<Coded, LabError> {
    let column = &data.columns[place];
    let other = settings.other_likelihood.contains(&column.name);
    let (likelihood, names) = match &column.kind {
        ColumnKind::Number => {
            let student = (settings.number_likelihood == NumberLikelihood::StudentT) != other;
            let name = match student {
                true => ColumnLikelihoodName::StudentT,
                false => ColumnLikelihoodName::Normal,
            };
            (name, Vec::new())
        }
        ColumnKind::Count => {
            let wide = (settings.count_likelihood == CountLikelihood::NegativeBinomial) != other;
            let name = match wide {
                true => ColumnLikelihoodName::NegativeBinomial,
                false => ColumnLikelihoodName::Poisson,
            };
            (name, Vec::new())
        }
        ColumnKind::Binary => (ColumnLikelihoodName::Bernoulli, Vec::new()),
        ColumnKind::Category(names) => (ColumnLikelihoodName::Categorical, names.clone()),
    };
    let number = column.kind == ColumnKind::Number && !known;
    let over = |lag: usize, form: Form| Modelled { form, lag };
    let over_season = |form: Form| {
        best_season(data, place, calendar, form).ok_or_else(|| {
            LabError::Configuration(
                "table.change: there is no season: times must be regular dates, and the training part of each sequence must \
                 hold a cycle of the calendar twice"
                    .into(),
            )
        })
    };
    let modelled = match settings.change {
        _ if !number => over(1, Form::Level),
        ChangeName::Level => over(1, Form::Level),
        ChangeName::Change => over(1, Form::Change),
        ChangeName::Growth => over(1, Form::Growth),
        ChangeName::SeasonChange => over_season(Form::Change)?,
        ChangeName::SeasonGrowth => over_season(Form::Growth)?,
        ChangeName::Auto => best_form(data, place, calendar),
    };
    let (mean, deviation) = statistics(data, place, modelled);
    // What is known in advance may change later only.
    let deviation = match known && deviation == 0.0 {
        true => 1.0,
        false => deviation,
    };
    Ok(Coded {
        name: column.name.clone(),
        likelihood,
        known,
        fixed: false,
        form: modelled.form,
        season: match modelled.lag {
            1 => 0,
            steps => steps,
        },
        // A sequence that is held out whole must not be scaled by its own values.
        by_sequence: number && settings.division == Division::Time && differ(data, place, modelled),
        mean,
        deviation,
        names,
    })
}

impl Coded {
    /// What of it is modelled.
    pub fn shown(&self) -> Modelled {
        Modelled {
            form: self.form,
            lag: self.season.max(1),
        }
    }

    /// Fits mean and deviation to another table, if its training part has enough values that differ.
    pub fn refit(&mut self, data: &SeriesData) {
        let Some(place) = data.columns.iter().position(|c| c.name == self.name) else {
            return;
        };
        let observed = data.series.iter().map(|series| {
            let all = of_column(series, data.width(), place);
            let train = &all[series.part(Part::Train, data.width())];
            train.iter().filter(|value| value.is_finite()).count()
        });
        let (mean, deviation) = statistics(data, place, self.shown());
        if observed.sum::<usize>() >= ENOUGH && deviation > 0.0 {
            (self.mean, self.deviation) = (mean, deviation);
        }
    }

    /// Its likelihood.
    pub fn kind_of(&self) -> ColumnLikelihood {
        let scale = CountScale {
            mean: self.mean,
            deviation: self.deviation,
        };
        match self.likelihood {
            ColumnLikelihoodName::StudentT => ColumnLikelihood::StudentT,
            ColumnLikelihoodName::Normal => ColumnLikelihood::Normal,
            ColumnLikelihoodName::Poisson => ColumnLikelihood::Poisson(scale),
            ColumnLikelihoodName::NegativeBinomial => ColumnLikelihood::NegativeBinomial(scale),
            ColumnLikelihoodName::Bernoulli => ColumnLikelihood::Bernoulli,
            ColumnLikelihoodName::Categorical => ColumnLikelihood::Categorical(self.names.len()),
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

    /// What is added to the surprise of a coded value, so that it is one in the column's units: the logarithm of the number
    /// that a coded one stands for. `value` is in those units.
    pub fn log_unit(&self, [_, deviation]: [f64; 2], value: f64) -> f64 {
        match (self.is_number(), self.form) {
            (false, _) => 0.0,
            (true, Form::Growth) => (deviation * value.abs()).ln(),
            (true, _) => deviation.ln(),
        }
    }

    /// What a value should be, if it is not.
    pub fn refuse(&self, value: f64) -> Option<&'static str> {
        let (fits, wanted) = match self.likelihood {
            ColumnLikelihoodName::Bernoulli => (value == 0.0 || value == 1.0, "neither 0 nor 1"),
            ColumnLikelihoodName::Poisson | ColumnLikelihoodName::NegativeBinomial => {
                let count = value >= 0.0 && value.fract() == 0.0;
                (count, "no count: a whole number from 0")
            }
            _ => (true, ""),
        };
        (!fits && !value.is_nan()).then_some(wanted)
    }

    /// That a modelled number is so far from all others that nothing can be computed of it, if it is.
    pub fn too_far(&self, shown: f64, [mean, deviation]: [f64; 2]) -> Option<&'static str> {
        if self.form == Form::Growth && shown.is_infinite() {
            return Some(
                "no growth of the value before: one of them is 0, or their signs differ; choose another table.change",
            );
        }
        if self.is_number() && !(mean.is_finite() && deviation.is_finite()) {
            return Some(
                "the column has numbers so large that no deviation can be computed; leave out what is no observation, or \
                 choose another unit",
            );
        }
        let far = self.is_number() && ((shown - mean) / deviation).abs() > FARTHEST;
        (far && !shown.is_nan()).then_some(
            "a million deviations or more from everything the model has seen; leave it empty if nothing was observed",
        )
    }

    /// The number of a category.
    ///
    /// # Errors
    /// As text: it was never seen.
    pub fn category(&self, name: &str) -> Result<f64, String> {
        let place = self.names.iter().position(|other| other == name);
        place.map(|place| place as f64).ok_or_else(|| {
            format!(
                "column {}: '{name}' was never seen in training; the categories are {}",
                self.name,
                self.names.join(", ")
            )
        })
    }

    /// Mean and deviation by which the modelled numbers of a sequence's column are coded: the column's, or those of the
    /// sequence's own training part. A sequence without one has the column's: its own would leak the values that
    /// are to be predicted.
    pub fn scale(&self, column: &[f64], train: std::ops::Range<usize>) -> [f64; 2] {
        if !self.by_sequence || train.is_empty() {
            return [self.mean, self.deviation];
        }
        let shown = self.shown().of(column);
        // A sequence that does not move there has no deviation of its own.
        match mean_and_std(shown[train].iter().copied()) {
            (mean, 0.0) => [mean, self.deviation],
            (mean, deviation) => [mean, deviation],
        }
    }

    /// Writes a modelled number.
    fn code(&self, value: f64, [mean, deviation]: [f64; 2], into: &mut [f32]) {
        match self.kind_of() {
            ColumnLikelihood::Categorical(_) => into[value as usize] = 1.0,
            ColumnLikelihood::Bernoulli => into[0] = value as f32,
            ColumnLikelihood::Poisson(scale) | ColumnLikelihood::NegativeBinomial(scale) => {
                into[0] = scale.apply(value) as f32;
            }
            ColumnLikelihood::Normal | ColumnLikelihood::StudentT => {
                into[0] = ((value - mean) / deviation) as f32;
            }
        }
    }

    /// The value of an observation's numbers under the [`scale`](Self::scale) of its sequence; `before` is the value from
    /// which a change is measured.
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
                self.form.undo(number * deviation + mean, before)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Future values do not change the scale.
    #[test]
    fn a_scale_ignores_future_values() {
        let coded = Coded {
            name: "y".into(),
            likelihood: ColumnLikelihoodName::Normal,
            known: false,
            fixed: false,
            form: Form::Level,
            season: 0,
            by_sequence: true,
            mean: 5.0,
            deviation: 2.0,
            names: Vec::new(),
        };
        for future in [3.0, 3e6] {
            let column = [1.0, 2.0, 3.0, future];
            assert_eq!(coded.scale(&column, 0..0), [5.0, 2.0]);
            assert_eq!(
                coded.scale(&column, 0..3),
                coded.scale(&[1.0, 2.0, 3.0], 0..3)
            );
        }
    }
}
