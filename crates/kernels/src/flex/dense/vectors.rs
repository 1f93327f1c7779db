//! Products of matrices that lie in vectors of 16 numbers, small enough to stay in a cache, so that nothing is copied
//! before.

#![allow(unsafe_code)]

use pulp::{Simd, WithSimd};

/// Numbers of a vector.
pub(crate) const VECTOR: usize = 16;

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
    /// Rows, and columns, in whole vectors, of the output.
    pub(crate) size: [usize; 2],
    /// Whether the product is added to the output.
    pub(crate) adds: bool,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let [rows, columns] = self.size;
        assert!(columns % VECTOR == 0 && rows > 0 && columns > 0 && self.depth > 0);
        // The reads below are inside by these.
        let last_row = (0..rows).map(|row| self.left_row(row)).max().unwrap_or(0);
        assert!(last_row + (self.depth - 1) * self.left_steps[2] < self.left.len());
        let [right_vector, right_row] = self.right_steps;
        let last_vector = (columns / VECTOR - 1) * right_vector;
        assert!(last_vector + (self.depth - 1) * right_row + VECTOR <= self.right.len());
        let vectors = columns / VECTOR;
        let mut vector = 0;
        while vector < vectors {
            // A register holds 16, 8 or 4 numbers; as many rows are computed together as there are registers for sums.
            let row = &mut 0;
            match S::F32_LANES {
                16 if vector + 2 <= vectors => {
                    self.rows::<S, 12, 2, 1>(simd, row, vector);
                    self.rows::<S, 8, 2, 1>(simd, row, vector);
                    self.rows::<S, 4, 2, 1>(simd, row, vector);
                    self.rows::<S, 1, 2, 1>(simd, row, vector);
                    vector += 1;
                }
                16 => {
                    self.rows::<S, 12, 1, 1>(simd, row, vector);
                    self.rows::<S, 8, 1, 1>(simd, row, vector);
                    self.rows::<S, 4, 1, 1>(simd, row, vector);
                    self.rows::<S, 1, 1, 1>(simd, row, vector);
                }
                8 => {
                    self.rows::<S, 6, 1, 2>(simd, row, vector);
                    self.rows::<S, 4, 1, 2>(simd, row, vector);
                    self.rows::<S, 1, 1, 2>(simd, row, vector);
                }
                4 => {
                    self.rows::<S, 6, 1, 4>(simd, row, vector);
                    self.rows::<S, 2, 1, 4>(simd, row, vector);
                    self.rows::<S, 1, 1, 4>(simd, row, vector);
                }
                _ => self.rows::<S, 1, 1, VECTOR>(simd, row, vector),
            }
            vector += 1;
        }
    }
}

impl Product<'_> {
    /// Where a row of the left matrix begins.
    #[inline(always)]
    fn left_row(&self, row: usize) -> usize {
        row / VECTOR * self.left_steps[0] + row % VECTOR * self.left_steps[1]
    }

    /// Computes `C` vectors of columns of the next rows, `R` at a time, each vector in `V` registers, while there are as
    /// many.
    #[inline(always)]
    fn rows<S: Simd, const R: usize, const C: usize, const V: usize>(
        &mut self,
        simd: S,
        row: &mut usize,
        vector: usize,
    ) {
        assert!(V * S::F32_LANES == VECTOR && (vector + C) * VECTOR <= self.size[1]);
        let [right_vector, right_row] = self.right_steps;
        while *row + R <= self.size[0] {
            // A pointer for each row: of sums of indices the compiler makes vectors, and takes them apart again.
            // SAFETY: the left matrix has these rows, as was asserted.
            let left: [*const f32; R] =
                std::array::from_fn(|r| unsafe { self.left.as_ptr().add(self.left_row(*row + r)) });
            let mut sums = [[[simd.splat_f32s(0.0); V]; C]; R];
            for depth in 0..self.depth {
                let right = vector * right_vector + depth * right_row;
                let column = depth * self.left_steps[2];
                let vectors: [[S::f32s; V]; C] = std::array::from_fn(|c| {
                    // SAFETY: a row of the right matrix has a vector here, as was asserted.
                    std::array::from_fn(|v| unsafe {
                        let from = self.right.as_ptr().add(right + c * right_vector);
                        from.cast::<S::f32s>().add(v).read_unaligned()
                    })
                });
                for (sums, left) in sums.iter_mut().zip(left) {
                    // SAFETY: the left matrix has this row and column, as was asserted.
                    let factor = simd.splat_f32s(unsafe { *left.add(column) });
                    let sums = sums.as_flattened_mut().iter_mut();
                    for (sum, vector) in sums.zip(vectors.as_flattened()) {
                        *sum = simd.mul_add_f32s(factor, *vector, *sum);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                let place = (*row + r) * self.output_step + vector * VECTOR;
                let (to, _) = S::as_mut_simd_f32s(&mut self.output[place..][..C * VECTOR]);
                for (to, sum) in to.iter_mut().zip(sums.as_flattened()) {
                    *to = match self.adds {
                        true => simd.add_f32s(*sum, *to),
                        false => *sum,
                    };
                }
            }
            *row += R;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::numbers, flex::simd::run_vectors};

    #[test]
    fn products_are_sums_of_products() {
        let sizes = [
            (1, 1, 1),
            (5, 3, 1),
            (6, 7, 2),
            (11, 4, 3),
            (23, 9, 1),
            (33, 5, 2),
        ];
        for (rows, depth, vectors) in sizes {
            for (adds, turned) in [(false, false), (true, true)] {
                let columns = vectors * VECTOR;
                // Row by row with a gap, or in vectors of rows, column by column.
                let left_steps = match turned {
                    false => [VECTOR * (depth + 2), depth + 2, 1],
                    true => [depth * VECTOR, 1, VECTOR],
                };
                let at = |row, column| {
                    let [vector, of_row, of_column] = left_steps;
                    row / VECTOR * vector + row % VECTOR * of_row + column * of_column
                };
                let left = numbers(at(rows - 1, depth - 1) + 1, 1);
                let right = numbers(vectors * depth * VECTOR, 2);
                let before = numbers(rows * (columns + 3), 3);
                let mut outputs = [before.clone(), before.clone()];
                let products = outputs.each_mut().map(|output| Product {
                    left: &left,
                    left_steps,
                    right: &right,
                    right_steps: [depth * VECTOR, VECTOR],
                    depth,
                    output,
                    output_step: columns + 3,
                    size: [rows, columns],
                    adds,
                });
                // With the machine's vectors, and with none.
                let [vectors, none] = products;
                run_vectors(vectors);
                none.with_simd(pulp::Scalar::new());
                let both = outputs
                    .iter()
                    .flat_map(|output| output.iter().zip(&before).enumerate());
                for (place, (found, before)) in both {
                    let [row, column] = [place / (columns + 3), place % (columns + 3)];
                    let expected = match column < columns {
                        true => {
                            let factor =
                                |k| (column / VECTOR * depth + k) * VECTOR + column % VECTOR;
                            let product = |k| left[at(row, k)] * right[factor(k)];
                            let sum: f32 = (0..depth).map(product).sum();
                            if adds { *before + sum } else { sum }
                        }
                        // What lies between rows stays.
                        false => *before,
                    };
                    assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
                }
            }
        }
    }
}
