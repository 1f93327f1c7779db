//! Windows of a text: contiguous streams to train on, and one pass over a part to evaluate.

use super::Text;
use crate::{Error, Part};

/// Windows of `batch` streams of words, side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct TextBatch {
    /// `[batch, time]` row-major: the words that a model is shown.
    pub inputs: Vec<u32>,
    /// `[batch, time]`: the word that follows each.
    pub targets: Vec<u32>,
    /// `[batch, time]`: 1, or 0 behind the end of a stream.
    pub mask: Vec<f32>,
    /// Number of streams.
    pub batch: usize,
    /// Words of a window.
    pub time: usize,
    /// Whether the streams begin here: what a model carries over from window to window must be at its
    /// start.
    pub begins: bool,
}

impl Text {
    /// Windows of `time` words in one pass over `batch` streams; 0 where a stream is shorter.
    pub fn windows(&self, part: Part, batch: usize, time: usize) -> usize {
        let stream = self.words(part).len().checked_div(batch).unwrap_or(0);
        stream.checked_div(time).unwrap_or(0)
    }

    /// Batch `index` to train on. The part is cut into `batch` contiguous streams of equal length, each
    /// into windows of `time` words; batch `index` has window `index` of every stream, and after the
    /// last the first again.
    ///
    /// The first word of the part is predicted from `<eos>`, every other from the one before it. What
    /// fills no window at the end of a stream, and no stream at the end of the part, is left out.
    ///
    /// # Errors
    /// The part has no words, or a stream has less than `time`.
    pub fn batch(
        &self,
        part: Part,
        index: u64,
        batch: usize,
        time: usize,
    ) -> Result<TextBatch, Error> {
        let windows = self.windows(part, batch, time);
        if windows == 0 {
            return Err(self.too_short(part, batch, time));
        }
        let window = (index % windows as u64) as usize;
        let stream = self.words(part).len() / batch;
        Ok(self.window(part, batch, stream, window * time, time))
    }

    /// All words of a part, each once, in windows of `time` words of `streams` contiguous streams: with
    /// one stream, the continuous pass over a text that perplexities are stated for. The last window
    /// may be shorter, the last streams end earlier, as the mask says.
    ///
    /// To see what a model makes of shorter pasts, start it anew: [`Text::stretches`].
    ///
    /// # Errors
    /// The part has fewer words than streams, `streams` or `time` is 0.
    pub fn unroll(
        &self,
        part: Part,
        streams: usize,
        time: usize,
    ) -> Result<impl Iterator<Item = TextBatch> + '_, Error> {
        let words = self.words(part).len();
        if streams == 0 || time == 0 || words < streams {
            return Err(self.too_short(part, streams, time.min(1)));
        }
        let stream = words.div_ceil(streams);
        let starts = (0..stream).step_by(time);
        Ok(starts
            .map(move |start| self.window(part, streams, stream, start, time.min(stream - start))))
    }

    /// The first `words` words of a part in stretches of `time` words, `batch` of them side by side, each
    /// begun anew: what a model makes of pasts of at most `time` words. The last one may be shorter, as
    /// the mask says. Rows of all batches, one after the other, are the words in their order.
    ///
    /// # Errors
    /// The part has fewer words, or no word, no stretch or no time is asked for.
    pub fn stretches(
        &self,
        part: Part,
        words: usize,
        batch: usize,
        time: usize,
    ) -> Result<impl Iterator<Item = TextBatch> + '_, Error> {
        if words == 0 || batch == 0 || time == 0 || self.words(part).len() < words {
            return Err(self.too_short(part, 1, words.max(1)));
        }
        let stretches = words.div_ceil(time);
        Ok((0..stretches).step_by(batch).map(move |first| {
            let rows = batch.min(stretches - first);
            let made = self.window(part, rows, time, first * time, time);
            let shown = (words - first * time).min(rows * time);
            let mut mask = made.mask;
            mask[shown..].fill(0.0);
            TextBatch {
                mask,
                begins: true,
                ..made
            }
        }))
    }

    fn too_short(&self, part: Part, batch: usize, time: usize) -> Error {
        let words = self.words(part).len();
        if words == 0 {
            return Error::NoWords {
                data: self.name().to_owned(),
                part,
            };
        }
        Error::ShortText {
            data: self.name().to_owned(),
            part,
            batch,
            time,
            needed: batch.saturating_mul(time),
            words,
        }
    }

    /// The words from `start` on of `batch` streams of `stream` words.
    fn window(
        &self,
        part: Part,
        batch: usize,
        stream: usize,
        start: usize,
        time: usize,
    ) -> TextBatch {
        let words = self.words(part);
        let end = self.vocabulary().end();
        let mut made = TextBatch {
            inputs: vec![end; batch * time],
            targets: vec![end; batch * time],
            mask: vec![0.0; batch * time],
            batch,
            time,
            begins: start == 0,
        };
        for row in 0..batch {
            let from = (row * stream + start).min(words.len());
            let targets = &words[from..(from + time).min(words.len())];
            let at = row * time..row * time + targets.len();
            made.targets[at.clone()].copy_from_slice(targets);
            made.mask[at.clone()].fill(1.0);
            if let Some((_, but_last)) = targets.split_last() {
                let inputs = &mut made.inputs[at];
                inputs[0] = if from == 0 { end } else { words[from - 1] };
                inputs[1..].copy_from_slice(but_last);
            }
        }
        made
    }
}
