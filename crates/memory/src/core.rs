//! Any memory system behind one type, chosen by name at run time.

// One value a model or a step: the size of the largest variant costs nothing that matters.
#![allow(clippy::large_enum_variant)]

use crate::{
    Initializer, Introspection, IntrospectionConfig, IntrospectionState, LstmState, Memory,
    MemoryContext, MemoryError, Previous, Vrnn, VrnnConfig,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};

/// Configuration of a [`Core`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoreConfig {
    /// The LSTM core of a VRNN.
    Vrnn(VrnnConfig),
    /// The Introspection network.
    Introspection(IntrospectionConfig),
}

/// A memory system of the house.
#[derive(Module, Debug)]
pub enum Core {
    /// The LSTM core of a VRNN.
    Vrnn(Vrnn),
    /// The Introspection network.
    Introspection(Introspection),
}

/// State of a [`Core`].
#[derive(Clone, Debug)]
pub enum CoreState {
    /// Of a [`Vrnn`].
    Vrnn(LstmState),
    /// Of an [`Introspection`] network.
    Introspection(IntrospectionState),
}

impl CoreConfig {
    /// Builds the memory; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<Core, MemoryError> {
        Ok(match self {
            Self::Vrnn(config) => Core::Vrnn(config.init(init)?),
            Self::Introspection(config) => Core::Introspection(config.init(init)?),
        })
    }
}

impl Memory for Core {
    type State = CoreState;

    fn initial_state(&self, batch: usize, device: &Device) -> CoreState {
        match self {
            Self::Vrnn(core) => CoreState::Vrnn(core.initial_state(batch, device)),
            Self::Introspection(core) => {
                CoreState::Introspection(core.initial_state(batch, device))
            }
        }
    }

    fn step(
        &self,
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: CoreState,
    ) -> (MemoryContext, CoreState) {
        match (self, state) {
            (Self::Vrnn(core), CoreState::Vrnn(state)) => {
                let (context, state) = core.step(previous, condition, state);
                (context, CoreState::Vrnn(state))
            }
            (Self::Introspection(core), CoreState::Introspection(state)) => {
                let (context, state) = core.step(previous, condition, state);
                (context, CoreState::Introspection(state))
            }
            (core, _) => unreachable!("a state of another memory was given to {core}"),
        }
    }

    fn context_size(&self) -> usize {
        match self {
            Self::Vrnn(core) => core.context_size(),
            Self::Introspection(core) => core.context_size(),
        }
    }
}
