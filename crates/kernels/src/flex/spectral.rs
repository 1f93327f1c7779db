//! Convolutions of stride 1 by Fourier transforms.
//!
//! `y[o, i, j] = b[o] + sum_{c, s, t} w[o, c, s, t] x[c, i - s, j - t]` over a small range of shifts
//! becomes, for each frequency `f` in two dimensions, `Y[o, f] = sum_c W[o, c, f] X[c, f]`, if images
//! are followed by enough zeros that none meets its own repetition. All kernels of a bank share the
//! spectra of their images, and the cost of a frequency does not depend on their sizes.
//!
//! Vectors lie along channels. Rows are transformed two at a time, one as the real part and one as
//! the imaginary; then, for one frequency along the rows at a time, so that all stays in the cache:
//! columns are transformed, spectra multiplied, and the products transformed back.

use super::{
    chunks::{by_blocks, by_chunks},
    fourier::{Complex, Fourier, Strided},
    simd,
    transpose::transpose,
};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::{cell::RefCell, ops::Range};

/// Channels are filled up with zeros to a multiple of this: the lanes of the widest vectors.
const CHANNELS: usize = 16;
/// Images that are worked on together at most.
const TOGETHER: usize = 13;
/// Groups of images whose gradients are summed apart: a number that depends on their count alone, so
/// that results do not depend on the number of threads.
const GROUPS: usize = 8;

/// A convolution of stride 1 between images of which the channels, rows and columns are given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spectral {
    inputs: [usize; 3],
    outputs: [usize; 3],
    /// `s` and `t` run from here...
    least: [isize; 2],
    /// ...over so many.
    shifts: [usize; 2],
    /// Of rows and columns, `s` and `t`.
    fourier: [Fourier; 2],
}

/// Weights `[s, t, input channel, filled output channel]`.
pub(super) struct Table(Vec<f32>);

/// Spectra of weights `[frequency along rows, along columns, input channel, output vector]`, divided
/// by all that transforms back and forth multiply by.
pub(super) struct Spectra(Vec<f32>);

fn filled(channels: usize) -> usize {
    channels.next_multiple_of(CHANNELS)
}

impl Spectral {
    /// The convolution, where its shifts `s` and `t` lie in the given ranges and there are transforms long enough.
    pub(super) fn new(
        inputs: [usize; 3],
        outputs: [usize; 3],
        shifts: [Range<isize>; 2],
    ) -> Option<Self> {
        let fourier = |axis: usize| {
            let (input, output) = (inputs[axis + 1] as isize, outputs[axis + 1] as isize);
            let shifts = &shifts[axis];
            // Output i reads inputs i - s; those outside the image must be zeros.
            let length = (output - shifts.start).max(input + shifts.end - 1);
            Fourier::at_least(length.max(input).max(output) as usize)
        };
        Some(Self {
            inputs,
            outputs,
            least: [shifts[0].start, shifts[1].start],
            shifts: shifts.clone().map(|range| range.len()),
            fourier: [fourier(0)?, fourier(1)?],
        })
    }

    /// Roughly the multiplications and additions that it takes for so many images.
    pub(super) fn cost(&self, images: usize) -> usize {
        /// Of a transform of one signal; its operations are less dense than those of a product.
        const TRANSFORM: usize = 20;
        let [rows, columns] = [self.fourier[0].length(), self.fourier[1].length()];
        let (inputs, outputs) = (filled(self.inputs[0]), filled(self.outputs[0]));
        let half = self.fourier[1].half();
        let transforms = (inputs + outputs) * (rows / 2 * columns + half * rows) * TRANSFORM;
        let products = half * rows * 4 * self.inputs[0] * outputs;
        let weights = self.inputs[0] * outputs * half * rows * TRANSFORM;
        images * (transforms + products) + weights
    }

    /// Inputs and outputs, laid out alike.
    fn images<S: Simd>(&self) -> [Images<'_>; 2] {
        let sizes = [self.inputs, self.outputs];
        let steps = sizes.map(|[channels, rows, _]| (rows + 1) * filled(channels) / S::F32_LANES);
        let step = steps[0].max(steps[1]);
        sizes.map(|size| Images {
            size,
            fourier: &self.fourier,
            step,
        })
    }

    /// A table of weights in zeros.
    pub(super) fn table(&self) -> Table {
        let [s, t] = self.shifts;
        Table(vec![0.0; s * t * self.inputs[0] * filled(self.outputs[0])])
    }

    /// The place of a weight in a table.
    pub(super) fn place(&self, [s, t]: [isize; 2], input: usize, output: usize) -> usize {
        let [s, t] = [s - self.least[0], t - self.least[1]];
        let shift = s as usize * self.shifts[1] + t as usize;
        (shift * self.inputs[0] + input) * filled(self.outputs[0]) + output
    }

    /// Numbers in the spectra of weights, for one frequency along the rows.
    fn spectrum(&self) -> usize {
        self.fourier[0].length() * self.inputs[0] * filled(self.outputs[0]) * 2
    }

    /// Spectra of weights.
    pub(super) fn spectra(&self, table: &Table) -> Spectra {
        let size = self.spectrum();
        let values = by_chunks(
            self.fourier[1].half() * size,
            size,
            || (),
            |(), column, spectrum| {
                simd(WeightSpectrum {
                    shape: self,
                    table: &table.0,
                    column,
                    spectrum,
                });
            },
        );
        Spectra(values)
    }

    /// The outputs of images.
    pub(super) fn outputs(
        &self,
        spectra: &Spectra,
        inputs: &[f32],
        bias: Option<&[f32]>,
    ) -> Vec<f32> {
        let [input, output]: [usize; 2] = [self.inputs, self.outputs].map(|d| d.iter().product());
        let images = inputs.len() / input;
        by_blocks(images * output, output, TOGETHER, |first, outputs| {
            let images = TOGETHER.min(images - first);
            simd(Outputs {
                shape: self,
                spectra: &spectra.0,
                bias,
                inputs: &inputs[first * input..][..images * input],
                outputs,
            });
        })
    }

    /// The gradient of the weights from images and the gradients of their outputs.
    pub(super) fn gradient(&self, inputs: &[f32], outputs: &[f32]) -> Table {
        let [input, output]: [usize; 2] = [self.inputs, self.outputs].map(|d| d.iter().product());
        let images = inputs.len() / input;
        let share = images.div_ceil(GROUPS).max(1);
        let half = self.fourier[1].half();
        let size = half * self.shifts[0] * self.inputs[0] * filled(self.outputs[0]) * 2;
        let sums: Vec<Vec<f32>> = inputs
            .par_chunks(share * input)
            .zip(outputs.par_chunks(share * output))
            .map(|(inputs, outputs)| {
                let mut sums = vec![0.0; size];
                let parts = inputs.chunks(TOGETHER * input);
                for (inputs, outputs) in parts.zip(outputs.chunks(TOGETHER * output)) {
                    simd(WeightGradient {
                        shape: self,
                        inputs,
                        outputs,
                        sums: &mut sums,
                    });
                }
                sums
            })
            .collect();
        let mut table = self.table();
        simd(WeightTable {
            shape: self,
            sums: &sums,
            table: &mut table.0,
        });
        table
    }
}

impl Table {
    pub(super) fn values(&self) -> &[f32] {
        &self.0
    }

    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

thread_local! {
    /// What is kept for the next call, so that it need not be zeroed.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Cuts pieces of so many complex vectors out of `values`, aligned to vectors, with anything in them.
#[inline(always)]
fn pieces<S: Simd, const N: usize>(
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
fn complex<S: Simd>(values: &[f32]) -> &[Complex<S>] {
    S::as_simd_f32s(values).0.as_chunks::<2>().0
}

#[inline(always)]
fn complex_mut<S: Simd>(values: &mut [f32]) -> &mut [Complex<S>] {
    S::as_mut_simd_f32s(values).0.as_chunks_mut::<2>().0
}

/// Images between pixels and spectra.
///
/// Rows that are transformed lie as `[frequency, row, vector]`, one row behind the last free.
struct Images<'a> {
    /// Channels, rows and columns.
    size: [usize; 3],
    fourier: &'a [Fourier; 2],
    /// Complex vectors from a frequency along the rows to the next.
    step: usize,
}

impl Images<'_> {
    fn vectors<S: Simd>(&self) -> usize {
        filled(self.size[0]) / S::F32_LANES
    }

    /// Complex vectors of the transformed rows of an image.
    fn rows(&self) -> usize {
        self.fourier[1].half() * self.step
    }

    /// Complex vectors of the spectrum of an image for one frequency along the rows.
    fn columns<S: Simd>(&self) -> usize {
        self.fourier[0].length() * self.vectors::<S>()
    }

    /// Twice the transforms of the rows of all images.
    #[inline(always)]
    fn transform_rows<S: Simd>(
        &self,
        simd: S,
        images: &[f32],
        rows: &mut [Complex<S>],
        [pixels, spectrum]: [&mut [Complex<S>]; 2],
    ) {
        let images = images.chunks_exact(self.size.iter().product());
        for (image, rows) in images.zip(rows.chunks_exact_mut(self.rows())) {
            self.transform_rows_of(simd, image, rows, [pixels, spectrum]);
        }
    }

    #[inline(always)]
    fn transform_rows_of<S: Simd>(
        &self,
        simd: S,
        image: &[f32],
        rows: &mut [Complex<S>],
        [pixels, spectrum]: [&mut [Complex<S>]; 2],
    ) {
        let [channels, height, width] = self.size;
        let (vectors, lanes) = (self.vectors::<S>(), S::F32_LANES);
        let fourier = &self.fourier[1];
        let length = fourier.length();
        let zero = [simd.splat_f32s(0.0); 2];
        for vector in 0..vectors {
            pixels.fill(zero);
            let channels = (vector * lanes).min(channels)..channels.min((vector + 1) * lanes);
            for row in (0..height).step_by(2) {
                for part in 0..2 {
                    let places = &mut floats_mut::<S>(pixels)[part * lanes..];
                    if channels.is_empty() || row + part == height {
                        places
                            .chunks_mut(2 * lanes)
                            .for_each(|place| place[..lanes].fill(0.0));
                        continue;
                    }
                    let first = (channels.start * height + row + part) * width;
                    transpose(
                        (&image[first..], height * width),
                        (places, 2 * lanes),
                        [channels.len(), width],
                    );
                }
                let [from, to] = [width, length].map(|count| Strided {
                    first: 0,
                    step: 1,
                    count,
                });
                fourier.transform::<S, false>(simd, (pixels, from), (spectrum, to));
                let places = rows[row * vectors + vector..].chunks_mut(self.step);
                for (k, place) in places.enumerate().take(fourier.half()) {
                    let (z, w) = (spectrum[k], spectrum[mirrored(k, length)]);
                    place[0] = [simd.add_f32s(z[0], w[0]), simd.sub_f32s(z[1], w[1])];
                    // Behind the last row is room for the second of its pair.
                    place[vectors] = [simd.add_f32s(z[1], w[1]), simd.sub_f32s(w[0], z[0])];
                }
            }
        }
    }

    /// The pixels of images from the transforms of their rows: `start[channel]` and `N` times the
    /// inverse.
    #[inline(always)]
    fn restore_rows<S: Simd>(
        &self,
        simd: S,
        rows: &[Complex<S>],
        start: Option<&[f32]>,
        images: &mut Chunks,
        [pixels, spectrum]: [&mut [Complex<S>]; 2],
    ) {
        // Rows first: what is taken from the images beyond them would be lost.
        for (rows, image) in rows.chunks_exact(self.rows()).zip(images) {
            self.restore_rows_of(simd, rows, start, image, [pixels, spectrum]);
        }
    }

    #[inline(always)]
    fn restore_rows_of<S: Simd>(
        &self,
        simd: S,
        rows: &[Complex<S>],
        start: Option<&[f32]>,
        image: &mut [f32],
        [pixels, spectrum]: [&mut [Complex<S>]; 2],
    ) {
        let [channels, height, width] = self.size;
        let (vectors, lanes) = (self.vectors::<S>(), S::F32_LANES);
        let fourier = &self.fourier[1];
        let length = fourier.length();
        let zero = [simd.splat_f32s(0.0); 2];
        for vector in 0..channels.div_ceil(lanes) {
            let channels = vector * lanes..channels.min((vector + 1) * lanes);
            let start = match start {
                Some(start) => simd.partial_load_f32s(&start[channels.clone()]),
                None => zero[0],
            };
            for row in (0..height).step_by(2) {
                let places = rows[row * vectors + vector..].chunks(self.step);
                for (k, place) in places.enumerate().take(fourier.half()) {
                    let paired = row + 1 < height;
                    let (a, b) = (place[0], if paired { place[vectors] } else { zero });
                    spectrum[mirrored(k, length)] =
                        [simd.add_f32s(a[0], b[1]), simd.sub_f32s(b[0], a[1])];
                    spectrum[k] = [simd.sub_f32s(a[0], b[1]), simd.add_f32s(a[1], b[0])];
                }
                let [from, to] = [length, width].map(|count| Strided {
                    first: 0,
                    step: 1,
                    count,
                });
                fourier.transform::<S, true>(simd, (spectrum, from), (pixels, to));
                for pixel in pixels[..width].as_flattened_mut() {
                    *pixel = simd.add_f32s(*pixel, start);
                }
                for part in 0..2.min(height - row) {
                    let first = (channels.start * height + row + part) * width;
                    transpose(
                        (&floats::<S>(pixels)[part * lanes..], 2 * lanes),
                        (&mut image[first..], height * width),
                        [width, channels.len()],
                    );
                }
            }
        }
    }

    /// Transforms of the columns of all images, at one frequency along the rows.
    #[inline(always)]
    fn transform_columns<S: Simd>(
        &self,
        simd: S,
        rows: &[Complex<S>],
        column: usize,
        spectra: &mut [Complex<S>],
    ) {
        let columns = spectra.chunks_exact_mut(self.columns::<S>());
        for (rows, spectrum) in rows.chunks_exact(self.rows()).zip(columns) {
            for vector in 0..self.vectors::<S>() {
                let [column, row] = self.signals::<S>(column, vector);
                self.fourier[0].transform::<S, false>(simd, (rows, column), (spectrum, row));
            }
        }
    }

    /// The way back, without division.
    #[inline(always)]
    fn restore_columns<S: Simd>(
        &self,
        simd: S,
        spectra: &[Complex<S>],
        column: usize,
        rows: &mut [Complex<S>],
    ) {
        let columns = spectra.chunks_exact(self.columns::<S>());
        for (rows, spectrum) in rows.chunks_exact_mut(self.rows()).zip(columns) {
            for vector in 0..self.vectors::<S>() {
                let [column, row] = self.signals::<S>(column, vector);
                self.fourier[0].transform::<S, true>(simd, (spectrum, row), (rows, column));
            }
        }
    }

    /// Where a vector's column is among the rows, and its spectrum.
    fn signals<S: Simd>(&self, column: usize, vector: usize) -> [Strided; 2] {
        let step = self.vectors::<S>();
        let signal = |first: usize, count: usize| Strided { first, step, count };
        [
            signal(column * self.step + vector, self.size[1]),
            signal(vector, self.fourier[0].length()),
        ]
    }

    /// Where the scalars of each image are among the spectra of all.
    fn places<S: Simd>(&self, images: usize) -> Vec<usize> {
        let place = |image: usize| image * self.columns::<S>() * 2 * S::F32_LANES;
        (0..images).map(place).collect()
    }
}

/// Images to be written, one after the other.
type Chunks<'a, 'b> = dyn Iterator<Item = &'b mut [f32]> + 'a;

/// Products of weights with the spectra of all images, at one frequency along the rows.
#[inline(always)]
fn multiply<S: Simd>(
    simd: S,
    weights: &[Complex<S>],
    (read, spectra): (&Images, &[Complex<S>]),
    (written, products): (&Images, &mut [Complex<S>]),
) {
    let of_sum = read.places::<S>(spectra.len() / read.columns::<S>());
    let of_term = lanes_of(read.size[0], S::F32_LANES);
    let width = written.vectors::<S>();
    let weights = weights.chunks_exact(read.size[0] * width);
    for (row, weights) in weights.enumerate() {
        let product = Product {
            scalars: &floats::<S>(spectra)[row * read.vectors::<S>() * 2 * S::F32_LANES..],
            of_sum: &of_sum,
            of_term: &of_term,
            vectors: weights,
            step: width,
            width,
        };
        let sums = &mut products[row * width..];
        product.sums::<false>(simd, sums, written.columns::<S>());
    }
}

/// The frequency `-k`.
#[inline(always)]
fn mirrored(k: usize, length: usize) -> usize {
    if k == 0 { 0 } else { length - k }
}

/// The numbers of vectors.
#[inline(always)]
fn floats<S: Simd>(vectors: &[Complex<S>]) -> &[f32] {
    pulp::bytemuck::cast_slice(vectors.as_flattened())
}

#[inline(always)]
fn floats_mut<S: Simd>(vectors: &mut [Complex<S>]) -> &mut [f32] {
    pulp::bytemuck::cast_slice_mut(vectors.as_flattened_mut())
}

/// `sums[j, v] = sum_k scalar(j, k) vector(k, v)` in complex numbers.
struct Product<'a, S: Simd> {
    /// Real parts of the scalars; the imaginary ones are a vector's length behind.
    scalars: &'a [f32],
    /// Where the scalars of `j` and of `k` are; their sum is the place.
    of_sum: &'a [usize],
    of_term: &'a [usize],
    vectors: &'a [Complex<S>],
    /// From the vectors of a term to those of the next; so many there are.
    step: usize,
    width: usize,
}

impl<S: Simd> Product<'_, S> {
    /// All sums, each `j` so far behind the one before it. With `CONJUGATE` of the conjugate scalars.
    #[inline(always)]
    fn sums<const CONJUGATE: bool>(&self, simd: S, sums: &mut [Complex<S>], step: usize) {
        let wide = S::F32_LANES >= 16;
        let mut first = 0;
        while first < self.of_sum.len() {
            let rows = (self.of_sum.len() - first).min(4);
            let mut vector = 0;
            while vector < self.width {
                let count = (self.width - vector).min(if wide { 2 } else { 1 });
                let place = [first, vector];
                let put = (&mut sums[first * step + vector..], step);
                match (rows, count) {
                    (4, 2) => self.tile::<4, 2, CONJUGATE>(simd, place, put),
                    (3, 2) => self.tile::<3, 2, CONJUGATE>(simd, place, put),
                    (2, 2) => self.tile::<2, 2, CONJUGATE>(simd, place, put),
                    (_, 2) => self.tile::<1, 2, CONJUGATE>(simd, place, put),
                    (4, _) => self.tile::<4, 1, CONJUGATE>(simd, place, put),
                    (3, _) => self.tile::<3, 1, CONJUGATE>(simd, place, put),
                    (2, _) => self.tile::<2, 1, CONJUGATE>(simd, place, put),
                    _ => self.tile::<1, 1, CONJUGATE>(simd, place, put),
                }
                vector += count;
            }
            first += rows;
        }
    }

    #[inline(always)]
    fn tile<const J: usize, const V: usize, const CONJUGATE: bool>(
        &self,
        simd: S,
        [first, vector]: [usize; 2],
        (target, step): (&mut [Complex<S>], usize),
    ) {
        let lanes = S::F32_LANES;
        let mut sums = [[[simd.splat_f32s(0.0); 2]; V]; J];
        let rows: [&[f32]; J] = std::array::from_fn(|j| &self.scalars[self.of_sum[first + j]..]);
        let terms = self.vectors[vector..].chunks(self.step);
        for (term, vectors) in self.of_term.iter().zip(terms) {
            let vectors: [Complex<S>; V] = std::array::from_fn(|v| vectors[v]);
            for (row, sums) in rows.iter().zip(&mut sums) {
                let re = simd.splat_f32s(row[*term]);
                let im = simd.splat_f32s(row[*term + lanes]);
                for (sum, vector) in sums.iter_mut().zip(&vectors) {
                    sum[0] = simd.mul_add_f32s(re, vector[0], sum[0]);
                    sum[1] = simd.mul_add_f32s(re, vector[1], sum[1]);
                    if CONJUGATE {
                        sum[0] = simd.mul_add_f32s(im, vector[1], sum[0]);
                        sum[1] = simd.negate_mul_add_f32s(im, vector[0], sum[1]);
                    } else {
                        sum[0] = simd.negate_mul_add_f32s(im, vector[1], sum[0]);
                        sum[1] = simd.mul_add_f32s(im, vector[0], sum[1]);
                    }
                }
            }
        }
        for (sums, target) in sums.into_iter().zip(target.chunks_mut(step)) {
            target[..V].copy_from_slice(&sums);
        }
    }
}

/// Where the numbers of so many channels are among vectors of `lanes` complex numbers.
fn lanes_of(channels: usize, lanes: usize) -> Vec<usize> {
    let place = |channel: usize| channel / lanes * 2 * lanes + channel % lanes;
    (0..channels).map(place).collect()
}

struct WeightSpectrum<'a> {
    shape: &'a Spectral,
    table: &'a [f32],
    column: usize,
    spectrum: &'a mut [f32],
}

impl WithSimd for WeightSpectrum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let shape = self.shape;
        let [down, along] = &shape.fourier;
        let [height, width] = shape.shifts;
        // Vectors of all weights of a shift.
        let count = shape.inputs[0] * filled(shape.outputs[0]) / S::F32_LANES;
        let weights = S::as_simd_f32s(self.table).0;
        let spectrum = complex_mut::<S>(self.spectrum);
        // Rows in pairs doubled the images.
        let scale = 0.5 / (down.length() * along.length()) as f32;
        let roots: Vec<[f32; 2]> = (0..width)
            .map(|t| along.root(self.column, shape.least[1] + t as isize))
            .map(|root| root.map(|part| part * scale))
            .collect();
        let zero = simd.splat_f32s(0.0);
        let mut scratch = SCRATCH.take();
        let [signal] = pieces::<S, _>(&mut scratch, [down.length()]);
        {
            signal.fill([zero; 2]);
            for vector in 0..count {
                for s in 0..height {
                    let mut sum = [zero; 2];
                    for (t, root) in roots.iter().enumerate() {
                        let weight = weights[(s * width + t) * count + vector];
                        for (sum, part) in sum.iter_mut().zip(root) {
                            *sum = simd.mul_add_f32s(simd.splat_f32s(*part), weight, *sum);
                        }
                    }
                    signal[wrapped(shape.least[0] + s as isize, down)] = sum;
                }
                let [from, to] = [(0, 1), (vector, count)].map(|(first, step)| Strided {
                    first,
                    step,
                    count: down.length(),
                });
                down.transform::<S, false>(simd, (signal, from), (spectrum, to));
            }
        }
        SCRATCH.set(scratch);
    }
}

/// The place of a shift in a signal.
fn wrapped(shift: isize, fourier: &Fourier) -> usize {
    shift.rem_euclid(fourier.length() as isize) as usize
}

struct Outputs<'a, 'b> {
    shape: &'a Spectral,
    spectra: &'a [f32],
    bias: Option<&'a [f32]>,
    inputs: &'a [f32],
    outputs: &'a mut Chunks<'a, 'b>,
}

impl WithSimd for Outputs<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let shape = self.shape;
        let [read, written] = shape.images::<S>();
        let images = self.inputs.len() / shape.inputs.iter().product::<usize>();
        let along = &shape.fourier[1];
        let sizes = [
            images * read.rows(),
            images * read.columns::<S>(),
            images * written.columns::<S>(),
            along.length(),
            along.length(),
        ];
        let mut scratch = SCRATCH.take();
        let [rows, spectra, products, pixels, spectrum] = pieces::<S, _>(&mut scratch, sizes);
        read.transform_rows(simd, self.inputs, rows, [pixels, spectrum]);
        for (column, weights) in self.spectra.chunks_exact(shape.spectrum()).enumerate() {
            read.transform_columns(simd, rows, column, spectra);
            let weights = complex::<S>(weights);
            multiply(simd, weights, (&read, spectra), (&written, products));
            // Nothing reads this frequency of the inputs any more.
            written.restore_columns(simd, products, column, rows);
        }
        written.restore_rows(simd, rows, self.bias, self.outputs, [pixels, spectrum]);
        SCRATCH.set(scratch);
    }
}

/// Adds the gradient of the weights, transformed along columns only: `[frequency along rows, s, input
/// channel, output vector]`.
struct WeightGradient<'a> {
    shape: &'a Spectral,
    inputs: &'a [f32],
    outputs: &'a [f32],
    sums: &'a mut [f32],
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let shape = self.shape;
        let [read, written] = shape.images::<S>();
        let images = self.inputs.len() / shape.inputs.iter().product::<usize>();
        let [down, along] = &shape.fourier;
        let width = written.vectors::<S>();
        let count = shape.inputs[0] * width;
        let sums = complex_mut::<S>(self.sums);
        let sizes = [
            images * read.rows(),
            images * written.rows(),
            images * read.columns::<S>(),
            images * written.columns::<S>(),
            down.length() * count,
            along.length().max(down.length()),
            along.length(),
        ];
        let mut scratch = SCRATCH.take();
        let [x, y, of_x, of_y, products, pixels, spectrum] = pieces::<S, _>(&mut scratch, sizes);
        read.transform_rows(simd, self.inputs, x, [pixels, spectrum]);
        written.transform_rows(simd, self.outputs, y, [pixels, spectrum]);
        let of_sum = lanes_of(shape.inputs[0], S::F32_LANES);
        let of_term = read.places::<S>(images);
        let size = shape.shifts[0] * count;
        for (column, sums) in sums.chunks_exact_mut(size).enumerate() {
            read.transform_columns(simd, x, column, of_x);
            written.transform_columns(simd, y, column, of_y);
            for (row, products) in products.chunks_exact_mut(count).enumerate() {
                let product = Product {
                    scalars: &floats::<S>(of_x)[row * read.vectors::<S>() * 2 * S::F32_LANES..],
                    of_sum: &of_sum,
                    of_term: &of_term,
                    vectors: &of_y[row * width..],
                    step: written.columns::<S>(),
                    width,
                };
                product.sums::<true>(simd, products, width);
            }
            for vector in 0..count {
                let [from, to] = [(vector, count), (0, 1)].map(|(first, step)| Strided {
                    first,
                    step,
                    count: down.length(),
                });
                down.transform::<S, true>(simd, (products, from), (pixels, to));
                for s in 0..shape.shifts[0] {
                    let found = pixels[wrapped(shape.least[0] + s as isize, down)];
                    for (sum, found) in sums[s * count + vector].iter_mut().zip(found) {
                        *sum = simd.add_f32s(*sum, found);
                    }
                }
            }
        }
        SCRATCH.set(scratch);
    }
}

/// The table of gradients from the sums of all groups of images.
struct WeightTable<'a> {
    shape: &'a Spectral,
    sums: &'a [Vec<f32>],
    table: &'a mut [f32],
}

impl WithSimd for WeightTable<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let shape = self.shape;
        let [down, along] = &shape.fourier;
        let [height, width] = shape.shifts;
        let count = shape.inputs[0] * filled(shape.outputs[0]) / S::F32_LANES;
        // Both images were doubled.
        let scale = 0.25 / (down.length() * along.length()) as f32;
        let table = S::as_mut_simd_f32s(self.table).0;
        let groups: Vec<_> = self.sums.iter().map(|sums| complex::<S>(sums)).collect();
        for (column, s) in (0..along.half()).flat_map(|k| (0..height).map(move |s| (k, s))) {
            // A frequency stands for its negative, too, unless it is the same.
            let twice = if column == 0 || 2 * column == along.length() {
                1.0
            } else {
                2.0
            };
            let roots: Vec<_> = (0..width)
                .map(|t| along.root(column, shape.least[1] + t as isize))
                .map(|root| root.map(|part| simd.splat_f32s(part * scale * twice)))
                .collect();
            for vector in 0..count {
                let place = (column * height + s) * count + vector;
                let mut sum = [simd.splat_f32s(0.0); 2];
                for group in &groups {
                    for (sum, part) in sum.iter_mut().zip(group[place]) {
                        *sum = simd.add_f32s(*sum, part);
                    }
                }
                // The real part of the sum times the conjugate root.
                for (t, root) in roots.iter().enumerate() {
                    let weight = &mut table[(s * width + t) * count + vector];
                    *weight = simd.mul_add_f32s(sum[0], root[0], *weight);
                    *weight = simd.mul_add_f32s(sum[1], root[1], *weight);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers;
    use pulp::{Arch, Scalar, Scalar128b, Scalar256b, Scalar512b};

    struct Case {
        images: usize,
        inputs: [usize; 3],
        outputs: [usize; 3],
        shifts: [Range<isize>; 2],
    }

    impl Case {
        fn shape(&self) -> Spectral {
            Spectral::new(self.inputs, self.outputs, self.shifts.clone()).unwrap()
        }

        /// Every product of the definition: places of image, weight and output.
        fn terms(&self, mut each: impl FnMut([usize; 3])) {
            let shape = self.shape();
            let ([c, height, width], [o, rows, columns]) = (self.inputs, self.outputs);
            let pixel = |i: usize, shift: isize, size: usize| {
                let place = i as isize - shift;
                (0..size as isize)
                    .contains(&place)
                    .then_some(place as usize)
            };
            for (n, o_index, c_index) in (0..self.images)
                .flat_map(|n| (0..o).flat_map(move |o| (0..c).map(move |c| (n, o, c))))
            {
                for (s, t) in self.shifts[0]
                    .clone()
                    .flat_map(|s| self.shifts[1].clone().map(move |t| (s, t)))
                {
                    let weight = shape.place([s, t], c_index, o_index);
                    for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                        let (Some(y), Some(x)) = (pixel(i, s, height), pixel(j, t, width)) else {
                            continue;
                        };
                        each([
                            ((n * c + c_index) * height + y) * width + x,
                            weight,
                            ((n * o + o_index) * rows + i) * columns + j,
                        ]);
                    }
                }
            }
        }
    }

    fn cases() -> [Case; 6] {
        let around = |reach: isize| -reach..reach + 1;
        let case = |images, inputs, outputs, shifts| Case {
            images,
            inputs,
            outputs,
            shifts,
        };
        [
            case(3, [17, 16, 16], [5, 16, 16], [around(3), around(3)]),
            case(TOGETHER + 1, [1, 3, 5], [1, 3, 5], [around(1), around(0)]),
            case(1, [2, 1, 32], [16, 1, 32], [around(0), around(2)]),
            // No padding, and shifts on one side only.
            case(2, [3, 9, 12], [4, 7, 10], [-2..1, -2..1]),
            case(2, [3, 7, 10], [2, 9, 12], [0..3, 0..3]),
            case(1, [1, 1, 1], [1, 1, 1], [around(0), around(1)]),
        ]
    }

    fn assert_close(found: &[f32], expected: &[f64], name: &str) {
        let largest = expected.iter().fold(1.0_f64, |a, b| a.max(b.abs()));
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let difference = (f64::from(*found) - expected).abs();
            assert!(difference < 2e-6 * largest, "{name}: {found} {expected}");
        }
    }

    fn check<S: Simd>(simd: S, case: &Case) {
        let shape = case.shape();
        let name = format!("{} lanes, {shape:?}", S::F32_LANES);
        let [input, output]: [usize; 2] = [case.inputs, case.outputs].map(|d| d.iter().product());
        let inputs = numbers(case.images * input, 1);
        let outputs = numbers(case.images * output, 2);
        let bias = numbers(case.outputs[0], 3);
        let mut table = shape.table();
        let some = numbers(table.0.len(), 4);
        let pixels = case.outputs[1] * case.outputs[2];
        let mut expected: Vec<f64> = (0..outputs.len())
            .map(|place| f64::from(bias[place / pixels % case.outputs[0]]))
            .collect();
        let mut gradient = vec![0.0; table.0.len()];
        case.terms(|[x, w, y]| {
            table.0[w] = some[w];
            expected[y] += f64::from(some[w]) * f64::from(inputs[x]);
            gradient[w] += f64::from(inputs[x]) * f64::from(outputs[y]);
        });

        let mut spectra = vec![f32::NAN; shape.fourier[1].half() * shape.spectrum()];
        for (column, spectrum) in spectra.chunks_exact_mut(shape.spectrum()).enumerate() {
            simd.vectorize(WeightSpectrum {
                shape: &shape,
                table: &table.0,
                column,
                spectrum,
            });
        }
        let mut found = vec![f32::NAN; outputs.len()];
        simd.vectorize(Outputs {
            shape: &shape,
            spectra: &spectra,
            bias: Some(&bias),
            inputs: &inputs,
            outputs: &mut found.chunks_mut(output),
        });
        assert_close(&found, &expected, &name);

        let size = shape.fourier[1].half() * case.shifts[0].len() * table.0.len()
            / (case.shifts[0].len() * case.shifts[1].len());
        let mut sums = [vec![0.0; 2 * size], vec![0.0; 2 * size]];
        let parts = inputs.chunks(case.images.div_ceil(2) * input);
        let parts = parts.zip(outputs.chunks(case.images.div_ceil(2) * output));
        for ((inputs, outputs), sums) in parts.zip(&mut sums) {
            simd.vectorize(WeightGradient {
                shape: &shape,
                inputs,
                outputs,
                sums,
            });
        }
        let mut found = shape.table();
        simd.vectorize(WeightTable {
            shape: &shape,
            sums: &sums,
            table: &mut found.0,
        });
        // Filled channels and weights that meet no pixel have no gradient.
        assert_close(&found.0, &gradient, &name);
    }

    /// For the machine's own instructions.
    struct Check;

    impl WithSimd for Check {
        type Output = ();

        fn with_simd<S: Simd>(self, simd: S) {
            cases().iter().for_each(|case| check(simd, case));
        }
    }

    #[test]
    fn every_width_of_vectors_gives_the_sums() {
        Arch::new().dispatch(Check);
        Check.with_simd(Scalar);
        Check.with_simd(Scalar128b);
        Check.with_simd(Scalar256b);
        Check.with_simd(Scalar512b);
    }

    #[test]
    fn images_are_shared_out() {
        let case = Case {
            images: 2 * TOGETHER + 3,
            ..cases().into_iter().next().unwrap()
        };
        let shape = case.shape();
        let [input, output]: [usize; 2] = [case.inputs, case.outputs].map(|d| d.iter().product());
        let inputs = numbers(case.images * input, 1);
        let outputs = numbers(case.images * output, 2);
        let mut table = shape.table();
        let some = numbers(table.0.len(), 4);
        let mut expected = vec![0.0; outputs.len()];
        let mut gradient = vec![0.0; table.0.len()];
        case.terms(|[x, w, y]| {
            table.0[w] = some[w];
            expected[y] += f64::from(some[w]) * f64::from(inputs[x]);
            gradient[w] += f64::from(inputs[x]) * f64::from(outputs[y]);
        });
        let found = shape.outputs(&shape.spectra(&table), &inputs, None);
        assert_close(&found, &expected, "outputs");
        let found = shape.gradient(&inputs, &outputs);
        assert_close(found.values(), &gradient, "gradient");
    }

    #[test]
    fn a_signal_too_long_has_no_transform() {
        let image = [8, 64, 64];
        assert_eq!(Spectral::new(image, image, [-1..2, -1..2]), None);
    }
}
