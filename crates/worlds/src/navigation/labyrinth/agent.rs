//! The agent: eight actions, momentum, and the displacement that follows.

use std::f32::consts::TAU;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::map::Map;
use super::physics;
use crate::Error;
use crate::settings::check_fraction;

/// The names of the actions, in the order of [`Action::ALL`].
pub const ACTIONS: [&str; 8] = [
    "forward",
    "back",
    "strafe-left",
    "strafe-right",
    "turn-left",
    "turn-right",
    "forward-left",
    "forward-right",
];

/// What an agent can do at a step. Left and right are its own; it sees the map turn the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Walk ahead.
    Forward,
    /// Walk backwards.
    Back,
    /// Step to the left, looking ahead.
    StrafeLeft,
    /// Step to the right, looking ahead.
    StrafeRight,
    /// Turn to the left on the spot.
    TurnLeft,
    /// Turn to the right on the spot.
    TurnRight,
    /// Walk ahead and turn to the left.
    ForwardLeft,
    /// Walk ahead and turn to the right.
    ForwardRight,
}

impl Action {
    /// All actions, in the order of their numbers.
    pub const ALL: [Action; 8] = [
        Action::Forward,
        Action::Back,
        Action::StrafeLeft,
        Action::StrafeRight,
        Action::TurnLeft,
        Action::TurnRight,
        Action::ForwardLeft,
        Action::ForwardRight,
    ];

    /// The direction (forward, to the right, turn to the right) that it pushes in.
    pub fn direction(self) -> [f32; 3] {
        match self {
            Action::Forward => [1.0, 0.0, 0.0],
            Action::Back => [-1.0, 0.0, 0.0],
            Action::StrafeLeft => [0.0, -1.0, 0.0],
            Action::StrafeRight => [0.0, 1.0, 0.0],
            Action::TurnLeft => [0.0, 0.0, -1.0],
            Action::TurnRight => [0.0, 0.0, 1.0],
            Action::ForwardLeft => [1.0, 0.0, -1.0],
            Action::ForwardRight => [1.0, 0.0, 1.0],
        }
    }
}

/// How an agent moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// Largest speed in cells per step, from 0.01 to 0.5.
    pub speed: f32,
    /// Steps of a full turn at the largest speed of turning, from 4 to 1000.
    pub period: f32,
    /// Share of the last velocity that is kept, from 0 to 0.95.
    pub momentum: f32,
    /// The velocity that an action would lead to without a largest speed, over the largest speed; from 1 to 10.
    pub push: f32,
    /// Half of the agent's width in cells, from 0.05 to 0.35.
    pub radius: f32,
}

impl Default for AgentConfig {
    fn default() -> AgentConfig {
        AgentConfig {
            speed: 0.2,
            period: 30.0,
            momentum: 0.7,
            push: 1.25,
            radius: 0.2,
        }
    }
}

impl AgentConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        check_fraction(
            "task.agent.speed",
            self.speed,
            0.01..=0.5,
            "the largest speed must be from 0.01 to 0.5 cells per step",
        )?;
        check_fraction(
            "task.agent.period",
            self.period,
            4.0..=1000.0,
            "a full turn must take from 4 to 1000 steps",
        )?;
        check_fraction(
            "task.agent.momentum",
            self.momentum,
            0.0..=0.95,
            "the share of the last velocity that is kept must be from 0 to 0.95",
        )?;
        check_fraction(
            "task.agent.push",
            self.push,
            1.0..=10.0,
            "the push of an action must be from 1 to 10 times the largest speed",
        )?;
        check_fraction(
            "task.agent.radius",
            self.radius,
            0.05..=0.35,
            "the agent's radius must be from 0.05 to 0.35 cells",
        )
    }

    /// The largest velocity in each of the agent's own directions: cells, cells and radians per step.
    pub fn fastest(&self) -> [f32; 3] {
        [self.speed, self.speed, TAU / self.period]
    }
}

/// Where an agent is, and how it moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agent {
    /// (x to the right, y down, heading): cells, cells and radians. At heading 0 the agent looks along x; the heading
    /// grows as it turns to the right, and a full turn adds 2 pi to it.
    pub place: [f32; 3],
    /// (forward, to the right, turn to the right) per step.
    pub velocity: [f32; 3],
}

/// What came of an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// The true displacement (forward, to the right, turn to the right), in the directions that the agent had before
    /// the step.
    pub displacement: [f32; 3],
    /// Whether a wall or an obstacle stopped the move or a part of it.
    pub blocked: bool,
}

impl Agent {
    /// An agent at rest.
    pub fn new([x, y]: [f32; 2], heading: f32) -> Agent {
        Agent {
            place: [x, y, heading],
            velocity: [0.0; 3],
        }
    }

    /// Its place without the heading.
    pub fn position(&self) -> [f32; 2] {
        [self.place[0], self.place[1]]
    }

    /// The velocity after an action: `v_t = momentum * v_{t-1} + (1 - momentum) * push`, then each component capped
    /// at the largest speed (supplement 1.9).
    fn accelerated(&self, action: Action, config: &AgentConfig) -> [f32; 3] {
        let (direction, fastest) = (action.direction(), config.fastest());
        std::array::from_fn(|axis| {
            let push = config.push * fastest[axis] * direction[axis];
            let velocity = config.momentum * self.velocity[axis] + (1.0 - config.momentum) * push;
            velocity.clamp(-fastest[axis], fastest[axis])
        })
    }

    /// The agent after an action in a world without walls: `place_t = place_{t-1} + Rot(heading_{t-1}) v_t` (GTM-SM,
    /// equation 5).
    pub fn glide(&self, action: Action, config: &AgentConfig) -> Agent {
        let velocity = self.accelerated(action, config);
        let [x, y] = rotated([velocity[0], velocity[1]], self.place[2]);
        Agent {
            place: [
                self.place[0] + x,
                self.place[1] + y,
                self.place[2] + velocity[2],
            ],
            velocity,
        }
    }

    /// Does an action among the walls and obstacles of a map.
    ///
    /// What stops it takes its momentum, too: the velocity that is kept is the true displacement.
    pub fn step(&mut self, action: Action, config: &AgentConfig, map: &Map) -> Moved {
        let wanted = self.glide(action, config);
        let [x, y] = self.position();
        let step = [wanted.place[0] - x, wanted.place[1] - y];
        let (position, blocked) = physics::slide(map, [x, y], step, config.radius);
        let heading = self.place[2];
        *self = wanted;
        if blocked {
            let [forward, sideways] = rotated([position[0] - x, position[1] - y], -heading);
            self.place = [position[0], position[1], wanted.place[2]];
            self.velocity = [forward, sideways, wanted.velocity[2]];
        }
        Moved {
            displacement: self.velocity,
            blocked,
        }
    }
}

/// A vector turned by an angle from x towards y.
fn rotated([x, y]: [f32; 2], angle: f32) -> [f32; 2] {
    let (sin, cos) = angle.sin_cos();
    [cos * x - sin * y, sin * x + cos * y]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use crate::navigation::labyrinth::MapConfig;
    use proptest::prelude::*;

    #[test]
    fn velocity_grows_and_is_capped() {
        let config = AgentConfig::default();
        let mut agent = Agent::new([0.0; 2], 0.0);
        agent = agent.glide(Action::Forward, &config);
        assert!((agent.velocity[0] - 0.3 * 1.25 * 0.2).abs() < 1e-6);
        for _ in 0..20 {
            agent = agent.glide(Action::Forward, &config);
        }
        assert_eq!(agent.velocity, [0.2, 0.0, 0.0]);
        agent = agent.glide(Action::TurnLeft, &config);
        assert!((agent.velocity[0] - 0.7 * 0.2).abs() < 1e-6);
    }

    #[test]
    fn directions_are_the_agents_own() {
        let config = AgentConfig {
            momentum: 0.0,
            ..AgentConfig::default()
        };
        // Looking along y, which points down on the map: the agent's right is towards smaller x.
        let agent = Agent::new([3.0, 3.0], TAU / 4.0);
        let near = |place: [f32; 3], wanted: [f32; 2]| {
            assert!((place[0] - wanted[0]).abs() < 1e-6 && (place[1] - wanted[1]).abs() < 1e-6);
        };
        near(agent.glide(Action::Forward, &config).place, [3.0, 3.2]);
        near(agent.glide(Action::Back, &config).place, [3.0, 2.8]);
        near(agent.glide(Action::StrafeRight, &config).place, [2.8, 3.0]);
        near(agent.glide(Action::StrafeLeft, &config).place, [3.2, 3.0]);
        assert!(agent.glide(Action::TurnRight, &config).place[2] > agent.place[2]);
        assert!(agent.glide(Action::ForwardLeft, &config).place[2] < agent.place[2]);
    }

    proptest! {
        /// Displacements, turned by the heading before the step and summed, give the places, with or without walls in
        /// the way.
        #[test]
        fn displacements_integrate_to_places(
            seed: u64,
            actions in prop::collection::vec(0usize..8, 1..200),
        ) {
            let map = MapConfig { objects: 3, ..MapConfig::default() };
            let map = Map::new(&map, &mut Stream::new(seed, "test").at(0)).expect("in range");
            let config = AgentConfig::default();
            let mut agent = Agent::new(map.centre(map.walkable()[0]), 1.0);
            let mut sum = agent.place.map(f64::from);
            for action in actions {
                let heading = sum[2];
                let moved = agent.step(Action::ALL[action], &config, &map);
                let [forward, sideways, turn] = moved.displacement.map(f64::from);
                sum[0] += heading.cos() * forward - heading.sin() * sideways;
                sum[1] += heading.sin() * forward + heading.cos() * sideways;
                sum[2] += turn;
            }
            for (true_value, summed) in agent.place.into_iter().zip(sum) {
                prop_assert!((f64::from(true_value) - summed).abs() < 1e-3);
            }
            prop_assert!(physics::is_free(&map, agent.position(), config.radius));
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let config = AgentConfig {
            speed: 0.7,
            ..AgentConfig::default()
        };
        assert_eq!(
            config.check().expect_err("too fast").to_string(),
            "task.agent.speed = 0.7: the largest speed must be from 0.01 to 0.5 cells per step"
        );
    }
}
