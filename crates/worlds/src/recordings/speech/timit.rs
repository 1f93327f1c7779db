//! TIMIT in the layout of the disc: finding the files, and the part to which each belongs.

use std::path::{Path, PathBuf};

use super::keep_for_validation;
use crate::Error;
use crate::error::unusable;
use crate::files::Files;
use crate::folder;
use crate::images::check_folder;
use crate::recordings::corpus::Parts;

/// What to do with the two sentences `sa1` and `sa2`, which every speaker of TIMIT reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SaSentences {
    /// Keep them, as SRNN and AVF do: 4,620 and 1,680 sentences.
    #[default]
    Keep,
    /// Leave them out, since they are in both parts: 3,696 and 1,344 sentences.
    LeaveOut,
}

/// The folder with `TRAIN` and `TEST`, and the recordings of each part.
pub(super) fn files(
    directory: &Path,
    sa_sentences: SaSentences,
    files: &Files,
) -> Result<(PathBuf, Parts<Vec<PathBuf>>), Error> {
    const LAYOUT: &str =
        "TRAIN and TEST with DR1 to DR8, which hold speakers with *.WAV, as on the disc";
    check_folder(directory, || LAYOUT.to_owned())?;
    let mut folder = directory.to_owned();
    // The disc has them in TIMIT, later releases in data.
    while part(&folder, "train")?.is_none() {
        let inner = match part(&folder, "timit")? {
            None => part(&folder, "data")?,
            timit => timit,
        };
        folder = inner.ok_or_else(|| {
            unusable(
                directory,
                format!("not laid out as TIMIT is; it should hold {LAYOUT}"),
            )
        })?;
    }
    let recordings = |name: &str| -> Result<Vec<PathBuf>, Error> {
        let missing = || unusable(&folder, format!("holds no {name}; it should hold {LAYOUT}"));
        let part = part(&folder, name)?.ok_or_else(missing)?;
        let mut found = files.list(&part, &["wav"])?;
        // Some copies have a converted `SA1.WAV.wav` next to each `SA1.WAV`.
        let converted = |path: &Path| {
            let stem = Path::new(path.file_stem().unwrap_or_default());
            folder::has_extension(stem, &["wav"])
        };
        if !found.iter().all(|path| converted(path)) {
            found.retain(|path| !converted(path));
        }
        for path in &found {
            check_place(&part, path, LAYOUT)?;
        }
        if sa_sentences == SaSentences::LeaveOut {
            found.retain(|path| !sentence(path).starts_with("sa"));
        }
        if found.is_empty() {
            return Err(unusable(
                &part,
                format!("holds no recordings; it should hold {LAYOUT}"),
            ));
        }
        Ok(found)
    };
    let (train, valid) = keep_for_validation(recordings("train")?);
    let test = recordings("test")?;
    Ok((folder, Parts { train, valid, test }))
}

/// Lower-case name of a file.
fn sentence(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().to_lowercase()
}

/// A folder of this name in any case.
fn part(folder: &Path, name: &str) -> Result<Option<PathBuf>, Error> {
    let mut entries = folder::entries(folder)?.into_iter();
    Ok(entries.find(|path| path.is_dir() && sentence(path) == name))
}

/// Checks that a recording is in the folder of a speaker within that of a dialect region.
fn check_place(part: &Path, path: &Path, layout: &str) -> Result<(), Error> {
    let place = folder::within(part, path).to_lowercase();
    let names: Vec<&str> = place.split('/').collect();
    let region = |name: &str| name.len() == 3 && name.starts_with("dr");
    match names.as_slice() {
        [first, _, _] if region(first) => Ok(()),
        _ => Err(unusable(
            path,
            format!("not laid out as TIMIT is; there should be {layout}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::formats::audio::sphere_file;
    use crate::{Limits, Part, Speech, SpeechSet, Values};

    /// A small disc: speakers of 3 sentences, in the names and case of the original or in lower case.
    fn disc(folder: &Path, speakers: usize, lower: bool) {
        let case = |name: &str| {
            if lower {
                name.to_lowercase()
            } else {
                name.to_owned()
            }
        };
        for (part, speakers) in [("TRAIN", speakers), ("TEST", 2)] {
            for speaker in 0..speakers {
                let speaker_folder = folder
                    .join(case(part))
                    .join(case(&format!("DR{}", speaker % 8 + 1)))
                    .join(case(&format!("FABC{speaker}")));
                fs::create_dir_all(&speaker_folder).unwrap();
                for (sentence, length) in [("SA1", 450), ("SI648", 200), ("SX108", 10_000)] {
                    let samples: Vec<i16> = (0..length).map(|place| place as i16).collect();
                    let path = speaker_folder.join(case(&format!("{sentence}.WAV")));
                    fs::write(path, sphere_file(&samples)).unwrap();
                    fs::write(
                        speaker_folder.join(case(&format!("{sentence}.TXT"))),
                        "0 1 Text",
                    )
                    .unwrap();
                }
            }
        }
    }

    #[test]
    fn the_original_layout_is_read_in_any_case() {
        for (inner, lower) in [("", false), ("TIMIT", false), ("data", true)] {
            let folder = tempfile::tempdir().unwrap();
            disc(&folder.path().join(inner), 14, lower);
            let timit =
                Speech::open_set(SpeechSet::Timit, folder.path(), Limits::default()).unwrap();
            let counts = Part::ALL.map(|part| timit.recordings(part).len());
            assert_eq!(counts, [40, 2, 6]);
            let test = timit.recordings(Part::Test);
            let steps: Vec<usize> = test.iter().map(|sentence| timit.steps(sentence)).collect();
            assert_eq!(steps, [2, 1, 50, 2, 1, 50]);
            assert_eq!(test[0].name.to_lowercase(), "test/dr1/fabc0/sa1.wav");
            assert!(matches!(&test[1].values, Values::Samples(samples) if samples[199] == 199));

            let without =
                Speech::timit(folder.path(), SaSentences::LeaveOut, Limits::default()).unwrap();
            let counts = Part::ALL.map(|part| without.recordings(part).len());
            assert_eq!(counts, [27, 1, 4]);
        }
    }

    #[test]
    fn other_layouts_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = || {
            Speech::timit(folder.path(), SaSentences::Keep, Limits::default())
                .unwrap_err()
                .to_string()
        };
        assert!(refused().contains("not laid out as TIMIT is; it should hold TRAIN and TEST"));
        disc(folder.path(), 2, false);
        let misplaced = folder.path().join("TRAIN/DR1/SA1.WAV");
        fs::write(&misplaced, sphere_file(&[0; 400])).unwrap();
        assert!(
            refused().contains("TRAIN/DR1/SA1.WAV: not laid out"),
            "{}",
            refused()
        );
        fs::remove_file(misplaced).unwrap();
        let damaged = folder.path().join("TEST/DR2/FABC1/SA1.WAV");
        fs::write(&damaged, &sphere_file(&[0; 400])[..1000]).unwrap();
        assert!(refused().contains("TEST/DR2/FABC1/SA1.WAV: truncated SPHERE header"));
        fs::remove_dir_all(folder.path().join("TEST")).unwrap();
        assert!(refused().contains("holds no test; it should hold TRAIN and TEST"));
    }
}
