//! The convolutional networks of gtmm, Appendix B.1.
//!
//! A 32x32 canvas goes through two blocks. Each has four parallel convolutions (kernels 1, 3, 5, 7)
//! and one that halves the size: 32 to 16 to 8. The decoder is the transpose. Batch norm takes
//! its statistics over all frames of a call, that is, over batch and time.

use super::{ImageShape, layers};
use crate::ModelError;
use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, Linear, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig},
    },
    tensor::{Tensor, ops::PadMode},
};
use mnemora_kernels::conv::{conv2d, conv2d_bank, transposed_conv2d};
use mnemora_memory::{Count, Initializer};

/// Side of the canvas that frames are padded to.
const CANVAS: usize = 32;
/// Kernel sizes of the parallel streams.
const KERNELS: [usize; 4] = [1, 3, 5, 7];
/// Channels of one stream and of a block.
const STREAM: usize = 8;
const BLOCK: usize = STREAM * KERNELS.len();
/// Channels and side of the last feature maps.
const TOP: usize = 64;
const TOP_SIDE: usize = CANVAS / 4;
/// Each batch keeps 0.99 of the running statistics.
const MOMENTUM: f64 = 0.01;

/// Four parallel convolutions that keep the size, then batch norm and ReLU.
#[derive(Module, Debug)]
pub struct Streams {
    /// One convolution for each kernel size.
    pub convolutions: Vec<Conv2d>,
    /// Over the concatenated streams.
    pub norm: BatchNorm,
}

/// Frames to features.
#[derive(Module, Debug)]
pub struct InceptionEncoder {
    /// First block's streams.
    pub streams_1: Streams,
    /// 32 to 16.
    pub halve_1: Conv2d,
    /// After `halve_1`.
    pub norm_1: BatchNorm,
    /// Second block's streams.
    pub streams_2: Streams,
    /// 16 to 8, without batch norm or ReLU after it.
    pub halve_2: Conv2d,
    /// From the flattened maps to features.
    pub features: Linear,
    height: usize,
    width: usize,
    channels: usize,
}

/// `[z; psi]` to pixels: the encoder with transposed convolutions. (One of stride 1 is a
/// convolution with its kernel flipped, so the streams are convolutions here too.)
#[derive(Module, Debug)]
pub struct InceptionDecoder {
    /// To the top maps.
    pub top: Linear,
    /// 8 to 16.
    pub double_1: ConvTranspose2d,
    /// After `double_1`.
    pub norm_1: BatchNorm,
    /// Streams at 16.
    pub streams_1: Streams,
    /// 16 to 32.
    pub double_2: ConvTranspose2d,
    /// After `double_2`.
    pub norm_2: BatchNorm,
    /// Streams at 32.
    pub streams_2: Streams,
    /// 1x1, to the frame's channels.
    pub output: Conv2d,
    height: usize,
    width: usize,
    channels: usize,
}

fn convolution(
    [inputs, outputs]: [usize; 2],
    kernel: usize,
    stride: usize,
    init: &mut Initializer,
) -> Conv2d {
    let bound = 1.0 / ((inputs * kernel * kernel) as f64).sqrt();
    let half = kernel / 2;
    let mut layer = Conv2dConfig::new([inputs, outputs], [kernel, kernel])
        .with_stride([stride, stride])
        .with_padding(PaddingConfig2d::Explicit(half, half, half, half))
        .init(init.device());
    layer.weight = init.uniform([outputs, inputs, kernel, kernel], bound);
    layer.bias = Some(init.uniform([outputs], bound));
    layer
}

fn doubling([inputs, outputs]: [usize; 2], init: &mut Initializer) -> ConvTranspose2d {
    let bound = 1.0 / ((inputs * 9) as f64).sqrt();
    let mut layer = ConvTranspose2dConfig::new([inputs, outputs], [3, 3])
        .with_stride([2, 2])
        .with_padding([1, 1])
        .with_padding_out([1, 1])
        .init(init.device());
    layer.weight = init.uniform([inputs, outputs, 3, 3], bound);
    layer.bias = Some(init.uniform([outputs], bound));
    layer
}

/// Batch norm and ReLU.
fn normalise(norm: &BatchNorm, maps: Tensor<4>) -> Tensor<4> {
    layers::normalise(norm, maps, 0.0)
}

fn weight_and_bias(layer: &Conv2d) -> (Tensor<4>, Tensor<1>) {
    let bias = layer.bias.as_ref().expect("these layers have a bias").val();
    (layer.weight.val(), bias)
}

/// A square convolution that keeps the size, divided by its stride.
fn convolve(layer: &Conv2d, maps: Tensor<4>) -> Tensor<4> {
    let (weight, bias) = weight_and_bias(layer);
    let half = weight.dims()[2] / 2;
    conv2d(maps, weight, bias, layer.stride[0], half)
}

fn double(layer: &ConvTranspose2d, maps: Tensor<4>) -> Tensor<4> {
    let bias = layer.bias.as_ref().expect("these layers have a bias").val();
    transposed_conv2d(maps, layer.weight.val(), bias, 2, 1, 1)
}

fn batch_norm(channels: usize, init: &Initializer) -> BatchNorm {
    BatchNormConfig::new(channels)
        .with_momentum(MOMENTUM)
        .init(init.device())
}

impl Streams {
    fn new(inputs: usize, init: &mut Initializer) -> Self {
        Self {
            convolutions: KERNELS
                .iter()
                .map(|&kernel| convolution([inputs, STREAM], kernel, 1, init))
                .collect(),
            norm: batch_norm(BLOCK, init),
        }
    }

    fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let kernels = self.convolutions.iter().map(weight_and_bias).collect();
        normalise(&self.norm, conv2d_bank(maps, kernels))
    }
}

fn check_size(frame: ImageShape) -> Result<(), ModelError> {
    let ImageShape { height, width, .. } = frame;
    if height > CANVAS || width > CANVAS {
        return Err(ModelError::FrameTooLarge { height, width });
    }
    Ok(())
}

impl InceptionEncoder {
    /// An encoder of `frame`s of at most 32x32 pixels.
    pub fn new(
        frame: ImageShape,
        features: usize,
        init: &mut Initializer,
    ) -> Result<Self, ModelError> {
        check_size(frame)?;
        Ok(Self {
            streams_1: Streams::new(frame.channels, init),
            halve_1: convolution([BLOCK, BLOCK], 3, 2, init),
            norm_1: batch_norm(BLOCK, init),
            streams_2: Streams::new(BLOCK, init),
            halve_2: convolution([BLOCK, TOP], 3, 2, init),
            features: init.linear(TOP * TOP_SIDE * TOP_SIDE, features),
            height: frame.height,
            width: frame.width,
            channels: frame.channels,
        })
    }

    /// Numbers kept per frame: the maps before and after each batch norm.
    pub fn kept(&self) -> Count {
        let maps = |channels: usize, side: usize| Count::product(&[channels, side, side]);
        let (half, features) = (CANVAS / 2, self.features.weight.shape()[1]);
        maps(self.channels, CANVAS) * 2
            + maps(2 * BLOCK, CANVAS)
            + maps(4 * BLOCK, half)
            + maps(TOP, TOP_SIDE)
            + 2 * features
    }

    /// From frames `[rows, pixels]` in `[0, 1]` to features `[rows, features]`.
    pub fn forward(&self, frames: Tensor<2>) -> Tensor<2> {
        let maps = self.maps(frames);
        self.features.forward(maps.flatten(1, 3))
    }

    /// From frames to the last feature maps, `[rows, 64, 8, 8]`.
    pub fn maps(&self, frames: Tensor<2>) -> Tensor<4> {
        let [rows, _] = frames.dims();
        let (top, left) = margins(self.height, self.width);
        let bottom = CANVAS - self.height - top;
        let right = CANVAS - self.width - left;
        // Intensities are mapped to (-1, 1); the margin is black.
        let canvas = frames
            .mul_scalar(2.0)
            .sub_scalar(1.0)
            .reshape([rows, self.channels, self.height, self.width])
            .pad([(top, bottom), (left, right)], PadMode::Constant(-1.0));
        let maps = convolve(&self.halve_1, self.streams_1.forward(canvas));
        let maps = normalise(&self.norm_1, maps);
        convolve(&self.halve_2, self.streams_2.forward(maps))
    }
}

impl InceptionDecoder {
    /// A decoder of `frame`s of at most 32x32 pixels.
    pub fn new(
        frame: ImageShape,
        inputs: usize,
        init: &mut Initializer,
    ) -> Result<Self, ModelError> {
        check_size(frame)?;
        Ok(Self {
            top: init.linear(inputs, TOP * TOP_SIDE * TOP_SIDE),
            double_1: doubling([TOP, BLOCK], init),
            norm_1: batch_norm(BLOCK, init),
            streams_1: Streams::new(BLOCK, init),
            double_2: doubling([BLOCK, BLOCK], init),
            norm_2: batch_norm(BLOCK, init),
            streams_2: Streams::new(BLOCK, init),
            output: convolution([BLOCK, frame.channels], 1, 1, init),
            height: frame.height,
            width: frame.width,
            channels: frame.channels,
        })
    }

    /// Numbers kept per row, between its input and the outputs; for the finest maps this includes their
    /// gradient.
    pub fn kept(&self) -> Count {
        let maps = |channels: usize, side: usize| Count::product(&[channels, side, side]);
        maps(TOP, TOP_SIDE)
            + maps(4 * BLOCK, CANVAS / 2)
            + maps(5 * BLOCK, CANVAS)
            + maps(self.channels, CANVAS)
    }

    /// From `[rows, inputs]` to outputs `[rows, pixels]`.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let [rows, _] = input.dims();
        let maps = self
            .top
            .forward(input)
            .reshape([rows, TOP, TOP_SIDE, TOP_SIDE]);
        let maps = normalise(&self.norm_1, double(&self.double_1, maps));
        let maps = self.streams_1.forward(maps);
        let maps = normalise(&self.norm_2, double(&self.double_2, maps));
        let maps = convolve(&self.output, self.streams_2.forward(maps));
        let (top, left) = margins(self.height, self.width);
        maps.slice([
            0..rows,
            0..self.channels,
            top..top + self.height,
            left..left + self.width,
        ])
        .reshape([rows, self.channels * self.height * self.width])
    }
}

/// Rows above and columns left of a frame in the middle of the canvas.
fn margins(height: usize, width: usize) -> (usize, usize) {
    ((CANVAS - height) / 2, (CANVAS - width) / 2)
}
