//! What an evaluation looks at: its part of the data, its batches, their random stream.

use crate::Experiment;
use mnemora_training::Purpose;
use mnemora_worlds::{Part, Stream};

/// The part to evaluate on: validation at checkpoints, the test part afterwards, or the other one if the data have none
/// of it.
pub fn part(purpose: Purpose, has: impl Fn(Part) -> bool) -> Part {
    let [first, second] = match purpose.is_short() {
        true => [Part::Valid, Part::Test],
        false => [Part::Test, Part::Valid],
    };
    match has(first) {
        true => first,
        false => second,
    }
}

/// Number of batches of an evaluation.
pub fn batches(experiment: &Experiment, purpose: Purpose) -> u64 {
    match purpose.is_short() {
        true => experiment.evaluation.checkpoint_batches,
        false => experiment.evaluation.batches,
    }
}

/// The random stream of an evaluation's held-out sequences, different from training's.
pub fn data_stream(experiment: &Experiment, purpose: Purpose) -> Stream {
    let seed = purpose.seed(experiment.seed);
    Stream::new(seed, &format!("{} data", purpose.stream()))
}
