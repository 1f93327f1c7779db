//! The GQN's data sets in their original layout.

use super::{CHANNELS, GivenScene, GqnData, OneSize, Views, frame};
use crate::error::unusable;
use crate::files::Files;
use crate::formats::{picture::Picture, tfrecord::Records};
use crate::{Error, Origin};
use prost::Message;
use std::collections::BTreeMap;
use std::path::Path;

/// Numbers of a camera in a record, and of a query.
const CAMERA: usize = 5;
const QUERY: usize = 7;

/// `tf.train.Example`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Example {
    #[prost(message, optional, tag = "1")]
    pub(super) features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) feature: BTreeMap<String, Feature>,
}

/// One of the two lists that are needed; there is a list of integers as well.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Feature {
    #[prost(message, optional, tag = "1")]
    pub(super) bytes: Option<BytesList>,
    #[prost(message, optional, tag = "2")]
    pub(super) floats: Option<FloatList>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FloatList {
    #[prost(float, repeated, tag = "1")]
    pub(super) value: Vec<f32>,
}

/// Reads a data set.
pub(super) fn open(path: &Path, side: usize, files: &Files) -> Result<Views, Error> {
    const WANTED: &str = "folders train and test with the .tfrecord files of a data set of the GQN";
    let parts = ["train", "test"].map(|part| path.join(part));
    if !path.is_dir() {
        return Err(Error::NoFolder {
            path: path.to_owned(),
            problem: match path.exists() {
                true => "is not a folder",
                false => "does not exist",
            },
            wanted: WANTED.to_owned(),
        });
    }
    if let Some(missing) = parts.iter().find(|part| !part.is_dir()) {
        return Err(unusable(
            missing,
            format!("this folder is missing; there must be {WANTED}"),
        ));
    }
    let mut size = OneSize::default();
    let mut read = |folder: &Path| -> Result<Vec<GivenScene>, Error> {
        let mut scenes = Vec::new();
        for file in files.list(folder, &["tfrecord"])? {
            let mut records = Records::open(&file, files)?;
            while let Some((number, bytes)) = records.read()? {
                let told = |problem| unusable(&file, format!("record {number}: {problem}"));
                let scene = scene(&bytes, side, files, (&file, &mut size)).map_err(told)?;
                files.keep(&file, scene.frames.len() + 4 * scene.queries.len())?;
                scenes.push(GivenScene {
                    name: format!("{}, record {number}", file.display()),
                    ..scene
                });
            }
        }
        match scenes.is_empty() {
            true => Err(unusable(
                folder,
                format!("no scene; there must be {WANTED}"),
            )),
            false => Ok(scenes),
        }
    };
    let scenes = [read(&parts[0])?, read(&parts[1])?];
    let origin = Origin::Folder(path.to_owned());
    Ok(Views::new(GqnData::NAME, (side, QUERY), scenes, origin))
}

/// One scene. The error is one line without the name of the file and the number of the record.
fn scene(
    record: &[u8],
    side: usize,
    files: &Files,
    (file, size): (&Path, &mut OneSize),
) -> Result<GivenScene, String> {
    let example =
        Example::decode(record).map_err(|cause| format!("not a tf.train.Example ({cause})"))?;
    let mut features = example.features.unwrap_or_default().feature;
    let mut take = |name: &str| features.remove(name).ok_or_else(|| format!("no `{name}`"));
    let pictures = take("frames")?
        .bytes
        .ok_or("`frames` is not a list of JPEG pictures")?;
    let cameras = take("cameras")?
        .floats
        .ok_or("`cameras` is not a list of floats")?;
    let (pictures, cameras) = (pictures.value, cameras.value);
    if pictures.is_empty() {
        return Err("`frames` is empty".into());
    }
    if cameras.len() != CAMERA * pictures.len() {
        return Err(format!(
            "`cameras` has {} numbers for {} frames; it must have five for each: x, y, z, yaw and pitch",
            cameras.len(),
            pictures.len()
        ));
    }
    if let Some(place) = cameras.iter().position(|number| !number.is_finite()) {
        return Err(format!(
            "camera {}: {} is not a finite number",
            place / CAMERA + 1,
            cameras[place]
        ));
    }
    let mut frames = Vec::with_capacity(pictures.len() * CHANNELS * side * side);
    for (place, bytes) in pictures.iter().enumerate() {
        let told = |problem| format!("frame {}: {problem}", place + 1);
        let picture = Picture::decode(bytes, files.room(bytes.len())).map_err(told)?;
        size.check(&picture, file).map_err(told)?;
        frames.extend(frame(&picture, side));
    }
    let query = |camera: &[f32]| -> [f32; QUERY] {
        let (yaw, pitch) = (camera[3], camera[4]);
        let [x, y, z] = [camera[0], camera[1], camera[2]];
        [x, y, z, yaw.cos(), yaw.sin(), pitch.cos(), pitch.sin()]
    };
    Ok(GivenScene {
        frames,
        queries: cameras.chunks(CAMERA).flat_map(query).collect(),
        views: pictures.len(),
        ..GivenScene::default()
    })
}
