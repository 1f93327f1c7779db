//! LSTM steps.

use burn::tensor::{Tensor, activation};

/// Weights of an LSTM, prepared for the steps of one sequence.
///
/// Preparing is once a sequence, so that the gradient of the weights can be one matrix product over
/// all of its steps.
#[derive(Clone, Debug)]
pub struct LstmWeights(Prepared);

// One value a sequence: the size of the largest variant costs nothing that matters.
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
    /// One backward pass uses them up: a sequence that goes on after it, its state detached, needs
    /// them prepared again.
    pub fn new(input: Tensor<2>, hidden: Tensor<2>, bias: Tensor<1>) -> Self {
        #[cfg(feature = "flex")]
        if crate::flex::fused(&bias.device()) {
            let uses = crate::flex::Uses::default();
            let node = crate::flex::step_weights(input, hidden, bias, uses.clone());
            return Self(Prepared::Fused { node, uses });
        }
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
            let size = cell.dims()[1];
            let both = crate::flex::lstm_step(x, hidden, cell, node.clone(), uses.clone());
            (both.clone().narrow(1, 0, size), both.narrow(1, size, size))
        }
    }
}

/// Hidden and cell state from pre-activations.
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
        // The input is 0, so that the bias is the gates.
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

    /// States of all steps and all gradients, with memory reads around the steps: each input depends
    /// on the state before.
    fn sequence([batch, inputs, hidden, time]: [usize; 4], fused: bool) -> Vec<f32> {
        let device = Device::default().autodiff();
        let tensor = |rows: usize, columns: usize, factor: f32| {
            let values: Vec<f32> = (0..rows * columns)
                .map(|i| (i as f32 * factor).sin())
                .collect();
            let values = Tensor::<1>::from_floats(values.as_slice(), &device);
            values.reshape([rows, columns]).detach().require_grad()
        };
        let input = tensor(inputs, 4 * hidden, 0.7);
        let recurrent = tensor(hidden, 4 * hidden, 0.31);
        let bias = tensor(1, 4 * hidden, 1.1);
        let flat = bias.clone().squeeze_dim::<1>(0);
        let weights = match fused {
            true => LstmWeights::new(input.clone(), recurrent.clone(), flat),
            false => LstmWeights(Prepared::Plain {
                input: input.clone(),
                hidden: recurrent.clone(),
                bias: flat,
            }),
        };
        let x = tensor(batch, inputs, 0.9);
        let start = tensor(batch, hidden, 1.7);
        let (mut h, mut c) = (start.clone(), start.clone() * 0.5);
        let mut outputs = Vec::new();
        for step in 0..time {
            let read = h.clone().mean_dim(1) * (step as f32 * 0.1);
            (h, c) = lstm_step(x.clone() + read, h, c, &weights);
            outputs.push(h.clone());
        }
        let outputs = Tensor::cat(outputs, 1) * tensor(batch, hidden * time, 0.37).detach();
        let gradients = (outputs.clone().sum() + c.sum()).backward();
        let values = |t: Tensor<2>| t.into_data().try_into_vec::<f32>().unwrap();
        let mut all = values(outputs);
        for leaf in [input, recurrent, bias, x, start] {
            all.extend(values(leaf.grad(&gradients).unwrap()));
        }
        all
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        for shape in [
            [1, 1, 1, 1],
            [2, 3, 5, 4],
            [3, 7, 17, 9],
            [16, 32, 72, 6],
            [27, 40, 300, 2],
        ] {
            let (found, expected) = (sequence(shape, true), sequence(shape, false));
            assert_eq!(found.len(), expected.len());
            let scale = expected.iter().fold(1.0_f32, |m, e| m.max(e.abs()));
            for (found, expected) in found.iter().zip(&expected) {
                let error = (found - expected).abs();
                assert!(error <= 1e-5 * scale, "{shape:?}: {found} {expected}");
            }
        }
    }
}
