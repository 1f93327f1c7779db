//! A convolution that a time loop uses at every step. Its weights are laid out once, and their gradient is one over the
//! images of all steps.
//!
//! As in [`crate::flex::recurrent::steps`], the weights enter a sequence through one node of the graph, whose value is a
//! placeholder. Each use leaves its images and the gradient of its outputs with that node. The node's own backward step runs
//! after those of all uses.

use super::{
    Options,
    geometry::Geometry,
    spectral::{Spectral, Table},
    tiled::Tiled,
};
use crate::flex::{
    Raw, contiguous,
    graph::{fused::Fused, left::Left, parts::placeholder},
    raw, slice,
};
use std::sync::{Arc, OnceLock};

/// State shared by the uses of a convolution.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConvUses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    weight: OnceLock<Raw>,
    /// For convolutions by Fourier transforms of the size that was first used: of the outputs, and of their gradient.
    tables: [OnceLock<(Spectral, Table)>; 2],
    /// For convolutions of 2x2 or 3x3 weights with fewer multiplications: of the outputs, and of their gradient.
    points: [OnceLock<Vec<f32>>; 2],
    left: Left,
}

impl ConvUses {
    fn weight(&self) -> &Raw {
        let weight = self.0.weight.get();
        weight.expect("weights are prepared before their first use")
    }

    /// Coarse images from fine ones or, `back`, fine ones from coarse ones.
    fn images(&self, shape: &Geometry, images: &[f32], back: bool) -> Vec<f32> {
        let weights = slice(self.weight());
        if let Some(tiled) = Tiled::new(shape) {
            let points = || tiled.points_of_weights(weights, back);
            let points = self.0.points[usize::from(back)].get_or_init(points);
            return match back {
                false => tiled.gather(images, points, None),
                true => tiled.spread(images, points, None),
            };
        }
        if let Some(spectral) = shape.spectral(back) {
            let (of, table) = self.0.tables[usize::from(back)].get_or_init(|| {
                let table = shape.table(&spectral, weights, back);
                (spectral.clone(), table)
            });
            if *of == spectral {
                return spectral.outputs(table, images, None);
            }
        }
        match back {
            false => super::gather(shape, images, weights, None),
            true => super::spread(shape, images, weights, None),
        }
    }
}

/// See [`crate::step_conv::StepConv::new`]. Input: the weights, `[n]`; output: the node that represents them.
pub(crate) struct ConvWeights {
    pub(crate) uses: ConvUses,
    pub(crate) options: Options,
}

impl Fused<1> for ConvWeights {
    type Outputs = Raw;
    type Saved = (ConvUses, Options);

    fn forward(self, [weight]: [Raw; 1]) -> (Raw, Self::Saved) {
        self.uses.0.weight.get_or_init(|| contiguous(&weight));
        (placeholder(), (self.uses, self.options))
    }

    fn backward((uses, options): Self::Saved, _: Raw, _: [bool; 1]) -> [Option<Raw>; 1] {
        let weight = uses.weight();
        let mut left = uses.0.left.take();
        // Uses that have images of one size are one convolution of all their images.
        let size = |[input, _]: &[Raw; 2]| {
            let [_, channels, height, width]: [usize; 4] = input.layout().shape().dims();
            [channels, height, width]
        };
        left.sort_by_key(size);
        let gradients = left.chunk_by(|a, b| size(a) == size(b)).map(|alike| {
            let all = |part: usize| -> Vec<f32> {
                let parts: Vec<&[f32]> = alike.iter().map(|both| slice(&both[part])).collect();
                parts.concat()
            };
            let [channels, height, width] = size(&alike[0]);
            let (inputs, outer) = (all(0), all(1));
            let images = inputs.len() / (channels * height * width);
            let inputs = raw(inputs, [images, channels, height, width]);
            let shape = options.geometry(&inputs, weight);
            let (gradient, _) = super::weight_gradient(&shape, slice(&inputs), &outer);
            gradient
        });
        let sum = gradients.reduce(|mut sum, gradient| {
            sum.iter_mut()
                .zip(gradient)
                .for_each(|(sum, of)| *sum += of);
            sum
        });
        sum.map_or([None], |sum| {
            let count = sum.len();
            [Some(raw(sum, [count]))]
        })
    }
}

/// See [`crate::step_conv::StepConv::forward`]. Inputs: images, and the node of the weights.
pub(crate) struct ConvStep {
    pub(crate) uses: ConvUses,
    pub(crate) options: Options,
}

impl Fused<2> for ConvStep {
    type Outputs = Raw;
    /// Images, the shared state and the options.
    type Saved = (Raw, ConvUses, Options);

    fn forward(self, [input, _]: [Raw; 2]) -> (Raw, Self::Saved) {
        let Self { uses, options } = self;
        let input = contiguous(&input);
        let shape = options.geometry(&input, uses.weight());
        let [channels, height, width] = shape.coarse;
        let values = uses.images(&shape, slice(&input), false);
        let output = raw(values, [shape.images, channels, height, width]);
        (output, (input, uses, options))
    }

    fn backward(
        (input, uses, options): Self::Saved,
        outer: Raw,
        [to_input, to_weight]: [bool; 2],
    ) -> [Option<Raw>; 2] {
        let outer = contiguous(&outer);
        let to_input = to_input.then(|| {
            let shape = options.geometry(&input, uses.weight());
            let size: [usize; 4] = input.layout().shape().dims();
            raw(uses.images(&shape, slice(&outer), true), size)
        });
        if to_weight {
            uses.0.left.push(input, outer);
        }
        [to_input, to_weight.then(placeholder)]
    }
}
