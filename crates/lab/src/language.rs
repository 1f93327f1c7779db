//! Language models: a recurrent core reads a text word by word and says which word comes next
//! (Santoro et al. 2018, section 4.3).

mod pictures;
mod score;
mod source;

pub use self::score::{FrequencyScore, TextScore, UnrollScore};
pub(crate) use self::source::{find, words};

use crate::{
    Evaluation, Experiment, LabError,
    adam::{Adam, ParameterGradients},
    curves::{frequency_chart, held_out_series, perplexity_chart, training_series, unroll_chart},
    evaluate::CHECKPOINT_EVALUATION,
    learner::{Drawn, Learner, Shown, StepFailure, Updates},
    memory_use::{Parts, Planned, Work, in_words, outline, sequences},
    present::{Figures, charted, drawn, write_beside},
    run::Metrics,
    weights::{Array, Arrays, collect, host, parameters_of, restore},
};
use burn::{
    module::Module,
    tensor::{Bool, Device, Int, Tensor, TensorData},
};
use mnemora_figures::picture::Image;
use mnemora_memory::{
    AnyCore, AnyCoreState, Bundle, Count, Initializer, RecurrentCore, TensorMapper,
};
use mnemora_models::{LanguageModel, WordDropout, WordSamples, Words};
use mnemora_worlds::{Part, Stream, Text, TextBatch};
use std::{hint::black_box, path::Path};

/// What tensors of the carried state are called in a checkpoint, before their number.
const CARRIED: &str = "carried.";

/// A recurrent core that learns to predict the next word of a text.
///
/// Training batches are windows of contiguous streams; the state goes from one to the next, its gradient does
/// not. The state is saved among the optimiser's arrays.
pub struct LanguageLearner {
    text: Text,
    /// On an autodiff device if it is to learn.
    model: LanguageModel<AnyCore>,
    /// The state in which the window of the last update ended, where it is carried.
    carried: Option<AnyCoreState>,
    carries: bool,
    /// Streams of a training batch, and words of a window.
    batch: usize,
    window: usize,
    updates: Updates,
    device: Device,
}

/// Part of a text by the purpose of an evaluation.
fn part_for(purpose: &str) -> Part {
    match purpose {
        CHECKPOINT_EVALUATION => Part::Valid,
        _ => Part::Test,
    }
}

/// What the experiment's model of a text consists of, and how much memory its training takes.
pub(crate) fn planned(experiment: &Experiment, text: &Text) -> Result<Planned, LabError> {
    let vocabulary = text.vocabulary().len();
    let config = experiment.language_config(vocabulary)?;
    let model = config.init(&mut outline()?)?;
    let (footprint, window) = (model.footprint(), experiment.task.window);
    let batch = experiment.training.batch;
    let [learning, passed] = sequences(experiment, &footprint, window);
    let held_out = text.words(Part::Test).len();
    let settings = &experiment.evaluation;
    // Where lengths of the past are compared, many short stretches lie side by side; the shortest are many.
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
        // What each held-out word costs.
        + held_out * 6;
    let words = batch.saturating_mul(window);
    let softmax = model.softmax_kept(words, experiment.language.samples);
    let all = Part::ALL.iter().map(|part| text.words(*part).len());
    let work = Work {
        learning: learning + softmax,
        looking,
        batches: Count::product(&[words, 6]),
        // Four bytes a word, and the words of the vocabulary by number and by name.
        data: Count::from(all.sum::<usize>()) * 4 + Count::product(&[vocabulary, 120]),
    };
    Ok(Planned::new(parts(&model), work))
}

/// Refuses a text that cannot be trained on, or scored.
pub(crate) fn check(experiment: &Experiment, text: &Text) -> Result<(), LabError> {
    let (batch, window) = (experiment.training.batch, experiment.task.window);
    text.batch(Part::Train, 0, batch, window)?;
    for part in [Part::Valid, Part::Test] {
        text.unroll(part, 1, window).map(drop)?;
    }
    Ok(())
}

/// Trainable numbers, whole model first.
fn parts(model: &LanguageModel<AnyCore>) -> Parts {
    vec![
        ("model".into(), parameters_of(model)),
        ("memory".into(), parameters_of(&model.core)),
        ("table".into(), Count::product(&model.embedding.dims())),
        ("projection".into(), parameters_of(&model.projection)),
    ]
}

impl LanguageLearner {
    /// A fresh one, its model on `device` and drawn from the experiment's seed.
    pub(crate) fn new(
        experiment: &Experiment,
        text: Text,
        device: &Device,
    ) -> Result<Self, LabError> {
        let (batch, window) = (experiment.training.batch, experiment.task.window);
        // Better known before there is a run.
        check(experiment, &text)?;
        let stream = Stream::new(experiment.seed, "parameters").at(0);
        let mut init = Initializer::new(stream, device.clone());
        let config = experiment.language_config(text.vocabulary().len())?;
        Ok(Self {
            model: config.init(&mut init)?,
            text,
            carried: None,
            carries: experiment.language.carry,
            batch,
            window,
            updates: Updates::new(Adam::default(), device),
            device: device.clone(),
        })
    }

    fn initial_state(&self) -> AnyCoreState {
        self.model.core.initial_state(self.batch, &self.device)
    }

    /// The window of every stream from which update `step` learns.
    fn training_batch(&self, step: u64) -> Result<TextBatch, LabError> {
        let batch = self
            .text
            .batch(Part::Train, step - 1, self.batch, self.window)?;
        Ok(batch)
    }

    /// Reads a held-out text aloud: passages as the model goes on with it.
    fn passages(
        &self,
        sequences: usize,
        seed: u64,
        steps: usize,
    ) -> Result<Vec<pictures::Passage>, LabError> {
        let sizes = [sequences, self.window, steps];
        pictures::continued(&self.model.valid(), &self.text, Part::Test, sizes, seed)
    }
}

/// Masks of dropout for update `step`.
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

/// Writes a state's tensors down, in the order of a visit: numbers under one count, indices under another.
#[derive(Default)]
struct Save {
    arrays: Arrays,
    numbers: usize,
    indices: usize,
}

impl Save {
    fn insert(&mut self, name: String, shape: &[usize], values: Vec<f32>) {
        let shape = shape.to_vec();
        self.arrays.insert(name, Array { shape, values });
    }
}

impl TensorMapper for Save {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let values = host(tensor.clone().into_data());
        self.insert(number_name(self.numbers), &tensor.dims(), values);
        self.numbers += 1;
        tensor
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        // Indices of slots: far below what an f32 counts exactly.
        let values = host(tensor.clone().float().into_data());
        self.insert(index_name(self.indices), &tensor.dims(), values);
        self.indices += 1;
        tensor
    }
}

fn number_name(place: usize) -> String {
    format!("{CARRIED}{place}")
}

fn index_name(place: usize) -> String {
    format!("{CARRIED}index.{place}")
}

/// Puts arrays in the place of a state's tensors; what is missing or of another shape is a problem.
struct Load<'a> {
    arrays: &'a mut Arrays,
    numbers: usize,
    indices: usize,
    problem: Option<String>,
}

impl<'a> Load<'a> {
    fn new(arrays: &'a mut Arrays) -> Self {
        Self {
            arrays,
            numbers: 0,
            indices: 0,
            problem: None,
        }
    }

    fn take(&mut self, name: &str, shape: &[usize]) -> Option<TensorData> {
        let found = self.arrays.remove(name);
        let Some(array) = found.filter(|array| array.shape == shape) else {
            self.problem.get_or_insert(format!(
                "its optimiser's state has no '{name}' of {shape:?}"
            ));
            return None;
        };
        Some(TensorData::new(array.values, array.shape))
    }
}

impl TensorMapper for Load<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let name = number_name(self.numbers);
        self.numbers += 1;
        match self.take(&name, &tensor.dims()) {
            Some(data) => Tensor::from_data(data, &tensor.device()),
            None => tensor,
        }
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        let name = index_name(self.indices);
        self.indices += 1;
        match self.take(&name, &tensor.dims()) {
            Some(data) => Tensor::<D>::from_data(data, &tensor.device()).int(),
            None => tensor,
        }
    }
}

impl Learner for LanguageLearner {
    fn parameters(&self) -> Vec<(String, usize)> {
        in_words(parts(&self.model))
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        planned(experiment, &self.text)
    }

    fn weights(&self) -> Arrays {
        collect(&self.model)
    }

    fn optimizer(&self) -> Arrays {
        let mut arrays = self.updates.adam.collect();
        if let Some(carried) = &self.carried {
            let mut save = Save::default();
            carried.clone().map_tensors(&mut save);
            arrays.append(&mut save.arrays);
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
        let Some(mut optimizer) = optimizer else {
            return Ok(());
        };
        self.carried = None;
        // Before the first window there is none.
        if optimizer.keys().any(|name| name.starts_with(CARRIED)) {
            let mut load = Load::new(&mut optimizer);
            let state = self.initial_state().map_tensors(&mut load);
            if let Some(problem) = load.problem {
                return Err(LabError::WrongWeights {
                    path: path.to_owned(),
                    problem,
                });
            }
            self.carried = Some(state);
        }
        self.updates.adam = Adam::restore(optimizer, &self.device.clone().inner(), path)?;
        Ok(())
    }

    /// The loss is the mean over the words of minus their log likelihood: by the full softmax, or estimated from
    /// `language.samples` words.
    fn step(&mut self, experiment: &Experiment, step: u64) -> Result<(), StepFailure> {
        let window = self.training_batch(step).map_err(StepFailure::Batch)?;
        let plain = self.device.clone().inner();
        let words = Words::new(&window.inputs, &window.targets, window.batch, &plain);
        let dropout = dropout(experiment, step, self.batch * self.window, &plain);
        let samples = experiment.language.samples;
        let samples = (samples > 0).then(|| {
            let draws = Stream::new(experiment.seed, "softmax samples");
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
            .make(&mut self.model, experiment, step, gradients, &NAMES, terms)?;
        if self.carries {
            // As the parameters: after a step that was not finite nothing is taken over.
            self.carried = Some(match self.updates.finite() {
                None => learned.state,
                Some(finite) => {
                    let stopped = Tensor::<1, Bool>::from_inner(finite.bool_not());
                    let stopped = stopped.expand([self.batch]);
                    let before = self.carried.take();
                    let before = before.unwrap_or_else(|| self.initial_state());
                    learned.state.replace(&stopped, before)
                }
            });
        }
        Ok(())
    }

    fn draw_batch(&self, _: &Experiment, step: u64) -> Result<(), LabError> {
        black_box(self.training_batch(step)?);
        Ok(())
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn metrics(&mut self) -> Result<Option<Metrics>, StepFailure> {
        Ok(self.updates.last()?.map(|made| Metrics {
            step: made.step,
            bound: made.terms[0],
            perplexity: Some((-made.terms[0]).exp()),
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
        score::evaluate(
            experiment,
            &self.model.valid(),
            &self.text,
            part_for(purpose),
            step,
            batches,
            purpose != CHECKPOINT_EVALUATION,
        )
    }

    fn draw(
        &self,
        _: &Experiment,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError> {
        let steps = steps.unwrap_or(self.window);
        let passages = self.passages(sequences, seed, steps)?;
        let written = pictures::written(&self.text, &passages);
        Ok(Drawn {
            picture: pictures::page(&self.text, &passages)?,
            time: self.window,
            files: vec![(".txt".into(), written.into_bytes())],
        })
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        /// Words of a sample in the report.
        const WORDS: usize = 60;
        let passages = self.passages(shown.experiment.evaluation.pictures, 1, WORDS)?;
        let generated = pictures::page(&self.text, &passages)?;
        let picture = shown.samples.join("generated.png");
        let written = pictures::written(&self.text, &passages);
        let placeholders = match self.text.placeholder_parts() {
            [] => String::new(),
            parts => format!(
                " PLACEHOLDER words stand for the part {}: none of this means anything.",
                source::names(parts)
            ),
        };
        let pictures = vec![drawn(
            &generated,
            &picture,
            format!(
                "Held-out text in grey, and in black what the model goes on to write, each word drawn \
                 from what it predicts.{placeholders}"
            ),
        )?];
        write_beside(&picture, &[(".txt".into(), written.into_bytes())])?;
        let held_out = held_out_series("held-out", shown.held_out, |row| Some((-row.bound).exp()));
        let training = training_series(shown.metrics, |row| row.perplexity);
        let sampled = match shown.experiment.language.samples {
            0 => "",
            _ => {
                " That of training batches is estimated from samples of the vocabulary, too low in the \
                 mean, and under dropout."
            }
        };
        let mut charts = vec![charted(
            perplexity_chart(vec![training, held_out]),
            &format!("Perplexity over training.{sampled}{placeholders}"),
        )?];
        if let Some(score) = &shown.evaluation.text {
            if !score.by_frequency.is_empty() {
                charts.push(charted(
                    frequency_chart(&score.by_frequency),
                    "Perplexity of held-out words by how often the training part has them.",
                )?);
            }
            if !score.by_unroll.is_empty() {
                charts.push(charted(
                    unroll_chart(&score.by_unroll),
                    "How much perplexity rises when the state starts anew at every so many words, above \
                     that of the same words without a break.",
                )?);
            }
        }
        let mut memory = Vec::new();
        let model = self.model.valid();
        if let Some(picture) = pictures::attention(&model, &self.text, Part::Test)? {
            memory.push(drawn(
                &picture,
                &shown.samples.join("attention.png"),
                "What each head takes from the slots and, in the last column, from the word that is read, \
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
                "PLACEHOLDER words, drawn at random, stand for the part {} of {}, which is not at hand: \
                 time and memory are those of the real text, perplexities mean nothing",
                source::names(parts),
                self.text.name()
            )],
        }
    }
}

/// Draws windows of the training text, one of each of as many streams.
pub(crate) fn training_picture(experiment: &Experiment, text: &Text) -> Result<Image, LabError> {
    let streams = experiment.evaluation.pictures;
    let window: TextBatch = text.batch(Part::Train, 0, streams, experiment.task.window)?;
    let passages: Vec<pictures::Passage> = window
        .targets
        .chunks(window.time)
        .map(|words| pictures::Passage {
            before: Vec::new(),
            after: words.to_vec(),
        })
        .collect();
    Ok(pictures::page(text, &passages)?)
}

#[cfg(test)]
mod tests;
