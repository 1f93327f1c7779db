use std::path::PathBuf;

/// What can go wrong around an experiment. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Data sets and tasks.
    #[error(transparent)]
    Worlds(#[from] mnemora_worlds::Error),
    /// Building a model.
    #[error(transparent)]
    Model(#[from] mnemora_models::ModelError),
    /// A configuration that is wrong: which key, what it holds, what would be right.
    #[error("{0}")]
    Configuration(String),
    /// An experiment that is neither shipped nor a file.
    #[error("no experiment named '{name}'; {hint}")]
    UnknownExperiment {
        /// As given.
        name: String,
        /// What there is.
        hint: String,
    },
    /// A device that this program or this machine does not have.
    #[error("the device '{name}' cannot be used: {problem}")]
    Device {
        /// Its name.
        name: &'static str,
        /// What is missing, and what to do.
        problem: String,
    },
    /// The run directory is in use already.
    #[error(
        "{} exists already; continue it with `mnemora resume {}` or choose another --out",
        .0.display(), crate::quoted(&.0.display().to_string())
    )]
    RunExists(PathBuf),
    /// A new run's directory holds something else.
    #[error("{} exists already and is no run; choose another --out", .0.display())]
    NotEmpty(PathBuf),
    /// A directory that is no run.
    #[error("{} is no run: {}", .0.display(), match .0.is_dir() {
        true => "it has no experiment.toml",
        false => "there is no such folder",
    })]
    NoRun(PathBuf),
    /// Another process works on the run.
    #[error("{} is in use by another process; wait for its end or stop it", .0.display())]
    RunLocked(PathBuf),
    /// A run's folder is not the one any more that this process works on.
    #[error(
        "{} was removed, moved or made anew while this process worked on it; it stops, and what lies there \
         now stays as it is", .0.display()
    )]
    RunTaken(PathBuf),
    /// A run without a usable checkpoint.
    #[error("{} has no usable checkpoint{detail}", .directory.display())]
    NoCheckpoint {
        /// The run.
        directory: PathBuf,
        /// Why the last one could not be used, if there was one.
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
    /// Weights that do not belong to this model.
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
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}{hint}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
        /// What is still safe.
        hint: String,
    },
    /// Training met a number that is not finite.
    #[error(
        "step {step}: {what} is not finite; training stopped before using it, {}",
        match .checkpoint {
            Some(checkpoint) => format!("the state is in {}", checkpoint.display()),
            None => "there is no checkpoint yet".to_owned(),
        }
    )]
    NonFinite {
        /// The step that was being made.
        step: u64,
        /// The term or the parameter.
        what: String,
        /// Where the last state that can be used was saved.
        checkpoint: Option<PathBuf>,
    },
    /// A held-out number that is not finite.
    #[error(
        "{what} is {value}, not a finite number: take an earlier checkpoint, or train with a smaller \
         training.learning_rate"
    )]
    NonFiniteScore {
        /// Which one.
        what: &'static str,
        /// What it is.
        value: f64,
    },
    /// A picture could not be drawn or written.
    #[error(transparent)]
    Picture(#[from] mnemora_figures::FigureError),
    /// There is no PyTorch to measure against.
    #[error(
        "no PyTorch to measure against: {python}: {problem}; name a Python that has it with \
         --peer PYTHON, or measure mnemora alone with --peer none"
    )]
    NoPeer {
        /// The interpreter.
        python: String,
        /// Why it cannot be used.
        problem: String,
    },
    /// The peer of a benchmark failed at a work.
    #[error("the PyTorch peer failed at {work}: {problem}")]
    PeerStopped {
        /// The work.
        work: String,
        /// What it said last.
        problem: String,
    },
    /// A thread of the program stopped.
    #[error("the {0} stopped unexpectedly")]
    Thread(&'static str),
}

impl LabError {
    /// 1 for what failed while running, 2 for wrong use and bad input.
    pub fn exit_code(&self) -> u8 {
        use mnemora_worlds::Error::{PrefetchNotStarted, PrefetchStopped};
        use std::io::ErrorKind;
        match self {
            // A path where no file can be is bad input, not a failure.
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
            Self::Worlds(PrefetchNotStarted { .. } | PrefetchStopped { .. })
            | Self::Write { .. }
            | Self::Picture(_)
            | Self::NonFinite { .. }
            | Self::NonFiniteScore { .. }
            | Self::RunTaken(_)
            | Self::PeerStopped { .. }
            | Self::Thread(_) => 1,
            _ => 2,
        }
    }

    pub(crate) fn read(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Read {
            path: path.into(),
            source,
        }
    }

    pub(crate) fn write(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Write {
            path: path.into(),
            source,
            hint: String::new(),
        }
    }
}
