//! What a language model is and which words it knows.

use super::Experiment;
use crate::LabError;
use mnemora_models::LanguageConfig;
use serde::{Deserialize, Serialize};

/// Keys of the tasks `books`, `wikitext-2`, `wikitext-103` and `text`; the window of back-propagation is
/// `task.window`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LanguageSettings {
    /// Words seen less often in the training part are `<unk>`.
    pub least_count: u64,
    /// Words of the vocabulary at most, the most frequent, `<unk>` and `<eos>` among them; 0 for all.
    pub vocabulary: usize,
    /// Words of a vocabulary of `wikitext-103` that is filled with placeholders where its training part is
    /// not at hand, whose words are then placeholders too: to try out a model of its size. 0 for none.
    pub placeholders: usize,
    /// How the task `text` is cut into words: `running` text, or words `spaced` as in WikiText.
    pub words: WordStyleName,
    /// Width of a word's row in the table, which is both looked up and the softmax's.
    pub embedding: usize,
    /// Share of the numbers of a row that dropout leaves out.
    pub embedding_dropout: f64,
    /// Share of the numbers of a projected output that dropout leaves out.
    pub output_dropout: f64,
    /// Words drawn to stand for the vocabulary in the softmax of a training step, 0 for the full
    /// softmax. Evaluation is always by the full one.
    pub samples: usize,
    /// Whether a training window begins with the state in which the one before it ended.
    pub carry: bool,
    /// SHA-256 of the vocabulary; filled in when a run starts.
    pub fingerprint: String,
}

/// How a text is cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WordStyleName {
    /// Words and marks of running text; paragraphs end with `<eos>`.
    Running,
    /// What lies between spaces; lines end with `<eos>`.
    Spaced,
}

impl Default for LanguageSettings {
    fn default() -> Self {
        Self {
            least_count: 3,
            vocabulary: 0,
            placeholders: 0,
            words: WordStyleName::Running,
            embedding: 128,
            embedding_dropout: 0.2,
            output_dropout: 0.2,
            samples: 0,
            carry: true,
            fingerprint: String::new(),
        }
    }
}

impl LanguageSettings {
    /// Ranges; the first violation, with the key and what is right.
    pub(super) fn validate(&self) -> Result<(), String> {
        /// Larger numbers are slips of the keyboard.
        const LARGEST: usize = 1 << 24;
        for (key, value, least) in [
            ("least_count", self.least_count as usize, 0),
            ("vocabulary", self.vocabulary, 0),
            ("placeholders", self.placeholders, 0),
            ("embedding", self.embedding, 1),
            ("samples", self.samples, 0),
        ] {
            if value < least {
                return Err(format!(
                    "language.{key} is {value}, it must be at least {least}"
                ));
            }
            if value > LARGEST {
                return Err(format!(
                    "language.{key} is {value}, it must be at most {LARGEST}"
                ));
            }
        }
        for (key, share) in [
            ("embedding_dropout", self.embedding_dropout),
            ("output_dropout", self.output_dropout),
        ] {
            if !(0.0..1.0).contains(&share) {
                return Err(format!(
                    "language.{key} is {share}, it must be at least 0 and below 1"
                ));
            }
        }
        Ok(())
    }
}

impl Experiment {
    /// The configuration of a language model of `vocabulary` words.
    ///
    /// # Errors
    /// The memory is no recurrent core.
    pub fn language_config(&self, vocabulary: usize) -> Result<LanguageConfig, LabError> {
        let embedding = self.language.embedding;
        let core = self.core_config(embedding);
        Ok(LanguageConfig {
            core: core.ok_or_else(|| LabError::Configuration(self.wrong_memory()))?,
            vocabulary,
            embedding,
        })
    }
}
