/// Why a memory cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// A size that must be at least one is zero.
    #[error("memory.{memory}.{field} is 0, it must be at least 1")]
    ZeroSize {
        /// The memory system, by its name in configurations.
        memory: &'static str,
        /// The field of its configuration.
        field: &'static str,
    },
    /// An LRU memory writes each head into a slot of its own.
    #[error("memory.lru.slots is {slots}, it must be at least memory.lru.reads, which is {reads}")]
    FewerSlotsThanHeads {
        /// Memory rows.
        slots: usize,
        /// Heads.
        reads: usize,
    },
    /// Without gates there is nothing that an output gate could be computed like.
    #[error(
        "memory.rmc.output_gate is true, it must be false for memory.rmc.gates 'none' (or gates \
         must be 'unit' or 'memory')"
    )]
    OutputGateWithoutGates,
}

/// Refuses the first size that is zero.
pub(crate) fn require_positive(
    memory: &'static str,
    sizes: &[(&'static str, usize)],
) -> Result<(), MemoryError> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some(&(field, _)) => Err(MemoryError::ZeroSize { memory, field }),
        None => Ok(()),
    }
}
