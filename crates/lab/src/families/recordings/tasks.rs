//! The tasks of recordings, each with where its recordings are found and what its frames are.

use super::source::Source;
use crate::{Experiment, LabError, TaskSettings, experiment::data::required};
use mnemora_models::ImageShape;
use mnemora_worlds::{
    FrameSettings, KthSplit, Limits, MidiSettings, Mnist, MovingDigits, Music, Own, PianoRolls,
    Speech, SpeechSet, Video,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A task.
pub(super) struct Entry {
    /// Its name in an experiment.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// Whether training needs data that do not come with the program.
    pub needs_data: bool,
    /// The keys of the table `task` that it reads.
    pub keys: &'static [&'static str],
    find: fn(&Asked) -> Result<Source, LabError>,
}

/// What an experiment asks for.
struct Asked<'a> {
    task: &'a TaskSettings,
    /// The data that are named, if any.
    path: Option<&'a Path>,
    limits: Limits,
}

impl Asked<'_> {
    /// The user's own data, which must be named.
    fn own(&self) -> Result<PathBuf, LabError> {
        required(self.path, self.task.name)
    }

    fn frames(&self) -> FrameSettings {
        FrameSettings {
            side: self.task.side,
            colour: self.task.colour,
            ..FrameSettings::default()
        }
    }

    fn music(&self, music: Music) -> Result<Source, LabError> {
        Ok(Source::Corpus(PianoRolls::find(
            music,
            self.path,
            self.limits,
        )?))
    }

    fn speech(&self, set: SpeechSet) -> Result<Source, LabError> {
        Ok(Source::Corpus(Speech::find(set, self.path, self.limits)?))
    }
}

/// All tasks.
pub(super) static TASKS: [Entry; 13] = [
    Entry {
        name: "jsb-chorales",
        about: "four-part chorales as piano-rolls; comes with mnemora",
        needs_data: false,
        keys: &["window"],
        find: |asked| asked.music(Music::JsbChorales),
    },
    Entry {
        name: "nottingham",
        about: "folk tunes as piano-rolls",
        needs_data: true,
        keys: &["window"],
        find: |asked| asked.music(Music::Nottingham),
    },
    Entry {
        name: "muse-data",
        about: "orchestral and piano music as piano-rolls",
        needs_data: true,
        keys: &["window"],
        find: |asked| asked.music(Music::MuseData),
    },
    Entry {
        name: "piano-midi",
        about: "classical piano music as piano-rolls",
        needs_data: true,
        keys: &["window"],
        find: |asked| asked.music(Music::PianoMidi),
    },
    Entry {
        name: "midi",
        about: "a folder of MIDI files",
        needs_data: true,
        keys: &["window"],
        find: |asked| {
            Ok(Source::Corpus(PianoRolls::open(
                &asked.own()?,
                MidiSettings::default(),
                asked.limits,
            )?))
        },
    },
    Entry {
        name: "speech",
        about: "read English (LibriSpeech); a few utterances come with mnemora",
        needs_data: false,
        keys: &["window"],
        find: |asked| asked.speech(SpeechSet::LibriSpeech),
    },
    Entry {
        name: "spoken-digits",
        about: "single spoken digits",
        needs_data: true,
        keys: &["window"],
        find: |asked| asked.speech(SpeechSet::SpokenDigits),
    },
    Entry {
        name: "timit",
        about: "TIMIT in its original layout",
        needs_data: true,
        keys: &["window"],
        find: |asked| asked.speech(SpeechSet::Timit),
    },
    Entry {
        name: "recordings",
        about: "a folder of recordings",
        needs_data: true,
        keys: &["window"],
        find: |asked| Ok(Source::Corpus(Speech::open(&asked.own()?, asked.limits)?)),
    },
    Entry {
        name: "video",
        about: "a folder of clips; a few come with mnemora",
        needs_data: false,
        keys: &["window", "side", "colour"],
        find: |asked| {
            Ok(Source::Corpus(Video::find(
                asked.path,
                asked.frames(),
                asked.limits,
            )?))
        },
    },
    Entry {
        name: "kth",
        about: "the KTH actions",
        needs_data: true,
        keys: &["window", "side"],
        find: |asked| {
            Ok(Source::Corpus(Video::kth(
                &asked.own()?,
                KthSplit::Standard,
                asked.task.side,
                asked.limits,
            )?))
        },
    },
    Entry {
        name: "moving-digits",
        about: "bouncing digits, generated on the fly",
        needs_data: false,
        keys: &["window", "digits"],
        find: |asked| {
            Ok(Source::MovingDigits {
                data: Arc::new(Mnist::find(asked.path, asked.limits)?),
                digits: asked.task.digits,
            })
        },
    },
    Entry {
        name: "own",
        about: "your own sequences: arrays, a table, folders of pictures",
        needs_data: true,
        keys: &["window", "side", "colour"],
        find: |asked| {
            Ok(Source::Corpus(Own::open(
                &asked.own()?,
                asked.frames(),
                asked.limits,
            )?))
        },
    },
];

/// Finds the recordings of an experiment.
///
/// # Errors
/// If its task has none, does not have such frames, or they cannot be read.
pub(super) fn find(experiment: &Experiment, path: Option<&Path>) -> Result<Source, LabError> {
    let task = &experiment.task;
    refuse_unread(task)?;
    let name = task.name.as_str();
    let Some(entry) = TASKS.iter().find(|entry| entry.name == name) else {
        return Err(LabError::Configuration(format!(
            "the task {name} has no recordings"
        )));
    };
    (entry.find)(&Asked {
        task,
        path,
        limits: experiment.data.limits(),
    })
}

/// Returns an error for frame settings that the task's own frames do not use.
fn refuse_unread(task: &TaskSettings) -> Result<(), LabError> {
    let refuse = |key: String, wanted: &str| {
        Err(LabError::Configuration(format!(
            "{key}: the frames of {} are {wanted}",
            task.name.as_str()
        )))
    };
    match task.name.as_str() {
        "moving-digits" if task.side != MovingDigits::SIDE => {
            refuse(format!("task.side is {}", task.side), "64x64 pixels")
        }
        "moving-digits" | "kth" if task.colour => refuse("task.colour is true".into(), "grey"),
        _ => Ok(()),
    }
}

/// The size to which the frames of clips are scaled.
pub(super) fn clip_frame(experiment: &Experiment) -> Option<ImageShape> {
    let channels = match experiment.task.name.as_str() {
        "video" if experiment.task.colour => 3,
        "video" | "kth" => 1,
        _ => return None,
    };
    let side = experiment.task.side;
    Some(ImageShape {
        channels,
        height: side,
        width: side,
    })
}
