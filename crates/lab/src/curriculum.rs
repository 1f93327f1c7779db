//! A curriculum: training goes on to a harder stage when the one at hand is learned.

use crate::{
    LabError,
    weights::{Array, Arrays},
};
use std::path::Path;

/// What a curriculum's state is called in a checkpoint.
const NAME: &str = "curriculum";
/// Share of the newest batch in the moving accuracy.
const NEWEST: f32 = 0.05;

/// The stages of a training, counted from 1: the first to begin with, then the next whenever the moving
/// accuracy is that at which it is to be admitted. The moving accuracy begins at 0 with each stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stages {
    stage: usize,
    moving_accuracy: f32,
    count: usize,
    admit_at: f32,
}

impl Stages {
    /// So many stages, at the first.
    pub fn new(count: usize, admit_at: f64) -> Self {
        Self {
            stage: 1,
            moving_accuracy: 0.0,
            count,
            admit_at: admit_at as f32,
        }
    }

    /// Where training stands.
    pub fn stage(&self) -> usize {
        self.stage
    }

    /// Takes in the accuracy on a batch.
    pub fn observe(&mut self, accuracy: f32) {
        self.moving_accuracy += NEWEST * (accuracy - self.moving_accuracy);
        if self.moving_accuracy >= self.admit_at && self.stage < self.count {
            self.stage += 1;
            self.moving_accuracy = 0.0;
        }
    }

    /// Puts its state among the arrays of the optimiser.
    pub fn add_to(&self, optimizer: &mut Arrays) {
        let state = Array {
            shape: vec![2],
            values: vec![self.stage as f32, self.moving_accuracy],
        };
        optimizer.insert(NAME.into(), state);
    }

    /// Takes the state that [`add_to`](Self::add_to) put there out again.
    ///
    /// # Errors
    /// There is none, or it is not one of so many stages.
    pub fn restore(&mut self, optimizer: &mut Arrays, path: &Path) -> Result<(), LabError> {
        let values = optimizer.remove(NAME).map(|array| array.values);
        match values.as_deref() {
            Some(&[stage, accuracy])
                if (1..=self.count).contains(&(stage as usize)) && accuracy.is_finite() =>
            {
                self.stage = stage as usize;
                self.moving_accuracy = accuracy;
                Ok(())
            }
            _ => Err(LabError::WrongWeights {
                path: path.to_owned(),
                problem: format!(
                    "its optimiser's state has no '{NAME}' of {} stages",
                    self.count
                ),
            }),
        }
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
        // 1 - 0.95^14 is the first of these beyond a half.
        let expected = [vec![1; 14], vec![2; 14], vec![3; 32]].concat();
        assert_eq!(seen, expected);
        let mut again = Stages::new(3, 0.5);
        let mut arrays = Arrays::new();
        stages.add_to(&mut arrays);
        again.restore(&mut arrays, Path::new("test")).unwrap();
        assert_eq!((again.clone(), arrays.len()), (stages, 0));
        for state in [
            None,
            Some(vec![4.0, 0.5]),
            Some(vec![0.0, 0.5]),
            Some(vec![1.0]),
            Some(vec![1.0, f32::NAN]),
        ] {
            let mut arrays = Arrays::new();
            if let Some(values) = state {
                let shape = vec![values.len()];
                arrays.insert(NAME.into(), Array { shape, values });
            }
            let error = again.restore(&mut arrays, Path::new("test")).unwrap_err();
            assert!(error.to_string().contains(NAME), "{error}");
        }
    }
}
