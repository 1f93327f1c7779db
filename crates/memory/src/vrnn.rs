//! The VRNN core: an LSTM is all the memory there is.

use crate::{
    Count, Initializer, Lstm, LstmState, Memory, MemoryContext, MemoryError, Previous,
    error::require_positive,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};

/// Sizes of a [`Vrnn`] core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VrnnConfig {
    /// Size of `z`.
    pub latent: usize,
    /// Size of the features of a frame.
    pub features: usize,
    /// Size of the condition `c_t`, 0 for none.
    pub condition: usize,
    /// Size of the LSTM's state.
    pub hidden: usize,
}

/// `h_t = LSTM(h_{t-1}, [feat(x_t); z_t; c_{t+1}])`: all dependencies of a temporal VAE kept in
/// one recurrent state, which is the context of the next step.
///
/// At t = 1 there is nothing to take in: the context is the initial state, and c_1 is not read.
///
/// Chung et al. 2015; the baseline of gtmm, section 2.
#[derive(Module, Debug)]
pub struct Vrnn {
    /// Input `[features; latent; condition]`.
    pub lstm: Lstm,
    latent: usize,
}

impl VrnnConfig {
    /// Builds the core; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<Vrnn, MemoryError> {
        require_positive(
            "vrnn",
            &[
                ("latent", self.latent),
                ("features", self.features),
                ("hidden", self.hidden),
            ],
        )?;
        let inputs = self.features + self.latent + self.condition;
        Ok(Vrnn {
            lstm: Lstm::new(inputs, self.hidden, init),
            latent: self.latent,
        })
    }
}

impl Vrnn {
    /// Numbers that the graph of a step keeps for each sequence.
    pub fn kept(&self) -> Count {
        self.lstm.kept() + self.lstm.input_size()
    }
}

impl Memory for Vrnn {
    type State = LstmState;

    fn initial_state(&self, batch: usize, device: &Device) -> LstmState {
        self.lstm.initial_state(batch, device)
    }

    fn step(
        &self,
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: LstmState,
    ) -> (MemoryContext, LstmState) {
        let state = match previous {
            None => state,
            Some(Previous { latent, features }) => {
                let mut input = vec![features, latent];
                input.extend(condition);
                self.lstm.step(Tensor::cat(input, 1), state)
            }
        };
        let context = MemoryContext {
            psi: state.hidden.clone(),
            attention: Vec::new(),
        };
        (context, state)
    }

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn context_size(&self) -> usize {
        self.lstm.hidden_size()
    }
}
