//! An operation with several outputs.
//!
//! Burn's operations with a backward step of their own have one output. Here that output says nothing; each
//! part is taken from it by a small operation, whose backward step leaves its gradient for the
//! large one. Slices of one large output would do, too, but the gradient of each is as large as the whole.

use super::{Raw, contiguous, raw};
use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an operation and its parts share: outputs on the way forward, gradients on the way back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts(Arc<Mutex<Vec<Option<Raw>>>>);

impl Parts {
    fn all(&self) -> MutexGuard<'_, Vec<Option<Raw>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the outputs; returns the value of the node that stands for them.
    pub(super) fn put(&self, outputs: impl IntoIterator<Item = Raw>) -> Raw {
        *self.all() = outputs.into_iter().map(Some).collect();
        raw(vec![0.0], [1])
    }

    /// An output, once.
    pub(super) fn take(&self, index: usize) -> Raw {
        self.all()[index].take().expect("a part is taken once")
    }

    /// The gradients of all parts, `None` where nothing depends on a part.
    pub(super) fn gradients<const N: usize>(&self) -> [Option<Raw>; N] {
        let all = self.all_gradients();
        all.try_into().expect("as many parts as were put")
    }

    /// The same of a number of parts that only their operation knows.
    pub(super) fn all_gradients(&self) -> Vec<Option<Raw>> {
        let all = std::mem::take(&mut *self.all());
        let gradients = all.into_iter();
        gradients
            .map(|part| part.map(|gradient| contiguous(&gradient)))
            .collect()
    }
}

pub(super) fn tracked<C: CheckpointStrategy>(
    node: FloatTensor<Autodiff<Flex, C>>,
    parts: Parts,
    index: usize,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Part;

    impl Backward<Flex, 1> for Part {
        type State = (Parts, usize);

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
            let (parts, index) = ops.state;
            let gradient = grads.consume::<Flex>(&ops.node);
            let [whole] = ops.parents;
            if let Some(whole) = whole {
                parts.all()[index] = Some(gradient);
                grads.register::<Flex>(whole.id, raw(vec![0.0], [1]));
            }
        }
    }

    let (_, guard) = node.into_parts();
    let output = parts.take(index);
    match Part.prepare::<C>([guard]).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((parts, index), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
