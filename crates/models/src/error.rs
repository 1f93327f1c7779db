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
    /// A linear posterior map on features that are no Gaussian's parameters.
    #[error(
        "model.posterior_hidden is 0, a linear map: model.visual_features must be twice model.latent, {}, it is {features}",
        2 * latent
    )]
    PosteriorFeatures {
        /// Features of the encoder.
        features: usize,
        /// Size of `z`.
        latent: usize,
    },
    /// A memory that reads features of another size than the frames' network gives.
    #[error("memory.vrnn.features is {memory}, it must be {visual}, the features of a frame")]
    MemoryFeatures {
        /// What the memory takes.
        memory: usize,
        /// What there is.
        visual: usize,
    },
    /// Means of one number that are to be normalised: every one would be 0.
    #[error(
        "filtering.normalise_mean is true, it must be false where model.latent is 1: a single number has no spread"
    )]
    NormalisedNumber,
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
    /// A likelihood with several parameters a pixel, for networks that draw one.
    #[error(
        "the inception network gives one number a pixel, the likelihood normal needs two; use model.visual = \"dense\""
    )]
    InceptionParameters,
    /// Frames that halving does not bring to 4x4 pixels.
    #[error(
        "the dcgan and vgg networks take square frames of 8, 16, 32, 64, .. pixels a side, these have {height}x{width}"
    )]
    FrameSide {
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
    /// Bins of a width that is none.
    #[error("the width of the likelihood's bins is {bin}, it must be 0 or a positive number")]
    LikelihoodBin {
        /// The value found.
        bin: f64,
    },
}

impl ModelError {
    /// Refuses the first size that is zero.
    pub(crate) fn require_positive(sizes: &[(&'static str, usize)]) -> Result<(), Self> {
        match sizes.iter().find(|(_, size)| *size == 0) {
            Some((field, _)) => Err(Self::ZeroSize { field }),
            None => Ok(()),
        }
    }
}
