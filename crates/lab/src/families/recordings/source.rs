//! Sources of recorded sequences, and the kind of their numbers.

use super::tasks;
use crate::{
    Experiment, LabError,
    experiment::{Kind, LikelihoodName, StepSettings, data::named_for},
};
use mnemora_memory::Count;
use mnemora_models::LikelihoodConfig;
use mnemora_worlds::{
    Corpus, DataSet, Draw, FrameShape, Images, MidiSettings, MovingDigits, Music, Origin, Part,
    Recording, Scale, SequenceBatch, Split, Stream, Values,
};
use std::{path::Path, sync::Arc};

/// The number of moving-digits clips that serve as a held-out part.
const HELD_OUT_CLIPS: usize = 256;

/// Recordings, or a generator of clips.
pub enum Source {
    /// Recorded data.
    Corpus(Corpus),
    /// Clips generated on the fly.
    MovingDigits {
        /// The digits that move.
        data: Arc<DataSet>,
        /// Digits per clip.
        digits: usize,
    },
    /// Only the description of a step: enough to filter, not to train or evaluate.
    Described(StepSettings),
}

impl Source {
    /// Finds the data of an experiment and records their identity.
    pub fn find(experiment: &mut Experiment, data: Option<&Path>) -> Result<Self, LabError> {
        let path = experiment.data.path(data);
        let path = path.as_deref();
        let source = tasks::find(experiment, path)?;
        let settings = &mut experiment.data;
        let fingerprint = source.fingerprint();
        settings.check(&fingerprint, source.words(), path)?;
        let place = source.origin().and_then(|origin| named_for(origin, path));
        settings.record(place, fingerprint);
        settings.step = source.step();
        Ok(source)
    }

    /// The description of a step.
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
            Self::Described(_) => "data that are not available".into(),
        }
    }

    fn fingerprint(&self) -> String {
        match self {
            Self::Corpus(corpus) => corpus.fingerprint(),
            Self::MovingDigits { data, .. } => data.fingerprint().to_owned(),
            Self::Described(_) => String::new(),
        }
    }

    /// Where the data were found.
    fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Corpus(corpus) => Some(corpus.origin()),
            Self::MovingDigits { data, .. } => Some(data.origin()),
            Self::Described(_) => None,
        }
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

    /// The kind of the numbers.
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

    /// How samples of sound are scaled.
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

    /// How steps map to the notes of a score.
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
    /// If the numbers cannot have it.
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
            (Kind::Notes, Gaussian | Normal) => refuse("bernoulli, because notes are on or off"),
            (Kind::Sound | Kind::Numbers, Gaussian) => {
                refuse("normal, because its numbers are not intensities between 0 and 1")
            }
            (Kind::Sound, Bernoulli) => refuse("normal, because its numbers are samples of sound"),
            (Kind::Numbers, Bernoulli) if !self.within_unit() => {
                refuse("normal, because its numbers are not between 0 and 1")
            }
            (Kind::Sound, Normal) => {
                let bin = f64::from(self.scale().bin_width());
                Ok(experiment.likelihood_config(bin, false))
            }
            (Kind::Pixels, Normal) => Ok(experiment.likelihood_config(1.0 / 256.0, true)),
            _ => Ok(experiment.likelihood_config(0.0, false)),
        }
    }

    /// Whether all numbers are in `[0, 1]`.
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

    /// The error if only the description of a step is available.
    fn missing(&self) -> LabError {
        LabError::Configuration("this needs the run's data: name them with --data".into())
    }

    /// Whether a part has recordings.
    pub fn has(&self, part: Part) -> bool {
        match self {
            Self::Corpus(corpus) => !corpus.recordings(part).is_empty(),
            // The digits are split into two halves.
            Self::MovingDigits { .. } => part != Part::Valid,
            Self::Described(_) => false,
        }
    }

    /// Number of recordings in a part.
    pub fn count(&self, part: Part) -> usize {
        match self {
            Self::Corpus(corpus) => corpus.recordings(part).len(),
            Self::MovingDigits { .. } => HELD_OUT_CLIPS,
            Self::Described(_) => 0,
        }
    }

    /// Steps of a recording; for generated clips, `window`.
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

    /// Number of recordings in the larger held-out part.
    pub fn most_held_out(&self) -> usize {
        let counts = [Part::Valid, Part::Test].map(|part| self.count(part));
        counts.into_iter().max().unwrap_or(0)
    }

    /// Steps of the longest held-out recording; for generated clips, `window`.
    pub fn longest(&self, window: usize) -> usize {
        let held_out = [Part::Valid, Part::Test].into_iter();
        let rows = held_out.flat_map(|part| (0..self.count(part)).map(move |row| (part, row)));
        let steps = rows.map(|(part, row)| self.steps(part, row, window));
        steps.max().unwrap_or(window)
    }

    /// Bytes of all recordings in memory.
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

    /// Whole recordings of a part, by number.
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

    /// Notes on what was converted or left out while reading, one line each.
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
