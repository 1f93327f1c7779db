//! Fully connected networks.

use burn::{
    module::Module,
    nn::Linear,
    tensor::{Tensor, activation},
};
use mnemora_memory::Initializer;
use serde::{Deserialize, Serialize};

/// Nonlinearity of hidden units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `max(u, 0)`
    Relu,
    /// `u` or `u / 3` below zero, clipped to `[-3, 3]` (Fraccaro et al. 2016).
    ClippedLeakyRelu,
}

impl Activation {
    fn of(self, u: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Relu => activation::relu(u),
            Self::ClippedLeakyRelu => activation::leaky_relu(u, 1.0 / 3.0).clamp(-3.0, 3.0),
        }
    }
}

/// Layers of hidden units, one after the other; the last one's are the output.
#[derive(Module, Debug)]
pub struct Mlp {
    /// From the input on.
    pub layers: Vec<Linear>,
    #[module(skip)]
    activation: Activation,
}

impl Mlp {
    /// `layers` layers of `units` units each; none is the identity.
    pub fn new(
        inputs: usize,
        layers: usize,
        units: usize,
        activation: Activation,
        init: &mut Initializer,
    ) -> Self {
        let layer = |index: usize| init.xavier(if index == 0 { inputs } else { units }, units, 1);
        Self {
            layers: (0..layers).map(layer).collect(),
            activation,
        }
    }

    /// `[rows, inputs]` to `[rows, units]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.layers
            .iter()
            .fold(input, |x, layer| self.activation.of(layer.forward(x)))
    }
}

/// An [`Mlp`] with linear units at the end.
#[derive(Module, Debug)]
pub struct Head {
    /// Hidden layers.
    pub hidden: Mlp,
    /// Onto the outputs.
    pub output: Linear,
}

impl Head {
    /// `layers` hidden layers of `units` units each, then `outputs` linear ones.
    pub fn new(
        [inputs, outputs]: [usize; 2],
        layers: usize,
        units: usize,
        activation: Activation,
        init: &mut Initializer,
    ) -> Self {
        Self {
            hidden: Mlp::new(inputs, layers, units, activation, init),
            output: init.xavier(if layers == 0 { inputs } else { units }, outputs, 1),
        }
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.output.forward(self.hidden.forward(input))
    }
}
