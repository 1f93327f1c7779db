//! Video: clips of square frames, from arrays, folders of pictures, and video files.
//!
//! Every clip becomes an array of bytes `[frames, side, side, channels]`: pictures are cropped or stretched
//! to a square and reduced by area averaging ([`FrameSettings`]). Windows of a given length
//! for training come from [`Corpus::window_batch`](crate::Corpus::window_batch).

mod arrays;
mod files;
mod kth;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use self::arrays::{array_clip, array_parts};
pub use self::kth::KthSplit;
use crate::error::unusable;
use crate::files::{Files, Room, is_named};
use crate::folder::{self, has_extension};
use crate::formats::npy;
use crate::formats::picture::{FrameSettings, Picture};
use crate::images::{DATA_VARIABLE, check_folder};
use crate::recordings::corpus::{Corpus, Part, Parts, Recording, Values};
use crate::recordings::parts::parts;
use crate::{Error, FrameShape, Limits, Origin};

/// Extensions of pictures.
const PICTURES: [&str; 3] = ["png", "jpg", "jpeg"];
/// Extensions of video files: GIF is decoded by this crate, all others by ffmpeg.
const VIDEOS: [&str; 10] = [
    "gif", "avi", "mp4", "m4v", "mkv", "mov", "mpg", "mpeg", "ogv", "webm",
];
/// The program that decodes video files.
const FFMPEG: &str = "ffmpeg";

/// Reads video.
#[derive(Clone, Copy, Debug)]
pub enum Video {}

impl Video {
    /// Thirteen clips of sign-language gestures inside the program, 47 to 73 frames of 64 x 64 grey
    /// pixels: 8 to train on, 2 for validation, 3 for the test.
    ///
    /// # Errors
    /// Only if the program was built from damaged files.
    pub fn bundled() -> Result<Corpus, Error> {
        let archive = include_bytes!("../../data/video/gestures_64x64.npz");
        let file = Path::new("bundled gestures_64x64.npz");
        let table = include_str!("../../data/video/index.csv");
        let settings = FrameSettings::default();
        let clips = npy::decode_archive(archive, file)?;
        let mut parts = Parts::default();
        for (name, array) in clips {
            let row = table
                .lines()
                .find_map(|line| line.strip_prefix(&name)?.strip_prefix(','));
            let part = row
                .and_then(Part::named)
                .ok_or_else(|| Error::DamagedBundle {
                    file: "bundled index.csv",
                    problem: format!("it does not say which part {name} belongs to"),
                })?;
            parts
                .get_mut(part)
                .push(array_clip(file, name, array, &settings)?);
        }
        let origin = Origin::Bundled;
        Ok(corpus("gestures", parts, &settings, origin, Vec::new()))
    }

    /// The clips in the folder `data` if given; otherwise those in the folder that the environment variable
    /// `MNEMORA_DATA` names; otherwise the bundled ones. A subfolder
    /// `video/sample_videos` or `sample_videos` is preferred to the folder itself.
    ///
    /// # Errors
    /// As [`Video::open`].
    pub fn find(
        data: Option<&Path>,
        settings: FrameSettings,
        limits: Limits,
    ) -> Result<Corpus, Error> {
        Video::find_with(data, env::var_os(DATA_VARIABLE), settings, limits)
    }

    fn find_with(
        data: Option<&Path>,
        variable: Option<OsString>,
        settings: FrameSettings,
        limits: Limits,
    ) -> Result<Corpus, Error> {
        let open = |directory: &Path| {
            let inner = ["video/sample_videos", "sample_videos"].map(|name| directory.join(name));
            let chosen = inner.iter().find(|folder| folder.is_dir());
            let chosen = chosen.map_or(directory, PathBuf::as_path);
            Video::open(chosen, settings, limits)
        };
        match (data, variable.filter(|value| !value.is_empty())) {
            (Some(directory), _) => open(directory),
            (None, Some(directory)) => {
                open(Path::new(&directory)).map_err(|cause| Error::FromEnvironment {
                    variable: DATA_VARIABLE,
                    cause: Box::new(cause),
                })
            }
            (None, None) => {
                let bundled = FrameSettings::default();
                let refused = match settings {
                    _ if settings.side != bundled.side => Some(("task.side", settings.side)),
                    _ if settings.colour => Some(("task.colour", 1)),
                    _ => None,
                };
                match refused {
                    None => Video::bundled(),
                    Some((key, value)) => Err(Error::Setting {
                        key,
                        value,
                        wanted: format!(
                            "the clips that come with the program have {0}x{0} grey pixels; name a folder of other clips with --data",
                            bundled.side
                        ),
                    }),
                }
            }
        }
    }

    /// A user's own clips.
    ///
    /// - An `.npz` file with an array of bytes for each clip, `[frames, height, width]` or
    ///   `[frames, height, width, channels]`, or an `.npy` file with one.
    /// - A folder with such files; everything else in it is then ignored.
    /// - A folder of pictures (`.png`, `.jpg`), in the natural order of their names: one clip.
    /// - A video file: `.gif`, or any format that an installed ffmpeg can decode.
    /// - A folder with folders of pictures and video files.
    ///
    /// Folders `train`, `valid` and `test`, or a table `index.csv` with columns `clip` and `split`,
    /// divide the clips; otherwise a tenth is for validation and a tenth for the test. A single clip
    /// is for the test.
    ///
    /// # Errors
    /// A file is missing, unreadable or damaged, frames of a clip differ in size, there are no clips,
    /// a video file needs ffmpeg and it is not installed, or the files exceed the limits.
    pub fn open(path: &Path, settings: FrameSettings, limits: Limits) -> Result<Corpus, Error> {
        settings.check()?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let reader = Reader {
            settings: &settings,
            ffmpeg: OsStr::new(FFMPEG),
            files: Files::new(limits),
        };
        let parts = reader.parts(path)?;
        let origin = Origin::Folder(path.to_owned());
        Ok(corpus(
            &name,
            parts,
            &settings,
            origin,
            reader.files.notes(),
        ))
    }

    /// A user's copy of the KTH actions: videos `person01_boxing_d1_uncomp.avi` and so on, in one folder or in one
    /// per action, or a folder of pictures for each video; and the list of sub-sequences
    /// `00sequences.txt`. Each sub-sequence is a clip. Frames of 160 x 120 are stretched to a square
    /// of `side` pixels, as in the sources.
    ///
    /// # Errors
    /// The list or the videos are missing or damaged, or exceed the limits, or ffmpeg is not installed.
    pub fn kth(
        directory: &Path,
        split: KthSplit,
        side: usize,
        limits: Limits,
    ) -> Result<Corpus, Error> {
        kth::open(directory, split, side, limits, OsStr::new(FFMPEG))
    }
}

type Clips = Parts<Vec<Recording>>;

fn corpus(
    name: &str,
    parts: Clips,
    settings: &FrameSettings,
    origin: Origin,
    notes: Vec<String>,
) -> Corpus {
    let frame = FrameShape {
        channels: settings.channels(),
        height: settings.side,
        width: settings.side,
    };
    Corpus::new(name, frame, parts, origin, notes)
}

/// Settings for reading clips, and the files to read.
struct Reader<'a> {
    settings: &'a FrameSettings,
    ffmpeg: &'a OsStr,
    files: Files,
}

impl Reader<'_> {
    fn parts(&self, path: &Path) -> Result<Clips, Error> {
        if is_named(path) && has_extension(path, &["npz", "npy"]) {
            let folder = path.parent().unwrap_or(Path::new(""));
            return array_parts(folder, vec![path.to_owned()], self);
        }
        if is_named(path) {
            let test = vec![self.file_clip(path)?];
            return Ok(Parts {
                test,
                ..Parts::default()
            });
        }
        check_folder(path, || {
            "clips: arrays (.npz), folders of pictures (.png, .jpg), video files".to_owned()
        })?;
        let arrays = folder::entries(path)?
            .into_iter()
            .filter(|entry| is_named(entry) && has_extension(entry, &["npz", "npy"]));
        let arrays: Vec<PathBuf> = arrays.collect();
        if !arrays.is_empty() {
            return array_parts(path, arrays, self);
        }
        let sources = self.sources(path)?;
        match sources.as_slice() {
            [] => Err(unusable(
                path,
                "holds no clips: arrays (.npz), folders of pictures (.png, .jpg) or video files",
            )),
            [only] if only == path => Ok(Parts {
                test: vec![self.picture_clip(path)?],
                ..Parts::default()
            }),
            _ => {
                let named = sources
                    .into_iter()
                    .map(|source| (folder::within(path, &source), source));
                parts(path, named.collect(), &self.files)?.try_map(|sources| {
                    let sources = sources.iter();
                    sources
                        .map(|source| {
                            let clip = self.clip(source)?;
                            let name = folder::within(path, source);
                            Ok(Recording { name, ..clip })
                        })
                        .collect()
                })
            }
        }
    }

    /// All video files and folders of pictures in a folder.
    fn sources(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut found = self.files.list(folder, &VIDEOS)?;
        for picture in self.files.list(folder, &PICTURES)? {
            let parent = picture.parent().unwrap_or(folder).to_owned();
            if found.last() != Some(&parent) {
                found.push(parent);
            }
        }
        // Pictures of a subfolder may come between those of its folder, so a folder may be found twice.
        found.sort_by(|left, right| {
            folder::natural_order(&left.to_string_lossy(), &right.to_string_lossy())
        });
        found.dedup();
        Ok(found)
    }

    /// The clip of a video file or a folder of pictures.
    fn clip(&self, source: &Path) -> Result<Recording, Error> {
        if source.is_dir() {
            self.picture_clip(source)
        } else {
            self.file_clip(source)
        }
    }

    fn picture_clip(&self, folder: &Path) -> Result<Recording, Error> {
        let mut frames = Frames::new(self.settings);
        for file in folder::entries(folder)? {
            if file.is_dir() || !has_extension(&file, &PICTURES) {
                continue;
            }
            let bytes = self.files.read(&file)?;
            let picture = Picture::decode(&bytes, self.files.room(bytes.len()));
            let before = frames.pixels.len();
            let pushed = picture.and_then(|picture| frames.push(&picture));
            pushed.map_err(|problem| unusable(&file, problem))?;
            self.files.keep(&file, frames.pixels.len() - before)?;
        }
        let name = folder.display().to_string();
        frames
            .clip(name)
            .map_err(|problem| unusable(folder, problem))
    }
}

/// Frames that must all have the size of the first.
struct Frames<'a> {
    settings: &'a FrameSettings,
    size: Option<(usize, usize)>,
    pixels: Vec<u8>,
    /// Limit on the bytes of all pixels of a file.
    room: Option<Room>,
}

impl Frames<'_> {
    fn new(settings: &FrameSettings) -> Frames<'_> {
        Frames {
            settings,
            size: None,
            pixels: Vec::new(),
            room: None,
        }
    }

    /// Frames of a file, with the limit on its unpacked bytes.
    fn within(settings: &FrameSettings, room: Room) -> Frames<'_> {
        Frames {
            room: Some(room),
            ..Frames::new(settings)
        }
    }

    fn push(&mut self, picture: &Picture) -> Result<(), String> {
        let size = (picture.height, picture.width);
        let first = *self.size.get_or_insert(size);
        if size != first {
            return Err(format!(
                "a frame of {} x {} pixels in a clip that begins with {} x {}; all frames of a clip must have the same size",
                size.0, size.1, first.0, first.1
            ));
        }
        self.pixels.extend(picture.frame(self.settings));
        self.room
            .map_or(Ok(()), |room| room.check(self.pixels.len()))
    }

    fn clip(self, name: String) -> Result<Recording, String> {
        if self.pixels.is_empty() {
            return Err("a video without frames".to_owned());
        }
        let values = Values::Pixels(self.pixels);
        Ok(Recording { name, values })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;
    use crate::formats::picture::tests::{encode_png, uniform};
    use crate::{Draw, Stream};

    pub(crate) fn counts(corpus: &Corpus) -> [usize; 3] {
        Part::ALL.map(|part| corpus.recordings(part).len())
    }

    pub(crate) fn greys(recording: &Recording, size: usize) -> Vec<u8> {
        let Values::Pixels(pixels) = &recording.values else {
            panic!("no pixels");
        };
        pixels.iter().step_by(size).copied().collect()
    }

    pub(crate) fn side(side: usize) -> FrameSettings {
        FrameSettings {
            side,
            ..FrameSettings::default()
        }
    }

    #[test]
    fn gestures_are_bundled() {
        let clips = Video::bundled().expect("the bundled clips are sound");
        assert_eq!(counts(&clips), [8, 2, 3]);
        let steps = Part::ALL.map(|part| clips.total_steps(part));
        assert_eq!(steps, [430, 136, 182]);
        assert_eq!(clips.at_least(Part::Train, 40).len(), 8);
        let batch = clips
            .window_batch(
                Part::Train,
                &Stream::new(1, "data"),
                0,
                2,
                20,
                Draw::EachRecording,
            )
            .unwrap();
        assert_eq!(batch.values.len(), 2 * 20 * 64 * 64);
        assert!(batch.values.iter().all(|value| (0.0..=1.0).contains(value)));
        assert_eq!(
            clips.fingerprint(),
            "6e923c7ba61ec4f0abcf6453c1d0014d10ef26f923b85d0ceb5a622c9b3bfd5e"
        );
    }

    #[test]
    fn the_free_clips_are_read() {
        let data = Path::new("../../../shared/data");
        if !data.join("video/sample_videos").is_dir() {
            println!("skipped: no clips in {}", data.display());
            return;
        }
        let clips = Video::find(Some(data), FrameSettings::default(), Limits::default()).unwrap();
        assert_eq!(counts(&clips), [27, 0, 6]);
        assert_eq!(
            Part::ALL
                .map(|part| clips.total_steps(part))
                .iter()
                .sum::<usize>(),
            4000
        );
    }

    #[test]
    fn folders_of_pictures_are_clips_in_natural_order() {
        let folder = tempfile::tempdir().unwrap();
        for clip in ["b", "a/inner", "c"] {
            let clip = folder.path().join(clip);
            fs::create_dir_all(&clip).unwrap();
            for (name, grey) in [("f10.png", 30), ("f9.png", 20), ("f1.png", 10)] {
                fs::write(clip.join(name), encode_png(&uniform(6, 9, grey))).unwrap();
            }
            fs::write(clip.join("notes.txt"), "no picture").unwrap();
        }
        let clips = Video::open(folder.path(), side(4), Limits::default()).unwrap();
        assert_eq!(counts(&clips), [1, 1, 1]);
        for part in Part::ALL {
            assert_eq!(greys(&clips.recordings(part)[0], 16), [10, 20, 30]);
        }
        let single = Video::open(&folder.path().join("b"), side(2), Limits::default()).unwrap();
        assert_eq!(counts(&single), [0, 0, 1]);
        fs::write(
            folder.path().join("index.csv"),
            "clip,split\na/inner,train\nb,train\n",
        )
        .unwrap();
        let clips = Video::open(folder.path(), side(4), Limits::default()).unwrap();
        assert_eq!(counts(&clips), [2, 0, 0]);

        let odd = folder.path().join("b/f11.png");
        fs::write(&odd, encode_png(&uniform(9, 6, 0))).unwrap();
        let error = Video::open(folder.path(), side(4), Limits::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("b/f11.png: a frame of 9 x 6 pixels in a clip that begins with 6 x 9; all frames of a clip must have the same size"),
            "{error}"
        );
        fs::write(&odd, b"text").unwrap();
        let error = Video::open(folder.path(), side(4), Limits::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("b/f11.png: neither a PNG nor a JPEG picture"),
            "{error}"
        );
    }

    #[test]
    fn nothing_is_no_video() {
        let folder = tempfile::tempdir().unwrap();
        let error = Video::open(folder.path(), side(4), Limits::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("holds no clips: "), "{error}");
        assert!(Video::open(&folder.path().join("none"), side(4), Limits::default()).is_err());
        assert!(Video::open(folder.path(), side(0), Limits::default()).is_err());
        let found = Video::find_with(None, None, side(64), Limits::default()).unwrap();
        assert_eq!(found.name(), "gestures");
        assert!(
            Video::find_with(
                None,
                Some(folder.path().into()),
                side(64),
                Limits::default()
            )
            .is_err()
        );
    }
}
