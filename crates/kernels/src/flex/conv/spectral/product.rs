//! Sums of products of complex numbers with complex vectors.

use super::{images::Images, vectors::floats};
use crate::flex::conv::fourier::Complex;
use pulp::Simd;
use std::ops::Range;

/// Products of weights with the spectra of all images, at one frequency along the rows: those of some vectors of output
/// channels, `[frequency along the columns, input channel, vector]`.
#[inline(always)]
pub(super) fn multiply<S: Simd>(
    simd: S,
    (weights, vectors): (&[Complex<S>], Range<usize>),
    (read, spectra): (&Images, &[Complex<S>]),
    (written, products): (&Images, &mut [Complex<S>]),
) {
    let of_sum = read.places::<S>(spectra.len() / read.columns::<S>());
    let of_term = lanes_of(read.size[0], S::F32_LANES);
    let width = written.vectors::<S>();
    let weights = weights.chunks_exact(read.size[0] * vectors.len());
    for (row, weights) in weights.enumerate() {
        let product = Product {
            scalars: &floats::<S>(spectra)[row * read.vectors::<S>() * 2 * S::F32_LANES..],
            of_sum: &of_sum,
            of_term: &of_term,
            vectors: weights,
            step: vectors.len(),
            width: vectors.len(),
        };
        let sums = &mut products[row * width + vectors.start..];
        product.sums::<false>(simd, sums, written.columns::<S>());
    }
}

/// `sums[j, v] = sum_k scalar(j, k) vector(k, v)` in complex numbers.
pub(super) struct Product<'a, S: Simd> {
    /// Real parts of the scalars; each imaginary part is one vector length further on.
    pub(super) scalars: &'a [f32],
    /// Offsets of `j` and of `k` in the scalars; the sum of the two is the index.
    pub(super) of_sum: &'a [usize],
    pub(super) of_term: &'a [usize],
    pub(super) vectors: &'a [Complex<S>],
    /// Distance from the vectors of one term to those of the next.
    pub(super) step: usize,
    pub(super) width: usize,
}

impl<S: Simd> Product<'_, S> {
    /// All sums; the sums of one `j` start `step` after those of the previous one. With `CONJUGATE` the scalars
    /// are conjugated.
    #[inline(always)]
    pub(super) fn sums<const CONJUGATE: bool>(
        &self,
        simd: S,
        sums: &mut [Complex<S>],
        step: usize,
    ) {
        let wide = S::F32_LANES >= 16;
        let mut first = 0;
        while first < self.of_sum.len() {
            let rows = (self.of_sum.len() - first).min(4);
            let mut vector = 0;
            while vector < self.width {
                let count = (self.width - vector).min(if wide { 2 } else { 1 });
                let place = [first, vector];
                let put = (&mut sums[first * step + vector..], step);
                match (rows, count) {
                    (4, 2) => self.tile::<4, 2, CONJUGATE>(simd, place, put),
                    (3, 2) => self.tile::<3, 2, CONJUGATE>(simd, place, put),
                    (2, 2) => self.tile::<2, 2, CONJUGATE>(simd, place, put),
                    (_, 2) => self.tile::<1, 2, CONJUGATE>(simd, place, put),
                    (4, _) => self.tile::<4, 1, CONJUGATE>(simd, place, put),
                    (3, _) => self.tile::<3, 1, CONJUGATE>(simd, place, put),
                    (2, _) => self.tile::<2, 1, CONJUGATE>(simd, place, put),
                    _ => self.tile::<1, 1, CONJUGATE>(simd, place, put),
                }
                vector += count;
            }
            first += rows;
        }
    }

    #[inline(always)]
    fn tile<const J: usize, const V: usize, const CONJUGATE: bool>(
        &self,
        simd: S,
        [first, vector]: [usize; 2],
        (target, step): (&mut [Complex<S>], usize),
    ) {
        let lanes = S::F32_LANES;
        let mut sums = [[[simd.splat_f32s(0.0); 2]; V]; J];
        let rows: [&[f32]; J] = std::array::from_fn(|j| &self.scalars[self.of_sum[first + j]..]);
        let terms = self.vectors[vector..].chunks(self.step);
        for (term, vectors) in self.of_term.iter().zip(terms) {
            let vectors: [Complex<S>; V] = std::array::from_fn(|v| vectors[v]);
            for (row, sums) in rows.iter().zip(&mut sums) {
                let re = simd.splat_f32s(row[*term]);
                let im = simd.splat_f32s(row[*term + lanes]);
                for (sum, vector) in sums.iter_mut().zip(&vectors) {
                    sum[0] = simd.mul_add_f32s(re, vector[0], sum[0]);
                    sum[1] = simd.mul_add_f32s(re, vector[1], sum[1]);
                    if CONJUGATE {
                        sum[0] = simd.mul_add_f32s(im, vector[1], sum[0]);
                        sum[1] = simd.negate_mul_add_f32s(im, vector[0], sum[1]);
                    } else {
                        sum[0] = simd.negate_mul_add_f32s(im, vector[1], sum[0]);
                        sum[1] = simd.mul_add_f32s(im, vector[0], sum[1]);
                    }
                }
            }
        }
        for (sums, target) in sums.into_iter().zip(target.chunks_mut(step)) {
            target[..V].copy_from_slice(&sums);
        }
    }
}

/// Positions of the numbers of `channels` channels among vectors of `lanes` complex numbers.
pub(super) fn lanes_of(channels: usize, lanes: usize) -> Vec<usize> {
    let place = |channel: usize| channel / lanes * 2 * lanes + channel % lanes;
    (0..channels).map(place).collect()
}
