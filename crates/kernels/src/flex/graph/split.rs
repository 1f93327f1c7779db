//! Splits rows into equal parts, as views. In the backward pass their gradients are written once, side by side.
//! Burn's gradient of a slice is as large as the tensor it was cut from.

use super::fused::Fused;
use crate::flex::{Raw, contiguous, raw, simd::chunks::by_chunks, slice};
use burn::{
    backend::{Flex, ops::FloatTensorOps},
    tensor::{Shape, Slice},
};

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
