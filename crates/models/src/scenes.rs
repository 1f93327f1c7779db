//! Models of scenes: what does a scene look like from a view that was not seen?
//!
//! A model sees some views of a scene, the context, each a frame with its query: the time at which it was seen, or the
//! viewpoint. It is asked for the frames of other queries, the targets. The consistent GQN (Kumar et al. 2018, cgqn)
//! draws one latent scene from the context and renders any number of queries from it; the GQN (Eslami et al. 2018)
//! draws a latent for every query, so that its answers may contradict each other.
//!
//! If the views are moments of a story, predictors of video answer, too: from the first frames, one frame after the other
//! ([`Video`]) or one state after the other ([`Sssm`]).
//!
//! | file | contents |
//! | --- | --- |
//! | `any.rs` | [`AnyScenes`]: what others need of a model of scenes |
//! | `cgqn.rs` | [`Cgqn`], its settings, the bound, samples |
//! | `gqn.rs` | [`Gqn`], the GQN in its original form |
//! | `representation.rs`, `view_net.rs` | from a frame and its query to maps: the networks of cgqn and of the GQN |
//! | `view_attention.rs` | which views of the context a target looks at |
//! | `conv_draw.rs` | prior and posterior of the latent scene |
//! | `renderer.rs` | from a latent scene and a query to a frame |
//! | `map_lstm.rs` | the convolutional LSTM that all share |
//! | `story.rs` | frames in the order of time |
//! | `video.rs`, `video/` | SV2P and CDNA, which move the pixels of the frame before |
//! | `sssm.rs`, `sssm/` | the stochastic state-space model |

mod any;
mod cgqn;
mod conv_draw;
mod gqn;
mod map_lstm;
mod renderer;
mod representation;
mod sssm;
mod story;
mod video;
mod view_attention;
mod view_net;

pub use any::{AnyScenes, Known, Learned, Learning};
pub use cgqn::{Cgqn, CgqnConfig, KnownScene, Latents};
pub use conv_draw::{Beliefs, ConvDraw, DrawNet, Drawing, Pass};
pub use gqn::{Generator, Gqn, GqnConfig, GqnStep, Inference, Patches};
pub use map_lstm::{MapLstm, MapState};
pub use renderer::{RenderStep, Renderer};
pub use representation::Representation;
pub use sssm::{BeliefNet, FrameDrawer, FrameReader, Sssm, SssmConfig, Transition};
pub use story::Beginning;
pub use video::{
    CdnaConfig, LatentTower, MapNorm, Movement, NormedLstm, Predictor, Sv2pConfig, Video,
    normalised, put_together,
};
pub use view_attention::{SeenViews, ViewAttention};
pub use view_net::{NetworkName, SceneNet, SceneNetName, ViewNet};

use crate::visual::Kernel;
use burn::tensor::Tensor;

/// The convolution by which predictors of stories halve the rows and columns of maps.
const HALVE: Kernel = Kernel::new(3, 2, 1);

/// Views of a batch of scenes, as many of each scene.
#[derive(Clone, Debug)]
pub struct Views {
    /// `[scenes * each, channels, height, width]`, in [0, 1], the views of one scene after those of another.
    pub frames: Tensor<4>,
    /// `[scenes * each, query]`
    pub queries: Tensor<2>,
    /// Views of a scene, at least 1.
    pub each: usize,
}

impl Views {
    /// Number of scenes.
    pub fn scenes(&self) -> usize {
        self.queries.dims()[0] / self.each
    }

    /// The same views, as scenes of one view each.
    pub fn apart(&self) -> Self {
        Self {
            each: 1,
            ..self.clone()
        }
    }

    /// The first `count` views of each scene.
    pub fn first(&self, count: usize) -> Self {
        if count >= self.each {
            return self.clone();
        }
        let scenes = self.scenes();
        let [_, channels, height, width] = self.frames.dims();
        let query = self.queries.dims()[1];
        let frames = self
            .frames
            .clone()
            .reshape([scenes, self.each, channels * height * width]);
        let queries = self.queries.clone().reshape([scenes, self.each, query]);
        Self {
            frames: frames
                .narrow(1, 0, count)
                .reshape([scenes * count, channels, height, width]),
            queries: queries.narrow(1, 0, count).reshape([scenes * count, query]),
            each: count,
        }
    }
}

/// The parts of the bound of a batch of scenes.
#[derive(Clone, Debug)]
pub struct SceneBound {
    /// `[scenes, targets]`: squared error of the rendered frame, summed over its numbers.
    pub squared_error: Tensor<2>,
    /// `[scenes]`: KL of the posterior from the prior, summed over all latents of a scene, in nats.
    pub kl: Tensor<1>,
    /// `[scenes * targets, channels, height, width]`: the rendered targets.
    pub frames: Tensor<4>,
}

impl SceneBound {
    /// Of rendered targets and the KL of each scene.
    fn of(frames: Tensor<4>, targets: &Views, kl: Tensor<1>) -> Self {
        let errors = (frames.clone() - targets.frames.clone()).square();
        let errors = errors.flatten::<2>(1, 3).sum_dim(1);
        Self {
            squared_error: errors.reshape([targets.scenes(), targets.each]),
            kl,
            frames,
        }
    }

    /// The bound of each scene in nats, `[scenes]`, at a variance of the pixels, without the Gaussian's constant
    /// `-1/2 log(2 pi variance)` for each number: `-sum error^2 / (2 variance) - KL`.
    pub fn without_constant(&self, variance: f64) -> Tensor<1> {
        let errors = self.squared_error.clone().sum_dim(1).squeeze_dim::<1>(1);
        errors.mul_scalar(-0.5 / variance) - self.kl.clone()
    }
}

/// Repeats each row `times` times, one after another.
fn repeated<const D: usize>(rows: Tensor<D>, times: usize) -> Tensor<D> {
    if times == 1 {
        return rows;
    }
    let mut shape = rows.dims();
    let size: usize = shape[1..].iter().product();
    let count = shape[0];
    shape[0] *= times;
    let rows = rows.reshape([count, 1, size]).repeat_dim(1, times);
    rows.reshape(shape)
}
