//! LSTM steps and sequences.

use crate::split::split_rows;
use burn::tensor::{Bool, Tensor, activation};

/// Weights of an LSTM, prepared for the steps of one sequence.
///
/// Prepare them once per sequence, so that the gradient of the weights is one matrix product over all steps.
#[derive(Clone, Debug)]
pub struct LstmWeights(Prepared);

// There is one value per sequence, so the size of the largest variant costs nothing that matters.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum Prepared {
    Plain {
        input: Tensor<2>,
        hidden: Tensor<2>,
        bias: Tensor<1>,
    },
    #[cfg(feature = "flex")]
    Fused {
        node: Tensor<1>,
        uses: crate::flex::Uses,
    },
}

impl LstmWeights {
    /// Prepares weights for a sequence.
    ///
    /// # Shapes
    /// `input`: `[inputs, 4 * hidden]`, `hidden`: `[hidden, 4 * hidden]`, `bias`: `[4 * hidden]`; gates
    /// in the order `i, f, g, o`
    ///
    /// A backward pass uses them up. To continue the sequence after that, with its state detached, prepare them
    /// again.
    pub fn new(input: Tensor<2>, hidden: Tensor<2>, bias: Tensor<1>) -> Self {
        #[cfg(feature = "flex")]
        if crate::flex::fused(&bias.device()) {
            return Self::fused(input, hidden, bias);
        }
        Self::plain(input, hidden, bias)
    }

    #[cfg(feature = "flex")]
    fn fused(input: Tensor<2>, hidden: Tensor<2>, bias: Tensor<1>) -> Self {
        let uses = crate::flex::Uses::default();
        let node = crate::flex::step_weights(input, hidden, bias, uses.clone());
        Self(Prepared::Fused { node, uses })
    }

    fn plain(input: Tensor<2>, hidden: Tensor<2>, bias: Tensor<1>) -> Self {
        Self(Prepared::Plain {
            input,
            hidden,
            bias,
        })
    }
}

/// One LSTM step: `(h_t, c_t)` from `x_t`, `h_{t-1}` and `c_{t-1}`.
///
/// `[i f g o] = W_x x + W_h h + b`, `c' = sig(f) c + sig(i) tanh(g)`, `h' = sig(o) tanh(c')`
///
/// # Shapes
/// `x`: `[batch, inputs]`; `hidden`, `cell` and both results: `[batch, hidden]`
///
/// Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
pub fn lstm_step(
    x: Tensor<2>,
    hidden: Tensor<2>,
    cell: Tensor<2>,
    weights: &LstmWeights,
) -> (Tensor<2>, Tensor<2>) {
    match &weights.0 {
        Prepared::Plain {
            input,
            hidden: recurrent,
            bias,
        } => {
            let gates = x.matmul(input.clone())
                + hidden.matmul(recurrent.clone())
                + bias.clone().unsqueeze::<2>();
            cell_of(gates, cell)
        }
        #[cfg(feature = "flex")]
        Prepared::Fused { node, uses } => {
            crate::flex::lstm_step(x, hidden, cell, node.clone(), uses.clone())
        }
    }
}

/// All steps of a sequence whose inputs are known beforehand, by the equations of [`lstm_step`].
///
/// Returns the hidden states of all steps, the last hidden state, and the last cell. The part of the gates that
/// comes from the inputs is one product for all steps. Where `resets` is true, zeros take the place of that sequence's
/// state before that step, and no gradient passes to earlier steps.
///
/// # Shapes
/// - `x`: `[steps * batch, inputs]`, step after step; the first result: `[steps * batch, hidden]`
/// - `resets`: `[steps, batch]`
/// - `state`, `h` and `c`, and the other results: `[batch, hidden]`
/// - `weights`, of input and state: `[inputs, 4 * hidden]` and `[hidden, 4 * hidden]`; `bias`:
///   `[4 * hidden]`; gates in the order `i, f, g, o`
///
/// # Panics
/// If there is no step, or shapes do not fit.
pub fn lstm_sequence(
    x: Tensor<2>,
    resets: Option<&Tensor<2, Bool>>,
    state: [Tensor<2>; 2],
    weights: [Tensor<2>; 2],
    bias: Tensor<1>,
) -> [Tensor<2>; 3] {
    let [rows, batch] = [x.dims()[0], state[0].dims()[0]];
    assert!(
        rows > 0 && batch > 0,
        "a sequence must have at least one step and one row"
    );
    if let Some(resets) = resets {
        assert_eq!(resets.dims(), [rows / batch, batch], "shape of the resets");
    }
    #[cfg(feature = "flex")]
    if crate::flex::fused(&bias.device()) {
        return fused_sequence(x, resets, state, weights, bias);
    }
    plain_sequence(x, resets, state, weights, bias)
}

#[cfg(feature = "flex")]
fn fused_sequence(
    x: Tensor<2>,
    resets: Option<&Tensor<2, Bool>>,
    [hidden, cell]: [Tensor<2>; 2],
    [input, recurrent]: [Tensor<2>; 2],
    bias: Tensor<1>,
) -> [Tensor<2>; 3] {
    let resets = resets.map(|resets| resets.to_data().iter::<bool>().collect());
    crate::flex::lstm_sequence(x, hidden, cell, input, recurrent, bias, resets).into()
}

fn plain_sequence(
    x: Tensor<2>,
    resets: Option<&Tensor<2, Bool>>,
    [mut hidden, mut cell]: [Tensor<2>; 2],
    [input, recurrent]: [Tensor<2>; 2],
    bias: Tensor<1>,
) -> [Tensor<2>; 3] {
    let steps = x.dims()[0] / hidden.dims()[0];
    let given = x.matmul(input) + bias.unsqueeze::<2>();
    let mut all = Vec::with_capacity(steps);
    for (step, given) in split_rows(given, steps).into_iter().enumerate() {
        if let Some(resets) = resets {
            let shape = hidden.dims();
            let reset = resets.clone().narrow(0, step, 1).transpose().expand(shape);
            hidden = hidden.mask_fill(reset.clone(), 0.0);
            cell = cell.mask_fill(reset, 0.0);
        }
        (hidden, cell) = cell_of(given + hidden.matmul(recurrent.clone()), cell);
        all.push(hidden.clone());
    }
    [Tensor::cat(all, 0), hidden, cell]
}

/// The elementwise part of an LSTM step: `(h', c')` from the pre-activations of the gates and `c`. With maps flattened,
/// it is that of a convolutional LSTM, too.
///
/// `c' = sig(f) c + sig(i) tanh(g)`, `h' = sig(o) tanh(c')`
///
/// # Shapes
/// `gates`: `[batch, 4 * hidden]`, in the order `i, f, g, o`; `cell` and both results: `[batch, hidden]`
pub fn lstm_gates(gates: Tensor<2>, cell: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&gates.device()) {
        return crate::flex::lstm_gates(gates, cell);
    }
    cell_of(gates, cell)
}

/// Hidden state and cell from pre-activations.
fn cell_of(gates: Tensor<2>, cell: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let hidden = cell.dims()[1];
    let gate = |index: usize| gates.clone().narrow(1, index * hidden, hidden);
    let input = activation::sigmoid(gate(0));
    let forget = activation::sigmoid(gate(1));
    let candidate = gate(2).tanh();
    let output = activation::sigmoid(gate(3));
    let cell = forget * cell + input * candidate;
    (output * cell.clone().tanh(), cell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn agrees_with_the_equations() {
        let device = Device::default();
        let (i, f, g, o, c) = (0.3_f64, -1.2_f64, 0.7_f64, 2.0_f64, -0.4_f64);
        // The input is 0, so the bias alone determines the gates.
        let bias = Tensor::<1>::from_floats([i as f32, f as f32, g as f32, o as f32], &device);
        let ones = Tensor::<2>::ones([1, 4], &device);
        let weights = LstmWeights::new(ones.clone(), ones, bias);
        let zero = Tensor::<2>::zeros([1, 1], &device);
        let cell = Tensor::from_floats([[c as f32]], &device);
        let (h, c_new) = lstm_step(zero.clone(), zero, cell, &weights);
        let sig = |u: f64| 1.0 / (1.0 + (-u).exp());
        let expected_cell = sig(f) * c + sig(i) * g.tanh();
        let expected_hidden = sig(o) * expected_cell.tanh();
        assert!((f64::from(c_new.into_scalar::<f32>()) - expected_cell).abs() < 1e-6);
        assert!((f64::from(h.into_scalar::<f32>()) - expected_hidden).abs() < 1e-6);
    }
}

#[cfg(all(test, feature = "flex"))]
mod kernel {
    use super::*;
    use crate::check::{
        Way, arranged, assert_close, assert_same, assert_spreads, differences, gradients, numbers,
    };
    use burn::tensor::{Device, Int};

    /// Batch, inputs, hidden, steps.
    type Shape = [usize; 4];

    /// Weights of input and state, bias, input, initial hidden state and cell.
    fn inputs([batch, inputs, hidden, _]: Shape) -> Vec<Vec<f32>> {
        let counts = [
            inputs * 4 * hidden,
            hidden * 4 * hidden,
            4 * hidden,
            batch * inputs,
            batch * hidden,
            batch * hidden,
        ];
        let inputs = counts.into_iter().zip(1..);
        inputs.map(|(count, seed)| numbers(count, seed)).collect()
    }

    /// Fraction of the state that is added to the next input, because what a memory reads depends on the state.
    fn share(step: usize) -> f64 {
        0.1 * step as f64
    }

    /// Hidden states of all steps, then the last cell: `[batch, (steps + 1) * hidden]`.
    fn sequence(
        [batch, inputs, hidden, steps]: Shape,
        prepare: fn(Tensor<2>, Tensor<2>, Tensor<1>) -> LstmWeights,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |all, way| {
            let [input, recurrent, bias, x, h, c]: [_; 6] = all.try_into().unwrap();
            let weights = prepare(
                arranged(input, [inputs, 4 * hidden], way),
                arranged(recurrent, [hidden, 4 * hidden], way),
                arranged(bias, [4 * hidden], way),
            );
            let x = arranged(x, [batch, inputs], way);
            let mut h = arranged(h, [batch, hidden], way);
            let mut c = arranged(c, [batch, hidden], way);
            let mut outputs = Vec::new();
            for step in 0..steps {
                let read = h.clone().mean_dim(1) * share(step);
                (h, c) = lstm_step(x.clone() + read, h, c, &weights);
                outputs.push(h.clone());
            }
            outputs.push(c);
            Tensor::cat(outputs, 1)
        }
    }

    fn definition(all: &[Vec<f64>], [batch, inputs, hidden, steps]: Shape) -> Vec<f64> {
        let [input, recurrent, bias, x, first_h, first_c] = all else {
            unreachable!("six inputs")
        };
        let sig = |u: f64| 1.0 / (1.0 + (-u).exp());
        let mut outputs = Vec::new();
        for b in 0..batch {
            let mut h = first_h[b * hidden..][..hidden].to_vec();
            let mut c = first_c[b * hidden..][..hidden].to_vec();
            for step in 0..steps {
                let read = share(step) * h.iter().sum::<f64>() / hidden as f64;
                let gate = |column: usize| {
                    let by_input = (0..inputs)
                        .map(|i| (x[b * inputs + i] + read) * input[i * 4 * hidden + column]);
                    let by_state = (0..hidden).map(|i| h[i] * recurrent[i * 4 * hidden + column]);
                    bias[column] + by_input.sum::<f64>() + by_state.sum::<f64>()
                };
                let gates: Vec<f64> = (0..4 * hidden).map(gate).collect();
                for j in 0..hidden {
                    c[j] = sig(gates[hidden + j]) * c[j]
                        + sig(gates[j]) * gates[2 * hidden + j].tanh();
                    h[j] = sig(gates[3 * hidden + j]) * c[j].tanh();
                }
                outputs.extend_from_slice(&h);
            }
            outputs.extend_from_slice(&c);
        }
        outputs
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        for shape in [
            [1, 1, 1, 1],
            [7, 1, 1, 5],
            [1, 13, 1, 3],
            [1, 1, 17, 31],
            [2, 3, 5, 4],
            [3, 7, 17, 9],
            [16, 32, 72, 6],
            [27, 40, 300, 2],
        ] {
            let (name, inputs) = (format!("{shape:?}"), inputs(shape));
            let kernel = sequence(shape, LstmWeights::fused);
            let plain = sequence(shape, LstmWeights::plain);
            if shape[2] > 100 {
                let found = gradients(&inputs, &[], Way::Straight, kernel);
                let expected = gradients(&inputs, &[], Way::Straight, plain);
                assert_close(&found, &crate::check::wide(&expected), 1e-5, &name);
                continue;
            }
            assert_same(&inputs, 1e-5, &name, kernel, plain);
        }
    }

    #[test]
    fn gates_agree_with_the_plain_composition() {
        type Gates = fn(Tensor<2>, Tensor<2>) -> (Tensor<2>, Tensor<2>);
        for [batch, hidden] in [[1, 1], [3, 1], [1, 17], [5, 64], [2, 300]] {
            let inputs = [numbers(batch * 4 * hidden, 1), numbers(batch * hidden, 2)];
            let through = |gates: Gates| {
                move |all: Vec<Tensor<1>>, way| {
                    let [pre, cell]: [_; 2] = all.try_into().unwrap();
                    let pre = arranged(pre, [batch, 4 * hidden], way);
                    let (hidden, cell) = gates(pre, arranged(cell, [batch, hidden], way));
                    Tensor::cat(vec![hidden, cell], 1)
                }
            };
            let name = format!("{batch} rows of {hidden}");
            assert_same(&inputs, 1e-5, &name, through(lstm_gates), through(cell_of));
        }
    }

    #[test]
    fn the_kernel_agrees_with_the_definition() {
        for shape in [
            [1, 1, 1, 1],
            [3, 1, 1, 5],
            [1, 5, 1, 3],
            [2, 3, 5, 4],
            [1, 2, 9, 3],
            [13, 1, 3, 2],
        ] {
            let inputs = inputs(shape);
            let kernel = sequence(shape, LstmWeights::fused);
            let found = gradients(&inputs, &[], Way::Straight, kernel);
            let expected = differences(&inputs, |inputs| definition(inputs, shape));
            assert_close(&found, &expected, 1e-5, &format!("{shape:?}"));
        }
    }

    /// Infinities are handled separately: a gate is at least 1e-38, not 0, so its product with infinity is not
    /// NaN.
    #[test]
    fn what_is_no_number_stays_none() {
        for shape in [[1, 1, 1, 1], [3, 2, 5, 3]] {
            let (name, inputs) = (format!("{shape:?}"), inputs(shape));
            let kernel = sequence(shape, LstmWeights::fused);
            let plain = sequence(shape, LstmWeights::plain);
            assert_spreads(&inputs, &[f32::NAN], &name, kernel, plain);
        }
    }

    /// Weights of input and state, bias, input of all steps, initial hidden state and cell.
    fn sequence_inputs(shape: Shape) -> Vec<Vec<f32>> {
        let [batch, size, _, steps] = shape;
        let mut all = inputs(shape);
        all[3] = numbers(steps * batch * size, 7);
        all
    }

    type Sequence = fn(
        Tensor<2>,
        Option<&Tensor<2, Bool>>,
        [Tensor<2>; 2],
        [Tensor<2>; 2],
        Tensor<1>,
    ) -> [Tensor<2>; 3];

    /// Which sequences are reset before which step.
    #[derive(Clone, Copy, Debug)]
    enum Reset {
        Never,
        Sometimes,
        Always,
    }

    impl Reset {
        /// `[steps, batch]`
        fn mask(self, steps: usize, batch: usize) -> Option<Tensor<2, Bool>> {
            let often = match self {
                Reset::Never => return None,
                Reset::Sometimes => 3,
                Reset::Always => 1,
            };
            let numbers = (0..steps * batch).map(|place| i64::from(place % often == 0));
            let numbers: Vec<i64> = numbers.collect();
            let numbers = Tensor::<1, Int>::from_ints(&numbers[..], &Device::default());
            Some(numbers.reshape([steps, batch]).bool())
        }
    }

    /// The results listed in `parts`, as rows.
    fn whole(
        [batch, size, hidden, steps]: Shape,
        resets: Reset,
        parts: &'static [usize],
        f: Sequence,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |all, way| {
            let [input, recurrent, bias, x, h, c]: [_; 6] = all.try_into().unwrap();
            let found = f(
                arranged(x, [steps * batch, size], way),
                resets.mask(steps, batch).as_ref(),
                [h, c].map(|part| arranged(part, [batch, hidden], way)),
                [(input, size), (recurrent, hidden)]
                    .map(|(weight, rows)| arranged(weight, [rows, 4 * hidden], way)),
                arranged(bias, [4 * hidden], way),
            );
            let parts = parts.iter().map(|part| found[*part].clone());
            Tensor::cat(parts.collect(), 0)
        }
    }

    #[test]
    fn a_sequence_agrees_with_the_plain_composition() {
        // Steps on one thread and on several; batch sizes that do not divide evenly.
        for shape in [
            [1, 1, 1, 1],
            [7, 1, 1, 5],
            [1, 13, 1, 3],
            [1, 1, 17, 31],
            [2, 3, 5, 4],
            [3, 7, 17, 9],
            [5, 3, 90, 8],
            [29, 40, 72, 3],
        ] {
            for resets in [Reset::Never, Reset::Sometimes, Reset::Always] {
                let name = format!("{shape:?}, reset {resets:?}");
                let inputs = sequence_inputs(shape);
                let kernel = whole(shape, resets, &[0, 1, 2], fused_sequence);
                let plain = whole(shape, resets, &[0, 1, 2], plain_sequence);
                assert_same(&inputs, 1e-5, &name, kernel, plain);
                for parts in [&[0][..], &[1], &[2], &[1, 2]] {
                    let kernel = whole(shape, resets, parts, fused_sequence);
                    let plain = whole(shape, resets, parts, plain_sequence);
                    let found = gradients(&inputs, &[], Way::Straight, kernel);
                    let expected = gradients(&inputs, &[], Way::Straight, plain);
                    let name = format!("{name}, results {parts:?}");
                    assert_close(&found, &crate::check::wide(&expected), 1e-5, &name);
                }
            }
        }
    }

    #[test]
    fn a_sequence_is_its_steps() {
        /// A sequence that is reset begins with a state of zeros.
        fn steps(
            x: Tensor<2>,
            resets: Option<&Tensor<2, Bool>>,
            [mut hidden, mut cell]: [Tensor<2>; 2],
            [input, recurrent]: [Tensor<2>; 2],
            bias: Tensor<1>,
        ) -> [Tensor<2>; 3] {
            let weights = LstmWeights::plain(input, recurrent, bias);
            let mut all = Vec::new();
            let [batch, size] = hidden.dims();
            for step in 0..x.dims()[0] / batch {
                let x = x.clone().narrow(0, step * batch, batch);
                if let Some(resets) = resets {
                    let kept = resets.clone().bool_not().float().narrow(0, step, 1);
                    let kept = kept.transpose().expand([batch, size]);
                    (hidden, cell) = (hidden * kept.clone(), cell * kept);
                }
                (hidden, cell) = lstm_step(x, hidden, cell, &weights);
                all.push(hidden.clone());
            }
            [Tensor::cat(all, 0), hidden, cell]
        }
        for shape in [[1, 1, 1, 1], [2, 3, 5, 4], [3, 7, 17, 9]] {
            for resets in [Reset::Never, Reset::Sometimes, Reset::Always] {
                let inputs = sequence_inputs(shape);
                let expected = whole(shape, resets, &[0, 1, 2], steps);
                let expected = gradients(&inputs, &[], Way::Straight, expected);
                for f in [fused_sequence as Sequence, plain_sequence] {
                    let found = whole(shape, resets, &[0, 1, 2], f);
                    let found = gradients(&inputs, &[], Way::Straight, found);
                    let name = format!("{shape:?}, reset {resets:?}");
                    assert_close(&found, &crate::check::wide(&expected), 1e-5, &name);
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_in_a_sequence_stays_none() {
        for shape in [[1, 1, 1, 1], [3, 2, 5, 3]] {
            for resets in [Reset::Never, Reset::Sometimes] {
                let name = format!("{shape:?}, reset {resets:?}");
                let inputs = sequence_inputs(shape);
                let kernel = whole(shape, resets, &[0, 1, 2], fused_sequence);
                let plain = whole(shape, resets, &[0, 1, 2], plain_sequence);
                assert_spreads(&inputs, &[f32::NAN], &name, kernel, plain);
            }
        }
    }
}
