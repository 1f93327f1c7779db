//! Operations that only change the graph: operations with several outputs, and splitting rows; and what the uses of weights
//! leave for their node.

pub(crate) mod fused;
pub(crate) mod left;
pub(crate) mod parts;
pub(crate) mod split;
