//! What a language model is worth on a held-out text: perplexity, by how often words come in training, and by how
//! much of the past the model may see.

use crate::{Evaluation, Experiment, LabError, evaluate::mean_and_stderr, weights::host};
use mnemora_memory::{AnyCore, RecurrentCore};
use mnemora_models::{LanguageModel, Words};
use mnemora_worlds::{Frequency, Part, Text, TextBatch};
use serde::{Deserialize, Serialize};

/// Lengths of the past that are compared, in words (SUPPLEMENT 5.5, for figure 12 of Santoro et al. 2018).
pub(super) const UNROLLS: [usize; 7] = [10, 25, 50, 100, 250, 500, 1000];

/// Words that are worked on at a time where lengths of the past are compared.
pub(super) const WORDS_AT_A_TIME: usize = 1 << 14;

/// What a language model makes of a held-out text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextScore {
    /// The part of the text: `test`, or `valid` at checkpoints.
    pub part: String,
    /// Words that were scored.
    pub words: usize,
    /// Streams into which the part was cut, each gone through without a break; 1 for one pass over all of it.
    pub streams: usize,
    /// Share of `<unk>` among them.
    pub unknown: f64,
    /// Whether words of some part are placeholders, so that the numbers mean nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub placeholders: bool,
    /// By how often the training part has a word; buckets without a word are left out, and all where the training
    /// part is not at hand.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub by_frequency: Vec<FrequencyScore>,
    /// Words on which lengths of the past were compared, the first of the part.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unroll_words: Option<usize>,
    /// Perplexity of these in one pass, its state never reset.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unroll_full: Option<f64>,
    /// The same with the state reset after every so many words.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub by_unroll: Vec<UnrollScore>,
}

/// Words of one bucket (Santoro et al. 2018, table 3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrequencyScore {
    /// How often the training part has them: `> 10k`, `1k-10k`, `< 1k`.
    pub count: String,
    /// Words that were scored.
    pub words: usize,
    /// `exp` of their mean nats.
    pub perplexity: f64,
}

/// A length of the past (Santoro et al. 2018, figure 12).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnrollScore {
    /// Words after which the state starts anew.
    pub length: usize,
    /// `exp` of the mean nats.
    pub perplexity: f64,
    /// What it is above that without a break.
    pub increase: f64,
}

/// Scores a model on a part: at most `windows` windows of each stream, and, with `analyses`, by frequency and by
/// length of the past.
pub(super) fn evaluate(
    experiment: &Experiment,
    model: &LanguageModel<AnyCore>,
    text: &Text,
    part: Part,
    step: u64,
    windows: u64,
    analyses: bool,
) -> Result<Evaluation, LabError> {
    let time = experiment.task.window;
    let targets = text.words(part);
    let streams = experiment.evaluation.batch.min(targets.len()).max(1);
    let nats = unroll(model, text, part, streams, time, windows)?;
    let scored: Vec<(u32, f64)> = targets
        .iter()
        .zip(&nats)
        .filter_map(|(word, nats)| Some((*word, (*nats)?)))
        .collect();
    let mean = mean_nats(scored.iter().map(|(_, nats)| *nats));
    // Words beside each other are not independent, windows are nearly so.
    let blocks: Vec<f64> = scored
        .chunks(time)
        .map(|block| mean_nats(block.iter().map(|(_, nats)| *nats)))
        .collect();
    let unknown = text.vocabulary().unknown();
    let unknown = scored.iter().filter(|(word, _)| *word == unknown).count();
    let mut score = TextScore {
        part: part.to_string(),
        words: scored.len(),
        streams,
        unknown: unknown as f64 / scored.len() as f64,
        placeholders: !text.placeholder_parts().is_empty(),
        ..TextScore::default()
    };
    if analyses {
        if !text.placeholder_parts().contains(&Part::Train) {
            score.by_frequency = by_frequency(text, &scored);
        }
        // The words that the pass scored without a gap.
        let first = nats.iter().position(Option::is_none);
        let first = first.unwrap_or(nats.len());
        let compared = first.min(experiment.evaluation.unroll_words);
        // One stream: side by side, streams but the first begin without their past.
        let full = match streams {
            1 => nats,
            _ => unroll(model, text, part, 1, time, compared.div_ceil(time) as u64)?,
        };
        compare_unrolls(model, text, part, &full[..compared], &mut score)?;
    }
    Ok(Evaluation {
        step,
        sequences: streams,
        bound: -mean,
        bound_stderr: mean_and_stderr(&blocks).1,
        perplexity: Some(mean.exp()),
        text: Some(score),
        ..Evaluation::default()
    })
}

fn mean_nats(nats: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = nats.fold((0.0, 0_usize), |(sum, count), nats| (sum + nats, count + 1));
    sum / count as f64
}

/// Uploads a window.
pub(super) fn upload(window: &TextBatch, model: &LanguageModel<AnyCore>) -> Words {
    let device = model.device().inner();
    Words::new(&window.inputs, &window.targets, window.batch, &device)
}

/// Nats of each word of a part, in the order of the text, from contiguous streams side by side; `None` for a word
/// behind the last window.
fn unroll(
    model: &LanguageModel<AnyCore>,
    text: &Text,
    part: Part,
    streams: usize,
    time: usize,
    windows: u64,
) -> Result<Vec<Option<f64>>, LabError> {
    let count = text.words(part).len();
    let stream = count.div_ceil(streams);
    let mut nats = vec![None; count];
    let mut state = model.core.initial_state(streams, &model.device());
    let most = usize::try_from(windows).unwrap_or(usize::MAX);
    let passes = text.unroll(part, streams, time)?.take(most);
    for (index, window) in passes.enumerate() {
        let words = upload(&window, model);
        let read = model.read(&words, state);
        state = read.state;
        let found = host(model.nats(read.outputs, &words).into_data());
        // The model's rows are step after step, the window's stream after stream.
        for (place, found) in found.into_iter().enumerate() {
            let (step, row) = (place / streams, place % streams);
            if window.mask[row * window.time + step] == 1.0 {
                nats[row * stream + index * time + step] = Some(f64::from(found));
            }
        }
    }
    Ok(nats)
}

fn by_frequency(text: &Text, scored: &[(u32, f64)]) -> Vec<FrequencyScore> {
    let bucket = |frequency: Frequency| {
        let own: Vec<f64> = scored
            .iter()
            .filter(|(word, _)| text.vocabulary().frequency(*word) == frequency)
            .map(|(_, nats)| *nats)
            .collect();
        (!own.is_empty()).then(|| FrequencyScore {
            count: frequency.to_string(),
            words: own.len(),
            perplexity: mean_nats(own.into_iter()).exp(),
        })
    };
    Frequency::ALL.into_iter().filter_map(bucket).collect()
}

/// Scores the first words of a part with the state reset after every so many words; `full` are their nats in one
/// pass without a reset.
fn compare_unrolls(
    model: &LanguageModel<AnyCore>,
    text: &Text,
    part: Part,
    full: &[Option<f64>],
    score: &mut TextScore,
) -> Result<(), LabError> {
    let count = full.len();
    let lengths = UNROLLS.into_iter().filter(|length| *length < count);
    let lengths: Vec<usize> = lengths.collect();
    if lengths.is_empty() {
        return Ok(());
    }
    let without_break = mean_nats(full.iter().filter_map(|nats| *nats)).exp();
    for length in lengths {
        let side_by_side = (WORDS_AT_A_TIME / length).max(16);
        let mut nats = Vec::with_capacity(count);
        for window in text.stretches(part, count, side_by_side, length)? {
            let words = upload(&window, model);
            let state = model.core.initial_state(window.batch, &model.device());
            let read = model.read(&words, state);
            let found = host(model.nats(read.outputs, &words).into_data());
            for (place, found) in found.into_iter().enumerate() {
                let (step, row) = (place / window.batch, place % window.batch);
                if window.mask[row * window.time + step] == 1.0 {
                    nats.push(f64::from(found));
                }
            }
        }
        let perplexity = mean_nats(nats.into_iter()).exp();
        score.by_unroll.push(UnrollScore {
            length,
            perplexity,
            increase: perplexity - without_break,
        });
    }
    score.unroll_words = Some(count);
    score.unroll_full = Some(without_break);
    Ok(())
}
