//! Convolutions and transposed convolutions with all their gradients.
//!
//! Both connect a fine image (what a convolution reads and a transposed one writes) with a coarse one
//! by weights `[coarse channels, fine channels, rows, columns]`:
//!
//! - [`gather`]: fine to coarse, a convolution, or the gradient of a transposed one for its input;
//! - [`spread`]: coarse to fine, a transposed convolution, or the gradient of a convolution for its
//!   input;
//! - [`weight_gradient`], the same for both.
//!
//! A bank of convolutions reads one fine image with kernels of several sizes and writes their coarse
//! channels one after the other.

use super::{
    Loop, Raw,
    chunks::by_chunks,
    contiguous,
    correlate::{Correlate, Field, Positions, TILE, Target, WeightGradient},
    lowered::Lowered,
    raw, run, simd, slice,
    spectral::{Spectral, Table},
    winograd::Winograd,
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
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// One of the kernels of a bank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kernel {
    /// Its coarse channels.
    pub(crate) channels: usize,
    /// Rows and columns.
    pub(crate) size: [usize; 2],
    pub(crate) padding: usize,
}

impl Kernel {
    pub(super) fn taps(&self) -> usize {
        self.size[0] * self.size[1]
    }
}

/// Shape of a convolution between a fine and a coarse image.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Geometry {
    pub(super) images: usize,
    pub(super) fine: [usize; 3],
    pub(super) coarse: [usize; 3],
    pub(super) kernels: Vec<Kernel>,
    pub(super) stride: usize,
}

/// A kernel in its bank: its coarse channels, and where its weights begin.
type Placed<'a> = (&'a Kernel, Range<usize>, usize);

/// Those of `count` places `step` apart, the first at `first`, that are within `0..size`; and the place of the first
/// of them.
pub(super) fn inside(
    count: usize,
    step: usize,
    first: isize,
    size: usize,
) -> (Range<usize>, usize) {
    let behind = |place: isize| {
        let steps = (place - first).max(0) as usize;
        steps.div_ceil(step).min(count)
    };
    let range = behind(0)..behind(size as isize);
    let place = first + (range.start * step) as isize;
    (range, place.max(0) as usize)
}

impl Geometry {
    fn fine_size(&self) -> usize {
        self.fine.iter().product()
    }

    fn coarse_size(&self) -> usize {
        self.coarse.iter().product()
    }

    fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        self.kernels
            .iter()
            .scan((0, 0), |(channel, weight), kernel| {
                let placed = (kernel, *channel..*channel + kernel.channels, *weight);
                *channel += kernel.channels;
                *weight += kernel.channels * self.fine[0] * kernel.taps();
                Some(placed)
            })
    }

    fn padding(&self) -> usize {
        self.kernels.iter().map(|k| k.padding).max().unwrap_or(0)
    }

    /// The fine image, padded and split into phases.
    fn field(&self) -> Field {
        let (s, padding) = (self.stride, self.padding());
        // The last row that a tap reads, within its phase, and one.
        let reach = |axis: usize| {
            let beyond = |kernel: &Kernel| (kernel.size[axis] - 1 + padding - kernel.padding) / s;
            self.coarse[axis + 1] + self.kernels.iter().map(beyond).max().unwrap_or(0)
        };
        Field {
            channels: self.fine[0],
            rows: reach(0),
            columns: reach(1),
            stride: s,
            padding: [padding; 2],
        }
    }

    /// Where the weights of a kernel look in the field: its taps in every channel.
    fn offsets(&self, kernel: &Kernel, field: &Field) -> Vec<usize> {
        let before = self.padding() - kernel.padding;
        let [rows, columns] = kernel.size;
        let taps: Vec<usize> = (0..rows * columns)
            .map(|tap| field.offset(before + tap / columns, before + tap % columns))
            .collect();
        (0..self.fine[0])
            .flat_map(|channel| taps.iter().map(move |tap| channel * field.channel() + tap))
            .collect()
    }

    /// The same by Fourier transforms, where that is much less work: from fine to coarse, or back.
    fn spectral(&self, back: bool) -> Option<Spectral> {
        if self.stride != 1 {
            return None;
        }
        // Coarse pixel i reads the fine ones i - s.
        let shifts = [0, 1].map(|axis| {
            let first = |kernel: &Kernel| kernel.padding as isize + 1 - kernel.size[axis] as isize;
            let least = self.kernels.iter().map(first).min().unwrap_or(0);
            let most = self.padding() as isize;
            if back {
                -most..1 - least
            } else {
                least..most + 1
            }
        });
        let spectral = match back {
            false => Spectral::new(self.fine, self.coarse, shifts)?,
            true => Spectral::new(self.coarse, self.fine, shifts)?,
        };
        let taps: usize = self.kernels.iter().map(|k| k.channels * k.taps()).sum();
        let direct = self.images * self.fine[0] * taps * self.coarse[1] * self.coarse[2];
        (2 * spectral.cost(self.images) < direct).then_some(spectral)
    }

    /// The places of all weights in the table of [`Geometry::spectral`], in order.
    fn places(&self, spectral: &Spectral, back: bool) -> Vec<usize> {
        let mut places = Vec::new();
        for (kernel, outputs, _) in self.placed() {
            for (output, channel) in
                outputs.flat_map(|o| (0..self.fine[0]).map(move |channel| (o, channel)))
            {
                places.extend((0..kernel.taps()).map(|tap| {
                    let tap = [tap / kernel.size[1], tap % kernel.size[1]];
                    let shift = tap.map(|tap| kernel.padding as isize - tap as isize);
                    match back {
                        false => spectral.place(shift, channel, output),
                        true => spectral.place(shift.map(|s| -s), output, channel),
                    }
                }));
            }
        }
        places
    }

    /// The table of weights.
    fn table(&self, spectral: &Spectral, weights: &[f32], back: bool) -> Table {
        let mut table = spectral.table();
        for (place, weight) in self.places(spectral, back).into_iter().zip(weights) {
            table.values_mut()[place] = *weight;
        }
        table
    }

    /// Positions of the coarse image in the field.
    fn positions(&self, field: &Field) -> Positions {
        Positions {
            rows: self.coarse[1],
            width: self.coarse[2],
            columns: field.columns,
        }
    }
}

/// Up to [`TILE`] output channels, and the weights of what they sum.
struct Tile<'a> {
    outputs: Range<usize>,
    offsets: &'a [usize],
    /// `[offsets, TILE]`, zero behind the last output.
    weights: Vec<f32>,
}

/// Tiles of a range of outputs that sum the same pixels; `weight(output, i)` gives the weight of the
/// pixel at `offsets[i]`.
fn tiles<'a>(
    outputs: Range<usize>,
    offsets: &'a [usize],
    weight: impl Fn(usize, usize) -> f32,
) -> Vec<Tile<'a>> {
    outputs
        .clone()
        .step_by(TILE)
        .map(|first| {
            let outputs = first..outputs.end.min(first + TILE);
            let mut weights = vec![0.0; offsets.len() * TILE];
            for (i, weights) in weights.chunks_exact_mut(TILE).enumerate() {
                for (place, output) in weights.iter_mut().zip(outputs.clone()) {
                    *place = weight(output, i);
                }
            }
            Tile {
                outputs,
                offsets,
                weights,
            }
        })
        .collect()
}

/// Starts of a tile's sums.
fn starts<'a>(tile: &Tile, bias: Option<&'a [f32]>) -> &'a [f32] {
    const NOTHING: [f32; TILE] = [0.0; TILE];
    match bias {
        Some(bias) => &bias[tile.outputs.clone()],
        None => &NOTHING[..tile.outputs.len()],
    }
}

/// [`Field::fill`] with the best instructions of the machine.
struct Fill<'a> {
    field: &'a Field,
    image: &'a [f32],
    size: [usize; 2],
    buffer: &'a mut [f32],
}

impl Loop for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.field.fill(self.image, self.size, self.buffer);
    }
}

/// The coarse image of each fine one: `[images, fine]` to `[images, coarse]`.
fn gather(shape: &Geometry, fine: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    if let Some(spectral) = shape.spectral(false) {
        let spectra = spectral.spectra(&shape.table(&spectral, weights, false));
        return spectral.outputs(&spectra, fine, bias);
    }
    if let Some(winograd) = Winograd::new(shape) {
        return winograd.gather(fine, weights, bias);
    }
    if let Some(lowered) = Lowered::new(shape) {
        return lowered.gather(fine, weights, bias);
    }
    let field = shape.field();
    let kernels: Vec<_> = shape.placed().collect();
    let offsets: Vec<_> = kernels
        .iter()
        .map(|(kernel, ..)| shape.offsets(kernel, &field))
        .collect();
    let tiles: Vec<Tile> = kernels
        .iter()
        .zip(&offsets)
        .flat_map(|((_, outputs, start), offsets)| {
            tiles(outputs.clone(), offsets, |output, i| {
                weights[start + (output - outputs.start) * offsets.len() + i]
            })
        })
        .collect();
    let [_, height, width] = shape.coarse;
    let positions = shape.positions(&field);
    by_chunks(
        shape.images * shape.coarse_size(),
        shape.coarse_size(),
        || (vec![0.0; field.size()], vec![0.0; TILE * positions.size()]),
        |(buffer, scratch), image, coarse| {
            let fine = &fine[image * shape.fine_size()..][..shape.fine_size()];
            run(Fill {
                field: &field,
                image: fine,
                size: [shape.fine[1], shape.fine[2]],
                buffer,
            });
            for tile in &tiles {
                simd(Correlate {
                    field: buffer,
                    offsets: tile.offsets,
                    weights: &tile.weights,
                    start: starts(tile, bias),
                    positions,
                    target: Target {
                        values: &mut coarse[tile.outputs.start * height * width..],
                        plane: height * width,
                        first: 0,
                        row_step: width,
                        column_step: 1,
                    },
                    scratch,
                });
            }
        },
    )
}

/// One of the phases in which a transposed convolution writes: rows `first[0] + stride * i` and
/// columns `first[1] + stride * j` of the fine image.
struct Phase {
    first: [usize; 2],
    positions: Positions,
    /// Of every coarse channel and those of its weights that meet the phase: where it looks in the
    /// field, and where the weight of fine channel 0 is.
    offsets: Vec<usize>,
    /// See `offsets`; the next fine channel's weight is `taps` further.
    weights: Vec<(usize, usize)>,
}

/// The field of the coarse image, and the phases of the fine one.
fn phases(shape: &Geometry) -> (Field, Vec<Phase>) {
    let s = shape.stride;
    assert!(s == 1 || shape.kernels.len() == 1, "banks have stride 1");
    // Taps of a phase along an axis, less one: as many zeros are before the image.
    let reach = [0, 1].map(|axis| {
        let taps = |kernel: &Kernel| kernel.size[axis].div_ceil(s) - 1;
        shape.kernels.iter().map(taps).max().unwrap_or(0)
    });
    // Along an axis, a fine pixel is `s * q + r - padding`; the q of a phase r.
    let range = |kernel: &Kernel, axis: usize, r: usize| {
        let least = kernel.padding.saturating_sub(r).div_ceil(s);
        let beyond = (shape.fine[axis + 1] + kernel.padding)
            .saturating_sub(r)
            .div_ceil(s);
        least..beyond.max(least)
    };
    let most = [0, 1].map(|axis| {
        let ends = |kernel: &Kernel| (0..s).map(|r| range(kernel, axis, r).end).max();
        shape.kernels.iter().filter_map(ends).max().unwrap_or(0)
    });
    let field = Field {
        channels: shape.coarse[0],
        rows: most[0] + reach[0],
        columns: most[1] + reach[1],
        stride: 1,
        padding: reach,
    };
    let mut phases = Vec::new();
    for (row, column) in (0..s).flat_map(|row| (0..s).map(move |column| (row, column))) {
        let main = &shape.kernels[0];
        let (rows, columns) = (range(main, 0, row), range(main, 1, column));
        if rows.is_empty() || columns.is_empty() {
            continue;
        }
        let (mut offsets, mut weights) = (Vec::new(), Vec::new());
        for (kernel, channels, start) in shape.placed() {
            let (top, left) = (range(kernel, 0, row).start, range(kernel, 1, column).start);
            let per_channel = shape.fine[0] * kernel.taps();
            for (index, channel) in channels.enumerate() {
                for y in (row..kernel.size[0]).step_by(s) {
                    for x in (column..kernel.size[1]).step_by(s) {
                        let place =
                            (top + reach[0] - y / s) * field.columns + left + reach[1] - x / s;
                        offsets.push(channel * field.channel() + place);
                        let tap = y * kernel.size[1] + x;
                        weights.push((start + index * per_channel + tap, kernel.taps()));
                    }
                }
            }
        }
        phases.push(Phase {
            first: [
                s * rows.start + row - main.padding,
                s * columns.start + column - main.padding,
            ],
            positions: Positions {
                rows: rows.len(),
                width: columns.len(),
                columns: field.columns,
            },
            offsets,
            weights,
        });
    }
    (field, phases)
}

/// The fine image of each coarse one: `[images, coarse]` to `[images, fine]`.
fn spread(shape: &Geometry, coarse: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    if let Some(spectral) = shape.spectral(true) {
        let spectra = spectral.spectra(&shape.table(&spectral, weights, true));
        return spectral.outputs(&spectra, coarse, bias);
    }
    if let Some(winograd) = Winograd::new(shape) {
        return winograd.spread(coarse, weights, bias);
    }
    if let Some(lowered) = Lowered::new(shape) {
        return lowered.spread(coarse, weights, bias);
    }
    let (field, phases) = phases(shape);
    let tiles: Vec<Vec<Tile>> = phases
        .iter()
        .map(|phase| {
            tiles(0..shape.fine[0], &phase.offsets, |output, i| {
                let (first, taps) = phase.weights[i];
                weights[first + output * taps]
            })
        })
        .collect();
    let [_, height, width] = shape.coarse;
    let [_, fine_height, fine_width] = shape.fine;
    let plane = fine_height * fine_width;
    let largest = phases.iter().map(|p| p.positions.size()).max().unwrap_or(0);
    by_chunks(
        shape.images * shape.fine_size(),
        shape.fine_size(),
        || (vec![0.0; field.size()], vec![0.0; TILE * largest]),
        |(buffer, scratch), image, fine| {
            let coarse = &coarse[image * shape.coarse_size()..][..shape.coarse_size()];
            run(Fill {
                field: &field,
                image: coarse,
                size: [height, width],
                buffer,
            });
            for (phase, tiles) in phases.iter().zip(&tiles) {
                for tile in tiles {
                    simd(Correlate {
                        field: buffer,
                        offsets: tile.offsets,
                        weights: &tile.weights,
                        start: starts(tile, bias),
                        positions: phase.positions,
                        target: Target {
                            values: &mut fine[tile.outputs.start * plane..],
                            plane,
                            first: phase.first[0] * fine_width + phase.first[1],
                            row_step: shape.stride * fine_width,
                            column_step: shape.stride,
                        },
                        scratch,
                    });
                }
            }
        },
    )
}

/// Groups of images whose sums are made apart: a number that depends on their count alone, so that
/// results do not depend on the number of threads.
const GROUPS: usize = 8;

/// Gradients of the weights and, for a convolution, of the bias.
///
/// The field gets one more channel, of ones, and each kernel one more column that reads it: its sum
/// is that of the gradient, which is the bias's.
fn weight_gradient(shape: &Geometry, fine: &[f32], coarse: &[f32]) -> [Vec<f32>; 2] {
    /// Pixels of images that are worked on together.
    const TOGETHER: usize = 1024;
    if let Some(spectral) = shape.spectral(false) {
        let table = spectral.gradient(fine, coarse);
        let places = shape.places(&spectral, false).into_iter();
        let weights = places.map(|place| table.values()[place]).collect();
        let [channels, height, width] = shape.coarse;
        return [weights, bias_gradient(coarse, channels, height * width)];
    }
    let products = match (Winograd::new(shape), Lowered::new(shape)) {
        (Some(winograd), _) => Some(winograd.weight_gradient(fine, coarse)),
        (_, Some(lowered)) => Some(lowered.weight_gradient(fine, coarse)),
        _ => None,
    };
    if let Some(weights) = products {
        let [channels, height, width] = shape.coarse;
        return [weights, bias_gradient(coarse, channels, height * width)];
    }
    let field = shape.field();
    let positions = shape.positions(&field);
    let ones = field.channels * field.channel();
    let kernels: Vec<_> = shape
        .placed()
        .map(|(kernel, outputs, _)| {
            let mut columns = shape.offsets(kernel, &field);
            columns.push(ones);
            (outputs, columns)
        })
        .collect();
    let count = kernels
        .iter()
        .map(|(outputs, columns)| outputs.len() * columns.len());
    let count: usize = count.sum();
    let pixels = shape.coarse[1] * shape.coarse[2];
    let share = shape.images.div_ceil(GROUPS).max(1);
    let sums: Vec<Vec<f32>> = fine
        .par_chunks(share * shape.fine_size())
        .zip(coarse.par_chunks(share * shape.coarse_size()))
        .map(|(fine, coarse)| {
            // Some images at a time, so that there is work for all that is loaded.
            let together = (TOGETHER / pixels).clamp(1, 8);
            let field_size = field.size() + positions.size();
            let mut fields = vec![0.0; together * field_size];
            for buffer in fields.chunks_exact_mut(field_size) {
                buffer[ones..].fill(1.0);
            }
            let mut scratch = Vec::new();
            let mut sums = vec![0.0; count];
            let batches = fine.chunks(together * shape.fine_size());
            for (fine, coarse) in batches.zip(coarse.chunks(together * shape.coarse_size())) {
                let images = fine.chunks_exact(shape.fine_size());
                let images_left = images.len();
                for (image, buffer) in images.zip(fields.chunks_exact_mut(field_size)) {
                    run(Fill {
                        field: &field,
                        image,
                        size: [shape.fine[1], shape.fine[2]],
                        buffer: &mut buffer[..ones],
                    });
                }
                let mut rest = &mut sums[..];
                for (outputs, columns) in &kernels {
                    let sums;
                    (sums, rest) = rest.split_at_mut(outputs.len() * columns.len());
                    simd(WeightGradient {
                        fields: &fields[..images_left * field_size],
                        field_size,
                        columns,
                        gradient: coarse,
                        image: shape.coarse_size(),
                        first: outputs.start * pixels,
                        outputs: outputs.len(),
                        positions,
                        scratch: &mut scratch,
                        sums,
                    });
                }
            }
            sums
        })
        .collect();
    let mut total = vec![0.0; count];
    for sums in sums {
        for (total, sum) in total.iter_mut().zip(sums) {
            *total += sum;
        }
    }
    let (mut weights, mut bias) = (Vec::with_capacity(count), Vec::new());
    let mut rest = &total[..];
    for (outputs, columns) in &kernels {
        let rows;
        (rows, rest) = rest.split_at(outputs.len() * columns.len());
        for row in rows.chunks_exact(columns.len()) {
            weights.extend_from_slice(&row[..columns.len() - 1]);
            bias.push(row[columns.len() - 1]);
        }
    }
    [weights, bias]
}

/// Sums over all images and pixels of each channel; images are summed one after the other.
fn bias_gradient(gradient: &[f32], channels: usize, pixels: usize) -> Vec<f32> {
    let images: Vec<Vec<f32>> = gradient
        .par_chunks_exact(channels * pixels)
        .map(|image| {
            let planes = image.chunks_exact(pixels);
            planes.map(|plane| simd(PlaneSum(plane))).collect()
        })
        .collect();
    let mut sums = vec![0.0; channels];
    for image in images {
        for (sum, plane) in sums.iter_mut().zip(image) {
            *sum += plane;
        }
    }
    sums
}

struct PlaneSum<'a>(&'a [f32]);

impl WithSimd for PlaneSum<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (vectors, rest) = S::as_simd_f32s(self.0);
        // Four sums, so that one need not wait for another.
        let mut sums = [simd.splat_f32s(0.0); 4];
        for chunk in vectors.chunks(sums.len()) {
            for (sum, vector) in sums.iter_mut().zip(chunk) {
                *sum = simd.add_f32s(*sum, *vector);
            }
        }
        let vectors = sums.map(|sum| simd.reduce_sum_f32s(sum));
        vectors.iter().chain(rest).sum()
    }
}

/// Kernels, stride and, for a transposed convolution, rows and columns added at the end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// A bank of several has stride 1 and is not transposed.
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) stride: usize,
    /// `None` for a convolution.
    pub(crate) transposed: Option<usize>,
}

impl Options {
    fn geometry(&self, input: &Raw, weight: &Raw) -> Geometry {
        let [images, channels, height, width] = input.layout().shape().dims();
        let [weights] = weight.layout().shape().dims();
        let stride = self.stride;
        let coarse: usize = self.kernels.iter().map(|k| k.channels).sum();
        let per_channel: usize = self.kernels.iter().map(|k| k.channels * k.taps()).sum();
        let fine = weights / per_channel;
        assert_eq!(weights, fine * per_channel, "weights of the kernels");
        let (fine, coarse) = match self.transposed {
            None => {
                assert_eq!(channels, fine, "channels of image and weight");
                let out = |axis: usize, size: usize| {
                    let out = |kernel: &Kernel| {
                        let (padded, kernel) = (size + 2 * kernel.padding, kernel.size[axis]);
                        assert!(padded >= kernel, "the kernel is larger than the image");
                        (padded - kernel) / stride + 1
                    };
                    let first = out(&self.kernels[0]);
                    let mut others = self.kernels.iter().map(out);
                    assert!(others.all(|out| out == first), "one size for all kernels");
                    first
                };
                let coarse = [coarse, out(0, height), out(1, width)];
                ([fine, height, width], coarse)
            }
            Some(added) => {
                assert_eq!(channels, coarse, "channels of image and weight");
                let kernel = &self.kernels[0];
                let out = |axis: usize, size: usize| {
                    (size - 1) * stride + kernel.size[axis] + added - 2 * kernel.padding
                };
                let fine = [fine, out(0, height), out(1, width)];
                (fine, [coarse, height, width])
            }
        };
        Geometry {
            images,
            fine,
            coarse,
            kernels: self.kernels.clone(),
            stride,
        }
    }
}

/// The output image.
pub(super) fn forward(input: &Raw, weight: &Raw, bias: &Raw, options: &Options) -> Raw {
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
            if to_weight.is_none() && to_bias.is_none() {
                return;
            }
            let [to_weights, to_biases] = match options.transposed {
                None => weight_gradient(&shape, input, outer),
                Some(_) => {
                    let [weights, _] = weight_gradient(&shape, outer, input);
                    [weights, bias_gradient(outer, channels, height * width)]
                }
            };
            if let Some(node) = to_weight {
                let count = to_weights.len();
                grads.register::<Flex>(node.id, raw(to_weights, [count]));
            }
            if let Some(node) = to_bias {
                grads.register::<Flex>(node.id, raw(to_biases, [channels]));
            }
        }
    }

    let (input, input_guard) = input.into_parts();
    let (weight, weight_guard) = weight.into_parts();
    let (bias, bias_guard) = bias.into_parts();
    let [input, weight, bias] = [input, weight, bias].map(|tensor| contiguous(&tensor));
    let output = forward(&input, &weight, &bias, &options);
    let guards = [input_guard, weight_guard, bias_guard];
    match Convolution.prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((input, weight, options), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn places_are_within_the_image() {
        for (count, step) in (1..7).flat_map(|count| (1..5).map(move |step| (count, step))) {
            for (first, size) in (-9..10).flat_map(|first| (1..10).map(move |size| (first, size))) {
                let place = |q: usize| first + (q * step) as isize;
                let within: Vec<usize> = (0..count)
                    .filter(|q| (0..size as isize).contains(&place(*q)))
                    .collect();
                let (found, start) = inside(count, step, first, size);
                assert_eq!(found.clone().collect::<Vec<_>>(), within);
                // Also an empty range is one of a row of so many.
                assert!(found.end <= count);
                if !found.is_empty() {
                    assert_eq!(start as isize, place(found.start));
                }
            }
        }
    }
}
