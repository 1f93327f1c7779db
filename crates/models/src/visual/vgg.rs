//! The VGG encoder and decoder of SVG (Simonyan and Zisserman 2015; Denton and Fergus 2018).
//!
//! Each level of the encoder has two or three 3x3 convolutions followed by 2x2 max pooling, down to 4x4; one
//! 4x4 convolution makes the features. The decoder mirrors the encoder, with each pixel repeated instead of
//! pooling. It gets the maps of all levels before their pooling, the skips, which are concatenated with its own
//! maps. For 64x64 frames and a width of 64:
//!
//! ```text
//! encoder   [C 64 64]@64 [128 128]@32 [256 256 256]@16 [512 512 512]@8 -> 512@4 -> features
//! decoder   features -> 512@4 [1024 512 512 256]@8 [512 256 256 128]@16 [256 128 64]@32 [128 64]@64 -> outputs@64
//! ```
//!
//! Every convolution except the last is followed by batch norm and a leaky ReLU of slope 0.2; the one that
//! makes the features is followed by batch norm and tanh.

use super::layers::{Block, Convolution, Kernel};
use burn::{
    module::Module,
    tensor::{Tensor, module::max_pool2d, ops::MaxPoolOptions},
};
use mnemora_memory::{Count, Initializer};

/// Keeps the side.
const SAME: Kernel = Kernel {
    size: 3,
    stride: 1,
    padding: 1,
};
/// Between 4x4 and one number per channel.
const WHOLE: Kernel = Kernel {
    size: 4,
    stride: 1,
    padding: 0,
};

/// Convolutions at the same resolution, one after the other.
#[derive(Module, Debug)]
pub struct Level {
    /// In order.
    pub blocks: Vec<Block>,
}

/// Frames to features and skips.
#[derive(Module, Debug)]
pub struct VggEncoder {
    /// From fine to coarse.
    pub levels: Vec<Level>,
    /// To the features.
    pub top: Block,
}

/// Features and skips to outputs.
#[derive(Module, Debug)]
pub struct VggDecoder {
    /// From the features to the coarsest maps.
    pub top: Block,
    /// From coarse to fine.
    pub levels: Vec<Level>,
    /// To the outputs of each pixel.
    pub output: Convolution,
}

/// Number of convolutions of a level; level 0 is the finest.
fn convolutions(level: usize) -> usize {
    if level < 2 { 2 } else { 3 }
}

impl Level {
    /// With these numbers of channels; the first is that of the inputs.
    fn new(channels: &[usize], init: &mut Initializer) -> Self {
        let blocks = channels.windows(2).map(|pair| {
            let convolution = Convolution::new([pair[0], pair[1]], SAME, init);
            Block::new(convolution, init)
        });
        Self {
            blocks: blocks.collect(),
        }
    }

    /// Numbers kept per image with sides of `side` pixels.
    fn kept(&self, side: usize) -> Count {
        self.blocks.iter().map(|block| block.kept(side)).sum()
    }

    /// Number of input channels.
    fn inputs(&self) -> usize {
        let first = self.blocks.first();
        first.map_or(0, |block| block.convolution.weight.shape()[1])
    }

    /// From `[rows, inputs, side, side]` to `[rows, outputs, side, side]`.
    pub fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let blocks = self.blocks.iter();
        blocks.fold(maps, |maps, block| block.forward(maps))
    }
}

impl VggEncoder {
    /// For frames with `frame` channels; `channels` lists those of each level, from fine to coarse.
    pub fn new(frame: usize, channels: &[usize], features: usize, init: &mut Initializer) -> Self {
        let inputs = std::iter::once(&frame).chain(channels);
        let levels = inputs.zip(channels).enumerate();
        let levels = levels.map(|(level, (&inputs, &outputs))| {
            let mut through = vec![outputs; convolutions(level) + 1];
            through[0] = inputs;
            Level::new(&through, init)
        });
        let levels = levels.collect();
        let coarsest = channels.last().copied().unwrap_or(frame);
        let top = Convolution::new([coarsest, features], WHOLE, init);
        Self {
            levels,
            top: Block::new(top, init),
        }
    }

    /// Numbers kept per frame with sides of `side` pixels; skips count twice, because they are split into steps.
    pub fn kept(&self, side: usize) -> Count {
        let levels = self.levels.iter().enumerate();
        let levels = levels.map(|(level, blocks)| {
            let side = side >> level;
            let last = blocks.blocks.last();
            let skip = last.map_or(Count::NONE, |block| block.kept(side));
            blocks.kept(side) + skip
        });
        levels.sum::<Count>() + self.top.kept(1) * 2
    }

    /// From frames `[rows, channels, side, side]` to features `[rows, features]` and the maps of all levels,
    /// from fine to coarse.
    pub fn forward(&self, frames: Tensor<4>) -> (Tensor<2>, Vec<Tensor<4>>) {
        let mut skips = Vec::with_capacity(self.levels.len());
        let mut maps = frames;
        for level in &self.levels {
            let fine = level.forward(maps);
            maps = halve(fine.clone());
            skips.push(fine);
        }
        (self.top.forward_tanh(maps).flatten(1, 3), skips)
    }
}

impl VggDecoder {
    /// To `outputs` numbers per pixel; `channels` as for the encoder.
    pub fn new(
        outputs: usize,
        channels: &[usize],
        features: usize,
        init: &mut Initializer,
    ) -> Self {
        let coarsest = channels.last().copied().unwrap_or(outputs);
        let top = Convolution::transposed([features, coarsest], WHOLE, init);
        let top = Block::new(top, init);
        let levels = channels.iter().enumerate().rev();
        let levels = levels.map(|(level, &own)| {
            let mut through = vec![own; convolutions(level) + 1];
            through[0] = 2 * own;
            match level {
                // The output map is the last convolution of the finest level.
                0 => through.truncate(convolutions(level)),
                _ => through[convolutions(level)] = channels[level - 1],
            }
            Level::new(&through, init)
        });
        let levels = levels.collect();
        let finest = channels.first().copied().unwrap_or(features);
        Self {
            top,
            levels,
            output: Convolution::new([finest, outputs], SAME, init),
        }
    }

    /// Numbers kept per row, for outputs with sides of `side` pixels: maps concatenated with skips, and those of each
    /// block.
    pub fn kept(&self, side: usize) -> Count {
        let count = self.levels.len();
        let levels = self.levels.iter().enumerate();
        let levels = levels.map(|(level, blocks)| {
            let side = side >> (count - 1 - level);
            blocks.kept(side) + Count::product(&[2, blocks.inputs(), side, side])
        });
        self.top.kept(side >> count) + levels.sum::<Count>()
    }

    /// From features `[rows, features]` and the encoder's skips to `[rows, outputs, side, side]`.
    pub fn forward(&self, features: Tensor<2>, mut skips: Vec<Tensor<4>>) -> Tensor<4> {
        let [rows, size] = features.dims();
        let mut maps = self.top.forward(features.reshape([rows, size, 1, 1]));
        for level in &self.levels {
            maps = double(maps);
            if let Some(skip) = skips.pop() {
                maps = Tensor::cat(vec![maps, skip], 1);
            }
            maps = level.forward(maps);
        }
        self.output.forward(maps)
    }
}

/// 2x2 max pooling.
fn halve(maps: Tensor<4>) -> Tensor<4> {
    max_pool2d(maps, MaxPoolOptions::new([2, 2]))
}

/// Repeats each pixel as 2x2 pixels.
fn double(maps: Tensor<4>) -> Tensor<4> {
    let [rows, channels, height, width] = maps.dims();
    maps.reshape([rows * channels * height, 1, width, 1])
        .expand([rows * channels * height, 2, width, 2])
        .reshape([rows, channels, 2 * height, 2 * width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn pixels_are_repeated_and_the_largest_kept() {
        let device = Device::default();
        let numbers = |tensor: Tensor<4>| tensor.into_data().try_into_vec::<f32>().unwrap();
        let image = [[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]];
        let maps = Tensor::<4>::from_floats(image, &device);
        let doubled = double(maps.clone());
        assert_eq!(doubled.dims(), [1, 2, 4, 4]);
        let first = &numbers(doubled.clone())[..8];
        assert_eq!(first, [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
        assert_eq!(numbers(halve(doubled)), numbers(maps.clone()));
        assert_eq!(numbers(halve(maps)), [4.0, 8.0]);
    }
}
