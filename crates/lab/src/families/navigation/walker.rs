//! Walking on in a picture that a model remembers.

use super::{
    evaluate::point_of,
    fit::AffineFit,
    imagination::Imagination,
    maps::{BELIEF, TRUTH, draw_frame},
    settings::NavigationSettings,
};
use crate::{LabError, experiment::gallery::Walker};
use mnemora_figures::picture::Image;
use mnemora_models::GtmSm;
use mnemora_worlds::{FrameShape, ImageNavigation, ImageWalk, Split, Stream};

/// A letter for each action, in the order of their numbers.
const KEYS: [char; 5] = ['u', 'd', 'l', 'r', 's'];

/// A walk over a picture.
pub struct ImageWalker {
    world: ImageNavigation,
    imagination: Imagination,
    walk: ImageWalk,
    /// The affine map from the model's places to cells that fits the memorised steps best.
    fit: Option<AffineFit>,
    /// Where each memorised frame was stored, in cells, and what the VAE makes of it.
    stored: Vec<([f64; 2], Vec<f32>)>,
    /// Steps since the last memorised one.
    steps: usize,
    /// The last action, in words.
    action: &'static str,
    truth: Vec<f32>,
}

impl ImageWalker {
    /// Memorises a walk of the model's own, over the held-out picture that `seed` chooses.
    pub fn new(
        settings: &NavigationSettings,
        world: ImageNavigation,
        model: GtmSm,
        seed: u64,
    ) -> Result<Self, LabError> {
        let stream = Stream::new(seed, "walk");
        let mut walk = world.begin(Split::Test, &stream, 0);
        let count = settings.memorise;
        let (mut frames, mut actions, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for step in 0..count {
            let action = (step > 0).then(|| world.explore(&mut walk).action);
            actions.push(action);
            frames.extend(world.frame_at(Split::Test, walk.picture, walk.cell));
            cells.push(walk.cell.map(|x| x as f32));
        }
        let imagination = Imagination::new(model, frames, &actions);
        let stored = imagination.stored();
        let fit = AffineFit::of(&stored.places, stored.width, &cells);
        let pixels = stored.frames.len() / count;
        let places = stored.places.chunks(stored.width);
        let stored = places
            .zip(stored.frames.chunks(pixels))
            .filter_map(|(place, frame)| Some((fit.as_ref()?.point(place), frame.to_vec())))
            .collect();
        Ok(Self {
            truth: world.frame_at(Split::Test, walk.picture, walk.cell),
            imagination,
            world,
            walk,
            fit,
            stored,
            steps: 0,
            action: "stay",
        })
    }

    /// The model's place, in cells.
    fn believed(&self) -> Option<[f64; 2]> {
        Some(self.fit.as_ref()?.point(&self.imagination.place()))
    }

    fn frame(&self) -> FrameShape {
        mnemora_worlds::Navigation::frame(&self.world)
    }

    /// A frame as a picture, each pixel `zoom` pixels wide.
    fn drawn(&self, frame: &[f32], zoom: usize) -> Result<Image, LabError> {
        let FrameShape { height, width, .. } = self.frame();
        let mut image = Image::new(width * zoom, height * zoom, [0; 3])?;
        draw_frame(&mut image, self.frame(), frame, [0, 0], zoom);
        Ok(image)
    }
}

impl Walker for ImageWalker {
    fn keys(&self) -> Vec<(char, &'static str)> {
        KEYS.into_iter()
            .zip(mnemora_worlds::IMAGE_ACTIONS)
            .collect()
    }

    fn step(&mut self, action: usize) -> Result<(), LabError> {
        let (cell, _) = self.walk.grid.step(self.walk.cell, action);
        self.walk.cell = cell;
        self.steps += 1;
        self.action = mnemora_worlds::IMAGE_ACTIONS[action];
        self.imagination.step(action);
        self.truth = self.world.frame_at(Split::Test, self.walk.picture, cell);
        Ok(())
    }

    fn words(&self) -> String {
        let [x, y] = self.walk.cell;
        let compared =
            self.imagination
                .compared(self.believed(), point_of(self.walk.cell), &self.truth);
        format!(
            "step {}, {}: at ({x}, {y}), {compared}",
            self.steps, self.action
        )
    }

    /// Imagined left, true right; below, what was stored where, with the true and the believed window.
    fn picture(&self, zoom: usize) -> Result<Image, LabError> {
        let settings = self.world.settings();
        let (side, crop, stride) = (settings.picture, settings.crop, settings.stride);
        let margin = zoom;
        // Two frames beside each other are as wide as the map.
        let large = (side * zoom).saturating_sub(zoom) / 2 / crop;
        let frames = [&self.imagination.frame, &self.truth].map(|frame| self.drawn(frame, large));
        let [imagined, truth] = frames;
        let top = crop * large + 2 * margin;
        let mut picture = Image::new(side * zoom + 2 * margin, top + (side + 1) * zoom, [24; 3])?;
        picture.blit(&imagined?, margin, margin);
        picture.blit(&truth?, picture.width() - margin - crop * large, margin);
        let corner = |point: [f64; 2]| {
            let at = |x: f64| {
                (x * (stride * zoom) as f64)
                    .round()
                    .clamp(0.0, ((side - crop) * zoom) as f64)
            };
            [margin + at(point[0]) as usize, top + at(point[1]) as usize]
        };
        for (point, frame) in &self.stored {
            draw_frame(&mut picture, self.frame(), frame, corner(*point), zoom);
        }
        let mut border = |point: [f64; 2], colour, thick: usize| {
            let ([x, y], size) = (corner(point), crop * zoom);
            picture.fill(x, y, size, thick, colour);
            picture.fill(x, y + size - thick, size, thick, colour);
            picture.fill(x, y, thick, size, colour);
            picture.fill(x + size - thick, y, thick, size, colour);
        };
        let thick = (zoom / 3).max(1);
        border(point_of(self.walk.cell), TRUTH, thick);
        if let Some(believed) = self.believed() {
            border(believed, BELIEF, thick);
        }
        Ok(picture)
    }
}
