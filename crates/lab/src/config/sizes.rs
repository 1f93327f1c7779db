//! Sizes of the memories, one table each.

use serde::{Deserialize, Serialize};

/// One size table per memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemorySettings {
    /// LSTM core.
    pub vrnn: VrnnSettings,
    /// Introspection network.
    pub introspection: IntrospectionSettings,
    /// Neural Turing Machine.
    pub ntm: NtmSettings,
    /// Least-recently-used memory.
    pub lru: LruSettings,
    /// Differentiable Neural Computer.
    pub dnc: DncSettings,
    /// Direct storage with positional and content addressing.
    pub hybrid: HybridSettings,
    /// An LSTM without any other memory.
    pub lstm: LstmSettings,
}

/// Sizes of the LSTM core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VrnnSettings {
    /// Size of the LSTM's state.
    pub hidden: usize,
}

/// Sizes of the Introspection network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntrospectionSettings {
    /// Size of the controller's state.
    pub hidden: usize,
    /// Hidden units of the attention network.
    pub attention: usize,
    /// Read heads.
    pub reads: usize,
    /// Slots; 0 for as many as a sequence has steps.
    pub slots: usize,
}

/// Sizes of the Neural Turing Machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NtmSettings {
    /// Size of the controller's state.
    pub hidden: usize,
    /// Read heads.
    pub reads: usize,
    /// Write heads.
    pub writes: usize,
    /// Width of a memory row.
    pub width: usize,
    /// Memory rows; 0 for as many as a sequence has steps.
    pub slots: usize,
}

/// Sizes of the least-recently-used memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LruSettings {
    /// Size of the controller's state.
    pub hidden: usize,
    /// Read heads; there are as many write heads.
    pub reads: usize,
    /// Width of a memory row.
    pub width: usize,
    /// Memory rows; 0 for five times as many as a sequence has steps.
    pub slots: usize,
    /// Slots that a head reads, the nearest to its key; 0 for all.
    pub nearest: usize,
}

/// Sizes of the Differentiable Neural Computer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DncSettings {
    /// Size of the controller's state.
    pub hidden: usize,
    /// Read heads.
    pub reads: usize,
    /// Width of a memory row.
    pub width: usize,
    /// Memory rows; 0 for as many as a sequence has steps.
    pub slots: usize,
}

/// Sizes of the hybrid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HybridSettings {
    /// Size of the controller's state.
    pub hidden: usize,
    /// Hidden units of the positional attention network.
    pub attention: usize,
    /// Width of the content keys.
    pub key: usize,
    /// Read heads.
    pub reads: usize,
    /// Slots; 0 for as many as a sequence has steps.
    pub slots: usize,
}

/// Sizes of the LSTM without any other memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LstmSettings {
    /// Size of its state.
    pub hidden: usize,
}

impl Default for VrnnSettings {
    fn default() -> Self {
        Self { hidden: 128 }
    }
}

impl Default for IntrospectionSettings {
    fn default() -> Self {
        Self {
            hidden: 128,
            attention: 128,
            reads: 5,
            slots: 0,
        }
    }
}

impl Default for NtmSettings {
    fn default() -> Self {
        Self {
            hidden: 100,
            reads: 5,
            writes: 1,
            width: 32,
            slots: 0,
        }
    }
}

impl Default for LruSettings {
    fn default() -> Self {
        Self {
            hidden: 100,
            reads: 5,
            width: 32,
            slots: 0,
            nearest: 0,
        }
    }
}

impl Default for DncSettings {
    fn default() -> Self {
        Self {
            hidden: 100,
            reads: 5,
            width: 32,
            slots: 0,
        }
    }
}

impl Default for HybridSettings {
    fn default() -> Self {
        Self {
            hidden: 100,
            attention: 128,
            key: 32,
            reads: 5,
            slots: 0,
        }
    }
}

impl Default for LstmSettings {
    fn default() -> Self {
        Self { hidden: 128 }
    }
}
