//! The elementwise part of an LSTM step, forward and backward in one pass each; `steps.rs` has the
//! rest.

use super::{Loop, Raw, contiguous, math, raw, run, slice};

struct Forward<'a> {
    gates: &'a [f32],
    cell: &'a [f32],
    hidden: usize,
    /// `[batch, 2, hidden]`: hidden state, cell.
    output: &'a mut [f32],
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
        let outputs = self.output.chunks_exact_mut(2 * size);
        let outputs = outputs.zip(self.saved.chunks_exact_mut(5 * size));
        for ((gates, cell), (output, saved)) in rows.zip(outputs) {
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
            let (hidden_out, cell_out) = output.split_at_mut(size);
            // Equal lengths that the compiler can see.
            let (cell, squashed, cell_out) =
                (&cell[..size], &mut squashed[..size], &mut cell_out[..size]);
            for j in 0..size {
                let cell = forget[j] * cell[j] + input[j] * candidate[j];
                cell_out[j] = cell;
                squashed[j] = math::tanh(cell);
                hidden_out[j] = open[j] * squashed[j];
            }
        }
    }
}

struct Gradient<'a> {
    cell: &'a [f32],
    saved: &'a [f32],
    /// Of the output, `[batch, 2, hidden]`.
    gradient: &'a [f32],
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
        let rows = rows.zip(self.gradient.chunks_exact(2 * size));
        let outputs = self.gates_out.chunks_exact_mut(4 * size);
        let outputs = outputs.zip(self.cell_out.chunks_exact_mut(size));
        for (((cell, saved), gradient), (gates_out, cell_out)) in rows.zip(outputs) {
            let (input, saved) = saved.split_at(size);
            let (forget, saved) = saved.split_at(size);
            let (candidate, saved) = saved.split_at(size);
            let (open, squashed) = saved.split_at(size);
            let (to_hidden, to_cell) = gradient.split_at(size);
            let (input_out, gates_out) = gates_out.split_at_mut(size);
            let (forget_out, gates_out) = gates_out.split_at_mut(size);
            let (candidate_out, open_out) = gates_out.split_at_mut(size);
            // Equal lengths that the compiler can see.
            let (cell, squashed, to_cell) = (&cell[..size], &squashed[..size], &to_cell[..size]);
            let (open_out, cell_out) = (&mut open_out[..size], &mut cell_out[..size]);
            for j in 0..size {
                let (i, f, g, o, t) = (input[j], forget[j], candidate[j], open[j], squashed[j]);
                open_out[j] = to_hidden[j] * t * o * (1.0 - o);
                let cell_gradient = to_cell[j] + to_hidden[j] * o * (1.0 - t * t);
                input_out[j] = cell_gradient * g * i * (1.0 - i);
                forget_out[j] = cell_gradient * cell[j] * f * (1.0 - f);
                candidate_out[j] = cell_gradient * i * (1.0 - g * g);
                cell_out[j] = cell_gradient * f;
            }
        }
    }
}

/// Hidden state and cell side by side, and what the gradient needs.
pub(super) fn forward(gates: &[f32], cell: &Raw) -> (Raw, Raw) {
    let cell = contiguous(cell);
    let [batch, hidden] = cell.layout().shape().dims();
    let mut output = vec![0.0; batch * 2 * hidden];
    let mut saved = vec![0.0; batch * 5 * hidden];
    run(Forward {
        gates,
        cell: slice(&cell),
        hidden,
        output: &mut output,
        saved: &mut saved,
    });
    (
        raw(output, [batch, 2 * hidden]),
        raw(saved, [batch, 5 * hidden]),
    )
}

/// Gradients of gates and cell, from that of hidden state and cell side by side.
pub(super) fn gradients(cell: &Raw, saved: &Raw, outer: &Raw) -> (Vec<f32>, Vec<f32>) {
    let [batch, hidden] = cell.layout().shape().dims();
    let mut gates_out = vec![0.0; batch * 4 * hidden];
    let mut cell_out = vec![0.0; batch * hidden];
    run(Gradient {
        cell: slice(cell),
        saved: slice(saved),
        gradient: slice(outer),
        hidden,
        gates_out: &mut gates_out,
        cell_out: &mut cell_out,
    });
    (gates_out, cell_out)
}
