//! What an experiment or a run needs before anything is done with it: data, task, model, threads.

use crate::{
    Experiment, LabError,
    checkpoint::{self, State},
    config::{TaskKind, TaskName},
    copy::CopyLearner,
    device::light_device,
    evaluate::{EVALUATION, Evaluation},
    language::{self, LanguageLearner},
    learner::{FilteredSequence, Learner},
    nth_farthest::NthFarthestLearner,
    online::OnlineFilter,
    present::write_png,
    programs::ProgramLearner,
    recordings::{self, Source},
    run::{Origin, read_experiment, read_origin},
    say::note,
    trainer::{FrameLearner, task},
};
use burn::tensor::Device;
use mnemora_worlds::{DATA_VARIABLE, DataSet, Mnist, Omniglot, Task};
use std::{io::ErrorKind, path::Path, sync::Arc};

/// What an experiment would train, without training it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configuration, data fingerprint filled in.
    pub experiment: Experiment,
    /// Trainable numbers, whole model first, then its parts by name.
    pub parameters: Vec<(String, usize)>,
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
    let found = match experiment.task.name {
        TaskName::OneShotRecall => Omniglot::find(path, experiment.data.limits())?,
        _ => Mnist::find(path, experiment.data.limits())?,
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

/// The data of an experiment in words, and a fresh learner on `device`.
pub(crate) fn prepare(
    experiment: &mut Experiment,
    data: Option<&Path>,
    device: &Device,
) -> Result<(String, Box<dyn Learner>), LabError> {
    if experiment.task.name == TaskName::Copy {
        let learner = CopyLearner::new(experiment, device)?;
        return Ok(("random bits".into(), Box::new(learner)));
    }
    if experiment.task.name == TaskName::NthFarthest {
        let learner = NthFarthestLearner::new(experiment, device)?;
        return Ok(("random vectors".into(), Box::new(learner)));
    }
    if experiment.task.name == TaskName::Programs {
        let learner = ProgramLearner::new(experiment, device)?;
        return Ok(("random programs".into(), Box::new(learner)));
    }
    if experiment.task.name.kind() == TaskKind::Recordings {
        let source = Source::find(experiment, data)?;
        let words = source.words();
        return Ok((words, recordings::learner(experiment, source, device)?));
    }
    if experiment.task.name.kind() == TaskKind::Words {
        let text = language::find(experiment, data)?;
        let words = language::words(&text);
        let learner = LanguageLearner::new(experiment, text, device)?;
        return Ok((words, Box::new(learner)));
    }
    let data = resolve_data(experiment, data)?;
    let words = format!("{}: {}", data.name(), data.origin());
    let learner = FrameLearner::new(experiment, data, device)?;
    Ok((words, Box::new(learner)))
}

/// Says what would be trained.
pub fn plan(mut experiment: Experiment, data: Option<&Path>) -> Result<Plan, LabError> {
    let device = light_device()?.autodiff();
    let (words, learner) = prepare(&mut experiment, data, &device)?;
    Ok(Plan {
        parameters: learner.parameters(),
        experiment,
        data: words,
    })
}

/// Environment variable that sizes the thread pool, before `training.threads`.
pub const THREADS_VARIABLE: &str = "RAYON_NUM_THREADS";

/// Sizes the process's thread pool as the experiment says. The first experiment of a process
/// decides; the variable `RAYON_NUM_THREADS` goes before all.
pub(crate) fn use_threads(experiment: &Experiment) {
    if std::env::var_os(THREADS_VARIABLE).is_none() {
        // An error means that the pool is there already.
        let _ = rayon::ThreadPoolBuilder::new()
            .num_threads(experiment.training.threads)
            .build_global();
    }
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
    /// Its task, and its model from one of its checkpoints.
    pub(crate) learner: Box<dyn Learner>,
    /// What that checkpoint says.
    pub state: State,
}

impl Trained {
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
        self.learner.evaluate(
            experiment,
            self.state.step,
            experiment.evaluation.batches,
            EVALUATION,
        )
    }
}

impl Trained {
    /// The model as a filter that observations are given to as they come.
    ///
    /// # Errors
    /// The task is `copy`, `nth-farthest`, `programs` or a text, whose models have no latents; or beliefs see
    /// what comes after (`network.srnn.smoothing`).
    pub fn online(&self, seed: u64) -> Result<Box<dyn OnlineFilter>, LabError> {
        self.learner.online(seed).ok_or_else(|| {
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
        self.learner.recording(number).unwrap_or_else(|| {
            Err(LabError::Configuration(format!(
                "the task {} has no recordings; give observations on standard input",
                self.experiment.task.name.as_str()
            )))
        })
    }

    /// Draws what came, what was expected and how surprising it was.
    pub fn draw_filtered(&self, sequence: &FilteredSequence, out: &Path) -> Result<(), LabError> {
        let picture = self.learner.draw_filtered(sequence).unwrap_or_else(|| {
            Err(LabError::Configuration(format!(
                "filtering the task {} has no picture",
                self.experiment.task.name.as_str()
            )))
        })?;
        write_png(out, &picture.png_bytes()?)
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
    use_threads(&experiment);
    let (_, learner) = prepare(&mut experiment, data, device)?;
    with_weights(directory, which, experiment, learner)
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
    use_threads(&experiment);
    let source = Source::Described(step);
    let learner = recordings::learner(&experiment, source, device)?;
    with_weights(directory, which, experiment, learner)
}

/// Gives a learner the weights of one of its run's checkpoints.
fn with_weights(
    directory: &Path,
    which: Which,
    experiment: Experiment,
    mut learner: Box<dyn Learner>,
) -> Result<Trained, LabError> {
    let (last, problems) = checkpoint::load_latest(directory)?;
    if which == Which::Last {
        report_damage(&problems, last.state.step);
    }
    let step = match which {
        Which::Last => last.state.step,
        Which::Best => last.state.best_step().unwrap_or(last.state.step),
        Which::Step(step) => step,
    };
    let found = match step == last.state.step {
        true => last,
        false if checkpoint::steps(directory).contains(&step) => checkpoint::load(directory, step)?,
        false => {
            let steps: Vec<String> = checkpoint::steps(directory)
                .iter()
                .map(u64::to_string)
                .collect();
            return Err(LabError::NoCheckpoint {
                directory: directory.to_owned(),
                detail: format!(" of step {step}; there is {}", steps.join(", ")),
            });
        }
    };
    found.state.check(directory, &experiment)?;
    found.check_vocabulary(directory, learner.as_ref())?;
    let weights = checkpoint::weights_file(directory, step);
    learner.restore(found.weights, None, &weights)?;
    // A model that was given away by hand may have come without.
    let origin = match read_origin(directory) {
        Err(LabError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Origin::default()
        }
        origin => origin?,
    };
    found.state.check_identity(directory, &origin)?;
    Ok(Trained {
        experiment,
        learner,
        state: found.state,
    })
}
