//! The controller of a DNC, which drives its heads.

// There is one value per model or step, so the size of the largest variant costs nothing that matters.
#![allow(clippy::large_enum_variant)]

use crate::{
    Count, Initializer, Lstm, LstmState, MemoryError, RecurrentCore, StackedLstm,
    StackedLstmConfig, StackedLstmState,
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};
use mnemora_kernels::lstm::LstmWeights;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bound on the absolute value of an LSTM's cells.
const CELL_BOUND: f64 = 20.0;

/// The kinds of a [`Controller`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerKind {
    /// An LSTM; with several layers, a stacked LSTM with skip connections.
    #[default]
    Lstm,
    /// Feed-forward layers without a state: only the memory is carried from step to step.
    FeedForward,
}

/// A network that reads the input and the previous read vectors, and tells the heads what to do.
#[derive(Module, Debug)]
pub enum Controller {
    /// One LSTM.
    Lstm(Lstm),
    /// A stacked LSTM.
    StackedLstm(StackedLstm),
    /// Feed-forward layers without a state.
    FeedForward(FeedForward),
}

/// Linear maps, each followed by `tanh`. The read vectors come back as input, so the output must stay bounded,
/// as that of an LSTM does.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// The layers, first to last.
    pub layers: Vec<Linear>,
}

/// State of a [`Controller`].
#[derive(Clone, Debug)]
pub enum ControllerState {
    /// State of one LSTM.
    Lstm(LstmState),
    /// State of a stacked LSTM.
    StackedLstm(StackedLstmState),
    /// No state.
    FeedForward,
}

crate::bundle!(
    enum ControllerState {
        Lstm(state),
        StackedLstm(state),
        FeedForward,
    }
);

/// Weights of a [`Controller`], prepared for the steps of one sequence.
#[derive(Clone, Debug)]
pub enum ControllerWeights {
    /// Weights of one LSTM.
    Lstm(LstmWeights),
    /// Weights of each layer.
    StackedLstm(Vec<LstmWeights>),
    /// Feed-forward layers need no preparation.
    FeedForward,
}

impl ControllerKind {
    /// Builds a controller of `layers` layers, each `hidden` wide. A size of zero is an error.
    pub(crate) fn init(
        self,
        layers: usize,
        input: usize,
        hidden: usize,
        init: &mut Initializer,
    ) -> Result<Controller, MemoryError> {
        Ok(match (self, layers) {
            (Self::Lstm, 1) => Controller::Lstm(Lstm::new(input, hidden, init)),
            (Self::Lstm, layers) => {
                let config = StackedLstmConfig {
                    input,
                    hidden,
                    layers,
                };
                Controller::StackedLstm(config.init(init)?)
            }
            (Self::FeedForward, layers) => {
                let inputs = (0..layers).map(|layer| if layer == 0 { input } else { hidden });
                let layers = inputs.map(|inputs| init.linear(inputs, hidden)).collect();
                Controller::FeedForward(FeedForward { layers })
            }
        })
    }
}

impl Controller {
    /// Width of the input.
    pub fn input_size(&self) -> usize {
        match self {
            Self::Lstm(lstm) => lstm.input_size(),
            Self::StackedLstm(lstm) => lstm.input_size(),
            Self::FeedForward(network) => network.layers.first().map_or(0, inputs),
        }
    }

    /// Width of `h_t`: that of all layers for an LSTM, that of the last for feed-forward layers.
    pub fn output_size(&self) -> usize {
        match self {
            Self::Lstm(lstm) => lstm.hidden_size(),
            Self::StackedLstm(lstm) => lstm.output_size(),
            Self::FeedForward(network) => network.layers.last().map_or(0, outputs),
        }
    }

    /// Numbers that the graph of a step keeps for each sequence, including those for bounding the cells.
    pub fn kept(&self) -> Count {
        match self {
            Self::Lstm(lstm) => lstm.kept() + 2 * lstm.hidden_size(),
            Self::StackedLstm(lstm) => lstm.kept() + Count::from(lstm.output_size()) * 2,
            Self::FeedForward(network) => {
                let layers = network.layers.iter();
                layers
                    .map(|layer| Count::from(inputs(layer)) + 2 * outputs(layer))
                    .sum()
            }
        }
    }

    /// The initial state, all zeros.
    pub fn initial_state(&self, batch: usize, device: &Device) -> ControllerState {
        match self {
            Self::Lstm(lstm) => ControllerState::Lstm(lstm.initial_state(batch, device)),
            Self::StackedLstm(lstm) => {
                ControllerState::StackedLstm(lstm.initial_state(batch, device))
            }
            Self::FeedForward(_) => ControllerState::FeedForward,
        }
    }

    /// Prepares the weights for the steps of one sequence; see [`RecurrentCore::prepare`].
    pub fn prepare(&self) -> ControllerWeights {
        match self {
            Self::Lstm(lstm) => ControllerWeights::Lstm(lstm.prepare()),
            Self::StackedLstm(lstm) => ControllerWeights::StackedLstm(lstm.prepare()),
            Self::FeedForward(_) => ControllerWeights::FeedForward,
        }
    }

    /// `h_t` from the input, `[batch, input_size]`. The cells of the state are kept within `[-20, 20]`.
    ///
    /// # Panics
    /// If weights or state belong to another kind of controller.
    pub fn step(
        &self,
        prepared: &ControllerWeights,
        input: Tensor<2>,
        state: ControllerState,
    ) -> (Tensor<2>, ControllerState) {
        match (self, prepared, state) {
            (Self::Lstm(lstm), ControllerWeights::Lstm(weights), ControllerState::Lstm(state)) => {
                let (output, state) = lstm.step(weights, input, state);
                (output.output, ControllerState::Lstm(bounded(state)))
            }
            (
                Self::StackedLstm(lstm),
                ControllerWeights::StackedLstm(weights),
                ControllerState::StackedLstm(state),
            ) => {
                let (output, state) = lstm.step(weights, input, state);
                let layers = state.layers.into_iter().map(bounded).collect();
                let state = StackedLstmState { layers };
                (output.output, ControllerState::StackedLstm(state))
            }
            (
                Self::FeedForward(network),
                ControllerWeights::FeedForward,
                ControllerState::FeedForward,
            ) => {
                let layers = network.layers.iter();
                let hidden = layers.fold(input, |hidden, layer| layer.forward(hidden).tanh());
                (hidden, ControllerState::FeedForward)
            }
            (controller, ..) => {
                unreachable!("{controller} was given the weights or state of another kind")
            }
        }
    }
}

fn inputs(layer: &Linear) -> usize {
    layer.weight.shape()[0]
}

fn outputs(layer: &Linear) -> usize {
    layer.weight.shape()[1]
}

fn bounded(mut state: LstmState) -> LstmState {
    state.cell = state.cell.clamp(-CELL_BOUND, CELL_BOUND);
    state
}
