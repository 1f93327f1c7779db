//! The shape of a convolution between a fine and a coarse image.

use super::{
    field::{Field, Positions},
    spectral::{Spectral, Table},
};
use crate::flex::simd::chunks::by_chunks;
use std::ops::Range;

/// One of the kernels of a bank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kernel {
    /// Coarse channels of this kernel.
    pub(crate) channels: usize,
    /// Rows and columns.
    pub(crate) size: [usize; 2],
    pub(crate) padding: usize,
}

impl Kernel {
    pub(crate) fn taps(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// For each tap by how much it moves an image, or with `back` a coarse one onto a fine one.
    fn shifts(&self, back: bool) -> impl Iterator<Item = [isize; 2]> {
        (0..self.taps()).map(move |tap| {
            let at = [tap / self.size[1], tap % self.size[1]];
            let shift = at.map(|at| self.padding as isize - at as isize);
            if back { shift.map(|s| -s) } else { shift }
        })
    }
}

/// Shape of a convolution between a fine and a coarse image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Geometry {
    pub(crate) images: usize,
    pub(crate) fine: [usize; 3],
    pub(crate) coarse: [usize; 3],
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) stride: usize,
}

/// A kernel in its bank: its coarse channels, and the index of its first weight.
pub(crate) type Placed<'a> = (&'a Kernel, Range<usize>, usize);

/// Which of `count` places, `step` apart and starting at `first`, are within `0..size`; and the first of those
/// places.
pub(crate) fn inside(
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
    pub(crate) fn fine_size(&self) -> usize {
        self.fine.iter().product()
    }

    pub(crate) fn coarse_size(&self) -> usize {
        self.coarse.iter().product()
    }

    pub(crate) fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        self.kernels
            .iter()
            .scan((0, 0), |(channel, weight), kernel| {
                let placed = (kernel, *channel..*channel + kernel.channels, *weight);
                *channel += kernel.channels;
                *weight += kernel.channels * self.fine[0] * kernel.taps();
                Some(placed)
            })
    }

    pub(crate) fn padding(&self) -> usize {
        self.kernels.iter().map(|k| k.padding).max().unwrap_or(0)
    }

    /// The field of the fine image, padded and split into phases.
    pub(crate) fn field(&self) -> Field {
        let (s, padding) = (self.stride, self.padding());
        // The last row that a tap reads, within its phase, plus one.
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

    /// Offsets in the field that the weights of a kernel read: its taps in every channel.
    pub(crate) fn offsets(&self, kernel: &Kernel, field: &Field) -> Vec<usize> {
        let before = self.padding() - kernel.padding;
        let [rows, columns] = kernel.size;
        let taps: Vec<usize> = (0..rows * columns)
            .map(|tap| field.offset(before + tap / columns, before + tap % columns))
            .collect();
        (0..self.fine[0])
            .flat_map(|channel| taps.iter().map(move |tap| channel * field.channel() + tap))
            .collect()
    }

    /// The same convolution by Fourier transforms, if that is much less work: from fine to coarse, or with
    /// `back` from coarse to fine.
    pub(crate) fn spectral(&self, back: bool) -> Option<Spectral> {
        if self.stride != 1 {
            return None;
        }
        // Coarse pixel `i` reads the fine pixels `i - s`.
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

    /// The table of weights of [`Geometry::spectral`].
    pub(crate) fn table(&self, spectral: &Spectral, weights: &[f32], back: bool) -> Table {
        let fine = self.fine[0];
        spectral.table(|input, table| {
            for (kernel, outputs, first) in self.placed() {
                let places = kernel.shifts(back).map(|shift| spectral.shift(shift));
                let places: Vec<usize> = places.map(|shift| spectral.place(shift, 0)).collect();
                let taps = kernel.taps();
                let mut put = |output: usize, of_pair: usize| {
                    let weights = &weights[first + of_pair * taps..][..taps];
                    let table = &mut table[spectral.place(0, output)..];
                    for (weight, shift) in weights.iter().zip(&places) {
                        table[*shift] = *weight;
                    }
                };
                if !back {
                    for output in 0..kernel.channels {
                        put(outputs.start + output, output * fine + input);
                    }
                } else if outputs.contains(&input) {
                    let output = input - outputs.start;
                    (0..fine).for_each(|channel| put(channel, output * fine + channel));
                }
            }
        })
    }

    /// The weights of a table, from fine to coarse.
    pub(crate) fn weights_of(&self, spectral: &Spectral, table: &Table) -> Vec<f32> {
        /// Coarse channels whose weights are gathered together.
        const TOGETHER: usize = 16;
        let fine = self.fine[0];
        let mut of_kernels = self.placed().map(|(kernel, outputs, _)| {
            let taps = kernel.taps();
            let shifts = kernel.shifts(false).map(|shift| spectral.shift(shift));
            let shifts: Vec<usize> = shifts.map(|shift| spectral.place(shift, 0)).collect();
            let of_output = fine * taps;
            let init = || ();
            by_chunks(
                kernel.channels * of_output,
                TOGETHER * of_output,
                init,
                |(), block, weights| {
                    let first = outputs.start + block * TOGETHER;
                    let count = weights.len() / of_output;
                    for channel in 0..fine {
                        let table = table.of(spectral, channel);
                        for output in 0..count {
                            let found = &table[spectral.place(0, first + output)..];
                            let weights = &mut weights[output * of_output + channel * taps..];
                            for (weight, shift) in weights.iter_mut().zip(&shifts) {
                                *weight = found[*shift];
                            }
                        }
                    }
                },
            )
        });
        let mut weights = of_kernels.next().unwrap_or_default();
        of_kernels.for_each(|others| weights.extend(others));
        weights
    }

    /// Positions of the coarse image in the field.
    pub(crate) fn positions(&self, field: &Field) -> Positions {
        Positions {
            rows: self.coarse[1],
            width: self.coarse[2],
            columns: field.columns,
        }
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
                // An empty range must also lie within the row.
                assert!(found.end <= count);
                if !found.is_empty() {
                    assert_eq!(start as isize, place(found.start));
                }
            }
        }
    }
}
