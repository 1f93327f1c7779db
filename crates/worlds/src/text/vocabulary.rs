//! The words that a model knows, with their counts in the training text.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::Error;
use crate::error::{refused, unusable};
use crate::files::read_regular;
use crate::images::hexadecimal;

/// Most bytes of a file with a vocabulary.
const LARGEST: u64 = 1 << 30;

/// Replaces a word that is not in the vocabulary.
pub(super) const UNKNOWN: &str = "<unk>";
/// Marks the end of a line, or of a paragraph.
pub(super) const END: &str = "<eos>";

/// The frequency of a word in the training text, in the buckets of Santoro et al. 2018, table 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Frequency {
    /// More than 10,000 times.
    Above10000,
    /// From 1,000 to 10,000 times.
    From1000,
    /// Fewer than 1,000 times.
    Below1000,
}

impl Frequency {
    /// All buckets, the most frequent words first.
    pub const ALL: [Frequency; 3] = [
        Frequency::Above10000,
        Frequency::From1000,
        Frequency::Below1000,
    ];

    /// The bucket of a word that occurs `count` times in the training text.
    pub fn of(count: u64) -> Frequency {
        match count {
            0..1000 => Frequency::Below1000,
            1000..=10_000 => Frequency::From1000,
            _ => Frequency::Above10000,
        }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Frequency::Above10000 => "> 10k",
            Frequency::From1000 => "1k-10k",
            Frequency::Below1000 => "< 1k",
        })
    }
}

/// Words with numbers from 0, the most frequent first, including `<unk>` and `<eos>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    counts: Vec<u64>,
    numbers: HashMap<String, u32>,
    unknown: u32,
    end: u32,
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Vocabulary({} words)", self.words.len())
    }
}

impl Vocabulary {
    /// Keeps the words seen at least `least_count` times; of these, the most frequent, so that with
    /// `<unk>` and `<eos>` there are at most `largest` words. Other words count as
    /// `<unk>`; equally frequent words are in the order of their bytes.
    pub(super) fn of_counts(
        counted: Vec<(String, u64)>,
        least_count: u64,
        largest: Option<usize>,
    ) -> Vocabulary {
        let (mut unknown, mut end) = (0, 0);
        let mut kept: Vec<(String, u64)> = Vec::with_capacity(counted.len() + 2);
        for (word, count) in counted {
            match word.as_str() {
                UNKNOWN => unknown += count,
                END => end += count,
                _ if count < least_count => unknown += count,
                _ => kept.push((word, count)),
            }
        }
        let most_frequent = |(left_word, left): &(String, u64),
                             (right_word, right): &(String, u64)| {
            right.cmp(left).then_with(|| left_word.cmp(right_word))
        };
        kept.sort_unstable_by(most_frequent);
        if let Some(largest) = largest {
            let cut = kept.split_off(largest.saturating_sub(2).min(kept.len()));
            unknown += cut.iter().map(|(_, count)| count).sum::<u64>();
        }
        kept.push((UNKNOWN.to_owned(), unknown));
        kept.push((END.to_owned(), end));
        kept.sort_unstable_by(most_frequent);
        Vocabulary::new(kept).expect("words are counted once, and <unk> and <eos> were just added")
    }

    /// Words in the order of their numbers.
    fn new(counted: Vec<(String, u64)>) -> Result<Vocabulary, String> {
        if u32::try_from(counted.len()).is_err() {
            return Err(format!("{} words, more than 2^32", counted.len()));
        }
        let mut numbers = HashMap::with_capacity(counted.len());
        for (number, (word, _)) in counted.iter().enumerate() {
            if numbers.insert(word.clone(), number as u32).is_some() {
                return Err(format!("line {}: names {word} again", number + 1));
            }
        }
        let special = |word: &str| {
            let found = numbers.get(word).copied();
            found.ok_or_else(|| format!("has no line for {word}, which every vocabulary needs"))
        };
        let (unknown, end) = (special(UNKNOWN)?, special(END)?);
        let (words, counts) = counted.into_iter().unzip();
        Ok(Vocabulary {
            words,
            counts,
            numbers,
            unknown,
            end,
        })
    }

    /// The same, filled with placeholders up to `size` words: for a model of the size that it would have with a
    /// training text that is not available.
    pub(super) fn filled(self, size: usize) -> Result<Vocabulary, Error> {
        let found = self.words.len();
        if found > size {
            return Err(Error::SmallVocabulary {
                wanted: size,
                found,
            });
        }
        let mut counted: Vec<(String, u64)> = self.words.into_iter().zip(self.counts).collect();
        counted.extend((found..size).map(|number| (format!("<placeholder-{number}>"), 0)));
        Vocabulary::new(counted).map_err(|problem| unusable(Path::new("vocabulary"), problem))
    }

    /// Number of words, including `<unk>` and `<eos>`; at least 2.
    #[expect(clippy::len_without_is_empty, reason = "a vocabulary is never empty")]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The number of `<unk>`.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The number of `<eos>`.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The number of a word; that of `<unk>` for a word that is not in the vocabulary.
    pub fn number(&self, word: &str) -> u32 {
        self.numbers.get(word).copied().unwrap_or(self.unknown)
    }

    /// The word of a number; `None` from [`Vocabulary::len`] on.
    pub fn word(&self, number: u32) -> Option<&str> {
        self.words.get(number as usize).map(String::as_str)
    }

    /// The count of a word in the text that the vocabulary was made from; words left out count as
    /// `<unk>`. 0 from [`Vocabulary::len`] on.
    pub fn count(&self, number: u32) -> u64 {
        self.counts.get(number as usize).copied().unwrap_or(0)
    }

    /// The bucket of a word.
    pub fn frequency(&self, number: u32) -> Frequency {
        Frequency::of(self.count(number))
    }

    /// SHA-256 over a prefix and all words and counts in their order, 64 hexadecimal characters;
    /// `data/README.md` of this crate says byte by byte what is hashed.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new_with_prefix(b"mnemora vocabulary 1");
        for (word, count) in self.words.iter().zip(&self.counts) {
            hash.update((word.len() as u64).to_le_bytes());
            hash.update(word);
            hash.update(count.to_le_bytes());
        }
        hexadecimal(hash)
    }

    /// Whether this is the vocabulary that a model was trained with.
    ///
    /// # Errors
    /// The fingerprints differ.
    pub fn check(&self, fingerprint: &str) -> Result<(), Error> {
        let found = self.fingerprint();
        if found == fingerprint {
            return Ok(());
        }
        Err(Error::OtherVocabulary {
            words: self.len(),
            found,
            wanted: fingerprint.to_owned(),
        })
    }

    /// A line for each word in the order of its number: the word, a tab, its count.
    pub fn to_tsv(&self) -> String {
        let lines = self.words.iter().zip(&self.counts);
        lines
            .map(|(word, count)| format!("{word}\t{count}\n"))
            .collect()
    }

    /// Writes [`Vocabulary::to_tsv`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), Error> {
        fs::write(file, self.to_tsv()).map_err(|cause| Error::Write {
            file: file.display().to_string(),
            cause,
        })
    }

    /// Reads what [`Vocabulary::save`] writes.
    ///
    /// # Errors
    /// The file cannot be read, is not UTF-8, has a line that is no word, tab and count, names a word
    /// twice, or lacks `<unk>` or `<eos>`.
    pub fn load(file: &Path) -> Result<Vocabulary, Error> {
        let bytes = read_regular(file, LARGEST).map_err(|cause| refused(file, cause))?;
        let text = String::from_utf8(bytes).map_err(|error| Error::NotUtf8 {
            file: file.display().to_string(),
            offset: error.utf8_error().valid_up_to() as u64,
        })?;
        let entries = text.lines().enumerate().map(|(line, entry)| {
            let entry = entry.split_once('\t');
            let entry = entry.filter(|(word, _)| !word.is_empty());
            entry
                .and_then(|(word, count)| Some((word.to_owned(), count.parse().ok()?)))
                .ok_or_else(|| {
                    let line = line + 1;
                    unusable(
                        file,
                        format!("line {line}: must be a word, a tab and its count"),
                    )
                })
        });
        let entries: Vec<(String, u64)> = entries.collect::<Result<_, _>>()?;
        Vocabulary::new(entries).map_err(|problem| unusable(file, problem))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn counted(words: &[(&str, u64)]) -> Vec<(String, u64)> {
        let owned = words.iter().map(|(word, count)| (word.to_string(), *count));
        owned.collect()
    }

    fn listed(vocabulary: &Vocabulary) -> Vec<(&str, u64)> {
        let numbers = 0..vocabulary.len() as u32;
        numbers
            .map(|number| (vocabulary.word(number).unwrap(), vocabulary.count(number)))
            .collect()
    }

    #[test]
    fn rare_words_count_as_unknown() {
        let words = counted(&[("a", 9), ("c", 3), ("b", 3), ("d", 2), ("<eos>", 4)]);
        let vocabulary = Vocabulary::of_counts(words.clone(), 3, None);
        let all = [("a", 9), ("<eos>", 4), ("b", 3), ("c", 3), ("<unk>", 2)];
        assert_eq!(listed(&vocabulary), all);
        assert_eq!((vocabulary.end(), vocabulary.unknown()), (1, 4));
        assert_eq!((vocabulary.number("c"), vocabulary.number("d")), (3, 4));
        let four = Vocabulary::of_counts(words, 1, Some(4));
        let kept = [("a", 9), ("<unk>", 5), ("<eos>", 4), ("b", 3)];
        assert_eq!(listed(&four), kept);
        assert_eq!(four.word(4), None);
        assert_eq!(four.count(4), 0);
    }

    #[test]
    fn placeholders_fill_up_to_a_size() {
        let vocabulary = Vocabulary::of_counts(counted(&[("a", 1)]), 1, None);
        let filled = vocabulary.clone().filled(267_735).unwrap();
        assert_eq!(filled.len(), 267_735);
        assert_eq!(filled.word(0), vocabulary.word(0));
        assert_eq!(filled.count(267_734), 0);
        let refused = vocabulary.filled(2).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a vocabulary of 2 words cannot hold the 3 words found, with <unk> and <eos>; ask for at least 3, or leave out rare words"
        );
    }

    #[test]
    fn a_vocabulary_is_saved_and_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vocabulary.tsv");
        let words = counted(&[("naïve", 7), ("=", 8), ("x", 1)]);
        let vocabulary = Vocabulary::of_counts(words, 1, None);
        vocabulary.save(&file).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, "=\t8\nnaïve\t7\nx\t1\n<eos>\t0\n<unk>\t0\n");
        let loaded = Vocabulary::load(&file).unwrap();
        assert_eq!(loaded, vocabulary);
        assert!(loaded.check(&vocabulary.fingerprint()).is_ok());

        fs::write(&file, text.replace("x\t1", "y\t1")).unwrap();
        let other = Vocabulary::load(&file).unwrap();
        let refused = other
            .check(&vocabulary.fingerprint())
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("a vocabulary of 5 words with fingerprint"),
            "{refused}"
        );
        assert!(refused.contains(&vocabulary.fingerprint()));
        let refusal = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            let text = Vocabulary::load(&file).unwrap_err().to_string();
            text.replace(&file.display().to_string(), "FILE")
        };
        assert_eq!(
            refusal(b"a\t1\nb 2\n"),
            "FILE: line 2: must be a word, a tab and its count"
        );
        assert_eq!(refusal(b"a\t1\na\t2\n"), "FILE: line 2: names a again");
        assert_eq!(
            refusal(b"a\t1\n<unk>\t0\n"),
            "FILE: has no line for <eos>, which every vocabulary needs"
        );
        assert_eq!(
            refusal(b"a\t1\n\xff\t0\n"),
            "FILE: byte 4 is not UTF-8; convert the file to UTF-8 (iconv -t UTF-8)"
        );
    }

    #[test]
    fn buckets_are_those_of_the_paper() {
        let buckets = [0, 999, 1000, 10_000, 10_001].map(Frequency::of);
        let [low, middle, high] = [
            Frequency::Below1000,
            Frequency::From1000,
            Frequency::Above10000,
        ];
        assert_eq!(buckets, [low, low, middle, middle, high]);
        assert_eq!(
            Frequency::ALL.map(|it| it.to_string()),
            ["> 10k", "1k-10k", "< 1k"]
        );
    }
}
