//! Where recorded sequences come from, and what kind of numbers they are.

use crate::{
    Experiment, LabError,
    config::{Kind, LikelihoodName, StepSettings, TaskName, TaskSettings},
};
use mnemora_memory::Count;
use mnemora_models::LikelihoodConfig;
use mnemora_worlds::{
    Corpus, DATA_VARIABLE, DataSet, Draw, FrameSettings, FrameShape, Images, KthSplit,
    MidiSettings, Mnist, MovingDigits, Music, Origin, Own, Part, PianoRolls, Recording, Scale,
    SequenceBatch, Speech, SpeechSet, Split, Stream, Values, Video,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Clips of moving digits that stand for a held-out part.
const HELD_OUT_CLIPS: usize = 256;

/// Refuses keys of frames that a task's own frames do not follow.
fn refuse_unread(task: &TaskSettings) -> Result<(), LabError> {
    let refuse = |key: String, wanted: &str| {
        Err(LabError::Configuration(format!(
            "{key}: the frames of {} are {wanted}",
            task.name.as_str()
        )))
    };
    match task.name {
        TaskName::MovingDigits if task.side != MovingDigits::SIDE => {
            refuse(format!("task.side is {}", task.side), "64x64 pixels")
        }
        TaskName::MovingDigits | TaskName::Kth if task.colour => {
            refuse("task.colour is true".into(), "grey")
        }
        _ => Ok(()),
    }
}

/// Recordings, or what makes them.
pub enum Source {
    /// As they were recorded.
    Corpus(Corpus),
    /// Made without end.
    MovingDigits {
        /// Digits to be moved.
        data: Arc<DataSet>,
        /// How many at a time.
        digits: usize,
    },
    /// Only what a step of them is: enough to filter, not to train or to evaluate.
    Described(StepSettings),
}

impl Source {
    /// The data of an experiment; writes down which they are.
    pub fn find(experiment: &mut Experiment, data: Option<&Path>) -> Result<Self, LabError> {
        let configured = experiment.data.directory.clone();
        let path = data.or((!configured.is_empty()).then(|| Path::new(&configured)));
        let task = &experiment.task;
        let frames = FrameSettings {
            side: task.side,
            colour: task.colour,
            ..FrameSettings::default()
        };
        let variable = std::env::var_os(DATA_VARIABLE).map(PathBuf::from);
        let own = || {
            path.or(variable.as_deref()).ok_or_else(|| {
                LabError::Configuration(format!(
                    "the task {} has no data of its own: name a file or folder with --data or {DATA_VARIABLE}",
                    task.name.as_str()
                ))
            })
        };
        refuse_unread(task)?;
        let limits = experiment.data.limits();
        let music = |music| PianoRolls::find(music, path, limits);
        let speech = |set| Speech::find(set, path, limits);
        let source = match task.name {
            TaskName::JsbChorales => Self::Corpus(music(Music::JsbChorales)?),
            TaskName::Nottingham => Self::Corpus(music(Music::Nottingham)?),
            TaskName::MuseData => Self::Corpus(music(Music::MuseData)?),
            TaskName::PianoMidi => Self::Corpus(music(Music::PianoMidi)?),
            TaskName::Midi => {
                let settings = MidiSettings::default();
                Self::Corpus(PianoRolls::open(own()?, settings, limits)?)
            }
            TaskName::Speech => Self::Corpus(speech(SpeechSet::LibriSpeech)?),
            TaskName::SpokenDigits => Self::Corpus(speech(SpeechSet::SpokenDigits)?),
            TaskName::Timit => Self::Corpus(speech(SpeechSet::Timit)?),
            TaskName::Recordings => Self::Corpus(Speech::open(own()?, limits)?),
            TaskName::Video => Self::Corpus(Video::find(path, frames, limits)?),
            TaskName::Kth => {
                let split = KthSplit::Standard;
                Self::Corpus(Video::kth(own()?, split, task.side, limits)?)
            }
            TaskName::Own => Self::Corpus(Own::open(own()?, frames, limits)?),
            TaskName::MovingDigits => Self::MovingDigits {
                data: Arc::new(Mnist::find(path, limits)?),
                digits: task.digits,
            },
            other => {
                return Err(LabError::Configuration(format!(
                    "the task {} has no recordings",
                    other.as_str()
                )));
            }
        };
        let fingerprint = source.fingerprint();
        let expected = &experiment.data.fingerprint;
        if !expected.is_empty() && *expected != fingerprint {
            let variable = match std::env::var_os(DATA_VARIABLE) {
                Some(_) if path.is_none() => format!(" through {DATA_VARIABLE}"),
                _ => String::new(),
            };
            return Err(LabError::Configuration(format!(
                "the recordings found{variable} ({}) are not those the run was made with; name theirs \
                 with --data",
                source.words()
            )));
        }
        experiment.data.fingerprint = fingerprint;
        experiment.data.step = source.step();
        if let Some(folder) = source.folder(path) {
            experiment.data.directory = folder.display().to_string();
        }
        Ok(source)
    }

    /// What a step of the data is.
    fn step(&self) -> StepSettings {
        let FrameShape {
            channels,
            height,
            width,
        } = self.frame();
        let Scale { mean, deviation } = self.scale();
        StepSettings {
            kind: self.kind(),
            channels,
            height,
            width,
            mean,
            deviation,
            steps_per_quarter: self.midi().steps_per_quarter,
        }
    }

    /// The data in words.
    pub fn words(&self) -> String {
        match self {
            Self::Corpus(corpus) => format!("{}: {}", corpus.name(), corpus.origin()),
            Self::MovingDigits { data, digits } => {
                format!(
                    "{digits} moving digits of {}: {}",
                    data.name(),
                    data.origin()
                )
            }
            Self::Described(_) => "data that are not at hand".into(),
        }
    }

    fn fingerprint(&self) -> String {
        match self {
            Self::Corpus(corpus) => corpus.fingerprint(),
            Self::MovingDigits { data, .. } => data.fingerprint().to_owned(),
            Self::Described(_) => String::new(),
        }
    }

    /// Where it was found, for a run that goes on elsewhere: what the user named, if that was a place.
    fn folder(&self, named: Option<&Path>) -> Option<PathBuf> {
        let origin = match self {
            Self::Corpus(corpus) => corpus.origin(),
            Self::MovingDigits { data, .. } => data.origin(),
            Self::Described(_) => return None,
        };
        let Origin::Folder(found) = origin else {
            return None;
        };
        let variable = std::env::var_os(DATA_VARIABLE).map(PathBuf::from);
        let place = named.map(Path::to_owned).or(variable);
        let place = place.unwrap_or_else(|| found.clone());
        Some(place.canonicalize().unwrap_or(place))
    }

    /// Dimensions of a step.
    pub fn frame(&self) -> FrameShape {
        match self {
            Self::Corpus(corpus) => corpus.frame(),
            Self::MovingDigits { .. } => MovingDigits::FRAME,
            Self::Described(step) => FrameShape {
                channels: step.channels,
                height: step.height,
                width: step.width,
            },
        }
    }

    /// What the numbers are.
    pub fn kind(&self) -> Kind {
        let corpus = match self {
            Self::Corpus(corpus) => corpus,
            Self::MovingDigits { .. } => return Kind::Pixels,
            Self::Described(step) => return step.kind,
        };
        let mut recordings = Part::ALL
            .into_iter()
            .flat_map(|part| corpus.recordings(part));
        match recordings
            .next()
            .map(|recording: &Recording| &recording.values)
        {
            Some(Values::Notes(_)) => Kind::Notes,
            Some(Values::Samples(_)) => Kind::Sound,
            Some(Values::Pixels(_)) => Kind::Pixels,
            Some(Values::Numbers(_)) | None => Kind::Numbers,
        }
    }

    /// How samples of sound were scaled.
    pub fn scale(&self) -> Scale {
        match self {
            Self::Corpus(corpus) => corpus.scale(),
            Self::MovingDigits { .. } => Scale::IDENTITY,
            Self::Described(step) => Scale {
                mean: step.mean,
                deviation: step.deviation,
            },
        }
    }

    /// How its steps are notes of a score.
    pub fn midi(&self) -> MidiSettings {
        match self {
            Self::Corpus(corpus) if corpus.name() == Music::JsbChorales.name() => MidiSettings {
                steps_per_quarter: 1,
                ..MidiSettings::default()
            },
            Self::Described(step) => MidiSettings {
                steps_per_quarter: step.steps_per_quarter,
                ..MidiSettings::default()
            },
            _ => MidiSettings::default(),
        }
    }

    /// The experiment's likelihood for these numbers.
    ///
    /// # Errors
    /// They cannot have it.
    pub fn likelihood(&self, experiment: &Experiment) -> Result<LikelihoodConfig, LabError> {
        let refuse = |wanted: &str| {
            let name = match experiment.model.likelihood {
                LikelihoodName::Bernoulli => "bernoulli",
                LikelihoodName::Gaussian => "gaussian",
                LikelihoodName::Normal => "normal",
            };
            Err(LabError::Configuration(format!(
                "model.likelihood is '{name}', for {} it must be {wanted}",
                self.words()
            )))
        };
        use LikelihoodName::{Bernoulli, Gaussian, Normal};
        match (self.kind(), experiment.model.likelihood) {
            (Kind::Notes, Gaussian | Normal) => refuse("bernoulli, as notes sound or do not"),
            (Kind::Sound | Kind::Numbers, Gaussian) => {
                refuse("normal, as its numbers are not intensities between 0 and 1")
            }
            (Kind::Sound, Bernoulli) => refuse("normal, as its numbers are samples of sound"),
            (Kind::Numbers, Bernoulli) if !self.within_unit() => {
                refuse("normal, as its numbers are not between 0 and 1")
            }
            (Kind::Sound, Normal) => {
                let bin = f64::from(self.scale().bin_width());
                Ok(experiment.likelihood_config(bin, false))
            }
            (Kind::Pixels, Normal) => Ok(experiment.likelihood_config(1.0 / 256.0, true)),
            _ => Ok(experiment.likelihood_config(0.0, false)),
        }
    }

    /// Whether all numbers lie in `[0, 1]`.
    fn within_unit(&self) -> bool {
        let Self::Corpus(corpus) = self else {
            return true;
        };
        let recordings = Part::ALL
            .into_iter()
            .flat_map(|part| corpus.recordings(part));
        recordings
            .map(|recording| &recording.values)
            .all(|values| match values {
                Values::Numbers(numbers) => numbers.iter().all(|x| (0.0..=1.0).contains(x)),
                _ => true,
            })
    }

    /// Training batch `index`: windows of `steps` steps.
    pub fn windows(
        &self,
        stream: &Stream,
        index: u64,
        batch: usize,
        steps: usize,
    ) -> Result<SequenceBatch, LabError> {
        Ok(match self {
            Self::Corpus(corpus) => corpus.window_batch(
                Part::Train,
                stream,
                index,
                batch,
                steps,
                Draw::EachRecording,
            )?,
            Self::MovingDigits { data, digits } => {
                let clips = MovingDigits::new(data.clone(), *digits, steps)?;
                clips.batch(Split::Train, stream, index, batch)
            }
            Self::Described(_) => return Err(self.missing()),
        })
    }

    /// Nothing can be read.
    fn missing(&self) -> LabError {
        LabError::Configuration("this needs the run's data: name them with --data".into())
    }

    /// Whether a part has recordings.
    pub fn has(&self, part: Part) -> bool {
        match self {
            Self::Corpus(corpus) => !corpus.recordings(part).is_empty(),
            // Digits are divided in two.
            Self::MovingDigits { .. } => part != Part::Valid,
            Self::Described(_) => false,
        }
    }

    /// Recordings of a part.
    pub fn count(&self, part: Part) -> usize {
        match self {
            Self::Corpus(corpus) => corpus.recordings(part).len(),
            Self::MovingDigits { .. } => HELD_OUT_CLIPS,
            Self::Described(_) => 0,
        }
    }

    /// Steps of a recording; `window` of a clip that is made.
    pub fn steps(&self, part: Part, row: usize, window: usize) -> usize {
        match self {
            Self::Corpus(corpus) => {
                let recording = corpus.recordings(part).get(row);
                recording.map_or(0, |recording| corpus.steps(recording))
            }
            Self::MovingDigits { .. } => window,
            Self::Described(_) => 0,
        }
    }

    /// Recordings of the larger held-out part.
    pub fn most_held_out(&self) -> usize {
        let counts = [Part::Valid, Part::Test].map(|part| self.count(part));
        counts.into_iter().max().unwrap_or(0)
    }

    /// Steps of the longest held-out recording; `window` of clips that are made.
    pub fn longest(&self, window: usize) -> usize {
        let held_out = [Part::Valid, Part::Test].into_iter();
        let rows = held_out.flat_map(|part| (0..self.count(part)).map(move |row| (part, row)));
        let steps = rows.map(|(part, row)| self.steps(part, row, window));
        steps.max().unwrap_or(window)
    }

    /// Bytes of all recordings as they are kept.
    pub fn bytes(&self) -> Count {
        let corpus = match self {
            Self::Corpus(corpus) => corpus,
            Self::MovingDigits { data, .. } => {
                let images = [Split::Train, Split::Test].map(|split| data.split(split).len());
                return Count::product(&[Images::SIZE, images.iter().sum()]);
            }
            Self::Described(_) => return Count::NONE,
        };
        let recordings = Part::ALL
            .into_iter()
            .flat_map(|part| corpus.recordings(part));
        let bytes = recordings.map(|recording| match &recording.values {
            Values::Notes(chords) => Count::product(&[16, chords.len()]),
            Values::Samples(samples) => Count::product(&[2, samples.len()]),
            Values::Pixels(pixels) => Count::from(pixels.len()),
            Values::Numbers(numbers) => Count::product(&[4, numbers.len()]),
        });
        bytes.sum()
    }

    /// Whole recordings of a part, by their numbers.
    pub fn whole(
        &self,
        part: Part,
        rows: &[usize],
        window: usize,
    ) -> Result<SequenceBatch, LabError> {
        match self {
            Self::Corpus(corpus) => Ok(corpus.whole(part, rows)?),
            Self::MovingDigits { data, digits } => {
                let clips = MovingDigits::new(data.clone(), *digits, window)?;
                let stream = Stream::new(0, "held-out clips");
                let mut all: Option<SequenceBatch> = None;
                for row in rows {
                    let one = clips.batch(Split::Test, &stream, *row as u64, 1);
                    match &mut all {
                        None => all = Some(one),
                        Some(all) => {
                            all.values.extend(one.values);
                            all.lengths.extend(one.lengths);
                            all.windows.extend(one.windows);
                            all.batch += 1;
                        }
                    }
                }
                all.ok_or_else(|| LabError::Configuration("no clip was asked for".into()))
            }
            Self::Described(_) => Err(self.missing()),
        }
    }

    /// What was converted or left out while reading, a line each.
    pub fn notes(&self, window: usize) -> Vec<String> {
        match self {
            Self::Corpus(corpus) => {
                let left_out = corpus.left_out(Part::Train, window);
                corpus.notes().iter().cloned().chain(left_out).collect()
            }
            Self::MovingDigits { .. } | Self::Described(_) => Vec::new(),
        }
    }
}
