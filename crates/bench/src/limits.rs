//! Limits of the machine: operations and bytes per second.

use crate::{
    benchmark::{Benchmark, Prepared},
    cost::Cost,
};
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

const SIDE: usize = 1024;
/// Elements of each of three arrays: 128 MiB.
const ELEMENTS: usize = 1 << 25;
/// Elements that a thread takes at a time.
const PORTION: usize = 1 << 16;

/// The benchmark whose operations per second are the limit.
pub const PRODUCT: &str = "limit/matrix-product-1024";
/// The benchmark whose bytes per second are the limit.
pub const TRIAD: &str = "limit/triad-384-mib";

/// Measured limits of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Floating-point operations per second.
    pub flops: f64,
    /// Bytes per second.
    pub bytes: f64,
}

/// A square matrix product, and an addition over arrays larger than any cache.
pub fn benchmarks() -> Vec<Benchmark> {
    vec![
        Benchmark {
            name: PRODUCT.into(),
            prepare: Box::new(|device| {
                let device = device.clone().inner();
                let values: Vec<f32> = (0..SIDE * SIDE).map(|i| (i as f32).sin()).collect();
                let data = TensorData::new(values, [SIDE, SIDE]);
                let factor = Tensor::<2>::from_data(data, &device);
                let cost = Cost::product(SIDE, SIDE, SIDE);
                Ok(Prepared::new(cost, move || {
                    drop(factor.clone().matmul(factor.clone()));
                }))
            }),
        },
        Benchmark {
            name: TRIAD.into(),
            prepare: Box::new(|_| {
                let (b, c) = (vec![1.0_f32; ELEMENTS], vec![2.0_f32; ELEMENTS]);
                let mut out = vec![0.0_f32; ELEMENTS];
                let cost = Cost::array(3 * ELEMENTS);
                Ok(Prepared::new(cost, move || triad(&mut out, &b, &c)))
            }),
        },
    ]
}

/// `out = b + 3 c`
fn triad(out: &mut [f32], b: &[f32], c: &[f32]) {
    let portions = b.par_chunks(PORTION).zip(c.par_chunks(PORTION));
    out.par_chunks_mut(PORTION)
        .zip(portions)
        .for_each(|(out, (b, c))| {
            for ((out, b), c) in out.iter_mut().zip(b).zip(c) {
                *out = b + 3.0 * c;
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_triad_adds() {
        let mut out = vec![0.0; PORTION + 1];
        triad(&mut out, &vec![1.0; PORTION + 1], &vec![2.0; PORTION + 1]);
        assert!(out.iter().all(|value| *value == 7.0));
    }
}
