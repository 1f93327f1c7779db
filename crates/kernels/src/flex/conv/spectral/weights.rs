//! Spectra of the weights, and the gradient of the weights.

use super::{
    Spectral,
    images::Images,
    product::{Product, lanes_of},
    vectors::{CHANNELS, SCRATCH, complex, complex_mut, floats, pieces},
};
use crate::flex::conv::fourier::{Complex, Fourier, Strided};
use pulp::{Simd, WithSimd};
use std::ops::Range;

pub(super) struct WeightSpectrum<'a> {
    pub(super) shape: &'a Spectral,
    pub(super) table: &'a [f32],
    pub(super) column: usize,
    pub(super) spectrum: &'a mut [f32],
}

impl WithSimd for WeightSpectrum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut scratch = SCRATCH.take();
        let [signal] = pieces::<S, _>(&mut scratch, [self.shape.fourier[0].length()]);
        let vectors = 0..self.shape.step() / S::F32_LANES;
        let spectrum = complex_mut::<S>(self.spectrum);
        let of = (self.table, self.column, vectors);
        self.shape.weight_spectrum(simd, of, signal, spectrum);
        SCRATCH.set(scratch);
    }
}

impl Spectral {
    /// The spectra of weights at one frequency along the rows, for some vectors of output channels: `[frequency along the
    /// columns, input channel, vector]`, divided by the factor that transforming back and forth introduces.
    #[inline(always)]
    pub(super) fn weight_spectrum<S: Simd>(
        &self,
        simd: S,
        (table, column, vectors): (&[f32], usize, Range<usize>),
        signal: &mut [Complex<S>],
        spectrum: &mut [Complex<S>],
    ) {
        let [down, along] = &self.fourier;
        let [height, width] = self.shifts;
        let of_input = self.of_input() / S::F32_LANES;
        let inputs = S::as_simd_f32s(table).0.chunks_exact(of_input);
        // Transforming rows in pairs doubled the images.
        let scale = 0.5 / (down.length() * along.length()) as f32;
        let roots: Vec<Complex<S>> = (0..width)
            .map(|t| along.root(column, self.least[1] + t as isize))
            .map(|root| root.map(|part| simd.splat_f32s(part * scale)))
            .collect();
        let rows = (0..height).map(|s| wrapped(self.least[0] + s as isize, down));
        let rows: Vec<usize> = rows.collect();
        let zero = [simd.splat_f32s(0.0); 2];
        signal.fill(zero);
        let count = self.inputs[0] * vectors.len();
        // From one shift to the next.
        let step = CHANNELS / S::F32_LANES;
        let mut first = 0;
        for weights in inputs {
            for vector in vectors.clone() {
                let weights = &weights[self.place_of_vector::<S>(0, vector)..];
                for (s, row) in rows.iter().enumerate() {
                    let weights = weights[s * width * step..].iter().step_by(step);
                    let mut sum = zero;
                    for (root, weight) in roots.iter().zip(weights) {
                        for (sum, part) in sum.iter_mut().zip(root) {
                            *sum = simd.mul_add_f32s(*part, *weight, *sum);
                        }
                    }
                    signal[*row] = sum;
                }
                let [from, to] = [(0, 1), (first, count)].map(|(first, step)| Strided {
                    first,
                    step,
                    count: down.length(),
                });
                down.transform::<S, false>(simd, (signal, from), (spectrum, to));
                first += 1;
            }
        }
    }

    /// Vectors of output channels whose spectra of weights, at one frequency along the rows, stay in the cache.
    pub(super) fn block<S: Simd>(&self) -> usize {
        /// Numbers that stay there: half a megabyte.
        const KEPT: usize = 1 << 17;
        let of_vector = self.fourier[0].length() * self.inputs[0] * 2 * S::F32_LANES;
        let all = self.step() / S::F32_LANES;
        // Products take two vectors at a time.
        (KEPT / of_vector / 2 * 2).clamp(2.min(all), all)
    }
}

/// The index of a shift in a periodic signal.
fn wrapped(shift: isize, fourier: &Fourier) -> usize {
    shift.rem_euclid(fourier.length() as isize) as usize
}

/// Accumulates the gradient of the weights, transformed along columns only: `[frequency along rows, s, input
/// channel, output vector]`.
pub(super) struct WeightGradient<'a> {
    pub(super) shape: &'a Spectral,
    pub(super) inputs: &'a [f32],
    pub(super) outputs: &'a [f32],
    pub(super) sums: &'a mut [f32],
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
            down.length() * shape.inputs[0] * shape.block::<S>(),
            along.length().max(down.length()),
            along.length(),
        ];
        let mut scratch = SCRATCH.take();
        let [x, y, of_x, of_y, products, pixels, spectrum] = pieces::<S, _>(&mut scratch, sizes);
        read.transform_rows(simd, self.inputs, x, [pixels, spectrum]);
        written.transform_rows(simd, self.outputs, y, [pixels, spectrum]);
        let size = shape.shifts[0] * count;
        for (column, sums) in sums.chunks_exact_mut(size).enumerate() {
            read.transform_columns(simd, x, column, of_x);
            written.transform_columns(simd, y, column, of_y);
            let spectra = [(&read, &*of_x), (&written, &*of_y)];
            shape.correlate::<S, true>(simd, spectra, products, pixels, sums);
        }
        SCRATCH.set(scratch);
    }
}

/// The gradient of the weights at one frequency along the rows, transformed along columns only: `[s, input channel,
/// output vector]`, from the transforms of the rows of all images.
pub(super) struct ColumnGradient<'a> {
    pub(super) shape: &'a Spectral,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) column: usize,
    pub(super) sums: &'a mut [f32],
}

impl WithSimd for ColumnGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let shape = self.shape;
        let images = self.x.len() / shape.rows();
        let [read, written] = shape.images::<S>();
        let sizes = [
            images * read.columns::<S>(),
            images * written.columns::<S>(),
            shape.fourier[0].length() * shape.inputs[0] * shape.block::<S>(),
            shape.fourier[0].length(),
        ];
        let mut scratch = SCRATCH.take();
        let [of_x, of_y, products, pixels] = pieces::<S, _>(&mut scratch, sizes);
        read.transform_columns(simd, complex::<S>(self.x), self.column, of_x);
        written.transform_columns(simd, complex::<S>(self.y), self.column, of_y);
        let sums = complex_mut::<S>(self.sums);
        let spectra = [(&read, &*of_x), (&written, &*of_y)];
        shape.correlate::<S, false>(simd, spectra, products, pixels, sums);
        SCRATCH.set(scratch);
    }
}

impl Spectral {
    /// The products of the spectra of inputs and outputs at one frequency along the rows, transformed back along the
    /// columns; they are the sums or, with `ADD`, are added to them.
    #[inline(always)]
    fn correlate<S: Simd, const ADD: bool>(
        &self,
        simd: S,
        [(read, of_x), (written, of_y)]: [(&Images, &[Complex<S>]); 2],
        products: &mut [Complex<S>],
        pixels: &mut [Complex<S>],
        sums: &mut [Complex<S>],
    ) {
        let down = &self.fourier[0];
        let width = written.vectors::<S>();
        let of_sum = lanes_of(self.inputs[0], S::F32_LANES);
        let of_term = read.places::<S>(of_x.len() / read.columns::<S>());
        let block = self.block::<S>();
        for start in (0..width).step_by(block) {
            let block = block.min(width - start);
            let count = self.inputs[0] * block;
            let products = &mut products[..down.length() * count];
            for (row, products) in products.chunks_exact_mut(count).enumerate() {
                let product = Product {
                    scalars: &floats::<S>(of_x)[row * read.vectors::<S>() * 2 * S::F32_LANES..],
                    of_sum: &of_sum,
                    of_term: &of_term,
                    vectors: &of_y[row * width + start..],
                    step: written.columns::<S>(),
                    width: block,
                };
                product.sums::<true>(simd, products, block);
            }
            for place in 0..count {
                let [from, to] = [(place, count), (0, 1)].map(|(first, step)| Strided {
                    first,
                    step,
                    count: down.length(),
                });
                down.transform::<S, true>(simd, (products, from), (pixels, to));
                let [input, vector] = [place / block, start + place % block];
                for s in 0..self.shifts[0] {
                    let found = pixels[wrapped(self.least[0] + s as isize, down)];
                    let sum = &mut sums[(s * self.inputs[0] + input) * width + vector];
                    if ADD {
                        for (sum, found) in sum.iter_mut().zip(found) {
                            *sum = simd.add_f32s(*sum, found);
                        }
                    } else {
                        *sum = found;
                    }
                }
            }
        }
    }
}

/// Computes the gradients of the weights of an input channel, as in a table, from the sums of all groups of images.
pub(super) struct WeightTable<'a> {
    pub(super) shape: &'a Spectral,
    pub(super) sums: &'a [Vec<f32>],
    pub(super) input: usize,
    pub(super) table: &'a mut [f32],
}

impl WithSimd for WeightTable<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let shape = self.shape;
        let [down, along] = &shape.fourier;
        let [height, width] = shape.shifts;
        let vectors = shape.step() / S::F32_LANES;
        // Both images were doubled.
        let scale = 0.25 / (down.length() * along.length()) as f32;
        let table = S::as_mut_simd_f32s(self.table).0;
        let groups: Vec<_> = self.sums.iter().map(|sums| complex::<S>(sums)).collect();
        for column in 0..along.half() {
            // Each frequency also stands for its negative, unless the two are the same.
            let twice = if column == 0 || 2 * column == along.length() {
                1.0
            } else {
                2.0
            };
            let roots: Vec<_> = (0..width)
                .map(|t| along.root(column, shape.least[1] + t as isize))
                .map(|root| root.map(|part| simd.splat_f32s(part * scale * twice)))
                .collect();
            for (s, vector) in (0..height).flat_map(|s| (0..vectors).map(move |v| (s, v))) {
                let of_shift = column * height + s;
                let place = (of_shift * shape.inputs[0] + self.input) * vectors + vector;
                let mut sum = [simd.splat_f32s(0.0); 2];
                for group in &groups {
                    for (sum, part) in sum.iter_mut().zip(group[place]) {
                        *sum = simd.add_f32s(*sum, part);
                    }
                }
                // The real part of the sum times the conjugate root.
                for (t, root) in roots.iter().enumerate() {
                    let weight = &mut table[shape.place_of_vector::<S>(s * width + t, vector)];
                    *weight = simd.mul_add_f32s(sum[0], root[0], *weight);
                    *weight = simd.mul_add_f32s(sum[1], root[1], *weight);
                }
            }
        }
    }
}
