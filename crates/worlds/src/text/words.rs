//! Texts cut into words, and words into numbers while they are read.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::vocabulary::END;
use crate::Error;
use crate::folder::refused;

/// How a text is cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WordStyle {
    /// Words are what lies between spaces, each line ends with `<eos>`: texts that were cut before, as
    /// those of WikiText.
    Spaced,
    /// Words are runs of letters and digits, with apostrophes between letters and points and commas
    /// between digits; every run of one other character is a word, but underscores, which mark
    /// emphasis, are left out. Each paragraph ends with `<eos>`: running text. What the lines
    /// `*** START OF` and `*** END OF` of Project Gutenberg leave outside is skipped.
    Running,
}

/// Bytes read at once.
const BUFFER: usize = 1 << 18;

/// Numbers of words in the order in which they were first read.
#[derive(Default)]
pub(super) struct Interner {
    numbers: HashMap<Box<str>, u32, BuildHasherDefault<WordHasher>>,
}

impl Interner {
    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        // A text of 2^32 different words does not fit in memory.
        let number = self.numbers.len() as u32;
        self.numbers.insert(word.into(), number);
        number
    }

    /// The number of `<eos>`.
    pub(super) fn end(&mut self) -> u32 {
        self.number(END)
    }

    /// All words, each at its number.
    pub(super) fn into_words(self) -> Vec<Box<str>> {
        let mut words: Vec<(u32, Box<str>)> = self
            .numbers
            .into_iter()
            .map(|(word, number)| (number, word))
            .collect();
        words.sort_unstable_by_key(|(number, _)| *number);
        words.into_iter().map(|(_, word)| word).collect()
    }

    /// The words of a file, also one compressed by gzip.
    pub(super) fn read_file(&mut self, file: &Path, style: WordStyle) -> Result<Vec<u32>, Error> {
        let opened = File::open(file).map_err(|cause| refused(file, cause))?;
        self.read(opened, &file.display().to_string(), style)
    }

    pub(super) fn read(
        &mut self,
        source: impl Read,
        file: &str,
        style: WordStyle,
    ) -> Result<Vec<u32>, Error> {
        let mut source = BufReader::with_capacity(BUFFER, source);
        let start = source.fill_buf().map_err(|cause| Error::Read {
            file: file.to_owned(),
            cause,
        })?;
        if start.starts_with(&[0x1f, 0x8b]) {
            let unpacked = MultiGzDecoder::new(source);
            let lines = BufReader::with_capacity(BUFFER, unpacked);
            self.read_lines(lines, file, style, |file, cause| Error::DamagedGzip {
                file,
                cause,
            })
        } else {
            self.read_lines(source, file, style, |file, cause| Error::Read {
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
        failed: fn(String, std::io::Error) -> Error,
    ) -> Result<Vec<u32>, Error> {
        let end = self.end();
        let mut words = Vec::new();
        let mut bytes = Vec::new();
        let mut offset = 0;
        // Whether a paragraph has begun and not ended.
        let mut paragraph = false;
        loop {
            bytes.clear();
            let read = lines.read_until(b'\n', &mut bytes);
            let length = read.map_err(|cause| failed(file.to_owned(), cause))?;
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

/// Bytes of the letters and digits with which a text begins, and of what joins them.
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

/// A quick hash of short texts: eight bytes at a time are multiplied in. Whoever chose the words so
/// that they collide would only slow down the reading of their own text.
#[derive(Default)]
struct WordHasher(u64);

impl WordHasher {
    /// 2^64 divided by the golden ratio.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

    fn mix(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(WordHasher::MULTIPLIER);
        self.0 = mixed ^ (mixed >> 29);
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        for &eight in eights {
            self.mix(u64::from_le_bytes(eight));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 ^= u64::from(byte);
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(WordHasher::MULTIPLIER)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn words(text: &[u8], style: WordStyle) -> Result<Vec<String>, Error> {
        let mut interner = Interner::default();
        let numbers = interner.read(text, "FILE", style)?;
        let words = interner.into_words();
        let named = numbers
            .into_iter()
            .map(|number| words[number as usize].to_string());
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
