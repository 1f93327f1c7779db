//! The table of models of recorded sequences that have no memory besides their recurrent networks. A new model is
//! added here and nowhere else.
//!
//! A row names a model and its settings. From the rows come all types for choosing a model by name:
//! [`ModelName`], [`NetworkSettings`] (one table of an experiment's TOML per model), [`NetworkConfig`], [`AnyNetwork`].

// There is one value per model, so the size of the largest variant does not matter.
#![allow(clippy::large_enum_variant)]

use crate::{
    FilteringModel, Footprint, ImageShape, LikelihoodConfig, ModelError, Srnn, SrnnConfig, Svg,
    SvgConfig, Vrnn, VrnnConfig,
};
use burn::module::Module;
use mnemora_memory::Initializer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a model needs to know about its data besides its own settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Shape of an observation.
    pub frame: ImageShape,
    /// Likelihood of observations.
    pub likelihood: LikelihoodConfig,
    /// Size of `z`.
    pub latent: usize,
}

/// Generic code to run on an [`AnyNetwork`], whose type of model is known only at run time.
pub trait WithModel {
    /// Its result.
    type Output;

    /// Runs the operation.
    fn with<M: FilteringModel<State: 'static> + Module + 'static>(self, model: M) -> Self::Output;
}

/// Generates names, settings and the types that hold any of the models from their table.
macro_rules! table {
    ($($(#[$doc:meta])* $text:literal $key:ident $name:ident($config:ty);)+) => {
        /// The generative models by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum ModelName {
            /// The temporal VAE around a memory (Gemici et al. 2017).
            Gtmm,
            /// The model with a spatial memory (Fraccaro et al. 2018).
            GtmSm,
            /// The consistent GQN: one latent for a scene (Kumar et al. 2018).
            Cgqn,
            /// The GQN: a latent for each query (Eslami et al. 2018), with the networks of the consistent one.
            Gqn,
            /// The same networks without latents.
            Deterministic,
            /// The GQN in its original form.
            GqnOriginal,
            /// The stochastic state-space model of stories (Buesing et al. 2018).
            Sssm,
            /// Stochastic variational video prediction (Babaeizadeh et al. 2018).
            Sv2p,
            /// The same predictor of video without a latent (Finn et al. 2016).
            Cdna,
            $($(#[$doc])* $name,)+
        }

        impl ModelName {
            /// All models.
            pub const ALL: &[Self] = &[
                Self::Gtmm, Self::GtmSm, Self::Cgqn, Self::Gqn, Self::Deterministic, Self::GqnOriginal, Self::Sssm,
                Self::Sv2p, Self::Cdna, $(Self::$name,)+
            ];
            /// The models of recorded sequences.
            pub const OF_RECORDINGS: &[Self] = &[Self::Gtmm, $(Self::$name,)+];
            /// The models of scenes.
            pub const OF_SCENES: &[Self] = &[
                Self::Cgqn, Self::Gqn, Self::Deterministic, Self::GqnOriginal, Self::Sssm, Self::Sv2p, Self::Cdna,
            ];

            /// Whether it is a model of scenes that needs stories: views that are moments, one after the other.
            pub const fn needs_stories(self) -> bool {
                matches!(self, Self::Sssm | Self::Sv2p | Self::Cdna)
            }


            /// The name in configurations.
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::Gtmm => "gtmm",
                    Self::GtmSm => "gtm-sm",
                    Self::Cgqn => "cgqn",
                    Self::Gqn => "gqn",
                    Self::Deterministic => "deterministic",
                    Self::GqnOriginal => "gqn-original",
                    Self::Sssm => "sssm",
                    Self::Sv2p => "sv2p",
                    Self::Cdna => "cdna",
                    $(Self::$name => $text,)+
                }
            }
        }

        /// Settings of the models that have no memory besides their recurrent networks, one table per model.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct NetworkSettings {
            $($(#[$doc])* pub $key: $config,)+
        }

        impl NetworkSettings {
            /// The configuration of the named model; `None` for the temporal VAE, the model with a spatial memory and those
            /// of scenes, which have other settings.
            pub fn network(&self, name: ModelName, data: &Recorded) -> Option<NetworkConfig> {
                match name {
                    $(ModelName::$name => Some(NetworkConfig::$name(self.$key.fit(data))),)+
                    _ => None,
                }
            }
        }

        /// Configuration of an [`AnyNetwork`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum NetworkConfig {
            $($(#[$doc])* $name($config),)+
        }

        impl NetworkConfig {
            /// Builds the model.
            ///
            /// # Errors
            /// A size is invalid.
            pub fn init(&self, init: &mut Initializer) -> Result<AnyNetwork, ModelError> {
                Ok(match self {
                    $(Self::$name(config) => AnyNetwork::$name(config.init(init)?),)+
                })
            }
        }

        /// Any of the models of the table; the temporal VAE is not among them.
        #[derive(Clone, Debug)]
        pub enum AnyNetwork {
            $($(#[$doc])* $name($name),)+
        }

        impl AnyNetwork {
            /// Memory that learning needs, for observations of `numbers` numbers.
            pub fn footprint(&self, numbers: usize) -> Footprint {
                match self {
                    $(Self::$name(model) => model.footprint(numbers),)+
                }
            }

            /// Runs an operation on the model.
            pub fn with<W: WithModel>(self, what: W) -> W::Output {
                match self {
                    $(Self::$name(model) => what.with(model),)+
                }
            }
        }
    };
}

// The name in an experiment, the table of its settings, the model and its configuration.
table! {
    /// The variational recurrent network (Chung et al. 2015).
    "vrnn" vrnn Vrnn(VrnnConfig);
    /// The stochastic recurrent network (Fraccaro et al. 2016).
    "srnn" srnn Srnn(SrnnConfig);
    /// Stochastic video generation (Denton and Fergus 2018).
    "svg" svg Svg(SvgConfig);
}
