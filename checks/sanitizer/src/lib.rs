//! The files of `mnemora-kernels` that hold unsafe code, with their tests, alone.
//!
//! ```sh
//! cd checks/sanitizer
//! RUSTFLAGS=-Zsanitizer=address cargo +nightly test --target x86_64-unknown-linux-gnu
//! ```

#![allow(dead_code)]

#[path = "../../../crates/kernels/src/flex/chunks.rs"]
mod chunks;
#[path = "../../../crates/kernels/src/flex/correlate.rs"]
mod correlate;
#[path = "../../../crates/kernels/src/flex/panels.rs"]
mod panels;

/// As in the crate itself.
fn simd<W: pulp::WithSimd>(work: W) -> W::Output {
    pulp::Arch::new().dispatch(work)
}
