//! The Differentiable Neural Computer: allocation of free slots, and links in the order of writing.

use crate::{
    Attention, Bundle, Controller, ControllerKind, ControllerState, CoreOutput, Count, Initializer,
    MemoryError, RecurrentCore, TensorMapper, checks, error::require_positive,
    init::INITIAL_STRENGTH,
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};
use mnemora_kernels::dnc::{DncMemory, DncStep, dnc_step, interface_size};

/// Sizes of a [`Dnc`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DncConfig {
    /// Width of the input.
    pub input: usize,
    /// What drives the heads.
    pub controller: ControllerKind,
    /// Size of the controller's state, of each layer where there are several.
    pub hidden: usize,
    /// Read heads `R`.
    pub reads: usize,
    /// Width of a memory row, `W`.
    pub width: usize,
    /// Memory rows, `N`. Time and space grow with their square.
    pub slots: usize,
}

/// A controller, by default an LSTM, with one write head, which finds free slots by itself, and read heads that
/// follow content or the order of writing in either direction.
///
/// Graves et al. 2016, Methods; write, then read.
#[derive(Module, Debug)]
pub struct Dnc {
    /// Controller, input `[input; r_{t-1}]`. Its path among the parameters is that of the LSTM that
    /// it is unless another kind is chosen.
    pub lstm: Controller,
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
    pub controller: ControllerState,
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

impl DncConfig {
    /// Builds the core; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<Dnc, MemoryError> {
        require_positive(
            "dnc",
            &[
                ("input", self.input),
                ("hidden", self.hidden),
                ("layers", self.controller.layers()),
                ("reads", self.reads),
                ("width", self.width),
                ("slots", self.slots),
            ],
        )?;
        let inputs = self.input + self.reads * self.width;
        let controller = self.controller.init(inputs, self.hidden, init)?;
        Ok(Dnc {
            interface: init.linear_with_offset(
                controller.output_size(),
                interface_size(self.reads, self.width),
                self.reads * self.width..self.reads * (self.width + 1),
                INITIAL_STRENGTH,
            ),
            lstm: controller,
            reads: self.reads,
            width: self.width,
            slots: self.slots,
        })
    }
}

impl Dnc {
    /// Numbers that the graph of a step keeps for each sequence: the links between all pairs of slots before
    /// all.
    pub fn kept(&self) -> Count {
        let read = Count::product(&[self.reads, self.width]);
        let interface = Count::from(interface_size(self.reads, self.width));
        let slot = Count::from(self.slots) + self.width + 4 * self.reads + 8;
        let outside = self.lstm.kept() + read * 4 + interface * 2;
        outside + self.input_size() + self.lstm.output_size() + slot * self.slots
    }
}

impl RecurrentCore for Dnc {
    type State = DncState;

    fn input_size(&self) -> usize {
        self.lstm.input_size() - self.reads * self.width
    }

    /// `[r_1; ...; r_R; h]`
    fn output_size(&self) -> usize {
        self.reads * self.width + self.lstm.output_size()
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
        let input = Tensor::cat(vec![input, state.read_vectors.clone()], 1);
        let (hidden, controller) = self.lstm.step(input, state.controller);
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
        } = dnc_step(interface, memory);
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
}
