//! Texts cut into words, and words into numbers while they are read.

use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU32;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::vocabulary::END;
use crate::Error;
use crate::error::unusable;
use crate::files::{Files, Room, beyond};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a text is divided into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WordStyle {
    /// Words are separated by spaces, and each line ends with `<eos>`: for tokenised texts such as
    /// WikiText.
    Spaced,
    /// Running text. Words are runs of letters and digits, with apostrophes between letters, and points and commas
    /// between digits. Every run of one other character is a word; underscores, which mark
    /// emphasis, are left out. Each paragraph ends with `<eos>`. Text outside the lines
    /// `*** START OF` and `*** END OF` of Project Gutenberg is skipped.
    Running,
}

/// Number of bytes read at a time.
const BUFFER: usize = 1 << 18;
/// Approximate bytes per different word in tables and vocabulary.
const WORD: usize = 200;

/// Numbers of words in the order in which they were first read.
///
/// The speed of reading depends on this table, so words are stored in the order of their numbers: frequent words,
/// which occur early, share a few pages.
#[derive(Default)]
pub(super) struct Interner {
    /// All words, one after the other.
    letters: String,
    /// `[number]`: the hash of a word, and its end in `letters`.
    words: Vec<(u64, usize)>,
    /// Numbers, each at the first free place from its hash on. The number of places is a power of two, and at most
    /// half of them are taken.
    places: Vec<Option<NonZeroU32>>,
}

impl Interner {
    fn number(&mut self, word: &str) -> u32 {
        if 2 * self.words.len() >= self.places.len() {
            self.grow();
        }
        let hash = hash(word.as_bytes());
        let mut place = self.home(hash);
        // There is always a free place, since half of them are free.
        while let Some(above) = self.places[place] {
            let number = above.get() - 1;
            if self.words[number as usize].0 == hash && self.word(number) == word {
                return number;
            }
            place = (place + 1) & (self.places.len() - 1);
        }
        self.letters.push_str(word);
        self.words.push((hash, self.letters.len()));
        // A text of 2^32 different words does not fit in memory.
        let above = self.words.len() as u32;
        self.places[place] = NonZeroU32::new(above);
        above - 1
    }

    /// The place where the search for a hash starts.
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    fn word(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number
            .checked_sub(1)
            .map_or(0, |before| self.words[before].1);
        &self.letters[start..self.words[number].1]
    }

    fn grow(&mut self) {
        self.places = vec![None; (2 * self.places.len()).max(1 << 12)];
        for number in 0..self.words.len() {
            let mut place = self.home(self.words[number].0);
            while self.places[place].is_some() {
                place = (place + 1) & (self.places.len() - 1);
            }
            self.places[place] = NonZeroU32::new(number as u32 + 1);
        }
    }

    /// The number of `<eos>`.
    pub(super) fn end(&mut self) -> u32 {
        self.number(END)
    }

    /// All words, each at its number.
    pub(super) fn into_words(self) -> Vec<String> {
        let numbers = 0..self.words.len() as u32;
        numbers.map(|number| self.word(number).to_owned()).collect()
    }

    /// The words of a file, which may be compressed with gzip.
    pub(super) fn read_file(
        &mut self,
        file: &Path,
        style: WordStyle,
        files: &Files,
    ) -> Result<Vec<u32>, Error> {
        let (opened, size) = files.open(file)?;
        let words = self.read(opened, &file.display().to_string(), style, files.room(size))?;
        files.keep(file, size_of_val(words.as_slice()))?;
        Ok(words)
    }

    pub(super) fn read(
        &mut self,
        source: impl Read,
        file: &str,
        style: WordStyle,
        room: Room,
    ) -> Result<Vec<u32>, Error> {
        let mut source = BufReader::with_capacity(BUFFER, source);
        let start = source.fill_buf().map_err(|cause| Error::Read {
            file: file.to_owned(),
            cause,
        })?;
        if start.starts_with(&[0x1f, 0x8b]) {
            let unpacked = room.bound(MultiGzDecoder::new(source));
            let lines = BufReader::with_capacity(BUFFER, unpacked);
            self.read_lines(lines, file, style, room, |file, cause| Error::DamagedGzip {
                file,
                cause,
            })
        } else {
            let lines = BufReader::with_capacity(BUFFER, room.bound(source));
            self.read_lines(lines, file, style, room, |file, cause| Error::Read {
                file,
                cause,
            })
        }
    }

    fn read_lines(
        &mut self,
        mut lines: impl BufRead,
        file: &str,
        style: WordStyle,
        room: Room,
        failed: fn(String, std::io::Error) -> Error,
    ) -> Result<Vec<u32>, Error> {
        let end = self.end();
        let known = self.words.len();
        let mut words = Vec::new();
        let mut bytes = Vec::new();
        let mut offset = 0;
        // Whether a paragraph has begun but not ended.
        let mut paragraph = false;
        loop {
            bytes.clear();
            let read = lines.read_until(b'\n', &mut bytes);
            let length = read.map_err(|cause| match beyond(&cause) {
                Some(problem) => unusable(Path::new(file), problem),
                None => failed(file.to_owned(), cause),
            })?;
            if length == 0 {
                break;
            }
            let line = std::str::from_utf8(&bytes).map_err(|error| Error::NotUtf8 {
                file: file.to_owned(),
                offset: offset + error.valid_up_to() as u64,
            })?;
            let line = match offset {
                0 => line.strip_prefix('\u{feff}').unwrap_or(line),
                _ => line,
            };
            offset += length as u64;
            let taken = size_of_val(words.as_slice()) + WORD * (self.words.len() - known);
            room.check(taken)
                .map_err(|problem| unusable(Path::new(file), problem))?;
            match style {
                WordStyle::Spaced => {
                    words.extend(line.split_ascii_whitespace().map(|word| self.number(word)));
                    words.push(end);
                }
                WordStyle::Running if line.starts_with("*** START OF") => {
                    words.clear();
                    paragraph = false;
                }
                WordStyle::Running if line.starts_with("*** END OF") => break,
                WordStyle::Running => {
                    let before = words.len();
                    running_words(line, |word| words.push(self.number(word)));
                    let blank = words.len() == before;
                    if blank && paragraph {
                        words.push(end);
                    }
                    paragraph = !blank;
                }
            }
        }
        if paragraph {
            words.push(end);
        }
        Ok(words)
    }
}

/// Calls `take` with each word of a line of running text.
fn running_words<'a>(line: &'a str, mut take: impl FnMut(&'a str)) {
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() {
            word_length(rest)
        } else {
            let run = rest.find(|next| next != first);
            run.unwrap_or(rest.len())
        };
        let (word, after) = rest.split_at(length);
        if !first.is_whitespace() && first != '_' {
            take(word);
        }
        rest = after;
    }
}

/// Length in bytes of the leading word of a text: letters, digits, and the marks that join them.
fn word_length(text: &str) -> usize {
    let mut before = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let after = characters.peek().map(|(_, after)| *after);
        let joins = |kind: fn(char) -> bool| before.is_some_and(kind) && after.is_some_and(kind);
        let belongs = match character {
            '\'' | '’' => joins(char::is_alphabetic),
            '.' | ',' => joins(|digit| digit.is_ascii_digit()),
            _ => character.is_alphanumeric(),
        };
        if !belongs {
            return at;
        }
        before = Some(character);
    }
    text.len()
}

/// A fast hash of a short text: eight bytes at a time are multiplied in. Users who choose words that collide
/// only slow down the reading of their own text.
fn hash(bytes: &[u8]) -> u64 {
    /// 2^64 divided by the golden ratio.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, eight: [u8; 8]| {
        let mixed = (state ^ u64::from_le_bytes(eight)).wrapping_mul(MULTIPLIER);
        mixed ^ (mixed >> 32)
    };
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut state = bytes.len() as u64;
    for &eight in eights {
        state = mix(state, eight);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(state, last)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;
    use crate::Limits;

    fn words(text: &[u8], style: WordStyle) -> Result<Vec<String>, Error> {
        let mut interner = Interner::default();
        let room = Limits::default().room(text.len());
        let numbers = interner.read(text, "FILE", style, room)?;
        let words = interner.into_words();
        let named = numbers
            .into_iter()
            .map(|number| words[number as usize].clone());
        Ok(named.collect())
    }

    #[test]
    fn spaced_words_are_what_lies_between_spaces() {
        let read = words(" \n = A @-@ b , = \n\nlast".as_bytes(), WordStyle::Spaced).unwrap();
        assert_eq!(read.join(" "), "<eos> = A @-@ b , = <eos> <eos> last <eos>");
        assert!(words(b"", WordStyle::Spaced).unwrap().is_empty());
    }

    #[test]
    fn running_text_is_cut_at_words_and_marks() {
        let text = "\u{feff}Don't \"go\"--said\r\nthe _old_ man's 3,000.5 dogs' . . .\r\n\r\n\r\nÀ propos: l’été\n";
        assert_eq!(
            words(text.as_bytes(), WordStyle::Running)
                .unwrap()
                .join(" "),
            "Don't \" go \" -- said the old man's 3,000.5 dogs ' . . . <eos> À propos : l’été <eos>"
        );
        let book =
            "Title\n\n*** START OF THE BOOK ***\n\nText.\n*** END OF THE BOOK ***\nlicence\n";
        assert_eq!(
            words(book.as_bytes(), WordStyle::Running).unwrap(),
            ["Text", ".", "<eos>"]
        );
    }

    #[test]
    fn gzip_is_read_and_damage_is_named() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(b"one two\n").unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(
            words(&packed, WordStyle::Spaced).unwrap(),
            ["one", "two", "<eos>"]
        );
        let error = words(&packed[..packed.len() - 3], WordStyle::Spaced).unwrap_err();
        assert!(
            error.to_string().starts_with("FILE: damaged gzip data"),
            "{error}"
        );
    }

    #[test]
    fn what_a_packed_text_unpacks_to_is_bounded() {
        let limits = Limits {
            unpacked_bytes: 1 << 16,
            ..Limits::default()
        };
        let read = |line: &[u8], times: usize| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::best());
            packed.write_all(&line.repeat(times)).unwrap();
            let packed = packed.finish().unwrap();
            let room = limits.room(packed.len());
            let read = Interner::default().read(&*packed, "FILE", WordStyle::Spaced, room);
            read.map(|words| words.len())
                .map_err(|error| error.to_string())
        };
        assert_eq!(read(b"one two three\n", 4000), Ok(16_000));
        // An endless line, and many short words, which take more memory than their letters.
        for (line, times) in [(&b"a"[..], 70_000), (b"a b c d e\n", 5000)] {
            let error = read(line, times).unwrap_err();
            assert!(
                error.starts_with("FILE: unpacks to more than 65536 bytes"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_not_utf_8_is_named_with_its_byte() {
        for (text, offset) in [(&b"ab\ncd\xff\n"[..], 5), (b"\xe9", 0), (b"a\n\xc3", 2)] {
            let error = words(text, WordStyle::Spaced).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "FILE: byte {offset} is not UTF-8; convert the file to UTF-8 (iconv -t UTF-8)"
                )
            );
        }
    }

    #[test]
    fn many_words_have_numbers_of_their_own() {
        let mut interner = Interner::default();
        for _ in 0..2 {
            for word in 0..20_000 {
                assert_eq!(interner.number(&word.to_string()), word);
            }
        }
        let words = interner.into_words();
        assert!(
            words
                .into_iter()
                .eq((0..20_000).map(|word| word.to_string()))
        );
    }

    proptest! {
        #[test]
        fn running_words_lose_nothing_but_space_and_underscores(text in "[a-c1-3' .,_é\\-\t]{0,40}") {
            let mut joined = String::new();
            running_words(&text, |word| joined.push_str(word));
            let kept: String = text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect();
            prop_assert_eq!(joined, kept);
        }

        #[test]
        fn numbers_stand_for_the_words_read(text in "[a-d ]{0,200}") {
            let read = words(text.as_bytes(), WordStyle::Spaced).unwrap();
            let mut wanted: Vec<&str> = text.split_whitespace().collect();
            if !text.is_empty() {
                wanted.push("<eos>");
            }
            prop_assert_eq!(read, wanted);
        }
    }
}
