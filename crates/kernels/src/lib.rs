//! Differentiable operations on Burn tensors, shared by memories and models.
//!
//! Each operation is a plain composition of Burn operations, so every backend can run it. For some, a fused
//! kernel for the CPU (`flex/`) replaces the composition there. The kernel is tested against the composition,
//! and `MNEMORA_KERNELS=plain` in the environment switches kernels off. For a DNC's step and for a walk with
//! walls only the kernel is here: their compositions are the equations in `mnemora-memory` and `mnemora-models`.
//!
//! - [`adam`]: the arithmetic of the optimiser.
//! - [`linear`]: an affine map and its nonlinearity.
//! - [`lstm`]: an LSTM step, and whole sequences.
//! - [`attention`]: softplus-normalised attention and the weighted read.
//! - [`conv`]: convolutions and transposed convolutions.
//! - [`step_conv`]: a convolution that a time loop uses at every step.
//! - [`batch_norm`]: batch norm over images, with ReLU.
//! - [`content`]: cosine similarity and content-based addressing.
//! - [`dnc`]: a step of a DNC's memory, where there is a fused kernel.
//! - [`relation`]: attention between the rows of a memory, and its gates.
//! - [`highway`]: the gate of a highway layer.
//! - [`product`]: matrix products without gradients.
//! - [`softmax`]: word probabilities and their normaliser, for a loss with a hand-written gradient.
//! - [`split`]: splits a sequence into its steps.
//! - [`gaussian`]: Kullback-Leibler divergence, samples and density of diagonal Gaussians.
//! - [`bernoulli`]: Bernoulli log likelihood from logits.
//! - [`bins`]: log probability of binned numbers under Gaussians.
//! - [`walls`]: a walk with walls, where there is a fused kernel.

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
pub mod step_conv;
pub mod walls;

use burn::tensor::{Tensor, activation};
use std::sync::OnceLock;

/// Environment variable that switches the fused kernels off: with the value `plain`, compositions are used
/// everywhere.
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
