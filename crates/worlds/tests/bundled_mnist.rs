//! The bundled digits are what they are said to be: the first of the original set.

use std::env;
use std::path::PathBuf;

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

/// Results name the digits they were measured on by this fingerprint.
#[test]
fn fingerprint_is_pinned() {
    assert_eq!(
        bundled().fingerprint(),
        "20523a6a7b8dc71b873b5660aec561393af27691e717bf5b39162a2c6e360799"
    );
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
