//! Batches of walks in labyrinths: the data of GTM-SM 4.2 and GTMM 5.7.
//!
//! Each walk has a map of its own, named by a number that is drawn with the walk. The same number gives other maps for
//! training than for testing.

use std::f32::consts::TAU;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::{ACTIONS, Action, Agent, AgentConfig};
use super::map::{Map, MapConfig};
use super::renderer::Renderer;
use super::view::ViewConfig;
use super::walker::Walker;
use crate::navigation::{Navigation, Walks};
use crate::{Error, FrameShape, Split, Stream, sequence_number};

/// Settings of [`LabyrinthWalks`]. The defaults are those of [`LabyrinthTask::Walking`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WalksConfig {
    /// The maps.
    pub map: MapConfig,
    /// The frames.
    pub view: ViewConfig,
    /// How the agent moves.
    pub agent: AgentConfig,
}

/// What an agent does in a labyrinth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabyrinthTask {
    /// Turns on the spot to one side, with constant speed: two turns in 80 frames (GTM-SM 4.2.1).
    Rotation,
    /// Turns to the right on the spot, from rest: two turns in 30 frames (GTMM 5.7). The views of the second turn lie
    /// between those of the first.
    AcceleratingRotation,
    /// Walks in one room (GTM-SM 4.2.2).
    Walking,
    /// Walks in two rooms or more, from one to the other (GTM-SM, appendix C).
    Rooms,
}

impl LabyrinthTask {
    /// All tasks.
    pub const ALL: [LabyrinthTask; 4] = [
        LabyrinthTask::Rotation,
        LabyrinthTask::AcceleratingRotation,
        LabyrinthTask::Walking,
        LabyrinthTask::Rooms,
    ];

    /// The name that experiments and the command line use.
    pub fn name(self) -> &'static str {
        match self {
            LabyrinthTask::Rotation => "rotation",
            LabyrinthTask::AcceleratingRotation => "accelerating-rotation",
            LabyrinthTask::Walking => "walking",
            LabyrinthTask::Rooms => "rooms",
        }
    }

    /// The task with this name.
    pub fn named(name: &str) -> Option<LabyrinthTask> {
        LabyrinthTask::ALL
            .into_iter()
            .find(|task| task.name() == name)
    }

    /// Frames of a walk in the paper.
    pub fn time(self) -> usize {
        match self {
            LabyrinthTask::Rotation => 80,
            LabyrinthTask::AcceleratingRotation => 30,
            LabyrinthTask::Walking => 300,
            LabyrinthTask::Rooms => 450,
        }
    }

    /// Its settings if the user sets none.
    pub fn config(self) -> WalksConfig {
        let mut config = WalksConfig::default();
        match self {
            // Not a whole number: the second turn sees what lies between the frames of the first.
            LabyrinthTask::Rotation => config.agent.period = 39.6,
            // It speeds up over the first half turn. The first turn takes 15.6 steps, the second 13.4.
            LabyrinthTask::AcceleratingRotation => {
                config.agent.period = 13.4;
                config.agent.momentum = 0.8;
            }
            LabyrinthTask::Walking => {}
            LabyrinthTask::Rooms => config.map.rooms = 2,
        }
        config
    }
}

/// An unlimited source of walks in labyrinths.
///
/// In all of its walks [`Walks::blocked`] is false: the agents turn on the spot, or a [`Walker`] leads them.
#[derive(Clone, Debug)]
pub struct LabyrinthWalks {
    task: LabyrinthTask,
    config: WalksConfig,
    renderer: Renderer,
}

impl LabyrinthWalks {
    /// Walks of a task.
    ///
    /// # Errors
    /// A value of `config` is out of its range.
    pub fn new(task: LabyrinthTask, config: WalksConfig) -> Result<LabyrinthWalks, Error> {
        config.map.check()?;
        config.agent.check()?;
        let renderer = Renderer::new(&config.view)?;
        Ok(LabyrinthWalks {
            task,
            config,
            renderer,
        })
    }

    /// Maps, frames and agents.
    pub fn config(&self) -> &WalksConfig {
        &self.config
    }

    /// What the agents do.
    pub fn task(&self) -> LabyrinthTask {
        self.task
    }

    /// The map with this number; [`Walks::scenes`] has the numbers of a batch.
    pub fn map(&self, split: Split, scene: u32) -> Map {
        let purpose = match split {
            Split::Train => "labyrinth for training",
            Split::Test => "labyrinth for testing",
        };
        let mut generator = Stream::new(u64::from(scene), purpose).at(0);
        Map::generate(&self.config.map, &mut generator)
    }

    /// An agent at its first place, and how it goes on.
    fn begin(&self, map: &Map, generator: &mut ChaCha8Rng) -> (Agent, Conduct) {
        let config = &self.config.agent;
        let start = match self.task {
            LabyrinthTask::Rotation | LabyrinthTask::AcceleratingRotation => {
                Walker::lookout(map, config, generator)
            }
            LabyrinthTask::Walking | LabyrinthTask::Rooms => Walker::start(map, config, generator),
        };
        let mut agent = Agent::new(start, generator.random_range(0.0..TAU));
        let conduct = match self.task {
            LabyrinthTask::Rotation => {
                let turn = [Action::TurnLeft, Action::TurnRight][generator.random_range(0..2)];
                let (fastest, direction) = (config.fastest(), turn.direction());
                agent.velocity = std::array::from_fn(|axis| fastest[axis] * direction[axis]);
                Conduct::Turns(turn)
            }
            LabyrinthTask::AcceleratingRotation => Conduct::Turns(Action::TurnRight),
            LabyrinthTask::Walking | LabyrinthTask::Rooms => Conduct::Walks(Walker::new(map)),
        };
        (agent, conduct)
    }
}

/// How the agent of one walk chooses its actions.
enum Conduct {
    Turns(Action),
    Walks(Walker),
}

impl Navigation for LabyrinthWalks {
    fn name(&self) -> &'static str {
        self.task.name()
    }

    fn frame(&self) -> FrameShape {
        self.renderer.frame()
    }

    fn actions(&self) -> &'static [&'static str] {
        &ACTIONS
    }

    fn place_width(&self) -> usize {
        3
    }

    /// Row `r` is made only from draw [`sequence_number`]`(index, batch, r)` of `stream`. A longer walk begins with the
    /// shorter one.
    fn walks(&self, split: Split, stream: &Stream, index: u64, batch: usize, time: usize) -> Walks {
        let frame = self.frame();
        let steps = batch * time;
        let mut walks = Walks {
            batch,
            time,
            frame,
            frames: vec![0.0; steps * frame.size()],
            seen: (0..steps as u32).collect(),
            actions_count: ACTIONS.len(),
            actions: Vec::with_capacity(steps),
            places: Vec::with_capacity(steps * 3),
            place_width: 3,
            displacements: Vec::with_capacity(steps * 3),
            blocked: Vec::with_capacity(steps),
            scenes: Vec::with_capacity(batch),
        };
        let mut renderer = self.renderer.clone();
        let mut frames = walks.frames.chunks_exact_mut(frame.size());
        for row in 0..batch {
            let mut generator = stream.at(sequence_number(index, batch, row));
            let scene = generator.random();
            walks.scenes.push(scene);
            let map = self.map(split, scene);
            let (mut agent, mut conduct) = self.begin(&map, &mut generator);
            for (step, frame) in frames.by_ref().take(time).enumerate() {
                if step == 0 {
                    walks.actions.push(None);
                    walks.displacements.extend([0.0; 3]);
                    walks.blocked.push(false);
                } else {
                    let action = match &mut conduct {
                        Conduct::Turns(turn) => *turn,
                        Conduct::Walks(walker) => {
                            walker.act(&map, &agent, &self.config.agent, &mut generator)
                        }
                    };
                    let moved = agent.step(action, &self.config.agent, &map);
                    walks.actions.push(Some(action as u8));
                    walks.displacements.extend(moved.displacement);
                    walks.blocked.push(moved.blocked);
                }
                walks.places.extend(agent.place);
                renderer
                    .render(&map, agent.place, frame)
                    .expect("the chunk has the size of a frame");
            }
        }
        walks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walks(task: LabyrinthTask) -> LabyrinthWalks {
        LabyrinthWalks::new(task, task.config()).expect("in range")
    }

    fn headings(walks: &Walks, row: usize) -> Vec<f32> {
        let places = walks.places.chunks_exact(3).skip(row * walks.time);
        places.take(walks.time).map(|place| place[2]).collect()
    }

    #[test]
    fn a_batch_is_a_function_of_its_arguments() {
        let stream = Stream::new(1, "data");
        for task in LabyrinthTask::ALL {
            let source = walks(task);
            let batch = source.walks(Split::Train, &stream, 3, 2, 20);
            assert_eq!(batch, source.walks(Split::Train, &stream, 3, 2, 20));
            for row in 0..2 {
                let single = source.walks(Split::Train, &stream, 6 + row as u64, 1, 20);
                let size = 20 * source.frame().size();
                assert_eq!(single.frames, batch.frames[row * size..][..size]);
                assert_eq!(single.actions, batch.actions[row * 20..][..20]);
                assert_eq!(single.places, batch.places[row * 60..][..60]);
                assert_eq!(single.displacements, batch.displacements[row * 60..][..60]);
                assert_eq!(single.scenes, batch.scenes[row..][..1]);
            }
            let longer = source.walks(Split::Train, &stream, 6, 1, 30);
            assert_eq!(longer.actions[..20], batch.actions[..20]);
            assert_eq!(longer.places[..60], batch.places[..60]);
        }
    }

    #[test]
    fn batches_have_their_shapes() {
        for task in LabyrinthTask::ALL {
            let source = walks(task);
            let batch = source.walks(Split::Test, &Stream::new(2, "data"), 0, 3, 12);
            assert_eq!(batch.frames.len(), 3 * 12 * 3 * 32 * 32);
            assert!(batch.frames.iter().all(|value| (0.0..=1.0).contains(value)));
            assert_eq!(batch.seen, (0..36).collect::<Vec<_>>());
            assert_eq!(batch.places.len(), 3 * 12 * 3);
            assert_eq!(batch.displacements.len(), 3 * 12 * 3);
            assert_eq!(batch.blocked, [false; 36]);
            assert_eq!(batch.scenes.len(), 3);
            for (step, action) in batch.actions.iter().enumerate() {
                assert_eq!(action.is_none(), step % 12 == 0);
                assert!(action.is_none_or(|action| usize::from(action) < batch.actions_count));
            }
            let none = source.walks(Split::Test, &Stream::new(2, "data"), 0, 0, 12);
            assert!(none.frames.is_empty());
            assert_eq!(LabyrinthTask::named(source.name()), Some(task));
        }
    }

    #[test]
    fn training_and_testing_have_different_maps() {
        let source = walks(LabyrinthTask::Walking);
        let stream = Stream::new(1, "data");
        let [train, test] =
            [Split::Train, Split::Test].map(|split| source.walks(split, &stream, 0, 4, 2));
        assert_eq!(train.scenes, test.scenes);
        for scene in train.scenes {
            assert_ne!(
                source.map(Split::Train, scene),
                source.map(Split::Test, scene)
            );
        }
    }

    #[test]
    fn a_rotation_turns_twice_with_constant_speed() {
        let task = LabyrinthTask::Rotation;
        let batch = walks(task).walks(Split::Train, &Stream::new(3, "data"), 0, 8, task.time());
        let mut left = 0;
        for row in 0..8 {
            let headings = headings(&batch, row);
            let turned = headings[79] - headings[0];
            assert!((turned.abs() / TAU - 79.0 / 39.6).abs() < 1e-3, "{turned}");
            left += usize::from(turned < 0.0);
            for pair in headings.windows(2) {
                assert!((pair[1] - pair[0] - turned / 79.0).abs() < 1e-4);
            }
            let place = &batch.places[row * 240..][..2];
            let mut places = batch.places[row * 240..][..240].chunks_exact(3);
            assert!(places.all(|other| &other[..2] == place));
        }
        assert!((1..8).contains(&left));
    }

    #[test]
    fn the_accelerating_rotation_turns_twice_from_rest() {
        let task = LabyrinthTask::AcceleratingRotation;
        let batch = walks(task).walks(Split::Train, &Stream::new(3, "data"), 0, 4, task.time());
        for row in 0..4 {
            let headings = headings(&batch, row);
            let turned = |step: usize| (headings[step] - headings[0]) / TAU;
            assert!((turned(29) - 2.0).abs() < 0.02, "{}", turned(29));
            assert!(turned(15) < 1.0 && turned(16) > 1.0);
            let speeds: Vec<f32> = headings.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(speeds[0] < 0.3 * speeds[28]);
            assert!(speeds.windows(2).all(|pair| pair[1] > pair[0] - 1e-4));
        }
    }

    #[test]
    fn views_return_after_a_turn_and_differ_within_it() {
        let mut config = LabyrinthTask::Rotation.config();
        config.agent.period = 40.0;
        let source = LabyrinthWalks::new(LabyrinthTask::Rotation, config).expect("in range");
        let batch = source.walks(Split::Train, &Stream::new(3, "data"), 0, 20, 41);
        let size = batch.frame.size();
        let frame = |row: usize, step: usize| &batch.frames[(row * 41 + step) * size..][..size];
        let apart = |row: usize, first: usize, second: usize| {
            let pairs = frame(row, first).iter().zip(frame(row, second));
            pairs
                .map(|(first, second)| (first - second).powi(2))
                .sum::<f32>()
                / size as f32
        };
        for row in 0..20 {
            assert!(apart(row, 0, 40) < 1e-3, "{}", apart(row, 0, 40));
            for step in 5..=35 {
                assert!(apart(row, 0, step) > 2e-3, "{}", apart(row, 0, step));
            }
        }
    }
}
