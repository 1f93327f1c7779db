//! The consistent GQN, and the factored GQN with the same networks.

use super::{
    SceneBound, SceneNet, SceneNetName, Views,
    conv_draw::{Beliefs, ConvDraw, DrawSizes},
    renderer::{RenderSizes, Renderer},
    repeated,
    representation::{SHRUNK, summed},
    view_attention::{SeenViews, ViewAttention},
};
use crate::{
    ImageShape, ModelError,
    mlp::{Activation, Mlp},
    visual::{Filter, Kernel},
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};
use mnemora_memory::{Count, Initializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// Layers of the network that reads queries.
const QUERY_LAYERS: usize = 2;
/// Most of the waves of a query: the last, of 2^15 half turns, is already coarse in single precision.
const WAVES: usize = 16;

/// What a scene's latents stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latents {
    /// One latent for the whole scene (cgqn).
    Consistent,
    /// One for each target, as in the GQN.
    Factored,
    /// None: the context alone decides.
    None,
}

/// Sizes and choices of a [`Cgqn`]; the defaults are those of the travelling salesman (cgqn, appendix B).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CgqnConfig {
    /// Steps of prior, posterior and renderer, each with its own part of the latent (`nt`).
    pub steps: usize,
    /// Channels of each part of the latent (`nf_z`).
    pub latent: usize,
    /// The representation network.
    pub network: SceneNetName,
    /// Channels of its layers; the last are those of a representation. In the networks of the GQN these and those before
    /// count, which are those of the tower's narrow layers.
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
    /// Whether the renderer sees the context's representation, too, not the latents alone.
    pub renderer_sees_context: bool,
    /// Heads with which each target looks at the views of the context, if the renderer sees it: it is then shown what they
    /// find, not the sum of all views; 0 for none. They look at the maps of the network `pool` before it averages them.
    pub attention: usize,
    /// Whether the renderer sees all parts of the latent at each step.
    pub all_latents: bool,
    /// Whether a sigmoid bounds the pixels.
    pub squashed: bool,
    /// Targets that the posterior sees; 0 for all.
    pub posterior_targets: usize,
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

/// What is known of some scenes.
#[derive(Clone, Debug)]
pub struct KnownScene {
    /// `r_C`, `[scenes, channels, height / 4, width / 4]`: zeros without a context.
    pub sum: Tensor<4>,
    /// The views of the context, if there are any and targets look at them.
    pub views: Option<SeenViews>,
}

impl KnownScene {
    /// As often as `times` for each scene, for as many samples of it.
    pub fn repeated(&self, times: usize) -> Self {
        Self {
            sum: repeated(self.sum.clone(), times),
            views: self.views.as_ref().map(|views| views.repeated(times)),
        }
    }
}

impl Default for CgqnConfig {
    fn default() -> Self {
        Self {
            steps: 4,
            latent: 3,
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
            renderer_sees_context: false,
            attention: 0,
            all_latents: false,
            squashed: false,
            posterior_targets: 0,
            query_waves: 0,
            query_units: 0,
            spread: false,
            modulated: false,
        }
    }
}

/// The consistent GQN (Kumar et al. 2018).
///
/// ```text
/// r_C = sum_j M(v_j, f_j) over the context,  r_T = sum_j M(v_j, f_j) over the targets
/// z ~ q(z | r_C, r_T), or p(z | r_C) if the targets are not known      (ConvDraw)
/// frame of a query v: the renderer of z and v                           (Renderer),
///     if it sees the context also of r_C, or of what v finds in the context (ViewAttention)
/// bound = sum_i log N(f_i; frame_i, variance) - KL(q || p)
/// ```
///
/// With [`Latents::Factored`] each target is a scene of its own with one target, which is a GQN with these networks.
#[derive(Module, Debug)]
pub struct Cgqn {
    /// From a query and its waves to what all other networks are given of it; without layers they are given the query.
    pub query: Mlp,
    /// `M`
    pub representation: SceneNet,
    /// From a sum of representations of a single pixel to maps, without a bias, so that no views are zeros.
    pub spread: Option<Linear>,
    /// Prior and posterior; none if there are no latents.
    pub draw: Option<ConvDraw>,
    /// From latents and a query to a frame.
    pub renderer: Renderer,
    /// How targets look at the views of the context.
    pub attention: Option<ViewAttention>,
    /// From the context's representation, or what each head finds in it, to what the renderer sees of it.
    pub context: Option<Filter>,
    steps: usize,
    stride: usize,
    latent: usize,
    consistent: bool,
    posterior_targets: usize,
    query_waves: usize,
    /// Numbers of a query with its waves.
    asked: usize,
    channels: usize,
    height: usize,
    width: usize,
}

impl CgqnConfig {
    /// Builds the model for frames of a shape and queries of `query` numbers.
    ///
    /// # Errors
    /// If a size is 0, the kernel is even, queries have more than 16 waves, a frame's sides are not multiples of 8, or the
    /// representation network does not fit.
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
            return Err(ModelError::EvenKernel {
                kernel: self.kernel,
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
                let sizes = DrawSizes {
                    representation,
                    encoded: self.encoded,
                    hidden: self.hidden,
                    latent: self.latent,
                    kernel: self.kernel,
                    stride: self.stride,
                    sets,
                    posterior_sees_prior: self.posterior_sees_prior,
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
            query_waves: self.query_waves,
            asked,
            channels,
            height,
            width,
        })
    }
}

impl Cgqn {
    /// What the latents stand for.
    pub fn latents(&self) -> Latents {
        match (&self.draw, self.consistent) {
            (None, _) => Latents::None,
            (Some(_), true) => Latents::Consistent,
            (Some(_), false) => Latents::Factored,
        }
    }

    /// Rows and columns of the latents.
    fn grid(&self) -> [usize; 2] {
        let side = SHRUNK * self.stride;
        [self.height / side, self.width / side]
    }

    /// The device that the model is on.
    pub fn device(&self) -> Device {
        self.renderer.frame.weight.device()
    }

    /// Numbers of the latent of a scene, or of a target.
    pub fn latent_size(&self) -> usize {
        let [height, width] = self.grid();
        self.steps * self.latent * height * width
    }

    /// Standard normal numbers that a scene with `targets` targets needs.
    pub fn noise_size(&self, targets: usize) -> usize {
        match self.latents() {
            Latents::Consistent => self.latent_size(),
            Latents::Factored => targets * self.latent_size(),
            Latents::None => 0,
        }
    }

    /// Numbers kept for a scene with some views.
    pub fn kept(&self, context: usize, targets: usize) -> Count {
        let [height, width] = self.grid();
        let (pixels, maps) = (self.height * self.width, height * width);
        let beliefs = if self.consistent { 1 } else { targets };
        let drawn = self.draw.as_ref().map(|draw| draw.kept(maps));
        let [channels, rows, columns] = self.maps();
        let looked = self.attention.as_ref();
        let looked = looked.map(|attention| attention.kept(context, channels * rows * columns));
        (self.representation.kept(pixels) + self.query.kept() + self.asked) * (context + targets)
            + looked.unwrap_or(Count::NONE) * targets
            + drawn.unwrap_or(Count::NONE) * (self.steps * beliefs)
            + self.renderer.kept(maps, self.steps) * targets
            + Count::product(&[3 * targets * self.channels, pixels])
    }

    /// What the networks are given of queries.
    fn read(&self, queries: Tensor<2>) -> Tensor<2> {
        self.query.forward(with_waves(queries, self.query_waves))
    }

    fn read_views(&self, views: &Views) -> Views {
        Views {
            queries: self.read(views.queries.clone()),
            ..views.clone()
        }
    }

    /// The sum of the representations of each scene's views. That of a single pixel is the same everywhere.
    fn sum(&self, maps: Tensor<4>, each: usize) -> Tensor<4> {
        let sum = summed(self.representation.representation(maps), each);
        let ([channels, height, width], [scenes, ..]) = (self.maps(), sum.dims());
        let shape = [scenes, channels, height, width];
        match &self.spread {
            Some(spread) => spread.forward(sum.flatten::<2>(1, 3)).reshape(shape),
            None => sum.expand(shape),
        }
    }

    /// Channels, rows and columns of a representation.
    fn maps(&self) -> [usize; 3] {
        [
            self.representation.channels(),
            self.height / SHRUNK,
            self.width / SHRUNK,
        ]
    }

    /// What is known of `scenes` scenes.
    pub fn represent(&self, context: Option<&Views>, scenes: usize) -> KnownScene {
        let [channels, height, width] = self.maps();
        let Some(views) = context else {
            let shape = [scenes, channels, height, width];
            return KnownScene {
                sum: Tensor::zeros(shape, &self.device()),
                views: None,
            };
        };
        let views = self.read_views(views);
        let maps = self.representation.maps(&views);
        let sum = self.sum(maps.clone(), views.each);
        let views = self.attention.as_ref().map(|attention| {
            let rows = maps.dims()[0];
            attention.see(maps.expand([rows, channels, height, width]), &views)
        });
        KnownScene { sum, views }
    }

    /// Context and noise of each latent: of a scene, or of each of its `each` targets.
    fn of_latents(
        &self,
        context: Tensor<4>,
        noise: Tensor<2>,
        each: usize,
    ) -> (Tensor<4>, Tensor<2>) {
        if self.latents() != Latents::Factored {
            return (context, noise);
        }
        let rows = context.dims()[0] * each;
        let noise = noise.reshape([rows, self.latent_size()]);
        (repeated(context, each), noise)
    }

    /// Latents of `rows` rows; `noise` `[rows, latent_size]`.
    fn beliefs(&self, context: Tensor<4>, targets: Option<Tensor<4>>, noise: Tensor<2>) -> Beliefs {
        let rows = context.dims()[0];
        let [height, width] = self.grid();
        let Some(draw) = &self.draw else {
            let shape = [rows, self.latent, height, width];
            let nothing = Tensor::zeros(shape, &context.device());
            return Beliefs {
                latents: vec![nothing; self.steps],
                kl: Vec::new(),
            };
        };
        let size = self.latent * height * width;
        let noise = (0..self.steps).map(|step| noise.clone().narrow(1, step * size, size));
        draw.draw(context, targets, noise.collect())
    }

    /// `context` is the sum of the representations of each row of latents.
    fn render(
        &self,
        beliefs: &Beliefs,
        context: Tensor<4>,
        known: &KnownScene,
        queries: Tensor<2>,
    ) -> Tensor<4> {
        let seen = match (&self.attention, &known.views) {
            (None, _) => context,
            (Some(attention), Some(views)) => attention.look(views, queries.clone(), self.maps()),
            (Some(attention), None) => {
                let [channels, height, width] = self.maps();
                let shape = [
                    context.dims()[0],
                    attention.heads() * channels,
                    height,
                    width,
                ];
                Tensor::zeros(shape, &context.device())
            }
        };
        let of = Kernel::patches(self.stride);
        let seen = self.context.as_ref().map(|encode| encode.forward(seen, of));
        self.renderer.render(&beliefs.latents, seen, queries)
    }

    /// The parts of the bound, with one sample of the posterior.
    ///
    /// # Shapes
    /// - `known`: what is [known](Self::represent) of each scene
    /// - `noise`: standard normal, `[scenes, noise_size(targets)]`
    pub fn bound(&self, known: &KnownScene, targets: &Views, noise: Tensor<2>) -> SceneBound {
        let (scenes, each) = (targets.scenes(), targets.each);
        let (context, noise) = self.of_latents(known.sum.clone(), noise, each);
        let asked = self.read_views(targets);
        let seen = match self.latents() {
            Latents::Consistent => {
                let count = match self.posterior_targets {
                    0 => each,
                    most => most.min(each),
                };
                Some(self.sum(self.representation.maps(&asked.first(count)), count))
            }
            Latents::Factored => Some(self.sum(self.representation.maps(&asked.apart()), 1)),
            Latents::None => None,
        };
        let beliefs = self.beliefs(context.clone(), seen, noise);
        let frames = self.render(&beliefs, context, known, asked.queries);
        let errors = (frames.clone() - targets.frames.clone()).square();
        let squared_error = errors.flatten::<2>(1, 3).sum_dim(1).reshape([scenes, each]);
        let kl = match beliefs.kl.into_iter().reduce(|sum, kl| sum + kl) {
            None => Tensor::zeros([scenes], &frames.device()),
            // With latents of their own, rows are targets.
            Some(kl) if kl.dims()[0] == scenes => kl,
            Some(kl) => kl.reshape([scenes, each]).sum_dim(1).squeeze_dim(1),
        };
        SceneBound {
            squared_error,
            kl,
            frames,
        }
    }

    /// Frames of as many queries of every scene, with latents from the prior: `[queries, channels, height, width]`.
    ///
    /// # Shapes
    /// - `known`: what is [known](Self::represent) of each scene
    /// - `queries`: `[scenes * each, query]`, those of one scene after those of another
    /// - `noise`: standard normal, `[scenes, noise_size(each)]`; a consistent model draws the same scene with the same
    ///   noise, whatever is asked for
    pub fn sample(&self, known: &KnownScene, queries: Tensor<2>, noise: Tensor<2>) -> Tensor<4> {
        let each = queries.dims()[0] / known.sum.dims()[0];
        let (context, noise) = self.of_latents(known.sum.clone(), noise, each);
        let beliefs = self.beliefs(context.clone(), None, noise);
        self.render(&beliefs, context, known, self.read(queries))
    }
}

/// Queries `[rows, n]` with their sines and cosines: `[x, sin(pi x), cos(pi x), sin(2 pi x), cos(2 pi x), sin(4 pi x), ..]`,
/// each of n numbers.
fn with_waves(queries: Tensor<2>, waves: usize) -> Tensor<2> {
    if waves == 0 {
        return queries;
    }
    let mut phase = queries.clone().mul_scalar(PI);
    let mut all = vec![queries];
    for _ in 0..waves {
        all.extend([phase.clone().sin(), phase.clone().cos()]);
        phase = phase.mul_scalar(2.0);
    }
    Tensor::cat(all, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const FRAME: ImageShape = ImageShape {
        channels: 2,
        height: 16,
        width: 8,
    };

    fn config() -> CgqnConfig {
        CgqnConfig {
            steps: 2,
            latent: 2,
            hidden: 4,
            encoded: 3,
            canvas: 5,
            decoded: 3,
            kernel: 3,
            ..CgqnConfig::default()
        }
    }

    fn build(config: &CgqnConfig, latents: Latents) -> Cgqn {
        let rng = ChaCha8Rng::seed_from_u64(1);
        let mut init = Initializer::new(rng, Device::default());
        config.init(latents, FRAME, 3, &mut init).unwrap()
    }

    fn numbers<const D: usize>(shape: [usize; D], phase: f32) -> Tensor<D> {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| (0.7 * i as f32 + phase).sin()).collect();
        Tensor::<1>::from_floats(values.as_slice(), &Device::default()).reshape(shape)
    }

    fn views(scenes: usize, each: usize, phase: f32) -> Views {
        let ImageShape {
            channels,
            height,
            width,
        } = FRAME;
        Views {
            frames: numbers([scenes * each, channels, height, width], phase),
            queries: numbers([scenes * each, 3], phase + 1.0),
            each,
        }
    }

    fn apart(a: Tensor<4>, b: Tensor<4>) -> f32 {
        (a - b).abs().max().into_scalar()
    }

    /// The first targets of a scene do not change when more are asked for: there is one scene.
    #[test]
    fn more_queries_do_not_change_the_scene() {
        for config in [
            config(),
            CgqnConfig {
                shared: false,
                renderer_sees_context: true,
                all_latents: true,
                squashed: true,
                ..config()
            },
            CgqnConfig {
                renderer_sees_context: true,
                attention: 2,
                ..config()
            },
            CgqnConfig {
                network: SceneNetName::Pyramid,
                ..config()
            },
            CgqnConfig {
                network: SceneNetName::Pool,
                query_units: 5,
                ..config()
            },
        ] {
            let model = build(&config, Latents::Consistent);
            let (context, targets) = (views(2, 3, 0.0), views(2, 4, 0.5));
            let noise = numbers([2, model.noise_size(4)], 0.2);
            let known = model.represent(Some(&context), 2);
            let all = model.sample(&known, targets.queries.clone(), noise.clone());
            let few = targets.first(2);
            let some = model.sample(&known, few.queries, noise);
            let [_, channels, height, width] = all.dims();
            let all = all
                .reshape([2, 4, channels, height * width])
                .narrow(1, 0, 2);
            let all = all.reshape([4, channels, height, width]);
            assert!(apart(all, some) < 1e-6);
        }
    }

    /// With a single target both kinds of latents are the same model.
    #[test]
    fn with_one_target_factored_is_consistent() {
        let (context, targets) = (views(2, 2, 0.0), views(2, 1, 0.5));
        let [consistent, factored] = [Latents::Consistent, Latents::Factored].map(|latents| {
            let model = build(&config(), latents);
            let noise = numbers([2, model.noise_size(1)], 0.2);
            model.bound(&model.represent(Some(&context), 2), &targets, noise)
        });
        assert!(apart(consistent.frames, factored.frames) < 1e-6);
        let kl: [Vec<f32>; 2] =
            [consistent.kl, factored.kl].map(|kl| kl.into_data().try_to_vec().unwrap());
        assert_eq!(kl[0], kl[1]);
        assert!(kl[0].iter().all(|kl| *kl > 0.0));
    }

    /// Targets that are alike cost the factored model as often as they are asked for.
    #[test]
    fn factored_latents_are_paid_for_each_target() {
        let model = build(&config(), Latents::Factored);
        let one = views(1, 1, 0.5);
        let three = Views {
            frames: one.frames.clone().repeat_dim(0, 3),
            queries: one.queries.clone().repeat_dim(0, 3),
            each: 3,
        };
        let noise = numbers([1, model.noise_size(1)], 0.2);
        let all = noise.clone().repeat_dim(1, 3);
        let nothing = model.represent(None, 1);
        let one = model.bound(&nothing, &one, noise);
        let three = model.bound(&nothing, &three, all);
        let [one, three]: [f32; 2] = [one.kl, three.kl].map(|kl| kl.into_scalar());
        assert!((three - 3.0 * one).abs() < 1e-4 * three, "{one} {three}");
    }

    #[test]
    fn without_latents_the_context_decides() {
        let model = build(&config(), Latents::None);
        assert_eq!(model.noise_size(3), 0);
        let (context, targets) = (views(2, 2, 0.0), views(2, 3, 0.5));
        let nothing = Tensor::zeros([2, 0], &Device::default());
        let known = model.represent(Some(&context), 2);
        let found = model.bound(&known, &targets, nothing.clone());
        assert_eq!(
            found.kl.into_data().try_to_vec::<f32>().unwrap(),
            [0.0, 0.0]
        );
        let drawn = model.sample(&known, targets.queries, nothing);
        assert!(apart(drawn, found.frames) < 1e-6);
    }

    #[test]
    fn attention_needs_a_renderer_that_sees_the_context() {
        let config = CgqnConfig {
            attention: 2,
            ..config()
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let refused = config.init(Latents::Consistent, FRAME, 3, &mut init);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "model.attention is 2, it must be 0 unless the renderer sees the context (renderer_sees_context)"
        );
    }

    /// `[x, sin(pi x), cos(pi x), sin(2 pi x), cos(2 pi x)]` of two numbers.
    #[test]
    fn waves_are_sines_and_cosines_of_the_query() {
        let queries = Tensor::from_floats([[0.5_f32, -0.25]], &Device::default());
        let found = with_waves(queries, 2).into_data();
        let half = 0.5_f32.sqrt();
        let expected = [0.5, -0.25, 1.0, -half, 0.0, half, 0.0, -1.0, -1.0, 0.0];
        for (found, expected) in found.try_to_vec::<f32>().unwrap().iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
        }
    }

    /// All networks are given the waves: the model is that of the longer queries.
    #[test]
    fn waves_are_part_of_the_query() {
        let noise = |model: &Cgqn| numbers([2, model.noise_size(2)], 0.2);
        let (context, targets) = (views(2, 3, 0.0), views(2, 2, 0.5));
        for query_units in [0, 5] {
            let plain = CgqnConfig {
                query_units,
                ..config()
            };
            let waved = CgqnConfig {
                query_waves: 2,
                ..plain.clone()
            };
            let model = build(&waved, Latents::Consistent);
            let longer = |views: &Views| Views {
                queries: with_waves(views.queries.clone(), 2),
                ..views.clone()
            };
            let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
            let same = plain
                .init(Latents::Consistent, FRAME, 15, &mut init)
                .unwrap();
            let of = |model: &Cgqn, context: &Views, targets: &Views| {
                let known = model.represent(Some(context), 2);
                let drawn = model.sample(&known, targets.queries.clone(), noise(model));
                (model.bound(&known, targets, noise(model)), drawn)
            };
            let (found, drawn) = of(&model, &context, &targets);
            let (expected, expected_drawn) = of(&same, &longer(&context), &longer(&targets));
            assert_eq!(apart(found.frames, expected.frames), 0.0);
            assert_eq!(apart(drawn, expected_drawn), 0.0);
            let kl = [found.kl, expected.kl].map(|kl| kl.into_data().try_to_vec::<f32>().unwrap());
            assert_eq!(kl[0], kl[1]);
        }
    }

    #[test]
    fn waves_too_fine_are_refused() {
        let config = CgqnConfig {
            query_waves: 17,
            ..config()
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let refused = config.init(Latents::Consistent, FRAME, 3, &mut init);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "model.query_waves is 17, it must be at most 16"
        );
    }

    /// The tower keeps pixels apart, pool and pyramid do not.
    #[test]
    fn a_representation_of_one_pixel_is_the_same_everywhere() {
        for (network, same) in [
            (SceneNetName::Plain, false),
            (SceneNetName::Tower, false),
            (SceneNetName::Pool, true),
            (SceneNetName::Pyramid, true),
        ] {
            let config = CgqnConfig {
                network,
                ..config()
            };
            let model = build(&config, Latents::Consistent);
            let known = model.represent(Some(&views(2, 3, 0.0)), 2).sum;
            assert_eq!(known.dims(), model.represent(None, 2).sum.dims());
            let first = known.clone().narrow(2, 0, 1).narrow(3, 0, 1);
            let spread = apart(known.clone(), first.expand(known.dims()));
            assert_eq!(spread == 0.0, same, "{network:?}: {spread}");
        }
    }

    /// Each pixel of the maps has weights of its own for the sum over views.
    #[test]
    fn a_representation_of_one_pixel_is_spread_over_the_maps() {
        let config = CgqnConfig {
            network: SceneNetName::Pool,
            spread: true,
            ..config()
        };
        let model = build(&config, Latents::Consistent);
        let views = views(1, 3, 0.0);
        let pixel = |maps: Tensor<4>| -> Vec<f32> {
            let mean = maps.flatten::<3>(2, 3).mean_dim(2);
            mean.sum_dim(0).into_data().try_to_vec().unwrap()
        };
        let summed = pixel(model.representation.maps(&model.read_views(&views)));
        let weight = model.spread.as_ref().unwrap().weight.val();
        let [inputs, outputs] = weight.dims();
        let weight: Vec<f32> = weight.into_data().try_to_vec().unwrap();
        let found = model.represent(Some(&views), 1).sum.into_data();
        let found: Vec<f32> = found.try_to_vec().unwrap();
        assert_eq!((summed.len(), found.len()), (inputs, outputs));
        for (output, found) in found.into_iter().enumerate() {
            let products = summed.iter().zip(weight.chunks(outputs));
            let expected: f32 = products.map(|(value, row)| value * row[output]).sum();
            assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
        }
        let nothing = model.represent(None, 1).sum.abs().max();
        assert_eq!(nothing.into_scalar::<f32>(), 0.0);
    }

    #[test]
    fn maps_are_not_spread() {
        let config = CgqnConfig {
            network: SceneNetName::Tower,
            spread: true,
            ..config()
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let refused = config.init(Latents::Consistent, FRAME, 3, &mut init);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "model.spread is true, but only representations of a single pixel are spread, those of the networks 'pyramid' \
             and 'pool'"
        );
    }

    #[test]
    fn networks_of_the_gqn_that_do_not_fit_are_refused() {
        for (network, modulated, says) in [
            (
                SceneNetName::Tower,
                true,
                "model.modulated is true, but queries scale the maps of the network `plain` only",
            ),
            (
                SceneNetName::Pyramid,
                false,
                "model.representation has 12 channels, it must be a multiple of 8 for the pyramid",
            ),
        ] {
            let config = CgqnConfig {
                network,
                modulated,
                representation: [8, 8, 8, 12],
                ..config()
            };
            let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
            let found = config.init(Latents::Consistent, FRAME, 3, &mut init);
            assert_eq!(found.unwrap_err().to_string(), says);
        }
    }

    #[test]
    fn frames_that_cannot_be_divided_are_refused() {
        let rng = ChaCha8Rng::seed_from_u64(1);
        let mut init = Initializer::new(rng, Device::default());
        let frame = ImageShape { width: 12, ..FRAME };
        let found = config().init(Latents::Consistent, frame, 3, &mut init);
        let error = found.unwrap_err().to_string();
        assert_eq!(
            error,
            "frames are 16x12 pixels, but both sides must be multiples of 8"
        );
    }
}
