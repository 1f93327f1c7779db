//! Omniglot: 1623 characters of 50 alphabets, drawn by 20 people each (Lake, Salakhutdinov,
//! Tenenbaum 2015).
//!
//! All drawings come with the program, reduced from 105 x 105 to 28 x 28 pixels. The originals can also be
//! read from a folder with the two published archives, packed or extracted; they are reduced in the same
//! way to the same pixels.
//!
//! Three characters of each alphabet make up the test split, all others the training split
//! (Gemici et al. 2017, section 5.3, which does not say which three; the choice is ours).

mod originals;

use std::env;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use rand::RngExt;
use sha2::{Digest, Sha256};

use self::originals::Found;
use crate::files::{Files, is_named};
use crate::images::{DATA_VARIABLE, check_folder, hexadecimal};
use crate::{DataSet, Error, Images, Limits, Origin, Stream};

/// Bytes of a reduced drawing: a bit per pixel, row by row, the first in the highest bit.
const PACKED: usize = Images::SIZE / 8;
/// Drawings of each character.
const DRAWERS: usize = 20;
/// The two parts in which the drawings are published: names of folders and, with `.zip`, archives.
const PARTS: [&str; 2] = ["images_background", "images_evaluation"];
/// A drawing of 28 x 28 bits, 1 where there is ink.
type Drawing = [u8; PACKED];

/// Reads training and test characters. Their labels are the official numbers of the
/// characters minus one, 0 to 1622.
#[derive(Clone, Copy, Debug)]
pub enum Omniglot {}

impl Omniglot {
    /// Number of classes.
    pub const CLASSES: usize = 1623;

    /// Characters of each alphabet that make up the test split.
    pub const WITHHELD: usize = 3;

    /// All drawings, from inside the program.
    ///
    /// # Errors
    /// Only if the program was built from damaged files.
    pub fn bundled() -> Result<DataSet, Error> {
        let bits = include_bytes!("../../data/omniglot/omniglot-28.bits.gz");
        let table = include_str!("../../data/omniglot/alphabets.csv");
        let alphabets = bundled_alphabets(bits, table)?;
        Ok(data_set(alphabets, Origin::Bundled))
    }

    /// The drawings in `directory` or in its folder `omniglot`.
    ///
    /// Both parts must lie in one of the two: `images_background` and `images_evaluation`, each as
    /// the original archive (`.zip`) or extracted: a folder for every alphabet, within it a folder for
    /// every character, and within that, files `CCCC_DD.png` with the official number of the character and
    /// the number of the drawer.
    ///
    /// # Errors
    /// The folder or a part is missing or unreadable, an archive or image is damaged or not what it
    /// should be, a character has no drawings, an alphabet has fewer than four characters, or the files
    /// exceed the limits.
    pub fn open(directory: &Path, limits: Limits) -> Result<DataSet, Error> {
        check_folder(directory, || {
            "the two parts of Omniglot (images_background and images_evaluation, each as .zip or \
             extracted)"
                .to_owned()
        })?;
        let folders = folders(directory);
        let present = |folder: &&PathBuf| present(folder);
        let chosen = folders
            .iter()
            .find(|folder| present(folder) == PARTS.len())
            .or_else(|| folders.iter().find(|folder| present(folder) > 0));
        let looked_in = match chosen {
            Some(folder) => folder.display().to_string(),
            None => folders
                .each_ref()
                .map(|folder| folder.display().to_string())
                .join(" or "),
        };
        let files = Files::new(limits);
        let mut found = Found::default();
        for part in PARTS {
            let Some(path) = chosen.and_then(|folder| within(folder, part)) else {
                return Err(Error::NoOmniglotPart { part, looked_in });
            };
            if path.is_dir() {
                found.read_folder(&path, &files)?;
            } else {
                found.read_archive(&path, part, &files)?;
            }
        }
        let origin = Origin::Folder(chosen.unwrap_or(&folders[0]).clone());
        Ok(data_set(found.alphabets()?, origin))
    }

    /// The drawings in the folder `data` if given; otherwise those in the folder that the environment
    /// variable `MNEMORA_DATA` names, if it holds any; otherwise the bundled ones.
    ///
    /// So the variable may name a folder that holds only digits: nothing is lost, since all drawings are
    /// bundled.
    ///
    /// # Errors
    /// As [`Omniglot::open`].
    pub fn find(data: Option<&Path>, limits: Limits) -> Result<DataSet, Error> {
        Omniglot::find_with(data, env::var_os(DATA_VARIABLE), limits)
    }

    fn find_with(
        data: Option<&Path>,
        variable: Option<OsString>,
        limits: Limits,
    ) -> Result<DataSet, Error> {
        if let Some(directory) = data {
            return Omniglot::open(directory, limits);
        }
        let Some(directory) = variable
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
        else {
            return Omniglot::bundled();
        };
        let holds_none = folders(&directory)
            .iter()
            .all(|folder| present(folder) == 0);
        if directory.is_dir() && holds_none {
            return Omniglot::bundled();
        }
        Omniglot::open(&directory, limits).map_err(|cause| Error::FromEnvironment {
            variable: DATA_VARIABLE,
            cause: Box::new(cause),
        })
    }
}

/// The folders that may hold the parts.
fn folders(directory: &Path) -> [PathBuf; 2] {
    [directory.to_owned(), directory.join("omniglot")]
}

/// Number of parts in `folder`.
fn present(folder: &Path) -> usize {
    PARTS
        .iter()
        .filter(|part| within(folder, part).is_some())
        .count()
}

/// A part in `folder`; the extracted one is preferred to the archive.
fn within(folder: &Path, part: &str) -> Option<PathBuf> {
    let extracted = folder.join(part);
    if extracted.is_dir() {
        return Some(extracted);
    }
    Some(folder.join(format!("{part}.zip"))).filter(|archive| is_named(archive))
}

/// One character: its official number, from 1, and its drawings.
#[derive(Clone, Debug)]
struct Character {
    number: u16,
    drawings: Vec<Drawing>,
}

/// The characters of an alphabet, in the order of their numbers; at least four.
type Alphabet = Vec<Character>;

/// Both splits of these alphabets.
fn data_set(mut alphabets: Vec<Alphabet>, origin: Origin) -> DataSet {
    alphabets.sort_by_key(|alphabet| alphabet.first().map(|character| character.number));
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for alphabet in &alphabets {
        let withheld = withheld(alphabet);
        for (place, character) in alphabet.iter().enumerate() {
            let split = if withheld.contains(&place) {
                &mut test
            } else {
                &mut train
            };
            split.push(character);
        }
    }
    DataSet {
        name: "omniglot",
        classes: Omniglot::CLASSES,
        fingerprint: fingerprint(&train, &test),
        train: images(&train),
        test: images(&test),
        origin,
    }
}

/// The characters of an alphabet that make up the test split: the first [`Omniglot::WITHHELD`] of a
/// random order of their positions.
///
/// The order is a Fisher-Yates shuffle by draw `first` of the stream `omniglot characters withheld`
/// under seed 0, where `first` is the official number of the alphabet's first character. It is the
/// same in every run and for every seed of an experiment.
fn withheld(alphabet: &Alphabet) -> [usize; Omniglot::WITHHELD] {
    let first = alphabet.first().map_or(0, |character| character.number);
    let mut generator = Stream::new(0, "omniglot characters withheld").at(u64::from(first));
    let mut places: Vec<usize> = (0..alphabet.len()).collect();
    std::array::from_fn(|taken| {
        let other = generator.random_range(taken..places.len());
        places.swap(taken, other);
        places[taken]
    })
}

fn images(characters: &[&Character]) -> Images {
    let mut pixels = Vec::new();
    let mut labels = Vec::new();
    for character in characters {
        for drawing in &character.drawings {
            pixels.extend(drawing.iter().flat_map(|&byte| unpack(byte)));
            labels.push(character.number - 1);
        }
    }
    Images::new(pixels, labels, Omniglot::CLASSES)
}

/// Eight pixels, 255 for ink.
fn unpack(byte: u8) -> [u8; 8] {
    std::array::from_fn(|bit| if byte & (0x80 >> bit) == 0 { 0 } else { 255 })
}

fn fingerprint(train: &[&Character], test: &[&Character]) -> String {
    let mut hash = Sha256::new_with_prefix(b"mnemora omniglot 1");
    for characters in [train, test] {
        hash.update((characters.len() as u64).to_le_bytes());
        for character in characters {
            hash.update(character.number.to_le_bytes());
            hash.update((character.drawings.len() as u64).to_le_bytes());
            hash.update(character.drawings.as_flattened());
        }
    }
    hexadecimal(hash)
}

/// The alphabets of the bundled files: the drawings of all characters in order, and a table with the
/// first and last character of each alphabet.
fn bundled_alphabets(bits: &[u8], table: &str) -> Result<Vec<Alphabet>, Error> {
    let mut packed = Vec::with_capacity(Omniglot::CLASSES * DRAWERS * PACKED);
    GzDecoder::new(bits)
        .read_to_end(&mut packed)
        .map_err(|cause| Error::DamagedGzip {
            file: "bundled omniglot-28.bits.gz".to_owned(),
            cause,
        })?;
    let (drawings, rest) = packed.as_chunks::<PACKED>();
    let (characters, incomplete) = drawings.as_chunks::<DRAWERS>();
    if characters.len() != Omniglot::CLASSES || !rest.is_empty() || !incomplete.is_empty() {
        return Err(Error::DamagedBundle {
            file: "bundled omniglot-28.bits.gz",
            problem: format!("{} bytes", packed.len()),
        });
    }
    let mut next = 1;
    let mut alphabets = Vec::new();
    for line in table.lines().skip(1) {
        let wrong = || Error::DamagedBundle {
            file: "bundled alphabets.csv",
            problem: format!("the line {line:?}"),
        };
        let range = || {
            let (before, last) = line.rsplit_once(',')?;
            let (_, first) = before.rsplit_once(',')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        let (first, last): (u16, u16) = range().ok_or_else(wrong)?;
        if first != next || usize::from(last) < usize::from(first) + Omniglot::WITHHELD {
            return Err(wrong());
        }
        let alphabet: Option<Alphabet> = (first..=last)
            .map(|number| {
                let drawings = characters.get(usize::from(number) - 1)?.to_vec();
                Some(Character { number, drawings })
            })
            .collect();
        alphabets.push(alphabet.ok_or_else(wrong)?);
        next = last + 1;
    }
    if usize::from(next) != Omniglot::CLASSES + 1 {
        return Err(Error::DamagedBundle {
            file: "bundled alphabets.csv",
            problem: format!("the end before character {next}"),
        });
    }
    Ok(alphabets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, split};
    use crate::{MnistMap, PerfectRecall, SimilarityCuedRecall, Split, Task};
    use proptest::prelude::*;
    use std::fs;
    use std::sync::{Arc, LazyLock};

    static CHARACTERS: LazyLock<Arc<DataSet>> =
        LazyLock::new(|| Arc::new(Omniglot::bundled().expect("the bundled drawings are sound")));

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_same_places_are_withheld_always(first in 1u16..1600, count in 4usize..60) {
            let alphabet = |count: usize| -> Alphabet {
                (first..).take(count).map(|number| Character { number, drawings: Vec::new() }).collect()
            };
            let mut places = withheld(&alphabet(count));
            prop_assert_eq!(places, withheld(&alphabet(count)));
            places.sort();
            prop_assert!(places[0] < places[1] && places[1] < places[2] && places[2] < count);
        }

        #[test]
        fn tasks_over_characters_are_sound(split in split(), seed: u64, index: u64) {
            let data = || CHARACTERS.clone();
            let one_shot = PerfectRecall::one_shot(data(), 6, 3).expect("settings are in range");
            assert_sound(&one_shot, &CHARACTERS, split, seed, index);
            let cued = SimilarityCuedRecall::new(data(), 6, 3).expect("settings are in range");
            assert_sound(&cued, &CHARACTERS, split, seed, index);
            let map = MnistMap::new(data(), 3, 6, 3).expect("settings are in range");
            assert_sound(&map, &CHARACTERS, split, seed, index);
        }

        #[test]
        fn one_shot_tests_show_only_characters_never_trained_on(seed: u64) {
            let task = PerfectRecall::one_shot(CHARACTERS.clone(), 20, 5).expect("in range");
            let batch = task.batch(Split::Test, &Stream::new(seed, "data"), 0, 2);
            for &label in &batch.labels {
                prop_assert!(CHARACTERS.split(Split::Train).instances(label).is_empty());
                prop_assert_eq!(CHARACTERS.split(Split::Test).instances(label).len(), 20);
            }
        }
    }

    /// Fixes the characters that no model may be trained on.
    #[test]
    fn three_of_every_alphabet_are_withheld() {
        let table = include_str!("../../data/omniglot/alphabets.csv");
        let (train, test) = (
            CHARACTERS.split(Split::Train),
            CHARACTERS.split(Split::Test),
        );
        let mut tested: Vec<u16> = Vec::new();
        for line in table.lines().skip(1) {
            let mut fields = line.rsplit(',').map(|field| field.parse().unwrap_or(0));
            let (last, first): (u16, u16) = (fields.next().unwrap(), fields.next().unwrap());
            let withheld: Vec<u16> = (first - 1..last)
                .filter(|&class| !test.instances(class).is_empty())
                .collect();
            assert_eq!(withheld.len(), 3, "{line}");
            tested.extend(withheld);
        }
        assert_eq!(tested.len(), 150);
        assert_eq!((train.len(), test.len()), (1473 * 20, 150 * 20));
        for class in 0..1623 {
            let counts = [train, test].map(|split| split.instances(class).len());
            assert!(
                counts == [20, 0] || counts == [0, 20],
                "class {class}: {counts:?}"
            );
        }
        assert_eq!(tested[..9], [0, 14, 20, 29, 33, 45, 71, 100, 101]);
    }

    #[test]
    fn golden_labels() {
        let task = PerfectRecall::one_shot(CHARACTERS.clone(), 6, 2).expect("in range");
        let labels = |split| task.batch(split, &Stream::new(1, "data"), 0, 1).labels;
        assert_eq!(
            labels(Split::Train),
            [500, 251, 89, 1279, 134, 555, 500, 251]
        );
        assert_eq!(
            labels(Split::Test),
            [474, 239, 101, 1248, 140, 541, 474, 239]
        );
    }

    #[test]
    fn a_variable_that_names_other_data_leaves_the_bundle() {
        let elsewhere = tempfile::tempdir().expect("a temporary folder can be made");
        for variable in [None, Some(OsString::new()), Some(elsewhere.path().into())] {
            let found = Omniglot::find_with(None, variable, Limits::default())
                .expect("the bundle is sound");
            assert_eq!(found.origin(), &Origin::Bundled);
        }
        Omniglot::find_with(Some(elsewhere.path()), None, Limits::default())
            .expect_err("an argument is meant");

        let error = Omniglot::find_with(None, Some("no-such-folder".into()), Limits::default())
            .unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("data folder no-such-folder does not exist; "),
            "{message}"
        );
        assert!(message.contains(DATA_VARIABLE), "{message}");

        fs::create_dir(elsewhere.path().join(PARTS[0])).expect("the folder can be written");
        let error = Omniglot::find_with(None, Some(elsewhere.path().into()), Limits::default())
            .unwrap_err();
        assert!(error.to_string().contains(DATA_VARIABLE), "{error}");
    }

    #[test]
    fn damaged_bundles_are_refused() {
        use flate2::{Compression, read::GzEncoder};
        let bits = include_bytes!("../../data/omniglot/omniglot-28.bits.gz");
        let table = include_str!("../../data/omniglot/alphabets.csv");
        let message = |bits: &[u8], table: &str| {
            bundled_alphabets(bits, table)
                .expect_err("damaged")
                .to_string()
        };
        assert!(message(&bits[..1000], table).contains("omniglot-28.bits.gz: damaged gzip data"));
        let mut short = Vec::new();
        GzEncoder::new(&[0u8; 97][..], Compression::fast())
            .read_to_end(&mut short)
            .expect("memory can be read");
        assert_eq!(
            message(&short, table),
            "bundled omniglot-28.bits.gz: cannot be right: 97 bytes; the program was built from a \
             damaged file"
        );
        for (wrong, problem) in [
            ("", "the end before character 1"),
            (
                "alphabet,first,last\nArcadian,1,26",
                "the end before character 27",
            ),
            (
                "alphabet,first,last\nArcadian,1,x",
                "the line \"Arcadian,1,x\"",
            ),
            (
                "alphabet,first,last\nArcadian,2,26",
                "the line \"Arcadian,2,26\"",
            ),
            (
                "alphabet,first,last\nArcadian,1,3",
                "the line \"Arcadian,1,3\"",
            ),
            (
                "alphabet,first,last\nArcadian,1,1624",
                "the line \"Arcadian,1,1624\"",
            ),
        ] {
            let message = message(bits, wrong);
            assert!(message.contains(problem), "{message}");
        }
    }
}
