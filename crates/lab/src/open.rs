//! Opening an experiment or a run: data, model, threads.

use crate::{
    Experiment, LabError, Trained,
    experiment::{
        family::{Found, families},
        gallery::Gallery,
    },
    kept::kept,
    memory_use::check as check_memory,
};
use burn::tensor::Device;
use mnemora_memory::Count;
use mnemora_training::{
    Error, Quantity,
    checkpoint::{self, Checkpoint},
    device::is_processor,
    memory_use::{MemoryUse, Planned, in_words},
    run::{EXPERIMENT_FILE, Origin, experiment_text, read_origin},
    say::note,
    threads::Threads,
};
use std::{io::ErrorKind, path::Path};
use toml::{Table, Value};

/// Reads the experiment of a run, with overrides.
///
/// # Errors
/// If this is not a run, if its experiment was edited or damaged, or is not valid with the overrides.
pub fn read_experiment(directory: &Path, overrides: &[String]) -> Result<Experiment, LabError> {
    let text = experiment_text(directory)?;
    let path = directory.join(EXPERIMENT_FILE).display().to_string();
    check_unedited(directory, &text, &path)?;
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

/// The origin of a run. Without the file nothing is known about it.
fn origin_if_any(directory: &Path) -> Result<Origin, Error> {
    match read_origin(directory) {
        Err(Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(Origin::default())
        }
        origin => origin,
    }
}

/// Checks that `text`, the configuration of a run, is one that the program wrote. A change of comments or order is no edit.
fn check_unedited(directory: &Path, text: &str, path: &str) -> Result<(), LabError> {
    let origin = origin_if_any(directory)?;
    if origin.has_written(text) {
        return Ok(());
    }
    let again = Experiment::parse(text, path, &[])?;
    let again = [again.to_toml()?, again.to_complete_toml()?];
    match again.iter().any(|text| origin.has_written(text)) {
        true => Ok(()),
        false => Err(LabError::Configuration(format!(
            "{path} was damaged, or edited after the run was started, so it is no longer that of the run: undo the change \
             (--set changes keys of training and of evaluation, --data the folder of the data), or train it again under \
             another --out"
        ))),
    }
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
///
/// # Errors
/// If the data cannot be read or are not those of the experiment, or the model does not fit them.
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

/// The choice of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one that the training evaluated: the best with `training.patience`, otherwise the last.
    Usual,
    /// The newest intact one.
    Last,
    /// The best on held-out sequences: see [`State::best_step`](mnemora_training::checkpoint::State::best_step).
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
///
/// # Errors
/// If this is not a run, an override changes more than what is measured, the data or the checkpoint cannot be read or do
/// not fit the model, or everything together takes more memory than there is.
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
        // An override may name another task, so the key may be that of any family.
        let hint = families()
            .into_iter()
            .find_map(|family| family.hint_of_change(&key, directory))
            .unwrap_or_default();
        let own: String = measured_by.iter().map(|key| format!(", {key}")).collect();
        return Err(LabError::Configuration(format!(
            "{key} cannot change after training; --set may only change keys of evaluation{own}{hint}"
        )));
    }
    experiment.refuse_unread(overrides)?;
    let threads = threads_of(&experiment)?;
    let learner = threads.run(|| prepare_run(directory, &mut experiment, data, device))?;
    with_weights(directory, which, experiment, threads, learner)
}

/// Opens a run to evaluate it. Also returns the data to judge, if they are others than the run's own: see
/// [`Trained::evaluate_on`].
///
/// # Errors
/// As [`open`].
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
///
/// # Errors
/// As [`open`].
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
    let origin = origin_if_any(directory)?;
    state.check_identity(directory, &origin)?;
    Ok(Trained::new(experiment, state, learner, threads))
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
    use mnemora_training::{
        Measures, Row, Snapshot,
        arrays::{Array, Arrays},
        checkpoint::State,
        device::light_device,
    };
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
