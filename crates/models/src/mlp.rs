//! Fully connected networks.

use burn::{module::Module, nn::Linear, tensor::Tensor};
pub use mnemora_kernels::linear::Activation;
use mnemora_kernels::linear::linear;
use mnemora_memory::{Count, Initializer};

/// `activation(x weight + bias)`
pub(crate) fn apply(layer: &Linear, x: Tensor<2>, activation: Activation) -> Tensor<2> {
    match &layer.bias {
        Some(bias) => linear(x, layer.weight.val(), bias.val(), activation),
        None => unreachable!("layers are made with a bias"),
    }
}

/// Hidden layers, one after the other; the last one is the output.
#[derive(Module, Debug)]
pub struct Mlp {
    /// The layers, starting at the input.
    pub layers: Vec<Linear>,
    #[module(skip)]
    activation: Activation,
}

impl Mlp {
    /// `layers` layers of `units` units each; without layers it is the identity.
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

    /// Numbers kept per row for the backward pass, without its input.
    pub fn kept(&self) -> Count {
        let layers = self.layers.iter();
        layers.map(|layer| layer.weight.shape()[1].into()).sum()
    }

    /// `[rows, inputs]` to `[rows, units]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let layers = self.layers.iter();
        layers.fold(input, |x, layer| apply(layer, x, self.activation))
    }
}

/// An [`Mlp`] followed by a linear layer.
#[derive(Module, Debug)]
pub struct Head {
    /// Hidden layers.
    pub hidden: Mlp,
    /// To the outputs.
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

    /// Numbers kept per row for the backward pass, without its input.
    pub fn kept(&self) -> Count {
        self.hidden.kept() + self.output.weight.shape()[1]
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        apply(
            &self.output,
            self.hidden.forward(input),
            Activation::Identity,
        )
    }
}
