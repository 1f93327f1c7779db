//! One pass of Adam over the memory of a parameter.

use crate::adam::{BETA_1, BETA_2, EPSILON};
use crate::flex::{
    Raw, contiguous, exact, raw,
    simd::{Loop, lanes::total, run},
    slice,
};
use rayon::prelude::*;

/// Numbers that a thread processes at a time.
const SHARE: usize = 1 << 16;

struct Step<'a> {
    value: &'a mut [f32],
    gradient: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    scalars: [f32; 3],
}

impl Loop for Step<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let [scale, rate, correction] = self.scalars;
        let (beta_1, beta_2) = (BETA_1 as f32, BETA_2 as f32);
        let (fresh_1, fresh_2) = ((1.0 - BETA_1) as f32, (1.0 - BETA_2) as f32);
        let moments = self.first.iter_mut().zip(self.second);
        for ((value, gradient), (first, second)) in
            self.value.iter_mut().zip(self.gradient).zip(moments)
        {
            let gradient = gradient * scale;
            *first = *first * beta_1 + gradient * fresh_1;
            *second = *second * beta_2 + gradient * gradient * fresh_2;
            *value -= *first * rate / (second.sqrt() * correction + EPSILON as f32);
        }
    }
}

/// Updates in place if nothing else holds the tensors.
pub(crate) fn step([value, gradient, first, second]: [Raw; 4], scalars: [f32; 3]) -> [Raw; 3] {
    let [mut value, mut first, mut second] = [value, first, second].map(exact);
    let gradient = contiguous(&gradient);
    let moments = first.storage_mut::<f32>().par_chunks_mut(SHARE);
    let moments = moments.zip(second.storage_mut::<f32>().par_chunks_mut(SHARE));
    value
        .storage_mut::<f32>()
        .par_chunks_mut(SHARE)
        .zip(slice(&gradient).par_chunks(SHARE))
        .zip(moments)
        .for_each(|((value, gradient), (first, second))| {
            run(Step {
                value,
                gradient,
                first,
                second,
                scalars,
            });
        });
    [value, first, second]
}

const LANES: usize = 16;

struct Squares<'a>(&'a [f32]);

impl Loop for Squares<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        let mut sums = [0.0_f32; LANES];
        let (lanes, rest) = self.0.as_chunks::<LANES>();
        for values in lanes {
            for lane in 0..LANES {
                sums[lane] += values[lane] * values[lane];
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            *sum += value * value;
        }
        total(sums)
    }
}

/// Sums in parts whose number does not depend on the number of threads.
pub(crate) fn sum_of_squares([x]: [Raw; 1]) -> Raw {
    let x = contiguous(&x);
    let shares: Vec<f32> = slice(&x)
        .par_chunks(SHARE)
        .map(|share| run(Squares(share)))
        .collect();
    raw(vec![shares.iter().sum()], [1])
}
