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
#[path = "../../../crates/kernels/src/flex/conv/correlate.rs"]
mod correlate;
#[path = "../../../crates/kernels/src/flex/conv/field.rs"]
mod field;
#[path = "../../../crates/kernels/src/flex/conv/fourier.rs"]
mod fourier;
#[path = "../../../crates/kernels/src/flex/recurrent/panels.rs"]
mod panels;
#[path = "../../../crates/kernels/src/flex/dense/product.rs"]
mod product;
#[path = "../../../crates/kernels/src/flex/simd/mod.rs"]
mod simd;
#[path = "../../../crates/kernels/src/flex/conv/spectral/mod.rs"]
mod spectral;
#[path = "../../../crates/kernels/src/flex/dense/vectors.rs"]
mod vectors;

/// Where the files look for each other.
mod flex {
    pub(crate) use crate::simd;
    pub(crate) mod conv {
        #[cfg(test)]
        pub(crate) use crate::field;
        pub(crate) use crate::fourier;
    }
}
