//! The learner of temporal VAEs on tasks of frames.

use super::{
    Frames,
    evaluate::evaluate,
    figures::{frame_figures, generated_picture},
    training::{Model, parts},
};
use crate::{
    Experiment, LabError,
    experiment::gallery::{Drawn, Gallery, Shown},
    families::trainer::{BatchTensors, Trainer},
    pictures::Figures,
};
use burn::tensor::Device;
use mnemora_memory::{Count, Memory};
use mnemora_models::FilteringModel;
use mnemora_training::{
    Error, Learner, Purpose, Row, Snapshot, StepFailure,
    device::outline,
    memory_use::{Planned, Work, in_words},
    online::{Numbers, Observed, OnlineFilter},
};
use mnemora_worlds::{Batch, DataSet, Prefetch, Scale, Split, Stream, Task};
use std::{hint::black_box, path::Path, sync::Arc};

/// Batches of frames made ahead of training.
const AHEAD: usize = 8;

/// A temporal VAE that learns a task of frames.
pub struct FrameLearner<M: Memory + 'static> {
    family: &'static Frames<M>,
    experiment: Experiment,
    task: Arc<dyn Task>,
    /// The data that the task draws from.
    data: Arc<DataSet>,
    trainer: Trainer<Model<M>>,
    batches: Prefetch<Batch>,
}

/// The parts of the experiment's model, and how much memory its training takes.
pub(super) fn planned<M: Memory + 'static>(
    family: &Frames<M>,
    experiment: &Experiment,
    task: &dyn Task,
    data: &DataSet,
) -> Result<Planned, LabError> {
    let model = family.model_of(experiment, task, &mut outline()?)?;
    let (pixels, time) = (task.frame().size(), task.time());
    let footprint = model.footprint(pixels, time);
    let sizes = [model.latent_size(), pixels, time];
    let ([learning, looking], inference) =
        experiment
            .sizes()
            .filtered(&experiment.filtering, &footprint, sizes, time)?;
    let images = [Split::Train, Split::Test].map(|split| data.split(split).len());
    let numbers = Count::product(&[pixels + task.condition_width() + 8, time]);
    let work = Work {
        learning,
        // The evaluation also keeps generated sequences and the true ones.
        looking: looking + Count::product(&[6, pixels, time, experiment.evaluation.batch]),
        // One being made, and one in use.
        batches: numbers * (AHEAD + 2) * experiment.training.batch,
        // A label and an index with each image.
        data: Count::product(&[pixels + 10, images.iter().sum()]),
    };
    Ok(Planned::new(parts(&model, inference), work))
}

impl<M: Memory + 'static> FrameLearner<M> {
    /// A fresh learner with its model on `device`.
    pub fn new(
        family: &'static Frames<M>,
        experiment: &Experiment,
        data: Arc<DataSet>,
        device: &Device,
    ) -> Result<Self, LabError> {
        let task = family.task(experiment, data.clone())?;
        let model = family.model(experiment, task.as_ref(), device)?;
        let trainer = Trainer::new(experiment, model, task.frame().size(), device.clone())?;
        let (frames, stream) = (task.clone(), Stream::new(experiment.seed, "data"));
        let size = experiment.training.batch;
        Ok(Self {
            batches: Prefetch::new(task.name(), AHEAD, move |(), index| {
                frames.batch(Split::Train, &stream, index, size)
            }),
            family,
            experiment: experiment.clone(),
            task,
            data,
            trainer,
        })
    }
}

impl<M: Memory + 'static> Learner for FrameLearner<M> {
    fn sizes(&self) -> Vec<(String, usize)> {
        in_words(self.trainer.parts())
    }

    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let batch = self.batches.batch(step - 1, ())?;
        let batch = BatchTensors::new(batch, &self.trainer.device);
        self.trainer.update(step, batch)
    }

    fn deferred(&self) -> bool {
        self.trainer.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        self.trainer.measured()
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let images = self.family.row(&self.experiment)?.images;
        let measures = evaluate(
            &self.experiment,
            images,
            &self.trainer.inference(),
            self.task.as_ref(),
            purpose,
        )?;
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        self.trainer.snapshot()
    }

    fn restore(&mut self, from: Snapshot, path: &Path) -> Result<(), Error> {
        self.trainer.restore(from, path)
    }
}

impl<M: Memory + 'static> Gallery for FrameLearner<M> {
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        let task = self.family.task(experiment, self.data.clone())?;
        planned(self.family, experiment, task.as_ref(), &self.data)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        black_box(self.batches.make(step - 1, &()));
        Ok(())
    }

    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        let task = match steps {
            None => self.task.clone(),
            Some(steps) => {
                let mut experiment = self.experiment.clone();
                // The frames before the recall interval stay; a similarity cue is one frame of the interval.
                let cue = self.task.prompt() - self.experiment.task.length;
                experiment.task.recall = steps + cue;
                let task = self.family.task(&experiment, self.data.clone());
                task.map_err(|error| match error {
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
        let picture = generated_picture(&self.trainer.inference(), task.as_ref(), sequences, seed)?;
        Ok(Drawn::picture(picture, task.time()))
    }

    fn online(&self, seed: u64) -> Option<Box<dyn OnlineFilter>> {
        let observed = Observed {
            frame: self.task.frame(),
            numbers: Numbers::Pixels,
            scale: Scale::IDENTITY,
            conditions: self.task.condition_width(),
        };
        Some(self.trainer.online(observed, seed))
    }

    fn stored(&self) -> Option<usize> {
        self.trainer.model.stored()
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        frame_figures(&self.trainer.inference(), self.task.as_ref(), shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        TaskName,
        families::frames::{FRAMES, Model},
        load_experiment,
    };
    use mnemora_training::arrays::{Arrays, collect, restore};
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
        let task = FRAMES
            .task(&experiment, Arc::new(Mnist::bundled().unwrap()))
            .unwrap();
        let model = FRAMES.model(&experiment, task.as_ref(), &device).unwrap();
        (experiment, task, model, device)
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_and_changes_nothing() {
        let (experiment, task, model, device) = small(&[]);
        let mut arrays = collect(&model);
        arrays.get_mut("prior.hidden.bias").unwrap().values[0] = f32::NAN;
        let model = restore(model, arrays, Path::new("test")).unwrap();
        let before = format!("{:?}", collect(&model));
        let mut trainer = Trainer::new(&experiment, model, task.frame().size(), device).unwrap();
        let batch = task.batch(Split::Train, &Stream::new(1, "data"), 0, 2);
        let Err(StepFailure::NonFinite { what, .. }) =
            trainer.update(1, BatchTensors::new(batch, &trainer.device.clone()))
        else {
            panic!("a NaN was trained on");
        };
        assert_eq!(what, "the KL divergence");
        assert_eq!(format!("{:?}", collect(&trainer.model)), before);
        assert!(trainer.updates.optimiser.collect().is_empty());
    }

    /// Metrics of two updates in segments of this length; also Adam's moments, which contain the gradients, and the
    /// weights after the first.
    fn two_updates(segment: usize, overrides: &[&str]) -> (Vec<f32>, Arrays, Arrays) {
        let (mut experiment, task, model, device) = small(overrides);
        experiment.training.segment = segment;
        let mut trainer = Trainer::new(&experiment, model, task.frame().size(), device).unwrap();
        let stream = Stream::new(1, "data");
        let mut update = |step| {
            let batch = task.batch(Split::Train, &stream, step, 2);
            trainer
                .update(step, BatchTensors::new(batch, &trainer.device.clone()))
                .unwrap();
            let made = trainer.measured().unwrap().unwrap().measures;
            let metrics = ["bound", "kl_last", "gradient_norm"];
            let metrics = metrics.map(|key| made.number(key).unwrap() as f32);
            let moments = trainer.updates.optimiser.collect();
            (metrics, moments, collect(&trainer.model))
        };
        let (first, moments, weights) = update(1);
        let (second, _, _) = update(2);
        ([first, second].concat(), moments, weights)
    }

    /// Close relative to the largest expected number, or to `scale` if that is larger.
    fn assert_close(name: &str, found: &[f32], expected: &[f32], tolerance: f32, scale: f32) {
        assert_eq!(found.len(), expected.len(), "{name}");
        let scale = expected.iter().fold(scale, |m, e| m.max(e.abs()));
        for (found, expected) in found.iter().zip(expected) {
            let error = (found - expected).abs();
            assert!(error <= tolerance * scale, "{name}: {found} {expected}");
        }
    }

    /// For every memory, five steps in segments of 2, 2 and 1 give the same update as all at once.
    #[test]
    fn segments_change_no_gradient() {
        let memories = Experiment::default().family().memories();
        let settings: Vec<String> = memories
            .iter()
            .map(|memory| format!("model.memory={}", memory.as_str()))
            .collect();
        let small = [
            "memory.vrnn.hidden=8",
            "memory.ntm.hidden=8",
            "memory.lru.hidden=8",
            "memory.dnc.hidden=8",
            "memory.hybrid.hidden=8",
            "memory.rmc.heads=2",
            "memory.rmc.head_size=4",
        ];
        let mut cases = Vec::new();
        for (memory, setting) in memories.iter().zip(&settings) {
            let mut case = small.to_vec();
            case.push(setting);
            case.extend(memory.needs_actions().then_some("task.name=mnist-map"));
            cases.push(case);
        }
        // Memories whose state has indices; conditions; batch norm, which must see all frames at once.
        cases.push([&small[..], &["model.memory=lru", "memory.lru.nearest=3"]].concat());
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
                // A bias before a batch norm has a zero gradient, apart from rounding.
                let floor = if key.ends_with(".first") { 1e-5 } else { 1e-12 };
                let name = format!("{case:?}: {key}");
                assert_close(&name, &moments[key].values, &all.values, tolerance, floor);
            }
            // Adam's step along such a gradient is also only rounding. The same holds for the bias of the RMC's keys: a
            // constant added to all keys changes no attention.
            let of_rounding = |key: &str| batch_norm || key.ends_with("qkv_norm.beta");
            for (key, all) in all_weights.iter().filter(|(key, _)| !of_rounding(key)) {
                let name = format!("{case:?}: {key}");
                assert_close(&name, &weights[key].values, &all.values, 1e-3, 0.1);
            }
        }
    }

    /// The layout known without data is the task's own.
    #[test]
    fn settings_know_the_recall_interval() {
        let mut names = 0;
        for name in TaskName::all() {
            let mut experiment = Experiment::default();
            experiment.task.name = name;
            (experiment.task.length, experiment.task.recall) = (20, 7);
            let interval = experiment.family().recall_interval(&experiment);
            if experiment.family().name() != "frames" {
                assert_eq!(interval, None, "{}", name.as_str());
                continue;
            }
            let data = FRAMES.find_images(&mut experiment, None).unwrap();
            let task = FRAMES.task(&experiment, data).unwrap();
            assert_eq!(interval, task.recall_interval(), "{}", name.as_str());
            names += usize::from(interval.is_some());
        }
        assert_eq!(names, 5);
    }

    #[test]
    fn training_raises_the_bound() {
        let (experiment, task, model, device) = small(&["training.learning_rate=0.01"]);
        let mut trainer = Trainer::new(&experiment, model, task.frame().size(), device).unwrap();
        let stream = Stream::new(1, "data");
        let mut bound = |step| {
            let batch = task.batch(Split::Train, &stream, step, 16);
            trainer
                .update(step, BatchTensors::new(batch, &trainer.device.clone()))
                .unwrap();
            let made = trainer.measured().unwrap().unwrap().measures;
            made.number("bound").unwrap()
        };
        let first = bound(1);
        let last = (2..60).map(&mut bound).last().unwrap();
        assert!(last > first + 500.0, "{first} {last}");
    }
}
