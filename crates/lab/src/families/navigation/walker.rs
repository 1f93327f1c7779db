//! Walking on in a picture that a model remembers.

use super::{
    evaluate::point_of,
    fit::{AffineFit, distance},
    settings::NavigationSettings,
};
use crate::{LabError, experiment::family::Walker};
use burn::tensor::{Tensor, TensorData};
use mnemora_figures::picture::Image;
use mnemora_models::{FilteringModel, GtmSm, GtmSmState, follow};
use mnemora_training::arrays::host;
use mnemora_worlds::{FrameShape, ImageNavigation, ImageWalk, Split, Stream};

/// A letter for each action, in the order of their numbers.
const KEYS: [char; 5] = ['u', 'd', 'l', 'r', 's'];

/// A walk over a picture.
pub struct ImageWalker {
    world: ImageNavigation,
    model: GtmSm,
    state: GtmSmState,
    walk: ImageWalk,
    /// The affine map from the model's places to cells that fits the memorised steps best.
    fit: Option<AffineFit>,
    /// Where each memorised frame was stored, in cells, and what the VAE makes of it.
    stored: Vec<([f64; 2], Vec<f32>)>,
    /// Steps since the last memorised one.
    steps: usize,
    /// The last action, in words.
    action: &'static str,
    imagined: Vec<f32>,
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
        let (mut frames, mut actions, mut cells) =
            (Vec::new(), vec![0.0; count * KEYS.len()], Vec::new());
        for step in 0..count {
            if step > 0 {
                let made = world.explore(&mut walk);
                actions[step * KEYS.len() + made.action] = 1.0;
            }
            frames.extend(world.frame_at(Split::Test, walk.picture, walk.cell));
            cells.push(walk.cell.map(|x| x as f32));
        }
        let device = model.device();
        let pixels = frames.len() / count;
        let tensor = |values: Vec<f32>, width: usize| {
            Tensor::<3>::from_data(TensorData::new(values, [1, count, width]), &device)
        };
        // The mean of each transition.
        let noise = Tensor::zeros([count, 1, model.noise_size()], &device);
        let state = follow(
            &model,
            tensor(frames, pixels),
            Some(tensor(actions, KEYS.len())),
            noise,
            None,
        );
        let latent = model.latent_size();
        let width = model.transition.place_size();
        let values = state.memory.values();
        let values = values.map(|values| host(values.into_data()));
        let values = values.unwrap_or_default();
        let row = 2 * latent + width;
        let places: Vec<f32> = values
            .chunks(row)
            .flat_map(|value| value[2 * latent..].iter().copied())
            .collect();
        let means: Vec<f32> = values
            .chunks(row)
            .flat_map(|value| value[..latent].iter().copied())
            .collect();
        let means = Tensor::from_data(TensorData::new(means, [count, latent]), &device);
        let decoded = host(model.frames(means).mean().into_data());
        let fit = AffineFit::of(&places, width, &cells);
        let stored = places
            .chunks(width)
            .zip(decoded.chunks(pixels))
            .filter_map(|(place, frame)| Some((fit.as_ref()?.point(place), frame.to_vec())))
            .collect();
        let mut walker = Self {
            truth: world.frame_at(Split::Test, walk.picture, walk.cell),
            imagined: decoded[decoded.len() - pixels..].to_vec(),
            world,
            model,
            state,
            walk,
            fit,
            stored,
            steps: 0,
            action: "stay",
        };
        // Where it stands, from memory alone.
        walker.look(None);
        Ok(walker)
    }

    /// Imagines the frame after an action, or at the place where the walk is.
    fn look(&mut self, action: Option<usize>) {
        let device = self.model.device();
        let mut condition = vec![0.0; KEYS.len()];
        if let Some(action) = action {
            condition[action] = 1.0;
        }
        let condition = Tensor::from_data(TensorData::new(condition, [1, KEYS.len()]), &device);
        let state = self.state.clone();
        let context = self.model.predict(&(), Some(condition), None, state);
        let prior = self.model.prior(self.model.prior_input(&context));
        let z = prior.component(0).mean;
        self.imagined = host(self.model.frames(z.clone()).mean().into_data());
        if action.is_some() {
            let features = self.model.code(self.model.frames(z.clone()).mean());
            self.state = self.model.update(&features, z.clone(), &z, context);
        }
    }

    /// The model's place, in cells.
    fn believed(&self) -> Option<[f64; 2]> {
        let place = host(self.state.whereabouts.place.clone().into_data());
        Some(self.fit.as_ref()?.point(&place))
    }

    fn frame(&self) -> FrameShape {
        mnemora_worlds::Navigation::frame(&self.world)
    }

    /// A frame as a picture, each pixel `zoom` pixels wide.
    fn drawn(&self, frame: &[f32], zoom: usize) -> Result<Image, LabError> {
        let FrameShape { height, width, .. } = self.frame();
        let mut image = Image::new(width * zoom, height * zoom, [0; 3])?;
        super::figures::draw_frame(&mut image, self.frame(), frame, [0, 0], zoom);
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
        self.look(Some(action));
        self.truth = self.world.frame_at(Split::Test, self.walk.picture, cell);
        Ok(())
    }

    fn words(&self) -> String {
        let [x, y] = self.walk.cell;
        let squares = self.imagined.iter().zip(&self.truth);
        let error = squares.map(|(a, b)| (a - b) * (a - b)).sum::<f32>() / self.truth.len() as f32;
        let place = match self.believed() {
            None => "the places it knows lie on a line".to_owned(),
            Some(believed) => format!(
                "believes to be at ({:.2}, {:.2}), {:.2} cells off",
                believed[0],
                believed[1],
                distance(believed, point_of(self.walk.cell))
            ),
        };
        format!(
            "step {}, {}: at ({x}, {y}), {place}; error of the imagined frame {error:.4}",
            self.steps, self.action
        )
    }

    /// Imagined left, true right; below, what was stored where, with the true and the believed window.
    fn picture(&self, zoom: usize) -> Result<Image, LabError> {
        const TRUTH: [u8; 3] = [213, 94, 0];
        const BELIEF: [u8; 3] = [0, 114, 178];
        let settings = self.world.settings();
        let (side, crop, stride) = (settings.picture, settings.crop, settings.stride);
        let margin = zoom;
        // Two frames beside each other are as wide as the map.
        let large = (side * zoom).saturating_sub(zoom) / 2 / crop;
        let frames = [&self.imagined, &self.truth].map(|frame| self.drawn(frame, large));
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
            super::figures::draw_frame(&mut picture, self.frame(), frame, corner(*point), zoom);
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
