//! The idx format: written files are read back, and every damaged file is refused.

use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use mnemora_worlds::idx::{
    Images, decode_images, decode_labels, encode_images, encode_labels, read_images, read_labels,
};
use mnemora_worlds::{Error, Limits};
use proptest::prelude::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("a vector takes all bytes");
    encoder.finish().expect("a vector takes all bytes")
}

fn two_images() -> Images {
    Images {
        count: 2,
        rows: 2,
        columns: 3,
        pixels: (0..12).map(|pixel| pixel * 20).collect(),
    }
}

fn two_images_idx() -> Vec<u8> {
    encode_images(&two_images()).expect("the shape fits")
}

fn images_error(bytes: &[u8]) -> Error {
    decode_images(bytes, "FILE").expect_err("bad input must be refused")
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        (count, rows, columns) in (0usize..5, 0usize..5, 0usize..5),
        seed: u8,
    ) {
        let pixels = (0..count * rows * columns)
            .map(|pixel| (pixel as u8).wrapping_mul(37).wrapping_add(seed))
            .collect();
        let images = Images { count, rows, columns, pixels };
        let plain = encode_images(&images).unwrap();
        prop_assert_eq!(&decode_images(&plain, "plain").unwrap(), &images);
        prop_assert_eq!(&decode_images(&gzip(&plain), "gzip").unwrap(), &images);
    }

    #[test]
    fn labels_survive(labels: Vec<u8>) {
        let plain = encode_labels(&labels).unwrap();
        prop_assert_eq!(&decode_labels(&plain, "plain").unwrap(), &labels);
        prop_assert_eq!(&decode_labels(&gzip(&plain), "gzip").unwrap(), &labels);
    }

    #[test]
    fn any_bytes_are_refused_or_read_without_panic(bytes: Vec<u8>, compress: bool) {
        let bytes = if compress { gzip(&bytes) } else { bytes };
        let _ = decode_images(&bytes, "FILE");
        let _ = decode_labels(&bytes, "FILE");
    }

    #[test]
    fn an_altered_or_cut_archive_never_panics(position in 0usize..40, value: u8) {
        let mut archive = gzip(&two_images_idx());
        let position = position % archive.len();
        images_error(&archive[..position]);
        archive[position] = value;
        let _ = decode_images(&archive, "FILE");
    }
}

#[test]
fn header_is_the_published_one() {
    assert_eq!(
        two_images_idx()[..16],
        [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3]
    );
    assert_eq!(encode_labels(&[7]).unwrap(), [0, 0, 8, 1, 0, 0, 0, 1, 7]);
}

#[test]
fn several_gzip_members_are_one_file() {
    let idx = two_images_idx();
    let (first, second) = idx.split_at(10);
    let archive = [gzip(first), gzip(second)].concat();
    assert_eq!(decode_images(&archive, "FILE").unwrap(), two_images());
}

#[test]
fn payload_must_have_the_claimed_length() {
    let idx = two_images_idx();
    let short = &idx[..idx.len() - 1];
    let long = [&idx[..], &[0]].concat();
    for bytes in [short.to_vec(), gzip(short)] {
        let error = images_error(&bytes);
        assert!(
            matches!(
                error,
                Error::ShortPayload {
                    claimed: 12,
                    found: 11,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(
            error.to_string(),
            "FILE: its header claims 2 x 2 x 3 = 12 bytes of data, but only 11 follow"
        );
    }
    for bytes in [long.clone(), gzip(&long), [gzip(&idx), gzip(&[0])].concat()] {
        assert!(matches!(
            images_error(&bytes),
            Error::LongPayload { claimed: 12, .. }
        ));
    }
}

#[test]
fn claims_beyond_the_limit_are_refused_before_memory_is_taken() {
    let mut idx = two_images_idx();
    for claim in [[0xff; 4], [0x40, 0, 0, 0]] {
        idx[4..8].copy_from_slice(&claim);
        idx[8..12].copy_from_slice(&claim);
        idx[12..16].copy_from_slice(&claim);
        assert!(matches!(images_error(&idx), Error::TooLarge { .. }));
    }
}

#[test]
fn damaged_archives_are_refused() {
    let archive = gzip(&two_images_idx());
    let last = archive.len() - 1;
    let mut wrong_checksum = archive.clone();
    wrong_checksum[last - 4] ^= 1;
    let cases: [Vec<u8>; 6] = [
        archive[..last].to_vec(),
        archive[..archive.len() / 2].to_vec(),
        archive[..2].to_vec(),
        wrong_checksum,
        [&archive[..], b"???"].concat(),
        [&archive[..], b"something that is no gzip member"].concat(),
    ];
    for bytes in cases {
        let error = images_error(&bytes);
        assert!(matches!(error, Error::DamagedGzip { .. }), "{error}");
        assert!(
            error.to_string().starts_with("FILE: damaged gzip data ("),
            "{error}"
        );
    }
}

#[test]
fn wrong_magic_says_what_the_file_may_be() {
    let images = two_images_idx();
    let labels = encode_labels(&[1, 2]).unwrap();
    assert!(
        images_error(&labels)
            .to_string()
            .contains("0x00000801 instead of 0x00000803 (it holds labels")
    );
    let error = decode_labels(&images, "FILE").unwrap_err().to_string();
    assert!(
        error.contains("0x00000803 instead of 0x00000801 (it holds images"),
        "{error}"
    );
    assert!(
        images_error(&gzip(&gzip(&images)))
            .to_string()
            .contains("compressed twice")
    );
    assert!(matches!(
        images_error(b"<html>not found</html>"),
        Error::WrongMagic { hint: "", .. }
    ));
}

#[test]
fn short_headers_are_refused() {
    for length in [0, 1, 3, 4, 15] {
        let error = images_error(&two_images_idx()[..length]);
        assert!(
            matches!(error, Error::ShortHeader { header: 16, .. }),
            "{error}"
        );
    }
    assert!(matches!(
        images_error(&gzip(&[])),
        Error::ShortHeader { length: 0, .. }
    ));
}

#[test]
fn shape_must_fit_the_pixels_written() {
    let images = Images {
        count: 3,
        ..two_images()
    };
    assert!(matches!(
        encode_images(&images),
        Err(Error::WrongShape { length: 12, .. })
    ));
    let images = Images {
        count: usize::MAX,
        ..two_images()
    };
    assert!(matches!(
        encode_images(&images),
        Err(Error::WrongShape { .. })
    ));
}

#[test]
fn unreadable_files_are_named() {
    let error = read_labels(Path::new("no-such-file"), Limits::default())
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("cannot read no-such-file: "), "{error}");
    assert!(matches!(
        read_images(&std::env::temp_dir(), Limits::default()),
        Err(Error::Read { .. })
    ));
}
