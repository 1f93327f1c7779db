//! Texts that a language model generates, and the attention of its memory while it reads.

use super::score::upload;
use crate::LabError;
use mnemora_figures::{
    FigureError,
    picture::{Align, Colour, Image, Text as Type, text_width, viridis},
};
use mnemora_memory::{AnyCore, RecurrentCore};
use mnemora_models::{LanguageModel, Words};
use mnemora_training::arrays::host;
use mnemora_worlds::{Part, Stream, Text, TextBatch};

const WHITE: Colour = [255; 3];
const INK: Colour = [30, 30, 34];
const GREY: Colour = [140; 3];
/// A page's width, a line's height, and the type size, in pixels.
const WIDTH: usize = 960;
const LINE: usize = 24;
const SIZE: f64 = 15.0;
const MARGIN: usize = 16;

/// Words of a prompt that are shown; the model reads more of them.
const PROMPT_SHOWN: usize = 30;
/// Number of words whose attention is drawn.
const WORDS_DRAWN: usize = 48;

/// A text and its continuation.
pub(super) struct Passage {
    /// Words of the text.
    pub before: Vec<u32>,
    /// Words of the continuation.
    pub after: Vec<u32>,
}

/// Continues a text: after `prompt` words from a random place in a part, `steps` words are drawn one by one from the
/// model's predictions.
pub(super) fn continued(
    model: &LanguageModel<AnyCore>,
    text: &Text,
    part: Part,
    [count, prompt, steps]: [usize; 3],
    seed: u64,
) -> Result<Vec<Passage>, LabError> {
    let words = text.words(part);
    let prompt = prompt.min(words.len());
    let places = Stream::new(seed, "pictures");
    let last = words.len() - prompt;
    let mut passages: Vec<Passage> = (0..count)
        .map(|row| {
            let place = (places.uniform(row as u64) * (last + 1) as f64) as usize;
            Passage {
                before: words[place.min(last)..][..prompt].to_vec(),
                after: Vec::with_capacity(steps),
            }
        })
        .collect();
    let draws = Stream::new(seed, "picture samples");
    let device = model.device();
    let mut state = model.core.initial_state(count, &device);
    let mut shown: Vec<u32> = passages.iter().flat_map(|p| p.before.clone()).collect();
    for step in 0..steps {
        let read = model.read(&Words::new(&shown, &shown, count, &device), state);
        state = read.state;
        let rows = read.outputs.dims()[0];
        let logits = model.logits(read.outputs.narrow(0, rows - count, count));
        let logits = host(logits.into_data());
        shown.clear();
        for (row, logits) in logits.chunks(model.vocabulary()).enumerate() {
            let word = drawn(logits, draws.uniform((step * count + row) as u64));
            passages[row].after.push(word);
            shown.push(word);
        }
    }
    Ok(passages)
}

/// The word drawn for `u` in `[0, 1)`: the first whose cumulative probability exceeds it.
fn drawn(logits: &[f32], u: f64) -> u32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: &f32| f64::from(logit - largest).exp();
    let mut left = u * logits.iter().map(weight).sum::<f64>();
    for (word, logit) in logits.iter().enumerate() {
        left -= weight(logit);
        if left < 0.0 {
            return word as u32;
        }
    }
    logits.len() as u32 - 1
}

/// Words separated by spaces; `<eos>` ends a line.
fn spelled(text: &Text, words: &[u32]) -> String {
    let mut line = String::new();
    for &word in words {
        if word == text.vocabulary().end() {
            line.push('\n');
            continue;
        }
        if !line.is_empty() && !line.ends_with('\n') {
            line.push(' ');
        }
        line.push_str(text.vocabulary().word(word).unwrap_or_default());
    }
    line
}

/// The part of a prompt that is shown.
fn shown(passage: &Passage) -> &[u32] {
    &passage.before[passage.before.len().saturating_sub(PROMPT_SHOWN)..]
}

/// Passages as a text file.
pub(super) fn written(text: &Text, passages: &[Passage]) -> String {
    let mut file = String::new();
    for (number, passage) in (1..).zip(passages) {
        let (before, after) = (spelled(text, shown(passage)), spelled(text, &passage.after));
        file.push_str(&format!(
            "--- {number}: the text\n{}\n--- {number}: what follows\n{}\n\n",
            before.trim_end(),
            after.trim_end()
        ));
    }
    file
}

/// Passages as the picture of a page, with the continuation in black.
pub(super) fn page(text: &Text, passages: &[Passage]) -> Result<Image, FigureError> {
    // Each line consists of words with their positions.
    let mut lines: Vec<Vec<(f64, String, Colour)>> = Vec::new();
    let space = text_width(" ", SIZE, false);
    let right = (WIDTH - MARGIN) as f64;
    for (number, passage) in (1..).zip(passages) {
        let indent = (MARGIN + 30) as f64;
        lines.push(vec![(MARGIN as f64, number.to_string(), GREY)]);
        let mut x = indent;
        let colours = [(shown(passage), GREY), (passage.after.as_slice(), INK)];
        for (words, colour) in colours {
            for &word in words {
                if word == text.vocabulary().end() {
                    lines.push(Vec::new());
                    x = indent;
                    continue;
                }
                let word = text.vocabulary().word(word).unwrap_or_default();
                let width = text_width(word, SIZE, false);
                if x + width > right && x > indent {
                    lines.push(Vec::new());
                    x = indent;
                }
                if let Some(line) = lines.last_mut() {
                    line.push((x, word.to_owned(), colour));
                }
                x += width + space;
            }
        }
        lines.push(Vec::new());
    }
    let mut image = Image::new(WIDTH, lines.len() * LINE + 2 * MARGIN, WHITE)?;
    for (row, line) in lines.into_iter().enumerate() {
        let y = (MARGIN + row * LINE + LINE / 2) as f64;
        for (x, word, colour) in line {
            let style = Type {
                size: SIZE,
                colour,
                bold: false,
                align: Align::Left,
            };
            image.text(&word, (x, y), style)?;
        }
    }
    Ok(image)
}

/// Weights of each head while the first words of a part are read, one line per word; `None` for a core without heads.
pub(super) fn attention(
    model: &LanguageModel<AnyCore>,
    text: &Text,
    part: Part,
) -> Result<Option<Image>, LabError> {
    let count = WORDS_DRAWN.min(text.words(part).len());
    let Some(window) = text.stretches(part, count, 1, count)?.next() else {
        return Ok(None);
    };
    let state = model.core.initial_state(1, &model.device());
    let read = model.read(&upload(&window, model), state);
    let mut heads = 0;
    let mut rows: Vec<Vec<f32>> = Vec::new();
    for step in read.attention {
        // `[1, heads, slots]`, head by head.
        let mut row = Vec::new();
        for attention in step {
            let weights = attention.weights();
            heads = weights.dims()[1];
            row.extend(host(weights.into_data()));
        }
        rows.push(row);
    }
    match heads {
        0 => Ok(None),
        _ => Ok(Some(reading(text, &window, &rows, heads)?)),
    }
}

/// Draws weights, `[words][heads * slots]`, next to the words that were read.
fn reading(
    text: &Text,
    window: &TextBatch,
    rows: &[Vec<f32>],
    heads: usize,
) -> Result<Image, FigureError> {
    const CELL: usize = 18;
    const GAP: usize = 14;
    const WORD: usize = 180;
    const TOP: usize = 64;
    let slots = rows.first().map_or(0, Vec::len) / heads;
    let width = WORD + heads * (slots * CELL + GAP) + MARGIN;
    let height = TOP + rows.len() * CELL + MARGIN;
    let mut image = Image::new(width.max(360), height, WHITE)?;
    let style = |align, colour| Type {
        size: 12.0,
        colour,
        bold: false,
        align,
    };
    let heading = "each head's weights over the slots and, last, the input";
    let first = (MARGIN as f64, 14.0);
    image.text(heading, first, style(Align::Left, GREY))?;
    let left = |head: usize| WORD + head * (slots * CELL + GAP);
    for head in 0..heads {
        let middle = left(head) as f64 + (slots * CELL) as f64 / 2.0;
        let name = (head + 1).to_string();
        image.text(&name, (middle, 48.0), style(Align::Centre, INK))?;
    }
    for (row, (weights, word)) in rows.iter().zip(&window.inputs).enumerate() {
        let y = TOP + row * CELL;
        let word = text.vocabulary().word(*word).unwrap_or_default();
        let place = ((WORD - 10) as f64, (y + CELL / 2) as f64);
        image.text(word, place, style(Align::Right, INK))?;
        for (head, weights) in weights.chunks(slots).enumerate() {
            for (slot, weight) in weights.iter().enumerate() {
                let x = left(head) + slot * CELL;
                image.fill(x, y, CELL - 1, CELL - 1, viridis(*weight));
            }
        }
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_drawn_by_their_probabilities() {
        let logits = [0.0_f32, 2.0_f32.ln(), f32::NEG_INFINITY, 1.0_f32.ln()];
        let counts = (0..400).fold([0; 4], |mut counts, i| {
            counts[drawn(&logits, (f64::from(i) + 0.5) / 400.0) as usize] += 1;
            counts
        });
        assert_eq!(counts, [100, 200, 0, 100]);
        assert_eq!(drawn(&[5.0], 0.999), 0);
    }
}
