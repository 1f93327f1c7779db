//! What a model with a spatial memory imagines as it walks on.

use super::fit::distance;
use burn::tensor::{Tensor, TensorData};
use mnemora_models::{FilteringModel, GtmSm, GtmSmState, follow};
use mnemora_training::arrays::host;

/// A model that has memorised a walk, and imagines how it goes on.
pub struct Imagination {
    model: GtmSm,
    state: GtmSmState,
    /// The imagined frame, `[pixels]`.
    pub frame: Vec<f32>,
}

/// What was stored: places `[count, width]`, and what the VAE makes of their frames, `[count, pixels]`.
pub struct Stored {
    /// `[count, width]`
    pub places: Vec<f32>,
    /// Numbers of a place.
    pub width: usize,
    /// `[count, pixels]`
    pub frames: Vec<f32>,
}

impl Imagination {
    /// Memorises frames `[count, pixels]` and the actions that led to them; then imagines the last of them, from memory
    /// alone. The noise of transitions is left out.
    pub fn new(model: GtmSm, frames: Vec<f32>, actions: &[Option<usize>]) -> Self {
        let device = model.device();
        let (count, kinds) = (actions.len(), model.transition.actions());
        let pixels = frames.len() / count;
        let mut conditions = vec![0.0; count * kinds];
        for (row, action) in conditions.chunks_mut(kinds).zip(actions) {
            if let Some(action) = action {
                row[*action] = 1.0;
            }
        }
        let tensor = |values: Vec<f32>, width: usize| {
            Tensor::<3>::from_data(TensorData::new(values, [1, count, width]), &device)
        };
        let noise = Tensor::zeros([count, 1, model.noise_size()], &device);
        let (frames, conditions) = (tensor(frames, pixels), tensor(conditions, kinds));
        let state = follow(&model, frames, Some(conditions), noise, None);
        let mut imagination = Self {
            model,
            state,
            frame: Vec::new(),
        };
        imagination.look();
        imagination
    }

    /// What was stored.
    pub fn stored(&self) -> Stored {
        let latent = self.model.latent_size();
        let width = self.model.transition.place_size();
        let (mut places, mut means) = (Vec::new(), Vec::new());
        let mut count = 0;
        if let Some(values) = self.state.memory.values() {
            let [_, filled, row] = values.dims();
            count = filled;
            for value in host(values.into_data()).chunks(row) {
                means.extend_from_slice(&value[..latent]);
                places.extend_from_slice(&value[2 * latent..][..width]);
            }
        }
        let means = TensorData::new(means, [count, latent]);
        let means = Tensor::from_data(means, &self.model.device());
        Stored {
            places,
            width,
            frames: host(self.model.frames(means).mean().into_data()),
        }
    }

    /// Walks on by an action, and imagines the frame after it.
    pub fn step(&mut self, action: usize) {
        let kinds = self.model.transition.actions();
        let mut condition = vec![0.0; kinds];
        condition[action] = 1.0;
        let condition = TensorData::new(condition, [1, kinds]);
        let condition = Tensor::from_data(condition, &self.model.device());
        let state = self.state.clone();
        let context = self.model.predict(&(), Some(condition), None, state);
        let prior = self.model.prior(self.model.prior_input(&context));
        let z = prior.component(0).mean;
        let frame = self.model.frames(z.clone()).mean();
        self.frame = host(frame.clone().into_data());
        let features = self.model.code(frame);
        self.state = self.model.update(&features, z.clone(), &z, context);
    }

    /// Imagines the frame at the place where it is.
    fn look(&mut self) {
        let z = self.model.expected_here(&self.state).component(0).mean;
        self.frame = host(self.model.frames(z).mean().into_data());
    }

    /// Where it believes to be, `believed`, beside the true point, and the imagined frame beside the true one, in words.
    pub fn compared(&self, believed: Option<[f64; 2]>, point: [f64; 2], truth: &[f32]) -> String {
        let place = match believed {
            None => "the places it knows lie on a line".to_owned(),
            Some(believed) => format!(
                "believes to be at ({:.2}, {:.2}), {:.2} cells off",
                believed[0],
                believed[1],
                distance(believed, point)
            ),
        };
        format!("{place}; {}", self.frames_compared(truth))
    }

    /// The imagined frame beside the true one, in words.
    pub fn frames_compared(&self, truth: &[f32]) -> String {
        let squares = self.frame.iter().zip(truth);
        let error = squares.map(|(a, b)| (a - b) * (a - b)).sum::<f32>() / truth.len() as f32;
        format!("error of the imagined frame {error:.4}")
    }

    /// The model's place, `[width]`.
    pub fn place(&self) -> Vec<f32> {
        host(self.state.whereabouts.place.clone().into_data())
    }
}
