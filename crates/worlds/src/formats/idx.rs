//! The idx format, in which MNIST is published: a big-endian header and unsigned bytes, plain or
//! compressed with gzip.
//!
//! ```text
//! 0x00000803  count  rows  columns  pixel*      images, row-major, 0 = background
//! 0x00000801  count                 label*      labels
//! ```
//! Source: the format note on the original MNIST page (LeCun, Cortes, Burges).
//!
//! Compression is recognised by the first two bytes of a file, not by its name. Archives of several gzip
//! members are read as their concatenation (RFC 1952, 2.2). The data after the header must be exactly
//! as long as the header claims.

use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::unusable;
use crate::files::{Files, Room, beyond};
use crate::{Error, Limits};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const IMAGES_MAGIC: u32 = 0x0000_0803;
const LABELS_MAGIC: u32 = 0x0000_0801;

/// Grey images of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Number of images.
    pub count: usize,
    /// Pixel rows of an image.
    pub rows: usize,
    /// Pixel columns of an image.
    pub columns: usize,
    /// `[count, rows, columns]` row-major, 0 (background) to 255 (ink).
    pub pixels: Vec<u8>,
}

/// Reads an image file.
///
/// # Errors
/// The file cannot be read, or is not an idx file of images with exactly the data that its header
/// claims, or exceeds the limits.
pub fn read_images(path: &Path, limits: Limits) -> Result<Images, Error> {
    open_images(path, &Files::new(limits))
}

/// Reads a label file.
///
/// # Errors
/// The file cannot be read, or is not an idx file of labels with exactly the data that its header
/// claims, or exceeds the limits.
pub fn read_labels(path: &Path, limits: Limits) -> Result<Vec<u8>, Error> {
    open_labels(path, &Files::new(limits))
}

pub(crate) fn open_images(path: &Path, files: &Files) -> Result<Images, Error> {
    let (file, size) = files.open(path)?;
    let name = path.display().to_string();
    images(BufReader::new(file), &name, files.room(size))
}

pub(crate) fn open_labels(path: &Path, files: &Files) -> Result<Vec<u8>, Error> {
    let (file, size) = files.open(path)?;
    let name = path.display().to_string();
    labels(BufReader::new(file), &name, files.room(size))
}

/// Decodes images that are already in memory; `file` is the name used in errors.
///
/// # Errors
/// As [`read_images`].
pub fn decode_images(bytes: &[u8], file: &str) -> Result<Images, Error> {
    images(bytes, file, Limits::default().room(bytes.len()))
}

/// Decodes labels that are already in memory; `file` is the name used in errors.
///
/// # Errors
/// As [`read_labels`].
pub fn decode_labels(bytes: &[u8], file: &str) -> Result<Vec<u8>, Error> {
    labels(bytes, file, Limits::default().room(bytes.len()))
}

/// The plain idx file of these images.
///
/// # Errors
/// The dimensions do not fit the pixels or a 32-bit header.
pub fn encode_images(images: &Images) -> Result<Vec<u8>, Error> {
    encode(
        IMAGES_MAGIC,
        [images.count, images.rows, images.columns],
        &images.pixels,
    )
}

/// The plain idx file of these labels.
///
/// # Errors
/// There are too many labels for a 32-bit header.
pub fn encode_labels(labels: &[u8]) -> Result<Vec<u8>, Error> {
    encode(LABELS_MAGIC, [labels.len()], labels)
}

fn images(source: impl Read, file: &str, room: Room) -> Result<Images, Error> {
    let ([count, rows, columns], pixels) = decode(source, file, IMAGES_MAGIC, room)?;
    Ok(Images {
        count,
        rows,
        columns,
        pixels,
    })
}

fn labels(source: impl Read, file: &str, room: Room) -> Result<Vec<u8>, Error> {
    let ([_count], labels) = decode(source, file, LABELS_MAGIC, room)?;
    Ok(labels)
}

/// Decompresses where needed and decodes an array of `AXES` dimensions.
fn decode<const AXES: usize>(
    mut source: impl Read,
    file: &str,
    magic: u32,
    room: Room,
) -> Result<([usize; AXES], Vec<u8>), Error> {
    let start = read_up_to(&mut source, GZIP_MAGIC.len()).map_err(|cause| Error::Read {
        file: file.to_owned(),
        cause,
    })?;
    let compressed = start == GZIP_MAGIC;
    let whole = Cursor::new(start).chain(source);
    if compressed {
        decode_plain(MultiGzDecoder::new(whole), file, magic, room)
    } else {
        decode_plain(whole, file, magic, room)
    }
}

/// Decodes decompressed bytes. Memory grows with what is really there, never with what the header
/// claims.
fn decode_plain<const AXES: usize>(
    source: impl Read,
    file: &str,
    magic: u32,
    room: Room,
) -> Result<([usize; AXES], Vec<u8>), Error> {
    let mut source = room.bound(source);
    let name = file;
    let file = || file.to_owned();
    let refused = |cause: io::Error| match cause.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Error::DamagedGzip {
                file: file(),
                cause,
            }
        }
        _ => match beyond(&cause) {
            Some(problem) => unusable(Path::new(name), problem),
            None => Error::Read {
                file: file(),
                cause,
            },
        },
    };
    let header_length = 4 * (1 + AXES);
    let header = read_up_to(&mut source, header_length).map_err(refused)?;
    let mut words = header
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&word| u32::from_be_bytes(word));
    if let Some(found) = words.next()
        && found != magic
    {
        let hint = misread_hint(found, magic);
        return Err(Error::WrongMagic {
            file: file(),
            kind: kind(magic),
            found,
            expected: magic,
            hint,
        });
    }
    if header.len() < header_length {
        return Err(Error::ShortHeader {
            file: file(),
            kind: kind(magic),
            length: header.len(),
            header: header_length,
        });
    }
    let mut dimensions = [0; AXES];
    for (dimension, word) in dimensions.iter_mut().zip(words) {
        *dimension = word as usize;
    }
    let shape = || {
        dimensions
            .map(|dimension| dimension.to_string())
            .join(" x ")
    };
    let claimed = dimensions
        .iter()
        .try_fold(1usize, |product, &dimension| product.checked_mul(dimension));
    let checked = claimed.unwrap_or(usize::MAX);
    if let Err(problem) = room.check(checked) {
        return Err(Error::TooLarge {
            file: file(),
            shape: shape(),
            problem,
        });
    }
    let claimed = checked;
    // One byte beyond the claim makes the reader reach the true end, where gzip keeps its checksum.
    let payload = read_up_to(&mut source, claimed.saturating_add(1)).map_err(refused)?;
    match payload.len() {
        found if found < claimed => Err(Error::ShortPayload {
            file: file(),
            shape: shape(),
            claimed,
            found,
        }),
        found if found > claimed => Err(Error::LongPayload {
            file: file(),
            shape: shape(),
            claimed,
        }),
        _ => Ok((dimensions, payload)),
    }
}

fn encode<const AXES: usize>(
    magic: u32,
    dimensions: [usize; AXES],
    payload: &[u8],
) -> Result<Vec<u8>, Error> {
    let wrong_shape = || Error::WrongShape {
        file: format!("an idx file of {}", kind(magic)),
        shape: dimensions
            .map(|dimension| dimension.to_string())
            .join(" x "),
        length: payload.len(),
    };
    let product = dimensions
        .iter()
        .try_fold(1usize, |product, &dimension| product.checked_mul(dimension));
    if product != Some(payload.len()) {
        return Err(wrong_shape());
    }
    let mut bytes = magic.to_be_bytes().to_vec();
    for dimension in dimensions {
        let word = u32::try_from(dimension).map_err(|_| wrong_shape())?;
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(payload);
    Ok(bytes)
}

fn kind(magic: u32) -> &'static str {
    if magic == IMAGES_MAGIC {
        "images"
    } else {
        "labels"
    }
}

fn misread_hint(found: u32, expected: u32) -> &'static str {
    match found {
        IMAGES_MAGIC if expected == LABELS_MAGIC => " (it holds images: are two files swapped?)",
        LABELS_MAGIC if expected == IMAGES_MAGIC => " (it holds labels: are two files swapped?)",
        _ if found.to_be_bytes().starts_with(&GZIP_MAGIC) => {
            " (it is compressed twice: unpack it once)"
        }
        _ => "",
    }
}

/// Reads `count` bytes, or all if there are fewer.
fn read_up_to(source: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
