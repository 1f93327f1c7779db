//! An LSTM as the only memory of a temporal VAE: the baseline of gtmm, after the VRNN.

use crate::{
    Count, Initializer, Lstm, LstmState, Memory, MemoryContext, MemoryError, Place, Previous,
    RecurrentCore, error::require_positive,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mnemora_kernels::lstm::LstmWeights;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of an [`LstmMemory`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LstmMemoryConfig {
    /// Size of `z`.
    #[serde(skip)]
    pub latent: usize,
    /// Size of the features of a frame.
    #[serde(skip)]
    pub features: usize,
    /// Size of the condition `c_t`; 0 for none.
    #[serde(skip)]
    pub condition: usize,
    /// Size of the LSTM's state.
    pub hidden: usize,
}

/// `h_t = LSTM(h_{t-1}, [feat(x_t); z_t; c_{t+1}])`: one recurrent state carries all dependencies of a temporal
/// VAE and is the context of the next step.
///
/// At `t = 1` there is nothing to take in: the context is the initial state, and `c_1` is not read.
///
/// Chung et al. 2015; the baseline of gtmm, section 2.
#[derive(Module, Debug)]
pub struct LstmMemory {
    /// Input `[features; latent; condition]`.
    pub lstm: Lstm,
    latent: usize,
}

impl Default for LstmMemoryConfig {
    fn default() -> Self {
        Self {
            latent: 0,
            features: 0,
            condition: 0,
            hidden: 128,
        }
    }
}

impl LstmMemoryConfig {
    /// Fills in the sizes that settings leave open, from `place`.
    ///
    /// # Errors
    /// Never; the signature is that of every `fit`.
    pub fn fit(&self, place: &Place) -> Result<Self, MemoryError> {
        Ok(Self {
            latent: place.latent,
            features: place.features,
            condition: place.condition,
            ..self.clone()
        })
    }

    /// Builds the core. A size of zero is an error.
    pub fn init(&self, init: &mut Initializer) -> Result<LstmMemory, MemoryError> {
        require_positive(
            "vrnn",
            &[
                ("latent", self.latent),
                ("features", self.features),
                ("hidden", self.hidden),
            ],
        )?;
        let inputs = self.features + self.latent + self.condition;
        Ok(LstmMemory {
            lstm: Lstm::new(inputs, self.hidden, init),
            latent: self.latent,
        })
    }
}

impl Memory for LstmMemory {
    type State = LstmState;
    type Prepared = LstmWeights;

    fn prepare(&self) -> LstmWeights {
        self.lstm.prepare()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> LstmState {
        self.lstm.initial_state(batch, device)
    }

    fn step(
        &self,
        prepared: &LstmWeights,
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: LstmState,
    ) -> (MemoryContext, LstmState) {
        let state = match previous {
            None => state,
            Some(Previous { latent, features }) => {
                let mut input = vec![features, latent];
                input.extend(condition);
                self.lstm.step(prepared, Tensor::cat(input, 1), state).1
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

    fn kept(&self, _time: usize) -> Count {
        self.lstm.kept() + self.lstm.input_size()
    }
}
