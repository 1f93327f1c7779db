//! Placeholder words for a text that is not available, for trying out a model of its size.

use super::{Text, TextSet, TextSettings};
use crate::images::Origin;
use crate::recordings::corpus::{Part, Parts};
use crate::text::vocabulary::Vocabulary;
use crate::{Error, Stream};

/// Number of placeholder words in a training part.
const TRAINING_WORDS: usize = 1_000_000;
/// Number of placeholder words in a held-out part.
const HELD_OUT_WORDS: usize = 2_000;

impl Text {
    /// A text that is not available at all: a vocabulary of as many placeholders as the settings ask for,
    /// and parts without words, for [`Text::with_placeholder_words`] to fill.
    ///
    /// # Errors
    /// The settings ask for fewer than two words, `<unk>` and `<eos>`.
    pub fn missing(set: TextSet, settings: &TextSettings) -> Result<Text, Error> {
        let size = settings.placeholders.unwrap_or(0);
        Ok(Text {
            name: set.name().to_owned(),
            vocabulary: Vocabulary::of_counts(Vec::new(), 1, None).filled(size)?,
            parts: Parts::default(),
            origin: Origin::Bundled,
            placeholders: Vec::new(),
        })
    }

    /// The text with placeholder words in each part that has no words: a million for training, 2,000 in a held-out
    /// part, drawn from the vocabulary by Zipf's law. A model can learn only the frequency of words from
    /// them. [`Text::placeholder_parts`] names these parts.
    pub fn with_placeholder_words(mut self) -> Text {
        let log_range = ((self.vocabulary.len() + 1) as f64).ln();
        let last = self.vocabulary.len() as u32 - 1;
        for (index, part) in (0..).zip(Part::ALL) {
            if !self.parts.get(part).is_empty() {
                continue;
            }
            let count = match part {
                Part::Train => TRAINING_WORDS,
                _ => HELD_OUT_WORDS,
            };
            let word = |u: f64| ((u * log_range).exp() as u32).saturating_sub(1).min(last);
            let draws = Stream::new(0, "placeholder words").uniform_values(index, count);
            *self.parts.get_mut(part) = draws.into_iter().map(word).collect();
            self.placeholders.push(part);
        }
        self
    }

    /// Parts that consist of placeholder words.
    pub fn placeholder_parts(&self) -> &[Part] {
        &self.placeholders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_text_is_filled_with_placeholders() {
        let settings = TextSettings {
            placeholders: Some(1000),
            ..TextSettings::default()
        };
        let missing = Text::missing(TextSet::WikiText103, &settings).unwrap();
        assert!(missing.words(Part::Train).is_empty());
        let text = missing.clone().with_placeholder_words();
        assert_eq!(text.placeholder_parts(), Part::ALL);
        assert_eq!(text.vocabulary().len(), 1000);
        let words = text.words(Part::Train);
        assert_eq!(words.len(), TRAINING_WORDS);
        assert!(words.iter().all(|&word| word < 1000));
        // Zipf's law: a quarter of all words is among the first five, which become less and less frequent.
        let mut counts = [0_usize; 1000];
        words.iter().for_each(|&word| counts[word as usize] += 1);
        assert!(counts[..5].is_sorted_by(|a, b| a > b), "{:?}", &counts[..5]);
        let expected = (6.0_f64.ln() / 1001.0_f64.ln()) * words.len() as f64;
        let first: usize = counts[..5].iter().sum();
        assert!((first as f64 / expected - 1.0).abs() < 0.02, "{first}");
        let again = missing.with_placeholder_words();
        assert_eq!(again.fingerprint(), text.fingerprint());
        // Available parts stay unchanged.
        let books = Text::bundled(&TextSettings::default()).unwrap();
        let same = books.clone().with_placeholder_words();
        assert_eq!(same.fingerprint(), books.fingerprint());
        assert!(same.placeholder_parts().is_empty());
    }

    #[test]
    fn too_few_placeholders_are_refused() {
        let error = Text::missing(TextSet::WikiText103, &TextSettings::default()).unwrap_err();
        assert!(error.to_string().contains("at least 2"), "{error}");
    }
}
