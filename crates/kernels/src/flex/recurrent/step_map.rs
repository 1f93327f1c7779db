//! An affine map that a time loop uses at every step. The gradient of its weights is one product over all steps;
//! if steps have many rows, it is one product per step, added directly to the sum.
//!
//! As in [`super::steps`], the weights enter a sequence through one node of the graph, whose value is a
//! placeholder. Each use leaves its input and the gradient of its product with that node. The node's own
//! backward step runs after those of all uses.

use crate::flex::{
    Raw, contiguous,
    dense::{
        linear::{affine, before_activation, column_sums, to_input, to_weight},
        product::{Matrix, numbers_on_top},
    },
    graph::{fused::Fused, left::Left, parts::placeholder},
    raw, slice,
};
use crate::linear::Activation;
use std::sync::{Arc, OnceLock};

/// State shared by the uses of a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapUses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Weight and bias.
    map: OnceLock<[Raw; 2]>,
    left: Left,
}

impl MapUses {
    fn map(&self) -> &[Raw; 2] {
        let map = self.0.map.get();
        map.expect("a map is prepared before its first use")
    }
}

/// Stores the map in `uses` and returns the value of its node.
fn prepare(weight: &Raw, bias: &Raw, uses: &MapUses) -> Raw {
    uses.0
        .map
        .get_or_init(|| [contiguous(weight), contiguous(bias)]);
    placeholder()
}

/// The sum of the products of inputs and gradients that the uses left.
fn weight_gradient(left: &[[Raw; 2]], [inputs, outputs]: [usize; 2]) -> Vec<f32> {
    /// Minimum number of rows per use for which a separate product is worth a pass over the sum.
    const MANY: usize = 128;
    let rows = |part: usize, width: usize| -> Vec<f32> {
        let parts: Vec<&[f32]> = left.iter().map(|both| slice(&both[part])).collect();
        debug_assert!(parts.iter().all(|rows| rows.len().is_multiple_of(width)));
        parts.concat()
    };
    if left
        .iter()
        .any(|[_, gradient]| slice(gradient).len() < MANY * outputs)
    {
        let (x, gradient) = (rows(0, inputs), rows(1, outputs));
        return to_weight(&x, &gradient, [inputs, outputs]);
    }
    let mut sum = None;
    for [x, gradient] in left {
        let count = slice(gradient).len() / outputs;
        let x = Matrix::new(slice(x), [count, inputs]).turned();
        sum = Some(numbers_on_top(
            sum,
            x,
            Matrix::new(slice(gradient), [count, outputs]),
        ));
    }
    sum.unwrap_or_else(|| vec![0.0; inputs * outputs])
}

/// See [`crate::linear::StepMap::new`]. Inputs: weight and bias; output: the node that represents them.
pub(crate) struct MapWeights {
    pub(crate) uses: MapUses,
}

impl Fused<2> for MapWeights {
    type Outputs = Raw;
    type Saved = MapUses;

    fn forward(self, [weight, bias]: [Raw; 2]) -> (Raw, MapUses) {
        (prepare(&weight, &bias, &self.uses), self.uses)
    }

    fn backward(uses: MapUses, _: Raw, [to_weight, to_bias]: [bool; 2]) -> [Option<Raw>; 2] {
        let [inputs, outputs]: [usize; 2] = uses.map()[0].layout().shape().dims();
        let left = uses.0.left.take();
        let to_bias = to_bias.then(|| {
            let mut sums = vec![0.0; outputs];
            for [_, gradient] in &left {
                let of_use = column_sums(slice(gradient), outputs);
                sums.iter_mut()
                    .zip(of_use)
                    .for_each(|(sum, of_use)| *sum += of_use);
            }
            raw(sums, [outputs])
        });
        let to_weight = to_weight.then(|| {
            let gradient = weight_gradient(&left, [inputs, outputs]);
            raw(gradient, [inputs, outputs])
        });
        [to_weight, to_bias]
    }
}

/// Values that the backward pass of a use needs.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    x: Raw,
    output: Raw,
    activation: Activation,
    uses: MapUses,
}

/// See [`crate::linear::StepMap::forward`]. Inputs: the input, and the node of the map.
pub(crate) struct StepMap {
    pub(crate) uses: MapUses,
    pub(crate) activation: Activation,
}

impl Fused<2> for StepMap {
    type Outputs = Raw;
    type Saved = Saved;

    fn forward(self, [x, _]: [Raw; 2]) -> (Raw, Saved) {
        let Self { uses, activation } = self;
        let x = contiguous(&x);
        let [weight, bias] = uses.map();
        let output = affine(&x, weight, bias, activation);
        let saved = Saved {
            x,
            output: output.clone(),
            activation,
            uses,
        };
        (output, saved)
    }

    fn backward(saved: Saved, outer: Raw, [to_x, to_map]: [bool; 2]) -> [Option<Raw>; 2] {
        let Saved {
            x,
            output,
            activation,
            uses,
        } = saved;
        let outer = before_activation(outer, &output, activation);
        let to_x = to_x.then(|| to_input(&outer, &uses.map()[0]));
        if to_map {
            uses.0.left.push(x, outer);
        }
        [to_x, to_map.then(placeholder)]
    }
}
