//! Loops that are compiled for several instruction sets, the best of which is chosen at run time, and how they
//! share work among threads.

pub(crate) mod chunks;
pub(crate) mod lanes;
pub(crate) mod math;
pub(crate) mod room;
pub(crate) mod transpose;

use pulp::{Arch, Simd, WithSimd};
use std::sync::OnceLock;

/// A loop that is compiled for each instruction set.
pub(crate) trait Loop {
    type Output;
    /// Must be `inline(always)`, and so must everything that it calls.
    fn run(self) -> Self::Output;
}

struct Vectorised<L>(L);

impl<L: Loop> WithSimd for Vectorised<L> {
    type Output = L::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> L::Output {
        self.0.run()
    }
}

/// Runs a loop with the best instructions of this machine.
pub(crate) fn run<L: Loop>(work: L) -> L::Output {
    run_vectors(Vectorised(work))
}

/// The same for work with explicit vectors.
pub(crate) fn run_vectors<W: WithSimd>(work: W) -> W::Output {
    static ARCH: OnceLock<Arch> = OnceLock::new();
    ARCH.get_or_init(Arch::new).dispatch(work)
}
