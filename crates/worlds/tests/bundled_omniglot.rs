//! The bundled characters are as documented.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use mnemora_worlds::{DataSet, Limits, Omniglot, Origin, Split};
use tempfile::TempDir;
use zip::ZipArchive;

fn bundled() -> DataSet {
    Omniglot::bundled().expect("the bundled drawings are sound")
}

#[test]
fn counts_and_pixels_are_as_documented() {
    let characters = bundled();
    assert_eq!(characters.origin(), &Origin::Bundled);
    assert_eq!(
        (characters.name(), characters.classes()),
        ("omniglot", 1623)
    );
    for (split, classes) in [(Split::Train, 1473), (Split::Test, 150)] {
        let images = characters.split(split);
        assert_eq!(images.len(), 20 * classes);
        assert_eq!(images.pixels().len(), 20 * classes * 28 * 28);
        assert!(
            images
                .pixels()
                .iter()
                .all(|&pixel| pixel == 0 || pixel == 255)
        );
        assert!(images.labels().is_sorted());
        let ink = images
            .pixels()
            .iter()
            .filter(|&&pixel| pixel == 255)
            .count();
        let share = ink as f64 / images.pixels().len() as f64;
        assert!(
            (0.07..0.09).contains(&share),
            "{split}: share of ink is {share}"
        );
        for index in 0..images.len() {
            let image = images.image(index).expect("below the number of images");
            assert!(image.contains(&255), "{split}: image {index} is blank");
        }
    }
}

/// Results identify their drawings by this fingerprint, which covers the splits.
#[test]
fn fingerprint_is_pinned() {
    assert_eq!(
        bundled().fingerprint(),
        "f10e353f6781dd22aeb326fb8f6b3c6b8b4a48342262fb00c0a8c299923cf283"
    );
}

/// The one-shot classification runs published with Omniglot contain 800 of its drawings as PNG.
#[test]
fn published_png_images_are_found_in_the_bundle() {
    let path = Path::new("../../../shared/data/omniglot/all_runs.zip");
    if !path.is_file() {
        println!(
            "skipped: comparison with published images, no {}",
            path.display()
        );
        return;
    }
    let opened = BufReader::new(File::open(path).expect("the archive can be read"));
    let mut archive = ZipArchive::new(opened).expect("the archive is sound");
    let data = TempDir::new().expect("a temporary folder can be made");
    let mut copied = 0;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).expect("the archive is sound");
        if !entry.name().ends_with(".png") {
            continue;
        }
        let mut content = Vec::new();
        entry
            .read_to_end(&mut content)
            .expect("the archive is sound");
        // Ten images per character, ten characters per alphabet, four alphabets per part.
        let character = copied / 10;
        let part = ["images_background", "images_evaluation"][copied / 400];
        let folder = format!("{part}/{}/{character}", character / 10);
        let folder = data.path().join(folder);
        fs::create_dir_all(&folder).expect("the folder can be made");
        let name = format!("{:04}_{:02}.png", character + 1, copied % 10 + 1);
        fs::write(folder.join(name), content).expect("the folder can be written");
        copied += 1;
    }
    assert_eq!(copied, 800);

    let bundled = bundled();
    let known: HashSet<&[u8]> = [Split::Train, Split::Test]
        .map(|split| bundled.split(split))
        .into_iter()
        .flat_map(|images| (0..images.len()).filter_map(|index| images.image(index)))
        .collect();
    let published = Omniglot::open(data.path(), Limits::default()).expect("the images are sound");
    let mut compared = 0;
    for images in [Split::Train, Split::Test].map(|split| published.split(split)) {
        for index in 0..images.len() {
            let image = images.image(index).expect("below the number of images");
            assert!(known.contains(image));
            compared += 1;
        }
    }
    assert_eq!(compared, 800);
}
