//! The generative temporal model with memory (Gemici et al. 2017, gtmm).

use crate::{
    DiagonalGaussian, FilteringModel, Footprint, ImageShape, Likelihood, LikelihoodConfig,
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
    AnyMemory, Attention, Count, Initializer, Memory, MemoryConfig, MemoryContext, Previous,
};

/// Sizes and choices of a [`Gtmm`], except those of its memory, which sets the sizes of `z` and of conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct GtmmConfig {
    /// Shape of a frame.
    pub frame: ImageShape,
    /// Networks for frames.
    pub visual: VisualConfig,
    /// Hidden units of the prior map, 0 for a linear map.
    pub prior_hidden: usize,
    /// Hidden units of the posterior map, 0 for a linear map.
    pub posterior_hidden: usize,
    /// Likelihood of frames.
    pub likelihood: LikelihoodConfig,
}

/// A temporal VAE whose prior, posterior and observation map see the past only through a memory
/// context (gtmm, equations 7 and 8).
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

/// The context of a step of a [`Gtmm`].
#[derive(Clone, Debug)]
pub struct GtmmContext<S> {
    memory: MemoryContext,
    state: S,
}

/// The state that a [`Gtmm`] carries from step to step.
#[derive(Clone, Debug)]
pub struct GtmmState<S> {
    /// State of the memory.
    pub memory: S,
    /// The results of the last step, which the memory has not yet read.
    pub previous: Option<Previous>,
}

/// The features of a frame for a [`Gtmm`].
#[derive(Clone, Debug)]
pub struct GtmmFeatures {
    /// Output of the visual stem, `[batch, features]`.
    pub stem: Tensor<2>,
    /// The features' part of the posterior map's first layer.
    pub projected: Tensor<2>,
}

mnemora_memory::bundle!(GtmmState<S> { memory, previous });

mnemora_memory::bundle!(GtmmFeatures { stem, projected });

impl GtmmConfig {
    /// Builds the model around a memory chosen at run time; refuses sizes of zero and sizes that do not fit
    /// together. A memory that reads features must expect as many as `visual` gives.
    pub fn init(
        &self,
        memory: &MemoryConfig,
        init: &mut Initializer,
    ) -> Result<Gtmm<AnyMemory>, ModelError> {
        if let MemoryConfig::LstmMemory(memory) = memory {
            let features = self.visual.features(memory.latent);
            if memory.features != features {
                return Err(ModelError::MemoryFeatures {
                    memory: memory.features,
                    visual: features,
                });
            }
        }
        let memory = memory.init(init)?;
        self.init_with(memory, init)
    }

    /// Builds the model around any memory.
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
                self.likelihood.outputs(1),
                init,
            )?,
            memory,
            latent,
            likelihood: self.likelihood.clone(),
        })
    }
}

impl<M: Memory> Gtmm<M> {
    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.posterior.context.weight.device()
    }
}

impl<M: Memory> Gtmm<M> {
    /// Memory that learning from sequences of `time` steps needs, for frames of `pixels` numbers.
    pub fn footprint(&self, pixels: usize, time: usize) -> Footprint {
        let context = Count::from(self.memory.context_size());
        let latent = self.latent;
        let first = self.posterior.context.weight.shape()[1];
        let hidden = self.prior.hidden.as_ref();
        let hidden = hidden.map_or(0, |hidden| hidden.weight.shape()[1]);
        let emission = context + latent;
        let decoder = emission + self.decoder.kept() + self.likelihood.kept(pixels);
        // Priors, and the intermediate results of the KL divergence.
        let prior = context + 2 * hidden + 10 * latent;
        let outside = Count::from(3 * pixels) + self.encoder.kept() + first + prior + decoder;
        let passing = match &self.encoder {
            FrameEncoder::Dense(_) => outside.divided_by(2),
            // Only two of the many maps exist at a time.
            FrameEncoder::Inception(_) | FrameEncoder::Pathways(_) => outside.divided_by(5),
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
    type Prepared = M::Prepared;
    type Features = GtmmFeatures;
    type Context = GtmmContext<M::State>;
    type Emission = Tensor<2>;
    type Prior = DiagonalGaussian;

    fn stored(&self) -> Option<usize> {
        self.memory.stored()
    }

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

    fn prepare(&self) -> M::Prepared {
        self.memory.prepare()
    }

    fn predict(
        &self,
        prepared: &M::Prepared,
        condition: Option<Tensor<2>>,
        _: Option<Tensor<2>>,
        state: Self::State,
    ) -> Self::Context {
        let GtmmState { memory, previous } = state;
        let (memory, state) = self.memory.step(prepared, previous, condition, memory);
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
        Likelihood::from_output(&self.likelihood, self.decoder.forward(emissions))
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
