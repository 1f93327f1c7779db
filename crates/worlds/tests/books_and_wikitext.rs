//! The bundled books are as documented, and so is WikiText if it is available.

use std::env;
use std::path::PathBuf;

use mnemora_worlds::{
    DATA_VARIABLE, Frequency, Limits, Origin, Part, Text, TextSet, TextSettings, Vocabulary,
};

#[test]
fn books_are_bundled_and_their_vocabulary_can_be_saved() {
    let books = Text::bundled(&TextSettings::default()).expect("the bundled books are sound");
    assert_eq!(books.origin(), &Origin::Bundled);
    let vocabulary = books.vocabulary();
    // Every word of the training part is counted, as itself or as <unk>.
    let counts = (0..vocabulary.len() as u32).map(|word| vocabulary.count(word));
    assert_eq!(counts.sum::<u64>(), books.words(Part::Train).len() as u64);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("vocabulary.tsv");
    vocabulary.save(&file).expect("the file can be written");
    let loaded = Vocabulary::load(&file).expect("what was saved is loaded");
    assert!(loaded.check(&vocabulary.fingerprint()).is_ok());

    // The words are the same with the saved vocabulary.
    let settings = TextSettings {
        vocabulary: Some(loaded),
        ..TextSettings::default()
    };
    let again = Text::bundled(&settings).expect("the bundled books are sound");
    assert_eq!(again.fingerprint(), books.fingerprint());
}

/// The published sizes; the training part of WikiText-103 may be missing.
#[test]
fn wikitext_has_its_published_sizes() {
    let Some(folder) = env::var_os(DATA_VARIABLE).map(PathBuf::from) else {
        eprintln!("skipped: WikiText, no folder of data; set {DATA_VARIABLE}");
        return;
    };
    let settings = TextSettings::default();
    match Text::open_set(TextSet::WikiText2, &folder, &settings, Limits::default()) {
        Ok(text) => {
            let words = Part::ALL.map(|part| text.words(part).len());
            assert_eq!(words, [2_088_628, 217_646, 245_569]);
            assert_eq!(text.vocabulary().len(), 33_278);
            let train = text.words(Part::Train).iter();
            let frequent =
                train.filter(|&&word| text.vocabulary().frequency(word) == Frequency::Above10000);
            assert_eq!(frequent.count(), 841_079);
        }
        Err(error) => eprintln!("skipped: WikiText-2, {error}"),
    }
    let filled = TextSettings {
        placeholders: Some(267_735),
        ..settings
    };
    match Text::open_set(TextSet::WikiText103, &folder, &filled, Limits::default()) {
        Ok(text) => {
            let [train, valid, test] = Part::ALL.map(|part| text.words(part).len());
            assert!(
                [0, 103_227_021].contains(&train),
                "{train} words to train on"
            );
            assert_eq!((valid, test), (217_646, 245_569));
            assert_eq!(text.vocabulary().len(), 267_735);
        }
        Err(error) => eprintln!("skipped: WikiText-103, {error}"),
    }
}
