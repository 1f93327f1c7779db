//! Which steps are too surprising: a threshold with a stated rate of false alarms.

use crate::LabError;
use std::collections::VecDeque;

/// Steps that a new one is compared with, at most.
const LONGEST: usize = 5000;

/// Judges the surprise of steps by how many held-out and recent ones were at least as surprising.
///
/// If steps are exchangeable, the share of false alarms is at most the rate, whatever their distribution (Vovk et al. 2005).
/// Each step takes the place of the oldest one, alarm or not, so that the rate stays what it should be when the series changes
/// for good.
#[derive(Clone, Debug)]
pub struct Alarm {
    rate: f64,
    /// In their order.
    seen: VecDeque<f64>,
    sorted: Vec<f64>,
}

impl Alarm {
    /// From the surprise of held-out steps, in their order.
    ///
    /// # Errors
    /// There are too few of them for the rate.
    pub fn new(rate: f64, held_out: Vec<f64>) -> Result<Self, LabError> {
        let needed = (1.0 / rate).ceil() as usize - 1;
        if held_out.len() < needed {
            return Err(LabError::Configuration(format!(
                "--anomalies {rate} needs {needed} held-out steps to compare with, and the run's table has {}; the lowest rate \
                 for them is {:.3}",
                held_out.len(),
                1.0 / (held_out.len() + 1) as f64 + 5e-4
            )));
        }
        let mut alarm = Self {
            rate,
            seen: VecDeque::new(),
            sorted: Vec::new(),
        };
        alarm.go_on_from(held_out);
        Ok(alarm)
    }

    /// The share of clean steps that may raise an alarm.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The steps that a new one is compared with.
    pub fn seen(&self) -> Vec<f64> {
        self.seen.iter().copied().collect()
    }

    /// Compares with other steps from now on.
    pub fn go_on_from(&mut self, mut seen: Vec<f64>) {
        seen.drain(..seen.len().saturating_sub(LONGEST));
        self.sorted.clone_from(&seen);
        self.sorted.sort_by(f64::total_cmp);
        self.seen = seen.into();
    }

    /// The share of steps, the new one among them, that are at least as surprising. One of which all columns were observed
    /// is compared with from now on.
    pub fn judge(&mut self, surprise: f64, full: bool) -> f64 {
        let below = self.sorted.partition_point(|seen| *seen < surprise);
        let count = self.sorted.len();
        let p = (1 + count - below) as f64 / (1 + count) as f64;
        if full {
            self.sorted.insert(below, surprise);
            self.seen.push_back(surprise);
            if self.seen.len() > LONGEST {
                let oldest = self.seen.pop_front();
                let place = oldest.map(|oldest| self.sorted.partition_point(|s| *s < oldest));
                place.map(|place| self.sorted.remove(place));
            }
        }
        p
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::Stream;

    #[test]
    fn false_alarms_come_at_the_stated_rate() {
        let draw = |stream: u64, count| -> Vec<f64> {
            let normal = Stream::new(stream, "surprise").standard_normal(0, count);
            normal.into_iter().map(|z| f64::from(z).exp()).collect()
        };
        let mut alarm = Alarm::new(0.01, draw(1, 1000)).unwrap();
        let alarms = draw(2, 10_000)
            .into_iter()
            .filter(|nats| alarm.judge(*nats, true) <= alarm.rate())
            .count();
        assert!((70..=140).contains(&alarms), "{alarms}");
        // After a change for good it is still that.
        let mut raised = [0; 3];
        for raised in &mut raised {
            let steps = draw(3, 5000).into_iter().map(|nats| nats + 20.0);
            *raised = steps
                .filter(|nats| alarm.judge(*nats, true) <= alarm.rate())
                .count();
        }
        assert!(raised[0] > 100 && raised[2] <= 80, "{raised:?}");
        let other = Alarm::new(0.01, draw(1, 50)).unwrap_err().to_string();
        assert!(other.contains("needs 99 held-out steps"), "{other}");
    }
}
