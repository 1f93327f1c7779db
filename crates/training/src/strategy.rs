//! Inference of a model's latents: by its own posterior network, by a network that improves beliefs iteratively, or by
//! gradient steps alone; during training and afterwards.

use crate::{
    Error, Snapshot, StepFailure,
    amortize::Amortizer,
    arrays::{Array, Arrays, collect, parameters_of, restore},
    device::outline,
    settings::{FilteringSettings, StrategyName, TrainingSettings},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_memory::{Bundle, Count, Initializer};
use mnemora_models::{
    Amortized, DiagonalGaussian, Filtered, FilteringModel, Footprint, GradientSteps, Improver,
    InferenceNoise, Inferred, IterativeConfig, IterativeNet, filter, filter_given, infer,
    infer_step, inference::Belief,
};
use mnemora_worlds::Stream;
use std::path::Path;

/// Prefix of the inference network's parameters in a checkpoint.
const PREFIX: &str = "inference.";
/// Checkpoint counter: updates of the inference network.
const UPDATES: &str = "inference updates";
/// Where one stream also draws the latents' noise, the noise for the inner free energies starts at this index.
const INNER: u64 = 1 << 40;

/// Standard normal noise `[time, batch, numbers]`, draw `index` of a stream.
pub fn noise(stream: &Stream, index: u64, shape: [usize; 3], device: &Device) -> Tensor<3> {
    let values = stream.standard_normal(index, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The inference strategy of an experiment, with its network if it has one; the network is trained along with the
/// model.
pub struct Strategy {
    settings: FilteringSettings,
    amortizer: Option<Amortizer>,
    latents: Stream,
    inner: Stream,
    device: Device,
}

impl Strategy {
    /// For a model on `device` with the given numbers of latents and observed values.
    pub fn new(
        settings: &FilteringSettings,
        seed: u64,
        latent: usize,
        observation: usize,
        device: &Device,
    ) -> Result<Self, Error> {
        let settings = settings.clone();
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

    /// Trainable numbers of the network, if there is one.
    pub fn parameters(&self) -> Option<Count> {
        let net = &self.amortizer.as_ref()?.net;
        Some(parameters_of(net))
    }

    /// Adds the network and its optimiser to a checkpoint.
    pub fn save(&self, snapshot: &mut Snapshot) {
        let Some(amortizer) = &self.amortizer else {
            return;
        };
        snapshot.model.extend(prefixed(collect(&amortizer.net)));
        let moments = prefixed(amortizer.optimiser.collect());
        snapshot.optimiser.extend(moments);
        let updates = amortizer.updates as f64;
        snapshot.counters.insert(UPDATES.into(), updates);
    }

    /// Takes the network and its optimiser out of a checkpoint.
    pub fn restore(&mut self, from: &mut Snapshot, path: &Path) -> Result<(), Error> {
        let Some(amortizer) = &mut self.amortizer else {
            return Ok(());
        };
        amortizer.net = restore(amortizer.net.clone(), take_prefixed(&mut from.model), path)?;
        if !from.optimiser.is_empty() {
            amortizer.updates = from.counter(UPDATES, path)? as u64;
            let device = self.device.clone().inner();
            let moments = take_prefixed(&mut from.optimiser);
            amortizer.optimiser.restore(moments, &device, path)?;
        }
        Ok(())
    }

    /// Noise for posterior samples and transitions in update `step`; `shape` is `[time, batch, noise_size]`.
    pub fn step_noise(&self, step: u64, shape: [usize; 3]) -> Tensor<3> {
        noise(&self.latents, step, shape, &self.device)
    }

    /// The filtering pass over a batch from which the model learns in update `step`. The inference network learns
    /// during this pass; a failure restores it.
    pub fn learn<M: FilteringModel + Module>(
        &mut self,
        training: &TrainingSettings,
        model: &M,
        observations: Tensor<3>,
        conditions: Option<Tensor<3>>,
        step: u64,
    ) -> Result<Filtered<M::State, M::Prior>, StepFailure> {
        let kl_weight = training.kl_weight(step);
        let [batch, time, _] = observations.dims();
        let drawn = self.step_noise(step, [time, batch, model.noise_size()]);
        if self.settings.strategy == StrategyName::Direct {
            return Ok(filter(model, observations, conditions, drawn, None));
        }
        let shape = [time, batch, model.latent_size()];
        let noise = InferenceNoise {
            inner: inner_noise(&self.inner, step, &self.settings, shape, &self.device),
            step: drawn,
        };
        // Frozen: batch norm uses the running statistics and does not change them.
        let frozen = model.clone().freeze();
        let inferred = match &mut self.amortizer {
            Some(amortizer) => {
                // A network that learns once per batch changes only after its gradient was found to be finite.
                let before = self.settings.online.then(|| {
                    let (net, moments) = (amortizer.net.clone(), amortizer.optimiser.clone());
                    (net, moments, amortizer.updates)
                });
                amortizer.learning_rate = training.rate(step);
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
                        (amortizer.net, amortizer.optimiser, amortizer.updates) = before;
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

    /// This strategy with a trained, frozen model; `model` is out of training mode (`valid`).
    pub fn frozen<M: FilteringModel + Module>(&self, model: M) -> Inference<M> {
        let frozen = (self.settings.strategy != StrategyName::Direct).then(|| {
            // On the autodiff device, but out of training mode and without tracked parameters.
            let net = self.amortizer.as_ref();
            let net = net.map(|amortizer| amortizer.net.valid().train().freeze());
            (model.clone().train().freeze(), net)
        });
        Inference {
            settings: self.settings.clone(),
            model,
            frozen,
        }
    }
}

/// The memory that gradient-based inference takes, in addition to that of learning the model.
pub struct PlannedStrategy {
    /// Trainable numbers of the inference network, if there is one.
    pub parameters: Option<Count>,
    /// Numbers kept to infer the beliefs of one sequence.
    pub looking: Count,
    /// Numbers kept if the inference network learns, too.
    pub learning: Count,
}

/// What an experiment's strategy needs for sequences of `time` steps with `observation` numbers each, and a model with
/// `latent` latents.
pub fn planned(
    settings: &FilteringSettings,
    footprint: &Footprint,
    [latent, observation, time]: [usize; 3],
) -> Result<PlannedStrategy, Error> {
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
    // An update of the network uses all beliefs since the last update.
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

/// The arrays, each name with the prefix.
fn prefixed(arrays: Arrays) -> impl Iterator<Item = (String, Array)> {
    let named = |(name, array)| (format!("{PREFIX}{name}"), array);
    arrays.into_iter().map(named)
}

/// Takes out the arrays with the prefix and strips it; the rest stays.
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

/// Records the mean of the belief after each round; nothing learns.
struct Recorder<'a> {
    improver: Box<dyn Improver + 'a>,
    /// Per round, one mean per step.
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

/// Inference with a trained model.
pub struct Inference<M> {
    settings: FilteringSettings,
    model: M,
    /// Model and inference network on an autodiff device, for strategies that need gradients.
    frozen: Option<(M, Option<IterativeNet>)>,
}

impl<M: FilteringModel + Module> Inference<M> {
    /// A model, off the autodiff device, with its own posterior.
    pub fn direct(model: M) -> Self {
        Self {
            settings: FilteringSettings {
                strategy: StrategyName::Direct,
                ..FilteringSettings::default()
            },
            model,
            frozen: None,
        }
    }

    /// The model, off the autodiff device.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model that must compute the features and contexts for [`belief`](Self::belief).
    pub fn working_model(&self) -> &M {
        self.frozen.as_ref().map_or(&self.model, |(model, _)| model)
    }

    /// A filtering pass with draw `index` of a stream. Also returns the free energies before the first round and after
    /// each, `[time, batch]`; none for direct filtering.
    pub fn filter(
        &self,
        observations: Tensor<3>,
        conditions: Option<Tensor<3>>,
        draws: &Stream,
        index: u64,
    ) -> (Filtered<M::State, M::Prior>, Vec<Tensor<2>>) {
        self.filter_by(
            self.improver().as_mut(),
            observations,
            conditions,
            draws,
            index,
        )
    }

    /// As [`filter`](Self::filter), but returns with it the means of the beliefs after each round, `[time * batch,
    /// latent]`.
    pub fn filter_by_round(
        &self,
        observations: Tensor<3>,
        conditions: Option<Tensor<3>>,
        draws: &Stream,
        index: u64,
    ) -> (Filtered<M::State, M::Prior>, Vec<Tensor<2>>) {
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
    ) -> (Filtered<M::State, M::Prior>, Vec<Tensor<2>>) {
        let [batch, time, _] = observations.dims();
        let device = observations.device();
        let shape = [time, batch, self.model.noise_size()];
        let drawn = noise(draws, index, shape, &device);
        let Some((frozen, _)) = &self.frozen else {
            let filtered = filter(&self.model, observations, conditions, drawn, None);
            return (filtered, Vec::new());
        };
        let device = device.autodiff();
        let shape = [time, batch, self.model.latent_size()];
        let noise = InferenceNoise {
            inner: inner_noise(draws, INNER + index, &self.settings, shape, &device),
            step: Tensor::from_inner(drawn),
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
            transition_noise: inferred.transition_noise.inner(),
            energies: Vec::new(),
            state: (),
        };
        let filtered = filter_given(&self.model, observations, conditions, &found, None);
        (filtered, energies)
    }

    /// The belief at one step to be scored. Features and context come from the [`working_model`](Self::working_model),
    /// and `x` is on its device.
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
    use crate::arrays::host;
    use mnemora_memory::{LstmMemoryConfig, MemoryConfig};
    use mnemora_models::{
        GtmmConfig, ImageShape, LikelihoodConfig, ModelError, SrnnConfig, SvgConfig, SvgNetwork,
        VisualConfig, decoded_at,
    };

    /// Recording the rounds changes no belief, and filtering continues with the result of the last round.
    #[test]
    fn rounds_lead_to_the_posterior() {
        let device = Device::default().autodiff();
        for (strategy, count) in [
            (StrategyName::Direct, 0),
            (StrategyName::Iterative, 3),
            (StrategyName::Gradient, 3),
        ] {
            let settings = FilteringSettings {
                strategy,
                iterations: 3,
                hidden: 5,
                ..FilteringSettings::default()
            };
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
            let strategy = Strategy::new(&settings, 1, LATENT, 7, &device).unwrap();
            let inference = strategy.frozen(model);
            let draws = Stream::new(2, "noise");
            let plain = device.clone().inner();
            let x = noise(&draws, 9, [2, 4, 7], &plain)
                .greater_scalar(0.0)
                .float();
            let (filtered, energies) = inference.filter(x.clone(), None, &draws, 0);
            let (again, rounds) = inference.filter_by_round(x.clone(), None, &draws, 0);
            let values = |tensor: &Tensor<2>| host(tensor.clone().into_data());
            assert_eq!(values(&filtered.latents), values(&again.latents));
            assert_eq!(rounds.len(), count);
            assert_eq!(energies.len(), if count == 0 { 0 } else { count + 1 });
            if let Some(last) = rounds.last() {
                assert_eq!(values(last), values(&filtered.posteriors.mean));
                assert_ne!(values(last), values(&rounds[0]));
            }
            // At the sampled latents, it is the reconstruction.
            let latents = filtered.latents.clone();
            let made = decoded_at(inference.model(), x, None, latents.clone(), None, latents);
            let pairs = values(&made.mean()).into_iter();
            for (found, expected) in pairs.zip(values(&filtered.likelihood.mean())) {
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
        }
    }

    const LATENT: usize = 3;
    const SIDE: usize = 8;

    /// During training, inference uses the latest running statistics and changes none of them; the pass from which the
    /// model learns uses the statistics of the batch and updates the running ones.
    fn check_batch_norm<M: FilteringModel + Module>(
        name: &str,
        strategy: StrategyName,
        build: impl Fn(&mut Initializer) -> Result<M, ModelError>,
    ) {
        let name = format!("{name}, {}", strategy.as_str());
        let device = Device::default().autodiff();
        let settings = FilteringSettings {
            strategy,
            iterations: 2,
            hidden: 5,
            observe: true,
            ..FilteringSettings::default()
        };
        let training = TrainingSettings::default();
        let fresh = || {
            let stream = Stream::new(1, "parameters").at(0);
            build(&mut Initializer::new(stream, device.clone())).unwrap()
        };
        let pixels = SIDE * SIDE;
        let frames = noise(&Stream::new(2, "frames"), 0, [2, 4, pixels], &device);
        let frames = frames.tanh().mul_scalar(0.5).add_scalar(0.5);
        let learn = |model: &M, frames: &Tensor<3>| {
            let mut strategy = Strategy::new(&settings, 1, LATENT, pixels, &device).unwrap();
            let filtered = strategy.learn(&training, model, frames.clone(), None, 1);
            filtered.unwrap()
        };
        let values = |tensor: &Tensor<2>| host(tensor.clone().into_data());
        let (model, again) = (fresh(), fresh());
        let found = learn(&model, &frames);
        let statistics = collect(&model);

        // Not the statistics of the batch: changing the second sequence does not change the beliefs about the first.
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

        // Only the learning pass changes running statistics.
        assert_ne!(statistics, collect(&fresh()), "{name}");
        let given = Inferred {
            posteriors: found.posteriors.clone(),
            latents: found.latents.clone(),
            transition_noise: None,
            energies: Vec::new(),
            state: (),
        };
        filter_given(&again, frames.clone(), None, &given, None);
        assert_eq!(statistics, collect(&again), "{name}");

        // The latest statistics are used, whether or not they were read in between.
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
        let frame = ImageShape {
            channels: 1,
            height: SIDE,
            width: SIDE,
        };
        let gtmm = GtmmConfig {
            frame,
            visual: VisualConfig::Inception,
            prior_hidden: 0,
            posterior_hidden: 0,
            likelihood: LikelihoodConfig::Bernoulli,
        };
        let memory = MemoryConfig::LstmMemory(LstmMemoryConfig {
            latent: LATENT,
            features: 2 * LATENT,
            condition: 0,
            hidden: 5,
        });
        let svg = |network| SvgConfig {
            width: 2,
            features: 5,
            latent: LATENT,
            hidden: 6,
            ..SvgConfig::original(frame, network)
        };
        for strategy in [StrategyName::Iterative, StrategyName::Gradient] {
            check_batch_norm("gtmm", strategy, |init| gtmm.init(&memory, init));
            for network in [SvgNetwork::Dcgan, SvgNetwork::Vgg] {
                check_batch_norm(&format!("{network:?}"), strategy, |init| {
                    svg(network).init(init)
                });
            }
        }
    }
}
