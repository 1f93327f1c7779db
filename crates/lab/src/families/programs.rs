//! Learning to execute: one recurrent core reads a program character by character, another writes its output (Zaremba,
//! Sutskever 2014; Santoro et al. 2018, section 4.2 and appendix A.2).

use super::{
    held_out::{batches, data_stream, part},
    supervised::{Learned, SupervisedTask, made},
};
use crate::{
    Experiment, LabError, MemoryName,
    curves::{
        Curves, admitted_chart, bound_chart, bound_figure, character_accuracy_chart,
        held_out_series, training_series,
    },
    experiment::{
        CurriculumName, DecoderInputName,
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Shown},
        shipped::{Shipped, presets},
    },
    pictures::{Figures, attention_maps, chart_figure, save_figure},
};
use burn::tensor::{Device, Tensor};
use mnemora_figures::{
    chart::Chart,
    picture::{Image, Labelled, text_panel},
};
use mnemora_memory::{AnyCore, Count, Initializer};
use mnemora_models::{DecoderInput, EncoderDecoder, PackedSymbols, Written, one_hot_targets};
use mnemora_training::{
    Measures, Purpose, Quantity,
    arrays::{host, parameters_of},
    curriculum::Stages,
    device::outline,
    learner::BATCHES_AT_A_TIME,
    measures::{Better, Claim, Format, mean_and_stderr},
    memory_use::{Parts, Planned, Work},
};
use mnemora_worlds::{
    Alphabet, Correct, Curriculum, Hardness, Part, ProgramBatch, Programs as Task, Stream,
};
use std::path::Path;

/// The family.
pub struct Programs;

/// Its measurements.
const QUANTITIES: [Quantity; 4] = [
    Quantity::new("accuracy", "accuracy", "% of characters")
        .meaning("characters predicted correctly, including the end-of-answer mark, on the hardest programs")
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
    Quantity::new("answer_accuracy", "whole answers", "% of programs")
        .meaning("programs whose answer has no wrong character")
        .format(Format::Percent(2))
        .better(Better::Higher)
        .column(4)
        .claims(&[Claim::new("whole answers", "share of answers without an error", 3)]),
    Quantity::new("admitted", "stage", "").progress("admitted", Format::Decimals(0)),
];

impl Family for Programs {
    fn name(&self) -> &'static str {
        "programs"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        vec![
            TaskEntry::new("programs", "what does a program print? (Zaremba, Sutskever 2014; Santoro et al. 2018, section 4.2)").reads(["programs"]),
        ]
    }

    fn presets(&self) -> &'static [Shipped] {
        presets![
            "learning-to-execute",
            "learning-to-execute-small",
            "memorization",
            "memorization-small",
        ]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn memories(&self) -> &'static [MemoryName] {
        MemoryName::CORES
    }

    fn time(&self, experiment: &Experiment) -> usize {
        experiment.task.programs.time()
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        experiment.task.programs.words()
    }

    /// Also shows the kind of programs and, if it matters, their number of operations.
    fn setting(&self, experiment: &Experiment) -> String {
        let programs = &experiment.task.programs;
        let (name, kind) = (&experiment.name, programs.family.as_str());
        match programs.family.is_memorization() {
            true => format!("{name}, {kind}"),
            false => format!("{name}, {kind}, nesting {}", programs.nesting),
        }
    }

    fn words(&self, experiment: &Experiment) -> String {
        format!("programs: {}", experiment.task.programs.words())
    }

    fn numbers(&self, _: &Experiment) -> usize {
        1
    }

    fn find(
        &'static self,
        _: &mut Experiment,
        _: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        Ok(made::<Execution>())
    }

    fn compared(&self, _: &Experiment, curves: &Curves) -> Vec<Chart> {
        vec![
            character_accuracy_chart(curves.held_out("accuracy")),
            bound_chart("nats per sequence", curves.held_out("bound")),
        ]
    }
}

/// Programs and their answers. Held-out programs have the full difficulty of the task, whatever the curriculum, and
/// none of them appears in training.
struct Execution {
    task: Task,
    curriculum: CurriculumName,
    input: DecoderInputName,
}

/// A batch on a device.
struct Questions {
    programs: PackedSymbols,
    /// `[steps, batch, symbols]`, one-hot; zeros after the end of an answer
    targets: Tensor<3>,
}

impl Questions {
    /// Uploads a batch.
    fn new(batch: &ProgramBatch, device: &Device) -> Self {
        let size = Alphabet::SIZE;
        Self {
            programs: PackedSymbols::new(&batch.inputs, &batch.lengths, size, device),
            targets: one_hot_targets(&batch.targets, &batch.target_lengths, size, device),
        }
    }
}

/// Stages of a naive curriculum.
fn stage_count(target: Hardness) -> usize {
    target.length * target.nesting
}

/// The hardness of a stage, counted from 1.
fn hardness(stage: usize, target: Hardness) -> Hardness {
    (1..stage).fold(Hardness::EASIEST, |hardness, _| {
        hardness.next(target).unwrap_or(target)
    })
}

impl Execution {
    /// The model's answer. Its decoder is fed with its own output or, if `taught`, with the right answer.
    fn write(&self, model: &EncoderDecoder<AnyCore>, asked: &Questions, taught: bool) -> Written {
        let input = match self.input {
            DecoderInputName::Probabilities => DecoderInput::Probabilities,
            DecoderInputName::Nothing => DecoderInput::Nothing,
            DecoderInputName::Truth if taught => DecoderInput::Truth(&asked.targets),
            DecoderInputName::Symbol | DecoderInputName::Truth => DecoderInput::Symbol,
        };
        model.forward(&asked.programs, input, asked.targets.dims()[0])
    }

    /// Held-out programs of the full difficulty.
    fn held_out(&self, part: Part, stream: &Stream, index: u64, size: usize) -> ProgramBatch {
        let curriculum = Curriculum::Baseline;
        self.task.batch(part, stream, index, size, curriculum)
    }

    /// Held-out programs, one below the other, with their outputs and the model's answers.
    fn panel(
        &self,
        model: &EncoderDecoder<AnyCore>,
        sequences: usize,
        seed: u64,
    ) -> Result<Image, LabError> {
        let batch = self.held_out(Part::Test, &Stream::new(seed, "pictures"), 0, sequences);
        let asked = Questions::new(&batch, &model.device());
        let symbols = symbols(&self.write(model, &asked, false));
        let blocks: Vec<Vec<Labelled>> = (0..sequences)
            .map(|row| {
                let written = &symbols[row * batch.target_time..][..batch.target_time];
                let ended = written.contains(&Alphabet::END);
                let written = with_end(Alphabet::decode(written), ended);
                let right = with_end(batch.answer(row), true);
                let mut expected = right.chars();
                let marked = written
                    .chars()
                    .map(|character| (character, expected.next() != Some(character)));
                let mut block = question(&batch, row);
                block.push(Labelled {
                    label: "model".into(),
                    text: marked.collect(),
                });
                block
            })
            .collect();
        Ok(text_panel(&blocks)?)
    }
}

/// The most probable symbols, `[batch, steps]` row-major.
fn symbols(written: &Written) -> Vec<u8> {
    let symbols = written.symbols().swap_dims(0, 1).into_data();
    symbols.iter::<i64>().map(|symbol| symbol as u8).collect()
}

/// A program and its output.
fn question(batch: &ProgramBatch, row: usize) -> Vec<Labelled> {
    vec![
        Labelled::plain("reads", &batch.source(row)),
        Labelled::plain("answer", &with_end(batch.answer(row), true)),
    ]
}

/// An answer with a full stop for its end, if it has ended.
fn with_end(mut answer: String, ended: bool) -> String {
    if ended {
        answer.push('.');
    }
    answer
}

impl SupervisedTask for Execution {
    type Model = EncoderDecoder<AnyCore>;
    type Batch = ProgramBatch;

    const DATA: &'static str = "random programs";

    fn new(experiment: &Experiment) -> Result<Self, LabError> {
        let settings = &experiment.task.programs;
        Ok(Self {
            task: settings.task()?,
            curriculum: settings.curriculum,
            input: experiment.model.decoder_input,
        })
    }

    fn model(experiment: &Experiment, init: &mut Initializer) -> Result<Self::Model, LabError> {
        let config = experiment.encoder_decoder_config(Alphabet::SIZE)?;
        Ok(config.init(init)?)
    }

    fn parts(model: &Self::Model) -> Parts {
        vec![
            ("model".into(), parameters_of(model)),
            ("encoder".into(), parameters_of(&model.encoder)),
            ("decoder".into(), parameters_of(&model.decoder)),
            ("head".into(), parameters_of(&model.head)),
        ]
    }

    /// As if all programs and answers were as long as the longest.
    fn planned(experiment: &Experiment) -> Result<Planned, LabError> {
        let model = Self::model(experiment, &mut outline()?)?;
        let task = experiment.task.programs.task()?;
        let (program, answer) = task.most_characters();
        let [read, written] = model.footprints();
        let sizes = experiment.sizes();
        let [read_learning, read_looking] = sizes.sequences(&read, program);
        let [learning, looking] = sizes.sequences(&written, answer);
        let characters = program + answer;
        let work = Work {
            learning: read_learning + learning,
            looking: read_looking + looking,
            batches: Count::product(&[characters, 2, experiment.training.batch])
                * BATCHES_AT_A_TIME,
            ..Work::default()
        };
        Ok(Planned::new(Self::parts(&model), work))
    }

    /// Draws the first programs of the training data at the start of the curriculum, with their outputs.
    fn training_picture(experiment: &Experiment) -> Result<Image, LabError> {
        let settings = &experiment.task.programs;
        let task = settings.task()?;
        let data = Stream::new(experiment.seed, "data");
        let curriculum = settings.curriculum.at(Hardness::EASIEST);
        let blocks: Vec<Vec<Labelled>> = (0..experiment.evaluation.pictures as u64)
            .map(|index| question(&task.batch(Part::Train, &data, index, 1, curriculum), 0))
            .collect();
        Ok(text_panel(&blocks)?)
    }

    fn stages(&self, experiment: &Experiment) -> Option<Stages> {
        let count = stage_count(self.task.target());
        self.curriculum
            .has_stages()
            .then(|| Stages::new(count, experiment.task.admit_at))
    }

    fn batch(
        &self,
        stream: &Stream,
        index: u64,
        size: usize,
        stage: usize,
    ) -> Result<ProgramBatch, LabError> {
        let curriculum = self.curriculum.at(hardness(stage, self.task.target()));
        Ok(self
            .task
            .batch(Part::Train, stream, index, size, curriculum))
    }

    /// The loss is the mean cross entropy of the characters of all answers, including their ends.
    fn learn(&self, model: &Self::Model, batch: ProgramBatch, device: &Device) -> Learned {
        let characters = batch.target_lengths.iter().sum::<usize>() as f64;
        let asked = Questions::new(&batch, device);
        let written = self.write(model, &asked, true);
        let likelihood = written.log_likelihood(asked.targets.clone());
        let accuracy = written.right(asked.targets).sum() / characters;
        Learned {
            log_likelihood: likelihood.clone().mean(),
            loss: likelihood.sum().neg() / characters,
            measured: ("accuracy", "accuracy", accuracy),
        }
    }

    fn evaluate(
        &self,
        experiment: &Experiment,
        model: &Self::Model,
        purpose: Purpose,
    ) -> Result<Measures, LabError> {
        let data = data_stream(experiment, purpose);
        let part = part(purpose, |_| true);
        let mut bounds = Vec::new();
        let mut correct = Correct::default();
        for index in 0..batches(experiment, purpose) {
            let batch = self.held_out(part, &data, index, experiment.evaluation.batch);
            let asked = Questions::new(&batch, &model.device());
            let written = self.write(model, &asked, false);
            correct = correct.plus(batch.correct(&symbols(&written)));
            let likelihood = written.log_likelihood(asked.targets);
            bounds.extend(host(likelihood.into_data()).into_iter().map(f64::from));
        }
        let (bound, bound_stderr) = mean_and_stderr(&bounds);
        Ok(Measures::new()
            .with("sequences", bounds.len())
            .with("bound", bound)
            .with("bound_stderr", bound_stderr)
            .with("accuracy", correct.character_accuracy())
            .with("answer_accuracy", correct.answer_accuracy()))
    }

    fn draw(
        &self,
        experiment: &Experiment,
        model: &Self::Model,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError> {
        if let Some(steps) = steps {
            return Err(LabError::Configuration(format!(
                "--steps {steps}: the answers of the task programs have their own lengths; leave \
                 --steps out"
            )));
        }
        let picture = self.panel(model, sequences, seed)?;
        Ok(Drawn::picture(picture, experiment.time()))
    }

    fn figures(&self, model: &Self::Model, shown: &Shown) -> Result<Figures, LabError> {
        let generated = self.panel(model, shown.experiment.evaluation.pictures, 1)?;
        let pictures = vec![save_figure(
            &generated,
            &shown.samples.join("generated.png"),
            "Held-out programs of the hardest kind, their output, and what the model writes, with wrong \
             characters marked; the full stop marks the end of an answer."
                .into(),
        )?];
        let training = training_series(shown.metrics, "accuracy");
        let held_out = held_out_series("held-out, hardest", shown.held_out, "accuracy");
        let mut charts = vec![
            bound_figure("nats per sequence", shown.metrics, shown.held_out),
            chart_figure(
                character_accuracy_chart(vec![training, held_out]),
                "Fraction of correct characters over training. Training programs are as hard as the curriculum \
             makes them; held-out ones have the full difficulty of the task.",
            ),
        ];
        if self.curriculum.has_stages() {
            let count = stage_count(self.task.target());
            charts.push(chart_figure(
                admitted_chart(shown.metrics, "stage", count),
                "The stage of training programs: longer literals, and after the longest, one more operation.",
            ));
        }
        let batch = self.held_out(Part::Test, &Stream::new(1, "pictures"), 0, 1);
        let asked = Questions::new(&batch, &model.device());
        let written = self.write(model, &asked, false);
        let answered: Vec<usize> = (batch.time..batch.time + batch.target_time).collect();
        let mut memory = Vec::new();
        if let Some(picture) = attention_maps(written.attention, &answered)? {
            memory.push(save_figure(
                &picture,
                &shown.samples.join("attention.png"),
                "Weights of each head over the slots while the first of these programs is read and its \
                 answer written, one column a step; the bar marks the steps of writing. For the RMC the \
                 last row is the input, and weights are averaged over the slots that take them."
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::supervised::testing::{
        goes_on_with_the_curriculum, learns, named_when_not_finite,
    };

    const SMALL: [&str; 9] = [
        "model.memory=lstm",
        "memory.lstm.hidden=32",
        "model.head_layers=1",
        "model.head_hidden=32",
        "task.programs.literal_length=3",
        "training.batch=32",
        "training.learning_rate=0.01",
        "evaluation.batch=64",
        "evaluation.batches=2",
    ];

    fn small<'a>(settings: &[&'a str]) -> Vec<&'a str> {
        [&SMALL, settings].concat()
    }

    /// Three digits in an order never seen in training; their number is known.
    #[test]
    fn training_learns_to_copy_strings_never_seen() {
        for input in ["probabilities", "symbol", "nothing", "truth"] {
            let setting = format!("model.decoder_input={input}");
            let settings = small(&[&setting]);
            let (before, after) = learns::<Execution>("memorization-small", &settings, 400);
            let number = |measures: &Measures, key| measures.number(key).unwrap();
            assert_eq!(before.count("sequences"), Some(128));
            let guessed = -4.0 * (Alphabet::SIZE as f64).ln();
            assert!(
                (number(&before, "bound") - guessed).abs() < 1.0,
                "{before:?}"
            );
            // One of ten digits right, and the end, would be 0.325.
            let accuracy = number(&after, "accuracy");
            assert!(accuracy > 0.6, "{input} {after:?}");
            assert!(number(&after, "answer_accuracy") <= accuracy);
            assert_eq!(after.get("accuracy_by_n"), None);
        }
    }

    #[test]
    fn stages_lead_to_the_target() {
        let target = Hardness {
            length: 3,
            nesting: 2,
        };
        let stages: Vec<(usize, usize)> = (1..=stage_count(target))
            .map(|stage| hardness(stage, target))
            .map(|hardness| (hardness.length, hardness.nesting))
            .collect();
        assert_eq!(stages, [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)]);
    }

    #[test]
    fn a_restored_learner_goes_on_with_the_curriculum() {
        let settings = small(&["task.programs.curriculum=naive", "task.admit_at=0.2"]);
        let stages =
            goes_on_with_the_curriculum::<Execution>("memorization-small", &settings, [30, 30]);
        assert!(stages.is_sorted() && stages[29] > 1, "{stages:?}");
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_and_changes_nothing() {
        named_when_not_finite::<Execution>("memorization-small", &SMALL, "head.output.bias");
    }
}
