//! Differentiable operations that memories and models share, on Burn tensors.
//!
//! Each operation is a plain composition of Burn operations, so every backend runs it. Some have a
//! fused kernel for the CPU (`flex/`), which takes their place there; the composition stays as its
//! oracle, and `MNEMORA_KERNELS=plain` in the environment brings it back.
//!
//! - [`adam`]: the arithmetic of the optimiser.
//! - [`linear`]: an affine map and its nonlinearity.
//! - [`lstm`]: an LSTM's step, and a whole sequence of them.
//! - [`attention`]: softplus-normalised attention and the read it weighs.
//! - [`conv`]: convolutions and transposed convolutions.
//! - [`batch_norm`]: batch norm over images, with ReLU.
//! - [`content`]: cosine similarity and the weights it gives.
//! - [`dnc`]: a step of a DNC's memory.
//! - [`relation`]: rows of a memory that read from each other, and its gates.
//! - [`highway`]: the gate of a highway layer.
//! - [`product`]: matrix products that are not differentiated.
//! - [`softmax`]: probabilities of words and their normaliser, for a loss whose gradient is written by hand.
//! - [`split`]: a sequence's steps.
//! - [`gaussian`]: Kullback-Leibler divergence, samples and density of diagonal Gaussians.
//! - [`bernoulli`]: log likelihood from logits; [`bins`]: of bins of Gaussians.
//!
//! [`works`] are pieces of work on which they are timed, [`cost`] what these cost at least.

pub mod adam;
pub mod attention;
pub mod batch_norm;
pub mod bernoulli;
pub mod bins;
#[cfg(test)]
#[cfg_attr(not(feature = "flex"), allow(dead_code))]
mod check;
pub mod content;
pub mod conv;
pub mod cost;
pub mod dnc;
#[cfg(feature = "flex")]
mod flex;
pub mod gaussian;
pub mod highway;
pub mod linear;
pub mod lstm;
pub mod product;
pub mod relation;
pub mod softmax;
pub mod split;
pub mod works;

use burn::tensor::{Tensor, activation};
use std::sync::OnceLock;

/// Environment variable that turns the fused kernels off: `plain` for the compositions everywhere.
pub const KERNELS_VARIABLE: &str = "MNEMORA_KERNELS";

/// Whether this process may use the fused kernels; read once from [`KERNELS_VARIABLE`].
pub fn kernels_enabled() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| std::env::var_os(KERNELS_VARIABLE).is_none_or(|value| value != "plain"))
}

/// `softplus(u) = log(1 + exp(u))`, exact at both tails and differentiable at zero.
pub fn softplus<const D: usize>(u: Tensor<D>) -> Tensor<D> {
    activation::log_sigmoid(u.neg()).neg()
}
