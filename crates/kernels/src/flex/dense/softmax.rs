//! The softmax of rows of logits, in place.

use crate::flex::{
    Raw, contiguous, exact, raw,
    simd::{Loop, lanes::total, math, run},
    slice,
};
use rayon::prelude::*;

const LANES: usize = 16;

/// Turns a row of logits into its probabilities; returns the log normaliser.
struct Row<'a> {
    logits: &'a mut [f32],
    bias: &'a [f32],
}

impl Loop for Row<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        let whole = self.logits.len() / LANES * LANES;
        let (logits, rest) = self.logits.split_at_mut(whole);
        let (bias, rest_bias) = self.bias.split_at(whole);
        let logits = logits.as_chunks_mut::<LANES>().0;
        let bias = bias.as_chunks::<LANES>().0;

        let mut largest = [f32::NEG_INFINITY; LANES];
        for (logits, bias) in logits.iter_mut().zip(bias) {
            for lane in 0..LANES {
                logits[lane] += bias[lane];
                largest[lane] = largest[lane].max(logits[lane]);
            }
        }
        let mut highest = largest.into_iter().fold(f32::NEG_INFINITY, f32::max);
        for (logit, bias) in rest.iter_mut().zip(rest_bias) {
            *logit += bias;
            highest = highest.max(*logit);
        }

        let mut sums = [0.0_f32; LANES];
        for logits in logits.iter_mut() {
            for lane in 0..LANES {
                logits[lane] = math::exp(logits[lane] - highest);
                sums[lane] += logits[lane];
            }
        }
        let mut sum = total(sums);
        for logit in rest.iter_mut() {
            *logit = math::exp(*logit - highest);
            sum += *logit;
        }

        let scale = 1.0 / sum;
        for logits in logits.iter_mut() {
            for logit in logits {
                *logit *= scale;
            }
        }
        for logit in rest {
            *logit *= scale;
        }
        highest + sum.ln()
    }
}

pub(crate) fn softmax([logits, bias]: [Raw; 2]) -> [Raw; 2] {
    let mut logits = exact(logits);
    let bias = contiguous(&bias);
    let [rows, columns] = logits.layout().shape().dims();
    assert_eq!(
        bias.layout().shape().dims::<1>(),
        [columns],
        "a bias for each column"
    );
    let normalisers = match columns {
        0 => vec![f32::NEG_INFINITY; rows],
        _ => {
            let rows = logits.storage_mut::<f32>().par_chunks_mut(columns);
            let normaliser = |logits| {
                run(Row {
                    logits,
                    bias: slice(&bias),
                })
            };
            rows.map(normaliser).collect()
        }
    };
    [logits, raw(normalisers, [rows])]
}
