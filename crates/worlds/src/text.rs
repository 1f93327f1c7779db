//! Texts as streams of words, for language models: WikiText, books, a user's own texts.
//!
//! A [`Text`] stores its words in three parts, with four bytes per word and a [`Vocabulary`] made from the
//! training part. Batches are windows of contiguous streams, so that a model can carry its state from one
//! window to the next.
//!
//! ```
//! use mnemora_worlds::{Part, Text, TextSettings};
//!
//! let books = Text::bundled(&TextSettings::default())?;
//! // To train: window 0 of 16 streams, 35 words each.
//! let batch = books.batch(Part::Train, 0, 16, 35)?;
//! assert_eq!(batch.targets.len(), 16 * 35);
//! assert!(batch.begins);
//! // To evaluate: one pass over the whole part, 100 words at a time.
//! let words: usize = books.unroll(Part::Test, 1, 100)?.map(|window| window.time).sum();
//! assert_eq!(words, books.words(Part::Test).len());
//! # Ok::<(), mnemora_worlds::Error>(())
//! ```

mod batches;
mod placeholders;
mod vocabulary;
mod words;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use self::batches::TextBatch;
pub use self::vocabulary::{Frequency, Vocabulary};
use self::words::Interner;
pub use self::words::WordStyle;
use crate::error::unusable;
use crate::files::{Files, is_named};
use crate::folder;
use crate::images::{DATA_VARIABLE, check_folder, hexadecimal};
use crate::recordings::corpus::Parts;
use crate::recordings::parts::parts;
use crate::settings::check;
use crate::{Error, Limits, Origin, Part};

/// A text known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextSet {
    /// Books of Project Gutenberg: five come with the program.
    Books,
    /// WikiText-2: two million words, 33,278 of them different.
    WikiText2,
    /// WikiText-103: 103 million words, 267,735 of them different.
    WikiText103,
}

impl TextSet {
    /// All sets.
    pub const ALL: [TextSet; 3] = [TextSet::Books, TextSet::WikiText2, TextSet::WikiText103];

    /// Name in experiments.
    pub fn name(self) -> &'static str {
        match self {
            TextSet::Books => "books",
            TextSet::WikiText2 => "wikitext-2",
            TextSet::WikiText103 => "wikitext-103",
        }
    }

    /// Its folder in a folder of data.
    fn folder(self) -> &'static str {
        match self {
            TextSet::Books => "gutenberg",
            _ => self.name(),
        }
    }

    /// The set's own folder within `directory`, if there is one.
    fn folder_in(self, directory: &Path) -> Option<PathBuf> {
        let inner = [
            directory.join("text").join(self.folder()),
            directory.join(self.folder()),
        ];
        inner.into_iter().find(|folder| folder.is_dir())
    }
}

/// Settings of the vocabulary that a text is read with.
#[derive(Clone, Debug, PartialEq)]
pub struct TextSettings {
    /// Words seen less often in the training part are `<unk>`; WikiText uses 3.
    pub least_count: u64,
    /// Largest number of words, of which the most frequent are kept; includes `<unk>` and `<eos>`.
    pub largest: Option<usize>,
    /// Fills the vocabulary with placeholder words up to this size, for a model of the size that it would have
    /// with a text that is not available. Without a training part, all words of the other parts are taken.
    pub placeholders: Option<usize>,
    /// This vocabulary, such as that of a trained model, instead of one made from the training part.
    pub vocabulary: Option<Vocabulary>,
}

impl Default for TextSettings {
    fn default() -> TextSettings {
        TextSettings {
            least_count: 3,
            largest: None,
            placeholders: None,
            vocabulary: None,
        }
    }
}

/// Words of three parts, and the vocabulary that numbers them.
#[derive(Clone, Debug)]
pub struct Text {
    name: String,
    vocabulary: Vocabulary,
    parts: Parts<Vec<u32>>,
    origin: Origin,
    /// Parts that consist of placeholder words.
    placeholders: Vec<Part>,
}

/// With fewer files than this, each file is cut into parts.
const MANY_FILES: usize = 10;

impl Text {
    /// Five books of Project Gutenberg inside the program: *Alice's Adventures in Wonderland*, *A Tale
    /// of Two Cities*, *Dracula*, *Pride and Prejudice*, *The Adventures of Sherlock Holmes*. The last tenth of
    /// each book is for validation and the test, one half for each.
    ///
    /// # Errors
    /// The settings are impossible.
    pub fn bundled(settings: &TextSettings) -> Result<Text, Error> {
        let books = [
            &include_bytes!("../data/text/pg11.txt.gz")[..],
            include_bytes!("../data/text/pg98.txt.gz"),
            include_bytes!("../data/text/pg345.txt.gz"),
            include_bytes!("../data/text/pg1342.txt.gz"),
            include_bytes!("../data/text/pg1661.txt.gz"),
        ];
        let mut read = Reading::new(Limits::default());
        for book in books {
            let room = read.files.room(book.len());
            let words = read
                .interner
                .read(book, "bundled book", WordStyle::Running, room)?;
            read.divide(words);
        }
        read.finish(TextSet::Books.name(), Origin::Bundled, settings)
    }

    /// A text known by name, from `directory` or its folder `text/<name>` or `<name>` (for books:
    /// `gutenberg`). WikiText is read from `wiki.train.tokens`, `wiki.valid.tokens`, `wiki.test.tokens` or
    /// `train.txt`, `valid.txt`, `test.txt`, each also with `.gz`; books as by [`Text::open`].
    ///
    /// The training part of WikiText may be missing if the settings have a vocabulary or placeholders.
    ///
    /// # Errors
    /// A folder or file is missing, unreadable, not UTF-8, or empty; the files exceed the limits; the
    /// settings are impossible.
    pub fn open_set(
        set: TextSet,
        directory: &Path,
        settings: &TextSettings,
        limits: Limits,
    ) -> Result<Text, Error> {
        check_folder(directory, || match set {
            TextSet::Books => "texts (.txt or .txt.gz)".to_owned(),
            _ => "wiki.train.tokens, wiki.valid.tokens and wiki.test.tokens".to_owned(),
        })?;
        let folder = set.folder_in(directory);
        let folder = folder.as_deref().unwrap_or(directory);
        match set {
            TextSet::Books => open_folder(folder, WordStyle::Running, set.name(), settings, limits),
            _ => open_splits(folder, WordStyle::Spaced, set.name(), settings, limits),
        }
    }

    /// The text in the folder `data` if given; otherwise the one in the folder that the environment variable
    /// `MNEMORA_DATA` names; otherwise, for books, the bundled ones. In the folder that the variable
    /// names, books must be in their own subfolder.
    ///
    /// # Errors
    /// As [`Text::open_set`], or a text that is not bundled is not found.
    pub fn find(
        set: TextSet,
        data: Option<&Path>,
        settings: &TextSettings,
        limits: Limits,
    ) -> Result<Text, Error> {
        Text::find_with(set, data, env::var_os(DATA_VARIABLE), settings, limits)
    }

    fn find_with(
        set: TextSet,
        data: Option<&Path>,
        variable: Option<OsString>,
        settings: &TextSettings,
        limits: Limits,
    ) -> Result<Text, Error> {
        if let Some(directory) = data {
            return Text::open_set(set, directory, settings, limits);
        }
        let bundled = set == TextSet::Books;
        let variable = variable
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        match variable {
            // The folder may be for other data.
            Some(directory)
                if bundled && directory.is_dir() && set.folder_in(&directory).is_none() =>
            {
                Text::bundled(settings)
            }
            Some(directory) => {
                let read = Text::open_set(set, &directory, settings, limits);
                read.map_err(|cause| Error::FromEnvironment {
                    variable: DATA_VARIABLE,
                    cause: Box::new(cause),
                })
            }
            None if bundled => Text::bundled(settings),
            None => Err(Error::NotBundled {
                data: set.name(),
                wanted: "wiki.train.tokens",
            }),
        }
    }

    /// A user's own text: a file, or a folder of files (`.txt`, `.tokens`, also with `.gz`, also in
    /// subfolders), in natural order.
    ///
    /// Files `train.txt`, `valid.txt` and `test.txt`, folders of these names, or a table `index.csv` with
    /// columns `file` and `split` divide a folder. Otherwise, if there are ten files or more, a tenth of them is for
    /// validation and a tenth for the test. If there are fewer, the last tenth of each file is used, one half for each.
    ///
    /// # Errors
    /// A file is missing, unreadable, not UTF-8, or empty; the folder has no files; the files exceed the
    /// limits; the settings are impossible.
    pub fn open(
        path: &Path,
        style: WordStyle,
        settings: &TextSettings,
        limits: Limits,
    ) -> Result<Text, Error> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let split = Part::ALL
                .iter()
                .all(|&part| split_file(path, part).is_some());
            return if split {
                open_splits(path, style, &name, settings, limits)
            } else {
                open_folder(path, style, &name, settings, limits)
            };
        }
        let mut read = Reading::new(limits);
        let words = read.interner.read_file(path, style, &read.files)?;
        read.divide(words);
        read.finish(&name, Origin::Folder(path.to_owned()), settings)
    }

    /// Name of the text, e.g. `wikitext-2`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The words and their numbers.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The words of a part in order, as numbers of the vocabulary.
    pub fn words(&self, part: Part) -> &[u32] {
        self.parts.get(part)
    }

    /// The source of the text.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// SHA-256 over a prefix, the vocabulary's fingerprint and the words of all parts, 64
    /// hexadecimal characters; `data/README.md` of this crate says byte by byte what is hashed.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new_with_prefix(b"mnemora text 1");
        hash.update(self.vocabulary.fingerprint());
        let mut bytes = Vec::new();
        for part in Part::ALL {
            hash.update((self.words(part).len() as u64).to_le_bytes());
            for words in self.words(part).chunks(1 << 14) {
                bytes.clear();
                bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                hash.update(&bytes);
            }
        }
        hexadecimal(hash)
    }
}

/// A text that is being read, with words as numbered by the interner.
struct Reading {
    files: Files,
    interner: Interner,
    parts: Parts<Vec<u32>>,
}

impl Reading {
    fn new(limits: Limits) -> Reading {
        Reading {
            files: Files::new(limits),
            interner: Interner::default(),
            parts: Parts::default(),
        }
    }

    fn add(&mut self, part: Part, words: Vec<u32>) {
        let there = self.parts.get_mut(part);
        if there.is_empty() {
            *there = words;
        } else {
            there.extend(words);
        }
    }

    /// Cuts a file at the ends of lines or paragraphs nearest to nine tenths and to nineteen twentieths:
    /// what follows the first cut is for validation, and what follows the second is for the test.
    fn divide(&mut self, mut words: Vec<u32>) {
        let end = self.interner.end();
        let cut_after = |words: &[u32], at: usize| {
            let next_end = words[at..].iter().position(|&word| word == end);
            next_end.map_or(words.len(), |next| at + next + 1)
        };
        let test_from = cut_after(&words, words.len() / 20 * 19);
        let valid_from = cut_after(&words, words.len() / 10 * 9).min(test_from);
        self.add(Part::Test, words.split_off(test_from));
        self.add(Part::Valid, words.split_off(valid_from));
        self.add(Part::Train, words);
    }

    /// Makes the vocabulary, and converts all words to its numbers.
    fn finish(self, name: &str, origin: Origin, settings: &TextSettings) -> Result<Text, Error> {
        let Reading {
            interner,
            mut parts,
            ..
        } = self;
        if let Some(largest) = settings.largest {
            check(
                "language.vocabulary",
                largest,
                2..=u32::MAX as usize,
                || {
                    "a vocabulary holds at least <unk> and <eos>, and at most 2^32 - 1 words"
                        .to_owned()
                },
            )?;
        }
        let words = interner.into_words();
        let vocabulary = match &settings.vocabulary {
            Some(vocabulary) => vocabulary.clone(),
            None => {
                let whole = parts.train.is_empty() && settings.placeholders.is_some();
                let counted_parts = if whole {
                    vec![&parts.valid, &parts.test]
                } else {
                    vec![&parts.train]
                };
                if counted_parts.iter().all(|part| part.is_empty()) {
                    return Err(Error::NoWords {
                        data: name.to_owned(),
                        part: Part::Train,
                    });
                }
                let mut counts = vec![0; words.len()];
                for &word in counted_parts.into_iter().flatten() {
                    counts[word as usize] += 1;
                }
                let counted = words.iter().cloned().zip(counts);
                let counted = counted.filter(|(_, count)| *count > 0);
                let least_count = if whole { 1 } else { settings.least_count };
                let made = Vocabulary::of_counts(counted.collect(), least_count, settings.largest);
                match settings.placeholders {
                    Some(size) => made.filled(size)?,
                    None => made,
                }
            }
        };
        let numbers: Vec<u32> = words.iter().map(|word| vocabulary.number(word)).collect();
        for part in Part::ALL {
            for word in parts.get_mut(part) {
                *word = numbers[*word as usize];
            }
        }
        if Part::ALL.iter().all(|&part| parts.get(part).is_empty()) {
            return Err(Error::NoWords {
                data: name.to_owned(),
                part: Part::Train,
            });
        }
        Ok(Text {
            name: name.to_owned(),
            vocabulary,
            parts,
            origin,
            placeholders: Vec::new(),
        })
    }
}

/// The file that holds a part.
fn split_file(folder: &Path, part: Part) -> Option<PathBuf> {
    let names = [
        format!("wiki.{part}.tokens"),
        format!("wiki.{part}.tokens.gz"),
        format!("{part}.txt"),
        format!("{part}.txt.gz"),
    ];
    let mut paths = names.into_iter().map(|name| folder.join(name));
    paths.find(|path| is_named(path))
}

/// A folder with a file for each part.
fn open_splits(
    folder: &Path,
    style: WordStyle,
    name: &str,
    settings: &TextSettings,
    limits: Limits,
) -> Result<Text, Error> {
    let mut read = Reading::new(limits);
    for part in Part::ALL {
        if let Some(file) = split_file(folder, part) {
            let words = read.interner.read_file(&file, style, &read.files)?;
            if words.is_empty() {
                return Err(unusable(
                    &file,
                    "an empty file; at least one word is needed",
                ));
            }
            read.add(part, words);
            continue;
        }
        let untrained = settings.vocabulary.is_some() || settings.placeholders.is_some();
        if part == Part::Train && untrained {
            continue;
        }
        let hint = match part {
            Part::Train => {
                "; to evaluate without it, give the vocabulary of the model or ask for placeholders"
            }
            _ => "",
        };
        return Err(unusable(
            folder,
            format!(
                "holds no {part} part of {name}: neither wiki.{part}.tokens nor {part}.txt, nor one of them with .gz{hint}"
            ),
        ));
    }
    read.finish(name, Origin::Folder(folder.to_owned()), settings)
}

/// A folder of texts.
fn open_folder(
    folder: &Path,
    style: WordStyle,
    name: &str,
    settings: &TextSettings,
    limits: Limits,
) -> Result<Text, Error> {
    let mut read = Reading::new(limits);
    let mut files = read.files.list(folder, &["txt", "tokens", "gz"])?;
    files.retain(|file| {
        let name = file.to_string_lossy().to_ascii_lowercase();
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        plain.ends_with(".txt") || plain.ends_with(".tokens")
    });
    if files.is_empty() {
        return Err(unusable(
            folder,
            "holds no texts; they must be .txt or .tokens files, optionally with .gz",
        ));
    }
    let named: Vec<(String, PathBuf)> = files
        .into_iter()
        .map(|file| (folder::within(folder, &file), file))
        .collect();
    let in_part = |(name, _): &(String, PathBuf)| {
        let outer = name.split_once('/');
        outer.is_some_and(|(outer, _)| Part::named(outer).is_some())
    };
    let told = is_named(&folder.join("index.csv")) || named.iter().any(in_part);
    if told || named.len() >= MANY_FILES {
        let parts = parts(folder, named, &read.files)?;
        for part in Part::ALL {
            for file in parts.get(part) {
                let words = read.interner.read_file(file, style, &read.files)?;
                read.add(part, words);
            }
        }
    } else {
        for (_, file) in named {
            let words = read.interner.read_file(&file, style, &read.files)?;
            read.divide(words);
        }
    }
    read.finish(name, Origin::Folder(folder.to_owned()), settings)
}

#[cfg(test)]
mod tests;
