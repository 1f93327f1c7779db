//! What an experiment or a run needs before anything is done with it: data, task, model, threads.

use crate::{
    Experiment, LabError,
    checkpoint::{self, Checkpoint, State},
    config::{TaskImages, TaskKind},
    copy::{self, CopyLearner},
    device::is_processor,
    evaluate::{EVALUATION, Evaluation},
    language::{self, LanguageLearner},
    learner::{FilteredSequence, Learner},
    memory_use::{MemoryUse, Planned, check as check_memory, in_words},
    nth_farthest::{self, NthFarthestLearner},
    online::{Belief, Observed, OnlineFilter},
    present::write_png,
    programs::{self, ProgramLearner},
    recordings::{self, Source},
    run::{Origin, read_experiment, read_origin},
    say::note,
    threads::Threads,
    trainer::{self, FrameLearner, task},
    weights::Arrays,
};
use burn::tensor::Device;
use mnemora_memory::Count;
use mnemora_worlds::{DATA_VARIABLE, DataSet, Mnist, Omniglot, Task, Text};
use std::{
    io::ErrorKind,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// What an experiment would train, without training it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configuration, data fingerprint filled in.
    pub experiment: Experiment,
    /// Trainable numbers, whole model first, then its parts by name.
    pub parameters: Vec<(String, usize)>,
    /// What training it takes.
    pub memory: MemoryUse,
    /// The data, in words.
    pub data: String,
}

/// Finds the data of an experiment and writes down which they are.
fn resolve_data(
    experiment: &mut Experiment,
    data: Option<&Path>,
) -> Result<Arc<DataSet>, LabError> {
    let configured = &experiment.data.directory;
    let path = data.or((!configured.is_empty()).then(|| Path::new(configured)));
    let found = match experiment.task.name.images() {
        Some(TaskImages::Digits) => Mnist::find(path, experiment.data.limits())?,
        Some(TaskImages::Characters) => Omniglot::find(path, experiment.data.limits())?,
        None => {
            return Err(LabError::Configuration(format!(
                "the task {} does not compose sequences of images",
                experiment.task.name.as_str()
            )));
        }
    };
    let expected = &experiment.data.fingerprint;
    if !expected.is_empty() && expected != found.fingerprint() {
        let variable = match std::env::var_os(DATA_VARIABLE) {
            Some(_) if path.is_none() => format!(" through {DATA_VARIABLE}"),
            _ => String::new(),
        };
        return Err(LabError::Configuration(format!(
            "the images found{variable} ({}) are not those the run was made with; name their folder \
             with --data, or unset {DATA_VARIABLE} for those that come with mnemora",
            found.origin()
        )));
    }
    if let mnemora_worlds::Origin::Folder(folder) = found.origin() {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        experiment.data.directory = folder.display().to_string();
    }
    experiment.data.fingerprint = found.fingerprint().to_owned();
    Ok(Arc::new(found))
}

/// The task of an experiment of frames, over its data.
pub(crate) fn resolve_task(
    experiment: &mut Experiment,
    data: Option<&Path>,
) -> Result<Arc<dyn Task>, LabError> {
    let data = resolve_data(experiment, data)?;
    task(experiment, data)
}

/// What the sequences of an experiment are made from.
enum Data {
    /// Nothing but random numbers, in words.
    Random(&'static str),
    Images(Arc<DataSet>),
    Recordings(Source),
    Text(Text),
}

impl Data {
    /// The data of an experiment; writes down which they are.
    fn find(experiment: &mut Experiment, path: Option<&Path>) -> Result<Self, LabError> {
        Ok(match experiment.task.name.kind() {
            TaskKind::Copy => Self::Random("random bits"),
            TaskKind::Classes => Self::Random("random vectors"),
            TaskKind::Programs => Self::Random("random programs"),
            TaskKind::Frames => Self::Images(resolve_data(experiment, path)?),
            TaskKind::Recordings => Self::Recordings(Source::find(experiment, path)?),
            TaskKind::Words => Self::Text(language::find(experiment, path)?),
        })
    }

    fn words(&self) -> String {
        match self {
            Self::Random(words) => (*words).to_owned(),
            Self::Images(data) => format!("{}: {}", data.name(), data.origin()),
            Self::Recordings(source) => source.words(),
            Self::Text(text) => language::words(text),
        }
    }

    /// What is planned for the experiment, or for one that differs from it in a size.
    fn planner<'a>(&'a self, experiment: &Experiment) -> Result<Planner<'a>, LabError> {
        Ok(match self {
            Self::Random(_) => match experiment.task.name.kind() {
                TaskKind::Copy => Box::new(copy::planned),
                TaskKind::Classes => Box::new(nth_farthest::planned),
                TaskKind::Programs => Box::new(programs::planned),
                kind => return Err(not_random(kind)),
            },
            Self::Images(data) => Box::new(move |experiment| {
                let task = task(experiment, data.clone())?;
                trainer::planned(experiment, task.as_ref(), data)
            }),
            Self::Recordings(source) => Box::new(recordings::plan(experiment, source)?),
            Self::Text(text) => Box::new(move |experiment| language::planned(experiment, text)),
        })
    }

    /// Refuses data that a model cannot be trained on.
    fn check(&self, experiment: &Experiment) -> Result<(), LabError> {
        match self {
            Self::Random(_) | Self::Images(_) => Ok(()),
            Self::Recordings(source) => recordings::check(experiment, source),
            Self::Text(text) => language::check(experiment, text),
        }
    }

    fn learner(
        self,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Learner>, LabError> {
        Ok(match self {
            Self::Random(_) => match experiment.task.name.kind() {
                TaskKind::Copy => Box::new(CopyLearner::new(experiment, device)?),
                TaskKind::Classes => Box::new(NthFarthestLearner::new(experiment, device)?),
                TaskKind::Programs => Box::new(ProgramLearner::new(experiment, device)?),
                kind => return Err(not_random(kind)),
            },
            Self::Images(data) => Box::new(FrameLearner::new(experiment, data, device)?),
            Self::Recordings(source) => recordings::learner(experiment, source, device)?,
            Self::Text(text) => Box::new(LanguageLearner::new(experiment, text, device)?),
        })
    }
}

/// A task whose sequences are made from data has no learner of random ones.
fn not_random(kind: TaskKind) -> LabError {
    LabError::Configuration(format!("tasks of {kind:?} are not made of random numbers"))
}

/// What an experiment would train.
type Planner<'a> = Box<dyn Fn(&Experiment) -> Result<Planned, LabError> + 'a>;

/// The data of an experiment in words, and a fresh learner on `device`: an autodiff device if it is to learn.
///
/// # Errors
/// There are no such data, the model is not for them, or it all takes more memory than there is.
pub(crate) fn prepare(
    experiment: &mut Experiment,
    data: Option<&Path>,
    device: &Device,
) -> Result<(String, Box<dyn Learner>), LabError> {
    // On a card the tensors have memory of their own, of which nothing is known here.
    let taken = |memory: MemoryUse| match (is_processor(device), device.is_autodiff()) {
        (true, true) => memory.total(),
        (true, false) => memory.of_looking(),
        (false, _) => memory.data + memory.batches + memory.checkpoint,
    };
    // Clips take as much as a key says.
    check_memory(experiment, |experiment| {
        let planned = recordings::planned_before_reading(experiment);
        let planned = planned.and_then(Result::ok);
        Ok(planned.map_or(Count::NONE, |planned| taken(planned.memory)))
    })?;
    let found = Data::find(experiment, data)?;
    let planner = found.planner(experiment)?;
    check_memory(experiment, |experiment| {
        planner(experiment).map(|planned| taken(planned.memory))
    })?;
    drop(planner);
    let words = found.words();
    Ok((words, found.learner(experiment, device)?))
}

/// Says what would be trained. Nothing of it is made but the data.
pub fn plan(mut experiment: Experiment, data: Option<&Path>) -> Result<Plan, LabError> {
    let found = Data::find(&mut experiment, data)?;
    found.check(&experiment)?;
    let Planned { parameters, memory } = found.planner(&experiment)?(&experiment)?;
    Ok(Plan {
        parameters: in_words(parameters),
        memory,
        data: found.words(),
        experiment,
    })
}

/// Says on standard error which checkpoints are damaged and which one is used.
pub(crate) fn report_damage(problems: &[String], step: u64) {
    for problem in problems {
        note(format_args!(
            "mnemora: {problem}; using checkpoint step-{step}"
        ));
    }
}

/// A run opened for looking.
pub struct Trained {
    /// As resolved when the run was made.
    pub experiment: Experiment,
    /// What that checkpoint says.
    pub state: State,
    /// Its task, and its model from one of its checkpoints.
    learner: Mutex<Box<dyn Learner>>,
    threads: Threads,
}

impl Trained {
    /// Asks its learner, on the experiment's own threads.
    pub(crate) fn ask<T: Send>(
        &self,
        question: impl FnOnce(&dyn Learner) -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        self.threads.run(|| {
            let learner = self.learner.lock();
            question(learner.unwrap_or_else(PoisonError::into_inner).as_ref())
        })
    }

    /// Held-out numbers of the model, on as many sequences as the experiment says.
    pub fn evaluate(&self) -> Result<Evaluation, LabError> {
        self.evaluate_experiment(&self.experiment)
    }

    /// The same on other draws of held-out sequences and noise: those of `seed`, where
    /// [`evaluate`](Self::evaluate) takes the experiment's.
    pub fn evaluate_under(&self, seed: u64) -> Result<Evaluation, LabError> {
        let mut experiment = self.experiment.clone();
        experiment.seed = seed;
        let evaluation = self.evaluate_experiment(&experiment)?;
        Ok(Evaluation {
            seed: Some(seed),
            ..evaluation
        })
    }

    /// Whether an evaluation draws anything at random: texts are read from their start.
    pub fn evaluation_draws(&self) -> bool {
        self.experiment.task.name.kind() != TaskKind::Words
    }

    fn evaluate_experiment(&self, experiment: &Experiment) -> Result<Evaluation, LabError> {
        let batches = experiment.evaluation.batches;
        self.ask(|learner| learner.evaluate(experiment, self.state.step, batches, EVALUATION))
    }
}

impl Trained {
    /// The model as a filter that observations are given to as they come.
    ///
    /// # Errors
    /// The task is `copy`, `nth-farthest`, `programs` or a text, whose models have no latents; or beliefs see
    /// what comes after (`network.srnn.smoothing`).
    pub fn online(&self, seed: u64) -> Result<Box<dyn OnlineFilter>, LabError> {
        let filter = self.ask(|learner| Ok(learner.online(seed)))?;
        let threads = self.threads.clone();
        let filter = filter
            .map(|filter| -> Box<dyn OnlineFilter> { Box::new(OnThreads { threads, filter }) });
        filter.ok_or_else(|| {
            let why = match self.experiment.network.srnn.smoothing {
                true => "its beliefs see what comes after (network.srnn.smoothing)",
                false => "it has no latents",
            };
            let task = self.experiment.task.name.as_str();
            LabError::Configuration(format!("a model of the task {task} does not filter: {why}"))
        })
    }
}

impl Trained {
    /// A held-out recording, by its number from 1, as the filter takes it, `[steps, numbers]`.
    ///
    /// # Errors
    /// There is no such recording.
    pub fn recording(&self, number: usize) -> Result<Vec<f32>, LabError> {
        let recording = self.ask(|learner| learner.recording(number).transpose())?;
        recording.ok_or_else(|| {
            LabError::Configuration(format!(
                "the task {} has no recordings; give observations on standard input",
                self.experiment.task.name.as_str()
            ))
        })
    }

    /// Draws what came, what was expected and how surprising it was.
    pub fn draw_filtered(&self, sequence: &FilteredSequence, out: &Path) -> Result<(), LabError> {
        let picture = self.ask(|learner| learner.draw_filtered(sequence).transpose())?;
        let picture = picture.ok_or_else(|| {
            LabError::Configuration(format!(
                "filtering the task {} has no picture",
                self.experiment.task.name.as_str()
            ))
        })?;
        write_png(out, &picture.png_bytes()?)
    }
}

/// A filter that takes its steps on its experiment's own threads.
struct OnThreads {
    threads: Threads,
    filter: Box<dyn OnlineFilter>,
}

impl OnlineFilter for OnThreads {
    fn observed(&self) -> Observed {
        self.filter.observed()
    }

    fn model(&self) -> &str {
        self.filter.model()
    }

    fn step(&mut self, x: &[f32], condition: Option<&[f32]>) -> Result<Belief, String> {
        self.threads.install(|| self.filter.step(x, condition))
    }

    fn skip(&mut self, condition: Option<&[f32]>) -> Result<Belief, String> {
        self.threads.install(|| self.filter.skip(condition))
    }

    fn steps(&self) -> u64 {
        self.filter.steps()
    }

    fn save(&self) -> Arrays {
        self.filter.save()
    }

    fn restore(&mut self, state: Arrays, path: &Path) -> Result<(), LabError> {
        self.threads.run(|| self.filter.restore(state, path))
    }
}

/// Which checkpoint of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The newest that is whole.
    Last,
    /// The best on held-out sequences: see [`State::best_step`].
    Best,
    /// The one after so many updates.
    Step(u64),
}

impl std::str::FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "last" => Ok(Self::Last),
            "best" => Ok(Self::Best),
            step => step
                .parse()
                .map(Self::Step)
                .map_err(|_| "expected last, best or a number of updates".to_owned()),
        }
    }
}

/// Opens a run without taking hold of it, so that one in training can be looked at; its model is
/// put on `device`.
pub fn open(
    directory: &Path,
    which: Which,
    overrides: &[String],
    data: Option<&Path>,
    device: &Device,
) -> Result<Trained, LabError> {
    let before = read_experiment(directory, &[])?;
    let mut experiment = read_experiment(directory, overrides)?;
    if let Some(key) = before.first_change(&experiment, |key| key.starts_with("evaluation."))? {
        return Err(LabError::Configuration(format!(
            "{key} cannot change after training; --set may change keys of evaluation"
        )));
    }
    experiment.refuse_unread(overrides)?;
    let threads = Threads::of(&experiment)?;
    let (_, learner) = threads.run(|| prepare(&mut experiment, data, device))?;
    with_weights(directory, which, experiment, threads, learner)
}

/// Opens a run to filter what comes. Data are not needed where the run knows what a step of them is.
pub fn open_to_filter(
    directory: &Path,
    which: Which,
    data: Option<&Path>,
    device: &Device,
) -> Result<Trained, LabError> {
    let experiment = read_experiment(directory, &[])?;
    let step = experiment.data.step;
    if step.width == 0 || data.is_some() {
        return open(directory, which, &[], data, device);
    }
    let threads = Threads::of(&experiment)?;
    let source = Source::Described(step);
    if is_processor(device) {
        let planner = recordings::plan(&experiment, &source)?;
        check_memory(&experiment, |experiment| {
            let memory = planner(experiment)?.memory;
            Ok(memory.parameters + memory.checkpoint)
        })?;
    }
    let learner = threads.run(|| recordings::learner(&experiment, source, device))?;
    with_weights(directory, which, experiment, threads, learner)
}

/// Gives a learner the weights of one of its run's checkpoints.
fn with_weights(
    directory: &Path,
    which: Which,
    experiment: Experiment,
    threads: Threads,
    mut learner: Box<dyn Learner>,
) -> Result<Trained, LabError> {
    let found = to_look_at(directory, which)?;
    let state = found.state.clone();
    state.check(directory, &experiment)?;
    found.check_vocabulary(directory, learner.as_ref())?;
    let path = checkpoint::weights_file(directory, state.step);
    learner.restore(found.weights, None, &path)?;
    // A model that was given away by hand may have come without.
    let origin = match read_origin(directory) {
        Err(LabError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
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

/// One of a run's checkpoints, to look at its model. Which one is the best, the newest state says.
fn to_look_at(directory: &Path, which: Which) -> Result<Checkpoint, LabError> {
    let step = match which {
        Which::Last => {
            // The one that a training would go on from, whole with its optimiser's state.
            let (found, problems) = checkpoint::load_latest(directory)?;
            report_damage(&problems, found.state.step);
            return Ok(found);
        }
        Which::Best => {
            let (state, problems) = checkpoint::latest_state(directory)?;
            let step = state.best_step().unwrap_or(state.step);
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
                format!(" of step {step}; there is {}", steps.join(", "))
            }
        };
        return Err(LabError::NoCheckpoint {
            directory: directory.to_owned(),
            detail: there,
        });
    }
    checkpoint::load_weights(directory, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checkpoint::HeldOut, config::ModelName, device::light_device, load_experiment, shipped,
        weights::Array,
    };
    use std::fs;

    /// Compares what is planned with what is built, parameter for parameter; whether there were data.
    fn compare(preset: &str, settings: &[String]) -> bool {
        let mut experiment = load_experiment(preset, settings).unwrap();
        let found = match Data::find(&mut experiment, None) {
            Ok(found) => found,
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("--data"), "{preset}: {said}");
                return false;
            }
        };
        let planned = found.planner(&experiment).unwrap()(&experiment).unwrap();
        let device = light_device().unwrap();
        let learner = found.learner(&experiment, &device.autodiff()).unwrap();
        assert_eq!(planned.memory.parameters, planned.parameters[0].1 * 4);
        let counted = in_words(planned.parameters);
        assert_eq!(counted, learner.parameters(), "{preset} {settings:?}");
        true
    }

    /// An outline has as many parameters as the model: for every experiment that comes with its data, with
    /// every memory if it is small.
    #[test]
    fn what_is_planned_is_what_is_built() {
        let mut compared = 0;
        for preset in shipped() {
            let experiment = preset.experiment(&[]).unwrap();
            let small = preset.name.ends_with("-small") || preset.name == "copy";
            let own = experiment.model.memory;
            let memories = experiment.task.name.memories().iter();
            let settings: Vec<Vec<String>> = match experiment.model.name {
                ModelName::Gtmm => memories
                    .filter(|memory| small || **memory == own)
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

    /// The best is found without the newest one's arrays, and is read without its optimiser's state.
    #[test]
    fn only_what_is_looked_at_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        let mut state = State::default();
        for (step, bound) in [(1, -5.0), (2, -1.0), (3, -3.0)] {
            state.step = step;
            state.held_out.push(HeldOut {
                step,
                bound,
                bit_error: None,
                accuracy: None,
                free_energy: None,
            });
            let array = Array {
                shape: vec![1],
                values: vec![step as f32],
            };
            let arrays: Arrays = [("a".to_owned(), array)].into();
            let checkpoint = Checkpoint {
                state: state.clone(),
                weights: arrays.clone(),
                optimizer: arrays,
                vocabulary: None,
            };
            checkpoint::save(run, &checkpoint).unwrap();
        }
        let remove = |step, name| fs::remove_file(checkpoint::directory(run, step).join(name));
        let found = |which| {
            let Checkpoint { state, weights, .. } = to_look_at(run, which).unwrap();
            assert_eq!(weights["a"].values, [state.step as f32]);
            state.step
        };
        remove(2, "optimizer.safetensors").unwrap();
        remove(3, "optimizer.safetensors").unwrap();
        assert_eq!(found(Which::Step(3)), 3);
        remove(3, "weights.safetensors").unwrap();
        assert_eq!(found(Which::Best), 2);
        assert_eq!(found(Which::Step(2)), 2);
        // The last is one that a training could go on from; what is named is not passed over.
        assert_eq!(found(Which::Last), 1);
        let error = to_look_at(run, Which::Step(3)).unwrap_err();
        assert!(error.to_string().contains("weights.safetensors"), "{error}");
        let error = to_look_at(run, Which::Step(4)).unwrap_err();
        assert!(error.to_string().contains("1, 2, 3"), "{error}");
    }
}
