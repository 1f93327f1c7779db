//! The spatial memory: it knows where it is, and reads what it saw there.

use crate::{
    Attention, Count, Dnd, Initializer, Memory, MemoryContext, MemoryError, Neighbours, Place,
    Previous, checks,
    dnd::log_weights,
    error::{require_positive, require_positive_number},
    fifo::mean_filled,
    settings::store_slots,
};
use burn::{
    module::{Module, Param},
    tensor::{Device, Int, Tensor, TensorData},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of a [`Spatial`] memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        let fitted = Self {
            latent: place.latent,
            condition: place.condition,
            slots: store_slots("spatial", self.slots, place.time)?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const UP: [f32; 4] = [1.0, 0.0, 0.0, 0.0];
    const DOWN: [f32; 4] = [0.0, 1.0, 0.0, 0.0];
    const LEFT: [f32; 4] = [0.0, 0.0, 1.0, 0.0];
    const RIGHT: [f32; 4] = [0.0, 0.0, 0.0, 1.0];

    fn config(neighbours: usize) -> SpatialConfig {
        SpatialConfig {
            latent: 2,
            condition: 4,
            neighbours,
            slots: 9,
            ..SpatialConfig::default()
        }
    }

    fn initializer(device: &Device) -> Initializer {
        Initializer::new(ChaCha8Rng::seed_from_u64(3), device.clone())
    }

    fn values(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().try_into_vec().unwrap()
    }

    /// Contexts of a walk of one sequence. The latent of step `t`, from 1, is `[t, -t]`.
    fn walk(memory: &Spatial, actions: &[[f32; 4]], device: &Device) -> Vec<MemoryContext> {
        let mut state = memory.initial_state(1, device);
        let mut contexts = Vec::new();
        for (step, action) in actions.iter().enumerate() {
            let latent = Tensor::from_floats([[step as f32, -(step as f32)]], device);
            let previous = (step > 0).then(|| Previous {
                latent: latent.clone(),
                features: latent,
            });
            let action = Tensor::from_floats([*action], device);
            let (context, next) = memory.step(&(), previous, Some(action), state);
            contexts.push(context);
            state = next;
        }
        contexts
    }

    /// Moves along the axes, half a unit long.
    fn on_a_lattice(neighbours: usize, device: &Device) -> Spatial {
        let mut memory = config(neighbours).init(&mut initializer(device)).unwrap();
        let moves = [[0.0, 0.5], [0.0, -0.5], [-0.5, 0.0], [0.5, 0.0]];
        memory.moves = Param::from_tensor(Tensor::from_floats(moves, device));
        memory
    }

    #[test]
    fn a_place_seen_before_is_read_and_known_as_such() {
        let device = Device::default();
        let memory = on_a_lattice(3, &device);
        // Around a square, back to its first corner, and one step out.
        let actions = [[0.0; 4], UP, LEFT, DOWN, RIGHT, RIGHT];
        let contexts = walk(&memory, &actions, &device);
        let known = (1.0 + 1e4_f32).ln();
        let psi: Vec<Vec<f32>> = contexts.iter().map(|c| values(c.psi.clone())).collect();
        assert_eq!(psi[0], [0.0; 3]);
        assert!(contexts[0].attention.is_empty());
        for step in [1, 2, 3, 5] {
            let near = (1.0 + 1.0 / (0.25 + 1e-4_f32)).ln();
            assert!(
                (psi[step][2] - near).abs() < 1e-5,
                "{step}: {:?}",
                psi[step]
            );
        }
        // The first corner holds the latent of step 1; the two next to it have a weight of 1e-4 / 0.25 each.
        assert!((psi[4][2] - known).abs() < 1e-3, "{:?}", psi[4]);
        assert!((psi[4][0] - 1.0).abs() < 5e-3, "{:?}", psi[4]);
        assert_eq!(psi[4][1], -psi[4][0]);
        let weights = contexts[4].attention[0].weights();
        assert_eq!(weights.dims(), [1, 1, 4]);
        let weights: Vec<f32> = weights.into_data().try_into_vec().unwrap();
        assert!(weights[0] > 0.999, "{weights:?}");
        assert_eq!(weights.iter().filter(|weight| **weight > 0.0).count(), 3);
    }

    #[test]
    fn fewer_entries_than_neighbours_are_all_read() {
        let device = Device::default();
        let memory = on_a_lattice(9, &device);
        let contexts = walk(&memory, &[[0.0; 4], UP, UP], &device);
        // One entry, read whole; then two, at distances of 1 and 1/2.
        assert_eq!(values(contexts[1].psi.clone())[..2], [1.0, -1.0]);
        let (far, near) = (1.0 / (1.0 + 1e-4_f32), 1.0 / (0.25 + 1e-4_f32));
        let expected = (far + 2.0 * near) / (far + near);
        let found = values(contexts[2].psi.clone())[0];
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }

    #[test]
    fn first_steps_have_one_length() {
        let memory = config(3)
            .init(&mut initializer(&Device::default()))
            .unwrap();
        let moves = values(memory.moves.val());
        for step in moves.chunks(2) {
            let length = step.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!((length - 0.5).abs() < 1e-5, "{moves:?}");
        }
        assert!((moves[0] - moves[2]).abs() > 1e-3, "{moves:?}");
    }

    /// The gradient of `A` equals central differences along each of its numbers.
    #[test]
    fn gradients_equal_finite_differences() {
        let config = SpatialConfig {
            delta: 0.1,
            ..config(3)
        };
        let actions = [[0.0; 4], UP, LEFT, DOWN, LEFT, UP, RIGHT, UP];
        let factors = |device: &Device| Tensor::<2>::from_floats([[0.7, -0.2, 1.3]], device);
        let result = |memory: &Spatial, device: &Device| {
            let contexts = walk(memory, &actions, device);
            let psi = Tensor::cat(contexts.into_iter().map(|c| c.psi).collect(), 0);
            (psi * factors(device)).sum()
        };
        let device = Device::default().autodiff();
        let memory = config.init(&mut initializer(&device)).unwrap();
        let gradients = result(&memory, &device).backward();
        let gradient = values(memory.moves.val().grad(&gradients).unwrap());
        let given = values(memory.moves.val().inner());
        let plain = Device::default();
        let at = |index: usize, change: f32| {
            let mut moves = given.clone();
            moves[index] += change;
            let mut memory = config.init(&mut initializer(&plain)).unwrap();
            let moves = TensorData::new(moves, [4, 2]);
            memory.moves = Param::from_tensor(Tensor::from_data(moves, &plain));
            f64::from(result(&memory, &plain).into_scalar::<f32>())
        };
        let step = 1e-3_f32;
        assert!(gradient.iter().any(|number| number.abs() > 0.1));
        for (index, gradient) in gradient.iter().enumerate() {
            let numeric = (at(index, step) - at(index, -step)) / f64::from(2.0 * step);
            let error = (numeric - f64::from(*gradient)).abs();
            assert!(
                error < 1e-2 * (1.0 + numeric.abs()),
                "{index}: {numeric} {gradient}"
            );
        }
    }

    #[test]
    fn settings_that_do_not_fit_are_refused() {
        let place = Place {
            latent: 2,
            features: 3,
            condition: 4,
            time: 6,
        };
        let problem = |config: SpatialConfig| config.fit(&place).unwrap_err().to_string();
        let fitted = SpatialConfig::default().fit(&place).unwrap();
        assert_eq!((fitted.slots, fitted.condition), (6, 4));
        let no_actions = Place {
            condition: 0,
            ..place
        };
        let message = SpatialConfig::default().fit(&no_actions).unwrap_err();
        assert!(
            message
                .to_string()
                .starts_with("memory spatial needs actions")
        );
        let default = SpatialConfig::default;
        for (config, expected) in [
            (
                SpatialConfig {
                    neighbours: 7,
                    ..default()
                },
                "memory.spatial.neighbours is 7, but the dictionary holds at most 6 entries: it must be 1 to 6",
            ),
            (
                SpatialConfig {
                    slots: 5,
                    ..default()
                },
                "memory.spatial.slots is 5, but a sequence has 6 steps: it must be at least 6, or 0 for as many as \
                 needed",
            ),
            (
                SpatialConfig {
                    place: 0,
                    ..default()
                },
                "memory.spatial.place is 0, it must be at least 1",
            ),
            (
                SpatialConfig {
                    delta: 0.0,
                    ..default()
                },
                "memory.spatial.delta is 0, it must be a positive number",
            ),
            (
                SpatialConfig {
                    step: f64::NAN,
                    ..default()
                },
                "memory.spatial.step is NaN, it must be a positive number",
            ),
        ] {
            assert_eq!(problem(config), expected);
        }
    }
}
