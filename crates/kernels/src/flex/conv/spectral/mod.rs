//! Convolutions of stride 1 by Fourier transforms.
//!
//! The sum `y[o, i, j] = b[o] + sum_{c, s, t} w[o, c, s, t] x[c, i - s, j - t]` over a small range of shifts
//! becomes `Y[o, f] = sum_c W[o, c, f] X[c, f]` for each two-dimensional frequency `f`, if images are padded
//! with enough zeros to keep them from wrapping around. All kernels of a bank share the spectra of their images,
//! and the cost per frequency does not depend on the sizes of the kernels.
//!
//! Vectors run along channels. Rows are transformed two at a time, one as the real part and one as the imaginary
//! part. The rest is done for one frequency along the rows at a time, so that everything stays in the cache:
//! columns are transformed, spectra multiplied, and the products transformed back.
//!
//! With few channels a thread does all of this for some of the images, with the spectra of all weights (`Outputs`,
//! `WeightGradient`). With many, a thread does it for one frequency and all images, and makes the spectra of weights
//! where it uses them (`ColumnOutputs`, `ColumnGradient`).

mod columns;
mod images;
mod product;
mod vectors;
mod weights;

use crate::flex::{
    conv::fourier::Fourier,
    simd::{
        chunks::{by_blocks, by_chunks},
        run_vectors,
    },
};
use columns::{ColumnOutputs, RestoredRows, RowTransforms};
use images::{Chunks, Images};
use product::multiply;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;
use vectors::{CHANNELS, SCRATCH, complex, filled, pieces};
use weights::{ColumnGradient, WeightGradient, WeightSpectrum, WeightTable};

/// The most images that are processed together.
const TOGETHER: usize = 13;
/// With this many weights of a shift, their spectra and gradients are computed frequency by frequency.
const MANY: usize = 4096;
/// Numbers in the transforms of the rows of the images whose outputs are then computed together: what a large cache holds.
const PART: usize = 1 << 23;
/// The most of them for which gradients are so computed.
const MOST: usize = 1 << 26;
/// Groups of images whose gradients are summed separately. It depends only on the number of images, so the
/// number of threads does not change the result.
const GROUPS: usize = 8;

/// A convolution of stride 1 between images of given channels, rows and columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spectral {
    inputs: [usize; 3],
    outputs: [usize; 3],
    /// Smallest values of the shifts `s` and `t`.
    least: [isize; 2],
    /// Number of values of `s` and `t`.
    shifts: [usize; 2],
    /// Transforms along rows and columns, for `s` and `t`.
    fourier: [Fourier; 2],
}

/// Weights `[input channel, block of output channels, s, t, output channel of the block]`: those that a vector of output
/// channels needs at all shifts lie side by side.
#[derive(Debug)]
pub(crate) struct Table(Vec<f32>);

impl Spectral {
    /// The convolution with shifts `s` and `t` in the given ranges; `None` if no transform is long enough.
    pub(crate) fn new(
        inputs: [usize; 3],
        outputs: [usize; 3],
        shifts: [Range<isize>; 2],
    ) -> Option<Self> {
        let fourier = |axis: usize| {
            let (input, output) = (inputs[axis + 1] as isize, outputs[axis + 1] as isize);
            let shifts = &shifts[axis];
            // Output `i` reads inputs `i - s`; inputs outside the image must be zeros.
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

    /// Approximate number of multiplications and additions for the given number of images.
    pub(crate) fn cost(&self, images: usize) -> usize {
        /// Cost of transforming one signal. Its operations are less dense than those of a product.
        const TRANSFORM: usize = 20;
        let [rows, columns] = [self.fourier[0].length(), self.fourier[1].length()];
        let (inputs, outputs) = (filled(self.inputs[0]), filled(self.outputs[0]));
        let half = self.fourier[1].half();
        let transforms = (inputs + outputs) * (rows / 2 * columns + half * rows) * TRANSFORM;
        let products = half * rows * 4 * self.inputs[0] * outputs;
        let weights = self.inputs[0] * outputs * half * rows * TRANSFORM;
        images * (transforms + products) + weights
    }

    /// Inputs and outputs, with the same layout.
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

    /// A table of weights: `fill` gets an input channel and its weights, all zero, of which [`Spectral::place`] tells the
    /// places.
    pub(crate) fn table(&self, fill: impl Fn(usize, &mut [f32]) + Send + Sync) -> Table {
        let size = self.of_input();
        let each = |(): &mut (), input: usize, weights: &mut [f32]| fill(input, weights);
        Table(by_chunks(self.inputs[0] * size, size, || (), each))
    }

    /// Weights of an input channel in a table.
    fn of_input(&self) -> usize {
        self.taps() * self.step()
    }

    /// Output channels with those that fill their last block.
    fn step(&self) -> usize {
        filled(self.outputs[0])
    }

    /// Number of shifts.
    fn taps(&self) -> usize {
        self.shifts[0] * self.shifts[1]
    }

    /// The place of a weight among those of an input channel.
    pub(crate) fn place(&self, shift: usize, output: usize) -> usize {
        (output / CHANNELS * self.taps() + shift) * CHANNELS + output % CHANNELS
    }

    /// The same for a vector of output channels, in vectors.
    fn place_of_vector<S: Simd>(&self, shift: usize, vector: usize) -> usize {
        self.place(shift, vector * S::F32_LANES) / S::F32_LANES
    }

    /// The number of a shift in a table.
    pub(crate) fn shift(&self, [s, t]: [isize; 2]) -> usize {
        let [s, t] = [s - self.least[0], t - self.least[1]];
        s as usize * self.shifts[1] + t as usize
    }

    /// Numbers in the spectra of weights, for one frequency along the rows.
    fn spectrum(&self) -> usize {
        self.fourier[0].length() * self.inputs[0] * self.step() * 2
    }

    /// Spectra of weights `[frequency along rows, along columns, input channel, output vector]`.
    fn spectra(&self, table: &Table) -> Vec<f32> {
        let size = self.spectrum();
        by_chunks(
            self.fourier[1].half() * size,
            size,
            || (),
            |(), column, spectrum| {
                run_vectors(WeightSpectrum {
                    shape: self,
                    table: &table.0,
                    column,
                    spectrum,
                });
            },
        )
    }

    /// Whether the spectra of the weights are too large to be kept for all frequencies.
    fn many(&self) -> bool {
        self.inputs[0] * self.step() >= MANY
    }

    /// The outputs for a batch of images.
    pub(crate) fn outputs(&self, table: &Table, inputs: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let input: usize = self.inputs.iter().product();
        if !self.many() {
            return self.outputs_by_images(&self.spectra(table), inputs, bias);
        }
        let together = (PART / self.rows()).max(1);
        let mut parts = inputs
            .chunks(together * input)
            .map(|inputs| self.outputs_by_columns(table, inputs, bias));
        let mut outputs = parts.next().unwrap_or_default();
        parts.for_each(|others| outputs.extend(others));
        outputs
    }

    /// The outputs from the spectra of all weights; a thread works on some of the images.
    fn outputs_by_images(&self, spectra: &[f32], inputs: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let [input, output]: [usize; 2] = [self.inputs, self.outputs].map(|d| d.iter().product());
        let images = inputs.len() / input;
        // An even number of blocks, of about the same size.
        let blocks = images.div_ceil(TOGETHER).next_multiple_of(2);
        let together = images.div_ceil(blocks.max(1)).max(1);
        by_blocks(images * output, output, together, |first, outputs| {
            let images = together.min(images - first);
            run_vectors(Outputs {
                shape: self,
                spectra,
                bias,
                inputs: &inputs[first * input..][..images * input],
                outputs,
            });
        })
    }

    /// The same frequency by frequency: the rows of all images are transformed first, and then a thread works on one
    /// frequency along the rows for all images. The spectra of many weights are larger than any cache: so each part of them is
    /// made where it is needed, and used for all images.
    fn outputs_by_columns(&self, table: &Table, inputs: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let x = self.row_transforms(inputs, false);
        let output: usize = self.outputs.iter().product();
        let images = inputs.len() / self.inputs.iter().product::<usize>();
        let size = images * self.written_rows();
        let y = by_chunks(
            self.fourier[1].half() * size,
            size,
            || (),
            |(), column, rows| {
                run_vectors(ColumnOutputs {
                    shape: self,
                    table: &table.0,
                    x: &x,
                    column,
                    rows,
                });
            },
        );
        by_chunks(
            images * output,
            output,
            || (),
            |(), image, pixels| {
                run_vectors(RestoredRows {
                    shape: self,
                    y: &y,
                    images,
                    image,
                    bias,
                    pixels,
                });
            },
        )
    }

    /// The transforms of the rows of all images: of inputs or, if they are `written`, of outputs.
    fn row_transforms(&self, images: &[f32], written: bool) -> Vec<f32> {
        let channels = if written { self.outputs } else { self.inputs };
        let size: usize = channels.iter().product();
        let numbers = self.rows();
        by_chunks(
            images.len() / size * numbers,
            numbers,
            || (),
            |(), image, rows| {
                run_vectors(RowTransforms {
                    shape: self,
                    image: &images[image * size..][..size],
                    written,
                    rows,
                });
            },
        )
    }

    /// The gradient of the weights, from images and the gradients of their outputs.
    pub(crate) fn gradient(&self, inputs: &[f32], outputs: &[f32]) -> Table {
        let [input, output]: [usize; 2] = [self.inputs, self.outputs].map(|d| d.iter().product());
        let images = inputs.len() / input;
        if self.many() && images * self.rows() <= MOST {
            return self.gradient_by_columns(inputs, outputs);
        }
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
                    run_vectors(WeightGradient {
                        shape: self,
                        inputs,
                        outputs,
                        sums: &mut sums,
                    });
                }
                sums
            })
            .collect();
        self.table_of(&sums)
    }

    /// The same without groups: the rows of all images are transformed first, and then a thread works on one frequency
    /// along the rows for all images. For many channels the sums of groups would be more numbers than the images have.
    fn gradient_by_columns(&self, inputs: &[f32], outputs: &[f32]) -> Table {
        let [x, y] = [(inputs, false), (outputs, true)]
            .map(|(images, written)| self.row_transforms(images, written));
        let size = self.shifts[0] * self.inputs[0] * filled(self.outputs[0]) * 2;
        let sums = by_chunks(
            self.fourier[1].half() * size,
            size,
            || (),
            |(), column, sums| {
                run_vectors(ColumnGradient {
                    shape: self,
                    x: &x,
                    y: &y,
                    column,
                    sums,
                });
            },
        );
        self.table_of(&[sums])
    }

    /// Numbers in the transforms of the rows of an image.
    fn rows(&self) -> usize {
        let rows = |[channels, rows, _]: [usize; 3]| (rows + 1) * filled(channels);
        self.fourier[1].half() * rows(self.inputs).max(rows(self.outputs)) * 2
    }

    /// Numbers in one frequency along the rows of an output.
    fn written_rows(&self) -> usize {
        (self.outputs[1] + 1) * self.step() * 2
    }

    /// The table of gradients from sums of groups of images.
    fn table_of(&self, sums: &[Vec<f32>]) -> Table {
        self.table(|input, table| {
            run_vectors(WeightTable {
                shape: self,
                sums,
                input,
                table,
            });
        })
    }
}

impl Table {
    /// The weights of an input channel.
    pub(crate) fn of(&self, shape: &Spectral, input: usize) -> &[f32] {
        &self.0[input * shape.of_input()..][..shape.of_input()]
    }
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
            let weights = (complex::<S>(weights), 0..written.vectors::<S>());
            multiply(simd, weights, (&read, spectra), (&written, products));
            // This frequency of the inputs is no longer needed.
            written.restore_columns(simd, products, column, rows);
        }
        written.restore_rows(simd, rows, self.bias, self.outputs, [pixels, spectrum]);
        SCRATCH.set(scratch);
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

        /// Visits every product of the definition, as indices of image, weight and output.
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
                    let weight = shape.place(shape.shift([s, t]), o_index);
                    let weight = c_index * shape.of_input() + weight;
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

    fn cases() -> [Case; 7] {
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
            // No padding, and shifts to one side only.
            case(2, [3, 9, 12], [4, 7, 10], [-2..1, -2..1]),
            case(2, [3, 7, 10], [2, 9, 12], [0..3, 0..3]),
            case(1, [1, 1, 1], [1, 1, 1], [around(0), around(1)]),
            // More spectra of weights than are made at a time.
            case(2, [110, 5, 9], [50, 5, 9], [around(1), around(1)]),
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
        let mut table = shape.table(|_, _| ());
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

        // The same frequency by frequency.
        let rows_of = |all: &[f32], size: usize, written: bool| {
            let mut rows = vec![f32::NAN; case.images * shape.rows()];
            let images = all.chunks_exact(size);
            for (image, rows) in images.zip(rows.chunks_exact_mut(shape.rows())) {
                simd.vectorize(RowTransforms {
                    shape: &shape,
                    image,
                    written,
                    rows,
                });
            }
            rows
        };
        let [x, y] = [
            rows_of(&inputs, input, false),
            rows_of(&outputs, output, true),
        ];
        let of_column = case.images * shape.written_rows();
        let mut columns = vec![f32::NAN; shape.fourier[1].half() * of_column];
        for (column, rows) in columns.chunks_exact_mut(of_column).enumerate() {
            simd.vectorize(ColumnOutputs {
                shape: &shape,
                table: &table.0,
                x: &x,
                column,
                rows,
            });
        }
        let mut found = vec![f32::NAN; outputs.len()];
        for (image, pixels) in found.chunks_exact_mut(output).enumerate() {
            simd.vectorize(RestoredRows {
                shape: &shape,
                y: &columns,
                images: case.images,
                image,
                bias: Some(&bias),
                pixels,
            });
        }
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
        let table_of = |sums: &[Vec<f32>]| {
            let mut found = shape.table(|_, _| ());
            let of_inputs = found.0.chunks_exact_mut(shape.of_input());
            for (input, table) in of_inputs.enumerate() {
                simd.vectorize(WeightTable {
                    shape: &shape,
                    sums,
                    input,
                    table,
                });
            }
            found
        };
        let found = table_of(&sums);
        // Padding channels, and weights that meet no pixel, have no gradient.
        assert_close(&found.0, &gradient, &name);

        // The same frequency by frequency.
        let mut sums = vec![f32::NAN; 2 * size];
        let of_column = sums.len() / shape.fourier[1].half();
        for (column, sums) in sums.chunks_exact_mut(of_column).enumerate() {
            simd.vectorize(ColumnGradient {
                shape: &shape,
                x: &x,
                y: &y,
                column,
                sums,
            });
        }
        // Sums are laid out for the width of the vectors.
        let found = table_of(&[sums]);
        assert_close(&found.0, &gradient, &name);
    }

    /// Runs the checks with the machine's own instructions.
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
        let mut table = shape.table(|_, _| ());
        let some = numbers(table.0.len(), 4);
        let mut expected = vec![0.0; outputs.len()];
        let mut gradient = vec![0.0; table.0.len()];
        case.terms(|[x, w, y]| {
            table.0[w] = some[w];
            expected[y] += f64::from(some[w]) * f64::from(inputs[x]);
            gradient[w] += f64::from(inputs[x]) * f64::from(outputs[y]);
        });
        let found = shape.outputs_by_images(&shape.spectra(&table), &inputs, None);
        assert_close(&found, &expected, "outputs");
        let found = shape.outputs_by_columns(&table, &inputs, None);
        assert_close(&found, &expected, "outputs by columns");
        let found = shape.gradient(&inputs, &outputs);
        assert_close(&found.0, &gradient, "gradient");
        let found = shape.gradient_by_columns(&inputs, &outputs);
        assert_close(&found.0, &gradient, "gradient by columns");
    }

    #[test]
    fn more_images_than_are_worked_on_together() {
        let image = [64, 3, 3];
        let shape = Spectral::new(image, image, [-1..2, -1..2]).unwrap();
        let images = PART / shape.rows() + 2;
        assert!(shape.many());
        let inputs = numbers(images * 64 * 9, 1);
        let table = shape.table(|input, weights| {
            weights.copy_from_slice(&numbers(weights.len(), 5 + input as u32));
        });
        let found = shape.outputs(&table, &inputs, None);
        let expected = shape.outputs_by_images(&shape.spectra(&table), &inputs, None);
        let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
        assert_close(&found, &expected, "in parts");
    }

    #[test]
    fn a_signal_too_long_has_no_transform() {
        let image = [8, 64, 64];
        assert_eq!(Spectral::new(image, image, [-1..2, -1..2]), None);
    }
}
