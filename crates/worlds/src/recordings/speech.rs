//! Speech as raw sound: 16,000 samples per second in frames of 200, as VRNN, SRNN and AVF model it.
//!
//! Recordings of any rate, number of channels and encoding (see [`Sound`](crate::Sound)) become one channel of
//! 16-bit samples at 16 kHz; [`Corpus::notes`] lists the conversions. For a model, the mean of all training samples
//! is subtracted, and the result is divided by their standard deviation ([`Corpus::scale`]).
//! Training clips are windows of 40 frames (half a second) that begin at any sample; test recordings
//! are used whole, without an incomplete last frame.
//!
//! Sources: Marino, Cvitkovic and Yue 2018, appendix B.1; Fraccaro et al. 2016 and its code.

mod reader;
mod spoken_digits;
mod timit;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use self::reader::Reader;
pub use self::timit::SaSentences;
use crate::error::unusable;
use crate::files::{Files, is_named};
use crate::folder;
use crate::images::{DATA_VARIABLE, check_folder};
use crate::recordings::corpus::{Corpus, Part, Parts};
use crate::recordings::parts::{hold_out, parts};
use crate::{Error, FrameShape, Limits, Origin};

/// Extensions of recordings.
const EXTENSIONS: [&str; 3] = ["wav", "sph", "nist"];

/// Fraction of the training recordings kept for validation if a set has no validation part.
const VALID_SHARE: f64 = 0.05;

/// A set of recordings with its own rule for the test part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpeechSet {
    /// Utterances of LibriSpeech; folders `train`, `valid`, `test` or a table `index.csv`.
    LibriSpeech,
    /// The Free Spoken Digit Dataset: `recordings/{digit}_{speaker}_{index}.wav`; indices 0 to 4
    /// are for the test.
    SpokenDigits,
    /// TIMIT in its original layout.
    Timit,
}

impl SpeechSet {
    /// All sets.
    pub const ALL: [SpeechSet; 3] = [
        SpeechSet::LibriSpeech,
        SpeechSet::SpokenDigits,
        SpeechSet::Timit,
    ];

    /// Name in experiments.
    pub fn name(self) -> &'static str {
        match self {
            SpeechSet::LibriSpeech => "librispeech",
            SpeechSet::SpokenDigits => "spoken-digits",
            SpeechSet::Timit => "timit",
        }
    }

    /// Accepted names of the set's folder.
    fn folders(self) -> &'static [&'static str] {
        match self {
            SpeechSet::LibriSpeech => &["librispeech_subset", "librispeech", "LibriSpeech"],
            SpeechSet::SpokenDigits => &["fsdd", "free-spoken-digit-dataset"],
            SpeechSet::Timit => &["timit", "TIMIT"],
        }
    }
}

/// Reads speech.
#[derive(Clone, Copy, Debug)]
pub enum Speech {}

impl Speech {
    /// Samples per second.
    pub const RATE: u32 = 16_000;
    /// Samples per frame, which is a step of a model.
    pub const FRAME_SAMPLES: usize = 200;
    /// Frames per training clip: half a second.
    pub const CLIP: usize = 40;
    /// One step.
    pub const FRAME: FrameShape = FrameShape {
        channels: 1,
        height: 1,
        width: Speech::FRAME_SAMPLES,
    };

    /// Thirteen utterances of LibriSpeech inside the program: 8 to train on, 2 for validation and 3
    /// for the test, each part with its own speakers.
    ///
    /// # Errors
    /// Only if the program was built from damaged files.
    pub fn bundled() -> Result<Corpus, Error> {
        let mut reader = Reader::new(Limits::default());
        let mut parts = Parts::default();
        for &(name, bytes) in BUNDLED {
            let part = name.split_once('/').and_then(|(part, _)| Part::named(part));
            let part = part.expect("every bundled file lies in the folder of its part");
            let recording = reader.decode(bytes, Path::new(name), name.to_owned())?;
            parts.get_mut(part).push(recording);
        }
        let name = SpeechSet::LibriSpeech.name();
        Ok(reader.corpus(name, parts, Origin::BundledSubset))
    }

    /// A set in `directory`, in its subfolder named after the set, or in such a folder within `speech`.
    ///
    /// # Errors
    /// The set is missing or not laid out as expected, or as [`Speech::open`].
    pub fn open_set(set: SpeechSet, directory: &Path, limits: Limits) -> Result<Corpus, Error> {
        check_folder(directory, || format!("recordings of {}", set.name()))?;
        let named = set.folders().iter();
        let within =
            named.flat_map(|name| [directory.join(name), directory.join("speech").join(name)]);
        let mut candidates = within.chain([directory.to_owned()]);
        let chosen = candidates.find(|folder| folder.is_dir());
        let folder = chosen.as_deref().unwrap_or(directory);
        match set {
            SpeechSet::LibriSpeech => Speech::open_named(folder, set.name(), limits),
            SpeechSet::SpokenDigits => Speech::open_files(set.name(), limits, |files| {
                spoken_digits::files(folder, files)
            }),
            SpeechSet::Timit => Speech::timit(folder, SaSentences::Keep, limits),
        }
    }

    /// The set in the folder `data` if given; otherwise the one in the folder that the environment variable
    /// `MNEMORA_DATA` names; otherwise, for LibriSpeech, the bundled utterances.
    ///
    /// # Errors
    /// As [`Speech::open_set`], or a set that is not bundled is not found.
    pub fn find(set: SpeechSet, data: Option<&Path>, limits: Limits) -> Result<Corpus, Error> {
        Speech::find_with(set, data, env::var_os(DATA_VARIABLE), limits)
    }

    fn find_with(
        set: SpeechSet,
        data: Option<&Path>,
        variable: Option<OsString>,
        limits: Limits,
    ) -> Result<Corpus, Error> {
        match (data, variable.filter(|value| !value.is_empty())) {
            (Some(directory), _) => Speech::open_set(set, directory, limits),
            (None, Some(directory)) => {
                let read = Speech::open_set(set, Path::new(&directory), limits);
                read.map_err(|cause| Error::FromEnvironment {
                    variable: DATA_VARIABLE,
                    cause: Box::new(cause),
                })
            }
            (None, None) if set == SpeechSet::LibriSpeech => Speech::bundled(),
            (None, None) => Err(Error::NotBundled {
                data: set.name(),
                wanted: set.folders()[0],
            }),
        }
    }

    /// A user's own recordings: one WAV or NIST SPHERE file (for the test), or a folder with
    /// such files, also in subfolders.
    ///
    /// Folders `train`, `valid` and `test`, or a table `index.csv` with columns `file` and `split`,
    /// divide them; otherwise a tenth is for validation and a tenth for the test.
    ///
    /// # Errors
    /// A file is missing, unreadable, damaged, or shorter than a frame, or the files exceed the limits.
    pub fn open(path: &Path, limits: Limits) -> Result<Corpus, Error> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Speech::open_named(path, &name, limits)
    }

    fn open_named(path: &Path, name: &str, limits: Limits) -> Result<Corpus, Error> {
        let mut reader = Reader::new(limits);
        let origin = Origin::Folder(path.to_owned());
        if is_named(path) {
            let parts = Parts {
                test: vec![reader.read(path, path.display().to_string())?],
                ..Parts::default()
            };
            return Ok(reader.corpus(name, parts, origin));
        }
        check_folder(path, || "recordings (.wav, .sph)".to_owned())?;
        let files = reader.files.list(path, &EXTENSIONS)?;
        if files.is_empty() {
            let others = ["flac", "mp3", "ogg", "m4a", "aif", "aiff"];
            let others = reader.files.list(path, &others)?;
            return Err(match others.first() {
                Some(other) => unusable(other, "not read; convert the recordings to WAV"),
                None => unusable(path, "holds no recordings (.wav, .sph)"),
            });
        }
        let named = files
            .into_iter()
            .map(|file| (folder::within(path, &file), file));
        let parts = parts(path, named.collect(), &reader.files)?;
        let parts = reader.read_all(path, parts)?;
        Ok(reader.corpus(name, parts, origin))
    }

    /// TIMIT in its original layout: `TRAIN` and `TEST` hold `DR1` to `DR8`, which hold a folder for every
    /// speaker with `*.WAV` files in NIST SPHERE (or RIFF) format. Names may have any case, and the folders may be
    /// in `directory` or in a folder `TIMIT` or `data` within.
    ///
    /// The 1,680 files of `TEST` are for the test. One twentieth of the 4,620 files of `TRAIN`, 231,
    /// is for validation: chosen at random, but the same in every run.
    ///
    /// # Errors
    /// The folders are missing, or as [`Speech::open`].
    pub fn timit(
        directory: &Path,
        sa_sentences: SaSentences,
        limits: Limits,
    ) -> Result<Corpus, Error> {
        Speech::open_files(SpeechSet::Timit.name(), limits, |files| {
            timit::files(directory, sa_sentences, files)
        })
    }

    /// Recordings of each part, in the folder that `find` returns.
    fn open_files(
        name: &str,
        limits: Limits,
        find: impl FnOnce(&Files) -> Result<(PathBuf, Parts<Vec<PathBuf>>), Error>,
    ) -> Result<Corpus, Error> {
        let mut reader = Reader::new(limits);
        let (folder, found) = find(&reader.files)?;
        let parts = reader.read_all(&folder, found)?;
        Ok(reader.corpus(name, parts, Origin::Folder(folder)))
    }
}

/// Splits off a fraction of the recordings for validation.
fn keep_for_validation<T>(train: Vec<T>) -> (Vec<T>, Vec<T>) {
    let count = (train.len() as f64 * VALID_SHARE).round() as usize;
    hold_out(train, count)
}

macro_rules! bundled {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../data/speech/", $name)))),*]
    };
}

const BUNDLED: &[(&str, &[u8])] = bundled![
    "train/19-198-0000.wav",
    "train/328-129766-0000.wav",
    "train/403-126855-0000.wav",
    "train/1447-130550-0000.wav",
    "train/5339-14133-0000.wav",
    "train/5561-39621-0000.wav",
    "train/7190-90542-0000.wav",
    "train/8226-274369-0000.wav",
    "valid/367-130732-0006.wav",
    "valid/533-1066-0000.wav",
    "test/2414-128291-0009.wav",
    "test/3005-163389-0007.wav",
    "test/3331-159605-0004.wav",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::spoken_digits::recording_index;
    use super::*;
    use crate::{Draw, Sound, Stream, Values};

    fn counts(corpus: &Corpus) -> [usize; 3] {
        Part::ALL.map(|part| corpus.recordings(part).len())
    }

    fn shared(set: &str) -> Option<PathBuf> {
        let path = Path::new("../../../shared/data/speech").join(set);
        if !path.is_dir() {
            println!("skipped: no {}", path.display());
        }
        Some(path).filter(|path| path.is_dir())
    }

    fn hum(samples: usize) -> Vec<i16> {
        (0..samples)
            .map(|place| (place % 50) as i16 * 100)
            .collect()
    }

    #[test]
    fn utterances_are_bundled_and_normalised() {
        let speech = Speech::bundled().expect("the bundled utterances are sound");
        assert_eq!(counts(&speech), [8, 2, 3]);
        assert_eq!(speech.notes(), [""; 0]);
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        for utterance in speech.recordings(Part::Train) {
            let Values::Samples(samples) = &utterance.values else {
                panic!("no samples");
            };
            for &sample in samples {
                let value = f64::from(speech.scale().apply(sample));
                sum += value;
                squares += value * value;
                count += 1.0;
            }
        }
        assert!((sum / count).abs() < 1e-4, "{}", sum / count);
        assert!((squares / count - 1.0).abs() < 1e-4, "{}", squares / count);

        let batch = speech
            .window_batch(
                Part::Train,
                &Stream::new(1, "data"),
                0,
                16,
                Speech::CLIP,
                Draw::EachRecording,
            )
            .unwrap();
        assert_eq!(batch.values.len(), 16 * 40 * 200);
        assert!(batch.windows.iter().any(|window| window.start % 200 != 0));
        assert_eq!(
            speech.fingerprint(),
            "f57a8bd495e3095fea14be484fe202f0f8e4f1e3f8f7502e351b2708d1348be8"
        );
    }

    #[test]
    fn the_free_sets_are_read() {
        if shared("librispeech_subset").is_some() {
            let data = Path::new("../../../shared/data");
            let speech =
                Speech::find(SpeechSet::LibriSpeech, Some(data), Limits::default()).unwrap();
            assert_eq!(counts(&speech), [114, 50, 50]);
            let bundled = Speech::bundled().unwrap();
            for part in Part::ALL {
                for utterance in bundled.recordings(part) {
                    assert!(
                        speech.recordings(part).contains(utterance),
                        "{}",
                        utterance.name
                    );
                }
            }
        }
        if let Some(folder) = shared("fsdd") {
            let digits =
                Speech::open_set(SpeechSet::SpokenDigits, &folder, Limits::default()).unwrap();
            assert_eq!(counts(&digits), [2565, 135, 300]);
            let resampled =
                "3000 recordings resampled from 8000 to 16000 Hz (first 0_george_5.wav)";
            assert!(
                digits.notes().contains(&resampled.to_owned()),
                "{:?}",
                digits.notes()
            );
            let tested = digits.recordings(Part::Test);
            assert!(
                tested
                    .iter()
                    .all(|digit| recording_index(&digit.name) < Some(5))
            );
        }
    }

    #[test]
    fn conversions_are_noted() {
        let folder = tempfile::tempdir().unwrap();
        for (name, rate) in [("a.wav", 16_000), ("b.wav", 8_000), ("c.wav", 8_000)] {
            fs::write(folder.path().join(name), Sound::wav_bytes(rate, &hum(2000))).unwrap();
        }
        fs::write(folder.path().join("read me.txt"), "no recording").unwrap();
        let speech = Speech::open(folder.path(), Limits::default()).unwrap();
        assert_eq!(counts(&speech), [1, 1, 1]);
        let [note] = speech.notes() else {
            panic!("{:?}", speech.notes());
        };
        assert!(
            note.starts_with("2 recordings resampled from 8000 to 16000 Hz (first "),
            "{note}"
        );
        let single = Speech::open(&folder.path().join("b.wav"), Limits::default()).unwrap();
        assert_eq!(single.total_steps(Part::Test), 20);
        assert_eq!(single.notes().len(), 1);
    }

    #[test]
    fn bad_recordings_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| {
            Speech::open(path, Limits::default())
                .unwrap_err()
                .to_string()
        };
        assert!(refused(folder.path()).ends_with("holds no recordings (.wav, .sph)"));
        let flac = folder.path().join("x.FLAC");
        fs::write(&flac, b"fLaC").unwrap();
        assert!(
            refused(folder.path()).ends_with("x.FLAC: not read; convert the recordings to WAV")
        );
        fs::remove_file(flac).unwrap();
        let path = folder.path().join("short.wav");
        fs::write(&path, Sound::wav_bytes(16_000, &hum(199))).unwrap();
        assert!(
            refused(folder.path())
                .ends_with("short.wav: 199 samples at 16000 Hz, but one frame takes 200")
        );
        fs::write(&path, b"RIFF").unwrap();
        assert!(refused(folder.path()).contains("short.wav: truncated WAV file"));
        assert!(refused(&folder.path().join("none")).contains("does not exist"));
        let digits = Speech::open_set(SpeechSet::SpokenDigits, folder.path(), Limits::default())
            .unwrap_err();
        assert!(digits.to_string().contains("must be named"), "{digits}");
        let error = Speech::find_with(SpeechSet::Timit, None, None, Limits::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("timit does not come with the program"),
            "{error}"
        );
    }
}
