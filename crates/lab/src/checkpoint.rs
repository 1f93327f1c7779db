//! Checkpoints: everything that training needs to go on, written whole or not at all.
//!
//! `checkpoints/step-N/` holds `weights.safetensors`, `optimizer.safetensors`, `state.json`, for a language
//! model `vocabulary.tsv`, and `SHA256SUMS` over all of them.

use crate::{
    Experiment, LabError, disk,
    learner::Learner,
    run::{EXPERIMENT_FILE, ORIGIN_FILE, Origin, write_json},
    weights::{Arrays, from_safetensors, non_finite, to_safetensors},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

const WEIGHTS: &str = "weights.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
/// Each row of the table of words, in its order: the word, a tab, how often the training text has it.
const VOCABULARY: &str = "vocabulary.tsv";
const SUMS: &str = "SHA256SUMS";

/// What a checkpoint says beside its tensors.
///
/// Every random stream is a function of the seed, its name and the step (see
/// [`Stream`](mnemora_worlds::Stream)), so seed and step are the state of all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Updates made.
    pub step: u64,
    /// Seed of the streams.
    pub seed: u64,
    /// The model: see [`Experiment::label`].
    #[serde(default)]
    pub memory: String,
    /// Processor threads that tensor operations ran on.
    #[serde(default)]
    pub threads: usize,
    /// What tensors were on, in words.
    #[serde(default)]
    pub device: String,
    /// `fused` or `plain`, as in [`Origin::kernels`]; empty where it was not recorded.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub kernels: String,
    /// Of the run that it was made in: see [`Origin::identity`].
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub identity: String,
    /// Seconds spent training so far, all processes together.
    pub elapsed_seconds: f64,
    /// Held-out bounds at this and earlier checkpoints.
    pub held_out: Vec<HeldOut>,
}

/// A short evaluation on held-out sequences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Updates made.
    pub step: u64,
    /// Bound in nats per sequence.
    pub bound: f64,
    /// Share of the bits to be answered that are wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bit_error: Option<f64>,
    /// Share of the sequences whose class was named, or of the characters that were written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accuracy: Option<f64>,
    /// Free energy of recorded sequences in nats per step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub free_energy: Option<f64>,
}

/// A checkpoint in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Step, seed, history.
    pub state: State,
    /// Parameters and running statistics.
    pub weights: Arrays,
    /// Moments of the optimiser.
    pub optimizer: Arrays,
    /// The words of a language model, without which its weights say nothing; see
    /// [`to_tsv`](mnemora_worlds::Vocabulary::to_tsv). Checkpoints of earlier versions have none.
    pub vocabulary: Option<String>,
}

impl Checkpoint {
    /// Everything that training needs to go on.
    pub(crate) fn of(learner: &dyn Learner, state: &State) -> Self {
        Self {
            state: state.clone(),
            weights: learner.weights(),
            optimizer: learner.optimizer(),
            vocabulary: learner.vocabulary(),
        }
    }

    /// Refuses a checkpoint in `run` whose words are not those of the learner's text.
    pub(crate) fn check_vocabulary(
        &self,
        run: &Path,
        learner: &dyn Learner,
    ) -> Result<(), LabError> {
        match &self.vocabulary {
            Some(words) if Some(words) != learner.vocabulary().as_ref() => {
                Err(LabError::WrongWeights {
                    path: directory(run, self.state.step).join(VOCABULARY),
                    problem: "its words are not those of the run's text".into(),
                })
            }
            _ => Ok(()),
        }
    }
}

impl Checkpoint {
    /// The first parameter or moment that holds a number that is not finite.
    pub(crate) fn non_finite(&self) -> Option<String> {
        let parameter = non_finite(&self.weights).map(|name| format!("the parameter '{name}'"));
        parameter.or_else(|| Some(format!("the moment '{}'", non_finite(&self.optimizer)?)))
    }
}

impl State {
    /// The state before the first update.
    pub(crate) fn start(experiment: &Experiment, identity: &str) -> Self {
        Self {
            seed: experiment.seed,
            memory: experiment.label(),
            identity: identity.to_owned(),
            ..Self::default()
        }
    }

    /// Refuses a checkpoint of another run than that of `origin`. What does not even fit the model is better told by
    /// that.
    pub(crate) fn check_identity(&self, run: &Path, origin: &Origin) -> Result<(), LabError> {
        let known = !self.identity.is_empty() && !origin.identity.is_empty();
        if known && self.identity != origin.identity {
            return Err(LabError::Configuration(format!(
                "{} is of another run: its state.json has the identity {}, {} has {}",
                directory(run, self.step).display(),
                self.identity,
                run.join(ORIGIN_FILE).display(),
                origin.identity,
            )));
        }
        Ok(())
    }

    /// Refuses an experiment of another seed or memory than the checkpoint's.
    pub(crate) fn check(&self, run: &Path, experiment: &Experiment) -> Result<(), LabError> {
        let memory = experiment.label();
        if !self.memory.is_empty() && self.memory != memory {
            return Err(LabError::Configuration(format!(
                "{} holds the model {}, but {} says {memory}",
                directory(run, self.step).display(),
                self.memory,
                run.join(EXPERIMENT_FILE).display(),
            )));
        }
        if self.seed != experiment.seed {
            return Err(LabError::Configuration(format!(
                "seed is {}, the run was made with {}",
                experiment.seed, self.seed
            )));
        }
        Ok(())
    }

    /// The step with the best held-out accuracy, or the best bound where there is none or accuracies
    /// are equal; the earlier one if both are.
    pub fn best_step(&self) -> Option<u64> {
        let merit = |row: &HeldOut| (row.accuracy, row.bound);
        self.held_out
            .iter()
            .fold(None, |best: Option<&HeldOut>, row| match best {
                Some(best) if merit(best) >= merit(row) => Some(best),
                _ => Some(row),
            })
            .map(|row| row.step)
    }
}

/// Where checkpoint `step` of a run is.
pub fn directory(run: &Path, step: u64) -> PathBuf {
    run.join("checkpoints").join(format!("step-{step}"))
}

/// Weights file of a checkpoint.
pub fn weights_file(run: &Path, step: u64) -> PathBuf {
    directory(run, step).join(WEIGHTS)
}

/// Steps of the checkpoints that a run has, oldest first.
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

/// Writes a checkpoint under a temporary name, syncs it and renames it; one that is there already
/// for this step is replaced.
pub fn save(run: &Path, checkpoint: &Checkpoint) -> Result<PathBuf, LabError> {
    let target = directory(run, checkpoint.state.step);
    write_to(&target, checkpoint)?;
    Ok(target)
}

/// Writes the state before a step that failed, beside the checkpoints: it is never resumed from. See
/// `StepFailure` for an inference network.
pub fn save_failed(run: &Path, checkpoint: &Checkpoint) -> Result<PathBuf, LabError> {
    let target = run
        .join("checkpoints")
        .join(format!("failed-after-step-{}", checkpoint.state.step));
    write_to(&target, checkpoint)?;
    Ok(target)
}

fn write_to(target: &Path, checkpoint: &Checkpoint) -> Result<(), LabError> {
    let parent = target.parent().unwrap_or(target);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = parent.join(format!(".writing-{name}"));
    // Only the last folder: a run that was removed is not begun again by what one process saves of it.
    match fs::create_dir(parent) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(LabError::write(parent, error));
        }
        _ => {}
    }
    let _ = fs::remove_dir_all(&temporary);
    let written = fill(&temporary, checkpoint);
    if written.is_err() {
        let _ = fs::remove_dir_all(&temporary);
        return written;
    }
    let failed = |error| LabError::write(target, error);
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

fn fill(directory: &Path, checkpoint: &Checkpoint) -> Result<(), LabError> {
    fs::create_dir(directory).map_err(|error| LabError::write(directory, error))?;
    write_synced(
        &directory.join(WEIGHTS),
        &to_safetensors(&checkpoint.weights),
    )?;
    write_synced(
        &directory.join(OPTIMIZER),
        &to_safetensors(&checkpoint.optimizer),
    )?;
    write_json(&directory.join(STATE), &checkpoint.state)?;
    let mut names = vec![WEIGHTS, OPTIMIZER, STATE];
    if let Some(words) = &checkpoint.vocabulary {
        write_synced(&directory.join(VOCABULARY), words.as_bytes())?;
        names.push(VOCABULARY);
    }
    let mut sums = String::new();
    for name in names {
        let path = directory.join(name);
        let bytes = disk::read(&path).map_err(|error| LabError::read(&path, error))?;
        sums.push_str(&format!("{}  {name}\n", digest(&bytes)));
    }
    write_synced(&directory.join(SUMS), sums.as_bytes())?;
    sync_directory(directory)
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    disk::create(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|error| LabError::write(path, error))
}

fn sync_directory(path: &Path) -> Result<(), LabError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| LabError::write(path, error))
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The files of a checkpoint, each checked against its sum when it is read.
struct Files {
    directory: PathBuf,
    sums: String,
}

impl Files {
    fn of(run: &Path, step: u64) -> Result<Self, LabError> {
        let directory = directory(run, step);
        let path = directory.join(SUMS);
        let sums = disk::read_text(&path).map_err(|error| LabError::read(&path, error))?;
        Ok(Self { directory, sums })
    }

    fn sum(&self, name: &str) -> Option<&str> {
        let mut lines = self.sums.lines();
        lines.find_map(|line| line.strip_suffix(name)?.split_whitespace().next())
    }

    fn read(&self, name: &str) -> Result<(PathBuf, Vec<u8>), LabError> {
        let path = self.directory.join(name);
        let bytes = disk::read(&path).map_err(|error| LabError::read(&path, error))?;
        if self.sum(name) != Some(digest(&bytes).as_str()) {
            return Err(LabError::DamagedFile {
                path,
                problem: "its contents do not match SHA256SUMS".into(),
            });
        }
        Ok((path, bytes))
    }

    fn state(&self) -> Result<State, LabError> {
        let (path, bytes) = self.read(STATE)?;
        serde_json::from_slice(&bytes).map_err(|error| LabError::DamagedFile {
            path,
            problem: error.to_string(),
        })
    }

    /// Arrays whose numbers are finite.
    fn arrays(&self, name: &str) -> Result<Arrays, LabError> {
        let (path, bytes) = self.read(name)?;
        let arrays = from_safetensors(&bytes, &path)?;
        match non_finite(&arrays) {
            None => Ok(arrays),
            Some(name) => Err(LabError::DamagedFile {
                path,
                problem: format!("tensor '{name}' has a number that is not finite"),
            }),
        }
    }

    /// The words, where a checkpoint has them.
    fn vocabulary(&self) -> Result<Option<String>, LabError> {
        if self.sum(VOCABULARY).is_none() {
            return Ok(None);
        }
        let (path, bytes) = self.read(VOCABULARY)?;
        let words = String::from_utf8(bytes).map_err(|error| LabError::DamagedFile {
            path,
            problem: error.to_string(),
        })?;
        Ok(Some(words))
    }
}

/// Reads a checkpoint and checks its sums and that its numbers are finite.
pub fn load(run: &Path, step: u64) -> Result<Checkpoint, LabError> {
    let files = Files::of(run, step)?;
    Ok(Checkpoint {
        weights: files.arrays(WEIGHTS)?,
        optimizer: files.arrays(OPTIMIZER)?,
        vocabulary: files.vocabulary()?,
        state: files.state()?,
    })
}

/// Reads of a checkpoint what its model is looked at with: all but the state of the optimiser, which is left empty.
pub fn load_weights(run: &Path, step: u64) -> Result<Checkpoint, LabError> {
    let files = Files::of(run, step)?;
    Ok(Checkpoint {
        weights: files.arrays(WEIGHTS)?,
        optimizer: Arrays::new(),
        vocabulary: files.vocabulary()?,
        state: files.state()?,
    })
}

/// The newest checkpoint that is whole, and what was wrong with newer ones.
pub fn load_latest(run: &Path) -> Result<(Checkpoint, Vec<String>), LabError> {
    newest(run, |step| load(run, step))
}

/// The newest whole state, and what was wrong with newer ones. No array is read.
pub fn latest_state(run: &Path) -> Result<(State, Vec<String>), LabError> {
    newest(run, |step| Files::of(run, step)?.state())
}

/// What `read` makes of the newest checkpoint of which it makes something, and its problems with newer ones.
fn newest<T>(
    run: &Path,
    read: impl Fn(u64) -> Result<T, LabError>,
) -> Result<(T, Vec<String>), LabError> {
    let mut problems = Vec::new();
    for step in steps(run).into_iter().rev() {
        match read(step) {
            Ok(found) => return Ok((found, problems)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    Err(LabError::NoCheckpoint {
        directory: run.to_owned(),
        detail: match problems.first() {
            None => String::new(),
            Some(problem) => format!(": {problem}"),
        },
    })
}

/// Removes all checkpoints but the newest `keep` and the best; those after the newest are
/// damaged leftovers and go too.
pub fn prune(run: &Path, state: &State, keep: usize) {
    let best = state.best_step();
    let kept: Vec<u64> = steps(run)
        .into_iter()
        .filter(|step| *step <= state.step)
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
    use crate::weights::Array;

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
            weights: [("a".to_owned(), array.clone())].into(),
            optimizer: [("a.first".to_owned(), array)].into(),
            vocabulary: None,
        }
    }

    #[test]
    fn words_lie_beside_the_weights_and_are_checked() {
        let run = tempfile::tempdir().unwrap();
        let with_words = Checkpoint {
            vocabulary: Some("<unk>\t7\nthe\t5\n<eos>\t2\n".into()),
            ..checkpoint(1)
        };
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
        // One written before there was such a file.
        save(run.path(), &checkpoint(2)).unwrap();
        assert!(!directory(run.path(), 2).join(VOCABULARY).exists());
        assert_eq!(load(run.path(), 2).unwrap().vocabulary, None);
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

    /// Its sums are right; earlier versions wrote such checkpoints.
    #[test]
    fn numbers_that_are_not_finite_are_damage() {
        let run = tempfile::tempdir().unwrap();
        save(run.path(), &checkpoint(1)).unwrap();
        let spoil = |arrays: &mut Arrays, value: f32| {
            arrays.values_mut().next().unwrap().values[1] = value;
        };
        let mut second = checkpoint(2);
        spoil(&mut second.weights, f32::NAN);
        assert_eq!(second.non_finite().unwrap(), "the parameter 'a'");
        save(run.path(), &second).unwrap();
        let mut third = checkpoint(3);
        spoil(&mut third.optimizer, f32::NEG_INFINITY);
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

    /// A checkpoint in the place of one of our own is told by its identity; earlier versions gave none.
    #[test]
    fn checkpoints_of_another_run() {
        let experiment = Experiment::default();
        let state = State::start(&experiment, "one");
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
        let old = State::start(&experiment, "");
        old.check_identity(run, &of("other")).unwrap();
    }

    /// What is saved of a run whose folder is gone does not make the folder again.
    #[test]
    fn a_removed_run_stays_removed() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        assert!(save(&run, &checkpoint(1)).is_err());
        assert!(!run.exists());
    }

    /// Neither to look at a model nor to find the best is anything else of a checkpoint needed.
    #[test]
    fn what_is_not_needed_is_not_read() {
        let run = tempfile::tempdir().unwrap();
        for step in [1, 2] {
            save(run.path(), &checkpoint(step)).unwrap();
        }
        let remove = |name| fs::remove_file(directory(run.path(), 2).join(name)).unwrap();
        remove(OPTIMIZER);
        let expected = Checkpoint {
            optimizer: Arrays::new(),
            ..checkpoint(2)
        };
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
            state.held_out.push(HeldOut {
                step,
                bound,
                bit_error: None,
                accuracy: None,
                free_energy: None,
            });
            save(
                run.path(),
                &Checkpoint {
                    state: state.clone(),
                    ..checkpoint(step)
                },
            )
            .unwrap();
            prune(run.path(), &state, 1);
        }
        assert_eq!(steps(run.path()), [2, 4]);
    }

    /// Where answers are right or wrong, the bound decides between equals only.
    #[test]
    fn the_best_has_the_highest_accuracy() {
        let row = |step, accuracy, bound| HeldOut {
            step,
            bound,
            bit_error: None,
            accuracy: Some(accuracy),
            free_energy: None,
        };
        let state = State {
            held_out: vec![
                row(1, 0.4, -1.0),
                row(2, 0.9, -3.0),
                row(3, 0.9, -2.0),
                row(4, 0.9, -2.0),
                row(5, 0.8, -0.5),
            ],
            ..State::default()
        };
        assert_eq!(state.best_step(), Some(3));
    }
}
