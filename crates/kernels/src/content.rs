//! Content-based addressing: where in a memory does a key point?

use burn::tensor::{Int, Tensor, TensorData, activation};

/// Added to squared norms, so that a row of zeros has a similarity (of zero) and a gradient.
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

/// A read of the nearest slots only.
#[derive(Clone, Debug)]
pub struct NearestRead {
    /// Which slots, `[batch, heads, nearest]`; those of one head all differ.
    pub slots: Tensor<3, Int>,
    /// Their weights, `[batch, heads, nearest]`; each row sums to one.
    pub weights: Tensor<3>,
    /// The reads, `[batch, heads, width]`.
    pub vectors: Tensor<3>,
}

/// The slots whose rows have the largest cosine with each key, by exact search; ties go to the
/// smaller index, slots come in ascending order. No gradient passes through the choice.
///
/// # Shapes
/// - `keys`: `[batch, heads, width]`
/// - `memory`: `[batch, slots, width]`
/// - returns `[batch, heads, min(count, slots)]`
///
/// The search is on the host: on a GPU it waits for the device.
pub fn nearest_slots(keys: Tensor<3>, memory: Tensor<3>, count: usize) -> Tensor<3, Int> {
    let device = memory.device();
    let [batch, heads, _] = keys.dims();
    let slots = memory.dims()[1];
    let count = count.min(slots);
    let (keys, memory) = (keys.detach(), memory.detach());
    // Products and squared norms of rows; a key's own norm changes no order.
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

/// Content addressing over the `count` nearest slots alone, and the read.
///
/// `w[b, h, i] = softmax_i(strength[b, h] * cos(key[b, h], memory[b, slot_i]))`, all other slots
/// weigh nothing. With as many as there are slots it is [`content_weights`] and a dense read.
/// Gradients flow to keys, strengths and the rows that were read.
///
/// # Shapes
/// As [`content_weights`].
///
/// The nearest-neighbour lookup that gtmm, section 6, leaves for later; Rae et al. 2016.
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

/// Slot numbers `[batch, heads, count]` for gathering or scattering whole rows:
/// `[batch, heads * count, width]`.
pub fn rows_of(slots: Tensor<3, Int>, width: usize) -> Tensor<3, Int> {
    let [batch, heads, count] = slots.dims();
    slots
        .reshape([batch, heads * count, 1])
        .expand([batch, heads * count, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn values(tensor: Tensor<3>) -> Vec<f32> {
        tensor.into_data().try_into_vec::<f32>().unwrap()
    }

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

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        // A small linear congruential generator: the values only have to differ.
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    fn tensor<const D: usize>(shape: [usize; D], seed: u32, device: &Device) -> Tensor<D> {
        let values = numbers(shape.iter().product(), seed);
        Tensor::from_data(TensorData::new(values, shape), device)
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

    /// Rows that are not read have no gradient, and the read is the dense one over the rest.
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

    /// Weights, and gradients of keys, strengths and memory; cosines where `f` has no strengths.
    fn all_of(
        [batch, heads, slots, width]: [usize; 4],
        f: impl Fn(Tensor<3>, Tensor<2>, Tensor<3>) -> Tensor<3>,
    ) -> Vec<f32> {
        let device = Device::default().autodiff();
        let keys = tensor::<3>([batch, heads, width], 3, &device).require_grad();
        let strengths = (tensor::<2>([batch, heads], 4, &device) + 3.0).require_grad();
        // The first row of each memory is empty.
        let rows = tensor::<3>([batch, slots, width], 5, &device);
        let rows = match slots {
            1 => rows,
            _ => {
                let empty = Tensor::zeros([batch, 1, width], &device);
                Tensor::cat(vec![empty, rows.narrow(1, 1, slots - 1)], 1)
            }
        };
        let memory = rows.detach().require_grad();
        let output = f(keys.clone(), strengths.clone(), memory.clone());
        let probe = tensor([batch, heads, slots], 6, &device);
        let gradients = (output.clone() * probe).sum().backward();
        let mut all = values(output);
        all.extend(values(keys.grad(&gradients).unwrap()));
        all.extend(values(memory.grad(&gradients).unwrap()));
        if let Some(gradient) = strengths.grad(&gradients) {
            all.extend(gradient.into_data().try_into_vec::<f32>().unwrap());
        }
        all
    }

    #[test]
    fn kernels_agree_with_the_plain_compositions() {
        for shape in [[1, 1, 1, 1], [2, 3, 5, 4], [3, 2, 17, 37], [16, 5, 60, 32]] {
            let pairs = [
                (all_of(shape, content_weights), all_of(shape, plain_weights)),
                (
                    all_of(shape, |keys, _, memory| cosine_similarity(keys, memory)),
                    all_of(shape, |keys, _, memory| plain_cosine(keys, memory)),
                ),
            ];
            for (found, expected) in pairs {
                assert_eq!(found.len(), expected.len());
                let scale = expected.iter().fold(1.0_f32, |m, e| m.max(e.abs()));
                for (found, expected) in found.iter().zip(expected) {
                    let error = (found - expected).abs();
                    assert!(error <= 1e-5 * scale, "{shape:?}: {found} {expected}");
                }
            }
        }
    }
}
