//! Sums over the lanes of vectors, in the same order for every instruction set.

/// Partial sums of a row: the number of lanes of the widest vectors.
pub(crate) const LANES: usize = 16;

/// The sum of the lanes by repeated halving, which takes fewer steps than adding them one by one.
#[inline(always)]
pub(crate) fn total(mut sums: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += a * b;
    }
    total(sums)
}

/// `target += factor * row`
#[inline(always)]
pub(crate) fn add_scaled(target: &mut [f32], factor: f32, row: &[f32]) {
    for (target, value) in target.iter_mut().zip(row) {
        *target += factor * value;
    }
}
