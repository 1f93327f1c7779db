//! The DCGAN encoder and decoder of SVG (Radford et al. 2016; Denton and Fergus 2018).
//!
//! Each level of the encoder halves the side with a 4x4 convolution, down to 4x4; one more convolution makes
//! the features. The decoder mirrors the encoder and gets the maps of all of its levels, the skips, which are
//! concatenated with its own maps. For 64x64 frames and a width of 64:
//!
//! ```text
//! encoder   C@64 -> 64@32 -> 128@16 -> 256@8 -> 512@4 -> features
//! decoder   features -> 512@4 -> [512 + 512] -> 256@8 -> [256 + 256] -> 128@16 -> [128 + 128] -> 64@32
//!           -> [64 + 64] -> outputs@64
//! ```
//!
//! Every convolution except the last is followed by batch norm and a leaky ReLU of slope 0.2; the one that
//! makes the features is followed by batch norm and tanh.

use super::layers::{Block, Convolution, Kernel};
use burn::{module::Module, tensor::Tensor};
use mnemora_memory::{Count, Initializer};

/// Halves or doubles the side.
const HALVING: Kernel = Kernel {
    size: 4,
    stride: 2,
    padding: 1,
};
/// Between 4x4 and one number per channel.
const WHOLE: Kernel = Kernel {
    size: 4,
    stride: 1,
    padding: 0,
};

/// Frames to features and skips.
#[derive(Module, Debug)]
pub struct DcganEncoder {
    /// From fine to coarse.
    pub levels: Vec<Block>,
    /// To the features.
    pub top: Block,
}

/// Features and skips to outputs.
#[derive(Module, Debug)]
pub struct DcganDecoder {
    /// From the features to the coarsest maps.
    pub top: Block,
    /// From coarse to fine.
    pub levels: Vec<Block>,
    /// To the outputs of each pixel.
    pub output: Convolution,
}

impl DcganEncoder {
    /// For frames with `frame` channels; `channels` lists those of each level, from fine to coarse.
    pub fn new(frame: usize, channels: &[usize], features: usize, init: &mut Initializer) -> Self {
        let inputs = std::iter::once(&frame).chain(channels);
        let levels = inputs.zip(channels).map(|(&inputs, &outputs)| {
            let convolution = Convolution::new([inputs, outputs], HALVING, init);
            Block::new(convolution, init)
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
        let levels = levels.map(|(level, block)| {
            let kept = block.kept(side >> (level + 1));
            kept + kept.divided_by(2)
        });
        levels.sum::<Count>() + self.top.kept(1) * 2
    }

    /// From frames `[rows, channels, side, side]` to features `[rows, features]` and the maps of all levels,
    /// from fine to coarse.
    pub fn forward(&self, frames: Tensor<4>) -> (Tensor<2>, Vec<Tensor<4>>) {
        let mut skips = Vec::with_capacity(self.levels.len());
        let mut maps = frames;
        for level in &self.levels {
            maps = level.forward(maps);
            skips.push(maps.clone());
        }
        (self.top.forward_tanh(maps).flatten(1, 3), skips)
    }
}

impl DcganDecoder {
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
        let pairs = channels.windows(2).rev();
        let levels = pairs.map(|pair| {
            let convolution = Convolution::transposed([2 * pair[1], pair[0]], HALVING, init);
            Block::new(convolution, init)
        });
        let levels = levels.collect();
        let finest = channels.first().copied().unwrap_or(features);
        Self {
            top,
            levels,
            output: Convolution::transposed([2 * finest, outputs], HALVING, init),
        }
    }

    /// Numbers kept per row, for outputs with sides of `side` pixels: maps concatenated with skips, and those of each
    /// block.
    pub fn kept(&self, side: usize) -> Count {
        let coarsest = side >> (self.levels.len() + 1);
        let levels = self.levels.iter().enumerate();
        let levels = levels.map(|(level, block)| {
            let before = coarsest << level;
            let beside = Count::product(&[block.convolution.weight.shape()[0], before, before]);
            block.kept(2 * before) + beside + beside.divided_by(2)
        });
        let last = side / 2;
        let output = Count::product(&[2, self.output.weight.shape()[0], last, last]);
        self.top.kept(coarsest) + levels.sum::<Count>() + output
    }

    /// From features `[rows, features]` and the encoder's skips to `[rows, outputs, side, side]`.
    pub fn forward(&self, features: Tensor<2>, mut skips: Vec<Tensor<4>>) -> Tensor<4> {
        let [rows, size] = features.dims();
        let mut maps = self.top.forward(features.reshape([rows, size, 1, 1]));
        let mut beside = |maps| match skips.pop() {
            Some(skip) => Tensor::cat(vec![maps, skip], 1),
            None => maps,
        };
        for level in &self.levels {
            maps = level.forward(beside(maps));
        }
        self.output.forward(beside(maps))
    }
}
