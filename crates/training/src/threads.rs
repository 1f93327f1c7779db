//! The processor threads that an experiment's tensor operations run on.

use crate::Error;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Environment variable that sizes the thread pool, before `training.threads`.
pub const THREADS_VARIABLE: &str = "RAYON_NUM_THREADS";

/// Autodiff walks the graph of a whole sequence recursively.
const STACK: usize = 512 << 20;

/// A pool of threads with stacks large enough for the backward pass of long sequences. Every experiment has its own
/// pool, so that experiments run one after the other in a process each get the number of threads they ask for.
///
/// Work starts on a thread of the pool: from there, parallel operations neither hand all of their work to another
/// thread nor wait for it.
#[derive(Clone, Debug)]
pub struct Threads(Arc<ThreadPool>);

impl Threads {
    /// `count` threads, unless [`THREADS_VARIABLE`] is set.
    pub fn so_many(count: usize) -> Result<Self, Error> {
        match std::env::var_os(THREADS_VARIABLE) {
            Some(_) => Self::default_count(),
            None => Self::new(count),
        }
    }

    /// `count` threads, whatever [`THREADS_VARIABLE`] says.
    pub fn exactly(count: usize) -> Result<Self, Error> {
        Self::new(count)
    }

    /// As many as [`THREADS_VARIABLE`] says, or one per core.
    pub fn default_count() -> Result<Self, Error> {
        Self::new(0)
    }

    fn new(count: usize) -> Result<Self, Error> {
        let pool = ThreadPoolBuilder::new()
            .thread_name(|index| format!("training {index}"))
            .num_threads(count)
            .stack_size(STACK)
            .build();
        let pool = pool.map_err(|_| Error::Thread("training threads"))?;
        Ok(Self(Arc::new(pool)))
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs work on the pool; a panic becomes an error.
    pub fn run<T: Send, E: From<Error> + Send>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let caught = || catch_unwind(AssertUnwindSafe(work));
        self.install(caught)
            .unwrap_or_else(|_| Err(Error::Thread("training thread").into()))
    }

    /// Runs work on the pool.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.install(work)
    }
}
