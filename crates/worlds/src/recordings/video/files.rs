//! Video files: GIF is decoded here, all others by ffmpeg.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use gif::{ColorOutput, DecodeOptions, DisposalMethod};

use super::{Frames, Reader};
use crate::Error;
use crate::error::{refused, unusable};
use crate::files::Room;
use crate::folder::has_extension;
use crate::formats::picture::{FrameSettings, Picture, check_size};
use crate::recordings::corpus::Recording;

impl Reader<'_> {
    /// The clip in a video file.
    pub(super) fn file_clip(&self, path: &Path) -> Result<Recording, Error> {
        let frames = if has_extension(path, &["gif"]) {
            let bytes = self.files.read(path)?;
            let room = self.files.room(bytes.len());
            gif_frames(&bytes, self.settings, room).map_err(|problem| unusable(path, problem))?
        } else {
            // Opened here first, for the error message.
            let (_, size) = self.files.open(path)?;
            ffmpeg_frames(path, self.settings, self.ffmpeg, self.files.room(size))?
        };
        let clip = frames.clip(path.display().to_string());
        let clip = clip.map_err(|problem| unusable(path, problem))?;
        self.files.keep(path, clip.values.bytes())?;
        Ok(clip)
    }
}

/// Every frame as displayed: drawn over the remains of earlier frames, on black.
fn gif_frames<'a>(
    bytes: &[u8],
    settings: &'a FrameSettings,
    room: Room,
) -> Result<Frames<'a>, String> {
    let damaged = |cause: gif::DecodingError| format!("damaged GIF file ({cause})");
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::RGBA);
    options.check_frame_consistency(true);
    let mut decoder = options.read_info(bytes).map_err(damaged)?;
    let (height, width) = (usize::from(decoder.height()), usize::from(decoder.width()));
    if height == 0 || width == 0 {
        return Err("a GIF file without pixels".to_owned());
    }
    check_size(height, width, 3, room)?;
    let mut canvas = Picture {
        height,
        width,
        channels: 3,
        pixels: vec![0; height * width * 3],
    };
    let mut frames = Frames::within(settings, room);
    let mut drawn = 0;
    while let Some(frame) = decoder.read_next_frame().map_err(damaged)? {
        // A few bytes may encode a picture of any size.
        drawn += canvas.pixels.len();
        room.check(drawn)?;
        let before = (frame.dispose == DisposalMethod::Previous).then(|| canvas.pixels.clone());
        let (top, left) = (usize::from(frame.top), usize::from(frame.left));
        let columns = usize::from(frame.width);
        let place = |index: usize| 3 * ((top + index / columns) * width + left + index % columns);
        for (index, pixel) in frame.buffer.chunks_exact(4).enumerate() {
            if pixel[3] != 0 {
                canvas.pixels[place(index)..][..3].copy_from_slice(&pixel[..3]);
            }
        }
        frames.push(&canvas)?;
        match (frame.dispose, before) {
            (DisposalMethod::Background, _) => {
                for index in 0..columns * usize::from(frame.height) {
                    canvas.pixels[place(index)..][..3].fill(0);
                }
            }
            (_, Some(before)) => canvas.pixels = before,
            _ => {}
        }
    }
    Ok(frames)
}

/// Runs ffmpeg, which writes the frames as pictures, one after the other, and reads them as they arrive.
fn ffmpeg_frames<'a>(
    path: &Path,
    settings: &'a FrameSettings,
    ffmpeg: &OsStr,
    room: Room,
) -> Result<Frames<'a>, Error> {
    // Without `file:` a name could be taken for an option or an address.
    let mut input = std::ffi::OsString::from("file:");
    input.push(path);
    let (format, codec) = if settings.colour {
        ("rgb24", "ppm")
    } else {
        ("gray", "pgm")
    };
    let started = Command::new(ffmpeg)
        .args(["-v", "error", "-nostdin", "-i"])
        .arg(input)
        .args([
            "-map",
            "0:v:0",
            "-f",
            "image2pipe",
            "-pix_fmt",
            format,
            "-c:v",
            codec,
            "-",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut process = started.map_err(|cause| Error::NoFfmpeg {
        file: path.display().to_string(),
        cause,
    })?;
    let output = process.stdout.take().expect("it is piped");
    let mut messages = process.stderr.take().expect("it is piped");
    let messages = thread::spawn(move || {
        let mut text = Vec::new();
        // If reading fails, the messages so far must do.
        let _ = messages.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut frames = Frames::within(settings, room);
    let read = read_pictures(&mut BufReader::new(output), &mut frames);
    if read.is_err() {
        // It may already have ended.
        let _ = process.kill();
    }
    let status = process.wait().map_err(|cause| refused(path, cause))?;
    let messages = messages.join().unwrap_or_default();
    read.map_err(|problem| unusable(path, problem))?;
    if !status.success() {
        let line = messages.lines().rfind(|line| !line.trim().is_empty());
        let line = line.unwrap_or("no reason given").trim();
        return Err(unusable(path, format!("ffmpeg cannot decode it ({line})")));
    }
    Ok(frames)
}

/// Reads binary PGM and PPM pictures until the end.
fn read_pictures(source: &mut impl BufRead, frames: &mut Frames) -> Result<(), String> {
    let failed = |cause: std::io::Error| format!("the output of ffmpeg broke off ({cause})");
    while !source.fill_buf().map_err(failed)?.is_empty() {
        let mut words = Vec::new();
        while words.len() < 4 {
            words.push(word(source).map_err(failed)?);
        }
        let size = |word: &String| word.parse().ok().filter(|size| (1..=16_384).contains(size));
        let channels = match words[0].as_str() {
            "P5" => 1,
            "P6" => 3,
            _ => 0,
        };
        let (width, height) = match (size(&words[1]), size(&words[2]), words[3].as_str()) {
            (Some(width), Some(height), "255") if channels > 0 => (width, height),
            _ => return Err("the output of ffmpeg is not a series of pictures".to_owned()),
        };
        let mut pixels = vec![0; height * width * channels];
        source.read_exact(&mut pixels).map_err(failed)?;
        frames.push(&Picture {
            height,
            width,
            channels,
            pixels,
        })?;
    }
    Ok(())
}

/// A word of a header and the single white space that ends it.
fn word(source: &mut impl BufRead) -> std::io::Result<String> {
    let mut word = String::new();
    let mut byte = [0];
    while word.len() < 16 {
        source.read_exact(&mut byte)?;
        if byte[0].is_ascii_whitespace() {
            break;
        }
        word.push(char::from(byte[0]));
    }
    Ok(word)
}

#[cfg(test)]
pub(super) mod tests {
    use std::borrow::Cow;
    use std::fs;

    use gif::{Encoder, Frame};

    use super::*;
    use crate::Limits;
    use crate::files::Files;
    use crate::recordings::corpus::Values;

    fn room() -> Room {
        Limits::default().room(0)
    }

    fn pixels(frames: Frames) -> Vec<u8> {
        let clip = frames.clip(String::new()).unwrap();
        match clip.values {
            Values::Pixels(pixels) => pixels,
            _ => panic!("no pixels"),
        }
    }

    const SETTINGS: FrameSettings = FrameSettings {
        side: 2,
        colour: false,
        fit: crate::Fit::CentreCrop,
    };

    fn frame(left: u16, size: u16, pixels: &[u8], dispose: DisposalMethod) -> Frame<'static> {
        Frame {
            left,
            width: size,
            height: size,
            dispose,
            transparent: Some(3),
            buffer: Cow::Owned(pixels.to_vec()),
            ..Frame::default()
        }
    }

    fn gif(frames: &[Frame]) -> Vec<u8> {
        let palette = [0, 0, 0, 100, 100, 100, 200, 200, 200, 9, 9, 9];
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 2, 2, &palette).unwrap();
        for frame in frames {
            encoder.write_frame(frame).unwrap();
        }
        drop(encoder);
        bytes
    }

    #[test]
    fn gif_frames_are_drawn_over_each_other() {
        let bytes = gif(&[
            frame(0, 2, &[1, 1, 1, 1], DisposalMethod::Keep),
            frame(1, 1, &[2], DisposalMethod::Previous),
            frame(0, 1, &[2], DisposalMethod::Background),
            frame(0, 2, &[3, 3, 3, 2], DisposalMethod::Keep),
        ]);
        let shown = pixels(gif_frames(&bytes, &SETTINGS, room()).unwrap());
        assert_eq!(shown[..4], [100, 100, 100, 100]);
        assert_eq!(shown[4..8], [100, 200, 100, 100]);
        assert_eq!(shown[8..12], [200, 100, 100, 100]);
        assert_eq!(shown[12..], [0, 100, 100, 200]);
    }

    #[test]
    fn damaged_gifs_are_refused() {
        let whole = gif(&[frame(0, 2, &[1; 4], DisposalMethod::Keep)]);
        for length in 0..whole.len() - 1 {
            let frames = gif_frames(&whole[..length], &SETTINGS, room());
            let clip = frames.and_then(|frames| frames.clip(String::new()));
            let error = clip.map(|_| length).unwrap_err();
            assert!(!error.contains('\n'), "{error}");
        }
        let outside = gif(&[frame(1, 2, &[1; 4], DisposalMethod::Keep)]);
        assert!(gif_frames(&outside, &SETTINGS, room()).is_err());
    }

    /// A few bytes that claim 65535 x 65535 pixels, or many frames without pixels.
    #[test]
    fn sizes_and_counts_are_looked_at_before_pixels_are_made() {
        let mut huge = gif(&[frame(0, 2, &[1; 4], DisposalMethod::Keep)]);
        huge[6..10].fill(0xff);
        let error = gif_frames(&huge, &SETTINGS, room())
            .map(|_| ())
            .unwrap_err();
        assert!(
            error.contains("65535 x 65535 pixels; each side must be from 1 to"),
            "{error}"
        );
        let mut wide = gif(&vec![frame(0, 1, &[1], DisposalMethod::Keep); 400]);
        wide[6..10].copy_from_slice(&[0, 8, 0, 8]);
        let error = gif_frames(&wide, &SETTINGS, room())
            .map(|_| ())
            .unwrap_err();
        assert!(error.contains("raise data.max_unpacked_bytes"), "{error}");
    }

    /// A program that replaces ffmpeg: it runs the given script.
    #[cfg(unix)]
    pub(crate) fn fake_ffmpeg(folder: &Path, commands: &str) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let program = folder.join("fake-ffmpeg");
        fs::write(&program, format!("#!/bin/sh\n{commands}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[cfg(unix)]
    #[test]
    fn what_ffmpeg_writes_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let video = folder.path().join("x.avi");
        fs::write(&video, "no video").unwrap();
        let read = |commands: &str| {
            let program = fake_ffmpeg(folder.path(), commands);
            let frames = ffmpeg_frames(&video, &SETTINGS, program.as_os_str(), room());
            frames.map(pixels).map_err(|error| error.to_string())
        };
        let two = r"printf 'P5\n2 2\n255\nabcdP5\n2 2\n255\nefgh'";
        assert_eq!(read(two).unwrap(), b"abcdefgh");
        let error = read("echo 'x.avi: Invalid data found' >&2; exit 1").unwrap_err();
        assert!(
            error.ends_with("x.avi: ffmpeg cannot decode it (x.avi: Invalid data found)"),
            "{error}"
        );
        let error = read(r"printf 'P5\n2 2\n255\nabcdP5\n2 2\n255\nef'").unwrap_err();
        assert!(error.contains("broke off"), "{error}");
        let error = read(r"printf 'P5\n2 2\n255\nabcdP5\n1 1\n255\ne'").unwrap_err();
        assert!(
            error.contains("a frame of 1 x 1 pixels in a clip that begins with 2 x 2"),
            "{error}"
        );
        let error = read("echo text text text text").unwrap_err();
        assert!(error.contains("not a series of pictures"), "{error}");
    }

    #[test]
    fn a_missing_ffmpeg_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let video = folder.path().join("x.mp4");
        let refused = || {
            let reader = Reader {
                settings: &SETTINGS,
                ffmpeg: OsStr::new("no-such-ffmpeg"),
                files: Files::new(Limits::default()),
            };
            reader.file_clip(&video).unwrap_err().to_string()
        };
        assert!(refused().starts_with("cannot read "), "{}", refused());
        fs::write(&video, "video").unwrap();
        assert!(
            refused().contains("x.mp4: ffmpeg is needed to read it"),
            "{}",
            refused()
        );
        assert!(
            refused().contains("install ffmpeg, or extract the frames"),
            "{}",
            refused()
        );
    }

    #[test]
    fn an_installed_ffmpeg_reads_real_videos() {
        let video = Path::new("../../../shared/data/video/sample_videos/bottle-detection.mp4");
        let installed = Command::new(super::super::FFMPEG)
            .arg("-version")
            .output()
            .is_ok();
        if !installed || !video.is_file() {
            println!("skipped: no ffmpeg, or no {}", video.display());
            return;
        }
        let settings = FrameSettings::default();
        let frames =
            ffmpeg_frames(video, &settings, OsStr::new(super::super::FFMPEG), room()).unwrap();
        let found = pixels(frames);
        // The array holds every third frame; another program made its crop, reduction and grey values.
        let arrays = video.with_file_name("clips_64x64_gray.npz");
        let arrays = crate::formats::npy::open_arrays(&arrays, &Files::new(Limits::default()));
        let (arrays, _) = arrays.unwrap();
        let array = arrays.into_iter().find(|(name, _)| name == "bottle");
        let Some(crate::formats::npy::Numbers::Bytes(wanted)) =
            array.map(|(_, array)| array.numbers)
        else {
            panic!("no array of bytes");
        };
        let thirds: Vec<&[u8]> = found.chunks_exact(64 * 64).step_by(3).collect();
        assert_eq!(thirds.len() * 64 * 64, wanted.len());
        let difference = |(left, right): (&u8, &u8)| f64::from(left.abs_diff(*right));
        let sum: f64 = thirds.concat().iter().zip(&wanted).map(difference).sum();
        assert!(
            sum / (wanted.len() as f64) < 2.0,
            "{}",
            sum / wanted.len() as f64
        );
    }
}
