//! The copy of a small data file that a run keeps, so that the run can be used when the file has moved or changed.

use crate::{Experiment, LabError};
use mnemora_training::{
    disk,
    run::{Run, write_atomically},
};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// The folder of a run that holds the copy.
const FOLDER: &str = "data";
/// Bytes of the largest file that is copied.
const LARGEST: u64 = 64 << 20;

/// Copies a file of data into a run. A larger one stays where it is.
pub fn keep(run: &Run, file: &Path) -> Result<(), LabError> {
    let size = fs::metadata(file).map_err(|error| LabError::read(file, error))?;
    let (true, Some(name)) = (size.len() <= LARGEST, file.file_name()) else {
        return Ok(());
    };
    let bytes = disk::read(file).map_err(|error| LabError::read(file, error))?;
    run.check()?;
    keep_as(run.directory(), name, &bytes)
}

/// Writes the copy of a file of data.
pub fn keep_as(run: &Path, name: &OsStr, bytes: &[u8]) -> Result<(), LabError> {
    let folder = run.join(FOLDER);
    fs::create_dir_all(&folder).map_err(|error| LabError::write(&folder, error))?;
    Ok(write_atomically(&folder.join(name), bytes)?)
}

/// The copy that a run keeps; `None` if it keeps none.
pub fn kept(run: &Path, experiment: &Experiment) -> Option<PathBuf> {
    let name = Path::new(&experiment.data.directory).file_name()?;
    let copy = run.join(FOLDER).join(name);
    copy.is_file().then_some(copy)
}
