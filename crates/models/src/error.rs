use mnemora_memory::MemoryError;

/// Why a model cannot be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The memory cannot be built.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A size that must be at least one is zero.
    #[error("model.{field} is 0, it must be at least 1")]
    ZeroSize {
        /// The field of the model's configuration.
        field: &'static str,
    },
    /// Frames that the visual network cannot take.
    #[error(
        "the inception network takes frames of at most 32x32 pixels, these have {height}x{width}; use model.visual = \"dense\""
    )]
    FrameTooLarge {
        /// Rows of a frame.
        height: usize,
        /// Columns of a frame.
        width: usize,
    },
    /// A standard deviation that is not a positive number.
    #[error("model.likelihood_std is {std}, it must be a positive number")]
    LikelihoodStd {
        /// The value found.
        std: f64,
    },
}
