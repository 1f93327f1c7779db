//! The KTH actions (Schuldt, Laptev, Caputo 2004): 25 people, 6 actions, 4 settings.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::{Clips, Reader, corpus};
use crate::error::unusable;
use crate::files::Files;
use crate::formats::picture::{Fit, FrameSettings};
use crate::images::check_folder;
use crate::recordings::corpus::{Corpus, Part, Parts, Recording, Values};
use crate::{Error, Limits, Origin};

/// The assignment of people to parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum KthSplit {
    /// As in the data set and in AVF: people 11 to 18 for training; 1, 4, 19 to 21 and 23 to 25 for
    /// validation; 2, 3, 5 to 10 and 22 for the test.
    #[default]
    Standard,
    /// As in SVG: people 1 to 20 for training, 21 to 25 for the test.
    Svg,
}

impl KthSplit {
    fn part(self, person: u32) -> Option<Part> {
        match (self, person) {
            (KthSplit::Standard, 11..=18) => Some(Part::Train),
            (KthSplit::Standard, 1 | 4 | 19..=21 | 23..=25) => Some(Part::Valid),
            (KthSplit::Standard, 2 | 3 | 5..=10 | 22) => Some(Part::Test),
            (KthSplit::Svg, 1..=20) => Some(Part::Train),
            (KthSplit::Svg, 21..=25) => Some(Part::Test),
            _ => None,
        }
    }
}

/// Name of the list of sub-sequences.
const LIST: &str = "00sequences.txt";

/// First and last frame of each sub-sequence, from 1, by the name of the video.
type Ranges = HashMap<String, Vec<RangeInclusive<usize>>>;

pub(super) fn open(
    directory: &Path,
    split: KthSplit,
    side: usize,
    limits: Limits,
    ffmpeg: &OsStr,
) -> Result<Corpus, Error> {
    let settings = FrameSettings {
        side,
        colour: false,
        fit: Fit::Stretch,
    };
    settings.check()?;
    let wanted = || format!("the KTH videos person01_boxing_d1_uncomp.avi, ... and {LIST}");
    check_folder(directory, wanted)?;
    let reader = Reader {
        settings: &settings,
        ffmpeg,
        files: Files::new(limits),
    };
    let videos: Vec<(String, PathBuf)> = reader
        .sources(directory)?
        .into_iter()
        .filter_map(|source| Some((video_name(&source)?, source)))
        .collect();
    if videos.is_empty() {
        let problem = format!("holds no KTH videos; it should hold {}", wanted());
        return Err(unusable(directory, problem));
    }
    let mut texts = reader.files.list(directory, &["txt"])?.into_iter();
    let list = texts.find(|path| path.file_name() == Some(OsStr::new(LIST)));
    let list = list.ok_or_else(|| {
        let problem = format!("no {LIST}; fetch it from where the videos came from, it says where each action begins and ends");
        unusable(directory, problem)
    })?;
    let text = String::from_utf8_lossy(&reader.files.read(&list)?).into_owned();
    let ranges = read_list(&text).map_err(|problem| unusable(&list, problem))?;

    let mut parts: Clips = Parts::default();
    let mut cut = 0;
    for (name, source) in videos {
        let part = person(&name).and_then(|person| split.part(person));
        let part = part.ok_or_else(|| unusable(&source, "KTH has only persons 01 to 25"))?;
        let ranges = ranges.get(&name).ok_or_else(|| {
            unusable(
                &list,
                format!("has no line for {name}, which is {}", source.display()),
            )
        })?;
        let Values::Pixels(pixels) = reader.clip(&source)?.values else {
            continue;
        };
        let frames: Vec<&[u8]> = pixels.chunks_exact(side * side).collect();
        for range in ranges {
            let last = (*range.end()).min(frames.len());
            cut += usize::from(last < *range.end());
            if *range.start() > last {
                continue;
            }
            parts.get_mut(part).push(Recording {
                name: format!("{name} {}-{last}", range.start()),
                values: Values::Pixels(frames[range.start() - 1..last].concat()),
            });
        }
    }
    let mut kth = corpus(
        "kth",
        parts,
        &settings,
        Origin::Folder(directory.to_owned()),
        reader.files.notes(),
    );
    if cut > 0 {
        kth.note(format!(
            "{cut} sub-sequences of {LIST} end after the last frame of their video and were cut there"
        ));
    }
    Ok(kth)
}

/// `person01_boxing_d1`, for a video file or folder of that name, with or without `_uncomp`.
fn video_name(path: &Path) -> Option<String> {
    let name = if path.is_dir() {
        path.file_name()
    } else {
        path.file_stem()
    };
    let name = name?.to_string_lossy().to_lowercase();
    let name = name.strip_suffix("_uncomp").unwrap_or(&name).to_owned();
    person(&name).map(|_| name)
}

fn person(name: &str) -> Option<u32> {
    let (person, _) = name.strip_prefix("person")?.split_once('_')?;
    person.parse().ok()
}

/// Reads lines such as `person01_boxing_d1  frames  1-95, 96-185`; all others are ignored.
fn read_list(text: &str) -> Result<Ranges, String> {
    let mut ranges = Ranges::new();
    for (line, text) in text.lines().enumerate() {
        let text = text.trim().to_lowercase();
        let Some((name, rest)) = text.split_once(char::is_whitespace) else {
            continue;
        };
        let Some(rest) = rest.trim_start().strip_prefix("frames") else {
            continue;
        };
        if person(name).is_none() {
            continue;
        }
        let wrong = |range: &str| format!("line {}: {range:?} is not a range of frames", line + 1);
        let mut found = Vec::new();
        for range in rest
            .split(',')
            .map(str::trim)
            .filter(|range| !range.is_empty())
        {
            let (first, last) = range.split_once('-').ok_or_else(|| wrong(range))?;
            match (first.trim().parse(), last.trim().parse()) {
                (Ok(first), Ok(last)) if 1 <= first && first <= last => found.push(first..=last),
                _ => return Err(wrong(range)),
            }
        }
        ranges.insert(name.to_owned(), found);
    }
    if ranges.is_empty() {
        return Err("holds no lines such as `person01_boxing_d1 frames 1-95, 96-185`".to_owned());
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::formats::picture::tests::{encode_png, uniform};

    #[test]
    fn people_are_in_one_part() {
        for split in [KthSplit::Standard, KthSplit::Svg] {
            assert!((1..=25).all(|person| split.part(person).is_some()));
            assert_eq!((split.part(0), split.part(26)), (None, None));
        }
        let count = |split: KthSplit, part| {
            let people = (1..=25).filter(|&person| split.part(person) == Some(part));
            people.count()
        };
        assert_eq!(
            Part::ALL.map(|part| count(KthSplit::Standard, part)),
            [8, 8, 9]
        );
        assert_eq!(Part::ALL.map(|part| count(KthSplit::Svg, part)), [20, 0, 5]);
    }

    #[test]
    fn lists_are_read_as_they_are_published() {
        let text = "This file ...\r\n\r\nperson01_boxing_d1\t\tframes\t1-95, 96-185\r\nperson13_handclapping_d3\t*missing*\r\n person25_walking_d4 frames 3 - 9,\n";
        let ranges = read_list(text).unwrap();
        assert_eq!(ranges.len(), 2);
        assert_eq!(ranges["person01_boxing_d1"], [1..=95, 96..=185]);
        assert_eq!(ranges["person25_walking_d4"], [3..=9]);
        for wrong in ["0-5", "9-3", "7", "a-b"] {
            let error = read_list(&format!("\nperson01_boxing_d1 frames {wrong}")).unwrap_err();
            assert_eq!(error, format!("line 2: {wrong:?} is not a range of frames"));
        }
        assert!(read_list("text").is_err());
    }

    /// Folders of pictures instead of videos, since ffmpeg may be missing.
    #[test]
    fn sub_sequences_are_clips_of_their_person() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let video = folder.path().join(name);
            fs::create_dir_all(&video).unwrap();
            for frame in 1..=6 {
                let picture = encode_png(&uniform(12, 16, frame * 10));
                fs::write(video.join(format!("{frame}.png")), picture).unwrap();
            }
        };
        let open = |split| {
            super::open(
                folder.path(),
                split,
                8,
                Limits::default(),
                OsStr::new("no-ffmpeg"),
            )
        };
        let refused = || open(KthSplit::Standard).unwrap_err().to_string();
        assert!(refused().contains("holds no KTH videos"), "{}", refused());
        write("boxing/person11_boxing_d1_uncomp");
        write("boxing/person22_boxing_d1_uncomp");
        write("walking/person25_walking_d4");
        assert!(
            refused().contains("no 00sequences.txt; fetch it"),
            "{}",
            refused()
        );
        let list = folder.path().join(LIST);
        fs::write(
            &list,
            "person11_boxing_d1 frames 1-2, 3-9, 8-9\nperson22_boxing_d1 frames 2-6\n",
        )
        .unwrap();
        assert!(
            refused().contains("has no line for person25_walking_d4"),
            "{}",
            refused()
        );
        fs::write(&list, "person11_boxing_d1 frames 1-2, 3-9, 8-9\nperson22_boxing_d1 frames 2-6\nperson25_walking_d4 frames 1-6").unwrap();
        let kth = open(KthSplit::Standard).unwrap();
        let names = |part| -> Vec<String> {
            kth.recordings(part)
                .iter()
                .map(|clip| clip.name.clone())
                .collect()
        };
        assert_eq!(
            names(Part::Train),
            ["person11_boxing_d1 1-2", "person11_boxing_d1 3-6"]
        );
        assert_eq!(names(Part::Valid), ["person25_walking_d4 1-6"]);
        assert_eq!(names(Part::Test), ["person22_boxing_d1 2-6"]);
        assert_eq!(kth.notes().len(), 1);
        let Values::Pixels(pixels) = &kth.recordings(Part::Test)[0].values else {
            panic!("no pixels");
        };
        assert_eq!(
            (pixels.len(), pixels[0], pixels[5 * 64 - 1]),
            (5 * 64, 20, 60)
        );
        assert_eq!(
            open(KthSplit::Svg).unwrap().recordings(Part::Valid).len(),
            0
        );
        write("walking/person26_walking_d4");
        assert!(refused().contains("persons 01 to 25"), "{}", refused());
    }
}
