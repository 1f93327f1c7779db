//! Moving pictures.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use gif::{Encoder, Frame, Repeat};

use super::{Image, PictureError};

/// How hard the encoder looks for colours when a frame has more than 256: 1 (best) to 30 (fastest).
const QUANTISER_SPEED: i32 = 10;

/// Writes an animation that repeats without end; the file's size is that of the first picture.
///
/// - `delay`: how long each frame is shown, to a hundredth of a second
///
/// # Errors
/// [`PictureError::Write`] with the path; [`PictureError::TooLarge`] for a side beyond 65,535 pixels or a frame larger
/// than the first; [`PictureError::Draw`] without frames or pixels.
pub fn write_gif(path: &Path, frames: &[Image], delay: Duration) -> Result<(), PictureError> {
    let Some(first) = frames.first() else {
        return Err(PictureError::Draw("an animation without frames".to_owned()));
    };
    let (width, height) = side_lengths(first)?;
    for image in frames {
        let (frame_width, frame_height) = side_lengths(image)?;
        if frame_width > width || frame_height > height {
            return Err(PictureError::TooLarge {
                width: image.width(),
                height: image.height(),
            });
        }
    }
    let failed = |source| PictureError::Write {
        path: path.to_owned(),
        source,
    };
    let encoding_failed = |error: gif::EncodingError| match error {
        gif::EncodingError::Io(source) => failed(source),
        other => PictureError::draw(other),
    };
    let file = BufWriter::new(File::create(path).map_err(failed)?);
    let mut encoder = Encoder::new(file, width, height, &[]).map_err(encoding_failed)?;
    encoder
        .set_repeat(Repeat::Infinite)
        .map_err(encoding_failed)?;
    for image in frames {
        let (width, height) = side_lengths(image)?;
        let mut frame = Frame::from_rgb_speed(width, height, image.pixels(), QUANTISER_SPEED);
        frame.delay = u16::try_from(delay.as_millis() / 10).unwrap_or(u16::MAX);
        encoder.write_frame(&frame).map_err(encoding_failed)?;
    }
    let file = encoder.into_inner().map_err(encoding_failed)?;
    file.into_inner()
        .map_err(|error| failed(error.into_error()))?;
    Ok(())
}

fn side_lengths(image: &Image) -> Result<(u16, u16), PictureError> {
    match (u16::try_from(image.width()), u16::try_from(image.height())) {
        (Ok(0), _) | (_, Ok(0)) => Err(PictureError::Draw("a frame without pixels".to_owned())),
        (Ok(width), Ok(height)) => Ok((width, height)),
        _ => Err(PictureError::TooLarge {
            width: image.width(),
            height: image.height(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_delay_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("moving.gif");
        let frames = [
            Image::new(6, 4, [10, 20, 30]).unwrap(),
            Image::new(6, 4, [200, 0, 0]).unwrap(),
        ];
        write_gif(&path, &frames, Duration::from_millis(250)).unwrap();
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(File::open(&path).unwrap()).unwrap();
        for image in &frames {
            let frame = decoder.read_next_frame().unwrap().unwrap();
            assert_eq!((frame.width, frame.height, frame.delay), (6, 4, 25));
            let colours = frame.buffer.chunks_exact(4).map(|pixel| &pixel[..3]);
            assert!(colours.eq(image.pixels().chunks_exact(3)));
        }
        assert!(decoder.read_next_frame().unwrap().is_none());
    }

    #[test]
    fn impossible_animations_are_errors() {
        let image = |width| Image::new(width, 1, [0; 3]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("moving.gif");
        assert!(write_gif(&path, &[], Duration::ZERO).is_err());
        assert!(write_gif(&path, &[image(70_000)], Duration::ZERO).is_err());
        assert!(write_gif(&path, &[image(2), image(3)], Duration::ZERO).is_err());
        let error = write_gif(Path::new("no/such/a.gif"), &[image(1)], Duration::ZERO);
        assert!(error.unwrap_err().to_string().starts_with("no/such/a.gif"));
    }
}
