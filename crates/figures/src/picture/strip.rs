//! Magnified frames without any text: a single one, or a sequence side by side.

use super::sheet::{BACKGROUND, GAP};
use super::{Colour, Image, Sequence};
use crate::FigureError;

/// Colour for NaN.
const NOT_A_NUMBER: Colour = [255, 0, 255];

/// One frame, magnified `scale` times without smoothing.
///
/// - `values`: `[channels, height, width]` in `[0, 1]`
///
/// # Errors
/// [`FigureError::Shape`] or [`FigureError::Channels`] if the values do not form such a frame.
pub fn frame(
    values: &[f32],
    channels: usize,
    height: usize,
    width: usize,
    scale: usize,
) -> Result<Image, FigureError> {
    let sequence = Sequence {
        frames: values,
        steps: 1,
        channels,
        height,
        width,
    };
    sequence.checked()?;
    let scale = scale.max(1);
    let mut image = Image::new(
        width.saturating_mul(scale),
        height.saturating_mul(scale),
        BACKGROUND,
    )?;
    let plane = height * width;
    let value = |channel: usize, pixel: usize| values.get(channel * plane + pixel).copied();
    for pixel in 0..plane {
        let grey = value(0, pixel).unwrap_or(f32::NAN);
        let parts = [
            grey,
            value(1, pixel).unwrap_or(grey),
            value(2, pixel).unwrap_or(grey),
        ];
        let colour = if parts.iter().any(|part| part.is_nan()) {
            NOT_A_NUMBER
        } else {
            parts.map(|part| (part.clamp(0.0, 1.0) * 255.0).round() as u8)
        };
        let (x, y) = (pixel % width * scale, pixel / width * scale);
        image.fill(x, y, scale, scale, colour);
    }
    Ok(image)
}

/// The frames of one sequence side by side, without any text.
///
/// # Errors
/// [`FigureError::Shape`], [`FigureError::Channels`] or [`FigureError::TooLarge`].
pub fn strip(sequence: &Sequence, scale: usize) -> Result<Image, FigureError> {
    let frames = sequence.checked()?;
    let scale = scale.max(1);
    let pitch = sequence.width.saturating_mul(scale).saturating_add(GAP);
    let width = pitch.saturating_mul(sequence.steps).saturating_sub(GAP);
    let mut image = Image::new(width, sequence.height.saturating_mul(scale), BACKGROUND)?;
    for (step, values) in frames.into_iter().enumerate() {
        let tile = frame(
            values,
            sequence.channels,
            sequence.height,
            sequence.width,
            scale,
        )?;
        image.blit(&tile, step * pitch, 0);
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_and_colour_frames() {
        let grey = frame(&[0.0, 0.5, 2.0, f32::NAN], 1, 2, 2, 3).unwrap();
        assert_eq!((grey.width(), grey.height()), (6, 6));
        assert_eq!(grey.pixel(2, 2), Some([0; 3]));
        assert_eq!(grey.pixel(3, 0), Some([128; 3]));
        assert_eq!(grey.pixel(0, 3), Some([255; 3]));
        assert_eq!(grey.pixel(5, 5), Some(NOT_A_NUMBER));
        let colour = frame(&[1.0, 0.0, 0.0, 1.0, 0.0, 0.0], 3, 1, 2, 1).unwrap();
        assert_eq!(colour.pixels(), [255, 0, 0, 0, 255, 0]);
    }

    #[test]
    fn a_strip_has_gaps_between_its_frames() {
        let frames = [[0.0_f32; 4], [0.5; 4]].concat();
        let mut sequence = Sequence {
            frames: &frames,
            steps: 2,
            channels: 1,
            height: 2,
            width: 2,
        };
        let picture = strip(&sequence, 3).unwrap();
        assert_eq!((picture.width(), picture.height()), (12 + GAP, 6));
        assert_eq!(picture.pixel(5, 5), Some([0; 3]));
        assert_eq!(picture.pixel(6, 5), Some(BACKGROUND));
        assert_eq!(picture.pixel(6 + GAP, 5), Some([128; 3]));
        sequence.steps = 3;
        let error = strip(&sequence, 1).unwrap_err();
        assert!(error.to_string().contains("[3, 1, 2, 2]"), "{error}");
        sequence.height = usize::MAX;
        assert!(strip(&sequence, 2).is_err());
    }

    #[test]
    fn odd_channels_are_refused() {
        assert!(matches!(
            frame(&[0.0; 8], 2, 2, 2, 1),
            Err(FigureError::Channels(2))
        ));
    }
}
