//! Pictures of frame sequences and of weights over time, as PNG.
//!
//! [`sheet`] shows labelled rows of frames (the truth above what the model generated, with the recall interval
//! marked), [`heat_map`] a matrix of weights, [`bars`] values over time, [`strip`] frames without text, and
//! [`text_panel`] texts. Each returns an [`Image`], to be written or combined with others.

mod bars;
mod font;
mod heat_map;
mod image;
mod map_overlay;
mod sheet;
mod strip;
mod text_panel;

use crate::FigureError;
pub use bars::{Bars, bars};
pub(crate) use font::mask;
pub use font::text_width;
pub use heat_map::{HeatMap, heat_map, viridis};
pub(crate) use image::PIXELS_PER_METRE;
pub use image::{Align, Colour, Image, Text};
pub use map_overlay::{MapOverlay, MapRow, map_overlay};
pub use sheet::{Group, Row, Sheet, sheet};
pub use strip::{frame, strip};
pub use text_panel::{Labelled, text_panel};

/// Frames of one sequence, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    /// `[time, channels, height, width]`, in `[0, 1]`. Values outside are clamped. NaN is shown in magenta, so
    /// that it stands out.
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
    /// Checks the shape and splits the sequence into frames, each `[channels, height, width]`.
    pub(crate) fn checked(&self) -> Result<Vec<&'a [f32]>, FigureError> {
        if self.channels != 1 && self.channels != 3 {
            return Err(FigureError::Channels(self.channels));
        }
        let size = [self.channels, self.height, self.width]
            .into_iter()
            .try_fold(1_usize, usize::checked_mul)
            .unwrap_or(usize::MAX);
        let expected = size.saturating_mul(self.steps);
        if self.frames.len() != expected {
            return Err(FigureError::Shape {
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
