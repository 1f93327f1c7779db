//! Tables of measurements over time: columns of several kinds, with gaps, in one or many sequences.
//!
//! [`SeriesData::open`] reads a CSV file without any configuration: it finds the column of times and that of sequences,
//! decides for each other column what it holds, fills gaps of a regular clock with steps in which nothing is observed,
//! and divides the data into parts.
//!
//! | file | contents |
//! | --- | --- |
//! | `columns.rs` | what a column holds |
//! | `clock.rs` | times, and those that follow |
//! | `ticking.rs` | a clock that goes on as rows arrive |
//! | `read.rs` | from the rows of a table |

mod clock;
mod columns;
mod read;
mod ticking;

pub use crate::formats::table::fields as fields_of_line;
pub use clock::{Clock, Pace};
pub use columns::{Column, ColumnKind, MOST_CATEGORIES, value_of};
pub use ticking::Ticking;

use crate::{
    Error, Limits, Part,
    error::unusable,
    files::Files,
    folder::has_extension,
    formats::{parquet, table::Table},
    images::hexadecimal,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{io::Read, path::Path};

/// How the data are divided into training, validation and test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// Each sequence by time: its first 80% of steps train, the next 10% validate, the last 10% test.
    #[default]
    Time,
    /// Whole sequences: a tenth of them validates, a tenth tests.
    Sequence,
}

/// How a table is read. By default everything is found out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableSettings {
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
    /// How the data are divided; a column `split` takes precedence.
    pub division: Division,
    /// Whether columns may be constant or empty, and columns of the lists missing: the file is not learned from.
    #[serde(skip)]
    pub lenient: bool,
}

impl TableSettings {
    /// What each list of columns says they hold, with the list's key.
    fn lists(&self) -> [(&'static str, &'static str, &[String]); 4] {
        [
            ("table.numbers", "number", &self.numbers),
            ("table.counts", "count", &self.counts),
            ("table.binary", "binary", &self.binary),
            ("table.categories", "category", &self.categories),
        ]
    }

    /// What a column without values holds.
    fn empty_kind(&self, column: &str) -> ColumnKind {
        match self.categories.iter().any(|name| name == column) {
            true => ColumnKind::Category(Vec::new()),
            false => ColumnKind::Number,
        }
    }

    /// What a column must hold, with the key that says so; `None` if that is to be found out.
    fn wanted(&self, column: &str) -> Option<(&'static str, &'static str)> {
        let lists = self.lists().into_iter();
        let mut saying = lists.filter(|(_, _, list)| list.iter().any(|name| name == column));
        saying.next().map(|(key, kind, _)| (key, kind))
    }
}

/// One sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name; empty if the file is one sequence.
    pub name: String,
    /// `[steps, columns]`; NaN where nothing was observed. A category is its number.
    pub values: Vec<f64>,
    /// When each step was.
    pub clock: Clock,
    /// The first steps of the validation and of the test part.
    pub starts: [usize; 2],
}

/// Sequences with the same columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesData {
    /// The file's name without its ending.
    pub name: String,
    /// The column of times; empty if there is none.
    pub time: String,
    /// The column that names the sequence of a row; empty if there is none.
    pub sequence: String,
    /// What is observed at each step.
    pub columns: Vec<Column>,
    /// The sequences.
    pub series: Vec<Series>,
    /// What was found out and done while reading, one line each, for the user.
    pub notes: Vec<String>,
}

impl Series {
    /// The number of its steps, given the number of columns.
    pub fn steps(&self, columns: usize) -> usize {
        self.values.len() / columns.max(1)
    }

    /// The steps of a part.
    pub fn part(&self, part: Part, columns: usize) -> std::ops::Range<usize> {
        let [valid, test] = self.starts;
        match part {
            Part::Train => 0..valid,
            Part::Valid => valid..test,
            Part::Test => test..self.steps(columns),
        }
    }
}

/// The path that stands for standard input.
pub const STANDARD_INPUT: &str = "-";
/// What messages call it.
pub const STANDARD_INPUT_NAME: &str = "standard input";

impl SeriesData {
    /// Reads a table: CSV or Parquet from a file, CSV from standard input for the path [`STANDARD_INPUT`].
    ///
    /// # Errors
    /// The file cannot be read, is no table, or a column cannot be used; the text is one line and names the column, and the
    /// key that mends it.
    pub fn open(path: &Path, settings: &TableSettings, limits: Limits) -> Result<Self, Error> {
        if path.as_os_str() == STANDARD_INPUT {
            return Self::from_reader(std::io::stdin().lock(), settings, limits);
        }
        if !path.exists() {
            return Err(unusable(path, "does not exist"));
        }
        if !has_extension(path, &["csv", "tsv", "txt", "parquet"]) {
            return Err(unusable(
                path,
                "tables are read from .csv files, with fields separated by commas, and from .parquet files",
            ));
        }
        let files = Files::new(limits);
        let table = match has_extension(path, &["parquet"]) {
            true => parquet::read(path, &files)?,
            false => Table::read(path, &files)?,
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        read::series(&name, table, settings).map_err(|problem| unusable(path, problem))
    }

    /// Reads CSV.
    fn from_reader(
        source: impl Read,
        settings: &TableSettings,
        limits: Limits,
    ) -> Result<Self, Error> {
        let refuse = |problem: String| unusable(Path::new(STANDARD_INPUT_NAME), problem);
        let mut bytes = Vec::new();
        let read = source
            .take(limits.bytes.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|cause| refuse(cause.to_string()))?;
        if bytes.len() as u64 > limits.bytes {
            return Err(refuse(format!(
                "more than {} bytes; data.max_bytes sets the limit",
                limits.bytes
            )));
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|cause| refuse(format!("not a text in UTF-8: {cause}")))?;
        let room = Files::new(limits).room(bytes.len());
        let table = Table::parse(text, room).map_err(refuse)?;
        read::series(STANDARD_INPUT_NAME, table, settings).map_err(refuse)
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The number of steps of a part.
    pub fn steps(&self, part: Part) -> usize {
        let series = self.series.iter();
        series
            .map(|series| series.part(part, self.width()).len())
            .sum()
    }

    /// SHA-256 over the columns' names and kinds, and the names, parts and values of all sequences; 64 hexadecimal
    /// characters.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new_with_prefix(b"mnemora series 1");
        let text = |hash: &mut Sha256, text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        hash.update((self.width() as u64).to_le_bytes());
        for column in &self.columns {
            text(&mut hash, &column.name);
            text(&mut hash, &format!("{:?}", column.kind));
        }
        for series in &self.series {
            text(&mut hash, &series.name);
            for start in series.starts {
                hash.update((start as u64).to_le_bytes());
            }
            hash.update((series.values.len() as u64).to_le_bytes());
            for value in &series.values {
                hash.update(value.to_le_bytes());
            }
            text(&mut hash, &series.clock.identity());
        }
        hexadecimal(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_from_standard_input_has_limits() {
        let read = |text: &str, bytes| {
            let limits = Limits {
                bytes,
                ..Limits::default()
            };
            SeriesData::from_reader(text.as_bytes(), &TableSettings::default(), limits)
        };
        let text = "y\n1.5\n2.5\n3.25\n";
        assert_eq!(read(text, 100).unwrap().series[0].values, [1.5, 2.5, 3.25]);
        let error = read(text, 10).unwrap_err().to_string();
        assert!(
            error.contains("standard input") && error.contains("data.max_bytes"),
            "{error}"
        );
        let error = read("", 100).unwrap_err().to_string();
        assert!(error.contains("standard input: an empty table"), "{error}");
    }
}
