//! The processor threads that an experiment's tensor operations run on.

use crate::{Experiment, LabError};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Environment variable that sizes the thread pool, before `training.threads`.
pub const THREADS_VARIABLE: &str = "RAYON_NUM_THREADS";

/// Autodiff walks the tape of a whole sequence recursively.
const STACK: usize = 512 << 20;

/// A pool of threads, whose stacks hold the backward pass of long sequences. Every experiment has its own, so that
/// one after the other in a process runs on as many threads as it says.
///
/// Work begins on a thread of the pool: there, parallel operations neither hand all of their work to another
/// thread nor wait for it.
#[derive(Clone, Debug)]
pub(crate) struct Threads(Arc<ThreadPool>);

impl Threads {
    /// As many as the experiment says, unless the variable does.
    pub fn of(experiment: &Experiment) -> Result<Self, LabError> {
        Self::so_many(experiment.training.threads)
    }

    /// As many as `count`, unless the variable says otherwise.
    pub fn so_many(count: usize) -> Result<Self, LabError> {
        match std::env::var_os(THREADS_VARIABLE) {
            Some(_) => Self::default_count(),
            None => Self::new(count),
        }
    }

    /// As many as the variable says, or one a core.
    pub fn default_count() -> Result<Self, LabError> {
        Self::new(0)
    }

    fn new(count: usize) -> Result<Self, LabError> {
        let pool = ThreadPoolBuilder::new()
            .thread_name(|index| format!("training {index}"))
            .num_threads(count)
            .stack_size(STACK)
            .build();
        let pool = pool.map_err(|_| LabError::Thread("training threads"))?;
        Ok(Self(Arc::new(pool)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs work on them; one that panics is an error.
    pub fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        let caught = || catch_unwind(AssertUnwindSafe(work));
        self.install(caught)
            .unwrap_or(Err(LabError::Thread("training thread")))
    }

    /// Runs work on them.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.install(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Device, Outcome, Surroundings, Which, checkpoint, load_experiment, open, read_origin, train,
    };

    /// A second experiment in a process does not run on the first one's threads.
    #[test]
    fn every_experiment_has_its_own_number() {
        // The variable goes before every experiment.
        let said = std::env::var(THREADS_VARIABLE).ok();
        let surroundings = Surroundings {
            interrupted: &|| None,
            all_saved: &|_| (),
            quiet: true,
            command: "a test".into(),
            commit: "none".into(),
            device: Device::default(),
            continue_differently: false,
        };
        let folder = tempfile::tempdir().unwrap();
        for threads in [3, 1, 2] {
            let overrides = [
                format!("training.threads={threads}"),
                "training.steps=1".into(),
                "training.batch=2".into(),
                "task.longest=2".into(),
                "memory.lstm.hidden=4".into(),
                "evaluation.batches=1".into(),
                "evaluation.batch=2".into(),
                "evaluation.checkpoint_batches=1".into(),
            ];
            let mut experiment = load_experiment("copy", &overrides).unwrap();
            experiment.model.memory = crate::MemoryName::Lstm;
            let run = folder.path().join(threads.to_string());
            let trained = train(experiment, &run, None, &surroundings).unwrap();
            assert!(matches!(trained, Outcome::Finished(_)));
            let expected = match &said {
                Some(said) => said.parse().unwrap_or(threads),
                None => threads,
            };
            let state = checkpoint::load(&run, 1).unwrap().state;
            assert_eq!(state.threads, expected);
            assert_eq!(read_origin(&run).unwrap().threads, expected);
            let opened = open(&run, Which::Last, &[], None, &Device::default()).unwrap();
            let found = opened.ask(|_| Ok(rayon::current_num_threads())).unwrap();
            assert_eq!(found, expected);
        }
    }
}
