//! The least-recently-used memory: content reads, writes into what was just read or long unused.

use crate::{
    Attention, CoreOutput, Initializer, Lstm, LstmState, MemoryError, RecurrentCore, checks,
    error::require_positive,
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Int, Tensor, activation},
};
use mnemora_kernels::{attention::read, content::content_weights, softplus};

/// What every memory cell holds before the first write.
const INITIAL_MEMORY: f64 = 1e-6;

/// How much of a slot's usage is left after a step.
const USAGE_DECAY: f64 = 0.99;

/// Sizes of an [`Lru`] memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LruConfig {
    /// Width of the input.
    pub input: usize,
    /// Size of the controller's state.
    pub hidden: usize,
    /// Read heads `R`; there are as many write heads, tied to them.
    pub reads: usize,
    /// Width of a memory row, `W`.
    pub width: usize,
    /// Memory rows, `N`. With `reads` for each step nothing needs to be overwritten.
    pub slots: usize,
}

/// An LSTM controller with heads that read by content and write either where they read last or
/// into the least used slots.
///
/// Santoro et al. 2016, section 3.2, equations 17 to 23; here head `j` takes the `j`-th least used
/// slot, and writes a vector of its own instead of its key, sharp reads need a strength, and
/// writing comes before reading. No gradient passes through usage.
#[derive(Module, Debug)]
pub struct Lru {
    /// Controller, input `[input; r_{t-1}]`.
    pub lstm: Lstm,
    /// From `h_t` onto keys, added vectors, write gates `alpha` and read strengths of all heads.
    pub interface: Linear,
    reads: usize,
    width: usize,
    slots: usize,
}

/// Controller, memory, weights and usage of an [`Lru`] memory.
#[derive(Clone, Debug)]
pub struct LruState {
    /// `h_t` and the LSTM's cell.
    pub controller: LstmState,
    /// `M_t`, `[batch, slots, width]`.
    pub memory: Tensor<3>,
    /// `w^r_t`, `[batch, reads, slots]`.
    pub read_weights: Tensor<3>,
    /// `w^u_t`, `[batch, slots]`, without gradient.
    pub usage: Tensor<2>,
    /// `r_t`, `[batch, reads * width]`.
    pub read_vectors: Tensor<2>,
}

/// What `h_t` tells the heads.
struct Interface {
    /// `k`, `[batch, reads, width]`
    keys: Tensor<3>,
    /// `a`, `[batch, reads, width]`
    adds: Tensor<3>,
    /// `sig(alpha)`, `[batch, reads, 1]`
    rewrite: Tensor<3>,
    /// `beta`, `[batch, reads]`
    strengths: Tensor<2>,
}

impl LruConfig {
    /// Builds the core; refuses sizes of zero and fewer slots than heads.
    pub fn init(&self, init: &mut Initializer) -> Result<Lru, MemoryError> {
        require_positive(
            "lru",
            &[
                ("input", self.input),
                ("hidden", self.hidden),
                ("reads", self.reads),
                ("width", self.width),
                ("slots", self.slots),
            ],
        )?;
        if self.slots < self.reads {
            return Err(MemoryError::FewerSlotsThanHeads {
                slots: self.slots,
                reads: self.reads,
            });
        }
        Ok(Lru {
            lstm: Lstm::new(self.input + self.reads * self.width, self.hidden, init),
            interface: init.linear(self.hidden, self.reads * (2 * self.width + 2)),
            reads: self.reads,
            width: self.width,
            slots: self.slots,
        })
    }
}

impl Lru {
    fn interface(&self, hidden: Tensor<2>) -> Interface {
        let batch = hidden.dims()[0];
        let rows = [batch, self.reads, self.width];
        let sizes = [
            self.reads * self.width,
            self.reads * self.width,
            self.reads,
            self.reads,
        ];
        let parts = self
            .interface
            .forward(hidden)
            .split_with_sizes(sizes.to_vec(), 1);
        let [keys, adds, alpha, beta] = parts
            .try_into()
            .unwrap_or_else(|_| unreachable!("there are as many parts as sizes"));
        Interface {
            keys: keys.tanh().reshape(rows),
            adds: adds.tanh().reshape(rows),
            rewrite: activation::sigmoid(alpha).reshape([batch, self.reads, 1]),
            strengths: softplus(beta).add_scalar(1.0),
        }
    }

    /// `w^lu_{t-1}`: one-hot rows at the least used slots, the least used first, ties by index;
    /// `[batch, reads, slots]`.
    fn least_used(&self, usage: &Tensor<2>) -> Tensor<3> {
        let [batch, slots] = usage.dims();
        let positions = Tensor::<1, Int>::arange(0..slots as i64, &usage.device())
            .unsqueeze_dim::<2>(0)
            .expand([batch, slots]);
        let taken = usage.clone().max().unsqueeze::<2>().add_scalar(1.0);
        let mut usage = usage.clone();
        let mut rows = Vec::with_capacity(self.reads);
        for _ in 0..self.reads {
            let least = usage.clone().argmin(1).expand([batch, slots]);
            let row = positions.clone().equal(least).float();
            usage = usage + row.clone() * taken.clone();
            rows.push(row);
        }
        Tensor::stack(rows, 1)
    }
}

impl RecurrentCore for Lru {
    type State = LruState;

    fn input_size(&self) -> usize {
        self.lstm.input_size() - self.reads * self.width
    }

    /// `[r_1; ...; r_R; h]`
    fn output_size(&self) -> usize {
        self.reads * self.width + self.lstm.hidden_size()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> LruState {
        let first = |heads: usize| {
            let mut values = vec![0.0_f32; heads * self.slots];
            values.iter_mut().step_by(self.slots).for_each(|w| *w = 1.0);
            Tensor::<1>::from_floats(values.as_slice(), device)
        };
        LruState {
            controller: self.lstm.initial_state(batch, device),
            memory: Tensor::full([batch, self.slots, self.width], INITIAL_MEMORY, device),
            read_weights: first(batch * self.reads).reshape([batch, self.reads, self.slots]),
            usage: first(batch).reshape([batch, self.slots]),
            read_vectors: Tensor::zeros([batch, self.reads * self.width], device),
        }
    }

    fn forward(&self, input: Tensor<2>, state: LruState) -> (CoreOutput, LruState) {
        let batch = input.dims()[0];
        let input = Tensor::cat(vec![input, state.read_vectors], 1);
        let controller = self.lstm.step(input, state.controller);
        let Interface {
            keys,
            adds,
            rewrite,
            strengths,
        } = self.interface(controller.hidden.clone());

        // Equation 22: between where the head read last and its least used slot.
        let least_used = self.least_used(&state.usage);
        let write_weights =
            least_used.clone() + rewrite * (state.read_weights - least_used.clone());
        checks::weights("lru", "write weights", &write_weights, true);
        // Equation 23, after the least used slot of all has been set to zero.
        let kept = least_used
            .narrow(1, 0, 1)
            .swap_dims(1, 2)
            .neg()
            .add_scalar(1.0);
        let memory = state.memory * kept + write_weights.clone().swap_dims(1, 2).matmul(adds);

        // Equations 17 to 19.
        let read_weights = content_weights(keys, strengths, memory.clone());
        checks::weights("lru", "read weights", &read_weights, true);
        let read_vectors =
            read(read_weights.clone(), memory.clone()).reshape([batch, self.reads * self.width]);

        // Equation 20.
        let touched = (read_weights.clone() + write_weights.clone())
            .detach()
            .sum_dim(1)
            .squeeze_dim::<2>(1);
        let usage = state.usage * USAGE_DECAY + touched;
        let most = 2.0 * self.reads as f64 / (1.0 - USAGE_DECAY);
        checks::range("lru", "usage", &usage, [0.0, most as f32]);

        let output = CoreOutput {
            output: Tensor::cat(vec![read_vectors.clone(), controller.hidden.clone()], 1),
            attention: vec![
                Attention::new("read", &read_weights),
                Attention::new("write", &write_weights),
            ],
        };
        let state = LruState {
            controller,
            memory,
            read_weights,
            usage,
            read_vectors,
        };
        (output, state)
    }
}
