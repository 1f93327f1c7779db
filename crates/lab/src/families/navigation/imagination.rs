//! What a model with a spatial memory imagines as it walks on.

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
        imagination.look(None);
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

    /// Imagines the frame after an action, or at the place where it is.
    pub fn look(&mut self, action: Option<usize>) {
        let device = self.model.device();
        let kinds = self.model.transition.actions();
        let mut condition = vec![0.0; kinds];
        if let Some(action) = action {
            condition[action] = 1.0;
        }
        let condition = Tensor::from_data(TensorData::new(condition, [1, kinds]), &device);
        let state = self.state.clone();
        let context = self.model.predict(&(), Some(condition), None, state);
        let prior = self.model.prior(self.model.prior_input(&context));
        let z = prior.component(0).mean;
        let frame = self.model.frames(z.clone()).mean();
        self.frame = host(frame.clone().into_data());
        if action.is_some() {
            let features = self.model.code(frame);
            self.state = self.model.update(&features, z.clone(), &z, context);
        }
    }

    /// The model's place, `[width]`.
    pub fn place(&self) -> Vec<f32> {
        host(self.state.whereabouts.place.clone().into_data())
    }
}
