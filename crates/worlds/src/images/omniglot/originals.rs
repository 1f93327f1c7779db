//! The original drawings: 105 x 105 pixels in PNG files, in archives or extracted, reduced while they
//! are read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use super::{Alphabet, Character, Drawing, Omniglot, PACKED};
use crate::error::{one_line, unusable};
use crate::files::Files;
use crate::{Error, Images};

/// Pixel rows and columns of an original drawing.
const SIDE: usize = 105;
/// Most bytes of a file with one drawing; the originals have about 300.
const LONGEST_FILE: u64 = 1 << 16;

/// A folder of drawings: the number of the character they show, and each drawing by its drawer.
#[derive(Default)]
struct FoundCharacter {
    number: Option<u16>,
    drawings: BTreeMap<u8, Drawing>,
}

/// The characters found so far, by folder, by the folder of their alphabet; with full paths, for error
/// messages.
#[derive(Default)]
pub(super) struct Found(BTreeMap<String, BTreeMap<String, FoundCharacter>>);

impl Found {
    /// Adds the extracted part in the folder `part`.
    pub(super) fn read_folder(&mut self, part: &Path, files: &Files) -> Result<(), Error> {
        let alphabets = subfolders(part)?;
        if alphabets.is_empty() {
            return Err(Error::NoAlphabets {
                path: part.display().to_string(),
            });
        }
        for alphabet in alphabets {
            let characters = self.0.entry(alphabet.display().to_string()).or_default();
            for character in subfolders(&alphabet)? {
                let place = character.display().to_string();
                let found = characters.entry(place).or_default();
                for path in listed(&character)? {
                    let file = path.display().to_string();
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    if is_drawing(&name) {
                        let (source, _) = files.open(&path)?;
                        let content = up_to_limit(source).map_err(|cause| Error::Read {
                            file: file.clone(),
                            cause,
                        })?;
                        found.add(&name, &content, file)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the archived part `part` in the file `path`.
    pub(super) fn read_archive(
        &mut self,
        path: &Path,
        part: &str,
        files: &Files,
    ) -> Result<(), Error> {
        let file = path.display().to_string();
        let (opened, size) = files.open(path)?;
        let room = files.room(size);
        let mut unpacked = 0;
        let damaged = |cause: String| Error::DamagedArchive {
            file: file.clone(),
            cause,
        };
        let mut archive =
            ZipArchive::new(BufReader::new(opened)).map_err(|cause| damaged(cause.to_string()))?;
        let mut empty = true;
        for index in 0..archive.len() {
            let entry = archive
                .by_index(index)
                .map_err(|cause| damaged(cause.to_string()))?;
            let entry_name = one_line(entry.name());
            let levels: Vec<&str> = entry_name.trim_end_matches('/').split('/').collect();
            let [top, alphabet, below @ ..] = &levels[..] else {
                continue;
            };
            if *top != part || alphabet.starts_with('.') || below.is_empty() && entry.is_file() {
                continue;
            }
            empty = false;
            let alphabet = format!("{file}: {top}/{alphabet}");
            let characters = self.0.entry(alphabet.clone()).or_default();
            let [character, below @ ..] = below else {
                continue;
            };
            if character.starts_with('.') || below.is_empty() && entry.is_file() {
                continue;
            }
            let found = characters
                .entry(format!("{alphabet}/{character}"))
                .or_default();
            if let [name] = below
                && is_drawing(name)
            {
                let content = up_to_limit(entry)
                    .map_err(|cause| damaged(format!("{entry_name}: {cause}")))?;
                // Entries may share their bytes, so a small archive may unpack to many files.
                unpacked += content.len();
                let within = room.check(unpacked);
                within.map_err(|problem| unusable(path, problem))?;
                found.add(name, &content, format!("{file}: {entry_name}"))?;
            }
        }
        if empty {
            return Err(Error::NoAlphabets {
                path: format!("{file}: {part}"),
            });
        }
        Ok(())
    }

    /// All alphabets found, if they are valid.
    pub(super) fn alphabets(self) -> Result<Vec<Alphabet>, Error> {
        let mut taken: BTreeMap<u16, String> = BTreeMap::new();
        let mut alphabets = Vec::new();
        for (folder, found) in self.0 {
            let mut alphabet = Alphabet::new();
            for (path, FoundCharacter { number, drawings }) in found {
                let Some(number) = number else {
                    let problem =
                        "holds no drawings, but at least one CCCC_DD.png is needed".into();
                    return Err(Error::Unusable {
                        file: path,
                        problem,
                    });
                };
                if let Some(other) = taken.insert(number, path.clone()) {
                    return Err(Error::CharacterTwice {
                        path,
                        other,
                        number,
                    });
                }
                let drawings = drawings.into_values().collect();
                alphabet.push(Character { number, drawings });
            }
            if alphabet.len() <= Omniglot::WITHHELD {
                return Err(Error::FewCharacters {
                    path: folder,
                    characters: alphabet.len(),
                });
            }
            alphabet.sort_by_key(|character| character.number);
            alphabets.push(alphabet);
        }
        Ok(alphabets)
    }
}

impl FoundCharacter {
    /// Adds the drawing in the file `name`, whose full path is `file`.
    fn add(&mut self, name: &str, content: &[u8], file: String) -> Result<(), Error> {
        let Some((number, drawer)) = numbers(name) else {
            return Err(Error::DrawingName { file });
        };
        let known = *self.number.get_or_insert(number);
        if known != number {
            let problem =
                format!("a drawing of another character in the folder of character {known:04}");
            return Err(Error::Unusable { file, problem });
        }
        self.drawings
            .insert(drawer, reduce(&decode(content, file)?));
        Ok(())
    }
}

/// Whether a file should be a drawing; other files may lie next to them.
fn is_drawing(name: &str) -> bool {
    name.ends_with(".png") && !name.starts_with('.')
}

/// Character, 1 to 1623, and drawer from a file's name `CCCC_DD.png`.
fn numbers(name: &str) -> Option<(u16, u8)> {
    let (character, drawer) = name.strip_suffix(".png")?.split_once('_')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (character.len(), drawer.len()) != (4, 2) || !digits(character) || !digits(drawer) {
        return None;
    }
    let character = character.parse().ok()?;
    let classes = 1..=Omniglot::CLASSES;
    let drawer = drawer.parse().ok()?;
    classes
        .contains(&usize::from(character))
        .then_some((character, drawer))
}

/// The entries of a folder, without hidden files, in alphabetical order.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let refused = |cause| Error::Read {
        file: folder.display().to_string(),
        cause,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = listed(folder)?;
    paths.retain(|path| path.is_dir());
    Ok(paths)
}

/// All bytes, or more than a drawing may have.
fn up_to_limit(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LONGEST_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `[SIDE, SIDE]` row-major, true where a drawing has ink, that is, where it is darker than middle grey.
fn decode(content: &[u8], file: String) -> Result<Vec<bool>, Error> {
    let mut decoder = png::Decoder::new(Cursor::new(content));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let unreadable = |cause: png::DecodingError| Error::DamagedPng {
        file: file.clone(),
        cause: cause.to_string(),
    };
    let mut reader = decoder.read_info().map_err(unreadable)?;
    let (columns, rows) = reader.info().size();
    if (rows as usize, columns as usize) != (SIDE, SIDE) {
        let problem = format!(
            "the image has {rows} x {columns} pixels, but Omniglot drawings have {SIDE} x {SIDE}"
        );
        return Err(Error::Unusable { file, problem });
    }
    let samples = reader.output_color_type().0.samples();
    let mut values = vec![0; SIDE * SIDE * samples];
    reader.next_frame(&mut values).map_err(unreadable)?;
    reader.finish().map_err(unreadable)?;
    Ok(values.chunks(samples).map(|pixel| pixel[0] < 128).collect())
}

/// Reduces a drawing from 105 x 105 to 28 x 28 pixels: a pixel is ink if more than half of its area is.
///
/// A reduced pixel covers 3.75 x 3.75 original ones. In quarters of an original pixel these are
/// 15 x 15 squares, so that the areas are integers, and more than half is 113 or more.
fn reduce(ink: &[bool]) -> Drawing {
    let mut columns_reduced = [[0; Images::COLUMNS]; SIDE];
    for (row, reduced) in ink.chunks(SIDE).zip(&mut columns_reduced) {
        for (column, area) in reduced.iter_mut().enumerate() {
            *area = overlaps(column)
                .map(|(original, overlap)| overlap * u32::from(row[original]))
                .sum();
        }
    }
    let mut drawing = [0; PACKED];
    for pixel in 0..Images::SIZE {
        let (row, column) = (pixel / Images::COLUMNS, pixel % Images::COLUMNS);
        let area: u32 = overlaps(row)
            .map(|(original, overlap)| overlap * columns_reduced[original][column])
            .sum();
        if area >= 113 {
            drawing[pixel / 8] |= 0x80 >> (pixel % 8);
        }
    }
    drawing
}

/// The original rows, or columns, that a reduced one covers, each with the number of its quarters that are
/// covered: 15 in all.
fn overlaps(reduced: usize) -> impl Iterator<Item = (usize, u32)> {
    let covered = 15 * reduced..15 * (reduced + 1);
    (covered.start / 4..covered.end.div_ceil(4)).map(move |original| {
        let start = covered.start.max(4 * original);
        let end = covered.end.min(4 * (original + 1));
        (original, (end - start) as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{DRAWERS, PARTS, unpack};
    use super::*;
    use crate::Split;
    use proptest::prelude::*;

    /// The reduction in another way: the picture is enlarged so that every reduced pixel covers 15 x 15.
    fn reduce_slowly(ink: &[bool]) -> Drawing {
        let mut drawing = [0; PACKED];
        for pixel in 0..Images::SIZE {
            let (row, column) = (pixel / 28 * 15, pixel % 28 * 15);
            let quarters = (row..row + 15).flat_map(|y| (column..column + 15).map(move |x| (y, x)));
            let area = quarters.filter(|(y, x)| ink[y / 4 * SIDE + x / 4]).count();
            if 2 * area > 225 {
                drawing[pixel / 8] |= 1 << (7 - pixel % 8);
            }
        }
        drawing
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_pixel_is_ink_where_more_than_half_of_its_area_is(
            ink in proptest::collection::vec(any::<bool>(), SIDE * SIDE),
        ) {
            prop_assert_eq!(reduce(&ink), reduce_slowly(&ink));
        }
    }

    #[test]
    fn blank_and_black_drawings_stay_so() {
        assert_eq!(reduce(&[false; SIDE * SIDE]), [0; PACKED]);
        assert_eq!(reduce(&[true; SIDE * SIDE]), [0xff; PACKED]);
    }

    #[test]
    fn names_give_character_and_drawer() {
        assert_eq!(numbers("0709_01.png"), Some((709, 1)));
        assert_eq!(numbers("1623_20.png"), Some((1623, 20)));
        for wrong in [
            "0000_01.png",
            "1624_01.png",
            "709_01.png",
            "0709_1.png",
            "+709_01.png",
            "0709_01.gif",
            "0709-01.png",
            "0709_01_.png",
        ] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }

    /// The bundle was reduced by `make_omniglot.py`; here the originals are reduced again.
    #[test]
    fn the_bundle_is_the_reduction_of_the_originals() {
        let folder = Path::new("../../../shared/data/omniglot");
        let mut arrays = PARTS
            .map(|part| folder.join(format!("{part}.npz")))
            .to_vec();
        arrays.retain(|path| path.is_file());
        if arrays.len() < PARTS.len() {
            println!(
                "skipped: comparison with all originals, no arrays in {}",
                folder.display()
            );
            return;
        }
        let characters = Omniglot::bundled().expect("the bundled drawings are sound");
        let mut class = 0;
        for path in arrays {
            let opened = BufReader::new(fs::File::open(path).expect("the file can be read"));
            let mut archive = ZipArchive::new(opened).expect("npz is zip");
            let mut array = archive.by_name("images.npy").expect("it holds the images");
            // Version 1 of the format: ten bytes; the last two give the header's length.
            let mut start = [0; 10];
            array.read_exact(&mut start).expect("it has a start");
            let mut header = vec![0; usize::from(u16::from_le_bytes([start[8], start[9]]))];
            array.read_exact(&mut header).expect("it has a header");
            let mut character = vec![0; DRAWERS * SIDE * SIDE];
            while array.read_exact(&mut character).is_ok() {
                let images = [Split::Train, Split::Test].map(|split| characters.split(split));
                let shown = images
                    .iter()
                    .find(|images| !images.instances(class).is_empty());
                let shown = shown.expect("every character is in a split");
                let instances = shown.instances(class);
                for (paper, &instance) in character.chunks(SIDE * SIDE).zip(instances) {
                    let ink: Vec<bool> = paper.iter().map(|&paper| paper == 0).collect();
                    let reduced: Vec<u8> = reduce(&ink).into_iter().flat_map(unpack).collect();
                    assert_eq!(shown.image(instance), Some(&reduced[..]), "class {class}");
                }
                class += 1;
            }
        }
        assert_eq!(class, 1623);
    }
}
