//! The engine of the convolutions: correlating padded images with a list of taps.
//!
//! A convolution of any stride, its gradients, and transposed convolutions all become sums
//! `sum_{c, tap} weight[k, c, tap] * field[c, tap + position]` with a fixed offset for each tap, once
//! the image is padded and, for a stride `s`, split into its `s * s` phases: pixels whose row and
//! column have the same remainder modulo `s`. Positions are `row * columns + column` of a phase, so a
//! vector of neighbouring pixels is one unaligned load.

#![allow(unsafe_code)]

use pulp::{Simd, WithSimd};

/// Output channels of a tile.
pub(super) const TILE: usize = 8;
/// Elements behind the last position that a vector may touch; at least two vectors of any machine.
pub(super) const SLACK: usize = 64;

/// Where the pixels of an image lie for correlation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Field {
    /// Image channels.
    pub(super) channels: usize,
    /// Rows of a phase, padding included.
    pub(super) rows: usize,
    /// Columns of a phase, padding included.
    pub(super) columns: usize,
    /// `s`; there are `s * s` phases.
    pub(super) stride: usize,
    /// Padding above and left of the image, before it is split.
    pub(super) padding: usize,
}

impl Field {
    /// Elements of a channel.
    pub(super) fn channel(&self) -> usize {
        self.stride * self.stride * self.rows * self.columns
    }

    /// Elements of the whole field, with slack.
    pub(super) fn size(&self) -> usize {
        self.channels * self.channel() + SLACK
    }

    /// Offset of the pixel `(row, column)`, counted in the padded image, within a channel.
    pub(super) fn offset(&self, row: usize, column: usize) -> usize {
        let s = self.stride;
        let phase = row % s * s + column % s;
        (phase * self.rows + row / s) * self.columns + column / s
    }

    /// Copies an image `[channels, height, width]` into a field whose padding is zero already. Rows
    /// and columns beyond the field are left out: no tap reads them.
    pub(super) fn fill(&self, image: &[f32], [height, width]: [usize; 2], field: &mut [f32]) {
        let s = self.stride;
        let channels = image.chunks_exact(height * width);
        for (pixels, field) in channels.zip(field.chunks_exact_mut(self.channel())) {
            for (row, pixels) in pixels.chunks_exact(width).enumerate() {
                let row = row + self.padding;
                if row / s >= self.rows {
                    continue;
                }
                for first in 0..s.min(width) {
                    let column = first + self.padding;
                    let start = self.offset(row, column);
                    let count = (width - first)
                        .div_ceil(s)
                        .min(self.columns.saturating_sub(column / s));
                    let target = &mut field[start..start + count];
                    match s {
                        1 => target.copy_from_slice(&pixels[..count]),
                        _ => {
                            let source = pixels[first..].iter().step_by(s);
                            target.iter_mut().zip(source).for_each(|(t, p)| *t = *p);
                        }
                    }
                }
            }
        }
    }
}

/// Positions to compute: `rows` rows of `width` pixels, `columns` apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Positions {
    pub(super) rows: usize,
    pub(super) width: usize,
    pub(super) columns: usize,
}

impl Positions {
    /// Elements that hold all positions, with slack.
    pub(super) fn size(&self) -> usize {
        self.rows * self.columns + SLACK
    }

    /// Runs of neighbouring positions, as first position and length in vectors: a row each, or all
    /// rows in one with the padding between them, whichever is less work. With `exact` a run may
    /// not reach into the pixels of the next row.
    fn runs(self, lanes: usize, exact: bool) -> (usize, usize, usize) {
        let by_row = self.rows * self.width.div_ceil(lanes);
        let total = (self.rows - 1) * self.columns + self.width;
        let whole = total.div_ceil(lanes);
        let fits = !exact || self.width.is_multiple_of(lanes) || self.rows == 1;
        match by_row <= whole && fits {
            true => (self.rows, self.columns, self.width.div_ceil(lanes)),
            false => (1, 0, whole),
        }
    }
}

/// `output[k, position] = sum_{c, tap} weights[c, tap, k] * field[c, taps[tap] + position]` for
/// [`TILE`] channels `k`.
pub(super) struct Correlate<'a> {
    pub(super) field: &'a [f32],
    /// Elements of a channel of the field.
    pub(super) channel: usize,
    /// Offsets within a channel.
    pub(super) taps: &'a [usize],
    /// `[channels, taps, TILE]`
    pub(super) weights: &'a [f32],
    pub(super) positions: Positions,
    /// `[TILE, positions.size()]`
    pub(super) output: &'a mut [f32],
}

impl WithSimd for Correlate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = S::F32_LANES;
        let channels = self.weights.len() / (self.taps.len() * TILE).max(1);
        let size = self.positions.size();
        let furthest = self.taps.iter().copied().max().unwrap_or(0);
        let last = (self.positions.rows - 1) * self.positions.columns + self.positions.width;
        // What the pointers below rest on.
        assert!(lanes * 2 <= SLACK && self.positions.width <= self.positions.columns);
        assert!(last + SLACK <= self.field.len());
        assert_eq!(self.output.len(), TILE * size);
        assert_eq!(self.weights.len(), channels * self.taps.len() * TILE);
        assert!(
            channels == 0
                || (channels - 1) * self.channel + furthest + last + SLACK <= self.field.len()
        );
        let (runs, step, vectors) = self.positions.runs(lanes, false);
        for run in 0..runs {
            let mut position = run * step;
            let end = position + vectors * lanes;
            while position < end {
                let tile = Tile {
                    // SAFETY: `position` is below `last`, and so within the field.
                    field: unsafe { self.field.as_ptr().add(position) },
                    channel: self.channel,
                    channels,
                    taps: self.taps,
                    weights: self.weights.as_ptr(),
                    // SAFETY: `position` is below `size`.
                    output: unsafe { self.output.as_mut_ptr().add(position) },
                    size,
                };
                let left = (end - position) / lanes;
                // SAFETY: by the assertions above, every tap of every channel at `position` has
                // `SLACK` elements, so two vectors, behind it, and so has every output row.
                unsafe {
                    match (lanes >= 16, left >= 2) {
                        (true, true) => {
                            tile.compute::<S, TILE, 2>(simd, 0);
                            position += 2 * lanes;
                        }
                        (true, false) => {
                            tile.compute::<S, TILE, 1>(simd, 0);
                            position += lanes;
                        }
                        // Sixteen registers hold half as much.
                        (false, true) => {
                            tile.compute::<S, { TILE / 2 }, 2>(simd, 0);
                            tile.compute::<S, { TILE / 2 }, 2>(simd, TILE / 2);
                            position += 2 * lanes;
                        }
                        (false, false) => {
                            tile.compute::<S, TILE, 1>(simd, 0);
                            position += lanes;
                        }
                    }
                }
            }
        }
    }
}

/// Some neighbouring positions for all channels of a tile.
struct Tile<'a> {
    field: *const f32,
    channel: usize,
    channels: usize,
    taps: &'a [usize],
    weights: *const f32,
    output: *mut f32,
    size: usize,
}

impl Tile<'_> {
    /// `V` vectors of positions for the `K` output channels from `first` on.
    ///
    /// # Safety
    /// `field + c * channel + tap` must have `V` vectors for each channel and tap, `output + k * size`
    /// for each of the output channels, and `weights` must be `[channels, taps, TILE]`.
    #[inline(always)]
    unsafe fn compute<S: Simd, const K: usize, const V: usize>(&self, simd: S, first: usize) {
        let lanes = S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); V]; K];
        // SAFETY: the caller's promise; weights advance by TILE for each channel and tap.
        unsafe {
            let mut weights = self.weights.add(first);
            for channel in 0..self.channels {
                let field = self.field.add(channel * self.channel);
                for tap in self.taps {
                    let pixels = field.add(*tap);
                    let pixels: [S::f32s; V] =
                        std::array::from_fn(|v| load::<S>(pixels.add(v * lanes)));
                    for (k, sums) in sums.iter_mut().enumerate() {
                        let weight = simd.splat_f32s(*weights.add(k));
                        for (sum, pixels) in sums.iter_mut().zip(pixels) {
                            *sum = simd.mul_add_f32s(weight, pixels, *sum);
                        }
                    }
                    weights = weights.add(TILE);
                }
            }
            for (k, sums) in sums.into_iter().enumerate() {
                let output = self.output.add((first + k) * self.size);
                for (v, sum) in sums.into_iter().enumerate() {
                    store::<S>(output.add(v * lanes), sum);
                }
            }
        }
    }
}

/// # Safety
/// There must be a vector's worth of elements at `from`.
#[inline(always)]
unsafe fn load<S: Simd>(from: *const f32) -> S::f32s {
    // SAFETY: the caller's promise; `S::f32s` is plain old data without invalid values.
    unsafe { from.cast::<S::f32s>().read_unaligned() }
}

/// # Safety
/// There must be room for a vector at `to`.
#[inline(always)]
unsafe fn store<S: Simd>(to: *mut f32, vector: S::f32s) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<S::f32s>().write_unaligned(vector) }
}

/// Channels of the gradient, and taps, that are worked on together.
const GRADIENTS: usize = 4;
const COLUMNS: usize = 6;
/// Partial sums for a weight, whatever the width of the machine's vectors.
pub(super) const PARTIAL: usize = 16;

/// `sums[k, column] += sum_position gradient[k, position] * field[columns[column] + position]`,
/// where a column is a channel and a tap.
pub(super) struct WeightGradient<'a> {
    pub(super) field: &'a [f32],
    /// Offsets in the field: `channel * field.channel() + tap`.
    pub(super) columns: &'a [usize],
    /// `[outputs, positions.size()]`, zero between rows.
    pub(super) gradient: &'a [f32],
    pub(super) outputs: usize,
    pub(super) positions: Positions,
    /// `[outputs, columns, PARTIAL]`: sums of positions that are equal modulo a vector's width.
    pub(super) sums: &'a mut [f32],
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = S::F32_LANES;
        let size = self.positions.size();
        let furthest = self.columns.iter().copied().max().unwrap_or(0);
        let last = (self.positions.rows - 1) * self.positions.columns + self.positions.width;
        // What the pointers below rest on.
        assert!(lanes <= PARTIAL && lanes * 2 <= SLACK);
        assert!(self.positions.width <= self.positions.columns);
        assert_eq!(self.gradient.len(), self.outputs * size);
        assert_eq!(self.sums.len(), self.outputs * self.columns.len() * PARTIAL);
        assert!(furthest + last + SLACK <= self.field.len());
        let mut output = 0;
        while output < self.outputs {
            let mut column = 0;
            // SAFETY: outputs and columns stay within their counts; see `block`.
            unsafe {
                if self.outputs - output >= GRADIENTS {
                    while column < self.columns.len() {
                        match (lanes >= 16, self.columns.len() - column) {
                            (true, COLUMNS..) => {
                                self.block::<S, GRADIENTS, COLUMNS>(simd, output, column);
                                column += COLUMNS;
                            }
                            (_, 2..) => {
                                self.block::<S, GRADIENTS, 2>(simd, output, column);
                                column += 2;
                            }
                            _ => {
                                self.block::<S, GRADIENTS, 1>(simd, output, column);
                                column += 1;
                            }
                        }
                    }
                    output += GRADIENTS;
                } else {
                    while column < self.columns.len() {
                        match self.columns.len() - column {
                            COLUMNS.. => {
                                self.block::<S, 1, COLUMNS>(simd, output, column);
                                column += COLUMNS;
                            }
                            _ => {
                                self.block::<S, 1, 1>(simd, output, column);
                                column += 1;
                            }
                        }
                    }
                    output += 1;
                }
            }
        }
    }
}

impl WeightGradient<'_> {
    /// The sums of `K` outputs and `T` columns over all positions.
    ///
    /// # Safety
    /// There must be so many outputs and columns from `output` and `column` on, and the assertions
    /// of `with_simd` must hold.
    #[inline(always)]
    unsafe fn block<S: Simd, const K: usize, const T: usize>(
        &mut self,
        simd: S,
        output: usize,
        column: usize,
    ) {
        let lanes = S::F32_LANES;
        let size = self.positions.size();
        let (runs, step, vectors) = self.positions.runs(lanes, true);
        let mut sums = [[simd.splat_f32s(0.0); T]; K];
        // SAFETY: every position read is below `last` rounded up to a vector, which `SLACK` covers
        // in the field and in each row of the gradient.
        unsafe {
            let gradient = self.gradient.as_ptr().add(output * size);
            let fields: [*const f32; T] = std::array::from_fn(|t| {
                self.field
                    .as_ptr()
                    .add(*self.columns.get_unchecked(column + t))
            });
            for run in 0..runs {
                for vector in 0..vectors {
                    let position = run * step + vector * lanes;
                    let gradients: [S::f32s; K] =
                        std::array::from_fn(|k| load::<S>(gradient.add(k * size + position)));
                    for (t, field) in fields.iter().enumerate() {
                        let pixels = load::<S>(field.add(position));
                        for (sums, gradient) in sums.iter_mut().zip(gradients) {
                            sums[t] = simd.mul_add_f32s(gradient, pixels, sums[t]);
                        }
                    }
                }
            }
            for (k, sums) in sums.into_iter().enumerate() {
                for (t, sum) in sums.into_iter().enumerate() {
                    let place = ((output + k) * self.columns.len() + column + t) * PARTIAL;
                    let kept = self.sums.as_mut_ptr().add(place);
                    store::<S>(kept, simd.add_f32s(load::<S>(kept), sum));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::{Scalar, Scalar128b, Scalar256b, Scalar512b};

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// Fields of several shapes with their taps and positions.
    fn cases() -> Vec<(Field, Vec<usize>, Positions)> {
        let mut cases = Vec::new();
        for (stride, kernel, [height, width]) in [
            (1, 1, [1, 1]),
            (1, 3, [5, 7]),
            (2, 3, [8, 8]),
            (3, 4, [3, 16]),
            (1, 5, [16, 32]),
            (2, 2, [4, 37]),
        ] {
            let reach = (kernel - 1) / stride;
            let field = Field {
                channels: 3,
                rows: height + reach,
                columns: width + reach,
                stride,
                padding: 0,
            };
            let taps = (0..kernel * kernel).map(|tap| field.offset(tap / kernel, tap % kernel));
            let positions = Positions {
                rows: height,
                width,
                columns: field.columns,
            };
            cases.push((field, taps.collect(), positions));
        }
        cases
    }

    fn correlate<S: Simd>(simd: S, case: &(Field, Vec<usize>, Positions)) {
        let (field, taps, positions) = case;
        let pixels = numbers(field.size(), 1);
        let weights = numbers(field.channels * taps.len() * TILE, 2);
        let mut output = vec![0.0; TILE * positions.size()];
        let work = Correlate {
            field: &pixels,
            channel: field.channel(),
            taps,
            weights: &weights,
            positions: *positions,
            output: &mut output,
        };
        simd.vectorize(work);
        for k in 0..TILE {
            for (row, column) in
                (0..positions.rows).flat_map(|r| (0..positions.width).map(move |c| (r, c)))
            {
                let position = row * positions.columns + column;
                let mut expected = 0.0_f64;
                for channel in 0..field.channels {
                    for (tap, offset) in taps.iter().enumerate() {
                        let weight = weights[(channel * taps.len() + tap) * TILE + k];
                        let pixel = pixels[channel * field.channel() + offset + position];
                        expected += f64::from(weight) * f64::from(pixel);
                    }
                }
                let found = f64::from(output[k * positions.size() + position]);
                assert!(
                    (found - expected).abs() < 1e-4,
                    "{} lanes, {field:?}: {found} {expected}",
                    S::F32_LANES
                );
            }
        }
    }

    fn weight_gradient<S: Simd>(simd: S, case: &(Field, Vec<usize>, Positions), outputs: usize) {
        let (field, taps, positions) = case;
        let pixels = numbers(field.size(), 3);
        let mut gradient = vec![0.0; outputs * positions.size()];
        let drawn = numbers(outputs * positions.rows * positions.width, 4);
        for (index, value) in drawn.into_iter().enumerate() {
            let (plane, place) = (
                index / (positions.rows * positions.width),
                index % (positions.rows * positions.width),
            );
            let (row, column) = (place / positions.width, place % positions.width);
            gradient[plane * positions.size() + row * positions.columns + column] = value;
        }
        let columns: Vec<usize> = (0..field.channels)
            .flat_map(|channel| taps.iter().map(move |tap| channel * field.channel() + tap))
            .collect();
        let mut sums = vec![0.0; outputs * columns.len() * PARTIAL];
        let work = WeightGradient {
            field: &pixels,
            columns: &columns,
            gradient: &gradient,
            outputs,
            positions: *positions,
            sums: &mut sums,
        };
        simd.vectorize(work);
        for output in 0..outputs {
            let gradient = &gradient[output * positions.size()..][..positions.size() - SLACK];
            for (index, column) in columns.iter().enumerate() {
                let pairs = gradient.iter().zip(&pixels[*column..]);
                let expected: f64 = pairs.map(|(g, x)| f64::from(*g) * f64::from(*x)).sum();
                let place = (output * columns.len() + index) * PARTIAL;
                let found: f32 = sums[place..place + PARTIAL].iter().sum();
                assert!(
                    (f64::from(found) - expected).abs() < 1e-3,
                    "{} lanes, {field:?}: {found} {expected}",
                    S::F32_LANES
                );
            }
        }
    }

    fn check<S: Simd>(simd: S) {
        for case in cases() {
            correlate(simd, &case);
            for outputs in [1, 4, 7] {
                weight_gradient(simd, &case, outputs);
            }
        }
    }

    /// The machine's own width is tested through the convolutions; these are all the others.
    #[test]
    fn every_width_of_vectors_gives_the_sums() {
        check(Scalar);
        check(Scalar128b);
        check(Scalar256b);
        check(Scalar512b);
    }
}
