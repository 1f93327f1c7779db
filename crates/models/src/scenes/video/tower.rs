//! The latent tower of SV2P: what a whole story says about its latent.

use super::{super::HALVE, layers::MapNorm};
use crate::{
    DiagonalGaussian,
    visual::{Filter, Kernel},
};
use burn::{
    module::Module,
    tensor::{Tensor, activation::relu},
};
use mnemora_kernels::softplus;
use mnemora_memory::{Count, Initializer};

/// Channels of the layers.
const CHANNELS: [usize; 3] = [32, 64, 64];
/// What is added to the log variance, so that a fresh posterior is narrow.
const LOG_VARIANCE: f64 = -5.0;
/// The largest log variance, so that exponentials stay finite.
const MOST: f64 = 10.0;

/// The posterior of the latent of a story from all of its frames, stacked along channels (Babaeizadeh et al. 2018):
///
/// ```text
/// three times relu(norm(conv3)) with 32, 64, 64 channels; the first halves the rows if the predictor's first does, the second
/// halves them, the third does not
/// mean = conv3, log variance = relu(conv3) - 5, or softplus(conv3) - 5; one channel each, half the rows
/// ```
#[derive(Module, Debug)]
pub struct LatentTower {
    /// From fine to coarse.
    pub layers: Vec<Filter>,
    /// Of each layer.
    pub norms: Vec<MapNorm>,
    /// To the mean.
    pub mean: Filter,
    /// To the log variance.
    pub log_variance: Filter,
    stride: usize,
    softened: bool,
}

impl LatentTower {
    /// For stories with `inputs` channels in all frames together; `stride` is that of the first layer.
    pub(super) fn new(
        mut inputs: usize,
        stride: usize,
        softened: bool,
        init: &mut Initializer,
    ) -> Self {
        let layers = CHANNELS.map(|outputs| {
            let layer = Filter::before_relu([inputs, outputs], HALVE, init);
            inputs = outputs;
            layer
        });
        Self {
            layers: layers.into(),
            norms: CHANNELS.map(|channels| MapNorm::new(channels, init)).into(),
            mean: Filter::new([inputs, 1], HALVE, init),
            log_variance: Filter::new([inputs, 1], HALVE, init),
            stride,
            softened,
        }
    }

    /// Numbers kept for a story of frames of `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let fine = pixels / (self.stride * self.stride);
        let inputs = self.layers[0].weight.dims()[1];
        let sizes = [fine, fine / 4, fine / 4];
        let layers = CHANNELS.iter().zip(sizes).zip(&self.norms);
        let layers = layers.map(|((channels, size), norm)| norm.kept(size) + 2 * channels * size);
        layers.sum::<Count>() + inputs * pixels
    }

    /// From all frames of each story, `[rows, moments * channels, height, width]`, to beliefs about `[rows, grid * grid]`
    /// numbers.
    pub fn forward(&self, stories: Tensor<4>) -> DiagonalGaussian {
        let strides = [self.stride, 2, 1];
        let layers = self.layers.iter().zip(&self.norms).zip(strides);
        let maps = layers.fold(stories, |maps, ((layer, norm), stride)| {
            relu(norm.forward(layer.forward(maps, Kernel::new(3, stride, 1))))
        });
        let mean = self.mean.forward(maps.clone(), HALVE);
        let above = self.log_variance.forward(maps, HALVE);
        let above = match self.softened {
            true => softplus(above),
            false => relu(above),
        };
        let log_variance = above.add_scalar(LOG_VARIANCE);
        DiagonalGaussian {
            mean: mean.flatten(1, 3),
            log_std: log_variance.clamp_max(MOST).flatten(1, 3).mul_scalar(0.5),
        }
    }
}
