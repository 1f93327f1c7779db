//! Attention between the rows of a relational memory, and the gates that update it.

use burn::tensor::{Tensor, activation};

/// Sizes of [`relate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Rows of each sequence, which provide keys and values.
    pub rows: usize,
    /// How many of the rows, from the first, have queries.
    pub queries: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width of a head's queries and keys.
    pub key: usize,
    /// Width of a head's values.
    pub value: usize,
}

/// Attention of rows to each other, from their projections to queries, keys and values: `[q k v] =
/// LN(projected)`, head by head, `w = softmax(q k' / sqrt(key))`, `read = w v`.
///
/// # Shapes
/// - `projected`: `[batch * rows, heads * (2 * key + value)]`: query, key and value of each head
/// - `affine`, scale and shift of the layer norm: as wide as `projected`
/// - returns reads `[batch * queries, heads * value]` and weights `[batch, heads, queries, rows]`
///
/// # Panics
/// If shapes do not fit.
///
/// Santoro et al. 2018 (rmc), equation 2, with the layer norm of the public implementation.
pub fn relate(
    projected: Tensor<2>,
    affine: [Tensor<1>; 2],
    epsilon: f64,
    sizes: Relation,
) -> (Tensor<2>, Tensor<4>) {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&projected.device()) {
        return fused_relate(projected, affine, epsilon, sizes);
    }
    plain_relate(projected, affine, epsilon, sizes)
}

#[cfg(feature = "flex")]
fn fused_relate(
    projected: Tensor<2>,
    [gamma, beta]: [Tensor<1>; 2],
    epsilon: f64,
    sizes: Relation,
) -> (Tensor<2>, Tensor<4>) {
    crate::flex::relate(projected, gamma, beta, epsilon as f32, sizes)
}

fn plain_relate(
    projected: Tensor<2>,
    affine: [Tensor<1>; 2],
    epsilon: f64,
    sizes: Relation,
) -> (Tensor<2>, Tensor<4>) {
    let Relation {
        rows,
        queries,
        heads,
        key,
        value,
    } = sizes;
    let batch = projected.dims()[0] / rows;
    let normal = layer_norm(projected, affine, epsilon)
        .reshape([batch, rows, heads, 2 * key + value])
        .swap_dims(1, 2);
    let asked = normal.clone().narrow(2, 0, queries).narrow(3, 0, key);
    let keys = normal.clone().narrow(3, key, key);
    let values = normal.narrow(3, 2 * key, value);
    let scores = asked.matmul(keys.swap_dims(2, 3)) / (key as f64).sqrt();
    let weights = activation::softmax(scores, 3);
    let read = weights.clone().matmul(values).swap_dims(1, 2);
    (read.reshape([batch * queries, heads * value]), weights)
}

fn layer_norm(x: Tensor<2>, [gamma, beta]: [Tensor<1>; 2], epsilon: f64) -> Tensor<2> {
    let apart = x.clone() - x.mean_dim(1);
    let variance = apart.clone().square().mean_dim(1);
    let normal = apart / variance.add_scalar(epsilon).sqrt();
    normal * gamma.unsqueeze::<2>() + beta.unsqueeze::<2>()
}

/// `LN(a + b)`, over the features of each row.
///
/// # Shapes
/// `a`, `b` and the result: `[rows, width]`; `affine`, scale and shift: `[width]`
///
/// Ba et al. 2016.
pub fn normalised_sum(
    a: Tensor<2>,
    b: Tensor<2>,
    affine: [Tensor<1>; 2],
    epsilon: f64,
) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&a.device()) {
        let [gamma, beta] = affine;
        return crate::flex::normalised_sum(a, b, gamma, beta, epsilon as f32);
    }
    layer_norm(a + b, affine, epsilon)
}

/// `M' = sig(i) tanh(candidate) + sig(f) M` with `[i f] = from_memory + from_input + biases`.
///
/// # Shapes
/// - `from_memory`: `[batch * slots, 2 * gate]`, where `gate` is `width` or 1
/// - `from_input`: `[batch, 2 * gate]`, for all slots of a sequence
/// - `candidate`, `memory` and the result: `[batch * slots, width]`
///
/// `biases`: constants added to input and forget gates.
///
/// # Panics
/// If shapes do not fit.
///
/// Santoro et al. 2018 (rmc), equations 5 to 7, in the formulation of the public implementation.
pub fn gated_memory(
    from_memory: Tensor<2>,
    from_input: Tensor<2>,
    candidate: Tensor<2>,
    memory: Tensor<2>,
    biases: [f64; 2],
) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&memory.device()) {
        let biases = biases.map(|bias| bias as f32);
        return crate::flex::gated_memory(from_memory, from_input, candidate, memory, biases);
    }
    plain_gated(from_memory, from_input, candidate, memory, biases)
}

fn plain_gated(
    from_memory: Tensor<2>,
    from_input: Tensor<2>,
    candidate: Tensor<2>,
    memory: Tensor<2>,
    biases: [f64; 2],
) -> Tensor<2> {
    let [batch, gates] = from_input.dims();
    let rows = memory.dims()[0];
    let from_memory = from_memory.reshape([batch, rows / batch, gates]);
    let all = from_memory + from_input.unsqueeze_dim::<3>(1);
    let all = all.reshape([rows, gates]);
    let gate = |half: usize| {
        let gate = all.clone().narrow(1, half * gates / 2, gates / 2);
        activation::sigmoid(gate + biases[half])
    };
    gate(0) * candidate.tanh() + gate(1) * memory
}

/// `tanh x`, `[rows, width]`.
pub fn tanh(x: Tensor<2>) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&x.device()) {
        return crate::flex::tanh(x);
    }
    x.tanh()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;
    use burn::tensor::Device;

    /// A row of equal numbers has no variance, so only the shift is left.
    #[test]
    fn a_row_without_spread_becomes_the_shift() {
        let device = Device::default();
        let row = Tensor::from_floats([[1.5, 1.5, 1.5]], &device);
        let scale = Tensor::from_floats([2.0, 3.0, 4.0], &device);
        let shift = Tensor::from_floats([0.1, 0.2, 0.3], &device);
        let found = normalised_sum(row.clone(), row, [scale, shift], 1e-5);
        assert_eq!(values(found), [0.1, 0.2, 0.3]);
    }

    /// Equal keys get equal weights.
    #[test]
    fn equal_rows_are_read_alike() {
        let device = Device::default();
        let sizes = Relation {
            rows: 3,
            queries: 2,
            heads: 1,
            key: 1,
            value: 2,
        };
        let row = [0.4, -0.3, 1.0, -2.0];
        let projected = Tensor::from_floats([row, row, row], &device);
        let affine = [Tensor::ones([4], &device), Tensor::zeros([4], &device)];
        let (read, weights) = relate(projected, affine, 1e-5, sizes);
        assert_eq!(weights.dims(), [1, 1, 2, 3]);
        assert!(values(weights).iter().all(|w| (w - 1.0 / 3.0).abs() < 1e-6));
        let read = values(read);
        assert_eq!(read.len(), 4);
        assert!((read[0] - read[2]).abs() < 1e-6 && read[0] > 1.0 && read[1] < -1.0);
    }
}

#[cfg(all(test, feature = "flex"))]
mod kernel {
    use super::*;
    use crate::check::{
        NOT_FINITE, Way, arranged, assert_close, assert_same, assert_spreads, differences,
        gradients, numbers,
    };
    use burn::tensor::Tensor;

    const EPSILON: f64 = 1e-5;

    fn relation([_, rows, queries, heads, key, value]: [usize; 6]) -> Relation {
        Relation {
            rows,
            queries,
            heads,
            key,
            value,
        }
    }

    fn width([_, _, _, heads, key, value]: [usize; 6]) -> usize {
        heads * (2 * key + value)
    }

    /// Batch, rows, queries, heads, key, value.
    const RELATIONS: [[usize; 6]; 8] = [
        [1, 1, 1, 1, 1, 1],
        [2, 2, 1, 1, 3, 2],
        [3, 5, 4, 2, 3, 5],
        [1, 9, 9, 3, 17, 16],
        [11, 3, 2, 2, 4, 1],
        [17, 9, 8, 2, 5, 7],
        [2, 33, 7, 1, 2, 19],
        [20, 9, 8, 8, 32, 32],
    ];

    /// Projections, scale, shift.
    fn relation_inputs(shape: [usize; 6]) -> Vec<Vec<f32>> {
        let width = width(shape);
        let mut all = vec![
            numbers(shape[0] * shape[1] * width, 1),
            numbers(width, 2),
            numbers(width, 3),
        ];
        // Makes the scores larger.
        all[1].iter_mut().for_each(|scale| *scale += 1.5);
        all
    }

    type Relate = fn(Tensor<2>, [Tensor<1>; 2], f64, Relation) -> (Tensor<2>, Tensor<4>);

    /// Reads and weights side by side, one row per sequence.
    fn related(
        shape: [usize; 6],
        f: Relate,
        parts: [bool; 2],
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |all, way| {
            let [projected, gamma, beta]: [_; 3] = all.try_into().unwrap();
            let width = width(shape);
            let projected = arranged(projected, [shape[0] * shape[1], width], way);
            let affine = [gamma, beta].map(|one| arranged(one, [width], way));
            let (read, weights) = f(projected, affine, EPSILON, relation(shape));
            let batch = shape[0] as i32;
            let all = [read.reshape([batch, -1]), weights.reshape([batch, -1])];
            let kept = all
                .into_iter()
                .zip(parts)
                .filter_map(|(one, kept)| kept.then_some(one));
            Tensor::cat(kept.collect(), 1)
        }
    }

    fn kernel(
        projected: Tensor<2>,
        affine: [Tensor<1>; 2],
        epsilon: f64,
        sizes: Relation,
    ) -> (Tensor<2>, Tensor<4>) {
        fused_relate(projected, affine, epsilon, sizes)
    }

    fn norm_definition(x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
        let count = x.len() as f64;
        let mean = x.iter().sum::<f64>() / count;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let scale = 1.0 / (variance + EPSILON).sqrt();
        let both = gamma.iter().zip(beta);
        x.iter()
            .zip(both)
            .map(|(x, (gamma, beta))| (x - mean) * scale * gamma + beta)
            .collect()
    }

    fn definition(all: &[Vec<f64>], shape: [usize; 6]) -> Vec<f64> {
        let [batch, rows, queries, heads, key, value] = shape;
        let width = width(shape);
        let normal: Vec<Vec<f64>> = all[0]
            .chunks(width)
            .map(|row| norm_definition(row, &all[1], &all[2]))
            .collect();
        let mut outputs = Vec::new();
        for b in 0..batch {
            let row = |r: usize, h: usize| &normal[b * rows + r][h * (2 * key + value)..];
            let weights = |h: usize, q: usize| {
                let scores = (0..rows).map(|r| {
                    let pairs = row(q, h)[..key].iter().zip(&row(r, h)[key..2 * key]);
                    (pairs.map(|(a, b)| a * b).sum::<f64>() / (key as f64).sqrt()).exp()
                });
                let powers: Vec<f64> = scores.collect();
                let total: f64 = powers.iter().sum();
                powers
                    .into_iter()
                    .map(move |p| p / total)
                    .collect::<Vec<_>>()
            };
            for q in 0..queries {
                for h in 0..heads {
                    let weights = weights(h, q);
                    outputs.extend((0..value).map(|v| {
                        (0..rows)
                            .map(|r| weights[r] * row(r, h)[2 * key + v])
                            .sum::<f64>()
                    }));
                }
            }
            for h in 0..heads {
                (0..queries).for_each(|q| outputs.extend(weights(h, q)));
            }
        }
        outputs
    }

    #[test]
    fn attention_agrees_with_the_plain_composition() {
        for shape in RELATIONS {
            let inputs = relation_inputs(shape);
            for parts in [[true, true], [true, false], [false, true]] {
                let name = format!("{shape:?} {parts:?}");
                let (kernel, plain) = (
                    related(shape, kernel, parts),
                    related(shape, plain_relate, parts),
                );
                if shape[0] == 20 {
                    let found = gradients(&inputs, &[], Way::Straight, kernel);
                    let expected = gradients(&inputs, &[], Way::Straight, plain);
                    assert_close(&found, &crate::check::wide(&expected), 2e-5, &name);
                    continue;
                }
                assert_same(&inputs, 2e-5, &name, kernel, plain);
            }
        }
    }

    #[test]
    fn attention_agrees_with_the_definition() {
        for shape in &RELATIONS[..5] {
            let inputs = relation_inputs(*shape);
            let found = gradients(
                &inputs,
                &[],
                Way::Straight,
                related(*shape, kernel, [true, true]),
            );
            let expected = differences(&inputs, |inputs| definition(inputs, *shape));
            assert_close(&found, &expected, 2e-5, &format!("{shape:?}"));
        }
    }

    #[test]
    fn attention_keeps_what_is_no_number() {
        for shape in [RELATIONS[1], RELATIONS[2]] {
            let inputs = relation_inputs(shape);
            assert_spreads(
                &inputs,
                &[f32::NAN, f32::INFINITY],
                &format!("{shape:?}"),
                related(shape, kernel, [true, true]),
                related(shape, plain_relate, [true, true]),
            );
        }
    }

    /// Two terms, scale, shift.
    fn sums([rows, width]: [usize; 2]) -> Vec<Vec<f32>> {
        [rows * width, rows * width, width, width]
            .into_iter()
            .zip(1..)
            .map(|(count, seed)| numbers(count, seed))
            .collect()
    }

    type Norm = fn(Tensor<2>, Tensor<2>, [Tensor<1>; 2], f64) -> Tensor<2>;

    fn summed(shape: [usize; 2], f: Norm) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |all, way| {
            let [a, b, gamma, beta]: [_; 4] = all.try_into().unwrap();
            let [a, b] = [a, b].map(|term| arranged(term, shape, way));
            let affine = [gamma, beta].map(|one| arranged(one, [shape[1]], way));
            f(a, b, affine, EPSILON)
        }
    }

    fn plain_sum(a: Tensor<2>, b: Tensor<2>, affine: [Tensor<1>; 2], epsilon: f64) -> Tensor<2> {
        layer_norm(a + b, affine, epsilon)
    }

    fn kernel_sum(a: Tensor<2>, b: Tensor<2>, affine: [Tensor<1>; 2], epsilon: f64) -> Tensor<2> {
        let [gamma, beta] = affine;
        crate::flex::normalised_sum(a, b, gamma, beta, epsilon as f32)
    }

    #[test]
    fn normalised_sums_agree_with_composition_and_definition() {
        for shape in [[1, 2], [3, 5], [7, 16], [2, 37], [65, 3], [200, 300]] {
            let (name, inputs) = (format!("{shape:?}"), sums(shape));
            if shape[0] == 200 {
                let found = gradients(&inputs, &[], Way::Straight, summed(shape, kernel_sum));
                let expected = gradients(&inputs, &[], Way::Straight, summed(shape, plain_sum));
                assert_close(&found, &crate::check::wide(&expected), 2e-5, &name);
                continue;
            }
            assert_same(
                &inputs,
                2e-5,
                &name,
                summed(shape, kernel_sum),
                summed(shape, plain_sum),
            );
            let found = gradients(&inputs, &[], Way::Straight, summed(shape, kernel_sum));
            let expected = differences(&inputs, |all| {
                let sums: Vec<f64> = all[0].iter().zip(&all[1]).map(|(a, b)| a + b).collect();
                sums.chunks(shape[1])
                    .flat_map(|row| norm_definition(row, &all[2], &all[3]))
                    .collect()
            });
            assert_close(&found, &expected, 5e-5, &name);
            assert_spreads(
                &inputs,
                &NOT_FINITE,
                &name,
                summed(shape, kernel_sum),
                summed(shape, plain_sum),
            );
        }
    }

    /// Batch, slots, width, gate.
    const MEMORIES: [[usize; 4]; 6] = [
        [1, 1, 1, 1],
        [2, 1, 3, 3],
        [3, 4, 5, 1],
        [5, 2, 17, 17],
        [2, 7, 33, 1],
        [40, 8, 64, 64],
    ];

    fn memory_inputs([batch, slots, width, gate]: [usize; 4]) -> Vec<Vec<f32>> {
        let rows = batch * slots;
        [
            rows * 2 * gate,
            batch * 2 * gate,
            rows * width,
            rows * width,
        ]
        .into_iter()
        .zip(1..)
        .map(|(count, seed)| numbers(count, seed))
        .collect()
    }

    type Gated = fn(Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>, [f64; 2]) -> Tensor<2>;

    fn gated(
        [batch, slots, width, gate]: [usize; 4],
        f: Gated,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |all, way| {
            let [from_memory, from_input, candidate, memory]: [_; 4] = all.try_into().unwrap();
            let rows = batch * slots;
            f(
                arranged(from_memory, [rows, 2 * gate], way),
                arranged(from_input, [batch, 2 * gate], way),
                arranged(candidate, [rows, width], way),
                arranged(memory, [rows, width], way),
                [0.3, 1.0],
            )
        }
    }

    fn kernel_gated(
        from_memory: Tensor<2>,
        from_input: Tensor<2>,
        candidate: Tensor<2>,
        memory: Tensor<2>,
        biases: [f64; 2],
    ) -> Tensor<2> {
        let biases = biases.map(|bias| bias as f32);
        crate::flex::gated_memory(from_memory, from_input, candidate, memory, biases)
    }

    fn gated_definition(all: &[Vec<f64>], [_, slots, width, gate]: [usize; 4]) -> Vec<f64> {
        let sig = |u: f64| 1.0 / (1.0 + (-u).exp());
        let place = |index: usize| (index / width, index % width % gate.max(1));
        (0..all[2].len())
            .map(|index| {
                let (row, unit) = place(index);
                let gate = |half: usize, bias: f64| {
                    let unit = half * gate + unit;
                    sig(all[0][row * 2 * gate + unit]
                        + all[1][row / slots * 2 * gate + unit]
                        + bias)
                };
                gate(0, 0.3) * all[2][index].tanh() + gate(1, 1.0) * all[3][index]
            })
            .collect()
    }

    #[test]
    fn gated_memories_agree_with_composition_and_definition() {
        for shape in MEMORIES {
            let (name, inputs) = (format!("{shape:?}"), memory_inputs(shape));
            if shape[0] == 40 {
                let found = gradients(&inputs, &[], Way::Straight, gated(shape, kernel_gated));
                let expected = gradients(&inputs, &[], Way::Straight, gated(shape, plain_gated));
                assert_close(&found, &crate::check::wide(&expected), 1e-5, &name);
                continue;
            }
            assert_same(
                &inputs,
                1e-5,
                &name,
                gated(shape, kernel_gated),
                gated(shape, plain_gated),
            );
            let found = gradients(&inputs, &[], Way::Straight, gated(shape, kernel_gated));
            let expected = differences(&inputs, |all| gated_definition(all, shape));
            assert_close(&found, &expected, 1e-5, &name);
            assert_spreads(
                &inputs,
                &[f32::NAN],
                &name,
                gated(shape, kernel_gated),
                gated(shape, plain_gated),
            );
        }
    }

    #[test]
    fn tangents_agree_with_composition_and_definition() {
        for shape in [[1, 1], [3, 17], [40, 50]] {
            let inputs = vec![numbers(shape[0] * shape[1], 1)];
            let apply = |f: fn(Tensor<2>) -> Tensor<2>| {
                move |all: Vec<Tensor<1>>, way| f(arranged(all[0].clone() * 3.0, shape, way))
            };
            let name = format!("{shape:?}");
            let (kernel, plain) = (apply(crate::flex::tanh), apply(Tensor::tanh));
            assert_same(&inputs, 1e-5, &name, kernel, plain);
            let found = gradients(&inputs, &[], Way::Straight, apply(crate::flex::tanh));
            let expected = differences(&inputs, |all| {
                all[0].iter().map(|x| (3.0 * x).tanh()).collect()
            });
            assert_close(&found, &expected, 1e-5, &name);
            assert_spreads(
                &inputs,
                &[f32::NAN],
                &name,
                apply(crate::flex::tanh),
                apply(Tensor::tanh),
            );
        }
    }
}
