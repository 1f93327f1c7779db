//! Checks whether there is enough memory for an experiment.

use crate::{
    Experiment, LabError,
    experiment::{
        gallery::Gallery,
        keys::{flatten, slot},
    },
};
use mnemora_memory::Count;
use mnemora_training::memory_use::{allowed, bytes_words};
use toml::{Table, Value};

/// Returns an error if an experiment is estimated to take more memory than there is. The error names the key that takes
/// most of it.
pub(crate) fn check(
    experiment: &Experiment,
    needed: impl Fn(&Experiment) -> Result<Count, LabError>,
) -> Result<(), LabError> {
    let Some((allowed, why)) = allowed() else {
        return Ok(());
    };
    let all = needed(experiment)?;
    if all <= allowed {
        return Ok(());
    }
    let blamed = match largest_key(experiment, all, needed) {
        Some((key, value)) => format!("{key} is {value}, which takes most of it"),
        None => "most of it is the data".to_owned(),
    };
    Err(LabError::Configuration(format!(
        "this takes about {} of memory, but {} {why}: {blamed}; choose a smaller value, or try it with --ram none",
        bytes_words(all),
        bytes_words(allowed),
    )))
}

/// Returns an error if there is not enough memory to draw these training sequences, with `numbers` values per step.
pub(crate) fn check_pictures(experiment: &Experiment, numbers: usize) -> Result<(), LabError> {
    // The values, the batch they came from, and about as many colours.
    const BYTES: usize = 24;
    check(experiment, |experiment| {
        let pictures = experiment.evaluation.pictures;
        Ok(Count::product(&[
            BYTES,
            numbers,
            experiment.time(),
            pictures,
        ]))
    })
}

/// Returns an error if there is not enough memory to generate this many sequences of this length.
pub(crate) fn check_drawing(
    learner: &dyn Gallery,
    experiment: &Experiment,
    sequences: usize,
    steps: Option<usize>,
) -> Result<(), LabError> {
    let Some((allowed, why)) = allowed() else {
        return Ok(());
    };
    let mut asked = experiment.clone();
    asked.evaluation.batch = sequences;
    if let Some(steps) = steps {
        experiment.family().lengthen(&mut asked, steps);
    }
    // Other errors are reported where the sequences are drawn.
    match learner
        .planned(&asked)
        .map(|planned| planned.memory.of_looking())
    {
        Ok(needed) if needed > allowed => Err(LabError::Configuration(format!(
            "to draw {sequences} sequences of {} steps takes about {} of memory, but {} {why}: choose fewer, \
             or try it with --ram none",
            asked.time(),
            bytes_words(needed),
            bytes_words(allowed),
        ))),
        _ => Ok(()),
    }
}

/// The size that would save most memory if it were halved, with its value; `None` if none saves a tenth.
fn largest_key(
    experiment: &Experiment,
    all: Count,
    needed: impl Fn(&Experiment) -> Result<Count, LabError>,
) -> Option<(String, i64)> {
    let table = Table::try_from(experiment).ok()?;
    let mut values = Vec::new();
    flatten(&table, "", &mut values);
    let read = |key: &str| key.contains('.') && experiment.reads(key);
    let halves = values.into_iter().filter_map(|(key, value)| {
        let value = value.as_integer().filter(|value| *value >= 2)?;
        if !read(&key) {
            return None;
        }
        let mut changed = table.clone();
        *slot(&mut changed, &key)? = Value::Integer(value / 2);
        let smaller: Experiment = Value::Table(changed).try_into().ok()?;
        Some((needed(&smaller).ok()?, (key, value)))
    });
    let (least, key) = halves.min_by_key(|(needed, _)| *needed)?;
    (least + all.divided_by(10) <= all).then_some(key)
}
