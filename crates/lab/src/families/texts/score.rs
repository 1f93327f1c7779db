//! Evaluation of a language model on a held-out text: perplexity, perplexity by word frequency, and by the length of
//! the past that the model may use.

use crate::{Experiment, LabError, families::held_out::batches};
use mnemora_memory::{AnyCore, RecurrentCore};
use mnemora_models::{LanguageModel, Words};
use mnemora_training::{Measures, Purpose, arrays::host, measures::mean_and_stderr};
use mnemora_worlds::{Frequency, Part, Text, TextBatch};

/// Lengths of the past that are compared, in words (SUPPLEMENT 5.5, for figure 12 of Santoro et al. 2018).
pub(super) const UNROLLS: [usize; 7] = [10, 25, 50, 100, 250, 500, 1000];

/// Words processed at a time when lengths of the past are compared.
pub(super) const WORDS_AT_A_TIME: usize = 1 << 14;

/// Scores a model on a part, with at most as many windows of each stream as the experiment has batches. After training,
/// also by word frequency and by length of the past.
///
/// - `text.part`, `text.words`: the part and the number of scored words
/// - `text.streams`: number of streams the part was cut into, each read without a break; 1 for one pass over all of it
/// - `text.unknown`: fraction of `<unk>` among the words
/// - `text.placeholders`: whether words of any part are placeholders, so that the numbers mean nothing
/// - `text.by_frequency`: by number of occurrences in the training part (Santoro et al. 2018, table 3). Buckets without
///   a word are left out, and all of them if the training part is missing
/// - `text.unroll_words`, `text.unroll_full`: number of words used to compare lengths of the past (the first of the
///   part), and their perplexity in one pass without resets
/// - `text.by_unroll`: their perplexity with the state reset at fixed intervals (Santoro et al. 2018, figure 12)
pub(super) fn evaluate(
    experiment: &Experiment,
    model: &LanguageModel<AnyCore>,
    text: &Text,
    part: Part,
    purpose: Purpose,
) -> Result<Measures, LabError> {
    let time = experiment.task.window;
    let targets = text.words(part);
    let streams = experiment.evaluation.batch.min(targets.len()).max(1);
    let nats = unroll(
        model,
        text,
        part,
        streams,
        time,
        batches(experiment, purpose),
    )?;
    let scored: Vec<(u32, f64)> = targets
        .iter()
        .zip(&nats)
        .filter_map(|(word, nats)| Some((*word, (*nats)?)))
        .collect();
    let mean = mean_nats(scored.iter().map(|(_, nats)| *nats));
    // Neighbouring words are not independent; windows nearly are.
    let blocks: Vec<f64> = scored
        .chunks(time)
        .map(|block| mean_nats(block.iter().map(|(_, nats)| *nats)))
        .collect();
    let unknown = text.vocabulary().unknown();
    let unknown = scored.iter().filter(|(word, _)| *word == unknown).count();
    let mut measures = Measures::new()
        .with("sequences", streams)
        .with("bound", -mean)
        .with("bound_stderr", mean_and_stderr(&blocks).1)
        .with("perplexity", mean.exp())
        .with("text.part", part.to_string())
        .with("text.words", scored.len())
        .with("text.streams", streams)
        .with("text.unknown", unknown as f64 / scored.len() as f64);
    if !text.placeholder_parts().is_empty() {
        measures.add("text.placeholders", true);
    }
    if !purpose.is_short() {
        if !text.placeholder_parts().contains(&Part::Train) {
            measures = measures.with_some("text.by_frequency", Some(by_frequency(text, &scored)));
        }
        // The words that the pass scored without a gap.
        let first = nats.iter().position(Option::is_none);
        let first = first.unwrap_or(nats.len());
        let compared = first.min(experiment.evaluation.unroll_words);
        // Only with one stream: all other parallel streams start without their past.
        let full = match streams {
            1 => nats,
            _ => unroll(model, text, part, 1, time, compared.div_ceil(time) as u64)?,
        };
        measures.append(
            "text.",
            compare_unrolls(model, text, part, &full[..compared])?,
        );
    }
    Ok(measures)
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

/// Nats of each word of a part in text order, computed in parallel contiguous streams; `None` for words after the last
/// window.
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
        // The model's rows are ordered by step, the window's by stream.
        for (place, found) in found.into_iter().enumerate() {
            let (step, row) = (place / streams, place % streams);
            if window.mask[row * window.time + step] == 1.0 {
                nats[row * stream + index * time + step] = Some(f64::from(found));
            }
        }
    }
    Ok(nats)
}

fn by_frequency(text: &Text, scored: &[(u32, f64)]) -> Vec<Measures> {
    let bucket = |frequency: Frequency| {
        let own: Vec<f64> = scored
            .iter()
            .filter(|(word, _)| text.vocabulary().frequency(*word) == frequency)
            .map(|(_, nats)| *nats)
            .collect();
        (!own.is_empty()).then(|| {
            Measures::new()
                .with("count", frequency.to_string())
                .with("words", own.len())
                .with("perplexity", mean_nats(own.into_iter()).exp())
        })
    };
    Frequency::ALL.into_iter().filter_map(bucket).collect()
}

/// Scores the first words of a part, with the state reset at each of the fixed intervals. `full` are the words' nats in
/// one pass without resets.
fn compare_unrolls(
    model: &LanguageModel<AnyCore>,
    text: &Text,
    part: Part,
    full: &[Option<f64>],
) -> Result<Measures, LabError> {
    let count = full.len();
    let lengths = UNROLLS.into_iter().filter(|length| *length < count);
    let lengths: Vec<usize> = lengths.collect();
    if lengths.is_empty() {
        return Ok(Measures::new());
    }
    let mut by_unroll = Vec::new();
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
        by_unroll.push(
            Measures::new()
                .with("length", length)
                .with("perplexity", perplexity)
                .with("increase", perplexity - without_break),
        );
    }
    Ok(Measures::new()
        .with("unroll_words", count)
        .with("unroll_full", without_break)
        .with("by_unroll", by_unroll))
}
