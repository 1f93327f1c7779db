//! Outputs frequency by frequency, from the rows of all images.

use super::{
    Spectral,
    images::Images,
    product::multiply,
    vectors::{SCRATCH, complex, complex_mut, pieces},
};
use pulp::{Simd, WithSimd};

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

/// The outputs of all images at one frequency along the rows, `[image, row, vector]` with a spare row after the last of an
/// image, from the transforms of the rows of their inputs.
pub(super) struct ColumnOutputs<'a> {
    pub(super) shape: &'a Spectral,
    pub(super) table: &'a [f32],
    pub(super) x: &'a [f32],
    pub(super) column: usize,
    pub(super) rows: &'a mut [f32],
}

impl WithSimd for ColumnOutputs<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let shape = self.shape;
        let [read, written] = shape.images::<S>();
        let images = self.x.len() / shape.rows();
        let down = &shape.fourier[0];
        let (width, block) = (written.vectors::<S>(), shape.block::<S>());
        let sizes = [
            images * read.columns::<S>(),
            images * written.columns::<S>(),
            down.length() * shape.inputs[0] * block,
            down.length(),
        ];
        let mut scratch = SCRATCH.take();
        let [spectra, products, weights, signal] = pieces::<S, _>(&mut scratch, sizes);
        read.transform_columns(simd, complex::<S>(self.x), self.column, spectra);
        for start in (0..width).step_by(block) {
            let vectors = start..width.min(start + block);
            let weights = &mut weights[..down.length() * shape.inputs[0] * vectors.len()];
            let of = (self.table, self.column, vectors.clone());
            shape.weight_spectrum(simd, of, signal, weights);
            multiply(
                simd,
                (weights, vectors),
                (&read, spectra),
                (&written, products),
            );
        }
        let rows = complex_mut::<S>(self.rows).chunks_exact_mut((shape.outputs[1] + 1) * width);
        for (spectrum, rows) in products.chunks_exact(written.columns::<S>()).zip(rows) {
            written.restore_column_of(simd, spectrum, 0, rows);
        }
        SCRATCH.set(scratch);
    }
}

/// The pixels of one image, from the outputs of all `images` at each frequency along the rows (see [`ColumnOutputs`]).
pub(super) struct RestoredRows<'a> {
    pub(super) shape: &'a Spectral,
    pub(super) y: &'a [f32],
    pub(super) images: usize,
    pub(super) image: usize,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) pixels: &'a mut [f32],
}

impl WithSimd for RestoredRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [_, written] = self.shape.images::<S>();
        let own = (self.shape.outputs[1] + 1) * written.vectors::<S>();
        let written = Images {
            step: self.images * own,
            ..written
        };
        let length = self.shape.fourier[1].length();
        let mut scratch = SCRATCH.take();
        let pieces = pieces::<S, _>(&mut scratch, [length, length]);
        let rows = &complex::<S>(self.y)[self.image * own..];
        written.restore_rows_of(simd, rows, self.bias, self.pixels, pieces);
        SCRATCH.set(scratch);
    }
}
