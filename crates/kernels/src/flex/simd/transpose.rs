//! Transposes blocks of numbers, so that vectors can run across the memory order.

#![allow(unsafe_code)]

/// `to[j * to_step + i] = from[i * from_step + j]` for `i` below `rows` and `j` below `columns`.
///
/// # Panics
/// If an index is out of bounds.
#[inline(always)]
pub(crate) fn transpose(
    (from, from_step): (&[f32], usize),
    (to, to_step): (&mut [f32], usize),
    [rows, columns]: [usize; 2],
) {
    if rows == 0 || columns == 0 {
        return;
    }
    // The blocks below rely on these assertions.
    assert!((rows - 1) * from_step + columns <= from.len());
    assert!((columns - 1) * to_step + rows <= to.len());
    let mut done = [0, 0];
    #[cfg(target_arch = "x86_64")]
    if rows >= 16 && columns >= 16 && is_x86_feature_detected!("avx512f") {
        done = [rows, columns].map(|size| size / 16 * 16);
        for (i, j) in pairs(done, 16) {
            // SAFETY: the machine has AVX-512, and the block is inside by the assertions.
            unsafe {
                let block = from.as_ptr().add(i * from_step + j);
                let target = to.as_mut_ptr().add(j * to_step + i);
                block_of_16(block, from_step, target, to_step);
            }
        }
    } else if rows >= 8 && columns >= 8 && is_x86_feature_detected!("avx") {
        done = [rows, columns].map(|size| size / 8 * 8);
        for (i, j) in pairs(done, 8) {
            // SAFETY: the machine has AVX, and the block is inside by the assertions.
            unsafe {
                let block = from.as_ptr().add(i * from_step + j);
                let target = to.as_mut_ptr().add(j * to_step + i);
                block_of_8(block, from_step, target, to_step);
            }
        }
    }
    for i in 0..rows {
        let first = if i < done[0] { done[1] } else { 0 };
        for j in first..columns {
            to[j * to_step + i] = from[i * from_step + j];
        }
    }
}

/// Multiples of `step` below the given sizes.
#[cfg(target_arch = "x86_64")]
fn pairs([rows, columns]: [usize; 2], step: usize) -> impl Iterator<Item = (usize, usize)> {
    let columns = move |i| (0..columns).step_by(step).map(move |j| (i, j));
    (0..rows).step_by(step).flat_map(columns)
}

/// # Safety
/// There must be 16 rows of 16 numbers at `from` and at `to`, `from_step` and `to_step` apart.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn block_of_16(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
    use std::arch::x86_64::*;
    let zero = _mm512_setzero_ps();
    let mut rows = [zero; 16];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *row = unsafe { _mm512_loadu_ps(from.add(i * from_step)) };
    }
    // `quarters[4 g + q]`: in each quarter L, column 4 L + q of rows 4 g to 4 g + 3.
    let mut quarters = [zero; 16];
    for (rows, quarters) in rows.chunks_exact(4).zip(quarters.chunks_exact_mut(4)) {
        let pairs = [
            _mm512_unpacklo_ps(rows[0], rows[1]),
            _mm512_unpackhi_ps(rows[0], rows[1]),
            _mm512_unpacklo_ps(rows[2], rows[3]),
            _mm512_unpackhi_ps(rows[2], rows[3]),
        ]
        .map(|pair| _mm512_castps_pd(pair));
        quarters[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs[0], pairs[2]));
        quarters[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[0], pairs[2]));
        quarters[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs[1], pairs[3]));
        quarters[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[1], pairs[3]));
    }
    for q in 0..4 {
        let [a, b, c, d] = [0, 4, 8, 12].map(|g| quarters[g + q]);
        let even = [
            _mm512_shuffle_f32x4::<0x88>(a, b),
            _mm512_shuffle_f32x4::<0x88>(c, d),
        ];
        let odd = [
            _mm512_shuffle_f32x4::<0xdd>(a, b),
            _mm512_shuffle_f32x4::<0xdd>(c, d),
        ];
        let columns = [
            _mm512_shuffle_f32x4::<0x88>(even[0], even[1]),
            _mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]),
            _mm512_shuffle_f32x4::<0xdd>(even[0], even[1]),
            _mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]),
        ];
        for (quarter, column) in columns.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_ps(to.add((4 * quarter + q) * to_step), column) };
        }
    }
}

/// # Safety
/// There must be 8 rows of 8 numbers at `from` and at `to`, `from_step` and `to_step` apart.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn block_of_8(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
    use std::arch::x86_64::*;
    let zero = _mm256_setzero_ps();
    let mut rows = [zero; 8];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *row = unsafe { _mm256_loadu_ps(from.add(i * from_step)) };
    }
    // `halves[4 g + q]`: in each half L, column 4 L + q of rows 4 g to 4 g + 3.
    let mut halves = [zero; 8];
    for (rows, halves) in rows.chunks_exact(4).zip(halves.chunks_exact_mut(4)) {
        let pairs = [
            _mm256_unpacklo_ps(rows[0], rows[1]),
            _mm256_unpackhi_ps(rows[0], rows[1]),
            _mm256_unpacklo_ps(rows[2], rows[3]),
            _mm256_unpackhi_ps(rows[2], rows[3]),
        ]
        .map(|pair| _mm256_castps_pd(pair));
        halves[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(pairs[0], pairs[2]));
        halves[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(pairs[0], pairs[2]));
        halves[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(pairs[1], pairs[3]));
        halves[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(pairs[1], pairs[3]));
    }
    for q in 0..4 {
        let columns = [
            _mm256_permute2f128_ps::<0x20>(halves[q], halves[4 + q]),
            _mm256_permute2f128_ps::<0x31>(halves[q], halves[4 + q]),
        ];
        for (half, column) in columns.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_ps(to.add((4 * half + q) * to_step), column) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers;

    fn check(rows: usize, columns: usize, work: impl Fn(&[f32], usize, &mut [f32], usize)) {
        let (from_step, to_step) = (columns + 3, rows + 5);
        let from = numbers((rows - 1) * from_step + columns, 1);
        let mut to = vec![f32::NAN; (columns - 1) * to_step + rows];
        work(&from, from_step, &mut to, to_step);
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            assert_eq!(to[j * to_step + i], from[i * from_step + j], "{i} {j}");
        }
        let written = to.iter().filter(|x| !x.is_nan()).count();
        assert_eq!(written, rows * columns, "{rows}x{columns}");
    }

    #[test]
    fn rows_become_columns() {
        for (rows, columns) in [
            (1, 1),
            (3, 17),
            (8, 8),
            (16, 16),
            (16, 37),
            (33, 20),
            (9, 31),
        ] {
            check(rows, columns, |from, from_step, to, to_step| {
                transpose((from, from_step), (to, to_step), [rows, columns]);
            });
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn blocks_of_8_are_transposed() {
        if !is_x86_feature_detected!("avx") {
            eprintln!("skipped: this machine has no AVX");
            return;
        }
        check(8, 8, |from, from_step, to, to_step| {
            // SAFETY: the machine has AVX, and there are eight rows of eight.
            unsafe { block_of_8(from.as_ptr(), from_step, to.as_mut_ptr(), to_step) };
        });
    }
}
