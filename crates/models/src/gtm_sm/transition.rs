//! The transitions of the state-space model: how an action changes the place (gtm-sm, sections 4.1 and 4.2).

use crate::{
    ModelError,
    mlp::{Activation, Head},
};
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Tensor, activation},
};
use mnemora_kernels::{
    split::split_rows,
    walls::{Gate, fused_walk},
};
use mnemora_memory::Initializer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an action changes the place.
///
/// ```text
/// linear     s_t = s_{t-1} + d_t,          d_t = A a_t
/// walls      s_t = s_{t-1} + d_t,          d_t = g(s_{t-1} + A a_t) A a_t, with 0 < g < 1       (equation 4)
/// rotation   s_t = s_{t-1} + Rot(u) d_t,   d_t = A a_t; u, the last number of s_{t-1}, is the heading (equation 5)
/// momentum   as rotation,                  d_t = b tanh(A a_t + sig(c) d_{t-1})
/// ```
///
/// and to each place comes normal noise of the standard deviation `r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransitionKind {
    /// Every action is a step of its own.
    Linear,
    /// A learned number between 0 and 1, which depends on where the step would lead, shortens it.
    Walls,
    /// Steps are taken in the agent's own directions.
    Rotation,
    /// The same with momentum: a share `sig(c)` of the last step goes on, and `b` is the largest step. The paper's
    /// `b tanh(..)` would multiply that share by `b`, which is a fifth of a radian for an agent that turns slowly; so
    /// the argument is divided by `b`.
    Momentum,
}

impl TransitionKind {
    /// The name used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Walls => "walls",
            Self::Rotation => "rotation",
            Self::Momentum => "momentum",
        }
    }
}

/// The first value of `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Every action moves in a random direction.
    Random,
    /// As `random`, but opposite actions have opposite directions, and an action without an opposite moves nowhere.
    Opposites,
}

/// Settings of a [`Transition`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TransitionConfig {
    /// How an action changes the place.
    pub kind: TransitionKind,
    /// The first value of `A`.
    pub start: Start,
    /// The length of its first steps.
    pub scale: f64,
    /// Hidden units of each of the two layers of `g`, for the kind `walls`.
    pub wall_hidden: usize,
    /// The standard deviation `r` of a step.
    pub noise: f64,
}

impl Default for TransitionConfig {
    fn default() -> Self {
        Self {
            kind: TransitionKind::Walls,
            start: Start::Opposites,
            scale: 1.0,
            wall_hidden: 32,
            noise: 1e-3,
        }
    }
}

/// The first value of `g`, half way between its limits: near one of them it learns slowly, and steps as long as `g` and `A`
/// together make them can grow by either.
const OPEN: f64 = 0.5;
/// Factor of the last weights of `g` at first: walls are nowhere in particular.
const FAINT: f64 = 0.1;

/// `p(s_t | s_{t-1}, a_t)`
#[derive(Module, Debug)]
pub struct Transition {
    /// `A` transposed, `[actions, place]`.
    pub moves: Param<Tensor<2>>,
    /// `g`, from a place to the logit of a number between 0 and 1; for the kind `walls`.
    pub walls: Option<Head>,
    /// `log b`, `[place]`, of the largest step in each direction; for the kind `momentum`.
    pub log_speed: Option<Param<Tensor<1>>>,
    /// `c`, `[place]`: the share `sigmoid(c)` of the last step goes on; for the kind `momentum`.
    pub glide: Option<Param<Tensor<1>>>,
    /// Whether the kind `walls` has no walls yet: `g` is its first value, 1/2, everywhere.
    pub open: bool,
    #[module(skip)]
    kind: TransitionKind,
    noise: f64,
}

/// Where the model believes the agent to be.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    /// `s_t`, `[batch, place]`.
    pub place: Tensor<2>,
    /// `d_t`, the last displacement without noise, `[batch, place]`; for the kinds `rotation` and `momentum` in the
    /// agent's own directions.
    pub displacement: Tensor<2>,
}

mnemora_memory::bundle!(Whereabouts {
    place,
    displacement
});

/// The places of a walk.
#[derive(Clone, Debug)]
pub struct Rolled {
    /// `s_1 .. s_T`, `[batch, time, place]`.
    pub places: Tensor<3>,
    /// `d_1 .. d_T`, `[batch, time, place]`.
    pub displacements: Tensor<3>,
    /// The state after the last step.
    pub last: Whereabouts,
}

impl TransitionConfig {
    /// Numbers of a place that the kind needs; any number if `None`.
    fn place(&self) -> Option<usize> {
        match self.kind {
            TransitionKind::Linear | TransitionKind::Walls => None,
            TransitionKind::Rotation | TransitionKind::Momentum => Some(3),
        }
    }

    /// Builds it for `actions` actions and places of `place` numbers. `opposites` are pairs of opposite actions.
    ///
    /// # Errors
    /// If a size is 0, if the kind needs places of another size, or if a number is out of its range.
    pub fn init(
        &self,
        [actions, place]: [usize; 2],
        opposites: &[[usize; 2]],
        init: &mut Initializer,
    ) -> Result<Transition, ModelError> {
        ModelError::require_positive(&[
            ("actions", actions),
            ("place", place),
            ("transition.wall_hidden", self.wall_hidden),
        ])?;
        if let Some(needed) = self.place()
            && needed != place
        {
            return Err(ModelError::Place {
                kind: self.kind.as_str(),
                needed,
                place,
            });
        }
        for (key, value) in [
            ("transition.scale", self.scale),
            ("transition.noise", self.noise),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(ModelError::NotPositive { key, value });
            }
        }
        let walls = (self.kind == TransitionKind::Walls).then(|| {
            let mut walls = Head::new([place, 1], 2, self.wall_hidden, Activation::Relu, init);
            walls.output.weight = init.normal(
                [self.wall_hidden, 1],
                FAINT / (self.wall_hidden as f64).sqrt(),
            );
            walls.output.bias = Some(init.constant([1], 0.0));
            walls
        });
        let momentum = self.kind == TransitionKind::Momentum;
        Ok(Transition {
            moves: first_moves([actions, place], self, opposites, init),
            walls,
            log_speed: momentum.then(|| init.constant([place], 0.0)),
            glide: momentum.then(|| init.constant([place], 0.0)),
            open: false,
            kind: self.kind,
            noise: self.noise,
        })
    }
}

/// Steps of one length in random directions, `[actions, place]`.
fn first_moves(
    [actions, place]: [usize; 2],
    config: &TransitionConfig,
    opposites: &[[usize; 2]],
    init: &mut Initializer,
) -> Param<Tensor<2>> {
    let (scale, start) = (config.scale as f32, config.start);
    init.parameter([actions, place], |draws| {
        let mut moves = vec![0.0; actions * place];
        for step in moves.chunks_mut(place) {
            step.copy_from_slice(&draws.direction(place));
        }
        if start == Start::Opposites {
            let mut tied = vec![0.0; actions * place];
            for [one, other] in opposites {
                for number in 0..place {
                    tied[one * place + number] = moves[one * place + number];
                    tied[other * place + number] = -moves[one * place + number];
                }
            }
            moves = tied;
        }
        moves.into_iter().map(|number| scale * number).collect()
    })
}

impl Transition {
    /// Numbers of a place.
    pub fn place_size(&self) -> usize {
        self.moves.shape()[1]
    }

    /// Number of actions.
    pub fn actions(&self) -> usize {
        self.moves.shape()[0]
    }

    /// How an action changes the place.
    pub fn kind(&self) -> TransitionKind {
        self.kind
    }

    /// The standard deviation `r` of a step.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// The origin, without a displacement: the state before the first step.
    pub fn origin(&self, batch: usize) -> Whereabouts {
        let zeros = Tensor::zeros([batch, self.place_size()], &self.moves.device());
        Whereabouts {
            place: zeros.clone(),
            displacement: zeros,
        }
    }

    /// `A a` for conditions `[rows, actions]`, one-hot or zero: `[rows, place]`.
    pub fn pushes(&self, actions: Tensor<2>) -> Tensor<2> {
        actions.matmul(self.moves.val())
    }

    /// The next place after `push = A a_t`, `[batch, place]`, with standard normal `noise`, `[batch, place]`. Without
    /// noise it is the mean.
    pub fn step(
        &self,
        push: Tensor<2>,
        noise: Option<Tensor<2>>,
        before: Whereabouts,
    ) -> Whereabouts {
        let Whereabouts {
            place,
            displacement,
        } = before;
        let displacement = match (&self.walls, &self.log_speed, &self.glide) {
            // Equation 4.
            (Some(walls), ..) if !self.open => {
                let share = activation::sigmoid(walls.forward(place.clone() + push.clone()));
                push * share
            }
            (Some(_), ..) => push.mul_scalar(OPEN),
            (_, Some(log_speed), Some(glide)) => {
                let glide = activation::sigmoid(glide.val()).unsqueeze_dim::<2>(0);
                let speed = log_speed.val().exp().unsqueeze_dim::<2>(0);
                let pushed = push + displacement * glide;
                (pushed / speed.clone()).tanh() * speed
            }
            _ => push,
        };
        let moved = match self.kind {
            TransitionKind::Linear | TransitionKind::Walls => displacement.clone(),
            TransitionKind::Rotation | TransitionKind::Momentum => {
                turned(displacement.clone(), place.clone().narrow(1, 2, 1))
            }
        };
        let mean = place + moved;
        Whereabouts {
            place: self.drawn(mean, noise),
            displacement,
        }
    }

    /// A place `N(mean, r^2)`, `[batch, place]`, with standard normal `noise`; the mean without it.
    pub fn drawn(&self, mean: Tensor<2>, noise: Option<Tensor<2>>) -> Tensor<2> {
        match noise {
            None => mean,
            Some(noise) => mean + noise.mul_scalar(self.noise),
        }
    }

    /// The places of a walk: `actions`, `[batch, time, actions]`; standard normal `noise`, `[batch, time, place]`.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn roll(&self, actions: Tensor<3>, noise: Option<Tensor<3>>, from: Whereabouts) -> Rolled {
        let [batch, time, width] = actions.dims();
        let place = self.place_size();
        // What does not depend on the place is computed once for all steps.
        let pushes = self.pushes(actions.swap_dims(0, 1).reshape([time * batch, width]));
        let noise = noise.map(|noise| noise.swap_dims(0, 1).reshape([time * batch, place]));
        if let Some(rolled) = self.fused_roll(&pushes, noise.as_ref(), &from) {
            return rolled;
        }
        let noise: Vec<Option<Tensor<2>>> = match noise {
            None => vec![None; time],
            Some(noise) => split_rows(noise, time).into_iter().map(Some).collect(),
        };
        let mut now = from;
        let (mut places, mut displacements) = (Vec::new(), Vec::new());
        for (push, noise) in split_rows(pushes, time).into_iter().zip(noise) {
            now = self.step(push, noise, now);
            places.push(now.place.clone());
            displacements.push(now.displacement.clone());
        }
        Rolled {
            places: Tensor::stack(places, 1),
            displacements: Tensor::stack(displacements, 1),
            last: now,
        }
    }

    /// All steps with walls (equation 4) at once, from pushes and noise `[time * batch, place]`. `None` for other kinds,
    /// or if the device has no kernel.
    fn fused_roll(
        &self,
        pushes: &Tensor<2>,
        noise: Option<&Tensor<2>>,
        from: &Whereabouts,
    ) -> Option<Rolled> {
        let walls = self.walls.as_ref().filter(|_| !self.open)?;
        let [first, second] = &walls.hidden.layers[..] else {
            return None;
        };
        let of = |layer: &Linear| Some((layer.weight.val(), layer.bias.as_ref()?.val()));
        let gate = Gate {
            first: of(first)?,
            second: of(second)?,
            output: of(&walls.output)?,
        };
        let noise = match noise {
            None => pushes.zeros_like(),
            Some(noise) => noise.clone().mul_scalar(self.noise),
        };
        let [places, displacements] = fused_walk(pushes, &noise, &from.place, &gate)?;
        let [batch, place] = from.place.dims();
        let rows = pushes.dims()[0];
        let last = |all: &Tensor<2>| all.clone().narrow(0, rows - batch, batch);
        let by_sequence = |all: &Tensor<2>| {
            let steps = all.clone().reshape([rows / batch, batch, place]);
            steps.swap_dims(0, 1)
        };
        Some(Rolled {
            places: by_sequence(&places),
            displacements: by_sequence(&displacements),
            last: Whereabouts {
                place: last(&places),
                displacement: last(&displacements),
            },
        })
    }
}

/// `Rot(u) d` of equation 5 for displacements `[batch, 3]` and headings `[batch, 1]`: the first two numbers are turned
/// by the heading, the third is a turn.
fn turned(displacement: Tensor<2>, heading: Tensor<2>) -> Tensor<2> {
    let number = |index: usize| displacement.clone().narrow(1, index, 1);
    let (cos, sin) = (heading.clone().cos(), heading.sin());
    let (forward, sideways) = (number(0), number(1));
    let x = cos.clone() * forward.clone() - sin.clone() * sideways.clone();
    let y = sin * forward + cos * sideways;
    Tensor::cat(vec![x, y, number(2)], 1)
}
