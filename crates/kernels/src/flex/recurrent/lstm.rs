//! The elementwise part of an LSTM step, forward and backward in one pass each. The rest is in `steps.rs` and
//! `sequence.rs`.

use crate::flex::{
    Raw, contiguous, raw,
    simd::{Loop, math, run},
    slice,
};

struct Forward<'a> {
    gates: &'a [f32],
    cell: &'a [f32],
    hidden: usize,
    /// Hidden state and cell, each `[batch, hidden]`.
    outputs: [&'a mut [f32]; 2],
    /// `[batch, 5, hidden]`: `sig(i)`, `sig(f)`, `tanh(g)`, `sig(o)`, `tanh(c')`.
    saved: &'a mut [f32],
}

impl Loop for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.hidden;
        let rows = self.gates.chunks_exact(4 * size);
        let rows = rows.zip(self.cell.chunks_exact(size));
        let [hidden, cell] = self.outputs;
        let outputs = hidden.chunks_exact_mut(size);
        let outputs = outputs.zip(cell.chunks_exact_mut(size));
        let outputs = outputs.zip(self.saved.chunks_exact_mut(5 * size));
        for ((gates, cell), ((hidden_out, cell_out), saved)) in rows.zip(outputs) {
            for (saved, gate) in saved[..2 * size].iter_mut().zip(&gates[..2 * size]) {
                *saved = math::sigmoid(*gate);
            }
            for (saved, gate) in saved[2 * size..3 * size]
                .iter_mut()
                .zip(&gates[2 * size..3 * size])
            {
                *saved = math::tanh(*gate);
            }
            for (saved, gate) in saved[3 * size..4 * size].iter_mut().zip(&gates[3 * size..]) {
                *saved = math::sigmoid(*gate);
            }
            let (input, saved) = saved.split_at_mut(size);
            let (forget, saved) = saved.split_at_mut(size);
            let (candidate, saved) = saved.split_at_mut(size);
            let (open, squashed) = saved.split_at_mut(size);
            // Few slices in each loop: of a loop over more the compiler makes no vectors.
            let kept = forget.iter().zip(cell);
            let added = input.iter().zip(&*candidate);
            for (cell_out, ((f, c), (i, g))) in cell_out.iter_mut().zip(kept.zip(added)) {
                *cell_out = f * c + i * g;
            }
            for (squashed, cell) in squashed.iter_mut().zip(&*cell_out) {
                *squashed = math::tanh(*cell);
            }
            for (hidden, (o, t)) in hidden_out.iter_mut().zip(open.iter().zip(&*squashed)) {
                *hidden = o * t;
            }
        }
    }
}

struct Gradient<'a> {
    cell: &'a [f32],
    saved: &'a [f32],
    /// Gradients of hidden state and cell.
    gradients: [&'a [f32]; 2],
    hidden: usize,
    gates_out: &'a mut [f32],
    cell_out: &'a mut [f32],
}

impl Loop for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.hidden;
        let rows = self.cell.chunks_exact(size);
        let rows = rows.zip(self.saved.chunks_exact(5 * size));
        let [to_hidden, to_cell] = self.gradients;
        let gradients = to_hidden.chunks_exact(size).zip(to_cell.chunks_exact(size));
        let rows = rows.zip(gradients);
        let outputs = self.gates_out.chunks_exact_mut(4 * size);
        let outputs = outputs.zip(self.cell_out.chunks_exact_mut(size));
        for (((cell, saved), (to_hidden, to_cell)), (gates_out, cell_out)) in rows.zip(outputs) {
            let (input, saved) = saved.split_at(size);
            let (forget, saved) = saved.split_at(size);
            let (candidate, saved) = saved.split_at(size);
            let (open, squashed) = saved.split_at(size);
            let (input_out, gates_out) = gates_out.split_at_mut(size);
            let (forget_out, gates_out) = gates_out.split_at_mut(size);
            let (candidate_out, open_out) = gates_out.split_at_mut(size);
            // See `Forward`.
            let opened = to_hidden.iter().zip(open);
            for (out, ((h, o), t)) in open_out.iter_mut().zip(opened.clone().zip(squashed)) {
                *out = h * t * o * (1.0 - o);
            }
            let of_cell = opened.zip(squashed).zip(to_cell);
            for (out, (((h, o), t), c)) in cell_out.iter_mut().zip(of_cell) {
                *out = c + h * o * (1.0 - t * t);
            }
            let added = input.iter().zip(candidate);
            for (out, (cell, (i, g))) in
                input_out.iter_mut().zip(cell_out.iter().zip(added.clone()))
            {
                *out = cell * g * i * (1.0 - i);
            }
            for (out, (cell, (i, g))) in candidate_out.iter_mut().zip(cell_out.iter().zip(added)) {
                *out = cell * i * (1.0 - g * g);
            }
            for (out, (to_cell, (f, c))) in forget_out
                .iter_mut()
                .zip(cell_out.iter().zip(forget.iter().zip(cell)))
            {
                *out = to_cell * c * f * (1.0 - f);
            }
            for (out, f) in cell_out.iter_mut().zip(forget) {
                *out *= f;
            }
        }
    }
}

/// Computes hidden states and cells for the rows of a step from their gates and previous cells, and the values
/// that the gradient needs, `[rows, 5, hidden]`.
pub(crate) fn step_rows(
    gates: &[f32],
    cell: &[f32],
    hidden: usize,
    outputs: [&mut [f32]; 2],
    saved: &mut [f32],
) {
    run(Forward {
        gates,
        cell,
        hidden,
        outputs,
        saved,
    });
}

/// Gradients of gates and previous cells, from those of hidden states and cells.
pub(crate) fn gradient_rows(
    [cell, saved]: [&[f32]; 2],
    gradients: [&[f32]; 2],
    hidden: usize,
    [gates_out, cell_out]: [&mut [f32]; 2],
) {
    run(Gradient {
        cell,
        saved,
        gradients,
        hidden,
        gates_out,
        cell_out,
    });
}

/// Hidden state and cell, and the values that the gradient needs.
pub(crate) fn forward(gates: &[f32], cell: &Raw) -> ([Raw; 2], Raw) {
    let cell = contiguous(cell);
    let [batch, hidden] = cell.layout().shape().dims();
    let mut outputs = [(); 2].map(|()| vec![0.0; batch * hidden]);
    let mut saved = vec![0.0; batch * 5 * hidden];
    let both = outputs.each_mut().map(Vec::as_mut_slice);
    step_rows(gates, slice(&cell), hidden, both, &mut saved);
    (
        outputs.map(|output| raw(output, [batch, hidden])),
        raw(saved, [batch, 5 * hidden]),
    )
}

/// Gradients of gates and cell, from those of hidden state and cell, one of which may be missing.
pub(crate) fn gradients(cell: &Raw, saved: &Raw, outer: [Option<Raw>; 2]) -> (Vec<f32>, Vec<f32>) {
    let [batch, hidden] = cell.layout().shape().dims();
    let outer =
        outer.map(|part| part.unwrap_or_else(|| raw(vec![0.0; batch * hidden], [batch, hidden])));
    let mut gates_out = vec![0.0; batch * 4 * hidden];
    let mut cell_out = vec![0.0; batch * hidden];
    gradient_rows(
        [cell, saved].map(slice),
        outer.each_ref().map(slice),
        hidden,
        [&mut gates_out, &mut cell_out],
    );
    (gates_out, cell_out)
}
