//! Bundles of tensors, such as a state, and operations on all tensors of a bundle.

use burn::tensor::{Bool, Gradients, Int, Tensor};
use std::{any::Any, collections::VecDeque, fmt::Debug, iter, ops::Range};

/// Implements [`Bundle`] for a struct from its fields, or for an enum from its variants.
///
/// ```
/// use burn::tensor::Tensor;
/// use mnemora_memory::bundle;
///
/// // A state with a generic part. The field after `;` holds no tensor.
/// #[derive(Clone, Debug)]
/// struct State<C> {
///     core: C,
///     latent: Tensor<2>,
///     finished: bool,
/// }
/// bundle!(State<C> { core, latent; finished });
///
/// #[derive(Clone, Debug)]
/// enum Either {
///     One(Tensor<2>),
///     Two(Tensor<2>, Tensor<3>),
///     Neither,
/// }
/// bundle!(enum Either { One(a), Two(a, b), Neither });
/// ```
///
/// Tensors are visited in the order given, which is also the order in which [gradients](Bundle::gradients) are
/// read and used again.
#[macro_export]
macro_rules! bundle {
    (enum $type:ident { $($variant:ident $(($($part:ident),+))?),+ $(,)? }) => {
        impl $crate::Bundle for $type {
            fn map_tensors(self, mapper: &mut impl $crate::TensorMapper) -> Self {
                match self {
                    $(Self::$variant $(($($part),+))? => {
                        Self::$variant $(($($crate::Bundle::map_tensors($part, mapper)),+))?
                    })+
                }
            }
        }
    };
    ($type:ident $(<$part:ident>)? { $($field:tt),+ $(; $($kept:ident),+)? }) => {
        impl $(<$part: $crate::Bundle>)? $crate::Bundle for $type $(<$part>)? {
            fn map_tensors(self, mapper: &mut impl $crate::TensorMapper) -> Self {
                Self {
                    $($field: $crate::Bundle::map_tensors(self.$field, mapper),)+
                    $($($kept: self.$kept,)+)?
                }
            }
        }
    };
}

/// A bundle of tensors, each with the batch in dimension 0: a state, or the features of a frame.
///
/// One visitor of all tensors ([`map_tensors`](Self::map_tensors)) implements every operation on a whole bundle:
/// detaching it from a graph, making leaves of it, picking rows of the batch.
///
/// The number of filled rows of a first-in-first-out store is the same for the whole batch, so rows of such a
/// state can be picked but not reset. Every other state of this crate can also be mixed with another, row by row
/// ([`replace`](Self::replace)).
pub trait Bundle: Clone + Send + Debug {
    /// Maps every tensor. Bundles of one type with the same parts filled are visited in the same order.
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self;

    /// Detached from the graph but still on the autodiff device: back-propagation ends here.
    fn detach(self) -> Self {
        self.map_tensors(&mut Detach)
    }

    /// Detached from the graph and moved off the autodiff device.
    fn inner(self) -> Self {
        self.map_tensors(&mut Inner)
    }

    /// Moved onto the autodiff device, without gradients.
    fn lift(self) -> Self {
        self.map_tensors(&mut Lift)
    }

    /// Leaves of a new graph, on the autodiff device.
    fn leaf(self) -> Self {
        self.map_tensors(&mut Leaf)
    }

    /// The gradients that a backward pass gave to the [leaves](Self::leaf) of this bundle.
    fn gradients(&self, gradients: &Gradients) -> BundleGradients {
        let mut read = Read(gradients, Vec::new());
        self.clone().map_tensors(&mut read);
        BundleGradients(read.1)
    }

    /// `sum(bundle * gradients)`, `[1]`: the scalar whose gradient with respect to this bundle is `gradients`. A
    /// backward pass from it continues where another one ended. `None` if no tensor has a gradient.
    ///
    /// # Panics
    /// If the gradients belong to a bundle with other parts filled.
    fn dot(self, gradients: BundleGradients) -> Option<Tensor<1>> {
        let mut pairs = Pairs {
            left: gradients.0.into(),
            tensors: Vec::new(),
            gradients: Vec::new(),
        };
        self.map_tensors(&mut pairs);
        assert!(
            pairs.left.is_empty(),
            "the gradients belong to a larger bundle"
        );
        if pairs.tensors.is_empty() {
            return None;
        }
        let gradients = Tensor::from_inner(Tensor::cat(pairs.gradients, 0));
        Some((Tensor::cat(pairs.tensors, 0) * gradients).sum())
    }

    /// Concatenates several bundles with the same parts filled along the batch, in order.
    ///
    /// # Panics
    /// If `bundles` is empty.
    fn concatenate(bundles: Vec<Self>) -> Self {
        let mut bundles = bundles.into_iter();
        let first = bundles.next().expect("there must be at least one bundle");
        let rest = bundles.map(|bundle| {
            let mut parts = Parts::default();
            bundle.map_tensors(&mut parts);
            parts.0
        });
        let rest = rest.collect();
        first.map_tensors(&mut Concatenate(rest))
    }

    /// The rows `rows`, `[count]`, of the batch, in that order. A row may occur several times or not at all.
    fn select(self, rows: &Tensor<1, Int>) -> Self {
        self.map_tensors(&mut Select(rows))
    }

    /// The rows of the batch within `range`, in their order.
    ///
    /// If the batch is sorted by length, the longest first, `rows(0..n)` keeps the `n` sequences that go on.
    fn rows(self, range: Range<usize>) -> Self {
        self.map_tensors(&mut Rows(range))
    }

    /// The bundle, with the rows of the batch where `rows`, `[batch]`, is true taken from `other`.
    ///
    /// To reset a state where an episode has ended: `state.replace(&ended, core.initial_state(batch, &device))`.
    /// To keep the state of a sequence that is shorter than its batch: `next.replace(&over, state)`.
    ///
    /// # Panics
    /// If the two have different parts filled, or different shapes.
    fn replace(self, rows: &Tensor<1, Bool>, other: Self) -> Self {
        let mut others = Others(VecDeque::new());
        other.map_tensors(&mut others);
        let mut replace = Replace {
            rows,
            others: others.0,
        };
        let replaced = self.map_tensors(&mut replace);
        assert!(replace.others.is_empty(), "the other bundle is larger");
        replaced
    }
}

/// A function applied to each tensor of a [`Bundle`].
pub trait TensorMapper {
    /// `[batch, ..]`
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D>;

    /// Indices, `[batch, ..]`; unchanged by default.
    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor
    }

    /// Called by a bundle whose new tensors do not go together, with the reason. A mapper that reads a file keeps it as
    /// an error.
    ///
    /// # Panics
    /// By default.
    fn refuse(&mut self, problem: &str) {
        panic!("{problem}");
    }
}

/// Gradients of a [`Bundle`] in the order of a visit, flattened, off the autodiff device; `None` for a tensor
/// without a gradient.
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

struct Lift;

impl TensorMapper for Lift {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        Tensor::from_inner(tensor)
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        Tensor::from_inner(tensor)
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

/// Tensors with their gradients, if any.
struct Pairs {
    left: VecDeque<Option<Tensor<1>>>,
    tensors: Vec<Tensor<1>>,
    gradients: Vec<Tensor<1>>,
}

impl TensorMapper for Pairs {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let gradient = self.left.pop_front();
        let gradient = gradient.expect("the gradients belong to a smaller bundle");
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

/// The tensors not yet visited of the second and later bundles.
struct Concatenate(Vec<VecDeque<Box<dyn Any>>>);

impl Concatenate {
    /// The next tensor of the second and later bundles.
    fn next<T: 'static>(&mut self) -> impl Iterator<Item = T> {
        self.0.iter_mut().map(|parts| {
            let part = parts.pop_front().and_then(|part| part.downcast().ok());
            *part.expect("the bundles must have the same parts filled")
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
}

struct Rows(Range<usize>);

impl TensorMapper for Rows {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        tensor.narrow(0, self.0.start, self.0.len())
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        tensor.narrow(0, self.0.start, self.0.len())
    }
}

/// A tensor of any number of dimensions, flattened to `[batch, width]`.
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

/// `[batch, product of all other sizes]`
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
            panic!("the other bundle has different parts filled");
        };
        assert_eq!(
            flat(shape),
            other.dims(),
            "the two bundles have different shapes"
        );
        let own = tensor.reshape(flat(shape));
        own.mask_where(self.mask(flat(shape)), other).reshape(shape)
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        let shape = tensor.dims();
        let Some(Other::Int(other)) = self.others.pop_front() else {
            panic!("the other bundle has different parts filled");
        };
        assert_eq!(
            flat(shape),
            other.dims(),
            "the two bundles have different shapes"
        );
        let own = tensor.reshape(flat(shape));
        own.mask_where(self.mask(flat(shape)), other).reshape(shape)
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
