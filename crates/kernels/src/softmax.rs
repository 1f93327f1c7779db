//! The softmax of rows of logits with its normaliser, for losses with a hand-written gradient.

use burn::tensor::Tensor;

/// Probabilities `p[r, c] = exp(logits[r, c] + bias[c] - n[r])`, and the log normaliser `n[r] = log sum_c
/// exp(logits[r, c] + bias[c])` in nats; not on an autodiff device.
///
/// If nothing else uses `logits`, the probabilities overwrite them.
///
/// # Shapes
/// `logits`: `[rows, columns]`, `bias`: `[columns]`; returns `[rows, columns]` and `[rows]`
pub fn softmax(logits: Tensor<2>, bias: Tensor<1>) -> (Tensor<2>, Tensor<1>) {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&logits.device()) {
        return crate::flex::softmax(logits, bias);
    }
    plain(logits, bias)
}

fn plain(logits: Tensor<2>, bias: Tensor<1>) -> (Tensor<2>, Tensor<1>) {
    let logits = logits + bias.unsqueeze();
    let largest = logits.clone().max_dim(1);
    let weights = (logits - largest.clone()).exp();
    let sums = weights.clone().sum_dim(1);
    let normaliser = sums.clone().log() + largest;
    (weights / sums, normaliser.squeeze_dim(1))
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::check::{Way, arranged, assert_close, numbers, values, wide};
    use burn::tensor::Device;

    /// Logits and biases; some rows are far from zero.
    fn inputs([rows, columns]: [usize; 2]) -> Vec<Vec<f32>> {
        let mut logits = numbers(rows * columns, 1);
        for (row, logits) in logits.chunks_mut(columns).enumerate() {
            let (factor, offset) = [(1.0, 0.0), (20.0, 300.0), (3.0, -200.0)][row % 3];
            logits.iter_mut().for_each(|x| *x = *x * factor + offset);
        }
        vec![logits, numbers(columns, 2)]
    }

    fn definition(inputs: &[Vec<f32>], columns: usize) -> Vec<Vec<f64>> {
        let inputs = wide(inputs);
        let (mut probabilities, mut normalisers) = (Vec::new(), Vec::new());
        for row in inputs[0].chunks(columns) {
            let biased = row.iter().zip(&inputs[1]).map(|(x, b)| x + b);
            let biased: Vec<f64> = biased.collect();
            let largest = biased.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = biased.iter().map(|x| (x - largest).exp()).sum();
            let normaliser = largest + sum.ln();
            probabilities.extend(biased.iter().map(|x| (x - normaliser).exp()));
            normalisers.push(normaliser);
        }
        vec![probabilities, normalisers]
    }

    #[test]
    fn the_kernel_and_the_composition_are_the_definition() {
        let device = Device::default();
        for shape in [[1, 1], [3, 2], [7, 15], [4, 16], [5, 33], [2, 1009]] {
            let inputs = inputs(shape);
            let expected = definition(&inputs, shape[1]);
            for way in [Way::Straight, Way::Turned] {
                let flat = Tensor::from_floats(inputs[0].as_slice(), &device);
                let logits = arranged(flat, shape, way);
                let bias: Tensor<1> = Tensor::from_floats(inputs[1].as_slice(), &device);
                for (name, f) in [
                    ("kernel", softmax as fn(_, _) -> (_, _)),
                    ("composition", plain),
                ] {
                    let (probabilities, normaliser) = f(logits.clone(), bias.clone());
                    let found = [values(probabilities), values(normaliser)];
                    let name = format!("{name}, {shape:?}, {way:?}");
                    assert_close(&found, &expected, 1e-4, &name);
                }
                // This test still holds the logits, so they must not change.
                assert_eq!(values(logits), inputs[0]);
            }
        }
    }

    #[test]
    fn what_is_no_number_is_seen_in_its_row_alone() {
        let device = Device::default();
        let mut inputs = inputs([3, 20]);
        inputs[0][25] = f32::NAN;
        let logits = Tensor::<1>::from_floats(inputs[0].as_slice(), &device).reshape([3, 20]);
        let bias = Tensor::from_floats(inputs[1].as_slice(), &device);
        let (probabilities, normaliser) = softmax(logits, bias);
        let nan: Vec<bool> = values(normaliser).iter().map(|n| n.is_nan()).collect();
        assert_eq!(nan, [false, true, false]);
        let rows = values(probabilities);
        assert!(rows[20..40].iter().all(|p| p.is_nan()));
        assert!(rows[..20].iter().chain(&rows[40..]).all(|p| p.is_finite()));
    }
}
