//! A convolutional LSTM whose input has a part that is the same at all steps.

use crate::visual::Kernel;
use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use mnemora_kernels::{conv::conv2d, lstm::lstm_gates};
use mnemora_memory::{Count, Initializer};

/// Channels of the state and of the input of a [`MapLstm`].
#[derive(Clone, Copy, Debug)]
pub(super) struct MapSizes {
    /// Of the state.
    pub(super) hidden: usize,
    /// Of the part of the input that is the same at all steps.
    pub(super) given: usize,
    /// Of the part of the input that changes.
    pub(super) inputs: usize,
}

/// A convolutional LSTM (Shi et al. 2015, without peepholes) on `[h; given; input]`, gates in the order `i, f, g, o`.
///
/// Convolutions are linear, so what is the same at all steps is convolved once.
#[derive(Module, Debug)]
pub struct MapLstm {
    /// `[4 * hidden, hidden + given + inputs, k, k]`
    pub weight: Param<Tensor<4>>,
    /// `[4 * hidden]`
    pub bias: Param<Tensor<1>>,
    given: usize,
}

/// The weights of a [`MapLstm`], cut into those of its inputs, for all steps of a pass.
pub(super) struct Cut {
    /// Of `[h; input]`.
    moving: Tensor<4>,
    given: Tensor<4>,
    bias: Tensor<1>,
    no_bias: Tensor<1>,
}

/// Hidden state and cell, each `[rows, hidden, height, width]`.
#[derive(Clone, Debug)]
pub(super) struct MapState {
    pub(super) hidden: Tensor<4>,
    cell: Tensor<4>,
}

impl MapState {
    pub(super) fn zeros(like: &Tensor<4>, rows: usize, hidden: usize) -> Self {
        let [_, _, height, width] = like.dims();
        let zeros = Tensor::zeros([rows, hidden, height, width], &like.device());
        Self {
            hidden: zeros.clone(),
            cell: zeros,
        }
    }
}

impl MapLstm {
    /// Weights uniform within `1 / sqrt(n)` for n products in a gate; biases are zero, and 1 for the forget gates.
    pub(super) fn new(sizes: MapSizes, kernel: usize, init: &mut Initializer) -> Self {
        let MapSizes {
            hidden,
            given,
            inputs,
        } = sizes;
        let channels = hidden + given + inputs;
        let bound = 1.0 / ((channels * kernel * kernel) as f64).sqrt();
        Self {
            weight: init.uniform([4 * hidden, channels, kernel, kernel], bound),
            bias: init.parameter([4 * hidden], |_| {
                let mut bias = vec![0.0; 4 * hidden];
                bias[hidden..2 * hidden].fill(1.0);
                bias
            }),
            given,
        }
    }

    pub(super) fn hidden(&self) -> usize {
        self.bias.shape()[0] / 4
    }

    /// Numbers kept for a step of a row, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let [gates, channels, _, _] = self.weight.dims();
        Count::product(&[gates + gates / 4 * 7 + channels, pixels])
    }

    pub(super) fn cut(&self) -> Cut {
        let weight = self.weight.val();
        let [_, channels, _, _] = weight.dims();
        let (hidden, given) = (self.hidden(), self.given);
        let inputs = channels - hidden - given;
        let part = |start, count| weight.clone().narrow(1, start, count);
        let moving = match inputs {
            0 => part(0, hidden),
            _ => Tensor::cat(vec![part(0, hidden), part(hidden + given, inputs)], 1),
        };
        Cut {
            moving,
            given: part(hidden, given),
            bias: self.bias.val(),
            no_bias: Tensor::zeros([4 * hidden], &weight.device()),
        }
    }
}

impl Cut {
    fn convolve(maps: Tensor<4>, weight: &Tensor<4>, bias: &Tensor<1>) -> Tensor<4> {
        let of = Kernel::same(weight.dims()[2]);
        conv2d(maps, weight.clone(), bias.clone(), of.stride, of.padding)
    }

    /// The part of the gates that is the same at all steps, with the biases: `[rows, 4 * hidden, ..]`.
    pub(super) fn given(&self, maps: Tensor<4>) -> Tensor<4> {
        Self::convolve(maps, &self.given, &self.bias)
    }

    /// A step. `given` are the gates' parts that do not depend on `inputs` and state.
    pub(super) fn step(
        &self,
        given: Tensor<4>,
        inputs: Vec<Tensor<4>>,
        state: MapState,
    ) -> MapState {
        let MapState { hidden, cell } = state;
        let shape = cell.dims();
        let moving = [vec![hidden], inputs].concat();
        let moving = Self::convolve(Tensor::cat(moving, 1), &self.moving, &self.no_bias);
        let gates = (given + moving).flatten(1, 3);
        let (hidden, cell) = lstm_gates(gates, cell.flatten(1, 3));
        MapState {
            hidden: hidden.reshape(shape),
            cell: cell.reshape(shape),
        }
    }
}
