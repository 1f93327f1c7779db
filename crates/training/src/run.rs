//! A run on disk: its directory, its lock, its metrics.

use crate::{
    Error, Row,
    disk::{self, digest},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// The resolved configuration.
pub const EXPERIMENT_FILE: &str = "experiment.toml";
/// One row per logged step.
pub const METRICS_FILE: &str = "metrics.jsonl";
/// One row per logged step: seconds since the start, updates per second, resident memory. These numbers are not the same
/// when a run is repeated, those of [`METRICS_FILE`] are.
pub const MACHINE_FILE: &str = "machine.jsonl";
/// One row per checkpoint: the tracked numbers of its evaluation.
pub const HELD_OUT_FILE: &str = "held_out.jsonl";
/// The origin of the run.
pub const ORIGIN_FILE: &str = "origin.json";
/// The evaluation after training.
pub const EVALUATION_FILE: &str = "evaluation.json";
/// Locked by the process that uses the run.
const LOCK_FILE: &str = ".lock";
/// Suffix of a folder that is being made.
const UNFINISHED: &str = ".unfinished";
/// The report.
pub const REPORT_FILE: &str = "report.html";

/// The origin of a run, for its report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The exact command, preceded by the environment variables that affect the numbers.
    pub command: String,
    /// Version of mnemora.
    pub version: String,
    /// Commit of the program; `unknown` if it was built outside a checkout.
    pub commit: String,
    /// Processor, operating system, threads.
    pub machine: String,
    /// The device that held the tensors, as text.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub device: String,
    /// Processor threads used for tensor operations; 0 if not recorded.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub threads: usize,
    /// `fused` or `plain`: see [`mnemora_kernels::KERNELS_VARIABLE`].
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub kernels: String,
    /// Trainable numbers of the model.
    pub parameters: usize,
    /// The data, in words.
    pub data: String,
    /// A random number drawn when the run is made; all its checkpoints carry it. Runs of earlier versions have none
    /// until they are resumed.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub identity: String,
    /// SHA-256 of [`EXPERIMENT_FILE`] before and after the program's last change of it: a process killed between the
    /// two writes may leave either text.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub experiment_sha256: Vec<String>,
    /// The first weights, in words, if they are those of another run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub weights: Option<String>,
    /// Whether a checkpoint was ever written: if so, a run without any has lost them.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub saved: bool,
    /// Resumptions that may have changed the numbers.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changes: Vec<Change>,
}

impl Origin {
    /// Whether the run's configuration may be `text`: it was written by the program, or by an earlier version, which kept no
    /// checksum.
    pub fn has_written(&self, text: &str) -> bool {
        let sums = &self.experiment_sha256;
        sums.is_empty() || sums.contains(&digest(text.as_bytes()))
    }
}

/// A resumption with other settings, or on another device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Updates made before it.
    pub after_step: u64,
    /// Its command.
    pub command: String,
    /// What differs since then, such as the number of threads: the run is no longer bit for bit an uninterrupted one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub differently: Vec<String>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The kernels of this process, in a word.
pub fn kernels_word() -> String {
    match mnemora_kernels::kernels_enabled() {
        true => "fused".into(),
        false => "plain".into(),
    }
}

impl Origin {
    /// The command that made the run and those that resumed it with other settings, one per line.
    pub fn commands(&self) -> String {
        let mut lines = vec![self.command.clone()];
        lines.extend(
            self.changes
                .iter()
                .map(|change| format!("{}  # after {} updates", change.command, change.after_step)),
        );
        lines.join("\n")
    }

    /// The machine, and the device if it was recorded separately.
    pub fn machine_and_device(&self) -> String {
        match self.device.is_empty() {
            true => self.machine.clone(),
            false => format!("{}; {}", self.machine, self.device),
        }
    }
}

/// A folder that is locked by this process.
#[derive(Debug)]
struct Held {
    /// The open folder, which stays the same if its path changes.
    #[cfg(unix)]
    folder: File,
    /// Its file `.lock`. The operating system releases the lock when the process ends, however it ends.
    file: File,
    /// Whether the folder itself is locked too, so that removing `.lock` lets nobody in. Some file systems cannot lock
    /// folders.
    folder_locked: bool,
}

impl Held {
    /// Locks the folder at a path.
    fn take(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(LOCK_FILE);
        let locked = || Error::RunLocked(directory.to_owned());
        let failed = |error: std::io::Error| match error.kind() {
            // Another process has just made it a run, or removed it.
            ErrorKind::NotFound => locked(),
            _ => Error::write(&path, error),
        };
        #[cfg(unix)]
        let folder = File::open(directory).map_err(failed)?;
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
        // If a link took the file's place in the meantime, it was opened, but nothing was written to its target.
        disk::check_target(&path).map_err(failed)?;
        let held = Self {
            #[cfg(unix)]
            folder,
            file,
            folder_locked,
        };
        match held.lies_at(directory) && same_file(&held.file, &path) {
            true => Ok(held),
            // Another process has just made it a run, or removed it.
            false => Err(locked()),
        }
    }

    /// Whether the path still leads to this folder, and its lock still holds.
    fn lies_at(&self, directory: &Path) -> bool {
        #[cfg(unix)]
        if !same_file(&self.folder, directory) {
            return false;
        }
        self.folder_locked || same_file(&self.file, &directory.join(LOCK_FILE))
    }
}

/// Whether the path leads to this open file or folder.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(one), Ok(other)) => number(one) == number(other),
        _ => false,
    }
}

/// Whether the path exists; on this system an open file cannot be compared with a path.
#[cfg(not(unix))]
fn same_file(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// A run or an export that is being made. Its folder stands next to the target under another name and is renamed when
/// it is complete. If the target is an existing empty folder, the files are written there, and [`EXPERIMENT_FILE`]
/// comes last. A draft that is dropped unfinished is removed.
#[derive(Debug)]
pub struct Draft {
    /// The folder being filled.
    place: PathBuf,
    /// Its final path.
    target: PathBuf,
    /// `None` once it is a run.
    held: Option<Held>,
}

impl Draft {
    /// Begins a draft; an error if there is something at the path.
    ///
    /// # Errors
    /// If the path holds a run or other files, another process is using it, or the folder cannot be made or locked.
    pub fn begin(target: &Path) -> Result<Self, Error> {
        // Without a dot or a slash at its end: no folder can be renamed to such a path.
        let target: &Path = &target.components().collect::<PathBuf>();
        refuse_existing(target)?;
        let cannot = |error: std::io::Error| {
            Error::Configuration(format!(
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
            if place != target && !matches!(error, Error::RunLocked(_)) {
                let _ = fs::remove_dir(&place);
            }
        })?;
        let draft = Self {
            place,
            target: target.to_owned(),
            held: Some(held),
        };
        // Another process may have started or finished it since the first check.
        refuse_existing(target)?;
        draft.clear();
        Ok(draft)
    }

    /// The folder for its files.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Writes the origin, then the configuration (a TOML text), and moves the folder to its final path.
    ///
    /// # Errors
    /// If a file cannot be written, or the folder cannot be moved, for example because the path is now taken.
    pub fn finish(mut self, experiment: &str, mut origin: Origin) -> Result<Run, Error> {
        let text = experiment;
        origin.experiment_sha256 = vec![digest(text.as_bytes())];
        write_json(&self.place.join(ORIGIN_FILE), &origin)?;
        write_atomically(&self.place.join(EXPERIMENT_FILE), text.as_bytes())?;
        if self.place != self.target {
            fs::rename(&self.place, &self.target).map_err(|error| {
                let existing = refuse_existing(&self.target).err();
                existing.unwrap_or_else(|| Error::write(&self.target, error))
            })?;
            let parent = self.target.parent().filter(|p| !p.as_os_str().is_empty());
            // Some file systems cannot sync a folder; the run exists all the same.
            let _ = File::open(parent.unwrap_or(Path::new("."))).and_then(|f| f.sync_all());
        }
        Ok(Run {
            directory: self.target.clone(),
            // With the lock taken out, dropping the draft removes nothing.
            held: self.held.take().expect("only a draft is finished"),
            origin,
        })
    }

    /// Removes everything but the lock. A folder at its final path holds only leftovers; one under the temporary name
    /// is ours.
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

/// Makes a folder and its parents; accepts the folder of an interrupted attempt.
fn disk_folder(place: &Path) -> std::io::Result<()> {
    if let Some(parent) = place.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| match parent.is_file() {
            true => ErrorKind::NotADirectory.into(),
            false => error,
        })?;
    }
    loop {
        match fs::create_dir(place) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made,
        }
        return match is_attempt(place) {
            // Another process has just made it a run, or removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Ok(true) => Ok(()),
            Ok(false) => Err(std::io::Error::new(
                ErrorKind::AlreadyExists,
                format!("{} is in the way", place.display()),
            )),
            Err(error) => Err(error),
        };
    }
}

/// Whether a folder is one of an attempt: empty, or with a lock. It is listed once, since another process may be at it, which
/// locks it before it writes anything else.
fn is_attempt(place: &Path) -> std::io::Result<bool> {
    // Not a link to a folder: we remove what is in it.
    if !fs::symlink_metadata(place)?.is_dir() {
        return Ok(false);
    }
    let names = fs::read_dir(place)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<std::io::Result<Vec<_>>>()?;
    Ok(names.is_empty() || names.iter().any(|name| name == LOCK_FILE))
}

/// Returns an error if the path holds anything but the leftovers of a killed attempt by an earlier version.
fn refuse_existing(directory: &Path) -> Result<(), Error> {
    if directory.join(EXPERIMENT_FILE).exists() {
        return Err(Error::RunExists(directory.to_owned()));
    }
    let leftover = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let whole = name.strip_suffix(".tmp").unwrap_or(&name);
        name == LOCK_FILE || whole == ORIGIN_FILE || whole == EXPERIMENT_FILE
    };
    let empty = match fs::read_dir(directory) {
        Ok(entries) => entries.flatten().all(leftover),
        // It does not exist, or a parent is a file: creating it will report the reason.
        Err(_) => fs::symlink_metadata(directory).is_err(),
    };
    match empty {
        true => Ok(()),
        false if directory.join(EXPERIMENT_FILE).exists() => {
            Err(Error::RunExists(directory.to_owned()))
        }
        false => Err(Error::NotEmpty(directory.to_owned())),
    }
}

/// A run that is locked by this process.
#[derive(Debug)]
pub struct Run {
    directory: PathBuf,
    held: Held,
    origin: Origin,
}

impl Run {
    /// Makes a new run of an experiment (a TOML text); an error if the directory exists and is not empty.
    ///
    /// # Errors
    /// If the directory holds a run or other files, another process is using it, or a file cannot be written.
    pub fn create(directory: &Path, experiment: &str, origin: Origin) -> Result<Self, Error> {
        Draft::begin(directory)?.finish(experiment, origin)
    }

    /// Opens and locks an existing run.
    ///
    /// # Errors
    /// If this is not a run, another process is using it, or its origin cannot be read.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        experiment_text(directory)?;
        let held = Held::take(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            held,
            origin: read_origin(directory)?,
        })
    }

    /// Returns an error if the folder at the run's path is no longer the one that this process locked. Called before
    /// each write.
    ///
    /// # Errors
    /// If the folder was moved, removed or replaced.
    pub fn check(&self) -> Result<(), Error> {
        match self.held.lies_at(&self.directory) {
            true => Ok(()),
            false => Err(Error::RunTaken(self.directory.clone())),
        }
    }

    /// Its folder.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its origin.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Records the settings with which the run continues, and the change, if any. Gives an identity to a run of an
    /// earlier version.
    ///
    /// # Errors
    /// If a file cannot be read or written, or the folder is no longer that of this run.
    pub fn record(&mut self, text: &str, change: Option<Change>) -> Result<(), Error> {
        let before = experiment_text(&self.directory)?;
        let mut origin = self.origin.clone();
        if origin.identity.is_empty() {
            origin.identity = new_identity()?;
        }
        let sums = [&before, text].map(|text| digest(text.as_bytes()));
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

    /// Records that a checkpoint was written.
    ///
    /// # Errors
    /// If the origin cannot be written, or the folder is no longer that of this run.
    pub fn record_saved(&mut self) -> Result<(), Error> {
        let origin = Origin {
            saved: true,
            ..self.origin.clone()
        };
        self.write_origin(origin)
    }

    /// Writes the origin if it has changed.
    fn write_origin(&mut self, origin: Origin) -> Result<(), Error> {
        if origin != self.origin {
            self.check()?;
            write_json(&self.directory.join(ORIGIN_FILE), &origin)?;
            self.origin = origin;
        }
        Ok(())
    }

    /// Opens the metrics for appending, keeping only the rows of the steps that `keep` accepts.
    ///
    /// # Errors
    /// If the file cannot be read or written, a row before the last is damaged, or the folder is no longer that of this
    /// run.
    pub fn metrics(&self, keep: impl Fn(u64) -> bool) -> Result<RowWriter, Error> {
        self.rows(METRICS_FILE, keep)
    }

    /// Opens the machine's rows for appending, as [`metrics`](Self::metrics).
    ///
    /// # Errors
    /// As [`metrics`](Self::metrics).
    pub fn machine(&self, keep: impl Fn(u64) -> bool) -> Result<RowWriter, Error> {
        self.rows(MACHINE_FILE, keep)
    }

    fn rows(&self, name: &str, keep: impl Fn(u64) -> bool) -> Result<RowWriter, Error> {
        let path = self.directory.join(name);
        let mut text = Vec::new();
        for (line, row) in lines(&path)? {
            if keep(row.step) {
                text.extend(line.as_bytes());
                text.push(b'\n');
            }
        }
        self.check()?;
        let file = disk::replace(&path, &text).map_err(|error| Error::write(&path, error))?;
        Ok(RowWriter { path, file })
    }

    /// Writes the evaluations at checkpoints.
    ///
    /// # Errors
    /// If the file cannot be written, or the folder is no longer that of this run.
    pub fn write_held_out(&self, rows: &[Row]) -> Result<(), Error> {
        let path = self.directory.join(HELD_OUT_FILE);
        let mut text = Vec::new();
        for row in rows {
            append_row(&mut text, row).map_err(|error| Error::write(&path, error))?;
        }
        self.check()?;
        write_atomically(&path, &text)
    }
}

/// Appends rows to a file of a run, each in one write.
#[derive(Debug)]
pub struct RowWriter {
    path: PathBuf,
    file: File,
}

impl RowWriter {
    /// Appends a row.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, row: &Row) -> Result<(), Error> {
        let mut text = Vec::new();
        append_row(&mut text, row)
            .and_then(|()| self.file.write_all(&text))
            .map_err(|error| Error::write(&self.path, error))
    }

    /// Waits until all rows are on disk.
    ///
    /// # Errors
    /// If the operating system cannot write them.
    pub fn sync(&self) -> Result<(), Error> {
        self.file
            .sync_all()
            .map_err(|error| Error::write(&self.path, error))
    }
}

fn append_row(text: &mut Vec<u8>, row: &Row) -> std::io::Result<()> {
    serde_json::to_writer(&mut *text, row)?;
    text.push(b'\n');
    Ok(())
}

/// The rows of a run's metrics; none if it has not logged yet. Ignores an unfinished last row, which a killed process
/// may leave.
///
/// # Errors
/// If the file cannot be read, or a row before the last is damaged.
pub fn read_metrics(directory: &Path) -> Result<Vec<Row>, Error> {
    let rows = lines(&directory.join(METRICS_FILE))?.into_iter();
    Ok(rows.map(|(_, row)| row).collect())
}

/// The machine's rows of a run, as [`read_metrics`]; none for a run of an earlier version.
///
/// # Errors
/// As [`read_metrics`].
pub fn read_machine(directory: &Path) -> Result<Vec<Row>, Error> {
    let rows = lines(&directory.join(MACHINE_FILE))?.into_iter();
    Ok(rows.map(|(_, row)| row).collect())
}

/// The rows of a file, each with its line; none if there is no file.
fn lines(path: &Path) -> Result<Vec<(String, Row)>, Error> {
    let text = match disk::read_text(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| Error::read(path, error))?,
    };
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len();
    let mut rows = Vec::with_capacity(last);
    for (index, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(row) => rows.push(((*line).to_owned(), row)),
            Err(_) if index + 1 == last => {}
            Err(error) => {
                // Each line is parsed alone, so the parser's line number is useless.
                let problem = error.to_string();
                let problem = problem.split(" at line").next().unwrap_or_default();
                return Err(Error::DamagedFile {
                    path: path.to_owned(),
                    problem: format!("line {}: {problem}", index + 1),
                });
            }
        }
    }
    Ok(rows)
}

/// Reads the origin of a run.
///
/// # Errors
/// If the file cannot be read, or is not an origin.
pub fn read_origin(directory: &Path) -> Result<Origin, Error> {
    read_json(&directory.join(ORIGIN_FILE))
}

/// Reads the configuration of a run, a TOML text.
///
/// # Errors
/// If this is not a run, or the file cannot be read.
pub fn experiment_text(directory: &Path) -> Result<String, Error> {
    let path = directory.join(EXPERIMENT_FILE);
    match disk::read_text(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(Error::NoRun(directory.to_owned()))
        }
        text => text.map_err(|error| Error::read(&path, error)),
    }
}

/// Reads a JSON file.
///
/// # Errors
/// If the file cannot be read, or is not JSON of this type.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = disk::read_text(path).map_err(|error| Error::read(path, error))?;
    serde_json::from_str(&text).map_err(|error| Error::DamagedFile {
        path: path.to_owned(),
        problem: error.to_string(),
    })
}

/// Writes a JSON file, completely or not at all.
///
/// # Errors
/// If the value cannot be written as JSON, or the file cannot be written.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| Error::DamagedFile {
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    text.push(b'\n');
    write_atomically(path, &text)
}

/// Returns an error if no file can be written at the path because it holds something else.
///
/// # Errors
/// If there is a link, a device, a pipe or a folder.
pub fn check_target(path: &Path) -> Result<(), Error> {
    disk::check_target(path).map_err(|error| Error::write(path, error))
}

/// Writes a regular file under a temporary name, syncs it and renames it.
///
/// # Errors
/// If the file cannot be written, or the path holds something other than a file.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    match disk::replace(path, bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::write(path, error)),
    }
}

/// A random number that identifies a run, in hexadecimal digits.
///
/// # Errors
/// If the operating system gives no random numbers.
pub fn new_identity() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::read(
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

    fn create(directory: &Path) -> Result<Run, Error> {
        Run::create(directory, "seed = 1\n", Origin::default())
    }

    /// The run appears only when it is complete; an unfinished one leaves nothing.
    #[test]
    fn a_run_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("runs/./one/");
        let draft = Draft::begin(&directory).unwrap();
        fs::write(draft.path().join("README.md"), "half").unwrap();
        assert!(!directory.exists());
        assert!(matches!(create(&directory), Err(Error::RunLocked(_))));
        drop(draft);
        assert_eq!(names(&folder.path().join("runs")), Vec::<String>::new());

        let run = create(&directory).unwrap();
        run.check().unwrap();
        assert_eq!(names(&folder.path().join("runs")), ["one"]);
        assert_eq!(
            names(&directory),
            [".lock", "experiment.toml", "origin.json"]
        );
        assert!(matches!(create(&directory), Err(Error::RunExists(_))));
        assert!(matches!(Run::open(&directory), Err(Error::RunLocked(_))));
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

    /// Of those who begin at the same time, one makes the run and the others learn that it is taken.
    #[test]
    fn one_of_many_makes_the_run() {
        const MANY: usize = 4;
        let folder = tempfile::tempdir().unwrap();
        for round in 0..300 {
            let directory = folder.path().join(format!("run{round}"));
            let start = std::sync::Barrier::new(MANY);
            let attempt = |_| {
                start.wait();
                // The first ones draw back.
                if round % 2 == 0 {
                    drop(Draft::begin(&directory));
                }
                match create(&directory) {
                    Ok(run) => {
                        run.check().unwrap();
                        1
                    }
                    Err(Error::RunLocked(_) | Error::RunExists(_)) => 0,
                    Err(error) => panic!("{error}"),
                }
            };
            let made: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..MANY).map(|i| scope.spawn(move || attempt(i))).collect();
                threads.into_iter().map(|one| one.join().unwrap()).sum()
            });
            assert!(made <= 1, "{made} made {}", directory.display());
            // All may have met another who drew back.
            assert_eq!(made == 1, directory.exists());
            assert!(
                !directory
                    .with_file_name(format!(".run{round}.unfinished"))
                    .exists()
            );
        }
    }

    /// A folder that somebody created again belongs to them.
    #[cfg(unix)]
    #[test]
    fn a_run_that_was_taken_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("run");
        let mut old = create(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert!(matches!(old.check(), Err(Error::RunTaken(_))));
        let new = create(&directory).unwrap();
        assert!(matches!(old.record_saved(), Err(Error::RunTaken(_))));
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

    /// A run killed between the two writes of a resumption with other settings has either configuration.
    #[test]
    fn both_configurations_of_a_resumption_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("run");
        let [before, after] = ["seed = 1\n", "seed = 1\n\n[training]\nsteps = 2\n"];
        let mut run = create(&directory).unwrap();
        run.record(after, None).unwrap();
        assert_eq!(experiment_text(&directory).unwrap(), after);
        let origin = read_origin(&directory).unwrap();
        assert!(origin.has_written(before) && origin.has_written(after));
        assert!(!origin.has_written("seed = 2\n"));
    }
}
