//! The bundled recordings are as documented.

use mnemora_worlds::{Mnist, Omniglot, Origin, Part, PianoRolls, Recording, Speech, Values, Video};

#[test]
fn the_data_readme_has_all_fingerprints() {
    let readme = include_str!("../data/README.md");
    for (set, fingerprint) in [
        ("digits", Mnist::bundled().unwrap().fingerprint().to_owned()),
        ("chorales", PianoRolls::bundled().unwrap().fingerprint()),
        ("utterances", Speech::bundled().unwrap().fingerprint()),
        ("clips", Video::bundled().unwrap().fingerprint()),
        (
            "characters",
            Omniglot::bundled().unwrap().fingerprint().to_owned(),
        ),
    ] {
        let row = format!("| {set} | `{fingerprint}` |");
        assert!(readme.contains(&row), "{row}");
    }
}

#[test]
fn chorales_have_notes_in_nearly_every_step() {
    let chorales = PianoRolls::bundled().expect("the bundled songs are sound");
    assert_eq!(chorales.origin(), &Origin::Bundled);
    assert_eq!(chorales.name(), "jsb-chorales");
    for part in Part::ALL {
        for song in chorales.recordings(part) {
            let Values::Notes(steps) = &song.values else {
                panic!("{}: no notes", song.name);
            };
            let silent = steps.iter().filter(|&&chord| chord == 0).count();
            assert!(
                10 * silent <= steps.len(),
                "{}: {silent} silent steps",
                song.name
            );
            assert!(steps.iter().all(|chord| chord.count_ones() <= 10));
        }
    }
}

#[test]
fn utterances_are_of_speakers_that_no_other_part_has() {
    let speech = Speech::bundled().expect("the bundled utterances are sound");
    assert_eq!(speech.origin(), &Origin::BundledSubset);
    let speakers = Part::ALL.map(|part| {
        let utterances = speech.recordings(part).iter();
        let speaker =
            |utterance: &Recording| utterance.name.split(['/', '-']).nth(1).map(str::to_owned);
        utterances.map(speaker).collect::<Vec<_>>()
    });
    let mut all = speakers.concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 13);
    for part in Part::ALL {
        assert_eq!(
            speech.at_least(part, Speech::CLIP).len(),
            speech.recordings(part).len()
        );
    }
}

#[test]
fn clips_move() {
    let clips = Video::bundled().expect("the bundled clips are sound");
    for part in Part::ALL {
        for clip in clips.recordings(part) {
            let Values::Pixels(pixels) = &clip.values else {
                panic!("{}: no pixels", clip.name);
            };
            let frames: Vec<&[u8]> = pixels.chunks_exact(64 * 64).collect();
            assert!((47..=73).contains(&frames.len()), "{}", clip.name);
            let still = frames.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert!(
                4 * still < frames.len(),
                "{}: {still} frames do not move",
                clip.name
            );
        }
    }
}
