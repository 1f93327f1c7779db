//! The Differentiable Neural Computer: it allocates free slots, and links slots in the order of writing.
//!
//! The controller's output `h_t` is mapped to the [interface](Interface) of the memory, which is then written to
//! and read (Graves et al. 2016, Methods). All weights are over slots:
//!
//! ```text
//! retention   psi_t  = prod_i (1 - f_i w^r_{i,t-1})
//! usage       u_t    = (u_{t-1} + w^w_{t-1} - u_{t-1} w^w_{t-1}) psi_t
//! allocation  a_t[i] = (1 - u_t[i]) prod_j u_t[j]        over the slots j that are less used than i
//! write       w^w_t  = g^w (g^a a_t + (1 - g^a) C(M_{t-1}, k^w, beta^w))
//! memory      M_t    = M_{t-1} (1 - w^w_t e^T) + w^w_t v^T
//! links       L_t[i, j] = (1 - w^w_t[i] - w^w_t[j]) L_{t-1}[i, j] + w^w_t[i] p_{t-1}[j],  L_t[i, i] = 0
//! precedence  p_t    = (1 - sum_i w^w_t[i]) p_{t-1} + w^w_t
//! read        w^r_i  = pi_i[1] L_t^T w^r_{i,t-1} + pi_i[2] C(M_t, k^r_i, beta^r_i) + pi_i[3] L_t w^r_{i,t-1}
//!             r_i    = M_t^T w^r_i
//! ```
//!
//! `C` is [content-based addressing](content_weights). The functions below implement these equations, in this
//! order. On the CPU one [fused kernel](fused_step) computes all of them.

use crate::{
    Attention, Controller, ControllerKind, ControllerState, ControllerWeights, CoreOutput, Count,
    Initializer, MemoryError, RecurrentCore, checks, error::require_positive,
    init::INITIAL_STRENGTH, settings::slots_for,
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Int, Tensor, activation},
};
pub use mnemora_kernels::dnc::{DncMemory, DncStep, interface_size};
use mnemora_kernels::{
    attention::read,
    content::content_weights,
    dnc::{USAGE_FLOOR, fused_step},
    softplus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of a [`Dnc`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DncConfig {
    /// Width of the input; [`fit`](Self::fit) fills it in.
    #[serde(skip)]
    pub input: usize,
    /// The controller that drives the heads: `lstm`, or `feed-forward`, which has no state.
    pub controller: ControllerKind,
    /// Layers of the controller.
    pub layers: usize,
    /// Size of the controller's state, per layer if there are several.
    pub hidden: usize,
    /// Read heads `R`.
    pub reads: usize,
    /// Width of a memory row, `W`.
    pub width: usize,
    /// Memory rows, `N`; 0 for one per step of a sequence, which for an agent is an unroll and the step after it. Time and
    /// memory grow with their square.
    pub slots: usize,
}

/// A controller (by default an LSTM) with one write head, which finds free slots itself, and read heads that
/// follow content or the order of writing in either direction.
///
/// Graves et al. 2016, Methods. Each step writes, then reads.
#[derive(Module, Debug)]
pub struct Dnc {
    /// Controller, input `[input; r_{t-1}]`.
    pub controller: Controller,
    /// Maps `h_t` to the interface: read keys, read strengths, write key, write strength, erase vector, write
    /// vector, free gates, allocation gate, write gate, read modes.
    pub interface: Linear,
    reads: usize,
    width: usize,
    slots: usize,
}

/// The state of a [`Dnc`]: controller, memory and its bookkeeping.
#[derive(Clone, Debug)]
pub struct DncState {
    /// `h_t` and the LSTM's cell.
    pub controller: ControllerState,
    /// `M_t`, `[batch, slots, width]`.
    pub memory: Tensor<3>,
    /// `u_t`, `[batch, slots]`.
    pub usage: Tensor<2>,
    /// `p_t`, `[batch, slots]`.
    pub precedence: Tensor<2>,
    /// `L_t`, `[batch, slots, slots]`; `L[i, j]` is the degree to which `i` was written right after `j`.
    pub links: Tensor<3>,
    /// `w^r_t`, `[batch, reads, slots]`.
    pub read_weights: Tensor<3>,
    /// `w^w_t`, `[batch, slots]`.
    pub write_weights: Tensor<2>,
    /// `r_t`, `[batch, reads * width]`.
    pub read_vectors: Tensor<2>,
}

crate::bundle!(DncState {
    controller,
    memory,
    usage,
    precedence,
    links,
    read_weights,
    write_weights,
    read_vectors
});

impl Default for DncConfig {
    fn default() -> Self {
        Self {
            input: 0,
            controller: ControllerKind::Lstm,
            layers: 1,
            hidden: 100,
            reads: 5,
            width: 32,
            slots: 0,
        }
    }
}

impl DncConfig {
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
    pub fn init(&self, init: &mut Initializer) -> Result<Dnc, MemoryError> {
        require_positive(
            "dnc",
            &[
                ("input", self.input),
                ("hidden", self.hidden),
                ("layers", self.layers),
                ("reads", self.reads),
                ("width", self.width),
                ("slots", self.slots),
            ],
        )?;
        let inputs = self.input + self.reads * self.width;
        let controller = self
            .controller
            .init(self.layers, inputs, self.hidden, init)?;
        Ok(Dnc {
            interface: init.linear_with_offset(
                controller.output_size(),
                interface_size(self.reads, self.width),
                self.reads * self.width..self.reads * (self.width + 1),
                INITIAL_STRENGTH,
            ),
            controller,
            reads: self.reads,
            width: self.width,
            slots: self.slots,
        })
    }
}

impl RecurrentCore for Dnc {
    type State = DncState;
    type Prepared = ControllerWeights;

    fn input_size(&self) -> usize {
        self.controller.input_size() - self.reads * self.width
    }

    /// `[r_1; ...; r_R; h]`
    fn output_size(&self) -> usize {
        self.reads * self.width + self.controller.output_size()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> DncState {
        let slots = self.slots;
        DncState {
            controller: self.controller.initial_state(batch, device),
            memory: Tensor::zeros([batch, slots, self.width], device),
            usage: Tensor::zeros([batch, slots], device),
            precedence: Tensor::zeros([batch, slots], device),
            links: Tensor::zeros([batch, slots, slots], device),
            read_weights: Tensor::zeros([batch, self.reads, slots], device),
            write_weights: Tensor::zeros([batch, slots], device),
            read_vectors: Tensor::zeros([batch, self.reads * self.width], device),
        }
    }

    fn prepare(&self) -> ControllerWeights {
        self.controller.prepare()
    }

    fn step(
        &self,
        prepared: &ControllerWeights,
        input: Tensor<2>,
        state: DncState,
    ) -> (CoreOutput, DncState) {
        let input = Tensor::cat(vec![input, state.read_vectors.clone()], 1);
        let (hidden, controller) = self.controller.step(prepared, input, state.controller);
        let interface = self.interface.forward(hidden.clone());
        let memory = DncMemory {
            rows: state.memory,
            usage: state.usage,
            precedence: state.precedence,
            links: state.links,
            read_weights: state.read_weights,
            write_weights: state.write_weights,
        };
        let DncStep {
            memory,
            allocation,
            read_vectors,
        } = access(interface, memory);
        checks::range("dnc", "usage", &memory.usage, [0.0, 1.0]);
        checks::weights("dnc", "allocation", &allocation, false);
        checks::weights("dnc", "write weights", &memory.write_weights, false);
        checks::weights("dnc", "links by row", &memory.links, false);
        if checks::range_checks() {
            let links_by_column = memory.links.clone().swap_dims(1, 2);
            checks::weights("dnc", "links by column", &links_by_column, false);
        }
        checks::weights("dnc", "read weights", &memory.read_weights, false);

        let head = |weights: &Tensor<2>| weights.clone().unsqueeze_dim::<3>(1);
        let output = CoreOutput {
            output: Tensor::cat(vec![read_vectors.clone(), hidden], 1),
            attention: vec![
                Attention::new("read", &memory.read_weights),
                Attention::new("write", &head(&memory.write_weights)),
                Attention::new("allocation", &head(&allocation)),
            ],
        };
        let state = DncState {
            controller,
            memory: memory.rows,
            usage: memory.usage,
            precedence: memory.precedence,
            links: memory.links,
            read_weights: memory.read_weights,
            write_weights: memory.write_weights,
            read_vectors,
        };
        (output, state)
    }

    /// Mostly the links between all pairs of slots.
    fn kept(&self) -> Count {
        let read = Count::product(&[self.reads, self.width]);
        let interface = Count::from(interface_size(self.reads, self.width));
        let slot = Count::from(self.slots) + self.width + 4 * self.reads + 8;
        let outside = self.controller.kept() + read * 4 + interface * 2;
        outside + self.input_size() + self.controller.output_size() + slot * self.slots
    }
}

/// Writes to the memory, then reads: by the fused kernel where there is one, otherwise by the [equations].
///
/// `interface` is computed from the controller's output, see [`Interface::split`]. No gradient passes through
/// the previous write weights or through the order of the slots by usage.
///
/// # Panics
/// If shapes do not fit.
pub fn access(interface: Tensor<2>, memory: DncMemory) -> DncStep {
    fused_step(&interface, &memory).unwrap_or_else(|| equations(interface, memory))
}

/// The same step by the equations of this [module](self), for any backend.
///
/// # Panics
/// If shapes do not fit.
pub fn equations(interface: Tensor<2>, memory: DncMemory) -> DncStep {
    let [_, reads, _] = memory.read_weights.dims();
    let [_, _, width] = memory.rows.dims();
    let interface = Interface::split(interface, reads, width);

    let retention = retention(interface.free_gates, memory.read_weights.clone());
    let usage = usage(memory.usage, memory.write_weights, retention);
    let allocation = allocation(usage.clone());
    let content = content_weights(
        interface.write_key,
        interface.write_strength,
        memory.rows.clone(),
    );
    let write_weights = write_weights(
        allocation.clone(),
        content.squeeze_dim(1),
        interface.allocation_gate,
        interface.write_gate,
    );
    let rows = write(
        memory.rows,
        write_weights.clone(),
        interface.erase,
        interface.write,
    );
    // The links use the precedence before this write.
    let links = links(
        memory.links,
        memory.precedence.clone(),
        write_weights.clone(),
    );
    let precedence = precedence(memory.precedence, write_weights.clone());
    let content = content_weights(interface.read_keys, interface.read_strengths, rows.clone());
    let read_weights = read_weights(memory.read_weights, links.clone(), content, interface.modes);
    let read_vectors = read(read_weights.clone(), rows.clone()).flatten(1, 2);
    DncStep {
        memory: DncMemory {
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
        },
        allocation,
        read_vectors,
    }
}

/// The interface of a memory: the parameters that the controller gives to its heads.
#[derive(Clone, Debug)]
pub struct Interface {
    /// `k^r`, `[batch, reads, width]`
    pub read_keys: Tensor<3>,
    /// `beta^r`, `[batch, reads]`, at least 1.
    pub read_strengths: Tensor<2>,
    /// `k^w`, `[batch, 1, width]`
    pub write_key: Tensor<3>,
    /// `beta^w`, `[batch, 1]`, at least 1.
    pub write_strength: Tensor<2>,
    /// `e`, `[batch, 1, width]`, within `[0, 1]`.
    pub erase: Tensor<3>,
    /// `v`, `[batch, 1, width]`
    pub write: Tensor<3>,
    /// `f`, `[batch, reads, 1]`, within `[0, 1]`.
    pub free_gates: Tensor<3>,
    /// `g^a`, `[batch, 1]`, within `[0, 1]`.
    pub allocation_gate: Tensor<2>,
    /// `g^w`, `[batch, 1]`, within `[0, 1]`.
    pub write_gate: Tensor<2>,
    /// `pi`: backward, content, forward, `[batch, reads, 3]`; each row sums to one.
    pub modes: Tensor<3>,
}

impl Interface {
    /// Splits a linear map of the controller's output, `[batch, interface_size]`: read keys, read strengths,
    /// write key, write strength, erase vector, write vector, free gates, allocation gate, write gate and read
    /// modes, all before their activations.
    ///
    /// # Panics
    /// If the width of `whole` is not the interface size.
    pub fn split(whole: Tensor<2>, reads: usize, width: usize) -> Self {
        let [batch, numbers] = whole.dims();
        assert_eq!(
            numbers,
            interface_size(reads, width),
            "numbers of the interface"
        );
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
        let parts = whole.split_with_sizes(sizes.to_vec(), 1);
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
        Self {
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

/// `oneplus(x) = 1 + log(1 + exp(x))`
fn oneplus(x: Tensor<2>) -> Tensor<2> {
    softplus(x).add_scalar(1.0)
}

/// `psi_t = prod_i (1 - f_i w^r_{i,t-1})`, `[batch, slots]`: the fraction of each slot that is not freed.
///
/// # Shapes
/// - `free_gates`: `[batch, reads, 1]`
/// - `read_weights`: of the previous step, `[batch, reads, slots]`
fn retention(free_gates: Tensor<3>, read_weights: Tensor<3>) -> Tensor<2> {
    let retained = (free_gates * read_weights).neg().add_scalar(1.0);
    let reads = retained.dims()[1];
    let product = (1..reads).fold(retained.clone().narrow(1, 0, 1), |product, head| {
        product * retained.clone().narrow(1, head, 1)
    });
    product.squeeze_dim(1)
}

/// `u_t = (u_{t-1} + w^w_{t-1} - u_{t-1} w^w_{t-1}) psi_t`, `[batch, slots]`: writing to a slot marks it as
/// used, reading and freeing it marks it as free.
///
/// All arguments are `[batch, slots]`; no gradient passes through the write weights.
fn usage(usage: Tensor<2>, write_weights: Tensor<2>, retention: Tensor<2>) -> Tensor<2> {
    let written = write_weights.detach();
    (usage.clone() + written.clone() - usage * written) * retention
}

/// `a_t[i] = (1 - u'[i]) prod_j u'[j]`, `[batch, slots]`, over the slots `j` that come before `i` in the free
/// list, which is sorted by usage: the freest slot comes first.
///
/// `u' = eps + (1 - eps) u_t` with `eps` [`USAGE_FLOOR`]. Written without a sort, which on a GPU waits for the
/// host: a matrix of comparisons says whether `j` comes before `i`. Ties are broken by index.
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

/// `w^w_t = g^w (g^a a_t + (1 - g^a) c_t)`, `[batch, slots]`: writes to a free slot, or to one whose content
/// matches the write key.
///
/// # Shapes
/// - `allocation`: `a_t`, `[batch, slots]`
/// - `content`: `c_t`, `[batch, slots]`
/// - gates: `[batch, 1]`
fn write_weights(
    allocation: Tensor<2>,
    content: Tensor<2>,
    allocation_gate: Tensor<2>,
    write_gate: Tensor<2>,
) -> Tensor<2> {
    (content.clone() + allocation_gate * (allocation - content)) * write_gate
}

/// `M_t = M_{t-1} (1 - w^w_t e^T) + w^w_t v^T`, `[batch, slots, width]`.
///
/// # Shapes
/// - `rows`: `M_{t-1}`, `[batch, slots, width]`
/// - `write_weights`: `[batch, slots]`
/// - `erase`, `write`: `[batch, 1, width]`
fn write(
    rows: Tensor<3>,
    write_weights: Tensor<2>,
    erase: Tensor<3>,
    write: Tensor<3>,
) -> Tensor<3> {
    let column = write_weights.unsqueeze_dim::<3>(2);
    let erased = rows.clone() * column.clone().matmul(erase);
    rows - erased + column.matmul(write)
}

/// `L_t[i, j] = (1 - w^w_t[i] - w^w_t[j]) L_{t-1}[i, j] + w^w_t[i] p_{t-1}[j]`, zero on the diagonal, `[batch,
/// slots, slots]`: `i` was written right after `j`.
///
/// # Shapes
/// - `links`: `L_{t-1}`, `[batch, slots, slots]`
/// - `precedence`: `p_{t-1}`, `[batch, slots]`
/// - `write_weights`: `[batch, slots]`
fn links(links: Tensor<3>, precedence: Tensor<2>, write_weights: Tensor<2>) -> Tensor<3> {
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

/// `p_t = (1 - sum_i w^w_t[i]) p_{t-1} + w^w_t`, `[batch, slots]`: the slot that was written last.
fn precedence(precedence: Tensor<2>, write_weights: Tensor<2>) -> Tensor<2> {
    let unwritten = write_weights.clone().sum_dim(1).neg().add_scalar(1.0);
    precedence * unwritten + write_weights
}

/// `w^r_i = pi_i[1] L_t^T w^r_{i,t-1} + pi_i[2] c_i + pi_i[3] L_t w^r_{i,t-1}`, `[batch, reads, slots]`: the
/// slot written before the one read last, a slot of matching content, or the slot written after the one read
/// last.
///
/// # Shapes
/// - `read_weights`: `w^r_{t-1}`, `[batch, reads, slots]`
/// - `links`: `L_t`, `[batch, slots, slots]`
/// - `content`: `c`, `[batch, reads, slots]`
/// - `modes`: `[batch, reads, 3]`
fn read_weights(
    read_weights: Tensor<3>,
    links: Tensor<3>,
    content: Tensor<3>,
    modes: Tensor<3>,
) -> Tensor<3> {
    let forward = read_weights.clone().matmul(links.clone().swap_dims(1, 2));
    let backward = read_weights.matmul(links);
    let mode = |index: usize| modes.clone().narrow(2, index, 1);
    backward * mode(0) + content * mode(1) + forward * mode(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_into_vec().unwrap()
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

    /// Writes by allocation alone fill different slots, and the links follow the order of writing.
    #[test]
    fn writes_take_distinct_slots_and_links_remember_their_order() {
        let (device, slots) = (Device::default(), 6);
        let (open, shut) = (30.0, -30.0);
        // One head and width 1: read key and strength, write key and strength, erase, write, free
        // gate, allocation gate, write gate, modes.
        let interface = [
            0.0, 0.0, 0.0, 0.0, 0.0, 0.0, shut, open, open, 0.0, 0.0, 0.0,
        ];
        let interface = Tensor::<2>::from_floats([interface], &device);
        for step in [access, equations] {
            let mut memory = DncMemory {
                rows: Tensor::zeros([1, slots, 1], &device),
                usage: Tensor::zeros([1, slots], &device),
                precedence: Tensor::zeros([1, slots], &device),
                links: Tensor::zeros([1, slots, slots], &device),
                read_weights: Tensor::zeros([1, 1, slots], &device),
                write_weights: Tensor::zeros([1, slots], &device),
            };
            let mut written = Vec::new();
            for _ in 0..slots {
                memory = step(interface.clone(), memory).memory;
                let weights = values(memory.write_weights.clone());
                let largest = (0..slots).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
                written.push(largest.unwrap());
            }
            let mut distinct = written.clone();
            distinct.sort_unstable();
            assert_eq!(distinct, [0, 1, 2, 3, 4, 5]);

            let links = values(memory.links);
            for pair in written.windows(2) {
                assert!((links[pair[1] * slots + pair[0]] - 1.0).abs() < 1e-3);
            }
            for row in 0..slots {
                assert_eq!(links[row * slots + row], 0.0);
            }
        }
    }
}
