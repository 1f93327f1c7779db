use mnemora_training::Error;
use std::path::PathBuf;

/// Errors of experiments. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Errors of training, run files and devices.
    #[error(transparent)]
    Training(Error),
    /// Errors of data sets and tasks.
    #[error(transparent)]
    Worlds(#[from] mnemora_worlds::Error),
    /// Errors of building a model.
    #[error(transparent)]
    Model(#[from] mnemora_models::ModelError),
    /// An invalid configuration: the key, its value, and what is allowed.
    #[error("{0}")]
    Configuration(String),
    /// The name of an experiment that is neither shipped nor a file.
    #[error("no experiment named '{name}'; {hint}")]
    UnknownExperiment {
        /// The name as given.
        name: String,
        /// What could have been meant.
        hint: String,
    },
    /// A picture could not be drawn or written.
    #[error(transparent)]
    Picture(#[from] mnemora_figures::FigureError),
}

impl LabError {
    /// 1 for failures while running, 2 for wrong usage and bad input.
    pub fn exit_code(&self) -> u8 {
        use mnemora_worlds::Error::{PrefetchNotStarted, PrefetchStopped};
        match self {
            Self::Training(error) => error.exit_code(),
            Self::Worlds(PrefetchNotStarted { .. } | PrefetchStopped { .. }) | Self::Picture(_) => {
                1
            }
            _ => 2,
        }
    }

    /// An error reading a file.
    pub fn read(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Error::read(path, source).into()
    }

    /// An error writing a file.
    pub fn write(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Error::write(path, source).into()
    }
}

/// A lab error that passed through a learner is unwrapped.
impl From<Error> for LabError {
    fn from(error: Error) -> Self {
        match error {
            Error::Learner { source, exit_code } => match source.downcast() {
                Ok(own) => *own,
                Err(source) => Self::Training(Error::Learner { source, exit_code }),
            },
            error => Self::Training(error),
        }
    }
}

impl From<LabError> for Error {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Training(error) => error,
            error => Self::Learner {
                exit_code: error.exit_code(),
                source: Box::new(error),
            },
        }
    }
}
