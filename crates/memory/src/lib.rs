//! Memory systems and recurrent cores as Burn modules.
//!
//! Everything a generative model may know about the past goes through a [`MemoryContext`]. At
//! step `t` a [`Memory`] takes in what step `t - 1` produced and the condition of step `t`, and
//! returns the context for `z_t`; nothing of step `t` itself is in it. At `t = 1` there is no
//! previous step and nothing is written.
//!
//! - [`introspection`]: a first-in-first-out store of latents with positional attention.
//! - [`hybrid`]: the same store, addressed by content and its successor too.
//! - [`ntm`], [`lru`], [`dnc`]: external memories that a controller writes to. Each is a
//!   [`RecurrentCore`] of its own (input and state in, output and state out), and by
//!   [`CoreMemory`] the memory of a generative model.
//! - [`rmc`]: memories that attend to each other, a core likewise.
//! - [`stacked_lstm`], [`ent_net`], [`conv_lstm`]: cores that the RMC is compared with.
//! - [`vrnn`]: an LSTM alone, which keeps all dependencies in its state.
//! - [`bundle`]: what is done to a state as a whole: detach it, make it a leaf, pick rows.
//! - [`any`]: any of them, and any core, behind one type, chosen by name at run time.
//! - [`core`], [`lstm`], [`controller`], [`init`]: recurrent cores, the LSTM, what drives a DNC, how
//!   parameters start.
//! - [`range_checks`]: memories that stop where their weights leave their range, for tests.

pub mod any;
pub mod bundle;
mod checks;
pub mod controller;
pub mod conv_lstm;
pub mod core;
pub mod count;
pub mod dnc;
pub mod ent_net;
mod error;
mod fifo;
pub mod hybrid;
pub mod init;
pub mod introspection;
pub mod lru;
pub mod lstm;
pub mod ntm;
pub mod rmc;
pub mod stacked_lstm;
pub mod vrnn;

pub use crate::core::{CoreMemory, CoreMemoryState, CoreOutput, RecurrentCore};
pub use any::{AnyCore, AnyCoreState, AnyMemory, AnyMemoryState, CoreConfig, MemoryConfig};
pub use bundle::{Bundle, BundleGradients, TensorMapper};
pub use checks::{CHECKS_VARIABLE, range_checks, set_range_checks};
pub use controller::{Controller, ControllerKind, ControllerState, FeedForward};
pub use conv_lstm::{ConvLstm, ConvLstmConfig, ConvLstmState};
pub use count::Count;
pub use dnc::{Dnc, DncConfig, DncState};
pub use ent_net::{EntNet, EntNetConfig, EntNetState};
pub use error::MemoryError;
pub use hybrid::{Hybrid, HybridConfig, HybridState};
pub use init::{Draws, Initializer};
pub use introspection::{Introspection, IntrospectionConfig, IntrospectionState};
pub use lru::{Lru, LruConfig, LruState};
pub use lstm::{Lstm, LstmState};
pub use ntm::{Ntm, NtmConfig, NtmState};
pub use rmc::{GateStyle, Rmc, RmcConfig, RmcInput, RmcMaps, RmcState, RmcStep};
pub use stacked_lstm::{StackedLstm, StackedLstmConfig, StackedLstmState};
pub use vrnn::{Vrnn, VrnnConfig};

use burn::{
    module::Module,
    tensor::{Device, IndexingUpdateOp, Int, Tensor},
};

/// What step `t - 1` produced.
#[derive(Clone, Debug)]
pub struct Previous {
    /// `z_{t-1}`, `[batch, latent]`.
    pub latent: Tensor<2>,
    /// Features of `x_{t-1}`, `[batch, features]`. Only the VRNN core reads them.
    pub features: Tensor<2>,
}

impl Bundle for Previous {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            latent: self.latent.map_tensors(mapper),
            features: self.features.map_tensors(mapper),
        }
    }
}

/// Weights of a memory's heads over its slots at one step, for looking at.
#[derive(Clone, Debug)]
pub struct Attention {
    /// What the weights do: `read`, `write`, `allocation`.
    pub name: &'static str,
    weights: Weights,
}

// One value a step: the size of the largest variant costs nothing that matters.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum Weights {
    Dense(Tensor<3>),
    /// Weights of the slots named, of so many.
    Sparse(Tensor<3>, Tensor<3, Int>, usize),
    /// Weights of each of several rows that a head asks for.
    Rows(Tensor<4>),
}

impl Attention {
    pub(crate) fn new(name: &'static str, weights: &Tensor<3>) -> Self {
        let weights = Weights::Dense(weights.clone());
        Self { name, weights }
    }

    /// Weights of the slots named, all others nothing; `[batch, heads, count]` both.
    pub(crate) fn sparse(
        name: &'static str,
        weights: &Tensor<3>,
        slots: &Tensor<3, Int>,
        all: usize,
    ) -> Self {
        let weights = Weights::Sparse(weights.clone(), slots.clone(), all);
        Self { name, weights }
    }

    /// Weights of heads that ask for several rows each, `[batch, heads, rows, slots]`.
    pub(crate) fn of_rows(name: &'static str, weights: &Tensor<4>) -> Self {
        let weights = Weights::Rows(weights.clone());
        Self { name, weights }
    }

    /// The weights of each row that a head asks for, `[batch, heads, rows, slots]`; `None` where a
    /// head asks for one.
    pub fn by_row(&self) -> Option<Tensor<4>> {
        match &self.weights {
            Weights::Rows(weights) => Some(weights.clone()),
            _ => None,
        }
    }

    /// `[batch, heads, slots]`, the mean over its rows where a head asks for several; slots that
    /// were never written may be left out at the end.
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

/// What a memory lets the model know at step `t`: `Psi_{t-1}` of gtmm, figure 2.
#[derive(Clone, Debug)]
pub struct MemoryContext {
    /// `[batch, context_size]`.
    pub psi: Tensor<2>,
    /// Attention of this step; empty for a memory without heads or with nothing stored.
    pub attention: Vec<Attention>,
}

/// A memory system, stepped once for each observation.
pub trait Memory: Module {
    /// Controller state and memory contents.
    type State: Bundle;

    /// State before the first step, with nothing stored.
    fn initial_state(&self, batch: usize, device: &Device) -> Self::State;

    /// Takes in what step `t - 1` produced and returns the context of step `t`.
    ///
    /// `condition` is `c_t`, `[batch, condition]`, for memories built with conditions.
    ///
    /// # Panics
    /// If shapes do not fit the memory, a condition is missing or not expected, or the state is
    /// of another memory.
    fn step(
        &self,
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: Self::State,
    ) -> (MemoryContext, Self::State);

    /// Size of `z`, which the memory takes in.
    fn latent_size(&self) -> usize;

    /// Width of [`MemoryContext::psi`].
    fn context_size(&self) -> usize;
}
