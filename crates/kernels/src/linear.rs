//! Affine maps followed by a nonlinearity.

use burn::tensor::{Tensor, activation};

/// The nonlinearity applied to the map's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `u`
    Identity,
    /// `max(u, 0)`
    Relu,
    /// `u`, or `u / 3` below zero, clipped to `[-3, 3]` (Fraccaro et al. 2016).
    ClippedLeakyRelu,
}

/// `activation(x weight + bias)`
///
/// # Shapes
/// `x`: `[rows, inputs]`, `weight`: `[inputs, outputs]`, `bias`: `[outputs]`; returns
/// `[rows, outputs]`
pub fn linear(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    activation: Activation,
) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&bias.device()) {
        return crate::flex::linear(x, weight, bias, activation);
    }
    plain(x, weight, bias, activation)
}

fn plain(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>, activation: Activation) -> Tensor<2> {
    let u = x.matmul(weight) + bias.unsqueeze();
    match activation {
        Activation::Identity => u,
        Activation::Relu => activation::relu(u),
        Activation::ClippedLeakyRelu => activation::leaky_relu(u, 1.0 / 3.0).clamp(-3.0, 3.0),
    }
}

/// An affine map prepared for the steps of one sequence. The gradient of its weights is computed for all steps
/// together.
///
/// A backward pass uses it up. To continue the sequence after that, prepare the map again.
#[derive(Clone, Debug)]
pub struct StepMap(Prepared);

// There is one value per sequence, so the size of the largest variant costs nothing that matters.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum Prepared {
    Plain {
        weight: Tensor<2>,
        bias: Tensor<1>,
    },
    #[cfg(feature = "flex")]
    Fused {
        node: Tensor<1>,
        uses: crate::flex::MapUses,
    },
}

impl StepMap {
    /// Prepares a map.
    ///
    /// # Shapes
    /// `weight`: `[inputs, outputs]`, `bias`: `[outputs]`
    pub fn new(weight: Tensor<2>, bias: Tensor<1>) -> Self {
        #[cfg(feature = "flex")]
        if crate::flex::fused(&bias.device()) {
            let uses = crate::flex::MapUses::default();
            let node = crate::flex::map_weights(weight, bias, uses.clone());
            return Self(Prepared::Fused { node, uses });
        }
        Self(Prepared::Plain { weight, bias })
    }

    /// `activation(x weight + bias)`, `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, x: Tensor<2>, activation: Activation) -> Tensor<2> {
        match &self.0 {
            Prepared::Plain { weight, bias } => plain(x, weight.clone(), bias.clone(), activation),
            #[cfg(feature = "flex")]
            Prepared::Fused { node, uses } => {
                crate::flex::step_map(x, node.clone(), uses.clone(), activation)
            }
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::check::{
        Way, arranged, assert_close, assert_same, assert_spreads, differences, gradients, numbers,
    };

    const ALL: [Activation; 3] = [
        Activation::Identity,
        Activation::Relu,
        Activation::ClippedLeakyRelu,
    ];

    /// Rows, inputs, outputs.
    type Shape = [usize; 3];

    /// Input, weights and bias. The outputs cover all pieces of the nonlinearities.
    fn inputs([rows, size, outputs]: Shape) -> Vec<Vec<f32>> {
        let scale = 4.0 / (size as f32).sqrt();
        let weights = numbers(size * outputs, 2);
        let weights = weights.into_iter().map(|w| scale * w).collect();
        vec![numbers(rows * size, 1), weights, numbers(outputs, 3)]
    }

    fn of(
        [rows, size, outputs]: Shape,
        activation: Activation,
        f: fn(Tensor<2>, Tensor<2>, Tensor<1>, Activation) -> Tensor<2>,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |all, way| {
            let [x, weight, bias]: [_; 3] = all.try_into().unwrap();
            f(
                arranged(x, [rows, size], way),
                arranged(weight, [size, outputs], way),
                arranged(bias, [outputs], way),
                activation,
            )
        }
    }

    fn definition(
        all: &[Vec<f64>],
        [rows, size, outputs]: Shape,
        activation: Activation,
    ) -> Vec<f64> {
        let one = |row: usize, column: usize| {
            let terms = (0..size).map(|i| all[0][row * size + i] * all[1][i * outputs + column]);
            let u = all[2][column] + terms.sum::<f64>();
            match activation {
                Activation::Identity => u,
                Activation::Relu => u.max(0.0),
                Activation::ClippedLeakyRelu => u.max(u / 3.0).clamp(-3.0, 3.0),
            }
        };
        (0..rows * outputs)
            .map(|place| one(place / outputs, place % outputs))
            .collect()
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        // Few rows and many; numbers of rows, inputs and outputs that do not divide evenly.
        for shape in [
            [1, 1, 1],
            [2, 5, 16],
            [3, 7, 33],
            [5, 4, 300],
            [16, 31, 257],
            [7, 130, 19],
            [6, 88, 40],
            [9, 40, 60],
            [33, 6, 70],
            [101, 37, 20],
            [19, 400, 500],
        ] {
            for activation in ALL {
                let name = format!("{shape:?}, {activation:?}");
                let kernel = of(shape, activation, crate::flex::linear);
                let plain = of(shape, activation, plain);
                assert_same(&inputs(shape), 1e-5, &name, kernel, plain);
            }
        }
    }

    #[test]
    fn the_kernel_agrees_with_the_definition() {
        for shape in [[1, 1, 1], [2, 5, 17], [6, 3, 33], [40, 2, 5]] {
            for activation in ALL {
                let kernel = of(shape, activation, crate::flex::linear);
                let found = gradients(&inputs(shape), &[], Way::Straight, kernel);
                let expected =
                    differences(&inputs(shape), |all| definition(all, shape, activation));
                assert_close(
                    &found,
                    &expected,
                    1e-5,
                    &format!("{shape:?}, {activation:?}"),
                );
            }
        }
    }

    /// Two steps through one map, the second applied to the output of the first, count as two uses of the map.
    #[test]
    fn a_map_of_a_time_loop_agrees_with_its_uses_one_by_one() {
        for (rows, size) in [(1, 1), (2, 5), (3, 16), (33, 7), (128, 9), (150, 20)] {
            for activation in ALL {
                let shape = [rows, size, size];
                let name = format!("{shape:?}, {activation:?}");
                let two_steps = |step: &dyn Fn(Tensor<2>) -> Tensor<2>, x: Tensor<2>| {
                    let first = step(x);
                    let second = step(first.clone() * 0.7 + 0.1);
                    Tensor::cat(vec![first, second], 0)
                };
                let prepared = move |all: Vec<Tensor<1>>, way: Way| {
                    let [x, weight, bias]: [_; 3] = all.try_into().unwrap();
                    let map = StepMap::new(
                        arranged(weight, [size, size], way),
                        arranged(bias, [size], way),
                    );
                    let step = |x| map.forward(x, activation);
                    two_steps(&step, arranged(x, [rows, size], way))
                };
                let one_by_one = move |all: Vec<Tensor<1>>, way: Way| {
                    let [x, weight, bias]: [_; 3] = all.try_into().unwrap();
                    let weight = arranged(weight, [size, size], way);
                    let bias = arranged(bias, [size], way);
                    let step = |x| plain(x, weight.clone(), bias.clone(), activation);
                    two_steps(&step, arranged(x, [rows, size], way))
                };
                assert_same(&inputs(shape), 1e-5, &name, prepared, one_by_one);
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for shape in [[1, 1, 1], [3, 5, 18], [40, 3, 4]] {
            for activation in [Activation::Identity, Activation::Relu] {
                let name = format!("{shape:?}, {activation:?}");
                let kernel = of(shape, activation, crate::flex::linear);
                let plain = of(shape, activation, plain);
                assert_spreads(&inputs(shape), &[f32::NAN], &name, kernel, plain);
            }
        }
    }
}
