//! Transforms of images from pixels to spectra and back.

use super::vectors::{filled, floats, floats_mut};
use crate::flex::{
    conv::fourier::{Complex, Fourier, Strided},
    simd::transpose::transpose,
};
use pulp::Simd;

/// Transforms of images from pixels to spectra and back.
///
/// Transformed rows are stored as `[frequency, row, vector]`, with one spare row after the last.
pub(super) struct Images<'a> {
    /// Channels, rows and columns.
    pub(super) size: [usize; 3],
    pub(super) fourier: &'a [Fourier; 2],
    /// Complex vectors from one frequency along the rows to the next.
    pub(super) step: usize,
}

impl Images<'_> {
    pub(super) fn vectors<S: Simd>(&self) -> usize {
        filled(self.size[0]) / S::F32_LANES
    }

    /// Complex vectors in the transformed rows of an image.
    pub(super) fn rows(&self) -> usize {
        self.fourier[1].half() * self.step
    }

    /// Complex vectors in the spectrum of an image, for one frequency along the rows.
    pub(super) fn columns<S: Simd>(&self) -> usize {
        self.fourier[0].length() * self.vectors::<S>()
    }

    /// Twice the transforms of the rows of all images.
    #[inline(always)]
    pub(super) fn transform_rows<S: Simd>(
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
                    // After the last row there is room for the second row of its pair.
                    place[vectors] = [simd.add_f32s(z[1], w[1]), simd.sub_f32s(w[0], z[0])];
                }
            }
        }
    }

    /// Computes the pixels of images from the transforms of their rows: `start[channel]` plus `N` times the
    /// inverse transform.
    #[inline(always)]
    pub(super) fn restore_rows<S: Simd>(
        &self,
        simd: S,
        rows: &[Complex<S>],
        start: Option<&[f32]>,
        images: &mut Chunks,
        [pixels, spectrum]: [&mut [Complex<S>]; 2],
    ) {
        // Iterates over the rows first: an image taken from the iterator without matching rows would be lost.
        for (rows, image) in rows.chunks_exact(self.rows()).zip(images) {
            self.restore_rows_of(simd, rows, start, image, [pixels, spectrum]);
        }
    }

    /// The same for one image.
    #[inline(always)]
    pub(super) fn restore_rows_of<S: Simd>(
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
    pub(super) fn transform_columns<S: Simd>(
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

    /// The inverse of the column transforms, without division.
    #[inline(always)]
    pub(super) fn restore_columns<S: Simd>(
        &self,
        simd: S,
        spectra: &[Complex<S>],
        column: usize,
        rows: &mut [Complex<S>],
    ) {
        let columns = spectra.chunks_exact(self.columns::<S>());
        for (rows, spectrum) in rows.chunks_exact_mut(self.rows()).zip(columns) {
            self.restore_column_of(simd, spectrum, column, rows);
        }
    }

    /// The same for one image.
    #[inline(always)]
    pub(super) fn restore_column_of<S: Simd>(
        &self,
        simd: S,
        spectrum: &[Complex<S>],
        column: usize,
        rows: &mut [Complex<S>],
    ) {
        for vector in 0..self.vectors::<S>() {
            let [column, row] = self.signals::<S>(column, vector);
            self.fourier[0].transform::<S, true>(simd, (spectrum, row), (rows, column));
        }
    }

    /// The position of a vector's column among the rows, and of its spectrum.
    fn signals<S: Simd>(&self, column: usize, vector: usize) -> [Strided; 2] {
        let step = self.vectors::<S>();
        let signal = |first: usize, count: usize| Strided { first, step, count };
        [
            signal(column * self.step + vector, self.size[1]),
            signal(vector, self.fourier[0].length()),
        ]
    }

    /// The positions of each image's scalars among all spectra.
    pub(super) fn places<S: Simd>(&self, images: usize) -> Vec<usize> {
        let place = |image: usize| image * self.columns::<S>() * 2 * S::F32_LANES;
        (0..images).map(place).collect()
    }
}

/// Images to be written, one after the other.
pub(super) type Chunks<'a, 'b> = dyn Iterator<Item = &'b mut [f32]> + 'a;

/// The frequency `-k`.
#[inline(always)]
fn mirrored(k: usize, length: usize) -> usize {
    if k == 0 { 0 } else { length - k }
}
