//! All benchmarks, in the order of the table.

use crate::training::FixedBatchTraining;
use crate::{
    agents,
    benchmark::{Benchmark, Prepared},
    cost::Cost,
    count,
    draws::{initializer, numbers},
    kernels, language, navigation, own, relational, scenes, sequences, sv2p,
};
use burn::tensor::Tensor;
use mnemora_kernels::split::split_rows;
use mnemora_lab::load_experiment;
use mnemora_memory::{Lstm, RecurrentCore};
use mnemora_models::{ImageShape, visual::InceptionEncoder};
use mnemora_worlds::labyrinth::{ACTIONS, Labyrinth, LabyrinthConfig};
use mnemora_worlds::scenes::{Dice, Scenes};
use mnemora_worlds::{
    BoxWorld, BoxWorldConfig, Environment, MiniPacman, MiniPacmanConfig, Mnist, Split, Stream,
};

/// The benchmarks for which the project promises a ratio to PyTorch.
pub const MUST_SHOW: [&str; 6] = [
    "conv-blocks/gtmm-b1",
    "lstm-step/512",
    "lstm-step/128",
    "train-step/introspection-paper",
    "train-step/dnc-paper",
    "train-step/vrnn-paper",
];

/// All benchmarks except those that measure the limits of the machine.
pub fn benchmarks() -> Vec<Benchmark> {
    let mut benchmarks = vec![
        convolution_blocks(),
        lstm("lstm-step", 512),
        lstm("lstm-step", 128),
    ];
    benchmarks.extend(["introspection", "dnc", "vrnn", "ntm", "lru", "hybrid"].map(training_step));
    benchmarks.extend(sequences::benchmarks());
    benchmarks.extend(own::benchmarks());
    benchmarks.extend(relational::benchmarks());
    benchmarks.push(language::benchmark());
    benchmarks.extend(navigation::benchmarks());
    benchmarks.extend(scenes::benchmarks());
    benchmarks.push(sv2p::benchmark());
    benchmarks.extend(agents::benchmarks());
    benchmarks.push(lstm("lstm-sequence", 512));
    benchmarks.push(lstm("lstm-sequence", 128));
    benchmarks.extend(kernels::benchmarks().into_iter().map(kernel));
    benchmarks.push(labyrinth());
    benchmarks.extend(environments());
    benchmarks.push(dice());
    benchmarks
}

/// The encoder of gtmm, B.1, without its last linear map, on 250 frames.
fn convolution_blocks() -> Benchmark {
    const FRAMES: usize = 250;
    let frame = ImageShape {
        channels: 1,
        height: 28,
        width: 28,
    };
    Benchmark {
        name: "conv-blocks/gtmm-b1".into(),
        prepare: Box::new(move |device| {
            let encoder = InceptionEncoder::new(frame, 64, &mut initializer(device))?;
            let frames = numbers([FRAMES, frame.size()], device).clamp(0.0, 1.0);
            Ok(Prepared::new(
                count::convolution_blocks(FRAMES),
                move || {
                    encoder.maps(frames.clone()).backward();
                },
            ))
        }),
    }
}

/// An LSTM over 25 steps of ten sequences, one step at a time, with the gradients of weights and inputs.
fn lstm(name: &str, hidden: usize) -> Benchmark {
    const TIME: usize = 25;
    const BATCH: usize = 10;
    const INPUTS: usize = 32;
    Benchmark {
        name: format!("{name}/{hidden}"),
        prepare: Box::new(move |device| {
            let lstm = Lstm::new(INPUTS, hidden, &mut initializer(device));
            let inputs = numbers([TIME * BATCH, INPUTS], device).require_grad();
            let device = device.clone();
            let cost = count::lstm([TIME, BATCH, INPUTS, hidden]);
            Ok(Prepared::new(cost, move || {
                let prepared = lstm.prepare();
                let mut state = lstm.initial_state(BATCH, &device);
                let mut outputs = Vec::with_capacity(TIME);
                for input in split_rows(inputs.clone(), TIME) {
                    state = lstm.step(&prepared, input, state).1;
                    outputs.push(state.hidden.clone());
                }
                Tensor::cat(outputs, 0).backward();
            }))
        }),
    }
}

/// A training step (forward, backward, clipping, Adam) at paper size on perfect recall, l = 15,
/// k = 5, batch 10.
fn training_step(memory: &'static str) -> Benchmark {
    Benchmark {
        name: format!("train-step/{memory}-paper"),
        prepare: Box::new(move |device| {
            let overrides = [format!("model.memory={memory}")];
            let experiment = load_experiment("perfect-recall", &overrides)?;
            let mut training = FixedBatchTraining::new(experiment, 1, device)?;
            let sizes = training.sizes();
            let cost = count::training_step(&sizes, training.frames());
            Ok(Prepared::of_model(cost, sizes.model, move || {
                Ok(training.update()?)
            }))
        }),
    }
}

/// One step of an agent that acts at random, with its observation, on one core.
fn environments() -> [Benchmark; 4] {
    let pacman = |viewport| {
        MiniPacman::new(MiniPacmanConfig {
            viewport,
            ..MiniPacmanConfig::default()
        })
        .expect("the default settings are in their ranges")
    };
    let boxes = |viewport| {
        BoxWorld::new(BoxWorldConfig {
            viewport,
            ..BoxWorldConfig::default()
        })
        .expect("the default settings are in their ranges")
    };
    [
        environment("mini-pacman/5x5", pacman(5)),
        environment("mini-pacman/15x19", pacman(0)),
        environment("box-world/5x5", boxes(5)),
        environment("box-world/14x14", boxes(0)),
    ]
}

fn environment(name: &str, environment: impl Environment + Clone + 'static) -> Benchmark {
    Benchmark {
        name: name.into(),
        prepare: Box::new(move |_| {
            let mut environment = environment.clone();
            let spec = environment.spec();
            let mut observation = vec![0.0; spec.frame.size()];
            let cost = Cost::array(observation.len());
            let draws = Stream::new(1, "benchmark").uniform_values(0, 4096);
            let actions = draws
                .iter()
                .map(|draw| (draw * spec.actions.len() as f64) as usize);
            let actions: Vec<usize> = actions.collect();
            let mut steps = 0;
            let mut last = true;
            Ok(Prepared::new(cost, move || {
                let step = if last {
                    environment.reset(steps as u64, &mut observation)
                } else {
                    environment.step(actions[steps % actions.len()], &mut observation)
                };
                last = step.expect("an episode runs, and the buffer fits").last;
                steps += 1;
            }))
        }),
    }
}

/// One step of an agent in a labyrinth with its frame of 32 x 32, on one core.
fn labyrinth() -> Benchmark {
    Benchmark {
        name: "labyrinth/32x32".into(),
        prepare: Box::new(|_| {
            let mut labyrinth = Labyrinth::new(LabyrinthConfig::default())
                .expect("the default settings are in their ranges");
            let mut observation = vec![0.0; labyrinth.spec().frame.size()];
            let cost = Cost::array(observation.len());
            let mut steps = 0;
            let mut last = true;
            Ok(Prepared::new(cost, move || {
                // Each action for ten steps, and a new episode when one is over.
                let action = steps / 10 % ACTIONS.len();
                let step = if last {
                    labyrinth.reset(steps as u64, &mut observation)
                } else {
                    labyrinth.step(action, &mut observation)
                };
                last = step.expect("an episode runs, and the buffer fits").last;
                steps += 1;
            }))
        }),
    }
}

/// One view of a die in its room, 64 x 64, on one core.
fn dice() -> Benchmark {
    Benchmark {
        name: "dice/64x64".into(),
        prepare: Box::new(|_| {
            let digits = Mnist::bundled().expect("the bundled digits are sound");
            let dice = Dice::new(&digits, 64).expect("frames of this size can be drawn");
            let stream = Stream::new(1, "benchmark");
            let mut frame = vec![0.0; dice.frame().size()];
            let cost = Cost::array(frame.len());
            let mut views = 0;
            Ok(Prepared::new(cost, move || {
                // One view of each die.
                let die = dice.scene(Split::Train, &stream, views);
                let view = views as usize % die.views();
                die.render(view, die.truth(), &mut frame);
                views += 1;
            }))
        }),
    }
}

fn kernel(kernel: kernels::KernelBenchmark) -> Benchmark {
    Benchmark {
        name: format!("kernel/{}", kernel.name),
        prepare: Box::new(move |device| Ok(Prepared::new(kernel.cost, (kernel.prepare)(device)))),
    }
}
