//! Parameter counts of the paper's models, exactly those of the arithmetic that reproduces
//! gtmm, Table 1 within 0.12%.

use burn::{module::Module, tensor::Device};
use mnemora_memory::{Initializer, IntrospectionConfig, MemoryConfig, VrnnConfig};
use mnemora_models::{FrameShape, GtmmConfig, LikelihoodConfig, ModelError, VisualConfig};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// Running statistics: mean and variance of 32 channels in each of six batch norms, and of the
/// encoder's and decoder's streams.
const RUNNING_STATISTICS: usize = 2 * 32 * 7;

fn config(memory: MemoryConfig) -> GtmmConfig {
    GtmmConfig {
        frame: FrameShape {
            channels: 1,
            height: 28,
            width: 28,
        },
        latent: 32,
        memory,
        visual: VisualConfig::Inception,
        prior_hidden: 0,
        posterior_hidden: 0,
        likelihood: LikelihoodConfig::Bernoulli,
    }
}

fn init() -> Initializer {
    Initializer::new(ChaCha8Rng::seed_from_u64(0), Device::default())
}

#[test]
fn introspection_at_paper_size() {
    let memory = MemoryConfig::Introspection(IntrospectionConfig {
        latent: 32,
        condition: 0,
        hidden: 336,
        attention: 256,
        reads: 5,
        slots: 25,
    });
    let model = config(memory).init(&mut init()).unwrap();
    assert_eq!(model.num_params() - RUNNING_STATISTICS, 1_862_782);
}

#[test]
fn vrnn_at_paper_size() {
    let memory = MemoryConfig::Vrnn(VrnnConfig {
        latent: 32,
        features: 64,
        condition: 0,
        hidden: 244,
    });
    let model = config(memory).init(&mut init()).unwrap();
    assert_eq!(model.num_params() - RUNNING_STATISTICS, 1_882_161);
}

#[test]
fn frames_larger_than_the_canvas_are_refused() {
    let memory = MemoryConfig::Vrnn(VrnnConfig {
        latent: 32,
        features: 64,
        condition: 0,
        hidden: 8,
    });
    let mut config = config(memory);
    config.frame.height = 33;
    let error = config.init(&mut init()).unwrap_err();
    assert_eq!(
        error,
        ModelError::FrameTooLarge {
            height: 33,
            width: 28
        }
    );
}

#[test]
fn a_memory_without_heads_is_refused() {
    let memory = MemoryConfig::Introspection(IntrospectionConfig {
        latent: 32,
        condition: 0,
        hidden: 8,
        attention: 8,
        reads: 0,
        slots: 25,
    });
    let error = config(memory).init(&mut init()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory.introspection.reads is 0, it must be at least 1"
    );
}
