//! Walks on a device.

use burn::tensor::{Device, Tensor, TensorData};
use mnemora_models::Walk;
use mnemora_worlds::Walks;

/// What a training batch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// Steps to memorise.
    pub memorise: usize,
    /// Steps to predict.
    pub predict: usize,
    /// Whether no wall is touched: see `navigation.stages.gate_without_walls`.
    pub without_walls: bool,
}

/// Uploads walks.
pub fn upload(walks: &Walks, device: &Device) -> Walk {
    let frames = TensorData::new(walks.frames.clone(), [walks.distinct(), walks.frame.size()]);
    let shape = [walks.batch, walks.time, walks.actions_count];
    Walk {
        frames: Tensor::from_data(frames, device),
        seen: walks.seen.iter().map(|frame| *frame as usize).collect(),
        actions: Tensor::from_data(TensorData::new(walks.conditions(), shape), device),
    }
}
