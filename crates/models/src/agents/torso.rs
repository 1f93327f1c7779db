//! From what an agent sees to the input of its core.

use crate::{
    ImageShape, ModelError,
    mlp::{Activation, apply},
};
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Device, Tensor, TensorData, activation::relu},
};
use mnemora_kernels::conv::{conv2d, conv2d_same};
use mnemora_memory::{Count, Initializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of a [`Torso`]. The defaults are those of Santoro et al. 2018, appendix A.3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TorsoConfig {
    /// Channels of the two convolutions, for pictures.
    pub channels: [usize; 2],
    /// Rows and columns of their kernels.
    pub kernels: [usize; 2],
    /// Their strides. With 1 the size of the picture is kept.
    pub strides: [usize; 2],
    /// Whether the maps are max-pooled over all places before the heads and before a core that takes a vector. What is near
    /// the agent then looks the same wherever it stands.
    pub pool: bool,
    /// Whether the numbers of a picture are brought to a mean of 0 and a deviation of 1, by channel, before the convolutions.
    /// Both are measured in the first frames of agents that act at random.
    pub standardise: bool,
    /// Units of the dense layer that replaces the convolutions if an observation has a single row.
    pub units: usize,
}

impl Default for TorsoConfig {
    fn default() -> Self {
        Self {
            channels: [12, 24],
            kernels: [2, 2],
            strides: [1, 1],
            pool: false,
            standardise: false,
            units: 64,
        }
    }
}

/// Brings the numbers of a picture to a mean of 0 and a deviation of 1. Both are measured, see
/// [`Torso::standardise`], and not learned.
#[derive(Module, Debug)]
pub struct Standard {
    /// Of each channel, `[channels]`; 0 before it is measured.
    pub mean: Param<Tensor<1>>,
    /// Of each channel, `[channels]`; 1 before it is measured, and for a channel that never changes.
    pub deviation: Param<Tensor<1>>,
}

/// The deviation below which a channel never changes.
const NEVER_CHANGES: f32 = 1e-4;

impl Standard {
    fn new(channels: usize, init: &mut Initializer) -> Self {
        Self {
            mean: init.constant([channels], 0.0).set_require_grad(false),
            deviation: init.constant([channels], 1.0).set_require_grad(false),
        }
    }

    /// Measures `[rows, channels, height, width]`.
    fn of(frames: Tensor<4>) -> Self {
        let (channels, device) = (frames.dims()[1], frames.device());
        let numbers = frames.swap_dims(0, 1).flatten::<2>(1, 3);
        let mean = numbers.clone().mean_dim(1);
        let deviation = (numbers - mean.clone()).square().mean_dim(1).sqrt();
        let never = deviation.clone().lower_elem(NEVER_CHANGES);
        let one = |number: Tensor<2>| {
            let number = number.reshape([channels]).into_data();
            Param::from_tensor(Tensor::from_data(number, &device)).set_require_grad(false)
        };
        Self {
            mean: one(mean),
            deviation: one(deviation.mask_fill(never, 1.0)),
        }
    }

    fn forward(&self, frames: Tensor<4>) -> Tensor<4> {
        let channels = frames.dims()[1];
        let of = |number: &Param<Tensor<1>>| number.val().reshape([1, channels, 1, 1]);
        (frames - of(&self.mean)) / of(&self.deviation)
    }
}

/// A convolution, followed by a ReLU. With a stride of 1 the picture keeps its size: it is padded with zeros, and for an
/// even kernel with one more row at the bottom and one more column at the right.
#[derive(Module, Debug)]
pub struct TorsoLayer {
    /// `[outputs, inputs, kernel, kernel]`
    pub weight: Param<Tensor<4>>,
    /// `[outputs]`
    pub bias: Param<Tensor<1>>,
    stride: usize,
}

impl TorsoLayer {
    /// Uniform within `1 / sqrt(inputs * kernel^2)`.
    fn new(
        [inputs, outputs]: [usize; 2],
        kernel: usize,
        stride: usize,
        init: &mut Initializer,
    ) -> Self {
        let bound = 1.0 / ((inputs * kernel * kernel) as f64).sqrt();
        Self {
            weight: init.uniform([outputs, inputs, kernel, kernel], bound),
            bias: init.parameter([outputs], |_| vec![0.0; outputs]),
            stride,
        }
    }

    fn forward(&self, pictures: Tensor<4>) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        relu(match self.stride {
            1 => conv2d_same(pictures, weight, bias),
            stride => conv2d(pictures, weight, bias, stride, 0),
        })
    }
}

/// The side of the maps that a convolution makes of a picture's; `None` if the picture is too small.
fn side(of: usize, kernel: usize, stride: usize) -> Option<usize> {
    match stride {
        1 => Some(of),
        stride => Some(of.checked_sub(kernel)? / stride + 1),
    }
}

/// Two convolutions with ReLUs, or, for what has a single row, one layer of units with a ReLU. Two planes tell where a pixel is;
/// they are joined to the convolutions' maps or, if these are pooled, to the picture.
#[derive(Module, Debug)]
pub struct Torso {
    /// Before the convolutions, if it standardises pictures.
    pub standard: Option<Standard>,
    /// The convolutions; none for what has a single row.
    pub convolutions: Vec<TorsoLayer>,
    /// The layer; none for pictures.
    pub layer: Option<Linear>,
    /// Channels, rows and columns of the maps.
    maps: [usize; 3],
    pool: bool,
    /// Numbers of a frame that its layers make.
    made: usize,
}

impl TorsoConfig {
    /// Channels, rows and columns of the maps, and the numbers that all layers make.
    fn maps(&self, sees: ImageShape) -> Result<([usize; 3], usize), ModelError> {
        let [first, last] = self.channels;
        ModelError::require_positive(&[
            ("torso.channels", first.min(last)),
            ("torso.kernels", self.kernels[0].min(self.kernels[1])),
            ("torso.strides", self.strides[0].min(self.strides[1])),
            ("torso.units", self.units),
        ])?;
        if sees.height == 1 {
            return Ok(([self.units, 1, 1], self.units));
        }
        let mut sides = [sees.height, sees.width];
        let mut made = if self.standardise { sees.size() } else { 0 };
        let layers = self.channels.into_iter().zip(self.kernels);
        for ((channels, kernel), stride) in layers.zip(self.strides) {
            for of in &mut sides {
                *of = side(*of, kernel, stride).ok_or(ModelError::KernelTooLarge {
                    key: "torso.kernels",
                    kernel,
                    side: *of,
                })?;
            }
            made += channels * sides[0] * sides[1];
        }
        // Two planes for rows and columns.
        let last = if self.pool { last } else { last + 2 };
        let maps = [last, sides[0], sides[1]];
        Ok((maps, made + maps.iter().product::<usize>()))
    }

    /// Builds the torso for what has this shape.
    ///
    /// # Errors
    /// If a size is zero, or a picture is smaller than a kernel.
    pub fn init(&self, sees: ImageShape, init: &mut Initializer) -> Result<Torso, ModelError> {
        let (maps, made) = self.maps(sees)?;
        let [first, last] = self.channels;
        let pictures = sees.height > 1;
        let pool = self.pool && pictures;
        let seen = if pool {
            sees.channels + 2
        } else {
            sees.channels
        };
        let widths = [[seen, first], [first, last]];
        let sizes = self.kernels.into_iter().zip(self.strides);
        let layers = widths.into_iter().zip(sizes);
        let standard = self.standardise && pictures;
        Ok(Torso {
            standard: standard.then(|| Standard::new(sees.channels, init)),
            convolutions: match pictures {
                true => layers
                    .map(|(widths, (kernel, stride))| TorsoLayer::new(widths, kernel, stride, init))
                    .collect(),
                false => Vec::new(),
            },
            layer: (!pictures).then(|| init.xavier(sees.size(), self.units, 1)),
            maps,
            pool,
            made,
        })
    }
}

impl Torso {
    /// Measures mean and deviation of each channel in `[rows, channels, height, width]`, if the torso standardises pictures.
    pub fn standardise(&mut self, frames: Tensor<4>) {
        self.standard = self.standard.as_ref().map(|_| Standard::of(frames));
    }

    /// Channels, rows and columns of the maps.
    pub fn maps(&self) -> [usize; 3] {
        self.maps
    }

    /// The width of the vectors that [`pooled`](Self::pooled) makes of maps with this number of channels.
    pub(super) fn pooled_size(&self, channels: usize) -> usize {
        let [_, height, width] = self.maps;
        match self.pool {
            true => channels,
            false => channels * height * width,
        }
    }

    /// Maps as vectors `[rows, ..]`: all their numbers, or the greatest of each channel.
    pub(super) fn pooled(&self, maps: Tensor<4>) -> Tensor<2> {
        let [rows, channels, _, _] = maps.dims();
        match self.pool {
            true => maps.flatten::<3>(2, 3).max_dim(2).reshape([rows, channels]),
            false => maps.flatten(1, 3),
        }
    }

    /// Numbers kept for a frame.
    pub fn kept(&self) -> Count {
        // Before and after each ReLU.
        Count::from(2 * self.made)
    }

    /// `[rows, channels, height, width]` to maps `[rows, ..]`.
    pub fn forward(&self, frames: Tensor<4>) -> Tensor<4> {
        let rows = frames.dims()[0];
        if let Some(layer) = &self.layer {
            let units = apply(layer, frames.flatten(1, 3), Activation::Relu);
            let [channels, height, width] = self.maps;
            return units.reshape([rows, channels, height, width]);
        }
        let frames = match &self.standard {
            Some(standard) => standard.forward(frames),
            None => frames,
        };
        let layers = self.convolutions.iter();
        let maps = |frames| layers.fold(frames, |maps, layer| layer.forward(maps));
        match self.pool {
            true => maps(with_planes(frames)),
            false => with_planes(maps(frames)),
        }
    }
}

/// Maps and two planes that tell where a pixel is.
fn with_planes(maps: Tensor<4>) -> Tensor<4> {
    let [rows, _, height, width] = maps.dims();
    let planes = planes(height, width, &maps.device());
    Tensor::cat(vec![maps, planes.expand([rows, 2, height, width])], 1)
}

/// Rows, then columns, from -1 to 1: `[1, 2, height, width]`.
fn planes(height: usize, width: usize, device: &Device) -> Tensor<4> {
    let place = |at: usize, of: usize| match of {
        1 => 0.0,
        _ => 2.0 * at as f32 / (of - 1) as f32 - 1.0,
    };
    let pixels = || (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
    let rows = pixels().map(|(y, _)| place(y, height));
    let columns = pixels().map(|(_, x)| place(x, width));
    let values: Vec<f32> = rows.chain(columns).collect();
    Tensor::from_data(TensorData::new(values, [1, 2, height, width]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const SEES: ImageShape = ImageShape {
        channels: 3,
        height: 4,
        width: 5,
    };

    /// Of what was measured, each channel has a mean of 0 and a deviation of 1; one that never changes becomes 0.
    #[test]
    fn pictures_are_standardised_by_channel() {
        let device = Device::default();
        let shape = [6, SEES.channels, SEES.height, SEES.width];
        let size = SEES.height * SEES.width;
        let number = |i: usize| match i / size % SEES.channels {
            0 => 0.8,
            channel => 0.1 + (channel as f32 * i as f32).sin(),
        };
        let numbers: Vec<f32> = (0..shape.iter().product()).map(number).collect();
        let frames = Tensor::<4>::from_data(TensorData::new(numbers, shape), &device);
        let config = TorsoConfig {
            standardise: true,
            ..TorsoConfig::default()
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device);
        let mut torso = config.init(SEES, &mut init).unwrap();
        let before = torso.forward(frames.clone());
        torso.standardise(frames.clone());
        let standard = torso.standard.as_ref().unwrap();
        assert!(!standard.mean.is_require_grad() && !standard.deviation.is_require_grad());
        let found = values(standard.forward(frames.clone()));
        for channel in 0..SEES.channels {
            let of = |(i, _): &(usize, &f32)| i / size % SEES.channels == channel;
            let numbers: Vec<f64> = found
                .iter()
                .enumerate()
                .filter(of)
                .map(|(_, x)| f64::from(*x))
                .collect();
            let count = numbers.len() as f64;
            let mean = numbers.iter().sum::<f64>() / count;
            let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            let expected = if channel == 0 { 0.0 } else { 1.0 };
            assert!(mean.abs() < 1e-5, "{mean}");
            assert!((variance - expected).abs() < 1e-4, "{variance}");
        }
        // It is what the convolutions read.
        let after = torso.forward(frames);
        assert!((before - after).abs().max().into_scalar::<f32>() > 0.1);
    }

    /// With pooling the greatest value of each channel counts, wherever it is; without, all numbers.
    #[test]
    fn what_is_pooled_does_not_tell_places() {
        for pool in [true, false] {
            let config = TorsoConfig {
                pool,
                ..TorsoConfig::default()
            };
            let device = Device::default();
            let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
            let torso = config.init(SEES, &mut init).unwrap();
            let [channels, height, width] = torso.maps();
            let shape = [2, channels, height, width];
            let numbers = (0..shape.iter().product::<usize>()).map(|i| (i as f32).sin());
            let given: Vec<f32> = numbers.collect();
            let maps = Tensor::<4>::from_data(TensorData::new(given.clone(), shape), &device);
            let found = torso.pooled(maps);
            assert_eq!(found.dims(), [2, torso.pooled_size(channels)]);
            let expected = match pool {
                true => {
                    let maps = given.chunks_exact(height * width);
                    maps.map(|map| map.iter().copied().fold(f32::MIN, f32::max))
                        .collect()
                }
                false => given,
            };
            assert_eq!(values(found), expected);
        }
    }
}
