//! Files of songs: JSON, plain or compressed, and the original `.mat`.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{Roll, Songs, mat};
use crate::Error;
use crate::corpus::{Part, Parts};
use crate::folder::{self, has_extension, unusable};

/// Bytes that a compressed file may unpack to.
const LIMIT: u64 = 1 << 30;

/// The songs of a file of either layout.
pub(super) fn read_file(path: &Path) -> Result<Songs, Error> {
    let bytes = folder::read(path)?;
    if has_extension(path, &["mat"]) {
        mat_songs(&bytes, path)
    } else {
        songs(&bytes, path)
    }
}

/// The songs of a `.mat` file.
fn mat_songs(bytes: &[u8], file: &Path) -> Result<Songs, Error> {
    let mut songs = Parts::default();
    for (name, cells) in mat::cells(bytes).map_err(|problem| unusable(file, problem))? {
        let part = match name.as_str() {
            "traindata" => Part::Train,
            "validdata" => Part::Valid,
            "testdata" => Part::Test,
            _ => continue,
        };
        for (number, cell) in cells.into_iter().enumerate() {
            let refuse =
                |problem: String| unusable(file, format!("{name}, song {number}: {problem}"));
            let roll = mat_roll(&cell).map_err(refuse)?;
            songs.get_mut(part).push((format!("{part} {number}"), roll));
        }
    }
    check_parts(&songs, file, "traindata, validdata and testdata")?;
    Ok(songs)
}

/// A song of `(steps, 88)` values, column after column.
fn mat_roll(cell: &mat::Array) -> Result<Roll, String> {
    let mat::Array {
        rows,
        columns,
        values,
    } = cell;
    if *columns != Roll::NOTES {
        return Err(format!(
            "an array of {rows} x {columns}, but a song has {} columns, one a note",
            Roll::NOTES
        ));
    }
    if *rows == 0 {
        return Err("an empty song, at least one step is needed".to_owned());
    }
    let mut steps = vec![0u128; *rows];
    for (note, column) in values.chunks(*rows).enumerate() {
        for (step, &value) in column.iter().enumerate() {
            if value == 1.0 {
                steps[step] |= 1 << note;
            } else if value != 0.0 {
                let note = note + usize::from(Roll::LOWEST);
                return Err(format!(
                    "step {step}, note {note}: the value {value}; it must be 0 or 1"
                ));
            }
        }
    }
    Ok(Roll { steps })
}

/// The songs of a JSON file, plain or compressed.
pub(super) fn songs(bytes: &[u8], file: &Path) -> Result<Songs, Error> {
    let mut text = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(bytes)
            .take(LIMIT)
            .read_to_end(&mut text)
            .map_err(|cause| Error::DamagedGzip {
                file: file.display().to_string(),
                cause,
            })?;
    } else {
        text.extend(bytes);
    }
    let value: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|cause| unusable(file, format!("not sound JSON: {cause}")))?;
    let mut songs = Parts::default();
    for part in Part::ALL {
        let Some(list) = value.get(part.to_string()).and_then(|part| part.as_array()) else {
            return Err(unusable(
                file,
                format!(
                    "has no list {part:?}; it should be {{\"train\": [song, ...], \"valid\": ..., \"test\": ...}}",
                    part = part.to_string()
                ),
            ));
        };
        for (number, song) in list.iter().enumerate() {
            let refuse =
                |problem: String| unusable(file, format!("{part} song {number}: {problem}"));
            let notes = json_song(song).map_err(refuse)?;
            let roll = Roll::from_midi_notes(&notes).map_err(refuse)?;
            songs.get_mut(part).push((format!("{part} {number}"), roll));
        }
    }
    check_parts(&songs, file, "train, valid and test")?;
    Ok(songs)
}

fn json_song(song: &serde_json::Value) -> Result<Vec<Vec<i64>>, String> {
    let steps = song.as_array().ok_or("not a list of steps")?.iter();
    steps
        .enumerate()
        .map(|(step, notes)| {
            let notes = notes.as_array();
            let notes = notes.ok_or_else(|| format!("step {step}: not a list of notes"))?;
            notes
                .iter()
                .map(|note| {
                    // Whole numbers are at times written with a decimal point.
                    let whole = note.as_f64().filter(|note| note.fract() == 0.0);
                    let whole = whole.map(|note| note as i64);
                    whole.ok_or_else(|| format!("step {step}: {note} is no MIDI number"))
                })
                .collect()
        })
        .collect()
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

    use crate::{MidiSettings, PianoRolls};

    #[test]
    fn bad_songs_are_refused_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("songs.json");
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            let error = PianoRolls::open(&path, MidiSettings::default()).unwrap_err();
            let text = error.to_string();
            assert!(!text.contains('\n'), "{text}");
            text.split_once("songs.json: ")
                .expect("the file is named")
                .1
                .to_owned()
        };
        assert_eq!(
            refused(r#"{"train": [[[60]], [[60], [61, 109]]], "valid": [], "test": []}"#),
            "train song 1: step 1: note 109, but notes are MIDI numbers from 21 to 108"
        );
        assert_eq!(
            refused(r#"{"train": [[[60]]], "valid": [[]], "test": []}"#),
            "valid song 0: an empty song, at least one step is needed"
        );
        assert_eq!(
            refused(r#"{"train": [[[60.5]]], "valid": [], "test": []}"#),
            "train song 0: step 0: 60.5 is no MIDI number"
        );
        assert_eq!(
            refused(r#"{"train": [[60]], "valid": [], "test": []}"#),
            "train song 0: step 0: not a list of notes"
        );
        assert!(refused(r#"{"train": [], "valid": []}"#).starts_with("has no list \"test\""));
        assert!(refused(r#"{"train": [], "valid": [], "test": []}"#).starts_with("holds no songs"));
        assert!(refused("{").starts_with("not sound JSON: "));
        fs::write(&path, [0x1f, 0x8b, 8, 0, 1]).unwrap();
        let error = PianoRolls::open(&path, MidiSettings::default()).unwrap_err();
        assert!(error.to_string().contains("damaged gzip data"), "{error}");
    }
}
