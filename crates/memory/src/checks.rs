//! Range checks: with the feature `range-checks`, a memory whose weights, usage or links leave
//! their range stops with its name. Without it nothing here costs anything.

use burn::tensor::Tensor;

/// How much rounding may add up to.
#[cfg(feature = "range-checks")]
const TOLERANCE: f32 = 1e-4;

/// Every row of `weights` along its last dimension is a distribution, or part of one where
/// `complete` is false.
#[cfg(feature = "range-checks")]
pub(crate) fn weights<const D: usize>(
    memory: &str,
    what: &str,
    weights: &Tensor<D>,
    complete: bool,
) {
    let smallest: f32 = weights.clone().min().into_scalar();
    let sums = weights.clone().sum_dim(D - 1);
    let largest: f32 = sums.clone().max().into_scalar();
    let least: f32 = sums.min().into_scalar();
    // Written so that a number that is no number fails.
    assert!(
        smallest >= -TOLERANCE
            && largest <= 1.0 + TOLERANCE
            && (!complete || least >= 1.0 - TOLERANCE),
        "{memory}: {what} out of range (smallest {smallest}, row sums from {least} to {largest})"
    );
}

/// Every element of `values` is within `[low, high]`.
#[cfg(feature = "range-checks")]
pub(crate) fn range<const D: usize>(
    memory: &str,
    what: &str,
    values: &Tensor<D>,
    [low, high]: [f32; 2],
) {
    let smallest: f32 = values.clone().min().into_scalar();
    let largest: f32 = values.clone().max().into_scalar();
    assert!(
        smallest >= low - TOLERANCE && largest <= high + TOLERANCE,
        "{memory}: {what} out of range (from {smallest} to {largest})"
    );
}

#[cfg(not(feature = "range-checks"))]
pub(crate) fn weights<const D: usize>(_: &str, _: &str, _: &Tensor<D>, _: bool) {}

#[cfg(not(feature = "range-checks"))]
pub(crate) fn range<const D: usize>(_: &str, _: &str, _: &Tensor<D>, _: [f32; 2]) {}
