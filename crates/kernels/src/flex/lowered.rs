//! Convolutions of many channels as matrix products.
//!
//! The pixels under each weight of a coarse channel are written out, a row a weight and a column a coarse pixel of
//! some images ("im2col"). Then fine to coarse is the weights times this matrix; coarse to fine is their transpose
//! times the coarse pixels, added up where they came from; and the gradient of the weights is the product of the two.
//! The matrix is as many times larger than the image as pixels are read, but a matrix product is the fastest thing a processor does.

use super::{Loop, Raw, contiguous, conv::Geometry, correlate::copy_row, raw, run, slice};
use burn::{backend::Flex, backend::ops::FloatTensorOps};
use rayon::prelude::*;

/// Weights of a coarse channel, and coarse channels, from which on a product pays.
const WEIGHTS: usize = 256;
const CHANNELS: usize = 48;
/// Numbers of the matrix that are made at a time.
const BLOCK: usize = 1 << 21;

/// A convolution of one kernel, as [`Geometry`] has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lowered {
    fine: [usize; 3],
    coarse: [usize; 3],
    size: [usize; 2],
    stride: usize,
    padding: usize,
}

/// Pixels of a coarse row that a tap reads from a fine one: the first and the one behind the last, and the first
/// pixel that is read.
fn within(tap: usize, padding: usize, stride: usize, coarse: usize, fine: usize) -> [usize; 3] {
    let first = padding.saturating_sub(tap).div_ceil(stride);
    let beyond = (fine + padding).saturating_sub(tap).div_ceil(stride);
    let beyond = beyond.min(coarse).max(first);
    [
        first,
        beyond,
        (first * stride + tap).saturating_sub(padding),
    ]
}

impl Lowered {
    /// `None` where other ways are faster.
    pub(super) fn new(shape: &Geometry) -> Option<Self> {
        let [kernel] = &shape.kernels[..] else {
            return None;
        };
        let pays = shape.fine[0] * kernel.taps() >= WEIGHTS && kernel.channels >= CHANNELS;
        pays.then_some(Self {
            fine: shape.fine,
            coarse: shape.coarse,
            size: kernel.size,
            stride: shape.stride,
            padding: kernel.padding,
        })
    }

    /// Weights of a coarse channel.
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

    /// Images that are worked on at a time.
    fn together(&self) -> usize {
        (BLOCK / (self.weights() * self.pixels())).max(1)
    }

    /// Coarse rows of a tap, the fine row of the first, and the same of its columns.
    fn reach(&self, tap: usize) -> [[usize; 3]; 2] {
        let taps = [tap / self.size[1], tap % self.size[1]];
        [0, 1].map(|axis| {
            let (coarse, fine) = (self.coarse[axis + 1], self.fine[axis + 1]);
            within(taps[axis], self.padding, self.stride, coarse, fine)
        })
    }

    /// The matrix of some images, `[weights, images * pixels]`.
    fn matrix(&self, images: &[f32]) -> Raw {
        let count = images.len() / self.fine_size();
        let columns = count * self.pixels();
        let taps = self.size[0] * self.size[1];
        let mut matrix = vec![0.0; self.weights() * columns];
        let rows = matrix.par_chunks_mut(taps * columns).enumerate();
        rows.for_each(|(channel, rows)| {
            run(Collect {
                lowered: self,
                images,
                channel,
                rows,
            });
        });
        raw(matrix, [self.weights(), columns])
    }

    /// `[channels, images * pixels]` from `[images, channels, pixels]`.
    fn by_channel(&self, images: &[f32]) -> Raw {
        let (pixels, size) = (self.pixels(), self.coarse_size());
        let count = images.len() / size;
        let mut rows = Vec::with_capacity(images.len());
        for channel in 0..self.coarse[0] {
            for image in images.chunks_exact(size) {
                rows.extend_from_slice(&image[channel * pixels..][..pixels]);
            }
        }
        raw(rows, [self.coarse[0], count * pixels])
    }

    /// Fine to coarse.
    pub(super) fn gather(&self, fine: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let images = fine.len() / self.fine_size();
        let (pixels, size) = (self.pixels(), self.coarse_size());
        let weights = raw(weights.to_vec(), [self.coarse[0], self.weights()]);
        let mut output = vec![0.0; images * size];
        let together = self.together();
        let blocks = output.chunks_mut(together * size);
        for (fine, output) in fine.chunks(together * self.fine_size()).zip(blocks) {
            let product = Flex::float_matmul(weights.clone(), self.matrix(fine));
            let product = contiguous(&product);
            let product = slice(&product);
            let columns = output.len() / size * pixels;
            let images = output.par_chunks_exact_mut(size).enumerate();
            images.for_each(|(image, output)| {
                for (channel, output) in output.chunks_exact_mut(pixels).enumerate() {
                    let row = &product[channel * columns + image * pixels..][..pixels];
                    let bias = bias.map_or(0.0, |bias| bias[channel]);
                    for (output, value) in output.iter_mut().zip(row) {
                        *output = value + bias;
                    }
                }
            });
        }
        output
    }

    /// Coarse to fine.
    pub(super) fn spread(&self, coarse: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let images = coarse.len() / self.coarse_size();
        let plane = self.fine[1] * self.fine[2];
        let taps = self.size[0] * self.size[1];
        let weights = raw(weights.to_vec(), [self.coarse[0], self.weights()]);
        let weights = Flex::float_transpose(weights);
        let mut output = vec![0.0; images * self.fine_size()];
        let together = self.together();
        let blocks = output.chunks_mut(together * self.fine_size());
        for (coarse, output) in coarse.chunks(together * self.coarse_size()).zip(blocks) {
            let matrix = Flex::float_matmul(weights.clone(), self.by_channel(coarse));
            let matrix = contiguous(&matrix);
            let matrix = slice(&matrix);
            let columns = output.len() / self.fine_size() * self.pixels();
            let planes = output.par_chunks_exact_mut(plane).enumerate();
            planes.for_each(|(index, plane)| {
                let (image, channel) = (index / self.fine[0], index % self.fine[0]);
                plane.fill(bias.map_or(0.0, |bias| bias[channel]));
                run(Return {
                    lowered: self,
                    rows: &matrix[channel * taps * columns..][..taps * columns],
                    first: image * self.pixels(),
                    plane,
                });
            });
        }
        output
    }

    /// The gradient of the weights.
    pub(super) fn weight_gradient(&self, fine: &[f32], coarse: &[f32]) -> Vec<f32> {
        let mut sum = vec![0.0; self.coarse[0] * self.weights()];
        let together = self.together();
        let blocks = fine.chunks(together * self.fine_size());
        for (fine, coarse) in blocks.zip(coarse.chunks(together * self.coarse_size())) {
            let turned = Flex::float_transpose(self.matrix(fine));
            let product = Flex::float_matmul(self.by_channel(coarse), turned);
            let product = contiguous(&product);
            for (sum, value) in sum.iter_mut().zip(slice(&product)) {
                *sum += value;
            }
        }
        sum
    }
}

/// The rows of the matrix that belong to a fine channel, which begin as zeros.
struct Collect<'a> {
    lowered: &'a Lowered,
    images: &'a [f32],
    channel: usize,
    rows: &'a mut [f32],
}

impl Loop for Collect<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let shape = self.lowered;
        let (pixels, stride) = (shape.pixels(), shape.stride);
        let [_, height, width] = shape.fine;
        let columns = self.images.len() / shape.fine_size() * pixels;
        for (tap, row) in self.rows.chunks_exact_mut(columns).enumerate() {
            let [rows, across] = shape.reach(tap);
            let images = self.images.chunks_exact(shape.fine_size());
            for (image, row) in images.zip(row.chunks_exact_mut(pixels)) {
                let plane = &image[self.channel * height * width..][..height * width];
                for y in rows[0]..rows[1] {
                    let from = &plane[(rows[2] + (y - rows[0]) * stride) * width..][..width];
                    let to = &mut row[y * shape.coarse[2]..][across[0]..across[1]];
                    every(&from[across[2].min(width)..], stride, to);
                }
            }
        }
    }
}

/// Numbers that lie a stride apart.
#[inline(always)]
fn every(from: &[f32], stride: usize, to: &mut [f32]) {
    match stride {
        1 => copy_row(&from[..to.len()], to),
        2 => {
            let (pairs, last) = from.as_chunks::<2>();
            let count = to.len();
            for (to, pair) in to.iter_mut().zip(pairs) {
                *to = pair[0];
            }
            // At the end of a row the last pair may lack its second.
            if let ([last], true) = (last, count > pairs.len()) {
                to[count - 1] = *last;
            }
        }
        _ => {
            let from = from.iter().step_by(stride);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }
}

/// Adds the rows of a fine channel to one of its planes.
struct Return<'a> {
    lowered: &'a Lowered,
    rows: &'a [f32],
    /// Column of the image's first pixel.
    first: usize,
    plane: &'a mut [f32],
}

impl Loop for Return<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let shape = self.lowered;
        let (width, stride) = (shape.fine[2], shape.stride);
        let taps = shape.size[0] * shape.size[1];
        let columns = self.rows.len() / taps;
        for (tap, row) in self.rows.chunks_exact(columns).enumerate() {
            let [rows, across] = shape.reach(tap);
            let row = &row[self.first..][..shape.pixels()];
            for y in rows[0]..rows[1] {
                let from = &row[y * shape.coarse[2]..][across[0]..across[1]];
                let to = &mut self.plane[(rows[2] + (y - rows[0]) * stride) * width..][..width];
                add_to_every(from, stride, &mut to[across[2].min(width)..]);
            }
        }
    }
}

/// Adds to numbers that lie a stride apart.
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

    /// What a tap reads, pixel by pixel.
    #[test]
    fn a_tap_reads_what_lies_under_it() {
        for (padding, stride, size) in [(0, 1, 3), (1, 1, 3), (1, 2, 4), (2, 3, 5), (3, 2, 1)] {
            for fine in 1..9 {
                let Some(room) = (fine + 2 * padding).checked_sub(size) else {
                    continue;
                };
                let coarse = room / stride + 1;
                for tap in 0..size {
                    let read = |x: usize| {
                        (x * stride + tap)
                            .checked_sub(padding)
                            .filter(|x| *x < fine)
                    };
                    let inside: Vec<usize> = (0..coarse).filter(|x| read(*x).is_some()).collect();
                    let [first, beyond, pixel] = within(tap, padding, stride, coarse, fine);
                    assert_eq!((first..beyond).collect::<Vec<_>>(), inside);
                    if let Some(x) = inside.first() {
                        assert_eq!(read(*x), Some(pixel));
                    }
                }
            }
        }
    }
}
