//! A whole filtering pass compared with the NumPy implementation in `reference/`: values and gradients; and
//! the distributions compared with closed forms.

mod agents;
#[path = "../../../memory/tests/golden/file.rs"]
mod file;
mod scenes;
mod video;

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Device, Gradients, Tensor},
};
use file::{Golden, assert_close};
use mnemora_kernels::{bernoulli, gaussian};
use mnemora_memory::{Initializer, IntrospectionConfig, LstmMemoryConfig, MemoryConfig};
use mnemora_models::{
    DiagonalGaussian, ElboNoise, FilteringModel, GtmSmConfig, GtmSmVisual, GtmmConfig, ImageShape,
    IterativeConfig, Likelihood, LikelihoodConfig, PriorKind, SrnnConfig, SvgConfig, SvgNetwork,
    SvgPrior, SvgSkips, TransitionConfig, TransitionKind, VisualConfig, VrnnConfig, Walk,
    WalkedWorld, filter,
    inference::Belief,
    visual::{PathwaysDecoder, PathwaysEncoder},
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// The dotted path of a parameter, without names of enum variants.
#[derive(Default)]
struct Path(Vec<Option<String>>);

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        self.0
            .push((!container.starts_with("Enum:")).then(|| name.to_owned()));
    }

    fn name(&self) -> String {
        let parts: Vec<&str> = self.0.iter().flatten().map(String::as_str).collect();
        parts.join(".")
    }
}

/// Running statistics of batch norm are not parameters.
fn is_running_statistic(name: &str) -> bool {
    name.ends_with(".running_mean") || name.ends_with(".running_var")
}

struct Load<'a>(&'a Golden, Path);

impl ModuleMapper for Load<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.1.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.1.0.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.1.name();
        if is_running_statistic(&name) {
            return param;
        }
        let found = param.dims();
        assert_eq!(self.0.shape(&name), found, "{name}");
        Param::from_tensor(self.0.tensor(&name, &param.device()))
    }
}

struct Compare<'a> {
    golden: &'a Golden,
    path: Path,
    gradients: Gradients,
    compared: usize,
}

impl ModuleVisitor for Compare<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.0.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = format!("grad.{}", self.path.name());
        if is_running_statistic(&name) {
            return;
        }
        let gradient = param
            .val()
            .grad(&self.gradients)
            .unwrap_or_else(|| panic!("{name}: none"));
        self.compared += gradient.shape().num_elements();
        assert_close(&name, &self.golden.values(&name), gradient);
    }
}

fn filtering_pass(file: &str) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let pixels = golden.shape("observations")[2];
    let latent = golden.shape("noise")[2];
    let hidden = golden.shape("memory.lstm.weight_hidden")[0];
    let features = golden.shape("encoder.features.bias")[0];
    let memory = match golden.has("memory.gate.weight") {
        false => MemoryConfig::LstmMemory(LstmMemoryConfig {
            latent,
            features,
            condition: 0,
            hidden,
        }),
        true => {
            let reads = golden.shape("memory.gate.bias")[0] / latent;
            MemoryConfig::Introspection(IntrospectionConfig {
                latent,
                condition: 0,
                hidden,
                attention: golden.shape("memory.attention_hidden.bias")[0],
                reads,
                slots: golden.shape("memory.attention_output.bias")[0] / reads,
            })
        }
    };
    let config = GtmmConfig {
        frame: ImageShape {
            channels: 1,
            height: 1,
            width: pixels,
        },
        visual: VisualConfig::Dense {
            hidden: golden.shape("encoder.hidden.bias")[0],
            features,
        },
        prior_hidden: golden.shape("prior.hidden.bias")[0],
        posterior_hidden: golden.shape("posterior.features.bias")[0],
        likelihood: LikelihoodConfig::Bernoulli,
    };
    let model = config.init(&memory, &mut initializer(&device)).unwrap();
    check_pass(&golden, model, &device);
}

/// Its values do not matter: the golden ones replace them.
fn initializer(device: &Device) -> Initializer {
    Initializer::new(ChaCha8Rng::seed_from_u64(0), device.clone())
}

/// Filters with the golden parameters; compares all values and gradients.
fn check_pass<M: FilteringModel<Prior = DiagonalGaussian> + Module>(
    golden: &Golden,
    model: M,
    device: &Device,
) {
    let [time, batch, _] = golden.shape("observations").try_into().unwrap();
    let model = model.map(&mut Load(golden, Path::default()));
    let observations: Tensor<3> = golden.tensor("observations", device);
    let filtered = filter(
        &model,
        observations.swap_dims(0, 1),
        None,
        golden.tensor("noise", device),
        None,
    );
    let same = |name: &str, found: Tensor<2>| assert_close(name, &golden.values(name), found);
    same("latents", filtered.latents.clone());
    same("prior_mean", filtered.priors.mean.clone());
    same("prior_log_std", filtered.priors.log_std.clone());
    same("posterior_mean", filtered.posteriors.mean.clone());
    same("posterior_log_std", filtered.posteriors.log_std.clone());
    same("reconstruction", filtered.reconstruction.clone());
    same("kl", filtered.kl.clone());
    match &filtered.likelihood {
        Likelihood::Bernoulli { logits } => same("logits", logits.clone()),
        Likelihood::Normal { mean, log_std, .. } => {
            same("mean", mean.clone());
            same("log_std", log_std.clone());
        }
        Likelihood::Gaussian { .. } | Likelihood::Columns(_) => {
            panic!("no golden file has this likelihood")
        }
    }
    assert_eq!(filtered.kl.dims(), [time, batch]);

    let bound = filtered.bound(1.0).mean();
    assert_close("bound", &golden.values("bound"), bound.clone());
    check_gradients(golden, &model, bound.backward());
}

fn check_gradients<M: Module>(golden: &Golden, model: &M, gradients: Gradients) {
    let mut compare = Compare {
        golden,
        path: Path::default(),
        gradients,
        compared: 0,
    };
    model.visit(&mut compare);
    assert_eq!(compare.compared, golden.parameter_count());
}

#[test]
fn filtering_with_introspection() {
    filtering_pass("gtmm_introspection");
}

#[test]
fn filtering_with_vrnn() {
    filtering_pass("gtmm_vrnn");
}

fn stochastic_recurrent_network(file: &str) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let config = SrnnConfig {
        observation: golden.shape("observations")[2],
        latent: golden.shape("noise")[2],
        hidden: golden.shape("lstm.weight_hidden")[0],
        units: golden.shape("prior.output.weight")[0],
        layers: 1,
        decoder_layers: 2,
        smoothing: golden.has("backward.bias"),
        likelihood: LikelihoodConfig::Bernoulli,
    };
    let model = config.init(&mut initializer(&device)).unwrap();
    check_pass(&golden, model, &device);
}

#[test]
fn filtering_with_the_stochastic_recurrent_network() {
    stochastic_recurrent_network("srnn");
}

#[test]
fn smoothing_with_the_stochastic_recurrent_network() {
    stochastic_recurrent_network("srnn_smoothing");
}

#[test]
fn filtering_with_networks_around_a_vrnn() {
    let golden = Golden::open("vrnn_full");
    let device = Device::default().autodiff();
    let config = VrnnConfig {
        observation: golden.shape("observations")[2],
        latent: golden.shape("noise")[2],
        hidden: golden.shape("lstm.weight_hidden")[0],
        layers: 2,
        observation_units: golden.shape("decoder.output.weight")[0],
        latent_units: golden.shape("prior.output.weight")[0],
        likelihood: LikelihoodConfig::Normal {
            bin: 0.0,
            squashed: false,
        },
    };
    let model = config.init(&mut initializer(&device)).unwrap();
    check_pass(&golden, model, &device);
}

fn stochastic_video_generation(file: &str, side: usize) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let [outputs, channels, _, _] = golden
        .shape("encoder.levels.0.convolution.weight")
        .try_into()
        .unwrap();
    let layers = (0..).take_while(|layer| golden.has(&format!("predictor.layers.{layer}.bias")));
    let config = SvgConfig {
        width: outputs,
        features: golden.shape("encoder.top.convolution.bias")[0],
        latent: golden.shape("noise")[2],
        hidden: golden.shape("predictor.output.weight")[0],
        predictor_layers: layers.count(),
        prior: match golden.has("prior.output.bias") {
            true => SvgPrior::Learned,
            false => SvgPrior::Fixed,
        },
        skips: SvgSkips::Previous,
        likelihood: LikelihoodConfig::Normal {
            bin: 0.0,
            squashed: true,
        },
        ..SvgConfig::original(
            ImageShape {
                channels,
                height: side,
                width: side,
            },
            SvgNetwork::Dcgan,
        )
    };
    let model = config.init(&mut initializer(&device)).unwrap();
    check_pass(&golden, model, &device);
}

#[test]
fn filtering_with_stochastic_video_generation() {
    stochastic_video_generation("svg", 16);
}

#[test]
fn filtering_with_stochastic_video_generation_and_a_fixed_prior() {
    stochastic_video_generation("svg_fixed", 8);
}

/// The bound of GTM-SM with one transition and prior: places, entries read, terms, gradients.
fn spatial_memory(file: &str, kind: TransitionKind) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let [batch, time, pixels] = golden.shape("observations").try_into().unwrap();
    let [_, predicted, latent] = golden.shape("latent_noise").try_into().unwrap();
    let [actions, place] = golden.shape("transition.moves").try_into().unwrap();
    let number = |name: &str| f64::from(golden.values(name)[0]);
    let has_network = golden.has("prior.map.output.bias");
    let config = GtmSmConfig {
        latent,
        hidden: golden.shape("encoder.output.weight")[0],
        pixel_std: number("std"),
        neighbours: golden.shape("weights")[2],
        delta: number("delta"),
        distance: match golden.has("distance") {
            true => golden.shape("distance")[1],
            false => 0,
        },
        landmarks: match golden.has("landmarks.alpha.output.bias") {
            true => golden.shape("landmarks.alpha.output.bias")[0] - 1,
            false => 0,
        },
        visual: GtmSmVisual::Dense,
        width: 1,
        prior: match has_network {
            true => PriorKind::Mlp,
            false => PriorKind::Mixture,
        },
        prior_hidden: match has_network {
            true => golden.shape("prior.map.output.weight")[0],
            false => 1,
        },
        transition: TransitionConfig {
            kind,
            wall_hidden: match kind {
                TransitionKind::Walls => golden.shape("transition.walls.output.weight")[0],
                _ => 1,
            },
            noise: number("r"),
            ..TransitionConfig::default()
        },
    };
    let world = WalkedWorld {
        frame: ImageShape {
            channels: 1,
            height: 1,
            width: pixels,
        },
        actions,
        place,
        opposites: &[],
        memorise: time - predicted,
    };
    let model = config.init(&world, &mut initializer(&device)).unwrap();
    let model = model.map(&mut Load(&golden, Path::default()));
    let walk = Walk {
        frames: golden
            .tensor::<3>("observations", &device)
            .reshape([batch * time, pixels]),
        seen: (0..batch * time).collect(),
        actions: golden.tensor("actions", &device),
    };
    let noise = ElboNoise {
        latent: golden
            .tensor::<3>("latent_noise", &device)
            .reshape([batch * predicted, latent]),
        place: Some(golden.tensor("place_noise", &device)),
    };
    let elbo = model.elbo(&walk, noise);
    let rolled = &elbo.prediction.rolled;
    assert_close("places", &golden.values("places"), rolled.places.clone());
    let displacements = rolled.displacements.clone();
    assert_close(
        "displacements",
        &golden.values("displacements"),
        displacements.clone(),
    );
    let found: Vec<f32> = elbo
        .prediction
        .neighbours
        .positions
        .iter()
        .map(|position| *position as f32)
        .collect();
    assert_eq!(found, golden.values("positions"));
    if !has_network {
        let weights = elbo.prediction.prior.log_weights.clone().exp();
        assert_close("weights", &golden.values("weights"), weights);
    }
    let reconstruction = elbo.reconstruction;
    assert_close(
        "reconstruction",
        &golden.values("reconstruction"),
        reconstruction.clone(),
    );
    assert_close("kl", &golden.values("kl"), elbo.kl.clone());
    let probe: Tensor<3> = golden.tensor("probe", &device);
    let mut bound = reconstruction - elbo.kl;
    if let Some(kl) = elbo.place_kl {
        assert_close("place_kl", &golden.values("place_kl"), kl.clone());
        bound = bound - kl;
    }
    let objective = bound.sum() + (displacements * probe).sum();
    check_gradients(&golden, &model, objective.backward());
}

#[test]
fn spatial_memory_without_walls() {
    spatial_memory("gtm_sm_linear", TransitionKind::Linear);
}

#[test]
fn spatial_memory_with_walls() {
    spatial_memory("gtm_sm_walls", TransitionKind::Walls);
}

#[test]
fn spatial_memory_of_an_agent_that_turns() {
    spatial_memory("gtm_sm_rotation", TransitionKind::Rotation);
}

#[test]
fn spatial_memory_of_an_agent_with_momentum() {
    spatial_memory("gtm_sm_momentum", TransitionKind::Momentum);
}

#[test]
fn spatial_memory_with_landmarks() {
    spatial_memory("gtm_sm_landmarks", TransitionKind::Walls);
}

#[test]
fn spatial_memory_with_a_network_for_its_prior() {
    spatial_memory("gtm_sm_mlp", TransitionKind::Walls);
}

#[test]
fn two_pathways_to_features() {
    let golden = Golden::open("pathways_encoder");
    let device = Device::default().autodiff();
    let [rows, channels, height, width] = golden.shape("inputs").try_into().unwrap();
    let frame = ImageShape {
        channels,
        height,
        width,
    };
    let features = golden.shape("outputs")[1];
    let first = golden.shape("whole.0.weight")[0];
    let encoder = PathwaysEncoder::new(frame, first, features, &mut initializer(&device)).unwrap();
    let encoder = encoder.map(&mut Load(&golden, Path::default()));
    let frames = golden.tensor::<4>("inputs", &device);
    let found = encoder.forward(frames.reshape([rows, frame.size()]));
    assert_close("outputs", &golden.values("outputs"), found.clone());
    let sum = (found * golden.tensor::<2>("probe", &device)).sum();
    check_gradients(&golden, &encoder, sum.backward());
}

#[test]
fn two_pathways_to_frames() {
    let golden = Golden::open("pathways_decoder");
    let device = Device::default().autodiff();
    let [rows, channels, height, width] = golden.shape("outputs").try_into().unwrap();
    let frame = ImageShape {
        channels,
        height,
        width,
    };
    let [_, inputs] = golden.shape("inputs").try_into().unwrap();
    let last = golden.shape("whole.2.weight")[0];
    let decoder = PathwaysDecoder::new(frame, last, inputs, 1, &mut initializer(&device)).unwrap();
    let decoder = decoder.map(&mut Load(&golden, Path::default()));
    let found = decoder.forward(golden.tensor("inputs", &device));
    assert_close("outputs", &golden.values("outputs"), found.clone());
    let probe = golden.tensor::<4>("probe", &device);
    let sum = (found * probe.reshape([rows, frame.size()])).sum();
    check_gradients(&golden, &decoder, sum.backward());
}

/// The networks of gtmm, B.2, for three channels: `conv(3, 128, 5)`, `conv(128, 256, 4)`, `conv(256, 256, 4)`, `conv(3, 16,
/// 4)`, `conv(16, 8, 4)`, and a linear layer from 768 features to mean and log standard deviation of 256 latents.
#[test]
fn two_pathways_at_paper_size() {
    let frame = ImageShape {
        channels: 3,
        height: 32,
        width: 32,
    };
    let device = Device::default();
    let encoder = PathwaysEncoder::new(frame, 128, 512, &mut initializer(&device)).unwrap();
    let whole = (3 * 25 + 1) * 128 + (128 * 16 + 1) * 256 + (256 * 16 + 1) * 256;
    let local = (3 * 16 + 1) * 16 + (16 * 16 + 1) * 8;
    assert_eq!(encoder.num_params(), whole + local + (768 + 1) * 512);
    let small = ImageShape {
        height: 28,
        ..frame
    };
    let refused = PathwaysEncoder::new(small, 128, 512, &mut initializer(&device));
    assert!(refused.unwrap_err().to_string().contains("28x32"));
}

fn inference_network(file: &str, normalise_mean: bool) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let latent = golden.shape("mean")[1];
    let config = IterativeConfig {
        latent,
        hidden: golden.shape("second.weight")[0],
        observation: golden.shape("first.weight")[0] - 4 * latent,
        normalise_mean,
    };
    let net = config.init(&mut initializer(&device)).unwrap();
    let net = net.map(&mut Load(&golden, Path::default()));
    let pair = |mean: &str, log_variance: &str| Belief {
        mean: golden.tensor(mean, &device),
        log_variance: golden.tensor(log_variance, &device),
    };
    let belief = pair("mean", "log_variance");
    let x = match golden.has("x") {
        true => golden.tensor("x", &device),
        false => belief.mean.clone(),
    };
    let found = net.forward(&belief, &pair("gradient_mean", "gradient_log_variance"), &x);
    let same = |name: &str, found: &Tensor<2>| {
        assert_close(name, &golden.values(name), found.clone());
    };
    same("new_mean", &found.mean);
    same("new_log_variance", &found.log_variance);
    let probes = pair("probe_mean", "probe_log_variance");
    let sum = (found.mean * probes.mean).sum() + (found.log_variance * probes.log_variance).sum();
    check_gradients(&golden, &net, sum.backward());
}

#[test]
fn an_iteration_of_inference() {
    inference_network("avf", false);
}

#[test]
fn an_iteration_that_sees_the_observation() {
    inference_network("avf_observation", true);
}

/// Each value within 1e-5 of its own size, or of 1.
fn assert_each_close(name: &str, expected: &[f32], found: Tensor<1>) {
    let found = found.into_data().try_into_vec::<f32>().unwrap();
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= 1e-5 * expected.abs().max(1.0),
            "{name}[{index}]: found {found}, expected {expected}"
        );
    }
}

#[test]
fn closed_forms() {
    let golden = Golden::open("closed_forms");
    let device = Device::default();
    let kl = gaussian::kl_divergence(
        golden.tensor("kl.mean_q", &device),
        golden.tensor("kl.log_std_q", &device),
        golden.tensor("kl.mean_p", &device),
        golden.tensor("kl.log_std_p", &device),
    );
    assert_each_close("kl", &golden.values("kl.value"), kl);

    let column = |name: &str| golden.tensor::<1>(name, &device).unsqueeze_dim::<2>(1);
    let bernoulli = bernoulli::log_likelihood(column("bernoulli.x"), column("bernoulli.logits"));
    assert_each_close("bernoulli", &golden.values("bernoulli.value"), bernoulli);

    let (x, mean) = (golden.values("gaussian.x"), golden.values("gaussian.mean"));
    for (row, std) in golden.values("gaussian.std").into_iter().enumerate() {
        let value = |v: &[f32]| Tensor::<2>::from_floats([[v[row]]], &device);
        let found = gaussian::log_density(value(&x), value(&mean), f64::from(std));
        let expected = golden.values("gaussian.value")[row];
        assert_each_close("gaussian", &[expected], found);
    }
}
