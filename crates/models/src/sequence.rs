//! A recurrent core that outputs bits: it reads a sequence of inputs and gives one row of logits per step.

use crate::{Footprint, ModelError};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};
use mnemora_kernels::bernoulli;
use mnemora_memory::{
    AnyCore, Attention, CoreConfig, CoreOutput, Count, Initializer, RecurrentCore,
};

/// Sizes of a [`SequenceModel`].
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceConfig {
    /// The core; its input width is that of the model.
    pub core: CoreConfig,
    /// Number of logits at each step.
    pub outputs: usize,
}

/// A recurrent core and a linear map from its output to the logits of independent bits.
#[derive(Module, Debug)]
pub struct SequenceModel<C: Module> {
    /// The core.
    pub core: C,
    /// From the core's output to the logits.
    pub output: Linear,
}

/// The output of a [`SequenceModel`] for a batch of sequences.
#[derive(Clone, Debug)]
pub struct Answers {
    /// `[time, batch, outputs]`
    pub logits: Tensor<3>,
    /// Attention of each step.
    pub attention: Vec<Vec<Attention>>,
}

impl SequenceConfig {
    /// Builds the model with a core chosen at run time.
    pub fn init(&self, init: &mut Initializer) -> Result<SequenceModel<AnyCore>, ModelError> {
        let core = self.core.init(init)?;
        Ok(SequenceModel::new(core, self.outputs, init))
    }
}

impl SequenceModel<AnyCore> {
    /// Memory that learning from sequences needs.
    pub fn footprint(&self) -> Footprint {
        let [width, outputs] = self.output.weight.dims();
        // Inputs, targets and the mask.
        let given = self.core.input_size() + outputs + 1;
        Footprint::of(
            Count::from(2 * given) + width + 4 * outputs,
            self.core.kept() + 2 * width,
        )
    }
}

impl<C: RecurrentCore> SequenceModel<C> {
    /// A model around any core.
    pub fn new(core: C, outputs: usize, init: &mut Initializer) -> Self {
        let output = init.linear(core.output_size(), outputs);
        Self { core, output }
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        self.output.weight.device()
    }

    /// Steps through `inputs`, `[time, batch, inputs]`, from the initial state.
    ///
    /// # Panics
    /// If `time` is 0, or the width of the inputs is not the core's.
    pub fn forward(&self, inputs: Tensor<3>) -> Answers {
        let [time, batch, _] = inputs.dims();
        let state = self.core.initial_state(batch, &inputs.device());
        let (steps, _) = self.core.sequence(inputs, None, state);
        let (outputs, attention) = steps
            .into_iter()
            .map(|CoreOutput { output, attention }| (output, attention))
            .unzip();
        let logits = self.output.forward(Tensor::cat(outputs, 0));
        let width = logits.dims()[1];
        Answers {
            logits: logits.reshape([time, batch, width]),
            attention,
        }
    }
}

impl Answers {
    /// `sum_t mask[t, b] sum_k log p(target[t, b, k])` with independent Bernoulli bits, in nats,
    /// `[batch]`.
    ///
    /// # Shapes
    /// - `targets`: `[time, batch, outputs]`, each 0 or 1
    /// - `mask`: `[time, batch]`, 1 where the answer counts, otherwise 0
    pub fn log_likelihood(&self, targets: Tensor<3>, mask: Tensor<2>) -> Tensor<1> {
        let [time, batch, outputs] = targets.dims();
        let rows = |tensor: Tensor<3>| tensor.reshape([time * batch, outputs]);
        let steps = bernoulli::log_likelihood(rows(targets), rows(self.logits.clone()));
        (steps.reshape([time, batch]) * mask)
            .sum_dim(0)
            .squeeze_dim(0)
    }

    /// Number of wrong bits among those that count, with a threshold of 1/2, `[batch]`.
    ///
    /// Shapes as for [`log_likelihood`](Self::log_likelihood).
    pub fn wrong_bits(&self, targets: Tensor<3>, mask: Tensor<2>) -> Tensor<1> {
        let read = self.logits.clone().greater_scalar(0.0).float();
        let wrong = (read - targets).abs().sum_dim(2).squeeze_dim::<2>(2);
        (wrong * mask).sum_dim(0).squeeze_dim(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;
    use mnemora_memory::LstmConfig;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    /// Two sequences of two steps and two bits; the second sequence answers at its last step only.
    fn answers(device: &Device) -> (Answers, Tensor<3>, Tensor<2>) {
        let answers = Answers {
            logits: Tensor::from_floats(
                [[[2.0, -1.0], [9.0, 9.0]], [[0.5, 3.0], [-4.0, 1.0]]],
                device,
            ),
            attention: Vec::new(),
        };
        let targets = [[[1.0, 1.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]];
        let mask = [[1.0, 0.0], [1.0, 1.0]];
        (
            answers,
            Tensor::from_floats(targets, device),
            Tensor::from_floats(mask, device),
        )
    }

    #[test]
    fn the_likelihood_is_that_of_independent_bits_under_the_mask() {
        let (answers, targets, mask) = answers(&Device::default());
        let one = |logit: f64| -(1.0 + (-logit).exp()).ln();
        let zero = |logit: f64| one(-logit);
        let expected = [
            one(2.0) + one(-1.0) + zero(0.5) + one(3.0),
            zero(-4.0) + zero(1.0),
        ];
        let found = values(answers.log_likelihood(targets, mask));
        assert_eq!(found.len(), 2);
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (f64::from(*found) - expected).abs() < 1e-5,
                "{found} {expected}"
            );
        }
    }

    #[test]
    fn wrong_bits_are_counted_under_the_mask() {
        let (answers, targets, mask) = answers(&Device::default());
        assert_eq!(values(answers.wrong_bits(targets, mask)), [2.0, 1.0]);
    }

    /// Steps outside the mask have no gradient.
    #[test]
    fn the_mask_cuts_the_gradient() {
        let device = Device::default().autodiff();
        let (answers, targets, mask) = answers(&device);
        let logits = answers.logits.require_grad();
        let answers = Answers {
            logits: logits.clone(),
            ..answers
        };
        let gradients = answers.log_likelihood(targets, mask).sum().backward();
        let gradient = values(logits.grad(&gradients).unwrap());
        assert_eq!(gradient[2..4], [0.0, 0.0]);
        assert!(
            gradient[..2]
                .iter()
                .chain(&gradient[4..])
                .all(|g| *g != 0.0)
        );
    }

    /// The output map, applied once to all steps, gives the same result as step by step.
    #[test]
    fn steps_are_those_of_the_core() {
        let device = Device::default();
        let config = SequenceConfig {
            core: CoreConfig::Lstm(LstmConfig {
                input: 3,
                hidden: 4,
            }),
            outputs: 2,
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
        let model = config.init(&mut init).unwrap();
        let inputs: Vec<f32> = (0..2 * 5 * 3).map(|i| (i as f32).sin()).collect();
        let inputs = Tensor::<1>::from_floats(inputs.as_slice(), &device).reshape([2, 5, 3]);
        let answers = model.forward(inputs.clone());
        assert_eq!(answers.logits.dims(), [2, 5, 2]);
        assert!(answers.attention.iter().all(Vec::is_empty));
        let prepared = model.core.prepare();
        let mut state = model.core.initial_state(5, &device);
        for step in 0..2 {
            let input = inputs.clone().narrow(0, step, 1).squeeze_dim(0);
            let (output, next) = model.core.step(&prepared, input, state);
            state = next;
            let alone = values(model.output.forward(output.output));
            let among = values(answers.logits.clone().narrow(0, step, 1));
            assert!(alone.iter().zip(&among).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    }
}
