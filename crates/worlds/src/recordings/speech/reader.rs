//! Reads sound files as recordings at the rate of [`Speech::RATE`].

use std::path::{Path, PathBuf};

use crate::error::unusable;
use crate::files::{Files, Room};
use crate::folder;
use crate::formats::audio::{Conversions, Resampler, Sound};
use crate::recordings::corpus::{Corpus, Parts, Recording, Values};
use crate::{Encoding, Error, Limits, Origin, Speech};

/// Reads recordings and counts the conversions.
pub(super) struct Reader {
    pub files: Files,
    conversions: Conversions,
    /// The resampler of the last rate. Files of a folder usually have the same rate.
    resampler: Option<(u32, Resampler)>,
}

impl Reader {
    pub fn new(limits: Limits) -> Reader {
        Reader {
            files: Files::new(limits),
            conversions: Conversions::default(),
            resampler: None,
        }
    }

    pub fn read(&mut self, path: &Path, name: String) -> Result<Recording, Error> {
        let bytes = self.files.read(path)?;
        let recording = self.decode(&bytes, path, name)?;
        self.files.keep(path, recording.values.bytes())?;
        Ok(recording)
    }

    pub fn read_all(
        &mut self,
        folder: &Path,
        parts: Parts<Vec<PathBuf>>,
    ) -> Result<Parts<Vec<Recording>>, Error> {
        parts.try_map(|files| {
            let files = files.into_iter();
            files
                .map(|file| self.read(&file, folder::within(folder, &file)))
                .collect()
        })
    }

    pub fn decode(&mut self, bytes: &[u8], path: &Path, name: String) -> Result<Recording, Error> {
        let sound = Sound::decode(bytes, path)?;
        if sound.encoding != Encoding::Integers(16) {
            let what = format!("of {} taken to 16 bits", sound.encoding);
            self.conversions.count(what, &name);
        }
        if sound.channels > 1 {
            let what = format!("of {} channels mixed to one by their mean", sound.channels);
            self.conversions.count(what, &name);
        }
        let samples = if sound.rate == Speech::RATE {
            sound.samples
        } else {
            let what = format!("resampled from {} to {} Hz", sound.rate, Speech::RATE);
            self.conversions.count(what, &name);
            self.resampled(&sound, self.files.room(bytes.len()))
                .map_err(|problem| unusable(path, problem))?
        };
        if samples.len() < Speech::FRAME_SAMPLES {
            return Err(unusable(
                path,
                format!(
                    "{} samples at {} Hz, but one frame takes {}",
                    samples.len(),
                    Speech::RATE,
                    Speech::FRAME_SAMPLES
                ),
            ));
        }
        if samples.iter().any(|sample| !(-1.0..=1.0).contains(sample)) {
            self.conversions
                .count("cut off at full scale".to_owned(), &name);
        }
        let values = Values::Samples(Sound::to_i16(&samples));
        Ok(Recording { name, values })
    }

    /// The samples of `sound` at the rate of [`Speech::RATE`]; the error is one line without the name of the file.
    fn resampled(&mut self, sound: &Sound, room: Room) -> Result<Vec<f32>, String> {
        let known = self.resampler.take();
        let known = known.filter(|(rate, _)| *rate == sound.rate);
        let (_, resampler) = self.resampler.insert(
            known.unwrap_or_else(|| (sound.rate, Resampler::new(sound.rate, Speech::RATE))),
        );
        room.check(size_of::<f32>() * resampler.length(sound.samples.len()))?;
        Ok(resampler.run(&sound.samples))
    }

    pub fn corpus(self, name: &str, parts: Parts<Vec<Recording>>, origin: Origin) -> Corpus {
        let mut notes = self.conversions.lines();
        notes.extend(self.files.notes());
        Corpus::new(name, Speech::FRAME, parts, origin, notes)
    }
}
