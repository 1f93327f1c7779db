//! Measured numbers as people read them.

use super::{Format, Measures, Quantity, Value};

/// A row of a table of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// The name.
    pub name: String,
    /// The value, with its standard error if there is one.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// The meaning.
    pub meaning: String,
}

/// The rows of a table: one per measured quantity, or one per value of a series.
pub fn table(quantities: &[Quantity], measures: &Measures) -> Vec<Number> {
    quantities
        .iter()
        .flat_map(|quantity| rows(quantity, measures))
        .collect()
}

fn rows(quantity: &Quantity, measures: &Measures) -> Vec<Number> {
    match measures.get(quantity.path) {
        None | Some(Value::Flag(_)) => Vec::new(),
        Some(Value::Records(records)) => {
            // Values of this row of the small table come before those of the whole.
            let whole = |row: &Measures| {
                let mut all = row.clone();
                for (key, value) in measures.iter() {
                    if all.get(key).is_none() {
                        all.add(key.to_owned(), value.clone());
                    }
                }
                all
            };
            let row = |record: &Measures| {
                let value = record.number(quantity.key)?;
                Some(row(
                    quantity,
                    &whole(record),
                    number_words(value, quantity.format),
                ))
            };
            records.iter().filter_map(row).collect()
        }
        Some(Value::Series(values)) => match quantity.format {
            Format::Rows => {
                let row = |(place, value): (usize, &Option<f64>)| {
                    let measures = measures.clone().with("place", place);
                    Some(row(quantity, &measures, digits((*value)?)))
                };
                values.iter().enumerate().filter_map(row).collect()
            }
            _ => {
                let percent = |share: &Option<f64>| {
                    share.map_or("-".into(), |share| format!("{:.0}", 100.0 * share))
                };
                let values: Vec<String> = values.iter().map(percent).collect();
                vec![row(quantity, measures, values.join(" "))]
            }
        },
        Some(Value::Text(text)) => vec![row(quantity, measures, text.clone())],
        Some(value) => {
            let value = value.number().unwrap_or(f64::NAN);
            let stderr = quantity
                .spread
                .and_then(|spread| measures.number(spread.path));
            let value = match stderr {
                Some(stderr) => plus_minus(value, stderr),
                None => number_words(value, quantity.format),
            };
            let mut row = row(quantity, measures, value);
            if let (Some(spread), true) = (quantity.spread, stderr.is_some_and(|s| s > 0.0)) {
                row.meaning
                    .push_str(&format!("; ± standard error over {}", spread.over));
            }
            vec![row]
        }
    }
}

fn row(quantity: &Quantity, measures: &Measures, value: String) -> Number {
    Number {
        name: filled(quantity.name, measures),
        value,
        unit: filled(quantity.unit, measures),
        meaning: filled(quantity.meaning, measures),
    }
}

/// The text with values filled in: see [`Quantity`].
pub fn filled(text: &str, measures: &Measures) -> String {
    let mut said = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        let Some(length) = rest[start..].find(']') else {
            break;
        };
        said.push_str(&values_in(&rest[..start], measures).0);
        let alternatives = rest[start + 1..start + length].split('|');
        let first = alternatives
            .map(|text| values_in(text, measures))
            .find(|(_, complete)| *complete);
        said.extend(first.map(|(text, _)| text));
        rest = &rest[start + length + 1..];
    }
    said.push_str(&values_in(rest, measures).0);
    said
}

/// The text with values filled in, and whether all values were present.
fn values_in(text: &str, measures: &Measures) -> (String, bool) {
    let (mut said, mut complete) = (String::new(), true);
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let Some(length) = rest[start..].find('}') else {
            break;
        };
        said.push_str(&rest[..start]);
        let name = &rest[start + 1..start + length];
        let (key, percent) = match name.strip_suffix('%') {
            Some(key) => (key, true),
            None => (name, false),
        };
        if let (Some(series), true) = (key.strip_prefix("1/"), percent) {
            match measures.series(series).len() {
                0 => complete = false,
                values => said.push_str(&format!("{:.1}", 100.0 / values as f64)),
            }
            rest = &rest[start + length + 1..];
            continue;
        }
        match (measures.get(key), percent) {
            (Some(value), true) => match value.number() {
                Some(share) => said.push_str(&format!("{:.1}", 100.0 * share)),
                None => complete = false,
            },
            (Some(Value::Text(text)), false) => said.push_str(text),
            (Some(Value::Count(count)), false) => said.push_str(&count.to_string()),
            // A flag that is `true` adds no text: it only selects the words around it.
            (Some(Value::Flag(true)), false) => {}
            (Some(value), false) => match value.number() {
                Some(value) => {
                    let (whole, rounded) = (value.to_string(), digits(value));
                    said.push_str(match whole.len() <= rounded.len() {
                        true => &whole,
                        false => &rounded,
                    });
                }
                None => complete = false,
            },
            (None, _) => complete = false,
        }
        rest = &rest[start + length + 1..];
    }
    said.push_str(rest);
    (said, complete)
}

/// A number in a format.
pub fn number_words(value: f64, format: Format) -> String {
    match format {
        Format::Digits | Format::Percents | Format::Rows => digits(value),
        Format::Decimals(decimals) => format!("{value:.decimals$}"),
        Format::Percent(decimals) => format!("{:.decimals$}", 100.0 * value),
    }
}

/// The number of decimals that gives about five digits.
pub fn decimals(value: f64) -> usize {
    match value.abs().log10().floor() {
        magnitude if magnitude > 0.0 => (4.0 - magnitude).max(0.0) as usize,
        _ => 4,
    }
}

/// A number with about five digits.
pub fn digits(value: f64) -> String {
    format!("{value:.0$}", decimals(value))
}

/// A mean with its standard error, if that is not zero.
pub fn plus_minus(mean: f64, stderr: f64) -> String {
    if stderr > 0.0 {
        // Show at least one digit of a small error.
        let least = (-stderr.log10().floor()).clamp(0.0, 4.0) as usize;
        let decimals = decimals(mean).max(least);
        return format!("{mean:.decimals$} ± {stderr:.decimals$}");
    }
    digits(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_five_digits() {
        for (value, text) in [
            (-784.2345, "-784.23"),
            (-12_345.678, "-12346"),
            (1_234_567.0, "1234567"),
            (6.123_456, "6.1235"),
            (0.012_34, "0.0123"),
            (0.0, "0.0000"),
        ] {
            assert_eq!(digits(value), text);
        }
        assert_eq!(plus_minus(-12_345.678, 45.1234), "-12346 ± 45");
        assert_eq!(plus_minus(-12_345.678, 0.0312), "-12345.68 ± 0.03");
        assert_eq!(plus_minus(6.8312, 0.0345), "6.8312 ± 0.0345");
    }

    const BOUND: Quantity = Quantity::new("bound", "bound", "nats")
        .meaning("mean of {sequences} sequences[, {share%}% of {words} words]")
        .spread("bound_stderr", "sequences");

    /// One sequence has no standard error; a part whose value is missing is left out.
    #[test]
    fn values_are_filled_in() {
        let measures = Measures::new()
            .with("sequences", 1_usize)
            .with("bound", -784.2)
            .with("bound_stderr", 0.0);
        let row = |measures: &Measures| table(&[BOUND], measures).remove(0);
        assert_eq!(row(&measures).value, "-784.20");
        assert_eq!(row(&measures).meaning, "mean of 1 sequences");
        let measures = measures
            .with("bound_stderr", 1.5)
            .with("share", 0.125)
            .with("words", 8_usize);
        assert_eq!(row(&measures).value, "-784.20 ± 1.50");
        assert_eq!(
            row(&measures).meaning,
            "mean of 1 sequences, 12.5% of 8 words; ± standard error over sequences"
        );
        assert!(table(&[BOUND], &Measures::new()).is_empty());
    }

    #[test]
    fn series_and_small_tables_have_rows_of_their_own() {
        let quantities = [
            Quantity::new("by_n", "accuracy by n", "%").format(Format::Percents),
            Quantity::new("rounds", "round {place}", "nats").format(Format::Rows),
            Quantity::new("perplexity", "perplexity {count}", "").at("by_frequency"),
        ];
        let record = Measures::new()
            .with("count", "rare".to_owned())
            .with("perplexity", 12.5);
        let measures = Measures::new()
            .with("by_n", vec![Some(0.5), None])
            .with("rounds", vec![2.0, 1.0])
            .with("by_frequency", vec![record]);
        let found = table(&quantities, &measures);
        let found: Vec<_> = found
            .iter()
            .map(|row| (row.name.as_str(), row.value.as_str()))
            .collect();
        let expected = [
            ("accuracy by n", "50 -"),
            ("round 0", "2.0000"),
            ("round 1", "1.0000"),
            ("perplexity rare", "12.500"),
        ];
        assert_eq!(found, expected);
    }
}
