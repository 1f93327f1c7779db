//! Checks of the sizes that a user sets, with messages that name the key.

use std::ops::RangeInclusive;

use crate::Error;

/// Longest accepted interval: far longer than a model can be trained on, but small enough for
/// memory.
pub(crate) const LONGEST: usize = 100_000;

/// Checks a setting; `wanted` describes the accepted values.
pub(crate) fn check(
    key: &'static str,
    value: usize,
    range: RangeInclusive<usize>,
    wanted: impl FnOnce() -> String,
) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(Error::Setting {
        key,
        value,
        wanted: wanted(),
    })
}

/// Checks a setting that is a fraction; `wanted` describes the accepted values.
pub(crate) fn check_fraction(
    key: &'static str,
    value: f32,
    range: RangeInclusive<f32>,
    wanted: &str,
) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(Error::Fraction {
        key,
        value,
        wanted: wanted.to_owned(),
    })
}

/// Checks `task.length` of a task that takes any length.
pub(crate) fn check_length(length: usize) -> Result<(), Error> {
    check("task.length", length, 1..=LONGEST, || {
        format!("the images to watch must be from 1 to {LONGEST}")
    })
}

/// Checks `task.recall` of a task that recalls at most the images watched.
pub(crate) fn check_recall(recall: usize, length: usize) -> Result<(), Error> {
    check("task.recall", recall, 1..=length, || {
        format!("the images to recall must be from 1 to task.length = {length}")
    })
}
