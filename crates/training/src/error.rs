use std::path::PathBuf;

/// Errors of a training. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Errors of data sets and tasks.
    #[error(transparent)]
    Worlds(#[from] mnemora_worlds::Error),
    /// Errors of building a model.
    #[error(transparent)]
    Model(#[from] mnemora_models::ModelError),
    /// An invalid configuration: the key, its value, and what is allowed.
    #[error("{0}")]
    Configuration(String),
    /// A device that this program or this machine does not have.
    #[error("the device '{name}' cannot be used: {problem}")]
    Device {
        /// Its name.
        name: &'static str,
        /// What is missing, and how to get it.
        problem: String,
    },
    /// An unroll of an actor did not reach the learner.
    #[error("unroll {number} of actor {actor} was lost; this is a bug of the program")]
    LostUnroll {
        /// The number of the actor.
        actor: usize,
        /// The number of the unroll, from 0.
        number: u64,
    },
    /// The run directory is already in use.
    #[error(
        "{} already exists; continue it with `mnemora resume {}` or choose another --out",
        .0.display(), crate::shell::quoted(&.0.display().to_string())
    )]
    RunExists(PathBuf),
    /// The directory of a new run holds something else.
    #[error("{} already exists and is not a run; choose another --out", .0.display())]
    NotEmpty(PathBuf),
    /// A directory that is not a run.
    #[error("{} is not a run: {}", .0.display(), match .0.is_dir() {
        true => "it has no experiment.toml",
        false => "there is no such folder",
    })]
    NoRun(PathBuf),
    /// Another process is using the run.
    #[error("{} is in use by another process; wait until it ends, or stop it", .0.display())]
    RunLocked(PathBuf),
    /// The folder of the run was replaced while this process used it.
    #[error(
        "{} was removed, moved or recreated while this process was using it; it stops, and what is there now \
         stays as it is", .0.display()
    )]
    RunTaken(PathBuf),
    /// A run without a usable checkpoint.
    #[error("{} has no usable checkpoint{detail}", .directory.display())]
    NoCheckpoint {
        /// The run.
        directory: PathBuf,
        /// Why the last checkpoint could not be used, if there was one.
        detail: String,
    },
    /// A file of a run that cannot be understood.
    #[error("{}: {problem}", .path.display())]
    DamagedFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Weights that do not fit this model.
    #[error("{}: {problem}", .path.display())]
    WrongWeights {
        /// The file.
        path: PathBuf,
        /// Which tensor, what was found, what was expected.
        problem: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}{hint}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
        /// Which checkpoint is intact.
        hint: String,
    },
    /// A number that is not finite during training.
    #[error(
        "step {step}: {what} is not finite; training stopped before using it, {}",
        match .checkpoint {
            Some(checkpoint) => format!("the state is in {}", checkpoint.display()),
            None => "there is no checkpoint yet".to_owned(),
        }
    )]
    NonFinite {
        /// The failed step.
        step: u64,
        /// The term or the parameter.
        what: String,
        /// Where the last usable state was saved.
        checkpoint: Option<PathBuf>,
    },
    /// A learner that gave up.
    #[error("after step {step}: {why}; the state is in {}", .checkpoint.display())]
    GivenUp {
        /// The last step.
        step: u64,
        /// Why more steps would not help.
        why: String,
        /// The checkpoint that was written.
        checkpoint: PathBuf,
    },
    /// A held-out number that is not finite.
    #[error(
        "{what} is {value}, not a finite number: take an earlier checkpoint, or train with a smaller \
         training.learning_rate"
    )]
    NonFiniteScore {
        /// The name of the number.
        what: String,
        /// Its value.
        value: f64,
    },
    /// A thread of the program stopped unexpectedly.
    #[error("the {0} stopped unexpectedly")]
    Thread(&'static str),
    /// An error of a learner or of work after the training, with its exit code.
    #[error("{source}")]
    Learner {
        /// The message.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// See [`exit_code`](Error::exit_code).
        exit_code: u8,
    },
}

impl Error {
    /// 1 for failures while running, 2 for wrong usage and bad input.
    pub fn exit_code(&self) -> u8 {
        use mnemora_worlds::Error::{EnvironmentPanicked, PrefetchNotStarted, PrefetchStopped};
        use std::io::ErrorKind;
        match self {
            // A path where there cannot be a file is bad input, not a failure.
            Self::Write { source, .. }
                if matches!(
                    source.kind(),
                    ErrorKind::NotFound
                        | ErrorKind::NotADirectory
                        | ErrorKind::IsADirectory
                        | ErrorKind::AlreadyExists
                ) =>
            {
                2
            }
            Self::Worlds(
                EnvironmentPanicked { .. } | PrefetchNotStarted { .. } | PrefetchStopped { .. },
            )
            | Self::LostUnroll { .. }
            | Self::Write { .. }
            | Self::NonFinite { .. }
            | Self::NonFiniteScore { .. }
            | Self::GivenUp { .. }
            | Self::RunTaken(_)
            | Self::Thread(_) => 1,
            Self::Learner { exit_code, .. } => *exit_code,
            _ => 2,
        }
    }

    /// An error reading a file.
    pub fn read(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Read {
            path: path.into(),
            source,
        }
    }

    /// An error writing a file.
    pub fn write(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Write {
            path: path.into(),
            source,
            hint: String::new(),
        }
    }
}
