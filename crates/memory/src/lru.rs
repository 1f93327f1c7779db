//! The least-recently-used memory: it reads by content, and writes to the slots read last or to the least used
//! ones.

use crate::{
    Attention, CoreOutput, Count, Initializer, Lstm, LstmState, MemoryError, RecurrentCore, checks,
    error::require_positive,
    init::{INITIAL_MEMORY, INITIAL_STRENGTH},
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, IndexingUpdateOp, Int, Tensor, activation},
};
use mnemora_kernels::{
    attention::read,
    content::{content_weights, read_nearest, rows_of},
    lstm::LstmWeights,
    softplus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default number of slots per step; the tied write heads fill many (gtmm, section 4.1).
const SLOTS_PER_STEP: usize = 5;

/// Factor by which a slot's usage decays at each step.
const USAGE_DECAY: f64 = 0.99;

/// Sizes of an [`Lru`] memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LruConfig {
    /// Width of the input; [`fit`](Self::fit) fills it in.
    #[serde(skip)]
    pub input: usize,
    /// Size of the controller's state.
    pub hidden: usize,
    /// Read heads `R`. Each has a write head tied to it.
    pub reads: usize,
    /// Width of a slot, `W`.
    pub width: usize,
    /// Slots, `N`; 0 for five per step of a sequence (gtmm, section 4.1), which for an agent is an unroll and the step after
    /// it. With `reads` slots per step nothing needs to be overwritten.
    pub slots: usize,
    /// Number of slots that a head reads, those nearest to its key; 0 for all. When few of many slots are read,
    /// a step costs little more than the search.
    pub nearest: usize,
}

/// An LSTM controller with heads that read by content, and write either where they read last or to the least
/// used slots.
///
/// Santoro et al. 2016, section 3.2, equations 17 to 23, with four differences: head `j` takes the `j`-th least
/// used slot; it writes a separate vector instead of its key; reads have a learned strength; and writing comes
/// before reading. No gradient passes through usage. For head `j`, with `k`, `a`, `alpha` and `beta` from `h_t`:
///
/// ```text
/// w^w_j = sig(alpha_j) w^r_{j,t-1} + (1 - sig(alpha_j)) u_j     u_j: one-hot at the j-th least used slot
/// M_t   = M_{t-1} with the least used slot set to 0, + sum_j w^w_j a_j^T
/// w^r_j = C(M_t, k_j, beta_j),  r_j = M_t^T w^r_j
/// w^u_t = 0.99 w^u_{t-1} + sum_j (w^r_j + w^w_j)
/// ```
#[derive(Module, Debug)]
pub struct Lru {
    /// Controller, input `[input; r_{t-1}]`.
    pub lstm: Lstm,
    /// Maps `h_t` to keys, added vectors, write gates `alpha` and read strengths of all heads.
    pub interface: Linear,
    reads: usize,
    width: usize,
    slots: usize,
    nearest: usize,
}

/// Controller, memory, weights and usage of an [`Lru`] memory.
#[derive(Clone, Debug)]
pub struct LruState {
    /// `h_t` and the LSTM's cell.
    pub controller: LstmState,
    /// `M_t`, `[batch, slots, width]`.
    pub memory: Tensor<3>,
    /// `w^r_t`.
    pub read_weights: ReadWeights,
    /// `w^u_t`, `[batch, slots]`, without gradient.
    pub usage: Tensor<2>,
    /// `r_t`, `[batch, reads * width]`.
    pub read_vectors: Tensor<2>,
}

/// `w^r` over all slots, or over the slots that were read.
// There is one value per step, so the size of the largest variant costs nothing that matters.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum ReadWeights {
    /// `[batch, reads, slots]`
    Dense(Tensor<3>),
    /// Slots and their weights, both `[batch, reads, nearest]`.
    Nearest(Tensor<3, Int>, Tensor<3>),
}

crate::bundle!(LruState {
    controller,
    memory,
    read_weights,
    usage,
    read_vectors
});

crate::bundle!(
    enum ReadWeights {
        Dense(weights),
        Nearest(slots, weights),
    }
);

/// The parameters that the heads get from `h_t`.
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

impl Default for LruConfig {
    fn default() -> Self {
        Self {
            input: 0,
            hidden: 100,
            reads: 5,
            width: 32,
            slots: 0,
            nearest: 0,
        }
    }
}

impl LruConfig {
    /// Fills in the sizes that settings leave open, for inputs of width `input` and sequences of `time` steps.
    ///
    /// # Errors
    /// The memory has fewer slots than heads.
    pub fn fit(&self, input: usize, time: usize) -> Result<Self, MemoryError> {
        let slots = match self.slots {
            0 => SLOTS_PER_STEP * time,
            given => given,
        };
        if slots < self.reads {
            return Err(MemoryError::FewerSlotsThanHeads {
                slots,
                reads: self.reads,
            });
        }
        Ok(Self {
            input,
            slots,
            ..self.clone()
        })
    }

    /// Builds the core. A size of zero is an error, and so are fewer slots than heads.
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
            interface: init.linear_with_offset(
                self.hidden,
                self.reads * (2 * self.width + 2),
                self.reads * (2 * self.width + 1)..self.reads * (2 * self.width + 2),
                INITIAL_STRENGTH,
            ),
            reads: self.reads,
            width: self.width,
            slots: self.slots,
            nearest: match self.nearest {
                0 => self.slots,
                nearest => nearest.min(self.slots),
            },
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

    /// The least used slots, in order of usage, ties broken by index: `[batch, reads]`.
    fn least_used(&self, usage: &Tensor<2>) -> Tensor<2, Int> {
        let [batch, slots] = usage.dims();
        let positions = positions(slots, usage).expand([batch, slots]);
        let taken = usage.clone().max().unsqueeze::<2>().add_scalar(1.0);
        let mut usage = usage.clone();
        let mut found = Vec::with_capacity(self.reads);
        for head in 0..self.reads {
            let least = usage.clone().argmin(1);
            if head + 1 < self.reads {
                let row = positions
                    .clone()
                    .equal(least.clone().expand([batch, slots]));
                usage = usage + row.float() * taken.clone();
            }
            found.push(least);
        }
        Tensor::cat(found, 1)
    }

    /// Equations 17 to 23 over all slots.
    fn step_dense(
        &self,
        interface: Interface,
        state: LruState,
        before: Tensor<3>,
    ) -> (Tensor<3>, Tensor<2>, ReadWeights, Tensor<3>, [Attention; 2]) {
        let [batch, _] = state.usage.dims();
        let all = [batch, self.reads, self.slots];
        // `w^lu_{t-1}`: each head takes a different slot.
        let least_used = self
            .least_used(&state.usage)
            .unsqueeze_dim::<3>(2)
            .expand(all);
        let least_used = positions(self.slots, &state.usage)
            .unsqueeze_dim::<3>(1)
            .expand(all)
            .equal(least_used)
            .float();

        // Equation 22: interpolates between where the head read last and its least used slot.
        let write_weights = least_used.clone() + interface.rewrite * (before - least_used.clone());
        checks::weights("lru", "write weights", &write_weights, true);
        // Equation 23, after the least used slot of all heads has been set to zero.
        let kept = least_used
            .narrow(1, 0, 1)
            .swap_dims(1, 2)
            .neg()
            .add_scalar(1.0);
        let written = write_weights.clone().swap_dims(1, 2).matmul(interface.adds);
        let memory = state.memory * kept + written;

        // Equations 17 to 19.
        let weights = content_weights(interface.keys, interface.strengths, memory.clone());
        checks::weights("lru", "read weights", &weights, true);
        let vectors = read(weights.clone(), memory.clone());

        // Equation 20.
        let touched = (weights.clone() + write_weights.clone()).detach();
        let usage = state.usage * USAGE_DECAY + touched.sum_dim(1).squeeze_dim::<2>(1);
        let attention = [
            Attention::new("read", &weights),
            Attention::new("write", &write_weights),
        ];
        (
            memory,
            usage,
            ReadWeights::Dense(weights),
            vectors,
            attention,
        )
    }

    /// The same computation, but only over the slots that are read or written.
    fn step_nearest(
        &self,
        interface: Interface,
        state: LruState,
        (slots, weights): (Tensor<3, Int>, Tensor<3>),
    ) -> (Tensor<3>, Tensor<2>, ReadWeights, Tensor<3>, [Attention; 2]) {
        let [batch, _] = state.usage.dims();
        let [_, reads, count] = slots.dims();
        let width = self.width;
        let least_used = self.least_used(&state.usage);

        // The least used slot is set to zero. A slot that was never touched still holds the initial constant,
        // which can be subtracted without looking at any other row.
        let emptied = least_used.clone().narrow(1, 0, 1);
        let untouched = state.usage.clone().gather(1, emptied.clone()).max();
        let memory = match untouched.into_scalar::<f32>() > 0.0 {
            false => {
                let start = Tensor::full([batch, 1, width], -INITIAL_MEMORY, &state.usage.device());
                let emptied = rows_of(emptied.unsqueeze_dim(2), width);
                state
                    .memory
                    .scatter(1, emptied, start, IndexingUpdateOp::Add)
            }
            true => {
                let all = [batch, self.slots];
                let kept = positions(self.slots, &state.usage)
                    .expand(all)
                    .not_equal(emptied.expand(all));
                state.memory * kept.float().unsqueeze_dim::<3>(2)
            }
        };

        // Equation 22: the `nearest` slots read last and the least used slot, for each head.
        let anew = interface.rewrite.clone().neg().add_scalar(1.0);
        let write_weights = Tensor::cat(vec![weights * interface.rewrite, anew], 2);
        let write_slots = Tensor::cat(vec![slots, least_used.unsqueeze_dim::<3>(2)], 2);
        checks::weights("lru", "write weights", &write_weights, true);
        // Equation 23.
        let written = write_weights.clone().unsqueeze_dim::<4>(3) * interface.adds.unsqueeze_dim(2);
        let memory = memory.scatter(
            1,
            rows_of(write_slots.clone(), width),
            written.reshape([batch, reads * (count + 1), width]),
            IndexingUpdateOp::Add,
        );

        // Equations 17 to 19.
        let found = read_nearest(
            interface.keys,
            interface.strengths,
            memory.clone(),
            self.nearest,
        );
        checks::weights("lru", "read weights", &found.weights, true);

        // Equation 20.
        let flat = |slots: &Tensor<3, Int>| slots.clone().reshape([batch as i32, -1]);
        let usage = state.usage * USAGE_DECAY;
        let usage = usage
            .scatter(
                1,
                flat(&found.slots),
                found.weights.clone().detach().reshape([batch as i32, -1]),
                IndexingUpdateOp::Add,
            )
            .scatter(
                1,
                flat(&write_slots),
                write_weights.clone().detach().reshape([batch as i32, -1]),
                IndexingUpdateOp::Add,
            );
        let attention = [
            Attention::sparse("read", &found.weights, &found.slots, self.slots),
            Attention::sparse("write", &write_weights, &write_slots, self.slots),
        ];
        let weights = ReadWeights::Nearest(found.slots, found.weights);
        (memory, usage, weights, found.vectors, attention)
    }
}

/// `0 .. slots`, `[1, slots]`, on the device of `like`.
fn positions(slots: usize, like: &Tensor<2>) -> Tensor<2, Int> {
    Tensor::<1, Int>::arange(0..slots as i64, &like.device()).unsqueeze_dim(0)
}

impl RecurrentCore for Lru {
    type State = LruState;
    type Prepared = LstmWeights;

    fn input_size(&self) -> usize {
        self.lstm.input_size() - self.reads * self.width
    }

    /// `[r_1; ...; r_R; h]`
    fn output_size(&self) -> usize {
        self.reads * self.width + self.lstm.hidden_size()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> LruState {
        let first = |rows: usize, columns: usize| {
            let mut values = vec![0.0_f32; rows * columns];
            values.iter_mut().step_by(columns).for_each(|w| *w = 1.0);
            Tensor::<1>::from_floats(values.as_slice(), device)
        };
        let read = [batch, self.reads, self.nearest];
        let weights = first(batch * self.reads, self.nearest).reshape(read);
        let read_weights = match self.nearest == self.slots {
            true => ReadWeights::Dense(weights),
            false => {
                let slots = Tensor::<1, Int>::arange(0..self.nearest as i64, device);
                let slots = slots.unsqueeze::<3>().expand(read);
                ReadWeights::Nearest(slots, weights)
            }
        };
        LruState {
            controller: self.lstm.initial_state(batch, device),
            memory: Tensor::full([batch, self.slots, self.width], INITIAL_MEMORY, device),
            read_weights,
            usage: first(batch, self.slots).reshape([batch, self.slots]),
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
        state: LruState,
    ) -> (CoreOutput, LruState) {
        let batch = input.dims()[0];
        let input = Tensor::cat(vec![input, state.read_vectors.clone()], 1);
        let (_, controller) = self.lstm.step(prepared, input, state.controller.clone());
        let interface = self.interface(controller.hidden.clone());
        let (memory, usage, read_weights, vectors, attention) = match state.read_weights.clone() {
            ReadWeights::Dense(before) => self.step_dense(interface, state, before),
            ReadWeights::Nearest(slots, weights) => {
                self.step_nearest(interface, state, (slots, weights))
            }
        };
        let most = 2.0 * self.reads as f64 / (1.0 - USAGE_DECAY);
        checks::range("lru", "usage", &usage, [0.0, most as f32]);

        let read_vectors = vectors.reshape([batch, self.reads * self.width]);
        let output = CoreOutput {
            output: Tensor::cat(vec![read_vectors.clone(), controller.hidden.clone()], 1),
            attention: attention.into(),
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

    /// The memory after the least used slot was cleared and after writing, and the weights of each head over all
    /// slots or over those that it reads.
    fn kept(&self) -> Count {
        let read = Count::product(&[self.reads, self.width]);
        let memory = Count::product(&[2, self.slots, self.width]);
        let weights = match self.nearest == self.slots {
            true => Count::product(&[7, self.reads, self.slots]),
            // Slot indices take eight bytes each. Those of rows are repeated for each column.
            false => read * (5 * (self.nearest + 1)) + Count::product(&[4, self.slots]),
        };
        let outside = self.lstm.kept() + read * 8;
        outside + RecurrentCore::input_size(self) + self.lstm.hidden_size() + memory + weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const STEPS: usize = 9;

    fn core(slots: usize, nearest: usize, device: &Device) -> Lru {
        let config = LruConfig {
            input: 3,
            hidden: 5,
            reads: 2,
            width: 4,
            slots,
            nearest,
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(3), device.clone());
        config.init(&mut init).unwrap()
    }

    /// Outputs of all steps, and the gradient of the sum of their squares with respect to the inputs.
    fn run(core: &Lru, mut state: LruState, device: &Device) -> (Vec<f32>, Vec<f32>) {
        let values = (0..STEPS * 2 * 3).map(|i| ((i * i) as f32 * 0.7).sin());
        let inputs = TensorData::new(values.collect::<Vec<_>>(), [STEPS, 2, 3]);
        let inputs = Tensor::<3>::from_data(inputs, device).require_grad();
        let prepared = core.prepare();
        let mut outputs = Vec::new();
        for step in 0..STEPS {
            let input = inputs.clone().narrow(0, step, 1).squeeze_dim::<2>(0);
            let (output, next) = core.step(&prepared, input, state);
            state = next;
            outputs.push(output.output);
        }
        let outputs = Tensor::cat(outputs, 1);
        let gradients = (outputs.clone() * outputs.clone()).sum().backward();
        let gradient = inputs.grad(&gradients).unwrap();
        let values = |data: TensorData| data.try_into_vec::<f32>().unwrap();
        (values(outputs.into_data()), values(gradient.into_data()))
    }

    fn assert_close(a: &[f32], b: &[f32]) {
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{a} {b}");
        }
    }

    /// With `nearest` equal to all slots, the sparse path gives the same result as the dense one; also when
    /// slots run out and are cleared.
    #[test]
    fn reading_the_nearest_of_all_is_dense() {
        let device = Device::default().autodiff();
        for slots in [6, 40] {
            let core = core(slots, 0, &device);
            let dense = core.initial_state(2, &device);
            let mut sparse = core.initial_state(2, &device);
            let ReadWeights::Dense(weights) = dense.read_weights.clone() else {
                unreachable!("it reads all slots");
            };
            let all = positions(slots, &dense.usage).unsqueeze_dim::<3>(1);
            let all = all.expand([2, 2, slots]);
            sparse.read_weights = ReadWeights::Nearest(all, weights);
            let (dense, dense_gradient) = run(&core, dense, &device);
            let (sparse, sparse_gradient) = run(&core, sparse, &device);
            assert_close(&sparse, &dense);
            assert_close(&sparse_gradient, &dense_gradient);
        }
    }

    #[test]
    fn reading_few_is_another_read_and_writes_few_rows() {
        let device = Device::default().autodiff();
        let (dense, nearest) = (core(40, 0, &device), core(40, 4, &device));
        let (all, _) = run(&dense, dense.initial_state(2, &device), &device);
        let (few, gradient) = run(&nearest, nearest.initial_state(2, &device), &device);
        assert!(few.iter().chain(&gradient).all(|v| v.is_finite()));
        assert!(all.iter().zip(&few).any(|(a, f)| (a - f).abs() > 1e-4));

        // A step touches the rows that its two heads read before, and one more for each head.
        let prepared = nearest.prepare();
        let mut state = nearest.initial_state(1, &device);
        for _ in 0..STEPS {
            let before = state.memory.clone();
            let input = Tensor::ones([1, 3], &device);
            (_, state) = nearest.step(&prepared, input, state);
            let change = (state.memory.clone() - before).abs().sum_dim(2);
            let rows = change.into_data().try_into_vec::<f32>().unwrap();
            let changed = rows.iter().filter(|change| **change > 0.0).count();
            assert!(
                (1..=2 * (4 + 1)).contains(&changed),
                "{changed} rows changed"
            );
        }
    }

    #[test]
    fn the_least_used_come_first_and_ties_go_by_index() {
        let device = Device::default();
        let core = core(6, 0, &device);
        let usage = Tensor::<2>::from_floats(
            [
                [0.5, 0.0, 3.0, 0.0, 0.1, 0.0],
                [1.0, 0.9, 0.8, 0.7, 0.6, 0.5],
            ],
            &device,
        );
        let found = core.least_used(&usage).into_data();
        assert_eq!(found.iter::<i64>().collect::<Vec<_>>(), [1, 3, 5, 4]);
    }
}
