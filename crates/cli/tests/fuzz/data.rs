//! Readers of a user's data, and small sound files of each format.

use crate::harness::{Reader, Seed, Target};
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use mnemora_worlds::{
    Error, FrameSettings, KthSplit, Limits, MidiSettings, Mnist, Omniglot, Own, PianoRolls, Roll,
    Sound, Speech, SpeechSet, Text, TextSettings, Video, Vocabulary, WordStyle, idx,
    scenes::{GqnData, OwnViews},
    tfrecord::record,
};
use std::{
    borrow::Cow,
    fs,
    io::{Cursor, Write},
    path::{Path, PathBuf},
};

/// So low that a reader that exceeds them reaches the memory limit of its process.
const LIMITS: Limits = Limits {
    bytes: 32 << 20,
    unpacked_bytes: 16 << 20,
};
const MEGABYTES: usize = 1024;

macro_rules! reader {
    ($prepare:ident) => {
        Reader {
            name: stringify!($prepare),
            megabytes: MEGABYTES,
            prepare: $prepare,
        }
    };
}

pub const READERS: [Reader; 26] = [
    reader!(idx_images),
    reader!(idx_labels),
    reader!(npy),
    reader!(npz),
    reader!(npz_clips),
    reader!(csv),
    reader!(index_csv),
    reader!(wav),
    reader!(sphere),
    reader!(timit),
    reader!(midi),
    reader!(mat),
    reader!(music_json),
    reader!(music_json_gz),
    reader!(gif),
    reader!(png_frames),
    reader!(jpeg_frames),
    reader!(kth_list),
    reader!(running_text),
    reader!(tokens_gz),
    reader!(vocabulary),
    reader!(omniglot_zip),
    reader!(omniglot_png),
    reader!(transforms),
    reader!(poses_csv),
    reader!(gqn_records),
];

fn target<T>(
    seeds: impl IntoIterator<Item = Seed>,
    file: PathBuf,
    read: impl Fn(&Path) -> Result<T, Error> + 'static,
) -> Target {
    fs::create_dir_all(file.parent().expect("a file lies in a folder")).expect("a folder is made");
    Target {
        seeds: seeds.into_iter().collect(),
        file,
        read: Box::new(move |path| {
            let read = read(path).map(|_| ());
            read.map_err(|error| error.to_string())
        }),
    }
}

fn plain(bytes: impl Into<Vec<u8>>) -> Seed {
    Seed::Plain(bytes.into())
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder is made");
    fs::write(path, bytes).expect("a file is written");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes all bytes");
    encoder.finish().expect("memory takes all bytes")
}

// Images and arrays.

fn digits(folder: &Path, count: usize) -> [(PathBuf, Vec<u8>); 2] {
    let images = idx::Images {
        count,
        rows: 28,
        columns: 28,
        pixels: (0..count * 784).map(|pixel| (pixel % 251) as u8).collect(),
    };
    let labels: Vec<u8> = (0..count).map(|label| (label % 10) as u8).collect();
    for part in ["train", "t10k"] {
        let name = |kind: &str| folder.join(format!("{part}-{kind}-ubyte"));
        write(
            &name("images-idx3"),
            &idx::encode_images(&images).expect("they fit"),
        );
        write(
            &name("labels-idx1"),
            &idx::encode_labels(&labels).expect("they fit"),
        );
    }
    ["train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"].map(|name| {
        let path = folder.join(name);
        let bytes = fs::read(&path).expect("it was written");
        (path, bytes)
    })
}

fn idx_images(folder: &Path) -> Target {
    let [(path, bytes), _] = digits(folder, 3);
    let seeds = [plain(bytes.clone()), Seed::Within(bytes, gzip)];
    let folder = folder.to_owned();
    target(seeds, path, move |_| Mnist::open(&folder, LIMITS))
}

fn idx_labels(folder: &Path) -> Target {
    let [_, (path, bytes)] = digits(folder, 3);
    let seeds = [plain(bytes.clone()), Seed::Within(bytes, gzip)];
    let folder = folder.to_owned();
    target(seeds, path, move |_| Mnist::open(&folder, LIMITS))
}

/// A `.npy` file, as written by NumPy.
pub fn array(descr: &str, by_columns: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if by_columns { "True" } else { "False" };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), data].concat()
}

fn floats(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|value| (value as f32 / 8.0).to_le_bytes())
        .collect()
}

fn arrays() -> Vec<Vec<u8>> {
    vec![
        array("<f4", false, "4, 3, 2", &floats(24)),
        array(">f8", true, "4, 3", &[0; 96]),
        array("<f2", false, "4, 3", &[0; 24]),
        array("|b1", false, "4, 5", &[1; 20]),
        array("|u1", false, "2, 3, 4, 4", &[9; 96]),
    ]
}

fn npy(folder: &Path) -> Target {
    let seeds = arrays().into_iter().map(Seed::Plain);
    target(seeds, folder.join("x.npy"), |path| {
        Own::open(path, FrameSettings::default(), LIMITS)
    })
}

/// An archive with these files.
fn zip_of(files: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in files {
        archive
            .start_file(*name, options)
            .expect("memory takes all bytes");
        archive.write_all(bytes).expect("memory takes all bytes");
    }
    archive
        .finish()
        .expect("memory takes all bytes")
        .into_inner()
}

fn stored(bytes: &[u8]) -> Vec<u8> {
    zip_of(&[("x.npy", bytes)], zip::CompressionMethod::Stored)
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let files: [(&str, &[u8]); 2] = [("train.npy", bytes), ("test.npy", bytes)];
    zip_of(&files, zip::CompressionMethod::Deflated)
}

fn npz(folder: &Path) -> Target {
    let seeds = arrays().into_iter().flat_map(|bytes| {
        [
            plain(deflated(&bytes)),
            Seed::Within(bytes.clone(), stored),
            Seed::Within(bytes, deflated),
        ]
    });
    target(seeds, folder.join("x.npz"), |path| {
        Own::open(path, FrameSettings::default(), LIMITS)
    })
}

const SMALL_FRAMES: FrameSettings = FrameSettings {
    side: 8,
    colour: false,
    fit: mnemora_worlds::Fit::CentreCrop,
};

fn npz_clips(folder: &Path) -> Target {
    let clips = [
        array("|u1", false, "3, 4, 6", &[7; 72]),
        array("|u1", false, "2, 4, 4, 3", &[7; 96]),
    ];
    let seeds = clips.into_iter().map(|bytes| Seed::Within(bytes, stored));
    target(seeds, folder.join("x.npz"), |path| {
        Video::open(path, SMALL_FRAMES, LIMITS)
    })
}

fn csv(folder: &Path) -> Target {
    let seeds = [
        "sequence,t,x,y,split\na,0,1,2,train\nb,0,5,6,test\na,1,3,4,train\n",
        "\u{feff}id, x\r\n\"1\",0.5\r\n\"2\",-1e3\r\n\"3, \"\"4\"\"\n\",7\r\n\r\n",
    ];
    target(seeds.map(plain), folder.join("x.csv"), |path| {
        Own::open(path, FrameSettings::default(), LIMITS)
    })
}

/// The table that divides a folder into parts.
fn index_csv(folder: &Path) -> Target {
    for name in ["a.wav", "b/c.wav", "d.wav"] {
        write(&folder.join(name), &Sound::wav_bytes(16_000, &[100; 400]));
    }
    let seeds = [
        "file,split\na.wav,train\nb/c.wav,test\n",
        "clip,x,split\nd.wav,,valid\n",
    ];
    let recordings = folder.to_owned();
    target(seeds.map(plain), folder.join("index.csv"), move |_| {
        Speech::open(&recordings, LIMITS)
    })
}

// Sound.

/// A WAV file with this format tag, number of channels, rate, bits and data.
fn wav_of(format: u16, channels: u16, rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
    let block = channels * bits / 8;
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + data.len() as u32).to_le_bytes());
    bytes.extend(b"WAVEfmt \x10\0\0\0");
    bytes.extend(format.to_le_bytes());
    bytes.extend(channels.to_le_bytes());
    bytes.extend(rate.to_le_bytes());
    bytes.extend((rate * u32::from(block)).to_le_bytes());
    bytes.extend(block.to_le_bytes());
    bytes.extend(bits.to_le_bytes());
    bytes.extend(b"data");
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

fn wav(folder: &Path) -> Target {
    let seeds = [
        Sound::wav_bytes(16_000, &[1000; 300]),
        wav_of(1, 2, 8000, 8, &[128; 400]),
        wav_of(1, 1, 44_100, 24, &[1; 3000]),
        wav_of(3, 1, 22_050, 32, &floats(400)),
        // A rate for which no two samples need the same weights.
        wav_of(1, 1, 44_101, 8, &[128; 600]),
    ];
    target(seeds.map(plain), folder.join("x.wav"), |path| {
        Speech::open(path, LIMITS)
    })
}

fn sphere_of(lines: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("NIST_1A\n   1024\n{lines}end_head\n").into_bytes();
    bytes.resize(1024, b' ');
    bytes.extend(data);
    bytes
}

fn spheres() -> [Vec<u8>; 3] {
    [
        sphere_of(
            "database_id -s5 TIMIT\nchannel_count -i 1\nsample_count -i 300\nsample_rate -i 16000\n\
             sample_n_bytes -i 2\nsample_byte_format -s2 01\nsample_sig_bits -i 16\n",
            &[3; 600],
        ),
        sphere_of(
            "channel_count -i 2\nsample_count -i 250\nsample_rate -i 8000\nsample_n_bytes -i 2\n\
             sample_byte_format -s2 10\nsample_coding -s3 pcm\n",
            &[3; 1000],
        ),
        sphere_of(
            "sample_count -i 400\nsample_rate -i 8000\nsample_n_bytes -i 1\nsample_coding -s4 ulaw\n",
            &[0xd3; 400],
        ),
    ]
}

fn sphere(folder: &Path) -> Target {
    target(spheres().map(plain), folder.join("x.sph"), |path| {
        Speech::open(path, LIMITS)
    })
}

/// One of the recordings in the layout of the disc.
fn timit(folder: &Path) -> Target {
    let [sound, ..] = spheres();
    for part in ["TRAIN", "TEST"] {
        for sentence in ["SA1", "SX108"] {
            write(
                &folder.join(format!("{part}/DR1/FABC0/{sentence}.WAV")),
                &sound,
            );
        }
    }
    let disc = folder.to_owned();
    let file = folder.join("TEST/DR1/FABC0/SA1.WAV");
    target(spheres().map(plain), file, move |_| {
        Speech::open_set(SpeechSet::Timit, &disc, LIMITS)
    })
}

// Music.

fn midi(folder: &Path) -> Target {
    let song: Vec<Vec<i64>> = (0..40).map(|step| vec![60 + step % 5, 67]).collect();
    let roll = Roll::from_midi_notes(&song).expect("the notes are those of a piano");
    // Two tracks: a tempo; and a note, one of percussion, and one that never ends.
    let tempo = b"MTrk\0\0\0\x0b\0\xff\x51\x03\x07\xa1\x20\0\xff\x2f\0";
    let notes =
        b"MTrk\0\0\0\x14\0\x90\x3c\x40\x60\x3c\0\0\x99\x23\x40\0\x91\x40\x40\x83\x60\xff\x2f\0";
    let two = [b"MThd\0\0\0\x06\0\x01\0\x02\0\x60", &tempo[..], notes].concat();
    let seeds = [
        roll.to_midi(MidiSettings::default())
            .expect("settings are in range"),
        two,
    ];
    target(seeds.map(plain), folder.join("x.mid"), |path| {
        PianoRolls::open(path, MidiSettings::default(), LIMITS)
    })
}

fn element(kind: u32, content: &[u8]) -> Vec<u8> {
    const COMPRESSED: u32 = 15;
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes.extend(content);
    if kind != COMPRESSED {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// A MATLAB array: its class, name and dimensions, and the elements that follow.
fn matrix(class: u8, name: &str, dimensions: [u32; 2], content: &[Vec<u8>]) -> Vec<u8> {
    let flags = [class, 0, 0, 0, 0, 0, 0, 0];
    let dimensions = dimensions.map(u32::to_le_bytes).concat();
    let mut inner = [
        element(6, &flags),
        element(5, &dimensions),
        element(1, name.as_bytes()),
    ]
    .concat();
    inner.extend(content.concat());
    element(14, &inner)
}

fn mat_of(variables: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b' '; 124];
    bytes.extend([0, 1, b'I', b'M']);
    bytes.extend(variables);
    bytes
}

fn mat_packed(variable: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(variable).expect("memory takes all bytes");
    mat_of(&element(
        15,
        &encoder.finish().expect("memory takes all bytes"),
    ))
}

fn mat(folder: &Path) -> Target {
    let bytes: Vec<u8> = (0..3 * 88).map(|place| u8::from(place % 7 == 0)).collect();
    let doubles: Vec<u8> = (0..2 * 88)
        .flat_map(|place| f64::from(place % 2).to_le_bytes())
        .collect();
    let songs = [
        matrix(9, "", [3, 88], &[element(2, &bytes)]),
        matrix(6, "", [2, 88], &[element(9, &doubles)]),
    ];
    let variable = matrix(1, "traindata", [1, 2], &songs);
    let seeds = [plain(mat_of(&variable)), Seed::Within(variable, mat_packed)];
    target(seeds, folder.join("x.mat"), |path| {
        PianoRolls::open(path, MidiSettings::default(), LIMITS)
    })
}

const SONGS: [&str; 2] = [
    r#"{"train": [[[60, 64], [], [67.0]], [[21]]], "valid": [[[108]]], "test": []}"#,
    r#"{"name": {"a": [1, "x", null]}, "test": [[[30, 30]]], "train": [], "valid": [[[], [40]]]}"#,
];

fn music_json(folder: &Path) -> Target {
    target(SONGS.map(plain), folder.join("x.json"), |path| {
        PianoRolls::open(path, MidiSettings::default(), LIMITS)
    })
}

fn music_json_gz(folder: &Path) -> Target {
    let seeds = SONGS.map(|text| Seed::Within(text.into(), gzip));
    target(seeds, folder.join("x.json.gz"), |path| {
        PianoRolls::open(path, MidiSettings::default(), LIMITS)
    })
}

// Pictures.

fn gif(folder: &Path) -> Target {
    let frame = |left: u16, size: u16, pixels: &[u8], dispose| gif::Frame {
        left,
        width: size,
        height: size,
        dispose,
        transparent: Some(3),
        buffer: Cow::Owned(pixels.to_vec()),
        ..gif::Frame::default()
    };
    use gif::DisposalMethod::{Background, Keep, Previous};
    let mut bytes = Vec::new();
    let palette = [0, 0, 0, 100, 100, 100, 200, 200, 200, 9, 9, 9];
    let mut encoder =
        gif::Encoder::new(&mut bytes, 2, 2, &palette).expect("memory takes all bytes");
    for frame in [
        frame(0, 2, &[1; 4], Keep),
        frame(1, 1, &[2], Previous),
        frame(0, 1, &[2], Background),
        frame(0, 2, &[3, 3, 3, 2], Keep),
    ] {
        encoder.write_frame(&frame).expect("memory takes all bytes");
    }
    drop(encoder);
    target([plain(bytes)], folder.join("x.gif"), |path| {
        Video::open(path, SMALL_FRAMES, LIMITS)
    })
}

fn png_of(side: u32, colour: png::ColorType, depth: png::BitDepth, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side, side);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if colour == png::ColorType::Indexed {
        encoder.set_palette(vec![0, 0, 0, 255, 255, 255, 9, 9, 9, 70, 70, 70]);
    }
    let mut writer = encoder.write_header().expect("memory takes all bytes");
    writer
        .write_image_data(data)
        .expect("memory takes all bytes");
    writer.finish().expect("memory takes all bytes");
    bytes
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The same chunks with matching checksums.
fn png_mended(bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    let mut at = 8;
    while let Some(header) = mended.get(at..at + 8) {
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(end) = (at + 8)
            .checked_add(length)
            .filter(|end| end + 4 <= mended.len())
        else {
            break;
        };
        let sum = crc(&mended[at + 4..end]);
        mended[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        at = end + 4;
    }
    mended
}

fn pngs() -> Vec<Vec<u8>> {
    use png::{BitDepth, ColorType};
    vec![
        png_of(8, ColorType::Grayscale, BitDepth::Eight, &[9; 64]),
        png_of(4, ColorType::Rgba, BitDepth::Sixteen, &[9; 128]),
        png_of(8, ColorType::Indexed, BitDepth::Two, &[0x1b; 16]),
    ]
}

fn frames(folder: &Path, file: &str, seeds: Vec<Seed>) -> Target {
    let clips = folder.to_owned();
    target(seeds, folder.join("clip").join(file), move |_| {
        Video::open(&clips, SMALL_FRAMES, LIMITS)
    })
}

fn png_frames(folder: &Path) -> Target {
    let seeds = pngs().into_iter();
    let seeds = seeds.flat_map(|bytes| [plain(bytes.clone()), Seed::Within(bytes, png_mended)]);
    frames(folder, "1.png", seeds.collect())
}

/// 16 x 16 grey pixels in two scans: first the means of blocks, then the rest, which is empty.
fn progressive_jpeg() -> Vec<u8> {
    let table = |kind: u8, symbol: u8| {
        let mut table = vec![0xff, 0xc4, 0, 20, kind, 1];
        table.extend([0; 15]);
        table.push(symbol);
        table
    };
    let scan = |from: u8, to: u8| vec![0xff, 0xda, 0, 8, 1, 1, 0, from, to, 0, 0x0f];
    let mut bytes = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    bytes.extend([16; 64]);
    bytes.extend([0xff, 0xc2, 0, 11, 8, 0, 16, 0, 16, 1, 1, 0x11, 0]);
    bytes.extend(table(0x00, 0));
    bytes.extend(table(0x10, 0));
    bytes.extend(scan(0, 0));
    bytes.extend(scan(1, 63));
    bytes.extend([0xff, 0xd9]);
    bytes
}

fn jpeg_frames(folder: &Path) -> Target {
    let baseline = include_bytes!("seeds/grey_8x8.jpg").to_vec();
    frames(
        folder,
        "1.jpg",
        vec![plain(baseline), plain(progressive_jpeg())],
    )
}

fn kth_list(folder: &Path) -> Target {
    let picture = png_of(8, png::ColorType::Grayscale, png::BitDepth::Eight, &[9; 64]);
    for video in ["person11_boxing_d1", "person22_boxing_d1_uncomp"] {
        for frame in 1..=4 {
            write(&folder.join(format!("{video}/{frame}.png")), &picture);
        }
    }
    let seeds = [
        "This file ...\r\n\r\nperson11_boxing_d1\t\tframes\t1-2, 2-4\r\nperson22_boxing_d1 frames 1 - 9,\n",
        "person11_boxing_d1 frames 3-3\nperson13_handclapping_d3 *missing*\nperson22_boxing_d1 frames 1-1",
    ];
    let videos = folder.to_owned();
    target(
        seeds.map(plain),
        folder.join("00sequences.txt"),
        move |_| Video::kth(&videos, KthSplit::Standard, 8, LIMITS),
    )
}

// Texts.

const TEXTS: [&str; 2] = [
    " \n = A @-@ title , = \n\nthe words of a line \nthe words of a line \nthe words of a line \n",
    "\u{feff}Don't \"go\"--said\r\nthe _old_ man's 3,000.5 dogs' . . .\r\n\r\n\r\n*** START OF\nÀ propos: l’été, the old man the old man the\n",
];

fn text_settings() -> TextSettings {
    TextSettings {
        least_count: 1,
        ..TextSettings::default()
    }
}

fn running_text(folder: &Path) -> Target {
    target(TEXTS.map(plain), folder.join("x.txt"), |path| {
        Text::open(path, WordStyle::Running, &text_settings(), LIMITS)
    })
}

fn tokens_gz(folder: &Path) -> Target {
    let seeds = TEXTS.map(|text| Seed::Within(text.into(), gzip));
    target(seeds, folder.join("x.tokens.gz"), |path| {
        Text::open(path, WordStyle::Spaced, &text_settings(), LIMITS)
    })
}

fn vocabulary(folder: &Path) -> Target {
    let seeds = [
        "<unk>\t7\n<eos>\t3\nword\t2\n",
        "the\t900\n<unk>\t0\n<eos>\t1\n",
    ];
    target(seeds.map(plain), folder.join("vocabulary.tsv"), |path| {
        Vocabulary::load(path)
    })
}

// Drawings.

fn drawing() -> Vec<u8> {
    let pixels: Vec<u8> = (0..105 * 14).map(|byte| (byte % 256) as u8).collect();
    png_of(105, png::ColorType::Grayscale, png::BitDepth::One, &pixels)
}

/// Drawings of both parts, extracted.
fn drawings(folder: &Path) {
    for (part, first) in [("images_background", 1), ("images_evaluation", 5)] {
        for number in first..first + 4 {
            let name = format!("{part}/Alphabet/character{number}/{number:04}_01.png");
            write(&folder.join(name), &drawing());
        }
    }
}

fn omniglot_png(folder: &Path) -> Target {
    drawings(folder);
    let file = folder.join("images_background/Alphabet/character1/0001_01.png");
    let set = folder.to_owned();
    let seeds = [plain(drawing()), Seed::Within(drawing(), png_mended)];
    target(seeds, file, move |_| Omniglot::open(&set, LIMITS))
}

/// A part with four characters, one of which has this drawing.
fn omniglot_archive(drawing_bytes: &[u8]) -> Vec<u8> {
    let other = drawing();
    let name =
        |number: usize| format!("images_background/Alphabet/character{number}/{number:04}_01.png");
    let names: Vec<String> = (1..=4).map(name).collect();
    let mut files: Vec<(&str, &[u8])> = names
        .iter()
        .map(|name| (name.as_str(), &other[..]))
        .collect();
    files[0].1 = drawing_bytes;
    zip_of(&files, zip::CompressionMethod::Deflated)
}

fn omniglot_zip(folder: &Path) -> Target {
    drawings(folder);
    fs::remove_dir_all(folder.join("images_background")).expect("it was made");
    let seeds = [
        plain(omniglot_archive(&drawing())),
        Seed::Within(drawing(), omniglot_archive),
    ];
    let set = folder.to_owned();
    target(seeds, folder.join("images_background.zip"), move |_| {
        Omniglot::open(&set, LIMITS)
    })
}

// Views of scenes.

/// A folder with four pictures.
fn posed(folder: &Path) {
    let picture = png_of(8, png::ColorType::Grayscale, png::BitDepth::Eight, &[9; 64]);
    for view in 0..4 {
        write(&folder.join(format!("{view}.png")), &picture);
    }
}

fn transforms(folder: &Path) -> Target {
    posed(folder);
    let frame = |view: usize, end: &str| {
        format!(
            r#"{{"file_path": "./{view}{end}", "rotation": 0.1, "transform_matrix": [[0, 0, 1, {view}.5], [1, 0, 0, -2], [0, 1, 0, 3e-1], [0, 0, 0, 1]]}}"#
        )
    };
    let frames = |end: &str| {
        (0..4)
            .map(|view| frame(view, end))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let seeds = [
        format!(r#"{{"camera_angle_x": 0.69, "frames": [{}]}}"#, frames("")),
        format!("{{\"w\": 8, \"frames\": [{}]\n}}", frames(".png")),
    ];
    let scene = folder.to_owned();
    target(
        seeds.map(plain),
        folder.join("transforms.json"),
        move |_| OwnViews::open(&scene, 8, LIMITS),
    )
}

fn poses_csv(folder: &Path) -> Target {
    posed(folder);
    let seeds = [
        "file,x,y\n0.png,1,2\n1.png,3,-4e1\n2.png,0.5,0\n3.png,1,1\n",
        "\u{feff}yaw, file\r\n0.1,\"0\"\r\n0.2,1\r\n0.3,2\r\n",
    ];
    let scene = folder.to_owned();
    target(seeds.map(plain), folder.join("poses.csv"), move |_| {
        OwnViews::open(&scene, 8, LIMITS)
    })
}

/// A field of Protocol Buffers with a length, which is below 2^14.
fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut bytes = vec![tag << 3 | 2];
    match length {
        0..128 => bytes.push(length as u8),
        _ => bytes.extend([(length % 128) as u8 | 128, (length / 128) as u8]),
    }
    bytes.extend(content);
    bytes
}

/// A scene of a data set of the GQN: `tf.train.Example`.
fn example(pictures: &[&[u8]]) -> Vec<u8> {
    let feature = |name: &str, list: u8, content: &[u8]| {
        let entry = [field(1, name.as_bytes()), field(2, &field(list, content))].concat();
        field(1, &entry)
    };
    let frames: Vec<u8> = pictures
        .iter()
        .flat_map(|picture| field(1, picture))
        .collect();
    let cameras = field(1, &floats(5 * pictures.len()));
    field(
        1,
        &[
            feature("cameras", 2, &cameras),
            feature("frames", 1, &frames),
        ]
        .concat(),
    )
}

fn gqn_records(folder: &Path) -> Target {
    let jpeg = include_bytes!("seeds/grey_8x8.jpg");
    let scene = example(&[jpeg, jpeg, jpeg]);
    write(&folder.join("test/1-of-1.tfrecord"), &record(&scene));
    let seeds = [
        plain([record(&scene), record(&scene)].concat()),
        Seed::Within(scene, record),
    ];
    let set = folder.to_owned();
    target(seeds, folder.join("train/1-of-1.tfrecord"), move |_| {
        GqnData::open(&set, 8, LIMITS)
    })
}
