//! Complex vectors stored in a buffer of floats.

use crate::flex::conv::fourier::Complex;
use pulp::Simd;
use std::cell::RefCell;

/// Channels are padded with zeros to a multiple of this: the lanes of the widest vectors.
pub(super) const CHANNELS: usize = 16;

/// The number of channels after padding.
pub(super) fn filled(channels: usize) -> usize {
    channels.next_multiple_of(CHANNELS)
}

thread_local! {
    /// Kept for the next call, so that it need not be zeroed again.
    pub(super) static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Cuts pieces of the given numbers of complex vectors out of `values`, aligned to vectors, with arbitrary
/// contents.
#[inline(always)]
pub(super) fn pieces<S: Simd, const N: usize>(
    values: &mut Vec<f32>,
    sizes: [usize; N],
) -> [&mut [Complex<S>]; N] {
    let lanes = S::F32_LANES;
    let needed = (2 * sizes.iter().sum::<usize>() + 1) * lanes;
    if values.len() < needed {
        values.resize(needed, 0.0);
    }
    let start = values.as_ptr().align_offset(lanes * size_of::<f32>());
    let mut rest = complex_mut::<S>(&mut values[start.min(lanes)..]);
    sizes.map(|size| {
        let piece;
        (piece, rest) = std::mem::take(&mut rest).split_at_mut(size);
        piece
    })
}

#[inline(always)]
pub(super) fn complex<S: Simd>(values: &[f32]) -> &[Complex<S>] {
    S::as_simd_f32s(values).0.as_chunks::<2>().0
}

#[inline(always)]
pub(super) fn complex_mut<S: Simd>(values: &mut [f32]) -> &mut [Complex<S>] {
    S::as_mut_simd_f32s(values).0.as_chunks_mut::<2>().0
}

/// The vectors as floats.
#[inline(always)]
pub(super) fn floats<S: Simd>(vectors: &[Complex<S>]) -> &[f32] {
    pulp::bytemuck::cast_slice(vectors.as_flattened())
}

#[inline(always)]
pub(super) fn floats_mut<S: Simd>(vectors: &mut [Complex<S>]) -> &mut [f32] {
    pulp::bytemuck::cast_slice_mut(vectors.as_flattened_mut())
}
