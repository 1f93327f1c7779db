//! Memory systems and recurrent cores as Burn modules.
//!
//! A generative model learns about the past only through a [`MemoryContext`]. At step `t` a [`Memory`] takes in
//! the results of step `t - 1` and the condition of step `t`, and returns the context for `z_t`. The context
//! contains nothing of step `t` itself. At `t = 1` there is no previous step: a store of latents writes nothing; a
//! core is stepped with zeros for `z_0`, and may write.
//!
//! The condition `c_t` is an input that is given from outside and not modelled, for example the move that leads to
//! frame `t` of a walk. Many tasks have none.
//!
//! - [`introspection`]: a first-in-first-out store of latents with positional attention.
//! - [`hybrid`]: the same store, also addressed by content and by its successor.
//! - [`spatial`]: a place that actions move, and a dictionary of what was seen where.
//! - [`ntm`], [`lru`], [`dnc`]: external memories that a controller writes to. Each can be used on its own as a
//!   [`RecurrentCore`] (input and state in, output and state out), and through [`CoreMemory`] as the memory of a
//!   generative model.
//! - [`rmc`]: memories that attend to each other; also a core.
//! - [`stacked_lstm`], [`ent_net`], [`conv_lstm`], [`memoryless`]: cores that the RMC is compared with.
//! - [`lstm_memory`]: an LSTM alone, which keeps everything it remembers in its state.
//! - [`dnd`]: a dictionary of what was seen where. It is no [`Memory`], since its query is the state of the same step;
//!   [`spatial`] is one that owns such a state.
//! - [`bundle`](mod@bundle): operations on a whole state: detach it, make it a leaf, pick rows.
//! - [`any`]: the table of all memories and cores, and types that hold any of them, chosen by name at run time.
//! - [`recurrent`], [`lstm`], [`controller`], [`init`]: recurrent cores, the LSTM, the controllers of a DNC,
//!   initial parameters.
//! - [`range_checks`]: checks for tests, which panic when a memory's weights leave their range.

pub mod any;
pub mod bundle;
mod checks;
pub mod controller;
pub mod conv_lstm;
pub mod count;
pub mod dnc;
pub mod dnd;
pub mod ent_net;
mod error;
mod fifo;
pub mod hybrid;
pub mod init;
pub mod introspection;
pub mod lru;
pub mod lstm;
pub mod lstm_memory;
pub mod memoryless;
pub mod ntm;
pub mod recurrent;
pub mod rmc;
mod settings;
pub mod spatial;
pub mod stacked_lstm;

pub use any::{
    AnyCore, AnyCorePrepared, AnyCoreState, AnyMemory, AnyMemoryPrepared, AnyMemoryState,
    CoreConfig, MemoryConfig, MemoryName, MemorySettings,
};
pub use bundle::{Bundle, BundleGradients, TensorMapper};
pub use checks::{CHECKS_VARIABLE, range_checks, set_range_checks};
pub use controller::{Controller, ControllerKind, ControllerState, ControllerWeights, FeedForward};
pub use conv_lstm::{ConvLstm, ConvLstmConfig, ConvLstmState};
pub use count::Count;
pub use dnc::{Dnc, DncConfig, DncState};
pub use dnd::{Dnd, Neighbours};
pub use ent_net::{EntNet, EntNetConfig, EntNetState};
pub use error::MemoryError;
pub use hybrid::{Hybrid, HybridConfig, HybridState};
pub use init::{Draws, Initializer};
pub use introspection::{Introspection, IntrospectionConfig, IntrospectionState};
pub use lru::{Lru, LruConfig, LruState};
pub use lstm::{Lstm, LstmConfig, LstmState};
pub use lstm_memory::{LstmMemory, LstmMemoryConfig};
pub use memoryless::{Memoryless, MemorylessConfig, Stateless};
pub use ntm::{Ntm, NtmConfig, NtmState};
pub use recurrent::{CoreMemory, CoreMemoryState, CoreOutput, RecurrentCore};
pub use rmc::{GateStyle, Rmc, RmcConfig, RmcInput, RmcMaps, RmcState, RmcStep};
pub use settings::Place;
pub use spatial::{Spatial, SpatialConfig, SpatialState};
pub use stacked_lstm::{StackedLstm, StackedLstmConfig, StackedLstmState};

pub use mnemora_kernels::lstm::LstmWeights;

use burn::{
    module::{Module, ModuleDisplay},
    tensor::{Device, IndexingUpdateOp, Int, Tensor},
};

/// The results of step `t - 1`.
#[derive(Clone, Debug)]
pub struct Previous {
    /// `z_{t-1}`, `[batch, latent]`.
    pub latent: Tensor<2>,
    /// Features of `x_{t-1}`, `[batch, features]`; only [`LstmMemory`] reads them.
    pub features: Tensor<2>,
}

crate::bundle!(Previous { latent, features });

/// Weights of a memory's heads over its slots at one step, for inspection. In an [`EntNet`] they are gates of the
/// cells, which do not sum to one.
#[derive(Clone, Debug)]
pub struct Attention {
    /// The kind of weights: `read`, `write`, `allocation`.
    pub name: &'static str,
    weights: Weights,
}

// There is one value per step, so the size of the largest variant costs nothing that matters.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum Weights {
    Dense(Tensor<3>),
    /// Weights of some slots, the indices of these slots, and the number of all slots.
    Sparse(Tensor<3>, Tensor<3, Int>, usize),
    /// Weights of heads with several query rows each.
    Rows(Tensor<4>),
}

impl Attention {
    /// Weights `[batch, heads, slots]`, between 0 and 1.
    pub fn new(name: &'static str, weights: &Tensor<3>) -> Self {
        let weights = Weights::Dense(weights.clone());
        Self { name, weights }
    }

    /// Weights of the given slots; all others are zero. Both tensors are `[batch, heads, count]`.
    pub(crate) fn sparse(
        name: &'static str,
        weights: &Tensor<3>,
        slots: &Tensor<3, Int>,
        all: usize,
    ) -> Self {
        let weights = Weights::Sparse(weights.clone(), slots.clone(), all);
        Self { name, weights }
    }

    /// Weights of heads with several query rows each, `[batch, heads, rows, slots]`.
    pub(crate) fn of_rows(name: &'static str, weights: &Tensor<4>) -> Self {
        let weights = Weights::Rows(weights.clone());
        Self { name, weights }
    }

    /// The weights of each query of a head, `[batch, heads, queries, slots]`; `None` if heads have one query only. In an
    /// RMC every slot is a query, and the last entries are the rows of the input.
    pub fn by_row(&self) -> Option<Tensor<4>> {
        match &self.weights {
            Weights::Rows(weights) => Some(weights.clone()),
            _ => None,
        }
    }

    /// `[batch, heads, slots]`, averaged over a head's query rows if there are several. Slots at the end that
    /// were never written may be missing.
    pub fn weights(&self) -> Tensor<3> {
        match &self.weights {
            Weights::Dense(weights) => weights.clone(),
            Weights::Rows(weights) => weights.clone().mean_dim(2).squeeze_dim(2),
            Weights::Sparse(weights, slots, all) => {
                let [batch, heads, _] = weights.dims();
                Tensor::zeros([batch, heads, *all], &weights.device()).scatter(
                    2,
                    slots.clone(),
                    weights.clone(),
                    IndexingUpdateOp::Add,
                )
            }
        }
    }
}

/// What a memory tells the model at step `t`, before it sees `x_t`. Here it is `Psi_t`; gtmm (figure 2) writes
/// `Psi_{t-1}`, because it depends only on what was stored before step `t`.
#[derive(Clone, Debug)]
pub struct MemoryContext {
    /// `[batch, context_size]`.
    pub psi: Tensor<2>,
    /// Attention weights of this step; empty for a memory without heads, or with nothing stored.
    pub attention: Vec<Attention>,
}

/// A memory system, stepped once for each observation.
pub trait Memory: Module + ModuleDisplay {
    /// Controller state and memory contents. It holds no parameters.
    type State: Bundle;

    /// See [`RecurrentCore::Prepared`].
    type Prepared: Clone + std::fmt::Debug + Send;

    /// Prepares the parameters for the steps of one sequence; see [`RecurrentCore::prepare`].
    fn prepare(&self) -> Self::Prepared;

    /// State before the first step, with nothing stored.
    fn initial_state(&self, batch: usize, device: &Device) -> Self::State;

    /// Takes in the results of step `t - 1` and returns the context of step `t`.
    ///
    /// `condition` is `c_t`, `[batch, condition]`, for memories built with conditions.
    ///
    /// # Panics
    /// If shapes do not fit the memory, a condition is missing or unexpected, or the state belongs to another
    /// memory.
    fn step(
        &self,
        prepared: &Self::Prepared,
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: Self::State,
    ) -> (MemoryContext, Self::State);

    /// Size of `z`, the memory's input.
    fn latent_size(&self) -> usize;

    /// Width of [`MemoryContext::psi`].
    fn context_size(&self) -> usize;

    /// How many f32 numbers the autodiff graph of one step holds until the backward pass, for each sequence of the batch,
    /// averaged over sequences of `time` steps. It estimates memory use.
    fn kept(&self, time: usize) -> Count;

    /// For a store of the last latents, how many it holds before it drops the oldest; `None` for any other
    /// memory.
    fn stored(&self) -> Option<usize> {
        None
    }

    /// A caption of one or two sentences for a picture of the [`Attention`] weights.
    fn attention_words(&self) -> &'static str {
        "Weights of each head over the slots on one held-out sequence, one column per step."
    }
}
