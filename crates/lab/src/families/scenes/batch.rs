//! Batches of scenes on a device, and noise for them.

use burn::tensor::{Device, Tensor, TensorData};
use mnemora_models::Views;
use mnemora_worlds::{FrameShape, Stream, scenes::SceneBatch};

/// `each` views of each scene on a device: frames `[scenes * each, channels, height, width]` and queries
/// `[scenes * each, query]`; `None` if there are none.
pub fn views(
    (frames, frame): (&[f32], FrameShape),
    queries: &[f32],
    each: usize,
    device: &Device,
) -> Option<Views> {
    let FrameShape {
        channels,
        height,
        width,
    } = frame;
    let rows = frames.len() / frame.size();
    (each > 0).then(|| Views {
        frames: Tensor::from_data(
            TensorData::new(frames.to_vec(), [rows, channels, height, width]),
            device,
        ),
        queries: Tensor::from_data(
            TensorData::new(queries.to_vec(), [rows, queries.len() / rows]),
            device,
        ),
        each,
    })
}

/// The context of a batch.
pub fn context(batch: &SceneBatch, device: &Device) -> Option<Views> {
    let frames = (batch.context_frames.as_slice(), batch.frame);
    views(frames, &batch.context_queries, batch.context, device)
}

/// The targets of a batch.
pub fn targets(batch: &SceneBatch, device: &Device) -> Views {
    let frames = (batch.target_frames.as_slice(), batch.frame);
    views(frames, &batch.target_queries, batch.targets, device)
        .expect("every scene is asked something")
}

/// Standard normal numbers, `[rows, width]`.
pub fn normal(stream: &Stream, index: u64, shape: [usize; 2], device: &Device) -> Tensor<2> {
    let values = stream.standard_normal(index, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape), device)
}
