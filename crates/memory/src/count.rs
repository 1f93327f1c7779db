//! Counts of numbers that never overflow: how large something would be, before it is made.

use std::{
    iter::Sum,
    ops::{Add, Mul},
};

/// So many numbers, or bytes. What is too large to be counted stays at the largest count, so that absurd sizes
/// compare as what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(u128);

impl Count {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// The product of sizes.
    pub fn product(sizes: &[usize]) -> Self {
        sizes.iter().fold(Self(1), |all, size| all * *size)
    }

    /// As it is.
    pub fn get(self) -> u128 {
        self.0
    }

    /// Less another count, nothing if that is larger.
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Rounded down.
    pub fn divided_by(self, divisor: usize) -> Self {
        Self(self.0 / divisor.max(1) as u128)
    }
}

impl From<usize> for Count {
    fn from(count: usize) -> Self {
        Self(count as u128)
    }
}

impl Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Add<usize> for Count {
    type Output = Self;

    fn add(self, other: usize) -> Self {
        self + Self::from(other)
    }
}

impl Mul for Count {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self(self.0.saturating_mul(other.0))
    }
}

impl Mul<usize> for Count {
    type Output = Self;

    fn mul(self, other: usize) -> Self {
        self * Self::from(other)
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::NONE, |all, count| all + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overflows() {
        let large = Count::product(&[usize::MAX; 3]);
        assert_eq!(large, large + 1);
        assert_eq!(large, large * 2);
        assert!(Count::product(&[usize::MAX; 2]) < large);
        assert_eq!(Count::from(3).less(Count::from(5)), Count::NONE);
        assert_eq!(Count::product(&[2, 3, 4]).divided_by(5).get(), 4);
        assert_eq!(Count::product(&[]).get(), 1);
    }
}
