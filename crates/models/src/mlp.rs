//! Fully connected networks.

use burn::{module::Module, nn::Linear, tensor::Tensor};
use mnemora_kernels::linear::{self, linear};
use mnemora_memory::{Count, Initializer};

/// Nonlinearity of hidden units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(u, 0)`
    Relu,
    /// `u` or `u / 3` below zero, clipped to `[-3, 3]` (Fraccaro et al. 2016).
    ClippedLeakyRelu,
}

impl Activation {
    fn behind_a_map(self) -> linear::Activation {
        match self {
            Self::Relu => linear::Activation::Relu,
            Self::ClippedLeakyRelu => linear::Activation::ClippedLeakyRelu,
        }
    }
}

/// `activation(x weight + bias)`
pub(crate) fn apply(layer: &Linear, x: Tensor<2>, activation: linear::Activation) -> Tensor<2> {
    match &layer.bias {
        Some(bias) => linear(x, layer.weight.val(), bias.val(), activation),
        None => unreachable!("layers are made with a bias"),
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

    /// Numbers that a row keeps behind its input.
    pub fn kept(&self) -> Count {
        let layers = self.layers.iter();
        layers.map(|layer| layer.weight.shape()[1].into()).sum()
    }

    /// `[rows, inputs]` to `[rows, units]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let activation = self.activation.behind_a_map();
        let layers = self.layers.iter();
        layers.fold(input, |x, layer| apply(layer, x, activation))
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

    /// Width of the input.
    pub fn inputs(&self) -> usize {
        let first = self.hidden.layers.first().unwrap_or(&self.output);
        first.weight.shape()[0]
    }

    /// Numbers that a row keeps behind its input.
    pub fn kept(&self) -> Count {
        self.hidden.kept() + self.output.weight.shape()[1]
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        apply(
            &self.output,
            self.hidden.forward(input),
            linear::Activation::Identity,
        )
    }
}
