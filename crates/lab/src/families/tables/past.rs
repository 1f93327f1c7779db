//! The last values of a column, back to the one from which the next change is measured.

use std::collections::VecDeque;

/// The last values of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// As many as the change is steps long, the oldest first; NaN where nothing was observed.
    values: VecDeque<f64>,
    /// The last observed one, NaN before it.
    observed: f64,
}

impl Past {
    /// Before the first step, for changes over `lag` steps.
    pub fn new(lag: usize) -> Self {
        Self {
            values: std::iter::repeat_n(f64::NAN, lag).collect(),
            observed: f64::NAN,
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
        if !value.is_nan() {
            self.observed = value;
        }
    }

    /// The value from which the next step's change is measured; NaN if it was not observed.
    pub fn from(&self) -> f64 {
        self.values.front().copied().unwrap_or(f64::NAN)
    }

    /// The value to which a change that was drawn is added: if it was not observed the last one that was, and 0 without any.
    pub fn base(&self) -> f64 {
        let found = [self.from(), self.observed].into_iter();
        { found }.find(|value| !value.is_nan()).unwrap_or(0.0)
    }

    /// All that is kept, as numbers.
    pub fn save(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().copied()
    }

    /// The last observed value, NaN before it.
    pub fn observed(&self) -> f64 {
        self.observed
    }

    /// From what [`save`](Self::save) and [`observed`](Self::observed) gave.
    pub fn saved(values: &[f64], observed: f64) -> Self {
        Self {
            values: values.iter().copied().collect(),
            observed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_measured_from_a_season_ago() {
        let mut past = Past::after(&[1.0, 2.0, f64::NAN, 4.0], 3);
        assert_eq!((past.from(), past.base()), (2.0, 2.0));
        past.push(f64::NAN);
        // The season before was not observed: the last value stands in.
        assert!(past.from().is_nan());
        assert_eq!(past.base(), 4.0);
        let saved: Vec<f64> = past.save().collect();
        let back = Past::saved(&saved, past.observed());
        assert_eq!(format!("{back:?}"), format!("{past:?}"));
        let fresh = Past::new(1);
        assert!(fresh.from().is_nan());
        assert_eq!(fresh.base(), 0.0);
    }
}
