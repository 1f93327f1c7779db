//! What the keys of an experiment mean: the doc comments of the settings, as their schema has them.

use super::{
    Experiment, TaskName,
    family::families,
    keys::{flatten, nearest},
};
use crate::LabError;
use serde_json::Value;
use std::sync::LazyLock;

/// A key of an experiment's TOML.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its name, with those of the tables that it is in.
    pub name: String,
    /// Its value.
    pub value: toml::Value,
    /// What it means; empty for a key of a family that says nothing.
    pub about: String,
    /// The names that it may have, with what each means; none if it is no choice by name.
    pub choices: Vec<Choice>,
}

/// A name that a key may have.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The name.
    pub name: String,
    /// What it means; may be empty.
    pub about: String,
}

/// A place in a schema.
#[derive(Clone, Copy)]
struct Place<'a> {
    schema: &'a Value,
    at: &'a Value,
}

impl<'a> Place<'a> {
    /// The definition that a place refers to, or the place itself.
    fn resolved(self) -> Self {
        let named = self.at.get("$ref").and_then(Value::as_str);
        let found = named.and_then(|name| self.schema.pointer(name.strip_prefix('#')?));
        Self {
            at: found.unwrap_or(self.at),
            ..self
        }
    }

    fn property(self, name: &str) -> Option<Self> {
        let at = self.resolved().at.get("properties")?.get(name)?;
        Some(Self { at, ..self })
    }

    /// Its doc comment, on one line.
    fn about(self) -> String {
        let text = self.at.get("description").and_then(Value::as_str);
        let words = text.unwrap_or_default().split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    }

    fn choices(self) -> Vec<Choice> {
        let at = self.resolved().at;
        let named = |value: &Value, about: String| {
            let name = value.as_str()?.to_owned();
            Some(Choice { name, about })
        };
        let plain = at.get("enum").and_then(Value::as_array);
        let plain = plain.into_iter().flatten();
        let told = at.get("oneOf").and_then(Value::as_array);
        let told = told.into_iter().flatten().flat_map(|one| {
            let about = Place { at: one, ..self }.about();
            match (one.get("const"), one.get("enum").and_then(Value::as_array)) {
                (Some(name), _) => named(name, about).into_iter().collect(),
                (None, Some(names)) => names
                    .iter()
                    .filter_map(|name| named(name, about.clone()))
                    .collect::<Vec<_>>(),
                (None, None) => Vec::new(),
            }
        });
        plain
            .filter_map(|name| named(name, String::new()))
            .chain(told)
            .collect()
    }
}

/// What a key means, and the names that it may have.
#[derive(Default)]
struct Meaning {
    about: String,
    choices: Vec<Choice>,
}

/// The meaning of a key, if the schema of the settings has it.
fn meaning(key: &str) -> Option<Meaning> {
    static SHARED: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Experiment).to_value());
    let of = |schema: &Value, path: &str| {
        let mut place = Place { schema, at: schema };
        for part in path.split('.') {
            place = place.property(part)?;
        }
        Some(Meaning {
            about: place.about(),
            choices: place.choices(),
        })
    };
    of(&SHARED, key).or_else(|| {
        let (table, rest) = key.split_once('.')?;
        families().into_iter().find_map(|family| {
            let (own, _) = family.own_settings()?;
            of(&family.own_schema().filter(|_| own == table)?, rest)
        })
    })
}

/// The names that a key may have, with their meanings; none if it is no choice by name.
pub(crate) fn choices(key: &str) -> Vec<Choice> {
    if key == "task.name" {
        let tasks = families().into_iter().flat_map(|family| family.tasks());
        let about = |name: &str| {
            let mut tasks = tasks.clone();
            tasks.find(|task| task.name == name)
        };
        return TaskName::all()
            .into_iter()
            .map(|name| Choice {
                name: name.as_str().to_owned(),
                about: about(name.as_str()).map_or_else(String::new, |task| task.about.to_owned()),
            })
            .collect();
    }
    meaning(key).unwrap_or_default().choices
}

/// The keys that begin with `prefix`, a key or a table: those that an experiment reads, or all with their defaults.
///
/// # Errors
/// There is no such key; the text names the nearest one.
pub fn keys(prefix: &str, experiment: Option<&Experiment>) -> Result<Vec<Key>, LabError> {
    let table = match experiment {
        Some(experiment) => experiment.resolved()?,
        None => Experiment::template()?,
    };
    let mut all = Vec::new();
    flatten(&table, "", &mut all);
    let within = |name: &str| match name.strip_prefix(prefix) {
        Some(rest) => prefix.is_empty() || rest.is_empty() || rest.starts_with('.'),
        None => false,
    };
    let found: Vec<Key> = all
        .into_iter()
        .filter(|(name, _)| within(name))
        .map(|(name, value)| Key {
            about: meaning(&name).unwrap_or_default().about,
            choices: choices(&name),
            name,
            value,
        })
        .collect();
    if found.is_empty() {
        let which = match experiment {
            Some(experiment) => format!("{} has", experiment.name),
            None => "there is".to_owned(),
        };
        return Err(LabError::Configuration(format!(
            "{which} no key '{prefix}', did you mean '{}'?",
            nearest(prefix, &table)
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_explained_by_its_doc_comment() {
        let all = keys("", None).unwrap();
        let silent: Vec<&str> = all
            .iter()
            .filter(|key| key.about.is_empty())
            .map(|key| key.name.as_str())
            .collect();
        assert!(silent.is_empty(), "{silent:?}");
        assert!(all.len() > 300, "{}", all.len());
    }

    #[test]
    fn a_choice_has_its_names() {
        let found = keys("training.schedule", None).unwrap();
        assert_eq!(found.len(), 1);
        let names: Vec<&str> = found[0].choices.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["constant", "linear", "cosine", "exponential"]);
        assert!(found[0].choices[1].about.contains("Linear"));
        assert!(choices("training.batch").is_empty());
    }

    #[test]
    fn a_wrong_prefix_is_told_the_nearest_key() {
        let error = keys("trainig.batch", None).unwrap_err().to_string();
        assert!(error.contains("did you mean 'training.batch'"), "{error}");
        // Not a part of a name.
        assert!(keys("train", None).is_err());
    }
}
