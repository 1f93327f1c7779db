//! Files of songs: JSON, plain or compressed, and the original `.mat`.

use std::io::BufReader;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{Roll, SONG, Songs, json, mat};
use crate::Error;
use crate::error::unusable;
use crate::files::{Files, Room, beyond};
use crate::folder::has_extension;
use crate::recordings::corpus::{Part, Parts};

/// The songs of a file with either layout.
pub(super) fn read_file(path: &Path, files: &Files) -> Result<Songs, Error> {
    let bytes = files.read(path)?;
    let room = files.room(bytes.len());
    if has_extension(path, &["mat"]) {
        mat_songs(&bytes, path, room)
    } else {
        songs(&bytes, path, room)
    }
}

/// The songs of a `.mat` file.
fn mat_songs(bytes: &[u8], file: &Path, room: Room) -> Result<Songs, Error> {
    let mut songs = Parts::default();
    let mut taken = 0;
    let read = mat::each_cell(bytes, room, |name, number, cell| {
        let part = match name {
            "traindata" => Part::Train,
            "validdata" => Part::Valid,
            "testdata" => Part::Test,
            _ => return Ok(()),
        };
        let refuse = |problem: String| format!("{name}, song {number}: {problem}");
        let roll = mat_roll(&cell).map_err(refuse)?;
        taken += SONG + size_of_val(roll.steps());
        room.check(taken)?;
        songs.get_mut(part).push((format!("{part} {number}"), roll));
        Ok(())
    });
    read.map_err(|problem| unusable(file, problem))?;
    check_parts(&songs, file, "traindata, validdata and testdata")?;
    Ok(songs)
}

/// A song of `(steps, 88)` values, column after column.
fn mat_roll(cell: &mat::Array) -> Result<Roll, String> {
    let (rows, columns) = (cell.rows, cell.columns);
    if columns != Roll::NOTES {
        return Err(format!(
            "an array of {rows} x {columns}, but a song has {} columns, one per note",
            Roll::NOTES
        ));
    }
    if rows == 0 {
        return Err("an empty song; at least one step is needed".to_owned());
    }
    let mut steps = vec![0u128; rows];
    for (place, value) in cell.values().enumerate() {
        let (note, step) = (place / rows, place % rows);
        if value == 1.0 {
            steps[step] |= 1 << note;
        } else if value != 0.0 {
            let note = note + usize::from(Roll::LOWEST);
            return Err(format!(
                "step {step}, note {note}: the value is {value}, but must be 0 or 1"
            ));
        }
    }
    Ok(Roll { steps })
}

/// The songs of a JSON file, plain or compressed.
pub(super) fn songs(bytes: &[u8], file: &Path, room: Room) -> Result<Songs, Error> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        json::songs(BufReader::new(room.bound(MultiGzDecoder::new(bytes))), room)
    } else {
        json::songs(bytes, room)
    }
    .map_err(|problem| match problem {
        json::Problem::Content(problem) => unusable(file, problem),
        json::Problem::Source(cause) => match beyond(&cause) {
            Some(problem) => unusable(file, problem),
            None => Error::DamagedGzip {
                file: file.display().to_string(),
                cause,
            },
        },
    })
    .and_then(|songs| {
        check_parts(&songs, file, "train, valid and test")?;
        Ok(songs)
    })
}

fn check_parts(songs: &Songs, file: &Path, wanted: &str) -> Result<(), Error> {
    if Part::ALL.iter().all(|&part| songs.get(part).is_empty()) {
        return Err(unusable(file, format!("holds no songs in {wanted}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{Corpus, Error, Limits, MidiSettings, PianoRolls};

    fn open(path: &std::path::Path) -> Result<Corpus, Error> {
        PianoRolls::open(path, MidiSettings::default(), Limits::default())
    }

    #[test]
    fn bad_songs_are_refused_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("songs.json");
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            let error = open(&path).unwrap_err();
            let text = error.to_string();
            assert!(!text.contains('\n'), "{text}");
            text.split_once("songs.json: ")
                .expect("the file is named")
                .1
                .to_owned()
        };
        assert_eq!(
            refused(r#"{"train": [[[60]], [[60], [61, 109]]], "valid": [], "test": []}"#),
            "train song 1: step 1: note 109, but notes must be MIDI numbers from 21 to 108"
        );
        assert_eq!(
            refused(r#"{"train": [[[60]]], "valid": [[]], "test": []}"#),
            "valid song 0: an empty song; at least one step is needed"
        );
        assert_eq!(
            refused(r#"{"train": [[[60.5]]], "valid": [], "test": []}"#),
            "train song 0: step 0: 60.5 is not a MIDI number"
        );
        assert_eq!(
            refused(r#"{"train": [[60]], "valid": [], "test": []}"#),
            "train song 0: step 0: not a list of notes"
        );
        assert!(refused(r#"{"train": [], "valid": []}"#).starts_with("has no list \"test\""));
        assert!(refused(r#"{"train": [], "valid": [], "test": []}"#).starts_with("holds no songs"));
        assert!(refused("{").starts_with("not valid JSON: "));
        assert_eq!(
            refused(r#"{"train": [["x"]], "valid": [], "test": []}"#),
            "train song 0: step 0: not a list of notes"
        );
        assert_eq!(
            refused(r#"{"train": [[["x"]]], "valid": [], "test": []}"#),
            "train song 0: step 0: a note that is not a number"
        );
        let long = "[],".repeat(1_000_000);
        assert_eq!(
            refused(&format!(
                r#"{{"train": [[[60]], [{long}[]]], "valid": [], "test": []}}"#
            )),
            "train song 1: more than 1000000 steps long"
        );
        fs::write(&path, [0x1f, 0x8b, 8, 0, 1]).unwrap();
        let error = open(&path).unwrap_err();
        assert!(error.to_string().contains("damaged gzip data"), "{error}");
    }
}
