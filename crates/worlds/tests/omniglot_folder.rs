//! Opening a folder of characters: every accepted layout, and every way in which it can be
//! wrong.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use mnemora_worlds::{Error, Limits, Omniglot, Origin, Split};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const PARTS: [&str; 2] = ["images_background", "images_evaluation"];

/// A file of a layout, or a folder if the content is `None`.
type Entry = (String, Option<Vec<u8>>);

/// A drawing with one bit per pixel: a filled square, whose side and place depend on `shape`.
fn png(side: u32, shape: usize) -> Vec<u8> {
    let stride = side.div_ceil(8) as usize;
    let mut paper = vec![0xff; stride * side as usize];
    for row in shape..(shape + 20).min(side as usize) {
        paper[row * stride + 2 + shape % 8] = 0;
        paper[row * stride + 3 + shape % 8] = 0;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side, side);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    let mut writer = encoder.write_header().expect("a vector takes all bytes");
    writer
        .write_image_data(&paper)
        .expect("a vector takes all bytes");
    writer.finish().expect("a vector takes all bytes");
    bytes
}

/// A valid set: two alphabets of four and five characters in the first part, one of four in the
/// second, two drawings each; with the folders that archives list, and other files to ignore.
fn sound_set() -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut number = 1;
    for (part, alphabet, characters) in [
        (PARTS[0], "Greek", 4),
        (PARTS[0], "N_Ko", 5),
        (PARTS[1], "Tengwar", 4),
    ] {
        entries.push((format!("{part}/{alphabet}/"), None));
        for character in 1..=characters {
            let folder = format!("{part}/{alphabet}/character{character:02}");
            entries.push((format!("{folder}/"), None));
            for drawer in 1..=2 {
                let name = format!("{folder}/{number:04}_{drawer:02}.png");
                entries.push((name, Some(png(105, 3 * number + drawer))));
            }
            entries.push((format!("{folder}/notes.txt"), Some(b"no drawing".to_vec())));
            entries.push((
                format!("{folder}/._{number:04}_01.png"),
                Some(b"no drawing".to_vec()),
            ));
            number += 1;
        }
    }
    for part in PARTS {
        entries.push((format!("{part}/README"), Some(b"no alphabet".to_vec())));
    }
    entries
}

fn in_part<'a>(entries: &'a [Entry], part: &'a str) -> impl Iterator<Item = &'a Entry> {
    entries
        .iter()
        .filter(move |(name, _)| name.starts_with(part))
}

fn write_folder(folder: &Path, entries: &[Entry], part: &str) {
    for (name, content) in in_part(entries, part) {
        let path = folder.join(name);
        match content {
            None => fs::create_dir_all(&path).expect("the folder can be made"),
            Some(content) => {
                let parent = path.parent().expect("a file lies in a folder");
                fs::create_dir_all(parent).expect("the folder can be made");
                fs::write(&path, content).expect("the folder can be written");
            }
        }
    }
}

fn write_archive(folder: &Path, entries: &[Entry], part: &str, method: CompressionMethod) {
    let file = File::create(folder.join(format!("{part}.zip"))).expect("the file can be made");
    let mut archive = ZipWriter::new(file);
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, content) in in_part(entries, part) {
        match content {
            None => archive
                .add_directory(name, options)
                .expect("the entry can be written"),
            Some(content) => {
                archive
                    .start_file(name, options)
                    .expect("the entry can be written");
                archive
                    .write_all(content)
                    .expect("the entry can be written");
            }
        }
    }
    archive.finish().expect("the archive can be written");
}

fn temporary() -> TempDir {
    TempDir::new().expect("a temporary folder can be made")
}

/// The errors for a set that differs from a valid one: extracted, then archived.
fn errors_with(change: impl Fn(&mut Vec<Entry>)) -> [Error; 2] {
    let mut entries = sound_set();
    change(&mut entries);
    let (extracted, archived) = (temporary(), temporary());
    for part in PARTS {
        write_folder(extracted.path(), &entries, part);
        write_archive(archived.path(), &entries, part, CompressionMethod::Deflated);
    }
    [extracted, archived].map(|folder| {
        let error = Omniglot::open(folder.path(), Limits::default())
            .expect_err("a wrong set must be refused");
        let message = error.to_string();
        let path = folder.path().display().to_string();
        assert!(message.contains(&path), "{message} does not name {path}");
        assert!(!message.contains('\n'), "{message} is more than one line");
        error
    })
}

/// Replaces the content of the drawing with this name.
fn replace(entries: &mut [Entry], drawing: &str, content: Vec<u8>) {
    let entry = entries
        .iter_mut()
        .find(|(name, _)| name.ends_with(&format!("/{drawing}")));
    entry.expect("the drawing is in the set").1 = Some(content);
}

fn rename(entries: &mut [Entry], from: &str, to: &str) {
    let mut renamed = 0;
    for (name, _) in entries {
        if name.contains(from) {
            *name = name.replace(from, to);
            renamed += 1;
        }
    }
    assert!(renamed > 0, "{from} is in the set");
}

#[test]
fn every_layout_gives_the_same_drawings() {
    let entries = sound_set();
    let mut fingerprints = Vec::new();
    for subfolder in ["", "omniglot"] {
        for layout in 0..4 {
            let data = temporary();
            let folder = data.path().join(subfolder);
            fs::create_dir_all(&folder).expect("the folder can be made");
            for (place, part) in PARTS.into_iter().enumerate() {
                match (layout >> place) & 1 {
                    0 => write_folder(&folder, &entries, part),
                    _ if layout == 1 => {
                        write_archive(&folder, &entries, part, CompressionMethod::Stored);
                    }
                    _ => write_archive(&folder, &entries, part, CompressionMethod::Deflated),
                }
            }
            let found =
                Omniglot::open(data.path(), Limits::default()).expect("a sound set is accepted");
            assert_eq!(found.origin(), &Origin::Folder(folder));
            let (train, test) = (found.split(Split::Train), found.split(Split::Test));
            assert_eq!((train.len(), test.len()), (2 * (1 + 2 + 1), 2 * 9));
            for class in 0..13 {
                let counts = [train, test].map(|split| split.instances(class).len());
                assert!(counts == [2, 0] || counts == [0, 2], "class {class}");
            }
            fingerprints.push(found.fingerprint().to_owned());
        }
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1);
}

#[test]
fn a_drawing_is_reduced_with_ink_as_255() {
    let mut entries = sound_set();
    // Black except the first row, in eight bits with colour.
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 105, 105);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("a vector takes all bytes");
    let mut pixels = vec![0; 105 * 105 * 3];
    pixels[..3 * 105].fill(255);
    writer
        .write_image_data(&pixels)
        .expect("a vector takes all bytes");
    writer.finish().expect("a vector takes all bytes");
    replace(&mut entries, "0001_01.png", bytes);
    // White except the first four rows.
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 105, 105);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().expect("a vector takes all bytes");
    let mut pixels = vec![255; 105 * 105];
    pixels[..4 * 105].fill(0);
    writer
        .write_image_data(&pixels)
        .expect("a vector takes all bytes");
    writer.finish().expect("a vector takes all bytes");
    replace(&mut entries, "0001_02.png", bytes);

    let data = temporary();
    for part in PARTS {
        write_folder(data.path(), &entries, part);
    }
    let found = Omniglot::open(data.path(), Limits::default()).expect("a sound set is accepted");
    let images = [Split::Train, Split::Test]
        .map(|split| found.split(split))
        .into_iter()
        .find(|images| !images.instances(0).is_empty())
        .expect("class 0 is in a split");
    let [first, second] = images.instances(0) else {
        panic!("two drawings of class 0");
    };
    assert!(
        images
            .image(*first)
            .is_some_and(|image| image.iter().all(|&pixel| pixel == 255))
    );
    let mut striped = vec![0; 28 * 28];
    striped[..28].fill(255);
    assert_eq!(images.image(*second), Some(&striped[..]));
}

#[test]
fn missing_folders_and_parts_are_named() {
    let data = temporary();
    let nowhere = data.path().join("nowhere");
    let error = Omniglot::open(&nowhere, Limits::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        format!(
            "data folder {} does not exist; it should be a folder with the two parts of Omniglot \
             (images_background and images_evaluation, each as .zip or extracted)",
            nowhere.display()
        )
    );

    let error = Omniglot::open(data.path(), Limits::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        format!(
            "no images_background.zip and no folder images_background in {} or {}; both parts of \
             Omniglot must lie in one folder, archived or extracted",
            data.path().display(),
            data.path().join("omniglot").display()
        )
    );

    for (there, missing) in [(0, 1), (1, 0)] {
        let data = temporary();
        write_archive(
            data.path(),
            &sound_set(),
            PARTS[there],
            CompressionMethod::Stored,
        );
        let error = Omniglot::open(data.path(), Limits::default())
            .unwrap_err()
            .to_string();
        let start = format!(
            "no {0}.zip and no folder {0} in {1};",
            PARTS[missing],
            data.path().display()
        );
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn every_archive_must_be_whole() {
    let sound = temporary();
    for part in PARTS {
        write_archive(
            sound.path(),
            &sound_set(),
            part,
            CompressionMethod::Deflated,
        );
    }
    for part in PARTS {
        let path: PathBuf = sound.path().join(format!("{part}.zip"));
        let whole = fs::read(&path).expect("the archive can be read");
        let mut altered = whole.clone();
        let name = altered.windows(7).position(|bytes| bytes == b"_01.png");
        let drawing = name.expect("the archive holds drawings") + 7;
        altered[drawing + 60] ^= 0x55;
        for damaged in [
            &whole[..whole.len() - 1],
            &whole[..whole.len() / 2],
            &[],
            b"no archive",
            &altered,
        ] {
            fs::write(&path, damaged).expect("the folder can be written");
            let error = Omniglot::open(sound.path(), Limits::default())
                .expect_err("a damaged archive is refused");
            assert!(
                matches!(
                    error,
                    Error::DamagedArchive { .. } | Error::DamagedPng { .. }
                ),
                "{error}"
            );
            let message = error.to_string();
            assert!(
                message.starts_with(&path.display().to_string()),
                "{message}"
            );
            assert!(!message.contains('\n'), "{message}");
        }
        fs::write(&path, whole).expect("the folder can be written");
    }
    Omniglot::open(sound.path(), Limits::default()).expect("sound again");
}

#[test]
fn every_image_must_be_whole_and_of_the_right_size() {
    let whole = png(105, 4);
    let mut altered = whole.clone();
    altered[45] ^= 1;
    for damaged in [
        &whole[..whole.len() - 20],
        &whole[..20],
        &[],
        b"no image",
        &altered,
    ] {
        let errors = errors_with(|entries| replace(entries, "0003_02.png", damaged.to_vec()));
        for error in errors {
            assert!(matches!(error, Error::DamagedPng { .. }), "{error}");
            assert!(
                error.to_string().contains("0003_02.png: damaged PNG image"),
                "{error}"
            );
        }
    }
    for side in [28, 104, 106] {
        let errors = errors_with(|entries| replace(entries, "0013_01.png", png(side, 4)));
        for error in errors {
            assert!(
                error.to_string().ends_with(&format!(
                    "0013_01.png: the image has {side} x {side} pixels, but Omniglot drawings have 105 x 105"
                )),
                "{error}"
            );
        }
    }
}

#[test]
fn alphabets_and_characters_must_not_be_empty() {
    let errors = errors_with(|entries| entries.retain(|(name, _)| !name.contains("0006_")));
    for error in errors {
        assert!(
            error.to_string().ends_with(
                "images_background/N_Ko/character02: holds no drawings, but at least one CCCC_DD.png is \
                needed"
            ),
            "{error}"
        );
    }

    let errors =
        errors_with(|entries| entries.retain(|(name, _)| !name.contains("Tengwar/character04")));
    for error in errors {
        assert!(
            error.to_string().ends_with(
                "images_evaluation/Tengwar: an alphabet with 3 characters; at least 4 are needed, \
                 since 3 are kept for the test"
            ),
            "{error}"
        );
    }

    let errors =
        errors_with(|entries| entries.retain(|(name, _)| !name.contains("Greek/character")));
    for error in errors {
        assert!(
            matches!(error, Error::FewCharacters { characters: 0, .. }),
            "{error}"
        );
    }

    let errors = errors_with(|entries| {
        entries.retain(|(name, _)| !name.contains("Tengwar"));
    });
    for error in errors {
        assert!(matches!(error, Error::NoAlphabets { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("images_evaluation: holds no alphabets"),
            "{error}"
        );
    }
}

#[test]
fn names_must_say_what_is_drawn() {
    for wrong in ["12_01.png", "2000_01.png", "0000_01.png", "drawing.png"] {
        for error in errors_with(|entries| rename(entries, "/0012_01.png", &format!("/{wrong}"))) {
            assert!(matches!(error, Error::DrawingName { .. }), "{error}");
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }
    for error in errors_with(|entries| rename(entries, "/0002_02.png", "/0003_02.png")) {
        assert!(
            error.to_string().ends_with(
                "character02/0003_02.png: a drawing of another character in the folder of character \
                0002"
            ),
            "{error}"
        );
    }
    for error in errors_with(|entries| rename(entries, "/0002_", "/0013_")) {
        assert!(
            matches!(error, Error::CharacterTwice { number: 13, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("Greek/character02"), "{error}");
        assert!(error.to_string().contains("Tengwar/character04"), "{error}");
    }
}
