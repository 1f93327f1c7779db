//! The Neural Turing Machine: content addressing followed by a rotation.

use crate::{
    Attention, CoreOutput, Count, Initializer, Lstm, LstmState, MemoryError, RecurrentCore, checks,
    error::require_positive, init::INITIAL_MEMORY, settings::slots_for,
};
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Device, Tensor, activation},
};
use mnemora_kernels::{attention::read, content::content_weights, lstm::LstmWeights, softplus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keeps the logarithm in the sharpening finite.
const SHARPENING_FLOOR: f64 = 1e-8;

/// Sizes of an [`Ntm`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NtmConfig {
    /// Width of the input; [`fit`](Self::fit) fills it in.
    #[serde(skip)]
    pub input: usize,
    /// Size of the controller's state.
    pub hidden: usize,
    /// Read heads `R`.
    pub reads: usize,
    /// Write heads `V`.
    pub writes: usize,
    /// Width of a slot, `W`.
    pub width: usize,
    /// Slots, `N`; 0 for one per step of a sequence, which for an agent is an unroll and the step after it.
    pub slots: usize,
}

/// An LSTM controller with heads that address memory by content and by shifting their previous position.
///
/// Graves et al. 2014, section 3. At a step the controller reads `[input; r_{t-1}]`, the write
/// heads write into `M_{t-1}`, and the read heads read `M_t`. For each head, with the key `k`, the strength `beta`, the
/// gate `g`, the shifts `s`, the sharpening `gamma`, and, of a write head, the vectors `e` and `a` from `h_t`:
///
/// ```text
/// w_c = C(M, k, beta)                              content addressing
/// w_g = g w_c + (1 - g) w_{t-1}
/// w_s = w_g convolved with s over the shifts -1, 0 and 1, around the ends
/// w_t = w_s^gamma / sum w_s^gamma
/// M_t = M_{t-1} prod_v (1 - w_v e_v^T) + sum_v w_v a_v^T       over the write heads v
/// r_t = M_t^T w_t                                              for each read head
/// ```
#[derive(Module, Debug)]
pub struct Ntm {
    /// Controller, input `[input; r_{t-1}]`.
    pub lstm: Lstm,
    /// Maps `h_t` to the interface, read heads before write heads: keys, strengths, interpolation gates, shifts,
    /// sharpenings; then the erase and add vectors of the write heads.
    pub interface: Linear,
    /// Logits of each head's weights before the first step, `[reads + writes, slots]`.
    pub initial_weights: Param<Tensor<2>>,
    reads: usize,
    writes: usize,
    width: usize,
}

/// Controller, memory and weights of an [`Ntm`].
#[derive(Clone, Debug)]
pub struct NtmState {
    /// `h_t` and the LSTM's cell.
    pub controller: LstmState,
    /// `M_t`, `[batch, slots, width]`.
    pub memory: Tensor<3>,
    /// `w_t` of the read heads, `[batch, reads, slots]`.
    pub read_weights: Tensor<3>,
    /// `w_t` of the write heads, `[batch, writes, slots]`.
    pub write_weights: Tensor<3>,
    /// `r_t`, `[batch, reads * width]`.
    pub read_vectors: Tensor<2>,
}

crate::bundle!(NtmState {
    controller,
    memory,
    read_weights,
    write_weights,
    read_vectors
});

/// Parameters that tell each head where to look: `[batch, heads, ...]`.
struct Addressing {
    /// `k`, `[batch, heads, width]`
    keys: Tensor<3>,
    /// `beta`, `[batch, heads]`
    strengths: Tensor<2>,
    /// `g`, `[batch, heads, 1]`
    gates: Tensor<3>,
    /// `s` over the shifts -1, 0, +1, `[batch, heads, 3]`
    shifts: Tensor<3>,
    /// `gamma`, `[batch, heads, 1]`
    sharpenings: Tensor<3>,
}

impl Default for NtmConfig {
    fn default() -> Self {
        Self {
            input: 0,
            hidden: 100,
            reads: 5,
            writes: 1,
            width: 32,
            slots: 0,
        }
    }
}

impl NtmConfig {
    /// Fills in the sizes that settings leave open, for inputs of width `input` and sequences of `time` steps.
    ///
    /// # Errors
    /// Never; the signature is that of every `fit`.
    pub fn fit(&self, input: usize, time: usize) -> Result<Self, MemoryError> {
        Ok(Self {
            input,
            slots: slots_for(self.slots, time),
            ..self.clone()
        })
    }

    /// Builds the core. A size of zero is an error.
    ///
    /// Heads start on the first slot, and can learn to move from there.
    pub fn init(&self, init: &mut Initializer) -> Result<Ntm, MemoryError> {
        require_positive(
            "ntm",
            &[
                ("input", self.input),
                ("hidden", self.hidden),
                ("reads", self.reads),
                ("writes", self.writes),
                ("width", self.width),
                ("slots", self.slots),
            ],
        )?;
        let heads = self.reads + self.writes;
        let interface = heads * (self.width + 6) + self.writes * 2 * self.width;
        Ok(Ntm {
            lstm: Lstm::new(self.input + self.reads * self.width, self.hidden, init),
            interface: init.linear(self.hidden, interface),
            initial_weights: init.parameter([heads, self.slots], |_| {
                // 95% of each head's weight is on the first slot. Equal weights on equal rows would stay equal.
                let mut logits = vec![0.0; heads * self.slots];
                for first in logits.iter_mut().step_by(self.slots) {
                    *first = (self.slots as f32).ln() + 3.0;
                }
                logits
            }),
            reads: self.reads,
            writes: self.writes,
            width: self.width,
        })
    }
}

impl Addressing {
    /// The heads `first .. first + count`.
    fn heads(&self, first: usize, count: usize) -> Self {
        Self {
            keys: self.keys.clone().narrow(1, first, count),
            strengths: self.strengths.clone().narrow(1, first, count),
            gates: self.gates.clone().narrow(1, first, count),
            shifts: self.shifts.clone().narrow(1, first, count),
            sharpenings: self.sharpenings.clone().narrow(1, first, count),
        }
    }

    /// `w_t` from `w_{t-1}`, both `[batch, heads, slots]`, over `memory` `[batch, slots, width]`:
    /// equations 5 to 9.
    fn address(self, memory: Tensor<3>, previous: Tensor<3>) -> Tensor<3> {
        // Content addressing, equations 5 and 6.
        let content = content_weights(self.keys, self.strengths, memory);
        // Interpolation, equation 7.
        let gated = previous.clone() + self.gates * (content - previous);
        // Convolutional shift, equation 8.
        let shift = |index: usize| self.shifts.clone().narrow(2, index, 1);
        let shifted = rotate(gated.clone(), -1) * shift(0)
            + gated.clone() * shift(1)
            + rotate(gated, 1) * shift(2);
        // Sharpening, equation 9, in the log domain.
        let logits = shifted.add_scalar(SHARPENING_FLOOR).log() * self.sharpenings;
        activation::softmax(logits, 2)
    }
}

/// Moves weights by one slot, wrapping around at the ends: up for `+1`, down for `-1`.
fn rotate(weights: Tensor<3>, by: isize) -> Tensor<3> {
    let slots = weights.dims()[2];
    if slots == 1 {
        return weights;
    }
    let first = if by > 0 { slots - 1 } else { 1 };
    let tail = weights.clone().narrow(2, first, slots - first);
    Tensor::cat(vec![tail, weights.narrow(2, 0, first)], 2)
}

impl Ntm {
    /// Splits the interface computed from `h_t`: the addressing of all heads, and `(e, a)` of the write heads,
    /// each `[batch, writes, width]`.
    fn interface(&self, hidden: Tensor<2>) -> (Addressing, Tensor<3>, Tensor<3>) {
        let batch = hidden.dims()[0];
        let heads = self.reads + self.writes;
        let written = self.writes * self.width;
        let sizes = [
            heads * self.width,
            heads,
            heads,
            heads * 3,
            heads,
            written,
            written,
        ];
        let parts = self
            .interface
            .forward(hidden)
            .split_with_sizes(sizes.to_vec(), 1);
        let [keys, strengths, gates, shifts, sharpenings, erase, add] = parts
            .try_into()
            .unwrap_or_else(|_| unreachable!("there are as many parts as sizes"));
        let addressing = Addressing {
            keys: keys.reshape([batch, heads, self.width]),
            strengths: softplus(strengths),
            gates: activation::sigmoid(gates).reshape([batch, heads, 1]),
            shifts: activation::softmax(shifts.reshape([batch, heads, 3]), 2),
            sharpenings: softplus(sharpenings)
                .add_scalar(1.0)
                .reshape([batch, heads, 1]),
        };
        let rows = [batch, self.writes, self.width];
        (
            addressing,
            activation::sigmoid(erase).reshape(rows),
            add.reshape(rows),
        )
    }

    /// `M_t` from `M_{t-1}`: all heads erase, then all heads add.
    fn write(
        &self,
        memory: Tensor<3>,
        weights: Tensor<3>,
        erase: Tensor<3>,
        add: Tensor<3>,
    ) -> Tensor<3> {
        let mut memory = memory;
        for head in 0..self.writes {
            let weights = weights.clone().narrow(1, head, 1).swap_dims(1, 2);
            let erase = erase.clone().narrow(1, head, 1);
            memory = memory.clone() - memory * weights.matmul(erase);
        }
        memory + weights.swap_dims(1, 2).matmul(add)
    }
}

impl RecurrentCore for Ntm {
    type State = NtmState;
    type Prepared = LstmWeights;

    fn input_size(&self) -> usize {
        self.lstm.input_size() - self.reads * self.width
    }

    /// `[r_1; ...; r_R; h]`
    fn output_size(&self) -> usize {
        self.reads * self.width + self.lstm.hidden_size()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> NtmState {
        let [heads, slots] = self.initial_weights.dims();
        let weights = activation::softmax(self.initial_weights.val(), 1)
            .unsqueeze_dim::<3>(0)
            .expand([batch, heads, slots]);
        NtmState {
            controller: self.lstm.initial_state(batch, device),
            memory: Tensor::full([batch, slots, self.width], INITIAL_MEMORY, device),
            read_weights: weights.clone().narrow(1, 0, self.reads),
            write_weights: weights.narrow(1, self.reads, self.writes),
            read_vectors: Tensor::zeros([batch, self.reads * self.width], device),
        }
    }

    fn prepare(&self) -> LstmWeights {
        self.lstm.prepare()
    }

    fn step(
        &self,
        prepared: &LstmWeights,
        input: Tensor<2>,
        state: NtmState,
    ) -> (CoreOutput, NtmState) {
        let batch = input.dims()[0];
        let input = Tensor::cat(vec![input, state.read_vectors], 1);
        let (_, controller) = self.lstm.step(prepared, input, state.controller);
        let (addressing, erase, add) = self.interface(controller.hidden.clone());

        let write_weights = addressing
            .heads(self.reads, self.writes)
            .address(state.memory.clone(), state.write_weights);
        checks::weights("ntm", "write weights", &write_weights, true);
        let memory = self.write(state.memory, write_weights.clone(), erase, add);

        let read_weights = addressing
            .heads(0, self.reads)
            .address(memory.clone(), state.read_weights);
        checks::weights("ntm", "read weights", &read_weights, true);
        let read_vectors =
            read(read_weights.clone(), memory.clone()).reshape([batch, self.reads * self.width]);

        let output = CoreOutput {
            output: Tensor::cat(vec![read_vectors.clone(), controller.hidden.clone()], 1),
            attention: vec![
                Attention::new("read", &read_weights),
                Attention::new("write", &write_weights),
            ],
        };
        let state = NtmState {
            controller,
            memory,
            read_weights,
            write_weights,
            read_vectors,
        };
        (output, state)
    }

    /// The weights of each head at each stage of addressing, and the memory after the erasure by each head.
    fn kept(&self) -> Count {
        let slots = self.initial_weights.shape()[1];
        let (heads, read) = (
            Count::from(self.reads + self.writes),
            Count::product(&[self.reads, self.width]),
        );
        let interface =
            heads * (2 * self.width + 12) + Count::product(&[4, self.writes, self.width]);
        let slot = heads * 12 + Count::product(&[4 * self.writes + 2, self.width]);
        let outside = self.lstm.kept() + read * 4 + interface;
        outside + RecurrentCore::input_size(self) + self.lstm.hidden_size() + slot * slots
    }
}
