//! What the columns of a table hold.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most different texts of a column of categories.
pub const MOST_CATEGORIES: usize = 64;
/// Whole numbers up to here may be counts; larger ones are taken as numbers.
const LARGEST_COUNT: f64 = 1000.0;
/// What stands for a value that was not observed, in any letter case.
const MISSING: [&str; 8] = ["", "na", "n/a", "nan", "null", "none", "-", "?"];

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnKind {
    /// Any number.
    Number,
    /// A whole number from 0.
    Count,
    /// 0 or 1.
    Binary,
    /// One of some texts.
    Category(Vec<String>),
}

impl ColumnKind {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Count => "count",
            Self::Binary => "binary",
            Self::Category(_) => "category",
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name in the header.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
}

/// Whether a field says that nothing was observed.
pub(super) fn is_missing(field: &str) -> bool {
    MISSING.contains(&field.to_ascii_lowercase().as_str())
}

/// A truth value in one of its usual forms.
fn truth(field: &str) -> Option<f64> {
    match field.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(1.0),
        "false" | "no" | "off" => Some(0.0),
        _ => None,
    }
}

/// The fields of a column with the numbers of their lines, those that are missing left out.
type Fields<'a> = Vec<(usize, &'a str)>;

/// Decides what a column holds, or checks that it holds what `wanted` says, a key and a kind. Returns the column and its values by row, NaN
/// where nothing was observed.
///
/// The error is one line and names the column.
pub(super) fn column(
    name: &str,
    fields: &[(usize, &str)],
    wanted: Option<(&str, &str)>,
) -> Result<(Column, Vec<f64>), String> {
    let observed: Fields = fields
        .iter()
        .copied()
        .filter(|(_, field)| !is_missing(field))
        .collect();
    if observed.is_empty() {
        return Err(format!(
            "column {name} is empty; leave it out with table.leave_out=[\"{name}\"]"
        ));
    }
    let kind = match wanted {
        Some((key, wanted)) => wanted_kind(name, key, wanted, &observed)?,
        None => found_kind(name, &observed)?,
    };
    let places: BTreeMap<&str, usize> = match &kind {
        ColumnKind::Category(names) => names.iter().map(String::as_str).zip(0..).collect(),
        _ => BTreeMap::new(),
    };
    let values = fields.iter().map(|(line, field)| {
        if is_missing(field) {
            return Ok(f64::NAN);
        }
        let value = match &kind {
            ColumnKind::Category(_) => places.get(field).map(|place| *place as f64),
            _ => number(field),
        };
        value.ok_or_else(|| {
            format!(
                "line {line}, column {name}: {field:?} is not a {}",
                kind.name()
            )
        })
    });
    let values = values.collect::<Result<Vec<f64>, String>>()?;
    let column = Column {
        name: name.to_owned(),
        kind,
    };
    Ok((column, values))
}

/// A finite number, or a truth value.
pub(super) fn number(field: &str) -> Option<f64> {
    let parsed = field
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite());
    parsed.or_else(|| truth(field))
}

/// The number that a field holds; NaN if nothing was observed. `None` if it is no number.
pub fn value_of(field: &str) -> Option<f64> {
    let field = field.trim();
    match is_missing(field) {
        true => Some(f64::NAN),
        false => number(field),
    }
}

fn found_kind(name: &str, observed: &Fields) -> Result<ColumnKind, String> {
    let numbers: Option<Vec<f64>> = observed.iter().map(|(_, field)| number(field)).collect();
    let Some(numbers) = numbers else {
        let other = observed.iter().find(|(_, field)| number(field).is_none());
        let count = observed.iter().filter(|(_, field)| number(field).is_some());
        return match other {
            // A column of numbers with something else in it.
            Some((line, field)) if 2 * count.count() > observed.len() => Err(format!(
                "line {line}, column {name}: {field:?} is not a number, and most others are; leave it empty if nothing was \
                 observed, or set table.categories=[\"{name}\"]"
            )),
            _ => categories(name, observed),
        };
    };
    if numbers
        .iter()
        .all(|number| *number == 0.0 || *number == 1.0)
    {
        return Ok(ColumnKind::Binary);
    }
    let counts = numbers
        .iter()
        .all(|number| number.fract() == 0.0 && (0.0..=LARGEST_COUNT).contains(number));
    Ok(match counts {
        true => ColumnKind::Count,
        false => ColumnKind::Number,
    })
}

fn wanted_kind(
    name: &str,
    key: &str,
    wanted: &str,
    observed: &Fields,
) -> Result<ColumnKind, String> {
    let fits = |kind: ColumnKind, holds: fn(f64) -> bool| {
        let other = observed
            .iter()
            .find(|(_, field)| !number(field).is_some_and(holds));
        match other {
            None => Ok(kind),
            Some((line, field)) => Err(format!(
                "line {line}, column {name}: {field:?} is not a {wanted}, but {key} has the column"
            )),
        }
    };
    match wanted {
        "number" => fits(ColumnKind::Number, |_| true),
        "count" => fits(ColumnKind::Count, |number| {
            number >= 0.0 && number.fract() == 0.0
        }),
        "binary" => fits(ColumnKind::Binary, |number| number == 0.0 || number == 1.0),
        _ => categories(name, observed),
    }
}

fn categories(name: &str, observed: &Fields) -> Result<ColumnKind, String> {
    let mut names: Vec<&str> = observed.iter().map(|(_, field)| *field).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() > MOST_CATEGORIES {
        let text = observed
            .iter()
            .find(|(_, field)| number(field).is_none())
            .unwrap_or(&observed[0]);
        return Err(format!(
            "column {name} has {} different texts, such as {:?} in line {}, and at most {MOST_CATEGORIES} can be \
             categories; times are written as 2024-01-31 or 2024-01-31T12:00, numbers as 5005 or 0.5; or leave it out \
             with table.leave_out=[\"{name}\"]",
            names.len(),
            text.1,
            text.0
        ));
    }
    Ok(ColumnKind::Category(
        names.into_iter().map(str::to_owned).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fields: &[&str], wanted: Option<&str>) -> Result<(ColumnKind, Vec<f64>), String> {
        let fields: Vec<(usize, &str)> = (2..).zip(fields.iter().copied()).collect();
        let wanted = wanted.map(|kind| ("table.list", kind));
        column("x", &fields, wanted).map(|(column, values)| (column.kind, values))
    }

    #[test]
    fn what_a_column_holds_is_found_out() {
        let kind = |fields: &[&str]| found(fields, None).unwrap().0;
        assert_eq!(kind(&["1.5", "-2", "NaN", "1e3"]), ColumnKind::Number);
        assert_eq!(kind(&["3", "0", "", "12"]), ColumnKind::Count);
        assert_eq!(kind(&["3", "0", "-1"]), ColumnKind::Number);
        assert_eq!(kind(&["3", "1001"]), ColumnKind::Number);
        assert_eq!(kind(&["yes", "No", "null"]), ColumnKind::Binary);
        assert_eq!(kind(&["0", "1", "1"]), ColumnKind::Binary);
        let (kind, values) = found(&["wet", "dry", "?", "wet"], None).unwrap();
        assert_eq!(kind, ColumnKind::Category(vec!["dry".into(), "wet".into()]));
        assert_eq!(values[..2], [1.0, 0.0]);
        assert!(values[2].is_nan());
    }

    #[test]
    fn what_is_wanted_is_checked() {
        assert_eq!(
            found(&["1", "2000"], Some("count")).unwrap().0,
            ColumnKind::Count
        );
        assert_eq!(
            found(&["1", "2"], Some("category")).unwrap().0,
            ColumnKind::Category(vec!["1".into(), "2".into()])
        );
        let refused = |fields: &[&str], wanted| found(fields, wanted).unwrap_err();
        assert!(
            refused(&["1", "1.5"], Some("count"))
                .contains("\"1.5\" is not a count, but table.list")
        );
        assert!(refused(&["", "NA"], None).contains("column x is empty"));
        let many: Vec<String> = (0..65).map(|i| format!("text {i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(refused(&many, None).contains("table.leave_out=[\"x\"]"));
    }
}
