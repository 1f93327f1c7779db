//! Bernoulli likelihood from logits.

use burn::tensor::{Tensor, activation};

/// `log p(x | logit l) = x l - softplus(l)`, summed over the last axis, in nats.
///
/// `x` may lie anywhere in `[0, 1]` (soft targets).
///
/// # Shapes
/// `x`, `logits`: `[rows, size]`; returns `[rows]`.
pub fn log_likelihood(x: Tensor<2>, logits: Tensor<2>) -> Tensor<1> {
    // -softplus(l) = log sig(-l)
    (x * logits.clone() + activation::log_sigmoid(logits.neg()))
        .sum_dim(1)
        .squeeze_dim(1)
}
