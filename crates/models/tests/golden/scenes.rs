//! The GQN and the consistent GQN compared with the NumPy implementation in `reference/`: values and gradients.

use super::{Compare, Load, Path, check_gradients, initializer};
use crate::file::{Golden, assert_close};
use burn::{
    module::Module,
    tensor::{Device, Gradients, Tensor},
};
use mnemora_models::{
    Cgqn, CgqnConfig, DiagonalGaussian, GqnConfig, ImageShape, Latents, NetworkName, Views,
    scenes::{KnownScene, MapState},
};

/// A stored tensor: name, shape, values.
type Stored = (String, Vec<usize>, Vec<f32>);

/// Cuts a tensor whose first axis counts steps.
fn of_steps(shape: &[usize], values: &[f32]) -> Vec<(Vec<usize>, Vec<f32>)> {
    let each = values.len() / shape[0];
    let parts = values.chunks(each);
    parts
        .map(|part| (shape[1..].to_vec(), part.to_vec()))
        .collect()
}

/// Weights of the renderer's LSTM on `[h; z; context; v; decoded]` as those on `[h; v; context; z; decoded]`.
fn query_first(
    shape: &[usize],
    values: &[f32],
    [hidden, latents, context, query]: [usize; 4],
) -> Vec<f32> {
    let pixels = shape[2] * shape[3];
    let [of_context, of_query] = [hidden + latents, hidden + latents + context];
    let decoded = of_query + query;
    let order = (0..hidden)
        .chain(of_query..decoded)
        .chain(of_context..of_query)
        .chain(hidden..of_context)
        .chain(decoded..shape[1]);
    let order: Vec<usize> = order.collect();
    let gates = values.chunks(shape[1] * pixels);
    gates
        .flat_map(|gate| {
            order
                .iter()
                .flat_map(|channel| gate[channel * pixels..][..pixels].to_vec())
        })
        .collect()
}

/// What decides the layout of a file's parameters.
struct Choices {
    config: CgqnConfig,
    query: usize,
}

impl Choices {
    fn new(golden: &Golden, config: CgqnConfig) -> Self {
        let size = |name: &str, axis: usize| golden.shape(name)[axis];
        let of_step = usize::from(!config.shared);
        let latent = golden.shape("noise").len() - 3;
        Self {
            query: size("target_queries", 2),
            config: CgqnConfig {
                steps: size("noise", 0),
                latent: size("noise", latent),
                representation: [1, 2, 3, 4]
                    .map(|layer| size(&format!("representation.{layer}.bias"), 0)),
                hidden: size("renderer.lstm.bias", of_step) / 4,
                encoded: size("prior.encode.bias", of_step),
                canvas: size("renderer.canvas.bias", of_step),
                decoded: size("renderer.decode.bias", of_step),
                ..config
            },
        }
    }

    /// A parameter or its gradient under the names and in the order of the model.
    fn renamed(&self, (name, shape, values): Stored) -> Vec<Stored> {
        let (prefix, path) = match name.strip_prefix("grad.") {
            Some(path) => ("grad.", path),
            None => ("", name.as_str()),
        };
        let Some((network, rest)) = path.split_once('.') else {
            return vec![(name, shape, values)];
        };
        let of_steps_of = match network {
            "representation" => {
                let (layer, rest) = rest.split_once('.').unwrap();
                let layer = layer.parse::<usize>().unwrap() - 1;
                let name = format!("{prefix}representation.layers.{layer}.{rest}");
                return vec![(name, shape, values)];
            }
            "renderer" if rest.starts_with("frame.") => return vec![(name, shape, values)],
            "renderer" => "renderer.steps".to_owned(),
            "prior" | "posterior" => format!("draw.{network}"),
            "context" => {
                let name = match rest.strip_prefix("see.") {
                    Some(rest) => format!("{prefix}context.{rest}"),
                    None => format!("{prefix}attention.{rest}"),
                };
                return vec![(name, shape, values)];
            }
            "spread" => {
                let name = format!("{prefix}draw.spread.{rest}");
                return vec![(name, shape, values)];
            }
            "latents" => {
                let name = format!("{prefix}latents_look.{rest}");
                return vec![(name, shape, values)];
            }
            _ => return vec![(name, shape, values)],
        };
        let config = &self.config;
        let latents = match config.all_latents {
            true => config.steps * config.latent,
            false => config.latent,
        };
        let context = match config.renderer_sees_context {
            true => config.encoded,
            false => 0,
        };
        let parts = match config.shared {
            true => vec![(shape, values)],
            false => of_steps(&shape, &values),
        };
        let parts = parts.into_iter().enumerate();
        parts
            .map(|(step, (shape, values))| {
                let values = match path {
                    "renderer.lstm.weight" => query_first(
                        &shape,
                        &values,
                        [config.hidden, latents, context, self.query],
                    ),
                    _ => values,
                };
                (
                    format!("{prefix}{of_steps_of}.{step}.{rest}"),
                    shape,
                    values,
                )
            })
            .collect()
    }

    fn rename(&self, golden: &Golden) -> Golden {
        let all = golden.names().into_iter().flat_map(|name| {
            let (shape, values) = (golden.shape(&name), golden.values(&name));
            self.renamed((name, shape, values))
        });
        Golden::of(all.collect())
    }
}

/// Views of `[scenes, views, ..]`; none if the file has none.
fn views(golden: &Golden, of: &str, device: &Device) -> Option<Views> {
    let (frames, queries) = (format!("{of}_frames"), format!("{of}_queries"));
    if !golden.has(&frames) {
        return None;
    }
    let [scenes, each, channels, height, width] = golden.shape(&frames).try_into().unwrap();
    let query = golden.shape(&queries)[2];
    Some(Views {
        frames: golden.tensor::<5>(&frames, device).reshape([
            scenes * each,
            channels,
            height,
            width,
        ]),
        queries: golden
            .tensor::<3>(&queries, device)
            .reshape([scenes * each, query]),
        each,
    })
}

/// `[steps, scenes, .., latent, height, width]` as `[scenes, ..]` with the steps before the latents' maps.
fn noise(golden: &Golden, latents: Latents, device: &Device) -> Tensor<2> {
    let shape = golden.shape("noise");
    let (steps, scenes) = (shape[0], shape[1]);
    let maps: usize = shape[shape.len() - 3..].iter().product();
    let each = match latents {
        Latents::Factored => shape[2],
        _ => 1,
    };
    let values = Tensor::<1>::from_floats(golden.values("noise").as_slice(), device);
    values
        .reshape([steps, scenes, each, maps])
        .permute([1, 2, 0, 3])
        .reshape([scenes, each * steps * maps])
}

/// The sum over all but scenes of `[steps, scenes, ..]`.
fn kl_of_scenes(golden: &Golden) -> Vec<f32> {
    let shape = golden.shape("kl");
    let scenes = shape[1];
    let each: usize = shape[2..].iter().product();
    let mut sums = vec![0.0; scenes];
    for (place, kl) in golden.values("kl").into_iter().enumerate() {
        sums[place / each % scenes] += kl;
    }
    sums
}

/// Latents and KL of each step, and the frames of the stored latents.
fn check_steps(
    golden: &Golden,
    model: &Cgqn,
    known: &KnownScene,
    (targets, seen): (&Views, usize),
    noise: &Tensor<2>,
) {
    let [steps, scenes, ..] = golden.shape("latents")[..] else {
        panic!("latents of steps and scenes");
    };
    let seen = match seen {
        0 => targets.clone(),
        count => targets.first(count),
    };
    let seen = model.represent(Some(&seen), scenes).sum;
    let size: usize = golden.shape("noise")[2..].iter().product();
    let noise = (0..steps).map(|step| noise.clone().narrow(1, step * size, size));
    let draw = model.draw.as_ref().unwrap();
    let beliefs = draw.draw(model.seen_by_latents(known), Some(seen), noise.collect());
    let latents = Tensor::cat(beliefs.latents, 0);
    assert_close("latents", &golden.values("latents"), latents);
    let kl = Tensor::cat(beliefs.kl, 0);
    assert_close("kl of steps", &golden.values("kl"), kl);
    let stored: Tensor<5> = golden.tensor("latents", &targets.frames.device());
    let stored: Vec<Tensor<4>> = stored
        .chunk(steps, 0)
        .into_iter()
        .map(|z| z.squeeze_dim(0))
        .collect();
    if model.context.is_none() {
        let queries = targets.queries.clone();
        let frames = model.renderer.render(&stored, None, queries);
        assert_close("rendered latents", &golden.values("frames"), frames);
    }
}

fn check_bound(file: &str, latents: Latents, config: CgqnConfig) {
    let golden = Golden::open(file);
    let choices = Choices::new(&golden, config);
    let golden = choices.rename(&golden);
    let device = Device::default().autodiff();
    let targets = views(&golden, "target", &device).unwrap();
    let [_, channels, height, width] = targets.frames.dims();
    let frame = ImageShape {
        channels,
        height,
        width,
    };
    let init = &mut initializer(&device);
    let model: Cgqn = choices
        .config
        .init(latents, frame, choices.query, init)
        .unwrap();
    let model = model.map(&mut Load(&golden, Path::default()));
    let context = views(&golden, "context", &device);
    let known = model.represent(context.as_ref(), targets.scenes());
    let noise = noise(&golden, latents, &device);
    if latents == Latents::Consistent {
        let seen = choices.config.posterior_targets;
        check_steps(&golden, &model, &known, (&targets, seen), &noise);
    }
    let found = model.bound(&known, &targets, noise.clone());
    let variance = f64::from(golden.values("pixel_variance")[0]);
    assert_close("frames", &golden.values("frames"), found.frames.clone());
    assert_close("kl", &kl_of_scenes(&golden), found.kl.clone());
    let likelihood = found.squared_error.clone().mul_scalar(-0.5 / variance);
    let name = "reconstruction_without_constant";
    assert_close(name, &golden.values(name), likelihood);
    let bound = found.without_constant(variance).mean();
    let name = "bound_without_constant";
    assert_close(name, &golden.values(name), bound.clone());
    let sampled = model.sample(&known, targets.queries, noise);
    assert_close("sampled_frames", &golden.values("sampled_frames"), sampled);
    check_gradients(&golden, &model, bound.backward());
}

/// A file of one network, which has no representation.
struct OfPart {
    golden: Golden,
    choices: Choices,
    device: Device,
}

impl OfPart {
    /// `representation` are the channels of a representation.
    fn open(file: &str, query: usize, config: CgqnConfig) -> Self {
        let choices = Choices { config, query };
        Self {
            golden: choices.rename(&Golden::open(file)),
            choices,
            device: Device::default().autodiff(),
        }
    }

    /// A model of these sizes; its values do not matter.
    fn model(&self) -> Cgqn {
        let frame = ImageShape {
            channels: 3,
            height: 24,
            width: 24,
        };
        let init = &mut initializer(&self.device);
        let config = &self.choices.config;
        let query = self.choices.query;
        config
            .init(Latents::Consistent, frame, query, init)
            .unwrap()
    }

    /// A network with the stored parameters; `name` is its name in the model.
    fn load<M: Module>(&self, network: M, name: &str) -> M {
        network.map(&mut Load(&self.golden, Path(vec![Some(name.to_owned())])))
    }

    /// The numbers of a given array, of which a gradient is stored.
    fn given(&self, name: &str) -> Tensor<1> {
        let values = self.golden.values(name);
        Tensor::<1>::from_floats(values.as_slice(), &self.device).require_grad()
    }

    /// The same in their shape.
    fn shaped<const D: usize>(&self, name: &str, given: &Tensor<1>) -> Tensor<D> {
        let shape: [usize; D] = self.golden.shape(name).try_into().unwrap();
        given.clone().reshape(shape)
    }

    /// Compares an output; returns its part of the objective.
    fn output<const D: usize>(&self, name: &str, found: Tensor<D>) -> Tensor<1> {
        assert_close(name, &self.golden.values(name), found.clone());
        let probe = self.golden.values(&format!("probe.{name}"));
        let probe = Tensor::<1>::from_floats(probe.as_slice(), &self.device);
        (found.reshape([-1]) * probe).sum()
    }

    /// Compares the gradients of a network and of what was given: all that are stored.
    fn check<M: Module>(
        &self,
        (network, name): (&M, &str),
        given: &[(&str, Tensor<1>)],
        objective: Tensor<1>,
    ) {
        let gradients: Gradients = objective.backward();
        let mut compared = 0;
        for (name, given) in given {
            let name = format!("grad.{name}");
            let found = given
                .grad(&gradients)
                .unwrap_or_else(|| panic!("{name}: none"));
            compared += found.shape().num_elements();
            assert_close(&name, &self.golden.values(&name), found);
        }
        let mut compare = Compare {
            golden: &self.golden,
            path: Path(vec![Some(name.to_owned())]),
            gradients,
            compared,
        };
        network.visit(&mut compare);
        let names = self.golden.names().into_iter();
        let stored = names.filter(|name| name.starts_with("grad."));
        let numbers = stored.map(|name| self.golden.values(&name).len());
        assert_eq!(compare.compared, numbers.sum::<usize>());
    }
}

/// A step of prior and posterior that is not the first: states and the latent before are given.
#[test]
fn a_step_of_prior_and_posterior() {
    let golden = Golden::open("conv_draw");
    let size = |name: &str, axis: usize| golden.shape(name)[axis];
    let config = CgqnConfig {
        latent: size("latent", 1),
        representation: [size("r_context", 1); 4],
        hidden: size("prior.lstm.bias", 0) / 4,
        encoded: size("prior.encode.bias", 0),
        ..CgqnConfig::default()
    };
    let file = OfPart::open("conv_draw", 2, config);
    let draw = file.load(file.model().draw.unwrap(), "draw");
    let names = [
        "r_context",
        "r_targets",
        "latent",
        "prior_hidden_before",
        "prior_cell_before",
        "posterior_hidden_before",
        "posterior_cell_before",
    ];
    let given = names.map(|name| (name, file.given(name)));
    let shaped = given
        .each_ref()
        .map(|(name, given)| file.shaped::<4>(name, given));
    let [context, targets, latent, states @ ..] = shaped;
    let [hidden, cell, posterior_hidden, posterior_cell] = states;
    let mut drawing = draw.begin(context, Some(targets));
    drawing.prior.state = Some(MapState { hidden, cell });
    drawing.posterior.as_mut().unwrap().state = Some(MapState {
        hidden: posterior_hidden,
        cell: posterior_cell,
    });
    let (expected, found) = drawing.step(1, Some(latent));
    let outputs = [
        ("prior", expected, drawing.prior.state),
        (
            "posterior",
            found.unwrap(),
            drawing.posterior.unwrap().state,
        ),
    ];
    let terms = outputs.map(|(name, belief, state)| {
        let MapState { hidden, cell } = state.unwrap();
        let DiagonalGaussian { mean, log_std } = belief;
        file.output(&format!("{name}_hidden"), hidden)
            + file.output(&format!("{name}_cell"), cell)
            + file.output(&format!("{name}_mean"), mean)
            + file.output(&format!("{name}_log_variance"), log_std.mul_scalar(2.0))
    });
    let [of_prior, of_posterior] = terms;
    file.check((&draw, "draw"), &given, of_prior + of_posterior);
}

/// Two queries of each of two latent scenes.
#[test]
fn the_renderer() {
    let golden = Golden::open("renderer");
    let size = |name: &str, axis: usize| golden.shape(name)[axis];
    let config = CgqnConfig {
        steps: size("latents", 0),
        latent: size("latents", 2),
        hidden: size("renderer.lstm.bias", 0) / 4,
        canvas: size("renderer.canvas.bias", 0),
        decoded: size("renderer.decode.bias", 0),
        ..CgqnConfig::default()
    };
    let [scenes, each, query] = golden.shape("queries").try_into().unwrap();
    let file = OfPart::open("renderer", query, config);
    let renderer = file.load(file.model().renderer, "renderer");
    let given = ["latents", "queries"].map(|name| (name, file.given(name)));
    let latents: Tensor<5> = file.shaped("latents", &given[0].1);
    let [steps, _, channels, height, width] = latents.dims();
    let parts = latents.chunk(steps, 0).into_iter();
    let parts: Vec<Tensor<4>> = parts
        .map(|z| z.reshape([scenes, channels, height, width]))
        .collect();
    let queries = given[1].1.clone().reshape([scenes * each, query]);
    let frames = renderer.render(&parts, None, queries);
    let objective = file.output("frames", frames);
    file.check((&renderer, "renderer"), &given, objective);
}

#[test]
fn consistent_gqn() {
    check_bound("cgqn", Latents::Consistent, CgqnConfig::default());
}

#[test]
fn consistent_gqn_without_a_context() {
    check_bound(
        "cgqn_no_context",
        Latents::Consistent,
        CgqnConfig::default(),
    );
}

#[test]
fn consistent_gqn_whose_posterior_sees_two_of_three_targets() {
    let config = CgqnConfig {
        posterior_targets: 2,
        ..CgqnConfig::default()
    };
    check_bound("cgqn_subset", Latents::Consistent, config);
}

#[test]
fn consistent_gqn_with_weights_of_each_step() {
    let config = CgqnConfig {
        shared: false,
        ..CgqnConfig::default()
    };
    check_bound("cgqn_own_weights", Latents::Consistent, config);
}

#[test]
fn consistent_gqn_with_other_choices() {
    let config = CgqnConfig {
        posterior_sees_prior: false,
        all_latents: true,
        squashed: true,
        ..CgqnConfig::default()
    };
    check_bound("cgqn_choices", Latents::Consistent, config);
}

#[test]
fn consistent_gqn_whose_renderer_sees_the_context() {
    let config = CgqnConfig {
        renderer_sees_context: true,
        ..CgqnConfig::default()
    };
    check_bound("cgqn_sees_context", Latents::Consistent, config);
}

#[test]
fn consistent_gqn_whose_targets_look_at_views() {
    let config = CgqnConfig {
        renderer_sees_context: true,
        attention: 2,
        shared: false,
        ..CgqnConfig::default()
    };
    check_bound("cgqn_attention", Latents::Consistent, config);
}

#[test]
fn consistent_gqn_whose_latents_look_at_views() {
    let config = CgqnConfig {
        renderer_sees_context: true,
        attention: 2,
        latents_look: true,
        ..CgqnConfig::default()
    };
    check_bound("cgqn_latents_look", Latents::Consistent, config);
}

#[test]
fn consistent_gqn_with_latents_of_single_numbers() {
    let config = CgqnConfig {
        single_latents: true,
        ..CgqnConfig::default()
    };
    check_bound("cgqn_single_latents", Latents::Consistent, config);
}

#[test]
fn consistent_gqn_whose_posterior_tells_how_it_differs() {
    let config = CgqnConfig {
        posterior_relative: true,
        ..CgqnConfig::default()
    };
    check_bound("cgqn_relative", Latents::Consistent, config);
}

#[test]
fn factored_gqn() {
    check_bound("gqn", Latents::Factored, CgqnConfig::default());
}

/// The name of a parameter, or of its gradient, of the GQN in its original form.
fn original_name(name: &str) -> String {
    let (prefix, path) = match name.strip_prefix("grad.") {
        Some(path) => ("grad.", path),
        None => ("", name),
    };
    let path = match path.split_once('.') {
        Some(("representation", rest)) => {
            let (layer, rest) = rest.split_once('.').unwrap();
            let layer = layer.parse::<usize>().unwrap() - 1;
            format!("representation.layers.{layer}.{rest}")
        }
        Some(("inference", rest)) if rest.starts_with("frame.") => rest.to_owned(),
        Some(("generator", rest)) if rest.starts_with("frame.") => {
            rest.replace("frame.", "output.")
        }
        Some(("inference" | "generator", _)) => format!("steps.0.{path}"),
        _ => path.to_owned(),
    };
    format!("{prefix}{path}")
}

#[test]
fn gqn_in_its_original_form() {
    let golden = Golden::open("gqn_original");
    let all = golden.names().into_iter().map(|name| {
        let (shape, values) = (golden.shape(&name), golden.values(&name));
        (original_name(&name), shape, values)
    });
    let golden = Golden::of(all.collect());
    let size = |name: &str, axis: usize| golden.shape(name)[axis];
    let config = GqnConfig {
        steps: size("noise", 0),
        hidden: size("output.weight", 1),
        latent: size("noise", 3),
        network: NetworkName::Pool,
        wide: size("representation.layers.0.bias", 0),
        narrow: size("representation.layers.2.bias", 0),
        shared: true,
    };
    let device = Device::default().autodiff();
    let [context, targets] = ["context", "target"].map(|of| views(&golden, of, &device).unwrap());
    let [_, channels, height, width] = targets.frames.dims();
    let frame = ImageShape {
        channels,
        height,
        width,
    };
    let query = targets.queries.dims()[1];
    let model = config
        .init(frame, query, &mut initializer(&device))
        .unwrap();
    let model = model.map(&mut Load(&golden, Path::default()));
    let known = model.represent(Some(&context), targets.scenes());
    let noise = noise(&golden, Latents::Factored, &device);
    let found = model.bound(known.clone(), &targets, noise.clone());
    assert_close("frames", &golden.values("frames"), found.frames.clone());
    assert_close("kl", &kl_of_scenes(&golden), found.kl.clone());
    let variance = f64::from(golden.values("pixel_variance")[0]);
    let bound = found.without_constant(variance).mean();
    let name = "bound_without_constant";
    assert_close(name, &golden.values(name), bound.clone());
    let sampled = model.sample(known, targets.queries, noise);
    assert_close("sampled_frames", &golden.values("sampled_frames"), sampled);
    check_gradients(&golden, &model, bound.backward());
}

/// The sizes of the paper; `python reference/cgqn.py --count` prints the numbers.
#[test]
fn parameters_at_paper_sizes() {
    let frame = ImageShape {
        channels: 3,
        height: 64,
        width: 64,
    };
    let dice = CgqnConfig {
        steps: 6,
        hidden: 128,
        decoded: 128,
        ..CgqnConfig::default()
    };
    for (config, query, expected) in [
        (
            CgqnConfig::default(),
            1,
            [14_552, 1_274_374, 1_700_358, 916_931],
        ),
        (dice, 7, [14_744, 3_351_430, 5_006_214, 3_542_787]),
    ] {
        for latents in [Latents::Consistent, Latents::Factored] {
            let init = &mut initializer(&Device::default());
            let model = config.init(latents, frame, query, init).unwrap();
            let draw = model.draw.unwrap();
            let found = [
                model.representation.num_params(),
                draw.prior.num_params(),
                draw.posterior.num_params(),
                model.renderer.num_params(),
            ];
            assert_eq!(found, expected);
        }
    }
}
