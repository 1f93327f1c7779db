//! Language models: a recurrent core reads a text word by word and predicts the next word (Santoro et al. 2018, section
//! 4.3).

mod figures;
mod score;
mod source;

use crate::{
    Experiment, LabError, MemoryName,
    curves::{
        Curves, frequency_chart, perplexity_chart, perplexity_series, training_series, unroll_chart,
    },
    experiment::{
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Gallery, Shown},
        shipped::{Shipped, presets},
    },
    families::held_out::part,
    pictures::{Figures, chart_figure, save_figure, write_beside},
};
use burn::{
    module::Module,
    tensor::{Bool, Device, Tensor, TensorData},
};
use mnemora_figures::{chart::Chart, picture::Image};
use mnemora_memory::{AnyCore, AnyCoreState, Bundle, Count, RecurrentCore};
use mnemora_models::{LanguageModel, WordDropout, WordSamples, Words as WordBatch};
use mnemora_training::{
    Error, Learner, Measures, Purpose, Quantity, Row, Snapshot, StepFailure,
    arrays::{Arrays, collect, parameters_of, restore},
    carried,
    device::outline,
    learner::{BATCHES_AHEAD, BATCHES_AT_A_TIME},
    measures::{Better, Claim, Format},
    memory_use::{Parts, Planned, Work, in_words},
    optimiser::ParameterGradients,
    updates::Updates,
};
use mnemora_worlds::{Part, Prefetch, Stream, Text, TextBatch};
use std::{hint::black_box, path::Path, sync::Arc};

/// The family.
pub struct Words;

/// Its measurements.
const QUANTITIES: [Quantity; 4] = [
    Quantity::new("bound", "bound", "nats per word")
        .meaning("log likelihood, higher is better")
        .spread("bound_stderr", "windows")
        .better(Better::Higher)
        .compared()
        .tracked()
        .finite()
        .claims(&[Claim::new("bound", "nats per word", 1)]),
    Quantity::new("perplexity", "perplexity", "")
        .meaning(
            "over {text.words} words[ (trained or scored on PLACEHOLDER words, so that it means nothing{text.placeholders})] \
             of the {text.part} part, parallel streams: {text.streams}; {text.unknown%}% of the words are <unk>; \
             lower is better",
        )
        .better(Better::Lower)
        .column(2)
        .finite()
        .progress("perplexity", Format::Digits)
        .checkpoint("perplexity", Format::Digits)
        .claims(&[Claim::new("perplexity", "exp of nats per word", 2)]),
    Quantity::new("perplexity", "perplexity {count}", "")
        .at("text.by_frequency")
        .meaning("of the {words} scored words with this number of occurrences in the training part"),
    Quantity::new("perplexity", "unroll {length}", "")
        .at("text.by_unroll")
        .meaning(
            "perplexity of the first {text.unroll_words} words with the state reset every {length} words; \
             {increase} above that without a reset",
        ),
];

impl Family for Words {
    fn name(&self) -> &'static str {
        "texts"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        vec![
            TaskEntry::new("books", "books as words; a few come with mnemora").reads(["window"]),
            TaskEntry::new(
                "wikitext-2",
                "WikiText-2: two million words (Merity et al. 2016)",
            )
            .needs_data()
            .reads(["window"]),
            TaskEntry::new(
                "wikitext-103",
                "WikiText-103: 103 million words; without it placeholders, to see what training costs",
            )
            .reads(["window"]),
            TaskEntry::new("text", "your own text: a file or a folder of files")
                .needs_data()
                .reads(["window"]),
        ]
    }

    fn presets(&self) -> &'static [Shipped] {
        presets![
            "wikitext-103",
            "wikitext-2",
            "wikitext-2-small",
            "books-small"
        ]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn extras(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "sequences",
                "parallel streams, the same number as text.streams",
            ),
            (
                "text.unroll_full",
                "perplexity of the first text.unroll_words words without a reset",
            ),
        ]
    }

    fn memories(&self) -> &'static [MemoryName] {
        use MemoryName::{Lstm, Rmc, StackedLstm};
        &[Lstm, StackedLstm, Rmc]
    }

    fn has_data(&self, _: &Experiment) -> bool {
        true
    }

    fn check(&self, experiment: &Experiment) -> Result<(), String> {
        experiment.language.validate()
    }

    fn time(&self, experiment: &Experiment) -> usize {
        experiment.task.window
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        format!("task.window {}", experiment.task.window)
    }

    fn words(&self, experiment: &Experiment) -> String {
        let task = &experiment.task;
        format!("{} with windows of {}", task.name.as_str(), task.window)
    }

    fn numbers(&self, _: &Experiment) -> usize {
        1
    }

    fn lengthen(&self, experiment: &mut Experiment, steps: usize) {
        experiment.task.window = steps;
    }

    /// Texts are read from their start.
    fn evaluation_draws(&self) -> bool {
        false
    }

    fn find(
        &'static self,
        experiment: &mut Experiment,
        data: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        Ok(Box::new(FoundText(source::find(experiment, data)?)))
    }

    fn compared(&self, _: &Experiment, curves: &Curves) -> Vec<Chart> {
        vec![perplexity_chart(curves.perplexity())]
    }
}

struct FoundText(Text);

impl Found for FoundText {
    fn words(&self) -> String {
        source::words(&self.0)
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        planned(experiment, &self.0)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), LabError> {
        check(experiment, &self.0)
    }

    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError> {
        let picture = training_picture(experiment, &self.0)?;
        Ok(Drawn::picture(picture, experiment.time()))
    }

    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError> {
        Ok(Box::new(LanguageLearner::new(experiment, self.0, device)?))
    }
}

/// A recurrent core that learns to predict the next word of a text.
///
/// Training batches are windows of contiguous streams. The state is carried from one window to the next, its gradient
/// is not.
pub struct LanguageLearner {
    experiment: Experiment,
    text: Arc<Text>,
    /// Training windows.
    batches: Prefetch<Result<TextBatch, mnemora_worlds::Error>>,
    /// On an autodiff device for training.
    model: LanguageModel<AnyCore>,
    /// The final state of the last update's window, if it is carried.
    carried: Option<AnyCoreState>,
    updates: Updates,
    device: Device,
}

/// The parts of the experiment's model for a text, and how much memory its training takes.
pub(crate) fn planned(experiment: &Experiment, text: &Text) -> Result<Planned, LabError> {
    let vocabulary = text.vocabulary().len();
    let config = experiment.language_config(vocabulary)?;
    let model = config.init(&mut outline()?)?;
    let (footprint, window) = (model.footprint(), experiment.task.window);
    let batch = experiment.training.batch;
    let [learning, passed] = experiment.sizes().sequences(&footprint, window);
    let held_out = text.words(Part::Test).len();
    let settings = &experiment.evaluation;
    // The comparison of lengths of the past processes many short stretches in parallel; there are most of the shortest.
    let compared = match usize::try_from(settings.batches)
        .unwrap_or(usize::MAX)
        .saturating_mul(window)
    {
        scored if scored < held_out.div_ceil(settings.batch) => scored,
        _ => held_out,
    };
    let compared = compared
        .min(settings.unroll_words)
        .min(score::WORDS_AT_A_TIME);
    let shortest = score::UNROLLS[0];
    let stretches = footprint.looking(shortest) * compared.div_ceil(shortest);
    let at_once = window.saturating_mul(settings.batch);
    let looking = (passed + model.softmax_looked_at(at_once))
        .max(stretches + model.softmax_looked_at(compared))
        // Memory per held-out word.
        + held_out * 6;
    let words = batch.saturating_mul(window);
    let softmax = model.softmax_kept(words, experiment.language.samples);
    let all = Part::ALL.iter().map(|part| text.words(*part).len());
    let work = Work {
        learning: learning + softmax,
        looking,
        // Inputs, targets and mask; the batch in use also exists as tensors.
        batches: Count::product(&[words, 3]) * (BATCHES_AT_A_TIME + 1),
        // Four bytes per word, and the vocabulary by number and by name.
        data: Count::from(all.sum::<usize>()) * 4 + Count::product(&[vocabulary, 120]),
    };
    Ok(Planned::new(parts(&model), work))
}

/// Returns an error if a text cannot be trained on or scored.
pub(crate) fn check(experiment: &Experiment, text: &Text) -> Result<(), LabError> {
    let (batch, window) = (experiment.training.batch, experiment.task.window);
    text.batch(Part::Train, 0, batch, window)?;
    for part in [Part::Valid, Part::Test] {
        text.unroll(part, 1, window).map(drop)?;
    }
    Ok(())
}

/// Trainable numbers, starting with the whole model.
fn parts(model: &LanguageModel<AnyCore>) -> Parts {
    vec![
        ("model".into(), parameters_of(model)),
        ("memory".into(), parameters_of(&model.core)),
        ("table".into(), Count::product(&model.embedding.dims())),
        ("projection".into(), parameters_of(&model.projection)),
    ]
}

impl LanguageLearner {
    /// A fresh learner with its model on `device`, initialised from the experiment's seed.
    pub(crate) fn new(
        experiment: &Experiment,
        text: Text,
        device: &Device,
    ) -> Result<Self, LabError> {
        // Errors should show before a run is made.
        check(experiment, &text)?;
        let mut init = experiment.initializer(device);
        let config = experiment.language_config(text.vocabulary().len())?;
        let text = Arc::new(text);
        let read = text.clone();
        let (batch, window) = (experiment.training.batch, experiment.task.window);
        Ok(Self {
            model: config.init(&mut init)?,
            text,
            batches: Prefetch::new(
                experiment.task.name.as_str(),
                BATCHES_AHEAD,
                move |(), index| read.batch(Part::Train, index, batch, window),
            ),
            carried: None,
            updates: Updates::new(&experiment.training, device),
            device: device.clone(),
            experiment: experiment.clone(),
        })
    }

    fn initial_state(&self) -> AnyCoreState {
        self.model
            .core
            .initial_state(self.experiment.training.batch, &self.device)
    }

    /// Held-out passages, each continued by the model.
    fn passages(
        &self,
        sequences: usize,
        seed: u64,
        steps: usize,
    ) -> Result<Vec<figures::Passage>, LabError> {
        let sizes = [sequences, self.experiment.task.window, steps];
        figures::continued(&self.model.valid(), &self.text, Part::Test, sizes, seed)
    }
}

/// Dropout masks for update `step`.
fn dropout(experiment: &Experiment, step: u64, rows: usize, device: &Device) -> WordDropout {
    let language = &experiment.language;
    let mask = |purpose: &str, rate: f64| {
        (rate > 0.0).then(|| {
            let shape = [rows, language.embedding];
            let draws = Stream::new(experiment.seed, purpose);
            let draws = draws.uniform_values(step, shape[0] * shape[1]).into_iter();
            let kept = (1.0 / (1.0 - rate)) as f32;
            let values: Vec<f32> = draws.map(|u| if u < rate { 0.0 } else { kept }).collect();
            Tensor::from_data(TensorData::new(values, shape), device)
        })
    };
    WordDropout {
        embedding: mask("embedding dropout", language.embedding_dropout),
        output: mask("output dropout", language.output_dropout),
    }
}

impl Learner for LanguageLearner {
    fn sizes(&self) -> Vec<(String, usize)> {
        in_words(parts(&self.model))
    }

    /// The loss is minus the log likelihood, mean over the words: by the full softmax, or estimated from
    /// `language.samples` words.
    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let window = self.batches.batch(step - 1, ())??;
        let plain = self.device.clone().inner();
        let words = WordBatch::new(&window.inputs, &window.targets, window.batch, &plain);
        let dropout = dropout(&self.experiment, step, window.targets.len(), &plain);
        let samples = self.experiment.language.samples;
        let samples = (samples > 0).then(|| {
            let draws = Stream::new(self.experiment.seed, "softmax samples");
            let draws = draws.uniform_values(step, samples);
            WordSamples::draw(&draws, self.model.vocabulary(), &plain)
        });
        let state = match self.carried.clone() {
            Some(carried) if !window.begins => carried,
            _ => self.initial_state(),
        };
        let learned = self.model.learn(&words, state, dropout, samples.as_ref());
        let terms = learned.nats.neg();
        let mut gradients = ParameterGradients::of(&self.model, learned.gradients);
        gradients.insert("embedding", learned.embedding);
        gradients.insert("bias", learned.bias);
        const NAMES: [&str; 1] = ["log likelihood"];
        self.updates
            .make(&mut self.model, step, gradients, &NAMES, terms)?;
        if self.experiment.language.carry {
            // Like the parameters, the state is not replaced after a step that was not finite.
            self.carried = Some(match self.updates.finite() {
                None => learned.state,
                Some(finite) => {
                    let stopped = Tensor::<1, Bool>::from_inner(finite.bool_not());
                    let stopped = stopped.expand([self.experiment.training.batch]);
                    let before = self.carried.take();
                    let before = before.unwrap_or_else(|| self.initial_state());
                    learned.state.replace(&stopped, before)
                }
            });
        }
        Ok(())
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        self.updates.measured(|terms| {
            Measures::new()
                .with("bound", terms[0])
                .with("perplexity", (-terms[0]).exp())
        })
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let (model, part) = (self.model.valid(), part(purpose, |_| true));
        let measures = score::evaluate(&self.experiment, &model, &self.text, part, purpose)?;
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            model: collect(&self.model),
            optimiser: self.updates.optimiser.collect(),
            carried: match &self.carried {
                Some(state) => carried::save(state.clone(), ""),
                None => Arrays::new(),
            },
            vocabulary: self.vocabulary(),
            ..Snapshot::default()
        }
    }

    fn restore(&mut self, mut from: Snapshot, path: &Path) -> Result<(), Error> {
        self.model = restore(self.model.clone(), from.model, path)?;
        if from.optimiser.is_empty() {
            return Ok(());
        }
        self.carried = None;
        // There is no state before the first window.
        if !from.carried.is_empty() {
            let like = self.initial_state();
            self.carried = Some(carried::load(like, &mut from.carried, "", path)?);
        }
        self.updates.restore(from.optimiser, path)?;
        Ok(())
    }
}

impl Gallery for LanguageLearner {
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        planned(experiment, &self.text)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        black_box(self.batches.make(step - 1, &())?);
        Ok(())
    }

    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        let steps = steps.unwrap_or(self.experiment.task.window);
        let passages = self.passages(sequences, seed, steps)?;
        let written = figures::written(&self.text, &passages);
        Ok(Drawn {
            picture: figures::page(&self.text, &passages)?,
            time: self.experiment.task.window,
            files: vec![(".txt".into(), written.into_bytes())],
        })
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        /// Words per sample in the report.
        const WORDS: usize = 60;
        let passages = self.passages(shown.experiment.evaluation.pictures, 1, WORDS)?;
        let generated = figures::page(&self.text, &passages)?;
        let picture = shown.samples.join("generated.png");
        let written = figures::written(&self.text, &passages);
        let placeholders = match self.text.placeholder_parts() {
            [] => String::new(),
            parts => format!(
                " PLACEHOLDER words stand for the part {}: none of this means anything.",
                source::names(parts)
            ),
        };
        let pictures = vec![save_figure(
            &generated,
            &picture,
            format!(
                "Held-out text in grey and the model's continuation in black, each word drawn \
                 from its predictions.{placeholders}"
            ),
        )?];
        write_beside(&picture, &[(".txt".into(), written.into_bytes())])?;
        let held_out = perplexity_series("held-out", shown.held_out);
        let training = training_series(shown.metrics, "perplexity");
        let sampled = match shown.experiment.language.samples {
            0 => "",
            _ => {
                " For training batches it is estimated from samples of the vocabulary, which is too low on \
                 average, and with dropout."
            }
        };
        let mut charts = vec![chart_figure(
            perplexity_chart(vec![training, held_out]),
            &format!("Perplexity over training.{sampled}{placeholders}"),
        )];
        let measures = &shown.evaluation.measures;
        let by_frequency = measures.records("text.by_frequency");
        if !by_frequency.is_empty() {
            charts.push(chart_figure(
                frequency_chart(by_frequency),
                "Perplexity of held-out words by their number of occurrences in the training part.",
            ));
        }
        let by_unroll = measures.records("text.by_unroll");
        if !by_unroll.is_empty() {
            charts.push(chart_figure(
                unroll_chart(by_unroll),
                "Increase in perplexity when the state is reset at fixed intervals, compared with the same \
                 words without a reset.",
            ));
        }
        let mut memory = Vec::new();
        let model = self.model.valid();
        if let Some(picture) = figures::attention(&model, &self.text, Part::Test)? {
            memory.push(save_figure(
                &picture,
                &shown.samples.join("attention.png"),
                "How much each head reads from the slots and, in the last column, from the current word, \
                 averaged over the slots that take it, from the start of the held-out text."
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

    fn vocabulary(&self) -> Option<String> {
        Some(self.text.vocabulary().to_tsv())
    }

    fn notes(&self) -> Vec<String> {
        match self.text.placeholder_parts() {
            [] => Vec::new(),
            parts => vec![format!(
                "PLACEHOLDER words, drawn at random, stand for the part {} of {}, which is not available: \
                 time and memory are those of the real text, perplexities mean nothing",
                source::names(parts),
                self.text.name()
            )],
        }
    }
}

/// Draws windows of the training text, one from each of several streams.
pub(crate) fn training_picture(experiment: &Experiment, text: &Text) -> Result<Image, LabError> {
    let streams = experiment.evaluation.pictures;
    let window: TextBatch = text.batch(Part::Train, 0, streams, experiment.task.window)?;
    let passages: Vec<figures::Passage> = window
        .targets
        .chunks(window.time)
        .map(|words| figures::Passage {
            before: Vec::new(),
            after: words.to_vec(),
        })
        .collect();
    Ok(figures::page(text, &passages)?)
}

#[cfg(test)]
mod tests;
