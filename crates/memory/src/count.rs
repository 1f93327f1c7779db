//! Counts that never overflow, to compute how large something would be before it is allocated.

use std::{
    iter::Sum,
    ops::{Add, Mul},
};

/// A count of numbers or bytes. A count that is too large saturates at the largest one, so that absurd sizes
/// still compare correctly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(u128);

impl Count {
    /// Zero.
    pub const NONE: Self = Self(0);

    /// The product of sizes.
    pub fn product(sizes: &[usize]) -> Self {
        sizes.iter().fold(Self(1), |all, size| all * *size)
    }

    /// The count as a number.
    pub fn get(self) -> u128 {
        self.0
    }

    /// The difference, or zero if `other` is larger.
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The quotient, rounded down. A divisor of zero counts as one.
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
