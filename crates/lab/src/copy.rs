//! The copy task: a recurrent core reads a string of bit vectors and writes it out again
//! (Graves et al. 2014, section 4.1).

use crate::{
    Evaluation, Experiment, LabError,
    adam::{Adam, ParameterGradients},
    curves::{bit_error_chart, held_out_series, training_series},
    evaluate::{data_stream, mean_and_stderr},
    learner::{Drawn, Learner, Shown, StepFailure, Updates},
    memory_use::{Parts, Planned, Work, in_words, outline, sequences},
    present::{Figures, attention_maps, charted, drawn, grid},
    run::Metrics,
    weights::{Arrays, collect, host, parameters_of, restore},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData, activation},
};
use mnemora_figures::{
    FigureError,
    picture::{HeatMap, Image, heat_map},
};
use mnemora_memory::{AnyCore, Count, Initializer};
use mnemora_models::{Answers, SequenceModel};
use mnemora_worlds::{CopyBatch, CopyTask, Stream};
use std::{hint::black_box, ops::Range, path::Path};

/// Pixels that a bit takes in pictures.
const CELL: usize = 10;

/// A recurrent core that learns to copy.
///
/// Strings in training have lengths from 1 to `task.longest`; held-out ones have the longest.
pub struct CopyLearner {
    task: CopyTask,
    longest: usize,
    /// On an autodiff device if it is to learn.
    model: SequenceModel<AnyCore>,
    updates: Updates,
    device: Device,
}

/// A batch on a device.
struct Strings {
    /// `[time, batch, bits + 2]`
    inputs: Tensor<3>,
    /// `[time, batch, bits]`
    targets: Tensor<3>,
    /// `[time, batch]`
    mask: Tensor<2>,
}

impl Strings {
    /// Uploads a batch.
    fn new(batch: CopyBatch, device: &Device) -> Self {
        let CopyBatch {
            time,
            batch: rows,
            width,
            bits,
            ..
        } = batch;
        let inputs = TensorData::new(batch.inputs, [time, rows, width]);
        let targets = TensorData::new(batch.targets, [time, rows, bits]);
        Self {
            inputs: Tensor::from_data(inputs, device),
            targets: Tensor::from_data(targets, device),
            mask: Tensor::from_data(TensorData::new(batch.mask, [time, rows]), device),
        }
    }
}

/// Bits of each string of a batch that are to be written.
fn answer_bits(batch: &CopyBatch) -> usize {
    (batch.time / 2 - 1) * batch.bits
}

/// What the experiment's model consists of, and how much memory its training takes.
pub(crate) fn planned(experiment: &Experiment) -> Result<Planned, LabError> {
    let model = experiment.sequence_config()?.init(&mut outline()?)?;
    let (bits, time) = (experiment.task.bits, experiment.time());
    let [learning, looking] = sequences(experiment, &model.footprint(), time);
    let work = Work {
        learning,
        looking,
        batches: Count::product(&[2 * bits + 3, time, experiment.training.batch]),
        ..Work::default()
    };
    Ok(Planned::new(parts(&model), work))
}

/// Trainable numbers, whole model first.
fn parts(model: &SequenceModel<AnyCore>) -> Parts {
    vec![
        ("model".into(), parameters_of(model)),
        ("memory".into(), parameters_of(&model.core)),
        ("output".into(), parameters_of(&model.output)),
    ]
}

impl CopyLearner {
    /// A fresh one, its model on `device` and drawn from the experiment's seed.
    pub fn new(experiment: &Experiment, device: &Device) -> Result<Self, LabError> {
        let (bits, longest) = (experiment.task.bits, experiment.task.longest);
        let stream = Stream::new(experiment.seed, "parameters").at(0);
        let mut init = Initializer::new(stream, device.clone());
        Ok(Self {
            task: CopyTask::new(bits, longest)?,
            longest,
            model: experiment.sequence_config()?.init(&mut init)?,
            updates: Updates::new(Adam::default(), device),
            device: device.clone(),
        })
    }

    /// The batch from which update `step` learns.
    fn training_batch(&self, experiment: &Experiment, step: u64) -> CopyBatch {
        let data = Stream::new(experiment.seed, "data");
        let size = experiment.training.batch;
        self.task.batch(&data, step - 1, size, None)
    }

    /// One string of `length` vectors, and what the model answers to it.
    fn answer(&self, stream: &Stream, index: u64, length: usize) -> (CopyBatch, Answers) {
        let model = self.model.valid();
        let batch = self.task.batch(stream, index, 1, Some(length));
        let strings = Strings::new(batch.clone(), &model.device());
        (batch, model.forward(strings.inputs))
    }
}

impl Learner for CopyLearner {
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
        self.updates.adam.collect()
    }

    fn restore(
        &mut self,
        weights: Arrays,
        optimizer: Option<Arrays>,
        path: &Path,
    ) -> Result<(), LabError> {
        self.model = restore(self.model.clone(), weights, path)?;
        if let Some(optimizer) = optimizer {
            self.updates.adam = Adam::restore(optimizer, &self.device.clone().inner(), path)?;
        }
        Ok(())
    }

    /// The loss is the mean over the batch of minus the log likelihood, divided by the number of
    /// bits that are answered, so that long strings do not outweigh short ones.
    fn step(&mut self, experiment: &Experiment, step: u64) -> Result<(), StepFailure> {
        let batch = self.training_batch(experiment, step);
        let bits = answer_bits(&batch) as f64;
        let strings = Strings::new(batch, &self.device);
        let answers = self.model.forward(strings.inputs);
        let likelihood = answers
            .log_likelihood(strings.targets.clone(), strings.mask.clone())
            .mean();
        let wrong = answers.wrong_bits(strings.targets, strings.mask).mean() / bits;
        let terms = Tensor::cat(vec![likelihood.clone().inner(), wrong.inner()], 0);
        let loss = likelihood.neg() / bits;
        let gradients = ParameterGradients::of(&self.model, loss.backward());
        const NAMES: [&str; 2] = ["log likelihood", "bit error"];
        self.updates
            .make(&mut self.model, experiment, step, gradients, &NAMES, terms)
    }

    fn draw_batch(&self, experiment: &Experiment, step: u64) -> Result<(), LabError> {
        black_box(self.training_batch(experiment, step));
        Ok(())
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn metrics(&mut self) -> Result<Option<Metrics>, StepFailure> {
        Ok(self.updates.last()?.map(|made| Metrics {
            step: made.step,
            bound: made.terms[0],
            bit_error: Some(made.terms[1]),
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
        let (mut bounds, mut wrong, mut bits) = (Vec::new(), 0.0, 0);
        for index in 0..batches {
            let batch = self.task.batch(&data, index, size, Some(self.longest));
            bits += size * answer_bits(&batch);
            let strings = Strings::new(batch, &model.device());
            let answers = model.forward(strings.inputs);
            let likelihood = answers.log_likelihood(strings.targets.clone(), strings.mask.clone());
            bounds.extend(host(likelihood.into_data()).into_iter().map(f64::from));
            let errors = host(
                answers
                    .wrong_bits(strings.targets, strings.mask)
                    .into_data(),
            );
            wrong += errors.into_iter().map(f64::from).sum::<f64>();
        }
        let (bound, bound_stderr) = mean_and_stderr(&bounds);
        Ok(Evaluation {
            step,
            sequences: bounds.len(),
            bound,
            bound_stderr,
            bit_error: Some(wrong / bits as f64),
            ..Evaluation::default()
        })
    }

    /// The steps of its own are those of writing: so many vectors has each string.
    fn draw(
        &self,
        _: &Experiment,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError> {
        let stream = Stream::new(seed, "pictures");
        let length = steps.unwrap_or(self.longest);
        let mut images = Vec::new();
        for index in 0..sequences as u64 {
            let (batch, answers) = self.answer(&stream, index, length);
            let probabilities = activation::sigmoid(answers.logits);
            let probabilities = host(probabilities.into_data());
            let answered = batch.time - length..batch.time;
            for (title, values) in [("Target", &batch.targets), ("Output", &probabilities)] {
                let steps = answered.clone();
                images.push(bit_map(title, values, batch.bits, steps, "vector")?);
            }
        }
        Ok(Drawn {
            picture: grid(&images, 2)?,
            time: 2 * length + 2,
            files: Vec::new(),
        })
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        let experiment = shown.experiment;
        let drawn_strings = self.draw(experiment, experiment.evaluation.pictures, 1, None)?;
        let generated = drawn_strings.picture;
        let pictures = vec![drawn(
            &generated,
            &shown.samples.join("generated.png"),
            format!(
                "Held-out strings of {} vectors as they should be written, and the probabilities \
                 of a one that the model gives.",
                self.longest
            ),
        )?];
        let held_out = held_out_series("held-out, longest", shown.held_out, |row| row.bit_error);
        let training = training_series(shown.metrics, |row| row.bit_error);
        let charts = vec![charted(
            bit_error_chart(vec![training, held_out]),
            "Share of wrong bits over training. Training strings have all lengths, held-out ones \
             the longest.",
        )?];
        let (batch, answers) = self.answer(&Stream::new(1, "pictures"), 0, self.longest);
        let answered: Vec<usize> = (batch.time - self.longest..batch.time).collect();
        let mut memory = Vec::new();
        if let Some(picture) = attention_maps(answers.attention, &answered)? {
            memory.push(drawn(
                &picture,
                &shown.samples.join("attention.png"),
                "Weights of each head over the slots while the first of these strings is read and \
                 written, one column a step; the bar marks the steps of writing."
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

/// Draws strings of training batches, one of each batch: what is read and what is to be written.
pub fn training_picture(experiment: &Experiment) -> Result<Image, LabError> {
    let task = CopyTask::new(experiment.task.bits, experiment.task.longest)?;
    let data = Stream::new(experiment.seed, "data");
    let mut images = Vec::new();
    for index in 0..experiment.evaluation.pictures as u64 {
        let batch = task.batch(&data, index, 1, None);
        let steps = 0..batch.time;
        for (title, values, bits) in [
            ("Input", &batch.inputs, batch.width),
            ("Target", &batch.targets, batch.bits),
        ] {
            images.push(bit_map(title, values, bits, steps.clone(), "step")?);
        }
    }
    Ok(grid(&images, 2)?)
}

/// Draws `steps` of one sequence's values `[time, bits]`, a column a step.
fn bit_map(
    title: &str,
    values: &[f32],
    bits: usize,
    steps: Range<usize>,
    column: &str,
) -> Result<Image, FigureError> {
    let columns = steps.len();
    let mut transposed = vec![0.0; bits * columns];
    for (column, row) in values
        .chunks(bits)
        .skip(steps.start)
        .take(columns)
        .enumerate()
    {
        for (bit, value) in row.iter().enumerate() {
            transposed[bit * columns + column] = *value;
        }
    }
    heat_map(&HeatMap {
        title: title.into(),
        values: &transposed,
        rows: bits,
        columns,
        row_axis: "bit".into(),
        column_axis: column.into(),
        first_number: 1,
        first_row: 1,
        falling: None,
        range: Some((0.0, 1.0)),
        cell: CELL,
        marked: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_experiment;

    fn small(overrides: &[&str]) -> (Experiment, CopyLearner) {
        let sizes = [
            "model.memory=lstm",
            "memory.lstm.hidden=16",
            "task.bits=2",
            "task.longest=2",
            "training.batch=8",
            "training.learning_rate=0.02",
            "evaluation.batch=8",
        ];
        let overrides = sizes.iter().chain(overrides).map(|s| s.to_string());
        let experiment = load_experiment("copy", &overrides.collect::<Vec<_>>()).unwrap();
        let learner = CopyLearner::new(&experiment, &Device::default().autodiff()).unwrap();
        (experiment, learner)
    }

    #[test]
    fn training_learns_to_copy() {
        let (experiment, mut learner) = small(&[]);
        let before = learner.evaluate(&experiment, 0, 4, "test").unwrap();
        assert_eq!(before.sequences, 32);
        // Two vectors of two bits, a fair coin each.
        assert!(
            (before.bound + 4.0 * 2.0_f64.ln()).abs() < 0.5,
            "{before:?}"
        );
        for step in 1..=300 {
            learner.step(&experiment, step).unwrap();
        }
        let after = learner.evaluate(&experiment, 300, 4, "test").unwrap();
        assert_eq!(after.bit_error, Some(0.0), "{after:?}");
        assert!(after.bound > -1.0, "{after:?}");
        assert_eq!(
            (after.kl, after.kl_last, after.reconstruction),
            (None, None, None)
        );
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_and_changes_nothing() {
        let (experiment, mut learner) = small(&[]);
        let mut weights = learner.weights();
        weights.get_mut("output.bias").unwrap().values[0] = f32::NAN;
        learner.restore(weights, None, Path::new("test")).unwrap();
        let before = format!("{:?}", learner.weights());
        let Err(StepFailure::NonFinite { what, .. }) = learner.step(&experiment, 1) else {
            panic!("a NaN was trained on");
        };
        assert_eq!(what, "the log likelihood");
        assert_eq!(format!("{:?}", learner.weights()), before);
        assert!(learner.optimizer().is_empty());
    }
}
