//! Cost of one step of each memory, by number of slots.

use crate::{
    BenchError,
    benchmark::median,
    draws::{initializer, numbers},
};
use burn::tensor::{Device, Tensor};
use mnemora_lab::find_device;
use mnemora_memory::{
    AnyMemory, AnyMemoryState, ControllerKind, CoreConfig, DncConfig, HybridConfig,
    IntrospectionConfig, LruConfig, Memory, MemoryConfig, NtmConfig, Previous, hybrid::Stored,
};
use mnemora_training::threads::Threads;
use serde::Serialize;
use std::time::Instant;

const SLOTS: [usize; 3] = [100, 1_000, 10_000];
const LATENT: usize = 32;
const READS: usize = 5;
const HIDDEN: usize = 116;
const KEY: usize = 32;
/// Number of nearest slots for sparse reads.
const NEAREST: usize = 8;
/// Steps of a sequence; two if a step takes gigabytes.
const TIME: usize = 8;

/// The cost of a memory's step.
#[derive(Clone, Debug, Serialize)]
pub struct SlotRow {
    /// Name of the measurement.
    pub work: String,
    /// Median wall time in milliseconds.
    pub ours_ms: f64,
    /// Number of measurements.
    pub repetitions: usize,
    /// Processor threads.
    pub threads: usize,
}

/// Times one step of every memory at 100, 1,000 and 10,000 slots, batch 1: the forward pass alone, and the
/// forward pass with its share of the backward pass over a sequence. Memories that store one latent per step
/// start full.
pub fn bench_slots(repetitions: usize) -> Result<Vec<SlotRow>, BenchError> {
    let mut rows = Vec::new();
    for slots in SLOTS {
        for (name, config) in memories(slots) {
            rows.extend(Threads::default_count()?.run(|| step(name, &config, slots, repetitions))?);
        }
    }
    Ok(rows)
}

fn memories(slots: usize) -> Vec<(&'static str, MemoryConfig)> {
    let lru = |nearest| {
        let config = LruConfig {
            input: LATENT,
            hidden: HIDDEN,
            reads: READS,
            width: LATENT,
            slots,
            nearest,
        };
        MemoryConfig::Core(CoreConfig::Lru(config), LATENT)
    };
    vec![
        (
            "introspection",
            MemoryConfig::Introspection(IntrospectionConfig {
                latent: LATENT,
                condition: 0,
                hidden: HIDDEN,
                attention: HIDDEN,
                reads: READS,
                slots,
            }),
        ),
        (
            "hybrid",
            MemoryConfig::Hybrid(HybridConfig {
                latent: LATENT,
                condition: 0,
                hidden: HIDDEN,
                attention: HIDDEN,
                key: KEY,
                reads: READS,
                slots,
            }),
        ),
        (
            "ntm",
            MemoryConfig::Core(
                CoreConfig::Ntm(NtmConfig {
                    input: LATENT,
                    hidden: HIDDEN,
                    reads: READS,
                    writes: 1,
                    width: LATENT,
                    slots,
                }),
                LATENT,
            ),
        ),
        ("lru", lru(0)),
        ("lru-nearest-8", lru(NEAREST)),
        (
            "dnc",
            MemoryConfig::Core(
                CoreConfig::Dnc(DncConfig {
                    input: LATENT,
                    controller: ControllerKind::Lstm,
                    layers: 1,
                    hidden: HIDDEN,
                    reads: READS,
                    width: LATENT,
                    slots,
                }),
                LATENT,
            ),
        ),
    ]
}

/// Random rows `[1, count, width]`.
fn rows(count: usize, width: usize, device: &Device) -> Tensor<3> {
    numbers([1, count, width], device)
}

/// The state before the first step; full for a memory that stores one latent per step.
fn full_state(memory: &AnyMemory, slots: usize, device: &Device) -> AnyMemoryState {
    let mut state = memory.initial_state(1, device);
    match &mut state {
        AnyMemoryState::Introspection(state) => state.memory = Some(rows(slots, LATENT, device)),
        AnyMemoryState::Hybrid(state) => {
            state.stored = Some(Stored {
                latents: rows(slots, LATENT, device),
                latent_keys: rows(slots, KEY, device),
                place_keys: rows(slots, KEY, device),
            });
        }
        _ => {}
    }
    state
}

fn step(
    name: &str,
    config: &MemoryConfig,
    slots: usize,
    repetitions: usize,
) -> Result<Vec<SlotRow>, BenchError> {
    let time = match (name, slots) {
        ("dnc", 10_000..) => 2,
        _ => TIME,
    };
    let milliseconds = |train: bool| -> Result<f64, BenchError> {
        let device = match train {
            true => find_device(None)?.autodiff(),
            false => find_device(None)?,
        };
        let mut init = initializer(&device);
        let memory = config
            .init(&mut init)
            .map_err(mnemora_models::ModelError::from)?;
        let latent = rows(1, LATENT, &device).squeeze_dim::<2>(1);
        let previous = Previous {
            features: latent.clone(),
            latent,
        };
        let mut times = Vec::with_capacity(repetitions);
        // One more than is counted, to warm up.
        for repetition in 0..=repetitions {
            let mut state = full_state(&memory, slots, &device);
            let clock = Instant::now();
            let prepared = memory.prepare();
            let mut contexts = Vec::with_capacity(time);
            for _ in 0..time {
                let (context, next) = memory.step(&prepared, Some(previous.clone()), None, state);
                state = next;
                contexts.push(context.psi);
            }
            let psi = Tensor::cat(contexts, 1);
            let total = (psi.clone() * psi).sum();
            if train {
                let _ = total.backward();
            } else {
                let _: f32 = total.into_scalar();
            }
            if repetition > 0 {
                times.push(clock.elapsed().as_secs_f64() * 1e3 / time as f64);
            }
        }
        Ok(median(times))
    };
    [("forward", false), ("forward-backward", true)]
        .into_iter()
        .map(|(what, train)| {
            Ok(SlotRow {
                work: format!("memory-step/{name}/{slots}-slots/{what}"),
                ours_ms: milliseconds(train)?,
                repetitions,
                threads: rayon::current_num_threads(),
            })
        })
        .collect()
}

/// The rows as a Markdown table.
pub fn slot_table(rows: &[SlotRow]) -> String {
    let mut text = String::from("| work | ms | threads |\n| --- | --- | --- |\n");
    for row in rows {
        text.push_str(&format!(
            "| {} | {:.2} | {} |\n",
            row.work, row.ours_ms, row.threads
        ));
    }
    text
}
