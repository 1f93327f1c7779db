//! Layers of the predictors of video: layer norm of maps, and an LSTM over several moments.

use super::super::map_lstm::{Cut, MapLstm, MapSizes, MapState};
use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use mnemora_kernels::split::split_rows;
use mnemora_memory::{Count, Initializer};

/// Keeps the norm of constant maps finite.
const EPSILON: f64 = 1e-6;

/// Layer norm of maps: all numbers of a row, over channels and pixels, get mean 0 and variance 1; then each channel is
/// scaled and shifted.
#[derive(Module, Debug)]
pub struct MapNorm {
    /// `[channels]`
    pub gamma: Param<Tensor<1>>,
    /// `[channels]`
    pub beta: Param<Tensor<1>>,
}

impl MapNorm {
    pub(super) fn new(channels: usize, init: &mut Initializer) -> Self {
        Self {
            gamma: init.constant([channels], 1.0),
            beta: init.constant([channels], 0.0),
        }
    }

    /// Numbers kept for a row, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        Count::product(&[4 * self.gamma.shape()[0], pixels])
    }

    /// From `[rows, channels, height, width]` to the same shape.
    pub(super) fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let shape = maps.dims();
        let channels = shape[1];
        let flat = maps.flatten::<2>(1, 3);
        let centred = flat.clone() - flat.mean_dim(1);
        let variance = centred.clone().square().mean_dim(1);
        let scale = variance.add_scalar(EPSILON).sqrt().recip();
        let of_channels = |of: &Param<Tensor<1>>| of.val().reshape([1, channels, 1, 1]);
        (centred * scale).reshape(shape) * of_channels(&self.gamma) + of_channels(&self.beta)
    }
}

/// A convolutional LSTM whose output is normalised; its state is not.
#[derive(Module, Debug)]
pub struct NormedLstm {
    /// On `[h; input]`.
    pub lstm: MapLstm,
    /// Of what it gives to the next layer.
    pub norm: MapNorm,
}

impl NormedLstm {
    pub(super) fn new([inputs, hidden]: [usize; 2], kernel: usize, init: &mut Initializer) -> Self {
        // The input is the given part: that of all moments is convolved in one call.
        let sizes = MapSizes {
            hidden,
            given: inputs,
            inputs: 0,
        };
        Self {
            lstm: MapLstm::new(sizes, kernel, init),
            norm: MapNorm::new(hidden, init),
        }
    }

    /// Numbers kept for a moment of a row, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        self.lstm.kept(pixels) + self.norm.kept(pixels)
    }

    pub(super) fn cut(&self) -> Cut {
        self.lstm.cut()
    }

    /// The normalised outputs of `moments` moments in a row, `[moments * rows, hidden, ..]`, from their inputs,
    /// `[moments * rows, inputs, ..]`. Only what depends on the moment before is in the loop.
    pub(super) fn forward(
        &self,
        cut: &Cut,
        inputs: Tensor<4>,
        moments: usize,
        state: &mut Option<MapState>,
    ) -> Tensor<4> {
        let given = cut.given(inputs);
        let mut outputs = Vec::with_capacity(moments);
        for given in split_rows(given, moments) {
            let after = cut.step(given, Vec::new(), state.take());
            outputs.push(after.hidden.clone());
            *state = Some(after);
        }
        self.norm.forward(Tensor::cat(outputs, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{numbers, values};
    use burn::tensor::Device;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn init() -> Initializer {
        Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default())
    }

    #[test]
    fn a_row_of_normed_maps_has_mean_zero_and_variance_one() {
        let norm = MapNorm::new(3, &mut init());
        let maps = norm.forward(
            numbers([2, 3, 4, 5], 0.3, &Device::default())
                .mul_scalar(7.0)
                .add_scalar(3.0),
        );
        for row in values(maps).chunks(60) {
            let mean: f32 = row.iter().sum::<f32>() / 60.0;
            let square: f32 = row.iter().map(|x| x * x).sum::<f32>() / 60.0;
            assert!(mean.abs() < 1e-5 && (square - 1.0).abs() < 1e-4);
        }
        let constant = norm.forward(Tensor::ones([1, 3, 4, 5], &Device::default()));
        assert!(values(constant).iter().all(|x| *x == 0.0));
    }

    /// Several moments in one call are the same as one after the other.
    #[test]
    fn moments_together_and_one_by_one() {
        let layer = NormedLstm::new([2, 3], 3, &mut init());
        let inputs = numbers([4 * 2, 2, 5, 4], 0.1, &Device::default());
        let cut = layer.cut();
        let together = layer.forward(&cut, inputs.clone(), 4, &mut None);
        let mut state = None;
        let steps = (0..4).map(|moment| {
            let input = inputs.clone().narrow(0, 2 * moment, 2);
            layer.forward(&cut, input, 1, &mut state)
        });
        let apart = Tensor::cat(steps.collect(), 0);
        for (a, b) in values(together).iter().zip(values(apart)) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }
}
