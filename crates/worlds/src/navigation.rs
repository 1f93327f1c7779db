//! Walks in worlds with places: what an agent sees, what it does, and where it truly is.

mod image_walk;
pub mod labyrinth;
mod pictures;

pub use image_walk::{
    Grid, IMAGE_ACTIONS, ImageNavigation, ImageStep, ImageWalk, ImageWalkSettings, Start,
    WallActions,
};
pub use pictures::Pictures;

use crate::{FrameShape, Split, Stream};

/// One batch of walks, all of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Walks {
    /// Number of walks.
    pub batch: usize,
    /// Steps of each walk.
    pub time: usize,
    /// The dimensions of every frame.
    pub frame: FrameShape,
    /// `[distinct, channels, height, width]`, in [0, 1]: the different frames of the batch.
    pub frames: Vec<f32>,
    /// `[batch, time]`: the frame seen at each step, an index into `frames`.
    pub seen: Vec<u32>,
    /// Number of actions; the condition of a step is one-hot of this width, all 0 at the first step of a walk.
    pub actions_count: usize,
    /// `[batch, time]`: the action (as attempted) that led to each frame; `None` at the first step of a walk.
    pub actions: Vec<Option<u8>>,
    /// `[batch, time, place_width]`: true place: (x to the right, y down) in cells for images; (x, y, heading in
    /// radians) in a labyrinth.
    pub places: Vec<f32>,
    /// Numbers of a place.
    pub place_width: usize,
    /// `[batch, time, place_width]`: true displacement that led to the frame, in the agent's own directions (forward,
    /// sideways, turn); 0 at the first step.
    pub displacements: Vec<f32>,
    /// `[batch, time]`: whether a wall or an obstacle stopped (all of) the move.
    pub blocked: Vec<bool>,
    /// `[batch]`: which picture (or which maze) each walk is in.
    pub scenes: Vec<u32>,
}

impl Walks {
    /// Number of different frames.
    pub fn distinct(&self) -> usize {
        self.frames.len() / self.frame.size().max(1)
    }

    /// The actions as conditions: `[batch, time, actions_count]`, one-hot, all 0 at the first step of a walk.
    pub fn conditions(&self) -> Vec<f32> {
        let mut conditions = vec![0.0; self.actions.len() * self.actions_count];
        for (row, action) in conditions.chunks_mut(self.actions_count).zip(&self.actions) {
            if let Some(action) = action {
                row[usize::from(*action)] = 1.0;
            }
        }
        conditions
    }

    /// The frames of all steps, `[batch, time, channels, height, width]`.
    pub fn all_frames(&self) -> Vec<f32> {
        let size = self.frame.size();
        let frame = |index: &u32| &self.frames[*index as usize * size..][..size];
        self.seen.iter().flat_map(frame).copied().collect()
    }
}

/// A source of walks to learn from and be tested on.
pub trait Navigation: Send + Sync {
    /// The name that experiments and the command line use.
    fn name(&self) -> &'static str;

    /// The dimensions of every frame.
    fn frame(&self) -> FrameShape;

    /// The names of the actions, in the order of their numbers.
    fn actions(&self) -> &'static [&'static str];

    /// Numbers of a place.
    fn place_width(&self) -> usize;

    /// Batch `index`: a pure function of its arguments. `time` steps.
    fn walks(&self, split: Split, stream: &Stream, index: u64, batch: usize, time: usize) -> Walks;
}
