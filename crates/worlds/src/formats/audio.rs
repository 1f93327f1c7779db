//! Sound files: WAV and NIST SPHERE, of any rate and number of channels.

mod resample;
mod sphere;

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

pub(crate) use self::resample::Resampler;
#[cfg(test)]
pub(crate) use self::sphere::tests::timit as sphere_file;
use crate::error::unusable;
use crate::files::Files;
use crate::{Error, Limits};

/// Sound in one channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    /// Samples per second.
    pub rate: u32,
    /// Samples in [-1, 1]; floating-point files may go beyond.
    pub samples: Vec<f32>,
    /// Number of channels of the file; the samples are their mean.
    pub channels: usize,
    /// How the samples were encoded in the file.
    pub encoding: Encoding,
}

/// How samples are encoded in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// Integers of this many bits.
    Integers(u16),
    /// 32-bit floating-point numbers.
    Floats,
    /// 8 bits on the logarithmic scale of ITU-T G.711, mu-law.
    MuLaw,
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Encoding::Integers(bits) => write!(formatter, "{bits}-bit integers"),
            Encoding::Floats => formatter.write_str("32-bit floating-point numbers"),
            Encoding::MuLaw => formatter.write_str("8-bit mu-law"),
        }
    }
}

/// Accepted rates, in samples per second.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=384_000;

impl Sound {
    /// Reads a WAV or NIST SPHERE file, told apart by their first bytes.
    ///
    /// # Errors
    /// The file cannot be read, has neither format, is truncated, holds no samples or numbers that are not
    /// finite, has an unsupported encoding, or exceeds the limits.
    pub fn read(path: &Path, limits: Limits) -> Result<Sound, Error> {
        Sound::decode(&Files::new(limits).read(path)?, path)
    }

    /// Decodes bytes that are already in memory; `path` is the name used in errors.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Sound, Error> {
        let decoded = match bytes {
            [b'R', b'I', b'F', b'F', ..] => wav(bytes),
            [b'N', b'I', b'S', b'T', b'_', b'1', b'A', ..] => sphere::decode(bytes),
            [] => Err("an empty file".to_owned()),
            _ => Err(format!(
                "neither WAV nor NIST SPHERE{}; convert it to WAV",
                guess(bytes)
            )),
        };
        let sound = decoded.map_err(|problem| unusable(path, problem))?;
        if !RATES.contains(&sound.rate) {
            let problem = format!(
                "{} samples per second; only {} to {} are read",
                sound.rate,
                RATES.start(),
                RATES.end()
            );
            return Err(unusable(path, problem));
        }
        Ok(sound)
    }

    /// The samples in 16 bits, clipped to [-1, 1).
    pub fn to_i16(samples: &[f32]) -> Vec<i16> {
        let full_scale = 32768.0;
        // `as` clips values outside to the nearest end.
        let rounded = samples
            .iter()
            .map(|sample| (sample * full_scale).round() as i16);
        rounded.collect()
    }

    /// The bytes of a WAV file of 16-bit samples in one channel.
    pub fn wav_bytes(rate: u32, samples: &[i16]) -> Vec<u8> {
        encode_wav(rate, 1, samples)
    }
}

/// The bytes of a 16-bit WAV file; `samples` is `[time, channels]`.
fn encode_wav(rate: u32, channels: u16, samples: &[i16]) -> Vec<u8> {
    let spec = WavSpec {
        channels,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut bytes = Cursor::new(Vec::new());
    let mut write = || {
        let mut writer = WavWriter::new(&mut bytes, spec)?;
        for &sample in samples {
            writer.write_sample(sample)?;
        }
        writer.finalize()
    };
    write().expect("memory takes all bytes, and 16 bits hold a sample");
    bytes.into_inner()
}

/// What a file seems to be instead.
fn guess(bytes: &[u8]) -> &'static str {
    match bytes {
        [b'f', b'L', b'a', b'C', ..] => " but FLAC",
        [b'O', b'g', b'g', b'S', ..] => " but Ogg",
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => " but MP3",
        [b'F', b'O', b'R', b'M', ..] => " but AIFF",
        [b'R', b'I', b'F', b'X', ..] => " but big-endian WAV",
        [b'a', b'j', b'k', b'g', ..] => " but Shorten",
        _ => "",
    }
}

const UNREAD: &str = "a WAV file with an unsupported encoding; convert it to integers of 8, 16, 24 or 32 \
                      bits or 32-bit floating-point numbers";

fn wav(bytes: &[u8]) -> Result<Sound, String> {
    let damaged = |cause: hound::Error| match cause {
        hound::Error::IoError(_) => {
            "truncated WAV file: it is shorter than its header says; fetch it again".to_owned()
        }
        hound::Error::Unsupported => UNREAD.to_owned(),
        // The reader's messages for 64-bit floating-point numbers, and for 12-bit and packed integers.
        hound::Error::FormatError(
            "bits per sample is not 32" | "sample bits exceeds size of sample",
        ) => UNREAD.to_owned(),
        cause => format!("damaged WAV file ({cause})"),
    };
    let reader = WavReader::new(bytes).map_err(damaged)?;
    let WavSpec {
        channels,
        sample_rate: rate,
        bits_per_sample,
        sample_format,
    } = reader.spec();
    let (encoding, samples): (_, Result<Vec<f32>, _>) = match sample_format {
        SampleFormat::Float => (Encoding::Floats, reader.into_samples::<f32>().collect()),
        SampleFormat::Int => {
            let full_scale = (1u64 << (bits_per_sample.clamp(1, 32) - 1)) as f32;
            let samples = reader.into_samples::<i32>();
            let scaled = samples.map(|sample| Ok(sample? as f32 / full_scale));
            (Encoding::Integers(bits_per_sample), scaled.collect())
        }
    };
    mono(
        rate,
        usize::from(channels),
        encoding,
        samples.map_err(damaged)?,
    )
}

/// The mean over the channels of `samples`, `[time, channels]`.
fn mono(
    rate: u32,
    channels: usize,
    encoding: Encoding,
    samples: Vec<f32>,
) -> Result<Sound, String> {
    if samples.is_empty() || channels == 0 {
        return Err("holds no samples".to_owned());
    }
    if let Some(place) = samples.iter().position(|sample| !sample.is_finite()) {
        return Err(format!(
            "sample {} of channel {}: {}, not a finite number",
            place / channels,
            place % channels,
            samples[place]
        ));
    }
    let samples = if channels == 1 {
        samples
    } else {
        let mean = |frame: &[f32]| frame.iter().sum::<f32>() / channels as f32;
        samples.chunks_exact(channels).map(mean).collect()
    };
    Ok(Sound {
        rate,
        samples,
        channels,
        encoding,
    })
}

/// Counts of the conversions made while reading files.
#[derive(Default)]
pub(crate) struct Conversions {
    counts: Vec<(String, usize, String)>,
}

impl Conversions {
    /// Counts a conversion of `file`; `what` completes "2 recordings ".
    pub fn count(&mut self, what: String, file: &str) {
        match self.counts.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, count, _)) => *count += 1,
            None => self.counts.push((what, 1, file.to_owned())),
        }
    }

    /// A line for every kind of conversion.
    pub fn lines(self) -> Vec<String> {
        let line = |(what, count, first): (String, usize, String)| {
            let mut line = format!(
                "{count} recording{} {what}",
                if count == 1 { "" } else { "s" }
            );
            let example = if count == 1 { "" } else { "first " };
            write!(line, " ({example}{first})").expect("a string takes all text");
            line
        };
        self.counts.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8]) -> Result<Sound, String> {
        let decoded = Sound::decode(bytes, Path::new("x.wav"));
        decoded.map_err(|error| error.to_string())
    }

    /// A WAV file of the given format tag, bits and data.
    fn raw_wav(format: u16, channels: u16, bits: u16, data: &[u8]) -> Vec<u8> {
        let block = channels * bits / 8;
        let mut bytes = b"RIFF".to_vec();
        bytes.extend((36 + data.len() as u32).to_le_bytes());
        bytes.extend(b"WAVEfmt \x10\0\0\0");
        bytes.extend(format.to_le_bytes());
        bytes.extend(channels.to_le_bytes());
        bytes.extend(8000u32.to_le_bytes());
        bytes.extend((8000 * u32::from(block)).to_le_bytes());
        bytes.extend(block.to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend(b"data");
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn integers_of_all_widths_and_floats_are_read() {
        let quarter = |bytes: Vec<u8>, encoding| {
            let sound = decode(&bytes).unwrap();
            assert_eq!((sound.rate, sound.encoding), (8000, encoding));
            assert_eq!(sound.samples, [0.25, -1.0]);
        };
        // Bytes are unsigned in this format, wider integers signed.
        quarter(raw_wav(1, 1, 8, &[160, 0]), Encoding::Integers(8));
        quarter(
            raw_wav(1, 1, 16, &[0, 0x20, 0, 0x80]),
            Encoding::Integers(16),
        );
        quarter(
            raw_wav(1, 1, 24, &[0, 0, 0x20, 0, 0, 0x80]),
            Encoding::Integers(24),
        );
        quarter(
            raw_wav(1, 1, 32, &[0, 0, 0, 0x20, 0, 0, 0, 0x80]),
            Encoding::Integers(32),
        );
        let floats = [0.25f32, -1.0].map(f32::to_le_bytes).concat();
        quarter(raw_wav(3, 1, 32, &floats), Encoding::Floats);

        let stereo = decode(&encode_wav(16000, 2, &[16384, 0, -16384, -16384])).unwrap();
        assert_eq!((stereo.channels, stereo.samples), (2, vec![0.25, -0.5]));
    }

    #[test]
    fn bad_files_are_refused() {
        let refused = |bytes: &[u8]| decode(bytes).unwrap_err();
        let whole = encode_wav(16000, 1, &[1, 2, 3, 4]);
        for length in 0..whole.len() {
            let error = refused(&whole[..length]);
            assert!(!error.contains('\n'), "{error}");
        }
        assert!(refused(&whole[..whole.len() - 1]).contains("truncated WAV file"));
        assert!(refused(&encode_wav(16000, 1, &[])).ends_with("holds no samples"));
        assert!(refused(&encode_wav(10, 1, &[1])).contains("10 samples per second"));
        assert!(refused(&raw_wav(7, 1, 8, &[0, 0])).contains("unsupported encoding"));
        let floats = [0.0, 0.0, 0.0, f32::NAN].map(f32::to_le_bytes).concat();
        assert!(refused(&raw_wav(3, 2, 32, &floats)).contains("sample 1 of channel 1: NaN"));
        assert!(refused(b"fLaC....").contains("but FLAC; convert it to WAV"));
        assert!(refused(b"text").contains("neither WAV nor NIST SPHERE; "));
        assert!(refused(b"").ends_with("an empty file"));
    }

    proptest! {
        #[test]
        fn written_samples_are_read_again(samples in prop::collection::vec(any::<i16>(), 1..99)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x.wav");
            fs::write(&path, Sound::wav_bytes(16000, &samples)).unwrap();
            let sound = Sound::read(&path, Limits::default()).unwrap();
            prop_assert_eq!(Sound::to_i16(&sound.samples), samples);
            fs::remove_file(path).unwrap();
        }
    }
}
