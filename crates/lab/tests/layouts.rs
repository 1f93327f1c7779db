//! Every memory, core and model has the arrays that `docs/weights.md` lists, and no others.

use burn::{module::Module, tensor::Device};
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
use mnemora_training::arrays::{Array, Arrays, collect};
use mnemora_worlds::Stream;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// A line of a table: a name, a shape, and whether the arrays exist only under a condition.
struct Row {
    name: String,
    shape: String,
    conditional: bool,
}

/// The tables, by the heading above each.
fn tables() -> BTreeMap<String, Vec<Row>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/weights.md");
    let text = fs::read_to_string(path).expect("the repository has the tables");
    let mut tables = BTreeMap::new();
    for section in text.split("\n### ").skip(1) {
        // A heading of a higher level ends the section.
        let section = section.split("\n## ").next().unwrap_or(section);
        let (heading, body) = section.split_once('\n').expect("a heading has a section");
        let rows = body.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            Some(Row {
                name: cells.next()?.trim_end_matches('`').to_owned(),
                shape: cells.next()?.trim_matches('`').to_owned(),
                conditional: cells.next()?.starts_with("If "),
            })
        });
        tables.insert(heading.to_owned(), rows.collect());
    }
    tables
}

/// Evaluates a sum of products of numbers and named sizes.
fn value(expression: &str, sizes: &BTreeMap<&str, usize>) -> usize {
    let factor = |word: &str| match word.parse() {
        Ok(number) => number,
        Err(_) => *sizes
            .get(word)
            .unwrap_or_else(|| panic!("the size {word} of {expression} is not known")),
    };
    let terms = expression.split(" + ");
    terms
        .map(|term| term.split(" * ").map(factor).product::<usize>())
        .sum()
}

/// Name and shape of each array of a row.
fn arrays_of(name: &str, shape: &str, sizes: &BTreeMap<&str, usize>) -> Vec<(String, Vec<usize>)> {
    let (kind, list) = shape
        .trim_end_matches([')', ']'])
        .split_once(['(', '['])
        .unwrap_or_else(|| panic!("{shape} is not a shape"));
    let list: Vec<usize> = list.split(", ").map(|size| value(size, sizes)).collect();
    let part = |part: &str, shape: &[usize]| (format!("{name}.{part}"), shape.to_vec());
    match (kind, list.as_slice()) {
        ("", shape) => vec![(name.to_owned(), shape.to_vec())],
        ("linear", &[a, b]) => vec![part("weight", &[a, b]), part("bias", &[b])],
        ("map", &[a, b]) => vec![part("weight", &[a, b])],
        ("lstm", &[a, h]) => vec![
            part("weight_input", &[a, 4 * h]),
            part("weight_hidden", &[h, 4 * h]),
            part("bias", &[4 * h]),
        ],
        ("layer_norm", &[n]) => vec![part("gamma", &[n]), part("beta", &[n])],
        ("batch_norm", &[n]) => ["gamma", "beta", "running_mean", "running_var"]
            .map(|statistic| part(statistic, &[n]))
            .into(),
        ("conv", &[a, b, k]) => vec![part("weight", &[b, a, k, k]), part("bias", &[b])],
        ("transposed", &[a, b, k]) => vec![part("weight", &[a, b, k, k]), part("bias", &[b])],
        _ => panic!("{shape} is not a shape"),
    }
}

/// The names that a name with `{first..last}` stands for, each with its number. Without `last`, they continue as long
/// as `there` knows the name.
fn counted(name: &str, there: impl Fn(&str) -> bool) -> Vec<(String, usize)> {
    let Some((before, rest)) = name.split_once('{') else {
        return vec![(name.to_owned(), 0)];
    };
    let (range, after) = rest.split_once('}').expect("a brace is closed");
    let (first, last) = range.split_once("..").expect("a range in braces");
    let first = first.parse().expect("a range starts with a number");
    let names = (first..).map(|number: usize| (format!("{before}{number}{after}"), number));
    match last.parse::<usize>() {
        Ok(last) => names.take(last + 1 - first).collect(),
        Err(_) => names.take_while(|(name, _)| there(name)).collect(),
    }
}

/// Compares models with the tables, and records which rows were used.
struct Checker {
    tables: BTreeMap<String, Vec<Row>>,
    seen: BTreeSet<String>,
}

impl Checker {
    /// `arrays` must be exactly those of the sections, each under its prefix.
    fn check(&mut self, sections: &[(&str, &str)], arrays: &Arrays, sizes: &[(&str, usize)]) {
        let model = sections.last().expect("a section").0;
        let mut left: BTreeMap<&str, &Array> = arrays
            .iter()
            .map(|(name, array)| (name.as_str(), array))
            .collect();
        for (section, prefix) in sections {
            let rows = self.tables.get(*section);
            for row in rows.unwrap_or_else(|| panic!("no table {section}")) {
                let there = |name: &str| {
                    let mut names = arrays.keys();
                    names.any(|found| found == name || found.starts_with(&format!("{name}.")))
                };
                let open = row.conditional || row.name.contains("..}");
                for (name, number) in counted(&format!("{prefix}{}", row.name), there) {
                    if open && !there(&name) {
                        continue;
                    }
                    self.seen.insert(format!("{section}: {}", row.name));
                    let mut sizes: BTreeMap<&str, usize> = sizes.iter().copied().collect();
                    sizes.insert("i", number);
                    for (name, shape) in arrays_of(&name, &row.shape, &sizes) {
                        let found = left.remove(name.as_str());
                        let found = found.map(|array| &array.shape);
                        assert_eq!(found, Some(&shape), "{model}: {name}");
                    }
                }
            }
        }
        assert!(left.is_empty(), "{model}: no row for {:?}", left.keys());
    }

    fn check_module<M: Module>(
        &mut self,
        sections: &[(&str, &str)],
        module: &M,
        sizes: &[(&str, usize)],
    ) {
        self.check(sections, &collect(module), sizes);
    }
}

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

#[test]
fn every_array_of_every_model_is_in_the_tables() {
    let mut checker = Checker {
        tables: tables(),
        seen: BTreeSet::new(),
    };

    // Cores on their own and inside models.
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

    // Temporal VAEs around every memory, with each kind of network.
    let (latent, condition, hidden, reads, slots, attention) = (41, 2, 11, 3, 13, 7);
    let base = [
        ("latent", latent),
        ("condition", condition),
        ("hidden", hidden),
        ("reads", reads),
        ("slots", slots),
        ("attention", attention),
        ("key", 5),
        ("channels", 3),
        ("pixels", 3 * 4 * 6),
        ("visual_hidden", 43),
    ];
    let mut memories: Vec<(&str, &str, MemoryConfig, Sizes)> = vec![
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
            base.to_vec(),
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
            base.to_vec(),
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
    let normal = LikelihoodConfig::Normal {
        bin: 0.0,
        squashed: true,
    };
    let networks = [
        (
            VisualConfig::Dense {
                hidden: 43,
                features: 53,
            },
            [47, 59],
            normal.clone(),
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
            latent,
            features,
            condition,
            hidden,
        });
        let vrnn = ("vrnn", "memory.", vrnn, base.to_vec());
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
                &[("posterior_first", or(posterior_hidden, 2 * latent))],
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

    // Models of recordings.
    for (likelihood, parameters) in [(LikelihoodConfig::Bernoulli, 1), (normal, 2)] {
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
            let sizes = [&sizes[..], &[("units", 13), ("seen", seen)]].concat();
            let srnn = srnn.init(&mut initializer()).unwrap();
            checker.check_module(&[("SRNN", "")], &srnn, &sizes);
        }
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

    check_cgqn(&mut checker);
    check_agents(&mut checker);
    check_original_gqn(&mut checker);
    check_stories(&mut checker);

    // Additional parts of a checkpoint have a prefix.
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
    let classifier = DigitClassifier::shipped(&Device::default()).unwrap();
    let sizes = [("first", 16), ("second", 32)];
    checker.check_module(&[("Digit classifier", "")], &classifier, &sizes);

    for (section, rows) in &checker.tables {
        for row in rows {
            let row = format!("{section}: {}", row.name);
            assert!(checker.seen.contains(&row), "no model has the row {row}");
        }
    }
}
