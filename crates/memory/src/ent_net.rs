//! The memory of the Recurrent Entity Network: cells with keys, each updated for itself.

use crate::{
    Attention, Bundle, CoreOutput, Count, Initializer, MemoryError, RecurrentCore, TensorMapper,
    checks, core::step_through, error::require_positive,
};
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Device, Tensor, activation},
};
use mnemora_kernels::split::split_rows;

/// Lengths of cells are taken to be at least this.
const SMALLEST_NORM: f64 = 1e-8;

/// Sizes of an [`EntNet`].
#[derive(Clone, Debug, PartialEq)]
pub struct EntNetConfig {
    /// Width of the input.
    pub input: usize,
    /// Cells.
    pub cells: usize,
    /// Width of a cell.
    pub width: usize,
    /// Slope of the PReLU below zero at the start. Henaff et al. start at 1.
    pub slope: f64,
}

/// Cells that hold one entity each. A cell opens to an input that resembles it or its key.
///
/// Henaff et al. 2017, section 2; the sum of the cells is the output, as in Santoro et al. 2018,
/// appendix A.2:
///
/// ```text
/// s  = W_s x + b_s
/// g  = sig(s . h + s . w)
/// h' = h + g PReLU(U h + V w + W s + b),  divided by its length
/// ```
#[derive(Module, Debug)]
pub struct EntNet {
    /// From the input onto `s`.
    pub encode: Linear,
    /// `w`, `[cells, width]`; also where the cells start.
    pub keys: Param<Tensor<2>>,
    /// `U`, `[width, width]`
    pub from_cell: Param<Tensor<2>>,
    /// `V`, `[width, width]`
    pub from_key: Param<Tensor<2>>,
    /// `W`, `[width, width]`
    pub from_input: Param<Tensor<2>>,
    /// `b`, `[width]`
    pub bias: Param<Tensor<1>>,
    /// Of the PReLU below zero, `[width]`
    pub slope: Param<Tensor<1>>,
}

/// Cells of an [`EntNet`].
#[derive(Clone, Debug)]
pub struct EntNetState {
    /// `h`, `[batch, cells, width]`.
    pub cells: Tensor<3>,
}

impl Bundle for EntNetState {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            cells: self.cells.map_tensors(mapper),
        }
    }
}

/// What an [`EntNet`] makes of a step's input before it looks at its cells.
#[derive(Clone, Debug)]
struct Entity {
    /// `s`, `[batch, 1, width]`
    input: Tensor<3>,
    /// `s . w`, `[batch, cells, 1]`
    match_of_key: Tensor<3>,
    /// `V w + W s + b`, `[batch, cells, width]`
    before: Tensor<3>,
}

impl EntNetConfig {
    /// A slope of 0.25 below zero.
    pub fn new(input: usize, cells: usize, width: usize) -> Self {
        Self {
            input,
            cells,
            width,
            slope: 0.25,
        }
    }

    /// Builds the core; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<EntNet, MemoryError> {
        let width = self.width;
        require_positive(
            "ent_net",
            &[
                ("input", self.input),
                ("cells", self.cells),
                ("width", width),
            ],
        )?;
        let bound = 1.0 / (width as f64).sqrt();
        let mut square = || init.uniform([width, width], bound);
        let (from_cell, from_key, from_input) = (square(), square(), square());
        Ok(EntNet {
            encode: init.linear(self.input, width),
            keys: init.normal([self.cells, width], bound),
            from_cell,
            from_key,
            from_input,
            bias: init.constant([width], 0.0),
            slope: init.constant([width], self.slope as f32),
        })
    }
}

impl EntNet {
    /// All that a step computes from its input alone, for every step of `[time, batch, input]`.
    fn project(&self, inputs: Tensor<3>) -> Vec<Entity> {
        let [time, batch, width] = inputs.dims();
        let [cells, cell_width] = self.keys.dims();
        let sentences = self.encode.forward(inputs.reshape([time * batch, width]));
        let matches = sentences.clone().matmul(self.keys.val().transpose());
        let from_input =
            sentences.clone().matmul(self.from_input.val()) + self.bias.val().unsqueeze();
        let from_key = self.keys.val().matmul(self.from_key.val());
        let from_key = from_key.unsqueeze::<3>();
        split_rows(sentences, time)
            .into_iter()
            .zip(split_rows(matches, time))
            .zip(split_rows(from_input, time))
            .map(|((input, match_of_key), from_input)| Entity {
                input: input.reshape([batch, 1, cell_width]),
                match_of_key: match_of_key.reshape([batch, cells, 1]),
                before: from_input.unsqueeze_dim(1) + from_key.clone(),
            })
            .collect()
    }

    fn advance(&self, entity: Entity, state: EntNetState) -> (CoreOutput, EntNetState) {
        let cells = state.cells;
        let shape = cells.dims();
        let [batch, count, width] = shape;
        let match_of_cell = (cells.clone() * entity.input).sum_dim(2);
        let gates = activation::sigmoid(match_of_cell + entity.match_of_key);
        checks::range("ent-net", "gates", &gates, [0.0, 1.0]);
        let from_cell = cells
            .clone()
            .reshape([batch * count, width])
            .matmul(self.from_cell.val())
            .reshape(shape);
        let before = from_cell + entity.before;
        let below = before.clone().clamp_max(0.0) * self.slope.val().unsqueeze::<3>();
        let cells = cells + gates.clone() * (activation::relu(before) + below);
        let squares = cells.clone().powi_scalar(2).sum_dim(2);
        let cells = cells / squares.clamp_min(SMALLEST_NORM * SMALLEST_NORM).sqrt();
        let output = CoreOutput {
            output: cells.clone().sum_dim(1).squeeze_dim(1),
            attention: vec![Attention::new("write", &gates.swap_dims(1, 2))],
        };
        (output, EntNetState { cells })
    }
}

impl EntNet {
    /// Numbers that the graph of a step keeps for each sequence.
    pub fn kept(&self) -> Count {
        let [cells, width] = self.keys.dims();
        Count::product(&[13, cells, width])
            + RecurrentCore::input_size(self)
            + 5 * width
            + 8 * cells
    }
}

impl RecurrentCore for EntNet {
    type State = EntNetState;

    fn input_size(&self) -> usize {
        self.encode.weight.shape()[0]
    }

    /// The sum of the cells.
    fn output_size(&self) -> usize {
        self.keys.shape()[1]
    }

    fn initial_state(&self, batch: usize, _: &Device) -> EntNetState {
        let [cells, width] = self.keys.dims();
        let keys = self.keys.val().unsqueeze::<3>();
        EntNetState {
            cells: keys.expand([batch, cells, width]),
        }
    }

    fn forward(&self, input: Tensor<2>, state: EntNetState) -> (CoreOutput, EntNetState) {
        let entity = self.project(input.unsqueeze_dim(0)).pop();
        self.advance(entity.expect("one step was projected"), state)
    }

    fn sequence(&self, inputs: Tensor<3>, state: EntNetState) -> (Vec<CoreOutput>, EntNetState) {
        step_through(self.project(inputs), state, |entity, state| {
            self.advance(entity, state)
        })
    }
}
