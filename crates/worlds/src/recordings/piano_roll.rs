//! Piano-rolls: which of 88 notes sound at each step. The four standard sets of polyphonic
//! music, and a user's own MIDI files.
//!
//! The sets are those of Boulanger-Lewandowski, Bengio and Vincent 2012, with their splits. JSB Chorales
//! come with the program. The others are read from files with one of two layouts:
//!
//! - `.json` or `.json.gz`: `{"train": [song, ...], "valid": ..., "test": ...}`, where a song is a list of
//!   steps, and a step is a list of the MIDI notes that sound;
//! - the original `.mat` (MATLAB 5): `traindata`, `validdata`, `testdata`, each a cell array of
//!   `(steps, 88)` arrays of 0 and 1.

mod files;
mod json;
mod mat;
mod midi;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use self::files::{read_file, songs};
pub use self::midi::MidiSettings;
use crate::error::unusable;
use crate::files::{Files, is_named};
use crate::folder::{self, has_extension};
use crate::images::{DATA_VARIABLE, check_folder};
use crate::recordings::corpus::{Corpus, Parts, Recording, Values};
use crate::recordings::parts::parts;
use crate::{Error, FrameShape, Limits, Origin};

/// The notes that sound at each step; at least one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roll {
    steps: Vec<u128>,
}

impl Roll {
    /// Notes of a piano: A0 to C8.
    pub const NOTES: usize = 88;
    /// MIDI number of the lowest note.
    pub const LOWEST: u8 = 21;
    /// MIDI number of the highest note.
    pub const HIGHEST: u8 = 108;

    /// `song` is a list of steps; a step is a list of the MIDI notes that sound, in any order.
    ///
    /// # Errors
    /// A note is outside of 21..=108, or there is no step; the message does not name a file.
    pub fn from_midi_notes(song: &[Vec<i64>]) -> Result<Roll, String> {
        if song.is_empty() {
            return Err("an empty song; at least one step is needed".to_owned());
        }
        let steps = song.iter().enumerate().map(|(step, notes)| {
            notes.iter().try_fold(0u128, |chord, &note| {
                bit(note)
                    .map(|bit| chord | bit)
                    .ok_or_else(|| format!("step {step}: {}", out_of_range(note)))
            })
        });
        Ok(Roll {
            steps: steps.collect::<Result<_, _>>()?,
        })
    }

    /// A roll from a model's output: `values` is `[steps, 88]`; a note sounds if its value is at least 0.5.
    /// An incomplete step at the end is dropped; `None` if no step is left.
    pub fn from_values(values: &[f32]) -> Option<Roll> {
        let steps: Vec<u128> = values
            .as_chunks::<{ Roll::NOTES }>()
            .0
            .iter()
            .map(|notes| {
                let sounding = notes.iter().enumerate().filter(|(_, value)| **value >= 0.5);
                sounding.fold(0, |chord, (note, _)| chord | 1 << note)
            })
            .collect();
        (!steps.is_empty()).then_some(Roll { steps })
    }

    /// `[steps]`: bit `n` is set where MIDI note `21 + n` sounds.
    pub fn steps(&self) -> &[u128] {
        &self.steps
    }

    /// The MIDI notes that sound at `step`, in ascending order; none after the end.
    pub fn midi_notes(&self, step: usize) -> impl Iterator<Item = u8> {
        let chord = self.steps.get(step).copied().unwrap_or(0);
        (Roll::LOWEST..=Roll::HIGHEST).filter(move |note| chord >> (note - Roll::LOWEST) & 1 == 1)
    }
}

/// The bit of a MIDI note.
fn bit(note: i64) -> Option<u128> {
    let range = i64::from(Roll::LOWEST)..=i64::from(Roll::HIGHEST);
    range
        .contains(&note)
        .then(|| 1 << (note - i64::from(Roll::LOWEST)))
}

fn out_of_range(note: i64) -> String {
    format!("note {note}, but notes must be MIDI numbers from 21 to 108")
}

/// One of the four standard sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Music {
    /// 382 chorales by Bach; a step is a quarter note.
    JsbChorales,
    /// 1,037 folk tunes with chords.
    Nottingham,
    /// 783 pieces of orchestral and piano music.
    MuseData,
    /// 124 pieces of classical piano music.
    PianoMidi,
}

impl Music {
    /// All sets.
    pub const ALL: [Music; 4] = [
        Music::JsbChorales,
        Music::Nottingham,
        Music::MuseData,
        Music::PianoMidi,
    ];

    /// Name in experiments.
    pub fn name(self) -> &'static str {
        match self {
            Music::JsbChorales => "jsb-chorales",
            Music::Nottingham => "nottingham",
            Music::MuseData => "musedata",
            Music::PianoMidi => "piano-midi",
        }
    }

    /// The files that may hold the set; the first one that exists is read.
    fn files(self) -> [&'static str; 3] {
        match self {
            Music::JsbChorales => [
                "jsb_chorales.json.gz",
                "jsb_chorales.json",
                "JSB_Chorales.mat",
            ],
            Music::Nottingham => ["nottingham.json.gz", "nottingham.json", "Nottingham.mat"],
            Music::MuseData => ["musedata.json.gz", "musedata.json", "MuseData.mat"],
            Music::PianoMidi => [
                "piano_midi_de.json.gz",
                "piano_midi_de.json",
                "Piano_midi.mat",
            ],
        }
    }
}

/// Reads songs.
#[derive(Clone, Copy, Debug)]
pub enum PianoRolls {}

impl PianoRolls {
    /// One step of a roll.
    pub const FRAME: FrameShape = FrameShape {
        channels: 1,
        height: 1,
        width: Roll::NOTES,
    };

    /// The 382 JSB Chorales inside the program: 229 to train on, 76 for validation, 77 for the test.
    ///
    /// # Errors
    /// Only if the program was built from a damaged file.
    pub fn bundled() -> Result<Corpus, Error> {
        let bytes = include_bytes!("../../data/music/jsb_chorales.json.gz");
        let file = Path::new("bundled jsb_chorales.json.gz");
        let songs = songs(bytes, file, Limits::default().room(bytes.len()))?;
        let name = Music::JsbChorales.name();
        Ok(corpus(name, songs, Origin::Bundled, Vec::new()))
    }

    /// A standard set, from a file in `directory` or in its folder `music`.
    ///
    /// # Errors
    /// The folder or the file is missing, unreadable or damaged, a note is out of range, a song is
    /// empty, or the file exceeds the limits.
    pub fn open_set(music: Music, directory: &Path, limits: Limits) -> Result<Corpus, Error> {
        let files = music.files();
        let wanted = || format!("one of {}", files.join(", "));
        check_folder(directory, wanted)?;
        match find_file(music, directory) {
            Some(path) => {
                let parts = read_file(&path, &Files::new(limits))?;
                let origin = Origin::Folder(path);
                Ok(corpus(music.name(), parts, origin, Vec::new()))
            }
            None => Err(unusable(
                directory,
                format!(
                    "holds none of {}, and neither does its folder music; {} is read from one of them",
                    files.join(", "),
                    music.name()
                ),
            )),
        }
    }

    /// The set in the folder `data` if given; otherwise the one in the folder that the environment variable
    /// `MNEMORA_DATA` names; otherwise, for JSB Chorales, the bundled one.
    ///
    /// # Errors
    /// As [`PianoRolls::open_set`], or a set that is not bundled is not found.
    pub fn find(music: Music, data: Option<&Path>, limits: Limits) -> Result<Corpus, Error> {
        PianoRolls::find_with(music, data, env::var_os(DATA_VARIABLE), limits)
    }

    fn find_with(
        music: Music,
        data: Option<&Path>,
        variable: Option<OsString>,
        limits: Limits,
    ) -> Result<Corpus, Error> {
        if let Some(directory) = data {
            return PianoRolls::open_set(music, directory, limits);
        }
        let bundled = music == Music::JsbChorales;
        let variable = variable
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        match variable {
            // The whole set is bundled, so the folder may be for other data.
            Some(directory)
                if bundled && directory.is_dir() && find_file(music, &directory).is_none() =>
            {
                PianoRolls::bundled()
            }
            Some(directory) => {
                let read = PianoRolls::open_set(music, &directory, limits);
                read.map_err(|cause| Error::FromEnvironment {
                    variable: DATA_VARIABLE,
                    cause: Box::new(cause),
                })
            }
            None if bundled => PianoRolls::bundled(),
            None => Err(Error::NotBundled {
                data: music.name(),
                wanted: music.files()[0],
            }),
        }
    }

    /// A user's own songs: a `.json`, `.json.gz` or `.mat` file as above, one MIDI file, or a folder
    /// with MIDI files (`.mid`, `.midi`, also in subfolders), quantised according to `settings`.
    ///
    /// Folders `train`, `valid` and `test`, or a table `index.csv` with columns `file` and `split`,
    /// divide the songs of a folder; otherwise a tenth is for validation and a tenth for the test.
    ///
    /// # Errors
    /// A file is missing, unreadable or damaged, a note is out of range, a song is empty, or the files
    /// exceed the limits.
    pub fn open(path: &Path, settings: MidiSettings, limits: Limits) -> Result<Corpus, Error> {
        let files = Files::new(limits);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let origin = Origin::Folder(path.to_owned());
        if is_named(path) && !has_extension(path, &["mid", "midi"]) {
            return Ok(corpus(&name, read_file(path, &files)?, origin, Vec::new()));
        }
        if is_named(path) {
            let roll = Roll::open_midi(path, settings, &files)?;
            let parts = Parts {
                test: vec![(path.display().to_string(), roll)],
                ..Parts::default()
            };
            return Ok(corpus(&name, parts, origin, Vec::new()));
        }
        check_folder(path, || "MIDI files (.mid, .midi)".to_owned())?;
        let found = files.list(path, &["mid", "midi"])?;
        if found.is_empty() {
            return Err(unusable(path, "holds no MIDI files (.mid, .midi)"));
        }
        let named = found
            .into_iter()
            .map(|file| (folder::within(path, &file), file));
        let parts = parts(path, named.collect(), &files)?;
        let songs = parts.try_map(|songs| {
            songs
                .into_iter()
                .map(|file| {
                    let roll = Roll::open_midi(&file, settings, &files)?;
                    files.keep(&file, size_of_val(roll.steps()))?;
                    Ok((folder::within(path, &file), roll))
                })
                .collect::<Result<Vec<_>, Error>>()
        })?;
        Ok(corpus(&name, songs, origin, files.notes()))
    }
}

/// Songs with their names.
type Songs = Parts<Vec<(String, Roll)>>;

/// Bytes that a song takes besides its steps: its name, and the overhead of two allocations.
const SONG: usize = size_of::<(String, Roll)>() + 64;

fn corpus(name: &str, songs: Songs, origin: Origin, notes: Vec<String>) -> Corpus {
    let recordings = |songs: Vec<(String, Roll)>| {
        songs
            .into_iter()
            .map(|(name, roll)| Recording {
                name,
                values: Values::Notes(roll.steps),
            })
            .collect()
    };
    let parts = Parts {
        train: recordings(songs.train),
        valid: recordings(songs.valid),
        test: recordings(songs.test),
    };
    Corpus::new(name, PianoRolls::FRAME, parts, origin, notes)
}

fn find_file(music: Music, directory: &Path) -> Option<PathBuf> {
    [directory.to_owned(), directory.join("music")]
        .iter()
        .flat_map(|folder| music.files().map(|file| folder.join(file)))
        .find(|path| is_named(path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Part;

    fn shared(file: &str) -> Option<PathBuf> {
        let path = Path::new("../../../shared/data/music").join(file);
        if !path.is_file() {
            println!("skipped: no {}", path.display());
        }
        Some(path).filter(|path| path.is_file())
    }

    #[test]
    fn chorales_are_bundled_with_their_splits() {
        let chorales = PianoRolls::bundled().expect("the bundled songs are sound");
        let counts =
            Part::ALL.map(|part| (chorales.recordings(part).len(), chorales.total_steps(part)));
        assert_eq!(counts, [(229, 13_807), (76, 4_602), (77, 4_725)]);
        let first = chorales.whole(Part::Train, &[0]).unwrap();
        let sounding = |step| -> Vec<usize> {
            let notes = first.frame_at(0, step).unwrap().iter().enumerate();
            notes
                .filter(|(_, value)| **value == 1.0)
                .map(|(note, _)| note + 21)
                .collect()
        };
        assert_eq!(sounding(0), [60, 72, 79, 88]);
        assert_eq!(sounding(1), [72, 79, 88]);
        assert_eq!(
            chorales.fingerprint(),
            "058b9e85ebf4d697d97faa091992673b99aaf0575ce997cf000e22b2206445f1"
        );
    }

    #[test]
    fn both_layouts_of_the_standard_sets_agree() {
        for (music, counts, steps) in [
            (Music::JsbChorales, [229, 76, 77], [13_807, 4_602, 4_725]),
            (
                Music::Nottingham,
                [694, 173, 170],
                [176_561, 45_513, 44_463],
            ),
            (Music::MuseData, [524, 135, 124], [245_202, 82_755, 64_339]),
            (Music::PianoMidi, [87, 12, 25], [75_911, 8_540, 19_036]),
        ] {
            let [json, _, mat] = music.files();
            let (Some(json), Some(mat)) = (shared(json), shared(mat)) else {
                continue;
            };
            let json = PianoRolls::open(&json, MidiSettings::default(), Limits::default()).unwrap();
            let mat = PianoRolls::open(&mat, MidiSettings::default(), Limits::default()).unwrap();
            assert_eq!(Part::ALL.map(|part| mat.recordings(part).len()), counts);
            assert_eq!(Part::ALL.map(|part| mat.total_steps(part)), steps);
            for part in Part::ALL {
                assert!(
                    mat.recordings(part) == json.recordings(part),
                    "{music:?} {part}"
                );
            }
            let found = PianoRolls::find(
                music,
                Some(Path::new("../../../shared/data")),
                Limits::default(),
            )
            .unwrap();
            assert_eq!(found.fingerprint(), mat.fingerprint());
            assert_eq!(found.name(), music.name());
        }
    }

    #[test]
    fn a_set_is_found_by_argument_variable_or_bundle() {
        let empty = tempfile::tempdir().unwrap();
        let find = |music, data, variable: Option<&Path>| {
            PianoRolls::find_with(music, data, variable.map(OsString::from), Limits::default())
        };
        let bundled = find(Music::JsbChorales, None, Some(empty.path())).unwrap();
        assert_eq!(bundled.origin(), &Origin::Bundled);
        assert!(find(Music::JsbChorales, Some(empty.path()), None).is_err());
        let error = find(Music::Nottingham, None, Some(empty.path())).unwrap_err();
        assert!(error.to_string().contains("nottingham.json.gz"), "{error}");
        assert!(error.to_string().contains(DATA_VARIABLE), "{error}");
        let error = find(Music::PianoMidi, None, None).unwrap_err();
        assert!(
            error.to_string().contains("piano_midi_de.json.gz"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn a_roll_holds_the_notes_it_was_made_of(
            song in prop::collection::vec(prop::collection::btree_set(21i64..=108, 0..6), 1..9),
        ) {
            let notes: Vec<Vec<i64>> = song.iter().map(|notes| notes.iter().copied().collect()).collect();
            let roll = Roll::from_midi_notes(&notes).unwrap();
            let values: Vec<f32> = roll
                .steps()
                .iter()
                .flat_map(|chord| (0..88).map(move |note| (chord >> note & 1) as f32))
                .collect();
            prop_assert_eq!(Roll::from_values(&values), Some(roll.clone()));
            for (step, notes) in notes.iter().enumerate() {
                prop_assert!(roll.midi_notes(step).map(i64::from).eq(notes.iter().copied()));
            }
            prop_assert_eq!(roll.midi_notes(notes.len()).count(), 0);
        }
    }
}
