//! The differentiable neural dictionary (DND): what was seen, stored under where it was seen.
//!
//! Pritzel et al. 2017, section 3, as Fraccaro et al. 2018 (gtm-sm), section 3.1, use it: entries are sufficient
//! statistics, and nothing that is stored changes later. It is not a [`Memory`](crate::Memory): its query is the state
//! of the same step. [`Spatial`](crate::Spatial) is a memory that owns such a state and a dictionary.

use burn::tensor::{Int, Tensor, TensorData, activation};

/// Dictionaries of the sequences of a batch, one for each, all of the same length. A full dictionary drops its oldest
/// entry.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use mnemora_memory::Dnd;
///
/// let device = Device::default();
/// let mut dnd = Dnd::new(100);
/// for (x, what) in [(0.0_f32, 1.0_f32), (1.0, 2.0), (5.0, 3.0)] {
///     let key = Tensor::<2>::from_floats([[x, 0.0]], &device);
///     dnd = dnd.write(key, Tensor::from_floats([[what]], &device));
/// }
/// let query = Tensor::<3>::from_floats([[[0.9, 0.0]]], &device);
/// let near = dnd.nearest(query, 2).expect("the dictionary is not empty");
/// assert_eq!(near.positions, [1, 0]);
/// assert_eq!(near.values.into_data().try_to_vec::<f32>().unwrap(), [2.0, 1.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Dnd {
    /// `[batch, filled, key]`, the oldest first; `None` if nothing is stored.
    keys: Option<Tensor<3>>,
    /// `[batch, filled, value]`
    values: Option<Tensor<3>>,
    capacity: usize,
}

crate::bundle!(Dnd { keys, values; capacity });

/// The entries nearest to each query, in rows `sequence * queries + query`; the nearest first.
#[derive(Clone, Debug)]
pub struct Neighbours {
    /// Their keys, `[rows, count, key]`.
    pub keys: Tensor<3>,
    /// Their values, `[rows, count, value]`.
    pub values: Tensor<3>,
    /// Squared distances of their keys to the query, `[rows, count]`.
    pub squares: Tensor<2>,
    /// Their places in the dictionary of their sequence, 0 for the oldest entry: `[rows, count]` row-major.
    pub positions: Vec<usize>,
}

/// `log w_k`, `[rows, count]`, with `w_k` proportional to `1 / (distance_k^2 + delta)`, from squared distances
/// `[rows, count]`; the weights of a row sum to one (gtm-sm, section 4.1).
pub fn log_weights(squares: Tensor<2>, delta: f64) -> Tensor<2> {
    activation::log_softmax(squares.add_scalar(delta).log().neg(), 1)
}

impl Dnd {
    /// Empty dictionaries of at most `capacity` entries.
    ///
    /// # Panics
    /// If `capacity` is 0.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a dictionary must hold at least one entry");
        Self {
            keys: None,
            values: None,
            capacity,
        }
    }

    /// The most entries that each dictionary holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Entries of each dictionary.
    pub fn len(&self) -> usize {
        self.keys.as_ref().map_or(0, |keys| keys.dims()[1])
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.keys.is_none()
    }

    /// All keys, `[batch, len, key]`, the oldest first; `None` if nothing is stored.
    pub fn keys(&self) -> Option<&Tensor<3>> {
        self.keys.as_ref()
    }

    /// All values, `[batch, len, value]`, the oldest first; `None` if nothing is stored.
    pub fn values(&self) -> Option<&Tensor<3>> {
        self.values.as_ref()
    }

    /// Stores one entry for each sequence: `key`, `[batch, key]`, and `value`, `[batch, value]`.
    pub fn write(self, key: Tensor<2>, value: Tensor<2>) -> Self {
        self.write_all(key.unsqueeze_dim(1), value.unsqueeze_dim(1))
    }

    /// Stores several entries for each sequence, in order: `keys`, `[batch, count, key]`, and `values`,
    /// `[batch, count, value]`.
    ///
    /// # Panics
    /// If batch, count or a width differs from what is stored.
    pub fn write_all(self, keys: Tensor<3>, values: Tensor<3>) -> Self {
        assert_eq!(keys.dims()[1], values.dims()[1], "a value for each key");
        Self {
            keys: Some(self.appended(self.keys.clone(), keys)),
            values: Some(self.appended(self.values.clone(), values)),
            capacity: self.capacity,
        }
    }

    /// `rows` and the new ones after them, without the oldest that do not fit.
    fn appended(&self, rows: Option<Tensor<3>>, new: Tensor<3>) -> Tensor<3> {
        let all = match rows {
            None => new,
            Some(rows) => Tensor::cat(vec![rows, new], 1),
        };
        let count = all.dims()[1];
        match count.checked_sub(self.capacity) {
            None | Some(0) => all,
            Some(excess) => all.narrow(1, excess, self.capacity),
        }
    }

    /// The `count` entries (all, if there are fewer) whose keys are nearest to each query, by Euclidean distance; of
    /// equally near ones the older first. A key that is not finite is farther than any other. `None` if nothing is
    /// stored.
    ///
    /// The search is exact. Gradients flow to queries, keys and values through the distances and the values found, not
    /// through the choice of entries.
    ///
    /// # Shapes
    /// - `queries`: `[batch, queries, key]`
    ///
    /// # Panics
    /// If batch or width differ from those of the keys, or `count` is 0.
    pub fn nearest(&self, queries: Tensor<3>, count: usize) -> Option<Neighbours> {
        let (keys, values) = (self.keys.clone()?, self.values.clone()?);
        let [batch, filled, width] = keys.dims();
        let [rows, each, query_width] = queries.dims();
        assert_eq!([rows, query_width], [batch, width], "queries of the keys");
        assert!(count > 0, "at least one neighbour");
        let count = count.min(filled);
        let found = positions(&queries, &keys, count);

        // Rows of the flattened dictionaries.
        let flat: Vec<i64> = found
            .iter()
            .enumerate()
            .map(|(place, position)| (place / (each * count) * filled + position) as i64)
            .collect();
        let flat = TensorData::new(flat, [batch * each * count]);
        let flat: Tensor<1, Int> = Tensor::from_data(flat, &keys.device());
        let pick = |all: Tensor<3>| {
            let width = all.dims()[2];
            let rows = all.reshape([batch * filled, width]).select(0, flat.clone());
            rows.reshape([batch * each, count, width])
        };
        let keys = pick(keys);
        let apart = keys.clone() - queries.reshape([batch * each, 1, width]);
        Some(Neighbours {
            squares: apart.square().sum_dim(2).squeeze_dim(2),
            keys,
            values: pick(values),
            positions: found,
        })
    }
}

/// Positions of the `count` keys nearest to each query, `[batch, queries, count]` row-major.
fn positions(queries: &Tensor<3>, keys: &Tensor<3>, count: usize) -> Vec<usize> {
    let [batch, filled, width] = keys.dims();
    let each = queries.dims()[1];
    let host = |tensor: &Tensor<3>| -> Vec<f32> {
        let data = tensor.clone().detach().into_data();
        data.try_into_vec().expect("places are f32")
    };
    let (queries, keys) = (host(queries), host(keys));
    let mut found = Vec::with_capacity(batch * each * count);
    let mut best = Vec::with_capacity(count + 1);
    for (queries, keys) in queries
        .chunks(each * width)
        .zip(keys.chunks(filled * width))
    {
        for query in queries.chunks(width) {
            nearest_to(query, keys, count, &mut best);
            found.extend(best.iter().map(|(_, position)| position));
        }
    }
    found
}

/// Leaves the squared distances and positions of the `count` keys nearest to `query` in `best`, in order.
fn nearest_to(query: &[f32], keys: &[f32], count: usize, best: &mut Vec<(f32, usize)>) {
    best.clear();
    for (position, key) in keys.chunks(query.len()).enumerate() {
        let square: f32 = key.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum();
        let square = if square.is_nan() {
            f32::INFINITY
        } else {
            square
        };
        if best.len() == count {
            match best.last() {
                Some((farthest, _)) if square < *farthest => best.pop(),
                _ => continue,
            };
        }
        let place = best.partition_point(|(other, _)| *other <= square);
        best.insert(place, (square, position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn tensor<const D: usize>(values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
    }

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_into_vec().unwrap()
    }

    /// Numbers without a pattern, in [-1, 1).
    fn scattered(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    /// All positions sorted by distance, then by age.
    fn sorted(query: &[f32], keys: &[f32]) -> Vec<usize> {
        let squares: Vec<f32> = keys
            .chunks(query.len())
            .map(|key| key.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum())
            .map(|square: f32| {
                if square.is_nan() {
                    f32::INFINITY
                } else {
                    square
                }
            })
            .collect();
        let mut order: Vec<usize> = (0..squares.len()).collect();
        order.sort_by(|a, b| squares[*a].total_cmp(&squares[*b]));
        order
    }

    #[test]
    fn the_nearest_are_those_of_a_full_sort() {
        let scattered_keys = scattered(2 * 300, 1);
        let lattice: Vec<f32> = scattered_keys.iter().map(|x| (4.0 * x).round()).collect();
        let equal = vec![0.25; 2 * 10_000];
        let mut broken = lattice.clone();
        (broken[7], broken[40], broken[101]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        let mut best = Vec::new();
        for keys in [scattered_keys, lattice, equal, broken] {
            for query in scattered(2 * 20, 9).chunks(2) {
                for count in [1, 2, 5, 33] {
                    nearest_to(query, &keys, count, &mut best);
                    let found: Vec<usize> = best.iter().map(|(_, position)| *position).collect();
                    assert_eq!(found, sorted(query, &keys)[..count]);
                }
            }
        }
    }

    #[test]
    fn each_sequence_reads_its_own_dictionary() {
        let device = Device::default();
        let [batch, filled, each] = [3, 7, 2];
        let keys = tensor(
            &scattered(batch * filled * 2, 2),
            [batch, filled, 2],
            &device,
        );
        let stored: Vec<f32> = (0..batch * filled).map(|row| row as f32).collect();
        let stored = tensor(&stored, [batch, filled, 1], &device);
        let dnd = Dnd::new(filled).write_all(keys.clone(), stored);
        let queries = tensor(&scattered(batch * each * 2, 3), [batch, each, 2], &device);
        let near = dnd.nearest(queries.clone(), 3).unwrap();
        let (keys, queries) = (values(keys), values(queries));
        for (row, found) in near.positions.chunks(3).enumerate() {
            let sequence = row / each;
            let own = &keys[sequence * filled * 2..][..filled * 2];
            assert_eq!(found, &sorted(&queries[2 * row..][..2], own)[..3]);
        }
        let expected: Vec<f32> = near
            .positions
            .iter()
            .enumerate()
            .map(|(place, position)| (place / (3 * each) * filled + position) as f32)
            .collect();
        assert_eq!(values(near.values.clone()), expected);
        let weights = values(log_weights(near.squares.clone(), 1e-4).exp());
        let squares = values(near.squares);
        for (weights, squares) in weights.chunks(3).zip(squares.chunks(3)) {
            let inverse: Vec<f32> = squares.iter().map(|square| 1.0 / (square + 1e-4)).collect();
            let sum: f32 = inverse.iter().sum();
            for (weight, inverse) in weights.iter().zip(inverse) {
                assert!((weight - inverse / sum).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn a_full_dictionary_drops_its_oldest_entries() {
        let device = Device::default();
        let entry = |x: f32| tensor(&[x, x], [2, 1], &device);
        let one_by_one = (0..5).fold(Dnd::new(3), |dnd, x| {
            dnd.write(entry(x as f32), entry(-(x as f32)))
        });
        let at_once = {
            let rows: Vec<f32> = [0.0, 1.0, 2.0, 3.0, 4.0].repeat(2);
            let keys = tensor(&rows, [2, 5, 1], &device);
            Dnd::new(3).write_all(keys.clone(), keys.neg())
        };
        for dnd in [one_by_one, at_once] {
            assert_eq!((dnd.len(), dnd.capacity()), (3, 3));
            assert_eq!(
                values(dnd.keys().unwrap().clone()),
                [2.0, 3.0, 4.0, 2.0, 3.0, 4.0]
            );
            let near = dnd
                .nearest(tensor(&[0.0, 3.4], [2, 1, 1], &device), 9)
                .unwrap();
            assert_eq!(near.positions, [0, 1, 2, 1, 2, 0]);
            assert_eq!(values(near.values), [-2.0, -3.0, -4.0, -3.0, -4.0, -2.0]);
        }
        let empty = Dnd::new(1);
        assert!(
            empty.is_empty()
                && empty
                    .nearest(tensor(&[0.0], [1, 1, 1], &device), 1)
                    .is_none()
        );
    }

    /// Gradients with respect to queries, keys and values equal finite differences of a smooth function of the result.
    #[test]
    fn gradients_equal_finite_differences() {
        let (batch, filled, each, width) = (2, 6, 3, 2);
        let shapes = [
            [batch, each, width],
            [batch, filled, width],
            [batch, filled, 4],
        ];
        let given: Vec<Vec<f32>> = shapes
            .iter()
            .zip(11..)
            .map(|(shape, seed)| scattered(shape.iter().product(), seed))
            .collect();
        let result = |inputs: &[Vec<f32>], device: &Device| {
            let [queries, keys, stored] = [0, 1, 2].map(|place| {
                let input = tensor(&inputs[place], shapes[place], device);
                if device.is_autodiff() {
                    input.require_grad()
                } else {
                    input
                }
            });
            let dnd = Dnd::new(filled).write_all(keys.clone(), stored.clone());
            let near = dnd.nearest(queries.clone(), 3).unwrap();
            let weights = log_weights(near.squares.clone(), 1e-2)
                .exp()
                .unsqueeze_dim::<3>(2);
            let rows = batch * each;
            let factors = tensor(&scattered(rows * 4, 5), [rows, 1, 4], device);
            let sum = (near.values * weights * factors).sum() + near.squares.sqrt().sum();
            (sum, [queries, keys, stored])
        };
        let (sum, leaves) = result(&given, &Device::default().autodiff());
        let gradients = sum.backward();
        let step = 1e-2_f32;
        for (place, leaf) in leaves.into_iter().enumerate() {
            let gradient = values(leaf.grad(&gradients).unwrap());
            for index in 0..gradient.len() {
                let at = |change: f32| {
                    let mut inputs = given.clone();
                    inputs[place][index] += change;
                    f64::from(values(result(&inputs, &Device::default()).0)[0])
                };
                let numeric = (at(step) - at(-step)) / f64::from(2.0 * step);
                let error = (numeric - f64::from(gradient[index])).abs();
                assert!(
                    error < 2e-2 * (1.0 + numeric.abs()),
                    "{place} {index}: {numeric} {}",
                    gradient[index]
                );
            }
        }
    }
}
