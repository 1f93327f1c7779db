//! The activations of the interface.

use super::sizes::{Sizes, cut, cut_mut};
use crate::flex::simd::math;

/// Activations of the interface.
#[inline(always)]
pub(super) fn activate(sizes: Sizes, interface: &[f32], output: &mut [f32]) {
    output.copy_from_slice(interface);
    let [
        _,
        read_strengths,
        _,
        write_strength,
        erase,
        _,
        free_gates,
        allocation_gate,
        write_gate,
        modes,
    ] = cut_mut(output, sizes.parts());
    for strength in read_strengths.iter_mut().chain(write_strength) {
        *strength = 1.0 + math::softplus(*strength);
    }
    for gate in erase.iter_mut() {
        *gate = math::sigmoid(*gate);
    }
    for gate in free_gates
        .iter_mut()
        .chain(allocation_gate)
        .chain(write_gate)
    {
        *gate = math::sigmoid(*gate);
    }
    for modes in modes.as_chunks_mut::<3>().0 {
        let top = modes[0].max(modes[1]).max(modes[2]);
        for mode in modes.iter_mut() {
            *mode = math::exp(*mode - top);
        }
        let total = modes[0] + modes[1] + modes[2];
        for mode in modes {
            *mode /= total;
        }
    }
}

/// Turns gradients of the activated interface into gradients of the interface.
#[inline(always)]
pub(super) fn deactivate(sizes: Sizes, interface: &[f32], activated: &[f32], gradient: &mut [f32]) {
    let (raw, activated) = (cut(interface, sizes.parts()), cut(activated, sizes.parts()));
    let gradient = cut_mut(gradient, sizes.parts());
    for (index, gradient) in gradient.into_iter().enumerate() {
        match index {
            // Strengths.
            1 | 3 => {
                for (gradient, raw) in gradient.iter_mut().zip(raw[index]) {
                    *gradient *= math::sigmoid(*raw);
                }
            }
            // Gates.
            4 | 6 | 7 | 8 => {
                for (gradient, gate) in gradient.iter_mut().zip(activated[index]) {
                    *gradient *= gate * (1.0 - gate);
                }
            }
            // Modes.
            9 => {
                let modes = activated[index].as_chunks::<3>().0;
                for (gradient, mode) in gradient.as_chunks_mut::<3>().0.iter_mut().zip(modes) {
                    let mean =
                        gradient[0] * mode[0] + gradient[1] * mode[1] + gradient[2] * mode[2];
                    for (gradient, mode) in gradient.iter_mut().zip(mode) {
                        *gradient = mode * (*gradient - mean);
                    }
                }
            }
            // Keys and the write vector have no activation.
            _ => {}
        }
    }
}
