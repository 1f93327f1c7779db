//! Updates of a model with latents: the model, its strategy of inference and its optimiser, and what a checkpoint holds of
//! them.

use crate::{Experiment, LabError};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_memory::AnyMemory;
use mnemora_models::{Filtered, FilteringModel, Gtmm, filter_by_segments};
use mnemora_training::{
    Error, Measures, Row, Snapshot, StepFailure,
    arrays::{collect, restore},
    online::{Observed, Online, OnlineFilter},
    optimiser::ParameterGradients,
    settings::TrainingSettings,
    strategy::{Inference, Strategy},
    updates::Updates,
};
use mnemora_worlds::Batch;
use std::path::Path;

/// A batch on a device.
pub struct BatchTensors {
    /// `[batch, time, numbers]`
    pub observations: Tensor<3>,
    /// `[batch, time, condition]`
    pub conditions: Option<Tensor<3>>,
}

impl BatchTensors {
    /// Uploads a batch.
    pub fn new(batch: Batch, device: &Device) -> Self {
        let shape = [batch.batch, batch.time, batch.frame.size()];
        Self {
            observations: Tensor::from_data(TensorData::new(batch.frames, shape), device),
            conditions: batch.conditions.map(|conditions| {
                let shape = [shape[0], shape[1], conditions.width];
                Tensor::from_data(TensorData::new(conditions.values, shape), device)
            }),
        }
    }
}

/// A model in training, with its optimiser.
pub struct Trainer<M = Gtmm<AnyMemory>> {
    /// On an autodiff device.
    pub model: M,
    /// Its optimiser.
    pub updates: Updates,
    /// The inference strategy.
    pub strategy: Strategy,
    training: TrainingSettings,
    /// The device of the model.
    pub device: Device,
}

impl<M: FilteringModel + Module> Trainer<M> {
    /// A trainer for a model of observations of `observation` numbers, on the autodiff `device`.
    pub fn new(
        experiment: &Experiment,
        model: M,
        observation: usize,
        device: Device,
    ) -> Result<Self, LabError> {
        let (settings, seed) = (&experiment.filtering, experiment.seed);
        Ok(Self {
            strategy: Strategy::new(settings, seed, model.latent_size(), observation, &device)?,
            model,
            updates: Updates::new(&experiment.training, &device),
            training: experiment.training.clone(),
            device,
        })
    }

    /// Makes update number `step` (from 1) on a batch.
    pub fn update(&mut self, step: u64, batch: BatchTensors) -> Result<(), StepFailure> {
        let settings = &self.training;
        let BatchTensors {
            observations,
            conditions,
        } = batch;
        let [rows, time, _] = observations.dims();
        let shape = [time, rows, self.model.noise_size()];
        let kl_weight = settings.kl_weight(step);
        let model = &self.model;
        let mut gradients = ParameterGradients::default();
        let filtered = match settings.segment {
            0 => {
                let filtered =
                    self.strategy
                        .learn(settings, model, observations, conditions, step)?;
                let loss = filtered.bound(kl_weight).mean().neg();
                gradients.add(model, loss.backward());
                filtered
            }
            segment => filter_by_segments(
                model,
                observations,
                conditions,
                self.strategy.step_noise(step, shape),
                segment,
                kl_weight,
                |pass| gradients.add(model, pass),
            ),
        };
        let terms = filtered_terms(&filtered);
        self.updates
            .make(&mut self.model, step, gradients, &FILTERED_TERMS, terms)
    }

    /// The measurements of the last update, after it and all earlier ones were checked; `None` before the first.
    pub fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        self.updates.measured(|terms| {
            let (reconstruction, kl, kl_last) = (terms[0], terms[1], terms[2]);
            Measures::new()
                .with("bound", reconstruction - kl)
                .with("reconstruction", reconstruction)
                .with("kl", kl)
                .with("kl_last", kl_last)
        })
    }

    /// The model without gradients, with its way of inference.
    pub fn inference(&self) -> Inference<M> {
        self.strategy.frozen(self.model.valid())
    }

    /// All that a checkpoint holds.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            model: collect(&self.model),
            optimiser: self.updates.optimiser.collect(),
            ..Snapshot::default()
        };
        self.strategy.save(&mut snapshot);
        snapshot
    }

    /// Goes on from a checkpoint, read from `path`.
    ///
    /// # Errors
    /// If it is not one of this model.
    pub fn restore(&mut self, mut from: Snapshot, path: &Path) -> Result<(), Error> {
        self.strategy.restore(&mut from, path)?;
        self.model = restore(self.model.clone(), from.model, path)?;
        self.updates.restore(from.optimiser, path)?;
        Ok(())
    }

    /// The model as an online filter of what `observed` describes, whose samples are drawn under `seed`.
    pub fn online(&self, observed: Observed, seed: u64) -> Box<dyn OnlineFilter>
    where
        M: 'static,
        M::State: 'static,
    {
        let weights = collect(&self.model);
        Box::new(Online::new(self.inference(), observed, &weights, seed))
    }
}

/// Names of [`filtered_terms`].
pub const FILTERED_TERMS: [&str; 3] = ["reconstruction", "KL divergence", "last frame's KL"];

/// Means over the batch in nats: reconstruction, KL, KL of the last frame.
pub fn filtered_terms<S, P>(filtered: &Filtered<S, P>) -> Tensor<1> {
    let [time, batch] = filtered.kl.dims();
    let kl_last = filtered.kl.clone().slice([time - 1..time, 0..batch]);
    Tensor::cat(
        vec![
            filtered.reconstruction.clone().inner().sum() / batch as f64,
            filtered.kl.clone().inner().sum() / batch as f64,
            kl_last.inner().mean(),
        ],
        0,
    )
}
