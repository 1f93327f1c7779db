//! A recurrent core that predicts a class: it reads a sequence of inputs and gives logits of classes after the
//! last step.

use crate::{
    Footprint, ModelError,
    mlp::{Activation, Head},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, activation},
};
use mnemora_memory::{
    AnyCore, Attention, CoreConfig, CoreOutput, Count, Initializer, RecurrentCore,
};

/// Sizes of a [`Classifier`].
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierConfig {
    /// The core; its input width is that of the model.
    pub core: CoreConfig,
    /// Hidden layers of the head; 0 for a linear map.
    pub head_layers: usize,
    /// Units of each hidden layer.
    pub head_hidden: usize,
    /// Number of classes.
    pub classes: usize,
}

/// A recurrent core, and an MLP with ReLU units from its last output to the logits of the classes.
///
/// Santoro et al. 2018, section 4.1: four hidden layers of 256 units.
#[derive(Module, Debug)]
pub struct Classifier<C: Module> {
    /// The core.
    pub core: C,
    /// From the core's last output to the logits.
    pub head: Head,
}

/// The output of a [`Classifier`] for a batch of sequences.
#[derive(Clone, Debug)]
pub struct Classified {
    /// `[batch, classes]`
    pub logits: Tensor<2>,
    /// Attention of each step.
    pub attention: Vec<Vec<Attention>>,
}

impl ClassifierConfig {
    /// Builds the model with a core chosen at run time; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<Classifier<AnyCore>, ModelError> {
        ModelError::require_positive(&[
            ("head_hidden", self.head_hidden),
            ("classes", self.classes),
        ])?;
        let core = self.core.init(init)?;
        let sizes = [core.output_size(), self.classes];
        let (layers, units) = (self.head_layers, self.head_hidden);
        Ok(Classifier {
            head: Head::new(sizes, layers, units, Activation::Relu, init),
            core,
        })
    }
}

impl Classifier<AnyCore> {
    /// Memory that learning from sequences needs; `outside` is per step, although the head sees only the last one.
    pub fn footprint(&self, time: usize) -> Footprint {
        let classes = self.head.output.weight.shape()[1];
        let head = self.head.kept() + self.head.inputs() + 6 * classes;
        Footprint::of(
            Count::from(3 * self.core.input_size()) + head.divided_by(time),
            self.core.kept() + self.core.output_size(),
        )
    }
}

impl<C: RecurrentCore> Classifier<C> {
    /// The device it is on.
    pub fn device(&self) -> Device {
        self.head.output.weight.device()
    }

    /// Steps through `inputs`, `[time, batch, inputs]`, from the initial state, and classifies after the
    /// last.
    ///
    /// # Panics
    /// If `time` is 0, or the width of the inputs is not the core's.
    pub fn forward(&self, inputs: Tensor<3>) -> Classified {
        let [_, batch, _] = inputs.dims();
        let state = self.core.initial_state(batch, &inputs.device());
        let (steps, _) = self.core.sequence(inputs, None, state);
        let (mut outputs, attention): (Vec<_>, Vec<_>) = steps
            .into_iter()
            .map(|CoreOutput { output, attention }| (output, attention))
            .unzip();
        let last = outputs.pop().expect("a sequence has a step");
        Classified {
            logits: self.head.forward(last),
            attention,
        }
    }
}

impl Classified {
    /// `log p(target[b])` under the softmax of the logits, in nats, `[batch]`.
    ///
    /// `targets`, `[batch, classes]`: 1 for the right class, otherwise 0.
    pub fn log_likelihood(&self, targets: Tensor<2>) -> Tensor<1> {
        let log_probabilities = activation::log_softmax(self.logits.clone(), 1);
        (log_probabilities * targets).sum_dim(1).squeeze_dim(1)
    }

    /// 1 where no class is more probable than the right one, otherwise 0, `[batch]`.
    ///
    /// `targets` as for [`log_likelihood`](Self::log_likelihood).
    pub fn right(&self, targets: Tensor<2>) -> Tensor<1> {
        let logits = self.logits.clone();
        let right = (logits.clone() * targets).sum_dim(1);
        let most = logits.max_dim(1);
        right.greater_equal(most).float().squeeze_dim(1)
    }

    /// Probabilities of the classes, `[batch, classes]`.
    pub fn probabilities(&self) -> Tensor<2> {
        activation::softmax(self.logits.clone(), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;
    use mnemora_memory::LstmConfig;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn config() -> ClassifierConfig {
        ClassifierConfig {
            core: CoreConfig::Lstm(LstmConfig {
                input: 3,
                hidden: 4,
            }),
            head_layers: 2,
            head_hidden: 5,
            classes: 3,
        }
    }

    #[test]
    fn the_likelihood_is_that_of_a_softmax() {
        let device = Device::default();
        let logits = [[2.0_f64, -1.0, 0.5], [0.0, 3.0, 1.0]];
        let said = Classified {
            logits: Tensor::from_floats(logits.map(|row| row.map(|x| x as f32)), &device),
            attention: Vec::new(),
        };
        let targets = Tensor::from_floats([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], &device);
        let expected = [(0, 0), (1, 2)].map(|(row, class)| {
            let sum: f64 = logits[row].iter().map(|x: &f64| x.exp()).sum();
            logits[row][class] - sum.ln()
        });
        let found = values(said.log_likelihood(targets.clone()));
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (f64::from(*found) - expected).abs() < 1e-5,
                "{found} {expected}"
            );
        }
        assert_eq!(values(said.right(targets)), [1.0, 0.0]);
        let sums = values(said.probabilities().sum_dim(1));
        assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-6), "{sums:?}");
    }

    /// The logits are the head's output for the last step.
    #[test]
    fn the_answer_comes_from_the_last_output() {
        let device = Device::default();
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
        let model = config().init(&mut init).unwrap();
        let inputs: Vec<f32> = (0..4 * 2 * 3).map(|i| (i as f32).sin()).collect();
        let inputs = Tensor::<1>::from_floats(inputs.as_slice(), &device).reshape([4, 2, 3]);
        let said = model.forward(inputs.clone());
        assert_eq!(said.logits.dims(), [2, 3]);
        assert_eq!(said.attention.len(), 4);
        let prepared = model.core.prepare();
        let mut state = model.core.initial_state(2, &device);
        let mut last = None;
        for step in 0..4 {
            let input = inputs.clone().narrow(0, step, 1).squeeze_dim(0);
            let (output, next) = model.core.step(&prepared, input, state);
            (state, last) = (next, Some(output.output));
        }
        let alone = values(model.head.forward(last.unwrap()));
        let found = values(said.logits);
        assert!(alone.iter().zip(&found).all(|(a, b)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn sizes_of_zero_are_refused() {
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let config = ClassifierConfig {
            head_hidden: 0,
            ..config()
        };
        let message = config.init(&mut init).unwrap_err().to_string();
        assert_eq!(message, "model.head_hidden is 0, it must be at least 1");
    }
}
