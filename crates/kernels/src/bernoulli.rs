//! Bernoulli likelihood from logits.

use burn::tensor::{Tensor, activation};

/// `log p(x | logit l) = x l - softplus(l)`, summed over the last axis, in nats.
///
/// `x` may lie anywhere in `[0, 1]` (soft targets).
///
/// # Shapes
/// `x`, `logits`: `[rows, size]`; returns `[rows]`. No gradient flows to `x`, which is data.
pub fn log_likelihood(x: Tensor<2>, logits: Tensor<2>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&logits.device()) {
        return crate::flex::bernoulli(x, logits);
    }
    plain(x, logits)
}

fn plain(x: Tensor<2>, logits: Tensor<2>) -> Tensor<1> {
    // -softplus(l) = log sig(-l)
    (x * logits.clone() + activation::log_sigmoid(logits.neg()))
        .sum_dim(1)
        .squeeze_dim(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        let device = Device::default().autodiff();
        for [rows, size] in [[1, 1], [3, 16], [5, 37], [200, 784]] {
            let count = rows * size;
            let x: Vec<f32> = (0..count).map(|i| (i as f32 * 0.7).sin().abs()).collect();
            let logits: Vec<f32> = (0..count).map(|i| (i as f32 * 1.3).cos() * 20.0).collect();
            let weights: Vec<f32> = (0..rows).map(|i| (i as f32).sin()).collect();
            let run = |f: fn(Tensor<2>, Tensor<2>) -> Tensor<1>| {
                let x = Tensor::from_data(TensorData::new(x.clone(), [rows, size]), &device);
                let logits = TensorData::new(logits.clone(), [rows, size]);
                let logits = Tensor::<2>::from_data(logits, &device).require_grad();
                let value = f(x, logits.clone());
                let weights = Tensor::<1>::from_floats(weights.as_slice(), &device);
                let gradients = (value.clone() * weights).sum().backward();
                (value.inner(), logits.grad(&gradients).unwrap())
            };
            let ((value, gradient), (plain_value, plain_gradient)) =
                (run(log_likelihood), run(plain));
            let scale: f32 = plain_value.clone().abs().max().into_scalar();
            let error: f32 = (value - plain_value).abs().max().into_scalar();
            assert!(error <= 3e-6 * scale, "{rows} x {size}: {error} of {scale}");
            let error: f32 = (gradient - plain_gradient).abs().max().into_scalar();
            assert!(error < 1e-6, "{rows} x {size}: gradient off by {error}");
        }
    }
}
