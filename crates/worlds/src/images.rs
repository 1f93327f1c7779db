//! Labelled images, and data sets of two splits of them, from which the tasks take their frames.

mod mnist;
mod omniglot;

pub use self::mnist::Mnist;
pub use self::omniglot::Omniglot;

use std::fmt;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use crate::{Error, Split};

/// The environment variable that names the data folder if no argument does.
pub const DATA_VARIABLE: &str = "MNEMORA_DATA";

/// The images of one split with their labels: at least one, [`Images::ROWS`] x [`Images::COLUMNS`] pixels
/// each.
#[derive(Clone, PartialEq, Eq)]
pub struct Images {
    pixels: Vec<u8>,
    labels: Vec<u16>,
    /// Positions of the images of each label.
    instances: Vec<Vec<usize>>,
}

impl Images {
    /// Pixel rows of an image.
    pub const ROWS: usize = 28;
    /// Pixel columns of an image.
    pub const COLUMNS: usize = 28;
    /// Pixels of an image.
    pub const SIZE: usize = Images::ROWS * Images::COLUMNS;

    /// `pixels` is `[labels.len(), ROWS, COLUMNS]`, not empty; every label is below `classes`.
    pub(crate) fn new(pixels: Vec<u8>, labels: Vec<u16>, classes: usize) -> Images {
        debug_assert_eq!(pixels.len(), labels.len() * Images::SIZE);
        debug_assert!(!labels.is_empty());
        let mut instances = vec![Vec::new(); classes];
        for (index, &label) in labels.iter().enumerate() {
            instances[usize::from(label)].push(index);
        }
        Images {
            pixels,
            labels,
            instances,
        }
    }

    /// Number of images, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a split is never empty")]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The position of an image, uniform over the split.
    pub(crate) fn draw(&self, generator: &mut ChaCha8Rng) -> usize {
        generator.random_range(0..self.len())
    }

    /// `[rows, columns]` row-major, 0 (background) to 255 (ink); `None` from [`Images::len`] on.
    pub fn image(&self, index: usize) -> Option<&[u8]> {
        self.pixels
            .as_chunks::<{ Images::SIZE }>()
            .0
            .get(index)
            .map(<[u8; Images::SIZE]>::as_slice)
    }

    /// The class of an image; `None` from [`Images::len`] on.
    pub fn label(&self, index: usize) -> Option<u16> {
        self.labels.get(index).copied()
    }

    /// `[len, rows, columns]` row-major, 0 (background) to 255 (ink).
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// `[len]`: the class of every image, below [`DataSet::classes`].
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// The positions of the images of a class, in ascending order; empty for a class that the split lacks.
    pub fn instances(&self, class: u16) -> &[usize] {
        self.instances
            .get(usize::from(class))
            .map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for Images {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Images({})", self.len())
    }
}

/// The source of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A part of the original images that comes inside the program.
    BundledSubset,
    /// The whole data set, inside the program.
    Bundled,
    /// This folder or file.
    Folder(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BundledSubset => formatter.write_str("bundled subset"),
            Origin::Bundled => formatter.write_str("bundled set"),
            Origin::Folder(folder) => write!(formatter, "{}", folder.display()),
        }
    }
}

/// Training and test images, as [`Mnist`](crate::Mnist) or [`Omniglot`](crate::Omniglot) read them.
#[derive(Clone, Debug)]
pub struct DataSet {
    pub(crate) name: &'static str,
    pub(crate) classes: usize,
    pub(crate) train: Images,
    pub(crate) test: Images,
    pub(crate) fingerprint: String,
    pub(crate) origin: Origin,
}

impl DataSet {
    /// `mnist` or `omniglot`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number of classes: 10 digits, or 1623 characters. A split need not contain all of
    /// them.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The images of a split.
    pub fn split(&self, split: Split) -> &Images {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// SHA-256 over a prefix, sizes, decoded images and labels of both splits, 64 hexadecimal
    /// characters: equal for equal images and labels, however compressed or named. `data/README.md`
    /// of this crate says byte by byte what is hashed; `data/fingerprint.py` recomputes it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Where the images came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// Checks that `directory` is a folder; `wanted` says what should lie in it.
pub(crate) fn check_folder(directory: &Path, wanted: impl FnOnce() -> String) -> Result<(), Error> {
    if directory.is_dir() {
        return Ok(());
    }
    let problem = if directory.exists() {
        "is not a folder"
    } else {
        "does not exist"
    };
    Err(Error::NoFolder {
        path: directory.to_owned(),
        problem,
        wanted: wanted(),
    })
}

/// 64 hexadecimal characters.
pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
