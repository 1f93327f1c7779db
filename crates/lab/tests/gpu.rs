//! Every memory trains on a GPU as on the processor: the numbers agree within float tolerance. `.ci/run` uses any
//! device that wgpu finds, lavapipe if there is no graphics card.
//!
//! Kernels are compiled for each shape, so there are few sizes, the same for all memories.

use mnemora_lab::{
    Device, DeviceName, LabError, Outcome, Row, RunContext, TrainingError, device_words,
    load_experiment, read_metrics, read_origin, train,
};
use std::time::Instant;

/// Two sequences of two digits and a repetition of one of them; all maps have width eight.
const SIZES: [&str; 29] = [
    "task.length=2",
    "task.recall=1",
    "model.latent=8",
    "model.visual_hidden=8",
    "model.visual_features=8",
    "model.prior_hidden=8",
    "model.posterior_hidden=8",
    "memory.vrnn.hidden=8",
    "memory.introspection.hidden=8",
    "memory.introspection.attention=8",
    "memory.introspection.reads=2",
    "memory.ntm.hidden=8",
    "memory.ntm.width=8",
    "memory.ntm.reads=2",
    "memory.lru.hidden=8",
    "memory.lru.width=8",
    "memory.lru.reads=2",
    "memory.lru.slots=8",
    "memory.dnc.hidden=8",
    "memory.dnc.width=8",
    "memory.dnc.reads=2",
    "memory.hybrid.hidden=8",
    "memory.hybrid.attention=8",
    "memory.hybrid.key=8",
    "memory.hybrid.reads=2",
    "memory.rmc.heads=2",
    "memory.rmc.head_size=8",
    "training.batch=2",
    "training.threads=1",
];
/// Two updates, so that the numbers of the second step depend on the first update.
const SCHEDULE: [&str; 6] = [
    "training.steps=2",
    "training.log_every=1",
    "evaluation.batches=1",
    "evaluation.checkpoint_batches=1",
    "evaluation.batch=2",
    "evaluation.pictures=1",
];

/// Trains a memory on a device. Returns a row of metrics for each step, and the held-out bound.
fn trained(memory: &str, visual: &str, device: Device, rate: f64) -> (Vec<Row>, f64) {
    let words = [
        format!("model.memory={memory}"),
        format!("model.visual={visual}"),
        format!("training.learning_rate={rate}"),
    ];
    let overrides = SIZES.iter().chain(&SCHEDULE).map(|s| s.to_string());
    let overrides: Vec<String> = overrides.chain(words).collect();
    let experiment = load_experiment("perfect-recall-small", &overrides).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let context = RunContext {
        interrupted: &|| None,
        all_saved: &|_| (),
        quiet: true,
        command: "the test gpu".into(),
        commit: "unknown".into(),
        device: device.clone(),
        continue_differently: false,
    };
    let Outcome::Finished(evaluation) = train(experiment, folder.path(), None, &context).unwrap()
    else {
        panic!("nothing interrupts it");
    };
    let origin = read_origin(folder.path()).unwrap();
    assert_eq!(origin.device, device_words(&device));
    let bound = evaluation.measures.number("bound").unwrap();
    (read_metrics(folder.path()).unwrap(), bound)
}

/// The first number in which two trainings differ by more than the tolerance, in words.
fn difference(expected: &(Vec<Row>, f64), found: &(Vec<Row>, f64)) -> Option<String> {
    assert_eq!(expected.0.len(), found.0.len());
    let numbers = |(rows, held_out): &(Vec<Row>, f64)| {
        let mut numbers = Vec::new();
        for row in rows {
            for (name, key) in [("bound", "bound"), ("KL", "kl"), ("norm", "gradient_norm")] {
                let number = row.measures.number(key).expect("a temporal VAE has it");
                numbers.push((format!("{name} of step {}", row.step), number));
            }
        }
        numbers.push(("held-out bound".to_owned(), *held_out));
        numbers
    };
    let (expected, found) = (numbers(expected), numbers(found));
    for ((name, expected), (_, found)) in expected.iter().zip(&found) {
        let error = (found - expected).abs() / expected.abs();
        eprintln!("    {name:14} {expected:>11} {found:>11}  off by {error:.1e}");
    }
    let mut pairs = expected.into_iter().zip(found);
    pairs
        .find(|((_, expected), (_, found))| {
            // Also true for NaN.
            !((found - expected).abs() <= TOLERANCE * expected.abs())
        })
        .map(|((name, expected), (_, found))| format!("{name}: {found}, expected {expected}"))
}

/// Relative to the number.
const TOLERANCE: f64 = 1e-4;

#[test]
fn every_memory_trains_as_on_the_processor() {
    let cpu = DeviceName::Cpu.find().unwrap();
    let gpu = DeviceName::Wgpu.find().unwrap();
    eprintln!("{} against {}", device_words(&gpu), device_words(&cpu));
    let mut wrong = Vec::new();
    for (memory, visual, rate) in [
        ("vrnn", "dense", 0.01),
        ("introspection", "dense", 0.01),
        ("ntm", "dense", 0.01),
        ("lru", "dense", 0.01),
        ("dnc", "dense", 0.01),
        ("hybrid", "dense", 0.01),
        ("rmc", "dense", 0.01),
        // Convolutions and batch norm.
        ("introspection", "inception", 0.0001),
    ] {
        let clock = Instant::now();
        let expected = trained(memory, visual, cpu.clone(), rate);
        let found = trained(memory, visual, gpu.clone(), rate);
        eprintln!("{memory}, {visual}: {:.1} s", clock.elapsed().as_secs_f32());
        if let Some(difference) = difference(&expected, &found) {
            wrong.push(format!("{memory}, {visual}: {difference}"));
        }
        eprintln!("  against an update that is a tenth too large, which must show:");
        let other = trained(memory, visual, cpu.clone(), 1.1 * rate);
        assert!(difference(&other, &found).is_some(), "{memory}, {visual}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Trains with a learning rate that makes the parameters diverge. Returns which step failed, and whether the saved
/// state is finite.
fn diverged(device: Device) -> (u64, bool) {
    // Rows of metrics far apart, so that checks are deferred on a GPU.
    let further = [
        "training.learning_rate=1e30",
        "training.steps=6",
        "training.log_every=6",
        "model.memory=vrnn",
    ];
    let overrides = SIZES.iter().chain(&SCHEDULE).chain(&further);
    let overrides: Vec<String> = overrides.map(|s| s.to_string()).collect();
    let experiment = load_experiment("perfect-recall-small", &overrides).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let context = RunContext {
        interrupted: &|| None,
        all_saved: &|_| (),
        quiet: true,
        command: "the test gpu".into(),
        commit: "unknown".into(),
        device,
        continue_differently: false,
    };
    let failed = train(experiment, folder.path(), None, &context);
    let Err(LabError::Training(TrainingError::NonFinite {
        step, checkpoint, ..
    })) = failed
    else {
        panic!("{failed:?}");
    };
    let checkpoint = checkpoint.expect("the state before was saved");
    let bytes = std::fs::read(checkpoint.join("weights.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut numbers = bytes[8 + header..].chunks_exact(4);
    let finite = numbers.all(|b| f32::from_le_bytes(b.try_into().unwrap()).is_finite());
    (step, finite)
}

#[test]
fn a_step_that_is_not_finite_ends_a_training() {
    let cpu = diverged(DeviceName::Cpu.find().unwrap());
    assert_eq!(cpu, (2, true));
    assert_eq!(diverged(DeviceName::Wgpu.find().unwrap()), cpu);
}
