//! The hybrid: latents stored as they are, read by position, by content, and by what followed it.

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
use mnemora_kernels::{
    attention::{read, softplus_attention},
    content::cosine_similarity,
    softplus,
};

/// Sizes of a [`Hybrid`] memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridConfig {
    /// Size of `z`, which is the width of a memory row.
    pub latent: usize,
    /// Size of the condition `c_t`, 0 for none.
    pub condition: usize,
    /// Size of the controller's state.
    pub hidden: usize,
    /// Hidden units of the positional attention network.
    pub attention: usize,
    /// Width of the keys `K`.
    pub key: usize,
    /// Read heads `R`.
    pub reads: usize,
    /// Storage locations `L`; with as many as a sequence has steps nothing is ever forgotten.
    pub slots: usize,
}

/// A first-in-first-out buffer of latents, as in the Introspection network, whose heads choose at
/// each step between three ways to address it.
///
/// The discussion of gtmm (section 6) asks for the direct storage of latents together with content
/// addressing. Each slot `i` holds `z_i` and two keys that are made when it is written: what was
/// seen, `a_i = A z_i`, and the circumstances in which it was, `b_i = B h_i`, with the
/// controller's output of that step. At step `t` the same two maps make the queries `A z_{t-1}`
/// and `B h_t`, and each head scores slots by
///
/// `s^r[i] = beta_a^r cos(A z_{t-1}, a_i) + beta_b^r cos(B h_t, b_i)`
///
/// - *position*: softplus attention on absolute slots (gtmm, equation 10), for recall in order and
///   by index;
/// - *content*: `softmax(s^r)`, for a place that is visited again;
/// - *successor*: `softmax(s^r)` over the slots that have a successor, moved one slot on, for a cue
///   that is seen again: what followed it?
///
/// A head's weights mix the three by a softmax of its own. Reads are gated as in equation 12, and
/// the context is `Psi = [phi^1 sig(g^1); ...; phi^R sig(g^R); h_t]`: unlike that of the
/// Introspection network it has the controller's output, for what needs no slot.
///
/// What it gives up: it stores one latent a step and never merges or revises, so its size must
/// grow with the sequence, and so do the parameters of its positional attention.
#[derive(Module, Debug)]
pub struct Hybrid {
    /// Controller, input `[z_{t-1}; c_t]`.
    pub lstm: Lstm,
    /// First layer of the positional attention.
    pub attention_hidden: Linear,
    /// Second layer, onto `heads * slots` pre-activations, slots fastest.
    pub attention_output: Linear,
    /// `A`, onto the key of what was seen.
    pub latent_key: Linear,
    /// `B`, onto the key of the circumstances.
    pub place_key: Linear,
    /// From `h_t` onto correction biases, strengths of both keys, and modes of all heads.
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
    /// What is stored, oldest first; `None` while nothing is.
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

impl Bundle for HybridState {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            controller: self.controller.map_tensors(mapper),
            stored: self.stored.map_tensors(mapper),
        }
    }
}

impl Bundle for Stored {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            latents: self.latents.map_tensors(mapper),
            latent_keys: self.latent_keys.map_tensors(mapper),
            place_keys: self.place_keys.map_tensors(mapper),
        }
    }
}

impl HybridConfig {
    /// Builds the memory; refuses sizes of zero.
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

/// The weights of what followed the slots that `scores` `[batch, reads, filled]` point at; all
/// zero while only one slot is filled.
fn successor(scores: Tensor<3>) -> Tensor<3> {
    let [batch, reads, filled] = scores.dims();
    let none = Tensor::zeros([batch, reads, 1], &scores.device());
    if filled == 1 {
        return none;
    }
    let followed = activation::softmax(scores.narrow(2, 0, filled - 1), 2);
    Tensor::cat(vec![none, followed], 2)
}

impl Hybrid {
    /// Numbers that the graph of a step keeps for each sequence, mean over sequences of `time` steps: latents
    /// and keys as far as slots are filled, and each head's weights over these in each of three ways.
    pub fn kept(&self, time: usize) -> Count {
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
}

impl Memory for Hybrid {
    type State = HybridState;

    fn initial_state(&self, batch: usize, device: &Device) -> HybridState {
        HybridState {
            controller: self.lstm.initial_state(batch, device),
            stored: None,
        }
    }

    fn step(
        &self,
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

        // Gtmm, equation 9.
        let mut input = vec![latent.clone()];
        input.extend(condition);
        let controller = self.lstm.step(Tensor::cat(input, 1), state.controller);
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

        // Gtmm, equations 11 and 12.
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
}
