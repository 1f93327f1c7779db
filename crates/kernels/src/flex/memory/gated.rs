//! Gates that let a candidate into a memory, each forward and backward in one pass.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{
        Loop,
        chunks::{for_rows, in_pairs, zeros},
        math, run,
    },
    slice,
};
use rayon::prelude::*;

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Rows per sequence.
    slots: usize,
    width: usize,
    /// Width of a gate: `width`, or one per row.
    gate: usize,
}

/// The forward pass for some sequences.
struct Forward<'a> {
    sizes: Sizes,
    from_memory: &'a [f32],
    from_input: &'a [f32],
    candidate: &'a [f32],
    memory: &'a [f32],
    biases: [f32; 2],
    /// Input gates, forget gates, and the tangent of the candidate, for each row.
    saved: &'a mut [f32],
    output: &'a mut [f32],
}

impl Loop for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sizes { slots, width, gate } = self.sizes;
        let rows = self.from_memory.chunks_exact(2 * gate).enumerate();
        let rows = rows.zip(
            self.candidate
                .chunks_exact(width)
                .zip(self.memory.chunks_exact(width)),
        );
        let outputs = self.saved.chunks_exact_mut(2 * gate + width);
        let outputs = outputs.zip(self.output.chunks_exact_mut(width));
        for (((row, from_memory), (candidate, memory)), (saved, output)) in rows.zip(outputs) {
            let from_input = &self.from_input[row / slots * 2 * gate..][..2 * gate];
            let (gates, tangent) = saved.split_at_mut(2 * gate);
            for (half, bias) in self.biases.into_iter().enumerate() {
                let place = half * gate;
                let terms = from_memory[place..][..gate]
                    .iter()
                    .zip(&from_input[place..][..gate]);
                for (gate, (a, b)) in gates[place..][..gate].iter_mut().zip(terms) {
                    *gate = math::sigmoid(a + b + bias);
                }
            }
            for (tangent, candidate) in tangent.iter_mut().zip(candidate) {
                *tangent = math::tanh(*candidate);
            }
            let (input, forget) = gates.split_at(gate);
            if gate == 1 {
                for j in 0..width {
                    output[j] = input[0] * tangent[j] + forget[0] * memory[j];
                }
            } else {
                let (input, forget) = (&input[..width], &forget[..width]);
                for j in 0..width {
                    output[j] = input[j] * tangent[j] + forget[j] * memory[j];
                }
            }
        }
    }
}

/// The backward pass for some sequences.
struct Gradient<'a> {
    sizes: Sizes,
    saved: &'a [f32],
    memory: &'a [f32],
    outer: &'a [f32],
    to_gates: &'a mut [f32],
    to_candidate: &'a mut [f32],
    to_memory: &'a mut [f32],
}

impl Loop for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sizes { width, gate, .. } = self.sizes;
        let rows = self.saved.chunks_exact(2 * gate + width);
        let rows = rows.zip(
            self.memory
                .chunks_exact(width)
                .zip(self.outer.chunks_exact(width)),
        );
        let outputs = self.to_gates.chunks_exact_mut(2 * gate);
        let outputs = outputs.zip(self.to_candidate.chunks_exact_mut(width));
        let outputs = outputs.zip(self.to_memory.chunks_exact_mut(width));
        for ((saved, (memory, outer)), ((to_gates, to_candidate), to_memory)) in rows.zip(outputs) {
            let (gates, tangent) = saved.split_at(2 * gate);
            let (input, forget) = gates.split_at(gate);
            let (to_input, to_forget) = to_gates.split_at_mut(gate);
            if gate == 1 {
                let (i, f) = (input[0], forget[0]);
                for j in 0..width {
                    to_input[0] += outer[j] * tangent[j];
                    to_forget[0] += outer[j] * memory[j];
                    to_candidate[j] = outer[j] * i * (1.0 - tangent[j] * tangent[j]);
                    to_memory[j] = outer[j] * f;
                }
                to_input[0] *= i * (1.0 - i);
                to_forget[0] *= f * (1.0 - f);
            } else {
                let (input, forget, tangent) =
                    (&input[..width], &forget[..width], &tangent[..width]);
                let (to_input, to_forget) = (&mut to_input[..width], &mut to_forget[..width]);
                for j in 0..width {
                    let (i, f, t) = (input[j], forget[j], tangent[j]);
                    to_input[j] = outer[j] * t * i * (1.0 - i);
                    to_forget[j] = outer[j] * memory[j] * f * (1.0 - f);
                    to_candidate[j] = outer[j] * i * (1.0 - t * t);
                    to_memory[j] = outer[j] * f;
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Saved {
    sizes: Sizes,
    memory: Raw,
    gates: Vec<f32>,
}

/// Sequences per thread.
fn share(sequences: usize, numbers: usize) -> usize {
    /// With fewer numbers a second thread costs more than it saves.
    const SERIAL: usize = 1 << 14;
    let threads = rayon::current_num_threads();
    match threads == 1 || numbers < SERIAL {
        true => sequences.max(1),
        false => sequences.div_ceil(threads),
    }
}

fn forward_of(all: [&Raw; 4], biases: [f32; 2]) -> (Raw, Saved) {
    let [from_memory, from_input, candidate, memory] = all.map(contiguous);
    let [rows, width] = memory.layout().shape().dims();
    let [batch, gates] = from_input.layout().shape().dims();
    assert!(
        batch > 0 && rows.is_multiple_of(batch),
        "the number of rows must be a multiple of the batch"
    );
    let sizes = Sizes {
        slots: rows / batch,
        width,
        gate: gates / 2,
    };
    assert!(
        gates == 2 * width || gates == 2,
        "there must be a gate for each number or one for each row"
    );
    assert_eq!(from_memory.layout().shape().dims(), [rows, gates]);
    assert_eq!(candidate.layout().shape().dims(), [rows, width]);
    let each = gates + width;
    let mut saved = zeros(rows * each);
    let mut output = zeros(rows * width);
    let share = share(batch, rows * width) * sizes.slots;
    let work = |index: usize, saved: &mut [f32], output: &mut [f32]| {
        let (first, count) = (index * share, output.len() / width);
        run(Forward {
            sizes,
            from_memory: &slice(&from_memory)[first * gates..][..count * gates],
            from_input: &slice(&from_input)[first / sizes.slots * gates..],
            candidate: &slice(&candidate)[first * width..][..count * width],
            memory: &slice(&memory)[first * width..][..count * width],
            biases,
            saved,
            output,
        });
    };
    let outputs = (&mut output[..], (share * width).max(1));
    in_pairs(true, (&mut saved, (share * each).max(1)), outputs, work);
    let saved = Saved {
        sizes,
        memory,
        gates: saved,
    };
    (raw(output, [rows, width]), saved)
}

/// Sums over the slots of each sequence.
struct SlotSums<'a> {
    slots: usize,
    gates: usize,
    /// `[sequences, slots, gates]`
    values: &'a [f32],
    /// `[sequences, gates]`, initially zero.
    sums: &'a mut [f32],
}

impl Loop for SlotSums<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let sums = self.sums.chunks_exact_mut(self.gates);
        let values = self.values.chunks_exact(self.slots * self.gates);
        for (sum, rows) in sums.zip(values) {
            for row in rows.chunks_exact(self.gates) {
                for (sum, value) in sum.iter_mut().zip(row) {
                    *sum += value;
                }
            }
        }
    }
}

/// Gradients of the gates' two terms, of the candidate and of the memory.
fn gradients(saved: &Saved, outer: &Raw) -> [Vec<f32>; 4] {
    let outer = contiguous(outer);
    let Sizes { slots, width, gate } = saved.sizes;
    let (gates, each) = (2 * gate, 2 * gate + width);
    let rows = slice(&outer).len() / width;
    let mut to_gates = zeros(rows * gates);
    let mut to_candidate = zeros(rows * width);
    let mut to_memory = zeros(rows * width);
    let share = share(rows / slots, rows * width) * slots;
    to_gates
        .par_chunks_mut((share * gates).max(1))
        .zip(to_candidate.par_chunks_mut((share * width).max(1)))
        .zip(to_memory.par_chunks_mut((share * width).max(1)))
        .enumerate()
        .for_each(|(index, ((to_gates, to_candidate), to_memory))| {
            let (first, count) = (index * share, to_memory.len() / width);
            run(Gradient {
                sizes: saved.sizes,
                saved: &saved.gates[first * each..][..count * each],
                memory: &slice(&saved.memory)[first * width..][..count * width],
                outer: &slice(&outer)[first * width..][..count * width],
                to_gates,
                to_candidate,
                to_memory,
            });
        });
    let mut to_input = vec![0.0; rows / slots * gates];
    for_rows(&mut to_input, gates, slots * gates, |first, sums| {
        let count = sums.len() / gates;
        run(SlotSums {
            slots,
            gates,
            values: &to_gates[first * slots * gates..][..count * slots * gates],
            sums,
        });
    });
    [to_gates, to_input, to_candidate, to_memory]
}

/// See [`crate::relation::gated_memory`].
pub(crate) struct GatedMemory {
    /// Biases of input and forget gates.
    pub(crate) biases: [f32; 2],
}

impl Fused<4> for GatedMemory {
    type Outputs = Raw;
    type Saved = Saved;

    fn forward(self, inputs: [Raw; 4]) -> (Raw, Saved) {
        forward_of(inputs.each_ref(), self.biases)
    }

    fn backward(saved: Saved, outer: Raw, _: [bool; 4]) -> [Option<Raw>; 4] {
        let Sizes { slots, width, gate } = saved.sizes;
        let [to_gates, to_input, to_candidate, to_memory] = gradients(&saved, &outer);
        let rows = to_memory.len() / width;
        [
            Some(raw(to_gates, [rows, 2 * gate])),
            Some(raw(to_input, [rows / slots, 2 * gate])),
            Some(raw(to_candidate, [rows, width])),
            Some(raw(to_memory, [rows, width])),
        ]
    }
}
