//! The Relational Memory Core: memories that attend to each other and to the input.
//!
//! ```
//! use burn::tensor::{Bool, Device, Tensor};
//! use mnemora_memory::{Bundle, GateStyle, Initializer, MemoryError, RecurrentCore, RmcConfig};
//! use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
//!
//! # fn main() -> Result<(), MemoryError> {
//! let device = Device::default().autodiff();
//! let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
//! // Inputs of 10 numbers; 4 memories, 2 heads of size 8. All other fields have their defaults.
//! let core = RmcConfig {
//!     gates: GateStyle::Memory,
//!     ..RmcConfig::new(10, 4, 2, 8)
//! }
//! .init(&mut init)?;
//!
//! // Step by step, state in and state out. Weights are prepared once for all steps.
//! let prepared = core.prepare();
//! let state = core.initial_state(3, &device);
//! let (output, state) = core.step(&prepared, Tensor::ones([3, 10], &device), state);
//! assert_eq!(output.output.dims(), [3, 4 * 2 * 8]);
//! // For both heads: the weights of each memory over the four memories and the input.
//! let weights = output.attention[0].by_row().expect("every memory has weights");
//! assert_eq!(weights.dims(), [3, 2, 4, 5]);
//!
//! // The second sequence starts again.
//! let ended = Tensor::<1, Bool>::from_bool([false, true, false], &device);
//! let state = state.replace(&ended, core.initial_state(3, &device));
//!
//! // A whole sequence: inputs are projected for all of its steps at once.
//! let (outputs, _state) = core.sequence(Tensor::zeros([20, 3, 10], &device), None, state);
//! let gradients = outputs[19].output.clone().sum().backward();
//! assert!(core.input.weight.val().grad(&gradients).is_some());
//! # Ok(())
//! # }
//! ```

use crate::{
    Attention, CoreOutput, Count, Initializer, MemoryError, RecurrentCore, checks,
    error::require_positive,
    recurrent::{Resets, step_through},
};
use burn::{
    module::Module,
    nn::{LayerNorm, LayerNormConfig, Linear},
    tensor::{Bool, Device, Tensor, TensorData, activation},
};
use mnemora_kernels::{
    linear::{Activation, StepMap, linear},
    relation::{Relation, gated_memory, normalised_sum, relate, tanh},
    split::split_rows,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Added to variances in layer norms.
const EPSILON: f64 = 1e-5;

/// Gates that decide how much of an [`Rmc`]'s memory is new after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateStyle {
    /// Separate gates for each unit of each memory.
    #[default]
    Unit,
    /// One pair of gates for each memory.
    Memory,
    /// No gates: the whole memory is replaced.
    None,
}

/// Sizes and switches of an [`Rmc`].
///
/// Every slot is `heads * head_size` wide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RmcConfig {
    /// Width of an input row.
    #[serde(skip)]
    pub input: usize,
    /// Rows of an input: 1 for a vector. If there are more, each is attended to separately.
    #[serde(skip)]
    pub rows: usize,
    /// Slots, `N`.
    pub slots: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width of a head's values.
    pub head_size: usize,
    /// Width of a head's queries and keys; 0 for the width of its values.
    pub key_size: usize,
    /// Rounds of attention and MLP at each step.
    pub blocks: usize,
    /// Layers of the MLP.
    pub mlp_layers: usize,
    /// The granularity of the gates: each `unit`, each `memory`, or `none`.
    pub gates: GateStyle,
    /// Whether the output is `sig(o) * tanh(M_t)` with a third gate `o`, instead of `M_t`.
    pub output_gate: bool,
    /// A constant added to forget gates.
    pub forget_bias: f64,
    /// A constant added to input gates.
    pub input_bias: f64,
}

/// Memory slots that are related to each other and to the input by attention. Gates like those of an LSTM decide
/// how much of the result each slot takes over. The memory is the only state, and the output is the memory.
///
/// Santoro et al. 2018, equations 2 to 8, in the formulation of their public implementation:
///
/// ```text
/// x~ = W_in x + b_in
/// X  = [M_{t-1}; x~]
/// blocks times:
///     [q k v] = LN(X W_qkv + b)                one norm over all heads of a row; then split into heads
///     X = LN(X + softmax(q k^T / sqrt(key_size)) v)
///     X = LN(X + MLP(X))                       ReLU between the MLP's layers, none after the last
/// M~ = the slots' rows of X
/// [i f] = flat(x~) W_g + b_1 + tanh(M_{t-1}) U_g + b_2      flat(x~): all input rows, one after the other
/// M_t = sig(i + input_bias) * tanh(M~) + sig(f + forget_bias) * M_{t-1}
/// ```
///
/// LN normalises the features of each row separately. Each block has its own projections and norms. All blocks
/// share the MLP, whose layers have separate weights. The two added biases are constants. The scale in the softmax is that
/// of equation 2; the public implementation divides by `sqrt(2 * key_size + head_size)`.
#[derive(Module, Debug)]
pub struct Rmc {
    /// Maps an input row to the width of a memory, `x~`.
    pub input: Linear,
    /// One entry per round of attention.
    pub blocks: Vec<AttentionBlock>,
    /// Layers of the MLP, which all blocks share.
    pub mlp: Vec<Linear>,
    /// Maps all of `x~` to the gates, in the order `i, f, o`.
    pub gate_input: Option<Linear>,
    /// Maps a row of `tanh(M)` to its gates.
    pub gate_memory: Option<Linear>,
    rows: usize,
    slots: usize,
    heads: usize,
    key_size: usize,
    output_gate: bool,
    forget_bias: f64,
    input_bias: f64,
}

/// The parameters of an [`Rmc`] that each block has of its own.
#[derive(Module, Debug)]
pub struct AttentionBlock {
    /// Maps a row to query, key and value of each head, head by head.
    pub qkv: Linear,
    /// Over the projections of all heads of a row.
    pub qkv_norm: LayerNorm,
    /// After attention.
    pub attention_norm: LayerNorm,
    /// After the MLP.
    pub mlp_norm: LayerNorm,
}

/// Memory of an [`Rmc`].
#[derive(Clone, Debug)]
pub struct RmcState {
    /// `M`, `[batch, slots, heads * head_size]`.
    pub memory: Tensor<3>,
}

/// The maps that an [`Rmc`] uses at every step, prepared for one sequence: the gradient of each is one product
/// over all steps.
#[derive(Clone, Debug)]
pub struct RmcMaps {
    /// Maps to query, key and value, one per block.
    qkv: Vec<StepMap>,
    mlp: Vec<StepMap>,
    gate_memory: Option<StepMap>,
}

crate::bundle!(RmcState { memory });

/// What an [`Rmc`] computes from a step's input alone.
#[derive(Clone, Debug)]
pub struct RmcInput {
    /// `x~`, `[batch, rows, heads * head_size]`.
    pub rows: Tensor<3>,
    /// `x~ W_g + b`, `[batch, gates]`; `None` without gates.
    pub gates: Option<Tensor<2>>,
}

/// What a step of an [`Rmc`] returns.
#[derive(Clone, Debug)]
pub struct RmcStep {
    /// `M'`, `[batch, slots, heads * head_size]`.
    pub memory: Tensor<3>,
    /// `M'`, or `sig(o) * tanh(M')` with an output gate; same shape.
    pub output: Tensor<3>,
    /// Attention weights of the last block, `[batch, heads, slots, slots + rows]`: how much each memory takes
    /// from the memories and, after them, from the rows of the input.
    pub attention: Tensor<4>,
}

impl Default for RmcConfig {
    fn default() -> Self {
        let mut config = Self::new(0, 4, 4, 32);
        config.key_size = 0;
        config
    }
}

impl RmcConfig {
    /// Fills in the sizes that settings leave open, for inputs of width `input`.
    ///
    /// # Errors
    /// There is an output gate but there are no input and forget gates, or a bias of gates is not finite.
    pub fn fit(&self, input: usize, _time: usize) -> Result<Self, MemoryError> {
        if self.output_gate && self.gates == GateStyle::None {
            return Err(MemoryError::OutputGateWithoutGates);
        }
        for (field, value) in [
            ("forget_bias", self.forget_bias),
            ("input_bias", self.input_bias),
        ] {
            if !value.is_finite() {
                return Err(MemoryError::NotFinite {
                    memory: "rmc",
                    field,
                    value,
                });
            }
        }
        Ok(Self {
            input,
            key_size: match self.key_size {
                0 => self.head_size,
                given => given,
            },
            ..self.clone()
        })
    }

    /// Defaults: one input row, keys as wide as values, one block, an MLP of two layers, gates for each unit,
    /// and 1 added to forget gates.
    pub fn new(input: usize, slots: usize, heads: usize, head_size: usize) -> Self {
        Self {
            input,
            rows: 1,
            slots,
            heads,
            head_size,
            key_size: head_size,
            blocks: 1,
            mlp_layers: 2,
            gates: GateStyle::Unit,
            output_gate: false,
            forget_bias: 1.0,
            input_bias: 0.0,
        }
    }

    /// Builds the core. A size of zero is an error, and so is an output gate without the other gates.
    ///
    /// Weights are normal with a standard deviation of `1 / sqrt(inputs)`, truncated at two standard deviations;
    /// biases are zero.
    pub fn init(&self, init: &mut Initializer) -> Result<Rmc, MemoryError> {
        require_positive(
            "rmc",
            &[
                ("input", self.input),
                ("rows", self.rows),
                ("slots", self.slots),
                ("heads", self.heads),
                ("head_size", self.head_size),
                ("key_size", self.key_size),
                ("blocks", self.blocks),
                ("mlp_layers", self.mlp_layers),
            ],
        )?;
        let width = self.heads * self.head_size;
        let gate_width = match self.gates {
            GateStyle::Unit => Some(width),
            GateStyle::Memory => Some(1),
            GateStyle::None if self.output_gate => {
                return Err(MemoryError::OutputGateWithoutGates);
            }
            GateStyle::None => None,
        };
        let gates = gate_width.map(|width| width * if self.output_gate { 3 } else { 2 });
        let norm = |width: usize, init: &mut Initializer| {
            let mut norm = LayerNormConfig::new(width)
                .with_epsilon(EPSILON)
                .init(init.device());
            norm.gamma = init.constant([width], 1.0);
            norm.beta = Some(init.constant([width], 0.0));
            norm
        };
        let projected = self.heads * (2 * self.key_size + self.head_size);
        Ok(Rmc {
            input: init.truncated_normal_linear(self.input, width),
            blocks: (0..self.blocks)
                .map(|_| AttentionBlock {
                    qkv: init.truncated_normal_linear(width, projected),
                    qkv_norm: norm(projected, init),
                    attention_norm: norm(width, init),
                    mlp_norm: norm(width, init),
                })
                .collect(),
            mlp: (0..self.mlp_layers)
                .map(|_| init.truncated_normal_linear(width, width))
                .collect(),
            gate_input: gates.map(|gates| init.truncated_normal_linear(self.rows * width, gates)),
            gate_memory: gates.map(|gates| init.truncated_normal_linear(width, gates)),
            rows: self.rows,
            slots: self.slots,
            heads: self.heads,
            key_size: self.key_size,
            output_gate: self.output_gate,
            forget_bias: self.forget_bias,
            input_bias: self.input_bias,
        })
    }
}

fn affine(map: &Linear, x: Tensor<2>, activation: Activation) -> Tensor<2> {
    let bias = map.bias.as_ref().expect("all maps of an RMC have biases");
    linear(x, map.weight.val(), bias.val(), activation)
}

/// Scale and shift of a layer norm.
fn scales(norm: &LayerNorm) -> [Tensor<1>; 2] {
    let beta = norm.beta.as_ref().expect("layer norms of an RMC shift");
    [norm.gamma.val(), beta.val()]
}

impl Rmc {
    /// Width of a memory, `heads * head_size`.
    fn width(&self) -> usize {
        self.input.weight.shape()[1]
    }

    /// Everything that a step computes from its input alone, for every step of a sequence at once.
    ///
    /// `inputs`: `[time, batch, rows * input]`, the rows of an input one after the other.
    ///
    /// # Panics
    /// If there is no step, or the width differs from [`input_size`](RecurrentCore::input_size).
    pub fn project(&self, inputs: Tensor<3>) -> Vec<RmcInput> {
        let [time, batch, given] = inputs.dims();
        assert_eq!(given, self.input_size(), "width of the inputs");
        let width = self.width();
        let rows = inputs.reshape([time * batch * self.rows, given / self.rows]);
        let rows = affine(&self.input, rows, Activation::Identity);
        let flat = rows.clone().reshape([time * batch, self.rows * width]);
        let gates = self.gate_input.as_ref();
        let gates = gates.map(|map| affine(map, flat, Activation::Identity));
        let mut gates = gates.map(|gates| split_rows(gates, time).into_iter());
        split_rows(rows, time)
            .into_iter()
            .map(|rows| RmcInput {
                rows: rows.reshape([batch, self.rows, width]),
                gates: gates.as_mut().and_then(Iterator::next),
            })
            .collect()
    }

    /// One step on a projected input, from `M`, `[batch, slots, heads * head_size]`.
    pub fn update(&self, input: RmcInput, memory: Tensor<3>, maps: &RmcMaps) -> RmcStep {
        let shape = memory.dims();
        let [batch, slots, width] = shape;
        let (candidate, attention) = self.relate(input.rows, memory.clone(), maps);
        let (Some(from_input), Some(map)) = (input.gates, &maps.gate_memory) else {
            let memory = candidate.reshape(shape);
            return RmcStep {
                output: memory.clone(),
                memory,
                attention,
            };
        };
        let memory = memory.reshape([batch * slots, width]);
        let from_memory = map.forward(tanh(memory.clone()), Activation::Identity);
        // Output gates come after the others.
        let gates = from_input.dims()[1];
        let (both, third) = match self.output_gate {
            false => (gates, None),
            true => {
                let third = gates / 3;
                let of = |terms: &Tensor<2>| terms.clone().narrow(1, 2 * third, third);
                let from_memory = of(&from_memory).reshape([batch, slots, third]);
                let third = from_memory + of(&from_input).unsqueeze_dim::<3>(1);
                (gates - gates / 3, Some(activation::sigmoid(third)))
            }
        };
        let of = |terms: Tensor<2>| match both == gates {
            true => terms,
            false => terms.narrow(1, 0, both),
        };
        let biases = [self.input_bias, self.forget_bias];
        let memory = gated_memory(of(from_memory), of(from_input), candidate, memory, biases);
        let memory = memory.reshape(shape);
        let output = match third {
            Some(gate) => gate * memory.clone().tanh(),
            None => memory.clone(),
        };
        RmcStep {
            memory,
            output,
            attention,
        }
    }

    /// `M~`, `[batch * slots, heads * head_size]`, from the rows of the input and `M`, and the attention weights
    /// of the last block.
    fn relate(
        &self,
        inputs: Tensor<3>,
        memory: Tensor<3>,
        maps: &RmcMaps,
    ) -> (Tensor<2>, Tensor<4>) {
        let mut all = Tensor::cat(vec![memory.clone(), inputs], 1);
        let shape = all.dims();
        let [batch, rows, width] = shape;
        let blocks: Vec<_> = self.blocks.iter().zip(&maps.qkv).collect();
        let (last, others) = blocks.split_last().expect("there is a block");
        let mut kept = memory;
        for block in others {
            let flat = all.clone().reshape([batch * rows, width]);
            all = self.block(*block, all, flat, maps).0.reshape(shape);
            kept = all.clone().narrow(1, 0, self.slots);
        }
        // The last block computes the memory's rows only; the input's rows serve as keys and values.
        let kept = kept.reshape([batch * self.slots, width]);
        self.block(*last, all, kept, maps)
    }

    /// One block: the new values of `rows`, the first `count` rows of each sequence in `all`, `[batch * count,
    /// width]`, and their attention weights over `all`, `[batch, rows, width]`.
    fn block(
        &self,
        (block, qkv): (&AttentionBlock, &StepMap),
        all: Tensor<3>,
        rows: Tensor<2>,
        maps: &RmcMaps,
    ) -> (Tensor<2>, Tensor<4>) {
        let [batch, total, width] = all.dims();
        let sizes = Relation {
            rows: total,
            queries: rows.dims()[0] / batch,
            heads: self.heads,
            key: self.key_size,
            value: width / self.heads,
        };
        let all = all.reshape([batch * total, width]);
        let projected = qkv.forward(all, Activation::Identity);
        let (read, weights) = relate(projected, scales(&block.qkv_norm), EPSILON, sizes);
        let rows = normalised_sum(rows, read, scales(&block.attention_norm), EPSILON);
        let passed = mlp(rows.clone(), &maps.mlp);
        let rows = normalised_sum(rows, passed, scales(&block.mlp_norm), EPSILON);
        (rows, weights)
    }

    /// Output and state of a step.
    fn advance(&self, maps: &RmcMaps, input: RmcInput, state: RmcState) -> (CoreOutput, RmcState) {
        let RmcStep {
            memory,
            output,
            attention,
        } = self.update(input, state.memory, maps);
        checks::weights("rmc", "attention", &attention, true);
        let output = CoreOutput {
            output: output.flatten(1, 2),
            attention: vec![Attention::of_rows("read", &attention)],
        };
        (output, RmcState { memory })
    }
}

/// The MLP on rows `[rows, width]`: ReLU between layers, none after the last.
fn mlp(rows: Tensor<2>, layers: &[StepMap]) -> Tensor<2> {
    let (last, others) = layers.split_last().expect("the MLP has a layer");
    let hidden = others
        .iter()
        .fold(rows, |rows, layer| layer.forward(rows, Activation::Relu));
    last.forward(hidden, Activation::Identity)
}

impl RecurrentCore for Rmc {
    type State = RmcState;
    type Prepared = RmcMaps;

    fn input_size(&self) -> usize {
        self.rows * self.input.weight.shape()[0]
    }

    /// The width of all memories, concatenated.
    fn output_size(&self) -> usize {
        self.slots * self.width()
    }

    /// The identity matrix, padded with zeros or cut off to the width of a memory.
    fn initial_state(&self, batch: usize, device: &Device) -> RmcState {
        let (slots, width) = (self.slots, self.width());
        let mut identity = vec![0.0_f32; slots * width];
        for slot in 0..slots.min(width) {
            identity[slot * width + slot] = 1.0;
        }
        let identity = Tensor::<3>::from_data(TensorData::new(identity, [1, slots, width]), device);
        RmcState {
            memory: identity.expand([batch, slots, width]),
        }
    }

    fn prepare(&self) -> RmcMaps {
        let prepare = |map: &Linear| {
            let bias = map.bias.as_ref().expect("maps are made with a bias");
            StepMap::new(map.weight.val(), bias.val())
        };
        RmcMaps {
            qkv: self.blocks.iter().map(|b| prepare(&b.qkv)).collect(),
            mlp: self.mlp.iter().map(prepare).collect(),
            gate_memory: self.gate_memory.as_ref().map(prepare),
        }
    }

    fn step(
        &self,
        prepared: &RmcMaps,
        input: Tensor<2>,
        state: RmcState,
    ) -> (CoreOutput, RmcState) {
        let input = self.project(input.unsqueeze_dim(0)).pop();
        self.advance(prepared, input.expect("one step was projected"), state)
    }

    fn sequence(
        &self,
        inputs: Tensor<3>,
        resets: Option<&Tensor<2, Bool>>,
        state: RmcState,
    ) -> (Vec<CoreOutput>, RmcState) {
        let [time, batch, _] = inputs.dims();
        let (prepared, resets) = (self.prepare(), Resets::new(self, resets, [time, batch]));
        step_through(self.project(inputs), &resets, state, |input, state| {
            self.advance(&prepared, input, state)
        })
    }

    fn attention_words(&self) -> &'static str {
        "What each head takes from the slots and, in the last row, from the input, averaged over the slots that take \
         it, on one held-out sequence, one column per step."
    }

    /// Queries, keys and values of all rows, each head's weights over them, and the intermediate values of the
    /// memory's rows.
    fn kept(&self) -> Count {
        let width = self.width();
        let rows = self.slots + self.rows;
        let layers = self.mlp.len();
        let block = |(index, block): (usize, &AttentionBlock)| {
            let projected = Count::product(&[rows, block.qkv.weight.shape()[1]]);
            // The last block computes the memory's rows only.
            let asked = match index + 1 == self.blocks.len() {
                true => self.slots,
                false => rows,
            };
            let weights = Count::product(&[self.heads, asked, rows]);
            let passed = Count::product(&[asked, width]) * (4 + layers);
            projected + Count::product(&[rows, width]) + weights + passed + 6 * rows
        };
        let blocks: Count = self.blocks.iter().enumerate().map(block).sum();
        let gates = self.gate_memory.as_ref();
        let gates = gates.map_or(Count::NONE, |map| {
            let gates = map.weight.shape()[1];
            let third = if self.output_gate { 4 } else { 0 };
            Count::product(&[self.slots, (6 + third) * width + 2 * gates]) + 2 * gates
        });
        let memory = Count::product(&[2 * self.slots + 2 * self.rows, width]);
        memory + self.input_size() + blocks + gates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::{ModuleVisitor, Param};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn core(config: &RmcConfig) -> Rmc {
        let device = Device::default();
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device);
        config.init(&mut init).unwrap()
    }

    fn noise<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|i| (i as f32 * 1.7).sin() + (i as f32 * 0.31).cos());
        let data = TensorData::new(values.collect::<Vec<f32>>(), shape);
        Tensor::from_data(data, &Device::default())
    }

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_into_vec::<f32>().unwrap()
    }

    fn largest_difference<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
        (a - b).abs().max().into_scalar()
    }

    /// Names and sizes of all parameters.
    fn parameters(core: &Rmc) -> Vec<(String, usize)> {
        #[derive(Default)]
        struct Names(Vec<String>, Vec<(String, usize)>);
        impl ModuleVisitor for Names {
            fn enter_module(&mut self, name: &str, _: &str) {
                self.0.push(name.to_owned());
            }
            fn exit_module(&mut self, _: &str, _: &str) {
                self.0.pop();
            }
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.1
                    .push((self.0.join("."), param.shape().num_elements()));
            }
        }
        let mut names = Names::default();
        core.visit(&mut names);
        names.1
    }

    /// `in d + d + blocks (d p + p + 2 p + 4 d) + layers (d d + d) + (rows d + d) g + 2 g`, where `p` is the
    /// width of a row's projection and `g` the width of all gates.
    fn expected_parameters(config: &RmcConfig) -> usize {
        let d = config.heads * config.head_size;
        let p = config.heads * (2 * config.key_size + config.head_size);
        let count = if config.output_gate { 3 } else { 2 };
        let gates = match config.gates {
            GateStyle::Unit => count * d,
            GateStyle::Memory => count,
            GateStyle::None => 0,
        };
        (config.input + 1) * d
            + config.blocks * (d * p + 3 * p + 4 * d)
            + config.mlp_layers * (d * d + d)
            + ((config.rows + 1) * d + 2) * gates
    }

    #[test]
    fn parameters_are_those_of_the_formula() {
        let farthest = RmcConfig::new(40, 8, 8, 32);
        assert_eq!(expected_parameters(&farthest), 605_184);
        assert_eq!(core(&farthest).num_params(), 605_184);
        for gates in [GateStyle::Unit, GateStyle::Memory, GateStyle::None] {
            for (blocks, mlp_layers, rows, key_size) in [(1, 1, 1, 3), (2, 4, 1, 5), (3, 2, 4, 2)] {
                for output_gate in [false, true] {
                    if output_gate && gates == GateStyle::None {
                        continue;
                    }
                    let config = RmcConfig {
                        blocks,
                        mlp_layers,
                        rows,
                        key_size,
                        gates,
                        output_gate,
                        ..RmcConfig::new(7, 2, 3, 4)
                    };
                    let found = core(&config).num_params();
                    assert_eq!(found, expected_parameters(&config), "{config:?}");
                }
            }
        }
    }

    /// The biases added to gates are constants: the list contains every trainable parameter.
    #[test]
    fn nothing_else_is_trained() {
        let config = RmcConfig {
            forget_bias: 0.5,
            input_bias: -0.5,
            mlp_layers: 2,
            ..RmcConfig::new(3, 2, 2, 2)
        };
        let expected = [
            ("input.weight", 12),
            ("input.bias", 4),
            ("blocks.0.qkv.weight", 48),
            ("blocks.0.qkv.bias", 12),
            ("blocks.0.qkv_norm.gamma", 12),
            ("blocks.0.qkv_norm.beta", 12),
            ("blocks.0.attention_norm.gamma", 4),
            ("blocks.0.attention_norm.beta", 4),
            ("blocks.0.mlp_norm.gamma", 4),
            ("blocks.0.mlp_norm.beta", 4),
            ("mlp.0.weight", 16),
            ("mlp.0.bias", 4),
            ("mlp.1.weight", 16),
            ("mlp.1.bias", 4),
            ("gate_input.weight", 32),
            ("gate_input.bias", 8),
            ("gate_memory.weight", 32),
            ("gate_memory.bias", 8),
        ];
        let expected = expected.map(|(name, size)| (name.to_owned(), size));
        assert_eq!(parameters(&core(&config)), expected);
    }

    /// Each layer of the MLP matters, and so does its place: changing a layer changes the result, and so does
    /// exchanging two.
    #[test]
    fn layers_of_the_mlp_have_their_own_weights() {
        let config = RmcConfig {
            mlp_layers: 3,
            ..RmcConfig::new(3, 2, 2, 2)
        };
        let core = core(&config);
        let rows = noise([5, 4]);
        let of = |core: &Rmc, rows: Tensor<2>| mlp(rows, &core.prepare().mlp);
        let before = of(&core, rows.clone());
        for layer in 0..3 {
            let mut changed = core.clone();
            let weight = &mut changed.mlp[layer].weight;
            *weight = Param::from_tensor(weight.val() * 1.5);
            let change = largest_difference(before.clone(), of(&changed, rows.clone()));
            assert!(change > 1e-3, "layer {layer}: {change}");
        }
        let mut exchanged = core.clone();
        exchanged.mlp.swap(0, 2);
        assert!(largest_difference(before, of(&exchanged, rows)) > 1e-3);
    }

    #[test]
    fn the_mlp_may_end_below_zero() {
        for mlp_layers in [1, 2, 4] {
            let config = RmcConfig {
                mlp_layers,
                ..RmcConfig::new(3, 2, 2, 2)
            };
            let output = mlp(noise([50, 4]), &core(&config).prepare().mlp);
            let smallest: f32 = output.min().into_scalar();
            assert!(smallest < -0.01, "{mlp_layers} layers: {smallest}");
        }
    }

    /// Norms go over the features of each row separately: after the last one each row has mean zero and variance
    /// one, although the rows have very different sizes. With attention disabled, a row's result does not depend
    /// on the other rows.
    #[test]
    fn norms_go_row_by_row() {
        let config = RmcConfig {
            gates: GateStyle::None,
            ..RmcConfig::new(3, 3, 2, 8)
        };
        let mut core = core(&config);
        let sizes = Tensor::<1>::from_floats([0.1, 1.0, 30.0], &Device::default());
        let memory = noise([2, 3, 16]) * sizes.reshape([1, 3, 1]);
        let input = || core.project(noise([1, 2, 3])).remove(0);
        let rows = core.update(input(), memory.clone(), &core.prepare()).memory;
        for row in values(rows).chunks(16) {
            let mean = row.iter().sum::<f32>() / 16.0;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / 16.0;
            assert!(mean.abs() < 1e-5, "{mean}");
            assert!((variance - 1.0).abs() < 1e-3, "{variance}");
        }

        // Values of zero: nothing is read from other rows.
        let norm = &mut core.blocks[0].qkv_norm;
        norm.gamma = Param::from_tensor(norm.gamma.val() * 0.0);
        let input = || core.project(noise([1, 2, 3])).remove(0);
        let before = core.update(input(), memory.clone(), &core.prepare()).memory;
        let others = memory.clone().narrow(1, 1, 2) * 7.0 + 1.0;
        let changed = Tensor::cat(vec![memory.narrow(1, 0, 1), others], 1);
        let after = core.update(input(), changed, &core.prepare()).memory;
        let first = |memory: Tensor<3>| memory.narrow(1, 0, 1);
        assert!(largest_difference(first(before), first(after)) < 1e-6);
    }

    /// The norm of the projections goes over all heads together, not over each head.
    #[test]
    fn projections_are_normed_over_all_heads() {
        let core = core(&RmcConfig::new(3, 3, 2, 4));
        let projected = core.blocks[0].qkv.forward(noise([5, 8]));
        let normed = core.blocks[0].qkv_norm.forward(projected);
        for row in values(normed).chunks(24) {
            assert!(row.iter().sum::<f32>().abs() < 1e-4);
            let first_head = row[..12].iter().sum::<f32>();
            assert!(first_head.abs() > 1e-3, "{first_head}");
        }
    }

    #[test]
    fn memory_starts_as_the_identity_cut_or_padded() {
        for (slots, heads, head_size) in [(2, 1, 3), (4, 1, 3), (3, 3, 1)] {
            let core = core(&RmcConfig::new(3, slots, heads, head_size));
            let width = heads * head_size;
            let memory = values(core.initial_state(2, &Device::default()).memory);
            for (index, value) in memory.into_iter().enumerate() {
                let (slot, unit) = (index / width % slots, index % width);
                assert_eq!(value, f32::from(u8::from(slot == unit)));
            }
        }
    }

    /// The added biases are those of the configuration: a memory whose forget gates are open forgets nothing,
    /// whatever the input.
    #[test]
    fn added_biases_open_and_close_the_gates() {
        let config = RmcConfig {
            forget_bias: 60.0,
            input_bias: -60.0,
            ..RmcConfig::new(3, 3, 2, 2)
        };
        let core = core(&config);
        let state = core.initial_state(2, &Device::default());
        let (outputs, after) = core.sequence(noise([20, 2, 3]), None, state.clone());
        assert!(largest_difference(after.memory, state.memory) < 1e-6);
        assert_eq!(outputs.len(), 20);
    }

    #[test]
    fn weights_over_memories_and_inputs_sum_to_one() {
        let config = RmcConfig {
            rows: 2,
            blocks: 2,
            ..RmcConfig::new(3, 4, 2, 3)
        };
        let core = core(&config);
        let state = core.initial_state(5, &Device::default());
        let (output, _) = core.step(&core.prepare(), noise([5, 6]), state);
        assert_eq!(output.output.dims(), [5, 24]);
        let attention = &output.attention[0];
        assert_eq!(attention.by_row().unwrap().dims(), [5, 2, 4, 6]);
        let weights = attention.weights();
        assert_eq!(weights.dims(), [5, 2, 6]);
        for sum in values(weights.sum_dim(2)) {
            assert!((sum - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn sizes_that_make_no_core_are_refused_by_name() {
        let refuse = |change: fn(&mut RmcConfig)| {
            let mut config = RmcConfig::new(3, 2, 2, 2);
            change(&mut config);
            let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
            config.init(&mut init).unwrap_err().to_string()
        };
        let zero = |field: &str| format!("memory.rmc.{field} is 0, it must be at least 1");
        assert_eq!(refuse(|c| c.input = 0), zero("input"));
        assert_eq!(refuse(|c| c.rows = 0), zero("rows"));
        assert_eq!(refuse(|c| c.slots = 0), zero("slots"));
        assert_eq!(refuse(|c| c.heads = 0), zero("heads"));
        assert_eq!(refuse(|c| c.head_size = 0), zero("head_size"));
        assert_eq!(refuse(|c| c.key_size = 0), zero("key_size"));
        assert_eq!(refuse(|c| c.blocks = 0), zero("blocks"));
        assert_eq!(refuse(|c| c.mlp_layers = 0), zero("mlp_layers"));
        let message = refuse(|c| {
            c.gates = GateStyle::None;
            c.output_gate = true;
        });
        assert!(message.starts_with("memory.rmc.output_gate is true"));
    }
}
