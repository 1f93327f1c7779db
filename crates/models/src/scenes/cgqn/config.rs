//! Sizes and choices of a [`Cgqn`], and how it is built from them.

use super::{Cgqn, Latents};
use crate::{
    ImageShape, ModelError,
    mlp::{Activation, Mlp},
    scenes::{
        SceneNet, SceneNetName,
        conv_draw::{ConvDraw, DrawSizes},
        renderer::{RenderSizes, Renderer},
        representation::SHRUNK,
        view_attention::ViewAttention,
    },
    visual::{Filter, Kernel},
};
use mnemora_memory::Initializer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Layers of the network that reads queries.
const QUERY_LAYERS: usize = 2;
/// Most of the waves of a query: the last, of 2^15 half turns, is already coarse in single precision.
const WAVES: usize = 16;

/// Sizes and choices of a [`Cgqn`]; the defaults are those of the travelling salesman (cgqn, appendix B).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CgqnConfig {
    /// Steps of prior, posterior and renderer, each with its own part of the latent (`nt`).
    pub steps: usize,
    /// Channels of each part of the latent (`nf_z`).
    pub latent: usize,
    /// Whether a channel of a latent is a single number, which a linear map spreads over the pixels of the LSTMs' maps; otherwise
    /// each pixel has one.
    pub single_latents: bool,
    /// The representation network.
    pub network: SceneNetName,
    /// Channels of its four layers; the last number is that of a representation. The networks of the GQN read the last two
    /// only: the third for the tower's narrow layers, the fourth for the representation.
    pub representation: [usize; 4],
    /// Channels of the LSTMs (`nf_to_hidden`).
    pub hidden: usize,
    /// Channels that prior and posterior make of a representation (`nf_enc`).
    pub encoded: usize,
    /// Channels of the renderer's canvas (`nf_to_obs`).
    pub canvas: usize,
    /// Channels that the renderer makes of its canvas (`nf_dec`).
    pub decoded: usize,
    /// Rows and columns of the LSTMs' kernels.
    pub kernel: usize,
    /// By how much the LSTMs' maps are smaller than those of representation and canvas, which have a quarter of the
    /// frame's rows and columns (`stride_to_hidden`, `stride_to_obs`).
    pub stride: usize,
    /// Whether all steps have the same weights.
    pub shared: bool,
    /// Whether the posterior sees the prior's state.
    pub posterior_sees_prior: bool,
    /// Whether the posterior network outputs the difference from the prior's mean and log variance, as in NVAE (Vahdat &
    /// Kautz 2020), not mean and log variance themselves.
    pub posterior_relative: bool,
    /// Whether the renderer sees the context's representation, too, not the latents alone.
    pub renderer_sees_context: bool,
    /// Heads with which each target looks at the views of the context, if the renderer sees it: it is then shown what they
    /// find, not the sum of all views; 0 for none. They look at the maps of the network `pool` before it averages them.
    pub attention: usize,
    /// Whether prior and posterior look at the views of the context, too, with as many heads of their own. They are given what
    /// these find beside the sum. The heads learn what to ask for; if each target has its own latent, they ask with its query.
    pub latents_look: bool,
    /// Whether the renderer sees all parts of the latent at each step.
    pub all_latents: bool,
    /// Whether a sigmoid bounds the pixels.
    pub squashed: bool,
    /// How many of the targets the posterior sees at most; 0 for all.
    pub posterior_targets: usize,
    /// If not 0, training draws for each batch how many it sees, from this number to the most.
    pub posterior_least: usize,
    /// Sines and cosines that are joined to each number x of a query, for all networks: of pi 2^j x for j below this, as in
    /// NeRF (Mildenhall et al. 2020); 0 for none.
    pub query_waves: usize,
    /// Units of a network of two layers that reads each query first, for all others; 0 for none.
    pub query_units: usize,
    /// Whether a representation of a single pixel is spread over the maps by a transposed convolution, with weights of its
    /// own for each pixel; otherwise it is the same everywhere.
    pub spread: bool,
    /// Whether queries scale and shift the maps of the plain representation network, as in FiLM (Perez et al. 2018).
    pub modulated: bool,
}

impl Default for CgqnConfig {
    fn default() -> Self {
        Self {
            steps: 4,
            latent: 3,
            single_latents: false,
            network: SceneNetName::Plain,
            representation: [8, 16, 32, 32],
            hidden: 64,
            encoded: 128,
            canvas: 128,
            decoded: 64,
            kernel: 5,
            stride: 2,
            shared: true,
            posterior_sees_prior: true,
            posterior_relative: false,
            renderer_sees_context: false,
            attention: 0,
            latents_look: false,
            all_latents: false,
            squashed: false,
            posterior_targets: 0,
            posterior_least: 0,
            query_waves: 0,
            query_units: 0,
            spread: false,
            modulated: false,
        }
    }
}

impl CgqnConfig {
    /// Builds the model for frames of a shape and queries of `query` numbers.
    ///
    /// # Errors
    /// If a size is 0, the kernel is even, queries have more than 16 waves, the posterior sees more targets at least than at
    /// most, a frame's sides are not multiples of `4 * stride`, or the representation network does not fit them. If there is
    /// `attention` but the renderer does not see the context, if `latents_look` without attention, if `spread` though
    /// representations are maps, or if `modulated` with a network other than the plain one.
    pub fn init(
        &self,
        latents: Latents,
        frame: ImageShape,
        query: usize,
        init: &mut Initializer,
    ) -> Result<Cgqn, ModelError> {
        ModelError::require_positive(&[
            ("steps", self.steps),
            ("latent", self.latent),
            (
                "representation",
                self.representation.into_iter().min().unwrap_or(0),
            ),
            ("hidden", self.hidden),
            ("encoded", self.encoded),
            ("canvas", self.canvas),
            ("decoded", self.decoded),
            ("stride", self.stride),
        ])?;
        if self.kernel.is_multiple_of(2) {
            return Err(ModelError::Even {
                key: "kernel",
                value: self.kernel,
            });
        }
        if self.query_waves > WAVES {
            return Err(ModelError::QueryWaves {
                waves: self.query_waves,
                most: WAVES,
            });
        }
        let side = SHRUNK * self.stride;
        let ImageShape {
            channels,
            height,
            width,
        } = frame;
        if height == 0 || width == 0 || !height.is_multiple_of(side) || !width.is_multiple_of(side)
        {
            return Err(ModelError::SceneFrame {
                height,
                width,
                side,
            });
        }
        if self.attention > 0 && !self.renderer_sees_context {
            return Err(ModelError::UnseenContext {
                heads: self.attention,
            });
        }
        if self.latents_look && self.attention == 0 {
            return Err(ModelError::NoHeads);
        }
        if self.posterior_targets > 0 && self.posterior_least > self.posterior_targets {
            return Err(ModelError::PosteriorTargets {
                least: self.posterior_least,
                most: self.posterior_targets,
            });
        }
        let sets = if self.shared { 1 } else { self.steps };
        let [.., representation] = self.representation;
        let context = if self.renderer_sees_context {
            self.encoded
        } else {
            0
        };
        let asked = query * (1 + 2 * self.query_waves);
        let (layers, units) = match self.query_units {
            0 => (0, asked),
            units => (QUERY_LAYERS, units),
        };
        let reader = Mlp::new(asked, layers, units, Activation::Relu, init);
        let query = units;
        let network = SceneNet::new(
            self.network,
            frame,
            query,
            self.representation,
            self.modulated,
            init,
        )?;
        if self.spread && !network.is_pooled() {
            return Err(ModelError::NotPooled);
        }
        let spread = self.spread.then(|| {
            let pixels = height / SHRUNK * (width / SHRUNK);
            init.linear_without_bias(representation, representation * pixels)
        });
        Ok(Cgqn {
            query: reader,
            representation: network,
            spread,
            draw: (latents != Latents::None).then(|| {
                let heads = if self.latents_look { self.attention } else { 0 };
                let sizes = DrawSizes {
                    context: (1 + heads) * representation,
                    representation,
                    encoded: self.encoded,
                    hidden: self.hidden,
                    latent: self.latent,
                    kernel: self.kernel,
                    stride: self.stride,
                    sets,
                    posterior_sees_prior: self.posterior_sees_prior,
                    posterior_relative: self.posterior_relative,
                    spread_over: self.single_latents.then(|| height / side * (width / side)),
                };
                ConvDraw::new(&sizes, init)
            }),
            renderer: Renderer::new(
                &RenderSizes {
                    frame: channels,
                    query,
                    latent: self.latent,
                    context,
                    hidden: self.hidden,
                    canvas: self.canvas,
                    decoded: self.decoded,
                    kernel: self.kernel,
                    stride: self.stride,
                    sets,
                    steps: self.steps,
                    all_latents: self.all_latents,
                    squashed: self.squashed,
                },
                init,
            ),
            attention: (self.attention > 0)
                .then(|| ViewAttention::new(query, self.attention, init)),
            latents_look: (self.latents_look && latents != Latents::None)
                .then(|| ViewAttention::new(query, self.attention, init)),
            context: self.renderer_sees_context.then(|| {
                Filter::new(
                    [self.attention.max(1) * representation, context],
                    Kernel::patches(self.stride),
                    init,
                )
            }),
            steps: self.steps,
            stride: self.stride,
            latent: self.latent,
            consistent: latents == Latents::Consistent,
            posterior_targets: self.posterior_targets,
            posterior_least: self.posterior_least,
            query_waves: self.query_waves,
            asked,
            channels,
            height,
            width,
        })
    }
}
