//! The points of a tile: convolutions of 2x2 or 3x3 weights and stride 1 as products of numbers (Winograd's method, after
//! Lavin and Gray 2016).
//!
//! A tile of coarse pixels, 5x5 for 2x2 weights and 4x4 for 3x3 weights, reads 6x6 fine ones. Along an axis, the coarse
//! pixels
//!
//! ```text
//! y_i = sum_k g_k d_{i+k}
//! ```
//!
//! are coefficients of a product of polynomials, which its values at six points tell, here 0, 1, -1, 2, -1/2 and infinity
//! (of five points with small numbers those that round least):
//!
//! ```text
//! y = A^T ((G g) * (B^T d))                       * is a product of numbers
//! ```
//!
//! `B` is the same for both. Both axes together need 36 products in place of 100 or 144. The gradient of the weights uses
//! the transposes of these maps.

use crate::flex::dense::vectors::VECTOR;
use pulp::Simd;

/// Rows and columns of the pixels that a tile reads.
pub(super) const READ: usize = 6;
/// Products of a tile.
pub(super) const POINTS: usize = READ * READ;
/// The points that are neither 0 nor infinity, and the factors of `G`.
const FINITE: [f32; READ - 2] = [1.0, -1.0, 2.0, -0.5];
const FACTORS: [f32; READ - 2] = [-1.0 / 3.0, 1.0 / 3.0, 1.0 / 15.0, -16.0 / 15.0];

/// Channels that are worked on together.
pub(super) type Lanes = [f32; VECTOR];

/// A linear map of `N` numbers along an axis to `M`.
pub(super) trait Along<const N: usize, const M: usize> {
    const MATRIX: [[f32; N]; M];
}

/// `G g`
pub(super) struct OfWeights;

impl<const K: usize> Along<K, READ> for OfWeights {
    const MATRIX: [[f32; K]; READ] = {
        let mut matrix = values();
        let mut point = 0;
        while point < FINITE.len() {
            let mut power = 0;
            while power < K {
                matrix[point + 1][power] *= FACTORS[point];
                power += 1;
            }
            point += 1;
        }
        matrix
    };
}

/// The transpose of [`OfWeights`].
pub(super) struct ToWeights;

impl<const K: usize> Along<READ, K> for ToWeights {
    const MATRIX: [[f32; READ]; K] = transposed(OfWeights::MATRIX);
}

/// `B^T d`
pub(super) struct OfFine;

impl Along<READ, READ> for OfFine {
    const MATRIX: [[f32; READ]; READ] = [
        [1.0, 1.5, -2.0, -1.5, 1.0, 0.0],
        [0.0, -1.0, -2.5, -0.5, 1.0, 0.0],
        [0.0, 1.0, 0.5, -2.5, 1.0, 0.0],
        [0.0, -0.5, -1.0, 0.5, 1.0, 0.0],
        [0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
        [0.0, 1.0, 1.5, -2.0, -1.5, 1.0],
    ];
}

/// `A^T m`
pub(super) struct ToCoarse;

impl<const T: usize> Along<READ, T> for ToCoarse {
    const MATRIX: [[f32; READ]; T] = transposed(values());
}

/// The transpose of [`ToCoarse`].
pub(super) struct OfCoarse;

impl<const T: usize> Along<T, READ> for OfCoarse {
    const MATRIX: [[f32; T]; READ] = values();
}

/// The values of a polynomial at the points, from its `N` coefficients.
const fn values<const N: usize>() -> [[f32; N]; READ] {
    let mut matrix = [[0.0; N]; READ];
    matrix[0][0] = 1.0;
    matrix[READ - 1][N - 1] = 1.0;
    let mut point = 0;
    while point < FINITE.len() {
        let mut value = 1.0;
        let mut power = 0;
        while power < N {
            matrix[point + 1][power] = value;
            value *= FINITE[point];
            power += 1;
        }
        point += 1;
    }
    matrix
}

const fn transposed<const N: usize, const M: usize>(matrix: [[f32; N]; M]) -> [[f32; M]; N] {
    let mut turned = [[0.0; M]; N];
    let mut row = 0;
    while row < M {
        let mut column = 0;
        while column < N {
            turned[column][row] = matrix[row][column];
            column += 1;
        }
        row += 1;
    }
    turned
}

/// Room for a map of squares of pixels, which is used again for each: to fill it with zeros costs as much as the map.
pub(super) struct Mapped<const N: usize, const M: usize> {
    pub(super) from: [[Lanes; N]; N],
    half: [[Lanes; N]; M],
    pub(super) to: [[Lanes; M]; M],
}

impl<const N: usize, const M: usize> Mapped<N, M> {
    pub(super) fn new() -> Self {
        Self {
            from: [[[0.0; VECTOR]; N]; N],
            half: [[[0.0; VECTOR]; N]; M],
            to: [[[0.0; VECTOR]; M]; M],
        }
    }

    /// Writes to `to` what a linear map along both axes, first of the columns, then of the rows, makes of `from`.
    #[inline(always)]
    pub(super) fn map<S: Simd, A: Along<N, M>>(&mut self, simd: S) {
        for x in 0..N {
            for part in 0..VECTOR / S::F32_LANES {
                let mut values = [simd.splat_f32s(0.0); N];
                for (value, row) in values.iter_mut().zip(&self.from) {
                    *value = vectors::<S>(&row[x])[part];
                }
                for (half, value) in self.half.iter_mut().zip(along::<S, N, M, A>(simd, values)) {
                    vectors_mut::<S>(&mut half[x])[part] = value;
                }
            }
        }
        for (to, half) in self.to.iter_mut().zip(&self.half) {
            for part in 0..VECTOR / S::F32_LANES {
                let mut values = [simd.splat_f32s(0.0); N];
                for (value, lanes) in values.iter_mut().zip(half) {
                    *value = vectors::<S>(lanes)[part];
                }
                for (to, value) in to.iter_mut().zip(along::<S, N, M, A>(simd, values)) {
                    vectors_mut::<S>(to)[part] = value;
                }
            }
        }
    }
}

/// A map of vectors.
#[inline(always)]
fn along<S: Simd, const N: usize, const M: usize, A: Along<N, M>>(
    simd: S,
    values: [S::f32s; N],
) -> [S::f32s; M] {
    let mut sums = [simd.splat_f32s(0.0); M];
    for (sum, factors) in sums.iter_mut().zip(&A::MATRIX) {
        for (factor, value) in factors.iter().zip(values) {
            if *factor != 0.0 {
                *sum = simd.mul_add_f32s(simd.splat_f32s(*factor), value, *sum);
            }
        }
    }
    sums
}

#[inline(always)]
fn vectors<S: Simd>(lanes: &Lanes) -> &[S::f32s] {
    S::as_simd_f32s(lanes).0
}

#[inline(always)]
fn vectors_mut<S: Simd>(lanes: &mut Lanes) -> &mut [S::f32s] {
    S::as_mut_simd_f32s(lanes).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::WithSimd;

    fn numbers<const N: usize>(seed: usize) -> [f32; N] {
        std::array::from_fn(|index| ((7 * index + 3 * seed) % 11) as f32 / 4.0 - 1.0)
    }

    fn mapped<A: Along<N, M>, const N: usize, const M: usize>(_: A, values: [f32; N]) -> [f32; M] {
        A::MATRIX.map(|row| row.iter().zip(values).map(|(a, b)| a * b).sum())
    }

    /// For `K` weights and `T` coarse pixels.
    fn products_are_a_convolution<const K: usize, const T: usize>() {
        for seed in 0..11 {
            let (weights, fine) = (numbers::<K>(seed), numbers::<READ>(seed + 1));
            let (g, d) = (mapped(OfWeights, weights), mapped(OfFine, fine));
            let products = std::array::from_fn(|point| g[point] * d[point]);
            let coarse: [f32; T] = mapped(ToCoarse, products);
            for (i, found) in coarse.into_iter().enumerate() {
                let expected: f32 = (0..K).map(|tap| weights[tap] * fine[i + tap]).sum();
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
        }
    }

    #[test]
    fn products_of_points_are_convolutions() {
        products_are_a_convolution::<2, 5>();
        products_are_a_convolution::<3, 4>();
    }

    #[test]
    fn vectors_are_mapped_along_both_axes() {
        struct Work;
        impl WithSimd for Work {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let mut square = Mapped::<3, READ>::new();
                for (index, lanes) in square.from.as_flattened_mut().iter_mut().enumerate() {
                    *lanes = std::array::from_fn(|lane| numbers::<9>(lane)[index]);
                }
                square.map::<S, OfWeights>(simd);
                for lane in 0..VECTOR {
                    let [a, b, c] = square.from.map(|row| row.map(|lanes| lanes[lane]));
                    let rows = [a, b, c].map(|row| mapped(OfWeights, row));
                    for column in 0..READ {
                        let expected = mapped(OfWeights, rows.map(|row| row[column]));
                        for (row, expected) in expected.into_iter().enumerate() {
                            let found = square.to[row][column][lane];
                            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
                        }
                    }
                }
            }
        }
        crate::flex::simd::run_vectors(Work);
        Work.with_simd(pulp::Scalar::new());
    }
}
