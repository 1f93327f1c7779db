/// An error in building a memory.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MemoryError {
    /// A size that must be at least one is zero.
    #[error("memory.{memory}.{field} is 0, it must be at least 1")]
    ZeroSize {
        /// The memory system, by its name in configurations.
        memory: &'static str,
        /// The field of its configuration.
        field: &'static str,
    },
    /// An LRU memory writes each head to a different slot.
    #[error("memory.lru.slots is {slots}, it must be at least memory.lru.reads, which is {reads}")]
    FewerSlotsThanHeads {
        /// Memory rows.
        slots: usize,
        /// Heads.
        reads: usize,
    },
    /// A store of the last latents would forget latents of the same sequence.
    #[error(
        "memory.{memory}.slots is {slots}, but a sequence has {steps} steps: it must be at least {steps}, or 0 for \
         as many as needed"
    )]
    FewerSlotsThanSteps {
        /// The memory system, by its name in configurations.
        memory: &'static str,
        /// Slots.
        slots: usize,
        /// Steps of a sequence.
        steps: usize,
    },
    /// A number that must be positive is not.
    #[error("memory.{memory}.{field} is {value}, it must be a positive number")]
    NotPositive {
        /// The memory system, by its name in configurations.
        memory: &'static str,
        /// The field of its configuration.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// A number that must be finite is not.
    #[error("memory.{memory}.{field} is {value}, it must be a finite number")]
    NotFinite {
        /// The memory system, by its name in configurations.
        memory: &'static str,
        /// The field of its configuration.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// A memory that follows actions was given to a task without any.
    #[error(
        "memory {memory} needs actions: it is for tasks that tell the model which move led to each frame, such as \
         mnist-map"
    )]
    NeedsActions {
        /// The memory system, by its name in configurations.
        memory: &'static str,
    },
    /// A read asks for more entries than the dictionary can hold.
    #[error(
        "memory.spatial.neighbours is {neighbours}, but the dictionary holds at most {slots} entries: it must be 1 to \
         {slots}"
    )]
    FewerSlotsThanNeighbours {
        /// Entries of the dictionary.
        slots: usize,
        /// Entries of a read.
        neighbours: usize,
    },
    /// An output gate is computed like the other gates, so it needs them.
    #[error(
        "memory.rmc.output_gate is true, it must be false for memory.rmc.gates 'none' (or gates \
         must be 'unit' or 'memory')"
    )]
    OutputGateWithoutGates,
}

/// Returns an error for the first size that is zero.
pub(crate) fn require_positive(
    memory: &'static str,
    sizes: &[(&'static str, usize)],
) -> Result<(), MemoryError> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some(&(field, _)) => Err(MemoryError::ZeroSize { memory, field }),
        None => Ok(()),
    }
}

/// Returns an error for the first number that is not finite and positive.
pub(crate) fn require_positive_number(
    memory: &'static str,
    numbers: &[(&'static str, f64)],
) -> Result<(), MemoryError> {
    let wrong = |(_, value): &&(&'static str, f64)| !(value.is_finite() && *value > 0.0);
    match numbers.iter().find(wrong) {
        Some(&(field, value)) => Err(MemoryError::NotPositive {
            memory,
            field,
            value,
        }),
        None => Ok(()),
    }
}
