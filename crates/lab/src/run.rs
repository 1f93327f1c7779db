//! A run on disk: its directory, its lock, its metrics.

use crate::{Experiment, LabError, checkpoint::digest, disk};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{ErrorKind, Write},
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
/// What the name of a folder in the making ends in.
const UNFINISHED: &str = ".unfinished";
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
    /// A random number, drawn when the run was made, that all its checkpoints bear. Runs of earlier versions
    /// have none until they are resumed.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub identity: String,
    /// SHA-256 of [`EXPERIMENT_FILE`] as the program wrote it last, after that of the text before: a kill
    /// between two writes may leave either.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub experiment_sha256: Vec<String>,
    /// Whether a checkpoint was written, so that a run without any has lost them.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub saved: bool,
    /// The resumptions that changed what decides the numbers.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changes: Vec<Change>,
}

/// A resumption under other settings, or on another device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Updates made before it.
    pub after_step: u64,
    /// Its command.
    pub command: String,
    /// What is different since, such as the number of threads, so that the run is not bit for bit one that was
    /// never stopped.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub differently: Vec<String>,
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
    /// The command, and those that went on with other settings, a line each.
    pub(crate) fn commands(&self) -> String {
        let mut lines = vec![self.command.clone()];
        lines.extend(
            self.changes
                .iter()
                .map(|change| format!("{}  # after {} updates", change.command, change.after_step)),
        );
        lines.join("\n")
    }

    /// The machine, and the device where it is told apart.
    pub(crate) fn machine_and_device(&self) -> String {
        match self.device.is_empty() {
            true => self.machine.clone(),
            false => format!("{}; {}", self.machine, self.device),
        }
    }
}

/// A folder that this process alone may write to.
#[derive(Debug)]
struct Held {
    /// The folder itself, whatever becomes of its name.
    #[cfg(unix)]
    folder: File,
    /// Its file `.lock`. The operating system lets go of locks when the process ends, however it ends.
    file: File,
    /// Whether the folder is locked, too, so that nobody comes in by removing `.lock`. Some file systems lock
    /// no folders.
    folder_locked: bool,
}

impl Held {
    /// Takes hold of the folder at a path.
    fn take(directory: &Path) -> Result<Self, LabError> {
        let path = directory.join(LOCK_FILE);
        let failed = |error| LabError::write(&path, error);
        let locked = || LabError::RunLocked(directory.to_owned());
        #[cfg(unix)]
        let folder = File::open(directory).map_err(|error| LabError::write(directory, error))?;
        #[cfg(unix)]
        let folder_locked = match folder.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => return Err(locked()),
            Err(TryLockError::Error(_)) => false,
        };
        #[cfg(not(unix))]
        let folder_locked = false;
        disk::check_target(&path).map_err(failed)?;
        let mut options = OpenOptions::new();
        let file = match options.append(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                OpenOptions::new().append(true).open(&path)
            }
            file => file,
        };
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked()),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // A link that took its place in the meantime was opened, but nothing was written to what it points at.
        disk::check_target(&path).map_err(failed)?;
        let held = Self {
            #[cfg(unix)]
            folder,
            file,
            folder_locked,
        };
        match held.lies_at(directory) && same_file(&held.file, &path) {
            true => Ok(held),
            // Another process has just made a run of it, or removed it.
            false => Err(locked()),
        }
    }

    /// Whether what lies at the path is still this folder, and nobody else can be let in.
    fn lies_at(&self, directory: &Path) -> bool {
        #[cfg(unix)]
        if !same_file(&self.folder, directory) {
            return false;
        }
        self.folder_locked || same_file(&self.file, &directory.join(LOCK_FILE))
    }
}

/// Whether an open file or folder is what lies at a path.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(one), Ok(other)) => number(one) == number(other),
        _ => false,
    }
}

/// Whether there is something at a path; here nothing tells an open file from another of its name.
#[cfg(not(unix))]
fn same_file(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// A folder in the making, a run's or an export's. It lies beside its place under another name and appears there
/// whole, or not at all; in a folder that is there already, and empty, [`EXPERIMENT_FILE`] comes last. Dropped
/// before it is finished, it goes.
#[derive(Debug)]
pub(crate) struct Draft {
    /// Where it lies.
    place: PathBuf,
    /// Where it is to be.
    target: PathBuf,
    /// `None` once it is a run.
    held: Option<Held>,
}

impl Draft {
    /// Begins one; refuses a path at which something lies already.
    pub fn begin(target: &Path) -> Result<Self, LabError> {
        // Without a dot or a slash at its end, which no folder can be renamed to.
        let target: &Path = &target.components().collect::<PathBuf>();
        refuse_existing(target)?;
        let cannot = |error: std::io::Error| {
            LabError::Configuration(format!(
                "cannot make the run directory {}: {error}; choose another --out",
                target.display()
            ))
        };
        let place = match (target.exists(), target.file_name()) {
            (false, Some(name)) => {
                let mut beside = std::ffi::OsString::from(".");
                beside.push(name);
                beside.push(UNFINISHED);
                let place = target.with_file_name(beside);
                disk_folder(&place).map_err(cannot)?;
                place
            }
            _ => target.to_owned(),
        };
        let held = Held::take(&place).inspect_err(|error| {
            if place != target && !matches!(error, LabError::RunLocked(_)) {
                let _ = fs::remove_dir(&place);
            }
        })?;
        let draft = Self {
            place,
            target: target.to_owned(),
            held: Some(held),
        };
        // Another process may have begun or finished it since the first look.
        refuse_existing(target)?;
        draft.clear();
        Ok(draft)
    }

    /// Where its files go.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Writes origin and configuration, the last of its files, and puts it in its place.
    pub fn finish(mut self, experiment: &Experiment, mut origin: Origin) -> Result<Run, LabError> {
        let text = experiment.to_toml()?;
        origin.experiment_sha256 = vec![digest(text.as_bytes())];
        write_json(&self.place.join(ORIGIN_FILE), &origin)?;
        write_atomically(&self.place.join(EXPERIMENT_FILE), text.as_bytes())?;
        if self.place != self.target {
            fs::rename(&self.place, &self.target).map_err(|error| {
                let existing = refuse_existing(&self.target).err();
                existing.unwrap_or_else(|| LabError::write(&self.target, error))
            })?;
            let parent = self.target.parent().filter(|p| !p.as_os_str().is_empty());
            // Some file systems cannot sync a folder; the run is there all the same.
            let _ = File::open(parent.unwrap_or(Path::new("."))).and_then(|f| f.sync_all());
        }
        Ok(Run {
            directory: self.target.clone(),
            // What is dropped now leaves what is in its place.
            held: self.held.take().expect("only a draft is finished"),
            origin,
        })
    }

    /// Removes what is in it but its lock: of a folder in its place there is nothing but leftovers, another is ours
    /// alone.
    fn clear(&self) {
        for entry in fs::read_dir(&self.place).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name() == LOCK_FILE {
                continue;
            }
            let _ = match entry.file_type().is_ok_and(|found| found.is_dir()) {
                true => fs::remove_dir_all(path),
                false => fs::remove_file(path),
            };
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let ours = self.held.take().filter(|held| held.lies_at(&self.place));
        if ours.is_none() {
            return;
        }
        self.clear();
        let _ = fs::remove_file(self.place.join(LOCK_FILE));
        if self.place != self.target {
            let _ = fs::remove_dir(&self.place);
        }
    }
}

/// Makes a folder, and those it lies in; takes one that an interrupted attempt left.
fn disk_folder(place: &Path) -> std::io::Result<()> {
    if let Some(parent) = place.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| match parent.is_file() {
            true => ErrorKind::NotADirectory.into(),
            false => error,
        })?;
    }
    match fs::create_dir(place) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Not a link to a folder: what is in ours is removed.
            let ours = fs::symlink_metadata(place)?.is_dir()
                && (place.join(LOCK_FILE).exists() || fs::read_dir(place)?.next().is_none());
            match ours {
                true => Ok(()),
                false => Err(std::io::Error::new(
                    ErrorKind::AlreadyExists,
                    format!("{} is in the way", place.display()),
                )),
            }
        }
        made => made,
    }
}

/// Refuses a path at which something lies that is more than what a killed attempt of an earlier version left.
fn refuse_existing(directory: &Path) -> Result<(), LabError> {
    if directory.join(EXPERIMENT_FILE).exists() {
        return Err(LabError::RunExists(directory.to_owned()));
    }
    let leftover = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let whole = name.strip_suffix(".tmp").unwrap_or(&name);
        name == LOCK_FILE || whole == ORIGIN_FILE || whole == EXPERIMENT_FILE
    };
    let empty = match fs::read_dir(directory) {
        Ok(entries) => entries.flatten().all(leftover),
        // Not there, or below a file: to make it says what is wrong.
        Err(_) => fs::symlink_metadata(directory).is_err(),
    };
    match empty {
        true => Ok(()),
        false if directory.join(EXPERIMENT_FILE).exists() => {
            Err(LabError::RunExists(directory.to_owned()))
        }
        false => Err(LabError::NotEmpty(directory.to_owned())),
    }
}

/// A run that this process alone may write to.
#[derive(Debug)]
pub struct Run {
    directory: PathBuf,
    held: Held,
    origin: Origin,
}

impl Run {
    /// Makes a new run of an experiment; refuses a directory that exists and is not empty.
    pub fn create(
        directory: &Path,
        experiment: &Experiment,
        origin: Origin,
    ) -> Result<Self, LabError> {
        Draft::begin(directory)?.finish(experiment, origin)
    }

    /// Takes hold of a run that exists.
    pub fn open(directory: &Path) -> Result<Self, LabError> {
        experiment_text(directory)?;
        let held = Held::take(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            held,
            origin: read_origin(directory)?,
        })
    }

    /// Refuses to go on if the folder at the run's path is not the one that this process holds any more. Comes
    /// before each write.
    pub fn check(&self) -> Result<(), LabError> {
        match self.held.lies_at(&self.directory) {
            true => Ok(()),
            false => Err(LabError::RunTaken(self.directory.clone())),
        }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How it came about.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Refuses a configuration that is not as the program wrote it; `found` is what it says. Other comments or
    /// another order say the same.
    pub(crate) fn check_unedited(&self, found: &Experiment) -> Result<(), LabError> {
        let sums = &self.origin.experiment_sha256;
        let known = |text: &str| sums.contains(&digest(text.as_bytes()));
        // Earlier versions wrote no sums.
        if sums.is_empty() || known(&experiment_text(&self.directory)?) || known(&found.to_toml()?)
        {
            return Ok(());
        }
        Err(LabError::Configuration(format!(
            "{} was edited after the run was begun, so that it would not be the same run: take the change \
             back (--set changes keys of training and of evaluation, --data the folder of the data), or \
             train it anew under another --out",
            self.directory.join(EXPERIMENT_FILE).display()
        )))
    }

    /// Writes down under which settings the run goes on, and what has changed with them. A run of an earlier
    /// version gets an identity.
    pub(crate) fn record(
        &mut self,
        experiment: &Experiment,
        change: Option<Change>,
    ) -> Result<(), LabError> {
        let text = experiment.to_toml()?;
        let before = experiment_text(&self.directory)?;
        let mut origin = self.origin.clone();
        if origin.identity.is_empty() {
            origin.identity = new_identity()?;
        }
        let sums = [&before, &text].map(|text| digest(text.as_bytes()));
        if origin.experiment_sha256.is_empty() || before != text {
            origin.experiment_sha256 = sums.into();
            origin.experiment_sha256.dedup();
        }
        origin.changes.extend(change);
        self.write_origin(origin)?;
        if before == text {
            return Ok(());
        }
        self.check()?;
        write_atomically(&self.directory.join(EXPERIMENT_FILE), text.as_bytes())
    }

    /// Writes down that there is a checkpoint.
    pub(crate) fn record_saved(&mut self) -> Result<(), LabError> {
        let origin = Origin {
            saved: true,
            ..self.origin.clone()
        };
        self.write_origin(origin)
    }

    /// Writes the origin if it is another one.
    fn write_origin(&mut self, origin: Origin) -> Result<(), LabError> {
        if origin != self.origin {
            self.check()?;
            write_json(&self.directory.join(ORIGIN_FILE), &origin)?;
            self.origin = origin;
        }
        Ok(())
    }

    /// Opens the metrics for appending, with only the rows that `keep` accepts.
    pub fn metrics(&self, keep: impl Fn(&Metrics) -> bool) -> Result<MetricsWriter, LabError> {
        let path = self.directory.join(METRICS_FILE);
        let mut text = Vec::new();
        for row in read_metrics(&self.directory)?.into_iter().filter(keep) {
            append_row(&mut text, &row).map_err(|error| LabError::write(&path, error))?;
        }
        self.check()?;
        let file = disk::replace(&path, &text).map_err(|error| LabError::write(&path, error))?;
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
    let text = match disk::read_text(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| LabError::read(&path, error))?,
    };
    let lines: Vec<&str> = text.lines().collect();
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
    match disk::read_text(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(LabError::NoRun(directory.to_owned()))
        }
        text => text.map_err(|error| LabError::read(&path, error)),
    }
}

/// Reads a JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let text = disk::read_text(path).map_err(|error| LabError::read(path, error))?;
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

/// Refuses a path at which no file can be written because something else than a regular file lies there.
///
/// # Errors
/// There is a link, a device, a pipe or a folder.
pub fn check_target(path: &Path) -> Result<(), LabError> {
    disk::check_target(path).map_err(|error| LabError::write(path, error))
}

/// Writes a regular file under a temporary name, syncs it and renames it.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    match disk::replace(path, bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(LabError::write(path, error)),
    }
}

/// A random number that tells a run from all others, in hexadecimal digits.
pub(crate) fn new_identity() -> Result<String, LabError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        LabError::read(
            "random numbers of the operating system",
            std::io::Error::other(error.to_string()),
        )
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }

    fn create(directory: &Path) -> Result<Run, LabError> {
        Run::create(directory, &Experiment::default(), Origin::default())
    }

    /// Nothing is at its place before all is, and nothing is left if that never comes.
    #[test]
    fn a_run_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("runs/./one/");
        let draft = Draft::begin(&directory).unwrap();
        fs::write(draft.path().join("README.md"), "half").unwrap();
        assert!(!directory.exists());
        assert!(matches!(create(&directory), Err(LabError::RunLocked(_))));
        drop(draft);
        assert_eq!(names(&folder.path().join("runs")), Vec::<String>::new());

        let run = create(&directory).unwrap();
        run.check().unwrap();
        assert_eq!(names(&folder.path().join("runs")), ["one"]);
        assert_eq!(
            names(&directory),
            [".lock", "experiment.toml", "origin.json"]
        );
        assert!(matches!(create(&directory), Err(LabError::RunExists(_))));
        assert!(matches!(Run::open(&directory), Err(LabError::RunLocked(_))));
        drop(run);
        Run::open(&directory).unwrap();

        let empty = folder.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let draft = Draft::begin(&empty).unwrap();
        fs::write(draft.path().join("README.md"), "half").unwrap();
        drop(draft);
        assert_eq!(names(&empty), Vec::<String>::new(), "it stays, empty");
        create(&empty).unwrap();
    }

    /// Whoever made the folder anew owns what is there.
    #[cfg(unix)]
    #[test]
    fn a_run_that_was_taken_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("run");
        let mut old = create(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert!(matches!(old.check(), Err(LabError::RunTaken(_))));
        let new = create(&directory).unwrap();
        assert!(matches!(old.record_saved(), Err(LabError::RunTaken(_))));
        assert!(old.metrics(|_| true).is_err());
        new.check().unwrap();
        assert!(!read_origin(&directory).unwrap().saved);
        assert!(!directory.join(METRICS_FILE).exists());
    }

    #[test]
    fn identities_differ() {
        let [one, other] = [new_identity().unwrap(), new_identity().unwrap()];
        assert_eq!((one.len(), other.len()), (32, 32));
        assert_ne!(one, other);
    }

    /// Killed between two writes of a resumption with other settings, a run has either configuration.
    #[test]
    fn both_configurations_of_a_resumption_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("run");
        let before = Experiment::default();
        let mut after = before.clone();
        after.training.steps += 1;
        let mut run = create(&directory).unwrap();
        let path = directory.join(EXPERIMENT_FILE);
        let old = fs::read(&path).unwrap();
        run.record(&after, None).unwrap();
        run.check_unedited(&after).unwrap();
        fs::write(&path, &old).unwrap();
        run.check_unedited(&before).unwrap();
        fs::write(&path, [b"# a remark\n".as_slice(), &old].concat()).unwrap();
        run.check_unedited(&before).unwrap();
        after.training.steps += 1;
        fs::write(&path, after.to_toml().unwrap()).unwrap();
        let error = run.check_unedited(&after).unwrap_err();
        assert!(error.to_string().contains("edited"), "{error}");
    }
}
