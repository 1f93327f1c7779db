//! Steps of memories, and their parts.

pub(crate) mod content;
pub(crate) mod dnc;
pub(crate) mod gated;
pub(crate) mod highway;
pub(crate) mod norm;
pub(crate) mod relation;
