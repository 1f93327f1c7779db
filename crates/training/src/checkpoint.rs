//! Checkpoints: everything needed to continue training, written completely or not at all.
//!
//! `checkpoints/step-N/` holds `weights.safetensors`, `optimizer.safetensors`, `state.json`, `carried.safetensors` if
//! state is carried from one update to the next, `vocabulary.tsv` for a language model, and `SHA256SUMS` of all of
//! them.

use crate::{
    Error, Learner, Quantity, Row, Snapshot,
    arrays::{Arrays, from_safetensors, non_finite, to_safetensors},
    disk::{self, digest},
    measures::Better,
    run::{EXPERIMENT_FILE, ORIGIN_FILE, Origin, write_json},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

const WEIGHTS: &str = "weights.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const CARRIED: &str = "carried.safetensors";
const STATE: &str = "state.json";
/// One line per row of the word table, in its order: the word, a tab, the number of times it occurs in the training
/// text.
const VOCABULARY: &str = "vocabulary.tsv";
const SUMS: &str = "SHA256SUMS";

/// The part of a checkpoint that is not tensors.
///
/// Every random stream is a function of the seed, its name and the step (see [`Stream`](mnemora_worlds::Stream)), so
/// seed and step are the state of all streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Updates made.
    pub step: u64,
    /// Seed of the random streams.
    pub seed: u64,
    /// The model, in a word.
    #[serde(default)]
    pub memory: String,
    /// Processor threads used for tensor operations.
    #[serde(default)]
    pub threads: usize,
    /// The device that held the tensors, as text.
    #[serde(default)]
    pub device: String,
    /// `fused` or `plain`, as in [`Origin::kernels`]; empty if it was not recorded.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub kernels: String,
    /// Identity of the run: see [`Origin::identity`].
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub identity: String,
    /// Seconds spent training so far, summed over all processes.
    pub elapsed_seconds: f64,
    /// The evaluations at this and earlier checkpoints.
    pub held_out: Vec<Row>,
    /// See [`Snapshot::counters`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub counters: BTreeMap<String, f64>,
}

/// A checkpoint in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Step, seed, history.
    pub state: State,
    /// The learner's arrays. On disk, its counters are in `state.json`.
    pub snapshot: Snapshot,
}

impl Checkpoint {
    /// Everything needed to continue training.
    pub fn of<L: Learner + ?Sized>(learner: &L, state: &State) -> Self {
        Self {
            state: state.clone(),
            snapshot: learner.snapshot(),
        }
    }

    /// Returns an error if the words of a checkpoint in `run` differ from `own`, those of the learner's text.
    /// Checkpoints of earlier versions have no words and pass.
    ///
    /// # Errors
    /// If they differ.
    pub fn check_vocabulary(&self, run: &Path, own: Option<&str>) -> Result<(), Error> {
        match &self.snapshot.vocabulary {
            Some(words) if Some(words.as_str()) != own => Err(Error::WrongWeights {
                path: directory(run, self.state.step).join(VOCABULARY),
                problem: "its words are not those of the run's text".into(),
            }),
            _ => Ok(()),
        }
    }

    /// The first parameter, moment or carried value that is not finite.
    pub fn non_finite(&self) -> Option<String> {
        let Snapshot {
            model,
            optimiser,
            carried,
            ..
        } = &self.snapshot;
        [
            ("parameter", model),
            ("moment", optimiser),
            ("carried value", carried),
        ]
        .into_iter()
        .find_map(|(kind, arrays)| Some(format!("the {kind} '{}'", non_finite(arrays)?)))
    }
}

impl State {
    /// The state before the first update of the named model, under a seed.
    pub fn start(model: String, seed: u64, identity: &str) -> Self {
        Self {
            seed,
            memory: model,
            identity: identity.to_owned(),
            ..Self::default()
        }
    }

    /// Returns an error if the checkpoint is of another run than `origin`. Call this after the weights were loaded: if
    /// they do not fit the model, that error says more.
    ///
    /// # Errors
    /// If it is of another run.
    pub fn check_identity(&self, run: &Path, origin: &Origin) -> Result<(), Error> {
        let known = !self.identity.is_empty() && !origin.identity.is_empty();
        if known && self.identity != origin.identity {
            return Err(Error::Configuration(format!(
                "{} is of another run: its state.json has the identity {}, {} has {}",
                directory(run, self.step).display(),
                self.identity,
                run.join(ORIGIN_FILE).display(),
                origin.identity,
            )));
        }
        Ok(())
    }

    /// Returns an error if model or seed differ from the checkpoint's.
    ///
    /// # Errors
    /// If one of them differs.
    pub fn check(&self, run: &Path, model: &str, seed: u64) -> Result<(), Error> {
        if !self.memory.is_empty() && self.memory != model {
            return Err(Error::Configuration(format!(
                "{} holds the model {}, but {} says {model}",
                directory(run, self.step).display(),
                self.memory,
                run.join(EXPERIMENT_FILE).display(),
            )));
        }
        if self.seed != seed {
            return Err(Error::Configuration(format!(
                "seed is {seed}, the run was made with {}",
                self.seed
            )));
        }
        Ok(())
    }

    /// The best checkpoint: by the first of the quantities, then by the bound; the earlier one if both are equal.
    pub fn best_step(&self, quantities: &[Quantity]) -> Option<u64> {
        let merit = |row: &Row| {
            let first = quantities.first().and_then(|first| {
                let value = row.measures.number(first.key)?;
                Some(match first.better {
                    Better::Lower => -value,
                    Better::Higher | Better::Neither => value,
                })
            });
            (first, row.measures.number("bound"))
        };
        self.held_out
            .iter()
            .fold(None, |best: Option<&Row>, row| match best {
                Some(best) if merit(best) >= merit(row) => Some(best),
                _ => Some(row),
            })
            .map(|row| row.step)
    }
}

/// The folder of checkpoint `step` of a run.
pub fn directory(run: &Path, step: u64) -> PathBuf {
    run.join("checkpoints").join(format!("step-{step}"))
}

/// The weights file of a checkpoint.
pub fn weights_file(run: &Path, step: u64) -> PathBuf {
    directory(run, step).join(WEIGHTS)
}

/// SHA-256 of the weights file of a checkpoint, as its list of sums has it.
///
/// # Errors
/// If the list cannot be read, or lacks the file.
pub fn weights_sha256(run: &Path, step: u64) -> Result<String, Error> {
    let files = Files::of(run, step)?;
    match files.sum(WEIGHTS) {
        Some(sum) => Ok(sum.to_owned()),
        None => Err(Error::DamagedFile {
            path: files.directory.join(SUMS),
            problem: format!("it has no sum of {WEIGHTS}"),
        }),
    }
}

/// The file of a checkpoint's [`State`].
pub fn state_file(run: &Path, step: u64) -> PathBuf {
    directory(run, step).join(STATE)
}

/// Steps of a run's checkpoints, oldest first.
pub fn steps(run: &Path) -> Vec<u64> {
    let mut steps: Vec<u64> = fs::read_dir(run.join("checkpoints"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("step-")?
                .parse()
                .ok()
        })
        .collect();
    steps.sort_unstable();
    steps
}

/// Writes a checkpoint under a temporary name, syncs it and renames it. Replaces a checkpoint of the same step.
///
/// # Errors
/// If a file cannot be written, or the run is gone.
pub fn save(run: &Path, checkpoint: &Checkpoint) -> Result<PathBuf, Error> {
    let target = directory(run, checkpoint.state.step);
    write_to(&target, checkpoint)?;
    Ok(target)
}

/// Writes the state before a failed step to a folder that is never resumed from. `StepFailure` describes what it holds
/// of an inference network.
///
/// # Errors
/// As [`save`].
pub fn save_failed(run: &Path, checkpoint: &Checkpoint) -> Result<PathBuf, Error> {
    let target = run
        .join("checkpoints")
        .join(format!("failed-after-step-{}", checkpoint.state.step));
    write_to(&target, checkpoint)?;
    Ok(target)
}

fn write_to(target: &Path, checkpoint: &Checkpoint) -> Result<(), Error> {
    let parent = target.parent().unwrap_or(target);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = parent.join(format!(".writing-{name}"));
    // Only the last folder is created, so that a removed run does not reappear.
    match fs::create_dir(parent) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::write(parent, error));
        }
        _ => {}
    }
    let _ = fs::remove_dir_all(&temporary);
    let written = fill(&temporary, checkpoint);
    if written.is_err() {
        let _ = fs::remove_dir_all(&temporary);
        return written;
    }
    let failed = |error| Error::write(target, error);
    if target.exists() {
        let retired = parent.join(format!(".retired-{name}"));
        let _ = fs::remove_dir_all(&retired);
        fs::rename(target, &retired).map_err(failed)?;
        fs::rename(&temporary, target).map_err(failed)?;
        let _ = fs::remove_dir_all(&retired);
    } else {
        fs::rename(&temporary, target).map_err(failed)?;
    }
    sync_directory(parent)
}

fn fill(directory: &Path, checkpoint: &Checkpoint) -> Result<(), Error> {
    fs::create_dir(directory).map_err(|error| Error::write(directory, error))?;
    let Snapshot {
        model,
        optimiser,
        carried,
        counters,
        vocabulary,
    } = &checkpoint.snapshot;
    let state = State {
        counters: counters.clone(),
        ..checkpoint.state.clone()
    };
    write_synced(&directory.join(WEIGHTS), &to_safetensors(model))?;
    write_synced(&directory.join(OPTIMIZER), &to_safetensors(optimiser))?;
    write_json(&directory.join(STATE), &state)?;
    let mut names = vec![WEIGHTS, OPTIMIZER, STATE];
    if !carried.is_empty() {
        write_synced(&directory.join(CARRIED), &to_safetensors(carried))?;
        names.push(CARRIED);
    }
    if let Some(words) = vocabulary {
        write_synced(&directory.join(VOCABULARY), words.as_bytes())?;
        names.push(VOCABULARY);
    }
    let mut sums = String::new();
    for name in names {
        let path = directory.join(name);
        let bytes = disk::read(&path).map_err(|error| Error::read(&path, error))?;
        sums.push_str(&format!("{}  {name}\n", digest(&bytes)));
    }
    write_synced(&directory.join(SUMS), sums.as_bytes())?;
    sync_directory(directory)
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    disk::create(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|error| Error::write(path, error))
}

fn sync_directory(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| Error::write(path, error))
}

/// The files of a checkpoint; each is checked against its sum when it is read.
struct Files {
    directory: PathBuf,
    sums: String,
}

impl Files {
    fn of(run: &Path, step: u64) -> Result<Self, Error> {
        let directory = directory(run, step);
        let path = directory.join(SUMS);
        let sums = disk::read_text(&path).map_err(|error| Error::read(&path, error))?;
        Ok(Self { directory, sums })
    }

    fn sum(&self, name: &str) -> Option<&str> {
        let mut lines = self.sums.lines();
        lines.find_map(|line| line.strip_suffix(name)?.split_whitespace().next())
    }

    fn read(&self, name: &str) -> Result<(PathBuf, Vec<u8>), Error> {
        let path = self.directory.join(name);
        let bytes = disk::read(&path).map_err(|error| Error::read(&path, error))?;
        if self.sum(name) != Some(digest(&bytes).as_str()) {
            return Err(Error::DamagedFile {
                path,
                problem: "its contents do not match SHA256SUMS".into(),
            });
        }
        Ok((path, bytes))
    }

    fn state(&self) -> Result<State, Error> {
        let (path, bytes) = self.read(STATE)?;
        serde_json::from_slice(&bytes).map_err(|error| Error::DamagedFile {
            path,
            problem: error.to_string(),
        })
    }

    /// Everything but the optimiser's arrays and the carried ones.
    fn model(&self) -> Result<Checkpoint, Error> {
        let mut state = self.state()?;
        Ok(Checkpoint {
            snapshot: Snapshot {
                model: self.arrays(WEIGHTS)?,
                counters: std::mem::take(&mut state.counters),
                vocabulary: self.vocabulary()?,
                ..Snapshot::default()
            },
            state,
        })
    }

    /// Arrays; an error if a number is not finite.
    fn arrays(&self, name: &str) -> Result<Arrays, Error> {
        let (path, bytes) = self.read(name)?;
        let arrays = from_safetensors(&bytes, &path)?;
        match non_finite(&arrays) {
            None => Ok(arrays),
            Some(name) => Err(Error::DamagedFile {
                path,
                problem: format!("tensor '{name}' has a number that is not finite"),
            }),
        }
    }

    /// The words, if the checkpoint has them.
    fn vocabulary(&self) -> Result<Option<String>, Error> {
        if self.sum(VOCABULARY).is_none() {
            return Ok(None);
        }
        let (path, bytes) = self.read(VOCABULARY)?;
        let words = String::from_utf8(bytes).map_err(|error| Error::DamagedFile {
            path,
            problem: error.to_string(),
        })?;
        Ok(Some(words))
    }
}

/// Reads a checkpoint. Checks its sums and that all numbers are finite.
///
/// # Errors
/// If a file is missing, cannot be read or does not match its sum, or a number is not finite.
pub fn load(run: &Path, step: u64) -> Result<Checkpoint, Error> {
    let files = Files::of(run, step)?;
    let mut checkpoint = files.model()?;
    let snapshot = &mut checkpoint.snapshot;
    snapshot.optimiser = files.arrays(OPTIMIZER)?;
    if files.sum(CARRIED).is_some() {
        snapshot.carried = files.arrays(CARRIED)?;
    }
    snapshot.sort_out();
    Ok(checkpoint)
}

/// Reads what is needed to look at a model: everything but the optimiser's state and the carried arrays, which are left
/// empty.
///
/// # Errors
/// As [`load`], of the files that it reads.
pub fn load_weights(run: &Path, step: u64) -> Result<Checkpoint, Error> {
    Files::of(run, step)?.model()
}

/// The newest intact checkpoint, and the problems of newer ones.
///
/// # Errors
/// If no checkpoint is intact.
pub fn load_latest(run: &Path) -> Result<(Checkpoint, Vec<String>), Error> {
    newest(run, |step| load(run, step))
}

/// The newest intact state, and the problems of newer checkpoints. Reads no arrays.
///
/// # Errors
/// If no checkpoint has an intact state.
pub fn latest_state(run: &Path) -> Result<(State, Vec<String>), Error> {
    newest(run, |step| Files::of(run, step)?.state())
}

/// The result of `read` for the newest checkpoint it can read, and its problems with newer ones.
fn newest<T>(
    run: &Path,
    read: impl Fn(u64) -> Result<T, Error>,
) -> Result<(T, Vec<String>), Error> {
    let mut problems = Vec::new();
    for step in steps(run).into_iter().rev() {
        match read(step) {
            Ok(found) => return Ok((found, problems)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    Err(Error::NoCheckpoint {
        directory: run.to_owned(),
        detail: match problems.first() {
            None => String::new(),
            Some(problem) => format!(": {problem}"),
        },
    })
}

/// Removes all checkpoints but the newest `keep` and the best. Checkpoints after the newest are damaged leftovers and
/// are removed too.
pub fn prune(run: &Path, newest: u64, best: Option<u64>, keep: usize) {
    let kept: Vec<u64> = steps(run)
        .into_iter()
        .filter(|step| *step <= newest)
        .rev()
        .take(keep)
        .collect();
    for step in steps(run) {
        if !kept.contains(&step) && Some(step) != best {
            let _ = fs::remove_dir_all(directory(run, step));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measures, arrays::Array};

    const BOUND: [Quantity; 1] = [Quantity::new("bound", "bound", "nats").better(Better::Higher)];
    const ACCURACY: [Quantity; 2] = [
        Quantity::new("accuracy", "accuracy", "").better(Better::Higher),
        BOUND[0],
    ];

    fn row(step: u64, accuracy: Option<f64>, bound: f64) -> Row {
        Row {
            step,
            measures: Measures::new()
                .with("bound", bound)
                .with_some("accuracy", accuracy),
        }
    }

    fn checkpoint(step: u64) -> Checkpoint {
        let array = Array {
            shape: vec![2],
            values: vec![step as f32, -0.5],
        };
        Checkpoint {
            state: State {
                step,
                seed: 1,
                ..State::default()
            },
            snapshot: Snapshot {
                model: [("a".to_owned(), array.clone())].into(),
                optimiser: [("a.first".to_owned(), array)].into(),
                ..Snapshot::default()
            },
        }
    }

    #[test]
    fn words_lie_beside_the_weights_and_are_checked() {
        let run = tempfile::tempdir().unwrap();
        let mut with_words = checkpoint(1);
        with_words.snapshot.vocabulary = Some("<unk>\t7\nthe\t5\n<eos>\t2\n".into());
        save(run.path(), &with_words).unwrap();
        assert_eq!(load(run.path(), 1).unwrap(), with_words);
        let file = directory(run.path(), 1).join(VOCABULARY);
        fs::write(&file, "<unk>\t7\na\t5\n<eos>\t2\n").unwrap();
        let error = load(run.path(), 1).unwrap_err().to_string();
        assert!(
            error.contains(VOCABULARY) && error.contains(SUMS),
            "{error}"
        );
        fs::remove_file(&file).unwrap();
        assert!(load(run.path(), 1).is_err());
        // A checkpoint written before this file existed.
        save(run.path(), &checkpoint(2)).unwrap();
        assert!(!directory(run.path(), 2).join(VOCABULARY).exists());
        assert_eq!(load(run.path(), 2).unwrap().snapshot.vocabulary, None);
    }

    #[test]
    fn round_trip_and_fallback_from_damage() {
        let run = tempfile::tempdir().unwrap();
        for step in [1, 2, 3] {
            save(run.path(), &checkpoint(step)).unwrap();
        }
        assert_eq!(load_latest(run.path()).unwrap(), (checkpoint(3), vec![]));

        let damaged = directory(run.path(), 3).join(WEIGHTS);
        let mut bytes = fs::read(&damaged).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&damaged, bytes).unwrap();
        fs::remove_file(directory(run.path(), 2).join(STATE)).unwrap();
        let (found, problems) = load_latest(run.path()).unwrap();
        assert_eq!(found, checkpoint(1));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("SHA256SUMS"), "{problems:?}");
    }

    /// The sums are right; earlier versions wrote such checkpoints.
    #[test]
    fn numbers_that_are_not_finite_are_damage() {
        let run = tempfile::tempdir().unwrap();
        save(run.path(), &checkpoint(1)).unwrap();
        let spoil = |arrays: &mut Arrays, value: f32| {
            arrays.values_mut().next().unwrap().values[1] = value;
        };
        let mut second = checkpoint(2);
        spoil(&mut second.snapshot.model, f32::NAN);
        assert_eq!(second.non_finite().unwrap(), "the parameter 'a'");
        save(run.path(), &second).unwrap();
        let mut third = checkpoint(3);
        spoil(&mut third.snapshot.optimiser, f32::NEG_INFINITY);
        assert_eq!(third.non_finite().unwrap(), "the moment 'a.first'");
        save(run.path(), &third).unwrap();
        let (found, problems) = load_latest(run.path()).unwrap();
        assert_eq!((found.state.step, found.non_finite()), (1, None));
        assert!(
            problems[0].contains("optimizer.safetensors: tensor 'a.first'"),
            "{problems:?}"
        );
        assert!(
            problems[1].contains("weights.safetensors: tensor 'a'"),
            "{problems:?}"
        );
    }

    /// A checkpoint copied from another run has another identity; earlier versions had none.
    #[test]
    fn checkpoints_of_another_run() {
        let state = State::start("dnc".into(), 1, "one");
        let of = |identity: &str| Origin {
            identity: identity.to_owned(),
            ..Origin::default()
        };
        let run = Path::new("runs/mine");
        for identity in ["one", ""] {
            state.check_identity(run, &of(identity)).unwrap();
        }
        let error = state.check_identity(run, &of("other")).unwrap_err();
        assert!(error.to_string().contains("another run"), "{error}");
        let old = State::start("dnc".into(), 1, "");
        old.check_identity(run, &of("other")).unwrap();
    }

    /// Saving to a run whose folder is gone does not create the folder again.
    #[test]
    fn a_removed_run_stays_removed() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        assert!(save(&run, &checkpoint(1)).is_err());
        assert!(!run.exists());
    }

    /// Looking at a model and finding the best checkpoint read no other files.
    #[test]
    fn what_is_not_needed_is_not_read() {
        let run = tempfile::tempdir().unwrap();
        for step in [1, 2] {
            save(run.path(), &checkpoint(step)).unwrap();
        }
        let remove = |name| fs::remove_file(directory(run.path(), 2).join(name)).unwrap();
        remove(OPTIMIZER);
        let mut expected = checkpoint(2);
        expected.snapshot.optimiser = Arrays::new();
        assert_eq!(load_weights(run.path(), 2).unwrap(), expected);
        remove(WEIGHTS);
        assert_eq!(latest_state(run.path()).unwrap(), (expected.state, vec![]));
        let (found, problems) = load_latest(run.path()).unwrap();
        assert_eq!((found, problems.len()), (checkpoint(1), 1));
    }

    #[test]
    fn the_best_and_the_last_survive() {
        let run = tempfile::tempdir().unwrap();
        let mut state = State::default();
        for (step, bound) in [(1, -5.0), (2, -1.0), (3, -3.0), (4, -2.0)] {
            state.step = step;
            state.held_out.push(row(step, None, bound));
            save(
                run.path(),
                &Checkpoint {
                    state: state.clone(),
                    ..checkpoint(step)
                },
            )
            .unwrap();
            let best = state.best_step(&BOUND);
            prune(run.path(), step, best, 1);
        }
        assert_eq!(steps(run.path()), [2, 4]);
    }

    /// With an accuracy, the bound decides only between equals.
    #[test]
    fn the_best_has_the_highest_accuracy() {
        let state = State {
            held_out: vec![
                row(1, Some(0.4), -1.0),
                row(2, Some(0.9), -3.0),
                row(3, Some(0.9), -2.0),
                row(4, Some(0.9), -2.0),
                row(5, Some(0.8), -0.5),
            ],
            ..State::default()
        };
        assert_eq!(state.best_step(&ACCURACY), Some(3));
    }
}
