//! Generative models of recorded sequences: music, sound, clips, a user's own. Their training step and
//! what they are worth on whole recordings.

mod pictures;
mod score;
mod source;

pub(crate) use self::pictures::training_picture;
pub(crate) use self::source::Source;

use crate::{
    Evaluation, Experiment, LabError,
    adam::{Adam, ParameterGradients},
    config::{
        Kind, LikelihoodName, ModelName, SvgNetworkName, SvgPriorName, SvgSkipsName, TaskName,
    },
    evaluate::{CHECKPOINT_EVALUATION, EVALUATION},
    learner::{Drawn, FilteredSequence, Learner, Shown, StepFailure, Updates},
    memory_use::{Parts, Planned, Work, filtered, in_words, outline},
    online::{Numbers, Observed, Online, OnlineFilter},
    present::Figures,
    run::Metrics,
    strategy::Strategy,
    trainer::{TERMS, terms},
    weights::{Arrays, collect, parameters_of, restore},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_figures::picture::Image;
use mnemora_memory::{AnyMemory, Count, Initializer};
use mnemora_models::{
    FilteringModel, Footprint, FrameShape, Gtmm, LikelihoodConfig, Srnn, SrnnConfig, Svg,
    SvgConfig, SvgNetwork, SvgPrior, SvgSkips, Vrnn, VrnnConfig,
};
use mnemora_worlds::{Part, Scale, SequenceBatch, Stream};
use std::{hint::black_box, path::Path, sync::Arc};

/// A model that learns from recordings. What batch norm does to frames of unequal sequences is not
/// asked for: training sequences are windows of one length.
pub struct RecordingLearner<M> {
    source: Arc<Source>,
    window: usize,
    likelihood: LikelihoodName,
    model: M,
    strategy: Strategy,
    updates: Updates,
    device: Device,
}

/// A model of recorded sequences, whichever the experiment has.
// One value a model: the size of the largest variant costs nothing that matters.
#[allow(clippy::large_enum_variant)]
enum AnyModel {
    Gtmm(Gtmm<AnyMemory>),
    Vrnn(Vrnn),
    Srnn(Srnn),
    Svg(Svg),
}

/// What a model is told of its data.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Dimensions of a step.
    frame: FrameShape,
    likelihood: LikelihoodConfig,
    /// Held-out sequences.
    held_out: usize,
    /// Steps of the longest of them.
    longest: usize,
    /// Bytes of all recordings.
    bytes: Count,
}

impl AnyModel {
    /// The experiment's, with the parameters that `init` makes.
    fn new(experiment: &Experiment, seen: &Seen, init: &mut Initializer) -> Result<Self, LabError> {
        let (frame, likelihood) = (seen.frame, seen.likelihood);
        Ok(match network_config(experiment, frame, likelihood) {
            None => Self::Gtmm(experiment.model_config(frame, 0, likelihood)?.init(init)?),
            Some(NetworkConfig::Vrnn(config)) => Self::Vrnn(config.init(init)?),
            Some(NetworkConfig::Srnn(config)) => Self::Srnn(config.init(init)?),
            Some(NetworkConfig::Svg(config)) => Self::Svg(config.init(init)?),
        })
    }

    /// What learning from windows of `time` steps keeps.
    fn footprint(&self, observation: usize, time: usize) -> Footprint {
        match self {
            Self::Gtmm(model) => model.footprint(observation, time),
            Self::Vrnn(model) => model.footprint(observation),
            Self::Srnn(model) => model.footprint(observation),
            Self::Svg(model) => model.footprint(),
        }
    }

    fn parameters(&self) -> Count {
        match self {
            Self::Gtmm(model) => parameters_of(model),
            Self::Vrnn(model) => parameters_of(model),
            Self::Srnn(model) => parameters_of(model),
            Self::Svg(model) => parameters_of(model),
        }
    }
}

/// A fresh learner of the experiment's model, on `device`.
pub(crate) fn learner(
    experiment: &Experiment,
    source: Source,
    device: &Device,
) -> Result<Box<dyn Learner>, LabError> {
    let stream = Stream::new(experiment.seed, "parameters").at(0);
    let mut init = Initializer::new(stream, device.clone());
    let seen = seen(experiment, &source)?;
    Ok(match AnyModel::new(experiment, &seen, &mut init)? {
        AnyModel::Gtmm(model) => {
            Box::new(RecordingLearner::new(experiment, source, model, device)?)
        }
        AnyModel::Vrnn(model) => {
            Box::new(RecordingLearner::new(experiment, source, model, device)?)
        }
        AnyModel::Srnn(model) => {
            Box::new(RecordingLearner::new(experiment, source, model, device)?)
        }
        AnyModel::Svg(model) => Box::new(RecordingLearner::new(experiment, source, model, device)?),
    })
}

/// What the experiment's model is told of a source.
///
/// # Errors
/// It is not for such data.
fn seen(experiment: &Experiment, source: &Source) -> Result<Seen, LabError> {
    if experiment.model.name == ModelName::Svg && source.kind() != Kind::Pixels {
        return Err(LabError::Configuration(format!(
            "model.name is 'svg', which is for clips; {} has none",
            source.words()
        )));
    }
    let shape = source.frame();
    Ok(Seen {
        frame: FrameShape {
            channels: shape.channels,
            height: shape.height,
            width: shape.width,
        },
        likelihood: source.likelihood(experiment)?,
        held_out: source.most_held_out(),
        longest: source
            .longest(experiment.task.window)
            .max(experiment.task.window),
        bytes: source.bytes(),
    })
}

/// What the experiment's model of a source consists of, and how much memory its training takes; also of
/// experiments that differ from it in a size.
pub(crate) fn plan(
    experiment: &Experiment,
    source: &Source,
) -> Result<impl Fn(&Experiment) -> Result<Planned, LabError> + use<>, LabError> {
    let seen = seen(experiment, source)?;
    let side = experiment.task.side;
    Ok(move |experiment: &Experiment| {
        let mut seen = seen;
        if let Some(frame) = clip_frame(experiment)
            && experiment.task.side != side
        {
            let share = Count::from(frame.size());
            seen.bytes = (seen.bytes * share).divided_by(seen.frame.size());
            seen.frame = frame;
        }
        planned(experiment, &seen)
    })
}

/// The same before clips are read, whose frames are as large as the experiment says; `None` for other data.
pub(crate) fn planned_before_reading(experiment: &Experiment) -> Option<Result<Planned, LabError>> {
    let seen = Seen {
        frame: clip_frame(experiment)?,
        likelihood: experiment.likelihood_config(0.0, true),
        held_out: usize::MAX,
        longest: experiment.task.window,
        bytes: Count::NONE,
    };
    Some(planned(experiment, &seen))
}

/// Numbers of a step as far as they are known before the data are read.
pub(crate) fn expected_numbers(experiment: &Experiment) -> usize {
    clip_frame(experiment).map_or(1, FrameShape::size)
}

/// What the frames of clips are made to be.
fn clip_frame(experiment: &Experiment) -> Option<FrameShape> {
    let channels = match experiment.task.name {
        TaskName::Video if experiment.task.colour => 3,
        TaskName::Video | TaskName::Kth => 1,
        _ => return None,
    };
    let side = experiment.task.side;
    Some(FrameShape {
        channels,
        height: side,
        width: side,
    })
}

/// Refuses recordings that cannot be trained on; of those that are not at hand nothing is known.
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

fn planned(experiment: &Experiment, seen: &Seen) -> Result<Planned, LabError> {
    let model = AnyModel::new(experiment, seen, &mut outline()?)?;
    let (numbers, window) = (seen.frame.size(), experiment.task.window);
    let footprint = model.footprint(numbers, window);
    let sizes = [experiment.model.latent, numbers, window];
    // A batch of an evaluation holds no more than there are.
    let mut scored = experiment.clone();
    scored.evaluation.batch = scored.evaluation.batch.min(seen.held_out.max(1));
    let ([learning, looking], inference) = filtered(&scored, &footprint, sizes, seen.longest)?;
    let work = Work {
        learning,
        looking,
        batches: Count::product(&[2, numbers, window, experiment.training.batch]),
        data: seen.bytes,
    };
    Ok(Planned::new(parts(model.parameters(), inference), work))
}

/// Trainable numbers, whole model first; `inference` are those of an inference network.
fn parts(own: Count, inference: Option<Count>) -> Parts {
    match inference {
        None => vec![("model".into(), own)],
        Some(inference) => vec![
            ("model".into(), own + inference),
            ("generative".into(), own),
            ("inference".into(), inference),
        ],
    }
}

/// The configuration of a model that has no memory beside its recurrent networks.
#[derive(Debug)]
pub(crate) enum NetworkConfig {
    Vrnn(VrnnConfig),
    Srnn(SrnnConfig),
    Svg(SvgConfig),
}

/// The experiment's; `None` for the temporal VAE.
pub(crate) fn network_config(
    experiment: &Experiment,
    frame: FrameShape,
    likelihood: LikelihoodConfig,
) -> Option<NetworkConfig> {
    let latent = experiment.model.latent;
    let observation = frame.size();
    let networks = &experiment.network;
    Some(match experiment.model.name {
        ModelName::Gtmm => return None,
        ModelName::Vrnn => NetworkConfig::Vrnn(VrnnConfig {
            observation,
            latent,
            hidden: networks.vrnn.hidden,
            layers: networks.vrnn.layers,
            observation_units: networks.vrnn.observation_units,
            latent_units: networks.vrnn.latent_units,
            likelihood,
        }),
        ModelName::Srnn => NetworkConfig::Srnn(SrnnConfig {
            observation,
            latent,
            hidden: networks.srnn.hidden,
            units: networks.srnn.units,
            layers: networks.srnn.layers,
            decoder_layers: networks.srnn.decoder_layers,
            smoothing: networks.srnn.smoothing,
            likelihood,
        }),
        ModelName::Svg => NetworkConfig::Svg(svg_config(experiment, frame, likelihood)),
    })
}

fn svg_config(
    experiment: &Experiment,
    frame: FrameShape,
    likelihood: LikelihoodConfig,
) -> SvgConfig {
    let sizes = &experiment.network.svg;
    SvgConfig {
        frame,
        network: match sizes.network {
            SvgNetworkName::Dcgan => SvgNetwork::Dcgan,
            SvgNetworkName::Vgg => SvgNetwork::Vgg,
        },
        width: sizes.width,
        features: sizes.features,
        latent: experiment.model.latent,
        hidden: sizes.hidden,
        predictor_layers: sizes.predictor_layers,
        posterior_layers: sizes.latent_layers,
        prior_layers: sizes.latent_layers,
        embedding: sizes.embedding,
        prior: match sizes.prior {
            SvgPriorName::Learned => SvgPrior::Learned,
            SvgPriorName::Fixed => SvgPrior::Fixed,
        },
        skips: match sizes.skips {
            SvgSkipsName::Observed => SvgSkips::Observed,
            SvgSkipsName::Previous => SvgSkips::Previous,
            SvgSkipsName::First => SvgSkips::First,
            SvgSkipsName::Off => SvgSkips::Off,
        },
        likelihood,
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
        let window = experiment.task.window;
        // Better known before there is a run.
        check(experiment, &source)?;
        Ok(Self {
            source: Arc::new(source),
            window,
            likelihood: experiment.model.likelihood,
            strategy: Strategy::new(experiment, model.latent_size(), observation, device)?,
            model,
            updates: Updates::new(Adam::default(), device),
            device: device.clone(),
        })
    }

    /// The windows from which update `step` learns.
    fn training_batch(
        &self,
        experiment: &Experiment,
        step: u64,
    ) -> Result<SequenceBatch, LabError> {
        let stream = Stream::new(experiment.seed, "data");
        let size = experiment.training.batch;
        self.source.windows(&stream, step - 1, size, self.window)
    }
}

/// Observations `[batch, time, numbers]` of a batch.
fn upload(batch: &SequenceBatch, device: &Device) -> Tensor<3> {
    let shape = [batch.batch, batch.time, batch.frame.size()];
    Tensor::from_data(TensorData::new(batch.values.clone(), shape), device)
}

/// The part of the data for a purpose.
fn part_for(source: &Source, purpose: &str) -> Part {
    let order = match purpose {
        CHECKPOINT_EVALUATION => [Part::Valid, Part::Test],
        _ => [Part::Test, Part::Valid],
    };
    let [first, second] = order;
    match source.has(first) {
        true => first,
        false => second,
    }
}

impl<M: FilteringModel + Module + 'static> Learner for RecordingLearner<M>
where
    M::State: 'static,
{
    fn parameters(&self) -> Vec<(String, usize)> {
        in_words(parts(
            parameters_of(&self.model),
            self.strategy.parameters(),
        ))
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        plan(experiment, &self.source)?(experiment)
    }

    fn weights(&self) -> Arrays {
        let mut weights = collect(&self.model);
        self.strategy.add_weights(&mut weights);
        weights
    }

    fn optimizer(&self) -> Arrays {
        let mut optimizer = self.updates.adam.collect();
        self.strategy.add_optimizer(&mut optimizer);
        optimizer
    }

    fn restore(
        &mut self,
        mut weights: Arrays,
        mut optimizer: Option<Arrays>,
        path: &Path,
    ) -> Result<(), LabError> {
        self.strategy
            .restore(&mut weights, optimizer.as_mut(), path)?;
        self.model = restore(self.model.clone(), weights, path)?;
        if let Some(optimizer) = optimizer {
            self.updates.adam = Adam::restore(optimizer, &self.device.clone().inner(), path)?;
        }
        Ok(())
    }

    fn step(&mut self, experiment: &Experiment, step: u64) -> Result<(), StepFailure> {
        let batch = self.training_batch(experiment, step);
        let batch = batch.map_err(StepFailure::Batch)?;
        let kl_weight = experiment.training.kl_weight(step);
        let observations = upload(&batch, &self.device);
        let filtered =
            self.strategy
                .learn(experiment, &self.model, observations, None, step, kl_weight)?;
        let terms = terms(&filtered);
        let loss = filtered.bound(kl_weight).mean().neg();
        let gradients = ParameterGradients::of(&self.model, loss.backward());
        self.updates
            .make(&mut self.model, experiment, step, gradients, &TERMS, terms)
    }

    fn draw_batch(&self, experiment: &Experiment, step: u64) -> Result<(), LabError> {
        black_box(self.training_batch(experiment, step)?);
        Ok(())
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn metrics(&mut self) -> Result<Option<Metrics>, StepFailure> {
        let window = self.window as f32;
        Ok(self.updates.last()?.map(|made| {
            let (reconstruction, kl) = (made.terms[0], made.terms[1]);
            Metrics {
                step: made.step,
                bound: reconstruction - kl,
                reconstruction: Some(reconstruction),
                kl: Some(kl),
                free_energy: Some((kl - reconstruction) / window),
                gradient_norm: made.gradient_norm,
                learning_rate: made.learning_rate,
                ..Metrics::default()
            }
        }))
    }

    fn evaluate(
        &self,
        experiment: &Experiment,
        step: u64,
        batches: u64,
        purpose: &str,
    ) -> Result<Evaluation, LabError> {
        let part = part_for(&self.source, purpose);
        let at_work = self.strategy.at_work(self.model.valid());
        score::evaluate(
            experiment,
            &at_work,
            &self.source,
            part,
            step,
            batches,
            purpose,
        )
    }

    fn draw(
        &self,
        experiment: &Experiment,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError> {
        let at_work = self.strategy.at_work(self.model.valid());
        pictures::generated(
            experiment,
            &at_work,
            &self.source,
            sequences,
            seed,
            steps.unwrap_or(self.window),
        )
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        let at_work = self.strategy.at_work(self.model.valid());
        pictures::figures(&at_work, &self.source, shown)
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes(self.window)
    }

    fn recording(&self, number: usize) -> Option<Result<Vec<f32>, LabError>> {
        let part = part_for(&self.source, EVALUATION);
        let count = self.source.count(part);
        if !(1..=count).contains(&number) {
            return Some(Err(LabError::Configuration(format!(
                "--recording {number}: the {part} part of {} has 1 to {count}",
                self.source.words()
            ))));
        }
        let batch = self.source.whole(part, &[number - 1], self.window);
        let Scale { mean, deviation } = self.source.scale();
        // The filter scales what it is given itself.
        let unscaled = |batch: SequenceBatch| {
            let values = batch.values.into_iter();
            values.map(|x| x * deviation + mean).collect()
        };
        Some(batch.map(unscaled))
    }

    fn draw_filtered(&self, sequence: &FilteredSequence) -> Option<Result<Image, LabError>> {
        Some(pictures::filtered(&self.source, sequence))
    }

    fn online(&self, seed: u64) -> Option<Box<dyn OnlineFilter>> {
        if self.model.sees_ahead() {
            return None;
        }
        let at_work = self.strategy.at_work(self.model.valid());
        let observed = Observed {
            frame: self.source.frame(),
            numbers: match self.source.kind() {
                Kind::Notes => Numbers::Notes,
                Kind::Sound => Numbers::Sound,
                Kind::Pixels => Numbers::Pixels,
                Kind::Numbers if self.likelihood == LikelihoodName::Bernoulli => Numbers::Shares,
                Kind::Numbers => Numbers::Any,
            },
            scale: self.source.scale(),
            conditions: 0,
        };
        Some(Box::new(Online::new(
            at_work,
            observed,
            &self.weights(),
            seed,
        )))
    }
}
