//! Single pictures: PNG and JPEG files, conversion to grey, cropping and reduction.

use std::io::Cursor;

use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use crate::files::Room;

/// Most rows or columns of a picture.
const LARGEST: usize = 16_384;

/// A picture of 1 (grey) or 3 (red, green, blue) channels; at least one pixel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    /// `[height, width, channels]`.
    pub pixels: Vec<u8>,
}

/// How a picture becomes the square that a model sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Fit {
    /// The largest square in the middle.
    #[default]
    CentreCrop,
    /// The whole picture, stretched to a square.
    Stretch,
}

/// How pictures are converted to frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameSettings {
    /// Rows and columns of a frame.
    pub side: usize,
    /// Red, green and blue instead of grey.
    pub colour: bool,
    /// How a picture is made square.
    pub fit: Fit,
}

impl Default for FrameSettings {
    /// 64 x 64 pixels, grey, cropped.
    fn default() -> FrameSettings {
        FrameSettings {
            side: 64,
            colour: false,
            fit: Fit::CentreCrop,
        }
    }
}

impl FrameSettings {
    /// Number of values per pixel.
    pub fn channels(&self) -> usize {
        if self.colour { 3 } else { 1 }
    }

    pub(crate) fn check(&self) -> Result<(), crate::Error> {
        crate::settings::check("side", self.side, 1..=1024, || {
            "the rows and columns of a frame must be from 1 to 1024".to_owned()
        })
    }
}

impl Picture {
    /// Decodes PNG or JPEG, recognised by the first bytes; transparency is ignored. The error is
    /// one line without the name of the file.
    pub fn decode(bytes: &[u8], room: Room) -> Result<Picture, String> {
        match bytes {
            [0x89, b'P', b'N', b'G', ..] => png(bytes, room),
            [0xff, 0xd8, ..] => jpeg(bytes, room),
            [] => Err("an empty file".to_owned()),
            _ => Err("neither a PNG nor a JPEG picture".to_owned()),
        }
    }

    /// The frame for `settings`: `[side, side, channels]`. Each of its pixels is the mean over the area that
    /// it covers.
    pub fn frame(&self, settings: &FrameSettings) -> Vec<u8> {
        let colours;
        let picture = if settings.channels() == self.channels {
            self
        } else if settings.colour {
            colours = self.coloured();
            &colours
        } else {
            colours = self.grey();
            &colours
        };
        let (height, width) = (picture.height, picture.width);
        let square = height.min(width);
        let (top, left, rows, columns) = match settings.fit {
            Fit::CentreCrop => ((height - square) / 2, (width - square) / 2, square, square),
            Fit::Stretch => (0, 0, height, width),
        };
        let columns = Areas::new(left, columns, settings.side);
        let rows = Areas::new(top, rows, settings.side);
        picture.reduce(&rows, &columns)
    }

    /// The picture with its sides divided by `divisor`, in colour. Each pixel is the mean over the area that it covers.
    pub fn divided(&self, divisor: usize) -> Picture {
        let picture = match self.channels {
            3 => self.clone(),
            _ => self.coloured(),
        };
        let (height, width) = (
            (self.height / divisor).max(1),
            (self.width / divisor).max(1),
        );
        let rows = Areas::new(0, self.height, height);
        let columns = Areas::new(0, self.width, width);
        Picture {
            height,
            width,
            channels: 3,
            pixels: picture.reduce(&rows, &columns),
        }
    }

    /// Brightness by ITU-R BT.601.
    fn grey(&self) -> Picture {
        let brightness = |pixel: &[u8]| {
            let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
            ((299 * red + 587 * green + 114 * blue + 500) / 1000) as u8
        };
        Picture {
            channels: 1,
            pixels: self.pixels.chunks_exact(3).map(brightness).collect(),
            ..*self
        }
    }

    fn coloured(&self) -> Picture {
        Picture {
            channels: 3,
            pixels: self.pixels.iter().flat_map(|&pixel| [pixel; 3]).collect(),
            ..*self
        }
    }

    fn reduce(&self, rows: &Areas, columns: &Areas) -> Vec<u8> {
        let row_length = self.width * self.channels;
        let mut reduced = Vec::with_capacity(rows.0.len() * columns.0.len() * self.channels);
        let mut sums = vec![0.0f32; row_length];
        for (top, row_weights) in &rows.0 {
            sums.fill(0.0);
            for (row, weight) in row_weights.iter().enumerate() {
                let pixels = &self.pixels[(top + row) * row_length..][..row_length];
                for (sum, &pixel) in sums.iter_mut().zip(pixels) {
                    *sum += weight * f32::from(pixel);
                }
            }
            for (left, column_weights) in &columns.0 {
                for channel in 0..self.channels {
                    let inputs = sums[left * self.channels + channel..].iter();
                    let inputs = inputs.step_by(self.channels);
                    let weighted = inputs.zip(column_weights).map(|(sum, weight)| sum * weight);
                    reduced.push(weighted.sum::<f32>().round() as u8);
                }
            }
        }
        reduced
    }
}

/// For each new pixel along an axis, the first old pixel that it covers and the weights of all it covers.
struct Areas(Vec<(usize, Vec<f32>)>);

impl Areas {
    /// `from` old pixels, the first at `start`, become `to` new ones.
    fn new(start: usize, from: usize, to: usize) -> Areas {
        // In units of 1 / to of an old pixel, a new pixel has length `from`, so all edges are integers.
        let areas = (0..to).map(|place| {
            let (begin, end) = (place * from, (place + 1) * from);
            let first = begin / to;
            let weights = (first..end.div_ceil(to)).map(|old| {
                let overlap = end.min((old + 1) * to) - begin.max(old * to);
                overlap as f32 / from as f32
            });
            (start + first, weights.collect())
        });
        Areas(areas.collect())
    }
}

/// Refuses a picture that would take too much memory, before it is decoded; `bytes` is the memory per pixel
/// during decoding.
pub(crate) fn check_size(
    height: usize,
    width: usize,
    bytes: usize,
    room: Room,
) -> Result<(), String> {
    if (1..=LARGEST).contains(&height) && (1..=LARGEST).contains(&width) {
        return room.check(height * width * bytes);
    }
    Err(format!(
        "a picture of {height} x {width} pixels; each side must be from 1 to {LARGEST}"
    ))
}

fn png(bytes: &[u8], room: Room) -> Result<Picture, String> {
    let damaged = |cause: png::DecodingError| format!("damaged PNG picture ({cause})");
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let samples = reader.output_color_type().0.samples();
    check_size(height, width, samples, room)?;
    let size = reader
        .output_buffer_size()
        .ok_or("a PNG picture that is too large")?;
    let mut samples = vec![0; size];
    let frame = reader.next_frame(&mut samples).map_err(damaged)?;
    samples.truncate(frame.buffer_size());
    let (channels, kept) = match frame.color_type {
        png::ColorType::Grayscale => (1, 1),
        png::ColorType::GrayscaleAlpha => (2, 1),
        png::ColorType::Rgba => (4, 3),
        _ => (3, 3),
    };
    let pixels = samples.chunks_exact(channels);
    Ok(Picture {
        height,
        width,
        channels: kept,
        pixels: pixels
            .flat_map(|pixel| pixel[..kept].iter().copied())
            .collect(),
    })
}

fn jpeg(bytes: &[u8], room: Room) -> Result<Picture, String> {
    /// Bytes that the decoder takes per pixel: three for the colours, and six for the
    /// coefficients of a picture with several scans.
    const DECODING: usize = 9;
    let damaged = |cause: &dyn std::fmt::Display| {
        let cause = cause.to_string();
        let line = cause.lines().find(|line| !line.trim().is_empty());
        format!(
            "damaged JPEG picture ({})",
            line.unwrap_or("no reason given").trim()
        )
    };
    // The decoder fills the missing part of a truncated file with grey. A complete file ends its last scan.
    let last = |marker: [u8; 2]| bytes.windows(2).rposition(|pair| pair == marker);
    if last([0xff, 0xd9]) <= last([0xff, 0xda]) {
        return Err(damaged(&"truncated"));
    }
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(LARGEST)
        .set_max_height(LARGEST)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
    decoder.decode_headers().map_err(|cause| damaged(&cause))?;
    let size = decoder.dimensions();
    let (width, height) = size.ok_or_else(|| damaged(&"it has no size"))?;
    check_size(height, width, DECODING, room)?;
    let pixels = decoder.decode().map_err(|cause| damaged(&cause))?;
    if pixels.len() != height * width * 3 {
        return Err(damaged(&format!(
            "{} bytes for {height} x {width} pixels",
            pixels.len()
        )));
    }
    Ok(Picture {
        height,
        width,
        channels: 3,
        pixels,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Limits;

    pub(crate) fn encode_png(picture: &Picture) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder =
            png::Encoder::new(&mut bytes, picture.width as u32, picture.height as u32);
        encoder.set_color(if picture.channels == 1 {
            png::ColorType::Grayscale
        } else {
            png::ColorType::Rgb
        });
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&picture.pixels).unwrap();
        writer.finish().unwrap();
        bytes
    }

    pub(crate) fn uniform(height: usize, width: usize, grey: u8) -> Picture {
        Picture {
            height,
            width,
            channels: 1,
            pixels: vec![grey; height * width],
        }
    }

    fn decode(bytes: &[u8]) -> Result<Picture, String> {
        Picture::decode(bytes, Limits::default().room(bytes.len()))
    }

    fn settings(side: usize, colour: bool, fit: Fit) -> FrameSettings {
        FrameSettings { side, colour, fit }
    }

    #[test]
    fn pictures_are_cropped_in_the_middle_and_averaged() {
        let picture = Picture {
            height: 2,
            width: 4,
            channels: 1,
            pixels: vec![9, 0, 10, 9, 9, 20, 31, 9],
        };
        assert_eq!(
            picture.frame(&settings(2, false, Fit::CentreCrop)),
            [0, 10, 20, 31]
        );
        assert_eq!(picture.frame(&settings(1, false, Fit::CentreCrop)), [15]);
        assert_eq!(
            picture.frame(&settings(2, false, Fit::Stretch)),
            [5, 10, 15, 20]
        );
        assert_eq!(picture.frame(&settings(1, true, Fit::CentreCrop)), [15; 3]);
        let red = Picture {
            height: 1,
            width: 1,
            channels: 3,
            pixels: vec![255, 0, 0],
        };
        assert_eq!(red.frame(&settings(1, false, Fit::Stretch)), [76]);
    }

    proptest! {
        #[test]
        fn averages_keep_their_size_and_the_mean(
            (height, width) in (1usize..40, 1usize..40),
            side in 1usize..50,
            seed in any::<u8>(),
        ) {
            let fit = Fit::Stretch;
            prop_assert_eq!(
                uniform(height, width, seed).frame(&settings(side, false, fit)),
                vec![seed; side * side]
            );
            let pixels = (0..height * width).map(|place| (place * 7 % 256) as u8 ^ seed).collect();
            let picture = Picture { pixels, ..uniform(height, width, 0) };
            let mean = |pixels: &[u8]| pixels.iter().map(|&pixel| f64::from(pixel)).sum::<f64>() / pixels.len() as f64;
            let frame = picture.frame(&settings(side, false, fit));
            prop_assert!((mean(&frame) - mean(&picture.pixels)).abs() <= 0.51);
            let png = decode(&encode_png(&picture)).unwrap();
            prop_assert_eq!(png, picture);
        }
    }

    #[test]
    fn damaged_pictures_are_refused() {
        let png = encode_png(&uniform(8, 8, 3));
        for length in 0..png.len() - 12 {
            let error = decode(&png[..length]).unwrap_err();
            assert!(!error.contains('\n'), "{error}");
        }
        assert!(decode(b"GIF89a").unwrap_err().contains("neither"));
        for length in 2..JPEG.len() - 2 {
            let error = decode(&JPEG[..length]).unwrap_err();
            assert!(!error.contains('\n'), "{length}: {error}");
        }
    }

    #[test]
    fn jpeg_is_read() {
        let picture = decode(JPEG).unwrap();
        assert_eq!((picture.height, picture.width, picture.channels), (8, 8, 3));
        assert!(
            picture.pixels.iter().all(|&pixel| pixel.abs_diff(200) <= 4),
            "{:?}",
            &picture.pixels[..3]
        );
    }

    /// 120 bytes of PNG that would unpack to a gigabyte of pixels.
    #[test]
    fn sizes_are_looked_at_before_pixels_are_made() {
        let mut huge = encode_png(&uniform(8, 8, 3));
        huge[16..24].copy_from_slice(&[0, 0, 0x40, 0, 0, 0, 0x40, 0]);
        let checksum = crc(&huge[12..29]);
        huge[29..33].copy_from_slice(&checksum.to_be_bytes());
        let room = Limits {
            unpacked_bytes: 1 << 20,
            ..Limits::default()
        }
        .room(huge.len());
        let error = Picture::decode(&huge, room).unwrap_err();
        assert!(error.contains("raise data.max_unpacked_bytes"), "{error}");
        let mut huge = JPEG.to_vec();
        let frame = huge
            .windows(2)
            .position(|pair| pair == [0xff, 0xc0])
            .unwrap();
        huge[frame + 5..frame + 9].copy_from_slice(&[0x40, 0, 0x40, 0]);
        let error = Picture::decode(&huge, room).unwrap_err();
        assert!(error.contains("raise data.max_unpacked_bytes"), "{error}");
    }

    /// The checksum of a chunk of PNG (its annex D).
    fn crc(bytes: &[u8]) -> u32 {
        let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        let sum = bytes.iter().fold(u32::MAX, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc))
        });
        !sum
    }

    /// 8 x 8 grey pixels of about 200.
    pub(crate) const JPEG: &[u8] = include_bytes!("../../tests/data/grey_8x8.jpg");
}
