//! Matrix products that write their output only once.
//!
//! Burn's product fills the output with zeros and copies it before the result is written. For a large output of
//! small depth, such as the gradient of a layer's weights at one step of a batch, that takes longer than the
//! product itself.

#![allow(unsafe_code)]

use crate::flex::simd::{chunks::by_chunks, run_vectors};
use pulp::{Simd, WithSimd};

/// [`Outer`] multiplies a transpose with a matrix up to this depth.
const FEW: usize = 32;
/// Rows of the output that are processed together.
const ROWS: usize = 4;
/// Vectors of a row that are processed together.
const VECTORS: usize = 4;
/// Numbers of the output that [`Outer`] computes at a time.
const BLOCK: usize = 1 << 14;
/// Minimum number of multiplications for several threads.
const PARALLEL: usize = 1 << 23;

/// A matrix to be multiplied, stored row by row, which may be read as its transpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    /// Distance between stored rows.
    step: usize,
    turned: bool,
}

impl<'a> Matrix<'a> {
    /// # Panics
    /// If there are not `rows * columns` numbers.
    pub(crate) fn new(values: &'a [f32], [rows, columns]: [usize; 2]) -> Self {
        assert_eq!(values.len(), rows * columns, "size of the matrix");
        Self::spaced(values, [rows, columns], columns)
    }

    /// A matrix whose rows are `step` numbers apart.
    ///
    /// # Panics
    /// If rows overlap, or there are too few numbers.
    pub(crate) fn spaced(values: &'a [f32], [rows, columns]: [usize; 2], step: usize) -> Self {
        assert!(step >= columns, "rows of the matrix overlap");
        let least = rows.saturating_sub(1) * step + columns.min(rows * columns);
        assert!(values.len() >= least, "too few numbers for the matrix");
        Self {
            values: &values[..least],
            rows,
            columns,
            step,
            turned: false,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// The transpose.
    pub(crate) fn turned(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            turned: !self.turned,
            ..self
        }
    }

    /// Whether rows are stored without gaps.
    fn dense(&self) -> bool {
        self.step == if self.turned { self.rows } else { self.columns }
    }

    /// Distances between rows and between columns.
    fn strides(&self) -> [isize; 2] {
        match self.turned {
            false => [self.step as isize, 1],
            true => [1, self.step as isize],
        }
    }
}

/// `left right`, `[rows of left, columns of right]`, row by row.
///
/// # Panics
/// If the inner sizes differ.
pub(crate) fn numbers(left: Matrix<'_>, right: Matrix<'_>) -> Vec<f32> {
    assert_eq!(left.columns, right.rows, "inner sizes of the product");
    let lies = left.turned && !right.turned && left.dense() && right.dense();
    if lies && (1..=FEW).contains(&left.columns) {
        return outer(left, right);
    }
    general(None, left, right)
}

/// The same product, added to `below` if it is given.
///
/// # Panics
/// If the inner sizes differ, or `below` has another size.
pub(crate) fn numbers_on_top(
    below: Option<Vec<f32>>,
    left: Matrix<'_>,
    right: Matrix<'_>,
) -> Vec<f32> {
    assert_eq!(left.columns, right.rows, "inner sizes of the product");
    general(below, left, right)
}

fn general(below: Option<Vec<f32>>, left: Matrix<'_>, right: Matrix<'_>) -> Vec<f32> {
    let (rows, depth, columns) = (left.rows, left.columns, right.columns);
    let count = rows * columns;
    let adds = below.is_some();
    let mut output = below.unwrap_or_else(|| Vec::with_capacity(count));
    assert!(
        !adds || output.len() == count,
        "size of the numbers to add to"
    );
    let [left_row, left_column] = left.strides();
    let [right_row, right_column] = right.strides();
    let parallelism = match count * depth < PARALLEL {
        true => gemm::Parallelism::None,
        false => gemm::Parallelism::Rayon(0),
    };
    // SAFETY: both matrices have as many numbers as their sizes say, and the output has enough room. The output
    // is read only if it was filled; all of it is written, even if the depth is zero.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            depth,
            output.as_mut_ptr(),
            1,
            columns as isize,
            adds,
            left.values.as_ptr(),
            left_column,
            left_row,
            right.values.as_ptr(),
            right_column,
            right_row,
            if adds { 1.0 } else { 0.0 },
            1.0,
            false,
            false,
            false,
            parallelism,
        );
        output.set_len(count);
    }
    output
}

/// The product of the transpose of a matrix with few rows.
fn outer(left: Matrix<'_>, right: Matrix<'_>) -> Vec<f32> {
    let (rows, width) = (left.rows, right.columns);
    // The zeros of a few rows are still in a near cache when the rows are computed.
    let size = (BLOCK / width.max(1)).max(1).next_multiple_of(ROWS) * width;
    by_chunks(
        rows * width,
        size.max(1),
        || (),
        |(), index, chunk| {
            run_vectors(Outer {
                left: left.values,
                stride: left.rows,
                first: index * size / width,
                right: right.values,
                width,
                output: chunk,
            });
        },
    )
}

/// Some rows of the output: sums over the depth of an element of the left matrix times a row of the right one.
struct Outer<'a> {
    /// Rows of the transpose.
    left: &'a [f32],
    stride: usize,
    first: usize,
    /// `[depth, width]`
    right: &'a [f32],
    width: usize,
    /// `[rows, width]`
    output: &'a mut [f32],
}

impl WithSimd for Outer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let rows = self.output.len() / self.width.max(1);
        let mut row = 0;
        while row < rows {
            if row + ROWS <= rows {
                self.rows::<S, ROWS>(simd, row);
                row += ROWS;
            } else {
                self.rows::<S, 1>(simd, row);
                row += 1;
            }
        }
    }
}

impl Outer<'_> {
    /// `R` rows, starting at `row`.
    #[inline(always)]
    fn rows<S: Simd, const R: usize>(&mut self, simd: S, row: usize) {
        let wide = VECTORS * S::F32_LANES;
        let mut column = 0;
        while column + wide <= self.width {
            self.tile::<S, R, VECTORS>(simd, row, column);
            column += wide;
        }
        let vectors = (self.width - column) / S::F32_LANES;
        match vectors {
            3 => self.tile::<S, R, 3>(simd, row, column),
            2 => self.tile::<S, R, 2>(simd, row, column),
            1 => self.tile::<S, R, 1>(simd, row, column),
            _ => {}
        }
        column += vectors * S::F32_LANES;
        if column < self.width {
            self.rest::<S, R>(simd, row, column);
        }
    }

    /// The remaining columns of `R` rows, too few for a vector.
    #[inline(always)]
    fn rest<S: Simd, const R: usize>(&mut self, simd: S, row: usize, column: usize) {
        let mut sums = [simd.splat_f32s(0.0); R];
        let lefts = self.left.chunks_exact(self.stride);
        for (left, right) in lefts.zip(self.right.chunks_exact(self.width)) {
            let left = &left[self.first + row..][..R];
            let right = simd.partial_load_f32s(&right[column..]);
            for (sum, left) in sums.iter_mut().zip(left) {
                *sum = simd.mul_add_f32s(simd.splat_f32s(*left), right, *sum);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            let output = &mut self.output[(row + r) * self.width..][..self.width];
            simd.partial_store_f32s(&mut output[column..], sum);
        }
    }

    /// `V` vectors of `R` rows.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        row: usize,
        column: usize,
    ) {
        let count = V * S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        let lefts = self.left.chunks_exact(self.stride);
        for (left, right) in lefts.zip(self.right.chunks_exact(self.width)) {
            let left = &left[self.first + row..][..R];
            let right = S::as_simd_f32s(&right[column..][..count]).0;
            for (sums, left) in sums.iter_mut().zip(left) {
                let left = simd.splat_f32s(*left);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = simd.mul_add_f32s(left, *right, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let output = &mut self.output[(row + r) * self.width + column..][..count];
            S::as_mut_simd_f32s(output).0.copy_from_slice(sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers as random;

    fn definition(left: Matrix<'_>, right: Matrix<'_>) -> Vec<f64> {
        let at = |matrix: &Matrix<'_>, row: usize, column: usize| {
            let index = match matrix.turned {
                false => row * matrix.step + column,
                true => column * matrix.step + row,
            };
            f64::from(matrix.values[index])
        };
        let one = |place: usize| {
            let [row, column] = [place / right.columns, place % right.columns];
            let terms = (0..left.columns).map(|d| at(&left, row, d) * at(&right, d, column));
            terms.sum::<f64>()
        };
        (0..left.rows * right.columns).map(one).collect()
    }

    #[test]
    fn products_agree_with_the_definition() {
        // Few and many rows and vectors, with and without remainders; depths on both sides of `FEW`.
        for [rows, depth, columns] in [
            [1, 1, 1],
            [4, 1, 64],
            [7, 3, 70],
            [6, 5, 44],
            [9, 2, 60],
            [9, 16, 131],
            [130, 32, 67],
            [5, 33, 20],
            [40, 70, 33],
            [300, 20, 1500],
            // Rows longer than a block.
            [5, 3, BLOCK + 70],
            [210, 211, 212],
        ] {
            let left = random(rows * depth, 1);
            let right = random(depth * columns, 2);
            for [left_turned, right_turned] in
                [[false, false], [false, true], [true, false], [true, true]]
            {
                let matrix = |values, [rows, columns]: [usize; 2], turned| match turned {
                    false => Matrix::new(values, [rows, columns]),
                    true => Matrix::new(values, [columns, rows]).turned(),
                };
                let left = matrix(&left, [rows, depth], left_turned);
                let right = matrix(&right, [depth, columns], right_turned);
                let expected = definition(left, right);
                for (found, expected) in numbers(left, right).iter().zip(&expected) {
                    let error = (f64::from(*found) - expected).abs();
                    assert!(error < 1e-4, "{found} {expected}, {rows} {depth} {columns}");
                }
            }
        }
    }

    #[test]
    fn rows_may_lie_apart() {
        for [rows, depth, columns] in [[1, 1, 1], [4, 3, 5], [70, 16, 90]] {
            let left = random(rows * (depth + 3), 1);
            let right = random(depth * (columns + 2), 2);
            for turned in [false, true] {
                // No numbers are needed after the last row.
                let left = match turned {
                    false => Matrix::spaced(&left[..left.len() - 3], [rows, depth], depth + 3),
                    true => Matrix::spaced(&left, [depth, rows], rows).turned(),
                };
                let right = &right[..right.len() - 2];
                let right = Matrix::spaced(right, [depth, columns], columns + 2);
                let expected = definition(left, right);
                for (found, expected) in numbers(left, right).iter().zip(&expected) {
                    assert!((f64::from(*found) - expected).abs() < 1e-4);
                }
            }
        }
    }

    #[test]
    fn a_product_is_added_to_what_is_below() {
        for [rows, depth, columns] in [[1, 1, 1], [5, 0, 3], [40, 130, 33]] {
            let left = random(rows * depth, 1);
            let right = random(depth * columns, 2);
            let below = random(rows * columns, 3);
            let left = Matrix::new(&left, [rows, depth]);
            let right = Matrix::new(&right, [depth, columns]);
            let product = numbers_on_top(None, left, right);
            let sum = numbers_on_top(Some(below.clone()), left, right);
            for ((sum, below), product) in sum.iter().zip(below).zip(product) {
                assert!(
                    (sum - below - product).abs() < 1e-4,
                    "{rows} {depth} {columns}"
                );
            }
        }
    }

    #[test]
    fn nothing_is_left_unwritten_without_depth() {
        let empty = Matrix::new(&[], [3, 0]);
        assert_eq!(numbers(empty, Matrix::new(&[], [0, 5])), vec![0.0; 15]);
        assert_eq!(
            numbers(Matrix::new(&[], [0, 3]).turned(), Matrix::new(&[], [0, 5])),
            vec![0.0; 15]
        );
    }

    #[test]
    fn what_is_no_number_stays_none() {
        let (left, right) = (vec![0.0; 6], vec![f32::NAN; 10]);
        let [left, right] = [
            Matrix::new(&left, [2, 3]).turned(),
            Matrix::new(&right, [2, 5]),
        ];
        assert!(numbers(left, right).iter().all(|x| x.is_nan()));
    }
}
