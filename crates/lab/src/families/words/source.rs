//! The text of an experiment, and the check that it is that of the run.

use crate::{Experiment, LabError};
use mnemora_worlds::{DATA_VARIABLE, Error, Origin, Part, Text, TextSet, TextSettings};
use std::path::{Path, PathBuf};

/// Finds the text of an experiment and records its identity.
///
/// # Errors
/// If it cannot be read, or if text or vocabulary are not those recorded in the experiment.
pub(crate) fn find(experiment: &mut Experiment, data: Option<&Path>) -> Result<Text, LabError> {
    let configured = experiment.data.directory.clone();
    let path = data.or((!configured.is_empty()).then(|| Path::new(&configured)));
    let limits = experiment.data.limits();
    let language = &experiment.language;
    let task = experiment.task.name.as_str();
    let some = |size: usize| (size > 0).then_some(size);
    let settings = TextSettings {
        least_count: language.least_count,
        largest: some(language.vocabulary),
        placeholders: some(language.placeholders).filter(|_| task == "wikitext-103"),
        vocabulary: None,
    };
    let text = match task {
        "books" => Text::find(TextSet::Books, path, &settings, limits)?,
        "wikitext-2" => Text::find(TextSet::WikiText2, path, &settings, limits)?,
        "wikitext-103" => match Text::find(TextSet::WikiText103, path, &settings, limits) {
            Err(Error::NotBundled { .. }) if settings.placeholders.is_some() => {
                Text::missing(TextSet::WikiText103, &settings)?
            }
            found => found?,
        },
        _ => {
            let variable = std::env::var_os(DATA_VARIABLE).map(PathBuf::from);
            let path = path.or(variable.as_deref()).ok_or_else(|| {
                LabError::Configuration(format!(
                    "the task {} has no data of its own: name a file or folder with --data or {DATA_VARIABLE}",
                    task
                ))
            })?;
            Text::open(path, language.words, &settings, limits)?
        }
    };
    let text = match settings.placeholders {
        Some(_) => text.with_placeholder_words(),
        None => text,
    };
    check(experiment, &text, path)?;
    experiment.language.fingerprint = text.vocabulary().fingerprint();
    experiment.data.fingerprint = text.fingerprint();
    if let Some(folder) = folder(&text, path) {
        experiment.data.directory = folder.display().to_string();
    }
    Ok(text)
}

/// Returns an error if vocabulary or text are not those recorded in the experiment.
fn check(experiment: &Experiment, text: &Text, path: Option<&Path>) -> Result<(), LabError> {
    let variable = match std::env::var_os(DATA_VARIABLE) {
        Some(_) if path.is_none() => format!(" through {DATA_VARIABLE}"),
        _ => String::new(),
    };
    let other = |expected: &str, found: String| !expected.is_empty() && expected != found;
    let vocabulary = text.vocabulary();
    if other(&experiment.language.fingerprint, vocabulary.fingerprint()) {
        return Err(LabError::Configuration(format!(
            "the vocabulary of the text found{variable} ({}; {} words) does not fit the model, which was \
             trained with another; name the text of the run with --data",
            words(text),
            vocabulary.len(),
        )));
    }
    if other(&experiment.data.fingerprint, text.fingerprint()) {
        return Err(LabError::Configuration(format!(
            "the text found{variable} ({}) is not the one the run was made with; name the right one with --data",
            words(text)
        )));
    }
    Ok(())
}

/// Where the text was found, for a run that is resumed elsewhere: the path the user named, if it is one.
fn folder(text: &Text, named: Option<&Path>) -> Option<PathBuf> {
    let Origin::Folder(found) = text.origin() else {
        return None;
    };
    let variable = std::env::var_os(DATA_VARIABLE).map(PathBuf::from);
    let place = named.map(Path::to_owned).or(variable);
    let place = place.unwrap_or_else(|| found.clone());
    Some(place.canonicalize().unwrap_or(place))
}

/// A description of the text that says which parts are placeholders.
pub(crate) fn words(text: &Text) -> String {
    let parts = text.placeholder_parts();
    let origin = match parts.len() == Part::ALL.len() {
        true => "not available".to_owned(),
        false => text.origin().to_string(),
    };
    match parts {
        [] => format!("{}: {origin}", text.name()),
        parts => format!(
            "{}: {origin}; PLACEHOLDER words, drawn at random, stand for the part {}",
            text.name(),
            names(parts)
        ),
    }
}

/// Parts by name.
pub(super) fn names(parts: &[Part]) -> String {
    let names: Vec<String> = parts.iter().map(Part::to_string).collect();
    names.join(", ")
}
