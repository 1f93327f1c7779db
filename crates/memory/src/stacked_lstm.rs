//! A stacked LSTM with skip connections.

use crate::{
    CoreOutput, Count, Initializer, Lstm, LstmState, MemoryError, RecurrentCore,
    error::require_positive,
};
use burn::{
    module::Module,
    tensor::{Bool, Device, Tensor},
};
use mnemora_kernels::{lstm::LstmWeights, split::split_rows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of a [`StackedLstm`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StackedLstmConfig {
    /// Width of the input; [`fit`](Self::fit) fills it in.
    #[serde(skip)]
    pub input: usize,
    /// Size of each layer's state.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
}

/// LSTMs stacked in layers. Each reads the input and the output of the layer below. The output is the
/// concatenation of all layers' hidden states.
///
/// A baseline of Santoro et al. 2018, appendix A.2, after Pascanu et al. 2013.
#[derive(Module, Debug)]
pub struct StackedLstm {
    /// The layers, lowest first. Each has the input `[input; h of the layer below]`; the lowest reads the input
    /// alone.
    pub layers: Vec<Lstm>,
}

/// State of a [`StackedLstm`].
#[derive(Clone, Debug)]
pub struct StackedLstmState {
    /// State of each layer.
    pub layers: Vec<LstmState>,
}

crate::bundle!(StackedLstmState { layers });

impl Default for StackedLstmConfig {
    fn default() -> Self {
        Self {
            input: 0,
            hidden: 128,
            layers: 2,
        }
    }
}

impl StackedLstmConfig {
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
    pub fn init(&self, init: &mut Initializer) -> Result<StackedLstm, MemoryError> {
        let (input, hidden) = (self.input, self.hidden);
        require_positive(
            "stacked_lstm",
            &[
                ("input", input),
                ("hidden", hidden),
                ("layers", self.layers),
            ],
        )?;
        let inputs = (0..self.layers).map(|layer| input + if layer > 0 { hidden } else { 0 });
        Ok(StackedLstm {
            layers: inputs
                .map(|inputs| Lstm::new(inputs, hidden, init))
                .collect(),
        })
    }
}

impl RecurrentCore for StackedLstm {
    type State = StackedLstmState;
    /// Weights of each layer.
    type Prepared = Vec<LstmWeights>;

    fn input_size(&self) -> usize {
        self.layers.first().map_or(0, Lstm::input_size)
    }

    /// `[h^1; ...; h^L]`
    fn output_size(&self) -> usize {
        self.layers.iter().map(Lstm::hidden_size).sum()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> StackedLstmState {
        let layers = self.layers.iter();
        StackedLstmState {
            layers: layers.map(|l| l.initial_state(batch, device)).collect(),
        }
    }

    fn prepare(&self) -> Vec<LstmWeights> {
        self.layers.iter().map(Lstm::prepare).collect()
    }

    fn step(
        &self,
        prepared: &Vec<LstmWeights>,
        input: Tensor<2>,
        state: StackedLstmState,
    ) -> (CoreOutput, StackedLstmState) {
        let mut layers: Vec<LstmState> = Vec::with_capacity(self.layers.len());
        for ((layer, weights), state) in self.layers.iter().zip(prepared).zip(state.layers) {
            let input = match layers.last() {
                None => input.clone(),
                Some(below) => Tensor::cat(vec![input.clone(), below.hidden.clone()], 1),
            };
            layers.push(layer.step(weights, input, state).1);
        }
        let hidden = layers.iter().map(|layer| layer.hidden.clone());
        let output = CoreOutput::plain(Tensor::cat(hidden.collect(), 1));
        (output, StackedLstmState { layers })
    }

    /// Runs each layer through all steps at once.
    fn sequence(
        &self,
        inputs: Tensor<3>,
        resets: Option<&Tensor<2, Bool>>,
        state: StackedLstmState,
    ) -> (Vec<CoreOutput>, StackedLstmState) {
        let [time, batch, width] = inputs.dims();
        let inputs = inputs.reshape([time * batch, width]);
        let mut layers = Vec::with_capacity(self.layers.len());
        let mut hidden: Vec<Tensor<2>> = Vec::with_capacity(self.layers.len());
        for (layer, state) in self.layers.iter().zip(state.layers) {
            let input = match hidden.last() {
                None => inputs.clone(),
                Some(below) => Tensor::cat(vec![inputs.clone(), below.clone()], 1),
            };
            let (steps, state) = layer.steps(input, resets, state);
            hidden.push(steps);
            layers.push(state);
        }
        let steps = split_rows(Tensor::cat(hidden, 1), time).into_iter();
        let outputs = steps.map(CoreOutput::plain).collect();
        (outputs, StackedLstmState { layers })
    }

    fn kept(&self) -> Count {
        let of_layer = |layer: &Lstm| layer.kept() + layer.input_size() + 2 * layer.hidden_size();
        self.layers.iter().map(of_layer).sum()
    }
}
