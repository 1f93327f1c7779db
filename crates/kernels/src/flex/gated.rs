//! Gates that let a candidate into a memory, and hyperbolic tangents, forward and backward in one pass each.

use super::{
    Loop, Raw,
    chunks::{in_pairs, zeros},
    contiguous, for_rows, math, raw, run, slice,
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
use rayon::prelude::*;

/// What a number costs beside one that is only added.
const COST: usize = 4;

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Rows of a sequence.
    slots: usize,
    width: usize,
    /// Numbers of a gate: `width`, or one for a row.
    gate: usize,
}

/// Rows of some sequences.
struct Forward<'a> {
    sizes: Sizes,
    from_memory: &'a [f32],
    from_input: &'a [f32],
    candidate: &'a [f32],
    memory: &'a [f32],
    biases: [f32; 2],
    /// Input gates, forget gates, and the tangent of the candidate of each row.
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

/// Gradients of rows of some sequences.
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
struct Saved {
    sizes: Sizes,
    memory: Raw,
    gates: Vec<f32>,
}

/// Sequences that a thread takes.
fn share(sequences: usize, numbers: usize) -> usize {
    /// Numbers under which a second thread costs more than it saves.
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
    assert!(batch > 0 && rows.is_multiple_of(batch), "rows of sequences");
    let sizes = Sizes {
        slots: rows / batch,
        width,
        gate: gates / 2,
    };
    assert!(
        gates == 2 * width || gates == 2,
        "gates for each number or for each row"
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
    /// `[sequences, gates]`, zeros.
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

pub(super) fn forward(all: [&Raw; 4], biases: [f32; 2]) -> Raw {
    forward_of(all, biases).0
}

pub(super) fn tracked<C: CheckpointStrategy>(
    all: [FloatTensor<Autodiff<Flex, C>>; 4],
    biases: [f32; 2],
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Gated;

    impl Backward<Flex, 4> for Gated {
        type State = Saved;

        fn backward(self, ops: Ops<Saved, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
            let saved = ops.state;
            let outer = grads.consume::<Flex>(&ops.node);
            let Sizes { slots, width, gate } = saved.sizes;
            let all = gradients(&saved, &outer);
            let rows = all[3].len() / width;
            let shapes = [
                [rows, 2 * gate],
                [rows / slots, 2 * gate],
                [rows, width],
                [rows, width],
            ];
            for (node, (values, shape)) in ops.parents.into_iter().zip(all.into_iter().zip(shapes))
            {
                if let Some(node) = node {
                    grads.register::<Flex>(node.id, raw(values, shape));
                }
            }
        }
    }

    let parted = all.map(|tensor| tensor.into_parts());
    let (output, saved) = forward_of(parted.each_ref().map(|(value, _)| value), biases);
    let guards = parted.map(|(_, guard)| guard);
    match Gated.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(saved, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

struct Tangents<'a>(&'a [f32], &'a mut [f32]);

impl Loop for Tangents<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (output, x) in self.1.iter_mut().zip(self.0) {
            *output = math::tanh(*x);
        }
    }
}

/// `output` begins as the gradient of the tangents.
struct Slopes<'a>(&'a [f32], &'a mut [f32]);

impl Loop for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (output, tangent) in self.1.iter_mut().zip(self.0) {
            *output *= 1.0 - tangent * tangent;
        }
    }
}

pub(super) fn tanh(x: &Raw) -> Raw {
    let x = contiguous(x);
    let [rows, width] = x.layout().shape().dims();
    let mut output = vec![0.0; rows * width];
    for_rows(&mut output, width, width * COST, |first, output| {
        run(Tangents(
            &slice(&x)[first * width..][..output.len()],
            output,
        ));
    });
    raw(output, [rows, width])
}

pub(super) fn tracked_tanh<C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<Flex, C>>,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Tanh;

    impl Backward<Flex, 1> for Tanh {
        type State = Raw;

        fn backward(self, ops: Ops<Raw, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
            let tangents = ops.state;
            let outer = contiguous(&grads.consume::<Flex>(&ops.node));
            let [Some(node)] = ops.parents else {
                return;
            };
            let [rows, width] = tangents.layout().shape().dims();
            let mut output = slice(&outer).to_vec();
            for_rows(&mut output, width, width, |first, output| {
                run(Slopes(
                    &slice(&tangents)[first * width..][..output.len()],
                    output,
                ));
            });
            grads.register::<Flex>(node.id, raw(output, [rows, width]));
        }
    }

    let (x, guard) = x.into_parts();
    let output = tanh(&x);
    match Tanh.prepare::<C>([guard]).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(output.clone(), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
