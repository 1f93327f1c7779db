//! The part of the MATLAB 5 file format that the standard sets need: variables that are cell arrays of
//! real matrices, compressed or not, in either byte order.
//!
//! Source: MathWorks, "MAT-File Format", the level 5 format.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::files::{Room, beyond};

/// A real matrix, column after column.
#[derive(Clone, Debug)]
pub(super) struct Array<'a> {
    pub rows: usize,
    pub columns: usize,
    numbers: Packed<'a>,
}

/// Numbers in the file's own type.
#[derive(Clone, Debug)]
struct Packed<'a> {
    bytes: &'a [u8],
    width: usize,
    /// Converts a number from its bytes, the lowest first.
    value: fn(&[u8]) -> f64,
    big_endian: bool,
}

impl Array<'_> {
    /// All values, column after column.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let Packed {
            bytes,
            width,
            value,
            big_endian,
        } = self.numbers;
        bytes.chunks_exact(width).map(move |bytes| {
            let mut ordered = [0; 8];
            let ordered = &mut ordered[..width];
            ordered.copy_from_slice(bytes);
            if big_endian {
                ordered.reverse();
            }
            value(ordered)
        })
    }
}

const HEADER: usize = 128;

const INT8: u32 = 1;
const UINT8: u32 = 2;
const INT16: u32 = 3;
const UINT16: u32 = 4;
const INT32: u32 = 5;
const UINT32: u32 = 6;
const SINGLE: u32 = 7;
const DOUBLE: u32 = 9;
const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;

const CELL_CLASS: u8 = 1;
/// Double, single and the integers.
const NUMERIC_CLASSES: std::ops::RangeInclusive<u8> = 6..=15;
const COMPLEX_FLAG: u8 = 0x08;

/// Calls `take` with each cell of the cell arrays of a file, with the name of the array and the number of
/// the cell; everything else in the file is ignored.
///
/// The error is one line.
pub(super) fn each_cell(
    file: &[u8],
    room: Room,
    mut take: impl FnMut(&str, usize, Array<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let big_endian = match file.get(HEADER - 4..HEADER) {
        Some([_, 1, b'I', b'M']) => false,
        Some([1, _, b'M', b'I']) => true,
        _ if file.starts_with(b"MATLAB 7.3") => {
            return Err("a MATLAB 7.3 file; save it with the option -v7".to_owned());
        }
        _ => return Err("not a MATLAB 5 file".to_owned()),
    };
    let mut rest = Elements {
        bytes: &file[HEADER..],
        big_endian,
    };
    let mut unpacked_bytes = 0;
    while let Some((kind, content)) = rest.next()? {
        let unpacked;
        let mut matrix = Elements {
            bytes: content,
            big_endian,
        };
        if kind == COMPRESSED {
            let mut bytes = Vec::new();
            room.bound(ZlibDecoder::new(content))
                .read_to_end(&mut bytes)
                .map_err(|cause| match beyond(&cause) {
                    Some(problem) => problem,
                    None => format!("damaged compressed variable ({cause})"),
                })?;
            unpacked_bytes += bytes.len();
            room.check(unpacked_bytes)?;
            unpacked = bytes;
            let mut inner = Elements {
                bytes: &unpacked,
                big_endian,
            };
            match inner.next()? {
                Some((MATRIX, content)) => matrix.bytes = content,
                _ => continue,
            }
        } else if kind != MATRIX {
            continue;
        }
        let header = matrix.header()?;
        if header.class == CELL_CLASS {
            for number in 0..header.count()? {
                let inner = matrix.matrix();
                let array = inner
                    .map_err(|problem| format!("{}, cell {number}: {problem}", header.name))?;
                take(&header.name, number, array)?;
            }
        }
    }
    Ok(())
}

/// The header of a matrix.
struct Header {
    class: u8,
    complex: bool,
    dimensions: Vec<usize>,
    name: String,
}

impl Header {
    fn count(&self) -> Result<usize, String> {
        let product = self.dimensions.iter().try_fold(1usize, |product, &size| {
            product
                .checked_mul(size)
                .filter(|&product| product <= isize::MAX as usize)
        });
        product.ok_or_else(|| format!("an array of {:?}, too large", self.dimensions))
    }
}

/// Data elements one after the other: a type, a number of bytes, the bytes.
struct Elements<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Elements<'a> {
    fn word(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    fn next(&mut self) -> Result<Option<(u32, &'a [u8])>, String> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let truncated = || "truncated: it ends inside a data element".to_owned();
        let (tag, rest) = self.bytes.split_first_chunk::<4>().ok_or_else(truncated)?;
        let tag = self.word(*tag);
        // A small element stores up to four bytes in the place of its length.
        if tag >> 16 != 0 {
            let size = (tag >> 16) as usize;
            let (content, rest) = rest.split_at_checked(4).ok_or_else(truncated)?;
            self.bytes = rest;
            let content = content
                .get(..size)
                .ok_or("a small element of more than 4 bytes")?;
            return Ok(Some((tag & 0xffff, content)));
        }
        let (size, rest) = rest.split_first_chunk::<4>().ok_or_else(truncated)?;
        let size = self.word(*size) as usize;
        let (content, rest) = rest.split_at_checked(size).ok_or_else(truncated)?;
        // Elements begin at multiples of eight bytes, except after compressed ones.
        let padding = if tag == COMPRESSED {
            0
        } else {
            size.wrapping_neg() % 8
        };
        self.bytes = rest.get(padding..).unwrap_or(&[]);
        Ok(Some((tag, content)))
    }

    fn expect(&mut self, what: &str) -> Result<(u32, &'a [u8]), String> {
        self.next()?
            .ok_or_else(|| format!("truncated: {what} is missing"))
    }

    fn header(&mut self) -> Result<Header, String> {
        let (_, flags) = self.expect("the class of an array")?;
        let flags = flags.first_chunk::<4>().ok_or("an array without a class")?;
        let flags = self.word(*flags);
        let (_, dimensions) = self.expect("the size of an array")?;
        let dimensions = dimensions.as_chunks::<4>().0.iter();
        let dimensions = dimensions.map(|&size| self.word(size) as usize).collect();
        let (_, name) = self.expect("the name of an array")?;
        Ok(Header {
            class: flags as u8,
            complex: (flags >> 8) as u8 & COMPLEX_FLAG != 0,
            dimensions,
            name: String::from_utf8_lossy(name).into_owned(),
        })
    }

    /// The next element, which must be a real matrix.
    fn matrix(&mut self) -> Result<Array<'a>, String> {
        let (kind, content) = self.expect("an array")?;
        if kind != MATRIX {
            return Err("not an array".to_owned());
        }
        let empty = Array {
            rows: 0,
            columns: 0,
            numbers: self.numbers(INT8, &[])?,
        };
        // MATLAB writes cells that were never set as elements without bytes.
        if content.is_empty() {
            return Ok(empty);
        }
        let mut inner = Elements {
            bytes: content,
            big_endian: self.big_endian,
        };
        let header = inner.header()?;
        let &[rows, columns] = header.dimensions.as_slice() else {
            return Err(format!(
                "an array of shape {:?}, but a song has 2 dimensions",
                header.dimensions
            ));
        };
        if !NUMERIC_CLASSES.contains(&header.class) || header.complex {
            return Err("not an array of real numbers".to_owned());
        }
        let count = header.count()?;
        if count == 0 {
            return Ok(Array {
                rows,
                columns,
                ..empty
            });
        }
        let (kind, content) = inner.expect("the content of an array")?;
        let numbers = inner.numbers(kind, content)?;
        let found = content.len() / numbers.width;
        if found != count {
            return Err(format!("{found} numbers in an array of {rows} x {columns}"));
        }
        Ok(Array {
            rows,
            columns,
            numbers,
        })
    }

    fn numbers(&self, kind: u32, bytes: &'a [u8]) -> Result<Packed<'a>, String> {
        /// The number of `N` bytes, the lowest first.
        fn from<const N: usize>(bytes: &[u8], value: fn([u8; N]) -> f64) -> f64 {
            let bytes = bytes.first_chunk::<N>();
            value(*bytes.expect("as many bytes as the type has"))
        }
        let (width, value): (usize, fn(&[u8]) -> f64) = match kind {
            INT8 => (1, |bytes| {
                from(bytes, |byte| i8::from_le_bytes(byte).into())
            }),
            UINT8 => (1, |bytes| {
                from(bytes, |byte| u8::from_le_bytes(byte).into())
            }),
            INT16 => (2, |bytes| {
                from(bytes, |word| i16::from_le_bytes(word).into())
            }),
            UINT16 => (2, |bytes| {
                from(bytes, |word| u16::from_le_bytes(word).into())
            }),
            INT32 => (4, |bytes| {
                from(bytes, |word| i32::from_le_bytes(word).into())
            }),
            UINT32 => (4, |bytes| {
                from(bytes, |word| u32::from_le_bytes(word).into())
            }),
            SINGLE => (4, |bytes| {
                from(bytes, |word| f32::from_le_bytes(word).into())
            }),
            DOUBLE => (8, |bytes| from(bytes, f64::from_le_bytes)),
            _ => return Err(format!("numbers of type {kind}, which is not supported")),
        };
        Ok(Packed {
            bytes,
            width,
            value,
            big_endian: self.big_endian,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;
    use crate::Limits;

    /// A cell: name of its array, rows, columns and values.
    type Cell = (String, usize, usize, Vec<f64>);

    fn cells(file: &[u8]) -> Result<Vec<Cell>, String> {
        let mut found = Vec::new();
        each_cell(
            file,
            Limits::default().room(file.len()),
            |name, number, cell| {
                assert_eq!(number, found.len());
                let values = cell.values().collect();
                found.push((name.to_owned(), cell.rows, cell.columns, values));
                Ok(())
            },
        )?;
        Ok(found)
    }

    fn element(kind: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        if kind != COMPRESSED {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    fn array(class: u8, name: &str, dimensions: [u32; 2], content: &[Vec<u8>]) -> Vec<u8> {
        let flags = [class, 0, 0, 0, 0, 0, 0, 0];
        let dimensions = dimensions.map(u32::to_le_bytes).concat();
        let mut inner = [
            element(UINT32, &flags),
            element(INT32, &dimensions),
            element(INT8, name.as_bytes()),
        ]
        .concat();
        inner.extend(content.concat());
        element(MATRIX, &inner)
    }

    fn file(variables: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![b' '; 124];
        bytes.extend([0, 1, b'I', b'M']);
        bytes.extend(variables.concat());
        bytes
    }

    /// A cell array with a 3 x 2 array of bytes and a 1 x 2 array of doubles.
    fn example() -> Vec<u8> {
        let bytes = array(9, "", [3, 2], &[element(UINT8, &[1, 0, 1, 0, 0, 1])]);
        let doubles = [1f64.to_le_bytes(), 0.5f64.to_le_bytes()].concat();
        let doubles = array(6, "", [1, 2], &[element(DOUBLE, &doubles)]);
        array(CELL_CLASS, "traindata", [1, 2], &[bytes, doubles])
    }

    #[test]
    fn cells_are_read_compressed_and_plain() {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&example()).unwrap();
        let compressed = element(COMPRESSED, &encoder.finish().unwrap());
        let other = array(6, "unread", [0, 0], &[]);
        for variable in [example(), compressed] {
            let found = cells(&file(&[other.clone(), variable])).unwrap();
            let name = || "traindata".to_owned();
            let wanted = [
                (name(), 3, 2, vec![1.0, 0.0, 1.0, 0.0, 0.0, 1.0]),
                (name(), 1, 2, vec![1.0, 0.5]),
            ];
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let whole = file(&[example()]);
        assert!(cells(&whole).is_ok());
        for length in 0..whole.len() {
            // The bare header is a file without variables.
            let read = cells(&whole[..length]);
            assert!(
                read.is_err() || length == HEADER,
                "{length} of {}",
                whole.len()
            );
        }
        let large = array(CELL_CLASS, "x", [u32::MAX, u32::MAX], &[]);
        assert!(cells(&file(&[large])).unwrap_err().contains("too large"));
        let short = array(9, "", [3, 2], &[element(UINT8, &[1])]);
        let error = cells(&file(&[array(CELL_CLASS, "x", [1, 1], &[short])])).unwrap_err();
        assert_eq!(error, "x, cell 0: 1 numbers in an array of 3 x 2");
        let text = [b"MATLAB 7.3 MAT-file".to_vec(), vec![b' '; 200]].concat();
        assert!(cells(&text).unwrap_err().contains("-v7"));
        let broken = element(COMPRESSED, &[1, 2, 3, 4]);
        assert!(
            cells(&file(&[broken]))
                .unwrap_err()
                .contains("damaged compressed")
        );
    }
}
