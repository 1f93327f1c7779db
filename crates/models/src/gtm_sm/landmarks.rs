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
use mnemora_memory::{Dnd, Initializer};

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
        let count = means.dims()[1];
        let shares = |all: Tensor<2>| all.narrow(1, 0, count).unsqueeze_dim::<3>(2);
        let away = means - mean.clone().unsqueeze_dim(1);
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
        let device = self.device();

        // What does not depend on places is computed once for all steps.
        let pushes = actions.swap_dims(0, 1).reshape([time * batch, width]);
        let pushes = self.transition.pushes(pushes).chunk(time, 0);
        let nearest = self.nearest_codes(codes, rows, [batch, time], count, seen);
        let steps = count..seen;
        let looking = steps.clone().flat_map(|step| {
            (0..batch).flat_map(move |row| std::iter::repeat_n(rows[row * time + step], count))
        });
        let found = steps.clone().flat_map(|step| {
            let nearest = &nearest;
            (0..batch).flat_map(move |row| {
                let near = &nearest[(step * batch + row) * count..][..count];
                near.iter().map(move |entry| rows[row * time + entry])
            })
        });
        let pick = |rows: Vec<usize>| codes.clone().select(0, rows_of(rows.into_iter(), &device));
        let apart = pick(looking.collect()) - pick(found.collect());
        let squares = apart.square().sum_dim(1);
        let squares = squares.reshape([steps.len() * batch, count]);
        let shares = landmarks.shares(distances(squares));
        let of = |all: Tensor<2>| all.chunk(steps.len(), 0).into_iter();
        let mut shares = of(shares.alpha).zip(of(shares.beta));

        let mut now = self.transition.origin(batch);
        let mut stored: Option<Tensor<3>> = None;
        let (mut places, mut displacements) = (Vec::new(), Vec::new());
        let (mut means, mut kls) = (Vec::new(), Vec::new());
        for (step, push) in pushes.into_iter().enumerate() {
            let Whereabouts {
                place: mean,
                displacement,
            } = self.transition.step(push, None, now);
            let led = self.led_to(mean.clone());
            let belief = match (&stored, step >= count && step < seen) {
                (Some(stored), true) => {
                    let (alpha, beta) = shares.next().expect("shares of each seen step");
                    let [_, filled, numbers] = stored.dims();
                    let near = &nearest[step * batch * count..][..batch * count];
                    let near = near.iter().enumerate();
                    let near = near.map(|(place, entry)| place / count * filled + entry);
                    let all = stored.clone().reshape([batch * filled, numbers]);
                    let near = all.select(0, rows_of(near, &device));
                    let near = near.reshape([batch, count, numbers]);
                    let place = numbers / 2;
                    let part = |start: usize| near.clone().narrow(2, start, place);
                    Shares { alpha, beta }.belief(mean, std, part(0), part(place))
                }
                _ => led.clone(),
            };
            let place = match &noise {
                None => belief.mean.clone(),
                Some(noise) => {
                    let noise = noise.clone().narrow(1, step, 1).squeeze_dim(1);
                    belief.sample(noise)
                }
            };
            kls.push(led.kl_from(&belief, &place));
            if step < self.memorise {
                let entry = Tensor::cat(vec![belief.mean.clone(), belief.log_std], 1);
                let entry = entry.unsqueeze_dim::<3>(1);
                stored = Some(match stored {
                    None => entry,
                    Some(stored) => Tensor::cat(vec![stored, entry], 1),
                });
            }
            means.push(belief.mean);
            places.push(place.clone());
            displacements.push(displacement.clone());
            now = Whereabouts {
                place,
                displacement,
            };
        }
        Located {
            rolled: Rolled {
                places: Tensor::stack(places, 1),
                displacements: Tensor::stack(displacements, 1),
                last: now,
            },
            means: Tensor::stack(means, 1),
            kl: Tensor::stack(kls, 1),
        }
    }

    /// The memorised steps before each step whose codes are nearest, the nearest first, of equally near ones the older:
    /// `[time, batch, count]`, for the first `seen` steps.
    fn nearest_codes(
        &self,
        codes: &Tensor<2>,
        rows: &[usize],
        [batch, time]: [usize; 2],
        count: usize,
        seen: usize,
    ) -> Vec<usize> {
        let latent = codes.dims()[1];
        let codes = codes.clone().detach().into_data();
        let codes: Vec<f32> = codes.try_into_vec().expect("codes are f32");
        let code = |row: usize, step: usize| &codes[rows[row * time + step] * latent..][..latent];
        let mut all = vec![0; time * batch * count];
        let mut order: Vec<(f32, usize)> = Vec::new();
        for step in count..seen {
            for row in 0..batch {
                let here = code(row, step);
                order.clear();
                order.extend((0..step.min(self.memorise)).map(|entry| {
                    let pairs = here.iter().zip(code(row, entry));
                    (pairs.map(|(a, b)| (a - b) * (a - b)).sum(), entry)
                }));
                // Stable: of equally near entries the older ones come first.
                order.sort_by(|one, other| one.0.total_cmp(&other.0));
                let near = &mut all[(step * batch + row) * count..][..count];
                for (near, (_, entry)) in near.iter_mut().zip(&order) {
                    *near = *entry;
                }
            }
        }
        all
    }
}
