//! The elementwise part of an LSTM step.

use burn::tensor::{Tensor, activation};

/// Hidden and cell state of one LSTM step from its pre-activations.
///
/// `c' = sig(f) c + sig(i) tanh(g)`, `h' = sig(o) tanh(c')`
///
/// # Shapes
/// - `gates`: `[batch, 4 * hidden]`, in the order `i, f, g, o`
/// - `cell`: `[batch, hidden]`
/// - returns `(h', c')`, both `[batch, hidden]`
///
/// Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
pub fn lstm_cell(gates: Tensor<2>, cell: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&cell.device()) {
        let hidden = cell.dims()[1];
        let both = crate::flex::lstm(gates, cell);
        return (
            both.clone().narrow(1, 0, hidden),
            both.narrow(1, hidden, hidden),
        );
    }
    plain(gates, cell)
}

fn plain(gates: Tensor<2>, cell: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
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
        let gates = Tensor::<2>::from_floats([[i as f32, f as f32, g as f32, o as f32]], &device);
        let (h, c_new) = lstm_cell(gates, Tensor::from_floats([[c as f32]], &device));
        let sig = |u: f64| 1.0 / (1.0 + (-u).exp());
        let expected_cell = sig(f) * c + sig(i) * g.tanh();
        let expected_hidden = sig(o) * expected_cell.tanh();
        assert!((f64::from(c_new.into_scalar::<f32>()) - expected_cell).abs() < 1e-6);
        assert!((f64::from(h.into_scalar::<f32>()) - expected_hidden).abs() < 1e-6);
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        let device = Device::default().autodiff();
        for [batch, hidden] in [[1, 1], [2, 5], [16, 72]] {
            let tensor = |width: usize, factor: f32| {
                let count = batch * width;
                let values: Vec<f32> = (0..count)
                    .map(|i| (i as f32 * factor).sin() * 3.0)
                    .collect();
                let values = Tensor::<1>::from_floats(values.as_slice(), &device);
                values.reshape([batch, width])
            };
            let run = |f: fn(Tensor<2>, Tensor<2>) -> (Tensor<2>, Tensor<2>)| {
                let gates = tensor(4 * hidden, 0.7).detach().require_grad();
                let cell = tensor(hidden, 1.1).detach().require_grad();
                let (h, c) = f(gates.clone(), cell.clone());
                let loss = h.clone() * tensor(hidden, 0.3) + c.clone() * tensor(hidden, 0.9);
                let gradients = loss.sum().backward();
                let gates = gates.grad(&gradients).unwrap();
                let cell = cell.grad(&gradients).unwrap();
                Tensor::cat(vec![h.inner(), c.inner(), gates, cell], 1)
            };
            let error: f32 = (run(lstm_cell) - run(plain)).abs().max().into_scalar();
            assert!(error < 3e-6, "{batch} x {hidden}: {error}");
        }
    }
}
