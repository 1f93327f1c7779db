//! The table `[table]` of an experiment.

use mnemora_worlds::series::{Division, TableSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether numbers are modelled as they are, or their changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeName {
    /// Each column as autoregressions foresee it best on the validation part.
    Auto,
    /// As they are.
    Level,
    /// Their changes.
    Change,
    /// The changes of their logarithms.
    Growth,
    /// Their changes over a season.
    SeasonChange,
    /// The changes of their logarithms over a season.
    SeasonGrowth,
}

/// The likelihood of columns of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NumberLikelihood {
    /// Student's t, which is not upset by single large values.
    StudentT,
    /// The normal distribution.
    Normal,
}

/// The likelihood of columns of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CountLikelihood {
    /// Negative binomial, whose variance is at least the mean.
    NegativeBinomial,
    /// Poisson, whose variance is the mean.
    Poisson,
}

/// How a table is read, modelled and forecast. By default everything is found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OwnTable {
    /// The column of times; empty to find it.
    pub time: String,
    /// The column that names the sequence of a row; empty to find it.
    pub sequence: String,
    /// Columns to leave out.
    pub leave_out: Vec<String>,
    /// Columns of numbers, where that is not to be found out.
    pub numbers: Vec<String>,
    /// Columns of counts.
    pub counts: Vec<String>,
    /// Columns of truth values.
    pub binary: Vec<String>,
    /// Columns of categories.
    pub categories: Vec<String>,
    /// Columns whose values are known in advance, such as holidays: they are given to the model and not modelled.
    pub known: Vec<String>,
    /// How the data are divided: `time`, each sequence's first 80% train; or `sequence`.
    pub division: Division,
    /// The likelihood of numbers: `student-t` or `normal`.
    pub number_likelihood: NumberLikelihood,
    /// The likelihood of counts: `negative-binomial` or `poisson`.
    pub count_likelihood: CountLikelihood,
    /// Columns of numbers with the other likelihood.
    pub other_likelihood: Vec<String>,
    /// Whether numbers are modelled as they are (`level`), by their changes (`change`), by the changes of their logarithms
    /// (`growth`), by either of them over a season, a cycle of the calendar that the training part holds twice
    /// (`season-change`, `season-growth`), or each column as autoregressions forecast it best (`auto`).
    pub change: ChangeName,
    /// Whether the model is told the place of a step in the day, the week and the year, where times are dates.
    pub calendar: bool,
    /// The share of training steps that are shown to the model as if nothing had been observed.
    pub dropped: f64,
    /// Steps of a training window; 0 for as many as the data allow, at most 64.
    pub window: usize,
    /// Steps of a forecast that is judged; 0 for half of the test part, at most 24.
    pub horizon: usize,
    /// The most forecasts that are judged, and by which the width of bands is chosen, each from another step.
    pub origins: usize,
    /// Samples of a forecast.
    pub samples: usize,
}

impl Default for OwnTable {
    fn default() -> Self {
        Self {
            time: String::new(),
            sequence: String::new(),
            leave_out: Vec::new(),
            numbers: Vec::new(),
            counts: Vec::new(),
            binary: Vec::new(),
            categories: Vec::new(),
            known: Vec::new(),
            division: Division::Time,
            number_likelihood: NumberLikelihood::StudentT,
            count_likelihood: CountLikelihood::NegativeBinomial,
            other_likelihood: Vec::new(),
            change: ChangeName::Auto,
            calendar: true,
            dropped: 0.05,
            window: 0,
            horizon: 0,
            origins: 1_000,
            samples: 200,
        }
    }
}

impl OwnTable {
    /// How the file is read.
    pub fn reading(&self) -> TableSettings {
        TableSettings {
            time: self.time.clone(),
            sequence: self.sequence.clone(),
            leave_out: self.leave_out.clone(),
            numbers: self.numbers.clone(),
            counts: self.counts.clone(),
            binary: self.binary.clone(),
            categories: self.categories.clone(),
            division: self.division,
            lenient: false,
        }
    }

    /// Checks ranges. The error names the key.
    pub fn check(&self) -> Result<(), String> {
        let kinds = [
            ("numbers", &self.numbers),
            ("counts", &self.counts),
            ("binary", &self.binary),
            ("categories", &self.categories),
            ("leave_out", &self.leave_out),
        ];
        for (place, (key, names)) in kinds.iter().enumerate() {
            for (other, others) in &kinds[place + 1..] {
                if let Some(name) = names.iter().find(|name| others.contains(name)) {
                    return Err(format!(
                        "table.{key} and table.{other} both name the column '{name}'; name it in one"
                    ));
                }
            }
        }
        if !(0.0..1.0).contains(&self.dropped) {
            return Err(format!(
                "table.dropped is {}, it must be from 0 to below 1",
                self.dropped
            ));
        }
        for (key, value, least) in [
            ("window", self.window, 0),
            ("horizon", self.horizon, 0),
            ("origins", self.origins, 1),
            ("samples", self.samples, 2),
        ] {
            if !(least..=MOST).contains(&value) {
                return Err(format!(
                    "table.{key} is {value}, it must be from {least} to {MOST}"
                ));
            }
        }
        Ok(())
    }
}

/// The most steps of a window or a horizon, origins and samples.
const MOST: usize = 100_000;
