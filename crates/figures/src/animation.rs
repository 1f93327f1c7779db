//! Moving pictures, as GIF.

use crate::{FigureError, picture::Image};
use gif::{Encoder, Frame, Repeat};

/// Encodes pictures of one size as a GIF that repeats for ever, each shown for `hundredths` of a second. Each has 256
/// colours of its own.
///
/// # Errors
/// [`FigureError::Draw`] without pictures, if their sizes differ, or if a side is longer than 65,535 pixels.
pub fn gif(pictures: &[Image], hundredths: u16) -> Result<Vec<u8>, FigureError> {
    let first = pictures
        .first()
        .ok_or_else(|| FigureError::draw("an animation needs a picture"))?;
    let size = |side: usize| {
        u16::try_from(side).map_err(|_| FigureError::TooLarge {
            width: first.width(),
            height: first.height(),
        })
    };
    let (width, height) = (size(first.width())?, size(first.height())?);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height, &[]).map_err(FigureError::draw)?;
    encoder
        .set_repeat(Repeat::Infinite)
        .map_err(FigureError::draw)?;
    for picture in pictures {
        if (picture.width(), picture.height()) != (first.width(), first.height()) {
            return Err(FigureError::draw(
                "the pictures of an animation have different sizes",
            ));
        }
        // 1 is the slowest and best choice of colours, 30 the fastest.
        let mut frame = Frame::from_rgb_speed(width, height, picture.pixels(), 10);
        frame.delay = hundredths;
        encoder.write_frame(&frame).map_err(FigureError::draw)?;
    }
    drop(encoder);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_in_order() {
        let colours = [[200, 30, 40], [10, 220, 60], [0, 0, 250]];
        let pictures = colours.map(|colour| Image::new(5, 3, colour).unwrap());
        let bytes = gif(&pictures, 12).unwrap();
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(bytes.as_slice()).unwrap();
        for colour in colours {
            let frame = decoder.read_next_frame().unwrap().unwrap();
            assert_eq!((frame.width, frame.height, frame.delay), (5, 3, 12));
            for pixel in frame.buffer.chunks(4) {
                for (found, expected) in pixel.iter().zip(colour) {
                    assert!(found.abs_diff(expected) <= 8, "{found} {expected}");
                }
            }
        }
        assert!(decoder.read_next_frame().unwrap().is_none());
        assert!(gif(&[], 1).is_err());
        let other = Image::new(4, 3, [0; 3]).unwrap();
        assert!(gif(&[pictures[0].clone(), other], 1).is_err());
    }
}
