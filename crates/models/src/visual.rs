//! Encoders and decoders of frames.
//!
//! An encoder maps frames with intensities in `[0, 1]` to features. A decoder maps `[z; psi]` to
//! one output per pixel (or several), which the likelihood turns into its parameters, such as logits or means.

mod dcgan;
mod dense;
mod inception;
mod layers;
mod pathways;
mod vgg;

pub use dcgan::{DcganDecoder, DcganEncoder};
pub use dense::{DenseDecoder, DenseEncoder};
pub use inception::{InceptionDecoder, InceptionEncoder};
pub use layers::{Block, Convolution, Filter};
pub(crate) use layers::{Kernel, WEIGHT_STD, before_relu_bound, unit_bound};
pub use pathways::{PathwaysDecoder, PathwaysEncoder};
pub use vgg::{Level, VggDecoder, VggEncoder};

use crate::ModelError;
use burn::{module::Module, tensor::Tensor};
use mnemora_memory::{Count, Initializer};

/// Channels and pixels of a frame. Frames are stored flat, with the channel as the slowest index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageShape {
    /// Colour channels.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl ImageShape {
    /// Numbers in a frame.
    pub fn size(self) -> usize {
        self.channels * self.height * self.width
    }
}

/// The networks that encode and decode frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisualConfig {
    /// The convolutional blocks of gtmm, B.1; features are `2 * latent` numbers.
    Inception,
    /// Fully connected: pixels, `hidden` units, `features`; the decoder mirrors the encoder.
    Dense {
        /// Hidden units of encoder and decoder.
        hidden: usize,
        /// Size of the features.
        features: usize,
    },
    /// The two pathways of gtmm, B.2, for 32x32 frames; features are `2 * latent` numbers.
    Pathways {
        /// Channels of the first maps of the global pathway, 128 in gtmm.
        width: usize,
    },
}

/// Frames to features.
// There is one value per model, so the size of the largest variant does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
pub enum FrameEncoder {
    /// Fully connected.
    Dense(DenseEncoder),
    /// Convolutional.
    Inception(InceptionEncoder),
    /// Convolutional, with one pathway for the whole frame and one for textures.
    Pathways(PathwaysEncoder),
}

/// `[z; psi]` to outputs.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
pub enum FrameDecoder {
    /// Fully connected.
    Dense(DenseDecoder),
    /// Convolutional.
    Inception(InceptionDecoder),
    /// Convolutional, with one pathway for the whole frame and one for textures.
    Pathways(PathwaysDecoder),
}

impl VisualConfig {
    /// Number of features that the encoder gives.
    pub fn features(&self, latent: usize) -> usize {
        match self {
            Self::Inception | Self::Pathways { .. } => 2 * latent,
            Self::Dense { features, .. } => *features,
        }
    }

    /// Builds the encoder of `frame`s.
    pub fn encoder(
        &self,
        frame: ImageShape,
        latent: usize,
        init: &mut Initializer,
    ) -> Result<FrameEncoder, ModelError> {
        Ok(match self {
            Self::Inception => {
                FrameEncoder::Inception(InceptionEncoder::new(frame, 2 * latent, init)?)
            }
            Self::Dense { hidden, features } => {
                FrameEncoder::Dense(DenseEncoder::new(frame, *hidden, *features, init))
            }
            Self::Pathways { width } => {
                FrameEncoder::Pathways(PathwaysEncoder::new(frame, *width, 2 * latent, init)?)
            }
        })
    }

    /// Builds the decoder of `frame`s from `inputs` numbers; it gives `parameters` numbers per pixel.
    pub fn decoder(
        &self,
        frame: ImageShape,
        inputs: usize,
        parameters: usize,
        init: &mut Initializer,
    ) -> Result<FrameDecoder, ModelError> {
        Ok(match self {
            Self::Inception if parameters > 1 => return Err(ModelError::InceptionParameters),
            Self::Inception => FrameDecoder::Inception(InceptionDecoder::new(frame, inputs, init)?),
            Self::Dense { hidden, .. } => {
                let outputs = parameters * frame.size();
                FrameDecoder::Dense(DenseDecoder::new(outputs, inputs, *hidden, init))
            }
            Self::Pathways { width } => {
                let decoder = PathwaysDecoder::new(frame, *width, inputs, parameters, init)?;
                FrameDecoder::Pathways(decoder)
            }
        })
    }
}

impl FrameEncoder {
    /// Numbers kept per frame for the backward pass.
    pub fn kept(&self) -> Count {
        match self {
            Self::Dense(encoder) => encoder.kept(),
            Self::Inception(encoder) => encoder.kept(),
            Self::Pathways(encoder) => encoder.kept(),
        }
    }

    /// From frames `[rows, pixels]` with values in `[0, 1]` to features `[rows, features]`.
    pub fn forward(&self, frames: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Dense(encoder) => encoder.forward(frames),
            Self::Inception(encoder) => encoder.forward(frames),
            Self::Pathways(encoder) => encoder.forward(frames),
        }
    }
}

impl FrameDecoder {
    /// Numbers kept per row for the backward pass, between its input and the outputs.
    pub fn kept(&self) -> Count {
        match self {
            Self::Dense(decoder) => decoder.kept(),
            Self::Inception(decoder) => decoder.kept(),
            Self::Pathways(decoder) => decoder.kept(),
        }
    }

    /// From `[rows, inputs]` to outputs `[rows, pixels]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Dense(decoder) => decoder.forward(input),
            Self::Inception(decoder) => decoder.forward(input),
            Self::Pathways(decoder) => decoder.forward(input),
        }
    }
}
