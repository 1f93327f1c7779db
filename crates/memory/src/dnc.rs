//! The Differentiable Neural Computer: allocation of free slots, and links in the order of writing.

use crate::{
    Attention, Bundle, CoreOutput, Initializer, Lstm, LstmState, MemoryError, RecurrentCore,
    TensorMapper, checks, error::require_positive, init::INITIAL_STRENGTH,
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Int, Tensor, activation},
};
use mnemora_kernels::{attention::read, content::content_weights, softplus};

/// Keeps the logarithm of usage finite.
const USAGE_FLOOR: f64 = 1e-6;

/// Bound of the controller's cell.
const CELL_BOUND: f64 = 20.0;

/// Sizes of a [`Dnc`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DncConfig {
    /// Width of the input.
    pub input: usize,
    /// Size of the controller's state.
    pub hidden: usize,
    /// Read heads `R`.
    pub reads: usize,
    /// Width of a memory row, `W`.
    pub width: usize,
    /// Memory rows, `N`. Time and space grow with their square.
    pub slots: usize,
}

/// An LSTM controller with one write head, which finds free slots by itself, and read heads that
/// follow content or the order of writing in either direction.
///
/// Graves et al. 2016, Methods; write, then read.
#[derive(Module, Debug)]
pub struct Dnc {
    /// Controller, input `[input; r_{t-1}]`.
    pub lstm: Lstm,
    /// From `h_t` onto the interface: read keys, read strengths, write key, write strength, erase
    /// vector, write vector, free gates, allocation gate, write gate, read modes.
    pub interface: Linear,
    reads: usize,
    width: usize,
    slots: usize,
}

/// Controller, memory and its bookkeeping of a [`Dnc`].
#[derive(Clone, Debug)]
pub struct DncState {
    /// `h_t` and the LSTM's cell.
    pub controller: LstmState,
    /// `M_t`, `[batch, slots, width]`.
    pub memory: Tensor<3>,
    /// `u_t`, `[batch, slots]`.
    pub usage: Tensor<2>,
    /// `p_t`, `[batch, slots]`.
    pub precedence: Tensor<2>,
    /// `L_t`, `[batch, slots, slots]`; `L[i, j]` says that `i` was written after `j`.
    pub links: Tensor<3>,
    /// `w^r_t`, `[batch, reads, slots]`.
    pub read_weights: Tensor<3>,
    /// `w^w_t`, `[batch, slots]`.
    pub write_weights: Tensor<2>,
    /// `r_t`, `[batch, reads * width]`.
    pub read_vectors: Tensor<2>,
}

impl Bundle for DncState {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            controller: self.controller.map_tensors(mapper),
            memory: self.memory.map_tensors(mapper),
            usage: self.usage.map_tensors(mapper),
            precedence: self.precedence.map_tensors(mapper),
            links: self.links.map_tensors(mapper),
            read_weights: self.read_weights.map_tensors(mapper),
            write_weights: self.write_weights.map_tensors(mapper),
            read_vectors: self.read_vectors.map_tensors(mapper),
        }
    }
}

/// What `h_t` tells the heads.
struct Interface {
    /// `k^r`, `[batch, reads, width]`
    read_keys: Tensor<3>,
    /// `beta^r`, `[batch, reads]`
    read_strengths: Tensor<2>,
    /// `k^w`, `[batch, 1, width]`
    write_key: Tensor<3>,
    /// `beta^w`, `[batch, 1]`
    write_strength: Tensor<2>,
    /// `e`, `[batch, 1, width]`
    erase: Tensor<3>,
    /// `v`, `[batch, 1, width]`
    write: Tensor<3>,
    /// `f`, `[batch, reads, 1]`
    free_gates: Tensor<3>,
    /// `g^a`, `[batch, 1]`
    allocation_gate: Tensor<2>,
    /// `g^w`, `[batch, 1]`
    write_gate: Tensor<2>,
    /// `pi`: backward, content, forward, `[batch, reads, 3]`
    modes: Tensor<3>,
}

impl DncConfig {
    /// Builds the core; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<Dnc, MemoryError> {
        require_positive(
            "dnc",
            &[
                ("input", self.input),
                ("hidden", self.hidden),
                ("reads", self.reads),
                ("width", self.width),
                ("slots", self.slots),
            ],
        )?;
        let interface = self.reads * self.width + 3 * self.width + 5 * self.reads + 3;
        Ok(Dnc {
            lstm: Lstm::new(self.input + self.reads * self.width, self.hidden, init),
            interface: init.linear_with_offset(
                self.hidden,
                interface,
                self.reads * self.width..self.reads * (self.width + 1),
                INITIAL_STRENGTH,
            ),
            reads: self.reads,
            width: self.width,
            slots: self.slots,
        })
    }
}

impl Dnc {
    fn interface(&self, hidden: Tensor<2>) -> Interface {
        let batch = hidden.dims()[0];
        let (reads, width) = (self.reads, self.width);
        let sizes = [
            reads * width,
            reads,
            width,
            1,
            width,
            width,
            reads,
            1,
            1,
            reads * 3,
        ];
        let parts = self
            .interface
            .forward(hidden)
            .split_with_sizes(sizes.to_vec(), 1);
        let [
            read_keys,
            read_strengths,
            write_key,
            write_strength,
            erase,
            write,
            free_gates,
            allocation_gate,
            write_gate,
            modes,
        ] = parts
            .try_into()
            .unwrap_or_else(|_| unreachable!("there are as many parts as sizes"));
        let oneplus = |strength| softplus(strength).add_scalar(1.0);
        Interface {
            read_keys: read_keys.reshape([batch, reads, width]),
            read_strengths: oneplus(read_strengths),
            write_key: write_key.unsqueeze_dim(1),
            write_strength: oneplus(write_strength),
            erase: activation::sigmoid(erase).unsqueeze_dim(1),
            write: write.unsqueeze_dim(1),
            free_gates: activation::sigmoid(free_gates).reshape([batch, reads, 1]),
            allocation_gate: activation::sigmoid(allocation_gate),
            write_gate: activation::sigmoid(write_gate),
            modes: activation::softmax(modes.reshape([batch, reads, 3]), 2),
        }
    }
}

/// `u_t`: slots that were written are used, slots that were read and freed are not;
/// `[batch, slots]`.
///
/// `free_gates` is `[batch, reads, 1]`; no gradient passes through the write weights.
fn update_usage(state: &DncState, free_gates: Tensor<3>) -> Tensor<2> {
    let written = state.write_weights.clone().detach();
    let usage = state.usage.clone();
    let usage = usage.clone() + written.clone() - usage * written;
    // psi_t = prod_i (1 - f_i w^r_i)
    let retained = (free_gates * state.read_weights.clone())
        .neg()
        .add_scalar(1.0);
    let reads = retained.dims()[1];
    let retention = (1..reads).fold(retained.clone().narrow(1, 0, 1), |product, head| {
        product * retained.clone().narrow(1, head, 1)
    });
    usage * retention.squeeze_dim::<2>(1)
}

/// `a_t`: the freest slot first, `[batch, slots]`.
///
/// `a[i] = (1 - u'[i]) prod_j u'[j]` over the slots `j` before `i` in the order of rising usage,
/// with `u' = eps + (1 - eps) u`. Written without a sort: whether `j` comes before `i` is a
/// matrix of comparisons, ties going by index.
fn allocation(usage: Tensor<2>) -> Tensor<2> {
    let [batch, slots] = usage.dims();
    let values = usage.clone().detach();
    let usage = usage * (1.0 - USAGE_FLOOR) + USAGE_FLOOR;
    let columns = values
        .clone()
        .unsqueeze_dim::<3>(1)
        .expand([batch, slots, slots]);
    let rows = values.unsqueeze_dim::<3>(2).expand([batch, slots, slots]);
    let earlier = Tensor::<2, Int>::ones([slots, slots], &usage.device())
        .tril(-1)
        .bool()
        .unsqueeze_dim::<3>(0)
        .expand([batch, slots, slots]);
    let smaller = columns.clone().lower(rows.clone());
    let before = smaller
        .bool_or(columns.equal(rows).bool_and(earlier))
        .float();
    let product = before
        .matmul(usage.clone().log().unsqueeze_dim::<3>(2))
        .squeeze_dim::<2>(2)
        .exp();
    usage.neg().add_scalar(1.0) * product
}

/// `L_t` from `L_{t-1}`, `p_{t-1}` and `w^w_t`.
///
/// `L[i, j] = (1 - w[i] - w[j]) L[i, j] + w[i] p[j]`, nothing on the diagonal.
fn update_links(links: Tensor<3>, precedence: Tensor<2>, write_weights: Tensor<2>) -> Tensor<3> {
    let [_, slots, _] = links.dims();
    let rows = write_weights.clone().unsqueeze_dim::<3>(2);
    let columns = write_weights.unsqueeze_dim::<3>(1);
    let kept = (rows.clone() + columns).neg().add_scalar(1.0);
    let links = links * kept + rows * precedence.unsqueeze_dim::<3>(1);
    let off_diagonal = Tensor::<2>::eye(slots, &links.device())
        .neg()
        .add_scalar(1.0);
    links * off_diagonal.unsqueeze_dim::<3>(0)
}

impl RecurrentCore for Dnc {
    type State = DncState;

    fn input_size(&self) -> usize {
        self.lstm.input_size() - self.reads * self.width
    }

    /// `[r_1; ...; r_R; h]`
    fn output_size(&self) -> usize {
        self.reads * self.width + self.lstm.hidden_size()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> DncState {
        let slots = self.slots;
        DncState {
            controller: self.lstm.initial_state(batch, device),
            memory: Tensor::zeros([batch, slots, self.width], device),
            usage: Tensor::zeros([batch, slots], device),
            precedence: Tensor::zeros([batch, slots], device),
            links: Tensor::zeros([batch, slots, slots], device),
            read_weights: Tensor::zeros([batch, self.reads, slots], device),
            write_weights: Tensor::zeros([batch, slots], device),
            read_vectors: Tensor::zeros([batch, self.reads * self.width], device),
        }
    }

    fn forward(&self, input: Tensor<2>, state: DncState) -> (CoreOutput, DncState) {
        let batch = input.dims()[0];
        let input = Tensor::cat(vec![input, state.read_vectors.clone()], 1);
        let mut controller = self.lstm.step(input, state.controller.clone());
        controller.cell = controller.cell.clamp(-CELL_BOUND, CELL_BOUND);
        let interface = self.interface(controller.hidden.clone());

        // Where to write: a free slot, or one that the write key points at.
        let usage = update_usage(&state, interface.free_gates);
        checks::range("dnc", "usage", &usage, [0.0, 1.0]);
        let allocation = allocation(usage.clone());
        checks::weights("dnc", "allocation", &allocation, false);
        let content = content_weights(
            interface.write_key,
            interface.write_strength,
            state.memory.clone(),
        )
        .squeeze_dim::<2>(1);
        let gate = interface.allocation_gate;
        let write_weights =
            (content.clone() + gate * (allocation.clone() - content)) * interface.write_gate;
        checks::weights("dnc", "write weights", &write_weights, false);

        // M_t
        let rows = write_weights.clone().unsqueeze_dim::<3>(2);
        let erased = state.memory.clone() * rows.clone().matmul(interface.erase);
        let memory = state.memory - erased + rows.matmul(interface.write);

        // L_t from p_{t-1}, then p_t.
        let links = update_links(state.links, state.precedence.clone(), write_weights.clone());
        checks::weights("dnc", "links by row", &links, false);
        checks::weights(
            "dnc",
            "links by column",
            &links.clone().swap_dims(1, 2),
            false,
        );
        let unwritten = write_weights.clone().sum_dim(1).neg().add_scalar(1.0);
        let precedence = state.precedence * unwritten + write_weights.clone();

        // Where to read: before, at or after what was found.
        let forward = state
            .read_weights
            .clone()
            .matmul(links.clone().swap_dims(1, 2));
        let backward = state.read_weights.matmul(links.clone());
        let content = content_weights(
            interface.read_keys,
            interface.read_strengths,
            memory.clone(),
        );
        let mode = |index: usize| interface.modes.clone().narrow(2, index, 1);
        let read_weights = backward * mode(0) + content * mode(1) + forward * mode(2);
        checks::weights("dnc", "read weights", &read_weights, false);
        let read_vectors =
            read(read_weights.clone(), memory.clone()).reshape([batch, self.reads * self.width]);

        let head = |weights: &Tensor<2>| weights.clone().unsqueeze_dim::<3>(1);
        let output = CoreOutput {
            output: Tensor::cat(vec![read_vectors.clone(), controller.hidden.clone()], 1),
            attention: vec![
                Attention::new("read", &read_weights),
                Attention::new("write", &head(&write_weights)),
                Attention::new("allocation", &head(&allocation)),
            ],
        };
        let state = DncState {
            controller,
            memory,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
            read_vectors,
        };
        (output, state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_into_vec::<f32>().unwrap()
    }

    fn largest(row: &[f32]) -> usize {
        (0..row.len())
            .max_by(|a, b| row[*a].total_cmp(&row[*b]))
            .unwrap()
    }

    #[test]
    fn an_unused_memory_is_allocated_from_its_first_slot() {
        let usage = Tensor::<2>::zeros([1, 4], &Device::default());
        let found = values(allocation(usage));
        for (found, expected) in found.iter().zip([1.0 - 1e-6, 1e-6, 0.0, 0.0]) {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
    }

    #[test]
    fn allocation_follows_rising_usage() {
        let usage = Tensor::<2>::from_floats([[0.5, 0.1, 1.0, 0.3]], &Device::default());
        let found = values(allocation(usage));
        for (found, expected) in found.iter().zip([0.5 * 0.1 * 0.3, 0.9, 0.0, 0.7 * 0.1]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    /// Pure allocation writes fill distinct slots, and the links walk them in order.
    #[test]
    fn writes_take_distinct_slots_and_links_remember_their_order() {
        let device = Device::default();
        let config = DncConfig {
            input: 1,
            hidden: 2,
            reads: 1,
            width: 2,
            slots: 6,
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(0), device.clone());
        let dnc = config.init(&mut init).unwrap();
        let mut state = dnc.initial_state(1, &device);
        let mut written = Vec::new();
        for _ in 0..config.slots {
            state.usage = update_usage(&state, Tensor::zeros([1, 1, 1], &device));
            state.write_weights = allocation(state.usage.clone());
            state.links = update_links(
                state.links,
                state.precedence.clone(),
                state.write_weights.clone(),
            );
            let unwritten = state.write_weights.clone().sum_dim(1).neg() + 1.0;
            state.precedence = state.precedence * unwritten + state.write_weights.clone();
            written.push(largest(&values(state.write_weights.clone())));
        }
        let mut distinct = written.clone();
        distinct.sort_unstable();
        assert_eq!(distinct, [0, 1, 2, 3, 4, 5]);

        let links = values(state.links);
        for pair in written.windows(2) {
            assert!((links[pair[1] * config.slots + pair[0]] - 1.0).abs() < 1e-3);
        }
        for row in 0..config.slots {
            assert_eq!(links[row * config.slots + row], 0.0);
        }
    }
}
