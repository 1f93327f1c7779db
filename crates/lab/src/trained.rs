//! A run opened to look at its model: evaluation, filtering, walks, answers, forecasts.

use crate::{
    Answered, Experiment, LabError,
    experiment::gallery::{FilteredSequence, Gallery, Question, Walker},
    families::tables::{
        Adapted, Ask, Fields, FilteredRow, Forecast, RefusedRow, RowAsk, RowFilter,
    },
    pictures::{self, write_picture},
};
use mnemora_training::{
    Error, Measures, Purpose, Row,
    arrays::Arrays,
    checkpoint::State,
    online::{FilterState, FilteredStep, Observed, OnlineFilter},
    threads::Threads,
};
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

/// A run opened to look at its model.
pub struct Trained {
    /// The experiment as resolved when the run was made.
    pub experiment: Experiment,
    /// The state of the checkpoint.
    pub state: State,
    /// The task, and the model of the checkpoint.
    learner: Mutex<Box<dyn Gallery>>,
    threads: Threads,
}

impl Trained {
    pub(crate) fn new(
        experiment: Experiment,
        state: State,
        learner: Box<dyn Gallery>,
        threads: Threads,
    ) -> Self {
        Self {
            experiment,
            state,
            learner: Mutex::new(learner),
            threads,
        }
    }

    /// Calls the learner on the experiment's own threads.
    pub(crate) fn ask<T: Send>(
        &self,
        question: impl FnOnce(&dyn Gallery) -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        self.threads.run(|| {
            let learner = self.learner.lock();
            question(learner.unwrap_or_else(PoisonError::into_inner).as_ref())
        })
    }

    /// Held-out numbers of the model, on as many sequences as the experiment says.
    pub fn evaluate(&self) -> Result<Row, LabError> {
        self.evaluate_for(Purpose::Final)
    }

    /// As [`evaluate`](Self::evaluate), but draws the held-out sequences and the noise under `seed` instead of the
    /// experiment's seed.
    pub fn evaluate_under(&self, seed: u64) -> Result<Row, LabError> {
        let Row { step, measures } = self.evaluate_for(Purpose::Seeded(seed))?;
        let mut seeded = Measures::new().with("seed", seed);
        seeded.append("", measures);
        Ok(Row {
            step,
            measures: seeded,
        })
    }

    /// Whether an evaluation is random. Texts are read from their start and are not.
    pub fn evaluation_draws(&self) -> bool {
        self.experiment.family().evaluation_draws()
    }

    fn evaluate_for(&self, purpose: Purpose) -> Result<Row, LabError> {
        self.ask(|learner| Ok(learner.evaluate(purpose, self.state.step)?))
    }

    /// Held-out numbers on other data than the run's: those of `data` that the run does not have. Under the experiment's
    /// seed, or another one.
    ///
    /// # Errors
    /// If the model does not judge other data, or these do not fit it.
    pub fn evaluate_on(&self, data: &Path, seed: Option<u64>) -> Result<Row, LabError> {
        let purpose = seed.map_or(Purpose::Final, Purpose::Seeded);
        let step = self.state.step;
        let row = self.ask(|learner| learner.evaluate_on(data, purpose, step).transpose())?;
        row.ok_or_else(|| {
            LabError::Configuration(format!(
                "a model of the task {} is evaluated on the data of its run only",
                self.experiment.task.name.as_str()
            ))
        })
    }

    /// Held-out numbers as the rows of a table.
    pub fn numbers(&self, evaluation: &Row) -> Vec<mnemora_figures::page::Number> {
        pictures::numbers(self.experiment.family().quantities(), evaluation)
    }

    /// Returns an error if the bound or perplexity of an evaluation is not finite: the model has diverged.
    pub fn check_finite(&self, evaluation: &Row) -> Result<(), LabError> {
        match evaluation.non_finite(self.experiment.family().quantities()) {
            None => Ok(()),
            Some((what, value)) => Err(Error::NonFiniteScore {
                what: format!("the held-out {what}"),
                value,
            }
            .into()),
        }
    }

    /// The model as an online filter.
    ///
    /// # Errors
    /// If models of the family do not filter step by step, or if the posterior uses later observations
    /// (`network.srnn.smoothing`).
    pub fn online(&self, seed: u64) -> Result<Box<dyn OnlineFilter>, LabError> {
        let filter = self.ask(|learner| Ok(learner.online(seed)))?;
        let threads = self.threads.clone();
        let filter = filter
            .map(|filter| -> Box<dyn OnlineFilter> { Box::new(OnThreads { threads, filter }) });
        filter.ok_or_else(|| {
            let why = match self.experiment.network.srnn.smoothing {
                true => "its posterior uses later observations (network.srnn.smoothing)".to_owned(),
                false => format!(
                    "models of the family {} do not filter",
                    self.experiment.family().name()
                ),
            };
            let task = self.experiment.task.name.as_str();
            LabError::Configuration(format!(
                "a model of the task {task} cannot be used as a filter: {why}"
            ))
        })
    }

    /// A held-out recording, by its number from 1, as input for the filter, `[steps, numbers]`.
    ///
    /// # Errors
    /// If there is no such recording.
    pub fn recording(&self, number: usize) -> Result<Vec<f32>, LabError> {
        let recording = self.ask(|learner| learner.recording(number).transpose())?;
        recording.ok_or_else(|| {
            LabError::Configuration(format!(
                "the task {} has no recordings; give observations on standard input",
                self.experiment.task.name.as_str()
            ))
        })
    }

    /// A walk in the world that the model remembers: see [`Gallery::walker`](crate::Gallery::walker).
    ///
    /// # Errors
    /// If the model does not walk, or if the picture cannot be walked in.
    pub fn walker(&self, seed: u64, picture: Option<&Path>) -> Result<Box<dyn Walker>, LabError> {
        let walker = self.ask(|learner| learner.walker(seed, picture).transpose())?;
        walker.ok_or_else(|| {
            LabError::Configuration(format!(
                "{}, trained on {}, neither walks nor plays; train image-navigation-small for a model that walks, t-maze-small \
                 for an agent that plays",
                self.experiment.label(),
                self.experiment.task.name.as_str()
            ))
        })
    }

    /// Answers a question about a held-out scene: see [`Gallery::answers`](crate::Gallery::answers).
    ///
    /// # Errors
    /// If the model does not answer questions, or the question does not fit the scene or the model.
    pub fn answers(&self, question: &Question) -> Result<Answered, LabError> {
        let answered = self.ask(|learner| learner.answers(question).transpose())?;
        answered.ok_or_else(|| {
            LabError::Configuration(format!(
                "{}, trained on {}, does not answer questions about scenes; train patterns or prism for a model that does",
                self.experiment.label(),
                self.experiment.task.name.as_str()
            ))
        })
    }

    /// A forecast of the steps that follow the end of each sequence.
    ///
    /// # Errors
    /// If the model does not forecast, or the tables named do not fit it.
    pub fn forecast(&self, ask: &Ask) -> Result<Forecast, LabError> {
        let forecast = self.ask(|learner| learner.forecast(ask).transpose())?;
        forecast.ok_or_else(|| {
            LabError::Configuration(format!(
                "{}, trained on {}, does not forecast; mnemora train FILE.csv makes a model that does",
                self.experiment.label(),
                self.experiment.task.name.as_str()
            ))
        })
    }

    /// The model as a filter of a table's rows; `None` if it does not model tables.
    ///
    /// # Errors
    /// If the run's table does not have what is asked for.
    pub fn rows(&self, ask: &RowAsk) -> Result<Option<Box<dyn RowFilter>>, LabError> {
        let filter = self.ask(|learner| learner.rows(ask).transpose())?;
        let threads = self.threads.clone();
        Ok(filter.map(|filter| -> Box<dyn RowFilter> { Box::new(OnThreads { threads, filter }) }))
    }

    /// Draws the observations, their predictions and how surprising they were.
    pub fn draw_filtered(&self, sequence: &FilteredSequence, out: &Path) -> Result<(), LabError> {
        let picture = self.ask(|learner| learner.draw_filtered(sequence).transpose())?;
        let picture = picture.ok_or_else(|| {
            LabError::Configuration(format!(
                "there is no picture of filtering for the task {}",
                self.experiment.task.name.as_str()
            ))
        })?;
        write_picture(&picture, out)
    }
}

/// A filter that runs on its experiment's own threads.
struct OnThreads<F: ?Sized> {
    threads: Threads,
    filter: Box<F>,
}

impl<F: FilterState + ?Sized> FilterState for OnThreads<F> {
    fn model(&self) -> &str {
        self.filter.model()
    }

    fn steps(&self) -> u64 {
        self.filter.steps()
    }

    fn save(&self) -> Arrays {
        self.filter.save()
    }

    fn restore(&mut self, state: Arrays, path: &Path) -> Result<(), Error> {
        self.threads.run(|| self.filter.restore(state, path))
    }
}

impl OnlineFilter for OnThreads<dyn OnlineFilter> {
    fn observed(&self) -> Observed {
        self.filter.observed()
    }

    fn step(&mut self, x: &[f32], condition: Option<&[f32]>) -> Result<FilteredStep, String> {
        self.threads.install(|| self.filter.step(x, condition))
    }

    fn skip(&mut self, condition: Option<&[f32]>) -> Result<FilteredStep, String> {
        self.threads.install(|| self.filter.skip(condition))
    }
}

impl RowFilter for OnThreads<dyn RowFilter> {
    fn check_names(&self, names: &[String]) -> Result<(), LabError> {
        self.filter.check_names(names)
    }

    fn step(&mut self, row: &Fields) -> Result<FilteredRow, RefusedRow> {
        self.threads.install(|| self.filter.step(row))
    }

    fn adapted(&self) -> Option<Adapted> {
        self.filter.adapted()
    }
}
