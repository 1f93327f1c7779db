//! Range checks: they panic, naming the memory, if its weights, usage or links leave their range.
//!
//! A check reads numbers back at every step. That takes a tenth of the training time and makes a graphics card
//! wait. So checks are off unless the environment variable `MNEMORA_CHECKS` switches them on; it is read once.

use burn::tensor::Tensor;
use std::sync::OnceLock;

/// The environment variable that switches checks on.
pub const CHECKS_VARIABLE: &str = "MNEMORA_CHECKS";

/// Tolerance for accumulated rounding errors.
const TOLERANCE: f32 = 1e-4;

static ON: OnceLock<bool> = OnceLock::new();

/// Whether memories check ranges in this process.
/// The first call decides, unless [`set_range_checks`] was called before: checks are on if `MNEMORA_CHECKS` is
/// `ranges` or `tests`. `.cargo/config.toml` of this repository sets `tests` for all tests.
pub fn range_checks() -> bool {
    *ON.get_or_init(|| {
        std::env::var_os(CHECKS_VARIABLE).is_some_and(|value| value == "ranges" || value == "tests")
    })
}

/// Switches range checks on or off for this process, whatever `MNEMORA_CHECKS` says. Call it before the first
/// step of any memory, because the first decision is final. Returns whether the setting now is `on`.
pub fn set_range_checks(on: bool) -> bool {
    *ON.get_or_init(|| on) == on
}

/// Checks that every row of `weights` along its last dimension is a distribution; if `complete` is false, it may
/// sum to less than one.
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

/// Checks that every element of `values` is within `[low, high]`.
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
