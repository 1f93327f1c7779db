//! An LSTM over a sequence whose inputs are all known, as a single operation.
//!
//! The part of the gates that comes from the inputs is one product for all steps, and so is the gradient of each
//! weight. The time loop only does the recurrent product, with a matrix that is packed once. Threads share out
//! the sequences of the batch. These do not depend on each other, so no thread waits for another at a step.
//! Where a sequence is reset, zeros enter the step in place of its state.

use crate::flex::{
    Raw, contiguous,
    dense::{
        linear::{self, to_weight},
        product::Matrix,
        tensor_product::matrix_product,
    },
    graph::fused::Fused,
    raw,
    recurrent::{lstm, panels::Panels},
    simd::{Loop, run},
    slice,
};
use crate::linear::Activation;
use rayon::prelude::*;

/// With fewer multiplications of a time loop a second thread costs more than it saves.
const SERIAL: usize = 1 << 20;

/// Sequences of the batch that each thread takes through all steps.
fn share(batch: usize, multiplications: usize) -> usize {
    let threads = rayon::current_num_threads();
    match threads == 1 || batch < threads || multiplications < SERIAL {
        true => batch,
        false => batch.div_ceil(threads),
    }
}

/// Splits `[steps, batch, width]` into shares: each gets its rows of every step.
fn shared_out(
    values: &mut [f32],
    batch: usize,
    width: usize,
    share: usize,
) -> Vec<Vec<&mut [f32]>> {
    let mut shares: Vec<Vec<&mut [f32]>> = (0..batch.div_ceil(share)).map(|_| Vec::new()).collect();
    for step in values.chunks_exact_mut(batch * width) {
        for (rows, share) in step.chunks_mut(share * width).zip(&mut shares) {
            share.push(rows);
        }
    }
    shares
}

/// `rows` times the matrix. If a step is alone, several threads share its columns.
fn multiply(panels: &Panels, rows: &[f32], alone: bool, output: &mut [f32]) {
    match alone {
        true => output.copy_from_slice(&panels.multiply(rows)),
        false => panels.multiply_into(rows, output),
    }
}

/// Adds the second slice to the first.
struct Add<'a>(&'a mut [f32], &'a [f32]);

impl Loop for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (sum, value) in self.0.iter_mut().zip(self.1) {
            *sum += value;
        }
    }
}

/// Sets the states `[rows, hidden]` of sequences that are reset to zero.
fn clear(states: &mut [f32], hidden: usize, resets: &[bool]) {
    let states = states.chunks_exact_mut(hidden).zip(resets);
    for (state, _) in states.filter(|(_, reset)| **reset) {
        state.fill(0.0);
    }
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    batch: usize,
    hidden: usize,
}

/// Values that the backward pass needs.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    sizes: Sizes,
    x: Raw,
    weight_input: Raw,
    weight_hidden: Raw,
    /// Which sequence is reset before which step, `[steps * batch]`.
    resets: Option<Vec<bool>>,
    /// Hidden states that enter each step, and those after the last, `[(steps + 1) * batch, hidden]`.
    hidden: Raw,
    /// Cells, in the same layout.
    cells: Raw,
    /// Saved values of the gates of all steps; see [`lstm`].
    gates: Raw,
}

fn rows(all: &Raw, range: std::ops::Range<usize>) -> Raw {
    all.narrow(0, range.start, range.len())
}

/// Hidden states of all steps, the last hidden state and the last cell.
fn sequence(all: [&Raw; 6], resets: Option<Vec<bool>>) -> ([Raw; 3], Saved) {
    let [
        x,
        first_hidden,
        first_cell,
        weight_input,
        weight_hidden,
        bias,
    ] = all.map(contiguous);
    let [batch, hidden] = first_hidden.layout().shape().dims();
    let [count, inputs] = x.layout().shape().dims();
    let width = 4 * hidden;
    assert!(
        batch > 0 && count.is_multiple_of(batch),
        "the number of rows must be a multiple of the batch"
    );
    assert_eq!(first_cell.layout().shape().dims(), [batch, hidden]);
    assert_eq!(
        [&weight_input, &weight_hidden].map(|weight| weight.layout().shape().dims()),
        [[inputs, width], [hidden, width]],
        "shapes of the weights"
    );
    let steps = count / batch;
    assert!(
        resets.as_ref().is_none_or(|resets| resets.len() == count),
        "number of the resets"
    );
    let given = linear::affine(&x, &weight_input, &bias, Activation::Identity);
    let given = slice(&given);
    let panels = Panels::stacked(&[slice(&weight_hidden)], width);
    let size = batch * hidden;
    let mut states = [&first_hidden, &first_cell].map(|first| {
        let mut all = Vec::with_capacity((steps + 1) * size);
        all.extend_from_slice(slice(first));
        all.resize((steps + 1) * size, 0.0);
        all
    });
    let mut gates = vec![0.0; steps * size * 5];
    // Hidden states after each step. Without resets they are what enters the next.
    let mut after = vec![0.0; resets.as_ref().map_or(0, |_| steps * size)];
    let share = share(batch, count * hidden * width);
    let alone = share == batch;
    let [hiddens, cells] = &mut states;
    let shares = shared_out(hiddens, batch, hidden, share)
        .into_par_iter()
        .zip(shared_out(cells, batch, hidden, share))
        .zip(shared_out(&mut gates, batch, 5 * hidden, share))
        .zip(shared_out(&mut after, batch, hidden, share));
    shares.enumerate().for_each(
        |(index, (((mut hiddens, mut cells), mut gates), mut after))| {
            let first = index * share;
            let mut sums = vec![0.0; hiddens[0].len() * 4];
            for (step, gates) in gates.iter_mut().enumerate() {
                let row = step * batch + first;
                let [hidden_before, hidden_after] = pair(&mut hiddens, step);
                let [cell_before, cell_after] = pair(&mut cells, step);
                if let Some(resets) = &resets {
                    clear(hidden_before, hidden, &resets[row..]);
                    clear(cell_before, hidden, &resets[row..]);
                }
                multiply(&panels, hidden_before, alone, &mut sums);
                let given = &given[row * width..][..sums.len()];
                run(Add(&mut sums, given));
                let outputs = [&mut *hidden_after, cell_after];
                lstm::step_rows(&sums, cell_before, hidden, outputs, gates);
                if let Some(after) = after.get_mut(step) {
                    after.copy_from_slice(hidden_after);
                }
            }
        },
    );
    let last = states.each_ref().map(|all| all[steps * size..].to_vec());
    let [hiddens, cells] = states.map(|all| raw(all, [(steps + 1) * batch, hidden]));
    let [last_hidden, last_cell] = last.map(|last| raw(last, [batch, hidden]));
    let outputs = match resets {
        Some(_) => raw(after, [count, hidden]),
        None => rows(&hiddens, batch..(steps + 1) * batch),
    };
    let saved = Saved {
        sizes: Sizes {
            steps,
            batch,
            hidden,
        },
        x,
        weight_input,
        weight_hidden,
        resets,
        hidden: hiddens,
        cells,
        gates: raw(gates, [steps * batch, 5 * hidden]),
    };
    ([outputs, last_hidden, last_cell], saved)
}

/// The rows of a step and of the next one.
fn pair<'a>(steps: &'a mut [&mut [f32]], step: usize) -> [&'a mut [f32]; 2] {
    let [before, after] = &mut steps[step..step + 2] else {
        unreachable!("there are two of them")
    };
    [before, after]
}

/// Gradients of the gates of all steps before their nonlinearities, of the initial hidden state and of the
/// initial cell.
fn through_time(saved: &Saved, outer: [Option<Raw>; 3]) -> [Vec<f32>; 3] {
    let Sizes {
        steps,
        batch,
        hidden,
    } = saved.sizes;
    let (size, width) = (batch * hidden, 4 * hidden);
    let panels = Panels::transposed(slice(&saved.weight_hidden), width);
    let [to_outputs, to_hidden, to_cell] = outer;
    let to_outputs = to_outputs.as_ref().map(slice);
    // Gradients of the state after the step that is processed next, going backward.
    let mut to_state = [to_hidden, to_cell].map(|last| match last {
        Some(last) => slice(&last).to_vec(),
        None => vec![0.0; size],
    });
    let mut gates = vec![0.0; steps * batch * width];
    let share = share(batch, steps * size * width);
    let alone = share == batch;
    let [to_hidden, to_cell] = &mut to_state;
    let shares = shared_out(&mut gates, batch, width, share)
        .into_par_iter()
        .zip(to_hidden.par_chunks_mut(share * hidden))
        .zip(to_cell.par_chunks_mut(share * hidden));
    shares
        .enumerate()
        .for_each(|(index, ((mut gates, to_hidden), to_cell))| {
            let (first, count) = (index * share * hidden, to_hidden.len());
            let mut to_cell_before = vec![0.0; count];
            for step in (0..steps).rev() {
                let place = step * size + first;
                if let Some(to_outputs) = to_outputs {
                    run(Add(to_hidden, &to_outputs[place..][..count]));
                }
                let cell = &slice(&saved.cells)[place..][..count];
                let kept = &slice(&saved.gates)[5 * place..][..5 * count];
                lstm::gradient_rows(
                    [cell, kept],
                    [&*to_hidden, &*to_cell],
                    hidden,
                    [&mut *gates[step], &mut to_cell_before],
                );
                to_cell.copy_from_slice(&to_cell_before);
                multiply(&panels, gates[step], alone, to_hidden);
                if let Some(resets) = &saved.resets {
                    let resets = &resets[place / hidden..];
                    clear(to_hidden, hidden, resets);
                    clear(to_cell, hidden, resets);
                }
            }
        });
    let [to_hidden, to_cell] = to_state;
    [gates, to_hidden, to_cell]
}

/// See [`crate::lstm::lstm_sequence`]. Inputs: inputs of all steps, hidden state, cell, weights of input and
/// state, bias.
pub(crate) struct LstmSequence {
    /// Which sequence is reset before which step, `[steps * batch]`; `None` if none is.
    pub(crate) resets: Option<Vec<bool>>,
}

impl Fused<6> for LstmSequence {
    type Outputs = [Raw; 3];
    type Saved = Saved;

    fn forward(self, inputs: [Raw; 6]) -> ([Raw; 3], Saved) {
        sequence(inputs.each_ref(), self.resets)
    }

    fn backward(saved: Saved, outer: [Option<Raw>; 3], wanted: [bool; 6]) -> [Option<Raw>; 6] {
        let Sizes {
            steps,
            batch,
            hidden,
        } = saved.sizes;
        let (count, width) = (steps * batch, 4 * hidden);
        let [inputs, _] = saved.weight_input.layout().shape().dims();
        let [gates, to_hidden, to_cell] = through_time(&saved, outer);
        let [to_x, _, _, to_input, to_recurrent, to_bias] = wanted;
        let to_bias = to_bias.then(|| raw(linear::column_sums(&gates, width), [width]));
        let to_recurrent = to_recurrent.then(|| {
            let before = &slice(&saved.hidden)[..count * hidden];
            raw(to_weight(before, &gates, [hidden, width]), [hidden, width])
        });
        let to_input = to_input.then(|| {
            let gradient = to_weight(slice(&saved.x), &gates, [inputs, width]);
            raw(gradient, [inputs, width])
        });
        let to_x = to_x.then(|| {
            let turned = Matrix::new(slice(&saved.weight_input), [inputs, width]).turned();
            matrix_product(Matrix::new(&gates, [count, width]), turned)
        });
        [
            to_x,
            Some(raw(to_hidden, [batch, hidden])),
            Some(raw(to_cell, [batch, hidden])),
            to_input,
            to_recurrent,
            to_bias,
        ]
    }
}
