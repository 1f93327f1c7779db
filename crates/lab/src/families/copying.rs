//! The copy task: a recurrent core reads a string of bit vectors and reproduces it (Graves et al. 2014, section 4.1).

use super::{
    held_out::{batches, data_stream},
    supervised::{Learned, SupervisedTask, made},
};
use crate::{
    Experiment, LabError, MemoryName,
    curves::{
        Curves, bit_error_chart, bound_chart, bound_figure, held_out_series, training_series,
    },
    experiment::{
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Shown},
        shipped::{Shipped, presets},
    },
    pictures::{Figures, attention_maps, chart_figure, grid, save_figure},
};
use burn::tensor::{Device, Tensor, TensorData, activation};
use mnemora_figures::{
    FigureError,
    chart::Chart,
    picture::{HeatMap, Image, heat_map},
};
use mnemora_memory::{AnyCore, Count, Initializer};
use mnemora_models::{Answers, SequenceModel};
use mnemora_training::{
    Measures, Purpose, Quantity,
    arrays::{host, parameters_of},
    device::outline,
    learner::BATCHES_AT_A_TIME,
    measures::{Better, Claim, Format, mean_and_stderr},
    memory_use::{Parts, Planned, Work},
};
use mnemora_worlds::{CopyBatch, CopyTask, Stream};
use std::{ops::Range, path::Path};

/// The family.
pub struct Copy;

/// Its measurements.
const QUANTITIES: [Quantity; 2] = [
    Quantity::new("bound", "bound", "nats per sequence")
        .meaning("log likelihood of the answers, mean over {sequences} held-out sequences, higher is better")
        .spread("bound_stderr", "sequences")
        .better(Better::Higher)
        .column(1)
        .tracked()
        .finite()
        .progress("bound", Format::Digits)
        .checkpoint("bound", Format::Digits)
        .claims(&[Claim::new("bound", "nats per sequence", 1)]),
    Quantity::new("bit_error", "bit error", "% of bits")
        .meaning("wrong bits of the answers, with each bit decided at a probability of 1/2; 50 is chance")
        .format(Format::Percent(3))
        .better(Better::Lower)
        .column(4)
        .tracked()
        .progress("bit error", Format::Decimals(4))
        .checkpoint("bit error", Format::Decimals(4))
        .claims(&[Claim::new("bit error", "share of answered bits", 4)]),
];

impl Family for Copy {
    fn name(&self) -> &'static str {
        "copying"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        vec![
            TaskEntry::new(
                "copy",
                "random bit vectors to be reproduced (Graves et al. 2014, section 4.1)",
            )
            .reads(["bits", "longest"]),
        ]
    }

    fn presets(&self) -> &'static [Shipped] {
        presets!["copy"]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn memories(&self) -> &'static [MemoryName] {
        MemoryName::CORES
    }

    fn time(&self, experiment: &Experiment) -> usize {
        2 * experiment.task.longest + 2
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        format!("task.longest {}", experiment.task.longest)
    }

    fn words(&self, experiment: &Experiment) -> String {
        let task = &experiment.task;
        format!("copy with {} bits and longest {}", task.bits, task.longest)
    }

    fn numbers(&self, experiment: &Experiment) -> usize {
        2 * experiment.task.bits + 3
    }

    fn lengthen(&self, experiment: &mut Experiment, steps: usize) {
        experiment.task.longest = steps;
    }

    fn find(
        &'static self,
        _: &mut Experiment,
        _: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        Ok(made::<Strings>())
    }

    fn compared(&self, _: &Experiment, curves: &Curves) -> Vec<Chart> {
        vec![
            bit_error_chart(curves.held_out("bit_error")),
            bound_chart("nats per sequence", curves.held_out("bound")),
        ]
    }
}

/// Size of a bit in pictures, in pixels.
const CELL: usize = 10;

/// Strings to be copied: of lengths from 1 to `task.longest` in training, of the longest length when held out.
struct Strings {
    task: CopyTask,
    longest: usize,
}

/// A batch on a device.
struct OnDevice {
    /// `[time, batch, bits + 2]`
    inputs: Tensor<3>,
    /// `[time, batch, bits]`
    targets: Tensor<3>,
    /// `[time, batch]`
    mask: Tensor<2>,
}

impl OnDevice {
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

/// Number of bits to be answered for each string of a batch.
fn answer_bits(batch: &CopyBatch) -> usize {
    (batch.time / 2 - 1) * batch.bits
}

impl Strings {
    /// One string of `length` vectors, and the model's answer.
    fn answer(
        &self,
        model: &SequenceModel<AnyCore>,
        stream: &Stream,
        index: u64,
        length: usize,
    ) -> (CopyBatch, Answers) {
        let batch = self.task.batch(stream, index, 1, Some(length));
        let strings = OnDevice::new(batch.clone(), &model.device());
        (batch, model.forward(strings.inputs))
    }
}

impl SupervisedTask for Strings {
    type Model = SequenceModel<AnyCore>;
    type Batch = CopyBatch;

    const DATA: &'static str = "random bits";

    fn new(experiment: &Experiment) -> Result<Self, LabError> {
        let (bits, longest) = (experiment.task.bits, experiment.task.longest);
        Ok(Self {
            task: CopyTask::new(bits, longest)?,
            longest,
        })
    }

    fn model(experiment: &Experiment, init: &mut Initializer) -> Result<Self::Model, LabError> {
        Ok(experiment.sequence_config()?.init(init)?)
    }

    fn parts(model: &Self::Model) -> Parts {
        vec![
            ("model".into(), parameters_of(model)),
            ("memory".into(), parameters_of(&model.core)),
            ("output".into(), parameters_of(&model.output)),
        ]
    }

    fn planned(experiment: &Experiment) -> Result<Planned, LabError> {
        let model = Self::model(experiment, &mut outline()?)?;
        let (bits, time) = (experiment.task.bits, experiment.time());
        let [learning, looking] = experiment.sizes().sequences(&model.footprint(), time);
        let work = Work {
            learning,
            looking,
            batches: Count::product(&[2 * bits + 3, time, experiment.training.batch])
                * BATCHES_AT_A_TIME,
            ..Work::default()
        };
        Ok(Planned::new(Self::parts(&model), work))
    }

    /// Draws strings of training batches, one per batch: the input and the output to be written.
    fn training_picture(experiment: &Experiment) -> Result<Image, LabError> {
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

    fn batch(
        &self,
        stream: &Stream,
        index: u64,
        size: usize,
        _: usize,
    ) -> Result<CopyBatch, LabError> {
        Ok(self.task.batch(stream, index, size, None))
    }

    /// The loss is minus the log likelihood divided by the number of bits to be answered, mean over the batch, so that
    /// long strings do not outweigh short ones.
    fn learn(&self, model: &Self::Model, batch: CopyBatch, device: &Device) -> Learned {
        let bits = answer_bits(&batch) as f64;
        let strings = OnDevice::new(batch, device);
        let answers = model.forward(strings.inputs);
        let log_likelihood = answers
            .log_likelihood(strings.targets.clone(), strings.mask.clone())
            .mean();
        let wrong = answers.wrong_bits(strings.targets, strings.mask).mean() / bits;
        Learned {
            loss: log_likelihood.clone().neg() / bits,
            log_likelihood,
            measured: ("bit error", "bit_error", wrong),
        }
    }

    fn evaluate(
        &self,
        experiment: &Experiment,
        model: &Self::Model,
        purpose: Purpose,
    ) -> Result<Measures, LabError> {
        let data = data_stream(experiment, purpose);
        let size = experiment.evaluation.batch;
        let (mut bounds, mut wrong, mut bits) = (Vec::new(), 0.0, 0);
        for index in 0..batches(experiment, purpose) {
            let batch = self.task.batch(&data, index, size, Some(self.longest));
            bits += size * answer_bits(&batch);
            let strings = OnDevice::new(batch, &model.device());
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
        Ok(Measures::new()
            .with("sequences", bounds.len())
            .with("bound", bound)
            .with("bound_stderr", bound_stderr)
            .with("bit_error", wrong / bits as f64))
    }

    /// With `steps`, each string has that many vectors: the model's own steps are those in which it writes.
    fn draw(
        &self,
        _: &Experiment,
        model: &Self::Model,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError> {
        let stream = Stream::new(seed, "pictures");
        let length = steps.unwrap_or(self.longest);
        let mut images = Vec::new();
        for index in 0..sequences as u64 {
            let (batch, answers) = self.answer(model, &stream, index, length);
            let probabilities = activation::sigmoid(answers.logits);
            let probabilities = host(probabilities.into_data());
            let answered = batch.time - length..batch.time;
            for (title, values) in [("Target", &batch.targets), ("Output", &probabilities)] {
                let steps = answered.clone();
                images.push(bit_map(title, values, batch.bits, steps, "vector")?);
            }
        }
        Ok(Drawn::picture(grid(&images, 2)?, 2 * length + 2))
    }

    fn figures(&self, model: &Self::Model, shown: &Shown) -> Result<Figures, LabError> {
        let experiment = shown.experiment;
        let drawn_strings =
            self.draw(experiment, model, experiment.evaluation.pictures, 1, None)?;
        let generated = drawn_strings.picture;
        let pictures = vec![save_figure(
            &generated,
            &shown.samples.join("generated.png"),
            format!(
                "Held-out strings of {} vectors, and the probabilities \
                 of a 1 that the model outputs.",
                self.longest
            ),
        )?];
        let held_out = held_out_series("held-out, longest", shown.held_out, "bit_error");
        let training = training_series(shown.metrics, "bit_error");
        let charts = vec![
            bound_figure("nats per sequence", shown.metrics, shown.held_out),
            chart_figure(
                bit_error_chart(vec![training, held_out]),
                "Fraction of wrong bits over training. Training strings have all lengths, held-out ones \
             the longest.",
            ),
        ];
        let (batch, answers) = self.answer(model, &Stream::new(1, "pictures"), 0, self.longest);
        let answered: Vec<usize> = (batch.time - self.longest..batch.time).collect();
        let mut memory = Vec::new();
        if let Some(picture) = attention_maps(answers.attention, &answered)? {
            memory.push(save_figure(
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

/// Draws `steps` of one sequence's values `[time, bits]`, one column per step.
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
    use crate::families::supervised::testing::{learns, named_when_not_finite};

    const SMALL: [&str; 8] = [
        "model.memory=lstm",
        "memory.lstm.hidden=16",
        "task.bits=2",
        "task.longest=2",
        "training.batch=8",
        "training.learning_rate=0.02",
        "evaluation.batch=8",
        "evaluation.batches=4",
    ];

    #[test]
    fn training_learns_to_copy() {
        let (before, after) = learns::<Strings>("copy", &SMALL, 300);
        assert_eq!(before.count("sequences"), Some(32));
        // Two vectors of two bits, each a fair coin.
        let guessed = -4.0 * 2.0_f64.ln();
        assert!(
            (before.number("bound").unwrap() - guessed).abs() < 0.5,
            "{before:?}"
        );
        assert_eq!(after.number("bit_error"), Some(0.0), "{after:?}");
        assert!(after.number("bound").unwrap() > -1.0, "{after:?}");
        assert_eq!(after.get("kl"), None);
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_and_changes_nothing() {
        named_when_not_finite::<Strings>("copy", &SMALL, "output.bias");
    }
}
