//! Temporal VAEs on tasks of frames: their training step, and what it needs.

use crate::{
    Evaluation, Experiment, LabError,
    adam::{Adam, ParameterGradients},
    config::{TaskName, TaskSettings},
    evaluate::evaluate,
    learner::{Drawn, Learner, Shown, StepFailure, Updates},
    memory_use::{Parts, Planned, Work, filtered, in_words, outline},
    online::{Numbers, Observed, Online, OnlineFilter},
    present::{Figures, frame_figures, generated_picture},
    run::Metrics,
    strategy::Strategy,
    weights::{Arrays, collect, parameters_of, restore},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_memory::{AnyMemory, Count, Initializer};
use mnemora_models::{Filtered, FilteringModel, FrameShape, Gtmm, filter_by_segments};
use mnemora_worlds::{
    Batch, DataSet, DynamicDependency, MnistMap, ParityRecall, PerfectRecall, Prefetch, Scale,
    SimilarityCuedRecall, Split, Stream, Task,
};
use std::{hint::black_box, path::Path, sync::Arc};

/// Batches made ahead of training.
const AHEAD: usize = 8;

/// The model that experiments train.
pub type Model = Gtmm<AnyMemory>;

/// The task of an experiment over given data; one of frames.
pub fn task(experiment: &Experiment, data: Arc<DataSet>) -> Result<Arc<dyn Task>, LabError> {
    let TaskSettings {
        name,
        length,
        recall,
        grid,
        ..
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
        other => {
            return Err(LabError::Configuration(format!(
                "the task {} does not compose sequences of images",
                other.as_str()
            )));
        }
    })
}

/// A model with fresh parameters, drawn from the experiment's seed.
pub fn model(experiment: &Experiment, task: &dyn Task, device: &Device) -> Result<Model, LabError> {
    let stream = Stream::new(experiment.seed, "parameters").at(0);
    model_of(
        experiment,
        task,
        &mut Initializer::new(stream, device.clone()),
    )
}

/// A model whose parameters `init` makes.
fn model_of(
    experiment: &Experiment,
    task: &dyn Task,
    init: &mut Initializer,
) -> Result<Model, LabError> {
    let frame = task.frame();
    let frame = FrameShape {
        channels: frame.channels,
        height: frame.height,
        width: frame.width,
    };
    let likelihood = experiment.likelihood_config(0.0, true);
    let config = experiment.model_config(frame, task.condition_width(), likelihood)?;
    Ok(config.init(init)?)
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
    /// Its optimiser.
    pub updates: Updates,
    strategy: Strategy,
    device: Device,
}

impl Trainer {
    /// A trainer for a model of a task, on the autodiff `device`.
    pub fn new(
        experiment: &Experiment,
        model: Model,
        task: &dyn Task,
        device: Device,
    ) -> Result<Self, LabError> {
        let pixels = task.frame().size();
        Ok(Self {
            strategy: Strategy::new(experiment, model.latent_size(), pixels, &device)?,
            model,
            updates: Updates::new(Adam::default(), &device),
            device,
        })
    }

    /// Makes update number `step` (from 1) on a batch.
    pub fn step(
        &mut self,
        experiment: &Experiment,
        step: u64,
        batch: Batch,
    ) -> Result<(), StepFailure> {
        let settings = &experiment.training;
        let shape = [batch.time, batch.batch, self.model.latent_size()];
        let BatchTensors {
            observations,
            conditions,
        } = BatchTensors::new(batch, &self.device);
        let kl_weight = settings.kl_weight(step);
        let model = &self.model;
        let mut gradients = ParameterGradients::default();
        let filtered = match settings.segment {
            0 => {
                let filtered = self.strategy.learn(
                    experiment,
                    model,
                    observations,
                    conditions,
                    step,
                    kl_weight,
                )?;
                let loss = filtered.bound(kl_weight).mean().neg();
                gradients.add(model, loss.backward());
                filtered
            }
            segment => filter_by_segments(
                model,
                observations,
                conditions,
                self.strategy.latent_noise(step, shape),
                segment,
                kl_weight,
                |pass| gradients.add(model, pass),
            ),
        };
        let terms = terms(&filtered);
        self.updates
            .make(&mut self.model, experiment, step, gradients, &TERMS, terms)
    }

    /// Metrics of the last step, once it and all before it are looked at; `None` before the first.
    pub fn metrics(&mut self) -> Result<Option<Metrics>, StepFailure> {
        Ok(self.updates.last()?.map(|made| {
            let (reconstruction, kl, kl_last) = (made.terms[0], made.terms[1], made.terms[2]);
            Metrics {
                step: made.step,
                bound: reconstruction - kl,
                reconstruction: Some(reconstruction),
                kl: Some(kl),
                kl_last: Some(kl_last),
                gradient_norm: made.gradient_norm,
                learning_rate: made.learning_rate,
                ..Metrics::default()
            }
        }))
    }
}

/// Names of [`terms`].
pub(crate) const TERMS: [&str; 3] = ["reconstruction", "KL divergence", "last frame's KL"];

/// Means over the batch in nats: reconstruction, KL, KL of the last frame.
pub(crate) fn terms<S>(filtered: &Filtered<S>) -> Tensor<1> {
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

/// A temporal VAE that learns a task of frames.
pub struct FrameLearner {
    task: Arc<dyn Task>,
    /// What the task draws from.
    data: Arc<DataSet>,
    trainer: Trainer,
    /// Made at the first step.
    batches: Option<Prefetch>,
}

/// What the experiment's model of a task consists of, and how much memory its training takes.
pub(crate) fn planned(
    experiment: &Experiment,
    task: &dyn Task,
    data: &DataSet,
) -> Result<Planned, LabError> {
    let model = model_of(experiment, task, &mut outline()?)?;
    let (pixels, time) = (task.frame().size(), task.time());
    let footprint = model.footprint(pixels, time);
    let sizes = [model.latent_size(), pixels, time];
    let ([learning, looking], inference) = filtered(experiment, &footprint, sizes, time)?;
    let images = [Split::Train, Split::Test].map(|split| data.split(split).len());
    let numbers = Count::product(&[pixels + task.condition_width() + 8, time]);
    let work = Work {
        learning,
        // Sequences are generated, too, and lie there as they should be.
        looking: looking + Count::product(&[6, pixels, time, experiment.evaluation.batch]),
        // One in the making, and one that is learned from.
        batches: numbers * (AHEAD + 2) * experiment.training.batch,
        // A label and a place with each image.
        data: Count::product(&[pixels + 10, images.iter().sum()]),
    };
    Ok(Planned::new(parts(&model, inference), work))
}

/// Trainable numbers, whole model first; `inference` are those of an inference network.
fn parts(model: &Model, inference: Option<Count>) -> Parts {
    let own = parameters_of(model);
    let mut parts = vec![
        ("model".into(), own + inference.unwrap_or(Count::NONE)),
        ("memory".into(), parameters_of(&model.memory)),
        ("encoder".into(), parameters_of(&model.encoder)),
        ("posterior".into(), parameters_of(&model.posterior)),
        ("prior".into(), parameters_of(&model.prior)),
        ("decoder".into(), parameters_of(&model.decoder)),
    ];
    parts.extend(inference.map(|count| ("inference".to_owned(), count)));
    parts
}

impl FrameLearner {
    /// A fresh one, its model on `device`.
    pub fn new(
        experiment: &Experiment,
        data: Arc<DataSet>,
        device: &Device,
    ) -> Result<Self, LabError> {
        let task = task(experiment, data.clone())?;
        let model = model(experiment, task.as_ref(), device)?;
        let trainer = Trainer::new(experiment, model, task.as_ref(), device.clone())?;
        Ok(Self {
            task,
            data,
            trainer,
            batches: None,
        })
    }

    fn next_batch(&mut self, experiment: &Experiment, step: u64) -> Result<Batch, LabError> {
        let batches = match &mut self.batches {
            Some(batches) => batches,
            none => none.insert(Prefetch::new(
                self.task.clone(),
                Split::Train,
                Stream::new(experiment.seed, "data"),
                step - 1,
                experiment.training.batch,
                AHEAD,
            )?),
        };
        Ok(batches.next_batch()?)
    }
}

impl Learner for FrameLearner {
    fn parameters(&self) -> Vec<(String, usize)> {
        in_words(parts(
            &self.trainer.model,
            self.trainer.strategy.parameters(),
        ))
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        let task = task(experiment, self.data.clone())?;
        planned(experiment, task.as_ref(), &self.data)
    }

    fn weights(&self) -> Arrays {
        let mut weights = collect(&self.trainer.model);
        self.trainer.strategy.add_weights(&mut weights);
        weights
    }

    fn optimizer(&self) -> Arrays {
        let mut optimizer = self.trainer.updates.adam.collect();
        self.trainer.strategy.add_optimizer(&mut optimizer);
        optimizer
    }

    fn restore(
        &mut self,
        mut weights: Arrays,
        mut optimizer: Option<Arrays>,
        path: &Path,
    ) -> Result<(), LabError> {
        let Trainer {
            model,
            updates,
            strategy,
            device,
        } = &mut self.trainer;
        strategy.restore(&mut weights, optimizer.as_mut(), path)?;
        *model = restore(model.clone(), weights, path)?;
        if let Some(optimizer) = optimizer {
            updates.adam = Adam::restore(optimizer, &device.clone().inner(), path)?;
        }
        Ok(())
    }

    fn step(&mut self, experiment: &Experiment, step: u64) -> Result<(), StepFailure> {
        let batch = self.next_batch(experiment, step);
        let batch = batch.map_err(StepFailure::Batch)?;
        self.trainer.step(experiment, step, batch)
    }

    fn draw_batch(&self, experiment: &Experiment, step: u64) -> Result<(), LabError> {
        let stream = Stream::new(experiment.seed, "data");
        let size = experiment.training.batch;
        black_box(self.task.batch(Split::Train, &stream, step - 1, size));
        Ok(())
    }

    fn deferred(&self) -> bool {
        self.trainer.updates.deferred()
    }

    fn metrics(&mut self) -> Result<Option<Metrics>, StepFailure> {
        self.trainer.metrics()
    }

    fn evaluate(
        &self,
        experiment: &Experiment,
        step: u64,
        batches: u64,
        purpose: &str,
    ) -> Result<Evaluation, LabError> {
        let model = self.trainer.strategy.at_work(self.trainer.model.valid());
        evaluate(
            experiment,
            &model,
            self.task.as_ref(),
            step,
            batches,
            purpose,
        )
    }

    fn draw(
        &self,
        experiment: &Experiment,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError> {
        let task = match steps {
            None => self.task.clone(),
            Some(steps) => {
                let mut experiment = experiment.clone();
                // Frames before the recall interval stay; a similarity cue is one of its frames.
                let cue = self.task.prompt() - experiment.task.length;
                experiment.task.recall = steps + cue;
                task(&experiment, self.data.clone()).map_err(|error| match error {
                    LabError::Worlds(mnemora_worlds::Error::Setting { wanted, .. }) => {
                        LabError::Configuration(format!(
                            "--steps {steps} makes task.recall {}: {wanted}",
                            steps + cue
                        ))
                    }
                    error => error,
                })?
            }
        };
        let model = self.trainer.strategy.at_work(self.trainer.model.valid());
        let picture = generated_picture(&model, task.as_ref(), sequences, seed)?;
        Ok(Drawn {
            picture,
            time: task.time(),
            files: Vec::new(),
        })
    }

    fn online(&self, seed: u64) -> Option<Box<dyn OnlineFilter>> {
        let at_work = self.trainer.strategy.at_work(self.trainer.model.valid());
        let observed = Observed {
            frame: self.task.frame(),
            numbers: Numbers::Pixels,
            scale: Scale::IDENTITY,
            conditions: self.task.condition_width(),
        };
        Some(Box::new(Online::new(
            at_work,
            observed,
            &self.weights(),
            seed,
        )))
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        let model = self.trainer.strategy.at_work(self.trainer.model.valid());
        frame_figures(&model, self.task.as_ref(), shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::TaskKind, load_experiment, open::resolve_task};
    use mnemora_worlds::Mnist;

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
        let mut trainer = Trainer::new(&experiment, model, task.as_ref(), device).unwrap();
        let batch = task.batch(Split::Train, &Stream::new(1, "data"), 0, 2);
        let Err(StepFailure::NonFinite { what, .. }) = trainer.step(&experiment, 1, batch) else {
            panic!("a NaN was trained on");
        };
        assert_eq!(what, "the KL divergence");
        assert_eq!(format!("{:?}", collect(&trainer.model)), before);
        assert!(trainer.updates.adam.collect().is_empty());
    }

    /// Metrics of two updates by segments of a length; after the first, Adam's moments, which hold
    /// the gradients, and the weights.
    fn two_updates(segment: usize, overrides: &[&str]) -> (Vec<f32>, Arrays, Arrays) {
        let (mut experiment, task, model, device) = small(overrides);
        experiment.training.segment = segment;
        let mut trainer = Trainer::new(&experiment, model, task.as_ref(), device).unwrap();
        let stream = Stream::new(1, "data");
        let mut update = |step| {
            let batch = task.batch(Split::Train, &stream, step, 2);
            trainer.step(&experiment, step, batch).unwrap();
            let made = trainer.metrics().unwrap().unwrap();
            let metrics = [made.bound, made.kl_last.unwrap(), made.gradient_norm];
            let moments = trainer.updates.adam.collect();
            (metrics, moments, collect(&trainer.model))
        };
        let (first, moments, weights) = update(1);
        let (second, _, _) = update(2);
        ([first, second].concat(), moments, weights)
    }

    /// Within a share of the largest number expected, or of `scale` if that is larger.
    fn assert_close(name: &str, found: &[f32], expected: &[f32], tolerance: f32, scale: f32) {
        assert_eq!(found.len(), expected.len(), "{name}");
        let scale = expected.iter().fold(scale, |m, e| m.max(e.abs()));
        for (found, expected) in found.iter().zip(expected) {
            let error = (found - expected).abs();
            assert!(error <= tolerance * scale, "{name}: {found} {expected}");
        }
    }

    /// Five steps in segments of 2, 2 and 1 give the update of all at once, for every memory.
    #[test]
    fn segments_change_no_gradient() {
        let memories = TaskName::PerfectRecall.memories().iter();
        let memories = memories.map(|memory| format!("model.memory={}", memory.as_str()));
        let memories: Vec<String> = memories.collect();
        let small = [
            "memory.vrnn.hidden=8",
            "memory.ntm.hidden=8",
            "memory.lru.hidden=8",
            "memory.dnc.hidden=8",
            "memory.hybrid.hidden=8",
            "memory.rmc.heads=2",
            "memory.rmc.head_size=4",
        ];
        let mut cases: Vec<Vec<&str>> = memories
            .iter()
            .map(|memory| small.into_iter().chain([memory.as_str()]).collect())
            .collect();
        // Reads with indices in the state; conditions; batch norm, which sees all frames at once.
        cases.push([&cases[3][..], &["memory.lru.nearest=3"]].concat());
        cases.push([&cases[0][..], &["task.name=mnist-map"]].concat());
        cases.push([&cases[0][..], &["model.visual=inception"]].concat());
        for case in cases {
            let batch_norm = case.contains(&"model.visual=inception");
            let tolerance = if batch_norm { 1e-3 } else { 1e-4 };
            let (metrics, moments, weights) = two_updates(2, &case);
            let (all_metrics, all_moments, all_weights) = two_updates(0, &case);
            assert_close(&format!("{case:?}"), &metrics, &all_metrics, tolerance, 0.0);
            assert_eq!(moments.len(), all_moments.len());
            for (key, all) in &all_moments {
                // Before a batch norm a bias has no gradient but rounding.
                let floor = if key.ends_with(".first") { 1e-5 } else { 1e-12 };
                let name = format!("{case:?}: {key}");
                assert_close(&name, &moments[key].values, &all.values, tolerance, floor);
            }
            // Nor is Adam's step along such a gradient anything but rounding. The RMC's keys have one,
            // too: what is added to all of them changes no attention.
            let of_rounding = |key: &str| batch_norm || key.ends_with("qkv_norm.beta");
            for (key, all) in all_weights.iter().filter(|(key, _)| !of_rounding(key)) {
                let name = format!("{case:?}: {key}");
                assert_close(&name, &weights[key].values, &all.values, 1e-3, 0.1);
            }
        }
    }

    /// What is said without data is what the task says.
    #[test]
    fn settings_know_the_recall_interval() {
        let mut names = 0;
        for name in TaskName::ALL {
            let mut experiment = Experiment::default();
            experiment.task.name = name;
            (experiment.task.length, experiment.task.recall) = (20, 7);
            let interval = experiment.task.recall_interval();
            if name.kind() != TaskKind::Frames {
                assert_eq!(interval, None, "{}", name.as_str());
                continue;
            }
            let task = resolve_task(&mut experiment, None).unwrap();
            assert_eq!(interval, task.recall_interval(), "{}", name.as_str());
            names += usize::from(interval.is_some());
        }
        assert_eq!(names, 5);
    }

    #[test]
    fn training_raises_the_bound() {
        let (experiment, task, model, device) = small(&["training.learning_rate=0.01"]);
        let mut trainer = Trainer::new(&experiment, model, task.as_ref(), device).unwrap();
        let stream = Stream::new(1, "data");
        let mut bound = |step| {
            let batch = task.batch(Split::Train, &stream, step, 16);
            trainer.step(&experiment, step, batch).unwrap();
            trainer.metrics().unwrap().unwrap().bound
        };
        let first = bound(1);
        let last = (2..60).map(&mut bound).last().unwrap();
        assert!(last > first + 500.0, "{first} {last}");
    }
}
