//! Numbers and parameters that benchmarks draw, the same at each run.

use burn::tensor::{Device, Tensor, TensorData};
use mnemora_memory::Initializer;
use mnemora_worlds::Stream;

/// Standard normal numbers.
pub(super) fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = Stream::new(1, "benchmark").standard_normal(0, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Draws parameters.
pub(super) fn initializer(device: &Device) -> Initializer {
    Initializer::new(Stream::new(1, "parameters").at(0), device.clone())
}
