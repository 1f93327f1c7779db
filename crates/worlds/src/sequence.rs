//! What the tasks share: settings, frames drawn from a split, and their assembly into a [`Batch`].

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::ops::RangeInclusive;

use crate::{Batch, Error, FrameShape, Images, Stream, sequence_number};

/// Longest interval accepted: far beyond what a model can be trained through, well within what
/// memory can hold.
pub(crate) const LONGEST: usize = 100_000;

/// One grey image.
pub(crate) const FRAME: FrameShape = FrameShape {
    channels: 1,
    height: Images::ROWS,
    width: Images::COLUMNS,
};

/// Checks a setting; `wanted` says in words what would be right.
pub(crate) fn check(
    key: &'static str,
    value: usize,
    range: RangeInclusive<usize>,
    wanted: impl FnOnce() -> String,
) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(Error::Setting {
        key,
        value,
        wanted: wanted(),
    })
}

/// Checks `task.length`, where any length will do.
pub(crate) fn check_length(length: usize) -> Result<(), Error> {
    check("task.length", length, 1..=LONGEST, || {
        format!("the images to watch must be from 1 to {LONGEST}")
    })
}

/// Checks `task.recall`, where at most the images watched can be recalled.
pub(crate) fn check_recall(recall: usize, length: usize) -> Result<(), Error> {
    check("task.recall", recall, 1..=length, || {
        format!("the images to recall must be from 1 to task.length = {length}")
    })
}

/// Any image of a split, uniformly.
pub(crate) fn draw(images: &Images, generator: &mut ChaCha8Rng) -> usize {
    generator.random_range(0..images.len())
}

/// Where one frame comes from.
#[derive(Clone, Copy)]
struct Step {
    instance: usize,
    predictable: bool,
    source: Option<usize>,
}

/// The frames of one sequence, as positions of their images in a split.
pub(crate) struct Sequence {
    steps: Vec<Step>,
}

impl Sequence {
    /// An empty sequence, with room for `time` frames.
    pub(crate) fn new(time: usize) -> Sequence {
        Sequence {
            steps: Vec::with_capacity(time),
        }
    }

    /// `length` images drawn uniformly with replacement, with room for `time` frames.
    pub(crate) fn watched(
        images: &Images,
        length: usize,
        time: usize,
        generator: &mut ChaCha8Rng,
    ) -> Sequence {
        let mut sequence = Sequence::new(time);
        for _ in 0..length {
            sequence.show(draw(images, generator));
        }
        sequence
    }

    /// The image shown at step `step`, which must have been shown already.
    pub(crate) fn instance(&self, step: usize) -> usize {
        self.steps[step].instance
    }

    /// Adds a frame that the past does not determine.
    pub(crate) fn show(&mut self, instance: usize) {
        self.steps.push(Step {
            instance,
            predictable: false,
            source: None,
        });
    }

    /// Adds an image of which the past determines what matters, but not the pixels.
    pub(crate) fn show_predictable(&mut self, instance: usize) {
        self.steps.push(Step {
            instance,
            predictable: true,
            source: None,
        });
    }

    /// Adds the frame of step `source` again, which must have been shown already.
    pub(crate) fn repeat(&mut self, source: usize) {
        self.steps.push(Step {
            instance: self.instance(source),
            predictable: true,
            source: Some(source),
        });
    }
}

/// Batch `index` of `batch` sequences of `time` frames, each made by `sequence` from its own draw
/// of the stream; without conditions or cells.
pub(crate) fn assemble(
    images: &Images,
    stream: &Stream,
    index: u64,
    batch: usize,
    time: usize,
    mut sequence: impl FnMut(&mut ChaCha8Rng) -> Sequence,
) -> Batch {
    let steps = batch * time;
    let mut frames = Vec::with_capacity(steps * FRAME.size());
    let mut labels = Vec::with_capacity(steps);
    let mut predictable = Vec::with_capacity(steps);
    let mut sources = Vec::with_capacity(steps);
    for row in 0..batch {
        let Sequence { steps } = sequence(&mut stream.at(sequence_number(index, batch, row)));
        debug_assert_eq!(steps.len(), time);
        for step in steps {
            let (image, label) = images
                .image(step.instance)
                .zip(images.label(step.instance))
                .expect("instances are drawn below the number of images");
            frames.extend(image.iter().map(|&pixel| f32::from(pixel) / 255.0));
            labels.push(label);
            predictable.push(step.predictable);
            sources.push(step.source);
        }
    }
    Batch {
        frames,
        batch,
        time,
        frame: FRAME,
        conditions: None,
        labels,
        predictable,
        sources,
        cells: None,
    }
}
