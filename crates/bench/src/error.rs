use mnemora_lab::LabError;
use mnemora_training::StepFailure;
use std::path::PathBuf;

/// An error in a benchmark. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An error in an experiment, its data, or a file.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// An error with threads, devices or files.
    #[error(transparent)]
    Training(#[from] mnemora_training::Error),
    /// A model could not be built.
    #[error(transparent)]
    Model(#[from] mnemora_models::ModelError),
    /// A chart could not be drawn.
    #[error(transparent)]
    Figure(#[from] mnemora_figures::FigureError),
    /// There is no PyTorch to compare with.
    #[error(
        "cannot use PyTorch from {python}: {problem}; name a Python that has it with \
         --peer PYTHON, or measure mnemora alone with --peer none"
    )]
    NoPeer {
        /// The interpreter.
        python: String,
        /// Why it cannot be used.
        problem: String,
    },
    /// The peer failed during a benchmark.
    #[error("the PyTorch peer failed at {benchmark}: {problem}")]
    PeerStopped {
        /// The benchmark.
        benchmark: String,
        /// The last thing it said.
        problem: String,
    },
    /// No benchmark was selected.
    #[error("--only {text}: no benchmark has this in its name; the names are {}", .names.join(", "))]
    NoBenchmark {
        /// The text that names should contain.
        text: String,
        /// All names.
        names: Vec<String>,
    },
    /// A description of a length measurement could not be parsed.
    #[error("'{0}' is not MEMORY,TIME,SEGMENT")]
    NotALength(String),
    /// A child process failed.
    #[error("the measurement of {measurement} failed: {problem}")]
    Child {
        /// What it should have measured.
        measurement: String,
        /// The last thing it said.
        problem: String,
    },
    /// A loss or a gradient is not finite.
    #[error("the benchmark's {0} is not finite")]
    NonFinite(String),
    /// The training gave up.
    #[error("the benchmark's training gave up: {0}")]
    GivenUp(String),
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(String),
}

impl BenchError {
    /// The exit code: 1 for a failure while running, 2 for wrong usage or bad input.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Lab(error) => error.exit_code(),
            Self::Training(error) => error.exit_code(),
            Self::Model(_)
            | Self::NoPeer { .. }
            | Self::NoBenchmark { .. }
            | Self::NotALength(_) => 2,
            Self::Figure(_)
            | Self::PeerStopped { .. }
            | Self::Child { .. }
            | Self::NonFinite(_)
            | Self::GivenUp(_)
            | Self::Device(_) => 1,
        }
    }

    pub(crate) fn write(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        mnemora_training::Error::write(path, source).into()
    }

    pub(crate) fn read(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        mnemora_training::Error::read(path, source).into()
    }
}

impl From<StepFailure> for BenchError {
    fn from(failure: StepFailure) -> Self {
        match failure {
            StepFailure::Batch(error) => Self::Training(error),
            StepFailure::NonFinite { what, .. } => Self::NonFinite(what),
            StepFailure::GivenUp(why) => Self::GivenUp(why),
        }
    }
}
