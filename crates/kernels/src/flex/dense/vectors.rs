//! Products of matrices that lie in vectors of 16 numbers, small enough to stay in a cache, so that nothing is copied
//! before.

#![allow(unsafe_code)]

use pulp::{Simd, WithSimd};

/// Numbers of a vector.
pub(crate) const VECTOR: usize = 16;
/// Rows are computed in groups, whose size divides this number.
pub(crate) const GROUP: usize = 8;

/// A matrix product.
pub(crate) struct Product<'a> {
    pub(crate) left: &'a [f32],
    /// Distances between vectors of rows, rows of a vector, and columns.
    pub(crate) left_steps: [usize; 3],
    pub(crate) right: &'a [f32],
    /// Distances between vectors of columns, and rows.
    pub(crate) right_steps: [usize; 2],
    /// Columns of the left matrix, rows of the right one.
    pub(crate) depth: usize,
    pub(crate) output: &'a mut [f32],
    pub(crate) output_step: usize,
    /// Rows, in whole groups, and columns, in whole vectors, of the output.
    pub(crate) size: [usize; 2],
    /// Whether the product is added to the output.
    pub(crate) adds: bool,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // A register holds 16, 8 or 4 numbers; a group of rows has as many sums as there are registers for.
        match S::F32_LANES {
            16 => self.sums::<S, 8, 1>(simd),
            8 => self.sums::<S, 4, 2>(simd),
            4 => self.sums::<S, 4, 4>(simd),
            _ => self.sums::<S, 1, VECTOR>(simd),
        }
    }
}

impl Product<'_> {
    /// Where a row of the left matrix begins.
    #[inline(always)]
    fn left_row(&self, row: usize) -> usize {
        row / VECTOR * self.left_steps[0] + row % VECTOR * self.left_steps[1]
    }

    /// Computes `R` rows and `V` registers of columns at a time.
    #[inline(always)]
    fn sums<S: Simd, const R: usize, const V: usize>(self, simd: S) {
        let [rows, columns] = self.size;
        let [_, left_row, left_column] = self.left_steps;
        let [right_vector, right_row] = self.right_steps;
        assert!(rows % R == 0 && VECTOR % R == 0 && V * S::F32_LANES == VECTOR);
        assert!(columns % VECTOR == 0 && rows > 0 && columns > 0 && self.depth > 0);
        // All reads and writes below are inside by these.
        let last_row = (0..rows).map(|row| self.left_row(row)).max().unwrap_or(0);
        assert!(last_row + (self.depth - 1) * left_column < self.left.len());
        let last_vector = (columns / VECTOR - 1) * right_vector;
        assert!(last_vector + (self.depth - 1) * right_row + VECTOR <= self.right.len());
        assert!((rows - 1) * self.output_step + columns <= self.output.len());
        for vector in 0..columns / VECTOR {
            for row in (0..rows).step_by(R) {
                let mut sums = [[simd.splat_f32s(0.0); V]; R];
                let (left, right) = (self.left_row(row), vector * right_vector);
                for depth in 0..self.depth {
                    let (left, right) = (left + depth * left_column, right + depth * right_row);
                    // SAFETY: a row of the right matrix has a vector here, by the assertions.
                    let vectors: [S::f32s; V] = std::array::from_fn(|v| unsafe {
                        let from = self.right.as_ptr().add(right);
                        from.cast::<S::f32s>().add(v).read_unaligned()
                    });
                    for (r, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: the left matrix has this row and column, by the assertions.
                        let factor = unsafe { *self.left.get_unchecked(left + r * left_row) };
                        let factor = simd.splat_f32s(factor);
                        for (sum, vector) in sums.iter_mut().zip(vectors) {
                            *sum = simd.mul_add_f32s(factor, vector, *sum);
                        }
                    }
                }
                for (r, sums) in sums.iter().enumerate() {
                    let place = (row + r) * self.output_step + vector * VECTOR;
                    let (to, _) = S::as_mut_simd_f32s(&mut self.output[place..][..VECTOR]);
                    for (to, sum) in to.iter_mut().zip(sums) {
                        *to = match self.adds {
                            true => simd.add_f32s(*sum, *to),
                            false => *sum,
                        };
                    }
                }
            }
        }
    }
}
