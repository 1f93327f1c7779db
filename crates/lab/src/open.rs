//! Opening an experiment or a run: data, model, threads.

use crate::{
    Answered, Experiment, LabError,
    experiment::family::{FilteredSequence, Found, Gallery, Question, Walker},
    families::tables::{
        Adapted, Ask, Fields, FilteredRow, Forecast, RefusedRow, RowAsk, RowFilter,
    },
    kept::kept,
    memory_use::check as check_memory,
    pictures::{self, write_picture},
};
use burn::tensor::Device;
use mnemora_memory::Count;
use mnemora_training::{
    Error, Measures, Purpose, Quantity, Row,
    arrays::Arrays,
    checkpoint::{self, Checkpoint, State},
    device::is_processor,
    memory_use::{MemoryUse, Planned, in_words},
    online::{FilterState, FilteredStep, Observed, OnlineFilter},
    run::{EXPERIMENT_FILE, Origin, experiment_text, read_origin},
    say::note,
    threads::Threads,
};
use std::{
    io::ErrorKind,
    path::Path,
    sync::{Mutex, PoisonError},
};
use toml::{Table, Value};

/// Reads the experiment of a run, with overrides.
pub fn read_experiment(directory: &Path, overrides: &[String]) -> Result<Experiment, LabError> {
    let text = experiment_text(directory)?;
    let path = directory.join(EXPERIMENT_FILE).display().to_string();
    let written = text.parse::<Table>().unwrap_or_default();
    let said = |key| written.get("filtering").and_then(|table| table.get(key));
    // Before this was a setting, an inference network learned after each step.
    let iterative = said("strategy").and_then(Value::as_str) == Some("iterative");
    let online =
        (iterative && said("online").is_none()).then(|| "filtering.online=true".to_owned());
    let overrides: Vec<String> = online
        .into_iter()
        .chain(overrides.iter().cloned())
        .collect();
    Experiment::parse(&text, &path, &overrides)
}

/// What an experiment would train, without training it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configuration, including the fingerprint of the data.
    pub experiment: Experiment,
    /// Trainable numbers: first of the whole model, then of its parts by name.
    pub parameters: Vec<(String, usize)>,
    /// The memory that training takes.
    pub memory: MemoryUse,
    /// The data, in words.
    pub data: String,
}

/// The thread pool that the experiment asks for.
pub(crate) fn threads_of(experiment: &Experiment) -> Result<Threads, LabError> {
    Ok(Threads::so_many(experiment.training.threads)?)
}

/// Reads the data of an experiment and makes a fresh learner on `device`, an autodiff device for training. Also returns
/// a description of the data.
///
/// # Errors
/// If the data are missing, the model does not fit them, or everything together takes more memory than there is.
pub fn prepare(
    experiment: &mut Experiment,
    data: Option<&Path>,
    device: &Device,
) -> Result<(String, Box<dyn Gallery>), LabError> {
    let family = experiment.family();
    // On a graphics card the tensors have their own memory, whose size is not known here.
    let taken = |memory: MemoryUse| match (is_processor(device), device.is_autodiff()) {
        (true, true) => memory.total(),
        (true, false) => memory.of_looking(),
        (false, _) => memory.data + memory.batches + memory.checkpoint,
    };
    // For clips, a key sets how much they may take.
    check_memory(experiment, |experiment| {
        let planned = family.planned_before_reading(experiment);
        let planned = planned.and_then(Result::ok);
        Ok(planned.map_or(Count::NONE, |planned| taken(planned.memory)))
    })?;
    let found = find(experiment, data)?;
    check_memory(experiment, |experiment| {
        found
            .planned(experiment)
            .map(|planned| taken(planned.memory))
    })?;
    let words = found.words();
    Ok((words, found.learner(experiment, device)?))
}

/// As [`prepare`], for a run: of the copy of its data that it keeps, if no others are named.
pub(crate) fn prepare_run(
    run: &Path,
    experiment: &mut Experiment,
    data: Option<&Path>,
    device: &Device,
) -> Result<Box<dyn Gallery>, LabError> {
    let copy = kept(run, experiment).filter(|_| data.is_none());
    let named = experiment.data.directory.clone();
    let (_, learner) = prepare(experiment, data.or(copy.as_deref()), device)?;
    if copy.is_some() {
        experiment.data.directory = named;
    }
    Ok(learner)
}

/// The data of an experiment, read from `data` if they are named.
///
/// # Errors
/// If they cannot be read or are not those of the run, or if data are named for a task that reads none.
pub(crate) fn find(
    experiment: &mut Experiment,
    data: Option<&Path>,
) -> Result<Box<dyn Found>, LabError> {
    let found = experiment.family().find(experiment, data)?;
    match data.filter(|_| !experiment.family().has_data(experiment)) {
        None => Ok(found),
        Some(path) => Err(LabError::Configuration(format!(
            "--data is {}, but the task {} reads no data",
            path.display(),
            experiment.task.name.as_str()
        ))),
    }
}

/// Describes what would be trained. Reads the data, but builds no model.
pub fn plan(mut experiment: Experiment, data: Option<&Path>) -> Result<Plan, LabError> {
    let found = find(&mut experiment, data)?;
    found.check(&experiment)?;
    let Planned { parameters, memory } = found.planned(&experiment)?;
    Ok(Plan {
        parameters: in_words(parameters),
        memory,
        data: found.words(),
        experiment,
    })
}

/// Reports on standard error which checkpoints are damaged and which one is used.
pub(crate) fn report_damage(problems: &[String], step: u64) {
    for problem in problems {
        note(format_args!(
            "mnemora: {problem}; using checkpoint step-{step}"
        ));
    }
}

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
}

impl Trained {
    /// The model as an online filter.
    ///
    /// # Errors
    /// If the task is `copy`, `nth-farthest`, `programs` or a text, whose models have no latents, or if the posterior
    /// uses later observations (`network.srnn.smoothing`).
    pub fn online(&self, seed: u64) -> Result<Box<dyn OnlineFilter>, LabError> {
        let filter = self.ask(|learner| Ok(learner.online(seed)))?;
        let threads = self.threads.clone();
        let filter = filter
            .map(|filter| -> Box<dyn OnlineFilter> { Box::new(OnThreads { threads, filter }) });
        filter.ok_or_else(|| {
            let why = match self.experiment.network.srnn.smoothing {
                true => "its posterior uses later observations (network.srnn.smoothing)",
                false => "it has no latents",
            };
            let task = self.experiment.task.name.as_str();
            LabError::Configuration(format!(
                "a model of the task {task} cannot be used as a filter: {why}"
            ))
        })
    }
}

impl Trained {
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

/// The choice of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one that the training evaluated: the best with `training.patience`, otherwise the last.
    Usual,
    /// The newest intact one.
    Last,
    /// The best on held-out sequences: see [`State::best_step`].
    Best,
    /// The one after this many updates.
    Step(u64),
}

impl Which {
    /// The same, where the usual one is named.
    pub(crate) fn settled(self, experiment: &Experiment) -> Self {
        match (self, experiment.training.patience) {
            (Self::Usual, 0) => Self::Last,
            (Self::Usual, _) => Self::Best,
            (which, _) => which,
        }
    }
}

impl std::str::FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "usual" => Ok(Self::Usual),
            "last" => Ok(Self::Last),
            "best" => Ok(Self::Best),
            step => step
                .parse()
                .map(Self::Step)
                .map_err(|_| "expected usual, last, best or a number of updates".to_owned()),
        }
    }
}

/// Opens a run without locking it, so that a run in training can be looked at. The model is put on `device`.
pub fn open(
    directory: &Path,
    which: Which,
    overrides: &[String],
    data: Option<&Path>,
    device: &Device,
) -> Result<Trained, LabError> {
    let before = read_experiment(directory, &[])?;
    let mut experiment = read_experiment(directory, overrides)?;
    let measured_by = experiment.family().measured_by();
    let may_change = |key: &str| key.starts_with("evaluation.") || measured_by.contains(&key);
    if let Some(key) = before.first_change(&experiment, may_change)? {
        let elsewhere = match key.starts_with("agents.environment.") {
            true => format!(
                "; to try the agent in another environment, make a run with its weights: mnemora train {} --memory {} --weights {} \
                 --set training.steps=0 --set {key}=VALUE",
                before.name,
                before.model.memory.as_str(),
                directory.display()
            ),
            false => String::new(),
        };
        let own: String = measured_by.iter().map(|key| format!(", {key}")).collect();
        return Err(LabError::Configuration(format!(
            "{key} cannot change after training; --set may only change keys of evaluation{own}{elsewhere}"
        )));
    }
    experiment.refuse_unread(overrides)?;
    let threads = threads_of(&experiment)?;
    let learner = threads.run(|| prepare_run(directory, &mut experiment, data, device))?;
    with_weights(directory, which, experiment, threads, learner)
}

/// Opens a run to evaluate it. Also returns the data to judge, if they are others than the run's own: see
/// [`Trained::evaluate_on`].
pub fn open_to_judge<'a>(
    directory: &Path,
    which: Which,
    overrides: &[String],
    data: Option<&'a Path>,
    device: &Device,
) -> Result<(Trained, Option<&'a Path>), LabError> {
    let experiment = read_experiment(directory, overrides)?;
    let own =
        kept(directory, &experiment).is_some() || Path::new(&experiment.data.directory).exists();
    let (data, judged) = match own && experiment.family().judges_other_data() {
        true => (None, data),
        false => (data, None),
    };
    let trained = open(directory, which, overrides, data, device)?;
    Ok((trained, judged))
}

/// Opens a run to use it as a filter. Data are not needed if the run has recorded what a step of them is.
pub fn open_to_filter(
    directory: &Path,
    which: Which,
    data: Option<&Path>,
    device: &Device,
) -> Result<Trained, LabError> {
    let experiment = read_experiment(directory, &[])?;
    let family = experiment.family();
    let (Some(found), None) = (family.described(&experiment), data) else {
        return open(directory, which, &[], data, device);
    };
    let threads = threads_of(&experiment)?;
    if is_processor(device) {
        check_memory(&experiment, |experiment| {
            let memory = found.planned(experiment)?.memory;
            Ok(memory.parameters + memory.checkpoint)
        })?;
    }
    let learner = threads.run(|| found.learner(&experiment, device))?;
    with_weights(directory, which, experiment, threads, learner)
}

/// Loads the weights of one of a run's checkpoints into a learner.
fn with_weights(
    directory: &Path,
    which: Which,
    experiment: Experiment,
    threads: Threads,
    mut learner: Box<dyn Gallery>,
) -> Result<Trained, LabError> {
    let found = to_look_at(
        directory,
        which.settled(&experiment),
        experiment.family().quantities(),
    )?;
    let state = found.state.clone();
    state.check(directory, &experiment.label(), experiment.seed)?;
    found.check_vocabulary(directory, learner.vocabulary().as_deref())?;
    let path = checkpoint::weights_file(directory, state.step);
    learner.restore(found.snapshot, &path)?;
    // A copy of a run may lack its vocabulary.
    let origin = match read_origin(directory) {
        Err(Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Origin::default()
        }
        origin => origin?,
    };
    state.check_identity(directory, &origin)?;
    Ok(Trained {
        experiment,
        learner: Mutex::new(learner),
        threads,
        state,
    })
}

/// Reads a checkpoint to look at its model. The newest state says which one is the best.
pub(crate) fn to_look_at(
    directory: &Path,
    which: Which,
    quantities: &[Quantity],
) -> Result<Checkpoint, Error> {
    let step = match which {
        Which::Usual | Which::Last => {
            // The checkpoint from which training would resume, so its optimiser state must be intact.
            let (mut found, problems) = checkpoint::load_latest(directory)?;
            report_damage(&problems, found.state.step);
            found.snapshot.optimiser.clear();
            found.snapshot.carried.clear();
            return Ok(found);
        }
        Which::Best => {
            let (state, problems) = checkpoint::latest_state(directory)?;
            let step = state.best_step(quantities).unwrap_or(state.step);
            report_damage(&problems, step);
            step
        }
        Which::Step(step) => step,
    };
    let steps = checkpoint::steps(directory);
    if !steps.contains(&step) {
        let there = match steps.is_empty() {
            true => String::new(),
            false => {
                let steps: Vec<String> = steps.iter().map(u64::to_string).collect();
                let steps = steps.join(", ");
                format!(" of step {step}; those of these steps can be used: {steps}")
            }
        };
        return Err(Error::NoCheckpoint {
            directory: directory.to_owned(),
            detail: there,
        });
    }
    checkpoint::load_weights(directory, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelName, load_experiment, shipped};
    use mnemora_training::{Snapshot, arrays::Array, device::light_device};
    use std::fs;

    const BOUND: [Quantity; 1] = [Quantity::new("bound", "bound", "nats")];

    /// Compares the plan with the built model, parameter by parameter. Returns whether there were data.
    fn compare(preset: &str, settings: &[String]) -> bool {
        let mut experiment = load_experiment(preset, settings).unwrap();
        let found = match experiment.family().find(&mut experiment, None) {
            Ok(found) => found,
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("--data"), "{preset}: {said}");
                return false;
            }
        };
        let planned = found.planned(&experiment).unwrap();
        let device = light_device().unwrap();
        let learner = found.learner(&experiment, &device.autodiff()).unwrap();
        assert_eq!(planned.memory.parameters, planned.parameters[0].1 * 4);
        let counted = in_words(planned.parameters);
        assert_eq!(counted, learner.sizes(), "{preset} {settings:?}");
        true
    }

    /// The planned number of parameters is that of the built model: for every experiment that comes with its data, and
    /// for small ones with every memory.
    #[test]
    fn what_is_planned_is_what_is_built() {
        let mut compared = 0;
        for preset in shipped() {
            let experiment = preset.experiment(&[]).unwrap();
            let small = preset.name.ends_with("-small") || preset.name == "copy";
            let own = experiment.model.memory;
            let memories = experiment.memories();
            let settings: Vec<Vec<String>> = match experiment.model.name {
                ModelName::Gtmm => memories
                    .filter(|memory| small || *memory == own)
                    .map(|memory| vec![format!("model.memory={}", memory.as_str())])
                    .collect(),
                _ => vec![vec![]],
            };
            for settings in settings {
                compared += usize::from(compare(preset.name, &settings));
            }
        }
        assert!(compared >= 60, "{compared}");
        for (preset, settings) in [
            ("perfect-recall-small", &["model.visual=inception"][..]),
            (
                "perfect-recall-small",
                &["filtering.strategy=iterative", "filtering.hidden=9"],
            ),
            (
                "perfect-recall-small",
                &[
                    "model.prior_hidden=0",
                    "model.memory=lru",
                    "memory.lru.nearest=2",
                ],
            ),
            ("jsb-chorales-small", &["model.name=vrnn"]),
            (
                "jsb-chorales-small",
                &["model.name=gtmm", "model.memory=rmc"],
            ),
            (
                "jsb-chorales-small",
                &["network.srnn.smoothing=true", "filtering.strategy=direct"],
            ),
            (
                "video-small",
                &["network.svg.network=vgg", "network.svg.prior=fixed"],
            ),
            (
                "nth-farthest-small",
                &["memory.rmc.gates=none", "model.head_layers=0"],
            ),
            (
                "copy",
                &[
                    "model.memory=dnc",
                    "memory.dnc.controller=feed-forward",
                    "memory.dnc.layers=3",
                ],
            ),
        ] {
            let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
            assert!(compare(preset, &settings));
        }
    }

    /// Finding the best checkpoint does not read the newest one's arrays, and loading it does not read its optimiser
    /// state.
    #[test]
    fn only_what_is_looked_at_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        let mut state = State::default();
        for (step, bound) in [(1, -5.0), (2, -1.0), (3, -3.0)] {
            state.step = step;
            state.held_out.push(Row {
                step,
                measures: Measures::new().with("bound", bound),
            });
            let array = Array {
                shape: vec![1],
                values: vec![step as f32],
            };
            let arrays: Arrays = [("a".to_owned(), array)].into();
            let checkpoint = Checkpoint {
                state: state.clone(),
                snapshot: Snapshot {
                    model: arrays.clone(),
                    optimiser: arrays,
                    ..Snapshot::default()
                },
            };
            checkpoint::save(run, &checkpoint).unwrap();
        }
        let remove = |step, name| fs::remove_file(checkpoint::directory(run, step).join(name));
        let found = |which| {
            let Checkpoint { state, snapshot } = to_look_at(run, which, &BOUND).unwrap();
            assert_eq!(snapshot.model["a"].values, [state.step as f32]);
            state.step
        };
        remove(2, "optimizer.safetensors").unwrap();
        remove(3, "optimizer.safetensors").unwrap();
        assert_eq!(found(Which::Step(3)), 3);
        remove(3, "weights.safetensors").unwrap();
        assert_eq!(found(Which::Best), 2);
        assert_eq!(found(Which::Step(2)), 2);
        // `last` means one from which training could resume; a checkpoint that is named is not skipped.
        assert_eq!(found(Which::Last), 1);
        let error = to_look_at(run, Which::Step(3), &BOUND).unwrap_err();
        assert!(error.to_string().contains("weights.safetensors"), "{error}");
        let error = to_look_at(run, Which::Step(4), &BOUND).unwrap_err();
        assert!(error.to_string().contains("1, 2, 3"), "{error}");
    }
}
