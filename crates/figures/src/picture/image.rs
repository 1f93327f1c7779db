//! A colour picture in memory.

use super::mask;
use crate::FigureError;

/// Red, green, blue.
pub type Colour = [u8; 3];

/// A picture: 8-bit RGB, row by row from the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
    /// Pixels per CSS pixel.
    ratio: u32,
}

/// Pixels per metre of a picture with one pixel per CSS pixel.
pub(crate) const PIXELS_PER_METRE: u32 = 3_780;

/// The point of a line of text that its position refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Its left end.
    Left,
    /// Its middle.
    Centre,
    /// Its right end.
    Right,
}

/// How a line of text looks.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Font size, in pixels.
    pub size: f64,
    /// Colour of the text.
    pub colour: Colour,
    /// Bold instead of regular.
    pub bold: bool,
    /// The point of the text that its position refers to. Vertically this is always the middle of the digits.
    pub align: Align,
}

/// Text is rasterised this many times larger and averaged, so that letters can sit at fractions of a pixel.
const OVERSAMPLING: usize = 4;
/// Half the height of a digit, in em.
pub(crate) const HALF_DIGIT: f64 = 0.345;
/// The most pixels a picture may have, which take 768 MiB.
const MOST_PIXELS: usize = 1 << 28;

impl Image {
    /// A picture of one colour.
    ///
    /// # Errors
    /// [`FigureError::TooLarge`] beyond 2^28 pixels.
    pub fn new(width: usize, height: usize, colour: Colour) -> Result<Self, FigureError> {
        match width.checked_mul(height) {
            Some(pixels) if pixels <= MOST_PIXELS => Ok(Self {
                width,
                height,
                pixels: colour.repeat(pixels),
                ratio: 1,
            }),
            _ => Err(FigureError::TooLarge { width, height }),
        }
    }

    /// The same picture, to be shown with this many pixels per CSS pixel.
    pub(crate) fn dense(self, ratio: u32) -> Self {
        Self { ratio, ..self }
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// All pixels, `[height, width, 3]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The colour at `x` from the left and `y` from the top; `None` outside the picture.
    pub fn pixel(&self, x: usize, y: usize) -> Option<Colour> {
        if x >= self.width {
            return None;
        }
        let start = y.checked_mul(self.width)?.checked_add(x)?.checked_mul(3)?;
        self.pixels.get(start..)?.first_chunk().copied()
    }

    /// Mixes `colour` into a pixel: with `alpha` 0 the pixel stays, with 1 it is replaced. Does nothing outside
    /// the picture.
    pub fn blend(&mut self, x: usize, y: usize, colour: Colour, alpha: f32) {
        if x >= self.width || y >= self.height {
            return;
        }
        let start = (y * self.width + x) * 3;
        for (pixel, part) in self.pixels.iter_mut().skip(start).zip(colour) {
            let mixed = f32::from(*pixel) * (1.0 - alpha) + f32::from(part) * alpha;
            *pixel = mixed.round().clamp(0.0, 255.0) as u8;
        }
    }

    /// Fills the part of a rectangle that lies within the picture.
    pub fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Colour) {
        let left = x.min(self.width);
        let right = x.saturating_add(width).min(self.width);
        let bottom = y.saturating_add(height).min(self.height);
        for row in y..bottom {
            let start = row * self.width;
            for pixel in self.pixels[(start + left) * 3..(start + right) * 3].chunks_exact_mut(3) {
                pixel.copy_from_slice(&colour);
            }
        }
    }

    /// Copies another picture into this one, with its top left corner at `(x, y)`. Parts that do not fit are cut
    /// off.
    pub fn blit(&mut self, other: &Image, x: usize, y: usize) {
        let width = other.width.min(self.width.saturating_sub(x));
        let height = other.height.min(self.height.saturating_sub(y));
        for row in 0..height {
            let from = row * other.width * 3;
            let to = ((y + row) * self.width + x) * 3;
            self.pixels[to..to + width * 3].copy_from_slice(&other.pixels[from..from + width * 3]);
        }
    }

    /// Writes a line of text at `(x, y)`. Parts that do not fit are cut off.
    ///
    /// # Errors
    /// [`FigureError::Draw`] if the embedded typeface cannot be rasterised.
    pub fn text(&mut self, text: &str, (x, y): (f64, f64), style: Text) -> Result<(), FigureError> {
        let scale = OVERSAMPLING as f64;
        let mask = mask(text, style.size * scale, style.bold)?;
        let width = super::text_width(text, style.size, style.bold);
        let left = match style.align {
            Align::Left => x,
            Align::Centre => x - width / 2.0,
            Align::Right => x - width,
        };
        let baseline = (y + style.size * HALF_DIGIT).round() * scale;
        let (left, top) = ((left * scale).round(), baseline - mask.baseline as f64);
        let share = 1.0 / (OVERSAMPLING * OVERSAMPLING) as f32;
        let (first_x, first_y) = ((left / scale).floor(), (top / scale).floor());
        let columns = mask.width / OVERSAMPLING + 2;
        let mut alpha = vec![0.0_f32; columns * (mask.height / OVERSAMPLING + 2)];
        let (shift_x, shift_y) = (
            (left - first_x * scale) as usize,
            (top - first_y * scale) as usize,
        );
        for (index, coverage) in mask.coverage.iter().enumerate() {
            let column = (index % mask.width + shift_x) / OVERSAMPLING;
            let row = (index / mask.width + shift_y) / OVERSAMPLING;
            if let Some(alpha) = alpha.get_mut(row * columns + column) {
                *alpha += coverage * share;
            }
        }
        for (index, alpha) in alpha.into_iter().enumerate() {
            let x = first_x + (index % columns) as f64;
            let y = first_y + (index / columns) as f64;
            if alpha > 0.0 && x >= 0.0 && y >= 0.0 {
                self.blend(x as usize, y as usize, style.colour, alpha);
            }
        }
        Ok(())
    }

    /// The picture scaled down by `factor`: each pixel is the average of a `factor` x `factor` square.
    pub(crate) fn reduced(&self, factor: usize) -> Result<Self, FigureError> {
        let factor = factor.max(1);
        let mut reduced = Self::new(self.width / factor, self.height / factor, [0; 3])?;
        let count = (factor * factor) as u32;
        for (index, pixel) in reduced.pixels.chunks_exact_mut(3).enumerate() {
            let (x, y) = (
                index % reduced.width * factor,
                index / reduced.width * factor,
            );
            let mut sum = [0_u32; 3];
            for row in y..y + factor {
                let start = (row * self.width + x) * 3;
                for part in self.pixels[start..start + factor * 3].chunks_exact(3) {
                    for (sum, part) in sum.iter_mut().zip(part) {
                        *sum += u32::from(*part);
                    }
                }
            }
            for (part, sum) in pixel.iter_mut().zip(sum) {
                *part = ((sum + count / 2) / count) as u8;
            }
        }
        Ok(reduced)
    }

    /// Pictures stacked vertically, `gap` white pixels apart, aligned at the left.
    ///
    /// # Errors
    /// [`FigureError::TooLarge`].
    pub fn stack(images: &[Image], gap: usize) -> Result<Self, FigureError> {
        let width = images.iter().map(Image::width).max().unwrap_or(0);
        let height = images.iter().map(Image::height).sum::<usize>()
            + gap.saturating_mul(images.len().saturating_sub(1));
        let ratio = images.iter().map(|image| image.ratio).max().unwrap_or(1);
        let mut stacked = Self::new(width, height, [255; 3])?.dense(ratio);
        let mut top = 0;
        for image in images {
            stacked.blit(image, 0, top);
            top += image.height + gap;
        }
        Ok(stacked)
    }

    /// The picture as a PNG file.
    ///
    /// # Errors
    /// [`FigureError::Draw`] for a picture without pixels, which PNG does not allow.
    pub fn png_bytes(&self) -> Result<Vec<u8>, FigureError> {
        let too_large = |_| FigureError::TooLarge {
            width: self.width,
            height: self.height,
        };
        let width = u32::try_from(self.width).map_err(too_large)?;
        let height = u32::try_from(self.height).map_err(too_large)?;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        if self.ratio > 1 {
            let density = self.ratio * PIXELS_PER_METRE;
            encoder.set_pixel_dims(Some(png::PixelDimensions {
                xppu: density,
                yppu: density,
                unit: png::Unit::Meter,
            }));
        }
        let mut writer = encoder.write_header().map_err(FigureError::draw)?;
        writer
            .write_image_data(&self.pixels)
            .map_err(FigureError::draw)?;
        writer.finish().map_err(FigureError::draw)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Colour = [255; 3];
    const RED: Colour = [200, 0, 0];
    const BLACK: Text = Text {
        size: 12.0,
        colour: [0; 3],
        bold: false,
        align: Align::Left,
    };

    fn inked(image: &Image) -> Vec<(usize, usize)> {
        (0..image.height())
            .flat_map(|y| (0..image.width()).map(move |x| (x, y)))
            .filter(|&(x, y)| image.pixel(x, y) != Some(WHITE))
            .collect()
    }

    #[test]
    fn fill_and_blit_stay_inside() {
        let mut image = Image::new(4, 3, WHITE).unwrap();
        image.fill(2, 1, 100, 100, RED);
        image.fill(9, 9, usize::MAX, usize::MAX, RED);
        assert_eq!(inked(&image), [(2, 1), (3, 1), (2, 2), (3, 2)]);
        let mut larger = Image::new(5, 5, WHITE).unwrap();
        larger.blit(&image, 2, 3);
        larger.blit(&image, 7, 7);
        assert_eq!(inked(&larger), [(4, 4)]);
        assert_eq!(image.pixel(4, 0), None);
        assert_eq!(image.pixel(0, usize::MAX), None);
    }

    #[test]
    fn text_lies_where_it_was_asked_for() {
        let width = crate::picture::text_width("truth", 12.0, false);
        for (align, left) in [
            (Align::Left, 50.0),
            (Align::Centre, 50.0 - width / 2.0),
            (Align::Right, 50.0 - width),
        ] {
            let mut image = Image::new(100, 30, WHITE).unwrap();
            image
                .text("truth", (50.0, 15.0), Text { align, ..BLACK })
                .unwrap();
            let inked = inked(&image);
            assert!(inked.len() > 40, "the text is visible");
            assert!(inked.iter().all(|&(x, y)| {
                let x = x as f64;
                (left - 1.0..left + width + 1.0).contains(&x) && (9..21).contains(&y)
            }));
        }
        let mut small = Image::new(3, 3, WHITE).unwrap();
        small
            .text("clipped at every side", (-4.0, 0.0), BLACK)
            .unwrap();
    }

    #[test]
    fn png_round_trip() {
        let mut image = Image::new(7, 5, [1, 2, 3]).unwrap();
        image.fill(3, 2, 2, 2, RED);
        let file = std::io::Cursor::new(image.png_bytes().unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (7, 5));
        assert_eq!(info.color_type, png::ColorType::Rgb);
        assert_eq!(pixels, image.pixels());
    }

    #[test]
    fn impossible_pictures_are_errors() {
        assert!(Image::new(usize::MAX, 2, WHITE).is_err());
        assert!(Image::new(0, 0, WHITE).unwrap().png_bytes().is_err());
    }

    #[test]
    fn stacked_and_reduced() {
        let white = Image::new(2, 2, WHITE).unwrap();
        let red = Image::new(4, 2, RED).unwrap();
        let stacked = Image::stack(&[white, red.clone()], 3).unwrap();
        assert_eq!((stacked.width(), stacked.height()), (4, 7));
        assert_eq!(stacked.pixel(3, 5), Some(RED));
        assert_eq!(red.reduced(2).unwrap(), Image::new(2, 1, RED).unwrap());
    }
}
