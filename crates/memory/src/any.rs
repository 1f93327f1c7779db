//! Any memory system behind one type, chosen by name at run time.

// One value a model or a step: the size of the largest variant costs nothing that matters.
#![allow(clippy::large_enum_variant)]

use crate::{
    CoreMemory, CoreMemoryState, Dnc, DncConfig, DncState, Hybrid, HybridConfig, HybridState,
    Initializer, Introspection, IntrospectionConfig, IntrospectionState, Lru, LruConfig, LruState,
    LstmState, Memory, MemoryContext, MemoryError, Ntm, NtmConfig, NtmState, Previous, Vrnn,
    VrnnConfig,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};

/// Configuration of an [`AnyMemory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryConfig {
    /// The LSTM core of a VRNN.
    Vrnn(VrnnConfig),
    /// The Introspection network.
    Introspection(IntrospectionConfig),
    /// A Neural Turing Machine and the size of `z`; its input is a latent and a condition wide.
    Ntm(NtmConfig, usize),
    /// A least-recently-used memory and the size of `z`.
    Lru(LruConfig, usize),
    /// A Differentiable Neural Computer and the size of `z`.
    Dnc(DncConfig, usize),
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
    /// A Neural Turing Machine.
    Ntm(CoreMemory<Ntm>) has CoreMemoryState<NtmState>;
    /// A least-recently-used memory.
    Lru(CoreMemory<Lru>) has CoreMemoryState<LruState>;
    /// A Differentiable Neural Computer.
    Dnc(CoreMemory<Dnc>) has CoreMemoryState<DncState>;
    /// The hybrid of direct storage and content addressing.
    Hybrid(Hybrid) has HybridState;
}

impl MemoryConfig {
    /// Builds the memory; refuses sizes that make none.
    pub fn init(&self, init: &mut Initializer) -> Result<AnyMemory, MemoryError> {
        Ok(match self {
            Self::Vrnn(config) => AnyMemory::Vrnn(config.init(init)?),
            Self::Introspection(config) => AnyMemory::Introspection(config.init(init)?),
            Self::Ntm(config, latent) => {
                AnyMemory::Ntm(CoreMemory::new(config.init(init)?, *latent))
            }
            Self::Lru(config, latent) => {
                AnyMemory::Lru(CoreMemory::new(config.init(init)?, *latent))
            }
            Self::Dnc(config, latent) => {
                AnyMemory::Dnc(CoreMemory::new(config.init(init)?, *latent))
            }
            Self::Hybrid(config) => AnyMemory::Hybrid(config.init(init)?),
        })
    }
}
