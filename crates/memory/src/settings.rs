//! The place of a memory in a model, and sizes that settings leave open.

use crate::MemoryError;

/// The sizes of the model that a memory of latents is built into, which its own settings do not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Size of `z`.
    pub latent: usize,
    /// Size of the features of a frame.
    pub features: usize,
    /// Size of the condition `c_t`, 0 for none.
    pub condition: usize,
    /// Steps of a sequence.
    pub time: usize,
}

/// The given number of slots; if that is 0, one per step of a sequence.
pub(crate) fn slots_for(given: usize, time: usize) -> usize {
    match given {
        0 => time,
        given => given,
    }
}

/// [`slots_for`] a store that must hold every step of a sequence.
///
/// # Errors
/// There are fewer slots than steps.
pub(crate) fn store_slots(
    memory: &'static str,
    given: usize,
    time: usize,
) -> Result<usize, MemoryError> {
    let slots = slots_for(given, time);
    match slots < time {
        true => Err(MemoryError::FewerSlotsThanSteps {
            memory,
            slots,
            steps: time,
        }),
        false => Ok(slots),
    }
}
