//! The families that come with mnemora, one folder or file each: see [`Family`](crate::experiment::family::Family).

pub mod agents;
pub mod classes;
pub mod copying;
pub mod frames;
mod held_out;
pub mod navigation;
mod own;
pub mod programs;
pub mod recordings;
pub mod scenes;
pub mod supervised;
pub mod tables;
pub mod texts;
mod trainer;

use mnemora_models::ImageShape;
use mnemora_worlds::FrameShape;

/// The shape of a frame as the models know it.
fn image_shape(frame: FrameShape) -> ImageShape {
    let FrameShape {
        channels,
        height,
        width,
    } = frame;
    ImageShape {
        channels,
        height,
        width,
    }
}
