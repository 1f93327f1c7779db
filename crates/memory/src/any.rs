//! The table of all memories and cores: the one place where a new one is added.
//!
//! A row gives a memory's name, settings and module. Nothing else is needed to choose it by name:
//! [`MemoryName`], [`MemorySettings`] (one TOML table of an experiment for each), [`AnyMemory`] and [`AnyCore`]
//! follow from the table.

// There is one value per model or step, so the size of the largest variant costs nothing that matters.
#![allow(clippy::large_enum_variant)]

use crate::{
    ConvLstm, ConvLstmConfig, CoreMemory, CoreOutput, Count, Dnc, DncConfig, EntNet, EntNetConfig,
    Hybrid, HybridConfig, Initializer, Introspection, IntrospectionConfig, Lru, LruConfig, Lstm,
    LstmConfig, LstmMemory, LstmMemoryConfig, Memory, MemoryContext, MemoryError, Memoryless,
    MemorylessConfig, Ntm, NtmConfig, Place, Previous, RecurrentCore, Rmc, RmcConfig, Spatial,
    SpatialConfig, StackedLstm, StackedLstmConfig,
};
use burn::{
    module::Module,
    tensor::{Bool, Device, Tensor},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Generates the names, the settings and the types that hold any memory or core from the table.
macro_rules! table {
    (
        memories {
            $($(#[$memory_doc:meta])* $memory_text:literal $memory_key:ident
                $memory_name:ident => $memory:ident($memory_config:ty);)+
        }
        cores {
            $($(#[$core_doc:meta])* $core_text:literal $core_key:ident
                $core:ident($core_config:ty), $of_latents:literal;)+
        }
        cores_of_agents {
            $($(#[$agent_doc:meta])* $agent_text:literal $agent_key:ident
                $agent:ident($agent_config:ty);)+
        }
    ) => {
        /// Names of all memories and cores.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum MemoryName {
            $($(#[$memory_doc])* $memory_name,)+
            $($(#[$core_doc])* $core,)+
            $($(#[$agent_doc])* #[serde(rename = $agent_text)] $agent,)+
        }

        impl MemoryName {
            /// All names.
            pub const ALL: &[Self] =
                &[$(Self::$memory_name,)+ $(Self::$core,)+ $(Self::$agent,)+];

            /// Memories that can store the latents of a generative model.
            pub const OF_LATENTS: &[Self] = &{
                let mut names = [Self::ALL[0]; Self::of_latents()];
                let (mut from, mut to) = (0, 0);
                while from < Self::ALL.len() {
                    if Self::ALL[from].takes_latents() {
                        names[to] = Self::ALL[from];
                        to += 1;
                    }
                    from += 1;
                }
                names
            };

            /// Recurrent cores, which can also be trained on their own.
            pub const CORES: &[Self] = &[$(Self::$core,)+];

            /// Cores that an agent can have.
            pub const OF_AGENTS: &[Self] = &[$(Self::$core,)+ $(Self::$agent,)+];

            const fn takes_latents(self) -> bool {
                match self {
                    $(Self::$memory_name => true,)+
                    $(Self::$core => $of_latents,)+
                    $(Self::$agent => false,)+
                }
            }

            const fn of_latents() -> usize {
                let (mut place, mut count) = (0, 0);
                while place < Self::ALL.len() {
                    count += Self::ALL[place].takes_latents() as usize;
                    place += 1;
                }
                count
            }

            /// The name as written in configurations.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$memory_name => $memory_text,)+
                    $(Self::$core => $core_text,)+
                    $(Self::$agent => $agent_text,)+
                }
            }

            /// The key of its settings table.
            pub const fn key(self) -> &'static str {
                match self {
                    $(Self::$memory_name => stringify!($memory_key),)+
                    $(Self::$core => stringify!($core_key),)+
                    $(Self::$agent => stringify!($agent_key),)+
                }
            }
        }

        /// Settings of every memory, one table each.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct MemorySettings {
            $($(#[$memory_doc])* pub $memory_key: $memory_config,)+
            $($(#[$core_doc])* pub $core_key: $core_config,)+
            $($(#[$agent_doc])* pub $agent_key: $agent_config,)+
        }

        impl MemorySettings {
            /// The configuration of the core `name`, for inputs of a given width and sequences of `time` steps;
            /// `None` for a memory that is not a core.
            ///
            /// # Errors
            /// The settings contradict each other.
            pub fn core(
                &self,
                name: MemoryName,
                input: usize,
                time: usize,
            ) -> Result<Option<CoreConfig>, MemoryError> {
                Ok(match name {
                    $(MemoryName::$core => {
                        Some(CoreConfig::$core(self.$core_key.fit(input, time)?))
                    })+
                    $(MemoryName::$agent => {
                        Some(CoreConfig::$agent(self.$agent_key.fit(input, time)?))
                    })+
                    _ => None,
                })
            }

            /// The configuration of the memory of latents `name`; `None` for a core that cannot be one.
            ///
            /// # Errors
            /// The settings contradict each other, or do not fit `place`.
            pub fn memory(
                &self,
                name: MemoryName,
                place: &Place,
            ) -> Result<Option<MemoryConfig>, MemoryError> {
                if !name.takes_latents() {
                    return Ok(None);
                }
                Ok(match name {
                    $(MemoryName::$memory_name => {
                        Some(MemoryConfig::$memory(self.$memory_key.fit(place)?))
                    })+
                    core => {
                        let core = self.core(core, place.latent + place.condition, place.time)?;
                        core.map(|core| MemoryConfig::Core(core, place.latent))
                    }
                })
            }
        }

        /// Configuration of an [`AnyMemory`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum MemoryConfig {
            $($(#[$memory_doc])* $memory($memory_config),)+
            /// A recurrent core and the size of `z`. The core's input is as wide as a latent and a condition
            /// together.
            Core(CoreConfig, usize),
        }

        impl MemoryConfig {
            /// Builds the memory, or returns an error if the sizes are invalid.
            pub fn init(&self, init: &mut Initializer) -> Result<AnyMemory, MemoryError> {
                Ok(match self {
                    $(Self::$memory(config) => AnyMemory::$memory(config.init(init)?),)+
                    Self::Core(config, latent) => {
                        AnyMemory::Core(CoreMemory::new(config.init(init)?, *latent))
                    }
                })
            }
        }

        any_memory! {
            $($(#[$memory_doc])* $memory($memory);)+
            /// A recurrent core.
            Core(CoreMemory<AnyCore>);
        }

        /// Configuration of an [`AnyCore`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum CoreConfig {
            $($(#[$core_doc])* $core($core_config),)+
            $($(#[$agent_doc])* $agent($agent_config),)+
        }

        impl CoreConfig {
            /// Builds the core, or returns an error if the sizes are invalid.
            pub fn init(&self, init: &mut Initializer) -> Result<AnyCore, MemoryError> {
                Ok(match self {
                    $(Self::$core(config) => AnyCore::$core(config.init(init)?),)+
                    $(Self::$agent(config) => AnyCore::$agent(config.init(init)?),)+
                })
            }
        }

        any_core! {
            $($(#[$core_doc])* $core($core);)+
            $($(#[$agent_doc])* $agent($agent);)+
        }
    };
}

/// One type for any of several memories: `Name(Module);`.
macro_rules! any_memory {
    ($($(#[$doc:meta])* $name:ident($module:ty);)+) => {
        /// Any of this crate's memories.
        #[derive(Module, Debug)]
        pub enum AnyMemory {
            $($(#[$doc])* $name($module),)+
        }

        /// State of an [`AnyMemory`].
        #[derive(Clone, Debug)]
        pub enum AnyMemoryState {
            $($(#[$doc])* $name(<$module as Memory>::State),)+
        }

        /// Parameters of an [`AnyMemory`], prepared for the steps of one sequence.
        #[derive(Clone, Debug)]
        pub enum AnyMemoryPrepared {
            $($(#[$doc])* $name(<$module as Memory>::Prepared),)+
        }

        $crate::bundle!(enum AnyMemoryState { $($name(state)),+ });

        impl Memory for AnyMemory {
            type State = AnyMemoryState;
            type Prepared = AnyMemoryPrepared;

            fn prepare(&self) -> AnyMemoryPrepared {
                match self {
                    $(Self::$name(memory) => AnyMemoryPrepared::$name(memory.prepare()),)+
                }
            }

            fn initial_state(&self, batch: usize, device: &Device) -> AnyMemoryState {
                match self {
                    $(Self::$name(memory) => {
                        AnyMemoryState::$name(memory.initial_state(batch, device))
                    })+
                }
            }

            fn step(
                &self,
                prepared: &AnyMemoryPrepared,
                previous: Option<Previous>,
                condition: Option<Tensor<2>>,
                state: AnyMemoryState,
            ) -> (MemoryContext, AnyMemoryState) {
                match (self, prepared, state) {
                    $((
                        Self::$name(memory),
                        AnyMemoryPrepared::$name(prepared),
                        AnyMemoryState::$name(state),
                    ) => {
                        let (context, state) = memory.step(prepared, previous, condition, state);
                        (context, AnyMemoryState::$name(state))
                    })+
                    (memory, ..) => unreachable!("{memory} was given the state of another memory"),
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

            fn kept(&self, time: usize) -> Count {
                match self {
                    $(Self::$name(memory) => memory.kept(time),)+
                }
            }

            fn stored(&self) -> Option<usize> {
                match self {
                    $(Self::$name(memory) => memory.stored(),)+
                }
            }

            fn attention_words(&self) -> &'static str {
                match self {
                    $(Self::$name(memory) => memory.attention_words(),)+
                }
            }
        }
    };
}

/// One type for any of several cores: `Name(Module);`.
macro_rules! any_core {
    ($($(#[$doc:meta])* $name:ident($module:ty);)+) => {
        /// Any of this crate's recurrent cores.
        #[derive(Module, Debug)]
        pub enum AnyCore {
            $($(#[$doc])* $name($module),)+
        }

        /// State of an [`AnyCore`].
        #[derive(Clone, Debug)]
        pub enum AnyCoreState {
            $($(#[$doc])* $name(<$module as RecurrentCore>::State),)+
        }

        /// Parameters of an [`AnyCore`], prepared for the steps of one sequence.
        #[derive(Clone, Debug)]
        pub enum AnyCorePrepared {
            $($(#[$doc])* $name(<$module as RecurrentCore>::Prepared),)+
        }

        $crate::bundle!(enum AnyCoreState { $($name(state)),+ });

        impl RecurrentCore for AnyCore {
            type State = AnyCoreState;
            type Prepared = AnyCorePrepared;

            fn input_size(&self) -> usize {
                match self {
                    $(Self::$name(core) => core.input_size(),)+
                }
            }

            fn output_size(&self) -> usize {
                match self {
                    $(Self::$name(core) => core.output_size(),)+
                }
            }

            fn kept(&self) -> Count {
                match self {
                    $(Self::$name(core) => core.kept(),)+
                }
            }

            fn attention_words(&self) -> &'static str {
                match self {
                    $(Self::$name(core) => core.attention_words(),)+
                }
            }

            fn initial_state(&self, batch: usize, device: &Device) -> AnyCoreState {
                match self {
                    $(Self::$name(core) => {
                        AnyCoreState::$name(core.initial_state(batch, device))
                    })+
                }
            }

            fn prepare(&self) -> AnyCorePrepared {
                match self {
                    $(Self::$name(core) => AnyCorePrepared::$name(core.prepare()),)+
                }
            }

            fn step(
                &self,
                prepared: &AnyCorePrepared,
                input: Tensor<2>,
                state: AnyCoreState,
            ) -> (CoreOutput, AnyCoreState) {
                match (self, prepared, state) {
                    $((
                        Self::$name(core),
                        AnyCorePrepared::$name(prepared),
                        AnyCoreState::$name(state),
                    ) => {
                        let (output, state) = core.step(prepared, input, state);
                        (output, AnyCoreState::$name(state))
                    })+
                    (core, ..) => unreachable!("{core} was given the state of another core"),
                }
            }

            fn sequence(
                &self,
                inputs: Tensor<3>,
                resets: Option<&Tensor<2, Bool>>,
                state: AnyCoreState,
            ) -> (Vec<CoreOutput>, AnyCoreState) {
                match (self, state) {
                    $((Self::$name(core), AnyCoreState::$name(state)) => {
                        let (outputs, state) = core.sequence(inputs, resets, state);
                        (outputs, AnyCoreState::$name(state))
                    })+
                    (core, _) => unreachable!("{core} was given the state of another core"),
                }
            }
        }
    };
}

impl MemoryName {
    /// Whether it can only be used where conditions tell which move led to each observation.
    pub fn needs_actions(self) -> bool {
        self == Self::Spatial
    }
}

// Each row: the name in an experiment, the key of its settings table, its module and its configuration. For a
// core also whether it can be the memory of a generative model.
table! {
    memories {
        /// An LSTM as the only memory.
        "vrnn" vrnn Vrnn => LstmMemory(LstmMemoryConfig);
        /// Introspection network.
        "introspection" introspection Introspection => Introspection(IntrospectionConfig);
        /// Direct storage with positional and content addressing.
        "hybrid" hybrid Hybrid => Hybrid(HybridConfig);
        /// A place that actions move, and a dictionary of what was seen where.
        "spatial" spatial Spatial => Spatial(SpatialConfig);
    }
    cores {
        /// An LSTM without any other memory.
        "lstm" lstm Lstm(LstmConfig), false;
        /// Neural Turing Machine.
        "ntm" ntm Ntm(NtmConfig), true;
        /// Least-recently-used memory.
        "lru" lru Lru(LruConfig), true;
        /// Differentiable Neural Computer.
        "dnc" dnc Dnc(DncConfig), true;
        /// Relational Memory Core.
        "rmc" rmc Rmc(RmcConfig), true;
        /// Stacked LSTM layers.
        "stacked-lstm" stacked_lstm StackedLstm(StackedLstmConfig), false;
        /// Memory of the entity network.
        "ent-net" ent_net EntNet(EntNetConfig), false;
    }
    cores_of_agents {
        /// No memory: a layer of units.
        "none" none Memoryless(MemorylessConfig);
        /// A convolutional LSTM, whose input is maps.
        "conv-lstm" conv_lstm ConvLstm(ConvLstmConfig);
    }
}
