//! Spectra of the weights, and the gradient of the weights.

use super::{
    Spectral,
    images::Images,
    product::{Product, lanes_of},
    vectors::{SCRATCH, complex, complex_mut, filled, floats, pieces},
};
use crate::flex::conv::fourier::{Complex, Fourier, Strided};
use pulp::{Simd, WithSimd};

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
        let shape = self.shape;
        let [down, along] = &shape.fourier;
        let [height, width] = shape.shifts;
        // Vectors of all weights of a shift.
        let count = shape.inputs[0] * filled(shape.outputs[0]) / S::F32_LANES;
        let weights = S::as_simd_f32s(self.table).0;
        let spectrum = complex_mut::<S>(self.spectrum);
        // Transforming rows in pairs doubled the images.
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
            down.length() * count,
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

/// The transforms of the rows of an image: of an input or, if it is `written`, of an output.
pub(super) struct RowTransforms<'a> {
    pub(super) shape: &'a Spectral,
    pub(super) image: &'a [f32],
    pub(super) written: bool,
    pub(super) rows: &'a mut [f32],
}

impl WithSimd for RowTransforms<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [read, written] = self.shape.images::<S>();
        let images = if self.written { written } else { read };
        let length = self.shape.fourier[1].length();
        let mut scratch = SCRATCH.take();
        let own = pieces::<S, _>(&mut scratch, [length, length]);
        images.transform_rows(simd, self.image, complex_mut::<S>(self.rows), own);
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
        let count = shape.inputs[0] * written.vectors::<S>();
        let sizes = [
            images * read.columns::<S>(),
            images * written.columns::<S>(),
            shape.fourier[0].length() * count,
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
        let count = self.inputs[0] * width;
        let of_sum = lanes_of(self.inputs[0], S::F32_LANES);
        let of_term = read.places::<S>(of_x.len() / read.columns::<S>());
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
            for s in 0..self.shifts[0] {
                let found = pixels[wrapped(self.least[0] + s as isize, down)];
                let sum = &mut sums[s * count + vector];
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

/// Computes the part of shift `s` of the table of gradients from the sums of all groups of images.
pub(super) struct WeightTable<'a> {
    pub(super) shape: &'a Spectral,
    pub(super) sums: &'a [Vec<f32>],
    pub(super) s: usize,
    pub(super) table: &'a mut [f32],
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
            for vector in 0..count {
                let place = (column * height + self.s) * count + vector;
                let mut sum = [simd.splat_f32s(0.0); 2];
                for group in &groups {
                    for (sum, part) in sum.iter_mut().zip(group[place]) {
                        *sum = simd.add_f32s(*sum, part);
                    }
                }
                // The real part of the sum times the conjugate root.
                for (t, root) in roots.iter().enumerate() {
                    let weight = &mut table[t * count + vector];
                    *weight = simd.mul_add_f32s(sum[0], root[0], *weight);
                    *weight = simd.mul_add_f32s(sum[1], root[1], *weight);
                }
            }
        }
    }
}
