//! From an experiment to the configurations of its modules.

use super::{Experiment, LikelihoodName, VisualName};
use crate::LabError;
use burn::tensor::Device;
use mnemora_memory::{CoreConfig, Initializer, MemoryConfig, MemoryError, MemoryName, Place};
use mnemora_models::{
    ClassifierConfig, EncoderDecoderConfig, GtmmConfig, ImageShape, LanguageConfig,
    LikelihoodConfig, SequenceConfig, VisualConfig,
};
use mnemora_worlds::Stream;

impl Experiment {
    /// Draws the parameters of its model, from its seed.
    pub fn initializer(&self, device: &Device) -> Initializer {
        let stream = Stream::new(self.seed, "parameters").at(0);
        Initializer::new(stream, device.clone())
    }

    /// The likelihood of observations measured in bins of width `bin`, or 0 if they are continuous; `squashed` if they
    /// are intensities.
    pub fn likelihood_config(&self, bin: f64, squashed: bool) -> LikelihoodConfig {
        match self.model.likelihood {
            LikelihoodName::Bernoulli => LikelihoodConfig::Bernoulli,
            LikelihoodName::Gaussian => LikelihoodConfig::Gaussian {
                std: self.model.likelihood_std,
            },
            LikelihoodName::Normal => LikelihoodConfig::Normal { bin, squashed },
        }
    }

    /// The configuration of the recurrent core for inputs of this width.
    ///
    /// # Errors
    /// If the memory is not a recurrent core, or its settings conflict.
    pub(crate) fn core_config(&self, input: usize) -> Result<CoreConfig, LabError> {
        let core = self
            .memory
            .core(self.model.memory, input, self.time())
            .map_err(|error| LabError::Configuration(self.of_memory(error)))?;
        core.ok_or_else(|| LabError::Configuration(self.wrong_memory()))
    }

    /// The configuration of the memory of a generative model.
    ///
    /// # Errors
    /// If it is not the memory of a generative model, or its settings conflict.
    pub fn memory_config(&self, place: &Place) -> Result<MemoryConfig, LabError> {
        let memory = self
            .memory
            .memory(self.model.memory, place)
            .map_err(|error| LabError::Configuration(self.of_memory(error)))?;
        memory.ok_or_else(|| LabError::Configuration(self.wrong_memory()))
    }

    /// The text of a memory's error, with the keys that decide how many steps a sequence has.
    fn of_memory(&self, error: MemoryError) -> String {
        match error {
            MemoryError::FewerSlotsThanSteps { steps, .. } => error.to_string().replace(
                &format!("{steps} steps:"),
                &format!("{steps} steps ({}):", self.family().time_words(self)),
            ),
            error => error.to_string(),
        }
    }

    /// The configuration of the core for the copy task.
    ///
    /// # Errors
    /// If the memory is not a recurrent core.
    pub fn sequence_config(&self) -> Result<SequenceConfig, LabError> {
        // Two additional inputs for the flags.
        Ok(SequenceConfig {
            core: self.core_config(self.task.bits + 2)?,
            outputs: self.task.bits,
        })
    }

    /// The configuration of the core that predicts one of `classes` classes from inputs of a width.
    ///
    /// # Errors
    /// If the memory is not a recurrent core.
    pub fn classifier_config(
        &self,
        input: usize,
        classes: usize,
    ) -> Result<ClassifierConfig, LabError> {
        Ok(ClassifierConfig {
            core: self.core_config(input)?,
            head_layers: self.model.head_layers,
            head_hidden: self.model.head_hidden,
            classes,
        })
    }

    /// The configuration of two cores: one reads sequences of `symbols` symbols, the other writes them.
    ///
    /// # Errors
    /// If the memory is not a recurrent core.
    pub fn encoder_decoder_config(&self, symbols: usize) -> Result<EncoderDecoderConfig, LabError> {
        Ok(EncoderDecoderConfig {
            symbols,
            encoder: self.core_config(symbols)?,
            // One additional input for the start symbol.
            decoder: self.core_config(symbols + 1)?,
            head_layers: self.model.head_layers,
            head_hidden: self.model.head_hidden,
        })
    }

    /// The temporal VAE's configuration for frames of this shape, without its memory.
    pub fn model_config(&self, frame: ImageShape, likelihood: LikelihoodConfig) -> GtmmConfig {
        GtmmConfig {
            frame,
            visual: self.visual_config(),
            prior_hidden: self.model.prior_hidden,
            posterior_hidden: self.model.posterior_hidden,
            likelihood,
        }
    }

    fn visual_config(&self) -> VisualConfig {
        match self.model.visual {
            VisualName::Inception => VisualConfig::Inception,
            VisualName::Pathways => VisualConfig::Pathways {
                width: self.model.visual_width,
            },
            VisualName::Dense => VisualConfig::Dense {
                hidden: self.model.visual_hidden,
                features: self.model.visual_features,
            },
        }
    }

    /// The sizes that the temporal VAE gives its memory, for conditions of a width.
    pub fn place(&self, condition: usize) -> Place {
        let latent = self.model.latent;
        Place {
            latent,
            features: self.visual_config().features(latent),
            condition,
            time: self.time(),
        }
    }

    /// The memories that the task can have.
    pub(crate) fn memories(&self) -> impl Iterator<Item = MemoryName> {
        let actions = self.family().conditions(self) > 0;
        let memories = self.family().memories().iter().copied();
        memories.filter(move |memory| actions || !memory.needs_actions())
    }

    /// The error that lists the memories the task can have.
    pub(super) fn wrong_memory(&self) -> String {
        let names: Vec<&str> = self.memories().map(MemoryName::as_str).collect();
        format!(
            "model.memory is '{}', for the task {} it must be one of {}",
            self.model.memory.as_str(),
            self.task.name.as_str(),
            names.join(", ")
        )
    }

    /// The configuration of a language model of `vocabulary` words.
    ///
    /// # Errors
    /// If the memory is not a recurrent core.
    pub fn language_config(&self, vocabulary: usize) -> Result<LanguageConfig, LabError> {
        let embedding = self.language.embedding;
        Ok(LanguageConfig {
            core: self.core_config(embedding)?,
            vocabulary,
            embedding,
        })
    }
}
