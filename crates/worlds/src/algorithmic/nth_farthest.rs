//! The N-th farthest task: which vector is the n-th farthest from vector m? It is supervised, so its batches
//! have targets instead of frames to predict.
//!
//! Santoro et al. 2018 (relational recurrent neural networks), section 4.1 and appendix A.1.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::settings::check;
use crate::{Error, Stream, sequence_number};

/// Sequences of labelled random vectors with a question about their distances: what is the label of the
/// n-th farthest vector from the one with label m?
///
/// Vectors are uniform on (-1, 1) in every dimension, and labels are a random permutation. The input of each
/// step is `[x_t; one-hot l_t; one-hot n; one-hot m]`. Distance is Euclidean; the reference itself, at
/// distance 0, is the last in the order.
///
/// This is the task as the paper states it. The generator released with the paper computes the inverse
/// permutation: the rank, by ascending distance, of the vector with label n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NthFarthest {
    vectors: usize,
    dimensions: usize,
    admitted: usize,
}

/// One batch of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct NthFarthestBatch {
    /// `[batch, time, width]` row-major.
    pub inputs: Vec<f32>,
    /// `[batch]`: the class to be predicted after the last step, from 0: label l is class l - 1.
    pub targets: Vec<usize>,
    /// `[batch]`: the n of each sequence, from 1.
    pub nth: Vec<usize>,
    /// `[batch]`: the step (from 0) at which the reference vector is shown.
    pub reference_step: Vec<usize>,
    /// Number of sequences.
    pub batch: usize,
    /// Steps: the number of vectors.
    pub time: usize,
    /// Values of an input: `dimensions + 3 * vectors`.
    pub width: usize,
}

impl NthFarthest {
    /// `vectors` vectors (`task.vectors`) of `dimensions` numbers each (`task.dimensions`), with every n
    /// admitted. The paper uses 8 vectors of 16 or 32 dimensions.
    ///
    /// # Errors
    /// `vectors` is not in `2..=1024`, or `dimensions` not in `1..=1024`.
    pub fn new(vectors: usize, dimensions: usize) -> Result<NthFarthest, Error> {
        check("task.vectors", vectors, 2..=1024, || {
            "the vectors of a sequence must be from 2 to 1024".to_owned()
        })?;
        check("task.dimensions", dimensions, 1..=1024, || {
            "the numbers of a vector must be from 1 to 1024".to_owned()
        })?;
        Ok(NthFarthest {
            vectors,
            dimensions,
            admitted: vectors,
        })
    }

    /// The same with n uniform on `1..=admitted` (`task.admitted`), for a curriculum. `admitted` has no effect
    /// on anything else in a sequence.
    ///
    /// # Errors
    /// `admitted` is not from 1 to the number of vectors.
    pub fn with_admitted(self, admitted: usize) -> Result<NthFarthest, Error> {
        check("task.admitted", admitted, 1..=self.vectors, || {
            let vectors = self.vectors;
            format!("the values of n that are asked for must be from 1 to task.vectors = {vectors}")
        })?;
        Ok(NthFarthest { admitted, ..self })
    }

    /// Values of an input: `dimensions + 3 * vectors`.
    pub fn width(&self) -> usize {
        self.dimensions + 3 * self.vectors
    }

    /// Classes of a target: the number of vectors.
    pub fn classes(&self) -> usize {
        self.vectors
    }

    /// Batch `index` of `batch` sequences; row `r` is made only from draw `sequence_number(index, batch, r)`
    /// of `stream`.
    ///
    /// The batch must fit in memory: `batch * time * width` values.
    pub fn batch(&self, stream: &Stream, index: u64, batch: usize) -> NthFarthestBatch {
        let (time, width) = (self.vectors, self.width());
        let mut made = NthFarthestBatch {
            inputs: vec![0.0; batch * time * width],
            targets: Vec::with_capacity(batch),
            nth: Vec::with_capacity(batch),
            reference_step: Vec::with_capacity(batch),
            batch,
            time,
            width,
        };
        for (row, inputs) in made.inputs.chunks_exact_mut(time * width).enumerate() {
            let mut generator = stream.at(sequence_number(index, batch, row));
            let (target, nth, reference_step) = self.sequence(&mut generator, inputs);
            made.targets.push(target);
            made.nth.push(nth);
            made.reference_step.push(reference_step);
        }
        made
    }

    /// Fills `inputs` (`[time, width]`, zeros); returns the target, n and the step of the reference.
    fn sequence(&self, generator: &mut ChaCha8Rng, inputs: &mut [f32]) -> (usize, usize, usize) {
        let (vectors, dimensions) = (self.vectors, self.dimensions);
        for input in inputs.chunks_exact_mut(self.width()) {
            input[..dimensions].fill_with(|| generator.random_range(-1.0..1.0));
        }
        let labels = permutation(vectors, generator);
        let reference = generator.random_range(0..vectors);
        // Drawn last, so that a curriculum has no other effect.
        let nth = generator.random_range(0..self.admitted);

        for (input, &label) in inputs.chunks_exact_mut(self.width()).zip(&labels) {
            input[dimensions + label] = 1.0;
            input[dimensions + vectors + nth] = 1.0;
            input[dimensions + 2 * vectors + labels[reference]] = 1.0;
        }

        let vector = |step: usize| &inputs[step * self.width()..][..dimensions];
        let distances: Vec<f64> = (0..vectors)
            .map(|step| squared_distance(vector(step), vector(reference)))
            .collect();
        let mut nearest_first: Vec<usize> = (0..vectors).collect();
        // The reference comes first even if another vector equals it.
        nearest_first.sort_by(|&left, &right| {
            let order = distances[left].total_cmp(&distances[right]);
            order.then((left != reference).cmp(&(right != reference)))
        });
        let target = labels[nearest_first[vectors - 1 - nth]];
        (target, nth + 1, reference)
    }
}

/// A uniform permutation of `0..count`.
fn permutation(count: usize, generator: &mut ChaCha8Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, generator.random_range(0..=last));
    }
    order
}

fn squared_distance(left: &[f32], right: &[f32]) -> f64 {
    let differences = left.iter().zip(right).map(|(&left, &right)| {
        let difference = f64::from(left) - f64::from(right);
        difference * difference
    });
    differences.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(seed: u64) -> Stream {
        Stream::new(seed, "data")
    }

    /// The position of the 1 in `values`; all others must be 0.
    fn one_hot(values: &[f32]) -> usize {
        let ones: Vec<usize> = (0..values.len()).filter(|&at| values[at] == 1.0).collect();
        assert_eq!(ones.len(), 1, "{values:?}");
        assert_eq!(values.iter().sum::<f32>(), 1.0);
        ones[0]
    }

    /// Steps of a sequence as (vector, label), and n and m, decoded from its inputs.
    type Read = (Vec<(Vec<f32>, usize)>, usize, usize);

    fn read(batch: &NthFarthestBatch, row: usize) -> Read {
        let vectors = batch.time;
        let dimensions = batch.width - 3 * vectors;
        let mut asked = Vec::new();
        let steps = batch.inputs[row * vectors * batch.width..]
            .chunks(batch.width)
            .take(vectors)
            .map(|input| {
                let (vector, rest) = input.split_at(dimensions);
                assert!(vector.iter().all(|value| (-1.0..1.0).contains(value)));
                let n = one_hot(&rest[vectors..2 * vectors]);
                let m = one_hot(&rest[2 * vectors..]);
                asked.push((n, m));
                (vector.to_vec(), one_hot(&rest[..vectors]))
            })
            .collect();
        assert!(asked.iter().all(|&pair| pair == asked[0]));
        (steps, asked[0].0, asked[0].1)
    }

    /// The definition: a vector is the n-th farthest if n - 1 vectors are farther from the reference.
    fn farther(steps: &[(Vec<f32>, usize)], reference: usize, label: usize) -> usize {
        let of = |wanted: usize| &steps.iter().find(|step| step.1 == wanted).unwrap().0;
        let distance = |label: usize| {
            let pairs = of(label).iter().zip(of(reference));
            let squares = pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let here = distance(label);
        (0..steps.len())
            .filter(|&other| distance(other) > here)
            .count()
    }

    proptest! {
        #[test]
        fn target_is_what_the_definition_says(
            vectors in 2usize..10,
            dimensions in 2usize..20,
            rows in 0usize..4,
            seed: u64,
            index: u64,
        ) {
            let task = NthFarthest::new(vectors, dimensions).unwrap();
            let batch = task.batch(&stream(seed), index, rows);
            prop_assert_eq!((batch.time, batch.width), (vectors, dimensions + 3 * vectors));
            prop_assert_eq!(batch.inputs.len(), rows * vectors * batch.width);
            prop_assert_eq!(batch.targets.len(), rows);
            for row in 0..rows {
                let (steps, n, m) = read(&batch, row);
                let mut labels: Vec<usize> = steps.iter().map(|step| step.1).collect();
                prop_assert_eq!(labels[batch.reference_step[row]], m);
                labels.sort();
                prop_assert!(labels.into_iter().eq(0..vectors));
                prop_assert_eq!(n + 1, batch.nth[row]);
                prop_assert_eq!(farther(&steps, m, batch.targets[row]), n);
                if n + 1 == vectors {
                    prop_assert_eq!(batch.targets[row], m, "the reference is the last in the order");
                }
            }
        }

        #[test]
        fn sequence_is_a_function_of_seed_and_number(seed: u64, index in 0u64..1 << 40) {
            let task = NthFarthest::new(8, 16).unwrap();
            let four = task.batch(&stream(seed), index, 4);
            prop_assert_eq!(&four, &task.batch(&stream(seed), index, 4));
            let two = task.batch(&stream(seed), 2 * index + 1, 2);
            prop_assert_eq!(&four.inputs[2 * 8 * 40..], &two.inputs[..]);
            prop_assert_eq!(&four.targets[2..], &two.targets[..]);
            prop_assert_ne!(&four.inputs, &task.batch(&stream(seed), index + 1, 4).inputs);
        }

        #[test]
        fn curriculum_changes_n_alone(seed: u64, admitted in 1usize..8) {
            let task = NthFarthest::new(8, 4).unwrap();
            let all = task.batch(&stream(seed), 0, 5);
            let few = task.with_admitted(admitted).unwrap().batch(&stream(seed), 0, 5);
            prop_assert!(few.nth.iter().all(|n| (1..=admitted).contains(n)));
            prop_assert_eq!(&all.reference_step, &few.reference_step);
            for (left, right) in all.inputs.chunks(28).zip(few.inputs.chunks(28)) {
                prop_assert_eq!(&left[..12], &right[..12]);
                prop_assert_eq!(&left[20..], &right[20..]);
            }
        }
    }

    #[test]
    fn targets_questions_and_references_are_uniform() {
        let task = NthFarthest::new(8, 16).unwrap();
        let batch = task.batch(&stream(3), 0, 16_000);
        let uniform = |name: &str, classes: &mut dyn Iterator<Item = usize>| {
            let mut counts = [0; 8];
            classes.for_each(|class| counts[class] += 1);
            // Chi squared with 7 degrees of freedom: 24.3 is the thousandth.
            let squares = counts.map(|count| (f64::from(count) - 2000.0).powi(2) / 2000.0);
            assert!(squares.iter().sum::<f64>() < 24.3, "{name}: {counts:?}");
        };
        uniform("targets", &mut batch.targets.iter().copied());
        uniform("n", &mut batch.nth.iter().map(|n| n - 1));
        uniform("step of m", &mut batch.reference_step.iter().copied());
        let labels = (0..batch.batch).map(|row| {
            let first = &batch.inputs[row * batch.time * batch.width..][..batch.width];
            one_hot(&first[16..24])
        });
        uniform("first label", &mut labels.into_iter());
        let values = batch.inputs.chunks(40).flat_map(|input| &input[..16]);
        let square = values.map(|value| f64::from(*value).powi(2)).sum::<f64>();
        let mean = square / (16_000.0 * 8.0 * 16.0);
        assert!((mean - 1.0 / 3.0).abs() < 0.001, "second moment {mean}");
    }

    #[test]
    fn golden_sequence() {
        let batch = NthFarthest::new(8, 16).unwrap().batch(&stream(1), 0, 4);
        assert_eq!(batch.targets, GOLDEN.0);
        assert_eq!(batch.nth, GOLDEN.1);
    }

    /// Targets and n of four sequences; published numbers depend on them.
    const GOLDEN: ([usize; 4], [usize; 4]) = ([6, 2, 3, 4], [2, 3, 4, 5]);

    #[test]
    fn impossible_settings_name_their_key() {
        let message = |made: Result<NthFarthest, Error>| made.unwrap_err().to_string();
        assert_eq!(
            message(NthFarthest::new(1, 16)),
            "task.vectors = 1: the vectors of a sequence must be from 2 to 1024"
        );
        assert_eq!(
            message(NthFarthest::new(8, 0)),
            "task.dimensions = 0: the numbers of a vector must be from 1 to 1024"
        );
        assert_eq!(
            message(NthFarthest::new(8, 16).unwrap().with_admitted(9)),
            "task.admitted = 9: the values of n that are asked for must be from 1 to task.vectors = 8"
        );
    }
}
