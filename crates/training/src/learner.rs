//! The interface of a trainable model.

use crate::{Error, Row, arrays::Arrays};
use std::{collections::BTreeMap, path::Path};

/// A model with its optimiser and its data, built from its settings. A learner used only to look at a model needs no
/// autodiff device and makes no updates.
pub trait Learner: Send {
    /// Trainable numbers: first of the whole model, then of its parts by name.
    fn sizes(&self) -> Vec<(String, usize)>;

    /// Makes update number `step` (from 1) on its next batch. [`Updates`](crate::updates::Updates) describes when a
    /// failure is reported.
    fn update(&mut self, step: u64) -> Result<(), StepFailure>;

    /// Whether [`measured`](Self::measured) waits for the device.
    fn deferred(&self) -> bool;

    /// The measurements of the last update, after it and all earlier ones were checked; `None` before the first.
    fn measured(&mut self) -> Result<Option<Row>, StepFailure>;

    /// Why a training that has made all its updates did not come to its end; it then fails in place of being evaluated, also
    /// when it is resumed.
    fn unfinished(&self) -> Option<String> {
        None
    }

    /// Scores the model on held-out data after `step` updates.
    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error>;

    /// Everything needed to continue training from here.
    fn snapshot(&self) -> Snapshot;

    /// Restores a snapshot; `path` is the file of its model. If the snapshot has no optimiser state, the optimiser
    /// stays as it is: that is enough to look at the model.
    ///
    /// # Errors
    /// If the snapshot is of another model, or a part is missing.
    fn restore(&mut self, from: Snapshot, path: &Path) -> Result<(), Error>;
}

/// The purpose of an evaluation. Each purpose draws its own held-out sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The short evaluation at a checkpoint, which decides the best checkpoint.
    Checkpoint,
    /// The evaluation after training and by `eval`.
    Final,
    /// The same with another seed than the experiment's.
    Seeded(u64),
}

impl Purpose {
    /// The name of its random stream. Checkpoints have their own, so that choosing the best by them does not bias the
    /// final evaluation.
    pub fn stream(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint evaluation",
            Self::Final | Self::Seeded(_) => "evaluation",
        }
    }

    /// The seed of its draws, given the experiment's seed `own`.
    pub fn seed(self, own: u64) -> u64 {
        match self {
            Self::Checkpoint | Self::Final => own,
            Self::Seeded(seed) => seed,
        }
    }

    /// Whether this is the short evaluation.
    pub fn is_short(self) -> bool {
        self == Self::Checkpoint
    }
}

/// Everything needed to continue training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Parameters and running statistics.
    pub model: Arrays,
    /// The optimiser's moments.
    pub optimiser: Arrays,
    /// State carried from one update to the next, such as a recurrent core's.
    pub carried: Arrays,
    /// Counters: the stage of a curriculum, the updates of an inference network.
    pub counters: BTreeMap<String, f64>,
    /// The words of a language model, in the order of its weights; see [`to_tsv`](mnemora_worlds::Vocabulary::to_tsv).
    pub vocabulary: Option<String>,
}

impl Snapshot {
    /// The counter of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn counter(&self, name: &str, path: &Path) -> Result<f64, Error> {
        let found = self.counters.get(name).copied();
        found.ok_or_else(|| Error::WrongWeights {
            path: path.to_owned(),
            problem: format!("its checkpoint has no counter '{name}'"),
        })
    }

    /// Moves counters that earlier versions kept among the optimiser's arrays.
    pub(crate) fn sort_out(&mut self) {
        let pairs = [
            ("curriculum", ["curriculum stage", "curriculum accuracy"]),
            (
                "inference updates",
                ["inference updates, high", "inference updates, low"],
            ),
        ];
        for (array, names) in pairs {
            if let Some(array) = self.optimiser.remove(array) {
                let values = array.values.into_iter().map(f64::from);
                self.counters
                    .extend(names.map(str::to_owned).into_iter().zip(values));
            }
        }
        let carried: Vec<String> = self
            .optimiser
            .keys()
            .filter(|name| name.starts_with("carried."))
            .cloned()
            .collect();
        for name in carried {
            if let Some(array) = self.optimiser.remove(&name) {
                self.carried
                    .insert(name["carried.".len()..].to_owned(), array);
            }
        }
        // Earlier versions split the count into two parts, each exact in f32.
        let high = self.counters.remove("inference updates, high");
        let low = self.counters.remove("inference updates, low");
        if let (Some(high), Some(low)) = (high, low) {
            let updates = high * f64::from(1 << 24) + low;
            self.counters.insert("inference updates".into(), updates);
        }
    }
}

/// Batches prepared ahead, if they are made faster than they are used. One more is being made meanwhile.
pub const BATCHES_AHEAD: usize = 1;
/// Batches in memory at a time: those ahead, the one being made, and the one in use.
pub const BATCHES_AT_A_TIME: usize = BATCHES_AHEAD + 2;

/// Why an update was not made. The model is rolled back; the inference network only if its own gradient was not finite.
#[derive(Debug)]
pub enum StepFailure {
    /// This term or parameter is not finite.
    NonFinite {
        /// The update's number.
        step: u64,
        /// The name.
        what: String,
    },
    /// The batch could not be made.
    Batch(Error),
    /// The learner gives up, for this reason: more updates would not help. The model is as after the last update.
    GivenUp(String),
}

impl<E: Into<Error>> From<E> for StepFailure {
    fn from(error: E) -> Self {
        Self::Batch(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::Array;

    #[test]
    fn counters_of_earlier_versions_are_sorted_out() {
        let array = |values: &[f32]| Array {
            shape: vec![values.len()],
            values: values.to_vec(),
        };
        let mut snapshot = Snapshot {
            optimiser: [
                ("curriculum".to_owned(), array(&[3.0, 0.25])),
                ("inference updates".to_owned(), array(&[2.0, 5.0])),
                ("carried.0".to_owned(), array(&[1.0])),
                ("carried.index.0".to_owned(), array(&[7.0])),
                ("w.first".to_owned(), array(&[0.5])),
            ]
            .into(),
            ..Snapshot::default()
        };
        snapshot.sort_out();
        let path = Path::new("test");
        assert_eq!(snapshot.counter("curriculum stage", path).unwrap(), 3.0);
        assert_eq!(snapshot.counter("curriculum accuracy", path).unwrap(), 0.25);
        let updates = f64::from((2 << 24) + 5);
        assert_eq!(
            snapshot.counter("inference updates", path).unwrap(),
            updates
        );
        assert_eq!(snapshot.counters.len(), 3);
        assert!(snapshot.carried.keys().eq(["0", "index.0"]));
        assert!(snapshot.optimiser.keys().eq(["w.first"]));
        assert!(snapshot.counter("other", path).is_err());
    }
}
