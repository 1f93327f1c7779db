//! Convolutions of 4x4 weights and stride 2 with fewer multiplications (Lavin and Gray 2016, after Winograd).
//!
//! By the parity of its rows and columns, the fine image splits into four images, each read by 2x2 weights with
//! stride 1.
//! Along an axis, two neighbouring coarse pixels
//!
//! ```text
//! y0 = g0 d0 + g1 d1      y1 = g0 d1 + g1 d2
//! ```
//!
//! need three products instead of four, and both axes together nine instead of sixteen:
//!
//! ```text
//! m0 = g0 (d0 - d1)      m1 = (g0 + g1) d1      m2 = g1 (d2 - d1)
//! y0 = m0 + m1           y1 = m1 + m2
//! ```
//!
//! Each of the nine is a matrix product. A row of the right matrix is a fine channel of one parity, a column is
//! a tile of 2x2 coarse pixels. Coarse to fine and the gradient of the weights use the transposes of these maps.

use crate::flex::{
    conv::geometry::{Geometry, inside},
    dense::product::{Matrix, numbers, numbers_on_top},
    simd::{Loop, chunks::by_chunks, run},
};
use rayon::prelude::*;
use std::{array, ops::Range};

/// Products of a tile.
const POINTS: usize = 9;
/// Parities of a pixel's row and column.
const PARTS: usize = 4;
/// Minimum number of channels on either side, and of tiles over all images, for which this method pays: the
/// weights are transformed at each call.
const CHANNELS: usize = 32;
const TILES: usize = 64;
/// Tiles that are processed at a time.
const COLUMNS: usize = 512;

/// A convolution with one 4x4 kernel and stride 2; the coarse image has even sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Winograd {
    fine: [usize; 3],
    coarse: [usize; 3],
    padding: usize,
}

impl Winograd {
    /// `None` for other shapes, and if other methods are faster.
    pub(crate) fn new(shape: &Geometry) -> Option<Self> {
        let [kernel] = &shape.kernels[..] else {
            return None;
        };
        let [coarse, rows, columns] = shape.coarse;
        let fits = kernel.size == [4, 4] && shape.stride == 2 && rows % 2 + columns % 2 == 0;
        let tiles = shape.images * (rows / 2) * (columns / 2);
        let pays = coarse.min(shape.fine[0]) >= CHANNELS && tiles >= TILES;
        (fits && pays).then_some(Self {
            fine: shape.fine,
            coarse: shape.coarse,
            padding: kernel.padding,
        })
    }

    /// Rows of the right matrix: fine channels times parities.
    fn depth(&self) -> usize {
        self.fine[0] * PARTS
    }

    /// Rows and columns of tiles.
    fn tiles(&self) -> [usize; 2] {
        [self.coarse[1] / 2, self.coarse[2] / 2]
    }

    fn fine_size(&self) -> usize {
        self.fine.iter().product()
    }

    fn coarse_size(&self) -> usize {
        self.coarse.iter().product()
    }

    /// Images that are processed at a time.
    fn together(&self, images: usize) -> usize {
        let [rows, columns] = self.tiles();
        let most = (COLUMNS / (rows * columns)).max(1);
        images.div_ceil(images.div_ceil(most).max(1)).max(1)
    }

    /// For the rows of a part: those inside the image, and the image row of the first of them.
    fn rows(&self, part: usize) -> (Range<usize>, usize) {
        let first = (part / 2) as isize - self.padding as isize;
        inside(2 * self.tiles()[0] + 1, 2, first, self.fine[1])
    }

    /// The same for pixel `x` of the tiles of a row.
    fn columns(&self, part: usize, x: usize) -> (Range<usize>, usize) {
        let first = (part % 2 + 2 * x) as isize - self.padding as isize;
        inside(self.tiles()[1], 4, first, self.fine[2])
    }

    /// `[coarse channels, points, depth]`
    fn points_of_weights(&self, weights: &[f32]) -> Vec<f32> {
        let (depth, taps) = (self.depth(), self.fine[0] * 16);
        by_chunks(
            self.coarse[0] * POINTS * depth,
            POINTS * depth,
            || (),
            |(), channel, points| {
                let weights = &weights[channel * taps..][..taps];
                for row in 0..depth {
                    let [top, left] = [row % PARTS / 2, row % 2];
                    let weights = &weights[row / PARTS * 16..][..16];
                    let g = |y: usize, x: usize| weights[(2 * y + top) * 4 + 2 * x + left];
                    let axis = |a: f32, b: f32| [a, a + b, b];
                    let first = axis(g(0, 0), g(0, 1));
                    let second = axis(g(1, 0), g(1, 1));
                    for x in 0..3 {
                        for (y, value) in axis(first[x], second[x]).into_iter().enumerate() {
                            points[(y * 3 + x) * depth + row] = value;
                        }
                    }
                }
            },
        )
    }

    /// The transpose of [`points_of_weights`](Self::points_of_weights), from `[coarse channels, depth]` per
    /// point.
    fn weights_of_points(&self, points: &[Vec<f32>; POINTS]) -> Vec<f32> {
        let (depth, taps) = (self.depth(), self.fine[0] * 16);
        by_chunks(
            self.coarse[0] * taps,
            taps,
            || (),
            |(), channel, weights| {
                for row in 0..depth {
                    let [top, left] = [row % PARTS / 2, row % 2];
                    let weights = &mut weights[row / PARTS * 16..][..16];
                    let at = |y: usize, x: usize| points[y * 3 + x][channel * depth + row];
                    for (y, x) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        let sum = at(y, x) + at(y, x + 1) + at(y + 1, x) + at(y + 1, x + 1);
                        weights[(2 * y + top) * 4 + 2 * x + left] = sum;
                    }
                }
            },
        )
    }

    /// `[depth, points, tiles]` for some images.
    fn points_of_fine(&self, images: &[f32]) -> Vec<f32> {
        let [rows, columns] = self.tiles();
        let size = POINTS * rows * columns * (images.len() / self.fine_size());
        by_chunks(
            self.depth() * size,
            size,
            Vec::new,
            |scratch, row, points| {
                run(FinePoints {
                    shape: self,
                    images,
                    row,
                    scratch,
                    points,
                });
            },
        )
    }

    /// `[coarse channels, points, tiles]` for some images.
    fn points_of_coarse(&self, images: &[f32]) -> Vec<f32> {
        let [rows, columns] = self.tiles();
        let size = POINTS * rows * columns * (images.len() / self.coarse_size());
        by_chunks(
            self.coarse[0] * size,
            size,
            Vec::new,
            |scratch, channel, points| {
                run(CoarsePoints {
                    shape: self,
                    images,
                    channel,
                    scratch,
                    points,
                });
            },
        )
    }

    /// Fine to coarse.
    pub(crate) fn gather(&self, fine: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let weights = self.points_of_weights(weights);
        let images = fine.len() / self.fine_size();
        let together = self.together(images);
        by_chunks(
            images * self.coarse_size(),
            together * self.coarse_size(),
            || (),
            |(), block, output| {
                let count = output.len() / self.coarse_size();
                let size = self.fine_size();
                let fine = &fine[block * together * size..][..count * size];
                let points = self.points_of_fine(fine);
                let [left, right] = [
                    matrices(&weights, [self.coarse[0], self.depth()]),
                    matrices(
                        &points,
                        [self.depth(), points.len() / POINTS / self.depth()],
                    ),
                ];
                run(Coarse {
                    shape: self,
                    points: &array::from_fn(|point| numbers(left[point], right[point])),
                    bias,
                    images: output,
                });
            },
        )
    }

    /// Coarse to fine.
    pub(crate) fn spread(&self, coarse: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let weights = self.points_of_weights(weights);
        let images = coarse.len() / self.coarse_size();
        let together = self.together(images);
        by_chunks(
            images * self.fine_size(),
            together * self.fine_size(),
            || (),
            |(), block, output| {
                let count = output.len() / self.fine_size();
                let size = self.coarse_size();
                let coarse = &coarse[block * together * size..][..count * size];
                let points = self.points_of_coarse(coarse);
                let [left, right] = [
                    matrices(&weights, [self.coarse[0], self.depth()]).map(Matrix::turned),
                    matrices(
                        &points,
                        [self.coarse[0], points.len() / POINTS / self.coarse[0]],
                    ),
                ];
                run(Fine {
                    shape: self,
                    points: &array::from_fn(|point| numbers(left[point], right[point])),
                    bias,
                    images: output,
                });
            },
        )
    }

    /// The gradient of the weights. It is summed over blocks of images, which do not depend on the number of
    /// threads, one after the other.
    pub(crate) fn weight_gradient(&self, fine: &[f32], coarse: &[f32]) -> Vec<f32> {
        let together = self.together(fine.len() / self.fine_size());
        let mut sums: [Option<Vec<f32>>; POINTS] = Default::default();
        let blocks = fine.chunks(together * self.fine_size());
        let blocks = blocks.zip(coarse.chunks(together * self.coarse_size()));
        for (fine, coarse) in blocks {
            let (fine, coarse) = (self.points_of_fine(fine), self.points_of_coarse(coarse));
            let columns = fine.len() / POINTS / self.depth();
            let left = matrices(&coarse, [self.coarse[0], columns]);
            let right = matrices(&fine, [self.depth(), columns]);
            let sums = sums.par_iter_mut().enumerate();
            sums.for_each(|(point, sum)| {
                let right = right[point].turned();
                *sum = Some(numbers_on_top(sum.take(), left[point], right));
            });
        }
        self.weights_of_points(&sums.map(|sum| sum.expect("there are tiles, so there are images")))
    }
}

/// The matrix of each point, from `[rows, points, columns]`.
fn matrices(values: &[f32], [rows, columns]: [usize; 2]) -> [Matrix<'_>; POINTS] {
    array::from_fn(|point| {
        Matrix::spaced(
            &values[point * columns..],
            [rows, columns],
            POINTS * columns,
        )
    })
}

/// Computes the input of the products from a row of fine images.
struct FinePoints<'a> {
    shape: &'a Winograd,
    images: &'a [f32],
    row: usize,
    scratch: &'a mut Vec<f32>,
    /// `[points, rows of tiles, images, columns of tiles]`
    points: &'a mut [f32],
}

impl Loop for FinePoints<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let shape = self.shape;
        let [channels, height, width] = shape.fine;
        let [tile_rows, tile_columns] = shape.tiles();
        let lanes = self.points.len() / POINTS / tile_rows;
        let (channel, part) = (self.row / PARTS, self.row % PARTS);
        // Three pixels of each tile along a row, `[pixel, row, lanes]`; zeros outside the image.
        let count = (2 * tile_rows + 1) * lanes;
        self.scratch.clear();
        self.scratch.resize(3 * count, 0.0);
        let (rows, top) = shape.rows(part);
        for (x, d) in self.scratch.chunks_exact_mut(count).enumerate() {
            let (columns, left) = shape.columns(part, x);
            let images = self.images.chunks_exact(height * width);
            let planes = images.skip(channel).step_by(channels);
            for (image, plane) in planes.enumerate() {
                for (index, row) in rows.clone().enumerate() {
                    let from = &plane[(top + 2 * index) * width..][..width];
                    let to = &mut d[row * lanes + image * tile_columns..][columns.clone()];
                    let from = from[left.min(width)..].chunks(4);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = from[0]);
                }
            }
        }
        let (d0, rest) = self.scratch.split_at_mut(count);
        let (d1, d2) = rest.split_at_mut(count);
        for ((d0, d1), d2) in d0.iter_mut().zip(&*d1).zip(&mut *d2) {
            *d0 -= d1;
            *d2 -= d1;
        }
        for (x, d) in [&*d0, &*d1, &*d2].into_iter().enumerate() {
            for tile in 0..tile_rows {
                let at = |y: usize| (y * 3 + x) * tile_rows * lanes + tile * lanes;
                let [first, second, third] =
                    [0, 1, 2].map(|y| &d[(2 * tile + y) * lanes..][..lanes]);
                let to = &mut self.points[at(0)..][..lanes];
                for ((to, a), b) in to.iter_mut().zip(first).zip(second) {
                    *to = a - b;
                }
                self.points[at(1)..][..lanes].copy_from_slice(second);
                let to = &mut self.points[at(2)..][..lanes];
                for ((to, b), c) in to.iter_mut().zip(second).zip(third) {
                    *to = c - b;
                }
            }
        }
    }
}

/// Computes the input of the products from a channel of coarse images.
struct CoarsePoints<'a> {
    shape: &'a Winograd,
    images: &'a [f32],
    channel: usize,
    scratch: &'a mut Vec<f32>,
    /// As in [`FinePoints`].
    points: &'a mut [f32],
}

impl Loop for CoarsePoints<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let [channels, height, width] = self.shape.coarse;
        let [tile_rows, tile_columns] = self.shape.tiles();
        let lanes = self.points.len() / POINTS / tile_rows;
        // Three numbers of each tile along a row, `[number, row, lanes]`.
        let count = height * lanes;
        self.scratch.resize(3 * count, 0.0);
        let (e0, rest) = self.scratch.split_at_mut(count);
        let (e1, e2) = rest.split_at_mut(count);
        let planes = self.images.chunks_exact(height * width);
        for (image, plane) in planes.skip(self.channel).step_by(channels).enumerate() {
            for (y, row) in plane.chunks_exact(width).enumerate() {
                let place = y * lanes + image * tile_columns;
                let to = e0[place..].iter_mut().zip(&mut e2[place..]);
                for ((e0, e2), pair) in to.zip(row.as_chunks::<2>().0) {
                    [*e0, *e2] = *pair;
                }
            }
        }
        for ((e1, e0), e2) in e1.iter_mut().zip(&*e0).zip(&*e2) {
            *e1 = e0 + e2;
        }
        for (x, e) in [&*e0, &*e1, &*e2].into_iter().enumerate() {
            for tile in 0..tile_rows {
                let at = |y: usize| (y * 3 + x) * tile_rows * lanes + tile * lanes;
                let [first, second] = [0, 1].map(|y| &e[(2 * tile + y) * lanes..][..lanes]);
                self.points[at(0)..][..lanes].copy_from_slice(first);
                let to = &mut self.points[at(1)..][..lanes];
                for ((to, a), b) in to.iter_mut().zip(first).zip(second) {
                    *to = a + b;
                }
                self.points[at(2)..][..lanes].copy_from_slice(second);
            }
        }
    }
}

/// Computes coarse images from the products.
struct Coarse<'a> {
    shape: &'a Winograd,
    /// Each `[coarse channels, rows of tiles, images, columns of tiles]`.
    points: &'a [Vec<f32>; POINTS],
    bias: Option<&'a [f32]>,
    images: &'a mut [f32],
}

impl Loop for Coarse<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let [channels, height, width] = self.shape.coarse;
        let [tile_rows, tile_columns] = self.shape.tiles();
        let lanes = self.points[0].len() / channels / tile_rows;
        let mut sums = vec![0.0; 3 * lanes];
        for channel in 0..channels {
            let bias = self.bias.map_or(0.0, |bias| bias[channel]);
            for row in 0..height {
                // A coarse row is the sum of two neighbouring points.
                let place = (channel * tile_rows + row / 2) * lanes;
                for (x, sums) in sums.chunks_exact_mut(lanes).enumerate() {
                    let [above, below] =
                        [row % 2, row % 2 + 1].map(|y| &self.points[y * 3 + x][place..][..lanes]);
                    for ((sum, a), b) in sums.iter_mut().zip(above).zip(below) {
                        *sum = a + b;
                    }
                }
                let (m0, rest) = sums.split_at(lanes);
                let (m1, m2) = rest.split_at(lanes);
                let planes = self.images.chunks_exact_mut(height * width);
                for (image, plane) in planes.skip(channel).step_by(channels).enumerate() {
                    let place = image * tile_columns;
                    let [m0, m1, m2] = [m0, m1, m2].map(|m| &m[place..][..tile_columns]);
                    let pairs = plane[row * width..][..width].as_chunks_mut::<2>().0;
                    for (((pair, m0), m1), m2) in pairs.iter_mut().zip(m0).zip(m1).zip(m2) {
                        *pair = [m0 + m1 + bias, m1 + m2 + bias];
                    }
                }
            }
        }
    }
}

/// Computes fine images from the products.
struct Fine<'a> {
    shape: &'a Winograd,
    /// Each `[depth, rows of tiles, images, columns of tiles]`.
    points: &'a [Vec<f32>; POINTS],
    bias: Option<&'a [f32]>,
    images: &'a mut [f32],
}

impl Loop for Fine<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let shape = self.shape;
        let [channels, height, width] = shape.fine;
        let [tile_rows, tile_columns] = shape.tiles();
        let lanes = self.points[0].len() / shape.depth() / tile_rows;
        let planes = self.images.chunks_exact_mut(height * width);
        for (index, plane) in planes.enumerate() {
            plane.fill(self.bias.map_or(0.0, |bias| bias[index % channels]));
        }
        let count = (2 * tile_rows + 1) * lanes;
        let mut scratch = vec![0.0; 3 * count];
        for row in 0..shape.depth() {
            let (channel, part) = (row / PARTS, row % PARTS);
            for (x, d) in scratch.chunks_exact_mut(count).enumerate() {
                d[..lanes].fill(0.0);
                for tile in 0..tile_rows {
                    let place = (row * tile_rows + tile) * lanes;
                    let [v0, v1, v2] = [0, 1, 2].map(|y| &self.points[y * 3 + x][place..][..lanes]);
                    let d = &mut d[2 * tile * lanes..][..3 * lanes];
                    let (first, rest) = d.split_at_mut(lanes);
                    let (second, third) = rest.split_at_mut(lanes);
                    let to = first.iter_mut().zip(second).zip(third);
                    let from = v0.iter().zip(v1).zip(v2);
                    for (((first, second), third), ((v0, v1), v2)) in to.zip(from) {
                        *first += v0;
                        *second = v1 - v0 - v2;
                        *third = *v2;
                    }
                }
            }
            let (d0, rest) = scratch.split_at_mut(count);
            let (d1, d2) = rest.split_at_mut(count);
            for ((d1, d0), d2) in d1.iter_mut().zip(&*d0).zip(&*d2) {
                *d1 -= d0 + d2;
            }
            let (rows, top) = shape.rows(part);
            for (x, d) in scratch.chunks_exact(count).enumerate() {
                let (columns, left) = shape.columns(part, x);
                let planes = self.images.chunks_exact_mut(height * width);
                for (image, plane) in planes.skip(channel).step_by(channels).enumerate() {
                    for (index, row) in rows.clone().enumerate() {
                        let to = &mut plane[(top + 2 * index) * width..][..width];
                        let from = &d[row * lanes + image * tile_columns..][columns.clone()];
                        let to = to[left.min(width)..].chunks_mut(4);
                        to.zip(from).for_each(|(to, from)| to[0] += from);
                    }
                }
            }
        }
    }
}
