//! Settings of a language model and its vocabulary.

use mnemora_worlds::WordStyle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of the tasks `books`, `wikitext-2`, `wikitext-103` and `text`. The window of back-propagation is `task.window`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LanguageSettings {
    /// Words that occur less often than this in the training part become `<unk>`.
    pub least_count: u64,
    /// Size limit of the vocabulary: the most frequent words are kept, including `<unk>` and `<eos>`; 0 for all.
    pub vocabulary: usize,
    /// To try out a model of the size of `wikitext-103` without its text: the vocabulary size to fill up with
    /// placeholders. If the training part is missing, the text consists of placeholders, too. 0 for none.
    pub placeholders: usize,
    /// How the task `text` is split into words: `running` text, or words `spaced` as in WikiText.
    pub words: WordStyle,
    /// Width of a word embedding. The table is used both as input and in the softmax.
    pub embedding: usize,
    /// Dropout rate of the embeddings.
    pub embedding_dropout: f64,
    /// Dropout rate of the projected outputs.
    pub output_dropout: f64,
    /// Words sampled to stand for the vocabulary in the softmax of a training step, 0 for the full softmax. Evaluation
    /// always uses the full softmax.
    pub samples: usize,
    /// Whether a training window starts from the final state of the previous one.
    pub carry: bool,
    /// SHA-256 of the vocabulary; filled in when a run starts.
    pub fingerprint: String,
}

impl Default for LanguageSettings {
    fn default() -> Self {
        Self {
            least_count: 3,
            vocabulary: 0,
            placeholders: 0,
            words: WordStyle::Running,
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
    /// Checks ranges. The error is the first violation, with the key and the allowed values.
    pub(crate) fn validate(&self) -> Result<(), String> {
        /// Larger numbers are typing errors.
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
