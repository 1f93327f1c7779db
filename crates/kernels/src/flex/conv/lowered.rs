//! Convolutions of many channels as matrix products.
//!
//! The pixels that the weights of a coarse channel read are written to a matrix ("im2col"): one row per weight,
//! one column per coarse pixel of a few images. Fine to coarse is then the product of the weights and this
//! matrix. Coarse to fine is the product of the transposed weights and the coarse pixels, whose elements are
//! added to the pixels they belong to. The gradient of the weights is the product of the gradient and the
//! matrix. The matrix repeats each pixel for every weight that reads it, so it is made for a few images at a
//! time.
//!
//! Rows of small images are too short for vectors. Their images are interleaved: each pixel becomes as many numbers
//! as there are images ("lanes"), which are copied and added together.

use crate::flex::{
    conv::{
        field::every,
        geometry::{Geometry, inside},
    },
    dense::product::{Matrix, numbers},
    simd::{Loop, run, transpose::transpose},
};
use rayon::prelude::*;
use std::{borrow::Cow, ops::Range};

/// The fewest weights per coarse channel, and the fewest coarse channels, for which a matrix product pays.
const WEIGHTS: usize = 1024;
const CHANNELS: usize = 128;
/// Coarse images of at most this width leave vectors along a row in part empty; a matrix of many images fills them, if
/// there are weights per coarse channel, and coarse channels, of at least this number.
const NARROW: usize = 8;
const FEW: usize = 32;
/// For a kernel as large as its stride, whose matrix has each pixel once: the fewest weights in all, and the fewest weights
/// per coarse channel, and coarse channels.
const PATCH_WEIGHTS: usize = 4096;
const PATCH_SIDE: usize = 32;
/// Elements of the matrix that are made at a time, if that gives [`COLUMNS`].
const BLOCK: usize = 1 << 18;
const COLUMNS: usize = 512;
/// Images are interleaved if there are at least `LANES` of them, and their coarse images are narrower than `SHORT`.
const SHORT: usize = 16;
const LANES: usize = 8;
/// Groups of images whose sums are computed separately; see [`Lowered::weight_gradient`].
const GROUPS: usize = 8;

/// A convolution with one kernel, from a [`Geometry`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lowered {
    fine: [usize; 3],
    coarse: [usize; 3],
    size: [usize; 2],
    stride: usize,
    padding: usize,
}

impl Lowered {
    /// `None` if other methods are faster.
    pub(crate) fn new(shape: &Geometry) -> Option<Self> {
        let [kernel] = &shape.kernels[..] else {
            return None;
        };
        let (weights, channels) = (shape.fine[0] * kernel.taps(), kernel.channels);
        let large = weights >= WEIGHTS && channels >= CHANNELS;
        let narrow = shape.coarse[2] <= NARROW && weights >= FEW && channels >= FEW;
        let patches = kernel.size == [shape.stride; 2]
            && kernel.padding == 0
            && weights * channels >= PATCH_WEIGHTS
            && weights.min(channels) >= PATCH_SIDE;
        let pays = large || narrow || patches;
        pays.then_some(Self {
            fine: shape.fine,
            coarse: shape.coarse,
            size: kernel.size,
            stride: shape.stride,
            padding: kernel.padding,
        })
    }

    /// Whether there is a single coarse pixel that reads the whole fine image. Then each image is a row of the
    /// matrix as it is.
    fn whole(&self) -> bool {
        self.padding == 0 && self.pixels() == 1 && self.size[..] == self.fine[1..]
    }

    /// Weights per coarse channel.
    fn weights(&self) -> usize {
        self.fine[0] * self.size[0] * self.size[1]
    }

    fn pixels(&self) -> usize {
        self.coarse[1] * self.coarse[2]
    }

    fn fine_size(&self) -> usize {
        self.fine.iter().product()
    }

    fn coarse_size(&self) -> usize {
        self.coarse.iter().product()
    }

    /// Images that are processed at a time: their matrix stays in a cache, if that leaves enough columns for a
    /// product.
    fn together(&self) -> usize {
        let columns = (BLOCK / self.weights()).max(COLUMNS);
        (columns / self.pixels()).max(1)
    }

    /// The coarse rows for which a tap reads inside the image, and the fine row of the first of them; then the
    /// same for columns.
    fn reach(&self, tap: usize) -> [(Range<usize>, usize); 2] {
        let taps = [tap / self.size[1], tap % self.size[1]];
        [0, 1].map(|axis| {
            let (coarse, fine) = (self.coarse[axis + 1], self.fine[axis + 1]);
            let first = taps[axis] as isize - self.padding as isize;
            inside(coarse, self.stride, first, fine)
        })
    }

    /// Numbers of a pixel: all images, if they are interleaved, or one.
    fn lanes(&self, images: usize) -> usize {
        match self.coarse[2] < SHORT && images >= LANES {
            true => images,
            false => 1,
        }
    }

    /// The matrix of some images: `[weights, images * pixels]`, or `[weights, pixels * images]` if they are
    /// interleaved.
    fn matrix(&self, images: &[f32]) -> Vec<f32> {
        let size = self.fine_size();
        let count = images.len() / size;
        let lanes = self.lanes(count);
        let images = match lanes {
            1 => Cow::Borrowed(images),
            _ => Cow::Owned(turned(images, [count, size])),
        };
        let mut matrix = Vec::with_capacity(self.weights() * count * self.pixels());
        run(Collect {
            lowered: self,
            images: &images,
            lanes,
            matrix: &mut matrix,
        });
        matrix
    }

    /// `[channels, images * pixels]`, or `[channels, pixels * images]` if they are interleaved, from `[images,
    /// channels, pixels]`.
    fn by_channel(&self, images: &[f32]) -> Vec<f32> {
        let (pixels, size) = (self.pixels(), self.coarse_size());
        let count = images.len() / size;
        if self.lanes(count) > 1 {
            return turned(images, [count, size]);
        }
        let mut rows = Vec::with_capacity(images.len());
        for channel in 0..self.coarse[0] {
            for image in images.chunks_exact(size) {
                rows.extend_from_slice(&image[channel * pixels..][..pixels]);
            }
        }
        rows
    }

    /// The weights as a matrix.
    fn shaped<'a>(&self, weights: &'a [f32]) -> Matrix<'a> {
        Matrix::new(weights, [self.coarse[0], self.weights()])
    }

    /// Fine to coarse.
    pub(crate) fn gather(&self, fine: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let images = fine.len() / self.fine_size();
        let (pixels, size) = (self.pixels(), self.coarse_size());
        let weights = self.shaped(weights);
        if self.whole() {
            let fine = Matrix::new(fine, [images, self.weights()]);
            let mut output = numbers(fine, weights.turned());
            if let Some(bias) = bias {
                let rows = output.chunks_exact_mut(size);
                rows.for_each(|row| row.iter_mut().zip(bias).for_each(|(u, bias)| *u += bias));
            }
            return output;
        }
        let mut output = vec![0.0; images * size];
        let together = self.together();
        let blocks = fine.par_chunks(together * self.fine_size());
        let blocks = blocks.zip(output.par_chunks_mut(together * size));
        blocks.for_each(|(fine, output)| {
            let columns = output.len() / size * pixels;
            let matrix = self.matrix(fine);
            let mut product = numbers(weights, Matrix::new(&matrix, [self.weights(), columns]));
            let count = output.len() / size;
            if self.lanes(count) > 1 {
                if let Some(bias) = bias {
                    let rows = product.chunks_exact_mut(columns).zip(bias);
                    rows.for_each(|(row, bias)| row.iter_mut().for_each(|u| *u += bias));
                }
                transpose((&product, count), (output, size), [size, count]);
                return;
            }
            for (image, output) in output.chunks_exact_mut(size).enumerate() {
                for (channel, output) in output.chunks_exact_mut(pixels).enumerate() {
                    let row = &product[channel * columns + image * pixels..][..pixels];
                    let bias = bias.map_or(0.0, |bias| bias[channel]);
                    for (output, value) in output.iter_mut().zip(row) {
                        *output = value + bias;
                    }
                }
            }
        });
        output
    }

    /// Coarse to fine.
    pub(crate) fn spread(&self, coarse: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let images = coarse.len() / self.coarse_size();
        let plane = self.fine[1] * self.fine[2];
        let weights = self.shaped(weights);
        if self.whole() {
            let mut output = numbers(Matrix::new(coarse, [images, self.coarse[0]]), weights);
            if let Some(bias) = bias {
                for (index, plane) in output.chunks_exact_mut(plane).enumerate() {
                    let bias = bias[index % self.fine[0]];
                    plane.iter_mut().for_each(|pixel| *pixel += bias);
                }
            }
            return output;
        }
        let weights = weights.turned();
        let mut output = vec![0.0; images * self.fine_size()];
        let together = self.together();
        let blocks = coarse.par_chunks(together * self.coarse_size());
        let blocks = blocks.zip(output.par_chunks_mut(together * self.fine_size()));
        blocks.for_each(|(coarse, output)| {
            let columns = coarse.len() / self.coarse[0];
            let coarse = self.by_channel(coarse);
            let matrix = numbers(weights, Matrix::new(&coarse, [self.coarse[0], columns]));
            let (size, count) = (self.fine_size(), columns / self.pixels());
            let lanes = self.lanes(count);
            let fill = |images: &mut [f32]| {
                for (index, plane) in images.chunks_exact_mut(plane * lanes).enumerate() {
                    plane.fill(bias.map_or(0.0, |bias| bias[index % self.fine[0]]));
                }
                run(Return {
                    lowered: self,
                    matrix: &matrix,
                    lanes,
                    images,
                });
            };
            if lanes > 1 {
                let mut images = vec![0.0; output.len()];
                fill(&mut images);
                transpose((&images, count), (output, size), [size, count]);
            } else {
                fill(output);
            }
        });
        output
    }

    /// The gradient of the weights. Images are summed in groups, whose number depends only on the number of
    /// images, so the number of threads does not change the result.
    pub(crate) fn weight_gradient(&self, fine: &[f32], coarse: &[f32]) -> Vec<f32> {
        let images = fine.len() / self.fine_size();
        if self.whole() {
            let coarse = Matrix::new(coarse, [images, self.coarse[0]]);
            let fine = Matrix::new(fine, [images, self.weights()]);
            return numbers(coarse.turned(), fine);
        }
        let together = self.together();
        let group = images.div_ceil(together).div_ceil(GROUPS).max(1) * together;
        let groups = fine.par_chunks(group * self.fine_size());
        let groups = groups.zip(coarse.par_chunks(group * self.coarse_size()));
        let sums = groups.map(|(fine, coarse)| {
            let blocks = fine.chunks(together * self.fine_size());
            let blocks = blocks.zip(coarse.chunks(together * self.coarse_size()));
            let products = blocks.map(|(fine, coarse)| {
                let columns = coarse.len() / self.coarse[0];
                let (matrix, coarse) = (self.matrix(fine), self.by_channel(coarse));
                let turned = Matrix::new(&matrix, [self.weights(), columns]).turned();
                numbers(Matrix::new(&coarse, [self.coarse[0], columns]), turned)
            });
            products.reduce(plus).expect("every group has images")
        });
        let sums: Vec<Vec<f32>> = sums.collect();
        let sum = sums.into_iter().reduce(plus);
        sum.unwrap_or_else(|| vec![0.0; self.coarse[0] * self.weights()])
    }
}

/// The transpose of a matrix.
fn turned(matrix: &[f32], [rows, columns]: [usize; 2]) -> Vec<f32> {
    let mut turned = vec![0.0; matrix.len()];
    transpose((matrix, columns), (&mut turned, rows), [rows, columns]);
    turned
}

/// `a + b`
fn plus(mut a: Vec<f32>, b: Vec<f32>) -> Vec<f32> {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
    a
}

/// Writes the matrix row by row.
struct Collect<'a> {
    lowered: &'a Lowered,
    /// `[images, channels, height, width]`, or `[channels, height, width, images]` with as many lanes.
    images: &'a [f32],
    lanes: usize,
    matrix: &'a mut Vec<f32>,
}

impl Loop for Collect<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (shape, lanes) = (self.lowered, self.lanes);
        let [channels, height, width] = shape.fine;
        let [_, coarse_rows, coarse_width] = shape.coarse;
        let taps = shape.size[0] * shape.size[1];
        let (line, plane) = (width * lanes, height * width * lanes);
        for row in 0..channels * taps {
            let (channel, tap) = (row / taps, row % taps);
            let [(rows, top), (across, left)] = shape.reach(tap);
            for image in self.images.chunks_exact(shape.fine_size() * lanes) {
                let plane = &image[channel * plane..][..plane];
                let start = self.matrix.len();
                let count = coarse_rows * coarse_width * lanes;
                self.matrix.resize(start + count, 0.0);
                let pixels = &mut self.matrix[start..];
                for (index, y) in rows.clone().enumerate() {
                    let from = &plane[(top + index * shape.stride) * line..][..line];
                    let from = &from[(left * lanes).min(line)..];
                    let to = &mut pixels[y * coarse_width * lanes..];
                    let to = &mut to[across.start * lanes..across.end * lanes];
                    if lanes == 1 || shape.stride == 1 {
                        every(from, shape.stride, to);
                        continue;
                    }
                    let from = from.chunks_exact(lanes).step_by(shape.stride);
                    let pairs = to.chunks_exact_mut(lanes).zip(from);
                    pairs.for_each(|(to, from)| to.copy_from_slice(from));
                }
            }
        }
    }
}

/// Adds the rows of a matrix to the pixels that they belong to.
struct Return<'a> {
    lowered: &'a Lowered,
    matrix: &'a [f32],
    lanes: usize,
    /// As in [`Collect`].
    images: &'a mut [f32],
}

impl Loop for Return<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (shape, lanes) = (self.lowered, self.lanes);
        let [channels, height, width] = shape.fine;
        let taps = shape.size[0] * shape.size[1];
        let columns = self.matrix.len() / shape.weights();
        let (line, pixels) = (width * lanes, shape.pixels() * lanes);
        let planes = self.images.chunks_exact_mut(height * line);
        for (index, plane) in planes.enumerate() {
            let (image, channel) = (index / channels, index % channels);
            for tap in 0..taps {
                let [(rows, top), (across, left)] = shape.reach(tap);
                let row = &self.matrix[(channel * taps + tap) * columns..][..columns];
                let row = &row[image * pixels..][..pixels];
                for (index, y) in rows.enumerate() {
                    let from = &row[y * shape.coarse[2] * lanes..];
                    let from = &from[across.start * lanes..across.end * lanes];
                    let to = &mut plane[(top + index * shape.stride) * line..][..line];
                    let to = &mut to[(left * lanes).min(line)..];
                    if lanes == 1 || shape.stride == 1 {
                        add_to_every(from, shape.stride, to);
                        continue;
                    }
                    let to = to.chunks_exact_mut(lanes).step_by(shape.stride);
                    let pairs = to.zip(from.chunks_exact(lanes));
                    pairs.for_each(|(to, from)| add_to_every(from, 1, to));
                }
            }
        }
    }
}

/// Adds to numbers at a fixed stride.
#[inline(always)]
fn add_to_every(from: &[f32], stride: usize, to: &mut [f32]) {
    match stride {
        1 => {
            for (to, from) in to.iter_mut().zip(from) {
                *to += from;
            }
        }
        2 => {
            let (pairs, last) = to.as_chunks_mut::<2>();
            let count = pairs.len();
            for (pair, from) in pairs.iter_mut().zip(from) {
                pair[0] += from;
            }
            if let ([last], Some(from)) = (last, from.get(count)) {
                *last += from;
            }
        }
        _ => {
            let to = to.iter_mut().step_by(stride);
            to.zip(from).for_each(|(to, from)| *to += from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_images_have_no_gradient() {
        let lowered = Lowered {
            fine: [3, 4, 5],
            coarse: [2, 3, 4],
            size: [2, 2],
            stride: 1,
            padding: 0,
        };
        assert_eq!(lowered.weight_gradient(&[], &[]), vec![0.0; 2 * 3 * 4]);
    }
}
