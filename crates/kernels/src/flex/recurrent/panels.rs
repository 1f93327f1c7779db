//! Products of a few rows with a fixed matrix, as in the steps of a time loop.
//!
//! A general matrix product packs its matrix at every call, which for a few rows is most of the work. Here the
//! matrix is packed once, into panels of a few columns each that are read from beginning to end.

#![allow(unsafe_code)]

use crate::flex::simd::run_vectors;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// Columns of a panel; a multiple of two vectors on any machine.
const PANEL: usize = 32;
/// The most rows that are processed together.
const ROWS: usize = 12;

/// A matrix `[depth, width]` in panels.
#[derive(Clone, Debug)]
pub(crate) struct Panels {
    depth: usize,
    width: usize,
    /// `[panels, depth, PANEL]`, zero after the last column.
    values: Vec<f32>,
}

impl Panels {
    /// Packs matrices `[.., width]`, stacked vertically.
    pub(crate) fn stacked(parts: &[&[f32]], width: usize) -> Self {
        let depth: usize = parts.iter().map(|part| part.len() / width).sum();
        let mut values = vec![0.0; width.div_ceil(PANEL) * depth * PANEL];
        let panels = values.par_chunks_exact_mut((depth * PANEL).max(1));
        panels.enumerate().for_each(|(index, panel)| {
            let rows = parts.iter().flat_map(|part| part.chunks_exact(width));
            for (place, row) in panel.chunks_exact_mut(PANEL).zip(rows) {
                let columns = &row[index * PANEL..width.min((index + 1) * PANEL)];
                place[..columns.len()].copy_from_slice(columns);
            }
        });
        Self {
            depth,
            width,
            values,
        }
    }

    /// Packs the transpose of a matrix `[width, depth]`.
    pub(crate) fn transposed(matrix: &[f32], depth: usize) -> Self {
        /// Elements of a row that are copied together.
        const BLOCK: usize = 16;
        let width = matrix.len() / depth;
        let mut values = vec![0.0; width.div_ceil(PANEL) * depth * PANEL];
        let panels = values.par_chunks_exact_mut((depth * PANEL).max(1));
        let rows = matrix.par_chunks(depth * PANEL);
        panels.zip(rows).for_each(|(panel, rows)| {
            for (block, panel) in panel.chunks_mut(BLOCK * PANEL).enumerate() {
                for (column, row) in rows.chunks_exact(depth).enumerate() {
                    let row = &row[block * BLOCK..depth.min((block + 1) * BLOCK)];
                    for (place, value) in panel.chunks_exact_mut(PANEL).zip(row) {
                        place[column] = *value;
                    }
                }
            }
        });
        Self {
            depth,
            width,
            values,
        }
    }

    /// `rows [.., depth]` times the matrix: `[.., width]`.
    pub(crate) fn multiply(&self, rows: &[f32]) -> Vec<f32> {
        /// With fewer multiplications a second thread costs more than it saves.
        const SERIAL: usize = 1 << 22;
        let count = rows.len() / self.depth;
        let mut output = vec![0.0; count * self.width];
        let panels = self.width.div_ceil(PANEL);
        let threads = rayon::current_num_threads().min(panels);
        if threads < 2 || rows.len() * self.width < SERIAL {
            self.multiply_into(rows, &mut output);
            return output;
        }
        let share = panels.div_ceil(threads);
        // Columns of the output for each thread.
        let mut shares: Vec<Vec<&mut [f32]>> = (0..threads).map(|_| Vec::new()).collect();
        for row in output.chunks_exact_mut(self.width) {
            for (part, share) in row.chunks_mut(share * PANEL).zip(&mut shares) {
                share.push(part);
            }
        }
        let shares = shares.into_par_iter().enumerate();
        shares.for_each(|(index, mut parts)| {
            let panels = index * share..panels.min((index + 1) * share);
            self.multiply_panels(rows, panels, &mut parts);
        });
        output
    }

    /// The same product on one thread, written to `output`.
    pub(crate) fn multiply_into(&self, rows: &[f32], output: &mut [f32]) {
        let panels = self.width.div_ceil(PANEL);
        let mut parts: Vec<&mut [f32]> = output.chunks_exact_mut(self.width).collect();
        self.multiply_panels(rows, 0..panels, &mut parts);
    }

    /// The product with some of the panels; `output` holds their columns of each row.
    fn multiply_panels(&self, rows: &[f32], panels: Range<usize>, output: &mut [&mut [f32]]) {
        let size = self.depth * PANEL;
        run_vectors(Product {
            panels: &self.values[panels.start * size..panels.end * size],
            depth: self.depth,
            rows,
            output,
        });
    }
}

struct Product<'a, 'b> {
    /// `[panels, depth, PANEL]`
    panels: &'a [f32],
    depth: usize,
    /// `[rows, depth]`
    rows: &'a [f32],
    /// The columns of each row that belong to the panels.
    output: &'a mut [&'b mut [f32]],
}

impl WithSimd for Product<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let most = match S::F32_LANES {
            // Machines with 32 registers.
            16.. => ROWS,
            _ => ROWS / 2,
        };
        assert_eq!(self.rows.len(), self.output.len() * self.depth);
        // Equal shares of the rows rather than full shares and a remainder.
        let shares = self.output.len().div_ceil(most);
        let share = self.output.len().div_ceil(shares.max(1)).max(1);
        for (index, panel) in self.panels.chunks_exact(self.depth * PANEL).enumerate() {
            let rows = self.rows.chunks(share * self.depth);
            for (rows, output) in rows.zip(self.output.chunks_mut(share)) {
                let first = index * PANEL;
                macro_rules! multiply_rows {
                    ($($count:literal)+) => {
                        match output.len() {
                            $($count => multiply::<S, $count>(simd, panel, rows, output, first),)+
                            _ => unreachable!("shares have at most {ROWS} rows"),
                        }
                    };
                }
                multiply_rows!(1 2 3 4 5 6 7 8 9 10 11 12);
            }
        }
    }
}

/// One panel for `R` rows: computes the columns from `first` on.
#[inline(always)]
fn multiply<S: Simd, const R: usize>(
    simd: S,
    panel: &[f32],
    rows: &[f32],
    output: &mut [&mut [f32]],
    first: usize,
) {
    let lanes = S::F32_LANES;
    let group = 2 * lanes;
    let depth = panel.len() / PANEL;
    assert!(PANEL.is_multiple_of(group) && panel.len() == depth * PANEL);
    assert!(rows.len() == R * depth && output.len() == R);
    for start in (0..PANEL).step_by(group) {
        let mut sums = [[simd.splat_f32s(0.0); 2]; R];
        // SAFETY: a panel has `depth` rows of `PANEL` elements, of which two vectors from `start` on are read,
        // and `rows` holds `R` rows of `depth` elements, as asserted.
        unsafe {
            let (panel, rows) = (panel.as_ptr().add(start), rows.as_ptr());
            for step in 0..depth {
                let weights = panel.add(step * PANEL);
                let weights = [
                    weights.cast::<S::f32s>().read_unaligned(),
                    weights.add(lanes).cast::<S::f32s>().read_unaligned(),
                ];
                for (r, sums) in sums.iter_mut().enumerate() {
                    let factor = simd.splat_f32s(*rows.add(r * depth + step));
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum = simd.mul_add_f32s(factor, weights, *sum);
                    }
                }
            }
        }
        let first = first + start;
        for (sums, row) in sums.iter().zip(output.iter_mut()) {
            let sums: &[f32] = pulp::bytemuck::cast_slice(sums);
            let end = row.len().min(first + group);
            if first < end {
                row[first..end].copy_from_slice(&sums[..end - first]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers;

    #[test]
    fn products_are_those_of_the_definition() {
        // Every number of rows that is processed together, and larger numbers, which are split.
        let by_rows = (1..=26).map(|rows| [rows, 7, 67]);
        let shapes = [
            [1, 1, 1],
            [1, 1, 97],
            [13, 1, 1],
            [1, 101, 1],
            [11, 31, 33],
            [2, 3, 5],
            [5, 17, 32],
            [7, 33, 64],
            [13, 40, 31],
            [29, 9, 100],
            // Large enough for several threads.
            [10, 545, 1000],
        ];
        for [rows, depth, width] in by_rows.chain(shapes) {
            let left = numbers(rows * depth, 1);
            let matrix = numbers(depth * width, 2);
            let mut turned = vec![0.0; matrix.len()];
            for (i, value) in matrix.iter().enumerate() {
                turned[i % width * depth + i / width] = *value;
            }
            let (above, below) = matrix.split_at(depth / 2 * width);
            for panels in [
                Panels::stacked(&[&matrix], width),
                Panels::stacked(&[above, below], width),
                Panels::transposed(&turned, depth),
            ] {
                let found = panels.multiply(&left);
                assert_eq!(found.len(), rows * width);
                for (i, found) in found.iter().enumerate() {
                    let row = &left[i / width * depth..][..depth];
                    let column = matrix[i % width..].iter().step_by(width);
                    let expected: f64 = row
                        .iter()
                        .zip(column)
                        .map(|(a, b)| f64::from(*a) * f64::from(*b))
                        .sum();
                    assert!(
                        (f64::from(*found) - expected).abs() < 1e-4,
                        "{rows} rows, {depth} by {width}: {found} {expected}"
                    );
                }
            }
        }
    }
}
