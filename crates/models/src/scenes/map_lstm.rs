//! A convolutional LSTM whose input has a part that is the same at all steps.

use crate::visual::unit_bound;
use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use mnemora_kernels::{
    conv::conv2d_same, lstm::lstm_gates, split::split_channels, step_conv::StepConv,
};
use mnemora_memory::{Count, Initializer};
use std::ops::Range;

/// Channels of the state and of the input of a [`MapLstm`].
#[derive(Clone, Copy, Debug)]
pub(super) struct MapSizes {
    /// Of the state.
    pub(super) hidden: usize,
    /// Of the part of the input that is the same at all steps.
    pub(super) given: usize,
    /// Of the part of the input that changes.
    pub(super) inputs: usize,
}

/// A convolutional LSTM (Shi et al. 2015, without peepholes) on `[h; given; input]`, gates in the order `i, f, g, o`.
///
/// Convolutions are linear, so what is the same at all steps is convolved once.
#[derive(Module, Debug)]
pub struct MapLstm {
    /// `[4 * hidden, hidden + given + inputs, k, k]`
    pub weight: Param<Tensor<4>>,
    /// `[4 * hidden]`
    pub bias: Param<Tensor<1>>,
    given: usize,
}

/// The weights of a [`MapLstm`], cut into those of its inputs, for all steps of a pass.
pub(super) struct Cut {
    /// Of `[h; input]`.
    moving: Tensor<4>,
    /// The same for all steps but those without a part of it.
    steps: StepConv,
    /// None if no input is the same at all steps.
    given: Option<Tensor<4>>,
    bias: Tensor<1>,
    no_bias: Tensor<1>,
    hidden: usize,
}

/// The state of a [`MapLstm`].
#[derive(Clone, Debug)]
pub struct MapState {
    /// `[rows, hidden, height, width]`
    pub hidden: Tensor<4>,
    /// `[rows, hidden, height, width]`
    pub cell: Tensor<4>,
}

impl MapLstm {
    /// Weights of variance `1 / n` for n products in a gate; biases are zero, and 1 for the forget gates.
    pub(super) fn new(sizes: MapSizes, kernel: usize, init: &mut Initializer) -> Self {
        let MapSizes {
            hidden,
            given,
            inputs,
        } = sizes;
        let channels = hidden + given + inputs;
        let bound = unit_bound((channels * kernel * kernel) as f64);
        Self {
            weight: init.uniform([4 * hidden, channels, kernel, kernel], bound),
            bias: init.parameter([4 * hidden], |_| {
                let mut bias = vec![0.0; 4 * hidden];
                bias[hidden..2 * hidden].fill(1.0);
                bias
            }),
            given,
        }
    }

    pub(super) fn hidden(&self) -> usize {
        self.bias.shape()[0] / 4
    }

    /// Numbers kept for a step of a row, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let [gates, channels, _, _] = self.weight.dims();
        Count::product(&[gates + gates / 4 * 7 + channels, pixels])
    }

    pub(super) fn cut(&self) -> Cut {
        let weight = self.weight.val();
        let [_, channels, _, _] = weight.dims();
        let (hidden, given) = (self.hidden(), self.given);
        let of_moving = [0..hidden, hidden + given..channels];
        let of_moving = of_moving.into_iter().filter(|range| !range.is_empty());
        let mut parts = vec![of_moving.collect()];
        if given > 0 {
            parts.push(vec![Range {
                start: hidden,
                end: hidden + given,
            }]);
        }
        let mut parts = split_channels(weight.clone(), &parts).into_iter();
        let moving = parts.next().expect("a state moves");
        Cut {
            steps: StepConv::new(moving.clone()),
            moving,
            given: parts.next(),
            bias: self.bias.val(),
            no_bias: Tensor::zeros([4 * hidden], &weight.device()),
            hidden,
        }
    }
}

impl Cut {
    /// The part of the gates that is the same at all steps, with the biases: `[rows, 4 * hidden, ..]`. Without a given
    /// part only the size of `maps` counts.
    pub(super) fn given(&self, maps: Tensor<4>) -> Tensor<4> {
        match &self.given {
            Some(weight) => conv2d_same(maps, weight.clone(), self.bias.clone()),
            None => {
                let [rows, _, height, width] = maps.dims();
                let gates = self.bias.dims()[0];
                let bias = self.bias.clone().reshape([1, gates, 1, 1]);
                bias.expand([rows, gates, height, width])
            }
        }
    }

    /// A step. `given` are the gates' parts that do not depend on `inputs` and state.
    ///
    /// What is zero is not convolved: the state before the first step (none), and inputs that stand before `inputs`.
    pub(super) fn step(
        &self,
        given: Tensor<4>,
        inputs: Vec<Tensor<4>>,
        state: Option<MapState>,
    ) -> MapState {
        let [rows, _, height, width] = given.dims();
        let shape = [rows, self.hidden, height, width];
        let (hidden, cell) = match state {
            Some(MapState { hidden, cell }) => (Some(hidden), cell),
            None => (None, Tensor::zeros(shape, &given.device())),
        };
        let moving: Vec<_> = hidden.into_iter().chain(inputs).collect();
        let gates = match moving.is_empty() {
            true => given,
            false => {
                let moving = Tensor::cat(moving, 1);
                let ([_, all, _, _], [_, count, _, _]) = (self.moving.dims(), moving.dims());
                let convolved = match count == all {
                    true => self.steps.forward(moving),
                    false => {
                        let last = std::iter::once(all - count..all).collect();
                        let weight = split_channels(self.moving.clone(), &[last]).remove(0);
                        conv2d_same(moving, weight, self.no_bias.clone())
                    }
                };
                given + convolved
            }
        };
        let (hidden, cell) = lstm_gates(gates.flatten(1, 3), cell.flatten(1, 3));
        MapState {
            hidden: hidden.reshape(shape),
            cell: cell.reshape(shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers;
    use burn::tensor::{
        Device, Gradients,
        activation::{sigmoid, tanh},
        module::conv2d as burn_conv2d,
        ops::ConvOptions,
    };
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const STEPS: usize = 2;

    /// The equations as they stand: one convolution of `[h; given; input]`, then the gates one by one.
    fn plain_step(
        lstm: &MapLstm,
        given: &Option<Tensor<4>>,
        input: &Option<Tensor<4>>,
        state: MapState,
    ) -> MapState {
        let weight = lstm.weight.val();
        let half = weight.dims()[2] / 2;
        let all = [Some(state.hidden), given.clone(), input.clone()];
        let gates = burn_conv2d(
            Tensor::cat(all.into_iter().flatten().collect(), 1),
            weight,
            Some(lstm.bias.val()),
            ConvOptions::new([1; 2], [half; 2], [1; 2], 1),
        );
        let hidden = lstm.hidden();
        let gate = |place: usize| gates.clone().narrow(1, place * hidden, hidden);
        let cell = sigmoid(gate(1)) * state.cell + sigmoid(gate(0)) * tanh(gate(2));
        MapState {
            hidden: sigmoid(gate(3)) * tanh(cell.clone()),
            cell,
        }
    }

    /// The arguments of some steps.
    struct Arguments {
        lstm: MapLstm,
        state: MapState,
        given: Option<Tensor<4>>,
        inputs: Vec<Option<Tensor<4>>>,
    }

    impl Arguments {
        fn new(sizes: MapSizes, kernel: usize, [rows, height, width]: [usize; 3]) -> Self {
            let device = Device::default().autodiff();
            let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
            let lstm = MapLstm::new(sizes, kernel, &mut init);
            let maps = |channels, phase| {
                numbers([rows, channels, height, width], phase, &device).require_grad()
            };
            let some = |channels, phase| (channels > 0).then(|| maps(channels, phase));
            Self {
                lstm,
                state: MapState {
                    hidden: maps(sizes.hidden, 0.1),
                    cell: maps(sizes.hidden, 0.2),
                },
                given: some(sizes.given, 0.3),
                inputs: (0..STEPS)
                    .map(|step| some(sizes.inputs, 0.4 + step as f32))
                    .collect(),
            }
        }

        fn fused(&self) -> Vec<Tensor<4>> {
            let cut = self.lstm.cut();
            let like = self.given.as_ref().unwrap_or(&self.state.hidden);
            let given = cut.given(like.clone());
            let mut state = self.state.clone();
            let mut all = Vec::new();
            for input in &self.inputs {
                let inputs = input.iter().cloned().collect();
                state = cut.step(given.clone(), inputs, Some(state));
                all.extend([state.hidden.clone(), state.cell.clone()]);
            }
            all
        }

        fn plain(&self) -> Vec<Tensor<4>> {
            let mut state = self.state.clone();
            let mut all = Vec::new();
            for input in &self.inputs {
                state = plain_step(&self.lstm, &self.given, input, state);
                all.extend([state.hidden.clone(), state.cell.clone()]);
            }
            all
        }

        /// Gradients of a sum in which every output counts differently.
        fn gradients(&self, outputs: &[Tensor<4>]) -> Vec<Vec<f32>> {
            let terms = outputs.iter().enumerate().map(|(place, output)| {
                let probe = numbers(output.dims(), place as f32, &output.device());
                (output.clone() * probe).sum()
            });
            let sum = terms.reduce(|sum, term| sum + term).unwrap();
            let gradients = sum.backward();
            fn of<const D: usize>(tensor: &Tensor<D>, gradients: &Gradients) -> Vec<f32> {
                let found = tensor.grad(gradients).unwrap().into_data();
                found.try_into_vec().unwrap()
            }
            let mut found = vec![
                of(&self.lstm.weight.val(), &gradients),
                of(&self.lstm.bias.val(), &gradients),
            ];
            let maps = self.given.iter().chain(self.inputs.iter().flatten());
            let maps = [&self.state.hidden, &self.state.cell]
                .into_iter()
                .chain(maps);
            found.extend(maps.map(|maps| of(maps, &gradients)));
            found
        }
    }

    fn assert_close(found: &[f32], expected: &[f32], what: &str) {
        assert_eq!(found.len(), expected.len(), "{what}");
        let scale = expected.iter().fold(1.0_f32, |most, e| most.max(e.abs()));
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                (found - expected).abs() <= 2e-5 * scale,
                "{what}, {place}: {found}, expected {expected}"
            );
        }
    }

    /// What is not convolved because it is zero: the state, and the first channels of the input.
    #[test]
    fn a_first_step_starts_from_zeros() {
        let sizes = MapSizes {
            hidden: 3,
            given: 2,
            inputs: 5,
        };
        let Arguments {
            lstm,
            state,
            given,
            inputs,
        } = Arguments::new(sizes, 3, [2, 4, 5]);
        let zeros = state.hidden.zeros_like();
        let zero = MapState {
            hidden: zeros.clone(),
            cell: zeros,
        };
        let cut = lstm.cut();
        let of_given = cut.given(given.clone().unwrap());
        let input = inputs[0].clone().unwrap();
        let nothing = input.zeros_like();
        let late = input.clone().narrow(1, 2, 3);
        let early = nothing.clone().narrow(1, 0, 2);
        for (inputs, input) in [
            (vec![input.clone()], input),
            (vec![late.clone()], Tensor::cat(vec![early, late], 1)),
            (vec![], nothing),
        ] {
            let found = cut.step(of_given.clone(), inputs, None);
            let expected = plain_step(&lstm, &given, &Some(input), zero.clone());
            for (found, expected) in [(found.hidden, expected.hidden), (found.cell, expected.cell)]
            {
                let [found, expected] =
                    [found, expected].map(|maps| maps.into_data().try_into_vec::<f32>().unwrap());
                assert_close(&found, &expected, "a first step");
            }
        }
    }

    /// The given part convolved once, and the gates in one operation, are the equations of Shi et al.: values of two
    /// steps, and gradients of weights, biases and all that goes in.
    #[test]
    fn steps_agree_with_the_plain_composition() {
        for maps in [[2, 1, 1], [1, 3, 5], [3, 7, 4], [2, 8, 8]] {
            for kernel in [1, 3, 5] {
                for [hidden, given, inputs] in [
                    [3, 2, 4],
                    [1, 1, 1],
                    [2, 0, 3],
                    [4, 3, 0],
                    [2, 0, 0],
                    [9, 17, 8],
                ] {
                    let sizes = MapSizes {
                        hidden,
                        given,
                        inputs,
                    };
                    let what = format!("{maps:?}, kernel {kernel}, {sizes:?}");
                    let arguments = Arguments::new(sizes, kernel, maps);
                    let (found, expected) = (arguments.fused(), arguments.plain());
                    for (found, expected) in found.iter().zip(&expected) {
                        let [found, expected] = [found, expected]
                            .map(|maps| maps.clone().into_data().try_into_vec::<f32>().unwrap());
                        assert_close(&found, &expected, &what);
                    }
                    let found = arguments.gradients(&found);
                    let expected = arguments.gradients(&expected);
                    assert_eq!(found.len(), expected.len());
                    for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
                        assert_close(found, expected, &format!("{what}, gradient {place}"));
                    }
                }
            }
        }
    }
}
