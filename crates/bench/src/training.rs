//! Trainings with separately timed parts.

use burn::tensor::Device;
use mnemora_lab::{
    Experiment, Gallery, LabError,
    families::frames::{BatchTensors, FRAMES, Model, Trainer},
    prepare,
};
use mnemora_memory::Memory;
use mnemora_models::FilteringModel;
use mnemora_training::{StepFailure, arrays::parameter_count};
use mnemora_worlds::{Batch, Mnist, Split, Stream};
use std::sync::Arc;

/// A temporal VAE trained on a task of the bundled digits, with the same batch for every update, so that making batches
/// takes no time.
pub struct FixedBatchTraining {
    trainer: Trainer,
    batch: Batch,
    updates: u64,
}

/// Sizes of a temporal VAE and of its maps.
#[derive(Clone, Copy, Debug)]
pub struct FrameSizes {
    /// Parameters of the whole model.
    pub model: usize,
    /// Parameters of memory, prior and posterior.
    pub recurrent: usize,
    /// Inputs of the decoder: latent and context.
    pub decoder_inputs: usize,
    /// Features that the encoder outputs for a frame.
    pub features: usize,
}

impl FixedBatchTraining {
    /// The model of an experiment with fresh parameters on an autodiff `device`, and its training batch number `batch`.
    ///
    /// # Errors
    /// If the experiment's task does not compose sequences of images.
    pub fn new(experiment: Experiment, batch: u64, device: &Device) -> Result<Self, LabError> {
        let task = FRAMES.task(&experiment, Arc::new(Mnist::bundled()?))?;
        let model = FRAMES.model(&experiment, task.as_ref(), device)?;
        let data = Stream::new(experiment.seed, "data");
        let batch = task.batch(Split::Train, &data, batch, experiment.training.batch);
        let trainer = Trainer::new(&experiment, model, task.frame().size(), device.clone())?;
        Ok(Self {
            trainer,
            batch,
            updates: 0,
        })
    }

    /// Makes the next update.
    ///
    /// # Errors
    /// If a term or a gradient is not finite.
    pub fn update(&mut self) -> Result<(), StepFailure> {
        self.updates += 1;
        let batch = BatchTensors::new(self.batch.clone(), &self.trainer.device);
        self.trainer.update(self.updates, batch)
    }

    /// Waits for the measurements of the last update.
    ///
    /// # Errors
    /// If one of them is not finite.
    pub fn wait(&mut self) -> Result<(), StepFailure> {
        self.trainer.measured().map(drop)
    }

    /// Sizes of the model.
    pub fn sizes(&self) -> FrameSizes {
        let model: &Model = &self.trainer.model;
        FrameSizes {
            model: parameter_count(model),
            recurrent: parameter_count(&model.memory)
                + parameter_count(&model.prior)
                + parameter_count(&model.posterior),
            decoder_inputs: model.latent_size() + model.memory.context_size(),
            features: 2 * model.latent_size(),
        }
    }

    /// Frames in the batch, over all its sequences.
    pub fn frames(&self) -> usize {
        self.batch.batch * self.batch.time
    }
}

/// A training of any experiment, whose batches can also be made without an update.
pub struct DrawnTraining {
    experiment: Experiment,
    learner: Box<dyn Gallery>,
}

impl DrawnTraining {
    /// An experiment with fresh parameters on an autodiff `device`, on the data that come with mnemora.
    ///
    /// # Errors
    /// If there are no data for it, or it takes more memory than there is.
    pub fn new(mut experiment: Experiment, device: &Device) -> Result<Self, LabError> {
        let (_, learner) = prepare(&mut experiment, None, device)?;
        Ok(Self {
            experiment,
            learner,
        })
    }

    /// Makes the batch of an update and drops it. A curriculum stays at its first stage.
    ///
    /// # Errors
    /// If the data cannot be read.
    pub fn draw_batch(&self, update: u64) -> Result<(), LabError> {
        self.learner.draw_batch(update)
    }

    /// Makes update number `update` (from 1), including its batch.
    ///
    /// # Errors
    /// If there is no batch, or a term or a gradient is not finite.
    pub fn update(&mut self, update: u64) -> Result<(), StepFailure> {
        self.learner.update(update)
    }

    /// Sequences in a batch.
    pub fn sequences(&self) -> usize {
        self.experiment.training.batch
    }
}
