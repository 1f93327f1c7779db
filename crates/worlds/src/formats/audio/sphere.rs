//! NIST SPHERE files, in which TIMIT is published: a header of text lines, then samples.
//!
//! Source: the documentation of the SPeech HEader REsources, version 2.6.

use super::{Encoding, Sound, mono};

/// The fields of a header that are used here.
#[derive(Default)]
struct Header {
    channels: Option<usize>,
    count: Option<usize>,
    rate: Option<u32>,
    bytes: Option<usize>,
    order: Option<String>,
    coding: Option<String>,
}

/// The error is one line without the name of the file.
pub(super) fn decode(file: &[u8]) -> Result<Sound, String> {
    let truncated = || "truncated SPHERE header; fetch the file again".to_owned();
    // "NIST_1A\n", then the header's length in seven characters and a line end.
    let length = file.get(8..16).ok_or_else(truncated)?;
    let length = std::str::from_utf8(length).ok().map(str::trim);
    let length: usize = length
        .and_then(|length| length.parse().ok())
        .filter(|length| *length >= 16)
        .ok_or("damaged SPHERE header: its second line should be its length in bytes")?;
    let lines = file.get(16..length).ok_or_else(truncated)?;
    let header = header(&String::from_utf8_lossy(lines))?;
    let data = &file[length..];

    let coding = header.coding.as_deref().unwrap_or("pcm");
    let shortened = coding.contains("shorten") || data.starts_with(b"ajkg");
    if shortened || coding.contains("embedded") {
        return Err(format!(
            "SPHERE samples compressed by {}, which is not supported; convert the file with `sph2pipe -f wav` first",
            if shortened { "Shorten" } else { coding }
        ));
    }
    let missing = |name: &str| format!("SPHERE header without {name}");
    let channels = header.channels.unwrap_or(1);
    let rate = header.rate.ok_or_else(|| missing("sample_rate"))?;
    let count = header.count.ok_or_else(|| missing("sample_count"))?;
    let mu_law = match coding {
        "pcm" => false,
        "ulaw" | "mu-law" => true,
        _ => {
            return Err(format!(
                "SPHERE samples coded as {coding}; only pcm and ulaw are supported"
            ));
        }
    };
    let width = header.bytes.unwrap_or(if mu_law { 1 } else { 2 });
    let expected = if mu_law { 1 } else { 2 };
    if width != expected {
        return Err(format!(
            "SPHERE samples of {width} bytes each; {coding} is supported only with {expected}"
        ));
    }
    let wanted = count
        .checked_mul(channels)
        .and_then(|count| count.checked_mul(width));
    let Some(data) = wanted.and_then(|wanted| data.get(..wanted)) else {
        return Err(format!(
            "truncated SPHERE file: {} bytes of samples, but the header claims {count} x {channels} of {width} bytes; fetch it again",
            data.len()
        ));
    };
    let (encoding, samples) = if mu_law {
        let samples = data.iter().map(|&byte| f32::from(expand(byte)) / 32768.0);
        (Encoding::MuLaw, samples.collect())
    } else {
        let value = match header.order.as_deref() {
            Some("01") => i16::from_le_bytes,
            Some("10") => i16::from_be_bytes,
            other => {
                return Err(format!(
                    "SPHERE samples in the byte order {}; only 01 and 10 are supported",
                    other.unwrap_or("that the header does not give")
                ));
            }
        };
        let pairs = data.as_chunks::<2>().0.iter();
        let samples = pairs.map(|&pair| f32::from(value(pair)) / 32768.0);
        (Encoding::Integers(16), samples.collect())
    };
    mono(rate, channels, encoding, samples)
}

/// Lines `name -type value`, up to `end_head`.
fn header(lines: &str) -> Result<Header, String> {
    let mut header = Header::default();
    for line in lines.lines() {
        let line = line.trim();
        if line == "end_head" {
            return Ok(header);
        }
        let mut words = line.splitn(3, char::is_whitespace);
        let (Some(name), Some(_), Some(value)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let value = value.trim();
        let number = || -> Result<usize, String> {
            let problem = |_| format!("SPHERE header: {name} is {value:?}, not a number");
            value.parse().map_err(problem)
        };
        match name {
            "channel_count" => header.channels = Some(number()?),
            "sample_count" => header.count = Some(number()?),
            "sample_rate" => header.rate = Some(number()?.try_into().unwrap_or(u32::MAX)),
            "sample_n_bytes" => header.bytes = Some(number()?),
            "sample_byte_format" => header.order = Some(value.to_owned()),
            "sample_coding" => header.coding = Some(value.to_ascii_lowercase()),
            _ => {}
        }
    }
    Err("damaged SPHERE header: it has no line end_head".to_owned())
}

/// A mu-law byte as 14 bits in the upper part of 16, by ITU-T G.711.
fn expand(byte: u8) -> i16 {
    let byte = !byte;
    let exponent = (byte >> 4) & 7;
    let magnitude = ((i16::from(byte & 0xf) << 3) + 0x84) << exponent;
    let magnitude = magnitude - 0x84;
    if byte & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A SPHERE file with these header lines, in the layout of TIMIT.
    pub(crate) fn sphere(lines: &[&str], data: &[u8]) -> Vec<u8> {
        let mut header = "NIST_1A\n   1024\n".to_owned();
        for line in lines {
            header.push_str(line);
            header.push('\n');
        }
        header.push_str("end_head\n");
        let mut bytes = header.into_bytes();
        bytes.resize(1024, b' ');
        bytes.extend(data);
        bytes
    }

    /// A file with these samples and the header lines of TIMIT.
    pub(crate) fn timit(samples: &[i16]) -> Vec<u8> {
        let count = format!("sample_count -i {}", samples.len());
        let lines = [
            "database_id -s5 TIMIT",
            "database_version -s3 1.0",
            "utterance_id -s8 cjf0_sa1",
            "channel_count -i 1",
            &count,
            "sample_rate -i 16000",
            "sample_min -i -2191",
            "sample_n_bytes -i 2",
            "sample_byte_format -s2 01",
            "sample_sig_bits -i 16",
        ];
        let data: Vec<u8> = samples
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        sphere(&lines, &data)
    }

    #[test]
    fn both_byte_orders_and_mu_law_are_read() {
        let sound = decode(&timit(&[8192, -32768, 1])).unwrap();
        assert_eq!((sound.rate, sound.channels), (16000, 1));
        assert_eq!(sound.samples, [0.25, -1.0, 1.0 / 32768.0]);
        let lines = [
            "channel_count -i 2",
            "sample_count -i 1",
            "sample_rate -i 8000",
            "sample_n_bytes -i 2",
            "sample_byte_format -s2 10",
            "sample_coding -s3 pcm",
        ];
        let sound = decode(&sphere(&lines, &[0x20, 0, 0x40, 0])).unwrap();
        assert_eq!(sound.samples, [0.375]);
        let lines = [
            "sample_count -i 4",
            "sample_rate -i 8000",
            "sample_n_bytes -i 1",
            "sample_coding -s4 ulaw",
        ];
        let sound = decode(&sphere(&lines, &[0xff, 0x7f, 0x80, 0x00])).unwrap();
        assert_eq!(sound.encoding, Encoding::MuLaw);
        let values: Vec<f32> = sound
            .samples
            .iter()
            .map(|sample| sample * 32768.0)
            .collect();
        assert_eq!(values, [0.0, 0.0, 32124.0, -32124.0]);
    }

    #[test]
    fn bad_files_are_refused() {
        let whole = timit(&[1, 2, 3]);
        for length in 0..whole.len() {
            let error = decode(&whole[..length]).unwrap_err();
            let wanted = if length < 1024 {
                "SPHERE header"
            } else {
                "truncated SPHERE file"
            };
            assert!(error.contains(wanted), "{length}: {error}");
        }
        let refused = |lines: &[&str]| decode(&sphere(lines, &[0; 8])).unwrap_err();
        let full = [
            "sample_count -i 2",
            "sample_rate -i 16000",
            "sample_byte_format -s2 01",
        ];
        assert!(decode(&sphere(&full, &[0; 8])).is_ok());
        let with = |line| refused(&[full[0], full[1], full[2], line]);
        let shorten = with("sample_coding -s26 pcm,embedded-shorten-v2.00");
        assert!(shorten.contains("compressed by Shorten"), "{shorten}");
        assert!(with("sample_coding -s4 alaw").contains("coded as alaw"));
        assert!(with("sample_n_bytes -i 3").contains("of 3 bytes each"));
        assert!(with("channel_count -i 0").contains("holds no samples"));
        assert!(with("channel_count -i two").contains("channel_count is \"two\""));
        assert!(with("channel_count -i 18446744073709551615").contains("truncated"));
        assert!(with("sample_byte_format -s2 11").contains("byte order 11"));
        assert!(refused(&full[..2]).contains("byte order"));
        assert!(refused(&full[1..]).contains("without sample_count"));
        assert!(
            decode(b"NIST_1A\n   10x4\n")
                .unwrap_err()
                .contains("second line")
        );
        let mut endless = timit(&[1]);
        let end = endless
            .windows(8)
            .position(|part| part == b"end_head")
            .unwrap();
        endless[end] = b'E';
        assert!(decode(&endless).unwrap_err().contains("no line end_head"));
    }
}
