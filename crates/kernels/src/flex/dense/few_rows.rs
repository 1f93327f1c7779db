//! Products of a few rows with a matrix, without packing the matrix first: packing would be most of the work.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

/// Rows, matrix rows, and vectors of a row that are processed together.
const TILE: usize = 4;
/// Matrix rows per block.
const DEPTH: usize = 32;
/// Each thread takes a multiple of this many columns.
const COLUMNS: usize = 256;
/// With fewer multiplications a second thread costs more than it saves.
const SERIAL: usize = 1 << 21;

/// Adds `x` times some columns of the matrix to the same columns of `rows`.
pub(super) struct Ahead<'a, 'b> {
    /// `[rows, inputs]`
    pub(super) x: &'a [f32],
    pub(super) inputs: usize,
    /// `[inputs, width]`
    pub(super) weight: &'a [f32],
    pub(super) width: usize,
    pub(super) first: usize,
    pub(super) rows: &'a mut [&'b mut [f32]],
}

impl WithSimd for Ahead<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for input in (0..self.inputs).step_by(DEPTH) {
            let depth = DEPTH.min(self.inputs - input);
            // A tile's sums and its factors stay in registers.
            match S::REGISTER_COUNT > 16 {
                true => self.across::<S, TILE>(simd, [input, depth]),
                false => self.across::<S, 2>(simd, [input, depth]),
            }
        }
    }
}

impl Ahead<'_, '_> {
    /// All columns for some inputs, `V` vectors at a time. This part of the matrix stays in the nearest cache
    /// for all rows.
    #[inline(always)]
    fn across<S: Simd, const V: usize>(&mut self, simd: S, inputs: [usize; 2]) {
        let columns = self.rows.first().map_or(0, |row| row.len());
        let wide = V * S::F32_LANES;
        let mut column = 0;
        while column + wide <= columns {
            self.down::<S, V>(simd, inputs, column);
            column += wide;
        }
        let vectors = (columns - column) / S::F32_LANES;
        match vectors {
            3 => self.down::<S, 3>(simd, inputs, column),
            2 => self.down::<S, 2>(simd, inputs, column),
            1 => self.down::<S, 1>(simd, inputs, column),
            _ => {}
        }
        column += vectors * S::F32_LANES;
        if column < columns {
            self.down_rest(simd, inputs, column);
        }
    }

    /// `V` vectors of all rows.
    #[inline(always)]
    fn down<S: Simd, const V: usize>(&mut self, simd: S, inputs: [usize; 2], column: usize) {
        let count = self.rows.len();
        let mut row = 0;
        while row + TILE <= count {
            self.tile::<S, TILE, V>(simd, inputs, row, column);
            row += TILE;
        }
        if row + 2 <= count {
            self.tile::<S, 2, V>(simd, inputs, row, column);
            row += 2;
        }
        if row < count {
            self.tile::<S, 1, V>(simd, inputs, row, column);
        }
    }

    /// The remaining columns of all rows, too few for a vector.
    #[inline(always)]
    fn down_rest<S: Simd>(&mut self, simd: S, inputs: [usize; 2], column: usize) {
        let count = self.rows.len();
        let mut row = 0;
        while row + TILE <= count {
            self.rest::<S, TILE>(simd, inputs, row, column);
            row += TILE;
        }
        while row < count {
            self.rest::<S, 1>(simd, inputs, row, column);
            row += 1;
        }
    }

    /// The remaining columns of `R` rows, too few for a vector.
    #[inline(always)]
    fn rest<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        [input, depth]: [usize; 2],
        row: usize,
        column: usize,
    ) {
        let mut factors: [&[f32]; R] = [&[]; R];
        let mut sums = [simd.splat_f32s(0.0); R];
        for r in 0..R {
            factors[r] = &self.x[(row + r) * self.inputs + input..][..depth];
            sums[r] = simd.partial_load_f32s(&self.rows[row + r][column..]);
        }
        let count = self.rows[row].len() - column;
        let weights = self.weight[input * self.width..].chunks_exact(self.width);
        for (k, weights) in weights.take(depth).enumerate() {
            let weights = simd.partial_load_f32s(&weights[self.first + column..][..count]);
            for (sum, factors) in sums.iter_mut().zip(factors) {
                *sum = simd.mul_add_f32s(simd.splat_f32s(factors[k]), weights, *sum);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            simd.partial_store_f32s(&mut self.rows[row + r][column..], sum);
        }
    }

    /// `V` vectors of `R` rows.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        [input, depth]: [usize; 2],
        row: usize,
        column: usize,
    ) {
        let count = V * S::F32_LANES;
        let mut factors: [&[f32]; R] = [&[]; R];
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        for r in 0..R {
            factors[r] = &self.x[(row + r) * self.inputs + input..][..depth];
            let before = S::as_simd_f32s(&self.rows[row + r][column..][..count]).0;
            sums[r].copy_from_slice(before);
        }
        let weights = self.weight[input * self.width..].chunks_exact(self.width);
        for (k, weights) in weights.take(depth).enumerate() {
            let weights = &weights[self.first + column..][..count];
            let weights = S::as_simd_f32s(weights).0;
            for (sums, factors) in sums.iter_mut().zip(factors) {
                let factor = simd.splat_f32s(factors[k]);
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = simd.mul_add_f32s(factor, *weight, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let after = &mut self.rows[row + r][column..][..count];
            S::as_mut_simd_f32s(after).0.copy_from_slice(sums);
        }
    }
}

/// `gradient` times the transpose of the matrix, starting at matrix row `first`.
pub(super) struct Back<'a, 'b> {
    /// `[rows, width]`
    pub(super) gradient: &'a [f32],
    pub(super) weight: &'a [f32],
    pub(super) width: usize,
    pub(super) first: usize,
    pub(super) rows: &'a mut [&'b mut [f32]],
}

impl WithSimd for Back<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.rows.first().map_or(0, |row| row.len());
        let width = self.width;
        let mut column = 0;
        while column < columns {
            let together = if column + TILE <= columns { TILE } else { 1 };
            let weight = &self.weight[(self.first + column) * width..];
            let mut row = 0;
            while row < self.rows.len() {
                let rows = if row + TILE <= self.rows.len() {
                    TILE
                } else {
                    1
                };
                let both = [&self.gradient[row * width..], weight];
                let out = &mut self.rows[row..row + rows];
                match (rows, together) {
                    (TILE, TILE) => dot::<S, TILE, TILE>(simd, both, width, out, column),
                    (TILE, _) => dot::<S, TILE, 1>(simd, both, width, out, column),
                    (_, TILE) => dot::<S, 1, TILE>(simd, both, width, out, column),
                    _ => dot::<S, 1, 1>(simd, both, width, out, column),
                }
                row += rows;
            }
            column += together;
        }
    }
}

/// Products of `R` rows with `K` rows of the matrix.
#[inline(always)]
fn dot<S: Simd, const R: usize, const K: usize>(
    simd: S,
    [gradient, weight]: [&[f32]; 2],
    width: usize,
    rows: &mut [&mut [f32]],
    column: usize,
) {
    let zero = simd.splat_f32s(0.0);
    let mut left: [&[S::f32s]; R] = [&[]; R];
    let mut right: [&[S::f32s]; K] = [&[]; K];
    // The remaining numbers form a vector padded with zeros.
    let (mut left_rest, mut right_rest) = ([zero; R], [zero; K]);
    for r in 0..R {
        let (vectors, rest) = S::as_simd_f32s(&gradient[r * width..][..width]);
        left[r] = vectors;
        left_rest[r] = simd.partial_load_f32s(rest);
    }
    for k in 0..K {
        let (vectors, rest) = S::as_simd_f32s(&weight[k * width..][..width]);
        right[k] = vectors;
        right_rest[k] = simd.partial_load_f32s(rest);
    }
    let mut sums = [[zero; K]; R];
    for r in 0..R {
        for k in 0..K {
            sums[r][k] = simd.mul_f32s(left_rest[r], right_rest[k]);
        }
    }
    for j in 0..width / S::F32_LANES {
        for r in 0..R {
            for k in 0..K {
                sums[r][k] = simd.mul_add_f32s(left[r][j], right[k][j], sums[r][k]);
            }
        }
    }
    for (r, row) in rows.iter_mut().enumerate() {
        for k in 0..K {
            row[column + k] = simd.reduce_sum_f32s(sums[r][k]);
        }
    }
}

/// Fills `rows`, `[rows, width]`: `work` gets the index of the first of some columns, and these columns of each
/// row.
pub(super) fn by_columns(
    output: &mut [f32],
    width: usize,
    cost: usize,
    work: impl Fn(usize, &mut [&mut [f32]]) + Sync,
) {
    let threads = match cost < SERIAL {
        true => 1,
        false => rayon::current_num_threads(),
    };
    // Shares are whole tiles of columns. How they are shared out does not change the result.
    let share = width.div_ceil(threads).next_multiple_of(COLUMNS);
    let share = if threads == 1 { width } else { share };
    let mut shares: Vec<Vec<&mut [f32]>> = (0..width.div_ceil(share)).map(|_| Vec::new()).collect();
    for row in output.chunks_exact_mut(width) {
        for (part, share) in row.chunks_mut(share).zip(&mut shares) {
            share.push(part);
        }
    }
    if let [rows] = &mut shares[..] {
        return work(0, rows);
    }
    let shares = shares.into_par_iter().enumerate();
    shares.for_each(|(index, mut rows)| work(index * share, &mut rows));
}
