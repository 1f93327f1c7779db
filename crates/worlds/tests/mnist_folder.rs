//! Opening a folder of digits: every accepted name, and every way in which it can be
//! wrong.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use mnemora_worlds::idx::{Images, encode_images, encode_labels};
use mnemora_worlds::{Error, Limits, Mnist, Origin, Split};
use tempfile::TempDir;

const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";
const TEST_IMAGES: &str = "t10k-images-idx3-ubyte";
const TEST_LABELS: &str = "t10k-labels-idx1-ubyte";
const FILES: [&str; 4] = [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("a vector takes all bytes");
    encoder.finish().expect("a vector takes all bytes")
}

fn images_idx(count: usize, side: usize) -> Vec<u8> {
    let pixels = (0..count * side * side)
        .map(|pixel| (pixel % 251) as u8)
        .collect();
    encode_images(&Images {
        count,
        rows: side,
        columns: side,
        pixels,
    })
    .expect("the shape fits")
}

fn labels_idx(labels: &[u8]) -> Vec<u8> {
    encode_labels(labels).expect("few labels fit")
}

/// A valid set of three training digits and two test digits.
fn content(name: &str) -> Vec<u8> {
    match name {
        TRAIN_IMAGES => images_idx(3, 28),
        TRAIN_LABELS => labels_idx(&[3, 1, 9]),
        TEST_IMAGES => images_idx(2, 28),
        _ => labels_idx(&[0, 7]),
    }
}

fn write_sound_set(folder: &Path) {
    for name in FILES {
        fs::write(folder.join(name), content(name)).expect("the folder can be written");
    }
}

/// The error for a valid set in which one file has other bytes.
fn error_with(name: &str, bytes: &[u8]) -> Error {
    let folder = TempDir::new().expect("a temporary folder can be made");
    write_sound_set(folder.path());
    fs::write(folder.path().join(name), bytes).expect("the folder can be written");
    let error =
        Mnist::open(folder.path(), Limits::default()).expect_err("a wrong file must be refused");
    let message = error.to_string();
    assert!(message.contains(name), "{message} does not name {name}");
    assert!(!message.contains('\n'), "{message} is more than one line");
    error
}

#[test]
fn every_spelling_gives_the_same_digits() {
    let mut fingerprints = Vec::new();
    for subfolder in ["", "mnist"] {
        for joint in ["-idx", ".idx"] {
            for compressed in [false, true] {
                let data = TempDir::new().expect("a temporary folder can be made");
                let folder = data.path().join(subfolder);
                fs::create_dir_all(&folder).expect("the folder can be made");
                for name in FILES {
                    let plain = content(name);
                    let (end, bytes) = if compressed {
                        (".gz", gzip(&plain))
                    } else {
                        ("", plain)
                    };
                    fs::write(folder.join(name.replace("-idx", joint) + end), bytes)
                        .expect("the folder can be written");
                }
                let mnist =
                    Mnist::open(data.path(), Limits::default()).expect("a sound set is accepted");
                assert_eq!(mnist.origin(), &Origin::Folder(folder));
                assert_eq!(mnist.split(Split::Train).labels(), [3, 1, 9]);
                assert_eq!(mnist.split(Split::Test).labels(), [0, 7]);
                fingerprints.push(mnist.fingerprint().to_owned());
            }
        }
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1);
}

#[test]
fn a_complete_subfolder_comes_before_an_incomplete_folder() {
    let data = TempDir::new().expect("a temporary folder can be made");
    let folder = data.path().join("mnist");
    fs::create_dir(&folder).expect("the folder can be made");
    write_sound_set(&folder);
    fs::write(data.path().join(TEST_LABELS), b"stray").expect("the folder can be written");
    assert_eq!(
        Mnist::open(data.path(), Limits::default())
            .expect("the subfolder is sound")
            .origin(),
        &Origin::Folder(folder)
    );
}

#[test]
fn missing_folders_and_files_are_named() {
    let data = TempDir::new().expect("a temporary folder can be made");
    let nowhere = data.path().join("nowhere");
    let error = Mnist::open(&nowhere, Limits::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("{} does not exist", nowhere.display())),
        "{error}"
    );
    assert!(FILES.iter().all(|name| error.contains(name)), "{error}");

    let error = Mnist::open(data.path(), Limits::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!(
            "{} or {}",
            data.path().display(),
            data.path().join("mnist").display()
        )),
        "{error}"
    );

    for name in FILES {
        write_sound_set(data.path());
        fs::remove_file(data.path().join(name)).expect("the file can be removed");
        let error = Mnist::open(data.path(), Limits::default()).unwrap_err();
        assert!(matches!(error, Error::NoFile { .. }), "{error}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("no {name}[.gz] in ")),
            "{error}"
        );
    }

    let file = data.path().join(TRAIN_IMAGES);
    let error = Mnist::open(&file, Limits::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not a folder"), "{error}");
}

#[test]
fn every_file_must_have_its_own_format() {
    for name in FILES {
        let other = if name.contains("images") {
            content(TRAIN_LABELS)
        } else {
            content(TRAIN_IMAGES)
        };
        assert!(matches!(error_with(name, &other), Error::WrongMagic { .. }));
        assert!(matches!(
            error_with(name, b"neither idx nor gzip"),
            Error::WrongMagic { .. }
        ));
        assert!(matches!(
            error_with(name, &[]),
            Error::ShortHeader { length: 0, .. }
        ));
    }
}

#[test]
fn every_file_must_be_whole() {
    for name in FILES {
        let plain = content(name);
        let archive = gzip(&plain);
        let cut = |bytes: &[u8]| bytes[..bytes.len() - 1].to_vec();
        assert!(matches!(
            error_with(name, &cut(&plain)),
            Error::ShortPayload { .. }
        ));
        assert!(matches!(
            error_with(name, &[&plain[..], &[0]].concat()),
            Error::LongPayload { .. }
        ));
        assert!(matches!(
            error_with(name, &cut(&archive)),
            Error::DamagedGzip { .. }
        ));
        assert!(matches!(
            error_with(name, &archive[..archive.len() / 2]),
            Error::DamagedGzip { .. }
        ));
        assert!(matches!(
            error_with(name, &[&archive[..], b"stray"].concat()),
            Error::DamagedGzip { .. }
        ));
    }
}

#[test]
fn images_and_labels_must_fit_each_other() {
    assert!(matches!(
        error_with(TRAIN_IMAGES, &images_idx(4, 28)),
        Error::CountMismatch {
            images: 4,
            labels: 3,
            ..
        }
    ));
    assert!(matches!(
        error_with(TEST_LABELS, &labels_idx(&[1])),
        Error::CountMismatch {
            images: 2,
            labels: 1,
            ..
        }
    ));
    assert!(matches!(
        error_with(TEST_LABELS, &labels_idx(&[1, 10])),
        Error::WrongLabel {
            label: 10,
            position: 1,
            ..
        }
    ));
    assert!(matches!(
        error_with(TRAIN_IMAGES, &images_idx(3, 32)),
        Error::WrongImageSize {
            rows: 32,
            columns: 32,
            ..
        }
    ));
    assert!(matches!(
        error_with(TRAIN_IMAGES, &images_idx(0, 28)),
        Error::NoImages { .. }
    ));
}
