//! Learning to execute: a recurrent core reads a program character by character, another one writes what
//! it prints (Zaremba, Sutskever 2014; Santoro et al. 2018, section 4.2 and appendix A.2).

use crate::{
    Evaluation, Experiment, LabError,
    adam::{Adam, ParameterGradients},
    config::{CurriculumName, DecoderInputName},
    curriculum::Stages,
    curves::{admitted_chart, character_accuracy_chart, held_out_series, training_series},
    evaluate::{CHECKPOINT_EVALUATION, data_stream, mean_and_stderr},
    learner::{Drawn, Learner, Shown, StepFailure, Updates},
    memory_use::{Parts, Planned, Work, in_words, outline, sequences},
    present::{Figures, attention_maps, charted, drawn},
    run::Metrics,
    weights::{Arrays, collect, host, parameters_of, restore},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mnemora_figures::picture::{Image, Labelled, text_panel};
use mnemora_memory::{AnyCore, Count, Initializer};
use mnemora_models::{DecoderInput, EncoderDecoder, PackedSymbols, Written, one_hot_targets};
use mnemora_worlds::{
    Alphabet, Correct, Curriculum, Hardness, Part, ProgramBatch, Programs, Stream,
};
use std::{hint::black_box, path::Path};

/// Recurrent cores that learn to execute programs.
///
/// Held-out programs are as hard as the task has them, whatever the curriculum, and none of them is shown in
/// training.
pub struct ProgramLearner {
    task: Programs,
    curriculum: CurriculumName,
    /// Where the curriculum stands, if it has stages.
    stages: Option<Stages>,
    /// The stage of the last batch.
    admitted: Option<usize>,
    input: DecoderInputName,
    /// On an autodiff device if it is to learn.
    model: EncoderDecoder<AnyCore>,
    updates: Updates,
    device: Device,
}

/// A batch on a device.
struct Questions {
    programs: PackedSymbols,
    /// `[steps, batch, symbols]`, one-hot; zeros behind the end of an answer
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

/// What the experiment's model consists of, and how much memory its training takes: as if all programs and
/// answers had the length of the longest.
pub(crate) fn planned(experiment: &Experiment) -> Result<Planned, LabError> {
    let config = experiment.encoder_decoder_config(Alphabet::SIZE)?;
    let model = config.init(&mut outline()?)?;
    let task = experiment.task.programs.task()?;
    let (program, answer) = task.most_characters();
    let [read, written] = model.footprints();
    let [read_learning, read_looking] = sequences(experiment, &read, program);
    let [learning, looking] = sequences(experiment, &written, answer);
    let characters = program + answer;
    let work = Work {
        learning: read_learning + learning,
        looking: read_looking + looking,
        batches: Count::product(&[characters, 2, experiment.training.batch]),
        ..Work::default()
    };
    Ok(Planned::new(parts(&model), work))
}

/// Trainable numbers, whole model first.
fn parts(model: &EncoderDecoder<AnyCore>) -> Parts {
    vec![
        ("model".into(), parameters_of(model)),
        ("encoder".into(), parameters_of(&model.encoder)),
        ("decoder".into(), parameters_of(&model.decoder)),
        ("head".into(), parameters_of(&model.head)),
    ]
}

impl ProgramLearner {
    /// A fresh one, its model on `device` and drawn from the experiment's seed.
    pub fn new(experiment: &Experiment, device: &Device) -> Result<Self, LabError> {
        let settings = &experiment.task.programs;
        let task = settings.task()?;
        let stream = Stream::new(experiment.seed, "parameters").at(0);
        let mut init = Initializer::new(stream, device.clone());
        let config = experiment.encoder_decoder_config(Alphabet::SIZE)?;
        let stages = Stages::new(stage_count(task.target()), experiment.task.admit_at);
        Ok(Self {
            task,
            curriculum: settings.curriculum,
            stages: settings.curriculum.has_stages().then_some(stages),
            admitted: None,
            input: experiment.model.decoder_input,
            model: config.init(&mut init)?,
            updates: Updates::new(Adam::default(), device),
            device: device.clone(),
        })
    }

    /// What a training batch is drawn by.
    fn training_curriculum(&self) -> Curriculum {
        let stage = self.stages.as_ref().map_or(1, Stages::stage);
        self.curriculum.at(hardness(stage, self.task.target()))
    }

    /// The batch from which update `step` learns.
    fn training_batch(&self, experiment: &Experiment, step: u64) -> ProgramBatch {
        let data = Stream::new(experiment.seed, "data");
        let (size, curriculum) = (experiment.training.batch, self.training_curriculum());
        self.task
            .batch(Part::Train, &data, step - 1, size, curriculum)
    }

    /// What a model writes, fed by what it wrote before or, if it is `taught`, by what is right.
    fn write(&self, model: &EncoderDecoder<AnyCore>, asked: &Questions, taught: bool) -> Written {
        let input = match self.input {
            DecoderInputName::Probabilities => DecoderInput::Probabilities,
            DecoderInputName::Nothing => DecoderInput::Nothing,
            DecoderInputName::Truth if taught => DecoderInput::Truth(&asked.targets),
            DecoderInputName::Symbol | DecoderInputName::Truth => DecoderInput::Symbol,
        };
        model.forward(&asked.programs, input, asked.targets.dims()[0])
    }

    /// Held-out programs of the target's hardness.
    fn held_out(&self, part: Part, stream: &Stream, index: u64, size: usize) -> ProgramBatch {
        let curriculum = Curriculum::Baseline;
        self.task.batch(part, stream, index, size, curriculum)
    }

    /// Held-out programs one below the other with what they print and what the model writes.
    fn panel(&self, sequences: usize, seed: u64) -> Result<Image, LabError> {
        let model = self.model.valid();
        let batch = self.held_out(Part::Test, &Stream::new(seed, "pictures"), 0, sequences);
        let asked = Questions::new(&batch, &model.device());
        let symbols = symbols(&self.write(&model, &asked, false));
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

/// A program and what it prints.
fn question(batch: &ProgramBatch, row: usize) -> Vec<Labelled> {
    vec![
        Labelled::plain("reads", &batch.source(row)),
        Labelled::plain("answer", &with_end(batch.answer(row), true)),
    ]
}

/// An answer with its end, a full stop, if it has one.
fn with_end(mut answer: String, ended: bool) -> String {
    if ended {
        answer.push('.');
    }
    answer
}

impl Learner for ProgramLearner {
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
        if let Some(stages) = &self.stages {
            stages.add_to(&mut arrays);
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
            if let Some(stages) = &mut self.stages {
                stages.restore(&mut optimizer, path)?;
            }
            self.updates.adam = Adam::restore(optimizer, &self.device.clone().inner(), path)?;
        }
        Ok(())
    }

    /// The loss is the mean cross entropy of the characters of all answers, their ends among them.
    ///
    /// A curriculum in stages needs the accuracy of each step, so that with one no step is looked at
    /// later.
    fn step(&mut self, experiment: &Experiment, step: u64) -> Result<(), StepFailure> {
        let batch = self.training_batch(experiment, step);
        let characters = batch.target_lengths.iter().sum::<usize>() as f64;
        let asked = Questions::new(&batch, &self.device);
        let written = self.write(&self.model, &asked, true);
        let likelihood = written.log_likelihood(asked.targets.clone());
        let accuracy = written.right(asked.targets).sum() / characters;
        let mean = likelihood.clone().mean();
        let terms = Tensor::cat(vec![mean.inner(), accuracy.inner()], 0);
        let loss = likelihood.sum().neg() / characters;
        let gradients = ParameterGradients::of(&self.model, loss.backward());
        const NAMES: [&str; 2] = ["log likelihood", "accuracy"];
        self.updates
            .make(&mut self.model, experiment, step, gradients, &NAMES, terms)?;
        if let Some(stages) = &mut self.stages
            && let Some(made) = self.updates.last()?
        {
            self.admitted = Some(stages.stage());
            stages.observe(made.terms[1]);
        }
        Ok(())
    }

    fn draw_batch(&self, experiment: &Experiment, step: u64) -> Result<(), LabError> {
        black_box(self.training_batch(experiment, step));
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
        let part = match purpose {
            CHECKPOINT_EVALUATION => Part::Valid,
            _ => Part::Test,
        };
        let mut bounds = Vec::new();
        let mut correct = Correct::default();
        for index in 0..batches {
            let batch = self.held_out(part, &data, index, experiment.evaluation.batch);
            let asked = Questions::new(&batch, &model.device());
            let written = self.write(&model, &asked, false);
            correct = correct.plus(batch.correct(&symbols(&written)));
            let likelihood = written.log_likelihood(asked.targets);
            bounds.extend(host(likelihood.into_data()).into_iter().map(f64::from));
        }
        let (bound, bound_stderr) = mean_and_stderr(&bounds);
        Ok(Evaluation {
            step,
            sequences: bounds.len(),
            bound,
            bound_stderr,
            accuracy: Some(correct.character_accuracy()),
            answer_accuracy: Some(correct.answer_accuracy()),
            ..Evaluation::default()
        })
    }

    fn draw(
        &self,
        experiment: &Experiment,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError> {
        if let Some(steps) = steps {
            return Err(LabError::Configuration(format!(
                "--steps {steps}: a program of the task programs has an answer of its own length; leave \
                 --steps out"
            )));
        }
        Ok(Drawn {
            picture: self.panel(sequences, seed)?,
            time: experiment.time(),
            files: Vec::new(),
        })
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        let generated = self.panel(shown.experiment.evaluation.pictures, 1)?;
        let pictures = vec![drawn(
            &generated,
            &shown.samples.join("generated.png"),
            "Held-out programs of the hardest kind, what they print, and what the model writes, characters \
             in a wrong place marked; the full stop is an answer's end."
                .into(),
        )?];
        let training = training_series(shown.metrics, |row| row.accuracy);
        let held_out = held_out_series("held-out, hardest", shown.held_out, |row| row.accuracy);
        let mut charts = vec![charted(
            character_accuracy_chart(vec![training, held_out]),
            "Share of right characters over training. Training programs are as hard as the curriculum \
             has them, held-out ones as hard as the task does.",
        )?];
        if self.stages.is_some() {
            let count = stage_count(self.task.target());
            charts.push(charted(
                admitted_chart(shown.metrics, "stage", count),
                "The stage of training programs: longer literals, and past the longest one more operation.",
            )?);
        }
        let model = self.model.valid();
        let batch = self.held_out(Part::Test, &Stream::new(1, "pictures"), 0, 1);
        let asked = Questions::new(&batch, &model.device());
        let written = self.write(&model, &asked, false);
        let answered: Vec<usize> = (batch.time..batch.time + batch.target_time).collect();
        let mut memory = Vec::new();
        if let Some(picture) = attention_maps(written.attention, &answered)? {
            memory.push(drawn(
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

/// Draws the first programs of the training data as the curriculum begins, with what they print.
pub fn training_picture(experiment: &Experiment) -> Result<Image, LabError> {
    let settings = &experiment.task.programs;
    let task = settings.task()?;
    let data = Stream::new(experiment.seed, "data");
    let curriculum = settings.curriculum.at(Hardness::EASIEST);
    let blocks: Vec<Vec<Labelled>> = (0..experiment.evaluation.pictures as u64)
        .map(|index| question(&task.batch(Part::Train, &data, index, 1, curriculum), 0))
        .collect();
    Ok(text_panel(&blocks)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_experiment;

    fn small(overrides: &[&str]) -> (Experiment, ProgramLearner) {
        let sizes = [
            "model.memory=lstm",
            "memory.lstm.hidden=32",
            "model.head_layers=1",
            "model.head_hidden=32",
            "task.programs.literal_length=3",
            "training.batch=32",
            "training.learning_rate=0.01",
            "evaluation.batch=64",
        ];
        let overrides = sizes.iter().chain(overrides).map(|s| s.to_string());
        let overrides = overrides.collect::<Vec<_>>();
        let experiment = load_experiment("memorization-small", &overrides).unwrap();
        let device = Device::default().autodiff();
        let learner = ProgramLearner::new(&experiment, &device).unwrap();
        (experiment, learner)
    }

    /// Three digits of which the training part has never shown this order; that they end is sure.
    #[test]
    fn training_learns_to_copy_strings_never_seen() {
        for input in ["probabilities", "symbol", "nothing", "truth"] {
            let setting = format!("model.decoder_input={input}");
            let (experiment, mut learner) = small(&[&setting]);
            let before = learner.evaluate(&experiment, 0, 2, "test").unwrap();
            assert_eq!(before.sequences, 128);
            let guessed = -4.0 * (Alphabet::SIZE as f64).ln();
            assert!((before.bound - guessed).abs() < 1.0, "{before:?}");
            for step in 1..=400 {
                learner.step(&experiment, step).unwrap();
            }
            let after = learner.evaluate(&experiment, 400, 2, "test").unwrap();
            // One of ten digits right, and the end, would be 0.325.
            assert!(after.accuracy.unwrap() > 0.6, "{input} {after:?}");
            assert!(after.answer_accuracy.unwrap() <= after.accuracy.unwrap());
            assert_eq!((after.kl, after.accuracy_by_n.len()), (None, 0));
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

    /// A learner that takes on the arrays of another goes on as that one does.
    #[test]
    fn a_restored_learner_goes_on_with_the_curriculum() {
        let settings = ["task.programs.curriculum=naive", "task.admit_at=0.2"];
        let (experiment, mut whole) = small(&settings);
        for step in 1..=30 {
            whole.step(&experiment, step).unwrap();
        }
        let (_, mut parted) = small(&settings);
        parted
            .restore(whole.weights(), Some(whole.optimizer()), Path::new("test"))
            .unwrap();
        let mut admitted = Vec::new();
        for step in 31..=60 {
            whole.step(&experiment, step).unwrap();
            parted.step(&experiment, step).unwrap();
            let metrics = whole.metrics().unwrap();
            assert_eq!(metrics, parted.metrics().unwrap());
            admitted.extend(metrics.unwrap().admitted);
        }
        assert!(admitted.is_sorted() && admitted[29] > 1, "{admitted:?}");
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
