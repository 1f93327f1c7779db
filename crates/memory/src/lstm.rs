//! The LSTM controller.

use crate::{CoreOutput, Count, Initializer, MemoryError, RecurrentCore, error::require_positive};
use burn::{
    module::{Module, Param},
    tensor::{Bool, Device, Tensor},
};
use mnemora_kernels::{
    lstm::{LstmWeights, lstm_sequence, lstm_step},
    split::split_rows,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of an [`Lstm`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LstmConfig {
    /// Width of the input; [`fit`](Self::fit) fills it in.
    #[serde(skip)]
    pub input: usize,
    /// Size of the state.
    pub hidden: usize,
}

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
}

crate::bundle!(LstmState { hidden, cell });

impl Default for LstmConfig {
    fn default() -> Self {
        Self {
            input: 0,
            hidden: 128,
        }
    }
}

impl LstmConfig {
    /// Fills in the sizes that settings leave open, for inputs of width `input`.
    ///
    /// # Errors
    /// Never; the signature is that of every `fit`.
    pub fn fit(&self, input: usize, _time: usize) -> Result<Self, MemoryError> {
        Ok(Self {
            input,
            ..self.clone()
        })
    }

    /// Builds the core. A size of zero is an error.
    pub fn init(&self, init: &mut Initializer) -> Result<Lstm, MemoryError> {
        require_positive("lstm", &[("input", self.input), ("hidden", self.hidden)])?;
        Ok(Lstm::new(self.input, self.hidden, init))
    }
}

impl Lstm {
    /// Weights and bias are uniform within `1 / sqrt(hidden)`; 1 is added to the bias of the forget gate.
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

    /// Runs all steps of a sequence whose inputs are known beforehand. Returns the hidden state after each step,
    /// `[steps * batch, hidden]`, step after step, and the state after the last.
    ///
    /// The result equals that of repeated [`step`](RecurrentCore::step), with fewer and larger products.
    ///
    /// # Shapes
    /// - `inputs`: `[steps * batch, inputs]`, step after step
    /// - `resets`: `[steps, batch]`, true where a sequence begins again with a state of zeros before that step
    ///
    /// # Panics
    /// If there are no steps or the shapes do not fit.
    pub fn steps(
        &self,
        inputs: Tensor<2>,
        resets: Option<&Tensor<2, Bool>>,
        state: LstmState,
    ) -> (Tensor<2>, LstmState) {
        let [outputs, hidden, cell] = lstm_sequence(
            inputs,
            resets,
            [state.hidden, state.cell],
            [self.weight_input.val(), self.weight_hidden.val()],
            self.bias.val(),
        );
        (outputs, LstmState { hidden, cell })
    }
}

impl RecurrentCore for Lstm {
    type State = LstmState;
    type Prepared = LstmWeights;

    fn input_size(&self) -> usize {
        self.weight_input.shape()[0]
    }

    fn output_size(&self) -> usize {
        self.hidden_size()
    }

    /// All zeros.
    fn initial_state(&self, batch: usize, device: &Device) -> LstmState {
        let zeros = Tensor::zeros([batch, self.hidden_size()], device);
        LstmState {
            hidden: zeros.clone(),
            cell: zeros,
        }
    }

    fn prepare(&self) -> LstmWeights {
        LstmWeights::new(
            self.weight_input.val(),
            self.weight_hidden.val(),
            self.bias.val(),
        )
    }

    fn step(
        &self,
        prepared: &LstmWeights,
        input: Tensor<2>,
        state: LstmState,
    ) -> (CoreOutput, LstmState) {
        let (hidden, cell) = lstm_step(input, state.hidden, state.cell, prepared);
        (
            CoreOutput::plain(hidden.clone()),
            LstmState { hidden, cell },
        )
    }

    fn sequence(
        &self,
        inputs: Tensor<3>,
        resets: Option<&Tensor<2, Bool>>,
        state: LstmState,
    ) -> (Vec<CoreOutput>, LstmState) {
        let [time, batch, width] = inputs.dims();
        let inputs = inputs.reshape([time * batch, width]);
        let (hidden, state) = self.steps(inputs, resets, state);
        let steps = split_rows(hidden, time).into_iter();
        (steps.map(CoreOutput::plain).collect(), state)
    }

    /// The rows that enter the product, the gates, the hidden state and the cell.
    fn kept(&self) -> Count {
        Count::from(self.input_size() + 1) + Count::from(self.hidden_size()) * 8
    }
}
