//! The stochastic state-space model, sSSM (Buesing et al. 2018): a state that moves on by itself, without frames.
//!
//! | file | contents |
//! | --- | --- |
//! | `sssm.rs` | [`Sssm`], its settings, the bound, samples |
//! | `sssm/nets.rs` | from frames to maps and back, the transition, beliefs |

mod nets;

pub use nets::{BeliefNet, FrameDrawer, FrameReader, Transition};

use super::{
    SceneBound, Views,
    any::{Learned, Learning},
    map_lstm::{MapLstm, MapSizes, MapState},
    story::{Beginning, at_numbers, by_scene, by_time, frame_numbers},
};
use crate::{
    Distribution, ImageShape, KlFrom, ModelError,
    visual::{Filter, Kernel},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, activation::relu},
};
use mnemora_kernels::split::split_rows;
use mnemora_memory::{Count, Initializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of all convolutions that keep the size of maps.
const SAME: Kernel = Kernel::same(3);
/// The largest side of a frame that a message names.
const LARGEST: usize = 256;

/// Sizes and choices of an [`Sssm`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SssmConfig {
    /// Channels of the state and of all hidden maps.
    pub width: usize,
    /// Channels of the latent of a frame.
    pub latent: usize,
    /// Rows and columns of state and latents: a frame's are twice, four times, .. as many.
    pub grid: usize,
    /// Weight of the KL in the loss.
    pub beta: f64,
    /// Whether the posterior sees the frames to come, through a backward LSTM.
    pub smoothing: bool,
}

impl Default for SssmConfig {
    fn default() -> Self {
        Self {
            width: 64,
            latent: 8,
            grid: 8,
            beta: 1.0,
            smoothing: true,
        }
    }
}

impl SssmConfig {
    /// Builds the model for stories of `moments` frames of a shape, of which the first `seen` are the context.
    ///
    /// # Errors
    /// If a size is 0, `beta` is negative, or frames do not fit the grid.
    pub fn init(
        &self,
        frame: ImageShape,
        [seen, moments]: [usize; 2],
        init: &mut Initializer,
    ) -> Result<Sssm, ModelError> {
        ModelError::require_positive(&[
            ("width", self.width),
            ("latent", self.latent),
            ("grid", self.grid),
        ])?;
        if !(self.beta.is_finite() && self.beta >= 0.0) {
            return Err(ModelError::Negative {
                key: "beta",
                value: self.beta,
            });
        }
        let ImageShape {
            channels,
            height,
            width: columns,
        } = frame;
        let sides = || (1..16).map(|level| self.grid << level);
        let levels = sides().position(|side| side == height && side == columns);
        let Some(levels) = levels.map(|before| before + 1) else {
            return Err(ModelError::VideoFrame {
                height,
                width: columns,
                grid: self.grid,
                sides: sides().filter(|side| *side <= LARGEST).collect(),
            });
        };
        let width = self.width;
        let lstm = MapSizes {
            hidden: width,
            given: width,
            inputs: 0,
        };
        let given = if self.smoothing { 2 * width } else { width };
        Ok(Sssm {
            reader: FrameReader::new(channels, width, levels, init),
            beginning: vec![
                Filter::before_relu([seen * width, width], SAME, init),
                Filter::before_relu([width, width], SAME, init),
                Filter::new([width, width], SAME, init),
            ],
            backward: self.smoothing.then(|| MapLstm::new(lstm, SAME.size, init)),
            transition: Transition::new(width, self.latent, init),
            prior: BeliefNet::new([width, 0, self.latent], init),
            posterior: BeliefNet::new([width, given, self.latent], init),
            drawer: FrameDrawer::new(channels, width, levels, init),
            frame,
            seen,
            moments,
            config: self.clone(),
        })
    }
}

/// A story's states follow from one another and from latents; a frame is drawn from its state alone:
///
/// ```text
/// s_m = three convolutions of the stacked e(x_1) .. e(x_m)
/// b_t = ConvLSTM backward over e(x_{t+1}) .. e(x_n), zeros at the last frame
/// z_t ~ p(z_t | s_{t-1}), in training from q(z_t | s_{t-1}, e(x_t), b_t)
/// s_t = g(s_{t-1}, z_t)
/// x_t ~ N(dec(s_t), variance)
/// loss = sum over t = m + 1 .. n of  -log N(x_t; dec(s_t), variance) + beta KL(q || p)
/// ```
///
/// All frames are read in one call, and all states are drawn in one. Buesing et al. 2018, sections 3 and 4, for images; the
/// sizes are choices of this project.
#[derive(Module, Debug)]
pub struct Sssm {
    /// `e`
    pub reader: FrameReader,
    /// To `s_m`.
    pub beginning: Vec<Filter>,
    /// `b`, if the posterior smooths.
    pub backward: Option<MapLstm>,
    /// `g`
    pub transition: Transition,
    /// `p`
    pub prior: BeliefNet,
    /// `q`
    pub posterior: BeliefNet,
    /// `dec`
    pub drawer: FrameDrawer,
    #[module(skip)]
    frame: ImageShape,
    seen: usize,
    moments: usize,
    #[module(skip)]
    config: SssmConfig,
}

impl Sssm {
    /// The device that the model is on.
    pub fn device(&self) -> Device {
        self.transition.last.weight.device()
    }

    /// Frames of the context.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Frames of a story.
    pub fn moments(&self) -> usize {
        self.moments
    }

    fn latent_size(&self) -> usize {
        self.config.latent * self.config.grid * self.config.grid
    }

    /// Numbers of all latents of a story.
    pub fn noise_size(&self) -> usize {
        (self.moments - self.seen) * self.latent_size()
    }

    /// Numbers kept for a story.
    pub fn kept(&self) -> Count {
        let (pixels, maps) = (
            self.frame.height * self.frame.width,
            self.config.grid * self.config.grid,
        );
        let backward = self.backward.as_ref().map(|lstm| lstm.kept(maps));
        let of_target = backward.unwrap_or(Count::NONE)
            + self.transition.kept(maps)
            + self.prior.kept(maps)
            + self.posterior.kept(maps)
            + self.drawer.kept(pixels);
        self.reader.kept(pixels) * self.moments
            + of_target * (self.moments - self.seen)
            + Count::product(&[(self.seen + 6) * self.config.width, maps])
    }

    /// `s_m`, `[scenes, width, grid, grid]`.
    pub fn begin(&self, beginning: &Beginning) -> Tensor<4> {
        let maps = by_scene(
            self.reader.forward(beginning.frames.clone()),
            beginning.scenes,
        );
        let [rows, channels, height, width] = maps.dims();
        let stacked = [
            beginning.scenes,
            rows / beginning.scenes * channels,
            height,
            width,
        ];
        let [first, second, last] = &self.beginning[..] else {
            unreachable!("there are three layers")
        };
        let maps = relu(first.forward(maps.reshape(stacked), SAME));
        let maps = relu(second.forward(maps, SAME));
        last.forward(maps, SAME)
    }

    /// What the posterior of each target sees of frames, `[targets * scenes, ..]` in order of time: `e(x_t)` and `b_t`.
    fn evidence(&self, targets: Tensor<4>, scenes: usize) -> Tensor<4> {
        let count = targets.dims()[0] / scenes;
        let read = self.reader.forward(targets);
        let Some(lstm) = &self.backward else {
            return read;
        };
        let cut = lstm.cut();
        let given = split_rows(cut.given(read.clone()), count);
        let [_, _, height, width] = read.dims();
        let nothing = Tensor::zeros([scenes, lstm.hidden(), height, width], &read.device());
        let mut state: Option<MapState> = None;
        let mut backward = Vec::with_capacity(count);
        for given in given.into_iter().rev() {
            let hidden = state.as_ref().map(|state| state.hidden.clone());
            backward.push(hidden.unwrap_or_else(|| nothing.clone()));
            state = Some(cut.step(given, Vec::new(), state));
        }
        backward.reverse();
        Tensor::cat(vec![read, Tensor::cat(backward, 0)], 1)
    }

    /// The noise of each target, `[scenes, latent numbers]`.
    fn noise_of(&self, noise: &Tensor<2>, target: usize) -> Tensor<2> {
        let size = self.latent_size();
        noise.clone().narrow(1, target * size, size)
    }

    /// The parts of the bound of whole stories.
    ///
    /// # Shapes
    /// - `state`: `s_m`
    /// - `noise`: standard normal, `[scenes, noise_size]`
    pub fn bound(&self, state: Tensor<4>, targets: &Views, noise: Tensor<2>) -> SceneBound {
        let scenes = targets.scenes();
        let evidence = self.evidence(by_time(targets.frames.clone(), scenes), scenes);
        let evidence = split_rows(self.posterior.given(evidence), targets.each);
        let (mut state, mut states) = (state, Vec::with_capacity(targets.each));
        let mut kl: Option<Tensor<1>> = None;
        for (target, given) in evidence.into_iter().enumerate() {
            let expected = self.prior.belief(state.clone(), None);
            let found = self.posterior.belief(state.clone(), Some(given));
            let z = found.sample(self.noise_of(&noise, target));
            let of_target = expected.kl_from(&found, &z);
            kl = Some(match kl {
                None => of_target,
                Some(sum) => sum + of_target,
            });
            state = self.transition.forward(state, z);
            states.push(state.clone());
        }
        let frames = by_scene(self.drawer.forward(Tensor::cat(states, 0)), scenes);
        let kl = kl.expect("there is at least one target");
        SceneBound::of(frames, targets, kl)
    }

    /// The loss of whole stories.
    pub fn learn(&self, state: Tensor<4>, targets: &Views, learning: Learning) -> Learned {
        let bound = self.bound(state, targets, learning.noise);
        let errors = bound.squared_error.clone().sum_dim(1).mean();
        let likelihood = errors.mul_scalar(0.5 / learning.variance);
        let loss = likelihood + bound.kl.clone().mean().mul_scalar(self.config.beta);
        Learned { loss, bound }
    }

    /// The frames at the times of queries. What is asked for of the context is its true frame: the model draws none.
    pub fn sample(
        &self,
        beginning: &Beginning,
        state: Tensor<4>,
        queries: Tensor<2>,
        noise: Tensor<2>,
    ) -> Tensor<4> {
        let numbers = frame_numbers(&queries, self.moments);
        let last = numbers.iter().copied().max().unwrap_or(1).min(self.moments);
        let numbers: Vec<usize> = numbers.into_iter().map(|number| number.min(last)).collect();
        let (mut state, mut states) = (state, Vec::new());
        for target in 0..last.saturating_sub(self.seen) {
            let expected = self.prior.belief(state.clone(), None);
            let z = expected.sample(self.noise_of(&noise, target));
            state = self.transition.forward(state, z);
            states.push(state.clone());
        }
        let mut all = vec![beginning.frames.clone()];
        if !states.is_empty() {
            all.push(self.drawer.forward(Tensor::cat(states, 0)));
        }
        at_numbers(Tensor::cat(all, 0), beginning.scenes, &numbers)
    }
}

#[cfg(test)]
mod tests;
