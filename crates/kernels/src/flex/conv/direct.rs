//! Convolutions that read the padded image directly for each weight: the method for few channels and small
//! kernels.

use super::{
    correlate::{Correlate, TILE, Target, WeightGradient},
    field::{Field, Positions},
    geometry::{Geometry, Kernel},
};
use crate::flex::simd::{Loop, chunks::by_chunks, run, run_vectors};
use rayon::prelude::*;
use std::ops::Range;

/// Up to [`TILE`] output channels, and the weights of their sums.
struct Tile<'a> {
    outputs: Range<usize>,
    offsets: &'a [usize],
    /// `[offsets, TILE]`, zero after the last output.
    weights: Vec<f32>,
}

/// Splits a range of outputs that sum the same pixels into tiles; `weight(output, i)` is the weight of the pixel
/// at `offsets[i]`.
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

/// Initial values of a tile's sums.
fn starts<'a>(tile: &Tile, bias: Option<&'a [f32]>) -> &'a [f32] {
    const NOTHING: [f32; TILE] = [0.0; TILE];
    match bias {
        Some(bias) => &bias[tile.outputs.clone()],
        None => &NOTHING[..tile.outputs.len()],
    }
}

/// [`Field::fill`] with the best instructions of this machine.
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

/// Computes coarse images from fine ones: `[images, fine]` to `[images, coarse]`.
pub(super) fn gather(
    shape: &Geometry,
    fine: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
) -> Vec<f32> {
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
                run_vectors(Correlate {
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

/// One of the phases that a transposed convolution writes: rows `first[0] + stride * i` and columns `first[1] +
/// stride * j` of the fine image.
struct Phase {
    first: [usize; 2],
    positions: Positions,
    /// The offset in the field, for every coarse channel and each of its weights that belong to this phase.
    offsets: Vec<usize>,
    /// For the same pairs, the index of the weight of fine channel 0, and the distance to that of the next fine
    /// channel, which is the number of taps.
    weights: Vec<(usize, usize)>,
}

/// The field of the coarse image, and the phases of the fine one.
fn phases(shape: &Geometry) -> (Field, Vec<Phase>) {
    let s = shape.stride;
    assert!(
        s == 1 || shape.kernels.len() == 1,
        "a bank of several kernels must have stride 1"
    );
    // Taps of a phase along an axis, minus one: the number of zeros before the image.
    let reach = [0, 1].map(|axis| {
        let taps = |kernel: &Kernel| kernel.size[axis].div_ceil(s) - 1;
        shape.kernels.iter().map(taps).max().unwrap_or(0)
    });
    // Along an axis, a fine pixel is `s * q + r - padding`; this gives the range of `q` for phase `r`.
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

/// Computes fine images from coarse ones: `[images, coarse]` to `[images, fine]`.
pub(super) fn spread(
    shape: &Geometry,
    coarse: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
) -> Vec<f32> {
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
                    run_vectors(Correlate {
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

/// Groups of images whose sums are computed separately. It depends only on the number of images, so the number
/// of threads does not change the result.
const GROUPS: usize = 8;

/// Gradients of the weights and, for a convolution, of the bias.
///
/// The field gets one more channel, filled with ones, and each kernel one more column that reads it. The sum of
/// that column is the sum of the gradient, which is the gradient of the bias.
pub(super) fn weight_gradient(shape: &Geometry, fine: &[f32], coarse: &[f32]) -> [Vec<f32>; 2] {
    /// Pixels of images that are processed together.
    const TOGETHER: usize = 1024;
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
            // Processes several images at a time, so that loaded data is used enough.
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
                    run_vectors(WeightGradient {
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
