//! The hybrid memory: it stores latents unchanged and reads them by position, by content, and by what followed
//! that content.

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
    content::cosine_similarity,
    lstm::LstmWeights,
    softplus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of a [`Hybrid`] memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HybridConfig {
    /// Size of `z`, which is also the width of a memory row.
    #[serde(skip)]
    pub latent: usize,
    /// Size of the condition `c_t`; 0 for none.
    #[serde(skip)]
    pub condition: usize,
    /// Size of the controller's state.
    pub hidden: usize,
    /// Hidden units of the positional attention network.
    pub attention: usize,
    /// Width of the keys `K`.
    pub key: usize,
    /// Read heads `R`.
    pub reads: usize,
    /// Slots, `L`: at least as many as steps of a training sequence, or 0 for exactly as many, so that nothing is
    /// forgotten within such a sequence.
    pub slots: usize,
}

/// A first-in-first-out buffer of latents, as in the Introspection network. At each step each head chooses
/// between three ways to address it.
///
/// The discussion of gtmm (section 6) suggests combining the direct storage of latents with content addressing.
/// Slot `i` holds `z_i` and two keys: `a_i = A z_i` (what was seen) and `b_i = B h_i` (under which circumstances; `h_i` is
/// the controller's output of step `i`, from before `z_i` was known). It is written at step `i + 1`. At step `t` the
/// same two maps give the queries `A z_{t-1}` and `B h_t`, and each head scores slots by
///
/// `s^r[i] = beta_a^r cos(A z_{t-1}, a_i) + beta_b^r cos(B h_t, b_i)`
///
/// - *position*: softplus attention on absolute slots (gtmm, equation 10), for recall in order and by index;
/// - *content*: `softmax(s^r)` over all slots, by both keys, for a place that is visited again. The newest slot,
///   `z_{t-1}` itself, always matches the first key fully, so a return to a place is found by the second;
/// - *successor*: `softmax(s^r)` over the slots that have a successor, shifted by one slot, for a repeated cue:
///   what followed it?
///
/// A head's weights mix the three by its own softmax. Reads are gated as in equation 12, and the context is `Psi_t
/// = [phi^1 sig(g^1); ...; phi^R sig(g^R); h_t]`. Unlike the context of the Introspection network it contains
/// the controller's output, for information that needs no slot.
///
/// Limits: it stores one latent per step and never merges or revises one. Its size, and the parameters of its
/// positional attention, must therefore grow with the sequence.
#[derive(Module, Debug)]
pub struct Hybrid {
    /// Controller, input `[z_{t-1}; c_t]`.
    pub lstm: Lstm,
    /// First layer of the positional attention.
    pub attention_hidden: Linear,
    /// Second layer, onto `heads * slots` pre-activations, slots fastest.
    pub attention_output: Linear,
    /// `A`, maps a latent to its content key.
    pub latent_key: Linear,
    /// `B`, maps `h_t` to the key of the circumstances.
    pub place_key: Linear,
    /// Maps `h_t` to the correction biases, the strengths of both keys, and the modes of all heads.
    pub interface: Linear,
    latent: usize,
    reads: usize,
    slots: usize,
}

/// Controller and contents of a [`Hybrid`] memory.
#[derive(Clone, Debug)]
pub struct HybridState {
    /// `h_t` and the LSTM's cell.
    pub controller: LstmState,
    /// The stored slots, oldest first; `None` while nothing is stored.
    pub stored: Option<Stored>,
}

/// The filled slots of a [`Hybrid`] memory.
#[derive(Clone, Debug)]
pub struct Stored {
    /// `z_i`, `[batch, filled, latent]`.
    pub latents: Tensor<3>,
    /// `a_i`, `[batch, filled, key]`.
    pub latent_keys: Tensor<3>,
    /// `b_i`, `[batch, filled, key]`.
    pub place_keys: Tensor<3>,
}

crate::bundle!(HybridState { controller, stored });

crate::bundle!(Stored {
    latents,
    latent_keys,
    place_keys
});

impl Default for HybridConfig {
    fn default() -> Self {
        Self {
            latent: 0,
            condition: 0,
            hidden: 100,
            attention: 128,
            key: 32,
            reads: 5,
            slots: 0,
        }
    }
}

impl HybridConfig {
    /// Fills in the sizes that settings leave open, from `place`.
    ///
    /// # Errors
    /// The memory has fewer slots than a sequence has steps.
    pub fn fit(&self, place: &Place) -> Result<Self, MemoryError> {
        Ok(Self {
            latent: place.latent,
            condition: place.condition,
            slots: store_slots("hybrid", self.slots, place.time)?,
            ..self.clone()
        })
    }

    /// Builds the memory. A size of zero is an error.
    pub fn init(&self, init: &mut Initializer) -> Result<Hybrid, MemoryError> {
        require_positive(
            "hybrid",
            &[
                ("latent", self.latent),
                ("hidden", self.hidden),
                ("attention", self.attention),
                ("key", self.key),
                ("reads", self.reads),
                ("slots", self.slots),
            ],
        )?;
        Ok(Hybrid {
            lstm: Lstm::new(self.latent + self.condition, self.hidden, init),
            attention_hidden: init.linear(self.hidden, self.attention),
            attention_output: init.linear(self.attention, self.reads * self.slots),
            latent_key: init.linear(self.latent, self.key),
            place_key: init.linear(self.hidden, self.key),
            interface: init.linear(self.hidden, self.reads * (self.latent + 5)),
            latent: self.latent,
            reads: self.reads,
            slots: self.slots,
        })
    }
}

impl Hybrid {
    /// Writes `z_{t-1}` with its keys.
    fn write(
        &self,
        stored: Option<Stored>,
        latent: Tensor<2>,
        latent_key: Tensor<2>,
        place_key: Tensor<2>,
    ) -> Stored {
        let (latents, latent_keys, place_keys) = match stored {
            None => (None, None, None),
            Some(stored) => (
                Some(stored.latents),
                Some(stored.latent_keys),
                Some(stored.place_keys),
            ),
        };
        Stored {
            latents: append(latents, latent, self.slots),
            latent_keys: append(latent_keys, latent_key, self.slots),
            place_keys: append(place_keys, place_key, self.slots),
        }
    }

    /// Softplus attention on absolute slots, `[batch, reads, filled]`.
    fn position(&self, hidden: Tensor<2>, filled: usize) -> Tensor<3> {
        let batch = hidden.dims()[0];
        let units = activation::relu(self.attention_hidden.forward(hidden));
        let preactivations = self
            .attention_output
            .forward(units)
            .reshape([batch, self.reads, self.slots])
            .narrow(2, 0, filled);
        softplus_attention(preactivations)
    }
}

/// The content weights `scores`, `[batch, reads, filled]`, shifted to the following slots; all zero while only
/// one slot is filled.
fn successor(scores: Tensor<3>) -> Tensor<3> {
    let [batch, reads, filled] = scores.dims();
    let none = Tensor::zeros([batch, reads, 1], &scores.device());
    if filled == 1 {
        return none;
    }
    let followed = activation::softmax(scores.narrow(2, 0, filled - 1), 2);
    Tensor::cat(vec![none, followed], 2)
}

impl Memory for Hybrid {
    type State = HybridState;
    type Prepared = LstmWeights;

    fn prepare(&self) -> LstmWeights {
        self.lstm.prepare()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> HybridState {
        HybridState {
            controller: self.lstm.initial_state(batch, device),
            stored: None,
        }
    }

    fn step(
        &self,
        prepared: &LstmWeights,
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: HybridState,
    ) -> (MemoryContext, HybridState) {
        let [batch, _] = state.controller.hidden.dims();
        let device = state.controller.hidden.device();
        let before = state.controller.hidden.clone();
        let latent = match &previous {
            Some(previous) => previous.latent.clone(),
            None => Tensor::zeros([batch, self.latent], &device),
        };

        // gtmm, equation 9.
        let mut input = vec![latent.clone()];
        input.extend(condition);
        let input = Tensor::cat(input, 1);
        let (_, controller) = self.lstm.step(prepared, input, state.controller);
        let hidden = controller.hidden.clone();

        if previous.is_none() {
            let nothing = Tensor::zeros([batch, self.reads * self.latent], &device);
            let context = MemoryContext {
                psi: Tensor::cat(vec![nothing, hidden], 1),
                attention: Vec::new(),
            };
            let stored = state.stored;
            return (context, HybridState { controller, stored });
        }

        let seen = self.latent_key.forward(latent.clone());
        let stored = self.write(
            state.stored,
            latent,
            seen.clone(),
            self.place_key.forward(before),
        );
        let filled = stored.latents.dims()[1];

        let heads = [
            self.reads * self.latent,
            self.reads,
            self.reads,
            self.reads * 3,
        ];
        let parts = self
            .interface
            .forward(hidden.clone())
            .split_with_sizes(heads.to_vec(), 1);
        let [gate, latent_strength, place_strength, modes] = parts
            .try_into()
            .unwrap_or_else(|_| unreachable!("there are as many parts as sizes"));
        let strength = |logits: Tensor<2>| softplus(logits).reshape([batch, self.reads, 1]);
        let modes = activation::softmax(modes.reshape([batch, self.reads, 3]), 2);

        let place = self.place_key.forward(hidden.clone());
        let scores = strength(latent_strength)
            * cosine_similarity(seen.unsqueeze_dim(1), stored.latent_keys.clone())
            + strength(place_strength)
                * cosine_similarity(place.unsqueeze_dim(1), stored.place_keys.clone());
        let mode = |index: usize| modes.clone().narrow(2, index, 1);
        let weights = self.position(hidden.clone(), filled) * mode(0)
            + activation::softmax(scores.clone(), 2) * mode(1)
            + successor(scores) * mode(2);
        checks::weights("hybrid", "read weights", &weights, filled > 1);

        // gtmm, equations 11 and 12.
        let phi = read(weights.clone(), stored.latents.clone())
            .reshape([batch, self.reads * self.latent]);
        let context = MemoryContext {
            psi: Tensor::cat(vec![phi * activation::sigmoid(gate), hidden], 1),
            attention: vec![Attention::new("read", &weights)],
        };
        let stored = Some(stored);
        (context, HybridState { controller, stored })
    }

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn context_size(&self) -> usize {
        self.reads * self.latent + self.lstm.hidden_size()
    }

    /// The latents and keys of filled slots, and each head's weights over them for each of the three ways.
    fn kept(&self, time: usize) -> Count {
        let (reads, keys) = (
            Count::from(self.reads),
            self.latent_key.weight.shape()[1] + self.place_key.weight.shape()[1],
        );
        let heads = reads * (self.latent * 4 + self.slots + 20);
        let slot = reads * 14 + self.latent + keys + 8;
        let attention = 2 * self.attention_hidden.weight.shape()[1];
        let outside = self.lstm.kept() + self.lstm.input_size() + attention + 4 * keys + heads;
        outside + self.lstm.hidden_size() + slot * mean_filled(self.slots, time)
    }

    fn attention_words(&self) -> &'static str {
        "Read weights of each head over the slots on one held-out sequence, one column per step. Slot i holds the \
         latent of step i."
    }

    fn stored(&self) -> Option<usize> {
        Some(self.slots)
    }
}
