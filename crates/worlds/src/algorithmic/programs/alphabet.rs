//! The characters of programs and answers, and their numbers.

use crate::Error;

/// All characters; the last one ends a program or an answer.
const CHARACTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz+-*%()[]=<>: \n.";

/// The numbering of characters.
#[derive(Clone, Copy, Debug)]
pub enum Alphabet {}

impl Alphabet {
    /// Number of characters: digits, lower-case letters, `+ - * % ( ) [ ] = < > :`,
    /// space, line end, and the end mark of a text.
    pub const SIZE: usize = CHARACTERS.len();

    /// The number of the end mark of programs and answers, written as a full stop.
    pub const END: u8 = (CHARACTERS.len() - 1) as u8;

    /// The numbers of the characters of `text`, without an end mark.
    ///
    /// # Errors
    /// A character without a number, or an end mark within the text; the error names line and column.
    pub fn encode(text: &str) -> Result<Vec<u8>, Error> {
        let (mut line, mut column) = (1, 1);
        let mut numbers = Vec::with_capacity(text.len() + 1);
        for character in text.chars() {
            match number(character) {
                Some(number) if number != Alphabet::END => numbers.push(number),
                _ => {
                    return Err(Error::Program {
                        line,
                        column,
                        problem: format!(
                            "the character {character:?} has no number in the alphabet of programs"
                        ),
                    });
                }
            }
            (line, column) = match character {
                '\n' => (line + 1, 1),
                _ => (line, column + 1),
            };
        }
        Ok(numbers)
    }

    /// The text of `numbers`, up to the first end mark; an invalid number is
    /// shown as `?`.
    pub fn decode(numbers: &[u8]) -> String {
        let until_end = numbers
            .iter()
            .take_while(|&&number| number != Alphabet::END);
        let character = |number: &u8| CHARACTERS.get(usize::from(*number)).unwrap_or(&b'?');
        until_end
            .map(|number| char::from(*character(number)))
            .collect()
    }
}

fn number(character: char) -> Option<u8> {
    let found = CHARACTERS
        .iter()
        .position(|&other| char::from(other) == character)?;
    u8::try_from(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_a_number_of_its_own() {
        let text: String = CHARACTERS.iter().map(|&byte| char::from(byte)).collect();
        let without_end = text.trim_end_matches('.');
        let numbers = Alphabet::encode(without_end).unwrap();
        assert!(numbers.iter().copied().eq(0..Alphabet::END));
        assert_eq!(Alphabet::decode(&numbers), without_end);
        assert_eq!(Alphabet::SIZE, 51);
        assert_eq!(Alphabet::decode(&[1, 2, 99, Alphabet::END, 3]), "12?");
    }

    #[test]
    fn characters_without_a_number_are_refused_with_their_place() {
        let refusal = |text: &str| Alphabet::encode(text).unwrap_err().to_string();
        assert_eq!(
            refusal("1\n2é"),
            "program, line 2, column 2: the character 'é' has no number in the alphabet of programs"
        );
        assert!(refusal("1.").contains("line 1, column 2: the character '.'"));
    }
}
