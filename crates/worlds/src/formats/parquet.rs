//! Tables in Parquet files, as texts: the reader of tables finds out what they hold, as it does for CSV.

use super::table::Table;
use crate::{
    Error,
    error::unusable,
    files::{Files, Room},
};
use bytes::Bytes;
use chrono::{DateTime, NaiveDate};
use parquet::{
    basic::{LogicalType, TimeUnit},
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
    schema::types::Type,
};
use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::Once,
};

/// The name that pandas gives to rows without one.
const INDEX: &str = "__index_level_0__";

/// How a column's numbers are read.
#[derive(Clone, Copy, PartialEq)]
enum Reading {
    /// As they are.
    Plain,
    /// As times in billionths of a second, for which the reader has no kind.
    Nanoseconds,
}

/// Reads a table; each row with its number, the header being the first.
pub fn read(path: &Path, files: &Files) -> Result<Table, Error> {
    let bytes = files.read(path)?;
    let room = files.room(bytes.len());
    let bytes = Bytes::from(bytes);
    let found = quietly(|| table(bytes, room));
    let found = found.unwrap_or_else(|()| Err(DAMAGED.into()));
    found.map_err(|problem| unusable(path, problem))
}

/// What is said of a damaged file.
const DAMAGED: &str = "not a whole Parquet file";

thread_local! {
    /// Whether a panic of this thread is expected and is not printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does work in which the library may panic, as it does on some damaged files; then the result is an error.
fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, ()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    done.map_err(|_| ())
}

/// The error is one line without the name of the file.
fn table(bytes: Bytes, room: Room) -> Result<Table, String> {
    let damaged = |error: parquet::errors::ParquetError| {
        let text = error.to_string();
        format!(
            "not a whole Parquet file: {}",
            text.lines().next().unwrap_or_default()
        )
    };
    let reader = SerializedFileReader::new(bytes).map_err(damaged)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let columns = schema.root_schema().get_fields();
    let mut header = Vec::with_capacity(columns.len());
    let mut readings = Vec::with_capacity(columns.len());
    for column in columns {
        let name = column.name();
        if column.is_group() {
            return Err(format!(
                "column {name} holds lists or records, and a table has one value in each field; leave it out of the file"
            ));
        }
        let time = is_time(column);
        header.push(match name == INDEX && time {
            true => "time".to_owned(),
            false => name.to_owned(),
        });
        readings.push(match column.get_basic_info().logical_type_ref() {
            Some(LogicalType::Timestamp(of)) if of.unit == TimeUnit::NANOS => Reading::Nanoseconds,
            _ => Reading::Plain,
        });
    }
    let mut rows = Vec::new();
    let mut taken = 0;
    let found = reader.get_row_iter(None).map_err(damaged)?;
    for (number, row) in found.enumerate() {
        let row = row.map_err(damaged)?;
        let mut fields = Vec::with_capacity(header.len());
        for ((_, field), reading) in row.get_column_iter().zip(&readings) {
            let text = text(field, *reading)
                .map_err(|problem| format!("row {}: {problem}", number + 1))?;
            taken += size_of::<String>() + text.len() + 16;
            fields.push(text);
        }
        room.check(taken)?;
        rows.push((number + 2, fields));
    }
    Ok(Table { header, rows })
}

fn is_time(column: &Type) -> bool {
    matches!(
        column.get_basic_info().logical_type_ref(),
        Some(LogicalType::Timestamp(_) | LogicalType::Date)
    )
}

/// A value as a field of a CSV file has it; empty for none.
fn text(field: &Field, reading: Reading) -> Result<String, String> {
    let time = |time: Option<DateTime<_>>| {
        let time: DateTime<chrono::Utc> = time.ok_or("a time that no calendar has")?;
        Ok(time.format("%Y-%m-%d %H:%M:%S%.f").to_string())
    };
    Ok(match field {
        Field::Null => String::new(),
        Field::Bool(value) => u8::from(*value).to_string(),
        Field::Byte(value) => value.to_string(),
        Field::Short(value) => value.to_string(),
        Field::Int(value) => value.to_string(),
        Field::Long(value) if reading == Reading::Nanoseconds => {
            return time(Some(DateTime::from_timestamp_nanos(*value)));
        }
        Field::Long(value) => value.to_string(),
        Field::UByte(value) => value.to_string(),
        Field::UShort(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        Field::Float16(value) => number(f64::from(value.to_f32())),
        Field::Float(value) => number_of_32_bits(*value),
        Field::Double(value) => number(*value),
        Field::Str(value) => value.clone(),
        Field::Date(days) => {
            let day = NaiveDate::from_epoch_days(*days);
            day.ok_or("a date that no calendar has")?.to_string()
        }
        Field::TimestampMillis(value) => return time(DateTime::from_timestamp_millis(*value)),
        Field::TimestampMicros(value) => return time(DateTime::from_timestamp_micros(*value)),
        // Decimals and times of the day, as the library writes them.
        other => other.to_string(),
    })
}

/// NaN is a value that was not observed.
fn number(value: f64) -> String {
    match value.is_nan() {
        true => String::new(),
        false => value.to_string(),
    }
}

/// In the fewest digits that name it among numbers of 32 bits.
fn number_of_32_bits(value: f32) -> String {
    match value.is_nan() {
        true => String::new(),
        false => value.to_string(),
    }
}
