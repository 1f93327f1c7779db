//! Clips in NumPy arrays.

use std::path::{Path, PathBuf};

use super::{Clips, Reader};
use crate::Error;
use crate::error::unusable;
use crate::formats::npy::{self, Array, Numbers};
use crate::formats::picture::{FrameSettings, Picture};
use crate::recordings::corpus::{Recording, Values};
use crate::recordings::parts::parts;

/// The arrays of `files` in `folder`, divided into parts by the index there.
pub(super) fn array_parts(
    folder: &Path,
    files: Vec<PathBuf>,
    reader: &Reader,
) -> Result<Clips, Error> {
    let mut clips = Vec::new();
    for file in files {
        let (arrays, room) = npy::open_arrays(&file, &reader.files)?;
        let mut taken = 0;
        for (name, array) in arrays {
            // Frames may be larger than the arrays they are made from.
            taken += clip_bytes(&array, reader.settings);
            room.check(taken)
                .map_err(|problem| unusable(&file, format!("{name}: {problem}")))?;
            let clip = array_clip(&file, name.clone(), array, reader.settings)?;
            reader.files.keep(&file, clip.values.bytes())?;
            clips.push((name, clip));
        }
    }
    if clips.is_empty() {
        return Err(unusable(folder, "holds no arrays of clips"));
    }
    parts(folder, clips, &reader.files)
}

/// Bytes of the frames made from an array.
fn clip_bytes(array: &Array, settings: &FrameSettings) -> usize {
    let frames = array.shape.first().copied().unwrap_or(0);
    let size = settings.side.pow(2) * settings.channels();
    frames.saturating_mul(size)
}

/// The clip that an array holds; `file` is the name used in errors.
pub(super) fn array_clip(
    file: &Path,
    name: String,
    array: Array,
    settings: &FrameSettings,
) -> Result<Recording, Error> {
    let Array { shape, numbers } = array;
    let refuse = |problem: String| unusable(file, format!("{name}: {problem}"));
    let Numbers::Bytes(pixels) = numbers else {
        return Err(refuse(
            "an array of numbers that are not bytes; frames must be uint8".to_owned(),
        ));
    };
    let (frames, height, width, channels) = match shape[..] {
        [frames, height, width] => (frames, height, width, 1),
        [frames, height, width, channels @ (1 | 3)] => (frames, height, width, channels),
        _ => {
            return Err(refuse(format!(
                "an array of shape {shape:?}; a clip is [frames, height, width] or [frames, height, width, 1 or 3]"
            )));
        }
    };
    if pixels.is_empty() {
        return Err(refuse(
            "an empty clip; at least one frame is needed".to_owned(),
        ));
    }
    let same = (height, width, channels) == (settings.side, settings.side, settings.channels());
    let pixels = if same {
        pixels
    } else {
        let size = height * width * channels;
        let mut reduced = Vec::with_capacity(frames * settings.side.pow(2) * settings.channels());
        for pixels in pixels.chunks_exact(size) {
            let picture = Picture {
                height,
                width,
                channels,
                pixels: pixels.to_vec(),
            };
            reduced.extend(picture.frame(settings));
        }
        reduced
    };
    Ok(Recording {
        name,
        values: Values::Pixels(pixels),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::formats::npy::tests::{floats, npy, npz};
    use crate::recordings::video::tests::{counts, greys, side};
    use crate::{Fit, FrameSettings, Limits, Part, Video};

    #[test]
    fn arrays_are_clips() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clips.npz");
        let refused = |arrays: &[(&str, Vec<u8>)]| {
            fs::write(&path, npz(arrays)).unwrap();
            Video::open(&path, side(2), Limits::default())
                .unwrap_err()
                .to_string()
        };
        assert!(
            refused(&[("a", floats(&[1, 2, 2], &[0.0; 4]))])
                .contains("a: an array of numbers that")
        );
        assert!(refused(&[("a", npy("|u1", false, &[4], &[0; 4]))]).contains("a clip is [frames"));
        assert!(refused(&[("a", npy("|u1", false, &[0, 2, 2], &[]))]).contains("an empty clip"));
        assert!(refused(&[]).contains("holds no arrays"));
        let arrays = [
            (
                "grey",
                npy("|u1", false, &[2, 2, 2], &[1, 2, 3, 4, 5, 6, 7, 8]),
            ),
            (
                "red",
                npy("|u1", false, &[1, 4, 4, 3], &[255, 0, 0].repeat(16)),
            ),
        ];
        fs::write(&path, npz(&arrays)).unwrap();
        let clips = Video::open(folder.path(), side(2), Limits::default()).unwrap();
        assert_eq!(counts(&clips), [1, 0, 1]);
        let mut all: Vec<Vec<u8>> = [Part::Train, Part::Test]
            .map(|part| greys(&clips.recordings(part)[0], 1))
            .to_vec();
        all.sort();
        assert_eq!(all, [vec![1, 2, 3, 4, 5, 6, 7, 8], vec![76; 4]]);
        let colours = FrameSettings {
            side: 2,
            colour: true,
            fit: Fit::Stretch,
        };
        let clips = Video::open(&path, colours, Limits::default()).unwrap();
        assert_eq!(clips.frame().size(), 12);
    }
}
