//! Convolutions of 3x3 weights and stride 1 with fewer multiplications (Winograd's method, after Lavin and Gray 2016).
//!
//! A tile of 4x4 coarse pixels reads 6x6 fine ones. Along an axis, four coarse pixels
//!
//! ```text
//! y_i = g0 d_i + g1 d_{i+1} + g2 d_{i+2}          i = 0 .. 3
//! ```
//!
//! are coefficients of a product of polynomials, which its values at six points tell, here 0, 1, -1, 2, -1/2 and infinity
//! (of five points with small numbers those that round least):
//!
//! ```text
//! y = A^T ((G g) * (B^T d))                       * is a product of numbers
//! ```
//!
//! Both axes together need 36 products in place of 144. Each of the 36 is a matrix product: its left matrix has the
//! weights, a column of the right one is a tile of an image. Coarse to fine and the gradient of the weights use the
//! transposes of these maps.
//!
//! Images are interleaved: each pixel becomes as many numbers as there are images ("lanes"), filled up with zeros to whole
//! vectors.

use crate::flex::{
    conv::geometry::Geometry,
    dense::product::{Matrix, numbers},
    simd::{Loop, chunks::by_chunks, run, transpose::transpose},
};
use rayon::prelude::*;

/// Rows and columns of a tile of coarse pixels, and of the fine pixels that it reads.
const TILE: usize = 4;
const READ: usize = 6;
/// Products of a tile, and weights of a kernel.
const POINTS: usize = READ * READ;
const TAPS: usize = 9;
/// Numbers that are worked on together.
const VECTOR: usize = 16;
/// The fewest channels on either side, and images, for which this method pays: weights and images are transformed at each
/// call.
const CHANNELS: usize = 32;
const IMAGES: usize = 12;
/// Columns of the matrices that are made at a time.
const COLUMNS: usize = 256;
/// Coarse channels whose gradient is made at a time.
const ROWS: usize = 64;

/// As many lanes as are worked on together.
type Lanes = [f32; VECTOR];

/// A convolution with one 3x3 kernel and stride 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threes {
    fine: [usize; 3],
    coarse: [usize; 3],
    padding: usize,
}

/// Room for a map of squares of pixels, which is used again for each: to fill it with zeros costs as much as the map.
struct Mapped<const N: usize, const M: usize> {
    from: [[Lanes; N]; N],
    half: [[Lanes; N]; M],
    to: [[Lanes; M]; M],
}

impl<const N: usize, const M: usize> Mapped<N, M> {
    fn new() -> Self {
        Self {
            from: [[[0.0; VECTOR]; N]; N],
            half: [[[0.0; VECTOR]; N]; M],
            to: [[[0.0; VECTOR]; M]; M],
        }
    }

    /// Writes to `to` what a linear map along both axes, first of the columns, then of the rows, makes of `from`.
    #[inline(always)]
    fn map(&mut self, map: impl Fn([f32; N]) -> [f32; M]) {
        for x in 0..N {
            for lane in 0..VECTOR {
                let values = map(std::array::from_fn(|y| self.from[y][x][lane]));
                for (half, value) in self.half.iter_mut().zip(values) {
                    half[x][lane] = value;
                }
            }
        }
        for (to, half) in self.to.iter_mut().zip(&self.half) {
            for lane in 0..VECTOR {
                let values = map(std::array::from_fn(|x| half[x][lane]));
                for (to, value) in to.iter_mut().zip(values) {
                    to[lane] = value;
                }
            }
        }
    }
}

/// `G g`
#[inline(always)]
fn of_weights([a, b, c]: [f32; 3]) -> [f32; READ] {
    const THIRD: f32 = 1.0 / 3.0;
    const FIFTEENTH: f32 = 1.0 / 15.0;
    [
        a,
        -THIRD * (a + b + c),
        THIRD * (a - b + c),
        FIFTEENTH * (a + 2.0 * b + 4.0 * c),
        FIFTEENTH * (-16.0 * a + 8.0 * b - 4.0 * c),
        c,
    ]
}

/// The transpose of [`of_weights`].
#[inline(always)]
fn to_weights([a, b, c, d, e, f]: [f32; READ]) -> [f32; 3] {
    const THIRD: f32 = 1.0 / 3.0;
    const FIFTEENTH: f32 = 1.0 / 15.0;
    [
        a + THIRD * (c - b) + FIFTEENTH * (d - 16.0 * e),
        -THIRD * (b + c) + FIFTEENTH * (2.0 * d + 8.0 * e),
        f + THIRD * (c - b) + FIFTEENTH * (4.0 * d - 4.0 * e),
    ]
}

/// `B^T d`
#[inline(always)]
fn of_fine([a, b, c, d, e, f]: [f32; READ]) -> [f32; READ] {
    [
        a + 1.5 * (b - d) - 2.0 * c + e,
        e - b - 2.5 * c - 0.5 * d,
        e + b + 0.5 * c - 2.5 * d,
        e - c + 0.5 * (d - b),
        e - c + 2.0 * (b - d),
        b + 1.5 * (c - e) - 2.0 * d + f,
    ]
}

/// The transpose of [`of_fine`].
#[inline(always)]
fn to_fine([a, b, c, d, e, f]: [f32; READ]) -> [f32; READ] {
    [
        a,
        1.5 * a - b + c - 0.5 * d + 2.0 * e + f,
        -2.0 * a - 2.5 * b + 0.5 * c - d - e + 1.5 * f,
        -1.5 * a - 0.5 * b - 2.5 * c + 0.5 * d - 2.0 * (e + f),
        a + b + c + d + e - 1.5 * f,
        f,
    ]
}

/// `A^T m`
#[inline(always)]
fn to_coarse([a, b, c, d, e, f]: [f32; READ]) -> [f32; TILE] {
    [
        a + b + c + d + e,
        b - c + 2.0 * d - 0.5 * e,
        b + c + 4.0 * d + 0.25 * e,
        b - c + 8.0 * d - 0.125 * e + f,
    ]
}

/// The transpose of [`to_coarse`].
#[inline(always)]
fn of_coarse([a, b, c, d]: [f32; TILE]) -> [f32; READ] {
    [
        a,
        a + b + c + d,
        a - b + c - d,
        a + 2.0 * b + 4.0 * c + 8.0 * d,
        a - 0.5 * b + 0.25 * c - 0.125 * d,
        d,
    ]
}

impl Threes {
    /// `None` for other shapes, and if other methods are faster.
    pub(crate) fn new(shape: &Geometry) -> Option<Self> {
        let [kernel] = &shape.kernels[..] else {
            return None;
        };
        let made = Self {
            fine: shape.fine,
            coarse: shape.coarse,
            padding: kernel.padding,
        };
        let [rows, columns] = made.tiles();
        let fits = kernel.size == [3, 3] && shape.stride == 1;
        let pays = shape.coarse[0].min(shape.fine[0]) >= CHANNELS
            && shape.images >= IMAGES
            && 2 * rows * columns * POINTS < TAPS * shape.coarse[1] * shape.coarse[2];
        (fits && pays).then_some(made)
    }

    /// Rows and columns of tiles.
    fn tiles(&self) -> [usize; 2] {
        [1, 2].map(|axis| self.coarse[axis].div_ceil(TILE))
    }

    fn fine_size(&self) -> usize {
        self.fine.iter().product()
    }

    fn coarse_size(&self) -> usize {
        self.coarse.iter().product()
    }

    /// Images that are processed at a time.
    fn together(&self) -> usize {
        let [rows, columns] = self.tiles();
        (COLUMNS / (rows * columns)).next_multiple_of(VECTOR)
    }

    /// `[coarse channels, points, fine channels]`
    pub(crate) fn points_of_weights(&self, weights: &[f32]) -> Vec<f32> {
        let channels = self.fine[0];
        let size = POINTS * channels;
        by_chunks(
            self.coarse[0] * size,
            size,
            || (),
            |(), coarse, points| {
                run(WeightPoints {
                    weights: &weights[coarse * channels * TAPS..][..channels * TAPS],
                    points,
                });
            },
        )
    }

    /// `[channels, points, tiles, lanes]` of interleaved fine or coarse images.
    fn points_of_images(&self, images: &[f32], lanes: usize, coarse: bool) -> Vec<f32> {
        let [rows, columns] = self.tiles();
        let shape = if coarse { self.coarse } else { self.fine };
        let (size, plane) = (POINTS * rows * columns * lanes, shape[1] * shape[2] * lanes);
        by_chunks(
            shape[0] * size,
            size,
            || (),
            |(), channel, points| {
                let plane = &images[channel * plane..][..plane];
                run(ImagePoints {
                    shape: self,
                    plane,
                    lanes,
                    coarse,
                    points,
                });
            },
        )
    }

    /// The matrix of each point, from `[rows, points, columns]`.
    fn matrices<'a>(
        values: &'a [f32],
        [rows, columns]: [usize; 2],
    ) -> impl Fn(usize) -> Matrix<'a> + Sync {
        move |point| {
            Matrix::spaced(
                &values[point * columns..],
                [rows, columns],
                POINTS * columns,
            )
        }
    }

    /// Fine to coarse, with the [points of the weights](Self::points_of_weights).
    pub(crate) fn gather(&self, fine: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        self.images(fine, weights, bias, false)
    }

    /// Coarse to fine, with the points of the weights.
    pub(crate) fn spread(&self, coarse: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        self.images(coarse, weights, bias, true)
    }

    fn images(&self, from: &[f32], weights: &[f32], bias: Option<&[f32]>, back: bool) -> Vec<f32> {
        let (read, written) = match back {
            false => (self.fine, self.coarse),
            true => (self.coarse, self.fine),
        };
        let [size, written_size]: [usize; 2] = [read, written].map(|s| s.iter().product());
        let together = self.together();
        let [rows, columns] = self.tiles();
        by_chunks(
            from.len() / size * written_size,
            together * written_size,
            || (),
            |(), block, output| {
                let count = output.len() / written_size;
                let from = &from[block * together * size..][..count * size];
                let (images, lanes) = interleaved(from, [count, size]);
                let points = self.points_of_images(&images, lanes, back);
                let columns = rows * columns * lanes;
                let left = Self::matrices(weights, [self.coarse[0], self.fine[0]]);
                let right = Self::matrices(&points, [read[0], columns]);
                let products = (0..POINTS).into_par_iter().map(|point| match back {
                    false => numbers(left(point), right(point)),
                    true => numbers(left(point).turned(), right(point)),
                });
                let products: Vec<Vec<f32>> = products.collect();
                let plane = written[1] * written[2] * lanes;
                let drawn = by_chunks(
                    written[0] * plane,
                    plane,
                    || (),
                    |(), channel, plane| {
                        run(PointImages {
                            shape: self,
                            points: &products,
                            first: channel * columns,
                            lanes,
                            fine: back,
                            bias: bias.map_or(0.0, |bias| bias[channel]),
                            plane,
                        });
                    },
                );
                transpose(
                    (&drawn, lanes),
                    (output, written_size),
                    [written_size, count],
                );
            },
        )
    }

    /// The gradient of the weights. It is summed over blocks of images, which do not depend on the number of threads, one
    /// after the other. The products of a few coarse channels stay in a cache until they are weights.
    pub(crate) fn weight_gradient(&self, fine: &[f32], coarse: &[f32]) -> Vec<f32> {
        let together = self.together();
        let [rows, columns] = self.tiles();
        let [channels, of_channel] = [self.fine[0], self.fine[0] * TAPS];
        let mut gradient = vec![0.0; self.coarse[0] * of_channel];
        let blocks = fine.chunks(together * self.fine_size());
        let blocks = blocks.zip(coarse.chunks(together * self.coarse_size()));
        for (fine, coarse) in blocks {
            let count = fine.len() / self.fine_size();
            let (fine, lanes) = interleaved(fine, [count, self.fine_size()]);
            let (coarse, _) = interleaved(coarse, [count, self.coarse_size()]);
            let right = self.points_of_images(&fine, lanes, false);
            let left = self.points_of_images(&coarse, lanes, true);
            let columns = rows * columns * lanes;
            let right = Self::matrices(&right, [channels, columns]);
            let parts = gradient.par_chunks_mut(ROWS * of_channel);
            parts.enumerate().for_each(|(part, weights)| {
                let count = weights.len() / of_channel;
                let left = &left[part * ROWS * POINTS * columns..];
                let left = Self::matrices(left, [count, columns]);
                let product = |point| numbers(left(point), right(point).turned());
                run(PointWeights {
                    points: &(0..POINTS).map(product).collect::<Vec<_>>(),
                    weights,
                });
            });
        }
        gradient
    }
}

/// Numbers `[size, lanes]` from `[images, size]`, and the number of lanes.
fn interleaved(images: &[f32], [count, size]: [usize; 2]) -> (Vec<f32>, usize) {
    let lanes = count.next_multiple_of(VECTOR);
    let mut turned = vec![0.0; size * lanes];
    transpose((images, size), (&mut turned, lanes), [count, size]);
    (turned, lanes)
}

/// Copies as many numbers as there is room for; a whole vector without a call.
#[inline(always)]
fn copied(from: &[f32], to: &mut [f32]) {
    match <&mut Lanes>::try_from(&mut *to) {
        Ok(to) => to.copy_from_slice(&from[..VECTOR]),
        Err(_) => to.copy_from_slice(&from[..to.len()]),
    }
}

/// Computes the left matrices' rows of a coarse channel.
struct WeightPoints<'a> {
    /// `[fine channels, taps]`
    weights: &'a [f32],
    /// `[points, fine channels]`
    points: &'a mut [f32],
}

impl Loop for WeightPoints<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let channels = self.weights.len() / TAPS;
        let mut square = Mapped::new();
        for (index, weights) in self.weights.chunks(VECTOR * TAPS).enumerate() {
            for (lane, weights) in weights.chunks_exact(TAPS).enumerate() {
                for (tap, weight) in weights.iter().enumerate() {
                    square.from[tap / 3][tap % 3][lane] = *weight;
                }
            }
            square.map(of_weights);
            let count = weights.len() / TAPS;
            for (y, row) in square.to.iter().enumerate() {
                for (x, values) in row.iter().enumerate() {
                    let place = (y * READ + x) * channels + index * VECTOR;
                    copied(&values[..], &mut self.points[place..][..count]);
                }
            }
        }
    }
}

/// Adds to the gradient of the weights of some coarse channels.
struct PointWeights<'a> {
    /// Each `[coarse channels, fine channels]`.
    points: &'a [Vec<f32>],
    /// `[coarse channels, fine channels, taps]`
    weights: &'a mut [f32],
}

impl Loop for PointWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut square = Mapped::new();
        for (index, weights) in self.weights.chunks_mut(VECTOR * TAPS).enumerate() {
            let count = weights.len() / TAPS;
            for (point, values) in self.points.iter().enumerate() {
                let values = &values[index * VECTOR..][..count];
                let to = &mut square.from[point / READ][point % READ];
                copied(values, &mut to[..count]);
            }
            square.map(to_weights);
            for (lane, weights) in weights.chunks_exact_mut(TAPS).enumerate() {
                for (tap, weight) in weights.iter_mut().enumerate() {
                    *weight += square.to[tap / 3][tap % 3][lane];
                }
            }
        }
    }
}

/// The pixel at a place of a tile's reach, if it is inside the image: its number, from the first row and column of the
/// tile.
#[inline(always)]
fn inside(first: [isize; 2], [y, x]: [usize; 2], [height, width]: [usize; 2]) -> Option<usize> {
    let (row, column) = (first[0] + y as isize, first[1] + x as isize);
    let is = (0..height as isize).contains(&row) && (0..width as isize).contains(&column);
    is.then_some(row as usize * width + column as usize)
}

/// Computes the right matrices' rows of a channel.
struct ImagePoints<'a> {
    shape: &'a Threes,
    /// `[rows, columns, lanes]`
    plane: &'a [f32],
    lanes: usize,
    /// Whether it is a coarse image: tiles are read in place of what they read.
    coarse: bool,
    /// `[points, tiles, lanes]`
    points: &'a mut [f32],
}

impl ImagePoints<'_> {
    #[inline(always)]
    fn tiles<const N: usize>(
        self,
        [_, height, width]: [usize; 3],
        padding: usize,
        map: impl Fn([f32; N]) -> [f32; READ],
    ) {
        let [rows, columns] = self.shape.tiles();
        let size = rows * columns * self.lanes;
        let mut square = Mapped::new();
        for tile in 0..rows * columns {
            let first = [tile / columns, tile % columns];
            let first = first.map(|place| (TILE * place) as isize - padding as isize);
            for lane in (0..self.lanes).step_by(VECTOR) {
                for (y, row) in square.from.iter_mut().enumerate() {
                    for (x, pixel) in row.iter_mut().enumerate() {
                        match inside(first, [y, x], [height, width]) {
                            Some(place) => {
                                let from = &self.plane[place * self.lanes + lane..][..VECTOR];
                                pixel.copy_from_slice(from);
                            }
                            None => pixel.fill(0.0),
                        }
                    }
                }
                square.map(&map);
                for (y, row) in square.to.iter().enumerate() {
                    for (x, values) in row.iter().enumerate() {
                        let place = (y * READ + x) * size + tile * self.lanes + lane;
                        self.points[place..][..VECTOR].copy_from_slice(values);
                    }
                }
            }
        }
    }
}

impl Loop for ImagePoints<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let shape = self.shape;
        match self.coarse {
            false => self.tiles(shape.fine, shape.padding, of_fine),
            true => self.tiles(shape.coarse, 0, of_coarse),
        }
    }
}

/// Computes a channel of images from the products.
struct PointImages<'a> {
    shape: &'a Threes,
    /// Each `[channels, tiles, lanes]`.
    points: &'a [Vec<f32>],
    first: usize,
    lanes: usize,
    /// Whether it is a fine image: what tiles read, which overlaps, in place of tiles.
    fine: bool,
    bias: f32,
    /// `[rows, columns, lanes]`
    plane: &'a mut [f32],
}

impl PointImages<'_> {
    #[inline(always)]
    fn tiles<const N: usize>(
        self,
        [_, height, width]: [usize; 3],
        padding: usize,
        map: impl Fn([f32; READ]) -> [f32; N],
    ) {
        self.plane.fill(self.bias);
        let [rows, columns] = self.shape.tiles();
        let mut square = Mapped::new();
        for tile in 0..rows * columns {
            let first = [tile / columns, tile % columns];
            let first = first.map(|place| (TILE * place) as isize - padding as isize);
            for lane in (0..self.lanes).step_by(VECTOR) {
                for (point, values) in self.points.iter().enumerate() {
                    let place = self.first + tile * self.lanes + lane;
                    let to = &mut square.from[point / READ][point % READ];
                    to.copy_from_slice(&values[place..][..VECTOR]);
                }
                square.map(&map);
                for (y, row) in square.to.iter().enumerate() {
                    for (x, values) in row.iter().enumerate() {
                        if let Some(place) = inside(first, [y, x], [height, width]) {
                            let to = &mut self.plane[place * self.lanes + lane..][..VECTOR];
                            to.iter_mut()
                                .zip(values)
                                .for_each(|(to, value)| *to += value);
                        }
                    }
                }
            }
        }
    }
}

impl Loop for PointImages<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let shape = self.shape;
        match self.fine {
            false => self.tiles(shape.coarse, 0, to_coarse),
            true => self.tiles(shape.fine, shape.padding, to_fine),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::numbers as random, flex::conv::geometry::Kernel};

    /// Coarse images, fine ones, and the gradient of the weights, by the definition.
    fn defined(shape: &Geometry, [fine, coarse, weights]: [&[f32]; 3]) -> [Vec<f64>; 3] {
        let [channels, height, width] = shape.fine;
        let [outputs, rows, columns] = shape.coarse;
        let padding = shape.kernels[0].padding;
        let mut found = [coarse.len(), fine.len(), weights.len()].map(|size| vec![0.0; size]);
        for image in 0..shape.images {
            for (output, y, x) in every([outputs, rows, columns]) {
                let to = ((image * outputs + output) * rows + y) * columns + x;
                for (channel, i, j) in every([channels, 3, 3]) {
                    let (row, column) = (y + i, x + j);
                    let is = (padding..height + padding).contains(&row)
                        && (padding..width + padding).contains(&column);
                    if !is {
                        continue;
                    }
                    let plane = (image * channels + channel) * height;
                    let from = (plane + row - padding) * width + column - padding;
                    let weight = ((output * channels + channel) * 3 + i) * 3 + j;
                    let [a, b, w] = [fine[from], coarse[to], weights[weight]].map(f64::from);
                    found[0][to] += w * a;
                    found[1][from] += w * b;
                    found[2][weight] += a * b;
                }
            }
        }
        found
    }

    fn every([a, b, c]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
        (0..a * b * c).map(move |i| (i / c / b, i / c % b, i % c))
    }

    /// Numbers differ by at most 3e-5 of their root mean square.
    fn close(found: &[f32], expected: &[f64], what: &str) {
        assert_eq!(found.len(), expected.len());
        let squares: f64 = expected.iter().map(|value| value * value).sum();
        let size = (squares / expected.len() as f64).sqrt();
        for (found, expected) in found.iter().zip(expected) {
            let difference = (f64::from(*found) - expected).abs();
            assert!(difference < 3e-5 * size, "{what}: {found}, not {expected}");
        }
    }

    #[test]
    fn images_and_gradients_are_those_of_the_definition() {
        for (images, fine, coarse, padding) in [
            (16, [32, 4, 4], [48, 4, 4], 1),
            (13, [33, 8, 8], [32, 8, 8], 1),
            (37, [32, 7, 5], [35, 7, 5], 1),
            (12, [40, 9, 6], [32, 7, 4], 0),
            (300, [32, 4, 4], [32, 6, 6], 2),
        ] {
            let shape = Geometry {
                images,
                fine,
                coarse: [coarse[0], coarse[1], coarse[2]],
                kernels: vec![Kernel {
                    channels: coarse[0],
                    size: [3, 3],
                    padding,
                }],
                stride: 1,
            };
            let threes = Threes::new(&shape).expect("the method fits");
            let sizes = [images * shape.fine_size(), images * shape.coarse_size()];
            let [fine, coarse] = sizes.map(|size| random(size, 1));
            let weights = random(shape.fine[0] * shape.coarse[0] * TAPS, 2);
            let expected = defined(&shape, [&fine, &coarse, &weights]);
            let points = threes.points_of_weights(&weights);
            let name = format!("{shape:?}");
            close(&threes.gather(&fine, &points, None), &expected[0], &name);
            close(&threes.spread(&coarse, &points, None), &expected[1], &name);
            close(&threes.weight_gradient(&fine, &coarse), &expected[2], &name);
        }
    }

    #[test]
    fn no_images_have_no_gradient() {
        let threes = Threes {
            fine: [32, 4, 4],
            coarse: [32, 4, 4],
            padding: 1,
        };
        assert_eq!(threes.weight_gradient(&[], &[]), vec![0.0; 32 * 32 * TAPS]);
    }
}
