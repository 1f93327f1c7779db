//! Range checks: a memory whose weights, usage or links leave their range stops with its name.
//!
//! A check reads numbers back at every step, which takes a tenth of a training's time and makes a
//! graphics card wait. So checks are off unless the environment variable `MNEMORA_CHECKS` switches
//! them on, which is read once. One build serves both.

use burn::tensor::Tensor;
use std::sync::OnceLock;

/// The variable that switches checks on.
pub const CHECKS_VARIABLE: &str = "MNEMORA_CHECKS";

/// How much rounding may add up to.
const TOLERANCE: f32 = 1e-4;

static ON: OnceLock<bool> = OnceLock::new();

/// Whether memories check ranges in this process.
///
/// The first call decides, unless [`set_range_checks`] did: they do where `MNEMORA_CHECKS` is
/// `ranges`, or `tests`, as `.cargo/config.toml` of this repository has it for all tests.
pub fn range_checks() -> bool {
    *ON.get_or_init(|| {
        std::env::var_os(CHECKS_VARIABLE).is_some_and(|value| value == "ranges" || value == "tests")
    })
}

/// Decides whether memories check ranges in this process, whatever `MNEMORA_CHECKS` says. To be
/// called before the first step of a memory: a decision stays. Returns whether it now is `on`.
pub fn set_range_checks(on: bool) -> bool {
    *ON.get_or_init(|| on) == on
}

/// Every row of `weights` along its last dimension is a distribution, or part of one where
/// `complete` is false.
pub(crate) fn weights<const D: usize>(
    memory: &str,
    what: &str,
    weights: &Tensor<D>,
    complete: bool,
) {
    if !range_checks() {
        return;
    }
    let smallest: f32 = weights.clone().min().into_scalar();
    let sums = weights.clone().sum_dim(D - 1);
    let largest: f32 = sums.clone().max().into_scalar();
    let least: f32 = sums.min().into_scalar();
    // Written so that a NaN fails.
    assert!(
        smallest >= -TOLERANCE
            && largest <= 1.0 + TOLERANCE
            && (!complete || least >= 1.0 - TOLERANCE),
        "{memory}: {what} out of range (smallest {smallest}, row sums from {least} to {largest})"
    );
}

/// Every element of `values` is within `[low, high]`.
pub(crate) fn range<const D: usize>(
    memory: &str,
    what: &str,
    values: &Tensor<D>,
    [low, high]: [f32; 2],
) {
    if !range_checks() {
        return;
    }
    let smallest: f32 = values.clone().min().into_scalar();
    let largest: f32 = values.clone().max().into_scalar();
    assert!(
        smallest >= low - TOLERANCE && largest <= high + TOLERANCE,
        "{memory}: {what} out of range (from {smallest} to {largest})"
    );
}
