//! What tests share.

use mnemora_memory::{
    CoreConfig, DncConfig, HybridConfig, IntrospectionConfig, LruConfig, MemoryConfig, NtmConfig,
    VrnnConfig,
};

pub const LATENT: usize = 4;
pub const CONDITION: usize = 3;
const INPUT: usize = LATENT + CONDITION;

/// All memories, small.
pub fn memories(slots: usize) -> Vec<(&'static str, MemoryConfig)> {
    let (latent, condition, hidden, reads, width) = (LATENT, CONDITION, 6, 2, 4);
    vec![
        (
            "vrnn",
            MemoryConfig::Vrnn(VrnnConfig {
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
                    hidden,
                    reads,
                    width,
                    slots,
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
    ]
}
