//! PyTorch as a child process that measures the same works when it is asked.
//!
//! Its sources lie in `crates/lab/bench` and are written to a temporary folder. It is asked and answers in
//! lines of JSON (`peer.py`), and answers once its threads sleep.

use crate::LabError;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

/// Name and text of its files.
const SOURCES: [(&str, &str); 10] = [
    ("peer.py", include_str!("../../bench/peer.py")),
    ("work.py", include_str!("../../bench/work.py")),
    (
        "pytorch_gtmm.py",
        include_str!("../../bench/pytorch_gtmm.py"),
    ),
    (
        "pytorch_lstm.py",
        include_str!("../../bench/pytorch_lstm.py"),
    ),
    (
        "pytorch_kernels.py",
        include_str!("../../bench/pytorch_kernels.py"),
    ),
    (
        "pytorch_sequences.py",
        include_str!("../../bench/pytorch_sequences.py"),
    ),
    (
        "pytorch_video.py",
        include_str!("../../bench/pytorch_video.py"),
    ),
    (
        "pytorch_relational.py",
        include_str!("../../bench/pytorch_relational.py"),
    ),
    (
        "pytorch_language.py",
        include_str!("../../bench/pytorch_language.py"),
    ),
    (
        "pytorch_limits.py",
        include_str!("../../bench/pytorch_limits.py"),
    ),
];

/// A Python with PyTorch, waiting for requests.
pub struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// What it writes to standard error.
    complaints: PathBuf,
    /// What it said when it started.
    pub greeting: Greeting,
    // Removed when the peer ends.
    _folder: TempDir,
}

/// Who a peer is.
#[derive(Clone, Debug, Deserialize)]
pub struct Greeting {
    /// Version of PyTorch.
    pub torch: String,
    /// Version of Python.
    pub python: String,
    /// Works that it knows.
    pub works: Vec<String>,
}

/// What a peer is asked for.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Request<'a> {
    /// Name of the work.
    pub work: &'a str,
    /// Times to measure.
    pub repetitions: usize,
    /// Times to do it before.
    pub warm_up: usize,
    /// Processor threads.
    pub threads: usize,
    /// Whether to measure it under `torch.compile` too.
    pub compiled: bool,
}

/// What it measured.
#[derive(Clone, Debug, Deserialize)]
pub struct Answer {
    /// Milliseconds of each repetition, by form of the same mathematics.
    pub times_ms: BTreeMap<String, Vec<f64>>,
    /// Milliseconds under `torch.compile`; none if it was not asked for or has no such form.
    pub compiled_ms: Vec<f64>,
    /// Parameters of a model.
    pub parameters: Option<usize>,
}

/// An answer to anything.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said<T> {
    Error { error: String },
    Good(T),
}

impl Peer {
    /// Starts `python` with the peer's program.
    pub fn start(python: &str, threads: usize) -> Result<Self, LabError> {
        let unusable = |problem: String| LabError::NoPeer {
            python: python.to_owned(),
            problem,
        };
        let folder =
            TempDir::new().map_err(|error| LabError::write(std::env::temp_dir(), error))?;
        let complaints = folder.path().join("complaints");
        let child = command(python, folder.path(), &complaints, threads)?.spawn();
        let mut child = child.map_err(|error| unusable(error.to_string()))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped");
        };
        let mut answers = BufReader::new(answers);
        let greeting = match said(&mut answers) {
            Ok(Said::Good(greeting)) => greeting,
            Ok(Said::Error { error }) => return Err(unusable(error)),
            Err(_) => {
                end(&mut child);
                return Err(unusable(last_line(&complaints)));
            }
        };
        Ok(Self {
            child,
            requests,
            answers,
            complaints,
            greeting,
            _folder: folder,
        })
    }

    /// Whether it knows a work.
    pub fn knows(&self, work: &str) -> bool {
        self.greeting.works.iter().any(|known| known == work)
    }

    /// Has a work measured.
    pub fn measure(&mut self, request: &Request) -> Result<Answer, LabError> {
        let stopped = |problem: String| LabError::PeerStopped {
            work: request.work.to_owned(),
            problem,
        };
        let line = serde_json::to_string(request).expect("a request holds texts and numbers");
        let asked = writeln!(self.requests, "{line}").and_then(|()| self.requests.flush());
        match asked.and_then(|()| said(&mut self.answers)) {
            Ok(Said::Good(answer)) => Ok(answer),
            Ok(Said::Error { error }) => Err(stopped(error)),
            Err(_) => {
                end(&mut self.child);
                Err(stopped(last_line(&self.complaints)))
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// The command, its files written to `folder`.
fn command(
    python: &str,
    folder: &Path,
    complaints: &Path,
    threads: usize,
) -> Result<Command, LabError> {
    for (name, text) in SOURCES {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| LabError::write(path, error))?;
    }
    let file = File::create(complaints).map_err(|error| LabError::write(complaints, error))?;
    let mut command = Command::new(python);
    command
        .arg(folder.join("peer.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(file)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // glibc keeps large buffers between steps, as our allocator does.
        .env("MALLOC_TRIM_THRESHOLD_", "8000000000")
        .env("MALLOC_MMAP_MAX_", "0")
        .env("TORCHINDUCTOR_CACHE_DIR", folder.join("compiled"))
        .env("OMP_NUM_THREADS", threads.to_string())
        .env("MKL_NUM_THREADS", threads.to_string());
    Ok(command)
}

/// The next line.
fn said<T: for<'a> Deserialize<'a>>(answers: &mut impl BufRead) -> std::io::Result<Said<T>> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Ends a child that may have ended already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The last thing that it said on standard error.
fn last_line(complaints: &Path) -> String {
    let text = std::fs::read(complaints).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or("it ended without a word".into(), |line| line.trim().into())
}
