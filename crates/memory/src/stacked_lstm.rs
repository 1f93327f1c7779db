//! An LSTM in layers, with skip connections.

use crate::{
    Bundle, CoreOutput, Count, Initializer, Lstm, LstmState, MemoryError, RecurrentCore,
    TensorMapper, core::output_of, error::require_positive,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mnemora_kernels::split::split_rows;

/// Sizes of a [`StackedLstm`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackedLstmConfig {
    /// Width of the input.
    pub input: usize,
    /// Size of each layer's state.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
}

/// LSTMs on top of each other: each reads the input and the layer below it, and the output is that
/// of all layers side by side.
///
/// The baseline of Santoro et al. 2018, appendix A.2, after Pascanu et al. 2013.
#[derive(Module, Debug)]
pub struct StackedLstm {
    /// From the lowest; input `[input; h of the layer below]`, without the latter for the lowest.
    pub layers: Vec<Lstm>,
}

/// State of a [`StackedLstm`].
#[derive(Clone, Debug)]
pub struct StackedLstmState {
    /// Of each layer.
    pub layers: Vec<LstmState>,
}

impl Bundle for StackedLstmState {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            layers: self.layers.map_tensors(mapper),
        }
    }
}

impl StackedLstmConfig {
    /// Builds the core; refuses sizes of zero.
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

impl StackedLstm {
    /// Numbers that the graph of a step keeps for each sequence.
    pub fn kept(&self) -> Count {
        let of_layer = |layer: &Lstm| layer.kept() + layer.input_size() + 2 * layer.hidden_size();
        self.layers.iter().map(of_layer).sum()
    }
}

impl RecurrentCore for StackedLstm {
    type State = StackedLstmState;

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

    fn forward(&self, input: Tensor<2>, state: StackedLstmState) -> (CoreOutput, StackedLstmState) {
        let mut layers: Vec<LstmState> = Vec::with_capacity(self.layers.len());
        for (layer, state) in self.layers.iter().zip(state.layers) {
            let input = match layers.last() {
                None => input.clone(),
                Some(below) => Tensor::cat(vec![input.clone(), below.hidden.clone()], 1),
            };
            layers.push(layer.step(input, state));
        }
        let hidden = layers.iter().map(|layer| layer.hidden.clone());
        let output = output_of(Tensor::cat(hidden.collect(), 1));
        (output, StackedLstmState { layers })
    }

    /// Layer by layer, each through all steps at once.
    fn sequence(
        &self,
        inputs: Tensor<3>,
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
            let (steps, state) = layer.steps(input, state);
            hidden.push(steps);
            layers.push(state);
        }
        let steps = split_rows(Tensor::cat(hidden, 1), time).into_iter();
        let outputs = steps.map(output_of).collect();
        (outputs, StackedLstmState { layers })
    }
}
