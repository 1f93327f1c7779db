//! What tests of the models share: arguments and their elements.

use burn::tensor::{Device, Tensor, TensorData};

/// Numbers between -1 and 1, others for each phase.
pub(crate) fn numbers<const D: usize>(shape: [usize; D], phase: f32, device: &Device) -> Tensor<D> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (0.7 * i as f32 + phase).sin()).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The elements of a tensor in order.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}
