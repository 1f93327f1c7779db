//! Every memory, core and model has the arrays that `docs/weights.md` lists, and no others.

mod tables;

use burn::tensor::Device;
use mnemora_lab::families::frames::digit_classifier::DigitClassifier;
use mnemora_memory::{
    ControllerKind, ConvLstmConfig, CoreConfig, DncConfig, EntNetConfig, GateStyle, HybridConfig,
    Initializer, IntrospectionConfig, LruConfig, LstmConfig, LstmMemoryConfig, MemoryConfig,
    MemorylessConfig, NtmConfig, RmcConfig, SpatialConfig, StackedLstmConfig,
};
use mnemora_models::{
    AgentConfig, CdnaConfig, CgqnConfig, ClassifierConfig, EncoderDecoderConfig, GqnConfig,
    GtmSmConfig, GtmSmVisual, GtmmConfig, ImageShape, IterativeConfig, LanguageConfig, Latents,
    LikelihoodConfig, ModelError, NetworkName, PriorKind, SceneNetName, SequenceConfig, SrnnConfig,
    SssmConfig, Sv2pConfig, SvgConfig, SvgNetwork, SvgPrior, SvgSkips, TorsoConfig,
    TransitionConfig, TransitionKind, VisualConfig, VrnnConfig, WalkedWorld,
};
use mnemora_training::arrays::collect;
use mnemora_worlds::Stream;
use tables::Checker;

fn initializer() -> Initializer {
    Initializer::new(Stream::new(1, "parameters").at(0), Device::default())
}

/// Sizes by their names in the tables.
type Sizes = Vec<(&'static str, usize)>;

/// Each core with the sizes that its table names. The sizes are different primes, so that none can be mistaken for
/// another.
fn cores(input: usize) -> Vec<(&'static str, CoreConfig, Sizes)> {
    let (hidden, reads, width, slots) = (11, 2, 3, 13);
    let heads = |more: &[(&'static str, usize)]| {
        let sizes = [
            ("hidden", hidden),
            ("reads", reads),
            ("width", width),
            ("slots", slots),
        ];
        [&sizes, more].concat()
    };
    let dnc = |controller, layers| {
        CoreConfig::Dnc(DncConfig {
            input,
            controller,
            layers,
            hidden,
            reads,
            width,
            slots,
        })
    };
    let rmc = |gates, output_gate| {
        CoreConfig::Rmc(RmcConfig {
            input,
            rows: 1,
            slots,
            heads: 2,
            head_size: 5,
            key_size: 7,
            blocks: 2,
            mlp_layers: 3,
            gates,
            output_gate,
            forget_bias: 1.0,
            input_bias: 0.0,
        })
    };
    let relational = |gates, gate| {
        let own = [
            ("heads", 2),
            ("head_size", 5),
            ("key_size", 7),
            ("width", 10),
            ("rows", 1),
        ];
        [&own[..], &[("gates", gates), ("gate", gate)]].concat()
    };
    vec![
        (
            "lstm",
            CoreConfig::Lstm(LstmConfig { input, hidden }),
            vec![("hidden", hidden)],
        ),
        (
            "stacked-lstm",
            CoreConfig::StackedLstm(StackedLstmConfig {
                input,
                hidden,
                layers: 3,
            }),
            vec![("hidden", hidden)],
        ),
        (
            "ntm",
            CoreConfig::Ntm(NtmConfig {
                input,
                hidden,
                reads,
                writes: 5,
                width,
                slots,
            }),
            heads(&[("writes", 5), ("heads", 7)]),
        ),
        (
            "lru",
            CoreConfig::Lru(LruConfig {
                input,
                hidden,
                reads,
                width,
                slots,
                nearest: 0,
            }),
            heads(&[]),
        ),
        ("dnc", dnc(ControllerKind::Lstm, 1), heads(&[])),
        (
            "dnc with memory.dnc.layers = 2",
            dnc(ControllerKind::Lstm, 2),
            heads(&[("layers", 2)]),
        ),
        (
            "dnc with memory.dnc.controller = \"feed-forward\"",
            dnc(ControllerKind::FeedForward, 2),
            heads(&[]),
        ),
        ("rmc", rmc(GateStyle::Unit, false), relational(2, 10)),
        ("rmc", rmc(GateStyle::Memory, true), relational(3, 1)),
        ("rmc", rmc(GateStyle::None, false), relational(0, 0)),
        (
            "ent-net",
            CoreConfig::EntNet(EntNetConfig {
                input,
                cells: 3,
                width: 7,
                slope: 0.25,
            }),
            vec![("cells", 3), ("width", 7)],
        ),
    ]
}

/// The width of a core's output.
fn output_size(config: &CoreConfig) -> usize {
    use mnemora_memory::RecurrentCore;
    config.init(&mut initializer()).unwrap().output_size()
}

/// The consistent GQN and its relatives, with each choice of its networks.
fn check_cgqn(checker: &mut Checker) {
    let frame = ImageShape {
        channels: 3,
        height: 16,
        width: 16,
    };
    use SceneNetName::*;
    for (latents, all, network) in [
        (Latents::Consistent, false, Plain),
        (Latents::Factored, true, Plain),
        (Latents::None, true, Plain),
        (Latents::Consistent, false, Pyramid),
        (Latents::Consistent, false, Tower),
        (Latents::Consistent, false, Pool),
    ] {
        let top = if network == Plain { 13 } else { 24 };
        let attention = if latents == Latents::Consistent { 0 } else { 2 };
        let latents_look = latents == Latents::Factored;
        let config = CgqnConfig {
            steps: 2,
            latent: 3,
            network,
            representation: [5, 7, 11, top],
            hidden: 17,
            encoded: 19,
            canvas: 23,
            decoded: 29,
            kernel: 3,
            stride: 2,
            shared: !all,
            posterior_sees_prior: all,
            renderer_sees_context: all,
            attention,
            latents_look,
            single_latents: network == Pool,
            all_latents: all,
            query_waves: if all { 1 } else { 0 },
            query_units: if all { 31 } else { 0 },
            spread: network == Pool,
            modulated: all,
            ..CgqnConfig::default()
        };
        let sizes = [
            ("channels", 3),
            ("view", if all { 3 * 37 } else { 37 }),
            ("query", if all { 31 } else { 37 }),
            ("r_0", 5),
            ("r_1", 7),
            ("r_2", 11),
            ("r_3", top),
            ("pixels", 16),
            ("cells", 4),
            ("attention", attention),
            ("known", if latents_look { 3 * top } else { top }),
            ("found", top * attention.max(1)),
            ("wide", top),
            ("eighth", 3),
            ("narrow", 11),
            ("left", 2),
            ("latent", 3),
            ("steps", 2),
            ("hidden", 17),
            ("encoded", 19),
            ("canvas", 23),
            ("decoded", 29),
            ("kernel", 3),
            ("stride", 2),
            ("from_prior", if all { 17 } else { 0 }),
            ("context", if all { 19 } else { 0 }),
            ("seen", if all { 6 } else { 3 }),
        ];
        let model = config.init(latents, frame, 37, &mut initializer()).unwrap();
        let network = match network {
            Plain => "Plain network of the CGQN",
            Pyramid => "Pyramid of the GQN",
            Tower | Pool => "Tower of the GQN",
        };
        checker.check_module(&[("CGQN", ""), (network, "")], &model, &sizes);
    }
}

/// Agents that see pictures, and numbers, with a shortcut and without, and with pooled maps.
fn check_agents(checker: &mut Checker) {
    for (shortcut, pool) in [(false, false), (true, false), (true, true)] {
        check_agent(checker, shortcut, pool);
    }
}

fn check_agent(checker: &mut Checker, shortcut: bool, pool: bool) {
    let config = AgentConfig {
        torso: TorsoConfig {
            channels: [5, 7],
            kernels: [2, 2],
            strides: [1, 1],
            pool,
            standardise: pool,
            units: 11,
        },
        head: 13,
        last_action: true,
        pixels: false,
        shortcut,
    };
    let pictures = if pool { (7, 5) } else { (9 * 3 * 4, 3) };
    for (height, (seen, channels)) in [(3, pictures), (1, (11, 3))] {
        let sees = ImageShape {
            channels: 3,
            height,
            width: 4,
        };
        let core = |input| Ok::<_, ModelError>(CoreConfig::Lstm(LstmConfig { input, hidden: 17 }));
        let model = config.init(sees, 19, core, &mut initializer()).unwrap();
        let sizes = [
            ("channels", channels),
            ("seen_channels", 3),
            ("frame", 12),
            ("c_0", 5),
            ("c_1", 7),
            ("kernel", 2),
            ("units", 11),
            ("input", seen + 19 + 1),
            ("hidden", 17),
            ("output", 17),
            ("view", if shortcut { seen } else { 0 }),
            ("head", 13),
            ("actions", 19),
        ];
        let sections = [("lstm", "core."), ("Agent", "")];
        checker.check_module(&sections, &model, &sizes);
    }
}

/// The GQN in its original form, with each of its representation networks.
fn check_original_gqn(checker: &mut Checker) {
    for network in NetworkName::OF_GQN {
        let config = GqnConfig {
            steps: 2,
            hidden: 5,
            latent: 7,
            network,
            wide: 24,
            narrow: 11,
            shared: false,
        };
        let frame = ImageShape {
            channels: 3,
            height: 16,
            width: 16,
        };
        let sizes = [
            ("channels", 3),
            ("query", 13),
            ("hidden", 5),
            ("latent", 7),
            ("wide", 24),
            ("narrow", 11),
            ("eighth", 3),
            ("left", 2),
        ];
        let model = config.init(frame, 13, &mut initializer()).unwrap();
        let network = match network {
            NetworkName::Pyramid => "Pyramid of the GQN",
            NetworkName::Tower | NetworkName::Pool => "Tower of the GQN",
        };
        checker.check_module(&[("GQN", ""), (network, "")], &model, &sizes);
    }
}

/// Predictors of stories.
fn check_stories(checker: &mut Checker) {
    let frame = |side| ImageShape {
        channels: 3,
        height: side,
        width: side,
    };
    for (side, latent) in [(8, 1), (16, 1), (8, 0)] {
        let predictor = CdnaConfig {
            width: 5,
            kernel: 7,
            grid: 2,
            kernels: 11,
            size: 3,
            ..CdnaConfig::default()
        };
        let sizes = [
            ("channels", 3),
            ("width", 5),
            ("kernel", 7),
            ("pixels", 4),
            ("kernels", 11),
            ("places", 9),
            ("latent", latent),
            ("moments", 13),
        ];
        let init = &mut initializer();
        let model = match latent {
            0 => predictor.init(frame(side), 13, init),
            _ => {
                let config = Sv2pConfig {
                    predictor,
                    ..Sv2pConfig::default()
                };
                config.init(frame(side), 13, init)
            }
        };
        checker.check_module(&[("SV2P and CDNA", "")], &model.unwrap(), &sizes);
    }
    for smoothing in [true, false] {
        let config = SssmConfig {
            width: 5,
            latent: 7,
            grid: 2,
            smoothing,
            ..SssmConfig::default()
        };
        let model = config.init(frame(8), [11, 13], &mut initializer()).unwrap();
        let sizes = [
            ("channels", 3),
            ("width", 5),
            ("latent", 7),
            ("seen", 11),
            ("evidence", if smoothing { 10 } else { 5 }),
        ];
        checker.check_module(&[("sSSM", "")], &model, &sizes);
    }
}
/// Cores on their own, and inside models.
fn check_cores(checker: &mut Checker) {
    for (name, config, sizes) in cores(17) {
        let core = config.init(&mut initializer()).unwrap();
        let sizes = [&sizes[..], &[("input", 17)]].concat();
        checker.check_module(&[(name, "")], &core, &sizes);
        let around = [
            &sizes[..],
            &[
                ("output", output_size(&config)),
                ("bits", 19),
                ("head_hidden", 23),
            ],
            &[
                ("classes", 29),
                ("symbols", 31),
                ("vocabulary", 37),
                ("embedding", 17),
            ],
        ]
        .concat();
        let model = SequenceConfig {
            core: config.clone(),
            outputs: 19,
        };
        let model = model.init(&mut initializer()).unwrap();
        checker.check_module(&[(name, "core."), ("Strings of bits", "")], &model, &around);
        let model = ClassifierConfig {
            core: config.clone(),
            head_layers: 2,
            head_hidden: 23,
            classes: 29,
        };
        let model = model.init(&mut initializer()).unwrap();
        checker.check_module(&[(name, "core."), ("Classes", "")], &model, &around);
        let model = LanguageConfig {
            core: config.clone(),
            vocabulary: 37,
            embedding: 17,
        };
        let model = model.init(&mut initializer()).unwrap();
        checker.check_module(&[(name, "core."), ("Texts", "")], &model, &around);
        let model = EncoderDecoderConfig {
            symbols: 31,
            encoder: config.clone(),
            decoder: config,
            head_layers: 2,
            head_hidden: 23,
        };
        let model = model.init(&mut initializer()).unwrap();
        let sections = [(name, "encoder."), (name, "decoder."), ("Programs", "")];
        checker.check_module(&sections, &model, &around);
    }
}

/// Cores of one place, and the memory that remembers nothing.
fn check_conv_lstm_and_none(checker: &mut Checker) {
    let conv_lstm = ConvLstmConfig {
        inputs: 2,
        channels: 5,
        height: 4,
        width: 6,
        kernel: 3,
    };
    let sizes = [("inputs", 2), ("channels", 5), ("kernel", 3)];
    let conv_lstm = conv_lstm.init(&mut initializer()).unwrap();
    checker.check_module(&[("conv-lstm", "")], &conv_lstm, &sizes);

    let none = MemorylessConfig {
        input: 7,
        hidden: 11,
    };
    let sizes = [("input", 7), ("hidden", 11)];
    let none = none.init(&mut initializer()).unwrap();
    checker.check_module(&[("none", "")], &none, &sizes);
}

/// Sizes of the temporal VAEs.
const LATENT: usize = 41;
const CONDITION: usize = 2;
const HIDDEN: usize = 11;

fn vae_sizes() -> Sizes {
    vec![
        ("latent", LATENT),
        ("condition", CONDITION),
        ("hidden", HIDDEN),
        ("reads", 3),
        ("slots", 13),
        ("attention", 7),
        ("key", 5),
        ("channels", 3),
        ("pixels", 3 * 4 * 6),
        ("visual_hidden", 43),
    ]
}

/// Every memory of a temporal VAE, except the one that also takes features: section, prefix, and sizes.
fn memories() -> Vec<(&'static str, &'static str, MemoryConfig, Sizes)> {
    let (latent, condition, hidden) = (LATENT, CONDITION, HIDDEN);
    let (reads, slots, attention) = (3, 13, 7);
    let base = vae_sizes();
    let mut memories = vec![
        (
            "introspection",
            "memory.",
            MemoryConfig::Introspection(IntrospectionConfig {
                latent,
                condition,
                hidden,
                attention,
                reads,
                slots,
            }),
            base.clone(),
        ),
        (
            "hybrid",
            "memory.",
            MemoryConfig::Hybrid(HybridConfig {
                latent,
                condition,
                hidden,
                attention,
                key: 5,
                reads,
                slots,
            }),
            base.clone(),
        ),
        (
            "spatial",
            "memory.",
            MemoryConfig::Spatial(SpatialConfig {
                latent,
                condition,
                place: 17,
                slots,
                ..SpatialConfig::default()
            }),
            [&base[..], &[("place", 17)]].concat(),
        ),
    ];
    for (name, config, sizes) in cores(latent + condition) {
        let sizes = [&base[..], &[("input", latent + condition)], &sizes].concat();
        memories.push((
            name,
            "memory.core.",
            MemoryConfig::Core(config, latent),
            sizes,
        ));
    }
    memories
}

fn normal() -> LikelihoodConfig {
    LikelihoodConfig::Normal {
        bin: 0.0,
        squashed: true,
    }
}

/// Temporal VAEs around every memory, with each kind of network.
fn check_temporal_vaes(checker: &mut Checker) {
    let memories = memories();
    let networks = [
        (
            VisualConfig::Dense {
                hidden: 43,
                features: 53,
            },
            [47, 59],
            normal(),
            2,
            53,
        ),
        // A linear posterior needs features of twice the size of the latent.
        (
            VisualConfig::Dense {
                hidden: 43,
                features: 82,
            },
            [0, 0],
            LikelihoodConfig::Bernoulli,
            1,
            82,
        ),
        (
            VisualConfig::Inception,
            [47, 59],
            LikelihoodConfig::Bernoulli,
            1,
            82,
        ),
        (
            VisualConfig::Pathways { width: 37 },
            [47, 59],
            LikelihoodConfig::Bernoulli,
            1,
            82,
        ),
    ];
    for (visual, [prior_hidden, posterior_hidden], likelihood, parameters, features) in networks {
        let vrnn = MemoryConfig::LstmMemory(LstmMemoryConfig {
            latent: LATENT,
            features,
            condition: CONDITION,
            hidden: HIDDEN,
        });
        let vrnn = ("vrnn", "memory.", vrnn, vae_sizes());
        for (name, prefix, memory, sizes) in memories.iter().chain([&vrnn]) {
            use mnemora_memory::Memory;
            let context = memory.init(&mut initializer()).unwrap().context_size();
            let model = GtmmConfig {
                frame: match visual {
                    VisualConfig::Pathways { .. } => ImageShape {
                        channels: 3,
                        height: 32,
                        width: 32,
                    },
                    _ => ImageShape {
                        channels: 3,
                        height: 4,
                        width: 6,
                    },
                },
                visual: visual.clone(),
                prior_hidden,
                posterior_hidden,
                likelihood: likelihood.clone(),
            };
            let or = |size: usize, other| if size > 0 { size } else { other };
            let sizes = [
                &sizes[..],
                &[
                    ("context", context),
                    ("features", features),
                    ("parameters", parameters),
                ],
                &[
                    ("prior_hidden", prior_hidden),
                    ("posterior_hidden", posterior_hidden),
                ],
                &[("visual_width", 37)],
                &[("prior_first", or(prior_hidden, context))],
                &[("posterior_first", or(posterior_hidden, 2 * LATENT))],
            ]
            .concat();
            let networks = match visual {
                VisualConfig::Inception => "Convolutional networks of a temporal VAE",
                VisualConfig::Dense { .. } => "Dense networks of a temporal VAE",
                VisualConfig::Pathways { .. } => "Pathways of a temporal VAE",
            };
            let model = model.init(memory, &mut initializer()).unwrap();
            let sections = [(*name, *prefix), (networks, ""), ("Temporal VAE", "")];
            checker.check_module(&sections, &model, &sizes);
        }
    }
}

fn check_vrnn(checker: &mut Checker, likelihood: &LikelihoodConfig, parameters: usize) {
    let vrnn = VrnnConfig {
        observation: 5,
        latent: 7,
        hidden: 11,
        layers: 2,
        observation_units: 13,
        latent_units: 17,
        likelihood: likelihood.clone(),
    };
    let sizes = [
        ("observation", 5),
        ("latent", 7),
        ("hidden", 11),
        ("observation_units", 13),
        ("latent_units", 17),
        ("parameters", parameters),
    ];
    let vrnn = vrnn.init(&mut initializer()).unwrap();
    checker.check_module(&[("VRNN", "")], &vrnn, &sizes);
}

fn check_srnn(checker: &mut Checker, likelihood: &LikelihoodConfig, parameters: usize) {
    let sizes = [
        ("observation", 5),
        ("latent", 7),
        ("hidden", 11),
        ("units", 13),
        ("parameters", parameters),
    ];
    for (smoothing, seen) in [(false, 5 + 11), (true, 11 + 7)] {
        let srnn = SrnnConfig {
            observation: 5,
            latent: 7,
            hidden: 11,
            units: 13,
            layers: 2,
            decoder_layers: 3,
            smoothing,
            likelihood: likelihood.clone(),
        };
        let sizes = [&sizes[..], &[("seen", seen)]].concat();
        let srnn = srnn.init(&mut initializer()).unwrap();
        checker.check_module(&[("SRNN", "")], &srnn, &sizes);
    }
}

fn check_svg(checker: &mut Checker, likelihood: &LikelihoodConfig, parameters: usize) {
    let clips = [
        (
            SvgNetwork::Dcgan,
            32,
            "SVG, networks dcgan",
            true,
            SvgPrior::Learned,
        ),
        (
            SvgNetwork::Vgg,
            8,
            "SVG, networks vgg",
            false,
            SvgPrior::Learned,
        ),
        (
            SvgNetwork::Vgg,
            8,
            "SVG, networks vgg",
            true,
            SvgPrior::Fixed,
        ),
    ];
    for (network, side, networks, embedding, prior) in clips {
        let svg = SvgConfig {
            frame: ImageShape {
                channels: 3,
                height: side,
                width: side,
            },
            network,
            width: 2,
            features: 5,
            latent: 7,
            hidden: 11,
            predictor_layers: 3,
            posterior_layers: 2,
            prior_layers: 2,
            embedding,
            prior,
            skips: SvgSkips::Observed,
            likelihood: likelihood.clone(),
        };
        let sizes = [
            ("channels", 3),
            ("channels_0", 2),
            ("channels_1", 4),
            ("channels_2", 8),
            ("features", 5),
            ("latent", 7),
            ("hidden", 11),
            ("predicted", if embedding { 11 } else { 5 + 7 }),
            ("embedded", if embedding { 11 } else { 5 }),
            ("parameters", parameters),
        ];
        let svg = svg.init(&mut initializer()).unwrap();
        checker.check_module(&[("SVG", ""), (networks, "")], &svg, &sizes);
    }
}

fn check_gtm_sm(checker: &mut Checker) {
    for (kind, place, features, prior) in [
        (TransitionKind::Walls, 2, 2, PriorKind::Mixture),
        (TransitionKind::Momentum, 3, 4, PriorKind::Mlp),
    ] {
        for (visual, distance, landmarks, networks) in [
            (GtmSmVisual::Dense, 0, 0, "GTM-SM, dense networks"),
            (GtmSmVisual::Pathways, 31, 4, "GTM-SM, pathways"),
        ] {
            let config = GtmSmConfig {
                latent: 7,
                visual,
                hidden: 11,
                width: 37,
                neighbours: 3,
                distance,
                prior,
                prior_hidden: 17,
                landmarks,
                transition: TransitionConfig {
                    kind,
                    wall_hidden: 19,
                    ..TransitionConfig::default()
                },
                ..GtmSmConfig::default()
            };
            let frame = match visual {
                GtmSmVisual::Dense => [1, 1, 5],
                GtmSmVisual::Pathways => [3, 32, 32],
            };
            let [channels, height, width] = frame;
            let world = WalkedWorld {
                frame: ImageShape {
                    channels,
                    height,
                    width,
                },
                actions: 23,
                place,
                opposites: &[],
                memorise: 29,
            };
            let distance_inputs = features;
            let features = if distance > 0 { distance } else { features };
            let sizes = [
                ("observation", 5),
                ("channels", channels),
                ("latent", 7),
                ("hidden", 11),
                ("width", 37),
                ("actions", 23),
                ("place", place),
                ("distance_inputs", distance_inputs),
                ("features", features),
                ("neighbours", 3),
                ("entry", features + 1 + 2 * 7),
                ("prior_hidden", 17),
                ("landmarks", landmarks),
                ("wall_hidden", 19),
            ];
            let model = config.init(&world, &mut initializer()).unwrap();
            checker.check_module(&[("GTM-SM", ""), (networks, "")], &model, &sizes);
        }
    }
}

/// An additional part of a checkpoint, which has a prefix.
fn check_inference_network(checker: &mut Checker) {
    let net = IterativeConfig {
        latent: 7,
        hidden: 11,
        observation: 5,
        normalise_mean: false,
    };
    let net = collect(&net.init(&mut initializer()).unwrap());
    let net = net
        .into_iter()
        .map(|(name, array)| (format!("inference.{name}"), array))
        .collect();
    let sizes = [("latent", 7), ("units", 11), ("seen", 5)];
    checker.check(&[("Inference network", "")], &net, &sizes);
}

fn check_digit_classifier(checker: &mut Checker) {
    let classifier = DigitClassifier::shipped(&Device::default()).unwrap();
    let sizes = [("first", 16), ("second", 32)];
    checker.check_module(&[("Digit classifier", "")], &classifier, &sizes);
}

#[test]
fn every_array_of_every_model_is_in_the_tables() {
    let mut checker = Checker::new();
    let all = &mut checker;
    check_cores(all);
    check_conv_lstm_and_none(all);
    check_temporal_vaes(all);
    for (likelihood, parameters) in [(LikelihoodConfig::Bernoulli, 1), (normal(), 2)] {
        check_vrnn(all, &likelihood, parameters);
        check_srnn(all, &likelihood, parameters);
        check_svg(all, &likelihood, parameters);
    }
    check_gtm_sm(all);
    check_cgqn(all);
    check_agents(all);
    check_original_gqn(all);
    check_stories(all);
    check_inference_network(all);
    check_digit_classifier(all);
    checker.check_all_seen();
}
