//! The GQN in its original form (Eslami et al. 2018, supplement): a generator that draws on a canvas, and an inference
//! network that looks at the canvas.

use super::{
    SceneBound, Views,
    conv_draw::{TO_BELIEF, belief},
    map_lstm::{Cut, MapLstm, MapSizes, MapState},
    repeated,
    representation::{SHRUNK, summed},
    view_net::{NetworkName, ViewNet},
};
use crate::{
    DiagonalGaussian, Distribution, ImageShape, KlFrom, ModelError,
    visual::{Filter, Kernel},
};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use mnemora_kernels::conv::{conv2d, transposed_conv2d};
use mnemora_memory::{Count, Initializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From the canvas to the frame.
const TO_FRAME: Kernel = Kernel::same(1);
/// Rows and columns of the LSTMs' kernels.
const KERNEL: usize = 5;

/// Sizes and choices of a [`Gqn`]; the defaults are those of the rooms of Eslami et al.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GqnConfig {
    /// Steps, each with its own part of the latent.
    pub steps: usize,
    /// Channels of the LSTMs and of the canvas.
    pub hidden: usize,
    /// Channels of each part of the latent.
    pub latent: usize,
    /// The representation network.
    pub network: NetworkName,
    /// Channels of a representation.
    pub wide: usize,
    /// Channels of the tower's narrow layers.
    pub narrow: usize,
    /// Whether all steps have the same weights.
    pub shared: bool,
}

impl Default for GqnConfig {
    fn default() -> Self {
        Self {
            steps: 12,
            hidden: 128,
            latent: 3,
            network: NetworkName::Tower,
            wide: 256,
            narrow: 128,
            shared: true,
        }
    }
}

/// A convolution of patches without bias; transposed, back to patches.
#[derive(Module, Debug)]
pub struct Patches {
    /// `[outputs, inputs, 4, 4]`; if transposed, `[inputs, outputs, 4, 4]`.
    pub weight: Param<Tensor<4>>,
}

impl Patches {
    /// Weights uniform within `1 / sqrt(n)` for n products in an output.
    fn new(shape: [usize; 2], products: usize, init: &mut Initializer) -> Self {
        let bound = 1.0 / (products as f64).sqrt();
        Self {
            weight: init.uniform([shape[0], shape[1], SHRUNK, SHRUNK], bound),
        }
    }

    fn down(&self, maps: Tensor<4>) -> Tensor<4> {
        let weight = self.weight.val();
        let none = Tensor::zeros([weight.dims()[0]], &weight.device());
        conv2d(maps, weight, none, SHRUNK, 0)
    }

    fn up(&self, maps: Tensor<4>) -> Tensor<4> {
        let weight = self.weight.val();
        let none = Tensor::zeros([weight.dims()[1]], &weight.device());
        transposed_conv2d(maps, weight, none, SHRUNK, 0, 0)
    }
}

/// The inference network at one step.
#[derive(Module, Debug)]
pub struct Inference {
    /// From the canvas to the LSTM's input.
    pub canvas: Patches,
    /// On `[h_e; frame; v; r; h_g; canvas]`.
    pub lstm: MapLstm,
    /// To the mean and the log variance of `z_l`.
    pub belief: Filter,
}

/// The generator at one step.
#[derive(Module, Debug)]
pub struct Generator {
    /// To the mean and the log variance of `z_l`.
    pub belief: Filter,
    /// On `[h_g; v; r; z_l]`.
    pub lstm: MapLstm,
    /// From the LSTM's state to what is added to the canvas; transposed.
    pub canvas: Patches,
}

/// The weights of a step.
#[derive(Module, Debug)]
pub struct GqnStep {
    /// The posterior.
    pub inference: Inference,
    /// The prior, and what it draws.
    pub generator: Generator,
}

/// The GQN (Eslami et al. 2018). Each target has its own latent:
///
/// ```text
/// r = sum_k M(x_k, v_k) over the context;  h_g, c_g, h_e, c_e = 0,  u = 0
/// for l = 1..L:
///     pi_l = N(belief_g(h_g))
///     h_e, c_e = ConvLSTM_e([frame_e(x_q); v_q; r; h_g; canvas_e(u)], h_e, c_e)     q_l = N(belief_e(h_e))
///     z_l ~ q_l, or pi_l if the target is not known
///     h_g, c_g = ConvLSTM_g([v_q; r; z_l], h_g, c_g)                                u = u + canvas_g(h_g)
/// x = frame_g(u),  bound = log N(x_q; x, variance) - sum_l KL(q_l || pi_l)
/// ```
///
/// Maps of the LSTMs have a quarter of the frame's rows and columns, the canvas has all of them.
#[derive(Module, Debug)]
pub struct Gqn {
    /// `M`
    pub representation: ViewNet,
    /// From a target to the inference network's input.
    pub frame: Patches,
    /// One set of weights for all steps, or one for each.
    pub steps: Vec<GqnStep>,
    /// From the canvas to the frame.
    pub output: Filter,
    count: usize,
    latent: usize,
    height: usize,
    width: usize,
}

impl GqnConfig {
    /// Builds the model for frames of a shape and queries of `query` numbers.
    ///
    /// # Errors
    /// If a size is 0, or the representation network cannot divide a frame's sides.
    pub fn init(
        &self,
        frame: ImageShape,
        query: usize,
        init: &mut Initializer,
    ) -> Result<Gqn, ModelError> {
        ModelError::require_positive(&[
            ("steps", self.steps),
            ("hidden", self.hidden),
            ("latent", self.latent),
            ("narrow", self.narrow),
        ])?;
        let Self {
            hidden,
            latent,
            wide,
            narrow,
            ..
        } = *self;
        let ImageShape {
            channels,
            height,
            width,
        } = frame;
        let representation =
            ViewNet::new(self.network, frame, query, [wide, narrow], "wide", init)?;
        let taps = SHRUNK * SHRUNK;
        let sets = if self.shared { 1 } else { self.steps };
        let steps = (0..sets).map(|_| GqnStep {
            inference: Inference {
                canvas: Patches::new([hidden, hidden], taps * hidden, init),
                lstm: MapLstm::new(
                    MapSizes {
                        hidden,
                        given: channels + query + wide,
                        inputs: 2 * hidden,
                    },
                    KERNEL,
                    init,
                ),
                belief: Filter::new([hidden, 2 * latent], TO_BELIEF, init),
            },
            generator: Generator {
                belief: Filter::new([hidden, 2 * latent], TO_BELIEF, init),
                lstm: MapLstm::new(
                    MapSizes {
                        hidden,
                        given: query + wide,
                        inputs: latent,
                    },
                    KERNEL,
                    init,
                ),
                canvas: Patches::new([hidden, hidden], hidden, init),
            },
        });
        Ok(Gqn {
            representation,
            steps: steps.collect(),
            frame: Patches::new([channels, channels], taps * channels, init),
            output: Filter::new([hidden, channels], TO_FRAME, init),
            count: self.steps,
            latent,
            height,
            width,
        })
    }
}

/// What does not change from step to step, with one set of weights.
struct Given<'a> {
    step: &'a GqnStep,
    generator: (Cut, Tensor<4>),
    /// None if the target is not known.
    inference: Option<(Cut, Tensor<4>)>,
}

impl Gqn {
    /// The device that the model is on.
    pub fn device(&self) -> Device {
        self.output.weight.device()
    }

    fn hidden(&self) -> usize {
        self.output.weight.dims()[1]
    }

    /// Rows and columns of the LSTMs' maps.
    fn grid(&self) -> [usize; 2] {
        [self.height, self.width].map(|side| side / SHRUNK)
    }

    /// Numbers of the latent of a target.
    pub fn latent_size(&self) -> usize {
        let [height, width] = self.grid();
        self.count * self.latent * height * width
    }

    /// Standard normal numbers that a scene with `targets` targets needs.
    pub fn noise_size(&self, targets: usize) -> usize {
        targets * self.latent_size()
    }

    /// Numbers kept for a scene with some views.
    pub fn kept(&self, context: usize, targets: usize) -> Count {
        let [height, width] = self.grid();
        let (maps, pixels) = (height * width, self.height * self.width);
        let GqnStep {
            inference,
            generator,
        } = &self.steps[0];
        let beliefs = Count::product(&[16 * self.latent, maps]);
        let canvases = Count::product(&[2 * self.hidden(), pixels]);
        let of_step = inference.lstm.kept(maps) + generator.lstm.kept(maps) + beliefs + canvases;
        let [channels, _, _, _] = self.output.weight.dims();
        self.representation.kept(pixels) * context
            + (of_step * self.count + Count::product(&[3 * channels, pixels])) * targets
    }

    /// What is known of `scenes` scenes, the sum of the representations, `[scenes, channels, ..]`: zeros without a context.
    pub fn represent(&self, context: Option<&Views>, scenes: usize) -> Tensor<4> {
        match context {
            Some(views) => summed(self.representation.forward(views), views.each),
            None => {
                let [height, width] = match self.representation.is_pooled() {
                    true => [1, 1],
                    false => self.grid(),
                };
                let shape = [scenes, self.representation.channels(), height, width];
                Tensor::zeros(shape, &self.device())
            }
        }
    }

    /// The parts of the bound, with one sample of the posterior of each target.
    ///
    /// # Shapes
    /// - `context`: what is [known](Self::represent) of each scene
    /// - `noise`: standard normal, `[scenes, noise_size(targets)]`
    pub fn bound(&self, context: Tensor<4>, targets: &Views, noise: Tensor<2>) -> SceneBound {
        let (scenes, each) = (targets.scenes(), targets.each);
        let queries = targets.queries.clone();
        let (frames, kl) = self.run(context, queries, Some(targets.frames.clone()), noise);
        let kl = kl.into_iter().reduce(|sum, kl| sum + kl);
        let kl = kl.expect("there is at least one step");
        let kl = kl.reshape([scenes, each]).sum_dim(1).squeeze_dim(1);
        SceneBound::of(frames, targets, kl)
    }

    /// Frames of as many queries of every scene, with latents from the prior: `[queries, channels, height, width]`.
    ///
    /// # Shapes
    /// - `context`: what is [known](Self::represent) of each scene
    /// - `queries`: `[scenes * each, query]`, those of one scene after those of another
    /// - `noise`: standard normal, `[scenes, noise_size(each)]`
    pub fn sample(&self, context: Tensor<4>, queries: Tensor<2>, noise: Tensor<2>) -> Tensor<4> {
        self.run(context, queries, None, noise).0
    }

    /// Frames, and the KL of each step, `[queries]`; none without the targets' frames.
    fn run(
        &self,
        context: Tensor<4>,
        queries: Tensor<2>,
        targets: Option<Tensor<4>>,
        noise: Tensor<2>,
    ) -> (Tensor<4>, Vec<Tensor<1>>) {
        let ([rows, _], [height, width]) = (queries.dims(), self.grid());
        let size = self.latent * height * width;
        let noise = noise.reshape([rows, self.count * size]);
        let given = self.given(context, queries, targets);
        let hidden = self.hidden();
        let maps = |side: usize| {
            let shape = [rows, hidden, side * height, side * width];
            Tensor::zeros(shape, &self.device())
        };
        let (mut generator, mut inference): (Option<MapState>, Option<MapState>) = (None, None);
        let mut canvas: Option<Tensor<4>> = None;
        let mut kl = Vec::new();
        for l in 0..self.count {
            let given = &given[l.min(given.len() - 1)];
            let GqnStep {
                inference: infer,
                generator: generate,
            } = given.step;
            let state = generator.as_ref().map(|state| state.hidden.clone());
            let expected = belief(&generate.belief, state.clone().unwrap_or_else(|| maps(1)));
            let noise = noise.clone().narrow(1, l * size, size);
            let z = match &given.inference {
                None => expected.sample(noise),
                Some((cut, of_given)) => {
                    // Before the first step both are zero; weights of that step alone are used all the same.
                    let inputs = match (state, &canvas) {
                        (Some(state), Some(u)) => vec![state, infer.canvas.down(u.clone())],
                        _ if self.steps.len() == 1 => Vec::new(),
                        _ => vec![maps(1), infer.canvas.down(maps(SHRUNK))],
                    };
                    let after = cut.step(of_given.clone(), inputs, inference.take());
                    let found: DiagonalGaussian = belief(&infer.belief, after.hidden.clone());
                    inference = Some(after);
                    let z = found.sample(noise);
                    kl.push(expected.kl_from(&found, &z));
                    z
                }
            };
            let z = z.reshape([rows, self.latent, height, width]);
            let (cut, of_given) = &given.generator;
            let after = cut.step(of_given.clone(), vec![z], generator.take());
            let added = generate.canvas.up(after.hidden.clone());
            generator = Some(after);
            canvas = Some(match canvas {
                Some(u) => u + added,
                None => added,
            });
        }
        let canvas = canvas.expect("there is at least one step");
        (self.output.forward(canvas, TO_FRAME), kl)
    }

    /// The parts of the gates that do not change from step to step, for each set of weights.
    fn given(
        &self,
        context: Tensor<4>,
        queries: Tensor<2>,
        targets: Option<Tensor<4>>,
    ) -> Vec<Given<'_>> {
        let ([rows, query], [height, width]) = (queries.dims(), self.grid());
        let each = rows / context.dims()[0];
        let channels = context.dims()[1];
        let known = repeated(context, each).expand([rows, channels, height, width]);
        let planes = queries
            .reshape([rows, query, 1, 1])
            .expand([rows, query, height, width]);
        let of_generator = Tensor::cat(vec![planes, known], 1);
        let of_inference = targets
            .map(|frames| Tensor::cat(vec![self.frame.down(frames), of_generator.clone()], 1));
        let steps = self.steps.iter().map(|step| {
            let cut = step.generator.lstm.cut();
            let given = cut.given(of_generator.clone());
            Given {
                step,
                generator: (cut, given),
                inference: of_inference.as_ref().map(|maps| {
                    let cut = step.inference.lstm.cut();
                    let given = cut.given(maps.clone());
                    (cut, given)
                }),
            }
        });
        steps.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn config() -> GqnConfig {
        GqnConfig {
            steps: 3,
            hidden: 4,
            latent: 2,
            wide: 8,
            narrow: 3,
            ..GqnConfig::default()
        }
    }

    fn frame(height: usize, width: usize) -> ImageShape {
        ImageShape {
            channels: 3,
            height,
            width,
        }
    }

    fn build(config: &GqnConfig, frame: ImageShape) -> Result<Gqn, ModelError> {
        let rng = ChaCha8Rng::seed_from_u64(1);
        config.init(frame, 2, &mut Initializer::new(rng, Device::default()))
    }

    fn views(scenes: usize, each: usize, phase: f32) -> Views {
        Views {
            frames: numbers([scenes * each, 3, 16, 8], phase, &Device::default()),
            queries: numbers([scenes * each, 2], phase + 1.0, &Device::default()),
            each,
        }
    }

    /// Targets of a scene do not see each other: more of them change neither frames nor KL of the first.
    #[test]
    fn targets_are_independent_with_every_network() {
        for network in NetworkName::OF_GQN {
            for shared in [true, false] {
                let config = GqnConfig {
                    network,
                    shared,
                    ..config()
                };
                let model = build(&config, frame(16, 8)).unwrap();
                let (context, targets) = (views(2, 3, 0.0), views(2, 2, 0.5));
                let noise = numbers([2, model.noise_size(2)], 0.2, &Device::default());
                let known = model.represent(Some(&context), 2);
                let both = model.bound(known.clone(), &targets, noise.clone());
                let of_first = noise.narrow(1, 0, model.noise_size(1));
                let one = model.bound(known.clone(), &targets.first(1), of_first.clone());
                let first = both.frames.reshape([2, 2, 384]).narrow(1, 0, 1);
                let apart = (first.reshape([2, 384]) - one.frames.reshape([2, 384])).abs();
                let apart: f32 = apart.max().into_scalar();
                assert!(apart < 1e-5, "{network:?}");
                let kl: [Vec<f32>; 2] =
                    [both.kl, one.kl].map(|kl| kl.into_data().try_to_vec().unwrap());
                assert!(
                    kl[0]
                        .iter()
                        .zip(&kl[1])
                        .all(|(two, one)| *one > 0.0 && two > one)
                );
                let nothing = model.represent(None, 2);
                assert_eq!(nothing.dims(), known.dims());
                let drawn = model.sample(nothing, targets.first(1).queries, of_first);
                assert_eq!(drawn.dims(), [2, 3, 16, 8]);
            }
        }
    }

    #[test]
    fn frames_that_cannot_be_divided_are_refused() {
        let of = |network| GqnConfig {
            network,
            ..config()
        };
        for (config, frame, said) in [
            (
                of(NetworkName::Tower),
                frame(16, 10),
                "both sides must be multiples of 4",
            ),
            (
                of(NetworkName::Pyramid),
                frame(16, 12),
                "both sides must be multiples of 8",
            ),
            (
                GqnConfig {
                    wide: 4,
                    ..of(NetworkName::Pyramid)
                },
                frame(16, 16),
                "model.wide has 4 channels, it must be a multiple of 8 for the pyramid",
            ),
            (
                GqnConfig {
                    hidden: 0,
                    ..config()
                },
                frame(16, 16),
                "hidden",
            ),
        ] {
            let error = build(&config, frame).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
