//! The fused memory step of a DNC is compared with the equations, and both with a definition in `f64`: values
//! and gradients, at odd sizes. With `MNEMORA_KERNELS=plain` there is no kernel, and only the equations are
//! compared with the definition.

#![cfg(feature = "flex")]

#[path = "../../kernels/src/check.rs"]
#[allow(dead_code)]
mod check;

use burn::tensor::Tensor;
use check::{
    Way, arranged, assert_close, assert_same, assert_spreads, differences, gradients, numbers, wide,
};
use mnemora_kernels::{
    content::NORM_EPSILON,
    dnc::{DncMemory, DncStep, USAGE_FLOOR, fused_step, interface_size},
    kernels_enabled,
};
use mnemora_memory::dnc::equations;

/// The step by the fused kernel; the process must be allowed to use it.
fn fused(interface: Tensor<2>, memory: DncMemory) -> DncStep {
    fused_step(&interface, &memory).expect("the kernels are on, and the CPU has this one")
}

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

/// All results of a step, concatenated, and the previous write weights, so that each input has a gradient.
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
    // The previous write weights are constants in usage: this copy stays fixed when finite differences are
    // taken.
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
                rows[place] * (1.0 - write_weights[n] * sig(erase[k])) + write_weights[n] * write[k]
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
fn the_kernel_agrees_with_the_equations() {
    if !kernels_enabled() {
        return;
    }
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
        let kernel = whole(shape, fused);
        let plain = whole(shape, equations);
        assert_same(&inputs, 2e-5, &name, &kernel, &plain);
        // Slots that were never written to are equally free.
        for index in [2, 6] {
            inputs[index].iter_mut().step_by(3).for_each(|x| *x = 0.0);
            inputs[index].iter_mut().step_by(4).for_each(|x| *x = -0.0);
        }
        let found = gradients(&inputs, &[], Way::Straight, &kernel);
        let expected = gradients(&inputs, &[], Way::Straight, &plain);
        assert_close(&found, &wide(&expected), 2e-5, &name);
    }
}

/// More rows of links than the kernel works on together.
#[test]
fn many_slots_are_worked_on_in_blocks() {
    if !kernels_enabled() {
        return;
    }
    let shape = [2, 2, 530, 3];
    let inputs = inputs(shape);
    let kernel = whole(shape, fused);
    let found = gradients(&inputs, &[], Way::Straight, kernel);
    let expected = gradients(&inputs, &[], Way::Straight, whole(shape, equations));
    assert_close(&found, &wide(&expected), 2e-5, &format!("{shape:?}"));
}

#[test]
fn equations_and_kernel_agree_with_the_definition() {
    for shape in [
        [1, 1, 1, 1],
        [3, 1, 1, 7],
        [1, 2, 13, 1],
        [2, 3, 5, 4],
        [1, 2, 7, 17],
        [1, 1, 17, 5],
    ] {
        let inputs = inputs(shape);
        let expected = differences(&inputs, |inputs| definition(inputs, shape));
        let check = |name: &str, step: fn(Tensor<2>, DncMemory) -> DncStep| {
            let found = gradients(&inputs, &[], Way::Straight, whole(shape, step));
            assert_close(&found, &expected, 2e-5, &format!("{name}, {shape:?}"));
        };
        check("equations", equations);
        if kernels_enabled() {
            check("kernel", fused);
        }
    }
}

/// Gradients of some inputs only.
#[test]
fn outputs_that_are_not_used_have_no_gradient() {
    if !kernels_enabled() {
        return;
    }
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
        let found = [fused as fn(_, _) -> _, equations].map(|step| {
            // Includes something of every input, so that each has a gradient.
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

/// Infinities are handled separately: a gate is at least 1e-38, not 0, so its product with infinity is not NaN.
#[test]
fn nan_propagates() {
    if !kernels_enabled() {
        return;
    }
    for shape in [[1, 1, 1, 1], [2, 2, 3, 5], [1, 3, 17, 33]] {
        let (name, inputs) = (format!("{shape:?}"), inputs(shape));
        let kernel = whole(shape, fused);
        assert_spreads(&inputs, &[f32::NAN], &name, kernel, whole(shape, equations));
    }
}
