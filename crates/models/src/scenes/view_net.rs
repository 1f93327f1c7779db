//! The representation networks: that of the consistent GQN, and those of the GQN, pyramid, tower and pool (Eslami et al.
//! 2018, supplement).

use super::{Representation, Views, representation::SHRUNK};
use crate::{
    ImageShape, ModelError,
    visual::{Filter, Kernel, before_relu_bound},
};
use burn::{
    module::Module,
    tensor::{Tensor, activation::relu},
};
use mnemora_kernels::conv::conv2d;
use mnemora_memory::{Count, Initializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A representation network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkName {
    /// Convolutions down to one pixel.
    Pyramid,
    /// Residual convolutions, with maps of a quarter of the frame's rows and columns.
    Tower,
    /// The tower, averaged over its pixels.
    Pool,
}

impl NetworkName {
    /// Those of the GQN.
    pub const OF_GQN: [Self; 3] = [Self::Pyramid, Self::Tower, Self::Pool];

    /// The name in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pyramid => "pyramid",
            Self::Tower => "tower",
            Self::Pool => "pool",
        }
    }
}

const HALVES: Kernel = Kernel::patches(2);
const SAME: Kernel = Kernel::same(3);
const PIXELS: Kernel = Kernel::same(1);
/// By how much the pyramid's last maps but one are smaller than the frame.
const PYRAMID: usize = 8;

/// A representation network of the [consistent GQN](super::Cgqn), by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SceneNetName {
    /// Its own four convolutions.
    Plain,
    /// That of the GQN: convolutions down to one pixel.
    Pyramid,
    /// That of the GQN: residual convolutions, with the query joined in their middle.
    Tower,
    /// The tower, averaged over its pixels.
    Pool,
}

/// A representation network of the [consistent GQN](super::Cgqn).
#[derive(Module, Debug)]
pub enum SceneNet {
    /// Its own.
    Plain(Representation),
    /// One of the GQN.
    OfGqn(ViewNet),
}

impl SceneNet {
    /// For frames of a shape and queries of `query` numbers; `channels` are those of the plain network's layers, of which
    /// the GQN's networks take the last two.
    ///
    /// # Errors
    /// If a network of the GQN should be modulated, or does not fit.
    pub(super) fn new(
        name: SceneNetName,
        frame: ImageShape,
        query: usize,
        channels: [usize; 4],
        modulated: bool,
        init: &mut Initializer,
    ) -> Result<Self, ModelError> {
        let of_gqn = match name {
            SceneNetName::Plain => {
                let inputs = [frame.channels, query];
                let network = Representation::new(inputs, channels, modulated, init);
                return Ok(Self::Plain(network));
            }
            SceneNetName::Pyramid => NetworkName::Pyramid,
            SceneNetName::Tower => NetworkName::Tower,
            SceneNetName::Pool => NetworkName::Pool,
        };
        if modulated {
            return Err(ModelError::NotModulated);
        }
        let [.., narrow, wide] = channels;
        let network = ViewNet::new(of_gqn, frame, query, [wide, narrow], "representation", init)?;
        Ok(Self::OfGqn(network))
    }

    /// Whether a representation is a single pixel.
    pub(super) fn is_pooled(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::OfGqn(network) => network.is_pooled(),
        }
    }

    /// Channels of a representation.
    pub(super) fn channels(&self) -> usize {
        match self {
            Self::Plain(network) => network.channels(),
            Self::OfGqn(network) => network.channels(),
        }
    }

    /// Numbers kept for a view with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        match self {
            Self::Plain(network) => network.kept(pixels),
            Self::OfGqn(network) => network.kept(pixels),
        }
    }

    /// The maps of each view, `[scenes * each, channels, height / 4, width / 4]`, those of a pyramid `[.., 1, 1]`.
    pub fn maps(&self, views: &Views) -> Tensor<4> {
        match self {
            Self::Plain(network) => network.forward(views),
            Self::OfGqn(network) => network.maps(views),
        }
    }

    /// The representation of each view, of its maps: `[.., 1, 1]` if it is a single pixel.
    pub fn representation(&self, maps: Tensor<4>) -> Tensor<4> {
        match self {
            Self::Plain(_) => maps,
            Self::OfGqn(network) => network.representation(maps),
        }
    }
}

/// A representation network `M(x, v)`, with a ReLU after each of its convolutions. The query is joined as planes: in the
/// pyramid to the frame, in the tower in its middle.
///
/// ```text
/// pyramid   1 to 3 halve the sides, 4 makes one pixel of what is left
/// tower     a = 1(x);  b = 4(3(a)) + 2(a);  d = [b; v];  e = 7(6(d)) + 5(d);  r = 8(e)
/// pool      the mean of r over its pixels
/// ```
#[derive(Module, Debug)]
pub struct ViewNet {
    /// Those of the pyramid or of the tower, in their order.
    pub layers: Vec<Filter>,
    pyramid: bool,
    pooled: bool,
}

impl ViewNet {
    /// `wide` channels of a representation, the setting `wide_key`, and `narrow` ones inside the tower.
    ///
    /// # Errors
    /// If a number of channels is 0 or a frame's sides cannot be divided.
    pub(super) fn new(
        name: NetworkName,
        frame: ImageShape,
        query: usize,
        [wide, narrow]: [usize; 2],
        wide_key: &'static str,
        init: &mut Initializer,
    ) -> Result<Self, ModelError> {
        ModelError::require_positive(&[(wide_key, wide)])?;
        let ImageShape {
            channels,
            height,
            width,
        } = frame;
        let pyramid = name == NetworkName::Pyramid;
        let side = if pyramid { PYRAMID } else { SHRUNK };
        if height == 0 || width == 0 || !height.is_multiple_of(side) || !width.is_multiple_of(side)
        {
            return Err(ModelError::SceneFrame {
                height,
                width,
                side,
            });
        }
        if pyramid && !wide.is_multiple_of(8) {
            return Err(ModelError::PyramidChannels {
                key: wide_key,
                wide,
            });
        }
        let sizes = match pyramid {
            true => vec![
                ([channels + query, wide / 8], HALVES),
                ([wide / 8, wide / 4], HALVES),
                ([wide / 4, wide / 2], HALVES),
            ],
            false => vec![
                ([channels, wide], HALVES),
                ([wide, wide], HALVES),
                ([wide, narrow], SAME),
                ([narrow, wide], HALVES),
                ([wide + query, wide], SAME),
                ([wide + query, narrow], SAME),
                ([narrow, wide], SAME),
                ([wide, wide], PIXELS),
            ],
        };
        let mut layers: Vec<Filter> = sizes
            .into_iter()
            .map(|(size, of)| Filter::before_relu(size, of, init))
            .collect();
        if pyramid {
            let [rows, columns] = [height / PYRAMID, width / PYRAMID];
            let products = wide / 2 * rows * columns;
            let bound = before_relu_bound(products as f64);
            layers.push(Filter {
                weight: init.uniform([wide, wide / 2, rows, columns], bound),
                bias: init.constant([wide], 0.0),
            });
        }
        Ok(Self {
            layers,
            pyramid,
            pooled: name == NetworkName::Pool,
        })
    }

    /// Channels of a representation.
    pub(super) fn channels(&self) -> usize {
        let last = self.layers.last().expect("there are layers");
        last.bias.shape()[0]
    }

    /// Whether a representation is a single pixel.
    pub(super) fn is_pooled(&self) -> bool {
        self.pyramid || self.pooled
    }

    /// Numbers kept for a view with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let smaller: &[usize] = match self.pyramid {
            true => &[4, 16, 64],
            false => &[4, 16, 4, 16, 16, 16, 16, 16],
        };
        let maps = self.layers.iter().zip(smaller);
        let maps = maps.map(|(layer, smaller)| {
            let [outputs, inputs, _, _] = layer.weight.dims();
            (2 * outputs + inputs / 4) * pixels / smaller
        });
        Count::from(maps.sum::<usize>() + 8 * pixels)
    }

    /// One representation for each view, `[scenes * each, channels, height / 4, width / 4]`, or `[.., 1, 1]`.
    pub fn forward(&self, views: &Views) -> Tensor<4> {
        self.representation(self.maps(views))
    }

    /// The same before it is averaged.
    fn maps(&self, views: &Views) -> Tensor<4> {
        let planes = |maps: Tensor<4>| {
            let [rows, _, height, width] = maps.dims();
            let query = views.queries.dims()[1];
            let planes = views.queries.clone().reshape([rows, query, 1, 1]);
            Tensor::cat(vec![maps, planes.expand([rows, query, height, width])], 1)
        };
        let layer = |place: usize, maps: Tensor<4>, of: Kernel| {
            relu(self.layers[place - 1].forward(maps, of))
        };
        if self.pyramid {
            let maps = planes(views.frames.clone());
            let maps = (1..=3).fold(maps, |maps, place| layer(place, maps, HALVES));
            let last = &self.layers[3];
            return relu(conv2d(maps, last.weight.val(), last.bias.val(), 1, 0));
        }
        let a = layer(1, views.frames.clone(), HALVES);
        let b = layer(4, layer(3, a.clone(), SAME), HALVES) + layer(2, a, HALVES);
        let d = planes(b);
        let e = layer(7, layer(6, d.clone(), SAME), SAME) + layer(5, d, SAME);
        layer(8, e, PIXELS)
    }

    fn representation(&self, maps: Tensor<4>) -> Tensor<4> {
        if !self.pooled {
            return maps;
        }
        let [rows, channels, _, _] = maps.dims();
        let mean = maps.flatten::<3>(2, 3).mean_dim(2);
        mean.reshape([rows, channels, 1, 1])
    }
}
