//! Code shared by tests.

use mnemora_memory::{
    ControllerKind, ConvLstmConfig, CoreConfig, DncConfig, EntNetConfig, GateStyle, HybridConfig,
    IntrospectionConfig, LruConfig, LstmMemoryConfig, MemoryConfig, NtmConfig, RmcConfig,
    SpatialConfig, StackedLstmConfig,
};

pub const LATENT: usize = 4;
pub const CONDITION: usize = 3;
const INPUT: usize = LATENT + CONDITION;

/// All memories, at small sizes.
pub fn memories(slots: usize) -> Vec<(&'static str, MemoryConfig)> {
    let (latent, condition, hidden, reads, width) = (LATENT, CONDITION, 6, 2, 4);
    vec![
        (
            "vrnn",
            MemoryConfig::LstmMemory(LstmMemoryConfig {
                latent,
                features: latent,
                condition,
                hidden,
            }),
        ),
        (
            "introspection",
            MemoryConfig::Introspection(IntrospectionConfig {
                latent,
                condition,
                hidden,
                attention: 5,
                reads,
                slots,
            }),
        ),
        (
            "ntm",
            MemoryConfig::Core(
                CoreConfig::Ntm(NtmConfig {
                    input: INPUT,
                    hidden,
                    reads,
                    writes: 2,
                    width,
                    slots,
                }),
                latent,
            ),
        ),
        (
            "lru",
            MemoryConfig::Core(
                CoreConfig::Lru(LruConfig {
                    input: INPUT,
                    hidden,
                    reads,
                    width,
                    slots,
                    nearest: 0,
                }),
                latent,
            ),
        ),
        (
            "lru of the nearest",
            MemoryConfig::Core(
                CoreConfig::Lru(LruConfig {
                    input: INPUT,
                    hidden,
                    reads,
                    width,
                    slots,
                    nearest: 3,
                }),
                latent,
            ),
        ),
        (
            "dnc",
            MemoryConfig::Core(
                CoreConfig::Dnc(DncConfig {
                    input: INPUT,
                    controller: ControllerKind::Lstm,
                    layers: 1,
                    hidden,
                    reads,
                    width,
                    slots,
                }),
                latent,
            ),
        ),
        (
            "dnc with two layers",
            MemoryConfig::Core(
                CoreConfig::Dnc(DncConfig {
                    input: INPUT,
                    controller: ControllerKind::Lstm,
                    layers: 2,
                    hidden,
                    reads,
                    width,
                    slots,
                }),
                latent,
            ),
        ),
        (
            "dnc without a controller's state",
            MemoryConfig::Core(
                CoreConfig::Dnc(DncConfig {
                    input: INPUT,
                    controller: ControllerKind::FeedForward,
                    layers: 2,
                    hidden,
                    reads,
                    width,
                    slots,
                }),
                latent,
            ),
        ),
        (
            "rmc",
            MemoryConfig::Core(
                CoreConfig::Rmc(RmcConfig {
                    blocks: 2,
                    ..RmcConfig::new(INPUT, slots, reads, width)
                }),
                latent,
            ),
        ),
        (
            "rmc with an output gate",
            MemoryConfig::Core(
                CoreConfig::Rmc(RmcConfig {
                    gates: GateStyle::Memory,
                    output_gate: true,
                    ..RmcConfig::new(INPUT, 1, reads, width)
                }),
                latent,
            ),
        ),
        (
            "rmc without gates",
            MemoryConfig::Core(
                CoreConfig::Rmc(RmcConfig {
                    gates: GateStyle::None,
                    ..RmcConfig::new(INPUT, slots, reads, width)
                }),
                latent,
            ),
        ),
        (
            "stacked LSTM",
            MemoryConfig::Core(
                CoreConfig::StackedLstm(StackedLstmConfig {
                    input: INPUT,
                    hidden,
                    layers: 2,
                }),
                latent,
            ),
        ),
        (
            "entity network",
            MemoryConfig::Core(
                CoreConfig::EntNet(EntNetConfig::new(INPUT, slots, width)),
                latent,
            ),
        ),
        (
            "convolutional LSTM",
            MemoryConfig::Core(
                CoreConfig::ConvLstm(ConvLstmConfig {
                    inputs: 1,
                    channels: 3,
                    height: INPUT,
                    width: 1,
                    kernel: 2,
                }),
                latent,
            ),
        ),
        (
            "hybrid",
            MemoryConfig::Hybrid(HybridConfig {
                latent,
                condition,
                hidden,
                attention: 5,
                key: 3,
                reads,
                slots,
            }),
        ),
        (
            "spatial",
            MemoryConfig::Spatial(SpatialConfig {
                latent,
                condition,
                place: 2,
                neighbours: 3,
                slots,
                delta: 1e-2,
                step: 0.5,
            }),
        ),
    ]
}
