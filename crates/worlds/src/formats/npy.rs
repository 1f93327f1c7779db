//! NumPy arrays: `.npy` files, and `.npz` archives of them.
//!
//! Source: the format description in `numpy.lib.format`, versions 1.0 to 3.0.

use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;

use zip::ZipArchive;

use crate::error::{one_line, unusable};
use crate::files::{Files, Room, beyond};
use crate::folder::{self, natural_order};
use crate::{Error, Limits};

/// An array, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Sizes of its dimensions; none for a single number.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub numbers: Numbers,
}

/// The numbers of an array: bytes stay bytes, all other types become `f32`.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// From `uint8`.
    Bytes(Vec<u8>),
    /// From `bool`, other integers and floating-point numbers, rounded to the nearest.
    Floats(Vec<f32>),
}

impl Numbers {
    /// Size in memory, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Numbers::Bytes(bytes) => bytes.len(),
            Numbers::Floats(numbers) => size_of_val(numbers.as_slice()),
        }
    }
}

impl Array {
    /// Decodes the bytes of a `.npy` file.
    ///
    /// # Errors
    /// The bytes are not a valid array; the error is one line.
    pub fn decode(bytes: &[u8]) -> Result<Array, String> {
        Array::decode_within(bytes, Limits::default().room(bytes.len()))
    }

    fn decode_within(bytes: &[u8], room: Room) -> Result<Array, String> {
        let not_npy = || "not a NumPy array".to_owned();
        let truncated = || "truncated array: it ends inside its header".to_owned();
        let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(not_npy)?;
        let (&[major, _], rest) = rest.split_first_chunk::<2>().ok_or_else(truncated)?;
        let (length, rest) = match major {
            1 => {
                let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(truncated)?;
                (usize::from(u16::from_le_bytes(*length)), rest)
            }
            2 | 3 => {
                let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(truncated)?;
                (u32::from_le_bytes(*length) as usize, rest)
            }
            _ => {
                return Err(format!(
                    "an array in version {major} of the format; only 1 to 3 are supported"
                ));
            }
        };
        let (header, data) = rest.split_at_checked(length).ok_or_else(truncated)?;
        let header = String::from_utf8_lossy(header);
        let value = |key: &str| {
            let (_, after) = header.split_once(&format!("'{key}'"))?;
            Some(after.trim_start().strip_prefix(':')?.trim_start())
        };
        let incomplete = |key: &str| format!("damaged array: its header has no valid {key}");
        let descr = value("descr").and_then(|text| text.strip_prefix('\''));
        let (descr, _) = descr
            .and_then(|text| text.split_once('\''))
            .ok_or_else(|| incomplete("descr"))?;
        let shape = value("shape")
            .and_then(|text| text.strip_prefix('(')?.split_once(')'))
            .and_then(|(text, _)| shape(text))
            .ok_or_else(|| incomplete("shape"))?;
        let by_columns = match value("fortran_order") {
            Some(text) if text.starts_with("False") => false,
            Some(text) if text.starts_with("True") => true,
            _ => return Err(incomplete("fortran_order")),
        };
        let width = element_width(descr)?;
        let count = shape.iter().try_fold(1usize, |product, &size| {
            product
                .checked_mul(size)
                .filter(|&count| count <= isize::MAX as usize / width)
        });
        let count = count.ok_or_else(|| format!("an array of shape {shape:?} is too large"))?;
        if data.len() < count * width {
            return Err(format!(
                "truncated array: {} bytes of data, but shape {shape:?} of type {descr} takes {}",
                data.len(),
                count * width
            ));
        }
        if data.len() > count * width {
            return Err(format!(
                "{} bytes after the end of an array of shape {shape:?}",
                data.len() - count * width
            ));
        }
        room.check(count * decoded_width(descr))?;
        let mut numbers = numbers(descr, &data[..count * width]);
        if by_columns && shape.len() > 1 {
            numbers = match numbers {
                Numbers::Bytes(values) => Numbers::Bytes(by_rows(&values, &shape)),
                Numbers::Floats(values) => Numbers::Floats(by_rows(&values, &shape)),
            };
        }
        Ok(Array { shape, numbers })
    }
}

/// All arrays of a `.npz` archive by their names, in natural order, or the single array of a `.npy` file; with the limit
/// on the unpacked bytes.
///
/// # Errors
/// The file cannot be read, is damaged or exceeds the limits, or an array has an unsupported type.
pub(crate) fn open_arrays(
    path: &Path,
    files: &Files,
) -> Result<(Vec<(String, Array)>, Room), Error> {
    if folder::has_extension(path, &["npy"]) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let bytes = files.read(path)?;
        let array = Array::decode(&bytes).map_err(|problem| unusable(path, problem))?;
        return Ok((vec![(name.into_owned(), array)], files.room(bytes.len())));
    }
    let (file, size) = files.open(path)?;
    let room = files.room(size);
    Ok((archive(BufReader::new(file), path, room)?, room))
}

/// The arrays of an archive in memory; `path` is the name used in errors.
pub(crate) fn decode_archive(bytes: &[u8], path: &Path) -> Result<Vec<(String, Array)>, Error> {
    archive(
        Cursor::new(bytes),
        path,
        Limits::default().room(bytes.len()),
    )
}

fn archive(
    source: impl Read + Seek,
    path: &Path,
    room: Room,
) -> Result<Vec<(String, Array)>, Error> {
    let damaged = |cause: String| Error::DamagedArchive {
        file: path.display().to_string(),
        cause,
    };
    let mut archive = ZipArchive::new(source).map_err(|cause| damaged(cause.to_string()))?;
    let mut arrays = Vec::new();
    let mut taken = 0;
    for index in 0..archive.len() {
        let entry = archive
            .by_index(index)
            .map_err(|cause| damaged(cause.to_string()))?;
        let full_name = one_line(entry.name());
        let Some(name) = full_name.strip_suffix(".npy") else {
            continue;
        };
        let mut bytes = Vec::new();
        let read = room.bound(entry).read_to_end(&mut bytes);
        read.map_err(|cause| match beyond(&cause) {
            Some(problem) => unusable(path, format!("{name}: {problem}")),
            None => damaged(one_line(&format!("{full_name}: {cause}"))),
        })?;
        let array = Array::decode_within(&bytes, room);
        let array = array.map_err(|problem| unusable(path, format!("{name}: {problem}")))?;
        // Entries may share their bytes, so each may be small but all together large.
        taken += bytes.len().max(array.numbers.bytes());
        room.check(taken)
            .map_err(|problem| unusable(path, problem))?;
        arrays.push((name.to_owned(), array));
    }
    arrays.sort_by(|(left, _), (right, _)| natural_order(left, right));
    Ok(arrays)
}

/// `3, 4` or `3,` or nothing.
fn shape(text: &str) -> Option<Vec<usize>> {
    let sizes = text
        .split(',')
        .map(|size| size.trim().trim_end_matches('L'));
    let sizes = sizes.filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().ok()).collect()
}

/// Bytes of an element of a supported type.
fn element_width(descr: &str) -> Result<usize, String> {
    match descr.trim_start_matches(['<', '>', '|', '=']) {
        "b1" | "?" | "u1" | "i1" => Ok(1),
        "u2" | "i2" | "f2" => Ok(2),
        "u4" | "i4" | "f4" => Ok(4),
        "u8" | "i8" | "f8" => Ok(8),
        _ => Err(format!(
            "an array of type {descr:?}; only booleans, integers and real numbers are supported"
        )),
    }
}

/// Bytes of an element once it is decoded; `descr` has passed [`element_width`].
fn decoded_width(descr: &str) -> usize {
    match descr.trim_start_matches(['<', '>', '|', '=']) {
        "u1" => 1,
        _ => size_of::<f32>(),
    }
}

/// `descr` has passed [`element_width`].
fn numbers(descr: &str, bytes: &[u8]) -> Numbers {
    fn each<const N: usize>(
        bytes: &[u8],
        big_endian: bool,
        value: impl Fn([u8; N]) -> f32,
    ) -> Numbers {
        let chunks = bytes.as_chunks::<N>().0.iter();
        let values = chunks.map(|&chunk| {
            let mut chunk = chunk;
            if big_endian {
                chunk.reverse();
            }
            value(chunk)
        });
        Numbers::Floats(values.collect())
    }
    let big = descr.starts_with('>');
    match descr.trim_start_matches(['<', '>', '|', '=']) {
        "u1" => Numbers::Bytes(bytes.to_vec()),
        "i1" => each(bytes, big, |byte| f32::from(i8::from_le_bytes(byte))),
        "u2" => each(bytes, big, |word| f32::from(u16::from_le_bytes(word))),
        "i2" => each(bytes, big, |word| f32::from(i16::from_le_bytes(word))),
        "f2" => each(bytes, big, |word| half(u16::from_le_bytes(word))),
        "u4" => each(bytes, big, |word| u32::from_le_bytes(word) as f32),
        "i4" => each(bytes, big, |word| i32::from_le_bytes(word) as f32),
        "f4" => each(bytes, big, f32::from_le_bytes),
        "u8" => each(bytes, big, |word| u64::from_le_bytes(word) as f32),
        "i8" => each(bytes, big, |word| i64::from_le_bytes(word) as f32),
        "f8" => each(bytes, big, |word| f64::from_le_bytes(word) as f32),
        _ => each(bytes, big, |[byte]: [u8; 1]| f32::from(byte != 0)),
    }
}

/// A 16-bit number, IEEE 754 binary16.
fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let fraction = f32::from(bits & 0x3ff);
    match bits >> 10 & 0x1f {
        0 => sign * fraction * 2f32.powi(-24),
        0x1f if fraction == 0.0 => sign * f32::INFINITY,
        0x1f => f32::NAN,
        exponent => sign * (1024.0 + fraction) * 2f32.powi(i32::from(exponent) - 25),
    }
}

/// Reorders values from the first index running fastest to the last running fastest.
fn by_rows<T: Copy>(values: &[T], shape: &[usize]) -> Vec<T> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for &size in shape {
        strides.push(stride);
        stride *= size;
    }
    let mut place = vec![0; shape.len()];
    let mut ordered = Vec::with_capacity(values.len());
    for _ in 0..values.len() {
        let offsets = place
            .iter()
            .zip(&strides)
            .map(|(index, stride)| index * stride);
        ordered.push(values[offsets.sum::<usize>()]);
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            if place[axis] < shape[axis] {
                break;
            }
            place[axis] = 0;
        }
    }
    ordered
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    /// A `.npy` file as NumPy writes it.
    pub(crate) fn npy(descr: &str, by_columns: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
        let order = if by_columns { "True" } else { "False" };
        let mut sizes = shape
            .iter()
            .map(|size| format!("{size}, "))
            .collect::<String>();
        if shape.len() > 1 {
            sizes.truncate(sizes.len() - 2);
        }
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sizes}), }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        bytes
    }

    pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Vec<u8> {
        let data: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        npy("<f4", false, shape, &data)
    }

    pub(crate) fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in arrays {
            archive
                .start_file(format!("{name}.npy"), SimpleFileOptions::default())
                .unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn all_types_and_orders_are_read() {
        let floats = |descr: &str, data: &[u8]| {
            let array = Array::decode(&npy(descr, false, &[2], data)).unwrap();
            assert_eq!(array.numbers, Numbers::Floats(vec![1.0, 0.0]), "{descr}");
        };
        floats("|b1", &[1, 0]);
        floats("|i1", &[1, 0]);
        floats("<u2", &[1, 0, 0, 0]);
        floats(">i2", &[0, 1, 0, 0]);
        floats("<f2", &[0, 0x3c, 0, 0]);
        floats("<u4", &[1, 0, 0, 0, 0, 0, 0, 0]);
        floats(">i4", &[0, 0, 0, 1, 0, 0, 0, 0]);
        floats(">f4", &[0x3f, 0x80, 0, 0, 0, 0, 0, 0]);
        floats("<i8", &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        floats("<u8", &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        floats("<f8", &[1f64.to_le_bytes(), 0f64.to_le_bytes()].concat());

        let by_columns = Array::decode(&npy("|u1", true, &[2, 3], &[1, 4, 2, 5, 3, 6])).unwrap();
        assert_eq!(by_columns.shape, [2, 3]);
        assert_eq!(by_columns.numbers, Numbers::Bytes(vec![1, 2, 3, 4, 5, 6]));
        let single = Array::decode(&npy("|u1", false, &[], &[7])).unwrap();
        assert!(single.shape.is_empty());
    }

    #[test]
    fn halves_are_exact() {
        for (bits, value) in [
            (0x0001, 2f32.powi(-24)),
            (0x3555, 0.333_251_95),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn damaged_arrays_are_refused() {
        let whole = npy("<f4", false, &[2], &[0; 8]);
        for length in 0..whole.len() {
            assert!(Array::decode(&whole[..length]).is_err(), "{length}");
        }
        let refused = |bytes: &[u8]| Array::decode(bytes).unwrap_err();
        assert_eq!(refused(b"text"), "not a NumPy array");
        assert!(refused(&npy("<c8", false, &[1], &[0; 8])).contains("type \"<c8\""));
        assert!(refused(&npy("|O", false, &[1], &[0; 8])).contains("type \"|O\""));
        assert!(refused(&npy("<f4", false, &[usize::MAX, 2], &[])).contains("too large"));
        assert!(refused(&npy("<f4", false, &[3], &[0; 8])).starts_with("truncated array: 8 bytes"));
    }

    #[test]
    fn archives_are_read_in_natural_order() {
        let archive = npz(&[("b10", floats(&[1], &[10.0])), ("b9", floats(&[1], &[9.0]))]);
        let arrays = decode_archive(&archive, Path::new("x.npz")).unwrap();
        let names: Vec<&str> = arrays.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b9", "b10"]);
        for length in [0, 10, archive.len() - 1] {
            assert!(decode_archive(&archive[..length], Path::new("x.npz")).is_err());
        }
        let error = decode_archive(&npz(&[("a", b"text".to_vec())]), Path::new("x.npz"));
        assert_eq!(
            error.unwrap_err().to_string(),
            "x.npz: a: not a NumPy array"
        );
    }
}
