//! The embedded typeface, rasterised.
//!
//! One typeface for pictures and charts on any machine, installed fonts or not: Ubuntu Light, thickened a little, because a
//! light face is too thin at the size of a tick label.

use std::convert::Infallible;
use std::sync::Once;

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

use super::PictureError;

/// How much of each pixel the text covers.
pub(crate) struct Mask {
    pub width: usize,
    pub height: usize,
    /// Distance from the top to the baseline, in pixels.
    pub baseline: usize,
    /// `[height, width]`, in `[0, 1]`
    pub coverage: Vec<f32>,
}

const FAMILY: &str = "mnemora embedded";
/// Line height (ascent to descent) of Ubuntu Light, in em; the rasteriser takes its size in line heights.
const LINE_HEIGHT: f64 = 1.121;
/// Size at which text is measured: the rasteriser rounds widths to whole pixels.
const MEASURED_EM: f64 = 200.0;
/// Stroke weight added to the light face, in em.
const REGULAR: f64 = 0.018;
const BOLD: f64 = 0.06;
/// Share of the added weight by which letters move apart.
const SPACING: f64 = 0.6;

fn font(em: f64) -> FontDesc<'static> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        let typeface = epaint_default_fonts::UBUNTU_LIGHT;
        // A failure surfaces at the first use, as a missing font.
        let _ = register_font(FAMILY, FontStyle::Normal, typeface);
    });
    FontDesc::new(
        FontFamily::Name(FAMILY),
        em * LINE_HEIGHT,
        FontStyle::Normal,
    )
}

/// Width of a line of text, in pixels.
///
/// - `em`: size of the type, in pixels
pub(crate) fn text_width(text: &str, em: f64, bold: bool) -> f64 {
    let measured = font(MEASURED_EM)
        .box_size(text)
        .map_or(0, |(width, _)| width);
    let thickening = text.chars().count() as f64 * weight(bold) * SPACING;
    (f64::from(measured) / MEASURED_EM + thickening) * em
}

/// Rasterises a line of text.
///
/// - `em`: size of the type, in pixels
pub(crate) fn mask(text: &str, em: f64, bold: bool) -> Result<Mask, PictureError> {
    let thickening = (em * weight(bold)).round() as usize;
    let width = text_width(text, em, bold).ceil() as usize + em.ceil() as usize;
    let height = (em * 1.6).ceil() as usize;
    let baseline = em.ceil() as usize;
    let mut mask = Mask {
        width,
        height,
        baseline,
        coverage: vec![0.0; width * height],
    };
    // The rasteriser puts the baseline half a line height below the given position.
    let top = baseline as i32 - (em * LINE_HEIGHT / 2.0) as i32;
    // Letter by letter: the rasteriser knows nothing of the thickening, which needs room.
    for (start, letter) in text.char_indices() {
        let before = text_width(text.get(..start).unwrap_or(""), em, bold).round() as i32;
        let mut buffer = [0; 4];
        let drawn = font(em).draw(
            letter.encode_utf8(&mut buffer),
            (before, top),
            |x, y, alpha| {
                mask.cover(x, y, alpha, thickening);
                Ok::<(), Infallible>(())
            },
        );
        let Ok(()) = drawn.map_err(PictureError::draw)?;
    }
    Ok(mask)
}

impl Mask {
    /// Covers a pixel and the next `thickening` to its right.
    fn cover(&mut self, x: i32, y: i32, alpha: f32, thickening: usize) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
            return;
        };
        if x >= self.width || y >= self.height {
            return;
        }
        let pixels = self.coverage.iter_mut().skip(y * self.width + x);
        for pixel in pixels.take((thickening + 1).min(self.width - x)) {
            *pixel = pixel.max(alpha);
        }
    }
}

fn weight(bold: bool) -> f64 {
    if bold { BOLD } else { REGULAR }
}
