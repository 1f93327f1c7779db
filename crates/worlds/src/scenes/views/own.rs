//! Folders of a user's posed pictures.

use super::poses::{Pose, Poses, Scaling, table, transforms};
use super::{GivenScene, OneSize, OwnViews, Views, frame};
use crate::error::unusable;
use crate::files::{Files, is_named};
use crate::folder::entries;
use crate::formats::picture::Picture;
use crate::{Error, Limits, Origin};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Most bytes of a file of poses: far more than the poses of all pictures that fit into memory.
const MOST_POSES: usize = 16 << 20;
/// Of one scene, one in this number of views is held out: the third, the eighth, and so on.
const HELD_OUT_EVERY: usize = 5;
const FIRST_HELD_OUT: usize = 2;

/// The names of files of poses.
const TRANSFORMS: &str = "transforms.json";
const TRAINING: &str = "transforms_train.json";
const TESTING: &str = "transforms_test.json";
const TABLE: &str = "poses.csv";

/// The files of poses of a scene.
enum PoseFiles {
    One(PathBuf),
    /// Of training views, and of those held out.
    Split([PathBuf; 2]),
}

/// The files of poses in a folder; `None` if there are none.
fn pose_files(folder: &Path) -> Result<Option<PoseFiles>, Error> {
    let named = |name: &str| Some(folder.join(name)).filter(|path| is_named(path));
    let split = [TRAINING, TESTING].map(named);
    let found = [named(TRANSFORMS), named(TABLE), split[0].clone()];
    let mut there = found.iter().flatten();
    if let (Some(one), Some(other)) = (there.next(), there.next()) {
        return Err(unusable(
            folder,
            format!(
                "has {} and {}; keep one of them",
                one.display(),
                other.display()
            ),
        ));
    }
    Ok(match (found, split) {
        ([Some(path), ..] | [_, Some(path), _], _) => Some(PoseFiles::One(path)),
        (_, [Some(training), Some(testing)]) => Some(PoseFiles::Split([training, testing])),
        (_, [Some(training), None]) => {
            return Err(unusable(
                &training,
                format!("there is no {TESTING} beside it with the views that are held out"),
            ));
        }
        _ => None,
    })
}

/// The scenes that are read.
struct Reading<'a> {
    side: usize,
    files: &'a Files,
    size: OneSize,
    /// The first file of poses, and what it says of all poses.
    first: Option<(PathBuf, Poses)>,
}

impl Reading<'_> {
    /// Reads a file of poses and the pictures that it names.
    fn views(&mut self, path: &Path) -> Result<GivenScene, Error> {
        let bytes = self.files.read(path)?;
        if bytes.len() > MOST_POSES {
            return Err(unusable(
                path,
                format!("{} bytes; poses take at most {MOST_POSES}", bytes.len()),
            ));
        }
        let poses = match path.extension().is_some_and(|end| end == "csv") {
            false => transforms(&bytes),
            true => match std::str::from_utf8(&bytes) {
                Ok(text) => table(text, self.files.room(bytes.len())),
                Err(cause) => Err(format!("not a text in UTF-8: {cause}")),
            },
        };
        let poses = poses.map_err(|problem| unusable(path, problem))?;
        self.alike(&poses, path)?;
        let mut scene = GivenScene {
            name: path.display().to_string(),
            views: poses.poses.len(),
            ..GivenScene::default()
        };
        let mut named: HashMap<PathBuf, String> = HashMap::new();
        for pose in poses.poses {
            let file = picture_file(path, &pose)?;
            if let Some(before) = named.insert(file.clone(), pose.place.clone()) {
                return Err(unusable(
                    path,
                    format!(
                        "{} names the picture {:?}, as {before} does",
                        pose.place, pose.file
                    ),
                ));
            }
            let bytes = self.files.read(&file)?;
            let picture = Picture::decode(&bytes, self.files.room(bytes.len()));
            let told = |problem| unusable(&file, problem);
            let picture = picture.map_err(told)?;
            self.size.check(&picture, &file).map_err(told)?;
            let frame = frame(&picture, self.side);
            self.files.keep(&file, frame.len() + 4 * pose.query.len())?;
            scene.frames.extend(frame);
            scene.queries.extend(pose.query);
        }
        Ok(scene)
    }

    /// Checks that poses are of the kind of the first ones, with the same angle of view.
    fn alike(&mut self, poses: &Poses, path: &Path) -> Result<(), Error> {
        let Some((first_path, first)) = &self.first else {
            let shared = Poses {
                poses: Vec::new(),
                ..poses.clone()
            };
            self.first = Some((path.to_owned(), shared));
            return Ok(());
        };
        if poses.numbers != first.numbers {
            return Err(unusable(
                path,
                format!(
                    "poses of {}, but those of {} are {}",
                    poses.numbers.join(", "),
                    first_path.display(),
                    first.numbers.join(", ")
                ),
            ));
        }
        match (poses.angle, first.angle) {
            (Some(own), Some(other)) if (own - other).abs() > 1e-3 => Err(unusable(
                path,
                format!(
                    "camera_angle_x is {own}, but {other} in {}; all cameras must have one angle of view",
                    first_path.display()
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// The file of a picture: as it is named, or with one of the extensions of pictures.
fn picture_file(poses: &Path, pose: &Pose) -> Result<PathBuf, Error> {
    let folder = poses.parent().unwrap_or(Path::new(""));
    let named = folder.join(&pose.file);
    let with = |extension: &str| {
        let mut name = named.clone().into_os_string();
        name.push(extension);
        PathBuf::from(name)
    };
    let mut candidates = [named.clone(), with(".png"), with(".jpg"), with(".jpeg")].into_iter();
    candidates.find(|path| is_named(path)).ok_or_else(|| {
        unusable(
            poses,
            format!(
                "{}: there is no picture {:?}, nor with .png, .jpg or .jpeg at its end",
                pose.place, pose.file
            ),
        )
    })
}

/// Some views of a scene, in the order of their numbers.
fn some(scene: &GivenScene, which: &[usize]) -> GivenScene {
    let size = scene.frames.len() / scene.views;
    let width = scene.queries.len() / scene.views;
    let span = |view: &usize, length: usize| view * length..(view + 1) * length;
    let frames = which
        .iter()
        .flat_map(|view| &scene.frames[span(view, size)]);
    let queries = which
        .iter()
        .flat_map(|view| &scene.queries[span(view, width)]);
    GivenScene {
        name: scene.name.clone(),
        frames: frames.copied().collect(),
        queries: queries.copied().collect(),
        views: which.len(),
        held_out: 0,
    }
}

/// One scene, as a scene of its training views, and as one with all of its views, those held out last.
fn one_scene(training: GivenScene, testing: &GivenScene) -> [Vec<GivenScene>; 2] {
    let mut all = training.clone();
    all.frames.extend(&testing.frames);
    all.queries.extend(&testing.queries);
    all.views += testing.views;
    all.held_out = testing.views;
    [vec![training], vec![all]]
}

/// Holds out some views of a scene.
fn divided(scene: &GivenScene, path: &Path) -> Result<[Vec<GivenScene>; 2], Error> {
    let held = |view: &usize| view % HELD_OUT_EVERY == FIRST_HELD_OUT;
    let (testing, training): (Vec<usize>, Vec<usize>) = (0..scene.views).partition(held);
    if testing.is_empty() {
        return Err(unusable(
            path,
            format!(
                "{} views; at least {} are needed, since one of them is held out",
                scene.views,
                FIRST_HELD_OUT + 1
            ),
        ));
    }
    Ok(one_scene(some(scene, &training), &some(scene, &testing)))
}

/// Reads a folder of a scene or of several.
pub(super) fn open(path: &Path, side: usize, files: &Files) -> Result<Views, Error> {
    if !path.is_dir() {
        return Err(Error::NoFolder {
            path: path.to_owned(),
            problem: match path.exists() {
                true => "is not a folder",
                false => "does not exist",
            },
            wanted: format!("pictures and their poses, {TRANSFORMS} or {TABLE}"),
        });
    }
    let mut reading = Reading {
        side,
        files,
        size: OneSize::default(),
        first: None,
    };
    let parts = match pose_files(path)? {
        Some(PoseFiles::One(poses)) => divided(&reading.views(&poses)?, &poses)?,
        Some(PoseFiles::Split([training, testing])) => {
            let training = reading.views(&training)?;
            one_scene(training, &reading.views(&testing)?)
        }
        None => several(path, &mut reading)?,
    };
    let first = reading.first.map(|(_, poses)| poses);
    let scaled = first.map_or(Vec::new(), |poses| poses.scaled);
    let origin = Origin::Folder(path.to_owned());
    Ok(scaled_views(side, parts, &scaled, origin))
}

/// Scales queries by those of the training views.
fn scaled_views(
    side: usize,
    mut parts: [Vec<GivenScene>; 2],
    scaled: &[Range<usize>],
    origin: Origin,
) -> Views {
    let width = parts[0][0].queries.len() / parts[0][0].views;
    let training = parts[0]
        .iter()
        .flat_map(|scene| scene.queries.chunks(width));
    let scaling = Scaling::of(training, width, scaled);
    for scene in parts.iter_mut().flatten() {
        for query in scene.queries.chunks_mut(width) {
            scaling.apply(query);
        }
    }
    Views::new(OwnViews::NAME, (side, width), parts, origin)
}

/// The scenes of a folder of folders.
fn several(path: &Path, reading: &mut Reading) -> Result<[Vec<GivenScene>; 2], Error> {
    let folders = |path: &Path| -> Result<Vec<PathBuf>, Error> {
        let found = entries(path)?.into_iter().filter(|path| path.is_dir());
        Ok(found.collect())
    };
    let mut read = |folder: &PathBuf| -> Result<GivenScene, Error> {
        match pose_files(folder)? {
            Some(PoseFiles::One(poses)) => reading.views(&poses),
            Some(PoseFiles::Split(_)) => Err(unusable(
                folder,
                format!("has {TRAINING}; of several scenes each needs one {TRANSFORMS} or {TABLE}"),
            )),
            None => Err(unusable(
                folder,
                format!(
                    "no {TRANSFORMS} and no {TABLE} in this folder; each folder must be a scene"
                ),
            )),
        }
    };
    let mut read_all = |folders: &[PathBuf]| -> Result<Vec<GivenScene>, Error> {
        folders.iter().map(&mut read).collect()
    };
    let parts = ["train", "test"].map(|part| path.join(part));
    if parts.iter().all(|part| part.is_dir()) {
        let [train, test] = [folders(&parts[0])?, folders(&parts[1])?];
        for (part, found) in parts.iter().zip([&train, &test]) {
            if found.is_empty() {
                return Err(unusable(part, "no folder of a scene in it"));
            }
        }
        return Ok([read_all(&train)?, read_all(&test)?]);
    }
    let found = folders(path)?;
    match &found[..] {
        [] => Err(unusable(
            path,
            format!(
                "no poses: there must be a {TRANSFORMS}, {TRAINING} and {TESTING}, or a {TABLE}, here or in \
                 each folder of a scene"
            ),
        )),
        [one] => {
            let scene = read_all(std::slice::from_ref(one))?.remove(0);
            divided(&scene, one)
        }
        _ => {
            let held_out = (found.len() / HELD_OUT_EVERY).max(1);
            let (train, test) = found.split_at(found.len() - held_out);
            Ok([read_all(train)?, read_all(test)?])
        }
    }
}

/// The bundled pictures, by name.
macro_rules! pictures {
    ($($name:literal)+) => {
        [$(($name, include_bytes!(concat!("../../../data/views/", $name, ".png")).as_slice())),+]
    };
}

/// The bundled scene: a die in a room, 48 views.
pub(super) fn bundled(side: usize) -> Result<Views, Error> {
    let pictures = pictures!(
        "00" "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20"
        "21" "22" "23" "24" "25" "26" "27" "28" "29" "30" "31" "32" "33" "34" "35" "36" "37" "38" "39" "40" "41"
        "42" "43" "44" "45" "46" "47"
    );
    const FILE: &str = "bundled transforms.json";
    let damaged = |problem: String| Error::DamagedBundle {
        file: FILE,
        problem,
    };
    let text = include_bytes!("../../../data/views/transforms.json");
    let poses = transforms(text).map_err(damaged)?;
    let mut scene = GivenScene {
        name: FILE.to_owned(),
        views: poses.poses.len(),
        ..GivenScene::default()
    };
    for pose in &poses.poses {
        let picture = pictures.iter().find(|(name, _)| *name == pose.file);
        let (_, bytes) = picture.ok_or_else(|| damaged(format!("no picture {}", pose.file)))?;
        let room = Limits::default().room(bytes.len());
        let picture = Picture::decode(bytes, room).map_err(damaged)?;
        scene.frames.extend(frame(&picture, side));
        scene.queries.extend(&pose.query);
    }
    let parts = divided(&scene, Path::new(FILE))?;
    Ok(scaled_views(side, parts, &poses.scaled, Origin::Bundled))
}
