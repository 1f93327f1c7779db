//! Scenes of which pictures are given, each with the pose of its camera: a user's own, and the data sets of the GQN.
//!
//! | file | contents |
//! | --- | --- |
//! | `views.rs` | the scenes |
//! | `gqn.rs` | the GQN's data sets, TFRecord files |
//! | `own.rs` | folders of a user's pictures |
//! | `poses.rs` | `transforms.json` and `poses.csv` |

mod gqn;
mod own;
mod poses;

use super::{Ask, Scene, Scenes, batch::drawn, check_side, of_split};
use crate::error::unusable;
use crate::files::Files;
use crate::formats::picture::Picture;
use crate::images::hexadecimal;
use crate::{DATA_VARIABLE, Error, Fit, FrameSettings, FrameShape, Limits, Origin, Split, Stream};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Colour channels of a frame.
const CHANNELS: usize = 3;

/// Pictures of scenes with the poses of their cameras.
#[derive(Clone)]
pub struct Views {
    task: &'static str,
    side: usize,
    query_width: usize,
    train: Vec<GivenScene>,
    test: Vec<GivenScene>,
    fingerprint: String,
    origin: Origin,
}

/// One scene.
#[derive(Clone, Debug, Default)]
struct GivenScene {
    /// What it is called in messages.
    name: String,
    /// `[views, 3, side, side]`
    frames: Vec<u8>,
    /// `[views, query_width]`
    queries: Vec<f32>,
    views: usize,
    /// The last views, of this number, are only asked for, and the others only shown; 0 if every view can be either.
    held_out: usize,
}

impl GivenScene {
    /// The most views that can be asked for beside a context.
    fn asked(&self, context: usize) -> usize {
        match self.held_out {
            0 => self.views.saturating_sub(context),
            held_out => held_out,
        }
    }
}

/// Reads a user's own pictures.
#[derive(Clone, Copy, Debug)]
pub enum OwnViews {}

impl OwnViews {
    /// The task's name.
    pub const NAME: &'static str = "own-views";

    /// The pictures at `data`, or those that [`DATA_VARIABLE`] names, or the bundled ones: 48 views of a die in a room.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn find(data: Option<&Path>, side: usize, limits: Limits) -> Result<Views, Error> {
        let open = |path: &Path| Self::open(path, side, limits);
        found(data, open)?.map_or_else(|| own::bundled(side), Ok)
    }

    /// Pictures with poses, resized to `side` rows and columns, cut to the square in their middle.
    ///
    /// A scene is a folder with PNG or JPEG pictures and their poses:
    ///
    /// - `transforms.json`, the layout of NeRF: `frames` is a list of `file_path`, with or without extension, and
    ///   `transform_matrix`, 4 x 4, from camera to world, with the camera looking along its negative z axis; or two
    ///   such files, `transforms_train.json` and `transforms_test.json`. A query is the place of the camera and the
    ///   direction in which it looks (6 numbers).
    /// - or `poses.csv`, with a column `file`. A query is the numbers of the other columns.
    ///
    /// `path` is the folder of one scene, or a folder of such folders. Of one scene, the views of
    /// `transforms_test.json` are held out, or otherwise each fifth view; they are asked for with contexts of the other
    /// views. Of several scenes, those in a folder `test` are held out, or otherwise the last fifth in natural order.
    ///
    /// Places are moved and scaled so that those of all training views are within -1 and 1 in each coordinate, with one
    /// scale for all three; each column of a table is scaled on its own.
    ///
    /// # Errors
    /// A pose file or picture is missing or damaged, pictures differ in size, fields of view or the kind of the poses
    /// differ, or a matrix is not that of a camera.
    pub fn open(path: &Path, side: usize, limits: Limits) -> Result<Views, Error> {
        check_side(side)?;
        own::open(path, side, &Files::new(limits))
    }
}

/// Reads the data sets of the GQN (Eslami et al. 2018).
#[derive(Clone, Copy, Debug)]
pub enum GqnData {}

impl GqnData {
    /// The task's name.
    pub const NAME: &'static str = "gqn-data";

    /// The data set at `data`, or the one that [`DATA_VARIABLE`] names.
    ///
    /// # Errors
    /// See [`open`](Self::open); or there is none.
    pub fn find(data: Option<&Path>, side: usize, limits: Limits) -> Result<Views, Error> {
        let open = |path: &Path| Self::open(path, side, limits);
        found(data, open)?.ok_or(Error::NotBundled {
            data: "the data of the GQN",
            wanted: "train/*.tfrecord and test/*.tfrecord",
        })
    }

    /// A data set in its original layout: folders `train` and `test` of TFRecord files. Each record is a
    /// `tf.train.Example` of one scene, with `frames`, a list of JPEG pictures, and `cameras`, five numbers for each:
    /// x, y, z, yaw and pitch. A query is `[x, y, z, cos yaw, sin yaw, cos pitch, sin pitch]`. Frames are resized to
    /// `side` rows and columns and kept in memory; a part of a data set is a folder with some of its files.
    ///
    /// # Errors
    /// A file is missing, cut short or damaged, a record is not such a scene, or pictures differ in size.
    pub fn open(path: &Path, side: usize, limits: Limits) -> Result<Views, Error> {
        check_side(side)?;
        gqn::open(path, side, &Files::new(limits))
    }
}

/// What the named path holds, or the one of [`DATA_VARIABLE`]; `None` if nothing is named.
fn found(
    data: Option<&Path>,
    open: impl Fn(&Path) -> Result<Views, Error>,
) -> Result<Option<Views>, Error> {
    if let Some(path) = data {
        return open(path).map(Some);
    }
    let Some(path) = env::var_os(DATA_VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let found = open(Path::new(&path)).map_err(|cause| Error::FromEnvironment {
        variable: DATA_VARIABLE,
        cause: Box::new(cause),
    });
    found.map(Some)
}

impl Views {
    /// The query width is that of all scenes; neither part is empty.
    fn new(
        task: &'static str,
        (side, query_width): (usize, usize),
        [train, test]: [Vec<GivenScene>; 2],
        origin: Origin,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update("mnemora views 1");
        let mut count = |number: usize| hash.update((number as u64).to_le_bytes());
        count(side);
        count(query_width);
        for part in [&train, &test] {
            hash.update((part.len() as u64).to_le_bytes());
            for scene in part {
                hash.update((scene.views as u64).to_le_bytes());
                hash.update((scene.held_out as u64).to_le_bytes());
                hash.update(&scene.frames);
                for number in &scene.queries {
                    hash.update(number.to_le_bytes());
                }
            }
        }
        Self {
            task,
            side,
            query_width,
            train,
            test,
            fingerprint: hexadecimal(hash),
            origin,
        }
    }

    fn part(&self, split: Split) -> &[GivenScene] {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    fn all(&self) -> impl Iterator<Item = &GivenScene> {
        self.train.iter().chain(&self.test)
    }

    /// SHA-256 over a prefix, sizes, frames and queries of both splits, 64 hexadecimal characters; `data/README.md` of
    /// this crate says byte by byte what is hashed.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Where the pictures came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Bytes of all frames and queries.
    pub fn bytes(&self) -> usize {
        let bytes = |scene: &GivenScene| scene.frames.len() + 4 * scene.queries.len();
        self.all().map(bytes).sum()
    }

    /// These scenes for contexts of at most `context` views.
    ///
    /// # Errors
    /// If a scene has too few views for such a context and `targets` others.
    pub fn showing(self: &Arc<Self>, context: usize, targets: usize) -> Result<GivenScenes, Error> {
        let few = |scene: &&GivenScene| {
            let shown = scene.views - scene.held_out;
            shown < context || scene.asked(context) < targets
        };
        match self.all().find(few) {
            None => Ok(GivenScenes {
                views: self.clone(),
                context,
            }),
            Some(scene) => {
                let there = match scene.held_out {
                    0 => format!("{} views", scene.views),
                    held_out => format!(
                        "{} views for contexts and {held_out} held out",
                        scene.views - held_out
                    ),
                };
                Err(unusable(
                    Path::new(&scene.name),
                    format!(
                        "{there}, too few for scenes.context_most {context} and scenes.targets {targets}; add views, or \
                         show and ask for fewer"
                    ),
                ))
            }
        }
    }
}

/// The pictures in words: their number and their origin.
impl fmt::Display for Views {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let views: usize = match &self.test[..] {
            // The views of one scene, all of them.
            [scene] if scene.held_out > 0 => scene.views,
            _ => self.all().map(|scene| scene.views).sum(),
        };
        match self.test[0].held_out {
            0 => write!(
                formatter,
                "{} scenes and {} held out, {views} views: {}",
                self.train.len(),
                self.test.len(),
                self.origin
            ),
            held_out => write!(
                formatter,
                "{views} views of one scene, {held_out} of them held out: {}",
                self.origin
            ),
        }
    }
}

impl fmt::Debug for Views {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Views({self})")
    }
}

/// Given scenes with contexts up to a number of views. They hide nothing that could be read: there is no other
/// completion to compare with.
#[derive(Clone, Debug)]
pub struct GivenScenes {
    views: Arc<Views>,
    /// The most views of a context.
    context: usize,
}

impl Scenes for GivenScenes {
    fn name(&self) -> &'static str {
        self.views.task
    }

    fn frame(&self) -> FrameShape {
        FrameShape {
            channels: CHANNELS,
            height: self.views.side,
            width: self.views.side,
        }
    }

    fn query_width(&self) -> usize {
        self.views.query_width
    }

    fn hides(&self) -> bool {
        false
    }

    /// Views are asked for that are not in the context.
    fn most(&self, _: Ask) -> [usize; 2] {
        let asked = self.views.all().map(|scene| scene.asked(self.context));
        [self.context, asked.min().unwrap_or(0)]
    }

    fn held_out(&self) -> Option<usize> {
        Some(self.views.part(Split::Test).len())
    }

    /// Training scenes at random, test scenes in their order.
    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_> {
        let part = self.views.part(split);
        let place = match split {
            Split::Train => stream
                .at(of_split(split, index))
                .random_range(0..part.len()),
            Split::Test => (index % part.len() as u64) as usize,
        };
        Box::new(Given {
            query_width: self.query_width(),
            of: &part[place],
        })
    }
}

struct Given<'a> {
    query_width: usize,
    of: &'a GivenScene,
}

impl Scene for Given<'_> {
    fn views(&self) -> usize {
        self.of.views
    }

    fn query(&self, view: usize, query: &mut [f32]) {
        query.copy_from_slice(&self.of.queries[view * self.query_width..][..self.query_width]);
    }

    fn completions(&self) -> usize {
        0
    }

    fn truth(&self) -> usize {
        0
    }

    fn render(&self, view: usize, _: usize, frame: &mut [f32]) {
        let bytes = &self.of.frames[view * frame.len()..][..frame.len()];
        for (value, byte) in frame.iter_mut().zip(bytes) {
            *value = f32::from(*byte) / 255.0;
        }
    }

    fn reveals(&self, _: usize) -> bool {
        false
    }

    fn tells(&self, _: usize) -> bool {
        false
    }

    fn context_views(&self) -> usize {
        self.of.views - self.of.held_out
    }

    /// No view is both.
    fn draw(
        &self,
        from: usize,
        [context, targets]: [usize; 2],
        generator: &mut ChaCha8Rng,
    ) -> [Vec<usize>; 2] {
        match self.of.held_out {
            0 => {
                let mut shown = drawn(from, context + targets, generator);
                let asked = shown.split_off(context);
                [shown, asked]
            }
            held_out => {
                let first = self.of.views - held_out;
                let shown = drawn(first, context, generator);
                let asked = drawn(held_out, targets, generator);
                [shown, asked.into_iter().map(|view| first + view).collect()]
            }
        }
    }
}

/// The size of all pictures of a data set.
#[derive(Default)]
struct OneSize(Option<(usize, usize, PathBuf)>);

impl OneSize {
    /// The error is one line without the name of the file.
    fn check(&mut self, picture: &Picture, path: &Path) -> Result<(), String> {
        let (height, width) = (picture.height, picture.width);
        match &self.0 {
            None => self.0 = Some((height, width, path.to_owned())),
            Some((rows, columns, first)) if (*rows, *columns) != (height, width) => {
                return Err(format!(
                    "a picture of {width} x {height} pixels, but {} has {columns} x {rows}; all cameras must have one size",
                    first.display()
                ));
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// The frame of a picture, `[3, side, side]`.
fn frame(picture: &Picture, side: usize) -> Vec<u8> {
    let pixels = picture.frame(&FrameSettings {
        side,
        colour: true,
        fit: Fit::CentreCrop,
    });
    let channel = |channel| pixels.iter().skip(channel).step_by(CHANNELS).copied();
    (0..CHANNELS).flat_map(channel).collect()
}

#[cfg(test)]
mod tests;
