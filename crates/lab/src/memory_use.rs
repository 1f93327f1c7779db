//! How much memory an experiment takes, estimated from its sizes before it takes any, and whether there is as much.
//!
//! Every family says what an update keeps (`planned` beside its learner), from an outline of its model. Here it is
//! added up and compared with what the machine, or the process's control group, has left.

use crate::{
    Experiment, LabError, config::TaskKind, device::light_device, keys::flatten, learner::Learner,
    machine::free_memory, strategy, weights::in_a_word,
};
use mnemora_memory::{Count, Initializer};
use mnemora_models::Footprint;
use serde::Serialize;
use std::{
    fmt,
    str::FromStr,
    sync::{PoisonError, RwLock},
};
use toml::{Table, Value};

/// Bytes of the pictures and charts of a report.
const REPORT: usize = 8_000_000;

/// Bytes of a number.
const NUMBER: usize = 4;

/// Bytes that an experiment takes, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Parameters.
    pub parameters: Count,
    /// Adam's two moments of each.
    pub moments: Count,
    /// Gradients of all parameters.
    pub gradients: Count,
    /// What the graph of an update keeps until its backward pass.
    pub activations: Count,
    /// The batch of an update and those made ahead.
    pub batches: Count,
    /// The data set.
    pub data: Count,
    /// An evaluation on held-out sequences.
    pub evaluation: Count,
    /// The copies from which a checkpoint is written.
    pub checkpoint: Count,
}

impl MemoryUse {
    /// What is there all the time; of update, evaluation and checkpoint the one that takes most; and half of the
    /// other two, since the allocator keeps what was freed and finds another use only for a part of it.
    pub fn total(&self) -> Count {
        let always = self.parameters + self.moments + self.batches + self.data;
        let update = self.gradients + self.activations;
        always + in_turn(&[update, self.evaluation, self.checkpoint])
    }

    /// The same without updates: of a model that is only looked at.
    pub fn of_looking(&self) -> Count {
        self.parameters + self.data + in_turn(&[self.evaluation, self.checkpoint])
    }

    /// The parts under their names, in the order of a table.
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

/// Bytes of what is done in turn.
fn in_turn(phases: &[Count]) -> Count {
    let all: Count = phases.iter().copied().sum();
    let largest = phases.iter().copied().max().unwrap_or(Count::NONE);
    largest + all.less(largest).divided_by(2)
}

/// As an object of bytes, the total among them.
impl Serialize for MemoryUse {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.parts().into_iter().chain([("total", self.total())]);
        let bytes = |count: Count| u64::try_from(count.get()).unwrap_or(u64::MAX);
        serializer.collect_map(rows.map(|(name, count)| (name, bytes(count))))
    }
}

/// Bytes in words: three digits and a unit, powers of 1,000.
fn bytes_words(bytes: Count) -> String {
    const UNITS: [&str; 9] = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    let mut value = bytes.get() as f64;
    let mut unit = 0;
    // What would be rounded to 1000 is 1 of the next.
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

/// Trainable numbers, whole model first, then its parts by name.
pub(crate) type Parts = Vec<(String, Count)>;

/// The same in machine words.
pub(crate) fn in_words(parts: Parts) -> Vec<(String, usize)> {
    let words = |(name, count)| (name, in_a_word(count));
    parts.into_iter().map(words).collect()
}

/// What an experiment would train, from an outline of its model.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// Trainable numbers.
    pub parameters: Parts,
    /// What training takes.
    pub memory: MemoryUse,
}

/// What a family knows of an update, beside the parameters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Numbers that the graph of an update keeps.
    pub learning: Count,
    /// Numbers that a batch of an evaluation takes.
    pub looking: Count,
    /// Numbers of the batches that exist at a time.
    pub batches: Count,
    /// Bytes of the data.
    pub data: Count,
}

impl Planned {
    /// Of a model with these parameters.
    pub(crate) fn new(parameters: Parts, work: Work) -> Self {
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
                // Parameters and moments as arrays, and the larger file of the two as bytes.
                checkpoint: numbers * 5,
            },
        }
    }
}

/// For a module of which only the sizes are wanted.
pub(crate) fn outline() -> Result<Initializer, LabError> {
    Ok(Initializer::outline(light_device()?.autodiff()))
}

/// Numbers that sequences take in an update and in an evaluation: `time` steps of each.
pub(crate) fn sequences(experiment: &Experiment, footprint: &Footprint, time: usize) -> [Count; 2] {
    let learning = footprint.learning(time, experiment.training.segment);
    let looking = footprint.looking(time);
    [
        learning * experiment.training.batch,
        looking * experiment.evaluation.batch,
    ]
}

/// The same of sequences of `[latents, numbers of a step, steps]` whose beliefs the experiment's strategy finds, and the
/// parameters of its inference network.
pub(crate) fn filtered(
    experiment: &Experiment,
    footprint: &Footprint,
    [latent, observation, time]: [usize; 3],
    held_out_time: usize,
) -> Result<([Count; 2], Option<Count>), LabError> {
    let planned = |time| strategy::planned(experiment, footprint, [latent, observation, time]);
    let [learning, _] = sequences(experiment, footprint, time);
    let [_, looking] = sequences(experiment, footprint, held_out_time);
    let (trained, held_out) = (planned(time)?, planned(held_out_time)?);
    let particles = Count::from(experiment.evaluation.particles);
    let particles = particles * (footprint.decoder * 2 + footprint.inside * 3)
        + particles * Count::product(&[8, held_out_time, latent]);
    let numbers = [
        // Beliefs are found before the graph is built from which the model learns.
        learning.max(trained.learning * experiment.training.batch),
        (looking + held_out.looking * experiment.evaluation.batch).max(particles),
    ];
    Ok((numbers, trained.parameters))
}

/// How much memory a process may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLimit {
    /// As much as is free on the machine, and left to the process's control group.
    #[default]
    Free,
    /// So many bytes.
    Bytes(u64),
    /// As much as it likes.
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
            // `as` takes what is too large to the largest.
            true => Ok(Self::Bytes((number * unit as f64) as u64)),
            false => Err(wanted()),
        }
    }
}

/// What [`limit_memory`] said last.
static LIMIT: RwLock<MemoryLimit> = RwLock::new(MemoryLimit::Free);

/// Sets how much memory this process may take: what an experiment is estimated to take beyond it is refused. As the
/// threads are the process's, so is its memory.
pub fn limit_memory(limit: MemoryLimit) {
    *LIMIT.write().unwrap_or_else(PoisonError::into_inner) = limit;
}

/// Bytes that may be taken and why no more; `None` where there is no bound, or the system does not say.
fn allowed() -> Option<(Count, &'static str)> {
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

/// Refuses an experiment that `needed` says takes more memory than there is, with the key that takes most of it.
pub(crate) fn check(
    experiment: &Experiment,
    needed: impl Fn(&Experiment) -> Result<Count, LabError>,
) -> Result<(), LabError> {
    let Some((allowed, why)) = allowed() else {
        return Ok(());
    };
    let all = needed(experiment)?;
    if all <= allowed {
        return Ok(());
    }
    let blamed = match largest_key(experiment, all, needed) {
        Some((key, value)) => format!("{key} is {value}, which takes most of it"),
        None => "most of it is the data".to_owned(),
    };
    Err(LabError::Configuration(format!(
        "this takes about {} of memory, but {} {why}: {blamed}; choose less, or try it with --ram none",
        bytes_words(all),
        bytes_words(allowed),
    )))
}

/// Refuses to draw more training sequences, `numbers` a step, than there is memory for.
pub(crate) fn check_pictures(experiment: &Experiment, numbers: usize) -> Result<(), LabError> {
    // Numbers and the batch that they were in, and about as many colours.
    const BYTES: usize = 24;
    check(experiment, |experiment| {
        let pictures = experiment.evaluation.pictures;
        Ok(Count::product(&[
            BYTES,
            numbers,
            experiment.time(),
            pictures,
        ]))
    })
}

/// Refuses to let a model make more, or longer, sequences than there is memory for.
pub(crate) fn check_drawing(
    learner: &dyn Learner,
    experiment: &Experiment,
    sequences: usize,
    steps: Option<usize>,
) -> Result<(), LabError> {
    let Some((allowed, why)) = allowed() else {
        return Ok(());
    };
    let mut asked = experiment.clone();
    asked.evaluation.batch = sequences;
    if let Some(steps) = steps {
        match experiment.task.name.kind() {
            TaskKind::Copy => asked.task.longest = steps,
            TaskKind::Frames => asked.task.recall = steps,
            TaskKind::Recordings | TaskKind::Words => asked.task.window = steps,
            TaskKind::Classes | TaskKind::Programs => {}
        }
    }
    // What is not to be drawn for another reason is refused where it is drawn.
    match learner
        .planned(&asked)
        .map(|planned| planned.memory.of_looking())
    {
        Ok(needed) if needed > allowed => Err(LabError::Configuration(format!(
            "to draw {sequences} sequences of {} steps takes about {} of memory, but {} {why}: choose less, \
             or try it with --ram none",
            asked.time(),
            bytes_words(needed),
            bytes_words(allowed),
        ))),
        _ => Ok(()),
    }
}

/// The size that would save most if it were half as large, with its value; `None` if none saves a tenth.
fn largest_key(
    experiment: &Experiment,
    all: Count,
    needed: impl Fn(&Experiment) -> Result<Count, LabError>,
) -> Option<(String, i64)> {
    let table = Table::try_from(experiment).ok()?;
    let mut values = Vec::new();
    flatten(&table, "", &mut values);
    let memory = format!(
        "memory.{}.",
        experiment.model.memory.as_str().replace('-', "_")
    );
    let network = format!("network.{}.", experiment.model.name.as_str());
    let read = |key: &str| {
        let of = |group: &str, own: &str| key.starts_with(group) && !key.starts_with(own);
        key.contains('.') && !of("memory.", &memory) && !of("network.", &network)
    };
    let halves = values.into_iter().filter_map(|(key, value)| {
        let value = value.as_integer().filter(|value| *value >= 2)?;
        if !read(&key) {
            return None;
        }
        let mut changed = table.clone();
        *slot(&mut changed, &key)? = Value::Integer(value / 2);
        let smaller: Experiment = Value::Table(changed).try_into().ok()?;
        Some((needed(&smaller).ok()?, (key, value)))
    });
    let (least, key) = halves.min_by_key(|(needed, _)| *needed)?;
    (least + all.divided_by(10) <= all).then_some(key)
}

/// The place of a dotted key.
fn slot<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    match key.split_once('.') {
        None => table.get_mut(key),
        Some((first, rest)) => slot(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

impl fmt::Display for MemoryUse {
    /// A line a part, then the total and what there is.
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
