//! `mnemora filter` for models of tables: rows with named columns, as lines of CSV or JSON.

use crate::{
    arguments::Filter,
    forecast::quantiles,
    signals::{StopSignal, exit_code},
    standard_input::{BYTE_ORDER_MARK, PATIENCE, Tally, lines_of_standard_input},
};
use mnemora_lab::{
    Adaptation, Adapted, Fields, FilteredRow, LabError, RefusedRow, RowAsk, RowFilter, Trained,
    fields_of_line, filtered_charts, load_filter_state, note,
    pictures::{charts_image, write_picture},
    save_filter_state,
};
use serde::Serialize;
use std::{
    io::{ErrorKind, Write},
    sync::mpsc::RecvTimeoutError,
    time::Duration,
};

/// The most rows of a picture.
const MOST_DRAWN: usize = 5000;

/// What takes the place of an answer to a row that cannot be used.
#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
    /// Whether a step was taken, of which nothing was observed.
    advanced: bool,
    #[serde(flatten)]
    step: Option<&'a FilteredRow>,
}

/// What the arguments ask for.
///
/// # Errors
/// A quantile or the rate of alarms is not between 0 and 1.
pub fn asked(arguments: &Filter) -> Result<RowAsk, LabError> {
    if let Some(rate) = arguments.anomalies
        && !(rate > 0.0 && rate < 1.0)
    {
        return Err(LabError::Configuration(format!(
            "--anomalies {rate}: the rate of false alarms must be between 0 and 1, such as 0.01"
        )));
    }
    let adaptation = arguments.adapt.map(|every| {
        let budget = Duration::try_from_secs_f64(arguments.adapt_budget / 1e3);
        let budget = budget.map_err(|_| {
            LabError::Configuration(format!(
                "--adapt-budget {}: it must be a number of milliseconds above 0",
                arguments.adapt_budget
            ))
        })?;
        Ok::<_, LabError>(Adaptation {
            every: every as usize,
            rate: arguments.adapt_rate,
            budget,
        })
    });
    Ok(RowAsk {
        seed: arguments.seed,
        sequence: arguments.sequence.clone(),
        fresh: arguments.fresh,
        samples: arguments.samples as usize,
        quantiles: quantiles(&arguments.quantiles)?,
        alarms: arguments.anomalies,
        adaptation: adaptation.transpose()?,
    })
}

/// A row of JSON: an object by column.
fn of_json(line: &[u8]) -> Result<Fields, String> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(line).map_err(|error| {
            let problem = error.to_string();
            let problem = problem.split(" at line").next().unwrap_or_default();
            format!("{problem}; a line is {{\"column\": value, ..}}")
        })?;
    let mut fields = Fields::new();
    for (name, value) in object {
        match value {
            serde_json::Value::Object(inner) => {
                let inner = inner.into_iter();
                fields.extend(
                    inner.map(|(column, value)| (format!("{name}.{column}"), text(&value))),
                );
            }
            value => {
                fields.insert(name, text(&value));
            }
        }
    }
    Ok(fields)
}

fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The rows of standard input: each line an object, or a header and lines of fields.
#[derive(Default)]
struct Rows {
    header: Option<Vec<String>>,
    /// Whether the first line was an object.
    objects: bool,
}

impl Rows {
    /// The next row; `None` for the header.
    fn read(&mut self, line: &[u8]) -> Result<Option<Fields>, String> {
        if self.header.is_none() && (self.objects || line.trim_ascii_start().starts_with(b"{")) {
            self.objects = true;
            return of_json(line).map(Some);
        }
        let line = std::str::from_utf8(line).map_err(|_| "not a text in UTF-8".to_owned())?;
        let fields = fields_of_line(line)?;
        let Some(header) = &self.header else {
            let twice = fields
                .iter()
                .enumerate()
                .find(|(n, name)| fields[..*n].contains(name));
            if let Some((_, name)) = twice {
                return Err(format!("two columns are named {name}"));
            }
            self.header = Some(fields);
            return Ok(None);
        };
        match fields.len() == header.len() {
            true => Ok(Some(header.iter().cloned().zip(fields).collect())),
            false => Err(format!(
                "{} fields, but the header has {}",
                fields.len(),
                header.len()
            )),
        }
    }
}

/// Says what adapting has done.
fn say_adapted(adapted: Adapted, budget: f64) {
    let milliseconds = adapted.taken.as_secs_f64() * 1e3 / adapted.rows.max(1) as f64;
    let also = [
        (adapted.left_out, "left out for the budget"),
        (adapted.dropped, "dropped: a number was not finite"),
    ];
    let also = also.into_iter().filter(|(count, _)| *count > 0);
    let also: String = also
        .map(|(count, what)| format!("; {count} {what}"))
        .collect();
    note(format_args!(
        "mnemora: adapted by {} updates, {milliseconds:.2} of {budget} ms a row{also}",
        adapted.updates
    ));
}

/// Filters rows until standard input ends or a signal arrives.
///
/// # Errors
/// The state cannot be read or written, or the header names a column that the table does not have.
pub fn run(
    arguments: &Filter,
    trained: &Trained,
    mut filter: Box<dyn RowFilter>,
) -> Result<u8, LabError> {
    if arguments.recording.is_some() {
        return Err(LabError::Configuration(format!(
            "--recording does not go with the task {}; give rows on standard input",
            trained.experiment.task.name.as_str()
        )));
    }
    if let Some(path) = arguments.state.as_deref().filter(|path| path.exists()) {
        load_filter_state(filter.as_mut(), path)?;
        note(format_args!(
            "mnemora: continuing after step {}",
            filter.steps()
        ));
    }
    let signal = StopSignal::listen()?;
    let mut tally = Tally::default();
    let mut passed: Vec<FilteredRow> = Vec::new();
    let mut rows = Rows::default();
    let lines = lines_of_standard_input();
    while signal.received().is_none() {
        let line = match lines.recv_timeout(PATIENCE) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line);
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match rows.read(line) {
            Ok(None) => {
                // A wrong name would be said again with every row.
                filter.check_names(rows.header.as_deref().unwrap_or_default())?;
                continue;
            }
            Ok(Some(row)) => tally.timed(|| filter.step(&row)),
            Err(problem) => Err(RefusedRow {
                problem,
                step: None,
            }),
        };
        let text = match &answer {
            Ok(row) => serde_json::to_string(row),
            Err(refused) => {
                tally.refused += 1;
                serde_json::to_string(&Refusal {
                    error: &refused.problem,
                    advanced: refused.step.is_some(),
                    step: refused.step.as_deref(),
                })
            }
        };
        let text = text.expect("rows hold only numbers, texts and lists");
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => return Err(LabError::write("standard output", error)),
            Ok(()) => {}
        }
        if arguments.draw.is_some() && passed.len() < MOST_DRAWN {
            passed.extend(answer.ok());
        }
    }
    if let Some(path) = &arguments.state {
        save_filter_state(filter.as_ref(), path)?;
    }
    tally.report();
    if let Some(adapted) = filter.adapted() {
        say_adapted(adapted, arguments.adapt_budget);
    }
    if let Some(path) = &arguments.draw {
        if passed.len() == MOST_DRAWN {
            note(format_args!(
                "mnemora: the picture has the first {MOST_DRAWN} rows"
            ));
        }
        write_picture(&charts_image(&filtered_charts(&passed))?, path)?;
        note(path.display());
    }
    Ok(signal.received().map_or(0, exit_code))
}
