//! PyTorch as a child process, which measures the same benchmarks on request.
//!
//! Its sources are in `crates/bench/pytorch` and are written to a temporary folder. Requests and answers are
//! lines of JSON (`peer.py`). It answers once its threads are asleep.

use crate::BenchError;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

/// Names and contents of its files.
const SOURCES: [(&str, &str); 14] = [
    ("peer.py", include_str!("../pytorch/peer.py")),
    ("work.py", include_str!("../pytorch/work.py")),
    (
        "pytorch_gtmm.py",
        include_str!("../pytorch/pytorch_gtmm.py"),
    ),
    (
        "pytorch_lstm.py",
        include_str!("../pytorch/pytorch_lstm.py"),
    ),
    (
        "pytorch_kernels.py",
        include_str!("../pytorch/pytorch_kernels.py"),
    ),
    (
        "pytorch_sequences.py",
        include_str!("../pytorch/pytorch_sequences.py"),
    ),
    (
        "pytorch_video.py",
        include_str!("../pytorch/pytorch_video.py"),
    ),
    (
        "pytorch_relational.py",
        include_str!("../pytorch/pytorch_relational.py"),
    ),
    (
        "pytorch_language.py",
        include_str!("../pytorch/pytorch_language.py"),
    ),
    (
        "pytorch_navigation.py",
        include_str!("../pytorch/pytorch_navigation.py"),
    ),
    (
        "pytorch_scenes.py",
        include_str!("../pytorch/pytorch_scenes.py"),
    ),
    (
        "pytorch_sv2p.py",
        include_str!("../pytorch/pytorch_sv2p.py"),
    ),
    (
        "pytorch_agents.py",
        include_str!("../pytorch/pytorch_agents.py"),
    ),
    (
        "pytorch_limits.py",
        include_str!("../pytorch/pytorch_limits.py"),
    ),
];

/// A Python process with PyTorch, waiting for requests.
pub struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// File that collects its standard error.
    complaints: PathBuf,
    /// Its first message.
    pub greeting: Greeting,
    // Removed when the peer ends.
    _folder: TempDir,
}

/// The peer's versions and benchmarks.
#[derive(Clone, Debug, Deserialize)]
pub struct Greeting {
    /// Version of PyTorch.
    pub torch: String,
    /// Version of Python.
    pub python: String,
    /// Names of the benchmarks that it can measure.
    pub works: Vec<String>,
}

/// A request to a peer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Request<'a> {
    /// Name of the benchmark.
    pub work: &'a str,
    /// Number of measurements.
    pub repetitions: usize,
    /// Number of runs before the first measurement.
    pub warm_up: usize,
    /// Processor threads.
    pub threads: usize,
    /// Whether to measure also under `torch.compile`.
    pub compiled: bool,
}

/// The peer's measurements.
#[derive(Clone, Debug, Deserialize)]
pub struct Answer {
    /// Milliseconds of each repetition, for each form of the same mathematics.
    pub times_ms: BTreeMap<String, Vec<f64>>,
    /// Milliseconds under `torch.compile`; empty if not requested or not available.
    pub compiled_ms: Vec<f64>,
    /// Parameters of a model.
    pub parameters: Option<usize>,
}

/// Any answer: a result or an error.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said<T> {
    Error { error: String },
    Good(T),
}

impl Peer {
    /// Starts `python` with the peer's program.
    pub fn start(python: &str, threads: usize) -> Result<Self, BenchError> {
        let unusable = |problem: String| BenchError::NoPeer {
            python: python.to_owned(),
            problem,
        };
        let folder =
            TempDir::new().map_err(|error| BenchError::write(std::env::temp_dir(), error))?;
        let complaints = folder.path().join("complaints");
        let child = command(python, folder.path(), &complaints, threads)?.spawn();
        let mut child = child.map_err(|error| unusable(error.to_string()))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both pipes were requested");
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

    /// Whether the peer can measure a benchmark.
    pub fn knows(&self, work: &str) -> bool {
        self.greeting.works.iter().any(|known| known == work)
    }

    /// Measures a benchmark.
    pub fn measure(&mut self, request: &Request) -> Result<Answer, BenchError> {
        let stopped = |problem: String| BenchError::PeerStopped {
            benchmark: request.work.to_owned(),
            problem,
        };
        let line =
            serde_json::to_string(request).expect("a request contains only strings and numbers");
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

/// The command; writes its files to `folder`.
fn command(
    python: &str,
    folder: &Path,
    complaints: &Path,
    threads: usize,
) -> Result<Command, BenchError> {
    for (name, text) in SOURCES {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| BenchError::write(path, error))?;
    }
    let file = File::create(complaints).map_err(|error| BenchError::write(complaints, error))?;
    let mut command = Command::new(python);
    command
        .arg(folder.join("peer.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(file)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // Makes glibc keep large buffers between steps, as our allocator does.
        .env("MALLOC_TRIM_THRESHOLD_", "8000000000")
        .env("MALLOC_MMAP_MAX_", "0")
        .env("TORCHINDUCTOR_CACHE_DIR", folder.join("compiled"))
        .env("OMP_NUM_THREADS", threads.to_string())
        .env("MKL_NUM_THREADS", threads.to_string());
    Ok(command)
}

/// Reads the next answer.
fn said<T: for<'a> Deserialize<'a>>(answers: &mut impl BufRead) -> std::io::Result<Said<T>> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Ends a child process that may have ended already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The last line that it wrote to standard error.
fn last_line(complaints: &Path) -> String {
    let text = std::fs::read(complaints).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or("it ended without a message".into(), |line| {
        line.trim().into()
    })
}
