//! `mnemora forecast`: what follows the end of a table, with bands.

use crate::{
    arguments::{Forecast, Layout},
    output::say,
};
use mnemora_lab::{
    Ask, LabError, Value, find_device, note, open,
    pictures::{charts_image, check_png_name, write_picture},
};
use std::fmt::Write as _;

/// Shares in increasing order, each between 0 and 1.
pub fn quantiles(text: &str) -> Result<Vec<f64>, LabError> {
    let refuse = |problem: String| {
        LabError::Configuration(format!(
            "--quantiles {text}: {problem}, such as 0.1,0.5,0.9"
        ))
    };
    let shares = text.split(',').map(|part| {
        let part = part.trim();
        let share: f64 = part.parse().map_err(|_| {
            refuse(format!(
                "{part:?} is not a number; shares are separated by commas"
            ))
        })?;
        match share > 0.0 && share < 1.0 {
            true => Ok(share),
            false => Err(refuse(format!("{part} is not between 0 and 1"))),
        }
    });
    let mut shares = shares.collect::<Result<Vec<f64>, _>>()?;
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    Ok(shares)
}

/// A field of a CSV file.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The values as CSV, with a header.
fn csv(values: &[Value], shares: &[f64]) -> String {
    let named = values.iter().any(|value| !value.sequence.is_empty());
    let mut text = String::new();
    if named {
        text.push_str("sequence,");
    }
    text.push_str("time,column,mean");
    for share in shares {
        let _ = write!(text, ",q{share}");
    }
    text.push('\n');
    for value in values {
        if named {
            let _ = write!(text, "{},", field(&value.sequence));
        }
        let _ = write!(
            text,
            "{},{},{}",
            field(&value.time),
            field(&value.column),
            value.mean
        );
        for place in 0..shares.len() {
            match value.quantiles.get(place) {
                Some(number) => {
                    let _ = write!(text, ",{number}");
                }
                None => text.push(','),
            }
        }
        text.push('\n');
    }
    text
}

/// The values as JSON, an object a line.
fn json(values: &[Value]) -> String {
    let lines = values.iter().map(|value| {
        let line = serde_json::to_string(value);
        line.expect("a value holds only numbers, texts and lists") + "\n"
    });
    lines.collect()
}

/// Runs the command.
pub fn run(arguments: &Forecast) -> Result<u8, LabError> {
    if let Some(out) = arguments
        .draw
        .as_ref()
        .filter(|_| arguments.state.is_some())
    {
        return Err(LabError::Configuration(format!(
            "--draw {}: the state of a filter does not hold the past, so there is nothing to draw a forecast beside",
            out.display()
        )));
    }
    if let Some(out) = &arguments.draw {
        check_png_name(out)?;
    }
    let shares = quantiles(&arguments.quantiles)?;
    let device = find_device(arguments.on.device)?;
    let trained = open(&arguments.run, arguments.checkpoint, &[], None, &device)?;
    let forecast = trained.forecast(&Ask {
        steps: arguments.steps as usize,
        samples: arguments.samples as usize,
        quantiles: shares.clone(),
        seed: arguments.seed,
        past: arguments.data.data.clone(),
        future: arguments.future.clone(),
        state: arguments.state.clone(),
        sequence: arguments.sequence.clone(),
    })?;
    for line in &forecast.notes {
        note(format_args!("mnemora: {line}"));
    }
    let text = match arguments.format {
        Layout::Csv => csv(&forecast.values, &shares),
        Layout::Json => json(&forecast.values),
    };
    match &arguments.out {
        None => say(text.trim_end_matches('\n'))?,
        Some(out) => {
            std::fs::write(out, text).map_err(|error| LabError::write(out, error))?;
            note(out.display());
        }
    }
    if let Some(out) = &arguments.draw {
        write_picture(&charts_image(&forecast.charts)?, out)?;
        note(out.display());
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_checked() {
        assert_eq!(quantiles("0.9, 0.1,0.5").unwrap(), [0.1, 0.5, 0.9]);
        for (text, part) in [
            ("0,0.5", "0 is not between"),
            ("x", "\"x\" is not a number"),
        ] {
            let error = quantiles(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn fields_with_commas_are_quoted() {
        let value = Value {
            sequence: "a, \"b\"".into(),
            time: "2024-01-01".into(),
            column: "y".into(),
            mean: 1.5,
            quantiles: vec![1.0, 2.0],
        };
        assert_eq!(
            csv(&[value], &[0.1, 0.9]),
            "sequence,time,column,mean,q0.1,q0.9\n\"a, \"\"b\"\"\",2024-01-01,y,1.5,1,2\n"
        );
    }
}
