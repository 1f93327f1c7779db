//! Whole walks at once: what is predicted, and the bound.

use super::{GtmSm, Rolled, prior, rows_of};
use crate::{DiagonalGaussian, Distribution, FilteringModel, KlFrom, MixtureOfGaussians};
use burn::tensor::Tensor;
use mnemora_memory::{Dnd, Neighbours};
use std::collections::HashMap;

/// Walks of one length, as a training batch. Each frame that was seen several times is given once.
#[derive(Clone, Debug)]
pub struct Walk {
    /// `[distinct, pixels]`, in `[0, 1]`: the different frames of the batch.
    pub frames: Tensor<2>,
    /// `[batch, time]` row-major: the frame of each step, a row of `frames`.
    pub seen: Vec<usize>,
    /// `[batch, time, actions]`, one-hot: the action that led to each frame; zeros at the first step.
    pub actions: Tensor<3>,
}

/// The standard normal noise of [`GtmSm::elbo`].
#[derive(Clone, Debug)]
pub struct ElboNoise {
    /// Of the samples of `z` in the predicted steps, `[batch * predicted, latent]`.
    pub latent: Tensor<2>,
    /// Of the transitions, `[batch, time, place]`; `None` for their means.
    pub place: Option<Tensor<3>>,
}

/// What a model predicts for the steps after the memorised ones. Rows are `sequence * predicted + step`.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The places of all steps.
    pub rolled: Rolled,
    /// `q(z | x)` of the frames that are used: those read and those predicted.
    pub codes: DiagonalGaussian,
    /// The row of `codes` of each predicted step.
    pub coded: Vec<usize>,
    /// The entries read at each predicted step.
    pub neighbours: Neighbours,
    /// `p(z_t | s_t, M)`, rows of the predicted steps.
    pub prior: MixtureOfGaussians,
}

/// The bound of [`GtmSm::elbo`], over the predicted steps.
#[derive(Clone, Debug)]
pub struct Elbo {
    /// `log p(x_t | z_t)` in nats, `[batch, predicted]`.
    pub reconstruction: Tensor<2>,
    /// `KL(q(z_t | x_t) || p(z_t | s_t, M))` in nats, `[batch, predicted]`, estimated from one sample.
    pub kl: Tensor<2>,
    /// `KL(q(s_t | s_{t-1}, a_t, z_t, M) || p(s_t | s_{t-1}, a_t))` in nats, `[batch, predicted]`; `None` without landmarks.
    pub place_kl: Option<Tensor<2>>,
    /// The prediction that it scores.
    pub prediction: Prediction,
}

impl GtmSm {
    /// Memorises the first `memorise` steps of walks and predicts the others from their actions alone.
    ///
    /// `noise` is that of the transitions, standard normal `[batch, time, place]`.
    ///
    /// # Panics
    /// If the walks have no step to predict, or shapes do not fit.
    pub fn predict_walk(&self, walk: &Walk, noise: Option<Tensor<3>>) -> Prediction {
        self.prediction(walk, noise, self.memorise).0
    }

    /// [`predict_walk`](Self::predict_walk), where frames correct the place, if they do, in the first `seen` steps; and the KL
    /// of these corrections, `[batch, time]`.
    fn prediction(
        &self,
        walk: &Walk,
        noise: Option<Tensor<3>>,
        seen: usize,
    ) -> (Prediction, Option<Tensor<2>>) {
        let [batch, time, _] = walk.actions.dims();
        let predicted = time
            .checked_sub(self.memorise)
            .filter(|predicted| *predicted > 0)
            .expect("a step to predict");
        assert_eq!(walk.seen.len(), batch * time, "a frame for each step");
        let (mut all, mut place_kl) = (None, None);
        let actions = walk.actions.clone();
        let (rolled, stored) = match &self.landmarks {
            None => {
                let rolled = self
                    .transition
                    .roll(actions, noise, self.transition.origin(batch));
                let places = rolled.places.clone();
                (rolled, places)
            }
            Some(landmarks) => {
                let codes = self.code(walk.frames.clone());
                let found = self.locate(landmarks, actions, &codes.mean, &walk.seen, noise, seen);
                (all, place_kl) = (Some(codes), Some(found.kl));
                (found.rolled, found.means)
            }
        };
        let places = rolled.places.clone();
        let memory = {
            let places = stored.narrow(1, 0, self.memorise);
            Dnd::new(self.memorise).write_all(self.keys(places.clone()), places)
        };
        let here = self.keys(places.narrow(1, self.memorise, predicted));
        let near = memory.nearest(here.clone(), self.neighbours);
        let mut near = near.expect("at least one frame is memorised");

        // Only frames that are read or predicted are encoded.
        let each = near.positions.len() / batch;
        let read = near.positions.iter().enumerate();
        let read = read.map(|(place, position)| walk.seen[place / each * time + position]);
        let mut used = match &all {
            None => Used::default(),
            Some(_) => Used::all(walk.frames.dims()[0]),
        };
        let read: Vec<usize> = read.map(|frame| used.row(frame)).collect();
        let foreseen = walk
            .seen
            .chunks(time)
            .flat_map(|seen| &seen[self.memorise..]);
        let coded: Vec<usize> = foreseen.map(|frame| used.row(*frame)).collect();
        let codes = all.unwrap_or_else(|| {
            let used = rows_of(used.frames.into_iter(), &self.device());
            self.code(walk.frames.clone().select(0, used))
        });

        let rows = rows_of(read.into_iter(), &self.device());
        let of = |all: &Tensor<2>| {
            let picked = all.clone().select(0, rows.clone());
            picked.reshape([batch * predicted, near.squares.dims()[1], self.latent])
        };
        near.values = Tensor::cat(
            vec![of(&codes.mean), of(&codes.log_std), near.values.clone()],
            2,
        );
        let width = here.dims()[2];
        let here = here.reshape([batch * predicted, width]);
        let input = prior::input(&near, here, self.latent);
        let prediction = Prediction {
            rolled,
            codes,
            coded,
            neighbours: near,
            prior: self.prior(input),
        };
        (prediction, place_kl)
    }

    /// The bound on `log p(x_{tau+1..T} | a, v)` of gtm-sm, section 3.3, with one sample of each latent; `v` are the
    /// memorised frames and their actions.
    ///
    /// # Panics
    /// As [`predict_walk`](Self::predict_walk).
    pub fn elbo(&self, walk: &Walk, noise: ElboNoise) -> Elbo {
        let [batch, time, _] = walk.actions.dims();
        let (prediction, place_kl) = self.prediction(walk, noise.place, time);
        let rows = rows_of(prediction.coded.iter().copied(), &self.device());
        let code = DiagonalGaussian {
            mean: prediction.codes.mean.clone().select(0, rows.clone()),
            log_std: prediction.codes.log_std.clone().select(0, rows),
        };
        let z = code.sample(noise.latent);
        let kl = prediction.prior.kl_from(&code, &z);
        let foreseen = walk
            .seen
            .chunks(time)
            .flat_map(|seen| &seen[self.memorise..]);
        let truth = rows_of(foreseen.copied(), &self.device());
        let truth = walk.frames.clone().select(0, truth);
        let reconstruction = self.frames(z).log_probability(truth);
        let each = |scored: Tensor<1>| scored.reshape([batch, time - self.memorise]);
        Elbo {
            reconstruction: each(reconstruction),
            kl: each(kl),
            place_kl: place_kl.map(|kl| kl.narrow(1, self.memorise, time - self.memorise)),
            prediction,
        }
    }
}

/// Frames that are used, each once.
#[derive(Default)]
struct Used {
    /// The frames, in the order of their rows.
    frames: Vec<usize>,
    rows: HashMap<usize, usize>,
}

impl Used {
    /// All of `count` frames, in their own rows.
    fn all(count: usize) -> Self {
        Self {
            frames: (0..count).collect(),
            rows: (0..count).map(|frame| (frame, frame)).collect(),
        }
    }

    /// The row of a frame.
    fn row(&mut self, frame: usize) -> usize {
        *self.rows.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            self.frames.len() - 1
        })
    }
}
