//! Convolutions of 2x2 or 3x3 weights and stride 1 with fewer multiplications, by the points of tiles (see [`points`]).
//!
//! Each point is a matrix product: a row of its left matrix has the channels of a tile, the right one has the weights.
//! Coarse to fine is a convolution, too, with the weights turned around. The gradient of the weights uses the transposes
//! of the maps.
//!
//! Images are turned so that the channels of a pixel lie side by side, filled up with zeros to whole vectors. The points
//! of a few tiles stay in a cache from the map of the images to the map back.
//!
//! [`points`]: super::points

use crate::flex::{
    conv::{
        geometry::Geometry,
        points::{
            Along, Lanes, Mapped, OfCoarse, OfFine, OfWeights, POINTS, READ, ToCoarse, ToWeights,
        },
    },
    dense::vectors::{Product, VECTOR},
    simd::{chunks::by_chunks, room::with_room, run_vectors, transpose::transpose},
};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::marker::PhantomData;

/// The fewest channels on either side, and images, for which this method pays, if it has less than two thirds of the
/// multiplications: weights and images are transformed at each call.
const CHANNELS: usize = 32;
const IMAGES: usize = 12;
/// Tiles of small images that are made at a time, and of all images for a step of the gradient of the weights.
const TILES: usize = 32;
const STEP: usize = 128;

/// A convolution with one kernel of 2x2 or 3x3 weights and stride 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiled {
    fine: [usize; 3],
    coarse: [usize; 3],
    /// Rows and columns of the kernel.
    side: usize,
    padding: usize,
}

impl Tiled {
    /// `None` for other shapes, and if other methods are faster.
    pub(crate) fn new(shape: &Geometry) -> Option<Self> {
        let [kernel] = &shape.kernels[..] else {
            return None;
        };
        let [side, columns] = kernel.size;
        let fits = matches!(side, 2 | 3)
            && columns == side
            && kernel.padding < side
            && shape.stride == 1
            && shape.coarse[0].min(shape.fine[0]) >= CHANNELS
            && shape.images >= IMAGES;
        let made = fits.then_some(Self {
            fine: shape.fine,
            coarse: shape.coarse,
            side,
            padding: kernel.padding,
        })?;
        let pixels = shape.coarse[1] * shape.coarse[2];
        (3 * made.grid().tiles() * POINTS < 2 * made.taps() * pixels).then_some(made)
    }

    fn taps(&self) -> usize {
        self.side * self.side
    }

    fn grid(&self) -> Grid {
        Grid::new(self.coarse, self.side)
    }

    fn fine_size(&self) -> usize {
        self.fine.iter().product()
    }

    fn coarse_size(&self) -> usize {
        self.coarse.iter().product()
    }

    /// `[vectors of written channels, points, read channels and one more, a vector]` of the weights, for
    /// [`gather`](Self::gather) or, `back`, for [`spread`](Self::spread).
    pub(crate) fn points_of_weights(&self, weights: &[f32], back: bool) -> Vec<f32> {
        let (fine, coarse) = (self.fine[0], self.coarse[0]);
        let [read, written] = if back { [coarse, fine] } else { [fine, coarse] };
        let (of_pair, size) = (self.taps(), POINTS * apart(read));
        by_chunks(
            written.div_ceil(VECTOR) * size,
            size,
            || (),
            |(), vector, points| {
                let first = vector * VECTOR;
                let count = VECTOR.min(written - first);
                with_room([read * of_pair * VECTOR], |[taps]| {
                    if count < VECTOR {
                        taps.fill(0.0);
                    }
                    if back {
                        for (read, taps) in taps.chunks_exact_mut(of_pair * VECTOR).enumerate() {
                            let weights = &weights[(read * fine + first) * of_pair..];
                            transpose((weights, of_pair), (taps, VECTOR), [count, of_pair]);
                        }
                    } else {
                        let of_channel = fine * of_pair;
                        let weights = &weights[first * of_channel..];
                        transpose((weights, of_channel), (taps, VECTOR), [count, of_channel]);
                    }
                    run_vectors(WeightPoints {
                        taps: taps.as_chunks().0,
                        side: self.side,
                        back,
                        points,
                    });
                });
            },
        )
    }

    /// Fine to coarse, with the [points of the weights](Self::points_of_weights).
    pub(crate) fn gather(&self, fine: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let way = Way {
            read: self.fine,
            written: self.coarse,
            side: self.side,
            padding: self.padding,
        };
        way.images(fine, weights, bias)
    }

    /// Coarse to fine, with the points of the weights.
    pub(crate) fn spread(&self, coarse: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let way = Way {
            read: self.coarse,
            written: self.fine,
            side: self.side,
            padding: self.side - 1 - self.padding,
        };
        way.images(coarse, weights, bias)
    }

    /// The gradient of the weights. It is summed over steps of images, which do not depend on the number of threads, one
    /// after the other.
    pub(crate) fn weight_gradient(&self, fine: &[f32], coarse: &[f32]) -> Vec<f32> {
        let of_channel = self.fine[0] * self.taps();
        if fine.is_empty() {
            return vec![0.0; self.coarse[0] * of_channel];
        }
        let [fines, coarses] = [self.fine, self.coarse].map(wide);
        let step = apart(coarses * fines / VECTOR);
        with_room([POINTS * step], |[sums]| {
            let images = (STEP / self.grid().tiles()).max(1);
            let steps = fine.chunks(images * self.fine_size());
            let steps = steps.zip(coarse.chunks(images * self.coarse_size()));
            for (index, (fine, coarse)) in steps.enumerate() {
                self.add_products(fine, coarse, index > 0, sums);
            }
            let sums = &*sums;
            by_chunks(
                self.coarse[0] * of_channel,
                of_channel,
                || (),
                |(), coarse, weights| {
                    run_vectors(PointWeights {
                        points: &sums[coarse * fines..],
                        step,
                        side: self.side,
                        weights,
                    });
                },
            )
        })
    }

    /// Writes or adds the products of some images: `[points, coarse channels, fine channels]`.
    fn add_products(&self, fine: &[f32], coarse: &[f32], adds: bool, sums: &mut [f32]) {
        let [fines, coarses] = [self.fine, self.coarse].map(wide);
        let grid = self.grid();
        let tiles = fine.len() / self.fine_size() * grid.tiles();
        let of_vector = POINTS * apart(tiles);
        let sizes = [fines, coarses].map(|channels| channels / VECTOR * of_vector);
        with_room(sizes, |[fine_points, coarse_points]| {
            grid.by_vectors::<READ, OfFine>((fine, self.fine), self.padding, fine_points);
            let coarse = (coarse, self.coarse);
            match self.side {
                2 => grid.by_vectors::<5, OfCoarse>(coarse, 0, coarse_points),
                _ => grid.by_vectors::<4, OfCoarse>(coarse, 0, coarse_points),
            }
            let (fine_points, coarse_points) = (&*fine_points, &*coarse_points);
            let step = sums.len() / POINTS;
            let sums = sums.par_chunks_mut(step);
            sums.enumerate().for_each(|(point, sums)| {
                let first = point * apart(tiles);
                run_vectors(Product {
                    left: &coarse_points[first..],
                    left_steps: [of_vector, 1, VECTOR],
                    right: &fine_points[first..],
                    right_steps: [of_vector, VECTOR],
                    depth: tiles,
                    output: sums,
                    output_step: fines,
                    size: [coarses, fines],
                    adds,
                });
            });
        });
    }
}

/// The tiles of a coarse or written image.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// Rows and columns of tiles.
    size: [usize; 2],
    /// Rows and columns of the pixels of a tile.
    tile: usize,
}

impl Grid {
    /// For weights of `side` rows and columns.
    fn new([_, height, width]: [usize; 3], side: usize) -> Self {
        let tile = READ + 1 - side;
        Self {
            size: [height, width].map(|pixels| pixels.div_ceil(tile)),
            tile,
        }
    }

    fn tiles(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// The first row and column of the pixels of a tile.
    #[inline(always)]
    fn first(&self, tile: usize) -> [usize; 2] {
        [tile / self.size[1], tile % self.size[1]].map(|place| self.tile * place)
    }

    /// The points of images of a given shape: `[vectors of channels, points, tiles of all images and one more, a vector]`.
    fn by_vectors<const N: usize, A: Along<N, READ>>(
        self,
        (images, shape): (&[f32], [usize; 3]),
        padding: usize,
        points: &mut [f32],
    ) {
        let images = images.chunks_exact(shape.iter().product());
        let apart = apart(images.len() * self.tiles());
        let points = points.par_chunks_mut(POINTS * apart);
        points.enumerate().for_each(|(vector, points)| {
            for (index, image) in images.clone().enumerate() {
                let points = &mut points[index * self.tiles() * VECTOR..];
                let vector = vectors(image, shape).nth(vector);
                let vector = vector.expect("points are of the image's channels");
                vector.points::<N, A>(self, padding, points, [VECTOR, apart]);
            }
        });
    }
}

/// The distance between two points of `vectors` vectors each. One vector of padding keeps the 36 points from falling into the
/// same cache set.
fn apart(vectors: usize) -> usize {
    (vectors + 1) * VECTOR
}

/// Channels of an image, filled up to whole vectors.
fn wide([channels, _, _]: [usize; 3]) -> usize {
    channels.next_multiple_of(VECTOR)
}

/// A convolution from read to written images.
struct Way {
    read: [usize; 3],
    written: [usize; 3],
    /// Rows and columns of the kernel.
    side: usize,
    padding: usize,
}

impl Way {
    fn grid(&self) -> Grid {
        Grid::new(self.written, self.side)
    }

    fn images(&self, from: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let [size, written_size]: [usize; 2] =
            [self.read, self.written].map(|shape| shape.iter().product());
        let [read, written] = [self.read, self.written].map(wide);
        let pixels = self.written[1] * self.written[2];
        let (grid, tiles) = (self.grid(), self.grid().tiles());
        let together = (TILES / tiles).max(1);
        by_chunks(
            from.len() / size * written_size,
            together * written_size,
            || (),
            |(), item, output| {
                let count = output.len() / written_size;
                let from = &from[item * together * size..][..count * size];
                let rows = count * tiles;
                let sizes = [read, written].map(|channels| rows * POINTS * channels);
                with_room(sizes, |[points, products]| {
                    let of_images = points.chunks_mut(tiles * POINTS * read);
                    for (image, points) in from.chunks_exact(size).zip(of_images) {
                        let steps = [POINTS * read, read];
                        for (vector, image) in vectors(image, self.read).enumerate() {
                            let points = &mut points[vector * VECTOR..];
                            image.points::<READ, OfFine>(grid, self.padding, points, steps);
                        }
                    }
                    run_vectors(Products {
                        points,
                        weights,
                        rows,
                        channels: [read, self.read[0], written],
                        products,
                    });
                    let of_images = products.chunks(tiles * POINTS * written);
                    let images = output.chunks_exact_mut(written_size);
                    for (image, products) in images.zip(of_images) {
                        for (vector, image) in image.chunks_mut(VECTOR * pixels).enumerate() {
                            let first = vector * VECTOR;
                            let bias = bias.map(|bias| &bias[first..][..image.len() / pixels]);
                            self.write(&products[first..], bias, image);
                        }
                    }
                });
            },
        )
    }

    /// A vector of channels of an image from the products of its tiles.
    fn write(&self, products: &[f32], bias: Option<&[f32]>, image: &mut [f32]) {
        let [_, height, width] = self.written;
        let mut biases = [0.0; VECTOR];
        if let Some(bias) = bias {
            biases[..bias.len()].copy_from_slice(bias);
        }
        let pixels = height * width;
        with_room([pixels * VECTOR], |[turned]| {
            run_vectors(PointImage {
                products,
                channels: wide(self.written),
                grid: self.grid(),
                size: [height, width],
                biases,
                image: turned.as_chunks_mut().0,
            });
            let channels = image.len() / pixels;
            transpose((turned, VECTOR), (image, pixels), [pixels, channels]);
        });
    }
}

/// Up to 16 channels of an image.
struct Vector<'a> {
    /// `[channels, height, width]`
    values: &'a [f32],
    size: [usize; 2],
}

/// All channels of an image.
fn vectors(image: &[f32], [_, height, width]: [usize; 3]) -> impl Iterator<Item = Vector<'_>> {
    image
        .chunks(VECTOR * height * width)
        .map(move |values| Vector {
            values,
            size: [height, width],
        })
}

impl Vector<'_> {
    /// The points of all tiles, each of which with what surrounds it is `N` rows and columns. `steps` are the distances
    /// between tiles and between points.
    fn points<const N: usize, A: Along<N, READ>>(
        &self,
        grid: Grid,
        padding: usize,
        points: &mut [f32],
        steps: [usize; 2],
    ) {
        let pixels = self.size[0] * self.size[1];
        let channels = self.values.len() / pixels;
        with_room([pixels * VECTOR], |[image]| {
            if channels < VECTOR {
                image.fill(0.0);
            }
            transpose((self.values, pixels), (image, VECTOR), [channels, pixels]);
            run_vectors(ImagePoints::<N, A> {
                image: image.as_chunks().0,
                size: self.size,
                grid,
                padding,
                points,
                steps,
                map: PhantomData,
            });
        });
    }
}

/// Computes the points of the weights to a vector of written channels: `[points, read channels and one more, a vector]`.
struct WeightPoints<'a> {
    /// `[read channels, taps]`
    taps: &'a [Lanes],
    /// Rows and columns of the kernel.
    side: usize,
    /// Whether the weights are turned around.
    back: bool,
    points: &'a mut [f32],
}

impl WithSimd for WeightPoints<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.side {
            2 => self.of_side::<S, 2>(simd),
            _ => self.of_side::<S, 3>(simd),
        }
    }
}

impl WeightPoints<'_> {
    #[inline(always)]
    fn of_side<S: Simd, const K: usize>(self, simd: S) {
        let step = self.points.len() / POINTS;
        let mut square = Mapped::<K, READ>::new();
        for (read, taps) in self.taps.chunks_exact(K * K).enumerate() {
            for (tap, to) in square.from.as_flattened_mut().iter_mut().enumerate() {
                *to = taps[if self.back { K * K - 1 - tap } else { tap }];
            }
            square.map::<S, OfWeights>(simd);
            for (point, values) in square.to.as_flattened().iter().enumerate() {
                self.points[point * step + read * VECTOR..][..VECTOR].copy_from_slice(values);
            }
        }
    }
}

/// Computes the gradient of the weights of a coarse channel.
struct PointWeights<'a> {
    /// `[points, fine channels]`, the points `step` apart.
    points: &'a [f32],
    step: usize,
    /// Rows and columns of the kernel.
    side: usize,
    /// `[fine channels, taps]`
    weights: &'a mut [f32],
}

impl WithSimd for PointWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.side {
            2 => self.of_side::<S, 2>(simd),
            _ => self.of_side::<S, 3>(simd),
        }
    }
}

impl PointWeights<'_> {
    #[inline(always)]
    fn of_side<S: Simd, const K: usize>(self, simd: S) {
        let mut square = Mapped::<READ, K>::new();
        for (index, weights) in self.weights.chunks_mut(VECTOR * K * K).enumerate() {
            for (point, to) in square.from.as_flattened_mut().iter_mut().enumerate() {
                let from = &self.points[point * self.step + index * VECTOR..][..VECTOR];
                to.copy_from_slice(from);
            }
            square.map::<S, ToWeights>(simd);
            for (lane, weights) in weights.chunks_exact_mut(K * K).enumerate() {
                for (tap, weight) in weights.iter_mut().enumerate() {
                    *weight = square.to[tap / K][tap % K][lane];
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

/// Computes the points of a vector of channels of an image.
struct ImagePoints<'a, const N: usize, A> {
    /// `[height, width]`
    image: &'a [Lanes],
    size: [usize; 2],
    /// Tiles of the coarse or written image.
    grid: Grid,
    padding: usize,
    points: &'a mut [f32],
    /// Distances between tiles and between points.
    steps: [usize; 2],
    map: PhantomData<A>,
}

impl<const N: usize, A: Along<N, READ>> WithSimd for ImagePoints<'_, N, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut square = Mapped::<N, READ>::new();
        for tile in 0..self.grid.tiles() {
            let first = self.grid.first(tile);
            let first = first.map(|place| place as isize - self.padding as isize);
            for (y, row) in square.from.iter_mut().enumerate() {
                for (x, pixel) in row.iter_mut().enumerate() {
                    let place = inside(first, [y, x], self.size);
                    *pixel = place.map_or([0.0; VECTOR], |place| self.image[place]);
                }
            }
            square.map::<S, A>(simd);
            let points = &mut self.points[tile * self.steps[0]..];
            for (point, values) in square.to.as_flattened().iter().enumerate() {
                points[point * self.steps[1]..][..VECTOR].copy_from_slice(values);
            }
        }
    }
}

/// Computes a vector of channels of an image from products.
struct PointImage<'a> {
    /// `[tiles, points, channels]` from the vector on.
    products: &'a [f32],
    channels: usize,
    grid: Grid,
    size: [usize; 2],
    biases: Lanes,
    /// `[height, width]`
    image: &'a mut [Lanes],
}

impl WithSimd for PointImage<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.grid.tile {
            5 => self.of_tiles::<S, 5>(simd),
            _ => self.of_tiles::<S, 4>(simd),
        }
    }
}

impl PointImage<'_> {
    #[inline(always)]
    fn of_tiles<S: Simd, const T: usize>(self, simd: S) {
        let mut square = Mapped::<READ, T>::new();
        for (tile, products) in self.products.chunks(POINTS * self.channels).enumerate() {
            for (point, to) in square.from.as_flattened_mut().iter_mut().enumerate() {
                to.copy_from_slice(&products[point * self.channels..][..VECTOR]);
            }
            square.map::<S, ToCoarse>(simd);
            let first = self.grid.first(tile).map(|place| place as isize);
            for (y, row) in square.to.iter().enumerate() {
                for (x, values) in row.iter().enumerate() {
                    if let Some(place) = inside(first, [y, x], self.size) {
                        let values = values.iter().zip(self.biases);
                        for (to, (value, bias)) in self.image[place].iter_mut().zip(values) {
                            *to = value + bias;
                        }
                    }
                }
            }
        }
    }
}

/// Multiplies each point of some tiles with the weights' matrix.
struct Products<'a> {
    /// `[rows, points, read channels]`
    points: &'a [f32],
    /// See [`Tiled::points_of_weights`].
    weights: &'a [f32],
    rows: usize,
    /// Read channels, and those among them that are not filled up; written channels.
    channels: [usize; 3],
    /// `[rows, points, written channels]`
    products: &'a mut [f32],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [read, depth, written] = self.channels;
        let row = POINTS * read;
        for point in 0..POINTS {
            Product {
                left: &self.points[point * read..],
                left_steps: [VECTOR * row, row, 1],
                right: &self.weights[point * apart(depth)..],
                right_steps: [POINTS * apart(depth), VECTOR],
                depth,
                output: &mut self.products[point * written..],
                output_step: POINTS * written,
                size: [self.rows, written],
                adds: false,
            }
            .with_simd(simd);
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
        let (padding, side) = (shape.kernels[0].padding, shape.kernels[0].size[0]);
        let mut found = [coarse.len(), fine.len(), weights.len()].map(|size| vec![0.0; size]);
        for image in 0..shape.images {
            for (output, y, x) in every([outputs, rows, columns]) {
                let to = ((image * outputs + output) * rows + y) * columns + x;
                for (channel, i, j) in every([channels, side, side]) {
                    let (row, column) = (y + i, x + j);
                    let is = (padding..height + padding).contains(&row)
                        && (padding..width + padding).contains(&column);
                    if !is {
                        continue;
                    }
                    let plane = (image * channels + channel) * height;
                    let from = (plane + row - padding) * width + column - padding;
                    let weight = ((output * channels + channel) * side + i) * side + j;
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
        for (images, fine, coarse, side, padding) in [
            (16, [32, 4, 4], [48, 4, 4], 3, 1),
            (13, [33, 8, 8], [32, 8, 8], 3, 1),
            (37, [32, 7, 5], [35, 7, 5], 3, 1),
            (12, [40, 9, 6], [32, 7, 4], 3, 0),
            (300, [32, 4, 4], [32, 6, 6], 3, 2),
            (32, [34, 5, 5], [48, 5, 5], 2, 0),
            (160, [33, 7, 9], [35, 7, 9], 2, 0),
            (14, [40, 6, 11], [32, 5, 10], 2, 0),
            (14, [32, 4, 9], [48, 5, 10], 2, 1),
        ] {
            let shape = Geometry {
                images,
                fine,
                coarse,
                kernels: vec![Kernel {
                    channels: coarse[0],
                    size: [side; 2],
                    padding,
                }],
                stride: 1,
            };
            let tiled = Tiled::new(&shape).expect("the method fits");
            let sizes = [images * shape.fine_size(), images * shape.coarse_size()];
            let [fine, coarse] = sizes.map(|size| random(size, 1));
            let weights = random(shape.fine[0] * shape.coarse[0] * side * side, 2);
            let expected = defined(&shape, [&fine, &coarse, &weights]);
            let [points, back] = [false, true].map(|back| tiled.points_of_weights(&weights, back));
            let name = format!("{shape:?}");
            close(&tiled.gather(&fine, &points, None), &expected[0], &name);
            close(&tiled.spread(&coarse, &back, None), &expected[1], &name);
            close(&tiled.weight_gradient(&fine, &coarse), &expected[2], &name);
        }
    }

    #[test]
    fn no_images_have_no_gradient() {
        let tiled = Tiled {
            fine: [32, 4, 4],
            coarse: [32, 4, 4],
            side: 3,
            padding: 1,
        };
        assert_eq!(tiled.weight_gradient(&[], &[]), vec![0.0; 32 * 32 * 9]);
    }
}
