//! Operations that only change the graph: operations with several outputs, and splitting rows.

pub(crate) mod fused;
pub(crate) mod parts;
pub(crate) mod split;
