//! Densities, divergences and samples.

pub(crate) mod bernoulli;
pub(crate) mod bins;
pub(crate) mod gaussian;
pub(crate) mod halves;
