//! Any memory system, and any recurrent core, behind one type, chosen by name at run time.

// One value a model or a step: the size of the largest variant costs nothing that matters.
#![allow(clippy::large_enum_variant)]

use crate::{
    Bundle, ConvLstm, ConvLstmConfig, ConvLstmState, CoreMemory, CoreMemoryState, CoreOutput,
    Count, Dnc, DncConfig, DncState, EntNet, EntNetConfig, EntNetState, Hybrid, HybridConfig,
    HybridState, Initializer, Introspection, IntrospectionConfig, IntrospectionState, Lru,
    LruConfig, LruState, Lstm, LstmState, Memory, MemoryContext, MemoryError, Ntm, NtmConfig,
    NtmState, Previous, RecurrentCore, Rmc, RmcConfig, RmcState, StackedLstm, StackedLstmConfig,
    StackedLstmState, TensorMapper, Vrnn, VrnnConfig, error::require_positive,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};

/// Configuration of an [`AnyMemory`].
#[derive(Clone, Debug, PartialEq)]
pub enum MemoryConfig {
    /// The LSTM core of a VRNN.
    Vrnn(VrnnConfig),
    /// The Introspection network.
    Introspection(IntrospectionConfig),
    /// A recurrent core and the size of `z`; its input is a latent and a condition wide.
    Core(CoreConfig, usize),
    /// The hybrid of direct storage and content addressing.
    Hybrid(HybridConfig),
}

/// Writes what is the same for every memory: `Name(module) has the state StateOf`.
macro_rules! memories {
    ($($(#[$doc:meta])* $name:ident($module:ty) has $state:ty;)+) => {
        /// A memory system of the house.
        #[derive(Module, Debug)]
        pub enum AnyMemory {
            $($(#[$doc])* $name($module),)+
        }

        /// State of an [`AnyMemory`].
        #[derive(Clone, Debug)]
        pub enum AnyMemoryState {
            $($(#[$doc])* $name($state),)+
        }

        impl Bundle for AnyMemoryState {
            fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
                match self {
                    $(Self::$name(state) => Self::$name(state.map_tensors(mapper)),)+
                }
            }
        }

        impl Memory for AnyMemory {
            type State = AnyMemoryState;

            fn initial_state(&self, batch: usize, device: &Device) -> AnyMemoryState {
                match self {
                    $(Self::$name(memory) => {
                        AnyMemoryState::$name(memory.initial_state(batch, device))
                    })+
                }
            }

            fn step(
                &self,
                previous: Option<Previous>,
                condition: Option<Tensor<2>>,
                state: AnyMemoryState,
            ) -> (MemoryContext, AnyMemoryState) {
                match (self, state) {
                    $((Self::$name(memory), AnyMemoryState::$name(state)) => {
                        let (context, state) = memory.step(previous, condition, state);
                        (context, AnyMemoryState::$name(state))
                    })+
                    (memory, _) => unreachable!("a state of another memory was given to {memory}"),
                }
            }

            fn latent_size(&self) -> usize {
                match self {
                    $(Self::$name(memory) => memory.latent_size(),)+
                }
            }

            fn context_size(&self) -> usize {
                match self {
                    $(Self::$name(memory) => memory.context_size(),)+
                }
            }
        }
    };
}

memories! {
    /// The LSTM core of a VRNN.
    Vrnn(Vrnn) has LstmState;
    /// The Introspection network.
    Introspection(Introspection) has IntrospectionState;
    /// A recurrent core.
    Core(CoreMemory<AnyCore>) has CoreMemoryState<AnyCoreState>;
    /// The hybrid of direct storage and content addressing.
    Hybrid(Hybrid) has HybridState;
}

impl AnyMemory {
    /// Numbers that the graph of a step keeps for each sequence, mean over sequences of `time` steps.
    pub fn kept(&self, time: usize) -> Count {
        match self {
            Self::Vrnn(memory) => memory.kept(),
            Self::Introspection(memory) => memory.kept(time),
            Self::Core(memory) => memory.core.kept() + memory.core.input_size(),
            Self::Hybrid(memory) => memory.kept(time),
        }
    }
}

impl MemoryConfig {
    /// Builds the memory; refuses sizes that make none.
    pub fn init(&self, init: &mut Initializer) -> Result<AnyMemory, MemoryError> {
        Ok(match self {
            Self::Vrnn(config) => AnyMemory::Vrnn(config.init(init)?),
            Self::Introspection(config) => AnyMemory::Introspection(config.init(init)?),
            Self::Core(config, latent) => {
                AnyMemory::Core(CoreMemory::new(config.init(init)?, *latent))
            }
            Self::Hybrid(config) => AnyMemory::Hybrid(config.init(init)?),
        })
    }
}

/// Configuration of an [`AnyCore`].
#[derive(Clone, Debug, PartialEq)]
pub enum CoreConfig {
    /// An LSTM alone.
    Lstm {
        /// Width of the input.
        input: usize,
        /// Size of the state.
        hidden: usize,
    },
    /// A Neural Turing Machine.
    Ntm(NtmConfig),
    /// A least-recently-used memory.
    Lru(LruConfig),
    /// A Differentiable Neural Computer.
    Dnc(DncConfig),
    /// A Relational Memory Core.
    Rmc(RmcConfig),
    /// An LSTM in layers.
    StackedLstm(StackedLstmConfig),
    /// The memory of a Recurrent Entity Network.
    EntNet(EntNetConfig),
    /// A convolutional LSTM.
    ConvLstm(ConvLstmConfig),
}

/// Writes what is the same for every core: `Name(module) has the state StateOf`.
macro_rules! cores {
    ($($(#[$doc:meta])* $name:ident($module:ty) has $state:ty;)+) => {
        /// A recurrent core of the house.
        #[derive(Module, Debug)]
        pub enum AnyCore {
            $($(#[$doc])* $name($module),)+
        }

        /// State of an [`AnyCore`].
        #[derive(Clone, Debug)]
        pub enum AnyCoreState {
            $($(#[$doc])* $name($state),)+
        }

        impl Bundle for AnyCoreState {
            fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
                match self {
                    $(Self::$name(state) => Self::$name(state.map_tensors(mapper)),)+
                }
            }
        }

        impl RecurrentCore for AnyCore {
            type State = AnyCoreState;

            fn input_size(&self) -> usize {
                match self {
                    $(Self::$name(core) => RecurrentCore::input_size(core),)+
                }
            }

            fn output_size(&self) -> usize {
                match self {
                    $(Self::$name(core) => RecurrentCore::output_size(core),)+
                }
            }

            fn initial_state(&self, batch: usize, device: &Device) -> AnyCoreState {
                match self {
                    $(Self::$name(core) => {
                        AnyCoreState::$name(RecurrentCore::initial_state(core, batch, device))
                    })+
                }
            }

            fn forward(&self, input: Tensor<2>, state: AnyCoreState) -> (CoreOutput, AnyCoreState) {
                match (self, state) {
                    $((Self::$name(core), AnyCoreState::$name(state)) => {
                        let (output, state) = core.forward(input, state);
                        (output, AnyCoreState::$name(state))
                    })+
                    (core, _) => unreachable!("a state of another core was given to {core}"),
                }
            }

            fn sequence(
                &self,
                inputs: Tensor<3>,
                state: AnyCoreState,
            ) -> (Vec<CoreOutput>, AnyCoreState) {
                match (self, state) {
                    $((Self::$name(core), AnyCoreState::$name(state)) => {
                        let (outputs, state) = core.sequence(inputs, state);
                        (outputs, AnyCoreState::$name(state))
                    })+
                    (core, _) => unreachable!("a state of another core was given to {core}"),
                }
            }
        }
    };
}

cores! {
    /// An LSTM alone.
    Lstm(Lstm) has LstmState;
    /// A Neural Turing Machine.
    Ntm(Ntm) has NtmState;
    /// A least-recently-used memory.
    Lru(Lru) has LruState;
    /// A Differentiable Neural Computer.
    Dnc(Dnc) has DncState;
    /// A Relational Memory Core.
    Rmc(Rmc) has RmcState;
    /// An LSTM in layers.
    StackedLstm(StackedLstm) has StackedLstmState;
    /// The memory of a Recurrent Entity Network.
    EntNet(EntNet) has EntNetState;
    /// A convolutional LSTM.
    ConvLstm(ConvLstm) has ConvLstmState;
}

impl AnyCore {
    /// Numbers that the graph of a step keeps for each sequence.
    pub fn kept(&self) -> Count {
        match self {
            Self::Lstm(core) => core.kept(),
            Self::Ntm(core) => core.kept(),
            Self::Lru(core) => core.kept(),
            Self::Dnc(core) => core.kept(),
            Self::Rmc(core) => core.kept(),
            Self::StackedLstm(core) => core.kept(),
            Self::EntNet(core) => core.kept(),
            Self::ConvLstm(core) => core.kept(),
        }
    }
}

impl CoreConfig {
    /// Builds the core; refuses sizes that make none.
    pub fn init(&self, init: &mut Initializer) -> Result<AnyCore, MemoryError> {
        Ok(match self {
            Self::Lstm { input, hidden } => {
                require_positive("lstm", &[("input", *input), ("hidden", *hidden)])?;
                AnyCore::Lstm(Lstm::new(*input, *hidden, init))
            }
            Self::Ntm(config) => AnyCore::Ntm(config.init(init)?),
            Self::Lru(config) => AnyCore::Lru(config.init(init)?),
            Self::Dnc(config) => AnyCore::Dnc(config.init(init)?),
            Self::Rmc(config) => AnyCore::Rmc(config.init(init)?),
            Self::StackedLstm(config) => AnyCore::StackedLstm(config.init(init)?),
            Self::EntNet(config) => AnyCore::EntNet(config.init(init)?),
            Self::ConvLstm(config) => AnyCore::ConvLstm(config.init(init)?),
        })
    }
}
