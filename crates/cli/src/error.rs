use mnemora_bench::BenchError;
use mnemora_lab::{LabError, TrainingError};

/// Errors of a command. Every message is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Experiments and runs.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Benchmarks.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

impl From<TrainingError> for Error {
    fn from(error: TrainingError) -> Self {
        Self::Lab(error.into())
    }
}

impl Error {
    /// 1 for a failure while running, 2 for wrong usage or bad input.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Lab(error) => error.exit_code(),
            Self::Bench(error) => error.exit_code(),
        }
    }
}
