//! Pictures of frame sequences and of weights over time, as PNG.
//!
//! [`sheet`] shows labelled rows of frames (truth above what the model generated, the recall interval framed),
//! [`heat_map`] a matrix of weights, [`bars`] values over time, [`strip`] bare frames, [`text_panel`] texts; each returns an [`Image`] to write or to combine.

mod bars;
mod font;
mod heat_map;
mod image;
mod map_overlay;
mod sheet;
mod strip;
mod text_panel;

use std::path::{Path, PathBuf};

pub use bars::{Bars, bars};
pub(crate) use font::{mask, text_width};
pub use heat_map::{HeatMap, heat_map, viridis};
pub use image::{Align, Colour, Image, Text};
pub use map_overlay::{MapOverlay, MapRow, map_overlay};
pub use sheet::{Group, Row, Sheet, sheet};
pub use strip::{frame, strip};
pub use text_panel::{Labelled, text_panel};

/// Why a picture could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The values do not fill the declared shape.
    #[error("{what}: {found} values do not fill the shape, which holds {expected}")]
    Shape {
        /// What the values are.
        what: String,
        /// Values that the shape holds.
        expected: usize,
        /// Values that were given.
        found: usize,
    },
    /// Frames have one channel (grey) or three (red, green, blue).
    #[error("frames of {0} channels cannot be shown: 1 (grey) or 3 (red, green, blue) can")]
    Channels(usize),
    /// The picture would be too large to hold or to encode.
    #[error(
        "a picture of {width} x {height} pixels is too large: show fewer frames, or scale them less"
    )]
    TooLarge {
        /// Pixels.
        width: usize,
        /// Pixels.
        height: usize,
    },
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// An encoder or the text renderer failed.
    #[error("cannot draw or encode the picture: {0}")]
    Draw(String),
}

impl PictureError {
    pub(crate) fn draw(error: impl std::fmt::Display) -> Self {
        Self::Draw(error.to_string())
    }
}

/// Writes bytes (a PNG, an SVG) to a regular file, whole or not at all.
///
/// # Errors
/// [`PictureError::Write`], with the path.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), PictureError> {
    match crate::disk::replace(path, bytes) {
        Ok(_) => Ok(()),
        Err(source) => Err(PictureError::Write {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Frames of one sequence, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    /// `[time, channels, height, width]`, in `[0, 1]`; values outside are clamped, and a value that is not a number is shown
    /// in magenta, so that it is seen.
    pub frames: &'a [f32],
    /// Number of frames, `time`.
    pub steps: usize,
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// Height of a frame, in pixels.
    pub height: usize,
    /// Width of a frame, in pixels.
    pub width: usize,
}

impl<'a> Sequence<'a> {
    /// Checks the shape and splits the sequence into frames, `[channels, height, width]` each.
    pub(crate) fn checked(&self) -> Result<Vec<&'a [f32]>, PictureError> {
        if self.channels != 1 && self.channels != 3 {
            return Err(PictureError::Channels(self.channels));
        }
        let size = [self.channels, self.height, self.width]
            .into_iter()
            .try_fold(1_usize, usize::checked_mul)
            .unwrap_or(usize::MAX);
        let expected = size.saturating_mul(self.steps);
        if self.frames.len() != expected {
            return Err(PictureError::Shape {
                what: format!(
                    "a sequence of [{}, {}, {}, {}]",
                    self.steps, self.channels, self.height, self.width
                ),
                expected,
                found: self.frames.len(),
            });
        }
        Ok(self.frames.chunks_exact(size.max(1)).collect())
    }
}
