//! From a view to maps.

use super::Views;
use crate::visual::{Filter, Kernel};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Tensor, activation::relu},
};
use mnemora_memory::{Count, Initializer};

/// The kernels of the layers.
const KERNELS: [Kernel; 4] = [
    Kernel::patches(2),
    Kernel::patches(2),
    Kernel::same(3),
    Kernel::same(3),
];

/// By how much maps are smaller than frames.
pub(super) const SHRUNK: usize = 4;

/// The representation network `M` of cgqn, appendix B: convolutions of the frame and planes of its query, with ReLUs
/// between. A representation has a quarter of the frame's rows and columns.
///
/// The planes can only be added to what the frame shows. With modulation, the query v also scales and shifts the maps of
/// each layer but the last, channel by channel, as in FiLM (Perez et al. 2018): `relu((1 + a(v)) * maps + b(v))`. What is
/// seen can then be put where it belongs in the scene.
#[derive(Module, Debug)]
pub struct Representation {
    /// From fine to coarse.
    pub layers: Vec<Filter>,
    /// From the query to `[a; b]` of each layer but the last; empty without modulation.
    pub modulations: Vec<Linear>,
}

impl Representation {
    /// For frames of `frame` channels and queries of `query` numbers; `channels` are those of each layer.
    pub(super) fn new(
        [frame, query]: [usize; 2],
        channels: [usize; 4],
        modulated: bool,
        init: &mut Initializer,
    ) -> Self {
        let mut inputs = frame + query;
        let last = KERNELS.len() - 1;
        let layers = channels.into_iter().zip(KERNELS).enumerate();
        let layers = layers.map(|(place, (outputs, of))| {
            let size = [inputs, outputs];
            inputs = outputs;
            match place == last {
                true => Filter::new(size, of, init),
                false => Filter::before_relu(size, of, init),
            }
        });
        let layers = layers.collect();
        let [before_last @ .., _] = channels;
        let modulations = before_last.map(|outputs| init.linear(query, 2 * outputs));
        Self {
            layers,
            modulations: match modulated {
                true => modulations.into(),
                false => Vec::new(),
            },
        }
    }

    /// Channels of a representation.
    pub(super) fn channels(&self) -> usize {
        self.layers[KERNELS.len() - 1].bias.shape()[0]
    }

    /// Numbers kept for a view with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let [_, inputs, _, _] = self.layers[0].weight.dims();
        let maps = self.layers.iter().zip([4, 16, 16, 16]);
        let of_layer = if self.modulations.is_empty() { 2 } else { 4 };
        let maps = maps.map(|(layer, smaller)| of_layer * layer.bias.shape()[0] * pixels / smaller);
        Count::from(inputs * pixels + maps.sum::<usize>())
    }

    /// One representation for each view, `[scenes * each, channels, height / 4, width / 4]`.
    pub fn forward(&self, views: &Views) -> Tensor<4> {
        let [rows, _, height, width] = views.frames.dims();
        let query = views.queries.dims()[1];
        let planes = views.queries.clone().reshape([rows, query, 1, 1]);
        let planes = planes.expand([rows, query, height, width]);
        let maps = Tensor::cat(vec![views.frames.clone(), planes], 1);
        let last = KERNELS.len() - 1;
        let layers = self.layers.iter().zip(KERNELS).enumerate();
        layers.fold(maps, |maps, (place, (layer, of))| {
            let maps = layer.forward(maps, of);
            if place == last {
                return maps;
            }
            relu(match self.modulations.get(place) {
                Some(of) => modulated(maps, of.forward(views.queries.clone())),
                None => maps,
            })
        })
    }
}

/// `(1 + a) * maps + b` for each channel; `by` is `[a; b]`, `[rows, 2 * channels]`.
fn modulated(maps: Tensor<4>, by: Tensor<2>) -> Tensor<4> {
    let [rows, channels, _, _] = maps.dims();
    let part = |start| {
        by.clone()
            .narrow(1, start, channels)
            .reshape([rows, channels, 1, 1])
    };
    maps * (part(0) + 1.0) + part(channels)
}

/// The sum of the representations of each scene's views, `[scenes, channels, ..]`.
pub(super) fn summed(representations: Tensor<4>, each: usize) -> Tensor<4> {
    if each == 1 {
        return representations;
    }
    let [rows, channels, height, width] = representations.dims();
    let scenes = rows / each;
    let all = representations.reshape([scenes, each, channels * height * width]);
    all.sum_dim(1).reshape([scenes, channels, height, width])
}
