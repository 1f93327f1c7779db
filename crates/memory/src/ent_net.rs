//! The memory of the Recurrent Entity Network: cells with keys, each updated independently.

use crate::{
    Attention, CoreOutput, Count, Initializer, MemoryError, RecurrentCore, checks,
    error::require_positive,
    recurrent::{Resets, step_through},
};
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Bool, Device, Tensor, activation},
};
use mnemora_kernels::split::split_rows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lower bound on the length by which a cell is divided.
const SMALLEST_NORM: f64 = 1e-8;

/// Sizes of an [`EntNet`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EntNetConfig {
    /// Width of the input; [`fit`](Self::fit) fills it in.
    #[serde(skip)]
    pub input: usize,
    /// Number of cells.
    pub cells: usize,
    /// Width of a cell.
    pub width: usize,
    /// Initial slope of the PReLU below zero. Henaff et al. start at 1.
    #[serde(skip)]
    pub slope: f64,
}

/// Cells that hold one entity each. An input updates the cells that it resembles, or whose key it resembles.
///
/// Henaff et al. 2017, section 2. The output is the sum of the cells, as in Santoro et al. 2018, appendix A.2:
///
/// ```text
/// s  = W_s x + b_s
/// g  = sig(s . h + s . w)
/// h' = h + g PReLU(U h + V w + W s + b),  divided by its length
/// ```
#[derive(Module, Debug)]
pub struct EntNet {
    /// Maps the input to `s`.
    pub encode: Linear,
    /// `w`, `[cells, width]`; also the initial cells.
    pub keys: Param<Tensor<2>>,
    /// `U`, `[width, width]`
    pub from_cell: Param<Tensor<2>>,
    /// `V`, `[width, width]`
    pub from_key: Param<Tensor<2>>,
    /// `W`, `[width, width]`
    pub from_input: Param<Tensor<2>>,
    /// `b`, `[width]`
    pub bias: Param<Tensor<1>>,
    /// Slope of the PReLU below zero, `[width]`
    pub slope: Param<Tensor<1>>,
}

/// Cells of an [`EntNet`].
#[derive(Clone, Debug)]
pub struct EntNetState {
    /// `h`, `[batch, cells, width]`.
    pub cells: Tensor<3>,
}

crate::bundle!(EntNetState { cells });

/// What an [`EntNet`] computes from a step's input alone.
#[derive(Clone, Debug)]
struct Entity {
    /// `s`, `[batch, 1, width]`
    input: Tensor<3>,
    /// `s . w`, `[batch, cells, 1]`
    match_of_key: Tensor<3>,
    /// `V w + W s + b`, `[batch, cells, width]`
    before: Tensor<3>,
}

impl Default for EntNetConfig {
    fn default() -> Self {
        Self::new(0, 4, 128)
    }
}

impl EntNetConfig {
    /// Fills in the sizes that settings leave open, for inputs of width `input`.
    ///
    /// # Errors
    /// Never; the signature is that of every `fit`.
    pub fn fit(&self, input: usize, _time: usize) -> Result<Self, MemoryError> {
        Ok(Self {
            input,
            ..self.clone()
        })
    }

    /// Sizes with a PReLU slope of 0.25 below zero.
    pub fn new(input: usize, cells: usize, width: usize) -> Self {
        Self {
            input,
            cells,
            width,
            slope: 0.25,
        }
    }

    /// Builds the core. A size of zero is an error.
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
    /// Everything that a step computes from its input alone, for every step of `[time, batch, input]`.
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

impl RecurrentCore for EntNet {
    type State = EntNetState;
    type Prepared = ();

    fn input_size(&self) -> usize {
        self.encode.weight.shape()[0]
    }

    /// The width of the sum of the cells.
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

    fn prepare(&self) {}

    fn step(&self, _: &(), input: Tensor<2>, state: EntNetState) -> (CoreOutput, EntNetState) {
        let entity = self.project(input.unsqueeze_dim(0)).pop();
        self.advance(entity.expect("one step was projected"), state)
    }

    fn sequence(
        &self,
        inputs: Tensor<3>,
        resets: Option<&Tensor<2, Bool>>,
        state: EntNetState,
    ) -> (Vec<CoreOutput>, EntNetState) {
        let [time, batch, _] = inputs.dims();
        let resets = Resets::new(self, resets, [time, batch]);
        step_through(self.project(inputs), &resets, state, |entity, state| {
            self.advance(entity, state)
        })
    }

    fn kept(&self) -> Count {
        let [cells, width] = self.keys.dims();
        Count::product(&[13, cells, width])
            + RecurrentCore::input_size(self)
            + 5 * width
            + 8 * cells
    }
}
