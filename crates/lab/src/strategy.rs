//! How beliefs about the latents of a model are found: by its own posterior network, by a network
//! that improves beliefs, or by gradients alone; in training and after it.

use crate::{
    Experiment, LabError,
    adam::Adam,
    amortize::Amortizer,
    config::{FilteringSettings, StrategyName},
    learner::{StepFailure, learning_rate},
    memory_use::outline,
    trainer::noise,
    weights::{Array, Arrays, collect, parameters_of, restore},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mnemora_memory::{Bundle, Count, Initializer};
use mnemora_models::{
    Amortized, DiagonalGaussian, Filtered, FilteringModel, Footprint, GradientSteps, Improver,
    InferenceNoise, Inferred, IterativeConfig, IterativeNet, filter, filter_given, infer,
    infer_step, inference::Belief,
};
use mnemora_worlds::Stream;
use std::path::Path;

/// What the inference network's parameters are called in a checkpoint.
const PREFIX: &str = "inference.";
/// Updates that the network has had, in two parts.
const UPDATES: &str = "inference updates";
/// An f32 counts exactly to this.
const PART: u64 = 1 << 24;
/// Draws from here on are those of the free energies inside, where one stream serves these and latents.
const INNER: u64 = 1 << 40;

/// The way of an experiment, with the network that learns along with the model if there is one.
pub struct Strategy {
    settings: FilteringSettings,
    amortizer: Option<Amortizer>,
    latents: Stream,
    inner: Stream,
    device: Device,
}

impl Strategy {
    /// For a model on `device` with latents and observations of so many numbers.
    pub fn new(
        experiment: &Experiment,
        latent: usize,
        observation: usize,
        device: &Device,
    ) -> Result<Self, LabError> {
        let settings = experiment.filtering.clone();
        let seed = experiment.seed;
        let amortizer = match settings.strategy {
            StrategyName::Direct | StrategyName::Gradient => None,
            StrategyName::Iterative => {
                let config = net_config(&settings, latent, observation);
                let stream = Stream::new(seed, "inference parameters").at(0);
                let net = config.init(&mut Initializer::new(stream, device.clone()))?;
                let mut amortizer = Amortizer::new(net, settings.iterations, 0.0);
                amortizer.online = settings.online;
                Some(amortizer)
            }
        };
        Ok(Self {
            settings,
            amortizer,
            latents: Stream::new(seed, "latent noise"),
            inner: Stream::new(seed, "inference noise"),
            device: device.clone(),
        })
    }

    /// Trainable numbers of the network, where there is one.
    pub fn parameters(&self) -> Option<Count> {
        let net = &self.amortizer.as_ref()?.net;
        Some(parameters_of(net))
    }

    /// Adds what a checkpoint holds of the network.
    pub fn add_weights(&self, weights: &mut Arrays) {
        if let Some(amortizer) = &self.amortizer {
            weights.extend(prefixed(collect(&amortizer.net)));
        }
    }

    /// Adds what a checkpoint holds of the network's optimiser.
    pub fn add_optimizer(&self, optimizer: &mut Arrays) {
        let Some(amortizer) = &self.amortizer else {
            return;
        };
        optimizer.extend(prefixed(amortizer.adam.collect()));
        let updates = amortizer.updates;
        let values = vec![(updates / PART) as f32, (updates % PART) as f32];
        optimizer.insert(
            UPDATES.into(),
            Array {
                shape: vec![2],
                values,
            },
        );
    }

    /// Takes its own out of what a checkpoint holds.
    pub fn restore(
        &mut self,
        weights: &mut Arrays,
        optimizer: Option<&mut Arrays>,
        path: &Path,
    ) -> Result<(), LabError> {
        let Some(amortizer) = &mut self.amortizer else {
            return Ok(());
        };
        amortizer.net = restore(amortizer.net.clone(), take_prefixed(weights), path)?;
        if let Some(optimizer) = optimizer {
            let updates = optimizer.remove(UPDATES);
            let updates =
                updates
                    .filter(|a| a.values.len() == 2)
                    .ok_or_else(|| LabError::WrongWeights {
                        path: path.to_owned(),
                        problem: format!("its optimiser's state has no '{UPDATES}'"),
                    })?;
            amortizer.updates = updates.values[0] as u64 * PART + updates.values[1] as u64;
            let device = self.device.clone().inner();
            amortizer.adam = Adam::restore(take_prefixed(optimizer), &device, path)?;
        }
        Ok(())
    }

    /// What turns beliefs into samples in update `step`; `shape` is `[time, batch, latent]`.
    pub fn latent_noise(&self, step: u64, shape: [usize; 3]) -> Tensor<3> {
        noise(&self.latents, step, shape, &self.device)
    }

    /// The pass over a batch from which the model learns in update `step`; the inference network
    /// learns in it. A failure leaves that network as it was before.
    pub fn learn<M: FilteringModel + Module>(
        &mut self,
        experiment: &Experiment,
        model: &M,
        observations: Tensor<3>,
        conditions: Option<Tensor<3>>,
        step: u64,
        kl_weight: f64,
    ) -> Result<Filtered<M::State>, StepFailure> {
        let [batch, time, _] = observations.dims();
        let shape = [time, batch, model.latent_size()];
        let latent = self.latent_noise(step, shape);
        if self.settings.strategy == StrategyName::Direct {
            return Ok(filter(model, observations, conditions, latent, None));
        }
        let noise = InferenceNoise {
            inner: inner_noise(&self.inner, step, &self.settings, shape, &self.device),
            latent,
        };
        // Frozen, its batch norm uses the running statistics and leaves them as they are.
        let frozen = model.clone().freeze();
        let inferred = match &mut self.amortizer {
            Some(amortizer) => {
                // Once a batch it learns nothing before all is known to be finite.
                let before = self.settings.online.then(|| {
                    let (net, adam) = (amortizer.net.clone(), amortizer.adam.clone());
                    (net, adam, amortizer.updates)
                });
                amortizer.learning_rate = learning_rate(experiment, step);
                let inferred = infer(
                    &frozen,
                    amortizer,
                    observations.clone(),
                    conditions.clone(),
                    noise,
                    kl_weight,
                    None,
                );
                amortizer.finish();
                if let Some(name) = amortizer.failure() {
                    let what = format!("the gradient of '{PREFIX}{name}'");
                    if let Some(before) = before {
                        (amortizer.net, amortizer.adam, amortizer.updates) = before;
                    }
                    return Err(StepFailure::NonFinite { step, what });
                }
                inferred
            }
            None => infer(
                &frozen,
                &mut GradientSteps::new(self.settings.iterations, self.settings.rate),
                observations.clone(),
                conditions.clone(),
                noise,
                kl_weight,
                None,
            ),
        };
        Ok(filter_given(
            model,
            observations,
            conditions,
            &inferred,
            None,
        ))
    }

    /// The same way for a model that learns no more; `model` is out of training mode (`valid`).
    pub fn at_work<M: FilteringModel + Module>(&self, model: M) -> AtWork<M> {
        let frozen = (self.settings.strategy != StrategyName::Direct).then(|| {
            // To the autodiff device, but out of training mode, and no parameter tracked.
            let net = self.amortizer.as_ref();
            let net = net.map(|amortizer| amortizer.net.valid().train().freeze());
            (model.clone().train().freeze(), net)
        });
        AtWork {
            settings: self.settings.clone(),
            model,
            frozen,
        }
    }
}

/// What finding beliefs by gradients takes, beside learning from them.
pub(crate) struct PlannedStrategy {
    /// Trainable numbers of the inference network, where there is one.
    pub parameters: Option<Count>,
    /// Numbers that finding the beliefs of one sequence takes.
    pub looking: Count,
    /// The same with what the network learns from.
    pub learning: Count,
}

/// What an experiment's way takes for sequences of `time` steps, `observation` numbers each, of a model of
/// `latent` latents.
pub(crate) fn planned(
    experiment: &Experiment,
    footprint: &Footprint,
    [latent, observation, time]: [usize; 3],
) -> Result<PlannedStrategy, LabError> {
    let settings = &experiment.filtering;
    let net = match settings.strategy {
        StrategyName::Direct => {
            return Ok(PlannedStrategy {
                parameters: None,
                looking: Count::NONE,
                learning: Count::NONE,
            });
        }
        StrategyName::Gradient => None,
        StrategyName::Iterative => {
            Some(net_config(settings, latent, observation).init(&mut outline()?)?)
        }
    };
    // An update of the network sees all beliefs since the last one.
    let steps = if settings.online { 1 } else { time };
    let rounds = Count::product(&[settings.iterations, steps]);
    let learned = net.as_ref().map_or(Count::NONE, |net| net.kept() * rounds);
    let energies = footprint.decoder * settings.samples * 2;
    let draws = Count::product(&[settings.iterations + 2, settings.samples, 3 * time, latent]);
    let beliefs = Count::product(&[10, time, latent]) + footprint.passing * time;
    let looking = energies + draws + beliefs;
    Ok(PlannedStrategy {
        parameters: net.as_ref().map(parameters_of),
        looking,
        learning: looking + learned,
    })
}

fn net_config(settings: &FilteringSettings, latent: usize, observation: usize) -> IterativeConfig {
    IterativeConfig {
        latent,
        hidden: settings.hidden,
        observation: if settings.observe { observation } else { 0 },
        normalise_mean: settings.normalise_mean,
    }
}

/// Names with the prefix.
fn prefixed(arrays: Arrays) -> impl Iterator<Item = (String, Array)> {
    let named = |(name, array)| (format!("{PREFIX}{name}"), array);
    arrays.into_iter().map(named)
}

/// Those with the prefix, without it; the rest stays.
fn take_prefixed(arrays: &mut Arrays) -> Arrays {
    let (own, rest) = std::mem::take(arrays)
        .into_iter()
        .partition(|(name, _)| name.starts_with(PREFIX));
    *arrays = rest;
    let own: Arrays = own;
    own.into_iter()
        .map(|(name, array)| (name[PREFIX.len()..].to_owned(), array))
        .collect()
}

/// Noise for the free energies of each round of draw `index`; `shape` is `[time, batch, latent]`.
fn inner_noise(
    stream: &Stream,
    index: u64,
    settings: &FilteringSettings,
    shape: [usize; 3],
    device: &Device,
) -> Vec<Tensor<4>> {
    let rounds = settings.iterations as u64 + 1;
    let [time, batch, latent] = shape;
    let round = |round: u64| {
        let shape = [settings.samples * time, batch, latent];
        let noise = noise(stream, index * rounds + round, shape, device);
        noise.reshape([settings.samples, time, batch, latent])
    };
    (0..rounds).map(round).collect()
}

/// Keeps the mean of what each round makes of a belief; nothing learns meanwhile.
struct Recorder<'a> {
    improver: Box<dyn Improver + 'a>,
    /// Of each round, step by step.
    means: Vec<Vec<Tensor<2>>>,
    round: usize,
}

impl Improver for Recorder<'_> {
    fn rounds(&self) -> usize {
        self.improver.rounds()
    }

    fn begin(&mut self) {
        self.round = 0;
        self.improver.begin();
    }

    fn improve(&mut self, belief: &Belief, gradient: &Belief, x: &Tensor<2>) -> Belief {
        let better = self.improver.improve(belief, gradient, x);
        self.means[self.round].push(better.mean.clone());
        self.round += 1;
        better
    }
}

/// A way to find beliefs with a model that learns no more.
pub struct AtWork<M> {
    settings: FilteringSettings,
    model: M,
    /// Model and inference network on an autodiff device, where gradients are asked for.
    frozen: Option<(M, Option<IterativeNet>)>,
}

impl<M: FilteringModel + Module> AtWork<M> {
    /// The model, off the autodiff device.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model that features and contexts for [`belief`](Self::belief) are to come from.
    pub fn working_model(&self) -> &M {
        self.frozen.as_ref().map_or(&self.model, |(model, _)| model)
    }

    /// A filtering pass with draw `index` of a stream. Also gives the free energies before the first
    /// round and after each, `[time, batch]`; none for direct filtering.
    pub fn filter(
        &self,
        observations: Tensor<3>,
        conditions: Option<Tensor<3>>,
        draws: &Stream,
        index: u64,
    ) -> (Filtered<M::State>, Vec<Tensor<2>>) {
        self.filter_by(
            self.improver().as_mut(),
            observations,
            conditions,
            draws,
            index,
        )
    }

    /// The same; also gives the means of the beliefs after each round, `[time * batch, latent]`.
    pub fn filter_by_round(
        &self,
        observations: Tensor<3>,
        conditions: Option<Tensor<3>>,
        draws: &Stream,
        index: u64,
    ) -> (Filtered<M::State>, Vec<Tensor<2>>) {
        let improver = self.improver();
        let mut recorder = Recorder {
            means: vec![Vec::new(); improver.rounds()],
            round: 0,
            improver,
        };
        let (filtered, _) = self.filter_by(&mut recorder, observations, conditions, draws, index);
        let found = recorder.means.into_iter().filter(|steps| !steps.is_empty());
        let found = found.map(|steps| Tensor::cat(steps, 0).inner());
        (filtered, found.collect())
    }

    fn filter_by(
        &self,
        improver: &mut dyn Improver,
        observations: Tensor<3>,
        conditions: Option<Tensor<3>>,
        draws: &Stream,
        index: u64,
    ) -> (Filtered<M::State>, Vec<Tensor<2>>) {
        let [batch, time, _] = observations.dims();
        let shape = [time, batch, self.model.latent_size()];
        let device = observations.device();
        let latent = noise(draws, index, shape, &device);
        let Some((frozen, _)) = &self.frozen else {
            let filtered = filter(&self.model, observations, conditions, latent, None);
            return (filtered, Vec::new());
        };
        let device = device.autodiff();
        let noise = InferenceNoise {
            inner: inner_noise(draws, INNER + index, &self.settings, shape, &device),
            latent: Tensor::from_inner(latent),
        };
        let inferred = infer(
            frozen,
            improver,
            Tensor::from_inner(observations.clone()),
            conditions.clone().map(Tensor::from_inner),
            noise,
            1.0,
            None,
        );
        let energies = inferred.energies.into_iter().map(Tensor::inner).collect();
        let found = Inferred {
            posteriors: inferred.posteriors.inner(),
            latents: inferred.latents.inner(),
            energies: Vec::new(),
            state: (),
        };
        let filtered = filter_given(&self.model, observations, conditions, &found, None);
        (filtered, energies)
    }

    /// What is believed at one step; features, context and `x` come from, or are on the device of,
    /// the [`working_model`](Self::working_model).
    pub fn belief(
        &self,
        features: &M::Features,
        context: &mut M::Context,
        x: &Tensor<2>,
        draws: &Stream,
        index: u64,
    ) -> DiagonalGaussian {
        let Some((frozen, _)) = &self.frozen else {
            return self.model.posterior(features, context);
        };
        let shape = [1, x.dims()[0], self.model.latent_size()];
        let noise = inner_noise(draws, INNER + index, &self.settings, shape, &x.device());
        let noise = |round: usize| noise[round].clone().squeeze_dim::<3>(1);
        infer_step(frozen, self.improver().as_mut(), context, x, noise, 1.0).posterior
    }

    fn improver(&self) -> Box<dyn Improver + '_> {
        let net = self.frozen.as_ref().and_then(|(_, net)| net.as_ref());
        let iterations = self.settings.iterations;
        match net {
            Some(net) => Box::new(Amortized { net, iterations }),
            None => Box::new(GradientSteps::new(iterations, self.settings.rate)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{load_experiment, weights::host};
    use mnemora_memory::{MemoryConfig, VrnnConfig};
    use mnemora_models::{
        FrameShape, GtmmConfig, LikelihoodConfig, ModelError, SrnnConfig, SvgConfig, SvgNetwork,
        VisualConfig, decoded_at,
    };

    /// What is kept of each round changes no belief, and the last round is what filtering goes on with.
    #[test]
    fn rounds_lead_to_the_posterior() {
        let device = Device::default().autodiff();
        for (strategy, count) in [("direct", 0), ("iterative", 3), ("gradient", 3)] {
            let overrides = [
                format!("filtering.strategy={strategy}"),
                "filtering.iterations=3".into(),
                "filtering.hidden=5".into(),
            ];
            let experiment = load_experiment("jsb-chorales-small", &overrides).unwrap();
            let mut init = Initializer::new(Stream::new(1, "parameters").at(0), device.clone());
            let config = SrnnConfig {
                observation: 7,
                latent: LATENT,
                hidden: 6,
                units: 5,
                layers: 1,
                decoder_layers: 1,
                smoothing: false,
                likelihood: LikelihoodConfig::Bernoulli,
            };
            let model = config.init(&mut init).unwrap().valid();
            let strategy = Strategy::new(&experiment, LATENT, 7, &device).unwrap();
            let at_work = strategy.at_work(model);
            let draws = Stream::new(2, "noise");
            let plain = device.clone().inner();
            let x = noise(&draws, 9, [2, 4, 7], &plain)
                .greater_scalar(0.0)
                .float();
            let (filtered, energies) = at_work.filter(x.clone(), None, &draws, 0);
            let (again, rounds) = at_work.filter_by_round(x.clone(), None, &draws, 0);
            let values = |tensor: &Tensor<2>| host(tensor.clone().into_data());
            assert_eq!(values(&filtered.latents), values(&again.latents));
            assert_eq!(rounds.len(), count);
            assert_eq!(energies.len(), if count == 0 { 0 } else { count + 1 });
            if let Some(last) = rounds.last() {
                assert_eq!(values(last), values(&filtered.posteriors.mean));
                assert_ne!(values(last), values(&rounds[0]));
            }
            // At the latents that were drawn it is the reconstruction.
            let latents = filtered.latents.clone();
            let made = decoded_at(at_work.model(), x, None, latents.clone(), latents);
            let pairs = values(&made.mean()).into_iter();
            for (found, expected) in pairs.zip(values(&filtered.likelihood.mean())) {
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
        }
    }

    const LATENT: usize = 3;
    const SIDE: usize = 8;

    /// In training: the search for beliefs uses running statistics, the newest ones, and changes none; the pass from
    /// which the model learns uses those of the batch and updates the running ones.
    fn check_batch_norm<M: FilteringModel + Module>(
        name: &str,
        strategy: &str,
        build: impl Fn(&mut Initializer) -> Result<M, ModelError>,
    ) {
        let name = format!("{name}, {strategy}");
        let device = Device::default().autodiff();
        let overrides = [
            format!("filtering.strategy={strategy}"),
            "filtering.iterations=2".into(),
            "filtering.hidden=5".into(),
            "filtering.observe=true".into(),
        ];
        let experiment = load_experiment("jsb-chorales-small", &overrides).unwrap();
        let fresh = || {
            let stream = Stream::new(1, "parameters").at(0);
            build(&mut Initializer::new(stream, device.clone())).unwrap()
        };
        let pixels = SIDE * SIDE;
        let frames = noise(&Stream::new(2, "frames"), 0, [2, 4, pixels], &device);
        let frames = frames.tanh().mul_scalar(0.5).add_scalar(0.5);
        let learn = |model: &M, frames: &Tensor<3>| {
            let mut strategy = Strategy::new(&experiment, LATENT, pixels, &device).unwrap();
            let filtered = strategy.learn(&experiment, model, frames.clone(), None, 1, 1.0);
            filtered.unwrap()
        };
        let values = |tensor: &Tensor<2>| host(tensor.clone().into_data());
        let (model, again) = (fresh(), fresh());
        let found = learn(&model, &frames);
        let statistics = collect(&model);

        // Not those of the batch: another second sequence changes nothing in the beliefs about the first.
        let [first, second] = [0, 1].map(|row| frames.clone().narrow(0, row, 1));
        let other = Tensor::cat(vec![first, second.neg().add_scalar(1.0)], 0);
        let with_other = values(&learn(&fresh(), &other).posteriors.mean);
        let means = values(&found.posteriors.mean);
        let rows = means.chunks(LATENT).zip(with_other.chunks(LATENT));
        for (row, (one, other)) in rows.enumerate() {
            let furthest = one.iter().zip(other).map(|(a, b)| (a - b).abs());
            let furthest = furthest.fold(0.0, f32::max);
            match row % 2 {
                0 => assert!(furthest < 1e-5, "{name}: {one:?} {other:?}"),
                _ => assert!(furthest > 1e-5, "{name}: {one:?} {other:?}"),
            }
        }

        // None changed but by the pass that learns.
        assert_ne!(statistics, collect(&fresh()), "{name}");
        let given = Inferred {
            posteriors: found.posteriors.clone(),
            latents: found.latents.clone(),
            energies: Vec::new(),
            state: (),
        };
        filter_given(&again, frames.clone(), None, &given, None);
        assert_eq!(statistics, collect(&again), "{name}");

        // The newest ones, whether or not somebody looked at them meanwhile.
        let unseen = fresh();
        learn(&unseen, &frames);
        let [next, expected] = [&unseen, &model].map(|model| learn(model, &frames));
        assert_eq!(
            values(&next.posteriors.mean),
            values(&expected.posteriors.mean),
            "{name}"
        );
        assert_ne!(means, values(&next.posteriors.mean), "{name}");
    }

    #[test]
    fn batch_norm_uses_running_statistics_while_beliefs_are_found() {
        let frame = FrameShape {
            channels: 1,
            height: SIDE,
            width: SIDE,
        };
        let gtmm = GtmmConfig {
            frame,
            memory: MemoryConfig::Vrnn(VrnnConfig {
                latent: LATENT,
                features: 2 * LATENT,
                condition: 0,
                hidden: 5,
            }),
            visual: VisualConfig::Inception,
            prior_hidden: 0,
            posterior_hidden: 0,
            likelihood: LikelihoodConfig::Bernoulli,
        };
        let svg = |network| SvgConfig {
            width: 2,
            features: 5,
            latent: LATENT,
            hidden: 6,
            ..SvgConfig::original(frame, network)
        };
        for strategy in ["iterative", "gradient"] {
            check_batch_norm("gtmm", strategy, |init| gtmm.init(init));
            for network in [SvgNetwork::Dcgan, SvgNetwork::Vgg] {
                check_batch_norm(&format!("{network:?}"), strategy, |init| {
                    svg(network).init(init)
                });
            }
        }
    }
}
