//! New rows for the model of a run: what `mnemora eval --data` judges.

use super::source::{Source, named};
use crate::{Experiment, LabError, note};
use mnemora_worlds::{
    Part,
    series::{ColumnKind, Series, SeriesData},
};
use std::path::Path;

impl Source {
    /// The rows of another file that this table does not have, as its test part. A sequence of this table goes on where it
    /// ended; rows that it already has are passed over. Any other sequence is new and judged from its first row.
    ///
    /// # Errors
    /// The file does not have this table's columns, or has no new rows.
    pub fn followed_by(&self, experiment: &Experiment, path: &Path) -> Result<Self, LabError> {
        let wrong = |problem: String| {
            LabError::Configuration(format!("{}: {problem}", named(path).display()))
        };
        let newer = Self::table_for(experiment, path)?;
        let series = self.aligned(&newer).map_err(wrong)?;
        let others = newer.columns.iter().map(|column| &column.name);
        let others: Vec<&str> = others
            .filter(|name| !self.data.columns.iter().any(|own| own.name == **name))
            .map(String::as_str)
            .collect();
        if !others.is_empty() {
            note(format_args!(
                "mnemora: {}: ignored columns that are not in the run's table: {}",
                named(path).display(),
                others.join(", ")
            ));
        }
        let width = self.data.width();
        let joined: Result<Vec<Series>, String> = series
            .into_iter()
            .map(|next| {
                let mut ours = self.data.series.iter();
                match ours.find(|series| series.name == next.name) {
                    Some(ours) => joined(ours, next, width),
                    None => Ok(Series {
                        starts: [0, 0],
                        ..next
                    }),
                }
            })
            .collect();
        let data = SeriesData {
            name: newer.name,
            series: joined.map_err(wrong)?,
            ..self.data.clone()
        };
        if data.steps(Part::Test) == 0 {
            return Err(wrong(
                "it has no rows after those of the run's table".into(),
            ));
        }
        let newer = Self {
            path: named(path),
            ..self.with(data)?
        };
        newer.check_seasons()?;
        newer.check_values()?;
        Ok(newer)
    }

    /// The sequences of another table with the columns of this one.
    fn aligned(&self, other: &SeriesData) -> Result<Vec<Series>, String> {
        // Categories by this table's numbers, in the order of the other's.
        let mut columns = Vec::new();
        for own in &self.data.columns {
            let place = other.columns.iter().position(|c| c.name == own.name);
            let place = place.ok_or_else(|| format!("there is no column {}", own.name))?;
            let names = match (&own.kind, &other.columns[place].kind) {
                (ColumnKind::Category(ours), ColumnKind::Category(theirs)) => {
                    let number = |name: &String| {
                        let found = ours.iter().position(|own| own == name);
                        found.map(|number| number as f64).ok_or_else(|| {
                            format!(
                                "column {}: '{name}' was never seen in training; the categories are {}",
                                own.name,
                                ours.join(", ")
                            )
                        })
                    };
                    theirs.iter().map(number).collect::<Result<_, _>>()?
                }
                (ours @ ColumnKind::Category(_), theirs)
                | (ours, theirs @ ColumnKind::Category(_)) => {
                    return Err(format!(
                        "column {} holds {}, and the run's table has {}",
                        own.name,
                        theirs.name(),
                        ours.name()
                    ));
                }
                _ => Vec::new(),
            };
            columns.push((place, names));
        }
        let aligned = other.series.iter().map(|series| {
            let rows = series.values.chunks(other.width());
            let values = rows.flat_map(|row| {
                columns.iter().map(|(place, names)| match row[*place] {
                    value if names.is_empty() || value.is_nan() => value,
                    number => names[number as usize],
                })
            });
            Series {
                values: values.collect(),
                ..series.clone()
            }
        });
        Ok(aligned.collect())
    }
}

/// A sequence and what follows it; rows that it already has are left out. Its training part stays, so that it is coded as before.
fn joined(ours: &Series, next: Series, width: usize) -> Result<Series, String> {
    let of_sequence = |problem: String| match ours.name.as_str() {
        "" => problem,
        name => format!("sequence {name}: {problem}"),
    };
    let known = next.clock.not_after(&ours.clock).map_err(of_sequence)?;
    let next = Series {
        values: next.values[known * width..].to_vec(),
        clock: next.clock.after(known),
        ..next
    };
    let (missing, clock) = ours.clock.followed_by(&next.clock).map_err(of_sequence)?;
    let mut values = ours.values.clone();
    values.resize(values.len() + missing * width, f64::NAN);
    let known = values.len() / width;
    values.extend(next.values);
    Ok(Series {
        name: next.name,
        values,
        clock,
        starts: [ours.starts[0], known],
    })
}
