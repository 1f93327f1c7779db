//! Softplus-normalised attention over the rows of a memory.

use crate::softplus;
use burn::tensor::Tensor;

/// Added to every `softplus` so that a row of weights can always be normalised.
pub const ATTENTION_FLOOR: f64 = 1e-6;

/// Attention weights that are linear in a softplus: `w[i] = k[i] / sum_j k[j]` with `k = softplus(a) + 1e-6`.
///
/// # Shapes
/// - `preactivations`: `[batch, heads, slots]`
/// - returns weights of the same shape; each row sums to one
///
/// Gemici et al. 2017 (gtmm), section 3.1, which prefers these weights to a softmax.
pub fn softplus_attention(preactivations: Tensor<3>) -> Tensor<3> {
    let k = softplus(preactivations).add_scalar(ATTENTION_FLOOR);
    let total = k.clone().sum_dim(2);
    k / total
}

/// Weighted reads, one per head: `phi[b, r] = sum_i w[b, r, i] memory[b, i]`.
///
/// # Shapes
/// - `weights`: `[batch, heads, slots]`
/// - `memory`: `[batch, slots, width]`
/// - returns `[batch, heads, width]`
///
/// Gemici et al. 2017 (gtmm), equation 11.
pub fn read(weights: Tensor<3>, memory: Tensor<3>) -> Tensor<3> {
    weights.matmul(memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn rows_sum_to_one_even_for_extreme_preactivations() {
        let device = Device::default();
        let a = Tensor::<3>::from_floats([[[-1e4, -1e4, -1e4], [1e4, 0.0, -1e4]]], &device);
        let w = softplus_attention(a);
        let sums = w
            .clone()
            .sum_dim(2)
            .into_data()
            .try_into_vec::<f32>()
            .unwrap();
        assert!(sums.iter().all(|s| (s - 1.0).abs() < 1e-5), "{sums:?}");
        let w = w.into_data().try_into_vec::<f32>().unwrap();
        assert!(w[..3].iter().all(|w| (w - 1.0 / 3.0).abs() < 1e-5), "{w:?}");
        assert!(w[3] > 0.999);
    }

    #[test]
    fn softplus_is_differentiable_at_zero() {
        let device = Device::default().autodiff();
        let u = Tensor::<1>::from_floats([0.0, 30.0, -30.0], &device).require_grad();
        let gradients = softplus(u.clone()).sum().backward();
        let slope = u
            .grad(&gradients)
            .unwrap()
            .into_data()
            .try_into_vec::<f32>()
            .unwrap();
        assert!((slope[0] - 0.5).abs() < 1e-6, "{slope:?}");
        assert!((slope[1] - 1.0).abs() < 1e-6, "{slope:?}");
        assert!(slope[2].abs() < 1e-6, "{slope:?}");
    }
}
