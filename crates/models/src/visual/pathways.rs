//! The networks for frames of 3-D environments of gtmm, Appendix B.2: one pathway for the whole frame, and one for local
//! textures. For 32x32 frames and a width of 128:
//!
//! ```text
//! global    C@32 -> 128@10 -> 256@4 -> 256@1
//! local     C@32 -> 16@16 -> 8@8
//! features  linear(256 + 512, features)
//! ```
//!
//! The decoder is the transpose; the outputs of its pathways are added. ReLUs lie between layers.

use super::ImageShape;
use super::layers::{Filter, Kernel};
use crate::ModelError;
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Tensor, activation::relu},
};
use mnemora_memory::{Count, Initializer};

/// Rows and columns of a frame.
const SIDE: usize = 32;
/// Layers of the global pathway, with the side of their maps.
const GLOBAL: [(Kernel, usize); 3] = [
    (Kernel::new(5, 3, 0), 10),
    (Kernel::new(4, 2, 0), 4),
    (Kernel::new(4, 1, 0), 1),
];
/// Layers of the local pathway, with the side of their maps.
const LOCAL: [(Kernel, usize); 2] = [(Kernel::new(4, 2, 1), 16), (Kernel::new(4, 2, 1), 8)];
/// Channels of the local pathway's maps.
const LOCAL_CHANNELS: [usize; 2] = [16, 8];

/// Frames to features.
#[derive(Module, Debug)]
pub struct PathwaysEncoder {
    /// The global pathway, from fine to coarse.
    pub whole: Vec<Filter>,
    /// The pathway of local textures, from fine to coarse.
    pub local: Vec<Filter>,
    /// From both to the features.
    pub features: Linear,
    channels: usize,
}

/// `[z; psi]` to outputs: the encoder with transposed convolutions.
#[derive(Module, Debug)]
pub struct PathwaysDecoder {
    /// To the coarsest maps of both pathways.
    pub top: Linear,
    /// The global pathway, from coarse to fine.
    pub whole: Vec<Filter>,
    /// The pathway of local textures, from coarse to fine.
    pub local: Vec<Filter>,
}

/// Channels before and after each layer of the encoder's pathways.
fn channels(frame: usize, width: usize) -> ([usize; 4], [usize; 3]) {
    let [first, second] = LOCAL_CHANNELS;
    ([frame, width, 2 * width, 2 * width], [frame, first, second])
}

/// Numbers of both pathways' last maps.
fn coarsest(width: usize) -> [usize; 2] {
    let side = LOCAL[1].1;
    [2 * width, LOCAL_CHANNELS[1] * side * side]
}

fn check(frame: ImageShape, width: usize) -> Result<(), ModelError> {
    ModelError::require_positive(&[("visual_width", width)])?;
    let ImageShape { height, width, .. } = frame;
    match [height, width] {
        [SIDE, SIDE] => Ok(()),
        _ => Err(ModelError::PathwaysFrame { height, width }),
    }
}

/// Maps before and after each ReLU of both pathways.
fn kept(width: usize) -> Count {
    let (whole, local) = channels(0, width);
    let sides = GLOBAL.iter().zip(&whole[1..]);
    let sides = sides.chain(LOCAL.iter().zip(&local[1..]));
    sides
        .map(|((_, side), channels)| Count::product(&[2, *channels, *side, *side]))
        .sum()
}

impl PathwaysEncoder {
    /// An encoder of 32x32 `frame`s; `width` are the channels of the global pathway's first maps.
    ///
    /// # Errors
    /// If frames have another size, or `width` is 0.
    pub fn new(
        frame: ImageShape,
        width: usize,
        features: usize,
        init: &mut Initializer,
    ) -> Result<Self, ModelError> {
        check(frame, width)?;
        let (whole, local) = channels(frame.channels, width);
        let mut layers = |channels: &[usize], kernels: &[(Kernel, usize)]| {
            let pairs = channels.windows(2).zip(kernels);
            pairs
                .map(|(pair, (of, _))| Filter::before_relu([pair[0], pair[1]], *of, init))
                .collect()
        };
        let (whole, local) = (layers(&whole, &GLOBAL), layers(&local, &LOCAL));
        Ok(Self {
            whole,
            local,
            features: init.xavier(coarsest(width).iter().sum(), features, 1),
            channels: frame.channels,
        })
    }

    /// Numbers kept per frame: the frame itself, and each layer's maps.
    pub fn kept(&self) -> Count {
        let width = self.whole[0].bias.shape()[0];
        let [inputs, features] = self.features.weight.dims();
        Count::product(&[self.channels, SIDE, SIDE]) + kept(width) + inputs + features
    }

    /// From frames `[rows, pixels]` in `[0, 1]` to features `[rows, features]`.
    pub fn forward(&self, frames: Tensor<2>) -> Tensor<2> {
        let [rows, _] = frames.dims();
        let centred = frames.mul_scalar(2.0).sub_scalar(1.0);
        let maps = centred.reshape([rows, self.channels, SIDE, SIDE]);
        let follow = |layers: &[Filter], kernels: &[(Kernel, usize)]| {
            let layers = layers.iter().zip(kernels);
            let top = layers.fold(maps.clone(), |maps, (layer, (of, _))| {
                relu(layer.forward(maps, *of))
            });
            top.flatten::<2>(1, 3)
        };
        let whole = follow(&self.whole, &GLOBAL);
        let local = follow(&self.local, &LOCAL);
        self.features.forward(Tensor::cat(vec![whole, local], 1))
    }
}

impl PathwaysDecoder {
    /// A decoder of 32x32 `frame`s from `inputs` numbers that gives `parameters` numbers per pixel.
    ///
    /// # Errors
    /// If frames have another size, or `width` is 0.
    pub fn new(
        frame: ImageShape,
        width: usize,
        inputs: usize,
        parameters: usize,
        init: &mut Initializer,
    ) -> Result<Self, ModelError> {
        check(frame, width)?;
        let (whole, local) = channels(parameters * frame.channels, width);
        let mut layers = |channels: &[usize], kernels: &[(Kernel, usize)]| {
            let pairs = channels.windows(2).zip(kernels).rev();
            pairs
                .map(|(pair, (of, _))| {
                    Filter::transposed_before_relu([pair[1], pair[0]], *of, init)
                })
                .collect()
        };
        let (whole, local) = (layers(&whole, &GLOBAL), layers(&local, &LOCAL));
        Ok(Self {
            top: init.xavier(inputs, coarsest(width).iter().sum(), 1),
            whole,
            local,
        })
    }

    /// Numbers kept per row, between its input and the outputs.
    pub fn kept(&self) -> Count {
        let width = self.whole[0].weight.shape()[0] / 2;
        let outputs = self.local[1].bias.shape()[0];
        kept(width) + Count::product(&[2, outputs, SIDE, SIDE])
    }

    /// From `[rows, inputs]` to outputs `[rows, parameters * pixels]`: the first parameter of all pixels, then the next.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let [rows, _] = input.dims();
        let top = relu(self.top.forward(input));
        let side = LOCAL[1].1;
        let whole = self.whole[0].weight.shape()[0];
        let [_, width] = top.dims();
        let global = top.clone().narrow(1, 0, whole);
        let local = top.narrow(1, whole, width - whole);
        let follow = |maps: Tensor<4>, layers: &[Filter], kernels: &[(Kernel, usize)]| {
            let last = layers.len() - 1;
            let layers = layers.iter().zip(kernels.iter().rev()).enumerate();
            layers.fold(maps, |maps, (place, (layer, (of, _)))| {
                let maps = layer.back(maps, *of);
                if place == last { maps } else { relu(maps) }
            })
        };
        let global = follow(global.reshape([rows, whole, 1, 1]), &self.whole, &GLOBAL);
        let local = local.reshape([rows, LOCAL_CHANNELS[1], side, side]);
        let pixels = global + follow(local, &self.local, &LOCAL);
        pixels.flatten(1, 3)
    }
}
