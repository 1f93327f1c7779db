//! The Free Spoken Digit Dataset: finding the files, and the part to which each belongs.

use std::path::{Path, PathBuf};

use super::keep_for_validation;
use crate::Error;
use crate::error::unusable;
use crate::files::Files;
use crate::folder;
use crate::recordings::corpus::Parts;

/// The folder with the recordings, and those of each part. By the data set's own rule, indices 0 to 4 of every
/// digit and speaker are for the test; one in twenty of the others is for validation.
pub(super) fn files(
    directory: &Path,
    files: &Files,
) -> Result<(PathBuf, Parts<Vec<PathBuf>>), Error> {
    let within = directory.join("recordings");
    let folder = if within.is_dir() { &within } else { directory };
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for file in files.list(folder, &["wav"])? {
        let name = folder::within(folder, &file);
        let Some(index) = recording_index(&name) else {
            return Err(unusable(
                &file,
                "a spoken digit must be named {digit}_{speaker}_{index}.wav",
            ));
        };
        if index < 5 { &mut test } else { &mut train }.push(file);
    }
    if train.is_empty() || test.is_empty() {
        return Err(unusable(
            folder,
            "holds no spoken digits {digit}_{speaker}_{index}.wav with index 0 to 4 (test) and from 5 on",
        ));
    }
    let (train, valid) = keep_for_validation(train);
    Ok((folder.to_owned(), Parts { train, valid, test }))
}

/// The index in `{digit}_{speaker}_{index}.wav`.
pub(super) fn recording_index(name: &str) -> Option<u32> {
    let (stem, _) = name.rsplit_once('.')?;
    let (digit, rest) = stem.split_once('_')?;
    let (speaker, index) = rest.rsplit_once('_')?;
    let digit = digit.len() == 1 && digit.starts_with(|digit: char| digit.is_ascii_digit());
    (digit && !speaker.is_empty())
        .then(|| index.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_digit_speaker_and_index() {
        assert_eq!(recording_index("7_jackson_32.wav"), Some(32));
        assert_eq!(recording_index("7_two_names_3.wav"), Some(3));
        for wrong in [
            "7_jackson.wav",
            "10_jackson_3.wav",
            "x_jackson_3.wav",
            "7__3.wav",
            "7_jackson_x.wav",
        ] {
            assert_eq!(recording_index(wrong), None, "{wrong}");
        }
    }
}
