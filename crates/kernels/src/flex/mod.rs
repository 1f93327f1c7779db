//! Kernels for the CPU backend: fused operations with hand-written gradients.
//!
//! Each replaces a plain composition in this crate if its tensors are on `flex`; `MNEMORA_KERNELS=plain` in the
//! environment switches all of them off. Loops are plain Rust over slices, compiled for several instruction
//! sets. The best one is chosen at run time (`pulp`).

mod conv;
mod dense;
mod graph;
mod memory;
mod ops;
mod probability;
mod recurrent;
mod simd;

pub(crate) use conv::{Kernel, Kind, Options, batch_norm::Found, steps::ConvUses};
pub(crate) use ops::*;
pub(crate) use recurrent::{step_map::MapUses, steps::Uses};

use burn::tensor::{Device, Shape, TensorData};

/// A tensor of the CPU backend.
pub(crate) type Raw = burn_flex::FlexTensor;

/// Whether kernels replace plain compositions for tensors on `device`.
pub(crate) fn fused(device: &Device) -> bool {
    crate::kernels_enabled() && device.clone().inner() == Device::flex()
}

/// The tensor with contiguous elements; a copy if necessary.
fn contiguous(tensor: &Raw) -> Raw {
    match tensor.as_slice::<f32>() {
        Some(_) => tensor.clone(),
        None => tensor.to_contiguous(),
    }
}

fn slice(tensor: &Raw) -> &[f32] {
    tensor
        .as_slice()
        .expect("the tensor was made contiguous and holds 32-bit floats")
}

/// A tensor whose storage holds exactly its elements, in order.
fn exact(tensor: Raw) -> Raw {
    let elements = tensor.layout().num_elements();
    let whole = tensor.as_slice::<f32>().is_some() && tensor.storage::<f32>().len() == elements;
    match whole {
        true => tensor,
        false => tensor.to_contiguous(),
    }
}

fn raw(values: Vec<f32>, shape: impl Into<Shape>) -> Raw {
    Raw::from_data(TensorData::new(values, shape))
}
