//! The networks of an [`Sssm`](super::Sssm).

use super::{
    super::{HALVE, conv_draw::of_parameters},
    SAME,
};
use crate::{DiagonalGaussian, visual::Filter};
use burn::{
    module::Module,
    tensor::{Tensor, activation::relu},
};
use mnemora_memory::{Count, Initializer};

/// `e`: a convolution of stride 2 for each level, with ReLUs between.
#[derive(Module, Debug)]
pub struct FrameReader {
    /// From fine to coarse.
    pub layers: Vec<Filter>,
}

impl FrameReader {
    pub(super) fn new(
        channels: usize,
        width: usize,
        levels: usize,
        init: &mut Initializer,
    ) -> Self {
        let inputs = std::iter::once(channels).chain(std::iter::repeat(width));
        let layers = inputs.take(levels);
        Self {
            layers: layers
                .map(|inputs| Filter::before_relu([inputs, width], HALVE, init))
                .collect(),
        }
    }

    /// Numbers kept for a frame of `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let width = self.layers[0].bias.shape()[0];
        let levels = 1..=self.layers.len() as u32;
        let maps: usize = levels.map(|level| pixels / 4_usize.pow(level)).sum();
        Count::product(&[2 * width, maps])
    }

    /// From `[frames, channels, height, width]` to `[frames, width, grid, grid]`.
    pub fn forward(&self, frames: Tensor<4>) -> Tensor<4> {
        let layers = self.layers.iter();
        layers.fold(frames, |maps, layer| relu(layer.forward(maps, HALVE)))
    }
}

/// `dec`: for each level a convolution to four times as many channels, which become twice as many rows and columns, and a
/// ReLU; then a convolution to the frame.
#[derive(Module, Debug)]
pub struct FrameDrawer {
    /// From coarse to fine.
    pub layers: Vec<Filter>,
    /// To the frame.
    pub frame: Filter,
}

impl FrameDrawer {
    pub(super) fn new(
        channels: usize,
        width: usize,
        levels: usize,
        init: &mut Initializer,
    ) -> Self {
        Self {
            layers: (0..levels)
                .map(|_| Filter::before_relu([width, 4 * width], SAME, init))
                .collect(),
            frame: Filter::new([width, channels], SAME, init),
        }
    }

    /// Numbers kept for a frame of `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let [channels, width, _, _] = self.frame.weight.dims();
        let levels = 0..self.layers.len() as u32;
        let maps: usize = levels.map(|level| pixels / 4_usize.pow(level)).sum();
        Count::product(&[3 * width, maps]) + Count::product(&[3 * channels, pixels])
    }

    /// From `[frames, width, grid, grid]` to `[frames, channels, height, width]`.
    pub fn forward(&self, states: Tensor<4>) -> Tensor<4> {
        let layers = self.layers.iter();
        let maps = layers.fold(states, |maps, layer| finer(relu(layer.forward(maps, SAME))));
        self.frame.forward(maps, SAME)
    }
}

/// Four channels of a pixel become the four pixels of a square: `[rows, 4 * channels, height, width]` to
/// `[rows, channels, 2 * height, 2 * width]`; the channels of the same place in a square lie together.
pub(super) fn finer(maps: Tensor<4>) -> Tensor<4> {
    let [rows, four, height, width] = maps.dims();
    let channels = four / 4;
    maps.reshape([rows, 2, 2, channels, height, width])
        .permute([0, 3, 4, 1, 5, 2])
        .reshape([rows, channels, 2 * height, 2 * width])
}

/// `g`: a residual block with pool-and-inject (Weber et al. 2017), through which the whole of a scene reaches each place at
/// once:
///
/// ```text
/// u = relu(first([s; z]))
/// u = relu(second([u; the largest u of each channel, at all places]))
/// g(s, z) = s + last(u)
/// ```
#[derive(Module, Debug)]
pub struct Transition {
    /// Of state and latent.
    pub first: Filter,
    /// Of maps and their largest numbers.
    pub second: Filter,
    /// To the change of the state.
    pub last: Filter,
}

impl Transition {
    pub(super) fn new(width: usize, latent: usize, init: &mut Initializer) -> Self {
        Self {
            first: Filter::before_relu([width + latent, width], SAME, init),
            second: Filter::before_relu([2 * width, width], SAME, init),
            last: Filter::new([width, width], SAME, init),
        }
    }

    /// Numbers kept for a step, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let [width, inputs, _, _] = self.first.weight.dims();
        Count::product(&[inputs + 9 * width, pixels])
    }

    /// `s_t` of `s_{t-1}`, `[rows, width, grid, grid]`, and `z_t`, `[rows, latent * grid * grid]`.
    pub fn forward(&self, state: Tensor<4>, z: Tensor<2>) -> Tensor<4> {
        let [rows, channels, height, width] = state.dims();
        let latent = z.dims()[1] / (height * width);
        let z = z.reshape([rows, latent, height, width]);
        let maps = relu(
            self.first
                .forward(Tensor::cat(vec![state.clone(), z], 1), SAME),
        );
        let largest = maps.clone().flatten::<3>(2, 3).max_dim(2);
        let everywhere = largest
            .reshape([rows, channels, 1, 1])
            .expand([rows, channels, height, width]);
        let maps = relu(
            self.second
                .forward(Tensor::cat(vec![maps, everywhere], 1), SAME),
        );
        state + self.last.forward(maps, SAME)
    }
}

/// A belief about a latent: `belief(relu(state(s) + given(e, b)))`, the prior without the given part.
#[derive(Module, Debug)]
pub struct BeliefNet {
    /// Of the state.
    pub state: Filter,
    /// Of what is given besides.
    pub given: Option<Filter>,
    /// To mean and log variance.
    pub belief: Filter,
}

impl BeliefNet {
    pub(super) fn new([width, given, latent]: [usize; 3], init: &mut Initializer) -> Self {
        Self {
            state: Filter::before_relu([width, width], SAME, init),
            given: (given > 0).then(|| Filter::before_relu([given, width], SAME, init)),
            belief: Filter::new([width, 2 * latent], SAME, init),
        }
    }

    /// Numbers kept for a belief, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let [parameters, width, _, _] = self.belief.weight.dims();
        let given = self
            .given
            .as_ref()
            .map_or(0, |given| given.weight.dims()[1]);
        Count::product(&[5 * width + given + 3 * parameters, pixels])
    }

    /// The part of the first layer that does not depend on the state, of all beliefs in one call.
    pub(super) fn given(&self, maps: Tensor<4>) -> Tensor<4> {
        let given = self.given.as_ref().expect("the posterior has it");
        given.forward(maps, SAME)
    }

    /// The belief of a state, with the [given](Self::given) part.
    pub(super) fn belief(&self, state: Tensor<4>, given: Option<Tensor<4>>) -> DiagonalGaussian {
        let maps = self.state.forward(state, SAME);
        let maps = match given {
            None => maps,
            Some(given) => maps + given,
        };
        let parameters = self.belief.forward(relu(maps), SAME);
        of_parameters(parameters.flatten(1, 3))
    }
}
