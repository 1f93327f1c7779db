//! Where an experiment's data are, and whether they are those of its run.

use super::{DataSettings, TaskName};
use crate::LabError;
use mnemora_worlds::{DATA_VARIABLE, Origin};
use std::path::{Path, PathBuf};

impl DataSettings {
    /// The path of the data: the one that the user names, otherwise the recorded one; `None` if there is neither.
    pub(crate) fn path(&self, named: Option<&Path>) -> Option<PathBuf> {
        let configured = (!self.directory.is_empty()).then(|| Path::new(&self.directory));
        named.or(configured).map(Path::to_owned)
    }

    /// Checks that the data found at `path` are those of the run, if it has any yet. `words` describe what was found.
    ///
    /// # Errors
    /// If their fingerprint is another.
    pub(crate) fn check(
        &self,
        fingerprint: &str,
        words: impl std::fmt::Display,
        path: Option<&Path>,
    ) -> Result<(), LabError> {
        if self.fingerprint.is_empty() || self.fingerprint == fingerprint {
            return Ok(());
        }
        let through = through_variable(path);
        let unset = match through.is_empty() {
            true => String::new(),
            false => format!(", or unset {DATA_VARIABLE}"),
        };
        Err(LabError::Configuration(format!(
            "the data found{through} ({words}) are not the ones the run was made with; name the right ones with \
             --data{unset}"
        )))
    }

    /// Records which data they are, and where they were found, if that is a path.
    pub(crate) fn record(&mut self, place: Option<PathBuf>, fingerprint: String) {
        if let Some(place) = place {
            let place = place.canonicalize().unwrap_or(place);
            self.directory = place.display().to_string();
        }
        self.fingerprint = fingerprint;
    }
}

/// The path of data that do not come with the program: `path`, or the one that the environment names.
///
/// # Errors
/// If there is neither.
pub(crate) fn required(path: Option<&Path>, task: TaskName) -> Result<PathBuf, LabError> {
    path.map(Path::to_owned).or_else(variable).ok_or_else(|| {
        LabError::Configuration(format!(
            "the task {} has no data of its own: name a file or folder with --data or {DATA_VARIABLE}",
            task.as_str()
        ))
    })
}

/// The path in which the data were found; `None` for data inside the program.
pub(crate) fn found_in(origin: &Origin) -> Option<PathBuf> {
    match origin {
        Origin::Folder(found) => Some(found.clone()),
        Origin::Bundled | Origin::BundledSubset => None,
    }
}

/// As [`found_in`], but the path that the user or the environment named, which may be an outer folder.
pub(crate) fn named_for(origin: &Origin, path: Option<&Path>) -> Option<PathBuf> {
    let found = found_in(origin)?;
    Some(path.map(Path::to_owned).or_else(variable).unwrap_or(found))
}

/// Says that data come from the environment, if no path names them.
pub(crate) fn through_variable(path: Option<&Path>) -> String {
    match std::env::var_os(DATA_VARIABLE) {
        Some(_) if path.is_none() => format!(" through {DATA_VARIABLE}"),
        _ => String::new(),
    }
}

/// The path that the environment names.
fn variable() -> Option<PathBuf> {
    std::env::var_os(DATA_VARIABLE).map(PathBuf::from)
}
