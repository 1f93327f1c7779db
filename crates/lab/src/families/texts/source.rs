//! The text of an experiment, and the check that it is that of the run.

use crate::{
    Experiment, LabError,
    experiment::data::{named_for, required, through_variable},
};
use mnemora_worlds::{Error, Part, Text, TextSet, TextSettings};
use std::path::Path;

/// Finds the text of an experiment and records its identity.
///
/// # Errors
/// If it cannot be read, or if text or vocabulary are not those recorded in the experiment.
pub(crate) fn find(experiment: &mut Experiment, data: Option<&Path>) -> Result<Text, LabError> {
    let path = experiment.data.path(data);
    let path = path.as_deref();
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
            let path = required(path, experiment.task.name)?;
            Text::open(&path, language.words, &settings, limits)?
        }
    };
    let text = match settings.placeholders {
        Some(_) => text.with_placeholder_words(),
        None => text,
    };
    check(experiment, &text, path)?;
    experiment.language.fingerprint = text.vocabulary().fingerprint();
    let place = named_for(text.origin(), path);
    experiment.data.record(place, text.fingerprint());
    Ok(text)
}

/// Returns an error if vocabulary or text are not those recorded in the experiment.
fn check(experiment: &Experiment, text: &Text, path: Option<&Path>) -> Result<(), LabError> {
    let expected = &experiment.language.fingerprint;
    let vocabulary = text.vocabulary();
    if !expected.is_empty() && *expected != vocabulary.fingerprint() {
        return Err(LabError::Configuration(format!(
            "the vocabulary of the text found{} ({}; {} words) does not fit the model, which was trained with \
             another; name the text of the run with --data",
            through_variable(path),
            words(text),
            vocabulary.len(),
        )));
    }
    let fingerprint = text.fingerprint();
    experiment.data.check(&fingerprint, words(text), path)
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
