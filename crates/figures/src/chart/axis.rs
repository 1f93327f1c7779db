//! Axes: ranges and ticks.

use crate::number::{grouped, scientific};

/// An axis: the range of values it shows, and its ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    /// Ends of the axis; for a logarithmic axis, their logarithms to base ten.
    low: f64,
    high: f64,
    log: bool,
}

/// A tick and its label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Position on the axis: 0 is its start, 1 its end.
    pub place: f64,
    pub label: String,
}

/// Beyond this, sums and differences of values may overflow.
const LARGEST: f64 = 1e300;
/// More ticks than anyone needs; prevents endless ticks for a range at the limit of precision.
const MOST_TICKS: usize = 50;

impl Axis {
    /// An axis that shows all displayable values, extended at each end by `padding`, a fraction of the range.
    ///
    /// Without any values it runs from 0 to 1; a single value gets some room on both sides.
    pub fn fitting(values: impl Iterator<Item = f64>, log: bool, padding: f64) -> Self {
        let places = values.filter_map(|value| transformed(value, log));
        let (low, high) = places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| {
            (low.min(place), high.max(place))
        });
        if low > high {
            return Self {
                low: 0.0,
                high: 1.0,
                log,
            };
        }
        let span = high - low;
        let room = if span > low.abs().max(high.abs()) * 1e-9 {
            span * padding
        } else {
            // A small value does not vanish beside a room of 0.5.
            let most = if log || low == 0.0 {
                0.5
            } else {
                low.abs().min(1.0) * 0.5
            };
            (low.abs() * 0.05).max(most)
        };
        Self {
            low: low - room,
            high: high + room,
            log,
        }
    }

    /// An axis from `low` to `high`; `None` if that is not a valid range.
    pub fn between(low: f64, high: f64, log: bool) -> Option<Self> {
        let (low, high) = (transformed(low, log)?, transformed(high, log)?);
        (low < high).then_some(Self { low, high, log })
    }

    /// Position of a value: 0 at the start of the axis, 1 at its end; `None` if the value cannot be shown.
    pub fn place(&self, value: f64) -> Option<f64> {
        let place = (transformed(value, self.log)? - self.low) / (self.high - self.low);
        // Far outside, drawing coordinates would overflow.
        place.is_finite().then_some(place.clamp(-1e4, 1e4))
    }

    /// About `wanted` ticks or fewer; with `whole`, at whole numbers only.
    pub fn ticks(&self, wanted: f64, whole: bool) -> Vec<Tick> {
        if self.log && self.high - self.low >= 1.0 {
            return self.decade_ticks(wanted);
        }
        let (low, high) = if self.log {
            (10_f64.powf(self.low), 10_f64.powf(self.high))
        } else {
            (self.low, self.high)
        };
        let mut step = nice_step((high - low) / wanted.max(1.0), whole);
        if whole && high - low >= 1.0 {
            step = step.max(1.0);
        }
        let first = (low / step).ceil();
        (0..MOST_TICKS)
            .map(|index| (first + index as f64) * step)
            .take_while(|value| *value <= high)
            .filter_map(|value| {
                Some(Tick {
                    place: self.place(value)?,
                    label: tick_label(value, step),
                })
            })
            .collect()
    }

    fn decade_ticks(&self, wanted: f64) -> Vec<Tick> {
        let (first, last) = (self.low.ceil(), self.high.floor());
        let every = ((last - first + 1.0) / wanted.max(1.0)).ceil().max(1.0);
        (0..MOST_TICKS)
            .map(|index| first + index as f64 * every)
            .take_while(|exponent| *exponent <= last)
            .filter_map(|exponent| {
                let value = 10_f64.powf(exponent);
                Some(Tick {
                    place: self.place(value)?,
                    label: tick_label(value, value),
                })
            })
            .collect()
    }
}

fn transformed(value: f64, log: bool) -> Option<f64> {
    if log {
        (value.is_finite() && value > 0.0).then(|| value.log10())
    } else {
        (value.abs() <= LARGEST).then_some(value)
    }
}

/// The next larger of 1, 2, 2.5, 5 times a power of ten; with `whole`, 2.5 itself is left out.
fn nice_step(least: f64, whole: bool) -> f64 {
    if !(least.is_finite() && least > f64::MIN_POSITIVE) {
        return f64::MIN_POSITIVE;
    }
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|multiple| multiple * decade)
        .find(|step| *step >= least * 0.999 && !(whole && *step > 1.0 && step.fract() != 0.0))
        .unwrap_or(10.0 * decade)
}

/// The value of a tick, with enough decimals to distinguish it from its neighbours.
fn tick_label(value: f64, step: f64) -> String {
    if value.abs() < step * 1e-6 {
        return "0".to_owned();
    }
    let largest = value.abs().max(step);
    if largest >= 1e9 || step < 1e-4 {
        let digits = value.abs().log10().floor() - step.log10().floor() + 1.0;
        return scientific(value, digits.clamp(0.0, 6.0) as usize);
    }
    for (unit, least_step, suffix) in [(1e6, 1e5, "M"), (1e3, 1e4, "k")] {
        if step >= least_step && largest >= unit {
            return grouped(value / unit, decimals(step / unit)) + suffix;
        }
    }
    grouped(value, decimals(step))
}

/// Number of decimals needed to write a step in full, at most nine.
fn decimals(step: f64) -> usize {
    (0..9)
        .find(|&decimals| {
            let shifted = step * 10_f64.powi(decimals);
            (shifted - shifted.round()).abs() < 1e-6 * shifted && shifted > 0.5
        })
        .unwrap_or(9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, log: bool) -> Vec<String> {
        let axis = Axis::between(low, high, log).unwrap();
        axis.ticks(6.0, false)
            .into_iter()
            .map(|tick| tick.label)
            .collect()
    }

    #[test]
    fn a_single_small_value_can_be_read() {
        for value in [1e-4, -3e-7, 0.02] {
            let axis = Axis::fitting([value; 3].into_iter(), false, 0.1);
            let middle = axis.place(value).expect("it can be shown");
            assert!((middle - 0.5).abs() < 1e-9, "{value}: at {middle}");
            let place = axis.place(0.0).expect("it can be shown");
            assert!(!(0.0..=1.0).contains(&place), "{value}: 0 is at {place}");
            assert!(axis.ticks(5.0, false).len() >= 3, "{value}");
        }
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(0.0, 10.0, false), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(
            labels(-0.1, 0.35, false),
            ["-0.1", "0", "0.1", "0.2", "0.3"]
        );
        assert_eq!(
            labels(-1200.0, -200.0, false),
            ["-1,200", "-1,000", "-800", "-600", "-400", "-200"]
        );
        assert_eq!(
            labels(0.0, 100_000.0, false),
            ["0", "20k", "40k", "60k", "80k", "100k"]
        );
        assert_eq!(labels(0.0, 5e6, false), ["0", "1M", "2M", "3M", "4M", "5M"]);
        assert_eq!(
            labels(0.0, 2.6e6, false),
            ["0", "500k", "1.0M", "1.5M", "2.0M", "2.5M"]
        );
        assert_eq!(
            labels(0.0, 4e-6, false),
            ["0", "1e-6", "2e-6", "3e-6", "4e-6"]
        );
        assert_eq!(
            labels(-2500.0, -1200.0, false),
            ["-2,500", "-2,250", "-2,000", "-1,750", "-1,500", "-1,250"]
        );
        assert_eq!(
            labels(0.0, 1.4, false),
            ["0", "0.25", "0.50", "0.75", "1.00", "1.25"]
        );
        assert_eq!(
            labels(0.0, 14e6, false),
            ["0", "2.5M", "5.0M", "7.5M", "10.0M", "12.5M"]
        );
        assert_eq!(
            labels(0.01, 1000.0, true),
            ["0.01", "0.1", "1", "10", "100", "1,000"]
        );
    }

    #[test]
    fn ticks_lie_on_their_values() {
        let axis = Axis::between(0.0, 10.0, false).unwrap();
        assert_eq!(axis.ticks(2.0, false)[1].place, 0.5);
        let axis = Axis::between(1.0, 100.0, true).unwrap();
        assert_eq!(axis.place(10.0), Some(0.5));
        assert_eq!(axis.place(-1.0), None);
        let steps = Axis::between(1.0, 3.0, false).unwrap();
        assert_eq!(steps.ticks(8.0, true).len(), 3);
    }
}
