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
    /// An LSTM in layers.
    pub stacked_lstm: StackedLstmSettings,
    /// Relational Memory Core.
    pub rmc: RmcSettings,
    /// Memory of the entity network.
    pub ent_net: EntNetSettings,
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
    /// What drives the heads: `lstm`, or `feed-forward`, which has no state.
    pub controller: DncControllerName,
    /// Layers of the controller.
    pub layers: usize,
    /// Size of the controller's state, of each layer.
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

/// Sizes of the LSTM in layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackedLstmSettings {
    /// Size of each layer's state.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
}

/// Sizes of the entity network's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntNetSettings {
    /// Cells.
    pub cells: usize,
    /// Width of a cell.
    pub width: usize,
}

/// Sizes of the Relational Memory Core. Each of its slots is `heads * head_size` wide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RmcSettings {
    /// Memory rows.
    pub slots: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width of a head's values.
    pub head_size: usize,
    /// Width of a head's queries and keys; 0 for that of its values.
    pub key_size: usize,
    /// Rounds of attention at each step.
    pub blocks: usize,
    /// Layers of the MLP.
    pub mlp_layers: usize,
    /// Gates for each `unit`, for each `memory`, or `none`.
    pub gates: GateName,
    /// Whether there is an output gate, too.
    pub output_gate: bool,
}

/// The controllers of a Differentiable Neural Computer by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DncControllerName {
    /// An LSTM, in layers where there are several.
    Lstm,
    /// Layers without a state.
    FeedForward,
}

/// The gates of a Relational Memory Core by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateName {
    /// For each unit of each memory.
    Unit,
    /// For each memory.
    Memory,
    /// No gates.
    None,
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
            controller: DncControllerName::Lstm,
            layers: 1,
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

impl Default for StackedLstmSettings {
    fn default() -> Self {
        Self {
            hidden: 128,
            layers: 2,
        }
    }
}

impl Default for EntNetSettings {
    fn default() -> Self {
        Self {
            cells: 4,
            width: 128,
        }
    }
}

impl Default for RmcSettings {
    fn default() -> Self {
        Self {
            slots: 4,
            heads: 4,
            head_size: 32,
            key_size: 0,
            blocks: 1,
            mlp_layers: 2,
            gates: GateName::Unit,
            output_gate: false,
        }
    }
}
