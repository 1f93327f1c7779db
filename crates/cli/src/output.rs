//! Results on standard output.

use mnemora_lab::{LabError, printable};
use std::{
    fmt::Display,
    io::{ErrorKind, Write},
};

/// Writes a result to standard output. It is no error if the reader closes its end early.
pub fn say(text: impl Display) -> Result<(), LabError> {
    let text = printable(text);
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(LabError::write("standard output", error))
        }
        _ => Ok(()),
    }
}

/// Writes measurements as lines of JSON or as a table.
pub fn say_rows<T: serde::Serialize>(
    rows: &[T],
    table: impl Fn(&[T]) -> String,
    json: bool,
) -> Result<(), LabError> {
    match json {
        true => say_lines(rows),
        false => say(table(rows).trim_end()),
    }
}

pub fn say_lines<T: serde::Serialize>(rows: &[T]) -> Result<(), LabError> {
    rows.iter().try_for_each(|row| say(to_json(row)))
}

pub fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("results hold only numbers, texts and lists")
}
