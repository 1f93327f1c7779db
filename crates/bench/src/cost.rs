//! Lower bounds on the cost of a piece of work: floating-point operations and memory traffic.

use std::ops::{Add, Mul};

/// The operations that must be done, and the bytes that must be read from or written to memory.
///
/// The multiplications and additions of matrix products and convolutions are counted, as two operations;
/// elementwise work is not. Bytes are those of each input, result and gradient, counted once, in 32-bit floats;
/// intermediate values are not counted. Both are lower bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes.
    pub bytes: f64,
}

impl Cost {
    /// Reading or writing an array of 32-bit floats once.
    pub fn array(elements: usize) -> Self {
        Self {
            flops: 0.0,
            bytes: 4.0 * elements as f64,
        }
    }

    /// The operations of a matrix product, `[rows, inner]` by `[inner, columns]`.
    pub fn product(rows: usize, inner: usize, columns: usize) -> Self {
        Self {
            flops: 2.0 * rows as f64 * inner as f64 * columns as f64,
            bytes: 0.0,
        }
    }

    /// The operations of a convolution with `kernel * kernel` weights for each pair of channels, at `pixels`
    /// places: those of the output, or of the input if it is transposed.
    pub fn convolution(inputs: usize, outputs: usize, kernel: usize, pixels: usize) -> Self {
        Self::product(pixels, kernel * kernel * inputs, outputs)
    }

    /// Products forward and backward to both factors: three times the operations.
    pub fn with_backward(self) -> Self {
        self * 3.0
    }

    /// Products forward and backward to one of two factors; the other is data.
    pub fn with_backward_to_weights(self) -> Self {
        self * 2.0
    }

    /// The minimum number of milliseconds on a machine that does `flops` operations and moves `bytes` bytes per
    /// second.
    pub fn milliseconds(self, flops: f64, bytes: f64) -> f64 {
        1e3 * (self.flops / flops).max(self.bytes / bytes)
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            flops: self.flops + other.flops,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Mul<f64> for Cost {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self {
            flops: self.flops * factor,
            bytes: self.bytes * factor,
        }
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_convolutions_count_two_operations_a_weight() {
        assert_eq!(Cost::product(2, 3, 5).flops, 60.0);
        // Eight 7 x 7 kernels over three channels, at 100 pixels.
        let convolution = Cost::convolution(3, 8, 7, 100);
        assert_eq!(convolution.flops, 2.0 * 49.0 * 3.0 * 8.0 * 100.0);
        assert_eq!(convolution.with_backward().flops, 3.0 * convolution.flops);
    }

    #[test]
    fn the_slower_of_the_two_limits_counts() {
        let cost = Cost::product(10, 10, 10) + Cost::array(100);
        assert_eq!(cost.milliseconds(2e3, 400.0), 1e3);
        assert_eq!(cost.milliseconds(2e3, 40.0), 1e4);
    }
}
