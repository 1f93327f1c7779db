//! Allocation, which prefers the freest slots.

use crate::dnc::USAGE_FLOOR;

const FLOOR: f32 = USAGE_FLOOR as f32;
const ABOVE_FLOOR: f32 = (1.0 - USAGE_FLOOR) as f32;

/// Computes the slots in the order of usage (as floats), the product of usage before each slot, and the
/// allocation.
pub(super) fn allocate(
    usage: &[f32],
    order: &mut [f32],
    products: &mut [f32],
    allocation: &mut [f32],
) {
    let floored = |usage: f32| usage * ABOVE_FLOOR + FLOOR;
    let mut slots: Vec<u32> = (0..usage.len() as u32).collect();
    // Adding zero turns negative zero into zero, so that the two compare equal.
    let key = |slot: &u32| usage[*slot as usize] + 0.0;
    slots.sort_unstable_by(|a, b| key(a).total_cmp(&key(b)).then(a.cmp(b)));
    // If the logarithm of any usage does not exist, the whole allocation is NaN.
    let sound = |usage: &f32| floored(*usage) > 0.0 && usage.is_finite();
    let mut product = match usage.iter().all(sound) {
        true => 1.0,
        false => f32::NAN,
    };
    for (place, slot) in order.iter_mut().zip(slots) {
        *place = slot as f32;
        let slot = slot as usize;
        let used = floored(usage[slot]);
        products[slot] = product;
        allocation[slot] = (1.0 - used) * product;
        product *= used;
    }
}

/// Adds the gradient of the allocation with respect to usage.
pub(super) fn allocate_backward(
    usage: &[f32],
    order: &[f32],
    products: &[f32],
    gradient: &[f32],
    usage_out: &mut [f32],
) {
    let floored = |slot: usize| usage[slot] * ABOVE_FLOOR + FLOOR;
    let share = |slot: usize| gradient[slot] * (1.0 - floored(slot)) * products[slot];
    // Zero, or NaN if any share is not finite.
    let mut later = 0.0 * (0..usage.len()).map(share).sum::<f32>();
    for slot in order.iter().rev().map(|slot| *slot as usize) {
        usage_out[slot] += ABOVE_FLOOR * (later / floored(slot) - gradient[slot] * products[slot]);
        later += share(slot);
    }
}
