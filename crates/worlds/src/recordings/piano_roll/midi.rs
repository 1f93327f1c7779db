//! Reading MIDI files as piano-rolls, and writing them.

use std::collections::HashMap;
use std::path::Path;

use midly::num::{u4, u7, u15, u24, u28};
use midly::{
    Format, Header, MetaMessage, MidiMessage, Smf, Timing, Track, TrackEvent, TrackEventKind,
};

use super::{Roll, bit, out_of_range};
use crate::Error;
use crate::error::unusable;
use crate::files::Files;

/// Most steps of a song: far longer than any real song, but small enough for memory.
pub(super) const LONGEST: u64 = 1_000_000;
/// The channel of percussion (from 0), where numbers stand for instruments, not notes.
const PERCUSSION: u8 = 9;
/// Ticks per step in written files.
const TICKS: u16 = 96;
/// Most steps per quarter note, so that [`TICKS`] times this fits the 15 bits of a header.
const FINEST: u8 = 255;

/// How notes are converted to steps, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MidiSettings {
    /// Steps per quarter note, at least 1. The standard sets have 2, except JSB Chorales with 1.
    pub steps_per_quarter: u8,
    /// Quarter notes per minute in written files. Reading does not depend on the tempo.
    pub tempo: u16,
}

impl Default for MidiSettings {
    /// A step is an eighth note, as in the standard sets except JSB Chorales; 100 quarter notes per minute.
    fn default() -> MidiSettings {
        MidiSettings {
            steps_per_quarter: 2,
            tempo: 100,
        }
    }
}

impl MidiSettings {
    fn check(&self) -> Result<(), Error> {
        let finest = usize::from(FINEST);
        crate::settings::check(
            "steps_per_quarter",
            usize::from(self.steps_per_quarter),
            1..=finest,
            || format!("the steps per quarter note must be from 1 to {finest}"),
        )?;
        crate::settings::check("tempo", usize::from(self.tempo), 4..=1000, || {
            "quarter notes per minute must be from 4 to 1000".to_owned()
        })
    }
}

impl Roll {
    /// Reads a MIDI file. Onsets and ends are rounded to the nearest step, and a note lasts at least
    /// one step. All tracks and channels are combined, except percussion, which is left out. Silence
    /// before the first note is dropped.
    ///
    /// # Errors
    /// The file cannot be read, is not a valid MIDI file, has no notes or a note outside of 21..=108, or
    /// exceeds the limits.
    pub(super) fn open_midi(
        path: &Path,
        settings: MidiSettings,
        files: &Files,
    ) -> Result<Roll, Error> {
        settings.check()?;
        let bytes = files.read(path)?;
        let steps_per_quarter = u64::from(settings.steps_per_quarter);
        roll(&bytes, steps_per_quarter).map_err(|problem| unusable(path, problem))
    }

    /// The bytes of a MIDI file that sounds like the roll: a note that sounds in consecutive steps is
    /// held.
    ///
    /// # Errors
    /// Settings are out of range.
    pub fn to_midi(&self, settings: MidiSettings) -> Result<Vec<u8>, Error> {
        settings.check()?;
        let tempo = 60_000_000 / u32::from(settings.tempo);
        let mut track = Track::new();
        let mut push = |delta: u32, kind| {
            let delta = u28::from(delta);
            track.push(TrackEvent { delta, kind });
        };
        push(
            0,
            TrackEventKind::Meta(MetaMessage::Tempo(u24::from(tempo))),
        );
        let (mut before, mut written) = (0u128, 0);
        for step in 0..=self.steps.len() {
            let now = self.steps.get(step).copied().unwrap_or(0);
            for (changed, on) in [(before & !now, false), (now & !before, true)] {
                for note in (0..Roll::NOTES as u8).filter(|note| changed >> note & 1 == 1) {
                    let key = u7::from(Roll::LOWEST + note);
                    let message = if on {
                        MidiMessage::NoteOn {
                            key,
                            vel: u7::from(80),
                        }
                    } else {
                        MidiMessage::NoteOff {
                            key,
                            vel: u7::from(0),
                        }
                    };
                    let delta = (step - written) as u32 * u32::from(TICKS);
                    written = step;
                    let channel = u4::from(0);
                    push(delta, TrackEventKind::Midi { channel, message });
                }
            }
            before = now;
        }
        let delta = (self.steps.len() - written) as u32 * u32::from(TICKS);
        push(delta, TrackEventKind::Meta(MetaMessage::EndOfTrack));
        let ticks = TICKS * u16::from(settings.steps_per_quarter);
        let file = Smf {
            header: Header::new(Format::SingleTrack, Timing::Metrical(u15::from(ticks))),
            tracks: vec![track],
        };
        let mut bytes = Vec::new();
        file.write_std(&mut bytes)
            .expect("memory takes all bytes, and one track fits a single-track file");
        Ok(bytes)
    }
}

/// A note, from its onset to its end in steps.
struct Note {
    start: u64,
    end: u64,
    key: u8,
    track: usize,
}

fn roll(bytes: &[u8], steps_per_quarter: u64) -> Result<Roll, String> {
    check_chunks(bytes)?;
    let file = Smf::parse(bytes).map_err(|cause| format!("damaged MIDI file ({cause})"))?;
    let ticks = match file.header.timing {
        Timing::Metrical(ticks) if ticks.as_int() > 0 => u64::from(ticks.as_int()),
        _ => {
            return Err(
                "a MIDI file in seconds instead of quarter notes; save it with ticks per quarter note"
                    .to_owned(),
            );
        }
    };
    if file.header.format == Format::Sequential {
        return Err("a MIDI file of several songs (format 2); save each song by itself".to_owned());
    }
    let step = |tick: u64| (2 * tick * steps_per_quarter + ticks) / (2 * ticks);
    let mut notes = Vec::new();
    for (track, events) in file.tracks.iter().enumerate() {
        // The parser drops everything after an event that it cannot read.
        let last = events.last().map(|event| event.kind);
        if !matches!(
            last,
            None | Some(TrackEventKind::Meta(MetaMessage::EndOfTrack))
        ) {
            return Err(format!(
                "damaged MIDI file: track {track} breaks off after {} events",
                events.len()
            ));
        }
        for (start, end, key) in sounding(events) {
            let start = step(start);
            let end = step(end).max(start + 1);
            if end > LONGEST {
                return Err(format!("more than {LONGEST} steps long"));
            }
            notes.push(Note {
                start,
                end,
                key,
                track,
            });
        }
    }
    let start = notes.iter().map(|note| note.start).min();
    let Some(first) = start else {
        return Err("an empty song; at least one note is needed".to_owned());
    };
    notes.sort_by_key(|note| note.start);
    let end = notes.iter().map(|note| note.end).max().unwrap_or(first);
    let mut steps = vec![0u128; (end - first) as usize];
    // The step up to which each note already sounds, so that each step is set only once, however many notes overlap.
    let mut sounding = [0; Roll::NOTES];
    for Note {
        start,
        end,
        key,
        track,
    } in notes
    {
        let (start, end) = (start - first, end - first);
        let key = i64::from(key);
        let bit = bit(key)
            .ok_or_else(|| format!("track {track}, step {start}: {}", out_of_range(key)))?;
        let until = &mut sounding[bit.trailing_zeros() as usize];
        let from = start.max(*until).min(end);
        *until = end.max(*until);
        for chord in &mut steps[from as usize..end as usize] {
            *chord |= bit;
        }
    }
    Ok(Roll { steps })
}

/// Onset, end (in ticks) and key of every note of a track. A note that never ends lasts to the end
/// of its track.
fn sounding(events: &[TrackEvent]) -> Vec<(u64, u64, u8)> {
    let mut open: HashMap<(u8, u8), Vec<u64>> = HashMap::new();
    let mut notes = Vec::new();
    let mut tick = 0;
    for event in events {
        tick += u64::from(event.delta.as_int());
        let TrackEventKind::Midi { channel, message } = event.kind else {
            continue;
        };
        let channel = channel.as_int();
        match message {
            _ if channel == PERCUSSION => {}
            MidiMessage::NoteOn { key, vel } if vel > 0 => {
                open.entry((channel, key.as_int())).or_default().push(tick);
            }
            MidiMessage::NoteOn { key, .. } | MidiMessage::NoteOff { key, .. } => {
                let key = key.as_int();
                let started = open.get_mut(&(channel, key)).and_then(Vec::pop);
                notes.extend(started.map(|start| (start, tick, key)));
            }
            _ => {}
        }
    }
    let held = open
        .into_iter()
        .flat_map(|((_, key), starts)| starts.into_iter().map(move |start| (start, tick, key)));
    notes.extend(held);
    notes
}

/// The parser tolerates missing data, but a truncated file must not pass for a shorter song.
fn check_chunks(bytes: &[u8]) -> Result<(), String> {
    if !bytes.starts_with(b"MThd") {
        return Err("not a MIDI file".to_owned());
    }
    let mut rest = bytes;
    let mut tracks = 0;
    let truncated = || "truncated MIDI file: it ends inside a track; fetch it again".to_owned();
    let mut wanted = None;
    while !rest.is_empty() {
        let (kind, after) = rest.split_at_checked(4).ok_or_else(truncated)?;
        // Some programs pad the file with zeros.
        if wanted == Some(tracks) && kind != b"MTrk" {
            return Ok(());
        }
        let (length, after) = after.split_first_chunk::<4>().ok_or_else(truncated)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (content, after) = after.split_at_checked(length).ok_or_else(truncated)?;
        match kind {
            b"MThd" => {
                let count = content.get(2..4).ok_or_else(truncated)?;
                wanted = Some(u16::from_be_bytes([count[0], count[1]]));
            }
            b"MTrk" => tracks += 1,
            _ => {}
        }
        rest = after;
    }
    if wanted.is_some_and(|wanted| tracks < wanted) {
        return Err(format!(
            "truncated MIDI file: {tracks} of {} tracks; fetch it again",
            wanted.unwrap_or(0)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::{Corpus, Limits, Part, PianoRolls};

    /// A file of one track with the given events: delta, status byte, two data bytes.
    fn midi(ticks: u16, events: &[(u8, u8, u8, u8)]) -> Vec<u8> {
        let mut track: Vec<u8> = events
            .iter()
            .flat_map(|&(delta, status, first, second)| [delta, status, first, second])
            .collect();
        track.extend([0, 0xff, 0x2f, 0]);
        file(ticks, &track)
    }

    fn file(ticks: u16, track: &[u8]) -> Vec<u8> {
        let mut bytes = b"MThd\0\0\0\x06\0\0\0\x01".to_vec();
        bytes.extend(ticks.to_be_bytes());
        bytes.extend(b"MTrk");
        bytes.extend((track.len() as u32).to_be_bytes());
        bytes.extend(track);
        bytes
    }

    fn notes(roll: &Roll) -> Vec<Vec<u8>> {
        (0..roll.steps().len())
            .map(|step| roll.midi_notes(step).collect())
            .collect()
    }

    #[test]
    fn notes_are_rounded_to_steps() {
        // 24 ticks per quarter note, 12 per step: a slightly late note after silence, a short one, one that
        // ends with a velocity of 0, one of percussion, and one that never ends.
        let bytes = midi(
            24,
            &[
                (25, 0x90, 60, 64),
                (24, 0x80, 60, 0),
                (0, 0x90, 62, 64),
                (1, 0x90, 62, 0),
                (0, 0x99, 35, 64),
                (0, 0x91, 64, 64),
                (23, 0xb0, 7, 100),
            ],
        );
        let roll = roll(&bytes, 2).unwrap();
        assert_eq!(notes(&roll), [vec![60], vec![60], vec![62, 64], vec![64]]);
    }

    #[test]
    fn bad_files_are_refused() {
        let refused = |bytes: &[u8]| roll(bytes, 2).unwrap_err();
        let song = |key| {
            midi(
                24,
                &[(48, 0x90, 60, 64), (24, 0x90, key, 64), (24, 0x80, key, 0)],
            )
        };
        assert_eq!(
            refused(&song(109)),
            "track 0, step 2: note 109, but notes must be MIDI numbers from 21 to 108"
        );
        assert!(refused(&song(20)).contains("note 20"));
        assert!(refused(&midi(24, &[])).starts_with("an empty song"));
        assert!(refused(&midi(0xe728, &[(0, 0x90, 60, 64)])).contains("in seconds"));
        assert_eq!(refused(b"RIFF"), "not a MIDI file");
        let whole = song(60);
        for length in 0..whole.len() {
            assert!(
                roll(&whole[..length], 2).is_err(),
                "{length} of {}",
                whole.len()
            );
        }
        // A note held for two million quarter notes: the time until it ends takes three bytes.
        let held = [
            (0, 0x90, 60, 64),
            (0xff, 0xff, 0x7f, 0x80),
            (60, 0, 0, 60),
            (0, 0, 60, 0),
        ];
        assert_eq!(refused(&midi(1, &held)), "more than 1000000 steps long");
        let broken = midi(
            24,
            &[
                (0, 0x90, 60, 64),
                (0, 0xf4, 0xf5, 0xff),
                (0, 0xff, 0xff, 0xff),
            ],
        );
        assert!(
            refused(&broken).contains("track 0 breaks off"),
            "{}",
            refused(&broken)
        );
    }

    /// A regression test: each of these notes was once set over the whole song separately, which took minutes.
    #[test]
    fn many_long_notes_take_no_longer_than_one() {
        let mut track = [0, 0x90, 60, 64].repeat(20_000);
        // The end of the track, which ends them, comes 130,000 quarter notes later.
        track.extend([0x87, 0xf7, 0x50, 0xff, 0x2f, 0]);
        let begun = std::time::Instant::now();
        let song = roll(&file(1, &track), 2).unwrap();
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        assert_eq!(song.steps(), [1 << (60 - 21); 260_000]);
    }

    #[test]
    fn a_folder_of_songs_is_a_corpus() {
        let folder = tempfile::tempdir().unwrap();
        let (settings, limits) = (MidiSettings::default(), Limits::default());
        for song in 0..12i64 {
            let roll = Roll::from_midi_notes(&vec![vec![40 + song]; 30]).unwrap();
            let path = folder.path().join(format!("song {song}.mid"));
            fs::write(&path, roll.to_midi(settings).unwrap()).unwrap();
        }
        let corpus = PianoRolls::open(folder.path(), settings, limits).unwrap();
        let counts = |corpus: &Corpus| Part::ALL.map(|part| corpus.recordings(part).len());
        assert_eq!(counts(&corpus), [10, 1, 1]);
        assert_eq!(corpus.total_steps(Part::Train), 300);
        assert_eq!(corpus.recordings(Part::Train)[0].name, "song 0.mid");

        let single = PianoRolls::open(&folder.path().join("song 3.mid"), settings, limits).unwrap();
        assert_eq!(counts(&single), [0, 0, 1]);

        fs::write(folder.path().join("song 4.mid"), b"MThd").unwrap();
        let error = PianoRolls::open(folder.path(), settings, limits)
            .unwrap_err()
            .to_string();
        assert!(error.contains("song 4.mid: truncated MIDI file"), "{error}");
        let none = tempfile::tempdir().unwrap();
        let error = PianoRolls::open(none.path(), settings, limits)
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("holds no MIDI files (.mid, .midi)"),
            "{error}"
        );
        let wrong = MidiSettings {
            steps_per_quarter: 0,
            ..settings
        };
        assert!(PianoRolls::open(folder.path(), wrong, limits).is_err());
    }

    proptest! {
        /// A written roll is read back, except for silence at both ends.
        #[test]
        fn a_written_roll_is_read_again(
            song in prop::collection::vec(prop::collection::btree_set(21i64..=108, 0..6), 1..9),
            steps_per_quarter in 1u8..=255,
        ) {
            let settings = MidiSettings { steps_per_quarter, ..MidiSettings::default() };
            let mut notes: Vec<Vec<i64>> = song.iter().map(|notes| notes.iter().copied().collect()).collect();
            let written = Roll::from_midi_notes(&notes).unwrap().to_midi(settings).unwrap();
            while notes.last().is_some_and(Vec::is_empty) {
                notes.pop();
            }
            let silence = notes.iter().take_while(|notes| notes.is_empty()).count();
            notes.drain(..silence);
            match roll(&written, u64::from(steps_per_quarter)) {
                Ok(read) => prop_assert_eq!(read, Roll::from_midi_notes(&notes).unwrap()),
                Err(_) => prop_assert!(notes.is_empty()),
            }
        }
    }
}
