//! MNIST: 28 x 28 grey images of handwritten digits (LeCun, Cortes, Burges 1998).
//!
//! A subset comes with the program. The full set is read from a folder that holds the four original
//! files.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::idx::{self, Images};
use crate::{Error, Split};

/// The environment variable that names the data folder where no argument does.
pub const DATA_VARIABLE: &str = "MNEMORA_DATA";

/// The two halves of a file's name, which people join by `-` (originally) or by `.`.
#[derive(Clone, Copy)]
struct FileName(&'static str, &'static str);

const TRAIN_IMAGES: FileName = FileName("train-images", "idx3-ubyte");
const TRAIN_LABELS: FileName = FileName("train-labels", "idx1-ubyte");
const TEST_IMAGES: FileName = FileName("t10k-images", "idx3-ubyte");
const TEST_LABELS: FileName = FileName("t10k-labels", "idx1-ubyte");
const FILES: [FileName; 4] = [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS];

impl FileName {
    /// The file in `folder`, under any spelling, plain before compressed.
    fn within(self, folder: &Path) -> Option<PathBuf> {
        let FileName(part, format) = self;
        ["-", "."]
            .iter()
            .flat_map(|joint| {
                ["", ".gz"].map(|end| folder.join(format!("{part}{joint}{format}{end}")))
            })
            .find(|path| path.is_file())
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}[.gz]", self.0, self.1)
    }
}

/// One digit of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit<'a> {
    /// `[rows, columns]` row-major, 0 (background) to 255 (ink).
    pub image: &'a [u8],
    /// The digit, 0 to 9.
    pub label: u8,
}

/// The digits of one split: at least one, 28 x 28 pixels each, every one with its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digits {
    images: Vec<u8>,
    labels: Vec<u8>,
    rows: usize,
    columns: usize,
}

impl Digits {
    fn new(
        images: Images,
        images_file: &str,
        labels: Vec<u8>,
        labels_file: &str,
    ) -> Result<Digits, Error> {
        let Images {
            count,
            rows,
            columns,
            pixels,
        } = images;
        if (rows, columns) != (Mnist::ROWS, Mnist::COLUMNS) {
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
        Ok(Digits {
            images: pixels,
            labels,
            rows,
            columns,
        })
    }

    fn read(folder: &Path, images: FileName, labels: FileName) -> Result<Digits, Error> {
        let find = |name: FileName| {
            name.within(folder).ok_or_else(|| Error::NoFile {
                wanted: name.to_string(),
                looked_in: folder.display().to_string(),
            })
        };
        let (images, labels) = (find(images)?, find(labels)?);
        Digits::new(
            idx::read_images(&images)?,
            &images.display().to_string(),
            idx::read_labels(&labels)?,
            &labels.display().to_string(),
        )
    }

    /// Number of digits, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a split is never empty")]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Pixel rows of an image: 28.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Pixel columns of an image: 28.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// `[len, rows, columns]` row-major, 0 (background) to 255 (ink).
    pub fn images(&self) -> &[u8] {
        &self.images
    }

    /// `[len]`: the digit that each image shows, 0 to 9.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// The digit at `index`; `None` from [`Digits::len`] on.
    pub fn digit(&self, index: usize) -> Option<Digit<'_>> {
        let size = self.rows * self.columns;
        let label = *self.labels.get(index)?;
        let image = self.images.get(index * size..)?.get(..size)?;
        Some(Digit { image, label })
    }
}

/// Where digits came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The subset inside the program: the first 10,000 training and 1,000 test digits.
    Bundled,
    /// This folder.
    Folder(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Bundled => formatter.write_str("bundled subset"),
            Origin::Folder(folder) => write!(formatter, "{}", folder.display()),
        }
    }
}

/// Training and test digits.
#[derive(Clone, Debug)]
pub struct Mnist {
    train: Digits,
    test: Digits,
    fingerprint: String,
    origin: Origin,
}

impl Mnist {
    /// Pixel rows of every digit.
    pub const ROWS: usize = 28;
    /// Pixel columns of every digit.
    pub const COLUMNS: usize = 28;

    /// The subset inside the program: the first 10,000 training and the first 1,000 test digits of
    /// the original.
    ///
    /// # Errors
    /// Only where the program was built from damaged files.
    pub fn bundled() -> Result<Mnist, Error> {
        macro_rules! bundled {
            ($name:literal) => {
                (
                    include_bytes!(concat!("../../../data/mnist/", $name)),
                    concat!("bundled ", $name),
                )
            };
        }
        let (train_images, train_images_file) = bundled!("train-images-idx3-ubyte.gz");
        let (train_labels, train_labels_file) = bundled!("train-labels-idx1-ubyte.gz");
        let (test_images, test_images_file) = bundled!("t10k-images-idx3-ubyte.gz");
        let (test_labels, test_labels_file) = bundled!("t10k-labels-idx1-ubyte.gz");
        let train = Digits::new(
            idx::decode_images(train_images, train_images_file)?,
            train_images_file,
            idx::decode_labels(train_labels, train_labels_file)?,
            train_labels_file,
        )?;
        let test = Digits::new(
            idx::decode_images(test_images, test_images_file)?,
            test_images_file,
            idx::decode_labels(test_labels, test_labels_file)?,
            test_labels_file,
        )?;
        Ok(Mnist::new(train, test, Origin::Bundled))
    }

    /// The digits in `directory` or in its folder `mnist`.
    ///
    /// All four files must lie in one of the two: `train-images-idx3-ubyte`,
    /// `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte`, `t10k-labels-idx1-ubyte`; with or
    /// without `.gz`, and with `.idx` for `-idx` too.
    ///
    /// # Errors
    /// The folder or a file is missing or unreadable, a file is not what its name says, or images
    /// and labels do not fit each other.
    pub fn open(directory: &Path) -> Result<Mnist, Error> {
        let folder = folder_with_digits(directory)?;
        let train = Digits::read(&folder, TRAIN_IMAGES, TRAIN_LABELS)?;
        let test = Digits::read(&folder, TEST_IMAGES, TEST_LABELS)?;
        Ok(Mnist::new(train, test, Origin::Folder(folder)))
    }

    /// The digits a user means: those in the folder `data` if given, else those in the folder that
    /// the environment variable `MNEMORA_DATA` names if set and not empty, else the bundled subset.
    ///
    /// # Errors
    /// As [`Mnist::open`]: a folder that was named but cannot be used is never passed over.
    pub fn find(data: Option<&Path>) -> Result<Mnist, Error> {
        Mnist::find_with(data, env::var_os(DATA_VARIABLE))
    }

    fn find_with(data: Option<&Path>, variable: Option<OsString>) -> Result<Mnist, Error> {
        match (data, variable.filter(|value| !value.is_empty())) {
            (Some(directory), _) => Mnist::open(directory),
            (None, Some(directory)) => {
                Mnist::open(Path::new(&directory)).map_err(|cause| Error::FromEnvironment {
                    variable: DATA_VARIABLE,
                    cause: Box::new(cause),
                })
            }
            (None, None) => Mnist::bundled(),
        }
    }

    fn new(train: Digits, test: Digits, origin: Origin) -> Mnist {
        let fingerprint = fingerprint(&train, &test);
        Mnist {
            train,
            test,
            fingerprint,
            origin,
        }
    }

    /// The digits of a split.
    pub fn split(&self, split: Split) -> &Digits {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// SHA-256 of the decoded digits, 64 hexadecimal characters: equal for equal digits, however
    /// compressed or named.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Where the digits came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// Of `directory` and `directory/mnist`, the one with all four files, or else the first with any.
fn folder_with_digits(directory: &Path) -> Result<PathBuf, Error> {
    if !directory.is_dir() {
        let problem = if directory.exists() {
            "is not a folder"
        } else {
            "does not exist"
        };
        let wanted = FILES.map(|name| name.to_string()).join(", ");
        return Err(Error::NoFolder {
            path: directory.to_owned(),
            problem,
            wanted,
        });
    }
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

fn fingerprint(train: &Digits, test: &Digits) -> String {
    let mut hash = Sha256::new_with_prefix(b"mnemora mnist 1");
    for digits in [train, test] {
        for dimension in [digits.len(), digits.rows, digits.columns] {
            hash.update((dimension as u64).to_le_bytes());
        }
        hash.update(&digits.images);
        hash.update(&digits.labels);
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_comes_before_variable_before_bundle() {
        let missing = Path::new("no-such-folder");
        let found = Mnist::find_with(None, None).expect("the bundled digits are sound");
        assert_eq!(found.origin(), &Origin::Bundled);
        let found = Mnist::find_with(None, Some(OsString::new()))
            .expect("an empty variable names no folder");
        assert_eq!(found.origin(), &Origin::Bundled);

        let error = Mnist::find_with(Some(missing), Some("other-folder".into())).unwrap_err();
        assert!(
            matches!(&error, Error::NoFolder { path, .. } if path == missing),
            "{error}"
        );
        let error = Mnist::find_with(None, Some("other-folder".into()))
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
        let last = digits
            .digit(digits.len() - 1)
            .expect("the last digit is there");
        assert_eq!(last.image, &digits.images()[digits.images().len() - 784..]);
        assert_eq!(Some(&last.label), digits.labels().last());
        assert_eq!(digits.digit(digits.len()), None);
        assert_eq!(digits.digit(usize::MAX), None);
        assert_eq!((digits.rows(), digits.columns()), (28, 28));
    }
}
