//! A core without memory: a layer of units.

use crate::{
    CoreOutput, Count, Initializer, MemoryError, RecurrentCore, TensorMapper, bundle::Bundle,
    error::require_positive,
};
use burn::{
    module::{Module, Param},
    tensor::{Bool, Device, Tensor, activation::relu},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a [`Memoryless`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemorylessConfig {
    /// Width of the input; the model decides.
    #[serde(skip)]
    pub input: usize,
    /// Units.
    pub hidden: usize,
}

impl Default for MemorylessConfig {
    fn default() -> Self {
        Self {
            input: 1,
            hidden: 128,
        }
    }
}

/// `relu(W x + b)`, with no state: what a memory is compared with.
#[derive(Module, Debug)]
pub struct Memoryless {
    /// `[input, hidden]`
    pub weight: Param<Tensor<2>>,
    /// `[hidden]`
    pub bias: Param<Tensor<1>>,
}

/// The state of a core that remembers nothing.
#[derive(Clone, Debug)]
pub struct Stateless;

impl Bundle for Stateless {
    fn map_tensors(self, _: &mut impl TensorMapper) -> Self {
        self
    }
}

impl MemorylessConfig {
    /// The settings for inputs of this width.
    ///
    /// # Errors
    /// Never; the signature is that of every `fit`.
    pub fn fit(&self, input: usize, _time: usize) -> Result<Self, MemoryError> {
        Ok(Self {
            input,
            ..self.clone()
        })
    }

    /// Builds the core. A size of zero is an error. Weights are uniform within `1 / sqrt(input)`, biases are zero.
    pub fn init(&self, init: &mut Initializer) -> Result<Memoryless, MemoryError> {
        let sizes = [("input", self.input), ("hidden", self.hidden)];
        require_positive("none", &sizes)?;
        let bound = 1.0 / (self.input as f64).sqrt();
        Ok(Memoryless {
            weight: init.uniform([self.input, self.hidden], bound),
            bias: init.parameter([self.hidden], |_| vec![0.0; self.hidden]),
        })
    }
}

impl RecurrentCore for Memoryless {
    type State = Stateless;
    type Prepared = ();

    fn input_size(&self) -> usize {
        self.weight.shape()[0]
    }

    fn output_size(&self) -> usize {
        self.weight.shape()[1]
    }

    fn kept(&self) -> Count {
        Count::from(self.output_size() * 2) + self.input_size()
    }

    fn initial_state(&self, _: usize, _: &Device) -> Stateless {
        Stateless
    }

    fn prepare(&self) {}

    fn step(&self, _: &(), input: Tensor<2>, state: Stateless) -> (CoreOutput, Stateless) {
        let output = relu(input.matmul(self.weight.val()) + self.bias.val().unsqueeze());
        (CoreOutput::plain(output), state)
    }

    /// One product for all steps.
    fn sequence(
        &self,
        inputs: Tensor<3>,
        _: Option<&Tensor<2, Bool>>,
        state: Stateless,
    ) -> (Vec<CoreOutput>, Stateless) {
        let [time, batch, width] = inputs.dims();
        let (all, state) = self.step(&(), inputs.reshape([time * batch, width]), state);
        let steps = all.output.chunk(time, 0).into_iter();
        (steps.map(CoreOutput::plain).collect(), state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{TensorData, Tolerance};
    use rand::{RngExt, SeedableRng, distr::StandardUniform};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn steps_do_not_depend_on_each_other() {
        let device = Device::default();
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
        let config = MemorylessConfig {
            input: 3,
            hidden: 4,
        };
        let core = config.init(&mut init).unwrap();
        let values = ChaCha8Rng::seed_from_u64(2).sample_iter(StandardUniform);
        let values: Vec<f32> = values.take(5 * 2 * 3).collect();
        let inputs = Tensor::<3>::from_data(TensorData::new(values, [5, 2, 3]), &device);
        let (outputs, _) = core.sequence(inputs.clone(), None, Stateless);
        assert_eq!(outputs.len(), 5);
        for (t, output) in outputs.into_iter().enumerate() {
            let input = inputs.clone().narrow(0, t, 1).squeeze_dim(0);
            let (alone, _) = core.step(&(), input, core.initial_state(2, &device));
            let (found, alone) = (output.output.into_data(), alone.output.into_data());
            found.assert_approx_eq::<f32>(&alone, Tolerance::absolute(1e-6));
        }
    }
}
