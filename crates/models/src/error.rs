use mnemora_memory::MemoryError;

/// Reasons why a model cannot be built.
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
    /// A number that must be positive is not.
    #[error("{key} is {value}, it must be a positive number")]
    NotPositive {
        /// The key of the setting.
        key: &'static str,
        /// Its value.
        value: f64,
    },
    /// A convolution whose kernel is larger than the picture.
    #[error("model.{key} has {kernel}, but the picture has {side} rows or columns there")]
    KernelTooLarge {
        /// The field of the model's configuration.
        key: &'static str,
        /// Rows and columns of the kernel.
        kernel: usize,
        /// Rows or columns of the picture.
        side: usize,
    },
    /// A kernel without a middle.
    #[error("model.{key} is {value}, it must be odd")]
    Even {
        /// The field of the model's configuration.
        key: &'static str,
        /// Rows and columns of the kernel.
        value: usize,
    },
    /// Channels of a representation that a pyramid cannot halve three times.
    #[error("model.{key} has {wide} channels, it must be a multiple of 8 for the pyramid")]
    PyramidChannels {
        /// The key of the setting.
        key: &'static str,
        /// Channels of a representation.
        wide: usize,
    },
    /// Queries that should scale the maps of a representation network in which they do not.
    #[error("model.modulated is true, but queries scale the maps of the network `plain` only")]
    NotModulated,
    /// A representation of several pixels that should be spread.
    #[error(
        "model.spread is true, but only representations of a single pixel are spread, those of the networks 'pyramid' and 'pool'"
    )]
    NotPooled,
    /// Attention to a context that the renderer does not see.
    #[error(
        "model.attention is {heads}, it must be 0 unless the renderer sees the context (renderer_sees_context)"
    )]
    UnseenContext {
        /// The setting's value.
        heads: usize,
    },
    /// Prior and posterior look at a context with no heads.
    #[error("model.latents_look needs heads: model.attention must be at least 1")]
    NoHeads,
    /// A posterior that sees more targets at least than at most.
    #[error("model.posterior_least is {least}, it must be at most model.posterior_targets, {most}")]
    PosteriorTargets {
        /// The setting's value.
        least: usize,
        /// The most targets that it sees.
        most: usize,
    },
    /// Waves of a query finer than a number can tell.
    #[error("model.query_waves is {waves}, it must be at most {most}")]
    QueryWaves {
        /// The setting's value.
        waves: usize,
        /// Its largest value.
        most: usize,
    },
    /// Frames whose sides a model of scenes cannot divide.
    #[error("frames are {height}x{width} pixels, but both sides must be multiples of {side}")]
    SceneFrame {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// What they must be multiples of.
        side: usize,
    },
    /// A number that must not be negative is.
    #[error("model.{key} is {value}, it must be a number of at least 0")]
    Negative {
        /// The key of the setting in the model's table.
        key: &'static str,
        /// Its value.
        value: f64,
    },
    /// A stage of training that ends before the one before it.
    #[error("model.{key} is {value}, it must be at least {least}, as model.{after} is")]
    Earlier {
        /// The key of the setting in the model's table.
        key: &'static str,
        /// Its value.
        value: u64,
        /// The key of the stage before.
        after: &'static str,
        /// When that ends.
        least: u64,
    },
    /// Frames that a predictor of stories cannot bring to the size of its coarsest maps.
    #[error(
        "frames are {height}x{width} pixels, but with coarsest maps of {grid}x{grid} (grid) they must be square, with one of these sides: {}",
        sides.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
    )]
    VideoFrame {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// Rows and columns of the coarsest maps.
        grid: usize,
        /// The sides that fit.
        sides: Vec<usize>,
    },
    /// A transition that needs places of another size.
    #[error("the transition '{kind}' needs places of {needed} numbers, but they have {place}")]
    Place {
        /// The transition.
        kind: &'static str,
        /// Numbers of a place that it needs.
        needed: usize,
        /// Numbers of a place.
        place: usize,
    },
    /// A dictionary with fewer entries than neighbours to read.
    #[error(
        "{neighbours} neighbours are read from a memory of {memorised} frames; it must hold at least {neighbours}"
    )]
    FewerEntriesThanNeighbours {
        /// Neighbours to read.
        neighbours: usize,
        /// Frames to memorise.
        memorised: usize,
    },
    /// No more frames to memorise than landmarks to read before each.
    #[error(
        "{landmarks} landmarks are read from a memory of {memorised} frames; it must hold more"
    )]
    FewerFramesThanLandmarks {
        /// Landmarks to read.
        landmarks: usize,
        /// Frames to memorise.
        memorised: usize,
    },
    /// A linear posterior map whose features are not the parameters of a Gaussian.
    #[error(
        "model.posterior_hidden is 0, a linear map: model.visual_features must be twice model.latent, {}, but is {features}",
        2 * latent
    )]
    PosteriorFeatures {
        /// Features of the encoder.
        features: usize,
        /// Size of `z`.
        latent: usize,
    },
    /// A memory that expects features of another size than the visual network gives.
    #[error(
        "memory.vrnn.features is {memory}, it must be {visual}, the number of features of a frame"
    )]
    MemoryFeatures {
        /// Features that the memory expects.
        memory: usize,
        /// Features of a frame.
        visual: usize,
    },
    /// Normalised means with a single latent: every mean would be 0.
    #[error(
        "filtering.normalise_mean is true, it must be false if model.latent is 1: a single number cannot be normalised"
    )]
    NormalisedNumber,
    /// Frames of a size that the networks of two pathways do not take.
    #[error(
        "the networks of two pathways take frames of 32x32 pixels, but these have {height}x{width}; use dense networks"
    )]
    PathwaysFrame {
        /// Rows of a frame.
        height: usize,
        /// Columns of a frame.
        width: usize,
    },
    /// Frames that are too large for the visual network.
    #[error(
        "the inception network takes frames of at most 32x32 pixels, but these have {height}x{width}; use model.visual = \"dense\""
    )]
    FrameTooLarge {
        /// Rows of a frame.
        height: usize,
        /// Columns of a frame.
        width: usize,
    },
    /// A likelihood with several parameters per pixel, for a network that gives one.
    #[error(
        "the inception network gives one number per pixel, but the likelihood normal needs two; use model.visual = \"dense\""
    )]
    InceptionParameters,
    /// Frames that cannot be halved down to 4x4 pixels.
    #[error(
        "the dcgan and vgg networks take square frames with sides of 8, 16, 32, 64, .. pixels, but these have {height}x{width}"
    )]
    FrameSide {
        /// Rows of a frame.
        height: usize,
        /// Columns of a frame.
        width: usize,
    },
    /// An invalid width of the likelihood's bins.
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
