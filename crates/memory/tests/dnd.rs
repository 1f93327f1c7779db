//! The dictionary against brute force, and its gradients against finite differences.

use burn::tensor::{Device, Int, Tensor, TensorData, Tolerance};
use mnemora_memory::{Bundle, Dnd, TensorMapper, dnd::log_weights};
use proptest::prelude::*;

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

/// All of `rows` in a dictionary of one sequence, whose values are the numbers of the rows from 0 on.
fn stored(dnd: Dnd, rows: std::ops::Range<usize>, keys: &[f32], width: usize) -> Dnd {
    let device = Device::default();
    let numbers: Vec<f32> = rows.clone().map(|row| row as f32).collect();
    let count = rows.len();
    dnd.write_all(
        tensor(
            &keys[rows.start * width..rows.end * width],
            [1, count, width],
            &device,
        ),
        tensor(&numbers, [1, count, 1], &device),
    )
}

/// Positions of the neighbours of a query, after a check that keys, values and distances are those of the positions.
fn near(dnd: &Dnd, keys: &[f32], dropped: usize, query: &[f32], count: usize) -> Vec<usize> {
    let width = query.len();
    let queries = tensor(query, [1, 1, width], &Device::default());
    let near = dnd.nearest(queries, count).unwrap();
    let (found, numbers, squares) = (values(near.keys), values(near.values), values(near.squares));
    for (place, position) in near.positions.iter().enumerate() {
        let row = position + dropped;
        let key = &keys[row * width..][..width];
        assert_eq!(numbers[place], row as f32);
        let bits = |key: &[f32]| key.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found[place * width..][..width]), bits(key));
        let square: f32 = key.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum();
        let same = squares[place].is_nan() && square.is_nan() || squares[place] == square;
        assert!(
            same || (squares[place] - square).abs() <= 1e-6 * square,
            "{square}"
        );
    }
    near.positions
}

#[test]
fn the_nearest_are_those_of_a_full_sort() {
    let scattered_keys = scattered(2 * 300, 1);
    let lattice: Vec<f32> = scattered_keys.iter().map(|x| (4.0 * x).round()).collect();
    let equal = vec![0.25; 2 * 10_000];
    let mut broken = lattice.clone();
    (broken[7], broken[40], broken[101]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    for keys in [scattered_keys, lattice, equal, broken] {
        let dnd = stored(Dnd::new(keys.len()), 0..keys.len() / 2, &keys, 2);
        for query in scattered(2 * 20, 9).chunks(2) {
            for count in [1, 2, 5, 33] {
                let found = near(&dnd, &keys, 0, query, count);
                assert_eq!(found, sorted(query, &keys)[..count]);
            }
        }
    }
}

/// How keys lie.
#[derive(Clone, Copy, Debug)]
enum Places {
    Scattered,
    Equal,
    /// Few different keys, with one number in common.
    Lattice,
    /// A lattice, and a tenth of the numbers not finite.
    Broken,
    /// Finite, but squares overflow.
    Huge,
}

const PLACES: [Places; 5] = [
    Places::Scattered,
    Places::Equal,
    Places::Lattice,
    Places::Broken,
    Places::Huge,
];

impl Places {
    fn draw(self, count: usize, width: usize, seed: u64) -> Vec<f32> {
        let mut numbers = scattered(count * width, seed);
        let broken = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for (place, x) in numbers.iter_mut().enumerate() {
            *x = match self {
                Self::Scattered => *x,
                Self::Equal => 0.25,
                Self::Lattice if place % width == 0 => -0.5,
                Self::Broken if *x > 0.8 => broken[place % 3],
                // Zeros of both signs, too.
                Self::Lattice | Self::Broken => (3.0 * *x).round() / 4.0,
                Self::Huge => *x * 3e19,
            };
        }
        numbers
    }
}

/// What is done with a dictionary.
#[derive(Clone, Debug)]
enum Deed {
    WriteAll(usize),
    WriteOneByOne(usize),
    /// Keeps a clone, which later writes must not change.
    Keep,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        3 => (1..3000_usize).prop_map(Deed::WriteAll),
        2 => (1..700_usize).prop_map(Deed::WriteOneByOne),
        1 => Just(Deed::Keep),
    ];
    prop::collection::vec(deed, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// With and without an index, after any writes and with entries dropped, a read finds what sorting all keys does.
    #[test]
    fn a_large_dictionary_answers_as_a_full_sort(
        places in prop::sample::select(PLACES.to_vec()),
        width in 1..=6_usize,
        capacity in prop_oneof![1..4096_usize, 4097..9000_usize, Just(20_000)],
        deeds in deeds(),
        seed in 1..1000_u64,
    ) {
        let keys = places.draw(40_000, width, seed);
        let mut dnd = Dnd::new(capacity);
        let mut kept = None;
        let mut written = 0;
        // Positions of what `dnd` found after `written` writes are those of a sort.
        let check = |dnd: &Dnd, written: usize| -> Result<(), TestCaseError> {
            prop_assert_eq!(dnd.len(), written.min(capacity));
            let dropped = written - dnd.len();
            if dnd.is_empty() {
                return Ok(());
            }
            let live = &keys[dropped * width..written * width];
            let mut queries = scattered(width, seed + written as u64);
            queries.extend(places.draw(2, width, seed + 7));
            queries.extend(&live[live.len() - width..]);
            for (query, count) in queries.chunks(width).zip([1, 5, 40, 7]) {
                let count = count.min(dnd.len());
                let found = near(dnd, &keys, dropped, query, count);
                prop_assert_eq!(&found, &sorted(query, live)[..count]);
            }
            Ok(())
        };
        for deed in deeds {
            match deed {
                Deed::WriteAll(count) => {
                    dnd = stored(dnd, written..written + count, &keys, width);
                    written += count;
                }
                Deed::WriteOneByOne(count) => {
                    for row in written..written + count {
                        dnd = stored(dnd, row..row + 1, &keys, width);
                    }
                    written += count;
                }
                Deed::Keep => kept = Some((dnd.clone(), written)),
            }
            check(&dnd, written)?;
        }
        if let Some((kept, written)) = kept {
            check(&kept, written)?;
        }
        if !dnd.is_empty() {
            let bits = |keys: &[f32]| keys.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let (all, live) = (values(dnd.keys().unwrap()), (written - dnd.len()) * width);
            prop_assert_eq!(bits(&all), bits(&keys[live..written * width]));
            // As a bundle it is the same dictionary again.
            check(&dnd.rows(0..1), written)?;
        }
    }
}

/// With an index, too, each sequence reads its own entries, with the gradients of picking them by hand.
#[test]
fn a_large_dictionary_has_gradients() {
    let device = Device::default().autodiff();
    let [batch, filled, each, count] = [2, 6000, 3, 4];
    let given = |width, seed, filled| {
        tensor(
            &scattered(batch * filled * width, seed),
            [batch, filled, width],
            &device,
        )
    };
    let (keys, stored) = (given(2, 1, filled), given(3, 2, filled));
    let written = (0..6).fold(Dnd::new(5500), |dnd, part| {
        dnd.write_all(
            keys.clone().narrow(1, 1000 * part, 1000),
            stored.clone().narrow(1, 1000 * part, 1000),
        )
    });
    let queries = given(2, 3, each);
    let leaf = written.leaf();
    let [keys, stored] = [leaf.keys().unwrap(), leaf.values().unwrap()];
    let near = leaf.nearest(queries.clone(), count).unwrap();
    let sum = near.values.clone().sum_dim(2).squeeze_dim::<2>(2) * near.squares.clone();
    let found = sum.sum().mul_scalar(1e4).backward();

    let (all, asked) = (values(keys.clone()), values(queries.clone()));
    for (row, positions) in near.positions.chunks(count).enumerate() {
        let own = &all[row / each * 5500 * 2..][..5500 * 2];
        assert_eq!(positions, &sorted(&asked[2 * row..][..2], own)[..count]);
    }
    let flat: Vec<i64> = near
        .positions
        .iter()
        .enumerate()
        .map(|(place, position)| (place / (each * count) * 5500 + position) as i64)
        .collect();
    let flat = Tensor::<1, Int>::from_ints(flat.as_slice(), &device);
    let pick = |all: &Tensor<3>, width| {
        let rows = all
            .clone()
            .reshape([batch * 5500, width])
            .select(0, flat.clone());
        rows.reshape([batch * each, count, width])
    };
    let apart = pick(&keys, 2) - queries.reshape([batch * each, 1, 2]);
    let squares = apart.square().sum_dim(2).squeeze_dim::<2>(2);
    let sum = pick(&stored, 3).sum_dim(2).squeeze_dim::<2>(2) * squares;
    let expected = sum.sum().mul_scalar(1e4).backward();
    for leaf in [keys, stored] {
        let (found, expected) = (leaf.grad(&found).unwrap(), leaf.grad(&expected).unwrap());
        let moved = expected.clone().abs().sum().into_scalar::<f32>();
        assert!(moved > 1.0, "{moved}");
        found
            .into_data()
            .assert_approx_eq(&expected.into_data(), Tolerance::<f32>::rel_abs(1e-5, 1e-6));
    }
}

/// Tensors from a file that do not go together are refused with their sizes.
#[test]
#[should_panic(expected = "at most 3 entries cannot have 2 keys and 1 values")]
fn keys_without_values_are_refused() {
    struct Lose(bool);
    impl TensorMapper for Lose {
        fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
            self.0 = !self.0;
            if self.0 {
                tensor
            } else {
                tensor.narrow(1, 0, 1)
            }
        }
    }
    let _ = stored(Dnd::new(3), 0..2, &[0.0, 1.0], 1).map_tensors(&mut Lose(false));
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
        assert_eq!(values(dnd.keys().unwrap()), [2.0, 3.0, 4.0, 2.0, 3.0, 4.0]);
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
