//! LSTM steps and sequences, and affine maps that a time loop uses at every step, and walks with walls.

pub(crate) mod gates;
pub(crate) mod lstm;
pub(crate) mod panels;
pub(crate) mod sequence;
pub(crate) mod step_map;
pub(crate) mod steps;
pub(crate) mod walk;
