//! Learners that can be looked at: what they draw, and what can be asked of them.

use super::Experiment;
use crate::{
    Answered, LabError,
    families::tables::{Ask, Forecast, RowAsk, RowFilter},
    pictures::Figures,
};
use mnemora_figures::picture::Image;
use mnemora_training::{
    Learner, Purpose, Row,
    memory_use::Planned,
    online::{FilteredStep, OnlineFilter},
};
use std::path::Path;

/// A learner that can be looked at.
pub trait Gallery: Learner {
    /// What training takes, for an experiment that differs from the learner's in a size.
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError>;

    /// Makes the batch of update `step` and drops it.
    fn draw_batch(&self, step: u64) -> Result<(), LabError>;

    /// What the model makes of held-out sequences. With `steps`, the model generates this many steps instead of the
    /// experiment's number.
    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError>;

    /// The number of latents that the model's memory can store before it drops the oldest; `None` without such a store.
    fn stored(&self) -> Option<usize> {
        None
    }

    /// Draws the pictures of a run.
    fn figures(&self, shown: &Shown) -> Result<Figures, LabError>;

    /// The words of a language model, as [`to_tsv`](mnemora_worlds::Vocabulary::to_tsv) writes them; `None` for other
    /// models.
    fn vocabulary(&self) -> Option<String> {
        None
    }

    /// Notes on how the data were read, one line each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The file of its data, if a run keeps a copy of it; `None` if it does not.
    fn kept_data(&self) -> Option<&Path> {
        None
    }

    /// As [`evaluate`](Learner::evaluate), on other data than those of the run; `None` if it judges no others.
    fn evaluate_on(
        &self,
        _data: &Path,
        _purpose: Purpose,
        _step: u64,
    ) -> Option<Result<Row, LabError>> {
        None
    }

    /// A held-out recording, by its number from 1, as input for a filter, `[steps, numbers]`; `None` if the task has no
    /// recordings.
    fn recording(&self, _number: usize) -> Option<Result<Vec<f32>, LabError>> {
        None
    }

    /// A picture of the observations, the predictions and how surprising the observations were; `None` if they cannot
    /// be drawn.
    fn draw_filtered(&self, _sequence: &FilteredSequence) -> Option<Result<Image, LabError>> {
        None
    }

    /// A walk in the world that the model remembers, after it memorised a walk of its own; in a held-out world, or in
    /// `picture`. `None` if the model does not walk.
    fn walker(
        &self,
        _seed: u64,
        _picture: Option<&Path>,
    ) -> Option<Result<Box<dyn Walker>, LabError>> {
        None
    }

    /// Answers a question about a held-out scene; `None` if the model does not answer questions.
    fn answers(&self, _question: &Question) -> Option<Result<Answered, LabError>> {
        None
    }

    /// A forecast of the steps that follow; `None` if the model does not forecast.
    fn forecast(&self, _ask: &Ask) -> Option<Result<Forecast, LabError>> {
        None
    }

    /// The model as a filter of a table's rows; `None` if it does not model tables.
    fn rows(&self, _ask: &RowAsk) -> Option<Result<Box<dyn RowFilter>, LabError>> {
        None
    }

    /// The model as an online filter, whose samples are drawn under `seed`; `None` for a model that does not filter.
    fn online(&self, _seed: u64) -> Option<Box<dyn OnlineFilter>> {
        None
    }
}

/// What goes on step by step and is seen as a picture: a walk in a world that a model remembers, or an episode.
pub trait Walker: Send {
    /// A letter for each action, and its name.
    fn keys(&self) -> Vec<(char, &'static str)>;

    /// Takes an action.
    fn step(&mut self, action: usize) -> Result<(), LabError>;

    /// The last step in words, one line.
    fn words(&self) -> String;

    /// What is seen; of a walk what the model imagines beside what is there, and a map below. A pixel of a frame is at
    /// least `zoom` pixels wide.
    fn picture(&self, zoom: usize) -> Result<Image, LabError>;

    /// What the picture shows, one line.
    fn caption(&self) -> &'static str {
        "left: imagined from memory; right: the world; below: what was stored where"
    }

    /// Whether an episode has just ended.
    fn over(&self) -> bool {
        false
    }

    /// Whether each step is decided by the model, so that it goes on without a key.
    fn moves_by_itself(&self) -> bool {
        false
    }
}

/// A question about a scene: what does it look like from views that were not seen?
#[derive(Clone, Debug)]
pub struct Question {
    /// The views that the model sees: numbers from 1 and ranges (`1,2,12`, `1-6`), or `none`.
    pub context: String,
    /// The views that it is asked for: the same, or `all`, `around` or `around:N`.
    pub at: String,
    /// The held-out scene, counted from 1.
    pub scene: u64,
    /// Seed of the scene and of the samples.
    pub seed: u64,
    /// Samples, at least 1. A consistent model draws one scene for each, whatever is asked for.
    pub samples: usize,
}

/// A sequence after filtering.
pub struct FilteredSequence {
    /// The observations, `[steps, numbers]`; NaN at steps without a usable one.
    pub observations: Vec<f32>,
    /// The filter's output at each step.
    pub beliefs: Vec<FilteredStep>,
}

/// What a model generates.
pub struct Drawn {
    /// The picture.
    pub picture: Image,
    /// Steps of its sequences.
    pub time: usize,
    /// Sound: the extension of the file's name, and its bytes.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Drawn {
    /// A picture of sequences with `time` steps.
    pub fn picture(picture: Image, time: usize) -> Self {
        Self {
            picture,
            time,
            files: Vec::new(),
        }
    }
}

/// What a report shows of a run, apart from the model.
pub struct Shown<'a> {
    /// The experiment as resolved.
    pub experiment: &'a Experiment,
    /// The evaluation of the model as it is.
    pub evaluation: &'a Row,
    /// The logged rows.
    pub metrics: &'a [Row],
    /// The machine's rows.
    pub machine: &'a [Row],
    /// The short evaluations at checkpoints.
    pub held_out: &'a [Row],
    /// Folder for pictures.
    pub samples: &'a Path,
}
