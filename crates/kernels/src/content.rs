//! Content-based addressing: where in a memory does a key point?

use burn::tensor::{Tensor, activation};

/// Added to squared norms, so that a row of zeros has a similarity (of zero) and a gradient.
pub const NORM_EPSILON: f64 = 1e-6;

/// `cos[b, h, n] = k . m / (sqrt(|k|^2 + eps) sqrt(|m|^2 + eps))` with `eps = 1e-6`; within
/// `[-1, 1]`.
///
/// # Shapes
/// - `keys`: `[batch, heads, width]`
/// - `memory`: `[batch, slots, width]`
/// - returns `[batch, heads, slots]`
pub fn cosine_similarity(keys: Tensor<3>, memory: Tensor<3>) -> Tensor<3> {
    let norm = |rows: &Tensor<3>| {
        let squares = rows.clone() * rows.clone();
        squares.sum_dim(2).add_scalar(NORM_EPSILON).sqrt()
    };
    let key_norms = norm(&keys);
    let row_norms = norm(&memory).swap_dims(1, 2);
    keys.matmul(memory.swap_dims(1, 2)) / key_norms / row_norms
}

/// `w[b, h, n] = softmax_n(strength[b, h] * cos(key[b, h], memory[b, n]))`
///
/// # Shapes
/// - `keys`: `[batch, heads, width]`
/// - `strengths`: `[batch, heads]`
/// - `memory`: `[batch, slots, width]`
/// - returns weights `[batch, heads, slots]`; each row sums to one
///
/// Graves et al. 2016 (DNC), Methods, "Content-based addressing"; Graves et al. 2014 (NTM),
/// equations 5 and 6.
pub fn content_weights(keys: Tensor<3>, strengths: Tensor<2>, memory: Tensor<3>) -> Tensor<3> {
    let similarity = cosine_similarity(keys, memory);
    activation::softmax(similarity * strengths.unsqueeze_dim::<3>(2), 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn values(tensor: Tensor<3>) -> Vec<f32> {
        tensor.into_data().try_into_vec::<f32>().unwrap()
    }

    #[test]
    fn similarity_is_the_cosine_and_zero_for_empty_rows() {
        let device = Device::default();
        let keys = Tensor::<3>::from_floats([[[3.0, 4.0]]], &device);
        let rows = [[[4.0, 3.0], [-6.0, -8.0], [0.0, 0.0], [1e4, 0.0]]];
        let found = values(cosine_similarity(keys, Tensor::from_floats(rows, &device)));
        for (found, expected) in found.iter().zip([0.96, -1.0, 0.0, 0.6]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn strength_sharpens_and_equal_rows_share() {
        let device = Device::default();
        let keys = Tensor::<3>::from_floats([[[1.0, 0.0], [1.0, 0.0]]], &device);
        let rows = Tensor::<3>::from_floats([[[2.0, 0.0], [0.0, 1.0], [5.0, 0.0]]], &device);
        let strengths = Tensor::<2>::from_floats([[0.0, 50.0]], &device);
        let found = values(content_weights(keys, strengths, rows));
        for (found, expected) in found
            .iter()
            .zip([1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.5, 0.0, 0.5])
        {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
}
