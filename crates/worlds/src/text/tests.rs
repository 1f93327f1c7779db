use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const SPACED: WordStyle = WordStyle::Spaced;

/// Every word is kept.
fn all_words() -> TextSettings {
    TextSettings {
        least_count: 1,
        ..TextSettings::default()
    }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder
}

/// The error message without the folder.
fn refusal(folder: &TempDir, opened: Result<Text, Error>) -> String {
    let text = opened.unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text.replace(&folder.path().display().to_string(), "FOLDER")
}

fn spelled(text: &Text, part: Part) -> String {
    let words = text.words(part).iter();
    let words = words.map(|&word| text.vocabulary().word(word).unwrap());
    words.collect::<Vec<_>>().join(" ")
}

/// Words 0, 1, 2, ... as the training part.
fn counting(words: usize) -> Text {
    let (mut read, mut line) = (Reading::new(Limits::default()), String::new());
    (0..words).for_each(|word| line += &format!("{word} "));
    let mut read_words = read
        .interner
        .read(
            line.as_bytes(),
            "lines",
            SPACED,
            Limits::default().room(line.len()),
        )
        .unwrap();
    read_words.truncate(words);
    read.add(Part::Train, read_words);
    read.finish("counting", Origin::Bundled, &all_words())
        .unwrap()
}

const WIKI: [(&str, &str); 3] = [
    ("wiki.train.tokens", " \n = A = \n a b a b a c <unk> \n"),
    ("wiki.valid.tokens", "a d \n"),
    ("wiki.test.tokens", "b e e \n"),
];

#[test]
fn wikitext_is_read_in_its_layout() {
    let files = folder(&WIKI);
    let text = Text::open_set(
        TextSet::WikiText2,
        files.path(),
        &all_words(),
        Limits::default(),
    )
    .unwrap();
    assert_eq!(text.name(), "wikitext-2");
    assert_eq!(
        spelled(&text, Part::Train),
        "<eos> = A = <eos> a b a b a c <unk> <eos>"
    );
    assert_eq!(spelled(&text, Part::Valid), "a <unk> <eos>");
    assert_eq!(spelled(&text, Part::Test), "b <unk> <unk> <eos>");
    assert_eq!(text.vocabulary().len(), 7);

    let rare = TextSettings::default();
    let text = Text::open_set(TextSet::WikiText2, files.path(), &rare, Limits::default()).unwrap();
    assert_eq!(spelled(&text, Part::Test), "<unk> <unk> <unk> <eos>");
    assert_eq!(text.vocabulary().len(), 3);
    assert_eq!(text.vocabulary().count(text.vocabulary().unknown()), 7);

    let four = TextSettings {
        largest: Some(4),
        ..all_words()
    };
    let text = Text::open_set(TextSet::WikiText2, files.path(), &four, Limits::default()).unwrap();
    assert_eq!(spelled(&text, Part::Test), "<unk> <unk> <unk> <eos>");
    assert_eq!(text.vocabulary().len(), 4);
}

#[test]
fn sets_are_found_in_folders_of_their_names() {
    for inner in ["wikitext-103", "text/wikitext-103"] {
        let plain = ["train", "valid", "test"].map(|part| format!("{inner}/{part}.txt"));
        let files: Vec<(&str, &str)> = plain.iter().map(|name| (&**name, "a b\n")).collect();
        let files = folder(&files);
        let set = TextSet::WikiText103;
        assert!(Text::open_set(set, files.path(), &all_words(), Limits::default()).is_ok());
        let variable = Some(files.path().as_os_str().to_owned());
        let found =
            Text::find_with(set, None, variable.clone(), &all_words(), Limits::default()).unwrap();
        assert_eq!(found.origin(), &Origin::Folder(files.path().join(inner)));
        // The folder holds another text.
        let books = Text::find_with(
            TextSet::Books,
            None,
            variable,
            &all_words(),
            Limits::default(),
        )
        .unwrap();
        assert_eq!(books.origin(), &Origin::Bundled);
    }
    let refused = Text::find_with(
        TextSet::WikiText2,
        None,
        None,
        &all_words(),
        Limits::default(),
    )
    .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "wikitext-2 does not come with the program; name a folder with wiki.train.tokens by --data or MNEMORA_DATA"
    );
    let nowhere = Some(OsString::from("/nowhere"));
    let refused = Text::find_with(
        TextSet::Books,
        None,
        nowhere,
        &all_words(),
        Limits::default(),
    )
    .unwrap_err();
    assert!(refused.to_string().contains("MNEMORA_DATA"), "{refused}");
}

#[test]
fn a_missing_split_is_named() {
    let open = |files: &TempDir, settings: &TextSettings| {
        Text::open_set(
            TextSet::WikiText103,
            files.path(),
            settings,
            Limits::default(),
        )
    };
    let untested = folder(&WIKI[..2]);
    assert_eq!(
        refusal(&untested, open(&untested, &all_words())),
        "FOLDER: holds no test part of wikitext-103: neither wiki.test.tokens nor test.txt, nor one of them with .gz"
    );
    let untrained = folder(&WIKI[1..]);
    assert!(
        refusal(&untrained, open(&untrained, &all_words())).ends_with(
            "; to evaluate without it, give the vocabulary of the model or ask for placeholders"
        )
    );

    let placeholders = TextSettings {
        placeholders: Some(267_735),
        ..TextSettings::default()
    };
    let text = open(&untrained, &placeholders).unwrap();
    assert_eq!(text.vocabulary().len(), 267_735);
    assert_eq!(spelled(&text, Part::Test), "b e e <eos>");
    assert_eq!(
        text.batch(Part::Train, 0, 1, 1).unwrap_err().to_string(),
        "wikitext-103: the train part holds no words"
    );
    let few = TextSettings {
        placeholders: Some(3),
        ..TextSettings::default()
    };
    let text = refusal(&untrained, open(&untrained, &few));
    assert!(
        text.starts_with("a vocabulary of 3 words cannot hold the 6"),
        "{text}"
    );

    let whole = folder(&WIKI);
    let trained = open(&whole, &all_words()).unwrap();
    let given = TextSettings {
        vocabulary: Some(trained.vocabulary().clone()),
        ..TextSettings::default()
    };
    let text = open(&untrained, &given).unwrap();
    assert_eq!(text.words(Part::Test), trained.words(Part::Test));
    assert_ne!(text.fingerprint(), trained.fingerprint());
}

#[test]
fn folders_are_divided_as_they_say() {
    let open = |files: &TempDir| Text::open(files.path(), SPACED, &all_words(), Limits::default());
    let told = folder(&[
        ("train/b10.txt", "x"),
        ("train/b9.txt", "a b"),
        ("dev/c.txt", "a"),
        ("test/d.txt", "b"),
        ("notes.md", "not read"),
    ]);
    let text = open(&told).unwrap();
    assert_eq!(spelled(&text, Part::Train), "a b <eos> x <eos>");
    assert_eq!(spelled(&text, Part::Valid), "a <eos>");

    let lines = "w\n".repeat(100);
    let few = folder(&[("a.txt", &lines), ("b.txt", &lines)]);
    let text = open(&few).unwrap();
    let lengths = Part::ALL.map(|part| text.words(part).len());
    assert_eq!(lengths.iter().sum::<usize>(), 400);
    assert_eq!(lengths, [364, 20, 16]);

    let names: Vec<String> = (0..20).map(|number| format!("{number}.txt")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "w\n")).collect();
    let text = open(&folder(&many)).unwrap();
    assert_eq!(Part::ALL.map(|part| text.words(part).len()), [32, 4, 4]);

    let alone = folder(&[("a.txt", &lines)]);
    let text = Text::open(
        &alone.path().join("a.txt"),
        SPACED,
        &all_words(),
        Limits::default(),
    )
    .unwrap();
    assert_eq!(text.name(), "a");
    assert_eq!(text.words(Part::Train).len(), 182);
}

#[test]
fn texts_that_cannot_be_used_are_refused() {
    let open = |files: &TempDir| Text::open(files.path(), SPACED, &all_words(), Limits::default());
    let none = folder(&[("a.md", "x")]);
    assert_eq!(
        refusal(&none, open(&none)),
        "FOLDER: holds no texts; they must be .txt or .tokens files, optionally with .gz"
    );
    let empty = folder(&[("a.txt", "")]);
    assert!(refusal(&empty, open(&empty)).ends_with("the train part holds no words"));
    let empty = folder(&[("train.txt", ""), ("valid.txt", "a"), ("test.txt", "a")]);
    assert_eq!(
        refusal(&empty, open(&empty)),
        "FOLDER/train.txt: an empty file; at least one word is needed"
    );
    fs::write(empty.path().join("train.txt"), b"ab\ncd \xe9\n").unwrap();
    assert_eq!(
        refusal(&empty, open(&empty)),
        "FOLDER/train.txt: byte 6 is not UTF-8; convert the file to UTF-8 (iconv -t UTF-8)"
    );
    let gone = Text::open(
        &none.path().join("gone"),
        SPACED,
        &all_words(),
        Limits::default(),
    );
    assert!(refusal(&none, gone).starts_with("cannot read FOLDER/gone: "));
    let gone = Text::open_set(
        TextSet::Books,
        &none.path().join("gone"),
        &all_words(),
        Limits::default(),
    );
    assert!(refusal(&none, gone).contains("FOLDER/gone does not exist"));
    let one = TextSettings {
        largest: Some(1),
        ..all_words()
    };
    assert!(
        Text::bundled(&one)
            .unwrap_err()
            .to_string()
            .starts_with("language.vocabulary = 1: a vocabulary holds at least <unk> and <eos>")
    );
}

#[test]
fn the_bundled_books_are_readable() {
    let books = Text::bundled(&TextSettings::default()).unwrap();
    let lengths = Part::ALL.map(|part| books.words(part).len());
    assert_eq!((lengths, books.vocabulary().len()), BOOKS);
    let train = spelled(&books, Part::Train);
    let start =
        "Alice was beginning to get very tired of sitting by her sister on the bank , and of";
    assert!(train.starts_with(start));
    let unknown = books.vocabulary().unknown();
    for part in Part::ALL {
        let words = books.words(part);
        let missing = words.iter().filter(|&&word| word == unknown).count();
        assert!(
            missing * 20 < words.len(),
            "{part}: {missing} of {}",
            words.len()
        );
    }
    assert_eq!(books.vocabulary().word(0), Some(","));
}

/// Words of the parts and of the vocabulary of the bundled books.
const BOOKS: ([usize; 3], usize) = ([609_318, 33_507, 33_453], 8_985);

#[test]
fn impossible_windows_are_refused() {
    let text = counting(10);
    assert_eq!(text.windows(Part::Train, 0, 5), 0);
    assert_eq!(text.windows(Part::Train, 2, 0), 0);
    assert_eq!(
        text.batch(Part::Train, 0, 3, 4).unwrap_err().to_string(),
        "counting: 3 streams with windows of 4 words need 12 words, but the train part has 10; use fewer streams or shorter windows"
    );
    let unrolled = text.unroll(Part::Test, 1, 4).map(Iterator::count);
    assert_eq!(
        unrolled.unwrap_err().to_string(),
        "counting: the test part holds no words"
    );
    assert!(
        text.unroll(Part::Train, 11, 1)
            .map(Iterator::count)
            .is_err()
    );
    assert_eq!(text.unroll(Part::Train, 1, 4).unwrap().count(), 3);
}

proptest! {
    #[test]
    fn windows_are_those_of_contiguous_streams(
        words in 1usize..200,
        batch in 1usize..6,
        time in 1usize..9,
        pass in 0u64..3,
    ) {
        let text = counting(words);
        let all = text.words(Part::Train);
        prop_assert_eq!(all.len(), words);
        let windows = text.windows(Part::Train, batch, time);
        prop_assume!(windows > 0);
        for window in 0..windows {
            let index = pass * windows as u64 + window as u64;
            let made = text.batch(Part::Train, index, batch, time).unwrap();
            prop_assert_eq!(made.begins, window == 0);
            prop_assert!(made.mask.iter().all(|&mask| mask == 1.0));
            for row in 0..batch {
                for step in 0..time {
                    let at = row * (words / batch) + window * time + step;
                    prop_assert_eq!(made.targets[row * time + step], all[at]);
                    let before = if at == 0 { text.vocabulary().end() } else { all[at - 1] };
                    prop_assert_eq!(made.inputs[row * time + step], before);
                }
            }
        }
    }

    #[test]
    fn unrolling_meets_every_word_once(
        words in 1usize..200,
        streams in 1usize..6,
        time in 1usize..30,
    ) {
        prop_assume!(streams <= words);
        let text = counting(words);
        let mut rows = vec![Vec::new(); streams];
        for (number, window) in text.unroll(Part::Train, streams, time).unwrap().enumerate() {
            prop_assert_eq!(window.begins, number == 0);
            prop_assert!(window.time <= time);
            for (row, met) in rows.iter_mut().enumerate() {
                for at in row * window.time..(row + 1) * window.time {
                    if window.mask[at] == 1.0 {
                        met.push((window.inputs[at], window.targets[at]));
                    }
                }
            }
        }
        let all = text.words(Part::Train);
        let end = text.vocabulary().end();
        let wanted = (0..words).map(|at| (if at == 0 { end } else { all[at - 1] }, all[at]));
        prop_assert!(rows.concat().into_iter().eq(wanted));
    }

    #[test]
    fn stretches_are_the_first_words_in_their_order(
        words in 1usize..200,
        cut in 0usize..200,
        batch in 1usize..6,
        time in 1usize..30,
    ) {
        let text = counting(words);
        let shown = words - cut % words;
        let mut met = Vec::new();
        for made in text.stretches(Part::Train, shown, batch, time).unwrap() {
            prop_assert!(made.begins && made.batch <= batch && made.time == time);
            let pairs = made.inputs.iter().zip(&made.targets).zip(&made.mask);
            met.extend(pairs.filter(|(_, mask)| **mask == 1.0).map(|((a, b), _)| (*a, *b)));
        }
        let all = text.words(Part::Train);
        let end = text.vocabulary().end();
        let wanted = (0..shown).map(|at| (if at == 0 { end } else { all[at - 1] }, all[at]));
        prop_assert!(met.into_iter().eq(wanted));
        prop_assert!(text.stretches(Part::Train, words + 1, batch, time).is_err());
    }
}
