//! Rows in equal parts, as views; on the way back their gradients are written once, side by side. Burn's gradient of a
//! slice is as large as what it was cut from.

use super::{Parts, Raw, chunks::by_chunks, contiguous, raw, slice};
use burn::{
    backend::{
        Autodiff, Flex,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, Ops, OpsKind},
        },
        ops::FloatTensorOps,
        tensor::FloatTensor,
    },
    tensor::{Shape, Slice},
};

pub(super) fn forward(whole: &Raw, count: usize, parts: &Parts) -> Raw {
    let rows = whole.layout().shape()[0] / count;
    let part = |index: usize| {
        let range = (index * rows) as isize..((index + 1) * rows) as isize;
        Flex::float_slice(whole.clone(), &[Slice::from(range)])
    };
    parts.put((0..count).map(part))
}

pub(super) fn tracked<C: CheckpointStrategy>(
    whole: FloatTensor<Autodiff<Flex, C>>,
    count: usize,
    parts: Parts,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Split;

    impl Backward<Flex, 1> for Split {
        type State = (Shape, Parts);

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
            let (shape, parts) = ops.state;
            // What each part registered says only that there was one.
            let _ = grads.consume::<Flex>(&ops.node);
            let [Some(node)] = ops.parents else {
                return;
            };
            let parts = parts.all_gradients();
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
            grads.register::<Flex>(node.id, raw(gradient, shape));
        }
    }

    let (whole, guard) = whole.into_parts();
    let whole = contiguous(&whole);
    let output = forward(&whole, count, &parts);
    match Split.prepare::<C>([guard]).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((whole.layout().shape().clone(), parts), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
