//! Bundles of tensors: what goes from step to step, and all that is done to it as a whole.

use burn::tensor::{Bool, Gradients, Int, Tensor};
use std::{any::Any, collections::VecDeque, fmt::Debug, iter, ops::Range};

/// A bundle of tensors, the batch in dimension 0 of each: a state, the features of a frame.
///
/// One visit of all tensors ([`map_tensors`](Self::map_tensors)) serves all that is done to a bundle
/// as a whole: taking it off a graph, making leaves of it, picking rows of the batch.
///
/// How many rows a first-in-first-out store has filled is the same for the whole batch, so a row
/// can be picked but not emptied there; every other state of this crate can also be mixed with
/// another, row by row ([`replace`](Self::replace)).
pub trait Bundle: Clone + Send + Debug {
    /// The bundle with every tensor mapped. Bundles of one type that have the same parts filled are
    /// visited in the same order.
    ///
    /// What a state has prepared from parameters (the weights of [`LstmState`](crate::LstmState))
    /// is none of its tensors. Unless the mapper [keeps the graph](TensorMapper::keeps_graph) it is
    /// let go, and the next step prepares it again from the module that makes it.
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self;

    /// Off the graph, still on the autodiff device: back-propagation ends here.
    fn detach(self) -> Self {
        self.map_tensors(&mut Detach)
    }

    /// Off the graph and off the autodiff device.
    fn inner(self) -> Self {
        self.map_tensors(&mut Inner)
    }

    /// Leaves of a new graph, on the autodiff device.
    fn leaf(self) -> Self {
        self.map_tensors(&mut Leaf)
    }

    /// What a backward pass gave to the [leaves](Self::leaf) that the bundle consists of.
    fn gradients(&self, gradients: &Gradients) -> BundleGradients {
        let mut read = Read(gradients, Vec::new());
        self.clone().map_tensors(&mut read);
        BundleGradients(read.1)
    }

    /// `sum(bundle * gradients)`, `[1]`: the number whose gradient for this bundle is `gradients`.
    /// From it a backward pass goes on where another one ended. `None` if there is nothing to go on
    /// with.
    ///
    /// # Panics
    /// If the gradients are those of a bundle with other parts filled.
    fn dot(self, gradients: BundleGradients) -> Option<Tensor<1>> {
        let mut pairs = Pairs {
            left: gradients.0.into(),
            tensors: Vec::new(),
            gradients: Vec::new(),
        };
        self.map_tensors(&mut pairs);
        assert!(pairs.left.is_empty(), "gradients of a larger bundle");
        if pairs.tensors.is_empty() {
            return None;
        }
        let gradients = Tensor::from_inner(Tensor::cat(pairs.gradients, 0));
        Some((Tensor::cat(pairs.tensors, 0) * gradients).sum())
    }

    /// Rows of several bundles in order, that have the same parts filled.
    ///
    /// # Panics
    /// If there is no bundle.
    fn concatenate(bundles: Vec<Self>) -> Self {
        let mut bundles = bundles.into_iter();
        let first = bundles.next().expect("a bundle at least");
        let rest = bundles.map(|bundle| {
            let mut parts = Parts::default();
            bundle.map_tensors(&mut parts);
            parts.0
        });
        let rest = rest.collect();
        first.map_tensors(&mut Concatenate(rest))
    }

    /// The rows `rows`, `[count]`, of the batch, in their order; one may come twice or not at all.
    fn select(self, rows: &Tensor<1, Int>) -> Self {
        self.map_tensors(&mut Select(rows))
    }

    /// The rows of the batch within `range`, in their order.
    ///
    /// Sequences that end leave the batch so: sorted by length, the longest first, those that are over
    /// are its last rows.
    fn rows(self, range: Range<usize>) -> Self {
        self.map_tensors(&mut Rows(range))
    }

    /// The bundle with the rows of the batch where `rows`, `[batch]`, is true taken from `other`.
    ///
    /// A state starts again where an episode has ended: `state.replace(&ended,
    /// core.initial_state(batch, &device))`. A sequence that is shorter than its batch keeps its
    /// state: `next.replace(&over, state)`.
    ///
    /// # Panics
    /// If the two have other parts filled, or shapes differ.
    fn replace(self, rows: &Tensor<1, Bool>, other: Self) -> Self {
        let mut others = Others(VecDeque::new());
        other.map_tensors(&mut others);
        let mut replace = Replace {
            rows,
            others: others.0,
        };
        let replaced = self.map_tensors(&mut replace);
        assert!(replace.others.is_empty(), "rows of a larger bundle");
        replaced
    }
}

/// What is done to each tensor of a [`Bundle`].
pub trait TensorMapper {
    /// `[batch, ..]`
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D>;

    /// Indices, `[batch, ..]`; they stay what they are unless it is said otherwise.
    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor
    }

    /// Whether what comes out is on the graph of what went in, so that what was prepared from
    /// parameters is still of use.
    fn keeps_graph(&self) -> bool {
        false
    }
}

/// Gradients of a [`Bundle`] in the order of a visit, flattened, off the autodiff device; `None`
/// for a tensor on which nothing depended.
#[derive(Clone, Debug)]
pub struct BundleGradients(Vec<Option<Tensor<1>>>);

struct Detach;

impl TensorMapper for Detach {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.detach()
    }
}

struct Inner;

impl TensorMapper for Inner {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.inner()
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor.inner()
    }
}

struct Leaf;

impl TensorMapper for Leaf {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        Tensor::from_inner(tensor.inner()).require_grad()
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        Tensor::from_inner(tensor)
    }
}

struct Read<'a>(&'a Gradients, Vec<Option<Tensor<1>>>);

impl TensorMapper for Read<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let gradient = tensor.grad(self.0);
        self.1
            .push(gradient.map(|gradient| gradient.flatten(0, D - 1)));
        tensor
    }
}

/// Tensors with their gradients, where there is one.
struct Pairs {
    left: VecDeque<Option<Tensor<1>>>,
    tensors: Vec<Tensor<1>>,
    gradients: Vec<Tensor<1>>,
}

impl TensorMapper for Pairs {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let gradient = self.left.pop_front();
        let gradient = gradient.expect("gradients of a smaller bundle");
        if let Some(gradient) = gradient
            && tensor.is_tracked()
        {
            self.tensors.push(tensor.clone().flatten(0, D - 1));
            self.gradients.push(gradient);
        }
        tensor
    }
}

/// The tensors of a bundle in the order of a visit, each a `Tensor<D>` or `Tensor<D, Int>`.
#[derive(Default)]
struct Parts(VecDeque<Box<dyn Any>>);

impl TensorMapper for Parts {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        self.0.push_back(Box::new(tensor.clone()));
        tensor
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        self.0.push_back(Box::new(tensor.clone()));
        tensor
    }
}

/// What the bundles that follow have left.
struct Concatenate(Vec<VecDeque<Box<dyn Any>>>);

impl Concatenate {
    /// The next part of each bundle that follows.
    fn next<T: 'static>(&mut self) -> impl Iterator<Item = T> {
        self.0.iter_mut().map(|parts| {
            let part = parts.pop_front().and_then(|part| part.downcast().ok());
            *part.expect("bundles with the same parts filled")
        })
    }
}

impl TensorMapper for Concatenate {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        if self.0.is_empty() {
            return tensor;
        }
        Tensor::cat(iter::once(tensor).chain(self.next()).collect(), 0)
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        if self.0.is_empty() {
            return tensor;
        }
        Tensor::cat(iter::once(tensor).chain(self.next()).collect(), 0)
    }
}

struct Select<'a>(&'a Tensor<1, Int>);

impl TensorMapper for Select<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.select(0, self.0.clone())
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor.select(0, self.0.clone())
    }

    fn keeps_graph(&self) -> bool {
        true
    }
}

struct Rows(Range<usize>);

impl TensorMapper for Rows {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.narrow(0, self.0.start, self.0.len())
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor.narrow(0, self.0.start, self.0.len())
    }

    fn keeps_graph(&self) -> bool {
        true
    }
}

/// A tensor of any number of dimensions, `[batch, width]`.
enum Other {
    Float(Tensor<2>),
    Int(Tensor<2, Int>),
}

/// The tensors of a bundle, in the order of a visit.
struct Others(VecDeque<Other>);

impl TensorMapper for Others {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let shape = flat(tensor.dims());
        self.0
            .push_back(Other::Float(tensor.clone().reshape(shape)));
        tensor
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        let shape = flat(tensor.dims());
        self.0.push_back(Other::Int(tensor.clone().reshape(shape)));
        tensor
    }
}

/// `[batch, all else]`
fn flat<const D: usize>(shape: [usize; D]) -> [usize; 2] {
    [shape[0], shape[1..].iter().product()]
}

struct Replace<'a> {
    rows: &'a Tensor<1, Bool>,
    others: VecDeque<Other>,
}

impl Replace<'_> {
    fn mask(&self, shape: [usize; 2]) -> Tensor<2, Bool> {
        self.rows.clone().unsqueeze_dim::<2>(1).expand(shape)
    }
}

impl TensorMapper for Replace<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let shape = tensor.dims();
        let Some(Other::Float(other)) = self.others.pop_front() else {
            panic!("rows of a bundle with other parts filled");
        };
        assert_eq!(flat(shape), other.dims(), "shapes of the two bundles");
        let own = tensor.reshape(flat(shape));
        own.mask_where(self.mask(flat(shape)), other).reshape(shape)
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        let shape = tensor.dims();
        let Some(Other::Int(other)) = self.others.pop_front() else {
            panic!("rows of a bundle with other parts filled");
        };
        assert_eq!(flat(shape), other.dims(), "shapes of the two bundles");
        let own = tensor.reshape(flat(shape));
        own.mask_where(self.mask(flat(shape)), other).reshape(shape)
    }

    fn keeps_graph(&self) -> bool {
        true
    }
}

impl<const D: usize> Bundle for Tensor<D> {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        mapper.float(self)
    }
}

impl<const D: usize> Bundle for Tensor<D, Int> {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        mapper.int(self)
    }
}

impl<B: Bundle> Bundle for Option<B> {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        self.map(|part| part.map_tensors(mapper))
    }
}

impl<B: Bundle> Bundle for Vec<B> {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        let parts = self.into_iter();
        parts.map(|part| part.map_tensors(mapper)).collect()
    }
}
