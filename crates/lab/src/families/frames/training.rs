//! The temporal VAE in training, and its parts.

use crate::families::trainer::Trainer;
use mnemora_memory::{AnyMemory, Count, Memory};
use mnemora_models::Gtmm;
use mnemora_training::{arrays::parameters_of, memory_use::Parts};

/// The model that experiments train, around a memory.
pub type Model<M = AnyMemory> = Gtmm<M>;

impl<M: Memory> Trainer<Model<M>> {
    /// Trainable numbers, starting with the whole model.
    pub fn parts(&self) -> Parts {
        parts(&self.model, self.strategy.parameters())
    }
}

/// Trainable numbers of a model, starting with all of it; `inference` are those of an inference network.
pub fn parts<M: Memory>(model: &Model<M>, inference: Option<Count>) -> Parts {
    let own = parameters_of(model);
    let mut parts = vec![
        ("model".into(), own + inference.unwrap_or(Count::NONE)),
        ("memory".into(), parameters_of(&model.memory)),
        ("encoder".into(), parameters_of(&model.encoder)),
        ("posterior".into(), parameters_of(&model.posterior)),
        ("prior".into(), parameters_of(&model.prior)),
        ("decoder".into(), parameters_of(&model.decoder)),
    ];
    parts.extend(inference.map(|count| ("inference".to_owned(), count)));
    parts
}
