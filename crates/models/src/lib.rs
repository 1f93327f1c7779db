//! Generative temporal models with memory.
//!
//! - [`filtering`]: the maps every dynamical latent-variable model is made of
//!   ([`FilteringModel`]), and the filtering pass that turns them into free energies.
//! - [`inference`]: beliefs improved by gradients; [`iterative`]: the network that learns how.
//! - [`online`]: filtering one step at a time, and what is expected next.
//! - [`particles`]: bounds by many samples.
//! - [`generation`]: sequences sampled from a model, after a prompt or from nothing.
//! - [`segments`]: the gradient of a long sequence in the memory of a short one.
//! - [`gtmm`]: the temporal VAE over any memory (Gemici et al. 2017).
//! - [`srnn`], [`vrnn`]: stochastic recurrent networks (Fraccaro et al. 2016, Chung et al. 2015).
//! - [`svg`]: stochastic video generation (Denton and Fergus 2018).
//! - [`sequence`]: a recurrent core alone, that answers with bits.
//! - [`classifier`]: a recurrent core alone, that names a class.
//! - [`language`]: a recurrent core alone, that says which word comes next; [`word_loss`]: what words
//!   cost under a softmax of any size.
//! - [`encoder_decoder`]: two recurrent cores, one that reads and one that writes.
//! - [`visual`]: encoders and decoders of frames; [`maps`], [`mlp`]: maps from vectors to
//!   vectors.
//! - [`distributions`]: diagonal Gaussians and likelihoods.

pub mod classifier;
pub mod distributions;
pub mod encoder_decoder;
mod error;
pub mod filtering;
pub mod footprint;
pub mod generation;
pub mod gtmm;
pub mod inference;
pub mod iterative;
pub mod language;
pub mod maps;
pub mod mlp;
pub mod online;
pub mod particles;
pub mod segments;
pub mod sequence;
pub mod srnn;
pub mod svg;
pub mod visual;
pub mod vrnn;
pub mod word_loss;

pub use classifier::{Classified, Classifier, ClassifierConfig};
pub use distributions::{DiagonalGaussian, Likelihood, LikelihoodConfig};
pub use encoder_decoder::{
    DecoderInput, EncoderDecoder, EncoderDecoderConfig, PackedSymbols, Written, one_hot_targets,
};
pub use error::ModelError;
pub use filtering::{Filtered, FilteringModel, filter};
pub use footprint::Footprint;
pub use generation::{Generated, generate};
pub use gtmm::{Gtmm, GtmmConfig};
pub use inference::{
    GradientSteps, Improver, InferenceNoise, Inferred, InferredStep, filter_given, infer,
    infer_step,
};
pub use iterative::{Amortized, IterativeConfig, IterativeNet};
pub use language::{LanguageConfig, LanguageModel, LearnedWords, ReadWords, WordDropout, Words};
pub use online::{OnlineStep, decoded_at, expect_next, expected, online_step, unobserved_step};
pub use particles::{ParticleBound, Resampling, particle_bound};
pub use segments::filter_by_segments;
pub use sequence::{Answers, SequenceConfig, SequenceModel};
pub use srnn::{Srnn, SrnnConfig, SrnnFeatures};
pub use svg::{Svg, SvgConfig, SvgNetwork, SvgPrior, SvgSkips};
pub use visual::{FrameShape, VisualConfig};
pub use vrnn::{Vrnn, VrnnConfig};
pub use word_loss::{Predicted, WordLoss, WordSamples};
