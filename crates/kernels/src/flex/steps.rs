//! Weights that a time loop uses at every step: packed once for all of its products, their gradient one
//! product over all steps, not one a step and a sum.
//!
//! The weights enter a sequence through one node of the graph ([`tracked_weights`]), whose value says
//! nothing. Each use leaves its input and the gradient of its output in a list that the node shares; the
//! node's own backward step, which comes after those of all uses, multiplies the two.

use super::{
    Loop, Parts, Raw, contiguous, lstm,
    panels::Panels,
    product::{Matrix, numbers},
    raw, run, slice,
};
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

/// What the steps of a sequence share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    packed: OnceLock<Packed>,
    rows: Mutex<Rows>,
}

/// Weights for products with few rows.
#[derive(Debug)]
struct Packed {
    /// Of `[W_x; W_h; b]`, `[inputs + hidden + 1, outputs]`.
    forward: Panels,
    /// `W_x` and `W_h`, and their transposes, once a backward pass asks for them.
    weights: [Raw; 2],
    backward: [OnceLock<Panels>; 2],
}

/// What uses of the weights have left so far: rows `[x, h, 1]` and gradients of their products.
#[derive(Debug, Default)]
struct Rows {
    inputs: Vec<f32>,
    gradients: Vec<f32>,
}

impl Uses {
    fn push(&self, inputs: &[f32], gradients: &[f32]) {
        let mut rows = self.0.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.inputs.extend_from_slice(inputs);
        rows.gradients.extend_from_slice(gradients);
    }

    fn take(&self) -> Rows {
        std::mem::take(&mut *self.0.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn packed(&self) -> &Packed {
        let packed = self.0.packed.get();
        packed.expect("a sequence's weights are packed before its first step")
    }

    /// Gradients `[batch, outputs]` times the transpose of `W_x` (0) or `W_h` (1).
    fn to_input(&self, which: usize, gradients: &[f32]) -> Vec<f32> {
        let packed = self.packed();
        let panels = packed.backward[which].get_or_init(|| {
            let weight = &packed.weights[which];
            let [_, outputs] = weight.layout().shape().dims();
            Panels::transposed(slice(weight), outputs)
        });
        panels.multiply(gradients)
    }
}

/// Packs the weights for `uses` and gives the value of their node.
pub(super) fn pack(input: &Raw, hidden: &Raw, bias: &Raw, uses: &Uses) -> Raw {
    let weights = [input, hidden].map(contiguous);
    let bias = contiguous(bias);
    let parts = [slice(&weights[0]), slice(&weights[1]), slice(&bias)];
    let forward = Panels::stacked(&parts, parts[2].len());
    uses.0.packed.get_or_init(|| Packed {
        forward,
        weights,
        backward: Default::default(),
    });
    raw(vec![0.0], [1])
}

pub(super) fn tracked_weights<C: CheckpointStrategy>(
    input: FloatTensor<Autodiff<Flex, C>>,
    hidden: FloatTensor<Autodiff<Flex, C>>,
    bias: FloatTensor<Autodiff<Flex, C>>,
    uses: Uses,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Weights;

    impl Backward<Flex, 3> for Weights {
        type State = Uses;

        fn backward(self, ops: Ops<Uses, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
            let uses = ops.state;
            // What each use registered says only that there was one.
            let _ = grads.consume::<Flex>(&ops.node);
            let shapes = uses.packed().weights.each_ref();
            let [[inputs, outputs], [hidden, _]]: [[usize; 2]; 2] =
                shapes.map(|weight| weight.layout().shape().dims());
            let Rows {
                inputs: rows,
                gradients,
            } = uses.take();
            let count = gradients.len() / outputs;
            let rows = Matrix::new(&rows, [count, inputs + hidden + 1]).turned();
            let product = numbers(rows, Matrix::new(&gradients, [count, outputs]));
            let (to_inputs, rest) = product.split_at(inputs * outputs);
            let (to_hiddens, to_biases) = rest.split_at(hidden * outputs);
            let [to_input, to_hidden, to_bias] = ops.parents;
            if let Some(node) = to_input {
                grads.register::<Flex>(node.id, raw(to_inputs.to_vec(), [inputs, outputs]));
            }
            if let Some(node) = to_hidden {
                grads.register::<Flex>(node.id, raw(to_hiddens.to_vec(), [hidden, outputs]));
            }
            if let Some(node) = to_bias {
                grads.register::<Flex>(node.id, raw(to_biases.to_vec(), [outputs]));
            }
        }
    }

    let (input, input_guard) = input.into_parts();
    let (hidden, hidden_guard) = hidden.into_parts();
    let (bias, bias_guard) = bias.into_parts();
    let output = pack(&input, &hidden, &bias, &uses);
    let guards = [input_guard, hidden_guard, bias_guard];
    match Weights.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(uses, output),
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
    uses: Uses,
    /// Hidden state and cell.
    parts: Parts,
}

/// One LSTM step, which leaves hidden state and cell with `parts`, and the value of its node.
fn step(x: &Raw, hidden: &Raw, cell: &Raw, uses: Uses, parts: Parts) -> (Raw, Saved) {
    let [x, hidden, cell] = [x, hidden, cell].map(contiguous);
    let [batch, x_size] = x.layout().shape().dims();
    let [_, hidden_size] = hidden.layout().shape().dims();
    let width = x_size + hidden_size + 1;
    assert_eq!(hidden.layout().shape().dims(), [batch, hidden_size]);
    assert_eq!(cell.layout().shape().dims(), [batch, hidden_size]);
    let shapes = uses.packed().weights.each_ref();
    assert_eq!(
        shapes.map(|weight| weight.layout().shape().dims()),
        [[x_size, 4 * hidden_size], [hidden_size, 4 * hidden_size]],
        "shapes of the weights"
    );
    let mut rows = vec![0.0; batch * width];
    run(Rowed {
        x: slice(&x),
        hidden: slice(&hidden),
        sizes: [x_size, hidden_size],
        output: &mut rows,
    });
    let gates = uses.packed().forward.multiply(&rows);
    let rows = raw(rows, [batch, width]);
    let (outputs, gates) = lstm::forward(&gates, &cell);
    let output = parts.put(outputs);
    let saved = Saved {
        rows,
        cell,
        gates,
        uses,
        parts,
    };
    (output, saved)
}

pub(super) fn forward(x: &Raw, hidden: &Raw, cell: &Raw, uses: Uses, parts: Parts) -> Raw {
    step(x, hidden, cell, uses, parts).0
}

pub(super) fn tracked_step<C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<Flex, C>>,
    hidden: FloatTensor<Autodiff<Flex, C>>,
    cell: FloatTensor<Autodiff<Flex, C>>,
    weights: FloatTensor<Autodiff<Flex, C>>,
    uses: Uses,
    parts: Parts,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Step;

    impl Backward<Flex, 4> for Step {
        type State = Saved;

        fn backward(self, ops: Ops<Saved, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
            let saved = ops.state;
            // What each part registered says only that there was one.
            let _ = grads.consume::<Flex>(&ops.node);
            let outer = saved.parts.gradients();
            let [batch, hidden] = saved.cell.layout().shape().dims();
            let [_, width] = saved.rows.layout().shape().dims();
            let (gates, cell) = lstm::gradients(&saved.cell, &saved.gates, outer);
            let [to_x, to_hidden, to_cell, to_weights] = ops.parents;
            if let Some(node) = to_weights {
                saved.uses.push(slice(&saved.rows), &gates);
                grads.register::<Flex>(node.id, raw(vec![0.0], [1]));
            }
            if let Some(node) = to_cell {
                grads.register::<Flex>(node.id, raw(cell, [batch, hidden]));
            }
            if let Some(node) = to_x {
                let x = saved.uses.to_input(0, &gates);
                let inputs = width - hidden - 1;
                grads.register::<Flex>(node.id, raw(x, [batch, inputs]));
            }
            if let Some(node) = to_hidden {
                let h = saved.uses.to_input(1, &gates);
                grads.register::<Flex>(node.id, raw(h, [batch, hidden]));
            }
        }
    }

    let (x, x_guard) = x.into_parts();
    let (hidden, hidden_guard) = hidden.into_parts();
    let (cell, cell_guard) = cell.into_parts();
    let (_, weights_guard) = weights.into_parts();
    let (output, saved) = step(&x, &hidden, &cell, uses, parts);
    let guards = [x_guard, hidden_guard, cell_guard, weights_guard];
    match Step.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(saved, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
