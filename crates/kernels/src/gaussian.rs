//! Diagonal Gaussians.

use burn::tensor::Tensor;

/// `0.5 * ln(2 pi)`
const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_7;

/// `KL(q || p)` of two diagonal Gaussians, summed over the last axis, in nats.
///
/// `sum_i [ log s_p - log s_q + (s_q^2 + (m_q - m_p)^2) / (2 s_p^2) - 1/2 ]`
///
/// # Shapes
/// All arguments `[rows, latent]`; returns `[rows]`.
pub fn kl_divergence(
    mean_q: Tensor<2>,
    log_std_q: Tensor<2>,
    mean_p: Tensor<2>,
    log_std_p: Tensor<2>,
) -> Tensor<1> {
    let log_ratio = log_std_q - log_std_p.clone();
    let distance = (mean_q - mean_p) * log_std_p.neg().exp();
    let terms = (log_ratio.clone().mul_scalar(2.0).exp() + distance.powi_scalar(2)).mul_scalar(0.5)
        - log_ratio;
    let latent = terms.dims()[1] as f64;
    terms.sum_dim(1).sub_scalar(0.5 * latent).squeeze_dim(1)
}

/// `log N(x; mean, std^2)` with one standard deviation for all elements, summed over the last
/// axis, in nats.
///
/// # Shapes
/// `x`, `mean`: `[rows, size]`; returns `[rows]`.
pub fn log_density(x: Tensor<2>, mean: Tensor<2>, std: f64) -> Tensor<1> {
    let size = x.dims()[1] as f64;
    let squares = (x - mean).powi_scalar(2).sum_dim(1).squeeze_dim::<1>(1);
    squares
        .mul_scalar(-0.5 / (std * std))
        .sub_scalar(size * (std.ln() + HALF_LOG_TWO_PI))
}
