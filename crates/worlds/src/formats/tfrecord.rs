//! TFRecord files: records of bytes, each with two checksums.
//!
//! A record is its length (u64), the masked CRC-32C of the length (u32), the bytes, and their masked CRC-32C (u32); all
//! numbers are little-endian.

use crate::Error;
use crate::error::{refused, unusable};
use crate::files::{Files, Room};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Bytes of a record besides its content.
const AROUND: u64 = 16;

/// One record.
pub fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(bytes.len() + AROUND as usize);
    record.extend_from_slice(&length);
    record.extend_from_slice(&masked_crc(&length).to_le_bytes());
    record.extend_from_slice(bytes);
    record.extend_from_slice(&masked_crc(bytes).to_le_bytes());
    record
}

/// CRC-32C, rotated and shifted as TFRecord requires: the plain CRC of data that contains CRCs is weak.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

/// The records of a file, one at a time.
pub(crate) struct Records<'a> {
    path: &'a Path,
    file: BufReader<File>,
    /// Bytes that are not read yet.
    left: u64,
    room: Room,
    /// Records so far.
    count: usize,
}

impl<'a> Records<'a> {
    pub fn open(path: &'a Path, files: &Files) -> Result<Self, Error> {
        let (file, size) = files.open(path)?;
        Ok(Self {
            path,
            file: BufReader::new(file),
            left: size as u64,
            room: files.room(size),
            count: 0,
        })
    }

    /// A record that is read, by its number from 1; `None` at the end of the file.
    ///
    /// # Errors
    /// If the record is cut short, or a checksum is not that of its bytes.
    pub fn read(&mut self) -> Result<Option<(usize, Vec<u8>)>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.count += 1;
        let (path, count) = (self.path, self.count);
        let broken =
            |problem: String| unusable(path, format!("record {count} of TFRecord: {problem}"));
        let Some(most) = self.left.checked_sub(AROUND) else {
            return Err(broken(format!(
                "cut short: {} bytes follow, but a record has at least {AROUND}",
                self.left
            )));
        };
        let (length, sum) = (self.number::<8>()?, self.number::<4>()?);
        if masked_crc(&length) != u32::from_le_bytes(sum) {
            return Err(broken(
                "the checksum (CRC-32C) of its length is wrong: damaged, or not a TFRecord file"
                    .into(),
            ));
        }
        let length = u64::from_le_bytes(length);
        if length > most {
            return Err(broken(format!(
                "cut short: it should have {length} bytes, but {most} follow"
            )));
        }
        self.room.check(length as usize).map_err(broken)?;
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        let sum = self.number::<4>()?;
        if masked_crc(&bytes) != u32::from_le_bytes(sum) {
            return Err(broken(
                "the checksum (CRC-32C) of its bytes is wrong: the file is damaged, fetch it again"
                    .into(),
            ));
        }
        self.left = most - length;
        Ok(Some((count, bytes)))
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let read = self.file.read_exact(bytes);
        read.map_err(|cause| refused(self.path, cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tfrecord");
        std::fs::write(&path, bytes).unwrap();
        let files = Files::new(Limits::default());
        let mut records = Records::open(&path, &files).unwrap();
        let mut all = Vec::new();
        loop {
            match records.read() {
                Ok(Some((number, bytes))) => {
                    all.push(bytes);
                    assert_eq!(number, all.len());
                }
                Ok(None) => return Ok(all),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    #[test]
    fn masked_crc_of_known_bytes() {
        // RFC 3720, B.4: the CRC-32C of 32 zero bytes is 8a9136aa; masked by hand.
        assert_eq!(masked_crc(&[0; 32]), 0x0fd7_fffa);
    }

    #[test]
    fn records_come_back() {
        let contents: [&[u8]; 3] = [b"one", b"", &[7; 1000]];
        let file: Vec<u8> = contents.iter().flat_map(|bytes| record(bytes)).collect();
        assert_eq!(read(&file).unwrap(), contents);
        assert!(read(&[]).unwrap().is_empty());
    }

    /// Each file that ends inside a record is refused, as is each with a changed byte.
    #[test]
    fn cut_and_damaged_records_are_refused() {
        let file = [record(b"one"), record(b"two")].concat();
        for length in 1..file.len() {
            match read(&file[..length]) {
                Ok(found) => assert_eq!((length, found.len()), (file.len() / 2, 1)),
                Err(error) => assert!(error.contains("cut short"), "{error}"),
            }
        }
        for place in 0..file.len() {
            let mut damaged = file.clone();
            damaged[place] ^= 1;
            let error = read(&damaged).unwrap_err();
            let number = 1 + place / (file.len() / 2);
            assert!(error.contains(&format!("record {number} of")), "{error}");
            assert!(error.contains("checksum"), "{error}");
        }
    }
}
