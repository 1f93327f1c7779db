//! Weights that a time loop uses at every step. They are packed once for all products, and their gradient is one
//! product over all steps, rather than a sum of one product per step.
//!
//! The weights enter a sequence through one node of the graph ([`StepWeights`]), whose value is a placeholder.
//! Each use leaves its input and the gradient of its output in a list that the node shares. The node's own
//! backward step runs after those of all uses and multiplies the two.

use crate::flex::{
    Raw, contiguous,
    dense::product::{Matrix, numbers},
    graph::{fused::Fused, parts::placeholder},
    raw,
    recurrent::{lstm, panels::Panels},
    simd::{Loop, run},
    slice,
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// State shared by the steps of a sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    packed: OnceLock<Packed>,
    rows: Mutex<Rows>,
}

/// Weights packed for products with few rows.
#[derive(Debug)]
struct Packed {
    /// `[W_x; W_h; b]`, `[inputs + hidden + 1, outputs]`.
    forward: Panels,
    /// `W_x` and `W_h`. Their transposes are packed when a backward pass first needs them.
    weights: [Raw; 2],
    backward: [OnceLock<Panels>; 2],
}

/// Left by the uses of the weights so far: rows `[x, h, 1]` and gradients of their products.
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

/// Packs the weights for `uses` and returns the value of their node.
fn pack(input: &Raw, hidden: &Raw, bias: &Raw, uses: &Uses) -> Raw {
    let weights = [input, hidden].map(contiguous);
    let bias = contiguous(bias);
    let parts = [slice(&weights[0]), slice(&weights[1]), slice(&bias)];
    let forward = Panels::stacked(&parts, parts[2].len());
    uses.0.packed.get_or_init(|| Packed {
        forward,
        weights,
        backward: Default::default(),
    });
    placeholder()
}

/// See [`crate::lstm::LstmWeights::new`]. Inputs: input weights, state weights and bias; output: the node that
/// represents them.
pub(crate) struct StepWeights {
    pub(crate) uses: Uses,
}

impl Fused<3> for StepWeights {
    type Outputs = Raw;
    type Saved = Uses;

    fn forward(self, [input, hidden, bias]: [Raw; 3]) -> (Raw, Uses) {
        (pack(&input, &hidden, &bias, &self.uses), self.uses)
    }

    fn backward(uses: Uses, _: Raw, wanted: [bool; 3]) -> [Option<Raw>; 3] {
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
        let (to_input, rest) = product.split_at(inputs * outputs);
        let (to_hidden, to_bias) = rest.split_at(hidden * outputs);
        [
            wanted[0].then(|| raw(to_input.to_vec(), [inputs, outputs])),
            wanted[1].then(|| raw(to_hidden.to_vec(), [hidden, outputs])),
            wanted[2].then(|| raw(to_bias.to_vec(), [outputs])),
        ]
    }
}

/// Writes `[x, h, 1]` to each row.
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

/// Values that the backward pass of a step needs.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    /// `[x, h, 1]`
    rows: Raw,
    cell: Raw,
    /// Saved values of the gates; see [`lstm`].
    gates: Raw,
    uses: Uses,
}

/// Hidden state and cell after one LSTM step.
fn step(x: &Raw, hidden: &Raw, cell: &Raw, uses: Uses) -> ([Raw; 2], Saved) {
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
    let saved = Saved {
        rows,
        cell,
        gates,
        uses,
    };
    (outputs, saved)
}

/// See [`crate::lstm::lstm_step`]. Inputs: input, hidden state, cell and the node of the weights; outputs:
/// hidden state and cell.
pub(crate) struct LstmStep {
    pub(crate) uses: Uses,
}

impl Fused<4> for LstmStep {
    type Outputs = [Raw; 2];
    type Saved = Saved;

    fn forward(self, [x, hidden, cell, _]: [Raw; 4]) -> ([Raw; 2], Saved) {
        step(&x, &hidden, &cell, self.uses)
    }

    fn backward(saved: Saved, outer: [Option<Raw>; 2], wanted: [bool; 4]) -> [Option<Raw>; 4] {
        let [batch, hidden] = saved.cell.layout().shape().dims();
        let [_, width] = saved.rows.layout().shape().dims();
        let (gates, to_cell) = lstm::gradients(&saved.cell, &saved.gates, outer);
        let [to_x, to_hidden, _, to_weights] = wanted;
        if to_weights {
            saved.uses.push(slice(&saved.rows), &gates);
        }
        let inputs = width - hidden - 1;
        [
            to_x.then(|| raw(saved.uses.to_input(0, &gates), [batch, inputs])),
            to_hidden.then(|| raw(saved.uses.to_input(1, &gates), [batch, hidden])),
            Some(raw(to_cell, [batch, hidden])),
            to_weights.then(placeholder),
        ]
    }
}
