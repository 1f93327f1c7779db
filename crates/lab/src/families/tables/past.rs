//! The last values of a column, back to the one from which the next change is measured.

use std::collections::VecDeque;

/// The last values of a column, as many as its change is steps long, the oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// NaN where nothing was observed.
    values: VecDeque<f64>,
    /// There the value as many steps earlier; NaN before the first one.
    bases: VecDeque<f64>,
}

impl Past {
    /// Before the first step, for changes over `lag` steps.
    pub fn new(lag: usize) -> Self {
        let nothing: VecDeque<f64> = std::iter::repeat_n(f64::NAN, lag).collect();
        Self {
            values: nothing.clone(),
            bases: nothing,
        }
    }

    /// After these values.
    pub fn after(values: &[f64], lag: usize) -> Self {
        let mut past = Self::new(lag);
        values.iter().for_each(|value| past.push(*value));
        past
    }

    /// Goes on to the next step, whose value is NaN if nothing was observed.
    pub fn push(&mut self, value: f64) {
        self.values.pop_front();
        self.values.push_back(value);
        let before = self.bases.pop_front().unwrap_or(f64::NAN);
        self.bases
            .push_back(if value.is_nan() { before } else { value });
    }

    /// The value from which the next step's change is measured; NaN if it was not observed.
    pub fn from(&self) -> f64 {
        self.values.front().copied().unwrap_or(f64::NAN)
    }

    /// The value to which the change that was drawn for a step is added, `ahead` steps after the next one and fewer than a
    /// change is long: if that was not observed the one as many steps before it, else the last one, else 0.
    pub fn base(&self, ahead: usize) -> f64 {
        let first = self.bases.get(ahead).into_iter();
        let mut found = first.chain(self.bases.iter().rev());
        found.find(|value| !value.is_nan()).copied().unwrap_or(0.0)
    }

    /// All that is kept, as numbers: values, and what stands for those that were not observed.
    pub fn save(&self) -> [impl Iterator<Item = f64> + '_; 2] {
        [&self.values, &self.bases].map(|all| all.iter().copied())
    }

    /// From what [`save`](Self::save) gave.
    pub fn saved(values: &[f64], bases: &[f64]) -> Self {
        let [values, bases] = [values, bases].map(|all| all.iter().copied().collect());
        Self { values, bases }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_measured_from_a_season_ago() {
        let mut past = Past::after(&[1.0, 2.0, f64::NAN, 4.0], 3);
        assert_eq!((past.from(), past.base(0)), (2.0, 2.0));
        assert_eq!(past.base(2), 4.0);
        past.push(f64::NAN);
        // Neither the season before was observed nor the one before that: the last value stands in.
        assert!(past.from().is_nan());
        assert_eq!(past.base(0), 2.0);
        past.push(f64::NAN);
        past.push(7.0);
        // The season before was not observed: the one before that stands in.
        assert!(past.from().is_nan());
        assert_eq!(past.base(0), 2.0);
        let [values, bases] = past.save().map(Vec::from_iter);
        let back = Past::saved(&values, &bases);
        assert_eq!(format!("{back:?}"), format!("{past:?}"));
        let fresh = Past::new(1);
        assert!(fresh.from().is_nan());
        assert_eq!(fresh.base(0), 0.0);
    }
}
