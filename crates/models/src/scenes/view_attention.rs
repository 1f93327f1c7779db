//! Which views of the context a target looks at.

use super::{Views, repeated};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Tensor, activation::softmax},
};
use mnemora_memory::{Count, Initializer};

/// Numbers of a head's keys.
const KEY: usize = 16;

/// Attention of each target i to the views j of the context, by their queries, for each head (Kim et al. 2019, attentive
/// neural processes):
///
/// ```text
/// a_ij = softmax_j(ask(v_i) . key(v_j) / sqrt(d))        r_i = sum_j a_ij M(v_j, f_j)
/// ```
///
/// A sum over all views does not depend on the target; this lets it look at the views from about where it is seen.
#[derive(Module, Debug)]
pub struct ViewAttention {
    /// From the query of a target to what each head asks for.
    pub ask: Linear,
    /// From the query of a view to the key of each head.
    pub key: Linear,
    heads: usize,
}

/// The views of a context, as attention needs them.
#[derive(Clone, Debug)]
pub struct SeenViews {
    /// `[scenes, views, channels * height * width]`
    maps: Tensor<3>,
    /// `[scenes, views, heads, key]`
    keys: Tensor<4>,
}

impl SeenViews {
    /// As often as `times` for each scene.
    pub(super) fn repeated(&self, times: usize) -> Self {
        Self {
            maps: repeated(self.maps.clone(), times),
            keys: repeated(self.keys.clone(), times),
        }
    }
}

impl ViewAttention {
    /// For queries of `query` numbers.
    pub(super) fn new(query: usize, heads: usize, init: &mut Initializer) -> Self {
        Self {
            ask: init.linear(query, heads * KEY),
            key: init.linear(query, heads * KEY),
            heads,
        }
    }

    pub(super) fn heads(&self) -> usize {
        self.heads
    }

    /// Queries of zeros for `rows` rows.
    pub(super) fn no_queries(&self, rows: usize) -> Tensor<2> {
        let weight = self.ask.weight.val();
        Tensor::zeros([rows, weight.dims()[0]], &weight.device())
    }

    /// Numbers kept for a target, with representations of `size` numbers.
    pub(super) fn kept(&self, views: usize, size: usize) -> Count {
        Count::from(self.heads * (2 * KEY + 3 * views + size))
    }

    /// What `maps`, `[scenes * each, channels, height, width]`, show of `views`.
    pub fn see(&self, maps: Tensor<4>, views: &Views) -> SeenViews {
        let (scenes, each) = (views.scenes(), views.each);
        let maps: Tensor<2> = maps.flatten(1, 3);
        let size = maps.dims()[1];
        let keys = self.key.forward(views.queries.clone());
        SeenViews {
            maps: maps.reshape([scenes, each, size]),
            keys: keys.reshape([scenes, each, self.heads, KEY]),
        }
    }

    /// What each query is shown, one head after the other: `[scenes * each, heads * channels, height, width]` of maps of
    /// `[channels, height, width]`.
    ///
    /// # Shapes
    /// - `queries`: `[scenes * each, query]`, those of one scene after those of another
    pub fn look(&self, seen: &SeenViews, queries: Tensor<2>, maps: [usize; 3]) -> Tensor<4> {
        let [scenes, views, heads, _] = seen.keys.dims();
        let [channels, height, width] = maps;
        let rows = queries.dims()[0];
        let each = rows / scenes;
        let asked = self.ask.forward(queries);
        let asked = asked.reshape([scenes, each, heads, KEY]).swap_dims(1, 2);
        let keys = seen.keys.clone().permute([0, 2, 3, 1]);
        let likeness = asked.matmul(keys).mul_scalar(1.0 / (KEY as f64).sqrt());
        // [scenes, each, heads, views]
        let weights = softmax(likeness, 3).swap_dims(1, 2);
        let weights = weights.reshape([scenes, each * heads, views]);
        let shown = weights.matmul(seen.maps.clone());
        shown.reshape([rows, heads * channels, height, width])
    }
}
