//! The outputs of an operation with several outputs.
//!
//! A node of Burn's graph with a custom backward step has one output. For several outputs the node's value is a
//! placeholder. A small operation takes each output from it, and its backward step stores the output's gradient
//! for the node. Slices of one large output would work too, but the gradient of each slice is as large as the
//! whole.

use crate::flex::{Raw, contiguous, raw};
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

/// The value or gradient of a node that only connects others; nothing reads it.
pub(crate) fn placeholder() -> Raw {
    raw(vec![0.0], [1])
}

/// Shared by an operation and its parts: outputs in the forward pass, gradients in the backward pass.
#[derive(Clone, Debug)]
pub(crate) struct Parts(Arc<Mutex<Vec<Option<Raw>>>>);

impl Parts {
    pub(crate) fn new(outputs: Vec<Raw>) -> Self {
        Self(Arc::new(Mutex::new(
            outputs.into_iter().map(Some).collect(),
        )))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Option<Raw>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gradients of all parts, contiguous; `None` for a part on which nothing depends.
    pub(crate) fn gradients(&self) -> Vec<Option<Raw>> {
        let all = std::mem::take(&mut *self.all());
        let gradients = all.into_iter();
        gradients
            .map(|part| part.map(|gradient| contiguous(&gradient)))
            .collect()
    }

    /// The outputs as nodes that depend on the operation's `node`.
    pub(crate) fn of_node<C: CheckpointStrategy>(
        &self,
        node: &FloatTensor<Autodiff<Flex, C>>,
    ) -> Vec<FloatTensor<Autodiff<Flex, C>>> {
        let outputs = self.all().iter_mut().map(Option::take).collect::<Vec<_>>();
        let part = |(index, output): (usize, Option<Raw>)| {
            let output = output.expect("outputs are taken once");
            let operation = Part.prepare::<C>([node.node()]);
            match operation.compute_bound().stateful() {
                OpsKind::Tracked(operation) => operation.finish((self.clone(), index), output),
                OpsKind::UnTracked(operation) => operation.finish(output),
            }
        };
        outputs.into_iter().enumerate().map(part).collect()
    }
}

/// Stores the gradient of a part for its operation.
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
            grads.register::<Flex>(whole.id, placeholder());
        }
    }
}
