//! A run on disk: its directory, its lock, its metrics.

use crate::{Experiment, LabError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

/// The configuration as resolved.
pub const EXPERIMENT_FILE: &str = "experiment.toml";
/// One row a logged step.
pub const METRICS_FILE: &str = "metrics.jsonl";
/// How the run came about.
pub const ORIGIN_FILE: &str = "origin.json";
/// The evaluation after training.
pub const EVALUATION_FILE: &str = "evaluation.json";
/// Held by the process that works on the run.
const LOCK_FILE: &str = ".lock";
/// The report.
pub const REPORT_FILE: &str = "report.html";

/// One row of `metrics.jsonl`: the batch of one step, before its update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Updates made, this one counted.
    pub step: u64,
    /// Reconstruction less KL, in nats per sequence; the log likelihood of the answers for `copy`,
    /// `nth-farthest` and `programs`, of a word for texts.
    pub bound: f32,
    /// `log p(x | z)` in nats per sequence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reconstruction: Option<f32>,
    /// KL in nats per sequence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl: Option<f32>,
    /// KL of the last frame, in nats.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl_last: Option<f32>,
    /// Share of the bits to be answered that are wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bit_error: Option<f32>,
    /// Share of the sequences whose class was named, or of the characters that were written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accuracy: Option<f32>,
    /// The largest n that a curriculum admits, or the stage of programs that it is at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub admitted: Option<usize>,
    /// KL less reconstruction in nats per step, of recorded sequences.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub free_energy: Option<f32>,
    /// `exp` of the mean nats of a word.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub perplexity: Option<f32>,
    /// Euclidean norm of the gradient before clipping.
    pub gradient_norm: f32,
    /// Adam's rate.
    pub learning_rate: f64,
}

/// How a run came about, for its report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The exact command, after the environment variables that decide the numbers too.
    pub command: String,
    /// Version of mnemora.
    pub version: String,
    /// Commit of the program, `unknown` if it was built outside a checkout.
    pub commit: String,
    /// Processor, operating system, threads.
    pub machine: String,
    /// What tensors were on, in words.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub device: String,
    /// Processor threads that tensor operations ran on; 0 where it was not recorded.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub threads: usize,
    /// `fused` or `plain`: see [`mnemora_kernels::KERNELS_VARIABLE`].
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub kernels: String,
    /// Trainable numbers of the model.
    pub parameters: usize,
    /// The data, in words.
    pub data: String,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The kernels of this process, in a word.
pub(crate) fn kernels_word() -> String {
    match mnemora_kernels::kernels_enabled() {
        true => "fused".into(),
        false => "plain".into(),
    }
}

impl Origin {
    /// The machine, and the device where it is told apart.
    pub(crate) fn machine_and_device(&self) -> String {
        match self.device.is_empty() {
            true => self.machine.clone(),
            false => format!("{}; {}", self.machine, self.device),
        }
    }
}

/// A run that this process alone may write to.
#[derive(Debug)]
pub struct Run {
    directory: PathBuf,
    // The operating system lets go of the lock when the process ends, however it ends.
    _lock: File,
}

impl Run {
    /// Makes a new run; refuses a directory that exists and is not empty.
    pub fn create(directory: &Path) -> Result<Self, LabError> {
        if directory.join(EXPERIMENT_FILE).exists() {
            return Err(LabError::RunExists(directory.to_owned()));
        }
        // What a run leaves that was killed before it had its configuration.
        let leftover = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name == LOCK_FILE || name == ORIGIN_FILE || name.to_string_lossy().ends_with(".tmp")
        };
        let empty = fs::read_dir(directory).map_or(!directory.is_file(), |entries| {
            entries.flatten().all(leftover)
        });
        if !empty {
            // Another process may have begun the run since the first look.
            return Err(match directory.join(EXPERIMENT_FILE).exists() {
                true => LabError::RunExists(directory.to_owned()),
                false => LabError::NotEmpty(directory.to_owned()),
            });
        }
        fs::create_dir_all(directory).map_err(|error| {
            LabError::Configuration(format!(
                "cannot make the run directory {}: {error}; choose another --out",
                directory.display()
            ))
        })?;
        let lock = lock(directory)?;
        if directory.join(EXPERIMENT_FILE).exists() {
            return Err(LabError::RunExists(directory.to_owned()));
        }
        Ok(Self {
            directory: directory.to_owned(),
            _lock: lock,
        })
    }

    /// Takes hold of a run that exists.
    pub fn open(directory: &Path) -> Result<Self, LabError> {
        experiment_text(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            _lock: lock(directory)?,
        })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes the configuration and the origin.
    pub fn describe(&self, experiment: &Experiment, origin: &Origin) -> Result<(), LabError> {
        write_json(&self.directory.join(ORIGIN_FILE), origin)?;
        self.write_experiment(experiment)
    }

    /// Writes the configuration.
    pub fn write_experiment(&self, experiment: &Experiment) -> Result<(), LabError> {
        let path = self.directory.join(EXPERIMENT_FILE);
        write_atomically(&path, experiment.to_toml()?.as_bytes())
    }

    /// Opens the metrics for appending, with only the rows that `keep` accepts.
    pub fn metrics(&self, keep: impl Fn(&Metrics) -> bool) -> Result<MetricsWriter, LabError> {
        let path = self.directory.join(METRICS_FILE);
        let mut text = Vec::new();
        for row in read_metrics(&self.directory)?.into_iter().filter(keep) {
            append_row(&mut text, &row).map_err(|error| LabError::write(&path, error))?;
        }
        write_atomically(&path, &text)?;
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|error| LabError::write(&path, error))?;
        Ok(MetricsWriter { path, file })
    }
}

/// Appends rows to `metrics.jsonl`, each in one write.
#[derive(Debug)]
pub struct MetricsWriter {
    path: PathBuf,
    file: File,
}

impl MetricsWriter {
    /// Appends a row.
    pub fn write(&mut self, row: &Metrics) -> Result<(), LabError> {
        let mut text = Vec::new();
        append_row(&mut text, row)
            .and_then(|()| self.file.write_all(&text))
            .map_err(|error| LabError::write(&self.path, error))
    }

    /// Waits until all rows are on disk.
    pub fn sync(&self) -> Result<(), LabError> {
        self.file
            .sync_all()
            .map_err(|error| LabError::write(&self.path, error))
    }
}

fn append_row(text: &mut Vec<u8>, row: &Metrics) -> std::io::Result<()> {
    serde_json::to_writer(&mut *text, row)?;
    text.push(b'\n');
    Ok(())
}

/// The rows of a run's metrics; none if it has not logged yet. A last row that a killed process
/// left unfinished is not counted.
pub fn read_metrics(directory: &Path) -> Result<Vec<Metrics>, LabError> {
    let path = directory.join(METRICS_FILE);
    let file = match File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file.map_err(|error| LabError::read(&path, error))?,
    };
    let lines: Vec<String> = BufReader::new(file)
        .lines()
        .collect::<Result<_, _>>()
        .map_err(|error| LabError::read(&path, error))?;
    let last = lines.len();
    let mut rows = Vec::with_capacity(last);
    for (index, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(row) => rows.push(row),
            Err(_) if index + 1 == last => {}
            Err(error) => {
                // The parser counts lines in the one line it sees.
                let problem = error.to_string();
                let problem = problem.split(" at line").next().unwrap_or_default();
                return Err(LabError::DamagedFile {
                    path,
                    problem: format!("line {}: {problem}", index + 1),
                });
            }
        }
    }
    Ok(rows)
}

/// The configuration of a run.
pub fn read_experiment(directory: &Path, overrides: &[String]) -> Result<Experiment, LabError> {
    let text = experiment_text(directory)?;
    let path = directory.join(EXPERIMENT_FILE);
    Experiment::parse(&text, &path.display().to_string(), overrides)
}

/// How a run came about.
pub fn read_origin(directory: &Path) -> Result<Origin, LabError> {
    read_json(&directory.join(ORIGIN_FILE))
}

fn experiment_text(directory: &Path) -> Result<String, LabError> {
    let path = directory.join(EXPERIMENT_FILE);
    match fs::read_to_string(&path) {
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Err(LabError::NoRun(directory.to_owned()))
        }
        text => text.map_err(|error| LabError::read(&path, error)),
    }
}

fn lock(directory: &Path) -> Result<File, LabError> {
    let path = directory.join(LOCK_FILE);
    let file = File::create(&path).map_err(|error| LabError::write(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LabError::RunLocked(directory.to_owned())),
        Err(TryLockError::Error(error)) => Err(LabError::write(&path, error)),
    }
}

/// Reads a JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let text = fs::read_to_string(path).map_err(|error| LabError::read(path, error))?;
    serde_json::from_str(&text).map_err(|error| LabError::DamagedFile {
        path: path.to_owned(),
        problem: error.to_string(),
    })
}

/// Writes a JSON file, whole or not at all.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), LabError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| LabError::DamagedFile {
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    text.push(b'\n');
    write_atomically(path, &text)
}

/// Writes a file under a temporary name, syncs it and renames it.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let failed = |error| LabError::write(path, error);
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let mut file = File::create(&temporary).map_err(failed)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|error| {
            let _ = fs::remove_file(&temporary);
            failed(error)
        })
}
