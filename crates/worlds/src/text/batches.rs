//! Windows of a text: contiguous streams for training, and one pass over a part for evaluation.

use super::Text;
use crate::{Error, Part};

/// Windows of `batch` parallel streams of words.
#[derive(Clone, Debug, PartialEq)]
pub struct TextBatch {
    /// `[batch, time]` row-major: the words that a model reads.
    pub inputs: Vec<u32>,
    /// `[batch, time]`: the word that follows each of them.
    pub targets: Vec<u32>,
    /// `[batch, time]`: 1, or 0 after the end of a stream.
    pub mask: Vec<f32>,
    /// Number of streams.
    pub batch: usize,
    /// Words per window.
    pub time: usize,
    /// Whether the streams begin here, so that the state carried from window to window must be reset.
    pub begins: bool,
}

impl Text {
    /// Number of windows of `time` words in one pass over `batch` streams; 0 if a stream is shorter.
    pub fn windows(&self, part: Part, batch: usize, time: usize) -> usize {
        let stream = self.words(part).len().checked_div(batch).unwrap_or(0);
        stream.checked_div(time).unwrap_or(0)
    }

    /// Batch `index` for training. The part is cut into `batch` contiguous streams of equal length, and each
    /// stream into windows of `time` words. Batch `index` holds window `index` of every stream; after the
    /// last window comes the first again.
    ///
    /// The first word of the part is predicted from `<eos>`, every other from the word before it. Incomplete
    /// windows at the end of a stream, and an incomplete stream at the end of the part, are left out.
    ///
    /// # Errors
    /// The part has no words, or a stream has fewer than `time`.
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

    /// All words of a part, each once, in windows of `time` words of `streams` contiguous streams. One
    /// stream gives the continuous pass over a text that is usual for perplexities. The last window
    /// may be shorter, and the last streams may end earlier; see the mask.
    ///
    /// To evaluate a model with a shorter past, reset its state: see [`Text::stretches`].
    ///
    /// # Errors
    /// The part has fewer words than streams, or `streams` or `time` is 0.
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

    /// The first `words` words of a part in stretches of `time` words, `batch` of them in parallel. The state is
    /// reset at the start of each stretch, so a model sees a past of at most `time` words. The last stretch may be
    /// shorter; see the mask. The rows of all batches, one after the other, are the words in order.
    ///
    /// # Errors
    /// The part has fewer words, or `words`, `batch` or `time` is 0.
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

    /// The words from `start` on in `batch` streams of `stream` words.
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
