//! Weights that a time loop uses at every step: their gradient is one matrix product over all
//! steps, not one a step and a sum.
//!
//! The weights enter a sequence through one node of the graph ([`tracked_weights`]). Each use leaves its
//! input and the gradient of its output in a list that the node shares; the node's own backward
//! step, which comes after those of all uses, multiplies the two.

use super::{Loop, Raw, contiguous, lstm, raw, run, slice};
use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    ops::FloatTensorOps,
    tensor::FloatTensor,
};
use std::sync::{Arc, Mutex, PoisonError};

/// What uses of the weights have left so far: rows `[x, 1]` and gradients of their products.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses(Arc<Mutex<Rows>>);

#[derive(Debug, Default)]
struct Rows {
    inputs: Vec<f32>,
    gradients: Vec<f32>,
}

impl Uses {
    fn push(&self, inputs: &[f32], gradients: &[f32]) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.inputs.extend_from_slice(inputs);
        rows.gradients.extend_from_slice(gradients);
    }

    fn take(&self) -> Rows {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `[inputs, outputs]` with the bias as a last row.
pub(super) fn joined(weight: &Raw, bias: &Raw) -> Raw {
    let (weight, bias) = (contiguous(weight), contiguous(bias));
    let [inputs, outputs] = weight.layout().shape().dims();
    let mut values = Vec::with_capacity((inputs + 1) * outputs);
    values.extend_from_slice(slice(&weight));
    values.extend_from_slice(slice(&bias));
    raw(values, [inputs + 1, outputs])
}

pub(super) fn tracked_weights<C: CheckpointStrategy>(
    weight: FloatTensor<Autodiff<Flex, C>>,
    bias: FloatTensor<Autodiff<Flex, C>>,
    uses: Uses,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Weights;

    impl Backward<Flex, 2> for Weights {
        type State = (Uses, [usize; 2]);

        fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
            let (uses, [inputs, outputs]) = ops.state;
            // What each use registered says only that there was one.
            let _ = grads.consume::<Flex>(&ops.node);
            let Rows {
                inputs: rows,
                gradients,
            } = uses.take();
            let count = gradients.len() / outputs;
            let rows = Flex::float_transpose(raw(rows, [count, inputs + 1]));
            let product = Flex::float_matmul(rows, raw(gradients, [count, outputs]));
            let product = contiguous(&product);
            let (weight, bias) = slice(&product).split_at(inputs * outputs);
            let [to_weight, to_bias] = ops.parents;
            if let Some(node) = to_weight {
                grads.register::<Flex>(node.id, raw(weight.to_vec(), [inputs, outputs]));
            }
            if let Some(node) = to_bias {
                grads.register::<Flex>(node.id, raw(bias.to_vec(), [outputs]));
            }
        }
    }

    let (weight, weight_guard) = weight.into_parts();
    let (bias, bias_guard) = bias.into_parts();
    let shape: [usize; 2] = weight.layout().shape().dims();
    let output = joined(&weight, &bias);
    let guards = [weight_guard, bias_guard];
    match Weights.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((uses, shape), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

/// `[x, h, 1]` in each row.
struct Rowed<'a> {
    x: &'a [f32],
    hidden: &'a [f32],
    sizes: [usize; 2],
    output: &'a mut [f32],
}

impl Loop for Rowed<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let [x_size, hidden_size] = self.sizes;
        let rows = self.output.chunks_exact_mut(x_size + hidden_size + 1);
        for (index, row) in rows.enumerate() {
            row[..x_size].copy_from_slice(&self.x[index * x_size..][..x_size]);
            row[x_size..x_size + hidden_size]
                .copy_from_slice(&self.hidden[index * hidden_size..][..hidden_size]);
            row[x_size + hidden_size] = 1.0;
        }
    }
}

/// What the gradient of a step needs.
#[derive(Clone, Debug)]
struct Saved {
    /// `[x, h, 1]`
    rows: Raw,
    cell: Raw,
    /// Of the gates, see [`lstm`].
    gates: Raw,
    /// `[inputs + hidden + 1, 4 * hidden]`
    weights: Raw,
    uses: Uses,
}

/// One LSTM step: hidden state and cell side by side, `[batch, 2 * hidden]`.
fn step(x: &Raw, hidden: &Raw, cell: &Raw, weights: &Raw, uses: Uses) -> (Raw, Saved) {
    let [x, hidden, cell] = [x, hidden, cell].map(contiguous);
    let [batch, x_size] = x.layout().shape().dims();
    let [_, hidden_size] = hidden.layout().shape().dims();
    let width = x_size + hidden_size + 1;
    assert_eq!(hidden.layout().shape().dims(), [batch, hidden_size]);
    assert_eq!(cell.layout().shape().dims(), [batch, hidden_size]);
    assert_eq!(weights.layout().shape().dims(), [width, 4 * hidden_size]);
    let mut rows = vec![0.0; batch * width];
    run(Rowed {
        x: slice(&x),
        hidden: slice(&hidden),
        sizes: [x_size, hidden_size],
        output: &mut rows,
    });
    let rows = raw(rows, [batch, width]);
    let gates = Flex::float_matmul(rows.clone(), weights.clone());
    let (output, gates) = lstm::forward(&gates, &cell);
    let saved = Saved {
        rows,
        cell,
        gates,
        weights: weights.clone(),
        uses,
    };
    (output, saved)
}

pub(super) fn forward(x: &Raw, hidden: &Raw, cell: &Raw, weights: &Raw) -> Raw {
    step(x, hidden, cell, weights, Uses::default()).0
}

/// The first columns of a matrix.
fn columns(matrix: &[f32], width: usize, first: usize, count: usize) -> Vec<f32> {
    let rows = matrix.chunks_exact(width);
    rows.flat_map(|row| &row[first..first + count])
        .copied()
        .collect()
}

pub(super) fn tracked_step<C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<Flex, C>>,
    hidden: FloatTensor<Autodiff<Flex, C>>,
    cell: FloatTensor<Autodiff<Flex, C>>,
    weights: FloatTensor<Autodiff<Flex, C>>,
    uses: Uses,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Step;

    impl Backward<Flex, 4> for Step {
        type State = Saved;

        fn backward(self, ops: Ops<Saved, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
            let saved = ops.state;
            let outer = contiguous(&grads.consume::<Flex>(&ops.node));
            let [batch, hidden] = saved.cell.layout().shape().dims();
            let [_, width] = saved.rows.layout().shape().dims();
            let (gates, cell) = lstm::gradients(&saved.cell, &saved.gates, &outer);
            let [to_x, to_hidden, to_cell, to_weights] = ops.parents;
            if let Some(node) = to_weights {
                saved.uses.push(slice(&saved.rows), &gates);
                grads.register::<Flex>(node.id, raw(vec![0.0], [1]));
            }
            if let Some(node) = to_cell {
                grads.register::<Flex>(node.id, raw(cell, [batch, hidden]));
            }
            if to_x.is_none() && to_hidden.is_none() {
                return;
            }
            let gates = raw(gates, [batch, 4 * hidden]);
            let rows = Flex::float_matmul(gates, Flex::float_transpose(saved.weights));
            let rows = contiguous(&rows);
            let inputs = width - hidden - 1;
            if let Some(node) = to_x {
                let x = columns(slice(&rows), width, 0, inputs);
                grads.register::<Flex>(node.id, raw(x, [batch, inputs]));
            }
            if let Some(node) = to_hidden {
                let h = columns(slice(&rows), width, inputs, hidden);
                grads.register::<Flex>(node.id, raw(h, [batch, hidden]));
            }
        }
    }

    let (x, x_guard) = x.into_parts();
    let (hidden, hidden_guard) = hidden.into_parts();
    let (cell, cell_guard) = cell.into_parts();
    let (weights, weights_guard) = weights.into_parts();
    let (output, saved) = step(&x, &hidden, &cell, &weights, uses);
    let guards = [x_guard, hidden_guard, cell_guard, weights_guard];
    match Step.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(saved, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
