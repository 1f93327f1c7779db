//! Common code of all fused operations: they reach the CPU backend through Burn's dispatch, and with autodiff
//! they become nodes of its graph.

use super::parts::{self, Parts};
use crate::flex::Raw;
use burn::backend::{
    Autodiff, Backend, BackendTensor, Dispatch, DispatchAutodiffContext, DispatchTensor,
    DispatchTensorKind, ExtensionType, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, NodeGuard, Ops, OpsKind},
    },
    backend_extension,
    tensor::FloatTensor,
};
use std::{fmt, marker::PhantomData};

/// An operation of `N` inputs with a hand-written gradient. Its fields are its settings.
pub(crate) trait Fused<const N: usize>: Sized + Send + 'static {
    /// One tensor, an array of tensors, or a vector if only the call knows their number.
    type Outputs: Outputs;
    /// Values that the backward pass needs from the forward pass.
    type Saved: Clone + fmt::Debug + Send + 'static;

    /// Inputs that are data: no gradient flows to them.
    const DATA: &'static [usize] = &[];
    /// Whether the operation has a gradient.
    const DIFFERENTIABLE: bool = true;

    /// The outputs, and the values that the backward pass needs.
    fn forward(self, inputs: [Raw; N]) -> (Self::Outputs, Self::Saved);

    /// The gradients of the inputs from those of the outputs, at least for each input that is `wanted`.
    fn backward(
        saved: Self::Saved,
        outer: <Self::Outputs as Outputs>::Gradients,
        wanted: [bool; N],
    ) -> [Option<Raw>; N];
}

/// An operation that is never differentiated, given by a function from inputs to outputs.
pub(crate) struct Undifferentiated<F>(pub(crate) F);

impl<F, O, const N: usize> Fused<N> for Undifferentiated<F>
where
    F: FnOnce([Raw; N]) -> O + Send + 'static,
    O: Outputs + 'static,
{
    type Outputs = O;
    type Saved = ();

    const DIFFERENTIABLE: bool = false;

    fn forward(self, inputs: [Raw; N]) -> (O, ()) {
        ((self.0)(inputs), ())
    }

    fn backward((): (), _: O::Gradients, _: [bool; N]) -> [Option<Raw>; N] {
        unreachable!("the operation is refused if its inputs are tracked")
    }
}

/// The outputs of an operation.
pub(crate) trait Outputs: Sized {
    /// Gradients as the backward pass receives them. For a single output there is always one. For several
    /// outputs they are contiguous, and `None` for an output on which nothing depends.
    type Gradients;

    /// All outputs in order.
    fn into_vec(self) -> Vec<Raw>;

    /// The value of the operation's node; several outputs are put into [`Parts`].
    fn node(self) -> (Raw, Option<Parts>);

    fn gradients(outer: Raw, parts: Option<Parts>) -> Self::Gradients;
}

impl Outputs for Raw {
    type Gradients = Raw;

    fn into_vec(self) -> Vec<Raw> {
        vec![self]
    }

    fn node(self) -> (Raw, Option<Parts>) {
        (self, None)
    }

    fn gradients(outer: Raw, _: Option<Parts>) -> Raw {
        outer
    }
}

impl Outputs for Vec<Raw> {
    type Gradients = Vec<Option<Raw>>;

    fn into_vec(self) -> Vec<Raw> {
        self
    }

    fn node(self) -> (Raw, Option<Parts>) {
        (parts::placeholder(), Some(Parts::new(self)))
    }

    fn gradients(_: Raw, parts: Option<Parts>) -> Vec<Option<Raw>> {
        parts.map_or_else(Vec::new, |parts| parts.gradients())
    }
}

impl<const M: usize> Outputs for [Raw; M] {
    type Gradients = [Option<Raw>; M];

    fn into_vec(self) -> Vec<Raw> {
        self.into()
    }

    fn node(self) -> (Raw, Option<Parts>) {
        self.into_vec().node()
    }

    fn gradients(outer: Raw, parts: Option<Parts>) -> [Option<Raw>; M] {
        let gradients = Vec::gradients(outer, parts);
        gradients
            .try_into()
            .expect("there is a gradient slot for each part")
    }
}

/// Runs an operation on tensors that are all on `flex`.
///
/// # Panics
/// If inputs are tracked and the operation is not differentiable.
pub(crate) fn apply<O: Fused<N>, const N: usize>(
    operation: O,
    inputs: [DispatchTensor; N],
) -> Vec<DispatchTensor> {
    <Dispatch as FusedOps>::fused::<O, N>(Inputs(inputs.into()), operation)
}

/// The only operation that Burn dispatches to this crate: any [`Fused`] one.
#[backend_extension(Flex, Autodiff)]
trait FusedOps: Backend {
    fn fused<O: Fused<N>, const N: usize>(
        #[extension_type] inputs: Inputs<Self>,
        operation: O,
    ) -> Vec<FloatTensor<Self>>;
}

impl FusedOps for Flex {
    fn fused<O: Fused<N>, const N: usize>(inputs: Inputs<Self>, operation: O) -> Vec<Raw> {
        operation.forward(inputs.into_array()).0.into_vec()
    }
}

impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
    fn fused<O: Fused<N>, const N: usize>(
        inputs: Inputs<Self>,
        operation: O,
    ) -> Vec<FloatTensor<Self>> {
        assert!(O::DIFFERENTIABLE, "this operation has no gradient");
        let mut index = 0;
        let inputs = inputs.into_array::<N>().map(|input| {
            let data = O::DATA.contains(&index);
            index += 1;
            // A node is made only where there is one to be left out.
            match data && input.is_tracked() {
                true => FloatTensor::<Self>::new(input.into_primitive()).into_parts(),
                false => input.into_parts(),
            }
        });
        let (values, guards) = unzipped(inputs);
        let (outputs, saved) = operation.forward(values);
        let (value, parts) = outputs.node();
        let state = (saved, parts.clone());
        let operation = Node::<O>(PhantomData).prepare::<C>(guards);
        let node = match operation.compute_bound().stateful() {
            OpsKind::Tracked(operation) => operation.finish(state, value),
            OpsKind::UnTracked(operation) => {
                drop(state);
                operation.finish(value)
            }
        };
        match parts {
            None => vec![node],
            Some(parts) => parts.of_node::<C>(&node),
        }
    }
}

/// Both halves, without a copy: a tensor's layout lies on the heap.
fn unzipped<const N: usize>(pairs: [(Raw, NodeGuard); N]) -> ([Raw; N], [NodeGuard; N]) {
    let mut guards = [const { None }; N];
    let mut places = guards.iter_mut();
    let values = pairs.map(|(value, guard)| {
        if let Some(place) = places.next() {
            *place = Some(guard);
        }
        value
    });
    (
        values,
        guards.map(|guard| guard.expect("one for each value")),
    )
}

/// The backward step of an operation.
struct Node<O>(PhantomData<O>);

impl<O> fmt::Debug for Node<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

impl<O: Fused<N>, const N: usize> Backward<Flex, N> for Node<O> {
    type State = (O::Saved, Option<Parts>);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (saved, parts) = ops.state;
        let outer = O::Outputs::gradients(grads.consume::<Flex>(&ops.node), parts);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let gradients = O::backward(saved, outer, wanted);
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(node) = parent {
                let gradient = gradient.expect("each wanted input must get a gradient");
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}

/// The inputs of an operation on their way through Burn's dispatch.
struct Inputs<B: Backend>(Vec<FloatTensor<B>>);

impl<B: Backend> Inputs<B> {
    fn into_array<const N: usize>(self) -> [FloatTensor<B>; N] {
        let array = self.0.try_into();
        array.unwrap_or_else(|_| unreachable!("`apply` takes the same number of inputs"))
    }
}

impl<B: Backend> ExtensionType<B> for Inputs<B> {
    type Target = Inputs<Dispatch>;

    fn map_to_dispatch<F>(self, map_kind: F, autodiff: DispatchAutodiffContext) -> Self::Target
    where
        F: Fn(BackendTensor<B>) -> DispatchTensorKind,
    {
        let dispatched = |tensor| DispatchTensor {
            kind: map_kind(BackendTensor::Float(tensor)),
            autodiff,
        };
        Inputs(self.0.into_iter().map(dispatched).collect())
    }

    fn map_from_dispatch<F>(target: Self::Target, unwrap_kind: F) -> Self
    where
        F: Fn(DispatchTensor) -> BackendTensor<B>,
    {
        let tensors = target.0.into_iter();
        Self(tensors.map(|tensor| unwrap_kind(tensor).float()).collect())
    }

    fn routing_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
        target.0.first()
    }

    fn routing_float_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
        target.0.first()
    }

    fn autodiff_context(target: &Self::Target) -> DispatchAutodiffContext {
        let contexts = target.0.iter().map(|tensor| tensor.autodiff);
        contexts.fold(DispatchAutodiffContext::Disabled, |all, context| {
            all.merge(context)
        })
    }
}
