//! Measured numbers: what a training, a checkpoint or an evaluation measured, and what each number means.
//!
//! A family declares its numbers once, each as a [`Quantity`]. The metrics file, the progress line, the evaluation
//! table, the comparison of runs and the event file all use this list. [`Measures`] hold the values under dotted keys;
//! in JSON, `recordings.kl` is the entry `kl` of the object `recordings`.

mod json;
mod quantity;
mod text;

pub use quantity::{Better, Claim, Comparison, Format, Place, Quantity, Spread};
pub use text::{Number, decimals, digits, filled, number_words, plus_minus, table};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A number of a training batch, in the precision in which the model computed it.
    Single(f32),
    /// A count.
    Count(u64),
    /// A name, such as the part of the data that was scored.
    Text(String),
    /// A flag.
    Flag(bool),
    /// One number per step, round or class; `None` where there was nothing to measure.
    Series(Vec<Option<f64>>),
    /// Rows of a small table.
    Records(Vec<Measures>),
}

impl Value {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Single(value) => Some((*value).into()),
            Self::Count(value) => Some(*value as f64),
            Self::Text(_) | Self::Flag(_) | Self::Series(_) | Self::Records(_) => None,
        }
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<f32> for Value {
    fn from(value: f32) -> Self {
        Self::Single(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Count(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Count(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<f64>> for Value {
    fn from(values: Vec<f64>) -> Self {
        Self::Series(values.into_iter().map(Some).collect())
    }
}

impl From<Vec<Option<f64>>> for Value {
    fn from(values: Vec<Option<f64>>) -> Self {
        Self::Series(values)
    }
}

impl From<Vec<Measures>> for Value {
    fn from(rows: Vec<Measures>) -> Self {
        Self::Records(rows)
    }
}

/// Values by key, in the order of measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures(Vec<(Cow<'static, str>, Value)>);

impl Measures {
    /// No values yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value at the end.
    #[must_use]
    pub fn with(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.add(key, value);
        self
    }

    /// Adds a value at the end if there is one. An empty series or table counts as none.
    #[must_use]
    pub fn with_some(
        mut self,
        key: impl Into<Cow<'static, str>>,
        value: Option<impl Into<Value>>,
    ) -> Self {
        match value.map(Into::into) {
            None => {}
            Some(Value::Series(values)) if values.is_empty() => {}
            Some(Value::Records(rows)) if rows.is_empty() => {}
            Some(value) => self.add(key, value),
        }
        self
    }

    /// Adds a value at the end, or replaces the value of that key.
    pub fn add(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(own, _)| *own == key) {
            Some((_, own)) => *own = value,
            None => self.0.push((key, value)),
        }
    }

    /// Adds all values of `others`, with `prefix` before their keys.
    pub fn append(&mut self, prefix: &str, others: Self) {
        for (key, value) in others.0 {
            self.add(format!("{prefix}{key}"), value);
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut all = self.0.iter();
        all.find(|(own, _)| own == key).map(|(_, value)| value)
    }

    /// The number of a key.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.number()
    }

    /// The count of a key.
    pub fn count(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Value::Count(count) => Some(*count),
            _ => None,
        }
    }

    /// The series of a key; empty if there is none.
    pub fn series(&self, key: &str) -> &[Option<f64>] {
        match self.get(key) {
            Some(Value::Series(values)) => values,
            _ => &[],
        }
    }

    /// The rows of a key; empty if there are none.
    pub fn records(&self, key: &str) -> &[Self] {
        match self.get(key) {
            Some(Value::Records(rows)) => rows,
            _ => &[],
        }
    }

    /// The text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// All keys with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }
}

/// The numbers measured after an update: a line of `metrics.jsonl`, an evaluation at a checkpoint, or
/// `evaluation.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Updates made.
    pub step: u64,
    /// The values.
    #[serde(flatten)]
    pub measures: Measures,
}

impl Row {
    /// The first of the quantities whose value is not finite though it must be: the model has diverged.
    pub fn non_finite(&self, quantities: &[Quantity]) -> Option<(&'static str, f64)> {
        quantities
            .iter()
            .filter(|quantity| quantity.must_be_finite)
            .find_map(|quantity| {
                let value = self.measures.number(quantity.path)?;
                (!value.is_finite()).then_some((quantity.name, value))
            })
    }

    /// Keeps only the tracked values, under their short keys.
    pub fn tracked(&self, quantities: &[Quantity]) -> Self {
        let mut measures = Measures::new();
        for quantity in quantities.iter().filter(|quantity| quantity.tracked) {
            if let Some(value) = self.measures.get(quantity.path) {
                measures.add(quantity.key, value.clone());
            }
        }
        Self {
            step: self.step,
            measures,
        }
    }
}

/// The mean of the squared differences of two slices of equal length.
pub fn mean_squared_error(found: &[f32], truth: &[f32]) -> f64 {
    let pairs = found.iter().zip(truth);
    let squares = pairs.map(|(a, b)| f64::from(a - b).powi(2));
    squares.sum::<f64>() / found.len() as f64
}

/// Mean of the values and its standard error; the error is 0 for fewer than two values.
pub fn mean_and_stderr(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, (spread / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_are_unique() {
        let mut measures = Measures::new().with("bound", -1.5).with("kl", 2.0_f32);
        measures.add("bound", -2.5);
        measures.append("recordings.", Measures::new().with("steps", 3_usize));
        let keys: Vec<&str> = measures.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["bound", "kl", "recordings.steps"]);
        assert_eq!(measures.number("bound"), Some(-2.5));
        assert_eq!(measures.count("recordings.steps"), Some(3));
        let none: Option<f64> = None;
        let same = measures.clone().with_some("x", none);
        assert_eq!(same.with_some("y", Some(Vec::<f64>::new())), measures);
    }

    #[test]
    fn only_tracked_quantities_are_kept_of_a_checkpoint() {
        const QUANTITIES: [Quantity; 2] = [
            Quantity::new("bound", "bound", "nats").tracked(),
            Quantity::new("kl", "KL", "nats"),
        ];
        let row = Row {
            step: 3,
            measures: Measures::new().with("bound", f64::NAN).with("kl", 1.0),
        };
        let tracked = row.tracked(&QUANTITIES);
        assert_eq!((tracked.step, tracked.measures.iter().count()), (3, 1));
        assert_eq!(row.non_finite(&QUANTITIES), None);
        let guarded = [QUANTITIES[0].finite()];
        assert_eq!(row.non_finite(&guarded).unwrap().0, "bound");
    }
}
