//! The N-th farthest task: a recurrent core reads labelled vectors and says which is the n-th farthest
//! from another (Santoro et al. 2018, section 4.1).

use crate::{
    Evaluation, Experiment, LabError,
    adam::{Adam, ParameterGradients},
    curriculum::Stages,
    curves::{
        accuracy_by_n_chart, accuracy_chart, admitted_chart, held_out_series, training_series,
    },
    evaluate::{data_stream, mean_and_stderr},
    learner::{Drawn, Learner, Shown, StepFailure, Updates},
    memory_use::{Parts, Planned, Work, in_words, outline, sequences},
    present::{Figures, attention_maps, charted, drawn, grid},
    run::Metrics,
    weights::{Arrays, collect, host, parameters_of, restore},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_figures::{
    FigureError,
    chart::Series,
    picture::{HeatMap, Image, heat_map},
};
use mnemora_memory::{AnyCore, Count, Initializer};
use mnemora_models::{Classified, Classifier};
use mnemora_worlds::{NthFarthest, NthFarthestBatch, Stream};
use std::{hint::black_box, path::Path};

/// Pixels that a number takes in pictures.
const CELL: usize = 12;

/// A recurrent core that learns which vector is the n-th farthest.
///
/// Held-out sequences ask for every n, whatever a curriculum admits.
pub struct NthFarthestLearner {
    task: NthFarthest,
    /// Which n are asked for: at stage n all up to n.
    curriculum: Option<Stages>,
    /// The largest n of the last batch, where there is a curriculum.
    admitted: Option<usize>,
    /// On an autodiff device if it is to learn.
    model: Classifier<AnyCore>,
    updates: Updates,
    device: Device,
}

/// A batch on a device.
struct Questions {
    /// `[time, batch, width]`
    inputs: Tensor<3>,
    /// `[batch, classes]`, 1 for the right one
    targets: Tensor<2>,
}

impl Questions {
    /// Uploads a batch.
    fn new(batch: NthFarthestBatch, device: &Device) -> Self {
        let NthFarthestBatch {
            time,
            batch: rows,
            width,
            ..
        } = batch;
        let targets = TensorData::new(one_hot(&batch.targets, time), [rows, time]);
        let inputs = TensorData::new(batch.inputs, [rows, time, width]);
        Self {
            inputs: Tensor::<3>::from_data(inputs, device).swap_dims(0, 1),
            targets: Tensor::from_data(targets, device),
        }
    }
}

/// `[classes.len(), count]`
fn one_hot(classes: &[usize], count: usize) -> Vec<f32> {
    let mut values = vec![0.0; classes.len() * count];
    for (row, class) in values.chunks_mut(count).zip(classes) {
        row[*class] = 1.0;
    }
    values
}

/// The task with every n admitted.
fn task(experiment: &Experiment) -> Result<NthFarthest, LabError> {
    let settings = &experiment.task;
    Ok(NthFarthest::new(settings.vectors, settings.dimensions)?)
}

/// What the experiment's model consists of, and how much memory its training takes.
pub(crate) fn planned(experiment: &Experiment) -> Result<Planned, LabError> {
    let task = task(experiment)?;
    let config = experiment.classifier_config(task.width(), task.classes())?;
    let model = config.init(&mut outline()?)?;
    let time = experiment.time();
    let [learning, looking] = sequences(experiment, &model.footprint(time), time);
    let work = Work {
        learning,
        looking,
        batches: Count::product(&[task.width(), time, experiment.training.batch]) * 2,
        ..Work::default()
    };
    Ok(Planned::new(parts(&model), work))
}

/// Trainable numbers, whole model first.
fn parts(model: &Classifier<AnyCore>) -> Parts {
    vec![
        ("model".into(), parameters_of(model)),
        ("memory".into(), parameters_of(&model.core)),
        ("head".into(), parameters_of(&model.head)),
    ]
}

impl NthFarthestLearner {
    /// A fresh one, its model on `device` and drawn from the experiment's seed.
    pub fn new(experiment: &Experiment, device: &Device) -> Result<Self, LabError> {
        let task = task(experiment)?;
        let stream = Stream::new(experiment.seed, "parameters").at(0);
        let mut init = Initializer::new(stream, device.clone());
        let config = experiment.classifier_config(task.width(), task.classes())?;
        let settings = &experiment.task;
        Ok(Self {
            task,
            curriculum: settings
                .curriculum
                .then(|| Stages::new(settings.vectors, settings.admit_at)),
            admitted: None,
            model: config.init(&mut init)?,
            updates: Updates::new(Adam::default(), device),
            device: device.clone(),
        })
    }

    /// The task as the curriculum has it now.
    fn training_task(&self) -> Result<NthFarthest, LabError> {
        Ok(match &self.curriculum {
            Some(curriculum) => self.task.with_admitted(curriculum.stage())?,
            None => self.task,
        })
    }

    /// The batch from which update `step` learns.
    fn training_batch(
        &self,
        experiment: &Experiment,
        step: u64,
    ) -> Result<NthFarthestBatch, LabError> {
        let data = Stream::new(experiment.seed, "data");
        let task = self.training_task()?;
        Ok(task.batch(&data, step - 1, experiment.training.batch))
    }

    /// One sequence, and what the model makes of it.
    fn answer(&self, stream: &Stream, index: u64) -> (NthFarthestBatch, Classified) {
        let model = self.model.valid();
        let batch = self.task.batch(stream, index, 1);
        let questions = Questions::new(batch.clone(), &model.device());
        (batch, model.forward(questions.inputs))
    }
}

impl Learner for NthFarthestLearner {
    fn parameters(&self) -> Vec<(String, usize)> {
        in_words(parts(&self.model))
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        planned(experiment)
    }

    fn weights(&self) -> Arrays {
        collect(&self.model)
    }

    fn optimizer(&self) -> Arrays {
        let mut arrays = self.updates.adam.collect();
        if let Some(curriculum) = &self.curriculum {
            curriculum.add_to(&mut arrays);
        }
        arrays
    }

    fn restore(
        &mut self,
        weights: Arrays,
        optimizer: Option<Arrays>,
        path: &Path,
    ) -> Result<(), LabError> {
        self.model = restore(self.model.clone(), weights, path)?;
        if let Some(mut optimizer) = optimizer {
            if let Some(curriculum) = &mut self.curriculum {
                curriculum.restore(&mut optimizer, path)?;
            }
            self.updates.adam = Adam::restore(optimizer, &self.device.clone().inner(), path)?;
        }
        Ok(())
    }

    /// The loss is the cross entropy, the mean over the batch of minus the log likelihood.
    ///
    /// A curriculum needs the accuracy of each step, so that with one no step is looked at later.
    fn step(&mut self, experiment: &Experiment, step: u64) -> Result<(), StepFailure> {
        let batch = self.training_batch(experiment, step);
        let batch = batch.map_err(StepFailure::Batch)?;
        let questions = Questions::new(batch, &self.device);
        let said = self.model.forward(questions.inputs);
        let likelihood = said.log_likelihood(questions.targets.clone()).mean();
        let accuracy = said.right(questions.targets).mean();
        let terms = Tensor::cat(vec![likelihood.clone().inner(), accuracy.inner()], 0);
        let gradients = ParameterGradients::of(&self.model, likelihood.neg().backward());
        const NAMES: [&str; 2] = ["log likelihood", "accuracy"];
        self.updates
            .make(&mut self.model, experiment, step, gradients, &NAMES, terms)?;
        if let Some(curriculum) = &mut self.curriculum
            && let Some(made) = self.updates.last()?
        {
            self.admitted = Some(curriculum.stage());
            curriculum.observe(made.terms[1]);
        }
        Ok(())
    }

    fn draw_batch(&self, experiment: &Experiment, step: u64) -> Result<(), LabError> {
        black_box(self.training_batch(experiment, step)?);
        Ok(())
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn metrics(&mut self) -> Result<Option<Metrics>, StepFailure> {
        let admitted = self.admitted;
        Ok(self.updates.last()?.map(|made| Metrics {
            step: made.step,
            bound: made.terms[0],
            accuracy: Some(made.terms[1]),
            admitted,
            gradient_norm: made.gradient_norm,
            learning_rate: made.learning_rate,
            ..Metrics::default()
        }))
    }

    fn evaluate(
        &self,
        experiment: &Experiment,
        step: u64,
        batches: u64,
        purpose: &str,
    ) -> Result<Evaluation, LabError> {
        let model = self.model.valid();
        let data = data_stream(experiment.seed, purpose);
        let size = experiment.evaluation.batch;
        let mut bounds = Vec::new();
        // Right answers and sequences, for each n.
        let mut by_n = vec![(0.0, 0_usize); self.task.classes()];
        for index in 0..batches {
            let batch = self.task.batch(&data, index, size);
            let nth = batch.nth.clone();
            let questions = Questions::new(batch, &model.device());
            let said = model.forward(questions.inputs);
            let likelihood = said.log_likelihood(questions.targets.clone());
            bounds.extend(host(likelihood.into_data()).into_iter().map(f64::from));
            let right = host(said.right(questions.targets).into_data());
            for (n, right) in nth.into_iter().zip(right) {
                let (sum, count) = &mut by_n[n - 1];
                *sum += f64::from(right);
                *count += 1;
            }
        }
        let (bound, bound_stderr) = mean_and_stderr(&bounds);
        let right: f64 = by_n.iter().map(|(sum, _)| sum).sum();
        let shares = by_n.iter();
        Ok(Evaluation {
            step,
            sequences: bounds.len(),
            bound,
            bound_stderr,
            accuracy: Some(right / bounds.len() as f64),
            accuracy_by_n: shares
                .map(|(sum, count)| (*count > 0).then(|| sum / *count as f64))
                .collect(),
            ..Evaluation::default()
        })
    }

    fn draw(
        &self,
        _: &Experiment,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError> {
        if let Some(steps) = steps {
            return Err(LabError::Configuration(format!(
                "--steps {steps}: a sequence of the task nth-farthest has as many steps as vectors, and the \
                 model answers after the last; leave --steps out"
            )));
        }
        let stream = Stream::new(seed, "pictures");
        let mut images = Vec::new();
        for index in 0..sequences as u64 {
            let (batch, said) = self.answer(&stream, index);
            let probabilities = host(said.probabilities().into_data());
            let target = one_hot(&batch.targets, batch.time);
            let pairs = target.iter().zip(&probabilities);
            let columns: Vec<f32> = pairs.flat_map(|(a, b)| [*a, *b]).collect();
            images.push(input_map(&batch)?);
            images.push(heat_map(&HeatMap {
                title: "Target and output".into(),
                values: &columns,
                rows: batch.time,
                columns: 2,
                row_axis: "label".into(),
                column_axis: "1 target, 2 model".into(),
                first_number: 1,
                first_row: 1,
                falling: None,
                range: Some((0.0, 1.0)),
                cell: CELL,
                marked: Vec::new(),
            })?);
        }
        Ok(Drawn {
            picture: grid(&images, 2)?,
            time: self.task.classes(),
            files: Vec::new(),
        })
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        let experiment = shown.experiment;
        let generated = self
            .draw(experiment, experiment.evaluation.pictures, 1, None)?
            .picture;
        let pictures = vec![drawn(
            &generated,
            &shown.samples.join("generated.png"),
            "Held-out sequences, the bar at the reference: rows of an input are the vector, its label, n \
             and the reference's label. Beside them the right label, and the probabilities that the model \
             gives after the last step."
                .into(),
        )?];
        let chance = 1.0 / self.task.classes() as f64;
        let held_out = held_out_series("held-out, every n", shown.held_out, |row| row.accuracy);
        let by_n = Series {
            label: "held-out".into(),
            points: (1..)
                .map(f64::from)
                .zip(&shown.evaluation.accuracy_by_n)
                .filter_map(|(n, share)| Some((n, (*share)?)))
                .collect(),
            band: None,
        };
        let training = training_series(shown.metrics, |row| row.accuracy);
        let mut charts = vec![
            charted(
                accuracy_chart(vec![training, held_out], chance),
                "Share of right classes over training. Training batches ask for the n that are \
                 admitted, held-out ones for every n.",
            )?,
            charted(
                accuracy_by_n_chart(vec![by_n], chance),
                "Share of right classes after training, by the n that is asked for. The farthest is 1; the \
                 last is the reference itself, whose label the input names.",
            )?,
        ];
        if self.curriculum.is_some() {
            charts.push(charted(
                admitted_chart(shown.metrics, "largest n admitted", self.task.classes()),
                "The largest n that training batches ask for.",
            )?);
        }
        let (batch, said) = self.answer(&Stream::new(1, "pictures"), 0);
        let mut memory = Vec::new();
        if let Some(picture) = attention_maps(said.attention, &batch.reference_step)? {
            memory.push(drawn(
                &picture,
                &shown.samples.join("attention.png"),
                "Weights of each head over the slots while the first of these sequences is read, one \
                 column a step; the bar marks the reference. For the RMC the last row is the input, and \
                 weights are averaged over the slots that take them."
                    .into(),
            )?);
        }
        Ok(Figures {
            generated,
            pictures,
            charts,
            memory,
        })
    }
}

/// Draws the first sequences of the training data, with every n admitted.
pub fn training_picture(experiment: &Experiment) -> Result<Image, LabError> {
    let task = task(experiment)?;
    let data = Stream::new(experiment.seed, "data");
    let images = (0..experiment.evaluation.pictures as u64)
        .map(|index| input_map(&task.batch(&data, index, 1)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(grid(&images, 2)?)
}

/// Draws the inputs of the first sequence of a batch, a column a step, with question and answer.
fn input_map(batch: &NthFarthestBatch) -> Result<Image, FigureError> {
    let (time, width) = (batch.time, batch.width);
    let mut transposed = vec![0.0; time * width];
    for (step, input) in batch.inputs.chunks(width).take(time).enumerate() {
        for (place, value) in input.iter().enumerate() {
            transposed[place * time + step] = *value;
        }
    }
    heat_map(&HeatMap {
        title: format!("n = {}, answer {}", batch.nth[0], batch.targets[0] + 1),
        values: &transposed,
        rows: width,
        columns: time,
        row_axis: "vector, label, n, m".into(),
        column_axis: "step".into(),
        first_number: 1,
        first_row: 1,
        falling: None,
        range: Some((-1.0, 1.0)),
        cell: CELL,
        marked: vec![batch.reference_step[0]],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_experiment;

    fn small(overrides: &[&str]) -> (Experiment, NthFarthestLearner) {
        let sizes = [
            "model.memory=lstm",
            "memory.lstm.hidden=16",
            "model.head_layers=1",
            "model.head_hidden=16",
            "task.vectors=2",
            "task.dimensions=1",
            "training.batch=16",
            "training.learning_rate=0.02",
            "evaluation.batch=32",
        ];
        let overrides = sizes.iter().chain(overrides).map(|s| s.to_string());
        let overrides = overrides.collect::<Vec<_>>();
        let experiment = load_experiment("nth-farthest-small", &overrides).unwrap();
        let device = Device::default().autodiff();
        let learner = NthFarthestLearner::new(&experiment, &device).unwrap();
        (experiment, learner)
    }

    /// Of two vectors the farthest is the other one, whatever the vectors are.
    #[test]
    fn training_learns_the_other_of_two() {
        for memory in ["lstm", "rmc"] {
            let (experiment, mut learner) = small(&[
                &format!("model.memory={memory}"),
                "memory.rmc.slots=2",
                "memory.rmc.heads=2",
                "memory.rmc.head_size=4",
            ]);
            let before = learner.evaluate(&experiment, 0, 4, "test").unwrap();
            assert_eq!(before.sequences, 128);
            assert!((before.bound + 2.0_f64.ln()).abs() < 0.4, "{before:?}");
            assert!((before.accuracy.unwrap() - 0.5).abs() < 0.2, "{before:?}");
            let mut admitted = Vec::new();
            for step in 1..=300 {
                learner.step(&experiment, step).unwrap();
                admitted.extend(learner.metrics().unwrap().unwrap().admitted);
            }
            assert_eq!((admitted[0], admitted[299]), (1, 2), "{memory}");
            assert!(admitted.is_sorted());
            let after = learner.evaluate(&experiment, 300, 4, "test").unwrap();
            assert!(after.accuracy.unwrap() > 0.97, "{memory} {after:?}");
            assert_eq!(after.accuracy_by_n.len(), 2);
            assert_eq!((after.kl, after.bit_error), (None, None));
        }
    }

    /// A learner that takes on the arrays of another goes on as that one does.
    #[test]
    fn a_restored_learner_goes_on_with_the_curriculum() {
        let (experiment, mut whole) = small(&["task.vectors=3", "task.admit_at=0.3"]);
        for step in 1..=40 {
            whole.step(&experiment, step).unwrap();
        }
        let (_, mut parted) = small(&["task.vectors=3", "task.admit_at=0.3"]);
        parted
            .restore(whole.weights(), Some(whole.optimizer()), Path::new("test"))
            .unwrap();
        assert_eq!(whole.curriculum, parted.curriculum);
        for step in 41..=60 {
            whole.step(&experiment, step).unwrap();
            parted.step(&experiment, step).unwrap();
            assert_eq!(whole.metrics().unwrap(), parted.metrics().unwrap());
        }
        assert_eq!(whole.weights(), parted.weights());
        assert_eq!(whole.optimizer(), parted.optimizer());
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_and_changes_nothing() {
        let (experiment, mut learner) = small(&[]);
        let mut weights = learner.weights();
        weights.get_mut("head.output.bias").unwrap().values[0] = f32::NAN;
        learner.restore(weights, None, Path::new("test")).unwrap();
        let before = format!("{:?} {:?}", learner.weights(), learner.optimizer());
        let Err(StepFailure::NonFinite { what, .. }) = learner.step(&experiment, 1) else {
            panic!("a NaN was trained on");
        };
        assert_eq!(what, "the log likelihood");
        let after = format!("{:?} {:?}", learner.weights(), learner.optimizer());
        assert_eq!(after, before);
    }
}
