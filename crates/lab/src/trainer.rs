//! One training step, and what it needs.

use crate::{
    Experiment, LabError,
    adam::{Adam, ParameterGradients},
    config::{Schedule, TaskName, TaskSettings},
    run::Metrics,
};
use burn::tensor::{Device, Tensor, TensorData};
use mnemora_memory::{AnyMemory, Initializer};
use mnemora_models::{Filtered, FilteringModel, FrameShape, Gtmm, filter};
use mnemora_worlds::{
    Batch, DataSet, DynamicDependency, MnistMap, ParityRecall, PerfectRecall, SimilarityCuedRecall,
    Stream, Task,
};
use std::sync::Arc;

/// The model that experiments train.
pub type Model = Gtmm<AnyMemory>;

/// The task of an experiment over given data.
pub fn task(experiment: &Experiment, data: Arc<DataSet>) -> Result<Arc<dyn Task>, LabError> {
    let TaskSettings {
        name,
        length,
        recall,
        grid,
    } = experiment.task;
    Ok(match name {
        TaskName::PerfectRecall => Arc::new(PerfectRecall::new(data, length, recall)?),
        TaskName::ParityRecall => Arc::new(ParityRecall::new(data, length, recall)?),
        TaskName::OneShotRecall => Arc::new(PerfectRecall::one_shot(data, length, recall)?),
        TaskName::DynamicDependency => Arc::new(DynamicDependency::new(data, length, recall)?),
        TaskName::SimilarityCuedRecall => {
            Arc::new(SimilarityCuedRecall::new(data, length, recall)?)
        }
        TaskName::MnistMap => Arc::new(MnistMap::new(data, grid, length, recall)?),
    })
}

/// A model with fresh parameters, drawn from the experiment's seed.
pub fn model(experiment: &Experiment, task: &dyn Task, device: &Device) -> Result<Model, LabError> {
    let frame = task.frame();
    let frame = FrameShape {
        channels: frame.channels,
        height: frame.height,
        width: frame.width,
    };
    let stream = Stream::new(experiment.seed, "parameters").at(0);
    let mut init = Initializer::new(stream, device.clone());
    let config = experiment.model_config(frame, task.condition_width());
    Ok(config.init(&mut init)?)
}

/// A batch on a device.
pub struct BatchTensors {
    /// `[batch, time, pixels]`
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

/// Standard normal noise `[time, batch, latent]`, draw `index` of a stream.
pub fn noise(stream: &Stream, index: u64, shape: [usize; 3], device: &Device) -> Tensor<3> {
    let values = stream.standard_normal(index, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// A model in training with its optimiser.
pub struct Trainer {
    /// On an autodiff device.
    pub model: Model,
    /// Its moments.
    pub adam: Adam,
    noise: Stream,
    device: Device,
}

/// Why a step was not made.
pub enum StepFailure {
    /// The named term or parameter is not finite; the model is as it was.
    NonFinite(String),
}

impl Trainer {
    /// A trainer for a model on the autodiff `device`.
    pub fn new(experiment: &Experiment, model: Model, adam: Adam, device: Device) -> Self {
        Self {
            model,
            adam,
            noise: Stream::new(experiment.seed, "latent noise"),
            device,
        }
    }

    /// Makes update number `step` (from 1) on a batch and gives its metrics.
    pub fn step(
        &mut self,
        experiment: &Experiment,
        step: u64,
        batch: Batch,
    ) -> Result<Metrics, StepFailure> {
        let settings = &experiment.training;
        let shape = [batch.time, batch.batch, self.model.latent_size()];
        let batch = BatchTensors::new(batch, &self.device);
        let noise = noise(&self.noise, step, shape, &self.device);
        let filtered = filter(
            &self.model,
            batch.observations,
            batch.conditions,
            noise,
            None,
        );
        let kl_weight = match settings.kl_warmup {
            0 => 1.0,
            warmup => (step as f64 / warmup as f64).min(1.0),
        };
        let loss = filtered.bound(kl_weight).mean().neg();
        let gradients = ParameterGradients::of(&self.model, loss.backward());
        let gradient_norm = gradients.global_norm();
        let learning_rate = learning_rate(experiment, step);
        let metrics = metrics(&filtered, step, gradient_norm, learning_rate);
        if let Some(what) = non_finite(&metrics, &gradients) {
            return Err(StepFailure::NonFinite(what));
        }

        let norm = f64::from(gradient_norm);
        let scale = match settings.clip {
            clip if clip > 0.0 && norm > clip => clip / norm,
            _ => 1.0,
        };
        // A module is moved through its update; a clone of the handles stands in meanwhile.
        let model = self.model.clone();
        self.model = self.adam.step(model, gradients, scale, learning_rate, step);
        Ok(metrics)
    }
}

fn metrics<S>(
    filtered: &Filtered<S>,
    step: u64,
    gradient_norm: f32,
    learning_rate: f64,
) -> Metrics {
    let [time, batch] = filtered.kl.dims();
    let kl_last = filtered.kl.clone().slice([time - 1..time, 0..batch]);
    let means = Tensor::cat(
        vec![
            filtered.reconstruction.clone().inner().sum() / batch as f64,
            filtered.kl.clone().inner().sum() / batch as f64,
            kl_last.inner().mean(),
        ],
        0,
    );
    let means = crate::weights::host(means.into_data());
    let (reconstruction, kl, kl_last) = (means[0], means[1], means[2]);
    Metrics {
        step,
        bound: reconstruction - kl,
        reconstruction,
        kl,
        kl_last,
        gradient_norm,
        learning_rate,
    }
}

/// The first thing of a step that is not finite.
fn non_finite(metrics: &Metrics, gradients: &ParameterGradients) -> Option<String> {
    if !metrics.reconstruction.is_finite() {
        return Some("the reconstruction".into());
    }
    if !metrics.kl.is_finite() {
        return Some("the KL divergence".into());
    }
    if !metrics.gradient_norm.is_finite() {
        return Some(match gradients.non_finite() {
            Some(name) => format!("the gradient of '{name}'"),
            None => "the norm of the gradient".into(),
        });
    }
    None
}

/// Adam's rate at a step.
fn learning_rate(experiment: &Experiment, step: u64) -> f64 {
    let settings = &experiment.training;
    let (first, last) = (settings.learning_rate, settings.final_learning_rate);
    let done = (step - 1) as f64 / (settings.steps.max(2) - 1) as f64;
    match settings.schedule {
        Schedule::Constant => first,
        Schedule::Linear => first + (last - first) * done,
        Schedule::Cosine => {
            last + (first - last) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        load_experiment,
        weights::{collect, restore},
    };
    use mnemora_worlds::{Mnist, Split};
    use std::path::Path;

    fn small(overrides: &[&str]) -> (Experiment, Arc<dyn Task>, Model, Device) {
        let sizes = [
            "task.length=3",
            "task.recall=2",
            "training.batch=2",
            "model.latent=4",
            "model.visual_hidden=8",
            "model.visual_features=8",
            "memory.introspection.hidden=8",
            "memory.introspection.attention=8",
        ];
        let overrides: Vec<String> = sizes
            .iter()
            .chain(overrides)
            .map(|s| s.to_string())
            .collect();
        let experiment = load_experiment("perfect-recall-small", &overrides).unwrap();
        let device = Device::default().autodiff();
        let task = task(&experiment, Arc::new(Mnist::bundled().unwrap())).unwrap();
        let model = model(&experiment, task.as_ref(), &device).unwrap();
        (experiment, task, model, device)
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_and_changes_nothing() {
        let (experiment, task, model, device) = small(&[]);
        let mut arrays = collect(&model);
        arrays.get_mut("prior.hidden.bias").unwrap().values[0] = f32::NAN;
        let model = restore(model, arrays, Path::new("test")).unwrap();
        let before = format!("{:?}", collect(&model));
        let mut trainer = Trainer::new(&experiment, model, Adam::default(), device);
        let batch = task.batch(Split::Train, &Stream::new(1, "data"), 0, 2);
        let Err(StepFailure::NonFinite(what)) = trainer.step(&experiment, 1, batch) else {
            panic!("a NaN was trained on");
        };
        assert_eq!(what, "the KL divergence");
        assert_eq!(format!("{:?}", collect(&trainer.model)), before);
        assert!(trainer.adam.collect().is_empty());
    }

    #[test]
    fn training_raises_the_bound() {
        let (experiment, task, model, device) = small(&["training.learning_rate=0.01"]);
        let mut trainer = Trainer::new(&experiment, model, Adam::default(), device);
        let stream = Stream::new(1, "data");
        let mut bound = |step| {
            let batch = task.batch(Split::Train, &stream, step, 16);
            match trainer.step(&experiment, step, batch) {
                Ok(metrics) => metrics.bound,
                Err(StepFailure::NonFinite(what)) => panic!("{what}"),
            }
        };
        let first = bound(1);
        let last = (2..60).map(&mut bound).last().unwrap();
        assert!(last > first + 500.0, "{first} {last}");
    }

    #[test]
    fn schedules_start_and_end_where_they_say() {
        let mut experiment = small(&["training.steps=101"]).0;
        experiment.training.final_learning_rate = 1e-4;
        for (schedule, middle, last) in [
            (Schedule::Constant, 1e-3, 1e-3),
            (Schedule::Linear, 5.5e-4, 1e-4),
            (Schedule::Cosine, 5.5e-4, 1e-4),
        ] {
            experiment.training.schedule = schedule;
            for (step, expected) in [(1, 1e-3), (51, middle), (101, last)] {
                assert!((learning_rate(&experiment, step) - expected).abs() < 1e-12);
            }
        }
    }
}
