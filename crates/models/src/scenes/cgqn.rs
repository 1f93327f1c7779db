//! The consistent GQN, and the factored GQN with the same networks.

mod config;

pub use config::CgqnConfig;

use super::{
    SceneBound, SceneNet, Views,
    conv_draw::{Beliefs, ConvDraw},
    renderer::Renderer,
    repeated,
    representation::{SHRUNK, summed},
    view_attention::{SeenViews, ViewAttention},
};
use crate::{
    mlp::Mlp,
    visual::{Filter, Kernel},
};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};
use mnemora_memory::Count;
use std::f64::consts::PI;

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

/// What is known of some scenes.
#[derive(Clone, Debug)]
pub struct KnownScene {
    /// `r_C`, `[scenes, channels, height / 4, width / 4]`: zeros without a context.
    pub sum: Tensor<4>,
    /// The views of the context, if there are any and targets look at them.
    pub views: Option<SeenViews>,
    /// The same as prior and posterior look at them.
    pub for_latents: Option<SeenViews>,
}

/// What each latent is drawn from: that of a scene, or of a target.
struct Given {
    /// `r_C`, `[rows, channels, height / 4, width / 4]`
    sum: Tensor<4>,
    /// What prior and posterior see of the context: the sum and what they find.
    context: Tensor<4>,
    /// `[rows, latent_size]`
    noise: Tensor<2>,
}

impl KnownScene {
    /// As often as `times` for each scene, for as many samples of it.
    pub fn repeated(&self, times: usize) -> Self {
        let all = |views: &Option<SeenViews>| views.as_ref().map(|views| views.repeated(times));
        Self {
            sum: repeated(self.sum.clone(), times),
            views: all(&self.views),
            for_latents: all(&self.for_latents),
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
/// with latents_look, q and p are given what heads of their own find in the context beside r_C
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
    /// How prior and posterior look at them.
    pub latents_look: Option<ViewAttention>,
    /// From the context's representation, or what each head finds in it, to what the renderer sees of it.
    pub context: Option<Filter>,
    steps: usize,
    stride: usize,
    latent: usize,
    consistent: bool,
    posterior_targets: usize,
    posterior_least: usize,
    query_waves: usize,
    /// Numbers of a query with its waves.
    asked: usize,
    channels: usize,
    height: usize,
    width: usize,
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
        let single = self.draw.as_ref().is_some_and(|draw| draw.spread.is_some());
        let [height, width] = if single { [1; 2] } else { self.grid() };
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
        let looked = |attention: &Option<ViewAttention>, count: usize| {
            let attention = attention.as_ref();
            let one = attention.map(|heads| heads.kept(context, channels * rows * columns));
            one.unwrap_or(Count::NONE) * count
        };
        (self.representation.kept(pixels) + self.query.kept() + self.asked) * (context + targets)
            + looked(&self.attention, targets)
            + looked(&self.latents_look, beliefs)
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
                for_latents: None,
            };
        };
        let views = self.read_views(views);
        let maps = self.representation.maps(&views);
        let sum = self.sum(maps.clone(), views.each);
        let maps = maps
            .clone()
            .expand([maps.dims()[0], channels, height, width]);
        let see = |attention: &Option<ViewAttention>| {
            let attention = attention.as_ref();
            attention.map(|attention| attention.see(maps.clone(), &views))
        };
        KnownScene {
            sum,
            views: see(&self.attention),
            for_latents: see(&self.latents_look),
        }
    }

    /// What prior and posterior of a whole scene see of the context: `[scenes, channels, height / 4, width / 4]`.
    pub fn seen_by_latents(&self, known: &KnownScene) -> Tensor<4> {
        let sum = known.sum.clone();
        let scenes = sum.dims()[0];
        // A scene has no query: what its heads ask for is their bias.
        self.seen_with(sum, known, |look| look.no_queries(scenes))
    }

    /// What prior and posterior see of the context if they ask with some queries, one for each row of `sum`.
    fn seen_with(
        &self,
        sum: Tensor<4>,
        known: &KnownScene,
        queries: impl FnOnce(&ViewAttention) -> Tensor<2>,
    ) -> Tensor<4> {
        match &self.latents_look {
            None => sum,
            Some(look) => {
                let found = self.found(look, known.for_latents.as_ref(), queries(look));
                Tensor::cat(vec![sum, found], 1)
            }
        }
    }

    /// What each latent is drawn from: that of a scene, or of each of its targets, which ask with `queries`.
    fn given(&self, known: &KnownScene, queries: &Tensor<2>, noise: Tensor<2>) -> Given {
        if self.latents() != Latents::Factored {
            return Given {
                sum: known.sum.clone(),
                context: self.seen_by_latents(known),
                noise,
            };
        }
        let (rows, scenes) = (queries.dims()[0], known.sum.dims()[0]);
        let sum = repeated(known.sum.clone(), rows / scenes);
        Given {
            context: self.seen_with(sum.clone(), known, |_| queries.clone()),
            sum,
            noise: noise.reshape([rows, self.latent_size()]),
        }
    }

    /// What heads find in the context, zeros if there is none.
    fn found(
        &self,
        attention: &ViewAttention,
        views: Option<&SeenViews>,
        queries: Tensor<2>,
    ) -> Tensor<4> {
        let maps @ [channels, height, width] = self.maps();
        match views {
            Some(views) => attention.look(views, queries, maps),
            None => {
                let shape = [
                    queries.dims()[0],
                    attention.heads() * channels,
                    height,
                    width,
                ];
                Tensor::zeros(shape, &queries.device())
            }
        }
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
        let size = self.latent_size() / self.steps;
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
        let seen = match &self.attention {
            None => context,
            Some(attention) => self.found(attention, known.views.as_ref(), queries.clone()),
        };
        let of = Kernel::patches(self.stride);
        let seen = self.context.as_ref().map(|encode| encode.forward(seen, of));
        self.renderer.render(&beliefs.latents, seen, queries)
    }

    /// Whether the number of targets that the posterior sees is drawn in training.
    pub fn draws_posterior_targets(&self) -> bool {
        self.consistent && self.posterior_least > 0
    }

    /// Of `each` targets, those that the posterior sees at most.
    fn posterior_most(&self, each: usize) -> usize {
        match self.posterior_targets {
            0 => each,
            most => most.min(each),
        }
    }

    /// The parts of the bound, with one sample of the posterior.
    ///
    /// # Shapes
    /// - `known`: what is [known](Self::represent) of each scene
    /// - `noise`: standard normal, `[scenes, noise_size(targets)]`
    pub fn bound(&self, known: &KnownScene, targets: &Views, noise: Tensor<2>) -> SceneBound {
        self.bound_seeing(self.posterior_most(targets.each), known, targets, noise)
    }

    /// The same with as many targets seen by the posterior as `choice` draws, uniform in [0, 1).
    pub fn bound_drawn(
        &self,
        known: &KnownScene,
        targets: &Views,
        noise: Tensor<2>,
        choice: f64,
    ) -> SceneBound {
        let most = self.posterior_most(targets.each);
        let least = self.posterior_least.clamp(1, most);
        let more = (choice * (most - least + 1) as f64) as usize;
        self.bound_seeing(least + more.min(most - least), known, targets, noise)
    }

    /// The posterior of a whole scene sees the first `count` targets.
    fn bound_seeing(
        &self,
        count: usize,
        known: &KnownScene,
        targets: &Views,
        noise: Tensor<2>,
    ) -> SceneBound {
        let (scenes, each) = (targets.scenes(), targets.each);
        let asked = self.read_views(targets);
        let given = self.given(known, &asked.queries, noise);
        let seen = match self.latents() {
            Latents::Consistent => {
                Some(self.sum(self.representation.maps(&asked.first(count)), count))
            }
            Latents::Factored => Some(self.sum(self.representation.maps(&asked.apart()), 1)),
            Latents::None => None,
        };
        let beliefs = self.beliefs(given.context, seen, given.noise);
        let frames = self.render(&beliefs, given.sum, known, asked.queries);
        let kl = match beliefs.kl.into_iter().reduce(|sum, kl| sum + kl) {
            None => Tensor::zeros([scenes], &frames.device()),
            // With latents of their own, rows are targets.
            Some(kl) if kl.dims()[0] == scenes => kl,
            Some(kl) => kl.reshape([scenes, each]).sum_dim(1).squeeze_dim(1),
        };
        SceneBound::of(frames, targets, kl)
    }

    /// Frames of as many queries of every scene, with latents from the prior: `[queries, channels, height, width]`.
    ///
    /// # Shapes
    /// - `known`: what is [known](Self::represent) of each scene
    /// - `queries`: `[scenes * each, query]`, those of one scene after those of another
    /// - `noise`: standard normal, `[scenes, noise_size(each)]`; a consistent model draws the same scene with the same
    ///   noise, whatever is asked for
    pub fn sample(&self, known: &KnownScene, queries: Tensor<2>, noise: Tensor<2>) -> Tensor<4> {
        let queries = self.read(queries);
        let given = self.given(known, &queries, noise);
        let beliefs = self.beliefs(given.context, None, given.noise);
        self.render(&beliefs, given.sum, known, queries)
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
mod tests;
