//! Content-based addressing: to which memory slots does a key point?

use burn::tensor::{Int, Tensor, TensorData, activation};

/// Added to squared norms, so that a row of zeros has similarity zero and a finite gradient.
pub const NORM_EPSILON: f64 = 1e-6;

/// `cos[b, h, n] = k . m / (sqrt(|k|^2 + eps) sqrt(|m|^2 + eps))` with `eps = 1e-6`; within
/// `[-1, 1]`.
///
/// # Shapes
/// - `keys`: `[batch, heads, width]`
/// - `memory`: `[batch, slots, width]`
/// - returns `[batch, heads, slots]`
pub fn cosine_similarity(keys: Tensor<3>, memory: Tensor<3>) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&memory.device()) {
        return crate::flex::cosine(keys, memory);
    }
    plain_cosine(keys, memory)
}

fn plain_cosine(keys: Tensor<3>, memory: Tensor<3>) -> Tensor<3> {
    let norm = |rows: &Tensor<3>| {
        let squares = rows.clone() * rows.clone();
        squares.sum_dim(2).add_scalar(NORM_EPSILON).sqrt()
    };
    let key_norms = norm(&keys);
    let row_norms = norm(&memory).swap_dims(1, 2);
    keys.matmul(memory.swap_dims(1, 2)) / key_norms / row_norms
}

/// `w[b, h, n] = softmax_n(strength[b, h] * cos(key[b, h], memory[b, n]))`
///
/// # Shapes
/// - `keys`: `[batch, heads, width]`
/// - `strengths`: `[batch, heads]`, at least 0
/// - `memory`: `[batch, slots, width]`
/// - returns weights `[batch, heads, slots]`; each row sums to one
///
/// Graves et al. 2016 (DNC), Methods, "Content-based addressing"; Graves et al. 2014 (NTM),
/// equations 5 and 6.
pub fn content_weights(keys: Tensor<3>, strengths: Tensor<2>, memory: Tensor<3>) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&memory.device()) {
        return crate::flex::content(keys, strengths, memory);
    }
    plain_weights(keys, strengths, memory)
}

fn plain_weights(keys: Tensor<3>, strengths: Tensor<2>, memory: Tensor<3>) -> Tensor<3> {
    let similarity = plain_cosine(keys, memory);
    activation::softmax(similarity * strengths.unsqueeze_dim::<3>(2), 2)
}

/// The result of reading only the nearest slots.
#[derive(Clone, Debug)]
pub struct NearestRead {
    /// Indices of the slots, `[batch, heads, nearest]`; those of one head are distinct.
    pub slots: Tensor<3, Int>,
    /// Their weights, `[batch, heads, nearest]`; each row sums to one.
    pub weights: Tensor<3>,
    /// The reads, `[batch, heads, width]`.
    pub vectors: Tensor<3>,
}

/// The slots whose rows have the largest cosine similarity with each key, by exact search. Ties go to the
/// smaller index, and slots are in ascending order. No gradient passes through the choice.
///
/// # Shapes
/// - `keys`: `[batch, heads, width]`
/// - `memory`: `[batch, slots, width]`
/// - returns `[batch, heads, min(count, slots)]`
///
/// The search runs on the host: a GPU has to wait for it.
pub fn nearest_slots(keys: Tensor<3>, memory: Tensor<3>, count: usize) -> Tensor<3, Int> {
    let device = memory.device();
    let [batch, heads, _] = keys.dims();
    let slots = memory.dims()[1];
    let count = count.min(slots);
    let (keys, memory) = (keys.detach(), memory.detach());
    // Dot products and squared norms of rows. A key's own norm does not change the order.
    let squares = (memory.clone() * memory.clone()).sum_dim(2);
    let products = memory.matmul(keys.swap_dims(1, 2));
    let scores = products / squares.add_scalar(NORM_EPSILON).sqrt();
    let scores = scores
        .into_data()
        .try_into_vec::<f32>()
        .expect("scores are 32-bit floats");
    let mut order: Vec<u32> = Vec::with_capacity(slots);
    let mut found = Vec::with_capacity(batch * heads * count);
    for rows in scores.chunks_exact(slots * heads) {
        for head in 0..heads {
            let score = |slot: u32| rows[slot as usize * heads + head];
            order.clear();
            order.extend(0..slots as u32);
            if count < slots {
                order.select_nth_unstable_by(count - 1, |a, b| {
                    score(*b).total_cmp(&score(*a)).then(a.cmp(b))
                });
            }
            let nearest = &mut order[..count];
            nearest.sort_unstable();
            found.extend(nearest.iter().map(|slot| i64::from(*slot)));
        }
    }
    Tensor::from_data(TensorData::new(found, [batch, heads, count]), &device)
}

/// Content addressing over the `count` nearest slots only, and the read.
///
/// `w[b, h, i] = softmax_i(strength[b, h] * cos(key[b, h], memory[b, slot_i]))`; all other slots have weight
/// zero. If `count` is the number of slots, this equals [`content_weights`] followed by a dense read. Gradients
/// flow to keys, strengths and the rows that were read.
///
/// # Shapes
/// See [`content_weights`].
///
/// The nearest-neighbour lookup that gtmm, section 6, leaves for future work; Rae et al. 2016.
pub fn read_nearest(
    keys: Tensor<3>,
    strengths: Tensor<2>,
    memory: Tensor<3>,
    count: usize,
) -> NearestRead {
    let [batch, heads, width] = keys.dims();
    let slots = nearest_slots(keys.clone(), memory.clone(), count);
    let count = slots.dims()[2];
    let rows = memory.gather(1, rows_of(slots.clone(), width));
    let rows = rows.reshape([batch * heads, count, width]);
    let keys = keys.reshape([batch * heads, 1, width]);
    let similarity = cosine_similarity(keys, rows.clone()).reshape([batch, heads, count]);
    let weights = activation::softmax(similarity * strengths.unsqueeze_dim::<3>(2), 2);
    let vectors = weights
        .clone()
        .reshape([batch * heads, 1, count])
        .matmul(rows)
        .reshape([batch, heads, width]);
    NearestRead {
        slots,
        weights,
        vectors,
    }
}

/// Indices for gathering or scattering the whole rows of slots: from `[batch, heads, count]` to `[batch, heads *
/// count, width]`.
pub fn rows_of(slots: Tensor<3, Int>, width: usize) -> Tensor<3, Int> {
    let [batch, heads, count] = slots.dims();
    slots
        .reshape([batch, heads * count, 1])
        .expand([batch, heads * count, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{tensor, values};
    use burn::tensor::Device;

    #[test]
    fn similarity_is_the_cosine_and_zero_for_empty_rows() {
        let device = Device::default();
        let keys = Tensor::<3>::from_floats([[[3.0, 4.0]]], &device);
        let rows = [[[4.0, 3.0], [-6.0, -8.0], [0.0, 0.0], [1e4, 0.0]]];
        let found = values(cosine_similarity(keys, Tensor::from_floats(rows, &device)));
        for (found, expected) in found.iter().zip([0.96, -1.0, 0.0, 0.6]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn strength_sharpens_and_equal_rows_share() {
        let device = Device::default();
        let keys = Tensor::<3>::from_floats([[[1.0, 0.0], [1.0, 0.0]]], &device);
        let rows = Tensor::<3>::from_floats([[[2.0, 0.0], [0.0, 1.0], [5.0, 0.0]]], &device);
        let strengths = Tensor::<2>::from_floats([[0.0, 50.0]], &device);
        let found = values(content_weights(keys, strengths, rows));
        for (found, expected) in found
            .iter()
            .zip([1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.5, 0.0, 0.5])
        {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn nearest_slots_are_those_of_a_full_sort() {
        let device = Device::default();
        let (keys, memory) = (
            tensor([2, 3, 4], 1, &device),
            tensor([2, 40, 4], 2, &device),
        );
        let found = nearest_slots(keys.clone(), memory.clone(), 7)
            .into_data()
            .iter::<i64>()
            .collect::<Vec<_>>();
        let all = values(cosine_similarity(keys, memory));
        for (scores, found) in all.chunks(40).zip(found.chunks(7)) {
            let mut order: Vec<i64> = (0..40).collect();
            order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]));
            let mut expected = order[..7].to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn ties_go_to_the_smaller_index() {
        let device = Device::default();
        let keys = Tensor::<3>::ones([1, 1, 2], &device);
        let memory = Tensor::<3>::ones([1, 9, 2], &device);
        let found = nearest_slots(keys, memory, 3).into_data();
        assert_eq!(found.iter::<i64>().collect::<Vec<_>>(), [0, 1, 2]);
    }

    /// Values and gradients of a read of `count` slots.
    fn read_and_gradients(count: Option<usize>) -> [Vec<f32>; 4] {
        let device = Device::default().autodiff();
        let keys = tensor::<3>([2, 3, 4], 3, &device).require_grad();
        let strengths = (tensor::<2>([2, 3], 4, &device) + 9.0).require_grad();
        let memory = tensor::<3>([2, 8, 4], 5, &device).require_grad();
        let vectors = match count {
            Some(count) => {
                read_nearest(keys.clone(), strengths.clone(), memory.clone(), count).vectors
            }
            None => content_weights(keys.clone(), strengths.clone(), memory.clone())
                .matmul(memory.clone()),
        };
        let gradients = (vectors.clone() * tensor([2, 3, 4], 6, &device))
            .sum()
            .backward();
        let strengths = strengths.grad(&gradients).unwrap().into_data();
        [
            values(vectors),
            values(keys.grad(&gradients).unwrap()),
            strengths.try_into_vec::<f32>().unwrap(),
            values(memory.grad(&gradients).unwrap()),
        ]
    }

    #[test]
    fn all_slots_make_the_dense_read() {
        let dense = read_and_gradients(None);
        for (dense, sparse) in dense.iter().zip(read_and_gradients(Some(8))) {
            for (dense, sparse) in dense.iter().zip(sparse) {
                assert!((dense - sparse).abs() < 1e-5, "{dense} {sparse}");
            }
        }
    }

    /// Rows that are not read have no gradient, and the read equals the dense read of the others.
    #[test]
    fn few_slots_read_and_train_those_alone() {
        let [_, _, _, memory] = read_and_gradients(Some(1));
        let touched = memory
            .chunks(4)
            .filter(|row| row.iter().any(|g| *g != 0.0))
            .count();
        assert!(touched <= 6, "{touched} of 16 rows have a gradient");
        assert!(touched >= 2);
    }
}

#[cfg(all(test, feature = "flex"))]
mod kernel {
    use super::*;
    use crate::check::{
        NOT_FINITE, Way, arranged, assert_close, assert_same, assert_spreads, differences,
        gradients, numbers,
    };

    /// Batch, heads, slots, width.
    type Shape = [usize; 4];

    /// Keys, memory and strengths.
    fn inputs([batch, heads, slots, width]: Shape) -> Vec<Vec<f32>> {
        let mut memory = numbers(batch * slots * width, 5);
        // The first row of each memory is all zeros.
        if slots > 1 {
            for memory in memory.chunks_mut(slots * width) {
                memory[..width].fill(0.0);
            }
        }
        let strengths = numbers(batch * heads, 4);
        vec![
            numbers(batch * heads * width, 3),
            memory,
            strengths.iter().map(|s| s + 3.0).collect(),
        ]
    }

    fn weights(
        [batch, heads, slots, width]: Shape,
        f: fn(Tensor<3>, Tensor<2>, Tensor<3>) -> Tensor<3>,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<3> {
        move |inputs, way| {
            let [keys, memory, strengths]: [_; 3] = inputs.try_into().unwrap();
            f(
                arranged(keys, [batch, heads, width], way),
                arranged(strengths, [batch, heads], way),
                arranged(memory, [batch, slots, width], way),
            )
        }
    }

    fn cosines(
        [batch, heads, slots, width]: Shape,
        f: fn(Tensor<3>, Tensor<3>) -> Tensor<3>,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<3> {
        move |inputs, way| {
            let [keys, memory]: [_; 2] = inputs.try_into().unwrap();
            f(
                arranged(keys, [batch, heads, width], way),
                arranged(memory, [batch, slots, width], way),
            )
        }
    }

    fn cosine_definition(inputs: &[Vec<f64>], [batch, heads, slots, width]: Shape) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let norm = |a: &[f64]| (dot(a, a) + 1e-6).sqrt();
        let mut all = Vec::new();
        for b in 0..batch {
            for h in 0..heads {
                let key = &inputs[0][(b * heads + h) * width..][..width];
                for n in 0..slots {
                    let row = &inputs[1][(b * slots + n) * width..][..width];
                    all.push(dot(key, row) / (norm(key) * norm(row)));
                }
            }
        }
        all
    }

    fn weights_definition(inputs: &[Vec<f64>], shape: Shape) -> Vec<f64> {
        let cosines = cosine_definition(inputs, shape);
        let rows = cosines.chunks(shape[2]).zip(&inputs[2]);
        rows.flat_map(|(cosines, strength)| {
            let powers: Vec<f64> = cosines.iter().map(|c| (strength * c).exp()).collect();
            let total: f64 = powers.iter().sum();
            powers.into_iter().map(move |p| p / total)
        })
        .collect()
    }

    #[test]
    fn kernels_agree_with_the_plain_compositions() {
        for shape in [
            [1, 1, 1, 1],
            [5, 1, 1, 7],
            [1, 1, 13, 1],
            [1, 7, 1, 19],
            [2, 3, 5, 4],
            [3, 2, 17, 37],
            [1, 1, 101, 31],
            [16, 5, 60, 32],
        ] {
            let (name, inputs) = (format!("{shape:?}"), inputs(shape));
            let kernel = weights(shape, crate::flex::content);
            assert_same(&inputs, 1e-5, &name, kernel, weights(shape, plain_weights));
            let kernel = cosines(shape, crate::flex::cosine);
            let plain = cosines(shape, plain_cosine);
            assert_same(&inputs[..2], 1e-5, &name, kernel, plain);
        }
    }

    #[test]
    fn kernels_agree_with_the_definitions() {
        for shape in [
            [1, 1, 1, 1],
            [3, 1, 1, 7],
            [1, 2, 13, 1],
            [2, 3, 5, 4],
            [1, 2, 7, 17],
            [1, 1, 17, 5],
        ] {
            let (name, inputs) = (format!("{shape:?}"), inputs(shape));
            let kernel = weights(shape, crate::flex::content);
            let found = gradients(&inputs, &[], Way::Straight, kernel);
            let expected = differences(&inputs, |inputs| weights_definition(inputs, shape));
            assert_close(&found, &expected, 2e-5, &name);
            let kernel = cosines(shape, crate::flex::cosine);
            let found = gradients(&inputs[..2], &[], Way::Straight, kernel);
            let expected = differences(&inputs[..2], |inputs| cosine_definition(inputs, shape));
            assert_close(&found, &expected, 2e-5, &name);
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for shape in [[1, 1, 1, 1], [2, 2, 3, 5], [1, 3, 17, 33]] {
            let (name, inputs) = (format!("{shape:?}"), inputs(shape));
            let kernel = weights(shape, crate::flex::content);
            assert_spreads(
                &inputs,
                &NOT_FINITE,
                &name,
                kernel,
                weights(shape, plain_weights),
            );
            let kernel = cosines(shape, crate::flex::cosine);
            assert_spreads(
                &inputs[..2],
                &NOT_FINITE,
                &name,
                kernel,
                cosines(shape, plain_cosine),
            );
        }
    }
}
