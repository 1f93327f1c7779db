//! The Introspection network: it stores latents unchanged and reads them by position.

use crate::{
    Attention, Count, Initializer, Lstm, LstmState, Memory, MemoryContext, MemoryError, Place,
    Previous, RecurrentCore, checks,
    error::require_positive,
    fifo::{append, mean_filled},
    settings::store_slots,
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor, activation},
};
use mnemora_kernels::{
    attention::{read, softplus_attention},
    lstm::LstmWeights,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of an [`Introspection`] network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntrospectionConfig {
    /// Size of `z`, which is also the width of a memory row.
    #[serde(skip)]
    pub latent: usize,
    /// Size of the condition `c_t`; 0 for none.
    #[serde(skip)]
    pub condition: usize,
    /// Size of the controller's state.
    pub hidden: usize,
    /// Hidden units of the attention network.
    pub attention: usize,
    /// Read heads `R`.
    pub reads: usize,
    /// Slots, `L`: at least as many as steps of a training sequence, or 0 for exactly as many, so that nothing is
    /// forgotten within such a sequence.
    pub slots: usize,
}

/// A first-in-first-out buffer of latents, read by attention on absolute position.
///
/// gtmm, section 3.1, equations 9 to 12, for `L` slots and `R` heads; only slots that hold a latent take part:
///
/// ```text
/// h_t    = LSTM(h_{t-1}, [z_{t-1}; c_t])
/// k      = softplus(f_att(h_t)) + 1e-6
/// w^r[i] = k^r[i] / sum_j k^r[j]
/// phi^r  = sum_i w^r[i] M[i]                  M holds z_1 .. z_{t-1}, one in each slot, the oldest first
/// Psi_t  = [phi^1 sig(g^1); ..; phi^R sig(g^R)],  g = linear(h_t)
/// ```
#[derive(Module, Debug)]
pub struct Introspection {
    /// `f_rnn` of equation 9, input `[z_{t-1}; c_t]`.
    pub lstm: Lstm,
    /// First layer of `f_att`.
    pub attention_hidden: Linear,
    /// Second layer of `f_att`, onto `heads * slots` pre-activations, slots fastest.
    pub attention_output: Linear,
    /// Correction biases `g^r` of equation 12, onto `heads * latent`.
    pub gate: Linear,
    latent: usize,
    reads: usize,
    slots: usize,
}

/// Controller and contents of an [`Introspection`] memory.
#[derive(Clone, Debug)]
pub struct IntrospectionState {
    /// `h_t` and the LSTM's cell.
    pub controller: LstmState,
    /// `M_{t-1}`, `[batch, filled, latent]`, oldest first; `None` while nothing is stored.
    pub memory: Option<Tensor<3>>,
}

crate::bundle!(IntrospectionState { controller, memory });

impl Default for IntrospectionConfig {
    fn default() -> Self {
        Self {
            latent: 0,
            condition: 0,
            hidden: 128,
            attention: 128,
            reads: 5,
            slots: 0,
        }
    }
}

impl IntrospectionConfig {
    /// Fills in the sizes that settings leave open, from `place`.
    ///
    /// # Errors
    /// The memory has fewer slots than a sequence has steps.
    pub fn fit(&self, place: &Place) -> Result<Self, MemoryError> {
        Ok(Self {
            latent: place.latent,
            condition: place.condition,
            slots: store_slots("introspection", self.slots, place.time)?,
            ..self.clone()
        })
    }

    /// Builds the network. A size of zero is an error.
    pub fn init(&self, init: &mut Initializer) -> Result<Introspection, MemoryError> {
        require_positive(
            "introspection",
            &[
                ("latent", self.latent),
                ("hidden", self.hidden),
                ("attention", self.attention),
                ("reads", self.reads),
                ("slots", self.slots),
            ],
        )?;
        Ok(Introspection {
            lstm: Lstm::new(self.latent + self.condition, self.hidden, init),
            attention_hidden: init.linear(self.hidden, self.attention),
            attention_output: init.linear(self.attention, self.reads * self.slots),
            gate: init.linear(self.hidden, self.reads * self.latent),
            latent: self.latent,
            reads: self.reads,
            slots: self.slots,
        })
    }
}

impl Introspection {
    /// `w_t^r`, equation 10, over the `filled` slots: `[batch, reads, filled]`.
    fn attend(&self, hidden: Tensor<2>, filled: usize) -> Tensor<3> {
        let [batch, _] = hidden.dims();
        let units = activation::relu(self.attention_hidden.forward(hidden));
        let preactivations = self
            .attention_output
            .forward(units)
            .reshape([batch, self.reads, self.slots])
            .narrow(2, 0, filled);
        softplus_attention(preactivations)
    }
}

impl Memory for Introspection {
    type State = IntrospectionState;
    type Prepared = LstmWeights;

    fn prepare(&self) -> LstmWeights {
        self.lstm.prepare()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> IntrospectionState {
        IntrospectionState {
            controller: self.lstm.initial_state(batch, device),
            memory: None,
        }
    }

    fn step(
        &self,
        prepared: &LstmWeights,
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: IntrospectionState,
    ) -> (MemoryContext, IntrospectionState) {
        let [batch, _] = state.controller.hidden.dims();
        let device = state.controller.hidden.device();
        let latent = match &previous {
            Some(previous) => previous.latent.clone(),
            None => Tensor::zeros([batch, self.latent], &device),
        };
        let memory = match previous {
            Some(previous) => Some(append(state.memory, previous.latent, self.slots)),
            None => state.memory,
        };

        // Equation 9.
        let mut input = vec![latent];
        input.extend(condition);
        let input = Tensor::cat(input, 1);
        let (_, controller) = self.lstm.step(prepared, input, state.controller);

        let context = match &memory {
            None => MemoryContext {
                psi: Tensor::zeros([batch, self.reads * self.latent], &device),
                attention: Vec::new(),
            },
            Some(rows) => {
                // Equations 10 to 12.
                let weights = self.attend(controller.hidden.clone(), rows.dims()[1]);
                checks::weights("introspection", "read weights", &weights, true);
                let phi =
                    read(weights.clone(), rows.clone()).reshape([batch, self.reads * self.latent]);
                let gate = activation::sigmoid(self.gate.forward(controller.hidden.clone()));
                MemoryContext {
                    psi: phi * gate,
                    attention: vec![Attention::new("read", &weights)],
                }
            }
        };
        (context, IntrospectionState { controller, memory })
    }

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn context_size(&self) -> usize {
        self.reads * self.latent
    }

    /// The filled part of the memory, and each head's weights over it.
    fn kept(&self, time: usize) -> Count {
        let reads = Count::from(self.reads);
        let heads = reads * (self.latent * 4 + self.slots);
        let slot = reads * 6 + self.latent;
        let attention = 2 * self.attention_hidden.weight.shape()[1];
        let outside = self.lstm.kept() + self.lstm.input_size() + attention + heads;
        outside + slot * mean_filled(self.slots, time)
    }

    fn attention_words(&self) -> &'static str {
        "Read weights of each head over the slots on one held-out sequence, one column per step. Slot i holds the \
         latent of step i."
    }

    fn stored(&self) -> Option<usize> {
        Some(self.slots)
    }
}
