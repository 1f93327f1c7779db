//! Walking on in a labyrinth that a model remembers.

use super::{
    fit::AffineFit,
    imagination::Imagination,
    maps::{self, BELIEF, STORED, TRUTH},
};
use crate::{LabError, experiment::gallery::Walker};
use mnemora_figures::picture::Image;
use mnemora_models::GtmSm;
use mnemora_worlds::{
    FrameShape, Navigation, Split, Stream,
    labyrinth::{ACTIONS, Action, Agent, LabyrinthTask, LabyrinthWalks, Map, Renderer},
};

/// A letter for each action, in the order of their numbers.
const KEYS: [char; 8] = ['w', 's', 'a', 'd', 'j', 'l', 'u', 'o'];

/// A walk through rooms.
pub struct LabyrinthWalker {
    world: LabyrinthWalks,
    renderer: Renderer,
    map: Map,
    agent: Agent,
    imagination: Imagination,
    /// The affine map from the first two numbers of the model's places to points that fits the memorised steps best.
    fit: Option<AffineFit>,
    /// The same from the third number to the heading, where the agent was only seen to turn.
    turned: Option<AffineFit>,
    /// Where the memorised frames were seen, in cells.
    seen: Vec<[f64; 2]>,
    /// Steps since the last memorised one.
    steps: usize,
    /// What came of the last action, in words.
    action: String,
    truth: Vec<f32>,
}

impl LabyrinthWalker {
    /// Memorises `count` steps of the held-out walk that `seed` chooses, and stops where it ends.
    pub fn new(
        world: LabyrinthWalks,
        model: GtmSm,
        count: usize,
        seed: u64,
    ) -> Result<Self, LabError> {
        let walks = world.walks(Split::Test, &Stream::new(seed, "walk"), 0, 1, count);
        let map = world.map(Split::Test, walks.scenes[0]);
        let actions = walks.actions.iter().map(|action| action.map(usize::from));
        let actions: Vec<Option<usize>> = actions.collect();
        let imagination = Imagination::new(model, walks.all_frames(), &actions);

        let points: Vec<[f32; 2]> = walks.places.chunks(3).map(|p| [p[0], p[1]]).collect();
        let stored = imagination.stored();
        let places = stored.places.chunks(stored.width);
        let places: Vec<f32> = places.flat_map(|place| [place[0], place[1]]).collect();
        let fit = AffineFit::of(&places, 2, &points);
        let turned = match world.task() {
            LabyrinthTask::Rotation | LabyrinthTask::AcceleratingRotation => {
                let headings: Vec<[f32; 2]> = walks.places.chunks(3).map(|p| [p[2], 0.0]).collect();
                let stored = stored.places.chunks(stored.width);
                let stored: Vec<f32> = stored.map(|place| place[2]).collect();
                AffineFit::of(&stored, 1, &headings)
            }
            LabyrinthTask::Walking | LabyrinthTask::Rooms => None,
        };
        let last = |values: &[f32]| -> [f32; 3] {
            let start = values.len() - 3;
            std::array::from_fn(|axis| values[start + axis])
        };
        let agent = Agent {
            place: last(&walks.places),
            velocity: last(&walks.displacements),
        };
        let mut walker = Self {
            renderer: Renderer::new(&world.config().view)?,
            truth: vec![0.0; walks.frame.size()],
            seen: points.iter().map(|point| point.map(f64::from)).collect(),
            world,
            map,
            agent,
            imagination,
            fit,
            turned,
            steps: 0,
            action: "here".into(),
        };
        walker.render()?;
        Ok(walker)
    }

    /// Sees what is truly there.
    fn render(&mut self) -> Result<(), LabError> {
        Ok(self
            .renderer
            .render(&self.map, self.agent.place, &mut self.truth)?)
    }

    fn point(&self) -> [f64; 2] {
        self.agent.position().map(f64::from)
    }

    /// The model's place, in cells.
    fn believed(&self) -> Option<[f64; 2]> {
        let place = self.imagination.place();
        Some(self.fit.as_ref()?.point(&place[..2]))
    }
}

impl Walker for LabyrinthWalker {
    fn keys(&self) -> Vec<(char, &'static str)> {
        KEYS.into_iter().zip(ACTIONS).collect()
    }

    fn step(&mut self, action: usize) -> Result<(), LabError> {
        let config = &self.world.config().agent;
        let moved = self.agent.step(Action::ALL[action], config, &self.map);
        self.steps += 1;
        self.action = match moved.blocked {
            false => ACTIONS[action].to_owned(),
            true => format!("{}, stopped by a wall", ACTIONS[action]),
        };
        self.imagination.step(action);
        self.render()
    }

    fn words(&self) -> String {
        let compared = match &self.turned {
            Some(fit) => {
                let truth = f64::from(self.agent.place[2]);
                let [believed, _] = fit.point(&self.imagination.place()[2..3]);
                format!(
                    "heading {truth:.2}, believes {believed:.2}, {:.2} radians off; {}",
                    (believed - truth).abs(),
                    self.imagination.frames_compared(&self.truth)
                )
            }
            None => {
                let [x, y] = self.point();
                let compared =
                    self.imagination
                        .compared(self.believed(), self.point(), &self.truth);
                format!("at ({x:.2}, {y:.2}), {compared}")
            }
        };
        format!("step {}, {}: {compared}", self.steps, self.action)
    }

    /// Imagined left, true right; below, the map with the memorised steps, the true and the believed place.
    fn picture(&self, zoom: usize) -> Result<Image, LabError> {
        let FrameShape { height, width, .. } = self.world.frame();
        let gap = 2 * zoom;
        let [wide, high] = [width * zoom, height * zoom];
        let cell = (2 * wide + gap) / self.map.width().max(self.map.height()).max(1);
        let mut ground = maps::ground(&self.map, cell.max(2))?;
        for point in &self.seen {
            maps::mark(&mut ground, cell, *point, cell / 20, STORED);
        }
        let half = (cell / 8).max(1);
        maps::mark(&mut ground, cell, self.point(), half, TRUTH);
        let ahead = |share: f64| {
            let heading = f64::from(self.agent.place[2]);
            let [x, y] = self.point();
            [x + share * heading.cos(), y + share * heading.sin()]
        };
        for share in [0.2, 0.3, 0.4, 0.5] {
            maps::mark(&mut ground, cell, ahead(share), cell / 20, TRUTH);
        }
        if let Some(believed) = self.believed() {
            maps::mark(&mut ground, cell, believed, (2 * half / 3).max(1), BELIEF);
        }
        let mut picture = Image::new(
            (2 * wide + gap).max(ground.width()),
            high + gap + ground.height(),
            [24; 3],
        )?;
        let shape = self.world.frame();
        maps::draw_frame(&mut picture, shape, &self.imagination.frame, [0, 0], zoom);
        maps::draw_frame(&mut picture, shape, &self.truth, [wide + gap, 0], zoom);
        picture.blit(&ground, 0, high + gap);
        Ok(picture)
    }
}
