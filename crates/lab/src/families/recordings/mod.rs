//! Generative models of recorded sequences: music, sound, clips, users' own data. Training, and evaluation on whole
//! recordings.

mod figures;
mod look;
mod score;
mod source;
mod tasks;

use self::{
    source::Source,
    tasks::{TASKS, clip_frame},
};
use crate::{
    Experiment, LabError, MemoryName, ModelName,
    curves::{Curves, free_energy_chart},
    experiment::{
        Kind, LikelihoodName,
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, FilteredSequence, Gallery, Shown},
        shipped::{Shipped, presets},
    },
    families::{
        held_out::part,
        image_shape,
        trainer::{BatchTensors, Trainer},
    },
    pictures::Figures,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_figures::{chart::Chart, picture::Image};
use mnemora_memory::Count;
use mnemora_models::{FilteringModel, ImageShape, LikelihoodConfig, Recorded, WithModel};
use mnemora_training::{
    Error, Learner, Measures, Purpose, Quantity, Row, Snapshot, StepFailure,
    arrays::parameters_of,
    device::outline,
    learner::{BATCHES_AHEAD, BATCHES_AT_A_TIME},
    measures::{Better, Claim, Format},
    memory_use::{Parts, Planned, Work, in_words},
    online::{Numbers, Observed, Online, OnlineFilter},
};
use mnemora_worlds::{Part, Prefetch, Scale, SequenceBatch, Stream};
use std::{
    hint::black_box,
    path::Path,
    sync::{Arc, LazyLock},
};

/// The family.
pub struct Recordings;

/// Its memories: recordings come without actions.
static MEMORIES: LazyLock<Vec<MemoryName>> = LazyLock::new(|| {
    let memories = MemoryName::OF_LATENTS.iter().copied();
    memories.filter(|memory| !memory.needs_actions()).collect()
});

/// Its measurements.
const QUANTITIES: [Quantity; 11] = [
    Quantity::new("bound", "bound", "nats per sequence")
        .meaning("reconstruction minus KL, mean over {sequences} held-out sequences, higher is better")
        .spread("bound_stderr", "sequences")
        .better(Better::Higher)
        .column(1)
        .tracked()
        .finite()
        .progress("bound", Format::Digits)
        .checkpoint("bound", Format::Digits)
        .claims(&[Claim::new("bound", "nats per sequence", 1)]),
    Quantity::new("free_energy", "free energy", "nats per step")
        .at("recordings.free_energy")
        .meaning("over {recordings.steps} steps of the {recordings.part} part, lower is better")
        .spread("recordings.free_energy_stderr", "recordings")
        .better(Better::Lower)
        .column(3)
        .tracked()
        .claims(&[Claim::new("free energy", "nats per step", 3)]),
    Quantity::new("free_energy_of_recordings", "free energy, mean over recordings", "nats per step")
        .at("recordings.free_energy_of_recordings")
        .meaning("mean over recordings of each one's free energy per step")
        .better(Better::Lower)
        .column(3)
        .claims(&[Claim::new("free energy of recordings", "nats per step, mean over recordings", 3)]),
    Quantity::new("kl_per_step", "KL per step", "nats per step")
        .at("recordings.kl")
        .meaning("information in an observation that the prior did not predict")
        .column(3)
        .claims(&[Claim::new("KL a step", "nats per step", 3)]),
    Quantity::new("energy_by_round", "round {place}", "nats per step")
        .meaning("free energy after this many rounds of inference; in round 0 the belief is the prior")
        .format(Format::Rows)
        .claims(&[Claim::new("at the prior", "nats per step", 3).first(), Claim::new("after the last round", "nats per step", 3)]),
    Quantity::new("importance_weighted", "importance-weighted", "nats per step")
        .at("recordings.importance_weighted")
        .meaning("minus the bound of {recordings.particles} weighted samples of whole sequences")
        .better(Better::Lower)
        .claims(&[Claim::new("importance-weighted", "nats per step", 3)]),
    Quantity::new("particle_filter", "particle filter", "nats per step")
        .at("recordings.particle_filter")
        .meaning(
            "minus the bound of {recordings.particles} particles, resampled when the effective sample size falls \
             below half",
        )
        .better(Better::Lower)
        .claims(&[Claim::new("particle filter", "nats per step", 3)]),
    Quantity::new("effective_particles", "effective particles", "particles")
        .at("recordings.effective_particles")
        .meaning("mean; resampled after {recordings.resampled%}% of steps"),
    Quantity::new("reconstruction", "reconstruction", "nats per sequence")
        .meaning("log likelihood of the observations given the latents"),
    Quantity::new("kl", "KL", "nats per sequence")
        .meaning("information in the observations that the prior did not predict"),
    Quantity::new("kl_last", "KL of the last step", "nats"),
];

impl Family for Recordings {
    fn name(&self) -> &'static str {
        "recordings"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        let entries = TASKS.iter();
        entries
            .map(|task| {
                TaskEntry {
                    needs_data: task.needs_data,
                    ..TaskEntry::new(task.name, task.about)
                }
                .reads(task.keys.iter().copied())
            })
            .collect()
    }

    fn presets(&self) -> &'static [Shipped] {
        presets![
            "jsb-chorales",
            "jsb-chorales-small",
            "nottingham",
            "muse-data",
            "piano-midi",
            "speech",
            "speech-small",
            "video-small",
            "kth",
        ]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn models(&self) -> &'static [ModelName] {
        ModelName::OF_RECORDINGS
    }

    fn memories(&self) -> &'static [MemoryName] {
        &MEMORIES
    }

    fn has_latents(&self) -> bool {
        true
    }

    fn has_data(&self, _: &Experiment) -> bool {
        true
    }

    fn time(&self, experiment: &Experiment) -> usize {
        experiment.task.window
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        format!("task.window {}", experiment.task.window)
    }

    fn words(&self, experiment: &Experiment) -> String {
        let task = &experiment.task;
        format!("{} with windows of {}", task.name.as_str(), task.window)
    }

    fn numbers(&self, experiment: &Experiment) -> usize {
        clip_frame(experiment).map_or(1, ImageShape::size)
    }

    fn lengthen(&self, experiment: &mut Experiment, steps: usize) {
        experiment.task.window = steps;
    }

    fn planned_before_reading(&self, experiment: &Experiment) -> Option<Result<Planned, LabError>> {
        planned_before_reading(experiment)
    }

    fn find(
        &'static self,
        experiment: &mut Experiment,
        data: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        Ok(Box::new(Source::find(experiment, data)?))
    }

    fn described(&self, experiment: &Experiment) -> Option<Box<dyn Found>> {
        let step = experiment.data.step;
        (step.width > 0).then(|| Box::new(Source::Described(step)) as Box<dyn Found>)
    }

    fn compared(&self, _: &Experiment, curves: &Curves) -> Vec<Chart> {
        vec![free_energy_chart(curves.held_out("free_energy"))]
    }
}

impl Found for Source {
    fn words(&self) -> String {
        Self::words(self)
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        let mut seen = seen(experiment, self)?;
        // Clips are limited by their key; those already read are part of that.
        if let Some(frame) = clip_frame(experiment)
            && frame != seen.frame
        {
            let share = Count::from(frame.size());
            seen.bytes = (seen.bytes * share).divided_by(seen.frame.size());
            seen.frame = frame;
        }
        planned(experiment, &seen)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), LabError> {
        check(experiment, self)
    }

    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError> {
        figures::training_picture(experiment, self)
    }

    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError> {
        learner(experiment, *self, device)
    }
}

/// A model that learns from recordings. Batch norm never sees frames of sequences of different lengths: training
/// sequences are windows of one length.
pub struct RecordingLearner<M> {
    experiment: Experiment,
    source: Arc<Source>,
    trainer: Trainer<M>,
    /// Windows to learn from.
    batches: Prefetch<Result<SequenceBatch, LabError>>,
}

/// What a model needs to know about its data.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Dimensions of a step.
    pub frame: ImageShape,
    /// Of a step.
    pub likelihood: LikelihoodConfig,
    /// Held-out sequences.
    pub held_out: usize,
    /// Steps of the longest held-out sequence.
    pub longest: usize,
    /// Steps of a training sequence.
    pub window: usize,
    /// Bytes of all recordings.
    pub bytes: Count,
}

impl Seen {
    /// For the experiment's network.
    pub fn recorded(&self, experiment: &Experiment) -> Recorded {
        Recorded {
            frame: self.frame,
            likelihood: self.likelihood.clone(),
            latent: experiment.model.latent,
        }
    }
}

/// A fresh learner of the experiment's model on `device`.
pub(crate) fn learner(
    experiment: &Experiment,
    source: Source,
    device: &Device,
) -> Result<Box<dyn Gallery>, LabError> {
    let mut init = experiment.initializer(device);
    let seen = seen(experiment, &source)?;
    let network = experiment
        .network
        .network(experiment.model.name, &seen.recorded(experiment));
    match network {
        None => {
            let config = experiment.model_config(seen.frame, seen.likelihood.clone());
            let memory = experiment.memory_config(&experiment.place(0))?;
            let model = config.init(&memory, &mut init)?;
            Ok(Box::new(RecordingLearner::new(
                experiment, source, model, device,
            )?))
        }
        Some(config) => config.init(&mut init)?.with(IntoLearner {
            experiment,
            source,
            device,
        }),
    }
}

/// Makes a learner of a model.
struct IntoLearner<'a> {
    experiment: &'a Experiment,
    source: Source,
    device: &'a Device,
}

impl WithModel for IntoLearner<'_> {
    type Output = Result<Box<dyn Gallery>, LabError>;

    fn with<M: FilteringModel<State: 'static> + Module + 'static>(self, model: M) -> Self::Output {
        let learner = RecordingLearner::new(self.experiment, self.source, model, self.device)?;
        Ok(Box::new(learner))
    }
}

/// Trainable numbers of a model.
struct Parameters;

impl WithModel for Parameters {
    type Output = Count;

    fn with<M: FilteringModel<State: 'static> + Module + 'static>(self, model: M) -> Count {
        parameters_of(&model)
    }
}

/// The sizes of a source, for the experiment's model.
///
/// # Errors
/// If the model cannot be used with such data.
fn seen(experiment: &Experiment, source: &Source) -> Result<Seen, LabError> {
    if experiment.model.name == ModelName::Svg && source.kind() != Kind::Pixels {
        return Err(LabError::Configuration(format!(
            "model.name is 'svg', which is for clips, but {} has none",
            source.words()
        )));
    }
    Ok(Seen {
        frame: image_shape(source.frame()),
        likelihood: source.likelihood(experiment)?,
        held_out: source.most_held_out(),
        longest: source
            .longest(experiment.task.window)
            .max(experiment.task.window),
        window: experiment.task.window,
        bytes: source.bytes(),
    })
}

/// What training takes, before clips are read: the experiment sets the size of their frames. `None` for other data.
pub(crate) fn planned_before_reading(experiment: &Experiment) -> Option<Result<Planned, LabError>> {
    let seen = Seen {
        frame: clip_frame(experiment)?,
        likelihood: experiment.likelihood_config(0.0, true),
        held_out: usize::MAX,
        longest: experiment.task.window,
        window: experiment.task.window,
        bytes: Count::NONE,
    };
    Some(planned(experiment, &seen))
}

/// Returns an error if the recordings cannot be trained on. Accepts data that are not available, because nothing is
/// known of them.
pub(crate) fn check(experiment: &Experiment, source: &Source) -> Result<(), LabError> {
    if !matches!(source, Source::Described(_)) {
        let stream = Stream::new(experiment.seed, "data");
        source.windows(&stream, 0, 1, experiment.task.window)?;
        if !source.has(Part::Test) && !source.has(Part::Valid) {
            return Err(LabError::Configuration(format!(
                "{} has {} to train on and none to evaluate on; at least 2 sequences are needed, one of them \
                 in the part test or valid",
                source.words(),
                source.count(Part::Train)
            )));
        }
    }
    Ok(())
}

pub(crate) fn planned(experiment: &Experiment, seen: &Seen) -> Result<Planned, LabError> {
    let (numbers, window) = (seen.frame.size(), seen.window);
    let network = experiment
        .network
        .network(experiment.model.name, &seen.recorded(experiment));
    let (footprint, parameters) = match network {
        None => {
            let config = experiment.model_config(seen.frame, seen.likelihood.clone());
            let memory = experiment.memory_config(&experiment.place(0))?;
            let model = config.init(&memory, &mut outline()?)?;
            (model.footprint(numbers, window), parameters_of(&model))
        }
        Some(config) => {
            let model = config.init(&mut outline()?)?;
            (model.footprint(numbers), model.with(Parameters))
        }
    };
    let sizes = [experiment.model.latent, numbers, window];
    // An evaluation batch cannot be larger than the held-out data.
    let mut scored = experiment.clone();
    scored.evaluation.batch = scored.evaluation.batch.min(seen.held_out.max(1));
    let ([learning, looking], inference) =
        scored
            .sizes()
            .filtered(&scored.filtering, &footprint, sizes, seen.longest)?;
    let work = Work {
        learning,
        looking,
        // The data in use are also kept as a tensor.
        batches: Count::product(&[numbers, window, experiment.training.batch])
            * (BATCHES_AT_A_TIME + 1),
        data: seen.bytes,
    };
    Ok(Planned::new(parts(parameters, inference), work))
}

/// Trainable numbers, starting with the whole model; `inference` are those of an inference network.
pub(crate) fn parts(own: Count, inference: Option<Count>) -> Parts {
    match inference {
        None => vec![("model".into(), own)],
        Some(inference) => vec![
            ("model".into(), own + inference),
            ("generative".into(), own),
            ("inference".into(), inference),
        ],
    }
}

impl<M: FilteringModel + Module> RecordingLearner<M> {
    fn new(
        experiment: &Experiment,
        source: Source,
        model: M,
        device: &Device,
    ) -> Result<Self, LabError> {
        let observation = source.frame().size();
        // Errors should show before a run is made.
        check(experiment, &source)?;
        let source = Arc::new(source);
        let stream = Stream::new(experiment.seed, "data");
        let recordings = source.clone();
        let (size, window) = (experiment.training.batch, experiment.task.window);
        Ok(Self {
            batches: Prefetch::new(
                experiment.task.name.as_str(),
                BATCHES_AHEAD,
                move |(), index| recordings.windows(&stream, index, size, window),
            ),
            source,
            trainer: Trainer::new(experiment, model, observation, device.clone())?,
            experiment: experiment.clone(),
        })
    }

    fn window(&self) -> usize {
        self.experiment.task.window
    }
}

/// Observations `[batch, time, numbers]` of a batch.
fn upload(batch: &SequenceBatch, device: &Device) -> Tensor<3> {
    let shape = [batch.batch, batch.time, batch.frame.size()];
    Tensor::from_data(TensorData::new(batch.values.clone(), shape), device)
}

impl<M: FilteringModel + Module + 'static> Learner for RecordingLearner<M>
where
    M::State: 'static,
{
    fn sizes(&self) -> Vec<(String, usize)> {
        let Trainer {
            model, strategy, ..
        } = &self.trainer;
        in_words(parts(parameters_of(model), strategy.parameters()))
    }

    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let batch = self.batches.batch(step - 1, ())??;
        let batch = BatchTensors {
            observations: upload(&batch, &self.trainer.device),
            conditions: None,
        };
        self.trainer.update(step, batch)
    }

    fn deferred(&self) -> bool {
        self.trainer.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        let window = self.window() as f32;
        self.trainer.updates.measured(|terms| {
            let (reconstruction, kl) = (terms[0], terms[1]);
            Measures::new()
                .with("bound", reconstruction - kl)
                .with("reconstruction", reconstruction)
                .with("kl", kl)
                .with("free_energy", (kl - reconstruction) / window)
        })
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let part = part(purpose, |part| self.source.has(part));
        let inference = self.trainer.inference();
        let measures = score::evaluate(&self.experiment, &inference, &self.source, part, purpose)?;
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        self.trainer.snapshot()
    }

    fn restore(&mut self, from: Snapshot, path: &Path) -> Result<(), Error> {
        self.trainer.restore(from, path)
    }
}

impl<M: FilteringModel + Module + 'static> Gallery for RecordingLearner<M>
where
    M::State: 'static,
{
    fn stored(&self) -> Option<usize> {
        self.trainer.model.stored()
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        Found::planned(self.source.as_ref(), experiment)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        black_box(self.batches.make(step - 1, &())?);
        Ok(())
    }

    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        let inference = self.trainer.inference();
        figures::generated(
            &self.experiment,
            &inference,
            &self.source,
            sequences,
            seed,
            steps.unwrap_or(self.window()),
        )
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        let inference = self.trainer.inference();
        figures::figures(&inference, &self.source, shown)
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes(self.window())
    }

    fn recording(&self, number: usize) -> Option<Result<Vec<f32>, LabError>> {
        let part = part(Purpose::Final, |part| self.source.has(part));
        let count = self.source.count(part);
        if !(1..=count).contains(&number) {
            return Some(Err(LabError::Configuration(format!(
                "--recording {number}: the {part} part of {} has 1 to {count}",
                self.source.words()
            ))));
        }
        let batch = self.source.whole(part, &[number - 1], self.window());
        let Scale { mean, deviation } = self.source.scale();
        // Undo the scaling, because the filter scales its input itself.
        let unscaled = |batch: SequenceBatch| {
            let values = batch.values.into_iter();
            values.map(|x| x * deviation + mean).collect()
        };
        Some(batch.map(unscaled))
    }

    fn draw_filtered(&self, sequence: &FilteredSequence) -> Option<Result<Image, LabError>> {
        Some(figures::filtered(&self.source, sequence))
    }

    fn online(&self, seed: u64) -> Option<Box<dyn OnlineFilter>> {
        if self.trainer.model.sees_ahead() {
            return None;
        }
        let inference = self.trainer.inference();
        let observed = Observed {
            frame: self.source.frame(),
            numbers: match self.source.kind() {
                Kind::Notes => Numbers::Notes,
                Kind::Sound => Numbers::Sound,
                Kind::Pixels => Numbers::Pixels,
                Kind::Numbers if self.experiment.model.likelihood == LikelihoodName::Bernoulli => {
                    Numbers::Shares
                }
                Kind::Numbers => Numbers::Any,
            },
            scale: self.source.scale(),
            conditions: 0,
        };
        Some(Box::new(Online::new(
            inference,
            observed,
            &self.snapshot().model,
            seed,
        )))
    }
}
