//! MNIST: 28 x 28 grey images of handwritten digits (LeCun, Cortes, Burges 1998).
//!
//! A subset comes with the program. The full set is read from a folder with the four original
//! files.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::files::{Files, is_named};
use crate::images::{DATA_VARIABLE, check_folder, hexadecimal};
use crate::{DataSet, Error, Images, Limits, Origin, idx};

/// The two halves of a file's name, joined by `-` (as in the original) or by `.`.
#[derive(Clone, Copy)]
struct FileName(&'static str, &'static str);

const TRAIN_IMAGES: FileName = FileName("train-images", "idx3-ubyte");
const TRAIN_LABELS: FileName = FileName("train-labels", "idx1-ubyte");
const TEST_IMAGES: FileName = FileName("t10k-images", "idx3-ubyte");
const TEST_LABELS: FileName = FileName("t10k-labels", "idx1-ubyte");
const FILES: [FileName; 4] = [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS];

impl FileName {
    /// The file in `folder`, under any accepted name; the plain file is preferred to the compressed one.
    fn within(self, folder: &Path) -> Option<PathBuf> {
        let FileName(part, format) = self;
        ["-", "."]
            .iter()
            .flat_map(|joint| {
                ["", ".gz"].map(|end| folder.join(format!("{part}{joint}{format}{end}")))
            })
            .find(|path| is_named(path))
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}[.gz]", self.0, self.1)
    }
}

/// The digits of one split, from its decoded files.
fn digits(
    images: idx::Images,
    images_file: &str,
    labels: Vec<u8>,
    labels_file: &str,
) -> Result<Images, Error> {
    let idx::Images {
        count,
        rows,
        columns,
        pixels,
    } = images;
    if (rows, columns) != (Images::ROWS, Images::COLUMNS) {
        return Err(Error::WrongImageSize {
            file: images_file.to_owned(),
            rows,
            columns,
        });
    }
    if count == 0 {
        return Err(Error::NoImages {
            file: images_file.to_owned(),
        });
    }
    if count != labels.len() {
        return Err(Error::CountMismatch {
            images_file: images_file.to_owned(),
            images: count,
            labels_file: labels_file.to_owned(),
            labels: labels.len(),
        });
    }
    if let Some((position, &label)) = labels.iter().enumerate().find(|&(_, &label)| label > 9) {
        return Err(Error::WrongLabel {
            file: labels_file.to_owned(),
            label,
            position,
        });
    }
    let labels = labels.into_iter().map(u16::from).collect();
    Ok(Images::new(pixels, labels, Mnist::CLASSES))
}

/// The digits of one split in `folder`.
fn read(folder: &Path, images: FileName, labels: FileName, files: &Files) -> Result<Images, Error> {
    let find = |name: FileName| {
        name.within(folder).ok_or_else(|| Error::NoFile {
            wanted: name.to_string(),
            looked_in: folder.display().to_string(),
        })
    };
    let (images, labels) = (find(images)?, find(labels)?);
    digits(
        idx::open_images(&images, files)?,
        &images.display().to_string(),
        idx::open_labels(&labels, files)?,
        &labels.display().to_string(),
    )
}

/// Reads training and test digits. Their labels are the digits, 0 to 9.
#[derive(Clone, Copy, Debug)]
pub enum Mnist {}

impl Mnist {
    /// Number of classes.
    pub const CLASSES: usize = 10;

    /// The subset inside the program: the first 10,000 training and the first 1,000 test digits of
    /// the original.
    ///
    /// # Errors
    /// Only if the program was built from damaged files.
    pub fn bundled() -> Result<DataSet, Error> {
        macro_rules! bundled {
            ($name:literal) => {
                (
                    include_bytes!(concat!("../../data/mnist/", $name)),
                    concat!("bundled ", $name),
                )
            };
        }
        let (train_images, train_images_file) = bundled!("train-images-idx3-ubyte.gz");
        let (train_labels, train_labels_file) = bundled!("train-labels-idx1-ubyte.gz");
        let (test_images, test_images_file) = bundled!("t10k-images-idx3-ubyte.gz");
        let (test_labels, test_labels_file) = bundled!("t10k-labels-idx1-ubyte.gz");
        let train = digits(
            idx::decode_images(train_images, train_images_file)?,
            train_images_file,
            idx::decode_labels(train_labels, train_labels_file)?,
            train_labels_file,
        )?;
        let test = digits(
            idx::decode_images(test_images, test_images_file)?,
            test_images_file,
            idx::decode_labels(test_labels, test_labels_file)?,
            test_labels_file,
        )?;
        Ok(data_set(train, test, Origin::BundledSubset))
    }

    /// The digits in `directory` or in its folder `mnist`.
    ///
    /// All four files must lie in one of the two: `train-images-idx3-ubyte`,
    /// `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte`, `t10k-labels-idx1-ubyte`; with or
    /// without `.gz`, and with `.idx` for `-idx` too.
    ///
    /// # Errors
    /// The folder or a file is missing or unreadable, a file is not what its name says, or images
    /// and labels do not fit each other, or the files exceed the limits.
    pub fn open(directory: &Path, limits: Limits) -> Result<DataSet, Error> {
        let folder = folder_with_digits(directory)?;
        let files = Files::new(limits);
        let train = read(&folder, TRAIN_IMAGES, TRAIN_LABELS, &files)?;
        let test = read(&folder, TEST_IMAGES, TEST_LABELS, &files)?;
        Ok(data_set(train, test, Origin::Folder(folder)))
    }

    /// The digits in the folder `data` if given; otherwise those in the folder that the environment variable
    /// `MNEMORA_DATA` names, if it is set and not empty; otherwise the bundled subset.
    ///
    /// # Errors
    /// As [`Mnist::open`]: a folder that was named but cannot be used is always an error.
    pub fn find(data: Option<&Path>, limits: Limits) -> Result<DataSet, Error> {
        Mnist::find_with(data, env::var_os(DATA_VARIABLE), limits)
    }

    fn find_with(
        data: Option<&Path>,
        variable: Option<OsString>,
        limits: Limits,
    ) -> Result<DataSet, Error> {
        match (data, variable.filter(|value| !value.is_empty())) {
            (Some(directory), _) => Mnist::open(directory, limits),
            (None, Some(directory)) => {
                Mnist::open(Path::new(&directory), limits).map_err(|cause| Error::FromEnvironment {
                    variable: DATA_VARIABLE,
                    cause: Box::new(cause),
                })
            }
            (None, None) => Mnist::bundled(),
        }
    }
}

fn data_set(train: Images, test: Images, origin: Origin) -> DataSet {
    DataSet {
        name: "mnist",
        classes: Mnist::CLASSES,
        fingerprint: fingerprint(&train, &test),
        train,
        test,
        origin,
    }
}

/// Of `directory` and `directory/mnist`, the one with all four files, otherwise the first one with any.
fn folder_with_digits(directory: &Path) -> Result<PathBuf, Error> {
    check_folder(directory, || {
        let names = FILES.map(|name| name.to_string()).join(", ");
        format!("the four MNIST files ({names})")
    })?;
    let folders = [directory.to_owned(), directory.join("mnist")];
    let present = |folder: &PathBuf| {
        FILES
            .iter()
            .filter(|name| name.within(folder).is_some())
            .count()
    };
    let chosen = folders
        .iter()
        .find(|folder| present(folder) == FILES.len())
        .or_else(|| folders.iter().find(|folder| present(folder) > 0));
    chosen.cloned().ok_or_else(|| Error::NoFile {
        wanted: TRAIN_IMAGES.to_string(),
        looked_in: folders
            .map(|folder| folder.display().to_string())
            .join(" or "),
    })
}

/// For both splits: count, rows and columns as u64, little-endian; pixels; labels. A label takes one
/// byte, as in its file.
fn fingerprint(train: &Images, test: &Images) -> String {
    let mut hash = Sha256::new_with_prefix(b"mnemora mnist 1");
    for digits in [train, test] {
        for dimension in [digits.len(), Images::ROWS, Images::COLUMNS] {
            hash.update((dimension as u64).to_le_bytes());
        }
        hash.update(digits.pixels());
        let labels: Vec<u8> = digits.labels().iter().map(|&label| label as u8).collect();
        hash.update(&labels);
    }
    hexadecimal(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Split;

    #[test]
    fn argument_comes_before_variable_before_bundle() {
        let missing = Path::new("no-such-folder");
        let find = |data, variable| Mnist::find_with(data, variable, Limits::default());
        let found = find(None, None).expect("the bundled digits are sound");
        assert_eq!(found.origin(), &Origin::BundledSubset);
        let found = find(None, Some(OsString::new())).expect("an empty variable names no folder");
        assert_eq!(found.origin(), &Origin::BundledSubset);

        let error = find(Some(missing), Some("other-folder".into())).unwrap_err();
        assert!(
            matches!(&error, Error::NoFolder { path, .. } if path == missing),
            "{error}"
        );
        let error = find(None, Some("other-folder".into()))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("data folder other-folder does not exist; "),
            "{error}"
        );
        assert!(error.contains(DATA_VARIABLE), "{error}");
    }

    #[test]
    fn digits_are_found_up_to_the_last() {
        let mnist = Mnist::bundled().expect("the bundled digits are sound");
        let digits = mnist.split(Split::Test);
        let last = digits.len() - 1;
        assert_eq!(
            digits.image(last),
            digits.pixels().last_chunk::<784>().map(|image| &image[..])
        );
        assert_eq!(digits.label(last).as_ref(), digits.labels().last());
        for beyond in [digits.len(), usize::MAX] {
            assert_eq!(digits.image(beyond), None);
            assert_eq!(digits.label(beyond), None);
        }
    }

    #[test]
    fn instances_of_a_class_are_all_images_with_its_label() {
        let mnist = Mnist::bundled().expect("the bundled digits are sound");
        for split in [Split::Train, Split::Test] {
            let digits = mnist.split(split);
            let mut all: Vec<usize> = Vec::new();
            for class in 0..10 {
                let instances = digits.instances(class);
                assert!(instances.is_sorted());
                assert!(
                    instances
                        .iter()
                        .all(|&index| digits.label(index) == Some(class))
                );
                all.extend(instances);
            }
            all.sort();
            assert!(all.into_iter().eq(0..digits.len()));
            assert!(digits.instances(10).is_empty());
        }
    }
}
