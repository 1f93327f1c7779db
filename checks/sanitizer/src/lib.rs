//! The files of `mnemora-kernels` that hold unsafe code, and who leans on them, with their tests, alone.
//!
//! ```sh
//! cd checks/sanitizer
//! RUSTFLAGS=-Zsanitizer=address cargo +nightly test --target x86_64-unknown-linux-gnu
//! ```

#![allow(dead_code)]

#[cfg(test)]
mod check {
    /// As in the crate itself.
    pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        std::iter::repeat_with(next).take(count).collect()
    }
}
#[path = "../../../crates/kernels/src/flex/chunks.rs"]
mod chunks;
#[path = "../../../crates/kernels/src/flex/correlate.rs"]
mod correlate;
#[path = "../../../crates/kernels/src/flex/fourier.rs"]
mod fourier;
#[path = "../../../crates/kernels/src/flex/panels.rs"]
mod panels;
#[path = "../../../crates/kernels/src/flex/product.rs"]
mod product;
#[path = "../../../crates/kernels/src/flex/spectral.rs"]
mod spectral;
#[path = "../../../crates/kernels/src/flex/transpose.rs"]
mod transpose;

/// As in the crate itself.
fn simd<W: pulp::WithSimd>(work: W) -> W::Output {
    pulp::Arch::new().dispatch(work)
}
