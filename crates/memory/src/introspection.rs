//! The Introspection network: latents stored as they are, read by position.

use crate::{
    Attention, Bundle, Count, Initializer, Lstm, LstmState, Memory, MemoryContext, MemoryError,
    Previous, TensorMapper, checks,
    error::require_positive,
    fifo::{append, mean_filled},
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor, activation},
};
use mnemora_kernels::attention::{read, softplus_attention};

/// Sizes of an [`Introspection`] network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntrospectionConfig {
    /// Size of `z`, which is the width of a memory row.
    pub latent: usize,
    /// Size of the condition `c_t`, 0 for none.
    pub condition: usize,
    /// Size of the controller's state.
    pub hidden: usize,
    /// Hidden units of the attention network.
    pub attention: usize,
    /// Read heads `R`.
    pub reads: usize,
    /// Storage locations `L`; with as many as a sequence has steps nothing is ever forgotten.
    pub slots: usize,
}

/// A first-in-first-out buffer of latents, read by attention on absolute position.
///
/// gtmm, section 3.1: the controller (equation 9) proposes one weight for each of the `L` slots
/// and each of the `R` heads (equation 10); only slots that hold a latent take part.
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

impl Bundle for IntrospectionState {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            controller: self.controller.map_tensors(mapper),
            memory: self.memory.map_tensors(mapper),
        }
    }
}

impl IntrospectionConfig {
    /// Builds the network; refuses sizes of zero.
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

impl Introspection {
    /// Numbers that the graph of a step keeps for each sequence, mean over sequences of `time` steps: the
    /// memory as far as it is filled, and each head's weights over it.
    pub fn kept(&self, time: usize) -> Count {
        let reads = Count::from(self.reads);
        let heads = reads * (self.latent * 4 + self.slots);
        let slot = reads * 6 + self.latent;
        let attention = 2 * self.attention_hidden.weight.shape()[1];
        let outside = self.lstm.kept() + self.lstm.input_size() + attention + heads;
        outside + slot * mean_filled(self.slots, time)
    }
}

impl Memory for Introspection {
    type State = IntrospectionState;

    fn initial_state(&self, batch: usize, device: &Device) -> IntrospectionState {
        IntrospectionState {
            controller: self.lstm.initial_state(batch, device),
            memory: None,
        }
    }

    fn step(
        &self,
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
        let controller = self.lstm.step(Tensor::cat(input, 1), state.controller);

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
}
