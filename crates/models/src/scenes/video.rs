//! Predictors of video that move the pixels of the frame before: CDNA (Finn et al. 2016) and SV2P (Babaeizadeh et al. 2018),
//! without actions.
//!
//! | file | contents |
//! | --- | --- |
//! | `video.rs` | [`Video`], the model: what is fed, the stages of training, the loss, samples |
//! | `predictor.rs` | from a frame to the next one |
//! | `movement.rs` | kernels and masks, which make the next frame of the one before |
//! | `tower.rs` | the posterior of SV2P's latent |
//! | `layers.rs` | layer norm of maps, an LSTM over several moments |

mod layers;
mod movement;
mod predictor;
mod tower;

pub use layers::{MapNorm, NormedLstm};
pub use movement::{Movement, normalised, put_together};
pub use predictor::{CdnaConfig, Predictor};
pub use tower::LatentTower;

use super::{
    SceneBound, Views,
    any::{Learned, Learning},
    story::{Beginning, at_numbers, by_scene, by_time, frame_numbers},
};
use crate::{DiagonalGaussian, Distribution, ImageShape, KlFrom, ModelError};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_memory::{Count, Initializer};
use predictor::Pass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes and training of SV2P; the defaults are those of the release, with a weight of the KL that rises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Sv2pConfig {
    /// Of the predictor.
    #[serde(flatten)]
    pub predictor: CdnaConfig,
    /// Weight of the KL, in nats per story, beside the mean squared error of a number, at the end.
    pub kl_weight: f64,
    /// Updates of the first stage, in which the latent is noise.
    pub noise_until: u64,
    /// The update that ends the second stage, in which the latent comes from the posterior and the KL has no weight.
    pub free_until: u64,
    /// The update from which on the KL has its whole weight; before it rises in a straight line.
    pub full_from: u64,
    /// Whether a softplus takes the place of the ReLU of the posterior's log variance. A ReLU passes no gradient once the second
    /// stage has made the variance small, and then the third cannot widen it again.
    pub softened: bool,
}

impl Default for Sv2pConfig {
    fn default() -> Self {
        Self {
            predictor: CdnaConfig::default(),
            kl_weight: 1e-3,
            noise_until: 25_000,
            free_until: 50_000,
            full_from: 100_000,
            softened: false,
        }
    }
}

impl Sv2pConfig {
    /// The weight of the KL in an update (from 1).
    pub fn weight(&self, update: u64) -> f64 {
        if update <= self.free_until {
            return 0.0;
        }
        if update >= self.full_from {
            return self.kl_weight;
        }
        let done = (update - self.free_until) as f64 / (self.full_from - self.free_until) as f64;
        self.kl_weight * done
    }

    fn check(&self) -> Result<(), ModelError> {
        if !(self.kl_weight.is_finite() && self.kl_weight >= 0.0) {
            return Err(ModelError::Negative {
                key: "kl_weight",
                value: self.kl_weight,
            });
        }
        for (key, value, after, least) in [
            (
                "free_until",
                self.free_until,
                "noise_until",
                self.noise_until,
            ),
            ("full_from", self.full_from, "free_until", self.free_until),
        ] {
            if value < least {
                return Err(ModelError::Earlier {
                    key,
                    value,
                    after,
                    least,
                });
            }
        }
        Ok(())
    }

    /// Builds SV2P for stories of `moments` frames of a shape.
    ///
    /// # Errors
    /// If a size is 0, a kernel is even, a weight is negative, stages are not in order, or frames do not fit the grid.
    pub fn init(
        &self,
        frame: ImageShape,
        moments: usize,
        init: &mut Initializer,
    ) -> Result<Video, ModelError> {
        self.check()?;
        let stride = self.predictor.check(frame)?;
        Ok(Video {
            predictor: Predictor::new(&self.predictor, frame, 1, init)?,
            tower: Some(LatentTower::new(
                moments * frame.channels,
                stride,
                self.softened,
                init,
            )),
            frame,
            moments,
            config: self.clone(),
        })
    }
}

impl CdnaConfig {
    /// Builds CDNA for stories of `moments` frames of a shape.
    ///
    /// # Errors
    /// As [`Sv2pConfig::init`].
    pub fn init(
        &self,
        frame: ImageShape,
        moments: usize,
        init: &mut Initializer,
    ) -> Result<Video, ModelError> {
        Ok(Video {
            predictor: Predictor::new(self, frame, 0, init)?,
            tower: None,
            frame,
            moments,
            config: Sv2pConfig {
                predictor: self.clone(),
                ..Sv2pConfig::default()
            },
        })
    }
}

/// SV2P, or without a latent CDNA. Frame by frame, from the frame before and a recurrent state:
///
/// ```text
/// x_{t+1} = predictor(x_t, z)                     true frames x_1 .. x_m of the context, then its own predictions
/// z ~ N(0, I), one for a story; in training from the posterior, the tower of all frames x_1 .. x_n
/// loss = mean squared error of frames m + 1 .. n  +  weight KL(posterior || N(0, I))
/// ```
///
/// In training some stories of a batch are given true frames after the context, too, fewer and fewer of them (scheduled
/// sampling). The [bound](Self::bound) is that of a model whose frames are Gaussian around what it predicts when it is given
/// its own predictions, as in samples.
///
/// Choices where the releases differ from each other or the papers are silent: a layer's norm comes before its ReLU; its
/// epsilon is 1e-6; the KL is the sum over the latent's numbers, in nats.
#[derive(Module, Debug)]
pub struct Video {
    /// From a frame to the next one.
    pub predictor: Predictor,
    /// The posterior of the latent; none in CDNA.
    pub tower: Option<LatentTower>,
    #[module(skip)]
    frame: ImageShape,
    moments: usize,
    #[module(skip)]
    config: Sv2pConfig,
}

/// How the stories of a batch are fed after the context.
enum Fed<'a> {
    /// With their own predictions.
    Predictions,
    /// In part with true frames: those of the moments after the context, and for each moment which stories get them.
    Partly {
        /// `[targets * scenes, ..]`, in order of time.
        truth: &'a Tensor<4>,
        /// How many stories get true frames.
        count: usize,
        /// `[targets - 1, scenes]`: at each moment those with the smallest numbers get them.
        choices: &'a [f64],
    },
}

impl Video {
    /// The device that the model is on.
    pub fn device(&self) -> Device {
        self.predictor.first.weight.device()
    }

    /// Frames of a story.
    pub fn moments(&self) -> usize {
        self.moments
    }

    fn grid(&self) -> usize {
        self.config.predictor.grid
    }

    /// Numbers of the latent of a story.
    pub fn noise_size(&self) -> usize {
        match self.tower {
            None => 0,
            Some(_) => self.grid() * self.grid(),
        }
    }

    /// Numbers kept for a story.
    pub fn kept(&self) -> Count {
        let pixels = self.frame.height * self.frame.width;
        let tower = self.tower.as_ref().map(|tower| tower.kept(pixels));
        self.predictor.kept() * (self.moments - 1) + tower.unwrap_or(Count::NONE)
    }

    /// The latent as maps.
    fn latent(&self, z: Tensor<2>) -> Option<Tensor<4>> {
        self.tower.as_ref()?;
        let rows = z.dims()[0];
        Some(z.reshape([rows, 1, self.grid(), self.grid()]))
    }

    /// Beliefs about the latents of whole stories.
    fn posterior(&self, beginning: &Beginning, targets: &Views) -> Option<DiagonalGaussian> {
        let tower = self.tower.as_ref()?;
        let ImageShape {
            channels,
            height,
            width,
        } = self.frame;
        let scenes = beginning.scenes;
        let stacked =
            |frames: Tensor<4>, each| frames.reshape([scenes, each * channels, height, width]);
        let seen = by_scene(beginning.frames.clone(), scenes);
        let rest = stacked(targets.frames.clone(), targets.each);
        let whole = Tensor::cat(vec![stacked(seen, beginning.moments), rest], 1);
        Some(tower.forward(whole))
    }

    /// The predictions of frame 2 and all that follow, up to number `last`: `[(last - 1) * scenes, channels, ..]`, in order
    /// of time.
    fn predict(
        &self,
        beginning: &Beginning,
        latent: Option<&Tensor<4>>,
        last: usize,
        fed: &Fed,
    ) -> Tensor<4> {
        let mut pass = self.predictor.begin();
        let (scenes, seen) = (beginning.scenes, beginning.moments);
        let advance = |pass: &mut Pass, frames: Tensor<4>, moments| {
            self.predictor.advance(pass, frames, latent, moments)
        };
        if let Fed::Partly { truth, count, .. } = fed
            && *count == scenes
        {
            // All frames that are fed are known: one call for all moments.
            let more = last - 1 - seen;
            let frames = match more {
                0 => beginning.frames.clone(),
                _ => Tensor::cat(
                    vec![
                        beginning.frames.clone(),
                        (*truth).clone().narrow(0, 0, more * scenes),
                    ],
                    0,
                ),
            };
            return advance(&mut pass, frames, last - 1);
        }
        let known = advance(&mut pass, beginning.frames.clone(), seen);
        let mut before = known.clone().narrow(0, (seen - 1) * scenes, scenes);
        let mut all = vec![known];
        for number in seen + 1..last {
            let after = number - seen - 1;
            let frames = match fed {
                Fed::Predictions => before,
                Fed::Partly { count: 0, .. } => before,
                Fed::Partly {
                    truth,
                    count,
                    choices,
                } => {
                    let truth = (*truth).clone().narrow(0, after * scenes, scenes);
                    let of_moment = &choices[after * scenes..][..scenes];
                    let given = smallest(of_moment, *count, &truth.device());
                    truth * given.clone() + before * given.neg().add_scalar(1.0)
                }
            };
            before = advance(&mut pass, frames, 1);
            all.push(before.clone());
        }
        Tensor::cat(all, 0)
    }

    /// The parts of the bound, from predictions of frame 2 up to the last target.
    fn parts(
        &self,
        predicted: Tensor<4>,
        beginning: &Beginning,
        targets: &Views,
        kl: Tensor<1>,
    ) -> SceneBound {
        let (scenes, each) = (beginning.scenes, targets.each);
        let after = (beginning.moments - 1) * scenes;
        let frames = by_scene(predicted.narrow(0, after, each * scenes), scenes);
        SceneBound::of(frames, targets, kl)
    }

    /// The loss of whole stories, without the weight of the KL in a first stage.
    pub fn learn(&self, beginning: &Beginning, targets: &Views, learning: Learning) -> Learned {
        let scenes = beginning.scenes;
        let update = learning.update;
        let nothing = || Tensor::zeros([scenes], &self.device());
        let posterior = match update <= self.config.noise_until {
            true => None,
            false => self.posterior(beginning, targets),
        };
        let (z, kl) = match posterior {
            None => (learning.noise, nothing()),
            Some(posterior) => {
                let z = posterior.sample(learning.noise);
                let kl = standard(&posterior).kl_from(&posterior, &z);
                (z, kl)
            }
        };
        let truth = by_time(targets.frames.clone(), scenes);
        let fed = Fed::Partly {
            truth: &truth,
            count: self.config.predictor.given_true(scenes, update),
            choices: &learning.choices,
        };
        let last = beginning.moments + targets.each;
        let latent = self.latent(z);
        let predicted = self.predict(beginning, latent.as_ref(), last, &fed);
        let bound = self.parts(predicted, beginning, targets, kl);
        let numbers = (targets.each * self.frame.size()) as f64;
        let error = bound.squared_error.clone().sum_dim(1).mean() / numbers;
        let loss = match self.config.weight(update) {
            0.0 => error,
            weight => error + bound.kl.clone().mean() * weight,
        };
        Learned { loss, bound }
    }

    /// Uniform numbers that [`learn`](Self::learn) needs for `scenes` stories with `targets` targets.
    pub fn choices(&self, scenes: usize, targets: usize) -> usize {
        scenes * (targets - 1)
    }

    /// The parts of the bound of whole stories, given their own predictions.
    pub fn bound(&self, beginning: &Beginning, targets: &Views, noise: Tensor<2>) -> SceneBound {
        let (z, kl) = match self.posterior(beginning, targets) {
            None => (noise, Tensor::zeros([beginning.scenes], &self.device())),
            Some(posterior) => {
                let z = posterior.sample(noise);
                let kl = standard(&posterior).kl_from(&posterior, &z);
                (z, kl)
            }
        };
        let last = beginning.moments + targets.each;
        let latent = self.latent(z);
        let predicted = self.predict(beginning, latent.as_ref(), last, &Fed::Predictions);
        self.parts(predicted, beginning, targets, kl)
    }

    /// The frames at the times of queries. What is asked for of the context is the prediction from the true frame before it;
    /// of the first frame, which nothing predicts, it is that frame.
    pub fn sample(&self, beginning: &Beginning, queries: Tensor<2>, noise: Tensor<2>) -> Tensor<4> {
        let numbers = frame_numbers(&queries, self.moments);
        let last = numbers.iter().copied().max().unwrap_or(1);
        let last = last.max(beginning.moments + 1);
        let latent = self.latent(noise);
        let predicted = self.predict(beginning, latent.as_ref(), last, &Fed::Predictions);
        let first = beginning.frames.clone().narrow(0, 0, beginning.scenes);
        let all = Tensor::cat(vec![first, predicted], 0);
        at_numbers(all, beginning.scenes, &numbers)
    }
}

/// `N(0, I)`
fn standard(like: &DiagonalGaussian) -> DiagonalGaussian {
    let zeros = Tensor::zeros(like.mean.dims(), &like.mean.device());
    DiagonalGaussian {
        mean: zeros.clone(),
        log_std: zeros,
    }
}

/// 1 for the rows with the `count` smallest numbers, 0 for the others: `[rows, 1, 1, 1]`.
fn smallest(numbers: &[f64], count: usize, device: &Device) -> Tensor<4> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    let mut chosen = vec![0.0_f32; numbers.len()];
    for row in &order[..count] {
        chosen[*row] = 1.0;
    }
    Tensor::from_data(TensorData::new(chosen, [numbers.len(), 1, 1, 1]), device)
}

#[cfg(test)]
mod tests;
