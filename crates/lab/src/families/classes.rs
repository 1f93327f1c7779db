//! The N-th farthest task: a recurrent core reads labelled vectors and names the one that is n-th farthest from a
//! reference vector (Santoro et al. 2018, section 4.1).

use super::{
    held_out::{batches, data_stream},
    supervised::{Learned, SupervisedTask, made},
};
use crate::{
    Experiment, LabError, MemoryName, TaskSettings,
    curves::{
        Curves, accuracy_by_n_chart, accuracy_chart, admitted_chart, bound_chart, bound_figure,
        held_out_series, training_series,
    },
    experiment::{
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Shown},
        shipped::{Shipped, presets},
    },
    pictures::{Figures, attention_maps, chart_figure, grid, save_figure},
};
use burn::tensor::{Device, Tensor, TensorData};
use mnemora_figures::{
    FigureError,
    chart::{Chart, Series},
    picture::{HeatMap, Image, heat_map},
};
use mnemora_memory::{AnyCore, Count, Initializer};
use mnemora_models::{Classified, Classifier};
use mnemora_training::{
    Measures, Purpose, Quantity,
    arrays::{host, parameters_of},
    curriculum::Stages,
    device::outline,
    learner::BATCHES_AT_A_TIME,
    measures::{Better, Claim, Format, mean_and_stderr},
    memory_use::{Parts, Planned, Work},
};
use mnemora_worlds::{NthFarthest as Task, NthFarthestBatch, Stream};
use std::path::Path;

/// The family.
pub struct NthFarthest;

/// Its measurements.
const QUANTITIES: [Quantity; 4] = [
    Quantity::new("accuracy", "accuracy", "% of sequences")
        .meaning("sequences whose most probable class is the right one; {1/accuracy_by_n%} is chance")
        .format(Format::Percent(2))
        .better(Better::Higher)
        .column(4)
        .tracked()
        .progress("accuracy", Format::Decimals(3))
        .checkpoint("accuracy", Format::Decimals(3))
        .claims(&[Claim::new("accuracy", "share of right answers", 3)]),
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
    Quantity::new("accuracy_by_n", "accuracy by n", "% of sequences")
        .meaning("of the sequences that ask for n = 1, 2, ..")
        .format(Format::Percents),
    Quantity::new("admitted", "largest n", "").progress("admitted", Format::Decimals(0)),
];

impl Family for NthFarthest {
    fn name(&self) -> &'static str {
        "classes"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        vec![
            TaskEntry::new("nth-farthest", "which vector is the n-th farthest from another? (Santoro et al. 2018, section 4.1)").reads(["vectors", "dimensions", "curriculum"]),
        ]
    }

    fn presets(&self) -> &'static [Shipped] {
        presets!["nth-farthest", "nth-farthest-small"]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn memories(&self) -> &'static [MemoryName] {
        MemoryName::CORES
    }

    fn time(&self, experiment: &Experiment) -> usize {
        experiment.task.vectors
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        format!("task.vectors {}", experiment.task.vectors)
    }

    /// Also shows the number of vectors and dimensions if they differ from those of the shipped experiment of that
    /// name.
    fn setting(&self, experiment: &Experiment) -> String {
        let (name, task) = (&experiment.name, &experiment.task);
        let mut presets = self.presets().iter();
        let own = presets
            .find(|preset| preset.name == name)
            .and_then(|preset| preset.experiment(&[]).ok());
        let sizes = |task: &TaskSettings| (task.vectors, task.dimensions);
        match own.is_none_or(|own| sizes(&own.task) == sizes(task)) {
            true => name.clone(),
            false => format!("{name}, {} of {} dimensions", task.vectors, task.dimensions),
        }
    }

    fn words(&self, experiment: &Experiment) -> String {
        let task = &experiment.task;
        format!(
            "nth-farthest with {} vectors of {} dimensions",
            task.vectors, task.dimensions
        )
    }

    fn numbers(&self, experiment: &Experiment) -> usize {
        experiment.task.dimensions + 2 * experiment.task.vectors
    }

    fn find(
        &'static self,
        _: &mut Experiment,
        _: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        Ok(made::<Vectors>())
    }

    fn compared(&self, experiment: &Experiment, curves: &Curves) -> Vec<Chart> {
        let chance = 1.0 / experiment.task.vectors as f64;
        vec![
            accuracy_chart(curves.held_out("accuracy"), chance),
            bound_chart("nats per sequence", curves.held_out("bound")),
        ]
    }
}

/// Size of a number in pictures, in pixels.
const CELL: usize = 12;

/// Labelled vectors and a question about them. Held-out sequences ask for every n, at any stage of a curriculum.
struct Vectors {
    /// The task with every n.
    task: Task,
    /// Whether there is a curriculum: at stage n, questions use all numbers up to n.
    curriculum: bool,
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

/// The task with every n.
fn task(experiment: &Experiment) -> Result<Task, LabError> {
    let settings = &experiment.task;
    Ok(Task::new(settings.vectors, settings.dimensions)?)
}

impl Vectors {
    /// One sequence, and what the model makes of it.
    fn answer(
        &self,
        model: &Classifier<AnyCore>,
        stream: &Stream,
        index: u64,
    ) -> (NthFarthestBatch, Classified) {
        let batch = self.task.batch(stream, index, 1);
        let questions = Questions::new(batch.clone(), &model.device());
        (batch, model.forward(questions.inputs))
    }
}

impl SupervisedTask for Vectors {
    type Model = Classifier<AnyCore>;
    type Batch = NthFarthestBatch;

    const DATA: &'static str = "random vectors";

    fn new(experiment: &Experiment) -> Result<Self, LabError> {
        Ok(Self {
            task: task(experiment)?,
            curriculum: experiment.task.curriculum,
        })
    }

    fn model(experiment: &Experiment, init: &mut Initializer) -> Result<Self::Model, LabError> {
        let task = task(experiment)?;
        let config = experiment.classifier_config(task.width(), task.classes())?;
        Ok(config.init(init)?)
    }

    fn parts(model: &Self::Model) -> Parts {
        vec![
            ("model".into(), parameters_of(model)),
            ("memory".into(), parameters_of(&model.core)),
            ("head".into(), parameters_of(&model.head)),
        ]
    }

    fn planned(experiment: &Experiment) -> Result<Planned, LabError> {
        let model = Self::model(experiment, &mut outline()?)?;
        let (width, time) = (task(experiment)?.width(), experiment.time());
        let [learning, looking] = experiment.sizes().sequences(&model.footprint(time), time);
        let work = Work {
            learning,
            looking,
            batches: Count::product(&[width, time, experiment.training.batch])
                * (BATCHES_AT_A_TIME + 1),
            ..Work::default()
        };
        Ok(Planned::new(Self::parts(&model), work))
    }

    /// Draws the first sequences of the training data, with every n.
    fn training_picture(experiment: &Experiment) -> Result<Image, LabError> {
        let task = task(experiment)?;
        let data = Stream::new(experiment.seed, "data");
        let images = (0..experiment.evaluation.pictures as u64)
            .map(|index| input_map(&task.batch(&data, index, 1)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(grid(&images, 2)?)
    }

    fn stages(&self, experiment: &Experiment) -> Option<Stages> {
        let task = &experiment.task;
        self.curriculum
            .then(|| Stages::new(task.vectors, task.admit_at))
    }

    fn batch(
        &self,
        stream: &Stream,
        index: u64,
        size: usize,
        stage: usize,
    ) -> Result<NthFarthestBatch, LabError> {
        let task = match self.curriculum {
            true => self.task.with_admitted(stage)?,
            false => self.task,
        };
        Ok(task.batch(stream, index, size))
    }

    /// The loss is the cross entropy: minus the log likelihood, mean over the batch.
    fn learn(&self, model: &Self::Model, batch: NthFarthestBatch, device: &Device) -> Learned {
        let questions = Questions::new(batch, device);
        let said = model.forward(questions.inputs);
        let log_likelihood = said.log_likelihood(questions.targets.clone()).mean();
        Learned {
            loss: log_likelihood.clone().neg(),
            log_likelihood,
            measured: ("accuracy", "accuracy", said.right(questions.targets).mean()),
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
        let mut bounds = Vec::new();
        // Right answers and sequences, for each n.
        let mut by_n = vec![(0.0, 0_usize); self.task.classes()];
        for index in 0..batches(experiment, purpose) {
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
        let shares: Vec<Option<f64>> = shares
            .map(|(sum, count)| (*count > 0).then(|| sum / *count as f64))
            .collect();
        Ok(Measures::new()
            .with("sequences", bounds.len())
            .with("bound", bound)
            .with("bound_stderr", bound_stderr)
            .with("accuracy", right / bounds.len() as f64)
            .with("accuracy_by_n", shares))
    }

    fn draw(
        &self,
        _: &Experiment,
        model: &Self::Model,
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
            let (batch, said) = self.answer(model, &stream, index);
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
        Ok(Drawn::picture(grid(&images, 2)?, self.task.classes()))
    }

    fn figures(&self, model: &Self::Model, shown: &Shown) -> Result<Figures, LabError> {
        let experiment = shown.experiment;
        let generated = self
            .draw(experiment, model, experiment.evaluation.pictures, 1, None)?
            .picture;
        let pictures = vec![save_figure(
            &generated,
            &shown.samples.join("generated.png"),
            "Held-out sequences, with a bar at the reference. The rows of an input are the vector, its label, n \
             and the reference's label. Next to it are the right label and the probabilities that the model \
             gives after the last step."
                .into(),
        )?];
        let chance = 1.0 / self.task.classes() as f64;
        let held_out = held_out_series("held-out, every n", shown.held_out, "accuracy");
        let by_n = Series {
            label: "held-out".into(),
            points: (1..)
                .map(f64::from)
                .zip(shown.evaluation.measures.series("accuracy_by_n"))
                .filter_map(|(n, share)| Some((n, (*share)?)))
                .collect(),
            band: None,
        };
        let training = training_series(shown.metrics, "accuracy");
        let mut charts = vec![
            bound_figure("nats per sequence", shown.metrics, shown.held_out),
            chart_figure(
                accuracy_chart(vec![training, held_out], chance),
                "Fraction of correct classes over training. Training batches ask only for admitted n, \
                 held-out ones for every n.",
            ),
            chart_figure(
                accuracy_by_n_chart(vec![by_n], chance),
                "Fraction of correct classes after training, by the n that is asked for. The farthest is 1; the \
                 last is the reference itself, whose label is part of the input.",
            ),
        ];
        if self.curriculum {
            charts.push(chart_figure(
                admitted_chart(shown.metrics, "largest n admitted", self.task.classes()),
                "The largest n that training batches ask for.",
            ));
        }
        let (batch, said) = self.answer(model, &Stream::new(1, "pictures"), 0);
        let mut memory = Vec::new();
        if let Some(picture) = attention_maps(said.attention, &batch.reference_step)? {
            memory.push(save_figure(
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

/// Draws the inputs of the first sequence of a batch, one column per step, with question and answer.
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
    use crate::families::supervised::testing::{
        goes_on_with_the_curriculum, learner, learns, named_when_not_finite, stages,
    };

    const SMALL: [&str; 10] = [
        "model.memory=lstm",
        "memory.lstm.hidden=16",
        "model.head_layers=1",
        "model.head_hidden=16",
        "task.vectors=2",
        "task.dimensions=1",
        "training.batch=16",
        "training.learning_rate=0.02",
        "evaluation.batch=32",
        "evaluation.batches=4",
    ];

    fn small<'a>(settings: &[&'a str]) -> Vec<&'a str> {
        [&SMALL, settings].concat()
    }

    /// Of two vectors the farthest is always the other one.
    #[test]
    fn training_learns_the_other_of_two() {
        const RMC: [&str; 4] = [
            "model.memory=rmc",
            "memory.rmc.slots=2",
            "memory.rmc.heads=2",
            "memory.rmc.head_size=4",
        ];
        for settings in [small(&[]), small(&RMC)] {
            let (before, after) = learns::<Vectors>("nth-farthest-small", &settings, 300);
            let number = |measures: &Measures, key| measures.number(key).unwrap();
            assert_eq!(before.count("sequences"), Some(128));
            assert!(
                (number(&before, "bound") + 2.0_f64.ln()).abs() < 0.4,
                "{before:?}"
            );
            assert!(
                (number(&before, "accuracy") - 0.5).abs() < 0.2,
                "{before:?}"
            );
            assert!(number(&after, "accuracy") > 0.97, "{settings:?} {after:?}");
            assert_eq!(after.series("accuracy_by_n").len(), 2);
            assert_eq!((after.get("kl"), after.get("bit_error")), (None, None));
            let mut again = learner::<Vectors>("nth-farthest-small", &settings);
            let admitted = stages(&mut again, 1, 300);
            assert_eq!((admitted[0], admitted[299]), (1, 2), "{settings:?}");
            assert!(admitted.is_sorted());
        }
    }

    #[test]
    fn a_restored_learner_goes_on_with_the_curriculum() {
        let settings = small(&["task.vectors=3", "task.admit_at=0.3"]);
        goes_on_with_the_curriculum::<Vectors>("nth-farthest-small", &settings, [40, 20]);
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_and_changes_nothing() {
        named_when_not_finite::<Vectors>("nth-farthest-small", &SMALL, "head.output.bias");
    }
}
