//! Generative temporal models with memory.
//!
//! - [`filtering`]: the maps that make up every dynamical latent-variable model
//!   ([`FilteringModel`]), and the filtering pass that turns them into free energies.
//! - [`inference`]: beliefs improved by gradients; [`iterative`]: the network that learns to improve them.
//! - [`online`]: filtering one step at a time, and one-step-ahead prediction.
//! - [`particles`]: bounds from many samples.
//! - [`generation`]: sequences sampled from a model, with or without a prompt.
//! - [`segments`]: the gradient of a long sequence with the memory use of a short one.
//! - [`gtmm`]: the temporal VAE over any memory (Gemici et al. 2017).
//! - [`gtm_sm`]: the temporal VAE with a spatial memory (Fraccaro et al. 2018).
//! - [`scenes`]: the GQN and the consistent GQN (Eslami et al. 2018, Kumar et al. 2018), and the predictors of video that
//!   they are compared with: SV2P, CDNA and the sSSM.
//! - [`agents`]: agents that remember, and what they learn from (Santoro et al. 2018, Espeholt et al. 2018).
//! - [`srnn`], [`vrnn`]: stochastic recurrent networks (Fraccaro et al. 2016, Chung et al. 2015).
//! - [`svg`]: stochastic video generation (Denton and Fergus 2018).
//! - [`any`]: the table of models of recorded sequences, chosen by name at run time.
//! - [`sequence`]: a recurrent core that outputs bits.
//! - [`classifier`]: a recurrent core that predicts a class.
//! - [`language`]: a recurrent core that predicts the next word; [`word_loss`]: the loss of words under a
//!   softmax of any size.
//! - [`encoder_decoder`]: two recurrent cores, one that reads and one that writes.
//! - [`visual`]: encoders and decoders of frames; [`maps`], [`mlp`]: maps from vectors to
//!   vectors.
//! - [`distributions`]: the interface of priors, diagonal Gaussians, and likelihoods; [`mixture`]: mixtures
//!   of Gaussians.

pub mod agents;
pub mod any;
#[cfg(test)]
mod check;
pub mod classifier;
pub mod columns;
pub mod distributions;
pub mod encoder_decoder;
mod error;
pub mod filtering;
pub mod footprint;
pub mod generation;
pub mod gtm_sm;
pub mod gtmm;
pub mod inference;
pub mod iterative;
pub mod language;
pub mod maps;
pub mod mixture;
pub mod mlp;
pub mod online;
pub mod particles;
pub mod scenes;
pub mod segments;
pub mod sequence;
pub mod srnn;
pub mod svg;
pub mod visual;
pub mod vrnn;
pub mod word_loss;

pub use agents::{
    Acted, Agent, AgentConfig, AgentLoss, AgentPrepared, Costs, Objective, Observed, Returns,
    TorsoConfig, Trajectories, Transitions, Unrolled, generalised_advantages, objective, v_trace,
};
pub use any::{AnyNetwork, ModelName, NetworkConfig, NetworkSettings, Recorded, WithModel};
pub use classifier::{Classified, Classifier, ClassifierConfig};
pub use columns::{ColumnLikelihood, Columns, ColumnsLikelihood, CountScale};
pub use distributions::{DiagonalGaussian, Distribution, KlFrom, Likelihood, LikelihoodConfig};
pub use encoder_decoder::{
    DecoderInput, EncoderDecoder, EncoderDecoderConfig, PackedSymbols, Written, one_hot_targets,
};
pub use error::ModelError;
pub use filtering::{Filtered, FilteringModel, filter, follow};
pub use footprint::Footprint;
pub use generation::{Generated, generate};
pub use gtm_sm::{
    Elbo, ElboNoise, GtmSm, GtmSmConfig, GtmSmDecoder, GtmSmEncoder, GtmSmState, GtmSmVisual,
    Landmarks, Prediction, PriorKind, Rolled, Shares, Start, Transition, TransitionConfig,
    TransitionKind, Walk, WalkedWorld, Whereabouts,
};
pub use gtmm::{Gtmm, GtmmConfig};
pub use inference::{
    GradientSteps, Improver, InferenceNoise, Inferred, InferredStep, filter_given, infer,
    infer_step,
};
pub use iterative::{Amortized, IterativeConfig, IterativeNet};
pub use language::{LanguageConfig, LanguageModel, LearnedWords, ReadWords, WordDropout, Words};
pub use mixture::MixtureOfGaussians;
pub use online::{
    Foreseen, ForeseenBy, OnlineStep, ScoredStep, decoded_at, expected, foresee, online_step,
    step_and_foresee, unobserved_step,
};
pub use particles::{ParticleBound, Resampling, particle_bound};
pub use scenes::{
    AnyScenes, CdnaConfig, Cgqn, CgqnConfig, Gqn, GqnConfig, Known, KnownScene, Latents, Learned,
    Learning, NetworkName, SceneBound, SceneNet, SceneNetName, Sssm, SssmConfig, Sv2pConfig, Video,
    Views,
};
pub use segments::filter_by_segments;
pub use sequence::{Answers, SequenceConfig, SequenceModel};
pub use srnn::{Srnn, SrnnConfig, SrnnFeatures};
pub use svg::{Svg, SvgConfig, SvgNetwork, SvgPrior, SvgSkips};
pub use visual::{ImageShape, VisualConfig};
pub use vrnn::{Vrnn, VrnnConfig};
pub use word_loss::{Predicted, WordLoss, WordSamples};
