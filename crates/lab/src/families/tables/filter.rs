//! A table's model as a filter: one row at a time, as rows arrive.
//!
//! A row is the belief's surprise, its parts by column, how rare that is among held-out steps, and the row that follows.
//! Missing values and missing rows are steps of which less or nothing is observed.

use super::{
    adapt::{Adaptation, Adapted, Adapter, Saved},
    alarm::Alarm,
    coding::{Coded, Coding, number_words},
    forecast::{Ask, Forecast, Samples, Standing, samples_from, values},
    past::Past,
    source::Source,
};
use crate::{LabError, numeric::quantile};
use burn::{module::Module, tensor::Tensor};
use mnemora_models::{FilteringModel, Likelihood};
use mnemora_training::{
    Error,
    arrays::{Array, Arrays, host},
    online::{FilterState, Online, Passed},
    say::note,
    strategy::Inference,
};
use mnemora_worlds::series::{Ticking, value_of};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};

/// How rows are filtered.
#[derive(Clone, Debug)]
pub struct RowAsk {
    /// Seed of the samples.
    pub seed: u64,
    /// The sequence of the run's table that goes on; needed if there are several.
    pub sequence: Option<String>,
    /// Whether a new sequence begins, in place of going on after the end of the run's table.
    pub fresh: bool,
    /// Samples of the row that follows; 0 for none.
    pub samples: usize,
    /// Shares of samples that lie below the numbers asked for.
    pub quantiles: Vec<f64>,
    /// The share of clean steps that may raise an alarm; `None` for no alarms.
    pub alarms: Option<f64>,
    /// How the model goes on learning; `None` if it does not.
    pub adaptation: Option<Adaptation>,
}

/// The fields of a row by the names of their columns.
pub type Fields = BTreeMap<String, String>;

/// What is expected of a value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Expected {
    /// Of a number, a count or a truth value.
    Number {
        /// Mean of the samples.
        mean: f64,
        /// Their standard deviation.
        std: f64,
        /// One for each share asked for.
        quantiles: Vec<f64>,
    },
    /// Of a category: the probability of each name.
    Shares(BTreeMap<String, f64>),
}

/// The row that follows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextRow {
    /// When; empty if rows have no pace.
    pub time: String,
    /// By column.
    pub columns: BTreeMap<String, Expected>,
}

/// The filter's answer to a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FilteredRow {
    /// Number of the step, from 1; missing rows count.
    pub t: u64,
    /// When.
    pub time: String,
    /// Rows that were missing before this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing: usize,
    /// Free energy of the step in nats, from one sample, in the units of the columns: how surprising the row was. Absent if
    /// nothing was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surprise: Option<f64>,
    /// The part of each observed column: `-log p` of its value at the sample.
    pub columns: BTreeMap<String, f64>,
    /// The share of held-out and recent steps that are at least as surprising.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Whether that is rare enough for an alarm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<bool>,
    /// The row that follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextRow>,
    /// The observed values of the modelled columns, NaN where there was none, for pictures.
    #[serde(skip)]
    pub observed: Vec<f64>,
    /// The names of those columns.
    #[serde(skip)]
    pub names: Vec<String>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A row that cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedRow {
    /// Why.
    pub problem: String,
    /// The step that was taken in its place, of which nothing was observed; `None` if the row is no step.
    pub step: Option<Box<FilteredRow>>,
}

/// A filter of rows.
pub trait RowFilter: FilterState {
    /// Returns an error if the table does not have one of these columns.
    fn check_names(&self, names: &[String]) -> Result<(), LabError>;

    /// Filters the next row.
    ///
    /// # Errors
    /// A column that the table does not have, or a time that does not come after the last one: the state is unchanged. A
    /// value that the model does not know: a step of which nothing was observed.
    fn step(&mut self, row: &Fields) -> Result<FilteredRow, RefusedRow>;

    /// What adapting has done; `None` if the model does not adapt.
    fn adapted(&self) -> Option<Adapted>;
}

/// The most missing rows before a row.
const MOST_MISSING: usize = 10_000;
/// What stands before the name of a column that is known in advance, for its value in the next row.
const NEXT: &str = "next.";

/// A model of a table that filters rows.
pub struct TableFilter<M: FilteringModel> {
    online: Online<M>,
    ask: RowAsk,
    coding: Coding,
    /// Names of all columns that a row may have.
    allowed: Vec<String>,
    time: String,
    sequence: [String; 2],
    scales: Vec<[f64; 2]>,
    factors: Vec<f64>,
    /// Values of the columns that stand still in a sequence, NaN for other columns that are known in advance.
    fixed: Vec<f64>,
    /// The last values of each modelled column.
    past: Vec<Past>,
    clock: Ticking,
    begun: bool,
    alarm: Option<Alarm>,
    /// Observations of the row at hand and of those that were missing before it.
    seen: Vec<Vec<f32>>,
    adapter: Option<Adapter<M>>,
    /// An adapted model that does not adapt any more.
    settled: Option<Saved>,
    /// Whether it was said that columns known in advance come too late.
    warned: bool,
}

/// Where a filter starts.
pub struct Start<S> {
    /// The number of the sequence in the run's table.
    pub series: usize,
    /// The state before the last of its rows is told of the row that follows, and the steps so far; `None` for a new
    /// sequence.
    pub state: Option<(S, u64)>,
}

impl<M: FilteringModel + Module> TableFilter<M> {
    /// A filter that goes on after a table, or begins anew.
    ///
    /// # Errors
    /// The belief at the start is not finite.
    pub fn new(
        online: Online<M>,
        source: &Source,
        ask: &RowAsk,
        start: Start<M::State>,
        factors: Vec<f64>,
        alarm: Option<Alarm>,
        adapter: Option<Adapter<M>>,
    ) -> Result<Self, LabError> {
        let data = &source.data;
        let series = &data.series[start.series];
        let settled = &source.coding;
        let known = settled.known.iter().zip(&source.places.known);
        let fixed = known.map(|(coded, place)| match coded.fixed {
            true => place.column(data, series).into_iter().find(|v| !v.is_nan()),
            false => None,
        });
        let columns = data.columns.iter().map(|column| column.name.clone());
        let nexts = settled.known.iter().filter(|coded| !coded.fixed);
        let nexts = nexts.map(|coded| format!("{NEXT}{}", coded.name));
        let named = [&data.time, &data.sequence].into_iter();
        let named = named.filter(|name| !name.is_empty()).cloned();
        let clock = Ticking::after(&series.clock);
        let rows = series.steps(data.width());
        let goes_on = start.state.is_some();
        let past = settled.modelled.iter().enumerate().map(|(which, coded)| {
            let lag = coded.shown().lag;
            match goes_on {
                true => Past::after(&source.column(series, which), lag),
                false => Past::new(lag),
            }
        });
        let mut filter = Self {
            allowed: columns
                .chain(nexts)
                .chain(named)
                .chain(source.left_out.iter().cloned())
                .collect(),
            time: data.time.clone(),
            sequence: [data.sequence.clone(), series.name.clone()],
            scales: settled.scales(data, &source.places, series),
            fixed: fixed.map(|value| value.unwrap_or(f64::NAN)).collect(),
            past: past.collect(),
            clock: if goes_on { clock } else { clock.fresh() },
            begun: goes_on,
            coding: settled.clone(),
            online,
            ask: ask.clone(),
            factors,
            alarm,
            seen: Vec::new(),
            adapter,
            settled: None,
            warned: false,
        };
        if let Some((state, steps)) = start.state {
            filter.online.begin_after(state, steps);
            // The last row again, now told of the row that follows it.
            let size = filter.coding.observation();
            let mut frame = source.frames[start.series].values[rows * size..].to_vec();
            let told = filter.told_next(&filter.fixed);
            frame[size - told.len()..].copy_from_slice(&told);
            filter
                .online
                .pass(&frame)
                .map_err(LabError::Configuration)?;
        }
        Ok(filter)
    }

    /// What is told with a row, of the one that follows it.
    fn told_next(&self, known: &[f64]) -> Vec<f32> {
        let seasons = self.clock.next_seasons(&self.coding.calendar);
        self.coding.told(known, &seasons)
    }

    /// The values of known columns that a row gives, of itself or, with a prefix, of the row that follows.
    fn known(&self, row: &Fields, prefix: &str) -> Result<Vec<f64>, String> {
        let columns = self.coding.known.iter().zip(&self.fixed);
        columns
            .map(
                |(coded, fixed)| match row.get(&format!("{prefix}{}", coded.name)) {
                    Some(field) if !coded.fixed => coded.read(field),
                    _ => Ok(*fixed),
                },
            )
            .collect()
    }

    /// Values of the modelled columns.
    fn values(&self, row: &Fields) -> Result<Vec<f64>, String> {
        let columns = self.coding.modelled.iter();
        columns
            .map(|coded| match row.get(&coded.name) {
                Some(field) => coded.read(field),
                None => Ok(f64::NAN),
            })
            .collect()
    }

    /// Says once that a column known in advance is given too late.
    fn warn(&mut self, row: &Fields) {
        let given =
            |prefix: &str, coded: &Coded| row.contains_key(&format!("{prefix}{}", coded.name));
        let mut known = self.coding.known.iter().filter(|coded| !coded.fixed);
        let late = known.find(|coded| given("", coded) && !given(NEXT, coded));
        if let (Some(coded), false) = (late, self.warned) {
            note(format_args!(
                "mnemora: {0} is known in advance: a row tells the model of the one that follows, by a column {NEXT}{0}; without \
                 it nothing is told",
                coded.name
            ));
            self.warned = true;
        }
    }

    /// The first value with which nothing can be computed, in words.
    fn too_far(&self, values: &[f64]) -> Option<String> {
        let columns = self.coding.modelled.iter().zip(values).enumerate();
        let mut wrong = columns.filter_map(|(which, (coded, value))| {
            let shown = coded.form.at(*value, self.past[which].from());
            let wrong = coded.too_far(shown, self.scales[which])?;
            let value = number_words(*value);
            Some(format!("column {}: {value} is {wrong}", coded.name))
        });
        wrong.next()
    }

    fn known_names<'a>(&self, mut names: impl Iterator<Item = &'a String>) -> Result<(), String> {
        match names.find(|name| !self.allowed.contains(name)) {
            Some(unknown) => Err(format!(
                "there is no column {unknown}; the columns are {}",
                self.allowed.join(", ")
            )),
            None => Ok(()),
        }
    }

    /// Refuses names that the table does not have, and rows of another sequence.
    fn check(&self, row: &Fields) -> Result<(), String> {
        self.known_names(row.keys())?;
        let [column, own] = &self.sequence;
        match row.get(column).filter(|_| !column.is_empty()) {
            Some(other) if other != own => Err(format!(
                "{column} is {other}, and this filter follows {own}"
            )),
            _ => Ok(()),
        }
    }

    /// Rows that are missing before a time.
    fn missing(&self, time: Option<&str>) -> Result<usize, String> {
        let missing = self.clock.missing(time);
        let missing = missing.map_err(|problem| format!("column {}: {problem}", self.time))?;
        match missing > MOST_MISSING {
            true => Err(format!(
                "{missing} rows are missing before {}, at most {MOST_MISSING} are passed over; begin a new sequence with \
                 --fresh",
                time.unwrap_or_default()
            )),
            false => Ok(missing),
        }
    }

    /// Filters what is read of a row. If that fails, the state is unchanged.
    fn whole(
        &mut self,
        row: &Fields,
        values: &[f64],
        missing: usize,
        time: Option<&str>,
    ) -> Result<FilteredRow, String> {
        let kept = (self.online.state().clone(), self.online.steps());
        let past = self.past.clone();
        let (clock, begun) = (self.clock.clone(), self.begun);
        self.seen.clear();
        let done = self.advance(row, values, missing, time);
        if done.is_ok() {
            self.adapt();
        } else {
            self.online.begin_after(kept.0, kept.1);
            self.past = past;
            (self.clock, self.begun) = (clock, begun);
        }
        done
    }

    /// Learns from what was seen.
    fn adapt(&mut self) {
        let Some(adapter) = &mut self.adapter else {
            return;
        };
        for observation in &self.seen {
            if let Some(model) = adapter.see(observation) {
                self.online.learned(Inference::direct(model));
            }
        }
    }

    /// Filters what is read of a row. The state may have changed when it fails.
    fn advance(
        &mut self,
        row: &Fields,
        values: &[f64],
        missing: usize,
        time: Option<&str>,
    ) -> Result<FilteredRow, String> {
        let size = self.coding.observation();
        for _ in 0..missing {
            self.clock.tick(None)?;
            let mut frame = vec![0.0; size];
            let told = self.told_next(&self.fixed);
            frame[size - told.len()..].copy_from_slice(&told);
            self.online.pass(&frame)?;
            self.seen.push(frame);
            self.past.iter_mut().for_each(|past| past.push(f64::NAN));
        }
        self.clock.tick(time)?;
        if !self.begun {
            // The step before the first one tells of it.
            let seasons = self.clock.seasons(&self.coding.calendar);
            let told = self.coding.told(&self.known(row, "")?, &seasons);
            let mut frame = vec![0.0; size];
            frame[size - told.len()..].copy_from_slice(&told);
            self.online.pass(&frame)?;
            self.seen.push(frame);
            self.begun = true;
        }
        let columns = self.coding.modelled.iter().zip(values).zip(&self.past);
        let shown: Vec<f64> = columns
            .map(|((coded, now), past)| coded.form.at(*now, past.from()))
            .collect();
        let mut frame = vec![0.0; size];
        self.coding.observe(&shown, &self.scales, &mut frame);
        let told = self.told_next(&self.known(row, NEXT)?);
        frame[size - told.len()..].copy_from_slice(&told);
        let Passed { belief, scored } = self.online.pass(&frame)?;
        let by_column = match scored.map(|scored| scored.likelihood) {
            Some(Likelihood::Columns(columns)) => {
                let device = columns.output.device();
                let x = Tensor::<1>::from_floats(frame.as_slice(), &device).unsqueeze::<2>();
                host(columns.log_probabilities(x).into_data())
            }
            _ => Vec::new(),
        };
        self.seen.push(frame);
        let mut columns = BTreeMap::new();
        let mut units = 0.0;
        let all = self
            .coding
            .modelled
            .iter()
            .zip(&self.scales)
            .zip(&by_column);
        for (which, ((coded, scale), log_p)) in all.enumerate() {
            if shown[which].is_finite() {
                let unit = coded.log_unit(*scale, values[which]);
                columns.insert(coded.name.clone(), unit - f64::from(*log_p));
                units += unit;
            }
        }
        let coded = belief.surprise.map(f64::from);
        let coded = coded.filter(|_| !columns.is_empty());
        let full = columns.len() == shown.len();
        let (p, alarm) = match (&mut self.alarm, coded) {
            (Some(alarm), Some(nats)) => {
                let p = alarm.judge(nats, full);
                (Some(p), Some(p <= alarm.rate()))
            }
            _ => (None, None),
        };
        for (past, value) in self.past.iter_mut().zip(values) {
            past.push(*value);
        }
        Ok(FilteredRow {
            t: self.steps(),
            time: self.clock.text(),
            missing,
            surprise: coded.map(|nats| nats + units),
            columns,
            p,
            alarm,
            next: self.expected(),
            observed: values.to_vec(),
            names: self
                .coding
                .modelled
                .iter()
                .map(|coded| coded.name.clone())
                .collect(),
        })
    }

    /// Where the model stands, and what it is told with each of the steps ahead.
    fn standing(&self, steps: usize) -> Standing<M::State> {
        let clock = self.clock.ahead(steps + 1);
        let past = clock.steps() - (steps + 1);
        let told = (0..steps).map(|step| {
            let seasons = clock.seasons(past + step + 1, &self.coding.calendar);
            self.coding.told(&self.fixed, &seasons)
        });
        Standing {
            state: self.online.state().clone(),
            past: self.past.clone(),
            scales: self.scales.clone(),
            told: told.collect(),
        }
    }

    /// A forecast from here.
    ///
    /// # Errors
    /// It would not fit into memory, or needs columns that are known in advance.
    pub fn forecast(&self, ask: &Ask) -> Result<Forecast, LabError> {
        ask.check(&self.coding, 1)?;
        let needed = self.coding.known.iter().find(|coded| !coded.fixed);
        if let Some(needed) = needed {
            return Err(LabError::Configuration(format!(
                "{} is known in advance (table.known): a forecast from a state cannot be told of it; forecast from a table \
                 with --data and --future",
                needed.name
            )));
        }
        let drawn = self.drawn([ask.steps, ask.samples], ask.seed);
        let clock = self.clock.ahead(ask.steps);
        let past = clock.steps() - ask.steps;
        let values = drawn.iter().flat_map(|drawn| {
            let when = |step| clock.text(past + step);
            values(&self.coding, drawn, ask, &self.sequence[1], when)
        });
        Ok(Forecast {
            values: values.collect(),
            charts: Vec::new(),
            notes: Vec::new(),
        })
    }

    fn drawn(&self, [steps, count]: [usize; 2], seed: u64) -> Option<Samples> {
        let model = self.online.inference().model();
        let standing = [self.standing(steps)];
        let drawn = samples_from(model, &self.coding, &standing, [steps, count], seed);
        let mut drawn = drawn.into_iter().next()?;
        drawn.widen(&self.factors, &self.coding);
        Some(drawn)
    }

    /// What is expected of the row that follows.
    fn expected(&self) -> Option<NextRow> {
        let count = self.ask.samples;
        if count == 0 {
            return None;
        }
        let drawn = self.drawn([1, count], self.ask.seed)?;
        let columns = self.coding.modelled.iter().enumerate();
        let columns = columns.map(|(which, coded)| {
            let expected = match coded.is_numeric() {
                true => number(&drawn.sorted(0, which), &self.ask.quantiles),
                false => Expected::Shares(shares(coded, drawn.of(0, which))),
            };
            (coded.name.clone(), expected)
        });
        Some(NextRow {
            time: self.clock.next_text(),
            columns: columns.collect(),
        })
    }
}

fn number(sorted: &[f64], shares: &[f64]) -> Expected {
    let count = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / count;
    let variance = sorted.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let quantiles = shares.iter();
    Expected::Number {
        mean,
        std: variance.sqrt(),
        quantiles: quantiles.map(|share| quantile(sorted, *share)).collect(),
    }
}

fn shares(coded: &Coded, drawn: &[f64]) -> BTreeMap<String, f64> {
    let names = coded.names.iter().enumerate();
    names
        .map(|(place, name)| {
            let there = drawn.iter().filter(|value| **value == place as f64);
            (name.clone(), there.count() as f64 / drawn.len() as f64)
        })
        .collect()
}

impl Coded {
    /// The value of a field; NaN if nothing was observed.
    ///
    /// # Errors
    /// As text: the field does not hold what the column does.
    pub fn read(&self, field: &str) -> Result<f64, String> {
        if !self.names.is_empty() {
            return match value_of(field) {
                Some(value) if value.is_nan() => Ok(value),
                _ => self.category(field.trim()),
            };
        }
        let not = || format!("column {}: {field:?} is not a number", self.name);
        let value = value_of(field).ok_or_else(not)?;
        match self.refuse(value) {
            Some(wanted) => Err(format!("column {}: {field} is {wanted}", self.name)),
            None => Ok(value),
        }
    }
}

impl<M: FilteringModel + Module> RowFilter for TableFilter<M>
where
    M::State: 'static,
{
    fn adapted(&self) -> Option<Adapted> {
        self.adapter.as_ref().map(Adapter::done)
    }

    fn check_names(&self, names: &[String]) -> Result<(), LabError> {
        let checked = self.known_names(names.iter());
        checked.map_err(LabError::Configuration)
    }

    fn step(&mut self, row: &Fields) -> Result<FilteredRow, RefusedRow> {
        let no_step = |problem| RefusedRow {
            problem,
            step: None,
        };
        self.check(row).map_err(no_step)?;
        self.warn(row);
        let time = row.get(&self.time).map(String::as_str);
        let missing = self.missing(time).map_err(no_step)?;
        let read = || {
            self.known(row, "")?;
            self.known(row, NEXT)?;
            self.values(row)
        };
        let values = read().map_err(|problem| (problem, false));
        let far = |values: Vec<f64>| match self.too_far(&values) {
            Some(problem) => Err((problem, true)),
            None => Ok(values),
        };
        let done = values.and_then(far).and_then(|values| {
            let filtered = self.whole(row, &values, missing, time);
            filtered.map_err(|problem| (problem, true))
        });
        done.map_err(|(problem, extreme)| {
            let nothing = vec![f64::NAN; self.coding.modelled.len()];
            let mut step = self.whole(&Fields::new(), &nothing, missing, time).ok();
            // What is beyond all bounds is the most surprising.
            if let (Some(step), true) = (&mut step, extreme && self.alarm.is_some()) {
                (step.p, step.alarm) = (Some(0.0), Some(true));
            }
            RefusedRow {
                problem,
                step: step.map(Box::new),
            }
        })
    }
}

/// Names of what a saved state has besides the model's state.
const LAST: &str = "table last";
const BEFORE: &str = "table before";
const CLOCK: &str = "table clock";
const ALARM: &str = "table alarm";
const SEQUENCE: &str = "table sequence";

/// 64-bit numbers as an array of their bits, sixteen in each number.
fn bits(values: &[f64]) -> Array {
    let parts = values.iter().flat_map(|value| {
        let bits = value.to_bits();
        [0, 16, 32, 48].map(|shift| ((bits >> shift) & 0xffff) as f32)
    });
    Array {
        shape: vec![values.len(), 4],
        values: parts.collect(),
    }
}

fn from_bits(array: &Array) -> Vec<f64> {
    let parts = array.values.chunks(4);
    parts
        .map(|parts| {
            let shifted = parts.iter().zip([0, 16, 32, 48]);
            let bits = shifted.map(|(part, shift)| (*part as u64) << shift);
            f64::from_bits(bits.sum())
        })
        .collect()
}

impl<M: FilteringModel + Module> FilterState for TableFilter<M> {
    fn model(&self) -> &str {
        self.online.model()
    }

    /// The step before the first one does not count.
    fn steps(&self) -> u64 {
        self.online.steps().saturating_sub(1)
    }

    fn save(&self) -> Arrays {
        let mut arrays = self.online.save();
        let clock = [self.clock.save(), f64::from(u8::from(self.begun))];
        let [mut last, mut before] = [Vec::new(), Vec::new()];
        for past in &self.past {
            let [values, bases] = past.save();
            last.extend(values);
            before.extend(bases);
        }
        arrays.insert(LAST.into(), bits(&last));
        arrays.insert(BEFORE.into(), bits(&before));
        arrays.insert(CLOCK.into(), bits(&clock));
        let letters = self.sequence[1].bytes().map(f32::from);
        let letters: Vec<f32> = letters.collect();
        let name = Array {
            shape: vec![letters.len()],
            values: letters,
        };
        arrays.insert(SEQUENCE.into(), name);
        if let Some(alarm) = &self.alarm {
            arrays.insert(ALARM.into(), bits(&alarm.seen()));
        }
        let adapting = self.adapter.as_ref().map(Adapter::save);
        if let Some(adapted) = adapting.as_ref().or(self.settled.as_ref()) {
            adapted.keep(&mut arrays);
        }
        arrays
    }

    fn restore(&mut self, mut state: Arrays, path: &Path) -> Result<(), Error> {
        let wrong = || Error::WrongWeights {
            path: path.to_owned(),
            problem: "it is not the state of a filter of this table".into(),
        };
        let of = state.remove(SEQUENCE).ok_or_else(wrong)?;
        let of: Vec<u8> = of.values.iter().map(|letter| *letter as u8).collect();
        if of != self.sequence[1].as_bytes() {
            return Err(Error::WrongWeights {
                path: path.to_owned(),
                problem: format!(
                    "it is the state of the sequence {}; choose it with --sequence",
                    String::from_utf8_lossy(&of)
                ),
            });
        }
        let mut take = |name: &str| state.remove(name).map(|array| from_bits(&array));
        let fits = |values: &Vec<f64>, count: usize| values.len() == count;
        let lags = self.coding.modelled.iter().map(|coded| coded.shown().lag);
        let lags: Vec<usize> = lags.collect();
        let values = lags.iter().sum();
        let last = take(LAST).filter(|v| fits(v, values)).ok_or_else(wrong)?;
        let before = take(BEFORE).filter(|v| fits(v, values)).ok_or_else(wrong)?;
        let clock = take(CLOCK).filter(|v| fits(v, 2)).ok_or_else(wrong)?;
        let seen = take(ALARM);
        if let Some(saved) = Saved::take(&mut state) {
            let model = saved.model(self.online.inference().model().clone(), path)?;
            self.online.learned(Inference::direct(model));
            match &mut self.adapter {
                Some(adapter) => adapter.restore(&saved, path)?,
                None => self.settled = Some(saved),
            }
        }
        self.online.restore(state, path)?;
        let mut begin = 0;
        let pasts = lags.iter().map(|lag| {
            let own = begin..begin + lag;
            begin = own.end;
            Past::saved(&last[own.clone()], &before[own])
        });
        self.past = pasts.collect();
        self.clock.restore(clock[0]);
        self.begun = clock[1] > 0.0;
        if let (Some(alarm), Some(seen)) = (&mut self.alarm, seen) {
            alarm.go_on_from(seen);
        }
        Ok(())
    }
}
