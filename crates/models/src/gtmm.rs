//! The generative temporal model with memory (Gemici et al. 2017, gtmm).

use crate::{
    DiagonalGaussian, FilteringModel, Footprint, FrameShape, Likelihood, LikelihoodConfig,
    ModelError, VisualConfig,
    maps::{PosteriorMap, PriorMap},
    visual::{FrameDecoder, FrameEncoder},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mnemora_kernels::split::split_rows;
use mnemora_memory::{
    AnyMemory, Attention, Bundle, Count, Initializer, Memory, MemoryConfig, MemoryContext,
    Previous, TensorMapper,
};

/// Sizes and choices of a [`Gtmm`].
#[derive(Clone, Debug, PartialEq)]
pub struct GtmmConfig {
    /// Shape of a frame.
    pub frame: FrameShape,
    /// The memory, which says the size of `z` and of conditions. One that reads features must take those of
    /// `visual`.
    pub memory: MemoryConfig,
    /// Networks for frames.
    pub visual: VisualConfig,
    /// Hidden units of the prior map, 0 for a linear map.
    pub prior_hidden: usize,
    /// Hidden units of the posterior map, 0 for a linear map.
    pub posterior_hidden: usize,
    /// Likelihood of frames.
    pub likelihood: LikelihoodConfig,
}

/// A temporal VAE whose prior, posterior and observation map know the past through a memory
/// context only (gtmm, equations 7 and 8).
#[derive(Module, Debug)]
pub struct Gtmm<M: Module> {
    /// The memory system.
    pub memory: M,
    /// Visual stem of the posterior map.
    pub encoder: FrameEncoder,
    /// Posterior map `f_q`.
    pub posterior: PosteriorMap,
    /// Prior map `f_z`.
    pub prior: PriorMap,
    /// Observation map `f_x` on `[z_t; Psi]`.
    pub decoder: FrameDecoder,
    latent: usize,
    #[module(skip)]
    likelihood: LikelihoodConfig,
}

/// What conditions a step of a [`Gtmm`].
#[derive(Clone, Debug)]
pub struct GtmmContext<S> {
    memory: MemoryContext,
    state: S,
}

/// What a [`Gtmm`] carries from step to step.
#[derive(Clone, Debug)]
pub struct GtmmState<S> {
    /// State of the memory.
    pub memory: S,
    /// What the last step produced, not yet taken in.
    pub previous: Option<Previous>,
}

/// What a frame alone says to a [`Gtmm`].
#[derive(Clone, Debug)]
pub struct GtmmFeatures {
    /// Output of the visual stem, `[batch, features]`.
    pub stem: Tensor<2>,
    /// Its part of the posterior map's first layer.
    pub projected: Tensor<2>,
}

impl<S: Bundle> Bundle for GtmmState<S> {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            memory: self.memory.map_tensors(mapper),
            previous: self.previous.map_tensors(mapper),
        }
    }
}

impl Bundle for GtmmFeatures {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            stem: self.stem.map_tensors(mapper),
            projected: self.projected.map_tensors(mapper),
        }
    }
}

impl GtmmConfig {
    /// Builds the model with a memory chosen at run time; refuses sizes of zero and sizes that do not fit
    /// together.
    pub fn init(
        &self,
        init: &mut Initializer,
    ) -> Result<Gtmm<mnemora_memory::AnyMemory>, ModelError> {
        if let MemoryConfig::Vrnn(memory) = &self.memory {
            let features = self.visual.features(memory.latent);
            if memory.features != features {
                return Err(ModelError::MemoryFeatures {
                    memory: memory.features,
                    visual: features,
                });
            }
        }
        let memory = self.memory.init(init)?;
        self.init_with(memory, init)
    }

    /// Builds the model around any memory; `self.memory` is not read.
    pub fn init_with<M: Memory>(
        &self,
        memory: M,
        init: &mut Initializer,
    ) -> Result<Gtmm<M>, ModelError> {
        let (latent, context) = (memory.latent_size(), memory.context_size());
        ModelError::require_positive(&[("latent", latent)])?;
        self.likelihood.check()?;
        let features = self.visual.features(latent);
        if self.posterior_hidden == 0 && features != 2 * latent {
            return Err(ModelError::PosteriorFeatures { features, latent });
        }
        Ok(Gtmm {
            encoder: self.visual.encoder(self.frame, latent, init)?,
            posterior: PosteriorMap::new(features, context, self.posterior_hidden, latent, init),
            prior: PriorMap::new(context, self.prior_hidden, latent, init),
            decoder: self.visual.decoder(
                self.frame,
                latent + context,
                self.likelihood.parameters(),
                init,
            )?,
            memory,
            latent,
            likelihood: self.likelihood,
        })
    }
}

impl<M: Memory> Gtmm<M> {
    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.posterior.context.weight.device()
    }
}

impl Gtmm<AnyMemory> {
    /// What learning from sequences of `time` steps keeps, for frames of `pixels` numbers.
    pub fn footprint(&self, pixels: usize, time: usize) -> Footprint {
        let context = Count::from(self.memory.context_size());
        let latent = self.latent;
        let first = self.posterior.context.weight.shape()[1];
        let hidden = self.prior.hidden.as_ref();
        let hidden = hidden.map_or(0, |hidden| hidden.weight.shape()[1]);
        let emission = context + latent;
        let decoder = emission + self.decoder.kept() + self.likelihood.kept(pixels);
        // Priors, and what the divergence of the beliefs keeps.
        let prior = context + 2 * hidden + 10 * latent;
        let outside = Count::from(3 * pixels) + self.encoder.kept() + first + prior + decoder;
        let passing = match &self.encoder {
            FrameEncoder::Dense(_) => outside.divided_by(2),
            // Of many maps two exist at a time.
            FrameEncoder::Inception(_) => outside.divided_by(5),
        };
        let inside = self.memory.kept(time) + emission + context + 2 * first + 6 * latent;
        Footprint {
            decoder,
            passing,
            ..Footprint::of(outside, inside)
        }
    }
}

impl<M: Memory> FilteringModel for Gtmm<M> {
    type State = GtmmState<M::State>;
    type Features = GtmmFeatures;
    type Context = GtmmContext<M::State>;
    type Emission = Tensor<2>;

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn initial_state(&self, batch: usize) -> Self::State {
        GtmmState {
            memory: self.memory.initial_state(batch, &self.device()),
            previous: None,
        }
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<GtmmFeatures> {
        let [batch, time, pixels] = observations.dims();
        let frames = observations.swap_dims(0, 1).reshape([time * batch, pixels]);
        let stem = self.encoder.forward(frames);
        let projected = self.posterior.project(stem.clone());
        split_rows(stem, time)
            .into_iter()
            .zip(split_rows(projected, time))
            .map(|(stem, projected)| GtmmFeatures { stem, projected })
            .collect()
    }

    fn predict(&self, condition: Option<Tensor<2>>, state: Self::State) -> Self::Context {
        let (memory, state) = self.memory.step(state.previous, condition, state.memory);
        GtmmContext { memory, state }
    }

    fn prior_input(&self, context: &Self::Context) -> Tensor<2> {
        context.memory.psi.clone()
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        self.prior.forward(input)
    }

    fn posterior(&self, features: &GtmmFeatures, context: &mut Self::Context) -> DiagonalGaussian {
        self.posterior
            .join(features.projected.clone(), context.memory.psi.clone())
    }

    fn emit(&self, z: Tensor<2>, context: &Self::Context) -> Tensor<2> {
        Tensor::cat(vec![z, context.memory.psi.clone()], 1)
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        Likelihood::from_output(self.likelihood, self.decoder.forward(emissions))
    }

    fn update(
        &self,
        features: &GtmmFeatures,
        z: Tensor<2>,
        _: &Tensor<2>,
        context: Self::Context,
    ) -> Self::State {
        GtmmState {
            memory: context.state,
            previous: Some(Previous {
                latent: z,
                features: features.stem.clone(),
            }),
        }
    }

    fn attention<'a>(&self, context: &'a Self::Context) -> &'a [Attention] {
        &context.memory.attention
    }
}
