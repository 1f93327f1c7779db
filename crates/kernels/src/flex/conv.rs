//! Convolutions and transposed convolutions with all their gradients.
//!
//! Both connect a fine image (what a convolution reads and a transposed one writes) with a coarse one
//! by weights `[coarse channels, fine channels, rows, columns]`:
//!
//! - [`gather`]: fine to coarse, a convolution, or the gradient of a transposed one for its input;
//! - [`spread`]: coarse to fine, a transposed convolution, or the gradient of a convolution for its
//!   input;
//! - [`weight_gradient`], the same for both.

use super::{
    Raw, contiguous,
    correlate::{Correlate, Field, PARTIAL, Positions, SLACK, TILE, WeightGradient},
    raw, simd, slice,
};
use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};
use rayon::prelude::*;

/// Shape of a convolution between a fine and a coarse image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Geometry {
    images: usize,
    fine: [usize; 3],
    coarse: [usize; 3],
    kernel: [usize; 2],
    stride: usize,
    padding: usize,
}

impl Geometry {
    fn fine_size(&self) -> usize {
        self.fine.iter().product()
    }

    fn coarse_size(&self) -> usize {
        self.coarse.iter().product()
    }

    /// The fine image, padded and split into phases.
    fn field(&self) -> Field {
        let reach = |size: usize, kernel: usize| size + (kernel - 1) / self.stride;
        Field {
            channels: self.fine[0],
            rows: reach(self.coarse[1], self.kernel[0]),
            columns: reach(self.coarse[2], self.kernel[1]),
            stride: self.stride,
            padding: self.padding,
        }
    }

    /// Where each weight of a channel pair looks in a channel of the field.
    fn taps(&self, field: &Field) -> Vec<usize> {
        let [rows, columns] = self.kernel;
        (0..rows * columns)
            .map(|tap| field.offset(tap / columns, tap % columns))
            .collect()
    }
}

/// Weights for tiles of output channels, `[tiles, channels, taps, TILE]`, zero behind the last
/// channel; `weight(output, channel, tap)` gives one.
fn pack(
    outputs: usize,
    channels: usize,
    taps: usize,
    weight: impl Fn(usize, usize, usize) -> f32,
) -> Vec<f32> {
    let tiles = outputs.div_ceil(TILE);
    let mut packed = vec![0.0; tiles * channels * taps * TILE];
    for output in 0..outputs {
        for channel in 0..channels {
            for tap in 0..taps {
                let place = ((output / TILE * channels + channel) * taps + tap) * TILE;
                packed[place + output % TILE] = weight(output, channel, tap);
            }
        }
    }
    packed
}

/// The coarse image of each fine one: `[images, fine]` to `[images, coarse]`.
fn gather(shape: &Geometry, fine: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let field = shape.field();
    let taps = shape.taps(&field);
    let [outputs, height, width] = shape.coarse;
    let packed = pack(
        outputs,
        shape.fine[0],
        taps.len(),
        |output, channel, tap| weights[(output * shape.fine[0] + channel) * taps.len() + tap],
    );
    let positions = Positions {
        rows: height,
        width,
        columns: field.columns,
    };
    let mut coarse = vec![0.0; shape.images * shape.coarse_size()];
    coarse
        .par_chunks_mut(shape.coarse_size())
        .zip(fine.par_chunks(shape.fine_size()))
        .for_each_init(
            || (vec![0.0; field.size()], vec![0.0; TILE * positions.size()]),
            |(buffer, output), (coarse, fine)| {
                field.fill(fine, [shape.fine[1], shape.fine[2]], buffer);
                let tiles = packed.chunks_exact(shape.fine[0] * taps.len() * TILE);
                for (tile, weights) in tiles.enumerate() {
                    simd(Correlate {
                        field: buffer,
                        channel: field.channel(),
                        taps: &taps,
                        weights,
                        positions,
                        output,
                    });
                    let rows = output.chunks_exact(positions.size());
                    let planes =
                        coarse[tile * TILE * height * width..].chunks_exact_mut(height * width);
                    for (k, (plane, row)) in planes.zip(rows).enumerate() {
                        let bias = bias.map_or(0.0, |bias| bias[tile * TILE + k]);
                        let row = row.chunks_exact(positions.columns);
                        for (pixels, sums) in plane.chunks_exact_mut(width).zip(row) {
                            for (pixel, sum) in pixels.iter_mut().zip(sums) {
                                *pixel = sum + bias;
                            }
                        }
                    }
                }
            },
        );
    coarse
}

/// One of the phases in which a transposed convolution writes: rows `first[0] + stride * i` and
/// columns `first[1] + stride * j` of the fine image.
struct Phase {
    first: [usize; 2],
    positions: Positions,
    taps: Vec<usize>,
    /// `[tiles, channels, taps, TILE]`
    weights: Vec<f32>,
}

/// The field of the coarse image, and the phases of the fine one.
fn phases(shape: &Geometry, weights: &[f32]) -> (Field, Vec<Phase>) {
    let (s, padding) = (shape.stride, shape.padding);
    // Taps of a phase along an axis; as many zeros are before the image.
    let reach = [0, 1].map(|axis| shape.kernel[axis].div_ceil(s) - 1);
    // Along an axis, a fine pixel is `s * q + r - padding`; the q of a phase r.
    let range = |axis: usize, r: usize| {
        let least = padding.saturating_sub(r).div_ceil(s);
        let beyond = (shape.fine[axis + 1] + padding)
            .saturating_sub(r)
            .div_ceil(s);
        least..beyond.max(least)
    };
    let most = [0, 1].map(|axis| (0..s).map(|r| range(axis, r).end).max().unwrap_or(0));
    let field = Field {
        channels: shape.coarse[0],
        rows: most[0] + reach[0],
        columns: most[1] + reach[1],
        stride: 1,
        padding: 0,
    };
    let mut phases = Vec::new();
    for (row, column) in (0..s).flat_map(|row| (0..s).map(move |column| (row, column))) {
        let (rows, columns) = (range(0, row), range(1, column));
        if rows.is_empty() || columns.is_empty() {
            continue;
        }
        let [kernel_rows, kernel_columns] = shape.kernel;
        let kernel: Vec<[usize; 2]> = (row..kernel_rows)
            .step_by(s)
            .flat_map(|y| (column..kernel_columns).step_by(s).map(move |x| [y, x]))
            .collect();
        let taps = kernel
            .iter()
            .map(|[y, x]| {
                let row = rows.start + reach[0] - y / s;
                row * field.columns + columns.start + reach[1] - x / s
            })
            .collect();
        let fine = shape.fine[0];
        let packed = pack(
            fine,
            shape.coarse[0],
            kernel.len(),
            |output, channel, tap| {
                let [y, x] = kernel[tap];
                weights[((channel * fine + output) * kernel_rows + y) * kernel_columns + x]
            },
        );
        phases.push(Phase {
            first: [
                s * rows.start + row - padding,
                s * columns.start + column - padding,
            ],
            positions: Positions {
                rows: rows.len(),
                width: columns.len(),
                columns: field.columns,
            },
            taps,
            weights: packed,
        });
    }
    (field, phases)
}

/// The fine image of each coarse one: `[images, coarse]` to `[images, fine]`.
fn spread(shape: &Geometry, coarse: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let (field, phases) = phases(shape, weights);
    let reach = [0, 1].map(|axis| shape.kernel[axis].div_ceil(shape.stride) - 1);
    let [channels, height, width] = shape.coarse;
    let [_, fine_height, fine_width] = shape.fine;
    let largest = phases.iter().map(|p| p.positions.size()).max().unwrap_or(0);
    let mut fine = vec![0.0; shape.images * shape.fine_size()];
    fine.par_chunks_mut(shape.fine_size())
        .zip(coarse.par_chunks(shape.coarse_size()))
        .for_each_init(
            || (vec![0.0; field.size()], vec![0.0; TILE * largest]),
            |(buffer, output), (fine, coarse)| {
                for (channel, plane) in coarse.chunks_exact(height * width).enumerate() {
                    for (row, pixels) in plane.chunks_exact(width).enumerate() {
                        let row = row + reach[0];
                        if row >= field.rows {
                            continue;
                        }
                        let start = channel * field.channel() + row * field.columns + reach[1];
                        let count = width.min(field.columns - reach[1]);
                        buffer[start..start + count].copy_from_slice(&pixels[..count]);
                    }
                }
                for phase in &phases {
                    let size = phase.positions.size();
                    let output = &mut output[..TILE * size];
                    let tile_size = channels * phase.taps.len() * TILE;
                    for tile in 0..shape.fine[0].div_ceil(TILE) {
                        simd(Correlate {
                            field: buffer,
                            channel: field.channel(),
                            taps: &phase.taps,
                            weights: &phase.weights[tile * tile_size..(tile + 1) * tile_size],
                            positions: phase.positions,
                            output,
                        });
                        let plane = fine_height * fine_width;
                        let planes = fine[tile * TILE * plane..].chunks_exact_mut(plane);
                        for (k, (plane, sums)) in planes.zip(output.chunks_exact(size)).enumerate()
                        {
                            let bias = bias.map_or(0.0, |bias| bias[tile * TILE + k]);
                            phase.write(plane, fine_width, shape.stride, sums, bias);
                        }
                    }
                }
            },
        );
    fine
}

impl Phase {
    /// Puts the sums of one channel where they belong in its fine plane.
    fn write(&self, plane: &mut [f32], width: usize, stride: usize, sums: &[f32], bias: f32) {
        let positions = self.positions;
        for row in 0..positions.rows {
            let start = (self.first[0] + row * stride) * width + self.first[1];
            let target = plane[start..].iter_mut().step_by(stride);
            let sums = &sums[row * positions.columns..][..positions.width];
            for (pixel, sum) in target.zip(sums) {
                *pixel = sum + bias;
            }
        }
    }
}

/// Groups of images whose sums are made apart: a number that depends on shapes alone, so that
/// results do not depend on the number of threads.
fn groups(images: usize, weights: usize) -> usize {
    /// Bytes of partial sums at most.
    const MOST: usize = 64 << 20;
    (MOST / (weights * PARTIAL * 4))
        .clamp(1, 8)
        .min(images.max(1))
}

/// `[coarse channels, fine channels, rows, columns]`
fn weight_gradient(shape: &Geometry, fine: &[f32], coarse: &[f32]) -> Vec<f32> {
    let field = shape.field();
    let taps = shape.taps(&field);
    let columns: Vec<usize> = (0..shape.fine[0])
        .flat_map(|channel| taps.iter().map(move |tap| channel * field.channel() + tap))
        .collect();
    let [outputs, height, width] = shape.coarse;
    let positions = Positions {
        rows: height,
        width,
        columns: field.columns,
    };
    let count = outputs * columns.len();
    let groups = groups(shape.images, count);
    let share = shape.images.div_ceil(groups);
    let sums: Vec<Vec<f32>> = fine
        .par_chunks(share * shape.fine_size())
        .zip(coarse.par_chunks(share * shape.coarse_size()))
        .map(|(fine, coarse)| {
            let mut buffer = vec![0.0; field.size()];
            let mut gradient = vec![0.0; outputs * positions.size()];
            let mut sums = vec![0.0; count * PARTIAL];
            let images = fine.chunks_exact(shape.fine_size());
            for (fine, coarse) in images.zip(coarse.chunks_exact(shape.coarse_size())) {
                field.fill(fine, [shape.fine[1], shape.fine[2]], &mut buffer);
                let planes = gradient.chunks_exact_mut(positions.size());
                for (plane, pixels) in planes.zip(coarse.chunks_exact(height * width)) {
                    let rows = plane.chunks_exact_mut(positions.columns);
                    for (row, pixels) in rows.zip(pixels.chunks_exact(width)) {
                        row[..width].copy_from_slice(pixels);
                    }
                }
                simd(WeightGradient {
                    field: &buffer,
                    columns: &columns,
                    gradient: &gradient,
                    outputs,
                    positions,
                    sums: &mut sums,
                });
            }
            sums.as_chunks::<PARTIAL>()
                .0
                .iter()
                .map(|partial| partial.iter().sum())
                .collect()
        })
        .collect();
    let mut total = vec![0.0; count];
    for sums in sums {
        for (total, sum) in total.iter_mut().zip(sums) {
            *total += sum;
        }
    }
    total
}

/// Sums over all images and pixels of each channel.
fn bias_gradient(gradient: &[f32], channels: usize, pixels: usize) -> Vec<f32> {
    let mut sums = vec![0.0; channels];
    for image in gradient.chunks_exact(channels * pixels) {
        for (sum, plane) in sums.iter_mut().zip(image.chunks_exact(pixels)) {
            let (lanes, rest) = plane.as_chunks::<PARTIAL>();
            let mut partial = [0.0_f32; PARTIAL];
            for chunk in lanes {
                for (partial, value) in partial.iter_mut().zip(chunk) {
                    *partial += value;
                }
            }
            *sum += partial.iter().chain(rest).sum::<f32>();
        }
    }
    sums
}

/// Stride, padding and, for a transposed convolution, rows and columns added at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    /// `None` for a convolution.
    pub(crate) transposed: Option<usize>,
}

impl Options {
    fn geometry(&self, input: &Raw, weight: &Raw) -> Geometry {
        let [images, channels, height, width] = input.layout().shape().dims();
        let [coarse, fine, rows, columns] = weight.layout().shape().dims();
        let Options {
            stride, padding, ..
        } = *self;
        match self.transposed {
            None => {
                assert_eq!(channels, fine, "channels of image and weight");
                let out = |size: usize, kernel: usize| {
                    assert!(
                        size + 2 * padding >= kernel,
                        "the kernel is larger than the image"
                    );
                    (size + 2 * padding - kernel) / stride + 1
                };
                Geometry {
                    images,
                    fine: [fine, height, width],
                    coarse: [coarse, out(height, rows), out(width, columns)],
                    kernel: [rows, columns],
                    stride,
                    padding,
                }
            }
            Some(added) => {
                assert_eq!(channels, coarse, "channels of image and weight");
                let out =
                    |size: usize, kernel: usize| (size - 1) * stride + kernel + added - 2 * padding;
                Geometry {
                    images,
                    fine: [fine, out(height, rows), out(width, columns)],
                    coarse: [coarse, height, width],
                    kernel: [rows, columns],
                    stride,
                    padding,
                }
            }
        }
    }
}

/// The output image.
pub(super) fn forward(input: &Raw, weight: &Raw, bias: &Raw, options: Options) -> Raw {
    let [input, weight, bias] = [input, weight, bias].map(contiguous);
    let shape = options.geometry(&input, &weight);
    let (input, weight, bias) = (slice(&input), slice(&weight), Some(slice(&bias)));
    let (values, [channels, height, width]) = match options.transposed {
        None => (gather(&shape, input, weight, bias), shape.coarse),
        Some(_) => (spread(&shape, input, weight, bias), shape.fine),
    };
    raw(values, [shape.images, channels, height, width])
}

pub(super) fn tracked<C: CheckpointStrategy>(
    input: FloatTensor<Autodiff<Flex, C>>,
    weight: FloatTensor<Autodiff<Flex, C>>,
    bias: FloatTensor<Autodiff<Flex, C>>,
    options: Options,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Convolution;

    impl Backward<Flex, 3> for Convolution {
        type State = (Raw, Raw, Options);

        fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
            let (input, weight, options) = ops.state;
            let outer = contiguous(&grads.consume::<Flex>(&ops.node));
            let shape = options.geometry(&input, &weight);
            let input_shape: [usize; 4] = input.layout().shape().dims();
            let weight_shape: [usize; 4] = weight.layout().shape().dims();
            let [_, channels, height, width] = outer.layout().shape().dims();
            let (input, weight, outer) = (slice(&input), slice(&weight), slice(&outer));
            let [to_input, to_weight, to_bias] = ops.parents;
            if let Some(node) = to_input {
                let gradient = match options.transposed {
                    None => spread(&shape, outer, weight, None),
                    Some(_) => gather(&shape, outer, weight, None),
                };
                grads.register::<Flex>(node.id, raw(gradient, input_shape));
            }
            if let Some(node) = to_weight {
                let gradient = match options.transposed {
                    None => weight_gradient(&shape, input, outer),
                    Some(_) => weight_gradient(&shape, outer, input),
                };
                grads.register::<Flex>(node.id, raw(gradient, weight_shape));
            }
            if let Some(node) = to_bias {
                let gradient = bias_gradient(outer, channels, height * width);
                grads.register::<Flex>(node.id, raw(gradient, [channels]));
            }
        }
    }

    let (input, input_guard) = input.into_parts();
    let (weight, weight_guard) = weight.into_parts();
    let (bias, bias_guard) = bias.into_parts();
    let [input, weight, bias] = [input, weight, bias].map(|tensor| contiguous(&tensor));
    let output = forward(&input, &weight, &bias, options);
    let guards = [input_guard, weight_guard, bias_guard];
    match Convolution.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((input, weight, options), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

// Both sides rely on it.
const _: () = assert!(SLACK >= 2 * PARTIAL);
