//! Splits rows into equal parts, as views, and channels into any parts, as copies. In the backward pass their gradients are
//! written once, side by side. Burn's gradient of a slice is as large as the tensor it was cut from.

use super::fused::Fused;
use crate::flex::{Raw, contiguous, raw, simd::chunks::by_chunks, slice};
use burn::{
    backend::{Flex, ops::FloatTensorOps},
    tensor::{Shape, Slice},
};
use std::ops::Range;

/// See [`crate::split::split_rows`].
pub(crate) struct Split {
    /// Number of parts.
    pub(crate) count: usize,
}

impl Fused<1> for Split {
    type Outputs = Vec<Raw>;
    /// Shape of the input.
    type Saved = Shape;

    fn forward(self, [whole]: [Raw; 1]) -> (Vec<Raw>, Shape) {
        let whole = contiguous(&whole);
        let rows = whole.layout().shape()[0] / self.count;
        let part = |index: usize| {
            let range = (index * rows) as isize..((index + 1) * rows) as isize;
            Flex::float_slice(whole.clone(), &[Slice::from(range)])
        };
        let parts = (0..self.count).map(part).collect();
        (parts, whole.layout().shape().clone())
    }

    fn backward(shape: Shape, parts: Vec<Option<Raw>>, _: [bool; 1]) -> [Option<Raw>; 1] {
        let numbers = shape.num_elements();
        let size = (numbers / parts.len()).max(1);
        let gradient = by_chunks(
            numbers,
            size,
            || (),
            |(), index, chunk| {
                if let Some(part) = &parts[index] {
                    chunk.copy_from_slice(slice(part));
                }
            },
        );
        [Some(raw(gradient, shape))]
    }
}

/// See [`crate::split::split_channels`].
pub(crate) struct SplitChannels {
    /// The channels of each part.
    pub(crate) parts: Vec<Vec<Range<usize>>>,
}

impl Fused<1> for SplitChannels {
    type Outputs = Vec<Raw>;
    /// Shape of the input, and the channels of each part.
    type Saved = (Shape, Vec<Vec<Range<usize>>>);

    fn forward(self, [whole]: [Raw; 1]) -> (Vec<Raw>, Self::Saved) {
        let whole = contiguous(&whole);
        let shape = whole.layout().shape().clone();
        let (rows, channels) = (shape[0], shape[1]);
        let size = shape.num_elements() / (rows * channels).max(1);
        let part = |ranges: &Vec<Range<usize>>| {
            let count = ranges.iter().map(Range::len).sum();
            let mut part = Vec::with_capacity(rows * count * size);
            for row in slice(&whole).chunks_exact((channels * size).max(1)) {
                for range in ranges {
                    part.extend_from_slice(&row[range.start * size..range.end * size]);
                }
            }
            let mut of_part = shape.clone();
            of_part[1] = count;
            raw(part, of_part)
        };
        let parts = self.parts.iter().map(part).collect();
        (parts, (shape, self.parts))
    }

    fn backward(
        (shape, parts): Self::Saved,
        gradients: Vec<Option<Raw>>,
        _: [bool; 1],
    ) -> [Option<Raw>; 1] {
        let (rows, channels) = (shape[0], shape[1]);
        let size = shape.num_elements() / (rows * channels).max(1);
        let gradient = by_chunks(
            shape.num_elements(),
            (channels * size).max(1),
            || (),
            |(), row, chunk| {
                for (ranges, gradient) in parts.iter().zip(&gradients) {
                    let Some(gradient) = gradient else { continue };
                    let count: usize = ranges.iter().map(|range| range.len() * size).sum();
                    let mut from = &slice(gradient)[row * count..][..count];
                    for range in ranges {
                        let to = &mut chunk[range.start * size..range.end * size];
                        let (of_range, rest) = from.split_at(to.len());
                        to.iter_mut().zip(of_range).for_each(|(to, of)| *to += of);
                        from = rest;
                    }
                }
            },
        );
        [Some(raw(gradient, shape))]
    }
}
