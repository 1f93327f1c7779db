//! An LSTM whose state is an image and whose maps are convolutions.

use crate::{
    CoreOutput, Count, Initializer, MemoryError, RecurrentCore,
    error::require_positive,
    recurrent::{Resets, step_through},
};
use burn::{
    module::{Module, Param},
    tensor::{Bool, Device, Tensor},
};
use mnemora_kernels::{
    conv::conv2d_same, lstm::lstm_gates, split::split_rows, step_conv::StepConv,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of a [`ConvLstm`]. The defaults are those of Santoro et al. 2018, appendix A.3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConvLstmConfig {
    /// Channels of the input; the model decides.
    #[serde(skip)]
    pub inputs: usize,
    /// Channels of the state.
    pub channels: usize,
    /// Rows of the image; the model decides.
    #[serde(skip)]
    pub height: usize,
    /// Columns of the image; the model decides.
    #[serde(skip)]
    pub width: usize,
    /// Rows and columns of a kernel.
    pub kernel: usize,
}

impl Default for ConvLstmConfig {
    fn default() -> Self {
        Self {
            inputs: 1,
            channels: 64,
            height: 1,
            width: 1,
            kernel: 2,
        }
    }
}

/// A convolutional LSTM, gates in the order `i, f, g, o`. Convolutions keep the size of the image: it is padded
/// with zeros, and for an even kernel with one more row at the bottom and one more column at the right.
///
/// Shi et al. 2015, without peepholes; a baseline of Santoro et al. 2018, appendix A.3. Inputs and outputs are
/// flattened images, `[batch, channels * height * width]`.
///
/// The model that owns the core says how many rows and columns its maps have. Values and gradients are tested against
/// golden vectors of the NumPy reference `reference/conv_lstm.py`, with an even and an odd kernel
/// (`tests/golden/cores.rs`).
#[derive(Module, Debug)]
pub struct ConvLstm {
    /// `[4 * channels, inputs, kernel, kernel]`
    pub weight_input: Param<Tensor<4>>,
    /// `[4 * channels, channels, kernel, kernel]`
    pub weight_hidden: Param<Tensor<4>>,
    /// `[4 * channels]`
    pub bias: Param<Tensor<1>>,
    height: usize,
    width: usize,
}

/// State of a [`ConvLstm`], both tensors `[batch, channels, height, width]`.
#[derive(Clone, Debug)]
pub struct ConvLstmState {
    /// `h`
    pub hidden: Tensor<4>,
    /// `c`
    pub cell: Tensor<4>,
}

crate::bundle!(ConvLstmState { hidden, cell });

impl ConvLstmConfig {
    /// The settings for maps of one pixel with `input` channels; a model whose maps have more sets their sizes.
    ///
    /// # Errors
    /// Never; the signature is that of every `fit`.
    pub fn fit(&self, input: usize, _time: usize) -> Result<Self, MemoryError> {
        Ok(Self {
            inputs: input,
            height: 1,
            width: 1,
            ..self.clone()
        })
    }

    /// Builds the core. A size of zero is an error.
    ///
    /// Weights are uniform within `1 / sqrt(channels * kernel^2)`. Biases are zero, and 1 for the forget gates.
    pub fn init(&self, init: &mut Initializer) -> Result<ConvLstm, MemoryError> {
        let (channels, kernel) = (self.channels, self.kernel);
        require_positive(
            "conv_lstm",
            &[
                ("inputs", self.inputs),
                ("channels", channels),
                ("height", self.height),
                ("width", self.width),
                ("kernel", kernel),
            ],
        )?;
        let bound = 1.0 / ((channels * kernel * kernel) as f64).sqrt();
        Ok(ConvLstm {
            weight_input: init.uniform([4 * channels, self.inputs, kernel, kernel], bound),
            weight_hidden: init.uniform([4 * channels, channels, kernel, kernel], bound),
            bias: init.parameter([4 * channels], |_| {
                let mut bias = vec![0.0; 4 * channels];
                bias[channels..2 * channels].fill(1.0);
                bias
            }),
            height: self.height,
            width: self.width,
        })
    }
}

impl ConvLstm {
    fn channels(&self) -> usize {
        self.weight_hidden.shape()[1]
    }

    /// The part of the gates that comes from the input, `[batch, 4 * channels, height, width]`, for every step
    /// of `[time, batch, inputs * height * width]`.
    fn project(&self, inputs: Tensor<3>) -> Vec<Tensor<4>> {
        let [time, batch, _] = inputs.dims();
        let channels = self.weight_input.shape()[1];
        let images = inputs.reshape([time * batch, channels, self.height, self.width]);
        let (weight, bias) = (self.weight_input.val(), self.bias.val());
        let gates = conv2d_same(images, weight, bias);
        let shape = [batch, 4 * self.channels(), self.height, self.width];
        let steps = split_rows(gates.flatten::<2>(1, 3), time).into_iter();
        steps.map(|gates| gates.reshape(shape)).collect()
    }

    fn advance(
        &self,
        of_hidden: &StepConv,
        from_input: Tensor<4>,
        state: ConvLstmState,
    ) -> (CoreOutput, ConvLstmState) {
        let gates = from_input + of_hidden.forward(state.hidden);
        let shape = state.cell.dims();
        let (hidden, cell) = lstm_gates(gates.flatten(1, 3), state.cell.flatten(1, 3));
        let (hidden, cell) = (hidden.reshape(shape), cell.reshape(shape));
        let output = CoreOutput {
            output: hidden.clone().flatten(1, 3),
            attention: Vec::new(),
        };
        (output, ConvLstmState { hidden, cell })
    }
}

impl RecurrentCore for ConvLstm {
    type State = ConvLstmState;
    type Prepared = StepConv;

    fn input_size(&self) -> usize {
        self.weight_input.shape()[1] * self.height * self.width
    }

    fn output_size(&self) -> usize {
        self.channels() * self.height * self.width
    }

    fn initial_state(&self, batch: usize, device: &Device) -> ConvLstmState {
        let zeros = Tensor::zeros([batch, self.channels(), self.height, self.width], device);
        ConvLstmState {
            hidden: zeros.clone(),
            cell: zeros,
        }
    }

    fn prepare(&self) -> StepConv {
        StepConv::new(self.weight_hidden.val())
    }

    fn step(
        &self,
        prepared: &StepConv,
        input: Tensor<2>,
        state: ConvLstmState,
    ) -> (CoreOutput, ConvLstmState) {
        let from_input = self.project(input.unsqueeze_dim(0)).pop();
        let from_input = from_input.expect("one step was projected");
        self.advance(prepared, from_input, state)
    }

    fn sequence(
        &self,
        inputs: Tensor<3>,
        resets: Option<&Tensor<2, Bool>>,
        state: ConvLstmState,
    ) -> (Vec<CoreOutput>, ConvLstmState) {
        let [time, batch, _] = inputs.dims();
        let resets = Resets::new(self, resets, [time, batch]);
        let prepared = self.prepare();
        step_through(self.project(inputs), &resets, state, |from_input, state| {
            self.advance(&prepared, from_input, state)
        })
    }

    fn kept(&self) -> Count {
        let map = Count::product(&[self.height, self.width]);
        map * Count::from(self.channels()) * 24 + RecurrentCore::input_size(self)
    }
}
