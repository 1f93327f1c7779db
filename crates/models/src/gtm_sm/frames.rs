//! Encoder and decoder of a [`GtmSm`](super::GtmSm).

use super::GtmSmConfig;
use crate::{
    ImageShape, ModelError,
    mlp::{Activation, Head},
    visual::{PathwaysDecoder, PathwaysEncoder},
};
use burn::{module::Module, tensor::Tensor};
use mnemora_memory::{Count, Initializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The networks for frames, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GtmSmVisual {
    /// Two hidden layers of ReLUs.
    Dense,
    /// The two convolutional pathways of gtmm, B.2, for frames of 32x32.
    Pathways,
}

/// Hidden layers of the dense encoder and decoder.
const LAYERS: usize = 2;

/// Frames to mean and log standard deviation of a code.
// There is one value per model, so the size of the largest variant does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
pub enum GtmSmEncoder {
    /// Fully connected.
    Dense(Head),
    /// Convolutional.
    Pathways(PathwaysEncoder),
}

/// A code to the logits of the pixels' means.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
pub enum GtmSmDecoder {
    /// Fully connected.
    Dense(Head),
    /// Convolutional.
    Pathways(PathwaysDecoder),
}

impl GtmSmConfig {
    pub(super) fn encoder(
        &self,
        frame: ImageShape,
        init: &mut Initializer,
    ) -> Result<GtmSmEncoder, ModelError> {
        let outputs = 2 * self.latent;
        Ok(match self.visual {
            GtmSmVisual::Dense => GtmSmEncoder::Dense(self.dense([frame.size(), outputs], init)),
            GtmSmVisual::Pathways => {
                GtmSmEncoder::Pathways(PathwaysEncoder::new(frame, self.width, outputs, init)?)
            }
        })
    }

    pub(super) fn decoder(
        &self,
        frame: ImageShape,
        init: &mut Initializer,
    ) -> Result<GtmSmDecoder, ModelError> {
        let inputs = self.latent;
        Ok(match self.visual {
            GtmSmVisual::Dense => GtmSmDecoder::Dense(self.dense([inputs, frame.size()], init)),
            GtmSmVisual::Pathways => {
                GtmSmDecoder::Pathways(PathwaysDecoder::new(frame, self.width, inputs, 1, init)?)
            }
        })
    }

    fn dense(&self, sizes: [usize; 2], init: &mut Initializer) -> Head {
        Head::new(sizes, LAYERS, self.hidden, Activation::Relu, init)
    }
}

impl GtmSmEncoder {
    /// Numbers kept per frame for the backward pass.
    pub fn kept(&self) -> Count {
        match self {
            Self::Dense(encoder) => encoder.kept(),
            Self::Pathways(encoder) => encoder.kept(),
        }
    }

    /// From frames `[rows, pixels]` in `[0, 1]` to `[rows, 2 * latent]`.
    pub fn forward(&self, frames: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Dense(encoder) => encoder.forward(frames),
            Self::Pathways(encoder) => encoder.forward(frames),
        }
    }
}

impl GtmSmDecoder {
    /// Numbers kept per row for the backward pass.
    pub fn kept(&self) -> Count {
        match self {
            Self::Dense(decoder) => decoder.kept(),
            Self::Pathways(decoder) => decoder.kept(),
        }
    }

    /// From `z` `[rows, latent]` to `[rows, pixels]`.
    pub fn forward(&self, z: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Dense(decoder) => decoder.forward(z),
            Self::Pathways(decoder) => decoder.forward(z),
        }
    }
}
