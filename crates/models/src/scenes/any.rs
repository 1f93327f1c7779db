//! Any of the models of scenes: what learning, evaluation and pictures need of one. A new model of scenes is added here.

use super::{
    Cgqn, Gqn, KnownScene, Latents, SceneBound, Sssm, Video, Views, repeated, story::Beginning,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mnemora_memory::Count;

/// A model of scenes.
// There is one value per model, so the size of the largest variant does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
pub enum AnyScenes {
    /// The consistent GQN, the factored GQN, or the same networks without latents.
    Cgqn(Cgqn),
    /// The GQN in its original form.
    Gqn(Gqn),
    /// SV2P or CDNA.
    Video(Video),
    /// The stochastic state-space model.
    Sssm(Sssm),
}

/// What a model knows of some scenes, from their contexts.
// There is one value per batch.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Known {
    /// What representations of views tell.
    Scene(KnownScene),
    /// The sum of the representations of each scene's views, `[scenes, channels, ..]`.
    Summed(Tensor<4>),
    /// The first frames of stories.
    Beginning(Beginning),
    /// The same, with the state after them, `[scenes, channels, ..]`.
    State(Beginning, Tensor<4>),
}

impl Known {
    /// As often as `times` for each scene, for as many samples of it.
    pub fn repeated(&self, times: usize) -> Self {
        match self {
            Self::Scene(known) => Self::Scene(known.repeated(times)),
            Self::Summed(sum) => Self::Summed(repeated(sum.clone(), times)),
            Self::Beginning(beginning) => Self::Beginning(beginning.repeated(times)),
            Self::State(beginning, state) => {
                Self::State(beginning.repeated(times), repeated(state.clone(), times))
            }
        }
    }
}

/// What an update has besides its batch.
#[derive(Clone, Debug)]
pub struct Learning {
    /// Its number, from 1.
    pub update: u64,
    /// Variance of a pixel. SV2P and CDNA, which minimise a mean squared error, do not read it.
    pub variance: f64,
    /// Standard normal, `[scenes, noise_size(targets)]`.
    pub noise: Tensor<2>,
    /// Uniform in [0, 1), [as many](AnyScenes::choices) as the model needs.
    pub choices: Vec<f64>,
}

/// What a model makes of a batch that it learns from.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The loss, mean over the scenes, `[1]`.
    pub loss: Tensor<1>,
    /// The parts of the bound.
    pub bound: SceneBound,
}

impl AnyScenes {
    /// The device that the model is on.
    pub fn device(&self) -> Device {
        match self {
            Self::Cgqn(model) => model.device(),
            Self::Gqn(model) => model.device(),
            Self::Video(model) => model.device(),
            Self::Sssm(model) => model.device(),
        }
    }

    /// Whether it has latents with a posterior that sees targets.
    pub fn has_posterior(&self) -> bool {
        match self {
            Self::Cgqn(model) => model.latents() != Latents::None,
            Self::Video(model) => model.tower.is_some(),
            Self::Gqn(_) | Self::Sssm(_) => true,
        }
    }

    /// Whether it learns from whole stories: the context are their first frames, the targets all others, both in the order
    /// of time. Its bound is that of such targets alone; samples can be asked for at any times.
    pub fn tells_stories(&self) -> bool {
        !matches!(self, Self::Cgqn(_) | Self::Gqn(_))
    }

    /// Whether a context can have this many views; of a story, its first ones.
    pub fn takes(&self, context: usize) -> bool {
        match self {
            Self::Cgqn(_) | Self::Gqn(_) => true,
            Self::Video(_) => context > 0,
            Self::Sssm(model) => context == model.seen(),
        }
    }

    /// Why the model has no answer of its own to a query, after a context of `context` views; `None` if it has one. A
    /// predictor of stories answers at the times of the frames that follow its context.
    pub fn unanswerable(&self, query: &[f32], context: usize) -> Option<String> {
        let moments = match self {
            Self::Cgqn(_) | Self::Gqn(_) => return None,
            Self::Video(model) => model.moments(),
            Self::Sssm(model) => model.moments(),
        };
        let time = query.first().copied().unwrap_or(f32::NAN);
        let number = time * moments as f32;
        let follows = (context + 1..=moments).contains(&(number.round() as usize));
        let answered = follows && (number - number.round()).abs() < 1e-3;
        (!answered).then(|| {
            format!(
                "the time {time} is not that of a frame after the context: it must be k / {moments} with k from {} to \
                 {moments}",
                context + 1
            )
        })
    }

    /// The names of its parts, each with the path of the part's parameters.
    pub fn parts(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Cgqn(model) => {
                let mut parts = vec![("representation", "representation")];
                if model.draw.is_some() {
                    parts.push(("prior", "draw.prior"));
                    parts.push(("posterior", "draw.posterior"));
                }
                parts.push(("renderer", "renderer"));
                parts
            }
            Self::Gqn(_) => vec![("representation", "representation"), ("steps", "steps")],
            Self::Video(model) => {
                let mut parts = vec![("predictor", "predictor")];
                parts.extend(model.tower.as_ref().map(|_| ("posterior", "tower")));
                parts
            }
            Self::Sssm(model) => {
                let mut parts = vec![
                    ("encoder", "reader"),
                    ("first state", "beginning"),
                    ("transition", "transition"),
                    ("prior", "prior"),
                    ("posterior", "posterior"),
                    ("decoder", "drawer"),
                ];
                parts.extend(model.backward.as_ref().map(|_| ("backward", "backward")));
                parts
            }
        }
    }

    /// Numbers that the graph of an update keeps for a scene.
    pub fn kept(&self, context: usize, targets: usize) -> Count {
        match self {
            Self::Cgqn(model) => model.kept(context, targets),
            Self::Gqn(model) => model.kept(context, targets),
            Self::Video(model) => model.kept(),
            Self::Sssm(model) => model.kept(),
        }
    }

    /// Standard normal numbers that a scene with `targets` targets needs.
    pub fn noise_size(&self, targets: usize) -> usize {
        match self {
            Self::Cgqn(model) => model.noise_size(targets),
            Self::Gqn(model) => model.noise_size(targets),
            Self::Video(model) => model.noise_size(),
            Self::Sssm(model) => model.noise_size(),
        }
    }

    /// Uniform numbers that an update of `scenes` scenes with `targets` targets needs.
    pub fn choices(&self, scenes: usize, targets: usize) -> usize {
        match self {
            Self::Cgqn(model) => usize::from(model.draws_posterior_targets()),
            Self::Gqn(_) | Self::Sssm(_) => 0,
            Self::Video(model) => model.choices(scenes, targets),
        }
    }

    /// What is known of `scenes` scenes.
    ///
    /// # Panics
    /// If the model [takes](Self::takes) no such context.
    pub fn know(&self, context: Option<&Views>, scenes: usize) -> Known {
        let count = context.map_or(0, |views| views.each);
        assert!(self.takes(count), "a context of {count} views");
        match self {
            Self::Cgqn(model) => Known::Scene(model.represent(context, scenes)),
            Self::Gqn(model) => Known::Summed(model.represent(context, scenes)),
            Self::Video(_) => Known::Beginning(Beginning::of(context)),
            Self::Sssm(model) => {
                let beginning = Beginning::of(context);
                let state = model.begin(&beginning);
                Known::State(beginning, state)
            }
        }
    }

    /// The loss of a batch; `known` is what this model [knows](Self::know), and of a story the targets are all that follow.
    pub fn learn(&self, known: &Known, targets: &Views, learning: Learning) -> Learned {
        match (self, known) {
            (Self::Cgqn(model), Known::Scene(known)) => {
                let bound = match learning.choices.as_slice() {
                    [choice] => model.bound_drawn(known, targets, learning.noise, *choice),
                    _ => model.bound(known, targets, learning.noise),
                };
                let loss = bound.without_constant(learning.variance).mean().neg();
                Learned { loss, bound }
            }
            (Self::Gqn(model), Known::Summed(context)) => {
                let bound = model.bound(context.clone(), targets, learning.noise);
                let loss = bound.without_constant(learning.variance).mean().neg();
                Learned { loss, bound }
            }
            (Self::Video(model), Known::Beginning(beginning)) => {
                model.learn(beginning, targets, learning)
            }
            (Self::Sssm(model), Known::State(_, state)) => {
                model.learn(state.clone(), targets, learning)
            }
            _ => unreachable!("{OTHERS}"),
        }
    }

    /// The parts of the bound, with one sample of the posterior; `noise` is standard normal,
    /// `[scenes, noise_size(targets)]`. For `known` and `targets` see [`learn`](Self::learn).
    pub fn bound(&self, known: &Known, targets: &Views, noise: Tensor<2>) -> SceneBound {
        match (self, known) {
            (Self::Cgqn(model), Known::Scene(known)) => model.bound(known, targets, noise),
            (Self::Gqn(model), Known::Summed(context)) => {
                model.bound(context.clone(), targets, noise)
            }
            (Self::Video(model), Known::Beginning(beginning)) => {
                model.bound(beginning, targets, noise)
            }
            (Self::Sssm(model), Known::State(_, state)) => {
                model.bound(state.clone(), targets, noise)
            }
            _ => unreachable!("{OTHERS}"),
        }
    }

    /// Frames of as many queries of every scene, with latents from the prior: `[queries, channels, height, width]`.
    /// A predictor of stories gives the frame nearest to each time. At times of the context it gives what it makes of them,
    /// or where it makes nothing of them, the frames that it was given; see [`Video::sample`] and [`Sssm::sample`].
    ///
    /// # Shapes
    /// - `queries`: `[scenes * each, query]`, those of one scene after those of another
    /// - `noise`: standard normal, `[scenes, noise_size(each)]`
    pub fn sample(&self, known: &Known, queries: Tensor<2>, noise: Tensor<2>) -> Tensor<4> {
        match (self, known) {
            (Self::Cgqn(model), Known::Scene(known)) => model.sample(known, queries, noise),
            (Self::Gqn(model), Known::Summed(context)) => {
                model.sample(context.clone(), queries, noise)
            }
            (Self::Video(model), Known::Beginning(beginning)) => {
                model.sample(beginning, queries, noise)
            }
            (Self::Sssm(model), Known::State(beginning, state)) => {
                model.sample(beginning, state.clone(), queries, noise)
            }
            _ => unreachable!("{OTHERS}"),
        }
    }
}

const OTHERS: &str = "what one model knows is used with the same model";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CdnaConfig, ImageShape};
    use mnemora_memory::Initializer;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    #[test]
    fn a_predictor_answers_at_the_times_of_frames_that_follow() {
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let config = CdnaConfig {
            width: 1,
            kernel: 1,
            grid: 2,
            ..CdnaConfig::default()
        };
        let frame = ImageShape {
            channels: 1,
            height: 8,
            width: 8,
        };
        let model = AnyScenes::Video(config.init(frame, 20, &mut init).unwrap());
        assert!(model.tells_stories() && model.takes(1) && !model.takes(0));
        for time in [0.35, 0.5, 1.0] {
            assert_eq!(model.unanswerable(&[time], 6), None);
        }
        for time in [0.3, 0.36, 1.05, -0.5, f32::NAN] {
            let said = model.unanswerable(&[time], 6).unwrap();
            let expected = format!(
                "the time {time} is not that of a frame after the context: it must be k / 20 with k from 7 to 20"
            );
            assert_eq!(said, expected);
        }
    }
}
