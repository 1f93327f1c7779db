//! An estimate of the memory that a training will take, from its sizes, and the memory that is available.
//!
//! Every family computes what an update keeps, from an outline of its model. This module adds it up and compares it
//! with the memory left to the machine or to the process's control group.

use crate::{
    Error,
    arrays::in_a_word,
    machine::free_memory,
    settings::{EvaluationSettings, FilteringSettings, TrainingSettings},
    strategy,
};
use mnemora_memory::Count;
use mnemora_models::Footprint;
use serde::Serialize;
use std::{
    fmt,
    str::FromStr,
    sync::{PoisonError, RwLock},
};

/// Bytes of the pictures and charts of a report.
const REPORT: usize = 8_000_000;

/// Bytes of a number.
const NUMBER: usize = 4;

/// Bytes that an experiment takes, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Parameters.
    pub parameters: Count,
    /// Adam's two moments of each parameter.
    pub moments: Count,
    /// Gradients of all parameters.
    pub gradients: Count,
    /// What the graph of an update keeps for its backward pass.
    pub activations: Count,
    /// The batch of an update and those prepared ahead.
    pub batches: Count,
    /// The data set.
    pub data: Count,
    /// An evaluation on held-out sequences.
    pub evaluation: Count,
    /// The copies from which a checkpoint is written.
    pub checkpoint: Count,
}

impl MemoryUse {
    /// Memory that is always in use, plus the largest of update, evaluation and checkpoint, plus half of the other two:
    /// the allocator keeps freed memory and can reuse only part of it.
    pub fn total(&self) -> Count {
        let always = self.parameters + self.moments + self.batches + self.data;
        let update = self.gradients + self.activations;
        always + in_turn(&[update, self.evaluation, self.checkpoint])
    }

    /// The total without updates, for a model that is only looked at.
    pub fn of_looking(&self) -> Count {
        self.parameters + self.data + in_turn(&[self.evaluation, self.checkpoint])
    }

    /// The parts with their names, in table order.
    pub fn parts(&self) -> [(&'static str, Count); 8] {
        [
            ("parameters", self.parameters),
            ("moments", self.moments),
            ("gradients", self.gradients),
            ("activations", self.activations),
            ("batches", self.batches),
            ("data", self.data),
            ("evaluation", self.evaluation),
            ("checkpoint", self.checkpoint),
        ]
    }
}

/// Bytes of phases that follow one another.
fn in_turn(phases: &[Count]) -> Count {
    let all: Count = phases.iter().copied().sum();
    let largest = phases.iter().copied().max().unwrap_or(Count::NONE);
    largest + all.less(largest).divided_by(2)
}

/// Serialises to an object of bytes, including the total.
impl Serialize for MemoryUse {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.parts().into_iter().chain([("total", self.total())]);
        let bytes = |count: Count| u64::try_from(count.get()).unwrap_or(u64::MAX);
        serializer.collect_map(rows.map(|(name, count)| (name, bytes(count))))
    }
}

/// Bytes as text: three digits and a unit, in powers of 1,000.
pub fn bytes_words(bytes: Count) -> String {
    const UNITS: [&str; 9] = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    let mut value = bytes.get() as f64;
    let mut unit = 0;
    // A number that would be rounded to 1000 is written as 1 of the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 || value >= 99.95 => 0,
        _ if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Trainable numbers: first of the whole model, then of its parts by name.
pub type Parts = Vec<(String, Count)>;

/// The same counts as `usize`.
pub fn in_words(parts: Parts) -> Vec<(String, usize)> {
    let words = |(name, count)| (name, in_a_word(count));
    parts.into_iter().map(words).collect()
}

/// What training an experiment would need, from an outline of its model.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Trainable numbers.
    pub parameters: Parts,
    /// The memory that training takes.
    pub memory: MemoryUse,
}

/// What a family reports about an update, apart from the parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Numbers that the graph of an update keeps.
    pub learning: Count,
    /// Numbers that an evaluation batch takes.
    pub looking: Count,
    /// Numbers of all batches in memory at a time.
    pub batches: Count,
    /// Bytes of the data.
    pub data: Count,
}

impl Planned {
    /// For a model with these parameters.
    pub fn new(parameters: Parts, work: Work) -> Self {
        let whole = parameters.first().map_or(Count::NONE, |(_, count)| *count);
        let numbers = whole * NUMBER;
        Self {
            parameters,
            memory: MemoryUse {
                parameters: numbers,
                moments: numbers * 2,
                gradients: numbers,
                activations: work.learning * NUMBER,
                batches: work.batches * NUMBER,
                data: work.data,
                evaluation: work.looking * NUMBER + REPORT,
                // Parameters and moments as arrays, and the larger of the two files as bytes.
                checkpoint: numbers * 5,
            },
        }
    }
}

/// The settings that decide how much is computed at a time.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'a> {
    /// The batch size of an update.
    pub training: &'a TrainingSettings,
    /// The batch size of an evaluation.
    pub evaluation: &'a EvaluationSettings,
}

impl Sizes<'_> {
    /// Numbers that sequences of `time` steps take, in an update and in an evaluation.
    pub fn sequences(&self, footprint: &Footprint, time: usize) -> [Count; 2] {
        let learning = footprint.learning(time, self.training.segment);
        let looking = footprint.looking(time);
        [
            learning * self.training.batch,
            looking * self.evaluation.batch,
        ]
    }

    /// The same for sequences of `[latents, numbers of a step, steps]` whose beliefs are inferred as `filtering` says;
    /// also returns the parameters of the inference network.
    pub fn filtered(
        &self,
        filtering: &FilteringSettings,
        footprint: &Footprint,
        [latent, observation, time]: [usize; 3],
        held_out_time: usize,
    ) -> Result<([Count; 2], Option<Count>), Error> {
        let planned = |time| strategy::planned(filtering, footprint, [latent, observation, time]);
        let [learning, _] = self.sequences(footprint, time);
        let [_, looking] = self.sequences(footprint, held_out_time);
        let (trained, held_out) = (planned(time)?, planned(held_out_time)?);
        let particles = Count::from(self.evaluation.particles);
        let particles = particles * (footprint.decoder * 2 + footprint.inside * 3)
            + particles * Count::product(&[8, held_out_time, latent]);
        let numbers = [
            // Inference is done before the graph of the learning pass is built.
            learning.max(trained.learning * self.training.batch),
            (looking + held_out.looking * self.evaluation.batch).max(particles),
        ];
        Ok((numbers, trained.parameters))
    }
}

/// How much memory a process may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLimit {
    /// As much as is free on the machine and left to the process's control group.
    #[default]
    Free,
    /// This many bytes.
    Bytes(u64),
    /// No limit.
    None,
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: [(&str, u64); 9] = [
            ("kib", 1 << 10),
            ("mib", 1 << 20),
            ("gib", 1 << 30),
            ("tib", 1 << 40),
            ("kb", 1_000),
            ("mb", 1_000_000),
            ("gb", 1_000_000_000),
            ("tb", 1_000_000_000_000),
            ("b", 1),
        ];
        let wanted = || "expected a size such as 8GB or 500MB, or none".to_owned();
        let text = text.trim().to_ascii_lowercase();
        if text == "none" {
            return Ok(Self::None);
        }
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
            .ok_or_else(wanted)?;
        let number: f64 = number.trim().parse().map_err(|_| wanted())?;
        match number > 0.0 && number.is_finite() {
            // `as` saturates at the largest value.
            true => Ok(Self::Bytes((number * unit as f64) as u64)),
            false => Err(wanted()),
        }
    }
}

/// The limit last set by [`limit_memory`].
static LIMIT: RwLock<MemoryLimit> = RwLock::new(MemoryLimit::Free);

/// Sets the memory limit of this process: an experiment estimated to take more is refused. Like the thread pool, the
/// limit holds for the whole process.
pub fn limit_memory(limit: MemoryLimit) {
    *LIMIT.write().unwrap_or_else(PoisonError::into_inner) = limit;
}

/// The bytes that may be used and what limits them; `None` if there is no limit, or the system does not report one.
pub fn allowed() -> Option<(Count, &'static str)> {
    let limit = *LIMIT.read().unwrap_or_else(PoisonError::into_inner);
    match limit {
        MemoryLimit::None => None,
        MemoryLimit::Bytes(bytes) => Some((bytes_of(bytes), "are allowed by --ram")),
        MemoryLimit::Free => free_memory().map(|free| (bytes_of(free.bytes), free.words)),
    }
}

fn bytes_of(bytes: u64) -> Count {
    Count::from(usize::try_from(bytes).unwrap_or(usize::MAX))
}

impl fmt::Display for MemoryUse {
    /// One line per part, then the total and the memory available.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "memory")?;
        for (name, bytes) in self.parts() {
            writeln!(formatter, "  {name:12} {:>10}", bytes_words(bytes))?;
        }
        let total = bytes_words(self.total());
        write!(formatter, "  {:12} {total:>10}", "total")?;
        match allowed() {
            None => Ok(()),
            Some((allowed, why)) => write!(formatter, "; {} {why}", bytes_words(allowed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_said() {
        let read = |text: &str| text.parse::<MemoryLimit>();
        assert_eq!(read("8GB"), Ok(MemoryLimit::Bytes(8_000_000_000)));
        assert_eq!(read("1.5 GiB"), Ok(MemoryLimit::Bytes(3 << 29)));
        assert_eq!(read("500mb"), Ok(MemoryLimit::Bytes(500_000_000)));
        assert_eq!(read("none"), Ok(MemoryLimit::None));
        for wrong in [
            "", "8", "many", "-1GB", "0MB", "nanGB", "infGB", "GB", "8XB",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        let words = |bytes: usize| bytes_words(Count::from(bytes));
        assert_eq!(words(0), "0 B");
        assert_eq!(words(999), "999 B");
        assert_eq!(words(1_000), "1.00 kB");
        assert_eq!(words(123_456_789), "123 MB");
        assert_eq!(words(999_999), "1.00 MB");
        assert_eq!(words(21_400_000_000), "21.4 GB");
        let most = Count::product(&[usize::MAX; 3]);
        assert!(bytes_words(most).ends_with(" YB"));
    }

    #[test]
    fn phases_share_what_was_freed() {
        let one = Count::from(1);
        let memory = MemoryUse {
            parameters: one,
            moments: one * 2,
            gradients: one,
            activations: one * 10,
            evaluation: one * 7,
            checkpoint: one * 5,
            ..MemoryUse::default()
        };
        assert_eq!(memory.total(), one * (3 + 11 + 6));
        assert_eq!(memory.of_looking(), one * (1 + 7 + 2));
        let json = serde_json::to_value(memory).unwrap();
        assert_eq!((&json["total"], &json["moments"]), (&20.into(), &2.into()));
    }
}
