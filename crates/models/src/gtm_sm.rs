//! The generative temporal model with spatial memory (Fraccaro et al. 2018, gtm-sm): a state-space model of where, a
//! VAE of what, and a dictionary between them.
//!
//! The model first memorises: at each step it stores what it sees under where it believes to be. Then it predicts: the
//! action says where it will be, and the dictionary what it will see there.

mod frames;
mod landmarks;
mod prior;
mod transition;
mod walk;

pub use frames::{GtmSmDecoder, GtmSmEncoder, GtmSmVisual};
pub use landmarks::{Landmarks, Shares};
pub use prior::PriorKind;
pub use transition::{Rolled, Start, Transition, TransitionConfig, TransitionKind, Whereabouts};
pub use walk::{Elbo, ElboNoise, Prediction, Walk};

use crate::{
    DiagonalGaussian, Distribution, FilteringModel, ImageShape, KlFrom, Likelihood,
    LikelihoodConfig, MixtureOfGaussians, ModelError,
};
use burn::{
    module::{Module, Param},
    tensor::{Device, Int, Tensor, TensorData},
};
use mnemora_memory::{Attention, Dnd, Initializer};
use prior::MlpPrior;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes and choices of a [`GtmSm`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GtmSmConfig {
    /// Size of `z`.
    pub latent: usize,
    /// Networks for frames.
    pub visual: GtmSmVisual,
    /// Units of each of the two hidden layers of the dense encoder and decoder.
    pub hidden: usize,
    /// Channels of the first maps of the global pathway, for networks of two pathways.
    pub width: usize,
    /// Standard deviation of a pixel, on the scale of intensities in `[0, 1]`.
    pub pixel_std: f64,
    /// Entries of the dictionary that a prediction reads, `K`.
    pub neighbours: usize,
    /// Added to squared distances before they are inverted.
    pub delta: f64,
    /// Numbers that a learned linear map `B` makes of the features of a place before distances are measured; 0 for no
    /// map (gtm-sm, section 4.2).
    pub distance: usize,
    /// How the entries make a prior.
    pub prior: PriorKind,
    /// Units of the layers of the prior `mlp`.
    pub prior_hidden: usize,
    /// Entries by which a frame that is seen corrects the place (gtm-sm, appendix D); 0 if it does not.
    pub landmarks: usize,
    /// How an action changes the place.
    pub transition: TransitionConfig,
}

impl Default for GtmSmConfig {
    /// Image navigation (gtm-sm, section 4.1).
    fn default() -> Self {
        Self {
            latent: 16,
            visual: GtmSmVisual::Dense,
            hidden: 256,
            width: 32,
            pixel_std: 0.1,
            neighbours: 5,
            delta: 1e-4,
            distance: 0,
            prior: PriorKind::Mixture,
            prior_hidden: 256,
            landmarks: 0,
            transition: TransitionConfig::default(),
        }
    }
}

/// The world that a [`GtmSm`] is built for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkedWorld<'a> {
    /// Shape of a frame.
    pub frame: ImageShape,
    /// Number of actions.
    pub actions: usize,
    /// Numbers of a place: 2 without and 3 with a heading.
    pub place: usize,
    /// Pairs of opposite actions.
    pub opposites: &'a [[usize; 2]],
    /// Steps to memorise, `tau`.
    pub memorise: usize,
}

/// A temporal VAE whose prior reads a dictionary of what was seen where.
#[derive(Module, Debug)]
pub struct GtmSm {
    /// `q(z_t | x_t)`: from pixels to mean and log standard deviation.
    pub encoder: GtmSmEncoder,
    /// `p(x_t | z_t)`: from `z` to the logits of the pixels' means.
    pub decoder: GtmSmDecoder,
    /// `p(s_t | s_{t-1}, a_t)`
    pub transition: Transition,
    /// `B` transposed, `[features, distance]`, if distances are learned.
    pub distance: Option<Param<Tensor<2>>>,
    /// From the entries found to a prior, for the kind `mlp`.
    pub prior: Option<MlpPrior>,
    /// From what is seen to the place, if frames correct it.
    pub landmarks: Option<Landmarks>,
    /// Steps to memorise, `tau`; not a parameter.
    pub memorise: usize,
    latent: usize,
    neighbours: usize,
    delta: f64,
    pixel_std: f64,
}

/// The state that a [`GtmSm`] carries from step to step.
#[derive(Clone, Debug)]
pub struct GtmSmState {
    /// `s_t` and the last displacement.
    pub whereabouts: Whereabouts,
    /// What was seen where: keys are the distance features of places; values are mean and log standard deviation of `q(z | x)`, then the
    /// place; with landmarks mean and log standard deviation of the belief about it.
    pub memory: Dnd,
}

mnemora_memory::bundle!(GtmSmState {
    whereabouts,
    memory
});

/// The context of a step of a [`GtmSm`].
#[derive(Clone, Debug)]
pub struct GtmSmContext {
    whereabouts: Whereabouts,
    memory: Dnd,
    prior_input: Tensor<2>,
    /// Where the transition leads, without noise.
    mean: Tensor<2>,
    noise: Option<Tensor<2>>,
    /// The belief about the place after the frame was seen, with landmarks.
    belief: Option<DiagonalGaussian>,
}

impl GtmSmConfig {
    /// Builds the model.
    ///
    /// # Errors
    /// If a size is 0, a number is out of its range, or sizes do not fit together.
    pub fn init(&self, world: &WalkedWorld, init: &mut Initializer) -> Result<GtmSm, ModelError> {
        ModelError::require_positive(&[
            ("latent", self.latent),
            ("hidden", self.hidden),
            ("width", self.width),
            ("neighbours", self.neighbours),
            ("prior_hidden", self.prior_hidden),
        ])?;
        for (key, value) in [("pixel_std", self.pixel_std), ("delta", self.delta)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(ModelError::NotPositive { key, value });
            }
        }
        if self.neighbours > world.memorise {
            return Err(ModelError::FewerEntriesThanNeighbours {
                neighbours: self.neighbours,
                memorised: world.memorise,
            });
        }
        if self.landmarks >= world.memorise {
            return Err(ModelError::FewerFramesThanLandmarks {
                landmarks: self.landmarks,
                memorised: world.memorise,
            });
        }
        let latent = self.latent;
        let transition =
            self.transition
                .init([world.actions, world.place], world.opposites, init)?;
        let raw = prior::feature_size(world.place);
        let features = match self.distance {
            0 => raw,
            distance => distance,
        };
        Ok(GtmSm {
            encoder: self.encoder(world.frame, init)?,
            decoder: self.decoder(world.frame, init)?,
            prior: (self.prior == PriorKind::Mlp)
                .then(|| MlpPrior::new(self.neighbours, features, latent, self.prior_hidden, init)),
            distance: (self.distance > 0)
                .then(|| prior::first_distance([raw, self.distance], init)),
            landmarks: (self.landmarks > 0).then(|| Landmarks::new(self.landmarks, init)),
            transition,
            memorise: world.memorise,
            latent,
            neighbours: self.neighbours,
            delta: self.delta,
            pixel_std: self.pixel_std,
        })
    }
}

impl GtmSm {
    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.transition.moves.device()
    }

    /// `q(z | x)` of frames `[rows, pixels]` in `[0, 1]`.
    pub fn code(&self, frames: Tensor<2>) -> DiagonalGaussian {
        DiagonalGaussian::from_parameters(self.encoder.forward(frames))
    }

    /// `p(x | z)` for `z` `[rows, latent]`.
    pub fn frames(&self, z: Tensor<2>) -> Likelihood {
        let std = self.pixel_std;
        Likelihood::from_output(&LikelihoodConfig::Gaussian { std }, self.decoder.forward(z))
    }

    /// The bound of a VAE on single frames `[rows, pixels]` under a standard normal prior: `log p(x | z)` and
    /// `KL(q(z | x) || N(0, I))` in nats, both `[rows]`, with standard normal `noise`, `[rows, latent]`.
    pub fn vae(&self, frames: Tensor<2>, noise: Tensor<2>) -> (Tensor<1>, Tensor<1>) {
        let code = self.code(frames.clone());
        let z = code.sample(noise);
        let standard = DiagonalGaussian {
            mean: z.zeros_like(),
            log_std: z.zeros_like(),
        };
        let kl = standard.kl_from(&code, &z);
        (self.frames(z).log_probability(frames), kl)
    }

    /// `u(s) = B phi(s)` of places `[rows, place]`: the numbers between which distances are measured, `[rows, features]`.
    pub fn features(&self, places: Tensor<2>) -> Tensor<2> {
        let features = prior::features(places);
        match &self.distance {
            None => features,
            Some(distance) => features.matmul(distance.val()),
        }
    }

    /// [`features`](Self::features) of places `[batch, steps, place]`.
    fn keys(&self, places: Tensor<3>) -> Tensor<3> {
        let [batch, steps, place] = places.dims();
        let keys = self.features(places.reshape([batch * steps, place]));
        let width = keys.dims()[1];
        keys.reshape([batch, steps, width])
    }

    /// Numbers between which distances are measured.
    fn feature_size(&self) -> usize {
        match &self.distance {
            None => prior::feature_size(self.transition.place_size()),
            Some(distance) => distance.shape()[1],
        }
    }

    /// What [`prior`](FilteringModel::prior) reads at places `[batch, place]`.
    fn recall(&self, memory: &Dnd, places: Tensor<2>) -> Tensor<2> {
        let here = self.features(places);
        let near = memory.nearest(here.clone().unsqueeze_dim(1), self.neighbours);
        let near = near.expect("at least one frame is memorised");
        prior::input(&near, here, self.latent)
    }

    /// `p(z | s, M)` at the place of a state, after all of its memory is filled: what the model expects to see where it is.
    ///
    /// # Panics
    /// If nothing is memorised.
    pub fn expected_here(&self, state: &GtmSmState) -> MixtureOfGaussians {
        self.prior(self.recall(&state.memory, state.whereabouts.place.clone()))
    }

    /// [`recall`](Self::recall), or nothing while the model memorises.
    fn expected_at(&self, memory: &Dnd, places: Tensor<2>) -> Tensor<2> {
        if memory.len() == self.memorise {
            return self.recall(memory, places);
        }
        let width = prior::input_size(self.neighbours, self.feature_size(), self.latent);
        Tensor::zeros([places.dims()[0], width], &self.device())
    }
}

/// Row numbers as a tensor, `[count]`.
fn rows_of(rows: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i64> = rows.map(|row| row as i64).collect();
    let count = rows.len();
    Tensor::from_data(TensorData::new(rows, [count]), device)
}

impl FilteringModel for GtmSm {
    type State = GtmSmState;
    type Prepared = ();
    type Features = DiagonalGaussian;
    type Context = GtmSmContext;
    type Emission = Tensor<2>;
    type Prior = MixtureOfGaussians;

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn transition_noise(&self) -> usize {
        self.transition.place_size()
    }

    fn scored_from(&self, state: &GtmSmState) -> usize {
        self.memorise.saturating_sub(state.memory.len())
    }

    fn initial_state(&self, batch: usize) -> GtmSmState {
        GtmSmState {
            whereabouts: self.transition.origin(batch),
            memory: Dnd::new(self.memorise),
        }
    }

    fn prepare(&self) {}

    fn encode(&self, observations: Tensor<3>) -> Vec<DiagonalGaussian> {
        let [batch, time, pixels] = observations.dims();
        let frames = observations.swap_dims(0, 1).reshape([time * batch, pixels]);
        let DiagonalGaussian { mean, log_std } = self.code(frames);
        let each = mean.chunk(time, 0).into_iter().zip(log_std.chunk(time, 0));
        each.map(|(mean, log_std)| DiagonalGaussian { mean, log_std })
            .collect()
    }

    fn predict(
        &self,
        (): &(),
        condition: Option<Tensor<2>>,
        noise: Option<Tensor<2>>,
        state: GtmSmState,
    ) -> GtmSmContext {
        let action = condition.expect("a spatial memory needs actions");
        let push = self.transition.pushes(action);
        let mut whereabouts = self.transition.step(push, None, state.whereabouts);
        let mean = whereabouts.place.clone();
        whereabouts.place = self.transition.drawn(mean.clone(), noise.clone());
        GtmSmContext {
            prior_input: self.expected_at(&state.memory, whereabouts.place.clone()),
            whereabouts,
            memory: state.memory,
            mean,
            noise,
            belief: None,
        }
    }

    fn prior_input(&self, context: &GtmSmContext) -> Tensor<2> {
        context.prior_input.clone()
    }

    fn prior(&self, input: Tensor<2>) -> MixtureOfGaussians {
        let found = prior::Found::from_input(input, self.neighbours, self.latent);
        match &self.prior {
            None => found.mixture(self.delta),
            Some(map) => map.forward(found, self.delta),
        }
    }

    /// With landmarks, the frame also corrects the place.
    fn posterior(
        &self,
        features: &DiagonalGaussian,
        context: &mut GtmSmContext,
    ) -> DiagonalGaussian {
        if self.landmarks.is_some() {
            let GtmSmContext {
                memory,
                mean,
                noise,
                ..
            } = context;
            let belief = self.landed(memory, features.mean.clone(), mean.clone());
            let place = match noise {
                None => belief.mean.clone(),
                Some(noise) => belief.sample(noise.clone()),
            };
            context.prior_input = self.expected_at(memory, place.clone());
            context.whereabouts.place = place;
            context.belief = Some(belief);
        }
        features.clone()
    }

    fn emit(&self, z: Tensor<2>, _: &GtmSmContext) -> Tensor<2> {
        z
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        self.frames(emissions)
    }

    fn update(
        &self,
        features: &DiagonalGaussian,
        _: Tensor<2>,
        _: &Tensor<2>,
        context: GtmSmContext,
    ) -> GtmSmState {
        let GtmSmContext {
            whereabouts,
            memory,
            mean,
            belief,
            ..
        } = context;
        let memory = match memory.len() < self.memorise {
            true => {
                let mut value = vec![features.mean.clone(), features.log_std.clone()];
                let place = match self.landmarks {
                    None => {
                        value.push(whereabouts.place.clone());
                        whereabouts.place.clone()
                    }
                    Some(_) => {
                        let belief = belief.unwrap_or_else(|| self.led_to(mean));
                        value.extend([belief.mean.clone(), belief.log_std]);
                        belief.mean
                    }
                };
                memory.write(self.features(place), Tensor::cat(value, 1))
            }
            false => memory,
        };
        GtmSmState {
            whereabouts,
            memory,
        }
    }

    fn stored(&self) -> Option<usize> {
        Some(self.memorise)
    }

    fn attention<'a>(&self, _: &'a GtmSmContext) -> &'a [Attention] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{filter, follow, generate};
    use burn::tensor::Tolerance;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const FRAME: ImageShape = ImageShape {
        channels: 1,
        height: 2,
        width: 3,
    };
    const MEMORISE: usize = 6;
    const TIME: usize = 9;
    const BATCH: usize = 2;

    fn model(config: GtmSmConfig, place: usize, device: &Device) -> Result<GtmSm, ModelError> {
        let config = GtmSmConfig {
            latent: 2,
            hidden: 5,
            neighbours: 3,
            prior_hidden: 4,
            ..config
        };
        let world = WalkedWorld {
            frame: FRAME,
            actions: 5,
            place,
            opposites: &[[0, 1], [2, 3]],
            memorise: MEMORISE,
        };
        let stream = ChaCha8Rng::seed_from_u64(3);
        config.init(&world, &mut Initializer::new(stream, device.clone()))
    }

    fn of_kind(kind: TransitionKind, prior: PriorKind) -> GtmSmConfig {
        GtmSmConfig {
            prior,
            // With both priors, and with and without learned distances.
            distance: match (kind, prior) {
                (TransitionKind::Momentum, _) | (TransitionKind::Walls, PriorKind::Mlp) => 5,
                _ => 0,
            },
            transition: TransitionConfig {
                kind,
                start: Start::Random,
                noise: 0.05,
                ..TransitionConfig::default()
            },
            ..GtmSmConfig::default()
        }
    }

    fn numbers<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
        let stream = ChaCha8Rng::seed_from_u64(seed);
        let count = shape.iter().product();
        let values = mnemora_memory::Draws::new(stream).uniform(count, 1.0);
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// Two walks over four frames, with a different action at each step.
    fn walk(device: &Device) -> Walk {
        let seen: Vec<usize> = (0..BATCH * TIME)
            .map(|step| (step * 7 + step / 3) % 4)
            .collect();
        let mut actions = vec![0.0; BATCH * TIME * 5];
        for (place, actions) in actions.chunks_mut(5).enumerate() {
            if place % TIME > 0 {
                actions[(place * 3 + place / 4) % 5] = 1.0;
            }
        }
        Walk {
            frames: numbers([4, FRAME.size()], 1, device)
                .mul_scalar(0.5)
                .add_scalar(0.5),
            seen,
            actions: Tensor::from_data(TensorData::new(actions, [BATCH, TIME, 5]), device),
        }
    }

    /// All frames of a walk, `[batch, time, pixels]`.
    fn observations(walk: &Walk) -> Tensor<3> {
        let rows = rows_of(walk.seen.iter().copied(), &walk.frames.device());
        let frames = walk.frames.clone().select(0, rows);
        frames.reshape([BATCH, TIME, FRAME.size()])
    }

    const KINDS: [(TransitionKind, usize); 4] = [
        (TransitionKind::Linear, 2),
        (TransitionKind::Walls, 2),
        (TransitionKind::Rotation, 3),
        (TransitionKind::Momentum, 3),
    ];

    /// With one entry and K = 1 the mixture is a Gaussian, and its KL the closed form.
    #[test]
    fn a_single_entry_is_a_gaussian() {
        let device = Device::default();
        let config = GtmSmConfig {
            latent: 2,
            hidden: 5,
            neighbours: 1,
            ..GtmSmConfig::default()
        };
        let world = WalkedWorld {
            frame: FRAME,
            actions: 5,
            place: 2,
            opposites: &[[0, 1], [2, 3]],
            memorise: 1,
        };
        let stream = ChaCha8Rng::seed_from_u64(3);
        let model = config
            .init(&world, &mut Initializer::new(stream, device.clone()))
            .unwrap();
        let walk = walk(&device);
        let noise = ElboNoise {
            latent: numbers([BATCH * (TIME - 1), 2], 5, &device),
            place: None,
        };
        let elbo = model.elbo(&walk, noise);
        let rows = |steps: std::ops::Range<usize>, row: usize| {
            let frames = walk.seen[row * TIME..][steps].iter().copied();
            model.code(walk.frames.clone().select(0, rows_of(frames, &device)))
        };
        for row in 0..BATCH {
            let first = rows(0..1, row);
            let repeated = |all: Tensor<2>| all.repeat_dim(0, TIME - 1);
            let expected = DiagonalGaussian {
                mean: repeated(first.mean),
                log_std: repeated(first.log_std),
            };
            let code = rows(1..TIME, row);
            let kl = expected.kl_from(&code, &code.mean);
            let found = elbo.kl.clone().narrow(0, row, 1).reshape([TIME - 1]);
            found
                .into_data()
                .assert_approx_eq::<f32>(&kl.into_data(), Tolerance::absolute(1e-4));
        }
    }

    /// The bound computed for all predicted steps at once is that of the time loop, and so are its gradients.
    #[test]
    fn the_bound_at_once_is_that_of_the_time_loop() {
        let device = Device::default().autodiff();
        for (kind, place) in KINDS {
            for (prior, landmarks) in [
                (PriorKind::Mixture, 0),
                (PriorKind::Mlp, 0),
                (PriorKind::Mixture, 2),
            ] {
                let config = GtmSmConfig {
                    landmarks,
                    ..of_kind(kind, prior)
                };
                let model = model(config, place, &device).unwrap();
                let walk = walk(&device);
                let predicted = TIME - MEMORISE;
                let latent = numbers([TIME, BATCH, 2], 5, &device);
                let places = numbers([TIME, BATCH, place], 6, &device);
                let noise = ElboNoise {
                    latent: latent
                        .clone()
                        .narrow(0, MEMORISE, predicted)
                        .swap_dims(0, 1)
                        .reshape([BATCH * predicted, 2]),
                    place: Some(places.clone().swap_dims(0, 1)),
                };
                let elbo = model.elbo(&walk, noise);
                let filtered = filter(
                    &model,
                    observations(&walk),
                    Some(walk.actions.clone()),
                    Tensor::cat(vec![latent, places], 2),
                    None,
                );
                let tolerance = Tolerance::<f32>::rel_abs(1e-4, 1e-4);
                for (at_once, stepwise) in [
                    (&elbo.reconstruction, &filtered.reconstruction),
                    (&elbo.kl, &filtered.kl),
                ] {
                    let stepwise = stepwise
                        .clone()
                        .swap_dims(0, 1)
                        .narrow(1, MEMORISE, predicted);
                    let at_once = at_once.clone().into_data();
                    at_once.assert_approx_eq(&stepwise.into_data(), tolerance);
                }
                let bound = |r: Tensor<2>, kl: Tensor<2>| (r - kl).sum().backward();
                let moves = model.transition.moves.val();
                let first = moves.grad(&bound(elbo.reconstruction, elbo.kl)).unwrap();
                let second = moves
                    .grad(&bound(filtered.reconstruction, filtered.kl))
                    .unwrap();
                let tolerance = Tolerance::<f32>::rel_abs(2e-3, 2e-3);
                first
                    .into_data()
                    .assert_approx_eq(&second.into_data(), tolerance);
            }
        }
    }

    /// Memorised, the model generates: one frame for each action, without looking.
    #[test]
    fn generation_goes_on_in_the_memorised_world() {
        let device = Device::default();
        let model = model(
            of_kind(TransitionKind::Walls, PriorKind::Mixture),
            2,
            &device,
        )
        .unwrap();
        let walk = walk(&device);
        let frames = observations(&walk).narrow(1, 0, MEMORISE);
        let noise = numbers([MEMORISE, BATCH, model.noise_size()], 8, &device);
        let conditions = walk.actions.clone().narrow(1, 0, MEMORISE);
        let state = follow(&model, frames, Some(conditions), noise, None);
        assert_eq!(state.memory.len(), MEMORISE);
        assert_eq!(model.scored_from(&state), 0);
        let steps = TIME - MEMORISE;
        let noise = numbers([steps, BATCH, model.generation_noise()], 9, &device);
        let conditions = walk.actions.narrow(1, MEMORISE, steps);
        let generated = generate(&model, state, Some(conditions), noise, |_, frame| {
            frame.mean()
        });
        assert_eq!(generated.frames.dims(), [BATCH, steps, FRAME.size()]);
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let device = Device::default();
        let refused =
            |config: GtmSmConfig, place| model(config, place, &device).unwrap_err().to_string();
        let rotation = of_kind(TransitionKind::Rotation, PriorKind::Mixture);
        assert!(refused(rotation, 2).contains("'rotation' needs places of 3 numbers"));
        let loud = GtmSmConfig {
            pixel_std: f64::NAN,
            ..GtmSmConfig::default()
        };
        assert!(refused(loud, 2).contains("pixel_std is NaN"));
        let world = WalkedWorld {
            frame: FRAME,
            actions: 5,
            place: 2,
            opposites: &[],
            memorise: 4,
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device);
        let error = GtmSmConfig::default().init(&world, &mut init).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("5 neighbours are read from a memory of 4"),
            "{error}"
        );
    }
}
