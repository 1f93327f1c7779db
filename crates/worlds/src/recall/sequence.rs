//! Common code of the tasks of frames: drawing frames from a split and assembling them into a [`Batch`].

use rand_chacha::ChaCha8Rng;

use crate::{Batch, FrameShape, Images, Layout, Stream, sequence_number};

/// One grey image.
pub(crate) const FRAME: FrameShape = FrameShape {
    channels: 1,
    height: Images::ROWS,
    width: Images::COLUMNS,
};

/// The origin of one frame.
#[derive(Clone, Copy)]
struct Step {
    instance: usize,
    predictable: bool,
    source: Option<usize>,
}

/// The layout of a task whose sequences are a prompt followed by frames to recall.
pub fn recall_layout(name: &'static str, prompt: usize, recall: usize) -> Layout {
    let time = prompt.saturating_add(recall);
    Layout {
        name,
        frame: FRAME,
        condition_width: 0,
        prompt,
        time,
        recall_interval: Some(prompt..time),
    }
}

/// The frames of one sequence, as positions of their images in a split, while a task composes it.
pub struct Sequence {
    steps: Vec<Step>,
}

impl Sequence {
    /// An empty sequence, with room for `time` frames.
    pub fn new(time: usize) -> Sequence {
        Sequence {
            steps: Vec::with_capacity(time),
        }
    }

    /// `length` images drawn uniformly with replacement, with room for `time` frames.
    pub fn watched(
        images: &Images,
        length: usize,
        time: usize,
        generator: &mut ChaCha8Rng,
    ) -> Sequence {
        let mut sequence = Sequence::new(time);
        for _ in 0..length {
            sequence.show(images.draw(generator));
        }
        sequence
    }

    /// The image shown at the earlier step `step`.
    pub fn instance(&self, step: usize) -> usize {
        self.steps[step].instance
    }

    /// Adds a frame that the past does not determine.
    pub fn show(&mut self, instance: usize) {
        self.steps.push(Step {
            instance,
            predictable: false,
            source: None,
        });
    }

    /// Adds an image whose class, but not its pixels, is determined by the past.
    pub fn show_predictable(&mut self, instance: usize) {
        self.steps.push(Step {
            instance,
            predictable: true,
            source: None,
        });
    }

    /// Adds the frame of the earlier step `source` again.
    pub fn repeat(&mut self, source: usize) {
        self.steps.push(Step {
            instance: self.instance(source),
            predictable: true,
            source: Some(source),
        });
    }
}

/// Batch `index` of `batch` sequences of `time` frames, each made by `sequence` from its own draw
/// of the stream; without conditions or cells.
pub fn assemble(
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
