//! An affine map that a time loop uses at every step: the gradient of its weights is one product over all
//! steps, or, where a step has many rows, one a step that is added where the sum lies.
//!
//! As in [`super::steps`], the weights enter a sequence through one node of the graph, whose value says
//! nothing. Each use leaves its input and the gradient of its product with that node, whose own backward
//! step comes after those of all uses.

use super::{
    Raw, contiguous,
    linear::{affine, before_activation, column_sums, to_input, to_weight},
    product::{Matrix, numbers_on_top},
    raw, slice,
};
use crate::linear::Activation;
use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What the uses of a map share.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapUses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Weight and bias.
    map: OnceLock<[Raw; 2]>,
    /// What uses have left so far: inputs, and gradients of their products.
    left: Mutex<Vec<[Raw; 2]>>,
}

impl MapUses {
    fn map(&self) -> &[Raw; 2] {
        let map = self.0.map.get();
        map.expect("a map is prepared before its first use")
    }

    fn push(&self, input: Raw, gradient: Raw) {
        let mut left = self.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.push([input, gradient]);
    }

    fn take(&self) -> Vec<[Raw; 2]> {
        std::mem::take(&mut *self.0.left.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keeps the map for `uses` and gives the value of its node.
pub(super) fn prepare(weight: &Raw, bias: &Raw, uses: &MapUses) -> Raw {
    uses.0
        .map
        .get_or_init(|| [contiguous(weight), contiguous(bias)]);
    raw(vec![0.0], [1])
}

/// The sum of the products of what uses left.
fn weight_gradient(left: &[[Raw; 2]], [inputs, outputs]: [usize; 2]) -> Vec<f32> {
    /// Rows of a use from which on its product is worth a pass over the sum.
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

pub(super) fn tracked_map<C: CheckpointStrategy>(
    weight: FloatTensor<Autodiff<Flex, C>>,
    bias: FloatTensor<Autodiff<Flex, C>>,
    uses: MapUses,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Map;

    impl Backward<Flex, 2> for Map {
        type State = MapUses;

        fn backward(self, ops: Ops<MapUses, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
            // What each use registered says only that there was one.
            let _ = grads.consume::<Flex>(&ops.node);
            let [inputs, outputs]: [usize; 2] = ops.state.map()[0].layout().shape().dims();
            let left = ops.state.take();
            let [weight, to_bias] = ops.parents;
            if let Some(node) = to_bias {
                let mut sums = vec![0.0; outputs];
                for [_, gradient] in &left {
                    let of_use = column_sums(slice(gradient), outputs);
                    sums.iter_mut()
                        .zip(of_use)
                        .for_each(|(sum, of_use)| *sum += of_use);
                }
                grads.register::<Flex>(node.id, raw(sums, [outputs]));
            }
            if let Some(node) = weight {
                let gradient = weight_gradient(&left, [inputs, outputs]);
                grads.register::<Flex>(node.id, raw(gradient, [inputs, outputs]));
            }
        }
    }

    let (weight, weight_guard) = weight.into_parts();
    let (bias, bias_guard) = bias.into_parts();
    let output = prepare(&weight, &bias, &uses);
    match Map
        .prepare::<C>([weight_guard, bias_guard])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish(uses, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

pub(super) fn forward(x: &Raw, uses: &MapUses, activation: Activation) -> Raw {
    let [weight, bias] = uses.map();
    affine(&contiguous(x), weight, bias, activation)
}

/// What the gradient of a use needs.
#[derive(Clone, Debug)]
struct Saved {
    x: Raw,
    output: Raw,
    activation: Activation,
    uses: MapUses,
}

pub(super) fn tracked_use<C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<Flex, C>>,
    map: FloatTensor<Autodiff<Flex, C>>,
    uses: MapUses,
    activation: Activation,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Use;

    impl Backward<Flex, 2> for Use {
        type State = Saved;

        fn backward(self, ops: Ops<Saved, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
            let Saved {
                x,
                output,
                activation,
                uses,
            } = ops.state;
            let outer = grads.consume::<Flex>(&ops.node);
            let outer = before_activation(outer, &output, activation);
            let [to_x, to_map] = ops.parents;
            if let Some(node) = &to_map {
                grads.register::<Flex>(node.id, raw(vec![0.0], [1]));
            }
            if let Some(node) = to_x {
                grads.register::<Flex>(node.id, to_input(&outer, &uses.map()[0]));
            }
            if to_map.is_some() {
                uses.push(x, outer);
            }
        }
    }

    let (x, x_guard) = x.into_parts();
    let (_, map_guard) = map.into_parts();
    let x = contiguous(&x);
    let output = forward(&x, &uses, activation);
    match Use
        .prepare::<C>([x_guard, map_guard])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => {
            let saved = Saved {
                x,
                output: output.clone(),
                activation,
                uses,
            };
            prep.finish(saved, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
