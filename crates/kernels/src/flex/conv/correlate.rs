//! The core of the convolutions: correlates padded images with a list of taps.
//!
//! A convolution of any stride, its gradients, and transposed convolutions all become sums `sum_{c, tap}
//! weight[k, c, tap] * field[c, tap + position]` with a fixed offset for each tap. For this the image is padded
//! and, for a stride `s`, split into `s * s` phases: the pixels whose row and column have the same remainders
//! modulo `s`. Positions are `row * columns + column` of a phase, so a vector of neighbouring pixels is one
//! unaligned load.

#![allow(unsafe_code)]

use super::field::{Positions, SLACK, copy_row};
use pulp::{Simd, WithSimd};

/// Output channels of a tile.
pub(crate) const TILE: usize = 8;
/// Where the sums of a tile are written: pixel `(row, column)` of output channel `k` goes to `values[k * plane +
/// first + row * row_step + column * column_step]`.
pub(crate) struct Target<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) plane: usize,
    pub(crate) first: usize,
    pub(crate) row_step: usize,
    pub(crate) column_step: usize,
}

impl Target<'_> {
    /// Index after the last pixel of channel 0.
    fn end(&self, positions: Positions) -> usize {
        let last = (positions.rows - 1) * self.row_step;
        self.first + last + (positions.width - 1) * self.column_step + 1
    }
}

/// `target[k, position] = start[k] + sum_i weights[i, k] * field[offsets[i] + position]` for up to
/// [`TILE`] channels `k`.
pub(crate) struct Correlate<'a> {
    pub(crate) field: &'a [f32],
    /// Offsets of the pixels that each weight reads: the start of a channel plus a tap.
    pub(crate) offsets: &'a [usize],
    /// `[offsets, TILE]`
    pub(crate) weights: &'a [f32],
    /// Initial values of the sums. Its length is the number of channels to write.
    pub(crate) start: &'a [f32],
    pub(crate) positions: Positions,
    pub(crate) target: Target<'a>,
    /// At least `[TILE, positions.size()]`; its contents do not matter.
    pub(crate) scratch: &'a mut [f32],
}

impl WithSimd for Correlate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = S::F32_LANES;
        let positions = self.positions;
        let size = positions.size();
        let furthest = self.offsets.iter().copied().max().unwrap_or(0);
        let last = (positions.rows - 1) * positions.columns + positions.width;
        let channels = self.start.len();
        // The pointers below rely on these assertions.
        assert!(lanes * 2 <= SLACK && positions.width <= positions.columns);
        assert!(furthest + last + SLACK <= self.field.len());
        assert_eq!(self.weights.len(), self.offsets.len() * TILE);
        assert!((1..=TILE).contains(&channels) && self.scratch.len() >= TILE * size);
        let end = self.target.end(positions);
        assert!((channels - 1) * self.target.plane + end <= self.target.values.len());

        let mut start = [0.0; TILE];
        start[..channels].copy_from_slice(self.start);
        // Rows of whole vectors are written directly to the target, anything else through the scratch.
        let direct = channels == TILE
            && self.target.column_step == 1
            && positions.width.is_multiple_of(lanes);
        let ([runs, step, vectors], output, plane, output_step) = match direct {
            true => (
                [positions.rows, positions.columns, positions.width / lanes],
                self.target.values[self.target.first..].as_mut_ptr(),
                self.target.plane,
                self.target.row_step,
            ),
            false => {
                let runs = positions.runs(lanes, false);
                (runs, self.scratch.as_mut_ptr(), size, runs[1])
            }
        };
        let tile = Tile {
            field: self.field.as_ptr(),
            offsets: self.offsets,
            weights: self.weights.as_ptr(),
            start,
            output,
            plane,
        };
        let place = |index: usize| {
            let (run, vector) = (index / vectors, index % vectors * lanes);
            [run * step + vector, run * output_step + vector]
        };
        let total = runs * vectors;
        let mut index = 0;
        // SAFETY: a position is below `last` rounded up to a vector. By the assertions there are `SLACK`
        // elements, at least two vectors, after every offset. Writes go to whole rows of the target, whose end
        // was asserted, or to the scratch, whose rows have slack as well.
        unsafe {
            while index + 1 < total {
                let places = [place(index), place(index + 1)];
                match lanes >= 16 {
                    true => tile.compute::<S, TILE, 2>(simd, 0, places),
                    // With sixteen registers only half a tile fits.
                    false => {
                        tile.compute::<S, { TILE / 2 }, 2>(simd, 0, places);
                        tile.compute::<S, { TILE / 2 }, 2>(simd, TILE / 2, places);
                    }
                }
                index += 2;
            }
            if index < total {
                tile.compute::<S, TILE, 1>(simd, 0, [place(index)]);
            }
        }
        if !direct {
            self.copy(channels, size);
        }
    }
}

impl Correlate<'_> {
    /// Copies from the scratch to the target.
    #[inline(always)]
    fn copy(&mut self, channels: usize, size: usize) {
        let (positions, target) = (self.positions, &mut self.target);
        for (k, sums) in self.scratch.chunks_exact(size).take(channels).enumerate() {
            let plane = &mut target.values[k * target.plane + target.first..];
            for row in 0..positions.rows {
                let sums = &sums[row * positions.columns..][..positions.width];
                let pixels = &mut plane[row * target.row_step..];
                match target.column_step {
                    1 => copy_row(sums, &mut pixels[..positions.width]),
                    2 => {
                        let last = positions.width - 1;
                        let pairs = pixels[..2 * last].as_chunks_mut::<2>().0;
                        for (pair, sum) in pairs.iter_mut().zip(sums) {
                            pair[0] = *sum;
                        }
                        pixels[2 * last] = sums[last];
                    }
                    step => {
                        for (pixel, sum) in pixels.iter_mut().step_by(step).zip(sums) {
                            *pixel = *sum;
                        }
                    }
                }
            }
        }
    }
}

/// Some vectors of positions for all channels of a tile.
struct Tile<'a> {
    field: *const f32,
    offsets: &'a [usize],
    weights: *const f32,
    start: [f32; TILE],
    output: *mut f32,
    plane: usize,
}

impl Tile<'_> {
    /// Computes the vectors at `V` places, in the field and in the output, for `K` output channels starting at
    /// `first`.
    ///
    /// # Safety
    /// There must be a vector at `field + offset + place` for each offset and place, and at
    /// `output + k * plane + place` for each output channel and place; `weights` must be
    /// `[offsets, TILE]`.
    #[inline(always)]
    unsafe fn compute<S: Simd, const K: usize, const V: usize>(
        &self,
        simd: S,
        first: usize,
        places: [[usize; 2]; V],
    ) {
        let mut sums: [[S::f32s; V]; K] =
            std::array::from_fn(|k| [simd.splat_f32s(self.start[first + k]); V]);
        // SAFETY: the caller's promise; weights advance by TILE for each offset.
        unsafe {
            let mut weights = self.weights.add(first);
            let fields: [*const f32; V] = std::array::from_fn(|v| self.field.add(places[v][0]));
            for offset in self.offsets {
                let pixels: [S::f32s; V] =
                    std::array::from_fn(|v| load::<S>(fields[v].add(*offset)));
                for (k, sums) in sums.iter_mut().enumerate() {
                    let weight = simd.splat_f32s(*weights.add(k));
                    for (sum, pixels) in sums.iter_mut().zip(pixels) {
                        *sum = simd.mul_add_f32s(weight, pixels, *sum);
                    }
                }
                weights = weights.add(TILE);
            }
            for (k, sums) in sums.into_iter().enumerate() {
                let output = self.output.add((first + k) * self.plane);
                for (sum, place) in sums.into_iter().zip(places) {
                    store::<S>(output.add(place[1]), sum);
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

/// The most output channels that are processed together.
const ROWS: usize = 8;

/// `sums[k, column] += sum_{image, position} gradient[image, k, position] *
/// field[image, columns[column] + position]`, where a column is a channel and a tap.
pub(crate) struct WeightGradient<'a> {
    /// `[images, field_size]`
    pub(crate) fields: &'a [f32],
    pub(crate) field_size: usize,
    /// Offsets in a field: the start of a channel plus a tap.
    pub(crate) columns: &'a [usize],
    /// `[images, image]`; each image holds `[outputs, rows, width]` starting at `first`.
    pub(crate) gradient: &'a [f32],
    pub(crate) image: usize,
    pub(crate) first: usize,
    pub(crate) outputs: usize,
    pub(crate) positions: Positions,
    /// Grows as needed.
    pub(crate) scratch: &'a mut Vec<f32>,
    /// `[outputs, columns]`
    pub(crate) sums: &'a mut [f32],
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = S::F32_LANES;
        let positions = self.positions;
        let images = self.gradient.len() / self.image;
        let furthest = self.columns.iter().copied().max().unwrap_or(0);
        let last = (positions.rows - 1) * positions.columns + positions.width;
        let pixels = positions.rows * positions.width;
        // The pointers below rely on these assertions.
        assert!(lanes * 2 <= SLACK);
        assert!(positions.width <= positions.columns);
        assert!(self.first + self.outputs * pixels <= self.image);
        assert_eq!(self.gradient.len(), images * self.image);
        assert_eq!(self.fields.len(), images * self.field_size);
        assert!(furthest + last + SLACK <= self.field_size);
        assert_eq!(self.sums.len(), self.outputs * self.columns.len());

        // Offsets in the fields at which the vectors of all images start.
        let [runs, step, vectors] = positions.runs(lanes, true);
        let places: Vec<usize> = (0..images)
            .flat_map(|image| {
                (0..runs * vectors).map(move |index| {
                    let (run, vector) = (index / vectors, index % vectors);
                    image * self.field_size + run * step + vector * lanes
                })
            })
            .collect();
        let (outputs, columns) = (self.outputs, self.columns.len());
        let wide = lanes >= 16;
        let mut output = 0;
        while output < outputs {
            let rows = match outputs - output {
                8.. if wide => ROWS,
                4.. => 4,
                _ => 1,
            };
            let packed = self.pack(lanes, output, rows);
            let mut column = 0;
            while column < columns {
                let count = match columns - column {
                    3.. if wide || rows == 1 => 3,
                    2.. => 2,
                    _ => 1,
                };
                // SAFETY: there are `rows` outputs and `count` columns, and the gradient was packed for these
                // outputs.
                unsafe {
                    match (rows, count) {
                        (8, 3) => self.block::<S, 8, 3>(simd, packed, &places, output, column),
                        (8, 2) => self.block::<S, 8, 2>(simd, packed, &places, output, column),
                        (8, _) => self.block::<S, 8, 1>(simd, packed, &places, output, column),
                        (4, 3) => self.block::<S, 4, 3>(simd, packed, &places, output, column),
                        (4, 2) => self.block::<S, 4, 2>(simd, packed, &places, output, column),
                        (4, _) => self.block::<S, 4, 1>(simd, packed, &places, output, column),
                        (_, 3) => self.block::<S, 1, 3>(simd, packed, &places, output, column),
                        (_, 2) => self.block::<S, 1, 2>(simd, packed, &places, output, column),
                        _ => self.block::<S, 1, 1>(simd, packed, &places, output, column),
                    }
                }
                column += count;
            }
            output += rows;
        }
    }
}

impl WeightGradient<'_> {
    /// Packs the gradient of some output channels in the order in which it is read: `[vectors of all images,
    /// rows, lanes]`, zero between the rows of an image, aligned to vectors. Returns the index of its first
    /// element in the scratch.
    #[inline(always)]
    fn pack(&mut self, lanes: usize, output: usize, rows: usize) -> usize {
        let positions = self.positions;
        let [runs, step, vectors] = positions.runs(lanes, true);
        let pixels = positions.rows * positions.width;
        let per_image = runs * vectors * rows * lanes;
        let images = self.gradient.len() / self.image;
        self.scratch.clear();
        self.scratch.resize(images * per_image + lanes, 0.0);
        let aligned = lanes * size_of::<f32>();
        let start = self.scratch.as_ptr().align_offset(aligned).min(lanes);
        let images = self.gradient.chunks_exact(self.image);
        for (image, packed) in images.zip(self.scratch[start..].chunks_exact_mut(per_image)) {
            let planes = image[self.first + output * pixels..].chunks_exact(pixels);
            for (k, plane) in planes.take(rows).enumerate() {
                for (row, pixels) in plane.chunks_exact(positions.width).enumerate() {
                    // Place of the row's first pixel among the vectors, run after run.
                    let place = match step {
                        0 => row * positions.columns,
                        _ => row * vectors * lanes,
                    };
                    let mut left = pixels;
                    let mut place = place;
                    while !left.is_empty() {
                        let count = left.len().min(lanes - place % lanes);
                        let target = (place / lanes * rows + k) * lanes + place % lanes;
                        copy_row(&left[..count], &mut packed[target..target + count]);
                        left = &left[count..];
                        place += count;
                    }
                }
            }
        }
        start
    }

    /// The sums of `K` outputs and `T` columns over all positions.
    ///
    /// # Safety
    /// There must be `K` outputs from `output` on and `T` columns from `column` on, their gradient must be
    /// packed in the scratch from `packed` on, and the assertions of `with_simd` must hold.
    #[inline(always)]
    unsafe fn block<S: Simd, const K: usize, const T: usize>(
        &mut self,
        simd: S,
        packed: usize,
        places: &[usize],
        output: usize,
        column: usize,
    ) {
        let lanes = S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); T]; K];
        // SAFETY: every position read is below `last` rounded up to a vector, which `SLACK` covers
        // in the fields; the packed gradient has `K` vectors for every place.
        unsafe {
            let mut gradient = self.scratch.as_ptr().add(packed);
            let fields: [*const f32; T] = std::array::from_fn(|t| {
                self.fields
                    .as_ptr()
                    .add(*self.columns.get_unchecked(column + t))
            });
            for place in places {
                let pixels: [S::f32s; T] =
                    std::array::from_fn(|t| load::<S>(fields[t].add(*place)));
                for (k, sums) in sums.iter_mut().enumerate() {
                    let gradient = load::<S>(gradient.add(k * lanes));
                    for (sum, pixels) in sums.iter_mut().zip(pixels) {
                        *sum = simd.mul_add_f32s(gradient, pixels, *sum);
                    }
                }
                gradient = gradient.add(K * lanes);
            }
        }
        let columns = self.columns.len();
        for (sums, row) in sums
            .into_iter()
            .zip(self.sums[output * columns..].chunks_exact_mut(columns))
        {
            for (kept, sum) in row[column..].iter_mut().zip(sums) {
                *kept += simd.reduce_sum_f32s(sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers;
    use crate::flex::conv::field::Field;
    use pulp::{Scalar, Scalar128b, Scalar256b, Scalar512b};

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
                padding: [0, 0],
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
        let offsets: Vec<usize> = (0..field.channels)
            .flat_map(|channel| taps.iter().map(move |tap| channel * field.channel() + tap))
            .collect();
        let weights = numbers(offsets.len() * TILE, 2);
        let start = numbers(TILE, 5);
        for (channels, column_step) in [(TILE, 1), (TILE, 2), (3, 1), (1, 3)] {
            let row_step = positions.width * column_step + 1;
            let plane = positions.rows * row_step + 5;
            // NaN shows a vector that was written too far.
            let mut output = vec![f32::NAN; channels * plane];
            let work = Correlate {
                field: &pixels,
                offsets: &offsets,
                weights: &weights,
                start: &start[..channels],
                positions: *positions,
                target: Target {
                    values: &mut output,
                    plane,
                    first: 4,
                    row_step,
                    column_step,
                },
                scratch: &mut vec![f32::NAN; TILE * positions.size()],
            };
            simd.vectorize(work);
            let mut written = 0;
            for k in 0..channels {
                for (row, column) in
                    (0..positions.rows).flat_map(|r| (0..positions.width).map(move |c| (r, c)))
                {
                    let position = row * positions.columns + column;
                    let terms = offsets.iter().zip(weights.chunks_exact(TILE));
                    let sum: f64 = terms
                        .map(|(offset, w)| f64::from(w[k]) * f64::from(pixels[offset + position]))
                        .sum();
                    let expected = sum + f64::from(start[k]);
                    let place = k * plane + 4 + row * row_step + column * column_step;
                    let found = f64::from(output[place]);
                    assert!(
                        (found - expected).abs() < 1e-4,
                        "{} lanes, {field:?}: {found} {expected}",
                        S::F32_LANES
                    );
                    written += 1;
                }
            }
            assert_eq!(output.iter().filter(|x| !x.is_nan()).count(), written);
        }
    }

    fn weight_gradient<S: Simd>(simd: S, case: &(Field, Vec<usize>, Positions), outputs: usize) {
        let (field, taps, positions) = case;
        let images = 2;
        let pixels = numbers(images * field.size(), 3);
        let area = positions.rows * positions.width;
        // The kernel's channels are not the first ones of the image.
        let (first, image) = (area, (outputs + 2) * area);
        let gradient = numbers(images * image, 4);
        let columns: Vec<usize> = (0..field.channels)
            .flat_map(|channel| taps.iter().map(move |tap| channel * field.channel() + tap))
            .collect();
        let mut sums = vec![0.5; outputs * columns.len()];
        let work = WeightGradient {
            fields: &pixels,
            field_size: field.size(),
            columns: &columns,
            gradient: &gradient,
            image,
            first,
            outputs,
            positions: *positions,
            scratch: &mut vec![f32::NAN; 3],
            sums: &mut sums,
        };
        simd.vectorize(work);
        for output in 0..outputs {
            for (index, column) in columns.iter().enumerate() {
                let mut expected = 0.0_f64;
                for n in 0..images {
                    let gradient = &gradient[n * image + first + output * area..][..area];
                    let pixels = &pixels[n * field.size() + column..];
                    for (row, gradient) in gradient.chunks_exact(positions.width).enumerate() {
                        let pixels = &pixels[row * positions.columns..];
                        let pairs = gradient.iter().zip(pixels);
                        let row: f64 = pairs.map(|(g, x)| f64::from(*g) * f64::from(*x)).sum();
                        expected += row;
                    }
                }
                let found = sums[output * columns.len() + index] - 0.5;
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
            for outputs in [1, 4, 7, 9] {
                weight_gradient(simd, &case, outputs);
            }
        }
    }

    /// Runs the checks with the machine's own instructions.
    struct Check;

    impl WithSimd for Check {
        type Output = ();

        fn with_simd<S: Simd>(self, simd: S) {
            check(simd);
        }
    }

    #[test]
    fn every_width_of_vectors_gives_the_sums() {
        pulp::Arch::new().dispatch(Check);
        check(Scalar);
        check(Scalar128b);
        check(Scalar256b);
        check(Scalar512b);
    }
}
