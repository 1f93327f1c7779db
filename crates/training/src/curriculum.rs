//! A curriculum: training moves to a harder stage when the current one is learned.

use crate::{Error, Snapshot};
use std::{collections::BTreeMap, path::Path};

/// Checkpoint counter: the stage.
const STAGE: &str = "curriculum stage";
/// Checkpoint counter: the moving accuracy.
const ACCURACY: &str = "curriculum accuracy";
/// Weight of the newest batch in the moving accuracy.
const NEWEST: f32 = 0.05;

/// The stages of a training, counted from 1. Training moves to the next stage when the moving accuracy reaches a
/// threshold; the moving accuracy starts at 0 in each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Stages {
    stage: usize,
    moving_accuracy: f32,
    count: usize,
    admit_at: f32,
}

impl Stages {
    /// `count` stages, starting at the first.
    pub fn new(count: usize, admit_at: f64) -> Self {
        Self {
            stage: 1,
            moving_accuracy: 0.0,
            count,
            admit_at: admit_at as f32,
        }
    }

    /// The current stage.
    pub fn stage(&self) -> usize {
        self.stage
    }

    /// Updates the moving accuracy with that of a batch.
    pub fn observe(&mut self, accuracy: f32) {
        self.moving_accuracy += NEWEST * (accuracy - self.moving_accuracy);
        if self.moving_accuracy >= self.admit_at && self.stage < self.count {
            self.stage += 1;
            self.moving_accuracy = 0.0;
        }
    }

    /// Adds its state to the counters of a checkpoint.
    pub fn save(&self, counters: &mut BTreeMap<String, f64>) {
        counters.insert(STAGE.into(), self.stage as f64);
        counters.insert(ACCURACY.into(), self.moving_accuracy.into());
    }

    /// Restores the state written by [`save`](Self::save).
    ///
    /// # Errors
    /// If the state is missing, or is not a stage of this curriculum.
    pub fn restore(&mut self, from: &Snapshot, path: &Path) -> Result<(), Error> {
        let stage = from.counter(STAGE, path)?;
        let accuracy = from.counter(ACCURACY, path)? as f32;
        if !(1..=self.count).any(|own| own as f64 == stage) || !accuracy.is_finite() {
            return Err(Error::WrongWeights {
                path: path.to_owned(),
                problem: format!(
                    "its '{STAGE}' is {stage} and its '{ACCURACY}' {accuracy}, in a training of {} stages",
                    self.count
                ),
            });
        }
        self.stage = stage as usize;
        self.moving_accuracy = accuracy;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stage_is_admitted_after_another() {
        let mut stages = Stages::new(3, 0.5);
        let mut seen = Vec::new();
        for _ in 0..60 {
            seen.push(stages.stage());
            stages.observe(1.0);
        }
        // 1 - 0.95^14 is the first of these above one half.
        let expected = [vec![1; 14], vec![2; 14], vec![3; 32]].concat();
        assert_eq!(seen, expected);
        let mut again = Stages::new(3, 0.5);
        let mut snapshot = Snapshot::default();
        stages.save(&mut snapshot.counters);
        let path = Path::new("test");
        again.restore(&snapshot, path).unwrap();
        assert_eq!(again, stages);
        for (stage, accuracy) in [(4.0, 0.5), (0.0, 0.5), (1.5, 0.5), (1.0, f64::NAN)] {
            snapshot.counters.insert(STAGE.into(), stage);
            snapshot.counters.insert(ACCURACY.into(), accuracy);
            let error = again.restore(&snapshot, path).unwrap_err();
            assert!(error.to_string().contains(STAGE), "{error}");
        }
        let error = again.restore(&Snapshot::default(), path).unwrap_err();
        assert!(error.to_string().contains(STAGE), "{error}");
    }
}
