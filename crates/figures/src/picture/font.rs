//! Rasterises text in the embedded font.
//!
//! Pictures and charts use the same font on any machine, whatever fonts are installed: Ubuntu Light, slightly
//! thickened, because a light font is too thin at the size of a tick label.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, GlyphId, InvalidFont, PxScale, point};

use crate::FigureError;

/// The fraction of each pixel that the text covers.
pub(crate) struct Mask {
    pub width: usize,
    pub height: usize,
    /// Distance from the top to the baseline, in pixels.
    pub baseline: usize,
    /// `[height, width]`, in `[0, 1]`
    pub coverage: Vec<f32>,
}

static TYPEFACE: LazyLock<Result<FontRef<'static>, InvalidFont>> =
    LazyLock::new(|| FontRef::try_from_slice(epaint_default_fonts::UBUNTU_LIGHT));

/// Stroke weight added to the light font, in em.
const REGULAR: f64 = 0.018;
const BOLD: f64 = 0.06;
/// Fraction of the added weight by which letters move apart.
const SPACING: f64 = 0.6;

/// Width of a line of text, in pixels.
///
/// - `em`: font size, in pixels
pub fn text_width(text: &str, em: f64, bold: bool) -> f64 {
    TYPEFACE
        .as_ref()
        .map_or(0.0, |typeface| set(typeface, text, bold).width * em)
}

/// Rasterises a line of text.
///
/// - `em`: font size, in pixels
pub(crate) fn mask(text: &str, em: f64, bold: bool) -> Result<Mask, FigureError> {
    let typeface = TYPEFACE.as_ref().map_err(FigureError::draw)?;
    let line = set(typeface, text, bold);
    let thickening = (em * weight(bold)).round() as usize;
    let width = (line.width * em).ceil() as usize + em.ceil() as usize;
    let height = (em * 1.6).ceil() as usize;
    let baseline = em.ceil() as usize;
    let mut mask = Mask {
        width,
        height,
        baseline,
        coverage: vec![0.0; width * height],
    };
    // A `PxScale` is the height of a line, not of an em.
    let line_height = f64::from(typeface.height_unscaled()) / units_per_em(typeface);
    let scale = PxScale::from((em * line_height) as f32);
    for (glyph, pen) in line.glyphs {
        // On whole pixels, so that equal letters look equal.
        let position = point((pen * em).round() as f32, baseline as f32);
        let glyph = glyph.with_scale_and_position(scale, position);
        if let Some(outline) = typeface.outline_glyph(glyph) {
            let corner = outline.px_bounds().min;
            let (left, top) = (corner.x as i32, corner.y as i32);
            outline.draw(|x, y, alpha| {
                mask.cover(left + x as i32, top + y as i32, alpha, thickening);
            });
        }
    }
    Ok(mask)
}

/// A line of text, measured in em.
struct Line {
    /// Each glyph and its starting position.
    glyphs: Vec<(GlyphId, f64)>,
    width: f64,
}

/// Places glyphs side by side: advance, kerning, and room for the thickening, which the font does not account
/// for.
fn set(typeface: &FontRef<'_>, text: &str, bold: bool) -> Line {
    let units = units_per_em(typeface);
    let room = weight(bold) * SPACING;
    let mut glyphs: Vec<(GlyphId, f64)> = Vec::with_capacity(text.len());
    let mut pen = 0.0;
    for letter in text.chars() {
        let glyph = typeface.glyph_id(letter);
        if let Some(&(before, _)) = glyphs.last() {
            pen += f64::from(typeface.kern_unscaled(before, glyph)) / units;
        }
        glyphs.push((glyph, pen));
        pen += f64::from(typeface.h_advance_unscaled(glyph)) / units + room;
    }
    Line { glyphs, width: pen }
}

fn units_per_em(typeface: &FontRef<'_>) -> f64 {
    f64::from(typeface.units_per_em().unwrap_or(1000.0))
}

impl Mask {
    /// Covers a pixel and the next `thickening` pixels to its right.
    fn cover(&mut self, x: i32, y: i32, alpha: f32, thickening: usize) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
            return;
        };
        if x >= self.width || y >= self.height {
            return;
        }
        let pixels = self.coverage.iter_mut().skip(y * self.width + x);
        for pixel in pixels.take((thickening + 1).min(self.width - x)) {
            *pixel = pixel.max(alpha.min(1.0));
        }
    }
}

fn weight(bold: bool) -> f64 {
    if bold { BOLD } else { REGULAR }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_grows_with_size_weight_and_length() {
        let width = text_width("recall", 10.0, false);
        assert!((20.0..40.0).contains(&width), "{width}");
        assert!((text_width("recall", 20.0, false) - 2.0 * width).abs() < 1e-9);
        assert!(text_width("recall", 10.0, true) > width);
        assert!(text_width("recalls", 10.0, false) > width);
        assert_eq!(text_width("", 10.0, false), 0.0);
    }

    #[test]
    fn letters_stand_on_the_baseline() {
        let mask = mask("HI", 40.0, false).unwrap();
        let inked = |row: usize| {
            mask.coverage[row * mask.width..(row + 1) * mask.width]
                .iter()
                .any(|&coverage| coverage > 0.5)
        };
        assert!(inked(mask.baseline - 1));
        assert!((mask.baseline..mask.height).all(|row| !inked(row)));
        // A capital letter of this font is 0.69 em high.
        let top = (0..mask.height).find(|&row| inked(row)).unwrap();
        assert!(
            (26..=29).contains(&(mask.baseline - top)),
            "{}",
            mask.baseline - top
        );
    }
}
