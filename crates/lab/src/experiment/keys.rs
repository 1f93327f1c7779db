//! Keys of an experiment's TOML: merging files, overrides from the command line, misspelt names.

use super::{Experiment, explain::choices};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Collects all keys that hold a value, with their values.
pub(crate) fn flatten(table: &Table, path: &str, values: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let name = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        match value {
            Value::Table(inner) => flatten(inner, &name, values),
            value => values.push((name, value.clone())),
        }
    }
}

/// Overwrites values of `base` with `changes`; unknown keys and values of another type are errors.
pub(crate) fn merge(base: &mut Table, changes: Table, path: &str) -> Result<(), String> {
    for (key, value) in changes {
        let name = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match (base.get_mut(&key), value) {
            (None, _) => return Err(unknown_key(&name)),
            (Some(Value::Table(inner)), Value::Table(changes)) => merge(inner, changes, &name)?,
            (Some(slot), value) => *slot = coerce(&name, slot, value)?,
        }
    }
    Ok(())
}

/// Applies one override `key=value`.
pub(crate) fn apply_override(base: &mut Table, text: &str) -> Result<(), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("--set {text}: expected key=value"))?;
    let (key, value) = (key.trim(), value.trim());
    let value = match format!("value = {value}").parse::<Table>() {
        Ok(mut parsed) if parsed.len() == 1 => parsed
            .remove("value")
            .unwrap_or_else(|| Value::String(value.to_owned())),
        _ => Value::String(value.to_owned()),
    };
    let mut slot = None;
    let mut table = Some(base);
    for part in key.split('.') {
        slot = table.take().and_then(|table| table.get_mut(part));
        match slot {
            Some(Value::Table(inner)) => {
                table = Some(inner);
                slot = None;
            }
            Some(_) => {}
            None => return Err(format!("--set {text}: {}", unknown_key(key))),
        }
    }
    match slot {
        None => Err(format!(
            "--set {text}: {key} is a table; name one of its keys"
        )),
        Some(slot) => {
            *slot =
                coerce(key, slot, value).map_err(|problem| format!("--set {text}: {problem}"))?;
            Ok(())
        }
    }
}

/// Converts `value` to the type of `slot`.
fn coerce(key: &str, slot: &Value, value: Value) -> Result<Value, String> {
    match (slot, value) {
        (Value::Float(_), Value::Integer(value)) => Ok(Value::Float(value as f64)),
        (Value::Integer(_), Value::Float(value))
            if value.fract() == 0.0 && (0.0..1e15).contains(&value) =>
        {
            Ok(Value::Integer(value as i64))
        }
        (Value::Integer(_), Value::Integer(value)) if value < 0 => Err(format!(
            "{key} is {value}, it must be a whole number of at least 0"
        )),
        (Value::String(_), Value::String(text)) => {
            check_choice(key, &text)?;
            Ok(Value::String(text))
        }
        // A name, or several, for a list of texts.
        (Value::Array(list), Value::String(text)) if list.iter().all(Value::is_str) => {
            let names = text
                .trim_start_matches('[')
                .trim_end_matches(']')
                .split(',');
            let names = names.map(|name| Value::String(name.trim().to_owned()));
            Ok(Value::Array(names.collect()))
        }
        (slot, value) if slot.same_type(&value) => Ok(value),
        (slot, value) => Err(format!(
            "{key} is {value}, it must be {}",
            match slot {
                Value::Integer(_) => "a whole number",
                Value::Float(_) => "a number",
                Value::String(_) => "a text",
                Value::Boolean(_) => "true or false",
                Value::Array(_) => "a list, such as [1, 2]",
                _ => "a table",
            }
        )),
    }
}

/// The first key of `table` whose value does not fit a type even if all other values are those of `defaults`, and the
/// value.
pub(super) fn misfit<T: DeserializeOwned>(
    defaults: &Table,
    table: &Table,
) -> Option<(String, Value)> {
    let mut values = Vec::new();
    flatten(table, "", &mut values);
    values.into_iter().find(|(key, value)| {
        let mut changed = defaults.clone();
        let Some(place) = slot(&mut changed, key) else {
            return false;
        };
        *place = value.clone();
        changed.try_into::<T>().is_err()
    })
}

/// The value at a key such as `training.batch`; tables count as values.
pub(crate) fn slot<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    match key.split_once('.') {
        None => table.get_mut(key),
        Some((first, rest)) => slot(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

fn check_choice(key: &str, text: &str) -> Result<(), String> {
    let choices = choices(key);
    let names: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
    match names.is_empty() || names.contains(&text) {
        true => Ok(()),
        false => Err(format!(
            "{key} is '{text}', it must be one of {}",
            names.join(", ")
        )),
    }
}

/// The shortest end of a key that no other key shares: `family` for `task.programs.family`, but `training.batch`,
/// because there is `evaluation.batch`.
pub(crate) fn short_key(key: &str) -> String {
    let mut all = Vec::new();
    if let Ok(template) = Experiment::template() {
        flatten(&template, "", &mut all);
    }
    let parts: Vec<&str> = key.split('.').collect();
    let ends = (0..parts.len()).rev().map(|first| parts[first..].join("."));
    let alone = |end: &String| {
        let dotted = format!(".{end}");
        let ends_so = |(name, _): &&(String, Value)| name == end || name.ends_with(&dotted);
        all.iter().filter(ends_so).count() == 1
    };
    { ends }.find(alone).unwrap_or_else(|| key.to_owned())
}

/// The error for an unknown key, with the nearest existing one.
fn unknown_key(key: &str) -> String {
    match Experiment::template() {
        Ok(template) => format!(
            "unknown key '{key}', did you mean '{}'?",
            nearest(key, &template)
        ),
        Err(_) => format!("unknown key '{key}'"),
    }
}

/// The key or table of keys whose name is nearest to a text.
pub(super) fn nearest(text: &str, table: &Table) -> String {
    // Compare with whole keys and with their last part: `batch` is near `training.batch`.
    let distance = |name: &String| {
        let last = name.rsplit('.').next().unwrap_or(name);
        let whole = strsim::damerau_levenshtein(text, name);
        whole.min(strsim::damerau_levenshtein(text, last) + usize::from(!text.contains('.')))
    };
    let names = key_names(table).into_iter();
    names.min_by_key(distance).unwrap_or_default()
}

/// Names of all keys, and of the tables that contain them.
fn key_names(table: &Table) -> Vec<String> {
    let mut values = Vec::new();
    flatten(table, "", &mut values);
    let mut names: Vec<String> = values.into_iter().map(|(name, _)| name).collect();
    let tables: std::collections::BTreeSet<String> = names
        .iter()
        .filter_map(|name| Some(name.rsplit_once('.')?.0.to_owned()))
        .collect();
    names.extend(tables);
    names
}
