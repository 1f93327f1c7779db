//! TensorBoard event files: scalars and pictures of a run, to be watched while it trains.
//!
//! A file is a series of TFRecords. Each holds an `Event` message of TensorFlow's `event.proto` and a masked CRC-32C; the
//! few fields written here are declared below. The numbers that a resumed run needs are in `metrics.jsonl`, not here.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use mnemora_worlds::tfrecord::record;
use prost::Message;

/// An event file being written.
///
/// Events are buffered: call [`flush`](Self::flush) at each log interval, so that a reader sees them and a killed
/// process loses little.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl EventWriter {
    /// Starts a new event file in `directory`, which is created if it is missing.
    ///
    /// - `first_step`: the first step this process will log. If it is not 0 (a resumed run), readers are told to drop
    ///   everything that earlier files of the directory hold at this step or later: it was logged after the checkpoint
    ///   from which this process continues.
    /// - `wall_time`: now, in seconds since 1970; it is also part of the file name, so that files sort by start time.
    ///
    /// # Errors
    /// If the directory or the file cannot be created; the message names the path.
    pub fn create(directory: &Path, first_step: u64, wall_time: f64) -> io::Result<Self> {
        std::fs::create_dir_all(directory).map_err(|error| at(directory, error))?;
        let (path, file) = create_unique(directory, wall_time)?;
        let mut writer = Self {
            path,
            file: BufWriter::new(file),
        };
        writer.write(Event {
            wall_time,
            file_version: Some("brain.Event:2".to_owned()),
            ..Event::default()
        })?;
        if first_step > 0 {
            writer.write(Event {
                wall_time,
                step: proto_step(first_step),
                session_log: Some(SessionLog {
                    status: SESSION_START,
                }),
                ..Event::default()
            })?;
        }
        writer.flush()?;
        Ok(writer)
    }

    /// The file being written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Logs one value. TensorBoard groups tags by their `prefix/`.
    ///
    /// - `wall_time`: seconds since 1970
    ///
    /// # Errors
    /// If writing fails; the message names the path.
    pub fn scalar(&mut self, tag: &str, step: u64, value: f32, wall_time: f64) -> io::Result<()> {
        let value = Value {
            tag: tag.to_owned(),
            simple_value: Some(value),
            image: None,
        };
        self.summary(value, step, wall_time)
    }

    /// Logs one picture, already encoded as an 8-bit RGB PNG of `width` x `height` pixels.
    ///
    /// - `wall_time`: seconds since 1970
    ///
    /// # Errors
    /// If writing fails (the message names the path), or if a side does not fit a 32-bit integer.
    pub fn image_png(
        &mut self,
        tag: &str,
        step: u64,
        png: &[u8],
        (width, height): (usize, usize),
        wall_time: f64,
    ) -> io::Result<()> {
        let side = |pixels: usize| {
            i32::try_from(pixels).map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!(
                        "picture {tag:?} has a side of {pixels} pixels, too long for an event file"
                    ),
                )
            })
        };
        let value = Value {
            tag: tag.to_owned(),
            simple_value: None,
            image: Some(EncodedImage {
                height: side(height)?,
                width: side(width)?,
                colorspace: COLORSPACE_RGB,
                encoded_image_string: png.to_vec(),
            }),
        };
        self.summary(value, step, wall_time)
    }

    /// Passes all events so far to the operating system, so that readers see them.
    ///
    /// # Errors
    /// If writing fails; the message names the path.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| at(&self.path, error))
    }

    fn summary(&mut self, value: Value, step: u64, wall_time: f64) -> io::Result<()> {
        self.write(Event {
            wall_time,
            step: proto_step(step),
            summary: Some(Summary { value: vec![value] }),
            ..Event::default()
        })
    }

    fn write(&mut self, event: Event) -> io::Result<()> {
        self.file
            .write_all(&record(&event.encode_to_vec()))
            .map_err(|error| at(&self.path, error))
    }
}

/// The counter at the end gives different names to two starts within one clock tick.
fn create_unique(directory: &Path, wall_time: f64) -> io::Result<(PathBuf, File)> {
    let since_epoch = std::time::Duration::try_from_secs_f64(wall_time).unwrap_or_default();
    let (seconds, micros) = (since_epoch.as_secs(), since_epoch.subsec_micros());
    let process = std::process::id();
    let mut attempt = 0_u32;
    loop {
        let name =
            format!("events.out.tfevents.{seconds:010}.{micros:06}.mnemora.{process}.{attempt}");
        let path = directory.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
            Err(error) => return Err(at(&path, error)),
        }
    }
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn proto_step(step: u64) -> i64 {
    i64::try_from(step).unwrap_or(i64::MAX)
}

/// `SessionLog.SessionStatus.START`
const SESSION_START: i32 = 1;
/// `Summary.Image.colorspace`: 8-bit RGB
const COLORSPACE_RGB: i32 = 3;

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session_log: Option<SessionLog>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
    #[prost(message, optional, tag = "4")]
    image: Option<EncodedImage>,
}

#[derive(Clone, PartialEq, Message)]
struct EncodedImage {
    #[prost(int32, tag = "1")]
    height: i32,
    #[prost(int32, tag = "2")]
    width: i32,
    #[prost(int32, tag = "3")]
    colorspace: i32,
    #[prost(bytes = "vec", tag = "4")]
    encoded_image_string: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::tfrecord::masked_crc;

    const NOW: f64 = 1_700_000_000.25;

    /// Reads records and checks both CRCs of each.
    fn events(path: &Path) -> Vec<Event> {
        let file = std::fs::read(path).unwrap();
        let mut rest = file.as_slice();
        let mut events = Vec::new();
        while !rest.is_empty() {
            let (length, tail) = rest.split_at(8);
            let (length_crc, tail) = tail.split_at(4);
            assert_eq!(length_crc, masked_crc(length).to_le_bytes());
            let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
            let (bytes, tail) = tail.split_at(length);
            let (bytes_crc, tail) = tail.split_at(4);
            assert_eq!(bytes_crc, masked_crc(bytes).to_le_bytes());
            events.push(Event::decode(bytes).unwrap());
            rest = tail;
        }
        events
    }

    #[test]
    fn own_records_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = EventWriter::create(&directory.path().join("new"), 0, NOW).unwrap();
        writer.scalar("bound/train", 0, 0.0, NOW).unwrap();
        writer.scalar("bound/train", 7, -96.5, NOW + 1.0).unwrap();
        writer
            .image_png("samples", 7, b"png", (30, 20), NOW)
            .unwrap();
        writer.flush().unwrap();
        let events = events(writer.path());
        assert_eq!(events.len(), 4);
        assert_eq!(events[0].file_version.as_deref(), Some("brain.Event:2"));
        let value = |event: &Event| event.summary.as_ref().unwrap().value[0].clone();
        // Zero is written as a value, not as a missing field.
        assert_eq!(value(&events[1]).simple_value, Some(0.0));
        assert_eq!((events[2].step, events[2].wall_time), (7, NOW + 1.0));
        assert_eq!(value(&events[2]).simple_value, Some(-96.5));
        assert_eq!(value(&events[2]).tag, "bound/train");
        let image = value(&events[3]).image.unwrap();
        assert_eq!((image.width, image.height, image.colorspace), (30, 20, 3));
        assert_eq!(image.encoded_image_string, b"png");
    }

    #[test]
    fn resuming_declares_a_restart_in_a_file_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let first = EventWriter::create(directory.path(), 0, NOW).unwrap();
        let second = EventWriter::create(directory.path(), 500, NOW).unwrap();
        assert_ne!(first.path(), second.path());
        assert!(
            events(first.path())
                .iter()
                .all(|event| event.session_log.is_none())
        );
        let restart = &events(second.path())[1];
        assert_eq!(restart.step, 500);
        assert_eq!(restart.session_log, Some(SessionLog { status: 1 }));
    }

    #[test]
    fn failures_name_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let blocked = directory.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        let error = EventWriter::create(&blocked, 0, NOW).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
