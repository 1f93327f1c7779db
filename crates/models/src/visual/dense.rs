//! Fully connected encoder and decoder, for small experiments.

use super::ImageShape;
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Tensor, activation},
};
use mnemora_memory::{Count, Initializer};

/// Pixels, hidden ReLU units, features.
#[derive(Module, Debug)]
pub struct DenseEncoder {
    /// From the pixels.
    pub hidden: Linear,
    /// To the features.
    pub features: Linear,
}

/// `[z; psi]`, hidden ReLU units, outputs.
#[derive(Module, Debug)]
pub struct DenseDecoder {
    /// From `[z; psi]`.
    pub hidden: Linear,
    /// To the likelihood's parameters of all pixels.
    pub output: Linear,
}

impl DenseEncoder {
    /// An encoder of `frame`s.
    pub fn new(frame: ImageShape, hidden: usize, features: usize, init: &mut Initializer) -> Self {
        Self {
            hidden: init.linear(frame.size(), hidden),
            features: init.linear(hidden, features),
        }
    }

    /// Numbers kept per frame: the frame itself, and each layer before and after its nonlinearity.
    pub fn kept(&self) -> Count {
        let [pixels, hidden] = self.hidden.weight.dims();
        Count::from(pixels + 2 * hidden) + 2 * self.features.weight.shape()[1]
    }

    /// From frames `[rows, pixels]` in `[0, 1]` to features `[rows, features]`.
    pub fn forward(&self, frames: Tensor<2>) -> Tensor<2> {
        let centred = frames.mul_scalar(2.0).sub_scalar(1.0);
        self.features
            .forward(activation::relu(self.hidden.forward(centred)))
    }
}

impl DenseDecoder {
    /// A decoder with this number of outputs.
    pub fn new(outputs: usize, inputs: usize, hidden: usize, init: &mut Initializer) -> Self {
        Self {
            hidden: init.linear(inputs, hidden),
            output: init.linear(hidden, outputs),
        }
    }

    /// Numbers kept per row, between its input and the outputs.
    pub fn kept(&self) -> Count {
        Count::from(2 * self.hidden.weight.shape()[1])
    }

    /// From `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.output
            .forward(activation::relu(self.hidden.forward(input)))
    }
}
