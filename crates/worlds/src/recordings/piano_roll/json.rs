//! Songs in JSON: `{"train": [song, ...], "valid": ..., "test": ...}`, where a song is a list of steps, and a step is
//! a list of the MIDI notes that sound. The file is parsed as a stream, so it takes no more memory than its songs.

use std::fmt;
use std::io::{self, Read};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::midi::LONGEST;
use super::{Roll, SONG, Songs, bit, out_of_range};
use crate::files::Room;
use crate::recordings::corpus::{Part, Parts};

/// A problem with the content of a file, in one line, or an error of its source.
pub(super) enum Problem {
    Content(String),
    Source(io::Error),
}

pub(super) fn songs(source: impl Read, room: Room) -> Result<Songs, Problem> {
    let mut reading = Reading {
        room,
        taken: 0,
        songs: Parts::default(),
        lists: Vec::new(),
        place: Place::File,
        problem: None,
    };
    let mut json = serde_json::Deserializer::from_reader(source);
    let read = File(&mut reading).deserialize(&mut json);
    if let Err(cause) = read.and_then(|()| json.end()) {
        return Err(match (cause.classify(), reading.problem) {
            (serde_json::error::Category::Io, _) => Problem::Source(cause.into()),
            (_, Some(problem)) => Problem::Content(problem),
            (serde_json::error::Category::Data, None) => {
                Problem::Content(reading.place.unexpected())
            }
            (_, None) => Problem::Content(format!("not valid JSON: {cause}")),
        });
    }
    let missing = Part::ALL
        .into_iter()
        .find(|part| !reading.lists.contains(part));
    match missing {
        Some(part) => Err(Problem::Content(no_list(part))),
        None => Ok(reading.songs),
    }
}

fn no_list(part: Part) -> String {
    format!(
        "has no list {part:?}; it should be {{\"train\": [song, ...], \"valid\": ..., \"test\": ...}}",
        part = part.to_string()
    )
}

/// State while a file is read.
struct Reading {
    room: Room,
    /// Size of its songs in memory, in bytes.
    taken: usize,
    songs: Songs,
    /// The parts found so far.
    lists: Vec<Part>,
    /// The place that is being read.
    place: Place,
    /// The problem with a value.
    problem: Option<String>,
}

impl Reading {
    /// Stops reading with a problem.
    fn stop<E: Error>(&mut self, problem: String) -> E {
        self.problem = Some(problem);
        E::custom("the problem is kept separately")
    }

    fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.taken += bytes;
        let within = self.room.check(self.taken);
        within.map_err(|problem| self.stop(problem))
    }
}

/// A place in a file; songs and steps are counted from 0.
#[derive(Clone, Copy)]
enum Place {
    File,
    List(Part),
    Song(Part, usize),
    Step(Part, usize, usize),
    Note(Part, usize, usize),
}

impl Place {
    /// The message for a value of the wrong type.
    fn unexpected(self) -> String {
        match self {
            Place::File => no_list(Part::Train),
            Place::List(part) => no_list(part),
            Place::Song(..) => format!("{self}: not a list of steps"),
            Place::Step(..) => format!("{self}: not a list of notes"),
            Place::Note(..) => format!("{self}: a note that is not a number"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File => formatter.write_str("file"),
            Place::List(part) => write!(formatter, "{part}"),
            Place::Song(part, song) => write!(formatter, "{part} song {song}"),
            Place::Step(part, song, step) | Place::Note(part, song, step) => {
                write!(formatter, "{part} song {song}: step {step}")
            }
        }
    }
}

/// The object of a file.
struct File<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for File<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for File<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with the lists of three parts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let part = Part::ALL.into_iter().find(|part| part.to_string() == key);
            match part {
                Some(part) => {
                    self.0.place = Place::List(part);
                    // As usual in JSON, the last of several equal keys wins.
                    self.0.songs.get_mut(part).clear();
                    map.next_value_seed(List(self.0, part))?;
                    self.0.lists.push(part);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            self.0.place = Place::File;
        }
        Ok(())
    }
}

/// The songs of a part.
struct List<'a>(&'a mut Reading, Part);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of songs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let List(reading, part) = self;
        for number in 0.. {
            reading.place = Place::Song(part, number);
            let Some(mut steps) = list.next_element_seed(Song(reading, part, number))? else {
                break;
            };
            reading.place = Place::Song(part, number);
            if steps.is_empty() {
                let place = reading.place;
                return Err(reading.stop(format!(
                    "{place}: an empty song; at least one step is needed"
                )));
            }
            reading.take(SONG)?;
            steps.shrink_to_fit();
            let song = (format!("{part} {number}"), Roll { steps });
            reading.songs.get_mut(part).push(song);
        }
        Ok(())
    }
}

/// The steps of a song.
struct Song<'a>(&'a mut Reading, Part, usize);

impl<'de> DeserializeSeed<'de> for Song<'_> {
    type Value = Vec<u128>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Vec<u128>, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Song<'_> {
    type Value = Vec<u128>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of steps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u128>, A::Error> {
        let Song(reading, part, number) = self;
        let mut steps = Vec::new();
        loop {
            reading.place = Place::Step(part, number, steps.len());
            let Some(chord) = list.next_element_seed(Step(reading))? else {
                return Ok(steps);
            };
            reading.take(size_of_val(&chord))?;
            steps.push(chord);
            if steps.len() as u64 > LONGEST {
                let place = Place::Song(part, number);
                return Err(reading.stop(format!("{place}: more than {LONGEST} steps long")));
            }
        }
    }
}

/// The notes of a step.
struct Step<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = u128;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<u128, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = u128;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of notes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<u128, A::Error> {
        let reading = self.0;
        if let Place::Step(part, song, step) = reading.place {
            reading.place = Place::Note(part, song, step);
        }
        let mut chord = 0;
        while let Some(note) = list.next_element_seed(Note(reading))? {
            chord |= note;
        }
        Ok(chord)
    }
}

/// The bit of a note.
struct Note<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Note<'_> {
    type Value = u128;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<u128, D::Error> {
        json.deserialize_f64(self)
    }
}

impl<'de> Visitor<'de> for Note<'_> {
    type Value = u128;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number")
    }

    fn visit_u64<E: Error>(self, note: u64) -> Result<u128, E> {
        self.visit_i64(note.try_into().unwrap_or(i64::MAX))
    }

    fn visit_i64<E: Error>(self, note: i64) -> Result<u128, E> {
        let place = self.0.place;
        bit(note).ok_or_else(|| self.0.stop(format!("{place}: {}", out_of_range(note))))
    }

    // Some files write whole numbers with a decimal point.
    fn visit_f64<E: Error>(self, note: f64) -> Result<u128, E> {
        if note.fract() == 0.0 {
            return self.visit_i64(note as i64);
        }
        let place = self.0.place;
        Err(self.0.stop(format!("{place}: {note} is not a MIDI number")))
    }
}
