//! What drives the heads of a DNC.

// One value a model or a step: the size of the largest variant costs nothing that matters.
#![allow(clippy::large_enum_variant)]

use crate::{
    Bundle, Count, Initializer, Lstm, LstmState, MemoryError, RecurrentCore, StackedLstm,
    StackedLstmConfig, StackedLstmState, TensorMapper,
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};

/// Bound of the LSTMs' cells.
const CELL_BOUND: f64 = 20.0;

/// The kinds of a [`Controller`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerKind {
    /// One LSTM.
    #[default]
    Lstm,
    /// An LSTM in so many layers, with skip connections.
    StackedLstm(usize),
    /// So many layers without a state: the memory is all there is from step to step.
    FeedForward(usize),
}

/// A network that reads the input and what was read, and tells the heads what to do.
#[derive(Module, Debug)]
pub enum Controller {
    /// One LSTM.
    Lstm(Lstm),
    /// An LSTM in layers.
    StackedLstm(StackedLstm),
    /// Layers without a state.
    FeedForward(FeedForward),
}

/// Linear maps, each with a `tanh` behind it, so that what the heads are told stays bounded, as it does
/// from an LSTM: what was read comes in again.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// From the first.
    pub layers: Vec<Linear>,
}

/// State of a [`Controller`].
#[derive(Clone, Debug)]
pub enum ControllerState {
    /// Of one LSTM.
    Lstm(LstmState),
    /// Of an LSTM in layers.
    StackedLstm(StackedLstmState),
    /// There is none.
    FeedForward,
}

impl Bundle for ControllerState {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        match self {
            Self::Lstm(state) => Self::Lstm(state.map_tensors(mapper)),
            Self::StackedLstm(state) => Self::StackedLstm(state.map_tensors(mapper)),
            Self::FeedForward => Self::FeedForward,
        }
    }
}

impl ControllerKind {
    /// Layers, 1 for one LSTM.
    pub(crate) fn layers(self) -> usize {
        match self {
            Self::Lstm => 1,
            Self::StackedLstm(layers) | Self::FeedForward(layers) => layers,
        }
    }

    /// Builds the controller, each layer `hidden` wide; refuses sizes of zero.
    pub(crate) fn init(
        self,
        input: usize,
        hidden: usize,
        init: &mut Initializer,
    ) -> Result<Controller, MemoryError> {
        Ok(match self {
            Self::Lstm => Controller::Lstm(Lstm::new(input, hidden, init)),
            Self::StackedLstm(layers) => {
                let config = StackedLstmConfig {
                    input,
                    hidden,
                    layers,
                };
                Controller::StackedLstm(config.init(init)?)
            }
            Self::FeedForward(layers) => {
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

    /// Width of `h_t`, which is that of all layers of an LSTM, and of the last one without a state.
    pub fn output_size(&self) -> usize {
        match self {
            Self::Lstm(lstm) => lstm.hidden_size(),
            Self::StackedLstm(lstm) => lstm.output_size(),
            Self::FeedForward(network) => network.layers.last().map_or(0, outputs),
        }
    }

    /// Numbers that the graph of a step keeps for each sequence; the cells are bounded, too.
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

    /// The zero state.
    pub fn initial_state(&self, batch: usize, device: &Device) -> ControllerState {
        match self {
            Self::Lstm(lstm) => ControllerState::Lstm(lstm.initial_state(batch, device)),
            Self::StackedLstm(lstm) => {
                ControllerState::StackedLstm(lstm.initial_state(batch, device))
            }
            Self::FeedForward(_) => ControllerState::FeedForward,
        }
    }

    /// `h_t` from the input, `[batch, input_size]`; the cells of the state are kept within 20.
    ///
    /// # Panics
    /// If the state is that of another kind.
    pub fn step(&self, input: Tensor<2>, state: ControllerState) -> (Tensor<2>, ControllerState) {
        match (self, state) {
            (Self::Lstm(lstm), ControllerState::Lstm(state)) => {
                let state = bounded(lstm.step(input, state));
                (state.hidden.clone(), ControllerState::Lstm(state))
            }
            (Self::StackedLstm(lstm), ControllerState::StackedLstm(state)) => {
                let (output, state) = lstm.forward(input, state);
                let layers = state.layers.into_iter().map(bounded).collect();
                let state = StackedLstmState { layers };
                (output.output, ControllerState::StackedLstm(state))
            }
            (Self::FeedForward(network), ControllerState::FeedForward) => {
                let layers = network.layers.iter();
                let hidden = layers.fold(input, |hidden, layer| layer.forward(hidden).tanh());
                (hidden, ControllerState::FeedForward)
            }
            (controller, _) => unreachable!("a state of another kind was given to {controller}"),
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
