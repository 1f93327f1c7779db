//! The last episodes that ended in a training, and their part of a checkpoint.

use mnemora_training::{Measures, arrays::Array};
use mnemora_worlds::Finished;
use std::collections::VecDeque;

/// Episodes whose mean is measured.
const COUNT: usize = 100;
/// Numbers of an episode in a checkpoint.
const NUMBERS: usize = 4;

/// The last episodes that ended, the oldest first.
pub(super) struct Recent(VecDeque<Episode>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Episode {
    total: f64,
    length: f64,
    /// `None` if the environment counts nothing.
    outcome: Option<f64>,
}

impl Episode {
    /// As a checkpoint holds it.
    fn numbers(&self) -> [f32; NUMBERS] {
        let counted = f32::from(u8::from(self.outcome.is_some()));
        let outcome = self.outcome.unwrap_or_default() as f32;
        [self.total as f32, self.length as f32, counted, outcome]
    }

    fn restored([total, length, counted, outcome]: &[f32; NUMBERS]) -> Self {
        Self {
            total: f64::from(*total),
            length: f64::from(*length),
            outcome: (*counted > 0.5).then_some(f64::from(*outcome)),
        }
    }
}

impl Recent {
    pub(super) fn new() -> Self {
        Self(VecDeque::with_capacity(COUNT))
    }

    /// Takes in an episode, rounded to what a checkpoint holds, so that a resumed run measures the same.
    pub(super) fn add(&mut self, finished: &Finished) {
        let episode = Episode {
            total: finished.total,
            length: finished.length as f64,
            outcome: finished.score.map(|(_, score)| score),
        };
        if self.0.len() == COUNT {
            self.0.pop_front();
        }
        self.0.push_back(Episode::restored(&episode.numbers()));
    }

    /// The mean of a number of the episodes that have it.
    fn mean(&self, number: impl Fn(&Episode) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().filter_map(number).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// What a training measures of episodes; nothing before the first one.
    pub(super) fn measured(&self) -> Measures {
        Measures::new()
            .with_some("return", self.mean(|episode| Some(episode.total)))
            .with_some("outcome", self.mean(|episode| episode.outcome))
            .with_some("length", self.mean(|episode| Some(episode.length)))
    }

    /// For a checkpoint, `[episodes, 4]`.
    pub(super) fn save(&self) -> Array {
        Array {
            shape: vec![self.0.len(), NUMBERS],
            values: self.0.iter().flat_map(Episode::numbers).collect(),
        }
    }

    /// What [`save`](Self::save) gave; empty without it.
    pub(super) fn restored(saved: Option<Array>) -> Self {
        let values = saved.map_or(Vec::new(), |array| array.values);
        let episodes = values.as_chunks::<NUMBERS>().0.iter();
        Self(episodes.map(Episode::restored).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hundred_count_and_a_checkpoint_keeps_them() {
        let mut recent = Recent::new();
        assert_eq!(recent.measured(), Measures::new());
        for number in 0..120 {
            recent.add(&Finished {
                index: 0,
                seed: 0,
                total: f64::from(number) + 0.1,
                length: 3,
                score: (number % 2 == 0).then_some(("solved", 1.0)),
            });
        }
        let measured = recent.measured();
        let total = measured.number("return").expect("a mean");
        assert!((total - 69.6).abs() < 1e-5, "{total}");
        assert_eq!(measured.number("outcome"), Some(1.0));
        assert_eq!(measured.number("length"), Some(3.0));
        let restored = Recent::restored(Some(recent.save()));
        assert_eq!(restored.0, recent.0);
        assert_eq!(Recent::restored(None).0.len(), 0);
    }
}
