//! A user's own sequences: NumPy arrays, a CSV table, or folders of pictures.

mod arrays;
mod rows;

use std::path::Path;

use crate::error::unusable;
use crate::files::Files;
use crate::folder::has_extension;
use crate::formats::npy;
use crate::formats::picture::FrameSettings;
use crate::formats::table::Table;
use crate::recordings::corpus::{Corpus, Parts, Recording};
use crate::{Error, Limits, Origin, Video};

/// Reads a user's own sequences.
#[derive(Clone, Copy, Debug)]
pub enum Own {}

impl Own {
    /// Sequences of numbers, or of pictures, from `path`:
    ///
    /// - `.npz` or `.npy` with one array `[sequence, time, ...]`: sequences of equal length; or
    ///   `.npz` with several arrays `[time, ...]`, one per sequence. The dimensions after time are those of a
    ///   step: a number, a vector `[width]`, or a picture `[channels, height, width]`. If the arrays of an
    ///   archive are named `train`, `valid` and `test`, each is `[sequence, time, ...]` and holds that part.
    /// - `.csv` with a header: a column `sequence` (or `sequence_id`, `series`, `episode`, `id`) names the
    ///   sequence of each row; the rows of a sequence are in the order of time. Columns `time`, `t` and `step`
    ///   are checked for that order and left out; a column `split` gives the part; all others are numbers.
    /// - A folder of pictures for each sequence, or a video file: see [`Video::open`], with `frame`.
    ///
    /// A model sees numbers unchanged. Pictures in bytes, `[height, width]` or `[height, width, 1 or 3]`,
    /// are intensities, which are divided by 255. If the parts are not given,
    /// a tenth is for validation and a tenth for the test.
    ///
    /// # Errors
    /// The file cannot be read or is damaged, a number is not finite, steps differ in width, a
    /// sequence is empty, or the files exceed the limits.
    pub fn open(path: &Path, frame: FrameSettings, limits: Limits) -> Result<Corpus, Error> {
        let files = Files::new(limits);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if !path.exists() {
            return Err(unusable(
                path,
                "does not exist; sequences are read from .npz, .npy and .csv files, and from folders of pictures",
            ));
        }
        let (shape, parts) = if has_extension(path, &["npz", "npy"]) {
            let (arrays, room) = npy::open_arrays(path, &files)?;
            arrays::sequences(arrays, room).map_err(|problem| unusable(path, problem))?
        } else if has_extension(path, &["csv"]) {
            let table = Table::read(path, &files)?;
            rows::sequences(table).map_err(|problem| unusable(path, problem))?
        } else {
            return Video::open(path, frame, limits);
        };
        let origin = Origin::Folder(path.to_owned());
        Ok(Corpus::new(&*name, shape, parts, origin, Vec::new()))
    }
}

type Sequences = Parts<Vec<Recording>>;

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;
    use crate::Part;
    use crate::formats::picture::tests::{encode_png, uniform};

    fn written(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    pub(crate) fn open(name: &str, bytes: &[u8]) -> Result<Corpus, String> {
        let (_folder, path) = written(name, bytes);
        let opened = Own::open(&path, FrameSettings::default(), Limits::default());
        opened.map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains('\n'), "{text}");
            let (_, problem) = text
                .split_once(&format!("{name}: "))
                .expect("the file is named");
            problem.to_owned()
        })
    }

    pub(crate) fn counts(corpus: &Corpus) -> [usize; 3] {
        Part::ALL.map(|part| corpus.recordings(part).len())
    }

    #[test]
    fn folders_of_pictures_are_sequences() {
        let folder = tempfile::tempdir().unwrap();
        for sequence in ["1", "2"] {
            let inner = folder.path().join(sequence);
            fs::create_dir(&inner).unwrap();
            fs::write(inner.join("1.png"), encode_png(&uniform(8, 8, 9))).unwrap();
        }
        let open = |path: &Path| Own::open(path, FrameSettings::default(), Limits::default());
        let corpus = open(folder.path()).unwrap();
        assert_eq!(counts(&corpus), [1, 0, 1]);
        let error = open(&folder.path().join("none")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("does not exist; sequences are read from"),
            "{error}"
        );
    }
}
