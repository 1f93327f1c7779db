//! Square colour pictures to walk over.

use crate::error::unusable;
use crate::files::Files;
use crate::formats::npy::{self, Numbers};
use crate::formats::picture::Picture;
use crate::images::{DATA_VARIABLE, hexadecimal};
use crate::{Error, Fit, FrameSettings, Limits, Origin, Split};
use sha2::{Digest, Sha256};
use std::env;
use std::path::{Path, PathBuf};

/// Pictures of one size in two splits: at least one in each, `[side, side, 3]`, 0 to 255.
#[derive(Clone, Debug)]
pub struct Pictures {
    side: usize,
    train: Vec<u8>,
    test: Vec<u8>,
    fingerprint: String,
    origin: Origin,
}

/// Bundled photographs, by split.
macro_rules! photographs {
    ($split:literal: $($name:literal),+) => {
        [$((
            include_bytes!(concat!("../../data/pictures/", $split, "/", $name, ".png")).as_slice(),
            concat!("bundled ", $name, ".png"),
        )),+]
    };
}

/// Windows are cut out of photographs whose sides are divided by these numbers, so that they show more or less.
const DIVISORS: [usize; 3] = [1, 2, 3];
/// A window is moved by this fraction of its side.
const MOVES: usize = 4;
/// The least standard deviation of a window's numbers around the mean of their colour, on the scale of 0 to 255: a window
/// below it shows hardly anything.
const LEAST_CONTRAST: f64 = 0.1 * 255.0;

impl Pictures {
    /// Windows of bundled photographs; no photograph is in both splits.
    ///
    /// # Errors
    /// If `side` is larger than a photograph.
    pub fn bundled(side: usize) -> Result<Self, Error> {
        let train = photographs!("train": "astronaut", "hubble-deep-field", "retina", "rocket");
        let test = photographs!("test": "chelsea", "coffee");
        let cut = |photographs: &[(&[u8], &str)]| -> Result<Vec<u8>, Error> {
            let mut windows = Vec::new();
            for (bytes, name) in photographs {
                let room = Limits::default().room(bytes.len());
                let photograph = Picture::decode(bytes, room);
                let photograph =
                    photograph.map_err(|problem| unusable(Path::new(name), problem))?;
                for divisor in DIVISORS {
                    cut_windows(&photograph.divided(divisor), side, &mut windows);
                }
            }
            Ok(windows)
        };
        let (train, test) = (cut(&train)?, cut(&test)?);
        if train.is_empty() || test.is_empty() {
            return Err(Error::Setting {
                key: "navigation.image.picture",
                value: side,
                wanted: "the bundled photographs are too small for such pictures; at most 128"
                    .to_owned(),
            });
        }
        Ok(Self::new(side, train, test, Origin::Bundled))
    }

    /// Pictures from a folder, or from a `.npz` archive.
    ///
    /// A folder with subfolders `train` and `test` has its two splits there; of the pictures (PNG, JPEG) of another
    /// folder and its subfolders, the last fifth in natural order is the test split. Each is cut to the square in its
    /// middle and reduced to `side`.
    ///
    /// An archive has an array `images`, `[count, height, width, 3]`, uint8, and an array `is_test`, `[count]`, that is
    /// not 0 for the test split. In a folder with one archive and no pictures beside it, the archive is read.
    ///
    /// # Errors
    /// If there are fewer than two pictures, if a split is empty, or if a file cannot be read.
    pub fn open(path: &Path, side: usize, limits: Limits) -> Result<Self, Error> {
        let files = Files::new(limits);
        let settings = FrameSettings {
            side,
            colour: true,
            fit: Fit::CentreCrop,
        };
        let (train, test) = match archive_in(path, &files)? {
            Some(archive) => from_archive(&archive, &settings, &files)?,
            None => from_folder(path, &settings, &files)?,
        };
        Ok(Self::new(
            side,
            train,
            test,
            Origin::Folder(path.to_owned()),
        ))
    }

    /// The pictures at `data`, or those that [`DATA_VARIABLE`] names, or the bundled ones.
    ///
    /// # Errors
    /// See [`open`](Self::open) and [`bundled`](Self::bundled).
    pub fn find(data: Option<&Path>, side: usize, limits: Limits) -> Result<Self, Error> {
        let variable = env::var_os(DATA_VARIABLE).filter(|value| !value.is_empty());
        match (data, variable) {
            (Some(path), _) => Self::open(path, side, limits),
            (None, Some(path)) => {
                let found = Self::open(Path::new(&path), side, limits);
                found.map_err(|cause| Error::FromEnvironment {
                    variable: DATA_VARIABLE,
                    cause: Box::new(cause),
                })
            }
            (None, None) => Self::bundled(side),
        }
    }

    /// One picture, the only one of both splits: a PNG or JPEG file, cut to the square in its middle and reduced to
    /// `side`.
    ///
    /// # Errors
    /// If it cannot be read, or if a side has fewer pixels than `side`.
    pub fn single(file: &Path, side: usize, limits: Limits) -> Result<Self, Error> {
        let picture = decoded(file, &Files::new(limits))?;
        if picture.height.min(picture.width) < side {
            return Err(unusable(
                file,
                format!(
                    "{} x {} pixels; it must have at least {side} x {side}",
                    picture.height, picture.width
                ),
            ));
        }
        let pixels = picture.frame(&FrameSettings {
            side,
            colour: true,
            fit: Fit::CentreCrop,
        });
        let origin = Origin::Folder(file.to_owned());
        Ok(Self::new(side, pixels.clone(), pixels, origin))
    }

    fn new(side: usize, train: Vec<u8>, test: Vec<u8>, origin: Origin) -> Self {
        let mut hash = Sha256::new();
        hash.update("mnemora pictures 1");
        hash.update((side as u64).to_le_bytes());
        for split in [&train, &test] {
            hash.update(((split.len() / (3 * side * side)) as u64).to_le_bytes());
            hash.update(split);
        }
        Self {
            side,
            train,
            test,
            fingerprint: hexadecimal(hash),
            origin,
        }
    }

    /// Rows and columns of a picture.
    pub fn side(&self) -> usize {
        self.side
    }

    fn split(&self, split: Split) -> &[u8] {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// Pictures of a split, at least 1.
    pub fn len(&self, split: Split) -> usize {
        self.split(split).len() / (3 * self.side * self.side)
    }

    /// A picture, `[side, side, 3]`.
    ///
    /// # Panics
    /// If the split has no such picture.
    pub fn picture(&self, split: Split, index: usize) -> &[u8] {
        let size = 3 * self.side * self.side;
        &self.split(split)[index * size..][..size]
    }

    /// Bytes of all pictures.
    pub fn bytes(&self) -> usize {
        self.train.len() + self.test.len()
    }

    /// SHA-256 over a prefix, the side and the pixels of both splits, 64 hexadecimal characters; `data/README.md` of this
    /// crate says byte by byte what is hashed.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Where the pictures came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// Appends the windows of a picture that show something.
fn cut_windows(picture: &Picture, side: usize, windows: &mut Vec<u8>) {
    let step = (side / MOVES).max(1);
    let starts = |length: usize| (0..(length + 1).saturating_sub(side)).step_by(step);
    for top in starts(picture.height) {
        for left in starts(picture.width) {
            let begin = windows.len();
            for row in top..top + side {
                let start = 3 * (row * picture.width + left);
                windows.extend_from_slice(&picture.pixels[start..][..3 * side]);
            }
            if contrast(&windows[begin..]) < LEAST_CONTRAST {
                windows.truncate(begin);
            }
        }
    }
}

/// Standard deviation of pixels `[count, 3]` around the mean of each colour.
fn contrast(pixels: &[u8]) -> f64 {
    let count = pixels.len() as f64 / 3.0;
    let variance = |colour: usize| {
        let numbers = || pixels.iter().skip(colour).step_by(3).map(|x| f64::from(*x));
        let mean = numbers().sum::<f64>() / count;
        numbers().map(|x| (x - mean).powi(2)).sum::<f64>() / count
    };
    ((0..3).map(variance).sum::<f64>() / 3.0).sqrt()
}

const PICTURES: [&str; 3] = ["png", "jpg", "jpeg"];

/// The archive that is meant by a path, if one is.
fn archive_in(path: &Path, files: &Files) -> Result<Option<PathBuf>, Error> {
    if !path.is_dir() {
        let archive = path.extension().is_some_and(|extension| extension == "npz");
        return match archive {
            true => Ok(Some(path.to_owned())),
            false => Err(Error::NoFolder {
                path: path.to_owned(),
                problem: if path.exists() {
                    "is not a folder"
                } else {
                    "does not exist"
                },
                wanted: "a folder of PNG or JPEG pictures, or a .npz archive".to_owned(),
            }),
        };
    }
    let has_splits = ["train", "test"]
        .iter()
        .all(|part| path.join(part).is_dir());
    let mut archives: Vec<PathBuf> = std::fs::read_dir(path)
        .map_err(|cause| crate::error::refused(path, cause))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "npz"))
        .collect();
    // A folder of pictures may hold an archive of something else.
    let beside = || -> Result<bool, Error> {
        let pictures = files.list(path, &PICTURES)?;
        Ok(pictures.iter().any(|file| file.parent() == Some(path)))
    };
    match archives.len() {
        1 if !has_splits && !beside()? => Ok(archives.pop()),
        _ => Ok(None),
    }
}

fn decoded(file: &Path, files: &Files) -> Result<Picture, Error> {
    let bytes = files.read(file)?;
    let room = files.room(bytes.len());
    Picture::decode(&bytes, room).map_err(|problem| unusable(file, problem))
}

fn from_folder(
    folder: &Path,
    settings: &FrameSettings,
    files: &Files,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let read = |paths: &[PathBuf]| -> Result<Vec<u8>, Error> {
        let mut pixels = Vec::new();
        for path in paths {
            let frame = decoded(path, files)?.frame(settings);
            files.keep(path, frame.len())?;
            pixels.extend(frame);
        }
        Ok(pixels)
    };
    let parts = ["train", "test"].map(|part| folder.join(part));
    if parts.iter().all(|part| part.is_dir()) {
        let [train, test] = parts.map(|part| -> Result<Vec<u8>, Error> {
            let found = files.list(&part, &PICTURES)?;
            match found.is_empty() {
                true => Err(no_pictures(&part)),
                false => read(&found),
            }
        });
        return Ok((train?, test?));
    }
    let found = files.list(folder, &PICTURES)?;
    if found.is_empty() {
        return Err(no_pictures(folder));
    }
    if found.len() < 2 {
        return Err(unusable(
            folder,
            "one picture only; one for training and one for testing are needed at least",
        ));
    }
    let tested = (found.len() / 5).max(1);
    let (train, test) = found.split_at(found.len() - tested);
    Ok((read(train)?, read(test)?))
}

fn no_pictures(folder: &Path) -> Error {
    unusable(folder, "no PNG or JPEG picture in this folder")
}

fn from_archive(
    path: &Path,
    settings: &FrameSettings,
    files: &Files,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let (mut arrays, _) = npy::open_arrays(path, files)?;
    let mut take = |name: &str| {
        let place = arrays.iter().position(|(own, _)| own == name);
        let place = place.ok_or_else(|| {
            unusable(
                path,
                format!("no array '{name}'; 'images' and 'is_test' are needed"),
            )
        })?;
        Ok::<_, Error>(arrays.swap_remove(place).1)
    };
    let (images, is_test) = (take("images")?, take("is_test")?);
    let (Numbers::Bytes(pixels), [count, height, width, 3]) =
        (images.numbers, images.shape.as_slice())
    else {
        return Err(unusable(
            path,
            "the array 'images' must be of uint8 and [count, height, width, 3]",
        ));
    };
    let (count, height, width) = (*count, *height, *width);
    let is_test: Vec<bool> = match is_test.numbers {
        Numbers::Bytes(flags) => flags.iter().map(|flag| *flag != 0).collect(),
        Numbers::Floats(flags) => flags.iter().map(|flag| *flag != 0.0).collect(),
    };
    if is_test.len() != count {
        return Err(unusable(
            path,
            format!("{count} images, but {} numbers in 'is_test'", is_test.len()),
        ));
    }
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (pixels, is_test) in pixels.chunks((height * width * 3).max(1)).zip(is_test) {
        let picture = Picture {
            height,
            width,
            channels: 3,
            pixels: pixels.to_vec(),
        };
        let frame = picture.frame(settings);
        files.keep(path, frame.len())?;
        match is_test {
            true => test.extend(frame),
            false => train.extend(frame),
        }
    }
    match train.is_empty() || test.is_empty() {
        true => Err(unusable(
            path,
            "one of the splits has no image: see 'is_test'",
        )),
        false => Ok((train, test)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::npy::tests::{npy, npz};
    use std::fs;

    /// A PNG of one colour, but for a few pixels.
    fn picture(height: usize, width: usize, colour: u8) -> Vec<u8> {
        let mut pixels = vec![colour; 3 * height * width];
        pixels[0] = 255 - colour;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&pixels).unwrap();
        drop(writer);
        bytes
    }

    fn open(folder: &Path, side: usize) -> Result<Pictures, Error> {
        Pictures::open(folder, side, Limits::default())
    }

    #[test]
    fn bundled_windows_are_many_and_show_something() {
        let pictures = Pictures::bundled(32).unwrap();
        assert!(pictures.len(Split::Train) >= 1000 && pictures.len(Split::Test) >= 200);
        assert_eq!(
            (pictures.len(Split::Train), pictures.len(Split::Test)),
            (1606, 901)
        );
        for split in [Split::Train, Split::Test] {
            for index in 0..pictures.len(split) {
                assert!(contrast(pictures.picture(split, index)) >= LEAST_CONTRAST);
            }
        }
        assert_eq!(
            pictures.fingerprint(),
            "41cb42442a64c965a8c2770d93f546534c5b00f9feada74003aff20a63a8ea62"
        );
        let other = Pictures::bundled(64).unwrap();
        assert_ne!(other.fingerprint(), pictures.fingerprint());
        let error = Pictures::bundled(512).unwrap_err().to_string();
        assert!(error.contains("too small"), "{error}");
    }

    #[test]
    fn a_folder_is_divided_by_name_or_by_its_subfolders() {
        let folder = tempfile::tempdir().unwrap();
        for index in 1..=10 {
            let file = folder.path().join(format!("picture{index}.png"));
            fs::write(file, picture(40, 50, 10 * index)).unwrap();
        }
        let pictures = open(folder.path(), 16).unwrap();
        assert_eq!(
            (pictures.len(Split::Train), pictures.len(Split::Test)),
            (8, 2)
        );
        // In natural order, 10 is last.
        assert_eq!(pictures.picture(Split::Test, 1)[100], 100);
        for (part, from) in [("train", 1), ("test", 4)] {
            fs::create_dir(folder.path().join(part)).unwrap();
            for index in from..from + 3 {
                let name = format!("picture{index}.png");
                let to = folder.path().join(part).join(&name);
                fs::rename(folder.path().join(&name), to).unwrap();
            }
        }
        let pictures = open(folder.path(), 16).unwrap();
        assert_eq!(
            (pictures.len(Split::Train), pictures.len(Split::Test)),
            (3, 3)
        );
        assert_eq!(pictures.picture(Split::Test, 0)[100], 40);
    }

    #[test]
    fn an_archive_has_its_own_splits() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pictures.npz");
        let pixels: Vec<u8> = (0..3 * 4 * 4 * 3).map(|x| x as u8).collect();
        let bytes = |flags: &[u8]| {
            let images = npy_bytes(&[3, 4, 4, 3], &pixels);
            npz(&[
                ("images", images),
                ("is_test", npy_bytes(&[flags.len()], flags)),
            ])
        };
        fs::write(&file, bytes(&[0, 1, 0])).unwrap();
        for path in [file.as_path(), folder.path()] {
            let pictures = open(path, 4).unwrap();
            assert_eq!(
                (pictures.len(Split::Train), pictures.len(Split::Test)),
                (2, 1)
            );
            assert_eq!(pictures.picture(Split::Test, 0), &pixels[48..96]);
        }
        fs::write(&file, bytes(&[0, 0, 0])).unwrap();
        assert!(open(&file, 4).unwrap_err().to_string().contains("no image"));
        fs::write(&file, bytes(&[0, 1])).unwrap();
        assert!(
            open(&file, 4)
                .unwrap_err()
                .to_string()
                .contains("3 images, but 2")
        );
    }

    fn npy_bytes(shape: &[usize], data: &[u8]) -> Vec<u8> {
        npy("|u1", false, shape, data)
    }

    #[test]
    fn what_cannot_be_walked_over_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| open(path, 16).unwrap_err().to_string();
        assert!(refused(folder.path()).contains("no PNG or JPEG picture"));
        assert!(refused(&folder.path().join("nowhere")).contains("does not exist"));
        let file = folder.path().join("one.png");
        fs::write(&file, picture(20, 20, 7)).unwrap();
        assert!(refused(folder.path()).contains("one picture only"));
        assert!(refused(&file).contains("is not a folder"));
        fs::write(folder.path().join("two.png"), b"no picture").unwrap();
        assert!(refused(folder.path()).contains("two.png"));
        let single = |side| Pictures::single(&file, side, Limits::default());
        assert_eq!(single(16).unwrap().len(Split::Test), 1);
        let error = single(21).unwrap_err().to_string();
        assert!(
            error.contains("20 x 20") && error.contains("21 x 21"),
            "{error}"
        );
    }
}
