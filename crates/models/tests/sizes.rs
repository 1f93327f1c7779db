//! Parameter counts of the paper's models. They equal a calculation that reproduces
//! gtmm, Table 1, to within 0.12%.

use burn::{module::Module, tensor::Device};
use mnemora_memory::{Initializer, IntrospectionConfig, LstmMemoryConfig, MemoryConfig};
use mnemora_models::{
    FilteringModel, GtmmConfig, ImageShape, LikelihoodConfig, ModelError, SrnnConfig, SvgConfig,
    SvgNetwork, VisualConfig, VrnnConfig,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// Running statistics: mean and variance of 32 channels in each of six batch norms, and of the
/// encoder's and decoder's streams.
const RUNNING_STATISTICS: usize = 2 * 32 * 7;

fn config() -> GtmmConfig {
    GtmmConfig {
        frame: ImageShape {
            channels: 1,
            height: 28,
            width: 28,
        },
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
    let model = config().init(&memory, &mut init()).unwrap();
    assert_eq!(model.num_params() - RUNNING_STATISTICS, 1_862_782);
}

#[test]
fn vrnn_at_paper_size() {
    let memory = MemoryConfig::LstmMemory(LstmMemoryConfig {
        latent: 32,
        features: 64,
        condition: 0,
        hidden: 244,
    });
    let model = config().init(&memory, &mut init()).unwrap();
    assert_eq!(model.num_params() - RUNNING_STATISTICS, 1_882_161);
}

#[test]
fn frames_larger_than_the_canvas_are_refused() {
    let memory = MemoryConfig::LstmMemory(LstmMemoryConfig {
        latent: 32,
        features: 64,
        condition: 0,
        hidden: 8,
    });
    let mut config = config();
    config.frame.height = 33;
    let error = config.init(&memory, &mut init()).unwrap_err();
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
    let error = config().init(&memory, &mut init()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory.introspection.reads is 0, it must be at least 1"
    );
}

/// A memory with the VRNN core that reads this number of features.
fn small_memory(features: usize) -> MemoryConfig {
    MemoryConfig::LstmMemory(LstmMemoryConfig {
        latent: 3,
        features,
        condition: 0,
        hidden: 8,
    })
}

fn small() -> GtmmConfig {
    GtmmConfig {
        visual: VisualConfig::Dense {
            hidden: 8,
            features: 6,
        },
        ..config()
    }
}

/// The size of a latent is set only by the memory.
#[test]
fn latents_are_those_of_the_memory() {
    let model = small().init(&small_memory(6), &mut init()).unwrap();
    assert_eq!(model.latent_size(), 3);
    let error = small().init(&small_memory(5), &mut init()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory.vrnn.features is 5, it must be 6, the number of features of a frame"
    );
}

/// Every model refuses it.
#[test]
fn a_likelihood_without_spread_is_refused() {
    let srnn = |likelihood| SrnnConfig {
        observation: 4,
        latent: 2,
        hidden: 3,
        units: 3,
        layers: 1,
        decoder_layers: 1,
        smoothing: false,
        likelihood,
    };
    let vrnn = |likelihood| VrnnConfig {
        observation: 4,
        latent: 2,
        hidden: 3,
        layers: 1,
        observation_units: 3,
        latent_units: 3,
        likelihood,
    };
    let svg = |likelihood| SvgConfig {
        likelihood,
        width: 2,
        ..SvgConfig::original(
            ImageShape {
                channels: 1,
                height: 8,
                width: 8,
            },
            SvgNetwork::Dcgan,
        )
    };
    let gtmm = |likelihood| GtmmConfig {
        likelihood,
        ..small()
    };
    let refused = |likelihood: LikelihoodConfig| {
        [
            srnn(likelihood.clone()).init(&mut init()).map(drop),
            vrnn(likelihood.clone()).init(&mut init()).map(drop),
            svg(likelihood.clone()).init(&mut init()).map(drop),
            gtmm(likelihood)
                .init(&small_memory(6), &mut init())
                .map(drop),
        ]
        .map(|built| built.unwrap_err().to_string())
    };
    for std in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let expected = format!("model.likelihood_std is {std}, it must be a positive number");
        for found in refused(LikelihoodConfig::Gaussian { std }) {
            assert_eq!(found, expected);
        }
    }
    for bin in [-1.0, f64::NAN, f64::INFINITY] {
        let squashed = true;
        for found in refused(LikelihoodConfig::Normal { bin, squashed }) {
            assert!(found.contains(&format!("bins is {bin}")), "{found}");
        }
    }
}
