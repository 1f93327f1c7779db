//! Prior and posterior of a latent scene: convolutional DRAW (Gregor et al. 2016).

use super::map_lstm::{Cut, MapLstm, MapSizes, MapState};
use crate::{
    DiagonalGaussian, Distribution, KlFrom,
    visual::{Filter, Kernel},
};
use burn::{module::Module, nn::Linear, tensor::Tensor};
use mnemora_kernels::split::halves;
use mnemora_memory::{Count, Initializer};

/// From an LSTM's state to a belief.
pub(super) const TO_BELIEF: Kernel = Kernel::same(5);
/// Bounds of the log variance of a belief; with `posterior_relative`, for the posterior, of its difference from the prior's.
const LOG_VARIANCE: [f64; 2] = [-8.0, 4.0];

/// Channels of the networks.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawSizes {
    /// Of what is seen of the context.
    pub(super) context: usize,
    /// Of the sum over the targets.
    pub(super) representation: usize,
    pub(super) encoded: usize,
    pub(super) hidden: usize,
    pub(super) latent: usize,
    pub(super) kernel: usize,
    /// Sets of weights: one for all steps, or one for each.
    pub(super) sets: usize,
    /// By how much the LSTM's maps are smaller than those of the representation.
    pub(super) stride: usize,
    pub(super) posterior_sees_prior: bool,
    pub(super) posterior_relative: bool,
    /// Pixels of the LSTM's maps if a channel of a latent is a single number that is spread over them.
    pub(super) spread_over: Option<usize>,
}

/// One of the two networks, at one step.
#[derive(Module, Debug)]
pub struct DrawNet {
    /// From the representation to the LSTM's input.
    pub encode: Filter,
    /// On `[h; encoded representation; z_{l-1}]`, for the posterior also the prior's state.
    pub lstm: MapLstm,
    /// To the mean and the log variance of `z_l`.
    pub belief: Filter,
    stride: usize,
    pooled: bool,
}

impl DrawNet {
    fn new(sizes: &DrawSizes, posterior: bool, init: &mut Initializer) -> Self {
        let DrawSizes {
            context,
            representation,
            encoded,
            hidden,
            latent,
            kernel,
            stride,
            ..
        } = *sizes;
        let seen = match posterior {
            true => context + representation,
            false => context,
        };
        let from_prior = match posterior && sizes.posterior_sees_prior {
            true => hidden,
            false => 0,
        };
        let lstm = MapSizes {
            hidden,
            given: encoded,
            inputs: latent + from_prior,
        };
        Self {
            encode: Filter::new([seen, encoded], Kernel::patches(stride), init),
            lstm: MapLstm::new(lstm, kernel, init),
            belief: Filter::new([hidden, 2 * latent], TO_BELIEF, init),
            stride,
            pooled: sizes.spread_over.is_some(),
        }
    }

    /// The belief about a latent: of each pixel, or the mean over all of them.
    fn believe(&self, hidden: Tensor<4>) -> DiagonalGaussian {
        if !self.pooled {
            return belief(&self.belief, hidden);
        }
        let parameters: Tensor<3> = self.belief.forward(hidden, TO_BELIEF).flatten(2, 3);
        of_parameters(parameters.mean_dim(2).squeeze_dim(2))
    }

    fn kept(&self, pixels: usize) -> Count {
        let encoded = self.encode.bias.shape()[0];
        let belief = self.belief.bias.shape()[0];
        self.lstm.kept(pixels) + Count::product(&[encoded + 4 * belief, pixels])
    }
}

/// The belief that a layer makes of an LSTM's state: means, then log variances.
pub(super) fn belief(layer: &Filter, hidden: Tensor<4>) -> DiagonalGaussian {
    of_parameters(layer.forward(hidden, TO_BELIEF).flatten(1, 3))
}

/// The belief of which these are the means, then the log variances, each half of the columns.
pub(super) fn of_parameters(parameters: Tensor<2>) -> DiagonalGaussian {
    let (mean, log_variance) = halves(parameters, LOG_VARIANCE);
    DiagonalGaussian {
        mean,
        log_std: log_variance.mul_scalar(0.5),
    }
}

/// One of the two networks while a scene is drawn.
pub struct Pass<'a> {
    nets: &'a [DrawNet],
    /// For each set of weights, with the given part of its gates.
    cuts: Vec<(Cut, Tensor<4>)>,
    /// After the last step; none before the first.
    pub state: Option<MapState>,
}

impl<'a> Pass<'a> {
    fn new(nets: &'a [DrawNet], representation: &Tensor<4>) -> Self {
        let cuts: Vec<_> = nets
            .iter()
            .map(|net| {
                let cut = net.lstm.cut();
                let encoded = net
                    .encode
                    .forward(representation.clone(), Kernel::patches(net.stride));
                let given = cut.given(encoded);
                (cut, given)
            })
            .collect();
        Self {
            nets,
            cuts,
            state: None,
        }
    }

    /// The LSTM's new hidden state, and the belief about the next latent.
    fn step(&mut self, step: usize, inputs: Vec<Tensor<4>>) -> (Tensor<4>, DiagonalGaussian) {
        let set = step.min(self.nets.len() - 1);
        let (cut, given) = &self.cuts[set];
        let state = cut.step(given.clone(), inputs, self.state.take());
        let hidden = state.hidden.clone();
        self.state = Some(state);
        (hidden.clone(), self.nets[set].believe(hidden))
    }
}

/// Prior and posterior while a scene is drawn, with what does not change from step to step.
pub struct Drawing<'a> {
    /// The prior.
    pub prior: Pass<'a>,
    /// The posterior, if the targets are known.
    pub posterior: Option<Pass<'a>>,
    posterior_sees_prior: bool,
    posterior_relative: bool,
}

impl Drawing<'_> {
    /// `p_l` and, if the targets are known, `q_l`, from `z_{l-1}`, `[rows, latent, height, width]`, which is zero
    /// (none) at the first step; steps count from 0.
    pub fn step(
        &mut self,
        step: usize,
        before: Option<Tensor<4>>,
    ) -> (DiagonalGaussian, Option<DiagonalGaussian>) {
        let before: Vec<_> = before.into_iter().collect();
        let (hidden, expected) = self.prior.step(step, before.clone());
        let found = self.posterior.as_mut().map(|posterior| {
            let mut inputs = before;
            if self.posterior_sees_prior {
                inputs.push(hidden);
            }
            let told = posterior.step(step, inputs).1;
            if !self.posterior_relative {
                return told;
            }
            DiagonalGaussian {
                mean: expected.mean.clone() + told.mean,
                log_std: expected.log_std.clone() + told.log_std,
            }
        });
        (expected, found)
    }
}

/// A latent scene, with what was believed of each of its maps.
#[derive(Clone, Debug)]
pub struct Beliefs {
    /// `z_l` of each step, `[rows, latent, height, width]`.
    pub latents: Vec<Tensor<4>>,
    /// KL of the posterior from the prior of each step, `[rows]` in nats; empty for samples of the prior.
    pub kl: Vec<Tensor<1>>,
}

/// Prior and posterior of a latent scene `z = (z_1, .., z_n)`. With the sums of representations of the context, `r_C`,
/// and of the targets, `r_T`, for each step l:
///
/// ```text
/// h_p, c_p = ConvLSTM_p([encode_p(r_C)       ; z_{l-1}     ], h_p, c_p)     p_l = N(belief_p(h_p))
/// h_q, c_q = ConvLSTM_q([encode_q([r_C; r_T]); z_{l-1}; h_p], h_q, c_q)     q_l = N(belief_q(h_q))
/// z_l ~ q_l, or p_l if the targets are not known
/// ```
///
/// With `posterior_relative`, `belief_q` is the difference from the mean and the log variance of p_l, as in NVAE (Vahdat and
/// Kautz 2020, section 3.2). If the context determines the scene, the network only has to output zeros. Both p_l's log
/// variance and the difference are bounded, so that of q_l is from -16 to 8.
///
/// A latent may be of single numbers: beliefs are then means over the maps, and a linear map spreads z_l over them.
///
/// Kumar et al. 2018, appendix B, gives sizes only; the equations are those of a conditional convolutional DRAW.
#[derive(Module, Debug)]
pub struct ConvDraw {
    /// One network for all steps, or one for each.
    pub prior: Vec<DrawNet>,
    /// The same.
    pub posterior: Vec<DrawNet>,
    /// From a latent of single numbers to maps, without a bias.
    pub spread: Option<Linear>,
    latent: usize,
    posterior_sees_prior: bool,
    posterior_relative: bool,
}

impl ConvDraw {
    pub(super) fn new(sizes: &DrawSizes, init: &mut Initializer) -> Self {
        let mut nets = |posterior| {
            (0..sizes.sets)
                .map(|_| DrawNet::new(sizes, posterior, init))
                .collect()
        };
        Self {
            prior: nets(false),
            posterior: nets(true),
            spread: sizes
                .spread_over
                .map(|pixels| init.linear_without_bias(sizes.latent, sizes.latent * pixels)),
            latent: sizes.latent,
            posterior_sees_prior: sizes.posterior_sees_prior,
            posterior_relative: sizes.posterior_relative,
        }
    }

    /// Numbers kept for a step of a row, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        self.prior[0].kept(pixels) + self.posterior[0].kept(pixels)
    }

    /// Prior and posterior before the first step, with all states zero.
    ///
    /// # Shapes
    /// - `context`, `targets`: `[rows, channels, height, width]`
    pub fn begin(&self, context: Tensor<4>, targets: Option<Tensor<4>>) -> Drawing<'_> {
        Drawing {
            prior: Pass::new(&self.prior, &context),
            posterior: targets.map(|targets| {
                let both = Tensor::cat(vec![context, targets], 1);
                Pass::new(&self.posterior, &both)
            }),
            posterior_sees_prior: self.posterior_sees_prior,
            posterior_relative: self.posterior_relative,
        }
    }

    /// A latent scene of `noise.len()` steps: from the posterior with the representation of `targets`, otherwise from
    /// the prior.
    ///
    /// # Shapes
    /// - `context`, `targets`: `[rows, channels, height, width]`
    /// - `noise`: of each step, standard normal, `[rows, latent * height / stride * width / stride]`, or `[rows, latent]` for
    ///   latents of single numbers
    pub fn draw(
        &self,
        context: Tensor<4>,
        targets: Option<Tensor<4>>,
        noise: Vec<Tensor<2>>,
    ) -> Beliefs {
        let mut drawing = self.begin(context, targets);
        let [_, _, height, width] = drawing.prior.cuts[0].1.dims();
        let (mut latents, mut kl) = (Vec::<Tensor<4>>::new(), Vec::new());
        for (step, noise) in noise.into_iter().enumerate() {
            let (expected, found) = drawing.step(step, latents.last().cloned());
            let z = match found {
                None => expected.sample(noise),
                Some(found) => {
                    let z = found.sample(noise);
                    kl.push(expected.kl_from(&found, &z));
                    z
                }
            };
            let z = match &self.spread {
                None => z,
                Some(spread) => spread.forward(z),
            };
            let rows = z.dims()[0];
            latents.push(z.reshape([rows, self.latent, height, width]));
        }
        Beliefs { latents, kl }
    }
}
