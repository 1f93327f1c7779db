//! Landmarks: what is seen tells where the agent is (gtm-sm, appendix D).
//!
//! The dictionary is read in the other direction: its keys are the codes of frames, its values the places where they
//! were seen. Of the `K` entries whose codes are nearest, `delta_k` is the distance of codes, and `N(mu_k, sigma_k^2)`
//! the place. With the belief `N(mu_p, r^2)` of the transition,
//!
//! ```text
//! mu_q      = mu_p + sum_k alpha_k (mu_k      - mu_p)
//! sigma_q^2 = r^2  + sum_k beta_k  (sigma_k^2 - r^2)
//! ```
//!
//! `alpha` and `beta` are each a softmax over `K + 1` logits, the last of which is for staying where the transition leads;
//! networks give the logits from `log(delta_k + 1e-3)`.

use super::{GtmSm, Rolled, Whereabouts, rows_of};
use crate::{
    DiagonalGaussian, Distribution, KlFrom,
    mlp::{Activation, Head},
};
use burn::{
    module::Module,
    tensor::{Tensor, activation},
};
use mnemora_kernels::split::split_rows;
use mnemora_memory::{Dnd, Initializer, dnd::nearest_rows};
use std::{f64::consts::TAU, ops::Range};

/// Hidden layers of each network.
const LAYERS: usize = 2;
/// Units of each of these layers.
const UNITS: usize = 32;
/// Added to distances before their logarithm is taken.
const LEAST: f64 = 1e-3;
/// The first bias of the logit for staying: at first the transition is believed.
const STAY: f32 = 3.0;
/// Factor of the first weights of the logits.
const FAINT: f64 = 0.1;

/// The networks of the landmark posterior.
#[derive(Module, Debug)]
pub struct Landmarks {
    /// From the logarithms of distances to the logits of `alpha`.
    pub alpha: Head,
    /// From the logarithms of distances to the logits of `beta`.
    pub beta: Head,
}

/// The shares `alpha` and `beta` of entries, `[rows, K + 1]`; the last is that of the transition.
#[derive(Clone, Debug)]
pub struct Shares {
    /// Of the means.
    pub alpha: Tensor<2>,
    /// Of the variances.
    pub beta: Tensor<2>,
}

impl Landmarks {
    /// Networks for `count` entries.
    pub fn new(count: usize, init: &mut Initializer) -> Self {
        let mut net = || {
            let sizes = [count, count + 1];
            let mut net = Head::new(sizes, LAYERS, UNITS, Activation::Relu, init);
            let spread = FAINT / (UNITS as f64).sqrt();
            net.output.weight = init.normal([UNITS, count + 1], spread);
            net.output.bias = Some(init.parameter([count + 1], |_| {
                let mut bias = vec![0.0; count + 1];
                bias[count] = STAY;
                bias
            }));
            net
        };
        Self {
            alpha: net(),
            beta: net(),
        }
    }

    /// Entries that are read, `K`.
    pub fn count(&self) -> usize {
        self.alpha.inputs()
    }

    /// The shares of entries whose codes are at these distances, `[rows, K]`.
    pub fn shares(&self, distances: Tensor<2>) -> Shares {
        let input = distances.add_scalar(LEAST).log();
        let of = |net: &Head| activation::softmax(net.forward(input.clone()), 1);
        Shares {
            alpha: of(&self.alpha),
            beta: of(&self.beta),
        }
    }
}

impl Shares {
    /// The belief about the place, for a transition that leads to `N(mean, std^2)` with `mean` `[rows, place]`, and for
    /// entries with `means` and `log_stds` of places, `[rows, K, place]`.
    pub fn belief(
        self,
        mean: Tensor<2>,
        std: f64,
        means: Tensor<3>,
        log_stds: Tensor<3>,
    ) -> DiagonalGaussian {
        let [_, count, place] = means.dims();
        let shares = |all: Tensor<2>| all.narrow(1, 0, count).unsqueeze_dim::<3>(2);
        let mut away = means - mean.clone().unsqueeze_dim(1);
        if place == 3 {
            away = within_half_a_turn(away);
        }
        let shift = (shares(self.alpha) * away).sum_dim(1).squeeze_dim(1);
        let variance = std * std;
        let apart = log_stds.mul_scalar(2.0).exp().sub_scalar(variance);
        let wider: Tensor<2> = (shares(self.beta) * apart).sum_dim(1).squeeze_dim(1);
        DiagonalGaussian {
            mean: mean + shift,
            log_std: wider.add_scalar(variance).log().mul_scalar(0.5),
        }
    }
}

/// Differences of places with a heading, `[rows, K, 3]`, without whole turns.
fn within_half_a_turn(away: Tensor<3>) -> Tensor<3> {
    let turn = away.clone().narrow(2, 2, 1);
    let whole = turn
        .clone()
        .detach()
        .div_scalar(TAU)
        .round()
        .mul_scalar(TAU);
    Tensor::cat(vec![away.narrow(2, 0, 2), turn - whole], 2)
}

/// The distance of codes from squared distances.
fn distances(squares: Tensor<2>) -> Tensor<2> {
    // The root has no slope at 0.
    squares.add_scalar(1e-12).sqrt()
}

/// The places of a walk whose frames are seen.
pub(super) struct Located {
    /// As after a roll without frames.
    pub rolled: Rolled,
    /// Means of the beliefs, which are stored, `[batch, time, place]`.
    pub means: Tensor<3>,
    /// KL of the beliefs from those of the transition, in nats, `[batch, time]`.
    pub kl: Tensor<2>,
}

impl GtmSm {
    /// The belief about a place after a frame with the code `code`, `[batch, latent]`, is seen; without landmarks, or
    /// with fewer entries than they read, that of the transition, which leads to `mean`, `[batch, place]`.
    pub(super) fn landed(
        &self,
        memory: &Dnd,
        code: Tensor<2>,
        mean: Tensor<2>,
    ) -> DiagonalGaussian {
        let (Some(landmarks), Some(values)) = (&self.landmarks, memory.values()) else {
            return self.led_to(mean);
        };
        let (count, latent) = (landmarks.count(), self.latent);
        let [_, filled, width] = values.dims();
        if filled < count {
            return self.led_to(mean);
        }
        let place = mean.dims()[1];
        let codes = values.clone().narrow(2, 0, latent);
        let places = values.clone().narrow(2, 2 * latent, width - 2 * latent);
        let near = Dnd::new(filled)
            .write_all(codes, places)
            .nearest(code.unsqueeze_dim(1), count)
            .expect("entries were counted");
        let shares = landmarks.shares(distances(near.squares));
        let part = |start: usize| near.values.clone().narrow(2, start, place);
        shares.belief(mean, self.transition.noise(), part(0), part(place))
    }

    /// The belief of the transition.
    pub(super) fn led_to(&self, mean: Tensor<2>) -> DiagonalGaussian {
        let log_std = Tensor::full(mean.dims(), self.transition.noise().ln(), &mean.device());
        DiagonalGaussian { mean, log_std }
    }

    /// The places of a walk: at each of the first `seen` steps the frame is seen, whose code is a row of `codes`,
    /// `[rows, latent]`, with the numbers `rows`, `[batch, time]`. Entries are the memorised steps before each.
    pub(super) fn locate(
        &self,
        landmarks: &Landmarks,
        actions: Tensor<3>,
        codes: &Tensor<2>,
        rows: &[usize],
        noise: Option<Tensor<3>>,
        seen: usize,
    ) -> Located {
        let [batch, time, width] = actions.dims();
        let (count, std) = (landmarks.count(), self.transition.noise());
        let place = self.transition.place_size();
        let device = self.device();

        // What does not depend on places is computed once for all steps.
        let pushes = actions.swap_dims(0, 1).reshape([time * batch, width]);
        let pushes = split_rows(self.transition.pushes(pushes), time);
        let noise: Vec<Option<Tensor<2>>> = match noise {
            None => vec![None; time],
            Some(noise) => {
                let noise = noise.swap_dims(0, 1).reshape([time * batch, place]);
                split_rows(noise, time).into_iter().map(Some).collect()
            }
        };
        let steps = count..seen;
        let nearest = self.nearest_codes(codes, rows, [batch, time], count, steps.clone());
        let pick = |rows: Vec<usize>| codes.clone().select(0, rows_of(rows.into_iter(), &device));
        let apart = {
            let each = nearest.chunks(count).enumerate();
            let pairs = each.flat_map(|(place, near)| {
                let (step, row) = (steps.start + place / batch, place % batch);
                let frame = move |step: usize| rows[row * time + step];
                near.iter().map(move |entry| (frame(step), frame(*entry)))
            });
            let (looking, found) = pairs.unzip();
            pick(looking) - pick(found)
        };
        let squares = apart.square().sum_dim(1);
        let squares = squares.reshape([steps.len() * batch, count]);
        let shares = landmarks.shares(distances(squares));
        // Entries lie step after step, so that their rows do not change as more are stored.
        let entries = nearest.iter().enumerate();
        let entries = entries.map(|(place, entry)| entry * batch + place / count % batch);
        let entries = rows_of(entries, &device).chunk(steps.len(), 0);
        let of = |all: Tensor<2>| split_rows(all, steps.len()).into_iter();
        let mut recognised = entries
            .into_iter()
            .zip(of(shares.alpha).zip(of(shares.beta)));

        let mut now = self.transition.origin(batch);
        let mut stored: Option<Tensor<2>> = None;
        let (mut places, mut displacements) = (Vec::new(), Vec::new());
        let (mut led, mut beliefs) = (Vec::new(), Vec::new());
        for (step, (push, noise)) in pushes.into_iter().zip(noise).enumerate() {
            let moved = self.transition.step(push, None, now);
            let mean = moved.place;
            led.push(mean.clone());
            let belief = match (&stored, steps.contains(&step)) {
                (Some(stored), true) => {
                    let (near, (alpha, beta)) = recognised.next().expect("one for each seen step");
                    let near = stored.clone().select(0, near);
                    let near = near.reshape([batch, count, 2 * place]);
                    let part = |start: usize| near.clone().narrow(2, start, place);
                    Shares { alpha, beta }.belief(mean, std, part(0), part(place))
                }
                _ => self.led_to(mean),
            };
            let place = match noise {
                None => belief.mean.clone(),
                Some(noise) => belief.sample(noise),
            };
            let belief = Tensor::cat(vec![belief.mean, belief.log_std], 1);
            if step < self.memorise {
                stored = Some(match stored {
                    None => belief.clone(),
                    Some(stored) => Tensor::cat(vec![stored, belief.clone()], 0),
                });
            }
            beliefs.push(belief);
            places.push(place.clone());
            displacements.push(moved.displacement.clone());
            now = Whereabouts {
                place,
                displacement: moved.displacement,
            };
        }
        // `[batch * time, 2 * place]`
        let beliefs = Tensor::stack::<3>(beliefs, 1).reshape([batch * time, 2 * place]);
        let belief = DiagonalGaussian {
            mean: beliefs.clone().narrow(1, 0, place),
            log_std: beliefs.narrow(1, place, place),
        };
        let led = Tensor::stack::<3>(led, 1).reshape([batch * time, place]);
        let kl = self.led_to(led).kl_from(&belief, &belief.mean);
        Located {
            rolled: Rolled {
                places: Tensor::stack(places, 1),
                displacements: Tensor::stack(displacements, 1),
                last: now,
            },
            means: belief.mean.reshape([batch, time, place]),
            kl: kl.reshape([batch, time]),
        }
    }

    /// The memorised steps before each of `steps` whose codes are nearest, the nearest first: `[steps, batch, count]`.
    fn nearest_codes(
        &self,
        codes: &Tensor<2>,
        rows: &[usize],
        [batch, time]: [usize; 2],
        count: usize,
        steps: Range<usize>,
    ) -> Vec<usize> {
        let latent = codes.dims()[1];
        let codes = codes.clone().detach().into_data();
        let codes: Vec<f32> = codes.try_into_vec().expect("codes are f32");
        // Those of each sequence one after the other.
        let code = |row: &usize| &codes[row * latent..][..latent];
        let walks: Vec<Vec<f32>> = rows
            .chunks(time)
            .map(|walk| walk.iter().flat_map(code).copied().collect())
            .collect();
        let mut all = Vec::with_capacity(steps.len() * batch * count);
        for step in steps {
            for walk in &walks {
                let before = &walk[..step.min(self.memorise) * latent];
                all.extend(nearest_rows(
                    &walk[step * latent..][..latent],
                    before,
                    count,
                ));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Tolerance};

    /// An entry that is a whole turn away says that the heading is right.
    #[test]
    fn whole_turns_do_not_count() {
        let device = Device::default();
        let floats = |values: [f32; 3]| Tensor::<2>::from_floats([values], &device);
        let turn = TAU as f32;
        let means = floats([1.0, 2.0, 0.5 + 3.0 * turn]).unsqueeze_dim::<3>(1);
        let shares = Shares {
            alpha: Tensor::from_floats([[0.5, 0.5]], &device),
            beta: Tensor::from_floats([[0.5, 0.5]], &device),
        };
        let belief = shares.belief(
            floats([0.0, 2.0, 0.3]),
            0.1,
            means.clone(),
            means.zeros_like(),
        );
        let expected = floats([0.5, 2.0, 0.4]).into_data();
        let found = belief.mean.into_data();
        found.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
    }
}
