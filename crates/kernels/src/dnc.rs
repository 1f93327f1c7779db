//! The memory of a Differentiable Neural Computer: one step of write and read.

use crate::{attention::read, content::content_weights, softplus};
use burn::tensor::{Int, Tensor, activation};

/// Keeps the logarithm of usage finite.
pub const USAGE_FLOOR: f64 = 1e-6;

/// A memory and its bookkeeping.
#[derive(Clone, Debug)]
pub struct DncMemory {
    /// `M_t`, `[batch, slots, width]`.
    pub rows: Tensor<3>,
    /// `u_t`, `[batch, slots]`.
    pub usage: Tensor<2>,
    /// `p_t`, `[batch, slots]`.
    pub precedence: Tensor<2>,
    /// `L_t`, `[batch, slots, slots]`; `L[i, j]` says that `i` was written after `j`.
    pub links: Tensor<3>,
    /// `w^r_t`, `[batch, reads, slots]`.
    pub read_weights: Tensor<3>,
    /// `w^w_t`, `[batch, slots]`.
    pub write_weights: Tensor<2>,
}

/// What a step gives.
#[derive(Clone, Debug)]
pub struct DncStep {
    /// The memory after the step.
    pub memory: DncMemory,
    /// `a_t`, `[batch, slots]`.
    pub allocation: Tensor<2>,
    /// `r_t`, `[batch, reads * width]`.
    pub read_vectors: Tensor<2>,
}

/// How wide the interface of a memory is: for each head a read key, a read strength, a free gate and
/// three read modes; write key, write strength, erase vector, write vector, allocation gate and write
/// gate.
pub fn interface_size(reads: usize, width: usize) -> usize {
    (reads + 3) * width + 5 * reads + 3
}

/// Writes, then reads.
///
/// `interface` is what the controller says, before activations: read keys, read strengths, write key,
/// write strength, erase vector, write vector, free gates, allocation gate, write gate, read modes
/// (backward, content, forward for each head); `[batch, interface_size]`. No gradient passes through
/// the previous write weights, nor through the order of the slots by usage.
///
/// Graves et al. 2016, Methods.
///
/// # Panics
/// If shapes do not fit.
pub fn dnc_step(interface: Tensor<2>, memory: DncMemory) -> DncStep {
    let [_, reads, _] = memory.read_weights.dims();
    let [_, _, width] = memory.rows.dims();
    assert_eq!(
        interface.dims()[1],
        interface_size(reads, width),
        "numbers of the interface"
    );
    #[cfg(feature = "flex")]
    if crate::flex::fused(&memory.rows.device()) {
        return crate::flex::dnc_step(interface, memory);
    }
    plain_step(interface, memory)
}

/// The interface in parts, after their activations.
struct Interface {
    /// `k^r`, `[batch, reads, width]`
    read_keys: Tensor<3>,
    /// `beta^r`, `[batch, reads]`
    read_strengths: Tensor<2>,
    /// `k^w`, `[batch, 1, width]`
    write_key: Tensor<3>,
    /// `beta^w`, `[batch, 1]`
    write_strength: Tensor<2>,
    /// `e`, `[batch, 1, width]`
    erase: Tensor<3>,
    /// `v`, `[batch, 1, width]`
    write: Tensor<3>,
    /// `f`, `[batch, reads, 1]`
    free_gates: Tensor<3>,
    /// `g^a`, `[batch, 1]`
    allocation_gate: Tensor<2>,
    /// `g^w`, `[batch, 1]`
    write_gate: Tensor<2>,
    /// `pi`: backward, content, forward, `[batch, reads, 3]`
    modes: Tensor<3>,
}

impl Interface {
    fn new(whole: Tensor<2>, reads: usize, width: usize) -> Self {
        let batch = whole.dims()[0];
        let sizes = [
            reads * width,
            reads,
            width,
            1,
            width,
            width,
            reads,
            1,
            1,
            reads * 3,
        ];
        let parts = whole.split_with_sizes(sizes.to_vec(), 1);
        let [
            read_keys,
            read_strengths,
            write_key,
            write_strength,
            erase,
            write,
            free_gates,
            allocation_gate,
            write_gate,
            modes,
        ] = parts
            .try_into()
            .unwrap_or_else(|_| unreachable!("there are as many parts as sizes"));
        let oneplus = |strength| softplus(strength).add_scalar(1.0);
        Self {
            read_keys: read_keys.reshape([batch, reads, width]),
            read_strengths: oneplus(read_strengths),
            write_key: write_key.unsqueeze_dim(1),
            write_strength: oneplus(write_strength),
            erase: activation::sigmoid(erase).unsqueeze_dim(1),
            write: write.unsqueeze_dim(1),
            free_gates: activation::sigmoid(free_gates).reshape([batch, reads, 1]),
            allocation_gate: activation::sigmoid(allocation_gate),
            write_gate: activation::sigmoid(write_gate),
            modes: activation::softmax(modes.reshape([batch, reads, 3]), 2),
        }
    }
}

fn plain_step(interface: Tensor<2>, memory: DncMemory) -> DncStep {
    let [batch, reads, _] = memory.read_weights.dims();
    let [_, _, width] = memory.rows.dims();
    let interface = Interface::new(interface, reads, width);

    // Where to write: a free slot, or one that the write key points at.
    let usage = update_usage(&memory, interface.free_gates);
    let allocation = allocation(usage.clone());
    let content = content_weights(
        interface.write_key,
        interface.write_strength,
        memory.rows.clone(),
    )
    .squeeze_dim::<2>(1);
    let gate = interface.allocation_gate;
    let write_weights =
        (content.clone() + gate * (allocation.clone() - content)) * interface.write_gate;

    // M_t
    let column = write_weights.clone().unsqueeze_dim::<3>(2);
    let erased = memory.rows.clone() * column.clone().matmul(interface.erase);
    let rows = memory.rows - erased + column.matmul(interface.write);

    // L_t from p_{t-1}, then p_t.
    let links = update_links(
        memory.links,
        memory.precedence.clone(),
        write_weights.clone(),
    );
    let unwritten = write_weights.clone().sum_dim(1).neg().add_scalar(1.0);
    let precedence = memory.precedence * unwritten + write_weights.clone();

    // Where to read: before, at or after what was found.
    let forward = memory
        .read_weights
        .clone()
        .matmul(links.clone().swap_dims(1, 2));
    let backward = memory.read_weights.matmul(links.clone());
    let content = content_weights(interface.read_keys, interface.read_strengths, rows.clone());
    let mode = |index: usize| interface.modes.clone().narrow(2, index, 1);
    let read_weights = backward * mode(0) + content * mode(1) + forward * mode(2);
    let read_vectors = read(read_weights.clone(), rows.clone()).reshape([batch, reads * width]);
    DncStep {
        memory: DncMemory {
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
        },
        allocation,
        read_vectors,
    }
}

/// `u_t`: slots that were written are used, slots that were read and freed are not;
/// `[batch, slots]`.
///
/// `free_gates` is `[batch, reads, 1]`; no gradient passes through the write weights.
fn update_usage(memory: &DncMemory, free_gates: Tensor<3>) -> Tensor<2> {
    let written = memory.write_weights.clone().detach();
    let usage = memory.usage.clone();
    let usage = usage.clone() + written.clone() - usage * written;
    // psi_t = prod_i (1 - f_i w^r_i)
    let retained = (free_gates * memory.read_weights.clone())
        .neg()
        .add_scalar(1.0);
    let reads = retained.dims()[1];
    let retention = (1..reads).fold(retained.clone().narrow(1, 0, 1), |product, head| {
        product * retained.clone().narrow(1, head, 1)
    });
    usage * retention.squeeze_dim::<2>(1)
}

/// `a_t`: the freest slot first, `[batch, slots]`.
///
/// `a[i] = (1 - u'[i]) prod_j u'[j]` over the slots `j` before `i` in the order of rising usage,
/// with `u' = eps + (1 - eps) u`. Written without a sort, which on a GPU waits for the host: whether
/// `j` comes before `i` is a matrix of comparisons, ties going by index.
fn allocation(usage: Tensor<2>) -> Tensor<2> {
    let [batch, slots] = usage.dims();
    let values = usage.clone().detach();
    let usage = usage * (1.0 - USAGE_FLOOR) + USAGE_FLOOR;
    let columns = values
        .clone()
        .unsqueeze_dim::<3>(1)
        .expand([batch, slots, slots]);
    let rows = values.unsqueeze_dim::<3>(2).expand([batch, slots, slots]);
    let earlier = Tensor::<2, Int>::ones([slots, slots], &usage.device())
        .tril(-1)
        .bool()
        .unsqueeze_dim::<3>(0)
        .expand([batch, slots, slots]);
    let smaller = columns.clone().lower(rows.clone());
    let before = smaller
        .bool_or(columns.equal(rows).bool_and(earlier))
        .float();
    let product = before
        .matmul(usage.clone().log().unsqueeze_dim::<3>(2))
        .squeeze_dim::<2>(2)
        .exp();
    usage.neg().add_scalar(1.0) * product
}

/// `L_t` from `L_{t-1}`, `p_{t-1}` and `w^w_t`.
///
/// `L[i, j] = (1 - w[i] - w[j]) L[i, j] + w[i] p[j]`, nothing on the diagonal.
fn update_links(links: Tensor<3>, precedence: Tensor<2>, write_weights: Tensor<2>) -> Tensor<3> {
    let [_, slots, _] = links.dims();
    let rows = write_weights.clone().unsqueeze_dim::<3>(2);
    let columns = write_weights.unsqueeze_dim::<3>(1);
    let kept = (rows.clone() + columns).neg().add_scalar(1.0);
    let links = links * kept + rows * precedence.unsqueeze_dim::<3>(1);
    let off_diagonal = Tensor::<2>::eye(slots, &links.device())
        .neg()
        .add_scalar(1.0);
    links * off_diagonal.unsqueeze_dim::<3>(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;
    use burn::tensor::Device;

    #[test]
    fn an_unused_memory_is_allocated_from_its_first_slot() {
        let usage = Tensor::<2>::zeros([1, 4], &Device::default());
        let found = values(allocation(usage));
        for (found, expected) in found.iter().zip([1.0 - 1e-6, 1e-6, 0.0, 0.0]) {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
    }

    #[test]
    fn allocation_follows_rising_usage() {
        let usage = Tensor::<2>::from_floats([[0.5, 0.1, 1.0, 0.3]], &Device::default());
        let found = values(allocation(usage));
        for (found, expected) in found.iter().zip([0.5 * 0.1 * 0.3, 0.9, 0.0, 0.7 * 0.1]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    /// Pure allocation writes fill distinct slots, and the links walk them in order.
    #[test]
    fn writes_take_distinct_slots_and_links_remember_their_order() {
        let (device, slots) = (Device::default(), 6);
        let (open, shut) = (30.0, -30.0);
        // One head and width 1: read key and strength, write key and strength, erase, write, free
        // gate, allocation gate, write gate, modes.
        let interface = [
            0.0, 0.0, 0.0, 0.0, 0.0, 0.0, shut, open, open, 0.0, 0.0, 0.0,
        ];
        let interface = Tensor::<2>::from_floats([interface], &device);
        for step in [dnc_step, plain_step] {
            let mut memory = DncMemory {
                rows: Tensor::zeros([1, slots, 1], &device),
                usage: Tensor::zeros([1, slots], &device),
                precedence: Tensor::zeros([1, slots], &device),
                links: Tensor::zeros([1, slots, slots], &device),
                read_weights: Tensor::zeros([1, 1, slots], &device),
                write_weights: Tensor::zeros([1, slots], &device),
            };
            let mut written = Vec::new();
            for _ in 0..slots {
                memory = step(interface.clone(), memory).memory;
                let weights = values(memory.write_weights.clone());
                let largest = (0..slots).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
                written.push(largest.unwrap());
            }
            let mut distinct = written.clone();
            distinct.sort_unstable();
            assert_eq!(distinct, [0, 1, 2, 3, 4, 5]);

            let links = values(memory.links);
            for pair in written.windows(2) {
                assert!((links[pair[1] * slots + pair[0]] - 1.0).abs() < 1e-3);
            }
            for row in 0..slots {
                assert_eq!(links[row * slots + row], 0.0);
            }
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod kernel {
    use super::*;
    use crate::{
        check::{
            Way, arranged, assert_close, assert_same, assert_spreads, differences, gradients,
            numbers, wide,
        },
        content::NORM_EPSILON,
    };

    /// Batch, reads, slots, width.
    type Shape = [usize; 4];

    /// Interface, rows, usage, precedence, links, read weights, write weights.
    fn inputs([batch, reads, slots, width]: Shape) -> Vec<Vec<f32>> {
        let positive = |count: usize, seed: u32, largest: f32| -> Vec<f32> {
            let numbers = numbers(count, seed).into_iter();
            numbers.map(|x| 0.5 * largest * (x + 1.0)).collect()
        };
        let share = 1.0 / slots as f32;
        let interface = numbers(batch * interface_size(reads, width), 11);
        vec![
            interface.into_iter().map(|x| 2.0 * x).collect(),
            numbers(batch * slots * width, 12),
            positive(batch * slots, 13, 1.0),
            positive(batch * slots, 14, share),
            positive(batch * slots * slots, 15, share),
            positive(batch * reads * slots, 16, 2.0 * share),
            positive(batch * slots, 17, share),
        ]
    }

    /// All that a step gives, side by side, and the previous write weights, so that each input has a
    /// gradient.
    fn whole(
        [batch, reads, slots, width]: Shape,
        f: fn(Tensor<2>, DncMemory) -> DncStep,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |inputs, way| {
            let [
                interface,
                rows,
                usage,
                precedence,
                links,
                read_weights,
                write_weights,
            ]: [_; 7] = inputs.try_into().unwrap();
            let memory = DncMemory {
                rows: arranged(rows, [batch, slots, width], way),
                usage: arranged(usage, [batch, slots], way),
                precedence: arranged(precedence, [batch, slots], way),
                links: arranged(links, [batch, slots, slots], way),
                read_weights: arranged(read_weights, [batch, reads, slots], way),
                write_weights: arranged(write_weights, [batch, slots], way),
            };
            let previous = memory.write_weights.clone();
            let size = interface_size(reads, width);
            let step = f(arranged(interface, [batch, size], way), memory);
            let parts = vec![
                step.memory.rows.reshape([batch, slots * width]),
                step.memory.usage,
                step.memory.precedence,
                step.memory.links.reshape([batch, slots * slots]),
                step.memory.read_weights.reshape([batch, reads * slots]),
                step.memory.write_weights,
                step.allocation,
                step.read_vectors,
                previous,
            ];
            Tensor::cat(parts, 1)
        }
    }

    fn definition(inputs: &[Vec<f64>], [batch, reads, slots, width]: Shape) -> Vec<f64> {
        let of = |input: usize, b: usize| {
            let share = inputs[input].len() / batch;
            &inputs[input][b * share..][..share]
        };
        // The previous write weights are constant to usage: a copy that differences do not touch.
        let written = wide(&self::inputs([batch, reads, slots, width])[6..]).remove(0);
        let sig = |x: f64| 1.0 / (1.0 + (-x).exp());
        let softmax = |x: &[f64]| -> Vec<f64> {
            let total: f64 = x.iter().map(|x| x.exp()).sum();
            x.iter().map(|x| x.exp() / total).collect()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let norm = |a: &[f64]| (dot(a, a) + NORM_EPSILON).sqrt();
        let content = |key: &[f64], strength: f64, rows: &[f64]| {
            let strength = 1.0 + strength.exp().ln_1p();
            let rows = rows.chunks(width);
            let scores = rows.map(|row| strength * dot(key, row) / (norm(key) * norm(row)));
            softmax(&scores.collect::<Vec<_>>())
        };
        let mut all = Vec::new();
        for b in 0..batch {
            let mut rest = of(0, b);
            let mut take = |count: usize| {
                let (part, others) = rest.split_at(count);
                rest = others;
                part
            };
            let read_keys = take(reads * width);
            let read_strengths = take(reads);
            let (write_key, write_strength) = (take(width), take(1)[0]);
            let (erase, write) = (take(width), take(width));
            let free = take(reads);
            let (allocation_gate, write_gate) = (sig(take(1)[0]), sig(take(1)[0]));
            let modes = take(3 * reads);
            let (rows, usage, precedence) = (of(1, b), of(2, b), of(3, b));
            let (links, read_weights) = (of(4, b), of(5, b));
            let written = &written[b * slots..][..slots];

            let usage: Vec<f64> = (0..slots)
                .map(|n| {
                    let used = usage[n] + written[n] - usage[n] * written[n];
                    let kept = (0..reads).map(|r| 1.0 - sig(free[r]) * read_weights[r * slots + n]);
                    used * kept.product::<f64>()
                })
                .collect();
            let floored = |n: usize| USAGE_FLOOR + (1.0 - USAGE_FLOOR) * usage[n];
            let allocation: Vec<f64> = (0..slots)
                .map(|i| {
                    let before = (0..slots).filter(|j| (usage[*j], *j) < (usage[i], i));
                    (1.0 - floored(i)) * before.map(floored).product::<f64>()
                })
                .collect();
            let found = content(write_key, write_strength, rows);
            let write_weights: Vec<f64> = (0..slots)
                .map(|n| {
                    let free = allocation_gate * allocation[n];
                    write_gate * (free + (1.0 - allocation_gate) * found[n])
                })
                .collect();
            let rows: Vec<f64> = (0..slots * width)
                .map(|place| {
                    let (n, k) = (place / width, place % width);
                    rows[place] * (1.0 - write_weights[n] * sig(erase[k]))
                        + write_weights[n] * write[k]
                })
                .collect();
            let links: Vec<f64> = (0..slots * slots)
                .map(|place| {
                    let (i, j) = (place / slots, place % slots);
                    let kept = (1.0 - write_weights[i] - write_weights[j]) * links[place];
                    match i == j {
                        true => 0.0,
                        false => kept + write_weights[i] * precedence[j],
                    }
                })
                .collect();
            let total: f64 = write_weights.iter().sum();
            let precedence = (0..slots).map(|n| (1.0 - total) * precedence[n] + write_weights[n]);
            let mut new_weights = Vec::new();
            let mut vectors = Vec::new();
            for r in 0..reads {
                let old = &read_weights[r * slots..][..slots];
                let key = &read_keys[r * width..][..width];
                let found = content(key, read_strengths[r], &rows);
                let mode = softmax(&modes[3 * r..][..3]);
                let new = (0..slots).map(|n| {
                    let backward: f64 = (0..slots).map(|i| old[i] * links[i * slots + n]).sum();
                    let forward = dot(old, &links[n * slots..][..slots]);
                    mode[0] * backward + mode[1] * found[n] + mode[2] * forward
                });
                let new: Vec<f64> = new.collect();
                vectors.extend((0..width).map(|k| {
                    (0..slots)
                        .map(|n| new[n] * rows[n * width + k])
                        .sum::<f64>()
                }));
                new_weights.extend(new);
            }
            all.extend_from_slice(&rows);
            all.extend_from_slice(&usage);
            all.extend(precedence);
            all.extend_from_slice(&links);
            all.extend(new_weights);
            all.extend_from_slice(&write_weights);
            all.extend_from_slice(&allocation);
            all.extend(vectors);
            all.extend_from_slice(of(6, b));
        }
        all
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        for shape in [
            [1, 1, 1, 1],
            [5, 1, 1, 7],
            [1, 1, 13, 1],
            [1, 7, 1, 19],
            [2, 3, 5, 4],
            [3, 2, 17, 37],
            [1, 1, 101, 31],
            [16, 5, 20, 32],
        ] {
            let name = format!("{shape:?}");
            let mut inputs = inputs(shape);
            let kernel = whole(shape, crate::flex::dnc_step);
            let plain = whole(shape, plain_step);
            assert_same(&inputs, 2e-5, &name, &kernel, &plain);
            // Slots that nothing was written to are equally free.
            for index in [2, 6] {
                inputs[index].iter_mut().step_by(3).for_each(|x| *x = 0.0);
                inputs[index].iter_mut().step_by(4).for_each(|x| *x = -0.0);
            }
            let found = gradients(&inputs, &[], Way::Straight, &kernel);
            let expected = gradients(&inputs, &[], Way::Straight, &plain);
            assert_close(&found, &wide(&expected), 2e-5, &name);
        }
    }

    /// Links of more rows than are worked on together.
    #[test]
    fn many_slots_are_worked_on_in_blocks() {
        let shape = [2, 2, 530, 3];
        let inputs = inputs(shape);
        let kernel = whole(shape, crate::flex::dnc_step);
        let found = gradients(&inputs, &[], Way::Straight, kernel);
        let expected = gradients(&inputs, &[], Way::Straight, whole(shape, plain_step));
        assert_close(&found, &wide(&expected), 2e-5, &format!("{shape:?}"));
    }

    #[test]
    fn the_kernel_agrees_with_the_definition() {
        for shape in [
            [1, 1, 1, 1],
            [3, 1, 1, 7],
            [1, 2, 13, 1],
            [2, 3, 5, 4],
            [1, 2, 7, 17],
            [1, 1, 17, 5],
        ] {
            let inputs = inputs(shape);
            let kernel = whole(shape, crate::flex::dnc_step);
            let found = gradients(&inputs, &[], Way::Straight, kernel);
            let expected = differences(&inputs, |inputs| definition(inputs, shape));
            assert_close(&found, &expected, 2e-5, &format!("{shape:?}"));
        }
    }

    /// Gradients of the parts that are asked for, when others are not.
    #[test]
    fn outputs_that_are_not_used_have_no_gradient() {
        let shape = [2, 3, 5, 4];
        let inputs = inputs(shape);
        type Choice = fn(DncStep) -> Tensor<2>;
        let choices: [Choice; 5] = [
            |step| step.read_vectors,
            |step| step.allocation,
            |step| step.memory.rows.reshape([2, 20]),
            |step| step.memory.links.reshape([2, 25]),
            |step| step.memory.precedence,
        ];
        for (index, choice) in choices.into_iter().enumerate() {
            let found = [crate::flex::dnc_step, plain_step].map(|step| {
                // With something of every input, so that each has a gradient.
                let some = move |all: Vec<Tensor<1>>, way: Way| {
                    let sum = all
                        .iter()
                        .fold(Tensor::zeros([1], &all[0].device()), |s, x| {
                            s + x.clone().sum()
                        });
                    let (device, [batch, reads, slots, width]) = (all[0].device(), shape);
                    let [interface, rows, usage, precedence, links, read_weights, _]: [_; 7] =
                        all.try_into().unwrap();
                    let memory = DncMemory {
                        rows: arranged(rows, [batch, slots, width], way),
                        usage: arranged(usage, [batch, slots], way),
                        precedence: arranged(precedence, [batch, slots], way),
                        links: arranged(links, [batch, slots, slots], way),
                        read_weights: arranged(read_weights, [batch, reads, slots], way),
                        write_weights: Tensor::zeros([batch, slots], &device),
                    };
                    let size = interface_size(reads, width);
                    let step = step(arranged(interface, [batch, size], way), memory);
                    choice(step) + sum.unsqueeze::<2>()
                };
                gradients(&inputs, &[], Way::Straight, some)
            });
            assert_close(
                &found[0],
                &wide(&found[1]),
                2e-5,
                &format!("choice {index}"),
            );
        }
    }

    /// Infinities are another matter: a gate is 1e-38 at least, not 0, which times infinity is no NaN.
    #[test]
    fn what_is_no_number_stays_none() {
        for shape in [[1, 1, 1, 1], [2, 2, 3, 5], [1, 3, 17, 33]] {
            let (name, inputs) = (format!("{shape:?}"), inputs(shape));
            let kernel = whole(shape, crate::flex::dnc_step);
            assert_spreads(
                &inputs,
                &[f32::NAN],
                &name,
                kernel,
                whole(shape, plain_step),
            );
        }
    }
}
