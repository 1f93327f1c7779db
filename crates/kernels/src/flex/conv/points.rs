//! The points of a tile: convolutions of 3x3 weights and stride 1 as products of numbers (Winograd's method, after Lavin
//! and Gray 2016).
//!
//! A tile of 4x4 coarse pixels reads 6x6 fine ones. Along an axis, four coarse pixels
//!
//! ```text
//! y_i = g0 d_i + g1 d_{i+1} + g2 d_{i+2}          i = 0 .. 3
//! ```
//!
//! are coefficients of a product of polynomials, which its values at six points tell, here 0, 1, -1, 2, -1/2 and infinity
//! (of five points with small numbers those that round least):
//!
//! ```text
//! y = A^T ((G g) * (B^T d))                       * is a product of numbers
//! ```
//!
//! Both axes together need 36 products in place of 144. The gradient of the weights uses the transposes of these maps.

use crate::flex::dense::vectors::VECTOR;

/// Rows and columns of a tile of written pixels, and of the pixels that it reads.
pub(super) const TILE: usize = 4;
pub(super) const READ: usize = 6;
/// Products of a tile, and weights of a kernel.
pub(super) const POINTS: usize = READ * READ;
pub(super) const TAPS: usize = 9;

/// Channels that are worked on together.
pub(super) type Lanes = [f32; VECTOR];

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
    pub(super) fn map(&mut self, map: impl Fn([f32; N]) -> [f32; M]) {
        for x in 0..N {
            for lane in 0..VECTOR {
                let values = map(std::array::from_fn(|y| self.from[y][x][lane]));
                for (half, value) in self.half.iter_mut().zip(values) {
                    half[x][lane] = value;
                }
            }
        }
        for (to, half) in self.to.iter_mut().zip(&self.half) {
            for lane in 0..VECTOR {
                let values = map(std::array::from_fn(|x| half[x][lane]));
                for (to, value) in to.iter_mut().zip(values) {
                    to[lane] = value;
                }
            }
        }
    }
}

/// `G g`
#[inline(always)]
pub(super) fn of_weights([a, b, c]: [f32; 3]) -> [f32; READ] {
    const THIRD: f32 = 1.0 / 3.0;
    const FIFTEENTH: f32 = 1.0 / 15.0;
    [
        a,
        -THIRD * (a + b + c),
        THIRD * (a - b + c),
        FIFTEENTH * (a + 2.0 * b + 4.0 * c),
        FIFTEENTH * (-16.0 * a + 8.0 * b - 4.0 * c),
        c,
    ]
}

/// The transpose of [`of_weights`].
#[inline(always)]
pub(super) fn to_weights([a, b, c, d, e, f]: [f32; READ]) -> [f32; 3] {
    const THIRD: f32 = 1.0 / 3.0;
    const FIFTEENTH: f32 = 1.0 / 15.0;
    [
        a + THIRD * (c - b) + FIFTEENTH * (d - 16.0 * e),
        -THIRD * (b + c) + FIFTEENTH * (2.0 * d + 8.0 * e),
        f + THIRD * (c - b) + FIFTEENTH * (4.0 * d - 4.0 * e),
    ]
}

/// `B^T d`
#[inline(always)]
pub(super) fn of_fine([a, b, c, d, e, f]: [f32; READ]) -> [f32; READ] {
    [
        a + 1.5 * (b - d) - 2.0 * c + e,
        e - b - 2.5 * c - 0.5 * d,
        e + b + 0.5 * c - 2.5 * d,
        e - c + 0.5 * (d - b),
        e - c + 2.0 * (b - d),
        b + 1.5 * (c - e) - 2.0 * d + f,
    ]
}

/// `A^T m`
#[inline(always)]
pub(super) fn to_coarse([a, b, c, d, e, f]: [f32; READ]) -> [f32; TILE] {
    [
        a + b + c + d + e,
        b - c + 2.0 * d - 0.5 * e,
        b + c + 4.0 * d + 0.25 * e,
        b - c + 8.0 * d - 0.125 * e + f,
    ]
}

/// The transpose of [`to_coarse`].
#[inline(always)]
pub(super) fn of_coarse([a, b, c, d]: [f32; TILE]) -> [f32; READ] {
    [
        a,
        a + b + c + d,
        a - b + c - d,
        a + 2.0 * b + 4.0 * c + 8.0 * d,
        a - 0.5 * b + 0.25 * c - 0.125 * d,
        d,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<const N: usize>(seed: usize) -> [f32; N] {
        std::array::from_fn(|index| ((7 * index + 3 * seed) % 11) as f32 / 4.0 - 1.0)
    }

    fn dot<const N: usize>(a: [f32; N], b: [f32; N]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn products_of_points_are_a_convolution() {
        for seed in 0..11 {
            let (weights, fine) = (numbers::<3>(seed), numbers::<READ>(seed + 1));
            let (g, d) = (of_weights(weights), of_fine(fine));
            let coarse = to_coarse(std::array::from_fn(|point| g[point] * d[point]));
            for (i, found) in coarse.into_iter().enumerate() {
                let expected: f32 = (0..3).map(|tap| weights[tap] * fine[i + tap]).sum();
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
        }
    }

    #[test]
    fn maps_back_are_transposes() {
        for seed in 0..11 {
            let (points, weights) = (numbers::<READ>(seed), numbers::<3>(seed + 2));
            let [there, back] = [
                dot(of_weights(weights), points),
                dot(weights, to_weights(points)),
            ];
            assert!((there - back).abs() < 1e-5, "{there} {back}");
            let coarse = numbers::<TILE>(seed + 5);
            let [there, back] = [
                dot(to_coarse(points), coarse),
                dot(points, of_coarse(coarse)),
            ];
            assert!((there - back).abs() < 1e-5, "{there} {back}");
        }
    }
}
