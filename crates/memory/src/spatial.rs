//! The spatial memory: it knows where it is, and reads what it saw there.

use crate::{
    Attention, Count, Dnd, Initializer, Memory, MemoryContext, MemoryError, Neighbours, Place,
    Previous, checks,
    dnd::log_weights,
    error::{require_positive, require_positive_number},
    fifo::mean_filled,
    settings::slots_for,
};
use burn::{
    module::{Module, Param},
    tensor::{Device, Int, Tensor, TensorData},
};
use serde::{Deserialize, Serialize};

/// Settings of a [`Spatial`] memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpatialConfig {
    /// Size of `z`, which is also the width of a value.
    #[serde(skip)]
    pub latent: usize,
    /// Size of the condition `c_t`, the action; at least 1.
    #[serde(skip)]
    pub condition: usize,
    /// Numbers of a place.
    pub place: usize,
    /// Entries of the dictionary that a step reads, `K`.
    pub neighbours: usize,
    /// Entries that the dictionary holds: at least as many as steps of a training sequence, or 0 for exactly as many,
    /// so that nothing is forgotten within such a sequence.
    pub slots: usize,
    /// Added to squared distances before they are inverted.
    pub delta: f64,
    /// The length of the first steps: that of the columns of `A` before training.
    pub step: f64,
}

/// A place that actions move, and a dictionary ([`Dnd`]) of what was seen where.
///
/// It joins a part of GTM-SM (Fraccaro et al. 2018, sections 3.1 and 4.1: the linear transition and the weights of the
/// nearest entries) to the temporal VAE of gtmm. From `s_0 = 0` and an empty dictionary, step `t` is
///
/// ```text
/// s_t   = s_{t-1} + A c_t
/// M    <- (key s_{t-1}, value z_{t-1})                          from t = 2 on
/// w_k   proportional to 1 / (d_k^2 + delta)                     d_k = |key_k - s_t|, of the K nearest entries
/// Psi_t = [sum_k w_k value_k; log(1 + 1 / (d_1^2 + delta))]     d_1 is the distance of the nearest entry
/// ```
///
/// With fewer than `K` entries it reads them all. With none `Psi_1 = 0`: the last number says how near the nearest entry
/// is, so that prior and posterior know whether the place was seen before, and 0 is its limit for an entry infinitely
/// far away. At a place seen before it is `log(1 + 1 / delta)`, and farther away than `sqrt(delta)` it is close to minus
/// the logarithm of the squared distance.
///
/// `A` is learned, and is all that is. Opposite actions have no opposite steps at first: training must find out that they
/// cancel. Gradients reach `A` through the distances of the entries found, and not through the choice of entries.
///
/// Limits: it needs actions, and its place is what actions alone say, without noise and without walls that stop a move.
/// It stores one latent per step and never merges or revises one.
#[derive(Module, Debug)]
pub struct Spatial {
    /// `A` transposed, `[condition, place]`.
    pub moves: Param<Tensor<2>>,
    latent: usize,
    neighbours: usize,
    slots: usize,
    delta: f64,
}

/// Where a [`Spatial`] memory believes to be, and what it saw where.
#[derive(Clone, Debug)]
pub struct SpatialState {
    /// `s_t`, `[batch, place]`.
    pub place: Tensor<2>,
    /// `M`: keys are places, values are latents.
    pub entries: Dnd,
}

crate::bundle!(SpatialState { place, entries });

impl Default for SpatialConfig {
    fn default() -> Self {
        Self {
            latent: 0,
            condition: 0,
            place: 2,
            neighbours: 5,
            slots: 0,
            delta: 1e-4,
            step: 0.5,
        }
    }
}

impl SpatialConfig {
    /// Fills in the sizes that settings leave open, from `place`.
    ///
    /// # Errors
    /// The task has no actions, the dictionary holds fewer entries than a sequence has steps, or fewer than a step
    /// reads.
    pub fn fit(&self, place: &Place) -> Result<Self, MemoryError> {
        if place.condition == 0 {
            return Err(MemoryError::NeedsActions { memory: "spatial" });
        }
        if self.slots > 0 && self.slots < place.time {
            return Err(MemoryError::FewerSlotsThanSteps {
                memory: "spatial",
                slots: self.slots,
                steps: place.time,
            });
        }
        let fitted = Self {
            latent: place.latent,
            condition: place.condition,
            slots: slots_for(self.slots, place.time),
            ..self.clone()
        };
        fitted.check()?;
        Ok(fitted)
    }

    fn check(&self) -> Result<(), MemoryError> {
        require_positive(
            "spatial",
            &[
                ("latent", self.latent),
                ("place", self.place),
                ("neighbours", self.neighbours),
                ("slots", self.slots),
            ],
        )?;
        require_positive_number("spatial", &[("delta", self.delta), ("step", self.step)])?;
        if self.condition == 0 {
            return Err(MemoryError::NeedsActions { memory: "spatial" });
        }
        match self.neighbours <= self.slots {
            true => Ok(()),
            false => Err(MemoryError::FewerSlotsThanNeighbours {
                slots: self.slots,
                neighbours: self.neighbours,
            }),
        }
    }

    /// Builds the memory. The columns of `A` have the length `step` and random directions.
    ///
    /// # Errors
    /// A size is 0, a number is not positive, or the dictionary holds fewer entries than a step reads.
    pub fn init(&self, init: &mut Initializer) -> Result<Spatial, MemoryError> {
        self.check()?;
        let (place, step) = (self.place, self.step as f32);
        let moves = init.parameter([self.condition, place], |draws| {
            let directions = (0..self.condition).flat_map(|_| draws.direction(place));
            directions.map(|number| step * number).collect()
        });
        Ok(Spatial {
            moves,
            latent: self.latent,
            neighbours: self.neighbours,
            slots: self.slots,
            delta: self.delta,
        })
    }
}

impl Spatial {
    /// `Psi_t` from the entries nearest to `s_t`.
    fn context(&self, near: Neighbours, filled: usize) -> MemoryContext {
        let [batch, count] = near.squares.dims();
        let weights = log_weights(near.squares.clone(), self.delta).exp();
        checks::weights("spatial", "read weights", &weights, true);
        let seen = (near.values * weights.clone().unsqueeze_dim::<3>(2))
            .sum_dim(1)
            .squeeze_dim::<2>(1);
        let nearest = near.squares.narrow(1, 0, 1);
        let nearness = nearest.add_scalar(self.delta).recip().log1p();

        let positions: Vec<i64> = near.positions.iter().map(|at| *at as i64).collect();
        let positions = TensorData::new(positions, [batch, 1, count]);
        let positions: Tensor<3, Int> = Tensor::from_data(positions, &weights.device());
        let weights = weights.unsqueeze_dim::<3>(1);
        MemoryContext {
            psi: Tensor::cat(vec![seen, nearness], 1),
            attention: vec![Attention::sparse("read", &weights, &positions, filled)],
        }
    }
}

impl Memory for Spatial {
    type State = SpatialState;
    type Prepared = ();

    fn prepare(&self) {}

    fn initial_state(&self, batch: usize, device: &Device) -> SpatialState {
        SpatialState {
            place: Tensor::zeros([batch, self.moves.shape()[1]], device),
            entries: Dnd::new(self.slots),
        }
    }

    fn step(
        &self,
        _prepared: &(),
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: SpatialState,
    ) -> (MemoryContext, SpatialState) {
        let action = condition.expect("a spatial memory is given the action of each step");
        let before = state.place;
        let place = before.clone() + action.matmul(self.moves.val());
        let entries = match previous {
            Some(previous) => state.entries.write(before, previous.latent),
            None => state.entries,
        };
        let query = place.clone().unsqueeze_dim::<3>(1);
        let context = match entries.nearest(query, self.neighbours) {
            Some(near) => self.context(near, entries.len()),
            None => MemoryContext {
                psi: Tensor::zeros([place.dims()[0], self.context_size()], &place.device()),
                attention: Vec::new(),
            },
        };
        (context, SpatialState { place, entries })
    }

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn context_size(&self) -> usize {
        self.latent + 1
    }

    /// The keys and values of filled slots, and the entries read with their distances and weights.
    fn kept(&self, time: usize) -> Count {
        let [condition, place] = self.moves.shape().dims();
        let entry = Count::from(2 * self.latent + 2 * place + 6);
        let slot = Count::from(self.latent + place);
        let outside = entry * self.neighbours + condition + place + self.latent + 4;
        outside + slot * mean_filled(self.slots, time)
    }

    fn attention_words(&self) -> &'static str {
        "Read weights over the entries on one held-out sequence, one column per step. Entry i holds the latent of \
         step i."
    }

    fn stored(&self) -> Option<usize> {
        Some(self.slots)
    }
}
