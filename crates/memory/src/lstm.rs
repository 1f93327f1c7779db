//! The LSTM controller.

use crate::{Bundle, Count, Initializer, TensorMapper};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use mnemora_kernels::lstm::{LstmWeights, lstm_sequence, lstm_step};

/// A single-layer LSTM with one bias vector; gates in the order `i, f, g, o`.
#[derive(Module, Debug)]
pub struct Lstm {
    /// `[inputs, 4 * hidden]`
    pub weight_input: Param<Tensor<2>>,
    /// `[hidden, 4 * hidden]`
    pub weight_hidden: Param<Tensor<2>>,
    /// `[4 * hidden]`
    pub bias: Param<Tensor<1>>,
}

/// State of an [`Lstm`], both tensors `[batch, hidden]`.
#[derive(Clone, Debug)]
pub struct LstmState {
    /// `h`
    pub hidden: Tensor<2>,
    /// `c`
    pub cell: Tensor<2>,
    /// The module's weights as prepared by the first step, for those that follow; one backward pass
    /// uses them up.
    weights: Option<LstmWeights>,
}

impl Bundle for LstmState {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            hidden: self.hidden.map_tensors(mapper),
            cell: self.cell.map_tensors(mapper),
            weights: self.weights.filter(|_| mapper.keeps_graph()),
        }
    }
}

impl Lstm {
    /// Weights uniform within `1 / sqrt(hidden)`, as is the bias, with 1 added to the forget gate.
    pub fn new(inputs: usize, hidden: usize, init: &mut Initializer) -> Self {
        let bound = 1.0 / (hidden as f64).sqrt();
        let weight_input = init.uniform([inputs, 4 * hidden], bound);
        let weight_hidden = init.uniform([hidden, 4 * hidden], bound);
        let bias = init.parameter([4 * hidden], |draws| {
            let mut bias = draws.uniform(4 * hidden, bound);
            for forget in bias.iter_mut().skip(hidden).take(hidden) {
                *forget += 1.0;
            }
            bias
        });
        Self {
            weight_input,
            weight_hidden,
            bias,
        }
    }

    /// Size of the hidden state.
    pub fn hidden_size(&self) -> usize {
        self.weight_hidden.shape()[0]
    }

    /// Size of the input.
    pub fn input_size(&self) -> usize {
        self.weight_input.shape()[0]
    }

    /// Numbers that the graph of a step keeps for each sequence: the rows that go into the product, the gates,
    /// hidden state and cell.
    pub fn kept(&self) -> Count {
        Count::from(self.input_size() + 1) + Count::from(self.hidden_size()) * 8
    }

    /// The zero state.
    pub fn initial_state(&self, batch: usize, device: &Device) -> LstmState {
        let zeros = Tensor::zeros([batch, self.hidden_size()], device);
        LstmState {
            hidden: zeros.clone(),
            cell: zeros,
            weights: None,
        }
    }

    /// One step on `input` `[batch, inputs]`.
    ///
    /// The first step of a state prepares the weights for all that follow: a gradient for the
    /// parameters is one product over them, and parameters that change later do not change them.
    /// After a backward pass a state goes on [detached](Bundle::detach).
    pub fn step(&self, input: Tensor<2>, state: LstmState) -> LstmState {
        let LstmState {
            hidden,
            cell,
            weights,
        } = state;
        let weights = weights.unwrap_or_else(|| {
            LstmWeights::new(
                self.weight_input.val(),
                self.weight_hidden.val(),
                self.bias.val(),
            )
        });
        let (hidden, cell) = lstm_step(input, hidden, cell, &weights);
        LstmState {
            hidden,
            cell,
            weights: Some(weights),
        }
    }

    /// All steps of a sequence whose inputs are known beforehand: the hidden state of each, `[steps * batch,
    /// hidden]`, step after step, and the state after the last. It is what [`step`](Self::step) gives,
    /// in fewer and larger products, by the module's weights as they are.
    ///
    /// # Shapes
    /// `inputs`: `[steps * batch, inputs]`
    ///
    /// # Panics
    /// If there is no step.
    pub fn steps(&self, inputs: Tensor<2>, state: LstmState) -> (Tensor<2>, LstmState) {
        let [outputs, hidden, cell] = lstm_sequence(
            inputs,
            [state.hidden, state.cell],
            [self.weight_input.val(), self.weight_hidden.val()],
            self.bias.val(),
        );
        let state = LstmState {
            hidden,
            cell,
            weights: state.weights,
        };
        (outputs, state)
    }
}
