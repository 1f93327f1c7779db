//! The bundled digits are as documented: the first of the original set.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use mnemora_worlds::{DATA_VARIABLE, DataSet, Limits, Mnist, Origin, Split};

fn bundled() -> DataSet {
    Mnist::bundled().expect("the bundled digits are sound")
}

#[test]
fn counts_and_classes_are_as_documented() {
    let mnist = bundled();
    assert_eq!(mnist.origin(), &Origin::BundledSubset);
    for (split, count) in [(Split::Train, 10_000), (Split::Test, 1_000)] {
        let digits = mnist.split(split);
        assert_eq!(
            (digits.len(), digits.pixels().len()),
            (count, count * 28 * 28)
        );
        for class in 0..10 {
            let share = digits
                .labels()
                .iter()
                .filter(|&&label| label == class)
                .count() as f64
                / count as f64;
            assert!(
                (0.08..0.13).contains(&share),
                "{split}: share of {class} is {share}"
            );
        }
    }
    assert_eq!(
        mnist.split(Split::Train).labels()[..10],
        [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    );
    assert_eq!(
        mnist.split(Split::Test).labels()[..10],
        [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    );
}

/// Results identify their digits by this fingerprint.
#[test]
fn fingerprint_is_pinned() {
    assert_eq!(
        bundled().fingerprint(),
        "20523a6a7b8dc71b873b5660aec561393af27691e717bf5b39162a2c6e360799"
    );
}

/// `data/README.md` says what is hashed; here it is computed from the files, without the crate's reader.
#[test]
fn fingerprint_is_what_the_data_readme_says() {
    let mut hash = Sha256::new();
    hash.update(b"mnemora mnist 1");
    for part in ["train", "t10k"] {
        let unpack = |name: &str| {
            let path = format!("data/mnist/{part}-{name}-ubyte.gz");
            let mut bytes = Vec::new();
            GzDecoder::new(File::open(path).unwrap())
                .read_to_end(&mut bytes)
                .unwrap();
            bytes
        };
        let (images, labels) = (unpack("images-idx3"), unpack("labels-idx1"));
        for size in images[4..16].chunks(4) {
            let size = u32::from_be_bytes(size.try_into().unwrap());
            hash.update(u64::from(size).to_le_bytes());
        }
        hash.update(&images[16..]);
        hash.update(&labels[8..]);
    }
    let digest: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(bundled().fingerprint(), digest);
}

#[test]
fn equals_the_first_records_of_the_full_set() {
    let folder = match env::var_os(DATA_VARIABLE) {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from("../../../shared/data/mnist"),
    };
    if !folder.is_dir() {
        println!(
            "skipped: comparison with the full MNIST, no folder {}; set {DATA_VARIABLE}",
            folder.display()
        );
        return;
    }
    let full = Mnist::open(&folder, Limits::default()).expect("the full set can be read");
    let bundled = bundled();
    for (split, count) in [(Split::Train, 60_000), (Split::Test, 10_000)] {
        let (whole, part) = (full.split(split), bundled.split(split));
        assert_eq!(whole.len(), count);
        assert!(whole.pixels().starts_with(part.pixels()), "{split} images");
        assert!(whole.labels().starts_with(part.labels()), "{split} labels");
    }
    assert_ne!(full.fingerprint(), bundled.fingerprint());
}
