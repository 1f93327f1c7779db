//! Files of sound become recordings at the rate of [`Speech::RATE`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use crate::audio::{Conversions, Resampler, Sound};
use crate::corpus::{Corpus, Parts, Recording, Values};
use crate::folder::{self, unusable};
use crate::{Encoding, Error, Origin, Speech};

/// Reads recordings and keeps count of what it converts.
#[derive(Default)]
pub(super) struct Reader {
    conversions: Conversions,
    resamplers: HashMap<u32, Resampler>,
}

impl Reader {
    pub fn read(&mut self, path: &Path, name: String) -> Result<Recording, Error> {
        self.decode(&folder::read(path)?, path, name)
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
            match self.resamplers.entry(sound.rate) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Resampler::new(sound.rate, Speech::RATE)),
            }
            .run(&sound.samples)
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

    pub fn corpus(self, name: &str, parts: Parts<Vec<Recording>>, origin: Origin) -> Corpus {
        Corpus::new(name, Speech::FRAME, parts, origin, self.conversions.lines())
    }
}
