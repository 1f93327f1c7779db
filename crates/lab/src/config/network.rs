//! Which generative model, its sizes, and how beliefs about its latents are found.

use serde::{Deserialize, Serialize};

/// The generative models by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelName {
    /// The temporal VAE around a memory (Gemici et al. 2017).
    Gtmm,
    /// The variational recurrent network (Chung et al. 2015).
    Vrnn,
    /// The stochastic recurrent network (Fraccaro et al. 2016).
    Srnn,
    /// Stochastic video generation (Denton and Fergus 2018).
    Svg,
}

impl ModelName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gtmm, Self::Vrnn, Self::Srnn, Self::Svg];

    /// As in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gtmm => "gtmm",
            Self::Vrnn => "vrnn",
            Self::Srnn => "srnn",
            Self::Svg => "svg",
        }
    }
}

/// One size table a model that has no memory beside its recurrent networks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkSettings {
    /// The variational recurrent network.
    pub vrnn: VrnnNetworkSettings,
    /// The stochastic recurrent network.
    pub srnn: SrnnNetworkSettings,
    /// Stochastic video generation.
    pub svg: SvgNetworkSettings,
}

/// Sizes of the variational recurrent network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VrnnNetworkSettings {
    /// Size of the LSTM's state.
    pub hidden: usize,
    /// Hidden layers of each network.
    pub layers: usize,
    /// Units of the layers that see observations, and of the decoder's.
    pub observation_units: usize,
    /// Units of the layers of latents, prior and posterior.
    pub latent_units: usize,
}

/// Sizes of the stochastic recurrent network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SrnnNetworkSettings {
    /// Size of the LSTM's state.
    pub hidden: usize,
    /// Units of each hidden layer.
    pub units: usize,
    /// Hidden layers of prior and posterior.
    pub layers: usize,
    /// Hidden layers of the decoder.
    pub decoder_layers: usize,
    /// Whether the posterior sees what comes after a step, as the original's does; what is drawn as
    /// expected then comes from latents that have, too.
    pub smoothing: bool,
}

/// Sizes and choices of stochastic video generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SvgNetworkSettings {
    /// Networks for frames: `dcgan` or `vgg`.
    pub network: SvgNetworkName,
    /// Channels of the finest level; 64 in the paper.
    pub width: usize,
    /// Features of a frame.
    pub features: usize,
    /// Units of each layer of the LSTMs.
    pub hidden: usize,
    /// Layers of the predictor's LSTM.
    pub predictor_layers: usize,
    /// Layers of the LSTMs of prior and posterior.
    pub latent_layers: usize,
    /// Whether a linear map stands before each LSTM.
    pub embedding: bool,
    /// Prior of the latents: `learned` or `fixed`.
    pub prior: SvgPriorName,
    /// Which frame's maps the decoder is given: `observed`, the last one that was, `previous`, `first`
    /// or `off`.
    pub skips: SvgSkipsName,
}

/// The networks of SVG by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SvgNetworkName {
    /// Convolutions of stride 2.
    Dcgan,
    /// Deep stacks of 3x3 convolutions between poolings.
    Vgg,
}

/// The priors of SVG by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SvgPriorName {
    /// By an LSTM of its own.
    Learned,
    /// Standard normal.
    Fixed,
}

/// The skips of SVG by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SvgSkipsName {
    /// From the last frame that was observed.
    Observed,
    /// From the frame before, observed or generated.
    Previous,
    /// From the first frame.
    First,
    /// None.
    Off,
}

impl Default for SvgNetworkSettings {
    fn default() -> Self {
        Self {
            network: SvgNetworkName::Dcgan,
            width: 64,
            features: 128,
            hidden: 256,
            predictor_layers: 2,
            latent_layers: 1,
            embedding: true,
            prior: SvgPriorName::Learned,
            skips: SvgSkipsName::Observed,
        }
    }
}

impl Default for VrnnNetworkSettings {
    fn default() -> Self {
        Self {
            hidden: 256,
            layers: 2,
            observation_units: 256,
            latent_units: 256,
        }
    }
}

impl Default for SrnnNetworkSettings {
    fn default() -> Self {
        Self {
            hidden: 300,
            units: 500,
            layers: 1,
            decoder_layers: 2,
            smoothing: false,
        }
    }
}

/// The ways to find beliefs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyName {
    /// The model's own posterior network, trained with it.
    Direct,
    /// Amortized variational filtering: a network that improves beliefs by their gradients (avf).
    Iterative,
    /// Gradient steps on each belief, without any network (avf, Algorithm 1).
    Gradient,
}

impl StrategyName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Iterative, Self::Gradient];

    /// As in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Iterative => "iterative",
            Self::Gradient => "gradient",
        }
    }
}

/// How beliefs about latents are found, in training and after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilteringSettings {
    /// Which way: `direct`, `iterative` or `gradient`. `direct` reads no other key of this table.
    pub strategy: StrategyName,
    /// Rounds in which a belief is improved at each time step.
    pub iterations: usize,
    /// Samples of a belief for its free energy.
    pub samples: usize,
    /// Rate of the steps of `gradient`.
    pub rate: f64,
    /// Units of both layers of the network of `iterative`.
    pub hidden: usize,
    /// Whether that network sees the observation beside belief and gradient.
    pub observe: bool,
    /// Whether new means are normalised.
    pub normalise_mean: bool,
    /// Whether that network learns after each time step of a batch, as in the release of avf; if not,
    /// once from each batch, as the model does.
    pub online: bool,
}

impl Default for FilteringSettings {
    fn default() -> Self {
        Self {
            strategy: StrategyName::Direct,
            iterations: 1,
            samples: 1,
            rate: 0.05,
            hidden: 1024,
            observe: false,
            normalise_mean: false,
            online: false,
        }
    }
}
